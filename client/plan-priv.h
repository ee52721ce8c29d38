/* Inside libdovetail: a loaded plan, and what it needs of the CUDA driver. See dovetail.h, "plans in a program of
 * yours". */
#ifndef DT_CLIENT_PLAN_PRIV_H
#define DT_CLIENT_PLAN_PRIV_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "client/dovetail.h"
#include "graph/graph.h"

/* clang-format off */
#define PLAN_DRIVER(SYM)                                                                                               \
    SYM(cuInit) SYM(cuGetErrorName) SYM(cuCtxGetCurrent) SYM(cuCtxPushCurrent) SYM(cuCtxPopCurrent)                    \
    SYM(cuModuleLoadDataEx) SYM(cuModuleUnload) SYM(cuModuleGetFunction) SYM(cuModuleGetGlobal)                        \
    SYM(cuFuncSetAttribute) SYM(cuFuncGetParamInfo) SYM(cuMemAlloc) SYM(cuMemFree) SYM(cuMemGetAddressRange)           \
    SYM(cuPointerGetAttribute) SYM(cuMemcpyHtoD) SYM(cuMemcpyDtoH) SYM(cuMemsetD8Async) SYM(cuMemcpyDtoDAsync)         \
    SYM(cuLaunchKernelEx) SYM(cuStreamCreate) SYM(cuStreamDestroy) SYM(cuStreamWaitEvent) SYM(cuEventCreate)           \
    SYM(cuEventDestroy) SYM(cuEventRecord) SYM(cuGraphCreate) SYM(cuGraphDestroy) SYM(cuGraphAddKernelNode)            \
    SYM(cuGraphAddMemsetNode) SYM(cuGraphAddMemcpyNode) SYM(cuGraphAddDependencies) SYM(cuGraphAddEmptyNode)           \
    SYM(cuGraphKernelNodeSetAttribute) SYM(cuTensorMapEncodeTiled) SYM(cuThreadExchangeStreamCaptureMode)             \
    SYM(cuMemcpyHtoDAsync) SYM(cuStreamSynchronize)
/* clang-format on */

struct plan_driver {
#define SYM(name) __typeof__(&name) name;
    PLAN_DRIVER(SYM)
#undef SYM
};
bool plan_soft(void); /* after plan_driver: it is the software device, which executes PTX */
/* The driver of this process, opened once. DT_E_NO_DEVICE where there is none, or one that lacks an entry. */
int plan_driver(const struct plan_driver **ret, struct dt_err *e);
/* 0, or DT_E_DEVICE with "WHAT: CUDA_ERROR_…". */
int plan_cu(const struct plan_driver *cu, CUresult r, const char *what, struct dt_err *e);

/* One way to do the work: the plan's launches, or the posted ones. */
struct plan_side {
    struct dt_graph *graph; /* NULL: the document has none */
    char *why;              /* it cannot run here; NULL: it can */
    CUfunction *function;   /* by launch; NULL for memsets and copies */
    uint32_t nstream;
    CUstream *stream; /* [0] is the caller's */
    /* where the caller's stream is; by launch: end of one that another stream waits for, else NULL */
    CUevent begin, *end;
    bool *used; /* by buffer */
};
enum { PLAN_NEW, PLAN_OLD, PLAN_SIDES };

struct plan_module {
    const char *text; /* borrowed from a side's graph */
    size_t len;
    CUmodule module;
};

struct dovetail_plan {
    atomic_uint refs;
    const struct plan_driver *cu;
    CUcontext ctx;
    struct plan_side side[PLAN_SIDES];
    struct plan_module *module;
    uint32_t nmodule;
    uint32_t nbuffer;      /* both sides number these the same; scratch buffers of the plan come behind them */
    CUdeviceptr *scratch;  /* by scratch buffer */
    CUdeviceptr *variable; /* by buffer: of a module's variable, else 0 */
    uint32_t *align;       /* by buffer */
    pthread_mutex_t lock;  /* events of a launch on several streams belong to one launch at a time; texts of bindings */
};

struct dovetail_bound {
    struct dovetail_plan *plan;
    atomic_int side;           /* that runs */
    char *why;                 /* PLAN_OLD: why not the plan */
    bool ready[PLAN_SIDES];    /* all its buffers are bound */
    CUdeviceptr *at;           /* by buffer, scratch behind */
    CUdeviceptr *own;          /* by buffer, scratch behind: memory that is freed with it, else 0; NULL: none */
    void ***param[PLAN_SIDES]; /* by launch: kernelParams */
    struct dt_arena arena;
};

/* Memory of a binding's own (plan-own.c): scratch, and intermediates that are not bound yet. */
int plan_own_make(struct dovetail_bound *b, struct dt_err *e);
void plan_own_free(struct dovetail_bound *b);

/* Make ctx current; undone by plan_leave. */
int plan_enter(const struct dovetail_plan *p, struct dt_err *e);
void plan_leave(const struct dovetail_plan *p);
/* A DOVETAIL_E_… for e->num, the sentence into *ret_problem; e is done. */
int plan_failed(struct dt_err *e, char **ret_problem);

#endif
