/* Vectors of floats, with what gcc (from 12) and clang share. */
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#if !defined(LANES) && defined(__AVX512F__) /* eight_lanes.c and tests define it */
#define LANES 16
#elif !defined(LANES)
#define LANES 8
#endif

typedef float vector __attribute__((vector_size(LANES * 4), aligned(4)));
typedef float four __attribute__((vector_size(16), aligned(4)));
typedef struct { vector re, im; } complex_vector;
#define INLINE static inline __attribute__((always_inline))
#define MIX __builtin_shufflevector

INLINE long smaller(long a, long b) { return a < b ? a : b; }
INLINE long larger(long a, long b) { return a > b ? a : b; }
INLINE long blocks_of(long count, long size) { return (count + size - 1) / size; }

INLINE vector same(float x) { return x - (vector){0}; }

INLINE complex_vector add(complex_vector a, complex_vector b)
{
    return (complex_vector){a.re + b.re, a.im + b.im};
}

INLINE complex_vector subtract(complex_vector a, complex_vector b)
{
    return (complex_vector){a.re - b.re, a.im - b.im};
}

/* 4 numbers, as often as they fit */
INLINE vector repeat_four(const float *p)
{
#if LANES == 16 && defined(__AVX512F__)
    return _mm512_broadcast_f32x4(_mm_loadu_ps(p));
#elif LANES == 8 && defined(__AVX__)
    return _mm256_broadcast_ps((const __m128 *)p);
#else
    const four v = *(const four *)p;
    vector result;
    for (int n = 0; n < LANES / 4; n++) ((four *)&result)[n] = v;
    return result;
#endif
}

/* LANES / 4 numbers, each of them four times */
INLINE vector four_each(const float *p)
{
#if LANES == 16 && defined(__AVX512F__)
    const __m512i places = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    return _mm512_permutexvar_ps(places, _mm512_castps128_ps512(_mm_loadu_ps(p)));
#elif LANES == 8 && defined(__AVX__)
    return _mm256_set_m128(_mm_broadcast_ss(p + 1), _mm_broadcast_ss(p));
#else
    vector result;
    for (int lane = 0; lane < LANES; lane++) result[lane] = p[lane / 4];
    return result;
#endif
}

INLINE four quarter(vector v, const int place) { return ((const four *)&v)[place]; }

/* the sum of the fours of a vector */
INLINE four sum_of_fours(vector v)
{
    four sum = quarter(v, 0);
    for (int n = 1; n < LANES / 4; n++) sum += quarter(v, n);
    return sum;
}

/* in each four: the even or odd numbers of two vectors, and what undoes that */
#if LANES == 16
#define EVENS 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30
#define ODDS 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31
#define FRONT 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define REAR 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#else
#define EVENS 0, 2, 8, 10, 4, 6, 12, 14
#define ODDS 1, 3, 9, 11, 5, 7, 13, 15
#define FRONT 0, 8, 1, 9, 4, 12, 5, 13
#define REAR 2, 10, 3, 11, 6, 14, 7, 15
#endif
INLINE vector sum_neighbours(vector a, vector b) { return MIX(a, b, EVENS) + MIX(a, b, ODDS); }

/* keep a value in a register: gcc would load it again for each use */
#if (LANES == 16 && defined(__AVX512F__)) || (LANES == 8 && defined(__AVX512VL__))
#define HOLD(value) __asm__("" : "+v"(value))
#elif LANES == 8 && defined(__AVX__)
#define HOLD(value) __asm__("" : "+x"(value))
#else
#define HOLD(value) (void)0
#endif

/* rows of 4 x 4 numbers become columns */
INLINE void transpose(four v[4])
{
    const four a = MIX(v[0], v[1], 0, 4, 1, 5), b = MIX(v[0], v[1], 2, 6, 3, 7);
    const four c = MIX(v[2], v[3], 0, 4, 1, 5), d = MIX(v[2], v[3], 2, 6, 3, 7);
    v[0] = MIX(a, c, 0, 1, 4, 5), v[1] = MIX(a, c, 2, 3, 6, 7);
    v[2] = MIX(b, d, 0, 1, 4, 5), v[3] = MIX(b, d, 2, 3, 6, 7);
}

/* up to 4 rows of up to 4 numbers, 0 beyond them; or back */
INLINE void move_fours(four v[4], float *at, long stride, long rows, long columns, const int back)
{
    const int all = rows >= 4 && columns >= 4;
    for (int n = 0; n < 4; n++, at += stride)
        if (all && back) *(four *)at = v[n];
        else if (all) v[n] = *(const four *)at;
        else {
            if (!back) v[n] = (four){0};
            float *from = back ? (float *)(v + n) : at, *to = back ? at : (float *)(v + n);
            if (n < rows) memcpy(to, from, smaller(columns, 4) * sizeof(float));
        }
}

/* rows to fours that are `step` apart, one for each column and 0 beyond the rows, or back */
INLINE void transpose_fours(float *rows_at, long stride, long rows, long columns, float *fours_at,
                            long step, const int back)
{
    four v[4];
    if (back) move_fours(v, fours_at, step, columns, 4, 0);
    else move_fours(v, rows_at, stride, rows, columns, 0);
    transpose(v);
    if (back) move_fours(v, rows_at, stride, rows, columns, 1);
    else move_fours(v, fours_at, step, columns, 4, 1);
}
