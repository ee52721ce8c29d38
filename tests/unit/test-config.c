/* daemon/service/config.c, metrics.c and daemon/shared/options.c: defaults, files with mistakes, reload, device
 * spellings, options, cache policies; what is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/service/config.h"
#include "daemon/service/metrics.h"
#include "daemon/shared/shared.h"

static void defaults_and_file(void **state)
{
    struct dtd_config c;
    struct dt_err e = {0};
    assert_int_equal(dtd_config_init(&c, &e), 0);
    assert_int_equal(c.job_timeout, 600);
    assert_string_equal(c.device, "auto");
    assert_null(c.socket);
    assert_int_equal(dtd_config_parse(&c, "# a comment\n\n  job_timeout = 3 # three\nsocket=/tmp/x y.sock\n", "f", &e),
                     0);
    assert_int_equal(c.job_timeout, 3);
    assert_string_equal(c.socket, "/tmp/x y.sock");
    assert_int_equal(dtd_config_set(&c, "device", "soft", &e), 0);
    assert_int_equal(dtd_config_finish(&c, &e), 0);
    assert_string_equal(c.device, "soft:h200");
    dtd_config_done(&c);
}

static void reloaded(const char *name, const char *was, const char *is, bool taken)
{
    assert_string_equal(name, "shared");
    assert_false(taken);
    assert_null(strstr(was, "secret"));
    assert_null(strstr(is, "secret"));
}

/* Where the cluster is: which namespaces there may be; a reload tells nobody a password. */
static void shared(void **state)
{
    static const struct {
        const char *name;
        bool right;
    } cases[] = {{"default", true}, {"a-1.b_c", true}, {"A", false}, {"a b", false}, {"a'", false}};
    struct dtd_config c, fresh;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dt_err e = {0};
        assert_int_equal(dtd_config_init(&c, &e), 0);
        assert_null(c.shared);
        assert_int_equal(c.shared_lookup_ms, 50);
        assert_int_equal(dtd_config_set(&c, "shared_namespace", cases[i].name, &e), 0);
        assert_int_equal(dtd_config_finish(&c, &e), cases[i].right ? 0 : DT_E_USAGE);
        dt_err_done(&e);
        dtd_config_done(&c);
    }
    assert_int_equal(dtd_config_init(&c, NULL), 0);
    assert_int_equal(dtd_config_init(&fresh, NULL), 0);
    assert_int_equal(dtd_config_set(&c, "shared", "postgresql://u:secret@h/d", NULL), 0);
    assert_int_equal(dtd_config_set(&fresh, "shared", "postgresql://u:secret2@h/d", NULL), 0);
    dtd_config_take(&c, &fresh, reloaded);
    assert_string_equal(c.shared, "postgresql://u:secret@h/d");
    dtd_config_done(&c);
    dtd_config_done(&fresh);
}

/* share=0: a post's own word, which no key has; `shared` is the service's. */
static void local_option(void **state)
{
    struct dtd_options o = {0}, back = {0};
    assert_int_equal(dtd_options_set(&o, "share", "0", NULL), 0);
    assert_true(o.local);
    assert_int_equal(dtd_options_set(&o, "share", "2", NULL), DT_E_USAGE);
    assert_int_equal(dtd_options_set(&o, "share", "1", NULL), 0);
    assert_false(o.local);
    o.shared = true;
    json_t *j = dtd_options_to_json(&o);
    assert_int_equal(dtd_options_from_json(&back, j, NULL), 0);
    assert_true(back.shared);
    char *with = dtd_policy(&back, "plan"), *without = dtd_policy(&(struct dtd_options){0}, "plan");
    assert_string_equal(with, without);
    free(with);
    free(without);
    json_decref(j);
    dtd_options_done(&back);
    dtd_options_done(&o);
}

static void wrong_lines(void **state)
{
    static const struct {
        const char *text, *expect;
    } cases[] = {
        {"job_timeout = 0", "f:1: job_timeout = 0 is not a number from 1 to 86400"},
        {"\njob_timeout = 3s", "f:2: job_timeout = 3s is not a number from 1 to 86400"},
        {"job_timeout = 99999999999999999999",
         "f:1: job_timeout = 99999999999999999999 is not a number from 1 to 86400"},
        {"jobtimeout = 3", "f:1: there is no option jobtimeout; did you mean job_timeout?"},
        {"zzz = 3", "f:1: there is no option zzz"},
        {"nonsense", "f:1: expected NAME = VALUE"},
        {"socket =", "f:1: socket needs a value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dtd_config c;
        struct dt_err e = {0};
        assert_int_equal(dtd_config_init(&c, &e), 0);
        assert_int_equal(dtd_config_parse(&c, cases[i].text, "f", &e), DT_E_USAGE);
        assert_string_equal(e.detail, cases[i].expect);
        assert_int_equal(c.job_timeout, 600);
        dt_err_done(&e);
        dtd_config_done(&c);
    }
}

/* Do posted graphs go to other hosts? Not unless somebody says so. */
static void sharing_graphs(void **state)
{
    static const struct {
        const char *value;
        int expect;
        bool yes;
    } cases[] = {{NULL, 0, false}, {"no", 0, false}, {"yes", 0, true}, {"1", DT_E_USAGE, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dtd_config c;
        struct dt_err e = {0};
        assert_int_equal(dtd_config_init(&c, &e), 0);
        assert_int_equal(cases[i].value ? dtd_config_set(&c, "shared_graphs", cases[i].value, &e) : 0, 0);
        assert_int_equal(dtd_config_finish(&c, &e), cases[i].expect);
        assert_int_equal(c.share_graphs, cases[i].yes);
        dt_err_done(&e);
        dtd_config_done(&c);
    }
}

/* Do users share jobs and entries? */
static void sharing(void **state)
{
    static const struct {
        const char *value;
        int expect;
        bool uid;
    } cases[] = {{NULL, 0, false}, {"host", 0, false}, {"uid", 0, true}, {"all", DT_E_USAGE, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dtd_config c;
        struct dt_err e = {0};
        assert_int_equal(dtd_config_init(&c, &e), 0);
        assert_int_equal(cases[i].value ? dtd_config_set(&c, "share", cases[i].value, &e) : 0, 0);
        assert_int_equal(dtd_config_finish(&c, &e), cases[i].expect);
        assert_int_equal(c.share_uid, cases[i].uid);
        dt_err_done(&e);
        dtd_config_done(&c);
    }
    /* the uid is part of the key, and of what the worker is told */
    struct dtd_options o = {.apart = true, .uid = 1000}, back = {0};
    char *policy = dtd_policy(&o, "plan");
    assert_non_null(strstr(policy, " uid=1000"));
    free(policy);
    json_t *j = dtd_options_to_json(&o);
    assert_int_equal(dtd_options_from_json(&back, j, NULL), 0);
    assert_true(back.apart && back.uid == 1000 && !back.own_rows);
    json_decref(j);
    policy = dtd_policy(&back, "analysis");
    assert_string_equal(policy, "maps=0 all_edges=0 uid=1000");
    free(policy);
    struct dt_err e = {0};
    assert_int_equal(dtd_options_set(&back, "apart", "7", &e), 1); /* nobody says that about themselves */
    assert_int_equal(dtd_options_set(&back, "own_rows", "7", &e), 1);
    assert_int_equal(dtd_options_set(&back, "uid", "7", &e), 1);
}

static char said[512];

static void note(const char *name, const char *was, const char *is, bool taken)
{
    size_t at = strlen(said);
    snprintf(said + at, sizeof said - at, "%s %s>%s %d;", name, was, is, taken);
}

/* A reload takes what may change and names the rest; what is equal is not named. */
static void taken_or_left(void **state)
{
    struct dtd_config c, fresh;
    struct dt_err e = {0};
    assert_int_equal(dtd_config_init(&c, &e), 0);
    assert_int_equal(dtd_config_init(&fresh, &e), 0);
    assert_int_equal(dtd_config_parse(&c, "socket = /a\nworker = /w\nadmin_uids = 1\ndevice = soft\n", "f", &e), 0);
    assert_int_equal(dtd_config_parse(&fresh,
                                      "socket = /b\nworker = /w\nadmin_uids = 2,3\nmax_queued = 9\ndevice = soft\n",
                                      "f", &e),
                     0);
    assert_int_equal(dtd_config_finish(&c, &e), 0);
    assert_int_equal(dtd_config_finish(&fresh, &e), 0);
    said[0] = 0;
    dtd_config_take(&c, &fresh, note);
    assert_string_equal(said, "socket /a>/b 0;admin_uids 1>2,3 1;max_queued 64>9 1;");
    assert_string_equal(c.socket, "/a");
    assert_string_equal(c.admin_uids, "2,3");
    assert_int_equal(c.admins.nuid, 2);
    assert_int_equal(c.admins.uid[1], 3);
    assert_int_equal(c.max_queued, 9);
    dtd_config_done(&fresh);
    assert_string_equal(c.admin_uids, "2,3"); /* its own by now */
    dtd_config_done(&c);
}

static void histograms(void **state)
{
    struct dtd_metrics m = {0};
    struct dtd_spent t = {0};
    dtd_observe(&m.queue, 0.001);
    dtd_observe(&m.queue, 0.0011);
    dtd_observe(&m.queue, 1e9);
    dtd_observe(&m.queue, -5); /* a clock that went back */
    assert_int_equal(m.queue.count, 4);
    assert_int_equal(m.queue.bucket[0], 2);
    assert_int_equal(m.queue.bucket[1], 1);
    assert_int_equal(m.queue.bucket[DTD_BUCKETS - 1], 1);
    assert_true(m.queue.sum > 1e9 && m.queue.sum < 1e9 + 1);
    /* compile 2 s, planning 3 s, compile again 1 s */
    dtd_spent_enter(&t, dtd_stage_of("compile"), 1000000000);
    dtd_spent_enter(&t, dtd_stage_of("rewrite"), 3000000000);
    dtd_spent_enter(&t, dtd_stage_of("compile"), 6000000000);
    dtd_spent_end(&t, &m, 7000000000);
    assert_int_equal(m.stage[DTD_STAGE_COMPILE].count, 1);
    assert_int_equal(m.stage[DTD_STAGE_COMPILE].sum * 10, 30);
    assert_int_equal(m.stage[DTD_STAGE_PLANNING].sum * 10, 30);
    assert_int_equal(m.stage[DTD_STAGE_ANALYSIS].count, 0);
    assert_int_equal(t.since_ns, 0);
    dtd_missed(&m, "toolchain");
    dtd_missed(&m, NULL);
    dtd_missed(&m, "something else");
    assert_int_equal(m.missed[DTD_MISS_TOOLCHAIN], 1);
    assert_int_equal(m.missed[DTD_MISS_UNCACHED], 2);
}

/* admin_group and admin_uids: looked up, and never the group that the socket gets. */
static void admins(void **state)
{
    char own[12], expect[80];
    snprintf(own, sizeof own, "%u", (unsigned)getegid());
    snprintf(expect, sizeof expect, "admin_group = %s is the group that the socket will have", own);
    const struct {
        const char *name, *value, *expect; /* NULL: right */
    } cases[] = {
        {"admin_group", "54321", NULL},
        {"admin_group", "no such group", "there is no group no such group"},
        {"admin_group", "4294967295", "there is no group"},
        {"admin_group", "-1", "there is no group"},
        {"admin_group", "99999999999999999999", "there is no group"},
        {"admin_group", own, expect},
        {"admin_uids", "0, 7,\t54321 ,", NULL},
        {"admin_uids", "7 root", "root is no uid"},
        {"admin_uids", "4294967295", "is no uid"},
        {"admin_uids", "7,-1", "-1 is no uid"},
        {"admin_uids", "4294967303", "is no uid"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dtd_config c;
        struct dt_err e = {0};
        assert_int_equal(dtd_config_init(&c, &e), 0);
        assert_int_equal(dtd_config_set(&c, cases[i].name, cases[i].value, &e), 0);
        int r = dtd_config_finish(&c, &e);
        if (r != (cases[i].expect ? DT_E_USAGE : 0) || (cases[i].expect && !strstr(e.detail, cases[i].expect)))
            fail_msg("%s = %s: %d %s", cases[i].name, cases[i].value, r, e.detail ? e.detail : "");
        if (i == 0)
            assert_true(c.admins.has_group && c.admins.gid == 54321 && !c.admins.nuid);
        if (!strncmp(cases[i].value, "0, 7", 4))
            assert_true(!c.admins.has_group && c.admins.nuid == 3 && c.admins.uid[0] == 0 && c.admins.uid[2] == 54321);
        dt_err_done(&e);
        dtd_config_done(&c);
    }
    struct dtd_config c;
    struct dt_err e = {0};
    char many[DTD_MAX_ADMINS * 2 + 3] = "";
    for (int i = 0; i <= DTD_MAX_ADMINS; i++)
        memcpy(many + 2 * i, "7,", 3);
    assert_int_equal(dtd_config_init(&c, &e), 0);
    assert_int_equal(dtd_config_set(&c, "admin_uids", many, &e), 0);
    assert_int_equal(dtd_config_finish(&c, &e), DT_E_USAGE);
    dt_err_done(&e);
    dtd_config_done(&c);
}

static void devices(void **state)
{
    static const char *const good[][2] = {{"", "auto"},          {"auto", "auto"},
                                          {"soft", "soft:h200"}, {"soft:a100", "soft:a100"},
                                          {"cuda", "cuda:0"},    {"cuda:3", "cuda:3"}};
    static const char *const bad[] = {
        "gpu", "auto:1", "soft:", "cuda:x", "cuda:", "soft:a/b", "soft:a b", "softer", "soft:a\nb"};
    char out[80];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(dtd_device_normal(good[i][0], out, sizeof out, NULL), 0);
        assert_string_equal(out, good[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(dtd_device_normal(bad[i], out, sizeof out, NULL), DT_E_USAGE);
}

static void policies(void **state)
{
    struct dtd_options a = {0}, b = {0}, c = {0};
    assert_int_equal(dtd_options_set(&a, "allow", "split,prefetch,split", NULL), 0);
    assert_int_equal(dtd_options_set(&a, "deny", "recompute", NULL), 0);
    assert_int_equal(dtd_options_set(&b, "deny", "recompute,", NULL), 0);
    assert_int_equal(dtd_options_set(&b, "allow", "prefetch", NULL), 0);
    assert_int_equal(dtd_options_set(&b, "allow", "split", NULL), 0);
    char *p = dtd_policy(&a, "plan"), *q = dtd_policy(&b, "plan");
    assert_string_equal(p, q);
    assert_string_equal(p, "allow=prefetch,split deny=recompute budget=0");
    free(q);
    q = dtd_policy(&a, "analysis");
    assert_string_equal(q, "maps=0 all_edges=0");
    free(q);
    /* 0 seconds are a budget too, and not the one that is taken where none is given */
    assert_int_equal(dtd_options_set(&a, "budget", "0", NULL), 0);
    assert_true(a.budget > 0 && a.budget < 1e-3);
    json_t *none = json_pack("{s:i}", "budget", 0);
    assert_int_equal(dtd_options_from_json(&c, none, NULL), 0);
    json_decref(none);
    assert_true(c.budget == a.budget);
    /* over the wire and back: the worker must key as the service does */
    /* a misspelt kind must not pass for none */
    assert_int_equal(dtd_options_set(&a, "deny", "block-fusoin", NULL), DT_E_USAGE);
    assert_int_equal(dtd_options_set(&a, "budget", "2.5", NULL), 0);
    assert_int_equal(dtd_options_set(&a, "maps", "1", NULL), 0);
    assert_int_equal(dtd_options_set(&a, "seed", "41", NULL), 0);
    assert_int_equal(dtd_options_set(&a, "whole", "1", NULL), 0);
    json_t *j = dtd_options_to_json(&a);
    assert_int_equal(dtd_options_from_json(&c, j, NULL), 0);
    json_decref(j);
    free(p);
    p = dtd_policy(&a, "plan");
    q = dtd_policy(&c, "plan");
    assert_string_equal(p, q);
    assert_true(c.maps);
    assert_false(c.all_edges);
    assert_int_equal(c.seed, 41);
    assert_true(c.whole);
    assert_string_equal(p, "allow=prefetch,split deny=recompute budget=2.5 whole=1"); /* other work, another key */
    free(p);
    /* no memory at all is another bound than none */
    assert_int_equal(a.memory, 0);
    assert_int_equal(dtd_options_set(&a, "memory", "0", NULL), 0);
    j = dtd_options_to_json(&a);
    dtd_options_done(&c);
    memset(&c, 0, sizeof c);
    assert_int_equal(dtd_options_from_json(&c, j, NULL), 0);
    json_decref(j);
    assert_int_equal(c.memory, 1);
    p = dtd_policy(&c, "plan");
    assert_string_equal(p, "allow=prefetch,split deny=recompute budget=2.5 whole=1 memory=0");
    free(p);
    free(q);
    dtd_options_done(&a);
    dtd_options_done(&b);
    dtd_options_done(&c);
}

static void wrong_options(void **state)
{
    static const char *const bad[][2] = {{"maps", "2"},      {"whole", "yes"}, {"allow", "A"},
                                         {"allow", "a b"},   {"budget", "-1"}, {"budget", "inf"},
                                         {"budget", "nan"},  {"budget", "1x"}, {"seed", "-1"},
                                         {"seed", "x"},      {"seed", ""},     {"seed", "99999999999999999999"},
                                         {"timeout", "1e9"}, {"memory", "-1"}, {"memory", "1M"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct dtd_options o = {0};
        assert_int_equal(dtd_options_set(&o, bad[i][0], bad[i][1], NULL), DT_E_USAGE);
        dtd_options_done(&o);
    }
    struct dtd_options o = {0};
    assert_int_equal(dtd_options_set(&o, "colour", "1", NULL), 1);
    char many[2048] = "";
    for (int i = 0; i < 40; i++)
        snprintf(many + strlen(many), 16, "k%d,", i);
    assert_int_equal(dtd_options_set(&o, "allow", many, NULL), DT_E_USAGE);
    dtd_options_done(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(defaults_and_file),
                                       cmocka_unit_test(shared),
                                       cmocka_unit_test(local_option),
                                       cmocka_unit_test(wrong_lines),
                                       cmocka_unit_test(sharing),
                                       cmocka_unit_test(sharing_graphs),
                                       cmocka_unit_test(admins),
                                       cmocka_unit_test(devices),
                                       cmocka_unit_test(policies),
                                       cmocka_unit_test(wrong_options),
                                       cmocka_unit_test(taken_or_left),
                                       cmocka_unit_test(histograms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
