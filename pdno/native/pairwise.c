/* The pairwise operator (pdno/operators/backends/native.py): a (sample, input) in each vector lane.
 *
 *     forward:   out_bj  = sum_i b_ji g_bji,      g_bji = F^-1[c_ji f_bi]
 *     backward:  b'_ji   = sum_b out'_bj g_bji,   p_bji = (F^-1)^T[b_ji out'_bj],
 *                c'_ji   = sum_b conj(f_bi) p_bji,   f'_bi = sum_j conj(c_ji) p_bji
 *
 * A lane does the arithmetic of one pair, so a Fourier transform is written as for single numbers
 * and needs no shuffles. The full axes (complex) are transformed into `waves`, then the rows (the
 * half axis, real) two at a time: in fast transforms u + i v is one complex line for the real
 * lines u and v. A row is multiplied by b and added up while it is in the first cache.
 *
 * Threads share nothing that is added to: forward tasks have outputs of their own, backward tasks
 * a block of inputs and a range of outputs, with one f' for each range; the caller adds these up in
 * the order of the ranges. So the bits do not depend on the threads.
 */
#include "layer.h"

#if defined(EIGHT_LANES) /* eight_lanes.c */
#define EXPORT(name) name##_8
#else
#define EXPORT(name) name
#include "contraction.h"
#include "projection.h"
#endif

#define SAMPLES 1
#include "tiles.h"
#define SAMPLES (LANES / 4)
#include "tiles.h"
#include "fields.h"
#define SAMPLES 1
#include "nodes.h"
#define SAMPLES (LANES / 4)
#include "nodes.h"

/* bytes of room for a task, with tiles of some samples */
long EXPORT(pairwise_room)(const layer *s, long samples, long is_backward)
{
    if (samples == 1) {
        room_narrow room;
        return (long)lay_out_narrow(0, &room, s, is_backward ? 1 : input_blocks_narrow(s));
    }
    room_wide room;
    return (long)lay_out_wide(0, &room, s, is_backward ? 1 : input_blocks_wide(s));
}

void EXPORT(pairwise_pack)(float *f, float *tiles, const layer *s, long samples, long back)
{
    if (samples == 1) pack_tiles_narrow(f, tiles, s, back);
    else pack_tiles_wide(f, tiles, s, back);
}

void EXPORT(pairwise_pack_gradient)(const float *grad, float *packed, const layer *s, long samples)
{
    if (samples > 1) pack_gradient_wide(grad, packed, s);
}

void EXPORT(pairwise_forward)(const float *f, const float *c, const float *b, float *out, char *room,
                      const layer *s, long samples, long first, long last)
{
    if (samples == 1) {
        const tensors_narrow a = {.f = f, .c = c, .b = b, .out = out};
        forward_narrow(&a, room, s, first, last);
    } else {
        const tensors_wide a = {.f = f, .c = c, .b = b, .out = out};
        forward_wide(&a, room, s, first, last);
    }
}

void EXPORT(pairwise_backward)(const float *f, const float *c, const float *b, const float *grad,
                       float *f_bar, float *c_bar, float *b_bar, char *room, const layer *s,
                       long samples, long block, long first, long last)
{
    if (samples == 1) {
        const tensors_narrow a = {f, c, b, grad, 0, f_bar, c_bar, b_bar};
        backward_narrow(&a, room, (cell *)f_bar, s, block, first, last);
    } else {
        const tensors_wide a = {f, c, b, grad, 0, f_bar, c_bar, b_bar};
        backward_wide(&a, room, (cell *)f_bar, s, block, first, last);
    }
}

/* ---- with nodes: nodes.h ---- */

long EXPORT(nodes_room)(const layer *s, long samples, long is_backward)
{
    if (samples == 1) {
        node_room_narrow room;
        return (long)node_lay_out_narrow(0, &room, s, is_backward);
    }
    node_room_wide room;
    return (long)node_lay_out_wide(0, &room, s, is_backward);
}

void EXPORT(nodes_pack)(const float *f, float *packed, const layer *s, long samples)
{
    if (samples == 1) node_pack_samples_narrow(f, packed, s);
    else node_pack_samples_wide(f, packed, s);
}

/* floats of a term of f' */
long EXPORT(nodes_term)(const layer *s, long samples)
{
    if (samples == 1) return node_batch_blocks_narrow(s) * node_gradient_size_narrow(s);
    return node_batch_blocks_wide(s) * node_gradient_size_wide(s);
}

void EXPORT(nodes_unpack)(float *f, const float *terms, const layer *s, long samples, long count)
{
    if (samples == 1) node_unpack_samples_narrow(f, terms, count, s);
    else node_unpack_samples_wide(f, terms, count, s);
}

void EXPORT(nodes_forward)(const float *f, const float *c, const float *a, const float *basis, float *out,
                   char *room, const layer *s, long samples, long block)
{
    if (samples == 1) node_forward_narrow(f, c, a, basis, out, room, s, block);
    else node_forward_wide(f, c, a, basis, out, room, s, block);
}

void EXPORT(nodes_backward)(const float *f, const float *c, const float *a, const float *basis,
                    const float *grad, float *f_bar, float *c_bar, float *a_bar, char *room,
                    const layer *s, long samples, long block)
{
    if (samples == 1)
        node_backward_narrow(f, c, a, basis, grad, f_bar, c_bar, a_bar, room, s, block);
    else node_backward_wide(f, c, a, basis, grad, f_bar, c_bar, a_bar, room, s, block);
}

/* ---- fields: fields.h ---- */

long EXPORT(fields_room)(const layer *s)
{
    field_room room;
    return (long)lay_out_fields(0, &room, s);
}

void EXPORT(fields_synthesise)(const float *c, float *fields, char *room, const layer *s, long scaled,
                       long first, long last)
{
    transform_fields((float *)c, fields, room, s, scaled, first, last, 0);
}

void EXPORT(fields_transpose)(const float *fields, float *c, char *room, const layer *s, long scaled,
                      long first, long last)
{
    transform_fields(c, (float *)fields, room, s, scaled, first, last, 1);
}

long EXPORT(lanes)(void) { return LANES; }
