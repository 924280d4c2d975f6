/* The pairwise operator on a plane (pdno/native/lanes.py): a (sample, input) in each vector lane.
 *
 *     forward:   out_bj  = sum_i b_ji g_bji,      g_bji = F^-1[c_ji f_bi]
 *     backward:  b'_ji   = sum_b out'_bj g_bji,   p_bji = (F^-1)^T[b_ji out'_bj],
 *                c'_ji   = sum_b conj(f_bi) p_bji,   f'_bi = sum_j conj(c_ji) p_bji
 *
 * A lane does the arithmetic of one pair, so the fast Fourier transform is written as for single
 * numbers and needs no shuffles. A tile has 4 inputs of SAMPLES samples; lane 4 s + i is sample s
 * and input i. The columns (first axis, complex) of some tiles that are added up are transformed
 * into `waves`, then the rows (second axis, real) two at a time: u + i v is one complex transform
 * for the real lines u and v. Each line stays in the first cache, and is multiplied and added up
 * in the last pass of its transform.
 */
#include "lanes_packing.h"

/* ---- columns ---- */

typedef struct { const cell *f; const float *c; long up, gap; } column_source;

/* c f at frequency k, 0 where it is not kept */
INLINE cell fetch_product(const void *from, long k)
{
    const column_source *s = from;
    cell z = {{0}, {0}};
    const long place = k < s->up ? k : k - s->gap;
    if (place < s->up && k >= s->up) return z;
    const cell f = s->f[place];
    const vector re = spread_inputs(s->c + 8 * place), im = spread_inputs(s->c + 8 * place + 4);
    z.re = re * f.re - im * f.im;
    z.im = re * f.im + im * f.re;
    return z;
}

typedef struct { cell *wave; long stride; } wave_column; /* rows in pairs: (N1/2, wave_row, 2) */

INLINE void emit_wave(const void *to, long x, cell value)
{
    const wave_column *w = to;
    w->wave[(x >> 1) * w->stride + (x & 1)] = value;
}

INLINE void emit_real_wave(const void *to, long x, cell value)
{
    value.im = (vector){0};
    emit_wave(to, x, value);
}

INLINE cell fetch_wave(const void *from, long x)
{
    const wave_column *w = from;
    return w->wave[(x >> 1) * w->stride + (x & 1)];
}

typedef struct { const cell *f; const float *c; cell *f_bar, *c_bar; long up, gap; } column_target;

/* c' += conj(f) p and f' += conj(c) p at frequency k */
INLINE void emit_products(const void *to, long k, cell p)
{
    const column_target *s = to;
    const long place = k < s->up ? k : k - s->gap;
    if (place < s->up && k >= s->up) return;
    const cell f = s->f[place];
    const vector re = spread_inputs(s->c + 8 * place), im = spread_inputs(s->c + 8 * place + 4);
    s->f_bar[place].re += re * p.re + im * p.im;
    s->f_bar[place].im += re * p.im - im * p.re;
    s->c_bar[place].re += f.re * p.re + f.im * p.im;
    s->c_bar[place].im += f.re * p.im - f.im * p.re;
}

INLINE int is_edge(const layer *s, long k) { return k == 0 || 2 * k == s->row.points; }

INLINE void synthesise_columns(const cell *f, const float *c, cell *waves, const layer *s,
                               const int few)
{
    cell line[MOST];
    for (long k = 0; k < s->modes; k++) {
        const column_source from = {f + k * s->kept, c + k * 8 * s->kept, s->up,
                                    s->column.points - s->kept};
        const wave_column to = {waves + 2 * k, 2 * s->wave_row};
        if (is_edge(s, k))
            synthesise(line, &s->column, few, fetch_product, &from, emit_real_wave, &to);
        else synthesise(line, &s->column, few, fetch_product, &from, emit_wave, &to);
    }
}

INLINE void analyse_column(const cell *waves, const column_target *to, const layer *s, long k,
                           const int few)
{
    cell line[MOST];
    const wave_column from = {(cell *)waves + 2 * k, 2 * s->wave_row};
    const long radix = s->column.radix[s->column.passes - 1];
    if (radix == 8) spread_pass(line, &s->column, 8, fetch_wave, &from);
    else if (radix == 4) spread_pass(line, &s->column, 4, fetch_wave, &from);
    else spread_pass(line, &s->column, 2, fetch_wave, &from);
    middle_passes(line, &s->column, -1);
    gather_pass(line, &s->column, few, emit_products, to);
}

/* ---- rows ---- */

typedef struct { const cell *rows; long modes, points; } row_source;

/* the spectrum of u + i v at frequency k from the half spectra of the real u and v */
INLINE cell fetch_two_rows(const void *from, long k)
{
    const row_source *s = from;
    cell z = {{0}, {0}};
    if (k < s->modes) {
        const cell a = s->rows[2 * k], b = s->rows[2 * k + 1];
        z.re = a.re - b.im, z.im = a.im + b.re;
    } else if (s->points - k < s->modes) {
        const cell *at = s->rows + 2 * (s->points - k), a = at[0], b = at[1];
        z.re = a.re + b.im, z.im = b.re - a.im;
    }
    return z;
}

typedef struct { const float *ahead, *behind; vector *sum_ahead, *sum_behind; } row_target;

INLINE void emit_first_sum(const void *to, long x, cell g)
{
    const row_target *s = to;
    s->sum_ahead[x] = spread_inputs(s->ahead + 4 * x) * g.re;
    s->sum_behind[x] = spread_inputs(s->behind + 4 * x) * g.im;
}

INLINE void emit_sum(const void *to, long x, cell g)
{
    const row_target *s = to;
    s->sum_ahead[x] += spread_inputs(s->ahead + 4 * x) * g.re;
    s->sum_behind[x] += spread_inputs(s->behind + 4 * x) * g.im;
}

typedef struct {
    const float *b_ahead, *b_behind, *grad_ahead, *grad_behind;
    vector *sum_ahead, *sum_behind;
} turning_point;

/* the last pass of synthesis, b' += out' g, and the first pass of analysis of out' b */
INLINE void turn_pass(cell *line, const axis *t, const int radix, const turning_point *s)
{
    const float *w = last_twiddles(t);
    const long done = t->points / radix;
    for (long m = 0; m < done; m++, w += 2 * (radix - 1)) {
        cell a[8];
        a[0] = line[m];
        for (int r = 1; r < radix; r++) a[r] = turn(line[m + r * done], w + 2 * r - 2, 1);
        butterfly(a, radix, 1);
        for (int r = 0; r < radix; r++) {
            const long x = m + r * done;
            const vector ahead = spread_samples(s->grad_ahead + SAMPLES * x);
            const vector behind = spread_samples(s->grad_behind + SAMPLES * x);
            s->sum_ahead[x] += ahead * a[r].re;
            s->sum_behind[x] += behind * a[r].im;
            a[r].re = ahead * spread_inputs(s->b_ahead + 4 * x);
            a[r].im = behind * spread_inputs(s->b_behind + 4 * x);
        }
        butterfly(a, radix, -1);
        line[m] = a[0];
        for (int r = 1; r < radix; r++) line[m + r * done] = turn(a[r], w + 2 * r - 2, -1);
    }
}

typedef struct { cell *line; const axis *t; } place_target;

/* where analysis leaves frequency k */
INLINE long place_of(const axis *t, long k)
{
    const long stride = t->points / FIRST;
    return FIRST * t->order[k & (stride - 1)] + k / stride;
}

INLINE void emit_in_place(const void *to, long k, cell value)
{
    const place_target *s = to;
    s->line[place_of(s->t, k)] = value;
}

/* the spectra of two real rows from that of u + i v, with the weights of the half spectrum */
INLINE void part_rows(const cell *line, cell *rows, const layer *s)
{
    for (long k = 0; k < s->modes; k++) {
        const cell z = line[place_of(&s->row, k)];
        const cell y = line[place_of(&s->row, k ? s->row.points - k : 0)];
        rows[2 * k].re = z.re + y.re, rows[2 * k].im = z.im - y.im;
        rows[2 * k + 1].re = z.im + y.im, rows[2 * k + 1].im = y.re - z.re;
    }
    for (long k = 0; k < s->modes; k++)
        for (int r = 0; r < 2 && is_edge(s, k); r++) {
            rows[2 * k + r].re *= 0.5f;
            rows[2 * k + r].im = (vector){0};
        }
}

INLINE void turn_rows(cell *rows, const turning_point *s, const layer *l, const int few)
{
    cell line[MOST];
    const row_source from = {rows, l->modes, l->row.points};
    const place_target to = {line, &l->row};
    const long radix = l->row.radix[l->row.passes - 1];
    first_pass(line, &l->row, few, fetch_two_rows, &from);
    middle_passes(line, &l->row, 1);
    if (radix == 8) turn_pass(line, &l->row, 8, s);
    else if (radix == 4) turn_pass(line, &l->row, 4, s);
    else turn_pass(line, &l->row, 2, s);
    middle_passes(line, &l->row, -1);
    gather_pass(line, &l->row, few, emit_in_place, &to);
    part_rows(line, rows, l);
}

/* ---- the operator ---- */

static void columns_of_tile(const cell *f, const float *c, cell *waves, const layer *s)
{
    if (s->few_columns) synthesise_columns(f, c, waves, s, 1);
    else synthesise_columns(f, c, waves, s, 0);
}

INLINE void forward_row(const cell *a, const row_target *to, const layer *s, const int first,
                        const int few)
{
    cell line[MOST];
    const row_source from = {a, s->modes, s->row.points};
    if (first) synthesise(line, &s->row, few, fetch_two_rows, &from, emit_first_sum, to);
    else synthesise(line, &s->row, few, fetch_two_rows, &from, emit_sum, to);
}

/* two rows of the result for SAMPLES samples, from the inputs i .. end */
static void forward_rows(const cell *waves, const float *b, float *out, const layer *s, long x,
                         long i, long end, long samples)
{
    const long N1 = s->column.points, N2 = s->row.points, add = i > 0;
    vector sums[2][MOST];
    for (int later = 0; i < end; i++, later = 1, waves += N1 * s->wave_row) {
        const float *factor = b + (i * N1 + x) * 4 * N2;
        const row_target to = {factor, factor + 4 * N2, sums[0], sums[1]};
        if (s->few_rows) forward_row(waves + x * s->wave_row, &to, s, !later, 1);
        else forward_row(waves + x * s->wave_row, &to, s, !later, 0);
    }
    for (int r = 0; r < 2; r++)
        for (long y = 0; y < N2; y += 4)
            sum_inputs(sums[r] + y, out + (x + r) * s->out.row + y, s->out.first, samples, add);
}

/* outputs first .. last, for which there is room */
static void forward(const float *f, const float *c, const float *b, float *out, float *waves,
                   float *b_room, float *c_room, const layer *s, long first, long last)
{
    const long N1 = s->column.points, modes = s->kept * s->modes;
    const long b_size = s->input_blocks * N1 * s->row.points * 4;
    const long c_size = s->input_blocks * modes * 8;
    for (long j = first; j < last; j++) {
        pack_factors(b, b_room + (j - first) * b_size, s, j);
        pack_symbol(c, c_room + (j - first) * c_size, s, j);
    }
    for (long n = 0; n < s->batch_blocks; n++)
        for (long start = 0; start < s->input_blocks; start += s->together) {
            const long end = fewer(start + s->together, s->input_blocks);
            for (long j = first; j < last; j++) {
                for (long i = start; i < end; i++)
                    columns_of_tile((const cell *)f + (n * s->input_blocks + i) * modes,
                                    c_room + (j - first) * c_size + i * modes * 8,
                                    (cell *)waves + (i - start) * N1 * s->wave_row, s);
                for (long x = 0; x < N1; x += 2)
                    forward_rows((const cell *)waves, b_room + (j - first) * b_size,
                                 out + n * SAMPLES * s->out.first + j * s->out.second, s, x,
                                 start, end, fewer(SAMPLES, s->batch - n * SAMPLES));
            }
        }
}

/* two rows of the samples n .. end for a block of inputs; `waves` become the transpose's */
static void backward_rows(cell *waves, const float *b, const float *grad, float *b_bar,
                          const layer *s, long x, long n, long end, long inputs)
{
    const long N1 = s->column.points, N2 = s->row.points, add = n > 0;
    vector sums[2][MOST];
    memset(sums[0], 0, N2 * sizeof(vector));
    memset(sums[1], 0, N2 * sizeof(vector));
    const float *factor = b + x * 4 * N2;
    for (; n < end; n++, waves += N1 * s->wave_row) {
        cell *a = waves + x * s->wave_row;
        const float *g = grad + (n * N1 + x) * SAMPLES * N2;
        const turning_point at = {factor, factor + 4 * N2, g, g + SAMPLES * N2, sums[0], sums[1]};
        if (s->few_rows) turn_rows(a, &at, s, 1);
        else turn_rows(a, &at, s, 0);
    }
    for (int r = 0; r < 2; r++)
        for (long y = 0; y < N2; y += 4)
            sum_samples(sums[r] + y, b_bar + (x + r) * s->b_bar.row + y, s->b_bar.second, inputs,
                        add);
}

/* c' (K2, K1, re|im, 4) and f' of the samples n .. end for a block of inputs */
static void backward_columns(const cell *waves, const cell *f, const float *c, cell *f_bar,
                             float *c_bar, const layer *s, long n, long end)
{
    const long N1 = s->column.points, modes = s->kept * s->modes, add = n > 0;
    cell sums[MOST];
    for (long k = 0; k < s->modes; k++) {
        memset(sums, 0, s->kept * sizeof(cell));
        for (long m = n; m < end; m++) {
            const long tile = m * s->input_blocks * modes + k * s->kept;
            const cell *wave = waves + (m - n) * N1 * s->wave_row;
            const column_target to = {f + tile, c + k * 8 * s->kept, f_bar + tile, sums, s->up,
                                      N1 - s->kept};
            if (s->few_columns) analyse_column(wave, &to, s, k, 1);
            else analyse_column(wave, &to, s, k, 0);
        }
        for (long m = 0; m < s->kept; m++) {
            four *at = (four *)(c_bar + 8 * (k * s->kept + m));
            const four re = over_samples(sums[m].re), im = over_samples(sums[m].im);
            at[0] = add ? at[0] + re : re;
            at[1] = add ? at[1] + im : im;
        }
    }
}

/* outputs first .. last, for which there is room; f_bar is added to */
static void backward(const float *f, const float *c, const float *b, const float *grad,
                     float *f_bar, float *c_bar, float *b_bar, float *waves, float *b_room,
                     float *c_room, float *c_bar_room, float *grad_room, const layer *s,
                     long first, long last)
{
    const long N1 = s->column.points, points = N1 * s->row.points, modes = s->kept * s->modes;
    const long b_size = s->input_blocks * points * 4, c_size = s->input_blocks * modes * 8;
    const long grad_size = s->batch_blocks * points * SAMPLES;
    for (long j = first; j < last; j++) {
        pack_factors(b, b_room + (j - first) * b_size, s, j);
        pack_symbol(c, c_room + (j - first) * c_size, s, j);
        pack_gradient(grad, grad_room + (j - first) * grad_size, s, j);
    }
    for (long i = 0; i < s->input_blocks; i++)
        for (long start = 0; start < s->batch_blocks; start += s->together) {
            const long end = fewer(start + s->together, s->batch_blocks);
            const cell *tiles = (const cell *)f + i * modes;
            for (long j = first; j < last; j++) {
                const float *symbol = c_room + (j - first) * c_size + i * modes * 8;
                for (long n = start; n < end; n++)
                    columns_of_tile(tiles + n * s->input_blocks * modes, symbol,
                                    (cell *)waves + (n - start) * N1 * s->wave_row, s);
                for (long x = 0; x < N1; x += 2)
                    backward_rows((cell *)waves, b_room + (j - first) * b_size + i * points * 4,
                                  grad_room + (j - first) * grad_size,
                                  b_bar + j * s->b_bar.first + 4 * i * s->b_bar.second, s, x,
                                  start, end, fewer(4, s->inputs - 4 * i));
                backward_columns((cell *)waves, tiles, symbol, (cell *)f_bar + i * modes,
                                 c_bar_room + (j - first) * c_size + i * modes * 8, s, start, end);
            }
        }
    for (long j = first; j < last; j++)
        unpack_symbol(c_bar, c_bar_room + (j - first) * c_size, s, j);
}

/* outputs first .. last, in turns */
void lanes_forward(const float *f, const float *c, const float *b, float *out, float *waves,
                   float *b_room, float *c_room, const layer *s, long first, long last)
{
    for (long j = first; j < last; j += s->turn)
        forward(f, c, b, out, waves, b_room, c_room, s, j, fewer(j + s->turn, last));
}

void lanes_backward(const float *f, const float *c, const float *b, const float *grad,
                    float *f_bar, float *c_bar, float *b_bar, float *waves, float *b_room,
                    float *c_room, float *c_bar_room, float *grad_room, const layer *s, long first,
                    long last)
{
    for (long j = first; j < last; j += s->turn)
        backward(f, c, b, grad, f_bar, c_bar, b_bar, waves, b_room, c_room, c_bar_room, grad_room,
                 s, j, fewer(j + s->turn, last));
}

long lanes_count(void) { return LANES; }
long lanes_most(void) { return MOST; }
