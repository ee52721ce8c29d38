/* Objects behind the driver API's handles, and what the entries share.
 *
 * One lock covers everything; each entry takes it first (CU_LOCK, CU_CONTEXT) and gives it back when it returns. Handles are pointers
 * to the structs below; the first word of each says what it is, so that a wrong handle is CUDA_ERROR_INVALID_HANDLE (a handle that was
 * freed is not caught, as with a real driver).
 *
 * Order: everything runs inside the call that asks for it, in the order of the calls, which is one legal order of any program whose
 * kernels do not wait for the host. Errors of kernels surface at the next call that waits, and stick to the context. What overlaps in
 * time is decided by the timeline (timeline.c) and only there.
 */
#ifndef DT_SOFTGPU_CU_PRIV_H
#define DT_SOFTGPU_CU_PRIV_H

#pragma GCC visibility push(default) /* what it declares is what is exported (and libcuda.map allows) */
#include <cuda.h>
#pragma GCC visibility pop
#include <pthread.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "softgpu/libcuda/extension.h"
#include "softgpu/sg.h"

enum cu_magic {
    CU_CTX = 0x63747831, CU_MODULE = 0x6d6f6431, CU_FUNC = 0x666e6331, CU_STREAM = 0x73747231, CU_EVENT = 0x65767431,
    CU_GRAPH = 0x67726131, CU_NODE = 0x6e6f6431, CU_EXEC = 0x65786531, CU_LIBRARY = 0x6c696231, CU_KERNEL = 0x6b657231
};

struct cu_device {
    const struct sg_model *model;
    struct sg_device *sg; /* made with the first context */
    struct CUctx_st *primary;
    unsigned primary_refs, primary_flags, contexts;
};

struct cu_range { /* host memory known to a context: pinned, managed, an arena */
    CUdeviceptr base;
    size_t bytes;
    enum { CU_RANGE_HOST, CU_RANGE_REGISTERED, CU_RANGE_MANAGED, CU_RANGE_ARENA, CU_RANGE_ALLOWED } kind;
    void *host; /* what to free */
};

struct cu_work { /* one sg_work of the timeline and what it answers for */
    struct sg_work w;
    struct CUevent_st *event;
};

struct CUctx_st {
    uint32_t magic;
    struct cu_device *dev;
    unsigned flags;
    bool primary;
    CUresult sticky; /* a kernel failed: every later call says so */
    struct dovetail_fault fault, refused; /* of the sticky error; of the last entry that could not be had, until it is asked for */
    struct CUstream_st *null_stream, *streams; /* all of them, chained */
    struct dt_vec(struct CUmod_st *) module;
    struct dt_vec(struct cu_range) range;
    struct dt_vec(struct cu_work) log; /* work since clock_us, in the order of the calls */
    double clock_us;                   /* modelled time at which the log begins */
    uint64_t generation;               /* counts flushes of the log */
    size_t limit[CU_LIMIT_MAX];
    uint64_t seed;
    bool race_check; /* between blocks: dovetailSetSchedule */
    unsigned checks; /* SG_CHECK_*: dovetailSetChecks, DOVETAIL_CHECK */
    unsigned deadline_ms;
    struct sg_stats last;
    struct sg_work last_work;
};

struct CUmod_st {
    uint32_t magic;
    struct CUctx_st *ctx;
    struct CUlib_st *lib; /* NULL: not of a library */
    struct sg_module *sg;
    struct dt_vec(struct CUfunc_st *) func;
};

struct CUfunc_st {
    uint32_t magic;
    struct CUmod_st *mod;
    struct sg_kernel *kernel;
    const struct sg_kernel_info *info;
    int max_dynamic, carveout, nonportable_cluster, cluster[3], cluster_required;
};

struct CUlib_st {
    uint32_t magic;
    char *ptx;
    size_t len;
    struct dt_vec(struct CUmod_st *) loaded; /* one a context, as needed */
    struct dt_vec(struct CUkern_st *) kernel;
};

struct CUkern_st {
    uint32_t magic;
    struct CUlib_st *lib;
    char *name;
};

struct CUstream_st {
    uint32_t magic;
    struct CUctx_st *ctx;
    struct CUstream_st *next;
    unsigned flags;
    int priority;
    uint64_t id;
    uint64_t generation; /* of `last` */
    uint32_t last;       /* newest work in the log + 1, 0: none */
    struct dt_vec(uint32_t) waits; /* works that the next one waits for (cuStreamWaitEvent), same generation */
    struct CUgraph_st *capture;
    bool capture_origin;
    uint64_t capture_id;
    struct dt_vec(struct CUgraphNode_st *) tail; /* what the next captured node follows */
};

struct CUevent_st {
    uint32_t magic;
    struct CUctx_st *ctx;
    unsigned flags;
    bool recorded, timed; /* timed: time_us is known; else it is work `at` of the log */
    double time_us;
    uint64_t generation;
    uint32_t at;
    struct CUgraph_st *capture; /* recorded in a capture: later waits join it */
    struct dt_vec(struct CUgraphNode_st *) tail;
    uint64_t capture_id;
};

struct cu_launch { /* a kernel launch, complete: what a graph node keeps */
    struct CUfunc_st *f;
    CUfunction handle; /* as the caller gave it */
    uint32_t grid[3], block[3], cluster[3], shared;
    uint8_t *params; /* owned by whoever holds the struct */
    bool programmatic;
};

struct cu_set { /* memset */
    CUdeviceptr dst;
    size_t pitch, width, height; /* width in elements */
    unsigned value, element;
};

struct CUgraphNode_st {
    uint32_t magic;
    struct CUgraph_st *graph;
    CUgraphNodeType type;
    struct cu_launch launch;
    void **param_ptr; /* for GetParams: pointers into launch.params */
    struct cu_set set;
    CUDA_MEMCPY3D copy;
    CUDA_HOST_NODE_PARAMS host;
    struct CUevent_st *event;
    struct CUgraph_st *child;
    struct dt_vec(struct CUgraphNode_st *) dep;
    struct dt_vec(CUgraphEdgeData) edge; /* of each dep */
    struct CUgraphNode_st *original; /* in a clone or an exec: where it comes from */
    uint32_t mark;
    double start_us, end_us; /* in an exec: last launch */
};

struct CUgraph_st {
    uint32_t magic;
    struct dt_vec(struct CUgraphNode_st *) node; /* in the order they were added */
    bool is_child;
};

struct CUgraphExec_st {
    uint32_t magic;
    struct CUctx_st *ctx;
    struct CUgraph_st *graph; /* a clone, its nodes in a topological order */
    bool ran;
};

/* ---- state.c ---- */
int cu_lock(void);
void cu_unlock(const int *unused);
#define CU_LOCK() __attribute__((cleanup(cu_unlock), unused)) int locked_ = cu_lock()
CUresult cu_ready(void);                       /* cuInit was called */
CUresult cu_current(struct CUctx_st **ret);    /* current context without a sticky error */
#define CU_READY()                                                                                                                 \
    CU_LOCK();                                                                                                                     \
    CUresult ready_ = cu_ready();                                                                                                  \
    if (ready_ != CUDA_SUCCESS)                                                                                                    \
    return ready_
#define CU_CONTEXT(c)                                                                                                              \
    CU_LOCK();                                                                                                                     \
    struct CUctx_st *c;                                                                                                            \
    CUresult ready_ = cu_current(&c);                                                                                              \
    if (ready_ != CUDA_SUCCESS)                                                                                                    \
    return ready_
#define CU_REQUIRE(cond, error)                                                                                                    \
    do {                                                                                                                           \
        if (!(cond))                                                                                                               \
            return (error);                                                                                                        \
    } while (0)
#define CU_TRY(expr)                                                                                                               \
    do {                                                                                                                           \
        CUresult try_ = (expr);                                                                                                    \
        if (try_ != CUDA_SUCCESS)                                                                                                  \
            return try_;                                                                                                           \
    } while (0)
#define CU_IS(h, what) ((h) && (h)->magic == (what))
struct cu_device *cu_device_at(CUdevice d); /* NULL: no such ordinal */
CUdevice cu_device_ordinal(const struct cu_device *d);
CUresult cu_context_new(struct cu_device *d, unsigned flags, bool primary, struct CUctx_st **ret);
void cu_context_free(struct CUctx_st *c);
bool cu_context_live(const struct CUctx_st *c);
CUresult cu_from_dt(int r); /* a DT_E_* of the executor's memory and modules */
extern unsigned char cu_initialised;

/* ---- module.c ---- */
CUresult cu_module_new(struct CUctx_st *c, const char *ptx, size_t len, unsigned nopt, const CUjit_option *opt, void **val,
                       struct CUmod_st **ret);
void cu_module_free(struct CUmod_st *m);
CUresult cu_module_function(struct CUmod_st *m, const char *name, struct CUfunc_st **ret);
CUresult cu_image_text(const void *image, const char **ret, size_t *ret_len);
/* The function behind a CUfunction or a CUkernel in the current context. */
CUresult cu_function(struct CUctx_st *c, CUfunction f, struct CUfunc_st **ret);

/* ---- function.c ---- */
CUresult cu_function_get(const struct CUfunc_st *f, CUfunction_attribute a, int *ret);
CUresult cu_function_set(struct CUfunc_st *f, CUfunction_attribute a, int v);
/* The cluster that a launch asks for ({0}: none): against the device, the function and the grid. Fills in what the function asks for. */
CUresult cu_cluster_check(const struct CUfunc_st *f, const uint32_t grid[3], uint32_t cluster[3]);
unsigned cu_function_max_threads(const struct CUfunc_st *f);

/* ---- launch.c ---- */
/* Check against the device and the function, and copy the parameters. */
CUresult cu_launch_make(struct CUctx_st *c, CUfunction f, const CUlaunchConfig *cfg, void **params, void **extra,
                        struct cu_launch *ret);
void cu_launch_done(struct cu_launch *l);
/* Execute now. On a fault the context's sticky error is set and CUDA_SUCCESS returned; `stats` is filled. */
CUresult cu_launch_run(struct CUctx_st *c, const struct cu_launch *l, struct sg_stats *stats);
struct sg_work cu_launch_work(const struct cu_launch *l, const struct sg_stats *stats);

/* ---- launch.c, state.c: the checking modes ---- */
const char *cu_environment_checks(void); /* DOVETAIL_CHECK, "" where it is not set */

/* ---- copy.c ---- */
CUresult cu_copy_check(struct CUctx_st *c, const CUDA_MEMCPY3D *p);
CUresult cu_copy_run(struct CUctx_st *c, const CUDA_MEMCPY3D *p);
struct sg_work cu_copy_work(const CUDA_MEMCPY3D *p);
CUresult cu_set_check(struct CUctx_st *c, const struct cu_set *s);
void cu_set_run(struct CUctx_st *c, const struct cu_set *s);
struct sg_work cu_set_work(const struct cu_set *s);

/* ---- stream.c ---- */
/* The stream behind a handle (NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD: the default one). NULL: invalid. */
struct CUstream_st *cu_stream(struct CUctx_st *c, CUstream s);
CUresult cu_stream_new(struct CUctx_st *c, unsigned flags, int priority, struct CUstream_st **ret);
void cu_stream_free(struct CUstream_st *s);

/* ---- timeline.c ---- */
/* Append work to a stream; `event` (may be NULL) gets its end. */
CUresult cu_log(struct CUstream_st *s, struct sg_work w, struct CUevent_st *event);
/* A kernel; programmatic: it may start before the kernel in front of it in the stream has ended. */
CUresult cu_log_kernel(struct CUstream_st *s, struct sg_work w, bool programmatic);
CUresult cu_log_flush(struct CUctx_st *c);                     /* simulate; events get their times */
CUresult cu_log_wait(struct CUctx_st *c, struct CUstream_st *s); /* the host waits for a stream, or (NULL) for all */
CUresult cu_log_follow(struct CUstream_st *s, const struct CUevent_st *e); /* later work of s comes after e */
void cu_log_forget(struct CUctx_st *c, const struct CUevent_st *e);
void cu_log_done(struct CUctx_st *c);

/* ---- graph.c ---- */
struct CUgraph_st *cu_graph_new(void);
void cu_graph_free(struct CUgraph_st *g);
CUresult cu_node_new(struct CUgraph_st *g, CUgraphNodeType type, const CUgraphNode *dep, size_t ndep,
                     struct CUgraphNode_st **ret);
/* `edge` NULL: an ordinary one. Programmatic ones are between kernels. */
CUresult cu_node_depend(struct CUgraphNode_st *n, struct CUgraphNode_st *on, const CUgraphEdgeData *edge);
CUresult cu_node_set_launch(struct CUgraphNode_st *n, struct cu_launch *l); /* takes l's parameters */
CUresult cu_graph_clone(const struct CUgraph_st *g, bool sorted, struct CUgraph_st **ret);
CUresult cu_node_kernel_params(struct CUctx_st *c, const CUDA_KERNEL_NODE_PARAMS *p, struct cu_launch *ret);
/* Other parameters for a node that has some; its attributes stay. */
CUresult cu_node_new_params(struct CUctx_st *c, struct CUgraphNode_st *n, const CUDA_KERNEL_NODE_PARAMS *p);

/* ---- capture.c: while a stream captures, work becomes nodes ---- */
CUresult cu_capture_launch(struct CUstream_st *s, struct cu_launch *l);
CUresult cu_capture_copy(struct CUstream_st *s, const CUDA_MEMCPY3D *p);
CUresult cu_capture_set(struct CUstream_st *s, const struct cu_set *set);
CUresult cu_capture_host(struct CUstream_st *s, CUhostFn fn, void *user);
CUresult cu_capture_record(struct CUstream_st *s, struct CUevent_st *e);
CUresult cu_capture_wait(struct CUstream_st *s, struct CUevent_st *e);
bool cu_capturing(const struct CUctx_st *c); /* any stream of the context */

/* ---- extension.c, memory.c, graph-exec.c ---- */
#define EXT(name, params) CUresult name params;
DOVETAIL_EXTENSIONS(EXT)
#undef EXT

#endif
