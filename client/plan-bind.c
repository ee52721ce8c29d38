/* Device memory bound to a loaded plan. What the plan assumes of that memory is checked here, once, and the arguments
 * of all launches are laid out.
 *
 * Some mistakes are errors, because neither the plan nor the posted launches could run: an unknown name, memory that is
 * smaller than its buffer, memory that is missing. Others hinder only the plan (`assumes` of docs/CONTRACT.md §4:
 * alignment, content of constant buffers; buffers that overlap): the binding is then one of the posted launches, and
 * keeps the reason.
 */
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/str.h"
#include "client/plan-priv.h"
#include "graph/cuda-launch.h"

enum { PIECE = 1 << 20 }; /* of constant content read at a time */

static int plan_bind_nomem(struct dt_err *e) { return dt_err_set(e, DT_E_NOMEM, "out of memory"); }

static const struct dt_buffer *plan_bind_buffer(const struct dovetail_plan *p, uint32_t b)
{
    return &p->side[PLAN_NEW].graph->buffer[b];
}

/* Is there as much memory as the buffer has? Memory whose extent the driver does not tell counts as enough, if it is
 * memory. */
static int plan_bind_reach(const struct dovetail_plan *p, uint32_t b, CUdeviceptr at, struct dt_err *e)
{
    CUdeviceptr base = 0;
    size_t n = 0;
    unsigned type;
    const struct dt_buffer *x = plan_bind_buffer(p, b);
    if (x->bytes == 0)
        return 0;
    if (p->cu->cuMemGetAddressRange(&base, &n, at) != CUDA_SUCCESS)
        return p->cu->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) == CUDA_SUCCESS
                   ? 0
                   : dt_err_set(e, DT_E_USAGE, "buffer %s: 0x%llx is no memory of the device", x->name,
                                (unsigned long long)at);
    if (x->bytes > n || at - base > n - x->bytes)
        return dt_err_set(e, DT_E_USAGE, "buffer %s has %llu bytes; at 0x%llx there are %llu", x->name,
                          (unsigned long long)x->bytes, (unsigned long long)at, (unsigned long long)(n - (at - base)));
    return 0;
}

static int plan_bind_take(struct dovetail_bound *b, const struct dovetail_pointer *v, size_t n, struct dt_err *e)
{
    struct dovetail_plan *p = b->plan;
    int r = 0;
    for (uint32_t k = 0; k < p->nbuffer; k++)
        b->at[k] = p->variable[k];
    for (uint32_t k = p->nbuffer; k < p->side[PLAN_NEW].graph->nbuffer; k++)
        b->at[k] = p->scratch[k - p->nbuffer];
    for (size_t k = 0; k < n && r == 0; k++) {
        uint32_t i = v[k].buffer ? dt_graph_find_buffer(p->side[PLAN_NEW].graph, v[k].buffer) : DT_NAME_NONE;
        if (i >= p->nbuffer)
            r = dt_err_set(e, DT_E_USAGE, "the plan has no buffer '%s'", v[k].buffer ? v[k].buffer : "");
        else if (p->variable[i])
            r = dt_err_set(e, DT_E_USAGE, "'%s' is a module's variable and cannot be bound", v[k].buffer);
        else if (b->at[i])
            r = dt_err_set(e, DT_E_USAGE, "'%s' is bound twice", v[k].buffer);
        else if (!v[k].address && plan_bind_buffer(p, i)->bytes)
            r = dt_err_set(e, DT_E_USAGE, "'%s' is bound to nothing", v[k].buffer);
        else if ((r = plan_bind_reach(p, i, v[k].address, e)) == 0)
            b->at[i] = v[k].address;
    }
    return r;
}

/* The first buffer of the side that is not bound, or NULL. */
static const char *missing(const struct dovetail_bound *b, const struct plan_side *s)
{
    for (uint32_t k = 0; k < b->plan->nbuffer; k++)
        if (s->used[k] && !b->at[k] && s->graph->buffer[k].bytes)
            return s->graph->buffer[k].name;
    return NULL;
}

/* ---- what the plan assumes --------------------------------------------------------------------------------------- */

struct range {
    CUdeviceptr at;
    uint64_t n;
    uint32_t buffer;
};

static int by_address(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1) : (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

/* Buffers of the plan that share memory: two may if no launch writes them. Everything that only the posted launches use
 * counts as well, as it may be one with what the plan writes. */
static int apart(const struct dovetail_bound *b, struct dt_str *why, struct dt_err *e)
{
    const struct dovetail_plan *p = b->plan;
    dt_free_ struct range *v = dt_calloc(p->nbuffer + 1, sizeof *v);
    uint32_t n = 0;
    if (!v)
        return plan_bind_nomem(e);
    for (uint32_t k = 0; k < p->nbuffer; k++)
        if (b->at[k] && plan_bind_buffer(p, k)->bytes)
            v[n++] = (struct range){b->at[k], plan_bind_buffer(p, k)->bytes, k};
    qsort(v, n, sizeof *v, by_address);
    for (uint32_t k = 0, widest = 0; k < n; k++) { /* widest: the one before that reaches furthest */
        if (k && v[k].at < v[widest].at + v[widest].n) {
            dt_str_addf(why, "buffers %s and %s share memory", plan_bind_buffer(p, v[widest].buffer)->name,
                        plan_bind_buffer(p, v[k].buffer)->name);
            return 1;
        }
        if (v[k].at + v[k].n > v[widest].at + v[widest].n)
            widest = k;
    }
    return 0;
}

static int plan_bind_content(const struct dovetail_plan *p, CUdeviceptr at, uint64_t n, char text[DT_SHA256_TEXT],
                             struct dt_err *e)
{
    dt_free_ uint8_t *piece = dt_malloc(n < PIECE ? n + 1 : PIECE);
    struct dt_sha256 h;
    int r = piece ? dt_sha256_init(&h) : plan_bind_nomem(e);
    if (r < 0)
        return r;
    for (uint64_t done = 0; done < n && r == 0;) {
        size_t k = n - done < PIECE ? (size_t)(n - done) : PIECE;
        r = plan_cu(p->cu, p->cu->cuMemcpyDtoH(piece, at + done, k), "reading a constant buffer", e);
        dt_sha256_add(&h, piece, k);
        done += k;
    }
    if (r < 0)
        dt_sha256_done(&h);
    else
        dt_sha256_final(&h, text);
    return r;
}

/* 0: everything holds; 1: `why` says what does not; negative: error. With `read`, contents too. */
static int assumes(const struct dovetail_bound *b, bool read, struct dt_str *why, struct dt_err *e)
{
    const struct dovetail_plan *p = b->plan;
    const struct dt_graph *g = p->side[PLAN_NEW].graph;
    const char *key;
    json_t *v;
    int r = 0;
    for (uint32_t k = 0; k < p->nbuffer; k++)
        if (b->at[k] % p->align[k]) {
            dt_str_addf(why, "buffer %s is not aligned to %u bytes", plan_bind_buffer(p, k)->name, p->align[k]);
            return 1;
        }
    if ((r = apart(b, why, e)) != 0)
        return r;
    json_object_foreach (json_object_get(g->assumes, "constant"), key, v) {
        uint32_t k = dt_graph_find_buffer(g, key);
        char text[DT_SHA256_TEXT];
        if (!read || (!b->at[k] && g->buffer[k].bytes))
            continue; /* no launch of the plan reads it: it would be missing */
        if ((r = plan_bind_content(p, b->at[k], g->buffer[k].bytes, text, e)) < 0)
            return r;
        if (strcmp(text, json_string_value(v))) {
            dt_str_addf(why, "buffer %s does not hold what the plan was made for", key);
            return 1;
        }
    }
    return 0;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static int tensor_map(const struct dovetail_bound *b, const struct dt_arg *a, CUtensorMap *to, struct dt_err *e)
{
    return plan_cu(b->plan->cu,
                   dt_cuda_tensor_map(a->map, b->at[a->buffer] + a->offset, b->plan->cu->cuTensorMapEncodeTiled, to),
                   "cuTensorMapEncodeTiled", e);
}

static int lay_out(struct dovetail_bound *b, int side, struct dt_err *e)
{
    const struct dt_graph *g = b->plan->side[side].graph;
    b->param[side] = dt_new_array(&b->arena, void **, g->nlaunch + 1);
    if (!b->param[side])
        return plan_bind_nomem(e);
    for (uint32_t i = 0; i < g->nlaunch; i++) {
        const struct dt_launch *l = &g->launch[i];
        void **param = b->param[side][i] = dt_new_array(&b->arena, void *, l->narg + 1);
        if (!param)
            return plan_bind_nomem(e);
        for (uint32_t k = 0; k < l->narg; k++) {
            const struct dt_arg *a = &l->arg[k];
            size_t n = a->kind == DT_ARG_BYTES ? a->nbytes : a->kind == DT_ARG_TENSOR_MAP ? sizeof(CUtensorMap) : 8;
            uint8_t *to = dt_arena_alloc(&b->arena, n + alignof(CUtensorMap));
            int r;
            if (!to)
                return plan_bind_nomem(e);
            to += -(uintptr_t)to % alignof(CUtensorMap);
            uint64_t v = a->kind == DT_ARG_BUFFER ? b->at[a->buffer] + a->offset : a->bits;
            if (a->kind == DT_ARG_TENSOR_MAP && (r = tensor_map(b, a, (CUtensorMap *)to, e)) < 0)
                return r;
            if (a->kind == DT_ARG_BYTES)
                memcpy(to, a->bytes, n);
            else if (a->kind != DT_ARG_TENSOR_MAP)
                memcpy(to, &v, 8);
            for (uint32_t j = 0; a->kind == DT_ARG_BYTES && j < a->npointer; j++) {
                v = b->at[a->pointer[j].buffer] + a->pointer[j].offset;
                memcpy(to + a->pointer[j].at, &v, 8);
            }
            param[k] = to;
        }
    }
    b->ready[side] = true;
    return 0;
}

static int bind_one(struct dovetail_bound *b, const struct dovetail_pointer *v, size_t n, bool own,
                    const struct dovetail_bound *like, struct dt_err *e)
{
    struct dovetail_plan *p = b->plan;
    struct dt_str why = {0};
    const char *name, *back = like ? dovetail_bound_fallback(like) : NULL;
    int r = plan_bind_take(b, v, n, e);
    if (r == 0 && own)
        r = plan_own_make(b, e);
    for (int k = 0; k < PLAN_SIDES && r == 0; k++) {
        const struct plan_side *s = &p->side[k];
        if (!s->graph || s->why || missing(b, s))
            continue;
        r = lay_out(b, k, e);
    }
    if (r == 0 && p->side[PLAN_NEW].why)
        dt_str_addf(&why, "the plan cannot run here: %s", p->side[PLAN_NEW].why);
    else if (r == 0 && (name = missing(b, &p->side[PLAN_NEW])))
        r = dt_err_set(e, DT_E_USAGE, "buffer %s is not bound", name);
    else if (r == 0 && back)
        dt_str_add(&why, back);
    else if (r == 0 && (r = assumes(b, !like, &why, e)) == 1)
        r = 0;
    if (r == 0 && why.failed)
        r = plan_bind_nomem(e);
    if (r == 0 && why.len) {
        const struct plan_side *old = &p->side[PLAN_OLD];
        atomic_store(&b->side, PLAN_OLD);
        if (!b->ready[PLAN_OLD]) {
            name = old->graph && !old->why ? missing(b, old) : NULL;
            r = dt_err_set(e, DT_E_UNSUPPORTED, "%s; and the original launches cannot run: %s%s", why.s,
                           name       ? "not bound is "
                           : old->why ? old->why
                                      : "the plan does not have them",
                           name ? name : "");
        } else {
            b->why = dt_str_take(&why);
        }
    }
    dt_str_done(&why);
    return r;
}

void dovetail_bound_free(struct dovetail_bound *b)
{
    if (!b)
        return;
    plan_own_free(b);
    dovetail_plan_free(b->plan);
    dt_arena_done(&b->arena);
    free(b->why);
    free(b->at);
    free(b);
}

static int plan_bind_any(struct dovetail_plan *p, const struct dovetail_pointer *at, size_t n, bool own,
                         const struct dovetail_bound *like, struct dovetail_bound **ret, char **ret_problem)
{
    struct dt_err e = {0};
    struct dovetail_bound *b = dt_calloc(1, sizeof *b);
    if (!b || !(b->at = dt_calloc(p->side[PLAN_NEW].graph->nbuffer + 1, sizeof *b->at))) {
        free(b);
        return DOVETAIL_E_MEMORY;
    }
    atomic_fetch_add(&p->refs, 1);
    b->plan = p;
    atomic_init(&b->side, PLAN_NEW);
    int r = plan_enter(p, &e);
    if (r == 0) {
        r = bind_one(b, at, n, own, like, &e);
        plan_leave(p);
    }
    if (r < 0) {
        dovetail_bound_free(b);
        return plan_failed(&e, ret_problem);
    }
    *ret = b;
    return 0;
}

int dovetail_plan_bind(struct dovetail_plan *p, const struct dovetail_pointer *at, size_t n,
                       struct dovetail_bound **ret, char **ret_problem)
{
    return plan_bind_any(p, at, n, false, NULL, ret, ret_problem);
}

int dovetail_plan_bind_own(struct dovetail_plan *p, const struct dovetail_pointer *at, size_t n,
                           const struct dovetail_bound *like, struct dovetail_bound **ret, char **ret_problem)
{
    return plan_bind_any(p, at, n, true, like, ret, ret_problem);
}

const char *dovetail_bound_fallback(const struct dovetail_bound *b)
{
    return atomic_load(&b->side) == PLAN_NEW ? NULL : b->why ? b->why : "the driver refused the plan";
}
