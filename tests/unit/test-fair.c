/* daemon/service/fair.c: turns, their ends, shares of the queue, Retry-After. The clock is the test's, so that hours
 * pass in no time; `serve` is a pool of one worker. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "daemon/service/fair.h"

#define SLICE 10.0

static uint64_t now_us;
static uint64_t test_now(void) { return now_us; }
static void pass(double seconds) { now_us += (uint64_t)(seconds * 1e6); }

static void begin(struct dtd_jobs *js, unsigned max_queued)
{
    dtd_jobs_init(js, max_queued, 10, 1 << 20);
    js->now_us = test_now;
    js->slice = SLICE;
}

static int try_post(struct dtd_jobs *js, unsigned uid, const char *share, struct dtd_job **ret)
{
    struct dt_err e = {0};
    struct dtd_post p = {uid, true, share, "plan", "soft:h200", 0, dt_strdup("r"), 1};
    int r = dtd_jobs_post(js, &p, ret, &e);
    dt_err_done(&e);
    return r;
}

static struct dtd_job *post(struct dtd_jobs *js, unsigned uid, const char *share)
{
    struct dtd_job *j = NULL;
    assert_true(try_post(js, uid, share, &j) >= 0);
    return j;
}

/* n jobs of one user, each its own graph */
static unsigned posts(struct dtd_jobs *js, unsigned uid, unsigned n, int *ret)
{
    static unsigned serial;
    unsigned done = 0;
    for (char share[40]; n; n--) {
        struct dtd_job *j;
        snprintf(share, sizeof share, "%u-%u", uid, ++serial);
        *ret = try_post(js, uid, share, &j);
        if (*ret < 0)
            break;
        done++;
    }
    return done;
}

static bool any(const struct dtd_job *j, const void *user) { return true; }

static unsigned uid_of(const struct dtd_job *j) { return j->owner.p[0].uid; }

static void end(struct dtd_jobs *js, struct dtd_job *j) { dtd_job_finish(js, j, "miss", "", "", dt_strdup("{}"), 2); }

/* The next job runs for so long; its user. */
static unsigned serve(struct dtd_jobs *js, double seconds)
{
    struct dtd_job *j = dtd_fair_next(js, NULL, any, NULL);
    assert_non_null(j);
    unsigned uid = uid_of(j);
    dtd_job_start(js, j);
    pass(seconds);
    end(js, j);
    return uid;
}

static void in_turn(void **state)
{
    struct dtd_jobs js;
    int r;
    begin(&js, 64);
    posts(&js, 1, 20, &r);
    posts(&js, 2, 3, &r);
    unsigned served[4] = {0};
    for (int i = 0; i < 6; i++)
        served[serve(&js, 1)]++;
    assert_int_equal(served[1], 3);
    assert_int_equal(served[2], 3);
    posts(&js, 2, 4, &r);
    posts(&js, 3, 4, &r);
    served[1] = 0;
    served[2] = 0;
    for (int i = 0; i < 9; i++) /* a third each, whoever has how many */
        served[serve(&js, 1)]++;
    assert_int_equal(served[1], 3);
    assert_int_equal(served[2], 3);
    assert_int_equal(served[3], 3);
    dtd_jobs_done(&js);
}

static void by_time_and_not_by_number(void **state)
{
    struct dtd_jobs js;
    int r;
    begin(&js, 64);
    posts(&js, 1, 10, &r); /* eight seconds each */
    posts(&js, 2, 20, &r); /* one second each */
    double ran[3] = {0};
    for (int i = 0; i < 18; i++) {
        struct dtd_job *j = dtd_fair_next(&js, NULL, any, NULL);
        double seconds = uid_of(j) == 1 ? 8 : 1;
        ran[serve(&js, seconds)] += seconds;
    }
    assert_true(ran[1] == 16 && ran[2] == 16);
    dtd_jobs_done(&js);
}

/* Oldest first among one user's; what lost a turn is behind. */
static void first_come(void **state)
{
    struct dtd_jobs js;
    begin(&js, 64);
    struct dtd_job *a = post(&js, 1, "a"), *b = post(&js, 1, "b"), *c = post(&js, 1, "c");
    dtd_job_start(&js, a);
    dtd_job_give_back(&js, a, true);
    assert_ptr_equal(dtd_fair_next(&js, NULL, any, NULL), b);
    dtd_job_start(&js, b);
    assert_ptr_equal(dtd_fair_next(&js, NULL, any, NULL), c);
    dtd_job_start(&js, c);
    assert_ptr_equal(dtd_fair_next(&js, NULL, any, NULL), a);
    dtd_jobs_done(&js);
}

/* A pause earns nothing, and a long past costs nothing. */
static void pauses(void **state)
{
    struct dtd_jobs js;
    int r;
    begin(&js, 64);
    posts(&js, 1, 50, &r);
    posts(&js, 2, 1, &r);
    assert_int_equal(serve(&js, 1), 1);
    assert_int_equal(serve(&js, 1), 2); /* then it is away for a long time */
    for (int i = 0; i < 30; i++)
        assert_int_equal(serve(&js, 100), 1);
    assert_int_equal(serve(&js, 1), 1);
    posts(&js, 2, 10, &r);
    unsigned served[3] = {0};
    for (int i = 0; i < 8; i++)
        served[serve(&js, 1)]++;
    assert_true(served[1] >= 3 && served[2] >= 3);
    while (js.active)
        serve(&js, 1);
    posts(&js, 1, 4, &r); /* nobody had work: all begin alike, whatever they had */
    posts(&js, 3, 4, &r);
    served[1] = 0;
    unsigned three = 0;
    for (int i = 0; i < 8; i++)
        *(serve(&js, 1) == 1 ? &served[1] : &three) += 1;
    assert_int_equal(served[1], 4);
    assert_int_equal(three, 4);
    dtd_jobs_done(&js);
}

static void shared_jobs(void **state)
{
    struct dtd_jobs js;
    begin(&js, 64);
    struct dtd_job *both = post(&js, 1, "both");
    post(&js, 2, "both");
    post(&js, 1, "one");
    post(&js, 2, "two");
    post(&js, 3, "three");
    assert_ptr_equal(dtd_fair_next(&js, NULL, any, NULL), both);
    dtd_job_start(&js, both);
    pass(6);
    end(&js, both); /* three seconds each */
    assert_int_equal(serve(&js, 2), 3);
    post(&js, 3, "three again");
    assert_int_equal(serve(&js, 2), 3); /* 2 against 3 */
    post(&js, 3, "three once more");
    assert_true(serve(&js, 1) != 3); /* 4 against 3 */
    dtd_jobs_done(&js);
    /* who joins pays from then on, and who leaves no longer */
    begin(&js, 64);
    struct dtd_job *j = post(&js, 1, "j");
    post(&js, 3, "other");
    dtd_job_start(&js, j);
    pass(4);
    post(&js, 2, "j");
    pass(4);
    assert_true(dtd_job_disown(&js, j, 1));
    pass(4);
    dtd_fair_charge(&js);
    double used[4] = {0};
    for (struct dtd_user *u = js.users; u; u = u->next)
        used[u->uid] = u->used;
    assert_true(used[1] == 6 && used[2] == 6 && used[3] == 0);
    dtd_jobs_done(&js);
}

/* Endless jobs of one user; another's short ones are there now and then. What the other waits. */
static double longest_wait(struct dtd_jobs *js, unsigned rounds)
{
    double longest = 0;
    int r;
    posts(js, 1, 50, &r);
    for (unsigned i = 0; i < rounds; i++) {
        struct dtd_job *run = dtd_fair_next(js, NULL, any, NULL);
        assert_int_equal(uid_of(run), 1);
        dtd_job_start(js, run);
        pass(3.7 * (i % 5));
        posts(js, 2, 1, &r);
        assert_int_equal(r, 0);
        double wait = dtd_fair_yields(js, run, dtd_fair_next(js, run, any, NULL));
        assert_true(wait >= 0);
        pass(wait);
        assert_true(dtd_fair_yields(js, run, dtd_fair_next(js, run, any, NULL)) < 1e-3);
        dtd_job_give_back(js, run, true);
        assert_int_equal(serve(js, 0.5), 2);
        longest = wait > longest ? wait : longest;
    }
    return longest;
}

static void one_slice(void **state)
{
    struct dtd_jobs js;
    begin(&js, 64);
    assert_true(longest_wait(&js, 50) <= SLICE); /* each of the fifty lost its first turn */
    assert_true(longest_wait(&js, 300) <= 8 * SLICE);
    dtd_jobs_done(&js);
}

static void who_does_not_yield(void **state)
{
    struct dtd_jobs js;
    begin(&js, 64);
    struct dtd_job *a = post(&js, 1, "a"), *own = post(&js, 1, "own"), *b = post(&js, 2, "b");
    dtd_job_start(&js, a);
    pass(100);
    assert_true(dtd_fair_yields(&js, a, own) < 0); /* to the same user's */
    assert_true(dtd_fair_yields(&js, a, b) == 0);
    post(&js, 2, "a"); /* now it is theirs too */
    assert_true(dtd_fair_yields(&js, a, b) < 0);
    assert_true(dtd_fair_yields(&js, b, a) < 0); /* does not run */
    js.slice = 0;
    assert_true(dtd_fair_yields(&js, a, post(&js, 3, "c")) < 0);
    dtd_jobs_done(&js);
    /* nor to a user who had as much */
    begin(&js, 64);
    int r;
    posts(&js, 2, 2, &r);
    serve(&js, 50);
    struct dtd_job *c = post(&js, 1, "c");
    dtd_job_start(&js, c);
    struct dtd_job *d = dtd_fair_next(&js, NULL, any, NULL);
    assert_int_equal(uid_of(d), 2);
    pass(30);
    double later = dtd_fair_yields(&js, c, d);
    assert_true(later > 0);
    pass(later);
    assert_true(dtd_fair_yields(&js, c, d) < 1e-3);
    dtd_jobs_done(&js);
}

/* A long job comes to its end although another user always has short ones. */
static void long_jobs_end(void **state)
{
    struct dtd_jobs js;
    int r;
    begin(&js, 64);
    struct dtd_job *j = post(&js, 1, "long");
    bool ended = false;
    double begun = (double)now_us / 1e6;
    while (!ended && (double)now_us / 1e6 - begun < 1000) {
        posts(&js, 2, 8 - js.count[DTD_QUEUED] % 8, &r);
        struct dtd_job *run = dtd_fair_next(&js, NULL, any, NULL);
        if (run != j) {
            serve(&js, 1);
            continue;
        }
        dtd_job_start(&js, j);
        for (double ran = 0; ran < 75 && !ended; ran += 0.5) {
            pass(0.5);
            if (dtd_fair_yields(&js, j, dtd_fair_next(&js, j, any, NULL)) == 0) {
                dtd_job_give_back(&js, j, true);
                break;
            }
            ended = ran + 0.5 >= 75;
        }
    }
    assert_true(ended);
    dtd_jobs_done(&js);
}

static void shares_of_the_queue(void **state)
{
    struct dtd_jobs js;
    int r;
    begin(&js, 64);
    assert_int_equal(posts(&js, 1, 70, &r), 56); /* alone: up to the last eighth */
    assert_int_equal(r, DT_E_SHARE);
    assert_int_equal(posts(&js, 2, 70, &r), 4); /* then no more than are free */
    assert_int_equal(r, DT_E_SHARE);
    assert_int_equal(posts(&js, 3, 70, &r), 2);
    assert_int_equal(posts(&js, 4, 70, &r), 1);
    assert_int_equal(posts(&js, 5, 70, &r), 1);
    assert_int_equal(posts(&js, 6, 1, &r), 0);
    assert_int_equal(r, DT_E_BUSY); /* it is full, and that is not this user's doing */
    assert_int_equal(posts(&js, 1, 1, &r), 0);
    assert_int_equal(r, DT_E_SHARE);
    dtd_jobs_done(&js);

    begin(&js, 90);
    posts(&js, 1, 2, &r);
    assert_int_equal(posts(&js, 2, 70, &r), 30); /* two wait: a third each, and one is left for others */
    assert_int_equal(posts(&js, 3, 70, &r), 22); /* three: a quarter */
    dtd_jobs_done(&js);

    begin(&js, 4); /* too small for a reserve */
    assert_int_equal(posts(&js, 1, 9, &r), 4);
    assert_int_equal(r, DT_E_BUSY);
    dtd_jobs_done(&js);
}

static void retry_after(void **state)
{
    struct dtd_jobs js;
    int r;
    begin(&js, 64);
    assert_int_equal(dtd_fair_retry_after(&js, 1, 1), 1); /* nothing is known, nobody waits */
    posts(&js, 1, 4, &r);
    serve(&js, 20);
    assert_int_equal(dtd_fair_retry_after(&js, 1, 1), 20); /* a job's time until one more of theirs has begun */
    posts(&js, 2, 1, &r);
    posts(&js, 3, 1, &r);
    assert_int_equal(dtd_fair_retry_after(&js, 1, 1), 60);
    assert_int_equal(dtd_fair_retry_after(&js, 4, 2), 40);
    dtd_job_start(&js, dtd_fair_next(&js, NULL, any, NULL));
    pass(100000); /* what runs counts, too */
    assert_int_equal(dtd_fair_retry_after(&js, 1, 1), 600);
    dtd_jobs_done(&js);
}

/* Users come and go; accounts do not pile up. */
static void accounts_are_forgotten(void **state)
{
    struct dtd_jobs js;
    int r;
    unsigned n = 0;
    begin(&js, 64);
    posts(&js, 0, 3, &r);
    for (unsigned uid = 1; uid < 10000; uid++) {
        posts(&js, uid, 1, &r);
        assert_int_equal(r, 0);
        assert_true(serve(&js, 1) <= uid);
        posts(&js, 0, 1, &r);
        while (js.count[DTD_QUEUED] > 3)
            serve(&js, 1);
    }
    for (const struct dtd_user *u = js.users; u; u = u->next)
        n++;
    assert_true(n < 70);
    dtd_jobs_done(&js);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_turn),
                                       cmocka_unit_test(by_time_and_not_by_number),
                                       cmocka_unit_test(first_come),
                                       cmocka_unit_test(pauses),
                                       cmocka_unit_test(shared_jobs),
                                       cmocka_unit_test(one_slice),
                                       cmocka_unit_test(who_does_not_yield),
                                       cmocka_unit_test(long_jobs_end),
                                       cmocka_unit_test(shares_of_the_queue),
                                       cmocka_unit_test(retry_after),
                                       cmocka_unit_test(accounts_are_forgotten)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
