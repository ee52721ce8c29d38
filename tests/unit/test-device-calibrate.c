/* Calibration finds the figures of a device that it does not know: of software devices with figures of their own, and
 * of the stock models. */
#include <elf.h>
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

#include "device/calibrate.h"
#include "tests/skip.h"

/* What must come back within `part` of the value; the rates lie below their figure by the loop's own instructions.
 * early_us: what stands between two launches, 1.7 and 2. */
static const struct want {
    const char *field;
    double value;
} slow[] = {{"launch_us", 4.4},         {"graph_launch_us", 1.7}, {"event_us", 1.1},    {"block_start_ns", 600},
            {"dram_sustained", 0.55},   {"l2_gbps", 5170}, /* of 7000: reads alone do not saturate it */
            {"fp32_lanes", 40},         {"fp64_lanes", 5},        {"int_lanes", 24},    {"sfu_lanes", 6},
            {"tensor_flops", 900},      {"l2_near_ns", 310},      {"l2_far_ns", 440},   {"dram_latency_ns", 900},
            {"shared_bytes_clock", 70}, {"memcpy_gbps", 33},      {"l2_clock_ns", 1.1}, {"miss2_from", 0.66},
            {"miss2_part", 0.3},        {"miss2_to", 1.2},        {"fence_trips", 4},   {"fence_warp", 20},
            {"release_trips", 7},       {"stream_more_us", 2},    {"early_us", 3.7}},
  /* softgpu/model/models.def, column l4; softgpu/constants.def */
    l4[] = {{"launch_us", 1.6},       {"graph_launch_us", 0.57},   {"event_us", 0.4},    {"block_start_ns", 250},
            {"dram_sustained", 0.98}, {"l2_gbps", 2120},           {"fp64_lanes", 2},    {"int_lanes", 64},
            {"sfu_lanes", 16},        {"tensor_flops", 1024},      {"l2_near_ns", 136},  {"l2_far_ns", 136},
            {"dram_latency_ns", 278}, {"shared_bytes_clock", 128}, {"memcpy_gbps", 25},  {"l2_clock_ns", 0.6},
            {"miss_from", 0.93},      {"miss_part", 0.3},          {"miss_to", 1.3},     {"l2_bytes", 48 << 20},
            {"fence_trips", 3},       {"fence_warp", 6},           {"release_trips", 6}, {"stream_more_us", 0.54}};

/* of an L2 of two halves of which 2^17 lines are less than a half */
static const struct want a100[] = {{"l2_near_ns", 150},  {"l2_far_ns", 301},   {"dram_latency_ns", 405},
                                   {"miss2_from", 0.71}, {"miss2_part", 0.42}, {"miss2_to", 1.4},
                                   {"fence_trips", 3},   {"release_trips", 5}, {"fence_warp", 10},
                                   {"memcpy_gbps", 25},  {"l2_clock_ns", 0.6}, {"stream_more_us", 1.05}};

static void find(const char *spec, const char *figures, const struct want *want, size_t n)
{
    fflush(stdout);
    pid_t pid = fork(); /* a driver reads its figures once */
    if (!pid) {
        struct dev_device *d = NULL;
        struct dev_calibration c = {0};
        struct dt_err e = {0};
        int bad = 0;
        if (figures)
            setenv("DOVETAIL_SOFTGPU_FIGURES", figures, 1);
        if (dev_open(spec, &d, &e) < 0 || dev_calibrate(d, &c, &e) < 0) {
            printf("%s\n", e.detail);
            fflush(stdout);
            _exit(1);
        }
        if (!!strchr(dev_info(d)->model, '~') != !!figures)
            bad = printf("the model is called %s\n", dev_info(d)->model);
        for (size_t i = 0; i < n; i++) {
            double got = 0;
            for (unsigned k = 0; k < c.n; k++)
                if (!strcmp(c.figure[k].field, want[i].field))
                    got = c.figure[k].value;
            if (!(got > want[i].value * 0.95 && got < want[i].value * 1.05))
                bad = printf("%s: %s is %g, found %g\n", spec, want[i].field, want[i].value, got);
        }
        char *text = dev_figures_text(&c); /* what is no figure of the model is not handed to one */
        for (unsigned k = 0; k < c.n; k++)
            if (!text || !strstr(text, c.figure[k].field) != c.figure[k].beside)
                bad = printf("%s: %s in %s\n", spec, c.figure[k].field, text ? text : "nothing");
        free(text);
        dev_close(d);
        fflush(stdout);
        _exit(bad ? 1 : 0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

static void unknown_device(void **state)
{
    find("soft:h200",
         "launch_us=4.4,graph_launch_us=1.7,event_us=1.1,block_start_ns=600,dram_sustained=0.55,l2_gbps=7000,fp32_"
         "lanes=40,fp64_lanes=5,int_lanes=24,sfu_lanes=6,tensor_flops=900,l2_near_ns=310,l2_far_ns=440,"
         "dram_latency_ns=900,memcpy_gbps=33,l2_clock_ns=1.1,miss2_from=0.66,miss2_part=0.3,miss2_to=1.2,"
         "fence_trips=4,fence_warp=20,release_trips=7,stream_more_us=2,shared_bytes_clock=70",
         slow, sizeof slow / sizeof *slow);
}

static void stock_device(void **state) { find("soft:l4", NULL, l4, sizeof l4 / sizeof *l4); }

static void two_halves(void **state) { find("soft:a100", NULL, a100, sizeof a100 / sizeof *a100); }

static void nonsense(void **state)
{
    static const char *const bad[] = {
        "launch_us", "voodoo=3", "launch_us=-1", "launch_us=nan", "launch_us=1;l2_gbps=2", "=3", "launch_us=0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (!pid) {
            struct dev_device *d = NULL;
            setenv("DOVETAIL_SOFTGPU_FIGURES", bad[i], 1);
            _exit(dev_open("soft", &d, NULL) == DT_E_NO_DEVICE ? 0 : 1);
        }
        int status = -1;
        waitpid(pid, &status, 0);
        assert_int_equal(status, 0);
    }
}

/* ptxas merges equal chains and drops what is not used: 128 instructions of 16 bytes must be left of each loop, 64
 * loads of the chains and of the banks, 32 atomics. */
static void loops_survive(void **state)
{
    static const struct {
        const char *name;
        unsigned instructions;
    } loop[] = {{"f32", 128},  {"f64", 128},  {"s32", 128}, {"sfu", 128},  {"mma", 128},
                {"chase", 64}, {"banks", 64}, {"meet", 32}, {"step", 128}, {"early", 128}};
    struct dt_err e = {0};
    char *text = dev_calibration_kernels(90);
    void *cubin = NULL;
    size_t n = 0;
    assert_non_null(text);
    int err = dev_assemble(text, strlen(text), "sm_90", &cubin, &n, &e);
    if (err == DT_E_NO_COMPILER) {
        dt_err_done(&e);
        free(text);
        SKIP("nvJitLink is not installed");
    }
    assert_int_equal(err, 0);
    const Elf64_Ehdr *h = cubin;
    const Elf64_Shdr *section = (const Elf64_Shdr *)((const char *)cubin + h->e_shoff);
    const char *names = (const char *)cubin + section[h->e_shstrndx].sh_offset;
    for (size_t i = 0; i < sizeof loop / sizeof *loop; i++) {
        char name[32];
        uint64_t size = 0;
        snprintf(name, sizeof name, ".text.%s", loop[i].name);
        for (unsigned k = 0; k < h->e_shnum; k++)
            if (!strcmp(names + section[k].sh_name, name))
                size = section[k].sh_size;
        if (size < loop[i].instructions * 16u)
            fail_msg("%s has %llu bytes", name, (unsigned long long)size);
    }
    free(cubin);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(loops_survive), cmocka_unit_test(unknown_device),
                                       cmocka_unit_test(stock_device), cmocka_unit_test(two_halves),
                                       cmocka_unit_test(nonsense)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
