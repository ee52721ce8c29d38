/* SHA-256 by OpenSSL's EVP, and the name table.
 *
 * Strings and numbers are added to a hash with their length or in fixed width, so that neighbouring fields cannot run
 * together. The name table is open addressing with FNV-1a, at most half full, keys borrowed. It is for names of a
 * document, whose number is bounded (graph.h), so a chosen set of keys can make it slow and not worse.
 */
#include "base/hash.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"

/* The algorithm is looked up once: by EVP_sha256() OpenSSL would do so for every hash, which costs more than hashing a
 * short text. Kept until the process ends. */
static EVP_MD *sha256;
static pthread_once_t sha256_once = PTHREAD_ONCE_INIT;
static void fetch(void) { sha256 = EVP_MD_fetch(NULL, "SHA256", NULL); }

int dt_sha256_init(struct dt_sha256 *h)
{
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    if (!c)
        return DT_E_NOMEM;
    pthread_once(&sha256_once, fetch);
    if (!EVP_DigestInit_ex(c, sha256 ? sha256 : EVP_sha256(), NULL)) {
        EVP_MD_CTX_free(c);
        return DT_E_NOMEM;
    }
    h->ctx = c;
    return 0;
}

void dt_sha256_add(struct dt_sha256 *h, const void *p, size_t n) { EVP_DigestUpdate(h->ctx, p, n); }

void dt_sha256_addu64(struct dt_sha256 *h, uint64_t v)
{
    unsigned char b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)(v >> (8 * i));
    dt_sha256_add(h, b, 8);
}

void dt_sha256_addstr(struct dt_sha256 *h, const char *s)
{
    size_t n = strlen(s);
    dt_sha256_addu64(h, n);
    dt_sha256_add(h, s, n);
}

void dt_sha256_final(struct dt_sha256 *h, char text[DT_SHA256_TEXT])
{
    unsigned char md[EVP_MAX_MD_SIZE] = {0};
    unsigned len = 0;
    EVP_DigestFinal_ex(h->ctx, md, &len);
    memcpy(text, "sha256:", 7);
    for (unsigned i = 0; i < 32; i++) {
        text[7 + 2 * i] = "0123456789abcdef"[md[i] >> 4];
        text[8 + 2 * i] = "0123456789abcdef"[md[i] & 15];
    }
    text[71] = 0;
    dt_sha256_done(h);
}

void dt_sha256_done(struct dt_sha256 *h)
{
    EVP_MD_CTX_free(h->ctx);
    h->ctx = NULL;
}

int dt_sha256_text(const void *p, size_t n, char text[DT_SHA256_TEXT])
{
    struct dt_sha256 h;
    int r = dt_sha256_init(&h);
    if (r < 0)
        return r;
    dt_sha256_add(&h, p, n);
    dt_sha256_final(&h, text);
    return 0;
}

bool dt_sha256_ok(const char *text)
{
    return strlen(text) == DT_SHA256_TEXT - 1 && !strncmp(text, "sha256:", 7) &&
           strspn(text + 7, "0123456789abcdef") == 64;
}

static uint32_t fnv(const char *s, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

static struct dt_name_slot *probe(const struct dt_names *t, const char *key, size_t len, uint32_t hash)
{
    for (uint32_t i = hash & (t->cap - 1);; i = (i + 1) & (t->cap - 1)) {
        struct dt_name_slot *s = &t->slot[i];
        if (!s->key || (s->hash == hash && !strncmp(s->key, key, len) && !s->key[len]))
            return s;
    }
}

int dt_names_put(struct dt_names *t, const char *key, uint32_t value)
{
    if (t->n * 2 >= t->cap) {
        struct dt_names bigger = {.cap = t->cap ? t->cap * 2 : 16, .n = t->n};
        bigger.slot = dt_calloc(bigger.cap, sizeof *bigger.slot);
        if (!bigger.slot)
            return DT_E_NOMEM;
        for (uint32_t i = 0; i < t->cap; i++)
            if (t->slot[i].key)
                *probe(&bigger, t->slot[i].key, strlen(t->slot[i].key), t->slot[i].hash) = t->slot[i];
        free(t->slot);
        *t = bigger;
    }
    size_t len = strlen(key);
    uint32_t hash = fnv(key, len);
    struct dt_name_slot *s = probe(t, key, len, hash);
    if (s->key)
        return 1;
    *s = (struct dt_name_slot){key, hash, value};
    t->n++;
    return 0;
}

uint32_t dt_names_get(const struct dt_names *t, const char *key, size_t len)
{
    if (!t->cap)
        return DT_NAME_NONE;
    struct dt_name_slot *s = probe(t, key, len, fnv(key, len));
    return s->key ? s->value : DT_NAME_NONE;
}

void dt_names_done(struct dt_names *t)
{
    free(t->slot);
    *t = (struct dt_names){0};
}
