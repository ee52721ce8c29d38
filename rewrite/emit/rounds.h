/* Rounds of a kernel's outer loops, divided among several blocks (kinds/slice.c): which loops, what a round that is
 * left out does all the same (rounds.c), and whether rounds pass anything on in shared memory (rounds-shared.c). */
#ifndef DT_REWRITE_ROUNDS_H
#define DT_REWRITE_ROUNDS_H

#include "ptx/flow.h"
#include "rewrite/emit/part.h"
#include "rewrite/emit/solo.h"

enum { RW_ROUND_LOOPS = 8 };
struct rw_rounds {
    struct ptx_cfg cfg;
    struct {
        uint32_t head, latch; /* blocks: where each round begins, and the only one that leads back there */
    } loop[RW_ROUND_LOOPS];
    uint32_t nloop;
    uint8_t *in; /* by block: number of the loop, + 1 */
    bool *chain; /* by block: each round comes there once */
    bool *keep;  /* by instruction: rounds that are left out make it, too */
    /* why not; what: NULL: they are apart, as far as registers go */
    const char *what;
    uint32_t line;
};

/* Could there be such loops? Cheap. */
bool rw_rounds_plausible(const struct ptx_function *f);
/* The outermost loops with the kernel's stores in them. ret: rw_rounds_done, whatever is returned. */
int rw_rounds_of(struct dt_arena *a, const struct ptx_function *f, struct rw_rounds *ret, struct dt_err *e);
void rw_rounds_done(struct rw_rounds *r);
/* Does each round find in shared memory what it has written itself, whatever rounds its block makes? */
bool rw_rounds_shared(const struct rw_body *b, const struct rw_rounds *r, const struct rw_reach *reach,
                      struct dt_str *why);
/* s has a fresh copy: of each `parts` blocks along x, the p-th makes every round of which the number leaves p. */
int rw_rounds_text(struct rw_solo *s, unsigned parts, struct dt_err *e);

#endif
