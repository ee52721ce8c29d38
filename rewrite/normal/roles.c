/* Roles: a launch in which the block's number says which of several kernels' work a block does, as horizontal fusers
 * make it, becomes a launch for each.
 *
 *   posted   if (blockIdx.x < 16) product(x, w, h); else norm(s, r);       32 blocks
 *   roles    product<<<16>>>(x, w, h)   norm<<<16>>>(s, r), in which %ctaid.x is %ctaid.x + 16
 *
 * What each block may do is found block by block (emit/uniform.c), what it writes from its footprint. Two blocks are of
 * one role if they write a buffer that is the same and have an access to global memory in common, be it a call; and so
 * on from these. So blocks at an edge that go another way to the same stores are of one role with the others, and one
 * product whose three thirds go to three buffers has three. Blocks that write nothing belong to those before them.
 *
 *   roles_apart       no block touches a byte that a block of another role writes: so it is nobody's matter when
 *                     they run. Blocks that wait for each other by flags touch the flags
 *   same_footprints   asked of the new graph's maps: each block touches the bytes that it touched before
 *
 * roles-text.c makes the kernels, kinds/roles.c asks what else is to hold, plan/roles.c decides whether it is worth it.
 * Not found: roles by what memory holds or by the SM's number, roles of warps, roles that a loop counts out, roles
 * whose code a compiler made one by predicates.
 */
#include "rewrite/normal/roles.h"
#include "rewrite/emit/uniform.h"
#include "rewrite/facts/hooks.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define STEPS 6000000u /* of all blocks */
#define SORTS 512      /* of blocks */

struct sort { /* blocks that may do the same and write the same buffers */
    const uint8_t *done;
    uint64_t *writes; /* by buffer, as bits */
    uint32_t role;    /* another sort of its role, or itself */
    bool any;         /* it writes something */
};
struct search {
    struct dt_arena *a;
    const struct ana_launch *l;
    const struct ptx_function *f;
    size_t words;
    struct sort sort[SORTS];
    uint32_t nsort, *of; /* of: by block */
};

/* Is there an instruction that this block does or leaves out for certain, and of which that is not known for others? */
static bool roles_decides(const struct ptx_function *f, const uint8_t *any, const uint8_t *one)
{
    for (uint32_t n = 0; n < f->ninst; n++)
        if (one[n] && one[n] != any[n])
            return true;
    return false;
}

static void roles_writes(const struct ana_block *b, uint64_t *writes, bool *any)
{
    for (uint32_t k = 0; k < b->ntouch; k++)
        if (b->touch[k].must_write.n || b->touch[k].may_write.n) {
            writes[b->touch[k].buffer / 64] |= UINT64_C(1) << b->touch[k].buffer % 64;
            *any = true;
        }
}

/* The sort of block b, found or made; SORTS: there are too many, UINT32_MAX: no memory. */
static uint32_t roles_sort(struct search *s, uint32_t b, const uint8_t *done, uint64_t *writes)
{
    bool any = false;
    memset(writes, 0, s->words * sizeof *writes);
    roles_writes(&s->l->block[b], writes, &any);
    for (uint32_t k = s->nsort; k-- > 0;)
        if (!memcmp(s->sort[k].done, done, s->f->ninst) &&
            !memcmp(s->sort[k].writes, writes, s->words * sizeof *writes))
            return k;
    if (s->nsort == SORTS)
        return SORTS;
    struct sort *x = &s->sort[s->nsort];
    uint8_t *copy = dt_new_array(s->a, uint8_t, (size_t)s->f->ninst + 1);
    *x = (struct sort){.done = copy, .writes = dt_new_array(s->a, uint64_t, s->words), .role = s->nsort, .any = any};
    if (!copy || !x->writes)
        return UINT32_MAX;
    memcpy(copy, done, s->f->ninst);
    memcpy(x->writes, writes, s->words * sizeof *writes);
    return s->nsort++;
}

static uint32_t roles_root(const struct search *s, uint32_t k)
{
    while (s->sort[k].role != k)
        k = s->sort[k].role;
    return k;
}

static bool roles_meet(const struct search *s, const struct sort *x, const struct sort *y)
{
    bool buffer = false, access = false;
    for (size_t w = 0; w < s->words; w++)
        buffer |= (x->writes[w] & y->writes[w]) != 0;
    for (uint32_t n = 0; buffer && !access && n < s->f->ninst; n++)
        access = x->done[n] & y->done[n] & RW_DONE &&
                 (rw_is_global_access(&s->f->inst[n]) || s->f->inst[n].op == PTX_OP_CALL);
    return buffer && access;
}

static void roles_unite(struct search *s, uint32_t x, uint32_t y)
{
    x = roles_root(s, x);
    y = roles_root(s, y);
    s->sort[x > y ? x : y].role = x > y ? y : x;
}

/* Is it all of a box? Its corner and size. */
static void roles_box(const uint32_t grid[3], struct rw_role *r)
{
    uint32_t hi[3] = {0, 0, 0};
    uint64_t size = 1;
    for (int d = 0; d < 3; d++)
        r->lo[d] = UINT32_MAX;
    for (uint32_t k = 0; k < r->n; k++)
        for (int d = 0; d < 3; d++) {
            uint32_t at = d == 0   ? r->block[k] % grid[0]
                          : d == 1 ? r->block[k] / grid[0] % grid[1]
                                   : r->block[k] / grid[0] / grid[1];
            r->lo[d] = at < r->lo[d] ? at : r->lo[d];
            hi[d] = at > hi[d] ? at : hi[d];
        }
    for (int d = 0; d < 3; d++)
        size *= r->extent[d] = hi[d] - r->lo[d] + 1;
    r->box = size == r->n;
}

/* A role of each root; 0, or negative: no memory. */
static int roles_list(struct search *s, struct rw_roles *ret)
{
    uint32_t number[SORTS];
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->nsort; k++)
        number[k] = roles_root(s, k) == k ? n++ : number[roles_root(s, k)];
    if (n < 2 || n > RW_ROLES)
        return 0;
    for (uint32_t k = 0; k < n; k++) {
        struct rw_role *r = &ret->role[k];
        r->block = dt_new_array(s->a, uint32_t, (size_t)s->l->nblock + 1);
        r->done = dt_new_array(s->a, uint8_t, (size_t)s->f->ninst + 1);
        if (!r->block || !r->done)
            return DT_E_NOMEM;
    }
    for (uint32_t k = 0; k < s->nsort; k++)
        for (uint32_t i = 0; i < s->f->ninst; i++)
            ret->role[number[k]].done[i] |= s->sort[k].done[i];
    for (uint32_t b = 0; b < s->l->nblock; b++) {
        struct rw_role *r = &ret->role[number[s->of[b]]];
        r->block[r->n++] = b;
        s->of[b] = number[s->of[b]];
    }
    ret->of = s->of;
    ret->nblock = s->l->nblock;
    ret->n = n;
    return 0;
}

static int roles_search(struct search *s, struct rw_uniform *u, const uint32_t grid[3], struct rw_roles *ret)
{
    uint32_t before = UINT32_MAX;
    uint64_t *writes = dt_new_array(s->a, uint64_t, s->words);
    s->of = dt_new_array(s->a, uint32_t, (size_t)s->l->nblock + 1);
    if (!writes || !s->of)
        return DT_E_NOMEM;
    for (uint32_t b = 0; b < s->l->nblock; b++) {
        uint32_t at[3] = {b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1]};
        uint32_t k = roles_sort(s, b, rw_uniform_block(u, at), writes);
        if (k == UINT32_MAX)
            return DT_E_NOMEM;
        if (k == SORTS)
            return 0;
        s->of[b] = k;
        if (s->sort[k].any && before != UINT32_MAX && !s->sort[before].any)
            roles_unite(s, before, k);
        if (!s->sort[k].any && before != UINT32_MAX)
            roles_unite(s, before, k);
        before = k;
    }
    for (uint32_t x = 0; x < s->nsort; x++)
        for (uint32_t y = 0; y < x; y++)
            if (roles_root(s, x) != roles_root(s, y) && roles_meet(s, &s->sort[x], &s->sort[y]))
                roles_unite(s, x, y);
    int r = roles_list(s, ret);
    for (uint32_t k = 0; r == 0 && k < ret->n; k++)
        roles_box(grid, &ret->role[k]);
    return r;
}

int rw_roles_find(struct dt_arena *a, const struct ana_result *r, uint32_t launch, const struct ptx_function *f,
                  struct rw_roles *ret, struct dt_err *e)
{
    const struct dev_step *step = &r->prog->step[launch];
    const struct ana_launch *l = &r->launch[launch];
    struct rw_uniform *u = NULL;
    memset(ret, 0, sizeof *ret);
    if (l->nblock < 2 || l->nblock != step->blocks || !f)
        return 0;
    int x = rw_uniform_new(a, f, step, &u, e);
    if (x < 0)
        return x;
    dt_free_ struct search *s = dt_calloc(1, sizeof *s);
    dt_free_ uint8_t *any = dt_memdup(rw_uniform_block(u, NULL), (size_t)f->ninst + 1);
    if (!s || !any)
        x = DT_E_NOMEM;
    bool some = x == 0 && roles_decides(f, any, rw_uniform_block(u, (uint32_t[]){0, 0, 0}));
    if (some && rw_uniform_steps(u) * l->nblock > STEPS) {
        ret->too_large = true;
    } else if (some) {
        *s = (struct search){.a = a, .l = l, .f = f, .words = r->prog->graph->nbuffer / 64 + 1};
        x = roles_search(s, u, step->launch->grid, ret);
    }
    rw_uniform_done(u);
    return x < 0 ? dt_err_set(e, x, "out of memory") : 0;
}

/* ---- the conditions ---------------------------------------------------------------------------------------------- */

/* Bytes of the buffer that the role's blocks touch, or write. */
static struct ana_set role_bytes(struct dt_arena *a, const struct ana_launch *l, const struct rw_role *r,
                                 uint32_t buffer, bool writes)
{
    struct ana_set s = {0};
    const struct ana_interval *last[3] = {NULL, NULL, NULL};
    for (uint32_t k = 0; k < r->n; k++) {
        const struct ana_block *b = &l->block[r->block[k]];
        for (uint32_t i = 0; i < b->ntouch; i++) {
            const struct ana_set *of[3] = {&b->touch[i].must_write, &b->touch[i].may_write, &b->touch[i].read};
            for (int q = 0; b->touch[i].buffer == buffer && q < (writes ? 2 : 3); q++)
                if (of[q]->n && of[q]->iv != last[q]) { /* equal sets of a launch are shared */
                    s = ana_set_union(a, s, *of[q]);
                    last[q] = of[q]->iv;
                }
        }
    }
    return s;
}

bool rw_roles_apart(const struct ana_result *r, uint32_t launch, const struct rw_roles *roles, struct dt_str *why)
{
    const struct ana_launch *l = &r->launch[launch];
    for (uint32_t k = 0; k < l->naccess && !rw_off("roles_apart"); k++) {
        struct dt_arena a = {0};
        struct ana_set wrote[RW_ROLES], any;
        bool apart = true;
        if (!l->access[k].writes)
            continue;
        for (uint32_t i = 0; i < roles->n; i++)
            wrote[i] = role_bytes(&a, l, &roles->role[i], l->access[k].buffer, true);
        for (uint32_t i = 0; i < roles->n && apart; i++) {
            any = role_bytes(&a, l, &roles->role[i], l->access[k].buffer, false);
            for (uint32_t j = 0; j < roles->n && apart; j++)
                apart = i == j || !ana_set_overlaps(any, wrote[j]);
        }
        apart = apart && !dt_arena_failed(&a);
        dt_arena_done(&a);
        if (!apart) {
            dt_str_addf(why, "blocks of " DT_LAUNCH " touch bytes of " DT_BUFFER " that blocks of another role write",
                        r->prog->graph->launch[launch].name, r->prog->graph->buffer[l->access[k].buffer].name);
            return false;
        }
    }
    return true;
}

static struct ana_touch role_touch_of(const struct ana_block *b, uint32_t buffer)
{
    for (uint32_t k = 0; k < b->ntouch; k++)
        if (b->touch[k].buffer == buffer)
            return b->touch[k];
    return (struct ana_touch){.buffer = buffer};
}

/* Does y touch no more than x, and write for certain all that x does? */
static bool role_block_same(const struct ana_block *x, const struct ana_block *y)
{
    struct dt_arena a = {0};
    bool same = true;
    for (uint32_t k = 0; k < y->ntouch && same; k++) {
        struct ana_touch is = y->touch[k], was = role_touch_of(x, is.buffer);
        struct ana_set wrote = ana_set_union(&a, was.must_write, was.may_write),
                       writes = ana_set_union(&a, is.must_write, is.may_write);
        same = !ana_set_minus(&a, is.read, was.read).n && !ana_set_minus(&a, writes, wrote).n;
    }
    for (uint32_t k = 0; k < x->ntouch && same; k++)
        same = !ana_set_minus(&a, x->touch[k].must_write, role_touch_of(y, x->touch[k].buffer).must_write).n;
    same = same && !dt_arena_failed(&a);
    dt_arena_done(&a);
    return same;
}

bool rw_roles_same(const struct ana_result *now, uint32_t launch, const struct rw_roles *roles,
                   const struct ana_result *next, uint32_t first, struct dt_str *why)
{
    for (uint32_t k = 0; k < roles->n && !rw_off("same_footprints"); k++) {
        const struct rw_role *r = &roles->role[k];
        const struct ana_launch *l = &next->launch[first + k];
        bool same = l->nblock == r->n;
        for (uint32_t b = 0; b < r->n && same; b++)
            same = role_block_same(&now->launch[launch].block[r->block[b]], &l->block[b]);
        if (!same) {
            dt_str_addf(why, DT_LAUNCH " does not touch the bytes that its blocks touched in " DT_LAUNCH,
                        next->prog->graph->launch[first + k].name, now->prog->graph->launch[launch].name);
            return false;
        }
    }
    return true;
}
