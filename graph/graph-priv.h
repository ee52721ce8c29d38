/* Inside graph/: the parser's state, places in the document, and text codecs. */
#ifndef DT_GRAPH_PRIV_H
#define DT_GRAPH_PRIV_H

#include "base/nearest.h"
#include "base/str.h"
#include "graph/graph.h"

/* A place in the document: a chain on the stack, from the innermost member out. It becomes text only when an error
 * needs it. */
struct g_at {
    const struct g_at *up; /* NULL: the document itself */
    const char *key;       /* member name, or NULL for an element */
    size_t index;
};
#define G_KEY(up_, key_) (&(struct g_at){.up = (up_), .key = (key_)})
#define G_INDEX(up_, i_) (&(struct g_at){.up = (up_), .index = (i_)})

struct g_parser {
    struct dt_graph *g;
    struct dt_err *e;
    struct dt_names buffers, modules, launches;
    uint64_t total, constant_total;
};

/* RFC 6901 text of a place, appended. */
void g_at_text(const struct g_at *at, struct dt_str *out);
int g_bad(struct g_parser *p, int num, const struct g_at *at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int g_nomem(struct g_parser *p);
/* "; did you mean 'x'?", or "" where nothing is like it. */
#define G_HINT (DT_NEAREST_MOST + 32)
const char *g_hint(char out[G_HINT], const struct dt_nearest *n);

/* Members. Each returns 0 or the error it set; `ret` is untouched on failure. */
int g_object(struct g_parser *p, json_t *v, const struct g_at *at);
int g_need(struct g_parser *p, json_t *obj, const struct g_at *at, const char *key, json_t **ret);
int g_string(struct g_parser *p, json_t *v, const struct g_at *at, const char **ret);
int g_bool(struct g_parser *p, json_t *v, const struct g_at *at, bool *ret);
/* A whole number from lo to hi. Above hi is `over` (DT_E_GRAPH or DT_E_TOO_LARGE …), anything else wrong DT_E_GRAPH. */
int g_number(struct g_parser *p, json_t *v, const struct g_at *at, uint64_t lo, uint64_t hi, int over, uint64_t *ret);
int g_buffer_ref(struct g_parser *p, json_t *v, const struct g_at *at, uint32_t *ret);

/* The `offset` of an object that names buffer b: it names a byte of the buffer. If it is absent, *ret stays. */
int g_offset(struct g_parser *p, json_t *obj, const struct g_at *at, uint32_t b, uint64_t *ret);
int g_parse_tensor_map(struct g_parser *p, json_t *v, const struct g_at *at, struct dt_arg *a);
json_t *g_print_tensor_map(const struct dt_graph *g, const struct dt_arg *a); /* NULL: memory */
int g_parse_args(struct g_parser *p, json_t *v, const struct g_at *at, struct dt_launch *l);
int g_parse_launches(struct g_parser *p, json_t *v, const struct g_at *at);

bool g_dtype(const char *text, enum dt_dtype *ret);
/* Bits of a double in type t (floats only), by way of f32 for f16 and bf16. False when the value is too large for the
 * type. */
bool g_float_bits(double v, enum dt_dtype t, uint64_t *ret);
double g_float_value(uint64_t bits, enum dt_dtype t);

/* Hex: the length, or -1 for wrong text; `out` has room for it. */
long g_hex_decode(const char *s, size_t n, uint8_t *out);

#endif
