/* Matrix products for every mode, in complex numbers: LANES modes at a time.
 *
 * All are (rows, columns, modes). The matrices of LANES modes are copied first, so that they lie
 * together in the cache, with real and imaginary parts taken apart within fours, which is undone
 * when the sums are stored.
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

INLINE complex_vector load_modes(const float *from, long count)
{
    vector v[2];
    if (count < LANES) {
        memset(v, 0, sizeof v);
        memcpy(v, from, 2 * count * sizeof(float));
    } else {
        v[0] = ((const vector *)from)[0], v[1] = ((const vector *)from)[1];
    }
    return (complex_vector){MIX(v[0], v[1], PARTS_RE), MIX(v[0], v[1], PARTS_IM)};
}

INLINE void store_modes(float *to, complex_vector value, long count)
{
    const vector v[2] = {MIX(value.re, value.im, FRONT), MIX(value.re, value.im, REAR)};
    memcpy(to, v, (count < LANES ? count * 2 : 2 * LANES) * sizeof(float));
}

/* sum += a b, or conj(a) b */
INLINE void add_product(complex_vector *sum, complex_vector a, complex_vector b,
                        const int conjugate)
{
    const float sign = conjugate ? -1 : 1;
    sum->re += a.re * b.re, sum->re -= sign * (a.im * b.im);
    sum->im += a.re * b.im, sum->im += sign * (a.im * b.re);
}

#define AT_ONCE 4

/* a row of out(x, y) = sum_z a(x, z) b(z, y), or with conj(b); AT_ONCE columns y at a time */
INLINE void multiply_row(float *out, long step, const complex_vector *row, const complex_vector *b,
                         long inner, long columns, long count, const int conjugate)
{
    for (long y = 0; y < columns; y += AT_ONCE) {
        complex_vector sums[AT_ONCE] = {{{0}, {0}}};
        const complex_vector *right = b + y * inner;
        for (long z = 0; z < inner; z++, right += AT_ONCE)
            for (long q = 0; q < AT_ONCE; q++) add_product(sums + q, right[q], row[z], conjugate);
        for (long q = 0; q < smaller(AT_ONCE, columns - y); q++)
            store_modes(out + 2 * (y + q) * step, sums[q], count);
    }
}

/* bytes that a product works in */
long contract_size(long inner, long columns)
{
    return (columns + 2 * AT_ONCE) * inner * (long)sizeof(complex_vector);
}

/* rows first .. last of out = a b, or a conj(b), for every mode; steps are those from row to row
 * and column to column */
void contract(float *out, long out_row, long out_column, const float *a, long a_row, long a_column,
              const float *b, long b_row, long b_column, complex_vector *space, long inner,
              long columns, long modes, long conjugate, long first, long last)
{
    complex_vector *row = space, *packed = space + inner;
    for (long mode = 0; mode < modes; mode += LANES, out += 2 * LANES, a += 2 * LANES) {
        const long count = smaller(LANES, modes - mode);
        for (long y = 0; y < columns; y++)
            for (long z = 0; z < inner; z++)
                packed[(y / AT_ONCE * inner + z) * AT_ONCE + y % AT_ONCE] =
                    load_modes(b + 2 * (z * b_row + y * b_column + mode), count);
        for (long x = first; x < last; x++) {
            float *to = out + 2 * x * out_row;
            for (long z = 0; z < inner; z++)
                row[z] = load_modes(a + 2 * (x * a_row + z * a_column), count);
            if (conjugate) multiply_row(to, out_column, row, packed, inner, columns, count, 1);
            else multiply_row(to, out_column, row, packed, inner, columns, count, 0);
        }
    }
}
