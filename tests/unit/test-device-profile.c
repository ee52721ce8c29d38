/* CUPTI's records from buffers made here, through NVIDIA's own cuptiActivityGetNextRecord where it is installed; the
 * host's part of the counters; the numbers of a measurement. Needs no GPU; what needs libcupti is skipped without it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>
#include <cupti_target.h>
#include <cupti.h>
#include <dlfcn.h>

#include "base/alloc.h"
#include "device/measure.h"
#include "tests/skip.h"

static struct {
    _Alignas(8) uint8_t b[8192];
    size_t used;
} buffer;

static void put(const void *p, size_t n)
{
    memcpy(buffer.b + buffer.used, p, n);
    buffer.used += n;
}
#define PUT(type, ...) put(&(type){__VA_ARGS__}, sizeof(type))

static size_t size_of(const CUpti_Activity *a)
{
    return a->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL      ? sizeof(CUpti_ActivityKernel10)
           : a->kind == CUPTI_ACTIVITY_KIND_MEMSET               ? sizeof(CUpti_ActivityMemset4)
           : a->kind == CUPTI_ACTIVITY_KIND_MEMCPY               ? sizeof(CUpti_ActivityMemcpy6)
           : a->kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION ? sizeof(CUpti_ActivityExternalCorrelation)
           : a->kind == CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE     ? sizeof(CUpti_ActivityDeviceAttribute)
           : a->kind == CUPTI_ACTIVITY_KIND_DRIVER               ? sizeof(CUpti_ActivityAPI)
                                                                 : sizeof(CUpti_ActivityOverhead3);
}
static CUptiResult ours(uint8_t *b, size_t valid, CUpti_Activity **r)
{
    uint8_t *p = *r ? (uint8_t *)*r + size_of(*r) : b;
    *r = (CUpti_Activity *)p;
    return p < b + valid ? CUPTI_SUCCESS : CUPTI_ERROR_MAX_LIMIT_REACHED;
}

static void *libcupti(void)
{
    const char *home = getenv("CUDA_HOME");
    char path[4096];
    snprintf(path, sizeof path, "%s/lib64/libcupti.so.13", home && *home ? home : DOVETAIL_CUDA_HOME);
    void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    snprintf(path, sizeof path, "%s/lib/libcupti.so.13", home && *home ? home : DOVETAIL_CUDA_HOME);
    return h ? h : dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static int decode(struct dev_trace *t, __typeof__(&cuptiActivityGetNextRecord) next)
{
    CUpti_Activity *r = NULL;
    int err = 0;
    while (!err && next(buffer.b, buffer.used, &r) == CUPTI_SUCCESS)
        err = dev_activity_add(t, r);
    return err < 0 ? err : dev_activity_finish(t);
}

/* Two launches (external 7, 8), of which 7 is a graph of two kernels that overlap; a kernel of nobody; records in no
 * order. */
static void fill(void)
{
    buffer.used = 0;
    PUT(CUpti_ActivityKernel10, .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .start = 9000, .end = 9500,
        .correlationId = 3, .name = "late", .gridX = 1, .gridY = 1, .gridZ = 1, .blockX = 32, .blockY = 2, .blockZ = 3,
        .registersPerThread = 255, .staticSharedMemory = 48, .dynamicSharedMemory = 4096, .localMemoryPerThread = 16,
        .streamId = 7, .clusterX = 2, .clusterY = 1, .clusterZ = 1);
    PUT(CUpti_ActivityAPI, .kind = CUPTI_ACTIVITY_KIND_DRIVER, .start = 1, .end = 2, .correlationId = 2);
    PUT(CUpti_ActivityKernel10, .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .start = 2000, .end = 4000,
        .correlationId = 2, .name = "b", .graphNodeId = 12, .graphId = 4);
    PUT(CUpti_ActivityExternalCorrelation, .kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
        .externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, .externalId = 8, .correlationId = 3);
    PUT(CUpti_ActivityKernel10, .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .start = 1000, .end = 2500,
        .correlationId = 2, .name = "a", .graphNodeId = 11, .graphId = 4);
    PUT(CUpti_ActivityMemset4, .kind = CUPTI_ACTIVITY_KIND_MEMSET, .bytes = 64, .start = 5000, .end = 5250,
        .correlationId = 2, .graphNodeId = 13);
    PUT(CUpti_ActivityExternalCorrelation, .kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, .externalId = 7,
        .correlationId = 2);
    PUT(CUpti_ActivityOverhead3, .kind = CUPTI_ACTIVITY_KIND_OVERHEAD,
        .overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, .start = 10, .end = 110);
    PUT(CUpti_ActivityOverhead3, .kind = CUPTI_ACTIVITY_KIND_OVERHEAD,
        .overheadKind = CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER, .start = 10, .end = 40);
    PUT(CUpti_ActivityOverhead3, .kind = CUPTI_ACTIVITY_KIND_OVERHEAD,
        .overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE, .start = 9, .end = 8);
    PUT(CUpti_ActivityMemcpy6, .kind = CUPTI_ACTIVITY_KIND_MEMCPY, .bytes = 96, .start = 6000, .end = 6100,
        .correlationId = 9);
    PUT(CUpti_ActivityDeviceAttribute, .kind = CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE);
    /* no times, no name */
    PUT(CUpti_ActivityKernel10, .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .correlationId = 10);
}

static void check(const struct dev_trace *t)
{
    assert_int_equal(t->nrecord, 6);
    assert_int_equal(t->odd, 1);
    assert_int_equal(t->overhead_ns, 100);
    assert_int_equal(t->loading_ns, 30);
    static const struct {
        enum dev_activity what;
        uint64_t start, external, node;
    } want[] = {{DEV_ACT_KERNEL, 0, 0, 0},     {DEV_ACT_KERNEL, 1000, 7, 11}, {DEV_ACT_KERNEL, 2000, 7, 12},
                {DEV_ACT_MEMSET, 5000, 7, 13}, {DEV_ACT_COPY, 6000, 0, 0},    {DEV_ACT_KERNEL, 9000, 8, 0}};
    for (size_t i = 0; i < 6; i++) {
        const struct dev_record *r = &t->record[i];
        assert_int_equal(r->what, want[i].what);
        assert_int_equal(r->start_ns, want[i].start);
        assert_int_equal(r->external, want[i].external);
        assert_int_equal(r->graph_node, want[i].node);
    }
    const struct dev_record *r = &t->record[5];
    assert_string_equal(r->name, "late");
    assert_int_equal(r->registers, 255);
    assert_int_equal(r->shared_static, 48);
    assert_int_equal(r->shared_dynamic, 4096);
    assert_int_equal(r->local_bytes, 16);
    assert_int_equal(r->stream, 7);
    assert_memory_equal(r->block, ((uint32_t[]){32, 2, 3}), 12);
    assert_memory_equal(r->cluster, ((uint32_t[]){2, 1, 1}), 12);
    assert_int_equal(t->record[1].graph, 4);
    struct dev_span s = dev_activity_span(t, 7); /* 1000 to 5250, nothing from 4000 to 5000 */
    assert_int_equal(s.n, 3);
    assert_true(s.span_us == 4.25 && s.idle_us == 1 && s.sum_us == 3.75);
    s = dev_activity_span(t, 0); /* the record without times does not count */
    assert_int_equal(s.n, 1);
    assert_int_equal(dev_activity_span(t, 99).n, 0);
}

static void decodes(void **state)
{
    struct dev_trace t = {0};
    fill();
    assert_int_equal(decode(&t, ours), 0);
    check(&t);
    dev_trace_done(&t);
    assert_int_equal(dev_activity_finish(&t), 0); /* nothing at all */
    /* memory out at each allocation in turn */
    for (long i = 1; i < 8; i++) {
        dt_alloc_fail_after(i);
        int err = decode(&t, ours);
        dt_alloc_fail_after(0);
        assert_true(err == 0 || err == DT_E_NOMEM);
        dev_trace_done(&t);
    }
}

static void decodes_nvidias(void **state)
{
    void *lib = libcupti();
    if (!lib)
        SKIP("CUPTI is not installed");
    struct dev_trace t = {0};
    fill();
    __typeof__(&cuptiActivityGetNextRecord) next =
        (__typeof__(&cuptiActivityGetNextRecord))dlsym(lib, "cuptiActivityGetNextRecord");
    assert_non_null(next);
    assert_int_equal(decode(&t, next), 0);
    check(&t);
    dev_trace_done(&t);
}

static void counts(void **state)
{
    static const char *const chip[] = {"GA100", "GH100", "AD102", "GB100"};
#ifdef __SANITIZE_ADDRESS__
    SKIP("CUPTI opens its library with RTLD_DEEPBIND, which AddressSanitizer does not allow");
#endif
    struct dt_err e = {0};
    size_t n = 0;
    if (dev_count_passes(chip[0], dev_counter_name, DEV_COUNTERS, &n, &e) < 0 && strstr(e.detail, "there is no CUPTI"))
        SKIP("CUPTI is not installed");
    dt_err_done(&e);
    for (size_t i = 0; i < 4; i++) {
        e = (struct dt_err){0};
        assert_int_equal(dev_count_passes(chip[i], dev_counter_name, DEV_COUNTERS, &n, &e), 0);
        assert_int_equal(n, 1); /* all six in one pass: nothing is run twice */
    }
    static const char *const none[] = {"sm__no_such_metric.sum"};
    assert_int_equal(dev_count_passes("GH100", none, 1, &n, &e), DT_E_PROFILER);
    dt_err_done(&e);
    e = (struct dt_err){0};
    assert_int_equal(dev_count_passes("GX999", dev_counter_name, DEV_COUNTERS, &n, &e), DT_E_PROFILER);
    dt_err_done(&e);
}

/* Ranks of 95 % intervals of a median as tables have them (Conover, Practical Nonparametric Statistics, A3; for 1 000,
 * 469 and 532). */
static void intervals(void **state)
{
    static const struct {
        unsigned n, lo, hi;
    } want[] = {{1, 1, 1},   {2, 1, 2},   {5, 1, 5},   {6, 1, 6},    {8, 1, 8},     {9, 2, 8},       {10, 2, 9},
                {12, 3, 10}, {20, 6, 15}, {25, 8, 18}, {50, 18, 33}, {100, 40, 61}, {1000, 469, 532}};
    static double v[1000];
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct dev_stats s;
        for (unsigned k = 0; k < want[i].n; k++)
            v[k] = (double)((k * 7919u) % want[i].n + 1); /* 1 to n, shuffled: 7919 is a prime */
        dev_stats(v, want[i].n, &s);
        assert_true(s.lo == want[i].lo && s.hi == want[i].hi && s.min == 1 && s.max == want[i].n && s.n == want[i].n);
        assert_true(s.median == (want[i].n + 1) / 2.0);
    }
    /* the textbook example: -29/165; ties; one side alike */
    static const double iq[] = {106, 100, 86, 101, 99, 103, 97, 113, 112, 110},
                        tv[] = {7, 27, 2, 50, 28, 29, 20, 12, 6, 17};
    double r = dev_rank_correlation(iq, tv, 10);
    assert_true(r > -29.0 / 165 - 1e-12 && r < -29.0 / 165 + 1e-12);
    static const double up[] = {1, 2, 2, 3}, also[] = {10, 20, 20, 30}, flat[] = {1, 1, 1, 1};
    assert_true(dev_rank_correlation(up, also, 4) > 1 - 1e-12);
    assert_true(dev_rank_correlation(up, flat, 4) == 0 && dev_rank_correlation(up, also, 1) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decodes), cmocka_unit_test(decodes_nvidias),
                                       cmocka_unit_test(counts), cmocka_unit_test(intervals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
