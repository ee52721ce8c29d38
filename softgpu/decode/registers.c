/* Rows for the registers of a function, by linear scan over live ranges.
 *
 * Positions are instruction numbers; a range covers every position at which the register is live on any path. Two
 * registers share a row only if their ranges are disjoint including both ends, so that an operation's destination never
 * overlaps a source; but a sum of floats takes the row of the one that it adds to and ends, as if the program had named
 * one register: what a thread sums up stays in one place, and in the CPU's nearest cache. Without flow information (a
 * function that has no graph) each register has its own row. Registers that may be read before they are written are
 * listed, to be cleared when a block starts.
 */
#include "softgpu/decode/decode-priv.h"

#include <stdlib.h>
#include <string.h>

struct range {
    uint32_t reg, from, to, bytes, row;
};
struct scan {
    uint32_t *from, *to, at;
    uint8_t *use;    /* enum sg_use; while counting: SG_USE_ONCE is set by the first touch, if it writes */
    uint8_t *writes; /* at most 2 */
};

static void registers_touch(uint32_t reg, bool write, void *user)
{
    struct scan *s = user;
    s->use[reg] |= write ? s->from[reg] == UINT32_MAX ? SG_USE_ONCE : 0 : SG_USE_READ;
    s->writes[reg] += write && s->writes[reg] < 2;
    if (s->at < s->from[reg])
        s->from[reg] = s->at;
    if (s->to[reg] == UINT32_MAX || s->at > s->to[reg])
        s->to[reg] = s->at;
}

static int by_start(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return x->from != y->from ? (x->from < y->from ? -1 : 1) : x->reg < y->reg ? -1 : 1;
}

static uint32_t registers_row_bytes(const struct ptx_reg *r)
{
    return r->type == PTX_PRED ? 4 : sg_width((enum ptx_type)r->type) * SG_LANES * (r->vec ? r->vec : 1);
}

/* Live ranges of all registers, and which are live at the entry; false when there is no flow graph. */
static bool live_ranges(const struct ptx_function *f, uint32_t *from, uint32_t *to, bool *entry, uint8_t *use,
                        uint8_t *writes)
{
    struct ptx_cfg cfg;
    struct ptx_live live;
    if (ptx_cfg_build(f, &cfg, NULL) < 0)
        return false;
    if (ptx_live_build(f, &cfg, &live, NULL) < 0) {
        ptx_cfg_done(&cfg);
        return false;
    }
    struct scan s = {from, to, 0, use, writes};
    for (s.at = 0; s.at < f->ninst; s.at++)
        ptx_inst_regs(&f->inst[s.at], registers_touch, &s);
    for (uint32_t b = 0; b < cfg.nblock; b++)
        for (uint32_t w = 0; w < live.words; w++) {
            for (uint64_t m = live.in[b][w]; m; m &= m - 1) {
                s.at = cfg.block[b].first;
                registers_touch(w * 64 + (uint32_t)__builtin_ctzll(m), false, &s);
                entry[w * 64 + (uint32_t)__builtin_ctzll(m)] |= b == 0;
            }
            for (uint64_t m = live.out[b][w]; m; m &= m - 1) {
                s.at = cfg.block[b].last;
                registers_touch(w * 64 + (uint32_t)__builtin_ctzll(m), false, &s);
            }
        }
    ptx_live_done(&live);
    ptx_cfg_done(&cfg);
    return true;
}

/* Is `reg` the sum that f's instruction `at` makes of `source` and others? */
static bool adds_to(const struct ptx_function *f, uint32_t at, uint32_t reg, uint32_t source)
{
    const struct ptx_inst *i = &f->inst[at];
    if ((i->op != PTX_OP_FMA && i->op != PTX_OP_ADD) || i->pred != PTX_NO_REG || i->type[0] != PTX_F32 ||
        i->opnd[0].kind != PTX_O_REG || i->opnd[0].reg != reg)
        return false;
    for (unsigned k = i->op == PTX_OP_FMA ? 3 : 1; k < i->nopnd; k++)
        if (i->opnd[k].kind == PTX_O_REG && i->opnd[k].reg == source)
            return true;
    return false;
}

int sg_assign_registers(struct sg_dec *d, struct sg_fn_regs *fn)
{
    const struct ptx_function *f = fn->f;
    uint32_t *ref = fn->ref;
    uint32_t n = f->nreg;
    uint32_t *from = dt_calloc(n + 1, 2 * sizeof *from), *to = from ? from + n + 1 : NULL;
    struct range *r = dt_calloc(n + 1, sizeof *r);
    bool *entry = dt_calloc(n + 1, sizeof *entry);
    uint8_t *writes = dt_calloc(n + 1, 1);
    if (!from || !r || !entry || !writes) {
        free(from);
        free(r);
        free(entry);
        free(writes);
        return DT_E_NOMEM;
    }
    memset(from, 0xFF, (n + 1) * 2 * sizeof *from);
    bool flow = live_ranges(f, from, to, entry, fn->use, writes);
    for (uint32_t i = 0; i < n; i++)
        if (!flow)
            fn->use[i] = SG_USE_READ;
        else if (writes[i] != 1 || entry[i])
            fn->use[i] &= (uint8_t)~SG_USE_ONCE;
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (flow && to[i] == UINT32_MAX)
            continue; /* never used */
        r[count++] =
            (struct range){i, flow ? from[i] : 0, flow ? to[i] : UINT32_MAX, registers_row_bytes(&f->reg[i]), 0};
    }
    if (count)
        qsort(r, count, sizeof *r, by_start);
    /* Free rows by size class: a stack of (ref, free after). Ranges come in order of their start. */
    struct dt_vec(struct range) active = {0}, idle = {0};
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        for (size_t k = 0; k < active.n;)
            if (active.p[k].to < r[i].from) {
                if (!dt_push(&idle, active.p[k]))
                    rc = DT_E_NOMEM;
                active.p[k] = active.p[--active.n];
            } else {
                k++;
            }
        size_t k = idle.n, sum = active.n;
        for (size_t j = 0; flow && !entry[r[i].reg] && sum == active.n && j < active.n; j++)
            if (active.p[j].to == r[i].from && active.p[j].bytes == r[i].bytes &&
                adds_to(f, r[i].from, r[i].reg, active.p[j].reg))
                sum = j;
        while (k > 0 && idle.p[k - 1].bytes != r[i].bytes)
            k--;
        uint32_t at;
        if (sum < active.n) {
            at = active.p[sum].row;
            active.p[sum] = active.p[--active.n];
        } else if (k > 0) {
            at = idle.p[k - 1].row;
            idle.p[k - 1] = idle.p[--idle.n];
        } else {
            uint32_t align = r[i].bytes == 4 ? 4 : 128;
            at = (d->regs + align - 1) / align * align;
            if (r[i].bytes > (64u << 20) - at)
                rc = DT_E_NOMEM;
            d->regs = at + r[i].bytes;
        }
        ref[r[i].reg] = at;
        if ((!flow || entry[r[i].reg]) && !dt_push(&d->clear, (struct sg_clear){at, r[i].bytes}))
            rc = DT_E_NOMEM;
        r[i].row = at;
        if (!dt_push(&active, r[i]))
            rc = DT_E_NOMEM;
    }
    free(active.p);
    free(idle.p);
    free(from);
    free(r);
    free(entry);
    free(writes);
    return rc;
}
