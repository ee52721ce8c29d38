/* Canonical numbers, and the digest of a graph with its names left out.
 *
 * Buffers, modules and launches are numbered by first use: launches in program order; of a launch its module, then its
 * buffers in argument order (a struct's addresses in the order of `pointers`; a copy's source before its destination).
 * A module's variables (MODULE::name) are numbered when the module is, by variable name, since the arguments do not
 * show them. What nothing uses has no number and no part in the digest.
 *
 * The digest hashes everything that decides what the graph does: launch by launch, with a module's text and options
 * where it first occurs and numbers otherwise, then the used buffers by number with size, role and constant content.
 * The document's spelling, its order of members, names and non-constant fills have no part. Strings and arrays are
 * length-prefixed, so that no two graphs give the same bytes. Content is hashed as the document gives it (data, or the
 * fill's description): the digest must be cheap. The signature hashes content itself.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph-priv.h"

struct numbering {
    const struct dt_graph *g;
    uint32_t *buffer, *module, *launch;
    uint32_t nbuffer, nmodule;
};

static void use_buffer(struct numbering *n, uint32_t b)
{
    if (n->buffer[b] == DT_NAME_NONE)
        n->buffer[b] = n->nbuffer++;
}

static void use_module(struct numbering *n, uint32_t m)
{
    const struct dt_graph *g = n->g;
    if (n->module[m] != DT_NAME_NONE)
        return;
    n->module[m] = n->nmodule++;
    for (;;) { /* its variables not yet numbered, smallest name first; there are few */
        uint32_t best = DT_NAME_NONE;
        for (uint32_t i = 0; i < g->nbuffer; i++)
            if (g->buffer[i].module == (int)m && n->buffer[i] == DT_NAME_NONE &&
                (best == DT_NAME_NONE || strcmp(g->buffer[i].variable, g->buffer[best].variable) < 0))
                best = i;
        if (best == DT_NAME_NONE)
            return;
        use_buffer(n, best);
    }
}

static void use_launch(struct numbering *n, const struct dt_launch *l)
{
    if (l->kind == DT_KERNEL)
        use_module(n, l->module);
    if (l->kind == DT_COPY)
        use_buffer(n, l->src);
    if (l->kind != DT_KERNEL)
        use_buffer(n, l->dst);
    for (uint32_t i = 0; i < l->narg; i++) {
        const struct dt_arg *a = &l->arg[i];
        if (a->kind == DT_ARG_BUFFER || a->kind == DT_ARG_TENSOR_MAP)
            use_buffer(n, a->buffer);
        for (uint32_t k = 0; k < a->npointer; k++)
            use_buffer(n, a->pointer[k].buffer);
    }
}

/* Canonical numbers into arrays that the caller gives (of nbuffer, nmodule, nlaunch). */
static int number_all(const struct dt_graph *g, uint32_t *buffer, uint32_t *module, uint32_t *launch)
{
    struct numbering n = {.g = g, .buffer = buffer, .module = module, .launch = launch};
    for (uint32_t i = 0; i < g->nbuffer; i++)
        buffer[i] = DT_NAME_NONE;
    for (uint32_t i = 0; i < g->nmodule; i++)
        module[i] = DT_NAME_NONE;
    for (uint32_t i = 0; i < g->nlaunch; i++) {
        launch[i] = i;
        use_launch(&n, &g->launch[i]);
    }
    return 0;
}

int dt_graph_canon(struct dt_graph *g, struct dt_canon *ret)
{
    struct dt_canon c = {
        .buffer = dt_new_array(&g->arena, uint32_t, g->nbuffer),
        .module = dt_new_array(&g->arena, uint32_t, g->nmodule),
        .launch = dt_new_array(&g->arena, uint32_t, g->nlaunch),
    };
    if (!c.buffer || !c.module || !c.launch)
        return DT_E_NOMEM;
    *ret = c;
    return number_all(g, c.buffer, c.module, c.launch);
}

/* ---- digest -------------------------------------------------------------------------------------------------- */

struct digest {
    struct dt_sha256 h;
    const struct dt_graph *g;
    const uint32_t *buffer, *module;
    struct dt_names launches; /* of plans */
    uint32_t seen_module;     /* modules numbered below are hashed already */
    bool failed;
};

static void num(struct digest *d, uint64_t v) { dt_sha256_addu64(&d->h, v); }

static void digest_module(struct digest *d, uint32_t i)
{
    const struct dt_module *m = &d->g->module[i];
    num(d, d->module[i]);
    if (d->module[i] < d->seen_module)
        return;
    d->seen_module++;
    num(d, m->is_ptx);
    num(d, m->len);
    dt_sha256_add(&d->h, m->source, m->len);
    num(d, m->noption);
    for (unsigned k = 0; k < m->noption; k++)
        dt_sha256_addstr(&d->h, m->option[k]);
    if (m->cubin) { /* plans */
        num(d, m->cubin_len);
        dt_sha256_add(&d->h, m->cubin, m->cubin_len);
    }
}

static void digest_content(struct digest *d, const struct dt_buffer *b)
{
    const struct dt_fill *f = &b->fill;
    uint64_t lo, hi;
    memcpy(&lo, &f->lo, 8);
    memcpy(&hi, &f->hi, 8);
    num(d, f->kind);
    if (f->kind == DT_FILL_DATA)
        dt_sha256_add(&d->h, f->data, b->bytes);
    if (f->kind == DT_FILL_UNIFORM) {
        num(d, lo);
        num(d, hi);
        num(d, f->dtype);
        num(d, f->seed);
    }
}

static void digest_describe(struct digest *d, const struct dt_buffer *b)
{
    num(d, b->bytes);
    num(d, b->role);
    num(d, b->constant);
    num(d, b->module >= 0 ? d->module[b->module] : DT_NAME_NONE);
    dt_sha256_addstr(&d->h, b->variable ? b->variable : "");
    if (b->constant)
        digest_content(d, b);
}

static void digest_buffer(struct digest *d, uint32_t i) { num(d, d->buffer[i]); }

static void digest_argument(struct digest *d, const struct dt_arg *a)
{
    num(d, a->kind);
    switch (a->kind) {
    case DT_ARG_BUFFER:
        digest_buffer(d, a->buffer);
        num(d, a->offset);
        break;
    case DT_ARG_SCALAR:
        num(d, a->dtype);
        num(d, a->bits);
        break;
    case DT_ARG_BYTES:
        num(d, a->nbytes);
        dt_sha256_add(&d->h, a->bytes, a->nbytes);
        num(d, a->npointer);
        for (uint32_t i = 0; i < a->npointer; i++) {
            num(d, a->pointer[i].at);
            digest_buffer(d, a->pointer[i].buffer);
            num(d, a->pointer[i].offset);
        }
        break;
    case DT_ARG_TENSOR_MAP: {
        struct dt_str text = {0};
        digest_buffer(d, a->buffer);
        num(d, a->offset);
        dt_tensor_map_text(a->map, &text);
        d->failed |= text.failed || !text.s;
        dt_sha256_addstr(&d->h, text.s ? text.s : "");
        dt_str_done(&text);
    }
    }
}

static void digest_triple(struct digest *d, const uint32_t v[3])
{
    for (int i = 0; i < 3; i++)
        num(d, v[i]);
}

static void digest_launch(struct digest *d, const struct dt_launch *l)
{
    num(d, l->kind);
    if (l->kind == DT_KERNEL) {
        digest_module(d, l->module);
        dt_sha256_addstr(&d->h, l->entry);
        digest_triple(d, l->grid);
        digest_triple(d, l->block);
        digest_triple(d, l->cluster);
        num(d, l->shared);
        num(d, l->narg);
        for (uint32_t i = 0; i < l->narg; i++)
            digest_argument(d, &l->arg[i]);
    } else {
        if (l->kind == DT_COPY) {
            digest_buffer(d, l->src);
            num(d, l->src_offset);
        }
        digest_buffer(d, l->dst);
        num(d, l->dst_offset);
        num(d, l->bytes);
        num(d, l->value);
    }
    if (!d->g->is_plan && !d->g->streams)
        return;
    num(d, l->stream);
    num(d, l->programmatic);
    num(d, l->nafter);
    for (uint32_t i = 0; i < l->nafter; i++)
        num(d, dt_names_get(&d->launches, l->after[i], strlen(l->after[i])));
    if (dt_names_put(&d->launches, l->name, (uint32_t)(l - d->g->launch)) < 0)
        d->failed = true;
}

static void all(struct digest *d, uint32_t *order)
{
    const struct dt_graph *g = d->g;
    uint32_t used = 0;
    dt_sha256_addstr(&d->h, g->is_plan   ? "dovetail plan 1"
                            : g->streams ? "dovetail graph 1 on several streams"
                                         : "dovetail graph 1");
    num(d, g->nlaunch);
    for (uint32_t i = 0; i < g->nlaunch; i++)
        digest_launch(d, &g->launch[i]);
    for (uint32_t i = 0; i < g->nbuffer; i++)
        if (d->buffer[i] != DT_NAME_NONE) {
            order[d->buffer[i]] = i;
            used++;
        }
    num(d, used);
    for (uint32_t i = 0; i < used; i++)
        digest_describe(d, &g->buffer[order[i]]);
}

int dt_graph_digest(const struct dt_graph *g, char text[DT_SHA256_TEXT], struct dt_err *e)
{
    size_t n = 2 * (size_t)g->nbuffer + g->nmodule + g->nlaunch;
    dt_free_ uint32_t *room = dt_reallocarray(NULL, n, sizeof *room);
    if (!room)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    uint32_t *buf = room, *order = buf + g->nbuffer, *mod = order + g->nbuffer, *lau = mod + g->nmodule;
    struct digest d = {.g = g, .buffer = buf, .module = mod};
    number_all(g, buf, mod, lau);
    if (dt_sha256_init(&d.h) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    all(&d, order);
    dt_names_done(&d.launches);
    if (d.failed) {
        dt_sha256_done(&d.h);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    dt_sha256_final(&d.h, text);
    return 0;
}
