/* What the buffers of a graph hold, and special values that verification puts into them.
 *
 * contents.c finds the type of each buffer's elements and what their values may decide. special.c has the special
 * values (zeros, subnormals, the largest numbers, infinities, NaNs, the ends of integer ranges), puts them into
 * buffers, and finds the buffers in which the original takes them.
 *
 * A struct rw_special belongs to the original's program and points to its graph. Runs of plans use it too: it finds a
 * plan's buffers by name.
 */
#ifndef DT_REWRITE_SPECIAL_H
#define DT_REWRITE_SPECIAL_H

#include "rewrite/gate/gate.h"

enum rw_kind { /* type of a buffer's elements. UNKNOWN: no type was found, or several */
               RW_KIND_UNKNOWN,
               RW_KIND_F64,
               RW_KIND_F32,
               RW_KIND_F16,
               RW_KIND_BF16,
               RW_KIND_E4M3,
               RW_KIND_E5M2,
               RW_KIND_I64,
               RW_KIND_I32,
               RW_KIND_I16,
               RW_KIND_I8,
               RW_KINDS
};
unsigned rw_kind_bytes(enum rw_kind k); /* UNKNOWN: 8 */
static inline bool rw_kind_is_float(enum rw_kind k) { return k >= RW_KIND_F64 && k <= RW_KIND_E5M2; }

struct rw_contents { /* of one buffer: the type of its elements, and what their values may decide */
    enum rw_kind kind;
    bool addresses; /* an address in any memory, or what counts as one: sizes, coordinates, lanes */
    bool trips;     /* a branch in a loop */
    bool branches;  /* any branch */
};
/* Fills ret[], one element per buffer of the program's graph. The flags are supersets: a buffer without a flag surely
 * decides no such thing. The kind is the best guess. */
int rw_contents(const struct dev_prog *p, struct rw_contents *ret, struct dt_err *e);

enum { /* sorts of special values */
       /* both zeros, subnormals, ones. Integers have no other sort. In buffers of unknown kind: values that are neither
        * NaN nor infinite */
       RW_SPECIAL_SMALL = 1,
       RW_SPECIAL_LARGE = 2,
       RW_SPECIAL_INFINITE = 4,
       RW_SPECIAL_NAN = 8,
       RW_SPECIAL_ALL = 15
};

struct rw_special {
    struct dt_arena arena;
    const struct dt_graph *graph;
    uint32_t *buffer, n;  /* buffers that may get special values, by first use */
    enum rw_kind *kind;   /* by buffer of the graph */
    bool *range;          /* by buffer: it keeps its fill, as its values may decide addresses or trip counts */
    uint8_t *sorts;       /* by buffer: the sorts that are put there */
    const char **dropped; /* by buffer: why sorts were dropped, static; NULL: none was */
    unsigned tries;       /* runs of the original that the search may still take */
};
/* inner: also the buffers that launches write for each other, for launches that run alone (regions.c). */
int rw_special_new(const struct dev_prog *original, bool soft, bool inner, struct rw_special **ret, struct dt_err *e);
struct rw_special *rw_special_free(struct rw_special *s);
/* Call after dev_run_fill with the same seed_add. Puts special values of the given sorts, as far as s->sorts has them
 * for the buffer, into the buffers of `g`: the original's graph, or a plan's. */
int rw_special_upload(const struct rw_special *s, struct dev_run *run, const struct dt_graph *g, uint64_t seed_add,
                      unsigned sorts, struct dt_err *e);

/* The same into the bytes at p, which hold what is in the buffer of s->graph. */
void rw_special_put(const struct rw_special *s, uint32_t buffer, uint8_t *p, uint64_t seed, unsigned sorts);

/* Bound the search by the instructions of one run of the original. */
void rw_special_work(struct rw_special *s, uint64_t instructions);
/* Runs the original once with what s->sorts says now. Returns 0, a fault of its kernels (the device is usable again),
 * or another error. *ret_flooded: nearly all elements of one output are NaN or infinite. */
typedef int (*rw_special_run)(void *user, bool *ret_flooded, struct dt_err *e);
/* Drop from s->sorts what the original does not take. Returns 0 if its last run had no fault. */
int rw_special_search(struct rw_special *s, unsigned sorts, rw_special_run run, void *user, struct dt_err *e);
/* Are nearly all elements at p, the contents of the buffer, NaN or infinite? */
bool rw_special_flooded(const struct rw_special *s, uint32_t buffer, const uint8_t *p);
/* The plan's verified.special. New reference, NULL: memory. */
json_t *rw_special_json(const struct rw_special *s);

#endif
