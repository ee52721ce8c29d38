/* softgpu/jit/x86.c: the bytes of each form of instruction, as binutils' disassembler reads them. Its text
 * stands beside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softgpu/jit/x86.h"

static struct sg_x86 x;

/* What was written since the last time is these bytes. */
static void is(const char *text, const char *hex)
{
    char got[128] = "";
    for (size_t i = 0; i < x.n; i++)
        snprintf(got + 2 * i, 3, "%02x", x.p[i]);
    if (strcmp(got, hex))
        print_error("%s: %s, not %s\n", text, got, hex);
    assert_string_equal(got, hex);
    x.n = 0;
}

static void same_bytes(void **state)
{
    (void)state;
    const struct sg_x86_mem a = SG_AT(RBP, -8192), b = SG_AT(R12, 130), c = SG_AT2(R15, RCX, 64),
                            d = SG_AT(RSP, 0x12340), e = SG_AT(R13, 0);
#include "x86-bytes.inc"
    assert_false(x.failed);
    free(x.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
