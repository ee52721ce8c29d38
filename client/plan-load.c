/* A plan document becomes modules, functions, scratch memory, streams and events in a context.
 *
 * Two sides: the plan's launches, and the posted ones (member `original`; a plan that changes nothing has none). Each
 * is read by graph/, which checks everything that a document can say wrong; here is checked what only the modules know:
 * how many arguments an entry takes and how long they are (cuFuncGetParamInfo), since the driver would read that many
 * bytes. A side that cannot run here says why and costs the other nothing. A module that both sides use is loaded once:
 * its variables are the same memory for both.
 *
 * A module that the plan changed was compared with the posted ones as machine code, which the document carries. That is
 * what a real driver gets; where it does not take it (another architecture), or there is none, the driver's compiler
 * would make code that nobody has compared, and the plan cannot run here. On the software device PTX is the machine
 * code.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/elf-file.h"
#include "base/json.h"
#include "client/plan-priv.h"

enum { JIT_LOG = 4096 };

static int plan_load_nomem(struct dt_err *e) { return dt_err_set(e, DT_E_NOMEM, "out of memory"); }

/* ---- the document ------------------------------------------------------------------------------------------------ */

/* Does the plan change nothing? Then its launches are the posted ones. */
static bool unchanged(json_t *doc)
{
    size_t i;
    json_t *v;
    json_array_foreach (json_object_get(doc, "rewrites"), i, v) {
        const char *verdict = json_string_value(json_object_get(v, "verdict"));
        if (!verdict || !strcmp(verdict, "kept"))
            return false;
    }
    return true;
}

static int read_sides(struct dovetail_plan *p, const char *text, size_t len, struct dt_err *e)
{
    json_t *doc = NULL, *old = NULL;
    int r = dt_json_load(text, len, &doc, e);
    if (r == 0 && !(json_is_object(json_object_get(doc, "buffers")) && json_is_array(json_object_get(doc, "rewrites"))))
        r = dt_err_set(e, DT_E_GRAPH, "this is no plan document (docs/CONTRACT.md §4)");
    if (r == 0)
        r = dt_graph_from_json(doc, &p->side[PLAN_NEW].graph, e);
    if (r == 0 && (json_is_object(json_object_get(doc, "original")) || unchanged(doc))) {
        if (!(old = dt_plan_posted(doc)))
            r = plan_load_nomem(e);
        if (r == 0)
            r = dt_graph_from_json(old, &p->side[PLAN_OLD].graph, e);
    }
    json_decref(old);
    json_decref(doc);
    return r;
}

/* ---- modules and functions --------------------------------------------------------------------------------------- */

static bool plan_load_used(const struct dt_graph *g, uint32_t module)
{
    bool yes = false;
    for (uint32_t i = 0; i < g->nlaunch && !yes; i++)
        yes = g->launch[i].kind == DT_KERNEL && g->launch[i].module == module;
    for (uint32_t b = 0; b < g->nbuffer && !yes; b++)
        yes = g->buffer[b].module == (int)module;
    return yes;
}

/* Did the plan make it? The graph of the posted launches has all modules of the document, and uses its own. */
static bool changed(const struct dovetail_plan *p, const struct dt_module *m)
{
    const struct dt_graph *old = p->side[PLAN_OLD].graph;
    for (uint32_t k = 0; old && k < old->nmodule; k++)
        if (old->module[k].len == m->len && !memcmp(old->module[k].source, m->source, m->len) && plan_load_used(old, k))
            return false;
    return true;
}

/* The module's image for the driver, with `code`: machine code, and nothing else will do. */
static int image(const struct dovetail_plan *p, const struct dt_module *m, const void **ret, bool *ret_code,
                 struct dt_err *e)
{
    *ret = m->source;
    *ret_code = false;
    if (plan_soft() || !changed(p, m))
        return 0;
    if (!m->cubin)
        return dt_err_set(e, DT_E_UNSUPPORTED,
                          "module %s is the plan's own and carries no machine code: what the driver's compiler makes "
                          "of it was never compared with the posted kernels",
                          m->name);
    if (!dt_elf_whole(m->cubin, m->cubin_len))
        return dt_err_set(e, DT_E_UNSUPPORTED, "the machine code of module %s is no whole ELF file", m->name);
    *ret = m->cubin;
    *ret_code = true;
    return 0;
}

/* The module of the side's number m, loaded. */
static int load_module(struct dovetail_plan *p, const struct dt_module *m, CUmodule *ret, struct dt_err *e)
{
    char log[JIT_LOG] = "", what[DT_MAX_NAME + 128];
    CUjit_option opt[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *val[] = {log, (void *)(uintptr_t)sizeof log};
    struct plan_module n = {m->source, m->len, NULL};
    for (uint32_t k = 0; k < p->nmodule; k++)
        if (p->module[k].len == m->len && !memcmp(p->module[k].text, m->source, m->len)) {
            *ret = p->module[k].module;
            return 0;
        }
    if (!m->is_ptx)
        return dt_err_set(e, DT_E_UNSUPPORTED, "module %s is CUDA C++; a plan's modules are PTX", m->name);
    const void *code;
    bool machine;
    int x = image(p, m, &code, &machine, e);
    if (x < 0)
        return x;
    CUresult c = p->cu->cuModuleLoadDataEx(&n.module, code, 2, opt, val);
    snprintf(what, sizeof what, "module %s%s", m->name,
             machine ? ", the machine code that was compared with the posted kernels" : "");
    if (c != CUDA_SUCCESS) {
        struct dt_err mine = {0};
        int r = plan_cu(p->cu, c, what, &mine);
        log[sizeof log - 1] = '\0';
        dt_err_set(e, r, "%s%s%s", mine.detail ? mine.detail : what, *log ? ": " : "", log);
        dt_err_done(&mine);
        return r;
    }
    struct plan_module *all = dt_reallocarray(p->module, p->nmodule + 1, sizeof *all);
    if (!all) {
        p->cu->cuModuleUnload(n.module);
        return plan_load_nomem(e);
    }
    p->module = all;
    all[p->nmodule++] = n;
    *ret = n.module;
    return 0;
}

static size_t arg_bytes(const struct dt_arg *a)
{
    switch (a->kind) {
    case DT_ARG_BUFFER: return 8;
    case DT_ARG_SCALAR: return dt_dtype_bytes(a->dtype);
    case DT_ARG_BYTES: return a->nbytes;
    default: return sizeof(CUtensorMap);
    }
}

static int load_launch(struct dovetail_plan *p, struct plan_side *s, uint32_t i, struct dt_err *e)
{
    const struct dt_launch *l = &s->graph->launch[i];
    const struct plan_driver *cu = p->cu;
    CUmodule m;
    int r = load_module(p, &s->graph->module[l->module], &m, e);
    if (r == 0)
        r = plan_cu(cu, cu->cuModuleGetFunction(&s->function[i], m, l->entry), l->entry, e);
    for (uint32_t k = 0; r == 0 && k <= l->narg; k++) {
        size_t at, n;
        CUresult c = cu->cuFuncGetParamInfo(s->function[i], k, &at, &n);
        if (k == l->narg && c == CUDA_SUCCESS)
            r = dt_err_set(e, DT_E_ARGS, "launch %s: its entry takes more than %u arguments", l->name, l->narg);
        else if (k == l->narg)
            break;
        else if (c != CUDA_SUCCESS || n != arg_bytes(&l->arg[k]))
            r = dt_err_set(e, DT_E_ARGS, "launch %s: argument %u does not fit its entry", l->name, k);
    }
    /* the opt-in above 48 KB, for the most that any launch of the entry has; too much is refused here */
    if (r == 0 && l->shared) {
        uint32_t most = l->shared;
        for (uint32_t k = 0; k < i; k++)
            if (s->function[k] == s->function[i] && s->graph->launch[k].shared > most)
                most = s->graph->launch[k].shared;
        r = plan_cu(cu,
                    cu->cuFuncSetAttribute(s->function[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)most),
                    l->name, e);
    }
    if (r == 0 && (uint64_t)l->cluster[0] * l->cluster[1] * l->cluster[2] > 8)
        r = plan_cu(cu, cu->cuFuncSetAttribute(s->function[i], CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                    l->name, e);
    return r;
}

/* ---- streams and events ------------------------------------------------------------------------------------------ */

static int make_streams(struct dovetail_plan *p, struct plan_side *s, struct dt_err *e)
{
    const struct dt_graph *g = s->graph;
    const struct plan_driver *cu = p->cu;
    int r = 0;
    for (uint32_t i = 0; i < g->nlaunch; i++)
        if (g->launch[i].stream >= s->nstream)
            s->nstream = g->launch[i].stream + 1;
    if (s->nstream < 2)
        return 0;
    if (!(s->stream = dt_calloc(s->nstream, sizeof *s->stream)))
        return plan_load_nomem(e);
    for (uint32_t k = 1; k < s->nstream && r == 0; k++)
        r = plan_cu(cu, cu->cuStreamCreate(&s->stream[k], CU_STREAM_NON_BLOCKING), "cuStreamCreate", e);
    if (r == 0)
        r = plan_cu(cu, cu->cuEventCreate(&s->begin, CU_EVENT_DISABLE_TIMING), "cuEventCreate", e);
    for (uint32_t i = 0; i < g->nlaunch && r == 0; i++) {
        bool last = true; /* of its stream: the caller's stream waits for it */
        bool waited = false;
        for (uint32_t k = 0; k < g->nlaunch; k++) {
            last = last && !(k > i && g->launch[k].stream == g->launch[i].stream);
            for (uint32_t j = 0; j < g->launch[k].nafter && g->launch[k].stream != g->launch[i].stream; j++)
                waited = waited || !strcmp(g->launch[k].after[j], g->launch[i].name);
        }
        if ((last && g->launch[i].stream) || waited)
            r = plan_cu(cu, cu->cuEventCreate(&s->end[i], CU_EVENT_DISABLE_TIMING), "cuEventCreate", e);
    }
    return r;
}

static int load_side(struct dovetail_plan *p, struct plan_side *s, struct dt_err *e)
{
    const struct dt_graph *g = s->graph;
    int r = 0;
    s->function = dt_calloc(g->nlaunch + 1, sizeof(CUfunction));
    s->end = dt_calloc(g->nlaunch + 1, sizeof(CUevent));
    s->used = dt_calloc(g->nbuffer + 1, sizeof *s->used);
    if (!s->function || !s->end || !s->used)
        return plan_load_nomem(e);
    for (uint32_t i = 0; i < g->nlaunch && r == 0; i++) {
        const struct dt_launch *l = &g->launch[i];
        if (l->kind == DT_KERNEL)
            r = load_launch(p, s, i, e);
        if (l->kind != DT_KERNEL)
            s->used[l->dst] = true;
        if (l->kind == DT_COPY)
            s->used[l->src] = true;
        for (uint32_t k = 0; k < l->narg; k++) {
            if (l->arg[k].kind == DT_ARG_BUFFER || l->arg[k].kind == DT_ARG_TENSOR_MAP)
                s->used[l->arg[k].buffer] = true;
            for (uint32_t j = 0; l->arg[k].kind == DT_ARG_BYTES && j < l->arg[k].npointer; j++)
                s->used[l->arg[k].pointer[j].buffer] = true;
        }
    }
    for (uint32_t b = 0; b < g->nbuffer && r == 0; b++) {
        const struct dt_buffer *x = &g->buffer[b];
        CUmodule m;
        size_t n;
        if (x->module < 0 || (r = load_module(p, &g->module[x->module], &m, e)) < 0)
            continue;
        CUdeviceptr at;
        if ((r = plan_cu(p->cu, p->cu->cuModuleGetGlobal(&at, &n, m, x->variable), x->name, e)) == 0 && n < x->bytes)
            r = dt_err_set(e, DT_E_ARGS, "variable %s has %zu bytes", x->name, n);
        else if (r == 0 && p->variable[b] && p->variable[b] != at)
            r = dt_err_set(e, DT_E_UNSUPPORTED, "variable %s is in a module that the plan changed", x->name);
        else if (r == 0)
            p->variable[b] = at;
    }
    return r < 0 ? r : make_streams(p, s, e);
}

/* ---- scratch ----------------------------------------------------------------------------------------------------- */

static int make_scratch(struct dovetail_plan *p, struct dt_err *e)
{
    const struct dt_graph *g = p->side[PLAN_NEW].graph;
    int r = 0;
    for (uint32_t b = p->nbuffer; b < g->nbuffer && r == 0; b++) {
        const struct dt_buffer *x = &g->buffer[b];
        CUdeviceptr *at = &p->scratch[b - p->nbuffer];
        if (x->bytes && (r = plan_cu(p->cu, p->cu->cuMemAlloc(at, x->bytes), x->name, e)) == 0) {
            dt_free_ uint8_t *fill = dt_malloc(x->bytes);
            if (!fill)
                return plan_load_nomem(e);
            dt_fill_bytes(x, 0, fill);
            r = plan_cu(p->cu, p->cu->cuMemcpyHtoD(*at, fill, x->bytes), x->name, e);
        }
    }
    return r;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static void side_done(struct dovetail_plan *p, struct plan_side *s)
{
    for (uint32_t k = 1; s->stream && k < s->nstream; k++)
        if (s->stream[k])
            p->cu->cuStreamDestroy(s->stream[k]);
    for (uint32_t i = 0; s->end && i < s->graph->nlaunch; i++)
        if (s->end[i])
            p->cu->cuEventDestroy(s->end[i]);
    if (s->begin)
        p->cu->cuEventDestroy(s->begin);
    free(s->stream);
    free(s->end);
    free(s->function);
    free(s->used);
    free(s->why);
    dt_graph_free(s->graph);
}

static void destroy(struct dovetail_plan *p)
{
    bool in = p->cu && p->ctx && plan_enter(p, NULL) == 0;
    if (in) { /* a context that is gone took all of it along */
        for (uint32_t k = 0; k < p->nmodule; k++)
            p->cu->cuModuleUnload(p->module[k].module);
        for (uint32_t k = 0; p->scratch && k < p->side[PLAN_NEW].graph->nbuffer - p->nbuffer; k++)
            if (p->scratch[k])
                p->cu->cuMemFree(p->scratch[k]);
    } else {
        for (int k = 0; k < PLAN_SIDES; k++) {
            free(p->side[k].stream);
            p->side[k].stream = NULL;
            p->side[k].begin = NULL;
            free(p->side[k].end);
            p->side[k].end = NULL;
        }
    }
    for (int k = 0; k < PLAN_SIDES; k++)
        side_done(p, &p->side[k]);
    if (in)
        plan_leave(p);
    free(p->module);
    free(p->scratch);
    free(p->variable);
    free(p->align);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void dovetail_plan_free(struct dovetail_plan *p)
{
    if (p && atomic_fetch_sub(&p->refs, 1) == 1)
        destroy(p);
}

static int load_one(struct dovetail_plan *p, struct dt_err *e)
{
    struct dt_graph *g = p->side[PLAN_NEW].graph;
    const char *key;
    json_t *v;
    while (p->nbuffer < g->nbuffer && g->buffer[p->nbuffer].role != DT_SCRATCH)
        p->nbuffer++;
    p->scratch = dt_calloc(g->nbuffer - p->nbuffer + 1, sizeof *p->scratch);
    p->variable = dt_calloc(g->nbuffer + 1, sizeof *p->variable);
    p->align = dt_calloc(g->nbuffer + 1, sizeof *p->align);
    if (!p->scratch || !p->variable || !p->align)
        return plan_load_nomem(e);
    for (uint32_t b = 0; b < g->nbuffer; b++)
        p->align[b] = 1;
    json_object_foreach (json_object_get(g->assumes, "align"), key, v)
        p->align[dt_graph_find_buffer(g, key)] = (uint32_t)json_integer_value(v);
    bool some = false;
    for (int k = 0; k < PLAN_SIDES; k++) {
        struct dt_err mine = {0};
        if (!p->side[k].graph)
            continue;
        int r = load_side(p, &p->side[k], &mine);
        if (r == 0 && k == PLAN_NEW)
            r = make_scratch(p, &mine);
        if (r < 0) {
            p->side[k].why = dt_strdup(mine.detail ? mine.detail : dt_err_text(r));
            dt_err_done(&mine);
            if (!p->side[k].why)
                return plan_load_nomem(e);
        }
        some |= r == 0;
    }
    if (!some)
        return dt_err_set(e, DT_E_DEVICE, "neither the plan nor the original launches can run here: %s",
                          p->side[PLAN_NEW].why);
    return 0;
}

int dovetail_plan_load(const void *document, size_t len, struct CUctx_st *context, struct dovetail_plan **ret,
                       char **ret_problem)
{
    struct dt_err e = {0};
    struct dovetail_plan *p = dt_calloc(1, sizeof *p);
    if (!p)
        return DOVETAIL_E_MEMORY;
    atomic_init(&p->refs, 1);
    pthread_mutex_init(&p->lock, NULL);
    p->ctx = context;
    int r = plan_driver(&p->cu, &e);
    if (r == 0 && !p->ctx)
        r = plan_cu(p->cu, p->cu->cuCtxGetCurrent(&p->ctx), "cuCtxGetCurrent", &e);
    if (r == 0 && !p->ctx)
        r = dt_err_set(&e, DT_E_DEVICE, "no context is current in this thread, and none was given");
    if (r == 0)
        r = read_sides(p, document, len, &e);
    if (r == 0 && (r = plan_enter(p, &e)) == 0) {
        r = load_one(p, &e);
        plan_leave(p);
    }
    if (r < 0) {
        destroy(p);
        return plan_failed(&e, ret_problem);
    }
    *ret = p;
    return 0;
}

int dovetail_plan_buffer(const struct dovetail_plan *p, unsigned number, struct dovetail_plan_buffer *ret)
{
    const struct plan_side *s = p->side;
    if (number >= p->nbuffer)
        return 0;
    const struct dt_buffer *b = &s[PLAN_NEW].graph->buffer[number];
    bool old = s[PLAN_OLD].used && s[PLAN_OLD].used[number], new = s[PLAN_NEW].used &&s[PLAN_NEW].used[number];
    *ret = (struct dovetail_plan_buffer){.name = b->name,
                                         .role = dt_role_text(b->role),
                                         .bytes = b->bytes,
                                         .align = p->align[number],
                                         .constant = b->constant,
                                         .needed = p->variable[number]       ? 0
                                                   : new && !s[PLAN_NEW].why ? 2
                                                                             : old};
    return 1;
}

int dovetail_plan_variable(struct dovetail_plan *p, const char *buffer, unsigned long long *ret_address)
{
    uint32_t b = dt_graph_find_buffer(p->side[PLAN_NEW].graph, buffer);
    if (b == DT_NAME_NONE || !p->variable[b])
        return DOVETAIL_E_REFUSED;
    *ret_address = p->variable[b];
    return 0;
}
