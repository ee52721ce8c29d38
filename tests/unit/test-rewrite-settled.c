/* Settled launches (rewrite/gate/settled.c): which are, which are not, and how many block orders of each run at the end
 * of a planning. And what else rests on them: a normal form that is looked at in part, a guess at a graph's size.
 *
 * One launch a case, of 64 blocks of 128 threads; threads of a block write elements of their own unless the case says
 * otherwise.
 */
#include "rewrite-world.h"

#include "rewrite/facts/hooks.h"
#include "rewrite/gate/gate-priv.h"

#define BEGIN(name)                                                                                                    \
    ".visible .entry " name                                                                                            \
    "(.param .u64 a, .param .u64 b)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<16>;\n.reg .b64 %d<8>;\n.reg .f32 %f<4>;\n"    \
    ".shared .align 16 .b8 sh[512];\n.shared .align 8 .b64 bar;\n"                                                     \
    "ld.param.u64 %d1, [a];\nld.param.u64 %d2, [b];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r3, %tid.x;\n"                   \
    "mad.lo.s32 %r4, %r1, 128, %r3;\nmul.wide.s32 %d3, %r4, 4;\nadd.s64 %d4, %d1, %d3;\nadd.s64 %d5, %d2, %d3;\n"      \
    "mov.u32 %r8, sh;\nshl.b32 %r9, %r3, 2;\nadd.s32 %r9, %r9, %r8;\nshl.b32 %r10, %r3, 2;\nxor.b32 %r10, %r10, "      \
    "256;\n"                                                                                                           \
    "add.s32 %r10, %r10, %r8;\nld.global.u32 %r5, [%d4];\n"
#define FUNCTIONS /* one that only computes, one that does not */                                                      \
    ".func (.param .b32 z) twice (.param .b32 q)\n{\n.reg .b32 %r<4>;\n.reg .pred %p<2>;\nld.param.b32 %r1, [q];\n"    \
    "setp.lt.u32 %p1, %r1, 999;\n@%p1 bra ON;\nadd.s32 %r1, %r1, %r1;\nON:\nst.param.b32 [z], %r1;\nret;\n}\n"         \
    ".func add (.param .b64 q)\n{\n.reg .b64 %d<2>;\nld.param.b64 %d1, [q];\nred.global.add.u32 [%d1], 1;\nret;\n}\n"
#define END "ret;\n}\n"
/* An mbarrier of `n` arrivals a phase, which all threads know; what thread t alone does; all wait for the end of a
 * phase of this parity */
#define INIT(n) "setp.eq.u32 %p1, %r3, 0;\n@%p1 mbarrier.init.shared.b64 [bar], " n ";\nbar.sync 0;\n"
#define ALONE(t, what) "setp.eq.u32 %p1, %r3, " t ";\n@%p1 " what ";\n"
#define ARRIVE "mbarrier.arrive.shared.b64 _, [bar]"
#define WAIT(label, parity)                                                                                            \
    label ":\nmbarrier.try_wait.parity.shared.b64 %p2, [bar], " parity ";\n@!%p2 bra " label ";\n"
#define LEAVE "ld.shared.u32 %r6, [%r10];\nst.global.u32 [%d5], %r6;\n"

#define DIFFER 99

static const struct settled_case {
    const char *name, *text;
    bool settled;
    unsigned orders; /* that run at the end, of eight; 0: it is not run here; DIFFER: what it leaves hangs on them */
} cases[] = {
    {"plain", "add.s32 %r5, %r5, 1;\nst.global.u32 [%d5], %r5;\n", true, 2},
    {"shared", "st.shared.u32 [%r9], %r5;\nbar.sync 0;\nld.shared.u32 %r6, [%r10];\nst.global.u32 [%d5], %r6;\n", true,
     2},
    {"branch", /* by block and thread alone */
     "setp.lt.u32 %p1, %r4, 999;\n@%p1 bra OUT;\nst.global.u32 [%d5], %r5;\nOUT:\n", true, 2},
    {"value", /* a branch by data that touches nothing */
     "setp.lt.u32 %p1, %r5, 999;\n@%p1 bra OUT;\nadd.s32 %r5, %r5, 7;\nOUT:\nst.global.u32 [%d5], %r5;\n", true, 2},
    {"call",
     "{\n.param .b32 q;\n.param .b32 z;\nst.param.b32 [q], %r5;\ncall.uni (z), twice, (q);\n"
     "ld.param.b32 %r6, [z];\n}\nst.global.u32 [%d5], %r6;\n",
     true, 2},
    {"call-of-atomic", "{\n.param .b64 q;\nst.param.b64 [q], %d5;\ncall.uni add, (q);\n}\nst.global.u32 [%d5], %r5;\n",
     false, 8},
    /* warps write other words to one place, with nothing between: it races in every block, whatever it leaves */
    {"race", "st.shared.u32 [%r8], %r3;\nst.global.u32 [%d5], %r5;\n", true, 8},
    /* the same word by one instruction: no race (docs/CHECKING.md) */
    {"same-word", "st.shared.u32 [%r8], 7;\nbar.sync 0;\nld.shared.u32 %r6, [%r8];\nst.global.u32 [%d5], %r6;\n", true,
     2},
    {"race-at-end", /* only in the last block */
     "setp.ne.u32 %p1, %r1, 63;\n@%p1 bra ON;\nst.shared.u32 [%r8], %r3;\nON:\nst.global.u32 [%d5], %r5;\n", true, 8},
    {"guarded-by-data", "setp.lt.u32 %p1, %r5, 999;\n@%p1 st.global.u32 [%d5], %r5;\n", false, 8},
    {"scatter", "and.b32 %r6, %r5, 1023;\nmul.wide.s32 %d6, %r6, 4;\nadd.s64 %d6, %d2, %d6;\nst.global.u32 [%d6], 1;\n",
     false, 0},
    {"conflict", "st.global.u32 [%d2], 1;\n", false, 0},
    {"atomic", "red.global.add.u32 [%d5], %r5;\n", false, 8},
    {"atomic-shared",
     "st.shared.u32 [%r9], 0;\nbar.sync 0;\nred.shared.add.u32 [%r10], 1;\nbar.sync 0;\nld.shared.u32 %r6, [%r9];\n"
     "st.global.u32 [%d5], %r6;\n",
     false, 8},
    {"volatile", "st.volatile.shared.u32 [%r9], %r5;\nld.volatile.shared.u32 %r6, [%r9];\nst.global.u32 [%d5], %r6;\n",
     false, 8},
    {"relaxed", "st.relaxed.cta.shared.u32 [%r9], %r5;\nst.global.u32 [%d5], %r5;\n", false, 8},
    {"machine", "mov.u32 %r6, %warpid;\nst.global.u32 [%d5], %r6;\n", false, 8},
    {"programmatic", "griddepcontrol.launch_dependents;\ngriddepcontrol.wait;\nst.global.u32 [%d5], %r5;\n", true, 2},
    {"elect", "elect.sync %r6|%p1, -1;\nst.global.u32 [%d5], %r5;\n", true, 2},
    {"copies",
     "cp.async.ca.shared.global [%r9], [%d4], 4;\ncp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;\n" LEAVE,
     true, 2},
    {"copies-not-waited-for", "cp.async.ca.shared.global [%r9], [%d4], 4;\ncp.async.commit_group;\nbar.sync 0;\n" LEAVE,
     true, 8},
    {"bulk-store",
     "st.shared.u32 [%r9], %r5;\nfence.proxy.async.shared::cta;\nbar.sync 0;\nmad.lo.s32 %r11, %r1, 512, 0;\n"
     "cvt.u64.u32 %d6, %r11;\nadd.s64 %d7, %d2, %d6;\n" ALONE(
         "0", "cp.async.bulk.global.shared::cta.bulk_group [%d7], [%r8], 512") "cp.async.bulk.commit_group;\n"
                                                                               "cp.async.bulk.wait_group 0;\n",
     true, 2},
    {"bulk-load",
     "mad.lo.s32 %r11, %r1, 512, 0;\ncvt.u64.u32 %d6, %r11;\nadd.s64 %d7, %d1, %d6;\n" INIT("1")
         ALONE("0", "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512")
             ALONE("0", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%d7], 512, [bar]")
                 WAIT("W", "0") LEAVE,
     true, 2},
    {"mbarrier", INIT("128") "st.shared.u32 [%r9], %r5;\n" ARRIVE ";\n" WAIT("W", "0") LEAVE, true, 2},
    {"mbarrier-in-two-blocks",
     INIT("128") "st.shared.u32 [%r9], %r5;\n" ARRIVE
                 ";\nW:\nmbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n@%p2 bra ON;\nbra W;\nON:\n" LEAVE,
     true, 2},
    {"mbarrier-not-waited-for", INIT("128") "st.shared.u32 [%r9], %r5;\n" ARRIVE ";\n" LEAVE, true, DIFFER},
    {"two-phases",
     INIT("128") ARRIVE ";\n" WAIT("V", "0") "st.shared.u32 [%r9], %r5;\n" ARRIVE ";\n" WAIT("W", "1") LEAVE, true, 2},
    /* one warp's two arrivals may end the phase that is to have one of each of two */
    {"arrives-ahead",
     INIT("2") ALONE("0", ARRIVE) ALONE("0", ARRIVE) ALONE("32", ARRIVE)
         ALONE("32", ARRIVE) "st.global.u32 [%d5], %r5;\n",
     true, 8},
    /* whether the others see that no phase is over, or that two are */
    {"overtaken",
     INIT("1") "setp.lt.u32 %p3, %r3, 96;\n@%p3 bra W;\n" ALONE("96", ARRIVE) ALONE("96", ARRIVE)
         WAIT("W", "1") "st.global.u32 [%d5], %r5;\n",
     true, 8},
    {"asks-once",
     INIT("128") ARRIVE ";\nmbarrier.test_wait.parity.shared.b64 %p2, [bar], 0;\nselp.b32 %r6, 1, 0, %p2;\n"
                        "st.global.u32 [%d5], %r6;\n",
     false, 0},
    {"counts-rounds",
     INIT("128") ARRIVE ";\nmov.u32 %r6, 0;\nW:\nadd.s32 %r6, %r6, 1;\nmbarrier.try_wait.parity.shared.b64 %p2, "
                        "[bar], 0;\n@!%p2 bra W;\nst.global.u32 [%d5], %r6;\n",
     false, 0},
    {"asks-so-often",
     INIT("128") ARRIVE ";\nmov.u32 %r6, 9;\nW:\nadd.s32 %r6, %r6, -1;\nmbarrier.try_wait.parity.shared.b64 %p2, "
                        "[bar], 0;\nsetp.ne.s32 %p2, %r6, 0;\n@%p2 bra W;\nst.global.u32 [%d5], %r5;\n",
     false, 0},
    {"waits-where-data-says",
     INIT("128") ARRIVE ";\nsetp.lt.u32 %p3, %r5, 999;\n@%p3 bra ON;\n" WAIT("W", "0") "ON:\nst.global.u32 [%d5], "
                                                                                       "%r5;\n",
     false, 8},
    {"token", INIT("128") "mbarrier.arrive.shared.b64 %d6, [bar];\nst.global.u32 [%d5], %d6;\n", false, 0},
    {"relaxed-wait",
     INIT("128") ARRIVE ";\nW:\nmbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p2, [bar], 0;\n@!%p2 bra W;\n"
                        "st.global.u32 [%d5], %r5;\n",
     false, 8},
    {"registers", "setmaxnreg.dec.sync.aligned.u32 40;\nst.global.u32 [%d5], %r5;\n", false, 8},
    {"fence", "fence.acq_rel.gpu;\nst.global.u32 [%d5], %r5;\n", false, 8},
    {"together", "activemask.b32 %r6;\nst.global.u32 [%d5], %r6;\n", false, 8},
};

/* two: and once more, from what the first one left. */
static void open_case(struct world *w, const struct settled_case *c, bool two)
{
    struct dt_err e = {0};
    struct dt_str text = {0}, ptx = {0};
    dt_str_addf(&ptx, ".version 8.6\n.target sm_90a\n.address_size 64\n%s%s%s%s", FUNCTIONS, BEGIN("k"), c->text, END);
    dt_str_add(&text, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (const char *s = ptx.s; *s; s++)
        dt_str_addf(&text, *s == '\n' ? "\\n" : "%c", *s);
    dt_str_add(&text, "\"}}, \"buffers\": {\"x\": {\"bytes\": 32768, \"role\": \"input\", \"fill\": {\"uniform\": [0, "
                      "9999], \"dtype\": \"i32\", \"seed\": 1}}, " BUFFER("s", "output"));
    dt_str_add(&text, two ? "," BUFFER("t", "output") "}, \"launches\": [" KEEP("a", "k", "x", "s") "," //
                          KEEP("b", "k", "s", "t") "]}"
                          : "}, \"launches\": [" KEEP("a", "k", "x", "s") "]}");
    dt_str_done(&ptx);
    world_analysed(w, &text);
    if (c->orders) {
        must(rw_reference_new(w->dev, w->prog, 1, w->ana, NULL, &w->p.gate.ref, &w->p.gate.snaps, &e), &e);
        must(rw_state_first(&w->p, &w->p.state.p[0], &e), &e);
    }
}

/* As if the posted launch was one that a rewrite made. */
static unsigned orders_at_end(struct world *w)
{
    struct dt_err e = {0};
    struct rw_state *s = &w->p.state.p[0];
    s->made = dt_calloc(2, sizeof *s->made);
    assert_non_null(s->made);
    s->made[0] = true;
    w->p.gate.orders = 8;
    w->p.gate.orders_run = 0;
    int r = rw_orders_rest(&w->p.gate, s, &e);
    if (r == DT_E_INTERNAL) {
        dt_err_done(&e);
        return DIFFER;
    }
    if (r != 0)
        fail_msg("%d: %s", r, e.detail ? e.detail : "");
    return w->p.gate.orders_run;
}

static void test_which(void **state)
{
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct world w;
        struct dt_err e = {0};
        rw_hooks.glance = 1;
        open_case(&w, &cases[k], false);
        int settled = rw_settled(w.prog, w.ana, 0, &e);
        if (settled != cases[k].settled)
            fail_msg("%s: %d", cases[k].name, settled);
        unsigned ran = cases[k].orders ? orders_at_end(&w) : 0;
        if (ran != cases[k].orders)
            fail_msg("%s: %u orders", cases[k].name, ran);
        world_close(&w);
    }
    rw_hooks.glance = 0;
}

/* Of a small launch nobody asks, and all orders run: one in the trial, the others at the end. */
static void test_small(void **state)
{
    struct world w;
    struct dt_err e = {0};
    rw_hooks.glance = 0;
    open_case(&w, &cases[0], false);
    assert_int_equal(rw_settled(w.prog, w.ana, 0, &e), 0);
    assert_int_equal(orders_at_end(&w), 8 - RW_TRIAL_ORDERS);
    world_close(&w);
}

/* A guess by a few blocks says that a graph is far from too large; where it does not, the sample decides as ever. */
static void test_guess(void **state)
{
    static const char *const names[] = {"plain", "guarded-by-data"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        struct world w;
        struct dt_err e = {0};
        size_t c = 0;
        while (strcmp(cases[c].name, names[k]))
            c++;
        open_case(&w, &cases[c], false);
        uint64_t all = w.p.state.p[0].cost[0].instructions;
        static const struct {
            unsigned by, of;
            bool sample;
        } x[] = {{1, 2, true}, {1, 1, false}, {2, 1, false}, {5, 1, false}};
        for (size_t i = 0; i < sizeof x / sizeof x[0]; i++) {
            struct rw_sample *s = NULL;
            struct dev_cost *cost = NULL;
            must(rw_sample_choose(w.dev, w.prog, w.ana, all * x[i].by / x[i].of, &s, &cost, &e), &e);
            assert_true((s != NULL) == x[i].sample && (cost != NULL) == x[i].sample);
            rw_sample_free(s);
            free(cost);
        }
        world_close(&w);
    }
}

static const struct settled_case *case_of(const char *name)
{
    const struct settled_case *c = cases;
    while (strcmp(c->name, name))
        c++;
    return c;
}

/* The two launches, the second one started early: tried and accepted, in as many orders as are due. */
static void start_early(struct world *w, struct rw_trial *t)
{
    const uint32_t pair[2] = {0, 1};
    struct dt_err e = {0};
    struct dt_str why = {0};
    enum rw_verdict v;
    must(rw_edit_init(&w->x, &rw_programmatic, dev_info(w->dev), &w->opt, &w->p.state.p[0], pair, 2, &e), &e);
    int r = rw_programmatic.open(&w->x, &v, &why, &e);
    r = r ? r : rw_programmatic.build(&w->x, 0, &why, &e);
    if (r)
        fail_msg("%s", r < 0 ? e.detail : why.s);
    dt_str_done(&why);
    for (size_t i = 0; i < w->x.part.n; i++)
        snprintf(w->x.part.p[i].module, sizeof w->x.part.p[i].module, "f%zu", i);
    must(rw_state_make(&w->p, &w->x, &w->next, &w->fused, &e), &e);
    w->p.gate.orders = 8;
    must(rw_trial_begin(t, &w->p.gate, &w->x, &w->next, w->fused, &e), &e);
    must(rw_trial_finish(t, &e), &e);
}

static void start_early_done(struct world *w, struct rw_trial *t)
{
    rw_trial_done(t);
    rw_state_done(&w->next);
    rw_programmatic.close(&w->x);
    rw_edit_done(&w->x);
    world_close(w);
}

/* A rewrite that leaves code as it is runs no order of settled launches when it is accepted, and one of any other. */
static void test_same_code(void **state)
{
    static const struct {
        const char *name;
        uint64_t glance;
        unsigned orders;
    } x[] = {{"plain", 1, 0}, {"plain", 0, 1}, {"guarded-by-data", 1, 1}, {"volatile", 1, 1}, {"atomic", 1, 1}};
    for (size_t k = 0; k < sizeof x / sizeof x[0]; k++) {
        struct world w;
        struct rw_trial t;
        rw_hooks.glance = x[k].glance;
        open_case(&w, case_of(x[k].name), true);
        start_early(&w, &t);
        if (t.orders != x[k].orders)
            fail_msg("%s: %u orders", x[k].name, t.orders);
        start_early_done(&w, &t);
    }
    rw_hooks.glance = 0;
}

/* Of a chain of a large launch and a small one the large one's orders wait, and the small one runs in its own. */
static void test_mixed(void **state)
{
    static const char rounds[] = "mov.u32 %r7, 0;\nAGAIN:\nadd.s32 %r5, %r5, %r7;\nadd.s32 %r7, %r7, 1;\n"
                                 "setp.lt.u32 %p2, %r7, 100;\n@%p2 bra AGAIN;\nst.global.u32 [%d5], %r5;\n";
    struct world w;
    struct rw_trial t;
    struct dt_err e = {0};
    struct dt_str text = {0};
    dt_str_add(&text, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (int k = 0; k < 2; k++) {
        struct dt_str ptx = {0};
        dt_str_addf(&ptx, "%s%s%s%s", k ? "" : ".version 8.0\n.target sm_90\n.address_size 64\n",
                    k ? BEGIN("small") : BEGIN("large"), k ? case_of("plain")->text : rounds, END);
        for (const char *s = ptx.s; *s; s++)
            dt_str_addf(&text, *s == '\n' ? "\\n" : "%c", *s);
        dt_str_done(&ptx);
    }
    dt_str_add(&text, "\"}}, \"buffers\": {\"x\": {\"bytes\": 32768, \"role\": \"input\", \"fill\": {\"uniform\": [0, "
                      "9999], \"dtype\": \"i32\", \"seed\": 1}}, " BUFFER("s", "output") "," BUFFER("t", "output"));
    dt_str_add(&text,
               "}, \"launches\": [" KEEP(
                   "a", "large", "x",
                   "s") ","
                        "{\"name\": \"b\", \"module\": \"m\", \"entry\": \"small\", \"grid\": [4,1,1], \"block\": "
                        "[128,1,1],\"args\": [{\"buffer\": \"s\"}, {\"buffer\": \"t\"}]}]}");
    rw_hooks.glance = 1;
    world_analysed(&w, &text);
    must(rw_reference_new(w.dev, w.prog, 1, w.ana, NULL, &w.p.gate.ref, &w.p.gate.snaps, &e), &e);
    must(rw_state_first(&w.p, &w.p.state.p[0], &e), &e);
    uint64_t small = w.p.state.p[0].cost[1].instructions;
    assert_true(w.p.state.p[0].cost[0].instructions > 4 * small);
    rw_hooks.glance = 2 * small;
    start_early(&w, &t);
    unsigned seen = 0;
    for (size_t k = 0; k < w.p.gate.tried.n; k++) {
        const struct rw_tried *q = &w.p.gate.tried.p[k];
        bool large = q->cost[0].instructions > 2 * small;
        if (q->orders != (large ? 0u : RW_TRIAL_ORDERS))
            fail_msg("trial %zu, of a %s launch: %u orders", k, large ? "large" : "small", q->orders);
        seen |= 1u << large;
    }
    assert_int_equal(seen, 3);
    assert_true(t.order_work > 0 && t.order_work < 2 * small * RW_TRIAL_ORDERS);
    start_early_done(&w, &t);
    rw_hooks.glance = 0;
}

/* In another order some blocks run, others in each: what one of these leaves is compared. */
static void test_order_of_some(void **state)
{
    static const struct {
        uint64_t order;
        uint32_t block; /* that left something else; 64: none */
        int r;
    } x[] = {{1, 64, 0}, {1, 1, DT_E_INTERNAL}, {1, 61, DT_E_INTERNAL}, {1, 2, 0}, {2, 2, DT_E_INTERNAL}, {2, 1, 0}};
    for (size_t k = 0; k < sizeof x / sizeof x[0]; k++) {
        const uint32_t launch = 0;
        const uint8_t *left;
        struct world w;
        struct dt_err e = {0};
        rw_hooks.glance = 1;
        open_case(&w, case_of("plain"), false);
        struct rw_state *s = &w.p.state.p[0];
        struct rw_edit edit = {.now = s, .launch = (uint32_t *)(uintptr_t)&launch, .nlaunch = 1};
        struct rw_trial t = {.gate = &w.p.gate, .x = &edit, .now = s, .next = s, .n = 1};
        assert_int_equal(rw_trial_touch(&t, &e), 1);
        assert_true(rw_trial_want(&t));
        assert_int_equal(rw_snaps_left(w.p.gate.snaps, 0, dt_graph_find_buffer(w.graph, "s"), &left), 1);
        if (x[k].block < 64)
            ((uint8_t *)(uintptr_t)left)[x[k].block * 512] ^= 1;
        int r = rw_settled_order(&t, x[k].order, &e);
        if (r != x[k].r)
            fail_msg("case %zu: %d %s", k, r, e.detail ? e.detail : "");
        dt_err_done(&e);
        rw_trial_done(&t);
        world_close(&w);
    }
    rw_hooks.glance = 0;
}

/* The reference's run looks for conflicts between blocks wherever the map has not excluded them. */
static void test_reference(void **state)
{
    struct world w;
    struct dt_err e = {0};
    rw_hooks.glance = 1;
    open_case(&w, case_of("conflict"), false);
    assert_int_equal(rw_reference_new(w.dev, w.prog, 1, w.ana, NULL, &w.p.gate.ref, NULL, &e), DT_E_RACE);
    dt_err_done(&e);
    rw_hooks.glance = 0;
    world_close(&w);
}

/* A launch of normal form that leaves something else is found, of a large one where the blocks that run write: every
 * 21st of 64. */
static void test_normal_form(void **state)
{
    static const struct {
        uint64_t glance;
        uint32_t block; /* that left something else; 64: none */
        int same;
    } x[] = {{0, 64, 1}, {1, 64, 1}, {0, 0, 0}, {1, 0, 0}, {1, 21, 0}, {1, 63, 0}, {0, 5, 0}, {1, 5, 1}};
    for (size_t k = 0; k < sizeof x / sizeof x[0]; k++) {
        struct world w;
        struct dt_err e = {0};
        const bool other[8] = {false};
        const uint8_t *left;
        rw_hooks.glance = x[k].glance;
        world_open(&w);
        assert_int_equal(rw_snaps_left(w.p.gate.snaps, 1, dt_graph_find_buffer(w.graph, "q"), &left), 1);
        if (x[k].block < 64)
            ((uint8_t *)(uintptr_t)left)[x[k].block * 512] ^= 1; /* b finds what a left; c reads this */
        int r = rw_snaps_check(&w.p.gate, other, &e);
        if (r != x[k].same)
            fail_msg("case %zu: %d %s", k, r, e.detail ? e.detail : "");
        world_close(&w);
    }
    rw_hooks.glance = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_which),     cmocka_unit_test(test_small),
                                       cmocka_unit_test(test_guess),     cmocka_unit_test(test_same_code),
                                       cmocka_unit_test(test_reference), cmocka_unit_test(test_normal_form),
                                       cmocka_unit_test(test_mixed),     cmocka_unit_test(test_order_of_some)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
