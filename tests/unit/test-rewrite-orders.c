/* Block orders of a candidate whose blocks wait for each other: how many a trial runs, and what stops one.
 *
 * The candidate is a dataflow fusion of two launches, of 17 million thread-instructions. Orders are as many as fit
 * RW_ORDERS_WORK, two at least. A run that takes far more instructions than the one in order, or longer than the
 * deadline, is stopped: the candidate is refused, and neither this planning nor the library takes it for passed. The
 * device works as before, and the same candidate passes where nothing stops it.
 */
/* adds 1 at last; the loop changes nothing, and takes 2100 instructions of each of 8192 threads */
#define OP_F                                                                                                           \
    ".reg .pred %p;\nmov.u32 %r5, 0;\nL:\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p, %r5, 700;\n@%p bra L;\n"               \
    "add.rn.f32 %f2, %f1, 0f3F800000;"
#include "memo-list.h"
#include "rewrite-world.h"

#include "rewrite/gate/gate-priv.h"

static void open_fused(struct world *w, const struct rw_rewrite *kind, unsigned level)
{
    const uint32_t pair[2] = {0, 1};
    struct dt_err e = {0};
    struct dt_str why = {0};
    enum rw_verdict v;
    world_open(w);
    w->opt.library = &memo_list;
    w->opt.stamp = "here";
    must(rw_edit_init(&w->x, kind, dev_info(w->dev), &w->opt, &w->p.state.p[0], pair, 2, &e), &e);
    int r = w->x.kind->open(&w->x, &v, &why, &e);
    r = r ? r : w->x.kind->build(&w->x, level, &why, &e);
    if (r)
        fail_msg("%s", r < 0 ? e.detail : why.s);
    for (size_t k = 0; k < w->x.part.n; k++)
        if (w->x.part.p[k].ptx.len)
            snprintf(w->x.part.p[k].module, sizeof w->x.part.p[k].module, "f0");
    must(rw_state_make(&w->p, &w->x, &w->next, &w->fused, &e), &e);
}

static void close_fused(struct world *w)
{
    rw_state_done(&w->next);
    w->x.kind->close(&w->x);
    rw_edit_done(&w->x);
    world_close(w);
    forget();
}

/* The launch of T that has the blocks. */
static struct dev_cost *blocks(struct world *w)
{
    uint32_t k = w->fused;
    while (w->next.graph->launch[k].kind != DT_KERNEL)
        k++;
    return &w->next.cost[k];
}

static void forget_tried(struct world *w)
{
    for (size_t k = 0; k < w->p.gate.tried.n; k++)
        free(w->p.gate.tried.p[k].cost);
    w->p.gate.tried.n = 0;
}

/* As if nothing like it had passed, here or in the library. */
static void begin_anew(struct world *w, struct rw_trial *t)
{
    struct dt_err e = {0};
    forget_tried(w);
    forget();
    puts_ = 0;
    must(rw_trial_begin(t, &w->p.gate, &w->x, &w->next, w->fused, &e), &e);
    assert_false(t->known);
    assert_int_equal(t->orders, 0);
    assert_true(!rw_talks(w->next.prog) || blocks(w)->instructions > RW_HANG);
}

static void test_how_many(void **state)
{
    static const struct {
        uint64_t work; /* of one run */
        unsigned orders, want;
    } x[] = {
        {RW_HANG, 8, 8},
        {RW_ORDERS_WORK / 8, 8, 8},
        {RW_ORDERS_WORK / 5, 8, 5},
        {RW_ORDERS_WORK / 3, 8, 3},
        {RW_ORDERS_WORK / 2, 8, 2},
        {RW_ORDERS_WORK / 2 + 1, 8, 2}, /* one order would fit, and does not do */
        {2 * RW_ORDERS_WORK, 8, 2},
        {2 * RW_ORDERS_WORK, 1, 1},
    };
    struct world w;
    struct rw_trial t;
    open_fused(&w, &rw_dataflow_fusion, 0);
    assert_true(rw_talks(w.next.prog));
    for (size_t k = 0; k < sizeof x / sizeof *x; k++) {
        struct dt_err e = {0};
        begin_anew(&w, &t);
        for (uint32_t l = 0; l < t.n; l++)
            w.next.cost[w.fused + l].instructions = 0;
        blocks(&w)->instructions = x[k].work;
        w.p.gate.orders = x[k].orders;
        must(rw_trial_finish(&t, &e), &e);
        assert_int_equal(t.orders, x[k].want);
        assert_int_equal(t.order_work, x[k].work * x[k].want);
        assert_true(t.ran);
        assert_int_equal(rw_trial_find(&w.p.gate, t.key)->orders, x[k].want);
        rw_trial_done(&t);
        /* an equal one need not run them again; its work is no new one */
        must(rw_trial_begin(&t, &w.p.gate, &w.x, &w.next, w.fused, &e), &e);
        assert_true(t.known);
        blocks(&w)->instructions = x[k].work;
        must(rw_trial_finish(&t, &e), &e);
        assert_true(!t.ran && t.order_work == 0);
        assert_int_equal(t.orders, x[k].want);
        rw_trial_done(&t);
    }
    close_fused(&w);
}

/* Where blocks do not wait for each other a trial runs one; none where the gate tries none, nor of a large launch where
 * there are more at the end. */
static void test_one(void **state)
{
    static const struct {
        uint64_t work;
        unsigned orders, want;
    } x[] = {{2 * RW_ORDERS_WORK, 0, 0},
             {2 * RW_ORDERS_WORK, 1, RW_TRIAL_ORDERS},
             {2 * RW_ORDERS_WORK, 8, 0},
             {1 << 20, 8, RW_TRIAL_ORDERS}};
    struct world w;
    struct rw_trial t;
    open_fused(&w, &rw_block_fusion, 3);
    assert_false(rw_talks(w.next.prog));
    for (size_t k = 0; k < sizeof x / sizeof *x; k++) {
        struct dt_err e = {0};
        begin_anew(&w, &t);
        blocks(&w)->instructions = x[k].work;
        w.p.gate.orders = x[k].orders;
        must(rw_trial_finish(&t, &e), &e);
        assert_int_equal(t.orders, x[k].want);
        assert_int_equal(t.order_work, x[k].work * x[k].want);
        assert_int_equal(t.ran, x[k].want > 0);
        rw_trial_done(&t);
    }
    close_fused(&w);
}

/* A run that is stopped: T's, in the first block order. */
static void stopped(struct world *w, struct rw_trial *t, const char *words)
{
    struct dt_err e = {0};
    unsigned before = puts_;
    int r = rw_trial_finish(t, &e);
    assert_int_equal(r, DT_E_TIMEOUT);
    assert_non_null(strstr(e.detail, words));
    assert_false(rw_fatal(r)); /* it costs the candidate, not the planning */
    assert_int_equal(rw_recover(w->dev, r, &e), r);
    dt_err_done(&e);
    assert_int_equal(t->orders, 0);
    assert_int_equal(rw_trial_find(&w->p.gate, t->key)->orders, 0);
    rw_trial_keep(t);
    assert_int_equal(puts_, before);
    rw_trial_done(t);
}

/* The state that was made, with a kernel that never ends in its place, and is thought to be long. */
static void make_endless(struct world *w, struct rw_state *ret)
{
    struct dt_err e = {0};
    for (size_t k = 0; k < w->x.part.n; k++) {
        struct dt_str *text = &w->x.part.p[k].ptx, s = {0};
        char *at = text->len ? strstr(text->s, "ret;") : NULL;
        if (!at)
            continue;
        dt_str_addn(&s, text->s, (size_t)(at - text->s));
        dt_str_addf(&s, "NEVER: bra NEVER;\n%s", at);
        dt_str_done(text);
        *text = s;
    }
    must(rw_state_make(&w->p, &w->x, ret, &w->fused, &e), &e);
    memcpy(ret->cost, w->next.cost, ret->graph->nlaunch * sizeof *ret->cost);
    for (size_t k = 0; k < w->x.part.n; k++)
        ret->cost[w->fused + k].instructions = UINT64_C(1) << 60;
}

static void test_stopped(void **state)
{
    static const struct {
        const struct rw_rewrite *kind;
        unsigned level, deadline_ms; /* 0: none, but in order it took far less */
        const char *words;
    } x[] = {{&rw_dataflow_fusion, 0, 0, "over the limit of 16777216 thread-instructions"},
             {&rw_dataflow_fusion, 0, 100, "the launch was cancelled"},
             {&rw_block_fusion, 3, 100, "the launch was cancelled"}};
    for (size_t k = 0; k < sizeof x / sizeof *x; k++) {
        struct world w;
        struct rw_trial t;
        struct rw_state endless = {0};
        struct dt_err e = {0};
        bool talks = x[k].kind == &rw_dataflow_fusion; /* the library takes no figures of those */
        open_fused(&w, x[k].kind, x[k].level);
        assert_int_equal(rw_talks(w.next.prog), talks);
        unsigned want = w.p.gate.orders = talks ? 8 : RW_TRIAL_ORDERS; /* more, and none would run before the end */
        begin_anew(&w, &t);
        uint64_t honest = blocks(&w)->instructions;
        assert_int_equal(puts_, !talks);
        if (x[k].deadline_ms) {
            make_endless(&w, &endless);
            t.next = &endless;
        } else {
            blocks(&w)->instructions = 0;
        }
        dev_set_deadline(w.dev, x[k].deadline_ms);
        stopped(&w, &t, x[k].words);
        dev_set_deadline(w.dev, 0);
        rw_state_done(&endless);
        /* the same again: its run in order is known, the orders are not */
        must(rw_trial_begin(&t, &w.p.gate, &w.x, &w.next, w.fused, &e), &e);
        assert_true(t.known && t.orders == 0 && blocks(&w)->instructions == honest);
        must(rw_trial_finish(&t, &e), &e);
        assert_true(t.ran && t.orders == want);
        rw_trial_done(&t);
        /* as the first of its kind: the library is told what it passed, and the next planning asks it */
        begin_anew(&w, &t);
        must(rw_trial_finish(&t, &e), &e);
        rw_trial_keep(&t);
        assert_int_equal(puts_, talks ? 0 : 2);
        rw_trial_done(&t);
        forget_tried(&w);
        must(rw_trial_begin(&t, &w.p.gate, &w.x, &w.next, w.fused, &e), &e);
        assert_int_equal(t.known, !talks);
        assert_int_equal(t.orders, talks ? 0 : want);
        rw_trial_done(&t);
        close_fused(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_how_many), cmocka_unit_test(test_one),
                                       cmocka_unit_test(test_stopped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
