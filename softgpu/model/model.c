/* The table of modelled GPUs, and occupancy.
 *
 * The numbers and their sources are those of models.def and constants.def, each expanded several times here: into the
 * models, into the texts of the sources, and into the list of figures that sg_model_figure() gives out. A constant
 * depends on the architecture: a model has the column of its compute capability.
 * Occupancy follows NVIDIA's calculator (cuda_occupancy.h):
 *   - registers are given to a warp in units of 256, and a warp lives in one of four quarters of the SM;
 *   - shared memory of a block is rounded up to 128 bytes, 1 KB more is the system's;
 *   - threads are counted in whole warps.
 *
 * Clusters: SMs come in pairs (TPCs), shared out over 8 GPCs as evenly as goes (H100 white paper: 8 GPCs of up to 9
 * TPCs, 66 TPCs enabled; which GPCs lack some differs from chip to chip).
 * Not modelled: carve-outs between L1 and shared memory (the largest is taken).
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/sg.h"

enum {
#define MODEL(id_, name_) M_##id_,
#include "softgpu/model/models.def"
    MODELS
};

#define V(value, tag) value
static const struct sg_model models[MODELS] = {
#define MODEL(id_, name_) [M_##id_].id = #id_, [M_##id_].name = name_ " (modeled)",
#define FIGURE(field, a, b, c, d, e, f)                                                                                \
    [M_a100].field = a, [M_h100].field = b, [M_h200].field = c, [M_l4].field = d, [M_b200].field = e,                  \
    [M_rtx5090].field = f,
#include "softgpu/model/models.def"
#define CELLS(field, v70, v75, v80, v86, v90, v100)                                                                    \
    [M_a100].k.field = v80, [M_l4].k.field = v86, [M_h100].k.field = v90, [M_h200].k.field = v90,                      \
    [M_b200].k.field = v100, [M_rtx5090].k.field = v86,
#define CONST(name, when, unit, tag, ...) CELLS(name, __VA_ARGS__)
#define FIT(name, when, unit, low, high, families, ...) CELLS(name, __VA_ARGS__)
#include "softgpu/constants.def"
};

#define SOURCE(tag, text) static const char src_##tag[] = text;
#include "softgpu/model/models.def"

static const struct {
    const char *field;
    double value[MODELS];
} values[] = {
#define FIGURE(field, ...) {#field, {__VA_ARGS__}},
#include "softgpu/model/models.def"
};
#undef V
#define V(value, tag) src_##tag
static const char *const sources[][MODELS] = {
#define FIGURE(field, ...) {__VA_ARGS__},
#include "softgpu/model/models.def"
};
#undef V

enum { SM70, SM75, SM80, SM86, SM90, SM100, ARCHS };

static unsigned arch_of(const struct sg_model *m)
{
    unsigned cc = m->cc_major * 10 + m->cc_minor;
    return cc < 75 ? SM70 : cc < 80 ? SM75 : cc < 86 ? SM80 : cc < 90 || cc >= 120 ? SM86 : cc < 100 ? SM90 : SM100;
}

#define CONST_SOURCE(tag, text) static const char src_##tag[] = text;
#include "softgpu/constants.def"

static const struct constant {
    const char *name, *unit, *source;
    size_t at; /* in struct sg_constants */
    bool exec;
    double low, high, value[ARCHS];
} constants[] = {
#define SG_CONST_TIME_EXEC false
#define SG_CONST_EXEC_EXEC true
#define CONST(name, when, unit, tag, ...)                                                                              \
    {#name, unit, src_##tag, offsetof(struct sg_constants, name), SG_CONST_##when##_EXEC, 0, 0, {__VA_ARGS__}},
#define FIT(name, when, unit, low, high, families, ...)                                                                \
    {#name, unit, "fitted: " families, offsetof(struct sg_constants, name), SG_CONST_##when##_EXEC,                    \
     low,   high, {__VA_ARGS__}},
#include "softgpu/constants.def"
};
enum { FIGURES = sizeof values / sizeof *values, CONSTANTS = sizeof constants / sizeof *constants };

bool sg_model_figure(size_t model, size_t i, struct sg_figure *ret)
{
    if (model >= MODELS || i >= FIGURES + CONSTANTS)
        return false;
    if (i < FIGURES) {
        *ret = (struct sg_figure){.field = values[i].field, .value = values[i].value[model]};
        ret->source = sources[i][model];
        return true;
    }
    const struct constant *c = &constants[i - FIGURES];
    *ret =
        (struct sg_figure){c->name, c->value[arch_of(&models[model])], c->source, c->unit, c->exec, c->low, c->high, 0};
    for (unsigned a = 0; a < ARCHS; a++) { /* how many are different */
        unsigned before = 0;
        while (before < a && c->value[before] != c->value[a])
            before++;
        ret->values += before == a;
    }
    return true;
}

static void set_constant(struct sg_model *m, const struct constant *c, double v)
{
    char *at = (char *)&m->k + c->at;
    if (c->exec)
        memcpy(at, &(unsigned){(unsigned)v}, sizeof(unsigned));
    else
        memcpy(at, &v, sizeof v);
}

bool sg_model_with(const struct sg_model *m, const char *figures, struct sg_model *ret, const char **ret_at)
{
    *ret = *m;
    for (const char *p = figures; *p; p += *p == ',') {
        size_t n = strcspn(p, "=,");
        char *end = NULL;
        double v = p[n] == '=' ? strtod(p + n + 1, &end) : 0;
        bool known = false;
        *ret_at = p;
        if (p[n] != '=' || end == p + n + 1 || (*end && *end != ',') || !(v >= 0 && v <= 1e18))
            return false;
#define FIGURE(field, ...)                                                                                             \
    if (n == strlen(#field) && !memcmp(p, #field, n)) {                                                                \
        ret->field = (__typeof__(ret->field))v;                                                                        \
        known = v > 0;                                                                                                 \
    }
#include "softgpu/model/models.def"
        bool architecture = known && !memcmp(p, "cc_", 3);
        for (size_t i = 0; i < CONSTANTS; i++)
            if (architecture) { /* its constants; those that are named here come behind it */
                set_constant(ret, &constants[i], constants[i].value[arch_of(ret)]);
            } else if (n == strlen(constants[i].name) && !memcmp(p, constants[i].name, n)) {
                set_constant(ret, &constants[i], v);
                known = v > 0 && v <= 1e9;
            }
        if (!known)
            return false;
        p = end;
    }
    return true;
}

const struct sg_model *sg_model_at(size_t i) { return i < MODELS ? &models[i] : NULL; }

const struct sg_model *sg_model_find(const char *id)
{
    if (!id || !*id)
        id = "h200";
    for (size_t i = 0; i < MODELS; i++)
        if (!strcmp(models[i].id, id))
            return &models[i];
    return NULL;
}

static uint64_t round_up(uint64_t v, uint64_t unit) { return unit ? (v + unit - 1) / unit * unit : v; }

struct sg_occupancy sg_occupancy(const struct sg_model *m, uint32_t threads, uint32_t registers, uint32_t shared_bytes)
{
    struct sg_occupancy o = {0, "threads"};
    if (!threads || threads > 1024)
        return o;
    uint64_t warps = (threads + 31) / 32;
    uint64_t best = m->max_blocks_sm;
    o.limit = "blocks";

    uint64_t by_threads = m->max_threads_sm / (warps * 32);
    if (by_threads < best)
        best = by_threads, o.limit = "threads";

    if (registers) {
        uint64_t per_warp = round_up((uint64_t)registers * 32, m->reg_unit);
        uint64_t warps_fit = m->regs_sm / 4 / per_warp * 4; /* a warp's registers are in its own quarter */
        uint64_t by_regs = registers > m->max_regs_thread || per_warp * warps > m->regs_block ? 0 : warps_fit / warps;
        if (by_regs < best)
            best = by_regs, o.limit = "registers";
    }
    uint64_t shared = round_up((uint64_t)shared_bytes + m->shared_reserved, m->shared_unit);
    uint64_t by_shared = shared_bytes > m->shared_block_optin ? 0 : m->shared_sm / shared;
    if (by_shared < best)
        best = by_shared, o.limit = "shared";
    o.blocks_per_sm = (unsigned)best;
    return o;
}

unsigned sg_gpc(const struct sg_model *m, unsigned g, unsigned *ret_first)
{
    unsigned pairs = m->sms / 2, each = pairs / SG_GPCS, more = pairs % SG_GPCS;
    *ret_first = 2 * (g * each + (g < more ? g : more));
    return 2 * (each + (g < more));
}

unsigned sg_clusters(const struct sg_model *m, unsigned per_sm, unsigned size)
{
    unsigned n = 0, first;
    for (unsigned g = 0; g < SG_GPCS && size; g++)
        n += sg_gpc(m, g, &first) * per_sm / size;
    return n;
}
