/* Lanes of samples and outputs: how tensors are packed for them, and the full axes.
 *
 * Of a vector, lane OUTPUTS s + j is sample s and output j of a block of both; fields alone have
 * LANES samples and one output. Layouts, and packed for one block of outputs:
 *     f    (B, I, K1, K2, K3) complex   (batch blocks, elements, re|im, samples)
 *     c    (O, I, K1, K2, K3) complex   (elements, re|im, OUTPUTS), and so c'
 *     b    (rows, P, O, I)              (rows, I, P, OUTPUTS) or (I, rows, P, OUTPUTS), and so b'
 *     out  (B, O, N1, N2, N3)
 * where an element is a mode of an input, (I, K3, K2, K1), on a line (K3, I), so that a column lies
 * together; P are the nodes or points of a row. f' is (batch blocks, columns, pairs of elements,
 * samples, 2, re|im), as registers have it.
 */
#define OUTPUTS (LANES / samples) /* of each function's own `samples`, a constant */

/* numbers of outputs for all samples, and of samples for all outputs */
INLINE vector for_outputs(const float *p, const int samples)
{
    return samples == 1 ? *(const vector *)p : repeat_four(p);
}

INLINE vector for_samples(const float *p, const int samples)
{
    return samples == LANES ? *(const vector *)p : samples == 1 ? same(*p) : four_each(p);
}

/* to += the sums over samples, OUTPUTS numbers */
INLINE void add_over_samples(float *to, vector v, const int samples)
{
    if (samples == 1) *(vector *)to += v;
    else *(four *)to += sum_of_fours(v);
}

/* ---- packing ---- */

INLINE long column_size(const layer *s)
{
    return s->dim == 1 ? s->inputs : s->dim == 2 ? s->inner.modes : s->outer.modes;
}

/* floats of f' of a batch block, for all columns of an input, or of all inputs on a line */
INLINE long gradient_size(const layer *s, const int samples)
{
    const long column = column_size(s), columns = s->inputs * modes_of(s) / column;
    return columns * blocks_of(column, 2) * samples * 4;
}

/* the first element of a column, its place in f and c (I, K1, K2, K3), and the step to the next */
typedef struct { long element, place, step; } column_place;

INLINE column_place column_at(const layer *s, long i, long k2, long k3)
{
    const long K1 = s->outer.modes, K2 = s->inner.modes, K3 = s->row.modes;
    if (s->dim == 1) return (column_place){k3 * s->inputs, k3, K3};
    if (s->dim == 2) return (column_place){(i * K3 + k3) * K2, i * K2 * K3 + k3, K3};
    return (column_place){((i * K3 + k3) * K2 + k2) * K1, (i * K1 * K2 + k2) * K3 + k3, K2 * K3};
}

/* for all columns, eight k3 at a time: eight numbers of f and c share a line of the cache */
#define FOR_COLUMNS(s, at)                                                                       \
    for (long start = 0; start < (s)->row.modes; start += 8)                                     \
        for (long i = 0; i < ((s)->dim == 1 ? 1 : (s)->inputs); i++)                             \
            for (long k2 = 0; k2 < ((s)->dim == 3 ? (s)->inner.modes : 1); k2++)                 \
                for (long k3 = start, end = smaller(start + 8, (s)->row.modes); k3 < end; k3++)  \
                    for (column_place at = column_at(s, i, k2, k3), *once = &at; once; once = 0)

/* `count` spectra (I, K1, K2, K3) to (elements, re|im, width), 0 beyond them, or back */
INLINE void move_spectra(float *spectra, float *packed, long count, const int width,
                         const layer *s, const int back)
{
    const long size = 2 * s->inputs * modes_of(s), elements = column_size(s);
    FOR_COLUMNS(s, at)
    {
        float *to = packed + 2 * width * at.element, *from = spectra + 2 * at.place;
        for (long e = 0; e < elements; e++, to += 2 * width, from += 2 * at.step)
            for (long m = 0; m < (back ? count : width); m++)
                if (back) from[m * size] = to[m], from[m * size + 1] = to[width + m];
                else {
                    to[m] = m < count ? from[m * size] : 0;
                    to[width + m] = m < count ? from[m * size + 1] : 0;
                }
    }
}

INLINE void pack_samples(const float *f, float *to, const layer *s, const int samples)
{
    const long size = 2 * s->inputs * modes_of(s);
    for (long n = 0; n < s->batch; n += samples)
        move_spectra((float *)f + n * size, to + n * size, smaller(samples, s->batch - n), samples,
                     s, 0);
}

/* c or c' of a block of outputs */
INLINE void move_symbol(const float *c, float *packed, const layer *s, long block, const int back,
                        const int samples)
{
    const long size = 2 * s->inputs * modes_of(s), first = block * OUTPUTS;
    move_spectra((float *)c + first * size, packed, smaller(OUTPUTS, s->outputs - first), OUTPUTS,
                 s, back);
}

/* f' from the sum of some terms, in their order */
INLINE void unpack_samples(float *f, const float *from, long terms, const layer *s,
                           const int samples)
{
    const long size = 2 * s->inputs * modes_of(s), count = column_size(s);
    const long packed = gradient_size(s, samples), term = blocks_of(s->batch, samples) * packed;
    for (long n = 0; n < s->batch; n++, f += size)
        FOR_COLUMNS(s, at)
        {
            const long pairs = at.element / count * blocks_of(count, 2);
            const float *source = from + (pairs * samples + n % samples) * 4;
            float *to = f + 2 * at.place;
            for (long e = 0; e < count; e++, to += 2 * at.step) {
                const float *x = source + n / samples * packed + e / 2 * 4 * samples + e % 2 * 2;
                float re = x[0], im = x[1];
                for (long r = 1; r < terms; r++) re += x[r * term], im += x[r * term + 1];
                to[0] = re, to[1] = im;
            }
        }
}

/* x-factors of the inputs first .. last in tensors of a layer, and packed; by inputs or by rows */
typedef struct { long first, last; int by_inputs; } factor_range;

INLINE long places_of(const layer *s) { return s->nodes ? s->nodes : s->row.points; }

/* where the numbers of a row, of all slabs, and an input are packed */
INLINE long factor_place(const layer *s, factor_range range, long r, long i)
{
    const long rows = s->inner.points, slab = r / rows, inputs = range.last - range.first;
    const long at = range.by_inputs ? (slab * inputs + i) * rows + r % rows : r * inputs + i;
    return at * places_of(s);
}

/* b or b' of a block of outputs */
INLINE void move_factors(const float *b, float *packed, const layer *s, long block,
                         factor_range range, const int back, const int samples)
{
    const long P = places_of(s), I = s->inputs, rows = s->outer.points * s->inner.points;
    const long first = block * OUTPUTS, count = smaller(OUTPUTS, s->outputs - first);
    const long step = (range.by_inputs ? s->inner.points : 1) * P * OUTPUTS;
    for (long r = 0; r < rows; r++)
        for (long i = 0; i < range.last - range.first; i += 4)
            for (long p = 0; p < P; p++)
                for (long j = 0; j < OUTPUTS; j += 4) {
                    const long row = (r * P + p) * s->outputs + first + j;
                    transpose_fours((float *)b + row * I + range.first + i, I, count - j,
                                    range.last - range.first - i,
                                    packed + (factor_place(s, range, r, i) + p) * OUTPUTS + j,
                                    step, back);
                }
}

/* row r of out for a block of samples and of outputs, or of out' back to vectors */
INLINE void move_row(vector *row, float *out, const layer *s, long n, long block, long r,
                     const int back, const int samples)
{
    const long N3 = s->row.points, N = points_of(s);
    for (int q = 0; q < LANES / 4; q++) {
        const long sample = n * samples + 4 * q / OUTPUTS;
        const long first = block * OUTPUTS + 4 * q % OUTPUTS;
        const long left = samples == LANES ? s->batch - sample : s->outputs - first;
        const long count = sample < s->batch ? smaller(4, left) : 0;
        float *at = out + (sample * s->outputs + first) * N + r * N3, *to = (float *)row + 4 * q;
        for (long y = 0; y < N3; y += 4, at += 4, to += 4 * LANES)
            transpose_fours(at, N, count, N3 - y, to, LANES, !back);
    }
}

/* ---- columns ---- */

/* packed coefficients, and where their gradients are added */
typedef struct { const float *f, *c; float *f_bar, *c_bar; } coefficients;

/* those of an input */
INLINE coefficients of_input(coefficients all, long i, const layer *s, const int samples)
{
    const long modes = 2 * i * modes_of(s), pairs = i * gradient_size(s, samples) / s->inputs;
    return (coefficients){all.f + modes * samples, all.c + modes * OUTPUTS, all.f_bar + pairs,
                          all.c_bar + modes * OUTPUTS};
}

/* c f of `count` elements from `at` on */
INLINE void fill_column(complex_vector *to, long stride, coefficients a, long at, long count,
                        const int samples)
{
    for (long k = at; k < at + count; k++, to += stride) {
        const float *c = a.c + 2 * OUTPUTS * k, *f = a.f + 2 * samples * k;
        const vector x = for_samples(f, samples), y = for_samples(f + samples, samples);
        *to = (complex_vector){x, y};
        if (samples == LANES) continue;
        const vector re = for_outputs(c, samples), im = for_outputs(c + OUTPUTS, samples);
        *to = (complex_vector){re * x - im * y, re * y + im * x};
    }
}

/* f' += the sums of two elements over the outputs, for each sample */
INLINE void add_outputs(float *to, complex_vector a, complex_vector b, const int samples)
{
    const vector sums = sum_neighbours(sum_neighbours(a.re, a.im), sum_neighbours(b.re, b.im));
    if (samples == 1) *(four *)to += sum_of_fours(sums);
    else *(vector *)to += sums;
}

/* p becomes conj(c) p at element k, and c' += conj(f) p */
INLINE void turn_back(complex_vector *p, coefficients a, long k, const int samples)
{
    const float *c = a.c + 2 * OUTPUTS * k, *f = a.f + 2 * samples * k;
    const vector re = for_outputs(c, samples), im = for_outputs(c + OUTPUTS, samples);
    const vector x = for_samples(f, samples), y = for_samples(f + samples, samples);
    const complex_vector q = *p;
    float *c_bar = a.c_bar + 2 * OUTPUTS * k;
    *p = (complex_vector){re * q.re + im * q.im, re * q.im - im * q.re};
    add_over_samples(c_bar, x * q.re + y * q.im, samples);
    add_over_samples(c_bar + OUTPUTS, x * q.im - y * q.re, samples);
}

/* c' += conj(f) p and f' += conj(c) p for `count` elements from `at` on */
INLINE void empty_column(const complex_vector *p, long stride, coefficients a, float *f_bar,
                         long at, long count, const int samples)
{
    for (long k = at; k < at + count; k += 2, p += 2 * stride, f_bar += samples * 4) {
        complex_vector one = p[0], two = {{0}, {0}};
        turn_back(&one, a, k, samples);
        if (k + 1 < at + count) two = p[stride], turn_back(&two, a, k + 1, samples);
        add_outputs(f_bar, one, two, samples);
    }
}

/* ---- the full axes ---- */

/* what one task works in; pairs.h, nodes.h and fields.h lay out their own */
typedef struct {
    complex_vector *lines, *h, *slabs, *line, *column;
    vector *sums, *a_bar, *part, *totals;
    float *a, *b_bar, *c, *c_bar;
} workspace;

/* of an operator; a forward pass has `out`, a backward pass gradients */
typedef struct {
    const float *f, *c, *b, *basis, *grad;
    float *out, *f_bar, *c_bar, *b_bar;
} tensors;

/* the coefficients of a batch block, and of the block of outputs that is packed */
INLINE coefficients block_of(const tensors *a, const workspace *w, const layer *s, long n,
                             const int samples)
{
    const float *f = a->f + n * s->inputs * modes_of(s) * 2 * samples;
    return (coefficients){f, w->c, a->f_bar + n * gradient_size(s, samples), w->c_bar};
}

#define TAKE(name, type, bytes)                                                                  \
    (w->name = (type *)at, at += ((bytes) + sizeof(complex_vector) - 1) & -sizeof(complex_vector))

INLINE char *take_columns(char *at, workspace *w, const layer *s)
{
    TAKE(line, complex_vector, longest_line(s) * sizeof(complex_vector));
    TAKE(column, complex_vector, larger(s->outer.modes, s->inner.modes) * sizeof(complex_vector));
    return at;
}

/* In space, waves across the slabs: (slabs, inputs, K3, K2) with an odd step, so that slabs do not
 * meet in the cache. */
INLINE long slab_step(const layer *s, long inputs)
{
    return s->dim == 3 ? (inputs * s->row.modes * s->inner.modes) | 1 : 0;
}

/* where a column, of `size` elements, adds to f' */
INLINE float *gradient_of(coefficients a, long column, long size, const int samples)
{
    return a.f_bar + column * blocks_of(size, 2) * samples * 4;
}

/* columns of the outer axis to the slabs, or the transpose: c' and f' */
INLINE void move_slabs(coefficients all, long first, long last, long step, const workspace *w,
                       const layer *s, const int back, const int samples)
{
    const long K1 = s->outer.modes, columns = s->inner.modes * s->row.modes;
    complex_vector *slab = w->slabs;
    for (long i = first; i < last; i++) {
        const coefficients a = of_input(all, i, s, samples);
        for (long k = 0; k < columns; k++, slab++)
            if (!back) {
                fill_column(w->column, 1, a, k * K1, K1, samples);
                synthesise_column(w->column, slab, step, w->line, &s->outer);
            } else {
                complex_vector *to = w->column;
                if (samples == LANES) to = (complex_vector *)a.f_bar + k * K1;
                analyse_column(slab, step, to, w->line, &s->outer);
                if (samples < LANES)
                    empty_column(to, 1, a, gradient_of(a, k, K1, samples), k * K1, K1, samples);
            }
    }
}

/* waves along the rows of a slab, after the full axes: where they are, and the steps to the next
 * input, mode and row */
typedef struct { complex_vector *at; long input, mode, row; } waves;

/* Waves of the inputs first .. last and the modes k3 .. end, or the transpose: c' and f', or the
 * slab's. `slab` is 0, or in space what move_slabs left of the first input in one of them. */
INLINE void move_waves(coefficients all, long k3, long end, long first, long last,
                       complex_vector *slab, waves h, const workspace *w, const layer *s,
                       const int back, const int samples)
{
    const long K2 = s->inner.modes, K3 = s->row.modes, I = s->inputs, count = last - first;
    for (long k = k3; s->dim == 1 && k < end; k++, h.at += h.mode) {
        float *f_bar = all.f_bar;
        if (back && samples == LANES) ((complex_vector *)f_bar)[k] = *h.at;
        else if (back) {
            f_bar = gradient_of(all, k, I, samples) + first * 2 * samples;
            empty_column(h.at, h.input, all, f_bar, k * I + first, count, samples);
        } else {
            fill_column(h.at, h.input, all, k * I + first, count, samples);
            for (long i = 0; is_edge(s, k) && i < count; i++) h.at[i * h.input].im = (vector){0};
        }
    }
    for (long i = 0; s->dim > 1 && i < count; i++, h.at += h.input) {
        const coefficients a = of_input(all, first + i, s, samples);
        for (long k = k3; k < end; k++) {
            complex_vector *at = h.at + (k - k3) * h.mode;
            complex_vector *column = slab ? slab + (i * K3 + k) * K2 : w->column;
            if (!back) {
                if (!slab) fill_column(column, 1, a, k * K2, K2, samples);
                synthesise_column(column, at, h.row, w->line, &s->inner);
                for (long r = 0; is_edge(s, k) && r < s->inner.points; r++)
                    at[r * h.row].im = (vector){0};
                continue;
            }
            if (!slab && samples == LANES) column = (complex_vector *)a.f_bar + k * K2;
            analyse_column(at, h.row, column, w->line, &s->inner);
            if (!slab && samples < LANES)
                empty_column(column, 1, a, gradient_of(a, k, K2, samples), k * K2, K2, samples);
        }
    }
}
