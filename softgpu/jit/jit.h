/* Compiled kernels: machine code for decoded code that runs long, by LLVM (llvm.h), beside the interpreter.
 *
 * What is compiled is a region: a basic block and those that follow it, up to where a warp may have to wait (barriers),
 * end, or part. A compiled region is a handler of the BB operation where it begins: it does what the interpreter would
 * do from there on, counters included, and returns the operation where the interpreter goes on, with all registers in
 * their rows. So both can take turns at every basic block, and everything that looks at a warp between two operations
 * sees the same.
 *
 * Tiers. A launch that has lasted a while marks its code (sg_jit_watch): from then on BB operations count how often the
 * interpreter comes to them. What is hot is written down as text at once, and compiled on a thread of its own; the
 * interpreter goes on meanwhile. Texts are the key of what is compiled: the same kernel loaded again has its machine
 * code at once.
 *
 * Below it is the template tier (template.c), which compiles basic blocks at once after a few visits.
 *
 * DOVETAIL_SOFTGPU_JIT: `templates`, the default, for the template tier, 1 for LLVM above it, `always` everything by
 * LLVM at its first use, and waits for it, `templates-always` every block at its first visit (tests),
 * `templates-masked` the same, and by masked code whole warps as well (tests), 0: all is interpreted.
 */
#ifndef DT_SOFTGPU_JIT_H
#define DT_SOFTGPU_JIT_H

#include "softgpu/state/state.h"

enum sg_jit_mode {
    SG_JIT_OFF,
    SG_JIT_TEMPLATES,
    SG_JIT_TEMPLATES_ALWAYS,
    SG_JIT_TEMPLATES_MASKED,
    SG_JIT_ON,
    SG_JIT_ALWAYS
};
enum sg_jit_mode sg_jit_mode(void);
/* From now on look for what is hot in this code. Any thread, while others run it; again: nothing happens. */
void sg_jit_watch(struct sg_code *code);
void sg_jit_forget(struct sg_code *code);     /* nobody runs it any more */
void sg_template_watch(struct sg_code *code); /* the same for the template tier (template.c) */
struct sg_template_sums {
    uint64_t units, blocks, ops, bytes;
    double seconds;
};
void sg_template_sums(struct sg_template_sums *ret); /* compiled so far in this process */
/* For tests and benchmarks: regions compiled so far in this process, seconds that took, regions that LLVM refused. */
struct sg_jit_figures {
    uint64_t compiled, refused, reused;
    double seconds;
};
void sg_jit_figures(struct sg_jit_figures *ret);

#endif
