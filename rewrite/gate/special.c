/* Special values for verification: which values there are, where in a buffer they go, and which buffers get them.
 *
 * Which values. Each float type has small values (both zeros, subnormals, the smallest normal numbers, ones), large
 * values (the largest numbers), infinities, and NaNs (quiet and signalling, with payloads). Integers have the ends of
 * their range and the numbers beside them. A buffer of unknown type gets values of 2, 4 and 8 bytes, each aligned to
 * its size.
 *
 * Where. Special values are sparse; other elements keep what the document fills in. A buffer that the document leaves
 * empty (all bytes 0xFF) is first filled with ordinary numbers. Small values are at one element of 37. One NaN makes a
 * whole row or column of a matrix product NaN, so the other sorts are rarer: their count is a quarter of the square
 * root of the number of elements. Each value occurs at least once where there is room.
 *
 * Which buffers. Inputs, inouts and weights, except constants. A buffer whose values may reach addresses or trip
 * counts (contents.c) keeps its fill, unless its type is a float type. On a real device a kernel that hangs ends the
 * process. So there a buffer of any type keeps its fill if its values may reach an address or a branch.
 *
 * The original decides what stays (rw_special_search). Values with which it faults or hangs are dropped. First all
 * values are tried together. If that fails, they are added in halves to those that are there already; a half that fails
 * is halved again. So the values that are left have run together. Values that turn nearly all of an output into NaN
 * show nothing and hide the rest. Then large values, infinities and NaNs are dropped from half of the buffers that have
 * them, those used first, and again from half of the rest; with few runs left from all but the last sixteenth, and from
 * all with the last one. The original's work bounds the number of runs; no clock is read.
 */
#include "rewrite/gate/special.h"

#include <stdlib.h>
#include <string.h>

#include "base/large.h"

#define TRIES 24                       /* most runs of the original in one planning */
#define TRY_WORK UINT64_C(20000000000) /* most thread-instructions of them all; TRIES_LEAST are always run */
#define TRIES_LEAST 4
#define SPARSE 37 /* one element of so many gets a small value */
#define HARD (RW_SPECIAL_LARGE | RW_SPECIAL_INFINITE | RW_SPECIAL_NAN)

struct values {
    uint32_t n;
    uint64_t v[12];
};
enum { SMALL, LARGE, INFINITE, NANS, SORTS };

static const struct values table[RW_KINDS][SORTS] = {
    [RW_KIND_F64] = {{11,
                      {0, UINT64_C(1) << 63, 1, 0x8000000000000001, 0x000FFFFFFFFFFFFF, 0x800FFFFFFFFFFFFF,
                       0x0010000000000000, 0x8010000000000000, 0x3FF0000000000000, 0xBFF0000000000000,
                       0x3FF0000000000001}},
                     {4, {0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x7E37E43C8800759C, 0xFE37E43C8800759C}},
                     {2, {0x7FF0000000000000, 0xFFF0000000000000}},
                     {6,
                      {0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8123456789ABC, 0xFFF4000000000000,
                       0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF}}},
    [RW_KIND_F32] = {{11,
                      {0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000, 0x3F800000,
                       0xBF800000, 0x3F800001}},
                     {4, {0x7F7FFFFF, 0xFF7FFFFF, 0x7149F2CA, 0xF149F2CA}},
                     {2, {0x7F800000, 0xFF800000}},
                     {6, {0x7FC00000, 0x7F800001, 0xFFC12345, 0xFFA00000, 0x7FFFFFFF, 0xFFFFFFFF}}},
    [RW_KIND_F16] = {{11, {0, 0x8000, 1, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x3C00, 0xBC00, 0x3C01}},
                     {2, {0x7BFF, 0xFBFF}},
                     {2, {0x7C00, 0xFC00}},
                     {6, {0x7E00, 0x7C01, 0xFE12, 0xFD00, 0x7FFF, 0xFFFF}}},
    [RW_KIND_BF16] = {{11, {0, 0x8000, 1, 0x8001, 0x007F, 0x807F, 0x0080, 0x8080, 0x3F80, 0xBF80, 0x3F81}},
                      {4, {0x7F7F, 0xFF7F, 0x7149, 0xF149}},
                      {2, {0x7F80, 0xFF80}},
                      {6, {0x7FC0, 0x7F81, 0xFFC5, 0xFFA0, 0x7FFF, 0xFFFF}}},
    [RW_KIND_E4M3] = {{8, {0, 0x80, 1, 0x81, 7, 8, 0x38, 0xB8}}, {2, {0x7E, 0xFE}}, {0}, {2, {0x7F, 0xFF}}},
    [RW_KIND_E5M2] = {{8, {0, 0x80, 1, 0x81, 3, 4, 0x3C, 0xBC}},
                      {2, {0x7B, 0xFB}},
                      {2, {0x7C, 0xFC}},
                      {4, {0x7E, 0x7D, 0xFF, 0xFD}}},
};
static const enum rw_kind unknown[] = {RW_KIND_F32, RW_KIND_F16, RW_KIND_F64, RW_KIND_BF16};

/* Special integer number `which`: ends of the range, signed and unsigned, and their neighbours. */
static uint64_t special_whole(enum rw_kind k, uint64_t which)
{
    unsigned bits = 8 * rw_kind_bytes(k);
    uint64_t low = UINT64_C(1) << (bits - 1);
    const uint64_t v[] = {low,
                          low - 1,
                          UINT64_MAX,
                          0,
                          low + 1,
                          1,
                          low - 2,
                          UINT64_MAX - 1,
                          UINT64_C(1) << (bits / 2),
                          (UINT64_C(1) << (bits / 2)) - 1};
    return v[which % (sizeof v / sizeof *v)];
}

static uint32_t how_many(enum rw_kind k, int sort)
{
    if (k >= RW_KIND_I64)
        return sort == SMALL ? 10 : 0;
    if (k != RW_KIND_UNKNOWN)
        return table[k][sort].n;
    uint32_t n = 0;
    for (unsigned i = 0; i < sizeof unknown / sizeof *unknown; i++)
        n += table[unknown[i]][sort].n;
    return n;
}

/* Special value number `which` of a sort. Returns its size in bytes. */
static unsigned special_one(enum rw_kind k, int sort, uint64_t which, uint64_t *ret)
{
    const unsigned nunknown = sizeof unknown / sizeof *unknown;
    if (k >= RW_KIND_I64) {
        *ret = special_whole(k, which);
        return rw_kind_bytes(k);
    }
    if (k == RW_KIND_UNKNOWN) {
        k = unknown[which % nunknown];
        which /= nunknown;
    }
    *ret = table[k][sort].v[which % table[k][sort].n];
    return rw_kind_bytes(k);
}

static uint64_t root(uint64_t n)
{
    uint64_t r = 0;
    for (uint64_t b = UINT64_C(1) << 31; b; b >>= 1)
        if ((r + b) * (r + b) <= n)
            r += b;
    return r;
}

/* Put values of one sort into the bytes at p. */
static void scatter(uint8_t *p, uint64_t bytes, enum rw_kind k, int sort, uint64_t seed)
{
    uint64_t n = bytes / rw_kind_bytes(k), least = how_many(k, sort), most = n / (sort == SMALL ? 4 : 16);
    if (!n || !least)
        return;
    /* an unknown kind has values of four kinds, of which one may be right: four times as many */
    uint64_t count = sort == SMALL ? n / SPARSE : root(n) / (k == RW_KIND_UNKNOWN ? 1 : 4);
    count = count < least ? least : count;
    count = count > most ? most : count;
    if (!count)
        count = 1;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t v, z = dt_splitmix64(seed, i * SORTS + (uint64_t)sort);
        unsigned size = special_one(k, sort, i + seed, &v);
        memcpy(p + z % (bytes / size) * size, &v, size);
    }
}

/* What the buffer holds before special values: its fill, or ordinary numbers if the document leaves it empty. */
static void ordinary(const struct dt_buffer *b, enum rw_kind k, uint64_t seed_add, uint8_t *out)
{
    static const enum dt_dtype type[RW_KINDS] = {DT_F32, DT_F64, DT_F32, DT_F16, DT_BF16, DT_U8,
                                                 DT_U8,  DT_I64, DT_I32, DT_I16, DT_I8};
    if (b->fill.kind != DT_FILL_NONE) {
        dt_fill_bytes(b, seed_add, out);
        return;
    }
    struct dt_buffer like = *b;
    bool bytes = type[k] == DT_U8, real = type[k] >= DT_F16;
    like.bytes = b->bytes / dt_dtype_bytes(type[k]) * dt_dtype_bytes(type[k]);
    like.fill = (struct dt_fill){.kind = DT_FILL_UNIFORM,
                                 .lo = bytes  ? 0
                                       : real ? -1
                                              : -100,
                                 .hi = bytes  ? 0x50
                                       : real ? 1
                                              : 100,
                                 .dtype = type[k],
                                 .seed = b->bytes};
    memset(out, 0, b->bytes);
    dt_fill_bytes(&like, seed_add, out);
}

void rw_special_put(const struct rw_special *s, uint32_t buffer, uint8_t *p, uint64_t seed, unsigned sorts)
{
    for (int sort = 0; sort < SORTS; sort++)
        if (s->sorts[buffer] & sorts & 1u << sort)
            scatter(p, s->graph->buffer[buffer].bytes, s->kind[buffer], sort, seed + buffer);
}

int rw_special_upload(const struct rw_special *s, struct dev_run *run, const struct dt_graph *g, uint64_t seed_add,
                      unsigned sorts, struct dt_err *e)
{
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t k = s->buffer[i], to = dt_graph_find_buffer(g, s->graph->buffer[k].name);
        const struct dt_buffer *b = &s->graph->buffer[k];
        if (!(s->sorts[k] & sorts) || to == DT_NAME_NONE || g->buffer[to].bytes != b->bytes)
            continue;
        dt_large_ uint8_t *p = dt_large_get(b->bytes + 8);
        if (!p)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        ordinary(b, s->kind[k], seed_add, p);
        rw_special_put(s, k, p, seed_add, sorts);
        int r = dev_run_upload(run, to, p, e);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- which buffers ----------------------------------------------------------------------------------------------- */

struct uses {
    struct rw_special *s;
    bool *seen;
};

static void special_used(struct uses *u, uint32_t k)
{
    if (!u->seen[k]) {
        u->seen[k] = true;
        if (u->s->sorts[k])
            u->s->buffer[u->s->n++] = k;
    }
}

static void by_first_use(struct uses *u, const struct dt_graph *g)
{
    for (uint32_t l = 0; l < g->nlaunch; l++) {
        const struct dt_launch *x = &g->launch[l];
        if (x->kind == DT_COPY)
            special_used(u, x->src);
        for (uint32_t k = 0; x->kind == DT_KERNEL && k < x->narg; k++) {
            if (x->arg[k].kind == DT_ARG_BUFFER || x->arg[k].kind == DT_ARG_TENSOR_MAP)
                special_used(u, x->arg[k].buffer);
            for (uint32_t i = 0; x->arg[k].kind == DT_ARG_BYTES && i < x->arg[k].npointer; i++)
                special_used(u, x->arg[k].pointer[i].buffer);
        }
    }
    for (uint32_t k = 0; k < g->nbuffer; k++) /* module variables are named by no argument */
        if (g->buffer[k].module >= 0)
            special_used(u, k);
}

static bool takes(const struct dt_buffer *b, bool inner)
{
    return b->bytes && !b->constant && (inner || b->role == DT_INPUT || b->role == DT_INOUT || b->role == DT_WEIGHT);
}

int rw_special_new(const struct dev_prog *original, bool soft, bool inner, struct rw_special **ret, struct dt_err *e)
{
    const struct dt_graph *g = original->graph;
    struct rw_special *s = dt_calloc(1, sizeof *s);
    if (!s)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    s->graph = g;
    s->tries = TRIES;
    s->buffer = dt_new_array(&s->arena, uint32_t, g->nbuffer + 1);
    s->kind = dt_new_array(&s->arena, enum rw_kind, g->nbuffer + 1);
    s->range = dt_new_array(&s->arena, bool, g->nbuffer + 1);
    s->sorts = dt_new_array(&s->arena, uint8_t, g->nbuffer + 1);
    s->dropped = (const char **)dt_new_array(&s->arena, char *, g->nbuffer + 1);
    bool *seen = dt_new_array(&s->arena, bool, g->nbuffer + 1);
    struct rw_contents *c = dt_new_array(&s->arena, struct rw_contents, g->nbuffer + 1);
    int r = s->buffer && s->kind && s->range && s->sorts && s->dropped && seen && c
                ? rw_contents(original, c, e)
                : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r < 0) {
        rw_special_free(s);
        return r;
    }
    for (uint32_t k = 0; k < g->nbuffer; k++) {
        bool decides = c[k].addresses || c[k].trips || (!soft && c[k].branches);
        s->kind[k] = c[k].kind;
        s->range[k] = takes(&g->buffer[k], inner) && decides && (!soft || !rw_kind_is_float(c[k].kind));
        for (int sort = 0; takes(&g->buffer[k], inner) && !s->range[k] && sort < SORTS; sort++)
            if (how_many(c[k].kind, sort))
                s->sorts[k] |= (uint8_t)(1u << sort);
    }
    by_first_use(&(struct uses){s, seen}, g);
    *ret = s;
    return 0;
}

struct rw_special *rw_special_free(struct rw_special *s)
{
    if (s)
        dt_arena_done(&s->arena);
    free(s);
    return NULL;
}

void rw_special_work(struct rw_special *s, uint64_t instructions)
{
    uint64_t n = instructions ? TRY_WORK / instructions : TRIES;
    s->tries = n > TRIES ? TRIES : n < TRIES_LEAST ? TRIES_LEAST : (unsigned)n;
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

struct unit { /* a sort of values in a buffer */
    uint32_t buffer;
    uint8_t sort;
};
struct search {
    struct rw_special *s;
    rw_special_run run;
    void *user;
    struct unit *unit;
    bool flooded, current; /* the last run flooded an output; it ran what is on now */
    const char *why;
};

static const char *fault(int r)
{
    return r == DT_E_TRAP                                                 ? "trap"
           : r == DT_E_RACE                                               ? "race"
           : r == DT_E_DEADLOCK || r == DT_E_TIMEOUT || r == DT_E_BARRIER ? "hang"
                                                                          : "fault";
}

static bool is_fault(int r)
{
    return r == DT_E_BOUNDS || r == DT_E_TRAP || r == DT_E_DEADLOCK || r == DT_E_RACE || r == DT_E_BARRIER ||
           r == DT_E_TIMEOUT || r == DT_E_UNINIT;
}

/* Run the original once. 0: no fault; 1: a fault, named in x->why; negative: error. */
static int once(struct search *x, struct dt_err *e)
{
    struct dt_err mine = {0};
    if (x->s->tries)
        x->s->tries--;
    int r = x->run(x->user, &x->flooded, &mine);
    x->current = r == 0;
    if (is_fault(r)) {
        x->why = fault(r);
        dt_err_done(&mine);
        return 1;
    }
    dt_err_move(e, &mine);
    return r;
}

static void special_set(struct search *x, size_t lo, size_t hi, bool on)
{
    for (size_t k = lo; k < hi; k++) {
        uint8_t *sorts = &x->s->sorts[x->unit[k].buffer];
        *sorts = (uint8_t)(on ? *sorts | x->unit[k].sort : *sorts & ~x->unit[k].sort);
    }
}

/* Units lo … hi - 1 are off, since with them the original had a fault. Turn on those that cause none. */
static int halves(struct search *x, size_t lo, size_t hi, struct dt_err *e)
{
    if (hi - lo == 1 || x->s->tries < 2) { /* the last try is for the units that stay on */
        for (size_t k = lo; k < hi; k++)
            x->s->dropped[x->unit[k].buffer] = x->why;
        return 0;
    }
    size_t mid = lo + (hi - lo) / 2, end[] = {lo, mid, hi};
    for (int h = 0; h < 2; h++) {
        special_set(x, end[h], end[h + 1], true);
        int r = x->s->tries < 2 ? 1 : once(x, e);
        if (r == 1) {
            x->current = false;
            special_set(x, end[h], end[h + 1], false);
            r = halves(x, end[h], end[h + 1], e);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

/* While an output is flooded, drop the HARD sorts from the first half of the buffers that still have some. */
static int thin(struct search *x, struct dt_err *e)
{
    struct rw_special *s = x->s;
    while (x->flooded && s->tries) {
        uint32_t some = 0, gone = 0;
        for (uint32_t i = 0; i < s->n; i++)
            some += (s->sorts[s->buffer[i]] & HARD) != 0;
        uint32_t stay = s->tries > TRIES_LEAST ? some / 2 : s->tries > 1 ? some / 16 : 0;
        for (uint32_t i = 0; i < s->n && gone < some - stay; i++)
            if (s->sorts[s->buffer[i]] & HARD) {
                s->sorts[s->buffer[i]] &= (uint8_t)~HARD;
                s->dropped[s->buffer[i]] = s->dropped[s->buffer[i]] ? s->dropped[s->buffer[i]] : "spreads";
                gone++;
            }
        if (!gone)
            return 0;
        int r = once(x, e);
        if (r)
            return r;
    }
    return 0;
}

int rw_special_search(struct rw_special *s, unsigned sorts, rw_special_run run, void *user, struct dt_err *e)
{
    struct search x = {.s = s, .run = run, .user = user, .unit = dt_calloc((size_t)s->n * SORTS + 1, sizeof *x.unit)};
    size_t n = 0;
    if (!x.unit)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < s->n; i++)
        for (int sort = 0; sort < SORTS; sort++)
            if (s->sorts[s->buffer[i]] & sorts & 1u << sort)
                x.unit[n++] = (struct unit){s->buffer[i], (uint8_t)(1u << sort)};
    int r = once(&x, e);
    if (r == 1 && n) {
        special_set(&x, 0, n, false);
        r = halves(&x, 0, n, e);
        if (r == 0 && !x.current)
            r = once(&x, e);
    }
    if (r == 0 && sorts & HARD && x.flooded)
        r = thin(&x, e);
    free(x.unit);
    return r == 1 ? dt_err_set(e, DT_E_BOUNDS, "the posted launches do not take this input") : r;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static bool wild(enum rw_kind k, const uint8_t *p)
{
    uint64_t v = 0, most = k == RW_KIND_UNKNOWN ? 0 : table[k][INFINITE].n ? table[k][INFINITE].v[0] : 0x7F;
    memcpy(&v, p, rw_kind_bytes(k));
    return most && (v & ((UINT64_C(1) << (8 * rw_kind_bytes(k) - 1)) - 1)) >= most;
}

bool rw_special_flooded(const struct rw_special *s, uint32_t buffer, const uint8_t *p)
{
    enum rw_kind k = s->kind[buffer] == RW_KIND_UNKNOWN ? RW_KIND_F32 : s->kind[buffer];
    uint64_t n = s->graph->buffer[buffer].bytes / rw_kind_bytes(k), some = 0;
    if (!rw_kind_is_float(k))
        return false;
    for (uint64_t i = 0; i < n; i++)
        some += wild(k, p + i * rw_kind_bytes(k));
    return n && some > n - n / 16 - 1;
}

static json_t *special_dropped(const struct rw_special *s, uint32_t k)
{
    static const char *const text[SORTS] = {"small", "large", "infinite", "nan"};
    struct dt_str t = {0};
    dt_str_add(&t, s->dropped[k]);
    for (int sort = 0, n = 0; s->sorts[k] && sort < SORTS; sort++)
        if (how_many(s->kind[k], sort) && !(s->sorts[k] & 1u << sort))
            dt_str_addf(&t, "%s%s", n++ ? ", " : ": ", text[sort]);
    json_t *v = t.failed || !t.s ? NULL : json_string(t.s);
    dt_str_done(&t);
    return v;
}

json_t *rw_special_json(const struct rw_special *s)
{
    json_t *gone = json_object(), *range = json_array();
    json_int_t some = 0;
    bool ok = gone && range;
    for (uint32_t k = 0; ok && k < s->graph->nbuffer; k++) {
        const char *name = s->graph->buffer[k].name;
        if (s->dropped[k])
            ok = json_object_set_new(gone, name, special_dropped(s, k)) == 0;
        if (ok && s->range[k])
            ok = json_array_append_new(range, json_string(name)) == 0;
    }
    for (uint32_t i = 0; i < s->n; i++)
        some += s->sorts[s->buffer[i]] != 0;
    json_t *o = ok ? json_pack("{s:I,s:O,s:O}", "buffers", some, "dropped", gone, "range", range) : NULL;
    json_decref(gone);
    json_decref(range);
    return o;
}
