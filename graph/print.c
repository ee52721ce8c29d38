/* A graph printed as a document: members in the order of docs/CONTRACT.md, defaults written out, numbers as exact as
 * they came.
 *
 * Parsing what is printed gives the same graph, and printing that gives the same document. A float is a JSON number
 * while it is finite (jansson prints 17 digits, which read back to the same bits), else "0x…" of its bits; whole
 * numbers over 2^63 - 1 are strings of their digits inside the tree (base/json.c), which is how dt_graph_from_json
 * takes them, and "0x…" where they are arguments. Building is by json_*_set_new, which takes NULL for "memory was out";
 * one flag per tree remembers it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "graph-priv.h"

static void print_put(json_t *obj, const char *key, json_t *v, bool *failed)
{
    if (json_object_set_new_nocheck(obj, key, v) < 0)
        *failed = true;
}

static void print_push(json_t *array, json_t *v, bool *failed)
{
    if (json_array_append_new(array, v) < 0)
        *failed = true;
}

static json_t *print_finish(json_t *v, bool failed)
{
    if (failed) {
        json_decref(v);
        return NULL;
    }
    return v;
}

static json_t *print_number(uint64_t v)
{
    char text[24];
    if (v <= INT64_MAX)
        return json_integer((json_int_t)v);
    snprintf(text, sizeof text, "%" PRIu64, v);
    return json_string_nocheck(text);
}

static json_t *print_triple(const uint32_t v[3])
{
    return json_pack("[I,I,I]", (json_int_t)v[0], (json_int_t)v[1], (json_int_t)v[2]);
}

static json_t *encoded(const uint8_t *p, size_t n, bool hex)
{
    struct dt_str s = {0};
    dt_str_add(&s, "");
    if (hex)
        for (size_t i = 0; i < n; i++)
            dt_str_addf(&s, "%02x", p[i]);
    else
        dt_base64_encode(p, n, &s);
    json_t *v = s.failed ? NULL : json_stringn_nocheck(s.s, s.len);
    dt_str_done(&s);
    return v;
}

static json_t *print_fill(const struct dt_fill *f)
{
    json_t *v = json_object();
    bool failed = !v;
    if (f->kind == DT_FILL_ZERO) {
        print_put(v, "zero", json_true(), &failed);
        return print_finish(v, failed);
    }
    json_t *ends = json_array();
    print_push(ends, json_real(f->lo), &failed);
    print_push(ends, json_real(f->hi), &failed);
    print_put(v, "uniform", ends, &failed);
    print_put(v, "dtype", json_string_nocheck(dt_dtype_text(f->dtype)), &failed);
    print_put(v, "seed", print_number(f->seed), &failed);
    return print_finish(v, failed);
}

json_t *dt_buffer_to_json(const struct dt_graph *g, const struct dt_buffer *b)
{
    json_t *v = json_object();
    bool failed = !v;
    print_put(v, "bytes", print_number(b->bytes), &failed);
    if (b->role != DT_SCRATCH)
        print_put(v, "role", json_string_nocheck(dt_role_text(b->role)), &failed);
    if (b->constant)
        print_put(v, "constant", json_true(), &failed);
    if (b->fill.kind == DT_FILL_DATA)
        print_put(v, "data", encoded(b->fill.data, b->bytes, false), &failed);
    else if (b->fill.kind != DT_FILL_NONE)
        print_put(v, "fill", print_fill(&b->fill), &failed);
    return print_finish(v, failed);
}

static json_t *print_scalar(const struct dt_arg *a)
{
    char text[24];
    unsigned bits = dt_dtype_bytes(a->dtype) * 8;
    if (a->dtype >= DT_F16) {
        double d = g_float_value(a->bits, a->dtype);
        if (isfinite(d))
            return json_real(d);
    } else if (a->dtype <= DT_I64) {
        return json_integer((json_int_t)(a->bits << (64 - bits)) >> (64 - bits));
    } else if (a->bits <= INT64_MAX) {
        return json_integer((json_int_t)a->bits);
    }
    snprintf(text, sizeof text, "0x%0*" PRIx64, (int)bits / 4, a->bits);
    return json_string_nocheck(text);
}

/* buffer and offset of g, into v. */
static void print_place(const struct dt_graph *g, json_t *v, uint32_t buffer, uint64_t offset, bool *failed)
{
    print_put(v, "buffer", json_string_nocheck(g->buffer[buffer].name), failed);
    print_put(v, "offset", print_number(offset), failed);
}

static json_t *print_argument(const struct dt_graph *g, const struct dt_arg *a)
{
    json_t *v = json_object();
    bool failed = !v;
    switch (a->kind) {
    case DT_ARG_BUFFER: print_place(g, v, a->buffer, a->offset, &failed); break;
    case DT_ARG_SCALAR: print_put(v, dt_dtype_text(a->dtype), print_scalar(a), &failed); break;
    case DT_ARG_TENSOR_MAP: print_put(v, "tensor_map", g_print_tensor_map(g, a), &failed); break;
    case DT_ARG_BYTES:
        print_put(v, "bytes", encoded(a->bytes, a->nbytes, true), &failed);
        if (a->npointer) {
            json_t *list = json_array();
            for (uint32_t i = 0; i < a->npointer; i++) {
                json_t *o = json_object();
                print_put(o, "at", json_integer(a->pointer[i].at), &failed);
                print_place(g, o, a->pointer[i].buffer, a->pointer[i].offset, &failed);
                print_push(list, o, &failed);
            }
            print_put(v, "pointers", list, &failed);
        }
    }
    return print_finish(v, failed);
}

static void print_kernel(const struct dt_graph *g, const struct dt_launch *l, json_t *v, bool *failed)
{
    print_put(v, "module", json_string_nocheck(g->module[l->module].name), failed);
    print_put(v, "entry", json_string_nocheck(l->entry), failed);
    print_put(v, "grid", print_triple(l->grid), failed);
    print_put(v, "block", print_triple(l->block), failed);
    if (l->cluster[0])
        print_put(v, "cluster", print_triple(l->cluster), failed);
    print_put(v, "shared", json_integer(l->shared), failed);
    json_t *args = json_array();
    for (uint32_t i = 0; i < l->narg; i++)
        print_push(args, print_argument(g, &l->arg[i]), failed);
    print_put(v, "args", args, failed);
}

json_t *dt_launch_to_json(const struct dt_graph *g, const struct dt_launch *l)
{
    json_t *v = json_object(), *o;
    bool failed = !v;
    print_put(v, "name", json_string_nocheck(l->name), &failed);
    if (l->kind == DT_KERNEL) {
        print_kernel(g, l, v, &failed);
    } else if (l->kind == DT_MEMSET) {
        o = json_object();
        print_place(g, o, l->dst, l->dst_offset, &failed);
        print_put(o, "bytes", print_number(l->bytes), &failed);
        print_put(o, "value", json_integer(l->value), &failed);
        print_put(v, "memset", o, &failed);
    } else {
        json_t *from = json_object(), *to = json_object();
        o = json_object();
        print_place(g, from, l->src, l->src_offset, &failed);
        print_place(g, to, l->dst, l->dst_offset, &failed);
        print_put(o, "from", from, &failed);
        print_put(o, "to", to, &failed);
        print_put(o, "bytes", print_number(l->bytes), &failed);
        print_put(v, "copy", o, &failed);
    }
    if (g->is_plan || g->streams || l->stream || l->nafter || l->programmatic) {
        json_t *after = json_array();
        for (uint32_t i = 0; i < l->nafter; i++)
            print_push(after, json_string_nocheck(l->after[i]), &failed);
        print_put(v, "stream", json_integer(l->stream), &failed);
        print_put(v, "after", after, &failed);
        if (g->is_plan || l->programmatic)
            print_put(v, "programmatic", json_boolean(l->programmatic), &failed);
    }
    return print_finish(v, failed);
}

static json_t *print_module(const struct dt_module *m)
{
    json_t *v = json_object();
    bool failed = !v;
    print_put(v, m->is_ptx ? "ptx" : "cuda", json_stringn_nocheck(m->source, m->len), &failed);
    if (m->cubin) {
        char text[DT_SHA256_TEXT];
        failed |= dt_sha256_text(m->cubin, m->cubin_len, text) < 0;
        print_put(v, "cubin", encoded(m->cubin, m->cubin_len, false), &failed);
        print_put(v, "cubin_sha256", failed ? NULL : json_string_nocheck(text), &failed);
    }
    if (m->noption) {
        json_t *options = json_array();
        for (unsigned i = 0; i < m->noption; i++)
            print_push(options, json_string_nocheck(m->option[i]), &failed);
        print_put(v, "options", options, &failed);
    }
    return print_finish(v, failed);
}

json_t *dt_graph_to_json(const struct dt_graph *g)
{
    json_t *v = json_object(), *modules = json_object(), *buffers = json_object(), *scratch = json_object(),
           *launches = json_array();
    bool failed = !v;
    for (uint32_t i = 0; i < g->nmodule; i++)
        print_put(modules, g->module[i].name, print_module(&g->module[i]), &failed);
    for (uint32_t i = 0; i < g->nbuffer; i++)
        print_put(g->buffer[i].role == DT_SCRATCH ? scratch : buffers, g->buffer[i].name,
                  dt_buffer_to_json(g, &g->buffer[i]), &failed);
    for (uint32_t i = 0; i < g->nlaunch; i++)
        print_push(launches, dt_launch_to_json(g, &g->launch[i]), &failed);
    print_put(v, "dovetail", json_integer(1), &failed);
    if (*g->name)
        print_put(v, "name", json_string_nocheck(g->name), &failed);
    print_put(v, "modules", modules, &failed);
    print_put(v, "buffers", buffers, &failed);
    if (g->is_plan) {
        print_put(v, "scratch", scratch, &failed);
        if (g->assumes)
            print_put(v, "assumes", json_incref(g->assumes), &failed);
    } else {
        json_decref(scratch);
    }
    print_put(v, "launches", launches, &failed);
    return print_finish(v, failed);
}
