/* Is a row of the cluster to be believed (trust.h)?
 *
 * A seal says who made a recipe, or measured, and never that it is right: what is believed here goes to the worker,
 * which makes the plan itself, verifies it and measures it as a whole. What is not believed is a miss; the row stays in
 * the cluster, since other hosts may believe others.
 */
#include "daemon/service/trust.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"

#define LOG_EVERY_NS (UINT64_C(60) * 1000000000)

const char *const dtd_verdict_names[DTD_VERDICTS] = {
    [SIGN_GOOD] = "good",       [SIGN_NONE] = "unsigned",   [SIGN_UNKNOWN] = "stranger", [SIGN_FORGED] = "forged",
    [SIGN_REVOKED] = "revoked", [SIGN_EXPIRED] = "expired", [SIGN_EARLY] = "early",      [SIGN_FUTURE] = "future",
    [SIGN_OLD] = "old",         [SIGN_OTHER] = "other"};

/* By the rules of this host; en or m is NULL. signers NULL: nobody is believed. */
static int row_verdict(const struct dtd_config *c, const struct sign_signers *signers, const struct sign_entry *en,
                       const struct sign_measure *m, const json_t *row)
{
    const char *signer = dt_json_text(row, "signer"), *text = dt_json_text(row, "seal");
    const bool one = c->require_signer && strcmp(c->require_signer, "any") != 0;
    struct sign_demand d = {.signers = signers,
                            .signer = one ? c->require_signer : NULL,
                            .now = (int64_t)time(NULL),
                            .max_age = c->require_signer && c->import_max_days ? c->import_max_days * 86400 : -1};
    struct sign_seal seal = {.date = (int64_t)json_integer_value(json_object_get(row, "stamp"))};
    if (!*signer && !*text)
        return SIGN_NONE;
    if (strlen(signer) >= sizeof seal.signer)
        return SIGN_UNKNOWN;
    snprintf(seal.signer, sizeof seal.signer, "%s", signer);
    snprintf(seal.text, sizeof seal.text, "%s", text); /* a longer one is cut to what is no seal's length */
    return en ? sign_entry_check(&d, en, &seal) : sign_measure_check(&d, m, &seal);
}

/* what: a signature, or the key of a measurement */
static void trust_tell(struct dtd_trust *t, const char *what, const char *why)
{
    uint64_t now = uv_hrtime();
    t->since++;
    if (t->logged_ns && now - t->logged_ns < LOG_EVERY_NS)
        return;
    dt_log(DT_LOG_WARN, "%llu rows of the cluster were not used, the last for %.23s: %s", (unsigned long long)t->since,
           what, why);
    t->logged_ns = now;
    t->since = 0;
}

static bool trust_judge(struct dtd_trust *t, const struct dtd_config *c, const struct sign_entry *en,
                        const struct sign_measure *m, const json_t *row, bool again)
{
    struct sign_signers *signers = NULL;
    struct dt_err e = {0};
    bool read = !c->signers || sign_signers_read(c->signers, &signers, &e) == 0;
    int v = row_verdict(c, signers, en, m, row);
    bool may = v == SIGN_GOOD || (!c->require_signer && (v == SIGN_NONE || v == SIGN_UNKNOWN));
    if (!may && !again) {
        t->turned[v < 0 ? SIGN_UNKNOWN : v]++;
        trust_tell(t, en ? en->signature : m->key,
                   !read   ? e.detail
                   : v < 0 ? "out of memory"
                           : sign_verdict_text((enum sign_verdict)v));
    }
    sign_signers_free(signers);
    dt_err_done(&e);
    return may;
}

bool dtd_trust_row(struct dtd_trust *t, const struct dtd_config *c, const struct cluster_key *k, const json_t *row,
                   bool again)
{
    struct sign_entry en = {.signature = k->signature,
                            .device = k->device,
                            .toolchain = k->toolchain,
                            .policy = k->policy,
                            .factors = json_object_get(row, "factors"),
                            .digest = dt_json_text(row, "digest"),
                            .recipe = json_object_get(row, "recipe"),
                            .rewriter = (int64_t)json_integer_value(json_object_get(row, "rewriter")),
                            .evidence = dt_json_text(row, "evidence"),
                            .space = c->shared_namespace};
    return (!c->signers && !c->require_signer) || trust_judge(t, c, &en, NULL, row, again);
}

/* Of what is written as base64. False: it is none, or there is no memory. */
static bool body_digest(const char *text, char digest[DT_SHA256_TEXT])
{
    size_t n = strlen(text);
    dt_free_ uint8_t *bytes = dt_malloc(dt_base64_room(n) + 1);
    long len = bytes ? dt_base64_decode(text, n, bytes) : -1;
    return len >= 0 && dt_sha256_text(bytes, (size_t)len, digest) == 0;
}

bool dtd_trust_measure(struct dtd_trust *t, const struct dtd_config *c, const char *kind, const char *device,
                       const char *key, const json_t *row)
{
    char digest[DT_SHA256_TEXT];
    struct sign_measure m = {
        .space = c->shared_namespace, .kind = kind, .device = device, .key = key, .digest = digest};
    if (!c->signers && !c->require_signer)
        return true;
    return body_digest(dt_json_text(row, "body"), digest) && trust_judge(t, c, NULL, &m, row, false);
}

int dtd_trust_check(const struct dtd_config *c, struct dt_err *e)
{
    struct sign_signers *s = NULL;
    struct sign_key *k = NULL;
    const char *one = c->require_signer;
    int r = c->signers ? sign_signers_read(c->signers, &s, e) : 0;
    if (r == 0 && one && !c->signers)
        r = dt_err_set(e, DT_E_USAGE, "require_signer = %s, and signers names no file that says whom to believe", one);
    else if (r == 0 && one && strcmp(one, "any") != 0 && !sign_signers_has(s, one))
        r = dt_err_set(e, DT_E_USAGE, "require_signer = %s is not among those of %s", one, c->signers);
    if (r == 0 && c->sign_key)
        r = sign_key_read(c->sign_key, &k, e);
    sign_signers_free(s);
    sign_key_free(k);
    return r;
}
