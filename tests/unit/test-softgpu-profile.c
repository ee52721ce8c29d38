/* softgpu/exec/profile.c: what a block alone on an SM takes, as it is followed. The PTX of each case differs from the
 * one that it is compared with by what it is about. Clocks of an issue more or less are let pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "softgpu/sg.h"

static const struct sg_model *model;

/* One block of so many threads; %a is the address of 64 KiB, %t the thread. */
static struct sg_profile follow(const char *body, uint32_t threads)
{
    char text[4096];
    struct sg_device *dev;
    struct sg_module *m;
    struct dt_err e = {0};
    struct sg_stats s;
    struct sg_fault f = {0};
    uint64_t x;
    assert_int_equal(sg_device_new(model, &dev), 0);
    assert_int_equal(sg_mem_alloc(dev, 65536, &x), 0);
    memset((void *)(uintptr_t)x, 0, 65536);
    snprintf(text, sizeof text,
             ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x)\n{\n.reg .pred %%p; "
             ".reg .b32 %%t, %%r<8>; .reg .b64 %%a, %%o; .reg .f64 %%d<32>; .shared .align 16 .b8 sh[32768];\n"
             "ld.param.u64 %%a, [x]; mov.u32 %%t, %%tid.x; mov.f64 %%d0, 0d3FF0000000000000;\n%s\nret;\n}\n",
             body);
    int r = sg_module_load(dev, text, strlen(text), &m, &e);
    if (r < 0)
        print_error("%s\n", e.detail ? e.detail : dt_err_text(r));
    assert_int_equal(r, 0);
    struct sg_launch l = {.kernel = sg_module_kernel(m, "k"), .grid = {1, 1, 1}, .block = {threads, 1, 1}};
    l.params = (const uint8_t *)&x;
    assert_non_null(l.kernel);
    assert_int_equal(sg_execute(dev, &l, &s, &f), 0);
    assert_true(s.profile.alone_near > 0);
    sg_module_free(m);
    assert_int_equal(sg_mem_free(dev, x), 0);
    sg_device_free(dev);
    dt_err_done(&e);
    return s.profile;
}

static double home(void)
{
    double ns = model->l2_halves > 1 ? (model->l2_near_ns + model->l2_far_ns) / 2 : model->l2_near_ns;
    return ns * model->clock_khz * 1e-6;
}

static void about(const char *what, double is, double want)
{
    if (is < want - 40 || is > want + 40)
        fail_msg("%s: %.0f clocks, not %.0f", what, is, want);
}

static double more(const char *with, const char *without, uint32_t threads)
{
    return (double)follow(with, threads).alone_near - (double)follow(without, threads).alone_near;
}

#define STORE "st.global.u32 [%a], %t;\n"

static void test_fences(void **state)
{
    (void)state;
    double trips = model->k.fence_trips * home();
    about("membar.gl", more(STORE "membar.gl;", STORE, 32), trips);
    about("fence", more(STORE "fence.acq_rel.gpu;", STORE, 32), trips);
    about("twice", more(STORE "membar.gl;\n" STORE "membar.sys;", STORE STORE, 32), 2 * trips);
    about("within the block", more(STORE "membar.cta; fence.acq_rel.cta;", STORE, 32), 0);
    about("release", more("red.release.gpu.global.add.u32 [%a], 1;", "red.global.add.u32 [%a], 1;", 32),
          model->k.release_trips * home());
    about("release to the block", more("red.release.cta.global.add.u32 [%a], 1;", "red.global.add.u32 [%a], 1;", 32),
          0);
    assert_int_equal(follow(STORE "membar.gl;", 32).fences, model->k.fence_trips * (unsigned)(home() + 0.5));
    assert_int_equal(follow(STORE, 32).fences, 0);
    /* those of several warps come one after the other, as is seen where they meet */
    about("32 warps",
          more("bar.sync 0; membar.gl; bar.sync 0;", "bar.sync 0; bar.sync 0;", 1024) -
              more("bar.sync 0; membar.gl; bar.sync 0;", "bar.sync 0; bar.sync 0;", 32),
          31 * model->k.fence_warp);
}

/* A loop that waits for a flag takes one look, however many rounds it was executed for. */
static void test_looks(void **state)
{
    (void)state;
    char loop[256];
    double took[2];
    for (int k = 0; k < 2; k++) {
        snprintf(loop, sizeof loop,
                 "mov.u32 %%r1, 0;\nL: ld.volatile.global.u32 %%r2, [%%a]; add.u32 %%r2, %%r2, 1; add.u32 %%r1, %%r1, "
                 "%%r2; setp.lt.u32 %%p, %%r1, %d; @%%p bra L;",
                 k ? 6 : 1);
        took[k] = (double)follow(loop, 32).alone_near;
    }
    assert_true(took[1] - took[0] < home()); /* five looks are 1.5 each */
}

/* What was copied is waited for where the text says so. */
static void test_copies(void **state)
{
    (void)state;
    static const char copy[] = "mov.u32 %r1, sh; cp.async.ca.shared.global [%r1], [%a], 16;\ncp.async.commit_group;\n",
                      load[] = "ld.shared.u32 %r2, [%r1]; st.global.u32 [%a+4096], %r2;\n";
    char with[1024], without[1024];
    snprintf(with, sizeof with, "%scp.async.wait_group 0;\n%s", copy, load);
    snprintf(without, sizeof without, "%s%s", copy, load);
    double clocks = more(with, without, 32), l2 = model->l2_near_ns * model->clock_khz * 1e-6;
    if (clocks < l2 / 2 || clocks > 2 * l2)
        fail_msg("waiting takes %.0f clocks, the L2 %.0f", clocks, l2);
}

/* Warps meet when the SM has done what all of them asked of it: of FP64, two lanes a clock here. */
static void test_meet(void **state)
{
    (void)state;
    char body[2048] = "", *at = body;
    for (int k = 1; k <= 16; k++)
        at += sprintf(at, "mul.rn.f64 %%d%d, %%d0, %%d0;\n", k);
    sprintf(at, "bar.sync 0;\n");
    double lanes = model->fp64_lanes, need = 16 * 32 * 32 / lanes;
    struct sg_profile p = follow(body, 1024);
    assert_true((double)p.alone_near >= need);
    assert_true((double)p.alone_near < need * 1.1);
    assert_true((double)follow(body, 32).alone_near < need / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fences),
        cmocka_unit_test(test_looks),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_meet),
    };
    model = sg_model_find("l4");
    return model ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
