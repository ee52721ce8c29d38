/* What an instruction of PTX costs on the machine: how many machine instructions of which pipe, and after how many
 * clocks its result is there. A table by instruction and type, after what ptxas makes of each for sm_80 to sm_90;
 * moves, address spaces and parameters cost nothing, since nothing is left of them.
 *
 * Slots are what ptxas was seen to make, latencies are constants of the model (softgpu/constants.def): 4 clocks for
 * what the main pipes do, more for others. What holds both is tests/published/ as a whole (ilp.tsv most of all).
 * Instructions with a slow path (division, roots) are those of the fast path.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/exec/costs.h"

static bool is_wide(enum ptx_type t) { return ptx_type_bytes(t) == 8; }

static void cost_add(struct sg_cost *c, enum sg_pipe p, unsigned n) { c->slots[p] = (uint8_t)(c->slots[p] + n); }

static void cost_float(const struct ptx_inst *i, enum ptx_type t, const struct sg_constants *k, struct sg_cost *c)
{
    bool wide = t == PTX_F64, half = ptx_type_bytes(t) == 2 || t == PTX_F16X2 || t == PTX_BF16X2;
    bool approximate = ptx_has(i, PTX_M_APPROX) || ptx_has(i, PTX_M_FULL);
    c->latency = wide ? k->fp64_clocks : k->fma_clocks;
    switch (i->op) {
    case PTX_OP_DIV:
        if (wide) {
            cost_add(c, SG_PIPE_FP64, 9), cost_add(c, SG_PIPE_XU, 1), cost_add(c, SG_PIPE_ALU, 4);
            c->latency = k->div64_clocks;
            c->branches = true;
        } else if (approximate) {
            cost_add(c, SG_PIPE_XU, 1), cost_add(c, SG_PIPE_FMA, 1 + 2 * ptx_has(i, PTX_M_FULL));
            c->latency = k->quotient_clocks;
        } else {
            cost_add(c, SG_PIPE_XU, 2), cost_add(c, SG_PIPE_FMA, 7), cost_add(c, SG_PIPE_ALU, 2);
            c->latency = k->div_clocks;
            c->branches = true;
        }
        return;
    case PTX_OP_RCP:
    case PTX_OP_SQRT:
    case PTX_OP_RSQRT:
        cost_add(c, SG_PIPE_XU, 1);
        c->latency = k->special_clocks;
        if (wide)
            cost_add(c, SG_PIPE_FP64, 7), cost_add(c, SG_PIPE_ALU, 4), c->latency = k->root64_clocks;
        else if (!approximate)
            cost_add(c, SG_PIPE_FMA, 4), cost_add(c, SG_PIPE_ALU, 3), c->latency = k->root_clocks;
        else
            cost_add(c, SG_PIPE_FMA, ptx_has(i, PTX_M_FTZ) ? 0 : 2);
        c->branches = wide || !approximate;
        return;
    case PTX_OP_SIN:
    case PTX_OP_COS:
        cost_add(c, SG_PIPE_XU, 1), cost_add(c, SG_PIPE_FMA, 1);
        c->latency = k->sine_clocks;
        return;
    case PTX_OP_EX2:
    case PTX_OP_LG2:
    case PTX_OP_TANH:
        cost_add(c, SG_PIPE_XU, 1), cost_add(c, SG_PIPE_FMA, half || ptx_has(i, PTX_M_FTZ) ? 0 : 2);
        c->latency = k->special_clocks;
        return;
    case PTX_OP_MIN:
    case PTX_OP_MAX:
    case PTX_OP_SETP:
    case PTX_OP_SET:
    case PTX_OP_SELP:
    case PTX_OP_SLCT:
    case PTX_OP_TESTP:
    case PTX_OP_COPYSIGN:
        cost_add(c, wide ? SG_PIPE_FP64 : SG_PIPE_ALU, 1);
        c->latency = wide ? k->compare64_clocks : k->compare_clocks;
        return;
    case PTX_OP_NEG:
    case PTX_OP_ABS: c->latency = 0; return; /* part of what reads it */
    default: cost_add(c, wide ? SG_PIPE_FP64 : SG_PIPE_FMA, t == PTX_F32 || wide || half ? 1 : 2); return;
    }
}

static void cost_int(const struct ptx_inst *i, enum ptx_type t, const struct sg_constants *k, struct sg_cost *c)
{
    bool wide = is_wide(t);
    c->latency = k->int_clocks;
    switch (i->op) {
    case PTX_OP_MUL:
    case PTX_OP_MAD:
    case PTX_OP_MUL24:
    case PTX_OP_MAD24:
        cost_add(c, SG_PIPE_IMAD, wide && !ptx_has(i, PTX_M_WIDE) ? 4 : 1);
        c->latency = wide ? k->imad64_clocks : k->imad_clocks;
        return;
    case PTX_OP_DIV:
    case PTX_OP_REM:
        cost_add(c, SG_PIPE_XU, wide ? 4 : 2), cost_add(c, SG_PIPE_IMAD, wide ? 30 : 6),
            cost_add(c, SG_PIPE_ALU, wide ? 40 : 9);
        c->latency = wide ? k->idiv64_clocks : k->idiv_clocks;
        return;
    case PTX_OP_POPC:
    case PTX_OP_CLZ:
    case PTX_OP_BFIND:
    case PTX_OP_FNS:
    case PTX_OP_BREV:
        cost_add(c, SG_PIPE_XU, wide ? 2 : 1);
        c->latency = k->bits_clocks;
        return;
    case PTX_OP_BFE:
    case PTX_OP_BFI: cost_add(c, SG_PIPE_ALU, 2), c->latency = k->field_clocks; return;
    case PTX_OP_DP4A:
    case PTX_OP_DP2A: cost_add(c, SG_PIPE_IMAD, 1); return;
    default: cost_add(c, SG_PIPE_ALU, wide ? 2 : 1), c->latency = wide ? k->int64_clocks : k->int_clocks; return;
    }
}

static void cost_convert(const struct ptx_inst *i, const struct sg_constants *k, struct sg_cost *c)
{
    enum ptx_type to = (enum ptx_type)i->type[0], from = (enum ptx_type)i->type[i->ntype > 1];
    bool f = ptx_type_is_float(to) || ptx_type_is_float(from);
    c->latency = 0;
    if (!f)
        return; /* a change of width: part of what reads it, mostly */
    bool narrow =
        ptx_type_bytes(to) <= 4 && ptx_type_bytes(from) <= 4 && ptx_type_is_float(to) && ptx_type_is_float(from);
    c->latency = narrow ? k->narrow_clocks : k->convert_clocks;
    cost_add(c, narrow ? SG_PIPE_ALU : SG_PIPE_XU, 1);
}

static enum sg_cost_kind kind_of_memory(const struct ptx_inst *i)
{
    switch (i->op) {
    case PTX_OP_LD:
    case PTX_OP_LDU: return i->space == PTX_PARAM || i->space == PTX_PARAM_FUNC ? SG_COST_PLAIN : SG_COST_LOAD;
    case PTX_OP_ST: return i->space == PTX_PARAM || i->space == PTX_PARAM_FUNC ? SG_COST_PLAIN : SG_COST_STORE;
    case PTX_OP_ATOM: return SG_COST_ATOM;
    case PTX_OP_RED: return SG_COST_RED;
    case PTX_OP_CP_ASYNC: return SG_COST_COPY;
    case PTX_OP_CP_ASYNC_WAIT_ALL:
    case PTX_OP_CP_ASYNC_WAIT_GROUP:
    case PTX_OP_CP_ASYNC_BULK_WAIT: return SG_COST_WAIT;
    case PTX_OP_CP_ASYNC_COMMIT:
    case PTX_OP_CP_ASYNC_BULK_COMMIT: return SG_COST_COMMIT;
    case PTX_OP_LDMATRIX:
    case PTX_OP_STMATRIX: return SG_COST_MATRIX;
    case PTX_OP_WMMA_LOAD_A:
    case PTX_OP_WMMA_LOAD_B:
    case PTX_OP_WMMA_LOAD_C:
    case PTX_OP_WMMA_STORE_D: return SG_COST_FRAGMENT;
    case PTX_OP_MMA:
    case PTX_OP_MMA_SP:
    case PTX_OP_MMA_SP_ORDERED:
    case PTX_OP_WMMA_MMA: return SG_COST_PRODUCT;
    case PTX_OP_BARRIER_CLUSTER_ARRIVE: return SG_COST_ARRIVE;
    case PTX_OP_BARRIER_CLUSTER_WAIT: return SG_COST_MEET;
    case PTX_OP_BAR_SYNC:
    case PTX_OP_BAR_RED:
    case PTX_OP_BARRIER_SYNC:
    case PTX_OP_BARRIER_RED: return SG_COST_BARRIER;
    case PTX_OP_MEMBAR:
    case PTX_OP_FENCE: return ptx_has(i, PTX_M_CTA) ? SG_COST_PLAIN : SG_COST_FENCE; /* nothing leaves the SM */
    case PTX_OP_BRA: return SG_COST_BRANCH;
    default: return SG_COST_PLAIN;
    }
}

static void cost_of(const struct ptx_inst *i, const struct sg_constants *k, struct sg_cost *c)
{
    enum ptx_type t = (enum ptx_type)i->type[0];
    c->kind = (uint8_t)kind_of_memory(i);
    if (c->kind != SG_COST_PLAIN) {
        bool none = c->kind == SG_COST_COMMIT || c->kind == SG_COST_WAIT || c->kind >= SG_COST_ARRIVE;
        c->latency = k->mma_clocks; /* of a product; those of memory: profile.c */
        cost_add(c, c->kind == SG_COST_PRODUCT ? SG_PIPE_TENSOR : none ? SG_PIPE_NONE : SG_PIPE_LSU, 1);
        return;
    }
    switch (i->op) {
    case PTX_OP_MOV:
    case PTX_OP_CVTA:
    case PTX_OP_LD:
    case PTX_OP_ST:
    case PTX_OP_CALL:
    case PTX_OP_RET:
    case PTX_OP_EXIT:
    case PTX_OP_PMEVENT:
    case PTX_OP_BRKPT:
    case PTX_OP_BAR_WARP_SYNC: return; /* most are nothing; an exit ends all */
    case PTX_OP_CVT: cost_convert(i, k, c); return;
    case PTX_OP_BRX_IDX: cost_add(c, SG_PIPE_NONE, 1); return;
    case PTX_OP_SHFL:
        cost_add(c, SG_PIPE_LSU, 1);
        c->latency = k->shuffle_clocks;
        return;
    case PTX_OP_VOTE:
    case PTX_OP_MATCH:
    case PTX_OP_REDUX:
    case PTX_OP_ELECT:
        cost_add(c, SG_PIPE_ALU, 1);
        c->latency = k->vote_clocks;
        return;
    default: break;
    }
    if (ptx_type_is_float(t) || t == PTX_F16X2 || t == PTX_BF16X2)
        cost_float(i, t, k, c);
    else if (i->ntype && t != PTX_PRED)
        cost_int(i, t, k, c);
    else
        cost_add(c, SG_PIPE_ALU, i->ntype != 0), c->latency = i->ntype ? k->predicate_clocks : 0;
}

/* ---- registers that an instruction reads and writes, by number over all functions of the code -------------------- */
struct gather {
    struct sg_costs *c;
    uint32_t base;
    bool write, full;
    unsigned n;
};

static void cost_register(uint32_t reg, bool write, void *user)
{
    struct gather *g = user;
    if (write != g->write)
        return;
    g->full |= !dt_push(&g->c->reg, g->base + reg);
    g->n++;
}

/* .pragma "nounroll" stands between a loop's label and its first instruction; s is the first that became an operation.
 */
static bool is_rolled(const struct sg_src *s)
{
    for (uint32_t k = s->inst; k-- > 0;) {
        const struct ptx_inst *i = &s->f->inst[k];
        if (i->op == PTX_OP_PRAGMA && i->text && strstr(i->text, "nounroll"))
            return true;
        if (i->op == PTX_OP_LABEL || i->op == PTX_OP_BRA)
            return false;
    }
    return false;
}

static bool is_of_block(enum ptx_sreg r)
{
    return r == PTX_SR_NTID || r == PTX_SR_CTAID || r == PTX_SR_NCTAID || r == PTX_SR_SMID || r == PTX_SR_NSMID ||
           r == PTX_SR_NWARPID || r == PTX_SR_GRIDID;
}

/* Does the instruction itself bring in what differs from thread to thread: its number, or memory? */
static bool is_source(const struct sg_cost *c, const struct ptx_inst *i)
{
    bool differs = (c->kind == SG_COST_LOAD && i->space != PTX_CONST) || c->kind == SG_COST_ATOM ||
                   i->op == PTX_OP_SHFL || i->op == PTX_OP_ACTIVEMASK || i->op == PTX_OP_MATCH || i->op == PTX_OP_CALL;
    for (unsigned k = 0; k < i->nopnd; k++)
        differs |= i->opnd[k].kind == PTX_O_SREG && !is_of_block((enum ptx_sreg)i->opnd[k].sreg);
    return differs;
}

/* Atomics whose result nothing reads are what the assembler makes of them: reductions. False: memory is out. */
static bool find_reductions(struct sg_costs *c, const struct sg_code *code)
{
    uint8_t *read = dt_calloc(c->nreg + 1, 1);
    for (uint32_t k = 0; read && k < code->nsrc; k++)
        for (unsigned r = 0; r < c->inst[k].reads; r++)
            read[c->reg.p[c->inst[k].reg + r]] = 1;
    for (uint32_t k = 0; read && k < code->nsrc; k++) {
        struct sg_cost *x = &c->inst[k];
        bool used = false;
        for (unsigned r = 0; r < x->writes; r++)
            used |= read[c->reg.p[x->dest + r]];
        if (x->kind == SG_COST_ATOM && !used)
            x->kind = SG_COST_RED;
    }
    bool ok = read != NULL;
    free(read);
    return ok;
}

/* Which instructions compute the same in all threads of a block. False: memory is out. */
static bool find_uniform(struct sg_costs *c, const struct sg_code *code)
{
    uint8_t *differs = dt_calloc(c->nreg + 1, 1);
    bool more = differs != NULL;
    while (more) {
        more = false;
        for (uint32_t k = 0; k < code->nsrc; k++) {
            struct sg_cost *x = &c->inst[k];
            bool d = is_source(x, &code->src[k].f->inst[code->src[k].inst]);
            for (unsigned r = 0; r < x->reads; r++)
                d |= differs[c->reg.p[x->reg + r]];
            x->uniform = !d;
            for (unsigned r = 0; d && r < x->writes; r++) {
                more |= !differs[c->reg.p[x->dest + r]];
                differs[c->reg.p[x->dest + r]] = 1;
            }
        }
    }
    bool ok = differs != NULL;
    free(differs);
    return ok;
}

struct sg_costs *sg_costs_free(struct sg_costs *c)
{
    if (c)
        free(c->reg.p), free(c->inst), free(c->first), free(c->plain), free(c->slots), free(c->rolled), free(c);
    return NULL;
}

/* Operations whose instruction only takes its time and its pipes: profile.c follows rows of them at once. */
static void find_plain(struct sg_costs *c, const struct sg_code *code, sg_fn bb)
{
    for (uint32_t k = code->nop; k-- > 0;) {
        const struct sg_cost *x = &c->inst[code->op[k].src];
        unsigned all = 0;
        for (unsigned p = 0; p < SG_PIPES; p++)
            all += x->slots[p];
        if (code->op[k].fn == bb || x->kind != SG_COST_PLAIN || x->branches || x->slots[SG_PIPE_FP64] ||
            all > UINT8_MAX)
            continue;
        bool more = c->plain[k + 1] < UINT8_MAX;
        c->plain[k] = (uint8_t)(more ? c->plain[k + 1] + 1 : 1);
        for (unsigned p = 0; p < SG_PIPES; p++)
            c->slots[k][p] = (uint16_t)((more ? c->slots[k + 1][p] : 0) + (c->first[k] ? x->slots[p] : 0));
    }
}

struct sg_costs *sg_costs_new(const struct sg_code *code, sg_fn bb, const struct sg_constants *constants)
{
    struct sg_costs *c = dt_calloc(1, sizeof *c);
    struct dt_vec(struct {
        const struct ptx_function *f;
        uint32_t base;
    }) functions = {0};
    if (!c)
        return NULL;
    c->k = constants;
    c->inst = dt_calloc(code->nsrc + 1, sizeof *c->inst);
    c->first = dt_calloc(code->nop + 1, 1);
    c->plain = dt_calloc(code->nop + 1, 1);
    c->slots = dt_calloc(code->nop + 1, sizeof *c->slots);
    c->rolled = dt_calloc(code->nbb + 1, 1);
    bool full = !c->inst || !c->first || !c->plain || !c->slots || !c->rolled;
    for (uint32_t k = 0; k < code->nsrc && !full; k++) {
        const struct ptx_function *f = code->src[k].f;
        const struct ptx_inst *i = &f->inst[code->src[k].inst];
        size_t n = 0;
        while (n < functions.n && functions.p[n].f != f)
            n++;
        if (n == functions.n) {
            full |= !dt_reserve(&functions, n + 1);
            if (full)
                break;
            functions.p[functions.n].f = f;
            functions.p[functions.n++].base = c->nreg;
            c->nreg += f->nreg;
        }
        struct sg_cost *cost = &c->inst[k];
        cost_of(i, constants, cost);
        cost->reg = (uint32_t)c->reg.n;
        struct gather g = {c, functions.p[n].base, false, false, 0};
        ptx_inst_regs(i, cost_register, &g);
        cost->reads = (uint8_t)(g.n < 255 ? g.n : 255);
        full |= g.full;
        cost->dest = (uint32_t)c->reg.n;
        g.write = true, g.n = 0;
        ptx_inst_regs(i, cost_register, &g);
        cost->writes = (uint8_t)(g.n < 255 ? g.n : 255);
        full |= g.full;
        c->atomics |= cost->kind == SG_COST_ATOM || cost->kind == SG_COST_RED;
        bool beyond = !ptx_has(i, PTX_M_CTA); /* the block */
        cost->release = beyond && (ptx_has(i, PTX_M_RELEASE) || ptx_has(i, PTX_M_ACQ_REL));
        cost->relaxed = ptx_has(i, PTX_M_RELAXED);
        cost->acquire =
            beyond && (ptx_has(i, PTX_M_ACQUIRE) || ptx_has(i, PTX_M_ACQ_REL) || cost->kind == SG_COST_FENCE);
        cost->strong = ptx_has(i, PTX_M_VOLATILE) || ptx_has(i, PTX_M_RELAXED) || ptx_has(i, PTX_M_ACQUIRE);
        cost->bypass = ptx_has(i, PTX_M_VOLATILE) || ptx_has(i, PTX_M_RELAXED) || ptx_has(i, PTX_M_ACQUIRE) ||
                       ptx_has(i, PTX_M_CG) || ptx_has(i, PTX_M_CV);
        cost->vec = i->vec ? i->vec : 1;
        for (unsigned p = 0; p < SG_PIPES; p++)
            cost->total = (uint8_t)(cost->total + cost->slots[p]);
    }
    for (uint32_t k = 0; k < code->nop && !full; k++)
        c->first[k] =
            code->op[k].fn != bb && (!k || code->op[k - 1].src != code->op[k].src || code->op[k - 1].fn == bb);
    full = full || !find_reductions(c, code) || !find_uniform(c, code) || !sg_costs_join(c, code);
    for (uint32_t k = 0; k + 1 < code->nop && !full; k++)
        if (code->op[k].fn == bb)
            c->rolled[code->op[k].x] = is_rolled(&code->src[code->op[k + 1].src]);
    if (!full)
        find_plain(c, code, bb);
    free(functions.p);
    return full ? sg_costs_free(c) : c;
}
