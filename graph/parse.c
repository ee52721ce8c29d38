/* The graph document and the plan's graph: the top level, modules and buffers. Launches are in launch.c, arguments in
 * args.c.
 *
 * Order: what kind of document it is, modules, buffers, scratch (plans), launches, assumptions (plans), so that every
 * reference is to something already read. Limits are checked before anything of that size is allocated. A document is a
 * plan when it has one of `baseline`, `optimized`, `rewrites`, `scratch`, or a launch that carries `stream`, `after` or
 * `programmatic`; a graph must say "dovetail": 1, a plan need not. Names are copied into the arena; module text and
 * tensor maps stay in the document, which the graph holds a reference to. Unknown members are ignored.
 *
 * Not here: PTX, compilation, whether an entry exists or its parameters fit, limits of one device.
 */
#include <stdlib.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "graph-priv.h"

static const char *const roles[] = {
    [DT_INPUT] = "input",   [DT_WEIGHT] = "weight", [DT_INTERMEDIATE] = "intermediate",
    [DT_OUTPUT] = "output", [DT_INOUT] = "inout",   [DT_SCRATCH] = "scratch",
};

const char *dt_role_text(enum dt_role r) { return (unsigned)r <= DT_SCRATCH ? roles[r] : "?"; }

/* A name of a buffer, module or launch: not empty, bounded, no control characters. `text` is `at`'s key or value. */
static int name_ok(struct g_parser *p, const char *text, const struct g_at *at, const char **ret)
{
    size_t n = strlen(text);
    if (!n || n > DT_MAX_NAME)
        return g_bad(p, DT_E_GRAPH, at, "a name has 1 to %d bytes", DT_MAX_NAME);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return g_bad(p, DT_E_GRAPH, at, "a name may not contain control characters");
    char *s = dt_arena_strndup(&p->g->arena, text, n);
    if (!s)
        return g_nomem(p);
    *ret = s;
    return 0;
}

/* ---- modules ------------------------------------------------------------------------------------------------- */

static int no_files(struct g_parser *p, json_t *v, const struct g_at *at, const char *inlined)
{
    if (!json_is_object(v) || !json_object_get(v, "file"))
        return 0;
    return g_bad(p, DT_E_GRAPH, G_KEY(at, "file"),
                 "the service opens no file that a client names: send %s (the dovetail command reads the file and does "
                 "so)",
                 inlined);
}

#define TEXT_INLINE "the text inline as 'cuda' or 'ptx'"

/* A plan's machine code: {"cubin": base64, "cubin_sha256": its digest}. A bit that has changed would run as something
 * else, or not be noticed at all. */
static int machine_code(struct g_parser *p, json_t *v, const struct g_at *at, struct dt_module *m)
{
    const struct g_at *here = G_KEY(at, "cubin"), *there = G_KEY(at, "cubin_sha256");
    const char *s, *sum;
    char text[DT_SHA256_TEXT];
    json_t *digest;
    int r = g_string(p, json_object_get(v, "cubin"), here, &s);
    if (r < 0 || (r = g_need(p, v, at, "cubin_sha256", &digest)) < 0 || (r = g_string(p, digest, there, &sum)) < 0)
        return r;
    size_t n = json_string_length(json_object_get(v, "cubin")), room = dt_base64_room(n);
    if (!m->is_ptx)
        return g_bad(p, DT_E_GRAPH, here, "machine code stands beside 'ptx', of which it was made");
    if (room > DT_MAX_CUBIN)
        return g_bad(p, DT_E_TOO_LARGE, here, "%zu bytes of machine code; the limit is %u", room, DT_MAX_CUBIN);
    uint8_t *out = dt_arena_alloc(&p->g->arena, room + 1);
    if (!out)
        return g_nomem(p);
    long got = dt_base64_decode(s, n, out);
    if (got < 0)
        return g_bad(p, DT_E_GRAPH, here, "not base64 (RFC 4648 with padding, no white space)");
    if (got < 4 || memcmp(out, "\177ELF", 4))
        return g_bad(p, DT_E_GRAPH, here, "this is no machine code (an ELF file)");
    if (dt_sha256_text(out, (size_t)got, text) < 0)
        return g_nomem(p);
    if (strcmp(text, sum))
        return g_bad(p, DT_E_GRAPH, here, "the machine code is damaged: its digest is %s, the plan says %.80s", text,
                     sum);
    m->cubin = out;
    m->cubin_len = (size_t)got;
    return 0;
}

static int parse_module(struct g_parser *p, json_t *v, const struct g_at *at, struct dt_module *m)
{
    static const char *const binary[] = {"sass", "cubin", "fatbin"};
    int r = g_object(p, v, at);
    if (r < 0 || (r = no_files(p, v, at, TEXT_INLINE)) < 0)
        return r;
    json_t *cuda = json_object_get(v, "cuda"), *ptx = json_object_get(v, "ptx"), *opt = json_object_get(v, "options");
    if (cuda && ptx)
        return g_bad(p, DT_E_GRAPH, at, "a module is CUDA C++ ('cuda') or PTX ('ptx'), not both");
    for (size_t i = 0; !cuda && !ptx && i < sizeof binary / sizeof *binary; i++)
        if (json_object_get(v, binary[i]))
            return g_bad(p, DT_E_UNSUPPORTED, G_KEY(at, binary[i]),
                         "modules that hold machine code only are refused; send PTX");
    if (!cuda && !ptx)
        return g_bad(p, DT_E_GRAPH, at, "member 'cuda' or 'ptx' is missing");
    const struct g_at *here = G_KEY(at, cuda ? "cuda" : "ptx");
    m->is_ptx = ptx != NULL;
    if ((r = no_files(p, cuda ? cuda : ptx, here, TEXT_INLINE)) < 0 ||
        (r = g_string(p, cuda ? cuda : ptx, here, &m->source)) < 0)
        return r;
    m->len = json_string_length(cuda ? cuda : ptx);
    if (!m->len)
        return g_bad(p, DT_E_GRAPH, here, "the module's text is empty");
    if (p->g->is_plan && json_object_get(v, "cubin") && (r = machine_code(p, v, at, m)) < 0)
        return r;
    if (!opt)
        return 0;
    here = G_KEY(at, "options");
    if (!json_is_array(opt))
        return g_bad(p, DT_E_GRAPH, here, "expected an array of strings");
    size_t n = json_array_size(opt);
    if (n && m->is_ptx)
        return g_bad(p, DT_E_GRAPH, here, "compiler options are for CUDA C++; this module is PTX");
    if (n > 256)
        return g_bad(p, DT_E_TOO_LARGE, here, "%zu options; the limit is 256", n);
    if (!(m->option = dt_new_array(&p->g->arena, const char *, n)))
        return g_nomem(p);
    for (size_t i = 0; i < n; i++)
        if ((r = g_string(p, json_array_get(opt, i), G_INDEX(here, i), &m->option[i])) < 0)
            return r;
    m->noption = (unsigned)n;
    return 0;
}

static int parse_modules(struct g_parser *p, json_t *v, const struct g_at *at)
{
    const char *key;
    json_t *o;
    int r = g_object(p, v, at);
    if (r < 0)
        return r;
    size_t n = json_object_size(v);
    if (n > DT_MAX_MODULES)
        return g_bad(p, DT_E_TOO_LARGE, at, "%zu modules; the limit is %d", n, DT_MAX_MODULES);
    if (!(p->g->module = dt_new_array(&p->g->arena, struct dt_module, n)))
        return g_nomem(p);
    json_object_foreach (v, key, o) {
        struct dt_module *m = &p->g->module[p->g->nmodule];
        const struct g_at *here = G_KEY(at, key);
        if ((r = name_ok(p, key, here, &m->name)) < 0)
            return r;
        if (strstr(key, "::"))
            return g_bad(p, DT_E_GRAPH, here, "a module's name may not contain '::'");
        if ((r = parse_module(p, o, here, m)) < 0)
            return r;
        if (dt_names_put(&p->modules, m->name, p->g->nmodule++) < 0)
            return g_nomem(p);
    }
    return 0;
}

/* ---- buffers ------------------------------------------------------------------------------------------------- */

static int real(struct g_parser *p, json_t *v, const struct g_at *at, double *ret)
{
    uint64_t big;
    if (json_is_number(v))
        *ret = json_number_value(v);
    else if (dt_json_big(v, &big))
        *ret = (double)big;
    else
        return g_bad(p, DT_E_GRAPH, at, "expected a number");
    return 0;
}

/* Ends of a uniform fill that the type can hold; of integers hi may be one more than the largest, as it is never
 * reached. */
static int ends_ok(struct g_parser *p, const struct dt_fill *f, const struct g_at *at)
{
    const char *t = dt_dtype_text(f->dtype);
    uint64_t bits;
    if (!(f->lo <= f->hi))
        return g_bad(p, DT_E_GRAPH, at, "the lower end %g is above the upper end %g", f->lo, f->hi);
    if (f->dtype >= DT_F16) {
        enum dt_dtype width = f->dtype == DT_F64 ? DT_F64 : DT_F32;
        double d = width == DT_F64 ? f->hi - f->lo : (double)(float)f->hi - (double)(float)f->lo;
        if (!g_float_bits(f->lo, f->dtype, &bits) || !g_float_bits(f->hi, f->dtype, &bits) ||
            !g_float_bits(d, width, &bits))
            return g_bad(p, DT_E_GRAPH, at, "%s cannot hold %g to %g and their difference", t, f->lo, f->hi);
        return 0;
    }
    int n = (int)dt_dtype_bytes(f->dtype) * 8;
    double min = f->dtype <= DT_I64 ? -ldexp(1, n - 1) : 0, max = f->dtype <= DT_I64 ? ldexp(1, n - 1) : ldexp(1, n);
    if (f->lo != floor(f->lo) || f->hi != floor(f->hi))
        return g_bad(p, DT_E_GRAPH, at, "the ends of a fill of %s are whole numbers", t);
    if (f->lo < min || f->lo >= max || f->hi > max)
        return g_bad(p, DT_E_GRAPH, at, "%s cannot hold %g to %g", t, f->lo, f->hi);
    return 0;
}

static int parse_fill(struct g_parser *p, json_t *v, const struct g_at *at, struct dt_buffer *b)
{
    int r = g_object(p, v, at);
    if (r < 0)
        return r;
    json_t *zero = json_object_get(v, "zero"), *u = json_object_get(v, "uniform"), *m;
    if (!zero == !u)
        return g_bad(p, DT_E_GRAPH, at,
                     "a fill is {\"zero\": true} or {\"uniform\": [LO, HI], \"dtype\": TYPE, \"seed\": N}");
    struct dt_fill *f = &b->fill;
    if (zero) {
        if (!json_is_true(zero))
            return g_bad(p, DT_E_GRAPH, G_KEY(at, "zero"), "expected true");
        f->kind = DT_FILL_ZERO;
        return 0;
    }
    const struct g_at *here = G_KEY(at, "uniform");
    const char *t;
    if (!json_is_array(u) || json_array_size(u) != 2)
        return g_bad(p, DT_E_GRAPH, here, "expected an array of two numbers");
    if ((r = real(p, json_array_get(u, 0), G_INDEX(here, 0), &f->lo)) < 0 ||
        (r = real(p, json_array_get(u, 1), G_INDEX(here, 1), &f->hi)) < 0 || (r = g_need(p, v, at, "dtype", &m)) < 0 ||
        (r = g_string(p, m, G_KEY(at, "dtype"), &t)) < 0)
        return r;
    if (!g_dtype(t, &f->dtype))
        return g_bad(p, DT_E_GRAPH, G_KEY(at, "dtype"),
                     "there is no element type '%s' (i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32, f64)", t);
    if ((m = json_object_get(v, "seed")) &&
        (r = g_number(p, m, G_KEY(at, "seed"), 0, UINT64_MAX, DT_E_GRAPH, &f->seed)) < 0)
        return r;
    if ((r = ends_ok(p, f, here)) < 0)
        return r;
    if (b->bytes % dt_dtype_bytes(f->dtype))
        return g_bad(p, DT_E_GRAPH, at, "%llu bytes are no whole number of %s", (unsigned long long)b->bytes, t);
    f->kind = DT_FILL_UNIFORM;
    return 0;
}

static int parse_data(struct g_parser *p, json_t *v, const struct g_at *at, struct dt_buffer *b)
{
    const char *s;
    int r = no_files(p, v, at, "the content inline, as base64");
    if (r < 0 || (r = g_string(p, v, at, &s)) < 0)
        return r;
    size_t n = json_string_length(v);
    if (b->bytes > dt_base64_room(n) || b->bytes + 2 < dt_base64_room(n))
        return g_bad(p, DT_E_GRAPH, at, "%zu characters of base64 are not the %llu bytes of the buffer", n,
                     (unsigned long long)b->bytes);
    uint8_t *out = dt_arena_alloc(&p->g->arena, dt_base64_room(n));
    if (!out)
        return g_nomem(p);
    long got = dt_base64_decode(s, n, out);
    if (got < 0)
        return g_bad(p, DT_E_GRAPH, at, "not base64 (RFC 4648 with padding, no white space)");
    if ((uint64_t)got != b->bytes)
        return g_bad(p, DT_E_GRAPH, at, "the base64 holds %ld bytes and the buffer has %llu", got,
                     (unsigned long long)b->bytes);
    b->fill.kind = DT_FILL_DATA;
    b->fill.data = out;
    return 0;
}

static int role(struct g_parser *p, json_t *obj, const struct g_at *at, enum dt_role *ret)
{
    json_t *v;
    const char *text;
    int r;
    if ((r = g_need(p, obj, at, "role", &v)) < 0 || (r = g_string(p, v, G_KEY(at, "role"), &text)) < 0)
        return r;
    for (int i = 0; i < DT_SCRATCH; i++)
        if (!strcmp(text, roles[i])) {
            *ret = (enum dt_role)i;
            return 0;
        }
    char hint[G_HINT];
    struct dt_nearest n = dt_nearest_of(text, strlen(text));
    for (int i = 0; i < DT_SCRATCH; i++)
        dt_nearest_try(&n, roles[i], strlen(roles[i]));
    return g_bad(p, DT_E_GRAPH, G_KEY(at, "role"),
                 "there is no role '%s' (input, weight, intermediate, output, inout)%s", text, g_hint(hint, &n));
}

/* "MODULE::variable": of a plan the module may be one that its rewritten launches no longer have. */
static int variable(struct g_parser *p, const struct g_at *at, struct dt_buffer *b)
{
    const char *colon = strstr(b->name, "::");
    b->module = -1;
    if (!colon)
        return 0;
    uint32_t m = dt_names_get(&p->modules, b->name, (size_t)(colon - b->name));
    b->variable = colon + 2;
    if (!*b->variable)
        return g_bad(p, DT_E_GRAPH, at, "the name of the variable after '::' is missing");
    if (m != DT_NAME_NONE)
        b->module = (int)m;
    else if (!p->g->is_plan)
        return g_bad(p, DT_E_GRAPH, at, "there is no module '%.*s'", (int)(colon - b->name), b->name);
    return 0;
}

static int parse_buffer(struct g_parser *p, json_t *v, const struct g_at *at, bool scratch, struct dt_buffer *b)
{
    json_t *m, *f, *d;
    int r;
    if ((r = name_ok(p, at->key, at, &b->name)) < 0 || (r = g_object(p, v, at)) < 0 || (r = variable(p, at, b)) < 0 ||
        (r = g_need(p, v, at, "bytes", &m)) < 0 ||
        (r = g_number(p, m, G_KEY(at, "bytes"), 1, DT_MAX_BUFFER_BYTES, DT_E_TOO_LARGE, &b->bytes)) < 0)
        return r;
    p->total += b->bytes;
    if (p->total > DT_MAX_TOTAL_BYTES)
        return g_bad(p, DT_E_TOO_LARGE, G_KEY(at, "bytes"), "all buffers together have over %llu bytes",
                     (unsigned long long)DT_MAX_TOTAL_BYTES);
    b->role = DT_SCRATCH;
    if (!scratch && (r = role(p, v, at, &b->role)) < 0)
        return r;
    if ((m = json_object_get(v, "constant")) && (r = g_bool(p, m, G_KEY(at, "constant"), &b->constant)) < 0)
        return r;
    if (b->constant) {
        if (b->role != DT_INPUT && b->role != DT_WEIGHT)
            return g_bad(p, DT_E_GRAPH, G_KEY(at, "constant"), "only an input or a weight can be constant");
        p->constant_total += b->bytes;
        if (p->constant_total > DT_MAX_CONSTANT_BYTES)
            return g_bad(p, DT_E_TOO_LARGE, G_KEY(at, "bytes"), "all constant buffers together have over %llu bytes",
                         (unsigned long long)DT_MAX_CONSTANT_BYTES);
    }
    f = json_object_get(v, "fill");
    d = json_object_get(v, "data");
    if (f && d)
        return g_bad(p, DT_E_GRAPH, at, "a buffer has 'fill' or 'data', not both");
    return f ? parse_fill(p, f, G_KEY(at, "fill"), b) : d ? parse_data(p, d, G_KEY(at, "data"), b) : 0;
}

/* Called for `buffers`, then, of a plan, for `scratch`: both are one name space and one array. */
static int parse_buffers(struct g_parser *p, json_t *v, const struct g_at *at, bool scratch)
{
    struct dt_graph *g = p->g;
    const char *key;
    json_t *o;
    int r = g_object(p, v, at);
    if (r < 0)
        return r;
    size_t n = json_object_size(v) + g->nbuffer;
    if (n > DT_MAX_BUFFERS)
        return g_bad(p, DT_E_TOO_LARGE, at, "%zu buffers; the limit is %d", n, DT_MAX_BUFFERS);
    struct dt_buffer *all = dt_new_array(&g->arena, struct dt_buffer, n);
    if (!all)
        return g_nomem(p);
    if (g->nbuffer)
        memcpy(all, g->buffer, g->nbuffer * sizeof *all);
    g->buffer = all;
    json_object_foreach (v, key, o) {
        const struct g_at *here = G_KEY(at, key);
        if ((r = parse_buffer(p, o, here, scratch, &all[g->nbuffer])) < 0)
            return r;
        if ((r = dt_names_put(&p->buffers, all[g->nbuffer].name, g->nbuffer)) < 0)
            return g_nomem(p);
        if (r == 1)
            return g_bad(p, DT_E_GRAPH, here, "'%s' is a buffer as well", key);
        g->nbuffer++;
    }
    return 0;
}

/* ---- plans --------------------------------------------------------------------------------------------------- */

static bool looks_like_plan(json_t *doc)
{
    static const char *const top[] = {"baseline", "optimized", "rewrites", "scratch"};
    static const char *const each[] = {"programmatic", "stream", "after"};
    size_t n = json_object_get(doc, "dovetail") ? 0 : sizeof each / sizeof *each;
    json_t *l;
    size_t i;
    for (size_t k = 0; k < sizeof top / sizeof *top; k++)
        if (json_object_get(doc, top[k]))
            return true;
    json_array_foreach (json_object_get(doc, "launches"), i, l)
        for (size_t k = 0; k < n; k++)
            if (json_object_get(l, each[k]))
                return true;
    return false;
}

static int assembler(struct g_parser *p, json_t *v, const struct g_at *at)
{
    static const char *const member[] = {"assembler", "version", "arch"};
    const char *text;
    json_t *o;
    int r = g_object(p, v, at);
    for (int i = 0; i < 3 && r >= 0; i++)
        if ((r = g_need(p, v, at, member[i], &o)) >= 0 && (r = g_string(p, o, G_KEY(at, member[i]), &text)) >= 0 &&
            strlen(text) > 64)
            r = g_bad(p, DT_E_TOO_LARGE, G_KEY(at, member[i]), "over 64 characters");
    return r < 0 ? r : 0;
}

/* assumes: {"align": {BUFFER: power of two}, "constant": {BUFFER: "sha256:…"}, "evidence": "proved"|"observed",
 * "machine_code": {"assembler": …, "version": …, "arch": …}}, all optional. */
static int parse_assumes(struct g_parser *p, json_t *v, const struct g_at *at)
{
    const char *key, *text;
    json_t *o;
    uint32_t b;
    uint64_t n;
    int r = g_object(p, v, at);
    if (r < 0)
        return r;
    json_t *align = json_object_get(v, "align"), *constant = json_object_get(v, "constant"),
           *ev = json_object_get(v, "evidence");
    const struct g_at *here = G_KEY(at, "align");
    if (align && (r = g_object(p, align, here)) < 0)
        return r;
    json_object_foreach (align, key, o) {
        const struct g_at *member = G_KEY(here, key);
        if ((b = dt_names_get(&p->buffers, key, strlen(key))) == DT_NAME_NONE)
            return g_bad(p, DT_E_GRAPH, member, "there is no buffer '%s'", key);
        if ((r = g_number(p, o, member, 1, 1u << 30, DT_E_GRAPH, &n)) < 0)
            return r;
        if (n & (n - 1))
            return g_bad(p, DT_E_GRAPH, member, "an alignment is a power of two");
    }
    here = G_KEY(at, "constant");
    if (constant && (r = g_object(p, constant, here)) < 0)
        return r;
    json_object_foreach (constant, key, o) {
        const struct g_at *member = G_KEY(here, key);
        if ((b = dt_names_get(&p->buffers, key, strlen(key))) == DT_NAME_NONE)
            return g_bad(p, DT_E_GRAPH, member, "there is no buffer '%s'", key);
        if ((r = g_string(p, o, member, &text)) < 0)
            return r;
        if (!dt_sha256_ok(text))
            return g_bad(p, DT_E_GRAPH, member, "expected \"sha256:\" and 64 hexadecimal digits");
    }
    if ((o = json_object_get(v, "machine_code")) && (r = assembler(p, o, G_KEY(at, "machine_code"))) < 0)
        return r;
    here = G_KEY(at, "evidence");
    if (ev && (r = g_string(p, ev, here, &text)) < 0)
        return r;
    if (ev && strcmp(text, "proved") && strcmp(text, "observed"))
        return g_bad(p, DT_E_GRAPH, here, "expected \"proved\" or \"observed\"");
    p->g->assumes = v;
    return 0;
}

/* ---- the document -------------------------------------------------------------------------------------------- */

static int parse_document(struct g_parser *p, json_t *doc)
{
    struct dt_graph *g = p->g;
    json_t *v, *modules, *buffers, *launches;
    uint64_t version;
    int r = g_object(p, doc, NULL);
    if (r < 0)
        return r;
    g->is_plan = looks_like_plan(doc);
    v = json_object_get(doc, "dovetail");
    if (!v && !g->is_plan)
        return g_need(p, doc, NULL, "dovetail", &v);
    if (v && ((r = g_number(p, v, G_KEY(NULL, "dovetail"), 1, UINT64_MAX, DT_E_GRAPH, &version)) < 0))
        return r;
    if (v && version != 1)
        return g_bad(p, DT_E_GRAPH, G_KEY(NULL, "dovetail"),
                     "version %llu of the graph document is not known; this dovetail reads 1",
                     (unsigned long long)version);
    g->name = "";
    if ((v = json_object_get(doc, "name"))) {
        const char *text;
        if ((r = g_string(p, v, G_KEY(NULL, "name"), &text)) < 0)
            return r;
        if (*text && (r = name_ok(p, text, G_KEY(NULL, "name"), &g->name)) < 0)
            return r;
    }
    if ((r = g_need(p, doc, NULL, "modules", &modules)) < 0 ||
        (r = parse_modules(p, modules, G_KEY(NULL, "modules"))) < 0 ||
        (r = g_need(p, doc, NULL, "buffers", &buffers)) < 0 ||
        (r = parse_buffers(p, buffers, G_KEY(NULL, "buffers"), false)) < 0)
        return r;
    if (g->is_plan && (v = json_object_get(doc, "scratch")) &&
        (r = parse_buffers(p, v, G_KEY(NULL, "scratch"), true)) < 0)
        return r;
    if ((r = g_need(p, doc, NULL, "launches", &launches)) < 0 ||
        (r = g_parse_launches(p, launches, G_KEY(NULL, "launches"))) < 0)
        return r;
    v = g->is_plan ? json_object_get(doc, "assumes") : NULL;
    return v ? parse_assumes(p, v, G_KEY(NULL, "assumes")) : 0;
}

int dt_graph_from_json(json_t *doc, struct dt_graph **ret, struct dt_err *e)
{
    struct dt_graph *g = dt_calloc(1, sizeof *g);
    struct g_parser p = {.g = g, .e = e};
    if (!g)
        return g_nomem(&p);
    g->json = json_incref(doc);
    int r = parse_document(&p, doc);
    dt_names_done(&p.buffers);
    dt_names_done(&p.modules);
    dt_names_done(&p.launches);
    if (r < 0) {
        dt_graph_free(g);
        return r;
    }
    *ret = g;
    return 0;
}

int dt_graph_parse(const char *text, size_t len, struct dt_graph **ret, struct dt_err *e)
{
    json_t *doc;
    if (len > DT_MAX_DOCUMENT)
        return dt_err_set(e, DT_E_TOO_LARGE, "the document has %zu bytes; the limit is %u", len, DT_MAX_DOCUMENT);
    int r = dt_json_load(text, len, &doc, e);
    if (r < 0)
        return r;
    r = dt_graph_from_json(doc, ret, e);
    json_decref(doc);
    return r;
}

void dt_graph_free(struct dt_graph *g)
{
    if (!g)
        return;
    json_decref(g->json);
    dt_arena_done(&g->arena);
    free(g);
}

uint32_t dt_graph_find_buffer(const struct dt_graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->nbuffer; i++)
        if (!strcmp(g->buffer[i].name, name))
            return i;
    return DT_NAME_NONE;
}

uint32_t dt_graph_find_launch(const struct dt_graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->nlaunch; i++)
        if (!strcmp(g->launch[i].name, name))
            return i;
    return DT_NAME_NONE;
}
