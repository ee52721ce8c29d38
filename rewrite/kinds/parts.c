/* Parts: a block's stores divided among several blocks, for the kinds that do that (slice.c: of all blocks; tails.c: of
 * those of the last wave).
 *
 *   rw_parts_open    reads the kernel, asks the rows below, divides the stores at all levels
 *   rw_parts_level   is a level worth it, small enough, and does each store belong to just one part?
 *   rw_parts_beside  the candidate: the parts side by side in one grid, behind whole blocks, or larger parts of some
 *   rw_parts_text    its kernel
 *   rw_parts_apart   of the launch that was made: is each byte written in one part?
 *
 * What a part needs is found by emit/faint.c: its stores, barriers and all control flow, what these take, and the
 * stores to shared memory that a remaining load can reach.
 *
 *   dividing   the stores are numbered in the order of the text. A set of bits of that number says which part a store
 *              belongs to: in an unrolled tile some bits are its rows, others its columns. Bit by bit, the one is added
 *              that leaves the heaviest part least to do (rw_part_weight)
 *   by thread  of kernels with products of matrices (mma, wgmma) bits of the thread's number are bits, too: a tile that
 *              goes out through shared memory is one store in the text, and its rows and columns are threads. A store
 *              is then made, in each part, by the threads that have its bits; faint-threads.c finds what the part needs
 *
 * Legal when the rows hold, what parallel fusion asks of a kernel that is copied, and
 *   plain_effects   it has no other effect than stores: an atomic would be done k times
 *   each_store      each store is in exactly one part; whatever else has an effect, and barriers, are in all
 *   shared_reach    what was left out of the stores to shared memory, no remaining load can reach
 *   parts_apart     the new launch's block map has no two blocks that touch a byte in conflict. So each byte is written
 *                   in one part alone, in the posted order, and read where it is written or where nobody writes it
 * The machine code of all parts is compared with the posted kernel's as for any changed kernel: the last use of a value
 * whose store went elsewhere must not be combined in another way.
 *
 * It does not divide one thread's share of a store: of a loop over rows that stays a loop, nothing is cut. No
 * product of matrices is made smaller. Those of warp groups are left out for some groups alone, those of warps for all
 * or none. Copies of tensors and their barriers stay, whoever needs them.
 */
#include "rewrite/kinds/parts.h"
#include "rewrite/facts/hooks.h"
#include "rewrite/kinds/kinds-priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

enum { BITS = 12, THREAD = 16, THREADS = 10 }; /* bits of a store's number; where a thread's begin */
#define SETS 4000000 /* instructions times words of a set of registers: what finding a part may take */
#define TEXT 60000   /* instructions of all parts together */
#define LESS 0.93    /* of the level before: more of the heaviest part than this, and the level is not built */
#define WORTH 0.85   /* of the posted block */

const char *const rw_part_levels[] = {"halves", "quarters", "eighths", "sixteenths", NULL};

static const struct rw_legal rows[] = {
    RW_LEGAL_ROW(plain_launches),  RW_LEGAL_ROW(clusters),         RW_LEGAL_ROW(opaque),
    RW_LEGAL_ROW(self_conflict),   RW_LEGAL_ROW(ordered_access),   RW_LEGAL_ROW(side_effects),
    RW_LEGAL_ROW(float_atomics),   RW_LEGAL_ROW(plain_effects),    RW_LEGAL_ROW(machine_registers),
    RW_LEGAL_ROW(functions),       RW_LEGAL_ROW(module_variables), RW_LEGAL_ROW(parameters),
    RW_LEGAL_ROW(targets),         RW_LEGAL_ROW(uniform_barriers), RW_LEGAL_ROW(uniform_collectives),
    RW_LEGAL_ROW(barrier_numbers), RW_LEGAL_ROW(thread_counts),    RW_LEGAL_ROW(active_mask),
    RW_LEGAL_ROW(beside_async),    RW_LEGAL_ROW(constant_space),   RW_LEGAL_ROW(shared_space),
};
#define NROWS (sizeof rows / sizeof rows[0])

/* ---- conditions -------------------------------------------------------------------------------------------------- */

/* The row of legal.def. */
bool rw_legal_plain_effects(const struct rw_cand *c, struct dt_str *why)
{
    const struct rw_body *b = &c->facts.body[0];
    for (uint32_t n = 0; b->f && n < b->f->ninst; n++) {
        const struct ptx_inst *i = &b->f->inst[n];
        unsigned flags = ptx_op_info(i->op)->flags;
        if (!rw_is_global_access(i) || !(flags & (PTX_F_WRITES | PTX_F_ATOMIC)) || i->op == PTX_OP_ST ||
            i->op == PTX_OP_WMMA_STORE_D || (i->op == PTX_OP_CP_ASYNC && i->space == PTX_SHARED))
            continue;
        dt_str_addf(why, DT_LAUNCH ", PTX line %u: each part would do it: %s", b->step->launch->name, i->line,
                    ptx_op_info(i->op)->mnemonic);
        return false;
    }
    return true;
}

/* In how many parts a thread makes the instruction. */
static unsigned parts_with(const struct rw_parts *m, unsigned level, uint32_t n, uint32_t thread)
{
    unsigned with = 0;
    for (unsigned p = 0; p < 2u << level; p++) {
        const struct rw_share *s = &m->part[level][p];
        with += s->keep[n] && (!s->only || rw_is_among(s->only[n], thread));
    }
    return with;
}

/* Where products of warp groups begin and end does not matter to who makes none: in how many parts does the thread make
 * neither? */
static unsigned parts_without(const struct rw_parts *m, unsigned level, uint32_t n, uint32_t thread)
{
    const struct ptx_function *f = m->one.facts.body[0].f;
    unsigned without = 0;
    for (unsigned p = 0; p < 2u << level && rw_is_group_order(&f->inst[n]); p++) {
        const struct rw_share *s = &m->part[level][p];
        bool makes = false;
        for (uint32_t k = 0; k < f->ninst; k++)
            makes |= rw_is_group_product(&f->inst[k]) && s->keep[k] && rw_is_among(s->only[k], thread);
        without += !makes && !(s->keep[n] && rw_is_among(s->only[n], thread));
    }
    return without;
}

/* The row of legal.def. */
static bool parts_each_store(const struct rw_parts *m, unsigned level, struct dt_str *why)
{
    const struct rw_body *b = &m->one.facts.body[0];
    for (uint32_t n = 0; n < b->f->ninst && !rw_off("each_store"); n++) {
        const struct ptx_inst *i = &b->f->inst[n];
        unsigned flags = ptx_op_info(i->op)->flags, want = rw_is_part_store(i) ? 1 : 2u << level, parts = want;
        if (want != 1 && !(flags & (PTX_F_BARRIER | PTX_F_BRANCH | PTX_F_TERMINATOR | PTX_F_CALL | PTX_F_SIDE)) &&
            (!(flags & (PTX_F_WRITES | PTX_F_ATOMIC)) || i->space == PTX_SHARED))
            continue;
        for (uint32_t t = 0; t < (m->by_thread ? b->threads : 1) && parts == want; t++)
            parts = parts_with(m, level, n, t) + (m->by_thread ? parts_without(m, level, n, t) : 0);
        if (parts == want)
            continue;
        dt_str_addf(why, DT_ROW("each-store") ": PTX line %u is in %u of %u parts", i->line, parts, 2u << level);
        return false;
    }
    return true;
}

/* The row of legal.def: looked at again, from what was left out. */
static bool parts_shared_reach(const struct rw_parts *m, const struct rw_share *part, struct dt_str *why)
{
    const struct ptx_function *f = m->one.facts.body[0].f;
    uint32_t store, load;
    if (rw_off("shared_reach") || rw_part_reach(&m->one.facts.body[0], &m->reach, part, &store, &load))
        return true;
    dt_str_addf(why, DT_ROW("shared-reach") ": PTX line %u may read what line %u no longer writes", f->inst[load].line,
                f->inst[store].line);
    return false;
}

/* The row of legal.def. */
bool rw_parts_apart(const struct rw_edit *x, const struct rw_state *next, struct dt_str *why)
{
    (void)x;
    for (uint32_t k = 0; k < next->graph->nlaunch && !rw_off("parts_apart"); k++)
        if (next->from[k] == UINT32_MAX && next->ana->launch[k].self_conflict) {
            dt_str_addf(why, DT_ROW("parts-apart") ": two blocks of " DT_LAUNCH " touch a byte, one of them writing",
                        next->graph->launch[k].name);
            return false;
        }
    return true;
}

/* ---- dividing the stores ----------------------------------------------------------------------------------------- */

static unsigned parts_part(uint32_t number, uint32_t bits)
{
    unsigned part = 0, at = 0;
    for (; bits; bits &= bits - 1)
        part |= (number >> __builtin_ctz(bits) & 1) << at++;
    return part;
}

/* The other way: the bits of a part. */
static uint32_t parts_number(unsigned part, uint32_t bits)
{
    uint32_t number = 0;
    for (; bits; bits &= bits - 1, part >>= 1)
        number |= (part & 1) << __builtin_ctz(bits);
    return number;
}

static int parts_share(struct rw_parts *m, struct rw_share *ret, struct dt_err *e)
{
    const struct rw_body *b = &m->one.facts.body[0];
    struct dt_arena *a = &m->one.arena;
    size_t n = b->f->ninst + (size_t)1;
    *ret = (struct rw_share){.keep = dt_new_array(a, uint8_t, n)};
    if (m->by_thread) {
        ret->only = dt_new_array(a, struct rw_threads, n);
        ret->run = dt_new_array(a, uint32_t, n);
        ret->reads = dt_new_array(a, uint64_t, n * rw_thread_words(b));
        ret->zero = dt_new_array(a, struct rw_zero, RW_ZEROS);
    }
    return ret->keep && (!m->by_thread || (ret->only && ret->run && ret->reads && ret->zero))
               ? 0
               : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

static void parts_copy(const struct rw_parts *m, struct rw_share *to, const struct rw_share *from)
{
    const struct rw_body *b = &m->one.facts.body[0];
    memcpy(to->keep, from->keep, b->f->ninst);
    if (m->by_thread) {
        memcpy(to->only, from->only, b->f->ninst * sizeof *to->only);
        memcpy(to->run, from->run, b->f->ninst * sizeof *to->run);
        memcpy(to->zero, from->zero, RW_ZEROS * sizeof *to->zero);
        to->nzero = from->nzero;
        memcpy(to->reads, from->reads, b->f->ninst * rw_thread_words(b) * sizeof *to->reads);
    }
}

/* What part p of that division needs. 1: it has no store, or nobody makes it. */
static int parts_need(struct rw_parts *m, uint32_t bits, unsigned p, uint8_t *own, struct rw_share *ret,
                      struct dt_err *e)
{
    const struct rw_body *b = &m->one.facts.body[0];
    uint32_t number = parts_number(p, bits), some = 0, threads = 0, stores = bits & ((1u << BITS) - 1);
    struct rw_threads among = {(uint16_t)(bits >> THREAD), (uint16_t)(number >> THREAD)};
    memset(own, 0, b->f->ninst);
    for (uint32_t k = 0; k < m->nstore; k++)
        if ((k & stores) == (number & stores) && !(RW_SPOILT("store") && !k))
            own[m->store[k]] = 1, some++;
    for (uint32_t t = 0; t < b->threads; t++)
        threads += rw_is_among(among, t);
    if (!some || !threads)
        return 1;
    if (RW_SPOILT("threads"))
        among.value = 0;
    if (!m->by_thread)
        return rw_faint(b, &m->reach, own, ret->keep, e);
    int r = rw_faint_threads(b, &m->reach, own, among, ret, e);
    return r < 0 ? r : rw_part_zero(b, &m->reach, ret, e);
}

/* What each part of that division needs; *ret_worst: of the heaviest, *ret_sum: of all. 1: a part has no store. */
static int parts_divide(struct rw_parts *m, uint32_t bits, unsigned nparts, struct rw_share *part, double *ret_worst,
                        double *ret_sum, struct dt_err *e)
{
    const struct rw_body *b = &m->one.facts.body[0];
    dt_free_ uint8_t *own = dt_calloc((size_t)b->f->ninst + 1, 1);
    if (!own)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    *ret_worst = *ret_sum = 0;
    for (unsigned p = 0; p < nparts; p++) {
        int r = parts_need(m, bits, p, own, &part[p], e);
        if (r != 0)
            return r;
        double w = rw_part_weight(b, &m->reach, &part[p]);
        *ret_sum += w;
        *ret_worst = w > *ret_worst ? w : *ret_worst;
    }
    return 0;
}

/* May bit b divide: does it tell stores, or threads, apart? */
static bool parts_bit(const struct rw_parts *m, unsigned b)
{
    if (b < BITS)
        return UINT32_C(1) << b < m->nstore;
    return m->by_thread && b >= THREAD && b < THREAD + THREADS &&
           UINT32_C(1) << (b - THREAD) < m->one.facts.body[0].threads;
}

/* The divisions of all levels, each with one bit more than the one before. */
static int parts_levels(struct rw_parts *m, struct dt_err *e)
{
    uint32_t bits = 0;
    struct rw_share tried[RW_PARTS], best[RW_PARTS];
    int r = 0;
    for (unsigned p = 0; p < RW_PARTS; p++)
        if ((r = parts_share(m, &tried[p], e)) < 0)
            return r;
    for (unsigned l = 0; l < RW_PART_LEVELS; l++) {
        double worst = 0, sum = 0, w = 0, all = 0;
        uint32_t with = 0;
        for (unsigned p = 0; p < 2u << l; p++)
            if ((r = parts_share(m, &best[p], e)) < 0)
                return r;
        for (unsigned b = 0; b < 32; b++) {
            if ((bits >> b & 1) || !parts_bit(m, b))
                continue;
            if ((r = parts_divide(m, bits | UINT32_C(1) << b, 2u << l, tried, &w, &all, e)) < 0)
                return r;
            if (r == 1 || (with && (w > worst || (w == worst && all >= sum))))
                continue;
            with = UINT32_C(1) << b;
            worst = w;
            sum = all;
            for (unsigned p = 0; p < 2u << l; p++)
                parts_copy(m, &best[p], &tried[p]);
        }
        if (!with)
            break;
        bits |= with;
        m->bits[l] = bits;
        m->heaviest[l] = worst;
        memcpy(m->part[l], best, sizeof *best * (2u << l));
    }
    return 0;
}

static bool makes_matrices(const struct ptx_function *f)
{
    for (uint32_t n = 0; n < f->ninst; n++)
        if (f->inst[n].op == PTX_OP_MMA || f->inst[n].op == PTX_OP_WGMMA_MMA_ASYNC)
            return true;
    return false;
}

bool rw_parts_divisible(const struct ptx_function *f)
{
    unsigned found = 0;
    for (uint32_t n = 0; n < f->ninst && found < 2; n++)
        found += f->inst[n].op == PTX_OP_WMMA_STORE_D ||
                 (f->inst[n].op == PTX_OP_ST && (f->inst[n].space == PTX_GLOBAL || f->inst[n].space == PTX_GENERIC));
    return found > 1 || (found && makes_matrices(f));
}

static int parts_look(struct rw_parts *m, struct dt_err *e)
{
    const struct rw_body *b = &m->one.facts.body[0];
    struct rw_share all = {.keep = dt_new_array(&m->one.arena, uint8_t, b->f->ninst + 1)};
    m->store = dt_new_array(&m->one.arena, uint32_t, b->f->ninst + 1);
    if (!all.keep || !m->store)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    m->by_thread = makes_matrices(b->f) && rw_faint_can(b);
    for (uint32_t n = 0; n < b->f->ninst; n++) {
        if (rw_is_part_store(&b->f->inst[n]))
            m->store[m->nstore++] = n;
        m->by_thread &= b->f->inst[n].op != PTX_OP_WMMA_STORE_D; /* all lanes make it */
    }
    if (m->nstore < (m->by_thread ? 1u : 2u))
        return 0;
    memset(all.keep, 1, b->f->ninst);
    int r = rw_reach_of(&m->one.arena, b, m->by_thread, &m->reach, e);
    if (r < 0)
        return r;
    m->whole = rw_part_weight(b, &m->reach, &all);
    return parts_levels(m, e);
}

/* ---- a kind that divides ----------------------------------------------------------------------------------------- */

int rw_parts_open(struct rw_edit *x, struct rw_parts *m, double share, enum rw_verdict *ret_verdict, struct dt_str *why,
                  struct dt_err *e)
{
    double least = 1;
    *ret_verdict = RW_REFUSED;
    int r = rw_cand_open(&m->one, x->dev, x->now->prog, x->now->ana, x->opt, x->launch, 1, e);
    if (r < 0)
        return r;
    if (!rw_legal_rows(rows, NROWS, &m->one, why))
        return 1;
    if ((r = rw_identity(&m->one, why, e)) != 0)
        return r;
    m->legal = true;
    const struct ptx_function *f = m->one.facts.body[0].f;
    if ((uint64_t)f->ninst * (f->nreg / 64 + 1) > SETS) {
        dt_str_addf(why, DT_ROW("too-large") ": %u instructions with %u registers", f->ninst, f->nreg);
        return 1;
    }
    if ((r = parts_look(m, e)) < 0)
        return r;
    if (!m->part[0][0].keep) {
        dt_str_addf(why, DT_ROW("one-store") ": " DT_LAUNCH " has no two plain stores to divide",
                    m->one.facts.body[0].step->launch->name);
        return 1;
    }
    for (unsigned l = 0; l < RW_PART_LEVELS && m->part[l][0].keep; l++)
        least = m->heaviest[l] / m->whole < least ? m->heaviest[l] / m->whole : least;
    if (RW_FORCED || least < WORTH)
        return 0;
    *ret_verdict = RW_DROPPED;
    x->before_us = x->now->time.time_us;
    x->after_us = x->before_us - (x->now->step_us ? x->now->step_us[x->launch[0]] * share * (1 - least) : 0);
    dt_str_add(why, "estimated: what its stores need they need together");
    return 1;
}

/* Instructions of all parts. */
static uint32_t parts_size(const struct rw_parts *m, unsigned level)
{
    uint32_t all = 0;
    for (unsigned p = 0; p < 2u << level; p++)
        for (uint32_t n = 0; n < m->one.facts.body[0].f->ninst; n++)
            all += m->part[level][p].keep[n];
    return all;
}

bool rw_parts_level(const struct rw_parts *m, unsigned level, uint32_t blocks, struct dt_str *why)
{
    unsigned nparts = 2u << level;
    double before = level ? m->heaviest[level - 1] : m->whole;
    if (!m->part[level][0].keep || (!RW_FORCED && m->heaviest[level] > LESS * before)) {
        dt_str_addf(why, DT_ROW("parts") ": in %u parts no block has less to do", nparts);
        return false;
    }
    if (parts_size(m, level) > TEXT) {
        dt_str_addf(why, DT_ROW("too-large") ": %u parts have %u instructions", nparts, parts_size(m, level));
        return false;
    }
    if ((uint64_t)nparts * blocks + m->one.facts.body[0].step->blocks > INT32_MAX) {
        dt_str_add(why, DT_ROW("grid") ": the blocks of all parts are too many for one launch");
        return false;
    }
    if (!parts_each_store(m, level, why))
        return false;
    for (unsigned p = 0; p < nparts; p++)
        if (!parts_shared_reach(m, &m->part[level][p], why))
            return false;
    return true;
}

/* The part of level `main` (0: the whole) that part p of `level` is a piece of: it has the other's bits, and more. */
static unsigned parts_piece_of(const struct rw_parts *m, unsigned main, unsigned level, unsigned p)
{
    return main ? parts_part(parts_number(p, m->bits[level]), m->bits[main - 1]) : 0;
}

/* A body more: blocks from `first` on, `n` of them, of which `part` is there; NULL: all. */
static void parts_body(struct rw_cand *c, struct rw_share *shares, uint32_t k, const struct rw_share *part,
                       uint32_t first, uint32_t n)
{
    c->beside[k + 1] = c->beside[k] + n;
    c->lists.list[k] = (struct rw_list){.affine = true, .a = first - c->beside[k], .b = 1, .m = 1, .max = 1};
    shares[k] = part ? *part : (struct rw_share){0};
}

int rw_parts_beside(struct rw_edit *x, struct rw_parts *m, unsigned main, unsigned level, uint32_t whole,
                    struct dt_err *e)
{
    struct rw_cand *c = &m->all;
    uint32_t launch[2 * RW_PARTS], n = 0, blocks = m->one.facts.body[0].step->blocks, own[RW_PARTS];
    rw_cand_done(c);
    for (unsigned q = 0; q < 1u << main; q++) {
        uint32_t before = q * blocks;
        own[q] = whole <= before ? 0 : whole - before < blocks ? whole - before : blocks;
        n += own[q] > 0;
    }
    for (unsigned p = 0; p < 2u << level; p++)
        n += own[parts_piece_of(m, main, level, p)] < blocks;
    for (uint32_t k = 0; k < n; k++)
        launch[k] = x->launch[0];
    int r = rw_cand_open(c, x->dev, x->now->prog, x->now->ana, x->opt, launch, n, e);
    if (r < 0)
        return r;
    struct rw_share *shares = dt_new_array(&c->arena, struct rw_share, n + 1);
    c->beside = dt_new_array(&c->arena, uint32_t, n + 1);
    if (!c->beside || !shares)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    n = 0;
    for (unsigned q = 0; q < 1u << main; q++)
        if (own[q])
            parts_body(c, shares, n++, main ? &m->part[main - 1][q] : NULL, 0, own[q]);
    m->heavy = c->beside[n];
    for (unsigned p = 0; p < 2u << level; p++) {
        uint32_t from = own[parts_piece_of(m, main, level, p)];
        if (from < blocks)
            parts_body(c, shares, n++, &m->part[level][p], from, blocks - from);
    }
    c->lists.n = c->beside[n];
    c->shares = shares;
    return 0;
}

int rw_parts_text(struct rw_edit *x, struct rw_parts *m, const char *word, struct dt_str *why, struct dt_err *e)
{
    struct rw_cand *c = &m->all;
    struct dt_str room = {0};
    const char *name = x->now->graph->launch[x->launch[0]].name;
    if (!rw_layout(c, &room))
        dt_str_addf(why, DT_ROW("shared-space") ": %s", room.s ? room.s : "it does not fit");
    dt_str_done(&room);
    if (why->len || !rw_legal_rows(rows, NROWS, c, why))
        return 1;
    int r = rw_identity(c, why, e);
    if (r)
        return r;
    for (unsigned p = 0; p < c->facts.nbody; p++)
        if (c->facts.body[p].f->ninst != m->one.facts.body[0].f->ninst)
            return dt_err_set(e, DT_E_INTERNAL, "the explicit forms of one kernel differ");
    rw_name_entry(&m->one);
    snprintf(c->made.entry, sizeof c->made.entry, "%s%.100s", word, m->one.made.entry + strlen("fused"));
    if ((r = rw_join(c, e)) < 0 || (r = rw_resources(c, why, e)) != 0 || (r = rw_fuse_part(c, x, e)) != 0)
        return r;
    x->part.p[x->part.n - 1].heavy = m->heavy;
    return json_object_set_new(x->part.p[x->part.n - 1].launch, "name", json_string(name)) < 0
               ? dt_err_set(e, DT_E_NOMEM, "out of memory")
               : 0;
}

void rw_parts_close(struct rw_edit *x)
{
    struct rw_parts *m = x->mine;
    if (m) {
        rw_cand_done(&m->one);
        rw_cand_done(&m->all);
        rw_solo_done(&m->solo);
    }
    free(m);
    x->mine = NULL;
}
