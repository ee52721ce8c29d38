/* What is compiled, and when: counting, texts, the thread that compiles, and machine code kept by text. See jit.h.
 *
 *     sg_jit_watch      BB operations of a code get sg_jit_bb, which counts
 *     sg_jit_bb         hot: the region's text is made here, on the thread that runs the launch
 *     sg_unit           one text: waiting, compiled or refused; shared by all codes that have it
 *     compiler()        its own thread: takes units one by one
 *     sg_jit_bb again   compiled: the BB operation gets the region's function itself
 *
 * The compiling thread sees texts and units, no code, so that a module may go away at any time. Units that no code uses
 * stay, the longest unused go first, up to KEPT of them. A BB operation's handler is replaced by one atomic store while
 * other threads run the code: they run one or the other, and both do the same.
 *
 * Hostile code: a region has a bounded number of operations (region.c), a code at most MOST_REGIONS regions, the
 * process at most KEPT units that nobody uses; what LLVM refuses is interpreted for good.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "softgpu/jit/jit-priv.h"
#include "softgpu/jit/llvm.h"
#include "softgpu/jit/object.h"

enum { HOT = 24, MOST_REGIONS = 400, KEPT = 500, WAITING = 256 };
enum unit_state { UNIT_WAITING, UNIT_READY, UNIT_REFUSED };

struct unit {
    char key[DT_SHA256_TEXT];
    struct dt_str text; /* until it is compiled */
    int state;          /* atomic: enum unit_state */
    sg_fn fn;
    struct sg_object *code;
    unsigned users; /* codes; and the queue */
    uint64_t used;  /* when it lost its last user */
    struct unit *next, *queue;
};

struct entry { /* of a basic block */
    struct unit *unit[2];
    sg_fn fn[2]; /* atomic */
    uint32_t heat[2];
};

struct sg_jit {
    pthread_mutex_t lock; /* making texts */
    uint32_t regions;
    struct entry bb[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* units and queue */
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct unit *units, *first, *last;
static unsigned nunits, nwaiting;
static uint64_t now;
static bool started;
static struct sg_jit_figures figures;

static int mode = -1; /* atomic: enum sg_jit_mode; -1: not asked yet */

enum sg_jit_mode sg_jit_mode(void)
{
    int m = __atomic_load_n(&mode, __ATOMIC_RELAXED);
    if (m >= 0)
        return (enum sg_jit_mode)m;
    const char *s = getenv("DOVETAIL_SOFTGPU_JIT");
    m = SG_JIT_TEMPLATES;
    static const struct {
        const char *name;
        enum sg_jit_mode mode;
    } modes[] = {{"0", SG_JIT_OFF},
                 {"1", SG_JIT_ON},
                 {"always", SG_JIT_ALWAYS},
                 {"templates", SG_JIT_TEMPLATES},
                 {"templates-always", SG_JIT_TEMPLATES_ALWAYS},
                 {"templates-masked", SG_JIT_TEMPLATES_MASKED}};
    for (size_t i = 0; s && i < sizeof modes / sizeof *modes; i++)
        m = strcmp(s, modes[i].name) ? m : (int)modes[i].mode;
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("x86-64-v4") || (getenv("DOVETAIL_SOFTGPU_ISA") && m != SG_JIT_ALWAYS &&
                                                 m != SG_JIT_TEMPLATES_ALWAYS && m != SG_JIT_TEMPLATES_MASKED))
        m = SG_JIT_OFF;
#else
    m = SG_JIT_OFF;
#endif
    __atomic_store_n(&mode, m, __ATOMIC_RELAXED);
    return (enum sg_jit_mode)m;
}

void sg_jit_figures(struct sg_jit_figures *ret)
{
    pthread_mutex_lock(&lock);
    *ret = figures;
    pthread_mutex_unlock(&lock);
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void compile(struct unit *u)
{
    char why[512];
    const char *bad;
    struct dt_str file;
    void *f = NULL;
    double t = seconds();
    if (sg_llvm_compile(u->text.s, u->text.len, &file, why, sizeof why)) {
        if (!(f = sg_object_load(file.s, file.len, "sg_region", &u->code, &bad)))
            snprintf(why, sizeof why, "%s", bad);
        dt_str_done(&file);
    } else if (!sg_llvm_ready()) {
        __atomic_store_n(&mode, SG_JIT_OFF, __ATOMIC_RELAXED);
    }
    t = seconds() - t;
    const char *show = getenv("DOVETAIL_SOFTGPU_JIT_SHOW");
    if (show && !f) {
        fprintf(stderr, "dovetail: a region was not compiled, and is interpreted: %s\n", why);
        FILE *o = *show ? fopen(show, "w") : NULL;
        if (o) {
            fputs(u->text.s, o);
            fclose(o);
        }
    }
    pthread_mutex_lock(&lock);
    *(void **)(void *)&u->fn = f;
    dt_str_done(&u->text);
    __atomic_store_n(&u->state, f ? UNIT_READY : UNIT_REFUSED, __ATOMIC_RELEASE);
    figures.compiled += f != NULL;
    figures.refused += !f;
    figures.seconds += t;
    pthread_mutex_unlock(&lock);
}

/* Its own thread, as long as the process lives. */
static void *compiler(void *unused)
{
    pthread_mutex_lock(&lock);
    while (!unused) {
        struct unit *u = first;
        if (!u) {
            pthread_cond_wait(&more, &lock);
            continue;
        }
        first = u->queue;
        last = first ? last : NULL;
        nwaiting--;
        pthread_mutex_unlock(&lock);
        compile(u);
        pthread_mutex_lock(&lock);
        u->users--;
        u->used = ++now;
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- units ------------------------------------------------------------------------------------------------------- */
static void unit_free(struct unit *u)
{
    sg_object_free(u->code);
    dt_str_done(&u->text);
    free(u);
}

/* With the lock held: a unit that nobody uses, and longest so, out of the list; NULL: there are few. */
static struct unit *take_old(void)
{
    struct unit **oldest = NULL, *u;
    if (nunits <= KEPT)
        return NULL;
    for (struct unit **p = &units; *p; p = &(*p)->next)
        if (!(*p)->users && (!oldest || (*p)->used < (*oldest)->used))
            oldest = p;
    if (!oldest)
        return NULL;
    u = *oldest;
    *oldest = u->next;
    nunits--;
    return u;
}

/* The unit of a text, which is taken; NULL: memory is out, or too much waits. */
/* Around a fork (dovetailFork): a copy of the process has no thread that compiles, and must not find the lock held by
 * it. What waits in the queue is not compiled there, and nobody waits for it. */
static void fork_before(void) { pthread_mutex_lock(&lock); }

static void fork_after(void) { pthread_mutex_unlock(&lock); }

static struct unit *unit_of(struct dt_str *text, bool wait)
{
    char key[DT_SHA256_TEXT];
    if (dt_sha256_text(text->s, text->len, key) < 0) {
        dt_str_done(text);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    struct unit *u = units, *old;
    while (u && strcmp(u->key, key))
        u = u->next;
    if (u) {
        u->users++;
        figures.reused++;
    } else if (nwaiting < WAITING && (u = dt_calloc(1, sizeof *u))) {
        memcpy(u->key, key, sizeof key);
        u->text = *text;
        *text = (struct dt_str){0};
        u->users = 1;
        u->next = units;
        units = u;
        nunits++;
        if (wait) {
            pthread_mutex_unlock(&lock);
            compile(u);
            pthread_mutex_lock(&lock);
        } else {
            if (!started)
                started = pthread_atfork(fork_before, fork_after, fork_after) == 0 &&
                          pthread_create(&(pthread_t){0}, NULL, compiler, NULL) == 0;
            if (started) {
                u->users++;
                if (last)
                    last->queue = u;
                else
                    first = u;
                last = u;
                nwaiting++;
                pthread_cond_signal(&more);
            }
        }
    }
    old = take_old();
    pthread_mutex_unlock(&lock);
    dt_str_done(text);
    if (old)
        unit_free(old);
    return u;
}

static void unit_put(struct unit *u)
{
    if (!u)
        return;
    pthread_mutex_lock(&lock);
    u->users--;
    u->used = ++now;
    pthread_mutex_unlock(&lock);
}

/* ---- codes ------------------------------------------------------------------------------------------------------- */
static void make(const struct sg_code *c, struct entry *x, uint32_t op, bool masked)
{
    struct sg_jit *j = c->jit;
    struct dt_str text;
    bool wait = sg_jit_mode() == SG_JIT_ALWAYS;
    if (wait)
        pthread_mutex_lock(&j->lock);
    else if (pthread_mutex_trylock(&j->lock))
        return;
    if (!x->unit[masked] && j->regions < MOST_REGIONS && sg_jit_mode() != SG_JIT_OFF &&
        sg_jit_region(c, op, masked, &text)) {
        if ((x->unit[masked] = unit_of(&text, wait)))
            j->regions++;
    }
    struct unit *u = x->unit[masked];
    if (u && __atomic_load_n(&u->state, __ATOMIC_ACQUIRE) == UNIT_READY)
        __atomic_store_n(&x->fn[masked], u->fn, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&j->lock);
}

const struct sg_op *sg_jit_bb(struct sg_warp *w, const struct sg_op *op)
{
    const struct sg_code *c = w->code;
    struct entry *x = &c->jit->bb[op->x];
    if (w->blk->follow || w->wk->race)
        return sg_isa()[SG_H_BB](w, op);
    bool masked = w->mask != SG_ALL;
    sg_fn fn = __atomic_load_n(&x->fn[masked], __ATOMIC_ACQUIRE);
    if (!fn) {
        uint32_t heat = __atomic_load_n(&x->heat[masked], __ATOMIC_RELAXED),
                 hot = sg_jit_mode() == SG_JIT_ALWAYS ? 0 : HOT;
        __atomic_store_n(&x->heat[masked], heat + 1, __ATOMIC_RELAXED);
        if (heat == hot || (heat > hot && heat % HOT == 0)) {
            make(c, x, (uint32_t)(op - c->op), masked);
            fn = __atomic_load_n(&x->fn[masked], __ATOMIC_ACQUIRE);
        }
        if (!fn)
            return c->tmpl ? sg_template_visit(w, op) : sg_isa()[SG_H_BB](w, op);
    }
    if (!masked)
        __atomic_store_n(&c->op[op - c->op].fn, fn, __ATOMIC_RELAXED);
    return fn(w, op);
}

void sg_jit_watch(struct sg_code *c)
{
    static pthread_mutex_t watching = PTHREAD_MUTEX_INITIALIZER;
    if (__atomic_load_n(&c->jit, __ATOMIC_ACQUIRE))
        return;
    pthread_mutex_lock(&watching);
    if (!c->jit) {
        struct sg_jit *j = dt_calloc(1, sizeof *j + c->nbb * sizeof *j->bb);
        if (j) {
            pthread_mutex_init(&j->lock, NULL);
            __atomic_store_n(&c->jit, j, __ATOMIC_RELEASE);
            for (uint32_t i = 0; i < c->nop; i++)
                if (c->op[i].flags & SG_IS_BB)
                    __atomic_store_n(&c->op[i].fn, sg_jit_bb, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&watching);
}

void sg_jit_forget(struct sg_code *c)
{
    sg_template_forget_code(c);
    struct sg_jit *j = c->jit;
    if (!j)
        return;
    for (uint32_t i = 0; i < c->nbb; i++)
        for (unsigned m = 0; m < 2; m++)
            unit_put(j->bb[i].unit[m]);
    pthread_mutex_destroy(&j->lock);
    free(j);
    c->jit = NULL;
}
