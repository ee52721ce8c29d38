/* Normal form: the graph as it is planned, with storage taken apart, and put together again afterwards.
 *
 *   calls      before planning: device functions are written out where they are called
 *   versions   before planning: what is wholly overwritten before it is read again gets a buffer of its own
 *   copies     before planning: what was only copied is read where it came from
 *   layout     after planning: such buffers share storage again where no two are needed at the same time
 *
 * All give a new graph: of the same kernels with other pointers, or of the same launches with kernels whose calls are
 * written out. They read a program and its analysis and change neither; plan/normal.c makes states of what they give,
 * and the gate verifies them.
 */
#ifndef DT_REWRITE_NORMAL_H
#define DT_REWRITE_NORMAL_H

#include "ptx/reach.h"
#include "rewrite/facts/facts.h"

/* ---- calls (calls.c) --------------------------------------------------------------------------------------------- */

struct rw_called {         /* a launch whose kernel calls functions */
    uint32_t launch, same; /* same: the first one with its entry, as a place in the list; only that has the rest */
    struct dt_str ptx;     /* a module with the entry alone */
    bool zero;             /* the entry has one more parameter, the zero word of its joints */
    struct dt_str why;     /* not empty: it stays as it was */
};
struct rw_calls {
    struct dt_vec(struct rw_called) v; /* by launch */
};
/* Write out the calls of every launch of the program. Release with rw_calls_done, in every case. */
int rw_calls_find(const struct dev_prog *p, struct rw_calls *ret, struct dt_err *e);
bool rw_calls_out(const struct rw_calls *c, uint32_t k);                    /* is the k-th one written out? */
uint32_t rw_calls_number(const struct rw_calls *c);                         /* how many are */
json_t *rw_calls_graph(const struct dev_prog *p, const struct rw_calls *c); /* with these. NULL: memory */
/* Rows of legal.def, of an entry and what it may call (the entry first). False: `why`. */
bool rw_calls_callees(const struct ptx_reach *r, struct dt_str *why);
/* 1: it does not hold, `why` says so; 0; negative: error. launch: one that has the entry. */
int rw_calls_lanes_alone(const struct dev_prog *p, uint32_t launch, const struct ptx_reach *r, struct dt_str *why,
                         struct dt_err *e);
bool rw_calls_byte_views(const struct ptx_reach *r, struct dt_str *why);
/* Does floating-point arithmetic meet floating-point arithmetic across a call of the entry, or is that not known? Then
 * what ptxas makes of it depends on whether it sees the whole program, as for a module that is loaded, or assembles for
 * linking, as nvJitLink does (crossing.c). 1: `why` is a sentence; 0: no. */
int rw_calls_cross(const struct ptx_module *ir, const char *entry, struct dt_str *why, struct dt_err *e);
/* The row same_footprints: `next` is the analysis of rw_calls_graph's graph. */
bool rw_calls_same(const struct ana_result *now, const struct ana_result *next, const struct rw_calls *c,
                   struct dt_str *why);
void rw_calls_done(struct rw_calls *c);

/* ---- versions (versions.c) --------------------------------------------------------------------------------------- */

struct rw_storage { /* a version: bytes [lo, hi) of a buffer of the program, as a scratch buffer */
    uint32_t buffer;
    uint64_t lo, hi;
    char name[16];
};
struct rw_pointer { /* a pointer of a launch: (launch, which), in the order of rw_pointers_of */
    uint32_t launch, which, buffer;
    uint64_t offset;
    bool reads, writes; /* what the launch may do through it */
};
struct rw_pointers {
    struct dt_vec(struct rw_pointer) v; /* by launch */
};
/* Every pointer that the graph's launches are given: buffers, tensor maps, addresses in structs, ends of memsets and
 * copies. */
int rw_pointers_of(const struct dt_graph *g, struct rw_pointers *ret, struct dt_err *e);
/* The graph document of `p` with scratch buffers `add` and with each pointer k at byte offset[k] of buffer[k]: a number
 * of the program, or its nbuffer + a place in `add`. Scratch buffers that no launch has then are left out, modules are
 * PTX. NULL: memory. */
json_t *rw_pointers_graph(const struct dev_prog *p, const struct rw_pointers *at, const uint32_t *buffer,
                          const uint64_t *offset, const struct rw_storage *add, uint32_t nadd);

struct rw_versions {
    struct rw_pointers at;
    uint32_t *buffer; /* by pointer: as rw_pointers_graph wants it */
    uint64_t *offset;
    struct rw_storage *version;
    uint32_t n; /* 0: there is nothing to take apart */
};
/* The versions of the intermediates of a posted graph. Release with rw_versions_done, in every case. */
int rw_versions_find(const struct dev_prog *p, const struct ana_result *a, struct rw_versions *ret, struct dt_err *e);
/* The row of legal.def: does every block of `next`, the analysis of the graph with versions, touch the bytes that it
 * touched before, and was what is read written last by the launch that wrote it last before? False: `why` says where
 * it is not so. */
bool rw_versions_same(const struct ana_result *now, const struct ana_result *next, const struct rw_versions *v,
                      struct dt_str *why);
void rw_versions_done(struct rw_versions *v);

/* ---- copies (copies.c) ------------------------------------------------------------------------------------------- */

struct rw_copy { /* launch: byte b of buffer `to` is byte b + by of buffer `from` */
    uint32_t launch, to, from;
    int64_t by;
    bool known;
};
struct rw_copied {
    struct rw_copy copy;
    bool kept;         /* its readers are moved */
    struct dt_str why; /* not empty: they cannot be */
};
struct rw_copies {
    struct dt_vec(struct rw_copied) v;
    struct rw_pointers at;
    uint32_t *buffer; /* by pointer: as rw_pointers_graph wants it */
    uint64_t *offset;
    uint32_t n; /* copies whose readers are moved */
};
/* The launches of a program that only move bytes, and its pointers with their readers moved. Release with
 * rw_copies_done, in every case. */
int rw_copies_find(const struct dev_prog *p, const struct ana_result *r, struct rw_copies *ret, struct dt_err *e);
/* The row same_places: `next` is the analysis of the graph with these pointers. */
bool rw_copies_same(const struct ana_result *now, const struct ana_result *next, const struct rw_copies *c,
                    struct dt_str *why);
void rw_copies_done(struct rw_copies *c);

/* ---- layout (layout.c) ------------------------------------------------------------------------------------------- */

struct rw_laid {
    struct rw_pointers at;
    uint32_t *buffer;
    uint64_t *offset;
    struct rw_storage extra; /* what did not fit into the posted buffers; hi 0: all of it did */
    uint32_t n;              /* how many scratch buffers are gone; 0: nothing was done */
};
/* Storage for the scratch buffers of plan `p` that are versions: bytes of posted intermediates, by `posted`, that no
 * launch of the plan uses any more. Two of them share bytes only if all launches with one of them have ended, in the
 * order of streams, `after` and programmatic edges, before any with the other one begins. over: by launch, as bits of
 * nlaunch / 64 + 1 words: which have ended when it begins. Release with rw_laid_done, in every case. */
int rw_layout_find(const struct dev_prog *p, const struct ana_result *a, const struct rw_versions *v,
                   const uint64_t *over, struct rw_laid *ret, struct dt_err *e);
void rw_laid_done(struct rw_laid *l);

#endif
