/* The confined compilers: what compiles, what is refused, what cannot be read, what is stopped. Skips (77) without
 * NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "device/device.h"

static const char good[] =
    "extern \"C\" __global__ void k(float *x, int n) { __shared__ float s[64]; int t = threadIdx.x;\n"
    "s[t % 64] = x[t]; __syncthreads(); x[t] = s[(t + n) % 64]; }\n";

static int compile(const char *src, const char *const *o, unsigned n, unsigned ms, char **ptx, struct dt_err *e)
{
    size_t len = 0;
    *ptx = NULL;
    int r = dev_compile_cuda(src, strlen(src), o, n, "sm_90", ms, ptx, &len, e);
    assert_true((r == 0) == (*ptx != NULL));
    if (!r)
        assert_int_equal(strlen(*ptx), len);
    return r;
}

/* With line information the PTX names the source, and no folder of this machine. */
static void names_no_folder(void **state)
{
    struct dt_err e = {0};
    char *ptx;
    const char *o[] = {"-lineinfo"};
    assert_int_equal(compile(good, o, 1, 60000, &ptx, &e), 0);
    const char *at = strstr(ptx, ".file");
    assert_non_null(at);
    assert_non_null(strstr(at, "\"" DEV_SOURCE_NAME "\""));
    assert_null(strstr(at, "/" DEV_SOURCE_NAME));
    assert_non_null(strstr(ptx, ".loc"));
    assert_int_equal(ptx[strlen(ptx) - 1], '\n');
    free(ptx);
}

static void compiles(void **state)
{
    struct dt_err e = {0};
    char *ptx, *again;
    const char *o[] = {"--std=c++17", "-DN=3", "-D", "M=4", "--fmad=false"};
    assert_int_equal(compile(good, o, 5, 60000, &ptx, &e), 0);
    assert_non_null(strstr(ptx, ".target sm_90"));
    assert_non_null(strstr(ptx, ".entry k("));
    uint64_t t = dt_now_us();
    assert_int_equal(compile(good, o, 5, 60000, &again, &e), 0); /* kept: far faster than a process */
    assert_true(dt_now_us() - t < 5000);
    assert_string_equal(ptx, again);
    free(again);

    struct dev_resources res;
    assert_int_equal(dev_resources(ptx, strlen(ptx), "k", "sm_90", &res, &e), 0);
    assert_false(res.estimated);
    assert_in_range(res.registers, 4, 64);
    assert_int_equal(res.shared_static, 256);
    assert_int_equal(res.spill_bytes, 0);
    void *bin = NULL;
    size_t n = 0;
    assert_int_equal(dev_assemble(ptx, strlen(ptx), "sm_90", &bin, &n, &e), 0);
    assert_true(n > 200);
    assert_memory_equal(bin, "\177ELF", 4);
    free(bin);
    free(ptx);
}

static void headers(void **state)
{
    struct dt_err e = {0};
    char *ptx;
    int r = compile("#include <cuda_fp16.h>\nextern \"C\" __global__ void h(__half *x) { x[0] = __hadd(x[1], x[2]); }",
                    NULL, 0, 60000, &ptx, &e);
    if (r)
        fail_msg("%s\n%s", e.detail, e.log ? e.log : "");
    free(ptx);
}

/* Sources written for nvcc include the host's headers for what is built in; what the device lacks is refused with a
 * hint. */
static void host_headers(void **state)
{
    static const char c[] =
        "#include <assert.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n#include <float.h>\n#include "
        "<limits.h>\n#include <math.h>\n"
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <inttypes.h>\n#include "
        "<stdio.h>\n#include <stdlib.h>\n"
        "#include <string.h>\n"
        "extern \"C\" __global__ void k(uint8_t *b, float *x, const __grid_constant__ CUtensorMap t, ptrdiff_t n)\n"
        "{\nassert(n < INT_MAX);\nx[0] = x[1] < INFINITY ? fmaxf(sqrtf(x[0]), FLT_MAX) : (float)M_PI;\n"
        "if (!n) printf(\"%p\", &t);\nmemset(b, 0, 16);\nb[16] = sizeof(uint64_t) + sizeof(int32_t) + sizeof t + "
        "offsetof(uint4, z);\n}\n";
    static const char cpp[] =
        "#include <algorithm>\n#include <array>\n#include <cassert>\n#include <cfloat>\n#include <climits>\n#include "
        "<cmath>\n"
        "#include <complex>\n#include <cstddef>\n#include <cstdint>\n#include <cstdio>\n#include <cstdlib>\n#include "
        "<cstring>\n"
        "#include <functional>\n#include <initializer_list>\n#include <iterator>\n#include <limits>\n#include "
        "<numeric>\n#include <tuple>\n"
        "#include <type_traits>\n#include <utility>\n#include <variant>\n"
        "template <typename T, typename = std::enable_if_t<std::is_floating_point_v<T>>> __device__ T most() {\n"
        "    return std::numeric_limits<T>::max(); }\n"
        "extern \"C\" __global__ void k(float *x, std::uint32_t *y, std::size_t n)\n"
        "{\nstd::array<float, 2> a{std::sqrt(x[0]), std::abs(x[1])};\nauto [p, q] = std::make_tuple(1, 2.f);\n"
        "x[2] = std::min(std::max(a[0], a[1]), most<float>()) + p * q;\nstd::swap(x[3], x[4]);\n*y = std::clamp(y[1], "
        "1u, 9u);\n}\n";
    static const char cub[] =
        "#include <cub/cub.cuh>\nextern \"C\" __global__ void k(int *x)\n{\nusing R = cub::BlockReduce<int, 128>;\n"
        "__shared__ R::TempStorage t;\nint s = R(t).Sum(x[threadIdx.x]);\nif (!threadIdx.x) *x = s;\n}\n";
    static const char *const text[] = {c, cpp, cub};
    struct dt_err e = {0};
    char *ptx;
    for (int i = 0; i < 3; i++) {
        if (compile(text[i], NULL, 0, 60000, &ptx, &e))
            fail_msg("%s\n%s", e.detail, e.log ? e.log : "");
        if (i == 0) { /* 8 + 4 + 128 + 8, as nvcc counts */
            assert_non_null(strstr(ptx, ".param .align 64 .b8 k_param_2[128]"));
            assert_non_null(strstr(ptx, ", 148;"));
        }
        free(ptx);
    }
    assert_int_equal(compile("#include <iostream>\n__global__ void k() {}", NULL, 0, 60000, &ptx, &e), DT_E_COMPILE);
    assert_non_null(strstr(e.detail, "nvcc -ptx"));
    dt_err_done(&e);
    assert_int_equal(compile("__global__ void k() {}\nint main() { return 0; }", NULL, 0, 60000, &ptx, &e),
                     DT_E_COMPILE);
    assert_non_null(strstr(e.detail, "nvcc -ptx"));
    dt_err_done(&e);
}

static void says_why(void **state)
{
    struct dt_err e = {0};
    char *ptx;
    assert_int_equal(compile("__global__ void k() { nonsense(); }", NULL, 0, 60000, &ptx, &e), DT_E_COMPILE);
    assert_non_null(e.log);
    assert_non_null(strstr(e.log, "nonsense"));
    assert_non_null(strstr(e.log, "kernel.cu(1)"));
    dt_err_done(&e);

    static const char bad[] =
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { st.gloobal.u32 [%r1], 0; ret; }\n";
    assert_int_equal(dev_assemble(bad, strlen(bad), "sm_90", NULL, NULL, &e), DT_E_PTX);
    assert_non_null(strstr(e.detail, "gloobal"));
    dt_err_done(&e);
}

static void options(void **state)
{
    static const char *const refused[] = {"-I/etc",
                                          "--include-path=/",
                                          "-arch=sm_80",
                                          "--gpu-architecture=sm_90",
                                          "--time=/tmp/x",
                                          "--create-pch=/tmp/x",
                                          "-fdevice-time-trace=/tmp/x",
                                          "--ptxas-options=-v",
                                          "-Xptxas",
                                          "@/etc/passwd",
                                          "-D",
                                          "-D1",
                                          "-DA=\n",
                                          "--std=gnu++17",
                                          "--fmad=maybe",
                                          "--maxrregcount=-1",
                                          "-include=x",
                                          "--use_fast_mathx",
                                          "-dlto",
                                          "",
                                          "--pre-include=/etc/passwd"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct dt_err e = {0};
        char *ptx;
        assert_int_equal(compile(good, &refused[i], 1, 60000, &ptx, &e), DT_E_COMPILE);
        assert_non_null(strstr(e.detail, refused[i]));
        assert_non_null(strstr(e.detail, "not allowed"));
        dt_err_done(&e);
    }
    size_t n;
    char *p = NULL;
    assert_int_equal(dev_compile_cuda(good, strlen(good), NULL, 0, "sm_9; rm", 1000, &p, &n, NULL), DT_E_USAGE);
}

/* A file outside the toolkit: not read, not quoted; a fifo: not waited for. */
static void confined(void **state)
{
    char secret[] = "/tmp/dovetail-secret-XXXXXX", src[512], *ptx;
    int fd = mkstemp(secret);
    struct dt_err e = {0};
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "TOPSECRET not C\n", 16), 16);
    close(fd);
    snprintf(src, sizeof src, "#include \"%s\"\n%s", secret, good);
    assert_int_equal(compile(src, NULL, 0, 60000, &ptx, &e), DT_E_COMPILE);
    assert_true(!e.log || !strstr(e.log, "TOPSECRET"));
    dt_err_done(&e);
    unlink(secret);

    assert_int_equal(mkfifo(secret, 0600), 0);
    uint64_t t = dt_now_us();
    assert_int_equal(compile(src, NULL, 0, 60000, &ptx, &e), DT_E_COMPILE);
    assert_true(dt_now_us() - t < 30000000);
    dt_err_done(&e);
    unlink(secret);
}

/* Where NVRTC looks for a file that it may not have, it finds what it finds where there is none: the same words, but
 * for the name. `how` has an @ where it goes. */
static void same_words(const char *how, const char *there, const char *nowhere)
{
    struct dt_err e[2] = {0};
    char src[512], *ptx, *at;
    const char *const path[2] = {there, nowhere};
    for (int i = 0; i < 2; i++) {
        dt_free_ char *form = dt_strdup(how);
        *strchr(form, '@') = 0;
        snprintf(src, sizeof src, "%s%s%s\n%s", form, path[i], strchr(how, '@') + 1, good);
        assert_int_equal(compile(src, NULL, 0, 60000, &ptx, &e[i]), DT_E_COMPILE);
        assert_non_null(e[i].log);
        assert_null(strstr(e[i].log, "Permission"));
        assert_null(strstr(e[i].log, "Debian"));
        assert_null(strstr(e[i].log, "root:"));
        while ((at = strstr(e[i].log, path[i])))
            memset(at, '*', strlen(path[i]));
    }
    assert_int_equal(strlen(there), strlen(nowhere));
    assert_string_equal(e[0].log, e[1].log);
    dt_err_done(&e[0]);
    dt_err_done(&e[1]);
}

/* Nothing but the toolkit's headers is read, and nothing else can be asked for: by its name, from below an include
 * folder, through a link, by #include_next or __has_include; files, folders and the libraries' own. */
static void reads_headers_alone(void **state)
{
    char dir[] = "/tmp/dovetail-secret-XXXXXX", link[64], none[64], src[1024], *ptx;
    struct dt_err e = {0};
    assert_non_null(mkdtemp(dir));
    snprintf(link, sizeof link, "%s/link", dir);
    snprintf(none, sizeof none, "%s/none", dir);
    assert_int_equal(symlink("/etc/passwd", link), 0);
    same_words("#include \"@\"", "/usr/lib/os-release", "/usr/lib/os-releasf");
    same_words("#include \"@\"", "/etc/passwd", "/etc/passwe");
    same_words("#include <@>", "/etc/passwd", "/etc/passwe");
    same_words("#include \"../../../../../../../..@\"", "/etc/passwd", "/etc/passwe");
    same_words("#include <../../../../../../../..@>", "/etc/passwd", "/etc/passwe");
    same_words("#include \"@\"", link, none);
    same_words("#include_next \"@\"", "/etc/passwd", "/etc/passwe");
    same_words("#include_next <../../../../../../../..@>", "/etc/passwd", "/etc/passwe");
    same_words("#include \"@\"", "/etc", "/etd");
    same_words("#include \"@\"", "/proc/self/environ", "/proc/self/enviroo");
    snprintf(src, sizeof src,
             "#if __has_include(\"/etc/passwd\") || __has_include(</etc/passwd>) || __has_include(\"%s\") \\\n"
             "    || __has_include(\"../../../../../etc/passwd\") || __has_include(<../../../../../etc/passwd>) \\\n"
             "    || __has_include(\"/usr/lib/os-release\") || __has_include(\"/etc\") || __has_include(</usr/lib>)\n"
             "#error there is one\n#endif\n"
             "#if !__has_include(<cuda_fp16.h>) || !__has_include(<cub/cub.cuh>)\n#error where are they\n#endif\n%s",
             link, good);
    if (compile(src, NULL, 0, 60000, &ptx, &e))
        fail_msg("%s\n%s", e.detail, e.log ? e.log : "");
    free(ptx);
    unlink(link);
    rmdir(dir);
}

/* Templates that double at every level: the compiler would take minutes. */
static void stopped(void **state)
{
    struct dt_err e = {0};
    char *ptx;
    static const char slow[] =
        "template <int A, int B> struct T { enum { v = T<A - 1, 2 * B>::v + T<A - 1, 2 * B + 1>::v }; };\n"
        "template <int B> struct T<0, B> { enum { v = B }; };\n"
        "extern \"C\" __global__ void k(int *x) { x[0] = T<24, 0>::v; }\n";
    uint64_t t = dt_now_us();
    assert_int_equal(compile(slow, NULL, 0, 1500, &ptx, &e), DT_E_TIMEOUT);
    assert_in_range(dt_now_us() - t, 1000000, 6000000);
    dt_err_done(&e);
}

/* Triton writes the newest .version that LLVM knows, newer than many a toolkit. */
static void newer_ptx(void **state)
{
    static const char body[] =
        ".target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 x)\n{\n.reg .b64 %%rd<2>;\n"
        "ld.param.u64 %%rd1, [x];\nst.global.u32 [%%rd1], 7;\n%s\nret;\n}\n";
    struct dev_resources old, new;
    struct dt_err e = {0};
    char text[2][1024];
    for (int k = 0; k < 2; k++) {
        int n = snprintf(text[k], sizeof text[k], ".version %s\n", k ? "9.5" : "8.0");
        snprintf(text[k] + n, sizeof text[k] - (size_t)n, body, "");
    }
    assert_int_equal(dev_resources(text[0], strlen(text[0]), "k", "sm_90", &old, &e), 0);
    assert_int_equal(dev_resources(text[1], strlen(text[1]), "k", "sm_90", &new, &e), 0);
    assert_int_equal(new.registers, old.registers);
    assert_false(old.estimated);
    assert_false(new.estimated);
    /* an instruction that this ptxas cannot know leaves only the estimate */
    snprintf(text[1], sizeof text[1], ".version 9.5\n");
    snprintf(text[1] + strlen(text[1]), sizeof text[1] - strlen(text[1]), body, "tomorrow.b32 %rd1;");
    assert_int_equal(dev_resources(text[1], strlen(text[1]), "k", "sm_90", &new, &e), 0);
    assert_true(new.estimated);
    dt_err_done(&e);
}

/* Delays stand in every entry that has a body, once, and the module is one that compiles. */
static void delayed(void **state)
{
    const char *ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.func helper()\n{\nret;\n}\n"
                      ".visible .entry one(.param .u64 x) // { in a comment\n.maxntid 32, 1, 1\n{\n.reg .b32 "
                      "%dvd<2>;\nmov.u32 %dvd1, %tid.x;\nDVGO: ret;\n}\n"
                      ".entry later(.param .u64 x)\n{\nret;\n}\n";
    struct dt_err e = {0};
    struct ptx_module *m = NULL;
    char *text = dev_delayed_ptx(ptx);
    assert_non_null(text);
    unsigned n = 0;
    for (const char *p = text; (p = strstr(p, "nanosleep")); p++)
        n++;
    assert_int_equal(n, 2);
    assert_true(strstr(text, "nanosleep") > strstr(text, ".entry one"));
    if (ptx_parse(text, strlen(text), &m, &e) < 0 || ptx_verify(m, &e) < 0)
        fail_msg("%s", e.detail);
    ptx_module_free(m);
    int r = dev_assemble(text, strlen(text), "sm_90", NULL, NULL, &e);
    assert_true(r == 0 || r == DT_E_NO_COMPILER);
    dt_err_done(&e);
    free(text);
}

static unsigned children(void)
{
    char path[64], text[4096] = "";
    unsigned n = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    if (!f)
        skip(); /* a kernel without it */
    (void)!fread(text, 1, sizeof text - 1, f);
    fclose(f);
    for (const char *t = text; *t; t++)
        n += *t == ' ';
    return n;
}

/* From the second text on the next assembler waits; it makes the same code; it is no use where the environment is
 * another one; and it can be ended. */
static void waits_for_text(void **state)
{
    dev_compilers_rest();
    for (int k = 0; k < 4; k++) {
        char ptx[200];
        void *cubin = NULL;
        size_t n = 0;
        struct dt_err e = {0};
        snprintf(ptx, sizeof ptx, ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry w%d() { ret; }\n", k);
        assert_int_equal(children(), k > 1);
        if (k == 3)
            setenv("DOVETAIL_CUDA_LIBS", "/nonexistent", 1);
        int r = dev_assemble(ptx, strlen(ptx), "sm_90", &cubin, &n, &e);
        assert_true(r == 0 || (k == 3 && r == DT_E_NO_COMPILER));
        assert_true(r < 0 || (n > 4 && !memcmp(cubin, "\177ELF", 4)));
        unsetenv("DOVETAIL_CUDA_LIBS");
        dt_err_done(&e);
        free(cubin);
    }
    dev_compilers_rest();
    assert_int_equal(children(), 0);
}

int main(void)
{
    if (!dev_nvrtc_version() || !dev_nvjitlink_version()) {
        puts("NVRTC or nvJitLink is not here: skipped");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delayed), cmocka_unit_test(compiles),     cmocka_unit_test(names_no_folder),
        cmocka_unit_test(headers), cmocka_unit_test(host_headers), cmocka_unit_test(says_why),
        cmocka_unit_test(options), cmocka_unit_test(confined),     cmocka_unit_test(reads_headers_alone),
        cmocka_unit_test(stopped), cmocka_unit_test(newer_ptx),    cmocka_unit_test(waits_for_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
