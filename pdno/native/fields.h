/* Fourier transforms of fields: LANES fields at a time, one in each lane.
 *
 *     synthesis   out(x) = sum over the kept half spectrum, with the Hermitian rule
 *     transpose   of it, in the real inner products
 *
 * With `scaled`, coefficients are multiplied by 1/(w |N|), w the weights of the Hermitian rule, before
 * synthesis or after its transpose, which then is the transform F itself. Fields (F, N1, N2, N3) and
 * coefficients (F, K1, K2, K3) complex are dense; F is the batch of the layer, which has one input
 * and one output.
 */
typedef struct { cell *modes, *slab, *waves, *line; vector *rows[2]; } field_room;

static char *lay_out_fields(char *at, field_room *room, const layer *s)
{
    const long rows = s->outer.points * s->inner.points, points = FOURS(s->row.points);
    const long slab = s->dim == 3 ? s->outer.points * s->inner.modes : 0;
    cell *next = (cell *)at;
    room->modes = next, next += modes_of(s);
    room->slab = next, next += slab;
    room->waves = next, next += (rows + 1) * s->wave_row;
    room->line = next, next += longest_line(s);
    room->rows[0] = (vector *)next, room->rows[1] = room->rows[0] + points;
    return (char *)(next + points);
}

/* two neighbouring modes of up to LANES fields to cells, or back */
INLINE void move_modes(float *c, long stride, long fields, cell *first, cell *second,
                       const int back)
{
    for (int q = 0; q < LANES / 4; q++) {
        const long count = smaller(4, fields - 4 * q), numbers = second ? 4 : 2;
        four v[4] = {{0}, {0}, {0}, {0}};
        float *at = c + 4 * q * stride;
        if (back) {
            v[0] = quarter(first->re, q), v[1] = quarter(first->im, q);
            if (second) v[2] = quarter(second->re, q), v[3] = quarter(second->im, q);
            transpose(v);
            for (long n = 0; n < count; n++)
                memcpy(at + n * stride, v + n, numbers * sizeof(float));
        } else {
            for (long n = 0; n < count; n++)
                memcpy(v + n, at + n * stride, numbers * sizeof(float));
            transpose(v);
            ((four *)&first->re)[q] = v[0], ((four *)&first->im)[q] = v[1];
            if (second) ((four *)&second->re)[q] = v[2], ((four *)&second->im)[q] = v[3];
        }
    }
}

static void move_all_modes(float *c, long fields, cell *modes, const layer *s, const int back)
{
    const long stride = 2 * modes_of(s), step = s->inner.modes * s->outer.modes;
    for (long k1 = 0; k1 < s->outer.modes; k1++)
        for (long k2 = 0; k2 < s->inner.modes; k2++)
            for (long k3 = 0; k3 < s->row.modes; k3 += 2, c += 4) {
                cell *at = modes + place_in_tile(s, k1, k2, k3);
                const int both = k3 + 1 < s->row.modes;
                if (back) move_modes(c, stride, fields, at, both ? at + step : 0, 1);
                else move_modes(c, stride, fields, at, both ? at + step : 0, 0);
                if (!both) c -= 2;
            }
}

/* a row of up to LANES fields to vectors, or back */
static void move_points(float *field, long stride, long fields, vector *row, long points,
                        const int back)
{
    for (int q = 0; q < LANES / 4; q++) {
        const long count = smaller(4, fields - 4 * q);
        float *at = field + 4 * q * stride;
        for (long y = 0; y < points; y += 4, at += 4) {
            const long numbers = smaller(4, points - y);
            four v[4] = {{0}, {0}, {0}, {0}};
            if (back) {
                for (int p = 0; p < 4; p++) v[p] = ((const four *)(row + y + p))[q];
                transpose(v);
                for (long n = 0; n < count; n++)
                    if (numbers == 4) *(four *)(at + n * stride) = v[n];
                    else memcpy(at + n * stride, v + n, numbers * sizeof(float));
            } else {
                for (long n = 0; n < count; n++)
                    if (numbers == 4) v[n] = *(const four *)(at + n * stride);
                    else memcpy(v + n, at + n * stride, numbers * sizeof(float));
                transpose(v);
                for (int p = 0; p < 4; p++) ((four *)(row + y + p))[q] = v[p];
            }
        }
    }
}

/* the full axes, from modes to waves (rows, wave_row), or transposed */
static void synthesise_full_axes(const field_room *room, const layer *s)
{
    const long K1 = s->outer.modes, K2 = s->inner.modes, N1 = s->outer.points;
    const long N2 = s->inner.points, row = s->wave_row;
    for (long k = 0; k < s->row.modes; k++) {
        const cell *modes = room->modes + k * K2 * K1;
        if (s->dim == 1) room->waves[k] = *modes;
        if (s->dim == 2) synthesise_column(modes, room->waves + k, row, room->line, &s->inner);
        for (long k2 = 0; s->dim == 3 && k2 < K2; k2++)
            synthesise_column(modes + k2 * K1, room->slab + k2, K2, room->line, &s->outer);
        for (long x = 0; s->dim == 3 && x < N1; x++)
            synthesise_column(room->slab + x * K2, room->waves + x * N2 * row + k, row,
                              room->line, &s->inner);
        for (long r = 0; is_edge(s, k) && r < N1 * N2; r++)
            room->waves[r * row + k].im = (vector){0};
    }
}

static void analyse_full_axes(const field_room *room, const layer *s)
{
    const long K1 = s->outer.modes, K2 = s->inner.modes, N1 = s->outer.points;
    const long N2 = s->inner.points, row = s->wave_row;
    for (long k = 0; k < s->row.modes; k++) {
        cell *modes = room->modes + k * K2 * K1;
        if (s->dim == 1) *modes = room->waves[k];
        if (s->dim == 2) analyse_column(room->waves + k, row, modes, room->line, &s->inner);
        for (long x = 0; s->dim == 3 && x < N1; x++)
            analyse_column(room->waves + x * N2 * row + k, row, room->slab + x * K2, room->line,
                           &s->inner);
        for (long k2 = 0; s->dim == 3 && k2 < K2; k2++)
            analyse_column(room->slab + k2, K2, modes + k2 * K1, room->line, &s->outer);
    }
}

static void scale_modes(cell *modes, const layer *s)
{
    const long column = s->inner.modes * s->outer.modes;
    for (long k = 0; k < s->row.modes; k++) {
        const float scale = (is_edge(s, k) ? 1.0f : 0.5f) / (float)points_of(s);
        for (long m = 0; m < column; m++, modes++) modes->re *= scale, modes->im *= scale;
    }
}

INLINE void emit_two_rows(const void *to, long x, cell g)
{
    const field_room *room = to;
    room->rows[0][x] = g.re, room->rows[1][x] = g.im;
}

INLINE cell fetch_two_fields(const void *from, long x)
{
    const field_room *room = from;
    return (cell){room->rows[0][x], room->rows[1][x]};
}

static void synthesise_rows(const cell *u, const cell *v, const field_room *room, const layer *s)
{
    const long points = s->row.points;
    if (s->row.passes) {
        start_rows(u, v, room->line, s);
#define LAST(radix) last_pass(room->line, &s->row, radix, emit_two_rows, room)
        FOR_RADIX(s->row.radix[s->row.passes - 1], LAST)
#undef LAST
        return;
    }
    const folded g = unfold_rows(u, v, room->line, s);
    for (int r = 0; r < 2; r++)
        for (long x = 0; x <= points / 2; x++) {
            if (x > 0) room->rows[r][points - x] = g.even[r][x] + g.odd[r][x];
            room->rows[r][x] = g.even[r][x] - g.odd[r][x];
        }
}

static void analyse_rows(cell *u, cell *v, const field_room *room, const layer *s)
{
    const long points = s->row.points;
    if (s->row.passes) {
#define SPREAD(radix) spread_pass(room->line, &s->row, radix, fetch_two_fields, room)
        FOR_RADIX(s->row.radix[s->row.passes - 1], SPREAD)
#undef SPREAD
        end_rows(room->line, u, v, s);
        return;
    }
    const folded g = folded_in(room->line, s);
    for (int r = 0; r < 2; r++)
        for (long x = 0; x <= points / 2; x++) {
            const vector near = room->rows[r][x];
            const vector far =
                x > 0 && 2 * x < points ? room->rows[r][points - x] : (vector){0};
            g.even[r][x] = near + far, g.odd[r][x] = far - near;
        }
    fold_rows(g, u, v, s);
}

/* tiles of LANES fields, first .. last */
static void transform_fields(float *c, float *fields, char *space, const layer *s, long scaled,
                             long first, long last, const int transposed)
{
    const long rows = s->outer.points * s->inner.points, N3 = s->row.points, N = points_of(s);
    field_room room;
    lay_out_fields(space, &room, s);
    for (long tile = first; tile < last; tile++) {
        const long count = smaller(LANES, s->batch - tile * LANES);
        float *modes = c + tile * LANES * 2 * modes_of(s), *field = fields + tile * LANES * N;
        if (!transposed) {
            move_all_modes(modes, count, room.modes, s, 0);
            if (scaled) scale_modes(room.modes, s);
            synthesise_full_axes(&room, s);
            memset(room.waves + rows * s->wave_row, 0, s->wave_row * sizeof(cell));
        }
        for (long r = 0; r < rows; r += 2) {
            cell *u = room.waves + r * s->wave_row, *v = u + s->wave_row;
            if (!transposed) synthesise_rows(u, v, &room, s);
            for (long q = 0; q < 2; q++)
                if (r + q < rows) {
                    if (transposed) move_points(field + (r + q) * N3, N, count, room.rows[q], N3, 0);
                    else move_points(field + (r + q) * N3, N, count, room.rows[q], N3, 1);
                } else {
                    memset(room.rows[q], 0, N3 * sizeof(vector));
                }
            if (transposed) analyse_rows(u, v, &room, s);
        }
        if (transposed) {
            analyse_full_axes(&room, s);
            if (scaled) scale_modes(room.modes, s);
            move_all_modes(modes, count, room.modes, s, 1);
        }
    }
}
