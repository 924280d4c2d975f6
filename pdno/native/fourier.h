/* Fourier transforms in which each lane of a vector is a transform of its own.
 *
 * A line of N points is transformed in one of two ways:
 *   fast    passes of radix 8, 7, 5, 4, 3 and 2. Synthesis takes its input in reversed order of
 *           digits, analysis is its transpose and leaves its output in it: nothing is reordered.
 *           `few` says how many of the places of the first pass, of either sign of the frequency,
 *           are not zero (1 or 2 of 8; 0: any): the others are left out.
 *   direct  products with tables of cosines and sines at half of the points, the others by
 *           symmetry: for any N, and best where few modes are kept.
 * Input and output of passes go through functions, inlined; frequencies are counted modulo N.
 */
#include "vectors.h"

#define MOST_PASSES 12

typedef struct {
    const float *twiddles; /* fast: by pass, then (M, radix - 1, re|im) */
    const long *order;     /* fast: reversed digits of 0 .. N / radix of the first pass */
    const long *place;     /* fast: where analysis leaves frequency k */
    const float *cosines, *sines;             /* direct: (points / 4, modes, 4), points <= N/2 */
    const float *cosines_back, *sines_back;   /* their transposes, (modes / 4, points, 4) */
    long points, modes;    /* N; kept modes */
    long up;               /* modes >= 0 among them, then come the negative ones */
    long passes, few, radix[MOST_PASSES];
} axis;

/* ---- fast ---- */

INLINE void butterfly4(cell *a0, cell *a1, cell *a2, cell *a3, const int sign)
{
    const vector sr = a0->re + a2->re, si = a0->im + a2->im;
    const vector dr = a0->re - a2->re, di = a0->im - a2->im;
    const vector tr = a1->re + a3->re, ti = a1->im + a3->im;
    const vector ur = a1->re - a3->re, ui = a1->im - a3->im;
    a0->re = sr + tr, a0->im = si + ti;
    a2->re = sr - tr, a2->im = si - ti;
    if (sign > 0) {
        a1->re = dr - ui, a1->im = di + ur;
        a3->re = dr + ui, a3->im = di - ur;
    } else {
        a1->re = dr + ui, a1->im = di - ur;
        a3->re = dr - ui, a3->im = di + ur;
    }
}

/* e + w o and e - w o for the eighth roots w = exp(sign i pi k/4) */
INLINE void halves(cell e, cell o, cell *plus, cell *minus, const int k, const int sign)
{
    const float root = 0.70710678118654752440f;
    vector re, im;
    float scale = root;
    if (k == 0) re = o.re, im = o.im, scale = 1;
    else if (k == 1 && sign > 0) re = o.re - o.im, im = o.im + o.re;
    else if (k == 1) re = o.re + o.im, im = o.im - o.re;
    else if (k == 2 && sign > 0) re = -o.im, im = o.re, scale = 1;
    else if (k == 2) re = o.im, im = -o.re, scale = 1;
    else if (sign > 0) re = -o.re - o.im, im = o.re - o.im;
    else re = o.im - o.re, im = -o.re - o.im;
    plus->re = e.re + scale * re, plus->im = e.im + scale * im;
    minus->re = e.re - scale * re, minus->im = e.im - scale * im;
}

/* cos and sin of 2 pi k / radix for the odd radices, k < radix */
static const float COSINES[8][8] = {
    [3] = {1, -0.5f, -0.5f},
    [5] = {1, 0.30901699437494742410f, -0.80901699437494742410f, -0.80901699437494742410f,
           0.30901699437494742410f},
    [7] = {1, 0.62348980185873353053f, -0.22252093395631440429f, -0.90096886790241912624f,
           -0.90096886790241912624f, -0.22252093395631440429f, 0.62348980185873353053f},
};
static const float SINES[8][8] = {
    [3] = {0, 0.86602540378443864676f, -0.86602540378443864676f},
    [5] = {0, 0.95105651629515357212f, 0.58778525229247312917f, -0.58778525229247312917f,
           -0.95105651629515357212f},
    [7] = {0, 0.78183148246802980871f, 0.97492791218182360702f, 0.43388373911755812048f,
           -0.43388373911755812048f, -0.97492791218182360702f, -0.78183148246802980871f},
};

INLINE void odd_butterfly(cell *a, const int radix, const int sign)
{
    const int half = radix / 2;
    cell sums[4], differences[4], first = a[0];
    for (int k = 1; k <= half; k++) {
        sums[k] = (cell){a[k].re + a[radix - k].re, a[k].im + a[radix - k].im};
        differences[k] = (cell){a[k].re - a[radix - k].re, a[k].im - a[radix - k].im};
    }
    for (int k = 1; k <= half; k++) a[0].re += sums[k].re, a[0].im += sums[k].im;
    for (int q = 1; q <= half; q++) {
        cell even = first, odd = {{0}, {0}};
        for (int k = 1; k <= half; k++) {
            const float c = COSINES[radix][q * k % radix], s = sign * SINES[radix][q * k % radix];
            even.re += c * sums[k].re, even.im += c * sums[k].im;
            odd.re -= s * differences[k].im, odd.im += s * differences[k].re;
        }
        a[q] = (cell){even.re + odd.re, even.im + odd.im};
        a[radix - q] = (cell){even.re - odd.re, even.im - odd.im};
    }
}

/* the Fourier sum of `radix` numbers with exp(sign 2 pi i k l / radix), in place */
INLINE void butterfly(cell *a, const int radix, const int sign)
{
    if (radix == 2) {
        const cell u = a[0], v = a[1];
        halves(u, v, &a[0], &a[1], 0, sign);
    } else if (radix == 4) {
        butterfly4(&a[0], &a[1], &a[2], &a[3], sign);
    } else if (radix == 8) {
        cell e0 = a[0], e1 = a[2], e2 = a[4], e3 = a[6];
        cell o0 = a[1], o1 = a[3], o2 = a[5], o3 = a[7];
        butterfly4(&e0, &e1, &e2, &e3, sign);
        butterfly4(&o0, &o1, &o2, &o3, sign);
        halves(e0, o0, &a[0], &a[4], 0, sign);
        halves(e1, o1, &a[1], &a[5], 1, sign);
        halves(e2, o2, &a[2], &a[6], 2, sign);
        halves(e3, o3, &a[3], &a[7], 3, sign);
    } else {
        odd_butterfly(a, radix, sign);
    }
}

INLINE cell turn(cell a, const float *w, const int sign)
{
    const float c = w[0], s = w[1];
    cell b;
    if (sign > 0) b.re = c * a.re - s * a.im, b.im = c * a.im + s * a.re;
    else b.re = c * a.re + s * a.im, b.im = c * a.im - s * a.re;
    return b;
}

typedef cell (*fetcher)(const void *from, long k);
typedef void (*emitter)(const void *to, long k, cell value);

/* call `do_it` with the radix as a constant */
#define FOR_RADIX(given, do_it)                                                                  \
    switch (given) {                                                                             \
    case 2: do_it(2); break;                                                                     \
    case 3: do_it(3); break;                                                                     \
    case 4: do_it(4); break;                                                                     \
    case 5: do_it(5); break;                                                                     \
    case 7: do_it(7); break;                                                                     \
    default: do_it(8); break;                                                                    \
    }

INLINE int is_left_out(int m, const int few) { return few && m >= few && m < 8 - few; }

INLINE void first_pass(cell *line, const axis *t, const int radix, const int few,
                       const fetcher fetch, const void *from)
{
    const long stride = t->points / radix;
    for (long g = 0; g < stride; g++) {
        cell a[8], *to = line + radix * t->order[g];
        for (int m = 0; m < radix; m++)
            if (is_left_out(m, few)) a[m] = (cell){{0}, {0}};
            else a[m] = fetch(from, g + m * stride);
        butterfly(a, radix, 1);
        for (int m = 0; m < radix; m++) to[m] = a[m];
    }
}

INLINE void middle_pass(cell *line, const float *w, long points, long done, const int radix,
                        const int sign)
{
    for (long start = 0; start < points; start += done * radix)
        for (long m = 0; m < done; m++) {
            cell a[8], *at = line + start + m;
            const float *factors = w + m * 2 * (radix - 1);
            for (int r = 0; r < radix; r++) a[r] = at[r * done];
            if (sign > 0)
                for (int r = 1; r < radix; r++) a[r] = turn(a[r], factors + 2 * r - 2, sign);
            butterfly(a, radix, sign);
            if (sign < 0)
                for (int r = 1; r < radix; r++) a[r] = turn(a[r], factors + 2 * r - 2, sign);
            for (int r = 0; r < radix; r++) at[r * done] = a[r];
        }
}

/* the passes between the first and the last of synthesis; for analysis in opposite order */
static __attribute__((noinline)) void middle_passes(cell *line, const axis *t, int sign)
{
    for (long p = 1; p < t->passes - 1; p++) {
        const long pass = sign > 0 ? p : t->passes - 1 - p;
        const float *w = t->twiddles;
        long done = t->radix[0];
        for (long q = 1; q < pass; q++) w += 2 * (t->radix[q] - 1) * done, done *= t->radix[q];
#define UP(radix) middle_pass(line, w, t->points, done, radix, 1)
#define DOWN(radix) middle_pass(line, w, t->points, done, radix, -1)
        if (sign > 0) FOR_RADIX(t->radix[pass], UP)
        else FOR_RADIX(t->radix[pass], DOWN)
#undef UP
#undef DOWN
    }
}

INLINE const float *last_twiddles(const axis *t)
{
    const float *w = t->twiddles;
    long done = t->radix[0];
    for (long q = 1; q < t->passes - 1; q++)
        w += 2 * (t->radix[q] - 1) * done, done *= t->radix[q];
    return w;
}

INLINE void last_pass(const cell *line, const axis *t, const int radix, const emitter emit,
                      const void *to)
{
    const float *w = last_twiddles(t);
    const long done = t->points / radix;
    for (long m = 0; m < done; m++, w += 2 * (radix - 1)) {
        cell a[8];
        a[0] = line[m];
        for (int r = 1; r < radix; r++) a[r] = turn(line[m + r * done], w + 2 * r - 2, 1);
        butterfly(a, radix, 1);
        for (int r = 0; r < radix; r++) emit(to, m + r * done, a[r]);
    }
}

/* the first pass of analysis, the transpose of last_pass */
INLINE void spread_pass(cell *line, const axis *t, const int radix, const fetcher fetch,
                        const void *from)
{
    const float *w = last_twiddles(t);
    const long done = t->points / radix;
    for (long m = 0; m < done; m++, w += 2 * (radix - 1)) {
        cell a[8];
        for (int r = 0; r < radix; r++) a[r] = fetch(from, m + r * done);
        butterfly(a, radix, -1);
        line[m] = a[0];
        for (int r = 1; r < radix; r++) line[m + r * done] = turn(a[r], w + 2 * r - 2, -1);
    }
}

/* the last pass of analysis, the transpose of first_pass */
INLINE void gather_pass(cell *line, const axis *t, const int radix, const int few,
                        const emitter emit, const void *to)
{
    const long stride = t->points / radix;
    for (long g = 0; g < stride; g++) {
        cell a[8];
        const cell *at = line + radix * t->order[g];
        for (int m = 0; m < radix; m++) a[m] = at[m];
        butterfly(a, radix, -1);
        for (int m = 0; m < radix; m++)
            if (!is_left_out(m, few)) emit(to, g + m * stride, a[m]);
    }
}

/* kept modes in their order, seen at frequency k; 0 where k is not kept */
typedef struct { cell *at; long up, gap; } kept_line;

INLINE kept_line kept_of(const cell *at, const axis *t)
{
    return (kept_line){(cell *)at, t->up, t->points - t->modes};
}

INLINE long kept_place(const kept_line *s, long k)
{
    const long place = k < s->up ? k : k - s->gap;
    return place < s->up && k >= s->up ? -1 : place;
}

INLINE cell fetch_kept(const void *from, long k)
{
    const kept_line *s = from;
    const long place = kept_place(s, k);
    return place < 0 ? (cell){{0}, {0}} : s->at[place];
}

INLINE void emit_kept(const void *to, long k, cell value)
{
    const kept_line *s = to;
    const long place = kept_place(s, k);
    if (place >= 0) s->at[place] = value;
}

typedef struct { cell *at; long stride; } strided_line;

INLINE cell fetch_strided(const void *from, long x)
{
    const strided_line *s = from;
    return s->at[x * s->stride];
}

INLINE void emit_strided(const void *to, long x, cell value)
{
    const strided_line *s = to;
    s->at[x * s->stride] = value;
}

/* all passes of synthesis but the last */
INLINE void fast_start(cell *line, const axis *t, const fetcher fetch, const void *from)
{
#define FIRST(radix) first_pass(line, t, radix, 0, fetch, from)
    if (t->few == 1) first_pass(line, t, 8, 1, fetch, from);
    else if (t->few == 2) first_pass(line, t, 8, 2, fetch, from);
    else FOR_RADIX(t->radix[0], FIRST)
#undef FIRST
    middle_passes(line, t, 1);
}

/* all passes of analysis but the first */
INLINE void fast_end(cell *line, const axis *t, const emitter emit, const void *to)
{
    middle_passes(line, t, -1);
#define GATHER(radix) gather_pass(line, t, radix, 0, emit, to)
    if (t->few == 1) gather_pass(line, t, 8, 1, emit, to);
    else if (t->few == 2) gather_pass(line, t, 8, 2, emit, to);
    else FOR_RADIX(t->radix[0], GATHER)
#undef GATHER
}

/* ---- direct ---- */

/* u = T a and v = T b for a table T (rows / 4, columns, 4); u and v have room for whole fours */
static __attribute__((noinline)) void multiply(const float *table, long rows, long columns,
                                               const vector *a, const vector *b, long stride,
                                               vector *u, vector *v, long step)
{
    for (long q = 0; q < rows; q += 4) {
        vector u0 = {0}, u1 = {0}, u2 = {0}, u3 = {0}, v0 = {0}, v1 = {0}, v2 = {0}, v3 = {0};
        for (long k = 0; k < columns; k++, table += 4) {
            vector x = a[k * stride], y = b[k * stride];
            HOLD(x);
            HOLD(y);
            u0 += table[0] * x, v0 += table[0] * y;
            u1 += table[1] * x, v1 += table[1] * y;
            u2 += table[2] * x, v2 += table[2] * y;
            u3 += table[3] * x, v3 += table[3] * y;
        }
        vector *to = u + q * step, *too = v + q * step;
        to[0] = u0, to[step] = u1, to[2 * step] = u2, to[3 * step] = u3;
        too[0] = v0, too[step] = v1, too[2 * step] = v2, too[3 * step] = v3;
    }
}

#define FOURS(count) (((count) + 3) / 4 * 4)

/* the number of m >= 0 with a mode m or -m */
INLINE long signless(const axis *t)
{
    const long down = t->modes - t->up;
    return t->up > down + 1 ? t->up : down + 1;
}

static void direct_synthesis(const cell *in, cell *out, long stride, cell *line, const axis *t)
{
    const long count = signless(t), down = t->modes - t->up, half = t->points / 2 + 1;
    cell *sums = line, *differences = sums + FOURS(count);
    cell *even = differences + FOURS(count), *odd = even + FOURS(half);
    for (long m = 0; m < count; m++) {
        cell plus = {{0}, {0}}, minus = {{0}, {0}};
        if (m < t->up) plus = in[m];
        if (m > 0 && m <= down) minus = in[t->modes - m];
        sums[m] = (cell){plus.re + minus.re, plus.im + minus.im};
        differences[m] = (cell){minus.im - plus.im, plus.re - minus.re};
    }
    multiply(t->cosines, half, count, &sums->re, &sums->im, 2, &even->re, &even->im, 2);
    multiply(t->sines, half, count, &differences->re, &differences->im, 2, &odd->re, &odd->im, 2);
    for (long x = 0; x < half; x++) {
        out[x * stride] = (cell){even[x].re + odd[x].re, even[x].im + odd[x].im};
        if (x > 0 && 2 * x < t->points)
            out[(t->points - x) * stride] = (cell){even[x].re - odd[x].re, even[x].im - odd[x].im};
    }
}

static void direct_analysis(const cell *in, long stride, cell *out, cell *line, const axis *t)
{
    const long count = signless(t), down = t->modes - t->up, half = t->points / 2 + 1;
    cell *sums = line, *differences = sums + FOURS(count);
    cell *even = differences + FOURS(count), *odd = even + FOURS(half);
    for (long x = 0; x < half; x++) {
        const cell a = in[x * stride];
        even[x] = a, odd[x] = (cell){{0}, {0}};
        if (x > 0 && 2 * x < t->points) {
            const cell b = in[(t->points - x) * stride];
            even[x] = (cell){a.re + b.re, a.im + b.im};
            odd[x] = (cell){a.re - b.re, a.im - b.im};
        }
    }
    multiply(t->cosines_back, count, half, &even->re, &even->im, 2, &sums->re, &sums->im, 2);
    multiply(t->sines_back, count, half, &odd->re, &odd->im, 2, &differences->re,
             &differences->im, 2);
    for (long m = 0; m < count; m++) {
        const cell p = sums[m], d = differences[m];
        if (m < t->up) out[m] = (cell){p.re + d.im, p.im - d.re};
        if (m > 0 && m <= down) out[t->modes - m] = (cell){p.re - d.im, p.im + d.re};
    }
}

/* ---- a full axis ---- */

/* out(x) = sum_k in(k) exp(2 pi i k x / N) over the kept modes */
static __attribute__((noinline)) void synthesise_column(const cell *in, cell *out, long stride,
                                                        cell *line, const axis *t)
{
    if (!t->passes) {
        direct_synthesis(in, out, stride, line, t);
        return;
    }
    const kept_line from = kept_of(in, t);
    const strided_line to = {out, stride};
    fast_start(line, t, fetch_kept, &from);
#define LAST(radix) last_pass(line, t, radix, emit_strided, &to)
    FOR_RADIX(t->radix[t->passes - 1], LAST)
#undef LAST
}

/* its transpose */
static __attribute__((noinline)) void analyse_column(const cell *in, long stride, cell *out,
                                                     cell *line, const axis *t)
{
    if (!t->passes) {
        direct_analysis(in, stride, out, line, t);
        return;
    }
    const strided_line from = {(cell *)in, stride};
    const kept_line to = kept_of(out, t);
#define SPREAD(radix) spread_pass(line, t, radix, fetch_strided, &from)
    FOR_RADIX(t->radix[t->passes - 1], SPREAD)
#undef SPREAD
    fast_end(line, t, emit_kept, &to);
}

/* cells that a transform needs as its `line` */
INLINE long line_size(const axis *t)
{
    return t->passes ? t->points : 2 * FOURS(signless(t)) + 2 * FOURS(t->points / 2 + 1);
}
