/* Which thread block needs what from which other block: block maps, their classes, their evidence.
 * docs/CONTRACT.md §3 has the rules.
 *
 * Footprints are the ground truth: for each launch, block and buffer the bytes read, the bytes surely written, and the
 * bytes perhaps written, as sorted disjoint intervals. They come from summaries (summary/), or from running
 * instrumented PTX through the driver API (instrument/, record/). From them maps/ computes pairs of blocks with the
 * rule of docs/CONTRACT.md §3, and their classes. taint/ says what may be called proved. report/ writes documents.
 */
#ifndef DT_ANALYSIS_ANALYSIS_H
#define DT_ANALYSIS_ANALYSIS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "device/device.h"
#include "graph/graph.h"

enum ana_evidence { ANA_PROVED, ANA_OBSERVED, ANA_DATA_DEPENDENT, ANA_EVIDENCES }; /* ordered: worse is larger */
const char *ana_evidence_text(enum ana_evidence e);

struct ana_interval { /* bytes [lo, hi) of a buffer */
    uint64_t lo, hi;
};
struct ana_set { /* sorted, disjoint, not touching */
    struct ana_interval *iv;
    uint32_t n;
};

/* What one block of one launch does to one buffer. */
struct ana_touch {
    uint32_t buffer;
    struct ana_set read, must_write, may_write; /* may_write: perhaps written; disjoint from must_write not required */
};
/* Equal sets of a launch share their intervals: the same `iv` pointer means the same set. */
struct ana_block {
    struct ana_touch *touch; /* by buffer, ascending */
    uint32_t ntouch;
};

/* Per buffer and launch, over all its accesses. */
struct ana_access {
    uint32_t buffer;
    enum ana_evidence read, write; /* meaningful where reads/writes */
    bool reads, writes, atomics, fp_atomics, widened /* a data-dependent address counted as every byte */;
    bool result_used; /* an atomic's result is used */
    /* alignment that the buffer must have: of its widest access, or as the kernel tests it; bytes */
    uint32_t max_width;
    /* Unions over all blocks: by the evidence of the access, the surely written bytes, the read bytes without widened
     * reads. */
    struct ana_set read_by[ANA_EVIDENCES], write_by[ANA_EVIDENCES], must, exact_read;
};

struct ana_launch {
    struct ana_block *block; /* nblock of dev_step */
    uint32_t nblock;
    struct ana_access *access;
    uint32_t naccess;
    bool summarised;          /* found without running it */
    uint64_t walked;          /* thread instructions that this took; 0: taken from a launch alike */
    const char *unsummarised; /* why not, in words; NULL: it is, or it was not tried */
    /* two blocks of this launch touch a byte, one of them writing (but for integer reductions with unused result) */
    bool self_conflict;
};

struct ana_rows { /* compressed sparse rows: pairs of (consumer, producer) */
    /* consumers + 1 offsets; NULL: no pair, or more than ANA_MAX_PAIRS of them (then npairs says how many) */
    uint32_t *row;
    uint32_t *col; /* producers, ascending in a row */
    uint32_t nrow;
    uint64_t npairs;
};
#define ANA_MAX_PAIRS (1u << 25) /* a relation with more pairs is counted and classified, but not kept */
static inline uint64_t ana_rows_pairs(const struct ana_rows *r) { return r->npairs; }
static inline bool ana_rows_kept(const struct ana_rows *r) { return r->row || !r->npairs; }

enum ana_class { ANA_ONE_TO_ONE = 1, ANA_MANY_TO_MANY = 2, ANA_FULL_INDEPENDENCE = 4, ANA_PARTIAL_INDEPENDENCE = 8 };
enum ana_fan { ANA_FAN_NONE, ANA_FAN_ONE_TO_ONE, ANA_FAN_ONE_TO_MANY, ANA_FAN_MANY_TO_ONE, ANA_FAN_MANY_TO_MANY };

struct ana_edge {
    uint32_t producer, consumer;        /* launches; producer < consumer */
    struct ana_rows raw, war, waw, any; /* any: the union */
    uint32_t *buffer;                   /* buffers that carry a hazard, ascending */
    uint32_t nbuffer;
    unsigned classes; /* bits of enum ana_class */
    enum ana_fan fan;
    enum ana_evidence evidence;
    uint64_t pairs;
    uint32_t components;
    uint32_t ppc_min, ppc_max, cpp_min, cpp_max; /* producers per consumer, consumers per producer, of `any` */
    uint32_t independent_blocks;
    struct {
        uint32_t buffer;
        uint64_t bytes;
    } * independent; /* independent_bytes by buffer */
    uint32_t nindependent;
};

struct ana_result {
    struct dt_arena arena;
    const struct dev_prog *prog; /* borrowed */
    struct ana_launch *launch;   /* graph->nlaunch */
    /* every ordered pair with at least one hazard, then (all_edges) the others; by consumer, producer */
    struct ana_edge *edge;
    uint32_t nedge;
};

/* Who records what a launch touches; the result is the same. */
enum ana_way {
    ANA_WAY_ANY,          /* DOVETAIL_RECORDER: "instrumented" or "native"; else native where the device can */
    ANA_WAY_INSTRUMENTED, /* PTX that is put into the kernel: runs on any device */
    ANA_WAY_NATIVE        /* the software device itself. DT_E_UNSUPPORTED on another */
};

/* Version of all footprints, a part of the keys of kept ones: raised whenever any launch may get another footprint than
 * before. */
#define ANA_FOOTPRINTS "6"

/* Where footprints of launches are kept between analyses (record/memo.c says what they depend on). Called in the thread
 * of ana_run. What `get` gives is checked: it may be damaged, or come from anybody. */
struct ana_memo {
    /* 1: found, *ret is free()d by the caller; else there is none */
    int (*get)(void *user, const char *key, void **ret, size_t *ret_len);
    void (*put)(void *user, const char *key, const void *p, size_t n);
    void *user;
    /* What `get` gave under the key was no such entry, or is impossible, and is not used. For a log; may be NULL. */
    void (*bad)(void *user, const char *key, const char *why);
    /* As get: what other machines measured. Asked for nothing else, where `get` has none; may be NULL. */
    int (*far)(void *user, const char *key, void **ret, size_t *ret_len);
};

struct ana_options {
    enum ana_way way;
    bool all_edges;
    bool no_summary;    /* no launch is summarised, slices run; the result is the same (for the tests that say so) */
    bool no_slice;      /* every launch runs whole; the result is the same */
    bool offline;       /* nothing runs on `d`, which another thread uses: DT_E_UNSUPPORTED where a launch has to */
    uint64_t max_bytes; /* of recorder memory, 0: 4 GiB */
    /* Launches that another result knows already: same[i] is the launch of base->prog whose footprint is that of launch
     * i, UINT32_MAX: none, it is recorded. Same entry, geometry and arguments, buffers numbered alike. What is not
     * recorded does not run, so only launches whose accesses are proved, or rest on constant buffers alone, may be left
     * to record. Neither: NULL. The result points into base. */
    const struct ana_result *base;
    const uint32_t *same;
    const struct ana_memo *memo; /* NULL: nothing is kept */
    unsigned threads;            /* that may work side by side, 0: one a core; the result is the same */
    dev_progress progress;       /* called by the caller's thread */
    void *user;
};

/* Analyse. Runs the graph's launches in program order, instrumented, on `d`. DT_E_WEIGHT when a launch writes a weight
 * or constant; DT_E_BOUNDS when an access leaves every buffer. */
int ana_run(struct dev_device *d, const struct dev_prog *p, const struct ana_options *o, struct ana_result **ret,
            struct dt_err *e);
struct ana_result *ana_free(struct ana_result *r);

/* NULL: no hazard */
const struct ana_edge *ana_find_edge(const struct ana_result *r, uint32_t producer, uint32_t consumer);

/* The analysis document (docs/CONTRACT.md §3); signature may be NULL. New reference. */
json_t *ana_to_json(const struct ana_result *r, const struct dev_info *dev, const char *signature, bool maps);
/* Warnings that follow from the footprints (report/warnings.c). They depend on nothing that a signature leaves out, so
 * that a cache may keep them. racy: NULL, or by launch: set where there is a race. */
void ana_warnings(const struct ana_result *r, struct dt_warnings *w, bool *racy);
/* One warning. buffer: UINT32_MAX where it is about none. i: the instruction of f that it is about, whose source line
 * is given where the text has it; or NULL. Returns NULL when memory is out. */
json_t *ana_warning(const struct dev_prog *p, uint32_t launch, const char *code, uint32_t buffer,
                    const struct ptx_function *f, const struct ptx_inst *i, const char *message);
/* Give every edge of an analysis document of `p` its "reasons" (report/explain.c): the instructions that gave it its
 * class and evidence. */
#define ANA_REASONS_MAX 64 /* of one edge */
int ana_explain(const struct dev_prog *p, json_t *analysis, struct dt_err *e);

/* report/outline.c: a graph to begin with, of a module's PTX text: `buffers`, and `launches` of all its entries, in
 * which sizes, geometry and numbers are examples, marked TODO. debug (or NULL): PTX of the same source with debug
 * information, where names and types come from; `ptx` itself may have some. DT_E_PTX, DT_E_GRAPH: it has no entry. */
int ana_outline(const char *ptx, size_t len, const char *debug, size_t debug_len, const char *module,
                json_t **ret_buffers, json_t **ret_launches, struct dt_err *e);
json_t *dev_info_to_json(const struct dev_info *i); /* the "device" member of analysis and plan documents */

/* ---- accesses thread by thread (record/trace.c) ------------------------------------------------------------------ */
/* What some threads do at one instruction, in each block of a box and each round of its loops. */
struct ana_trace {
    uint32_t inst;  /* index into entry->inst */
    uint32_t bytes; /* width */
    bool reads, writes, atomic;
    enum ana_evidence evidence; /* the worst of address and guard */
    uint32_t n;                 /* threads */
    const uint16_t *thread;     /* linear number in the block */
    const uint32_t *buffer;     /* of the graph, UINT32_MAX: none of its */
    const int64_t *base;        /* byte offset in it, of the box's first block and first round */
    const int64_t *step[3];     /* what it moves by with the box's next block in x, y, z; NULL: nothing */
    const int64_t *times;       /* how often a thread does it: rounds of loops */
    bool moves;                 /* with rounds of a loop */
    /* 0: in none, else 1 + the first instruction of the header of the loop that it is in, UINT32_MAX: in several */
    uint32_t loop;
    const int64_t *round; /* in one loop: rounds of it that the thread made before, NULL else */
    const int64_t *by;    /* in one loop: what a round moves it by; NULL: nothing, or once */
};
struct ana_trace_box { /* blocks lo + stride * k, k < ext, in x, y, z */
    uint32_t lo[3], ext[3], stride[3];
    const struct ana_trace *access;
    uint32_t n;
};
/* Not zero: an error, which ends the trace. What it is given lives until it returns. */
typedef int (*ana_trace_fn)(const struct ana_trace_box *box, void *user);
/* Every access that every thread of a kernel launch makes, exactly, box by box; boxes are disjoint and make up the
 * grid. 1: done; 0: the launch has no summary (summary/), *ret_why says why, and what `fn` was given counts for
 * nothing. Needs no device. Sites that data decides (ana_access.widened) are left out. */
int ana_trace_launch(const struct dev_prog *p, uint32_t launch, ana_trace_fn fn, void *user, const char **ret_why,
                     struct dt_err *e);

/* ---- interval sets (footprint/sets.c), for rewrites too. Results are in `a`; n = 0 is the empty set -------------- */
struct ana_set ana_set_union(struct dt_arena *a, struct ana_set x, struct ana_set y);
struct ana_set ana_set_minus(struct dt_arena *a, struct ana_set x, struct ana_set y);
bool ana_set_overlaps(struct ana_set x, struct ana_set y);
bool ana_set_contains(struct ana_set x, struct ana_set y); /* y is a subset of x */
uint64_t ana_set_bytes(struct ana_set x);

/* ---- taint of one entry (taint/taint.c) -------------------------------------------------------------------------- */
/* An access of several pieces (taint/span.c). */
enum ana_span {
    ANA_SPAN_NONE,
    ANA_SPAN_BULK,   /* as many bytes as an operand says */
    ANA_SPAN_TENSOR, /* a box of the tensor whose map is argument params[0] */
    ANA_SPAN_MATRIX  /* lines of a fragment */
};
struct ana_site {  /* one global access in the PTX */
    uint32_t inst; /* index into entry->inst */
    enum ana_evidence address, guard;
    int param; /* argument index its address comes from, -1: unknown or several */
    bool reads, writes, atomic, fp_atomic, result_used;
    bool elsewhere; /* it may go to shared or local memory too */
    uint32_t bytes; /* width; of MATRIX: of a piece. 0: a span's, else not followed (calls …), counts as any byte */
    enum ana_span span;
    uint32_t lines, line, element_bits; /* MATRIX: so many lines of so many bytes; what its stride counts */
    uint8_t opnd;                       /* the operand that is the address; 0xFF: a call */
    uint32_t *params, nparams;          /* all arguments that the address may come from, ascending */
    const struct ptx_var **vars;        /* module variables that it may point into */
    uint32_t nvars;
};
struct ana_sites {
    struct dt_arena arena;
    struct ana_site *site;
    uint32_t nsite;
    /* by parameter: what the buffers it points to must be aligned to for all of this to hold, 0: any */
    uint32_t *align, nalign;
    bool opaque; /* the entry has instructions nobody knows */
    bool side_effects;
    bool acts; /* beside what calls do */
};
/* constant_param[i]: argument i points to a buffer with constant content (NULL: none does). */
int ana_taint(const struct ptx_function *entry, const bool *constant_param, uint32_t nparam, struct ana_sites *ret,
              struct dt_err *e);
void ana_sites_done(struct ana_sites *s);

/* *ret: the launch executes the same instructions at the same addresses whatever memory holds (taint/steady.c). False
 * where that is not known. *ret_same (NULL: not asked): it touches the same bytes, meets at the same barriers and ends
 * at the same places; what only computes may differ. */
int ana_steady(const struct dev_prog *p, uint32_t launch, bool *ret, bool *ret_same, struct dt_err *e);

/* ret[argument]: what the memory that it points to holds decides which bytes the launch touches, or which way it goes
 * (taint/deciders.c). *ret_known false: nobody can say, and ret is all false. */
int ana_deciders(const struct dev_prog *p, uint32_t launch, bool *ret, bool *ret_known, struct dt_err *e);

#endif
