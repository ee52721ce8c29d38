/* SHA-256 (by OpenSSL) as "sha256:HEX" and streaming; splitmix64; a small string-to-index table. */
#ifndef DT_BASE_HASH_H
#define DT_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT_SHA256_TEXT 72 /* "sha256:" + 64 + NUL */

struct dt_sha256 {
    void *ctx;
};

int dt_sha256_init(struct dt_sha256 *h); /* 0 or DT_E_NOMEM; pair with _final or _done */
void dt_sha256_add(struct dt_sha256 *h, const void *p, size_t n);
void dt_sha256_addstr(struct dt_sha256 *h, const char *s); /* length-prefixed, so that fields cannot run together */
void dt_sha256_addu64(struct dt_sha256 *h, uint64_t v);    /* little-endian */
void dt_sha256_final(struct dt_sha256 *h, char text[DT_SHA256_TEXT]);
void dt_sha256_done(struct dt_sha256 *h);
int dt_sha256_text(const void *p, size_t n, char text[DT_SHA256_TEXT]);
bool dt_sha256_ok(const char *text); /* "sha256:" and 64 hexadecimal digits, as the above write it */

/* The i-th value of splitmix64 from `seed`, as docs/CONTRACT.md §2 defines it for fills. */
static inline uint64_t dt_splitmix64(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* String-keyed table: name -> index. Keys are borrowed and must outlive it. Zero-initialise. */
struct dt_names {
    struct dt_name_slot {
        const char *key;
        uint32_t hash, value;
    } * slot;
    uint32_t n, cap;
};
#define DT_NAME_NONE UINT32_MAX
int dt_names_put(struct dt_names *t, const char *key, uint32_t value); /* 0, 1 if already there (unchanged), or error */
uint32_t dt_names_get(const struct dt_names *t, const char *key, size_t len); /* value or DT_NAME_NONE */
void dt_names_done(struct dt_names *t);

#endif
