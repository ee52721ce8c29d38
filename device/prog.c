/* A graph made ready: modules compiled, parsed, verified and assembled; every launch checked against its entry and the
 * device.
 *
 * A graph is refused here, with a JSON pointer, if it would fail or mean something else later:
 *
 *   DT_E_NO_ENTRY      an entry that does not exist
 *   DT_E_ARGS          arguments that do not fit the parameters
 *   DT_E_LAUNCH        impossible geometry or shared memory
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
 *
 * Kernel parameters are laid out as in PTX: each at the next multiple of its alignment.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/nearest.h"
#include "base/vec.h"
#include "device/device-priv.h"
#include "graph/cuda-launch.h"

#define COMPILE_MS 120000
#define THREADS 2
#define MAX_PARAMS 32764

struct dev_unit { /* a module's text and what was made of it */
    atomic_uint users;
    char *ptx, arch[16];
    size_t len;
    struct ptx_module *ir, *posted; /* posted: before its contractions were written out, NULL: as it is */
    bool narrow;                    /* functions were left out */
    char digest[DT_SHA256_TEXT];    /* of ptx */
};

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
    struct ptx_module *m = dev_explicit_module(u->ir, u->arch), *again = NULL;
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

/* ---- launches ---- */
static int prog_refuse(struct dt_err *e, int num, uint32_t launch, const char *member, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static int prog_refuse(struct dt_err *e, int num, uint32_t launch, const char *member, const char *fmt, ...)
{
    char pointer[96], text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(pointer, sizeof pointer, "/launches/%u%s%s", launch, *member ? "/" : "", member);
    return dt_err_at(e, num, pointer, "%s", text);
}

/* Is `have` what C++ makes of the name `want`, which may be qualified or have template arguments? */
static bool is_mangled(const char *have, const char *want)
{
    char part[128];
    size_t n = strcspn(want, "<("), from = n;
    while (from && want[from - 1] != ':')
        from--;
    snprintf(part, sizeof part, "%zu%.*s", n - from, (int)(n - from < 100 ? n - from : 100), want + from);
    const char *at = n > from && !strncmp(have, "_Z", 2) ? strstr(have, part) : NULL;
    return at && (at[-1] < '0' || at[-1] > '9');
}

static int find_entry(const struct dev_prog *p, uint32_t at, struct dev_step *s, struct dt_err *e)
{
    const struct dt_launch *l = &p->graph->launch[at];
    const struct ptx_module *m = p->module[l->module].ir;
    struct dt_str names = {0};
    const char *meant = NULL;
    for (uint32_t i = 0; i < m->nfunc; i++) {
        if (!m->func[i]->is_entry || !m->func[i]->has_body)
            continue;
        if (!strcmp(m->func[i]->name, l->entry)) {
            const struct ptx_module *posted = p->module[l->module].unit->posted;
            dt_str_done(&names);
            s->entry = m->func[i];
            s->posted = posted ? ptx_find_function(posted, l->entry) : m->func[i];
            return 0;
        }
        if (names.len < 300)
            dt_str_addf(&names, "%s%.100s", names.len ? ", " : "", m->func[i]->name);
        else if (names.s[names.len - 1] != '.')
            dt_str_add(&names, ", ...");
        if (!meant && is_mangled(m->func[i]->name, l->entry))
            meant = m->func[i]->name;
    }
    char hint[320] = "";
    struct dt_nearest near = dt_nearest_of(l->entry, strlen(l->entry));
    for (uint32_t i = 0; i < m->nfunc; i++)
        if (m->func[i]->is_entry && m->func[i]->has_body)
            dt_nearest_try(&near, m->func[i]->name, strlen(m->func[i]->name));
    if (!meant && near.best)
        snprintf(hint, sizeof hint, "; did you mean \"%.*s\"?", (int)near.best_len, near.best);
    if (meant)
        snprintf(hint, sizeof hint, "; C++ calls it \"%.200s\" (extern \"C\" in the source keeps a name)", meant);
    int r = prog_refuse(e, DT_E_NO_ENTRY, at, "entry", "module %.100s has no entry \"%.100s\"%s; it has %s",
                        p->graph->module[l->module].name, l->entry, hint,
                        names.len ? names.s : "none (a template is one when it is instantiated)");
    dt_str_done(&names);
    return r;
}

/* A scalar of the right size whose kind cannot be meant. Compilers declare floats as .fN and integers as .uN or .sN
 * (nvcc, LLVM), structs and hand-written code as .bN, which takes anything. So a float for an integer parameter is a
 * mistake. An integer for a float parameter may be a float's bits, as somebody has them who captured a launch and knows
 * sizes only; but 1 … 0x7fffff (an f32) or -1 … -0x7fffff are no such: subnormal, or a NaN with its sign. */
static bool wrong_kind(const struct dt_arg *a, const struct ptx_var *v)
{
    enum ptx_type t = v->type;
    bool real = a->dtype == DT_F32 || a->dtype == DT_F64;
    uint64_t bits = dt_dtype_bytes(a->dtype) == 4 ? (uint32_t)a->bits : a->bits;
    if (a->kind == DT_ARG_BUFFER)
        return t == PTX_F64;
    if (a->kind != DT_ARG_SCALAR || !bits || v->is_array || v->vec > 1 || ptx_type_is_bits(t))
        return false;
    if (real != (t == PTX_F32 || t == PTX_F64))
        return real || (a->dtype <= DT_U64 && ((bits < (t == PTX_F32 ? UINT64_C(1) << 23 : UINT64_C(1) << 52)) ||
                                               (a->dtype == DT_I32 && bits > 0xff800000) ||
                                               (a->dtype == DT_I64 && bits > UINT64_C(0xfff0000000000000))));
    return false;
}

static int check_args(const struct dev_info *d, struct dev_prog *p, uint32_t at, struct dev_step *s, struct dt_err *e)
{
    const struct dt_launch *l = s->launch;
    uint32_t *offset = dt_new_array(&p->arena, uint32_t, l->narg + 1);
    char member[32];
    uint64_t end = 0;
    if (!offset)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (l->narg != s->entry->nparam)
        return prog_refuse(e, DT_E_ARGS, at, "args", "%.100s takes %u arguments, %u are given", l->entry,
                           s->entry->nparam, l->narg);
    for (uint32_t i = 0; i < l->narg; i++) {
        const struct dt_arg *a = &l->arg[i];
        const struct ptx_var *v = s->entry->param[i];
        uint64_t align = v->align ? v->align : 1, have = 8;
        snprintf(member, sizeof member, "args/%u", i);
        end = (end + align - 1) / align * align;
        if (end > MAX_PARAMS || v->bytes > MAX_PARAMS - end)
            return prog_refuse(e, DT_E_ARGS, at, member, "the parameters of %.100s are over %u bytes", l->entry,
                               MAX_PARAMS);
        offset[i] = (uint32_t)end;
        end += v->bytes;
        switch (a->kind) {
        case DT_ARG_BUFFER: break;
        case DT_ARG_SCALAR: have = dt_dtype_bytes(a->dtype); break;
        case DT_ARG_BYTES: have = a->nbytes; break;
        case DT_ARG_TENSOR_MAP:
            have = PTX_TENSORMAP_BYTES;
            if (d->cc_major < 9)
                return prog_refuse(e, DT_E_UNSUPPORTED, at, member, "%s has no tensor maps", d->name);
            if (dev_tensor_map_check(a))
                return prog_refuse(e, DT_E_ARGS, at, member, "the tensor map: %s", dev_tensor_map_check(a));
            if (align < 64)
                return prog_refuse(e, DT_E_ARGS, at, member,
                                   "a tensor map wants a parameter at a multiple of 64 bytes, %.100s is at one of %llu",
                                   v->name, (unsigned long long)align);
        }
        if (have != v->bytes)
            return prog_refuse(e, DT_E_ARGS, at, member, "%s has %llu bytes, the parameter %.100s has %llu",
                               a->kind == DT_ARG_BUFFER       ? "an address"
                               : a->kind == DT_ARG_TENSOR_MAP ? "a tensor map"
                                                              : "the argument",
                               (unsigned long long)have, v->name, (unsigned long long)v->bytes);
        if (wrong_kind(a, v))
            return prog_refuse(e, DT_E_ARGS, at, member, "%s for the parameter %.100s, which is .%s%s",
                               a->kind == DT_ARG_BUFFER ? "an address" : dt_dtype_text(a->dtype), v->name,
                               ptx_type_text(v->type),
                               a->kind == DT_ARG_BUFFER ? "" : ": give that kind; bits can be given as \"bytes\"");
        for (uint32_t k = 0; a->kind == DT_ARG_BYTES && k < a->npointer; k++)
            if (a->pointer[k].at > a->nbytes || a->nbytes - a->pointer[k].at < 8)
                return prog_refuse(e, DT_E_ARGS, at, member, "a pointer at byte %u is outside the argument",
                                   a->pointer[k].at);
    }
    s->param_offset = offset;
    s->param_total = (uint32_t)end;
    return 0;
}

static int check_geometry(const struct dev_info *d, uint32_t at, struct dev_step *s, struct dt_err *e)
{
    const struct dt_launch *l = s->launch;
    const struct ptx_function *f = s->entry;
    static const uint32_t most_grid[3] = {INT32_MAX, 65535, 65535}, most_block[3] = {1024, 1024, 64};
    uint64_t threads = 1, blocks = 1, limit = 1, size = 1;
    for (int i = 0; i < 3; i++) {
        if (!l->grid[i] || l->grid[i] > most_grid[i])
            return prog_refuse(e, DT_E_LAUNCH, at, "grid", "a grid of %u x %u x %u is impossible", l->grid[0],
                               l->grid[1], l->grid[2]);
        if (!l->block[i] || l->block[i] > most_block[i])
            return prog_refuse(e, DT_E_LAUNCH, at, "block", "a block of %u x %u x %u threads is impossible",
                               l->block[0], l->block[1], l->block[2]);
        threads *= l->block[i];
        blocks *= l->grid[i];
        if (blocks > INT32_MAX)
            return prog_refuse(e, DT_E_LAUNCH, at, "grid", "a grid of more than %d blocks is not supported", INT32_MAX);
        limit *= f->maxntid[i] ? f->maxntid[i] : 1;
        if (f->reqntid[0] && (f->reqntid[i] ? f->reqntid[i] : 1) != l->block[i])
            return prog_refuse(e, DT_E_LAUNCH, at, "block", "%.100s requires blocks of %u x %u x %u threads", l->entry,
                               f->reqntid[0], f->reqntid[1] ? f->reqntid[1] : 1, f->reqntid[2] ? f->reqntid[2] : 1);
    }
    if (threads > 1024 || (f->maxntid[0] && threads > limit))
        return prog_refuse(e, DT_E_LAUNCH, at, "block", "%llu threads a block are more than the %llu that are possible",
                           (unsigned long long)threads, (unsigned long long)(f->maxntid[0] ? limit : 1024));
    s->threads = (uint32_t)threads;
    s->blocks = (uint32_t)blocks;
    bool cluster = l->cluster[0] || l->cluster[1] || l->cluster[2];
    for (int i = 0; i < 3 && (cluster || f->reqnctapercluster[0]); i++) {
        uint32_t req = f->reqnctapercluster[0] ? (f->reqnctapercluster[i] ? f->reqnctapercluster[i] : 1) : 0;
        uint32_t c = cluster ? l->cluster[i] : req;
        size *= c;
        if (d->cc_major < 9)
            return prog_refuse(e, DT_E_LAUNCH, at, "cluster", "%s has no thread block clusters", d->name);
        if (!c || l->grid[i] % c || (req && c != req) || size > 16)
            return prog_refuse(e, DT_E_LAUNCH, at, "cluster",
                               "the cluster does not fit the grid or the entry, or is over 16 blocks");
    }
    return 0;
}

static const char *limit_of(const struct dev_info *d, const struct dev_step *s, uint64_t shared)
{
    uint64_t warps = (s->threads + 31) / 32, per_warp = (s->res.registers * 32 + 255) / 256 * 256;
    uint64_t by_threads = d->max_threads_sm / (warps * 32), best = d->max_blocks_sm;
    uint64_t by_regs = per_warp ? d->regs_sm / 4 / per_warp * 4 / warps : best,
             by_shared = d->shared_sm / (shared + d->shared_reserved + 1);
    const char *limit = "blocks";
    if (by_threads < best)
        best = by_threads, limit = "threads";
    if (by_regs < best)
        best = by_regs, limit = "registers";
    if (by_shared < best)
        limit = "shared";
    return limit;
}

/* Blocks of a cluster wait for each other: all of them must fit at once. */
static int check_cluster(struct dev_device *d, CUfunction f, uint32_t at, const struct dev_step *s, struct dt_err *e)
{
    const struct dt_launch *l = s->launch;
    const uint32_t *c = l->cluster[0] ? l->cluster : s->entry->reqnctapercluster;
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                              .value.clusterDim = {c[0], c[1] ? c[1] : 1, c[2] ? c[2] : 1}};
    CUlaunchConfig cfg = dt_cuda_config(l);
    cfg.attrs = &attr;
    cfg.numAttrs = 1;
    uint32_t size = attr.value.clusterDim.x * attr.value.clusterDim.y * attr.value.clusterDim.z;
    int n = 0, r = 0;
    if (size > 8)
        r = dev_cu(d, d->cu->cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                   "cuFuncSetAttribute", e);
    if (!r)
        r = dev_cu(d, d->cu->cuOccupancyMaxActiveClusters(&n, f, &cfg), "cuOccupancyMaxActiveClusters", e);
    if (!r && n < 1)
        r = prog_refuse(e, DT_E_LAUNCH, at, "cluster", "not one cluster of %u blocks of %.100s fits %s", size, l->entry,
                        d->info.name);
    return r;
}

static int check_resources(struct build *b, struct dev_module_handle *m, uint32_t at, struct dev_step *s,
                           struct dt_err *e)
{
    const struct dt_launch *l = s->launch;
    const struct dev_module *mod = &b->p->module[l->module];
    struct dev_device *d = b->d;
    CUfunction f;
    int n = 0;
    int r = dev_resources(mod->ptx, mod->len, l->entry, mod->unit->arch, &s->res, e);
    if (r < 0)
        return r;
    uint64_t shared = (uint64_t)s->res.shared_static + l->shared;
    if (shared > d->info.shared_block_optin)
        return prog_refuse(e, DT_E_LAUNCH, at, "shared", "%llu bytes of shared memory are more than the %u of %s",
                           (unsigned long long)shared, d->info.shared_block_optin, d->info.name);
    r = dev_function(d, m->mod, l->entry, l->shared, &f, e);
    if (!r && !d->cu->soft && !m->cubin) /* the driver compiled it: its figures are those of what runs */
        r = dev_function_resources(d, f, &s->res, e);
    if (!r && d->cu->soft && !s->res.estimated)
        r = dev_cu(d, d->cu->dovetailFuncSetResources(f, s->res.registers), "dovetailFuncSetResources", e);
    if (!r)
        r = dev_cu(d, d->cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, (int)s->threads, l->shared),
                   "cuOccupancyMaxActiveBlocksPerMultiprocessor", e);
    if (r < 0)
        return r;
    s->occupancy_limit = limit_of(&d->info, s, shared);
    if (n < 1)
        return prog_refuse(e, DT_E_LAUNCH, at, "", "not one block of %.100s fits an SM of %s (%s)", l->entry,
                           d->info.name, s->occupancy_limit);
    if ((l->cluster[0] || s->entry->reqnctapercluster[0]) && (r = check_cluster(d, f, at, s, e)) < 0)
        return r;
    s->blocks_per_sm = (unsigned)n;
    s->wave = (uint32_t)n * d->info.sms;
    return 0;
}

/* What base knows of a launch with this entry and geometry. */
static const struct dev_step *same_step(const struct build *b, const struct dev_step *s)
{
    for (uint32_t i = 0; b->base && i < b->base->graph->nlaunch; i++) {
        const struct dev_step *x = &b->base->step[i];
        if (x->entry == s->entry && x->threads == s->threads && x->launch->shared == s->launch->shared &&
            !memcmp(x->launch->cluster, s->launch->cluster, sizeof s->launch->cluster))
            return x;
    }
    return NULL;
}

static int check_launches(struct build *b, struct dt_err *e)
{
    struct dev_prog *p = b->p;
    const struct dt_graph *g = p->graph;
    struct dev_module_handle **mod = dt_calloc(g->nmodule + 1, sizeof *mod);
    int r = mod ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < g->nlaunch && !r; i++) {
        struct dev_step *s = &p->step[i];
        s->launch = &g->launch[i];
        if (g->launch[i].kind != DT_KERNEL) {
            s->blocks = s->threads = s->blocks_per_sm = s->wave = 1;
            s->occupancy_limit = "blocks";
            continue;
        }
        r = find_entry(p, i, s, e);
        if (!r)
            r = check_args(&b->d->info, p, i, s, e);
        if (!r)
            r = check_geometry(&b->d->info, i, s, e);
    }
    for (uint32_t i = 0; i < g->nlaunch && !r; i++) {
        uint32_t m = g->launch[i].module;
        if (g->launch[i].kind != DT_KERNEL)
            continue;
        const struct dev_step *known = same_step(b, &p->step[i]);
        if (known) {
            p->step[i].res = known->res;
            p->step[i].blocks_per_sm = known->blocks_per_sm;
            p->step[i].wave = known->wave;
            p->step[i].occupancy_limit = known->occupancy_limit;
            continue;
        }
        if (!mod[m])
            r = dev_module_load_of(b->d, &p->module[m], &mod[m], e);
        if (!r)
            r = check_resources(b, mod[m], i, &p->step[i], e);
    }
    for (uint32_t i = 0; mod && i < g->nmodule; i++)
        dev_module_unload(b->d, mod[i]);
    free(mod);
    return r;
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
            r = check_launches(&b, e);
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
