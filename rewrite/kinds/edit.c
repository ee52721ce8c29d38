/* Edits: a set S of launches of the newest state, and the launches T that stand in their place.
 *
 *   propose   the rewrite lists sets S with what they promise (rw_propose)
 *   open      facts and legality of one of them
 *   build     T, at a level: launch documents with the text of their modules (rw_edit_add)
 *   close     the rewrite's own data goes
 *
 * The planner (plan/choose.c) does this for every rewrite alike; document.c writes the new graph down. An edit refers
 * to the state and does not change it. The EDIT rows of legal.def, which every edit is asked before `open`, are here as
 * well.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/kinds/kinds.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

int rw_edit_init(struct rw_edit *x, const struct rw_rewrite *w, const struct dev_info *dev, const struct rw_options *o,
                 const struct rw_state *now, const uint32_t *launch, uint32_t n, struct dt_err *e)
{
    static const struct rw_options defaults;
    *x = (struct rw_edit){.kind = w, .dev = dev, .opt = o ? o : &defaults, .now = now, .nlaunch = n};
    x->launch = dt_new_array(&x->arena, uint32_t, n + 1);
    if (!x->launch) {
        rw_edit_done(x);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    memcpy(x->launch, launch, n * sizeof *launch);
    return 0;
}

void rw_edit_clear(struct rw_edit *x)
{
    for (size_t k = 0; k < x->part.n; k++) {
        json_decref(x->part.p[k].launch);
        dt_str_done(&x->part.p[k].ptx);
    }
    x->part.n = x->unread.n = x->scratch.n = 0;
    dt_str_done(&x->hint);
}

void rw_edit_done(struct rw_edit *x)
{
    rw_edit_clear(x);
    free(x->part.p);
    free(x->unread.p);
    free(x->scratch.p);
    dt_arena_done(&x->arena);
    memset(x, 0, sizeof *x);
}

struct rw_part *rw_edit_add(struct rw_edit *x, json_t *launch)
{
    struct rw_part part = {.launch = launch, .same = UINT32_MAX};
    if (!launch || !dt_push(&x->part, part)) {
        json_decref(launch);
        return NULL;
    }
    return &x->part.p[x->part.n - 1];
}

int rw_edit_scratch(struct rw_edit *x, const char *name, uint64_t bytes)
{
    struct rw_scratch s = {.bytes = bytes};
    snprintf(s.name, sizeof s.name, "%s", name);
    return dt_push(&x->scratch, s) ? 0 : DT_E_NOMEM;
}

int rw_propose(struct rw_proposals *l, const uint32_t *launch, uint32_t n, uint32_t size, uint64_t bytes)
{
    struct rw_promise v = {
        .launch = dt_new_array(&l->arena, uint32_t, n + 1), .nlaunch = n, .size = size, .bytes = bytes};
    if (!v.launch)
        return DT_E_NOMEM;
    memcpy(v.launch, launch, n * sizeof *launch);
    return dt_push(&l->v, v) ? 0 : DT_E_NOMEM;
}

/* ---- what every edit is asked (the EDIT rows of legal.def) ------------------------------------------------------- */

bool rw_is_racy(const struct rw_state *s, uint32_t launch) { return s->racy && s->racy[launch] && !rw_off("racy"); }

/* The row of legal.def. */
static bool rw_edit_racy(const struct rw_edit *x, struct dt_str *why)
{
    for (uint32_t k = 0; k < x->nlaunch; k++)
        if (rw_is_racy(x->now, x->launch[k])) {
            dt_str_addf(why, DT_LAUNCH " races with itself", x->now->graph->launch[x->launch[k]].name);
            return false;
        }
    return true;
}

bool rw_edit_legal(const struct rw_edit *x, struct dt_str *why)
{
    static const struct {
        const char *name;
        bool (*fn)(const struct rw_edit *x, struct dt_str *why);
    } row[] = {
#define EDIT(NAME, text) {#NAME, rw_edit_##NAME},
#include "rewrite/legal.def"
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        struct dt_str s = {0};
        bool ok = rw_off(row[k].name) || row[k].fn(x, &s);
        if (!ok) {
            dt_add_row(why, row[k].name);
            dt_str_addf(why, ": %s", s.s ? s.s : "it does not hold");
        }
        dt_str_done(&s);
        if (!ok)
            return false;
    }
    return true;
}
