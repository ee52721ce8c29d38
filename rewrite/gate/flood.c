/* A run with special values that need not go on: NaNs flood it.
 *
 * In a deep graph one NaN in a weight of the first layer makes all of the activations NaN, and they stay so. Such a run
 * shows nothing, and the search for special values (special.c) goes on with fewer of them. To know that, the run need
 * not go through all layers: it ends where the last IN_A_ROW launches, of those that write as much as LEAST, have left
 * hardly anything but NaNs. Launches that end a flood (a maximum with zero, a choice by a mask) come sooner than that
 * where there are any.
 *
 * This decides which values are put in and nothing else. A run whose results are kept is never ended so (verify.c).
 */
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>
#include <string.h>

#define IN_A_ROW 16
#define LEAST 4096 /* words */

/* Count words and NaNs (as f32) of the bytes of one buffer that the launch may write. */
static int flood_count(struct dev_device *d, struct dev_run *run, uint32_t buffer, struct ana_set set, uint64_t *words,
                       uint64_t *nans, struct dt_err *e)
{
    dev_ptr at;
    if (!set.n)
        return 0;
    uint64_t lo = set.iv[0].lo & ~UINT64_C(3), n = set.iv[set.n - 1].hi - lo;
    dt_free_ uint8_t *p = dt_malloc(n + 4);
    if (!p)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = dev_run_buffer(run, buffer, &at);
    r = r ? dt_err_set(e, r, "a buffer is not there") : dev_download(d, p, at + lo, n, e);
    for (uint32_t k = 0; k < set.n && r == 0; k++)
        for (uint64_t i = (set.iv[k].lo + 3) & ~UINT64_C(3); i + 4 <= set.iv[k].hi; i += 4) {
            uint32_t v;
            memcpy(&v, p + (i - lo), sizeof v);
            ++*words;
            *nans += (v & 0x7FFFFFFF) > 0x7F800000;
        }
    return r;
}

static int flood_after(struct dev_device *d, struct dev_run *run, const struct ana_result *a, uint32_t launch,
                       unsigned *row, struct dt_err *e)
{
    struct dt_arena arena = {0};
    const struct ana_launch *l = &a->launch[launch];
    uint64_t words = 0, nans = 0;
    int r = 0;
    for (uint32_t k = 0; k < l->naccess && r == 0; k++)
        if (l->access[k].writes)
            r = flood_count(d, run, l->access[k].buffer, rw_launch_bytes(&arena, a, launch, l->access[k].buffer, true),
                            &words, &nans, e);
    if (r == 0 && dt_arena_failed(&arena))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    dt_arena_done(&arena);
    if (words >= LEAST)
        *row = nans > words - words / 16 ? *row + 1 : 0;
    return r;
}

int rw_flood_run(struct dev_device *d, struct dev_run *run, const struct ana_result *a, bool *ret_flood,
                 struct dt_err *e)
{
    uint32_t n = a->prog->graph->nlaunch;
    unsigned row = 0;
    int r = 0;
    for (uint32_t l = 0; l < n && r == 0 && row < IN_A_ROW; l++)
        if ((r = dev_run_step(run, l, e)) == 0)
            r = flood_after(d, run, a, l, &row, e);
    *ret_flood = r == 0 && row >= IN_A_ROW;
    return r;
}
