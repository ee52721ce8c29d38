/* Objects behind the driver API's handles, and what the entries share.
 *
 * One lock covers everything; each entry takes it first (CU_READY, CU_CONTEXT) and gives it back when it returns.
 * Handles are pointers to the structs below; handle.c knows which exist, so that a wrong, stale or made-up one is an
 * error and is never followed.
 *
 * Order: everything runs inside the call that asks for it, in the order of the calls, which is one legal order of any
 * program whose kernels do not wait for the host. Errors of kernels surface at the next call that waits, and stick to
 * the context. What overlaps in time is decided by the timeline (timeline.c) and only there.
 */
#ifndef DT_SOFTGPU_CU_PRIV_H
#define DT_SOFTGPU_CU_PRIV_H

#pragma GCC visibility push(default) /* what it declares is what is exported (and libcuda.map allows) */
#include <cuda.h>
/* cudaProfiler.h, which not every installation of cuda.h has beside it */
typedef enum CUoutput_mode_enum { CU_OUT_KEY_VALUE_PAIR, CU_OUT_CSV } CUoutput_mode;
CUresult cuProfilerInitialize(const char *config, const char *out, CUoutput_mode mode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
#pragma GCC visibility pop
#include <pthread.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "softgpu/libcuda/extension.h"
#include "softgpu/sg.h"

enum { CU_DEVICES = 32 }; /* at most */

enum cu_kind {
    CU_CTX = 1,
    CU_MODULE,
    CU_FUNC,
    CU_STREAM,
    CU_EVENT,
    CU_GRAPH,
    CU_NODE,
    CU_EXEC,
    CU_LIBRARY,
    CU_KERNEL,
    CU_LINK,
    CU_POOL,
    CU_MEMORY,
    CU_USER_OBJECT,
    CU_ARRAY,
    CU_MIPMAP,
    CU_TEXREF,
    CU_SURFREF
};

struct cu_device {
    const struct sg_model *model;
    struct sg_device *sg; /* made with the first context */
    struct CUctx_st *primary;
    unsigned primary_refs, primary_flags, contexts;
    struct CUmemPoolHandle_st *default_pool, *pool; /* pool: the one set, or NULL */
};

struct cu_range { /* host memory known to a context: pinned, managed, an arena */
    CUdeviceptr base;
    size_t bytes;
    enum { CU_RANGE_HOST, CU_RANGE_REGISTERED, CU_RANGE_MANAGED, CU_RANGE_ARENA, CU_RANGE_ALLOWED } kind;
    void *host; /* what to free; an arena is pages (sg_pages) */
    unsigned flags;
    size_t room; /* of an arena: bytes of those pages */
};

struct cu_pooled {
    CUdeviceptr base;
    size_t bytes;
    struct CUmemPoolHandle_st *pool;
};

struct cu_work { /* one sg_work of the timeline and what it answers for */
    struct sg_work w;
    struct CUevent_st *event;
};

#define CU_SPARES 2

struct CUctx_st {
    struct cu_device *dev;
    unsigned flags;
    bool primary;
    uint64_t id;
    unsigned attached; /* cuCtxAttach, beyond the first */
    CUfunc_cache cache;
    CUresult sticky; /* a kernel failed: every later call says so */
    /* of the sticky error; of the last entry that could not be had, until it is asked for */
    struct dovetail_fault fault, refused;
    struct CUstream_st *null_stream, *streams; /* all of them, chained */
    struct CUevent_st *events;
    struct dt_vec(struct CUmod_st *) module;
    struct dt_vec(struct CUarray_st *) array; /* without the levels of mipmaps */
    struct dt_vec(struct CUmipmappedArray_st *) mipmap;
    struct cu_object *objects; /* textures and surfaces, chained */
    struct dt_vec(struct cu_range) range;
    /* arenas that were freed, those with a base: the next ones are mostly as large, and there are two at a time where
     * something is compared */
    struct cu_range spare[CU_SPARES];
    struct dt_vec(struct cu_pooled) pooled; /* from memory pools */
    struct dt_vec(struct cu_work) log;      /* work since clock_us, in the order of the calls */
    double clock_us;                        /* modelled time at which the log begins */
    uint64_t generation;                    /* counts flushes of the log */
    size_t limit[CU_LIMIT_MAX];
    uint64_t seed;
    bool race_check;                       /* between blocks: dovetailSetSchedule */
    unsigned checks;                       /* SG_CHECK_*: dovetailSetChecks, DOVETAIL_CHECK */
    struct dovetail_fault found[SG_FOUND]; /* of the last launch under SG_CHECK_TELL */
    struct dovetail_recorder *record;      /* of later launches: dovetailRecord */
    struct dovetail_line *line;            /* nline of them, counted by later launches: dovetailCountLines */
    uint32_t nline;
    double distinct; /* bytes that a graph touches: dovetailSetDistinct */
    unsigned deadline_ms;
    uint64_t max_instructions; /* of a launch, 0: any number */
    bool unfollowed;           /* nobody asks for costs: dovetailSetFollow */
    struct sg_some some;       /* of the next launch: dovetailNextBlocks; the list is ours */
    struct sg_stats last;
    struct sg_work last_work;
};

struct CUmod_st {
    struct CUctx_st *ctx;
    struct CUlib_st *lib; /* NULL: not of a library */
    struct sg_module *sg;
    struct dt_vec(struct CUfunc_st *) func;
    struct dt_vec(struct CUtexref_st *) texref;
    struct dt_vec(struct CUsurfref_st *) surfref;
};

struct CUarray_st {
    struct CUctx_st *ctx;
    CUDA_ARRAY3D_DESCRIPTOR desc; /* as asked for; of a level, its own size */
    struct sg_level level;
    struct CUmipmappedArray_st *of; /* NULL: no level of a mipmap */
};

struct CUmipmappedArray_st {
    struct CUctx_st *ctx;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    uint64_t memory;
    unsigned nlevel;
    struct CUarray_st *level[SG_LEVELS];
};

struct CUtexref_st {
    struct CUctx_st *ctx;
    struct CUmod_st *mod; /* NULL: of no module */
    char *name;
    uint64_t handle; /* 0: of no module */
    bool has;        /* `resource` says something */
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC desc;
    CUarray_format format; /* 0: not said */
    unsigned channels;
};

struct CUsurfref_st {
    struct CUctx_st *ctx;
    char *name;
    uint64_t handle;
    CUarray array;
};

struct CUfunc_st {
    uint64_t serial;
    struct CUmod_st *mod;
    struct sg_kernel *kernel;
    const struct sg_kernel_info *info;
    struct cu_legacy *legacy; /* what cuParamSet* and cuFuncSetBlockShape said; NULL: nothing */
    int max_dynamic, carveout, nonportable_cluster, cluster[3], cluster_required;
};

struct CUlib_st {
    char *ptx;
    size_t len;
    struct ptx_module *parsed;
    struct dt_vec(struct CUmod_st *) loaded; /* one a context, as needed */
    struct dt_vec(struct CUkern_st *) kernel;
};

struct CUkern_st {
    struct CUlib_st *lib;
    char *name;
};

struct CUstream_st {
    struct CUctx_st *ctx;
    struct CUstream_st *next;
    unsigned flags;
    int priority;
    uint64_t id, owner;            /* owner: the thread whose default stream it is (cu_thread), 0: an ordinary one */
    uint64_t generation;           /* of `last` */
    uint32_t last;                 /* newest work in the log + 1, 0: none */
    struct dt_vec(uint32_t) waits; /* works that the next one waits for (cuStreamWaitEvent), same generation */
    CUaccessPolicyWindow window;   /* attributes: kept and handed back */
    CUsynchronizationPolicy sync_policy;
    CUlaunchMemSyncDomain domain;
    CUlaunchMemSyncDomainMap domain_map;
    struct CUgraph_st *capture;
    bool capture_origin;
    struct dt_vec(struct CUgraphNode_st *) tail; /* what the next captured node follows */
};

struct CUevent_st {
    struct CUctx_st *ctx;
    struct CUevent_st *next, **link; /* in ctx->events */
    unsigned flags;
    bool recorded, timed; /* timed: time_us is known; else it is work `at` of the log */
    double time_us;
    uint64_t generation;
    uint32_t at;
    struct CUgraph_st *capture; /* recorded in this capture, if that still runs (capture_id): waits join it */
    struct dt_vec(struct CUgraphNode_st *) tail;
    uint64_t capture_id;
};

struct cu_launch { /* a kernel launch, complete: what a graph node keeps */
    struct CUfunc_st *f;
    uint64_t serial; /* of f, which may be gone by the time a graph runs */
    uint32_t param_total;
    CUfunction handle; /* as the caller gave it */
    uint32_t grid[3], block[3], cluster[3], shared;
    uint8_t *params; /* owned by whoever holds the struct */
    bool programmatic, cooperative;
    struct sg_beside *beside; /* while it runs beside others (graph-beside.c), else NULL */
    int priority;
    CUaccessPolicyWindow window;
};

struct cu_set { /* memset */
    CUdeviceptr dst;
    size_t pitch, width, height; /* width in elements */
    unsigned value, element;
};

struct CUgraphNode_st {
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
    struct cu_graph_memory *memory;      /* MEM_ALLOC: shared with its clones */
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    CUdeviceptr free;             /* MEM_FREE */
    CUstreamBatchMemOpParams *op; /* BATCH_MEM_OP */
    unsigned nop;
    uint64_t id, original; /* original: in a clone or an exec, the id of the node that it copies */
    bool disabled;         /* in an exec: does nothing */
    bool left;             /* while captured: the last of a stream that was destroyed */
    uint32_t mark;
    double start_us, end_us; /* in an exec: last launch */
};

struct CUgraph_st {
    struct dt_vec(struct CUgraphNode_st *) node; /* in the order they were added */
    struct CUgraphNode_st *owner;                /* the node whose child graph it is */
    unsigned id;
    struct dt_vec(struct CUuserObject_st *) object; /* with repetitions */
    /* while streams capture into it: */
    /* broken: a call that may not be captured was made; borrowed: the caller's graph */
    bool capturing, broken, borrowed;
    CUstreamCaptureMode mode;
    uint64_t capture_id, thread;
};

struct CUuserObject_st {
    CUhostFn destroy;
    void *ptr;
    unsigned refs;
};

struct CUgraphExec_st {
    struct CUctx_st *ctx;
    struct CUgraph_st *graph; /* a clone, its nodes in a topological order */
    unsigned long long flags;
    unsigned id, busy; /* busy: launches under way */
    bool ran, doomed;  /* doomed: destroyed while busy */
};

/* ---- state.c ---- */
int cu_lock(void);
void cu_unlock(const int *unused);
uint64_t cu_thread(void); /* number of the calling thread, from 1; with the lock held */
/* Call a function of the program, without the lock: what was looked up before must be looked up again afterwards. */
void cu_call_host(CUhostFn fn, void *user);
#define CU_LOCK() __attribute__((cleanup(cu_unlock), unused)) int locked_ = cu_lock()
CUresult cu_ready(void);                    /* cuInit was called */
CUresult cu_current(struct CUctx_st **ret); /* current context without a sticky error */
#define CU_READY()                                                                                                     \
    CU_LOCK();                                                                                                         \
    CUresult ready_ = cu_ready();                                                                                      \
    if (ready_ != CUDA_SUCCESS)                                                                                        \
    return ready_
#define CU_CONTEXT(c)                                                                                                  \
    CU_LOCK();                                                                                                         \
    struct CUctx_st *c;                                                                                                \
    CUresult ready_ = cu_current(&c);                                                                                  \
    if (ready_ != CUDA_SUCCESS)                                                                                        \
    return ready_
#define CU_REQUIRE(cond, error)                                                                                        \
    do {                                                                                                               \
        if (!(cond))                                                                                                   \
            return (error);                                                                                            \
    } while (0)
#define CU_TRY(expr)                                                                                                   \
    do {                                                                                                               \
        CUresult try_ = (expr);                                                                                        \
        if (try_ != CUDA_SUCCESS)                                                                                      \
            return try_;                                                                                               \
    } while (0)
bool cu_flags_ok(unsigned flags);           /* of a context */
struct cu_device *cu_device_at(CUdevice d); /* NULL: no such ordinal */
CUdevice cu_device_ordinal(const struct cu_device *d);
void cu_context_free(struct CUctx_st *c);
CUresult cu_from_dt(int r); /* a DT_E_* of the executor's memory and modules */
extern unsigned char cu_initialised;

/* ---- handle.c: with the lock held ---- */
bool cu_handle_add(const void *p, enum cu_kind kind); /* false: memory is out */
bool cu_is(const void *p, enum cu_kind kind);         /* NULL and pointers to anything else: false */
void cu_handle_drop(const void *p);                   /* what is not there is ignored */
void cu_handle_free(void *p);                         /* no handle any more; its memory is freed later */

/* ---- module.c ---- */
CUresult cu_module_new(struct CUctx_st *c, const char *ptx, size_t len, unsigned nopt, const CUjit_option *opt,
                       void **val, struct CUmod_st **ret);
void cu_module_free(struct CUmod_st *m);
CUresult cu_module_function(struct CUmod_st *m, const char *name, struct CUfunc_st **ret);
CUresult cu_module_global(struct CUmod_st *m, const char *name, CUdeviceptr *ret, size_t *ret_bytes);
CUresult cu_jit_options(unsigned nopt, const CUjit_option *opt, void **val);
/* Text into the buffer that the options name, if they do; its size becomes what was written. */
void cu_write_log(unsigned nopt, const CUjit_option *opt, void **val, CUjit_option buffer, CUjit_option size,
                  const char *text);

/* ---- image.c: *ret is NUL-terminated and owned by the caller ---- */
CUresult cu_image_text(const struct sg_model *m, const void *image, char **ret, size_t *ret_len);
CUresult cu_image_bytes(const struct sg_model *m, const void *image, size_t bytes, char **ret, size_t *ret_len);
CUresult cu_image_file(const struct sg_model *m, const char *path, char **ret, size_t *ret_len);
bool cu_text_too_new(const char *ptx, unsigned *major, unsigned *minor); /* its .version is over what is known */

/* ---- library.c ---- */
/* The function behind a CUfunction or a CUkernel in the current context. */
CUresult cu_function(struct CUctx_st *c, CUfunction f, struct CUfunc_st **ret);

/* ---- function.c ---- */
/* Registers of a thread in blocks of so many threads: what is only estimated is no more than fits. */
uint32_t cu_registers(const struct CUfunc_st *f, uint64_t threads);
/* The cluster that a launch asks for ({0}: none): against the device, the function and the grid. Fills in what the
 * function asks for. */
CUresult cu_cluster_check(const struct CUfunc_st *f, const uint32_t grid[3], uint32_t cluster[3]);

/* ---- launch.c ---- */
/* Check against the device and the function, and copy the parameters. */
CUresult cu_launch_make(struct CUctx_st *c, CUfunction f, const CUlaunchConfig *cfg, void **params, void **extra,
                        struct cu_launch *ret);
void cu_launch_done(struct cu_launch *l);
/* One attribute, checked against the launch; also read back. */
CUresult cu_launch_attribute(struct cu_launch *l, const CUlaunchAttribute *a);
CUresult cu_launch_get_attribute(const struct cu_launch *l, CUlaunchAttributeID id, CUlaunchAttributeValue *ret);
bool cu_launch_stale(const struct cu_launch *l); /* its function is gone */
/* Execute now. On a fault the context's sticky error is set and CUDA_SUCCESS returned; `stats` is filled. */
CUresult cu_launch_run(struct CUctx_st *c, const struct cu_launch *l, struct sg_stats *stats);
struct sg_work cu_launch_work(const struct cu_launch *l, const struct sg_stats *stats);

/* ---- extension.c ---- */
const char *cu_given_figures(void); /* of the timing models, by dovetailSetFigures; NULL: none */
bool cu_figures_were_given(void);   /* it was called at all */

/* ---- environment.c: all that the driver reads from the environment ---- */
/* The models of the devices: the one that DOVETAIL_SOFTGPU_MODEL names, then all that there are; NULL behind the last.
 * Those that DOVETAIL_SOFTGPU_FIGURES is about have its figures. A wrong value of one of these, or of DOVETAIL_CHECK,
 * is an error; the last two say why on stderr. */
CUresult cu_environment_models(const struct sg_model *ret[CU_DEVICES]);
/* SYSTEM_DRIVER_MISMATCH, and its path on stderr: another driver is loaded in the process, and the program has not said
 * that it knows (dovetailSetFigures). */
CUresult cu_environment_alone(void);
void cu_environment_inject(void);           /* without the lock */
const char *cu_environment_checks(void);    /* DOVETAIL_CHECK, "" where it is not set */
const char *cu_environment_check_log(void); /* DOVETAIL_CHECK_LOG, "" where it is not set */
uint64_t cu_environment_schedule(void);     /* DOVETAIL_SCHEDULE, the seed of new contexts; 0: none */

/* ---- copy.c ---- */
/* For a graph: memory that the graph allocates counts as there. */
CUresult cu_copy_check(struct CUctx_st *c, const CUDA_MEMCPY3D *p);
CUresult cu_copy_run(struct CUctx_st *c, const CUDA_MEMCPY3D *p);
struct sg_work cu_copy_work(const CUDA_MEMCPY3D *p);
CUresult cu_set_check(struct CUctx_st *c, const struct cu_set *s, bool later); /* later: in a graph */
void cu_set_run(struct CUctx_st *c, const struct cu_set *s);
struct sg_work cu_set_work(const struct cu_set *s);

/* ---- array.c, texture.c, texref.c ---- */
bool cu_texel(CUarray_format f, enum sg_texel *ret); /* false: not offered */
size_t cu_array_texel_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d);
void cu_arrays_leave(struct CUctx_st *c);
void cu_objects_leave(struct CUctx_st *c);
void cu_references_leave(struct CUmod_st *m);
/* The memory that a description names, checked; how it is read, behind that. */
CUresult cu_texture_memory(struct CUctx_st *c, const CUDA_RESOURCE_DESC *r, struct sg_texture *t);
CUresult cu_texture_sampler(const CUDA_TEXTURE_DESC *d, struct sg_texture *t);

/* ---- stream.c ---- */
/* The stream behind a handle (NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD: the default one). NULL: invalid. */
struct CUstream_st *cu_stream(struct CUctx_st *c, CUstream s);
CUresult cu_stream_new(struct CUctx_st *c, unsigned flags, int priority, struct CUstream_st **ret);
void cu_stream_free(struct CUstream_st *s);
extern _Thread_local bool cu_per_thread; /* the calling entry takes NULL for the thread's own default stream */

/* ---- event.c ---- */
void cu_event_free(struct CUevent_st *e);

/* ---- memory.c ---- */
/* The host, managed or arena memory that begins at p, or that p is `inside` of. */
struct cu_range *cu_range_at(struct CUctx_st *c, CUdeviceptr p, bool inside);
void cu_spare_drop(struct CUctx_st *c); /* give the pages of `spare` back */

/* ---- timeline.c ---- */
/* Append work to a stream; `event` (may be NULL) gets its end. */
CUresult cu_log(struct CUstream_st *s, struct sg_work w, struct CUevent_st *event);
/* A kernel; programmatic: it may start before the kernel in front of it in the stream has ended. */
CUresult cu_log_kernel(struct CUstream_st *s, struct sg_work w, bool programmatic);
CUresult cu_log_flush(struct CUctx_st *c);                       /* simulate; events get their times */
CUresult cu_log_wait(struct CUctx_st *c, struct CUstream_st *s); /* the host waits for a stream, or (NULL) for all */
CUresult cu_log_follow(struct CUstream_st *s, const struct CUevent_st *e); /* later work of s comes after e */
void cu_log_forget(struct CUctx_st *c, const struct CUevent_st *e);
void cu_log_done(struct CUctx_st *c);

/* ---- graph.c, graph-node.c ---- */
struct CUgraph_st *cu_graph_new(void);
void cu_graph_free(struct CUgraph_st *g);
/* The node of g, or of a graph inside it, that is (a copy of) the node with this id; NULL: none. */
struct CUgraphNode_st *cu_graph_find(struct CUgraph_st *g, uint64_t id);
/* Give the parameters that p describes to a node of that type, which may be a copy in an exec. */
CUresult cu_node_set(struct CUctx_st *c, struct CUgraphNode_st *n, const CUgraphNodeParams *p);
/* Take over the parameters of a node of the same type. */
CUresult cu_node_copy(struct CUgraphNode_st *to, const struct CUgraphNode_st *from);
CUresult cu_node_new(struct CUgraph_st *g, CUgraphNodeType type, const CUgraphNode *dep, size_t ndep,
                     struct CUgraphNode_st **ret);
CUresult cu_node_set_launch(struct CUgraphNode_st *n, struct cu_launch *l); /* takes l's parameters */
CUresult cu_graph_clone(const struct CUgraph_st *g, bool sorted, struct CUgraph_st **ret);
/* graph-beside.c: may, and do, nodes of this sorted graph run side by side? ret: the work of each. A kernel's fault is
 * c->sticky. */
bool cu_graph_may_beside(const struct CUctx_st *c, const struct CUgraph_st *g);
CUresult cu_graph_beside(struct CUctx_st *c, struct CUgraph_st *g, struct sg_work *ret);

/* ---- pool.c ---- */
CUresult cu_pool_free(struct CUctx_st *c, CUdeviceptr p); /* NOT_FOUND: not from a pool */
void cu_pool_leave(struct CUctx_st *c);                   /* the context goes, its allocations with it */
struct CUmemPoolHandle_st *cu_pool_of(struct CUctx_st *c, CUdeviceptr p); /* NULL: not from a pool */

/* ---- vmm.c: mapped memory goes with the device's ---- */
void cu_vmm_reset(struct cu_device *d);

/* ---- graph-memory.c: memory that graphs allocate and free ---- */
CUresult cu_graph_memory_new(struct cu_device *d, size_t bytes, struct cu_graph_memory **ret);
struct cu_graph_memory *cu_graph_memory_share(struct cu_graph_memory *m);
void cu_graph_memory_drop(struct cu_graph_memory *m); /* NULL is ignored */
CUdeviceptr cu_graph_memory_address(const struct cu_graph_memory *m);
bool cu_graph_memory_starts(CUdeviceptr p);                /* one begins there */
bool cu_graph_memory_holds(CUdeviceptr p, size_t bytes);   /* one holds all of it, allocated at present or not */
CUresult cu_graph_memory_alloc(struct cu_graph_memory *m); /* INVALID_VALUE: it is allocated already */
CUresult cu_graph_memory_free(CUdeviceptr p);    /* INVALID_VALUE: none begins there, or it is not allocated */
void cu_graph_memory_reset(struct cu_device *d); /* the device's memory went */

/* ---- user-object.c ---- */
void cu_user_object_drop(struct CUuserObject_st *o, unsigned n);

/* ---- graph-update.c: graphs whose nodes are sorted ---- */
/* Does `to` differ from `from` only in parameters that may be changed? *ret_node (may be NULL): the node of `to` that
 * differs. */
CUgraphExecUpdateResult cu_graph_compare(const struct CUgraph_st *from, const struct CUgraph_st *to,
                                         struct CUgraphNode_st **ret_node);
/* the parameters of a graph that compared equal */
CUresult cu_graph_take(struct CUgraph_st *to, const struct CUgraph_st *from);

/* ---- stream-value.c ---- */
CUresult cu_memop_check(struct CUctx_st *c, unsigned n, const CUstreamBatchMemOpParams *op, unsigned flags);
CUresult cu_memop_run(struct CUctx_st *c, unsigned n, const CUstreamBatchMemOpParams *op);

/* ---- capture.c: while a stream captures, work becomes nodes ---- */
CUresult cu_capture_alloc(struct CUstream_st *s, const CUmemPoolProps *props, size_t bytes, CUdeviceptr *ret);
CUresult cu_capture_graph(struct CUstream_st *s, const struct CUgraph_st *g); /* as a child */
CUresult cu_capture_free(struct CUstream_st *s, CUdeviceptr p);
CUresult cu_capture_memop(struct CUstream_st *s, unsigned n, const CUstreamBatchMemOpParams *op);
CUresult cu_capture_launch(struct CUstream_st *s, struct cu_launch *l);
CUresult cu_capture_copy(struct CUstream_st *s, const CUDA_MEMCPY3D *p);
CUresult cu_capture_set(struct CUstream_st *s, const struct cu_set *set);
CUresult cu_capture_host(struct CUstream_st *s, CUhostFn fn, void *user);
CUresult cu_capture_record(struct CUstream_st *s, struct CUevent_st *e);
CUresult cu_capture_wait(struct CUstream_st *s, struct CUevent_st *e);
CUresult cu_capture_event(struct CUstream_st *s, CUgraphNodeType type, struct CUevent_st *e); /* an external one */
void cu_capture_abandon(struct CUstream_st *s); /* the stream goes while it captures */
/* May the calling thread make a call that is unsafe while something captures? If not, the captures concerned are
 * invalid. */
CUresult cu_capture_unsafe(struct CUctx_st *c);
/* Work on the legacy stream (s, else nothing) while another stream of its kind captures: the captures are invalid. */
CUresult cu_capture_legacy(struct CUctx_st *c, const struct CUstream_st *s);

/* ---- extension.c, memory.c, graph-exec.c ---- */
#define EXT(name, params) CUresult name params;
DOVETAIL_EXTENSIONS(EXT)
#undef EXT

#endif
