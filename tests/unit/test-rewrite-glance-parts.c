/* Glances (rewrite/gate/glance.c) of launches whose first blocks do more than the others, and of chains of launches
 * that each stand for one posted launch.
 *
 * The first 40 of 64 blocks go round a loop 300 times, the others 10 times.
 */
#define OP_F                                                                                                           \
    ".reg .pred %p, %q;\nmov.u32 %r5, 0;\nmov.u32 %r6, 300;\nsetp.ge.u32 %q, %r1, 40;\n@%q mov.u32 %r6, 10;\nL:\n"     \
    "add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p, %r5, %r6;\n@%p bra L;\nadd.rn.f32 %f2, %f1, 0f3F800000;"
#include "rewrite-world.h"

#include "rewrite/facts/hooks.h"
#include "rewrite/gate/gate-priv.h"

static void open_edit(struct world *w, const struct rw_rewrite *kind, unsigned level)
{
    const uint32_t pair[2] = {0, 1};
    struct dt_err e = {0};
    struct dt_str why = {0};
    enum rw_verdict v;
    world_open(w);
    must(rw_edit_init(&w->x, kind, dev_info(w->dev), &w->opt, &w->p.state.p[0], pair, 2, &e), &e);
    int r = kind->open(&w->x, &v, &why, &e);
    r = r ? r : kind->build(&w->x, level, &why, &e);
    if (r)
        fail_msg("%s", r < 0 ? e.detail : why.s);
    dt_str_done(&why);
    for (size_t k = 0; k < w->x.part.n; k++)
        snprintf(w->x.part.p[k].module, sizeof w->x.part.p[k].module, "f%zu", k);
    must(rw_state_make(&w->p, &w->x, &w->next, &w->fused, &e), &e);
}

static void close_edit(struct world *w)
{
    rw_state_done(&w->next);
    w->x.kind->close(&w->x);
    rw_edit_done(&w->x);
    world_close(w);
}

struct asked {
    struct world *w;
    int answer;
    unsigned times;
    struct dev_cost cost[2];
};

static int ask(void *user, struct rw_state *next, struct dt_err *e)
{
    struct asked *a = user;
    (void)e;
    a->times++;
    memcpy(a->cost, &next->cost[a->w->fused], a->w->x.part.n * sizeof a->cost[0]);
    return a->answer;
}

/* What the launches cost by a glance; *ret_whole: what they cost. */
static void glanced(struct world *w, struct asked *a, struct dev_cost *ret_whole)
{
    struct rw_trial t;
    struct dt_err e = {0};
    struct rw_judge judge = {ask, a};
    *a = (struct asked){.w = w};
    assert_int_equal(rw_trial_judged(&t, &w->p.gate, &w->x, &w->next, w->fused, &judge, &e), 1);
    assert_true(a->times == 1 && !t.glanced);
    memcpy(ret_whole, &w->next.cost[w->fused], w->x.part.n * sizeof *ret_whole);
    rw_trial_done(&t);
}

static bool about(uint64_t x, uint64_t y) { return (double)x > 0.98 * (double)y && (double)x < 1.02 * (double)y; }

/* Told where the heavy blocks end, a glance finds what the launch costs, and does not run it whole if that is too much.
 * Of sorts of which one has too few blocks there is none. */
static void test_heavy(void **state)
{
    static const struct {
        uint32_t heavy;
        bool right;
    } x[] = {{40, true}, {8, false}};
    unsigned level = 0;
    rw_hooks.glance = 1;
    while (strcmp(rw_block_fusion.levels[level], "global"))
        level++;
    for (size_t k = 0; k < sizeof x / sizeof x[0]; k++) {
        struct world w;
        struct asked a;
        struct dev_cost whole[2];
        open_edit(&w, &rw_block_fusion, level);
        w.x.part.p[0].heavy = x[k].heavy;
        glanced(&w, &a, whole);
        assert_int_equal(about(a.cost[0].instructions, whole[0].instructions), x[k].right);
        close_edit(&w);
    }
    rw_hooks.glance = 0;
}

/* A chain is hopeless or not as a whole; what it costs, its launches say one by one. */
static void test_chain(void **state)
{
    for (int answer = 0; answer < 2; answer++) {
        struct world w;
        struct rw_trial t;
        struct dt_err e = {0};
        rw_hooks.glance = 1;
        open_edit(&w, &rw_programmatic, 0);
        assert_int_equal(w.x.part.n, 2);
        w.x.part.p[0].heavy = 40;
        struct asked a = {.w = &w, .answer = answer};
        struct rw_judge judge = {ask, &a};
        assert_int_equal(rw_trial_judged(&t, &w.p.gate, &w.x, &w.next, w.fused, &judge, &e), 1);
        assert_int_equal(a.times, 1);
        assert_int_equal(t.glanced, answer);
        assert_int_equal(rw_trial_find(&w.p.gate, t.key) != NULL, !answer); /* nobody takes it for passed */
        if (!answer)
            for (int k = 0; k < 2; k++) {
                assert_true(w.next.cost[w.fused + (uint32_t)k].known);
                assert_true(about(a.cost[k].instructions, w.next.cost[w.fused + (uint32_t)k].instructions));
            }
        rw_trial_done(&t);
        close_edit(&w);
    }
    rw_hooks.glance = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_heavy), cmocka_unit_test(test_chain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
