/* A cmocka case that cannot run here says why; `./dev test` counts it as skipped and lists it (tests/count.py). */
#ifndef DT_TESTS_SKIP_H
#define DT_TESTS_SKIP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SKIP(why)                                                                                                      \
    do {                                                                                                               \
        print_message("[  BECAUSE ] %s\n", why);                                                                       \
        skip();                                                                                                        \
    } while (0)

#endif
