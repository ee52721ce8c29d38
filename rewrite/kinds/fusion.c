/* Block fusion: one launch whose blocks run a component's producer blocks, a barrier, and its consumer blocks.
 *
 *   before                            after
 *   gemm<<<(4, 2), 256>>>(x, w, h)    gemm+gelu<<<8, 256>>>(x, w, y)
 *   gelu<<<32, 256>>>(h, y)           block k: gemm's block k, a barrier, gelu's blocks 4k … 4k+3
 *
 * The levels, nearest first:
 *   register   one of the two is pointwise and is inlined into the other (inline/)
 *   shared     the intermediate h lives in shared memory (emit/fit.c says when)
 *   cluster    the blocks of a thread-block cluster run the component together (emit/cluster.c); a pass of its own
 *   global     h stays in its buffer, and the block's barrier orders it: loads and stores of one block, through L1, L2
 *
 * Legal when every LEGAL and LEVEL row of legal.def holds. Then no byte in conflict is shared by two components
 * (facts/comps.c), producers come before consumers inside a component, with a barrier between, and what each block
 * computes is unchanged (.rn, device/identity.c). What could break it: a hazard that the map does not show (hence no
 * talk between blocks, no unknown instruction); threads that do not reach a barrier (facts/vary.c); a launch between
 * the two (facts/order.c); arithmetic contracted across the bodies (device/identity.c). The fused launch is a launch
 * like any other: the new graph is analysed again, and it fuses further.
 *
 * The way of a candidate: fusion_open() collects facts and asks which levels are worth building; fusion_build() makes
 * the kernel at one of them (rw_fuse) and the launch of it; fusion_close() releases it. rw_fuse is a list of steps, in
 * order.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/kinds/kinds-priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

/* ---- a kernel at a level ----------------------------------------------------------------------------------------- */

/* The bodies one after the other in one block, intermediates in global memory: does it fit, and is it legal? Level
 * `cluster` begins like this too, before its blocks are divided. */
static int join_plainly(struct rw_cand *c, enum rw_level level, struct dt_str *why, struct dt_err *e)
{
    struct dt_str room = {0};
    c->level = level == RW_LEVEL_CLUSTER ? level : RW_LEVEL_GLOBAL;
    c->nredirect = 0;
    int r = rw_cluster_lists(c, 0, e);
    if (r < 0)
        return r;
    bool kernels = c->facts.body[0].f && c->facts.body[1].f, fits = kernels && rw_layout(c, &room);
    bool ok = room.len || rw_legal_check(c, why); /* without kernels it says why there is nothing to join */
    if (room.len)
        dt_str_addf(why, DT_ROW("shared-space") ": %s", room.s);
    dt_str_done(&room);
    return !(fits && ok);
}

/* Level `shared`: intermediates in the block's shared memory; without any it is no level. */
static int move_to_block(struct rw_cand *c, struct dt_str *why, struct dt_err *e)
{
    struct dt_str room = {0};
    int r = rw_fit(c, e);
    if (r < 0)
        return r;
    c->level = RW_LEVEL_SHARED;
    if (!c->nredirect)
        dt_str_addf(why, "shared level: %s",
                    c->no_redirect.len ? c->no_redirect.s : "no data flows from one to the other");
    else if (!rw_layout(c, &room))
        dt_str_addf(why, DT_ROW("shared-space") ": %s", room.s ? room.s : "it does not fit");
    bool ok = c->nredirect && !room.len && rw_legal_check(c, why);
    dt_str_done(&room);
    return !ok;
}

/* Level `cluster`: lists by rank, intermediates in the ranks' shared memory; what does not fit stays in global
 * memory. */
static int move_to_cluster(struct rw_cand *c, struct dt_str *why, struct dt_err *e)
{
    struct dt_str room = {0};
    int r;
    if (rw_cluster_own(&c->facts))
        c->size = rw_cluster_own(&c->facts);
    if (!c->size)
        return dt_str_add(why, "cluster level: a component has one block of each"), 1;
    if ((r = rw_cluster_lists(c, c->size, e)) < 0)
        return r;
    if (!rw_legal_rows(rw_cluster_legal, rw_ncluster_legal, c, why))
        return 1;
    if ((r = rw_fit(c, e)) < 0)
        return r;
    if (!rw_layout(c, &room)) {
        dt_str_addf(&c->no_redirect, "%sintermediates stay in global memory: %s", c->no_redirect.len ? "; " : "",
                    room.s ? room.s : "");
        c->nredirect = 0;
        dt_str_done(&room);
        if (!rw_layout(c, &room))
            dt_str_addf(why, DT_ROW("shared-space") ": %s", room.s ? room.s : "it does not fit");
    }
    bool ok = !room.len && rw_legal_check(c, why);
    dt_str_done(&room);
    return !ok;
}

/* The cluster's registers are known only now. */
static bool cluster_fits(const struct rw_cand *c, struct dt_str *why)
{
    if (!rw_legal_rows(rw_cluster_legal, rw_ncluster_legal, c, why))
        return false;
    if (c->no_redirect.len)
        dt_str_addf(why, "cluster level: %s", c->no_redirect.s);
    return true;
}

int rw_fuse(struct rw_cand *c, enum rw_level level, struct dt_str *why, struct dt_err *e)
{
    if (level <= RW_LEVEL_PROLOGUE)
        return rw_inline_apply(c, level, why, e);
    int r = join_plainly(c, level, why, e);
    if (r == 0)
        r = rw_identity(c, why, e);
    if (r == 0 && level == RW_LEVEL_SHARED) /* only now: footprints of an illegal pair are of no interest */
        r = move_to_block(c, why, e);
    if (r == 0 && level == RW_LEVEL_CLUSTER)
        r = move_to_cluster(c, why, e);
    if (r == 0)
        r = rw_make(c, why, e);
    if (r == 0 && level == RW_LEVEL_CLUSTER)
        r = !cluster_fits(c, why);
    return r;
}

/* ---- the descriptor ---------------------------------------------------------------------------------------------- */

/* A cheap guess at whether the kernel can be a guest: it has no barrier, collective, atomic, call, shared memory or
 * unknown instruction. inline/map.c decides. */
static bool looks_pointwise(const struct ptx_function *f)
{
    for (uint32_t n = 0; f && n < f->ninst; n++) {
        const struct ptx_inst *i = &f->inst[n];
        if (i->op == PTX_OP_OPAQUE)
            return false;
        if (i->op > PTX_OP_OPAQUE &&
            ((ptx_op_info(i->op)->flags & (PTX_F_BARRIER | PTX_F_CONVERGENT | PTX_F_ATOMIC | PTX_F_CALL)) ||
             i->space == PTX_SHARED || i->space2 == PTX_SHARED))
            return false;
    }
    return f != NULL;
}

/* Proposes every pair of kernels that have a hazard. With `cluster`, only pairs with a component that has more than one
 * block of either kernel, or with a kernel that is launched in clusters already.
 *
 * Pairs whose consumer looks pointwise, and so may become an epilogue, come first: of these, pairs whose producer does
 * not look pointwise. Then come the others, those with the fewest blocks in their largest component first. */
static int propose_some(const struct rw_state *s, bool cluster, struct rw_proposals *ret, struct dt_err *e)
{
    int r = 0;
    for (uint32_t k = 0; k < s->ana->nedge && r == 0; k++) {
        const struct ana_edge *x = &s->ana->edge[k];
        uint32_t pair[2] = {x->producer, x->consumer}, size = UINT32_MAX;
        struct dt_arena a = {0};
        struct rw_comps comps = {0};
        uint64_t bytes = 0;
        bool some = !cluster;
        if (s->graph->launch[x->producer].kind != DT_KERNEL || s->graph->launch[x->consumer].kind != DT_KERNEL ||
            !x->pairs)
            continue;
        for (int i = 0; i < 2 && !some; i++)
            some = rw_cluster_shape(&s->graph->launch[pair[i]], s->prog->step[pair[i]].entry, (uint32_t[3]){0}) > 0;
        if (ana_rows_kept(&x->any)) {
            r = rw_comps_build(&a, &x->any, s->prog->step[x->producer].blocks, s->prog->step[x->consumer].blocks, NULL,
                               &comps, e);
            if (r == 0)
                size = comps.list[0].max + comps.list[1].max;
            some = some || comps.list[0].max > 1 || comps.list[1].max > 1;
        }
        for (uint32_t j = 0; j < x->nbuffer; j++)
            bytes += s->graph->buffer[x->buffer[j]].bytes;
        /* An epilogue is inlined before its launch is joined to a later one. */
        if (!cluster && ana_rows_pairs(&x->raw) && looks_pointwise(s->prog->step[x->consumer].entry))
            size = looks_pointwise(s->prog->step[x->producer].entry) ? 1 : 0;
        if (r == 0 && some && rw_propose(ret, pair, 2, size, bytes) < 0)
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
        dt_arena_done(&a);
    }
    return r;
}

static int fusion_propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                          struct dt_err *e)
{
    (void)o;
    return propose_some(s, false, ret, e);
}

static int propose_clusters(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                            struct dt_err *e)
{
    (void)o;
    return propose_some(s, true, ret, e);
}

#define BOUND 4.0
#define CLUSTER_BOUND 1.5
#define START_US 1.0 /* what of a block's time, at most, one that follows another in a fused block saves */

/* The estimate that rules candidates out before they are built.
 *
 * A fused block runs the blocks of its component one after the other. The fused launch takes at least as long as its
 * longest component, and at least as long as all components spread over all SMs; the estimate is the larger of the two.
 * It is too high, since a block that follows another inside a fused block starts sooner than one that is launched. So a
 * candidate is dropped only if the estimate exceeds BOUND times what both launches take now, the gap between them
 * included. In clusters it is too low where blocks are long: of the three that lost most in gpt2-medium-512 and
 * attention-2048-vector (bench/models) the model found two to three times as much, as a few clusters of 16 leave most
 * SMs idle. So without START_US for each block of the longest component it must be within CLUSTER_BOUND. Such a cluster
 * is followed whole (softgpu/exec/profile.c), which makes it dear to find that out. */

/* How long a block of each launch takes: the launch's time by its waves and by the blocks that share an SM. */
static void block_us(const struct rw_cand *c, const struct rw_state *s, double ret[2])
{
    for (int k = 0; k < 2; k++) {
        const struct dev_step *st = &s->prog->step[c->facts.launch[k]];
        unsigned sms = c->facts.dev->sms ? c->facts.dev->sms : 1, bps = st->blocks_per_sm ? st->blocks_per_sm : 1;
        unsigned waves = (unsigned)(((uint64_t)st->blocks + (uint64_t)sms * bps - 1) / ((uint64_t)sms * bps));
        unsigned resident = (st->blocks + sms - 1) / sms;
        if (resident > bps)
            resident = bps;
        ret[k] = s->step_us[c->facts.launch[k]] / waves / resident;
    }
}

double rw_bound_us(const struct rw_cand *c, const struct rw_state *s, double *ret_now)
{
    double block[2], longest = 0, total = 0;
    block_us(c, s, block);
    *ret_now = s->step_us[c->facts.launch[0]] + s->step_us[c->facts.launch[1]];
    for (uint32_t k = 0; k < c->lists.n; k++) {
        double t = 0;
        for (int i = 0; i < 2; i++)
            t += block[i] *
                 ((c->lists.list[i].row[k + 1] - c->lists.list[i].row[k] + c->abreast[i] - 1) / c->abreast[i]);
        total += t;
        if (t > longest)
            longest = t;
    }
    total /= (double)(c->facts.dev->sms ? c->facts.dev->sms : 1);
    double gap = s->time.time_us;
    for (uint32_t k = 0; k < s->graph->nlaunch; k++)
        gap -= s->step_us[k];
    if (gap > 0)
        *ret_now += gap / s->graph->nlaunch;
    return total > longest ? total : longest;
}

/* Level `cluster` is a pass of its own (rw_cluster_fusion). It comes after the rewrites whose launches may
 * still be joined, or started early (registry.c). */
static const char *const levels[] = {"register", "register", "shared", "global", NULL}, *const late_levels[] = {
                                                                                            "cluster", NULL};
static const enum rw_level level_of[] = {RW_LEVEL_EPILOGUE, RW_LEVEL_PROLOGUE, RW_LEVEL_SHARED, RW_LEVEL_GLOBAL};

struct fusion {
    struct rw_cand c;
    bool may[RW_LEVEL_GLOBAL + 1];       /* by level: worth building */
    struct dt_str joined;                /* why the bodies are not joined */
    struct dt_str near[RW_LEVEL_SHARED]; /* why the one is not inlined into the other */
};

/* At level `cluster`: so long that blocks which start sooner do not make up for it. */
static bool far_too_long(const struct rw_cand *c, const struct rw_edit *x)
{
    uint32_t size = c->size ? c->size : 1, row = 0;
    for (int s = 0; s < 2; s++)
        row += (c->lists.list[s].max + size - 1) / size;
    return x->after_us - row * START_US > x->before_us * CLUSTER_BOUND;
}

/* Sets the levels at which joining the bodies is legal and not far too slow by the estimate. A component runs in one
 * block, or in one cluster; each has an estimate of its own. */
static void joinable(struct rw_edit *x, struct fusion *f, enum rw_verdict *ret_verdict, struct dt_str *why)
{
    const struct rw_state *now = x->now;
    struct rw_cand *c = &f->c;
    bool cluster = x->kind == &rw_cluster_fusion;
    double block[2];
    *ret_verdict = RW_REFUSED;
    c->level = cluster ? RW_LEVEL_CLUSTER : RW_LEVEL_GLOBAL;
    c->nredirect = 0;
    if (!rw_legal_check(c, why))
        return;
    x->after_us = rw_bound_us(c, now, &x->before_us);
    if (cluster) {
        if (!rw_legal_rows(rw_cluster_legal, rw_ncluster_legal, c, why))
            return;
        block_us(c, now, block);
        c->size = rw_cluster_size(c, block, &x->after_us);
        if (x->size && c->size && !rw_cluster_own(&c->facts))
            c->size = x->size;
    }
    bool may = (x->after_us <= x->before_us * BOUND && (!cluster || !far_too_long(c, x))) || RW_FORCED;
    f->may[RW_LEVEL_SHARED] = may && !cluster && RW_LEVEL_ON(RW_LEVEL_SHARED);
    f->may[RW_LEVEL_CLUSTER] = may && cluster && RW_LEVEL_ON(RW_LEVEL_CLUSTER);
    f->may[RW_LEVEL_GLOBAL] = may && !cluster && RW_LEVEL_ON(RW_LEVEL_GLOBAL);
    if (may)
        return;
    *ret_verdict = RW_DROPPED;
    dt_str_addf(why,
                "%s %.2f → about %.2f us for the two%s: %u components, of up to %u producer and %u consumer blocks one "
                "after the other, on %u SMs (estimated "
                "from the launches' own times, not built)",
                strncmp(now->time.method, "modeled", 7) ? "measured" : "modeled", x->before_us, x->after_us,
                cluster ? " in clusters" : "", c->lists.n, c->lists.list[0].max, c->lists.list[1].max,
                c->facts.dev->sms);
}

/* Writes why no level is tried. Left out, unless there is nothing else to say: that a kernel is not pointwise, as most
 * are not; and a reason that is there already. */
static void tell(const struct fusion *f, struct dt_str *why)
{
    const struct dt_str *near = f->near;
    bool told = false;
    dt_str_addf(why, "%s", f->joined.s ? f->joined.s : "");
    for (int l = 0; l < RW_LEVEL_SHARED; l++)
        if (near[l].s && !dt_has_row(near[l].s, "pointwise") && !strstr(why->s ? why->s : "", near[l].s)) {
            dt_str_addf(why, "%s%s%s", why->len ? "; " : "", told || !f->joined.s ? "" : "level register: ", near[l].s);
            told = true;
        }
    if (!why->len && near[0].s)
        dt_str_addf(why, "%s", near[0].s);
}

/* Sets whether level `register` is worth building, as epilogue and as prologue. */
static int inlinable(struct fusion *f, struct dt_err *e)
{
    for (int l = 0; l < RW_LEVEL_SHARED; l++) {
        int r = rw_inline_may(&f->c, (enum rw_level)l, &f->near[l], e);
        if (r < 0)
            return r;
        f->may[l] = r == 0 && RW_LEVEL_ON((enum rw_level)l);
    }
    return 0;
}

static int fusion_open(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    struct fusion *f = x->mine = dt_calloc(1, sizeof *f);
    if (!f)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = rw_cand_init(&f->c, x->dev, x->now->prog, x->now->ana, x->opt, x->launch[0], x->launch[1], e);
    if (r >= 0 && x->kind != &rw_cluster_fusion)
        r = inlinable(f, e);
    if (r < 0)
        return r;
    joinable(x, f, ret_verdict, &f->joined);
    for (int l = 0; l <= RW_LEVEL_GLOBAL; l++)
        if (f->may[l])
            return 0;
    tell(f, why);
    return 1;
}

static int fusion_build(struct rw_edit *x, unsigned place, struct dt_str *why, struct dt_err *e)
{
    struct fusion *f = x->mine;
    struct rw_cand *c = &f->c;
    enum rw_level level = x->kind == &rw_cluster_fusion ? RW_LEVEL_CLUSTER : level_of[place];
    if (!f->may[level]) {
        if (level == RW_LEVEL_GLOBAL && f->joined.s)
            dt_str_addf(why, "%s", f->joined.s);
        if (level < RW_LEVEL_SHARED && f->near[level].s && !dt_has_row(f->near[level].s, "pointwise"))
            dt_str_addf(why, "level register: %s", f->near[level].s);
        return 1;
    }
    int r = rw_fuse(c, level, why, e);
    if (r)
        return r;
    for (int s = 0; s < 2; s++)
        if (c->facts.own[s] && c->facts.dev->soft)
            dt_str_addf(&x->hint,
                        " (" DT_LAUNCH
                        " leaves multiply-adds for ptxas to contract, which the software device does not do)",
                        c->facts.prog->graph->launch[c->facts.launch[s]].name);
    return rw_fuse_part(c, x, e);
}

static void fusion_close(struct rw_edit *x)
{
    struct fusion *f = x->mine;
    if (f) {
        rw_cand_done(&f->c);
        dt_str_done(&f->joined);
        for (int l = 0; l < RW_LEVEL_SHARED; l++)
            dt_str_done(&f->near[l]);
    }
    free(f);
    x->mine = NULL;
}

const struct rw_rewrite rw_block_fusion = {
    .name = "block-fusion",
    .needs = "components of the block map small enough for one block; every row of rewrite/legal.def",
    .keeps = "what every block computes; the order of blocks in conflict",
    .on = true,
    .levels = levels,
    .propose = fusion_propose,
    .open = fusion_open,
    .build = fusion_build,
    .close = fusion_close,
};

const struct rw_rewrite rw_cluster_fusion = {
    .name = "block-fusion",
    .needs = "components of the block map small enough for a cluster of blocks, sm_90 and later; every row of "
             "rewrite/legal.def",
    .keeps = "what every block computes; the order of blocks in conflict",
    .on = true,
    .levels = late_levels,
    .rival = &rw_programmatic,
    .propose = propose_clusters,
    .open = fusion_open,
    .build = fusion_build,
    .close = fusion_close,
};
