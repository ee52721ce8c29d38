/* Errors of a launch that is recorded, in the words of the posted graph.
 *
 * An access outside every buffer is an error with launch, block, thread and the PTX line of the graph's own module,
 * with the buffer nearby and the argument that its address comes from. A fault of the software device is looked up
 * again by plain runs in a new context, whose message has the graph's own PTX lines.
 */
#include "analysis/record/launch-priv.h"

#include <string.h>

#include "base/str.h"
#include "base/subject.h"

/* "; its address comes from argument 2 (buffer x)" */
static void origin_of(struct ana_rec *s, struct ana_job *j, const struct ana_site *x, struct dt_str *out)
{
    dt_str_add(out, "; its address comes from ");
    for (uint32_t k = 0; k < x->nparams; k++) {
        const struct dt_arg *a = x->params[k] < j->l->narg ? &j->l->arg[x->params[k]] : NULL;
        dt_str_addf(out, "%sargument %u", k ? " or " : "", x->params[k]);
        for (uint32_t q = 0; a && q < arg_buffers(a, NULL, 0); q++)
            dt_str_addf(out, "%s" DT_BUFFER, q ? ", " : " (", s->g->buffer[arg_buffer(a, q)].name);
        dt_str_add(out, a && arg_buffers(a, NULL, 0) ? ")" : "");
    }
    for (uint32_t k = 0; k < x->nvars; k++)
        dt_str_addf(out, "%svariable %s", k || x->nparams ? " or " : "", x->vars[k]->name);
    if (!x->nparams && !x->nvars)
        dt_str_add(out, x->address == ANA_PROVED ? "no argument that is a buffer" : "data");
}

int ana_job_fault(struct ana_rec *s, struct ana_job *j, const struct ana_fault *f)
{
    const uint32_t *g = j->l->grid;
    const struct ana_site *x = f->site <= j->v->code.sites.nsite ? &j->v->code.sites.site[f->site - 1] : NULL;
    const struct ptx_inst *i = x && x->inst < j->v->entry->ninst ? &j->v->entry->inst[x->inst] : NULL;
    struct dt_str text = {0};
    s->found = true;
    for (uint32_t k = 0; k < j->ntab; k++) {
        const struct ana_tab *t = &j->tab[k];
        if (!x || !x->writes || !t->fixed || f->address - t->base >= t->bytes ||
            t->bytes - (f->address - t->base) < x->bytes)
            continue;
        for (uint32_t b = 0; b < s->g->nbuffer; b++)
            if (s->addr[b] == t->base && protected_buffer(s, b))
                return refuse_write(s, j->l, b);
        return dt_err_set(s->e, DT_E_UNSUPPORTED,
                          "launch " DT_LAUNCH_BARE
                          ": kernel %s, PTX line %u writes a module variable that is not declared as a buffer",
                          j->l->name, j->v->entry->name, i ? i->line : 0);
    }
    dt_str_addf(&text,
                "launch " DT_LAUNCH_BARE ": kernel %s, block (%u,%u,%u), thread (%u,%u,%u), PTX line %u: ", j->l->name,
                j->v->entry->name, f->block % g[0], f->block / g[0] % g[1], f->block / g[0] / g[1], f->tid[0],
                f->tid[1], f->tid[2], i ? i->line : 0);
    struct dt_str inst = {0};
    if (i)
        ptx_print_inst(j->v->entry, i, &inst);
    size_t n = inst.s ? inst.len - (inst.len && inst.s[inst.len - 1] == ';') : 0;
    dt_str_addn(&text, inst.s ? inst.s : "", n);
    dt_str_done(&inst);
    uint32_t bytes = x && x->bytes ? x->bytes : 1;
    if (x && !x->bytes)
        dt_str_add(&text, ": its first or last byte is outside every buffer of the launch: ");
    else
        dt_str_addf(&text, ": %u bytes %s: ", bytes,
                    f->address % bytes ? "at a misaligned address" : "outside every buffer of the launch");
    dev_where(s->g, s->addr, f->address, bytes, &text);
    for (uint32_t b = 0; b < s->g->nbuffer; b++)
        if (f->address - s->addr[b] < s->bytes[b] && !ana_job_has(j, b))
            dt_str_add(&text, ", which is not one of its arguments");
    if (x)
        origin_of(s, j, x, &text);
    int rc = dt_err_set(s->e, DT_E_BOUNDS, "%s", text.s && !text.failed ? text.s : "an access outside every buffer");
    dt_str_done(&text);
    return rc;
}

/* The instrumented launch has faulted on the software device: the plain launches, in a context of their own, say it
 * with the graph's own PTX lines. */
int ana_job_crashed(struct ana_rec *s, int rc, struct dt_err *mine)
{
    struct dt_err plain = {0};
    struct dev_run *run = NULL;
    int r = 0;
    if (dev_info(s->d)->soft &&
        (rc == DT_E_TRAP || rc == DT_E_BOUNDS || rc == DT_E_DEADLOCK || rc == DT_E_UNSUPPORTED)) {
        r = dev_reset(s->d, &plain);
        if (!r)
            r = dev_run_new(s->d, s->p, &run, &plain);
        if (!r)
            r = dev_run_fill(run, 0, -1, &plain);
        if (!r)
            r = dev_run_once(run, &plain);
        dev_run_free(run);
    }
    if (r == rc) {
        dt_err_move(s->e, &plain);
        dt_err_done(mine);
    } else {
        dt_err_done(&plain);
        dt_err_move(s->e, mine);
    }
    return rc;
}
