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

INLINE void emit_products(const void *to, long x, complex_vector g)
{
    const row_pair *s = to;
    const int samples = s->samples;
    s->sums[x] += for_outputs(s->b + OUTPUTS * x, samples) * g.re
        + for_outputs(s->next + OUTPUTS * x, samples) * g.im;
}

INLINE void emit_gradients(const void *to, long x, complex_vector g)
{
    const row_pair *s = to;
    s->u_bar[x] += s->sums[x] * g.re, s->v_bar[x] += s->sums[x] * g.im;
}

INLINE complex_vector fetch_products(const void *from, long x)
{
    const row_pair *s = from;
    const int samples = s->samples;
    return (complex_vector){s->sums[x] * for_outputs(s->b + OUTPUTS * x, samples),
                            s->sums[x] * for_outputs(s->next + OUTPUTS * x, samples)};
}

/* inputs whose x-factors are packed at once */
INLINE long factors_at_once(const layer *s, const int samples)
{
    const long fit = FACTORS / (points_of(s) * OUTPUTS * (long)sizeof(float));
    return smaller(larger(fit / 2 * 2, 2), s->inputs);
}

INLINE long pair_size(const layer *s) { return 2 * s->inner.points * s->wave_row; }

/* batch blocks whose lines stay in the cache, backward, where b' is added up over them first */
INLINE long blocks_together(const layer *s, const int samples)
{
    const long slabs = slab_step(s, 2) * s->outer.points;
    const long fit = CACHED / ((pair_size(s) + slabs) * (long)sizeof(complex_vector));
    return smaller(larger(fit, 1), batch_blocks(s, samples));
}

INLINE char *lay_out_pairs(char *at, workspace *w, const layer *s, const int backward,
                           const int samples)
{
    const long together = backward ? blocks_together(s, samples) : 1, N = points_of(s);
    const long factors = factors_at_once(s, samples) * N * OUTPUTS * (long)sizeof(float);
    const long symbol = s->inputs * modes_of(s) * 2 * OUTPUTS * (long)sizeof(float);
    TAKE(lines, complex_vector, together * pair_size(s) * sizeof(complex_vector));
    TAKE(slabs, complex_vector,
         together * slab_step(s, 2) * s->outer.points * sizeof(complex_vector));
    TAKE(totals, vector, batch_blocks(s, samples) * N * sizeof(vector));
    TAKE(a, float, factors);
    TAKE(c, float, symbol);
    if (backward) {
        TAKE(sums, vector, 2 * s->row.points * sizeof(vector));
        TAKE(b_bar, float, factors);
        TAKE(c_bar, float, symbol);
    }
    return take_columns(at, w, s);
}

/* waves of a batch block, the `q`-th of those together: one slab of the inputs i and i + 1 */
INLINE waves pair_waves(const workspace *w, const layer *s, long q)
{
    const long rows = s->inner.points;
    return (waves){w->lines + q * pair_size(s), rows * s->wave_row, 1, s->wave_row};
}

INLINE complex_vector *slab_of(const workspace *w, const layer *s, long q, long slab)
{
    return s->dim == 3 ? w->slabs + (q * s->outer.points + slab) * slab_step(s, 2) : 0;
}

INLINE void synthesise_pair(coefficients all, long i, long end, long slab, long q,
                            const workspace *w, const layer *s, const int samples)
{
    const waves h = pair_waves(w, s, q);
    if (end == i + 1) memset(h.at + h.input, 0, h.input * sizeof(complex_vector));
    synthesise(all, 0, s->row.modes, i, end, slab_of(w, s, q, slab), h, w, s, samples);
}

/* the slabs of a workspace are those of its `q`-th batch block */
INLINE workspace with_slabs(const workspace *w, const layer *s, long q)
{
    workspace own = *w;
    own.slabs += q * s->outer.points * slab_step(s, 2);
    return own;
}

/* a block of outputs and the batch blocks first .. last */
INLINE void pairs_forward(const tensors *a, char *space, const layer *s, long block, long first,
                          long last, const int samples)
{
    const long I = s->inputs, N = points_of(s), N3 = s->row.points, rows = s->inner.points;
    const long some = factors_at_once(s, samples);
    workspace w;
    lay_out_pairs(space, &w, s, 0, samples);
    pack_symbol(a->c, w.c, s, block, samples);
    memset(w.totals, 0, (last - first) * N * sizeof(vector));
    factor_range range = {0, 0, 0};
    for (long i = 0; i < I; i += 2) {
        if (i == range.last) {
            range.first = i, range.last = smaller(i + some, I);
            pack_factors(a->b, w.a, s, block, range, samples);
        }
        const long end = smaller(i + 2, I);
        for (long n = first; n < last; n++) {
            const coefficients all = block_of(a, &w, s, n, samples);
            if (s->dim == 3) synthesise_slabs(all, i, end, slab_step(s, 2), &w, s, samples);
            for (long r = 0; r < s->outer.points * rows; r++) {
                if (r % rows == 0) synthesise_pair(all, i, end, r / rows, 0, &w, s, samples);
                const float *b = w.a + factor_place(s, range, r, i - range.first) * OUTPUTS;
                const float *next = end == i + 2 ? b + N3 * OUTPUTS : b;
                const row_pair at = {b, next, w.totals + (n - first) * N + r * N3, 0, 0, samples};
                complex_vector *u = w.lines + r % rows * s->wave_row;
                transform_rows(u, u + rows * s->wave_row, w.line, emit_products, 0, &at, s);
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
            transform_rows(u, u + rows * s->wave_row, w->line, emit_gradients, fetch_products, &at,
                           s);
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
    const long blocks = batch_blocks(s, samples), together = blocks_together(s, samples);
    const long some = factors_at_once(s, samples);
    workspace w;
    lay_out_pairs(space, &w, s, 1, samples);
    pack_symbol(a->c, w.c, s, block, samples);
    memset(w.c_bar, 0, I * modes * 2 * OUTPUTS * sizeof(float));
    for (long n = 0; n < blocks; n++)
        for (long r = 0; r < slabs * rows; r++)
            move_row(w.totals + n * N + r * N3, (float *)a->grad, s, n, block, r, 1, samples);
    factor_range range = {0, 0, 0};
    for (long i = 0; i < I; i += 2) {
        if (i == range.last) {
            range.first = i, range.last = smaller(i + some, I);
            pack_factors(a->b, w.a, s, block, range, samples);
            memset(w.b_bar, 0, (range.last - i) * N * OUTPUTS * sizeof(float));
        }
        const long end = smaller(i + 2, I);
        for (long start = 0; start < blocks; start += together) {
            const long stop = smaller(start + together, blocks);
            for (long n = start; s->dim == 3 && n < stop; n++) {
                const workspace own = with_slabs(&w, s, n - start);
                synthesise_slabs(block_of(a, &w, s, n, samples), i, end, slab_step(s, 2), &own, s, samples);
            }
            for (long slab = 0; slab < slabs; slab++) {
                for (long n = start; n < stop; n++)
                    synthesise_pair(block_of(a, &w, s, n, samples), i, end, slab, n - start, &w, s,
                                    samples);
                turn_rows(&w, s, range, i, slab, start, stop, samples);
                for (long n = start; n < stop; n++)
                    analyse(block_of(a, &w, s, n, samples), 0, s->row.modes, i, end,
                            slab_of(&w, s, n - start, slab), pair_waves(&w, s, n - start), &w, s,
                            samples);
            }
            for (long n = start; s->dim == 3 && n < stop; n++) {
                const workspace own = with_slabs(&w, s, n - start);
                analyse_slabs(block_of(a, &w, s, n, samples), i, end, slab_step(s, 2), &own, s, samples);
            }
        }
        if (end == range.last) unpack_factors(a->b_bar, w.b_bar, s, block, range, samples);
    }
    unpack_symbol(a->c_bar, w.c_bar, s, block, samples);
}
