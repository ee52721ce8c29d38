/* The conditions of legal-solo.def, one function each, and rw_solo_legal, which asks them.
 *
 * They look at the facts of one launch's kernel (facts/body.c). The launch's neighbours are checked by the rewrite and
 * by gate/waits.c.
 */
#include "rewrite/emit/solo.h"
#include "rewrite/facts/hooks.h"

#include <string.h>

#include "base/subject.h"

static bool absent(const struct rw_solo *s, enum rw_fact k, const char *what, struct dt_str *why)
{
    const struct rw_find *f = &s->body.find[k];
    if (f->set)
        dt_str_addf(why, DT_LAUNCH ", PTX line %u: %s: %s", s->prog->graph->launch[s->launch].name, f->line,
                    f->what ? f->what : "?", what);
    return !f->set;
}

static bool has_op(const struct ptx_function *f, unsigned op)
{
    for (uint32_t k = 0; k < f->ninst; k++)
        if (f->inst[k].op == op)
            return true;
    return false;
}

static bool rw_solo_kernel(const struct rw_solo *s, struct dt_str *why)
{
    if (s->body.f)
        return true;
    dt_str_addf(why, DT_LAUNCH " is no kernel launch", s->prog->graph->launch[s->launch].name);
    return false;
}

static bool rw_solo_arch(const struct rw_solo *s, struct dt_str *why)
{
    if (s->dev->cc_major >= 9)
        return true;
    dt_str_addf(why, "%s has no programmatic launches", s->dev->arch);
    return false;
}

static bool rw_solo_known(const struct rw_solo *s, struct dt_str *why)
{
    return absent(s, RW_OPAQUE, "nobody knows what it does", why);
}

static bool rw_solo_calls(const struct rw_solo *s, struct dt_str *why)
{
    return absent(s, RW_INDIRECT_CALL, "where it goes is not known", why) &&
           absent(s, RW_RECURSION, "a function reaches itself", why) &&
           absent(s, RW_EXTERN_CALL, "it is not in the module", why) &&
           absent(s, RW_EXIT_IN_FUNC, "in a function that is called", why);
}

static bool rw_solo_tables(const struct rw_solo *s, struct dt_str *why)
{
    return absent(s, RW_GLOBAL_VAR, "something may write it, or it holds addresses", why);
}

static bool rw_solo_scheduling(const struct rw_solo *s, struct dt_str *why)
{
    const char *target = s->body.f->module->target;
    /* else nothing is put in that needs another target */
    if (s->dev->cc_major < 9 || rw_target_number(target) >= RW_PARTING)
        return true;
    dt_str_addf(why, DT_LAUNCH " is for %s, where threads of a warp stay together; for sm_90 they may part",
                s->prog->graph->launch[s->launch].name, target ? target : "no target");
    return false;
}

static bool rw_solo_unwaited(const struct rw_solo *s, struct dt_str *why)
{
    for (uint32_t k = 0; k < s->body.f->module->nfunc; k++) {
        const struct ptx_function *f = s->body.f->module->func[k];
        bool waits = has_op(f, PTX_OP_GRIDDEPCONTROL_WAIT), lets = has_op(f, PTX_OP_GRIDDEPCONTROL_LAUNCH);
        if ((waits || lets) && (f == s->body.f || !f->is_entry)) {
            dt_str_addf(why, DT_LAUNCH " has griddepcontrol.%s of its own", s->prog->graph->launch[s->launch].name,
                        waits ? "wait" : "launch_dependents");
            return false;
        }
    }
    return true;
}

static bool rw_solo_single_blocks(const struct rw_solo *s, struct dt_str *why)
{
    const struct dt_launch *l = &s->prog->graph->launch[s->launch];
    if (!l->cluster[0] && !s->body.f->reqnctapercluster[0] &&
        !(s->body.f->extra && strstr(s->body.f->extra, "cluster")))
        return true;
    dt_str_addf(why, DT_LAUNCH " runs in clusters", l->name);
    return false;
}

static bool rw_solo_numbers(const struct rw_solo *s, struct dt_str *why)
{
    const struct ptx_function *f = s->body.f;
    for (uint32_t n = 0; n < f->ninst; n++)
        for (unsigned k = 0; k < f->inst[n].nopnd; k++) {
            const struct ptx_opnd *o = &f->inst[n].opnd[k];
            if (o->kind != PTX_O_SREG || (o->sreg != PTX_SR_CTAID && o->sreg != PTX_SR_NCTAID) || o->comp >= 0)
                continue;
            dt_str_addf(why, DT_LAUNCH ", PTX line %u: block numbers as a vector",
                        s->prog->graph->launch[s->launch].name, f->inst[n].line);
            return false;
        }
    return absent(s, RW_MACHINE, "it is a machine register", why) &&
           absent(s, RW_FUNC_CONTEXT, "a function reads what belongs to the block", why);
}

static bool rw_solo_no_talk(const struct rw_solo *s, struct dt_str *why)
{
    if (!absent(s, RW_ORDERED, "blocks may talk to each other", why))
        return false;
    if (!s->self_conflict)
        return true;
    dt_str_addf(why, "two blocks of " DT_LAUNCH " touch a byte, one of them writing",
                s->prog->graph->launch[s->launch].name);
    return false;
}

static bool rw_solo_room(const struct rw_solo *s, struct dt_str *why)
{
    uint32_t n = s->prog->step[s->launch].param_total;
    if (n <= 4096 - 64)
        return true;
    dt_str_addf(why, DT_LAUNCH " has %u bytes of parameters already", s->prog->graph->launch[s->launch].name, n);
    return false;
}

static bool rw_solo_coherent(const struct rw_solo *s, struct dt_str *why)
{
    return !s->behind || absent(s, RW_LDU, "what the launch before it writes may be loaded by it", why);
}

static bool rw_solo_warps_apart(const struct rw_solo *s, struct dt_str *why)
{
    const struct rw_body *b = &s->body;
    const struct ptx_function *f = b->f;
    const char *name = s->prog->graph->launch[s->launch].name;
    for (uint32_t n = 0; n < f->ninst; n++)
        for (unsigned k = 0; k < f->inst[n].nopnd; k++) {
            const struct ptx_opnd *o = &f->inst[n].opnd[k];
            if (o->kind != PTX_O_SREG || (o->sreg != PTX_SR_TID && o->sreg != PTX_SR_NTID) || o->comp >= 0)
                continue;
            dt_str_addf(why, DT_LAUNCH ", PTX line %u: thread numbers as a vector", name, f->inst[n].line);
            return false;
        }
    if (b->threads % 32)
        dt_str_addf(why, DT_LAUNCH " has %u threads, not whole warps", name, b->threads);
    else if (b->barriers)
        dt_str_addf(why, DT_LAUNCH " has barriers", name);
    else if (b->shared_used || b->shared_bytes)
        dt_str_addf(why, DT_LAUNCH " has shared memory", name);
    else if (s->atomics)
        dt_str_addf(why, DT_LAUNCH " has atomics", name);
    else
        return absent(s, RW_ASYNC, "it may be the whole block's", why);
    return false;
}

static const struct {
    const char *name;
    unsigned kinds;
    bool (*fn)(const struct rw_solo *, struct dt_str *);
} rule[] = {
#define SOLO(NAME, kinds, text) {#NAME, kinds, rw_solo_##NAME},
#include "rewrite/legal-solo.def"
#undef SOLO
};

bool rw_solo_legal(const struct rw_solo *s, unsigned kinds, struct dt_str *why)
{
    for (size_t k = 0; k < sizeof rule / sizeof *rule; k++) {
        struct dt_str text = {0};
        bool ok = !(rule[k].kinds & kinds) || rw_off(rule[k].name) || rule[k].fn(s, &text);
        if (!ok) {
            dt_add_row(why, rule[k].name);
            dt_str_addf(why, ": %s", text.s ? text.s : "it does not hold");
        }
        dt_str_done(&text);
        if (!ok)
            return false;
    }
    return true;
}
