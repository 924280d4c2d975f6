/* Periodic fields between their nodes, v(x) = sum_k c_k prod_a B(m_a x_a - k_a) at x + d(x) for the
 * points x_a = i_a / n_a of a grid of which m_a is a multiple; see pdno/operators/warp.py. B is the
 * B-spline of degree 3 or 5 or, for degree 0, Keys' cubic convolution. */
#define TAPS(degree) ((degree) == 5 ? 6 : 4)
enum { MOST_TAPS = 8 };
typedef struct { long channels, degree, n[3], m[3]; } spline; /* int64 numbers of the caller */
typedef float eight __attribute__((vector_size(32), aligned(4)));
typedef int eight_bits __attribute__((vector_size(32), aligned(4)));
typedef struct { long at[MOST_TAPS], inside; eight weight, slope; } taps_of_axis;
#define WHERE(condition, v) ((eight)((condition) & (eight_bits)(v)))

/* B and its derivative at distances x */
INLINE void basis_at(eight signed_x, eight *value, eight *slope, const long degree)
{
    const eight_bits negative = signed_x < 0, sign = negative & (int)0x80000000;
    const eight x = (eight)((eight_bits)signed_x ^ sign);
    if (degree == 0) {
        const eight near = (1.5f * x - 2.5f) * x * x + 1, far = ((2.5f - 0.5f * x) * x - 4) * x + 2;
        const eight rise = (4.5f * x - 5) * x, fall = (5 - 1.5f * x) * x - 4;
        *value = WHERE(x <= 1, near) + WHERE((x > 1) & (x <= 2), far);
        *slope = WHERE(x <= 1, rise) + WHERE((x > 1) & (x <= 2), fall);
    } else {
        const float signs[3] = {1, -(float)(degree + 1), 15}; /* (-1)^k binomials */
        *value = *slope = (eight){0};
        for (long k = 0; 2 * k < degree; k++) {
            const eight y = (float)((degree + 1) / 2 - k) - x, z = WHERE(y > 0, y * y);
            const eight power = degree == 3 ? z : z * z;
            *value += signs[k] / (degree == 3 ? 6 : 120) * power * y;
            *slope -= signs[k] / (degree == 3 ? 2 : 24) * power;
        }
    }
    *slope = (eight)((eight_bits)*slope ^ sign);
}

/* the nodes around a point, displaced by `moved` nodes; lanes beyond the taps have no weight */
INLINE void find_taps(taps_of_axis *t, long position, float moved, long m, long stride,
                      const long degree)
{
    const long taps = TAPS(degree);
    /* a displacement that is no number, or beyond any use, is read where it stays in bounds */
    const int usable = moved > -1e9f && moved < 1e9f;
    const long whole = usable ? (long)__builtin_floorf(moved) : 0;
    const float s = usable ? moved - (float)whole : __builtin_nanf("");
    const eight steps = {0, 1, 2, 3, 4, 5, 6, 7};
    basis_at(s + (float)(taps / 2 - 1) - steps, &t->weight, &t->slope, degree);
    if (!usable) t->weight = s + (eight){0};
    long node = position + whole - (taps / 2 - 1);
    if (node < -m || node >= m) node %= m; /* a division takes longer than all else here */
    if (node < 0) node += m;
    t->inside = node + MOST_TAPS <= m;
    for (long k = 0; k < taps; k++, node++) {
        while (node >= m) node -= m; /* more than once where there are fewer nodes than taps */
        t->at[k] = node * stride;
    }
}

/* the values of a row at the taps along the last axis */
INLINE eight load_taps(const float *row, const taps_of_axis *t, const long taps)
{
    if (t->inside) return *(const eight *)(row + t->at[0]);
    eight values = {0};
    for (long k = 0; k < taps; k++) values[k] = row[t->at[k]];
    return values;
}

INLINE void add_to_taps(float *row, const taps_of_axis *t, eight values, const long taps)
{
    if (t->inside) *(eight *)(row + t->at[0]) += values;
    else
        for (long k = 0; k < taps; k++) row[t->at[k]] += values[k];
}

INLINE float sum_of(eight v)
{
    const four half = MIX(v, v, 0, 1, 2, 3) + MIX(v, v, 4, 5, 6, 7);
    return (half[0] + half[2]) + (half[1] + half[3]);
}

INLINE void read_points(const spline *s, const float *c, const float *d, const float *grad,
                        float *out, float *c_bar, float *d_bar, long first, long last,
                        const long degree, const int back)
{
    const long taps = TAPS(degree);
    const long points = s->n[0] * s->n[1] * s->n[2], nodes = s->m[0] * s->m[1] * s->m[2];
    const long skipped = s->n[0] > 1 || s->m[0] > 1 ? 0 : s->n[1] > 1 || s->m[1] > 1 ? 1 : 2;
    taps_of_axis axes[3] = {{.weight = {1}}, {.weight = {1}}, {.weight = {1}}};
    long count[3] = {1, 1, 1};
    for (long axis = skipped; axis < 3; axis++) count[axis] = taps;
    const long strides[3] = {s->m[1] * s->m[2], s->m[2], 1};
    long index[3] = {first / (s->n[1] * s->n[2]), first / s->n[2] % s->n[1], first % s->n[2]};
    const long every[3] = {s->m[0] / s->n[0], s->m[1] / s->n[1], s->m[2] / s->n[2]};
    for (long point = first; point < last; point++) {
        for (long axis = skipped; axis < 3; axis++) {
            const long m = s->m[axis], position = index[axis] * every[axis];
            const float moved = d[(axis - skipped) * points + point] * (float)m;
            find_taps(axes + axis, position, moved, m, strides[axis], degree);
        }
        for (long axis = 2; axis >= 0 && ++index[axis] == s->n[axis]; axis--) index[axis] = 0;
        float turned[3] = {0, 0, 0};
        for (long channel = 0; channel < s->channels; channel++) {
            const float g = back ? grad[channel * points + point] : 0;
            eight sum = {0}, turned_0 = {0}, turned_1 = {0};
            for (long i = 0; i < count[0]; i++)
                for (long j = 0; j < count[1]; j++) {
                    const long row = channel * nodes + axes[0].at[i] + axes[1].at[j];
                    const float w = axes[0].weight[i] * axes[1].weight[j];
                    const eight values = load_taps(c + row, axes + 2, taps);
                    sum += w * values;
                    if (!back) continue;
                    turned_0 += axes[0].slope[i] * axes[1].weight[j] * values;
                    turned_1 += axes[0].weight[i] * axes[1].slope[j] * values;
                    add_to_taps(c_bar + row, axes + 2, g * w * axes[2].weight, taps);
                }
            if (!back) {
                out[channel * points + point] = sum_of(sum * axes[2].weight);
                continue;
            }
            turned[0] += g * sum_of(turned_0 * axes[2].weight);
            turned[1] += g * sum_of(turned_1 * axes[2].weight);
            turned[2] += g * sum_of(sum * axes[2].slope);
        }
        for (long axis = skipped; back && axis < 3; axis++)
            d_bar[(axis - skipped) * points + point] = turned[axis] * (float)s->m[axis];
    }
}

/* read_points, with the degree of the spline as a constant */
#define READ(back, ...)                                                                          \
    (s->degree == 0   ? read_points(s, __VA_ARGS__, 0, back)                                     \
     : s->degree == 3 ? read_points(s, __VA_ARGS__, 3, back)                                     \
                      : read_points(s, __VA_ARGS__, 5, back))

void read_spline(const spline *s, const float *c, const float *d, float *out, long first, long last)
{
    READ(0, c, d, 0, out, 0, 0, first, last);
}

/* c_bar is added to */
void read_spline_backward(const spline *s, const float *c, const float *d, const float *grad,
                          float *c_bar, float *d_bar)
{
    READ(1, c, d, grad, 0, c_bar, d_bar, 0, s->n[0] * s->n[1] * s->n[2]);
}
