/* The calls of cluster.h for tests in other languages: a JSON object a line on stdin, one a line on stdout.
 *
 *   driver URL SPACE [CONNECTIONS [LOOKUP_MS [STATEMENT_MS]]]
 *   {"id": 1, "call": "find", "key": [SIGNATURE, DEVICE, TOOLCHAIN, POLICY]}
 *   ─▶ {"id": 1, "outcome": "ok", "row": {…}, "why": "…", "ms": 0.8}
 *
 * Answers come in any order. Lines of the log are {"log": "…", "bad": true}. At the end of stdin the cluster is closed;
 * what is under way is answered before. {"call": "memory", "n": 3}: the third allocation from there on fails, and those
 * behind it, until 0 ends that. A URL that ends in .db is a local store (cache/): calls put, find and refuse,
 * for what the two have in common.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/json.h"
#include "cache/cache-priv.h"
#include "cluster/cluster.h"
#include "sign/sign.h"

static struct cluster *cluster;
static struct cache *local;
static uv_pipe_t in;
static struct dt_str got;

struct request {
    json_int_t id;
    uint64_t begun;
};

static void say(json_t *o)
{
    char *text = json_dumps(o, JSON_COMPACT);
    printf("%s\n", text ? text : "{}");
    fflush(stdout);
    free(text);
    json_decref(o);
}

static void logged(void *user, bool bad, const char *text) { say(json_pack("{s:s, s:b}", "log", text, "bad", bad)); }

static void answered(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    struct request *r = user;
    say(json_pack("{s:I, s:s, s:O*, s:s*, s:f}", "id", r->id, "outcome", cluster_outcome_text(outcome), "row",
                  (json_t *)row, "why", why, "ms", (double)(uv_hrtime() - r->begun) / 1e6));
    free(r);
}

/* ---- a local store ----------------------------------------------------------------------------------------------- */

static void local_call(const char *name, const json_t *q, struct request *r)
{
    const json_t *key = json_object_get(q, "key");
    const char *k[4];
    for (size_t i = 0; i < 4; i++)
        k[i] = json_string_value(json_array_get(key, i));
    struct cache_key ck = {"plan", k[0], k[1], k[2], k[3]};
    struct dt_err e = {0};
    char digest[DT_SHA256_TEXT];
    json_t *recipe = NULL, *row = NULL;
    enum cluster_outcome o = CLUSTER_NONE;
    if (!strcmp(name, "put")) {
        int n = cache_recipe_put(local, &ck, json_object_get(q, "plan"), "test", &e);
        o = n < 0 ? CLUSTER_AWAY : n ? CLUSTER_OK : CLUSTER_NONE;
    } else if (!strcmp(name, "refuse")) {
        cache_recipe_done(local, &ck, "a test says so");
        o = CLUSTER_OK;
    } else if (cache_recipe_get(local, &ck, &recipe, digest) == 1) {
        o = CLUSTER_OK;
        row = json_pack("{s:s, s:o}", "digest", digest, "recipe", recipe);
    }
    answered(r, o, row, e.detail);
    json_decref(row);
    dt_err_done(&e);
}

/* ---- a cluster --------------------------------------------------------------------------------------------------- */

static int64_t number(const json_t *q, const char *name) { return json_integer_value(json_object_get(q, name)); }
static const char *text(const json_t *q, const char *name) { return json_string_value(json_object_get(q, name)); }

static void call_put(const json_t *q, const struct cluster_key *k, struct request *r)
{
    const json_t *plan = json_object_get(q, "plan"), *recipe = json_object_get(plan ? plan : q, "recipe");
    char digest[DT_SHA256_TEXT] = "";
    if (plan)
        cache_plan_digest(plan, digest);
    json_t *long_one = NULL;
    if (number(q, "bytes")) { /* a recipe of so many, without sending them here */
        char *fill = calloc(1, (size_t)number(q, "bytes") + 1);
        memset(fill, 'x', (size_t)number(q, "bytes"));
        long_one = json_pack("{s:s}", "x", fill);
        free(fill);
    }
    struct cluster_entry en = {.key = *k,
                               .digest = text(q, "digest") ? text(q, "digest") : digest,
                               .recipe = long_one ? long_one : recipe,
                               .rewriter = (int)number(q, "rewriter"),
                               .evidence = text(q, "evidence"),
                               .factors = json_object_get(q, "factors"),
                               .stamp = number(q, "stamp"),
                               .signer = text(q, "signer"),
                               .seal = text(q, "seal"),
                               .instead = text(q, "instead")};
    cluster_put(cluster, &en, number(q, "token"), answered, r);
    json_decref(long_one);
}

/* By the key in the file "key_file"; without a seal if that cannot be read. The namespace is "default". */
static void measure_seal(const json_t *q, const char *key, const json_t *body, struct sign_seal *ret)
{
    struct sign_key *k = NULL;
    char digest[DT_SHA256_TEXT] = "";
    struct sign_measure m = {"default", text(q, "kind"), text(q, "device"), key, digest};
    dt_sha256_text(json_string_value(body), json_string_length(body), digest);
    if (sign_key_read(text(q, "key_file"), &k, NULL) == 0)
        sign_measure_seal(k, &m, (int64_t)time(NULL), ret);
    sign_key_free(k);
}

static void call_measures(const char *name, const json_t *q, struct request *r)
{
    const char *kind = text(q, "kind"), *device = text(q, "device"), *keys[CLUSTER_MEASURES + 1];
    struct cluster_measure m[CLUSTER_MEASURES + 1];
    unsigned n = 0;
    if (!strcmp(name, "measure_get")) {
        const json_t *list = json_object_get(q, "keys");
        for (; n < json_array_size(list) && n <= CLUSTER_MEASURES; n++)
            keys[n] = json_string_value(json_array_get(list, n));
        cluster_measure_get(cluster, kind, device, keys, n, answered, r);
        return;
    }
    const char *key;
    json_t *v;
    struct sign_seal *seal = calloc(CLUSTER_MEASURES + 1, sizeof *seal);
    json_object_foreach (json_object_get(q, "rows"), key, v) {
        if (n > CLUSTER_MEASURES)
            break;
        if (text(q, "key_file"))
            measure_seal(q, key, v, &seal[n]);
        const bool sealed = *seal[n].text;
        m[n] = (struct cluster_measure){.key = key,
                                        .body = json_string_value(v),
                                        .len = json_string_length(v),
                                        .signer = sealed ? seal[n].signer : text(q, "signer"),
                                        .seal = sealed ? seal[n].text : text(q, "seal"),
                                        .stamp = sealed ? seal[n].date : number(q, "stamp"),
                                        .instead = text(q, "instead")};
        n++;
    }
    cluster_measure_put(cluster, kind, device, m, n, answered, r);
    free(seal);
}

/* "text" is the document, or "noise": so many bytes that cannot be compressed to less. */
static void call_graph(const char *name, const json_t *q, struct request *r)
{
    const char *doc = text(q, "text");
    const size_t noise = (size_t)number(q, "noise"),
                 len = noise ? noise : json_string_length(json_object_get(q, "text"));
    if (!strcmp(name, "get")) {
        cluster_graph_get(cluster, text(q, "digest"), answered, r);
        return;
    }
    char *made = noise ? malloc(noise) : NULL;
    for (size_t i = 0; i < noise; i++)
        made[i] = (char)(' ' + dt_splitmix64(1, i) % 95);
    cluster_graph_put(cluster, text(q, "digest"), noise ? made : doc, len, answered, r);
    free(made);
}

static void call_queue(const char *name, const json_t *q, struct request *r)
{
    const char *toolchain = text(q, "toolchain") ? text(q, "toolchain") : "t", *after = text(q, "after");
    struct cluster_work_key k = {text(q, "graph"), text(q, "device"), toolchain};
    struct cluster_place place = {number(q, "rank"), after};
    int64_t token = number(q, "token");
    unsigned ms = (unsigned)number(q, "ms");
    if (!strcmp(name, "add")) {
        struct cluster_work w = {k, number(q, "rank"), text(q, "reason"), json_object_get(q, "note")};
        cluster_queue_add(cluster, &w, answered, r);
    } else if (!strcmp(name, "claim")) {
        cluster_queue_claim(cluster, k.device, toolchain, after ? &place : NULL, ms, answered, r);
    } else if (!strcmp(name, "renew")) {
        cluster_queue_renew(cluster, &k, token, ms, answered, r);
    } else if (!strcmp(name, "done")) {
        cluster_queue_done(cluster, &k, token, answered, r);
    } else if (!strcmp(name, "fail")) {
        cluster_queue_fail(cluster, &k, token, text(q, "reason"), ms, answered, r);
    } else if (!strcmp(name, "return")) {
        cluster_queue_return(cluster, &k, token, answered, r);
    } else if (!strcmp(name, "unpark")) {
        cluster_queue_unpark(cluster, answered, r);
    } else {
        cluster_queue_list(cluster, answered, r);
    }
}

static json_t *counts(void)
{
    struct cluster_counts n;
    cluster_counts(cluster, &n);
    return json_pack("{s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "connections", (int)n.connections, "busy",
                     (int)n.busy, "waiting", (int)n.waiting, "dials", (json_int_t)n.dials, "dial_failures",
                     (json_int_t)n.dial_failures, "lost", (json_int_t)n.lost, "late", (json_int_t)n.late, "retries",
                     (json_int_t)n.retries, "opened", (json_int_t)n.opened, "damaged", (json_int_t)n.damaged);
}

static void cluster_call(const char *name, const json_t *q, struct request *r)
{
    const json_t *key = json_object_get(q, "key");
    struct cluster_key k = {json_string_value(json_array_get(key, 0)), json_string_value(json_array_get(key, 1)),
                            json_string_value(json_array_get(key, 2)), json_string_value(json_array_get(key, 3))};
    int64_t token = number(q, "token");
    unsigned ms = (unsigned)number(q, "ms");
    if (!strcmp(name, "find"))
        cluster_find(cluster, &k, answered, r);
    else if (!strcmp(name, "near"))
        cluster_near(cluster, &k, answered, r);
    else if (!strcmp(name, "put"))
        call_put(q, &k, r);
    else if (!strcmp(name, "claim"))
        cluster_claim(cluster, &k, ms, answered, r);
    else if (!strcmp(name, "renew"))
        cluster_renew(cluster, &k, token, ms, answered, r);
    else if (!strcmp(name, "release"))
        cluster_release(cluster, &k, token, answered, r);
    else if (!strncmp(name, "measure_", 8))
        call_measures(name, q, r);
    else if (!strncmp(name, "graph_", 6))
        call_graph(name + 6, q, r);
    else if (!strncmp(name, "queue_", 6))
        call_queue(name + 6, q, r);
    else if (!strcmp(name, "memory")) {
        say(json_pack("{s:I, s:s, s:f}", "id", r->id, "outcome", "ok", "ms", 0.0));
        free(r);
        dt_alloc_fail_after(number(q, "n"));
    } else {
        say(json_pack("{s:I, s:o, s:o}", "id", r->id, "status", cluster_status(cluster), "counts", counts()));
        free(r);
    }
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static void line(const char *at, size_t n)
{
    json_t *q = json_loadb(at, n, 0, NULL);
    struct request *r = calloc(1, sizeof *r);
    uv_update_time(in.loop);
    *r = (struct request){number(q, "id"), uv_hrtime()};
    const char *name = text(q, "call") ? text(q, "call") : "";
    if (local)
        local_call(name, q, r);
    else
        cluster_call(name, q, r);
    json_decref(q);
}

static void closed(void *user) { say(json_pack("{s:b}", "closed", true)); }

static void room(uv_handle_t *h, size_t size, uv_buf_t *buf) { *buf = uv_buf_init(malloc(65536), 65536); }

static void input(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    const char *end;
    if (n > 0)
        dt_str_addn(&got, buf->base, (size_t)n);
    free(buf->base);
    size_t from = 0;
    while (got.s && (end = memchr(got.s + from, '\n', got.len - from))) {
        size_t len = (size_t)(end - got.s) - from;
        line(got.s + from, len);
        from += len + 1;
    }
    if (from) {
        memmove(got.s, got.s + from, got.len - from);
        got.len -= from;
    }
    if (n < 0) {
        uv_close((uv_handle_t *)s, NULL);
        if (cluster)
            cluster_close(cluster, closed, NULL);
    }
}

int main(int argc, char **argv)
{
    struct dt_err e = {0};
    uv_loop_t *loop = uv_default_loop();
    if (argc < 3)
        return 2;
    size_t n = strlen(argv[1]);
    int r;
    if (n > 3 && !strcmp(argv[1] + n - 3, ".db")) {
        r = cache_open(argv[1], &local, &e);
    } else {
        struct cluster_options o = {.loop = loop,
                                    .url = argv[1],
                                    .space = argv[2],
                                    .connections = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0,
                                    .lookup_ms = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 0,
                                    .statement_ms = argc > 5 ? (unsigned)strtoul(argv[5], NULL, 10) : 0,
                                    .keep_days = argc > 6 ? (unsigned)strtoul(argv[6], NULL, 10) : 0,
                                    .max_bytes = argc > 7 ? strtoull(argv[7], NULL, 10) : 0,
                                    .log = logged};
        r = cluster_open(&o, &cluster, &e);
    }
    if (r < 0) {
        say(json_pack("{s:s, s:s}", "error", dt_err_code(r), "detail", e.detail ? e.detail : ""));
        dt_err_done(&e);
        return 1;
    }
    uv_pipe_init(loop, &in, 0);
    uv_pipe_open(&in, 0);
    uv_read_start((uv_stream_t *)&in, room, input);
    uv_run(loop, UV_RUN_DEFAULT);
    cache_close(local);
    dt_str_done(&got);
    uv_loop_close(loop);
    return 0;
}
