/* Fourier transforms in which each lane of a vector is a transform of its own.
 *
 * A line of N points is transformed in one of two ways:
 *   fast    passes of radix 8, 7, 5, 4, 3 and 2. Synthesis takes its input in reversed order of
 *           digits, analysis is its transpose and leaves its output in it: nothing is reordered.
 *   direct  products with tables of cosines and sines at half of the points, the others by
 *           symmetry: for any N, and best where few modes are kept.
 * Input and output of passes go through functions, inlined; frequencies are counted modulo N.
 */
#include "vectors.h"

typedef struct {
    const float *twiddles; /* fast: by pass, then (M, radix - 1, re|im) */
    const long *order;     /* fast: reversed digits of 0 .. N / radix of the first pass */
    const long *place;     /* fast: where analysis leaves frequency k */
    const long *radix;     /* fast: of each pass */
    const float *cosines, *sines;             /* direct: (points / 4, modes, 4), points <= N/2 */
    const float *cosines_back, *sines_back;   /* their transposes, (modes / 4, points, 4) */
    long points, modes;    /* N; kept modes */
    long up;               /* modes >= 0 among them, then come the negative ones */
    long passes;
} axis;

/* ---- fast ---- */

/* the Fourier sum of 4 numbers, in place */
INLINE void butterfly4(complex_vector *a, const float sign)
{
    const complex_vector s = add(a[0], a[2]), d = subtract(a[0], a[2]), t = add(a[1], a[3]);
    const vector re = sign * (a[1].re - a[3].re), im = sign * (a[1].im - a[3].im);
    a[0] = add(s, t), a[2] = subtract(s, t);
    a[1] = (complex_vector){d.re - im, d.im + re}, a[3] = (complex_vector){d.re + im, d.im - re};
}

/* e + w o and e - w o for the eighth roots w = exp(sign i pi k/4) */
INLINE void halves(complex_vector e, complex_vector o, complex_vector *plus,
                   complex_vector *minus, const int k, const float sign)
{
    const float scale = k % 2 ? 0.70710678118654752440f : 1;
    const vector x = sign * o.re, y = sign * o.im;
    const vector re = k == 0 ? o.re : k == 1 ? o.re - y : k == 2 ? -y : -o.re - y;
    const vector im = k == 0 ? o.im : k == 1 ? o.im + x : k == 2 ? x : x - o.im;
    *plus = (complex_vector){e.re + scale * re, e.im + scale * im};
    *minus = (complex_vector){e.re - scale * re, e.im - scale * im};
}

/* cos and sin of 2 pi k / radix for the odd radices, 0 < k < radix / 2 */
static const float ROOTS[8][4][2] = {
    [3] = {[1] = {-0.5f, 0.86602540378443864676f}},
    [5] = {[1] = {0.30901699437494742410f, 0.95105651629515357212f},
           [2] = {-0.80901699437494742410f, 0.58778525229247312917f}},
    [7] = {[1] = {0.62348980185873353053f, 0.78183148246802980871f},
           [2] = {-0.22252093395631440429f, 0.97492791218182360702f},
           [3] = {-0.90096886790241912624f, 0.43388373911755812048f}},
};

INLINE void odd_butterfly(complex_vector *a, const int radix, const int sign)
{
    const int half = radix / 2;
    complex_vector sums[4], differences[4], first = a[0];
    for (int k = 1; k <= half; k++) {
        sums[k] = add(a[k], a[radix - k]), differences[k] = subtract(a[k], a[radix - k]);
    }
    for (int k = 1; k <= half; k++) a[0] = add(a[0], sums[k]);
    for (int q = 1; q <= half; q++) {
        complex_vector even = first, odd = {{0}, {0}};
        for (int k = 1; k <= half; k++) {
            const int m = q * k % radix, below = 2 * m > radix;
            const float *root = ROOTS[radix][below ? radix - m : m];
            const float c = root[0], s = (below ? -sign : sign) * root[1];
            even.re += c * sums[k].re, even.im += c * sums[k].im;
            odd.re -= s * differences[k].im, odd.im += s * differences[k].re;
        }
        a[q] = add(even, odd), a[radix - q] = subtract(even, odd);
    }
}

/* the Fourier sum of `radix` numbers with exp(sign 2 pi i k l / radix), in place */
INLINE void butterfly(complex_vector *a, const int radix, const int sign)
{
    if (radix == 2) {
        const complex_vector u = a[0], v = a[1];
        halves(u, v, &a[0], &a[1], 0, sign);
    } else if (radix == 4) {
        butterfly4(a, sign);
    } else if (radix == 8) {
        complex_vector e[4] = {a[0], a[2], a[4], a[6]}, o[4] = {a[1], a[3], a[5], a[7]};
        butterfly4(e, sign);
        butterfly4(o, sign);
        halves(e[0], o[0], &a[0], &a[4], 0, sign);
        halves(e[1], o[1], &a[1], &a[5], 1, sign);
        halves(e[2], o[2], &a[2], &a[6], 2, sign);
        halves(e[3], o[3], &a[3], &a[7], 3, sign);
    } else {
        odd_butterfly(a, radix, sign);
    }
}

/* a times the twiddle factor at w, or its conjugate */
INLINE complex_vector twiddle(complex_vector a, const float *w, const float sign)
{
    return (complex_vector){w[0] * a.re - sign * (w[1] * a.im),
                            w[0] * a.im + sign * (w[1] * a.re)};
}

typedef complex_vector (*fetcher)(const void *from, long k);
typedef void (*emitter)(const void *to, long k, complex_vector value);

/* call a function with the radix as its last argument, a constant */
#define FOR_RADIX(given, function, ...)                                                          \
    switch (given) {                                                                             \
    case 2: function(__VA_ARGS__, 2); break;                                                     \
    case 3: function(__VA_ARGS__, 3); break;                                                     \
    case 4: function(__VA_ARGS__, 4); break;                                                     \
    case 5: function(__VA_ARGS__, 5); break;                                                     \
    case 7: function(__VA_ARGS__, 7); break;                                                     \
    default: function(__VA_ARGS__, 8); break;                                                    \
    }

/* the first pass of synthesis, or the last one of analysis; from `fetch`, to `emit`, or in place */
INLINE void first_pass(complex_vector *line, const axis *t, const fetcher fetch,
                       const emitter emit, const void *state, const int sign, const int radix)
{
    const long stride = t->points / radix;
    for (long g = 0; g < stride; g++) {
        complex_vector a[8], *at = line + radix * t->order[g];
        for (int m = 0; m < radix; m++) a[m] = fetch ? fetch(state, g + m * stride) : at[m];
        butterfly(a, radix, sign);
        for (int m = 0; m < radix; m++)
            if (emit) emit(state, g + m * stride, a[m]);
            else at[m] = a[m];
    }
}

INLINE void middle_pass(complex_vector *line, const float *w, long points, long done,
                        const int sign, const int radix)
{
    for (long start = 0; start < points; start += done * radix)
        for (long m = 0; m < done; m++) {
            complex_vector a[8], *at = line + start + m;
            const float *factors = w + m * 2 * (radix - 1) - 2;
            for (int r = 0; r < radix; r++)
                a[r] = r && sign > 0 ? twiddle(at[r * done], factors + 2 * r, 1) : at[r * done];
            butterfly(a, radix, sign);
            for (int r = 0; r < radix; r++)
                at[r * done] = r && sign < 0 ? twiddle(a[r], factors + 2 * r, -1) : a[r];
        }
}

/* the twiddle factors of a pass, and the length of the transforms that are done before it */
INLINE const float *twiddles_of(const axis *t, long pass, long *done)
{
    const float *w = t->twiddles;
    *done = t->radix[0];
    for (long q = 1; q < pass; q++) w += 2 * (t->radix[q] - 1) * *done, *done *= t->radix[q];
    return w;
}

/* the passes between the first and the last of synthesis; for analysis in opposite order */
static __attribute__((noinline)) void middle_passes(complex_vector *line, const axis *t, int sign)
{
    for (long p = 1; p < t->passes - 1; p++) {
        const long pass = sign > 0 ? p : t->passes - 1 - p;
        long done;
        const float *w = twiddles_of(t, pass, &done);
        if (sign > 0) FOR_RADIX(t->radix[pass], middle_pass, line, w, t->points, done, 1)
        else FOR_RADIX(t->radix[pass], middle_pass, line, w, t->points, done, -1)
    }
}

/* the last pass of synthesis, which ends in `emit`, and the first pass of analysis, which begins
 * with `fetch`; either may be 0 */
INLINE void end_pass(complex_vector *line, const axis *t, const emitter emit, const fetcher fetch,
                     const void *state, const int radix)
{
    long done;
    const float *w = twiddles_of(t, t->passes - 1, &done);
    for (long m = 0; m < done; m++, w += 2 * (radix - 1)) {
        complex_vector a[8];
        if (emit) {
            for (int r = 0; r < radix; r++)
                a[r] = r ? twiddle(line[m + r * done], w + 2 * r - 2, 1) : line[m];
            butterfly(a, radix, 1);
            for (int r = 0; r < radix; r++) emit(state, m + r * done, a[r]);
        }
        if (fetch) {
            for (int r = 0; r < radix; r++) a[r] = fetch(state, m + r * done);
            butterfly(a, radix, -1);
            for (int r = 0; r < radix; r++)
                line[m + r * done] = r ? twiddle(a[r], w + 2 * r - 2, -1) : a[r];
        }
    }
}

/* ---- direct ---- */

#define FOURS(count) (((count) + 3) / 4 * 4)

/* u = T a and v = T b for a table T (rows / 4, columns, 4); u and v have space for whole fours */
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

INLINE void multiply_complex(const float *table, long rows, long columns,
                             const complex_vector *from, complex_vector *to)
{
    multiply(table, rows, columns, &from->re, &from->im, 2, &to->re, &to->im, 2);
}

/* the number of m >= 0 with a mode m or -m */
INLINE long signless(const axis *t) { return larger(t->up, t->modes - t->up + 1); }

static void direct_synthesis(const complex_vector *in, complex_vector *out, long stride,
                             complex_vector *line, const axis *t)
{
    const long count = signless(t), down = t->modes - t->up, half = t->points / 2 + 1;
    complex_vector *sums = line, *differences = sums + FOURS(count);
    complex_vector *even = differences + FOURS(count), *odd = even + FOURS(half);
    for (long m = 0; m < count; m++) {
        complex_vector plus = {{0}, {0}}, minus = {{0}, {0}};
        if (m < t->up) plus = in[m];
        if (m > 0 && m <= down) minus = in[t->modes - m];
        sums[m] = add(plus, minus);
        differences[m] = (complex_vector){minus.im - plus.im, plus.re - minus.re};
    }
    multiply_complex(t->cosines, half, count, sums, even);
    multiply_complex(t->sines, half, count, differences, odd);
    for (long x = 0; x < half; x++) {
        out[x * stride] = add(even[x], odd[x]);
        if (x > 0 && 2 * x < t->points) out[(t->points - x) * stride] = subtract(even[x], odd[x]);
    }
}

static void direct_analysis(const complex_vector *in, long stride, complex_vector *out,
                            complex_vector *line, const axis *t)
{
    const long count = signless(t), down = t->modes - t->up, half = t->points / 2 + 1;
    complex_vector *sums = line, *differences = sums + FOURS(count);
    complex_vector *even = differences + FOURS(count), *odd = even + FOURS(half);
    for (long x = 0; x < half; x++) {
        const complex_vector a = in[x * stride];
        even[x] = a, odd[x] = (complex_vector){{0}, {0}};
        if (x > 0 && 2 * x < t->points) {
            const complex_vector b = in[(t->points - x) * stride];
            even[x] = add(a, b), odd[x] = subtract(a, b);
        }
    }
    multiply_complex(t->cosines_back, count, half, even, sums);
    multiply_complex(t->sines_back, count, half, odd, differences);
    for (long m = 0; m < count; m++) {
        const complex_vector p = sums[m], d = differences[m];
        if (m < t->up) out[m] = (complex_vector){p.re + d.im, p.im - d.re};
        if (m > 0 && m <= down) out[t->modes - m] = (complex_vector){p.re - d.im, p.im + d.re};
    }
}

/* ---- a full axis ---- */

/* kept modes in their order, seen at frequency k; 0 where k is not kept */
typedef struct { complex_vector *at; long up, gap; } kept_line;

INLINE long kept_place(const kept_line *s, long k)
{
    const long place = k < s->up ? k : k - s->gap;
    return place < s->up && k >= s->up ? -1 : place;
}

INLINE complex_vector fetch_kept(const void *from, long k)
{
    const kept_line *s = from;
    const long place = kept_place(s, k);
    return place < 0 ? (complex_vector){{0}, {0}} : s->at[place];
}

INLINE void emit_kept(const void *to, long k, complex_vector value)
{
    const kept_line *s = to;
    const long place = kept_place(s, k);
    if (place >= 0) s->at[place] = value;
}

typedef struct { complex_vector *at; long stride; } strided_line;

INLINE complex_vector fetch_strided(const void *from, long x)
{
    const strided_line *s = from;
    return s->at[x * s->stride];
}

INLINE void emit_strided(const void *to, long x, complex_vector value)
{
    const strided_line *s = to;
    s->at[x * s->stride] = value;
}

/* out(x) = sum_k in(k) exp(2 pi i k x / N) over the kept modes */
static __attribute__((noinline)) void synthesise_column(const complex_vector *in,
                                                        complex_vector *out, long stride,
                                                        complex_vector *line, const axis *t)
{
    if (!t->passes) {
        direct_synthesis(in, out, stride, line, t);
        return;
    }
    const kept_line from = {(complex_vector *)in, t->up, t->points - t->modes};
    const strided_line to = {out, stride};
    FOR_RADIX(t->radix[0], first_pass, line, t, fetch_kept, 0, &from, 1)
    middle_passes(line, t, 1);
    FOR_RADIX(t->radix[t->passes - 1], end_pass, line, t, emit_strided, 0, &to)
}

/* its transpose */
static __attribute__((noinline)) void analyse_column(const complex_vector *in, long stride,
                                                     complex_vector *out, complex_vector *line,
                                                     const axis *t)
{
    if (!t->passes) {
        direct_analysis(in, stride, out, line, t);
        return;
    }
    const strided_line from = {(complex_vector *)in, stride};
    const kept_line to = {out, t->up, t->points - t->modes};
    FOR_RADIX(t->radix[t->passes - 1], end_pass, line, t, 0, fetch_strided, &from)
    middle_passes(line, t, -1);
    FOR_RADIX(t->radix[0], first_pass, line, t, 0, emit_kept, &to, -1)
}

/* complex vectors that a transform needs as its `line` */
INLINE long line_size(const axis *t)
{
    return t->passes ? t->points : 2 * FOURS(signless(t)) + 2 * FOURS(t->points / 2 + 1);
}
