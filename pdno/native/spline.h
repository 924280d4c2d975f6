/* Periodic fields between their nodes, v(x + d(x)); see pdno/operators/warp.py.
 *
 * v(x) = sum_k c_k prod_a B(m_a x_a - k_a) at the points x_a = i_a / n_a of a grid of which m_a is a
 * multiple; B is the B-spline of degree 3 or 5 or, for degree 0, Keys' cubic convolution. A backward
 * task has a sample of its own.
 */
enum { MOST_TAPS = 6 };
#define TAPS(degree) ((degree) == 5 ? 6 : 4)
typedef struct { long channels, degree, n[3], m[3]; } spline; /* int64 numbers of the caller */
typedef struct { long at[MOST_TAPS]; float weight[MOST_TAPS], slope[MOST_TAPS]; } taps_of_axis;

/* B and its derivative at the distance x >= 0 */
INLINE void basis_at(float x, float *value, float *slope, const long degree)
{
    if (degree == 0) {
        *value = x <= 1 ? (1.5f * x - 2.5f) * x * x + 1 : ((2.5f - 0.5f * x) * x - 4) * x + 2;
        *slope = x <= 1 ? (4.5f * x - 5) * x : (5 - 1.5f * x) * x - 4;
        return;
    }
    const float signs[3] = {1, -(float)(degree + 1), 15}; /* (-1)^k binomials */
    *value = *slope = 0;
    for (long k = 0; 2 * k < degree; k++) {
        const float y = (degree + 1) / 2 - k - x, z = y > 0 ? y * y : 0;
        const float power = degree == 3 ? z : z * z;
        *value += signs[k] * power * y / (degree == 3 ? 6 : 120);
        *slope -= signs[k] * power / (degree == 3 ? 2 : 24);
    }
}

/* the nodes around a point, displaced by `moved` nodes */
INLINE void find_taps(taps_of_axis *t, long point, float moved, long n, long m, long stride,
                      const long degree)
{
    const long taps = TAPS(degree);
    /* a displacement that is no number, or beyond any use, is read where it stays in bounds */
    const int usable = moved > -1e9f && moved < 1e9f;
    const long whole = usable ? (long)__builtin_floorf(moved) : 0;
    const float s = usable ? moved - (float)whole : __builtin_nanf("");
    long node = (point * (m / n) + whole - (taps / 2 - 1)) % m;
    for (long k = 0; k < taps; k++, node++) {
        const float distance = s - (float)(k - (taps / 2 - 1));
        float slope;
        basis_at(distance < 0 ? -distance : distance, t->weight + k, &slope, degree);
        if (!usable) t->weight[k] = s;
        t->slope[k] = distance < 0 ? -slope : slope;
        long inside = node < 0 ? node + m : node;
        while (inside >= m) inside -= m; /* more than once where there are fewer nodes than taps */
        t->at[k] = inside * stride;
    }
}

INLINE void read_points(const spline *s, const float *c, const float *d, const float *grad,
                        float *out, float *c_bar, float *d_bar, long first, long last,
                        const long degree, const int back)
{
    const long taps = TAPS(degree);
    const long points = s->n[0] * s->n[1] * s->n[2], nodes = s->m[0] * s->m[1] * s->m[2];
    const long skipped = s->n[0] > 1 || s->m[0] > 1 ? 0 : s->n[1] > 1 || s->m[1] > 1 ? 1 : 2;
    taps_of_axis axes[3] = {{{0}, {1}, {0}}, {{0}, {1}, {0}}, {{0}, {1}, {0}}};
    long count[3] = {1, 1, 1};
    for (long axis = skipped; axis < 3; axis++) count[axis] = taps;
    for (long point = first; point < last; point++) {
        long rest = point, stride = 1;
        for (long axis = 2; axis >= skipped; axis--) {
            const long m = s->m[axis], n = s->n[axis];
            const float moved = d[(axis - skipped) * points + point] * (float)m;
            find_taps(axes + axis, rest % n, moved, n, m, stride, degree);
            rest /= n, stride *= m;
        }
        float turned[3] = {0, 0, 0};
        for (long channel = 0; channel < s->channels; channel++) {
            const float *from = c + channel * nodes;
            const float g = back ? grad[channel * points + point] : 0;
            float sum = 0;
            for (long i = 0; i < count[0]; i++)
                for (long j = 0; j < count[1]; j++) {
                    const long row = axes[0].at[i] + axes[1].at[j];
                    float along = 0, slope = 0;
                    const float w = axes[0].weight[i] * axes[1].weight[j], gw = g * w;
                    for (long k = 0; k < taps; k++) {
                        const float value = from[row + axes[2].at[k]];
                        along += axes[2].weight[k] * value;
                        if (!back) continue;
                        slope += axes[2].slope[k] * value;
                        c_bar[channel * nodes + row + axes[2].at[k]] += gw * axes[2].weight[k];
                    }
                    sum += w * along;
                    if (!back) continue;
                    turned[0] += g * axes[0].slope[i] * axes[1].weight[j] * along;
                    turned[1] += g * axes[0].weight[i] * axes[1].slope[j] * along;
                    turned[2] += gw * slope;
                }
            if (!back) out[channel * points + point] = sum;
        }
        for (long axis = skipped; back && axis < 3; axis++)
            d_bar[(axis - skipped) * points + point] = turned[axis] * (float)s->m[axis];
    }
}

void read_spline(const spline *s, const float *c, const float *d, float *out, long first, long last)
{
    if (s->degree == 0) read_points(s, c, d, 0, out, 0, 0, first, last, 0, 0);
    else if (s->degree == 3) read_points(s, c, d, 0, out, 0, 0, first, last, 3, 0);
    else read_points(s, c, d, 0, out, 0, 0, first, last, 5, 0);
}

/* c_bar is added to */
void read_spline_backward(const spline *s, const float *c, const float *d, const float *grad,
                          float *c_bar, float *d_bar)
{
    const long points = s->n[0] * s->n[1] * s->n[2];
    if (s->degree == 0) read_points(s, c, d, grad, 0, c_bar, d_bar, 0, points, 0, 1);
    else if (s->degree == 3) read_points(s, c, d, grad, 0, c_bar, d_bar, 0, points, 3, 1);
    else read_points(s, c, d, grad, 0, c_bar, d_bar, 0, points, 5, 1);
}
