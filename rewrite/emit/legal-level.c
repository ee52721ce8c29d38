/* Predicates on a candidate at a level: the LEVEL and CLUSTER rows of legal.def, which facts alone do not decide.
 *
 * They look at what has been decided so far: the level, the lists of blocks, threads, shared memory, and, once there is
 * a kernel, its registers. So they are asked more than once. What is not decided yet does not refuse. legal.def has the
 * conditions themselves, and how to add one.
 */
#include "rewrite/emit/emit-priv.h"
#include "rewrite/emit/flow.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

/* Do bodies with clusters keep to the rules of facts/meets.c? A host of level `register` stays as it is, but the kernel
 * that is emitted is checked against these rules, so the host must keep to them too. */
bool rw_legal_clusters(const struct rw_cand *c, struct dt_str *why)
{
    const struct rw_comps *q = c->cluster ? &c->facts.comps : &c->lists;
    uint32_t first = UINT32_MAX;
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        const struct rw_body *b = &c->facts.body[s];
        const struct rw_find *f = &b->find[RW_CLUSTER];
        const char *name = c->facts.prog->graph->launch[c->facts.launch[s]].name;
        if (!f->set)
            continue;
        if (!b->ranks) {
            dt_str_addf(why, DT_LAUNCH " has `%.60s` (PTX line %u), and is not launched in clusters", name,
                        f->what ? f->what : "?", f->line);
            return false;
        }
        if (b->apart) {
            dt_str_addf(why, DT_LAUNCH " %s", name, b->apart);
            return false;
        }
        if (c->level <= RW_LEVEL_PROLOGUE)
            continue;
        if (c->level != RW_LEVEL_CLUSTER) {
            dt_str_addf(why,
                        DT_LAUNCH " uses its clusters of %u blocks: it may be joined at level cluster, or have others "
                                  "inlined (`%.60s`, PTX line %u)",
                        name, b->ranks, f->what ? f->what : "?", f->line);
            return false;
        }
        if (first != UINT32_MAX && c->facts.body[first].ranks != b->ranks) {
            dt_str_addf(why, DT_LAUNCH " runs in clusters of %u blocks, " DT_LAUNCH " of %u",
                        c->facts.prog->graph->launch[c->facts.launch[first]].name, c->facts.body[first].ranks, name,
                        b->ranks);
            return false;
        }
        first = s;
        if (q->list[s].max > b->ranks) {
            dt_str_addf(why, "a component has up to %u blocks of " DT_LAUNCH ", which runs in clusters of %u",
                        q->list[s].max, name, b->ranks);
            return false;
        }
    }
    return true;
}

/* Below sm_70 ptxas makes code in which threads of a warp stay together [T: `YIELD` is left out]; raised, they may
 * part, and what counts on it (volatile shared memory within a warp, no barrier) has other values. */
static bool schedules(const struct rw_cand *c, struct dt_str *why)
{
    unsigned highest = c->cluster || c->level == RW_LEVEL_CLUSTER ? 90 : c->flow ? 70 : 0;
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        unsigned n = rw_target_number(c->facts.body[s].f->module->target);
        highest = n > highest ? n : highest;
    }
    for (uint32_t s = 0; s < c->facts.nbody && highest >= RW_PARTING; s++)
        if (rw_target_number(c->facts.body[s].f->module->target) < RW_PARTING) {
            dt_str_addf(why, DT_LAUNCH " is for %s, where threads of a warp stay together; for sm_%u they may part",
                        c->facts.body[s].step->launch->name, c->facts.body[s].f->module->target, highest);
            return false;
        }
    return true;
}

/* "sm_90" and "sm_80" may be joined (at 90), and what is for one chip ("sm_90a") with what runs there ("sm_80": at
 * 90a). */
bool rw_legal_targets(const struct rw_cand *c, struct dt_str *why)
{
    const char *t[RW_BODIES];
    unsigned long number[RW_BODIES];
    bool special[RW_BODIES];
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        t[s] = c->facts.body[s].f->module->target;
        const char *n = t[s] ? strstr(t[s], "sm_") : NULL;
        char *end;
        if (!n || strchr(t[s], ',')) {
            dt_str_addf(why, DT_LAUNCH " is for target %s", c->facts.body[s].step->launch->name, t[s] ? t[s] : "?");
            return false;
        }
        number[s] = strtoul(n + 3, &end, 10);
        special[s] = *end != 0;
        if (c->facts.body[s].f->module->address_size != 64) {
            dt_str_add(why, "addresses are not 64 bits wide");
            return false;
        }
        for (uint32_t k = 0; k < s; k++)
            if ((special[k] && special[s] && strcmp(t[k], t[s])) || (special[k] && number[s] > number[k]) ||
                (special[s] && number[k] > number[s])) {
                dt_str_addf(why, "one is for %s, the other for %s", t[k], t[s]);
                return false;
            }
    }
    return schedules(c, why);
}

/* The first barrier number that no body uses for fewer than all threads of the fused block. A number at which all
 * threads meet, in a body that was fused before, may be used again. */
int rw_phase_barrier(const struct rw_cand *c)
{
    unsigned taken = 0;
    if (c->pack || (c->beside && !c->flow)) /* no body follows another in a block */
        return 0;
    for (uint32_t s = 0; s < c->facts.nbody; s++)
        taken |= c->facts.body[s].threads == c->threads ? c->facts.body[s].counted_ids
                                                        : c->facts.body[s].barrier_ids | c->facts.body[s].counted_ids;
    for (int id = 0; id < 16; id++)
        if (!((taken >> id) & 1))
            return id;
    return -1;
}

bool rw_legal_barrier_numbers(const struct rw_cand *c, struct dt_str *why)
{
    if (!rw_legal_none(&c->facts, RW_BARRIER_REG, why, "has a barrier whose number or count is in a register") ||
        !rw_legal_none(&c->facts, RW_BARRIER_SPLIT, why, "arrives at a barrier without waiting"))
        return false;
    if (rw_phase_barrier(c) < 0) {
        dt_str_add(why, "the two bodies use all 16 barrier numbers for a part of the threads");
        return false;
    }
    return true;
}

/* Bodies with equally many threads fill the fused block like their own, so nothing is counted and no lane is new. */
bool rw_legal_thread_counts(const struct rw_cand *c, struct dt_str *why)
{
    bool equal = true;
    for (uint32_t s = 1; s < c->facts.nbody; s++)
        equal = equal && c->facts.body[s].threads == c->facts.body[0].threads;
    for (uint32_t s = 0; s < c->facts.nbody && !equal; s++) {
        const struct rw_body *b = &c->facts.body[s];
        if (b->threads % 32 && b->convergent) {
            dt_str_addf(why, DT_LAUNCH " has %u threads, not whole warps, and warp collectives", b->step->launch->name,
                        b->threads);
            return false;
        }
    }
    if (c->threads > 1024) {
        dt_str_addf(why, "a block would have %u threads", c->threads);
        return false;
    }
    return true;
}

static bool filled_up(const struct rw_cand *c, uint32_t s)
{
    return rw_surplus_threads(c, s) != c->facts.body[s].threads;
}

bool rw_legal_surplus_lanes(const struct rw_cand *c, struct dt_str *why)
{
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        const struct rw_body *b = &c->facts.body[s];
        struct rw_find no;
        if (!filled_up(c, s) || rw_surplus_lanes(b, &no))
            continue;
        dt_str_addf(why, DT_LAUNCH " has %u threads, not whole warps, and %s (PTX line %u)", b->step->launch->name,
                    b->threads, no.what, no.line);
        return false;
    }
    return true;
}

bool rw_legal_posted_lanes(const struct rw_cand *c, struct dt_str *why)
{
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        const struct rw_body *b = &c->facts.body[s];
        struct dt_arena tmp = {0};
        struct dt_err e = {0};
        struct rw_find lost;
        uint8_t *out = NULL;
        if (!b->lockstep || !filled_up(c, s))
            continue;
        int r = rw_surplus(&tmp, &c->facts, s, &out, &lost, &e);
        uint32_t n = 0;
        for (; r == 0 && n < b->f->ninst && (out[n] || !rw_is_lockstep(&b->f->inst[n])); n++)
            ;
        bool well = r == 0 && n == b->f->ninst;
        if (!well)
            dt_str_addf(why, DT_LAUNCH ", PTX line %u: lanes that it has not would make a volatile access",
                        b->step->launch->name, r == 0 ? b->f->inst[n].line : 0);
        dt_arena_done(&tmp);
        dt_err_done(&e);
        if (!well)
            return false;
    }
    return true;
}

bool rw_legal_surplus_paths(const struct rw_cand *c, struct dt_str *why)
{
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        const struct rw_body *b = &c->facts.body[s];
        struct dt_arena tmp = {0};
        struct dt_err e = {0};
        struct rw_find lost = {0};
        uint8_t *out;
        int r = filled_up(c, s) ? rw_surplus(&tmp, &c->facts, s, &out, &lost, &e) : 0;
        dt_arena_done(&tmp);
        if (r < 0)
            dt_str_addf(why, DT_LAUNCH ": %s", b->step->launch->name, e.detail ? dt_err_words(&e) : dt_err_text(r));
        else if (lost.set)
            dt_str_addf(why,
                        DT_LAUNCH " has %u threads, not whole warps, and `%.60s` (PTX line %u) depends on what only "
                                  "they may load",
                        b->step->launch->name, b->threads, lost.what, lost.line);
        dt_err_done(&e);
        if (r < 0 || lost.set)
            return false;
    }
    return true;
}

bool rw_legal_constant_space(const struct rw_cand *c, struct dt_str *why)
{
    bool far[RW_BODIES];
    uint64_t tables = rw_far_tables(c, far);
    if (tables <= RW_CONST_SPACE)
        return true;
    dt_str_addf(why,
                "the kernels' tables take %llu bytes of constant memory, where their addresses must stay; there are %u",
                (unsigned long long)tables, RW_CONST_SPACE);
    return false;
}

bool rw_legal_shared_space(const struct rw_cand *c, struct dt_str *why)
{
    if (c->shared_bytes > c->facts.dev->shared_block_optin) {
        dt_str_addf(why, "a block would need %u bytes of shared memory, the device allows %u", c->shared_bytes,
                    c->facts.dev->shared_block_optin);
        return false;
    }
    return true;
}

/* ---- clusters ---------------------------------------------------------------------------------------------------- */

bool rw_legal_cluster_device(const struct rw_cand *c, struct dt_str *why)
{
    if (c->facts.dev->cc_major >= 9)
        return true;
    dt_str_addf(why, "%s has no thread-block clusters", c->facts.dev->name);
    return false;
}

/* Blocks of a cluster wait for each other, so all of them must find room at once. What there is for certain: 8 blocks
 * that fill an SM each, 16 where the kernel may be launched in more than is portable, and less where this is a part of
 * a GPU. The device is asked when the launch is made (device/prog.c). */
bool rw_legal_cluster_room(const struct rw_cand *c, struct dt_str *why)
{
    uint32_t warps = (c->threads + 31) / 32, each = (c->made.res.registers * 32 + 255) / 256 * 256,
             sms = c->facts.dev->sms;
    uint32_t by_regs = each ? c->facts.dev->regs_sm / 4 / each * 4 / warps : 32,
             by_shared = c->facts.dev->shared_sm / (c->shared_bytes + c->facts.dev->shared_reserved + 1);
    uint32_t by_threads = c->facts.dev->max_threads_sm / (warps * 32),
             per_sm = by_regs < by_shared ? by_regs : by_shared;
    per_sm = by_threads < per_sm ? by_threads : per_sm;
    if (c->facts.dev->sharing[0] && sms > 8)
        sms = 8;
    if (c->cluster <= RW_CLUSTER_MAX && (uint64_t)per_sm * (sms < RW_CLUSTER_MAX ? sms : RW_CLUSTER_MAX) >= c->cluster)
        return true;
    dt_str_addf(why,
                "a cluster would have %u blocks of %u threads, %u registers and %u bytes of shared memory; %u fit an "
                "SM, and %u SMs lie together",
                c->cluster, c->threads, c->made.res.registers, c->shared_bytes, per_sm,
                sms < RW_CLUSTER_MAX ? sms : RW_CLUSTER_MAX);
    return false;
}
