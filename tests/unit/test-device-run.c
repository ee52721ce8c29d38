/* Graphs on the software device through device/: checked, run, faulted, timed. PTX only, so that it runs without
 * NVRTC. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/str.h"
#include "device/device.h"

#define GRAPH_LAUNCH 0.85 /* us: graph_launch_us of h200 in softgpu/model/models.def */

static const char scale[] =
    ".version 7.8\\n.target sm_80\\n.address_size 64\\n.global .align 4 .u32 counter;\\n"
    ".visible .entry scale(.param .u64 x, .param .u64 y, .param .f32 f, .param .u32 n)\\n{\\n"
    ".reg .pred %p1; .reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .f32 %f<4>;\\n"
    "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.f32 %f1, [f]; ld.param.u32 %r1, [n];\\n"
    "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;\\n"
    "setp.ge.s32 %p1, %r5, %r1; @%p1 bra D;\\n"
    "mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f2, [%rd4]; mul.f32 %f3, %f2, %f1;\\n"
    "add.s64 %rd5, %rd2, %rd3; st.global.f32 [%rd5], %f3;\\nD: ret;\\n}\\n"
    ".visible .entry count()\\n{\\n.reg .b64 %rd<2>; .reg .b32 %r<2>;\\n"
    "mov.u64 %rd1, counter; atom.global.add.u32 %r1, [%rd1], 1; ret;\\n}\\n"
    ".visible .entry spin()\\n{\\nL: bra L;\\n}\\n"
    ".visible .entry traps()\\n{\\ntrap;\\n}\\n"
    ".visible .entry small() .maxntid 64, 1, 1\\n{\\nret;\\n}\\n"
    ".visible .entry exact() .reqntid 32, 2, 1\\n{\\nret;\\n}\\n"
    ".visible .entry _ZN2ns7mangledIiEEvv()\\n{\\nret;\\n}\\n";

/* A graph document round the module above; `launches` and `more` (buffers) are JSON text. */
static struct dt_graph *graph(const char *launches, const char *more)
{
    struct dt_str s = {0};
    struct dt_graph *g = NULL;
    struct dt_err e = {0};
    dt_str_addf(
        &s,
        "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"%s\"}}, \"buffers\": {"
        "\"x\": {\"bytes\": 4000, \"role\": \"input\", \"fill\": {\"uniform\": [-1, 1], \"dtype\": \"f32\", \"seed\": "
        "7}},"
        "\"h\": {\"bytes\": 4000, \"role\": \"intermediate\"}, \"y\": {\"bytes\": 4000, \"role\": \"output\"}%s},"
        "\"launches\": [%s]}",
        scale, more, launches);
    if (dt_graph_parse(s.s, s.len, &g, &e) < 0)
        fail_msg("%s at %s", e.detail, e.pointer ? e.pointer : "");
    dt_str_done(&s);
    return g;
}

#define L(x, y, n)                                                                                                     \
    "{\"module\": \"m\", \"entry\": \"scale\", \"grid\": [4, 1, 1], \"block\": [256, 1, 1], \"args\": [{\"buffer\": "  \
    "\"" x "\"}, {\"buffer\": \"" y "\"}, {\"f32\": 2}, {\"u32\": " n "}]}"

static struct dev_device *dev;

static int setup(void **state)
{
    struct dt_err e = {0};
    if (dev_open("soft", &dev, &e) < 0)
        fail_msg("%s", e.detail);
    return 0;
}

static int teardown(void **state)
{
    dev = dev_close(dev);
    return 0;
}

static void opens(void **state)
{
    struct dt_err e = {0};
    struct dev_device *d = NULL, *l4;
    assert_true(dev_info(dev)->soft);
    assert_string_equal(dev_info(dev)->model, "h200");
    assert_string_equal(dev_info(dev)->arch, "sm_90");
    assert_int_equal(dev_info(dev)->sms, 132);
    static const char *const bad[] = {"soft:voodoo", "gpu", "cuda:x", "soft:", "cuda:999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(dev_open(bad[i], &d, &e), DT_E_NO_DEVICE);
        assert_null(d);
        dt_err_done(&e);
    }
    assert_int_equal(dev_open("soft:l4", &l4, &e), 0); /* two at once */
    assert_string_equal(dev_info(l4)->arch, "sm_89");
    dev_ptr p;
    assert_int_equal(dev_alloc(dev, 100, &p, &e), 0);
    dev_free(dev, p);
    dev_close(l4);
}

static void listed(const char *spec, const struct dev_info *i, void *user)
{
    *(int *)user += !strncmp(spec, "soft:", 5) && !strcmp(spec + 5, i->model) && i->sms > 0;
}

static void lists(void **state)
{
    int n = 0;
    assert_int_equal(dev_list(listed, &n, NULL), 0);
    assert_int_equal(n, 6);
}

static void runs(void **state)
{
    struct dt_err e = {0};
    struct dev_prog *p;
    struct dev_run *r;
    struct dev_time t, again;
    struct dt_graph *g =
        graph(L("x", "h", "1000") "," L(
                  "h", "y", "1000") ", {\"memset\": {\"buffer\": \"h\", \"offset\": 0, \"bytes\": 4, \"value\": 0}}",
              ", \"m::counter\": {\"bytes\": 4, \"role\": \"inout\", \"fill\": {\"zero\": true}}");
    if (dev_prog_new(dev, g, NULL, NULL, &p, &e) < 0)
        fail_msg("%s", e.detail);
    assert_int_equal(p->step[0].blocks, 4);
    assert_int_equal(p->step[0].param_total, 24);
    assert_int_equal(p->step[0].param_offset[3], 20);
    assert_int_equal(p->step[0].blocks_per_sm, 8);
    assert_in_range(p->step[0].res.registers, 4, 32);
    assert_null(p->step[2].entry);
    if (dev_run_new(dev, p, &r, &e) < 0)
        fail_msg("%s", e.detail);
    dev_ptr x, h, base, counter;
    uint64_t bytes;
    dev_run_buffer(r, 0, &x);
    dev_run_buffer(r, 1, &h);
    dev_run_buffer(r, 3, &counter);
    dev_run_arena(r, &base, &bytes);
    assert_true(x % 256 == 0 && h % 256 == 0 && h >= x + 4000 + 512 && x >= base + 512 &&
                h + 4000 + 512 <= base + bytes);
    assert_true(counter < base || counter >= base + bytes);
    assert_int_equal(dev_run_buffer(r, 4, &x), DT_E_USAGE);

    static float in[1000], out[1000];
    assert_int_equal(dev_run_fill(r, 0, 0xab, &e), 0);
    assert_int_equal(dev_run_download(r, 2, out, &e), 0);
    assert_int_equal(((uint8_t *)out)[17], 0xab);
    assert_int_equal(dev_run_once(r, &e), 0);
    assert_int_equal(dev_run_download(r, 0, in, &e), 0);
    assert_int_equal(dev_run_download(r, 2, out, &e), 0);
    for (int i = 0; i < 1000; i++)
        assert_true(out[i] == 4 * in[i] && in[i] >= -1 && in[i] < 1);
    assert_int_equal(dev_run_fill(r, 1, -1, &e), 0); /* another seed, other input */
    float in2[1000];
    assert_int_equal(dev_run_download(r, 0, in2, &e), 0);
    assert_memory_not_equal(in, in2, sizeof in);

    double step[3];
    assert_int_equal(dev_run_time(r, 10, &t, step, &e), 0);
    assert_int_equal(dev_run_time(r, 10, &again, NULL, &e), 0);
    assert_string_equal(t.method, "modeled:h200");
    assert_true(t.time_us == again.time_us && t.ci95_us == 0 && t.launches == 3);
    double work = step[0] + step[1] + step[2];
    assert_true(t.time_us > work + 3 * (GRAPH_LAUNCH - 0.01) && t.time_us < work + 3 * (GRAPH_LAUNCH + 0.01));
    dev_run_free(r);
    dev_prog_free(p);
    dt_graph_free(g);
}

/* A plan: two launches side by side on two streams, a third after both. */
static void streams(void **state)
{
    double us[2];
    for (int plan = 0; plan < 2; plan++) {
        struct dt_err e = {0};
        struct dev_prog *p;
        struct dev_run *r;
        struct dev_time t;
        struct dt_str s = {0};
        static float in[1000], out[1000];
#define STEP(name, x, y, more)                                                                                         \
    "{\"name\": \"" name                                                                                               \
    "\", \"module\": \"m\", \"entry\": \"scale\", \"grid\": [4, 1, 1], \"block\": [256, 1, 1], \"shared\": 0,"         \
    "\"args\": [{\"buffer\": \"" x "\"}, {\"buffer\": \"" y "\"}, {\"f32\": 2}, {\"u32\": 1000}]" more "}"
        dt_str_add(&s, STEP("a", "x", "h", "") ",");
        dt_str_add(&s, plan ? STEP("b", "x", "z", ", \"stream\": 1") : STEP("b", "x", "z", ""));
        dt_str_add(&s, ",");
        dt_str_add(&s, plan ? STEP("c", "z", "y", ", \"stream\": 0, \"after\": [\"b\"]") : STEP("c", "z", "y", ""));
        struct dt_graph *g = graph(s.s, ", \"z\": {\"bytes\": 4000, \"role\": \"intermediate\"}");
        assert_int_equal(g->launch[1].stream, plan);
        assert_int_equal(g->launch[2].nafter, plan);
        if (dev_prog_new(dev, g, NULL, NULL, &p, &e) < 0 || dev_run_new(dev, p, &r, &e) < 0 ||
            dev_run_fill(r, 0, 0, &e) < 0 || dev_run_once(r, &e) < 0 || dev_run_time(r, 1, &t, NULL, &e) < 0)
            fail_msg("%s", e.detail);
        us[plan] = t.time_us;
        assert_int_equal(dev_run_download(r, 0, in, &e), 0);
        assert_int_equal(dev_run_download(r, dt_graph_find_buffer(g, "y"), out, &e), 0);
        for (int i = 0; i < 1000; i++)
            assert_true(out[i] == 4 * in[i]);
        dev_run_free(r);
        dev_prog_free(p);
        dt_graph_free(g);
        dt_str_done(&s);
    }
    assert_true(us[1] < 0.7 * us[0] && us[1] > 0.6 * us[0]); /* two in a row instead of three */
}

static void refused(const char *launches, int num, const char *pointer, const char *words)
{
    struct dt_err e = {0};
    struct dev_prog *p = NULL;
    struct dt_graph *g = graph(launches, "");
    assert_int_equal(dev_prog_new(dev, g, NULL, NULL, &p, &e), num);
    assert_null(p);
    if (!e.pointer || strcmp(e.pointer, pointer))
        fail_msg("pointer %s, not %s", e.pointer ? e.pointer : "(none)", pointer);
    if (!e.detail || !strstr(e.detail, words))
        fail_msg("\"%s\" does not say \"%s\"", e.detail, words);
    dt_err_done(&e);
    dt_graph_free(g);
}

#define ARGS(grid, block, args)                                                                                        \
    "{\"module\": \"m\", \"entry\": \"scale\", \"grid\": " grid ", \"block\": " block ", \"args\": [" args "]}"
#define XY "{\"buffer\": \"x\"}, {\"buffer\": \"y\"}, "

static void refuses(void **state)
{
    refused("{\"module\": \"m\", \"entry\": \"scaled\", \"grid\": [1,1,1], \"block\": [1,1,1], \"args\": []}",
            DT_E_NO_ENTRY, "/launches/0/entry", "scale, count, spin, traps, small, exact");
    refused("{\"module\": \"m\", \"entry\": \"ns::mangled<int>\", \"grid\": [1,1,1], \"block\": [1,1,1], \"args\": []}",
            DT_E_NO_ENTRY, "/launches/0/entry", "C++ calls it \"_ZN2ns7mangledIiEEvv\"");
    refused(L("x", "h", "1000") "," ARGS("[1,1,1]", "[1,1,1]", XY "{\"f32\": 1}"), DT_E_ARGS, "/launches/1/args",
            "4 arguments, 3");
    refused(ARGS("[1,1,1]", "[1,1,1]", XY "{\"f64\": 1}, {\"u32\": 1}"), DT_E_ARGS, "/launches/0/args/2", "8 bytes");
    refused(ARGS("[1,1,1]", "[1,1,1]", XY "{\"buffer\": \"x\"}, {\"u32\": 1}"), DT_E_ARGS, "/launches/0/args/2",
            "address");
    static const char *const wrong[] = {"{\"i32\": 1}", "{\"u32\": 8388607}", "{\"i32\": -1}", "{\"i32\": -8388607}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char args[200];
        snprintf(args, sizeof args, ARGS("[1,1,1]", "[1,1,1]", XY "%s, {\"u32\": 1}"), wrong[i]);
        refused(args, DT_E_ARGS, "/launches/0/args/2", "32 for the parameter");
    }
    /* a float's: taken */
    static const char *const bits[] = {"{\"u32\": 1065353216}", "{\"i32\": 0}", "{\"i32\": -1082130432}",
                                       "{\"u32\": \"0x3f800000\"}"};
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        char args[200];
        struct dev_prog *p = NULL;
        snprintf(args, sizeof args, ARGS("[1,1,1]", "[1,1,1]", XY "%s, {\"u32\": 1}"), bits[i]);
        struct dt_graph *g = graph(args, "");
        assert_int_equal(dev_prog_new(dev, g, NULL, NULL, &p, NULL), 0);
        dev_prog_free(p);
        dt_graph_free(g);
    }
    refused(ARGS("[1,1,1]", "[1,1,1]", XY "{\"f32\": 1}, {\"f32\": 1}"), DT_E_ARGS, "/launches/0/args/3",
            "f32 for the parameter");
    refused("{\"module\": \"m\", \"entry\": \"small\", \"grid\": [1,1,1], \"block\": [65,1,1], \"args\": []}",
            DT_E_LAUNCH, "/launches/0/block", "65 threads");
    refused("{\"module\": \"m\", \"entry\": \"exact\", \"grid\": [1,1,1], \"block\": [64,1,1], \"args\": []}",
            DT_E_LAUNCH, "/launches/0/block", "32 x 2 x 1");
    refused("{\"module\": \"m\", \"entry\": \"count\", \"grid\": [1,1,1], \"block\": [1,1,1], \"shared\": 232449, "
            "\"args\": []}",
            DT_E_LAUNCH, "/launches/0/shared", "232449 bytes");
    struct dev_device *hopper = dev;
    assert_int_equal(dev_open("soft:a100", &dev, NULL), 0);
    refused("{\"module\": \"m\", \"entry\": \"count\", \"grid\": [4,1,1], \"block\": [1,1,1], \"cluster\": [2,1,1], "
            "\"args\": []}",
            DT_E_LAUNCH, "/launches/0/cluster", "has no thread block clusters");
    dev_close(dev);
    dev = hopper;
}

/* A module, or its launch, that is wrong, by its text. */
static void bad_at(const char *ptx, int num, const char *words, const char *pointer)
{
    struct dt_str s = {0};
    struct dt_err e = {0};
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    dt_str_addf(&s,
                "{\"dovetail\": 1, \"modules\": {\"a/b\": {\"ptx\": \".version 7.8\\n.target %s\"}}, \"buffers\": {}, "
                "\"launches\": [{\"module\":"
                "\"a/b\", \"entry\": \"k\", \"grid\": [1,1,1], \"block\": [1,1,1], \"args\": []}]}",
                ptx);
    if (dt_graph_parse(s.s, s.len, &g, &e) < 0)
        fail_msg("%s", e.detail);
    assert_int_equal(dev_prog_new(dev, g, NULL, NULL, &p, &e), num);
    if (!strstr(e.detail, words))
        fail_msg("\"%s\" does not say \"%s\"", e.detail, words);
    assert_string_equal(e.pointer, pointer);
    dt_str_done(&s);
    dt_err_done(&e);
    dt_graph_free(g);
}

static void bad_module(const char *ptx, int num, const char *words) { bad_at(ptx, num, words, "/modules/a~1b"); }

static void bad_modules(void **state)
{
    bad_module("sm_80\\n.address_size 64\\n.visible .entry k()\\n{\\nfoo bar;;\\n", DT_E_PTX, "line 6");
    bad_module("sm_100\\n.address_size 64\\n.visible .entry k()\\n{\\nret;\\n}\\n", DT_E_UNSUPPORTED, "sm_100");
    bad_module("sm_80\\n.address_size 64\\n.extern .func cudaLaunchDeviceV2();\\n.visible .entry k()\\n{\\ncall.uni "
               "cudaLaunchDeviceV2;\\nret;\\n}\\n",
               DT_E_UNSUPPORTED, "device-side");
    bad_at("sm_80\\n.address_size 64\\n.func f()\\n{\\n.reg .b32 r<5>; .reg .b64 d;\\nsuld.b.1d.b32.trap {r1}, [d, "
           "{r2}];\\nret;\\n}\\n.visible .entry k()\\n{\\ncall.uni f;\\nret;\\n}\\n",
           DT_E_UNSUPPORTED, "`suld.b`, PTX line 7", "/launches/0/entry");
}

/* Functions that no launch needs are left out, however bad they are, and a derived program that needs another one gets
 * it. */
static void unneeded(void **state)
{
    static const char doc[] = "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \".version 7.8\\n.target "
                              "sm_80\\n.address_size 64\\n.extern .func nowhere;\\n"
                              ".visible .entry other()\\n{\\ncall.uni nowhere;\\nret;\\n}\\n.visible .entry "
                              "third()\\n{\\nret;\\n}\\n.visible .entry k()\\n{\\ntrap;\\n}\\n\"}},"
                              "\"buffers\": {}, \"launches\": [{\"module\": \"m\", \"entry\": \"%s\", \"grid\": "
                              "[1,1,1], \"block\": [1,1,1], \"args\": []}]}";
    static const char *const entry[] = {"k", "third", "k", "other"};
    struct dt_graph *g[4];
    struct dev_prog *p[4] = {0};
    struct dt_err e = {0};
    for (int i = 0; i < 4; i++) {
        struct dt_str s = {0};
        dt_str_addf(&s, doc, entry[i]);
        assert_int_equal(dt_graph_parse(s.s, s.len, &g[i], &e), 0);
        dt_str_done(&s);
        int r = dev_prog_derive(dev, g[i], i ? p[0] : NULL, NULL, NULL, &p[i], &e);
        if (i == 3) {
            assert_int_equal(r, DT_E_UNSUPPORTED);
            assert_non_null(strstr(e.detail, "nowhere"));
            break;
        }
        if (r < 0)
            fail_msg("%s", e.detail);
        assert_null(strstr(p[i]->module[0].ptx, "nowhere"));
        assert_null(strstr(p[i]->module[0].ptx, entry[1 - i % 2]));
        assert_int_equal(p[i]->step[0].entry->line, i == 1 ? 10 : 14); /* lines are those of the whole text */
    }
    assert_ptr_equal(p[0]->module[0].ir, p[2]->module[0].ir);
    struct dev_run *r;
    assert_int_equal(dev_run_new(dev, p[0], &r, &e) < 0 ? -1 : dev_run_fill(r, 0, -1, &e), -0);
    dt_err_done(&e);
    assert_int_equal(dev_run_once(r, &e), DT_E_TRAP);
    assert_non_null(strstr(e.detail, "PTX line 16"));
    dt_err_done(&e);
    dev_run_free(r);
    assert_int_equal(dev_reset(dev, &e), 0);
    for (int i = 0; i < 4; i++) {
        dev_prog_free(p[i]);
        dt_graph_free(g[i]);
    }
}

/* A derived program shares the base's modules of the same text: not those that are only as long, whether the base has
 * all of its text or only what it needed. */
static void same_length(void **state)
{
    static const char doc[] =
        "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \".version 7.8\\n.target sm_80\\n.address_size 64\\n%s"
        ".visible .entry k()\\n{\\n%s;\\n}\\n\"}},"
        "\"buffers\": {}, \"launches\": [{\"module\": \"m\", \"entry\": \"k\", \"grid\": [1,1,1], \"block\": [1,1,1], "
        "\"args\": []}]}";
    static const char *const more[] = {"", ".visible .entry other()\\n{\\nret;\\n}\\n"}, *const body[] = {
                                                                                             "trap", "exit", "trap"};
    for (int k = 0; k < 2; k++) {
        struct dt_graph *g[3];
        struct dev_prog *p[3] = {0};
        struct dt_err e = {0};
        for (int i = 0; i < 3; i++) {
            struct dt_str s = {0};
            dt_str_addf(&s, doc, more[k], body[i]);
            assert_int_equal(dt_graph_parse(s.s, s.len, &g[i], &e), 0);
            dt_str_done(&s);
            if (dev_prog_derive(dev, g[i], i ? p[0] : NULL, NULL, NULL, &p[i], &e) < 0)
                fail_msg("%s", e.detail);
            assert_non_null(strstr(p[i]->module[0].ptx, body[i]));
        }
        assert_ptr_not_equal(p[0]->module[0].ir, p[1]->module[0].ir);
        assert_ptr_equal(p[0]->module[0].ir, p[2]->module[0].ir);
        for (int i = 0; i < 3; i++) {
            dev_prog_free(p[i]);
            dt_graph_free(g[i]);
        }
    }
}

/* PTX of a newer compiler than the driver's: taken at the driver's version, as ptxas is asked to. */
static void newer_version(void **state)
{
    static const char ptx[] = ".version 99.7\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n";
    static const char bad[] = ".version 99.7\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nfoo;\n}\n";
    static const uint32_t one[3] = {1, 1, 1}, none[3];
    struct dt_err e = {0};
    struct dev_module_handle *m;
    if (dev_module_load(dev, ptx, strlen(ptx), &m, &e) < 0)
        fail_msg("%s", e.detail);
    assert_int_equal(dev_launch(dev, m, "k", one, one, none, 0, NULL, 0, &e), 0);
    assert_int_equal(dev_sync(dev, &e), 0);
    dev_module_unload(dev, m);
    assert_int_equal(dev_module_load(dev, bad, strlen(bad), &m, &e), DT_E_UNSUPPORTED); /* no entry of it can run */
    assert_non_null(strstr(e.detail, "foo"));
    dt_err_done(&e);
}

static void fault(const char *launch, int num, const char *words, unsigned ms)
{
    struct dt_err e = {0};
    struct dev_prog *p;
    struct dev_run *r;
    struct dt_graph *g = graph(launch, "");
    dev_set_deadline(dev, ms);
    if (dev_prog_new(dev, g, NULL, NULL, &p, &e) < 0 || dev_run_new(dev, p, &r, &e) < 0 ||
        dev_run_fill(r, 0, -1, &e) < 0)
        fail_msg("%s", e.detail);
    uint64_t t = dt_now_us();
    assert_int_equal(dev_run_once(r, &e), num);
    assert_true(dt_now_us() - t < 20000000);
    if (!strstr(e.detail, words))
        fail_msg("\"%s\" does not say \"%s\"", e.detail, words);
    dt_err_done(&e);
    assert_int_equal(dev_run_once(r, &e), num); /* it sticks */
    dt_err_done(&e);
    assert_int_equal(dev_reset(dev, &e), 0);
    assert_int_equal(dev_run_once(r, &e), DT_E_DEVICE);
    dt_err_done(&e);
    dev_run_free(r);
    dev_prog_free(p);
    dt_graph_free(g);
    dev_set_deadline(dev, 60000);
}

static void faults(void **state)
{
    fault(L("x", "y", "1001"), DT_E_BOUNDS, "block (3,0,0), thread (232,0,0)", 60000);
    fault("{\"module\": \"m\", \"entry\": \"traps\", \"grid\": [1,1,1], \"block\": [1,1,1], \"args\": []}", DT_E_TRAP,
          "traps", 60000);
    fault("{\"module\": \"m\", \"entry\": \"spin\", \"grid\": [1,1,1], \"block\": [1,1,1], \"args\": []}", DT_E_TIMEOUT,
          "spin", 300);
    runs(NULL); /* a reset device is as good as new */
}

/* A machine that gives this process no CPU time for longer than the deadline does not end its launch: the limit of
 * instructions does, as everywhere. */
static void busy(void **state)
{
    struct dt_err e = {0};
    struct dev_prog *p;
    struct dev_run *r;
    struct dt_graph *g =
        graph("{\"module\": \"m\", \"entry\": \"spin\", \"grid\": [1,1,1], \"block\": [1024,1,1], \"args\": []}", "");
    dev_set_deadline(dev, 2000);
    dev_set_limit(dev, 200000000);
    if (dev_prog_new(dev, g, NULL, NULL, &p, &e) < 0 || dev_run_new(dev, p, &r, &e) < 0 ||
        dev_run_fill(r, 0, -1, &e) < 0)
        fail_msg("%s", e.detail);
    pid_t me = getpid(), child = fork();
    if (!child) {
        usleep(20000);
        kill(me, SIGSTOP);
        usleep(2500000);
        kill(me, SIGCONT);
        _exit(0);
    }
    assert_int_equal(dev_run_once(r, &e), DT_E_TIMEOUT);
    waitpid(child, NULL, 0);
    if (!strstr(e.detail, "over the limit"))
        fail_msg("%s", e.detail);
    dt_err_done(&e);
    dev_set_limit(dev, 0);
    dev_set_deadline(dev, 60000);
    assert_int_equal(dev_reset(dev, &e), 0);
    dev_run_free(r);
    dev_prog_free(p);
    dt_graph_free(g);
}

/* What is said to be only read faults where it is written, and is as before when that is taken back. */
static void protects(void **state)
{
    struct dt_err e = {0};
    struct dev_prog *p;
    struct dev_run *r;
    struct dt_graph *g = graph(L("x", "y", "1000"), "");
    uint32_t x = dt_graph_find_buffer(g, "x"), y = dt_graph_find_buffer(g, "y");
    if (dev_prog_new(dev, g, NULL, NULL, &p, &e) < 0 || dev_run_new(dev, p, &r, &e) < 0 ||
        dev_run_protect(r, y, true, &e) < 0 || dev_run_protect(r, x, true, &e) < 0 || dev_run_fill(r, 0, -1, &e) < 0)
        fail_msg("%s", e.detail);
    assert_int_equal(dev_run_protect(r, g->nbuffer, true, &e), DT_E_USAGE);
    dt_err_done(&e);
    assert_int_equal(dev_run_protect(r, y, false, &e), 0);
    dev_set_schedule(dev, 1, true); /* x is not followed, y is */
    assert_int_equal(dev_run_once(r, &e), 0);
    dev_set_schedule(dev, 0, false);
    assert_int_equal(dev_run_protect(r, y, true, &e), 0);
    assert_int_equal(dev_run_once(r, &e), DT_E_BOUNDS);
    if (!strstr(e.detail, "read-only"))
        fail_msg("%s", e.detail);
    dt_err_done(&e);
    assert_int_equal(dev_reset(dev, &e), 0);
    dev_run_free(r);
    dev_prog_free(p);
    dt_graph_free(g);
}

static void modules(void **state)
{
    struct dt_err e = {0};
    struct dev_module_handle *m;
    struct dt_str s = {0};
    for (const char *p = scale; *p; p++) /* the same text without its JSON escapes */
        if (p[0] == '\\' && p[1] == 'n')
            dt_str_addc(&s, '\n'), p++;
        else
            dt_str_addc(&s, *p);
    if (dev_module_load(dev, s.s, s.len, &m, &e) < 0)
        fail_msg("%s", e.detail);
    dev_ptr counter;
    uint64_t bytes;
    uint32_t n = 0, one[3] = {1, 1, 1}, grid[3] = {10, 1, 1}, block[3] = {32, 1, 1};
    assert_int_equal(dev_module_variable(dev, m, "counter", &counter, &bytes, &e), 0);
    assert_int_equal(bytes, 4);
    assert_int_equal(dev_module_variable(dev, m, "nope", &counter, &bytes, &e), DT_E_NOT_FOUND);
    dt_err_done(&e);
    assert_int_equal(dev_set(dev, counter, 0, 4, &e), 0);
    dev_set_schedule(dev, 5, false);
    assert_int_equal(dev_launch(dev, m, "count", grid, block, NULL, 0, NULL, 0, &e), 0);
    assert_int_equal(dev_sync(dev, &e), 0);
    dev_set_schedule(dev, 0, false);
    assert_int_equal(dev_download(dev, &n, counter, 4, &e), 0);
    assert_int_equal(n, 320);
    assert_int_equal(dev_launch(dev, m, "nope", one, one, NULL, 0, NULL, 0, &e), DT_E_NO_ENTRY);
    dt_err_done(&e);
    dev_module_unload(dev, m);
    dt_str_done(&s);
}

/* A box of a matrix, clipped at its end, from one place to another by two tensor maps. */
static const char tiles[] =
    ".version 8.3\\n.target sm_90\\n.address_size 64\\n"
    ".visible .entry tile(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128], .param .align 8 .b8 "
    "low[128])\\n{\\n"
    ".reg .b64 %m, %n; .reg .pred %p; .shared .align 128 .b8 box[1024]; .shared .align 8 .b64 bar;\\n"
    "mov.b64 %m, from; cvta.param.u64 %m, %m; mov.b64 %n, to; cvta.param.u64 %n, %n;\\n"
    "mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;\\n"
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%m, {4, 8}], [bar];\\n"
    "WAIT: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0; @!%p bra WAIT;\\n"
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%n, {0, 0}], [box];\\n"
    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;\\n}\\n";
#define MAP(buffer, offset, type, dim, pitch, box)                                                                     \
    "{\"tensor_map\": {\"buffer\": \"" buffer "\", \"offset\": " offset ", \"tensorDataType\": " type                  \
    ", \"tensorRank\": 2, "                                                                                            \
    "\"globalDim\": " dim ", \"globalStrides\": [" pitch "], \"boxDim\": " box "}}"
#define TILE(a, b, c)                                                                                                  \
    "{\"module\": \"m\", \"entry\": \"tile\", \"grid\": [1, 1, 1], \"block\": [1, 1, 1], \"args\": [" a ", " b ", " c  \
    "]}"
#define FROM MAP("x", "32", "3", "[30, 20]", "128", "[16, 16]")
#define TO MAP("y", "0", "\"CU_TENSOR_MAP_DATA_TYPE_INT32\"", "[16, 16]", "64", "[16, 16]")
#define ZEROS "{\"bytes\": \"" Z32 Z32 Z32 Z32 Z32 Z32 Z32 Z32 "\"}"
#define Z32 "00000000000000000000000000000000"

static void tensor_maps(void **state)
{
    static const struct {
        const char *launch;
        int want;
    } bad[] = {{TILE(MAP("x", "8", "3", "[30, 20]", "128", "[16, 16]"), TO, ZEROS), DT_E_ARGS},  /* not aligned */
               {TILE(MAP("x", "32", "3", "[30, 20]", "120", "[16, 16]"), TO, ZEROS), DT_E_ARGS}, /* the pitch neither */
               {TILE(MAP("x", "32", "3", "[30, 20]", "128", "[3, 16]"), TO, ZEROS), DT_E_ARGS},  /* rows of 12 bytes */
               /* the parameter is not aligned */
               {TILE(FROM, TO, TO), DT_E_ARGS},
               {TILE(FROM, "{\"i32\": 1}", ZEROS), DT_E_ARGS}};
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        struct dt_str s = {0};
        struct dt_graph *g = NULL;
        struct dev_prog *p = NULL;
        struct dev_run *r = NULL;
        struct dt_err e = {0};
        static int in[2568 / 4 + 8], out[256];
        dt_str_addf(&s,
                    "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"%s\"}}, \"buffers\": {"
                    "\"x\": {\"bytes\": 2600, \"role\": \"input\", \"fill\": {\"uniform\": [0, 1000000], \"dtype\": "
                    "\"i32\", \"seed\": 7}},"
                    "\"y\": {\"bytes\": 1024, \"role\": \"output\"}}, \"launches\": [%s]}",
                    tiles, i ? bad[i - 1].launch : TILE(FROM, TO, ZEROS));
        if (dt_graph_parse(s.s, s.len, &g, &e) < 0)
            fail_msg("%s at %s", e.detail, e.pointer ? e.pointer : "");
        int rc = dev_prog_new(dev, g, NULL, NULL, &p, &e);
        if (rc != (i ? bad[i - 1].want : 0) || (i && strncmp(e.pointer ? e.pointer : "", "/launches/0/args/", 17)))
            fail_msg("%zu: %d: %s at %s", i, rc, e.detail, e.pointer ? e.pointer : "");
        if (!i && (dev_run_new(dev, p, &r, &e) < 0 || dev_run_fill(r, 0, 0xab, &e) < 0 || dev_run_once(r, &e) < 0 ||
                   dev_run_download(r, 0, in, &e) < 0 || dev_run_download(r, 1, out, &e) < 0))
            fail_msg("%s", e.detail);
        for (int k = 0; !i && k < 256; k++) /* row 8 on, 12 of them; element 4 on */
            assert_int_equal(out[k], k / 16 < 12 ? in[8 + (8 + k / 16) * 32 + 4 + k % 16] : 0);
        dev_run_free(r);
        dev_prog_free(p);
        dt_graph_free(g);
        dt_err_done(&e);
        dt_str_done(&s);
    }
}

/* How often each line of PTX was executed, by threads and by warps: all of a loop, half of the lanes, a line that has
 * two instructions, a function that is inlined twice, what no launch reaches, and no more after that. */
static void lines(void **state)
{
    static const char ptx[] =
        ".version 7.8\n.target sm_80\n.address_size 64\n"
        ".func (.param .b32 r) f(.param .b32 x)\n{\n.reg .b32 %r<3>; ld.param.b32 %r1, [x];\n"
        "add.u32 %r1, %r1, 1;\n" /* 7 */
        "st.param.b32 [r], %r1; ret;\n}\n"
        ".visible .entry k()\n{\n.reg .pred %p<4>; .reg .b32 %r<8>; .param .b32 x; .param .b32 r;\n"
        "mov.u32 %r1, %tid.x;\n" /* 13 */
        "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0;\n"
        "st.param.b32 [x], %r1; call (r), f, (x); ld.param.b32 %r2, [r];\n"
        "@%p1 bra M;\n"
        "st.param.b32 [x], %r2; call (r), f, (x); ld.param.b32 %r2, [r];\n" /* 17: odd lanes */
        "M:\nmov.u32 %r3, 0;\nL:\n"
        "add.u32 %r3, %r3, 1;\n" /* 21 */
        "setp.lt.u32 %p2, %r3, 10; @%p2 bra L;\n"
        "setp.gt.u32 %p3, %r1, 4096;\n"
        "@!%p3 bra N;\n"
        "mov.u32 %r3, 1;\n" /* 25 */
        "N:\nret;\n}\n";
    const uint32_t grid[3] = {3, 1, 1}, block[3] = {80, 1, 1}, one[3] = {1, 1, 1};
    struct dovetail_line line[26] = {{0}};
    struct dev_module_handle *m;
    struct dt_err e = {0};
    if (dev_module_load(dev, ptx, strlen(ptx), &m, &e) < 0)
        fail_msg("%s", e.detail);
    assert_int_equal(dev_count_lines(dev, line, 26, NULL), 0);
    assert_int_equal(dev_launch(dev, m, "k", grid, block, one, 0, NULL, 0, NULL), 0);
    assert_int_equal(dev_sync(dev, NULL), 0);
    static const struct {
        uint32_t line, lanes, warps;
    } want[] = {{13, 240, 9},   {14, 240, 9},   {7, 360, 18}, {17, 120, 9},
                {21, 2400, 90}, {22, 2400, 90}, {23, 240, 9}, {25, 0, 0}};
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        assert_int_equal(line[want[k].line].lanes, want[k].lanes);
        assert_int_equal(line[want[k].line].warps, want[k].warps);
    }
    assert_int_equal(dev_launch(dev, m, "k", grid, block, one, 0, NULL, 0, NULL), 0); /* added */
    assert_int_equal(dev_sync(dev, NULL), 0);
    assert_int_equal(line[21].lanes, 4800);
    assert_int_equal(dev_count_lines(dev, NULL, 0, NULL), 0);
    assert_int_equal(dev_launch(dev, m, "k", grid, block, one, 0, NULL, 0, NULL), 0);
    assert_int_equal(dev_sync(dev, NULL), 0);
    assert_int_equal(line[21].lanes, 4800);
    dev_module_unload(dev, m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),       cmocka_unit_test(opens),         cmocka_unit_test(lists),
        cmocka_unit_test(modules),     cmocka_unit_test(runs),          cmocka_unit_test(streams),
        cmocka_unit_test(refuses),     cmocka_unit_test(bad_modules),   cmocka_unit_test(unneeded),
        cmocka_unit_test(same_length), cmocka_unit_test(newer_version), cmocka_unit_test(faults),
        cmocka_unit_test(tensor_maps), cmocka_unit_test(busy),          cmocka_unit_test(protects)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
