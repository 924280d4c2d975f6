/* The inner loops of the pairwise operator (pdno/operators/pairwise.py), fused and folded.
 *
 * For each line x of the grid, each sample and each input channel, with h = (Re, Im) of K modes,
 *
 *     g(x) = sum_k w_k [ cos(2 pi k x) Re h_k - sin(2 pi k x) Im h_k ]
 *     forward:   out  += b g
 *     backward:  b'   += g' g,       h' = the transpose of h -> g, applied to g' b
 *
 * g is never written to memory: it is made a few vectors at a time and used at once. Cosines are
 * even and sines odd, so g(x) = E + D and g(-x) = E - D cost one evaluation of E and D for
 * 0 <= x < N/2. The point -0 would be 0 again; its place is taken by N/2: with E(0) the sum of
 * w_k Re h_k over even k and D(0) the sum over odd k, E + D is g(0) and E - D is g(N/2).
 * A few samples go together, so that each number of the tables is loaded once for all of them.
 *
 * Layouts, rows first; within a row contiguous, from row to row with a stride of their own:
 *     h (rows, batch, inputs, K, 2)   b (rows, inputs, N)   out, g' (rows, batch, N)
 * N is a multiple of 2 LANES; half = N/2.
 *     cosines, sines (K, half)          w cos (lane 0 only for even k), -w sin (0 in lane 0)
 *     odd (K, LANES)                    w_k in lane 0 for odd k, else 0
 *     back_cosines, back_sines (half, back)   the same transposed, rows padded to LANES
 */
#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
#define SAMPLES 4
#define MOST_HALF 2048

typedef float vector __attribute__((vector_size(LANES * 4), aligned(4)));
typedef int indices __attribute__((vector_size(LANES * 4)));
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    const float *cosines, *sines, *odd, *back_cosines, *back_sines;
    long batch, inputs, modes, half, back; /* back: padded modes */
    long h_row, b_row, out_row;
} sizes;

INLINE vector load(const float *p) { return *(const vector *)p; }
INLINE void store(float *p, vector v) { *(vector *)p = v; }

#if LANES == 16
#define REVERSED 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0
#define TURNED 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1
#else
#define REVERSED 7, 6, 5, 4, 3, 2, 1, 0
#define TURNED 8, 7, 6, 5, 4, 3, 2, 1
#endif

/* the values at -x for the vector x, x+1, ...: reversed, and N/2 in the place of -0 */
INLINE vector load_mirror(const float *line, long x, long half)
{
    if (x) return __builtin_shuffle(load(line + 2 * half - x - LANES + 1), (indices){REVERSED});
    const vector middle = (vector){0} + line[half];
    return __builtin_shuffle(load(line + 2 * half - LANES), middle, (indices){TURNED});
}

INLINE void store_mirror(float *line, long x, long half, vector v)
{
    if (x) {
        store(line + 2 * half - x - LANES + 1, __builtin_shuffle(v, (indices){REVERSED}));
        return;
    }
    float *end = line + 2 * half - LANES; /* its first number is another vector's */
    store(end, __builtin_shuffle(v, load(end), (indices){TURNED}));
    line[half] = v[0];
}

/* E and D of `samples` lines on the vector from x */
INLINE void synthesise(vector e[SAMPLES], vector d[SAMPLES], const float *const line[SAMPLES],
                       const sizes *s, long x, const int samples, const int first)
{
    for (int n = 0; n < samples; n++) e[n] = d[n] = (vector){0};
    for (long k = 0; k < s->modes; k++) {
        const vector c = load(s->cosines + k * s->half + x);
        const vector t = load(s->sines + k * s->half + x);
        for (int n = 0; n < samples; n++) {
            e[n] += line[n][2 * k] * c;
            d[n] += line[n][2 * k + 1] * t;
        }
        if (first && (k & 1)) /* the lane of 0 and N/2: odd k belong to D */
            for (int n = 0; n < samples; n++)
                d[n] += line[n][2 * k] * load(s->odd + k * LANES);
    }
}

INLINE void forward_tile(const float *h, const float *b, float *out, const sizes *s, long x,
                         const int samples, const int first)
{
    vector plus[SAMPLES], minus[SAMPLES], e[SAMPLES], d[SAMPLES];
    const long N = 2 * s->half;
    for (int n = 0; n < samples; n++) plus[n] = minus[n] = (vector){0};
    for (long i = 0; i < s->inputs; i++) {
        const float *line[SAMPLES];
        for (int n = 0; n < samples; n++) line[n] = h + (n * s->inputs + i) * 2 * s->modes;
        synthesise(e, d, line, s, x, samples, first);
        const vector ahead = load(b + i * N + x), behind = load_mirror(b + i * N, x, s->half);
        for (int n = 0; n < samples; n++) {
            plus[n] += ahead * (e[n] + d[n]);
            minus[n] += behind * (e[n] - d[n]);
        }
    }
    for (int n = 0; n < samples; n++) {
        store(out + n * N + x, plus[n]);
        store_mirror(out + n * N, x, s->half, minus[n]);
    }
}

/* b' of one input on a vector, and q = g' b there as even and odd parts */
INLINE void factor_tile(const float *const line[SAMPLES], const float *b, const float *grad,
                        float *b_bar, float (*even)[MOST_HALF], float (*odd)[MOST_HALF],
                        const sizes *s, long x, const int samples, const int first)
{
    vector e[SAMPLES], d[SAMPLES];
    synthesise(e, d, line, s, x, samples, first);
    const vector ahead = load(b + x), behind = load_mirror(b, x, s->half);
    vector plus = load(b_bar + x), minus = load_mirror(b_bar, x, s->half);
    for (int n = 0; n < samples; n++) {
        const vector forth = load(grad + n * 2 * s->half + x);
        const vector back = load_mirror(grad + n * 2 * s->half, x, s->half);
        plus += forth * (e[n] + d[n]);
        minus += back * (e[n] - d[n]);
        store(even[n] + x, forth * ahead + back * behind);
        store(odd[n] + x, forth * ahead - back * behind);
    }
    store(b_bar + x, plus);
    store_mirror(b_bar, x, s->half, minus);
}

/* h' of the modes k .. k + LANES */
INLINE void transpose_tile(float (*even)[MOST_HALF], float (*odd)[MOST_HALF],
                           float *const back[SAMPLES], const sizes *s, long k,
                           const int samples)
{
    vector real[SAMPLES], imaginary[SAMPLES];
    for (int n = 0; n < samples; n++) real[n] = imaginary[n] = (vector){0};
    for (long x = 0; x < s->half; x++) {
        const vector c = load(s->back_cosines + x * s->back + k);
        const vector t = load(s->back_sines + x * s->back + k);
        for (int n = 0; n < samples; n++) {
            real[n] += even[n][x] * c;
            imaginary[n] += odd[n][x] * t;
        }
    }
    const long left = s->modes - k < LANES ? s->modes - k : LANES;
    for (int n = 0; n < samples; n++) {
        float re[LANES], im[LANES];
        store(re, real[n]);
        store(im, imaginary[n]);
        for (long m = 0; m < left; m++) {
            back[n][2 * (k + m)] = re[m] + odd[n][0] * s->odd[(k + m) * LANES];
            back[n][2 * (k + m) + 1] = im[m];
        }
    }
}

INLINE void forward_lines(const float *h, const float *b, float *out, const sizes *s,
                          const int samples)
{
    forward_tile(h, b, out, s, 0, samples, 1);
    for (long x = LANES; x < s->half; x += LANES) forward_tile(h, b, out, s, x, samples, 0);
}

INLINE void backward_lines(const float *h, const float *b, const float *grad, float *b_bar,
                           float *h_bar, const sizes *s, const int samples)
{
    static _Thread_local float even[SAMPLES][MOST_HALF], odd[SAMPLES][MOST_HALF];
    const long N = 2 * s->half;
    for (long i = 0; i < s->inputs; i++) {
        const float *line[SAMPLES];
        float *back[SAMPLES];
        for (int n = 0; n < samples; n++) {
            line[n] = h + (n * s->inputs + i) * 2 * s->modes;
            back[n] = h_bar + (n * s->inputs + i) * 2 * s->modes;
        }
        factor_tile(line, b + i * N, grad, b_bar + i * N, even, odd, s, 0, samples, 1);
        for (long x = LANES; x < s->half; x += LANES)
            factor_tile(line, b + i * N, grad, b_bar + i * N, even, odd, s, x, samples, 0);
        for (long k = 0; k < s->modes; k += LANES)
            transpose_tile(even, odd, back, s, k, samples);
    }
}

/* out = sum over inputs of b g, for the rows first .. last */
void pairs_forward(const float *h, const float *b, float *out, const sizes *s, long first,
                   long last)
{
    const long N = 2 * s->half, lines = s->inputs * 2 * s->modes;
    for (long r = first; r < last; r++) {
        long n = 0;
        for (; n + SAMPLES <= s->batch; n += SAMPLES)
            forward_lines(h + r * s->h_row + n * lines, b + r * s->b_row,
                          out + r * s->out_row + n * N, s, SAMPLES);
        for (; n < s->batch; n++)
            forward_lines(h + r * s->h_row + n * lines, b + r * s->b_row,
                          out + r * s->out_row + n * N, s, 1);
    }
}

/* b' += sum over samples of g' g and h' = the transpose of g' b, for the rows first .. last */
void pairs_backward(const float *h, const float *b, const float *grad, float *b_bar,
                    float *h_bar, const sizes *s, long first, long last)
{
    const long N = 2 * s->half, lines = s->inputs * 2 * s->modes;
    for (long r = first; r < last; r++) {
        long n = 0;
        for (; n + SAMPLES <= s->batch; n += SAMPLES)
            backward_lines(h + r * s->h_row + n * lines, b + r * s->b_row,
                           grad + r * s->out_row + n * N, b_bar + r * s->b_row,
                           h_bar + r * s->h_row + n * lines, s, SAMPLES);
        for (; n < s->batch; n++)
            backward_lines(h + r * s->h_row + n * lines, b + r * s->b_row,
                           grad + r * s->out_row + n * N, b_bar + r * s->b_row,
                           h_bar + r * s->h_row + n * lines, s, 1);
    }
}

long pairs_lanes(void) { return LANES; }
long pairs_most_half(void) { return MOST_HALF; }
