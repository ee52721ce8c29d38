/* device/ beside a driver that is not ours (fake-gpu.c): what goes wrong gets its error and words, and nothing hangs or
 * crashes; CUPTI's records are read and measurements judged. One process a case, as a driver is opened once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "device/measure.h"
#include "tests/skip.h"

/* In the child: a failed CHECK ends it. */
#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        if (!(x)) {                                                                                                    \
            printf("%s:%d: %s (%s)\n", __FILE__, __LINE__, #x, e.detail ? e.detail : "");                              \
            fflush(stdout);                                                                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static struct dt_err e;
static struct dev_device *d;

static void with(const char *fault, void (*fn)(void))
{
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        setenv("FAKE_GPU", fault, 1);
        alarm(60);
        fn();
        fflush(stdout);
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    if (status)
        fail_msg("with FAKE_GPU=%s: status 0x%x", fault, status);
}

static void clear(void)
{
    dt_err_done(&e);
    e = (struct dt_err){0};
}

static void open_ok(void)
{
    CHECK(dev_open("cuda", &d, &e) == 0);
    CHECK(!dev_info(d)->soft);
}

static const char *expected;
static void open_refused(void)
{
    CHECK(dev_open("cuda", &d, &e) == DT_E_NO_DEVICE);
    CHECK(strstr(e.detail, expected));
    clear();
    /* auto takes the software device where there is no GPU at all; one that is there and cannot be had is said */
    bool none = getenv("FAKE_GPU") && strstr("stub no-device mismatch old", getenv("FAKE_GPU"));
    CHECK(dev_open("auto", &d, &e) == (none ? 0 : DT_E_NO_DEVICE));
    dev_close(none ? d : NULL);
}

static void opening(void **state)
{
    static const char *const fault[][2] = {{"stub", "stub"},
                                           {"no-device", "CUDA_VISIBLE_DEVICES"},
                                           {"mismatch", "kernel module"},
                                           {"old", "CUDA 11.4"},
                                           {"exclusive", "exclusive"},
                                           {"mps-down", "MPS"}};
    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++) {
        expected = fault[i][1];
        with(fault[i][0], open_refused);
    }
}

static void not_installed(void)
{
    /* where libcuda.so.1 has nothing of a driver in it, and where it is not there */
    CHECK(dev_open("cuda", &d, &e) == DT_E_NO_DEVICE && strstr(e.detail, expected));
}

static void no_driver(void **state)
{
    char dir[] = "/tmp/dovetail-fault.XXXXXX", path[128];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/libcuda.so.1", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("not a library\n", f);
    fclose(f);
    char *old = strdup(getenv("LD_LIBRARY_PATH"));
    /* the linker reads LD_LIBRARY_PATH at start: the case is a program started anew */
    for (int there = 1; there >= 0; there--) {
        setenv("LD_LIBRARY_PATH", dir, 1);
        pid_t pid = fork();
        if (!pid) {
            execl("/proc/self/exe", "test-driver", "no-driver", (char *)NULL);
            _exit(127);
        }
        int status = -1;
        waitpid(pid, &status, 0);
        assert_int_equal(status, 0);
        unlink(path);
    }
    setenv("LD_LIBRARY_PATH", old, 1);
    free(old);
    rmdir(dir);
}

static void a_slice(void)
{
    open_ok();
    CHECK(!strcmp(dev_info(d)->sharing, "mig") && strstr(dev_info(d)->name, "1g.18gb"));
    dev_close(d);
}

static void a_part(void)
{
    open_ok();
    CHECK(!strcmp(dev_info(d)->sharing, "mps") && dev_info(d)->sms == 33);
    dev_close(d);
}

static void a_server(void)
{
    open_ok();
    CHECK(!strcmp(dev_info(d)->sharing, "mps") && dev_info(d)->sms == 132);
    dev_close(d);
}

static void shared_gpus(void **state)
{
    with("mps", a_server);
    with("mig", a_slice);
    with("mps-part", a_part);
}

/* ---- a small graph: two scales in a row, a memset -------------------------------------------------------------- */
static const char scale[] =
    ".version 9.0\\n.target sm_80\\n.address_size 64\\n"
    ".visible .entry scale(.param .u64 x, .param .u64 y)\\n{\\n.reg .b32 %r<5>; .reg .b64 %rd<6>; .reg .f32 %f<3>;\\n"
    "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, "
    "%tid.x;\\n"
    "mad.lo.u32 %r4, %r1, %r2, %r3; mul.wide.u32 %rd3, %r4, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;\\n"
    "ld.global.f32 %f1, [%rd4]; add.f32 %f2, %f1, %f1; st.global.f32 [%rd5], %f2; ret;\\n}\\n";
static struct dt_graph *g;
static struct dev_prog *p;
static struct dev_run *run;

#define LAUNCH(x, y, n)                                                                                                \
    "{\"module\": \"m\", \"entry\": \"scale\", \"grid\": [" n                                                          \
    ", 1, 1], \"block\": [64, 1, 1], \"args\": [{\"buffer\": \"" x "\"}, {\"buffer\": \"" y "\"}]}"

static void make_graph(bool prog)
{
    struct dt_str s = {0};
    dt_str_addf(
        &s,
        "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"%s\"}}, \"buffers\": {\"x\": {\"bytes\": 2048, \"role\": "
        "\"input\", \"fill\": {\"uniform\": "
        "[-1, 1], \"dtype\": \"f32\", \"seed\": 7}}, \"h\": {\"bytes\": 2048, \"role\": \"intermediate\"}, \"y\": "
        "{\"bytes\": 2048, \"role\": \"output\"}}, "
        "\"launches\": [{\"memset\": {\"buffer\": \"h\", \"offset\": 0, \"bytes\": 2048, \"value\": 0}}, %s, %s]}",
        scale, LAUNCH("x", "h", "8"), LAUNCH("h", "y", "4"));
    CHECK(dt_graph_parse(s.s, s.len, &g, &e) == 0);
    dt_str_done(&s);
    CHECK(!prog || dev_prog_new(d, g, NULL, NULL, &p, &e) == 0);
}

static void make_run(void)
{
    open_ok();
    make_graph(true);
    CHECK(dev_run_new(d, p, &run, &e) == 0);
    CHECK(dev_run_fill(run, 0, 0xee, &e) == 0);
}

static void drop(void)
{
    run = dev_run_free(run);
    p = dev_prog_free(p);
    dt_graph_free(g);
    g = NULL;
    d = dev_close(d);
}

static int run_error(void)
{
    int err = p ? 0 : dev_prog_new(d, g, NULL, NULL, &p, &e);
    if (!err)
        err = dev_run_new(d, p, &run, &e);
    if (!err)
        err = dev_run_fill(run, 0, -1, &e);
    if (!err)
        err = dev_run_once(run, &e);
    return err;
}

static void works(void)
{
    float y[512], x[512];
    make_run();
    CHECK(dev_run_once(run, &e) == 0);
    CHECK(dev_run_download(run, 0, x, &e) == 0 && dev_run_download(run, 2, y, &e) == 0);
    for (int i = 0; i < 256; i++)
        CHECK(y[i] == 4 * x[i]);
    for (int i = 256; i < 512; i++)
        CHECK(((unsigned char *)&y[i])[0] == 0xee);
    drop();
}

static int wanted_error;
static void refused(void)
{
    open_ok();
    make_graph(false);
    CHECK(run_error() == wanted_error);
    CHECK(strstr(e.detail, expected));
    drop();
}

static void running(void **state)
{
    with("", works);
    with("old-ptx", works); /* taken at the driver's version */
    wanted_error = DT_E_NOMEM, expected = "more than";
    with("oom", refused);
    wanted_error = DT_E_PTX, expected = "another architecture";
    with("noarch", refused);
    wanted_error = DT_E_PTX, expected = "Unknown symbol 'nonsense'";
    with("bad-ptx", refused);
}

/* ---- machine code or PTX (image.c) ------------------------------------------------------------------------------- */
static const char *const plain =
    ".version 8.0\n// .target sm_90a\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n";
static const char *const own = ".version 8.0\n/* .target sm_80 */ .target sm_90a\n.address_size 64\n.visible .entry "
                               "k()\n{\nsetmaxnreg.dec.sync.aligned.u32 24; ret;\n}\n";
static const char *const newer = ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n";
static const char *const broken =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nadd.u32 %nonsense, 1, 2; ret;\n}\n";

static int load(const char *ptx, bool *ret_cubin)
{
    struct dev_module_handle *h = NULL;
    int err = dev_module_load(d, ptx, strlen(ptx), &h, &e);
    if (err == 0) {
        *ret_cubin = dev_module_is_cubin(h);
        CHECK(dev_launch(d, h, "k", (uint32_t[]){1, 1, 1}, (uint32_t[]){128, 1, 1}, NULL, 0, NULL, 0, &e) == 0 &&
              dev_sync(d, &e) == 0);
        dev_module_unload(d, h);
    }
    return err;
}

static void as_code(void)
{
    bool cubin = false;
    works();
    open_ok();
    CHECK(load(plain, &cubin) == 0 && cubin);
    CHECK(load(plain, &cubin) == 0 && cubin); /* kept: no compiler is there any more */
    setenv("DOVETAIL_NVRTC", "/nonexistent", 1);
    CHECK(load(plain, &cubin) == 0 && cubin);
    unsetenv("DOVETAIL_NVRTC");
    CHECK(load(own, &cubin) == 0 && cubin); /* an sm_90a cubin: the driver looks */
    CHECK(load(broken, &cubin) == DT_E_PTX && strstr(e.detail, "the driver's compiler was asked") &&
          strstr(e.detail, "nonsense") && e.log);
    clear();
    CHECK(load(newer, &cubin) == DT_E_PTX && strstr(e.detail, "the module is for sm_100a, the device is sm_90"));
    d = dev_close(d);
}

static void as_text(void)
{
    bool cubin = true;
    works();
    open_ok();
    CHECK(load(plain, &cubin) == 0 && !cubin);
    make_graph(true); /* registers are the driver's */
    CHECK(p->step[1].res.registers > 0 && !p->step[1].res.estimated);
    drop();
}

static void without_nvjitlink(void)
{
    setenv("DOVETAIL_NVRTC", "/nonexistent", 1);
    as_text();
    open_ok();
    CHECK(load(broken, &(bool){0}) != 0 &&
          strstr(e.detail, "not declared; as machine code by nvJitLink: nvJitLink is not on this machine"));
    d = dev_close(d);
}

static void neither(void)
{
    open_ok();
    CHECK(load(plain, &(bool){0}) == DT_E_PTX && strstr(e.detail, "the driver's compiler was asked") &&
          strstr(e.detail, expected));
    d = dev_close(d);
}

static void loading(void **state)
{
    with("", without_nvjitlink);
    if (!dev_nvjitlink_version())
        SKIP("nvJitLink is not installed");
    with("cubin-only", as_code); /* PTX would be refused */
    with("no-cubin", as_text);
    with("new-arch", as_text); /* nvJitLink does not know it */
    expected = "nvJitLink does not know this architecture (sm_130)";
    with("new-arch,cubin-only", neither);
    expected = "CUDA_ERROR_NO_BINARY_FOR_GPU";
    with("no-cubin,cubin-only", neither);
}

static void dies(void)
{
    make_run();
    CHECK(dev_run_once(run, &e) == 0);
    CHECK(dev_run_once(run, &e) == DT_E_BOUNDS); /* ILLEGAL_ADDRESS, and from then on every call */
    clear();
    CHECK(dev_run_once(run, &e) == DT_E_BOUNDS);
    CHECK(dev_alloc(d, 16, &(dev_ptr){0}, &e) == DT_E_BOUNDS);
    drop();
}

static void hangs(void)
{
    setenv("DOVETAIL_KERNEL_TIMEOUT_MS", "100", 1);
    open_ok();
    make_graph(false);
    CHECK(run_error() == DT_E_TIMEOUT && dev_hung(d));
    clear();
    CHECK(dev_run_once(run, &e) == DT_E_TIMEOUT && strstr(e.detail, "does not end"));
    CHECK(dev_reset(d, &e) == DT_E_TIMEOUT);
    drop(); /* freeing would wait for ever: alarm() */
}

static void faults(void **state)
{
    with("sticky", dies);
    with("hang", hangs);
}

/* ---- tracing, measuring ------------------------------------------------------------------------------------------ */
static void traces(void)
{
    struct dev_tracer *t = NULL, *second = NULL;
    struct dev_trace r = {0};
    bool retry = false;
    make_run();
    CHECK(dev_trace_begin(d, &t, &retry, &e) == 0);
    CHECK(dev_trace_begin(d, &second, &retry, &e) == DT_E_PROFILER && retry);
    clear();
    CHECK(dev_trace_mark(t, 7, &e) == 0 && dev_run_once(run, &e) == 0);
    CHECK(dev_trace_mark(t, 8, &e) == 0 && dev_run_step(run, 1, &e) == 0);
    CHECK(dev_trace_mark(t, 0, &e) == 0 && dev_run_step(run, 2, &e) == 0);
    CHECK(dev_trace_end(t, &r, &e) == 0);
    CHECK(r.nrecord == 5 && r.version >= 130000 && r.dropped == 0);
    for (size_t i = 0; i + 1 < r.nrecord; i++)
        CHECK(r.record[i].start_ns < r.record[i + 1].start_ns);
    CHECK(r.record[0].what == DEV_ACT_MEMSET && r.record[0].bytes == 2048 && r.record[0].external == 7);
    CHECK(r.record[1].what == DEV_ACT_KERNEL && !strcmp(r.record[1].name, "scale") && r.record[1].grid[0] == 8 &&
          r.record[1].block[0] == 64);
    CHECK(r.record[2].external == 7 && r.record[3].external == 8 && r.record[4].external == 0 &&
          r.record[3].registers == 24);
    /* 500, 1080 and 1040 ns with 200 between (fake-gpu.c) */
    struct dev_span s = dev_activity_span(&r, 7);
    CHECK(s.n == 3 && s.span_us > 3.0199 && s.span_us < 3.0201 && s.idle_us > 0.3999 && s.idle_us < 0.4001 &&
          s.sum_us > 2.6199 && s.sum_us < 2.6201);
    dev_trace_done(&r);
    drop();
}

static bool wanted_retry;
static void no_trace(void)
{
    struct dev_tracer *t = NULL;
    bool retry = !wanted_retry;
    make_run();
    CHECK(dev_trace_begin(d, &t, &retry, &e) == DT_E_PROFILER && retry == wanted_retry && strstr(e.detail, expected));
    drop();
}

static void drops(void)
{
    struct dev_tracer *t = NULL;
    struct dev_trace r = {0};
    make_run();
    CHECK(dev_trace_begin(d, &t, NULL, &e) == 0 && dev_trace_mark(t, 1, &e) == 0 && dev_run_once(run, &e) == 0);
    CHECK(dev_trace_end(t, &r, &e) == 0 && r.dropped == 7 && r.nrecord == 3);
    dev_trace_done(&r);
    CHECK(dev_trace_begin(d, &t, NULL, &e) == 0); /* and again */
    CHECK(!dev_trace_cancel(t));
    CHECK(dev_trace_begin(d, &t, NULL, &e) == 0 && dev_trace_end(t, &r, &e) == 0 && r.nrecord == 0);
    drop();
}

static void beside_soft(void)
{
    struct dev_device *soft = NULL;
    struct dev_tracer *t = NULL;
    make_run();
    CHECK(dev_open("soft", &soft, &e) == 0);
    CHECK(dev_trace_begin(soft, &t, NULL, &e) == DT_E_PROFILER);
    clear();
    CHECK(dev_trace_begin(d, &t, NULL, &e) == DT_E_PROFILER && strstr(e.detail, "software device open"));
    dev_close(soft);
    drop();
}

static int launch(void *user, struct dt_err *err) { return dev_run_once(user, err); }
static void no_counters(void)
{
    struct dev_counters c;
    bool retry = !wanted_retry;
    make_run();
    CHECK(dev_count(d, launch, run, &c, &retry, &e) == DT_E_PROFILER && retry == wanted_retry &&
          strstr(e.detail, expected));
    drop();
}

static void tracing(void **state)
{
    with("", traces);
    with("cupti-drop", drops);
    with("", beside_soft);
    expected = "another profiler", wanted_retry = true;
    with("cupti-busy", no_trace);
    expected = "no driver", wanted_retry = false;
    with("cupti-none", no_trace);
    expected = "may not read the counters";
    with("cupti-privileges", no_counters);
    expected = "DCGM", wanted_retry = true;
    with("cupti-busy", no_counters);
}

static struct dev_measured m[3];
static struct dev_verdict v;
static void measure(bool cold)
{
    struct dev_run *other = NULL;
    CHECK(dev_run_new(d, p, &other, &e) == 0 && dev_run_fill(other, 0, -1, &e) == 0);
    struct dev_arm arm[] = {{run, false}, {other, false}, {run, true}}; /* the first and the last share a run */
    struct dev_measure_options o = {.reps = 12, .warm_up = 2, .cold = cold};
    CHECK(dev_measure(d, arm, 3, &o, m, &v, &e) == 0);
    dev_run_free(other);
}

static void measures(void)
{
    make_run();
    measure(false);
    for (int i = 0; i < 3; i++) {
        CHECK(m[i].events.n == 12 && m[i].events.median > 0 && m[i].ratio.n == 12);
        CHECK(!strcmp(m[i].method, "measured:cupti") && m[i].time.median > 3.0199 && m[i].time.median < 3.0201);
        CHECK(m[i].step_us && m[i].step_us[0] == 0.5 && m[i].step_us[1] == 1.08 && m[i].step_us[2] == 1.04 &&
              m[i].registers[1] == 24);
        CHECK(m[i].overhead > 0.99 && m[i].overhead < 1.01 && !*v.trace);
        dev_measured_done(&m[i]);
    }
    CHECK(m[0].ratio.median == 1 && v.publish && v.before.known && v.before.sm_mhz == 1980);
    drop();
}

static void by_events(void)
{
    make_run();
    measure(true);
    CHECK(!strcmp(m[0].method, "measured:events") && !m[0].step_us && strstr(v.trace, expected) && v.publish);
    drop();
}

/* Records of stream launches alone are lost: the other arms have theirs, and still all are timed by events. */
static void one_method(void)
{
    make_run();
    measure(false);
    for (int i = 0; i < 3; i++) {
        CHECK(!strcmp(m[i].method, "measured:events") && !m[i].step_us == (i == 2));
        CHECK(m[i].time.median == m[i].events.median);
        dev_measured_done(&m[i]);
    }
    CHECK(strstr(v.trace, expected));
    drop();
}

static void noisy(void)
{
    make_run();
    measure(false);
    CHECK(!v.publish && strstr(v.why, expected));
    dev_measured_done(&m[0]);
    dev_measured_done(&m[1]);
    dev_measured_done(&m[2]);
    drop();
}

static void measuring(void **state)
{
    with("", measures);
    expected = "another profiler";
    with("cupti-busy", by_events);
    expected = "do not cover";
    with("cupti-lost", by_events);
    with("cupti-lost-streams", one_method);
    with("mps", measures); /* the server is no other process */
    with("mig", measures); /* nor are those of other slices */
    expected = "2 other processes";
    with("mps,crowd", noisy);
    with("mig,crowd", noisy);
    expected = "slowed";
    with("hot", noisy);
    expected = "2 other processes";
    with("crowd", noisy);
    expected = "1980 to 1200";
    with("clock", noisy);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "no-driver")) {
        expected = "libcuda.so.1";
        not_installed();
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(opening),     cmocka_unit_test(no_driver),
                                       cmocka_unit_test(shared_gpus), cmocka_unit_test(running),
                                       cmocka_unit_test(loading),     cmocka_unit_test(faults),
                                       cmocka_unit_test(tracing),     cmocka_unit_test(measuring)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
