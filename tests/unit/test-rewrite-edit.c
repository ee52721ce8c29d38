/* Edits as the planner takes them: any number of launches in place of any number; streams and `after`; bytes that
 * nobody reads. */
#include "rewrite-world.h"

/* The launch's document with another name (NULL: its own), offset into both buffers, and grid. */
static json_t *piece(const struct world *w, uint32_t launch, const char *name, unsigned offset, unsigned grid)
{
    json_t *l = dt_launch_to_json(w->graph, &w->graph->launch[launch]), *args = json_object_get(l, "args");
    if (name)
        json_object_set_new(l, "name", json_string(name));
    json_object_set_new(l, "grid", json_pack("[i,i,i]", grid, 1, 1));
    for (size_t k = 0; k < json_array_size(args); k++)
        json_object_set_new(json_array_get(args, k), "offset", json_integer(offset));
    return l;
}

static void begin(struct world *w, const uint32_t *launch, uint32_t n)
{
    struct dt_err e = {0};
    must(rw_edit_init(&w->x, &rw_block_fusion, dev_info(w->dev), &w->opt, &w->p.state.p[0], launch, n, &e), &e);
}

static void end(struct world *w)
{
    rw_state_done(&w->next);
    rw_edit_done(&w->x);
}

static void unread(struct world *w, const char *buffer, uint64_t lo, uint64_t hi)
{
    struct rw_unread u = {dt_graph_find_buffer(w->graph, buffer),
                          {dt_new_array(&w->x.arena, struct ana_interval, 1), 1}};
    u.bytes.iv[0] = (struct ana_interval){lo, hi};
    assert_true(dt_push(&w->x.unread, u));
}

/* What the trial says: 1, or the error. */
static int trial(struct world *w, const char *differs)
{
    struct dt_err e = {0};
    struct rw_trial t;
    must(rw_state_make(&w->p, &w->x, &w->next, &w->fused, &e), &e);
    int r = rw_trial_begin(&t, &w->p.gate, &w->x, &w->next, w->fused, &e);
    for (uint32_t k = 0; r == 1 && k < t.n; k++)
        assert_true(w->next.cost[w->fused + k].known);
    if (r == 1)
        must(rw_trial_finish(&t, &e), &e);
    if (differs && (r != DT_E_INTERNAL || !strstr(e.detail, differs)))
        fail_msg("wanted '%s', got %d %s", differs, r, e.detail ? e.detail : "");
    rw_trial_done(&t);
    dt_err_done(&e);
    return r;
}

/* One launch for two: each half of the grid. Then a half too few, and the same half twice. */
static void test_one_for_two(void **state)
{
    struct world w;
    const uint32_t a = 0;
    world_open(&w);
    begin(&w, &a, 1);
    assert_non_null(rw_edit_add(&w.x, piece(&w, 0, "a", 0, 32)));
    assert_non_null(rw_edit_add(&w.x, piece(&w, 0, "a", 16384, 32)));
    assert_int_equal(trial(&w, NULL), 1);
    assert_int_equal(w.p.gate.tried.n, 1);
    assert_int_equal(w.next.graph->nlaunch, 6);
    assert_string_equal(w.next.graph->launch[0].name, "a"); /* what goes away gives its name free */
    assert_string_equal(w.next.graph->launch[1].name, "a~2");
    assert_string_equal(w.next.graph->launch[2].name, "b");
    for (uint32_t k = 0; k < 6; k++) {
        assert_int_equal(w.next.from[k], k < 2 ? UINT32_MAX : k - 1);
        assert_int_equal(w.next.member[k * rw_member_words(&w.p.gate)], k < 2 ? 1 : 1 << (k - 1));
    }
    struct dt_err e = {0};
    must(rw_verify(w.dev, w.prog, w.next.prog, 2, 2, &e), &e);
    end(&w);
    begin(&w, &a, 1);
    rw_edit_add(&w.x, piece(&w, 0, "a", 0, 32));
    trial(&w, "'p' differs at byte 16384");
    end(&w);
    begin(&w, &a, 1);
    rw_edit_add(&w.x, piece(&w, 0, "a", 0, 32));
    rw_edit_add(&w.x, piece(&w, 0, "b", 0, 32)); /* a name that stays is taken */
    trial(&w, "'p' differs at byte 16384");
    assert_string_equal(w.next.graph->launch[1].name, "b~2");
    end(&w);
    assert_int_equal(w.p.gate.tried.n, 1);
    world_close(&w);
}

/* Fewer blocks and no launch at all, as far as nobody reads what is missing: exactly those bytes. */
static void test_unread(void **state)
{
    struct world w;
    const uint32_t a = 0, clear = 2;
    world_open(&w);
    for (int k = 0; k < 2; k++) {
        begin(&w, &a, 1);
        rw_edit_add(&w.x, piece(&w, 0, NULL, 0, 32));
        unread(&w, "p", 16384, 32768 - (k ? 4 : 0));
        assert_int_equal(trial(&w, k ? "'p' differs at byte 32764" : NULL), k ? DT_E_INTERNAL : 1);
        end(&w);
    }
    for (int k = 0; k < 2; k++) {
        begin(&w, &clear, 1);
        if (!k)
            unread(&w, "t", 0, 32768);
        assert_int_equal(trial(&w, k ? "'t' differs at byte 0" : NULL), k ? DT_E_INTERNAL : 1);
        assert_int_equal(w.next.graph->nlaunch, 4);
        end(&w);
    }
    world_close(&w);
}

static void place(json_t *l, int stream, const char *after)
{
    json_object_set_new(l, "stream", json_integer(stream));
    json_object_set_new(l, "after", after ? json_pack("[s]", after) : json_array());
}

/* Streams and `after` go through the document; who waited for a launch that is gone waits for what stands in its place;
 * a hazard that no stream and no `after` keeps is found. */
static void test_streams(void **state)
{
    struct world w;
    struct dt_err e = {0};
    const uint32_t bc[2] = {1, 3}, b = 1;
    for (int k = 0; k < 2; k++) {
        struct ana_options o = {0};
        world_open(&w);
        begin(&w, bc, 2); /* "clear" stands between them */
        json_t *l = piece(&w, 1, NULL, 0, 64), *m = piece(&w, 3, NULL, 0, 64);
        place(l, 1, "a");
        place(m, 0, k ? "b" : NULL);
        rw_edit_add(&w.x, l)->same = 1;
        rw_edit_add(&w.x, m)->same = 3;
        must(rw_state_make(&w.p, &w.x, &w.next, &w.fused, &e), &e);
        assert_int_equal(w.fused, 2);
        assert_string_equal(w.next.graph->launch[1].name, "clear");
        assert_int_equal(w.next.graph->launch[2].stream, 1);
        assert_string_equal(w.next.graph->launch[2].after[0], "a");
        assert_int_equal(w.next.from[2], 1);
        assert_true(w.next.cost[2].known && w.next.cost[3].known);
        o.base = w.ana;
        o.same = w.next.from;
        must(ana_run(w.dev, w.next.prog, &o, &w.next.ana, &e), &e);
        int r = rw_waits_check(w.dev, w.next.prog, w.next.ana, w.prog, &e);
        assert_int_equal(r, k ? 0 : DT_E_GRAPH);
        if (!k) {
            assert_non_null(strstr(e.detail, "'c'"));
            dt_err_done(&e);
        } else {
            struct rw_edit x;
            struct dt_graph *g;
            const uint32_t now = 2;
            must(rw_edit_init(&x, &rw_block_fusion, dev_info(w.dev), &w.opt, &w.next, &now, 1, &e), &e);
            for (int h = 0; h < 2; h++) {
                json_t *p = piece(&w, b, h ? "high" : "low", h ? 16384 : 0, 32);
                place(p, 1 + h, "a");
                rw_edit_add(&x, p);
            }
            json_t *doc = rw_edit_graph(&x);
            assert_non_null(doc);
            must(dt_graph_from_json(doc, &g, &e), &e);
            uint32_t c = dt_graph_find_launch(g, "c");
            assert_int_equal(g->launch[c].nafter, 2);
            assert_string_equal(g->launch[c].after[0], "low");
            assert_string_equal(g->launch[c].after[1], "high");
            assert_true(g->streams && !g->is_plan);
            dt_graph_free(g);
            json_decref(doc);
            rw_edit_done(&x);
        }
        end(&w);
        world_close(&w);
    }
}

/* Three launches, and a launch between them that must stay there. */
static void test_order(void **state)
{
    struct world w;
    uint32_t order[5], between;
    const uint32_t abd[3] = {0, 1, 4}, abcd[4] = {0, 1, 3, 4};
    world_open(&w);
    assert_false(rw_order(w.ana, abd, 3, order, &between));
    assert_int_equal(between, 3);
    assert_true(rw_order(w.ana, abcd, 4, order, &between));
    assert_int_equal(order[0], 2); /* clear */
    assert_int_equal(order[1], 0);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_for_two),
        cmocka_unit_test(test_unread),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
