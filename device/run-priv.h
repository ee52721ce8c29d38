/* What run.c and time.c share. */
#ifndef DT_DEVICE_RUN_PRIV_H
#define DT_DEVICE_RUN_PRIV_H

#include "device/device-priv.h"

struct dev_run {
    struct dev_device *dev;
    const struct dev_prog *prog;
    uint64_t generation;
    dev_ptr arena, *addr; /* by buffer */
    uint64_t arena_bytes;
    struct dev_module_handle **module; /* by module; NULL: not used */
    CUfunction *function;              /* by launch */
    CUstream *stream;
    uint32_t nstream;
    CUevent *event;              /* by launch; NULL: nobody waits for it */
    const struct dev_some *some; /* by launch, borrowed: dev_run_select */
    bool *kept;                  /* by buffer: weights and constants that hold their fill already */
    CUgraph graph;               /* built at the first timing */
    CUgraphExec exec;
    uint32_t exec_first, exec_n; /* the launches in it */
    CUgraphNode *node;           /* by launch */
};

int dev_run_live(const struct dev_run *r, struct dt_err *e); /* not lost by a reset; its context made current */
/* where.c: on the software device, the fault behind `err` with the launch's name and the graph's buffers instead of
 * addresses. Returns the error. */
int dev_run_fault(struct dev_run *r, uint32_t step, int err, struct dt_err *e);
void dev_run_forget_graph(struct dev_run *r);
/* The launches as a graph, side by side as far as its edges let them (softgpu/libcuda/graph-beside.c), and wait.
 * Software device with a schedule. time.c */
int dev_run_beside(struct dev_run *r, uint32_t first, uint32_t n, struct dt_err *e);
int dev_run_build(struct dev_run *r, struct dt_err *e); /* r->exec, if it is not there; time.c */
/* All steps, in order, on the one stream; nothing is waited for. DT_E_UNSUPPORTED for a plan with several streams.
 * run.c */
int dev_run_issue(struct dev_run *r, struct dt_err *e);

#endif
