/* What the operators work on: a grid (N1, N2, N3) with kept modes (K1, K2, K3), of which the first
 * ones may be missing: then N = K = 1.
 *
 * The outer and the inner axis are complex, the last one is the half axis of a real function,
 * transformed two rows at a time: u + i v is one complex line for the real rows u and v. A slab is
 * what the last two axes make of the grid, its rows are those of the last one.
 */
#include "fourier.h"

typedef struct {
    axis outer, inner, row; /* an axis that is missing has one point */
    long dim, outputs, batch, inputs;
    long nodes;             /* of each row that has x-factors, a multiple of 4; 0: all points */
    long samples;           /* of a vector; in the others of its lanes are outputs */
    long wave_row;          /* >= K3 in whole fours, and odd: columns do not meet in the cache */
} layer;

INLINE long points_of(const layer *s) { return s->outer.points * s->inner.points * s->row.points; }
INLINE long modes_of(const layer *s) { return s->outer.modes * s->inner.modes * s->row.modes; }
INLINE int is_edge(const layer *s, long k) { return k == 0 || 2 * k == s->row.points; }

/* the half spectra of two real rows, and the spectrum of u + i v at frequency k from them */
typedef struct { const complex_vector *u, *v; long modes, points; } two_rows;

INLINE complex_vector fetch_two_rows(const void *from, long k)
{
    const two_rows *s = from;
    if (k < s->modes) {
        const complex_vector a = s->u[k], b = s->v[k];
        return (complex_vector){a.re - b.im, a.im + b.re};
    }
    if (s->points - k < s->modes) {
        const complex_vector a = s->u[s->points - k], b = s->v[s->points - k];
        return (complex_vector){a.re + b.im, b.re - a.im};
    }
    return (complex_vector){{0}, {0}};
}

/* all passes but the last of the synthesis of u + i v */
static __attribute__((noinline)) void start_rows(const complex_vector *u, const complex_vector *v,
                                                 complex_vector *line, const layer *s)
{
    const two_rows from = {u, v, s->row.modes, s->row.points};
    FOR_RADIX(s->row.radix[0], first_pass, line, &s->row, fetch_two_rows, 0, &from, 1)
    middle_passes(line, &s->row, 1);
}

/* all passes but the first of its transpose, with the weights of the half spectrum */
static __attribute__((noinline)) void end_rows(complex_vector *line, complex_vector *u,
                                               complex_vector *v, const layer *s)
{
    const long *place = s->row.place;
    middle_passes(line, &s->row, -1);
    FOR_RADIX(s->row.radix[0], first_pass, line, &s->row, 0, 0, 0, -1)
    for (long k = 0; k < s->row.modes; k++) {
        const complex_vector z = line[place[k]], y = line[place[k ? s->row.points - k : 0]];
        u[k] = (complex_vector){z.re + y.re, z.im - y.im};
        v[k] = (complex_vector){z.im + y.im, y.re - z.re};
        if (!is_edge(s, k)) continue;
        u[k] = (complex_vector){0.5f * u[k].re, {0}}, v[k] = (complex_vector){0.5f * v[k].re, {0}};
    }
}

/* Two rows from their half spectra u and v to `emit`, from `fetch` back to them, or both: then a
 * point is emitted before it is fetched. Direct transforms go by the even and the odd parts of
 * both rows, at half of the points. */
INLINE void transform_rows(complex_vector *u, complex_vector *v, complex_vector *line,
                           const emitter emit, const fetcher fetch, const void *state,
                           const layer *s)
{
    const axis *t = &s->row;
    if (t->passes) {
        if (emit) start_rows(u, v, line, s);
        FOR_RADIX(t->radix[t->passes - 1], end_pass, line, t, emit, fetch, state)
        if (fetch) end_rows(line, u, v, s);
        return;
    }
    const long half = t->points / 2 + 1, size = FOURS(half);
    vector *even[2] = {&line->re, &line->re + size};
    vector *odd[2] = {even[1] + size, even[1] + 2 * size};
    if (emit) {
        multiply(t->cosines, half, t->modes, &u->re, &v->re, 2, even[0], even[1], 1);
        multiply(t->sines, half, t->modes, &u->im, &v->im, 2, odd[0], odd[1], 1);
    }
    for (long x = 0; x < half; x++) {
        const int two = x > 0 && 2 * x < t->points;
        if (emit) {
            const complex_vector a = {even[0][x], even[1][x]}, b = {odd[0][x], odd[1][x]};
            emit(state, x, (complex_vector){a.re - b.re, a.im - b.im});
            if (two) emit(state, t->points - x, (complex_vector){a.re + b.re, a.im + b.im});
        }
        if (fetch) {
            const complex_vector near = fetch(state, x);
            complex_vector far = {{0}, {0}};
            if (two) far = fetch(state, t->points - x);
            even[0][x] = near.re + far.re, odd[0][x] = far.re - near.re;
            even[1][x] = near.im + far.im, odd[1][x] = far.im - near.im;
        }
    }
    if (fetch) {
        multiply(t->cosines_back, t->modes, half, even[0], even[1], 1, &u->re, &v->re, 2);
        multiply(t->sines_back, t->modes, half, odd[0], odd[1], 1, &u->im, &v->im, 2);
    }
}

/* the complex vectors of a line that is long enough for all axes */
INLINE long longest_line(const layer *s)
{
    const long row = s->row.passes ? s->row.points : 2 * FOURS(s->row.points / 2 + 1);
    return larger(larger(line_size(&s->outer), line_size(&s->inner)), row);
}
