/* The template tier: which basic blocks are warm, and machine code for them, made at once by the thread that runs them.
 *
 *     sg_template_watch    BB operations of a code get sg_template_visit, which counts the interpreter's visits
 *     sg_template_visit    warm: a unit is compiled from this block on, with the warm ones behind it (template-unit.c)
 *     … again              compiled: the BB operation gets the block's code itself
 *
 * An operation costs about as much to compile as to interpret some hundred times, so that what compiling costs is bound
 * by what interpreting has cost: WARM visits. A thread that finds another one compiling goes on interpreting. Machine
 * code belongs to the decoded code and goes with it; MOST_CODE bytes a code, MOST_ALL in the process.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "softgpu/jit/object.h"
#include "softgpu/jit/template-priv.h"

enum { WARM = 64, MOST_CODE = 8 << 20, MOST_ALL = 256 << 20 };

static size_t all; /* atomic: bytes of machine code */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sg_template_sums sums;

void sg_template_sums(struct sg_template_sums *ret)
{
    pthread_mutex_lock(&lock);
    *ret = sums;
    pthread_mutex_unlock(&lock);
}

static double template_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* With t->lock held. */
static void make(const struct sg_code *c, struct sg_template *t, uint32_t op, uint32_t warm, bool masked)
{
    struct sg_template_figures f = {0};
    double begin = template_seconds();
    if (t->denied || t->bytes > MOST_CODE || __atomic_load_n(&all, __ATOMIC_RELAXED) > MOST_ALL ||
        !sg_template_unit(c, t, op, warm, masked, &f))
        __atomic_store_n(&t->bb[masked * t->nbb + c->op[op].x].refused, true, __ATOMIC_RELAXED);
    __atomic_fetch_add(&all, f.bytes, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    sums.units += f.bytes != 0;
    sums.blocks += f.blocks;
    sums.ops += f.ops;
    sums.bytes += f.bytes;
    sums.seconds += template_seconds() - begin;
    pthread_mutex_unlock(&lock);
}

/* The block's code; NULL: there is none yet, and its visits do not pay for it. */
static sg_fn code_of(const struct sg_code *c, const struct sg_op *op, bool masked)
{
    struct sg_template *t = c->tmpl;
    struct sg_template_bb *b = &t->bb[masked * t->nbb + op->x];
    sg_fn fn = __atomic_load_n(&b->fn, __ATOMIC_ACQUIRE);
    if (fn)
        return fn;
    bool always = sg_jit_mode() == SG_JIT_TEMPLATES_ALWAYS || sg_jit_mode() == SG_JIT_TEMPLATES_MASKED;
    uint32_t visits = __atomic_load_n(&b->visits, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&b->visits, visits, __ATOMIC_RELAXED);
    if ((visits < WARM && !always) || __atomic_load_n(&b->refused, __ATOMIC_RELAXED) || pthread_mutex_trylock(&t->lock))
        return NULL;
    if (!b->fn && !b->refused)
        make(c, t, (uint32_t)(op - c->op), always ? 0 : WARM / 2, masked);
    pthread_mutex_unlock(&t->lock);
    return __atomic_load_n(&b->fn, __ATOMIC_ACQUIRE);
}

const struct sg_op *sg_template_part(struct sg_warp *w, const struct sg_op *op)
{
    sg_fn fn = w->blk->follow ? NULL : code_of(w->code, op, true);
    return (fn ? fn : sg_isa()[SG_H_BB])(w, op);
}

void *sg_template_switch(struct sg_warp *w, const struct sg_op *op, const struct sg_op **ret)
{
    const struct sg_template *t = w->code->tmpl;
    op = sg_switch(w, op);
    *ret = op;
    if (!op || !(op->flags & SG_IS_BB))
        return NULL;
    void *behind = __atomic_load_n(&t->bb[t->nbb + op->x].behind, __ATOMIC_ACQUIRE);
    if (behind)
        return behind;
    if (w->fuel <= 0) { /* what is left of the interpreter's BB (exec/lanes.inc) */
        *ret = sg_out_of_fuel(w, op);
        return NULL;
    }
    const struct sg_bb *b = &w->code->bb[op->x];
    struct sg_times *times = &w->wk->bb[op->x];
    uint32_t lanes = (uint32_t)__builtin_popcount(w->mask);
    times->lanes += lanes;
    times->warps++;
    w->wk->executed += (uint64_t)lanes * b->instructions;
    w->issued += b->instructions;
    w->fuel -= b->ops;
    *ret = op + 1;
    return NULL;
}

const struct sg_op *sg_template_visit(struct sg_warp *w, const struct sg_op *op)
{
    if (w->mask != SG_ALL || sg_jit_mode() == SG_JIT_TEMPLATES_MASKED)
        return sg_template_part(w, op);
    sg_fn fn = w->blk->follow ? NULL : code_of(w->code, op, false);
    if (!fn)
        return sg_isa()[SG_H_BB](w, op);
    /* unless LLVM's tier has come in between */
    sg_fn mine = sg_template_visit;
    __atomic_compare_exchange_n((sg_fn *)(uintptr_t)&w->code->op[op - w->code->op].fn, &mine, fn, false,
                                __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    return fn(w, op);
}

void sg_template_watch(struct sg_code *c)
{
#if !defined __x86_64__ || defined __clang__ /* without sg_track_quick as it has to be */
    return;
#endif
    static pthread_mutex_t watching = PTHREAD_MUTEX_INITIALIZER;
    if (__atomic_load_n(&c->tmpl, __ATOMIC_ACQUIRE))
        return;
    pthread_mutex_lock(&watching);
    struct sg_template *t = c->tmpl ? NULL : dt_calloc(1, sizeof *t + 2 * (size_t)c->nbb * sizeof *t->bb);
    if (t) {
        t->nbb = c->nbb;
        t->bias = sg_template_bias(c);
        pthread_mutex_init(&t->lock, NULL);
        __atomic_store_n(&c->tmpl, t, __ATOMIC_RELEASE);
        for (uint32_t i = 0; i < c->nop; i++) {
            sg_fn bb = sg_isa()[SG_H_BB]; /* not LLVM's */
            if (c->op[i].flags & SG_IS_BB)
                __atomic_compare_exchange_n(&c->op[i].fn, &bb, sg_template_visit, false, __ATOMIC_RELEASE,
                                            __ATOMIC_RELAXED);
        }
    }
    pthread_mutex_unlock(&watching);
}

void sg_template_forget_code(struct sg_code *c)
{
    struct sg_template *t = c->tmpl;
    if (!t)
        return;
    for (size_t i = 0; i < t->object.n; i++)
        sg_object_free(t->object.p[i]);
    __atomic_fetch_sub(&all, t->bytes, __ATOMIC_RELAXED);
    free(t->object.p);
    pthread_mutex_destroy(&t->lock);
    free(t);
    c->tmpl = NULL;
}
