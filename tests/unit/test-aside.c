/* Work in a copy of the process: its answer, and what the caller learns where there is none. */
#include "base/aside.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int mine = 1;

static bool doubles(void *user, void *ret)
{
    mine = *(int *)user * 2;
    char *s = malloc(1 << 20); /* the heap is usable there */
    memset(s, 1, 1 << 20);
    memcpy(ret, &mine, sizeof mine);
    free(s);
    return true;
}

static bool says_nothing(void *user, void *ret)
{
    memcpy(ret, user, sizeof(int));
    return false;
}

static bool dies(void *user, void *ret)
{
    (void)user, (void)ret;
    signal(SIGABRT, SIG_DFL);
    kill(getpid(), SIGKILL);
    return true;
}

static bool hangs(void *user, void *ret)
{
    (void)user, (void)ret;
    for (;;)
        pause();
}

static void test_answer(void **state)
{
    (void)state;
    struct dt_aside a, b;
    int x = 21, y = 4, got = 0;
    assert_true(dt_aside_start(&a, doubles, &x, sizeof x));
    assert_true(dt_aside_start(&b, doubles, &y, sizeof y)); /* two at once */
    assert_true(dt_aside_wait(&b, &got, sizeof got));
    assert_int_equal(got, 8);
    assert_true(dt_aside_wait(&a, &got, sizeof got));
    assert_int_equal(got, 42);
    assert_int_equal(mine, 1); /* what it wrote is its own */
    assert_false(dt_aside_wait(&a, &got, sizeof got));
}

static void test_none(void **state)
{
    (void)state;
    struct dt_aside a = {0};
    int x = 3, got = 0;
    assert_false(dt_aside_wait(&a, &got, sizeof got));
    assert_true(dt_aside_start(&a, says_nothing, &x, sizeof x));
    assert_false(dt_aside_wait(&a, &got, sizeof got));
    assert_true(dt_aside_start(&a, dies, NULL, sizeof x));
    assert_false(dt_aside_wait(&a, &got, sizeof got));
    assert_false(dt_aside_start(&a, doubles, &x, 4096)); /* more than a pipe takes as a whole */
    assert_false(dt_aside_wait(&a, &got, sizeof got));
}

static void test_drop(void **state)
{
    (void)state;
    struct dt_aside a;
    assert_true(dt_aside_start(&a, hangs, NULL, 1));
    pid_t pid = a.pid;
    dt_aside_drop(&a);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
    dt_aside_drop(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_answer), cmocka_unit_test(test_none),
                                       cmocka_unit_test(test_drop)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
