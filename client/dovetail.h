/* libdovetail: talk to the dovetail service from C. Blocking; link with -ldovetail.
 *
 *   struct dovetail *d;
 *   if (dovetail_open(NULL, &d) == 0) {
 *       struct dovetail_result r = {0};
 *       if (dovetail_submit(d, "plan", NULL, graph, graph_len, NULL, NULL, &r) == 0)
 *           puts(r.document);                       // JSON, contract.md section 4
 *       else
 *           fprintf(stderr, "%s\n", dovetail_problem(d));
 *       dovetail_result_done(&r);
 *       dovetail_close(d);
 *   }
 *
 * Threads: a handle belongs to one thread at a time; several handles may be used at once.
 * Ownership: what a function puts into a struct belongs to the caller until the struct's _done function; what dovetail_problem()
 * returns belongs to the handle until its next call. Structs must be zero-initialised before their first use.
 * Errors: 0, or a negative DOVETAIL_E_…; the outputs are then unchanged and dovetail_problem() has a problem document
 * (RFC 9457, with the stable member `code`), also for errors that arose on this side.
 */
#ifndef DOVETAIL_H
#define DOVETAIL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DOVETAIL_API __attribute__((visibility("default")))
#else
#define DOVETAIL_API
#endif

enum {
    DOVETAIL_E_MEMORY = -1,   /* out of memory */
    DOVETAIL_E_SERVICE = -2,  /* nobody answers on the socket, or the connection broke */
    DOVETAIL_E_PROTOCOL = -3, /* the answer is not understood */
    DOVETAIL_E_REFUSED = -4   /* the service refused, or the job failed: see dovetail_problem() */
};

struct dovetail;

/* A handle for the service on this socket. NULL: $DOVETAIL_SOCKET, else $XDG_RUNTIME_DIR/dovetail.sock if somebody listens there, else
 * /run/dovetail/dovetail.sock. Nothing is sent; the handle is returned even if nobody listens. */
DOVETAIL_API int dovetail_open(const char *socket, struct dovetail **ret);
DOVETAIL_API void dovetail_close(struct dovetail *d); /* NULL is fine */
DOVETAIL_API const char *dovetail_socket(const struct dovetail *d);
DOVETAIL_API const char *dovetail_problem(const struct dovetail *d); /* of the last call that failed; NULL if none did */
DOVETAIL_API const char *dovetail_version(void);

/* One HTTP exchange. path: with query, percent-encoded. body NULL: none. The status may be anything: an answer that says 404 is 0
 * here. Gives up after 60 s without a byte. */
struct dovetail_reply {
    int status;
    char *body; /* NUL-terminated */
    size_t len;
    char *content_type, *location, *cache, *signature, *digest; /* header fields, NULL where missing */
};
DOVETAIL_API int dovetail_request(struct dovetail *d, const char *method, const char *path, const void *body, size_t len,
                                  struct dovetail_reply *ret);
DOVETAIL_API void dovetail_reply_done(struct dovetail_reply *r);

/* Post a graph and wait for its document. want: "plan", "analysis", "run", "explain". query: further options ready for a URL
 * ("maps=1&device=soft"), or NULL. event (may be NULL) gets each event of the job as one JSON object; it must not use the handle. */
struct dovetail_result {
    char *document; /* JSON, NUL-terminated */
    size_t len;
    char *cache;     /* "hit" or "miss" */
    char *signature; /* "sha256:…", NULL where there is none */
    char *digest;
    char *job; /* its id; NULL when the cache answered at once */
};
typedef void (*dovetail_event_fn)(const char *json, void *user);
DOVETAIL_API int dovetail_submit(struct dovetail *d, const char *want, const char *query, const void *graph, size_t len,
                                 dovetail_event_fn event, void *user, struct dovetail_result *ret);
DOVETAIL_API void dovetail_result_done(struct dovetail_result *r);

/* The same in steps: post (the job's id, or the document at once when ret->document is set), follow its events to its end, fetch. */
DOVETAIL_API int dovetail_post(struct dovetail *d, const char *want, const char *query, const void *graph, size_t len,
                               struct dovetail_result *ret);
DOVETAIL_API int dovetail_follow(struct dovetail *d, const char *job, dovetail_event_fn event, void *user);
DOVETAIL_API int dovetail_fetch(struct dovetail *d, const char *job, struct dovetail_result *ret);
DOVETAIL_API int dovetail_cancel(struct dovetail *d, const char *job);

/* A stored document by signature (canonical names). want: "plan" or "analysis"; device NULL: any. */
DOVETAIL_API int dovetail_find(struct dovetail *d, const char *want, const char *signature, const char *device,
                               struct dovetail_result *ret);

#ifdef __cplusplus
}
#endif
#endif
