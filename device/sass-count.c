/* What a launch costs by its machine code: instructions by the pipes that do them, the time of a warp that has an SM
 * for itself, registers and local memory.
 *
 * How often each block ran is sass-blocks.c's, in threads. A warp's instruction serves as many threads of it as are
 * together there: as many as the executor had together at one of the PTX lines that the block is made of, the one that
 * ran nearly as often as the block; others were moved there from where more or less of the threads are. Of equals a
 * load, store or barrier, since these are moved least.
 *
 * A warp alone: from one instruction to the next it takes the stall that ptxas wrote, one clock at least; an
 * instruction that waits for a barrier begins when the last one that opened it is done. What a block leaves open its
 * followers wait for: each begins with the mean of what those before it leave, by how often it is come from. Some
 * rounds of that are enough, since it is what is open at the end of a block that counts.
 *
 * DEPBAR waits for a barrier where it lets none of its results be missing; where it lets some, the loads behind are
 * taken to be there in time.
 *
 * What it does not do: warps that share an SM, instruction caches, conflicts in banks of registers or shared memory,
 * waiting at BAR for other warps, results of wgmma and copies that a DEPBAR or an mbarrier waits for.
 */
#include "device/machine-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ptx/ptx.h"

enum { BARRIERS = 6, ROUNDS = 8 };

double sass_way_clocks(enum sass_way way, unsigned sm)
{
    switch (way) { /* estimate: all of them, from published latencies of Volta to Hopper (docs/TIMING.md) */
    case SASS_WAY_XU: return 18;
    case SASS_WAY_FP64: return sm == 80 || sm >= 90 ? 16 : 48;
    case SASS_WAY_SHARED: return 29;
    case SASS_WAY_LOCAL: return 38;
    case SASS_WAY_CONSTANT: return 30;
    case SASS_WAY_SPECIAL: return 22;
    case SASS_WAY_SHUFFLE: return 24;
    case SASS_WAY_FENCE: return 20;
    case SASS_WAY_GLOBAL: return 260;
    default: return 0;
    }
}

/* ---- from threads to warps --------------------------------------------------------------------------------------- */
static double together(const struct code *c, const struct code_block *b, const struct dev_machine_kernel *k,
                       double lanes)
{
    double best = 1e300, is = k->warps ? (double)k->lanes / (double)k->warps : 32;
    for (uint32_t i = b->first; i <= b->last; i++) {
        const struct dev_line *l = c->line[i] && c->line[i] < k->nline ? &k->line[c->line[i]] : NULL;
        if (!l || !l->warps || !l->lanes)
            continue;
        double has = (double)l->lanes + 1, off = has > lanes + 1 ? has / (lanes + 1) : (lanes + 1) / has;
        bool memory = sass_unit(&c->inst[i], c->sm).pipe == SASS_PIPE_LSU && !sass_is(&c->inst[i], "S2R");
        off *= memory || sass_is(&c->inst[i], "BAR") ? 1 : c->inst[i].op->cls == SASS_BRANCH ? 1.01 : 1.02;
        if (off < best) {
            best = off;
            is = (double)l->lanes / (double)l->warps;
        }
    }
    return is < 1 ? 1 : is > 32 ? 32 : is;
}

/* ---- a warp alone ------------------------------------------------------------------------------------------------ */
struct open { /* clocks until each barrier's results are there, from the begin of a block */
    double at[BARRIERS];
};

/* Through one block: its clocks; `open` is what it begins with and then what it leaves. */
static double walk(const struct code *c, const struct code_block *b, const double *clocks, struct open *open)
{
    double now = 0;
    for (uint32_t i = b->first; i <= b->last; i++) {
        struct sass_control s = sass_control(&c->inst[i]);
        struct sass_unit u = sass_unit(&c->inst[i], c->sm);
        uint32_t wait = s.wait;
        if (sass_is(&c->inst[i], "DEPBAR") && (c->inst[i].lo >> 47 & 1) && !(c->inst[i].lo >> 38 & 63)) /* .LE SB, 0 */
            wait |= 1u << (c->inst[i].lo >> 44 & 7);
        for (unsigned q = 0; q < BARRIERS; q++)
            if (wait >> q & 1 && open->at[q] > now)
                now = open->at[q];
        if (s.write < BARRIERS && open->at[s.write] < now + clocks[u.way])
            open->at[s.write] = now + clocks[u.way];
        if (s.read < BARRIERS && open->at[s.read] < now + clocks[SASS_WAY_SPECIAL] / 2)
            open->at[s.read] = now + clocks[SASS_WAY_SPECIAL] / 2;
        if (sass_is(&c->inst[i], "BAR"))
            now += clocks[SASS_WAY_SPECIAL];
        now += s.stall ? s.stall : 1;
    }
    for (unsigned q = 0; q < BARRIERS; q++)
        open->at[q] = open->at[q] > now ? open->at[q] - now : 0;
    return now;
}

/* Clocks of every block. */
static int walk_all(const struct code *c, const double *issues, const double *way, double *ret)
{
    dt_free_ struct open *left = dt_calloc(c->nblock, sizeof *left);
    if (!left)
        return DT_E_NOMEM;
    for (unsigned round = 0; round < ROUNDS; round++)
        for (uint32_t b = 0; b < c->nblock; b++) {
            const struct code_block *k = &c->block[b];
            struct open open = {{0}};
            double sum = 0;
            for (uint32_t p = 0; p < k->npred; p++)
                sum += issues[c->pred[k->pred + p]];
            for (uint32_t p = 0; p < k->npred && sum > 0; p++)
                for (unsigned q = 0; q < BARRIERS; q++)
                    open.at[q] += left[c->pred[k->pred + p]].at[q] * (issues[c->pred[k->pred + p]] / sum);
            ret[b] = walk(c, k, way, &open);
            left[b] = open;
        }
    return 0;
}

/* ---- what the cubin says of itself ------------------------------------------------------------------------------- */
static uint32_t word_at(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* .nv.info: attributes; those of format 4 have a length and here a symbol and a number. */
static void resources(const struct elf_file *f, uint32_t symbol, struct dev_machine_cost *ret)
{
    struct elf_section s;
    if (!elf_find(f, ".nv.info", &s) || !s.p)
        return;
    for (uint64_t k = 0; k + 4 <= s.size;) {
        uint64_t n = s.p[k] == 4 ? (uint64_t)s.p[k + 2] | (uint64_t)s.p[k + 3] << 8 : 0;
        if (n > s.size - k - 4)
            return;
        if (n >= 8 && word_at(s.p + k + 4) == symbol) {
            if (s.p[k + 1] == 0x2f) /* EIATTR_REGCOUNT */
                ret->registers = word_at(s.p + k + 8);
            if (s.p[k + 1] == 0x11) /* EIATTR_FRAME_SIZE */
                ret->local_bytes = word_at(s.p + k + 8);
        }
        k += 4 + n;
    }
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */
static void machine_sum(const struct code *c, const struct dev_machine_kernel *k, const double *issues,
                        const double *clocks, struct dev_machine_cost *ret)
{
    for (uint32_t b = 0; b < c->nblock; b++) {
        ret->clocks += issues[b] * clocks[b];
        for (uint32_t i = c->block[b].first; i <= c->block[b].last; i++) {
            const struct sass_inst *x = &c->inst[i];
            ret->slots += issues[b];
            ret->pipe[sass_unit(x, c->sm).pipe] += issues[b];
            ret->local += sass_is(x, "LDL") || sass_is(x, "STL") ? issues[b] : 0;
            ret->unknown += i < c->nentry && c->line[i] ? 0 : issues[b];
        }
    }
    if (k->warps)
        ret->clocks /= (double)k->warps;
}

int dev_machine_count(const struct dev_machine_kernel *k, struct dev_machine_cost *ret, struct dt_str *why,
                      struct dt_err *e)
{
    struct code c;
    struct elf_file f;
    struct elf_section text;
    struct dt_str name = {0};
    struct dev_machine_cost cost = {0};
    dt_free_ double *lanes = NULL, *clocks = NULL;
    double way[SASS_WAYS];
    int r = code_read(&c, k->cubin, k->len, k->entry, why, e);
    for (uint32_t i = 0; i < c.n && !r; i++)
        if (c.inst[i].op->dst[0] == 'g') { /* how long one keeps the tensor cores is not in sass-pipes.def */
            dt_str_addf(why, "'%s' has products of warp groups", k->entry);
            r = 1;
        }
    if (!r) {
        dt_str_addf(&name, ".text.%s", k->entry);
        bool there = elf_open(&f, k->cubin, k->len) && name.s && elf_find(&f, name.s, &text);
        lanes = dt_calloc(c.nblock, sizeof *lanes);
        clocks = dt_calloc(c.nblock, sizeof *clocks);
        r = there && lanes && clocks ? code_lines(&c, &f, true, false) : DT_E_NOMEM;
        if (r > 0)
            dt_str_addf(why, "the machine code of '%s' has no lines", k->entry);
        if (!r)
            resources(&f, text.info & 0xffffff, &cost);
    }
    if (!r) {
        r = code_blocks(&c, k->line, k->nline, (double)k->lanes, lanes);
        cost.by_lines = r == 1;
        if (r > 1)
            dt_str_addf(why, "the machine code of '%s' has too many functions", k->entry);
        r = r == 1 ? 0 : r;
    }
    if (!r) {
        for (uint32_t b = 0; b < c.nblock; b++)
            lanes[b] /= together(&c, &c.block[b], k, lanes[b]);
        for (unsigned w = 0; w < SASS_WAYS; w++)
            way[w] = k->way && k->way[w] > 0 && k->way[w] < 1e9 ? k->way[w] : sass_way_clocks(w, c.sm);
        r = walk_all(&c, lanes, way, clocks);
    }
    if (!r) {
        cost.sm = c.sm;
        machine_sum(&c, k, lanes, clocks, &cost);
        *ret = cost;
    } else if (r == DT_E_NOMEM) {
        dt_err_set(e, r, "out of memory");
    }
    dt_str_done(&name);
    code_done(&c);
    return r;
}

/* ---- what PTX says of its lines ---------------------------------------------------------------------------------- */
/* Bytes of a thread in one access; 1 for what has none and is one machine instruction too; 0: neither. */
static uint32_t anchor_bytes(const struct ptx_inst *i)
{
    switch (i->op) {
    case PTX_OP_LD:
    case PTX_OP_ST:
        return i->space == PTX_GLOBAL || i->space == PTX_SHARED || i->space == PTX_GENERIC
                   ? ptx_type_bytes(i->type[0]) * (i->vec ? i->vec : 1)
                   : 0;
    case PTX_OP_SHFL:
    case PTX_OP_BARRIER_SYNC:
    case PTX_OP_BAR_SYNC:
    case PTX_OP_CP_ASYNC: return 1;
    default: return 0;
    }
}

static bool single(const struct ptx_inst *i)
{
    switch (i->op) {
    case PTX_OP_ADD:
    case PTX_OP_SUB:
    case PTX_OP_MUL:
    case PTX_OP_FMA: return i->type[0] == PTX_F32 || i->type[0] == PTX_F64 || i->type[0] == PTX_F16X2;
    case PTX_OP_EX2:
    case PTX_OP_LG2:
    case PTX_OP_RCP:
    case PTX_OP_RSQRT: return ptx_has(i, PTX_M_APPROX) && ptx_has(i, PTX_M_FTZ);
    default: return false;
    }
}

void dev_machine_lines(const struct ptx_module *m, struct dev_line *line, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        line[k].bytes = 0;
    for (uint32_t f = 0; f < m->nfunc; f++)
        for (uint32_t k = 0; k < m->func[f]->ninst; k++) {
            const struct ptx_inst *i = &m->func[f]->inst[k];
            struct dev_line *l = i->line < n ? &line[i->line] : NULL;
            uint32_t bytes = anchor_bytes(i);
            if (!l)
                continue;
            l->call |= i->op == PTX_OP_CALL;
            l->bytes = l->bytes && bytes ? UINT16_MAX : (uint16_t)(l->bytes | bytes); /* two in one line: none */
            l->single = single(i);
            l->guarded = i->pred != PTX_NO_REG;
        }
    for (uint32_t k = 0; k < n; k++)
        line[k].bytes = line[k].bytes == UINT16_MAX ? 0 : line[k].bytes;
}
