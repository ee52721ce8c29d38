/* The plan document of the newest state, and rw_plan, which makes it.
 *
 * Members have a fixed order; times are rounded to a thousandth of a microsecond. `after` of a launch names the
 * launches it has a hazard with, without those that another of them already waits for, and those that its rewrite put
 * there; `stream` and `programmatic` are the newest state's. The document is read back and compared with that state
 * (written.c); if they differ, the plan is the posted launches.
 *
 * `assumes`: for each buffer the alignment that its widest access needs; with `observed` evidence under a kept rewrite,
 * the SHA-256 of every constant buffer that is used. A `data-dependent` map assumes nothing, as it is a superset. So is
 * a map of addresses or guards that go through results whose bits PTX leaves open (analysis/taint/taint.c), which may
 * differ on another device; so `maps`, the device that the maps were made on, is said, and nobody need check it.
 * `machine_code`: who assembled the `cubin` of each module that is not a posted one, if an assembler is at hand.
 *
 * Modelled times have the range that they take under all doubts (compare.c), gains theirs: `range_us`, `gain_range`.
 *
 * Also in it: `timeline` (when each launch of graph and plan begins and ends, microseconds; measured steps are laid in
 * a row), `checked` and `warnings` (gate/original.c), before_us and after_us of a rewrite that was timed, assembler and
 * rewriter in `toolchain`; and, if times are measured, `measured`: how many comparisons the device made, and how many
 * the performance library decided.
 */
#include "base/base64.h"
#include "base/parallel.h"
#include "base/subject.h"
#include "rewrite/facts/hooks.h"
#include "rewrite/gate/special.h"
#include "rewrite/plan/plan-priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool plan_put(json_t *o, const char *key, json_t *v) { return v && json_object_set_new(o, key, v) == 0; }
static json_t *us(double t) { return json_real(round(t * 1000) / 1000); }

/* ndoubt: under so many doubts the state is timed; 0: it is measured. */
static json_t *timing(const struct rw_state *s, unsigned ndoubt)
{
    json_t *o = json_pack("{s:o,s:s,s:I,s:o}", "time_us", us(s->time.time_us), "method", s->time.method, "launches",
                          (json_int_t)s->graph->nlaunch, "ci95_us", us(s->time.ci95_us));
    double low = s->time.time_us, high = low;
    for (unsigned k = 0; s->doubt_us && k < ndoubt; k++) {
        low = s->doubt_us[k] < low ? s->doubt_us[k] : low;
        high = s->doubt_us[k] > high ? s->doubt_us[k] : high;
    }
    if (o && s->doubt_us && ndoubt && !plan_put(o, "range_us", json_pack("[o,o]", us(low), us(high)))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *gain_range(const double gain[2])
{
    return json_pack("[o,o]", json_real(round(gain[0] * 10000) / 10000), json_real(round(gain[1] * 10000) / 10000));
}

/* [begin, end] of every launch in microseconds. */
static json_t *timeline(const struct rw_state *s)
{
    json_t *list = json_array();
    bool ok = list;
    for (uint32_t k = 0; ok && s->begin_us && k < s->graph->nlaunch; k++)
        ok = json_array_append_new(list, json_pack("[o,o]", us(s->begin_us[k]), us(s->end_us[k]))) == 0;
    if (!ok) {
        json_decref(list);
        return NULL;
    }
    return list;
}

/* `timeline`, with the bounds of the launches where costs are known; baseline gets that of the whole. */
static json_t *timelines(struct rw_planner *p, json_t *baseline, struct dt_err *e)
{
    const struct rw_state *first = &p->state.p[0], *last = &p->state.p[p->state.n - 1];
    double bound = 0;
    json_t *o = json_pack("{s:o,s:o}", "baseline", timeline(first), "optimized", timeline(last));
    bool known = o && dev_info(p->dev)->soft && first->cost && last->cost && first->graph->nlaunch, ok = o;
    if (known)
        ok = rw_bound(p, first, &bound, e) == 0 &&
             plan_put(baseline, "bound_us", json_real(floor(bound * 1000) / 1000)) &&
             plan_put(o, "bound_us",
                      json_pack("{s:o,s:o}", "baseline", rw_bounds_json(p, first, e), "optimized",
                                rw_bounds_json(p, last, e))) &&
             plan_put(o, "sms", rw_spans_json(p, first, last, e));
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *reason(const struct rw_planner *p, const char *marked)
{
    dt_free_ char *text = dt_strdup(marked);
    return text ? json_string(p->marked ? text : dt_plain(text)) : NULL;
}

static json_t *rewrites(const struct rw_planner *p)
{
    static const char *const verdict[] = {[RW_KEPT] = "kept", [RW_REFUSED] = "refused", [RW_DROPPED] = "dropped"};
    json_t *list = json_array();
    bool ok = list;
    for (size_t k = 0; ok && k < p->entry.n; k++) {
        const struct rw_entry *x = &p->entry.p[k];
        const char *why = x->book ? x->fact : x->reason;
        if (x->book && !why)
            continue;
        json_t *o = json_object();
        ok = o && plan_put(o, "kind", json_string(x->kind)) &&
             (!x->level || plan_put(o, "level", json_string(x->level))) &&
             plan_put(o, "launches", json_incref(x->launches)) &&
             plan_put(o, "verdict", json_string(verdict[x->verdict]));
        if (ok && why)
            ok = plan_put(o, "reason", reason(p, why));
        if (ok && x->before_us > 0)
            ok = plan_put(o, "before_us", us(x->before_us)) && plan_put(o, "after_us", us(x->after_us));
        if (ok && x->verdict == RW_KEPT && x->gain[1] > 0)
            ok = plan_put(o, "gain_range", gain_range(x->gain));
        ok = ok ? json_array_append_new(list, o) == 0 : (json_decref(o), false);
    }
    if (!ok) {
        json_decref(list);
        return NULL;
    }
    return list;
}

/* ---- machine code ------------------------------------------------------------------------------------------------ */

static bool posted(const struct rw_state *first, const struct dev_module *m)
{
    for (uint32_t k = 0; k < first->graph->nmodule; k++)
        if (first->prog->module[k].len == m->len && !memcmp(first->prog->module[k].ptx, m->ptx, m->len))
            return true;
    return false;
}

static bool put_code(json_t *module, const void *p, size_t n)
{
    struct dt_str s = {0};
    char text[DT_SHA256_TEXT];
    dt_base64_encode(p, n, &s);
    bool ok = !s.failed && s.s && plan_put(module, "cubin", json_stringn(s.s, s.len)) &&
              dt_sha256_text(p, n, text) == 0 && plan_put(module, "cubin_sha256", json_string(text));
    dt_str_done(&s);
    return ok;
}

/* The module's machine code: that which was compared (machine-code.c), without its line tables. */
static int compared_code(const struct dev_module *m, const char *arch, void **ret, size_t *ret_len, struct dt_err *e)
{
    dt_free_ void *lines = NULL;
    size_t n = 0;
    int r = dev_assemble(m->ptx, m->len, arch, ret, ret_len, e);
    if (r == 0)
        r = dev_assemble_lines(m->ptx, m->len, arch, &lines, &n, e);
    if (r == 0 && !dev_same_code(*ret, *ret_len, lines, n))
        r = dt_err_set(e, DT_E_INTERNAL, "line tables change the code that the assembler makes");
    return r;
}

static void assemble_one(void *user, size_t k)
{
    const struct rw_planner *p = user;
    const struct dev_module *m = &p->state.p[p->state.n - 1].prog->module[k];
    dt_free_ void *code = NULL;
    size_t n = 0;
    struct dt_err unheard = {0}; /* whoever asks again hears of it */
    if (m->ptx && !posted(&p->state.p[0], m))
        dev_assemble(m->ptx, m->len, dev_info(p->dev)->arch, &code, &n, &unheard);
    dt_err_done(&unheard);
}

/* The results stay with the assembler (device/memo.c). */
void rw_assemble_ahead(struct rw_planner *p)
{
    dt_parallel(dt_cores() < 4 ? dt_cores() : 4, p->state.p[p->state.n - 1].graph->nmodule, assemble_one, p);
}

/* Put the machine code of each module that is not a posted one into `modules`; *ret: who made it. All of them or none:
 * where the assembler is missing, or gives up, there is none. The program's modules were assembled with line tables
 * when they were made; without them they are assembled here, side by side, if not while the plan was verified. */
static int machine_code(struct rw_planner *p, json_t *modules, json_t **ret, struct dt_err *e)
{
    const struct rw_state *first = &p->state.p[0], *last = &p->state.p[p->state.n - 1];
    const struct dev_info *d = dev_info(p->dev);
    char version[32] = "";
    uint32_t some = 0;
    int r = 0;
    rw_assemble_ahead(p);
    for (uint32_t k = 0; k < last->graph->nmodule && r == 0; k++) {
        const struct dev_module *m = &last->prog->module[k];
        json_t *o = json_object_get(modules, last->graph->module[k].name);
        dt_free_ void *code = NULL;
        size_t n = 0;
        if (!o || posted(first, m))
            continue;
        if ((r = compared_code(m, d->arch, &code, &n, e)) == 0 &&
            (!dev_assembler_of(code, n, version) || !put_code(o, code, n)))
            r = *version ? dt_err_set(e, DT_E_NOMEM, "out of memory") : DT_E_NO_COMPILER;
        some++;
    }
    for (uint32_t k = 0; k < last->graph->nmodule && r < 0; k++) {
        json_object_del(json_object_get(modules, last->graph->module[k].name), "cubin");
        json_object_del(json_object_get(modules, last->graph->module[k].name), "cubin_sha256");
    }
    if (r < 0 && r != DT_E_NOMEM) {
        dt_err_done(e);
        return 0;
    }
    if (r == 0 && some &&
        !(*ret = json_pack("{s:s,s:s,s:s}", "assembler", "nvJitLink", "version", version, "arch", d->arch)))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    return r;
}

static json_t *assumes(const struct rw_planner *p, const struct rw_state *s, const struct dev_info *d, json_t *code,
                       struct dt_err *e)
{
    const struct dt_graph *g = s->graph;
    json_t *o = json_object(), *align = json_object(), *constant = json_object();
    uint32_t *width = dt_calloc(g->nbuffer + 1, sizeof *width);
    bool ok = o && align && constant && width;
    for (uint32_t l = 0; ok && l < g->nlaunch; l++)
        for (uint32_t k = 0; k < s->ana->launch[l].naccess; k++) {
            const struct ana_access *a = &s->ana->launch[l].access[k];
            uint32_t w = a->max_width ? a->max_width : 1;
            if (w > width[a->buffer])
                width[a->buffer] = w;
        }
    for (uint32_t k = 0; ok && k < g->nbuffer; k++) {
        if (width[k])
            ok = plan_put(align, g->buffer[k].name, json_integer(width[k]));
        if (!ok || !g->buffer[k].constant || !width[k] || s->evidence != ANA_OBSERVED)
            continue;
        char text[DT_SHA256_TEXT];
        uint8_t *bytes = dt_malloc(g->buffer[k].bytes + 1);
        ok = bytes != NULL;
        if (ok) {
            dt_fill_bytes(&g->buffer[k], 0, bytes);
            ok = dt_sha256_text(bytes, g->buffer[k].bytes, text) == 0 &&
                 plan_put(constant, g->buffer[k].name, json_string(text));
        }
        free(bytes);
    }
    ok = ok && plan_put(o, "align", json_incref(align)) && plan_put(o, "constant", json_incref(constant)) &&
         plan_put(o, "evidence", json_string(ana_evidence_text(s->evidence))) &&
         plan_put(o, "memory", rw_memory_json(p)) &&
         plan_put(o, "maps", json_pack("{s:s, s:s}", "name", d->name, "kind", dev_kind(d))) &&
         (!code || plan_put(o, "machine_code", json_incref(code)));
    json_decref(align);
    json_decref(constant);
    free(width);
    if (!ok) {
        json_decref(o);
        dt_err_set(e, DT_E_NOMEM, "out of memory");
        return NULL;
    }
    return o;
}

/* The launches that launch i must follow, without those that another one of them follows; and what the state's document
 * says. */
static json_t *plan_after(const struct rw_state *s, uint32_t i)
{
    const struct dt_launch *l = &s->graph->launch[i];
    json_t *list = json_array();
    bool ok = list;
    for (uint32_t x = 0; ok && x < i; x++) {
        /* an event between the two would make it an ordinary launch */
        bool said = false, covered = l->programmatic || !ana_find_edge(s->ana, x, i);
        for (uint32_t k = 0; k < l->nafter && !said; k++)
            said = !strcmp(l->after[k], s->graph->launch[x].name);
        for (uint32_t y = x + 1; y < i && !covered && !said; y++)
            covered = ana_find_edge(s->ana, x, y) && ana_find_edge(s->ana, y, i);
        if (said || !covered)
            ok = json_array_append_new(list, json_string(s->graph->launch[x].name)) == 0;
    }
    if (!ok) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *plan_launches(const struct rw_state *s)
{
    json_t *list = json_array();
    bool ok = list;
    for (uint32_t k = 0; ok && k < s->graph->nlaunch; k++) {
        json_t *o = dt_launch_to_json(s->graph, &s->graph->launch[k]);
        ok = o && plan_put(o, "stream", json_integer(s->graph->launch[k].stream)) &&
             plan_put(o, "after", plan_after(s, k)) &&
             plan_put(o, "programmatic", json_boolean(s->graph->launch[k].programmatic));
        ok = ok ? json_array_append_new(list, o) == 0 : (json_decref(o), false);
    }
    if (!ok) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *toolchain(const struct dev_info *d)
{
    json_t *o = json_object();
    char driver[32];
    snprintf(driver, sizeof driver, "%s %d.%d", dev_kind(d), d->driver_version / 1000, d->driver_version % 1000 / 10);
    const char *nvrtc = dev_nvrtc_version(), *link = dev_nvjitlink_version();
    if (!o || !plan_put(o, "dovetail", json_string(DOVETAIL_VERSION)) ||
        !plan_put(o, "rewriter", json_string(RW_VERSION)) ||
        !plan_put(o, "nvrtc", nvrtc ? json_string(nvrtc) : json_null()) ||
        !plan_put(o, "nvjitlink", link ? json_string(link) : json_null()) ||
        !plan_put(o, "driver", json_string(driver))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* The posted launches, for a program that has to go back to them; of their modules (PTX) those that are not the plan's
 * too. Takes `posted` apart. */
static json_t *original(json_t *posted, const json_t *plan_modules)
{
    json_t *modules = json_object_get(posted, "modules"), *o = json_object(), *v;
    const char *name;
    void *next;
    bool ok = o && modules;
    json_object_foreach_safe (modules, next, name, v)
        if (ok && json_equal(v, json_object_get(plan_modules, name)))
            ok = json_object_del(modules, name) == 0;
    if (!ok || !plan_put(o, "modules", json_incref(modules)) ||
        !plan_put(o, "launches", json_incref(json_object_get(posted, "launches")))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* `bitwise` may be said of what was compared, or is the same launches; not where there is nothing to compare, or what a
 * launch leaves is luck. */
static json_t *verified(const struct rw_planner *p)
{
    bool same = p->state.n == 1, clean = !p->gate.original.races && rw_has_outputs(p->state.p[0].graph);
    json_t *o = same ? json_pack("{s:b,s:b}", "bitwise", clean, "unchanged", 1)
                     : json_pack("{s:b,s:I,s:I,s:s}", "bitwise", clean && p->verified_inputs > 0, "inputs",
                                 (json_int_t)p->verified_inputs, "schedules", (json_int_t)p->verified_schedules,
                                 "device", dev_kind(dev_info(p->dev)));
    bool ok = o && (!p->gate.original.races || plan_put(o, "races", json_true()));
    if (ok && !same && p->sampled[1])
        ok = plan_put(o, "sampled",
                      json_pack("{s:I,s:I}", "blocks", (json_int_t)p->sampled[0], "of", (json_int_t)p->sampled[1]));
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    if (o && !same && p->by_region &&
        !plan_put(o, "by_region",
                  json_pack("{s:i,s:i,s:i,s:i,s:i}", "inputs", (int)p->verified_inputs - 1, "regions",
                            (int)p->gate.regions.n, "distinct", (int)p->gate.regions.distinct, "spared",
                            (int)p->gate.regions.spared, "parts", (int)p->gate.regions.parts))) {
        json_decref(o);
        return NULL;
    }
    const struct rw_special *s = same || !p->gate.ref || p->verified_inputs < 2 ? NULL
                                 : p->by_region                                 ? p->gate.regions.special
                                                                                : rw_reference_special(p->gate.ref);
    if (o && s && !plan_put(o, "special", rw_special_json(s))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* Which checks the posted launches ran under, and how much of them. */
static json_t *plan_checked(const struct rw_original *o)
{
    return json_pack("{s:[s,s],s:I,s:I}", "modes", "race", "uninit", "blocks", (json_int_t)o->blocks, "of",
                     (json_int_t)o->of);
}

json_t *rw_plan_json(struct rw_planner *p, struct dt_err *e)
{
    struct rw_state *first = &p->state.p[0], *last = &p->state.p[p->state.n - 1];
    const struct dev_info *d = dev_info(p->dev);
    double gain[2];
    unsigned n = 0;
    rw_not_guessed(last); /* the last ones may be gone */
    rw_warn_lockstep(p);
    if (rw_gain(p, first, last, gain, e) < 0)
        return NULL;
    while (!rw_measures(p) && dev_doubt(p->dev, n, &(bool){false}))
        n++;
    json_t *doc = json_object(), *ptx = rw_graph_ptx(last->prog), *mine = rw_graph_ptx(first->prog), *scratch;
    json_t *code = NULL, *stopped = NULL;
    bool ok = doc && ptx && mine && machine_code(p, json_object_get(ptx, "modules"), &code, e) == 0;
    ok = ok && plan_put(doc, "dovetail", json_integer(1)) &&
         plan_put(doc, "name", json_incref(json_object_get(ptx, "name"))) &&
         plan_put(doc, "signature", p->signature ? json_string(p->signature) : json_null()) &&
         plan_put(doc, "device", dev_info_to_json(d)) && plan_put(doc, "toolchain", toolchain(d)) &&
         plan_put(doc, "baseline", timing(first, n)) && plan_put(doc, "optimized", timing(last, n)) &&
         (!(gain[1] > 0) || plan_put(doc, "gain_range", gain_range(gain))) &&
         plan_put(doc, "timeline", timelines(p, json_object_get(doc, "baseline"), e)) &&
         plan_put(doc, "rewrites", rewrites(p)) && plan_put(doc, "assumes", assumes(p, last, d, code, e)) &&
         plan_put(doc, "verified", verified(p)) &&
         (!p->gate.original.seen || plan_put(doc, "checked", plan_checked(&p->gate.original))) &&
         rw_budget_json(p, &stopped, e) == 0 && (!stopped || plan_put(doc, "stopped", json_incref(stopped))) &&
         dt_warnings_put(&p->gate.original.warn, doc) == 0 &&
         (!rw_measures(p) ||
          plan_put(doc, "measured",
                   json_pack("{s:I,s:I}", "comparisons", (json_int_t)p->measured, "library", (json_int_t)p->known))) &&
         plan_put(doc, "modules", json_incref(json_object_get(ptx, "modules")));
    if (ok) {
        scratch = json_object_get(ptx, "scratch");
        ok = plan_put(doc, "scratch", scratch ? json_incref(scratch) : json_object()) &&
             plan_put(doc, "launches", plan_launches(last)) &&
             plan_put(doc, "buffers", json_incref(json_object_get(mine, "buffers"))) &&
             (first == last || plan_put(doc, "original", original(mine, json_object_get(ptx, "modules"))));
    }
    json_decref(stopped);
    json_decref(code);
    json_decref(ptx);
    json_decref(mine);
    if (!ok) {
        json_decref(doc);
        dt_err_set(e, DT_E_NOMEM, "out of memory");
        return NULL;
    }
    return doc;
}

/* What was verified is not what is written: a bug of ours. Nothing is changed, and what was kept says why. */
static void take_all_back(struct rw_planner *p, const char *why)
{
    for (; p->state.n > 1; p->state.n--) {
        struct rw_state *s = &p->state.p[p->state.n - 1];
        struct rw_entry *x = &p->entry.p[s->entry];
        struct dt_str text = {0};
        dt_str_addf(&text, DT_ROW("internal") ": the plan as it was written is not the one that was verified: %s", why);
        free(x->reason);
        x->reason = dt_str_take(&text);
        x->verdict = RW_REFUSED;
        rw_state_done(s);
    }
    p->verified_inputs = p->verified_schedules = 0;
}

static void spoil(const struct rw_planner *p, json_t *doc)
{
    json_t *l;
    size_t i;
    json_array_foreach (json_object_get(doc, "launches"), i, l)
        if (RW_SPOILT("written") && p->state.n > 1)
            json_object_del(l, "after");
}

/* The document, read back (written.c). */
static int write_down(struct rw_planner *p, json_t **ret, struct dt_err *e)
{
    for (;;) {
        struct dt_str why = {0};
        json_t *doc = rw_plan_json(p, e);
        if (!doc)
            return DT_E_NOMEM;
        spoil(p, doc);
        int r = rw_written(doc, &p->state.p[p->state.n - 1], &why, e);
        if (r != 1)
            json_decref(doc);
        if (r == 0 && p->state.n == 1)
            r = dt_err_set(e, DT_E_INTERNAL, "the posted launches, as the plan has them, are others: %s",
                           why.s ? why.s : "");
        if (r == 0)
            take_all_back(p, why.s ? why.s : "");
        dt_str_done(&why);
        if (r < 0)
            return r;
        if (r) {
            *ret = doc;
            return 0;
        }
    }
}

static void planner_done(struct rw_planner *p)
{
    for (size_t k = p->state.n; k-- > 0;)
        rw_state_done(&p->state.p[k]);
    rw_entries_free(&p->entry);
    for (size_t k = 0; k < p->ban.n; k++)
        json_decref(p->ban.p[k].launches);
    free(p->ban.p);
    rw_sure_done(p);
    rw_alike_done(p);
    rw_gate_done(&p->gate);
    free(p->state.p);
    rw_state_done(&p->called);
    rw_state_done(&p->apart);
    rw_state_done(&p->moved);
    rw_calls_done(&p->calls);
    rw_versions_done(&p->versions);
    dt_str_done(&p->no_calls);
    rw_copies_done(&p->copies);
    dt_str_done(&p->no_copies);
    dt_str_done(&p->no_versions);
    dt_str_done(&p->strayed);
}

/* 1: `recipe` does not lead to a plan, `why` says so. recipe, ret_recipe, why: as in the calls below, or NULL. */
static int plan_one(struct dev_device *d, const struct dev_prog *prog, const struct ana_result *a,
                    const struct rw_options *o, const char *signature, const json_t *recipe, json_t **ret_plan,
                    json_t **ret_recipe, struct dt_str *why, struct dt_err *e)
{
    static const struct rw_options defaults;
    /* a recipe that strays leaves some of it */
    uint64_t began_us = dt_now_us();
    unsigned measured = 0;
    struct dt_str no_calls = {0}, no_versions = {0}, no_copies = {0};
    double apart_us = 0;
    for (bool no_library = false, as_posted = false;;) {
        struct rw_planner p = {.dev = d,
                               .opt = o ? o : &defaults,
                               .signature = signature,
                               .recipe = recipe,
                               .marked = ret_recipe,
                               .measured = measured,
                               .as_posted = as_posted,
                               .no_calls = no_calls,
                               .no_versions = no_versions,
                               .no_copies = no_copies,
                               .apart_us = apart_us};
        struct rw_state s = {.borrowed = true};
        rw_budget_begin(&p, p.opt->budget_s * (recipe ? 0.5 : 1), began_us);
        rw_gate_init(&p.gate, d, p.opt, prog);
        p.gate.no_library = no_library;
        /* the state owns none of the three; the casts only share the struct with states that do */
        s.graph = (struct dt_graph *)prog->graph;
        s.prog = (struct dev_prog *)prog;
        s.ana = (struct ana_result *)a;
        if (!dt_push(&p.state, s))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        int r = rw_choose(&p, e);
        /* the library was wrong, or normal form was no good */
        bool again = r == 0 && p.again && (!no_library || !as_posted);
        no_library |= again && p.as_posted == as_posted;
        as_posted = p.as_posted;
        no_calls = no_versions = no_copies = (struct dt_str){0};
        if (again) {
            no_calls = p.no_calls;
            p.no_calls = (struct dt_str){0};
            no_copies = p.no_copies;
            p.no_copies = (struct dt_str){0};
            no_versions = p.no_versions;
            apart_us = p.apart_us;
            p.no_versions = (struct dt_str){0};
        }
        measured = p.measured;
        json_t *doc = NULL, *steps = NULL;
        if (r == 0 && !again && !p.strayed.len)
            r = write_down(&p, &doc, e);
        if (r == 0 && !again && recipe)
            rw_followed(&p);
        bool strayed = r == 0 && !again && p.strayed.len;
        if (strayed)
            dt_str_add(why, p.strayed.s);
        if (doc && !strayed && ret_recipe && !(steps = rw_recipe_json(&p)))
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
        planner_done(&p);
        if (again)
            continue;
        if (r < 0 || strayed) {
            json_decref(doc);
            return r < 0 ? r : 1;
        }
        *ret_plan = doc;
        if (ret_recipe)
            *ret_recipe = steps;
        return 0;
    }
}

int rw_plan(struct dev_device *d, const struct dev_prog *prog, const struct ana_result *a, const struct rw_options *o,
            const char *signature, json_t **ret_plan, struct dt_err *e)
{
    return plan_one(d, prog, a, o, signature, NULL, ret_plan, NULL, NULL, e);
}

int rw_plan_recipe(struct dev_device *d, const struct dev_prog *prog, const struct ana_result *a,
                   const struct rw_options *o, const char *signature, json_t **ret_plan, json_t **ret_recipe,
                   struct dt_err *e)
{
    return plan_one(d, prog, a, o, signature, NULL, ret_plan, ret_recipe, NULL, e);
}

int rw_plan_by(struct dev_device *d, const struct dev_prog *prog, const struct ana_result *a,
               const struct rw_options *o, const char *signature, const json_t *recipe, json_t **ret_plan,
               json_t **ret_recipe, struct dt_str *why, struct dt_err *e)
{
    return plan_one(d, prog, a, o, signature, recipe, ret_plan, ret_recipe, why, e);
}
