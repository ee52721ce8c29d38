/* What operations touch: sets of bytes, by memory.
 *
 * Of a memset or copy they are known. Of a kernel they are the footprints of its launch, all blocks together, as the
 * analysis of cap_raw's document gives them: read, surely written, perhaps written. What the analysis does not give
 * (footprints too large to be written, constant memory) counts as read, or perhaps written, whole. A set with very many
 * gaps becomes its hull, and what was surely written there only perhaps: always more is said to be touched, never less.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "capture/capture-priv.h"

#define MAX_GAPS 4096u

void cap_set_add(struct cap_set_of *s, uint64_t lo, uint64_t hi, bool *nomem)
{
    struct cap_interval *last = s->n ? &s->p[s->n - 1] : NULL;
    if (last && lo >= last->lo && lo <= last->hi) {
        last->hi = hi > last->hi ? hi : last->hi;
        return;
    }
    if (s->n >= 1u << 16 && (s->n & (s->n - 1)) == 0) /* before it grows again */
        cap_set_tidy(s);
    if (lo < hi && !dt_push(s, (struct cap_interval){lo, hi}))
        *nomem = true;
}

static int by_lo(const void *a, const void *b)
{
    const struct cap_interval *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

void cap_set_tidy(struct cap_set_of *s)
{
    size_t n = 0;
    if (s->n)
        qsort(s->p, s->n, sizeof *s->p, by_lo);
    for (size_t i = 0; i < s->n; i++)
        if (n && s->p[i].lo <= s->p[n - 1].hi)
            s->p[n - 1].hi = s->p[i].hi > s->p[n - 1].hi ? s->p[i].hi : s->p[n - 1].hi;
        else
            s->p[n++] = s->p[i];
    s->n = n;
}

bool cap_set_meets(const struct cap_set_of *s, uint64_t lo, uint64_t hi)
{
    size_t a = 0, b = s->n;
    while (a < b) { /* the first that ends behind lo */
        size_t mid = (a + b) / 2;
        if (s->p[mid].hi > lo)
            b = mid;
        else
            a = mid + 1;
    }
    return a < s->n && s->p[a].lo < hi;
}

static struct cap_touch *touch_of(struct cap_trace *t, struct cap_op *o, uint32_t mem)
{
    for (uint32_t i = 0; i < o->ntouch; i++)
        if (o->touch[i].mem == mem)
            return &o->touch[i];
    struct cap_touch *p = dt_new_array(&t->arena, struct cap_touch, o->ntouch + 1);
    if (!p)
        return NULL;
    if (o->ntouch)
        memcpy(p, o->touch, o->ntouch * sizeof *p);
    p[o->ntouch] = (struct cap_touch){.mem = mem};
    o->touch = p;
    return &p[o->ntouch++];
}

/* A part of footprints: [[block, [[lo, hi] or [lo, hi, step, count], …]], …] */
static void part_read(struct cap_set_of *s, const json_t *part, uint64_t bytes, bool *nomem)
{
    size_t i, k;
    const json_t *block, *range;
    json_array_foreach (part, i, block)
        json_array_foreach (json_array_get(block, 1), k, range) {
            uint64_t lo = (uint64_t)json_integer_value(json_array_get(range, 0)),
                     hi = (uint64_t)json_integer_value(json_array_get(range, 1)),
                     step = (uint64_t)json_integer_value(json_array_get(range, 2)),
                     count = json_array_size(range) > 3 ? (uint64_t)json_integer_value(json_array_get(range, 3)) : 1;
            for (uint64_t j = 0; j < count && lo < hi && hi <= bytes; j++, lo += step, hi += step)
                cap_set_add(s, lo, hi, nomem);
        }
    cap_set_tidy(s);
}

static void whole(struct cap_set_of *s, uint64_t bytes, bool *nomem)
{
    s->n = 0;
    cap_set_add(s, 0, bytes, nomem);
}

static void coarsen(struct cap_touch *x, bool *nomem)
{
    if (x->read.n > MAX_GAPS)
        x->read.p[0].hi = x->read.p[x->read.n - 1].hi, x->read.n = 1;
    if (x->write.n > MAX_GAPS) {
        cap_set_add(&x->may, x->write.p[0].lo, x->write.p[x->write.n - 1].hi, nomem);
        x->write.n = 0;
        cap_set_tidy(&x->may);
    }
    if (x->may.n > MAX_GAPS)
        x->may.p[0].hi = x->may.p[x->may.n - 1].hi, x->may.n = 1;
}

static uint32_t memory_named(struct cap_trace *t, const char *name)
{
    if (name[0] == 'a' && name[1] >= '0' && name[1] <= '9' && !strstr(name, "::")) {
        unsigned long m = strtoul(name + 1, NULL, 10);
        return m < t->memory.n ? (uint32_t)m : CAP_NONE;
    }
    const char *colon = strstr(name, "::");
    for (size_t v = 0; colon && v < t->variable.n; v++) {
        const struct cap_memory *m = &t->memory.p[t->variable.p[v]];
        const char *module = t->image.p[m->image].number != CAP_NONE ? cap_image_name(t, m->image) : "";
        if (!strcmp(m->name, colon + 2) && strlen(module) == (size_t)(colon - name) &&
            !strncmp(name, module, (size_t)(colon - name)))
            return t->variable.p[v];
    }
    return CAP_NONE;
}

static int kernel_touches(struct cap_trace *t, struct cap_op *o, const json_t *prints)
{
    size_t i;
    const json_t *f;
    bool nomem = false;
    uint32_t image = t->entry.p[o->launch.function].image;
    json_array_foreach (prints, i, f) {
        const char *name = json_string_value(json_object_get(f, "buffer"));
        uint32_t mem = name ? memory_named(t, name) : CAP_NONE;
        struct cap_touch *x = mem == CAP_NONE ? NULL : touch_of(t, o, mem);
        if (!x)
            continue;
        part_read(&x->read, json_object_get(f, "read"), t->memory.p[mem].bytes, &nomem);
        part_read(&x->write, json_object_get(f, "write"), t->memory.p[mem].bytes, &nomem);
        part_read(&x->may, json_object_get(f, "may_write"), t->memory.p[mem].bytes, &nomem);
        coarsen(x, &nomem);
    }
    for (size_t v = 0; v < t->variable.n; v++) {
        uint32_t m = t->variable.p[v];
        struct cap_touch *x = t->memory.p[m].image == image && t->memory.p[m].constant ? touch_of(t, o, m) : NULL;
        if (x)
            whole(&x->read, t->memory.p[m].bytes, &nomem);
    }
    for (uint32_t k = 0; !json_is_array(prints) && k < o->npoint; k++) {
        struct cap_touch *x = touch_of(t, o, o->point[k].mem);
        if (x) {
            whole(&x->read, t->memory.p[x->mem].bytes, &nomem);
            whole(&x->may, t->memory.p[x->mem].bytes, &nomem);
        }
    }
    return nomem || dt_arena_failed(&t->arena) ? DT_E_NOMEM : 0;
}

static int plain_touches(struct cap_trace *t, struct cap_op *o)
{
    bool nomem = false;
    for (uint32_t k = 0; k < o->npoint; k++) {
        struct cap_touch *x = touch_of(t, o, o->point[k].mem);
        bool reads = o->kind == CAP_TAKE || (o->kind == CAP_DEVICE_COPY && k == 1);
        if (x)
            cap_set_add(reads ? &x->read : &x->write, o->point[k].off, o->point[k].off + o->bytes, &nomem);
    }
    return nomem || dt_arena_failed(&t->arena) ? DT_E_NOMEM : 0;
}

/* What memory holds after a run of cap_raw's document: `outputs` of `run` with dumps. */
int cap_contents(struct cap_trace *t, const json_t *outputs, struct dt_err *e)
{
    size_t i;
    const json_t *b;
    json_array_foreach (outputs, i, b) {
        const char *name = json_string_value(json_object_get(b, "buffer"));
        const json_t *data = json_object_get(b, "data");
        uint32_t mem = name ? memory_named(t, name) : CAP_NONE;
        size_t len = json_string_length(data), room = dt_base64_room(len);
        if (mem == CAP_NONE || !json_is_string(data) || room < t->memory.p[mem].bytes)
            continue;
        uint8_t *p = dt_calloc(1, room + 1);
        if (!p)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        if (dt_base64_decode(json_string_value(data), len, p) == (long)t->memory.p[mem].bytes) {
            free(t->memory.p[mem].content);
            t->memory.p[mem].content = p;
        } else
            free(p);
    }
    return 0;
}

/* What the analysis says of the arguments of a launch. */
static int decides_read(struct cap_trace *t, struct cap_op *o, const json_t *list)
{
    size_t i;
    const json_t *v;
    bool *yes = json_is_array(list) ? dt_new_array(&t->arena, bool, o->launch.nparam + 1) : NULL;
    if (yes)
        memset(yes, 0, (o->launch.nparam + 1) * sizeof *yes);
    json_array_foreach (yes ? list : NULL, i, v)
        if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < o->launch.nparam)
            yes[json_integer_value(v)] = true;
    o->decides = yes;
    return json_is_array(list) && !yes ? DT_E_NOMEM : 0;
}

int cap_touches(struct cap_trace *t, uint32_t begin, uint32_t end, const json_t *analysis, struct dt_err *e)
{
    const json_t *list = json_object_get(analysis, "launches");
    size_t at = 0;
    int err = 0;
    for (uint32_t i = begin; i < end && !err; i++) {
        struct cap_op *o = &t->op.p[i];
        if (o->kind == CAP_CUT)
            continue;
        err = o->kind == CAP_KERNEL ? kernel_touches(t, o, json_object_get(json_array_get(list, at), "footprints"))
                                    : plain_touches(t, o);
        if (!err && o->kind == CAP_KERNEL)
            err = decides_read(t, o, json_object_get(json_array_get(list, at), "decides"));
        at += o->kind != CAP_TAKE;
    }
    if (!err && at != json_array_size(list))
        return dt_err_set(e, DT_E_INTERNAL, "the analysis has %zu launches, the document %zu", json_array_size(list),
                          at);
    return err < 0 ? dt_err_set(e, err, "out of memory") : 0;
}
