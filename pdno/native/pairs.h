/* The operator whose x-factors are at all points, for a block of outputs:
 *
 *     out_bj = sum_i b_ji g_bji,    g_bji = F^-1[c_ji f_bi],
 *     b'_ji = sum_b out'_bj g_bji,    p_bji = (F^-1)^T[b_ji out'_bj],
 *     c'_ji = sum_b conj(f_bi) p_bji,    f'_bi = sum_j conj(c_ji) p_bji
 *
 * Rows of two neighbouring inputs are transformed together, and multiplied by b and added up while
 * they are in registers. Lines are (2, rows, wave_row).
 */
#define FACTORS (16 * 1024 * 1024) /* bytes of b that are packed at once */
#define CACHED (640 * 1024)        /* bytes of the second cache */

/* what is done at the points of two rows: sums += b u + next v, or u' += sums u, v' += sums v */
typedef struct { const float *b, *next; vector *sums, *u_bar, *v_bar; int samples; } row_pair;

INLINE complex_vector factors_at(const row_pair *s, long x)
{
    const int samples = s->samples;
    return (complex_vector){for_outputs(s->b + OUTPUTS * x, samples),
                            for_outputs(s->next + OUTPUTS * x, samples)};
}

INLINE void emit_products(const void *to, long x, complex_vector g)
{
    const complex_vector b = factors_at(to, x);
    ((const row_pair *)to)->sums[x] += b.re * g.re + b.im * g.im;
}

INLINE void emit_gradients(const void *to, long x, complex_vector g)
{
    const row_pair *s = to;
    s->u_bar[x] += s->sums[x] * g.re, s->v_bar[x] += s->sums[x] * g.im;
}

INLINE complex_vector fetch_products(const void *from, long x)
{
    const vector grad = ((const row_pair *)from)->sums[x];
    const complex_vector b = factors_at(from, x);
    return (complex_vector){grad * b.re, grad * b.im};
}

/* inputs whose x-factors are packed at once */
INLINE long factors_at_once(const layer *s, const int samples)
{
    const long fit = FACTORS / (points_of(s) * OUTPUTS * (long)sizeof(float));
    return smaller(larger(fit / 2 * 2, 2), s->inputs);
}

INLINE long pair_size(const layer *s) { return 2 * s->inner.points * s->wave_row; }
/* how many of `most` pairs of rows stay in the cache: of inputs, forward, where they are added up,
 * or backward of batch blocks, where b' is; in space, with slabs beside them, one */
INLINE long together(const layer *s, long most)
{
    const long fit = CACHED / (pair_size(s) * (long)sizeof(complex_vector));
    return s->dim == 3 ? 1 : smaller(larger(fit, 1), most);
}

INLINE char *lay_out_pairs(char *at, workspace *w, const layer *s, const int backward,
                           const int samples)
{
    const long blocks = blocks_of(s->batch, samples), N = points_of(s);
    const long lines = together(s, backward ? blocks : (s->inputs + 1) / 2) * pair_size(s);
    const long factors = factors_at_once(s, samples) * N * OUTPUTS * (long)sizeof(float);
    const long symbol = s->inputs * modes_of(s) * 2 * OUTPUTS * (long)sizeof(float);
    TAKE(lines, complex_vector, lines * sizeof(complex_vector));
    TAKE(slabs, complex_vector, slab_step(s, 2) * s->outer.points * sizeof(complex_vector));
    TAKE(totals, vector, blocks * N * sizeof(vector));
    TAKE(a, float, factors);
    TAKE(c, float, symbol);
    w->c_bar = w->c;
    if (backward) {
        TAKE(sums, vector, 2 * s->row.points * sizeof(vector));
        TAKE(b_bar, float, factors);
        TAKE(c_bar, float, symbol);
    }
    return take_columns(at, w, s);
}

/* lines of the `q`-th of the batch blocks together: one slab of the inputs i .. end, or back */
INLINE void move_pair(coefficients all, long i, long end, long slab, long q, const workspace *w,
                      const layer *s, const int back, const int samples)
{
    const long size = pair_size(s), half = size / 2;
    const waves h = {w->lines + q * size, half, 1, s->wave_row};
    complex_vector *from = s->dim == 3 ? w->slabs + slab * slab_step(s, 2) : 0;
    if (!back && end == i + 1) memset(h.at + half, 0, half * sizeof(complex_vector));
    move_waves(all, 0, s->row.modes, i, end, from, h, w, s, back, samples);
}

/* a block of outputs and the batch blocks first .. last */
INLINE void pairs_forward(const tensors *a, char *space, const layer *s, long block, long first,
                          long last, const int samples)
{
    const long I = s->inputs, N = points_of(s), N3 = s->row.points, rows = s->inner.points;
    const long some = factors_at_once(s, samples), pairs = together(s, (I + 1) / 2);
    workspace w;
    lay_out_pairs(space, &w, s, 0, samples);
    move_symbol(a->c, w.c, s, block, 0, samples);
    memset(w.totals, 0, (last - first) * N * sizeof(vector));
    factor_range range = {0, 0, 0};
    for (long i = 0, end; i < I; i = end) {
        if (i == range.last) {
            range.first = i, range.last = smaller(i + some, I);
            move_factors(a->b, w.a, s, block, range, 0, samples);
        }
        end = smaller(i + 2 * pairs, range.last);
        for (long n = first; n < last; n++) {
            const coefficients all = block_of(a, &w, s, n, samples);
            if (s->dim == 3) move_slabs(all, i, end, slab_step(s, 2), &w, s, 0, samples);
            for (long r = 0; r < s->outer.points * rows; r++) {
                for (long q = i; r % rows == 0 && q < end; q += 2)
                    move_pair(all, q, smaller(q + 2, end), r / rows, (q - i) / 2, &w, s, 0,
                              samples);
                vector *sums = w.totals + (n - first) * N + r * N3;
                for (long q = i; q < end; q += 2) {
                    const float *b = w.a + factor_place(s, range, r, q - range.first) * OUTPUTS;
                    const float *next = q + 1 < end ? b + N3 * OUTPUTS : b;
                    const row_pair at = {b, next, sums, 0, 0, samples};
                    complex_vector *u = w.lines + ((q - i) * rows + r % rows) * s->wave_row;
                    transform_rows(u, u + rows * s->wave_row, w.line, emit_products, 0, &at, s);
                }
            }
        }
    }
    for (long n = first; n < last; n++)
        for (long r = 0; r < s->outer.points * rows; r++)
            move_row(w.totals + (n - first) * N + r * N3, a->out, s, n, block, r, 0, samples);
}

/* rows of one slab of two inputs, for the batch blocks start .. end: b' is added to */
INLINE void turn_rows(const workspace *w, const layer *s, factor_range range, long i, long slab,
                      long start, long end, const int samples)
{
    const long N = points_of(s), N3 = s->row.points, rows = s->inner.points;
    const int both = i + 1 < s->inputs;
    for (long r = 0; r < rows; r++) {
        const long place = factor_place(s, range, slab * rows + r, i - range.first) * OUTPUTS;
        const float *b = w->a + place, *next = both ? b + N3 * OUTPUTS : b;
        memset(w->sums, 0, 2 * N3 * sizeof(vector));
        for (long n = start; n < end; n++) {
            vector *grad = w->totals + n * N + (slab * rows + r) * N3;
            const row_pair at = {b, next, grad, w->sums, w->sums + N3, samples};
            complex_vector *u = w->lines + (n - start) * pair_size(s) + r * s->wave_row;
            complex_vector *v = u + rows * s->wave_row;
            transform_rows(u, v, w->line, emit_gradients, fetch_products, &at, s);
        }
        for (long x = 0; x < (1 + both) * N3; x++)
            add_over_samples(w->b_bar + place + OUTPUTS * x, w->sums[x], samples);
    }
}

/* a block of outputs; f' is added to */
INLINE void pairs_backward(const tensors *a, char *space, const layer *s, long block,
                           const int samples)
{
    const long I = s->inputs, N = points_of(s), N3 = s->row.points, rows = s->inner.points;
    const long modes = modes_of(s), slabs = s->outer.points;
    const long blocks = blocks_of(s->batch, samples), many = together(s, blocks);
    const long some = factors_at_once(s, samples), step = slab_step(s, 2);
    workspace w;
    lay_out_pairs(space, &w, s, 1, samples);
    move_symbol(a->c, w.c, s, block, 0, samples);
    memset(w.c_bar, 0, I * modes * 2 * OUTPUTS * sizeof(float));
    for (long n = 0; n < blocks; n++)
        for (long r = 0; r < slabs * rows; r++)
            move_row(w.totals + n * N + r * N3, (float *)a->grad, s, n, block, r, 1, samples);
    factor_range range = {0, 0, 0};
    for (long i = 0; i < I; i += 2) {
        if (i == range.last) {
            range.first = i, range.last = smaller(i + some, I);
            move_factors(a->b, w.a, s, block, range, 0, samples);
            memset(w.b_bar, 0, (range.last - i) * N * OUTPUTS * sizeof(float));
        }
        const long end = smaller(i + 2, I);
        for (long start = 0; start < blocks; start += many) {
            const long stop = smaller(start + many, blocks);
            const coefficients one = block_of(a, &w, s, start, samples);
            if (s->dim == 3) move_slabs(one, i, end, step, &w, s, 0, samples);
            for (long slab = 0; slab < slabs; slab++) {
                for (long n = start; n < stop; n++)
                    move_pair(block_of(a, &w, s, n, samples), i, end, slab, n - start, &w, s, 0,
                              samples);
                turn_rows(&w, s, range, i, slab, start, stop, samples);
                for (long n = start; n < stop; n++)
                    move_pair(block_of(a, &w, s, n, samples), i, end, slab, n - start, &w, s, 1,
                              samples);
            }
            if (s->dim == 3) move_slabs(one, i, end, step, &w, s, 1, samples);
        }
        if (end == range.last) move_factors(a->b_bar, w.b_bar, s, block, range, 1, samples);
    }
    move_symbol(a->c_bar, w.c_bar, s, block, 1, samples);
}
