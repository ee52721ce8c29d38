/* What the files of this room share: a graph while it is recorded. Other rooms need nothing of it: the contract is
 * ana_run() and ana_trace_launch() in analysis.h. */
#ifndef DT_ANALYSIS_RECORD_PRIV_H
#define DT_ANALYSIS_RECORD_PRIV_H

#include "analysis/footprint/footprint.h"
#include "analysis/instrument/instrument.h"
#include "analysis/taint/taint.h"
#include "base/hash.h"
#include "base/vec.h"

#define ANA_CHUNK (UINT64_C(64) << 20) /* of host memory for copies */

struct ana_variant {
    uint32_t module;
    const struct ptx_function *entry;
    bool *constant, *pointer; /* per argument */
    uint32_t *hint, narg, threads;
    const struct dt_arg *arg; /* of a launch with this variant: pointers lie in the same places in all */
    char *name;
    bool whole; /* not to be sliced */
    bool made;  /* code is there */
    int rc;     /* why not */
    struct dt_err e;
    char memo[DT_SHA256_TEXT]; /* of its text, once it is needed */
    struct ana_code code;
};

struct ana_mod {
    bool used;
    uint8_t *var;     /* enum ana_var by place in ir->var */
    uint32_t *buffer; /* buffer of each variable, or UINT32_MAX */
    struct dev_module_handle *handle;
    dev_ptr ctl; /* 0: no variant needs it */
};

struct ana_rec {
    struct dev_device *d;
    const struct dev_prog *p;
    const struct dt_graph *g;
    const struct ana_options *o;
    struct ana_result *r;
    struct dt_arena tmp;
    struct dev_run *run;
    struct ana_mod *mod;
    struct dt_vec(struct ana_variant) variant;
    uint32_t *of;    /* variant of each launch */
    bool *summed;    /* per launch: its footprints were found without a device */
    dev_ptr *addr;   /* of each buffer */
    uint64_t *bytes; /* of each buffer */
    dev_ptr arena, tab, err, log;
    uint64_t arena_bytes, tab_bytes, log_bytes, limit;
    /* per launch: the first that is like it, if it runs as its slice and there is one; or UINT32_MAX */
    uint32_t *like;
    uint32_t over; /* ANA_OVER_* of the launch recorded last */
    struct {
        char (*key)[DT_SHA256_TEXT];     /* per launch: "" where nothing is to be kept; NULL without ana_options.memo */
        char (*content)[DT_SHA256_TEXT]; /* per buffer, once it is needed */
    } memo;
    bool sliced; /* some launch ran as its slice */
    bool device; /* some launch runs: buffers have memory */
    bool native; /* the device records (softgpu/record.h), not instrumented PTX */
    bool found;  /* the recorder, not the device, has found what is wrong */
    struct dt_err *e;
};

/* Threads for work that walks so many thread instructions: little work is done before another thread has started. */
unsigned ana_threads(const struct ana_options *o, uint64_t work);

/* Is the launch's footprint taken from options.base? */
static inline bool reused(const struct ana_rec *s, uint32_t launch)
{
    return s->o->base && s->o->same[launch] != UINT32_MAX;
}

static inline bool protected_buffer(const struct ana_rec *s, uint32_t b)
{
    return s->g->buffer[b].role == DT_WEIGHT || s->g->buffer[b].constant;
}

static inline int refuse_write(struct ana_rec *s, const struct dt_launch *l, uint32_t b)
{
    s->found = true;
    return dt_err_set(s->e, DT_E_WEIGHT, "launch %s writes buffer %s, which is %s", l->name, s->g->buffer[b].name,
                      s->g->buffer[b].role == DT_WEIGHT ? "a weight" : "constant");
}

/* plan.c: instrument every launch's entry, sliced where it may be. */
int ana_plan_variants(struct ana_rec *s);

/* launch.c: run kernel launch `launch` and put what it touches into `foot`. */
int ana_record_kernel(struct ana_rec *s, uint32_t launch, struct ana_foot *foot);
/* What that does before (may its sites write where they may point?) and after (widths, atomics) for all sites. */
int ana_check_kernel(struct ana_rec *s, uint32_t launch);
int ana_note_kernel(struct ana_rec *s, uint32_t launch, struct ana_foot *foot);

/* log.c: n entries of one pass to intervals of in->foot. *ret_over: some is not known. *ret_outside: one that is
 * outside all memory of the launch, or misaligned; what follows it is not looked at. Sorts e. */
struct ana_log_in {
    const struct ana_code *code;
    const struct dt_launch *l;
    const struct ana_tab *tab; /* ntab of them; the buffer of each, UINT32_MAX: none */
    const uint32_t *buffer_of;
    uint32_t ntab;
    const uint64_t *bytes; /* of each buffer */
    struct ana_foot *foot;
};
int ana_log_read(const struct ana_log_in *in, struct ana_logged *e, uint64_t n, bool *ret_over,
                 const struct ana_logged **ret_outside);

/* offline.c: footprints of every launch that has a summary into s->r->launch; s->summed says which. */
int ana_record_offline(struct ana_rec *s);
/* One launch, traced (trace.c). 1: done; 0: it has no summary, *ret_why. */
int ana_trace_offline(struct ana_rec *s, uint32_t launch, ana_trace_fn fn, void *user, const char **ret_why);
/* Launch i gets the footprints of s->like[i], with its own buffers in them. */
int ana_take_like(struct ana_rec *s, uint32_t i);

/* memo.c: the footprints of a launch that runs as its slice as they were kept (1), or its key only (0); keep them. */
int ana_memo_find(struct ana_rec *s, uint32_t launch);
void ana_memo_keep(struct ana_rec *s, uint32_t launch);

#endif
