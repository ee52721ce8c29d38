/* The software CUDA device, for libcuda/ (the driver API) and for tests: models, memory, modules, launches, time. The
 * rooms of softgpu/ share it too; what they have among each other is in headers of their own.
 *
 * Addresses: a device address is the host address of the same byte, so that a load is one range check and one access.
 * Shared and local memory are reached by generic addresses through reserved windows (window base + offset; SG_WINDOW_*
 * in state/code.h). Every access to global memory is checked against the table of allocations.
 *
 * Threads: an sg_device may be used by several host threads; launches are executed one at a time (by the caller's
 * thread, with a pool of CPU threads for the blocks).
 */
#ifndef DT_SOFTGPU_SG_H
#define DT_SOFTGPU_SG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "ptx/ptx.h"
#include "softgpu/record.h"

/* ---- the modelled GPU (model/model.c; numbers with their sources in model/models.def) ---------------------------- */
struct sg_constants { /* of the time model; constants.def has values, units and sources */
#define SG_CONST_TIME double
#define SG_CONST_EXEC unsigned
#define CONST(name, when, ...) SG_CONST_##when name;
#define FIT(name, when, ...) SG_CONST_##when name;
#include "softgpu/constants.def"
};
struct sg_model {
    const char *id;   /* "h200" */
    const char *name; /* "NVIDIA H200 (modeled)" */
    unsigned cc_major, cc_minor, sms, clock_khz, mem_clock_khz, bus_bits;
    uint64_t dram_bytes, l2_bytes;
    unsigned l1_bytes_clock;   /* what an SM reads from it */
    unsigned l1_bytes;         /* of an SM, shared memory included */
    unsigned l2_halves;        /* 1, or 2 where an SM is nearer to one half of the L2 */
    double dram_gbps, l2_gbps; /* GB/s, whole chip; DRAM as the data sheet has it */
    double dram_sustained;     /* part of dram_gbps that streaming reads reach */
    unsigned max_threads_sm, max_blocks_sm, regs_sm, regs_block, max_regs_thread;
    unsigned shared_sm, shared_block, shared_block_optin, shared_reserved; /* bytes */
    unsigned reg_unit, shared_unit; /* allocation granularity: registers per warp, bytes */
    double fp32_lanes, fp64_lanes, int_lanes, sfu_lanes, lsu_lanes; /* lane-operations per clock and SM */
    double tensor_flops;                                            /* f16 flops of the tensor units per clock and SM */
    double stream_more_us; /* a launch outside of graphs starts so much later after what it waits for */
    double launch_us, graph_launch_us, event_us, block_start_ns, dram_latency_ns, block_rate_ns, l2_near_ns, l2_far_ns,
        memcpy_gbps;
    /* shared memory of another SM: latency, bytes per clock and SM; a cluster's barrier; 0: no clusters */
    double dsm_ns, dsm_bytes_clock, cluster_sync_ns;
    struct sg_constants k; /* of its architecture */
};
struct sg_figure { /* one number of a model and where it comes from: a publication, or "estimate: …" with the reason */
    const char *field; /* member of struct sg_model, or of its sg_constants */
    double value;
    const char *source; /* "fitted: " and families of tests/published/ */
    const char *unit;   /* of constants, with what follows; else NULL */
    bool exec;          /* read while blocks are followed, not when a timeline is made */
    double low, high;   /* a fit looks between them; 0: not fitted */
    unsigned values;    /* that differ between architectures, or 1 */
};
/* First those of models.def, then constants. false past the last; `model` as in sg_model_at */
bool sg_model_figure(size_t model, size_t i, struct sg_figure *ret);
/* A copy of m with figures of its own: "launch_us=3,l2_gbps=5000". false: *ret_at is where the text is wrong. */
bool sg_model_with(const struct sg_model *m, const char *figures, struct sg_model *ret, const char **ret_at);
const struct sg_model *sg_model_find(const char *id); /* NULL: unknown; "" or NULL: the default, h200 */
const struct sg_model *sg_model_at(size_t i);         /* NULL past the last */

/* ---- memory (memory/memory.c) ------------------------------------------------------------------------------------ */
struct sg_device;
int sg_device_new(const struct sg_model *m, struct sg_device **ret);
struct sg_device *sg_device_free(struct sg_device *d);
const struct sg_model *sg_device_model(const struct sg_device *d);

/* Zeroed pages, huge ones where there are many; NULL when the host has none. Release with munmap(p, bytes). */
void *sg_pages(uint64_t bytes);
/* Allocations are 512-byte aligned with a red zone on either side, filled with 0xFF bytes. DT_E_NOMEM over the model's
 * memory or the host's. */
int sg_mem_alloc(struct sg_device *d, uint64_t bytes, uint64_t *ret_addr);
/* The same for somebody (a context), who can be asked for, and whose allocations can go all at once. */
int sg_mem_alloc_for(struct sg_device *d, uint64_t bytes, const void *owner, uint64_t *ret_addr);
const void *sg_mem_owner(const struct sg_device *d, uint64_t addr); /* NULL: none */
void sg_mem_free_owned(struct sg_device *d, const void *owner);
int sg_mem_free(struct sg_device *d, uint64_t addr); /* DT_E_NOT_FOUND: not the start of an allocation */
/* Register memory that is not from sg_mem_alloc (host memory used as device memory, module variables). */
int sg_mem_register(struct sg_device *d, void *p, uint64_t bytes, bool read_only);
int sg_mem_unregister(struct sg_device *d, void *p);
/* The allocation at addr: later launches that write there fault, or may again. */
int sg_mem_protect(struct sg_device *d, uint64_t addr, bool on);
/* memory/heap.c: a kernel that uses malloc has been launched: its size is fixed */
bool sg_heap_made(const struct sg_device *d);
bool sg_mem_find(const struct sg_device *d, uint64_t addr, uint64_t *ret_base, uint64_t *ret_bytes);
bool sg_mem_ok(const struct sg_device *d, uint64_t addr, uint64_t bytes); /* wholly inside one allocation */
/* Names for reports; copied, NULL: none. Of the allocation or registered memory that holds `addr`. */
void sg_mem_name(struct sg_device *d, uint64_t addr, const char *name);
/* Which bytes have been written, for SG_CHECK_UNINIT. While it is tracked, sg_mem_alloc gives memory of which nothing
 * is written; memory that was there before, registered memory and module variables count as written. A launch without
 * SG_CHECK_UNINIT ends it: all memory counts as written then. */
void sg_mem_track(struct sg_device *d, bool on);
void sg_mem_written(struct sg_device *d, uint64_t addr, uint64_t bytes);
void sg_mem_forget(struct sg_device *d, uint64_t addr, uint64_t bytes); /* as never written; nothing unless tracked */
void sg_mem_copied(struct sg_device *d, uint64_t to, uint64_t from, uint64_t bytes); /* written where the source is */
void sg_mem_info(const struct sg_device *d, uint64_t *ret_free, uint64_t *ret_total);

/* ---- textures, samplers and surfaces (memory/texture.c) ----------------------------------------------------------
 * Kernels know them by handles: numbers that are never 0 and that name nothing once it is gone. */
enum sg_texel { /* of one channel */
                SG_TEXEL_U8,
                SG_TEXEL_U16,
                SG_TEXEL_U32,
                SG_TEXEL_S8,
                SG_TEXEL_S16,
                SG_TEXEL_S32,
                SG_TEXEL_F16,
                SG_TEXEL_F32
};
unsigned sg_texel_bytes(enum sg_texel t);
enum sg_edge { SG_EDGE_WRAP, SG_EDGE_CLAMP, SG_EDGE_MIRROR, SG_EDGE_BORDER }; /* as CUaddress_mode */
struct sg_level {                  /* of a mipmap; texels of a row lie beside each other */
    uint64_t base, pitch, slice;   /* address; bytes from a row to the next, from a slice or layer to the next */
    uint32_t width, height, depth; /* depth: slices, or layers (six a cube); at least 1 each */
};
enum { SG_LEVELS = 17 };
struct sg_sampler {
    enum sg_edge edge[3];
    bool linear, mip_linear; /* filters: else the nearest texel, level */
    bool normalized;         /* coordinates of floats are from 0 to 1 */
    float bias, least, most; /* of a level */
    unsigned anisotropy;     /* 0 and 1: none */
    uint32_t border[4];      /* bits */
};
struct sg_texture {
    enum sg_reference { SG_REF_TEXTURE = 1, SG_REF_SAMPLER, SG_REF_SURFACE } kind;
    bool bound; /* a variable of a module that nobody has bound yet has no levels */
    bool layered, cube;
    bool memory;   /* linear memory: what is outside reads as 0 */
    bool integers; /* read as they are, else as floats in 0 to 1 or -1 to 1; nothing else of 32 bits and floats */
    unsigned dims; /* of a layer, 1 to 3 */
    enum sg_texel texel;
    unsigned channels, nlevel;
    struct sg_level level[SG_LEVELS];
    struct sg_sampler sampler; /* of SG_REF_TEXTURE and SG_REF_SAMPLER */
};
int sg_texture_add(struct sg_device *d, const struct sg_texture *t, uint64_t *ret_handle); /* DT_E_NOMEM */
/* Another one under its handle; of one kind. Both: DT_E_NOT_FOUND: there is none. */
int sg_texture_set(struct sg_device *d, uint64_t handle, const struct sg_texture *t);
int sg_texture_remove(struct sg_device *d, uint64_t handle);
const struct sg_texture *sg_texture_find(const struct sg_device *d, uint64_t handle); /* until it is changed; NULL */

/* ---- modules and kernels (decode/module.c, decode/decode.c) ------------------------------------------------------ */
struct sg_module;
struct sg_kernel;
/* Parse, verify, allocate and initialise module variables. Takes its own copy of the text. DT_E_PTX with line and
 * column. */
int sg_module_load(struct sg_device *d, const char *ptx, size_t len, struct sg_module **ret, struct dt_err *e);
struct sg_module *sg_module_free(struct sg_module *m);
/* decoded at first use; NULL: no such entry */
struct sg_kernel *sg_module_kernel(struct sg_module *m, const char *entry);
/* Why an entry cannot run here: "line 12: entry k: the software device cannot run `alloca`"; false: it can. Decodes
 * it. */
bool sg_kernel_refused(const struct sg_kernel *k, char *ret, size_t n);
unsigned sg_module_kernels(const struct sg_module *m);
struct sg_kernel *sg_module_kernel_at(struct sg_module *m, unsigned i);
int sg_module_global(struct sg_module *m, const char *name, uint64_t *ret_addr, uint64_t *ret_bytes);
/* The handle of a .texref, .samplerref or .surfref. DT_E_NOT_FOUND. */
int sg_module_reference(struct sg_module *m, const char *name, enum sg_reference kind, uint64_t *ret_handle);
/* Which line of the source a line of the PTX comes from, by its .loc: "k.cu:12", "f.cu:3, inlined at k.cu:12"; false:
 * it does not say. */
bool sg_module_source(const struct sg_module *m, uint32_t line, char *ret, size_t n);

/* ---- fat binaries (decode/fatbin.c) ------------------------------------------------------------------------------ */
bool sg_fatbin_is(const void *data);      /* reads up to 4 bytes, none behind one that differs */
size_t sg_fatbin_bytes(const void *data); /* what its header says that it has; reads 16 bytes */
/* The text of the best PTX of a container for a device of compute capability `cc` (90), NUL-terminated, owned by the
 * caller. DT_E_NOT_FOUND: none that it can run (only SASS, or for later devices); DT_E_PTX: the container is
 * damaged. */
int sg_fatbin_ptx(const void *data, size_t len, unsigned cc, char **ret, size_t *ret_len);
/* May PTX with this `.target` run there: sm_90 on 90 and later, sm_100f on 10x, sm_90a on 90 alone? */
bool sg_target_fits(const char *ptx, size_t len, unsigned cc);

struct sg_kernel_info {
    const char *name;
    unsigned nparam;
    const uint32_t *param_offset, *param_bytes; /* in the parameter block, as PTX lays them out */
    uint32_t param_total;
    uint32_t registers; /* per thread: estimate from liveness, or set by sg_kernel_set_resources */
    bool registers_estimated;
    uint32_t shared_static, local_bytes, const_bytes;
    uint32_t max_threads;  /* from .maxntid/.reqntid, else 1024 */
    uint32_t cluster[3];   /* .reqnctapercluster; 0: not said */
    uint32_t max_cluster;  /* .maxclusterrank; 0: not said */
    bool explicit_cluster; /* .explicitcluster, or .reqnctapercluster: it must run in clusters */
    unsigned ptx_version;  /* 90 */
};
const struct sg_kernel_info *sg_kernel_info(const struct sg_kernel *k);
/* What ptxas said (dovetail passes it through the extension entry `dovetailFuncSetResources`). */
void sg_kernel_set_resources(struct sg_kernel *k, uint32_t registers);

/* ---- execution (launch/launch.c) --------------------------------------------------------------------------------- */
/* Checking modes (check/check.h, docs/CHECKING.md). A finding ends the launch with an sg_fault. */
enum sg_checks {
    /* two blocks touch a byte, one writing, whatever orders them: fast, for kernels whose blocks are independent */
    SG_CHECK_BLOCKS = 1,
    SG_CHECK_RACE = 2,    /* two threads touch a byte, one writing, and nothing orders them */
    SG_CHECK_UNINIT = 4,  /* reads of global and shared memory that nothing wrote */
    SG_CHECK_BARRIER = 8, /* barriers that threads miss, reach apart or with different counts */
    /* with others: a finding does not end the launch; the first of each kind is kept (sg_launch.found) */
    SG_CHECK_TELL = 16,
    /* with SG_CHECK_RACE: mbarriers of which it hangs on the order of warps what counts for which phase; as a race */
    SG_CHECK_PHASES = 32,
    SG_CHECK_ALL = SG_CHECK_RACE | SG_CHECK_UNINIT | SG_CHECK_BARRIER,
};
enum { SG_FOUND_RACE, SG_FOUND_UNINIT, SG_FOUND_BARRIER, SG_FOUND };
/* "race,uninit,barrier,bounds,tell", "all", "none" or "" as SG_CHECK_* bits; false: some other word. */
bool sg_checks_parse(const char *list, unsigned *ret);

enum { SG_STACK_MAX = 512 << 10 }; /* as CUDA */
/* A launch that runs beside others, each in a thread of its own, one of them at a time: whoever passes the turn on does
 * so in these calls, which come from the thread that executes the launch. The caller keeps memory from being allocated
 * or freed meanwhile. */
struct sg_beside {
    bool (*turn)(void *user);     /* its blocks have had a turn; false: stop, the launch is cancelled */
    bool (*may_pass)(void *user); /* griddepcontrol.wait: has all ended that it waits for? */
    void *user;
    bool stuck;      /* out: for a while its blocks have done nothing but ask may_pass() */
    bool stopped;    /* out: turn() said so */
    uint64_t let_go; /* out: blocks that have executed griddepcontrol.launch_dependents, or ended */
};
struct sg_launch {
    struct sg_kernel *kernel;
    /* cluster 0: what the kernel asks for, or one block; at most 16 blocks, must divide the grid */
    uint32_t grid[3], block[3], cluster[3];
    uint32_t shared_dynamic;
    uint32_t stack_bytes;      /* per thread, for functions that call themselves; 0: 1024 */
    uint64_t heap_bytes;       /* of malloc in kernels, where the device has no heap yet; 0: 8 MiB */
    const uint8_t *params;     /* param_total bytes */
    uint64_t seed;             /* 0: blocks in order; else a permutation of block order and interleaving */
    unsigned checks;           /* SG_CHECK_*: what is looked for besides what always is */
    struct sg_fault *found;    /* out, [SG_FOUND], zero before, with SG_CHECK_TELL; else NULL */
    uint64_t max_instructions; /* thread-instructions, 0: no limit */
    bool together;             /* cooperative: its blocks may wait for each other, all of them */
    bool unfollowed;           /* of the statistics, only how much ran: no profile, no distinct bytes */
    /* What the kernel prints is appended here, in the order in which it ran; NULL: nowhere. At least the last
     * `print_bytes` of it are there, and less than twice as many and one call's. */
    struct dt_str *print;
    size_t print_bytes;
    volatile const int *cancel; /* set by another thread: stop soon; may be NULL */
    struct sg_beside *beside;   /* NULL: it runs alone */
    /* what calls of DOVETAIL_TOUCH record, one that sg_record_ok() takes; NULL: nothing. Such a launch has no counts of
     * sectors */
    struct dovetail_recorder *record;
    /* line[k] is added to by how often the first instruction of line k of the PTX was executed, by threads, and issued
     * by warps for some of their threads; nline of them, or NULL. Under `some`, by the blocks that ran */
    struct dovetail_line *line;
    uint32_t nline;
    /* Run these blocks alone (linear numbers, ascending; n of them, NULL: all), or of a launch with clusters these
     * clusters. The statistics are as if all had run: counts in proportion, distinct bytes read and written as said
     * here. */
    struct sg_some {
        const uint32_t *block;
        uint32_t n;
        uint64_t unique_read_bytes, unique_write_bytes;
    } some;
};

struct sg_fault { /* what went wrong, where */
    int num; /* DT_E_BOUNDS DT_E_TRAP DT_E_DEADLOCK DT_E_RACE DT_E_UNINIT DT_E_BARRIER DT_E_UNSUPPORTED DT_E_TIMEOUT */
    const char *kernel; /* borrowed from the module */
    uint32_t block[3], thread[3];
    uint32_t line;    /* in the PTX */
    uint64_t address; /* of the access */
    uint32_t bytes;
    const char *kind; /* of a finding of the checking modes: "race", "uninit", "barrier"; else NULL */
    /* "buffer h + 16", "shared tile + 4", "shared memory + 64"; "": unknown, or global memory outside a finding */
    char place[160];
    bool has_other; /* a race: the earlier access */
    uint32_t other_block[3], other_thread[3], other_line;
    bool misaligned, asserted; /* DT_E_BOUNDS: for the address itself; DT_E_TRAP: by __assertfail */
    uint32_t where;            /* so much of `text` is the instruction; 0: it names none */
    char text[512];            /* the instruction, and what happened */
};

enum sg_pipe { /* of an SM; NONE: takes an issue slot only */
               SG_PIPE_NONE,
               SG_PIPE_ALU,
               SG_PIPE_FMA,
               SG_PIPE_IMAD, /* those of the FMA pipes that do integers, too */
               SG_PIPE_FP64,
               SG_PIPE_XU,
               SG_PIPE_LSU,
               SG_PIPE_TENSOR,
               SG_PIPES
};
/* Of one launch, from the blocks that were followed (exec/profile.c), as if all had been: sums over warps. All members
 * are uint64_t. */
struct sg_profile {
    uint64_t slots[SG_PIPES];            /* machine instructions issued */
    uint64_t shared_passes, l1_quarters; /* clocks of shared memory's banks; quarters of clocks of the L1 */
    uint64_t l2_read, l2_write;          /* sectors */
    uint64_t again;                      /* of l2_read: that the same block had read before */
    uint64_t atomics;                    /* of the L2, as tenths of sectors that it could have read meanwhile */
    uint64_t alone_near,
        alone_far; /* clocks of blocks alone on an SM, what the L1 lacks coming from the L2, from DRAM */
    uint64_t done_near,
        done_far;          /* until the SM can have done what a block's warps ask of it: the block takes no less */
    uint64_t shared_part;  /* of what a block reads past the L1, what the one before it reads as well; millionths */
    uint64_t pages;        /* of DRAM, in which the sectors lie that blocks read past the L1 */
    uint64_t shared_pages; /* as shared_part, of pages */
    uint64_t written, write_pages,
        shared_write_pages; /* sectors that blocks write, each once; as pages and shared_pages */
    uint64_t tensor;        /* flops of mma and wmma, as of f16 */
    uint64_t hot;           /* clocks of the L2 for atomics in the busiest line, of all blocks */
    uint64_t fences;        /* of `alone`: clocks in fences */
};

struct sg_stats { /* of one launch; counts of thread-level work, summed over blocks */
    uint64_t instructions, fp32, fp64, integer, sfu, memory, barriers, tensor_flops;
    uint64_t global_read_bytes, global_write_bytes; /* as coalesced by warp: 32-byte sectors touched */
    uint64_t shared_bytes;
    uint64_t cluster_accesses, cluster_bytes;       /* of `memory`: loads, stores and atomics of .shared::cluster */
    uint64_t cluster_syncs;                         /* barrier.cluster.wait; not in `barriers` */
    uint64_t unique_read_bytes, unique_write_bytes; /* distinct 32-byte sectors of the whole launch, for DRAM traffic */
    uint64_t prefetched_bytes;   /* distinct sectors that it prefetched into the L2 and that were not yet */
    uint64_t fetched_read_bytes; /* of unique_read_bytes: what earlier launches had prefetched */
    /* instructions that the busiest warp of a block issued, summed over blocks; 0: as the mean thread */
    uint64_t longest;
    uint64_t before_wait;    /* of `longest`: up to griddepcontrol.wait, all of it where a block never waits */
    uint64_t before_trigger; /* of `longest`: up to griddepcontrol.launch_dependents, all of it without one */
    double max_block_share;  /* work of the heaviest block over the mean, 1 when even */
    /* number of a record of which block waited for which, or of two kinds of blocks (struct sg_talk); 0: neither, or it
     * is not known */
    uint64_t talk;
    /* blocks that did less than a sixteenth, or so, of what the heaviest did: they leave at once, or only prefetch */
    uint64_t light_blocks;
    uint64_t light_instructions; /* of `instructions`: theirs */
    struct sg_profile profile;   /* 0: not followed */
};

bool sg_record_ok(const struct dovetail_recorder *r); /* exec/record.c: every number in it is in its bounds */

/* ---- blocks of one launch that wait for each other (exec/talk.c) ------------------------------------------------- */
struct sg_talk { /* blocks by the order in which they start; a block waits only for earlier ones */
    uint32_t nblock, npart, nflag;
    bool apart; /* nobody waits: parts are blocks of different kinds (exec/behind.c), with no arrays but `part` */
    const struct sg_talk_part {
        uint32_t first, blocks;
        struct sg_stats stats; /* of these blocks */
    } * part;
    const double *share;        /* by block: its instructions over the mean of its part */
    const uint32_t *wait_at;    /* [nblock + 1] */
    const struct sg_talk_wait { /* for the first `count` signals of the flag */
        uint32_t flag, count;
    } * wait;
    const uint32_t *signal_at; /* [nflag + 1] */
    const uint32_t *signal;    /* by flag: the blocks that signal it, in order */
};
/* Keep a copy for good; equal ones have one number. 0: it cannot be kept. */
uint32_t sg_talk_keep(const struct sg_talk *t);
const struct sg_talk *sg_talk_find(uint32_t id); /* NULL: there is none */

/* Run to the end. 0, or a negative number with *fault filled. Output written so far stays. `stats` may be NULL. A stray
 * of the recorder ends the launch, and it is 0 too. */
int sg_execute(struct sg_device *d, const struct sg_launch *l, struct sg_stats *stats, struct sg_fault *fault);
uint32_t sg_worker_count(void); /* how many CPU threads a launch may use */
/* "kernel gemm, block (1,0,0), thread (5,0,0), PTX line 88: ld.global.f32 … : 4 bytes at 0x… are outside every
 * allocation" */
void sg_fault_text(const struct sg_fault *f, char *out, size_t n);
/* So much of that sentence says where it happened, up to the instruction; 0: it names none, or is cut before. */
uint32_t sg_fault_where(const struct sg_fault *f, size_t n);

/* ---- modelled time (model/timing.c) ------------------------------------------------------------------------------ */
struct sg_occupancy {
    unsigned blocks_per_sm;
    const char *limit; /* "registers", "shared", "threads", "blocks" */
};
/* The SMs of GPC g: the first one, and how many. */
enum { SG_GPCS = 8 };
unsigned sg_gpc(const struct sg_model *m, unsigned g, unsigned *ret_first);
/* How many clusters of `size` blocks run at once where an SM has `per_sm` blocks: a cluster lives in one GPC. */
unsigned sg_clusters(const struct sg_model *m, unsigned per_sm, unsigned size);
struct sg_occupancy sg_occupancy(const struct sg_model *m, uint32_t threads, uint32_t registers, uint32_t shared_bytes);

/* One piece of device work on the modelled timeline. A discrete-event simulation places the blocks of kernels that may
 * run at the same time on SMs; see model/timing.c for what is modelled and what is not. */
struct sg_work {
    enum { SG_WORK_KERNEL, SG_WORK_COPY, SG_WORK_SET, SG_WORK_EVENT, SG_WORK_HOST } kind;
    uint32_t blocks, threads, registers, shared_bytes;
    uint32_t cluster; /* blocks of a cluster, 0: 1 */
    struct sg_stats stats;
    uint64_t bytes; /* COPY, SET */
    bool in_graph;  /* launch cost is graph_launch_us instead of launch_us */
    /* indices of earlier works that must have ended (stream order is given by the caller as such) */
    const uint32_t *after;
    uint32_t nafter;
    /* per element of `after`: a programmatic dependency, to be passed when that kernel triggers; NULL: none */
    const uint8_t *early;
    bool made;               /* its code is a rewrite's, not what was posted (sg_doubt.made) */
    double start_us, end_us; /* out */
};
int sg_timeline(const struct sg_model *m, struct sg_work *w, uint32_t n);

/* One way in which the model may be wrong (model/doubts.def): factors on what its terms take, 1 where it is right. */
struct sg_doubt {
    const char *name, *why;
    double issue, local, tensor, alone, l2, dram, cache, launch, start, hot, cluster, flags, made, pages, fences;
    double early_us;
    bool late, sharp;
};
/* 0: none, the model as it is; NULL: there are no more. */
const struct sg_doubt *sg_doubt_at(size_t i);
/* False: the works' timeline is the same without it. */
bool sg_doubt_matters(const struct sg_doubt *d, const struct sg_work *w, uint32_t n);
/* The same under a doubt (NULL: none), where all works together touch so many distinct bytes; 0: not known, the sum
 * over works at most. */
int sg_timeline_of(const struct sg_model *m, struct sg_work *w, uint32_t n, double distinct, const struct sg_doubt *d);

/* Blocks of a work that ran alike on neighbouring SMs: how many on all of them together, how many at once on one of
 * them (the mean between begin and end). */
struct sg_span {
    uint32_t work, first_sm, last_sm;
    uint64_t blocks;
    double mean, begin_us, end_us;
};
#define SG_SPANS(n) (16 * (size_t)(n) + 1024) /* of n works at most */
/* sg_timeline_of, and where its blocks ran: ret has room for SG_SPANS(n), by work, then SM. *ret_n = 0 where that is
 * too much to be said. */
int sg_timeline_spans(const struct sg_model *m, struct sg_work *w, uint32_t n, double distinct, struct sg_span *ret,
                      size_t *ret_n);

/* What one work asks for, each number less the better, and to be added over works: launches, slots, those of FP64 and
 * special functions, tensor flops, memory instructions, passes over shared memory and L1, sectors or bytes of the L2,
 * bytes of DRAM, atomics, their busiest line, barriers, the longest way through it, idle places of its last wave. And
 * the threads that it has in flight, more the better; 0: it is no kernel. */
enum { SG_BURDENS = 13 };
void sg_burden(const struct sg_model *m, const struct sg_work *w, double ret[SG_BURDENS], double *ret_in_flight);

/* The least time in which n works can be done, in microseconds, if they move so many bytes (negative: what each of them
 * touches): by traffic at the rates of L2 and DRAM, or by floating-point arithmetic on all SMs. */
double sg_bound(const struct sg_model *m, const struct sg_work *w, uint32_t n, double bytes);

#endif
