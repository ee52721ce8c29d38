/* The argument {"tensor_map": {…}}: what cuTensorMapEncodeTiled takes, under the names that cuda.h gives its
 * parameters, with `buffer` (and `offset`) for globalAddress.
 *
 *   {"buffer": NAME, "offset": N, "tensorDataType": T, "tensorRank": R,
 *    "globalDim": [R], "globalStrides": [R - 1], "boxDim": [R], "elementStrides": [R],
 *    "interleave": I, "swizzle": S, "l2Promotion": P, "oobFill": F}
 *
 * T, I, S, P and F are numbers of cuda.h's enumerations or their names; I, S, P and F may be left out (…_NONE), as may
 * elementStrides (ones). Dimension 0 is the contiguous one. Strides are bytes between neighbours along dimension 1, 2,
 * …, and the whole tensor lies inside the buffer.
 *
 * Each field is held to its own range here. What fields demand of each other (alignment, swizzle and box) is checked by
 * ptx/tensormap.c, when the program is made (device/prog.c).
 */
#include <string.h>

#include "graph-priv.h"

static const char *const types[] = {"UINT8",         "UINT16",   "UINT32",       "INT32",        "UINT64",
                                    "INT64",         "FLOAT16",  "FLOAT32",      "FLOAT64",      "BFLOAT16",
                                    "FLOAT32_FTZ",   "TFLOAT32", "TFLOAT32_FTZ", "16U4_ALIGN8B", "16U4_ALIGN16B",
                                    "16U6_ALIGN16B", NULL};
static const char *const interleaves[] = {"NONE", "16B", "32B", NULL};
static const char *const swizzles[] = {"NONE",          "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B",
                                       "128B_ATOM_64B", NULL};
static const char *const promotions[] = {"NONE", "L2_64B", "L2_128B", "L2_256B", NULL};
static const char *const fills[] = {"NONE", "NAN_REQUEST_ZERO_FMA", NULL};

static const struct choice {
    const char *key, *prefix;
    const char *const *name;
    bool needed;
} choices[] = {{"tensorDataType", "CU_TENSOR_MAP_DATA_TYPE_", types, true},
               {"interleave", "CU_TENSOR_MAP_INTERLEAVE_", interleaves, false},
               {"swizzle", "CU_TENSOR_MAP_SWIZZLE_", swizzles, false},
               {"l2Promotion", "CU_TENSOR_MAP_L2_PROMOTION_", promotions, false},
               {"oobFill", "CU_TENSOR_MAP_FLOAT_OOB_FILL_", fills, false}};

static uint8_t *field(struct dt_tensor_map *m, size_t i)
{
    uint8_t *const at[] = {&m->type, &m->interleave, &m->swizzle, &m->l2, &m->fill};
    return at[i];
}

static int choose(struct g_parser *p, json_t *obj, const struct g_at *at, const struct choice *c, uint8_t *ret)
{
    json_t *v = json_object_get(obj, c->key);
    const struct g_at *here = G_KEY(at, c->key);
    uint64_t n, count = 0;
    const char *s;
    while (c->name[count])
        count++;
    if (!v)
        return c->needed ? g_need(p, obj, at, c->key, &v) : 0;
    if (!json_is_string(v)) {
        int r = g_number(p, v, here, 0, count - 1, DT_E_GRAPH, &n);
        if (r == 0)
            *ret = (uint8_t)n;
        return r;
    }
    int r = g_string(p, v, here, &s);
    for (uint64_t i = 0; i < count && !r; i++)
        if (!strncmp(s, c->prefix, strlen(c->prefix)) && !strcmp(s + strlen(c->prefix), c->name[i])) {
            *ret = (uint8_t)i;
            return 0;
        }
    return r < 0 ? r : g_bad(p, DT_E_GRAPH, here, "'%.80s' is none of cuda.h's %s…", s, c->prefix);
}

/* `n` whole numbers from lo to hi. */
static int numbers(struct g_parser *p, json_t *obj, const struct g_at *at, const char *key, size_t n, uint64_t lo,
                   uint64_t hi, uint64_t *ret)
{
    json_t *v;
    const struct g_at *here = G_KEY(at, key);
    int r = g_need(p, obj, at, key, &v);
    if (r < 0)
        return r;
    if (!json_is_array(v) || json_array_size(v) != n)
        return g_bad(p, DT_E_GRAPH, here, "expected an array of %zu numbers", n);
    for (size_t i = 0; i < n && !r; i++)
        r = g_number(p, json_array_get(v, i), G_INDEX(here, i), lo, hi, DT_E_GRAPH, &ret[i]);
    return r;
}

/* Bytes of dimension 0. */
static uint64_t tensormap_row_bytes(const struct dt_tensor_map *m)
{
    static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 8, 8, 12};
    return m->type < DT_TENSOR_PACKED ? m->dim[0] * bytes[m->type] : (m->dim[0] + 15) / 16 * bytes[m->type];
}

static int inside(struct g_parser *p, const struct g_at *at, const struct dt_tensor_map *m, uint64_t offset,
                  const struct dt_buffer *b)
{
    uint64_t left = b->bytes - offset, row = tensormap_row_bytes(m);
    bool ok = row <= left;
    left -= ok ? row : left;
    for (unsigned i = 1; i < m->rank && ok; i++) {
        ok = !m->stride[i] || m->dim[i] - 1 <= left / m->stride[i];
        left -= ok ? (m->dim[i] - 1) * m->stride[i] : 0;
    }
    return ok ? 0
              : g_bad(p, DT_E_GRAPH, G_KEY(at, "globalDim"),
                      "the tensor leaves buffer '%s', which has %llu bytes from offset %llu on", b->name,
                      (unsigned long long)(b->bytes - offset), (unsigned long long)offset);
}

int g_parse_tensor_map(struct g_parser *p, json_t *v, const struct g_at *at, struct dt_arg *a)
{
    json_t *b, *rank;
    uint64_t n, num[5];
    struct dt_tensor_map *m = dt_new(&p->g->arena, struct dt_tensor_map);
    int r = m ? g_object(p, v, at) : g_nomem(p);
    if (r < 0 || (r = g_need(p, v, at, "buffer", &b)) < 0 ||
        (r = g_buffer_ref(p, b, G_KEY(at, "buffer"), &a->buffer)) < 0 ||
        (r = g_offset(p, v, at, a->buffer, &a->offset)) < 0 || (r = g_need(p, v, at, "tensorRank", &rank)) < 0 ||
        (r = g_number(p, rank, G_KEY(at, "tensorRank"), 1, 5, DT_E_GRAPH, &n)) < 0)
        return r;
    m->rank = (uint8_t)n;
    for (size_t i = 0; i < sizeof choices / sizeof *choices && !r; i++)
        r = choose(p, v, at, &choices[i], field(m, i));
    for (unsigned i = 0; i < 5; i++)
        m->dim[i] = m->box[i] = m->step[i] = 1;
    if (!r)
        r = numbers(p, v, at, "globalDim", n, 1, UINT64_C(1) << 32, m->dim);
    if (!r && (n > 1 || json_object_get(v, "globalStrides")))
        r = numbers(p, v, at, "globalStrides", n - 1, 0, (UINT64_C(1) << 40) - 1, m->stride + 1);
    if (!r)
        r = numbers(p, v, at, "boxDim", n, 1, 256, num);
    for (unsigned i = 0; i < n && !r; i++)
        m->box[i] = (uint16_t)num[i];
    bool steps = json_object_get(v, "elementStrides") != NULL;
    if (!r && steps)
        r = numbers(p, v, at, "elementStrides", n, 1, 8, num);
    for (unsigned i = 0; i < n && !r && steps; i++)
        m->step[i] = (uint8_t)num[i];
    if (!r)
        r = inside(p, at, m, a->offset, &p->g->buffer[a->buffer]);
    a->kind = DT_ARG_TENSOR_MAP;
    a->map = m;
    return r;
}

static void tensormap_put(json_t *o, const char *key, json_t *v, bool *failed)
{
    *failed |= json_object_set_new(o, key, v) < 0;
}

static json_t *tensormap_list(const uint64_t *v, unsigned n)
{
    json_t *a = json_array();
    for (unsigned i = 0; a && i < n; i++)
        if (json_array_append_new(a, json_integer((json_int_t)v[i])) < 0) {
            json_decref(a);
            return NULL;
        }
    return a;
}

json_t *g_print_tensor_map(const struct dt_graph *g, const struct dt_arg *a)
{
    struct dt_tensor_map m = *a->map;
    json_t *o = json_object();
    bool failed = !o;
    uint64_t box[5], step[5];
    char text[80];
    for (unsigned i = 0; i < 5; i++)
        box[i] = m.box[i], step[i] = m.step[i];
    tensormap_put(o, "buffer", json_string_nocheck(g->buffer[a->buffer].name), &failed);
    tensormap_put(o, "offset", json_integer((json_int_t)a->offset), &failed);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        snprintf(text, sizeof text, "%s%s", choices[i].prefix, choices[i].name[*field(&m, i)]);
        if (i == 1) { /* in the order of cuTensorMapEncodeTiled */
            tensormap_put(o, "tensorRank", json_integer(m.rank), &failed);
            tensormap_put(o, "globalDim", tensormap_list(m.dim, m.rank), &failed);
            tensormap_put(o, "globalStrides", tensormap_list(m.stride + 1, m.rank - 1u), &failed);
            tensormap_put(o, "boxDim", tensormap_list(box, m.rank), &failed);
            tensormap_put(o, "elementStrides", tensormap_list(step, m.rank), &failed);
        }
        tensormap_put(o, choices[i].key, json_string(text), &failed);
    }
    if (!failed)
        return o;
    json_decref(o);
    return NULL;
}

void dt_tensor_map_text(const struct dt_tensor_map *m, struct dt_str *out)
{
    dt_str_addf(out, "type %u rank %u", m->type, m->rank);
    for (unsigned i = 0; i < m->rank; i++)
        dt_str_addf(out, " %llu*%llu box %u step %u", (unsigned long long)m->dim[i], (unsigned long long)m->stride[i],
                    m->box[i], m->step[i]);
    dt_str_addf(out, " interleave %u swizzle %u l2 %u fill %u", m->interleave, m->swizzle, m->l2, m->fill);
}
