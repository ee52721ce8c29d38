/* One launch while it is recorded: what launch.c, pass.c, bitmap.c, native.c and fault.c share. */
#ifndef DT_ANALYSIS_LAUNCH_PRIV_H
#define DT_ANALYSIS_LAUNCH_PRIV_H

#include "analysis/record/record-priv.h"

struct ana_snapshot {
    uint8_t **copy; /* per buffer of the job, NULL: not written */
};

struct ana_job {
    const struct dt_launch *l;
    const struct dev_step *step;
    struct ana_variant *v;
    struct ana_foot *foot;
    uint32_t *buffer, nbuffer;  /* distinct buffers that the launch can name */
    uint64_t *bit, plane_bytes; /* first bit of each of them in a plane */
    struct ana_tab *tab;
    uint32_t *tab_buffer, ntab; /* buffer of each entry, UINT32_MAX: none */
    uint8_t *params;
    struct ana_snapshot snap;
    uint8_t **held; /* by buffer of the graph: its content before the run, or NULL */
    uint32_t passes;
    uint32_t over; /* ANA_OVER_GHOST: what ghosts record is widened; ANA_OVER_UNWRITTEN: everything is */
};

/* Can the launch name buffer b? */
static inline bool ana_job_has(const struct ana_job *j, uint32_t b)
{
    for (uint32_t i = 0; i < j->nbuffer; i++)
        if (j->buffer[i] == b)
            return true;
    return false;
}

/* fault.c: the error of an access that the recorder found wrong. */
int ana_job_fault(struct ana_rec *s, struct ana_job *j, const struct ana_fault *f);
/* The error of a launch that the device ended with error `rc` and text `mine`, which is taken. */
int ana_job_crashed(struct ana_rec *s, int rc, struct dt_err *mine);

/* pass.c: make *p, which has *have bytes, at least `bytes` bytes of memory on the device. */
int ana_job_need(struct ana_rec *s, dev_ptr *p, uint64_t *have, uint64_t bytes);
/* An empty log of spans at s->log. */
int ana_job_clear_log(struct ana_rec *s);
/* Run the launch once, recording as ctl says, into `bytes` zeroed bytes at `zero`. stray: what the device's own
 * recorder says; NULL: the error slot does. From the second pass on, buffers are as j->snap has them. */
int ana_job_pass(struct ana_rec *s, struct ana_job *j, struct ana_ctl ctl, dev_ptr zero, uint64_t bytes,
                 const struct dovetail_stray *stray);
/* Copy the buffers that the launch may write; free the copies. */
int ana_job_take(struct ana_rec *s, struct ana_job *j, struct ana_snapshot *k);
void ana_job_drop(struct ana_job *j, struct ana_snapshot *k);

/* What the launch touches, into j->foot: bitmap.c by instrumented PTX, native.c by the device's own recorder. */
int ana_job_bitmaps(struct ana_rec *s, struct ana_job *j);
int ana_job_native(struct ana_rec *s, struct ana_job *j);

#endif
