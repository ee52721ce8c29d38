/* softgpu: arithmetic over many operands, through launches of kernels, against the host.
 *
 * Correctly rounded operations (add sub mul fma div sqrt rcp cvt) against the host's own arithmetic under fesetround,
 * in every mode, bit for bit: 10^5 sets of operands each, a third of them edges. Approximations against libm in 80
 * bits, within the bounds that the PTX manual (§9.7.3, §9.7.4) states; halves for all their 65,536 values. Run once for
 * each instruction set (DOVETAIL_SOFTGPU_ISA).
 */
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softgpu/sg.h"

enum { N = 1 << 17, BLOCK = 256 };
static struct sg_device *dev;
static uint64_t a[N], b[N], c[N], d[N], seed = 1;

static uint64_t next(void)
{
    uint64_t z = seed += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

static float f32(uint64_t u)
{
    uint32_t v = (uint32_t)u;
    float f;
    memcpy(&f, &v, 4);
    return f;
}
static double f64(uint64_t u)
{
    double f;
    memcpy(&f, &u, 8);
    return f;
}
static uint64_t bits32(float f)
{
    uint32_t v;
    memcpy(&v, &f, 4);
    return v;
}
static uint64_t bits64(double f)
{
    uint64_t v;
    memcpy(&v, &f, 8);
    return v;
}
static double half(uint64_t h, bool bf)
{
    unsigned m = bf ? h & 0x7F : h & 0x3FF, e = bf ? h >> 7 & 255 : h >> 10 & 31, p = bf ? 7 : 10, bias = bf ? 127 : 15;
    double v =
        e == 2 * bias + 1 ? (m ? NAN : INFINITY) : ldexp(e ? m + (1u << p) : m, (e ? (int)e : 1) - (int)(bias + p));
    return h & 0x8000 ? -v : v;
}

/* Operands of a float type of `bytes`: edges, any bits, and exponents close to each other so that sums cancel. */
static uint64_t operand(unsigned bytes)
{
    static const uint32_t e32[] = {0,          1,          0x7FFFFF,   0x800000,   0x3F800000, 0x3F7FFFFF,
                                   0x3F800001, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001, 0x33800000,
                                   0x34000000, 0x4B800000, 0x3F000000, 0x40490FDB, 0x00800001, 0x1F800000,
                                   0x5F000000, 0x4F000000, 0x7E800000, 0x00FFFFFF};
    static const uint64_t e64[] = {0,
                                   1,
                                   0xFFFFFFFFFFFFF,
                                   0x10000000000000,
                                   0x3FF0000000000000,
                                   0x3FEFFFFFFFFFFFFF,
                                   0x3FF0000000000001,
                                   0x7FEFFFFFFFFFFFFF,
                                   0x7FF0000000000000,
                                   0x7FF8000000000000,
                                   0x7FF0000000000001,
                                   0x3CA0000000000000,
                                   0x3CB0000000000000,
                                   0x4340000000000000,
                                   0x3FE0000000000000,
                                   0x47EFFFFFE0000000,
                                   0x47EFFFFFF0000000,
                                   0x36A0000000000000,
                                   0x3690000000000000,
                                   0x380FFFFFC0000000,
                                   0x41E0000000000000};
    uint64_t r = next();
    unsigned kind = r % 6;
    r = next();
    if (kind < 2)
        return bytes == 4 ? e32[r % (sizeof e32 / 4)] | (r >> 40 & 1) << 31
                          : e64[r % (sizeof e64 / 8)] | (r >> 40 & 1) << 63;
    if (kind < 4)
        return bytes == 4 ? (uint32_t)r : r;
    if (bytes == 4) /* exponents of 2^-12 … 2^12 */
        return (r & 0x807FFFFF) | (uint64_t)(115 + (r >> 32) % 25) << 23;
    return (r & 0x800FFFFFFFFFFFFF) | (uint64_t)(1011 + (next() >> 32) % 25) << 52;
}

static void fill(unsigned bytes)
{
    for (unsigned i = 0; i < N; i++) {
        a[i] = operand(bytes);
        b[i] = operand(bytes);
        c[i] = operand(bytes);
        if (i % 7 == 0 && bytes == 4) /* the addend nearly cancels the product */
            c[i] = bits32(-(f32(a[i]) * f32(b[i]))) ^ (next() & 1);
        if (i % 7 == 0 && bytes == 8)
            c[i] = bits64(-(f64(a[i]) * f64(b[i]))) ^ (next() & 1);
    }
}

/* d[i] = text of %a %b %c, registers of `in` and `out` bytes, each in a slot of eight bytes */
static void run(const char *text, unsigned in, unsigned out)
{
    char ptx[2048];
    struct sg_module *m;
    struct dt_err e = {0};
    const char *rin = in == 8 ? "b64" : in == 4 ? "b32" : "b16", *rout = out == 8 ? "b64" : out == 4 ? "b32" : "b16";
    int n = snprintf(ptx, sizeof ptx,
                     ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, "
                     ".param .u64 c, .param .u64 d)\n{\n"
                     ".reg .b64 %%p, %%o; .reg .b32 %%i, %%t, %%n; .reg .%s %%a, %%b, %%c; .reg .%s %%d;\n"
                     "mov.u32 %%i, %%ctaid.x; mov.u32 %%n, %%ntid.x; mov.u32 %%t, %%tid.x; mad.lo.u32 %%i, %%i, %%n, "
                     "%%t; mul.wide.u32 %%o, %%i, 8;\n"
                     "ld.param.u64 %%p, [a]; add.u64 %%p, %%p, %%o; ld.global.%s %%a, [%%p];\n"
                     "ld.param.u64 %%p, [b]; add.u64 %%p, %%p, %%o; ld.global.%s %%b, [%%p];\n"
                     "ld.param.u64 %%p, [c]; add.u64 %%p, %%p, %%o; ld.global.%s %%c, [%%p];\n"
                     "%s\nld.param.u64 %%p, [d]; add.u64 %%p, %%p, %%o; st.global.%s [%%p], %%d;\nret;\n}\n",
                     rin, rout, rin, rin, rin, text, rout);
    assert_true(n > 0 && (size_t)n < sizeof ptx);
    int r = sg_module_load(dev, ptx, (size_t)n, &m, &e);
    if (r < 0)
        print_error("%s: %s\n", text, e.detail ? e.detail : "?");
    assert_int_equal(r, 0);
    memset(d, 0, sizeof d);
    void *args[4] = {a, b, c, d};
    struct sg_launch l = {.kernel = sg_module_kernel(m, "k"),
                          .grid = {N / BLOCK, 1, 1},
                          .block = {BLOCK, 1, 1},
                          .params = (uint8_t *)args};
    struct sg_fault f;
    r = sg_execute(dev, &l, NULL, &f);
    if (r < 0) {
        char t[512];
        sg_fault_text(&f, t, sizeof t);
        print_error("%s: %s\n", text, t);
    }
    assert_int_equal(r, 0);
    sg_module_free(m);
}

/* ---- correctly rounded */
static const struct {
    const char *name;
    int host;
} mode[4] = {{"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

/* One operation in the host's mode. Not inlined, volatile: nothing may be worked out or moved by the compiler. */
static __attribute__((noinline)) float host32(unsigned op, volatile float x, volatile float y, volatile float z)
{
    volatile float r;
    switch (op) {
    case 0: r = x + y; break;
    case 1: r = x - y; break;
    case 2: r = x * y; break;
    case 3: r = fmaf(x, y, z); break;
    case 4: r = x / y; break;
    case 5: r = sqrtf(x); break;
    default: r = 1.0f / x; break;
    }
    return r;
}
static __attribute__((noinline)) double host64(unsigned op, volatile double x, volatile double y, volatile double z)
{
    volatile double r;
    switch (op) {
    case 0: r = x + y; break;
    case 1: r = x - y; break;
    case 2: r = x * y; break;
    case 3: r = fma(x, y, z); break;
    case 4: r = x / y; break;
    case 5: r = sqrt(x); break;
    default: r = 1.0 / x; break;
    }
    return r;
}

static void compare(const char *text, unsigned i, uint64_t want)
{
    if (d[i] == want)
        return;
    print_error("%s of %#llx, %#llx, %#llx is %#llx, not %#llx\n", text, (unsigned long long)a[i],
                (unsigned long long)b[i], (unsigned long long)c[i], (unsigned long long)d[i], (unsigned long long)want);
    fail();
}

static void test_rounded(void **state)
{
    static const char *const op[] = {"add", "sub", "mul", "fma", "div", "sqrt", "rcp"};
    static const char *const source[] = {"%a, %b", "%a, %b", "%a, %b", "%a, %b, %c", "%a, %b", "%a", "%a"};
    for (unsigned wide = 0; wide < 2; wide++) {
        fill(wide ? 8 : 4);
        for (unsigned k = 0; k < 7; k++)
            for (unsigned m = 0; m < 4; m++) {
                char text[64];
                snprintf(text, sizeof text, "%s.%s.%s %%d, %s;", op[k], mode[m].name, wide ? "f64" : "f32", source[k]);
                run(text, wide ? 8 : 4, wide ? 8 : 4);
                fesetround(mode[m].host);
                static uint64_t want[N];
                for (unsigned i = 0; i < N; i++)
                    want[i] = wide ? bits64(host64(k, f64(a[i]), f64(b[i]), f64(c[i])))
                                   : bits32(host32(k, f32(a[i]), f32(b[i]), f32(c[i])));
                fesetround(FE_TONEAREST);
                for (unsigned i = 0; i < N; i++) /* NaNs are the canonical ones */
                    compare(text, i,
                            wide                  ? (isnan(f64(want[i])) ? 0xFFF8000000000000 : want[i])
                            : isnan(f32(want[i])) ? 0x7FFFFFFF
                                                  : want[i]);
            }
    }
}

static __attribute__((noinline)) float narrowed(volatile double x)
{
    volatile float r = (float)x;
    return r;
}
static __attribute__((noinline)) float from_s64(volatile int64_t x)
{
    volatile float r = (float)x;
    return r;
}
static __attribute__((noinline)) double from_u64(volatile uint64_t x)
{
    volatile double r = (double)x;
    return r;
}

static void test_converted(void **state)
{
    for (unsigned m = 0; m < 4; m++) {
        char text[64];
        fill(8);
        for (unsigned i = 0; i < N; i += 3) /* in reach of f32, its subnormals among them */
            a[i] = (a[i] & 0x800FFFFFFFFFFFFF) | (uint64_t)(1023 - 152 + next() % 281) << 52;
        snprintf(text, sizeof text, "cvt.%s.f32.f64 %%d, %%a;", mode[m].name);
        run(text, 8, 4);
        fesetround(mode[m].host);
        static uint64_t want[N];
        for (unsigned i = 0; i < N; i++)
            want[i] = bits32(narrowed(f64(a[i])));
        fesetround(FE_TONEAREST);
        for (unsigned i = 0; i < N; i++)
            compare(text, i, isnan(f32(want[i])) ? 0x7FFFFFFF : want[i]);

        for (unsigned i = 0; i < N; i++)
            a[i] = (uint64_t)((int64_t)next() >> next() % 64);
        snprintf(text, sizeof text, "cvt.%s.f32.s64 %%d, %%a;", mode[m].name);
        run(text, 8, 4);
        fesetround(mode[m].host);
        for (unsigned i = 0; i < N; i++)
            want[i] = bits32(from_s64((int64_t)a[i]));
        fesetround(FE_TONEAREST);
        for (unsigned i = 0; i < N; i++)
            compare(text, i, want[i]);
        snprintf(text, sizeof text, "cvt.%s.f64.u64 %%d, %%a;", mode[m].name);
        run(text, 8, 8);
        fesetround(mode[m].host);
        for (unsigned i = 0; i < N; i++)
            want[i] = bits64(from_u64(a[i]));
        fesetround(FE_TONEAREST);
        for (unsigned i = 0; i < N; i++)
            compare(text, i, want[i]);

        /* to integers: rint in the mode, then clamped */
        fill(4);
        snprintf(text, sizeof text, "cvt.%si.s32.f32 %%d, %%a;", mode[m].name);
        run(text, 4, 4);
        fesetround(mode[m].host);
        for (unsigned i = 0; i < N; i++) {
            float r = rintf(f32(a[i]));
            want[i] = (uint32_t)(isnan(r) ? 0 : r >= 0x1p31f ? INT32_MAX : r <= -0x1p31f ? INT32_MIN : (int32_t)r);
        }
        fesetround(FE_TONEAREST);
        for (unsigned i = 0; i < N; i++)
            compare(text, i, want[i]);
        fill(8);
        snprintf(text, sizeof text, "cvt.%si.u64.f64 %%d, %%a;", mode[m].name);
        run(text, 8, 8);
        fesetround(mode[m].host);
        for (unsigned i = 0; i < N; i++) {
            double r = rint(f64(a[i]));
            want[i] = isnan(r) ? 1ull << 63 : r >= 0x1p64 ? UINT64_MAX : r <= 0 ? 0 : (uint64_t)r;
        }
        fesetround(FE_TONEAREST);
        for (unsigned i = 0; i < N; i++)
            compare(text, i, want[i]);
    }
}

/* ---- approximations */
enum bound { ULP, RELATIVE, ABSOLUTE, LG2 };
static long double over(long double x, long double y) { return x / y; }
static long double inverse(long double x, long double y)
{
    (void)y;
    return 1 / x;
}
static long double root(long double x, long double y)
{
    (void)y;
    return sqrtl(x);
}
static long double inverse_root(long double x, long double y)
{
    (void)y;
    return 1 / sqrtl(x);
}
static long double sine(long double x, long double y)
{
    (void)y;
    return sinl(x);
}
static long double cosine(long double x, long double y)
{
    (void)y;
    return cosl(x);
}
static long double log_2(long double x, long double y)
{
    (void)y;
    return log2l(x);
}
static long double exp_2(long double x, long double y)
{
    (void)y;
    return exp2l(x);
}
static long double tanh_1(long double x, long double y)
{
    (void)y;
    return tanhl(x);
}

static long double error_of(enum bound how, long double got, long double want, long double x)
{
    long double diff = fabsl(got - want);
    switch (how) {
    case ULP: { /* of the f32 nearest to what is wanted */
        int e = want == 0 ? -126 : ilogbl(want);
        return diff / ldexpl(1, (e < -126 ? -126 : e) - 23);
    }
    case RELATIVE: return diff / fabsl(want);
    case LG2: return x > 0.5L && x < 2 ? diff : diff / fabsl(want);
    default: return diff;
    }
}

/* lo, hi: magnitudes of the operand, drawn by logarithm; both signs unless lo > 0 says `pos` */
static void approximation(const char *text, long double (*fn)(long double, long double), double lo, double hi, bool pos,
                          enum bound how, long double limit, bool ftz)
{
    long double worst = 0;
    for (unsigned i = 0; i < N; i++) {
        double e = log2(lo) + (log2(hi) - log2(lo)) * (double)(next() >> 11) * 0x1p-53;
        float x = (float)exp2(e), y = (float)exp2(log2(lo) + (log2(hi) - log2(lo)) * (double)(next() >> 11) * 0x1p-53);
        a[i] = bits32(!pos && next() & 1 ? -x : x);
        b[i] = bits32(!pos && next() & 1 ? -y : y);
    }
    run(text, 4, 4);
    for (unsigned i = 0; i < N; i++) {
        long double x = f32(a[i]), want = fn(x, f32(b[i])), got = f32(d[i]);
        if (fabsl(want) >= 0x1.FFFFFFp127L || (ftz && fabsl(want) < 0x1.000001p-126L))
            continue;
        long double err = error_of(how, got, want, x);
        if (!(err <= limit)) {
            print_error("%s of %.9g, %.9g is %.9g, not %.12Lg: error %Lg, limit %Lg\n", text, (double)x,
                        (double)f32(b[i]), (double)got, want, err, limit);
            fail();
        }
        worst = err > worst ? err : worst;
    }
    print_message("%-34s worst error %.3Lg of %.3Lg allowed\n", text, worst, limit);
}

static void test_approximate(void **state)
{
    const long double pi = 3.14159265358979323846L;
    approximation("div.approx.f32 %d, %a, %b;", over, 0x1p-60, 0x1p60, false, ULP, 2, false);
    approximation("div.approx.ftz.f32 %d, %a, %b;", over, 0x1p-120, 0x1p120, false, ULP, 2, true);
    approximation("div.full.f32 %d, %a, %b;", over, 0x1p-126, 0x1.fp127, false, ULP, 2, false);
    approximation("div.full.ftz.f32 %d, %a, %b;", over, 0x1p-126, 0x1.fp127, false, ULP, 2, true);
    approximation("rcp.approx.f32 %d, %a;", inverse, 0x1p-149, 0x1.fp127, false, ULP, 1, false);
    approximation("rcp.approx.ftz.f32 %d, %a;", inverse, 0x1p-126, 0x1.fp127, false, ULP, 1, true);
    approximation("sqrt.approx.f32 %d, %a;", root, 0x1p-149, 0x1.fp127, true, RELATIVE, 0x1p-23L, false);
    approximation("sqrt.approx.ftz.f32 %d, %a;", root, 0x1p-126, 0x1.fp127, true, RELATIVE, 0x1p-23L, true);
    approximation("rsqrt.approx.f32 %d, %a;", inverse_root, 0x1p-149, 0x1.fp127, true, RELATIVE, 0x1.12p-23L, false);
    approximation("rsqrt.approx.ftz.f32 %d, %a;", inverse_root, 0x1p-126, 0x1.fp127, true, RELATIVE, 0x1.12p-23L, true);
    approximation("sin.approx.f32 %d, %a;", sine, 0x1p-100, (double)pi, false, ABSOLUTE, 0x1.6ap-21L, false);
    approximation("cos.approx.f32 %d, %a;", cosine, 0x1p-100, (double)pi, false, ABSOLUTE, 0x1.6ap-21L, false);
    approximation("sin.approx.ftz.f32 %d, %a;", sine, 0x1p-10, (double)(100 * pi), false, ABSOLUTE, 0x1.3bp-15L, true);
    approximation("cos.approx.ftz.f32 %d, %a;", cosine, 0x1p-10, (double)(100 * pi), false, ABSOLUTE, 0x1.3bp-15L,
                  true);
    approximation("lg2.approx.f32 %d, %a;", log_2, 0x1p-149, 0x1.fp127, true, LG2, 0x1p-22L, false);
    approximation("lg2.approx.ftz.f32 %d, %a;", log_2, 0x1p-126, 0x1.fp127, true, LG2, 0x1p-22L, true);
    approximation("lg2.approx.f32 %d, %a;", log_2, 0x1p-1, 0x1p1, true, LG2, 0x1p-22L, false);
    approximation("ex2.approx.f32 %d, %a;", exp_2, 0x1p-30, 0x1.28p7, false, ULP, 2, false);
    approximation("ex2.approx.ftz.f32 %d, %a;", exp_2, 0x1p-30, 0x1p7, false, ULP, 2, true);
    approximation("tanh.approx.f32 %d, %a;", tanh_1, 0x1p-100, 0x1p7, false, RELATIVE, 0x1p-11L, false);
}

static void test_halves(void **state)
{
    static const struct {
        const char *text;
        long double (*fn)(long double, long double);
        bool bf;
        enum bound how;
        long double limit;
    } row[] = {
        {"ex2.approx.f16 %d, %a;", exp_2, false, RELATIVE, 0x1.13p-10L},
        {"ex2.approx.ftz.bf16 %d, %a;", exp_2, true, RELATIVE, 0x1p-7L},
        {"tanh.approx.f16 %d, %a;", tanh_1, false, ABSOLUTE, 0x1.02p-11L},
        {"tanh.approx.bf16 %d, %a;", tanh_1, true, ABSOLUTE, 0x1p-8L},
    };
    for (unsigned i = 0; i < N; i++)
        a[i] = i & 0xFFFF;
    for (unsigned k = 0; k < 4; k++) {
        run(row[k].text, 2, 2);
        for (unsigned i = 0; i < 65536; i++) {
            double x = half(a[i], row[k].bf), got = half(d[i], row[k].bf);
            long double want = row[k].fn(x, 0), top = row[k].bf ? 0x1.FFp127L : 0x1.FFEp15L,
                        low = row[k].bf ? 0x1p-126L : 0x1p-14L;
            if (isnan(x)) {
                assert_int_equal(d[i], 0x7FFF);
                continue;
            }
            bool ok = fabsl(want) >= top ? isinf(got)
                                         : error_of(row[k].how, got, want, x) <= row[k].limit ||
                                               (fabsl(want) < low && fabsl(got - want) <= low * 0x1p-7L);
            if (!ok) {
                print_error("%s of %g is %g, not %Lg\n", row[k].text, x, got, want);
                fail();
            }
        }
    }
}

static int setup(void **state)
{
    (void)state;
    if (sg_device_new(sg_model_find(NULL), &dev) < 0)
        return -1;
    uint64_t *const buf[] = {a, b, c, d};
    for (unsigned k = 0; k < 4; k++)
        if (sg_mem_register(dev, buf[k], sizeof a, false) < 0)
            return -1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sg_device_free(dev);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rounded), cmocka_unit_test(test_converted),
                                       cmocka_unit_test(test_approximate), cmocka_unit_test(test_halves)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
