/* The checking modes through the driver API: what has been written is known across copies, memsets and launches;
 * findings are sticky and say where.
 *
 * The library is opened as a program would; the extension entries come by cuGetProcAddress.
 */
#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "softgpu/libcuda/extension.h"

static struct {
    __typeof__(&cuInit) init;
    __typeof__(&cuDevicePrimaryCtxRetain) retain;
    __typeof__(&cuDevicePrimaryCtxReset) reset;
    __typeof__(&cuCtxSetCurrent) current;
    __typeof__(&cuCtxSynchronize) sync;
    __typeof__(&cuMemAlloc) alloc;
    __typeof__(&cuMemAllocManaged) managed;
    __typeof__(&cuMemFree) free;
    __typeof__(&cuMemcpyHtoD) upload;
    __typeof__(&cuMemcpyDtoD) copy;
    __typeof__(&cuMemsetD8) set;
    __typeof__(&cuModuleLoadData) load;
    __typeof__(&cuModuleGetFunction) function;
    __typeof__(&cuLaunchKernel) launch;
    dovetailSetChecks_t checks;
    dovetailForget_t forget;
    dovetailNameMemory_t name;
    dovetailGetFault_t fault;
    dovetailGetFindings_t findings;
} cu;

static CUfunction sum, fill, all;

static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                          ".global .u32 counter;\n"
                          /* reads n words at x, each by thread 0 */
                          ".visible .entry sum(.param .u64 x, .param .u32 n)\n{\n"
                          ".reg .b64 %x; .reg .b32 %n, %v, %s; .reg .pred %p;\n"
                          "ld.param.u64 %x, [x]; ld.param.u32 %n, [n]; mov.u32 %s, 0;\n"
                          "L: ld.global.u32 %v, [%x]; add.u32 %s, %s, %v; add.u64 %x, %x, 4; sub.u32 %n, %n, 1; "
                          "setp.ne.u32 %p, %n, 0; @%p bra L;\n"
                          "st.global.u32 [counter], %s; ret;\n}\n"
                          /* thread t writes word t of x */
                          ".visible .entry fill(.param .u64 x)\n{\n"
                          ".reg .b64 %x, %o; .reg .b32 %t;\n"
                          "ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.u64 %x, %x, %o; "
                          "st.global.u32 [%x], %t; ret;\n}\n"
                          /* every thread writes its number to x, and reads word 1 behind */
                          ".visible .entry all(.param .u64 x)\n{\n"
                          ".reg .b64 %x; .reg .b32 %t, %v;\n"
                          "ld.param.u64 %x, [x]; mov.u32 %t, %tid.x; st.global.u32 [%x], %t; ld.global.u32 %v, [%x+4]; "
                          "add.u32 %v, %v, %t; st.global.u32 [%x+8], %v; ret;\n}\n";

static int start(void **state)
{
    CUcontext c;
    CUmodule m;
    if (cu.retain(&c, 0) || cu.current(c) || cu.checks("uninit") || cu.load(&m, ptx) || cu.function(&sum, m, "sum") ||
        cu.function(&fill, m, "fill") || cu.function(&all, m, "all"))
        return -1;
    return 0;
}

static int stop(void **state) { return cu.reset(0); }

/* Launch and wait. */
static CUresult run_sum(CUdeviceptr x, unsigned n)
{
    void *args[] = {&x, &n};
    CUresult r = cu.launch(sum, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
    return r ? r : cu.sync();
}

static CUresult run_fill(CUdeviceptr x, unsigned n)
{
    void *args[] = {&x};
    CUresult r = cu.launch(fill, 1, 1, 1, n, 1, 1, 0, NULL, args, NULL);
    return r ? r : cu.sync();
}

/* The finding that word `at` of what is called `name` is not written; the context is in error. */
static void assert_unwritten(const char *name, unsigned at)
{
    struct dovetail_fault f;
    char place[64];
    assert_int_equal(cu.sync(), CUDA_ERROR_LAUNCH_FAILED); /* and stays so */
    assert_int_equal(cu.fault(&f), CUDA_SUCCESS);
    snprintf(place, sizeof place, "%s + %u", name, at * 4);
    assert_string_equal(f.kind, "uninit");
    assert_string_equal(f.place, place);
    assert_string_equal(f.kernel, "sum");
    assert_false(f.has_other);
}

static CUdeviceptr memory(unsigned words)
{
    CUdeviceptr p;
    assert_int_equal(cu.alloc(&p, words * 4), CUDA_SUCCESS);
    assert_int_equal(cu.name(p, "buf"), CUDA_SUCCESS);
    return p;
}

static void fresh_memory(void **state)
{
    assert_int_equal(run_sum(memory(4), 4), CUDA_ERROR_LAUNCH_FAILED);
    assert_unwritten("buf", 0);
}

static void uploads_and_memsets(void **state)
{
    uint32_t v[4] = {1, 2, 3, 4};
    CUdeviceptr p = memory(8);
    assert_int_equal(cu.upload(p, v, sizeof v), CUDA_SUCCESS);
    assert_int_equal(cu.set(p + 16, 0, 12), CUDA_SUCCESS);
    assert_int_equal(run_sum(p, 7), CUDA_SUCCESS);
    assert_int_equal(run_sum(p, 8), CUDA_ERROR_LAUNCH_FAILED);
    assert_unwritten("buf", 7);
}

static void part_of_a_word(void **state)
{
    CUdeviceptr p = memory(1);
    assert_int_equal(cu.set(p, 1, 3), CUDA_SUCCESS);
    assert_int_equal(run_sum(p, 1), CUDA_ERROR_LAUNCH_FAILED);
    struct dovetail_fault f;
    assert_int_equal(cu.fault(&f), CUDA_SUCCESS);
    assert_string_equal(f.place, "buf + 3");
    assert_int_equal(f.bytes, 1);
}

static void kernels_write(void **state)
{
    CUdeviceptr p = memory(8);
    assert_int_equal(run_fill(p, 6), CUDA_SUCCESS);
    assert_int_equal(run_sum(p, 6), CUDA_SUCCESS);
    assert_int_equal(run_sum(p + 4, 6), CUDA_ERROR_LAUNCH_FAILED);
    assert_unwritten("buf", 6);
}

static void copies_carry(void **state)
{
    CUdeviceptr p = memory(8), q = memory(8);
    assert_int_equal(run_fill(p, 4), CUDA_SUCCESS);
    assert_int_equal(cu.set(q, 0, 32), CUDA_SUCCESS);
    assert_int_equal(cu.copy(q, p, 32), CUDA_SUCCESS); /* the last four become unwritten */
    assert_int_equal(run_sum(q, 4), CUDA_SUCCESS);
    assert_int_equal(run_sum(q, 5), CUDA_ERROR_LAUNCH_FAILED);
    assert_unwritten("buf", 4);
}

static void forgotten(void **state)
{
    CUdeviceptr p = memory(4);
    assert_int_equal(cu.set(p, 0, 16), CUDA_SUCCESS);
    assert_int_equal(run_sum(p, 4), CUDA_SUCCESS);
    assert_int_equal(cu.forget(p + 8, 4), CUDA_SUCCESS);
    assert_int_equal(run_sum(p, 4), CUDA_ERROR_LAUNCH_FAILED);
    assert_unwritten("buf", 2);
}

static void managed_is_the_hosts(void **state)
{
    CUdeviceptr p;
    assert_int_equal(cu.managed(&p, 16, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    assert_int_equal(run_sum(p, 4), CUDA_SUCCESS);
}

static void without_the_mode_everything_counts(void **state)
{
    CUdeviceptr p = memory(4);
    assert_int_equal(cu.checks("none"), CUDA_SUCCESS);
    assert_int_equal(run_sum(p, 4), CUDA_SUCCESS);
    assert_int_equal(cu.checks("uninit"), CUDA_SUCCESS); /* who knows what it wrote */
    assert_int_equal(run_sum(p, 4), CUDA_SUCCESS);
    assert_int_equal(run_sum(memory(4), 4), CUDA_ERROR_LAUNCH_FAILED);
}

static void races_say_both(void **state)
{
    struct dovetail_fault f;
    CUdeviceptr p = memory(8);
    void *args[] = {&p};
    assert_int_equal(cu.checks("race"), CUDA_SUCCESS);
    assert_int_equal(cu.launch(fill, 2, 1, 1, 8, 1, 1, 0, NULL, args, NULL), CUDA_SUCCESS);
    assert_int_equal(cu.sync(), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cu.fault(&f), CUDA_SUCCESS);
    assert_string_equal(f.kind, "race");
    assert_string_equal(f.place, "buf + 0");
    assert_true(f.has_other);
    assert_int_equal(f.block[0], 1);
    assert_int_equal(f.other_block[0], 0);
    assert_int_equal(f.line, f.other_line);
    assert_non_null(strstr(f.text, "block (0,0,0)"));
}

/* Findings that are told do not end the launch: it leaves what it always leaves, and the first of each kind is there
 * until the next one. */
static void told(void **state)
{
    assert_int_equal(cu.checks("race,uninit,tell"), CUDA_SUCCESS);
    CUdeviceptr p = memory(64);
    struct dovetail_fault f[3];
    void *args[] = {&p};
    for (int again = 0; again < 2; again++) {
        assert_int_equal(cu.launch(all, 1, 1, 1, 64, 1, 1, 0, NULL, args, NULL), CUDA_SUCCESS);
        assert_int_equal(cu.sync(), CUDA_SUCCESS);
        assert_int_equal(cu.findings(f), CUDA_SUCCESS);
        assert_string_equal(f[0].kind, "race");
        assert_true(f[0].has_other);
        assert_int_equal(f[0].address, p);
        assert_string_equal(f[1].kind, "uninit");
        assert_int_equal(f[1].address, p + 4);
        assert_int_equal(f[2].num, 0);
    }
    assert_int_equal(cu.fault(&f[0]), CUDA_SUCCESS);
    assert_int_equal(f[0].num, 0);
    assert_int_equal(cu.launch(fill, 1, 1, 1, 16, 1, 1, 0, NULL, args, NULL), CUDA_SUCCESS);
    assert_int_equal(cu.findings(f), CUDA_SUCCESS);
    assert_true(!f[0].num && !f[1].num && !f[2].num);
    assert_int_equal(cu.checks("race"), CUDA_SUCCESS); /* without the word it ends */
    assert_int_equal(cu.launch(all, 1, 1, 1, 64, 1, 1, 0, NULL, args, NULL), CUDA_SUCCESS);
    assert_int_equal(cu.sync(), CUDA_ERROR_LAUNCH_FAILED);
}

static void wrong_arguments(void **state)
{
    CUdeviceptr p = memory(4);
    assert_int_equal(cu.checks("rases"), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.checks(NULL), CUDA_SUCCESS);
    assert_int_equal(cu.forget(p, 17), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.name(p - 1, "x"), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.name(p, NULL), CUDA_SUCCESS);
}

int main(void)
{
    char self[PATH_MAX], path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    for (int i = 0; i < 3 && strrchr(self, '/'); i++)
        *strrchr(self, '/') = 0;
    snprintf(path, sizeof path, "%s/softgpu/libcuda.so.1", self);
    void *lib = dlopen(getenv("DOVETAIL_SOFTGPU") ? getenv("DOVETAIL_SOFTGPU") : path, RTLD_NOW | RTLD_LOCAL);
    CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    if (!lib || !(*(void **)&get = dlsym(lib, "cuGetProcAddress_v2"))) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    const struct {
        const char *name;
        void *to;
    } names[] = {{"cuInit", &cu.init},
                 {"cuDevicePrimaryCtxRetain", &cu.retain},
                 {"cuDevicePrimaryCtxReset", &cu.reset},
                 {"cuCtxSetCurrent", &cu.current},
                 {"cuCtxSynchronize", &cu.sync},
                 {"cuMemAlloc", &cu.alloc},
                 {"cuMemAllocManaged", &cu.managed},
                 {"cuMemFree", &cu.free},
                 {"cuMemcpyHtoD", &cu.upload},
                 {"cuMemcpyDtoD", &cu.copy},
                 {"cuMemsetD8", &cu.set},
                 {"cuModuleLoadData", &cu.load},
                 {"cuModuleGetFunction", &cu.function},
                 {"cuLaunchKernel", &cu.launch},
                 {"dovetailSetChecks", &cu.checks},
                 {"dovetailForget", &cu.forget},
                 {"dovetailNameMemory", &cu.name},
                 {"dovetailGetFault", &cu.fault},
                 {"dovetailGetFindings", &cu.findings}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        /* 13.0 gives cuCtxSynchronize a parameter */
        if (get(names[i].name, names[i].to, 12000, 0, NULL) != CUDA_SUCCESS) {
            fprintf(stderr, "no %s\n", names[i].name);
            return 1;
        }
    if (cu.init(0) != CUDA_SUCCESS)
        return 1;
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(fresh_memory),   TEST(uploads_and_memsets),  TEST(part_of_a_word),
        TEST(kernels_write),  TEST(copies_carry),         TEST(forgotten),
        TEST(told),           TEST(managed_is_the_hosts), TEST(without_the_mode_everything_counts),
        TEST(races_say_both), TEST(wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
