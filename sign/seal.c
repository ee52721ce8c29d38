/* Seals: Ed25519 over a message, and whether one is to be believed.
 *
 * A message is a list of fields, each with its length in front (8 bytes, little-endian), so that no two lists give the
 * same bytes. The first field says what the message is about and in which version, so that a seal of an entry is none
 * of a file; numbers are 8 bytes, little-endian. libsodium signs the message itself:
 *
 *   entry: "dovetail entry 1", signature, device, toolchain, policy, factors, digest, recipe, rewriter, evidence,
 *          signer, date
 *   entry of a cluster: "dovetail shared entry 1", namespace, then as above from signature on
 *   measurement of a cluster: "dovetail shared measure 1", namespace, kind, device, key, SHA-256 of its bytes, signer,
 *          date
 *   file:  "dovetail file 1", SHA-256 of the bytes ("sha256:…"), signer, date
 *
 * factors and recipe are JSON without spaces and with sorted members, so that a database may keep them in its own form;
 * no factors are the empty text. The key is part of what is signed: a seal says nothing of another key.
 *
 * Not here: where keys come from (keys.c), rows and files (bundle.c, pack.c).
 */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "sign-priv.h"

_Static_assert(SIGN_SECRET == crypto_sign_SECRETKEYBYTES && SIGN_PUBLIC == crypto_sign_PUBLICKEYBYTES, "Ed25519");

static void add_number(struct dt_str *m, uint64_t v)
{
    unsigned char b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)(v >> 8 * i);
    dt_str_addn(m, b, 8);
}

static void add_text(struct dt_str *m, const char *s)
{
    size_t n = s ? strlen(s) : 0;
    add_number(m, n);
    dt_str_addn(m, s ? s : "", n);
}

static void add_json(struct dt_str *m, const json_t *v)
{
    dt_free_ char *text = v ? json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) : NULL;
    if (v && !text)
        m->failed = true;
    add_text(m, text);
}

static void message_of_entry(struct dt_str *m, const struct sign_entry *en, const char *signer, int64_t date)
{
    add_text(m, en->space ? "dovetail shared entry 1" : "dovetail entry 1");
    if (en->space)
        add_text(m, en->space);
    add_text(m, en->signature);
    add_text(m, en->device);
    add_text(m, en->toolchain);
    add_text(m, en->policy);
    add_json(m, en->factors);
    add_text(m, en->digest);
    add_json(m, en->recipe);
    add_number(m, (uint64_t)en->rewriter);
    add_text(m, en->evidence);
    add_text(m, signer);
    add_number(m, (uint64_t)date);
}

static void message_of_measure(struct dt_str *msg, const struct sign_measure *m, const char *signer, int64_t date)
{
    add_text(msg, "dovetail shared measure 1");
    add_text(msg, m->space);
    add_text(msg, m->kind);
    add_text(msg, m->device);
    add_text(msg, m->key);
    add_text(msg, m->digest);
    add_text(msg, signer);
    add_number(msg, (uint64_t)date);
}

static void message_of_file(struct dt_str *m, const char *digest, const char *signer, int64_t date)
{
    add_text(m, "dovetail file 1");
    add_text(m, digest);
    add_text(m, signer);
    add_number(m, (uint64_t)date);
}

/* ---- signing ----------------------------------------------------------------------------------------------------- */

static int seal_message(const struct sign_key *k, struct dt_str *m, int64_t date, struct sign_seal *ret)
{
    unsigned char raw[crypto_sign_BYTES];
    struct dt_str text = {0};
    int r = m->failed || sodium_init() < 0 ||
                    crypto_sign_detached(raw, NULL, (const unsigned char *)m->s, m->len, k->secret) < 0
                ? DT_E_NOMEM
                : 0;
    if (!r)
        dt_base64_encode(raw, sizeof raw, &text);
    if (text.failed)
        r = DT_E_NOMEM;
    if (!r) {
        memset(ret, 0, sizeof *ret);
        snprintf(ret->signer, sizeof ret->signer, "%s", k->name);
        snprintf(ret->text, sizeof ret->text, "%s", text.s);
        ret->date = date;
    }
    dt_str_done(&text);
    dt_str_done(m);
    return r;
}

int sign_entry_seal(const struct sign_key *k, const struct sign_entry *en, int64_t date, struct sign_seal *ret)
{
    struct dt_str m = {0};
    message_of_entry(&m, en, k->name, date);
    return seal_message(k, &m, date, ret);
}

int sign_measure_seal(const struct sign_key *k, const struct sign_measure *m, int64_t date, struct sign_seal *ret)
{
    struct dt_str msg = {0};
    message_of_measure(&msg, m, k->name, date);
    return seal_message(k, &msg, date, ret);
}

int sign_file_seal(const struct sign_key *k, const char *digest, int64_t date, struct sign_seal *ret)
{
    struct dt_str m = {0};
    message_of_file(&m, digest, k->name, date);
    return seal_message(k, &m, date, ret);
}

/* ---- believing --------------------------------------------------------------------------------------------------- */

const char *sign_verdict_text(enum sign_verdict v)
{
    static const char *const text[] = {
        [SIGN_GOOD] = "its signature is good",
        [SIGN_NONE] = "it is not signed",
        [SIGN_UNKNOWN] = "it is signed by somebody who is not among the signers of this host",
        [SIGN_FORGED] = "its signature does not match: it was changed, or is not by whom it says",
        [SIGN_REVOKED] = "it is signed with a key that was revoked",
        [SIGN_EXPIRED] = "it is signed with a key whose time is over",
        [SIGN_EARLY] = "it is signed with a key before that key's time",
        [SIGN_FUTURE] = "it is dated in the future",
        [SIGN_OLD] = "it is older than what is taken",
        [SIGN_OTHER] = "it is signed by another signer than the one who is asked for",
    };
    return (unsigned)v < sizeof text / sizeof *text ? text[v] : "";
}

static enum sign_verdict verdict_of_key(const struct sign_demand *d, const struct sign_public *p, int64_t date)
{
    if (p->revoked)
        return SIGN_REVOKED;
    if (date > d->now + SIGN_CLOCKS_S)
        return SIGN_FUTURE;
    if (d->now >= p->until || date >= p->until)
        return SIGN_EXPIRED;
    if (d->now + SIGN_CLOCKS_S < p->from || date < p->from)
        return SIGN_EARLY;
    return d->max_age >= 0 && date < d->now - d->max_age ? SIGN_OLD : SIGN_GOOD;
}

static enum sign_verdict check_message(const struct sign_demand *d, const struct dt_str *m,
                                       const struct sign_seal *seal)
{
    unsigned char raw[crypto_sign_BYTES + 2];
    size_t n = strnlen(seal->text, sizeof seal->text);
    bool known = false;
    if (d->signer && strcmp(d->signer, seal->signer) != 0)
        return SIGN_OTHER;
    if (!d->signers || !sign_signers_has(d->signers, seal->signer))
        return SIGN_UNKNOWN;
    if (n != SIGN_SEAL_LENGTH || dt_base64_decode(seal->text, n, raw) != crypto_sign_BYTES)
        return SIGN_FORGED;
    for (size_t i = 0; !known && i < d->signers->n; i++) {
        const struct sign_public *p = &d->signers->key[i];
        if (!strcmp(p->name, seal->signer) &&
            crypto_sign_verify_detached(raw, (const unsigned char *)m->s, m->len, p->key) == 0)
            return verdict_of_key(d, p, seal->date);
    }
    return SIGN_FORGED;
}

static int check_and_done(const struct sign_demand *d, struct dt_str *m, const struct sign_seal *seal)
{
    int r = m->failed || sodium_init() < 0 ? DT_E_NOMEM : (int)check_message(d, m, seal);
    dt_str_done(m);
    return r;
}

int sign_entry_check(const struct sign_demand *d, const struct sign_entry *en, const struct sign_seal *seal)
{
    struct dt_str m = {0};
    if (!seal)
        return SIGN_NONE;
    message_of_entry(&m, en, seal->signer, seal->date);
    return check_and_done(d, &m, seal);
}

int sign_measure_check(const struct sign_demand *d, const struct sign_measure *m, const struct sign_seal *seal)
{
    struct dt_str msg = {0};
    if (!seal)
        return SIGN_NONE;
    message_of_measure(&msg, m, seal->signer, seal->date);
    return check_and_done(d, &msg, seal);
}

int sign_file_check(const struct sign_demand *d, const char *digest, const struct sign_seal *seal)
{
    struct dt_str m = {0};
    if (!seal)
        return SIGN_NONE;
    message_of_file(&m, digest, seal->signer, seal->date);
    return check_and_done(d, &m, seal);
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */

int sign_seal_put(json_t *o, const struct sign_seal *seal)
{
    bool bad = json_object_set_new(o, "signer", json_string(seal->signer)) < 0 ||
               json_object_set_new(o, "date", json_integer((json_int_t)seal->date)) < 0 ||
               json_object_set_new(o, "seal", json_string(seal->text)) < 0;
    return bad ? DT_E_NOMEM : 0;
}

bool sign_seal_get(const json_t *o, struct sign_seal *ret)
{
    const char *signer = json_string_value(json_object_get(o, "signer"));
    const char *text = json_string_value(json_object_get(o, "seal"));
    const json_t *date = json_object_get(o, "date");
    if (!signer || !text || !json_is_integer(date) || strlen(signer) >= sizeof ret->signer ||
        strlen(text) >= sizeof ret->text)
        return false;
    memset(ret, 0, sizeof *ret);
    memcpy(ret->signer, signer, strlen(signer));
    memcpy(ret->text, text, strlen(text));
    ret->date = (int64_t)json_integer_value(date);
    return true;
}
