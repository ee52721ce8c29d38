/* Prefetch (rewrite/prefetch.c): what is fetched, that every byte stays, and that the planner keeps it where the graph does not fit the L2 and the producer leaves
 * DRAM idle, and proposes nothing where all fits.
 *
 * l4 has 48 MB of L2. The producer computes for long; the consumer reads 8 MB of weights; two more launches read 48 MB each, so that less stays of the last pass.
 */
#include "rewrite-world.h"

#define SET ".reg .pred %p; .reg .b32 %r<9>; .reg .b64 %a<9>; .reg .f32 %f<9>;\nmov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; shl.b32 %r3, %r1, 8; add.u32 %r3, %r3, %r2;\n"
static const char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry busy(.param .u64 x, .param .u64 y)\n{\n" SET "mul.wide.u32 %a4, %r3, 4; ld.param.u64 %a1, [x]; ld.param.u64 %a2, [y]; add.u64 %a1, %a1, %a4;\n"
    "add.u64 %a2, %a2, %a4; ld.global.f32 %f1, [%a1]; mov.u32 %r4, 40000;\nL: add.rn.f32 %f1, %f1, %f1; sub.u32 %r4, %r4, 1; setp.ne.u32 %p, %r4, 0; @%p bra L;\n"
    "st.global.f32 [%a2], %f1; ret;\n}\n"
    /* each thread sums n vectors of w, a grid apart, and what is in h */
    ".visible .entry sum(.param .u64 w, .param .u64 h, .param .u64 y, .param .u32 n, .param .u32 step)\n{\n" SET "mul.wide.u32 %a4, %r3, 16; ld.param.u64 %a1, [w];\n"
    "ld.param.u64 %a2, [h]; ld.param.u64 %a3, [y]; ld.param.u32 %r4, [n]; ld.param.u32 %r5, [step]; cvt.u64.u32 %a8, %r5; add.u64 %a1, %a1, %a4;\n"
    "and.b32 %r6, %r3, 255; mul.wide.u32 %a6, %r6, 4; add.u64 %a2, %a2, %a6; ld.global.f32 %f5, [%a2];\n"
    "L: ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%a1]; add.rn.f32 %f5, %f5, %f1; add.rn.f32 %f5, %f5, %f2; add.rn.f32 %f5, %f5, %f3; add.rn.f32 %f5, %f5, %f4;\n"
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
    dt_str_addf(&s, "\"}}, \"buffers\": {\"x\": {\"bytes\": 59392, \"role\": \"input\", \"fill\": {\"zero\": true}}, \"h\": {\"bytes\": 59392, \"role\": \"intermediate\"},"
                    "\"w\": {\"bytes\": %u, \"role\": \"weight\", \"fill\": {\"uniform\": [-1, 1], \"dtype\": \"f32\", \"seed\": 1}},"
                    "\"v\": {\"bytes\": %u, \"role\": \"weight\", \"fill\": {\"zero\": true}}, \"y\": {\"bytes\": 524288, \"role\": \"output\"},"
                    "\"z\": {\"bytes\": 524288, \"role\": \"output\"}}, \"launches\": ["
                    "{\"name\": \"p\", \"module\": \"m\", \"entry\": \"busy\", \"grid\": [58,1,1], \"block\": [256,1,1], \"args\": [{\"buffer\": \"x\"}, {\"buffer\": \"h\"}]},"
                    "{\"name\": \"c\", \"module\": \"m\", \"entry\": \"sum\", \"grid\": [512,1,1], \"block\": [256,1,1], \"args\": [{\"buffer\": \"w\"}, {\"buffer\": \"h\"},"
                    "{\"buffer\": \"y\"}, {\"u32\": 4}, {\"u32\": %u}]},"
                    "{\"name\": \"d\", \"module\": \"m\", \"entry\": \"sum\", \"grid\": [512,1,1], \"block\": [256,1,1], \"args\": [{\"buffer\": \"v\"}, {\"buffer\": \"x\"},"
                    "{\"buffer\": \"z\"}, {\"u32\": %u}, {\"u32\": %u}]},"
                    "{\"name\": \"e\", \"module\": \"m\", \"entry\": \"sum\", \"grid\": [512,1,1], \"block\": [256,1,1], \"args\": [{\"buffer\": \"v\"}, {\"buffer\": \"h\"},"
                    "{\"buffer\": \"z\"}, {\"u32\": %u}, {\"u32\": %u}]}]}", 8 * MB, rest * MB, 2 * MB, rest / 2, 2 * MB, rest / 2, 2 * MB);
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
    static const char *const deny[] = {"block-fusion", "parallel-fusion", "programmatic-launch", "split", "dead-blocks", "recompute"};
    struct rw_options o = {.deny = deny, .ndeny = sizeof deny / sizeof *deny, .inputs = 1, .schedules = 1};
    struct dt_err e = {0};
    json_t *doc;
    must(rw_plan(dev, m->p, m->a, &o, NULL, &doc, &e), &e);
    return doc;
}

static void keeps(void **state)
{
    struct made m = make(48);
    json_t *doc = plan(&m), *row, *launches = json_object_get(doc, "launches");
    size_t i, kept = 0;
    json_array_foreach(json_object_get(doc, "rewrites"), i, row)
        kept += !strcmp(json_string_value(json_object_get(row, "verdict")), "kept");
    if (!kept)
        fail_msg("%s", json_dumps(json_object_get(doc, "rewrites"), 0));
    /* 8 MB from DRAM, as far as they miss, less what the L2 takes for them */
    double gain = json_number_value(json_object_get(json_object_get(doc, "baseline"), "time_us")) -
                  json_number_value(json_object_get(json_object_get(doc, "optimized"), "time_us"));
    double most = 8.0 * MB * (1 - 48.0 / (8 + 96 + 1.7)) / (300e3 * 0.98);
    if (!(gain > 0.6 * (most - 8.0 * MB / 2120e3) && gain < most))
        fail_msg("gain %.2f us, at most %.2f", gain, most);
    json_t *p = json_array_get(launches, 0), *arg = json_array_get(json_object_get(p, "args"), 2);
    assert_string_equal(json_string_value(json_object_get(arg, "buffer")), "w");
    assert_int_equal(json_integer_value(json_object_get(arg, "offset")), 0);
    const char *ptx = json_string_value(json_object_get(json_object_get(json_object_get(doc, "modules"), json_string_value(json_object_get(p, "module"))), "ptx"));
    assert_non_null(strstr(ptx, "prefetch.global.L2"));
    assert_non_null(strstr(ptx, "65536")); /* lines of 128 bytes */
    json_decref(doc);
    drop(&m);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps), cmocka_unit_test(fits)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
