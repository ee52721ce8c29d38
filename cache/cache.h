/* The SQLite store of documents, which signatures key (cache/signature/; docs/ARCHITECTURE.md, "Signature and cache").
 *
 * Documents are stored with canonical names (dt_graph_canon) and renamed to the caller's on the way out, so that two
 * graphs that differ in names only share an entry. Every row carries a SHA-256 of its body; a row that does not match
 * is a miss and is removed.
 */
#ifndef DT_CACHE_CACHE_H
#define DT_CACHE_CACHE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "graph/graph.h"
#include "sign/sign.h"

/* ---- store (store.c) ------------------------------------------------------------------------------------------- */
struct cache;
/* Opens or creates; WAL; busy timeout. path NULL or "": $XDG_CACHE_HOME/dovetail/cache.db or
 * ~/.cache/dovetail/cache.db. A file that is no database is moved aside (path.bad), never deleted; another
 * program's database stays where it is and is DT_E_CACHE, and so is a file that cannot be written. */
int cache_open(const char *path, struct cache **ret, struct dt_err *e);
struct cache *cache_close(struct cache *c);
char *cache_path_of(const char *path); /* the file that cache_open would open; caller frees; NULL: out of memory */

/* ---- going on without a file, keeping one (database.c, state.c, keeper.c) ----------------------------------------
 * For programs that live on: a service. */
/* As cache_open; but gives a handle in any case, DT_E_NOMEM excepted. 1: the file is open; 0: it is not, `why` says
 * why. Every call is a miss or an error then, and tries to open it again, every CACHE_RETRY_S seconds. */
#define CACHE_RETRY_S 2
int cache_hold(const char *path, struct cache **ret, struct dt_err *why);
/* What is told of the file's state, as it changes, on any thread; bad: somebody should look. Before cache_keep. */
typedef void cache_tell(void *user, bool bad, const char *text);
void cache_told(struct cache *c, cache_tell *tell, void *user);
/* Keep the file in the background, with a thread and a connection of its own: check the whole of it when the last
 * process that used it did not close it; set it aside when it is damaged, and take the sound rows of it over; hold it
 * to max_bytes (0: no bound) by deleting what was used least recently, a little at a time. cache_close ends it. */
int cache_keep(struct cache *c, int64_t max_bytes, struct dt_err *e);
struct cache_figures {
    bool open, writable; /* writable: the last write was one */
    bool checking;       /* an unclean file is being checked, or waits for it */
    uint64_t damaged_rows, damaged_files, saved_rows, failed_writes, evicted;
    int64_t bytes, max_bytes; /* of the file, without its free pages; 0: not known */
    char trouble[256];        /* why it is not open or not writable, or "" */
};
void cache_figures(struct cache *c, struct cache_figures *ret); /* on any thread, never waits for the file */
/* The same as an object: "state" ("ok"; "degraded": not writable; "absent": not open), "trouble", "checking", "bytes",
 * "max_bytes", "damaged_rows", "damaged_files", "saved_rows", "failed_writes", "evicted". NULL: memory. */
json_t *cache_figures_json(struct cache *c);

struct cache_key {    /* all of it: an equal key gives an equal document */
    const char *want; /* "plan" or "analysis" */
    const char *signature;
    const char *device;    /* what the document was made for: "soft:h200", or name, SMs, driver of a real GPU */
    const char *toolchain; /* versions: dovetail, rewriter, nvrtc, nvjitlink */
    const char *policy;    /* canonical text of allow, deny, maps … */
    bool searched;         /* cache_get: a plan that was only carried over from another toolchain is a miss */
};
/* 1 found (*ret: new reference, canonical names), 0 miss, negative error. A member `recipe` of what is put in is kept
 * for exports; it does not come out. */
int cache_get(struct cache *c, const struct cache_key *k, json_t **ret, struct dt_err *e);
int cache_put(struct cache *c, const struct cache_key *k, const char *digest, json_t *doc, json_t *factors,
              struct dt_err *e);
/* The same; and what other hosts need of it, if it is a plan with a member `recipe`, goes into the outbox
 * (cache/outbox.h): both, or neither. out NULL: cache_put. */
struct cache_out {
    const json_t *facts; /* an object: what the cluster is told beside the recipe */
    int64_t token;       /* of the lease under which it was planned, or 0 */
};
int cache_put_out(struct cache *c, const struct cache_key *k, const char *digest, json_t *doc, json_t *factors,
                  const struct cache_out *out, struct dt_err *e);

/* Toolchains of entries that differ from the key in nothing else, the newest entry's first, at most 16. */
int cache_toolchains(struct cache *c, const struct cache_key *k, json_t **ret, struct dt_err *e);

/* Graph digest -> signature, so that an equal body is found without compiling. 1 found, 0 miss. The graph document is
 * kept. */
int cache_digest_get(struct cache *c, const char *digest, const char *arch, char signature[DT_SHA256_TEXT],
                     struct dt_err *e);
int cache_digest_put(struct cache *c, const char *digest, const char *arch, const char *signature, json_t *graph,
                     struct dt_err *e);
/* The graph document that was kept under a digest, as posted. 1 found (new reference), 0 not. */
int cache_graph_get(struct cache *c, const char *digest, json_t **ret, struct dt_err *e);
/* What was found is right as a row, and of another graph: it is set aside and counted as damaged, instead of being a
 * miss for ever. The entry of the last cache_get or cache_find of this connection; the graph under a digest. */
void cache_unfit(struct cache *c, const char *want);
void cache_graph_unfit(struct cache *c, const char *digest);
/* The newest document under a signature (for GET /v1/plans/SIGNATURE); device NULL: any. 1 found, 0 not. */
int cache_find(struct cache *c, const char *want, const char *signature, const char *device, json_t **ret,
               struct dt_err *e);
/* entries, bytes, hits, misses, damaged, graphs, path, by_want: {plan, analysis: the same}, footprints, trials and
 * replies: {rows, bytes}, store: cache_figures_json */
json_t *cache_stats(struct cache *c);

/* ---- readers (reader.c): connections that never write and never wait --------------------------------------------- */
/* A second connection to the store that `of` has open, for cache_get, cache_find, cache_digest_get, cache_reply_get and
 * cache_row_…: what they would count or remove is left as it is, and damage is a miss. Used by one thread at a time;
 * closed by cache_close. Not for a store in memory. */
int cache_reader(const struct cache *of, struct cache **ret, struct dt_err *e);
/* A number that differs from the last one after anybody else committed to the store, or changed the file. Two readers
 * of a process have no number in common. 0: not known, nothing may be concluded. */
uint64_t cache_reader_version(struct cache *reader);
/* The row of `entry` that the last successful cache_get, cache_find or cache_put of this connection read or wrote: its
 * number (0 after cache_put) and its generation, which is its checksum. */
void cache_last_row(const struct cache *c, int64_t *ret_id, char generation[DT_SHA256_TEXT]);
/* Is there a row of this number and generation, and does it match its checksum? */
int cache_row_sound(struct cache *c, int64_t id, const char *generation);
/* Where the row of a key is, or the newest under a signature (device NULL: any), without reading its document: 1 found,
 * 0 not. */
int cache_row_find(struct cache *c, const struct cache_key *k, int64_t *ret_id, char generation[DT_SHA256_TEXT]);
int cache_row_newest(struct cache *c, const char *want, const char *signature, const char *device, int64_t *ret_id,
                     char generation[DT_SHA256_TEXT]);

/* ---- finished replies (reply.c) ---------------------------------------------------------------------------------- */
struct cache_reply {
    int64_t entry; /* the row that it was made of */
    char generation[DT_SHA256_TEXT], signature[DT_SHA256_TEXT], digest[DT_SHA256_TEXT];
    char *body; /* NUL-terminated; owned */
    size_t len;
    void *zstd; /* the same compressed; NULL: it is not kept compressed */
    size_t zstd_len;
};
void cache_reply_done(struct cache_reply *r);
/* 1: *ret has it, and its entry is there, unchanged and sound. 0: there is none. */
int cache_reply_get(struct cache *c, const char *key, struct cache_reply *ret);
/* Keep one. When all together have more than max_bytes, those that were used least recently go. An entry that is not
 * there any more, or has another generation, gets none. */
int cache_reply_put(struct cache *c, const char *key, const struct cache_reply *r, int64_t max_bytes, struct dt_err *e);

/* What came of many hits, to be written at once. Borrowed throughout. */
struct cache_hits {
    const struct cache_count {
        const char *want;
        uint64_t n;
    } * count;
    const struct cache_used {
        int64_t id;
        uint64_t n;
    } * entry;
    const struct cache_owned {
        const char *signature;
        unsigned uid;
    } * owner;
    const struct cache_kept_reply {
        const char *key;
        const struct cache_reply *reply; /* NULL: it is there, and was used */
    } * reply;
    size_t ncount, nentry, nowner, nreply;
};
/* 1 written, 0 another writer is at work (nothing was written, nobody waited), negative error. */
int cache_hits_put(struct cache *c, const struct cache_hits *h, int64_t max_bytes, struct dt_err *e);
/* ---- for operators (counts.c): any thread, no lock --------------------------------------------------------------- */
struct cache_counts {                /* of this process, since its start */
    uint64_t failed_writes, damaged; /* writes that SQLite refused; rows and files that were found damaged in use */
};
void cache_counts(struct cache_counts *ret);
const char *cache_path(const struct cache *c); /* of its file; NULL: there is no store */
uint64_t cache_disk_bytes(const char *path);   /* the file and its log; 0: there is none */
void cache_answers(const char *path);          /* comes back when the file can be read, or gives an error; blocks */
/* Why a key that was not found was not: "graph" (nothing is stored under its signature), "device", "toolchain" or
 * "policy". Under the store's lock. */
const char *cache_missed(struct cache *c, const struct cache_key *k);

/* ---- footprints of launches, performance library (kept.c): bytes under a key that says all they depend on -------- */
enum cache_kept {
    CACHE_FOOTPRINTS, /* what launches touch (analysis/record/memo.c) */
    CACHE_TRIALS      /* what rewrites cost (rewrite/gate/library.c) */
};
#define CACHE_KEPT 2
struct cache_bytes {
    const char *key;
    const void *p;
    size_t bytes;
};
/* 1 found (*ret: free()), 0 miss, negative error. A miss with e->detail: there was one, it was damaged and is
 * deleted. */
int cache_kept_get(struct cache *c, enum cache_kept kept, const char *key, void **ret, size_t *ret_len,
                   struct dt_err *e);
/* All of them or none. When bodies of the kind have more than max_bytes together, those that were used least recently
 * go. */
int cache_kept_put(struct cache *c, enum cache_kept kept, const struct cache_bytes *v, size_t n, int64_t max_bytes,
                   struct dt_err *e);

/* ---- entries (entries.c) ----------------------------------------------------------------------------------------- */
/* {"entries": [{id, want, signature, device, toolchain, policy, digest, bytes, created, used, hits, age_s}], "recipes":
 * as cache_recipes gives them, "total": N, and how many rows there are of "footprints" and "trials"}, the last used
 * first, at most `limit`. signature not NULL: its entries only, with `factors`. uid not NULL: only of signatures that
 * this user owns. */
int cache_list(struct cache *c, const char *signature, const unsigned *uid, unsigned limit, json_t **ret,
               struct dt_err *e);
/* Check every row against its checksum, and the file: {"ok", "checked", "damaged": [{table, key}], "file": "ok" or
 * SQLite's words}. Removes nothing: a damaged row is a miss, and goes when it is met or by gc. */
int cache_verify(struct cache *c, json_t **ret, struct dt_err *e);
/* Remove damaged rows, entries not used for max_age seconds (negative: any), then the least recently used until
 * footprints, trials, bodies and graphs together have at most max_bytes (negative: any), and digests and graphs that no
 * entry is left for; give the room back to the disk. On a full disk it goes by small steps. {"removed", "kept",
 * "freed_bytes", "bytes"}. */
int cache_gc(struct cache *c, int64_t max_age, int64_t max_bytes, json_t **ret, struct dt_err *e);
/* The stored entry of `want` that is nearest to a key, the key's own excepted: {"entry": {signature, device, …},
 * "differs": [{"factor", "mine", "stored"}], "factors": N}; a member of `mine` or `stored` is null where that side has
 * no such factor. Nearest: same signature first, then as many launches, then fewest factors that differ. uid not NULL:
 * among entries of signatures that this user owns. device, toolchain, policy NULL and factors NULL: those of the newest
 * entry under the signature. 1 found, 0 there is no other entry (or none of the key's own to compare). */
int cache_nearest(struct cache *c, const struct cache_key *k, json_t *factors, const unsigned *uid, json_t **ret,
                  struct dt_err *e);

/* ---- what is due (due.c) ----------------------------------------------------------------------------------------- */
/* Digests of stored graphs that have no plan for this architecture, device and toolchain, or only one that was carried
 * over, newest first; stale: only those that have one of another toolchain on this device; uid not NULL: only of
 * signatures that this user owns. */
int cache_stale(struct cache *c, const char *arch, const char *device, const char *toolchain, bool stale,
                const unsigned *uid, unsigned limit, json_t **ret, struct dt_err *e);
/* [{graph: digest, rank, reason: "stale" or "missing"}] of stored graphs that have a plan, but no up-to-date one for
 * this architecture, device and toolchain; the highest rank first: uses of their plans times the microseconds that the
 * best of them saves, in hundredths; then the newest. uid as above. */
int cache_overdue(struct cache *c, const char *arch, const char *device, const char *toolchain, const unsigned *uid,
                  unsigned limit, json_t **ret, struct dt_err *e);
struct cache_due {
    const char *graph, *arch, *device, *toolchain;
};
struct cache_times {
    double before_us, after_us; /* of the posted launches, of the plan; 0: not known */
    char signature[DT_SHA256_TEXT];
};
/* Of the graph's plan for device and toolchain; former: of the newest that is not up to date there. 1 found, 0 not. */
int cache_times(struct cache *c, const struct cache_due *d, bool former, struct cache_times *ret);
/* Keep the report of a night, a JSON text; id 0: a new one, whose number *ret_id becomes. The newest 30 of a service
 * stay. */
int cache_night_put(struct cache *c, const char *service, int64_t id, const char *body, int64_t *ret_id,
                    struct dt_err *e);
/* The newest of a service, and its number: 1 found, 0 there is none. */
int cache_night_get(struct cache *c, const char *service, json_t **ret, int64_t *ret_id, struct dt_err *e);

/* ---- recipes, owners (recipe.c) ---------------------------------------------------------------------------------- */
/* Of a plan with canonical names: its modules and launches. */
int cache_plan_digest(const json_t *plan, char digest[DT_SHA256_TEXT]);
/* The recipe under a key that was not refused, and the digest that the plan must have; it counts as a try. 1 found (new
 * reference), 0 not. */
int cache_recipe_get(struct cache *c, const struct cache_key *k, json_t **ret, char digest[DT_SHA256_TEXT]);
/* Keep a recipe that came from elsewhere than a bundle. 1 it is new, 0 not: the key has an entry, a recipe that waits,
 * or this one was refused. */
int cache_recipe_take(struct cache *c, const struct cache_key *k, const json_t *recipe, const char *digest,
                      const char *origin, struct dt_err *e);
/* Is the recipe that waits under the key of this origin? */
bool cache_recipe_from(struct cache *c, const struct cache_key *k, const char *origin);
/* Keep the recipe of the newest plan under the same signature and policy that was searched for on this device, or on
 * one that differs in its driver only, with another driver or toolchain. 1 one waits under the key now. */
int cache_recipe_carry(struct cache *c, const struct cache_key *k);
/* It led to a plan, which is stored: the recipe goes (reason NULL). Or not, and is kept aside with the reason. */
void cache_recipe_done(struct cache *c, const struct cache_key *k, const char *reason);
/* [{signature, device, toolchain, policy, digest, origin, state ("recipe", "refused"), reason, bytes, created, tried}],
 * the newest first; signature NULL: all; uid not NULL: only of signatures that this user owns. */
int cache_recipes(struct cache *c, const char *signature, const unsigned *uid, unsigned limit, json_t **ret,
                  struct dt_err *e);
/* This user posted a graph of the signature: they own its entries too. UINT32_MAX: no user. Best effort. */
void cache_own(struct cache *c, const char *signature, unsigned uid);
bool cache_owned(struct cache *c, const char *signature, unsigned uid); /* false also where it cannot be read */

/* ---- bundles (bundle.c): plans as one file ----------------------------------------------------------------------- */
struct cache_select {    /* which plans; borrowed */
    const unsigned *uid; /* not NULL: only of signatures that this user owns */
    const char *const *signature;
    size_t nsignature;               /* 0: any */
    const char *device;              /* the key's, or its first words ("soft", "soft:h200"); NULL: any */
    int64_t newer_than, used_within; /* seconds; negative: any */
    int64_t min_hits;
};
/* Bytes that nobody has signed (sign_bundle does that); caller frees. select NULL: all plans. */
int cache_export(struct cache *c, const struct cache_select *select, char **ret, size_t *ret_len, struct dt_err *e);
struct cache_intake {          /* what is taken; borrowed */
    const char *origin;        /* the user who imports it */
    struct sign_demand demand; /* whom to believe */
    bool require;              /* only what one of them signed; also where demand.max_age is not negative */
    size_t max_text;           /* bytes when it is unpacked; 0: SIGN_BUNDLE_TEXT */
};
/* No row is made that could be served: plans become recipes. Keys that are there already stay as they are. The answer:
 * {"imported", "present", "left_out", "refused": rows, "complete": has all that was exported come?, "trouble": why not,
 * "signer": who signed the whole, "reasons": [{line, signature, reason}] of refused rows, at most 16}. DT_E_JSON: it is
 * no bundle, or one of version 1 that is damaged; DT_E_TOO_LARGE. Then nothing was taken. */
int cache_import(struct cache *c, const char *bytes, size_t len, const struct cache_intake *how, json_t **ret,
                 struct dt_err *e);

/* Rename: canonical -> the graph's names (out = true), or the graph's -> canonical (out = false), of a plan or analysis
 * document. In place. */
int cache_rename(json_t *doc, struct dt_graph *g, bool out, struct dt_err *e);

#endif
