/* Checking modes: setting up, uninitialised reads, and what a report says.
 *
 * A byte is initialised when a copy, a memset, the host or a kernel wrote it. Global memory: a bit a byte beside each
 * allocation, which lives as long as it (memory/memory.c). Shared memory: a map a block, empty when the block starts.
 * Every byte that a load reads has to be written, whether or not the value is used. Elements of a vector that go
 * nowhere (`_`) are not read. Bytes that an asynchronous copy moves are not read either, and stay as uninitialised as
 * they were. Local memory and registers are not checked.
 *
 * A report is the fault of the launch; with SG_CHECK_TELL the launch goes on, and the first report of each kind is
 * kept. It is the first one in the order in which the software device happens to execute, which is the same for the
 * same seed. It names the kernel, block, thread, PTX line and instruction, the variable or buffer with the offset in
 * it, and for a race the other thread and its line.
 */
#include "softgpu/check/check-priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

bool sg_checks_parse(const char *list, unsigned *ret)
{
    static const struct {
        const char *word;
        unsigned bits;
    } words[] = {{"race", SG_CHECK_RACE},
                 {"uninit", SG_CHECK_UNINIT},
                 {"barrier", SG_CHECK_BARRIER},
                 {"bounds", 0}, /* always on */
                 {"blocks", SG_CHECK_BLOCKS},
                 {"tell", SG_CHECK_TELL},
                 {"phases", SG_CHECK_PHASES},
                 {"all", SG_CHECK_ALL},
                 {"none", 0}};
    unsigned bits = 0;
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ","), i = 0;
        while (i < sizeof words / sizeof *words && (strlen(words[i].word) != n || strncmp(words[i].word, p, n)))
            i++;
        if (n && i == sizeof words / sizeof *words)
            return false;
        bits |= n ? words[i].bits : 0;
        p += n + (p[n] == ',');
    }
    *ret = bits;
    return true;
}

/* ---- setting up -------------------------------------------------------------------------------------------------- */
int sg_check_start(struct sg_run *run, struct sg_worker *wk)
{
    struct sg_check *k = dt_calloc(1, sizeof *k);
    if (!k)
        return DT_E_NOMEM;
    wk->check = k;
    k->modes = run->l->checks;
    k->now = 1;
    k->nwarp = run->nwarp;
    k->threads = run->nwarp * SG_LANES;
    k->shared_bytes = run->shared_bytes;
    if (!(k->modes & SG_CHECK_RACE))
        return 0;
    if (!(k->cells = dt_calloc(run->nrange + 1, sizeof *k->cells)))
        return DT_E_NOMEM;
    for (size_t i = 0; i < run->nrange; i++)
        if (sg_cells_init(&k->cells[i], run->range[i].base, run->range[i].end) < 0)
            return DT_E_NOMEM;
    return 0;
}

void sg_check_end(struct sg_worker *wk)
{
    struct sg_check *k = wk->check;
    if (!k)
        return;
    for (size_t i = 0; k->cells && i < wk->run->nrange; i++)
        sg_cells_done(k, &k->cells[i]);
    sg_syncs_done(k, &k->sync);
    for (struct sg_vec *v = k->idle, *next; v; v = next) {
        next = v->next;
        free(v);
    }
    free(k->cells);
    free(k);
    wk->check = NULL;
}

int sg_check_block_start(struct sg_block *b)
{
    struct sg_check *k = b->wk->check;
    struct sg_check_block *c = b->check;
    size_t words = ((size_t)k->shared_bytes + 63) / 64;
    if (!c) {
        if (!(c = b->check = dt_calloc(1, sizeof *c)))
            return DT_E_NOMEM;
        c->thread = dt_calloc(k->threads, sizeof *c->thread);
        c->init = dt_calloc(words + 1, sizeof *c->init);
        c->mask_room = dt_calloc((size_t)SG_BARRIERS * k->nwarp, sizeof *c->mask_room);
        c->op_room = dt_calloc((size_t)SG_BARRIERS * k->nwarp, sizeof *c->op_room);
        if (!c->thread || !c->init || !c->mask_room || !c->op_room || sg_cells_init(&c->cells, 0, k->shared_bytes) < 0)
            return DT_E_NOMEM;
        for (unsigned n = 0; n < SG_BARRIERS; n++) {
            c->bar[n].mask = c->mask_room + (size_t)n * k->nwarp;
            c->bar[n].op = c->op_room + (size_t)n * k->nwarp;
        }
    }
    c->id = (uint32_t)b->linear + 1;
    memset(c->init, 0, words * sizeof *c->init);
    if (k->modes & SG_CHECK_RACE)
        sg_cells_clear(&c->cells);
    return 0;
}

void sg_check_block_end(struct sg_block *b)
{
    struct sg_check_block *c = b->check;
    if (!c)
        return;
    struct sg_check *k = b->wk->check;
    for (uint32_t t = 0; c->thread && t < k->threads; t++)
        sg_thread_done(k, &c->thread[t]);
    for (unsigned n = 0; n < SG_BARRIERS; n++) {
        sg_clock_drop(k, &c->bar[n].clock);
        c->bar[n].open = false;
    }
    if (c->mask_room)
        memset(c->mask_room, 0, (size_t)SG_BARRIERS * k->nwarp * sizeof *c->mask_room);
    sg_clock_drop(k, &c->exited);
    sg_clock_drop(k, &c->cluster.clock);
    sg_clock_drop(k, &c->cluster.next);
    sg_syncs_done(k, &c->sync);
}

void sg_check_block_free(struct sg_block *b)
{
    struct sg_check_block *c = b->check;
    if (!c)
        return;
    sg_check_block_end(b);
    sg_cells_done(b->wk->check, &c->cells);
    free(c->thread);
    free(c->init);
    free(c->mask_room);
    free(c->op_room);
    free(c);
    b->check = NULL;
}

bool sg_check_nomem(struct sg_warp *w, const struct sg_op *op)
{
    sg_fault_at(w, op, DT_E_NOMEM, 0, 0, 0, "the checks of this launch need more memory than there is");
    return false;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */
struct sg_block *sg_check_owner(const struct sg_warp *w, const uint8_t *at)
{
    if (at >= w->shared && at < w->shared + w->shared_bytes)
        return w->blk;
    for (uint32_t i = 0; i < w->blk->cl->size; i++)
        if (at >= w->blk->cl->block[i].shared && at < w->blk->cl->block[i].shared + w->shared_bytes)
            return &w->blk->cl->block[i];
    return NULL;
}

struct place {
    enum where { NOWHERE, SHARED, GLOBAL } where;
    uint64_t addr;          /* offset in shared memory, or address */
    struct sg_block *owner; /* of shared memory */
    size_t range;           /* of global memory */
};

static struct place check_find(const struct sg_warp *w, const struct sg_op *op, const uint8_t *at)
{
    const struct sg_run *run = w->wk->run;
    uint64_t a = (uint64_t)(uintptr_t)at;
    struct sg_block *owner = sg_check_owner(w, at);
    if (owner)
        return (struct place){SHARED, (uint64_t)(at - owner->shared), owner, 0};
    const struct sg_range *r = op ? w->wk->site[op->site] : run->range;
    if (run->nrange && a >= r->base && a < r->end)
        return (struct place){GLOBAL, a, NULL, (size_t)(r - run->range)};
    size_t lo = 0, hi = run->nrange;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (run->range[mid].end > a)
            hi = mid;
        else
            lo = mid + 1;
    }
    return (struct place){lo < run->nrange && run->range[lo].base <= a ? GLOBAL : NOWHERE, a, NULL, lo};
}

static void check_describe(const struct sg_warp *w, const struct sg_op *op, const uint8_t *at, char *out, size_t n)
{
    struct place p = check_find(w, op, at);
    if (p.where == GLOBAL) {
        const struct sg_alloc *m = &w->wk->run->alloc[p.range];
        unsigned long long off = p.addr - m->base;
        if (m->name)
            snprintf(out, n, "%.120s + %llu", m->name, off);
        else
            snprintf(out, n, "0x%llx (%llu of %llu bytes at 0x%llx)", (unsigned long long)p.addr, off,
                     (unsigned long long)(m->end - m->base), (unsigned long long)m->base);
    } else if (p.where == SHARED) {
        const struct sg_code *c = w->code;
        const struct sg_shared_name *best = NULL;
        char rank[40] = "";
        for (uint32_t i = 0; i < c->nshared; i++)
            if (c->shared[i].offset <= p.addr &&
                (c->shared[i].dynamic || p.addr - c->shared[i].offset < c->shared[i].bytes) &&
                (!best || c->shared[i].offset >= best->offset))
                best = &c->shared[i];
        if (p.owner != w->blk)
            snprintf(rank, sizeof rank, " of block rank %u", p.owner->rank);
        snprintf(out, n, "shared %.80s + %llu%s", best ? best->name : "memory",
                 (unsigned long long)(p.addr - (best ? best->offset : 0)), rank);
    } else {
        snprintf(out, n, "%p", (const void *)at);
    }
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */
/* Where a finding that does not end the launch is kept; NULL: it ends it. */
static struct sg_fault *check_told(const struct sg_warp *w, int num)
{
    struct sg_fault *found = w->wk->check->modes & SG_CHECK_TELL ? w->wk->run->l->found : NULL;
    return found ? &found[num == DT_E_RACE     ? SG_FOUND_RACE
                          : num == DT_E_UNINIT ? SG_FOUND_UNINIT
                                               : SG_FOUND_BARRIER]
                 : NULL;
}

bool sg_check_report(struct sg_warp *w, const struct sg_op *op, unsigned lane, const struct sg_finding *x)
{
    struct sg_fault *keep = check_told(w, x->num);
    if (w->wk->fault)
        return false;
    if (keep && keep->num)
        return true;
    uint32_t stop = w->stop;
    char place[160] = "", other[256] = "";
    const struct sg_entry *e = x->other;
    struct sg_fault *f = &w->wk->f;
    uint32_t block[3] = {0}, thread[3] = {0}, line = 0;
    if (x->at)
        check_describe(w, op, x->at, place, sizeof place);
    if (e) {
        const struct sg_launch *l = w->wk->run->l;
        uint32_t of = w->wk->check->threads, b = e->block - 1;
        uint32_t t = e->thread >= 2 * of ? (e->thread - 2 * of) * 4 * SG_LANES : e->thread % of;
        struct dt_str s = {0};
        block[0] = b % l->grid[0], block[1] = b / l->grid[0] % l->grid[1], block[2] = b / l->grid[0] / l->grid[1];
        thread[0] = t % l->block[0], thread[1] = t / l->block[0] % l->block[1],
        thread[2] = t / l->block[0] / l->block[1];
        const struct sg_src *src = e->src < w->code->nsrc ? &w->code->src[e->src] : NULL;
        if (src && src->f && src->inst < src->f->ninst) {
            line = src->f->inst[src->inst].line;
            ptx_print_inst(src->f, &src->f->inst[src->inst], &s);
        }
        const char *text = s.s ? s.s + strspn(s.s, " \t") : "";
        snprintf(other, sizeof other, "%s block (%u,%u,%u), thread (%u,%u,%u)%s, PTX line %u: %.*s", x->then, block[0],
                 block[1], block[2], thread[0], thread[1], thread[2],
                 e->thread >= w->wk->check->threads ? ", asynchronously" : "", line, (int)strcspn(text, ";"), text);
        dt_str_done(&s);
    } else if (x->then) {
        snprintf(other, sizeof other, "%s", x->then);
    }
    if (x->at)
        sg_fault_at(w, op, x->num, lane, (uint64_t)(uintptr_t)x->at, x->bytes, "%s of %u bytes at %s%s", x->what,
                    x->bytes, place, other);
    else
        sg_fault_at(w, op, x->num, lane, 0, 0, "%s%s", x->what, other);
    f->kind = x->kind;
    snprintf(f->place, sizeof f->place, "%s", place);
    f->has_other = e != NULL;
    memcpy(f->other_block, block, sizeof block);
    memcpy(f->other_thread, thread, sizeof thread);
    f->other_line = line;
    if (!keep)
        return false;
    *keep = *f;
    *f = (struct sg_fault){0};
    w->wk->fault = 0;
    w->stop = stop;
    return true;
}

/* ---- accesses ---------------------------------------------------------------------------------------------------- */
static bool uninit(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t *map, uint64_t at,
                   const uint8_t *p, unsigned bytes, enum sg_access how)
{
    if (how != SG_WRITE && !sg_bits_all(map, at, bytes)) {
        unsigned i = 0, n = 0;
        while (sg_bits_all(map, at + i, 1))
            i++;
        while (i + n < bytes && !sg_bits_all(map, at + i + n, 1))
            n++;
        struct sg_finding f = {.kind = "uninit",
                               .num = DT_E_UNINIT,
                               .what = "read",
                               .then = ", which nothing has written",
                               .at = p + i,
                               .bytes = n};
        return sg_check_report(w, op, lane, &f);
    }
    if (how != SG_READ)
        sg_bits_put(map, at, bytes, true);
    return true;
}

static uint64_t *check_map_of(const struct sg_warp *w, const struct place *p, uint64_t *ret_at)
{
    const struct sg_alloc *m = p->where == GLOBAL ? &w->wk->run->alloc[p->range] : NULL;
    *ret_at = m ? p->addr - m->base : p->addr;
    return p->where == SHARED ? p->owner->check->init : m ? m->init : NULL;
}

static bool check_one(struct sg_warp *w, const struct sg_op *op, unsigned lane, const uint8_t *at, unsigned bytes,
                      enum sg_access how, unsigned sem, bool init)
{
    struct sg_check *k = w->wk->check;
    struct place p = check_find(w, op, at);
    if (p.where == NOWHERE)
        return true;
    if (init && k->modes & SG_CHECK_UNINIT) {
        uint64_t in_map, *map = check_map_of(w, &p, &in_map);
        if (map && !uninit(w, op, lane, map, in_map, at, bytes, how))
            return false;
    }
    if (!(k->modes & SG_CHECK_RACE) || (p.where == GLOBAL && w->wk->run->range[p.range].read_only))
        return true;
    bool own = p.where == SHARED && w->blk->cl->size == 1;
    if ((how == SG_ATOMIC || sem & SG_SEM_STRONG) && !(sem & SG_SEM_MBARRIER) &&
        !sg_clock_strong(w, op, lane, (uint64_t)(uintptr_t)at, own, how, sem))
        return false;
    return sg_race_access(w, op, lane, p.where == SHARED ? &p.owner->check->cells : &k->cells[p.range], at, p.addr,
                          bytes, how, sem);
}

bool sg_check_lanes(struct sg_warp *w, const struct sg_op *op, uint8_t *const *at, uint32_t mask, unsigned bytes,
                    enum sg_access how, unsigned sem)
{
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        if (!check_one(w, op, l, at[l], bytes, how, sem, true))
            return false;
    }
    return true;
}

void sg_check_carry(struct sg_warp *w, const uint8_t *to, const uint8_t *from, uint32_t n)
{
    if (!(w->wk->check->modes & SG_CHECK_UNINIT))
        return;
    struct place a = check_find(w, NULL, to), b = {NOWHERE, 0, NULL, 0};
    if (from)
        b = check_find(w, NULL, from);
    uint64_t x, y, *ma = check_map_of(w, &a, &x), *mb = check_map_of(w, &b, &y);
    for (uint32_t i = 0; ma && i < n; i++)
        sg_bits_put(ma, x + i, 1, !mb || sg_bits_all(mb, y + i, 1));
}

bool sg_check_copy(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint8_t *to, const uint8_t *from,
                   unsigned bytes)
{
    sg_check_carry(w, to, from, bytes);
    return (!from || check_one(w, op, lane, from, bytes, SG_READ, SG_SEM_ASYNC, false)) &&
           check_one(w, op, lane, to, bytes, SG_WRITE, SG_SEM_ASYNC, false);
}

bool sg_check_async(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint8_t *at, uint32_t n,
                    enum sg_access how)
{
    return check_one(w, op, lane, at, n, how, SG_SEM_ASYNC | (how == SG_ATOMIC ? SG_SEM_STRONG | SG_SEM_MBARRIER : 0),
                     how == SG_WRITE);
}

void sg_check_fresh(struct sg_warp *w, const uint8_t *at, uint64_t bytes)
{
    struct sg_check *k = w->wk->check;
    struct place p = check_find(w, NULL, at);
    uint64_t in_map, *map = p.where == GLOBAL ? check_map_of(w, &p, &in_map) : NULL;
    if (map && k->modes & SG_CHECK_UNINIT)
        sg_bits_put(map, in_map, bytes, false);
    if (p.where == GLOBAL && k->modes & SG_CHECK_RACE)
        sg_cells_forget(&k->cells[p.range], p.addr, bytes);
}

bool sg_check_wgmma(struct sg_warp *w, const struct sg_op *op, const uint8_t *at, uint32_t n)
{
    return check_one(w, op, 0, at, n, SG_READ, SG_SEM_GROUP, true);
}

bool sg_check_same_place(struct sg_warp *w, const struct sg_op *op, unsigned lane, unsigned other, uint8_t *at,
                         unsigned bytes)
{
    struct sg_check *k = w->wk->check;
    struct sg_entry e = {w->blk->check->id, k->now, (uint16_t)(w->index * SG_LANES + other), 0, op->src};
    struct sg_finding f = {.kind = "race",
                           .num = DT_E_RACE,
                           .what = "write",
                           .at = at,
                           .bytes = bytes,
                           .other = &e,
                           .then = ", where the same instruction writes another value by"};
    return !(k->modes & SG_CHECK_RACE) || check_find(w, op, at).where == NOWHERE || sg_check_report(w, op, lane, &f);
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */
bool sg_check_arrive(struct sg_warp *w, const struct sg_op *op, unsigned n, uint32_t mask, uint32_t count)
{
    return sg_barrier_arrive(w, op, n, mask, count) &&
           (!(w->wk->check->modes & SG_CHECK_RACE) || sg_clock_arrive(w, op, n, mask));
}

void sg_check_complete(struct sg_block *b, unsigned n)
{
    struct sg_check *k = b->wk->check;
    if (!sg_barrier_complete(b, n) || !(k->modes & SG_CHECK_RACE))
        return;
    if (!sg_clock_complete(b, n)) {
        sg_check_nomem(&b->warp[0], NULL);
        return;
    }
    for (uint32_t i = 0; i < b->nwarp; i++)
        for (uint32_t f = 0; f < b->warp[i].nfrag; f++)
            if (b->warp[i].frag[f].state == SG_F_BAR && b->warp[i].frag[f].bar == n)
                sg_clock_go_on(&b->warp[i], n, b->warp[i].frag[f].mask);
    sg_clock_drop(k, &b->check->bar[n].clock);
}

void sg_check_exit(struct sg_warp *w, uint32_t mask)
{
    if (w->wk->check->modes & SG_CHECK_RACE)
        sg_clock_exit(w, mask);
}
