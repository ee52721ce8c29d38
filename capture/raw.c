/* The operations of a range as they were: a graph document with a buffer for each allocation (aN, of memory N), for
 * each variable of a module, and for what each copy from the host gave (hN, of operation N). Every buffer is inout. It
 * is what footprints are found for, and what runs ahead of a step to know what memory held where the step begins.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/str.h"
#include "capture/capture-priv.h"
#include "ptx/ptx.h"

#define WHOLE_MAX (1 << 24)

bool cap_whole_numbers(const uint8_t *p, uint64_t n)
{
    for (uint64_t i = 0; i + 4 <= n; i += 4) {
        int32_t v;
        memcpy(&v, p + i, 4);
        if (v < -WHOLE_MAX || v > WHOLE_MAX)
            return false;
    }
    return n >= 4;
}

const char *cap_image_name(struct cap_trace *t, uint32_t image)
{
    return dt_arena_printf(&t->arena, "m%u", t->image.p[image].number);
}

static void module_add(struct cap_trace *t, json_t *all, uint32_t image)
{
    if (image == CAP_NONE || !t->image.p[image].module || t->image.p[image].number != CAP_NONE)
        return;
    t->image.p[image].number = (uint32_t)json_object_size(all);
    json_object_set_new(all, cap_image_name(t, image), json_pack("{s:s}", "ptx", t->image.p[image].ptx));
}

/* Those of launches, and of variables that anything names. */
json_t *cap_modules_json(struct cap_trace *t, uint32_t begin, uint32_t end)
{
    json_t *all = json_object();
    for (size_t i = 0; i < t->image.n; i++)
        t->image.p[i].number = CAP_NONE;
    for (uint32_t i = begin; i < end; i++) {
        const struct cap_op *o = &t->op.p[i];
        if (o->kind == CAP_KERNEL)
            module_add(t, all, t->entry.p[o->launch.function].image);
        for (uint32_t k = 0; k < o->npoint; k++)
            module_add(t, all, t->memory.p[o->point[k].mem].image);
    }
    return all;
}

/* ---- launches ---- */
static json_t *number_json(const struct ptx_var *v, const uint8_t *p)
{
    static const char *const whole[] = {"u8", "u16", "", "u32", "", "", "", "u64"};
    uint64_t bits = 0;
    char text[24];
    memcpy(&bits, p, v->bytes);
    if (v->type == PTX_F32 || v->type == PTX_F64) {
        snprintf(text, sizeof text, "0x%" PRIx64, bits);
        return json_pack("{s:s}", v->type == PTX_F32 ? "f32" : "f64", text);
    }
    if (bits > INT64_MAX) {
        snprintf(text, sizeof text, "0x%" PRIx64, bits);
        return json_pack("{s:s}", "u64", text);
    }
    return json_pack("{s:I}", whole[v->bytes - 1], (json_int_t)bits);
}

static json_t *bytes_json(const struct cap_op *o, uint32_t op, uint32_t param, cap_place_fn *place, void *user)
{
    struct dt_str hex = {0};
    json_t *pointers = json_array();
    for (uint32_t i = 0; i < o->param[param].bytes; i++) {
        bool address = false; /* whose bytes are nobody's business */
        for (uint32_t k = 0; k < o->npoint; k++)
            address = address || (o->point[k].param == param && i >= o->point[k].at && i - o->point[k].at < 8);
        dt_str_addf(&hex, "%02x", address ? 0 : o->block[o->param[param].at + i]);
    }
    for (uint32_t i = 0; i < o->npoint; i++)
        if (o->point[i].param == param) {
            struct cap_place at = place(user, op, i);
            json_array_append_new(pointers, json_pack("{s:I, s:s, s:I}", "at", (json_int_t)o->point[i].at, "buffer",
                                                      at.buffer, "offset", (json_int_t)at.offset));
        }
    json_t *a = json_pack("{s:s}", "bytes", hex.s ? hex.s : "");
    if (json_array_size(pointers))
        json_object_set(a, "pointers", pointers);
    json_decref(pointers);
    dt_str_done(&hex);
    return a;
}

static json_t *list_json(const uint64_t *wide, const uint32_t *p, uint32_t from, uint32_t to)
{
    json_t *a = json_array();
    for (uint32_t i = from; i < to; i++)
        json_array_append_new(a, json_integer((json_int_t)(wide ? wide[i] : p[i])));
    return a;
}

static json_t *map_json(const struct cap_map *m, struct cap_place at)
{
    return json_pack("{s:{s:s, s:I, s:i, s:i, s:o, s:o, s:o, s:o, s:i, s:i, s:i, s:i}}", "tensor_map", "buffer",
                     at.buffer, "offset", (json_int_t)at.offset, "tensorDataType", m->type, "tensorRank", m->rank,
                     "globalDim", list_json(m->dim, NULL, 0, m->rank), "globalStrides",
                     list_json(m->stride, NULL, 1, m->rank), "boxDim", list_json(NULL, m->box, 0, m->rank),
                     "elementStrides", list_json(NULL, m->step, 0, m->rank), "interleave", m->interleave, "swizzle",
                     m->swizzle, "l2Promotion", m->l2, "oobFill", m->fill);
}

static json_t *kernel_json(const struct cap_trace *t, uint32_t op, cap_place_fn *place, void *user)
{
    const struct cap_op *o = &t->op.p[op];
    const struct cap_entry *x = &t->entry.p[o->launch.function];
    const uint32_t *g = o->launch.grid, *b = o->launch.block, *c = o->launch.cluster;
    char module[16];
    json_t *args = json_array();
    for (uint32_t i = 0; i < o->launch.nparam; i++) {
        const struct ptx_var *v = x->f->param[i];
        uint32_t k = 0;
        while (k < o->npoint && o->point[k].param != i)
            k++;
        bool plain = !v->is_array && v->vec <= 1 && (v->bytes == 1 || v->bytes == 2 || v->bytes == 4 || v->bytes == 8);
        if (k < o->npoint && o->point[k].map != CAP_NONE)
            json_array_append_new(args, map_json(&t->map.p[o->point[k].map], place(user, op, k)));
        else if (plain && v->bytes == 8 && k < o->npoint && v->type != PTX_F64) {
            struct cap_place at = place(user, op, k);
            json_array_append_new(args, json_pack("{s:s, s:I}", "buffer", at.buffer, "offset", (json_int_t)at.offset));
        } else
            json_array_append_new(args, plain ? number_json(v, o->block + o->param[i].at)
                                              : bytes_json(o, op, i, place, user));
    }
    snprintf(module, sizeof module, "m%u", t->image.p[x->image].number);
    json_t *l = json_pack("{s:s, s:s, s:[iii], s:[iii], s:i, s:o}", "module", module, "entry", x->name, "grid", g[0],
                          g[1], g[2], "block", b[0], b[1], b[2], "shared", o->launch.shared, "args", args);
    if (c[0])
        json_object_set_new(l, "cluster", json_pack("[iii]", c[0], c[1] ? c[1] : 1, c[2] ? c[2] : 1));
    return l;
}

json_t *cap_launch_json(const struct cap_trace *t, uint32_t op, cap_place_fn *place, void *user)
{
    const struct cap_op *o = &t->op.p[op];
    if (o->kind == CAP_KERNEL)
        return kernel_json(t, op, place, user);
    struct cap_place to = place(user, op, 0);
    if (o->kind == CAP_MEMSET)
        return json_pack("{s:{s:s, s:I, s:I, s:i}}", "memset", "buffer", to.buffer, "offset", (json_int_t)to.offset,
                         "bytes", (json_int_t)o->bytes, "value", o->value);
    struct cap_place from = place(user, op, 1);
    return json_pack("{s:{s:{s:s, s:I}, s:{s:s, s:I}, s:I}}", "copy", "from", "buffer", from.buffer, "offset",
                     (json_int_t)from.offset, "to", "buffer", to.buffer, "offset", (json_int_t)to.offset, "bytes",
                     (json_int_t)o->bytes);
}

/* ---- the document ---- */
static const char *raw_name(struct cap_trace *t, uint32_t mem)
{
    const struct cap_memory *m = &t->memory.p[mem];
    return m->image == CAP_NONE ? dt_arena_printf(&t->arena, "a%u", mem)
                                : dt_arena_printf(&t->arena, "%s::%s", cap_image_name(t, m->image), m->name);
}

static struct cap_place raw_place(void *user, uint32_t op, uint32_t point)
{
    struct cap_trace *t = user;
    const struct cap_op *o = &t->op.p[op];
    if (o->kind == CAP_GIVE && point == 1)
        return (struct cap_place){dt_arena_printf(&t->arena, "h%u", op), 0};
    return (struct cap_place){raw_name(t, o->point[point].mem), o->point[point].off};
}

static void raw_buffer(json_t *all, const char *name, uint64_t bytes, const uint8_t *data)
{
    json_t *b = json_pack("{s:I, s:s}", "bytes", (json_int_t)bytes, "role", "inout");
    struct dt_str s = {0};
    if (data) {
        dt_base64_encode(data, bytes, &s);
        json_object_set_new(b, "data", json_string(s.s ? s.s : ""));
    } else
        json_object_set_new(b, "fill", json_pack("{s:b}", "zero", 1));
    dt_str_done(&s);
    json_object_set_new(all, name, b);
}

json_t *cap_raw(struct cap_trace *t, uint32_t begin, uint32_t end, bool content, struct dt_err *e)
{
    json_t *modules = cap_modules_json(t, begin, end), *buffers = json_object(), *launches = json_array();
    for (uint32_t m = 0; m < t->memory.n; m++) {
        const struct cap_memory *x = &t->memory.p[m];
        if (x->image != CAP_NONE && t->image.p[x->image].number != CAP_NONE)
            raw_buffer(buffers, raw_name(t, m), x->bytes, x->content ? x->content : x->init);
    }
    for (uint32_t i = begin; i < end; i++) {
        const struct cap_op *o = &t->op.p[i];
        if (o->kind == CAP_TAKE || o->kind == CAP_CUT)
            continue;
        for (uint32_t k = 0; k < o->npoint; k++) {
            const struct cap_memory *x = &t->memory.p[o->point[k].mem];
            const char *name = raw_name(t, o->point[k].mem);
            if (!json_object_get(buffers, name))
                raw_buffer(buffers, name, x->bytes, x->content);
        }
        if (o->kind == CAP_GIVE)
            raw_buffer(buffers, dt_arena_printf(&t->arena, "h%u", i), o->bytes,
                       o->data && (content || cap_whole_numbers(o->data, o->bytes)) ? o->data : NULL);
        json_array_append_new(launches, cap_launch_json(t, i, raw_place, t));
    }
    json_t *doc = json_pack("{s:i, s:s, s:o, s:o, s:o}", "dovetail", 1, "name", "captured", "modules", modules,
                            "buffers", buffers, "launches", launches);
    if (!doc || dt_arena_failed(&t->arena)) {
        json_decref(doc);
        dt_err_set(e, DT_E_NOMEM, "out of memory");
        return NULL;
    }
    return doc;
}
