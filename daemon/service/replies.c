/* Keys of finished replies, and the replies in memory.
 *
 * A key is SHA-256 over length-prefixed fields: the body as it was sent, want, every option, who may have the reply,
 * and what the worker said of its device and tools: never `auto`, but the device that it stands for, the builds of
 * driver, NVRTC and nvJitLink, the calibration, the settings that change plans, and the versions of dovetail and its
 * rewriter. FORMAT is raised when the same document would be written in another way.
 *
 * The memory is a table of chains with one list from the least to the most recently used. Bytes are counted, and the
 * oldest go until all fit. A reply that somebody still sends lives on until its last reference goes.
 *
 * Not here: whether the store still has a reply's row (hits.c), and the replies in the store (cache/reply.c).
 */
#include "daemon/service/replies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uv.h>
#include <zstd.h>

#include "base/alloc.h"

#define FORMAT "reply 1"
#define CHAINS 4096u
#define ZSTD_LEVEL 3
#define ZSTD_FROM 1024u /* bytes: shorter bodies are not compressed */
#define FILE_FROM 16384u
#define FILES_MAX 128 /* descriptors */

static atomic_int files;

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static void add_device(struct dt_sha256 *h, const struct dtd_device *d)
{
    const char *const part[] = {d->arch, d->key, d->toolchain, d->driver, d->figures, d->calibration, d->settings};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        dt_sha256_addstr(h, part[i]);
}

int dtd_device_key(const struct dtd_device *d, char key[DT_SHA256_TEXT])
{
    struct dt_sha256 h;
    int r = dt_sha256_init(&h);
    if (r < 0)
        return r;
    add_device(&h, d);
    dt_sha256_final(&h, key);
    return 0;
}

int dtd_reply_key(const struct dtd_asked *a, char key[DT_SHA256_TEXT])
{
    struct dt_sha256 h;
    int r = dt_sha256_init(&h);
    if (r < 0)
        return r;
    dt_sha256_addstr(&h, FORMAT " " DOVETAIL_VERSION);
    dt_sha256_addu64(&h, a->len);
    dt_sha256_add(&h, a->body, a->len);
    dt_sha256_addstr(&h, a->want);
    dt_sha256_addstr(&h, a->options);
    dt_sha256_addstr(&h, a->user);
    add_device(&h, a->device);
    dt_sha256_final(&h, key);
    return 0;
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static void compress(struct cache_reply *of)
{
    size_t room = ZSTD_compressBound(of->len);
    char *z = of->zstd || of->len < ZSTD_FROM ? NULL : dt_malloc(room);
    size_t n = z ? ZSTD_compress(z, room, of->body, of->len, ZSTD_LEVEL) : 0;
    if (!z || ZSTD_isError(n) || n >= of->len) {
        free(z);
        return;
    }
    char *fit = realloc(z, n);
    of->zstd = fit ? fit : z;
    of->zstd_len = n;
}

/* A long body that is kept moves into memory that has a descriptor, so that sending it copies nothing. Without one (too
 * many, or the system has none) it stays where it is. */
static void give_file(struct dtd_reply *r)
{
    if (r->of.len < FILE_FROM || atomic_fetch_add(&files, 1) >= FILES_MAX) {
        if (r->of.len >= FILE_FROM)
            atomic_fetch_sub(&files, 1);
        return;
    }
    int fd = memfd_create("dovetail-reply", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *p = fd >= 0 && ftruncate(fd, (off_t)r->of.len + 1) == 0
                  ? mmap(NULL, r->of.len + 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                  : MAP_FAILED;
    if (p == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        atomic_fetch_sub(&files, 1);
        return;
    }
    memcpy(p, r->of.body, r->of.len + 1);
    free(r->of.body);
    r->of.body = p;
    r->file = fd;
}

static void take_file(struct dtd_reply *r)
{
    if (r->file < 0)
        return;
    munmap(r->of.body, r->of.len + 1);
    close(r->file);
    r->of.body = NULL;
    atomic_fetch_sub(&files, 1);
}

struct dtd_reply *dtd_reply_new(const char *key, const char *type, struct cache_reply *of)
{
    struct dtd_reply *r = dt_calloc(1, sizeof *r);
    if (!r) {
        cache_reply_done(of);
        return NULL;
    }
    r->file = -1;
    if (*key)
        compress(of);
    atomic_init(&r->refs, 1);
    snprintf(r->key, sizeof r->key, "%s", key); /* "" is not as long as a key */
    r->type = type;
    r->of = *of;
    *of = (struct cache_reply){0};
    if (*key)
        give_file(r);
    return r;
}

struct dtd_reply *dtd_reply_ref(struct dtd_reply *r)
{
    atomic_fetch_add(&r->refs, 1);
    return r;
}

void dtd_reply_unref(struct dtd_reply *r)
{
    if (!r || atomic_fetch_sub(&r->refs, 1) > 1)
        return;
    take_file(r);
    cache_reply_done(&r->of);
    free(r);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

struct dtd_replies {
    uv_mutex_t lock;
    struct dtd_reply *chain[CHAINS], *oldest, *newest;
    size_t max, bytes, n;
};

static struct dtd_reply **chain_of(struct dtd_replies *m, const char *key)
{
    unsigned h = 0; /* the key is a hash already */
    for (int i = 7; i < 11; i++)
        h = h << 4 ^ (unsigned char)key[i] * 0x9d7u;
    return &m->chain[h % CHAINS];
}

static size_t weight(const struct dtd_reply *r) { return sizeof *r + r->of.len + r->of.zstd_len; }

static struct dtd_reply *known_reply(struct dtd_replies *m, const char *key)
{
    struct dtd_reply *r = *chain_of(m, key);
    while (r && strcmp(r->key, key))
        r = r->chain;
    return r;
}

static void unlist(struct dtd_replies *m, struct dtd_reply *r)
{
    *(r->older ? &r->older->newer : &m->oldest) = r->newer;
    *(r->newer ? &r->newer->older : &m->newest) = r->older;
}

static void list(struct dtd_replies *m, struct dtd_reply *r)
{
    r->older = m->newest;
    r->newer = NULL;
    *(m->newest ? &m->newest->newer : &m->oldest) = r;
    m->newest = r;
}

static void forget(struct dtd_replies *m, struct dtd_reply *r)
{
    struct dtd_reply **at = chain_of(m, r->key);
    while (*at != r)
        at = &(*at)->chain;
    *at = r->chain;
    unlist(m, r);
    m->bytes -= weight(r);
    m->n--;
    r->kept = false;
    dtd_reply_unref(r);
}

struct dtd_replies *dtd_replies_new(size_t max_bytes)
{
    struct dtd_replies *m = dt_calloc(1, sizeof *m);
    if (m && uv_mutex_init(&m->lock) < 0) {
        free(m);
        return NULL;
    }
    if (m)
        m->max = max_bytes;
    return m;
}

struct dtd_replies *dtd_replies_free(struct dtd_replies *m)
{
    if (!m)
        return NULL;
    while (m->oldest)
        forget(m, m->oldest);
    uv_mutex_destroy(&m->lock);
    free(m);
    return NULL;
}

struct dtd_reply *dtd_replies_get(struct dtd_replies *m, const char *key, uint64_t version, bool *ret_sound)
{
    uv_mutex_lock(&m->lock);
    struct dtd_reply *r = known_reply(m, key);
    if (r) {
        *ret_sound = version && r->version == version;
        unlist(m, r);
        list(m, r);
        dtd_reply_ref(r);
    }
    uv_mutex_unlock(&m->lock);
    return r;
}

void dtd_replies_put(struct dtd_replies *m, struct dtd_reply *r, uint64_t version)
{
    if (weight(r) > m->max / 4)
        return;
    uv_mutex_lock(&m->lock);
    if (!r->kept) {
        struct dtd_reply *old = known_reply(m, r->key), **at = chain_of(m, r->key);
        if (old)
            forget(m, old);
        r->chain = *at;
        *at = dtd_reply_ref(r);
        list(m, r);
        m->bytes += weight(r);
        m->n++;
        r->kept = true;
    }
    r->version = version;
    while (m->bytes > m->max)
        forget(m, m->oldest);
    uv_mutex_unlock(&m->lock);
}

void dtd_replies_drop(struct dtd_replies *m, const char *key)
{
    uv_mutex_lock(&m->lock);
    struct dtd_reply *r = known_reply(m, key);
    if (r)
        forget(m, r);
    uv_mutex_unlock(&m->lock);
}

size_t dtd_replies_limit(const struct dtd_replies *m) { return m->max / 4; }

void dtd_replies_size(struct dtd_replies *m, uint64_t *ret_replies, uint64_t *ret_bytes)
{
    uv_mutex_lock(&m->lock);
    *ret_replies = m->n;
    *ret_bytes = m->bytes;
    uv_mutex_unlock(&m->lock);
}
