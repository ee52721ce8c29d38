/* What a kernel does in one block, as far as that block's number decides it (uniform.c). */
#ifndef DT_REWRITE_UNIFORM_H
#define DT_REWRITE_UNIFORM_H

#include "rewrite/facts/facts.h"

enum rw_done {                 /* bits by instruction; none: no thread of the block comes to it */
               RW_DONE = 1,    /* a thread may do it: its guard may hold */
               RW_SKIPPED = 2, /* a thread may come to it and not do it */
               RW_FIRST = 4,   /* selp: it may take its first source */
               RW_SECOND = 8,  /* selp: it may take its second one */
};
struct rw_uniform; /* of one entry and launch; in an arena */
/* f: the launch's entry, or a copy of it. Both are borrowed. */
int rw_uniform_new(struct dt_arena *a, const struct ptx_function *f, const struct dev_step *step,
                   struct rw_uniform **ret, struct dt_err *e);
void rw_uniform_done(struct rw_uniform *u);
/* About how many steps a block takes. */
uint64_t rw_uniform_steps(const struct rw_uniform *u);
/* What the block with this number (NULL: any block) does: done[] of every instruction, borrowed until the next call.
 * NULL: memory is out. */
const uint8_t *rw_uniform_block(struct rw_uniform *u, const uint32_t *ctaid);

#endif
