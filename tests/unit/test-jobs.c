/* daemon/service/jobs.c: the state machine, sharing, events and their ring, watchers, forgetting. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "daemon/service/jobs.h"

static struct dtd_job *post(struct dtd_jobs *js, const char *share, int expect)
{
    struct dtd_job *j = NULL;
    struct dtd_post p = {1000, true, share, "plan", "soft:h200", 0, dt_strdup("request"), 7};
    assert_int_equal(dtd_jobs_post(js, &p, &j, NULL), expect);
    return j;
}

static void finish(struct dtd_jobs *js, struct dtd_job *j, const char *doc)
{
    dtd_job_start(js, j);
    dtd_job_finish(js, j, "miss", "sha256:1", "sha256:2", dt_strdup(doc), strlen(doc));
}

static void sharing(void **state)
{
    struct dtd_jobs js;
    dtd_jobs_init(&js, 2, 10, 1 << 20);
    struct dtd_job *a = post(&js, "a", 0);
    assert_ptr_equal(post(&js, "a", 1), a);
    assert_int_equal(a->posts, 2);
    struct dtd_job *b = post(&js, "b", 0);
    assert_ptr_not_equal(a, b);
    post(&js, "c", DT_E_BUSY); /* two wait */
    post(&js, "b", 1);         /* joining is possible when the queue is full */
    dtd_job_start(&js, a);
    assert_ptr_equal(post(&js, "a", 1), a); /* running is still shared */
    post(&js, "c", 0);
    dtd_job_finish(&js, a, "miss", "s", "d", dt_strdup("{}"), 2);
    assert_ptr_not_equal(post(&js, "a", DT_E_BUSY), a); /* finished is not: and the queue is full */
    assert_int_equal(js.shared, 3);
    dtd_jobs_done(&js);
}

static void states_and_events(void **state)
{
    struct dtd_jobs js;
    dtd_jobs_init(&js, 10, 10, 1 << 20);
    struct dtd_job *a = post(&js, "a", 0);
    assert_int_equal(a->state, DTD_QUEUED);
    dtd_job_start(&js, a);
    dtd_job_progress(&js, a, "compile", "gemm", 1, 3);
    dtd_job_finish(&js, a, "miss", "sha256:1", "sha256:2", dt_strdup("{\"x\":1}"), 7);
    const struct dtd_event *ev = dtd_job_event_after(a, 0);
    const char *expect[] = {"\"queued\"", "\"running\"", "\"progress\"", "\"done\""};
    for (uint64_t i = 0; i < 4; i++, ev = dtd_job_event_after(a, ev->seq)) {
        assert_non_null(ev);
        assert_int_equal(ev->seq, i + 1);
        assert_non_null(strstr(ev->json, expect[i]));
    }
    assert_null(ev);
    assert_false(dtd_job_cancel(&js, a, "late")); /* final stays final */
    assert_int_equal(a->state, DTD_DONE);
    json_t *o = dtd_job_json(a);
    assert_string_equal(json_string_value(json_object_get(o, "state")), "done");
    assert_string_equal(json_string_value(json_object_get(json_object_get(o, "links"), "document")),
                        "/v1/plans/sha256:1");
    json_decref(o);

    struct dtd_job *b = post(&js, "b", 0);
    assert_true(dtd_job_cancel(&js, b, "not wanted"));
    assert_non_null(strstr(b->problem, "\"cancelled\""));
    struct dt_err e = {0};
    struct dtd_job *c = post(&js, "c", 0);
    dt_err_set(&e, DT_E_WORKER_LOST, "signal 9");
    dtd_job_start(&js, c);
    dtd_job_fail_err(&js, c, &e);
    assert_non_null(strstr(c->problem, "\"worker-lost\""));
    assert_int_equal(js.count[DTD_FAILED], 1);
    assert_int_equal(js.total[DTD_RUNNING], 2);
    dtd_jobs_done(&js);
}

static void owners(void **state)
{
    struct dtd_jobs js;
    dtd_jobs_init(&js, 10, 10, 1 << 20);
    struct dtd_job *a = post(&js, "a", 0);
    for (unsigned uid = 0; uid < 100; uid++) /* however many they are */
        dtd_job_own(&js, a, uid, uid != 7);
    dtd_job_own(&js, a, 7, true);
    dtd_job_own(&js, a, 8, false);
    dtd_job_own(&js, a, UINT_MAX, true); /* nobody knows who */
    assert_int_equal(a->owner.n, 101);   /* and the poster */
    assert_true(dtd_job_owned(a, 0) && dtd_job_owned(a, 99) && !dtd_job_owned(a, 100) && !dtd_job_owned(a, UINT_MAX));
    assert_true(a->owner.p[8].posted && a->owner.p[9].posted);
    assert_true(dtd_job_disown(&js, a, 1000));
    for (unsigned uid = 0; uid < 99; uid++)
        assert_true(dtd_job_disown(&js, a, uid)); /* others want it */
    assert_true(dtd_job_disown(&js, a, 5));
    assert_false(dtd_job_disown(&js, a, 99));
    assert_true(dtd_job_owned(a, 5) && dtd_job_owned(a, 99)); /* who left it sees it still */
    dtd_job_own(&js, a, 5, true);                             /* and may come back */
    assert_true(dtd_job_disown(&js, a, 99));
    dtd_jobs_done(&js);
}

static void ring(void **state)
{
    struct dtd_jobs js;
    dtd_jobs_init(&js, 10, 10, 1 << 20);
    struct dtd_job *a = post(&js, "a", 0);
    dtd_job_start(&js, a);
    for (unsigned i = 0; i < DTD_MAX_EVENTS + 100; i++)
        dtd_job_progress(&js, a, "run", "", i, 2000);
    assert_int_equal(a->seq, DTD_MAX_EVENTS + 102);
    assert_int_equal(a->nevent, DTD_MAX_EVENTS);
    const struct dtd_event *ev = dtd_job_event_after(a, 0);
    assert_int_equal(ev->seq, 103); /* the oldest that is left */
    unsigned n = 0;
    for (uint64_t at = 0; (ev = dtd_job_event_after(a, at)); at = ev->seq)
        n++;
    assert_int_equal(n, DTD_MAX_EVENTS);
    dtd_jobs_done(&js);
}

struct counter {
    struct dtd_watch w;
    struct dtd_jobs *js;
    unsigned events;
    bool until_final;
};

static void count(struct dtd_watch *w, struct dtd_job *j)
{
    struct counter *c = (struct counter *)w;
    c->events++;
    if (c->until_final && dtd_state_final(j->state))
        dtd_job_unwatch(c->js, w);
}

static void watchers_and_forgetting(void **state)
{
    struct dtd_jobs js;
    dtd_jobs_init(&js, 10, 2, 100);
    struct counter stays = {.w.fn = count, .js = &js}, leaves = {.w.fn = count, .js = &js, .until_final = true};
    struct dtd_job *a = post(&js, "a", 0);
    char id[sizeof a->id];
    strcpy(id, a->id);
    dtd_job_watch(a, &stays.w);
    dtd_job_watch(a, &leaves.w);
    finish(&js, a, "{}");
    assert_int_equal(stays.events, 2);
    assert_int_equal(leaves.events, 2);
    assert_null(leaves.w.job);
    for (int i = 0; i < 4; i++)
        finish(&js, post(&js, "x", 0), "{}");
    assert_ptr_equal(dtd_jobs_find(&js, id), a); /* watched: kept although it is the oldest */
    dtd_job_unwatch(&js, &stays.w);
    finish(&js, post(&js, "x", 0), "{}");
    assert_null(dtd_jobs_find(&js, id));
    assert_int_equal(js.count[DTD_DONE], 2);
    char big[200];
    memset(big, 'x', 199);
    big[199] = 0;
    struct dtd_job *b = post(&js, "b", 0);
    finish(&js, b, big); /* over max_result_bytes by itself: it stays, the others go */
    assert_ptr_equal(js.head, b);
    assert_ptr_equal(js.tail, b);
    assert_int_equal(js.result_bytes, 199);
    dtd_jobs_done(&js);
}

static void giving_back(void **state)
{
    struct dtd_jobs js;
    dtd_jobs_init(&js, 10, 10, 1 << 20);
    struct dtd_job *a = post(&js, "a", 0), *b = post(&js, "b", 0);
    dtd_job_start(&js, a);
    dtd_job_give_back(&js, a, true);
    assert_int_equal(a->state, DTD_QUEUED);
    assert_int_equal(a->turns, 1);
    assert_int_equal(js.count[DTD_QUEUED], 2);
    assert_ptr_equal(js.active, a);
    dtd_job_start(&js, b);
    dtd_job_finish(&js, b, "miss", "", "", dt_strdup("{}"), 2);
    assert_ptr_equal(js.active, a);
    assert_ptr_equal(js.active_tail, a);
    json_t *o = dtd_job_json(a);
    assert_int_equal(json_integer_value(json_object_get(o, "turns_lost")), 1);
    json_decref(o);
    dtd_jobs_done(&js);
}

struct seen {
    unsigned changes, gone;
};

static void on_change(void *user, struct dtd_job *j, bool gone)
{
    struct seen *s = user;
    s->changes += !gone;
    s->gone += gone;
}

static void changes_are_told(void **state)
{
    struct dtd_jobs js;
    struct seen s = {0};
    dtd_jobs_init(&js, 10, 1, 1 << 20);
    js.changed = on_change;
    js.changed_user = &s;
    struct dtd_job *a = post(&js, "a", 0);
    assert_int_equal(s.changes, 1); /* who owns it */
    post(&js, "a", 1);
    assert_int_equal(s.changes, 1); /* the same user again is nothing new */
    dtd_job_own(&js, a, 1001, true);
    assert_true(dtd_job_disown(&js, a, 1001));
    assert_int_equal(s.changes, 3);
    dtd_job_start(&js, a);
    dtd_job_progress(&js, a, "run", "", 1, 2);
    assert_int_equal(s.changes, 4);
    dtd_job_finish(&js, a, "miss", "", "", dt_strdup("{}"), 2);
    assert_int_equal(s.changes, 5);
    finish(&js, post(&js, "b", 0), "{}");
    assert_int_equal(s.gone, 1); /* one is remembered */
    dtd_jobs_done(&js);
}

static void restoring(void **state)
{
    struct dtd_jobs js;
    dtd_jobs_init(&js, 1, 10, 1 << 20);
    struct dtd_post p = {.uid = UINT_MAX, .share = "x", .want = "plan", .device = "soft:h200"};
    struct dtd_job *done = dtd_jobs_restore(&js, "0000aaaa-1", 1000, 3, &p);
    done->problem = dt_strdup("{\"code\":\"trap\"}");
    dtd_job_end(&js, done, DTD_FAILED, 2000);
    p = (struct dtd_post){.uid = UINT_MAX, .share = "y", .want = "plan", .device = "soft:h200"};
    for (unsigned i = 0; i < 2; i++) { /* no limit holds for them */
        p.request = dt_strdup("request");
        p.len = 7;
        assert_non_null(dtd_jobs_restore(&js, i ? "0000aaaa-3" : "0000aaaa-2", 1500, 3, &p));
    }
    assert_ptr_equal(dtd_jobs_find(&js, "0000aaaa-1"), done);
    assert_false(dtd_job_owned(done, UINT_MAX));
    assert_int_equal(dtd_job_event_after(done, 0)->seq, (3 << 20) + 1);
    assert_int_equal(js.count[DTD_QUEUED], 2);
    assert_int_equal(js.count[DTD_FAILED], 1);
    assert_int_equal(js.total[DTD_QUEUED], 0); /* they are not of this service's */
    post(&js, "y", 1);
    post(&js, "z", DT_E_BUSY);
    json_t *o = dtd_job_json(done);
    assert_true(json_is_true(json_object_get(o, "durable")));
    assert_string_equal(json_string_value(json_object_get(o, "finished")), "1970-01-01T00:00:02.000Z");
    json_decref(o);
    dtd_jobs_done(&js);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sharing),
                                       cmocka_unit_test(states_and_events),
                                       cmocka_unit_test(owners),
                                       cmocka_unit_test(ring),
                                       cmocka_unit_test(watchers_and_forgetting),
                                       cmocka_unit_test(giving_back),
                                       cmocka_unit_test(changes_are_told),
                                       cmocka_unit_test(restoring)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
