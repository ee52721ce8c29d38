/* What the tests of libcuda share: the library opened as any program would, and its entries by cuda.h's names.
 *
 * F(cuMemAlloc) is the function that a program built with this cuda.h calls; X(dovetail…) an extension; OK(call)
 * expects CUDA_SUCCESS, IS(call, code) that code.
 */
#ifndef DT_TESTS_DRIVER_FIXTURE_H
#define DT_TESTS_DRIVER_FIXTURE_H

#include <cuda.h>
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

static void *driver_lib;

static void *driver_symbol(const char *symbol)
{
    if (!driver_lib) {
        char self[PATH_MAX], path[PATH_MAX + 64];
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        self[n > 0 ? n : 0] = 0;
        char *slash = strrchr(self, '/');
        if (slash)
            *slash = 0;
        snprintf(path, sizeof path, "%s/../../softgpu/libcuda.so.1", self);
        driver_lib = dlopen(getenv("DOVETAIL_SOFTGPU") ? getenv("DOVETAIL_SOFTGPU") : path, RTLD_NOW | RTLD_LOCAL);
        if (!driver_lib)
            fail_msg("%s", dlerror());
    }
    void *p = dlsym(driver_lib, symbol);
    CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) =
        (__typeof__(get))dlsym(driver_lib, "cuGetProcAddress_v2");
    if (!p && get(symbol, &p, CUDA_VERSION, 0, NULL) != CUDA_SUCCESS) /* extensions are not exported */
        fail_msg("no %s", symbol);
    return p;
}

#define DRIVER_TEXT(x) #x
#define DRIVER_SYMBOL(name) DRIVER_TEXT(name) /* as cuda.h's macros spell it: cuMemAlloc_v2 */
#define F(name) ((__typeof__(&name))driver_symbol(DRIVER_SYMBOL(name)))
#define X(name) ((name##_t)driver_symbol(#name))
#define OK(call) assert_int_equal((call), CUDA_SUCCESS)
#define IS(call, code) assert_int_equal((call), (code))

static inline CUcontext fresh(void)
{
    CUcontext c;
    OK(F(cuInit)(0));
    OK(F(cuDevicePrimaryCtxRetain)(&c, 0));
    OK(F(cuCtxSetCurrent)(c));
    return c;
}

static inline void drop(void)
{
    OK(F(cuDevicePrimaryCtxRelease)(0));
    OK(F(cuCtxSetCurrent)(NULL));
}

/* add(p, n, v): p[i] += v for i < n; launched with blocks of 32. */
static const char add_ptx[] = ".version 7.8\n.target sm_80\n.address_size 64\n.global .u32 counter = 7;\n"
                              ".visible .entry add(.param .u64 p, .param .u32 n, .param .u32 v)\n{\n"
                              ".reg .pred %q; .reg .b32 %r<6>; .reg .b64 %rd<3>;\n"
                              "ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [v];\n"
                              "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r3, %r3, 32, %r4;\n"
                              "setp.ge.u32 %q, %r3, %r1; @%q ret;\n"
                              "mul.wide.u32 %rd2, %r3, 4; add.s64 %rd2, %rd1, %rd2; ld.global.u32 %r5, [%rd2]; add.u32 "
                              "%r5, %r5, %r2; st.global.u32 [%rd2], %r5;\n"
                              "ret;\n}\n.visible .entry trap_()\n{\ntrap;\n}\n";

static inline CUfunction load_add(CUmodule *m, const char *name)
{
    CUfunction f;
    OK(F(cuModuleLoadData)(m, add_ptx));
    OK(F(cuModuleGetFunction)(&f, *m, name));
    return f;
}

#endif
