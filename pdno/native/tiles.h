/* The pairwise operator on tiles of SAMPLES samples and LANES / SAMPLES inputs: a template.
 *
 * pairwise.c includes it once with 1 sample and once with LANES / 4; lane INPUTS s + i is sample s
 * and input i. See there for what is computed.
 */
#define INPUTS (LANES / SAMPLES)

#if SAMPLES == 1
#define NAME(name) name##_narrow
#else
#define NAME(name) name##_wide
#endif

/* the same INPUTS numbers for all samples */
INLINE vector NAME(inputs)(const float *p)
{
#if SAMPLES == 1
    return *(const vector *)p;
#else
    return repeat_four(p);
#endif
}

/* the same SAMPLES numbers for all inputs */
INLINE vector NAME(samples)(const float *p)
{
#if SAMPLES == 1
    return same(*p);
#else
    return four_each(p);
#endif
}

/* to = or += the sums over samples, for the first `count` inputs */
INLINE void NAME(store_inputs)(float *to, vector v, long count, long add)
{
#if SAMPLES == 1
    if (count == INPUTS) {
        *(vector *)to = add ? *(const vector *)to + v : v;
        return;
    }
    for (long i = 0; i < count; i++) to[i] = add ? to[i] + v[i] : v[i];
#else
    const four sums = sum_of_fours(v);
    if (count == 4) {
        *(four *)to = add ? *(const four *)to + sums : sums;
        return;
    }
    for (long i = 0; i < count; i++) to[i] = add ? to[i] + sums[i] : sums[i];
#endif
}

/* out = or += the sums over inputs at `count` <= 4 points, a row for each sample */
INLINE void NAME(store_samples)(const vector *v, float *out, long stride, long samples, long count,
                                long add)
{
    four sums[LANES / 4];
    for (int s = 0; s < SAMPLES; s++) {
        four at[4];
        for (int p = 0; p < 4; p++) {
#if SAMPLES == 1
            at[p] = sum_of_fours(v[p]);
#else
            at[p] = quarter(v[p], s);
#endif
        }
        transpose(at);
        sums[s] = (at[0] + at[1]) + (at[2] + at[3]);
    }
    for (long n = 0; n < samples; n++) {
        float *to = out + n * stride;
        if (count == 4) *(four *)to = add ? *(const four *)to + sums[n] : sums[n];
        else
            for (long p = 0; p < count; p++) to[p] = add ? to[p] + sums[n][p] : sums[n][p];
    }
}

INLINE long NAME(input_blocks)(const layer *s) { return blocks_of(s->inputs, INPUTS); }
INLINE long NAME(batch_blocks)(const layer *s) { return blocks_of(s->batch, SAMPLES); }

/* ---- packing ---- */

/* b at `count` points for one output: (points, O, I) -> (points, blocks, INPUTS), 0 beyond I */
static void NAME(pack_factors)(const float *b, float *to, long count, long block, long blocks,
                               const layer *s)
{
    const long width = blocks * INPUTS, stride = s->outputs * s->inputs;
    const long inputs = smaller(width, s->inputs - block * INPUTS);
    b += block * INPUTS;
    for (long x = 0; x < count; x++, b += stride, to += width) {
        for (long i = 0; i < inputs; i++) to[i] = b[i];
        for (long i = inputs; i < width; i++) to[i] = 0;
    }
}

/* c for one output, a block of inputs: (inputs, K1, K2, K3) complex -> (modes, re|im, INPUTS) */
static void NAME(pack_symbol)(const float *c, float *to, const layer *s, long block)
{
    const long modes = modes_of(s), count = smaller(INPUTS, s->inputs - block * INPUTS);
    c += 2 * block * INPUTS * modes;
    for (long k1 = 0; k1 < s->outer.modes; k1++)
        for (long k2 = 0; k2 < s->inner.modes; k2++)
            for (long k3 = 0; k3 < s->row.modes; k3++, c += 2) {
                float *at = to + 2 * INPUTS * place_in_tile(s, k1, k2, k3);
                for (long i = 0; i < INPUTS; i++) {
                    at[i] = i < count ? c[2 * i * modes] : 0;
                    at[INPUTS + i] = i < count ? c[2 * i * modes + 1] : 0;
                }
            }
}

static void NAME(unpack_symbol)(float *c, const float *from, const layer *s, long block)
{
    const long modes = modes_of(s), count = smaller(INPUTS, s->inputs - block * INPUTS);
    c += 2 * block * INPUTS * modes;
    for (long k1 = 0; k1 < s->outer.modes; k1++)
        for (long k2 = 0; k2 < s->inner.modes; k2++)
            for (long k3 = 0; k3 < s->row.modes; k3++, c += 2) {
                const float *at = from + 2 * INPUTS * place_in_tile(s, k1, k2, k3);
                for (long i = 0; i < count; i++) {
                    c[2 * i * modes] = at[i];
                    c[2 * i * modes + 1] = at[INPUTS + i];
                }
            }
}

/* f (B, I, K1, K2, K3) complex to tiles (batch blocks, input blocks, modes) or back */
static void NAME(pack_tiles)(float *f, float *tiles, const layer *s, const int back)
{
    const long modes = modes_of(s), in = NAME(input_blocks)(s);
    for (long n = 0; n < NAME(batch_blocks)(s) * SAMPLES; n++)
        for (long i = 0; i < in * INPUTS; i++) {
            const int there = n < s->batch && i < s->inputs;
            float *line = f + 2 * (n * s->inputs + i) * modes;
            float *tile = tiles + (n / SAMPLES * in + i / INPUTS) * modes * 2 * LANES;
            tile += n % SAMPLES * INPUTS + i % INPUTS;
            for (long k1 = 0; k1 < s->outer.modes; k1++)
                for (long k2 = 0; k2 < s->inner.modes; k2++)
                    for (long k3 = 0; k3 < s->row.modes; k3++) {
                        float *at = tile + 2 * LANES * place_in_tile(s, k1, k2, k3);
                        if (!back) {
                            at[0] = there ? *line++ : 0;
                            at[LANES] = there ? *line++ : 0;
                        } else if (there) {
                            *line++ = at[0];
                            *line++ = at[LANES];
                        }
                    }
        }
}

/* out' (B, O, N) -> (batch blocks, O, N, SAMPLES), 0 beyond B */
static inline void NAME(pack_gradient)(const float *grad, float *to, const layer *s)
{
    const long size = s->outputs * points_of(s);
    for (long n = 0; n < NAME(batch_blocks)(s); n++)
        for (long x = 0; x < size; x++)
            for (long m = 0; m < SAMPLES; m++) {
                const long sample = n * SAMPLES + m;
                *to++ = sample < s->batch ? grad[sample * size + x] : 0;
            }
}

/* ---- columns ---- */

INLINE cell NAME(product)(const cell *f, const float *c)
{
    const vector re = NAME(inputs)(c), im = NAME(inputs)(c + INPUTS);
    return (cell){re * f->re - im * f->im, re * f->im + im * f->re};
}

/* c' += conj(f) p and f' += conj(c) p */
INLINE void NAME(add_products)(const cell *f, const float *c, cell *f_bar, cell *c_bar, cell p)
{
    const vector re = NAME(inputs)(c), im = NAME(inputs)(c + INPUTS);
    f_bar->re += re * p.re + im * p.im, f_bar->im += re * p.im - im * p.re;
    c_bar->re += f->re * p.re + f->im * p.im, c_bar->im += f->re * p.im - f->im * p.re;
}

/* a column of `count` modes from `at` on */
INLINE void NAME(fill_column)(cell *column, const cell *f, const float *c, long at, long count)
{
    for (long k = 0; k < count; k++)
        column[k] = NAME(product)(f + at + k, c + 2 * INPUTS * (at + k));
}

INLINE void NAME(empty_column)(const cell *column, const cell *f, const float *c, cell *f_bar,
                               cell *c_bar, long at, long count)
{
    for (long k = 0; k < count; k++)
        NAME(add_products)(f + at + k, c + 2 * INPUTS * (at + k), f_bar + at + k,
                           c_bar + at + k, column[k]);
}

/* ---- rows ---- */

typedef struct { const float *ahead, *behind; vector *sum_ahead, *sum_behind; long width; }
    NAME(row_target);

INLINE void NAME(emit_sum)(const void *to, long x, cell g)
{
    const NAME(row_target) *s = to;
    s->sum_ahead[x] += NAME(inputs)(s->ahead + s->width * x) * g.re;
    s->sum_behind[x] += NAME(inputs)(s->behind + s->width * x) * g.im;
}

/* sums += b F^-1[rows] for two rows */
static void NAME(forward_rows)(const cell *u, const cell *v, cell *line,
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

typedef struct {
    const float *b_ahead, *b_behind, *grad_ahead, *grad_behind;
    vector *sum_ahead, *sum_behind;
    long width;
} NAME(turning_point);

/* b' += out' g at a point of two rows, and out' b */
INLINE cell NAME(turn_back)(const NAME(turning_point) *s, long x, cell g)
{
    const vector ahead = NAME(samples)(s->grad_ahead + SAMPLES * x);
    const vector behind = NAME(samples)(s->grad_behind + SAMPLES * x);
    s->sum_ahead[x] += ahead * g.re;
    s->sum_behind[x] += behind * g.im;
    return (cell){ahead * NAME(inputs)(s->b_ahead + s->width * x),
                  behind * NAME(inputs)(s->b_behind + s->width * x)};
}

/* the last pass of synthesis and the first pass of analysis */
INLINE void NAME(turn_pass)(cell *line, const axis *t, const int radix,
                            const NAME(turning_point) *s)
{
    const float *w = last_twiddles(t);
    const long done = t->points / radix;
    for (long m = 0; m < done; m++, w += 2 * (radix - 1)) {
        cell a[8];
        a[0] = line[m];
        for (int r = 1; r < radix; r++) a[r] = turn(line[m + r * done], w + 2 * r - 2, 1);
        butterfly(a, radix, 1);
        for (int r = 0; r < radix; r++) a[r] = NAME(turn_back)(s, m + r * done, a[r]);
        butterfly(a, radix, -1);
        line[m] = a[0];
        for (int r = 1; r < radix; r++) line[m + r * done] = turn(a[r], w + 2 * r - 2, -1);
    }
}

/* rows become (F^-1)^T[out' b] */
static void NAME(backward_rows)(cell *u, cell *v, cell *line, const NAME(turning_point) *s,
                                const layer *l)
{
    const long points = l->row.points;
    if (l->row.passes) {
        start_rows(u, v, line, l);
#define TURN(radix) NAME(turn_pass)(line, &l->row, radix, s)
        FOR_RADIX(l->row.radix[l->row.passes - 1], TURN)
#undef TURN
        end_rows(line, u, v, l);
        return;
    }
    const folded g = unfold_rows(u, v, line, l);
    for (long x = 0; x <= points / 2; x++) {
        const cell near = NAME(turn_back)(
            s, x, (cell){g.even[0][x] - g.odd[0][x], g.even[1][x] - g.odd[1][x]});
        cell far = {{0}, {0}};
        if (x > 0 && 2 * x < points)
            far = NAME(turn_back)(
                s, points - x, (cell){g.even[0][x] + g.odd[0][x], g.even[1][x] + g.odd[1][x]});
        g.even[0][x] = near.re + far.re, g.odd[0][x] = far.re - near.re;
        g.even[1][x] = near.im + far.im, g.odd[1][x] = far.im - near.im;
    }
    fold_rows(g, u, v, l);
}

/* ---- all axes ---- */

/* room for one task; the sizes are in cells */
typedef struct { cell *slabs, *waves, *line, *column, *sums, *c_bar; float *factors, *symbol; }
    NAME(room);

static long NAME(slab_size)(const layer *s)
{
    return s->dim == 3 ? s->outer.points * s->inner.modes * s->row.modes : 0;
}

static long NAME(wave_size)(const layer *s)
{
    return (s->inner.points + 1) * s->wave_row; /* one row more: the partner of an odd one */
}

static long NAME(factor_size)(const layer *s, long blocks)
{
    const long points = s->pack_whole ? points_of(s) : 2 * s->row.points;
    return blocks_of(points * blocks * INPUTS, 2 * LANES);
}

/* the room laid out from `at` on; with at = 0 the last pointer tells how large it is */
static char *NAME(lay_out)(char *at, NAME(room) *room, const layer *s, long blocks)
{
    const long column = s->outer.modes > s->inner.modes ? s->outer.modes : s->inner.modes;
#define TAKE(name, type, cells) room->name = (type *)at, at += (cells) * (long)sizeof(cell)
    TAKE(slabs, cell, s->together * NAME(slab_size)(s));
    TAKE(waves, cell, s->together * NAME(wave_size)(s));
    TAKE(line, cell, longest_line(s));
    TAKE(column, cell, column);
    TAKE(sums, cell, FOURS(s->row.points));
    TAKE(c_bar, cell, modes_of(s));
    TAKE(factors, float, NAME(factor_size)(s, blocks));
    TAKE(symbol, float, blocks_of(blocks * modes_of(s), SAMPLES));
#undef TAKE
    return at;
}

/* the outer axis of a tile: (K3, K2, K1) -> slabs (N1, K3, K2) */
static void NAME(synthesise_outer)(const cell *f, const float *c, cell *slab,
                                   const NAME(room) *room, const layer *s)
{
    const long columns = s->row.modes * s->inner.modes, count = s->outer.modes;
    for (long k = 0; k < columns; k++) {
        NAME(fill_column)(room->column, f, c, k * count, count);
        synthesise_column(room->column, slab + k, columns, room->line, &s->outer);
    }
}

static void NAME(analyse_outer)(const cell *slab, const cell *f, const float *c, cell *f_bar,
                                const NAME(room) *room, const layer *s)
{
    const long columns = s->row.modes * s->inner.modes, count = s->outer.modes;
    for (long k = 0; k < columns; k++) {
        analyse_column(slab + k, columns, room->column, room->line, &s->outer);
        NAME(empty_column)(room->column, f, c, f_bar, room->c_bar, k * count, count);
    }
}

/* the inner axis of a tile, or of one of its slabs: (K3, K2) -> waves (N2, wave_row) */
static void NAME(synthesise_inner)(const cell *f, const float *c, const cell *slab, cell *waves,
                                   const NAME(room) *room, const layer *s)
{
    const long count = s->inner.modes, N2 = s->inner.points;
    for (long k = 0; k < s->row.modes; k++) {
        if (!slab) NAME(fill_column)(room->column, f, c, k * count, count);
        synthesise_column(slab ? slab + k * count : room->column, waves + k, s->wave_row,
                          room->line, &s->inner);
        waves[N2 * s->wave_row + k] = (cell){{0}, {0}};
        for (long x = 0; x < N2 && is_edge(s, k); x++) waves[x * s->wave_row + k].im = (vector){0};
    }
}

static void NAME(analyse_inner)(const cell *waves, const cell *f, const float *c, cell *slab,
                                cell *f_bar, const NAME(room) *room, const layer *s)
{
    const long count = s->inner.modes;
    for (long k = 0; k < s->row.modes; k++) {
        analyse_column(waves + k, s->wave_row, slab ? slab + k * count : room->column, room->line,
                       &s->inner);
        if (!slab) NAME(empty_column)(room->column, f, c, f_bar, room->c_bar, k * count, count);
    }
}

/* a line: c f of a tile, 0 without one */
static void NAME(fill_line)(const cell *f, const float *c, cell *row, const layer *s)
{
    for (long k = 0; k < s->row.modes; k++) {
        row[k] = f ? NAME(product)(f + k, c + 2 * INPUTS * k) : (cell){{0}, {0}};
        keep_real(row + k, s, k);
    }
}

/* ---- the operator ---- */

typedef struct { const float *f, *c, *b, *grad; float *out, *f_bar, *c_bar, *b_bar; }
    NAME(tensors);

/* packed b of two rows, for `blocks` of inputs from `block` on */
INLINE const float *NAME(factors_of_rows)(const NAME(tensors) *a, const NAME(room) *room, long j,
                                          long row, long rows, long block, long blocks,
                                          const layer *s)
{
    const long N3 = s->row.points;
    if (s->pack_whole) return room->factors + row * N3 * blocks * INPUTS;
    NAME(pack_factors)(a->b + (row * N3 * s->outputs + j) * s->inputs, room->factors, rows * N3,
                       block, blocks, s);
    return room->factors;
}

INLINE void NAME(store_row)(const cell *sums, int which, float *out, long n, const layer *s,
                            long add)
{
    const long N3 = s->row.points;
    const vector *row = (const vector *)sums + which * FOURS(N3);
    for (long y = 0; y < N3; y += 4)
        NAME(store_samples)(row + y, out + y, s->outputs * points_of(s),
                            smaller(SAMPLES, s->batch - n * SAMPLES), smaller(4, N3 - y), add);
}

INLINE float *NAME(out_row)(const NAME(tensors) *a, long n, long j, long row, const layer *s)
{
    return a->out + (n * SAMPLES * s->outputs + j) * points_of(s) + row * s->row.points;
}

static void NAME(forward_line)(const NAME(tensors) *a, const NAME(room) *room, long j,
                               const layer *s)
{
    const long in = NAME(input_blocks)(s), modes = modes_of(s), N3 = s->row.points;
    const cell *f = (const cell *)a->f;
    vector *sums = (vector *)room->sums;
    cell *u = room->waves, *v = u + s->wave_row;
    for (long n = 0; n < NAME(batch_blocks)(s); n += 2) {
        const int both = n + 1 < NAME(batch_blocks)(s);
        memset(sums, 0, FOURS(N3) * sizeof(cell));
        for (long i = 0; i < in; i++) {
            const cell *tile = f + (n * in + i) * modes;
            const float *c = room->symbol + i * modes * 2 * INPUTS;
            const float *b = room->factors + i * INPUTS;
            const NAME(row_target) to = {b, b, sums, sums + FOURS(N3), in * INPUTS};
            NAME(fill_line)(tile, c, u, s);
            NAME(fill_line)(both ? tile + in * modes : 0, c, v, s);
            NAME(forward_rows)(u, v, room->line, &to, s);
        }
        for (int r = 0; r < 1 + both; r++)
            NAME(store_row)(room->sums, r, NAME(out_row)(a, n + r, j, 0, s), n + r, s, 0);
    }
}

static void NAME(forward_slab)(const NAME(tensors) *a, const NAME(room) *room, long j, long n,
                               long slab, long start, long end, const layer *s)
{
    const long in = NAME(input_blocks)(s), modes = modes_of(s), N2 = s->inner.points;
    const long wave = NAME(wave_size)(s), N3 = s->row.points;
    vector *sums = (vector *)room->sums;
    for (long i = start; i < end; i++) {
        const cell *tile = (const cell *)a->f + (n * in + i) * modes;
        const float *c = room->symbol + i * modes * 2 * INPUTS;
        const cell *from = room->slabs + (i - start) * NAME(slab_size)(s)
            + slab * s->inner.modes * s->row.modes;
        NAME(synthesise_inner)(tile, c, s->dim == 3 ? from : 0,
                               room->waves + (i - start) * wave, room, s);
    }
    for (long x = 0; x < N2; x += 2) {
        const long rows = smaller(2, N2 - x), row = slab * N2 + x;
        const float *b = NAME(factors_of_rows)(a, room, j, row, rows, 0, in, s);
        memset(sums, 0, FOURS(N3) * sizeof(cell));
        for (long i = start; i < end; i++) {
            const float *ahead = b + i * INPUTS;
            const NAME(row_target) to = {ahead, rows == 2 ? ahead + N3 * in * INPUTS : ahead, sums,
                                         sums + FOURS(N3), in * INPUTS};
            const cell *u = room->waves + (i - start) * wave + x * s->wave_row;
            NAME(forward_rows)(u, u + s->wave_row, room->line, &to, s);
        }
        for (int r = 0; r < rows; r++)
            NAME(store_row)(room->sums, r, NAME(out_row)(a, n, j, row + r, s), n, s, start > 0);
    }
}

/* outputs first .. last */
static void NAME(forward)(const NAME(tensors) *a, char *space, const layer *s, long first,
                          long last)
{
    const long in = NAME(input_blocks)(s), modes = modes_of(s);
    NAME(room) room;
    NAME(lay_out)(space, &room, s, in);
    for (long j = first; j < last; j++) {
        for (long i = 0; i < in; i++)
            NAME(pack_symbol)(a->c + 2 * j * s->inputs * modes,
                              room.symbol + i * modes * 2 * INPUTS, s, i);
        if (s->pack_whole)
            NAME(pack_factors)(a->b + j * s->inputs, room.factors, points_of(s), 0, in, s);
        if (s->dim == 1) {
            NAME(forward_line)(a, &room, j, s);
            continue;
        }
        for (long n = 0; n < NAME(batch_blocks)(s); n++)
            for (long start = 0; start < in; start += s->together) {
                const long end = smaller(start + s->together, in);
                for (long i = start; s->dim == 3 && i < end; i++)
                    NAME(synthesise_outer)((const cell *)a->f + (n * in + i) * modes,
                                           room.symbol + i * modes * 2 * INPUTS,
                                           room.slabs + (i - start) * NAME(slab_size)(s), &room,
                                           s);
                for (long slab = 0; slab < s->outer.points; slab++)
                    NAME(forward_slab)(a, &room, j, n, slab, start, end, s);
            }
    }
}

INLINE const float *NAME(gradient_row)(const NAME(tensors) *a, long n, long j, long row,
                                       const layer *s)
{
    return a->grad + SAMPLES * ((n * s->outputs + j) * points_of(s) + row * s->row.points);
}

INLINE void NAME(store_factors)(const NAME(tensors) *a, const vector *sums, long j, long row,
                                long block, const layer *s, long add)
{
    const long stride = s->outputs * s->inputs, inputs = s->inputs - block * INPUTS;
    float *to = a->b_bar + (row * s->row.points * s->outputs + j) * s->inputs + block * INPUTS;
    for (long y = 0; y < s->row.points; y++)
        NAME(store_inputs)(to + y * stride, sums[y], smaller(INPUTS, inputs), add);
}

static void NAME(backward_line)(const NAME(tensors) *a, const NAME(room) *room, cell *f_bar, long j,
                                long block, const layer *s)
{
    const long in = NAME(input_blocks)(s), modes = modes_of(s);
    const float *c = room->symbol;
    vector *sums = (vector *)room->sums;
    cell *rows[2] = {room->waves, room->waves + s->wave_row};
    memset(sums, 0, FOURS(s->row.points) * sizeof(cell));
    for (long n = 0; n < NAME(batch_blocks)(s); n += 2) {
        const int both = n + 1 < NAME(batch_blocks)(s);
        const cell *tile = (const cell *)a->f + (n * in + block) * modes;
        cell *target = f_bar + (n * in + block) * modes;
        const float *grad = NAME(gradient_row)(a, n, j, 0, s);
        const float *next = both ? NAME(gradient_row)(a, n + 1, j, 0, s) : grad;
        const NAME(turning_point) at = {room->factors, room->factors, grad, next, sums,
                                        sums + FOURS(s->row.points), INPUTS};
        NAME(fill_line)(tile, c, rows[0], s);
        NAME(fill_line)(both ? tile + in * modes : 0, c, rows[1], s);
        NAME(backward_rows)(rows[0], rows[1], room->line, &at, s);
        for (long k = 0; k < modes; k++)
            for (int r = 0; r < 1 + both; r++)
                NAME(add_products)(tile + r * in * modes + k, c + 2 * INPUTS * k,
                                   target + r * in * modes + k, room->c_bar + k, rows[r][k]);
    }
    for (long x = 0; x < s->row.points; x++) sums[x] += sums[FOURS(s->row.points) + x];
    NAME(store_factors)(a, sums, j, 0, block, s, 0);
}

static void NAME(backward_slab)(const NAME(tensors) *a, const NAME(room) *room, cell *f_bar, long j,
                                long block, long slab, long start, long end, const layer *s)
{
    const long in = NAME(input_blocks)(s), modes = modes_of(s), N2 = s->inner.points;
    const long wave = NAME(wave_size)(s), N3 = s->row.points, size = NAME(slab_size)(s);
    const float *c = room->symbol;
    vector *sums = (vector *)room->sums;
    cell *slabs = s->dim == 3 ? room->slabs + slab * s->inner.modes * s->row.modes : 0;
    for (long n = start; n < end; n++)
        NAME(synthesise_inner)((const cell *)a->f + (n * in + block) * modes, c,
                               slabs ? slabs + (n - start) * size : 0,
                               room->waves + (n - start) * wave, room, s);
    for (long x = 0; x < N2; x += 2) {
        const long rows = smaller(2, N2 - x), row = slab * N2 + x;
        const float *b = NAME(factors_of_rows)(a, room, j, row, rows, block, 1, s);
        const float *next = rows == 2 ? b + N3 * INPUTS : b;
        memset(sums, 0, FOURS(N3) * sizeof(cell));
        for (long n = start; n < end; n++) {
            const float *grad = NAME(gradient_row)(a, n, j, row, s);
            const NAME(turning_point) at = {b, next, grad, rows == 2 ? grad + SAMPLES * N3 : grad,
                                            sums, sums + FOURS(N3), INPUTS};
            cell *u = room->waves + (n - start) * wave + x * s->wave_row;
            NAME(backward_rows)(u, u + s->wave_row, room->line, &at, s);
        }
        for (int r = 0; r < rows; r++)
            NAME(store_factors)(a, sums + r * FOURS(N3), j, row + r, block, s, start > 0);
    }
    for (long n = start; n < end; n++) {
        const long tile = (n * in + block) * modes;
        NAME(analyse_inner)(room->waves + (n - start) * wave, (const cell *)a->f + tile, c,
                            slabs ? slabs + (n - start) * size : 0, f_bar + tile, room, s);
    }
}

/* a block of inputs and the outputs first .. last; f_bar is added to */
static void NAME(backward)(const NAME(tensors) *a, char *space, cell *f_bar, const layer *s,
                           long block, long first, long last)
{
    const long in = NAME(input_blocks)(s), modes = modes_of(s), size = NAME(slab_size)(s);
    NAME(room) room;
    NAME(lay_out)(space, &room, s, 1);
    for (long j = first; j < last; j++) {
        const float *c = room.symbol;
        NAME(pack_symbol)(a->c + 2 * j * s->inputs * modes, room.symbol, s, block);
        if (s->pack_whole)
            NAME(pack_factors)(a->b + j * s->inputs, room.factors, points_of(s), block, 1, s);
        memset(room.c_bar, 0, modes * sizeof(cell));
        if (s->dim == 1) NAME(backward_line)(a, &room, f_bar, j, block, s);
        for (long start = 0; s->dim > 1 && start < NAME(batch_blocks)(s); start += s->together) {
            const long end = smaller(start + s->together, NAME(batch_blocks)(s));
            for (long n = start; s->dim == 3 && n < end; n++)
                NAME(synthesise_outer)((const cell *)a->f + (n * in + block) * modes, c,
                                       room.slabs + (n - start) * size, &room, s);
            for (long slab = 0; slab < s->outer.points; slab++)
                NAME(backward_slab)(a, &room, f_bar, j, block, slab, start, end, s);
            for (long n = start; s->dim == 3 && n < end; n++) {
                const long tile = (n * in + block) * modes;
                NAME(analyse_outer)(room.slabs + (n - start) * size, (const cell *)a->f + tile, c,
                                    f_bar + tile, &room, s);
            }
        }
        for (long k = 0; k < modes; k++) {
            float *at = room.symbol + 2 * INPUTS * k;
            NAME(store_inputs)(at, room.c_bar[k].re, INPUTS, 0);
            NAME(store_inputs)(at + INPUTS, room.c_bar[k].im, INPUTS, 0);
        }
        NAME(unpack_symbol)(a->c_bar + 2 * j * s->inputs * modes, room.symbol, s, block);
    }
}

#undef INPUTS
#undef SAMPLES
#undef NAME
