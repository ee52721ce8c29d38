/* Runs the nodes of a graph that no edge orders side by side. So a launch that waits too late for another one, or not
 * at all, does here what it may do on hardware.
 *
 * A node may start when all that it depends on has ended; over a programmatic edge, when every block of that kernel has
 * executed griddepcontrol.launch_dependents, or ended. griddepcontrol.wait lets a warp go on when the kernels at the
 * node's programmatic edges have ended. Nothing else waits: a kernel that leaves without waiting ends, whatever it
 * depends on, so a program that relies on more than that is found out.
 *
 * Each kernel has a thread, and one of all the threads runs: the turn passes here, from kernel to kernel, between
 * helpings of work of their blocks (softgpu/launch/worker.c). The schedule's seed draws which one comes next. How much
 * is delayed, by seed modulo 4:
 *
 *     1, 2   every fourth node is late: it has a turn only when no other can go on, so all that does not wait for it
 *            runs ahead of it. Seeds 1, 2, 5 and 6 make each node late once
 *     3      whole kernels, in any order that the edges allow
 *     0      any of them alike
 *
 * This happens only with a schedule, without checking modes (their clocks know one launch at a time), and in graphs of
 * kernels, copies and memsets alone; otherwise graph-exec.c runs node after node. The driver's lock is held all the
 * while, so memory stays as it is. A fault of one kernel stops the others.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "softgpu/libcuda/cu-priv.h"

enum state { WAITS, RUNS, ENDED };

struct task {
    struct beside *all;
    struct CUgraphNode_st *node;
    struct cu_launch launch; /* the node's, with `hooks` */
    struct sg_beside hooks;
    struct sg_stats stats;
    enum state state;
    pthread_t thread;
    sem_t turn; /* it is its turn */
    bool late;
    CUresult result;
};

struct beside {
    struct CUctx_st *c;
    struct CUgraph_st *g;
    struct task *task;  /* by node */
    sem_t turn;         /* it is the caller's */
    struct task *next;  /* whose turn it is, where a kernel's thread drew that */
    struct task *ended; /* whose thread waits to be joined */
    bool stop;
    uint64_t drawn;
};

static uint64_t draw(struct beside *b) { return dt_splitmix64(b->c->seed, b->drawn++); }

static void await(sem_t *turn)
{
    while (sem_wait(turn) < 0 && errno == EINTR)
        ;
}

/* From one thread to another; back when it is ours again. */
static void graph_beside_pass(sem_t *from, sem_t *to)
{
    sem_post(to);
    await(from);
}

/* ---- in a kernel's thread ---------------------------------------------------------------------------------------- */

static struct task *pick(struct beside *b);

/* The turn goes from thread to thread; the caller has it where a node starts or has ended. */
static bool turn_over(void *user)
{
    struct task *t = user;
    struct beside *b = t->all;
    if (!b->stop && (t->hooks.stuck || (b->c->seed % 4 != 3 && draw(b) % 4 == 0))) {
        struct task *n = pick(b);
        bool runs = n->state == RUNS;
        b->next = runs ? NULL : n;
        if (n != t)
            graph_beside_pass(&t->turn, runs ? &n->turn : &b->turn);
    }
    return !b->stop;
}

static bool may_pass(void *user)
{
    struct task *t = user;
    for (size_t i = 0; i < t->node->dep.n; i++)
        if (t->node->edge.p[i].from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC &&
            t->all->task[t->node->dep.p[i]->mark].state != ENDED)
            return false;
    return true;
}

static void *graph_beside_run(void *user)
{
    struct task *t = user;
    struct beside *b = t->all;
    await(&t->turn);
    t->result = b->stop ? CUDA_SUCCESS : cu_launch_run(b->c, &t->launch, &t->stats);
    t->state = ENDED;
    b->ended = t;
    sem_post(&b->turn);
    return NULL;
}

/* ---- in the caller's --------------------------------------------------------------------------------------------- */

static bool may_start(const struct beside *b, const struct task *t)
{
    for (size_t i = 0; i < t->node->dep.n; i++) {
        const struct task *d = &b->task[t->node->dep.p[i]->mark];
        const uint32_t *g = d->launch.grid;
        bool early = t->node->edge.p[i].from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC && d->state == RUNS &&
                     d->hooks.let_go >= (uint64_t)g[0] * g[1] * g[2];
        if (d->state != ENDED && !early)
            return false;
    }
    return true;
}

/* The next one to have a turn, drawn from those that may go on and are not late, else from the late ones, else from
 * those that are stuck; NULL: all have ended. */
static struct task *pick(struct beside *b)
{
    struct task *any[3] = {NULL, NULL, NULL};
    uint64_t n[3] = {0, 0, 0};
    for (size_t i = 0; i < b->g->node.n; i++) {
        struct task *t = &b->task[i];
        unsigned class = t->hooks.stuck ? 2 : t->late;
        if (t->state != ENDED && (t->state == RUNS || may_start(b, t)) && draw(b) % ++n[class] == 0)
            any[class] = t;
    }
    return any[0] ? any[0] : any[1] ? any[1] : any[2];
}

static void unstick(struct beside *b)
{
    for (size_t i = 0; i < b->g->node.n; i++)
        b->task[i].hooks.stuck = false;
}

/* The one that has ended while the caller had no turn, if any. */
static struct task *graph_beside_finish(struct beside *b)
{
    struct task *t = b->ended;
    b->ended = NULL;
    if (t) {
        pthread_join(t->thread, NULL);
        sem_destroy(&t->turn);
    }
    return t;
}

static CUresult graph_beside_start(struct beside *b, struct task *t)
{
    CU_REQUIRE(!cu_launch_stale(&t->node->launch) && t->node->launch.f->mod->ctx == b->c, CUDA_ERROR_INVALID_HANDLE);
    t->launch = t->node->launch;
    t->hooks = (struct sg_beside){.turn = turn_over, .may_pass = may_pass, .user = t};
    t->launch.beside = &t->hooks;
    sem_init(&t->turn, 0, 0);
    t->state = RUNS;
    if (pthread_create(&t->thread, NULL, graph_beside_run, t)) {
        t->state = ENDED;
        sem_destroy(&t->turn);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    return CUDA_SUCCESS;
}

/* A turn of it, and of those that it passes the turn to. */
static CUresult give_turn(struct beside *b, struct task *t)
{
    struct CUgraphNode_st *n = t->node;
    CUresult r = CUDA_SUCCESS;
    if (n->type == CU_GRAPH_NODE_TYPE_KERNEL && !n->disabled) {
        if (t->state == WAITS)
            CU_TRY(graph_beside_start(b, t));
        graph_beside_pass(&b->turn, &t->turn);
        if ((t = graph_beside_finish(b)) != NULL) {
            unstick(b);
            CU_TRY(t->result);
        }
        return b->c->sticky;
    }
    if (n->type == CU_GRAPH_NODE_TYPE_MEMCPY && !n->disabled)
        r = cu_copy_run(b->c, &n->copy);
    if (n->type == CU_GRAPH_NODE_TYPE_MEMSET && !n->disabled &&
        (r = cu_set_check(b->c, &n->set, false)) == CUDA_SUCCESS)
        cu_set_run(b->c, &n->set);
    t->state = ENDED;
    unstick(b);
    return r;
}

bool cu_graph_may_beside(const struct CUctx_st *c, const struct CUgraph_st *g)
{
    bool chain = true;
    for (size_t i = 0; i < g->node.n; i++) {
        const struct CUgraphNode_st *n = g->node.p[i];
        if (n->type != CU_GRAPH_NODE_TYPE_KERNEL && n->type != CU_GRAPH_NODE_TYPE_MEMCPY &&
            n->type != CU_GRAPH_NODE_TYPE_MEMSET && n->type != CU_GRAPH_NODE_TYPE_EMPTY)
            return false;
        bool follows = !i;
        for (size_t k = 0; k < n->dep.n; k++)
            follows |= i && n->dep.p[k] == g->node.p[i - 1] &&
                       n->edge.p[k].from_port != CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        chain = chain && follows;
    }
    return c->seed && !c->checks && !c->record && !chain;
}

CUresult cu_graph_beside(struct CUctx_st *c, struct CUgraph_st *g, struct sg_work *ret)
{
    struct beside b = {.c = c, .g = g};
    b.task = dt_calloc(g->node.n + 1, sizeof *b.task);
    CU_REQUIRE(b.task, CUDA_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < g->node.n; i++) {
        g->node.p[i]->mark = (uint32_t)i;
        b.task[i] = (struct task){.all = &b,
                                  .node = g->node.p[i],
                                  .late = c->seed % 4 % 3 && i % 4 == (c->seed / 4 * 2 + c->seed % 4 - 1) % 4};
    }
    sem_init(&b.turn, 0, 0);
    CUresult r = CUDA_SUCCESS;
    for (struct task *t; r == CUDA_SUCCESS && (t = b.next ? b.next : pick(&b)) != NULL;) {
        b.next = NULL;
        r = give_turn(&b, t);
    }
    b.stop = true;
    for (size_t i = 0; i < g->node.n; i++) /* what runs still, where one failed */
        if (b.task[i].state == RUNS) {
            while (b.task[i].state == RUNS)
                graph_beside_pass(&b.turn, &b.task[i].turn);
            graph_beside_finish(&b);
        }
    for (size_t i = 0; i < g->node.n && r == CUDA_SUCCESS; i++) {
        struct CUgraphNode_st *n = g->node.p[i];
        ret[i] = n->disabled                            ? (struct sg_work){.kind = SG_WORK_EVENT}
                 : n->type == CU_GRAPH_NODE_TYPE_KERNEL ? cu_launch_work(&b.task[i].launch, &b.task[i].stats)
                 : n->type == CU_GRAPH_NODE_TYPE_MEMCPY ? cu_copy_work(&n->copy)
                 : n->type == CU_GRAPH_NODE_TYPE_MEMSET ? cu_set_work(&n->set)
                                                        : (struct sg_work){.kind = SG_WORK_EVENT};
    }
    sem_destroy(&b.turn);
    free(b.task);
    return r;
}
