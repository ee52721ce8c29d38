/* One launch's kernel alone in a module of its own, to be changed: a copy of the entry and of what it uses, with arithmetic that ptxas cannot
 * contract otherwise whatever is put between (device/identity.c), instructions put in, the text checked.
 *
 * Instructions are put in by text, in the names of the copy. Versions are raised to what the new instructions need, and no further.
 */
#include "rewrite/rewrite-priv.h"

#include <stdlib.h>
#include <string.h>

int rw_solo_init(struct rw_solo *s, const struct dev_info *dev, const struct dev_prog *p, uint32_t launch, struct dt_err *e)
{
    memset(s, 0, sizeof *s);
    s->dev = dev;
    s->prog = p;
    s->launch = launch;
    return p->step[launch].entry ? rw_body_init(&s->arena, p, launch, NULL, &s->body, e) : 0;
}

void rw_solo_done(struct rw_solo *s)
{
    ptx_module_free(s->own);
    ptx_module_free(s->m);
    dt_arena_done(&s->arena);
    memset(s, 0, sizeof *s);
}

int rw_solo_copy(struct rw_solo *s, struct dt_str *why, struct dt_err *e)
{
    const struct ptx_function *f = s->body.f;
    enum dev_identity id = s->own ? DEV_IDENTICAL : dev_identity(f->module, f->name, s->dev->arch);
    if (id == DEV_CONTRACTED && (s->own = dev_explicit(f->module, f->name, s->dev->arch)))
        id = DEV_IDENTICAL;
    if (id != DEV_IDENTICAL) {
        dt_str_addf(why, "arithmetic-identity: '%s' leaves multiply-adds for ptxas to contract; changed, they could be contracted otherwise",
                    s->prog->graph->launch[s->launch].name);
        return 1;
    }
    ptx_module_free(s->m);
    s->m = NULL;
    int r = ptx_clone(s->own ? s->own : f->module, f->name, &s->m, e);
    if (r < 0)
        return r;
    s->f = ptx_find_function(s->m, f->name);
    if (!s->f)
        return dt_err_set(e, DT_E_INTERNAL, "entry %s is not in its own copy", f->name);
    for (uint32_t k = 0; k < s->m->nfunc; k++)
        dev_round_muls(s->m->func[k]);
    return 0;
}

int rw_solo_insert(struct rw_solo *s, uint32_t at, const char *text, struct dt_err *e)
{
    struct ptx_function *f = s->f;
    uint32_t before = f->ninst;
    int r = ptx_append_text(f, e, "%s", text);
    if (r < 0)
        return r;
    uint32_t n = f->ninst - before;
    struct ptx_inst *keep = dt_memdup(f->inst + before, n * sizeof *keep + 1);
    if (!keep)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memmove(f->inst + at + n, f->inst + at, (before - at) * sizeof *keep);
    memcpy(f->inst + at, keep, n * sizeof *keep);
    free(keep);
    return (int)n;
}

static int number(const char *target)
{
    const char *t = strstr(target ? target : "", "sm_");
    return t ? (int)strtol(t + 3, NULL, 10) : 0;
}

void rw_solo_needs(struct rw_solo *s, unsigned version, unsigned sm)
{
    if (s->m->version_major * 100 + s->m->version_minor < version) {
        s->m->version_major = version / 100;
        s->m->version_minor = version % 100;
    }
    if (number(s->m->target) < (int)sm) {
        char text[16];
        snprintf(text, sizeof text, "sm_%u", sm);
        s->m->target = dt_arena_strdup(&s->m->arena, text);
    }
}

int rw_solo_text(struct rw_solo *s, struct dt_str *out, struct dt_err *e)
{
    struct ptx_module *again = NULL;
    struct dt_str second = {0};
    int r = s->m->target ? ptx_verify(s->m, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r < 0)
        return r;
    if ((r = ptx_print(s->m, out)) < 0 || out->failed)
        return dt_err_set(e, DT_E_NOMEM, "the new kernel cannot be printed");
    if ((r = ptx_parse(out->s, out->len, &again, e)) < 0)
        return r;
    if ((r = ptx_print(again, &second)) == 0 && (second.failed || second.len != out->len || memcmp(second.s, out->s, out->len)))
        r = dt_err_set(e, DT_E_INTERNAL, "the new kernel does not print and parse to itself");
    dt_str_done(&second);
    ptx_module_free(again);
    return r;
}
