/* Predicates on what the kernels contain: LEGAL rows of legal.def.
 *
 * Each turns a find of body.c, vary.c or lanes.c into one sentence that names the launch, the instruction and its line.
 * Nothing here looks at block maps or launches; legal-memory.c does.
 */
#include "rewrite/facts/legal.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

bool rw_legal_none(const struct rw_facts *facts, enum rw_fact k, struct dt_str *why, const char *what)
{
    for (uint32_t s = 0; s < facts->nbody; s++) {
        const struct rw_find *f = &facts->body[s].find[k];
        if (!f->set)
            continue;
        dt_str_addf(why, DT_LAUNCH " %s (`%.60s`, PTX line %u)", facts->body[s].step->launch->name, what,
                    f->what ? f->what : "?", f->line);
        return false;
    }
    return true;
}

bool rw_legal_opaque(const struct rw_facts *facts, struct dt_str *why)
{
    return rw_legal_none(facts, RW_OPAQUE, why, "has an instruction nobody here knows");
}

bool rw_legal_ordered_access(const struct rw_facts *facts, struct dt_str *why)
{
    return rw_legal_none(facts, RW_ORDERED, why, "may talk to other blocks of its launch");
}

bool rw_legal_side_effects(const struct rw_facts *facts, struct dt_str *why)
{
    return rw_legal_none(facts, RW_SIDE, why, "has an effect that others can see");
}

bool rw_legal_machine_registers(const struct rw_facts *facts, struct dt_str *why)
{
    return rw_legal_none(facts, RW_MACHINE, why, "reads a machine register");
}

bool rw_legal_functions(const struct rw_facts *facts, struct dt_str *why)
{
    return rw_legal_none(facts, RW_INDIRECT_CALL, why, "calls through a pointer") &&
           rw_legal_none(facts, RW_RECURSION, why, "calls recursively") &&
           rw_legal_none(facts, RW_EXTERN_CALL, why, "calls a function that is not in its module") &&
           rw_legal_none(facts, RW_EXIT_IN_FUNC, why, "exits inside a function") &&
           rw_legal_none(facts, RW_FUNC_CONTEXT, why,
                         "calls a function that uses its block's threads, barriers or shared memory");
}

bool rw_legal_module_variables(const struct rw_facts *facts, struct dt_str *why)
{
    return rw_legal_none(facts, RW_GLOBAL_VAR, why, "uses a module variable that may be written");
}

bool rw_legal_parameters(const struct rw_facts *facts, struct dt_str *why)
{
    uint64_t bytes = 0;
    if (!rw_legal_none(facts, RW_PARAM_ADDRESS, why, "takes a parameter's address") ||
        !rw_legal_none(facts, RW_LDU, why, "loads by ldu"))
        return false;
    for (uint32_t s = 0; s < facts->nbody; s++) {
        for (uint32_t k = 0; k < facts->body[s].f->nparam; k++)
            bytes += facts->body[s].f->param[k]->bytes + 16;
        if (facts->body[s].f->nparam != facts->body[s].step->launch->narg) {
            dt_str_addf(why, DT_LAUNCH " has other arguments than parameters", facts->body[s].step->launch->name);
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

bool rw_legal_uniform_barriers(const struct rw_facts *facts, struct dt_str *why)
{
    return rw_legal_none(facts, RW_BARRIER_VARYING, why, "has a barrier that some threads of a block may not reach");
}

bool rw_legal_uniform_collectives(const struct rw_facts *facts, struct dt_str *why)
{
    return rw_legal_none(facts, RW_COLLECTIVE_VARYING, why,
                         "has a warp collective that some lanes of a warp may have left by then");
}

bool rw_legal_active_mask(const struct rw_facts *facts, struct dt_str *why)
{
    return rw_legal_none(facts, RW_ACTIVEMASK, why, "depends on which lanes run together");
}

bool rw_legal_async(const struct rw_facts *facts, struct dt_str *why)
{
    return rw_legal_none(facts, RW_ASYNC, why, "has asynchronous work that a phase's end does not wait for");
}

bool rw_legal_beside_async(const struct rw_facts *facts, struct dt_str *why)
{
    return rw_legal_none(facts, RW_ASYNC_FAR, why, "has asynchronous work that concerns more than its block");
}
