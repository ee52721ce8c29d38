/* Finished replies: the bytes of a document that was posted or asked for before, found without reading JSON.
 *
 *              memory (least recently used go)  ──miss──▶  store (cache/reply.c)  ──miss──▶  by the graph's signature
 *   a body ─▶ SHA-256 over everything that decides the reply
 *
 * replies.c has the key and the memory. A reply is shared: whoever holds a reference may read it on any thread. The
 * memory may be used by any thread.
 */
#ifndef DTD_REPLIES_H
#define DTD_REPLIES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "cache/cache.h"
#include "daemon/service/http.h"
#include "daemon/service/pool.h"

/* ---- keys -------------------------------------------------------------------------------------------------------- */
/* All that decides the reply to a body. Two posts that differ in any of it have different keys. */
struct dtd_asked {
    const char *body;
    size_t len;
    const char *want;
    const char *options; /* dtd_options_text */
    const char *user;    /* who may have it: "" for anybody on this host */
    const struct dtd_device *device;
};
/* 0 or DT_E_NOMEM. */
int dtd_reply_key(const struct dtd_asked *a, char key[DT_SHA256_TEXT]);
/* Of the device's part alone: a job's reply is kept only if it was the same when the job was posted. */
int dtd_device_key(const struct dtd_device *d, char key[DT_SHA256_TEXT]);

/* ---- replies ----------------------------------------------------------------------------------------------------- */
struct dtd_reply {
    atomic_uint refs;
    char key[DT_SHA256_TEXT];
    struct cache_reply of; /* the row of the cache that it was made of, body, compressed body */
    const char *type;      /* media type; static */
    int file;              /* the memory of a long body as a file, for sendfile(2); -1 */
    char tag[40];          /* GET: of its ETags; "" */
    /* of hits, without and with compression: made when first needed; the loop's thread only */
    struct dtd_head head[2];
    /* of dtd_replies, under its lock */
    uint64_t version; /* of the store (cache_reader_version) when the row was last seen to be sound */
    struct dtd_reply *chain, *older, *newer;
    bool kept;
};

/* A new reply with one reference; takes the members of `of`, also when memory is out (NULL). Compresses the body, if it
 * is not compressed yet and that pays: not for the loop's thread. key "": it is to be sent once and not kept. */
struct dtd_reply *dtd_reply_new(const char *key, const char *type, struct cache_reply *of);
struct dtd_reply *dtd_reply_ref(struct dtd_reply *r);
void dtd_reply_unref(struct dtd_reply *r); /* NULL is fine */
#define DTD_REPLY_TYPE "application/json"

/* ---- memory ------------------------------------------------------------------------------------------------------ */
struct dtd_replies;
struct dtd_replies *dtd_replies_new(size_t max_bytes); /* NULL: out of memory */
struct dtd_replies *dtd_replies_free(struct dtd_replies *m);
/* A reference, or NULL. *ret_sound: its row was seen in this version of the store, which is not 0. */
struct dtd_reply *dtd_replies_get(struct dtd_replies *m, const char *key, uint64_t version, bool *ret_sound);
/* Keep a reply (the memory takes a reference of its own), or renew it. One of more than a quarter of the memory is not
 * kept. `version` is one from before its row was read. */
void dtd_replies_put(struct dtd_replies *m, struct dtd_reply *r, uint64_t version);
void dtd_replies_drop(struct dtd_replies *m, const char *key);
size_t dtd_replies_limit(const struct dtd_replies *m); /* the longest body that is worth keeping */
void dtd_replies_size(struct dtd_replies *m, uint64_t *ret_replies, uint64_t *ret_bytes);

#endif
