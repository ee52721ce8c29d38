/* Which entries of another toolchain may be served: each part of the text for itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "daemon/shared/shared.h"

#define MINE "dovetail 1.2; rewriter 20; nvrtc 13.0; nvjitlink 13.0"

static void test_parts(void **state)
{
    static const struct {
        const char *old;
        bool ptx, source; /* may be served, to a graph in PTX and to one in CUDA C++ */
    } rows[] = {
        {"dovetail 1.1; rewriter 20; nvrtc 13.0; nvjitlink 13.0", true, true},
        {"dovetail 1.2; rewriter 18; nvrtc 13.0; nvjitlink 13.0", true, true},
        {"dovetail 1.2; rewriter 17; nvrtc 13.0; nvjitlink 13.0", false, false}, /* before RW_SOUND_SINCE */
        {"dovetail 1.2; rewriter 21; nvrtc 13.0; nvjitlink 13.0", false, false}, /* newer than this one */
        {"dovetail 1.2; rewriter 20; nvrtc 12.9; nvjitlink 13.0", true, false},
        {"dovetail 1.2; rewriter 20; nvrtc none; nvjitlink 13.0", true, false},
        {"dovetail 1.2; rewriter 20; nvrtc 13.0; nvjitlink 12.9", false, false},
        {"dovetail 1.2; rewriter 20; nvrtc 13.0; nvjitlink none", false, false},
        {"dovetail 1.2; rewriter 20; nvrtc 13.0; nvjitlink 13.0; more 1", false, false},
        {"dovetail 1.1; rewriter 20; nvrtc 13.0; nvjitlink 13.0; figures 0123", false, false},
        {"dovetail 1.2; rewriter 20; nvrtc 13.0", false, false},
        {"dovetail 1.2; rewriter 0.20; nvrtc 13.0; nvjitlink 13.0", false, false},
        {"dovetail 1.2; rewriter ; nvrtc 13.0; nvjitlink 13.0", false, false},
        {"dovetail 1.2; rewriter 99999999999999999999; nvrtc 13.0; nvjitlink 13.0", false, false},
        {"", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (dtd_toolchain_stands(rows[i].old, MINE, "18", true) != rows[i].ptx ||
            dtd_toolchain_stands(rows[i].old, MINE, "18", false) != rows[i].source)
            fail_msg("%s", rows[i].old);
        assert_false(dtd_toolchain_stands(rows[i].old, MINE, "", true)); /* a worker that does not say */
        assert_false(dtd_toolchain_stands(rows[i].old, "dovetail 1.2", "18", true));
        /* what the device adds must be the same */
        char old[200];
        snprintf(old, sizeof old, "%s; figures 0123", rows[i].old);
        assert_false(dtd_toolchain_stands(old, MINE, "18", true));
        assert_false(dtd_toolchain_stands(old, MINE "; figures 4567", "18", true));
    }
    assert_true(dtd_toolchain_stands(MINE "; figures 0123", MINE "; figures 0123", "18", false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
