/* Every launch of a graph against its entry and the device, before anything runs.
 *
 * Refused, with a JSON pointer into the graph:
 *
 *   DT_E_NO_ENTRY      an entry that does not exist
 *   DT_E_ARGS          arguments that do not fit the parameters
 *   DT_E_LAUNCH        impossible geometry or shared memory
 *   DT_E_UNSUPPORTED   kernels with textures or surfaces
 *
 * Then it is known what a block takes and how many an SM holds, by the assembler, or by the driver where that compiles.
 * A launch whose entry and geometry the base has takes its figures over.
 *
 * Kernel parameters are laid out as in PTX: each at the next multiple of its alignment.
 *
 * Not here: the modules (prog.c).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "device/device-priv.h"
#include "graph/cuda-launch.h"

#define MAX_PARAMS 32764

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

/* A graph has no textures and no surfaces that it could bind, and no map would show what they touch. */
static int check_textures(const struct dev_prog *p, uint32_t at, const struct dev_step *s, struct dt_err *e)
{
    const struct ptx_inst *i = NULL;
    int r = ptx_texture_used(s->entry, &i);
    if (r > 0)
        return prog_refuse(e, DT_E_UNSUPPORTED, at, "entry",
                           "kernel %.100s uses textures or surfaces (`%s`, PTX line %u), which a graph cannot bind",
                           p->graph->launch[at].entry, ptx_op_info((enum ptx_op)i->op)->mnemonic, i->line);
    return r < 0 ? dt_err_set(e, r, "out of memory") : 0;
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

static int check_resources(struct dev_device *d, const struct dev_prog *p, struct dev_module_handle *m, uint32_t at,
                           struct dev_step *s, struct dt_err *e)
{
    const struct dt_launch *l = s->launch;
    const struct dev_module *mod = &p->module[l->module];
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
static const struct dev_step *same_step(const struct dev_prog *base, const struct dev_step *s)
{
    for (uint32_t i = 0; base && i < base->graph->nlaunch; i++) {
        const struct dev_step *x = &base->step[i];
        if (x->entry == s->entry && x->threads == s->threads && x->launch->shared == s->launch->shared &&
            !memcmp(x->launch->cluster, s->launch->cluster, sizeof s->launch->cluster))
            return x;
    }
    return NULL;
}

int dev_check_launches(struct dev_device *d, struct dev_prog *p, const struct dev_prog *base, struct dt_err *e)
{
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
            r = check_textures(p, i, s, e);
        if (!r)
            r = check_args(&d->info, p, i, s, e);
        if (!r)
            r = check_geometry(&d->info, i, s, e);
    }
    for (uint32_t i = 0; i < g->nlaunch && !r; i++) {
        uint32_t m = g->launch[i].module;
        if (g->launch[i].kind != DT_KERNEL)
            continue;
        const struct dev_step *known = same_step(base, &p->step[i]);
        if (known) {
            p->step[i].res = known->res;
            p->step[i].blocks_per_sm = known->blocks_per_sm;
            p->step[i].wave = known->wave;
            p->step[i].occupancy_limit = known->occupancy_limit;
            continue;
        }
        if (!mod[m])
            r = dev_module_load_of(d, &p->module[m], &mod[m], e);
        if (!r)
            r = check_resources(d, p, mod[m], i, &p->step[i], e);
    }
    for (uint32_t i = 0; mod && i < g->nmodule; i++)
        dev_module_unload(d, mod[i]);
    free(mod);
    return r;
}
