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
 * outputs: A (rows, I, M, OUTPUTS), c (elements, re|im, OUTPUTS), f (batch blocks, elements, re|im,
 * SAMPLES), where an element is a mode of an input: (I, modes), on a line (modes, I), so that what
 * is added up lies together; lines (rows, M, wave_row).
 */
#define OUTPUTS (LANES / SAMPLES)

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
INLINE long NAME(rows)(const layer *s) { return s->outer.points * s->inner.points; }

INLINE long NAME(element)(const layer *s, long i, long k1, long k2, long k3)
{
    return s->dim == 1 ? k3 * s->inputs + i : i * modes_of(s) + place_in_tile(s, k1, k2, k3);
}

/* ---- packing ---- */

/* for all i, k1, k2, k3, in the order in which they lie in f and c */
#define FOR_ELEMENTS(s)                                                                          \
    for (long i = 0; i < (s)->inputs; i++)                                                       \
        for (long k1 = 0; k1 < (s)->outer.modes; k1++)                                           \
            for (long k2 = 0; k2 < (s)->inner.modes; k2++)                                       \
                for (long k3 = 0; k3 < (s)->row.modes; k3++)

static void NAME(pack_samples)(const float *f, float *to, const layer *s)
{
    const long size = 2 * s->inputs * modes_of(s);
    for (long n = 0; n < NAME(batch_blocks)(s) * SAMPLES; n++) {
        const float *from = f + n * size;
        float *block = to + n / SAMPLES * size * SAMPLES + n % SAMPLES;
        FOR_ELEMENTS(s)
        {
            float *at = block + 2 * SAMPLES * NAME(element)(s, i, k1, k2, k3);
            at[0] = n < s->batch ? *from++ : 0;
            at[SAMPLES] = n < s->batch ? *from++ : 0;
        }
    }
}

/* the sums of f' (ranges, batch blocks, SAMPLES, elements, re|im) over ranges, in their order */
static void NAME(unpack_samples)(float *f, const float *from, long ranges, const layer *s)
{
    const long size = 2 * s->inputs * modes_of(s);
    const long range = NAME(batch_blocks)(s) * SAMPLES * size;
    for (long n = 0; n < s->batch; n++, from += size)
        FOR_ELEMENTS(s)
        {
            const float *at = from + 2 * NAME(element)(s, i, k1, k2, k3);
            f[0] = at[0], f[1] = at[1];
            for (long r = 1; r < ranges; r++) f[0] += at[r * range], f[1] += at[r * range + 1];
            f += 2;
        }
}

/* c (O, I, K1, K2, K3) complex for a block of outputs, 0 beyond O; or back, summed over samples */
static void NAME(pack_symbol)(const float *c, float *to, const layer *s, long block)
{
    const long size = s->inputs * modes_of(s);
    const long count = smaller(OUTPUTS, s->outputs - block * OUTPUTS);
    c += 2 * block * OUTPUTS * size;
    FOR_ELEMENTS(s)
    {
        float *at = to + 2 * OUTPUTS * NAME(element)(s, i, k1, k2, k3);
        for (long j = 0; j < OUTPUTS; j++) {
            at[j] = j < count ? c[2 * j * size] : 0;
            at[OUTPUTS + j] = j < count ? c[2 * j * size + 1] : 0;
        }
        c += 2;
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

static void NAME(unpack_symbol)(float *c, const cell *from, const layer *s, long block)
{
    const long size = s->inputs * modes_of(s);
    const long count = smaller(OUTPUTS, s->outputs - block * OUTPUTS);
    c += 2 * block * OUTPUTS * size;
    FOR_ELEMENTS(s)
    {
        const cell *at = from + NAME(element)(s, i, k1, k2, k3);
        float re[OUTPUTS], im[OUTPUTS];
        NAME(sum_samples)(re, at->re);
        NAME(sum_samples)(im, at->im);
        for (long j = 0; j < count; j++) {
            c[2 * j * size] = re[j];
            c[2 * j * size + 1] = im[j];
        }
        c += 2;
    }
}

/* A (rows, M, O, I) -> (rows, I, M, OUTPUTS) */
static void NAME(pack_nodes)(const float *a, float *to, const layer *s, long block)
{
    const long M = s->nodes, I = s->inputs;
    const long count = smaller(OUTPUTS, s->outputs - block * OUTPUTS);
    for (long r = 0; r < NAME(rows)(s); r++, to += I * M * OUTPUTS)
        for (long m = 0; m < M; m++) {
            const float *from = a + ((r * M + m) * s->outputs + block * OUTPUTS) * I;
            for (long i = 0; i < I; i++)
                for (long j = 0; j < OUTPUTS; j++)
                    to[(i * M + m) * OUTPUTS + j] = j < count ? from[j * I + i] : 0;
        }
}

static void NAME(unpack_nodes)(float *a, const vector *from, const layer *s, long block)
{
    const long M = s->nodes, I = s->inputs;
    const long count = smaller(OUTPUTS, s->outputs - block * OUTPUTS);
    for (long r = 0; r < NAME(rows)(s); r++, from += I * M)
        for (long m = 0; m < M; m++) {
            float *to = a + ((r * M + m) * s->outputs + block * OUTPUTS) * I;
            for (long i = 0; i < I; i++) {
                float sums[OUTPUTS];
                NAME(sum_samples)(sums, from[i * M + m]);
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
typedef struct { const float *f, *c; float *f_bar; cell *c_bar; } NAME(modes);

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

/* f' += the sums of two modes over the outputs, for each sample; the second may be missing */
INLINE void NAME(add_outputs)(float *to, long stride, cell a, cell b, const int both)
{
    const vector sums = sum_neighbours(sum_neighbours(a.re, a.im), sum_neighbours(b.re, b.im));
    for (int s = 0; s < SAMPLES; s++, to += stride) {
        const four part = SAMPLES == 1 ? sum_of_fours(sums) : quarter(sums, s);
        if (both) *(four *)to += part;
        else to[0] += part[0], to[1] += part[1];
    }
}

/* c' += conj(f) p at mode k, and conj(c) p */
INLINE cell NAME(turn_back)(cell p, NAME(modes) a, long k)
{
    const float *c = a.c + 2 * OUTPUTS * k, *f = a.f + 2 * SAMPLES * k;
    const vector re = NAME(outputs)(c), im = NAME(outputs)(c + OUTPUTS);
    const vector x = NAME(samples)(f), y = NAME(samples)(f + SAMPLES);
    a.c_bar[k].re += x * p.re + y * p.im, a.c_bar[k].im += x * p.im - y * p.re;
    return (cell){re * p.re + im * p.im, re * p.im - im * p.re};
}

/* c' += conj(f) p and f' += conj(c) p */
INLINE void NAME(empty_column)(const cell *column, NAME(modes) a, long at, long count,
                               const layer *s)
{
    const long end = at + count;
    for (long k = at; k < end; k += 2, column += 2) {
        const int both = k + 1 < end;
        const cell p = NAME(turn_back)(column[0], a, k);
        const cell q = both ? NAME(turn_back)(column[1], a, k + 1) : (cell){{0}, {0}};
        NAME(add_outputs)(a.f_bar + 2 * k, 2 * s->inputs * modes_of(s), p, q, both);
    }
}

typedef struct { cell *lines, *h, *slab, *line, *column, *c_bar; vector *sums, *a_bar, *part;
    float *a, *c; }
    NAME(room);

/* h of one input at all rows for one k3 */
static void NAME(synthesise)(NAME(modes) a, long k3, cell *h, const NAME(room) *room,
                             const layer *s)
{
    const long K1 = s->outer.modes, K2 = s->inner.modes, start = k3 * K2 * K1;
    if (s->dim == 2) {
        NAME(fill_column)(room->column, a, start, K2);
        synthesise_column(room->column, h, 1, room->line, &s->inner);
    }
    for (long k2 = 0; s->dim == 3 && k2 < K2; k2++) { /* slab (N1, K2) */
        NAME(fill_column)(room->column, a, start + k2 * K1, K1);
        synthesise_column(room->column, room->slab + k2, K2, room->line, &s->outer);
    }
    for (long x = 0; s->dim == 3 && x < s->outer.points; x++)
        synthesise_column(room->slab + x * K2, h + x * s->inner.points, 1, room->line, &s->inner);
    for (long r = 0; is_edge(s, k3) && r < NAME(rows)(s); r++) h[r].im = (vector){0};
}

/* the transpose: c' and f' from h' */
static void NAME(analyse)(NAME(modes) a, long k3, const cell *h, const NAME(room) *room,
                          const layer *s)
{
    const long K1 = s->outer.modes, K2 = s->inner.modes, start = k3 * K2 * K1;
    if (s->dim == 2) {
        analyse_column(h, 1, room->column, room->line, &s->inner);
        NAME(empty_column)(room->column, a, start, K2, s);
    }
    for (long x = 0; s->dim == 3 && x < s->outer.points; x++)
        analyse_column(h + x * s->inner.points, 1, room->slab + x * K2, room->line, &s->inner);
    for (long k2 = 0; s->dim == 3 && k2 < K2; k2++) {
        analyse_column(room->slab + k2, K2, room->column, room->line, &s->outer);
        NAME(empty_column)(room->column, a, start + k2 * K1, K1, s);
    }
}

/* h of `count` modes from k3 on: (I, 2, rows | 1), odd so that inputs do not meet in the cache; on
 * a line (4, I) */
INLINE long NAME(at_once)(const layer *s) { return s->dim == 1 ? 4 : 2; }

INLINE long NAME(stride)(const layer *s)
{
    return s->dim == 1 ? s->inputs : NAME(rows)(s) | 1;
}

INLINE long NAME(input_stride)(const layer *s) { return s->dim == 1 ? 1 : 2 * NAME(stride)(s); }

static void NAME(synthesise_all)(const float *f, long k3, long count, const NAME(room) *room,
                                 const layer *s)
{
    const NAME(modes) all = {f, room->c, 0, 0};
    const long modes = modes_of(s), stride = NAME(stride)(s);
    for (long q = 0; s->dim == 1 && q < count; q++) {
        cell *h = room->h + q * stride;
        NAME(fill_column)(h, all, (k3 + q) * s->inputs, s->inputs);
        for (long i = 0; i < s->inputs; i++) keep_real(h + i, s, k3 + q);
    }
    for (long i = 0; s->dim > 1 && i < s->inputs; i++) {
        const NAME(modes) a = {f + i * modes * 2 * SAMPLES, room->c + i * modes * 2 * OUTPUTS, 0, 0};
        cell *h = room->h + i * NAME(input_stride)(s);
        for (long q = 0; q < count; q++)
            NAME(synthesise)(a, k3 + q, h + q * stride, room, s);
    }
}

static void NAME(analyse_all)(const float *f, float *f_bar, long k3, long count,
                              const NAME(room) *room, const layer *s)
{
    const NAME(modes) all = {f, room->c, f_bar, room->c_bar};
    const long modes = modes_of(s), stride = NAME(stride)(s);
    for (long q = 0; s->dim == 1 && q < count; q++)
        NAME(empty_column)(room->h + q * stride, all, (k3 + q) * s->inputs, s->inputs, s);
    for (long i = 0; s->dim > 1 && i < s->inputs; i++) {
        const NAME(modes) a = {f + i * modes * 2 * SAMPLES, room->c + i * modes * 2 * OUTPUTS,
                               f_bar + i * modes * 2, room->c_bar + i * modes};
        const cell *h = room->h + i * NAME(input_stride)(s);
        for (long q = 0; q < count; q++) NAME(analyse)(a, k3 + q, h + q * stride, room, s);
    }
}

/* ---- the sum over inputs ---- */

/* lines(m) = sum_i A_im h_i at all rows */
static void NAME(mix)(const float *a, const cell *h, cell *lines, const layer *s)
{
    const long M = s->nodes, I = s->inputs, stride = NAME(input_stride)(s);
    for (long r = 0; r < NAME(rows)(s); r++)
        for (long m = 0; m < M; m += 4) {
            const float *at = a + (r * I * M + m) * OUTPUTS;
            const cell *in = h + r;
            cell s0 = {{0}, {0}}, s1 = s0, s2 = s0, s3 = s0;
            for (long i = 0; i < I; i++, at += M * OUTPUTS, in += stride) {
                vector re = in->re, im = in->im;
                HOLD(re);
                HOLD(im);
                const vector a0 = NAME(outputs)(at), a1 = NAME(outputs)(at + OUTPUTS);
                s0.re += a0 * re, s0.im += a0 * im;
                s1.re += a1 * re, s1.im += a1 * im;
                const vector a2 = NAME(outputs)(at + 2 * OUTPUTS);
                const vector a3 = NAME(outputs)(at + 3 * OUTPUTS);
                s2.re += a2 * re, s2.im += a2 * im;
                s3.re += a3 * re, s3.im += a3 * im;
            }
            cell *to = lines + (r * M + m) * s->wave_row;
            to[0] = s0, to[s->wave_row] = s1;
            to[2 * s->wave_row] = s2, to[3 * s->wave_row] = s3;
        }
}

/* A' += Re conj(h) lines', and h becomes h' = sum_m A_m lines'(m); for one mode, or for two */
INLINE void NAME(mix_back)(const float *a, vector *a_bar, cell *h, const cell *lines,
                           const layer *s, const int both)
{
    const long M = s->nodes, I = s->inputs, next = NAME(stride)(s);
    for (long r = 0; r < NAME(rows)(s); r++)
        for (long i = 0; i < I; i++, a += M * OUTPUTS, a_bar += M) {
            cell *at = h + i * NAME(input_stride)(s) + r, sum = {{0}, {0}}, sum_next = sum;
            cell here = at[0], there = both ? at[next] : sum;
            HOLD(here.re);
            HOLD(here.im);
            HOLD(there.re);
            HOLD(there.im);
            const cell *p = lines + r * M * s->wave_row;
            for (long m = 0; m < M; m++, p += s->wave_row) {
                const vector factor = NAME(outputs)(a + m * OUTPUTS);
                vector target = a_bar[m] + here.re * p[0].re, more = here.im * p[0].im;
                sum.re += factor * p[0].re, sum.im += factor * p[0].im;
                if (both) {
                    target += there.re * p[1].re, more += there.im * p[1].im;
                    sum_next.re += factor * p[1].re, sum_next.im += factor * p[1].im;
                }
                a_bar[m] = target + more;
            }
            at[0] = sum;
            if (both) at[next] = sum_next;
        }
}

/* On a line A' has a sum over all modes, too long for float32 in one go: FEW_MODES at a time. */
#define FEW_MODES 64

static void NAME(mix_all_back)(const NAME(room) *room, long k3, long count, const layer *s)
{
    vector *a_bar = s->dim == 1 ? room->part : room->a_bar;
    for (long q = 0; q < count; q += 2) {
        cell *h = room->h + q * NAME(stride)(s), *lines = room->lines + k3 + q;
        if (q + 1 < count) NAME(mix_back)(room->a, a_bar, h, lines, s, 1);
        else NAME(mix_back)(room->a, a_bar, h, lines, s, 0);
    }
    if (s->dim > 1) return;
    const long end = k3 + count, size = s->inputs * s->nodes;
    if (end % FEW_MODES && end < s->row.modes) return;
    for (long e = 0; e < size; e++) room->a_bar[e] += a_bar[e];
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

static char *NAME(lay_out)(char *at, NAME(room) *room, const layer *s, const int backward)
{
    const long rows = NAME(rows)(s), I = s->inputs, modes = modes_of(s);
    const long slab = s->dim == 3 ? s->outer.points * s->inner.modes : 0;
    const long column = s->outer.modes > s->inner.modes ? s->outer.modes : s->inner.modes;
#define TAKE(name, type, bytes)                                                                  \
    room->name = (type *)at, at += ((bytes) + (long)sizeof(cell) - 1) & -(long)sizeof(cell)
    TAKE(lines, cell, rows * s->nodes * s->wave_row * (long)sizeof(cell));
    TAKE(h, cell, NAME(at_once)(s) * (NAME(rows)(s) | 1) * I * (long)sizeof(cell));
    TAKE(slab, cell, slab * (long)sizeof(cell));
    TAKE(line, cell, longest_line(s) * (long)sizeof(cell));
    TAKE(column, cell, column * (long)sizeof(cell));
    TAKE(sums, vector, FOURS(s->row.points) * (long)sizeof(vector));
    TAKE(a, float, rows * I * s->nodes * OUTPUTS * (long)sizeof(float));
    TAKE(c, float, I * modes * 2 * OUTPUTS * (long)sizeof(float));
    if (backward) {
        TAKE(c_bar, cell, I * modes * (long)sizeof(cell));
        TAKE(a_bar, vector, rows * I * s->nodes * (long)sizeof(vector));
        TAKE(part, vector, s->dim == 1 ? I * s->nodes * (long)sizeof(vector) : 0);
    }
#undef TAKE
    return at;
}

static void NAME(forward)(const float *f, const float *c, const float *a, const float *basis,
                          float *out, char *space, const layer *s, long block)
{
    const long rows = NAME(rows)(s), modes = modes_of(s), N3 = s->row.points;
    const long step = NAME(at_once)(s), block_size = s->inputs * modes * 2 * SAMPLES;
    NAME(room) room;
    NAME(lay_out)(space, &room, s, 0);
    NAME(pack_symbol)(c, room.c, s, block);
    NAME(pack_nodes)(a, room.a, s, block);
    for (long n = 0; n < NAME(batch_blocks)(s); n++) {
        for (long k = 0; k < s->row.modes; k += step) {
            const long count = smaller(step, s->row.modes - k);
            NAME(synthesise_all)(f + n * block_size, k, count, &room, s);
            for (long q = 0; q < count; q++)
                NAME(mix)(room.a, room.h + q * NAME(stride)(s), room.lines + k + q, s);
        }
        for (long r = 0; r < rows; r++) {
            memset(room.sums, 0, N3 * sizeof(vector));
            for (long m = 0; m < s->nodes; m += 2) {
                cell *lines = room.lines + (r * s->nodes + m) * s->wave_row;
                const NAME(row_target) to = {basis + m * N3, room.sums};
                NAME(forward_lines)(lines, lines + s->wave_row, room.line, &to, s);
            }
            NAME(move_row)(room.sums, out, s, n, block, r, 0);
        }
    }
}

/* f' is added to */
static void NAME(backward)(const float *f, const float *c, const float *a, const float *basis,
                           const float *grad, float *f_bar, float *c_bar, float *a_bar,
                           char *space, const layer *s, long block)
{
    const long rows = NAME(rows)(s), modes = modes_of(s), N3 = s->row.points, I = s->inputs;
    const long step = NAME(at_once)(s), block_size = s->inputs * modes * 2 * SAMPLES;
    NAME(room) room;
    NAME(lay_out)(space, &room, s, 1);
    NAME(pack_symbol)(c, room.c, s, block);
    NAME(pack_nodes)(a, room.a, s, block);
    memset(room.c_bar, 0, I * modes * sizeof(cell));
    memset(room.a_bar, 0, rows * I * s->nodes * sizeof(vector));
    if (s->dim == 1) memset(room.part, 0, I * s->nodes * sizeof(vector));
    for (long n = 0; n < NAME(batch_blocks)(s); n++) {
        for (long r = 0; r < rows; r++) {
            NAME(move_row)(room.sums, (float *)grad, s, n, block, r, 1);
            for (long m = 0; m < s->nodes; m += 2) {
                const NAME(row_target) from = {basis + m * N3, room.sums};
                cell *lines = room.lines + (r * s->nodes + m) * s->wave_row;
                NAME(backward_lines)(lines, lines + s->wave_row, room.line, &from, s);
            }
        }
        for (long k = 0; k < s->row.modes; k += step) {
            const long count = smaller(step, s->row.modes - k);
            NAME(synthesise_all)(f + n * block_size, k, count, &room, s);
            NAME(mix_all_back)(&room, k, count, s);
            NAME(analyse_all)(f + n * block_size, f_bar + n * block_size, k, count, &room, s);
        }
    }
    NAME(unpack_symbol)(c_bar, room.c_bar, s, block);
    NAME(unpack_nodes)(a_bar, room.a_bar, s, block);
}

#undef OUTPUTS
#undef FOR_ELEMENTS
#undef FEW_MODES
#undef SAMPLES
#undef NAME
