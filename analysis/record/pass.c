/* One pass of a launch on the device: run it once, and read the error slot and the log of spans.
 *
 * A launch that is recorded in several passes needs the same buffers in each: a snapshot of the buffers that it may
 * write is taken before the first, and put back before each other.
 */
#include "analysis/record/launch-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define LOG (UINT64_C(32) << 20) /* of entries of spans, at most */

int ana_job_need(struct ana_rec *s, dev_ptr *p, uint64_t *have, uint64_t bytes)
{
    if (*p && *have >= bytes)
        return 0;
    if (*p)
        dev_free(s->d, *p);
    *p = 0;
    *have = 0;
    int rc = dev_alloc(s->d, bytes, p, s->e);
    if (!rc)
        *have = bytes;
    return rc;
}

int ana_job_take(struct ana_rec *s, struct ana_job *j, struct ana_snapshot *k)
{
    k->copy = dt_calloc((size_t)j->nbuffer + 1, sizeof *k->copy);
    int rc = k->copy ? 0 : DT_E_NOMEM;
    for (uint32_t i = 0; i < j->nbuffer && !rc; i++) {
        uint32_t b = j->buffer[i];
        if (protected_buffer(s, b))
            continue;
        k->copy[i] = dt_malloc(s->bytes[b] ? s->bytes[b] : 1);
        rc = k->copy[i] ? dev_download(s->d, k->copy[i], s->addr[b], s->bytes[b], s->e) : DT_E_NOMEM;
    }
    return rc;
}

static int put_back(struct ana_rec *s, struct ana_job *j, const struct ana_snapshot *k)
{
    int rc = 0;
    for (uint32_t i = 0; i < j->nbuffer && !rc; i++)
        if (k->copy[i])
            rc = dev_upload(s->d, s->addr[j->buffer[i]], k->copy[i], s->bytes[j->buffer[i]], s->e);
    return rc;
}

void ana_job_drop(struct ana_job *j, struct ana_snapshot *k)
{
    for (uint32_t i = 0; k->copy && i < j->nbuffer; i++)
        free(k->copy[i]);
    free(k->copy);
}

/* Room for it, empty. */
int ana_job_clear_log(struct ana_rec *s)
{
    uint64_t bytes = LOG < s->limit ? LOG : s->limit, head[2] = {0, (bytes - 16) / sizeof(struct ana_logged)};
    int rc = ana_job_need(s, &s->log, &s->log_bytes, bytes);
    return rc ? rc : dev_upload(s->d, s->log, head, sizeof head, s->e);
}

static int read_log(struct ana_rec *s, struct ana_job *j)
{
    uint64_t head[2];
    int rc = dev_download(s->d, head, s->log, sizeof head, s->e);
    if (rc)
        return rc;
    if (head[0] > head[1]) { /* which of them found room is chance */
        j->over |= ANA_OVER_LOG;
        return 0;
    }
    struct ana_logged *e = dt_reallocarray(NULL, head[0] + 1, sizeof *e);
    const struct ana_logged *outside = NULL;
    struct ana_log_in in = {&j->v->code, j->l, j->tab, j->tab_buffer, j->ntab, s->bytes, j->foot};
    bool over = false;
    rc = e ? dev_download(s->d, e, s->log + 16, head[0] * sizeof *e, s->e) : DT_E_NOMEM;
    if (!rc)
        rc = ana_log_read(&in, e, head[0], &over, &outside);
    j->over |= over ? ANA_OVER_LOG : 0;
    if (!rc && outside) {
        struct ana_fault f = {.site = outside->site + 1, .block = outside->block, .address = outside->address};
        memcpy(f.tid, outside->tid, sizeof f.tid);
        rc = ana_job_fault(s, j, &f);
    }
    free(e);
    return rc;
}

/* Run the launch once, recording as ctl says, into `bytes` zeroed bytes at `zero`. stray: what the device's own
 * recorder says; NULL: the error slot does. */
int ana_job_pass(struct ana_rec *s, struct ana_job *j, struct ana_ctl ctl, dev_ptr zero, uint64_t bytes,
                 const struct dovetail_stray *stray)
{
    struct ana_fault f = {.over = j->over & ANA_OVER_GHOST}; /* ghosts that were given up stay so */
    struct dt_err mine = {0};
    int rc = j->passes++ ? put_back(s, j, &j->snap) : 0;
    ctl.tab = s->tab;
    ctl.err = s->err;
    ctl.entries = j->ntab;
    if (!rc && bytes)
        rc = dev_set(s->d, zero, 0, bytes, s->e);
    dev_ptr to = s->mod[j->l->module].ctl;
    if (!rc && to)
        rc = dev_upload(s->d, s->err, &f, sizeof f, s->e);
    if (!rc && to)
        rc = dev_upload(s->d, to, &ctl, sizeof ctl, s->e);
    if (rc)
        return rc;
    rc = dev_launch(s->d, s->mod[j->l->module].handle, j->v->name, j->l->grid, j->l->block, j->l->cluster, j->l->shared,
                    j->params, j->step->param_total, &mine);
    if (!rc)
        rc = dev_sync(s->d, &mine);
    if (rc)
        return ana_job_crashed(s, rc, &mine);
    rc = to ? dev_download(s->d, &f, s->err, sizeof f, s->e) : 0;
    j->over |= f.over;
    if (stray && stray->found)
        f = (struct ana_fault){stray->site + 1,
                               (uint32_t)stray->block,
                               stray->address,
                               {stray->thread[0], stray->thread[1], stray->thread[2]},
                               f.over};
    if (!rc && f.site)
        rc = ana_job_fault(s, j, &f);
    return !rc && ctl.log ? read_log(s, j) : rc;
}
