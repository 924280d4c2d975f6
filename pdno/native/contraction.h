/* Sums over channels for every mode, in complex numbers: LANES modes at a time.
 *
 *     out_bj = sum_i c_ji f_bi,    c'_ji = sum_b conj(f_bi) out'_bj,    f'_bi = sum_j conj(c_ji) out'_bj
 *
 * All are (rows, columns, modes) and dense. The matrices of LANES modes are copied first, so that
 * they lie together in the cache, with real and imaginary parts taken apart within fours, which is
 * undone when the sums are stored.
 */
#if LANES == 16
#define PARTS_RE 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30
#define PARTS_IM 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31
#define FRONT 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define REAR 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#else
#define PARTS_RE 0, 2, 8, 10, 4, 6, 12, 14
#define PARTS_IM 1, 3, 9, 11, 5, 7, 13, 15
#define FRONT 0, 8, 1, 9, 4, 12, 5, 13
#define REAR 2, 10, 3, 11, 6, 14, 7, 15
#endif

INLINE cell load_modes(const float *from, long count)
{
    vector v[2];
    if (count < LANES) {
        memset(v, 0, sizeof v);
        memcpy(v, from, 2 * count * sizeof(float));
    } else {
        v[0] = ((const vector *)from)[0], v[1] = ((const vector *)from)[1];
    }
    return (cell){MIX(v[0], v[1], PARTS_RE), MIX(v[0], v[1], PARTS_IM)};
}

INLINE void store_modes(float *to, cell value, long count)
{
    const vector v[2] = {MIX(value.re, value.im, FRONT), MIX(value.re, value.im, REAR)};
    memcpy(to, v, (count < LANES ? count * 2 : 2 * LANES) * sizeof(float));
}

/* sum += a b, or conj(a) b */
INLINE void add_product(cell *sum, cell a, cell b, const int conjugate)
{
    if (conjugate) {
        sum->re += a.re * b.re, sum->re += a.im * b.im;
        sum->im += a.re * b.im, sum->im -= a.im * b.re;
    } else {
        sum->re += a.re * b.re, sum->re -= a.im * b.im;
        sum->im += a.re * b.im, sum->im += a.im * b.re;
    }
}

/* a matrix for every mode: element (row, column) is at row * rows + column * columns */
typedef struct { float *at; long rows, columns; } mode_matrix;

INLINE float *element_of(mode_matrix a, long row, long column, long mode)
{
    return a.at + 2 * (row * a.rows + column * a.columns + mode);
}

#define AT_ONCE 4

/* a row of out(x, y) = sum_z a(x, z) b(z, y), or with conj(b); AT_ONCE columns y at a time */
INLINE void multiply_row(mode_matrix out, long x, const cell *row, const cell *b, long inner,
                         long columns, long mode, long count, const int conjugate)
{
    for (long y = 0; y < columns; y += AT_ONCE) {
        cell sums[AT_ONCE] = {{{0}, {0}}};
        const cell *right = b + y * inner;
        for (long z = 0; z < inner; z++, right += AT_ONCE)
            for (long q = 0; q < AT_ONCE; q++) add_product(sums + q, right[q], row[z], conjugate);
        for (long q = 0; q < smaller(AT_ONCE, columns - y); q++)
            store_modes(element_of(out, x, y + q, mode), sums[q], count);
    }
}

/* rows first .. last of it, for all modes; room for (columns + AT_ONCE) * inner cells */
static void contract(mode_matrix out, mode_matrix a, mode_matrix b, long first, long last,
                     long inner, long columns, long modes, int conjugate, cell *room)
{
    cell *packed = room, *row = room + blocks_of(columns, AT_ONCE) * AT_ONCE * inner;
    for (long mode = 0; mode < modes; mode += LANES) {
        const long count = smaller(LANES, modes - mode);
        for (long y = 0; y < columns; y++)
            for (long z = 0; z < inner; z++)
                packed[(y / AT_ONCE * inner + z) * AT_ONCE + y % AT_ONCE] =
                    load_modes(element_of(b, z, y, mode), count);
        for (long x = first; x < last; x++) {
            for (long z = 0; z < inner; z++) row[z] = load_modes(element_of(a, x, z, mode), count);
            if (conjugate) multiply_row(out, x, row, packed, inner, columns, mode, count, 1);
            else multiply_row(out, x, row, packed, inner, columns, mode, count, 0);
        }
    }
}

typedef struct { long outputs, inputs, batch, modes; } contraction;

/* out for the outputs first .. last */
void contract_forward(const float *c, const float *f, float *out, cell *room,
                      const contraction *s, long first, long last)
{
    const long K = s->modes;
    const mode_matrix symbol = {(float *)c, s->inputs * K, K}; /* (j, i) */
    const mode_matrix field = {(float *)f, K, s->inputs * K};  /* (i, b) */
    const mode_matrix to = {out, K, s->outputs * K};           /* (j, b) */
    contract(to, symbol, field, first, last, s->inputs, s->batch, K, 0, room);
}

/* c' for the outputs first .. last */
void contract_symbol(const float *f, const float *grad, float *c_bar, cell *room,
                     const contraction *s, long first, long last)
{
    const long K = s->modes;
    const mode_matrix gradient = {(float *)grad, K, s->outputs * K}; /* (j, b) */
    const mode_matrix field = {(float *)f, s->inputs * K, K};        /* (b, i) */
    const mode_matrix to = {c_bar, s->inputs * K, K};                /* (j, i) */
    contract(to, gradient, field, first, last, s->batch, s->inputs, K, 1, room);
}

/* f' for the samples first .. last */
void contract_field(const float *c, const float *grad, float *f_bar, cell *room,
                    const contraction *s, long first, long last)
{
    const long K = s->modes;
    const mode_matrix gradient = {(float *)grad, s->outputs * K, K}; /* (b, j) */
    const mode_matrix symbol = {(float *)c, s->inputs * K, K};       /* (j, i) */
    const mode_matrix to = {f_bar, s->inputs * K, K};                /* (b, i) */
    contract(to, gradient, symbol, first, last, s->outputs, s->inputs, K, 1, room);
}

/* bytes of room for each of them */
long contract_room(const contraction *s)
{
    const long inner = s->inputs > s->outputs ? s->inputs : s->outputs;
    const long most = inner > s->batch ? inner : s->batch;
    return (most + 2 * AT_ONCE) * most * (long)sizeof(cell);
}
