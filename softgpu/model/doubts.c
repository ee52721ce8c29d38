/* The list of doubts.def: ways in which modelled times may be wrong. A decision that holds in all of them does not rest
 * on one figure (rewrite/plan/compare.c). Original and candidate are always compared in the same one: what is wrong
 * with both alike decides nothing.
 */
#include <stddef.h>

#include "softgpu/sg.h"

#define STOCK                                                                                                          \
    .issue = 1, .local = 1, .tensor = 1, .alone = 1, .l2 = 1, .dram = 1, .cache = 1, .launch = 1, .start = 1,          \
    .hot = 1, .cluster = 1, .flags = 1, .made = 1, .pages = 1, .fences = 1

/* what stands twice in an initialiser is what stands last */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
static const struct sg_doubt doubts[] = {
    {.name = "stock", .why = "the model as it is", STOCK},
#define TERM(field_, factor_, families_)                                                                               \
    {.name = #field_ " long", .why = families_, STOCK, .field_ = factor_},                                             \
        {.name = #field_ " short", .why = families_, STOCK, .field_ = 1 / (factor_)},
#include "softgpu/model/doubts.def"
#define DOUBT(name_, field_, value_, why_) {.name = name_, .why = why_, STOCK, .field_ = value_},
#include "softgpu/model/doubts.def"
};
#pragma GCC diagnostic pop

const struct sg_doubt *sg_doubt_at(size_t i) { return i < sizeof doubts / sizeof *doubts ? &doubts[i] : NULL; }

bool sg_doubt_matters(const struct sg_doubt *d, const struct sg_work *w, uint32_t n)
{
    if (d->issue != 1 || d->local != 1 || d->alone != 1 || d->l2 != 1 || d->dram != 1 || d->cache != 1 ||
        d->launch != 1 || d->start != 1 || d->sharp)
        return true;
    for (uint32_t i = 0; i < n; i++) {
        const struct sg_stats *st = &w[i].stats;
        if ((d->tensor != 1 && st->tensor_flops) ||
            (d->cluster != 1 && (st->cluster_accesses || st->cluster_syncs || st->cluster_bytes)) ||
            (d->hot != 1 && st->profile.hot) || (d->flags != 1 && st->talk) || (d->made != 1 && w[i].made) ||
            (d->pages != 1 && (st->profile.pages || st->profile.write_pages)) ||
            (d->fences != 1 && st->profile.fences) || ((d->late || d->early_us > 0) && w[i].early))
            return true;
    }
    return false;
}
