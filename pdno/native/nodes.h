/* The operator whose x-factors are interpolated along the last axis, for a block of outputs:
 *
 *     out_bj(r, y) = sum_m l_m(y) F^-1[ sum_i A_jim(r) h_bji(r, .) ](y),   h_bji = F^-1[c_ji f_bi]
 *
 * where h is synthesised along the full axes only: r is a row of the grid, m a node. An output has
 * M rows to transform instead of I, two at a time. l is (M / 2, N3, 2), lines are (rows, M,
 * wave_row), h is (I, GROUP, rows | 1), odd because of the cache, and on a line (GROUP, I).
 */
#define GROUP 4      /* modes of h at once, backward */
#define FEW_MODES 64 /* of which A' is added up in one go on a line */

INLINE waves node_waves(const workspace *w, const layer *s)
{
    const long step = s->inner.points | 1;
    if (s->dim == 1) return (waves){w->h, 1, s->inputs, 1};
    return (waves){w->h, GROUP * step, step, 1};
}

/* ---- the sum over inputs ---- */

/* lines(m) = sum_i A_im h_i at all rows, for one mode; A (rows, I, M, OUTPUTS) */
INLINE void mix(const float *a, waves h, complex_vector *lines, const layer *s, const int samples)
{
    const long M = s->nodes, I = s->inputs;
    for (long r = 0; r < s->inner.points; r++)
        for (long m = 0; m < M; m += 4) {
            const float *at = a + (r * I * M + m) * OUTPUTS;
            const complex_vector *in = h.at + r;
            complex_vector sums[4] = {{{0}, {0}}};
            for (long i = 0; i < I; i++, at += M * OUTPUTS, in += h.input) {
                complex_vector here = *in;
                HOLD(here.re);
                HOLD(here.im);
                for (int n = 0; n < 4; n++) {
                    const vector factor = for_outputs(at + n * OUTPUTS, samples);
                    sums[n].re += factor * here.re, sums[n].im += factor * here.im;
                }
            }
            for (int n = 0; n < 4; n++) lines[(r * M + m + n) * s->wave_row] = sums[n];
        }
}

/* A' += Re conj(h) lines', and h becomes h' = sum_m A_m lines'(m), for `many` modes of some
 * inputs; A (I, rows, M, OUTPUTS) */
INLINE void mix_back(const float *a, vector *a_bar, waves h, const complex_vector *lines,
                     long inputs, const layer *s, const int samples, const int many)
{
    const long M = s->nodes, rows = s->inner.points;
    for (long r = 0; r < rows; r++)
        for (long i = 0; i < inputs; i++) {
            const float *factors = a + (i * rows + r) * M * OUTPUTS;
            vector *sums = a_bar + (i * rows + r) * M;
            complex_vector *at = h.at + i * h.input + r, here[2], back[2];
            for (int q = 0; q < many; q++) {
                here[q] = at[q * h.mode], back[q] = (complex_vector){{0}, {0}};
                HOLD(here[q].re);
                HOLD(here[q].im);
            }
            const complex_vector *p = lines + r * M * s->wave_row;
            for (long m = 0; m < M; m++, p += s->wave_row) {
                const vector factor = for_outputs(factors + m * OUTPUTS, samples);
                vector one = sums[m], two = {0};
                for (int q = 0; q < many; q++) {
                    vector re = p[q].re, im = p[q].im;
                    HOLD(re);
                    HOLD(im);
                    one += here[q].re * re, two += here[q].im * im;
                    back[q].re += factor * re, back[q].im += factor * im;
                }
                sums[m] = one + two;
            }
            for (int q = 0; q < many; q++) at[q * h.mode] = back[q];
        }
}

/* the inputs of `range` for the modes k3 .. end. On a line A' has a sum over all modes, too long
 * for float32 in one go. */
INLINE void mix_all_back(const workspace *w, long k3, long end, factor_range range, long slab,
                         const layer *s, const int samples)
{
    const factor_range all = {0, s->inputs, 1};
    const long at = factor_place(s, all, slab * s->inner.points, range.first);
    const long inputs = range.last - range.first;
    const float *a = w->a + at * OUTPUTS;
    vector *a_bar = (s->dim == 1 ? w->part : w->a_bar) + at;
    waves h = node_waves(w, s);
    for (long k = k3; k < end; k += 2, h.at += 2 * h.mode)
        if (k + 1 < end) mix_back(a, a_bar, h, w->lines + k, inputs, s, samples, 2);
        else mix_back(a, a_bar, h, w->lines + k, inputs, s, samples, 1);
    if (s->dim > 1 || (end % FEW_MODES && end < s->row.modes)) return;
    for (long e = 0; e < inputs * s->nodes; e++) w->a_bar[at + e] += a_bar[e];
    memset(a_bar, 0, inputs * s->nodes * sizeof(vector));
}

/* ---- rows ---- */

typedef struct { const float *basis; vector *sums; } node_pair;

/* sum += l_m Re g + l_{m+1} Im g */
INLINE void emit_nodes(const void *to, long x, complex_vector g)
{
    const node_pair *s = to;
    s->sums[x] += s->basis[2 * x] * g.re + s->basis[2 * x + 1] * g.im;
}

INLINE complex_vector fetch_nodes(const void *from, long x)
{
    const node_pair *s = from;
    return (complex_vector){s->basis[2 * x] * s->sums[x], s->basis[2 * x + 1] * s->sums[x]};
}

/* rows of a slab from their lines to out, or from out' to their lines */
INLINE void transform_nodes(const tensors *a, const workspace *w, const layer *s, long n,
                            long block, long slab, const int back, const int samples)
{
    complex_vector *lines = w->lines;
    const long rows = s->inner.points, N3 = s->row.points;
    float *out = back ? (float *)a->grad : a->out;
    for (long r = 0; r < rows; r++) {
        if (back) move_row(w->sums, out, s, n, block, slab * rows + r, 1, samples);
        else memset(w->sums, 0, N3 * sizeof(vector));
        for (long m = 0; m < s->nodes; m += 2, lines += 2 * s->wave_row) {
            const node_pair at = {a->basis + m * N3, w->sums};
            complex_vector *v = lines + s->wave_row;
            transform_rows(lines, v, w->line, back ? 0 : emit_nodes, back ? fetch_nodes : 0, &at,
                           s);
        }
        if (!back) move_row(w->sums, out, s, n, block, slab * rows + r, 0, samples);
    }
}

/* ---- the operator ---- */

/* inputs whose h and A' stay together in the cache; on a line all */
INLINE long inputs_together(const layer *s)
{
    const long each = GROUP * sizeof(complex_vector) + s->nodes * sizeof(vector);
    const long fit = CACHED / 2 / (s->inner.points * each);
    return s->dim == 1 ? s->inputs : smaller(larger(fit, 1), s->inputs);
}

INLINE complex_vector *node_slab(const workspace *w, const layer *s, long slab, long i)
{
    const long column = s->row.modes * s->inner.modes;
    return s->dim == 3 ? w->slabs + slab * slab_step(s, s->inputs) + i * column : 0;
}

INLINE char *lay_out_nodes(char *at, workspace *w, const layer *s, const int backward,
                           const int samples)
{
    const long rows = s->inner.points, slabs = s->outer.points, I = s->inputs;
    const long inputs = backward ? inputs_together(s) : I, factors = slabs * rows * I * s->nodes;
    const long symbol = I * modes_of(s) * 2 * OUTPUTS * (long)sizeof(float);
    TAKE(lines, complex_vector, rows * s->nodes * s->wave_row * sizeof(complex_vector));
    TAKE(h, complex_vector, GROUP * (rows | 1) * inputs * sizeof(complex_vector));
    TAKE(slabs, complex_vector, slabs * slab_step(s, I) * sizeof(complex_vector));
    TAKE(sums, vector, FOURS(s->row.points) * sizeof(vector));
    TAKE(a, float, factors * OUTPUTS * sizeof(float));
    TAKE(c, float, symbol);
    w->c_bar = w->c;
    if (backward) {
        TAKE(c_bar, float, symbol);
        TAKE(a_bar, vector, factors * sizeof(vector));
        TAKE(part, vector, s->dim == 1 ? I * s->nodes * sizeof(vector) : 0);
    }
    return take_columns(at, w, s);
}

/* a block of outputs and the batch blocks first .. last */
INLINE void nodes_forward(const tensors *a, char *space, const layer *s, long block, long first,
                          long last, const int samples)
{
    const long I = s->inputs;
    const factor_range range = {0, I, 0};
    workspace w;
    lay_out_nodes(space, &w, s, 0, samples);
    const waves h = node_waves(&w, s);
    move_symbol(a->c, w.c, s, block, 0, samples);
    move_factors(a->b, w.a, s, block, range, 0, samples);
    for (long n = first; n < last; n++) {
        const coefficients all = block_of(a, &w, s, n, samples);
        if (s->dim == 3) move_slabs(all, 0, I, slab_step(s, I), &w, s, 0, samples);
        for (long slab = 0; slab < s->outer.points; slab++) {
            const long place = factor_place(s, range, slab * s->inner.points, 0);
            complex_vector *from = node_slab(&w, s, slab, 0);
            for (long k = 0; k < s->row.modes; k++) {
                move_waves(all, k, k + 1, 0, I, from, h, &w, s, 0, samples);
                mix(w.a + place * OUTPUTS, h, w.lines + k, s, samples);
            }
            transform_nodes(a, &w, s, n, block, slab, 0, samples);
        }
    }
}

/* a block of outputs; f' is added to */
INLINE void nodes_backward(const tensors *a, char *space, const layer *s, long block,
                           const int samples)
{
    const long I = s->inputs, K3 = s->row.modes, some = inputs_together(s);
    const long factors = s->outer.points * s->inner.points * I * s->nodes;
    const factor_range all_inputs = {0, I, 1};
    workspace w;
    lay_out_nodes(space, &w, s, 1, samples);
    const waves h = node_waves(&w, s);
    move_symbol(a->c, w.c, s, block, 0, samples);
    move_factors(a->b, w.a, s, block, all_inputs, 0, samples);
    memset(w.c_bar, 0, I * modes_of(s) * 2 * OUTPUTS * sizeof(float));
    memset(w.a_bar, 0, factors * sizeof(vector));
    if (s->dim == 1) memset(w.part, 0, I * s->nodes * sizeof(vector));
    for (long n = 0; n < blocks_of(s->batch, samples); n++) {
        const coefficients all = block_of(a, &w, s, n, samples);
        if (s->dim == 3) move_slabs(all, 0, I, slab_step(s, I), &w, s, 0, samples);
        for (long slab = 0; slab < s->outer.points; slab++) {
            transform_nodes(a, &w, s, n, block, slab, 1, samples);
            for (long i = 0; i < I; i += some)
                for (long k = 0; k < K3; k += GROUP) {
                    const factor_range range = {i, smaller(i + some, I), 1};
                    const long end = smaller(k + GROUP, K3);
                    complex_vector *from = node_slab(&w, s, slab, i);
                    move_waves(all, k, end, i, range.last, from, h, &w, s, 0, samples);
                    mix_all_back(&w, k, end, range, slab, s, samples);
                    move_waves(all, k, end, i, range.last, from, h, &w, s, 1, samples);
                }
        }
        if (s->dim == 3) move_slabs(all, 0, I, slab_step(s, I), &w, s, 1, samples);
    }
    move_symbol(a->c_bar, w.c_bar, s, block, 1, samples);
    for (long e = 0; e < factors; e++) { /* over the samples, in the same memory */
        const vector sum = w.a_bar[e];
        memset((float *)w.a_bar + e * OUTPUTS, 0, OUTPUTS * sizeof(float));
        add_over_samples((float *)w.a_bar + e * OUTPUTS, sum, samples);
    }
    move_factors(a->b_bar, (float *)w.a_bar, s, block, all_inputs, 1, samples);
}
