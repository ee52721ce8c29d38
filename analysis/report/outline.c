/* A graph to begin with (`dovetail new`): one launch for each entry of a module, its parameters as arguments, and a
 * buffer for each pointer.
 *
 * Names and C types come from debug information, if the text has some (ptx/dwarf.h); else parameters are called as PTX
 * calls them, and a number of eight bytes is a pointer if an address comes from it. What is read and written comes from
 * the accesses of the entry (taint/): a buffer that the first entry to touch it reads is an input, or inout if
 * something writes it; another one that is written is an output. Parameters of the same name and type are one buffer.
 *
 * Nobody knows sizes, geometry and numbers but the user. They get values that are right for a small case of many
 * kernels (256 for a whole number, so that buffers hold 256 x 256 elements, and one block of 256 threads, a square
 * where the kernel asks for the thread's y), and where they stand a
 * `comment` says TODO: what is left of those, the graph's warnings name (graph/warnings.c).
 *
 * Not here: compiling, templates that nothing instantiates, what nvcc needs and NVRTC does not know.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/taint/taint.h"
#include "base/str.h"
#include "graph/graph.h"
#include "ptx/dwarf.h"
#include "ptx/reach.h"

#define NUMBER 256
#define ELEMENTS (NUMBER * NUMBER)
#define SIDE 16 /* of a square block of NUMBER threads */
#define SHARED 16384
#define BUFFER_MOST (64u << 20) /* the most bytes that a buffer gets */

struct outline {
    struct dt_arena arena;
    const char *module;
    struct ptx_module *ir;
    struct ptx_c_source source;
    json_t *buffers, *launches;
    bool failed; /* out of memory */
};

/* How an entry uses what one of its parameters points to. */
struct use {
    bool reads, writes;
    enum ptx_type type; /* of its elements; PTX_T_NONE: not seen */
};

static void outline_put(struct outline *o, json_t *to, const char *key, json_t *v)
{
    if (!v || json_object_set_new(to, key, v) < 0)
        o->failed = true;
}

static void outline_add(struct outline *o, json_t *to, json_t *v)
{
    if (!v || json_array_append_new(to, v) < 0)
        o->failed = true;
}

/* ---- what entries do --------------------------------------------------------------------------------------------- */

static int uses(struct outline *o, const struct ptx_function *f, struct use **ret, struct dt_err *e)
{
    struct ana_sites s;
    struct use *u = dt_new_array(&o->arena, struct use, (size_t)f->nparam + 1);
    int r = u ? ana_taint(f, NULL, f->nparam, &s, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < s.nsite; i++) {
        const struct ana_site *x = &s.site[i];
        const struct ptx_inst *inst = &f->inst[x->inst];
        bool any = !x->nparams && !x->nvars; /* nobody knows where it goes */
        for (uint32_t p = 0; p < f->nparam; p++) {
            bool named = false;
            for (uint32_t k = 0; k < x->nparams; k++)
                named |= x->params[k] == p;
            if (!named && !any)
                continue;
            u[p].reads |= x->reads;
            u[p].writes |= x->writes;
            if (named && x->bytes && u[p].type == PTX_T_NONE && inst->ntype)
                u[p].type = (enum ptx_type)inst->type[inst->ntype - 1];
        }
    }
    ana_sites_done(&s);
    *ret = u;
    return 0;
}

static bool dynamic_shared(const struct ptx_opnd *x)
{
    const struct ptx_var *v =
        x->kind == PTX_O_VAR || (x->kind == PTX_O_ADDR && x->base_kind == PTX_O_VAR) ? x->var : NULL;
    return v && v->space == PTX_SHARED && v->is_extern && !v->bytes;
}

static bool wants_shared(const struct ptx_inst *i, void *user)
{
    for (unsigned k = 0; k < i->nopnd; k++)
        if (dynamic_shared(&i->opnd[k]))
            return true;
    return false;
}

/* Does it ask for the thread's place in y? Then blocks are likely squares. */
static bool asks_y(const struct ptx_inst *i, void *user)
{
    for (unsigned k = 0; k < i->nopnd; k++)
        if (i->opnd[k].kind == PTX_O_SREG && i->opnd[k].sreg == PTX_SR_TID && i->opnd[k].comp == 1)
            return true;
    return false;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static const char *number_kind(enum ptx_c_kind kind, uint64_t bytes)
{
    static const char *const word[][4] = {{"i8", "i16", "i32", "i64"}, {"u8", "u16", "u32", "u64"}};
    if (kind == PTX_C_FLOAT)
        return bytes == 8 ? "f64" : bytes == 4 ? "f32" : bytes == 2 ? "f16" : NULL;
    if (kind != PTX_C_SIGNED && kind != PTX_C_UNSIGNED)
        return NULL;
    const char *const *w = word[kind == PTX_C_UNSIGNED];
    return bytes == 1 ? w[0] : bytes == 2 ? w[1] : bytes == 4 ? w[2] : bytes == 8 ? w[3] : NULL;
}

static const char *ptx_kind(enum ptx_type t)
{
    if (t == PTX_BF16)
        return "bf16";
    return number_kind(ptx_type_is_float(t)    ? PTX_C_FLOAT
                       : ptx_type_is_signed(t) ? PTX_C_SIGNED
                                               : PTX_C_UNSIGNED,
                       ptx_type_bytes(t));
}

/* CUDA's structures that are floats of 16 bits. */
static const char *half_kind(const char *type)
{
    return strstr(type, "half") ? "f16" : strstr(type, "bfloat16") ? "bf16" : NULL;
}

/* The element type of what is pointed to, NULL: none of a fill's. */
static const char *outline_element(const struct ptx_c_value *v, const struct use *u, uint64_t *ret_bytes)
{
    const char *kind = v ? number_kind(v->to.kind, v->to.bytes) : NULL;
    *ret_bytes = v ? v->to.bytes : 0;
    if (v && v->to.kind == PTX_C_STRUCT && v->to.bytes == 2)
        kind = half_kind(v->to.text);
    if (!kind && !*ret_bytes && u->type != PTX_T_NONE) {
        kind = ptx_kind(u->type);
        *ret_bytes = ptx_type_bytes(u->type);
    }
    if (!*ret_bytes)
        *ret_bytes = 4;
    return kind;
}

/* "const float *x", "int n". */
static const char *declared(struct outline *o, const char *type, const char *name)
{
    size_t n = strlen(type);
    const char *s = dt_arena_printf(&o->arena, "%s%s%s", type, n && strchr("*&", type[n - 1]) ? "" : " ", name);
    o->failed |= !s;
    return s ? s : name;
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

static const char *role_of(const struct use *u, bool is_const)
{
    return is_const || !u->writes ? "input" : u->reads ? "inout" : "output";
}

static json_t *fill_of(const char *kind, size_t seed)
{
    if (kind && strchr("fb", *kind)) /* f16 bf16 f32 f64 */
        return json_pack("{s:[i,i], s:s, s:I}", "uniform", -1, 1, "dtype", kind, "seed", (json_int_t)seed);
    return json_pack("{s:b}", "zero", 1); /* whole numbers may be indices */
}

/* The buffer of a parameter that points somewhere: found by name and type, or made. Its name. */
static const char *buffer_of(struct outline *o, const char *launch, const char *param, const struct ptx_c_value *v,
                             const struct use *u, bool is_const)
{
    uint64_t size;
    const char *name = param, *kind = outline_element(v, u, &size), *role = role_of(u, is_const);
    const char *type = v ? v->type.text : dt_arena_printf(&o->arena, "%s *", kind ? kind : "void");
    uint64_t bytes = size * ELEMENTS <= BUFFER_MOST ? size * ELEMENTS : BUFFER_MOST / size * size;
    char *pointee = dt_arena_printf(&o->arena, "%s", v && v->to.text ? v->to.text : kind ? kind : "?");
    if (size > BUFFER_MOST)
        bytes = size;
    if (pointee && !strncmp(pointee, "const ", 6))
        pointee += 6;
    json_t *old = json_object_get(o->buffers, name);
    if (old && (!pointee || strcmp(dt_json_text(old, "of"), pointee))) {
        name = dt_arena_printf(&o->arena, "%s.%s", launch, param);
        old = name ? json_object_get(o->buffers, name) : NULL;
    }
    if (!name || !pointee || !type) {
        o->failed = true;
        return param;
    }
    if (old) {
        const char *was = dt_json_text(old, "role"), *now = was;
        if (!strcmp(was, "input") && strcmp(role, "input"))
            now = "inout"; /* read first, written then */
        bool between = !strcmp(now, "output") && u->reads;
        outline_put(o, old, "role", json_string(now)); /* and the string that it had is gone */
        if (between)
            outline_put(o, old, "between", json_true());
        return name;
    }
    json_t *b = json_pack("{s:I, s:s}", "bytes", (json_int_t)bytes, "role", role);
    if (b && strcmp(role, "output"))
        outline_put(o, b, "fill", fill_of(kind, json_object_size(o->buffers) + 1));
    if (b) {
        outline_put(o, b, "of", json_string(pointee));
        outline_put(o, b, "comment",
                    json_sprintf("TODO bytes: %s of %s; %llu elements of %llu bytes so far", declared(o, type, param),
                                 launch, (unsigned long long)(bytes / size), (unsigned long long)size));
    }
    outline_put(o, o->buffers, name, b);
    return name;
}

/* What only this file needs goes, and comments say the rest. */
static void buffers_finish(struct outline *o)
{
    const char *name;
    json_t *b;
    json_object_foreach (o->buffers, name, b) {
        if (json_object_get(b, "between"))
            outline_put(o, b, "comment",
                        json_sprintf("%s. A later launch reads it: role intermediate, if nobody outside does",
                                     dt_json_text(b, "comment")));
        json_object_del(b, "of");
        json_object_del(b, "between");
    }
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static void comment(struct outline *o, json_t *arg, const char *todo, const struct ptx_c_value *v, const char *more)
{
    outline_put(o, arg, "comment", json_sprintf("%s%s%s", todo, v ? declared(o, v->type.text, v->name) : "", more));
}

/* The example of a number, in its place. */
static void number_bytes(uint8_t *at, const struct ptx_c_type *t)
{
    double d = 1;
    float f = 1;
    if (t->kind == PTX_C_FLOAT && t->bytes == 8)
        memcpy(at, &d, 8);
    else if (t->kind == PTX_C_FLOAT && t->bytes == 4)
        memcpy(at, &f, 4);
    else if ((t->kind == PTX_C_SIGNED || t->kind == PTX_C_UNSIGNED) && t->bytes > 1)
        at[1] = NUMBER >> 8; /* low bytes first */
}

/* A structure, or another parameter of bytes: its numbers, with addresses in the places of its pointers. */
static json_t *bytes_arg(struct outline *o, const char *launch, const struct ptx_var *p, const struct ptx_c_param *c,
                         const struct use *u)
{
    struct dt_str hex = {0}, more = {0};
    json_t *places = json_array(), *arg;
    size_t n = p->bytes < DT_MAX_ARG_BYTES ? (size_t)p->bytes : DT_MAX_ARG_BYTES;
    uint8_t *bytes = dt_new_array(&o->arena, uint8_t, n + 8);
    for (uint32_t k = 0; c && k < c->nmember; k++) {
        const struct ptx_c_value *m = &c->member[k];
        dt_str_addf(&more, "%s%s at %llu", k ? "; " : ": ", declared(o, m->type.text, m->name),
                    (unsigned long long)m->at);
        if (bytes && m->at < n && m->type.bytes <= n - m->at && m->type.bytes <= 8)
            number_bytes(bytes + m->at, &m->type);
        if (m->type.kind == PTX_C_POINTER && m->at + 8 <= p->bytes && m->at % 8 == 0)
            outline_add(o, places,
                        json_pack("{s:I, s:s}", "at", (json_int_t)m->at, "buffer",
                                  buffer_of(o, launch, m->name, m, &(struct use){u->reads, u->writes, PTX_T_NONE},
                                            m->to.is_const)));
    }
    for (size_t i = 0; bytes && i < n; i++)
        dt_str_addf(&hex, "%02x", bytes[i]);
    arg = !bytes || hex.failed || more.failed ? NULL : json_pack("{s:s}", "bytes", hex.s ? hex.s : "00");
    if (arg && json_array_size(places))
        outline_put(o, arg, "pointers", json_incref(places));
    if (arg)
        comment(o, arg, "TODO ", c ? &c->value : NULL, more.s ? more.s : "bytes of the parameter");
    json_decref(places);
    dt_str_done(&hex);
    dt_str_done(&more);
    return arg;
}

static json_t *tensor_arg(struct outline *o, const char *launch, const char *name, const struct ptx_c_value *v,
                          const struct use *u)
{
    const char *buffer = buffer_of(o, launch, name, v, u, false);
    json_t *arg =
        json_pack("{s:{s:s, s:s, s:i, s:[i], s:[i]}}", "tensor_map", "buffer", buffer, "tensorDataType",
                  "CU_TENSOR_MAP_DATA_TYPE_FLOAT32", "tensorRank", 1, "globalDim", ELEMENTS, "boxDim", NUMBER);
    if (arg)
        comment(o, arg, "TODO ", v, ": what cuTensorMapEncodeTiled is given");
    return arg;
}

static json_t *argument(struct outline *o, const char *launch, const struct ptx_var *p, const struct ptx_c_param *c,
                        const struct use *u)
{
    const struct ptx_c_value *v = c ? &c->value : NULL;
    const char *name = v && *v->name ? v->name : p->name;
    bool pointer = v ? v->type.kind == PTX_C_POINTER : p->is_ptr || u->reads || u->writes;
    json_t *arg;
    if (v && strstr(v->type.text, "CUtensorMap") && p->bytes == 128)
        return tensor_arg(o, launch, name, v, u);
    const char *half =
        v && v->type.kind == PTX_C_STRUCT && v->type.bytes == 2 && p->bytes == 2 ? half_kind(v->type.text) : NULL;
    if (!half && (p->is_array || p->bytes > 8))
        return bytes_arg(o, launch, p, c, u);
    if (pointer && p->bytes == 8) {
        arg = json_pack("{s:s}", "buffer", buffer_of(o, launch, name, v, u, v && v->to.is_const));
        if (arg && v)
            comment(o, arg, "", v, "");
        return arg;
    }
    const char *kind = half ? half : v ? number_kind(v->type.kind, v->type.bytes) : NULL;
    if (!kind || v->type.bytes != p->bytes)
        kind = ptx_kind((enum ptx_type)p->type);
    if (!kind)
        return bytes_arg(o, launch, p, c, u);
    bool small = kind[1] == '8' || !strcmp(kind, "u8");
    arg = strchr("fb", *kind) ? json_pack("{s:f}", kind, 1.0) : json_pack("{s:i}", kind, small ? 1 : NUMBER);
    if (arg)
        comment(o, arg, "TODO ", v, v ? "" : p->name);
    return arg;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static json_t *triple(const uint32_t v[3], uint32_t x)
{
    return json_pack("[I,I,I]", (json_int_t)(v[0] ? v[0] : x), (json_int_t)(v[1] ? v[1] : 1),
                     (json_int_t)(v[2] ? v[2] : 1));
}

/* "scale(const float *x, int n)" of the source; PTX's names and types else. */
static void outline_signature(const struct ptx_function *f, const struct ptx_c_function *c, struct dt_str *out)
{
    dt_str_addf(out, "%s(", c ? c->name : f->name);
    for (uint32_t i = 0; i < f->nparam; i++) {
        const char *type = c ? c->param[i].value.type.text : ptx_type_text((enum ptx_type)f->param[i]->type);
        size_t n = strlen(type);
        dt_str_addf(out, "%s%s%s%s", i ? ", " : "", type, n && type[n - 1] == '*' ? "" : " ",
                    c ? c->param[i].value.name : f->param[i]->name);
    }
    dt_str_addc(out, ')');
}

static const char *launch_name(struct outline *o, const char *wanted)
{
    size_t same = 0, i;
    json_t *l;
    json_array_foreach (o->launches, i, l)
        same += !strcmp(dt_json_text(l, "wanted"), wanted);
    return same ? dt_arena_printf(&o->arena, "%s-%zu", wanted, same + 1) : wanted;
}

static int outline_entry(struct outline *o, const struct ptx_function *f, struct dt_err *e)
{
    const struct ptx_c_function *c = ptx_c_find(&o->source, f->name);
    struct dt_str said = {0};
    struct use *u;
    int r = uses(o, f, &u, e);
    if (r < 0)
        return r;
    if (c && c->nparam != f->nparam)
        c = NULL;
    int shared = ptx_reach_any(f, wants_shared, NULL), square = ptx_reach_any(f, asks_y, NULL);
    const uint32_t *said_block = f->reqntid[0] ? f->reqntid : f->maxntid, squares[3] = {SIDE, SIDE, 1};
    const uint32_t *block =
        square > 0 && (!said_block[0] || (said_block[1] <= 1 && said_block[0] == SIDE * SIDE && !f->reqntid[0]))
            ? squares
            : said_block;
    const char *wanted = c && *c->name ? c->name : f->name, *name = launch_name(o, wanted);
    outline_signature(f, c, &said);
    json_t *l = json_pack("{s:s, s:s, s:o, s:s, s:s, s:o, s:o}", "name", name, "wanted", wanted, "comment",
                          json_sprintf("TODO grid%s%s: %s", f->reqntid[0] ? "" : ", block", shared ? ", shared" : "",
                                       said.s ? said.s : ""),
                          "module", o->module, "entry", f->name, "grid", triple(f->reqnctapercluster, 1), "block",
                          triple(block, NUMBER)),
           *args = json_array();
    if (!l || !args || !name || shared < 0 || square < 0 || said.failed) {
        json_decref(l);
        json_decref(args);
        dt_str_done(&said);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    if (f->reqnctapercluster[0])
        outline_put(o, l, "cluster", triple(f->reqnctapercluster, 1));
    outline_put(o, l, "shared", json_integer(shared ? SHARED : 0));
    for (uint32_t i = 0; i < f->nparam; i++)
        outline_add(o, args, argument(o, name, f->param[i], c ? &c->param[i] : NULL, &u[i]));
    outline_put(o, l, "args", args);
    outline_add(o, o->launches, l);
    dt_str_done(&said);
    return 0;
}

static int outline_entries(struct outline *o, struct dt_err *e)
{
    int r = 0;
    size_t i, n = 0;
    json_t *l;
    for (uint32_t k = 0; k < o->ir->nfunc && r >= 0; k++)
        if (o->ir->func[k]->is_entry && o->ir->func[k]->has_body) {
            r = outline_entry(o, o->ir->func[k], e);
            n++;
        }
    if (r >= 0 && !n)
        r = dt_err_set(e, DT_E_GRAPH,
                       "there is no kernel in it: a __global__ function, of a template one that is "
                       "instantiated (`template __global__ void k<float>(float *);`)");
    json_array_foreach (o->launches, i, l)
        json_object_del(l, "wanted");
    buffers_finish(o);
    return r < 0 ? r : o->failed ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}

int ana_outline(const char *ptx, size_t len, const char *debug, size_t debug_len, const char *module,
                json_t **ret_buffers, json_t **ret_launches, struct dt_err *e)
{
    struct outline o = {.module = module, .buffers = json_object(), .launches = json_array()};
    int r = ptx_parse(ptx, len, &o.ir, e);
    if (r >= 0)
        r = ptx_verify(o.ir, e);
    if (r >= 0)
        r = ptx_c_read(debug ? debug : ptx, debug ? debug_len : len, &o.source, e);
    if (r >= 0)
        r = o.buffers && o.launches ? outline_entries(&o, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    ptx_c_done(&o.source);
    ptx_module_free(o.ir);
    dt_arena_done(&o.arena);
    if (r < 0) {
        json_decref(o.buffers);
        json_decref(o.launches);
        return r;
    }
    *ret_buffers = o.buffers;
    *ret_launches = o.launches;
    return 0;
}
