/* Images of modules: text, fat binaries plain and compressed, what is wrong with one; the linker; libraries. Containers
 * are made here, by the layout that softgpu/decode/fatbin.c describes; an LZ4 block of literals alone is legal LZ4.
 */
#include <zstd.h>

#include "driver-fixture.h"

enum { PTX = 1, SASS = 2, PLAIN = 0, LZ4 = 0x2000, ZSTD = 0x8000 };

struct image {
    unsigned char b[16384];
    size_t n;
};

static void put(struct image *m, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        m->b[m->n++] = (unsigned char)(v >> 8 * i);
}

static void begin(struct image *m)
{
    m->n = 0;
    put(m, 0xBA55ED50u, 4);
    put(m, 1, 2);
    put(m, 16, 2);
    put(m, 0, 8);
}

static void entry(struct image *m, int kind, unsigned arch, int how, const char *text)
{
    unsigned char packed[8192];
    size_t len = strlen(text) + 1, stored = len;
    if (how == ZSTD) {
        stored = ZSTD_compress(packed, sizeof packed, text, len, 3);
    } else if (how == LZ4) { /* one sequence: literals to the end */
        size_t at = 0, left = len;
        packed[at++] = left < 15 ? (unsigned char)(left << 4) : 0xF0;
        if (left >= 15)
            for (left -= 15;; left -= 255) {
                packed[at++] = left < 255 ? (unsigned char)left : 255;
                if (left < 255)
                    break;
            }
        memcpy(packed + at, text, len);
        stored = at + len;
    } else {
        memcpy(packed, text, len);
    }
    size_t padded = (stored + 7) / 8 * 8;
    put(m, (unsigned)kind, 2);
    put(m, 0x101, 2);
    put(m, 64, 4);
    put(m, padded, 8);
    put(m, how ? stored : 0, 4);
    put(m, 0, 4);
    put(m, 0, 2);
    put(m, 9, 2);
    put(m, arch, 4);
    put(m, 0, 8);
    put(m, 0x11u | (unsigned)how, 8);
    put(m, 0, 8);
    put(m, how ? len : 0, 8);
    memcpy(m->b + m->n, packed, stored);
    memset(m->b + m->n + stored, 0, padded - stored);
    m->n += padded;
}

static const void *end(struct image *m)
{
    uint64_t n = m->n - 16;
    memcpy(m->b + 8, &n, 8);
    return m->b;
}

/* PTX for sm_ARCH whose variable `which` holds ARCH. */
static const char *text_for(const char *arch)
{
    static char s[512];
    snprintf(
        s, sizeof s,
        ".version 7.8\n.target sm_%s\n.address_size 64\n.global .u32 which = %d;\n.visible .entry e()\n{\nret;\n}\n",
        arch, atoi(arch));
    return s;
}

static unsigned which(const void *image)
{
    CUmodule m;
    CUdeviceptr p;
    unsigned v = 0;
    OK(F(cuModuleLoadData)(&m, image));
    OK(F(cuModuleGetGlobal)(&p, NULL, m, "which"));
    OK(F(cuMemcpyDtoH)(&v, p, 4));
    OK(F(cuModuleUnload)(m));
    return v;
}

static void fat_binaries(void **state)
{
    static struct image m;
    CUmodule mod;
    CUlibrary lib;
    unsigned n;
    fresh(); /* an H200: 9.0 */
    for (int how = 0; how < 3; how++) {
        static const int hows[] = {PLAIN, LZ4, ZSTD};
        begin(&m);
        entry(&m, PTX, 80, hows[how], text_for("80"));
        entry(&m, SASS, 90, PLAIN, "\177ELF");
        entry(&m, PTX, 90, hows[how], text_for("90"));
        entry(&m, PTX, 75, hows[how], text_for("75"));
        entry(&m, PTX, 100, hows[how], text_for("100"));
        end(&m);
        assert_int_equal(which(m.b), 90); /* the best that it can run */
        struct {
            unsigned magic, version;
            const void *data, *file;
        } wrapper = {0x466243b1, 1, m.b, NULL};
        assert_int_equal(which(&wrapper), 90);
        OK(F(cuLibraryLoadData)(&lib, m.b, NULL, NULL, 0, NULL, NULL, 0));
        OK(F(cuLibraryGetKernelCount)(&n, lib));
        assert_int_equal(n, 1);
        OK(F(cuLibraryUnload)(lib));
    }
    begin(&m);
    entry(&m, PTX, 90, ZSTD, text_for("90a"));
    entry(&m, PTX, 80, LZ4, text_for("80"));
    assert_int_equal(which(end(&m)), 90); /* sm_90a is this very device */
    begin(&m);
    entry(&m, PTX, 80, PLAIN, text_for("80a"));
    IS(F(cuModuleLoadData)(&mod, end(&m)), CUDA_ERROR_NO_BINARY_FOR_GPU); /* sm_80a is another */
    begin(&m);
    entry(&m, SASS, 90, PLAIN, "\177ELF");
    IS(F(cuModuleLoadFatBinary)(&mod, end(&m)), CUDA_ERROR_NO_BINARY_FOR_GPU);
    begin(&m);
    entry(&m, PTX, 100, PLAIN, text_for("100"));
    IS(F(cuModuleLoadData)(&mod, end(&m)), CUDA_ERROR_NO_BINARY_FOR_GPU);
    begin(&m);
    IS(F(cuModuleLoadData)(&mod, end(&m)), CUDA_ERROR_NO_BINARY_FOR_GPU);

    /* damage: each length and flag of the entry set to nonsense */
    static const size_t at[] = {4, 6, 16 + 4, 16 + 8, 16 + 16, 16 + 56, 16 + 64 + 3};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        for (int how = 0; how < 2; how++) {
            begin(&m);
            entry(&m, PTX, 90, how ? ZSTD : LZ4, text_for("90"));
            end(&m);
            memset(m.b + at[i], 0xFF, 2);
            CUresult r = F(cuModuleLoadData)(&mod, m.b);
            assert_true(r == CUDA_ERROR_INVALID_IMAGE || r == CUDA_ERROR_NO_BINARY_FOR_GPU ||
                        r == CUDA_ERROR_INVALID_PTX);
        }
    drop();
}

static void wrong_images(void **state)
{
    CUmodule m;
    char log[256] = "?", info[16] = "?";
    CUjit_option opt[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                          CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
    void *val[] = {log, (void *)sizeof log, info, (void *)sizeof info};
    fresh();
    IS(F(cuModuleLoadData)(&m, ".version 9.5\n.target sm_90\n.address_size 64\n"), CUDA_SUCCESS);
    IS(F(cuModuleUnload)(m), CUDA_SUCCESS);
    IS(F(cuModuleLoadDataEx)(&m, ".version 9.6\n.target sm_90\n.address_size 64\n", 4, opt, val),
       CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    assert_non_null(strstr(log, "9.6"));
    assert_true((size_t)val[1] == strlen(log) && val[3] == NULL && !*info);
    val[1] = (void *)8, val[3] = (void *)sizeof info; /* a small buffer is filled and ended */
    IS(F(cuModuleLoadDataEx)(&m, ".version 8.0\n.target sm_90\n.address_size 64\nnonsense\n", 4, opt, val),
       CUDA_ERROR_INVALID_PTX);
    assert_int_equal(strlen(log), 7);
    IS(F(cuModuleLoadData)(&m, ""), CUDA_ERROR_INVALID_IMAGE);
    IS(F(cuModuleLoadData)(&m, "hello"), CUDA_ERROR_INVALID_IMAGE);
    IS(F(cuModuleLoadData)(&m, "\177ELF"), CUDA_ERROR_NO_BINARY_FOR_GPU);
    opt[0] = (CUjit_option)1000;
    IS(F(cuModuleLoadDataEx)(&m, add_ptx, 1, opt, val), CUDA_ERROR_INVALID_VALUE);
    IS(F(cuModuleLoad)(&m, "/nonexistent.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
    drop();
}

static void linker(void **state)
{
    static const char head[] = ".version 7.8\n.target sm_80\n.address_size 64\n";
    static const char *part[] = {
        ".extern .func (.param .b32 r) twice(.param .b32 x);\n.extern .global .align 4 .u32 bias;\n.global .u32 own = "
        "1;\n"
        ".visible .entry go(.param .u64 p)\n{\n.reg .b64 %rd<2>; .reg .b32 %r<6>;\n"
        "ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [own]; add.u32 %r1, %r1, %r2;\n"
        "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), twice, (a); ld.param.b32 %r3, [b]; }\n"
        "ld.global.u32 %r4, [bias]; add.u32 %r3, %r3, %r4; st.global.u32 [%rd1], %r3; ret;\n}\n",
        ".visible .global .align 4 .u32 bias = 1000;\n.global .u32 own = 50;\n"
        ".visible .func (.param .b32 r) twice(.param .b32 x)\n{\n.reg .b32 %r<4>;\n"
        "ld.param.b32 %r1, [x]; ld.global.u32 %r2, [own]; shl.b32 %r1, %r1, 1; add.u32 %r1, %r1, %r2; st.param.b32 "
        "[r], %r1; ret;\n}\n"};
    char text[2048], log[256] = "";
    CUjit_option opt[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *val[] = {log, (void *)sizeof log}, *cubin;
    CUlinkState l;
    CUmodule m;
    CUfunction f;
    CUdeviceptr p;
    size_t size;
    unsigned v = 3;
    fresh();
    for (int order = 0; order < 2; order++) {
        OK(F(cuLinkCreate)(2, opt, val, &l));
        for (int i = 0; i < 2; i++) {
            int n = snprintf(text, sizeof text, "%s%s", head, part[i ^ order]);
            OK(F(cuLinkAddData)(l, CU_JIT_INPUT_PTX, text, (size_t)n + 1, "part", 0, NULL, NULL));
        }
        OK(F(cuLinkComplete)(l, &cubin, &size));
        assert_null(strstr(cubin, ".extern")); /* ptxas refuses to define what was called extern */
        OK(F(cuModuleLoadData)(&m, cubin));
        OK(F(cuLinkDestroy)(l));
        OK(F(cuModuleGetFunction)(&f, m, "go"));
        OK(F(cuMemAlloc)(&p, 4));
        OK(F(cuMemsetD32)(p, v, 1));
        void *args[] = {&p};
        OK(F(cuLaunchKernel)(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
        unsigned out;
        OK(F(cuMemcpyDtoH)(&out, p, 4));
        assert_int_equal(out, 2 * (3 + 1) + 50 + 1000); /* each module's own `own` */
        OK(F(cuModuleUnload)(m));
    }
    OK(F(cuLinkCreate)(2, opt, val, &l)); /* the same definition twice */
    for (int i = 0; i < 2; i++) {
        int n = snprintf(text, sizeof text, "%s%s", head, part[1]);
        OK(F(cuLinkAddData)(l, CU_JIT_INPUT_PTX, text, (size_t)n + 1, "part", 0, NULL, NULL));
    }
    IS(F(cuLinkAddData)(l, CU_JIT_INPUT_PTX, (void *)"bad", 3, "third", 0, NULL, NULL), CUDA_ERROR_INVALID_IMAGE);
    IS(F(cuLinkAddData)(l, CU_JIT_INPUT_PTX, (void *)".bad", 4, "third", 0, NULL, NULL), CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(log, "third"));
    IS(F(cuLinkAddData)(l, CU_JIT_INPUT_CUBIN, (void *)"\177ELF", 4, "sass", 0, NULL, NULL),
       CUDA_ERROR_NO_BINARY_FOR_GPU);
    IS(F(cuLinkAddFile)(l, CU_JIT_INPUT_PTX, "/nonexistent", 0, NULL, NULL), CUDA_ERROR_FILE_NOT_FOUND);
    IS(F(cuLinkComplete)(l, &cubin, &size), CUDA_ERROR_INVALID_IMAGE);
    OK(F(cuLinkDestroy)(l));
    IS(F(cuLinkDestroy)(l), CUDA_ERROR_INVALID_HANDLE);
    OK(F(cuLinkCreate)(0, NULL, NULL, &l));
    IS(F(cuLinkComplete)(l, &cubin, &size), CUDA_ERROR_INVALID_VALUE);
    OK(F(cuLinkDestroy)(l));
    drop();
}

static void versions(void **state)
{
    void *p, *q;
    CUdriverProcAddressQueryResult st;
    CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) = F(cuGetProcAddress);
    IS(get("cuMemAllocAsync", &p, 11000, 0, &st), CUDA_ERROR_NOT_FOUND); /* it came with 11.2 */
    assert_int_equal(st, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    OK(get("cuMemAllocAsync", &p, 11020, 0, &st));
    OK(get("cuCtxCreate", &p, 4000, 0, NULL));
    assert_ptr_equal(p, driver_symbol("cuCtxCreate_v2"));
    OK(get("cuCtxCreate", &p, 12050, 0, NULL));
    assert_ptr_equal(p, driver_symbol("cuCtxCreate_v4"));
    OK(get("cuLaunchKernel", &p, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));
    OK(get("cuLaunchKernel", &q, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    assert_ptr_equal(p, driver_symbol("cuLaunchKernel"));
    assert_ptr_equal(q, driver_symbol("cuLaunchKernel_ptsz"));
    OK(get("cuInit", &q, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL)); /* has no such form */
    IS(get("cuInit", &q, 12000, 99, NULL), CUDA_ERROR_INVALID_VALUE);
    /* the per-thread stream is one of its own */
    unsigned long long legacy, mine;
    fresh();
    OK(F(cuStreamGetId)(NULL, &legacy));
    OK(((CUresult(*)(CUstream, unsigned long long *))driver_symbol("cuStreamGetId_ptsz"))(NULL, &mine));
    assert_true(legacy != mine);
    OK(F(cuStreamGetId)(CU_STREAM_PER_THREAD, &legacy));
    assert_true(legacy == mine);
    CUarray a;
    IS(F(cuArrayGetPlane)(&a, NULL, 0), CUDA_ERROR_NOT_SUPPORTED);
    drop();
}

/* Blocks of one thread meet at the grid barrier that cooperative groups make: the word 4 bytes into the workspace that
 * %envreg1:%envreg2 name, to which each block adds 1 and block 0 what flips its top bit. Then each reads what its
 * neighbour wrote before. */
static void cooperative(void **state)
{
    static const char text[] =
        ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry meet(.param .u64 a)\n{\n"
        ".reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<8>;\n"
        "ld.param.u64 %rd1, [a]; mov.u32 %r1, %envreg2; mov.u32 %r2, %envreg1; mov.b64 %rd2, {%r1, %r2};\n"
        "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %nctaid.x; mul.wide.u32 %rd3, %r3, 8; add.s64 %rd3, %rd1, %rd3; add.u32 "
        "%r5, %r3, 1;\n"
        "st.global.u32 [%rd3], %r5; setp.eq.u32 %p1, %r3, 0; sub.u32 %r6, 0x80000001, %r4; selp.b32 %r6, %r6, 1, %p1;\n"
        "atom.global.add.release.gpu.u32 %r7, [%rd2+4], %r6;\n"
        "L: ld.global.acquire.gpu.u32 %r8, [%rd2+4]; xor.b32 %r9, %r8, %r7; setp.ge.s32 %p2, %r9, 0; @%p2 bra L;\n"
        "rem.u32 %r10, %r5, %r4; mul.wide.u32 %rd4, %r10, 8; add.s64 %rd4, %rd1, %rd4; ld.global.u32 %r11, [%rd4]; "
        "st.global.u32 [%rd3+4], %r11;\n"
        "ret;\n}\n";
    enum { BLOCKS = 40 };
    CUmodule m;
    CUfunction f;
    CUdeviceptr p;
    unsigned out[BLOCKS][2];
    int v, per_sm;
    fresh();
    OK(F(cuDeviceGetAttribute)(&v, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0));
    assert_int_equal(v, 1);
    OK(F(cuModuleLoadData)(&m, text));
    OK(F(cuModuleGetFunction)(&f, m, "meet"));
    OK(F(cuMemAlloc)(&p, sizeof out));
    void *args[] = {&p};
    for (int round = 0; round < 3; round++) {
        OK(F(cuMemsetD8)(p, 0, sizeof out));
        OK(F(cuLaunchCooperativeKernel)(f, BLOCKS, 1, 1, 1, 1, 1, 0, NULL, args));
        OK(F(cuMemcpyDtoH)(out, p, sizeof out));
        for (unsigned i = 0; i < BLOCKS; i++)
            assert_true(out[i][0] == i + 1 && out[i][1] == (i + 1) % BLOCKS + 1);
    }
    OK(F(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&per_sm, f, 1, 0));
    OK(F(cuDeviceGetAttribute)(&v, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    IS(F(cuLaunchCooperativeKernel)(f, (unsigned)(per_sm * v) + 1, 1, 1, 1, 1, 1, 0, NULL, args),
       CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    drop();
}

/* A number of registers that is only estimated refuses no launch: ptxas may need fewer, or spill. One that is known
 * does. */
static void estimated_registers(void **state)
{
    (void)state;
    fresh();
    enum { N = 100, BLOCK = 1024 };
    char text[16384];
    size_t at =
        (size_t)snprintf(text, sizeof text,
                         ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry wide(.param .u64 p) {\n"
                         ".reg .b32 %%r<%d>;\n.reg .b64 %%d<2>;\nld.param.u64 %%d0, [p];\n",
                         N + 1);
    for (int i = 0; i < N; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "ld.global.u32 %%r%d, [%%d0+%d];\n", i, 4 * i);
    for (int i = 1; i < N; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "add.u32 %%r0, %%r0, %%r%d;\n", i);
    snprintf(text + at, sizeof text - at, "st.global.u32 [%%d0+%d], %%r0;\nret;\n}\n", 4 * N);
    CUmodule m;
    CUfunction f;
    CUdeviceptr p;
    int v;
    uint32_t x[N + 1], sum = 0;
    for (int i = 0; i < N; i++)
        sum += x[i] = (uint32_t)i * 7919;
    x[N] = 0;
    OK(F(cuModuleLoadData)(&m, text));
    OK(F(cuModuleGetFunction)(&f, m, "wide"));
    OK(F(cuFuncGetAttribute)(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    assert_true(v > 64); /* of 65536: 1024 threads with so many do not fit */
    OK(F(cuFuncGetAttribute)(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    assert_int_equal(v, BLOCK);
    OK(F(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&v, f, BLOCK, 0));
    assert_int_equal(v, 1);
    OK(F(cuMemAlloc)(&p, sizeof x));
    OK(F(cuMemcpyHtoD)(p, x, sizeof x));
    void *args[] = {&p};
    OK(F(cuLaunchKernel)(f, 1, 1, 1, BLOCK, 1, 1, 0, NULL, args, NULL));
    OK(F(cuMemcpyDtoH)(x, p, sizeof x));
    assert_int_equal(x[N], sum);
    OK(X(dovetailFuncSetResources)(f, 65));
    IS(F(cuLaunchKernel)(f, 1, 1, 1, BLOCK, 1, 1, 0, NULL, args, NULL), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    OK(F(cuFuncGetAttribute)(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    assert_int_equal(v, 896);
    drop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fat_binaries), cmocka_unit_test(wrong_images),
                                       cmocka_unit_test(linker),       cmocka_unit_test(cooperative),
                                       cmocka_unit_test(versions),     cmocka_unit_test(estimated_registers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
