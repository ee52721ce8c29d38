/* Measurements of this host go to the cluster, signed if the host has a key (`sign_key`).
 *
 *   loop          what a worker measured is copied
 *   pool thread   the key is read, and every row signed; without a key this step is left out
 *   loop          the rows are put, in one call
 *
 * Nothing is kept: what cannot be sent, or not be signed, only this host has. Nobody waits for any of it.
 *
 * A row of the cluster that this host asked for and did not believe (trust.c) is remembered here by its seal, and what
 * the host measured instead takes that row's place: it would be in the way for ever otherwise. A row without a seal
 * gives way by itself (cluster/cluster.h). A host without a key replaces nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/log.h"
#include "daemon/service/service.h"
#include "daemon/service/share.h"

#define LOG_EVERY_NS (UINT64_C(60) * 1000000000)

struct timed_row {
    char key[DT_SHA256_TEXT];
    uint8_t *body;
    size_t len;
    struct sign_seal seal; /* of a batch that is signed */
};

/* A pool thread's while it is signed, else the loop's. */
struct timed {
    uv_work_t work;
    struct dtd_share *sh;
    char *device, *key_path, *space; /* key_path NULL: nobody signs */
    char *held;                      /* why nothing can be sent, or NULL */
    unsigned n;
    struct timed_row row[CLUSTER_MEASURES];
};

static void timed_free(struct timed *t)
{
    while (t->n)
        free(t->row[--t->n].body);
    free(t->device);
    free(t->key_path);
    free(t->space);
    free(t->held);
    free(t);
}

/* ---- rows that were not believed --------------------------------------------------------------------------------- */

/* Which row it is. False: no memory. */
static bool turned_name(const char *device, const char *key, char name[DT_SHA256_TEXT])
{
    struct dt_sha256 h;
    if (dt_sha256_init(&h) < 0)
        return false;
    dt_sha256_addstr(&h, device);
    dt_sha256_addstr(&h, key);
    dt_sha256_final(&h, name);
    return true;
}

/* The seal that the row had, for the caller to free; NULL: it was believed, or never seen. */
static char *turned_take(struct dtd_share *sh, const char *device, const char *key)
{
    char name[DT_SHA256_TEXT];
    if (!turned_name(device, key, name))
        return NULL;
    for (unsigned i = 0; i < DTD_TURNED; i++) {
        struct dtd_turned *at = &sh->turned[i];
        if (at->seal && !strcmp(at->name, name)) {
            char *seal = at->seal;
            at->seal = NULL;
            return seal;
        }
    }
    return NULL;
}

void dtd_timed_turned(struct dtd_share *sh, const char *device, const char *key, const char *seal)
{
    if (!sh->s->cfg.sign_key || !*seal)
        return;
    free(turned_take(sh, device, key));
    struct dtd_turned *at = &sh->turned[sh->turned_at++ % DTD_TURNED]; /* the oldest is forgotten */
    free(at->seal);
    at->seal = turned_name(device, key, at->name) ? dt_strdup(seal) : NULL;
}

void dtd_timed_forget(struct dtd_share *sh)
{
    for (unsigned i = 0; i < DTD_TURNED; i++)
        free(sh->turned[i].seal);
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static void timed_answered(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    dtd_share_count(user, DTD_CALL_TIMED, outcome);
}

static void timed_put(struct timed *t)
{
    struct cluster_measure m[CLUSTER_MEASURES];
    char *instead[CLUSTER_MEASURES] = {0};
    const bool sealed = t->key_path;
    for (unsigned i = 0; i < t->n; i++) {
        const struct timed_row *r = &t->row[i];
        if (sealed)
            instead[i] = turned_take(t->sh, t->device, r->key);
        m[i] = (struct cluster_measure){.key = r->key,
                                        .body = r->body,
                                        .len = r->len,
                                        .signer = sealed ? r->seal.signer : NULL,
                                        .seal = sealed ? r->seal.text : NULL,
                                        .stamp = sealed ? r->seal.date : 0,
                                        .instead = instead[i]};
    }
    cluster_measure_put(t->sh->cluster, DTD_TIMES, t->device, m, t->n, timed_answered, t->sh);
    for (unsigned i = 0; i < t->n; i++)
        free(instead[i]);
}

static int timed_seal(struct timed *t, struct timed_row *r, const struct sign_key *key, int64_t now)
{
    char digest[DT_SHA256_TEXT];
    struct sign_measure m = {
        .space = t->space, .kind = DTD_TIMES, .device = t->device, .key = r->key, .digest = digest};
    int e = dt_sha256_text(r->body, r->len, digest);
    return e < 0 ? e : sign_measure_seal(key, &m, now, &r->seal);
}

static void timed_sign(uv_work_t *w)
{
    struct timed *t = w->data;
    struct sign_key *key = NULL;
    struct dt_err e = {0};
    int r = sign_key_read(t->key_path, &key, &e);
    for (unsigned i = 0; r >= 0 && i < t->n; i++)
        r = timed_seal(t, &t->row[i], key, (int64_t)time(NULL));
    sign_key_free(key);
    if (r < 0) {
        t->held = dt_strdup(e.detail ? e.detail : dt_err_text(r));
        t->n = t->held ? t->n : 0;
    }
    dt_err_done(&e);
}

static void timed_signed(uv_work_t *w, int status)
{
    struct timed *t = w->data;
    struct dtd_share *sh = t->sh;
    uint64_t now = uv_hrtime();
    if (t->held && (!sh->unsigned_ns || now - sh->unsigned_ns >= LOG_EVERY_NS)) {
        sh->unsigned_ns = now;
        dt_log(DT_LOG_WARN, "measurements of this host are not sent, they cannot be signed: %s", t->held);
    }
    if (!t->held && t->n && !sh->closing)
        timed_put(t);
    timed_free(t);
}

/* False: it is no measurement. Without memory it is left out. */
static bool timed_row(struct timed *t, const char *key, const json_t *v)
{
    struct timed_row *r = &t->row[t->n];
    const char *text = json_string_value(v);
    size_t len = text ? strlen(text) : 0;
    if (!text || !dt_sha256_ok(key))
        return false;
    if (!(r->body = dt_malloc(dt_base64_room(len) + 1)))
        return true;
    t->n++;
    long bytes = dt_base64_decode(text, len, r->body);
    snprintf(r->key, sizeof r->key, "%s", key);
    r->len = bytes > 0 ? (size_t)bytes : 0;
    return bytes > 0;
}

bool dtd_timed_send(struct dtd_share *sh, const char *device, json_t *rows)
{
    bool ok = json_is_object(rows) && json_object_size(rows) && json_object_size(rows) <= CLUSTER_MEASURES;
    struct timed *t = ok ? dt_calloc(1, sizeof *t) : NULL;
    const char *key;
    json_t *v;
    if (!t)
        return ok; /* best effort */
    json_object_foreach (rows, key, v)
        ok = ok && timed_row(t, key, v);
    bool send = ok && t->n && sh && !sh->closing && (t->device = dt_strdup(device));
    t->sh = sh;
    t->work.data = t;
    if (send && sh->s->cfg.sign_key) {
        t->key_path = dt_strdup(sh->s->cfg.sign_key);
        t->space = dt_strdup(sh->s->cfg.shared_namespace);
        if (t->key_path && t->space && uv_queue_work(sh->s->loop, &t->work, timed_sign, timed_signed) == 0)
            return true;
    } else if (send) {
        timed_put(t);
    }
    timed_free(t);
    return ok;
}
