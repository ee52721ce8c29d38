/* The functions that run when a function runs: itself and every function that it may call. Whoever asks whether a
 * kernel has an instruction must ask all of them. */
#ifndef DT_PTX_REACH_H
#define DT_PTX_REACH_H

#include "ptx/ptx.h"

struct ptx_reach {
    const struct ptx_function **func; /* func[0]: the one asked for; each once, all with a body */
    uint32_t n;
    bool unknown; /* something is called through a pointer, or has no body here */
};

/* The function that a call names, the one with a body where there is one; NULL: it goes through a register. */
const struct ptx_function *ptx_callee(const struct ptx_inst *call);

int ptx_reach_build(const struct ptx_function *f, struct ptx_reach *ret); /* 0 or DT_E_NOMEM */
void ptx_reach_done(struct ptx_reach *r);

/* Is there an instruction for which fn holds, in f or what it calls? 1, 0 or DT_E_NOMEM. Calls are instructions, too;
 * `unknown` alone makes nothing hold. */
int ptx_reach_any(const struct ptx_function *f, bool (*fn)(const struct ptx_inst *, void *), void *user);

#endif
