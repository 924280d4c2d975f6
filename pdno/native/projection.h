/* The projection W2 gelu(W1 v + b1) + b2 at every point, (C, N) -> (O, N): LANES points in a vector.
 *
 * The wide hidden layer lives in registers, POINTS vectors at a time, forward and backward.
 * gelu(z) = z Phi(z) with the normal distribution Phi(-u) = exp(-u^2/2) R(u), u >= 0, where R,
 * half of the scaled complementary error function at u / sqrt(2), is a polynomial of
 * (u - 3)/(u + 3) to 7e-9. So gelu and its derivative are accurate to float32 in both tails.
 */
#define POINTS 4

typedef int integers __attribute__((vector_size(LANES * 4)));

INLINE vector choose(integers where, vector yes, vector no)
{
    return (vector)(((integers)yes & where) | ((integers)no & ~where));
}

/* exp(x) for -87 < x <= 0 */
INLINE vector exponential(vector x)
{
    const integers n = __builtin_convertvector(x * 1.44269504088896341f - 0.5f, integers);
    const vector turns = __builtin_convertvector(n, vector);
    vector r = x - turns * 0.693145751953125f;
    HOLD(r);
    r -= turns * 1.42860682030941723e-6f;
    vector p = same(0.0013827030523533082f);
    p = p * r + 0.008376440598126502f, p = p * r + 0.041668497360447046f;
    p = p * r + 0.16666400693046718f, p = p * r + 0.4999999042065984f;
    p = p * r + 1.0000000406342626f, p = p * r + 1.0000000006933842f;
    return p * (vector)((n + 127) << 23);
}

/* Phi(z), and exp(-z^2/2) */
INLINE vector normal(vector z, vector *bell)
{
    vector u = (vector)((integers)z & 0x7fffffff);
    u = choose(u > 13, same(13), u);
    const vector t = (u - 3) / (u + 3);
    *bell = exponential(-0.5f * u * u);
    vector p = same(5.41509675e-5f);
    p = p * t + 1.16037558e-4f, p = p * t - 3.39911397e-4f, p = p * t - 9.84182959e-4f;
    p = p * t + 2.90470262e-3f, p = p * t + 6.13218312e-3f, p = p * t - 0.0462133138f;
    p = p * t + 0.123225022f, p = p * t - 0.206402618f, p = p * t + 0.121513948f;
    const vector tail = *bell * p;
    return choose(z < 0, tail, 1 - tail);
}

/* POINTS vectors of (channels, N) from x on to (channels, POINTS); 0 beyond N, or back */
INLINE void move_channels(float *from, vector *to, long channels, long x, long points,
                          const int back)
{
    const size_t all = POINTS * sizeof(vector), size = smaller(all, (points - x) * sizeof(float));
    for (long c = 0; c < channels; c++, from += points, to += POINTS)
        if (size == all && back) memcpy(from + x, to, all);
        else if (size == all) memcpy(to, from + x, all);
        else if (back) memcpy(from + x, to, size);
        else memset(to, 0, all), memcpy(to, from + x, size);
}

/* hidden units at once: more of them share what is loaded, where there are registers */
#if defined(__AVX512VL__)
#define UNITS 2
#else
#define UNITS 1
#endif

/* `units` rows of W1 v + b1, from w on */
INLINE void hidden_layer(vector z[UNITS][POINTS], const vector *v, const float *w,
                         const float *bias, long channels, const int units)
{
    vector sums[UNITS][POINTS];
    for (int n = 0; n < units; n++)
        for (int p = 0; p < POINTS; p++) sums[n][p] = same(bias[n]);
    for (long c = 0; c < channels; c++, v += POINTS)
        for (int p = 0; p < POINTS; p++) {
            vector x = v[p];
            HOLD(x);
            for (int n = 0; n < units; n++) sums[n][p] += w[n * channels + c] * x;
        }
    for (int n = 0; n < units; n++)
        for (int p = 0; p < POINTS; p++) z[n][p] = sums[n][p];
}

/* call a function for all hidden units, as many at once as there are, the rest one by one */
#define FOR_UNITS(count, function, ...)                                                          \
    do {                                                                                         \
        long unit = 0;                                                                           \
        for (; unit + UNITS <= (count); unit += UNITS) function(__VA_ARGS__, unit, UNITS);       \
        for (; unit < (count); unit++) function(__VA_ARGS__, unit, 1);                           \
    } while (0)

INLINE void project_units(const vector *in, const float *w1, const float *b1, const float *w2,
                          vector *sums, long C, long H, long O, long h, const int units)
{
    vector z[UNITS][POINTS], bell;
    hidden_layer(z, in, w1 + h * C, b1 + h, C, units);
    for (int n = 0; n < units; n++) {
        for (int p = 0; p < POINTS; p++) z[n][p] *= normal(z[n][p], &bell);
        for (long o = 0; o < O; o++)
            for (int p = 0; p < POINTS; p++)
                sums[o * POINTS + p] += w2[o * H + h + n] * z[n][p];
    }
}

/* bytes that each of them works in */
long project_size(long C, long O) { return (2 * C + O) * POINTS * (long)sizeof(vector); }

void project_forward(const float *v, const float *w1, const float *b1, const float *w2,
                     const float *b2, float *out, vector *space, long C, long H, long O, long N)
{
    vector *in = space, *sums = in + C * POINTS;
    for (long x = 0; x < N; x += POINTS * LANES) {
        move_channels((float *)v, in, C, x, N, 0);
        for (long o = 0; o < O; o++)
            for (int p = 0; p < POINTS; p++) sums[o * POINTS + p] = same(b2[o]);
        FOR_UNITS(H, project_units, in, w1, b1, w2, sums, C, H, O);
        move_channels(out, sums, O, x, N, 1);
    }
}

/* gradients of some hidden units: in' and sums' are added to */
INLINE void project_units_back(const vector *in, vector *in_bar, const vector *g, const float *w1,
                               const float *b1, const float *w2, vector *sums, long C, long H,
                               long O, long h, const int units)
{
    const float density = 0.39894228040143267794f; /* 1 / sqrt(2 pi) */
    const long row = C + 1 + O;
    const float *w = w1 + h * C;
    vector z[UNITS][POINTS], above[UNITS][POINTS], *to = sums + h * row;
    hidden_layer(z, in, w, b1 + h, C, units);
    for (int n = 0; n < units; n++) {
        vector slope[POINTS], total = {0};
        for (int p = 0; p < POINTS; p++) {
            vector bell;
            const vector phi = normal(z[n][p], &bell);
            slope[p] = phi + density * z[n][p] * bell;
            z[n][p] *= phi, above[n][p] = (vector){0};
        }
        for (long o = 0; o < O; o++) {
            vector sum = {0};
            for (int p = 0; p < POINTS; p++) {
                sum += g[o * POINTS + p] * z[n][p];
                above[n][p] += w2[o * H + h + n] * g[o * POINTS + p];
            }
            to[n * row + C + 1 + o] += sum;
        }
        for (int p = 0; p < POINTS; p++) above[n][p] *= slope[p], total += above[n][p];
        to[n * row + C] += total;
    }
    for (long c = 0; c < C; c++) {
        vector sum[UNITS];
        for (int n = 0; n < units; n++) sum[n] = to[n * row + c];
        for (int p = 0; p < POINTS; p++) {
            vector x = in[c * POINTS + p], back = in_bar[c * POINTS + p];
            HOLD(x);
            for (int n = 0; n < units; n++) {
                sum[n] += above[n][p] * x;
                back += w[n * C + c] * above[n][p];
            }
            in_bar[c * POINTS + p] = back;
        }
        for (int n = 0; n < units; n++) to[n * row + c] = sum[n];
    }
}

/* v' is set; sums' (H + 1, C + 1 + O) of W1, b1 and W2, and of b2 in the last row, are added to */
void project_backward(const float *v, const float *w1, const float *b1, const float *w2,
                      const float *grad, float *v_bar, vector *sums, vector *space, long C, long H,
                      long O, long N)
{
    vector *in = space, *in_bar = in + C * POINTS, *g = in_bar + C * POINTS;
    for (long x = 0; x < N; x += POINTS * LANES) {
        move_channels((float *)v, in, C, x, N, 0);
        move_channels((float *)grad, g, O, x, N, 0);
        memset(in_bar, 0, C * POINTS * sizeof(vector));
        FOR_UNITS(H, project_units_back, in, in_bar, g, w1, b1, w2, sums, C, H, O);
        for (long o = 0; o < O; o++)
            for (int p = 0; p < POINTS; p++)
                sums[H * (C + 1 + O) + o] += g[o * POINTS + p];
        move_channels(v_bar, in_bar, C, x, N, 1);
    }
}
