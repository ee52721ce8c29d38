/* Versions: an intermediate that is wholly overwritten before it is read again becomes a buffer of its own.
 *
 *   posted    a → pool[0, 4K)   b reads it   c → pool[0, 4K)   d reads it      c waits for b, which has nothing for it
 *   versions  a → v0            b reads v0   c → v1            d reads v1      c waits for nobody
 *
 * Generators lay intermediates out by liveness in one memory pool, so that whatever is far apart hangs together by
 * hazards that carry no data. Compilers know this as renaming by webs. Here a web is a set of pointers: every pointer
 * of a launch is in one web, and its web is one version. Byte by byte, over the launches in order:
 *
 *   a byte that a pointer reads joins its web with that of the pointer which wrote the byte last
 *   a byte that it writes perhaps, joins them too: what was there may stay
 *   a byte that it writes for certain, and does not read, begins anew
 *
 * So a version holds every byte that any of its launches touches (overreads too), at the same distances as before, and
 * a partial overwrite whose neighbours are read along with it continues the version. What nobody wrote before it is
 * read stays where it was posted. Only must-writes begin a version; the analysis gives them, for all blocks of a
 * launch (docs/LEGALITY.md).
 *
 * Which of several pointers into one buffer a byte was reached by, the footprints do not say. It is taken to be the
 * nearest pointer at or below it, and that is checked afterwards: the graph with versions is analysed in turn, where a
 * pointer reaches only what its version holds, and every block must touch just the bytes that it touched before
 * (rw_versions_same). Addresses are pointers plus what does not depend on pointers, else the analysis is not `proved`,
 * so a byte that was given to the wrong pointer is missing there, or out of bounds.
 *
 * Not done: for outputs, for module variables, for buffers with accesses at data-dependent addresses to any of their
 * bytes (all that is alive then becomes one version), for plans, and beyond MOST bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "rewrite/emit/emit.h"
#include "rewrite/facts/hooks.h"
#include "rewrite/normal/normal.h"

#include "base/subject.h"

#define MOST (UINT64_C(2) << 30) /* bytes of all versions */
#define ALIGN 256                /* a version begins at a multiple of this in its posted buffer, as buffers do */

/* ---- pointers ---------------------------------------------------------------------------------------------------- */

int rw_pointers_of(const struct dt_graph *g, struct rw_pointers *ret, struct dt_err *e)
{
    bool ok = true;
    memset(ret, 0, sizeof *ret);
    for (uint32_t l = 0; ok && l < g->nlaunch; l++) {
        const struct dt_launch *x = &g->launch[l];
        uint32_t n = 0;
        if (x->kind != DT_KERNEL) {
            ok = dt_push(&ret->v, (struct rw_pointer){l, n++, x->dst, x->dst_offset, false, true}) &&
                 (x->kind != DT_COPY ||
                  dt_push(&ret->v, (struct rw_pointer){l, n++, x->src, x->src_offset, true, false}));
            continue;
        }
        for (uint32_t k = 0; ok && k < x->narg; k++) {
            const struct dt_arg *a = &x->arg[k];
            if (a->kind == DT_ARG_BUFFER || a->kind == DT_ARG_TENSOR_MAP)
                ok = dt_push(&ret->v, (struct rw_pointer){l, n++, a->buffer, a->offset, true, true});
            for (uint32_t i = 0; ok && a->kind == DT_ARG_BYTES && i < a->npointer; i++)
                ok = dt_push(&ret->v,
                             (struct rw_pointer){l, n++, a->pointer[i].buffer, a->pointer[i].offset, true, true});
        }
    }
    return ok ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

/* The launch with its pointers from buffer[] and offset[], as a document. */
static json_t *pointed(const struct dt_graph *g, uint32_t launch, const uint32_t *buffer, const uint64_t *offset)
{
    struct dt_launch x = g->launch[launch];
    struct dt_arena a = {0};
    uint32_t n = 0;
    json_t *o = NULL;
    if (x.kind == DT_KERNEL) {
        struct dt_arg *arg = dt_new_array(&a, struct dt_arg, (size_t)x.narg + 1);
        for (uint32_t k = 0; arg && k < x.narg; k++) {
            arg[k] = x.arg[k];
            if (arg[k].kind == DT_ARG_BUFFER || arg[k].kind == DT_ARG_TENSOR_MAP) {
                arg[k].buffer = buffer[n];
                arg[k].offset = offset[n++];
            }
            if (arg[k].kind != DT_ARG_BYTES || !arg[k].npointer)
                continue;
            struct dt_patch *p = dt_new_array(&a, struct dt_patch, arg[k].npointer);
            for (uint32_t i = 0; p && i < arg[k].npointer; i++, n++)
                p[i] = (struct dt_patch){x.arg[k].pointer[i].at, buffer[n], offset[n]};
            arg[k].pointer = p;
        }
        x.arg = arg;
    } else {
        x.dst = buffer[0];
        x.dst_offset = offset[0];
        if (x.kind == DT_COPY) {
            x.src = buffer[1];
            x.src_offset = offset[1];
        }
    }
    if (!dt_arena_failed(&a))
        o = dt_launch_to_json(g, &x);
    dt_arena_done(&a);
    return o;
}

json_t *rw_pointers_graph(const struct dev_prog *p, const struct rw_pointers *at, const uint32_t *buffer,
                          const uint64_t *offset, const struct rw_storage *add, uint32_t nadd)
{
    struct dt_graph g = *p->graph;
    uint32_t nbuffer = g.nbuffer;
    bool *used = dt_calloc((size_t)nbuffer + nadd + 1, sizeof *used);
    struct dt_buffer *all = dt_calloc((size_t)nbuffer + nadd + 1, sizeof *all);
    json_t *doc = rw_graph_frame(p, NULL, NULL), *list = json_array(), *scratch = json_object();
    bool ok = used && all && doc && list && scratch;
    if (ok && nbuffer)
        memcpy(all, g.buffer, nbuffer * sizeof *all);
    for (uint32_t k = 0; ok && k < nadd; k++)
        all[nbuffer + k] =
            (struct dt_buffer){.name = add[k].name, .bytes = add[k].hi - add[k].lo, .role = DT_SCRATCH, .module = -1};
    g.buffer = all;
    for (size_t k = 0; ok && k < at->v.n; k++)
        used[buffer[k]] = true;
    for (uint32_t k = 0; ok && k < nbuffer + nadd; k++)
        if (all[k].role == DT_SCRATCH && used[k]) {
            json_t *o = k < nbuffer ? dt_buffer_to_json(p->graph, &all[k])
                                    : json_pack("{s:I}", "bytes", (json_int_t)all[k].bytes);
            ok = o && json_object_set_new(scratch, all[k].name, o) == 0;
        }
    ok = ok && (json_object_size(scratch) ? json_object_set(doc, "scratch", scratch) == 0
                                          : (json_object_del(doc, "scratch"), true));
    for (uint32_t l = 0, n = 0; ok && l < g.nlaunch; l++) {
        ok = json_array_append_new(list, pointed(&g, l, buffer + n, offset + n)) == 0;
        while (n < at->v.n && at->v.p[n].launch == l)
            n++;
    }
    ok = ok && json_object_set(doc, "launches", list) == 0;
    json_decref(list);
    json_decref(scratch);
    free(all);
    free(used);
    if (!ok) {
        json_decref(doc);
        return NULL;
    }
    return doc;
}

/* ---- who wrote which bytes last ---------------------------------------------------------------------------------- */

struct segment {
    uint64_t lo, hi;
    uint32_t who;
};
struct bytes_of { /* of one buffer: segments from 0 to its end */
    struct dt_vec(struct segment) v;
};

/* The first segment that ends behind the byte. */
static size_t segment_at(const struct bytes_of *b, uint64_t at)
{
    size_t k = 0;
    for (size_t n = b->v.n; n;) {
        size_t half = n / 2;
        if (b->v.p[k + half].hi <= at) {
            k += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return k;
}

/* [lo, hi) is somebody's from here on. False: memory. */
static bool segment_put(struct bytes_of *b, uint64_t lo, uint64_t hi, uint32_t who)
{
    size_t first = segment_at(b, lo), last = first, n = 0; /* last: the first one behind hi */
    while (last < b->v.n && b->v.p[last].lo < hi)
        last++;
    if (first == last)
        return true;
    if (!dt_reserve(&b->v, b->v.n + 2))
        return false;
    struct segment head = b->v.p[first], tail = b->v.p[last - 1], now[3];
    if (head.lo < lo)
        now[n++] = (struct segment){head.lo, lo, head.who};
    now[n++] = (struct segment){lo, hi, who};
    if (tail.hi > hi)
        now[n++] = (struct segment){hi, tail.hi, tail.who};
    memmove(b->v.p + first + n, b->v.p + last, (b->v.n - last) * sizeof *b->v.p);
    memcpy(b->v.p + first, now, n * sizeof *now);
    b->v.n = b->v.n - (last - first) + n;
    return true;
}

/* ---- webs -------------------------------------------------------------------------------------------------------- */

struct webs {
    const struct dt_graph *g;
    const struct ana_result *ana;
    const struct rw_pointers *at;
    uint32_t *up;           /* union-find over nbuffer roots (what nobody wrote), then pointers */
    uint64_t *lo, *hi;      /* by web: bytes that its pointers reach, they themselves included */
    bool *whole;            /* by buffer: it is left as it is */
    struct bytes_of *bytes; /* by buffer */
    struct dt_arena arena;
    bool failed;
};

static uint32_t web_of(struct webs *w, uint32_t x)
{
    while (w->up[x] != x)
        x = w->up[x] = w->up[w->up[x]];
    return x;
}

/* The lower number stays, so that the bytes nobody wrote stay theirs. */
static void join(struct webs *w, uint32_t x, uint32_t y)
{
    x = web_of(w, x);
    y = web_of(w, y);
    if (x != y)
        w->up[x > y ? x : y] = x > y ? y : x;
}

/* Join pointer `web` with whoever wrote [lo, hi) of the buffer. */
static void comes_from(struct webs *w, uint32_t buffer, uint64_t lo, uint64_t hi, uint32_t web)
{
    const struct bytes_of *b = &w->bytes[buffer];
    for (size_t k = segment_at(b, lo); k < b->v.n && b->v.p[k].lo < hi && !RW_SPOILT("versions"); k++)
        join(w, web, b->v.p[k].who);
}

/* [lo, hi) of the buffer is the web's from here on. */
static void begins(struct webs *w, uint32_t buffer, uint64_t lo, uint64_t hi, uint32_t web)
{
    w->failed |= !segment_put(&w->bytes[buffer], lo, hi, web);
}

typedef void (*piece_fn)(struct webs *w, uint32_t buffer, uint64_t lo, uint64_t hi, uint32_t web);

/* Call fn with the bytes of `set` by the pointer that they are taken to be reached by: the nearest one at or below, of
 * those that read, or write; the lowest one, if there is none below. First and last are the launch's pointers. False:
 * it has none. */
static bool by_pointer(struct webs *w, uint32_t buffer, struct ana_set set, size_t first, size_t last, bool writes,
                       piece_fn fn)
{
    const struct rw_pointer *p = w->at->v.p;
    for (uint32_t k = 0; k < set.n; k++)
        for (uint64_t lo = set.iv[k].lo, hi; lo < set.iv[k].hi; lo = hi) {
            size_t best = SIZE_MAX;
            uint64_t next = UINT64_MAX;
            for (size_t i = first; i < last; i++) {
                if (p[i].buffer != buffer || !(writes ? p[i].writes : p[i].reads))
                    continue;
                if (p[i].offset > lo && p[i].offset < next)
                    next = p[i].offset;
                bool below = p[i].offset <= lo;
                if (best == SIZE_MAX || (below ? p[best].offset > lo || p[i].offset > p[best].offset
                                               : p[best].offset > lo && p[i].offset < p[best].offset))
                    best = i;
            }
            if (best == SIZE_MAX)
                return false;
            hi = next < set.iv[k].hi && p[best].offset <= lo ? next : set.iv[k].hi;
            uint32_t web = w->g->nbuffer + (uint32_t)best;
            w->lo[web] = lo < w->lo[web] ? lo : w->lo[web];
            w->hi[web] = hi > w->hi[web] ? hi : w->hi[web];
            if (fn)
                fn(w, buffer, lo, hi, web);
        }
    return true;
}

/* Pointers of the launch to the same place are one: which of them an access goes by does not matter. */
static void same_places(struct webs *w, size_t first, size_t last)
{
    const struct rw_pointer *p = w->at->v.p;
    for (size_t i = first; i < last; i++)
        for (size_t k = first; k < i; k++)
            if (p[k].buffer == p[i].buffer && p[k].offset == p[i].offset)
                join(w, w->g->nbuffer + (uint32_t)k, w->g->nbuffer + (uint32_t)i);
}

static struct ana_set of_all(struct webs *w, const struct ana_set by[ANA_EVIDENCES])
{
    struct ana_set s = {0};
    for (int k = 0; k < ANA_EVIDENCES; k++)
        s = ana_set_union(&w->arena, s, by[k]);
    return s;
}

static void one_launch(struct webs *w, uint32_t launch, size_t first, size_t last)
{
    const struct ana_launch *l = &w->ana->launch[launch];
    same_places(w, first, last);
    for (uint32_t k = 0; k < l->naccess && !w->failed; k++) {
        const struct ana_access *x = &l->access[k];
        if (w->whole[x->buffer])
            continue;
        struct ana_set reads = of_all(w, x->read_by), writes = of_all(w, x->write_by), must = x->must;
        if (x->atomics)
            reads = ana_set_union(&w->arena, reads, writes);
        struct ana_set perhaps = ana_set_minus(&w->arena, writes, must);
        bool known = by_pointer(w, x->buffer, reads, first, last, false, comes_from) &&
                     by_pointer(w, x->buffer, perhaps, first, last, true, comes_from) &&
                     by_pointer(w, x->buffer, ana_set_union(&w->arena, writes, must), first, last, true, begins);
        w->failed |= dt_arena_failed(&w->arena);
        w->whole[x->buffer] = !known;
    }
}

/* ---- what becomes of the webs ------------------------------------------------------------------------------------ */

static bool may_have(const struct dt_buffer *b)
{
    return b->role == DT_INTERMEDIATE && b->module < 0 && !b->constant && b->bytes;
}

static void name_version(const struct dt_graph *g, uint32_t *n, char name[16])
{
    do
        snprintf(name, 16, "v%u", (*n)++);
    while (dt_graph_find_buffer(g, name) != DT_NAME_NONE);
}

/* By web: the version it becomes, UINT32_MAX: none. */
static int make_versions(struct webs *w, struct rw_versions *ret, uint32_t *version, struct dt_err *e)
{
    const struct rw_pointers *at = w->at;
    const struct dt_graph *g = w->g;
    uint32_t names = 0;
    uint64_t bytes = 0;
    dt_free_ uint32_t *count = dt_calloc((size_t)g->nbuffer + 1, sizeof *count); /* webs of a buffer */
    if (!count)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (size_t i = 0; i < at->v.n; i++) { /* a web reaches what its pointers reach */
        uint32_t own = g->nbuffer + (uint32_t)i, web = web_of(w, own);
        uint64_t lo = w->lo[own] < at->v.p[i].offset ? w->lo[own] : at->v.p[i].offset;
        w->lo[web] = lo < w->lo[web] ? lo : w->lo[web];
        w->hi[web] = w->hi[own] > w->hi[web] ? w->hi[own] : w->hi[web];
    }
    for (size_t i = 0; i < at->v.n; i++)
        if (web_of(w, g->nbuffer + (uint32_t)i) == g->nbuffer + i && w->hi[g->nbuffer + i])
            count[at->v.p[i].buffer]++;
    for (size_t i = 0; i < at->v.n; i++)
        if (web_of(w, g->nbuffer + (uint32_t)i) == at->v.p[i].buffer && !w->whole[at->v.p[i].buffer] &&
            count[at->v.p[i].buffer] == 1)
            count[at->v.p[i].buffer] = 2; /* and what nobody wrote */
    for (size_t i = 0; i < at->v.n; i++) {
        uint32_t web = g->nbuffer + (uint32_t)i, b = at->v.p[i].buffer;
        version[web] = UINT32_MAX;
        if (web_of(w, web) != web || w->whole[b] || count[b] < 2 || !w->hi[web])
            continue;
        struct rw_storage v = {.buffer = b, .lo = w->lo[web] / ALIGN * ALIGN, .hi = w->hi[web]};
        name_version(g, &names, v.name);
        bytes += v.hi - v.lo;
        version[web] = ret->n;
        ret->version[ret->n++] = v;
    }
    if (bytes > MOST || (uint64_t)ret->n + g->nbuffer > DT_MAX_BUFFERS)
        ret->n = 0;
    return 0;
}

int rw_versions_find(const struct dev_prog *p, const struct ana_result *a, struct rw_versions *ret, struct dt_err *e)
{
    const struct dt_graph *g = p->graph;
    struct webs w = {.g = g, .ana = a, .at = &ret->at};
    memset(ret, 0, sizeof *ret);
    for (uint32_t l = 0; l < g->nlaunch; l++)
        if ((g->launch[l].stream && !g->streams) || g->launch[l].programmatic)
            return 0; /* the order of the document is not all that there is */
    int r = rw_pointers_of(g, &ret->at, e);
    size_t n = r == 0 ? ret->at.v.n + g->nbuffer : 0;
    dt_free_ uint32_t *version = dt_calloc(n + 1, sizeof *version);
    w.up = dt_calloc(n + 1, sizeof *w.up);
    w.lo = dt_calloc(n + 1, sizeof *w.lo);
    w.hi = dt_calloc(n + 1, sizeof *w.hi);
    w.whole = dt_calloc((size_t)g->nbuffer + 1, sizeof *w.whole);
    w.bytes = dt_calloc((size_t)g->nbuffer + 1, sizeof *w.bytes);
    ret->buffer = dt_calloc(n + 1, sizeof *ret->buffer);
    ret->offset = dt_calloc(n + 1, sizeof *ret->offset);
    ret->version = dt_calloc(n + 1, sizeof *ret->version);
    if (r == 0 &&
        (!version || !w.up || !w.lo || !w.hi || !w.whole || !w.bytes || !ret->buffer || !ret->offset || !ret->version))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; r == 0 && k < n; k++) {
        w.up[k] = k;
        w.lo[k] = UINT64_MAX;
    }
    for (uint32_t b = 0; r == 0 && b < g->nbuffer; b++) {
        w.whole[b] = !may_have(&g->buffer[b]);
        if (!w.whole[b] && !dt_push(&w.bytes[b].v, (struct segment){0, g->buffer[b].bytes, b}))
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    for (size_t l = 0, i = 0; r == 0 && l < g->nlaunch; l++) {
        size_t first = i;
        while (i < ret->at.v.n && ret->at.v.p[i].launch == l)
            i++;
        one_launch(&w, (uint32_t)l, first, i);
        if (w.failed)
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    if (r == 0)
        r = make_versions(&w, ret, version, e);
    for (size_t i = 0; r == 0 && i < ret->at.v.n; i++) {
        const struct rw_pointer *q = &ret->at.v.p[i];
        uint32_t v = ret->n ? version[web_of(&w, g->nbuffer + (uint32_t)i)] : UINT32_MAX;
        bool root = web_of(&w, g->nbuffer + (uint32_t)i) < g->nbuffer;
        ret->buffer[i] = root || v == UINT32_MAX ? q->buffer : g->nbuffer + v;
        ret->offset[i] = root || v == UINT32_MAX ? q->offset : q->offset - ret->version[v].lo;
    }
    for (uint32_t b = 0; w.bytes && b < g->nbuffer; b++)
        free(w.bytes[b].v.p);
    free(w.bytes);
    free(w.up);
    free(w.lo);
    free(w.hi);
    free(w.whole);
    dt_arena_done(&w.arena);
    return r;
}

void rw_versions_done(struct rw_versions *v)
{
    free(v->at.v.p);
    free(v->buffer);
    free(v->offset);
    free(v->version);
    memset(v, 0, sizeof *v);
}

/* ---- the check --------------------------------------------------------------------------------------------------- */

static struct ana_set moved(struct dt_arena *a, struct ana_set s, uint64_t by)
{
    struct ana_interval *iv = s.n ? dt_new_array(a, struct ana_interval, s.n) : NULL;
    for (uint32_t k = 0; iv && k < s.n; k++)
        iv[k] = (struct ana_interval){s.iv[k].lo + by, s.iv[k].hi + by};
    return (struct ana_set){iv, iv ? s.n : 0};
}

/* What the block touches of the posted buffer: in it and in its versions. */
static void block_touches(struct dt_arena *a, const struct ana_block *b, const struct rw_versions *v, uint32_t nbuffer,
                          uint32_t buffer, struct ana_set ret[3])
{
    memset(ret, 0, 3 * sizeof *ret);
    for (uint32_t k = 0; k < b->ntouch; k++) {
        const struct ana_touch *t = &b->touch[k];
        bool version = v && t->buffer >= nbuffer;
        uint32_t of = version ? v->version[t->buffer - nbuffer].buffer : t->buffer;
        uint64_t by = version ? v->version[t->buffer - nbuffer].lo : 0;
        if (of != buffer)
            continue;
        struct ana_set s[3] = {t->read, t->must_write, t->may_write};
        for (int i = 0; i < 3; i++)
            ret[i] = ana_set_union(a, ret[i], by ? moved(a, s[i], by) : s[i]);
    }
}

static bool equal_sets(struct ana_set x, struct ana_set y)
{
    return x.n == y.n && (!x.n || x.iv == y.iv || !memcmp(x.iv, y.iv, x.n * sizeof *x.iv));
}

/* Does every block touch the bytes that it touched before? */
static bool same_bytes(const struct ana_result *now, const struct ana_result *next, const struct rw_versions *v,
                       struct dt_str *why)
{
    const struct dt_graph *g = now->prog->graph;
    bool same = true;
    for (uint32_t l = 0; same && l < g->nlaunch; l++) {
        const struct ana_launch *x = &now->launch[l], *y = &next->launch[l];
        same = x->nblock == y->nblock;
        for (uint32_t k = 0; same && k < x->nblock; k++) {
            struct dt_arena a = {0};
            /* every buffer that either touches */
            for (int side = 0; side < 2 && same; side++) {
                const struct ana_block *b = side ? &y->block[k] : &x->block[k];
                for (uint32_t i = 0; i < b->ntouch && same; i++) {
                    uint32_t n = b->touch[i].buffer;
                    struct ana_set p[3], q[3];
                    if (side && n >= g->nbuffer)
                        n = v->version[n - g->nbuffer].buffer;
                    block_touches(&a, &x->block[k], NULL, g->nbuffer, n, p);
                    block_touches(&a, &y->block[k], v, g->nbuffer, n, q);
                    for (int j = 0; j < 3; j++)
                        same = same && equal_sets(p[j], q[j]);
                    if (!same)
                        dt_str_addf(why, DT_LAUNCH " touches other bytes of " DT_BUFFER " when it is taken apart",
                                    g->launch[l].name, g->buffer[n].name);
                }
            }
            same = same && !dt_arena_failed(&a);
            dt_arena_done(&a);
        }
    }
    return same;
}

/* Is what the two have written the same over [lo, hi)? */
static bool same_segments(const struct bytes_of *x, const struct bytes_of *y, uint64_t lo, uint64_t hi)
{
    size_t i = segment_at(x, lo), k = segment_at(y, lo);
    while (lo < hi && i < x->v.n && k < y->v.n) {
        if (x->v.p[i].who != y->v.p[k].who)
            return false;
        lo = x->v.p[i].hi < y->v.p[k].hi ? x->v.p[i].hi : y->v.p[k].hi;
        i += x->v.p[i].hi == lo;
        k += y->v.p[k].hi == lo;
    }
    return lo >= hi;
}

/* Did the launch that wrote each byte which is read last write it last there, too? A byte that may be written counts as
 * read: what was there may stay. by[]: who wrote which bytes of the posted buffers, and of those with versions. */
static bool same_writers(const struct ana_result *now, const struct ana_result *next, const struct rw_versions *v,
                         struct bytes_of *by[2], struct dt_arena *a, struct dt_str *why)
{
    const struct dt_graph *g = now->prog->graph;
    for (uint32_t l = 0; l < g->nlaunch; l++) {
        const struct ana_launch *x = &next->launch[l];
        for (uint32_t k = 0; k < x->naccess; k++) {
            const struct ana_access *q = &x->access[k];
            bool version = q->buffer >= g->nbuffer;
            uint32_t of = version ? v->version[q->buffer - g->nbuffer].buffer : q->buffer;
            uint64_t from = version ? v->version[q->buffer - g->nbuffer].lo : 0;
            struct ana_set writes = {0}, reads = {0};
            for (int e = 0; e < ANA_EVIDENCES; e++) {
                writes = ana_set_union(a, writes, q->write_by[e]);
                reads = ana_set_union(a, reads, q->read_by[e]);
            }
            reads = ana_set_union(a, reads, q->atomics ? writes : ana_set_minus(a, writes, q->must));
            reads = moved(a, reads, from);
            for (uint32_t i = 0; i < reads.n && by[0][of].v.n; i++)
                if (!same_segments(&by[0][of], &by[1][q->buffer], reads.iv[i].lo, reads.iv[i].hi)) {
                    dt_str_addf(why, DT_LAUNCH " reads bytes of " DT_BUFFER " that another launch has written there",
                                g->launch[l].name, g->buffer[of].name);
                    return false;
                }
        }
        for (int side = 0; side < 2; side++)
            for (uint32_t k = 0; k < (side ? next : now)->launch[l].naccess; k++) {
                const struct ana_access *q = &(side ? next : now)->launch[l].access[k];
                bool version = q->buffer >= g->nbuffer;
                uint64_t from = version ? v->version[q->buffer - g->nbuffer].lo : 0;
                for (int e = 0; e < ANA_EVIDENCES; e++)
                    for (uint32_t i = 0; i < q->write_by[e].n && by[side][q->buffer].v.n; i++)
                        if (!segment_put(&by[side][q->buffer], q->write_by[e].iv[i].lo + from,
                                         q->write_by[e].iv[i].hi + from, l + 1))
                            return false;
            }
    }
    return !dt_arena_failed(a);
}

bool rw_versions_same(const struct ana_result *now, const struct ana_result *next, const struct rw_versions *v,
                      struct dt_str *why)
{
    const struct dt_graph *g = now->prog->graph;
    uint32_t n = g->nbuffer + v->n;
    struct dt_arena a = {0};
    struct bytes_of *by[2] = {dt_calloc((size_t)n + 1, sizeof **by), dt_calloc((size_t)n + 1, sizeof **by)};
    bool ok = by[0] && by[1];
    if (rw_off("same_values"))
        goto done;
    for (uint32_t k = 0; ok && k < v->n; k++) {
        uint32_t b = v->version[k].buffer;
        struct segment all = {0, g->buffer[b].bytes, 0};
        ok = dt_push(&by[1][g->nbuffer + k].v, all);
        if (ok && !by[0][b].v.n)
            ok = dt_push(&by[0][b].v, all) && dt_push(&by[1][b].v, all);
    }
    ok = ok && same_bytes(now, next, v, why) && same_writers(now, next, v, by, &a, why);
done:
    for (int side = 0; side < 2; side++) {
        for (uint32_t k = 0; by[side] && k < n; k++)
            free(by[side][k].v.p);
        free(by[side]);
    }
    dt_arena_done(&a);
    return ok;
}
