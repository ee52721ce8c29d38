/* The native recorder: the software device says what each block has touched (softgpu/record.h), in one pass and without
 * memory on the device.
 */
#include "analysis/record/launch-priv.h"

#include <stdlib.h>

struct native {
    struct ana_rec *s;
    struct ana_job *j;
    struct ana_interval *iv; /* scratch: the intervals of one call */
    size_t cap;
    uint64_t refused; /* the first block that writes what nobody may, + 1 */
    uint32_t buffer;
    int rc;
};

static void touched(void *user, uint64_t block, uint32_t range, uint32_t plane, const uint64_t (*run)[2], size_t n)
{
    struct native *x = user;
    const struct ana_code *c = &x->j->v->code;
    uint32_t b = x->j->buffer[range];
    for (unsigned k = 0; k < ANA_KINDS; k++)
        for (unsigned ev = 0; ev < ANA_EVIDENCES && !x->rc; ev++) {
            if (c->plane[k][ev] != (int)plane)
                continue;
            if (k != ANA_READ && protected_buffer(x->s, b)) {
                if (!x->refused || block < x->refused - 1)
                    x->refused = block + 1, x->buffer = b;
            } else if (n > UINT32_MAX || !dt_vec_grow_((void **)&x->iv, &x->cap, n, sizeof *x->iv)) {
                x->rc = DT_E_NOMEM;
            } else {
                for (size_t i = 0; i < n; i++)
                    x->iv[i] = (struct ana_interval){run[i][0], run[i][1]};
                x->rc = ana_foot_add(x->j->foot, (uint32_t)block, b, k, ev, x->iv, (uint32_t)n);
            }
        }
}

/* One pass: the device says what each block has touched. */
int ana_job_native(struct ana_rec *s, struct ana_job *j)
{
    const struct ana_code *c = &j->v->code;
    struct dt_arena a = {0};
    struct native x = {.s = s, .j = j};
    struct dovetail_touch_site *site = dt_new_array(&a, struct dovetail_touch_site, (size_t)c->sites.nsite + 1);
    struct dovetail_touch_range *range =
        dt_new_array(&a, struct dovetail_touch_range, (size_t)j->nbuffer + j->ntab + 1);
    struct dovetail_recorder rec = {.site = site,
                                    .range = range,
                                    .nsite = c->sites.nsite,
                                    .nrange = j->nbuffer,
                                    .nplane = c->nplane,
                                    .shift = c->shift,
                                    .touched = touched,
                                    .user = &x};
    int rc = a.failed ? DT_E_NOMEM : 0;
    for (uint32_t k = 0; k < c->sites.nsite && !rc; k++) {
        const struct ana_site *y = &c->sites.site[k];
        site[k] = (struct dovetail_touch_site){.bytes = y->bytes ? y->bytes : 1, .writes = y->writes};
        for (unsigned q = 0; q < ANA_KINDS && !c->wide[k] && y->bytes; q++)
            if (c->kinds[k] >> q & 1)
                site[k].planes |= 1u << c->plane[q][c->evidence[k * ANA_KINDS + q]];
    }
    for (uint32_t i = 0; i < j->nbuffer && !rc; i++)
        range[i] = (struct dovetail_touch_range){s->addr[j->buffer[i]], s->bytes[j->buffer[i]], 1,
                                                 protected_buffer(s, j->buffer[i])};
    for (uint32_t i = 0; i < j->ntab && !rc; i++)
        if (j->tab[i].bit == UINT64_MAX)
            range[rec.nrange++] = (struct dovetail_touch_range){j->tab[i].base, j->tab[i].bytes, 0, j->tab[i].fixed};
    if (!rc && c->logs)
        rc = ana_job_clear_log(s);
    struct ana_ctl ctl = {.count = j->step->blocks, .log = c->logs ? s->log : 0};
    if (!rc)
        rc = dev_record(s->d, &rec, s->e);
    if (!rc)
        rc = ana_job_pass(s, j, ctl, 0, 0, &rec.stray);
    dev_record(s->d, NULL, NULL);
    if (!rc)
        rc = x.rc ? x.rc : x.refused ? refuse_write(s, j->l, x.buffer) : 0;
    free(x.iv);
    dt_arena_done(&a);
    return rc;
}
