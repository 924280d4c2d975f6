/* Matrix products (rows, columns) for every mode, in complex numbers, LANES modes at a time: these
 * are copied, to lie together in the cache, with real and imaginary parts taken apart in fours. */
INLINE complex_vector load_modes(const float *from, long count)
{
    vector v[2];
    if (count < LANES) {
        memset(v, 0, sizeof v);
        memcpy(v, from, 2 * count * sizeof(float));
    } else {
        v[0] = ((const vector *)from)[0], v[1] = ((const vector *)from)[1];
    }
    return (complex_vector){MIX(v[0], v[1], EVENS), MIX(v[0], v[1], ODDS)};
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
