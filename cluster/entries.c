/* Recipes: find, near, put (cluster.h).
 *
 * The checksum of a row is over everything that it says, namespace and key included, so that a row that was damaged, or
 * copied to another key or namespace, does not match. It is no signature: whoever can write can also sum. A row that
 * fails a check is moved to dovetail_aside, so that the key is free for a good one, and the caller gets NONE. It is
 * moved only if it is the same at the server: what was damaged on its way here is left alone.
 *
 * `used` is written by a call of its own after a find, and at most once a day for a row, so that finding does not mean
 * writing.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cluster-priv.h"

#define FORMAT "1"
#define EVIDENCE_MAX 64
#define SIGNER_MAX 128
#define SEAL_MAX 512
#define REWRITER_MAX 1000000

struct entry_text { /* of an entry, as it is summed */
    const char *digest, *recipe, *rewriter, *evidence, *factors, *stamp, *signer, *seal;
};

static bool entry_sum(const struct call *call, const struct entry_text *t, char sum[DT_SHA256_TEXT])
{
    const char *const text[] = {
        FORMAT,           call->c->space, call->key.signature, call->key.device, call->key.toolchain,
        call->key.policy, t->digest,      t->recipe,           t->rewriter,      t->evidence,
        t->factors,       t->stamp,       t->signer,           t->seal};
    struct dt_sha256 h;
    if (dt_sha256_init(&h) < 0)
        return false;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        dt_sha256_addstr(&h, text[i]);
    dt_sha256_final(&h, sum);
    return true;
}

/* ---- find -------------------------------------------------------------------------------------------------------- */

static void written_read(struct call *call, PGresult *const *r) { call_end(call, CLUSTER_OK, NULL); }

static void entry_touch(struct call *found, const char *checksum)
{
    struct call *call = call_new(found->c, NULL, NULL, written_read);
    if (!call)
        return;
    call->writes = true;
    CALL_STEP(call, CLUSTER_SQL_TOUCH, call_text(call, found->hash), call_text(call, checksum));
    pool_submit(call);
}

/* r: the row, NULL: it has not the columns of one, and nothing can be said of it. */
static void entry_aside(struct call *found, const PGresult *r, const char *why)
{
    static const int column[] = {12, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}; /* checksum, then as they come */
    enum { N = sizeof column / sizeof *column };
    struct cluster *c = found->c;
    c->counts.damaged++;
    pool_log(c, true, "an entry of the cluster is not used: %s (%.23s)", why, found->key.signature);
    struct call *call = r ? call_new(c, NULL, NULL, written_read) : NULL;
    if (!call)
        return;
    call->writes = true;
    const char *value[N + 2] = {call_text(call, found->hash)};
    bool whole = true;
    for (int i = 0; i < N; i++) {
        const char *text = row_text(r, 0, column[i], CLUSTER_RECIPE_MAX);
        whole = whole && text;
        value[i + 1] = call_text(call, text);
    }
    value[N + 1] = call_text(call, why);
    if (!whole)
        call_refuse(call, "it cannot be named");
    call_step(call, CLUSTER_SQL_ASIDE, N + 2, value);
    call_step(call, CLUSTER_SQL_ASIDE_GO, N + 1, value);
    pool_submit(call);
}

/* 1: *ret is it; 0: it is no object; DT_E_NOMEM. */
static int object_read(const char *text, json_t **ret)
{
    json_t *o = NULL;
    int r = dt_json_load(text, strlen(text), &o, NULL);
    if (r < 0)
        return r == DT_E_NOMEM ? r : 0;
    if (json_is_object(o)) {
        *ret = o;
        return 1;
    }
    json_decref(o);
    return 0;
}

/* What is wrong with it, or NULL: *ret is the row, or stays as it is without memory. */
static const char *entry_read(struct call *call, const PGresult *r, json_t **ret)
{
    const char *const key[] = {call->key.signature, call->key.device, call->key.toolchain, call->key.policy};
    for (int i = 0; i < 4; i++) {
        const char *text = row_text(r, 0, i, CLUSTER_KEY_MAX);
        if (!text || strcmp(text, key[i]))
            return "it is of another key";
    }
    struct entry_text t = {
        row_text(r, 0, 4, DT_SHA256_TEXT), row_text(r, 0, 5, CLUSTER_RECIPE_MAX), row_text(r, 0, 6, 12),
        row_text(r, 0, 7, EVIDENCE_MAX),   row_text(r, 0, 8, CLUSTER_RECIPE_MAX), row_text(r, 0, 9, 20),
        row_text(r, 0, 10, SIGNER_MAX),    row_text(r, 0, 11, SEAL_MAX)};
    const char *checksum = row_text(r, 0, 12, DT_SHA256_TEXT);
    int64_t rewriter, stamp, created, used;
    char sum[DT_SHA256_TEXT];
    if (!t.digest || !t.recipe || !t.rewriter || !t.evidence || !t.factors || !t.stamp || !t.signer || !t.seal ||
        !checksum || !row_number(r, 0, 6, &rewriter) || !row_number(r, 0, 9, &stamp) ||
        !row_number(r, 0, 13, &created) || !row_number(r, 0, 14, &used) || rewriter < 0 || rewriter > REWRITER_MAX)
        return "a column has not the form that it should have";
    if (!entry_sum(call, &t, sum))
        return NULL;
    if (strcmp(sum, checksum))
        return "its sum does not match";
    json_t *recipe = NULL, *factors = NULL;
    int good = dt_sha256_ok(t.digest) ? object_read(t.recipe, &recipe) : 0;
    if (good == 1 && *t.factors)
        good = object_read(t.factors, &factors);
    if (good != 1) {
        json_decref(recipe);
        json_decref(factors);
        return good ? NULL : "it holds no recipe";
    }
    *ret = json_pack("{s:s, s:o, s:I, s:s, s:o*, s:I, s:s*, s:s*, s:I, s:I}", "digest", t.digest, "recipe", recipe,
                     "rewriter", (json_int_t)rewriter, "evidence", t.evidence, "factors", factors, "stamp",
                     (json_int_t)stamp, "signer", *t.signer ? t.signer : NULL, "seal", *t.seal ? t.seal : NULL,
                     "created", (json_int_t)created, "used", (json_int_t)used);
    return NULL;
}

static void find_read(struct call *call, PGresult *const *r)
{
    call_end(call, CLUSTER_NONE, NULL);
    if (PQresultStatus(r[0]) == PGRES_TUPLES_OK && PQntuples(r[0]) == 0)
        return;
    if (!row_shape(r[0], 16) || PQntuples(r[0]) != 1) {
        entry_aside(call, NULL, "a row has not the columns that it should have");
        return;
    }
    json_t *row = NULL;
    const char *wrong = entry_read(call, r[0], &row);
    if (wrong) {
        entry_aside(call, r[0], wrong);
    } else if (row) {
        call_end(call, CLUSTER_OK, NULL);
        call->row = row;
        if (!strcmp(PQgetvalue(r[0], 0, 15), "1"))
            entry_touch(call, PQgetvalue(r[0], 0, 12));
    } else {
        call_end(call, CLUSTER_AWAY, "out of memory");
    }
}

void cluster_find(struct cluster *c, const struct cluster_key *k, cluster_fn *fn, void *user)
{
    struct call *call = call_new(c, fn, user, find_read);
    if (!call)
        return;
    call->urgent = true;
    uv_update_time(c->loop);
    call->deadline = uv_now(c->loop) + c->lookup_ms;
    if (call_key(call, k))
        CALL_STEP(call, CLUSTER_SQL_FIND, call->hash);
    pool_submit(call);
}

/* ---- near -------------------------------------------------------------------------------------------------------- */

static json_t *near_row(const PGresult *r, int row)
{
    const char *device = row_text(r, row, 0, CLUSTER_KEY_MAX), *toolchain = row_text(r, row, 1, CLUSTER_KEY_MAX),
               *policy = row_text(r, row, 2, CLUSTER_KEY_MAX), *evidence = row_text(r, row, 4, EVIDENCE_MAX);
    int64_t rewriter, created;
    if (!device || !toolchain || !policy || !evidence || !row_number(r, row, 3, &rewriter) ||
        !row_number(r, row, 5, &created))
        return NULL;
    return json_pack("{s:s, s:s, s:s, s:I, s:s, s:I}", "device", device, "toolchain", toolchain, "policy", policy,
                     "rewriter", (json_int_t)rewriter, "evidence", evidence, "created", (json_int_t)created);
}

static void near_read(struct call *call, PGresult *const *r)
{
    json_t *all = json_array();
    for (int i = 0; all && row_shape(r[0], 6) && i < PQntuples(r[0]); i++) {
        json_t *o = near_row(r[0], i);
        if (o)
            json_array_append_new(all, o);
    }
    call_end(call, json_array_size(all) ? CLUSTER_OK : CLUSTER_NONE, NULL);
    if (json_array_size(all))
        call->row = json_pack("{s:O}", "entries", all);
    json_decref(all);
}

void cluster_near(struct cluster *c, const struct cluster_key *k, cluster_fn *fn, void *user)
{
    struct call *call = call_new(c, fn, user, near_read);
    if (!call)
        return;
    call->urgent = true;
    if (call_key(call, k))
        CALL_STEP(call, CLUSTER_SQL_NEAR, call->key.signature, call->hash);
    pool_submit(call);
}

/* ---- put --------------------------------------------------------------------------------------------------------- */

static void put_read(struct call *call, PGresult *const *r)
{
    const unsigned at = call->token ? 1 : 0;
    if (call->token && !PQntuples(r[0]))
        call_end(call, CLUSTER_LOST, "somebody else has claimed it since");
    else
        call_end(call, PQntuples(r[at]) ? CLUSTER_OK : CLUSTER_NONE, NULL);
}

static void put_steps(struct call *call, const struct cluster_entry *en, char *recipe, char *factors)
{
    const char *evidence = call_text(call, en->evidence);
    struct entry_text t = {.digest = call_text(call, en->digest),
                           .recipe = call_text(call, recipe),
                           .rewriter = call_number(call, en->rewriter),
                           .evidence = evidence,
                           .factors = call_text(call, factors),
                           .stamp = call_number(call, en->stamp ? en->stamp : (int64_t)time(NULL)),
                           .signer = call_text(call, en->signer),
                           .seal = call_text(call, en->seal)};
    char sum[DT_SHA256_TEXT];
    const struct cluster_key *k = &call->key;
    const char *token = call_number(call, call->token);
    if (!entry_sum(call, &t, sum)) {
        call->arena.failed = true;
        return;
    }
    if (call->token)
        CALL_STEP(call, CLUSTER_SQL_PUT_LEASE, call->hash, token);
    CALL_STEP(call, CLUSTER_SQL_PUT, call->hash, k->signature, k->device, k->toolchain, k->policy, FORMAT, t.digest,
              t.recipe, t.rewriter, evidence, strncmp(evidence, "measured", 8) ? "0" : "1", t.factors, t.stamp,
              t.signer, t.seal, call_text(call, sum), token, call_text(call, en->instead));
    if (call->token)
        CALL_STEP(call, CLUSTER_SQL_PUT_END, call->hash, token);
}

static void put_check(struct call *call, const struct cluster_entry *en)
{
    if (!en->digest || !dt_sha256_ok(en->digest))
        call_refuse(call, "the digest is none");
    else if (!json_is_object(en->recipe) || (en->factors && !json_is_object(en->factors)))
        call_refuse(call, "the recipe is no object");
    else if (en->rewriter < 0 || en->rewriter > REWRITER_MAX)
        call_refuse(call, "the version of the rewriter is none");
    else if (strlen(en->evidence ? en->evidence : "") > EVIDENCE_MAX ||
             strlen(en->signer ? en->signer : "") > SIGNER_MAX || strlen(en->seal ? en->seal : "") > SEAL_MAX ||
             strlen(en->instead ? en->instead : "") > DT_SHA256_TEXT)
        call_refuse(call, "evidence, signer or seal is too long");
}

void cluster_put(struct cluster *c, const struct cluster_entry *en, int64_t token, cluster_fn *fn, void *user)
{
    struct call *call = call_new(c, fn, user, put_read);
    if (!call)
        return;
    call->writes = true;
    call->token = token;
    if (call_key(call, &en->key))
        put_check(call, en);
    if (!call->refused) {
        dt_free_ char *recipe = dt_json_dumps(en->recipe, JSON_COMPACT | JSON_SORT_KEYS);
        dt_free_ char *factors =
            en->factors ? dt_json_dumps(en->factors, JSON_COMPACT | JSON_SORT_KEYS) : dt_strdup("");
        if (!recipe || !factors)
            call->arena.failed = true;
        else if (call_bounded(call, "recipe", recipe, CLUSTER_RECIPE_MAX) &&
                 (!*factors || call_bounded(call, "factors", factors, CLUSTER_RECIPE_MAX)))
            put_steps(call, en, recipe, factors);
    }
    pool_submit(call);
}
