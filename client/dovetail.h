/* libdovetail: talk to the dovetail service from C. Blocking; link with -ldovetail.
 *
 *   struct dovetail *d;
 *   if (dovetail_open(NULL, &d) == 0) {
 *       struct dovetail_result r = {0};
 *       if (dovetail_submit(d, "plan", NULL, graph, graph_len, NULL, NULL, &r) == 0)
 *           puts(r.document);                       // JSON, docs/CONTRACT.md §4
 *       else
 *           fprintf(stderr, "%s\n", dovetail_problem(d));
 *       dovetail_result_done(&r);
 *       dovetail_close(d);
 *   }
 *
 * Threads: a handle belongs to one thread at a time; several handles may be used at once. Ownership: what a function
 * puts into a struct belongs to the caller until the struct's _done function; what dovetail_problem() returns belongs
 * to the handle until its next call. Structs must be zero-initialised before their first use. Errors: 0, or a negative
 * DOVETAIL_E_…; the outputs are then unchanged and dovetail_problem() has a problem document (RFC 9457, with the stable
 * member `code`), also for errors that arose on this side.
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
    /* the service refused, or the job failed: see dovetail_problem(); a plan that is none, a wrong binding */
    DOVETAIL_E_REFUSED = -4,
    DOVETAIL_E_DRIVER = -5 /* the CUDA driver failed */
};

struct dovetail;

/* A handle for the service on this socket. NULL: $DOVETAIL_SOCKET, else $XDG_RUNTIME_DIR/dovetail.sock if somebody
 * listens there, else /run/dovetail/dovetail.sock. Nothing is sent; the handle is returned even if nobody listens. */
DOVETAIL_API int dovetail_open(const char *socket, struct dovetail **ret);
DOVETAIL_API void dovetail_close(struct dovetail *d); /* NULL is fine */
DOVETAIL_API const char *dovetail_socket(const struct dovetail *d);
/* of the last call that failed; NULL if none did */
DOVETAIL_API const char *dovetail_problem(const struct dovetail *d);
DOVETAIL_API const char *dovetail_version(void);

/* One HTTP exchange. path: with query, percent-encoded. body NULL: none. The status may be anything: an answer that
 * says 404 is 0 here. Gives up after 60 s without a byte. */
struct dovetail_reply {
    int status;
    char *body; /* NUL-terminated */
    size_t len;
    char *content_type, *location, *cache, *signature, *digest; /* header fields, NULL where missing */
};
DOVETAIL_API int dovetail_request(struct dovetail *d, const char *method, const char *path, const void *body,
                                  size_t len, struct dovetail_reply *ret);
DOVETAIL_API void dovetail_reply_done(struct dovetail_reply *r);

/* Post a graph and wait for its document. want: "plan", "analysis", "run", "explain". query: further options ready for
 * a URL ("maps=1&device=soft"), or NULL. event (may be NULL) gets each event of the job as one JSON object; it must not
 * use the handle. */
struct dovetail_result {
    char *document; /* JSON, NUL-terminated */
    size_t len;
    char *cache;     /* "hit"; "stale"; "miss"; "shared": made here by what another host had found */
    char *signature; /* "sha256:…", NULL where there is none */
    char *digest;
    char *job; /* its id; NULL when the cache answered at once */
};
typedef void (*dovetail_event_fn)(const char *json, void *user);
DOVETAIL_API int dovetail_submit(struct dovetail *d, const char *want, const char *query, const void *graph, size_t len,
                                 dovetail_event_fn event, void *user, struct dovetail_result *ret);
DOVETAIL_API void dovetail_result_done(struct dovetail_result *r);

/* The same in steps: post (the job's id, or the document at once when ret->document is set), follow its events to its
 * end, fetch. */
DOVETAIL_API int dovetail_post(struct dovetail *d, const char *want, const char *query, const void *graph, size_t len,
                               struct dovetail_result *ret);
DOVETAIL_API int dovetail_follow(struct dovetail *d, const char *job, dovetail_event_fn event, void *user);
DOVETAIL_API int dovetail_fetch(struct dovetail *d, const char *job, struct dovetail_result *ret);
DOVETAIL_API int dovetail_cancel(struct dovetail *d, const char *job);

/* A stored document by signature (canonical names). want: "plan" or "analysis"; device NULL: any. */
DOVETAIL_API int dovetail_find(struct dovetail *d, const char *want, const char *signature, const char *device,
                               struct dovetail_result *ret);

/* ---- plans in a program of yours
 * --------------------------------------------------------------------------------------
 *
 * A plan document, as `dovetail optimize -o DIR` leaves it in DIR/plan.json, becomes launches in your context, on your
 * memory and your stream, by the CUDA driver API alone (libcuda.so.1 as your program has it).
 *
 *   struct dovetail_plan *p;  struct dovetail_bound *b;  char *problem = NULL;
 *   struct dovetail_pointer at[] = {{"x", x}, {"w", w}, {"h", h}, {"y", y}};
 *   if (dovetail_plan_load(text, len, NULL, &p, &problem) == 0 && dovetail_plan_bind(p, at, 4, &b, &problem) == 0) {
 *       if (dovetail_bound_fallback(b))
 *           fprintf(stderr, "the original launches run: %s\n", dovetail_bound_fallback(b));
 *       while (work)
 *           dovetail_plan_launch(b, stream, &problem);
 *   }
 *
 * A plan holds the posted launches too. They run instead whenever the plan cannot be used: machine code that this
 * driver does not take, a binding that breaks what the plan assumes (alignment, constant content, buffers apart from
 * each other), a first launch that the driver refuses. dovetail_bound_fallback says so. If they cannot run either, that
 * is an error.
 *
 * Memory: device memory for the plan's scratch buffers is allocated by dovetail_plan_load and by nothing after it but
 * dovetail_plan_bind_own; dovetail_plan_launch allocates nothing at all. Threads: all functions may be called from any
 * thread, at once. But launches of one plan share its intermediates and scratch, unless each is of a binding with its
 * own: as with any kernel, what works on the same memory has to be put in order by the caller (one stream does). A plan
 * lives until it is freed and its last binding is.
 * Errors: 0 or DOVETAIL_E_…; *ret_problem (may be NULL) then is one sentence, to be freed with free(), else it is
 * unchanged.
 */
struct CUctx_st; /* CUcontext, CUstream and CUgraph of cuda.h point to these */
struct CUstream_st;
struct CUgraph_st;
struct dovetail_plan;
struct dovetail_bound;

/* Load a plan's modules into `context` (NULL: the calling thread's current one) and allocate its scratch buffers. */
DOVETAIL_API int dovetail_plan_load(const void *document, size_t len, struct CUctx_st *context,
                                    struct dovetail_plan **ret, char **ret_problem);
DOVETAIL_API void dovetail_plan_free(struct dovetail_plan *p); /* NULL is fine */

/* What has to be bound, by number from 0; false past the last. Strings live as long as the plan. */
struct dovetail_plan_buffer {
    const char *name, *role; /* "input", "weight", "intermediate", "output", "inout" */
    unsigned long long bytes;
    unsigned align; /* bytes; the plan needs it, the original may not */
    int constant;   /* its content is checked when it is bound, and must stay */
    /* 2: by the plan, 1: by the original launches only (without it there is no way back), 0: by neither */
    int needed;
};
DOVETAIL_API int dovetail_plan_buffer(const struct dovetail_plan *p, unsigned number, struct dovetail_plan_buffer *ret);

/* Bind device memory to the buffers. Content of constant buffers is read here, so it must be there. Variables of
 * modules ("MODULE::name") are the loaded module's own and cannot be bound; dovetail_plan_variable has their
 * address. */
struct dovetail_pointer {
    const char *buffer;
    unsigned long long address; /* CUdeviceptr; at least the buffer's bytes */
};
DOVETAIL_API int dovetail_plan_bind(struct dovetail_plan *p, const struct dovetail_pointer *at, size_t n,
                                    struct dovetail_bound **ret, char **ret_problem);
/* The same with memory of the binding's own: for scratch, and for every intermediate that `at` does not name. Launches
 * of such bindings may be in flight side by side, as far as the plan's scratch and those intermediates go. `like` (may
 * be NULL): a binding of the plan with the same constant buffers, whose content is then not read again; with it, the
 * call is fine while a stream is being captured. It goes to the original launches if `like` has. */
DOVETAIL_API int dovetail_plan_bind_own(struct dovetail_plan *p, const struct dovetail_pointer *at, size_t n,
                                        const struct dovetail_bound *like, struct dovetail_bound **ret,
                                        char **ret_problem);
DOVETAIL_API int dovetail_plan_variable(struct dovetail_plan *p, const char *buffer, unsigned long long *ret_address);
DOVETAIL_API void dovetail_bound_free(struct dovetail_bound *b); /* its launches must have ended; NULL is fine */

/* NULL: the plan runs. Else why the original launches do; the text lives as long as the binding. */
DOVETAIL_API const char *dovetail_bound_fallback(const struct dovetail_bound *b);

/* Put the launches into the stream (NULL: the default stream; one that is being captured is fine). Branches of the plan
 * run on streams of its own, which start after what is in `stream` and end before what comes next in it. After an error
 * what the buffers hold is not known. */
DOVETAIL_API int dovetail_plan_launch(struct dovetail_bound *b, struct CUstream_st *stream, char **ret_problem);

/* The same as a new CUDA graph, which the caller instantiates, or adds to another, and destroys; not after the
 * binding's end. */
DOVETAIL_API int dovetail_plan_graph(struct dovetail_bound *b, struct CUgraph_st **ret, char **ret_problem);

#ifdef __cplusplus
}
#endif
#endif
