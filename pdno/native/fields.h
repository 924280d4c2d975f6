/* Fourier transforms of fields, LANES at a time: synthesis is the sum over the kept half spectrum,
 * with the Hermitian rule, and back goes its transpose in the real inner products.
 *
 * With `scaled`, coefficients are multiplied by 1/(w |N|), w the weights of the Hermitian rule:
 * then back is the transform F itself. Fields are the batch of a layer with one input and output.
 */

/* modes of up to LANES fields to vectors, or back: two neighbours and four fields at once */
static void move_modes(float *c, long fields, complex_vector *modes, const layer *s,
                       const int back)
{
    const long K3 = s->row.modes, columns = s->outer.modes * s->inner.modes;
    for (long k = 0; k < columns; k++) { /* of (K1, K2), and there (K2, K1) */
        const long place = k % s->inner.modes * s->outer.modes + k / s->inner.modes;
        for (long k3 = 0; k3 < K3; k3 += 2)
            for (int q = 0; q < LANES / 4; q++) {
                const long both = k3 + 1 < K3, numbers = both ? 4 : 2;
                complex_vector *one = modes + k3 * columns + place, *two = one + both * columns;
                float *at = c + 2 * (4 * q * columns * K3 + k * K3 + k3);
                four v[4];
                if (back) {
                    v[0] = quarter(one->re, q), v[1] = quarter(one->im, q);
                    v[2] = quarter(two->re, q), v[3] = quarter(two->im, q);
                    transpose(v);
                    move_fours(v, at, 2 * columns * K3, fields - 4 * q, numbers, 1);
                    continue;
                }
                move_fours(v, at, 2 * columns * K3, fields - 4 * q, numbers, 0);
                transpose(v);
                ((four *)&one->re)[q] = v[0], ((four *)&one->im)[q] = v[1];
                if (both) ((four *)&two->re)[q] = v[2], ((four *)&two->im)[q] = v[3];
            }
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

/* the full axes of all slabs, from modes to lines (rows, wave_row) or transposed */
INLINE void transform_slabs(const workspace *w, const layer *s, const int back)
{
    float *h_all = (float *)w->h;
    const coefficients all = {h_all, h_all, h_all, h_all};
    const long step = slab_step(s, 1), size = s->inner.points * s->wave_row;
    if (s->dim == 3 && !back) move_slabs(all, 0, 1, step, w, s, 0, LANES);
    for (long slab = 0; slab < s->outer.points; slab++) {
        const waves h = {w->lines + slab * size, 0, 1, s->wave_row};
        complex_vector *from = step ? w->slabs + slab * step : 0;
        move_waves(all, 0, s->row.modes, 0, 1, from, h, w, s, back, LANES);
    }
    if (s->dim == 3 && back) move_slabs(all, 0, 1, step, w, s, 1, LANES);
}

/* tiles of LANES fields, first .. last */
INLINE void transform_tiles(float *c, float *fields, char *space, const layer *s, long scaled,
                            long first, long last, const int back)
{
    const long rows = s->outer.points * s->inner.points;
    workspace w;
    lay_out_fields(space, &w, s);
    vector *row[2] = {w.sums, w.sums + FOURS(s->row.points)};
    for (long n = first; n < last; n++) {
        const long count = smaller(LANES, s->batch - n * LANES);
        float *modes = c + n * LANES * 2 * modes_of(s);
        if (!back) {
            move_modes(modes, count, w.h, s, 0);
            if (scaled) scale_modes(w.h, s);
            transform_slabs(&w, s, 0);
            /* the partner of an odd last row */
            memset(w.lines + rows * s->wave_row, 0, s->wave_row * sizeof(complex_vector));
        }
        for (long r = 0; r < rows; r += 2) {
            complex_vector *u = w.lines + r * s->wave_row, *v = u + s->wave_row;
            if (!back) transform_rows(u, v, w.line, emit_fields, 0, row, s);
            else if (r + 1 == rows) memset(row[1], 0, s->row.points * sizeof(vector));
            for (long q = 0; q < smaller(2, rows - r); q++)
                move_row(row[q], fields, s, n, 0, r + q, back, LANES);
            if (back) transform_rows(u, v, w.line, 0, fetch_fields, row, s);
        }
        if (back) {
            transform_slabs(&w, s, 1);
            if (scaled) scale_modes(w.h, s);
            move_modes(modes, count, w.h, s, 1);
        }
    }
}
