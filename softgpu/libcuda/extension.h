/* What build/softgpu/libcuda.so.1 offers beyond the CUDA Driver API, reached only through cuGetProcAddress by these
 * names. A driver that knows none of them is a real one.
 *
 * This header holds types only: device/ includes it as it includes cuda.h.
 */
#ifndef DT_SOFTGPU_EXTENSION_H
#define DT_SOFTGPU_EXTENSION_H

#include <cuda.h>
#include <stdint.h>

#include "softgpu/record.h"

/* the fault behind a sticky error; where there is none, once, why cuModuleGetFunction refused an entry */
struct dovetail_fault {
    /* DT_E_BOUNDS DT_E_TRAP DT_E_DEADLOCK DT_E_RACE DT_E_UNINIT DT_E_BARRIER DT_E_UNSUPPORTED DT_E_TIMEOUT; 0: there
     * was none */
    int num;
    char kernel[256];
    uint32_t block[3], thread[3], line, bytes;
    uint64_t address;
    char text[1280]; /* one sentence with all of it */
    /* of a finding of the checking modes: "race", "uninit" or "barrier", else ""; where ("h + 16", "shared tile + 4");
     * a race's earlier access */
    char kind[16], place[160];
    uint32_t where; /* so much of `text` says where, up to the instruction; 0: it names none */
    uint32_t misaligned;
    uint32_t has_other, other_block[3], other_thread[3], other_line;
};

struct dovetail_launch_stats { /* of the last launch that ran */
    uint64_t instructions, fp32, fp64, integer, sfu, memory, barriers, tensor_flops, global_read_bytes,
        global_write_bytes, shared_bytes, unique_read_bytes, unique_write_bytes;
};

/* what a launch costs in the model: the device's own, to be kept, also in files, and given back as it is */
struct dovetail_work {
    uint64_t word[96]; /* DOVETAIL_WORK, then numbers (extension.c) */
};
/* blocks of a work that ran alike on neighbouring SMs: how many in all, and how many at once on one SM (the mean) */
struct dovetail_span {
    uint32_t work, first_sm, last_sm;
    uint64_t blocks;
    double mean, begin_us, end_us;
};
#define DOVETAIL_SPANS(n) (16 * (size_t)(n) + 1024) /* of n works at most */
/* raise the last one when their places, or the counts of any launch, may change */
#define DOVETAIL_BURDENS 13 /* numbers of dovetailBurden */
#define DOVETAIL_WORK UINT64_C(0x6476776b00000003)

/* EXT(result name, parameters) */
/* clang-format off */
#define DOVETAIL_EXTENSIONS(EXT)                                                                                       \
    /* The device that models `id` ("h200"); also where cuDeviceGetCount says 1. NOT_FOUND: no such model. */          \
    EXT(dovetailDeviceByModel, (CUdevice * device, const char *id))                                                    \
    EXT(dovetailDeviceModel, (const char **id, CUdevice device))                                                       \
    /* Before cuInit: figures of the timing models, in the form of DOVETAIL_SOFTGPU_FIGURES and in its place (copied). \
     * NULL or "": what the variable says. NOT_PERMITTED: after cuInit. */                                             \
    EXT(dovetailSetFigures, (const char *figures))                                                                     \
    /* Into how many parts the L2 is cut whose lines the other part may keep too: 1 or 2. No attribute of CUDA says    \
     * it. */                                                                                                          \
    EXT(dovetailDeviceL2Halves, (unsigned *halves, CUdevice device))                                                   \
    /* Block order and race check of later launches in the current context. seed 0: blocks in order. */                \
    EXT(dovetailSetSchedule, (uint64_t seed, int race_check))                                                          \
    /* Checking modes of later launches in the current context (docs/CHECKING.md): "race,uninit,barrier,tell",         \
     * "all", "none"; NULL: what DOVETAIL_CHECK says. Before the memory is allocated, or nothing of it is ever         \
     * uninitialised. INVALID_VALUE: another word. */                                                                  \
    EXT(dovetailSetChecks, (const char *modes))                                                                        \
    /* These bytes count as never written (uninit). */                                                                 \
    EXT(dovetailForget, (CUdeviceptr p, size_t bytes))                                                                 \
    /* What reports call the allocation at p; NULL: nothing. */                                                        \
    EXT(dovetailNameMemory, (CUdeviceptr p, const char *name))                                                         \
    /* Wall-clock limit of each later launch in the current context; 0: none. */                                       \
    EXT(dovetailSetDeadline, (unsigned milliseconds))                                                                  \
    /* Thread-instructions of each later launch in the current context; 0: any number. A launch that needs more        \
     * fails like one over its deadline, the same on every machine. */                                                 \
    EXT(dovetailSetLimit, (uint64_t instructions))                                                                     \
    /* 0: nobody asks what later launches in the current context cost: of their statistics only the instructions count,\
     * and they run faster. */                                                                                         \
    EXT(dovetailSetFollow, (int on))                                                                                   \
    /* The next launch in the current context, outside graphs, runs these blocks alone (linear numbers, ascending,     \
     * copied), and counts for the model as if all had run: work in proportion, distinct bytes as given. n = 0:        \
     * none of them runs, but the launch is as it is otherwise. Not for clusters of several blocks: its launch         \
     * fails. */                                                                                                       \
    EXT(dovetailNextBlocks, (const uint32_t *block, unsigned n, uint64_t unique_read_bytes,                            \
        uint64_t unique_write_bytes))                                                                                  \
    EXT(dovetailGetFault, (struct dovetail_fault * fault))                                                             \
    /* Under the checking mode "tell" findings do not end a launch: the first of each kind in the last one,            \
     * found[0] race, [1] uninit, [2] barrier; num 0: none. */                                                         \
    EXT(dovetailGetFindings, (struct dovetail_fault * found))                                                          \
    EXT(dovetailFuncSetResources, (CUfunction f, unsigned registers))                                                  \
    /* Later launches in the current context are recorded (softgpu/record.h), NULL: no more. It is borrowed until      \
     * then. INVALID_VALUE: a number in it is out of its bounds. Counters of sectors are 0. */                         \
    EXT(dovetailRecord, (struct dovetail_recorder * recorder))                                                         \
    /* Later launches in the current context add to line[k] how often the first instruction of line k of their PTX     \
     * was executed, n lines; NULL: no more. Borrowed until then. */                                                   \
    EXT(dovetailCountLines, (struct dovetail_line * line, unsigned n))                                                 \
    EXT(dovetailLastStats, (struct dovetail_launch_stats * stats))                                                     \
    /* An address range of which nothing may be touched but what dovetailArenaAllow allows. */                         \
    EXT(dovetailArenaAlloc, (CUdeviceptr * base, size_t bytes))                                                        \
    EXT(dovetailArenaAllow, (CUdeviceptr p, size_t bytes))                                                             \
    /* 1: later launches only read what was allowed at p: one that writes there faults, and no races are looked for. */\
    EXT(dovetailArenaProtect, (CUdeviceptr p, int on))                                                                 \
    EXT(dovetailArenaFree, (CUdeviceptr base))                                                                         \
    /* A process that fork made may go on with what its parent has, on memory of its own: 0 before the fork, when what \
     * the two would only copy is released, 1 in the child. Without it the driver is not to be used there, as any. */  \
    EXT(dovetailFork, (int inside))                                                                                    \
    /* Modelled start and end of a node in the last launch of a graph, microseconds from that launch. */               \
    EXT(dovetailGraphNodeTime, (CUgraphExec exec, CUgraphNode node, double *start_us, double *end_us))                 \
    /* The work of the last launch that ran in the current context, outside graphs; and of a memset, or copy within    \
     * the device. */                                                                                                  \
    EXT(dovetailLastWork, (struct dovetail_work * work))                                                               \
    EXT(dovetailSetWork, (struct dovetail_work * work, size_t bytes, int copy))                                        \
    /* 1: all its blocks that ran executed equally many instructions. */                                               \
    EXT(dovetailWorkEven, (const struct dovetail_work *work, int *even))                                               \
    /* Bytes that the work prefetches, and bytes of what it reads that earlier ones prefetched: as they are, and other \
     * ones (of the latter at most what it reads). INVALID_VALUE: no work of this version. */                          \
    EXT(dovetailWorkFetched, (const struct dovetail_work *work, uint64_t *prefetched, uint64_t *fetched))              \
    EXT(dovetailWorkSetFetched, (struct dovetail_work * work, uint64_t prefetched, uint64_t fetched))                  \
    /* INVALID_VALUE: not a work of this version that may be kept in a file, or no launch of so many blocks and        \
     * threads can have it. Nothing of it is believed before. */                                                       \
    EXT(dovetailCheckWork, (const struct dovetail_work *work, unsigned blocks, unsigned threads))                      \
    /* Graphs launched in the current context, and timelines of works, touch at most so many bytes; 0: not known. */   \
    EXT(dovetailSetDistinct, (size_t bytes))                                                                           \
    /* Modelled start and end of n works launched as one graph on the current context's device: work i after works     \
     * after[at[i]] … after[at[i + 1] - 1], all of them earlier; early[k]: after[k] is a programmatic edge (early      \
     * NULL: none is); made[i]: a rewrite's code (NULL: none is). Nothing runs, and the context's clock stands.        \
     * `doubt`: the model is wrong in this way; 0: it is right. *same (may be NULL): it makes no difference to these   \
     * works, and the times are not set. */                                                                            \
    EXT(dovetailTimeline, (unsigned doubt, unsigned n, const struct dovetail_work *work, const unsigned *at,           \
                           const unsigned *after, const unsigned char *early, const unsigned char *made,               \
                           double *start_us, double *end_us, int *same))                                               \
    /* The end of the last one under each of the doubts 0 … ndoubt - 1; negative: that doubt makes no difference. */   \
    EXT(dovetailTimelines, (unsigned ndoubt, unsigned n, const struct dovetail_work *work, const unsigned *at,         \
                            const unsigned *after, const unsigned char *early, const unsigned char *made,              \
                            double *end_us))                                                                           \
    /* The timeline without doubts again, and where its blocks ran, *count spans: 0 where DOVETAIL_SPANS(n) are    \
     * not enough to say it. */                                                                                        \
    EXT(dovetailSpans, (unsigned n, const struct dovetail_work *work, const unsigned *at, const unsigned *after,       \
                        const unsigned char *early, struct dovetail_span *span, unsigned *count))                      \
    /* A way in which the model may be wrong (softgpu/model/doubts.def). moot: something is said to gain nothing.      \
     * NOT_FOUND: there are no more. */                                                                                \
    EXT(dovetailDoubt, (unsigned doubt, const char **name, int *moot))                                                 \
    /* What a work asks for: DOVETAIL_BURDENS numbers (sg_burden), and threads in flight. */                           \
    EXT(dovetailBurden, (const struct dovetail_work *work, double *burden, double *in_flight))                         \
    /* The least time in which n works can be done if they move so many bytes (sg_bound); negative: what they touch. */\
    EXT(dovetailBound, (unsigned n, const struct dovetail_work *work, double bytes, double *us))
/* clang-format on */

#define EXT(name, params) typedef CUresult(*name##_t) params;
DOVETAIL_EXTENSIONS(EXT)
#undef EXT

#endif
