/* The arguments of a launch: one object each, with exactly one member that names its kind.
 *
 *   {"buffer": NAME, "offset": N}        an address inside a buffer; the offset names a byte of it
 *   {"i32": 5}, {"f32": 1.5}, …          a number in the type's range, or a string "0x…" of the value's bits
 *   {"bytes": HEX, "pointers": […]}      a struct by value; at each `at`, 8 bytes are replaced by an address, and these
 *                                        places do not overlap
 *   {"tensor_map": {"buffer": NAME, …}}  fields of cuTensorMapEncodeTiled (tensormap.c)
 *
 * Reals are rounded to nearest even (f16 and bf16 by way of f32, as fills are) and may not round to infinity. A whole
 * number that is written as a real (1e3) is taken for an integer while it is exact.
 */
#include <math.h>
#include <string.h>

#include "graph-priv.h"

static int hex_bits(struct g_parser *p, const char *s, const struct g_at *at, enum dt_dtype t, uint64_t *ret)
{
    size_t n = strlen(s + 2), max = dt_dtype_bytes(t) * 2;
    uint64_t v = 0;
    if (!n || n > max || strspn(s + 2, "0123456789abcdefABCDEF") != n)
        return g_bad(p, DT_E_GRAPH, at, "the bits of %s are \"0x\" and 1 to %zu hexadecimal digits", dt_dtype_text(t),
                     max);
    for (s += 2; *s; s++)
        v = v << 4 | (uint64_t)(*s <= '9' ? *s - '0' : (*s | 32) - 'a' + 10);
    *ret = v;
    return 0;
}

/* Bits of an integer: `mag` with sign, held to the type's range, in two's complement of the type's size. */
static int integer_bits(struct g_parser *p, bool minus, uint64_t mag, const struct g_at *at, enum dt_dtype t,
                        uint64_t *ret)
{
    unsigned bits = dt_dtype_bytes(t) * 8;
    bool is_signed = t <= DT_I64;
    uint64_t all = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    uint64_t top = is_signed ? (minus ? (all >> 1) + 1 : all >> 1) : (minus ? 0 : all);
    if (mag > top)
        return g_bad(p, DT_E_GRAPH, at, "%s%llu does not fit %s", minus ? "-" : "", (unsigned long long)mag,
                     dt_dtype_text(t));
    *ret = (minus ? 0 - mag : mag) & all;
    return 0;
}

static int args_scalar(struct g_parser *p, json_t *v, const struct g_at *at, enum dt_dtype t, uint64_t *ret)
{
    bool is_float = t >= DT_F16;
    uint64_t big;
    double d;
    if (dt_json_big(v, &big)) {
        if (!is_float)
            return integer_bits(p, false, big, at, t, ret);
        d = (double)big;
    } else if (json_is_string(v)) {
        const char *s;
        int r = g_string(p, v, at, &s);
        if (r < 0)
            return r;
        if (s[0] != '0' || (s[1] != 'x' && s[1] != 'X'))
            return g_bad(p, DT_E_GRAPH, at, "expected a number, or a string of its bits that starts with \"0x\"");
        return hex_bits(p, s, at, t, ret);
    } else if (json_is_integer(v)) {
        json_int_t i = json_integer_value(v);
        if (!is_float)
            return integer_bits(p, i < 0, i < 0 ? 0 - (uint64_t)i : (uint64_t)i, at, t, ret);
        if (t == DT_F64) {
            d = (double)i;
        } else { /* one rounding, not two */
            d = (double)(float)i;
        }
    } else if (json_is_real(v)) {
        d = json_real_value(v);
        if (!is_float) {
            if (d != floor(d) || fabs(d) > 0x1p53)
                return g_bad(p, DT_E_GRAPH, at, "%g is no exact whole number", d);
            return integer_bits(p, d < 0, (uint64_t)fabs(d), at, t, ret);
        }
    } else {
        return g_bad(p, DT_E_GRAPH, at, "expected a number, or a string of its bits that starts with \"0x\"");
    }
    uint64_t bits;
    if (!g_float_bits(d, t, &bits))
        return g_bad(p, DT_E_GRAPH, at, "%g is too large for %s", d, dt_dtype_text(t));
    *ret = bits;
    return 0;
}

int g_offset(struct g_parser *p, json_t *obj, const struct g_at *at, uint32_t b, uint64_t *ret)
{
    json_t *v = json_object_get(obj, "offset");
    const struct dt_buffer *buf = &p->g->buffer[b];
    if (!v)
        return 0;
    uint64_t n;
    int r = g_number(p, v, G_KEY(at, "offset"), 0, UINT64_MAX, DT_E_GRAPH, &n);
    if (r < 0)
        return r;
    if (n >= buf->bytes)
        return g_bad(p, DT_E_GRAPH, G_KEY(at, "offset"), "offset %llu is outside buffer '%s', which has %llu bytes",
                     (unsigned long long)n, buf->name, (unsigned long long)buf->bytes);
    *ret = n;
    return 0;
}

static int patches(struct g_parser *p, json_t *v, const struct g_at *at, struct dt_arg *a)
{
    if (!json_is_array(v))
        return g_bad(p, DT_E_GRAPH, at, "expected an array");
    uint8_t used[DT_MAX_ARG_BYTES] = {0};
    size_t n = json_array_size(v);
    if (n > a->nbytes / 8)
        return g_bad(p, DT_E_GRAPH, at, "%zu addresses do not fit in %u bytes", n, a->nbytes);
    if (!(a->pointer = dt_new_array(&p->g->arena, struct dt_patch, n)))
        return g_nomem(p);
    for (size_t i = 0; i < n; i++) {
        json_t *o = json_array_get(v, i), *m;
        const struct g_at *here = G_INDEX(at, i);
        struct dt_patch *q = &a->pointer[i];
        uint64_t place;
        int r;
        if ((r = g_object(p, o, here)) < 0 || (r = g_need(p, o, here, "at", &m)) < 0 ||
            (r = g_number(p, m, G_KEY(here, "at"), 0, a->nbytes - 8, DT_E_GRAPH, &place)) < 0 ||
            (r = g_need(p, o, here, "buffer", &m)) < 0 ||
            (r = g_buffer_ref(p, m, G_KEY(here, "buffer"), &q->buffer)) < 0 ||
            (r = g_offset(p, o, here, q->buffer, &q->offset)) < 0)
            return r;
        q->at = (uint32_t)place;
        for (unsigned k = 0; k < 8; k++)
            if (used[q->at + k]++)
                return g_bad(p, DT_E_GRAPH, G_KEY(here, "at"), "this address overlaps an earlier one");
    }
    a->npointer = (uint32_t)n;
    return 0;
}

static int bytes(struct g_parser *p, json_t *obj, json_t *v, const struct g_at *at, struct dt_arg *a)
{
    const char *hex;
    const struct g_at *here = G_KEY(at, "bytes");
    int r = g_string(p, v, here, &hex);
    if (r < 0)
        return r;
    size_t n = strlen(hex);
    if (!n || n > 2 * DT_MAX_ARG_BYTES)
        return g_bad(p, n ? DT_E_TOO_LARGE : DT_E_GRAPH, here, "expected 1 to %d bytes in hexadecimal",
                     DT_MAX_ARG_BYTES);
    uint8_t *out = dt_arena_alloc(&p->g->arena, n / 2 + 1);
    if (!out)
        return g_nomem(p);
    long got = g_hex_decode(hex, n, out);
    if (got < 0)
        return g_bad(p, DT_E_GRAPH, here, "expected pairs of hexadecimal digits");
    a->kind = DT_ARG_BYTES;
    a->bytes = out;
    a->nbytes = (uint32_t)got;
    json_t *ptr = json_object_get(obj, "pointers");
    return ptr ? patches(p, ptr, G_KEY(at, "pointers"), a) : 0;
}

static int args_one(struct g_parser *p, json_t *obj, const struct g_at *at, struct dt_arg *a)
{
    const char *key, *kind = NULL;
    json_t *v, *value = NULL;
    enum dt_dtype t = DT_I8;
    int r = g_object(p, obj, at);
    if (r < 0)
        return r;
    json_object_foreach (obj, key, v) {
        enum dt_dtype found;
        if (strcmp(key, "buffer") && strcmp(key, "bytes") && strcmp(key, "tensor_map") && !g_dtype(key, &found))
            continue;
        if (kind)
            return g_bad(p, DT_E_GRAPH, at, "an argument is of one kind, not both '%s' and '%s'", kind, key);
        kind = key;
        value = v;
        g_dtype(key, &t);
    }
    if (!kind) {
        static const char kinds[] = "buffer bytes tensor_map i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64";
        char hint[G_HINT] = "";
        json_object_foreach (obj, key, v) {
            struct dt_nearest n = {0};
            if (!*hint && (n.best = dt_nearest_in(key, kinds, &n.best_len)))
                g_hint(hint, &n);
        }
        return g_bad(p, DT_E_GRAPH, at, "expected one of buffer, i8 … f64, bytes, tensor_map%s", hint);
    }
    if (!strcmp(kind, "buffer")) {
        a->kind = DT_ARG_BUFFER;
        if ((r = g_buffer_ref(p, value, G_KEY(at, "buffer"), &a->buffer)) < 0)
            return r;
        return g_offset(p, obj, at, a->buffer, &a->offset);
    }
    if (!strcmp(kind, "bytes"))
        return bytes(p, obj, value, at, a);
    if (!strcmp(kind, "tensor_map"))
        return g_parse_tensor_map(p, value, G_KEY(at, "tensor_map"), a);
    a->kind = DT_ARG_SCALAR;
    a->dtype = t;
    return args_scalar(p, value, G_KEY(at, kind), t, &a->bits);
}

int g_parse_args(struct g_parser *p, json_t *v, const struct g_at *at, struct dt_launch *l)
{
    if (!json_is_array(v))
        return g_bad(p, DT_E_GRAPH, at, "expected an array of arguments");
    size_t n = json_array_size(v);
    if (n > DT_MAX_ARGS)
        return g_bad(p, DT_E_TOO_LARGE, at, "%zu arguments; the limit is %d", n, DT_MAX_ARGS);
    if (!(l->arg = dt_new_array(&p->g->arena, struct dt_arg, n)))
        return g_nomem(p);
    for (size_t i = 0; i < n; i++) {
        int r = args_one(p, json_array_get(v, i), G_INDEX(at, i), &l->arg[i]);
        if (r < 0)
            return r;
    }
    l->narg = (uint32_t)n;
    return 0;
}
