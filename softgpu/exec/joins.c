/* Loads of shared memory that the assembler makes one: of 4, 8 or 16 bytes that begin at a multiple of their size, for
 * which PTX has a load for each word or half of one. Compilers leave them apart in loops that they unroll (a row of a
 * tile, word by word), and ptxas reads them together: fewer instructions and fewer passes than PTX counts (seen with
 * ptxas 13.0: of 128 loads of a product's tile 32 are left).
 *
 * What must hold, as ptxas was seen to ask: the loads are in one basic block, without a store, an atomic, a barrier or
 * a call between them; they have the same register as address, and constants behind it; no predicate; and the address
 * can be seen to be a multiple of the whole. What an address is a multiple of is found by going through the function's
 * arithmetic until nothing changes (or long enough: then nothing is joined), beginning with 16 everywhere:
 * multiplications, shifts and masks by constants, sums, variables by their alignment or their place; what is loaded, or
 * a thread's number, is a multiple of nothing.
 *
 * The first of them reads all (struct sg_cost: joined, back), the others are no instruction (absorbed) and have their
 * word when the first one could have it. What it does not do: loads of global memory (ptxas leaves them apart), stores,
 * three words of four, halves and words in one, limits of registers.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "softgpu/exec/costs.h"

enum { MOST = 4 /* powers of two, 16 bytes */, GROUPS = 64 /* under way at a time */, TURNS = 16 };

struct joins {
    const struct ptx_function *f;
    uint8_t *aligned; /* by register: powers of two that its value is a multiple of */
    uint32_t *src;    /* by instruction of f, from 1 on; 0: none */
    struct sg_costs *c;
};

struct group { /* loads of one 16 bytes, by so many bytes each; inst: their instructions, from 1 on */
    uint32_t base, size, inst[8];
    int64_t chunk;
};

static unsigned zeros(uint64_t v) { return v & 15 ? (unsigned)__builtin_ctzll(v) : MOST; }

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

/* Where the assembler itself lays it out, it knows more than what PTX asks for. */
static unsigned of_variable(const struct ptx_var *v)
{
    return v->space == PTX_SHARED && !v->is_extern && v->bytes % 16 == 0 ? MOST : zeros(v->align);
}

static unsigned of_operand(const struct joins *j, const struct ptx_opnd *o)
{
    switch (o->kind) {
    case PTX_O_REG: return j->aligned[o->reg];
    case PTX_O_IMM: return zeros(o->bits);
    case PTX_O_VAR: return least(of_variable(o->var), zeros((uint64_t)o->off));
    default: return 0;
    }
}

/* What the first result of an instruction is a multiple of. */
static unsigned of_result(const struct joins *j, const struct ptx_inst *i)
{
    unsigned at[4] = {0};
    for (unsigned k = 1; k < i->nopnd && k < 4; k++)
        at[k] = of_operand(j, &i->opnd[k]);
    if (i->dst2 || i->nopnd < 2 || (i->ntype && ptx_type_is_float((enum ptx_type)i->type[0])))
        return 0;
    switch (i->op) {
    case PTX_OP_MOV:
    case PTX_OP_CVTA: return at[1];
    case PTX_OP_CVT: return i->ntype > 1 && ptx_type_is_float((enum ptx_type)i->type[1]) ? 0 : at[1];
    case PTX_OP_ADD:
    case PTX_OP_SUB:
    case PTX_OP_OR:
    case PTX_OP_XOR:
    case PTX_OP_SELP: return least(at[1], at[2]);
    case PTX_OP_AND: return at[1] > at[2] ? at[1] : at[2];
    case PTX_OP_MUL: return ptx_has(i, PTX_M_HI) ? 0 : least(at[1] + at[2], MOST);
    case PTX_OP_MAD: return ptx_has(i, PTX_M_HI) ? 0 : least(least(at[1] + at[2], MOST), at[3]);
    case PTX_OP_SHL:
        return i->opnd[2].kind == PTX_O_IMM ? least(at[1] + (unsigned)(i->opnd[2].bits & 63), MOST) : at[1];
    default: return 0;
    }
}

static void joins_nothing(uint32_t reg, bool write, void *user)
{
    uint8_t *aligned = user;
    if (write)
        aligned[reg] = 0;
}

static bool has_one_result(const struct ptx_inst *i) { return i->nopnd && i->opnd[0].kind == PTX_O_REG && !i->dst2; }

static void find_aligned(struct joins *j)
{
    memset(j->aligned, MOST, j->f->nreg);
    for (uint32_t k = 0; k < j->f->ninst; k++)
        if (!has_one_result(&j->f->inst[k]))
            ptx_inst_regs(&j->f->inst[k], joins_nothing, j->aligned);
    bool more = true;
    for (unsigned turn = 0; more; turn++) {
        if (turn == TURNS) { /* code that is written backwards */
            memset(j->aligned, 0, j->f->nreg);
            return;
        }
        more = false;
        for (uint32_t k = 0; k < j->f->ninst; k++) {
            const struct ptx_inst *i = &j->f->inst[k];
            unsigned now = has_one_result(i) ? of_result(j, i) : MOST;
            if (now < MOST && now < j->aligned[i->opnd[0].reg])
                j->aligned[i->opnd[0].reg] = (uint8_t)now, more = true;
        }
    }
}

/* A load of 2 or 4 bytes of shared memory that may be joined with others. */
static bool is_part(const struct joins *j, const struct ptx_inst *i, uint32_t src)
{
    const struct sg_cost *c = src ? &j->c->inst[src - 1] : NULL;
    return c && i->op == PTX_OP_LD && i->space == PTX_SHARED && i->pred == PTX_NO_REG && i->vec <= 1 && !c->strong &&
           (ptx_type_bytes((enum ptx_type)i->type[0]) == 4 || ptx_type_bytes((enum ptx_type)i->type[0]) == 2) &&
           i->nopnd == 2 && i->opnd[0].kind == PTX_O_REG && i->opnd[1].kind == PTX_O_ADDR &&
           i->opnd[1].base_kind == PTX_O_REG;
}

/* Does nothing pass this instruction? */
static bool ends(const struct joins *j, const struct ptx_inst *i, uint32_t src)
{
    unsigned kind = src ? j->c->inst[src - 1].kind : SG_COST_PLAIN;
    return i->op == PTX_OP_LABEL || i->op == PTX_OP_CALL || (kind != SG_COST_PLAIN && kind != SG_COST_LOAD);
}

/* The loads of a group from `first` on, n of them, become one: the one that comes first reads for all. */
static void joins_together(struct joins *j, struct group *g, unsigned first, unsigned n)
{
    uint32_t head = UINT32_MAX;
    for (unsigned k = first; k < first + n; k++)
        head = g->inst[k] < head ? g->inst[k] : head;
    for (unsigned k = first; k < first + n; k++) {
        struct sg_cost *c = &j->c->inst[j->src[g->inst[k] - 1] - 1];
        if (g->inst[k] == head) {
            c->joined = (uint8_t)(g->size * n);
            c->back = (uint8_t)(g->size * (k - first));
        } else {
            c->absorbed = true;
            memset(c->slots, 0, sizeof c->slots);
            c->total = 0;
        }
        g->inst[k] = 0;
    }
}

static void finish(struct joins *j, struct group *g)
{
    for (unsigned bytes = 16; bytes >= 4 && bytes > g->size; bytes /= 2) {
        unsigned n = bytes / g->size;
        for (unsigned first = 0; first < 16 / g->size && j->aligned[g->base] >= zeros(bytes); first += n) {
            bool all = true;
            for (unsigned k = first; k < first + n; k++)
                all &= g->inst[k] != 0;
            if (all)
                joins_together(j, g, first, n);
        }
    }
}

static void add_load(struct joins *j, struct group *g, uint32_t *n, uint32_t k)
{
    const struct ptx_inst *i = &j->f->inst[k];
    const struct ptx_opnd *at = &i->opnd[1];
    int64_t chunk = at->off >> 4;
    uint32_t size = ptx_type_bytes((enum ptx_type)i->type[0]), q = 0, place = (uint32_t)(at->off & 15) / size;
    if (at->off & (int64_t)(size - 1))
        return;
    while (q < *n && (g[q].base != at->reg || g[q].chunk != chunk || g[q].size != size))
        q++;
    if (q == GROUPS) { /* the oldest one has had its time */
        finish(j, &g[0]);
        memmove(g, g + 1, (GROUPS - 1) * sizeof *g);
        q = --*n;
    }
    if (q == *n)
        g[(*n)++] = (struct group){.base = at->reg, .size = size, .chunk = chunk};
    if (!g[q].inst[place])
        g[q].inst[place] = k + 1;
}

/* Groups whose address is written anew end. */
static void drop_written(struct joins *j, const struct ptx_inst *i, struct group *g, uint32_t *n)
{
    uint32_t reg = i->nopnd && i->opnd[0].kind == PTX_O_REG ? i->opnd[0].reg : PTX_NO_REG;
    for (uint32_t q = 0; q < *n;)
        if (g[q].base == reg) {
            finish(j, &g[q]);
            memmove(g + q, g + q + 1, (--*n - q) * sizeof *g);
        } else {
            q++;
        }
}

static void join_function(struct joins *j)
{
    struct group g[GROUPS];
    uint32_t n = 0;
    find_aligned(j);
    for (uint32_t k = 0; k <= j->f->ninst; k++) {
        const struct ptx_inst *i = k < j->f->ninst ? &j->f->inst[k] : NULL;
        if (!i || ends(j, i, j->src[k])) {
            for (uint32_t q = 0; q < n; q++)
                finish(j, &g[q]);
            n = 0;
            continue;
        }
        if (is_part(j, i, j->src[k]))
            add_load(j, g, &n, k);
        drop_written(j, i, g, &n);
    }
}

bool sg_costs_join(struct sg_costs *c, const struct sg_code *code)
{
    bool ok = true;
    for (uint32_t from = 0, to; from < code->nsrc && ok; from = to) {
        struct joins j = {.f = code->src[from].f, .c = c};
        j.aligned = dt_calloc(j.f->nreg + 1, 1);
        j.src = dt_calloc(j.f->ninst + 1, sizeof *j.src);
        ok = j.aligned && j.src;
        for (to = from; to < code->nsrc && code->src[to].f == j.f; to++)
            if (ok && !j.src[code->src[to].inst])
                j.src[code->src[to].inst] = to + 1;
        if (ok)
            join_function(&j);
        free(j.aligned);
        free(j.src);
    }
    return ok;
}
