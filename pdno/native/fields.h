/* Fourier transforms of fields: LANES fields at a time, one in each lane.
 *
 *     synthesis   out(x) = sum over the kept half spectrum, with the Hermitian rule
 *     transpose   of it, in the real inner products
 *
 * With `scaled`, coefficients are multiplied by 1/(w |N|), w the weights of the Hermitian rule, before
 * synthesis or after its transpose, which then is the transform F itself. Fields (F, N1, N2, N3) and
 * coefficients (F, K1, K2, K3) complex are dense; F is the batch of the layer, which has one input
 * and one output.
 */

/* two neighbouring modes of up to LANES fields to complex vectors, or back; the second may be 0 */
INLINE void move_modes(float *c, long stride, long fields, complex_vector *first,
                       complex_vector *second, const int back)
{
    for (int q = 0; q < LANES / 4; q++) {
        const long count = smaller(4, fields - 4 * q), numbers = second ? 4 : 2;
        four v[4] = {{0}, {0}, {0}, {0}};
        float *at = c + 4 * q * stride;
        if (back) {
            v[0] = quarter(first->re, q), v[1] = quarter(first->im, q);
            if (second) v[2] = quarter(second->re, q), v[3] = quarter(second->im, q);
            transpose(v);
            for (long n = 0; n < count; n++)
                memcpy(at + n * stride, v + n, numbers * sizeof(float));
        } else {
            for (long n = 0; n < count; n++)
                memcpy(v + n, at + n * stride, numbers * sizeof(float));
            transpose(v);
            ((four *)&first->re)[q] = v[0], ((four *)&first->im)[q] = v[1];
            if (second) ((four *)&second->re)[q] = v[2], ((four *)&second->im)[q] = v[3];
        }
    }
}

static void move_all_modes(float *c, long fields, complex_vector *modes, const layer *s,
                           const int back)
{
    const long stride = 2 * modes_of(s), step = s->inner.modes * s->outer.modes;
    for (long k1 = 0; k1 < s->outer.modes; k1++)
        for (long k2 = 0; k2 < s->inner.modes; k2++)
            for (long k3 = 0; k3 < s->row.modes; k3 += 2, c += 4) {
                complex_vector *at = modes + (k3 * s->inner.modes + k2) * s->outer.modes + k1;
                const int both = k3 + 1 < s->row.modes;
                if (back) move_modes(c, stride, fields, at, both ? at + step : 0, 1);
                else move_modes(c, stride, fields, at, both ? at + step : 0, 0);
                if (!both) c -= 2;
            }
}

static void scale_modes(complex_vector *modes, const layer *s)
{
    const long column = s->inner.modes * s->outer.modes;
    for (long k = 0; k < s->row.modes; k++) {
        const float scale = (is_edge(s, k) ? 1.0f : 0.5f) / (float)points_of(s);
        for (long m = 0; m < column; m++, modes++) modes->re *= scale, modes->im *= scale;
    }
}

INLINE void emit_fields(const void *to, long x, complex_vector g)
{
    vector *const *rows = to;
    rows[0][x] = g.re, rows[1][x] = g.im;
}

INLINE complex_vector fetch_fields(const void *from, long x)
{
    vector *const *rows = from;
    return (complex_vector){rows[0][x], rows[1][x]};
}

static char *lay_out_fields(char *at, workspace *w, const layer *s)
{
    const long rows = s->outer.points * s->inner.points, slab = slab_step(s, 1) * s->outer.points;
    TAKE(h, complex_vector, modes_of(s) * sizeof(complex_vector));
    TAKE(slabs, complex_vector, slab * sizeof(complex_vector));
    TAKE(lines, complex_vector, (rows + 1) * s->wave_row * sizeof(complex_vector));
    TAKE(sums, vector, 2 * FOURS(s->row.points) * sizeof(vector));
    return take_columns(at, w, s);
}

/* tiles of LANES fields, first .. last */
INLINE void transform_tiles(float *c, float *fields, char *space, const layer *s, long scaled,
                            long first, long last, const int transposed)
{
    const long rows = s->outer.points * s->inner.points, step = slab_step(s, 1), K3 = s->row.modes;
    workspace w;
    lay_out_fields(space, &w, s);
    vector *row[2] = {w.sums, w.sums + FOURS(s->row.points)};
    const coefficients all = {(float *)w.h, 0, (float *)w.h, 0};
    for (long n = first; n < last; n++) {
        const long count = smaller(LANES, s->batch - n * LANES);
        float *modes = c + n * LANES * 2 * modes_of(s);
        complex_vector *odd = w.lines + rows * s->wave_row; /* the partner of an odd last row */
        if (!transposed) {
            move_all_modes(modes, count, w.h, s, 0);
            if (scaled) scale_modes(w.h, s);
            if (s->dim == 3) synthesise_slabs(all, 0, 1, step, &w, s, LANES);
            memset(odd, 0, s->wave_row * sizeof(complex_vector));
        }
        for (long slab = 0; !transposed && slab < s->outer.points; slab++) {
            const waves h = {w.lines + slab * s->inner.points * s->wave_row, 0, 1, s->wave_row};
            synthesise(all, 0, K3, 0, 1, step ? w.slabs + slab * step : 0, h, &w, s, LANES);
        }
        for (long r = 0; r < rows; r += 2) {
            complex_vector *u = w.lines + r * s->wave_row, *v = u + s->wave_row;
            if (!transposed) transform_rows(u, v, w.line, emit_fields, 0, row, s);
            else if (r + 1 == rows) memset(row[1], 0, s->row.points * sizeof(vector));
            for (long q = 0; q < smaller(2, rows - r); q++)
                if (transposed) move_row(row[q], fields, s, n, 0, r + q, 1, LANES);
                else move_row(row[q], fields, s, n, 0, r + q, 0, LANES);
            if (transposed) transform_rows(u, v, w.line, 0, fetch_fields, row, s);
        }
        for (long slab = 0; transposed && slab < s->outer.points; slab++) {
            const waves h = {w.lines + slab * s->inner.points * s->wave_row, 0, 1, s->wave_row};
            analyse(all, 0, K3, 0, 1, step ? w.slabs + slab * step : 0, h, &w, s, LANES);
        }
        if (transposed) {
            if (s->dim == 3) analyse_slabs(all, 0, 1, step, &w, s, LANES);
            if (scaled) scale_modes(w.h, s);
            move_all_modes(modes, count, w.h, s, 1);
        }
    }
}
