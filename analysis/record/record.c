/* ana_run: runs the graph, instrumented, and reads the footprints of every launch.
 *
 * Each module of the graph has one instrumented module with all variants of its entries (plan.c), so that module
 * variables stay one instance. Launches run in program order on real fills. Where content matters (constant buffers,
 * launches that run whole), a launch reads what it would read in the graph.
 *
 * A kernel launch is summarised (offline.c), or recorded by launch.c; a memset or copy step is one block, and exact. A
 * write to a weight or constant buffer is refused, with the names of launch and buffer.
 */
#include "analysis/maps/maps.h"
#include "analysis/record/record-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "base/str.h"

#define DEFAULT_BYTES (UINT64_C(4) << 30)
#define DEFAULT_SOFT_BYTES (UINT64_C(1) << 30) /* there, device memory is the host's */

/* ---- modules ----------------------------------------------------------------------------------------------------- */
/* Does a launch run variant k? */
static bool runs(const struct ana_rec *s, uint32_t k)
{
    for (uint32_t l = 0; l < s->g->nlaunch; l++)
        if (s->g->launch[l].kind == DT_KERNEL && !reused(s, l) && s->of[l] == k && !s->summed[l])
            return true;
    return false;
}

/* The module's text without entries, and what the variants need besides. */
static int print_rest(struct ana_rec *s, uint32_t i, bool talks, struct dt_str *text)
{
    const struct ptx_module *ir = s->p->module[i].ir;
    struct ptx_module m = *ir; /* only its list of functions differs */
    m.func = dt_new_array(&s->tmp, struct ptx_function *, (size_t)ir->nfunc + 1);
    if (!m.func)
        return DT_E_NOMEM;
    m.nfunc = 0;
    for (uint32_t k = 0; k < ir->nfunc; k++)
        if (!ir->func[k]->is_entry)
            m.func[m.nfunc++] = ir->func[k];
    static const char *const mine[] = {ANA_CTL, DOVETAIL_TOUCH};
    for (unsigned k = 0; k < 2; k++)
        if (ptx_find_function(ir, mine[k]) || ptx_find_var(ir, mine[k]))
            return dt_err_set(s->e, DT_E_UNSUPPORTED, "module %s: the name %s is the recorder's", s->g->module[i].name,
                              mine[k]);
    int rc = ptx_print(&m, text);
    if (talks)
        dt_str_addf(text, "\n.visible .global .align 8 .b64 " ANA_CTL "[%u];\n", (unsigned)sizeof(struct ana_ctl) / 8);
    if (s->native)
        dt_str_add(text, "\n.extern .func " DOVETAIL_TOUCH
                         " (.param .b64 address, .param .b64 offset, .param .b32 site, .param .b32 how);\n");
    return rc;
}

/* The instrumented module: the rest of it, and the variants. */
static int load_module(struct ana_rec *s, uint32_t i)
{
    struct dt_str text = {0};
    bool talks = !s->native;
    for (uint32_t k = 0; k < s->variant.n; k++)
        talks |= s->variant.p[k].module == i && runs(s, k) && s->variant.p[k].code.talks;
    int rc = print_rest(s, i, talks, &text);
    for (uint32_t k = 0; k < s->variant.n && !rc; k++) {
        struct ana_variant *v = &s->variant.p[k];
        if (v->module != i || !runs(s, k))
            continue;
        rc = ana_instrument_text(&v->code, v->name, v->threads, s->native, s->e);
        if (rc)
            break;
        s->sliced |= v->code.sliced;
        dt_str_addc(&text, '\n');
        dt_str_add(&text, v->code.text);
    }
    if (!rc && text.failed)
        rc = DT_E_NOMEM;
    uint64_t bytes;
    if (!rc)
        rc = dev_module_load(s->d, text.s, text.len, &s->mod[i].handle, s->e);
    if (!rc && talks)
        rc = dev_module_variable(s->d, s->mod[i].handle, ANA_CTL, &s->mod[i].ctl, &bytes, s->e);
    dt_str_done(&text);
    return rc;
}

/* Addresses of all buffers; variables of instrumented modules get what the run's have. */
static int place_buffers(struct ana_rec *s)
{
    int rc = 0;
    for (uint32_t b = 0; b < s->g->nbuffer && !rc; b++) {
        const struct dt_buffer *x = &s->g->buffer[b];
        if (x->module < 0 || !s->mod[x->module].handle) {
            rc = dev_run_buffer(s->run, b, &s->addr[b]);
            if (rc)
                dt_err_set(s->e, rc, "buffer %s has no memory", x->name);
            continue;
        }
        uint64_t bytes;
        rc = dev_module_variable(s->d, s->mod[x->module].handle, x->variable, &s->addr[b], &bytes, s->e);
        if (!rc && bytes < x->bytes)
            rc = dt_err_set(s->e, DT_E_GRAPH, "buffer %s is larger than its variable", x->name);
        void *p = rc ? NULL : dt_malloc(x->bytes ? x->bytes : 1);
        if (!rc)
            rc = p ? dev_run_download(s->run, b, p, s->e) : DT_E_NOMEM;
        if (!rc)
            rc = dev_upload(s->d, s->addr[b], p, x->bytes, s->e);
        free(p);
    }
    return rc;
}

/* ---- memset and copy --------------------------------------------------------------------------------------------- */
static int copy_bytes(struct ana_rec *s, const struct dt_launch *l)
{
    bool whole = l->src == l->dst; /* may overlap */
    uint64_t n = whole || l->bytes < ANA_CHUNK ? l->bytes : ANA_CHUNK;
    uint8_t *buf = dt_malloc(n ? n : 1);
    int rc = buf ? 0 : DT_E_NOMEM;
    for (uint64_t at = 0; at < l->bytes && !rc; at += n) {
        uint64_t k = l->bytes - at < n ? l->bytes - at : n;
        rc = dev_download(s->d, buf, s->addr[l->src] + l->src_offset + at, k, s->e);
        if (!rc)
            rc = dev_upload(s->d, s->addr[l->dst] + l->dst_offset + at, buf, k, s->e);
    }
    free(buf);
    return rc;
}

static int record_step(struct ana_rec *s, uint32_t launch, struct ana_foot *foot)
{
    const struct dt_launch *l = &s->g->launch[launch];
    if (protected_buffer(s, l->dst))
        return refuse_write(s, l, l->dst);
    struct ana_interval to = {l->dst_offset, l->dst_offset + l->bytes},
                        from = {l->src_offset, l->src_offset + l->bytes};
    uint32_t n = l->bytes ? 1 : 0;
    int rc = ana_foot_add(foot, 0, l->dst, ANA_WRITE, ANA_PROVED, &to, n);
    if (!rc && l->kind == DT_COPY)
        rc = ana_foot_add(foot, 0, l->src, ANA_READ, ANA_PROVED, &from, n);
    if (rc || !n || !s->device)
        return rc;
    return l->kind == DT_COPY ? copy_bytes(s, l)
                              : dev_set(s->d, s->addr[l->dst] + l->dst_offset, l->value, l->bytes, s->e);
}

/* ---- the whole graph --------------------------------------------------------------------------------------------- */
/* Memory of all buffers, and content of those whose content matters: of launches that run whole, and constant ones. The
 * run launches nothing: its modules are not loaded. */
static int prepare_run(struct ana_rec *s)
{
    const struct dt_graph *g = s->g;
    bool *none = dt_new_array(&s->tmp, bool, (size_t)g->nlaunch + 1);
    bool *filled = dt_new_array(&s->tmp, bool, (size_t)g->nbuffer + 1);
    if (!none || !filled)
        return DT_E_NOMEM;
    for (uint32_t b = 0; b < g->nbuffer; b++)
        filled[b] = g->buffer[b].module >= 0;
    for (uint32_t i = 0; i < g->nlaunch; i++) {
        const struct dt_launch *l = &g->launch[i];
        bool is_kernel = l->kind == DT_KERNEL;
        if (reused(s, i) || (is_kernel && s->summed[i]))
            continue;
        if (l->kind == DT_COPY)
            filled[l->src] = true;
        if (!is_kernel)
            filled[l->dst] = true;
        for (uint32_t k = 0; is_kernel && k < l->narg; k++)
            for (uint32_t j = 0; j < arg_buffers(&l->arg[k], NULL, 0); j++) {
                uint32_t b = arg_buffer(&l->arg[k], j);
                filled[b] |= g->buffer[b].constant || !s->variant.p[s->of[i]].code.sliced;
            }
    }
    int rc = dev_run_new_for(s->d, s->p, none, &s->run, s->e);
    for (uint32_t b = 0; b < g->nbuffer && !rc; b++)
        if (filled[b])
            rc = dev_run_fill_buffer(s->run, b, 0, -1, s->e);
    return rc;
}

static int record_prepare(struct ana_rec *s)
{
    const struct dt_graph *g = s->g;
    s->mod = dt_new_array(&s->tmp, struct ana_mod, (size_t)g->nmodule + 1);
    s->of = dt_new_array(&s->tmp, uint32_t, (size_t)g->nlaunch + 1);
    s->addr = dt_new_array(&s->tmp, dev_ptr, (size_t)g->nbuffer + 1);
    s->bytes = dt_new_array(&s->tmp, uint64_t, (size_t)g->nbuffer + 1);
    s->r->launch = dt_new_array(&s->r->arena, struct ana_launch, (size_t)g->nlaunch + 1);
    s->summed = dt_new_array(&s->tmp, bool, (size_t)g->nlaunch + 1);
    s->like = dt_new_array(&s->tmp, uint32_t, (size_t)g->nlaunch + 1);
    if (s->o->memo && !s->o->no_slice && !s->o->no_summary) {
        s->memo.key = dt_arena_array(&s->tmp, (size_t)g->nlaunch + 1, sizeof *s->memo.key);
        s->memo.content = dt_arena_array(&s->tmp, (size_t)g->nbuffer + 1, sizeof *s->memo.content);
    }
    if (s->tmp.failed || !s->r->launch)
        return DT_E_NOMEM;
    memset(s->like, 0xff, g->nlaunch * sizeof *s->like);
    for (uint32_t b = 0; b < g->nbuffer; b++)
        s->bytes[b] = g->buffer[b].bytes;
    int rc = ana_plan_variants(s);
    if (!rc && !s->o->no_slice && !s->o->no_summary)
        rc = ana_record_offline(s);
    for (uint32_t k = 0; k < s->variant.n; k++)
        s->device |= runs(s, k);
    if (rc || !s->device)
        return rc;
    if (s->o->offline)
        return dt_err_set(s->e, DT_E_UNSUPPORTED, "a launch has to run");
    rc = prepare_run(s);
    for (uint32_t i = 0; i < g->nmodule && !rc; i++) {
        bool used = false;
        for (uint32_t k = 0; k < s->variant.n; k++)
            used |= s->variant.p[k].module == i && runs(s, k);
        if (used)
            rc = load_module(s, i);
    }
    if (!rc)
        rc = place_buffers(s);
    if (!rc)
        rc = dev_alloc(s->d, sizeof(struct ana_fault), &s->err, s->e);
    return rc;
}

static int record(struct ana_rec *s)
{
    const struct dt_graph *g = s->g;
    int rc = record_prepare(s);
    /* it ran as its slice, and nothing was given up */
    bool *certain = dt_new_array(&s->tmp, bool, (size_t)g->nlaunch + 1);
    rc = rc || certain ? rc : DT_E_NOMEM;
    for (uint32_t i = 0; i < g->nlaunch && !rc; i++) {
        bool is_kernel = g->launch[i].kind == DT_KERNEL;
        if (reused(s, i)) {
            s->r->launch[i] = s->o->base->launch[s->o->same[i]];
            continue;
        }
        if (s->o->progress)
            s->o->progress("analyze", g->launch[i].name, i, g->nlaunch, s->o->user);
        if (s->summed[i])
            continue;
        if (s->like[i] != UINT32_MAX && certain[s->like[i]]) {
            const char *why = s->r->launch[i].unsummarised;
            rc = ana_take_like(s, i);
            s->r->launch[i].unsummarised = why;
            continue;
        }
        s->over = 0;
        struct ana_foot *foot = ana_foot_new(&s->r->arena, is_kernel ? s->p->step[i].blocks : 1, g->nbuffer, s->bytes);
        rc = !foot ? DT_E_NOMEM : is_kernel ? ana_record_kernel(s, i, foot) : record_step(s, i, foot);
        const char *why = s->r->launch[i].unsummarised;
        if (!rc)
            rc = ana_foot_finish(foot, &s->r->launch[i], s->e);
        s->r->launch[i].unsummarised = why;
        ana_foot_free(foot);
        certain[i] = !rc && is_kernel && s->variant.p[s->of[i]].code.sliced && !s->over;
        if (certain[i] && s->memo.key)
            ana_memo_keep(s, i);
    }
    return rc;
}

static void done(struct ana_rec *s)
{
    for (uint32_t i = 0; s->mod && i < s->g->nmodule; i++)
        if (s->mod[i].handle)
            dev_module_unload(s->d, s->mod[i].handle);
    for (uint32_t i = 0; i < s->variant.n; i++)
        ana_code_done(&s->variant.p[i].code);
    free(s->variant.p);
    if (s->arena)
        dev_free(s->d, s->arena);
    if (s->tab)
        dev_free(s->d, s->tab);
    if (s->err)
        dev_free(s->d, s->err);
    if (s->log)
        dev_free(s->d, s->log);
    dev_run_free(s->run);
    dt_arena_done(&s->tmp);
}

unsigned ana_threads(const struct ana_options *o, uint64_t work)
{
    return o->threads ? o->threads : work >> 17 ? dt_cores() : 1;
}

static int record_run(struct dev_device *d, const struct dev_prog *p, const struct ana_options *o,
                      struct ana_result **ret, bool *ret_again, struct dt_err *e)
{
    struct ana_result *r = dt_calloc(1, sizeof *r);
    if (!r)
        return dt_err_set(e, DT_E_NOMEM, "no memory for an analysis");
    r->prog = p;
    struct ana_rec s = {.d = d, .p = p, .g = p->graph, .o = o, .r = r, .native = o->way == ANA_WAY_NATIVE, .e = e};
    s.limit = s.o->max_bytes ? s.o->max_bytes : dev_info(d)->soft ? DEFAULT_SOFT_BYTES : DEFAULT_BYTES;
    int rc = record(&s);
    done(&s);
    *ret_again = rc && s.sliced && s.found;
    if (!rc && s.o->progress)
        s.o->progress("maps", "", p->graph->nlaunch, p->graph->nlaunch, s.o->user);
    struct ana_base base = {s.o->base, s.o->base ? s.o->base->prog->graph->nlaunch : 0, s.o->same};
    if (!rc)
        rc = ana_maps(r, p->graph->nlaunch, p->graph->nbuffer, s.o->all_edges, s.o->base ? &base : NULL, e);
    if (rc) {
        ana_free(r);
        return dt_err_set(e, rc, "the analysis failed");
    }
    *ret = r;
    return 0;
}

static int choose_way(const struct dev_device *d, struct ana_options *o, struct dt_err *e)
{
    const char *want = getenv("DOVETAIL_RECORDER");
    if (o->way == ANA_WAY_ANY && want && *want) {
        if (strcmp(want, "instrumented") && strcmp(want, "native"))
            return dt_err_set(e, DT_E_USAGE, "DOVETAIL_RECORDER is \"instrumented\" or \"native\", not \"%.60s\"",
                              want);
        o->way = *want == 'i' ? ANA_WAY_INSTRUMENTED : ANA_WAY_NATIVE;
    }
    if (o->way == ANA_WAY_ANY)
        o->way = dev_records(d) ? ANA_WAY_NATIVE : ANA_WAY_INSTRUMENTED;
    return o->way == ANA_WAY_NATIVE && !dev_records(d)
               ? dt_err_set(e, DT_E_UNSUPPORTED, "the native recorder needs the software device")
               : 0;
}

int ana_run(struct dev_device *d, const struct dev_prog *p, const struct ana_options *o, struct ana_result **ret,
            struct dt_err *e)
{
    struct ana_options mine = o ? *o : (struct ana_options){0};
    struct dt_err first = {0};
    bool again = false;
    int rc = choose_way(d, &mine, e);
    if (rc)
        return rc;
    rc = record_run(d, p, &mine, ret, &again, &first);
    if (again) { /* what is wrong is said by the whole launches: a slice may have left out what comes first */
        mine.no_slice = true;
        dt_err_done(&first);
        first = (struct dt_err){0};
        rc = record_run(d, p, &mine, ret, &again, &first);
    }
    dt_err_move(e, &first);
    return rc;
}

struct ana_result *ana_free(struct ana_result *r)
{
    if (r)
        dt_arena_done(&r->arena);
    free(r);
    return NULL;
}
