/* What the loops of pairwise.c work on: three axes, of which the first ones may be missing.
 *
 * A grid (N1, N2, N3) with kept modes (K1, K2, K3); a plane has N1 = K1 = 1, a line also
 * N2 = K2 = 1. The outer and the inner axis are complex, the last one is the half axis of a real
 * function. Layouts, i innermost where the networks of a symbol write it:
 *     b, b'   (N1, N2, N3, O, I)
 *     c, c'   (O, I, K1, K2, K3) complex
 *     f, f'   (B, I, K1, K2, K3) complex
 *     out     (B, O, N1, N2, N3)
 * A tile has some inputs of some samples; in tiles modes stand as (K3, K2, K1), so that a column
 * lies together.
 */
#include <string.h>

#include "fourier.h"

typedef struct {
    axis outer, inner, row; /* an axis that is missing has one point */
    long dim, outputs, batch, inputs;
    long together;       /* tiles that are added up at once, in the cache */
    long pack_whole;     /* whether b is packed for an output at once, or row by row */
    long nodes;          /* M, a multiple of 4, or 0: see nodes.h */
    long wave_row;       /* >= K3; odd, so that columns do not meet in the cache */
} layer;

INLINE long points_of(const layer *s) { return s->outer.points * s->inner.points * s->row.points; }
INLINE long modes_of(const layer *s) { return s->outer.modes * s->inner.modes * s->row.modes; }
INLINE int is_edge(const layer *s, long k) { return k == 0 || 2 * k == s->row.points; }

/* place of a mode, given in the order (K1, K2, K3), in a tile */
INLINE long place_in_tile(const layer *s, long k1, long k2, long k3)
{
    return (k3 * s->inner.modes + k2) * s->outer.modes + k1;
}

/* ---- two real rows ---- */

/* the half spectra of two real rows, and the spectrum of u + i v at frequency k from them */
typedef struct { const cell *u, *v; long modes, points; } two_rows;

INLINE cell fetch_two_rows(const void *from, long k)
{
    const two_rows *s = from;
    if (k < s->modes) {
        const cell a = s->u[k], b = s->v[k];
        return (cell){a.re - b.im, a.im + b.re};
    }
    if (s->points - k < s->modes) {
        const cell a = s->u[s->points - k], b = s->v[s->points - k];
        return (cell){a.re + b.im, b.re - a.im};
    }
    return (cell){{0}, {0}};
}

typedef struct { cell *line; const long *place; } place_target;

INLINE void emit_in_place(const void *to, long k, cell value)
{
    const place_target *s = to;
    s->line[s->place[k]] = value;
}

/* all passes but the last of the synthesis of u + i v */
static __attribute__((noinline)) void start_rows(const cell *u, const cell *v, cell *line,
                                                 const layer *s)
{
    const two_rows from = {u, v, s->row.modes, s->row.points};
    fast_start(line, &s->row, fetch_two_rows, &from);
}

/* all passes but the first of its transpose, with the weights of the half spectrum */
static __attribute__((noinline)) void end_rows(cell *line, cell *u, cell *v, const layer *s)
{
    const long *place = s->row.place;
    const place_target to = {line, place};
    fast_end(line, &s->row, emit_in_place, &to);
    for (long k = 0; k < s->row.modes; k++) {
        const cell z = line[place[k]], y = line[place[k ? s->row.points - k : 0]];
        u[k] = (cell){z.re + y.re, z.im - y.im};
        v[k] = (cell){z.im + y.im, y.re - z.re};
        if (is_edge(s, k)) {
            u[k] = (cell){0.5f * u[k].re, {0}};
            v[k] = (cell){0.5f * v[k].re, {0}};
        }
    }
}

/* direct rows: the even and the odd part of both, at half of the points */
typedef struct { vector *even[2], *odd[2]; } folded;

INLINE folded folded_in(cell *line, const layer *s)
{
    const long half = FOURS(s->row.points / 2 + 1);
    vector *at = (vector *)line;
    return (folded){{at, at + half}, {at + 2 * half, at + 3 * half}};
}

INLINE folded unfold_rows(const cell *u, const cell *v, cell *line, const layer *s)
{
    const axis *t = &s->row;
    const long half = t->points / 2 + 1;
    const folded g = folded_in(line, s);
    multiply(t->cosines, half, t->modes, &u->re, &v->re, 2, g.even[0], g.even[1], 1);
    multiply(t->sines, half, t->modes, &u->im, &v->im, 2, g.odd[0], g.odd[1], 1);
    return g;
}

INLINE void fold_rows(folded g, cell *u, cell *v, const layer *s)
{
    const axis *t = &s->row;
    const long half = t->points / 2 + 1;
    multiply(t->cosines_back, t->modes, half, g.even[0], g.even[1], 1, &u->re, &v->re, 2);
    multiply(t->sines_back, t->modes, half, g.odd[0], g.odd[1], 1, &u->im, &v->im, 2);
}

INLINE long row_line_size(const layer *s)
{
    return s->row.passes ? s->row.points : 2 * FOURS(s->row.points / 2 + 1);
}

/* a line that is long enough for all axes */
INLINE long longest_line(const layer *s)
{
    const long outer = line_size(&s->outer), inner = line_size(&s->inner), row = row_line_size(s);
    return outer > inner ? (outer > row ? outer : row) : (inner > row ? inner : row);
}

/* a real row has no imaginary part at its edges */
INLINE void keep_real(cell *value, const layer *s, long k)
{
    if (is_edge(s, k)) value->im = (vector){0};
}
