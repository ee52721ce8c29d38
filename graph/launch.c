/* The steps of a graph: kernel launches, memsets, copies; and what a plan's launches carry besides.
 *
 * A step has exactly one of `module`, `memset`, `copy`. Geometry is held to what every CUDA device allows (more is
 * DT_E_LAUNCH); the limits of one device are checked by device/. Ranges lie inside their buffers, a copy does not
 * overlap itself, and no step writes a weight or a constant (DT_E_WEIGHT; kernels are checked when they run). Names are
 * unique; a step without a name is called "launchN", where N is its place. `after` names earlier steps only, so the
 * order in the document is always an order in which the steps can run.
 */
#include <string.h>

#include "graph-priv.h"

static int launch_name(struct g_parser *p, json_t *v, const struct g_at *at, uint32_t index, const char **ret)
{
    char *s;
    if (!v) {
        if (!(s = dt_arena_printf(&p->g->arena, "launch%u", index)))
            return g_nomem(p);
        *ret = s;
        return 0;
    }
    const char *text;
    int r = g_string(p, v, at, &text);
    if (r < 0)
        return r;
    size_t n = strlen(text);
    if (!n || n > 64 * DT_MAX_NAME) /* fused launches have long names */
        return g_bad(p, DT_E_GRAPH, at, "a launch's name has 1 to %d bytes", 64 * DT_MAX_NAME);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return g_bad(p, DT_E_GRAPH, at, "a name may not contain control characters");
    if (!(s = dt_arena_strndup(&p->g->arena, text, n)))
        return g_nomem(p);
    *ret = s;
    return 0;
}

/* [x, y, z], each from 1 to max[…]. */
static int launch_triple(struct g_parser *p, json_t *v, const struct g_at *at, const uint32_t max[3], uint32_t ret[3])
{
    if (!json_is_array(v) || json_array_size(v) != 3)
        return g_bad(p, DT_E_GRAPH, at, "expected an array of three whole numbers");
    for (size_t i = 0; i < 3; i++) {
        uint64_t n;
        int r = g_number(p, json_array_get(v, i), G_INDEX(at, i), 1, max[i], DT_E_LAUNCH, &n);
        if (r < 0)
            return r;
        ret[i] = (uint32_t)n;
    }
    return 0;
}

static int launch_kernel(struct g_parser *p, json_t *o, const struct g_at *at, struct dt_launch *l)
{
    static const uint32_t max_grid[3] = {INT32_MAX, 65535, 65535}, max_block[3] = {1024, 1024, 64},
                          max_cluster[3] = {16, 16, 16};
    const char *module, *entry;
    json_t *v, *args;
    bool coop = false;
    uint64_t n;
    int r;
    l->kind = DT_KERNEL;
    if ((v = json_object_get(o, "cooperative")) && (r = g_bool(p, v, G_KEY(at, "cooperative"), &coop)) < 0)
        return r;
    if (coop)
        return g_bad(p, DT_E_UNSUPPORTED, G_KEY(at, "cooperative"),
                     "cooperative launches are refused: blocks that wait for each "
                     "other across the grid cannot be moved");
    if ((r = g_need(p, o, at, "module", &v)) < 0 || (r = g_string(p, v, G_KEY(at, "module"), &module)) < 0)
        return r;
    l->module = dt_names_get(&p->modules, module, strlen(module));
    if (l->module == DT_NAME_NONE) {
        char hint[G_HINT];
        struct dt_nearest like = dt_nearest_of(module, strlen(module));
        for (uint32_t m = 0; m < p->g->nmodule; m++)
            dt_nearest_try(&like, p->g->module[m].name, strlen(p->g->module[m].name));
        return g_bad(p, DT_E_GRAPH, G_KEY(at, "module"), "there is no module '%s'%s", module, g_hint(hint, &like));
    }
    if ((r = g_need(p, o, at, "entry", &v)) < 0 || (r = g_string(p, v, G_KEY(at, "entry"), &entry)) < 0)
        return r;
    if (!*entry || strlen(entry) > 4 * DT_MAX_NAME)
        return g_bad(p, DT_E_GRAPH, G_KEY(at, "entry"), "an entry's name has 1 to %d bytes", 4 * DT_MAX_NAME);
    if (!(l->entry = dt_arena_strdup(&p->g->arena, entry)))
        return g_nomem(p);
    if ((r = g_need(p, o, at, "grid", &v)) < 0 || (r = launch_triple(p, v, G_KEY(at, "grid"), max_grid, l->grid)) < 0 ||
        (r = g_need(p, o, at, "block", &v)) < 0 ||
        (r = launch_triple(p, v, G_KEY(at, "block"), max_block, l->block)) < 0)
        return r;
    if (l->block[0] * l->block[1] * l->block[2] > 1024)
        return g_bad(p, DT_E_LAUNCH, G_KEY(at, "block"), "%u threads; a block has at most 1024",
                     l->block[0] * l->block[1] * l->block[2]);
    if ((v = json_object_get(o, "cluster"))) {
        if ((r = launch_triple(p, v, G_KEY(at, "cluster"), max_cluster, l->cluster)) < 0)
            return r;
        if (l->cluster[0] * l->cluster[1] * l->cluster[2] > 16)
            return g_bad(p, DT_E_LAUNCH, G_KEY(at, "cluster"), "a cluster has at most 16 blocks");
        for (size_t i = 0; i < 3; i++)
            if (l->grid[i] % l->cluster[i])
                return g_bad(p, DT_E_LAUNCH, G_INDEX(G_KEY(at, "cluster"), i), "%u does not divide the grid's %u",
                             l->cluster[i], l->grid[i]);
    }
    if ((v = json_object_get(o, "shared"))) {
        if ((r = g_number(p, v, G_KEY(at, "shared"), 0, 1u << 20, DT_E_LAUNCH, &n)) < 0)
            return r;
        l->shared = (uint32_t)n;
    }
    if ((r = g_need(p, o, at, "args", &args)) < 0)
        return r;
    return g_parse_args(p, args, G_KEY(at, "args"), l);
}

/* {"buffer": NAME, "offset": N} with `bytes` bytes from there inside the buffer. */
static int range(struct g_parser *p, json_t *o, const struct g_at *at, const struct g_at *bytes_at, uint64_t bytes,
                 uint32_t *ret_buffer, uint64_t *ret_offset)
{
    json_t *v;
    uint32_t b;
    uint64_t off = 0;
    int r;
    if ((r = g_object(p, o, at)) < 0 || (r = g_need(p, o, at, "buffer", &v)) < 0 ||
        (r = g_buffer_ref(p, v, G_KEY(at, "buffer"), &b)) < 0)
        return r;
    if ((v = json_object_get(o, "offset")) &&
        (r = g_number(p, v, G_KEY(at, "offset"), 0, UINT64_MAX, DT_E_GRAPH, &off)) < 0)
        return r;
    const struct dt_buffer *buf = &p->g->buffer[b];
    if (off >= buf->bytes)
        return g_bad(p, DT_E_GRAPH, G_KEY(at, "offset"), "offset %llu is outside buffer '%s', which has %llu bytes",
                     (unsigned long long)off, buf->name, (unsigned long long)buf->bytes);
    if (bytes > buf->bytes - off)
        return g_bad(p, DT_E_GRAPH, bytes_at,
                     "%llu bytes from offset %llu run past the end of buffer '%s', which has %llu bytes",
                     (unsigned long long)bytes, (unsigned long long)off, buf->name, (unsigned long long)buf->bytes);
    *ret_buffer = b;
    *ret_offset = off;
    return 0;
}

static int may_write(struct g_parser *p, uint32_t b, const struct g_at *at)
{
    const struct dt_buffer *buf = &p->g->buffer[b];
    if (buf->role != DT_WEIGHT && !buf->constant)
        return 0;
    return g_bad(p, DT_E_WEIGHT, at, "this step writes '%s', which is %s", buf->name,
                 buf->constant ? "constant" : "a weight");
}

static int step_bytes(struct g_parser *p, json_t *o, const struct g_at *at, uint64_t *ret)
{
    json_t *v;
    int r = g_need(p, o, at, "bytes", &v);
    return r < 0 ? r : g_number(p, v, G_KEY(at, "bytes"), 1, UINT64_MAX, DT_E_GRAPH, ret);
}

static int memset_step(struct g_parser *p, json_t *o, const struct g_at *at, struct dt_launch *l)
{
    json_t *v;
    uint64_t n;
    int r;
    l->kind = DT_MEMSET;
    if ((r = g_object(p, o, at)) < 0 || (r = step_bytes(p, o, at, &l->bytes)) < 0 ||
        (r = range(p, o, at, G_KEY(at, "bytes"), l->bytes, &l->dst, &l->dst_offset)) < 0 ||
        (r = may_write(p, l->dst, G_KEY(at, "buffer"))) < 0 || (r = g_need(p, o, at, "value", &v)) < 0 ||
        (r = g_number(p, v, G_KEY(at, "value"), 0, 255, DT_E_GRAPH, &n)) < 0)
        return r;
    l->value = (uint8_t)n;
    return 0;
}

static int copy_step(struct g_parser *p, json_t *o, const struct g_at *at, struct dt_launch *l)
{
    json_t *from, *to;
    int r;
    l->kind = DT_COPY;
    if ((r = g_object(p, o, at)) < 0 || (r = step_bytes(p, o, at, &l->bytes)) < 0 ||
        (r = g_need(p, o, at, "from", &from)) < 0 ||
        (r = range(p, from, G_KEY(at, "from"), G_KEY(at, "bytes"), l->bytes, &l->src, &l->src_offset)) < 0 ||
        (r = g_need(p, o, at, "to", &to)) < 0 ||
        (r = range(p, to, G_KEY(at, "to"), G_KEY(at, "bytes"), l->bytes, &l->dst, &l->dst_offset)) < 0 ||
        (r = may_write(p, l->dst, G_KEY(G_KEY(at, "to"), "buffer"))) < 0)
        return r;
    if (l->src == l->dst && l->src_offset < l->dst_offset + l->bytes && l->dst_offset < l->src_offset + l->bytes)
        return g_bad(p, DT_E_GRAPH, at, "the copy's source and destination overlap");
    return 0;
}

/* Where it stands among the streams. */
static int placing(struct g_parser *p, json_t *o, const struct g_at *at, struct dt_launch *l)
{
    json_t *v = json_object_get(o, "stream");
    uint64_t n;
    int r;
    if (v) {
        if ((r = g_number(p, v, G_KEY(at, "stream"), 0, DT_STREAMS - 1, DT_E_GRAPH, &n)) < 0)
            return r;
        l->stream = (uint32_t)n;
    }
    if ((v = json_object_get(o, "programmatic")) && (r = g_bool(p, v, G_KEY(at, "programmatic"), &l->programmatic)) < 0)
        return r;
    if (!(v = json_object_get(o, "after")))
        return 0;
    const struct g_at *here = G_KEY(at, "after");
    if (!json_is_array(v))
        return g_bad(p, DT_E_GRAPH, here, "expected an array of names of launches");
    size_t size = json_array_size(v);
    if (size > p->g->nlaunch)
        return g_bad(p, DT_E_GRAPH, here, "%zu names, but only %u launches come before", size, p->g->nlaunch);
    if (!(l->after = dt_new_array(&p->g->arena, const char *, size)) ||
        !(l->after_at = dt_new_array(&p->g->arena, uint32_t, size)))
        return g_nomem(p);
    for (size_t i = 0; i < size; i++) {
        const char *text;
        if ((r = g_string(p, json_array_get(v, i), G_INDEX(here, i), &text)) < 0)
            return r;
        uint32_t k = dt_names_get(&p->launches, text, strlen(text));
        if (k == DT_NAME_NONE)
            return g_bad(p, DT_E_GRAPH, G_INDEX(here, i), "no launch before this one is named '%s'", text);
        l->after[i] = p->g->launch[k].name;
        l->after_at[i] = k;
    }
    l->nafter = (uint32_t)size;
    return 0;
}

static int launch_step(struct g_parser *p, json_t *o, const struct g_at *at, uint32_t index, struct dt_launch *l)
{
    int r = g_object(p, o, at);
    if (r < 0)
        return r;
    json_t *set = json_object_get(o, "memset"), *copy = json_object_get(o, "copy"), *mod = json_object_get(o, "module");
    if (!!set + !!copy + !!mod > 1)
        return g_bad(p, DT_E_GRAPH, at, "a step is one of a kernel ('module'), a 'memset' or a 'copy'");
    if ((r = launch_name(p, json_object_get(o, "name"), G_KEY(at, "name"), index, &l->name)) < 0)
        return r;
    r = set    ? memset_step(p, set, G_KEY(at, "memset"), l)
        : copy ? copy_step(p, copy, G_KEY(at, "copy"), l)
               : launch_kernel(p, o, at, l);
    return r < 0 ? r : placing(p, o, at, l);
}

/* On one stream, whatever its number, what `after` says is said already, but for a launch that starts early. */
static void several_streams(struct dt_graph *g)
{
    for (uint32_t i = 1; i < g->nlaunch; i++)
        g->streams |= g->launch[i].stream != g->launch[0].stream || g->launch[i].programmatic;
    for (uint32_t i = 0; i < g->nlaunch && !g->streams; i++)
        g->launch[i].stream = g->launch[i].nafter = g->launch[i].programmatic = 0;
}

int g_parse_launches(struct g_parser *p, json_t *v, const struct g_at *at)
{
    struct dt_graph *g = p->g;
    if (!json_is_array(v))
        return g_bad(p, DT_E_GRAPH, at, "expected an array of launches");
    size_t n = json_array_size(v);
    if (!n && !g->is_plan)
        return g_bad(p, DT_E_GRAPH, at, "a graph has at least one launch");
    if (n > DT_MAX_LAUNCHES)
        return g_bad(p, DT_E_TOO_LARGE, at, "%zu launches; the limit is %d", n, DT_MAX_LAUNCHES);
    if (!(g->launch = dt_new_array(&g->arena, struct dt_launch, n)))
        return g_nomem(p);
    for (size_t i = 0; i < n; i++) {
        const struct g_at *here = G_INDEX(at, i);
        int r = launch_step(p, json_array_get(v, i), here, (uint32_t)i, &g->launch[i]);
        if (r < 0)
            return r;
        if ((r = dt_names_put(&p->launches, g->launch[i].name, g->nlaunch)) < 0)
            return g_nomem(p);
        if (r == 1)
            return g_bad(p, DT_E_GRAPH, G_KEY(here, "name"), "two launches are named '%s'", g->launch[i].name);
        g->nlaunch++;
    }
    if (!g->is_plan)
        several_streams(g);
    return 0;
}
