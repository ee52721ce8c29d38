/* Measurements: rows of the performance library (cluster.h), bytes by key. They travel as base64, which every server
 * and pooler passes on unchanged. A row of one device is never given for another.
 *
 * Sums as in entries.c, but not over signer, seal and stamp: services of before these columns know the sum without
 * them. A seal that was damaged is one that does not match, and a row that lost its seal is one that nobody signed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "cluster-priv.h"

#define KIND_MAX 64
#define DEVICE_MAX 1024
#define MEASURE_KEY_MAX 128
#define SIGNER_MAX 128
#define SEAL_MAX 512
#define BODY_MAX ((CLUSTER_MEASURE_MAX + 2) / 3 * 4)

static bool measure_sum(const struct call *call, const char *key, const char *body, char sum[DT_SHA256_TEXT])
{
    const char *const text[] = {call->c->space, call->kind, call->device, key, body};
    struct dt_sha256 h;
    if (dt_sha256_init(&h) < 0)
        return false;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        dt_sha256_addstr(&h, text[i]);
    dt_sha256_final(&h, sum);
    return true;
}

static bool measure_key(struct call *call, const char *key)
{
    if (!call_bounded(call, "key of a measurement", key, MEASURE_KEY_MAX))
        return false;
    if (strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:._-") != strlen(key)) {
        call_refuse(call, "the key of a measurement has a character that it may not have");
        return false;
    }
    return true;
}

static bool measure_begin(struct call *call, const char *kind, const char *device, unsigned n)
{
    if (!n || n > CLUSTER_MEASURES) {
        call_refuse(call, "there are no measurements, or too many for one call");
        return false;
    }
    if (!call_bounded(call, "kind of a measurement", kind, KIND_MAX) ||
        !call_bounded(call, "device", device, DEVICE_MAX))
        return false;
    call->kind = call_text(call, kind);
    call->device = call_text(call, device);
    return true;
}

/* ---- get --------------------------------------------------------------------------------------------------------- */

static void written_read(struct call *call, PGresult *const *r) { call_end(call, CLUSTER_OK, NULL); }

static void measure_go(struct call *found, const char *key, const char *body, const char *checksum)
{
    struct cluster *c = found->c;
    c->counts.damaged++;
    pool_log(c, true, "a measurement of the cluster is not used: its sum does not match");
    struct call *call = key && body && checksum ? call_new(c, NULL, NULL, written_read) : NULL;
    if (!call)
        return;
    call->writes = true;
    CALL_STEP(call, CLUSTER_SQL_MEASURE_GO, call_text(call, found->kind), call_text(call, found->device),
              call_text(call, key), call_text(call, checksum), call_text(call, body));
    pool_submit(call);
}

/* 1: it is as it was put; 0: it is damaged; DT_E_NOMEM: nobody knows. */
static int measure_check(const struct call *call, const char *key, const char *body, const char *checksum)
{
    char sum[DT_SHA256_TEXT];
    if (!key || !body || !checksum)
        return 0;
    size_t n = strlen(body);
    dt_free_ uint8_t *out = dt_malloc(dt_base64_room(n) + 1);
    if (!out || !measure_sum(call, key, body, sum))
        return DT_E_NOMEM;
    return !strcmp(sum, checksum) && dt_base64_decode(body, n, out) >= 0;
}

static void measure_read(struct call *call, const PGresult *r, int i, json_t *all)
{
    const char *key = row_text(r, i, 0, MEASURE_KEY_MAX), *body = row_text(r, i, 1, BODY_MAX),
               *checksum = row_text(r, i, 2, DT_SHA256_TEXT), *signer = row_text(r, i, 3, SIGNER_MAX),
               *seal = row_text(r, i, 4, SEAL_MAX);
    int64_t stamp;
    int good = signer && seal && row_number(r, i, 5, &stamp) ? measure_check(call, key, body, checksum) : 0;
    if (good == 1)
        json_object_set_new(all, key,
                            json_pack("{s:s, s:I, s:s*, s:s*}", "body", body, "stamp", (json_int_t)stamp, "signer",
                                      *signer ? signer : NULL, "seal", *seal ? seal : NULL));
    else if (good == 0)
        measure_go(call, key, body, checksum);
}

static void measures_read(struct call *call, PGresult *const *r)
{
    json_t *all = json_object();
    for (int i = 0; all && row_shape(r[0], 6) && i < PQntuples(r[0]) && i < CLUSTER_MEASURES; i++)
        measure_read(call, r[0], i, all);
    bool any = json_object_size(all) > 0;
    call_end(call, any ? CLUSTER_OK : CLUSTER_NONE, NULL);
    if (any)
        call->row = json_incref(all);
    json_decref(all);
}

void cluster_measure_get(struct cluster *c, const char *kind, const char *device, const char *const *keys, unsigned n,
                         cluster_fn *fn, void *user)
{
    struct call *call = call_new(c, fn, user, measures_read);
    if (!call)
        return;
    call->urgent = true;
    struct dt_str list = {0}; /* as an array is written; the keys have no character that would need a quote */
    if (measure_begin(call, kind, device, n)) {
        for (unsigned i = 0; i < n && measure_key(call, keys[i]); i++)
            dt_str_addf(&list, "%c%s", i ? ',' : '{', keys[i]);
        dt_str_addc(&list, '}');
        call->arena.failed |= list.failed;
        if (!call->refused && !list.failed)
            CALL_STEP(call, CLUSTER_SQL_MEASURE_GET, call->kind, call->device, call_text(call, list.s));
    }
    dt_str_done(&list);
    pool_submit(call);
}

/* ---- put --------------------------------------------------------------------------------------------------------- */

static void measure_step(struct call *call, const struct cluster_measure *m)
{
    struct dt_str body = {0};
    char sum[DT_SHA256_TEXT];
    if (m->len > CLUSTER_MEASURE_MAX) {
        call_refuse(call, "a measurement has more bytes than one may have");
        return;
    }
    if (strlen(m->signer ? m->signer : "") > SIGNER_MAX || strlen(m->seal ? m->seal : "") > SEAL_MAX ||
        strlen(m->instead ? m->instead : "") > SEAL_MAX) {
        call_refuse(call, "signer or seal of a measurement is too long");
        return;
    }
    dt_str_add(&body, "");
    dt_base64_encode(m->body, m->len, &body);
    const char *key = call_text(call, m->key), *text = call_text(call, body.s);
    call->arena.failed |= body.failed;
    if (!measure_sum(call, key, text, sum))
        call->arena.failed = true;
    else
        CALL_STEP(call, CLUSTER_SQL_MEASURE_PUT, call->kind, call->device, key, text, call_text(call, sum),
                  call_text(call, m->signer), call_text(call, m->seal), call_number(call, m->stamp),
                  call_text(call, m->instead));
    dt_str_done(&body);
}

void cluster_measure_put(struct cluster *c, const char *kind, const char *device, const struct cluster_measure *m,
                         unsigned n, cluster_fn *fn, void *user)
{
    struct call *call = call_new(c, fn, user, written_read);
    if (!call)
        return;
    call->writes = true;
    if (measure_begin(call, kind, device, n))
        for (unsigned i = 0; i < n && measure_key(call, m[i].key); i++)
            measure_step(call, &m[i]);
    pool_submit(call);
}
