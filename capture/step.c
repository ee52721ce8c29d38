/* Which operations are the step: the whole run, or the repeated part of it.
 *
 * Two operations are alike if they are of one kind and do the same work whatever their addresses are: the kernel, its
 * geometry, the bytes of a copy. The repeated step is the period p and the stretch of the run in which every operation
 * is like the one p before it, such that the stretch is the longest; of equally long ones the shortest period. (A model
 * of twelve equal layers that runs ten times repeats its layers, too; its steps cover more.) Where a pass begins, the
 * stretch alone does not say: behind a copy to the host, if there is one in a pass, else where the stretch begins.
 *
 * What no graph can have (CUT) parts the range: the part with the most kernels is taken, and the rest counted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "capture/capture-priv.h"

#define MAX_PERIOD 16384u
#define MAX_LOOK (1u << 17) /* operations, from the end */

bool cap_same_launch(const struct cap_op *a, const struct cap_op *b)
{
    return a->kind == CAP_KERNEL && b->kind == CAP_KERNEL && a->launch.function == b->launch.function &&
           !memcmp(a->launch.grid, b->launch.grid, sizeof a->launch.grid) &&
           !memcmp(a->launch.block, b->launch.block, sizeof a->launch.block) && a->launch.total == b->launch.total &&
           a->launch.shared == b->launch.shared && !memcmp(a->block, b->block, a->launch.total);
}

bool cap_names_memory(const struct cap_trace *t, const struct cap_op *o, uint32_t mem)
{
    bool yes = t->memory.p[mem].image != CAP_NONE;
    for (uint32_t k = 0; k < o->npoint; k++)
        yes = yes || o->point[k].mem == mem;
    return yes;
}

static uint64_t likeness(const struct cap_trace *t, const struct cap_op *o)
{
    uint64_t h = dt_splitmix64(o->kind, o->bytes);
    if (o->kind != CAP_KERNEL)
        return h;
    const struct cap_entry *x = &t->entry.p[o->launch.function];
    for (const char *p = x->name; *p; p++)
        h = dt_splitmix64(h, (uint8_t)*p);
    h = dt_splitmix64(h, x->image);
    for (int i = 0; i < 3; i++)
        h = dt_splitmix64(dt_splitmix64(h, o->launch.grid[i]), o->launch.block[i]);
    return h;
}

/* Where a pass begins: behind a copy to the host. */
static uint32_t phase(const struct cap_trace *t, uint32_t begin, uint32_t period)
{
    for (uint32_t i = 0; i < period; i++)
        if (t->op.p[begin + (i ? i - 1 : period - 1)].kind == CAP_TAKE && t->op.p[begin + i].kind != CAP_TAKE)
            return i;
    return 0;
}

static int repeated(const struct cap_trace *t, struct cap_range *ret, struct dt_err *e)
{
    uint32_t n = (uint32_t)t->op.n, from = n > MAX_LOOK ? n - MAX_LOOK : 0, best = 0, at = 0, kernels = 0;
    uint64_t *h = dt_malloc((n + 1) * sizeof *h);
    if (!h)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = from; i < n; i++)
        h[i] = likeness(t, &t->op.p[i]);
    for (uint32_t p = 1; p <= MAX_PERIOD && 2 * p <= n - from; p++)
        for (uint32_t i = from + p, run = 0; i < n; i++) {
            run = h[i] == h[i - p] ? run + 1 : 0;
            if (run >= p && run + p > best) {
                best = run + p;
                at = i + 1 - best;
                ret->period = p;
            }
        }
    free(h);
    if (!best)
        return dt_err_set(e, DT_E_NOT_FOUND,
                          "no step repeats in the %u launches and copies of the program: "
                          "leave --step out to take all of them",
                          n);
    ret->begin = at + phase(t, at, ret->period);
    ret->passes = (at + best - ret->begin) / ret->period;
    for (uint32_t i = 0; i < ret->period; i++)
        kernels += t->op.p[ret->begin + i].kind == CAP_KERNEL;
    return kernels ? 0 : dt_err_set(e, DT_E_NOT_FOUND, "what repeats in the program has no launch");
}

/* The part between two CUTs that has the most kernels. */
static int parted(const struct cap_trace *t, struct cap_range *r, struct dt_err *e)
{
    uint32_t best = 0, begin = r->begin, from = r->begin, to = r->begin, kernels = 0;
    const char *why = NULL;
    for (uint32_t i = r->begin; i <= r->end; i++) {
        bool cut = i == r->end || t->op.p[i].kind == CAP_CUT;
        if (i < r->end && cut && !why)
            why = t->op.p[i].why;
        kernels += !cut && t->op.p[i].kind == CAP_KERNEL;
        if (!cut)
            continue;
        if (kernels > best) {
            best = kernels;
            from = begin;
            to = i;
        }
        begin = i + 1;
        kernels = 0;
    }
    if (!best)
        return dt_err_set(e, why ? DT_E_UNSUPPORTED : DT_E_NOT_FOUND, "%s%s",
                          why ? "nothing can be taken: " : "the program launched nothing", why ? why : "");
    r->cut = r->end - r->begin - (to - from);
    r->begin = from;
    r->end = to;
    return 0;
}

int cap_step(const struct cap_trace *t, long which, struct cap_range *ret, struct dt_err *e)
{
    struct cap_range r = {.end = (uint32_t)t->op.n};
    if (which != CAP_WHOLE) {
        int err = repeated(t, &r, e);
        if (err < 0)
            return err;
        uint32_t pass = which > 0 ? (uint32_t)which : r.passes > 1 ? 2 : 1;
        if (pass > r.passes)
            return dt_err_set(e, DT_E_NOT_FOUND, "--step %u: the repeated step has %u passes", pass, r.passes);
        r.begin += (pass - 1) * r.period;
        r.end = r.begin + r.period;
    }
    int err = parted(t, &r, e);
    if (!err)
        *ret = r;
    return err;
}
