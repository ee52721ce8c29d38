/* The graph document (docs/CONTRACT.md §2) and the plan's graph (§4) as C data: parse, check, print, fill, digest.
 *
 * One struct serves both: a plan is a graph whose launches carry a stream, `after` and so on, and that may have scratch
 * buffers. An arena per graph owns everything. This folder knows JSON and nothing of PTX or devices.
 */
#ifndef DT_GRAPH_GRAPH_H
#define DT_GRAPH_GRAPH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"

enum dt_role { DT_INPUT, DT_WEIGHT, DT_INTERMEDIATE, DT_OUTPUT, DT_INOUT, DT_SCRATCH /* plans only */ };
enum dt_dtype { DT_I8, DT_I16, DT_I32, DT_I64, DT_U8, DT_U16, DT_U32, DT_U64, DT_F16, DT_BF16, DT_F32, DT_F64 };
unsigned dt_dtype_bytes(enum dt_dtype t);
const char *dt_dtype_text(enum dt_dtype t);
const char *dt_role_text(enum dt_role r);

struct dt_fill {
    enum { DT_FILL_NONE /* bytes 0xFF */, DT_FILL_UNIFORM, DT_FILL_ZERO, DT_FILL_DATA } kind;
    double lo, hi;
    enum dt_dtype dtype;
    uint64_t seed;
    const uint8_t *data; /* `bytes` of the buffer */
};

struct dt_buffer {
    const char *name; /* "MODULE::var" names a mutable module-scope variable */
    uint64_t bytes;
    enum dt_role role;
    bool constant;
    struct dt_fill fill;
    int module;           /* for MODULE::var the module's index, else -1 */
    const char *variable; /* and the variable's name */
};

struct dt_module {
    const char *name;
    const char *source; /* NUL-terminated */
    size_t len;
    bool is_ptx;
    const char **option; /* CUDA C++ only */
    unsigned noption;
    /* plans: what the assembler that assumes.machine_code names made of it; NULL: none. Its digest is checked, nothing
     * else */
    const uint8_t *cubin;
    size_t cubin_len;
};

#define DT_TENSOR_PACKED 13 /* CUtensorMapDataType from here on: 16 elements are a unit */
struct dt_tensor_map {      /* cuTensorMapEncodeTiled, in the numbering of cuda.h; [i] is 1 (stride 0) from `rank` on */
    uint8_t type, rank, interleave, swizzle, l2, fill;
    uint64_t dim[5], stride[5]; /* elements; bytes between neighbours along dimension i, [0] is not used */
    uint16_t box[5];
    uint8_t step[5]; /* elementStrides */
};
struct dt_str;
void dt_tensor_map_text(const struct dt_tensor_map *m, struct dt_str *out); /* equal text: equal maps */

struct dt_arg {
    enum { DT_ARG_BUFFER, DT_ARG_SCALAR, DT_ARG_BYTES, DT_ARG_TENSOR_MAP } kind;
    uint32_t buffer; /* BUFFER, TENSOR_MAP */
    uint64_t offset; /* BUFFER, TENSOR_MAP: bytes */
    enum dt_dtype dtype;
    uint64_t bits; /* SCALAR: bits of the value, low bytes first */
    const uint8_t *bytes;
    uint32_t nbytes;
    struct dt_patch {
        uint32_t at, buffer;
        uint64_t offset;
    } * pointer; /* BYTES: addresses patched in */
    uint32_t npointer;
    const struct dt_tensor_map *map; /* TENSOR_MAP */
};

struct dt_launch {
    const char *name; /* unique; "launch3" when the document gives none */
    enum { DT_KERNEL, DT_MEMSET, DT_COPY } kind;
    /* KERNEL */
    uint32_t module;
    const char *entry;
    uint32_t grid[3], block[3], cluster[3]; /* cluster 0,0,0: none */
    uint32_t shared;                        /* dynamic shared memory, bytes */
    struct dt_arg *arg;
    uint32_t narg;
    /* MEMSET: dst, bytes, value (one byte). COPY: src -> dst, bytes */
    uint32_t dst, src;
    uint64_t dst_offset, src_offset, bytes;
    uint8_t value;
    /* plans, and graphs on several streams */
    uint32_t stream;
    const char **after; /* launch names */
    uint32_t *after_at; /* and their numbers */
    uint32_t nafter;
    bool programmatic;
};

enum { DT_STREAMS = 1024 }; /* a launch's `stream` is below */

struct dt_graph {
    struct dt_arena arena;
    json_t *json; /* the parsed document, kept for the strings in it */
    const char *name;
    bool is_plan;
    /* a graph, no plan, whose launches are on several streams, or start early: `stream`, `after` and `programmatic` are
     * the poster's. In rewrite/, of each graph on the way to its plan */
    bool streams;
    struct dt_module *module;
    uint32_t nmodule;
    struct dt_buffer *buffer;
    uint32_t nbuffer;
    struct dt_launch *launch;
    uint32_t nlaunch;
    json_t *assumes; /* plans: the checked `assumes` member, borrowed from json; NULL: none */
};

/* Limits that a document is held to before anything is allocated (DT_E_TOO_LARGE). */
#define DT_MAX_BUFFERS 4096
#define DT_MAX_LAUNCHES 16384
#define DT_MAX_MODULES 1024
#define DT_MAX_BUFFER_BYTES (UINT64_C(1) << 38)
#define DT_MAX_TOTAL_BYTES (UINT64_C(1) << 40)
#define DT_MAX_CONSTANT_BYTES (UINT64_C(1) << 30) /* of all constant buffers together: their content is hashed */
#define DT_MAX_ARGS 4096                          /* of one launch */
#define DT_MAX_ARG_BYTES 32764                    /* PTX: the whole parameter block */
#define DT_MAX_NAME 1024
#define DT_MAX_CUBIN (64u << 20)
#define DT_MAX_DOCUMENT (256u << 20)

/* Parse a graph or a plan (a document with "plan" members: `baseline` and the like, or launches that carry `stream`,
 * `after` or `programmatic` where the document does not say that it is a graph, by `dovetail`).
 * DT_E_JSON with line and column, DT_E_GRAPH with a JSON pointer, DT_E_TOO_LARGE, DT_E_UNSUPPORTED. */
int dt_graph_parse(const char *text, size_t len, struct dt_graph **ret, struct dt_err *e);
int dt_graph_from_json(json_t *doc, struct dt_graph **ret, struct dt_err *e); /* takes a reference of its own; do not
                                                                                * change doc while the graph lives */
/* posted.c: the posted launches that a plan document carries (a document without `original`: its own launches), as a
 * graph document with the modules they use. NULL: memory. */
json_t *dt_plan_posted(json_t *doc);
void dt_graph_free(struct dt_graph *g);

/* The document again, canonical: members in the order of docs/CONTRACT.md, defaults written out. New reference, NULL:
 * memory. */
json_t *dt_graph_to_json(const struct dt_graph *g);
json_t *dt_buffer_to_json(const struct dt_graph *g, const struct dt_buffer *b);
json_t *dt_launch_to_json(const struct dt_graph *g, const struct dt_launch *l);

/* reduced.c: the document without what neither digest nor signature depends on: data of buffers that are not constant
 * (they start with zeros instead), buffers and modules that no launch uses, the graph's name. Digest and signature of
 * the result are g's. A plan of it holds for g, too, but need not be the plan that g would get. Not for plans. New
 * reference, NULL: memory. */
json_t *dt_graph_reduced(struct dt_graph *g);

/* Warnings (warnings.c): {"code", "message", "pointer" …} of docs/CONTRACT.md §4, the first DT_MAX_WARNINGS of them,
 * in a document as `warnings` and, where there are more, `warnings_left_out`. Zero-initialised; what dt_warn has taken
 * goes with dt_warnings_put. */
#define DT_MAX_WARNINGS 20
struct dt_warnings {
    json_t *list; /* NULL: none yet */
    size_t most;  /* 0: DT_MAX_WARNINGS */
    uint64_t left_out;
    bool failed; /* out of memory */
};
void dt_warn(struct dt_warnings *w, json_t *warning);    /* takes it over; NULL: memory */
int dt_warnings_put(struct dt_warnings *w, json_t *doc); /* empties w; DT_E_NOMEM */
/* those that the document alone shows; a plan has none */
void dt_graph_warnings(const struct dt_graph *g, struct dt_warnings *w);

/* todo.c: how many objects have a `comment` that says TODO: what is still to be filled in. fn gets the first `most`. */
size_t dt_graph_todo(json_t *doc, size_t most, void (*fn)(const char *pointer, const char *text, void *user),
                     void *user);

/* SHA-256 of the canonical form: names replaced by order of first use (launches in program order; buffers and modules
 * by first use in launches; unused ones left out), module text and options, geometry, arguments, buffer sizes, roles,
 * constant content. Fills of non-constant buffers are not part of it. */
int dt_graph_digest(const struct dt_graph *g, char text[DT_SHA256_TEXT], struct dt_err *e);

/* The same order as names: canonical name of each buffer ("b0"…), module ("m0"…), launch ("l0"…), by index;
 * DT_NAME_NONE for what no launch uses. Arrays of nbuffer, nmodule, nlaunch numbers in the graph's arena. */
struct dt_canon {
    uint32_t *buffer, *module, *launch;
};
int dt_graph_canon(struct dt_graph *g, struct dt_canon *ret);

/* The content with which a buffer starts a run, exactly as in docs/CONTRACT.md §2: n = buffer.bytes bytes into `out`.
 * seed_add is added to the fill's seed, except for weights and constants. */
void dt_fill_bytes(const struct dt_buffer *b, uint64_t seed_add, uint8_t *out);
/* n bytes of this content from byte `first`, which is a multiple of 8. */
void dt_fill_range(const struct dt_buffer *b, uint64_t seed_add, uint64_t first, uint64_t n, uint8_t *out);
/* SHA-256 of the content at seed_add 0, made in pieces. */
int dt_fill_sha256(const struct dt_buffer *b, char text[DT_SHA256_TEXT]);

/* f32 -> f16 and bf16, round to nearest even, and back (exact). */
uint16_t dt_f32_to_f16(float f);
uint16_t dt_f32_to_bf16(float f);
float dt_f16_to_f32(uint16_t h);

uint32_t dt_graph_find_buffer(const struct dt_graph *g, const char *name); /* index or DT_NAME_NONE */
uint32_t dt_graph_find_launch(const struct dt_graph *g, const char *name);

#endif
