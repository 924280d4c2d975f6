/* Vectors whose lane 4 s + i is sample s and input i of a tile (see lanes.c); sums over lanes. */
#ifdef __AVX__
#include <immintrin.h>
#endif

#ifndef LANES
#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
#endif
#define SAMPLES (LANES / 4)

typedef float vector __attribute__((vector_size(LANES * 4), aligned(4)));
typedef float four __attribute__((vector_size(16), aligned(4)));
typedef int indices __attribute__((vector_size(LANES * 4)));
typedef int four_indices __attribute__((vector_size(16)));
typedef struct { vector re, im; } cell;
#define INLINE static inline __attribute__((always_inline))

/* 4 inputs, the same for all samples */
INLINE vector spread_inputs(const float *p)
{
#if LANES == 16
    return _mm512_broadcast_f32x4(_mm_loadu_ps(p));
#elif defined(__AVX__)
    return _mm256_broadcast_ps((const __m128 *)p);
#else
    vector v;
    for (int lane = 0; lane < LANES; lane++) v[lane] = p[lane % 4];
    return v;
#endif
}

/* SAMPLES samples, the same for all inputs */
INLINE vector spread_samples(const float *p)
{
#if LANES == 16
    const __m512i places = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    return _mm512_permutexvar_ps(places, _mm512_castps128_ps512(_mm_loadu_ps(p)));
#elif defined(__AVX__)
    return _mm256_set_m128(_mm_broadcast_ss(p + 1), _mm_broadcast_ss(p));
#else
    vector v;
    for (int lane = 0; lane < LANES; lane++) v[lane] = p[lane / 4];
    return v;
#endif
}

INLINE four quarter(vector v, const int sample) { return ((const four *)&v)[sample]; }

#if LANES == 16
#define LOW 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define HIGH 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define FRONT 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define REAR 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#else
#define LOW 0, 8, 1, 9, 4, 12, 5, 13
#define HIGH 2, 10, 3, 11, 6, 14, 7, 15
#define FRONT 0, 1, 8, 9, 4, 5, 12, 13
#define REAR 2, 3, 10, 11, 6, 7, 14, 15
#endif
#define MIX(a, b, ...) __builtin_shuffle(a, b, (indices){__VA_ARGS__})
#define MIX4(a, b, ...) __builtin_shuffle(a, b, (four_indices){__VA_ARGS__})

/* out = or += the sums over the 4 inputs at 4 points, a row for each sample */
INLINE void sum_inputs(const vector *v, float *out, long stride, long samples, long add)
{
    const vector s01 = MIX(v[0], v[1], LOW) + MIX(v[0], v[1], HIGH);
    const vector s23 = MIX(v[2], v[3], LOW) + MIX(v[2], v[3], HIGH);
    const vector sums = MIX(s01, s23, FRONT) + MIX(s01, s23, REAR);
    for (long n = 0; n < samples; n++) {
        four *at = (four *)(out + n * stride);
        *at = add ? *at + ((const four *)&sums)[n] : ((const four *)&sums)[n];
    }
}

INLINE four over_samples(vector v)
{
    four sum = quarter(v, 0);
    for (int n = 1; n < SAMPLES; n++) sum += quarter(v, n);
    return sum;
}

/* rows of 4 x 4 numbers become columns */
INLINE void transpose(four v[4])
{
    const four a = MIX4(v[0], v[1], 0, 4, 1, 5), b = MIX4(v[0], v[1], 2, 6, 3, 7);
    const four c = MIX4(v[2], v[3], 0, 4, 1, 5), d = MIX4(v[2], v[3], 2, 6, 3, 7);
    v[0] = MIX4(a, c, 0, 1, 4, 5), v[1] = MIX4(a, c, 2, 3, 6, 7);
    v[2] = MIX4(b, d, 0, 1, 4, 5), v[3] = MIX4(b, d, 2, 3, 6, 7);
}

/* out = or += the sums over the samples at 4 points, a row for each input */
INLINE void sum_samples(const vector *v, float *out, long stride, long inputs, long add)
{
    four sums[4];
    for (int p = 0; p < 4; p++) sums[p] = over_samples(v[p]);
    transpose(sums);
    for (long i = 0; i < inputs; i++) {
        four *at = (four *)(out + i * stride);
        *at = add ? *at + sums[i] : sums[i];
    }
}
