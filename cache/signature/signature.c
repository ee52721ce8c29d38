/* The signature of a graph on one architecture: a SHA-256 over named factors.
 *
 * The factors are a JSON object, in this order. Launches, modules and buffers have canonical numbers (dt_graph_canon):
 *
 *   format         "dovetail signature 1"; raised when this file hashes something else
 *   arch           "sm_90"
 *   launches       how many there are
 *   l0.kernel      SHA-256 of the canonical PTX of launch 0's entry; "memset" or "copy" for such a step. Where the
 *                  graph binds variables of the module, the PTX as it is follows: canonical text does not say which
 *                  variable a kernel uses
 *   l0.geometry    "grid … block … cluster … shared … module m0"
 *   l0.arguments   every argument: buffers by number and offset, scalars by type and bits, structs by bytes and
 *                  addresses, tensor maps by their fields
 *   l0.order       "stream … after l… programmatic", of a graph on several streams, or with launches that start early
 *   b0.shape       bytes, role, "constant", the name of a module's variable
 *   b0.content     SHA-256 of the content of a constant buffer
 *
 * A value longer than 200 bytes stands as its own SHA-256. The signature hashes all pairs of key and value, each with
 * its length, so what `dovetail explain` shows is exactly what was hashed: two graphs miss each other if and only if a
 * factor differs.
 *
 * Launches are taken in program order, which is the canonical order for now: two programs that differ only in the order
 * of independent launches have two signatures. The numbers and offsets also say which arguments are the same buffer;
 * buffers never overlap. A module's number is hashed because launches of one module share its variables. These have no
 * part: names, the entry's own name, fills of buffers that are not constant, and the compiler's options (they show in
 * the PTX).
 */
#include "cache/signature/signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"

struct printed {
    const struct ptx_function *entry;
    char sum[DT_SHA256_TEXT];
};

struct sign {
    struct dt_graph *g;
    struct dt_canon canon;
    json_t *factors;
    struct dt_err *e;
    /* kernels printed so far: a graph has many launches and few entries */
    struct dt_vec(struct printed) printed;
};

static int signature_nomem(struct sign *s) { return dt_err_set(s->e, DT_E_NOMEM, "out of memory"); }

/* Add a factor; takes the text out of `value`. */
static int factor(struct sign *s, char kind, uint32_t n, const char *what, struct dt_str *value)
{
    char key[48], sum[DT_SHA256_TEXT];
    const char *text = value->s ? value->s : "";
    bool failed = value->failed;
    if (kind)
        snprintf(key, sizeof key, "%c%u.%s", kind, n, what);
    else
        snprintf(key, sizeof key, "%s", what);
    if (value->len > 200) {
        failed |= dt_sha256_text(value->s, value->len, sum) < 0;
        text = sum;
    }
    failed = failed || json_object_set_new_nocheck(s->factors, key, json_string_nocheck(text)) < 0;
    dt_str_done(value);
    return failed ? signature_nomem(s) : 0;
}

/* Does the graph bind variables of the module? Which one a kernel uses does not show in canonical text. */
static bool has_variables(const struct dt_graph *g, uint32_t module)
{
    for (uint32_t i = 0; i < g->nbuffer; i++)
        if (g->buffer[i].module == (int)module)
            return true;
    return false;
}

static int kernel_sum(struct sign *s, const struct ptx_function *f, uint32_t module, const char **ret)
{
    for (size_t i = 0; i < s->printed.n; i++)
        if (s->printed.p[i].entry == f) {
            *ret = s->printed.p[i].sum;
            return 0;
        }
    struct printed p = {.entry = f};
    struct dt_str text = {0};
    int r = ptx_print_canonical(f, &text);
    if (r >= 0 && has_variables(s->g, module))
        r = ptx_print_function(f, &text);
    if (r < 0 || text.failed)
        r = r < 0 ? dt_err_set(s->e, r, "entry '%s' cannot be printed", f->name) : signature_nomem(s);
    else if (dt_sha256_text(text.s ? text.s : "", text.len, p.sum) < 0 || !dt_push(&s->printed, p))
        r = signature_nomem(s);
    else
        *ret = s->printed.p[s->printed.n - 1].sum;
    dt_str_done(&text);
    return r < 0 ? r : 0;
}

static void signature_buffer(struct sign *s, struct dt_str *out, uint32_t b, uint64_t offset)
{
    dt_str_addf(out, " b%u+%" PRIu64, s->canon.buffer[b], offset);
}

static void signature_argument(struct sign *s, struct dt_str *out, const struct dt_arg *a)
{
    switch (a->kind) {
    case DT_ARG_BUFFER: signature_buffer(s, out, a->buffer, a->offset); break;
    case DT_ARG_SCALAR: dt_str_addf(out, " %s:%" PRIx64, dt_dtype_text(a->dtype), a->bits); break;
    case DT_ARG_BYTES:
        dt_str_add(out, " bytes:");
        for (uint32_t i = 0; i < a->nbytes; i++)
            dt_str_addf(out, "%02x", a->bytes[i]);
        for (uint32_t i = 0; i < a->npointer; i++) {
            dt_str_addf(out, " @%u", a->pointer[i].at);
            signature_buffer(s, out, a->pointer[i].buffer, a->pointer[i].offset);
        }
        dt_str_add(out, ";");
        break;
    case DT_ARG_TENSOR_MAP:
        signature_buffer(s, out, a->buffer, a->offset);
        dt_str_add(out, " map ");
        dt_tensor_map_text(a->map, out);
        dt_str_add(out, ";");
    }
}

static int signature_launch(struct sign *s, uint32_t i, const struct ptx_function *entry)
{
    const struct dt_launch *l = &s->g->launch[i];
    struct dt_str kernel = {0}, geometry = {0}, args = {0};
    const char *sum = NULL;
    int r = 0;
    if (l->kind == DT_KERNEL) {
        if (!entry)
            return dt_err_set(s->e, DT_E_INTERNAL, "launch '%s' has no entry to sign", l->name);
        if ((r = kernel_sum(s, entry, l->module, &sum)) < 0)
            return r;
        dt_str_add(&kernel, sum);
        dt_str_addf(&geometry, "grid %u,%u,%u block %u,%u,%u cluster %u,%u,%u shared %u module m%u", l->grid[0],
                    l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->cluster[0], l->cluster[1],
                    l->cluster[2], l->shared, s->canon.module[l->module]);
        for (uint32_t k = 0; k < l->narg; k++)
            signature_argument(s, &args, &l->arg[k]);
    } else {
        dt_str_add(&kernel, l->kind == DT_COPY ? "copy" : "memset");
        dt_str_addf(&geometry, "bytes %" PRIu64 " value %u", l->bytes, l->value);
        if (l->kind == DT_COPY)
            signature_buffer(s, &args, l->src, l->src_offset);
        signature_buffer(s, &args, l->dst, l->dst_offset);
    }
    if (s->g->streams) {
        struct dt_str order = {0};
        dt_str_addf(&order, "stream %u after", l->stream);
        for (uint32_t k = 0; k < l->nafter; k++)
            dt_str_addf(&order, " l%u", l->after_at[k]);
        dt_str_add(&order, l->programmatic ? " programmatic" : "");
        if ((r = factor(s, 'l', i, "order", &order)) < 0) {
            dt_str_done(&kernel);
            dt_str_done(&geometry);
            dt_str_done(&args);
            return r;
        }
    }
    int r1 = factor(s, 'l', i, "kernel", &kernel), r2 = factor(s, 'l', i, "geometry", &geometry),
        r3 = factor(s, 'l', i, "arguments", &args);
    return r1 < 0 ? r1 : r2 < 0 ? r2 : r3;
}

static int one_buffer(struct sign *s, uint32_t n, const struct dt_buffer *b)
{
    char sum[DT_SHA256_TEXT];
    struct dt_str shape = {0}, content = {0};
    dt_str_addf(&shape, "bytes %" PRIu64 " role %s%s", b->bytes, dt_role_text(b->role), b->constant ? " constant" : "");
    if (b->variable)
        dt_str_addf(&shape, " variable m%u::%s", b->module >= 0 ? s->canon.module[b->module] : DT_NAME_NONE,
                    b->variable);
    int r = factor(s, 'b', n, "shape", &shape);
    if (r < 0 || !b->constant)
        return r;
    if (dt_fill_sha256(b, sum) < 0)
        return signature_nomem(s);
    dt_str_add(&content, sum);
    return factor(s, 'b', n, "content", &content);
}

static int all(struct sign *s, const struct ptx_function *const *entry, const char *arch)
{
    struct dt_graph *g = s->g;
    struct dt_str v = {0};
    int r = dt_graph_canon(g, &s->canon);
    if (r < 0)
        return signature_nomem(s);
    dt_str_add(&v, "dovetail signature 1");
    if ((r = factor(s, 0, 0, "format", &v)) < 0)
        return r;
    dt_str_add(&v, arch);
    if ((r = factor(s, 0, 0, "arch", &v)) < 0)
        return r;
    dt_str_addf(&v, "%u", g->nlaunch);
    if ((r = factor(s, 0, 0, "launches", &v)) < 0)
        return r;
    for (uint32_t i = 0; i < g->nlaunch; i++)
        if ((r = signature_launch(s, i, entry[i])) < 0)
            return r;
    uint32_t *order = dt_new_array(&g->arena, uint32_t, g->nbuffer), used = 0;
    if (!order)
        return signature_nomem(s);
    for (uint32_t i = 0; i < g->nbuffer; i++)
        if (s->canon.buffer[i] != DT_NAME_NONE) {
            order[s->canon.buffer[i]] = i;
            used++;
        }
    for (uint32_t i = 0; i < used; i++)
        if ((r = one_buffer(s, i, &g->buffer[order[i]])) < 0)
            return r;
    return 0;
}

int cache_signature(struct dt_graph *g, const struct ptx_function *const *entry, const char *arch,
                    char text[DT_SHA256_TEXT], json_t **ret_factors, struct dt_err *e)
{
    struct sign s = {.g = g, .factors = json_object(), .e = e};
    struct dt_sha256 h = {0};
    const char *key;
    json_t *v;
    int r = s.factors ? all(&s, entry, arch) : signature_nomem(&s);
    if (r == 0 && dt_sha256_init(&h) < 0)
        r = signature_nomem(&s);
    if (r == 0) {
        json_object_foreach (s.factors, key, v) {
            dt_sha256_addstr(&h, key);
            dt_sha256_addstr(&h, json_string_value(v));
        }
        dt_sha256_final(&h, text);
    }
    free(s.printed.p);
    if (r == 0 && ret_factors)
        *ret_factors = s.factors;
    else
        json_decref(s.factors);
    return r;
}
