/* A graph made ready: modules compiled, parsed, verified and assembled; then every launch is checked (prog-launch.c).
 *
 * A graph is refused here, with a JSON pointer, if it would fail or mean something else later:
 *
 *   DT_E_UNSUPPORTED   calls of functions that nothing defines (device-side launches among them), and modules for
 *                      another GPU
 *   DT_E_PTX           PTX that ptxas refuses, where ptxas is at hand
 *
 * Functions that no launch needs are left out before anything looks closer (narrow): only their syntax is checked. A
 * file of templates has hundreds of them, and ptxas would work on them for a minute.
 *
 * PTX that leaves contraction to ptxas gets its explicit form (contract.c; write_out).
 *
 * Modules are independent of each other. Two threads take them in turn; the work is done by the children of child.c.
 * Progress is reported from the calling thread only. If modules fail, the first of them in document order gives the
 * error, in whatever order they were taken.
 *
 * A program may be derived from another one (dev_prog_derive), since planning makes hundreds that differ in one launch.
 * A module's text and its parsed form are a unit; programs share units, which count their users.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "device/device-priv.h"
#include "ptx/flow.h"

#define COMPILE_MS 120000
#define THREADS 2

struct job { /* one module */
    struct dt_err err;
    int r;
};

struct build {
    struct dev_device *d;
    struct dev_prog *p;
    const struct dev_prog *base; /* NULL: none */
    struct job *job;
    atomic_uint next, done;
    atomic_bool failed;
};

/* JSON pointer to a member by name: '~' and '/' escaped. */
static char *pointer_to(const char *section, const char *name)
{
    struct dt_str s = {0};
    dt_str_addf(&s, "/%s/", section);
    for (; *name; name++)
        if (*name == '~' || *name == '/')
            dt_str_add(&s, *name == '~' ? "~0" : "~1");
        else
            dt_str_addc(&s, *name);
    return dt_str_take(&s);
}

/* Functions that a module calls and nobody defines. */
static int check_externs(const struct ptx_module *m, struct dt_err *e)
{
    static const char *const known[] = {"vprintf", "__assertfail", "malloc", "free"};
    for (uint32_t i = 0; i < m->nfunc; i++) {
        const struct ptx_function *f = m->func[i];
        bool ok = f->has_body;
        for (uint32_t k = 0; k < m->nfunc && !ok; k++)
            ok = m->func[k]->has_body && !strcmp(m->func[k]->name, f->name);
        for (size_t k = 0; k < sizeof known / sizeof *known && !ok; k++)
            ok = !strcmp(f->name, known[k]);
        if (ok)
            continue;
        if (strstr(f->name, "cudaLaunchDevice") || strstr(f->name, "cudaGetParameterBuffer") ||
            !strncmp(f->name, "__cudaCDP", 9))
            return dt_err_set(e, DT_E_UNSUPPORTED, "device-side launches are not supported (%.200s)", f->name);
        return dt_err_set(e, DT_E_UNSUPPORTED, "the module calls %.200s, which nothing defines", f->name);
    }
    for (uint32_t i = 0; i < m->nvar; i++)
        if (m->var[i]->is_extern && m->var[i]->space != PTX_SHARED)
            return dt_err_set(e, DT_E_UNSUPPORTED, "the module uses the variable %.200s of another module",
                              m->var[i]->name);
    return 0;
}

static void unit_drop(struct dev_unit *u)
{
    if (!u || atomic_fetch_sub(&u->users, 1) > 1)
        return;
    ptx_module_free(u->ir);
    ptx_module_free(u->posted);
    free(u->ptx);
    free(u);
}

static void take_unit(struct dev_module *m, struct dev_unit *u)
{
    m->unit = u;
    m->ptx = u->ptx;
    m->len = u->len;
    m->ir = u->ir;
    m->digest = u->digest;
}

/* Does the unit, which may be narrow, have what the graph launches of module `at`? */
static bool has_entries(const struct dt_graph *g, uint32_t at, const struct dev_unit *u)
{
    for (uint32_t i = 0; u->narrow && i < g->nlaunch; i++) {
        const struct dt_launch *l = &g->launch[i];
        if (l->kind != DT_KERNEL || l->module != at)
            continue;
        const struct ptx_function *f = ptx_find_function(u->ir, l->entry);
        if (!f || !f->has_body)
            return false;
    }
    return true;
}

/* The base's unit with the same text, one more user of it. */
static struct dev_unit *same_unit(const struct build *b, uint32_t at)
{
    const struct dt_module *src = &b->p->graph->module[at];
    for (uint32_t i = 0; b->base && src->is_ptx && i < b->base->graph->nmodule; i++) {
        struct dev_unit *u = b->base->module[i].unit;
        const struct dt_module *old = &b->base->graph->module[i];
        bool same = u->len == src->len && !memcmp(u->ptx, src->source, src->len);
        if (!same && u->narrow && old->is_ptx)
            same = old->len == src->len && !memcmp(old->source, src->source, src->len);
        if (same && has_entries(b->p->graph, at, u)) {
            atomic_fetch_add(&u->users, 1);
            return u;
        }
    }
    return NULL;
}

/* Put the text without the functions that no launch of module `at` needs in place of the unit's; its full text goes to
 * *ret_ptx, its IR to *ret_ir. 1 when there was nothing to leave out. */
static int narrow(const struct dt_graph *g, uint32_t at, struct dev_unit *u, char **ret_ptx, size_t *ret_len,
                  struct ptx_module **ret_ir)
{
    const char **entry = dt_calloc(g->nlaunch + 1, sizeof *entry);
    struct ptx_module *ir = NULL;
    size_t n = 0, len = 0;
    char *text = NULL;
    for (uint32_t i = 0; entry && i < g->nlaunch; i++)
        if (g->launch[i].kind == DT_KERNEL && g->launch[i].module == at)
            entry[n++] = g->launch[i].entry;
    int r = entry ? ptx_narrow(u->ir, u->ptx, u->len, entry, n, &text, &len) : DT_E_NOMEM;
    free(entry);
    if (r == 0 && (r = ptx_parse(text, len, &ir, NULL)) == 0) {
        *ret_ptx = u->ptx;
        *ret_len = u->len;
        *ret_ir = u->ir;
        u->ptx = text;
        u->len = len;
        u->ir = ir;
        u->narrow = true;
        return 0;
    }
    free(text);
    return r == DT_E_NOMEM ? r : 1;
}

/* Where ptxas contracts products and sums that the text leaves open, the text with the contractions written out is the
 * module from here on: its machine code is the same, and the software device then computes the same bits. (NVRTC
 * contracts before it writes PTX, but not all: tests/corpus/rows.) */
static int write_out(struct dev_unit *u)
{
    struct ptx_module *m = dev_explicit_module(u->ir, u->ptx, u->len, u->arch), *again = NULL;
    struct dt_str text = {0};
    if (!m)
        return 0;
    int r = ptx_print(m, &text);
    ptx_module_free(m);
    /* so that lines are those of the text */
    if (r == 0 && !text.failed && (r = ptx_parse(text.s, text.len, &again, NULL)) == 0) {
        free(u->ptx);
        u->len = text.len;
        u->ptx = dt_str_take(&text);
        u->posted = u->ir;
        u->ir = again;
    }
    dt_str_done(&text);
    return r == DT_E_NOMEM ? r : 0;
}

/* Can the unit be loaded and run? 1: as far as can be said without ptxas, which is missing or too slow (dev_resources
 * estimates later). */
static int closer_look(const struct build *b, struct dev_unit *u, struct dt_err *e)
{
    int r = check_externs(u->ir, e);
    if (!r)
        r = dev_arch_for(&b->d->info, u->ir->target ? u->ir->target : "", u->arch, e);
    if (!r)
        r = dev_assemble(u->ptx, u->len, u->arch, NULL, NULL, e);
    if (r != DT_E_NO_COMPILER && r != DT_E_TIMEOUT)
        return r;
    dt_err_done(e);
    return 1;
}

/* Instructions say which posted text they come from: a text that a rewrite emitted names others, any other is itself
 * one. Who posts an emitted text posts a text as good as any. */
static int mark_origins(const struct build *b, struct dev_unit *u)
{
    char text[DT_SHA256_TEXT], first[13] = "";
    if (b->base && ptx_origin_read(u->ir))
        return 0;
    int r = dt_sha256_text(u->ptx, u->len, text);
    if (r == 0) {
        memcpy(first, text + strlen("sha256:"), 12);
        ptx_origin_text(u->ir, strtoull(first, NULL, 16));
    }
    return r;
}

static void make_module(struct build *b, unsigned i)
{
    const struct dt_module *src = &b->p->graph->module[i];
    struct dev_module *m = &b->p->module[i];
    struct job *j = &b->job[i];
    struct dev_unit *u = same_unit(b, i);
    m->cubin = src->cubin;
    m->cubin_len = src->cubin_len;
    if (u) {
        take_unit(m, u);
        return;
    }
    u = dt_calloc(1, sizeof *u);
    if (!u) {
        j->r = DT_E_NOMEM;
        return;
    }
    atomic_init(&u->users, 1);
    if (src->is_ptx) {
        u->ptx = dt_malloc(src->len + 1);
        u->len = src->len;
        j->r = u->ptx ? 0 : DT_E_NOMEM;
        if (u->ptx) {
            memcpy(u->ptx, src->source, src->len);
            u->ptx[src->len] = 0;
        }
    } else {
        j->r = dev_compile_cuda(src->source, src->len, src->option, src->noption, b->d->info.arch, COMPILE_MS, &u->ptx,
                                &u->len, &j->err);
    }
    if (!j->r)
        j->r = ptx_parse(u->ptx, u->len, &u->ir, &j->err);
    if (!j->r)
        j->r = ptx_verify(u->ir, &j->err);
    if (!j->r) {
        struct ptx_module *ir = NULL;
        size_t len = 0;
        char *ptx = NULL;
        int less = narrow(b->p->graph, i, u, &ptx, &len, &ir);
        j->r = less == DT_E_NOMEM ? less : closer_look(b, u, &j->err);
        /* what was left out may have been needed: the whole has the word */
        if (less == 0 && j->r < 0 && j->r != DT_E_NOMEM) {
            ptx_module_free(u->ir);
            free(u->ptx);
            u->ptx = ptx;
            u->len = len;
            u->ir = ir;
            u->narrow = false;
            dt_err_done(&j->err);
            j->r = closer_look(b, u, &j->err);
        } else if (less == 0) {
            ptx_module_free(ir);
            free(ptx);
        }
    }
    j->r = j->r ? j->r : write_out(u);
    j->r = j->r < 0 ? j->r : mark_origins(b, u);
    j->r = j->r < 0 ? j->r : ptx_split_registers(u->ir, &j->err); /* the text stays */
    j->r = j->r < 0 ? j->r : dt_sha256_text(u->ptx, u->len, u->digest);
    take_unit(m, u);
}

static void *work(void *arg)
{
    struct build *b = arg;
    for (unsigned i; !b->failed && (i = b->next++) < b->p->graph->nmodule;) {
        make_module(b, i);
        if (b->job[i].r < 0)
            b->failed = true;
        b->done++;
    }
    return NULL;
}

static int make_modules(struct build *b, dev_progress fn, void *user, struct dt_err *e)
{
    const struct dt_graph *g = b->p->graph;
    pthread_t thread[THREADS - 1];
    unsigned started = 0;
    char text[160];
    for (; g->nmodule > 1 && started < THREADS - 1; started++)
        if (pthread_create(&thread[started], NULL, work, b))
            break;
    for (unsigned i; !b->failed && (i = b->next++) < g->nmodule;) {
        snprintf(text, sizeof text, "module %.100s", g->module[i].name);
        if (fn)
            fn("compile", text, b->done, g->nmodule, user);
        make_module(b, i);
        if (b->job[i].r < 0)
            b->failed = true;
        b->done++;
    }
    while (started)
        pthread_join(thread[--started], NULL);
    for (uint32_t i = 0; i < g->nmodule; i++) {
        struct job *j = &b->job[i];
        if (j->r < 0) {
            int r = j->r;
            if (!j->err.num)
                dt_err_set(&j->err, r, "module %.200s: %s", g->module[i].name, dt_err_text(r));
            if (!j->err.pointer)
                j->err.pointer = pointer_to("modules", g->module[i].name);
            if (e)
                dt_err_move(e, &j->err);
            return r;
        }
    }
    if (fn)
        fn("compile", "all modules", g->nmodule, g->nmodule, user);
    return 0;
}

int dev_prog_new(struct dev_device *d, const struct dt_graph *g, dev_progress fn, void *user, struct dev_prog **ret,
                 struct dt_err *e)
{
    return dev_prog_derive(d, g, NULL, fn, user, ret, e);
}

int dev_prog_derive(struct dev_device *d, const struct dt_graph *g, const struct dev_prog *base, dev_progress fn,
                    void *user, struct dev_prog **ret, struct dt_err *e)
{
    struct dev_prog *p = dt_calloc(1, sizeof *p);
    struct build b = {.d = d, .p = p, .base = base};
    int r = DT_E_NOMEM;
    if (p) {
        p->graph = g;
        p->l2_bytes = d->info.l2_bytes;
        p->module = dt_new_array(&p->arena, struct dev_module, g->nmodule + 1);
        p->step = dt_new_array(&p->arena, struct dev_step, g->nlaunch + 1);
        b.job = dt_calloc(g->nmodule + 1, sizeof *b.job);
    }
    if (p && p->module && p->step && b.job) {
        r = make_modules(&b, fn, user, e);
        if (!r)
            r = dev_check_launches(d, p, base, e);
    } else {
        dt_err_set(e, r, "out of memory");
    }
    for (uint32_t i = 0; b.job && i < g->nmodule; i++)
        dt_err_done(&b.job[i].err);
    free(b.job);
    if (r < 0)
        dev_prog_free(p);
    else
        *ret = p;
    return r;
}

struct dev_prog *dev_prog_free(struct dev_prog *p)
{
    if (!p)
        return NULL;
    for (uint32_t i = 0; p->module && i < p->graph->nmodule; i++)
        unit_drop(p->module[i].unit);
    dt_arena_done(&p->arena);
    free(p);
    return NULL;
}
