/* Key files and the file of signers.
 *
 * A key file is two lines, "name NAME" and "secret ed25519:BASE64", where the secret is the seed of 32 bytes; it is
 * made with mode 0600 and never written over. Secrets are wiped from memory when they are freed, as are the texts they
 * were read from. The file of signers is text that people edit; its format is in sign.h. It decides whom this host
 * believes, so a line that is not understood refuses the whole file.
 *
 * Not here: encrypted key files. Whoever wants that keeps the file in an encrypted place.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/file.h"
#include "base/vec.h"
#include "sign-priv.h"

#define PREFIX "ed25519:"
#define KEY_FILE_MAX 4096
#define SIGNERS_MAX (1u << 20) /* bytes of the file */
#define WORDS 6                /* one more than a line may have */

static bool name_ok(const char *name)
{
    size_t n = strlen(name);
    return n && n < SIGN_NAME_MAX && name[0] != '-' && name[0] != '.' &&
           !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@")];
}

/* "ed25519:" and base64 of 32 bytes. */
static bool key_bytes(const char *text, unsigned char out[SIGN_PUBLIC])
{
    unsigned char raw[SIGN_PUBLIC + 1];
    size_t k = strlen(PREFIX), n = strlen(text);
    bool ok = n == k + 44 && !strncmp(text, PREFIX, k) && dt_base64_decode(text + k, 44, raw) == SIGN_PUBLIC;
    if (ok)
        memcpy(out, raw, SIGN_PUBLIC);
    sodium_memzero(raw, sizeof raw);
    return ok;
}

static int key_text(const unsigned char *bytes, char *out, size_t n)
{
    struct dt_str s = {0};
    dt_base64_encode(bytes, SIGN_PUBLIC, &s);
    bool bad = s.failed || !s.s;
    if (!bad) {
        snprintf(out, n, PREFIX "%s", s.s);
        sodium_memzero(s.s, s.len);
    }
    dt_str_done(&s);
    return bad ? DT_E_NOMEM : 0;
}

/* ---- key files --------------------------------------------------------------------------------------------------- */

static int key_write(const char *path, const char *text, struct dt_err *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return dt_err_set(e, DT_E_USAGE, "%s: %s", path,
                          errno == EEXIST ? "there is a file already, and keys are never written over"
                                          : strerror(errno));
    bool ok = fchmod(fd, 0600) == 0 && dt_write_full(fd, text, strlen(text)) == 0 && fsync(fd) == 0;
    int why = errno;
    close(fd);
    if (ok)
        return 0;
    unlink(path);
    return dt_err_set(e, DT_E_USAGE, "%s: %s", path, strerror(why));
}

int sign_keygen(const char *name, const char *path, char public[SIGN_PUBLIC_TEXT], struct dt_err *e)
{
    unsigned char seed[crypto_sign_SEEDBYTES], pk[SIGN_PUBLIC], sk[SIGN_SECRET];
    char secret[SIGN_PUBLIC_TEXT], text[256];
    if (!name_ok(name))
        return dt_err_set(e, DT_E_USAGE,
                          "a signer's name has 1 to %d letters, digits or any of -_.@, and does not "
                          "begin with - or .",
                          SIGN_NAME_MAX - 1);
    if (sodium_init() < 0)
        return dt_err_set(e, DT_E_INTERNAL, "libsodium cannot be used: it has no source of random numbers");
    randombytes_buf(seed, sizeof seed);
    crypto_sign_seed_keypair(pk, sk, seed);
    int r = key_text(seed, secret, sizeof secret) < 0 || key_text(pk, public, SIGN_PUBLIC_TEXT) < 0
                ? dt_err_set(e, DT_E_NOMEM, "out of memory")
                : 0;
    if (!r) {
        snprintf(text, sizeof text, "name %s\nsecret %s\n", name, secret);
        r = key_write(path, text, e);
    }
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(sk, sizeof sk);
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(text, sizeof text);
    return r;
}

/* The text of a small file that the right people alone may touch: `mode` bits must not be set. Caller frees. */
static int read_own(const char *path, size_t max, mode_t mode, const char *what, char **ret, struct dt_err *e)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return dt_err_set(e, DT_E_USAGE, "%s: %s", path, strerror(why));
    }
    char *text = NULL;
    int r = 0;
    if (!S_ISREG(st.st_mode))
        r = dt_err_set(e, DT_E_USAGE, "%s is no file", path);
    else if (st.st_uid != geteuid() && st.st_uid != 0)
        r = dt_err_set(e, DT_E_USAGE, "%s belongs to user %u", path, (unsigned)st.st_uid);
    else if (st.st_mode & mode)
        r = dt_err_set(e, DT_E_USAGE, "%s: others than its owner may %s it: chmod %s", path, what,
                       mode & 4 ? "600" : "go-w");
    else if (st.st_size < 0 || (size_t)st.st_size > max)
        r = dt_err_set(e, DT_E_USAGE, "%s has more than %zu bytes", path, max);
    else if (!(text = dt_calloc(1, (size_t)st.st_size + 1)))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    else if (st.st_size && dt_read_full(fd, text, (size_t)st.st_size) != 0)
        r = dt_err_set(e, DT_E_USAGE, "%s cannot be read", path);
    else if (strlen(text) != (size_t)st.st_size)
        r = dt_err_set(e, DT_E_USAGE, "%s is no text", path);
    close(fd);
    if (r < 0)
        free(text);
    else
        *ret = text;
    return r;
}

/* "name NAME\nsecret KEY\n"; cuts `text` up. */
static bool take_key(char *text, char name[SIGN_NAME_MAX], unsigned char seed[crypto_sign_SEEDBYTES])
{
    char *secret = strchr(text, '\n'), *end = secret ? strchr(secret + 1, '\n') : NULL;
    if (!end || end[1] || strncmp(text, "name ", 5) != 0 || strncmp(secret + 1, "secret ", 7) != 0)
        return false;
    *secret = *end = 0;
    if (!name_ok(text + 5) || !key_bytes(secret + 8, seed))
        return false;
    memset(name, 0, SIGN_NAME_MAX);
    memcpy(name, text + 5, strlen(text + 5));
    return true;
}

int sign_key_read(const char *path, struct sign_key **ret, struct dt_err *e)
{
    char *text = NULL, name[SIGN_NAME_MAX];
    unsigned char seed[crypto_sign_SEEDBYTES], pk[SIGN_PUBLIC];
    int r = read_own(path, KEY_FILE_MAX, 077, "read", &text, e);
    if (r < 0)
        return r;
    const size_t n = strlen(text);
    bool ok = take_key(text, name, seed);
    sodium_memzero(text, n);
    free(text);
    if (!ok)
        return dt_err_set(e, DT_E_USAGE, "%s is no key file: dovetail cache keygen makes them", path);
    struct sign_key *k = sodium_init() < 0 ? NULL : dt_calloc(1, sizeof *k);
    if (k) {
        memcpy(k->name, name, sizeof k->name);
        crypto_sign_seed_keypair(pk, k->secret, seed);
    }
    sodium_memzero(seed, sizeof seed);
    if (!k)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    *ret = k;
    return 0;
}

struct sign_key *sign_key_free(struct sign_key *k)
{
    if (k)
        sodium_memzero(k, sizeof *k);
    free(k);
    return NULL;
}

const char *sign_key_name(const struct sign_key *k) { return k->name; }

/* ---- signers ----------------------------------------------------------------------------------------------------- */

/* A day as its first second; "-": `none`. */
static bool day_of(const char *text, int64_t none, int64_t *ret)
{
    struct tm tm = {0};
    *ret = none;
    if (!strcmp(text, "-"))
        return true;
    if (strlen(text) != 10 || strspn(text, "0123456789") != 4 || text[4] != '-' ||
        strspn(text + 5, "0123456789") != 2 || text[7] != '-' || strspn(text + 8, "0123456789") != 2)
        return false;
    tm.tm_year = (int)strtol(text, NULL, 10) - 1900;
    tm.tm_mon = (int)strtol(text + 5, NULL, 10) - 1;
    tm.tm_mday = (int)strtol(text + 8, NULL, 10);
    const struct tm asked = tm;
    *ret = (int64_t)timegm(&tm); /* a 31st of June becomes the 1st of July */
    return tm.tm_year == asked.tm_year && tm.tm_mon == asked.tm_mon && tm.tm_mday == asked.tm_mday;
}

/* What is wrong with a line's words; NULL: nothing. */
static const char *take_words(char *const word[WORDS], int n, struct sign_public *p)
{
    memset(p, 0, sizeof *p);
    p->from = INT64_MIN;
    p->until = INT64_MAX;
    if (n > 2 && !strcmp(word[n - 1], "revoked")) {
        p->revoked = true;
        n--;
    }
    if (n < 2 || n > 4)
        return "is not NAME PUBLIC-KEY [NOT-BEFORE [NOT-AFTER]] [revoked]";
    if (!name_ok(word[0]))
        return "has a name that is none";
    if (!key_bytes(word[1], p->key) || !crypto_core_ed25519_is_valid_point(p->key))
        return "has no public key: ed25519: and base64 of 32 bytes";
    if ((n > 2 && !day_of(word[2], INT64_MIN, &p->from)) || (n > 3 && !day_of(word[3], INT64_MAX, &p->until)))
        return "has a day that is none: YYYY-MM-DD, or -";
    if (p->until != INT64_MAX)
        p->until += 86400; /* the day itself counts */
    if (p->from >= p->until)
        return "ends before it begins";
    memcpy(p->name, word[0], strlen(word[0]));
    return NULL;
}

struct lines {
    struct dt_vec(struct sign_public) v;
};

static const char *take_line(struct lines *l, char *text)
{
    struct sign_public p;
    char *word[WORDS] = {NULL}, *save = NULL;
    int n = 0;
    text[strcspn(text, "#")] = 0;
    for (char *w = strtok_r(text, " \t\r", &save); w && n < WORDS; w = strtok_r(NULL, " \t\r", &save))
        word[n++] = w;
    if (!n)
        return NULL;
    const char *bad = take_words(word, n, &p);
    for (size_t i = 0; !bad && i < l->v.n; i++)
        if (!memcmp(l->v.p[i].key, p.key, SIGN_PUBLIC))
            bad = "has a key that another line has";
    if (!bad && !dt_push(&l->v, p))
        bad = "";
    return bad;
}

int sign_signers_parse(const char *text, const char *where, struct sign_signers **ret, struct dt_err *e)
{
    struct lines l = {0};
    const char *bad = NULL;
    unsigned line = 0;
    if (sodium_init() < 0)
        return dt_err_set(e, DT_E_INTERNAL, "libsodium cannot be used: it has no source of random numbers");
    dt_free_ char *copy = dt_strdup(text);
    if (!copy)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (char *at = copy; at && !bad;) {
        char *end = strchr(at, '\n');
        if (end)
            *end = 0;
        line++;
        bad = take_line(&l, at);
        at = end ? end + 1 : NULL;
    }
    struct sign_signers *s = bad ? NULL : dt_calloc(1, sizeof *s);
    if (!s) {
        free(l.v.p);
        return bad && *bad ? dt_err_set(e, DT_E_USAGE, "%s: line %u %s", where, line, bad)
                           : dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    s->key = l.v.p;
    s->n = l.v.n;
    *ret = s;
    return 0;
}

int sign_signers_read(const char *path, struct sign_signers **ret, struct dt_err *e)
{
    char *text = NULL;
    int r = read_own(path, SIGNERS_MAX, 022, "write", &text, e);
    if (r < 0)
        return r;
    r = sign_signers_parse(text, path, ret, e);
    free(text);
    return r;
}

struct sign_signers *sign_signers_free(struct sign_signers *s)
{
    if (s)
        free(s->key);
    free(s);
    return NULL;
}

bool sign_signers_has(const struct sign_signers *s, const char *name)
{
    for (size_t i = 0; s && i < s->n; i++)
        if (!strcmp(s->key[i].name, name))
            return true;
    return false;
}
