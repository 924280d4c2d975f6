/* What the loops of lanes.c work on, and how it lies in memory.
 *
 * Layouts (blocks of 4 inputs and of SAMPLES samples, filled up with zeros):
 *     f, f'   (batch blocks, input blocks, K2, K1, re|im, LANES)
 *     c, c'   (input blocks, K2, K1, re|im, 4), for one output
 *     b       (input blocks, N1, N2, 4), for one output
 *     out'    (batch blocks, N1, N2, SAMPLES), for one output
 *     waves   (tiles, N1/2, wave_row, 2), complex: rows in pairs
 */
#include "lanes_fourier.h"

#include <string.h>

/* of the first three axes of a tensor; the last one is dense */
typedef struct { long first, second, row; } strides;

typedef struct {
    axis column, row;
    long outputs, batch, inputs, batch_blocks, input_blocks;
    long up, kept;       /* K1 = kept modes: 0 .. up, then negative ones */
    long modes;          /* K2 */
    long few_columns, few_rows;
    long wave_row;       /* >= K2; odd, so that columns do not meet in the cache */
    long together;       /* tiles that are added up at once */
    long turn;           /* outputs that a tile is used for before the next one */
    strides out;         /* of out or out': (batch, outputs, N1, N2) */
    strides b, b_bar;    /* (outputs, inputs, N1, N2) */
    strides c, c_bar;    /* (outputs, inputs, K1, K2), in complex numbers */
} layer;

static long fewer(long a, long b) { return a < b ? a : b; }

/* (lines, points) -> (points, width), lines beyond `lines` zero */
static void interleave(const float *from, long stride, long lines, float *to, long points,
                       const int width)
{
    if (width == 4 && lines == 4) {
        for (long x = 0; x < points; x += 4) {
            four v[4];
            for (int n = 0; n < 4; n++) v[n] = *(const four *)(from + n * stride + x);
            transpose(v);
            for (int n = 0; n < 4; n++) *(four *)(to + 4 * (x + n)) = v[n];
        }
        return;
    }
    for (long x = 0; x < points; x++)
        for (long n = 0; n < width; n++) to[x * width + n] = n < lines ? from[n * stride + x] : 0;
}

static void pack_factors(const float *b, float *to, const layer *s, long j)
{
    const long N1 = s->column.points, N2 = s->row.points;
    for (long i = 0; i < s->input_blocks; i++)
        for (long x = 0; x < N1; x++)
            interleave(b + j * s->b.first + 4 * i * s->b.second + x * s->b.row, s->b.second,
                       fewer(4, s->inputs - 4 * i), to + (i * N1 + x) * 4 * N2, N2, 4);
}

static void pack_gradient(const float *grad, float *to, const layer *s, long j)
{
    const long N1 = s->column.points, N2 = s->row.points;
    for (long n = 0; n < s->batch_blocks; n++)
        for (long x = 0; x < N1; x++)
            interleave(grad + n * SAMPLES * s->out.first + j * s->out.second + x * s->out.row,
                       s->out.first, fewer(SAMPLES, s->batch - SAMPLES * n),
                       to + (n * N1 + x) * SAMPLES * N2, N2, SAMPLES);
}

typedef struct { long input, row; } pair_strides; /* of (inputs, K1, K2), in complex numbers */

/* up to 4 inputs (inputs, K1, K2) complex to lanes (K2, K1, step), re at 0 and im at `middle`;
 * or back */
INLINE void pack_modes(float *dense, pair_strides at, long inputs, float *lanes, const layer *s,
                       const int step, const int middle, const int back)
{
    for (long m = 0; m < s->kept; m++)
        for (long k = 0; k < s->modes; k += 2) {
            const long both = k + 1 < s->modes, numbers = both ? 4 : 2;
            four v[4] = {{0}, {0}, {0}, {0}};
            four *here = (four *)(lanes + (k * s->kept + m) * step);
            four *next = (four *)(lanes + ((k + 1) * s->kept + m) * step);
            float *line = dense + 2 * (m * at.row + k);
            if (back) {
                v[0] = here[0], v[1] = here[middle / 4];
                if (both) v[2] = next[0], v[3] = next[middle / 4];
                transpose(v);
                for (long i = 0; i < inputs; i++)
                    memcpy(line + 2 * i * at.input, &v[i], numbers * sizeof(float));
            } else {
                for (long i = 0; i < inputs; i++)
                    memcpy(&v[i], line + 2 * i * at.input, numbers * sizeof(float));
                transpose(v);
                here[0] = v[0], here[middle / 4] = v[1];
                if (both) next[0] = v[2], next[middle / 4] = v[3];
            }
        }
}

static void pack_symbol(const float *c, float *to, const layer *s, long j)
{
    for (long i = 0; i < s->input_blocks; i++)
        pack_modes((float *)c + 2 * (j * s->c.first + 4 * i * s->c.second),
                   (pair_strides){s->c.second, s->c.row}, fewer(4, s->inputs - 4 * i),
                   to + i * s->kept * s->modes * 8, s, 8, 4, 0);
}

static void unpack_symbol(float *c, float *from, const layer *s, long j)
{
    for (long i = 0; i < s->input_blocks; i++)
        pack_modes(c + 2 * (j * s->c_bar.first + 4 * i * s->c_bar.second),
                   (pair_strides){s->c_bar.second, s->c_bar.row}, fewer(4, s->inputs - 4 * i),
                   from + i * s->kept * s->modes * 8, s, 8, 4, 1);
}

/* f (batch, inputs, K1, K2) complex, dense, to tiles or back */
void lanes_pack(float *f, float *tiles, const layer *s, long back)
{
    const long modes = s->kept * s->modes;
    const pair_strides dense = {modes, s->modes};
    for (long n = 0; n < s->batch_blocks * SAMPLES; n++)
        for (long i = 0; i < s->input_blocks; i++) {
            const long inputs = n < s->batch ? fewer(4, s->inputs - 4 * i) : 0;
            float *lines = f + 2 * (n * s->inputs + 4 * i) * modes;
            float *tile = tiles + (n / SAMPLES * s->input_blocks + i) * modes * 2 * LANES;
            tile += n % SAMPLES * 4;
            if (back) pack_modes(lines, dense, inputs, tile, s, 2 * LANES, LANES, 1);
            else pack_modes(lines, dense, inputs, tile, s, 2 * LANES, LANES, 0);
        }
}
