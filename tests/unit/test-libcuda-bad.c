/* Bad input through the driver API: what cannot run is named as the module is loaded; kernels that fail leave the
 * context in error with the code that CUDA documents for it, until it is reset; limits of stack and heap.
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

static CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
static void *entry(const char *name)
{
    void *p = NULL;
    if (get(name, &p, 12000, 0, NULL) != CUDA_SUCCESS) /* 13.0 gives cuCtxSynchronize a parameter */
        fail_msg("no %s", name);
    return p;
}
#define F(name) ((__typeof__(&name))entry(#name))
#define X(name) ((name##_t)entry(#name))
#define OK(call) assert_int_equal(call, CUDA_SUCCESS)
#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

static int start(void **state)
{
    CUcontext c;
    return F(cuDevicePrimaryCtxRetain)(&c, 0) || F(cuCtxSetCurrent)(c) ? -1 : 0;
}
static int stop(void **state) { return F(cuDevicePrimaryCtxReset)(0); }

static const char good_entry[] = ".visible .entry good()\n{\n ret;\n}\n", /* 4 lines */
    bad_entry[] = ".visible .entry bad(.param .u64 t)\n{\n .reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [t];\n "
                  "stacksave.u64 %a;\n ret;\n}\n";

static CUresult load_logged(const char *ptx, CUmodule *ret, char log[512])
{
    CUjit_option option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *value[] = {log, (void *)(uintptr_t)512};
    *log = 0;
    return F(cuModuleLoadDataEx)(ret, ptx, 2, option, value);
}

static void named_at_load(void **state)
{
    char log[512], ptx[1024];
    CUmodule m;
    CUfunction f;
    snprintf(ptx, sizeof ptx, "%s%s%s", HEAD, good_entry, bad_entry);
    OK(load_logged(ptx, &m, log));
    assert_non_null(strstr(log, "line 11: entry bad: "));
    assert_non_null(strstr(log, "stacksave"));
    assert_null(strstr(log, "good"));
    OK(F(cuModuleGetFunction)(&f, m, "good"));
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(F(cuCtxSynchronize)());
    struct dovetail_fault why;
    assert_int_equal(F(cuModuleGetFunction)(&f, m, "bad"), CUDA_ERROR_NOT_SUPPORTED);
    OK(X(dovetailGetFault)(&why));
    assert_string_equal(why.kernel, "bad");
    assert_non_null(strstr(why.text, "line 11: entry bad: "));
    OK(X(dovetailGetFault)(&why)); /* told once */
    assert_int_equal(why.num, 0);
    OK(F(cuCtxSynchronize)()); /* nothing sticks */

    snprintf(ptx, sizeof ptx, "%s%s", HEAD, bad_entry);
    assert_int_equal(load_logged(ptx, &m, log), CUDA_ERROR_NOT_SUPPORTED);
    assert_non_null(strstr(log, "line 7: entry bad: "));
    assert_int_equal(load_logged(HEAD ".visible .entry k()\n{\n add.s32 %r1, 1, 2;\n}\n", &m, log),
                     CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(log, "line 6"));
}

/* Launches `body` as an entry with one thread; the error, which then sticks to everything but a reset. */
static void ends_with(const char *body, unsigned threads, CUresult want, const char *text)
{
    char ptx[2048], log[512];
    CUmodule m;
    CUfunction f;
    CUdeviceptr p;
    struct dovetail_fault why;
    snprintf(
        ptx, sizeof ptx,
        HEAD
        ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n%s",
        body);
    OK(load_logged(ptx, &m, log));
    OK(F(cuModuleGetFunction)(&f, m, "k"));
    OK(F(cuLaunchKernel)(f, 1, 1, 1, threads, 1, 1, 0, NULL, NULL, NULL));
    assert_int_equal(F(cuCtxSynchronize)(), want);
    assert_int_equal(F(cuMemAlloc)(&p, 16), want);
    assert_int_equal(F(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), want);
    OK(X(dovetailGetFault)(&why));
    if (!strstr(why.text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, why.text);
    OK(F(cuDevicePrimaryCtxReset)(0));
    CUcontext c;
    OK(F(cuDevicePrimaryCtxRetain)(&c, 0));
    OK(F(cuCtxSetCurrent)(c));
    OK(F(cuCtxSynchronize)());
}

static void faults(void **state)
{
    ends_with(".visible .entry k()\n{ .reg .b32 %r; .reg .b64 %a; mov.u64 %a, 64; ld.global.u32 %r, [%a]; ret; }\n", 1,
              CUDA_ERROR_ILLEGAL_ADDRESS, "outside");
    ends_with(".global .b8 v[8];\n.visible .entry k()\n{ .reg .b32 %r; .reg .b64 %a; mov.u64 %a, v; ld.global.u32 %r, "
              "[%a+1]; ret; }\n",
              1, CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned");
    ends_with(".visible .entry k()\n{ trap; }\n", 1, CUDA_ERROR_LAUNCH_FAILED, "trap");
    ends_with(".visible .entry k()\n{ .reg .b32 %t; .reg .pred %p; mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 32; @%p bra "
              "L; bar.sync 1;\nL: bar.sync 0; ret; }\n",
              64, CUDA_ERROR_LAUNCH_TIMEOUT, "waits for ever at barrier");
    ends_with(".global .b8 s[4] = {97, 98, 0, 0};\n.visible .entry k()\n{ .reg .b64 %a; mov.u64 %a, s;\n.param .b64 a; "
              "st.param.b64 [a], %a; .param .b64 b; "
              "st.param.b64 [b], %a; .param .b32 c; st.param.b32 [c], 7; .param .b64 d; st.param.b64 [d], %a; .param "
              ".b64 e; st.param.b64 [e], 1;\n"
              "call.uni __assertfail, (a, b, c, d, e); ret; }\n",
              1, CUDA_ERROR_ASSERT, "assertion `ab` failed");
}

static void endless(void **state)
{
    OK(X(dovetailSetDeadline)(200));
    ends_with(".visible .entry k()\n{\nL: bra L; }\n", 1, CUDA_ERROR_LAUNCH_TIMEOUT, "cancelled");
}

static void too_much_shared(void **state)
{
    char log[512];
    CUmodule m;
    CUfunction f;
    OK(load_logged(
        HEAD
        ".extern .shared .b8 s[];\n.visible .entry k()\n{ .reg .b32 %r; mov.u32 %r, s; st.shared.u32 [%r], 1; ret; }\n",
        &m, log));
    OK(F(cuModuleGetFunction)(&f, m, "k"));
    assert_int_equal(F(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 1 << 20, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(F(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20),
                     CUDA_ERROR_INVALID_VALUE);
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 1024, NULL, NULL, NULL));
    OK(F(cuCtxSynchronize)()); /* nothing sticks */
}

/* The heap has the size of the limit, which is fixed by the first launch that uses it. */
static void heap_limit(void **state)
{
    static const char ptx[] = HEAD ".extern .func (.param .b64 r) malloc(.param .b64 n);\n.global .u64 got;\n"
                                   ".visible .entry k(.param .u64 n)\n{ .reg .b64 %n, %p; ld.param.u64 %n, "
                                   "[n];\n.param .b64 a; st.param.b64 [a], %n; .param .b64 r;\n"
                                   "call.uni (r), malloc, (a); ld.param.b64 %p, [r]; st.global.u64 [got], %p; ret; }\n";
    char log[512];
    CUmodule m;
    CUfunction f;
    CUdeviceptr got;
    uint64_t v, n;
    void *args[] = {&n};
    size_t limit;
    OK(F(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 20));
    OK(F(cuCtxGetLimit)(&limit, CU_LIMIT_MALLOC_HEAP_SIZE));
    assert_int_equal(limit, 1 << 20);
    OK(load_logged(ptx, &m, log));
    OK(F(cuModuleGetFunction)(&f, m, "k"));
    OK(F(cuModuleGetGlobal)(&got, NULL, m, "got"));
    const uint64_t sizes[] = {(1 << 20) + 1, 1 << 20, 16};
    for (int i = 0; i < 3; i++) { /* too much; all of it; nothing is left */
        n = sizes[i];
        OK(F(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
        OK(F(cuMemcpyDtoH)(&v, got, 8));
        assert_int_equal(v != 0, i == 1);
    }
    assert_int_equal(F(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, 2 << 20), CUDA_ERROR_INVALID_VALUE);
}

static const char recursive[] =
    HEAD ".func down(.param .b32 n)\n{\n .reg .b32 %n; .reg .pred %p; ld.param.u32 %n, [n]; setp.eq.u32 %p, %n, 0; @%p "
         "ret;\n"
         " sub.u32 %n, %n, 1;\n { .param .b32 a; st.param.b32 [a], %n; call.uni down, (a); }\n ret;\n}\n"
         ".visible .entry k(.param .u32 n)\n{ .reg .b32 %n; ld.param.u32 %n, [n]; { .param .b32 a; st.param.b32 [a], "
         "%n; call.uni down, (a); }\n ret; }\n";

/* A frame of `down` is 4 + 4 bytes of variables and 16 more, rounded up to 32. */
static void stack_limit(void **state)
{
    char log[512];
    CUmodule m;
    CUfunction f;
    CUdeviceptr p;
    size_t limit;
    uint32_t n = 31;
    void *args[] = {&n};
    OK(F(cuCtxGetLimit)(&limit, CU_LIMIT_STACK_SIZE));
    assert_int_equal(limit, 1024);
    OK(load_logged(recursive, &m, log));
    assert_string_equal(log, "");
    OK(F(cuModuleGetFunction)(&f, m, "k"));
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
    OK(F(cuCtxSynchronize)());
    OK(F(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, 64 << 10));
    n = 2047;
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
    OK(F(cuCtxSynchronize)());
    n = 2048;
    OK(F(cuLaunchKernel)(f, 1, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
    assert_int_equal(F(cuCtxSynchronize)(), CUDA_ERROR_HARDWARE_STACK_ERROR);
    assert_int_equal(F(cuMemAlloc)(&p, 16), CUDA_ERROR_HARDWARE_STACK_ERROR);
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
    if (!lib || !(*(void **)&get = dlsym(lib, "cuGetProcAddress_v2"))) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    if (F(cuInit)(0) != CUDA_SUCCESS)
        return 1;
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, start, stop)
    const struct CMUnitTest tests[] = {TEST(named_at_load),   TEST(faults),     TEST(endless),
                                       TEST(too_much_shared), TEST(heap_limit), TEST(stack_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
