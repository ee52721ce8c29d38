/* softgpu: rsqrt.approx.f32 of every float, beside the quotient and root in double that it stands for. Scaling by four
 * only moves the exponent, so that two exponents have every mantissa; the others have a share of theirs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "softgpu/exec/approx.h"

static void same(uint32_t u)
{
    float a = sg_float(u), want = (float)sg_rsqrt_d((double)a), got = sg_rsqrt_f(a);
    if (sg_bits(got) != sg_bits(want) && !(got != got && want != want)) {
        print_error("rsqrt(%a) is %a, not %a\n", (double)a, (double)got, (double)want);
        fail();
    }
}

static void test_every_mantissa(void **state)
{
    (void)state;
    for (uint32_t m = 0; m < 1u << 24; m++)
        same(0x3F800000u + m);
}

static void test_every_exponent(void **state)
{
    (void)state;
    for (uint64_t u = 0; u < 1ull << 32; u += 4093)
        same((uint32_t)u);
    const uint32_t edge[] = {0, 1, 2, 3, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FFFFFFF};
    for (unsigned k = 0; k < sizeof edge / sizeof *edge; k++) {
        same(edge[k]);
        same(edge[k] | 0x80000000u);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_mantissa), cmocka_unit_test(test_every_exponent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
