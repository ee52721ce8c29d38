/* Decoded kernels: what decode/ makes and exec/ runs; the modules and kernels that they come from.
 *
 * Registers. A register of up to 32 bits is a row of 32 lanes of uint32_t (128 bytes), a 64-bit one 32 lanes of
 * uint64_t, a 128-bit one two such rows (low, high), a predicate one uint32_t with a bit per lane. 8- and 16-bit values
 * are kept zero-extended. An operand is a `ref`: a byte offset with the number of its base in the low two bits: 0 the
 * warp's registers, 1 the launch's constants (immediates, parameters, broadcast to 32 lanes), 2 the block's constants
 * (%ctaid). A destination row never overlaps a source row, except as the same register.
 *
 * Code. A decoded kernel is one array of struct sg_op, device functions inlined. `fn` does the operation for all lanes
 * of `w->mask` and returns the next operation, or NULL when the warp has to stop (w->stop says why). Each basic block
 * starts with a BB operation, which counts, looks for other diverged threads of the warp, and gives way when the warp's
 * fuel is spent: branch targets, and places where diverged threads meet, are always BB operations.
 */
#ifndef DT_SOFTGPU_CODE_H
#define DT_SOFTGPU_CODE_H

#include <pthread.h>

#include "base/vec.h"
#include "softgpu/sg.h"

#define SG_LANES 32
#define SG_ALL 0xFFFFFFFFu

/* Windows of the generic address space. No user-space address of the host has bits above 56. */
#define SG_WINDOW_SHIFT 56
#define SG_WINDOW_SHARED (1ull << SG_WINDOW_SHIFT)
#define SG_WINDOW_LOCAL (2ull << SG_WINDOW_SHIFT)
#define SG_WINDOW_PARAM (3ull << SG_WINDOW_SHIFT)
/* Inside the shared window, bits 24 and up are 0 for the block's own memory, or 1 + the rank of a block of the cluster
 * (exec/cluster.c). */
#define SG_RANK_SHIFT 24
#define SG_MAX_CLUSTER 16
#define SG_MAX_LOCAL (512u << 10) /* bytes per thread, as CUDA */
#define SG_IN_FRAME (1u << 31)    /* of a place in local memory: from the thread's frame on */
#define SG_MAX_OPS (1u << 20)     /* of a decoded kernel */
#define SG_BARRIERS 16
#define SG_GROUPS 8 /* warpgroups in a block; their meeting places are barriers SG_BARRIERS … */

struct sg_warp;
struct sg_op;
/* Does an operation for the lanes w->mask, and returns the next one; NULL: the warp stops, w->stop says why. */
typedef const struct sg_op *sg_handler(struct sg_warp *w, const struct sg_op *op);
typedef sg_handler *sg_fn;

enum sg_op_flags {
    SG_GUARD_NOT = 1,  /* the guard predicate is negated */
    SG_A64 = 2,        /* the address operand has 64-bit lanes */
    SG_SIGNED = 4,     /* sign-extend what is loaded */
    SG_D64 = 8,        /* the destination has 64-bit lanes */
    SG_C_NOT = 16,     /* predicate operand c is negated */
    SG_NO_RESULT = 32, /* red: no destination */
    SG_HAS_Q = 64,     /* second destination */
    SG_IS_BB = 128,    /* begins a basic block: of these operations `fn` may be replaced by compiled code (jit/) */
};

#define SG_NONE UINT32_MAX /* no such operand */

struct sg_op {
    sg_fn fn;
    sg_fn inner;         /* behind the guard, when fn is sg_guarded */
    uint32_t d, a, b, c; /* refs */
    uint32_t guard;      /* ref of the guard predicate */
    uint32_t x;          /* more: second destination, number of a basic block, index into code->ext, memory site */
    int64_t imm;         /* address offset, branch target, sub-operation */
    uint32_t src;        /* index into code->src */
    uint32_t site;       /* memory operations: index into the worker's range cache */
    uint8_t size, n;     /* memory: bytes of an element, elements */
    uint8_t space, flags;
    uint8_t sub, type; /* sub-operation, enum ptx_type */
    uint16_t rnd;      /* SG_RN… | SG_FTZ | SG_SAT */
};

/* Execute the operation; the next one, NULL: the warp stops. Another thread may put compiled code in its place. */
static inline const struct sg_op *sg_step(struct sg_warp *w, const struct sg_op *op)
{
    return __atomic_load_n(&op->fn, __ATOMIC_RELAXED)(w, op);
}

enum sg_rnd {
    SG_RN,
    SG_RZ,
    SG_RM,
    SG_RP,
    SG_RNA,
    SG_RND_MASK = 7,
    SG_FTZ = 8,
    SG_SAT = 16,
    SG_RELU = 32,
    SG_INTEGRAL = 64,
    SG_SATFINITE = 128,
    SG_NANP = 256,
    SG_XORSIGN = 512,
    SG_ABS = 1024
};

/* What one instruction of a basic block adds to the counters, per active lane. */
enum sg_count {
    SG_C_FP32,
    SG_C_FP64,
    SG_C_INT,
    SG_C_SFU,
    SG_C_MEMORY,
    SG_C_BARRIER,
    SG_C_TENSOR,
    SG_C_SHARED,
    SG_C_CLUSTER,
    SG_C_CLUSTER_BYTES,
    SG_C_CLUSTER_SYNC,
    SG_C_COUNT
};

struct sg_bb {
    uint32_t instructions; /* of PTX */
    uint32_t ops;          /* decoded: fuel */
    uint32_t count[SG_C_COUNT];
};

/* A matrix spread over the registers of a warp, and an instruction on matrices; see exec/matrix.c. */
enum sg_mat_role { SG_MAT_A, SG_MAT_B, SG_MAT_C };
struct sg_fragment {
    enum sg_mat_role role;
    enum ptx_type type;
    unsigned rows, cols, regs, per; /* per: elements in a register */
    const uint16_t *at;             /* where each element lies, for loads and stores: sg_fragment_table() */
};
enum sg_mat_bits { SG_MAT_MUL, SG_MAT_XOR, SG_MAT_AND }; /* of b1 */
struct sg_tiles {                                        /* a product as exec/matrix.inc does it */
    enum ptx_type a, b;
    /* tiles of 8 rows of A, of 8 columns of B; registers along K; elements in a register (b1: one word) */
    unsigned high, wide, steps, per;
    enum sg_mat_bits bits;
    bool negate_a, negate_b;
};
struct sg_mma {
    struct sg_fragment a, b, c, d;
    struct sg_tiles tiles;
    unsigned at_a, at_b, at_c; /* where their refs begin, behind those of d */
    bool sparse, ordered;      /* A has half its elements; behind C a row of metadata */
    unsigned selector;         /* which lanes of four have the metadata */
    unsigned copies;           /* wmma.load: registers from here on are copies */
    unsigned rnd;              /* f64: SG_RN … SG_RP */
    bool saturate, by_column;
    bool quads, col_a, col_b; /* m8n8k4 of f16; the layouts of A and B there. wgmma: M- and N-major */
};
#define SG_MMA_REGS 64 /* of all operands, at most */
#define SG_WGMMA_REGS 136
#define SG_TILE_A 2048 /* elements of A in a product, at most */
#define SG_TILE_B 8192
struct sg_src {
    const struct ptx_function *f;
    uint32_t inst;
    uint32_t bb; /* the basic block that counts it; SG_NONE: none, it is only where a call comes back to */
};

struct sg_shared_name { /* a shared variable, for reports */
    const char *name;
    uint64_t offset, bytes;
    bool dynamic;
};

struct sg_param_copy { /* a kernel parameter (or a piece of one) as a launch constant */
    uint32_t from, bytes, to;
    bool sign, wide, narrow; /* wide: 64-bit lanes; narrow: a 16-bit register */
};

struct sg_code {
    struct dt_arena arena;
    struct sg_op *op;
    struct sg_src *src;
    uint32_t *ext; /* extra refs and branch tables */
    struct sg_bb *bb;
    struct sg_mma *mma;
    uint8_t *konst; /* image of the launch constants */
    struct sg_param_copy *param;
    struct sg_clear {
        uint32_t at, bytes;
    } * clear; /* registers that may be read before they are written: 0 */
    struct sg_shared_name *shared;
    uint32_t nshared;
    uint32_t nop, nsrc, next, nbb, nkonst, nparam, nsite, nclear;
    uint32_t konst_bytes, reg_bytes;
    uint32_t local_bytes, shared_static, shared_dynamic_at, param_total;
    uint32_t fp;     /* row: where a thread's frame lies in its local memory; 0: no function needs one */
    bool heap;       /* uses malloc or free */
    bool prefetches; /* into the L2 */
    bool ordered;    /* blocks may talk to each other (atomics, fences, volatile): run them in order, on one thread */
    bool talks, acquires, releases; /* global acquires and releases wider than the block: both of them */
    uint64_t ran_us;                /* atomic: microseconds that launches of it took */
    struct sg_jit *jit;             /* jit/tier.c; NULL: nobody looks for what is hot */
    struct sg_template *tmpl;       /* jit/template.c; NULL: nobody has run it yet */
    struct sg_costs *costs;         /* exec/costs.h; NULL in code for the checking modes */
    int error;                      /* decoding failed: DT_E_* and why */
    uint32_t error_line;
    char error_text[256];
};

/* Refs with a fixed place. */
enum { SG_REG_TIDX = 0, SG_REG_TIDY = 128, SG_REG_TIDZ = 256, SG_REG_WARPID = 384, SG_REG_FIXED = 512 };
enum {
    SG_BLOCK_CTAIDX = 0,
    SG_BLOCK_CTAIDY = 128,
    SG_BLOCK_CTAIDZ = 256,
    SG_BLOCK_SMID = 384,
    SG_BLOCK_CLUSTERID = 512,
    SG_BLOCK_CLUSTER_CTAID = 896,
    SG_BLOCK_CLUSTER_RANK = 1280,
    SG_BLOCK_BYTES = 1408
};
/* Launch constants filled in by sg_execute. */
enum {
    SG_K_FALSE = 0,
    SG_K_TRUE = 4,
    SG_K_EXPLICIT_CLUSTER = 8,
    SG_K_LANEID = 128,
    SG_K_LANEMASK = 256 /* eq le lt ge gt */,
    SG_K_NTID = 896,
    SG_K_NCTAID = 1280,
    SG_K_NWARPID = 1664,
    SG_K_NSMID = 1792,
    SG_K_DYNSMEM = 1920,
    SG_K_TOTSMEM = 2048,
    SG_K_ZERO64 = 2176,
    SG_K_NCLUSTERID = 2432,
    SG_K_CLUSTER_NCTAID = 2816,
    SG_K_CLUSTER_SIZE = 3200,
    SG_K_FIXED = 3328
};

struct sg_kernel {
    struct sg_module *module;
    struct ptx_function *f;
    struct sg_kernel_info info;
    struct sg_code *code, *checked; /* NULL until first use; `checked`: for the checking modes (check/check.h) */
};

struct sg_module {
    struct sg_device *device;
    struct ptx_module *ptx;
    uint64_t *var_addr; /* per module variable, 0: shared, or not allocated */
    struct sg_kernel *kernel;
    unsigned nkernel;
    uint64_t workspace;   /* grid barrier of cooperative groups, 0: no kernel asked for it */
    pthread_mutex_t lock; /* decoding */
};

#endif
