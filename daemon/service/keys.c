/* Idempotency-Key (an IETF draft): a client that does not know whether its post arrived sends it
 * again under the same key, and gets the job that the first one made.
 *
 * A key belongs to a user. It stands for one target and one body, whose digest is taken while the body comes in; other
 * bytes under the same key are refused (422, key-reused). While the first post is being looked at, a second one is told
 * to come again (409). A post that was refused leaves nothing behind: its key is free. One that was answered at once,
 * from the cache, is answered so again.
 *
 * Kept in memory, for a day after the first use, KEYS_MAX in all and KEYS_OF_ONE of one user; the oldest go first. A
 * key whose job is forgotten is free again. What the service knew before it was started anew is gone, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "daemon/service/service.h"

#define KEYS_MAX 8192
#define KEYS_OF_ONE 1024
#define KEY_BYTES 255
#define DAY_MS (24 * 3600 * UINT64_C(1000))

struct dtd_key {
    unsigned uid;
    bool busy; /* the first post is not answered yet */
    uint64_t made_ms;
    char digest[DT_SHA256_TEXT], job[40];
    struct dtd_key *next; /* the older one */
    char name[];
};

static void forget(struct dtd_keys *ks, struct dtd_key **link)
{
    struct dtd_key *k = *link;
    *link = k->next;
    ks->n--;
    free(k);
}

static bool key_ok(const char *s)
{
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i++)
        if (s[i] < 0x21 || s[i] > 0x7e)
            return false;
    return n && n <= KEY_BYTES;
}

/* The key's row, and no row that is too old; NULL: none. */
static struct dtd_key *find_key(struct dtd_keys *ks, unsigned uid, const char *name, uint64_t now_ms)
{
    for (struct dtd_key **p = &ks->newest; *p;) {
        if (!(*p)->busy && now_ms - (*p)->made_ms > DAY_MS) {
            forget(ks, p);
            continue;
        }
        if ((*p)->uid == uid && !strcmp((*p)->name, name))
            return *p;
        p = &(*p)->next;
    }
    return NULL;
}

/* Room for one more of this user. */
static void trim_keys(struct dtd_keys *ks, unsigned uid)
{
    struct dtd_key **oldest = NULL, **own = NULL;
    unsigned mine = 0;
    for (struct dtd_key **p = &ks->newest; *p; p = &(*p)->next) {
        mine += (*p)->uid == uid;
        if ((*p)->busy)
            continue;
        oldest = p;
        if ((*p)->uid == uid)
            own = p;
    }
    if (own && (mine >= KEYS_OF_ONE || ks->n >= KEYS_MAX))
        forget(ks, own);
    else if (oldest && ks->n >= KEYS_MAX)
        forget(ks, oldest);
}

enum dtd_key_state dtd_keys_ask(struct dtd_keys *ks, unsigned uid, const char *name, const char *digest,
                                uint64_t now_ms, struct dtd_key **ret)
{
    struct dtd_key *k = find_key(ks, uid, name, now_ms);
    if (k) {
        *ret = k;
        return strcmp(k->digest, digest) != 0 ? DTD_KEY_OTHER : k->busy ? DTD_KEY_BUSY : DTD_KEY_KNOWN;
    }
    size_t n = strlen(name) + 1;
    trim_keys(ks, uid);
    k = dt_calloc(1, sizeof *k + n);
    if (!k)
        return DTD_KEY_NOMEM;
    k->uid = uid;
    k->busy = true;
    k->made_ms = now_ms;
    snprintf(k->digest, sizeof k->digest, "%s", digest);
    memcpy(k->name, name, n);
    k->next = ks->newest;
    ks->newest = k;
    ks->n++;
    *ret = k;
    return DTD_KEY_NEW;
}

void dtd_keys_answer(struct dtd_keys *ks, struct dtd_key *k, bool taken, const char *job)
{
    struct dtd_key **link = &ks->newest;
    while (*link != k)
        link = &(*link)->next;
    k->busy = false;
    snprintf(k->job, sizeof k->job, "%s", job);
    if (!taken)
        forget(ks, link);
}

void dtd_keys_done(struct dtd_keys *ks)
{
    while (ks->newest)
        forget(ks, &ks->newest);
}

/* ---- a request with a key --------------------------------------------------------------------------------------- */
/* The post has been answered, or (status 0) its client has gone first. */
static void answered(struct dtd_req *r, int status, const char *headers)
{
    static const char location[] = "Location: /v1/jobs/";
    struct dtd_service *s = r->user;
    const char *at = headers ? strstr(headers, location) : NULL;
    char job[40] = "";
    if (at)
        snprintf(job, sizeof job, "%.*s", (int)strcspn(at + sizeof location - 1, "\r\n"), at + sizeof location - 1);
    dtd_keys_answer(&s->keys, r->key, status >= 200 && status < 300, job);
    r->key = NULL;
}

bool dtd_key_first(struct dtd_service *s, struct dtd_req *r)
{
    const char *name = dtd_req_header(r, "idempotency-key");
    if (!name)
        return true;
    if (!key_ok(name)) {
        dtd_reply_err(r, DT_E_USAGE, "an Idempotency-Key has 1 to %d visible characters", KEY_BYTES);
        return false;
    }
    struct dtd_key *k = NULL;
    struct dt_err e = {0};
    switch (dtd_keys_ask(&s->keys, dtd_peer_uid(r), name, r->digest, uv_now(s->loop), &k)) {
    case DTD_KEY_NOMEM: dtd_reply_err(r, DT_E_NOMEM, "out of memory"); return false;
    case DTD_KEY_OTHER:
        dtd_reply_err(r, DT_E_KEY, "another target or body was posted under this Idempotency-Key");
        return false;
    case DTD_KEY_BUSY:
        dt_err_set(&e, DT_E_BUSY, "the first post under this Idempotency-Key is not answered yet");
        dtd_reply_problem(r, 409, "Retry-After: 1\r\n", &e);
        return false;
    case DTD_KEY_KNOWN: {
        const struct dtd_job *j = *k->job ? dtd_jobs_find(&s->jobs, k->job) : NULL;
        if (j) {
            dtd_reply_accepted(r, j, dtd_job_json(j)); /* as the answer to the first post was */
            return false;
        }
        k->busy = true; /* answered from the cache, or the job is forgotten: as for the first time */
        k->made_ms = uv_now(s->loop);
        break;
    }
    case DTD_KEY_NEW: break;
    }
    r->key = k;
    r->answered = answered;
    return true;
}
