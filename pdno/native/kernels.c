/* The operators in compiled loops; see pdno/operators/native.py, which calls them.
 *
 * Each lane of a vector does the arithmetic of one sample and output, so a Fourier transform is
 * written as for single numbers. The full axes (complex) are transformed into waves, then the rows
 * (the half axis, real) two at a time. Inlined functions take `samples`, of a vector, as a constant:
 * 1, LANES / 4, or LANES for fields.
 *
 * Each task has a block of outputs, and a backward task a term of f', which the caller adds up in
 * the order of the blocks: so the bits do not depend on the threads.
 */
#include "layer.h"

#if defined(EIGHT_LANES) /* eight_lanes.c */
#define EXPORT(name) name##_8
#else
#define EXPORT(name) name
#include "contraction.h"
#include "projection.h"
#include "spline.h"

long axis_size(void) { return sizeof(axis); }
long layer_size(void) { return sizeof(layer); }

/* an axis; tables are twiddles, order, place and radix, or cosines, sines and their transposes */
void make_axis(axis *t, long points, long modes, long up, long passes, const void *first,
               const void *second, const void *third, const void *fourth)
{
    *t = (axis){.points = points, .modes = modes, .up = up, .passes = passes};
    if (passes) t->twiddles = first, t->order = second, t->place = third, t->radix = fourth;
    else t->cosines = first, t->sines = second, t->cosines_back = third, t->sines_back = fourth;
}

void make_layer(layer *s, const axis *outer, const axis *inner, const axis *row, long dim,
                long outputs, long batch, long inputs, long nodes, long samples)
{
    *s = (layer){*outer, *inner, *row, dim, outputs, batch, inputs, nodes, samples,
                 FOURS(row->modes) + 1};
}
#endif

#include "columns.h"
#include "fields.h"
#include "pairs.h"
#include "nodes.h"

/* call a function with the samples of a layer as its last argument, a constant */
#define FOR_SAMPLES(s, function, ...)                                                            \
    ((s)->samples == 1 ? function(__VA_ARGS__, 1) : function(__VA_ARGS__, LANES / 4))

long EXPORT(lanes)(void) { return LANES; }

/* bytes that a task works in */
long EXPORT(workspace_size)(const layer *s, long backward)
{
    workspace w;
    return (long)(s->nodes ? FOR_SAMPLES(s, lay_out_nodes, 0, &w, s, backward)
                           : FOR_SAMPLES(s, lay_out_pairs, 0, &w, s, backward));
}

/* floats of f packed and of a term of f' */
long EXPORT(packed_size)(const layer *s, long is_term)
{
    const long size = s->samples * s->inputs * modes_of(s) * 2;
    return blocks_of(s->batch, s->samples) * (is_term ? gradient_size(s, s->samples) : size);
}

void EXPORT(pack)(const float *f, float *packed, const layer *s)
{
    FOR_SAMPLES(s, pack_samples, f, packed, s);
}

void EXPORT(unpack)(float *f_bar, const float *terms, const layer *s, long count)
{
    FOR_SAMPLES(s, unpack_samples, f_bar, terms, count, s);
}

/* one block of outputs, the batch blocks first .. last */
void EXPORT(forward)(const float *f, const float *c, const float *b, const float *basis,
                     float *out, char *space, const layer *s, long block, long first, long last)
{
    const tensors a = {f, c, b, basis, 0, out, out, out, out};
    if (s->nodes) FOR_SAMPLES(s, nodes_forward, &a, space, s, block, first, last);
    else FOR_SAMPLES(s, pairs_forward, &a, space, s, block, first, last);
}

/* one block of outputs; f' is added to a term */
void EXPORT(backward)(const float *f, const float *c, const float *b, const float *basis,
                      const float *grad, float *f_bar, float *c_bar, float *b_bar, char *space,
                      const layer *s, long block)
{
    const tensors a = {f, c, b, basis, grad, 0, f_bar, c_bar, b_bar};
    if (s->nodes) FOR_SAMPLES(s, nodes_backward, &a, space, s, block);
    else FOR_SAMPLES(s, pairs_backward, &a, space, s, block);
}

long EXPORT(fields_size)(const layer *s)
{
    workspace w;
    return (long)lay_out_fields(0, &w, s);
}

/* tiles of LANES fields, first .. last: synthesis, or back */
void EXPORT(transform_fields)(float *c, float *fields, char *space, const layer *s, long scaled,
                              long first, long last, long back)
{
    if (back) transform_tiles(c, fields, space, s, scaled, first, last, 1);
    else transform_tiles(c, fields, space, s, scaled, first, last, 0);
}
