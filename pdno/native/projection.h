/* The projection W2 gelu(W1 v + b1) + b2 at every point: LANES points in a vector.
 *
 * v (C, N) and out (O, N) are dense, for one sample. The hidden layer is wider than all the rest
 * of a network; here it lives in registers, POINTS vectors at a time, forward and backward.
 *
 * gelu(z) = z Phi(z) with the normal distribution Phi(-u) = exp(-u^2/2) R(u), u >= 0, where R, half
 * of the scaled complementary error function at u / sqrt(2), is a polynomial of (u - 3)/(u + 3) to
 * 7e-9. So gelu and its derivative have the accuracy of float32 in both tails.
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

typedef struct { long channels, hidden, outputs, points; } projection;

/* POINTS vectors of (channels, N) from x on to (channels, POINTS); 0 beyond N, or back */
INLINE void move_channels(float *from, vector *to, long channels, long x, long points,
                          const int back)
{
    const long count = smaller(POINTS * LANES, points - x);
    from += x;
    if (count == POINTS * LANES) {
        for (long c = 0; c < channels; c++, from += points, to += POINTS)
            for (int p = 0; p < POINTS; p++)
                if (back) ((vector *)from)[p] = to[p];
                else to[p] = ((const vector *)from)[p];
        return;
    }
    for (long c = 0; c < channels; c++, from += points, to += POINTS) {
        if (!back) memset(to, 0, POINTS * sizeof(vector));
        if (back) memcpy(from, to, count * sizeof(float));
        else memcpy(to, from, count * sizeof(float));
    }
}

INLINE void hidden_layer(vector *z, const vector *v, const float *w, float bias, long channels)
{
    vector sums[POINTS];
    for (int p = 0; p < POINTS; p++) sums[p] = same(bias);
    for (long c = 0; c < channels; c++, v += POINTS)
        for (int p = 0; p < POINTS; p++) sums[p] += w[c] * v[p];
    for (int p = 0; p < POINTS; p++) z[p] = sums[p];
}

/* room for (channels + outputs) * POINTS vectors */
void project_forward(const float *v, const float *w1, const float *b1, const float *w2,
                     const float *b2, float *out, vector *room, const projection *s)
{
    vector *in = room, *sums = room + s->channels * POINTS;
    for (long x = 0; x < s->points; x += POINTS * LANES) {
        move_channels((float *)v, in, s->channels, x, s->points, 0);
        for (long o = 0; o < s->outputs; o++)
            for (int p = 0; p < POINTS; p++) sums[o * POINTS + p] = same(b2[o]);
        for (long h = 0; h < s->hidden; h++) {
            vector z[POINTS], bell;
            hidden_layer(z, in, w1 + h * s->channels, b1[h], s->channels);
            for (int p = 0; p < POINTS; p++) z[p] *= normal(z[p], &bell);
            for (long o = 0; o < s->outputs; o++)
                for (int p = 0; p < POINTS; p++)
                    sums[o * POINTS + p] += w2[o * s->hidden + h] * z[p];
        }
        move_channels(out, sums, s->outputs, x, s->points, 1);
    }
}

/* v' is set; sums' (hidden + 1, channels + 1 + outputs) of W1, b1 and W2, and in the last row those
 * of b2, are added to. room for (2 channels + outputs) * POINTS vectors */
void project_backward(const float *v, const float *w1, const float *b1, const float *w2,
                      const float *grad, float *v_bar, vector *sums, vector *room,
                      const projection *s)
{
    const float density = 0.39894228040143267794f; /* 1 / sqrt(2 pi) */
    const long C = s->channels, O = s->outputs;
    vector *in = room, *in_bar = in + C * POINTS, *g = in_bar + C * POINTS;
    for (long x = 0; x < s->points; x += POINTS * LANES) {
        move_channels((float *)v, in, C, x, s->points, 0);
        move_channels((float *)grad, g, O, x, s->points, 0);
        memset(in_bar, 0, C * POINTS * sizeof(vector));
        for (long h = 0; h < s->hidden; h++) {
            const float *w = w1 + h * C;
            vector z[POINTS], *to = sums + h * (C + 1 + O), total = {0};
            hidden_layer(z, in, w, b1[h], C);
            vector phi[POINTS], slope[POINTS];
            for (int p = 0; p < POINTS; p++) {
                vector bell;
                phi[p] = normal(z[p], &bell);
                slope[p] = phi[p] + density * z[p] * bell;
                phi[p] *= z[p];
            }
            vector above[POINTS] = {{0}};
            for (long o = 0; o < O; o++) {
                vector sum = {0};
                for (int p = 0; p < POINTS; p++) {
                    sum += g[o * POINTS + p] * phi[p];
                    above[p] += w2[o * s->hidden + h] * g[o * POINTS + p];
                }
                to[C + 1 + o] += sum;
            }
            for (int p = 0; p < POINTS; p++) above[p] *= slope[p], total += above[p];
            to[C] += total;
            for (long c = 0; c < C; c++) {
                vector sum = to[c];
                for (int p = 0; p < POINTS; p++) {
                    sum += above[p] * in[c * POINTS + p];
                    in_bar[c * POINTS + p] += w[c] * above[p];
                }
                to[c] = sum;
            }
        }
        for (long o = 0; o < O; o++)
            for (int p = 0; p < POINTS; p++)
                sums[s->hidden * (C + 1 + O) + o] += g[o * POINTS + p];
        move_channels(v_bar, in_bar, C, x, s->points, 1);
    }
}
