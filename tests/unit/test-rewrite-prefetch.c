/* Prefetch (rewrite/kinds/prefetch.c): what is fetched, by whom and how, that every byte stays, and that the planner
 * keeps it where the graph does not fit the L2 and the producer leaves DRAM idle, and proposes nothing where all fits.
 *
 * l4 has 48 MB of L2. The producer computes for long; the consumer reads 8 MB of weights; two more launches read 48 MB
 * each, so that less stays of the last pass.
 */
#include <math.h>

#include "rewrite-world.h"
#include "softgpu/sg.h"

#define SET                                                                                                            \
    ".reg .pred %p; .reg .b32 %r<9>; .reg .b64 %a<9>; .reg .f32 %f<9>;\nmov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; "  \
    "shl.b32 %r3, %r1, 8; add.u32 %r3, %r3, %r2;\n"
static const char text[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry busy(.param .u64 x, .param .u64 y)\n{\n" SET
    "mul.wide.u32 %a4, %r3, 4; ld.param.u64 %a1, [x]; ld.param.u64 %a2, [y]; add.u64 %a1, %a1, %a4;\n"
    "add.u64 %a2, %a2, %a4; ld.global.f32 %f1, [%a1]; mov.u32 %r4, 40000;\nL: add.rn.f32 %f1, %f1, %f1; sub.u32 %r4, "
    "%r4, 1; setp.ne.u32 %p, %r4, 0; @%p bra L;\n"
    "st.global.f32 [%a2], %f1; ret;\n}\n"
    /* each thread sums n vectors of w, a grid apart, and what is in h */
    ".visible .entry sum(.param .u64 w, .param .u64 h, .param .u64 y, .param .u32 n, .param .u32 step)\n{\n" SET
    "mul.wide.u32 %a4, %r3, 16; ld.param.u64 %a1, [w];\n"
    "ld.param.u64 %a2, [h]; ld.param.u64 %a3, [y]; ld.param.u32 %r4, [n]; ld.param.u32 %r5, [step]; cvt.u64.u32 %a8, "
    "%r5; add.u64 %a1, %a1, %a4;\n"
    "and.b32 %r6, %r3, 255; mul.wide.u32 %a6, %r6, 4; add.u64 %a2, %a2, %a6; ld.global.f32 %f5, [%a2];\n"
    "L: ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%a1]; add.rn.f32 %f5, %f5, %f1; add.rn.f32 %f5, %f5, %f2; add.rn.f32 "
    "%f5, %f5, %f3; add.rn.f32 %f5, %f5, %f4;\n"
    "add.u64 %a1, %a1, %a8; sub.u32 %r4, %r4, 1; setp.ne.u32 %p, %r4, 0; @%p bra L;\n"
    "mul.wide.u32 %a5, %r3, 4; add.u64 %a3, %a3, %a5; st.global.f32 [%a3], %f5; ret;\n}\n";

#define MB (1u << 20)

static struct dev_device *dev;

static int setup(void **state)
{
    struct dt_err e = {0};
    must(dev_open("soft:l4", &dev, &e), &e);
    return 0;
}

static int teardown(void **state)
{
    dev_close(dev);
    return 0;
}

struct made {
    struct dt_graph *g;
    struct dev_prog *p;
    struct ana_result *a;
};

/* rest: MB that the third launch reads. */
static struct made make(unsigned rest)
{
    struct made m;
    struct dt_str s = {0};
    struct dt_err e = {0};
    dt_str_add(&s, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (const char *t = text; *t; t++)
        dt_str_addf(&s, *t == '\n' ? "\\n" : "%c", *t);
    dt_str_addf(&s,
                "\"}}, \"buffers\": {\"x\": {\"bytes\": 59392, \"role\": \"input\", \"fill\": {\"zero\": true}}, "
                "\"h\": {\"bytes\": 59392, \"role\": \"intermediate\"},"
                "\"w\": {\"bytes\": %u, \"role\": \"weight\", \"fill\": {\"uniform\": [-1, 1], \"dtype\": \"f32\", "
                "\"seed\": 1}},"
                "\"v\": {\"bytes\": %u, \"role\": \"weight\", \"fill\": {\"zero\": true}}, \"y\": {\"bytes\": 524288, "
                "\"role\": \"output\"},"
                "\"z\": {\"bytes\": 524288, \"role\": \"output\"}}, \"launches\": ["
                "{\"name\": \"p\", \"module\": \"m\", \"entry\": \"busy\", \"grid\": [58,1,1], \"block\": [256,1,1], "
                "\"args\": [{\"buffer\": \"x\"}, {\"buffer\": \"h\"}]},"
                "{\"name\": \"c\", \"module\": \"m\", \"entry\": \"sum\", \"grid\": [512,1,1], \"block\": [256,1,1], "
                "\"args\": [{\"buffer\": \"w\"}, {\"buffer\": \"h\"},"
                "{\"buffer\": \"y\"}, {\"u32\": 4}, {\"u32\": %u}]},"
                "{\"name\": \"d\", \"module\": \"m\", \"entry\": \"sum\", \"grid\": [512,1,1], \"block\": [256,1,1], "
                "\"args\": [{\"buffer\": \"v\"}, {\"buffer\": \"x\"},"
                "{\"buffer\": \"z\"}, {\"u32\": %u}, {\"u32\": %u}]},"
                "{\"name\": \"e\", \"module\": \"m\", \"entry\": \"sum\", \"grid\": [512,1,1], \"block\": [256,1,1], "
                "\"args\": [{\"buffer\": \"v\"}, {\"buffer\": \"h\"},"
                "{\"buffer\": \"z\"}, {\"u32\": %u}, {\"u32\": %u}]}]}",
                8 * MB, rest * MB, 2 * MB, rest / 2, 2 * MB, rest / 2, 2 * MB);
    must(dt_graph_parse(s.s, s.len, &m.g, &e), &e);
    must(dev_prog_new(dev, m.g, NULL, NULL, &m.p, &e), &e);
    must(ana_run(dev, m.p, NULL, &m.a, &e), &e);
    dt_str_done(&s);
    return m;
}

static void drop(struct made *m)
{
    ana_free(m->a);
    dev_prog_free(m->p);
    dt_graph_free(m->g);
}

static json_t *plan(struct made *m)
{
    static const char *const deny[] = {
        "block-fusion", "parallel-fusion", "programmatic-launch", "split", "dead-blocks", "recompute", "versions",
        "calls",        "copies",          "narrow-blocks",       "slice", "tails",       "pack",      "roles"};
    struct rw_options o = {.deny = deny, .ndeny = sizeof deny / sizeof *deny, .inputs = 1, .schedules = 1};
    struct dt_err e = {0};
    json_t *doc;
    must(rw_plan(dev, m->p, m->a, &o, NULL, &doc, &e), &e);
    return doc;
}

/* What the plan says that it takes, which rests on a few blocks and on what is known of what is prefetched, against a
 * run of all of it. */
static void as_it_runs(const json_t *doc)
{
    struct dt_graph *g;
    struct dev_prog *p;
    struct dev_run *run;
    struct dev_time t;
    struct dt_err e = {0};
    char *all = json_dumps(doc, 0);
    must(dt_graph_parse(all, strlen(all), &g, &e), &e);
    must(dev_prog_new(dev, g, NULL, NULL, &p, &e), &e);
    must(dev_run_new(dev, p, &run, &e), &e);
    must(dev_run_fill(run, 0, 0, &e), &e);
    must(dev_run_time(run, 1, &t, NULL, &e), &e);
    double says = json_number_value(json_object_get(json_object_get(doc, "optimized"), "time_us"));
    if (fabs(t.time_us - says) > 0.002 * says)
        fail_msg("it says %.3f us and takes %.3f us", says, t.time_us);
    dev_run_free(run);
    dev_prog_free(p);
    dt_graph_free(g);
    free(all);
}

static void keeps(void **state)
{
    struct made m = make(48);
    json_t *doc = plan(&m), *row, *launches = json_object_get(doc, "launches");
    size_t i, kept = 0;
    json_array_foreach (json_object_get(doc, "rewrites"), i, row)
        kept += !strcmp(json_string_value(json_object_get(row, "verdict")), "kept");
    if (!kept)
        fail_msg("%s", json_dumps(json_object_get(doc, "rewrites"), 0));
    /* 8 MB of w from DRAM, as far as they miss; at most half of the L2 more, of what the third launch reads */
    double gain = json_number_value(json_object_get(json_object_get(doc, "baseline"), "time_us")) -
                  json_number_value(json_object_get(json_object_get(doc, "optimized"), "time_us"));
    double least = 8.0 * MB * 0.74 / (300e3 * 0.98), most = (8.0 + 24.0) * MB / (300e3 * 0.98);
    if (!(gain > 0.6 * least && gain < most))
        fail_msg("gain %.2f us, from %.2f to %.2f", gain, least, most);
    json_t *p = json_array_get(launches, 0), *arg = json_array_get(json_object_get(p, "args"), 2);
    /* a wave */
    assert_int_equal(json_integer_value(json_array_get(json_object_get(p, "grid"), 0)),
                     58 + 65536 / 32 - (58 + 65536 / 32 > 348 ? 58 + 65536 / 32 - 348 : 0));
    assert_string_equal(json_string_value(json_object_get(arg, "buffer")), "w");
    assert_int_equal(json_integer_value(json_object_get(arg, "offset")), 0);
    const char *ptx = json_string_value(json_object_get(
        json_object_get(json_object_get(doc, "modules"), json_string_value(json_object_get(p, "module"))), "ptx"));
    assert_non_null(strstr(ptx, "prefetch.global.L2"));
    assert_non_null(strstr(ptx, "65536")); /* lines of 128 bytes */
    as_it_runs(doc);
    json_decref(doc);
    drop(&m);
}

/* Small ones, the edit alone: the producer stores how large it sees its grid, the consumer reads 4 bytes a thread of w,
 * from an odd place on. */
#define GRID                                                                                                           \
    "cvt.rn.f32.u32 %f2, %r5; cvt.rn.f32.u32 %f3, %r6; fma.rn.f32 %f1, %f2, 0f3F000000, %f1; add.rn.f32 %f1, %f1, "    \
    "%f3;\n"
static const char small[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry p(.param .u64 x, .param .u64 y)\n{\n.reg .b32 %r<9>; .reg .b64 %a<9>; .reg .f32 %f<9>;\nmov.u32 "
    "%r1, %ctaid.x; mov.u32 %r2, %tid.x; mov.u32 %r4, %ctaid.y; "
    "mov.u32 %r5, %nctaid.x; mov.u32 %r6, %nctaid.y; mad.lo.u32 %r1, %r4, %r5, %r1; shl.b32 %r3, %r1, 6; add.u32 %r3, "
    "%r3, %r2; mul.wide.u32 %a4, %r3, 4;\n"
    "ld.param.u64 %a1, [x]; ld.param.u64 %a2, [y]; add.u64 %a1, %a1, %a4; add.u64 %a2, %a2, %a4; ld.global.f32 %f1, "
    "[%a1];\n" GRID "st.global.f32 [%a2], %f1; ret;\n}\n"
    ".visible .entry c(.param .u64 w, .param .u64 h, .param .u64 y)\n{\n.reg .b32 %r<9>; .reg .b64 %a<9>; .reg .f32 "
    "%f<9>;\nmov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;\n"
    "shl.b32 %r3, %r1, 6; add.u32 %r3, %r3, %r2; mul.wide.u32 %a4, %r3, 4; ld.param.u64 %a1, [w]; ld.param.u64 %a2, "
    "[h]; ld.param.u64 %a3, [y]; add.u64 %a1, %a1, %a4;\n"
    "add.u64 %a3, %a3, %a4; and.b64 %a5, %a4, 1023; add.u64 %a2, %a2, %a5; ld.global.f32 %f1, [%a1]; ld.global.f32 "
    "%f2, [%a2]; add.rn.f32 %f1, %f1, %f2; st.global.f32 [%a3], %f1; ret;\n}\n";

static const struct {
    const char *device;
    unsigned grid[2], shared, consumers, offset;
    unsigned after[2]; /* the new grid */
    bool pieces;
} fetches[] = {
    {"soft:h200", {100, 1}, 0, 160, 36, {101, 1}, true},      /* 10 pieces: one block more */
    {"soft:h200", {100, 1}, 0, 1600, 4, {104, 1}, true},      /* 100 pieces */
    {"soft:h200", {4, 25}, 0, 160, 0, {4, 26}, true},         /* a row */
    {"soft:h200", {132, 1}, 200000, 160, 12, {132, 1}, true}, /* a block an SM, a whole wave: leading instructions */
    {"soft:h200", {140, 1}, 200000, 160, 12, {141, 1}, true}, {"soft:h200", {11, 24}, 200000, 160, 20, {11, 24}, true},
    {"soft:h200", {100, 1}, 0, 3, 4, {101, 1}, false},  /* 768 bytes: by lines */
    {"soft:l4", {100, 1}, 0, 160, 36, {110, 1}, false}, /* 320 lines */
    {"soft:l4", {58, 1}, 60000, 160, 100, {58, 1}, false},    {"soft:a100", {100, 1}, 0, 16, 500, {101, 1}, false},
};

static struct made make_small(struct dev_device *on, size_t k)
{
    struct made m;
    struct dt_str s = {0};
    struct dt_err e = {0};
    unsigned blocks = fetches[k].grid[0] * fetches[k].grid[1];
    dt_str_add(&s, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (const char *t = small; *t; t++)
        dt_str_addf(&s, *t == '\n' ? "\\n" : "%c", *t);
    dt_str_addf(&s,
                "\"}}, \"buffers\": {\"x\": {\"bytes\": %u, \"role\": \"input\", \"fill\": {\"uniform\": [-1, 1], "
                "\"dtype\": \"f32\", \"seed\": 3}},"
                "\"h\": {\"bytes\": %u, \"role\": \"intermediate\"}, \"w\": {\"bytes\": %u, \"role\": \"weight\", "
                "\"fill\": {\"uniform\": [-1, 1], \"dtype\": \"f32\", \"seed\": 1}},"
                "\"y\": {\"bytes\": %u, \"role\": \"output\"}}, \"launches\": ["
                "{\"name\": \"p\", \"module\": \"m\", \"entry\": \"p\", \"grid\": [%u,%u,1], \"block\": [64,1,1], "
                "\"shared\": %u, \"args\": [{\"buffer\": \"x\"}, {\"buffer\": \"h\"}]},"
                "{\"name\": \"c\", \"module\": \"m\", \"entry\": \"c\", \"grid\": [%u,1,1], \"block\": [64,1,1], "
                "\"args\": [{\"buffer\": \"w\", \"offset\": %u}, {\"buffer\": \"h\"}, {\"buffer\": \"y\"}]}]}",
                256 * blocks, 256 * blocks, 256 * fetches[k].consumers + 4096, 256 * fetches[k].consumers,
                fetches[k].grid[0], fetches[k].grid[1], fetches[k].shared, fetches[k].consumers, fetches[k].offset);
    must(dt_graph_parse(s.s, s.len, &m.g, &e), &e);
    must(dev_prog_new(on, m.g, NULL, NULL, &m.p, &e), &e);
    must(ana_run(on, m.p, NULL, &m.a, &e), &e);
    dt_str_done(&s);
    return m;
}

static struct sg_stats stats_of(struct dev_run *run, uint32_t step)
{
    struct dt_err e = {0};
    struct dev_cost cost;
    must(dev_run_step(run, step, &e), &e);
    must(dev_run_cost(run, step, &cost, &e), &e);
    /* places: softgpu/libcuda/extension.c */
    return (struct sg_stats){.prefetched_bytes = cost.work[25], .fetched_read_bytes = cost.work[26]};
}

static void by_whom(void **state)
{
    for (size_t k = 0; k < sizeof fetches / sizeof *fetches; k++) {
        struct dev_device *on;
        struct dt_err e = {0};
        struct dt_str why = {0};
        struct rw_edit x;
        enum rw_verdict v;
        struct dt_graph *h;
        struct dev_prog *q;
        struct dev_run *run;
        must(dev_open(fetches[k].device, &on, &e), &e);
        struct made m = make_small(on, k);
        const struct rw_state now = {.graph = m.g, .prog = m.p, .ana = m.a};
        must(rw_edit_init(&x, &rw_prefetch, dev_info(on), NULL, &now, (const uint32_t[]){0, 1}, 2, &e), &e);
        int r = rw_prefetch.open(&x, &v, &why, &e);
        must(r == 0 ? r = rw_prefetch.build(&x, 0, &why, &e) : r, &e);
        if (r)
            fail_msg("%zu: %s", k, why.s);
        snprintf(x.part.p[0].module, sizeof x.part.p[0].module, "f0");
        json_t *doc = rw_edit_graph(&x);
        must(dt_graph_from_json(doc, &h, &e), &e);
        must(dev_prog_new(on, h, NULL, NULL, &q, &e), &e);
        if (h->launch[0].grid[0] != fetches[k].after[0] || h->launch[0].grid[1] != fetches[k].after[1])
            fail_msg("%zu: grid %u x %u", k, h->launch[0].grid[0], h->launch[0].grid[1]);
        bool bulk = strstr(x.part.p[0].ptx.s, "cp.async.bulk.prefetch.L2.global") != NULL;
        assert_int_equal(bulk, fetches[k].pieces);
        assert_int_equal(strstr(x.part.p[0].ptx.s, "prefetch.global.L2") != NULL, !bulk);
        assert_int_equal(strstr(x.part.p[0].ptx.s, ".target sm_90") != NULL, bulk);
        must(rw_verify(on, m.p, q, 2, 4, &e), &e); /* a piece that leaves the buffer would be a fault */
        /* what is fetched is what c reads, but for a sector at either end, or the rest of a line */
        must(dev_run_new(on, q, &run, &e), &e);
        must(dev_run_fill(run, 0, 0, &e), &e);
        struct sg_stats p = stats_of(run, 0), c = stats_of(run, 1);
        uint64_t lo = fetches[k].offset, hi = lo + 256 * fetches[k].consumers, all = 32 * ((hi - 1) / 32 - lo / 32 + 1),
                 unit = bulk ? 0 : 128;
        if (p.prefetched_bytes > all + 2 * unit || p.prefetched_bytes + 32 + unit < all ||
            c.fetched_read_bytes + 2 * unit < p.prefetched_bytes || c.fetched_read_bytes > p.prefetched_bytes)
            fail_msg("%zu: %llu of %llu bytes fetched, %llu of them read", k, (unsigned long long)p.prefetched_bytes,
                     (unsigned long long)all, (unsigned long long)c.fetched_read_bytes);
        bool spare = h->launch[0].grid[0] * h->launch[0].grid[1] > fetches[k].grid[0] * fetches[k].grid[1];
        if (spare != (strstr(x.part.p[0].ptx.s, "dt_own") != NULL))
            fail_msg("%zu: spare blocks %d", k, spare);
        dev_run_free(run);
        dev_prog_free(q);
        dt_graph_free(h);
        json_decref(doc);
        rw_prefetch.close(&x);
        rw_edit_done(&x);
        dt_str_done(&why);
        drop(&m);
        dev_close(on);
    }
}

/* Where the L2 has two halves, half of the budget: device figures, not compute capabilities. */
static void halves(void **state)
{
    static const struct {
        const char *device;
        unsigned halves;
    } want[] = {{"soft:a100", 2}, {"soft:h100", 2}, {"soft:h200", 2},
                {"soft:l4", 1},   {"soft:b200", 2}, {"soft:rtx5090", 1}};
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        struct dt_err e = {0};
        struct dev_device *on;
        must(dev_open(want[k].device, &on, &e), &e);
        assert_int_equal(dev_info(on)->l2_halves, want[k].halves);
        dev_close(on);
    }
}

/* All in the L2: there is nothing to fetch. */
static void fits(void **state)
{
    struct made m = make(8);
    json_t *doc = plan(&m);
    assert_int_equal(json_array_size(json_object_get(doc, "rewrites")), 0);
    json_decref(doc);
    drop(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_whom), cmocka_unit_test(halves), cmocka_unit_test(keeps),
                                       cmocka_unit_test(fits)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
