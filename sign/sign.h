/* Who says so: Ed25519 signatures over recipes and measurements, and the files that carry recipes between hosts.
 *
 * A recipe that crosses hosts may be signed: its seal is an Ed25519 signature (libsodium) over everything that the
 * recipe says, the key that it is for, the signer's name and a date. A host has a file of signers whom it believes. A
 * seal says who made a recipe and never that it is right: the host makes the plan itself and verifies it, sealed or not
 * (cache/recipe.c, daemon/worker/recipe.c). What a host that wants a signer gains is that recipes of others are not
 * even looked at.
 *
 * Nothing here reads the clock: whoever calls says what time it is (seconds since 1970). Nothing is kept between calls;
 * all calls are synchronous and may be made on any thread.
 */
#ifndef DT_SIGN_SIGN_H
#define DT_SIGN_SIGN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define SIGN_NAME_MAX 64    /* bytes of a signer's name, NUL included: letters, digits and -_.@ */
#define SIGN_PUBLIC_TEXT 56 /* "ed25519:" + base64 of 32 bytes + NUL */
#define SIGN_SEAL_TEXT 96   /* base64 of 64 bytes + NUL */
#define SIGN_CLOCKS_S 300   /* how far the clocks of two hosts may be apart */

/* ---- keys.c: a signer's own key ---------------------------------------------------------------------------------- */
/* A key file has the name and the secret: two lines, mode 0600. One that others than its owner may read is refused. */
struct sign_key;
/* Make a key and its file, which must not be there yet. `public` gets its public half, as the file of signers has it.
 * DT_E_USAGE: the name is none, or the file cannot be made. */
int sign_keygen(const char *name, const char *path, char public[SIGN_PUBLIC_TEXT], struct dt_err *e);
int sign_key_read(const char *path, struct sign_key **ret, struct dt_err *e); /* DT_E_USAGE: it cannot be used */
struct sign_key *sign_key_free(struct sign_key *k);                           /* wipes it; NULL */
const char *sign_key_name(const struct sign_key *k);

/* ---- keys.c: the signers whom this host believes ----------------------------------------------------------------- */
/* A file of lines
 *
 *   NAME PUBLIC-KEY [NOT-BEFORE [NOT-AFTER]] [revoked]
 *
 * `#` begins a comment. Days are YYYY-MM-DD (UTC) or `-` for none; NOT-AFTER is the last day. A name may have several
 * keys: to change a key, the new one is added, and the old one goes when nothing signed by it is wanted any more.
 * `revoked` ends a key at once, for everything that it ever signed. A public key stands in the file once. A file that
 * others than its owner (root or the user of this process) may write is refused. */
struct sign_signers;
int sign_signers_read(const char *path, struct sign_signers **ret, struct dt_err *e); /* DT_E_USAGE */
/* The same from text; `where` names it in errors. */
int sign_signers_parse(const char *text, const char *where, struct sign_signers **ret, struct dt_err *e);
struct sign_signers *sign_signers_free(struct sign_signers *s); /* NULL */
bool sign_signers_has(const struct sign_signers *s, const char *name);

/* ---- seal.c: seals ----------------------------------------------------------------------------------------------- */
struct sign_entry {                                      /* all that a recipe says; borrowed */
    const char *signature, *device, *toolchain, *policy; /* its key (cache/cache.h) */
    const json_t *factors;                               /* what the signature is made of; NULL: not said */
    const char *digest;                                  /* of the plan's modules and launches */
    const json_t *recipe;
    int64_t rewriter;     /* its version */
    const char *evidence; /* "measured", …; "": not said */
    const char *space;    /* the namespace of the cluster that it is in; NULL: in none (bundles) */
};
struct sign_seal {
    char signer[SIGN_NAME_MAX], text[SIGN_SEAL_TEXT];
    int64_t date; /* when it was signed */
};
/* JSON counts by what it says: spaces and the order of members do not matter. A seal for one namespace is none for
 * another, nor for a bundle. DT_E_NOMEM. */
int sign_entry_seal(const struct sign_key *k, const struct sign_entry *en, int64_t date, struct sign_seal *ret);

enum sign_verdict {
    SIGN_GOOD,
    SIGN_NONE,    /* it is not sealed */
    SIGN_UNKNOWN, /* by nobody whom this host believes */
    SIGN_FORGED,  /* the seal does not belong to this entry and this signer */
    SIGN_REVOKED,
    SIGN_EXPIRED, /* the key's time is over */
    SIGN_EARLY,   /* dated before the key's time, or that has not begun */
    SIGN_FUTURE,  /* dated in the future */
    SIGN_OLD,     /* older than what is taken */
    SIGN_OTHER,   /* by another signer than the one who was asked for */
};
const char *sign_verdict_text(enum sign_verdict v); /* "it is not signed", … */
struct sign_demand {
    const struct sign_signers *signers; /* NULL: nobody is believed */
    const char *signer;                 /* only this one; NULL: any of them */
    int64_t now, max_age;               /* seconds; max_age negative: any */
};
/* seal NULL: SIGN_NONE. A key counts for a seal when the day of the seal and the day that it is now are both within its
 * days: who has the secret of a key whose time is over could date what they like. DT_E_NOMEM, or a verdict. */
int sign_entry_check(const struct sign_demand *d, const struct sign_entry *en, const struct sign_seal *seal);

/* The same for a measurement that hosts share. A seal of one is none of an entry, nor the other way round. */
struct sign_measure {                /* all that it says; borrowed */
    const char *space;               /* the namespace of the cluster that it is in */
    const char *kind, *device, *key; /* which one it is (cluster/cluster.h) */
    const char *digest;              /* SHA-256 of its bytes: "sha256:…" */
};
int sign_measure_seal(const struct sign_key *k, const struct sign_measure *m, int64_t date, struct sign_seal *ret);
int sign_measure_check(const struct sign_demand *d, const struct sign_measure *m, const struct sign_seal *seal);

/* For pack.c: the same over a file, whose SHA-256 `digest` is. */
int sign_file_seal(const struct sign_key *k, const char *digest, int64_t date, struct sign_seal *ret);
int sign_file_check(const struct sign_demand *d, const char *digest, const struct sign_seal *seal);
/* {"signer", "date", "seal"} in an object, and back. False: there is none, or it is not whole. */
int sign_seal_put(json_t *o, const struct sign_seal *seal);
bool sign_seal_get(const json_t *o, struct sign_seal *ret);

/* ---- pack.c: packed files ---------------------------------------------------------------------------------------- */
/* Lines of text in one zstd frame, and behind it, in a frame that zstd skips, a seal over all bytes before it:
 * `zstd -d` gives the text. */
#define SIGN_LINE_MAX (64u << 20) /* bytes of one line */
struct sign_packer;
int sign_pack_new(struct sign_packer **ret, struct dt_err *e);
/* DT_E_TOO_LARGE: more than max_text bytes of text. */
int sign_pack_add(struct sign_packer *p, const char *text, size_t n, size_t max_text, struct dt_err *e);
/* The file's bytes, for the caller to free. key NULL: without a seal. */
int sign_pack_end(struct sign_packer *p, const struct sign_key *key, int64_t date, char **ret, size_t *ret_len,
                  struct dt_err *e);
struct sign_packer *sign_pack_free(struct sign_packer *p); /* NULL */

typedef int sign_line_fn(void *user, const char *line, size_t n, struct dt_err *e); /* negative: stop with that */
struct sign_packed {
    bool packed;           /* false: the file is plain text */
    bool sealed;           /* it has a seal, and */
    struct sign_seal seal; /* this is it, and */
    char digest[72];       /* this is the SHA-256 of what it is over */
    const char *broken;    /* NULL: the file is whole; else what is wrong. Lines before that were given */
};
/* What can be said of the file before anything is unpacked. DT_E_NOMEM. */
int sign_packed_look(const char *bytes, size_t len, struct sign_packed *ret);
/* Give every line to fn, without its '\n'. Never holds more than a line and zstd's window (8 MB). A file that is cut or
 * damaged gives the lines before that, and `broken`. DT_E_TOO_LARGE: more than max_text bytes, or a line of more than
 * SIGN_LINE_MAX. */
int sign_packed_lines(const char *bytes, size_t len, size_t max_text, sign_line_fn *fn, void *user,
                      struct sign_packed *ret, struct dt_err *e);

/* ---- bundle.c: bundles ------------------------------------------------------------------------------------------- */
/* A bundle is lines of JSON. The first is {"dovetail_cache": 2}, the last {"end": ROWS}; between them each line is a
 * recipe:
 *
 *   {"table": "recipe", "row": [signature, device, toolchain, policy, digest, recipe, factors, sha256],
 *    "signer": NAME, "date": SECONDS, "seal": BASE64}
 *
 * All columns are strings; recipe and factors are JSON, factors may be "". sha256 is over the other columns
 * (length-prefixed, base/hash.h). The last three members are missing where nobody signed. */
#define SIGN_BUNDLE_VERSION 2
#define SIGN_BUNDLE_COLUMNS 8
#define SIGN_BUNDLE_TEXT (256u << 20) /* bytes of text in one */
struct sign_row {
    const char *column[SIGN_BUNDLE_COLUMNS]; /* borrowed of the line */
    json_t *recipe, *factors;                /* owned; factors NULL: none */
    struct sign_entry entry;                 /* all of it borrowed of this row */
    bool sealed;
    struct sign_seal seal;
};
/* NULL: the line is a sound row; else what is wrong with it ("" : out of memory), and *ret is empty. */
const char *sign_row_read(const json_t *line, struct sign_row *ret);
void sign_row_done(struct sign_row *r);
/* A row as a line, '\n' included. columns: all but sha256. seal NULL: none. DT_E_NOMEM. */
int sign_row_write(const char *const column[SIGN_BUNDLE_COLUMNS - 1], const struct sign_seal *seal, struct dt_str *out);
/* Sign every row of a bundle that has no damage, and the whole. Caller frees *ret. DT_E_JSON: it is no bundle. */
int sign_bundle(const struct sign_key *k, int64_t date, const char *bytes, size_t len, char **ret, size_t *ret_len,
                struct dt_err *e);
/* The rewriter's version in a toolchain ("…; rewriter 31; …"); 0: none. */
int64_t sign_rewriter(const char *toolchain);

#endif
