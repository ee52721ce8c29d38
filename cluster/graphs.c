/* Graphs as they were posted (cluster.h): a document is compressed (zstd) and travels as base64.
 *
 *   put   is there one? ── yes ──▶ NONE
 *             │ no
 *             ▼
 *         pool thread: compress, sum ──▶ insert ──▶ OK, or NONE: another host was quicker
 *   get   select ──▶ pool thread: sum, size, decompress ──▶ OK, or NONE: it is damaged, and is removed
 *
 * Most hosts that put a graph find it there, so nothing is compressed or sent before that is known. What a thread of
 * libuv's pool works on is its alone until it is done; the cluster is not closed before (pool.c).
 *
 * Nothing of a row is believed before its sum matches; a frame that does not hold exactly as many bytes as the row says
 * is damaged. So no more memory is taken than CLUSTER_GRAPH_TEXT, whatever a frame claims.
 */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "cluster-priv.h"

#define LEVEL 6
#define GRAPH_MS 20000
#define BODY_MAX ((CLUSTER_GRAPH_MAX + 2) / 3 * 4)

struct graph { /* one put or get */
    uv_work_t work;
    struct cluster *c;
    cluster_fn *fn;
    void *user;
    char digest[DT_SHA256_TEXT], space[CLUSTER_SPACE_MAX + 1];
    char *doc; /* put: a copy */
    size_t len;
    json_t *row;        /* get: {body, bytes, checksum}, then {body} */
    struct dt_str body; /* put: what is sent */
    char checksum[DT_SHA256_TEXT];
    const char *wrong; /* what came of the thread's work; NULL: all is well */
    bool failed;       /* no memory */
};

static void graph_end(struct graph *g, enum cluster_outcome outcome, const char *why)
{
    if (g->fn)
        g->fn(g->user, outcome, outcome == CLUSTER_OK ? g->row : NULL, why);
    json_decref(g->row);
    dt_str_done(&g->body);
    free(g->doc);
    free(g);
}

static struct graph *graph_new(struct cluster *c, const char *digest, cluster_fn *fn, void *user)
{
    struct graph *g = dt_calloc(1, sizeof *g);
    if (!g) {
        if (fn)
            fn(user, CLUSTER_AWAY, NULL, "out of memory");
        return NULL;
    }
    g->c = c;
    g->fn = fn;
    g->user = user;
    g->work.data = g;
    snprintf(g->digest, sizeof g->digest, "%s", digest ? digest : "");
    snprintf(g->space, sizeof g->space, "%s", c->space);
    return g;
}

/* A call of its own time limit. NULL: g was told, and is gone. */
static struct call *graph_call(struct graph *g, cluster_fn *fn, void (*read)(struct call *, PGresult *const *))
{
    struct call *call = call_new(g->c, fn, g, read);
    if (!call)
        return NULL;
    call->ms = g->c->statement_ms > GRAPH_MS ? g->c->statement_ms : GRAPH_MS;
    uv_update_time(g->c->loop);
    call->deadline = uv_now(g->c->loop) + call->ms;
    memcpy(call->hash, g->digest, sizeof call->hash);
    if (!dt_sha256_ok(g->digest))
        call_refuse(call, "the digest is none");
    return call;
}

static bool graph_sum(const struct graph *g, const char *body, size_t len, int64_t bytes, char sum[DT_SHA256_TEXT])
{
    struct dt_sha256 h;
    if (dt_sha256_init(&h) < 0)
        return false;
    dt_sha256_addstr(&h, "dovetail graph row 1");
    dt_sha256_addstr(&h, g->space);
    dt_sha256_addstr(&h, g->digest);
    dt_sha256_addu64(&h, (uint64_t)bytes);
    dt_sha256_addu64(&h, len);
    dt_sha256_add(&h, body, len);
    dt_sha256_final(&h, sum);
    return true;
}

/* Where the pool takes no work, there is no memory. */
static void graph_work(struct graph *g, uv_work_cb work, uv_after_work_cb after)
{
    g->c->packing++;
    if (uv_queue_work(g->c->loop, &g->work, work, after) == 0)
        return;
    g->failed = true;
    after(&g->work, 0);
}

static void work_over(struct graph *g)
{
    g->c->packing--;
    pool_kick(g->c);
}

/* ---- put --------------------------------------------------------------------------------------------------------- */

static void stored_read(struct call *call, PGresult *const *r)
{
    call_end(call, PQntuples(r[0]) ? CLUSTER_OK : CLUSTER_NONE, NULL);
}

static void graph_stored(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    graph_end(user, outcome, why);
}

/* On a pool thread. */
static void graph_pack(uv_work_t *w)
{
    struct graph *g = w->data;
    size_t room = ZSTD_compressBound(g->len);
    dt_free_ uint8_t *z = dt_malloc(room);
    size_t n = z ? ZSTD_compress(z, room, g->doc, g->len, LEVEL) : 0;
    g->failed = !z || ZSTD_isError(n);
    if (!g->failed && n > CLUSTER_GRAPH_MAX)
        g->wrong = "the graph has more bytes than one may have, compressed";
    if (g->failed || g->wrong)
        return;
    dt_base64_encode(z, n, &g->body);
    g->failed = g->body.failed || !graph_sum(g, g->body.s, g->body.len, (int64_t)g->len, g->checksum);
}

static void graph_packed(uv_work_t *w, int status)
{
    struct graph *g = w->data;
    work_over(g);
    if (g->failed || g->wrong) {
        graph_end(g, g->failed ? CLUSTER_AWAY : CLUSTER_REFUSED, g->failed ? "out of memory" : g->wrong);
        return;
    }
    struct call *call = graph_call(g, graph_stored, stored_read);
    if (!call)
        return;
    call->writes = true;
    /* the body is g's: a call whose fn was called is not sent again */
    CALL_STEP(call, CLUSTER_SQL_GRAPH_PUT, call_text(call, g->digest), g->body.s, call_number(call, (int64_t)g->len),
              call_text(call, g->checksum));
    pool_submit(call);
}

static void looked_read(struct call *call, PGresult *const *r)
{
    call_end(call, PQntuples(r[1]) ? CLUSTER_OK : CLUSTER_NONE, NULL);
}

static void graph_looked(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    struct graph *g = user;
    if (outcome == CLUSTER_NONE)
        graph_work(g, graph_pack, graph_packed);
    else
        graph_end(g, outcome == CLUSTER_OK ? CLUSTER_NONE : outcome, why);
}

void cluster_graph_put(struct cluster *c, const char *digest, const void *body, size_t len, cluster_fn *fn, void *user)
{
    struct graph *g = graph_new(c, digest, fn, user);
    struct call *call = g ? graph_call(g, graph_looked, looked_read) : NULL;
    if (!call)
        return;
    call->writes = true;
    if (!len || len > CLUSTER_GRAPH_TEXT)
        call_refuse(call, len ? "the graph has more bytes than one may have" : "the graph is empty");
    else if (!(g->doc = dt_memdup(body, len)))
        call->arena.failed = true;
    g->len = len;
    CALL_STEP(call, CLUSTER_SQL_GRAPH_KEEP, call_text(call, g->digest));
    CALL_STEP(call, CLUSTER_SQL_GRAPH_IS, call_text(call, g->digest));
    pool_submit(call);
}

/* ---- get --------------------------------------------------------------------------------------------------------- */

static void graph_written(struct call *call, PGresult *const *r) { call_end(call, CLUSTER_OK, NULL); }

static void graph_go(const struct graph *g, const char *why)
{
    struct cluster *c = g->c;
    c->counts.damaged++;
    pool_log(c, true, "a graph of the cluster is not used: %s (%.23s)", why, g->digest);
    struct call *call = call_new(c, NULL, NULL, graph_written);
    if (!call)
        return;
    call->writes = true;
    CALL_STEP(call, CLUSTER_SQL_GRAPH_GO, call_text(call, g->digest),
              call_text(call, json_string_value(json_object_get(g->row, "checksum"))),
              call_number(call, (int64_t)json_integer_value(json_object_get(g->row, "bytes"))));
    pool_submit(call);
}

/* UTF-8 without NUL. */
static bool text_ok(const char *text, size_t n)
{
    size_t at = 0, step;
    while ((step = dt_utf8(text + at)))
        at += step;
    return at == n;
}

/* The document; NULL: g says what is wrong. */
static json_t *frame_text(struct graph *g, const uint8_t *z, size_t n, size_t bytes)
{
    dt_free_ char *text = NULL;
    if (ZSTD_getFrameContentSize(z, n) != bytes) {
        g->wrong = "it has not as many bytes as it says";
        return NULL;
    }
    if (!(text = dt_malloc(bytes + 1))) {
        g->failed = true;
        return NULL;
    }
    if (ZSTD_decompress(text, bytes, z, n) != bytes) {
        g->wrong = "it cannot be decompressed";
        return NULL;
    }
    text[bytes] = 0;
    if (!text_ok(text, bytes)) {
        g->wrong = "it is no text";
        return NULL;
    }
    json_t *doc = json_stringn_nocheck(text, bytes);
    g->failed = !doc;
    return doc;
}

/* On a pool thread. */
static void graph_unpack(uv_work_t *w)
{
    struct graph *g = w->data;
    const json_t *text = json_object_get(g->row, "body");
    const char *body = json_string_value(text);
    size_t len = json_string_length(text);
    int64_t bytes = (int64_t)json_integer_value(json_object_get(g->row, "bytes"));
    if (!graph_sum(g, body, len, bytes, g->checksum)) {
        g->failed = true;
        return;
    }
    if (strcmp(g->checksum, json_string_value(json_object_get(g->row, "checksum"))) != 0) {
        g->wrong = "its sum does not match";
        return;
    }
    dt_free_ uint8_t *z = dt_malloc(dt_base64_room(len) + 1);
    long n = z ? dt_base64_decode(body, len, z) : 0;
    g->failed = !z;
    if (n < 0)
        g->wrong = "it is no base64";
    json_t *doc = g->failed || g->wrong ? NULL : frame_text(g, z, (size_t)n, (size_t)bytes);
    if (doc && json_object_set_new(g->row, "body", doc) < 0)
        g->failed = true;
}

static void graph_unpacked(uv_work_t *w, int status)
{
    struct graph *g = w->data;
    work_over(g);
    if (g->failed) {
        graph_end(g, CLUSTER_AWAY, "out of memory");
    } else if (g->wrong) {
        graph_go(g, g->wrong);
        graph_end(g, CLUSTER_NONE, NULL);
    } else {
        json_object_del(g->row, "bytes");
        json_object_del(g->row, "checksum");
        graph_end(g, CLUSTER_OK, NULL);
    }
}

static void graph_got(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    struct graph *g = user;
    if (outcome != CLUSTER_OK) {
        graph_end(g, outcome, why);
        return;
    }
    g->row = json_incref((json_t *)row); /* the call lets go of it */
    graph_work(g, graph_unpack, graph_unpacked);
}

/* A call of its own: getting a graph does not mean writing. */
static void graph_keep(struct call *got)
{
    struct call *call = call_new(got->c, NULL, NULL, graph_written);
    if (!call)
        return;
    call->writes = true;
    CALL_STEP(call, CLUSTER_SQL_GRAPH_KEEP, call_text(call, got->hash));
    pool_submit(call);
}

/* The row as it came; its sum is looked at on a thread. One that has not the columns of a row is none. */
static void graph_read(struct call *call, PGresult *const *r)
{
    int64_t bytes;
    call_end(call, CLUSTER_NONE, NULL);
    if (!row_shape(r[0], 4) || PQntuples(r[0]) != 1)
        return;
    const char *body = row_text(r[0], 0, 0, BODY_MAX), *checksum = row_text(r[0], 0, 2, DT_SHA256_TEXT);
    if (!body || !checksum || !row_number(r[0], 0, 1, &bytes) || bytes <= 0 || bytes > CLUSTER_GRAPH_TEXT)
        return;
    json_t *row = json_pack("{s:o, s:I, s:s}", "body", json_string_nocheck(body), "bytes", (json_int_t)bytes,
                            "checksum", checksum);
    call_end(call, row ? CLUSTER_OK : CLUSTER_AWAY, row ? NULL : "out of memory");
    call->row = row;
    if (row && !strcmp(PQgetvalue(r[0], 0, 3), "1"))
        graph_keep(call);
}

void cluster_graph_get(struct cluster *c, const char *digest, cluster_fn *fn, void *user)
{
    struct graph *g = graph_new(c, digest, fn, user);
    struct call *call = g ? graph_call(g, graph_got, graph_read) : NULL;
    if (!call)
        return;
    CALL_STEP(call, CLUSTER_SQL_GRAPH_GET, call_text(call, g->digest));
    pool_submit(call);
}
