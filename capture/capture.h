/* From a trace (trace.h) to a graph document (docs/CONTRACT.md §2): docs/CAPTURE.md says what is taken and how.
 *
 * The way: cap_read() makes operations and memory of the trace; cap_modules() finds the PTX of each kernel;
 * cap_step() chooses a range of operations. cap_raw() writes that range as a graph with a buffer for each allocation,
 * whose footprints somebody else finds (`dovetail analyze --maps`); cap_touches() reads them. cap_pieces() splits
 * allocations and names what is used again; cap_graph() writes the result. Everything belongs to the trace's arena.
 */
#ifndef DT_CAPTURE_CAPTURE_H
#define DT_CAPTURE_CAPTURE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "capture/trace.h"

#define CAP_MAX_OPS (1u << 20)
#define CAP_NONE UINT32_MAX

struct ptx_module;
struct ptx_function;

struct cap_memory { /* from its allocation to its end */
    uint64_t at, bytes;
    uint32_t how;        /* CAP_DEVICE_MEMORY … */
    uint32_t born, died; /* operations: the first that may use it; the first that may not, CAP_NONE: it lived on */
    uint32_t image;      /* of a module's variable: its module; else CAP_NONE */
    const char *name;    /* and its name */
    bool used;           /* a kernel, memset or copy on the device names it */
    bool constant;       /* a variable in constant memory: reads of it are not seen */
    const uint8_t *init; /* of a variable: what its module starts it with, or NULL (zeros) */
    uint8_t *content;    /* what it holds where the range begins, `bytes` of them, owned; NULL: not known */
    uint8_t *valid;      /* by byte: is that known? owned; NULL: all of it */
};

struct cap_point {      /* an address that an operation names */
    uint64_t off, span; /* span: bytes from there on that must be in its buffer */
    uint32_t param, at; /* of a kernel: which parameter, at which byte of it; of a copy: param 0 is `to`, 1 `from` */
    uint32_t mem;
    uint32_t map; /* the parameter is this tensor map, CAP_NONE: an address */
};

struct cap_interval {
    uint64_t lo, hi;
};
struct cap_set_of { /* ascending, apart */
    struct cap_interval *p;
    size_t n, cap;
};
struct cap_touch { /* what an operation does to one memory */
    uint32_t mem;
    struct cap_set_of read, write, may;
};

struct cap_op {
    enum { CAP_KERNEL, CAP_MEMSET, CAP_DEVICE_COPY, CAP_GIVE /* from the host */, CAP_TAKE /* to it */, CAP_CUT } kind;
    uint64_t stream;
    uint32_t by; /* of its record */
    bool host;   /* GIVE: the host wrote it without a call */
    struct cap_launch launch;
    const struct cap_param *param;
    const uint8_t *block; /* launch.total bytes */
    struct cap_point *point;
    uint32_t npoint;
    uint64_t bytes; /* of memsets and copies */
    uint8_t value;
    const uint8_t *data; /* GIVE: the bytes; TAKE: what came; NULL: not recorded */
    bool ours;           /* GIVE: data are a memset's pattern, not the program's */
    uint64_t number;     /* of a copy in the trace */
    const char *why;     /* CUT: what cannot be said */
    struct cap_touch *touch;
    uint32_t ntouch;
    const bool *decides; /* by parameter: what the memory there holds decides what is touched; NULL: not known */
};

struct cap_image {
    uint32_t form;
    const uint8_t *data;
    size_t len;
    const char *ptx; /* NUL-terminated; NULL: there is none */
    const char *why; /* and why */
    struct ptx_module *module;
    uint32_t number; /* in the document, CAP_NONE: not there */
};
struct cap_entry {
    const char *name;
    uint32_t image; /* CAP_NONE: not known */
    struct ptx_function *f;
};

struct cap_event { /* streams in order */
    uint32_t op;   /* that it stands before */
    uint32_t by;   /* of its record */
    struct cap_order order;
};

struct cap_trace {
    struct dt_arena arena;
    char *file;
    uint32_t cc;
    bool ended;
    struct dt_vec(struct cap_memory) memory;
    struct dt_vec(uint32_t) variable; /* which of memory are variables of modules */
    struct dt_vec(struct cap_op) op;
    struct dt_vec(struct cap_image) image;
    struct dt_vec(struct cap_entry) entry;
    struct dt_vec(struct cap_event) event;
    struct dt_vec(struct cap_map) map;
};

/* read.c */
int cap_read(const char *path, struct cap_trace **ret, struct dt_err *e);
struct cap_trace *cap_trace_free(struct cap_trace *t);

/* module.c: the PTX of every kernel that is launched; of cubins what lies beside the same bytes in the folders (NULL at
 * the end). Variables of modules become memory. Then launches that no graph can have become CUT. */
int cap_modules(struct cap_trace *t, const char *const *folder, struct dt_err *e);

/* step.c */
enum { CAP_WHOLE = 0, CAP_AUTO = -1 };
struct cap_range {
    uint32_t begin, end;     /* operations */
    uint32_t period, passes; /* of the repeated step; 0: whole */
    uint32_t cut;            /* operations of the step that are not in it, since something cuts it */
};
int cap_step(const struct cap_trace *t, long which, struct cap_range *ret, struct dt_err *e);

/* raw.c: buffers aN (of memory N), hN (what operation N gave), all inout. content: with all that the host gave; else
 * only with what may be indices, which is what an analysis can need. */
json_t *cap_raw(struct cap_trace *t, uint32_t begin, uint32_t end, bool content, struct dt_err *e);
/* A launch as the document has it; place(user, point) gives a buffer's name and offset. */
struct cap_place {
    const char *buffer;
    uint64_t offset;
};
typedef struct cap_place cap_place_fn(void *user, uint32_t op, uint32_t point);
json_t *cap_launch_json(const struct cap_trace *t, uint32_t op, cap_place_fn *place, void *user);
json_t *cap_modules_json(struct cap_trace *t, uint32_t begin, uint32_t end); /* numbers the images */
const char *cap_image_name(struct cap_trace *t, uint32_t image);             /* "m0" */

/* touch.c: the touches of the operations of a range; `analysis` is the answer for cap_raw's document. */
int cap_touches(struct cap_trace *t, uint32_t begin, uint32_t end, const json_t *analysis, struct dt_err *e);

int cap_contents(struct cap_trace *t, const json_t *outputs, struct dt_err *e);

/* known.c: what memory holds where the range begins, as far as copies from the host, memsets and copies say. After
 * cap_touches. */
int cap_known(struct cap_trace *t, const struct cap_range *r, struct dt_err *e);

/* places.c: what the content of a buffer is to who reads it. */
enum cap_says {
    CAP_NUMBERS,  /* numbers: nothing that is touched depends on them */
    CAP_IN_DOUBT, /* not known, or places come of them: where they look like whole numbers, they may be places */
    CAP_PLACES
};

/* piece.c */
struct cap_piece {      /* a buffer of the result */
    uint32_t mem, root; /* root: piece.c's */
    uint64_t lo, hi;
    const char *name;
    bool initial, written, outside; /* read before it is written; written; somebody else reads what is left */
    bool needs;                     /* initial, or a copy from the host made its content */
    uint8_t *data;                  /* hi - lo bytes, NULL: none known */
    bool known;                     /* data is all of what is needed */
    bool module;                    /* data are what the module's text says */
    enum cap_says says;             /* after cap_places */
};
struct cap_extra { /* a copy that is its own step: of what the host gave or took in between */
    uint32_t op, piece;
    uint64_t lo, hi; /* of the memory */
    bool folded;     /* GIVE: it is the piece's content, there is no step */
    bool final;      /* TAKE: it is what is left in the piece, there is no step */
};
struct cap_pieces {
    struct dt_vec(struct cap_piece) piece;
    struct dt_vec(struct cap_extra) extra; /* in the order of operations */
    uint32_t **of;                         /* [op - begin][point]: the piece */
};
void cap_pieces_done(struct cap_pieces *p);
int cap_pieces(struct cap_trace *t, const struct cap_range *r, struct cap_pieces *ret, struct dt_err *e);

/* places.c: piece[].says. */
void cap_places(const struct cap_trace *t, const struct cap_range *r, struct cap_pieces *p);

/* order.c: what the program ordered, as operations are gone through from the first on: begin, the launches that each
 * becomes in the document, end. most: so many launches at most. NULL: memory. */
struct cap_order_of;
struct cap_order_of *cap_order_new(const struct cap_trace *t, uint32_t most);
struct cap_order_of *cap_order_free(struct cap_order_of *o);
void cap_order_begin(struct cap_order_of *o, uint32_t op);
void cap_order_launch(struct cap_order_of *o, uint32_t op);
void cap_order_end(struct cap_order_of *o, uint32_t op);
/* `stream` and `after` of the launches, if they need more than one stream, and `programmatic`; into streams the
 * program's stream of each, into waits what is in `after`, by number. False: memory. */
bool cap_order_put(struct cap_order_of *o, json_t *launches, json_t *streams, json_t *waits);

/* graph.c: the document, with a member `captured`. */
enum cap_data { CAP_DATA_NONE, CAP_DATA_INDICES, CAP_DATA_ALL };
struct cap_about {
    const char *program;
    enum cap_data data;
};
json_t *cap_graph(struct cap_trace *t, const struct cap_range *r, struct cap_pieces *p, const struct cap_about *about,
                  struct dt_err *e);

#endif
