/* What the graph's buffers hold, as its kernels take them (contents.c), and values that break things, put among it
 * (special.c).
 *
 * A struct rw_special belongs to the original's program, which it borrows, and is read for plans of it too: buffers are
 * found by name.
 */
#ifndef DT_REWRITE_SPECIAL_H
#define DT_REWRITE_SPECIAL_H

#include "rewrite/gate/gate.h"

enum rw_kind { /* of a buffer's elements. UNKNOWN: none, or several */
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

struct rw_contents { /* of one buffer: what its elements are, and what they may decide */
    enum rw_kind kind;
    bool addresses; /* an address in any memory, or what counts as one: sizes, coordinates, lanes */
    bool trips;     /* a branch in a loop */
    bool branches;  /* any branch */
};
/* ret: one a buffer of the program's graph. Supersets but for the kind, which is the best guess. */
int rw_contents(const struct dev_prog *p, struct rw_contents *ret, struct dt_err *e);

enum { /* sorts of special values */
       /* both zeros, subnormals, ones; of integers all there is, and of buffers whose kind is not known what is no NaN
        * and not infinite */
       RW_SPECIAL_SMALL = 1,
       RW_SPECIAL_LARGE = 2,
       RW_SPECIAL_INFINITE = 4,
       RW_SPECIAL_NAN = 8,
       RW_SPECIAL_ALL = 15
};

struct rw_special {
    struct dt_arena arena;
    const struct dt_graph *graph;
    uint32_t *buffer, n;  /* those that may have some, by first use */
    enum rw_kind *kind;   /* by buffer of the graph */
    bool *range;          /* by buffer: integers that reach addresses or trip counts keep to what the document says */
    uint8_t *sorts;       /* by buffer: what is put there */
    const char **dropped; /* by buffer: why some sorts are not, static; NULL: all are */
    unsigned tries;       /* runs of the original that the search may still take */
};
int rw_special_new(const struct dev_prog *original, bool soft, struct rw_special **ret, struct dt_err *e);
struct rw_special *rw_special_free(struct rw_special *s);
/* After dev_run_fill with seed_add: put the values of these sorts (of those that the buffer takes) into the buffers of
 * `g`, the original's or a plan's. */
int rw_special_upload(const struct rw_special *s, struct dev_run *run, const struct dt_graph *g, uint64_t seed_add,
                      unsigned sorts, struct dt_err *e);

/* What one run of the original takes: it bounds the search. */
void rw_special_work(struct rw_special *s, uint64_t instructions);
/* One run of the original with what s->sorts says now: 0, a fault of its kernels (the device is usable again), or
 * another error. *ret_flooded: one of its outputs is next to nothing but NaNs and infinities. */
typedef int (*rw_special_run)(void *user, bool *ret_flooded, struct dt_err *e);
/* Drop from s->sorts what the original does not take. 0: its last run was without a fault. */
int rw_special_search(struct rw_special *s, unsigned sorts, rw_special_run run, void *user, struct dt_err *e);
/* Are most elements of the buffer's bytes NaN or infinite? */
bool rw_special_flooded(const struct rw_special *s, uint32_t buffer, const uint8_t *p);
/* The plan's verified.special. New reference, NULL: memory. */
json_t *rw_special_json(const struct rw_special *s);

#endif
