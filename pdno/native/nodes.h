/* The operator whose x-factors are interpolated along the last axis: a template like tiles.h.
 *
 *     out_bj(r, y) = sum_m l_m(y) F^-1[ sum_i A_jim(r) h_bji(r, .) ](y),   h_bji = F^-1[c_ji f_bi]
 *
 * where h is synthesised along the full axes only: r is a row of the grid, m a node. The sum over
 * i comes before the rows are transformed, so there are M of them for an output instead of I.
 * Here lane OUTPUTS s + j is sample s and output j, and nothing is ever added up across lanes but
 * gradients at the very end. Lines of two neighbouring nodes are transformed together.
 *
 * Layouts: A, A' (rows, M, O, I); l (M / 2, N3, 2), M a multiple of 4; packed for one block of
 * outputs: A (rows, I, M, OUTPUTS), backward (I, rows, M, OUTPUTS), c and c' (elements, re|im,
 * OUTPUTS), f (batch blocks, elements, re|im, SAMPLES), where an element is a mode of an input:
 * (I, modes), on a line (modes, I), so that what is added up lies together; f' (batch blocks,
 * columns, pairs of elements, SAMPLES, 2, re|im), as it comes out of the registers; lines (rows,
 * M, wave_row).
 */
#define OUTPUTS (LANES / SAMPLES)
#define CACHED (320 * 1024)            /* bytes of the second cache */
#define LINES_CACHED (4 * 1024 * 1024) /* of the third */

#if SAMPLES == 1
#define NAME(name) node_##name##_narrow
#else
#define NAME(name) node_##name##_wide
#endif

INLINE vector NAME(outputs)(const float *p)
{
#if SAMPLES == 1
    return *(const vector *)p;
#else
    return repeat_four(p);
#endif
}

INLINE vector NAME(samples)(const float *p)
{
#if SAMPLES == 1
    return same(*p);
#else
    return four_each(p);
#endif
}

INLINE long NAME(output_blocks)(const layer *s) { return blocks_of(s->outputs, OUTPUTS); }
INLINE long NAME(batch_blocks)(const layer *s) { return blocks_of(s->batch, SAMPLES); }
INLINE long NAME(rows)(const layer *s) { return s->inner.points; } /* of a slab, outer.points */

/* ---- packing ---- */

/* elements of a column: what is transformed at once, on a line the inputs of a mode */
INLINE long NAME(column_size)(const layer *s)
{
    return s->dim == 1 ? s->inputs : s->dim == 2 ? s->inner.modes : s->outer.modes;
}

/* floats of f' of a batch block */
INLINE long NAME(gradient_size)(const layer *s)
{
    const long column = NAME(column_size)(s), columns = s->inputs * modes_of(s) / column;
    return columns * blocks_of(column, 2) * SAMPLES * 4;
}

/* the place in f and c (I, K1, K2, K3) of the element `at` of a column, and the step to the next */
typedef struct { long element, place, step; } NAME(column_place);

INLINE NAME(column_place) NAME(column_at)(const layer *s, long i, long k2, long k3)
{
    const long K1 = s->outer.modes, K2 = s->inner.modes, K3 = s->row.modes;
    if (s->dim == 1) return (NAME(column_place)){k3 * s->inputs, k3, K3};
    if (s->dim == 2) return (NAME(column_place)){(i * K3 + k3) * K2, i * K2 * K3 + k3, K3};
    return (NAME(column_place)){((i * K3 + k3) * K2 + k2) * K1, (i * K1 * K2 + k2) * K3 + k3,
                                K2 * K3};
}

/* for all columns, eight k3 at a time: eight numbers of f and c share a line of the cache */
#define FOR_COLUMNS(s, at)                                                                       \
    for (long start = 0; start < (s)->row.modes; start += 8)                                     \
        for (long i = 0; i < ((s)->dim == 1 ? 1 : (s)->inputs); i++)                             \
            for (long k2 = 0; k2 < ((s)->dim == 3 ? (s)->inner.modes : 1); k2++)                 \
                for (long k3 = start, end = smaller(start + 8, (s)->row.modes); k3 < end; k3++)  \
                    for (NAME(column_place) at = NAME(column_at)(s, i, k2, k3), *once = &at;     \
                         once; once = 0)

static void NAME(pack_samples)(const float *f, float *to, const layer *s)
{
    const long size = 2 * s->inputs * modes_of(s), count = NAME(column_size)(s);
    for (long n = 0; n < NAME(batch_blocks)(s); n++, f += SAMPLES * size, to += SAMPLES * size)
        FOR_COLUMNS(s, at)
        {
            float *target = to + 2 * SAMPLES * at.element;
            const float *from = f + 2 * at.place;
            for (long e = 0; e < count; e++, target += 2 * SAMPLES, from += 2 * at.step)
                for (long m = 0; m < SAMPLES; m++) {
                    const int there = n * SAMPLES + m < s->batch;
                    target[m] = there ? from[m * size] : 0;
                    target[SAMPLES + m] = there ? from[m * size + 1] : 0;
                }
        }
}

/* f' from the sum of some terms, in their order */
static void NAME(unpack_samples)(float *f, const float *from, long terms, const layer *s)
{
    const long size = 2 * s->inputs * modes_of(s), count = NAME(column_size)(s);
    const long packed = NAME(gradient_size)(s), term = NAME(batch_blocks)(s) * packed;
    for (long n = 0; n < s->batch; n++, f += size)
        FOR_COLUMNS(s, at)
        {
            const long pairs = at.element / count * blocks_of(count, 2);
            const float *source = from + n / SAMPLES * packed + (pairs * SAMPLES + n % SAMPLES) * 4;
            float *to = f + 2 * at.place;
            for (long e = 0; e < count; e++, to += 2 * at.step) {
                const float *x = source + e / 2 * 4 * SAMPLES + e % 2 * 2;
                float re = x[0], im = x[1];
                for (long r = 1; r < terms; r++) re += x[r * term], im += x[r * term + 1];
                to[0] = re, to[1] = im;
            }
        }
}

/* c (O, I, K1, K2, K3) complex for a block of outputs, 0 beyond O */
static void NAME(pack_symbol)(const float *c, float *to, const layer *s, long block)
{
    const long size = 2 * s->inputs * modes_of(s), elements = NAME(column_size)(s);
    const long count = smaller(OUTPUTS, s->outputs - block * OUTPUTS);
    c += block * OUTPUTS * size;
    FOR_COLUMNS(s, at)
    {
        float *target = to + 2 * OUTPUTS * at.element;
        const float *from = c + 2 * at.place;
        for (long e = 0; e < elements; e++, target += 2 * OUTPUTS, from += 2 * at.step)
            for (long j = 0; j < OUTPUTS; j++) {
                target[j] = j < count ? from[j * size] : 0;
                target[OUTPUTS + j] = j < count ? from[j * size + 1] : 0;
            }
    }
}

INLINE void NAME(sum_samples)(float *to, vector v)
{
#if SAMPLES == 1
    *(vector *)to = v;
#else
    *(four *)to = sum_of_fours(v);
#endif
}

static void NAME(unpack_symbol)(float *c, const float *packed, const layer *s, long block)
{
    const long size = 2 * s->inputs * modes_of(s), elements = NAME(column_size)(s);
    const long count = smaller(OUTPUTS, s->outputs - block * OUTPUTS);
    c += block * OUTPUTS * size;
    FOR_COLUMNS(s, at)
    {
        const float *from = packed + 2 * OUTPUTS * at.element;
        float *to = c + 2 * at.place;
        for (long e = 0; e < elements; e++, from += 2 * OUTPUTS, to += 2 * at.step)
            for (long j = 0; j < count; j++)
                to[j * size] = from[j], to[j * size + 1] = from[OUTPUTS + j];
    }
}

/* place of A_im at row r of all slabs, as it is packed */
INLINE long NAME(node_place)(const layer *s, long r, long i, const int by_inputs)
{
    const long rows = NAME(rows)(s), slab = r / rows;
    return (by_inputs ? (slab * s->inputs + i) * rows + r % rows : r * s->inputs + i) * s->nodes;
}

/* A (slabs, rows, M, O, I) -> (slabs, rows, I, M, OUTPUTS), or (slabs, I, rows, M, OUTPUTS) */
static void NAME(pack_nodes)(const float *a, float *to, const layer *s, long block,
                             const int by_inputs)
{
    const long M = s->nodes, I = s->inputs, rows = s->outer.points * NAME(rows)(s);
    const long count = smaller(OUTPUTS, s->outputs - block * OUTPUTS);
    for (long r = 0; r < rows; r++)
        for (long m = 0; m < M; m++) {
            const float *from = a + ((r * M + m) * s->outputs + block * OUTPUTS) * I;
            for (long i = 0; i < I; i++) {
                float *at = to + (NAME(node_place)(s, r, i, by_inputs) + m) * OUTPUTS;
                for (long j = 0; j < OUTPUTS; j++) at[j] = j < count ? from[j * I + i] : 0;
            }
        }
}

/* (slabs, I, rows, M) -> (slabs, rows, M, O, I), summed over samples */
static void NAME(unpack_nodes)(float *a, const vector *from, const layer *s, long block)
{
    const long M = s->nodes, I = s->inputs, rows = s->outer.points * NAME(rows)(s);
    const long count = smaller(OUTPUTS, s->outputs - block * OUTPUTS);
    for (long r = 0; r < rows; r++)
        for (long m = 0; m < M; m++) {
            float *to = a + ((r * M + m) * s->outputs + block * OUTPUTS) * I;
            for (long i = 0; i < I; i++) {
                float sums[OUTPUTS];
                NAME(sum_samples)(sums, from[NAME(node_place)(s, r, i, 1) + m]);
                for (long j = 0; j < count; j++) to[j * I + i] = sums[j];
            }
        }
}

/* a row of out for a tile to (B, O, N), or of out' from there */
static void NAME(move_row)(vector *row, float *out, const layer *s, long n, long block, long r,
                           const int back)
{
    const long N3 = s->row.points, N = points_of(s);
    for (int q = 0; q < LANES / 4; q++) {
        const long sample = n * SAMPLES + 4 * q / OUTPUTS, first = block * OUTPUTS + 4 * q % OUTPUTS;
        const long count = sample < s->batch ? smaller(4, s->outputs - first) : 0;
        float *at = out + (sample * s->outputs + first) * N + r * N3;
        for (long y = 0; y < N3; y += 4) {
            const long points = smaller(4, N3 - y);
            four v[4] = {{0}, {0}, {0}, {0}};
            if (!back) {
                for (int p = 0; p < points; p++) v[p] = ((const four *)(row + y + p))[q];
                transpose(v);
            }
            for (int j = 0; j < count; j++)
                if (points == 4) {
                    if (back) v[j] = *(const four *)(at + j * N + y);
                    else *(four *)(at + j * N + y) = v[j];
                } else {
                    for (int p = 0; p < points; p++)
                        if (back) v[j][p] = at[j * N + y + p];
                        else at[j * N + y + p] = v[j][p];
                }
            if (back) {
                transpose(v);
                for (int p = 0; p < points; p++) ((four *)(row + y + p))[q] = v[p];
            }
        }
    }
}

/* ---- full axes ---- */

/* where a column of modes starts, and its gradients */
typedef struct { const float *f, *c; float *f_bar, *c_bar; } NAME(modes);

/* c f */
INLINE void NAME(fill_column)(cell *column, NAME(modes) a, long at, long count)
{
    for (long k = at; k < at + count; k++, column++) {
        const float *c = a.c + 2 * OUTPUTS * k, *f = a.f + 2 * SAMPLES * k;
        const vector re = NAME(outputs)(c), im = NAME(outputs)(c + OUTPUTS);
        const vector x = NAME(samples)(f), y = NAME(samples)(f + SAMPLES);
        *column = (cell){re * x - im * y, re * y + im * x};
    }
}

/* f' += the sums of two modes over the outputs, for each sample */
INLINE void NAME(add_outputs)(float *to, cell a, cell b)
{
    const vector sums = sum_neighbours(sum_neighbours(a.re, a.im), sum_neighbours(b.re, b.im));
#if SAMPLES == 1
    *(four *)to += sum_of_fours(sums);
#else
    *(vector *)to += sums;
#endif
}

/* c' += the sums of two modes over the samples, for each output; the second may be missing */
INLINE void NAME(add_samples)(float *to, cell a, cell b, const int both)
{
#if SAMPLES == 1
    vector *at = (vector *)to;
    at[0] += a.re, at[1] += a.im;
    if (both) at[2] += b.re, at[3] += b.im;
#elif LANES == 16
    const vector one = MIX(a.re, a.im, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
        + MIX(a.re, a.im, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    const vector two = MIX(b.re, b.im, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
        + MIX(b.re, b.im, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    const vector sums = MIX(one, two, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
        + MIX(one, two, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    if (both) *(vector *)to += sums;
    else
        for (int q = 0; q < 2; q++) ((four *)to)[q] += quarter(sums, q);
#else
    ((vector *)to)[0] += MIX(a.re, a.im, 0, 1, 2, 3, 8, 9, 10, 11)
        + MIX(a.re, a.im, 4, 5, 6, 7, 12, 13, 14, 15);
    if (both)
        ((vector *)to)[1] += MIX(b.re, b.im, 0, 1, 2, 3, 8, 9, 10, 11)
            + MIX(b.re, b.im, 4, 5, 6, 7, 12, 13, 14, 15);
#endif
}

/* p becomes conj(c) p at mode k; returned is conj(f) p */
INLINE cell NAME(turn_back)(cell *p, NAME(modes) a, long k)
{
    const float *c = a.c + 2 * OUTPUTS * k, *f = a.f + 2 * SAMPLES * k;
    const vector re = NAME(outputs)(c), im = NAME(outputs)(c + OUTPUTS);
    const vector x = NAME(samples)(f), y = NAME(samples)(f + SAMPLES);
    const cell q = *p;
    *p = (cell){re * q.re + im * q.im, re * q.im - im * q.re};
    return (cell){x * q.re + y * q.im, x * q.im - y * q.re};
}

/* c' += conj(f) p and f' += conj(c) p */
INLINE void NAME(empty_column)(const cell *p, NAME(modes) a, long column, const layer *s)
{
    const long count = NAME(column_size)(s);
    float *f_bar = a.f_bar + column * blocks_of(count, 2) * SAMPLES * 4;
    for (long k = column * count; k < (column + 1) * count; k += 2, p += 2, f_bar += SAMPLES * 4) {
        const int both = k + 1 < (column + 1) * count;
        cell one = p[0], two = {{0}, {0}}, next = two;
        const cell here = NAME(turn_back)(&one, a, k);
        if (both) two = p[1], next = NAME(turn_back)(&two, a, k + 1);
        NAME(add_samples)(a.c_bar + 2 * OUTPUTS * k, here, next, both);
        NAME(add_outputs)(f_bar, one, two);
    }
}

typedef struct { cell *lines, *h, *slabs, *line, *column; vector *sums, *a_bar, *part;
    float *a, *c, *c_bar; }
    NAME(room);

/* in space, waves across the slabs: (slabs, I, K3, K2), odd so that slabs do not meet in the cache */
INLINE long NAME(slab_size)(const layer *s)
{
    return s->dim == 3 ? (s->inputs * s->row.modes * s->inner.modes) | 1 : 0;
}

INLINE NAME(modes) NAME(modes_of_input)(NAME(modes) all, long i, const layer *s)
{
    const long modes = modes_of(s), size = NAME(gradient_size)(s) / s->inputs;
    return (NAME(modes)){all.f + i * modes * 2 * SAMPLES, all.c + i * modes * 2 * OUTPUTS,
                         all.f_bar ? all.f_bar + i * size : 0,
                         all.c_bar ? all.c_bar + i * modes * 2 * OUTPUTS : 0};
}

static void NAME(synthesise_slabs)(NAME(modes) all, const NAME(room) *room, const layer *s)
{
    const long K1 = s->outer.modes, columns = s->inner.modes * s->row.modes;
    for (long i = 0; i < s->inputs; i++)
        for (long k = 0; k < columns; k++) {
            NAME(fill_column)(room->column, NAME(modes_of_input)(all, i, s), k * K1, K1);
            synthesise_column(room->column, room->slabs + i * columns + k, NAME(slab_size)(s),
                              room->line, &s->outer);
        }
}

/* the transpose: c' and f' */
static void NAME(analyse_slabs)(NAME(modes) all, const NAME(room) *room, const layer *s)
{
    const long columns = s->inner.modes * s->row.modes;
    for (long i = 0; i < s->inputs; i++)
        for (long k = 0; k < columns; k++) {
            analyse_column(room->slabs + i * columns + k, NAME(slab_size)(s), room->column,
                           room->line, &s->outer);
            NAME(empty_column)(room->column, NAME(modes_of_input)(all, i, s), k, s);
        }
}

/* h of `count` modes from k3 on: (I, GROUP, rows | 1), odd so that inputs do not meet in the
 * cache; on a line (GROUP, I) */
#define GROUP 4

INLINE long NAME(stride)(const layer *s)
{
    return s->dim == 1 ? s->inputs : NAME(rows)(s) | 1;
}

INLINE long NAME(input_stride)(const layer *s)
{
    return s->dim == 1 ? 1 : GROUP * NAME(stride)(s);
}

/* for the inputs first .. last, on a line for all; slab is 0, or in space one of the slabs */
static void NAME(synthesise)(NAME(modes) all, long k3, long count, long first, long last,
                             const cell *slab, const NAME(room) *room, const layer *s)
{
    const long stride = NAME(stride)(s), K2 = s->inner.modes;
    for (long q = 0; s->dim == 1 && q < count; q++) {
        cell *h = room->h + q * stride;
        NAME(fill_column)(h, all, (k3 + q) * s->inputs, s->inputs);
        for (long i = 0; i < s->inputs; i++) keep_real(h + i, s, k3 + q);
    }
    for (long i = first; s->dim > 1 && i < last; i++)
        for (long k = k3; k < k3 + count; k++) {
            cell *h = room->h + (i - first) * NAME(input_stride)(s) + (k - k3) * stride;
            const cell *column = slab ? slab + (i * s->row.modes + k) * K2 : room->column;
            if (!slab) NAME(fill_column)(room->column, NAME(modes_of_input)(all, i, s), k * K2, K2);
            synthesise_column(column, h, 1, room->line, &s->inner);
            for (long r = 0; is_edge(s, k) && r < NAME(rows)(s); r++) h[r].im = (vector){0};
        }
}

/* the transpose: c' and f', or the slab's, from h' */
static void NAME(analyse)(NAME(modes) all, long k3, long count, long first, long last, cell *slab,
                          const NAME(room) *room, const layer *s)
{
    const long stride = NAME(stride)(s), K2 = s->inner.modes;
    for (long q = 0; s->dim == 1 && q < count; q++)
        NAME(empty_column)(room->h + q * stride, all, k3 + q, s);
    for (long i = first; s->dim > 1 && i < last; i++)
        for (long k = k3; k < k3 + count; k++) {
            const cell *h = room->h + (i - first) * NAME(input_stride)(s) + (k - k3) * stride;
            cell *column = slab ? slab + (i * s->row.modes + k) * K2 : room->column;
            analyse_column(h, 1, column, room->line, &s->inner);
            if (!slab) NAME(empty_column)(column, NAME(modes_of_input)(all, i, s), k, s);
        }
}

/* ---- the sum over inputs ---- */

/* lines(m) = sum_i A_im h_i at all rows, for `many` modes */
INLINE void NAME(mix)(const float *a, const cell *h, cell *lines, const layer *s, const int many)
{
    const long M = s->nodes, I = s->inputs, stride = NAME(input_stride)(s);
    const long next = NAME(stride)(s);
    for (long r = 0; r < NAME(rows)(s); r++)
        for (long m = 0; m < M; m += 4) {
            const float *at = a + (r * I * M + m) * OUTPUTS;
            const cell *in = h + r;
            cell sums[4][2];
            for (int n = 0; n < 4; n++)
                for (int q = 0; q < many; q++) sums[n][q] = (cell){{0}, {0}};
            for (long i = 0; i < I; i++, at += M * OUTPUTS, in += stride) {
                cell here[2];
                for (int q = 0; q < many; q++) {
                    here[q] = in[q * next];
                    HOLD(here[q].re);
                    HOLD(here[q].im);
                }
                for (int n = 0; n < 4; n++) {
                    const vector factor = NAME(outputs)(at + n * OUTPUTS);
                    for (int q = 0; q < many; q++) {
                        sums[n][q].re += factor * here[q].re;
                        sums[n][q].im += factor * here[q].im;
                    }
                }
            }
            cell *to = lines + (r * M + m) * s->wave_row;
            for (int n = 0; n < 4; n++, to += s->wave_row)
                for (int q = 0; q < many; q++) to[q] = sums[n][q];
        }
}

/* as many modes at once as registers allow */
#if defined(__AVX512VL__) /* 32 registers */
#define MIX_MANY 2
#define BACK_MANY 4
#else
#define MIX_MANY 1
#define BACK_MANY 2
#endif

static void NAME(mix_all)(const float *a, const NAME(room) *room, cell *lines, long count,
                          const layer *s)
{
    long q = 0;
    for (; q + MIX_MANY <= count; q += MIX_MANY)
        NAME(mix)(a, room->h + q * NAME(stride)(s), lines + q, s, MIX_MANY);
    for (; q < count; q++) NAME(mix)(a, room->h + q * NAME(stride)(s), lines + q, s, 1);
}

/* A' += Re conj(h) lines', and h becomes h' = sum_m A_m lines'(m), for `many` modes of some inputs;
 * A (I, rows, M, OUTPUTS) */
INLINE void NAME(mix_back)(const float *a, vector *a_bar, cell *h, const cell *lines, long inputs,
                           const layer *s, const int many)
{
    const long M = s->nodes, rows = NAME(rows)(s), next = NAME(stride)(s);
    for (long r = 0; r < rows; r++)
        for (long i = 0; i < inputs; i++) {
            const float *factors = a + (i * rows + r) * M * OUTPUTS;
            vector *sums = a_bar + (i * rows + r) * M;
            cell *at = h + i * NAME(input_stride)(s) + r, here[BACK_MANY], back[BACK_MANY];
            for (int q = 0; q < many; q++) {
                here[q] = at[q * next], back[q] = (cell){{0}, {0}};
                HOLD(here[q].re);
                HOLD(here[q].im);
            }
            const cell *p = lines + r * M * s->wave_row;
            for (long m = 0; m < M; m++, p += s->wave_row) {
                const vector factor = NAME(outputs)(factors + m * OUTPUTS);
                vector one = sums[m], two = {0};
                for (int q = 0; q < many; q++) {
                    vector re = p[q].re, im = p[q].im;
                    HOLD(re);
                    HOLD(im);
                    one += here[q].re * re, two += here[q].im * im;
                    back[q].re += factor * re, back[q].im += factor * im;
                }
                sums[m] = one + two;
            }
            for (int q = 0; q < many; q++) at[q * next] = back[q];
        }
}

/* On a line A' has a sum over all modes, too long for float32 in one go: FEW_MODES at a time. */
#define FEW_MODES 64

static void NAME(mix_all_back)(const NAME(room) *room, const cell *lines, long k3, long count,
                               long first, long last, long slab, const layer *s)
{
    const long at = NAME(node_place)(s, slab * NAME(rows)(s), first, 1), inputs = last - first;
    const float *a = room->a + at * OUTPUTS;
    vector *a_bar = (s->dim == 1 ? room->part : room->a_bar) + at;
    for (long q = 0; q < count;) {
        cell *h = room->h + q * NAME(stride)(s);
        const cell *p = lines + k3 + q;
        if (q + BACK_MANY <= count)
            NAME(mix_back)(a, a_bar, h, p, inputs, s, BACK_MANY), q += BACK_MANY;
        else if (BACK_MANY > 2 && q + 2 <= count)
            NAME(mix_back)(a, a_bar, h, p, inputs, s, 2), q += 2;
        else NAME(mix_back)(a, a_bar, h, p, inputs, s, 1), q++;
    }
    if (s->dim > 1) return;
    const long end = k3 + count, size = inputs * s->nodes;
    if (end % FEW_MODES && end < s->row.modes) return;
    for (long e = 0; e < size; e++) room->a_bar[at + e] += a_bar[e];
    memset(a_bar, 0, size * sizeof(vector));
}

/* ---- rows ---- */

typedef struct { const float *basis; vector *sums; } NAME(row_target);

/* sum += l_m Re g + l_{m+1} Im g */
INLINE void NAME(emit_sum)(const void *to, long x, cell g)
{
    const NAME(row_target) *s = to;
    s->sums[x] += s->basis[2 * x] * g.re + s->basis[2 * x + 1] * g.im;
}

INLINE cell NAME(fetch_spread)(const void *from, long x)
{
    const NAME(row_target) *s = from;
    return (cell){s->basis[2 * x] * s->sums[x], s->basis[2 * x + 1] * s->sums[x]};
}

static void NAME(forward_lines)(const cell *u, const cell *v, cell *line,
                                const NAME(row_target) *to, const layer *s)
{
    const long points = s->row.points;
    if (s->row.passes) {
        start_rows(u, v, line, s);
#define LAST(radix) last_pass(line, &s->row, radix, NAME(emit_sum), to)
        FOR_RADIX(s->row.radix[s->row.passes - 1], LAST)
#undef LAST
        return;
    }
    const folded g = unfold_rows(u, v, line, s);
    for (long x = 0; x <= points / 2; x++) {
        NAME(emit_sum)(to, x, (cell){g.even[0][x] - g.odd[0][x], g.even[1][x] - g.odd[1][x]});
        const cell far = {g.even[0][x] + g.odd[0][x], g.even[1][x] + g.odd[1][x]};
        if (x > 0 && 2 * x < points) NAME(emit_sum)(to, points - x, far);
    }
}

static void NAME(backward_lines)(cell *u, cell *v, cell *line, const NAME(row_target) *from,
                                 const layer *s)
{
    const long points = s->row.points;
    if (s->row.passes) {
#define SPREAD(radix) spread_pass(line, &s->row, radix, NAME(fetch_spread), from)
        FOR_RADIX(s->row.radix[s->row.passes - 1], SPREAD)
#undef SPREAD
        end_rows(line, u, v, s);
        return;
    }
    const folded g = folded_in(line, s);
    for (long x = 0; x <= points / 2; x++) {
        const cell near = NAME(fetch_spread)(from, x);
        cell far = {{0}, {0}};
        if (x > 0 && 2 * x < points) far = NAME(fetch_spread)(from, points - x);
        g.even[0][x] = near.re + far.re, g.odd[0][x] = far.re - near.re;
        g.even[1][x] = near.im + far.im, g.odd[1][x] = far.im - near.im;
    }
    fold_rows(g, u, v, s);
}

/* ---- the operator ---- */

/* inputs whose h and A' stay together in the cache; on a line all */
INLINE long NAME(some_inputs)(const layer *s)
{
    const long each = GROUP * (long)sizeof(cell) + s->nodes * (long)sizeof(vector);
    const long fit = CACHED / (NAME(rows)(s) * each);
    return s->dim == 1 || fit > s->inputs ? s->inputs : fit > 1 ? fit : 1;
}

/* cells of the lines of a slab */
INLINE long NAME(lines_size)(const layer *s) { return NAME(rows)(s) * s->nodes * s->wave_row; }

/* batch blocks for which c is read once; on a line, where c and c' are most of the traffic */
INLINE long NAME(together)(const layer *s)
{
    const long fit = LINES_CACHED / (NAME(lines_size)(s) * (long)sizeof(cell));
    return s->dim > 1 || fit < 1 ? 1 : smaller(fit, NAME(batch_blocks)(s));
}

static char *NAME(lay_out)(char *at, NAME(room) *room, const layer *s, const int backward)
{
    const long rows = NAME(rows)(s), slabs = s->outer.points, I = s->inputs, modes = modes_of(s);
    const long column = s->outer.modes > s->inner.modes ? s->outer.modes : s->inner.modes;
    const long inputs = backward ? NAME(some_inputs)(s) : I;
#define TAKE(name, type, bytes)                                                                  \
    room->name = (type *)at, at += ((bytes) + (long)sizeof(cell) - 1) & -(long)sizeof(cell)
    TAKE(lines, cell, NAME(together)(s) * NAME(lines_size)(s) * (long)sizeof(cell));
    TAKE(h, cell, GROUP * (rows | 1) * inputs * (long)sizeof(cell));
    TAKE(slabs, cell, slabs * NAME(slab_size)(s) * (long)sizeof(cell));
    TAKE(line, cell, longest_line(s) * (long)sizeof(cell));
    TAKE(column, cell, column * (long)sizeof(cell));
    TAKE(sums, vector, FOURS(s->row.points) * (long)sizeof(vector));
    TAKE(a, float, slabs * rows * I * s->nodes * OUTPUTS * (long)sizeof(float));
    TAKE(c, float, I * modes * 2 * OUTPUTS * (long)sizeof(float));
    if (backward) {
        TAKE(c_bar, float, I * modes * 2 * OUTPUTS * (long)sizeof(float));
        TAKE(a_bar, vector, slabs * rows * I * s->nodes * (long)sizeof(vector));
        TAKE(part, vector, s->dim == 1 ? I * s->nodes * (long)sizeof(vector) : 0);
    }
#undef TAKE
    return at;
}

/* rows of a slab from their lines to out, or from out' to their lines */
static void NAME(turn_rows)(cell *lines, const float *basis, float *out, const NAME(room) *room,
                            const layer *s, long n, long block, long slab, const int back)
{
    const long rows = NAME(rows)(s), N3 = s->row.points;
    for (long r = 0; r < rows; r++) {
        if (back) NAME(move_row)(room->sums, out, s, n, block, slab * rows + r, 1);
        else memset(room->sums, 0, N3 * sizeof(vector));
        for (long m = 0; m < s->nodes; m += 2, lines += 2 * s->wave_row) {
            const NAME(row_target) at = {basis + m * N3, room->sums};
            if (back) NAME(backward_lines)(lines, lines + s->wave_row, room->line, &at, s);
            else NAME(forward_lines)(lines, lines + s->wave_row, room->line, &at, s);
        }
        if (!back) NAME(move_row)(room->sums, out, s, n, block, slab * rows + r, 0);
    }
}

static void NAME(forward)(const float *f, const float *c, const float *a, const float *basis,
                          float *out, char *space, const layer *s, long block)
{
    const long size = s->inputs * modes_of(s) * 2 * SAMPLES, blocks = NAME(batch_blocks)(s);
    const long together = NAME(together)(s), lines = NAME(lines_size)(s);
    NAME(room) room;
    NAME(lay_out)(space, &room, s, 0);
    NAME(pack_symbol)(c, room.c, s, block);
    NAME(pack_nodes)(a, room.a, s, block, 0);
    for (long start = 0; start < blocks; start += together) {
        const long end = smaller(start + together, blocks);
        const NAME(modes) first = {f + start * size, room.c, 0, 0};
        if (s->dim == 3) NAME(synthesise_slabs)(first, &room, s);
        for (long slab = 0; slab < s->outer.points; slab++) {
            const float *at = room.a + NAME(node_place)(s, slab * NAME(rows)(s), 0, 0) * OUTPUTS;
            const cell *waves = s->dim == 3 ? room.slabs + slab * NAME(slab_size)(s) : 0;
            for (long k = 0; k < s->row.modes; k += 2)
                for (long n = start; n < end; n++) {
                    const NAME(modes) all = {f + n * size, room.c, 0, 0};
                    const long count = smaller(2, s->row.modes - k);
                    NAME(synthesise)(all, k, count, 0, s->inputs, waves, &room, s);
                    NAME(mix_all)(at, &room, room.lines + (n - start) * lines + k, count, s);
                }
            for (long n = start; n < end; n++)
                NAME(turn_rows)(room.lines + (n - start) * lines, basis, out, &room, s, n, block,
                                slab, 0);
        }
    }
}

/* f' is added to */
static void NAME(backward)(const float *f, const float *c, const float *a, const float *basis,
                           const float *grad, float *f_bar, float *c_bar, float *a_bar,
                           char *space, const layer *s, long block)
{
    const long I = s->inputs, modes = modes_of(s), size = I * modes * 2 * SAMPLES;
    const long blocks = NAME(batch_blocks)(s), together = NAME(together)(s);
    const long lines = NAME(lines_size)(s), some = NAME(some_inputs)(s);
    NAME(room) room;
    NAME(lay_out)(space, &room, s, 1);
    NAME(pack_symbol)(c, room.c, s, block);
    NAME(pack_nodes)(a, room.a, s, block, 1);
    memset(room.c_bar, 0, I * modes * 2 * OUTPUTS * sizeof(float));
    memset(room.a_bar, 0, s->outer.points * NAME(rows)(s) * I * s->nodes * sizeof(vector));
    if (s->dim == 1) memset(room.part, 0, I * s->nodes * sizeof(vector));
    for (long start = 0; start < blocks; start += together) {
        const long end = smaller(start + together, blocks);
        const NAME(modes) first = {f + start * size, room.c,
                                   f_bar + start * NAME(gradient_size)(s), room.c_bar};
        if (s->dim == 3) NAME(synthesise_slabs)(first, &room, s);
        for (long slab = 0; slab < s->outer.points; slab++) {
            cell *waves = s->dim == 3 ? room.slabs + slab * NAME(slab_size)(s) : 0;
            for (long n = start; n < end; n++)
                NAME(turn_rows)(room.lines + (n - start) * lines, basis, (float *)grad, &room, s, n,
                                block, slab, 1);
            for (long i = 0; i < I; i += some)
                for (long k = 0; k < s->row.modes; k += GROUP)
                    for (long n = start; n < end; n++) {
                        const NAME(modes) all = {f + n * size, room.c,
                                                 f_bar + n * NAME(gradient_size)(s), room.c_bar};
                        const long count = smaller(GROUP, s->row.modes - k);
                        const long last = smaller(i + some, I);
                        NAME(synthesise)(all, k, count, i, last, waves, &room, s);
                        NAME(mix_all_back)(&room, room.lines + (n - start) * lines, k, count, i, last,
                                           slab, s);
                        NAME(analyse)(all, k, count, i, last, waves, &room, s);
                    }
        }
        if (s->dim == 3) NAME(analyse_slabs)(first, &room, s);
    }
    NAME(unpack_symbol)(c_bar, room.c_bar, s, block);
    NAME(unpack_nodes)(a_bar, room.a_bar, s, block);
}

#undef OUTPUTS
#undef GROUP
#undef MIX_MANY
#undef BACK_MANY
#undef FOR_COLUMNS
#undef FEW_MODES
#undef CACHED
#undef LINES_CACHED
#undef SAMPLES
#undef NAME
