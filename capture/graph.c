/* The result: the graph document of a range.
 *
 * Roles. What nothing writes is an input. What is written and needs content from before is inout. What is written
 * before it is read is an output if somebody outside reads it, and an intermediate if it is known that nobody does.
 * (`weight` and `constant` would be guesses: whether the content ever changes, one run does not say.)
 *
 * Contents. `all`: what was there. `indices`: of buffers of places (places.c), what was there; any other becomes a fill
 * by chance of the type that its bits look like, or zeros where they look like none.
 * `none`: zeros, which are places that exist. What was not recorded is zeros, too, and `captured.unknown` names it.
 *
 * Copies from the host and to it, where they are no content and no result (piece.c), become copy steps from buffers
 * hostN and to buffers takenN. What the program ordered is order.c's. `captured` says what no other member can: where
 * the graph comes from, which of the program's streams each launch was on, what the program got (SHA-256 of each copy
 * to the host).
 */
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/hash.h"
#include "base/str.h"
#include "capture/capture-priv.h"

struct writer {
    struct cap_trace *t;
    const struct cap_range *r;
    struct cap_pieces *p;
    const struct cap_about *about;
    json_t *modules, *buffers, *launches, *unknown, *taken, *streams, *waits, *names;
    struct cap_order_of *order;
    size_t extra;
    uint32_t nhost, ntaken;
};

/* ---- contents ---- */
/* Do nine of ten elements that are not 0 have an exponent of ordinary numbers? */
static bool exponents(const uint8_t *p, uint64_t n, unsigned bytes, unsigned shift, unsigned mask, unsigned lo,
                      unsigned hi)
{
    uint64_t fit = 0, all = 0;
    for (uint64_t i = 0; i + bytes <= n; i += bytes) {
        uint64_t v = 0;
        memcpy(&v, p + i, bytes);
        unsigned x = (unsigned)(v >> shift) & mask;
        all += v != 0;
        fit += v && x >= lo && x <= hi;
    }
    return all && fit * 10 >= all * 9;
}

static const char *looks_like(const uint8_t *p, uint64_t n)
{
    return exponents(p, n, 4, 23, 255, 87, 157)      ? "f32"
           : exponents(p, n, 8, 52, 2047, 983, 1053) ? "f64"
           : exponents(p, n, 2, 7, 255, 87, 157)     ? "bf16"
           : exponents(p, n, 2, 10, 31, 3, 22)       ? "f16"
                                                     : NULL;
}

static bool all_zero(const uint8_t *p, uint64_t n)
{
    uint64_t i = 0;
    while (i < n && !p[i])
        i++;
    return i == n;
}

static json_t *random_json(const struct writer *w, const char *type, bool whole)
{
    return json_pack("{s:[ii], s:s, s:i}", "uniform", whole ? -100 : -1, whole ? 100 : 1, "dtype", type, "seed",
                     (int)json_object_size(w->buffers));
}

static void content_json(struct writer *w, json_t *b, const char *name, const uint8_t *p, uint64_t n, bool known,
                         bool ours, enum cap_says says)
{
    bool there = p && known, zero = there && all_zero(p, n), whole = there && cap_whole_numbers(p, n);
    bool places = says == CAP_PLACES || (says == CAP_IN_DOUBT && whole);
    bool take = there && (ours || w->about->data == CAP_DATA_ALL || (places && w->about->data == CAP_DATA_INDICES));
    const char *type = there && !whole ? looks_like(p, n) : NULL;
    if (!take && !zero)
        json_array_append_new(w->unknown, json_string(name));
    if (take && !zero) {
        struct dt_str s = {0};
        dt_base64_encode(p, n, &s);
        json_object_set_new(b, "data", json_string(s.s ? s.s : ""));
        dt_str_done(&s);
    } else if (type && !zero)
        json_object_set_new(b, "fill", random_json(w, type, false));
    else if (whole && !zero && says == CAP_NUMBERS)
        json_object_set_new(b, "fill", random_json(w, "i32", true));
    else
        json_object_set_new(b, "fill", json_pack("{s:b}", "zero", 1));
}

static void buffer_json(struct writer *w, const struct cap_piece *p)
{
    const char *role = !p->written ? "input" : p->needs ? "inout" : p->outside ? "output" : "intermediate";
    json_t *b = json_pack("{s:I, s:s}", "bytes", (json_int_t)(p->hi - p->lo), "role", role);
    if (p->needs || !p->written)
        content_json(w, b, p->name, p->data, p->hi - p->lo, p->data && p->known, p->module, p->says);
    json_object_set_new(w->buffers, p->name, b);
}

/* ---- launches ---- */
static struct cap_place place_of(void *user, uint32_t op, uint32_t point)
{
    const struct writer *w = user;
    const struct cap_piece *p = &w->p->piece.p[w->p->of[op - w->r->begin][point]];
    return (struct cap_place){p->name, w->t->op.p[op].point[point].off - p->lo};
}

static const char *plain_name(struct cap_trace *t, const char *entry)
{
    char *end;
    unsigned long n = !strncmp(entry, "_Z", 2) ? strtoul(entry + 2, &end, 10) : 0;
    return n && n <= strlen(end) ? dt_arena_strndup(&t->arena, end, n) : entry;
}

static void launch_add(struct writer *w, uint32_t op, json_t *l, const char *name)
{
    json_int_t same =
        json_integer_value(json_object_get(w->names, name)) + 1; /* names are unique: the second is NAME-2 */
    json_object_set_new(w->names, name, json_integer(same));
    json_object_set_new(l, "name", same == 1 ? json_string(name) : json_sprintf("%s-%lld", name, (long long)same));
    json_array_append_new(w->launches, l);
    cap_order_launch(w->order, op);
}

static void copy_add(struct writer *w, uint32_t op, const char *from, uint64_t at, const char *to, uint64_t to_at,
                     uint64_t n, const char *name)
{
    launch_add(w, op,
               json_pack("{s:{s:{s:s, s:I}, s:{s:s, s:I}, s:I}}", "copy", "from", "buffer", from, "offset",
                         (json_int_t)at, "to", "buffer", to, "offset", (json_int_t)to_at, "bytes", (json_int_t)n),
               name);
}

static void taken_add(struct writer *w, const struct cap_extra *x, const char *buffer, uint64_t at)
{
    const struct cap_op *o = &w->t->op.p[x->op];
    char text[DT_SHA256_TEXT];
    json_t *b =
        json_pack("{s:s, s:I, s:I}", "buffer", buffer, "offset", (json_int_t)at, "bytes", (json_int_t)(x->hi - x->lo));
    if (o->data && dt_sha256_text(o->data + (x->lo - o->point[0].off), x->hi - x->lo, text) >= 0)
        json_object_set_new(b, "sha256", json_string(text));
    json_array_append_new(w->taken, b);
}

/* The parts of a copy from the host or to it. */
static void extras(struct writer *w, uint32_t op, const bool *used)
{
    const struct cap_op *o = &w->t->op.p[op];
    for (; w->extra < w->p->extra.n && w->p->extra.p[w->extra].op == op; w->extra++) {
        const struct cap_extra *x = &w->p->extra.p[w->extra];
        const struct cap_piece *p = &w->p->piece.p[x->piece];
        uint64_t n = x->hi - x->lo;
        if (!used[x->piece] || x->folded)
            continue;
        if (x->final && p->written) /* of an input the host got what it gave */
            taken_add(w, x, p->name, x->lo - p->lo);
        if (x->final)
            continue;
        bool give = o->kind == CAP_GIVE;
        const char *name =
            dt_arena_printf(&w->t->arena, "%s%u", give ? "host" : "taken", give ? w->nhost++ : w->ntaken++);
        json_t *b = json_pack("{s:I, s:s}", "bytes", (json_int_t)n, "role", give ? "input" : "output");
        if (give)
            content_json(w, b, name, o->data ? o->data + (x->lo - o->point[0].off) : NULL, n, o->data != NULL, o->ours,
                         p->says);
        json_object_set_new(w->buffers, name, b);
        if (give)
            copy_add(w, op, name, 0, p->name, x->lo - p->lo, n, "give");
        else {
            copy_add(w, op, p->name, x->lo - p->lo, name, 0, n, "take");
            taken_add(w, x, name, 0);
        }
    }
}

static void graph_steps(struct writer *w, const bool *used)
{
    for (uint32_t op = w->r->begin; op < w->r->end; op++) {
        const struct cap_op *o = &w->t->op.p[op];
        cap_order_begin(w->order, op);
        if (o->kind == CAP_GIVE || o->kind == CAP_TAKE)
            extras(w, op, used);
        else
            launch_add(w, op, cap_launch_json(w->t, op, place_of, w),
                       o->kind == CAP_KERNEL   ? plain_name(w->t, w->t->entry.p[o->launch.function].name)
                       : o->kind == CAP_MEMSET ? "memset"
                                               : "copy");
        cap_order_end(w->order, op);
    }
}

static json_t *cuts(const struct cap_trace *t)
{
    json_t *all = json_array(), *b = NULL;
    size_t k;
    for (size_t i = 0; i < t->op.n; i++) {
        if (t->op.p[i].kind != CAP_CUT)
            continue;
        json_array_foreach (all, k, b)
            if (!strcmp(json_string_value(json_object_get(b, "why")), t->op.p[i].why))
                break;
        if (k < json_array_size(all))
            json_object_set_new(b, "times", json_integer(json_integer_value(json_object_get(b, "times")) + 1));
        else if (k < 256)
            json_array_append_new(all, json_pack("{s:s, s:i}", "why", t->op.p[i].why, "times", 1));
    }
    return all;
}

json_t *cap_graph(struct cap_trace *t, const struct cap_range *r, struct cap_pieces *p, const struct cap_about *about,
                  struct dt_err *e)
{
    static const char *const kept[] = {"none", "indices", "all"};
    struct writer w = {.t = t,
                       .r = r,
                       .p = p,
                       .about = about,
                       .modules = cap_modules_json(t, r->begin, r->end),
                       .buffers = json_object(),
                       .launches = json_array(),
                       .unknown = json_array(),
                       .taken = json_array(),
                       .streams = json_array(),
                       .waits = json_array(),
                       .names = json_object(),
                       .order = cap_order_new(t, r->end - r->begin + (uint32_t)p->extra.n)};
    bool *used = dt_new_array(&t->arena, bool, p->piece.n + 1);
    cap_places(t, r, p);
    memset(used, 0, (p->piece.n + 1) * sizeof *used);
    for (uint32_t i = r->begin; i < r->end; i++)
        for (uint32_t k = 0; k < t->op.p[i].npoint; k++)
            if (p->of[i - r->begin][k] != CAP_NONE)
                used[p->of[i - r->begin][k]] = true;
    for (size_t i = 0; i < p->piece.n; i++) {
        const struct cap_piece *x = &p->piece.p[i];
        bool variable = t->memory.p[x->mem].image != CAP_NONE;
        used[i] = used[i] || variable;
        if (used[i] &&
            !(variable && x->module && !x->written)) /* else it is as its module has it, and needs no buffer */
            buffer_json(&w, &p->piece.p[i]);
    }
    if (w.order)
        graph_steps(&w, used);
    bool ordered = w.order && cap_order_put(w.order, w.launches, w.streams, w.waits);
    w.order = w.order ? cap_order_free(w.order) : NULL;
    json_t *step = r->period
                       ? json_pack("{s:i, s:i, s:i}", "begin", r->begin, "operations", r->period, "passes", r->passes)
                       : json_null();
    json_t *doc = json_pack("{s:i, s:s, s:o, s:o, s:o, s:{s:s, s:s, s:o, s:b, s:i, s:o, s:o, s:o, s:o, s:o}}",
                            "dovetail", 1, "name", about->program, "modules", w.modules, "buffers", w.buffers,
                            "launches", w.launches, "captured", "program", about->program, "data", kept[about->data],
                            "step", step, "ended", t->ended, "cut_off", r->cut, "cut", cuts(t), "unknown", w.unknown,
                            "taken", w.taken, "streams", w.streams, "after", w.waits);
    json_decref(w.names);
    cap_pieces_done(p);
    if (!doc || !ordered || dt_arena_failed(&t->arena)) {
        json_decref(doc);
        dt_err_set(e, DT_E_NOMEM, "out of memory");
        return NULL;
    }
    return doc;
}
