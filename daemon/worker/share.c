/* What the cluster has: the worker asks the service, which alone has a network.
 *
 *   signature known, no document here ──▶ find: asked, and not waited for
 *                compile, block maps, …         (the service asks the cluster meanwhile)
 *   before anything is tried ──────────▶ the answer is read
 *        a recipe      it is kept under the key and tried (recipe.c)
 *        none          claim: does this host plan it?
 *             a recipe      another host had it ready: as above
 *             plan          yes; the token of the lease goes into the outbox with the result
 *             away          nobody knows: the cluster is not there, or the wait for another host was too long. Plan.
 *
 * The service answers a claim when it has something to say: while another host plans the same key, the worker waits in
 * the pipe. Its own job's time limit bounds that from outside. So the early question costs nothing, and one that came
 * to nothing, for want of time, is asked again by the claim.
 *
 * A recipe that did not hold here is named in the next claim (`not`), so that it does not come back; the host then
 * plans under a lease like any other.
 *
 * Measurements of the performance library go the same way: `times` asks for one where this machine has none, `timed`
 * tells what was measured here when the planning is over. Only of a real device: what the software device says of
 * times is modelled, and neither sent nor asked for. Nothing is lost but time where the cluster does not have one, or
 * is away: after a few answers that did not come, the job asks no more.
 *
 * Only requests with the option `shared` come here: the service sets it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wire.h"
#include "daemon/worker/worker.h"
#include "rewrite/rewrite.h"

#define ORIGIN "cluster"
#define AWAY_MOST 3 /* answers that did not come, before a job asks for no more measurements */
#define ROWS_MOST 64
#define ROWS_BYTES 48000 /* of one question */
#define ROUNDS 4         /* recipes that do not hold, one after the other, before it plans without asking */

static bool share_send(struct wrk *w, const char *op, const struct cache_key *k, const char *refused)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*}", "op", op, "signature", k->signature, "device", k->device,
                          "toolchain", k->toolchain, "policy", k->policy, "not", *refused ? refused : NULL);
    dt_free_ char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text && wrk_send(w, DT_WIRE_ASK, text, strlen(text)) == 0;
}

/* The answer, which comes in any case; NULL: it cannot be read. */
static json_t *share_read(struct wrk *w)
{
    for (;;) {
        char type, *body = NULL;
        uint32_t number;
        size_t len;
        json_t *o = NULL;
        int r = dt_wire_read(w->in, &type, &number, &body, &len, NULL);
        if (r)
            exit(r < 0 ? 4 : 0); /* the service is gone */
        bool mine = type == DT_WIRE_TELL && number == w->number;
        if (mine)
            dt_json_load(body, len, &o, NULL);
        free(body);
        if (type != DT_WIRE_TELL)
            exit(4); /* a request before this one is answered */
        if (mine)
            return o;
    }
}

void wrk_share_find(struct wrk *w, const struct cache_key *k)
{
    if (!w->shared || w->asked || !w->cache)
        return;
    w->asked = share_send(w, "find", k, "");
}

/* Keep the recipe of an answer. True: there is one to try. */
static bool share_keep(struct wrk *w, const struct cache_key *k, const json_t *answer)
{
    const char *digest = json_string_value(json_object_get(answer, "digest"));
    const json_t *recipe = json_object_get(answer, "recipe");
    struct dt_err e = {0};
    const char *instead = dt_json_text(answer, "instead");
    snprintf(w->instead, sizeof w->instead, "%s", dt_sha256_ok(instead) ? instead : "");
    if (strcmp(dt_json_text(answer, "say"), "recipe"))
        return false;
    if (!digest || !dt_sha256_ok(digest) || !json_is_object(recipe)) {
        dt_log(DT_LOG_WARN, "what the cluster has under %.23s is no recipe", k->signature);
        return false;
    }
    memcpy(w->refused, digest, DT_SHA256_TEXT); /* until it has held */
    if (cache_recipe_take(w->cache, k, recipe, digest, ORIGIN, &e) < 0)
        dt_log(DT_LOG_WARN, "a recipe of the cluster is not kept: %s", e.detail ? e.detail : dt_err_text(e.num));
    dt_err_done(&e);
    return true;
}

int wrk_share_plan(struct wrk *w, const struct cache_key *k, wrk_by_recipe *by, void *user)
{
    bool theirs = false;
    w->token = 0;
    w->refused[0] = 0;
    w->instead[0] = 0;
    json_t *answer = w->asked ? share_read(w) : NULL;
    w->asked = false;
    if (answer)
        share_keep(w, k, answer);
    json_decref(answer);
    for (int round = 0;; round++) {
        theirs = w->cache && cache_recipe_from(w->cache, k, ORIGIN);
        int r = by(user);
        if (r) {
            if (r == 1)
                w->by_cluster = theirs;
            return r;
        }
        if (!w->shared || !w->cache || round == ROUNDS || !share_send(w, "claim", k, w->refused))
            return 0;
        answer = share_read(w);
        bool again = share_keep(w, k, answer);
        w->token = (int64_t)json_integer_value(json_object_get(answer, "token"));
        json_decref(answer);
        if (!again)
            return 0;
    }
}

/* {"factor", "mine", "stored"} of what differs from the key; NULL: it is no entry of the cluster, or no memory. */
static json_t *share_differs(const struct cache_key *k, const json_t *entry)
{
    const char *const factor[] = {"device", "toolchain", "policy"}, *const mine[] = {k->device, k->toolchain,
                                                                                     k->policy};
    json_t *list = json_array();
    bool ok = list;
    for (int i = 0; i < 3; i++) {
        const char *stored = json_string_value(json_object_get(entry, factor[i]));
        ok = ok && stored;
        if (ok && strcmp(stored, mine[i]))
            ok = json_array_append_new(
                     list, json_pack("{s:s, s:s, s:s}", "factor", factor[i], "mine", mine[i], "stored", stored)) == 0;
    }
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

/* The one with the fewest differences; of equal ones the first, which is the newest. */
static json_t *share_nearest(const struct cache_key *k, json_t *entries)
{
    json_t *best = NULL, *differs = NULL, *v;
    size_t i;
    json_array_foreach (entries, i, v) {
        json_t *d = share_differs(k, v);
        if (!d || (best && json_array_size(d) >= json_array_size(differs))) {
            json_decref(d);
            continue;
        }
        json_decref(differs);
        differs = d;
        best = v;
    }
    return best ? json_pack("{s:s, s:O, s:o}", "state", "near", "entry", best, "differs", differs)
                : json_pack("{s:s}", "state", "none");
}

json_t *wrk_share_near(struct wrk *w, const struct cache_key *k)
{
    if (!w->shared)
        return NULL;
    if (w->asked)
        json_decref(share_read(w));
    w->asked = false;
    json_t *answer = share_send(w, "near", k, "") ? share_read(w) : NULL;
    const char *say = dt_json_text(answer, "say");
    json_t *o = !strcmp(say, "near") ? share_nearest(k, json_object_get(answer, "entries"))
                                     : json_pack("{s:s}", "state", strcmp(say, "none") ? "away" : "none");
    json_decref(answer);
    return o;
}

/* ---- measurements ------------------------------------------------------------------------------------------------ */

static bool share_measures(const struct wrk *w) { return w->shared && !w->asked && !dev_info(w->dev)->soft; }

/* Send a question, take it over, and read the answer. NULL: it could not be sent, or not be read. */
static json_t *share_question(struct wrk *w, json_t *o)
{
    dt_free_ char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text && wrk_send(w, DT_WIRE_ASK, text, strlen(text)) == 0 ? share_read(w) : NULL;
}

bool wrk_share_times(struct wrk *w, const char *key, void **ret, size_t *ret_len)
{
    if (!share_measures(w) || w->away >= AWAY_MOST)
        return false;
    json_t *answer = share_question(w, json_pack("{s:s, s:s, s:s}", "op", "times", "device", w->key, "key", key));
    const char *say = dt_json_text(answer, "say"), *body = dt_json_text(answer, "body");
    size_t n = strlen(body);
    uint8_t *p = !strcmp(say, "times") && n ? dt_malloc(dt_base64_room(n) + 1) : NULL;
    long len = p ? dt_base64_decode(body, n, p) : -1;
    w->away = strcmp(say, "times") && strcmp(say, "none") ? w->away + 1 : 0;
    json_decref(answer);
    if (len < 0) {
        free(p);
        return false;
    }
    *ret = p;
    *ret_len = (size_t)len;
    return true;
}

/* As many rows as one question may have. How many were taken. */
static size_t share_rows(json_t *rows, const struct cache_bytes *v, size_t n)
{
    size_t bytes = 0, i = 0;
    for (; i < n && json_object_size(rows) < ROWS_MOST; i++) {
        struct dt_str text = {0};
        size_t more = v[i].bytes / 3 * 4 + 128;
        if (more > ROWS_BYTES)
            continue;
        if (bytes + more > ROWS_BYTES)
            break;
        bytes += more;
        dt_base64_encode(v[i].p, v[i].bytes, &text);
        if (!text.failed && text.s)
            json_object_set_new(rows, v[i].key, json_string(text.s));
        dt_str_done(&text);
    }
    return i;
}

void wrk_share_timed(struct wrk *w, const struct cache_bytes *v, size_t n)
{
    for (size_t at = 0; share_measures(w) && at < n;) {
        json_t *rows = json_object();
        at += rows ? share_rows(rows, v + at, n - at) : n;
        if (json_object_size(rows))
            json_decref(share_question(w, json_pack("{s:s, s:s, s:O}", "op", "timed", "device", w->key, "rows", rows)));
        json_decref(rows);
    }
}

/* What the cluster is told of a plan beside its recipe; `instead`: which entry it is to replace, since that one is not
 * believed, or did not hold here. */
json_t *wrk_share_facts(const struct wrk *w, const json_t *plan, json_t *factors)
{
    const char *instead = *w->instead ? w->instead : *w->refused ? w->refused : NULL;
    const json_t *before = json_object_get(plan, "baseline"), *after = json_object_get(plan, "optimized");
    return json_pack("{s:i, s:s, s:f, s:f, s:b, s:s*, s:O*}", "rewriter", (int)strtol(RW_VERSION, NULL, 10), "evidence",
                     dt_json_text(after, "method"), "baseline_us",
                     json_number_value(json_object_get(before, "time_us")), "time_us",
                     json_number_value(json_object_get(after, "time_us")), "verified",
                     json_is_true(json_object_get(json_object_get(plan, "verified"), "bitwise")), "instead", instead,
                     "factors", factors);
}
