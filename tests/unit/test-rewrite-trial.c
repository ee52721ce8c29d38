/* Planning without running the whole graph: programs made from each other, times from costs, a pair tried alone,
 * footprints carried over. Each is held against the way that runs everything. */
#include <glob.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rewrite-world.h"

#include "rewrite/facts/hooks.h"
#include "rewrite/gate/gate-priv.h"

/* The candidate of two launches, at the level of this name; `tamper` may change its text. */
static void fuse(struct world *w, uint32_t p, uint32_t c, const char *level, void (*tamper)(struct dt_str *))
{
    unsigned place = 0;
    while (rw_block_fusion.levels[place] && strcmp(rw_block_fusion.levels[place], level))
        place++;
    assert_non_null(rw_block_fusion.levels[place]);
    const uint32_t pair[2] = {p, c};
    struct dt_err e = {0};
    struct dt_str why = {0};
    enum rw_verdict v;
    must(rw_edit_init(&w->x, &rw_block_fusion, dev_info(w->dev), &w->opt, &w->p.state.p[0], pair, 2, &e), &e);
    int r = w->x.kind->open(&w->x, &v, &why, &e);
    r = r ? r : w->x.kind->build(&w->x, place, &why, &e);
    if (r)
        fail_msg("%s", r < 0 ? e.detail : why.s);
    dt_str_done(&why);
    assert_int_equal(w->x.part.n, 1);
    snprintf(w->x.part.p[0].module, sizeof w->x.part.p[0].module, "f0");
    if (tamper)
        tamper(&w->x.part.p[0].ptx);
    must(rw_state_make(&w->p, &w->x, &w->next, &w->fused, &e), &e);
}

static void unfuse(struct world *w)
{
    rw_state_done(&w->next);
    w->x.kind->close(&w->x);
    rw_edit_done(&w->x);
}

/* The modelled time from costs is the time of the run. */
static void test_time(void **state)
{
    struct world w;
    struct dt_err e = {0};
    struct dev_run *run;
    struct dev_time t;
    double step[8], from[8], to[8];
    world_open(&w);
    const struct rw_state *s = &w.p.state.p[0];
    must(dev_run_new(w.dev, w.prog, &run, &e), &e);
    must(dev_run_fill(run, 0, -1, &e), &e);
    must(dev_run_time(run, 1, &t, step, &e), &e);
    must(dev_run_timeline(run, from, to, &e), &e);
    assert_true(t.time_us > 0 && t.time_us == s->time.time_us);
    assert_string_equal(t.method, s->time.method);
    for (uint32_t k = 0; k < w.graph->nlaunch; k++) {
        assert_true(step[k] == s->step_us[k]);
        assert_true(from[k] == s->begin_us[k] && to[k] == s->end_us[k]);
    }
    /* all doubts at once, and one by one */
    double us[32];
    unsigned ndoubt = 0, moot = 0;
    while (dev_doubt(w.dev, ndoubt, &(bool){false}))
        ndoubt++;
    assert_true(ndoubt > 1 && ndoubt <= 32);
    must(dev_model_doubts(w.dev, w.prog, s->cost, NULL, ndoubt, us, &e), &e);
    for (unsigned k = 0; k < ndoubt; k++) {
        int r = dev_model_time(w.dev, w.prog, s->cost, NULL, k, &t, NULL, NULL, NULL, &e);
        must(r, &e);
        moot += r == 1;
        assert_true(r == 1 ? us[k] < 0 : us[k] == t.time_us);
    }
    assert_true(moot && moot < ndoubt);
    struct dev_cost none[8] = {0};
    assert_int_equal(dev_model_doubts(w.dev, w.prog, none, NULL, ndoubt, us, &e), DT_E_INTERNAL);
    dt_err_done(&e);
    assert_int_equal(dev_model_time(w.dev, w.prog, none, NULL, 0, &t, NULL, NULL, NULL, &e), DT_E_INTERNAL);
    dt_err_done(&e);
    dev_run_free(run);
    world_close(&w);
}

/* A derived program shares what is the same, and does not need the other any more. */
static void test_derive(void **state)
{
    struct world w;
    struct dt_err e = {0};
    struct dev_prog *first, *second;
    struct dev_run *run;
    world_open(&w);
    must(dev_prog_new(w.dev, w.graph, NULL, NULL, &first, &e), &e);
    must(dev_prog_derive(w.dev, w.graph, first, NULL, NULL, &second, &e), &e);
    assert_ptr_equal(first->module[0].ir, second->module[0].ir);
    assert_ptr_not_equal(first->module[0].ir, w.prog->module[0].ir);
    for (uint32_t k = 0; k < w.graph->nlaunch; k++) {
        assert_ptr_equal(first->step[k].entry, second->step[k].entry);
        assert_int_equal(first->step[k].res.registers, second->step[k].res.registers);
        assert_int_equal(first->step[k].blocks_per_sm, second->step[k].blocks_per_sm);
    }
    dev_prog_free(first);
    must(dev_run_new(w.dev, second, &run, &e), &e);
    must(dev_run_fill(run, 0, -1, &e), &e);
    must(dev_run_once(run, &e), &e);
    dev_run_free(run);
    dev_prog_free(second);
    world_close(&w);
}

/* Only what was asked for is loaded, and only that runs. */
static void test_steps(void **state)
{
    struct world w;
    struct dt_err e = {0};
    struct dev_run *run;
    bool wanted[8] = {[1] = true};
    world_open(&w);
    must(dev_run_new_for(w.dev, w.prog, wanted, &run, &e), &e);
    must(dev_run_step(run, 1, &e), &e);
    assert_int_equal(dev_run_step(run, 0, &e), DT_E_USAGE);
    dt_err_done(&e);
    assert_int_equal(dev_run_step(run, 99, &e), DT_E_USAGE);
    dt_err_done(&e);
    dev_run_free(run);
    world_close(&w);
}

static void test_agree(void **state)
{
    struct world w;
    struct dt_err e = {0};
    struct rw_trial t;
    world_open(&w);
    for (int k = 0; k < 2; k++) {
        fuse(&w, 0, 1, k ? "global" : "shared", NULL);
        assert_int_equal(rw_trial_begin(&t, &w.p.gate, &w.x, &w.next, w.fused, &e), 1);
        assert_false(t.known);
        assert_true(w.next.cost[w.fused].known);
        must(rw_trial_finish(&t, &e), &e);
        rw_trial_done(&t);
        /* the time from costs is the time of a run of the new graph */
        must(rw_state_time(&w.p, &w.next, &e), &e);
        double modelled = w.next.time.time_us;
        free(w.next.cost);
        w.next.cost = NULL;
        must(rw_state_time(&w.p, &w.next, &e), &e);
        assert_true(modelled == w.next.time.time_us);
        unfuse(&w);
    }
    /* the second pair is the first over again: same text, same arguments but for the buffers */
    fuse(&w, 3, 4, "global", NULL);
    assert_int_equal(rw_trial_begin(&t, &w.p.gate, &w.x, &w.next, w.fused, &e), 1);
    assert_true(t.known && w.next.cost[w.fused].known);
    must(rw_trial_finish(&t, &e), &e);
    rw_trial_done(&t);
    unfuse(&w);
    world_close(&w);
}

static void wrong_constant(struct dt_str *ptx)
{
    char *at = strstr(ptx->s, "0f40000000");
    assert_non_null(at);
    memcpy(at, "0f40000001", 10);
}

/* an address that is off by one element: the last thread leaves the buffer */
static void next_element(struct dt_str *ptx)
{
    char *at = ptx->s, *last = NULL;
    while ((at = strstr(at, "st.global.f32 ["))) {
        last = at;
        at++;
    }
    assert_non_null(last);
    at = strchr(last, ']');
    assert_memory_equal(at, "],", 2);
    struct dt_str s = {0};
    dt_str_addn(&s, ptx->s, (size_t)(at - ptx->s));
    dt_str_add(&s, "+4");
    dt_str_add(&s, at);
    dt_str_done(ptx);
    *ptx = s;
}

static void endless(struct dt_str *ptx) /* fused text that never ends must not hang the planner */
{
    char *at = strstr(ptx->s, "\tret;");
    if (!at)
        at = strstr(ptx->s, "ret;");
    assert_non_null(at);
    struct dt_str s = {0};
    dt_str_addn(&s, ptx->s, (size_t)(at - ptx->s));
    dt_str_add(&s, "\nOVER:\n\tbra OVER;\n");
    dt_str_add(&s, at);
    dt_str_done(ptx);
    *ptx = s;
}

static const char wrong_types[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry wrong(.param .u64 x)\n{\n"
    ".reg .u64 %rd<2>; .reg .f32 %f<2>;\nmul.wide.u32 %rd1, %f1, %f1;\nret;\n}\n";

/* What failed can be reproduced from what is left behind: both programs as documents, and the words. With `kernel` it
 * is a kernel that fails before there is a plan with it. */
static void bundle(struct world *w, const char *kernel, const char *words)
{
    char dir[] = "/tmp/dovetail-bundles-XXXXXX", pattern[64];
    static const char *const name[] = {"original.json", "plan.json", "what.txt"};
    assert_non_null(mkdtemp(dir));
    setenv("DOVETAIL_BUNDLES", dir, 1);
    if (kernel) {
        struct ptx_module *m;
        struct dt_str text = {0};
        struct dt_err bad = {0};
        must(ptx_parse(kernel, strlen(kernel), &m, &bad), &bad);
        assert_int_equal(rw_text(m, w->prog, &text, &bad), DT_E_PTX);
        assert_string_equal(bad.detail, words);
        assert_null(text.s);
        dt_err_done(&bad);
        ptx_module_free(m);
    } else {
        rw_bundle(w->prog, w->next.prog, words);
    }
    unsetenv("DOVETAIL_BUNDLES");
    for (int k = 0; k < 3; k++) {
        glob_t g;
        char *text;
        size_t len;
        struct dt_err e = {0};
        snprintf(pattern, sizeof pattern, "%s/*/%s", dir, name[k]);
        assert_int_equal(glob(pattern, 0, NULL, &g), 0);
        assert_int_equal(g.gl_pathc, 1);
        must(dt_read_file(g.gl_pathv[0], 1 << 20, &text, &len, &e), &e);
        if (k == 2) {
            assert_string_equal(text, words);
        } else { /* each is a graph that is taken */
            struct dt_graph *back;
            must(dt_graph_parse(text, len, &back, &e), &e);
            assert_int_equal(back->nlaunch, k && !kernel ? w->next.graph->nlaunch : w->graph->nlaunch);
            assert_int_equal(!!strstr(text, "mul.wide.u32"), k && kernel);
            dt_graph_free(back);
        }
        free(text);
        unlink(g.gl_pathv[0]);
        if (k == 2) {
            *strrchr(g.gl_pathv[0], '/') = 0;
            rmdir(g.gl_pathv[0]);
        }
        globfree(&g);
    }
    assert_int_equal(rmdir(dir), 0);
}

/* The newest 64 stay; what is no bundle is left alone, and the same one is not left twice. */
static void test_bundles_kept(void **state)
{
    char dir[] = "/tmp/dovetail-bundles-XXXXXX", path[96], text[64];
    struct world w;
    glob_t g;
    struct stat st;
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/0123456789abcdef", dir); /* a folder of somebody else's */
    assert_int_equal(mkdir(path, 0700), 0);
    setenv("DOVETAIL_BUNDLES", dir, 1);
    world_open(&w);
    for (int k = 0; k < 70; k++) {
        snprintf(text, sizeof text, "// %d", k / 2 * 2 == 6 ? 6 : k);
        rw_bundle_kernel(w.prog, text, text);
    }
    world_close(&w);
    unsetenv("DOVETAIL_BUNDLES");
    snprintf(path, sizeof path, "%s/*/what.txt", dir);
    assert_int_equal(glob(path, 0, NULL, &g), 0);
    assert_int_equal(g.gl_pathc, 64);
    bool seen[70] = {false};
    for (size_t k = 0; k < g.gl_pathc; k++) {
        char *what;
        size_t len;
        assert_int_equal(dt_read_file(g.gl_pathv[k], 64, &what, &len, NULL), 0);
        seen[atoi(what + 3)] = true;
        free(what);
        *strrchr(g.gl_pathv[k], '/') = 0;
        static const char *const name[] = {"what.txt", "plan.json", "original.json"};
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof path, "%s/%s", g.gl_pathv[k], name[i]);
            assert_int_equal(unlink(path), 0);
        }
        assert_int_equal(stat(g.gl_pathv[k], &st), 0);
        assert_int_equal(st.st_mode & 0777, 0700);
        assert_int_equal(rmdir(g.gl_pathv[k]), 0);
    }
    globfree(&g);
    /* times of files are a few milliseconds apart: which of the first ones went is open */
    for (int k = 32; k < 70; k++)
        assert_true(seen[k]);
    assert_false(seen[7]); /* it was number 6 again */
    snprintf(path, sizeof path, "%s/0123456789abcdef", dir);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void test_differ(void **state)
{
    static void (*const tamper[])(struct dt_str *) = {wrong_constant, next_element, endless};
    static const int want[] = {DT_E_INTERNAL, DT_E_BOUNDS, DT_E_TIMEOUT};
    struct world w;
    struct rw_trial t;
    world_open(&w);
    for (int k = 0; k < 3; k++) {
        struct dt_err e = {0};
        fuse(&w, 3, 4, "global", tamper[k]);
        dev_set_deadline(w.dev, 300);
        int r = rw_trial_begin(&t, &w.p.gate, &w.x, &w.next, w.fused, &e);
        assert_int_equal(r, want[k]);
        if (k == 0)
            assert_non_null(strstr(e.detail, "'s' differs at byte"));
        assert_int_equal(rw_recover(w.dev, r, &e), r);
        assert_int_equal(w.p.gate.tried.n, 0); /* what failed is not remembered as passed */
        if (k == 0) {
            bundle(&w, NULL, e.detail);
            bundle(&w, wrong_types, "line 7, column 1: %f1 is .f32, which does not fit .u32");
        }
        dt_err_done(&e);
        rw_trial_done(&t);
        unfuse(&w);
    }
    world_close(&w);
}

static void one_block(struct dt_str *ptx) /* all blocks do what block 0 does */
{
    char *at = ptx->s;
    int n = 0;
    for (; (at = strstr(at, "%ctaid.x;")); n++)
        memcpy(at, "0;       ", 9);
    assert_true(n > 0);
}

/* What the first load took goes back to where it came from: no byte is another one. */
static void writes_back(struct dt_str *ptx)
{
    char *load = strstr(ptx->s, "ld.global"), *name = load ? strchr(load, '%') : NULL;
    char *comma = name ? strchr(name, ',') : NULL, *at = comma ? strchr(comma, '[') : NULL;
    char *end = at ? strchr(at, ';') : NULL;
    assert_non_null(end);
    struct dt_str s = {0};
    dt_str_addn(&s, ptx->s, (size_t)(end + 1 - ptx->s));
    dt_str_addf(&s, " st.global.f32 %.*s, %.*s;", (int)(end - at), at, (int)(comma - name), name);
    dt_str_add(&s, end + 1);
    dt_str_done(ptx);
    *ptx = s;
}

/* Of what S only reads the race detector keeps nothing: a T that writes it is refused in the first block order. */
static void test_only_reads(void **state)
{
    struct world w;
    struct rw_trial t;
    struct dt_err e = {0};
    world_open(&w);
    fuse(&w, 0, 1, "global", writes_back);
    assert_int_equal(rw_trial_begin(&t, &w.p.gate, &w.x, &w.next, w.fused, &e), 1);
    int r = rw_trial_finish(&t, &e);
    assert_int_equal(r, DT_E_BOUNDS);
    assert_non_null(strstr(e.detail, "read-only"));
    assert_int_equal(rw_recover(w.dev, r, &e), r);
    dt_err_done(&e);
    rw_trial_done(&t);
    unfuse(&w);
    world_close(&w);
}

/* Block orders that a trial left out are run at the end for what stays: equal launches once, a race is found. */
static void test_orders(void **state)
{
    struct world w;
    struct rw_trial t;
    world_open(&w);
    w.p.gate.orders = 8;
    rw_hooks.aside = true;
    for (int racy = 0; racy < 2; racy++) {
        struct dt_err e = {0};
        fuse(&w, 0, 1, "global", racy ? one_block : NULL);
        assert_true(rw_orders_can(&w.p.gate, &w.next, w.fused, 1));
        if (!racy) {
            assert_int_equal(rw_trial_begin(&t, &w.p.gate, &w.x, &w.next, w.fused, &e), 1);
            must(rw_trial_finish(&t, &e), &e);
            assert_int_equal(t.orders, RW_TRIAL_ORDERS);
            rw_trial_done(&t);
        }
        must(ana_run(w.dev, w.next.prog, NULL, &w.next.ana, &e), &e);
        size_t before = w.p.gate.tried.n;
        struct rw_orders_aside aside;
        assert_true(rw_orders_aside(&w.p.gate, &w.next, &aside)); /* in a copy of the process: the same */
        unsigned ran = w.p.gate.orders_run;
        int r = rw_orders_joined(&aside, &e);
        assert_int_equal(racy ? rw_recover(w.dev, r, &e) : r, racy ? DT_E_RACE : 0);
        assert_int_equal(w.p.gate.orders_run - ran, racy ? 0 : 7);
        assert_int_equal(w.p.gate.tried.n, before); /* what passed there is not known here */
        dt_err_done(&e);
        for (int again = 0; again < 2 && !racy; again++) {
            must(rw_orders_rest(&w.p.gate, &w.next, &e), &e);
            assert_int_equal(w.p.gate.tried.n, before + 1);
            assert_int_equal(w.p.gate.tried.p[before].orders, 8);
        }
        if (racy) {
            r = rw_orders_rest(&w.p.gate, &w.next, &e);
            assert_int_equal(rw_recover(w.dev, r, &e), DT_E_RACE);
            assert_int_equal(w.p.gate.tried.n, before);
            dt_err_done(&e);
        }
        unfuse(&w);
    }
    rw_hooks.aside = false;
    /* those of the posted launches: f and g, in turn, and no memset or copy */
    assert_true(rw_orders_work(&w.p.gate, &w.p.state.p[0]) > 0);
    w.p.gate.orders = RW_TRIAL_ORDERS;
    assert_int_equal(rw_orders_work(&w.p.gate, &w.p.state.p[0]), 0);
    world_close(&w);
}

static void capped(struct dt_str *ptx) /* what f makes is 128 at most: that shows with special values alone */
{
    char *at = strstr(ptx->s, "add.rn.f32 "), *end = at ? strchr(at, ';') : NULL, name[32] = "";
    assert_non_null(end);
    assert_int_equal(sscanf(at, "add.rn.f32 %31[^,]", name), 1);
    struct dt_str s = {0};
    dt_str_addn(&s, ptx->s, (size_t)(end + 1 - ptx->s));
    dt_str_addf(&s, "\nmin.f32 %s, %s, 0f43000000;", name, name);
    dt_str_add(&s, end + 1);
    dt_str_done(ptx);
    *ptx = s;
}

/* Special values reach a region alone, where the posted input shows nothing; equal regions run once; what cannot run
 * alone is said to. */
static void regions(bool large)
{
    struct world w;
    struct rw_trial t;
    rw_hooks.glance = large;
    world_open(&w);
    for (int wrong = 0; wrong < 2; wrong++) {
        struct dt_err e = {0};
        bool pass = wrong;
        w.p.gate.regions.parts = 0;
        fuse(&w, 0, 1, "global", wrong ? capped : NULL);
        assert_int_equal(rw_trial_begin(&t, &w.p.gate, &w.x, &w.next, w.fused, &e), 1);
        rw_trial_done(&t);
        must(ana_run(w.dev, w.next.prog, NULL, &w.next.ana, &e), &e);
        for (int again = 0; again < 2; again++) {
            must(rw_regions_check(&w.p.gate, w.prog, &w.next, 3, &pass, &e), &e);
            assert_int_equal(pass, !wrong);
            assert_int_equal(w.p.gate.regions.n, 1);
            assert_int_equal(w.p.gate.regions.distinct, 1); /* the wrong one adds none, the second look none */
            assert_int_equal(w.p.gate.regions.spared, 0);
        }
        assert_true((w.p.gate.regions.parts >= 2) == large);
        /* the whole sees the same, if it runs on such an input */
        int r = rw_verify_plan(w.dev, w.p.gate.ref, w.next.prog, w.next.ana, 1, 0, false, NULL, &e);
        assert_int_equal(r, 0);
        r = rw_verify_plan(w.dev, w.p.gate.ref, w.next.prog, w.next.ana, 2, 0, false, NULL, &e);
        assert_int_equal(r, wrong ? DT_E_INTERNAL : 0);
        dt_err_done(&e);
        if (!wrong) { /* nothing to run it on */
            struct rw_snaps *snaps = w.p.gate.snaps;
            w.p.gate.snaps = NULL;
            must(rw_regions_check(&w.p.gate, w.prog, &w.next, 3, &pass, &e), &e);
            assert_false(pass);
            w.p.gate.snaps = snaps;
            w.p.gate.original.races = true; /* nothing of it is compared alone */
            must(rw_regions_check(&w.p.gate, w.prog, &w.next, 3, &pass, &e), &e);
            assert_false(pass);
            w.p.gate.original.races = false;
        }
        unfuse(&w);
    }
    world_close(&w);
    rw_hooks.glance = 0;
}

static void test_regions(void **state)
{
    regions(false);
    regions(true); /* of 64 blocks 16 run, others on each input */
}

/* Of a run that came to nothing no shorter run is tried. */
static void test_runs(void **state)
{
    static const struct {
        const char *text;
        enum rw_verdict verdict;
        bool within;
    } cases[] = {{"[\"a\", \"b\", \"c\"]", RW_REFUSED, true},         {"[\"b\", \"c\", \"d\"]", RW_DROPPED, true},
                 {"[\"b\", \"c\", \"d\"]", RW_KEPT, false},           {"[\"a\", \"b\", \"d\"]", RW_REFUSED, false},
                 {"[\"a\", \"b\", \"c\", \"d\"]", RW_REFUSED, false}, {"[\"c\", \"d\", \"e\"]", RW_REFUSED, false}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct rw_planner p = {0};
        struct rw_entry x = {.kind = "programmatic-launch", .verdict = cases[k].verdict};
        json_t *run = json_loads(cases[k].text, 0, NULL);
        assert_true((x.launches = json_loads("[\"a\", \"b\", \"c\", \"d\"]", 0, NULL)) && run);
        assert_true(dt_push(&p.entry, x));
        if (rw_entry_within(&p, "programmatic-launch", run) != cases[k].within)
            fail_msg("%s: %s", cases[k].text, cases[k].within ? "not found" : "found");
        assert_false(rw_entry_within(&p, "split", run));
        json_decref(run);
        json_decref(x.launches);
        free(p.entry.p);
    }
}

/* A chain in which nothing moves between launches is tried launch by launch: each stands for its own, and an equal one
 * runs once. */
static void test_chain(void **state)
{
    struct world w;
    world_open(&w);
    for (int wrong = 0; wrong < 2; wrong++) {
        const uint32_t pair[2] = {3, 4};
        struct rw_state next;
        struct rw_edit x;
        struct rw_trial t;
        struct dt_err e = {0};
        struct dt_str why = {0};
        enum rw_verdict v;
        uint32_t first;
        must(rw_edit_init(&x, &rw_programmatic, dev_info(w.dev), &w.opt, &w.p.state.p[0], pair, 2, &e), &e);
        int r = x.kind->open(&x, &v, &why, &e);
        r = r ? r : x.kind->build(&x, 0, &why, &e);
        if (r)
            fail_msg("%s", r < 0 ? e.detail : why.s);
        assert_int_equal(x.part.n, 2);
        for (int k = 0; k < 2; k++)
            snprintf(x.part.p[k].module, sizeof x.part.p[k].module, "f%d", k);
        if (wrong)
            wrong_constant(&x.part.p[1].ptx);
        must(rw_state_make(&w.p, &x, &next, &first, &e), &e);
        assert_true(next.member[first] == 1 << 3 && next.member[first + 1] == 1 << 4);
        r = rw_trial_begin(&t, &w.p.gate, &x, &next, first, &e);
        assert_int_equal(r, wrong ? DT_E_INTERNAL : 1);
        if (wrong) { /* the first one is known by now, and so is nothing of the second */
            assert_non_null(strstr(e.detail, "'s' differs at byte"));
            dt_err_done(&e);
        } else {
            const struct dev_cost *s = &w.p.state.p[0].cost[3];
            assert_int_equal(t.work, s[0].instructions + s[1].instructions + next.cost[first].instructions +
                                         next.cost[first + 1].instructions);
            assert_true(next.cost[first].known && next.cost[first + 1].known && !t.repeated);
            must(rw_trial_finish(&t, &e), &e);
            assert_int_equal(t.orders, RW_TRIAL_ORDERS);
        }
        assert_int_equal(w.p.gate.tried.n, 3); /* each alone, and both */
        rw_trial_done(&t);
        rw_state_done(&next);
        x.kind->close(&x);
        rw_edit_done(&x);
    }
    world_close(&w);
}

/* The race detector need see only one of equal launches, if they are steady. */
static void test_once(void **state)
{
    static const uint32_t want[] = {0, 1, 2, 0, 1}; /* a, b, clear, c like a, d like b */
    struct world w;
    struct dt_err e = {0};
    struct rw_once o;
    world_open(&w);
    must(rw_once_new(w.dev, w.prog, &o, &e), &e);
    for (uint32_t k = 0; k < 5; k++)
        assert_int_equal(o.like[k], want[k]);
    rw_once_done(&o);
    w.graph->launch[3].grid[0] = 32; /* then it is another one */
    must(rw_once_new(w.dev, w.prog, &o, &e), &e);
    assert_true(!rw_again(&o, 3) && rw_again(&o, 4) && !rw_again(NULL, 4));
    rw_once_done(&o);
    w.graph->launch[3].grid[0] = 64;
    world_close(&w);
}

/* A "no" is shared among equal candidates that stand alike, and no other one. */
static void test_alike(void **state)
{
    enum { N = 12 };
    static const uint32_t at[][2] = {{6, 7}, {5, 6}, {0, 1}, {10, 11}};
    static const bool equal[] = {true, false, false, false};
    struct dt_str text = {0}, why = {0};
    struct dt_err e = {0};
    struct ana_options o = {0};
    struct rw_options opt = {0};
    struct rw_planner p = {.opt = &opt};
    struct dt_graph *g;
    struct dev_prog *prog;
    struct ana_result *a;
    char key[DT_SHA256_TEXT], other[DT_SHA256_TEXT];
    const uint32_t first[2] = {4, 5};
    dt_str_add(&text, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (const char *s = TEXT; *s; s++)
        dt_str_addf(&text, *s == '\n' ? "\\n" : "%c", *s);
    dt_str_add(&text, "\"}}, \"buffers\": {");
    for (int k = 0; k <= N; k++)
        dt_str_addf(&text, "%s\"b%d\": {\"bytes\": 32768, \"role\": \"%s\"}", k ? "," : "", k,
                    !k       ? "input"
                    : k == N ? "output"
                             : "intermediate");
    dt_str_add(&text, "}, \"launches\": [");
    for (int k = 0; k < N; k++)
        dt_str_addf(&text,
                    "%s{\"module\": \"m\", \"entry\": \"%s\", \"grid\": [64,1,1], \"block\": [128,1,1], \"args\":"
                    " [{\"buffer\": \"b%d\"}, {\"buffer\": \"b%d\"}]}",
                    k ? "," : "", k % 2 ? "g" : "f", k, k + 1);
    dt_str_add(&text, "]}");
    must(dt_graph_parse(text.s, text.len, &g, &e), &e);
    must(dev_open("soft:h200", &p.dev, &e), &e);
    must(dev_prog_new(p.dev, g, NULL, NULL, &prog, &e), &e);
    must(ana_run(p.dev, prog, &o, &a, &e), &e);
    struct rw_state s = {.borrowed = true, .graph = g, .prog = prog, .ana = a};
    assert_true(dt_push(&p.state, s));
    assert_true(rw_alike_key(&p, &rw_block_fusion, first, 2, key));
    for (int k = 0; k < 4; k++) {
        assert_true(rw_alike_key(&p, &rw_block_fusion, at[k], 2, other));
        assert_int_equal(!strcmp(key, other), equal[k]);
    }
    assert_true(rw_alike_key(&p, &rw_prefetch, at[0], 2, other) && strcmp(key, other) != 0);
    for (int k = 0; k < 2; k++) { /* an order may be another one later, so it is not shared; that it is slower, is */
        dt_str_add(&why, k ? "slower" : "\001rorder\002: not now");
        must(rw_entry_record(&p, &rw_block_fusion, first, 2, NULL, k ? RW_DROPPED : RW_REFUSED, &why, 2, 3, NULL, &e),
             &e);
        must(rw_alike_keep(&p, &rw_block_fusion, first, 2, key, &e), &e);
        assert_int_equal(rw_alike_record(&p, &rw_block_fusion, at[0], 2, key, &e), k);
    }
    json_t *names = rw_entry_names(&p.state.p[0], at[0], 2);
    const struct rw_entry *x = rw_entry_find(&p, "block-fusion", names);
    assert_non_null(x);
    assert_true(x->verdict == RW_DROPPED && x->before_us == 2 && x->after_us == 3);
    assert_non_null(strstr(x->reason, "slower; as "));
    json_decref(names);
    rw_alike_done(&p);
    rw_entries_free(&p.entry);
    rw_state_done(&p.state.p[0]);
    free(p.state.p);
    ana_free(a);
    dev_prog_free(prog);
    dt_graph_free(g);
    dt_str_done(&text);
    dev_close(p.dev);
}

/* Launches that stand in a neighbourhood as there was one before need not run side by side again. */
static void test_beside(void **state)
{
    enum { N = 60, ODD = 40, AWAY = 9 };
    struct dt_str text = {0};
    struct dt_err e = {0};
    struct dev_device *dev;
    struct dt_graph *g;
    struct dev_prog *p;
    struct dev_run *run;
    static uint32_t want[8192], got[8192];
    bool *seen;
    dt_str_add(&text, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (const char *s = TEXT; *s; s++)
        dt_str_addf(&text, *s == '\n' ? "\\n" : "%c", *s);
    dt_str_add(&text, "\"}}, \"buffers\": {" BUFFER("x", "inout") "," BUFFER("y", "inout") "}, \"launches\": [");
    for (int k = 0; k < N; k++) /* x to y and back; one launch is another one */
        dt_str_addf(&text,
                    "%s{\"module\": \"m\", \"entry\": \"%s\", \"grid\": [64,1,1], \"block\": [128,1,1], \"args\":"
                    " [{\"buffer\": \"%s\"}, {\"buffer\": \"%s\"}]}",
                    k ? "," : "", k == ODD ? "g" : "f", k % 2 ? "y" : "x", k % 2 ? "x" : "y");
    dt_str_add(&text, "]}");
    must(dt_graph_parse(text.s, text.len, &g, &e), &e);
    must(dev_open("soft:h200", &dev, &e), &e);
    must(dev_prog_new(dev, g, NULL, NULL, &p, &e), &e);
    must(rw_beside_seen(p, &seen, &e), &e);
    /* buffers count by first use, so x to y and y to x look alike */
    for (int k = 0; k < N; k++)
        assert_int_equal(seen[k], (k >= AWAY && k < ODD - AWAY + 1) || (k >= ODD + AWAY && k < N - AWAY + 1));
    free(seen);
    must(dev_run_new(dev, p, &run, &e), &e);
    for (int k = 0; k < 2; k++) {
        must(dev_run_fill(run, 0, 0, &e), &e);
        must(k ? rw_beside_run(dev, run, p, 1, &e) : dev_run_once(run, &e), &e);
        must(dev_run_download(run, dt_graph_find_buffer(g, "x"), k ? got : want, &e), &e);
    }
    assert_memory_equal(want, got, sizeof want);
    dev_run_free(run);
    dev_prog_free(p);
    dt_graph_free(g);
    dt_str_done(&text);
    dev_close(dev);
}

/* A run that NaNs flood ends early, any other goes to the end. */
static void test_flood(void **state)
{
    struct dt_str text = {0};
    struct dt_err e = {0};
    struct ana_options o = {0};
    struct dev_device *dev;
    struct dt_graph *g;
    struct dev_prog *p;
    struct ana_result *a;
    struct dev_run *run;
    static uint32_t nan[8192], got[8192];
    dt_str_add(&text, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (const char *s = TEXT; *s; s++)
        dt_str_addf(&text, *s == '\n' ? "\\n" : "%c", *s);
    dt_str_add(&text, "\"}}, \"buffers\": {" BUFFER("x", "inout") "," BUFFER("y", "output") "," BUFFER("z", "output"));
    dt_str_add(&text, "}, \"launches\": [");
    for (int k = 0; k < 20; k++)
        dt_str_addf(&text,
                    "{\"module\": \"m\", \"entry\": \"f\", \"grid\": [64,1,1], \"block\": [128,1,1], \"args\":"
                    " [{\"buffer\": \"%s\"}, {\"buffer\": \"%s\"}]},",
                    k % 2 ? "y" : "x", k % 2 ? "x" : "y");
    dt_str_add(&text, KEEP("last", "f", "x", "z") "]}");
    must(dt_graph_parse(text.s, text.len, &g, &e), &e);
    must(dev_open("soft:h200", &dev, &e), &e);
    must(dev_prog_new(dev, g, NULL, NULL, &p, &e), &e);
    must(ana_run(dev, p, &o, &a, &e), &e);
    must(dev_run_new(dev, p, &run, &e), &e);
    memset(nan, 0xFF, sizeof nan);
    for (int k = 0; k < 3; k++) { /* ordinary; all but a little; not enough of it */
        bool flood;
        must(dev_run_fill(run, 0, 0, &e), &e);
        for (int i = 0; i < 8192; i++)
            nan[i] = !k || i < (k == 1 ? 8 : 2048) ? 0x3F800000 : 0x7FC00000;
        must(dev_run_upload(run, dt_graph_find_buffer(g, "x"), nan, &e), &e);
        must(rw_flood_run(dev, run, a, &flood, &e), &e);
        assert_int_equal(flood, k == 1);
        must(dev_run_download(run, dt_graph_find_buffer(g, "z"), got, &e), &e);
        assert_int_equal(got[0] != 0, k != 1); /* did the last launch run? */
    }
    dev_run_free(run);
    ana_free(a);
    dev_prog_free(p);
    dt_graph_free(g);
    dev_close(dev);
    dt_str_done(&text);
}

/* Footprints and edges with a base are those of a whole analysis. */
static void test_analysis(void **state)
{
    struct world w;
    struct dt_err e = {0};
    struct ana_options o = {0};
    struct ana_result *whole, *part;
    world_open(&w);
    fuse(&w, 0, 1, "global", NULL);
    must(ana_run(w.dev, w.next.prog, &o, &whole, &e), &e);
    o.base = w.ana;
    o.same = w.next.from;
    must(ana_run(w.dev, w.next.prog, &o, &part, &e), &e);
    json_t *x = ana_to_json(whole, dev_info(w.dev), NULL, true), *y = ana_to_json(part, dev_info(w.dev), NULL, true);
    assert_true(x && json_equal(x, y));
    json_decref(x);
    json_decref(y);
    ana_free(whole);
    ana_free(part);
    unfuse(&w);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time),     cmocka_unit_test(test_derive),       cmocka_unit_test(test_steps),
        cmocka_unit_test(test_agree),    cmocka_unit_test(test_bundles_kept), cmocka_unit_test(test_differ),
        cmocka_unit_test(test_chain),    cmocka_unit_test(test_once),         cmocka_unit_test(test_flood),
        cmocka_unit_test(test_analysis), cmocka_unit_test(test_orders),       cmocka_unit_test(test_only_reads),
        cmocka_unit_test(test_regions),  cmocka_unit_test(test_alike),        cmocka_unit_test(test_beside),
        cmocka_unit_test(test_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
