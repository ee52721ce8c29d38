/* Predicates on what the two kernels contain.
 *
 * Each turns a find of body.c or vary.c into one sentence that names the launch, the instruction and its line. The
 * conditions themselves, and how to add one, are in legal.def; nothing here looks at block maps or launches
 * (legal-memory.c does).
 */
#include "rewrite/facts/legal.h"

#include <stdlib.h>
#include <string.h>

/* False when a body has the find; the sentence names launch, line and thing. */
static bool none(const struct rw_cand *c, enum rw_fact k, struct dt_str *why, const char *what)
{
    for (uint32_t s = 0; s < c->nbody; s++) {
        const struct rw_find *f = &c->body[s].find[k];
        if (!f->set)
            continue;
        dt_str_addf(why, "'%s' %s (`%.60s`, PTX line %u)", c->body[s].step->launch->name, what, f->what ? f->what : "?",
                    f->line);
        return false;
    }
    return true;
}

bool rw_legal_opaque(const struct rw_cand *c, struct dt_str *why)
{
    return none(c, RW_OPAQUE, why, "has an instruction nobody here knows");
}

bool rw_legal_ordered_access(const struct rw_cand *c, struct dt_str *why)
{
    return none(c, RW_ORDERED, why, "may talk to other blocks of its launch");
}

bool rw_legal_side_effects(const struct rw_cand *c, struct dt_str *why)
{
    return none(c, RW_SIDE, why, "has an effect that others can see");
}

bool rw_legal_machine_registers(const struct rw_cand *c, struct dt_str *why)
{
    return none(c, RW_MACHINE, why, "reads a machine register");
}

bool rw_legal_functions(const struct rw_cand *c, struct dt_str *why)
{
    return none(c, RW_INDIRECT_CALL, why, "calls through a pointer") &&
           none(c, RW_RECURSION, why, "calls recursively") &&
           none(c, RW_EXTERN_CALL, why, "calls a function that is not in its module") &&
           none(c, RW_EXIT_IN_FUNC, why, "exits inside a function") &&
           none(c, RW_FUNC_CONTEXT, why, "calls a function that uses its block's threads, barriers or shared memory");
}

bool rw_legal_module_variables(const struct rw_cand *c, struct dt_str *why)
{
    return none(c, RW_GLOBAL_VAR, why, "uses a module variable that may be written");
}

bool rw_legal_parameters(const struct rw_cand *c, struct dt_str *why)
{
    uint64_t bytes = 0;
    if (!none(c, RW_PARAM_ADDRESS, why, "takes a parameter's address") || !none(c, RW_LDU, why, "loads by ldu"))
        return false;
    for (uint32_t s = 0; s < c->nbody; s++) {
        for (uint32_t k = 0; k < c->body[s].f->nparam; k++)
            bytes += c->body[s].f->param[k]->bytes + 16;
        if (c->body[s].f->nparam != c->body[s].step->launch->narg) {
            dt_str_addf(why, "'%s' has other arguments than parameters", c->body[s].step->launch->name);
            return false;
        }
    }
    if (bytes > 4352) {
        dt_str_addf(why, "the parameters of all take %llu bytes, a launch takes 4352 everywhere",
                    (unsigned long long)bytes);
        return false;
    }
    return true;
}

/* Below sm_70 ptxas makes code in which threads of a warp stay together [T: `YIELD` is left out]; raised, they may
 * part, and what counts on it (volatile shared memory within a warp, no barrier) has other values. */
static bool schedules(const struct rw_cand *c, struct dt_str *why)
{
    unsigned highest = c->cluster || c->level == RW_LEVEL_CLUSTER ? 90 : c->flow ? 70 : 0;
    for (uint32_t s = 0; s < c->nbody; s++) {
        unsigned n = rw_target_number(c->body[s].f->module->target);
        highest = n > highest ? n : highest;
    }
    for (uint32_t s = 0; s < c->nbody && highest >= RW_PARTING; s++)
        if (rw_target_number(c->body[s].f->module->target) < RW_PARTING) {
            dt_str_addf(why, "'%s' is for %s, where threads of a warp stay together; for sm_%u they may part",
                        c->body[s].step->launch->name, c->body[s].f->module->target, highest);
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
    for (uint32_t s = 0; s < c->nbody; s++) {
        t[s] = c->body[s].f->module->target;
        const char *n = t[s] ? strstr(t[s], "sm_") : NULL;
        char *end;
        if (!n || strchr(t[s], ',')) {
            dt_str_addf(why, "'%s' is for target %s", c->body[s].step->launch->name, t[s] ? t[s] : "?");
            return false;
        }
        number[s] = strtoul(n + 3, &end, 10);
        special[s] = *end != 0;
        if (c->body[s].f->module->address_size != 64) {
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

bool rw_legal_uniform_barriers(const struct rw_cand *c, struct dt_str *why)
{
    return none(c, RW_BARRIER_VARYING, why, "has a barrier that some threads of a block may not reach");
}

bool rw_legal_uniform_collectives(const struct rw_cand *c, struct dt_str *why)
{
    return none(c, RW_COLLECTIVE_VARYING, why, "has a warp collective that some lanes of a warp may have left by then");
}

/* One that no body uses for fewer than all threads of the fused block: those that all threads meet at, of a body that
 * was fused before, do as well. */
int rw_phase_barrier(const struct rw_cand *c)
{
    unsigned taken = 0;
    if (c->beside && !c->flow) /* nothing follows a body */
        return 0;
    for (uint32_t s = 0; s < c->nbody; s++)
        taken |=
            c->body[s].threads == c->threads ? c->body[s].counted_ids : c->body[s].barrier_ids | c->body[s].counted_ids;
    for (int id = 0; id < 16; id++)
        if (!((taken >> id) & 1))
            return id;
    return -1;
}

bool rw_legal_barrier_numbers(const struct rw_cand *c, struct dt_str *why)
{
    if (!none(c, RW_BARRIER_REG, why, "has a barrier whose number or count is in a register") ||
        !none(c, RW_BARRIER_SPLIT, why, "arrives at a barrier without waiting"))
        return false;
    if (rw_phase_barrier(c) < 0) {
        dt_str_add(why, "the two bodies use all 16 barrier numbers for a part of the threads");
        return false;
    }
    return true;
}

bool rw_legal_thread_counts(const struct rw_cand *c, struct dt_str *why)
{
    for (uint32_t s = 0; s < c->nbody; s++) {
        const struct rw_body *b = &c->body[s];
        if (b->threads % 32 && (b->barriers || b->convergent)) {
            dt_str_addf(why, "'%s' has %u threads, not whole warps, and %s", b->step->launch->name, b->threads,
                        b->barriers ? "barriers" : "warp collectives");
            return false;
        }
    }
    if (c->threads > 1024) {
        dt_str_addf(why, "a block would have %u threads", c->threads);
        return false;
    }
    return true;
}

bool rw_legal_active_mask(const struct rw_cand *c, struct dt_str *why)
{
    return none(c, RW_ACTIVEMASK, why, "depends on which lanes run together");
}

bool rw_legal_async(const struct rw_cand *c, struct dt_str *why)
{
    return none(c, RW_ASYNC, why, "has asynchronous work that a phase's end does not wait for");
}
