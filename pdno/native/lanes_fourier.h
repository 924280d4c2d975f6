/* Fourier transforms in which each lane of a vector is a transform of its own.
 *
 * Transforms have passes of radix 8, 8/4/2, ...: synthesis takes its input in reversed order of
 * digits, analysis is its transpose and leaves its output in it, so nothing is ever reordered.
 * `few` says that only the lowest quarter of the frequencies, of either sign, is not zero: then
 * half of the pass without twiddles is left out. Input and output go through functions, inlined.
 */
#include "lanes_vectors.h"

#define MOST 512
#define MOST_PASSES 4
#define FIRST 8 /* the radix of the pass without twiddles */

typedef struct {
    const float *twiddles; /* by pass, then (M, radix - 1, re|im) */
    const long *order;     /* reversed digits of 0 .. points/8 */
    long points, passes, radix[MOST_PASSES];
} axis;

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

/* the Fourier sum of `radix` numbers with exp(sign 2 pi i k l / radix), in place */
INLINE void butterfly(cell *a, const int radix, const int sign)
{
    if (radix == 2) {
        const cell u = a[0], v = a[1];
        halves(u, v, &a[0], &a[1], 0, sign);
    } else if (radix == 4) {
        butterfly4(&a[0], &a[1], &a[2], &a[3], sign);
    } else {
        cell e0 = a[0], e1 = a[2], e2 = a[4], e3 = a[6];
        cell o0 = a[1], o1 = a[3], o2 = a[5], o3 = a[7];
        butterfly4(&e0, &e1, &e2, &e3, sign);
        butterfly4(&o0, &o1, &o2, &o3, sign);
        halves(e0, o0, &a[0], &a[4], 0, sign);
        halves(e1, o1, &a[1], &a[5], 1, sign);
        halves(e2, o2, &a[2], &a[6], 2, sign);
        halves(e3, o3, &a[3], &a[7], 3, sign);
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

INLINE void first_pass(cell *line, const axis *t, const int few, const fetcher fetch,
                       const void *from)
{
    const long stride = t->points / FIRST;
    for (long g = 0; g < stride; g++) {
        cell a[FIRST], *to = line + FIRST * t->order[g];
        for (int m = 0; m < FIRST; m++)
            if (few && m >= 2 && m < 6) a[m] = (cell){{0}, {0}};
            else a[m] = fetch(from, g + m * stride);
        butterfly(a, FIRST, 1);
        for (int m = 0; m < FIRST; m++) to[m] = a[m];
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
INLINE void middle_passes(cell *line, const axis *t, const int sign)
{
    for (long p = 1; p < t->passes - 1; p++) {
        const long pass = sign > 0 ? p : t->passes - 1 - p;
        const float *w = t->twiddles;
        long done = FIRST;
        for (long q = 1; q < pass; q++) w += 2 * (t->radix[q] - 1) * done, done *= t->radix[q];
        if (t->radix[pass] == 8) middle_pass(line, w, t->points, done, 8, sign);
        else if (t->radix[pass] == 4) middle_pass(line, w, t->points, done, 4, sign);
        else middle_pass(line, w, t->points, done, 2, sign);
    }
}

INLINE const float *last_twiddles(const axis *t)
{
    const float *w = t->twiddles;
    long done = FIRST;
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

/* emit(x) = sum_k fetch(k) exp(2 pi i k x / N) */
INLINE void synthesise(cell *line, const axis *t, const int few, const fetcher fetch,
                       const void *from, const emitter emit, const void *to)
{
    const long radix = t->radix[t->passes - 1];
    first_pass(line, t, few, fetch, from);
    middle_passes(line, t, 1);
    if (radix == 8) last_pass(line, t, 8, emit, to);
    else if (radix == 4) last_pass(line, t, 4, emit, to);
    else last_pass(line, t, 2, emit, to);
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
INLINE void gather_pass(cell *line, const axis *t, const int few, const emitter emit,
                        const void *to)
{
    const long stride = t->points / FIRST;
    for (long g = 0; g < stride; g++) {
        cell a[FIRST];
        const cell *at = line + FIRST * t->order[g];
        for (int m = 0; m < FIRST; m++) a[m] = at[m];
        butterfly(a, FIRST, -1);
        for (int m = 0; m < FIRST; m++)
            if (!few || m < 2 || m >= 6) emit(to, g + m * stride, a[m]);
    }
}
