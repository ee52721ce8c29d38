/* Snaps: what every launch of the original left in the buffers that it writes, up to SNAP_BYTES, from the run of
 * the reference (verify.c). So it is known what any launch found in memory, and it can run again alone (trial.c,
 * regions.c).
 *
 * They are of the graph that trials refer to. Where that is the normal form, nothing runs for them: it has the posted
 * launches, and its buffers are bytes of the posted ones (struct rw_placed), so the posted run has made them already.
 * What lies between the bytes that a version uses is then what the posted run had there. Whether each launch of the
 * normal form, alone on such content, leaves what the posted one left, is looked at launch by launch, equal ones once;
 * of a large launch with the posted kernel, in which nothing can hang on the order of blocks (settled.c), by some of
 * its blocks.
 * That is a sieve, as a trial is: the maps have proved it (same_values), and the plan is verified whole.
 */
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/large.h"
#include "base/subject.h"

#define SNAP_BYTES (UINT64_C(2) << 30)
#define SHARE 16 /* one of so many blocks is looked at where some do */

struct rw_version { /* of a buffer: what `launch` of the original left in it */
    uint32_t launch, buffer;
    uint8_t *bytes;
};

struct rw_snaps {
    const struct ana_result *ana;             /* of the graph that they are of, borrowed */
    struct dt_vec(struct rw_version) version; /* by launch */
    size_t *of;                               /* by launch, and one more: its first one */
    struct dev_cost *cost;                    /* by launch */
    uint64_t bytes;
};

struct rw_snaps *rw_snaps_free(struct rw_snaps *s)
{
    for (size_t k = 0; s && k < s->version.n; k++)
        free(s->version.p[k].bytes);
    if (s) {
        free(s->version.p);
        free(s->cost);
        free(s->of);
    }
    free(s);
    return NULL;
}

const struct dev_cost *rw_snaps_cost(const struct rw_snaps *s) { return s->cost; }

const struct ana_result *rw_snaps_ana(const struct rw_snaps *s) { return s->ana; }

void rw_placed_done(struct rw_placed *at)
{
    free(at->buffer);
    free(at->lo);
    memset(at, 0, sizeof *at);
}

/* Keep what the launch, which has just run, left in the buffers that it writes. */
static int snap(struct rw_snaps *s, struct dev_run *run, const struct rw_placed *at, uint32_t launch, struct dt_err *e)
{
    const struct ana_launch *a = &s->ana->launch[launch];
    int r = 0;
    for (uint32_t k = 0; k < a->naccess && r == 0; k++) {
        uint32_t b = a->access[k].buffer;
        uint64_t n = s->ana->prog->graph->buffer[b].bytes;
        struct rw_version v = {.launch = launch, .buffer = b};
        if (!a->access[k].writes || n > SNAP_BYTES - s->bytes)
            continue;
        if (!(v.bytes = dt_malloc(n + 1)) || !dt_push(&s->version, v)) {
            free(v.bytes);
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        }
        s->bytes += n;
        r = dev_run_download_part(run, at ? at->buffer[b] : b, at ? at->lo[b] : 0, n, v.bytes, e);
    }
    s->of[launch + 1] = s->version.n;
    return r;
}

int rw_snaps_new(struct dev_run *run, const struct ana_result *a, const struct rw_placed *at,
                 const struct rw_once *once, struct rw_snaps **ret, struct dt_err *e)
{
    uint32_t n = a->prog->graph->nlaunch;
    struct rw_snaps *s = dt_calloc(1, sizeof *s);
    int r = 0;
    if (!s || !(s->cost = dt_calloc(n + 1, sizeof *s->cost)) || !(s->of = dt_calloc((size_t)n + 1, sizeof *s->of))) {
        rw_snaps_free(s);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    s->ana = at ? at->ana : a;
    for (uint32_t l = 0; l < n && r == 0; l++)
        if ((r = rw_once_step(once, run, l, s->cost, e)) == 0)
            r = snap(s, run, at, l, e);
    if (r < 0)
        rw_snaps_free(s);
    else
        *ret = s;
    return r;
}

bool rw_writes(const struct ana_launch *l, uint32_t buffer)
{
    for (uint32_t k = 0; k < l->naccess; k++)
        if (l->access[k].buffer == buffer && l->access[k].writes)
            return true;
    return false;
}

int rw_snaps_left(const struct rw_snaps *s, uint32_t launch, uint32_t buffer, const uint8_t **ret)
{
    for (size_t k = s->of[launch]; k < s->of[launch + 1]; k++)
        if (s->version.p[k].buffer == buffer) {
            *ret = s->version.p[k].bytes;
            return 1;
        }
    return DT_E_NOMEM;
}

int rw_snaps_before(const struct rw_snaps *s, uint32_t launch, uint32_t buffer, const uint8_t **ret)
{
    while (launch-- > 0)
        if (rw_writes(&s->ana->launch[launch], buffer))
            return rw_snaps_left(s, launch, buffer, ret);
    return 0;
}

/* ---- a normal form, launch by launch ----------------------------------------------------------------------------- */

/* What the launch finds. 1; 0: it was not kept. */
static int snaps_fill(const struct rw_snaps *s, uint32_t launch, struct dev_run *run, struct dt_err *e)
{
    const struct ana_launch *a = &s->ana->launch[launch];
    int r = 0;
    for (uint32_t k = 0; k < a->naccess && r == 0; k++) {
        uint32_t b = a->access[k].buffer;
        const uint8_t *from = NULL, *left;
        int have = rw_snaps_before(s, launch, b, &from);
        if (have < 0 || s->ana->prog->graph->buffer[b].module >= 0 ||
            (a->access[k].writes && rw_snaps_left(s, launch, b, &left) < 0))
            return 0;
        r = have ? dev_run_upload(run, b, from, e) : dev_run_fill_buffer(run, b, 0, 0xA5, e);
    }
    return r < 0 ? r : 1;
}

/* Of the buffer: is what these blocks surely write as it is to be? */
static bool snaps_blocks(const struct ana_launch *a, uint32_t buffer, const struct dev_some *some, const uint8_t *got,
                         const uint8_t *want)
{
    bool same = true;
    for (uint32_t n = 0; n < some->n && same; n++) {
        const struct ana_block *b = &a->block[some->block[n]];
        for (uint32_t k = 0; k < b->ntouch && same; k++)
            for (uint32_t i = 0; b->touch[k].buffer == buffer && i < b->touch[k].must_write.n && same; i++) {
                const struct ana_interval *iv = &b->touch[k].must_write.iv[i];
                same = memcmp(got + iv->lo, want + iv->lo, iv->hi - iv->lo) == 0;
            }
    }
    return same;
}

/* Did it leave what it is to leave, where it may have written? some: where these blocks write. 1; 0; negative:
 * error. */
static int snaps_same(const struct rw_snaps *s, uint32_t launch, const struct dev_some *some, struct dev_run *run,
                      struct dt_err *e)
{
    const struct ana_launch *a = &s->ana->launch[launch];
    int r = 1;
    for (uint32_t k = 0; k < a->naccess && r == 1; k++) {
        const struct ana_access *x = &a->access[k];
        const uint8_t *want = NULL;
        if (!x->writes || rw_snaps_left(s, launch, x->buffer, &want) < 0)
            continue;
        dt_large_ uint8_t *got = dt_large_get(s->ana->prog->graph->buffer[x->buffer].bytes + 1);
        r = got ? dev_run_download(run, x->buffer, got, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
        if (r < 0)
            return r;
        r = !some->block || snaps_blocks(a, x->buffer, some, got, want);
        for (int v = 0; v < ANA_EVIDENCES && !some->block; v++)
            for (uint32_t i = 0; i < x->write_by[v].n && r == 1; i++) {
                const struct ana_interval *iv = &x->write_by[v].iv[i];
                r = memcmp(got + iv->lo, want + iv->lo, iv->hi - iv->lo) == 0;
            }
    }
    return r;
}

/* Some blocks of the launch, evenly spread, both ends with them. */
static void snaps_some(const struct ana_launch *l, uint32_t *list, struct dev_some *ret)
{
    uint32_t n = l->nblock / SHARE;
    *ret = (struct dev_some){0};
    if (n < 2)
        return;
    for (uint32_t k = 0; k < n; k++)
        list[k] = (uint32_t)((uint64_t)k * (l->nblock - 1) / (n - 1));
    *ret = (struct dev_some){.block = list, .n = n};
}

/* The launch alone. other: its kernel is not the posted one, and costs what it does here. 1: it leaves the same; 0: it
 * does not, or what it needs was not kept. */
static int snaps_alone(struct rw_snaps *s, struct dev_device *d, uint32_t launch, bool other, struct dt_err *e)
{
    struct dev_run *run = NULL;
    uint32_t n = s->ana->prog->graph->nlaunch;
    dt_free_ bool *wanted = dt_calloc((size_t)n + 1, sizeof *wanted);
    dt_free_ struct dev_some *some = dt_calloc((size_t)n + 1, sizeof *some);
    dt_free_ uint32_t *list = dt_calloc((size_t)s->ana->launch[launch].nblock + 1, sizeof *list);
    if (!wanted || !some || !list)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    wanted[launch] = true;
    int r = other ? 0 : rw_settled(s->ana->prog, s->ana, launch, e);
    if (r == 1)
        snaps_some(&s->ana->launch[launch], list, &some[launch]);
    if (r >= 0)
        r = dev_run_new_for(d, s->ana->prog, wanted, &run, e);
    if (r == 0 && some[launch].block)
        r = dev_run_select(run, some, e);
    if (r == 0)
        r = snaps_fill(s, launch, run, e);
    if (r == 1) {
        dev_set_follow(d, other);
        r = dev_run_step(run, launch, e);
        dev_set_follow(d, true);
        if (r == 0 && other)
            r = dev_run_cost(run, launch, &s->cost[launch], e);
        r = r < 0 ? r : snaps_same(s, launch, &some[launch], run, e);
    }
    dev_run_free(run);
    return r;
}

/* Does it read what no launch before it has written, though nobody fills it from outside? Then its equal says nothing
 * of it. */
static bool reads_nothing(const struct rw_snaps *s, uint32_t launch)
{
    const struct ana_launch *a = &s->ana->launch[launch];
    bool nothing = false;
    for (uint32_t k = 0; k < a->naccess && !nothing; k++) {
        const struct dt_buffer *b = &s->ana->prog->graph->buffer[a->access[k].buffer];
        const uint8_t *from;
        nothing = a->access[k].reads && (b->role == DT_INTERMEDIATE || b->role == DT_SCRATCH) &&
                  rw_snaps_before(s, launch, a->access[k].buffer, &from) == 0;
    }
    return nothing;
}

int rw_snaps_check(struct rw_gate *g, const bool *other, struct dt_err *e)
{
    struct rw_snaps *s = g->snaps;
    const struct dev_prog *p = s->ana->prog;
    struct rw_once once = {0};
    int r = rw_watch(g->dev, rw_talks(p), 0, false, e);
    if (r == 0)
        r = rw_once_new(g->dev, p, &once, e);
    r = r < 0 ? r : 1;
    for (uint32_t l = 0; l < p->graph->nlaunch && r == 1; l++) {
        bool known = rw_again(&once, l) && once.steady[l] && !reads_nothing(s, l);
        if (known && other[l])
            s->cost[l] = s->cost[once.like[l]];
        if (!known && !(g->original.races && g->original.racy[l]))
            r = snaps_alone(s, g->dev, l, other[l], e);
    }
    rw_once_done(&once);
    return r < 0 ? rw_recover(g->dev, r, e) : r;
}
