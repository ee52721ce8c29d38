/* Who touched each byte last: the accesses of a checked launch, and those that nothing orders.
 *
 * Memory is cut into cells of 4 bytes; where something narrower is accessed, the page's cells are split. A cell keeps
 * the last write and up to three reads, each with its thread and stamp. An access races with one of them when they are
 * by different threads, one writes, and the earlier did not happen before the later (clock.c), unless both are
 * strong (atomic, volatile, relaxed, acquire, release) with scopes that reach each other, or both are one instruction
 * that writes the same bytes to the block's shared memory.
 *
 * Every race that is reported is a race. These races can be missed: the reads kept are of different warps and blocks
 * where possible, but a fourth read that nothing orders with the three is dropped, and a fifth write of the same
 * bytes; a write that is ordered after one of two atomics and not after the other; accesses of a launch that runs
 * beside this one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "softgpu/check/check-priv.h"

#define MAX_CELLS (UINT64_C(4) << 30) /* bytes of pages, all ranges together */

int sg_cells_init(struct sg_cells *c, uint64_t base, uint64_t end)
{
    *c =
        (struct sg_cells){.base = base >> SG_CELL_PAGE,
                          .npage = end > base ? (size_t)(((end - 1) >> SG_CELL_PAGE) - (base >> SG_CELL_PAGE) + 1) : 0};
    c->page = dt_calloc(c->npage + 1, sizeof *c->page);
    return c->page ? 0 : DT_E_NOMEM;
}

static size_t page_bytes(unsigned shift)
{
    return sizeof(struct sg_page) + ((size_t)1 << (SG_CELL_PAGE - shift)) * sizeof(struct sg_cell);
}

void sg_cells_clear(struct sg_cells *c)
{
    for (size_t i = 0; i < c->npage; i++)
        if (c->page[i])
            memset(c->page[i]->cell, 0, page_bytes(c->page[i]->shift) - sizeof *c->page[i]);
}

void sg_cells_forget(struct sg_cells *c, uint64_t addr, uint64_t bytes)
{
    for (uint64_t a = addr; a < addr + bytes;) {
        struct sg_page *p = c->page[(a >> SG_CELL_PAGE) - c->base];
        if (p)
            p->cell[(a & ((1u << SG_CELL_PAGE) - 1)) >> p->shift] = (struct sg_cell){.w = {0}};
        a += p ? 1u << p->shift : (1u << SG_CELL_PAGE) - (a & ((1u << SG_CELL_PAGE) - 1));
    }
}

void sg_cells_done(struct sg_check *k, struct sg_cells *c)
{
    for (size_t i = 0; c->page && i < c->npage; i++)
        if (c->page[i]) {
            k->used -= page_bytes(c->page[i]->shift);
            free(c->page[i]);
        }
    free(c->page);
    *c = (struct sg_cells){.page = NULL};
}

/* The page of addr with cells of at most 1 << shift bytes. */
static struct sg_page *page_at(struct sg_check *k, struct sg_cells *c, uint64_t addr, unsigned shift)
{
    struct sg_page **at = &c->page[(addr >> SG_CELL_PAGE) - c->base], *p = *at;
    if (p && p->shift <= shift)
        return p;
    struct sg_page *n = k->used < MAX_CELLS ? dt_calloc(1, page_bytes(shift)) : NULL;
    if (!n)
        return NULL;
    n->shift = shift;
    k->used += page_bytes(shift);
    if (p) {
        for (size_t i = 0; i < (size_t)1 << (SG_CELL_PAGE - shift); i++)
            n->cell[i] = p->cell[i >> (p->shift - shift)];
        k->used -= page_bytes(p->shift);
        free(p);
    }
    return *at = n;
}

static bool excused(const struct sg_entry *a, const struct sg_entry *b)
{
    return a->flags & b->flags & SG_SEM_STRONG && (a->block == b->block || !((a->flags | b->flags) & SG_SEM_CTA));
}

static bool same_thread(const struct sg_entry *a, const struct sg_entry *b)
{
    return a->block == b->block && a->thread == b->thread;
}

/* Is `me` the write `w` once more: by the same instruction of another thread of the block, the same bytes of its shared
 * memory? Whichever comes last, the bytes are these. So do warps that a tile is too small for: they work as others do.
 */
static bool again(const struct sg_cells *cells, const struct sg_check_block *b, const struct sg_entry *w,
                  const struct sg_entry *me, unsigned sem)
{
    return sem & SG_SEM_SAME && cells == &b->cells && w->block == me->block && w->src == me->src;
}

/* The write before `me`, which is that write once more, stays among the readers: whoever writes something else comes
 * after both. */
static void keep_write(struct sg_cell *c, const struct sg_entry *me)
{
    for (int i = 0; i < SG_READERS; i++)
        if (!c->r[i].block || same_thread(&c->r[i], &c->w)) {
            c->r[i] = c->w;
            c->r[i].flags |= SG_SEM_SAME;
            break;
        }
    c->w = *me;
}

/* The warp that made the access, or whose copy it is; each warpgroup is one more, of its wgmma. */
static uint32_t warp_of(const struct sg_check *k, const struct sg_entry *e)
{
    return e->thread < 2 * k->threads ? e->thread / SG_LANES : e->thread;
}

/* Keep `me` as a reader: in place of what it follows, in an empty slot, or so that the three are of different warps and
 * blocks. */
static void keep_reader(const struct sg_check *k, const struct sg_check_block *b, uint32_t t, struct sg_cell *c,
                        const struct sg_entry *me)
{
    int near = -1;
    for (int i = 0; i < SG_READERS; i++) {
        struct sg_entry *r = &c->r[i];
        if (!r->block || ((r->flags & SG_SEM_STRONG || !(me->flags & SG_SEM_STRONG)) &&
                          (same_thread(r, me) || sg_ordered(k, b, t, r)))) {
            *r = *me;
            return;
        }
        if (r->block == me->block && warp_of(k, r) == warp_of(k, me))
            near = i;
    }
    if (near >= 0)
        return; /* its warp is there */
    for (int i = 0; i < SG_READERS; i++)
        for (int j = i + 1; j < SG_READERS; j++)
            if (c->r[i].block == c->r[j].block &&
                (c->r[i].block != me->block || warp_of(k, &c->r[i]) == warp_of(k, &c->r[j]))) {
                c->r[j] = *me;
                return;
            }
}

static bool clash(struct sg_warp *w, const struct sg_op *op, unsigned lane, const uint8_t *at, unsigned bytes,
                  enum sg_access how, const struct sg_entry *other, bool wrote)
{
    static const char *const word[] = {"read", "write", "atomic operation"};
    wrote |= (other->flags & SG_SEM_SAME) != 0;
    struct sg_finding f = {.kind = "race",
                           .num = DT_E_RACE,
                           .what = word[how],
                           .at = at,
                           .bytes = bytes,
                           .other = other,
                           .then = !wrote ? ", which nothing orders after the read by"
                                   : other->flags & SG_SEM_STRONG
                                       ? ", which nothing orders after the atomic or strong write by"
                                       : ", which nothing orders after the write by"};
    return sg_check_report(w, op, lane, &f);
}

bool sg_race_access(struct sg_warp *w, const struct sg_op *op, unsigned lane, struct sg_cells *cells, const uint8_t *at,
                    uint64_t addr, unsigned bytes, enum sg_access how, unsigned sem)
{
    struct sg_check *k = w->wk->check;
    const struct sg_check_block *b = w->blk->check;
    uint32_t t = w->index * SG_LANES + lane;
    if (how == SG_ATOMIC)
        sem |= SG_SEM_STRONG;
    uint32_t by = sem & SG_SEM_GROUP ? sg_vec_group(k, t) : sem & SG_SEM_ASYNC ? t + k->threads : t;
    const struct sg_entry me = {b->id, k->now, (uint16_t)by, (uint16_t)(sem & (SG_SEM_STRONG | SG_SEM_CTA)), op->src};
    unsigned unit = (unsigned)(addr | bytes) & (0u - (unsigned)(addr | bytes)), shift = unit >= 4   ? 2
                                                                                        : unit >= 2 ? 1
                                                                                                    : 0;
    for (uint64_t a = addr; a < addr + bytes;) {
        struct sg_page *p = page_at(k, cells, a, shift);
        if (!p)
            return sg_check_nomem(w, op);
        struct sg_cell *c = &p->cell[(a & ((1u << SG_CELL_PAGE) - 1)) >> p->shift];
        const uint8_t *here = at + (a - addr);
        bool once_more = false;
        if (c->w.block && !same_thread(&c->w, &me) && !excused(&c->w, &me) && !sg_ordered(k, b, t, &c->w) &&
            !(once_more = again(cells, b, &c->w, &me, sem)))
            return clash(w, op, lane, here, bytes, how, &c->w, true);
        if (how == SG_READ) {
            keep_reader(k, b, t, c, &me);
        } else {
            for (int i = 0; i < SG_READERS; i++)
                if (c->r[i].block && !same_thread(&c->r[i], &me) && !excused(&c->r[i], &me) &&
                    !sg_ordered(k, b, t, &c->r[i]) &&
                    !(c->r[i].flags & SG_SEM_SAME && again(cells, b, &c->r[i], &me, sem)))
                    return clash(w, op, lane, here, bytes, how, &c->r[i], false);
            if (once_more)
                keep_write(c, &me);
            else
                *c = (struct sg_cell){.w = me};
        }
        a += 1u << p->shift;
    }
    return true;
}
