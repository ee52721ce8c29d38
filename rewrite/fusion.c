/* Block fusion: one launch whose blocks run a component's producer blocks, a barrier, and its consumer blocks.
 *
 *   before                                after
 *   gemm<<<(4, 2), 256>>>(x, w, h)        gemm+gelu<<<8, 256>>>(x, w, y)     block k: gemm's block k, barrier, gelu's blocks 4k … 4k+3
 *   gelu<<<32, 256>>>(h, y)
 *
 * Level `shared`: the intermediate h lives in shared memory (fit.c says when); level `global`: it stays in its buffer, and the
 * block's barrier orders it (loads and stores of one block, through L1/L2).
 *
 * Legal when every row of legal.def holds. Then: no byte in conflict is shared by two components (comps.c), inside a component
 * producers come before consumers with a barrier between, and what each block computes is unchanged (.rn, device/identity.c).
 * What could break it: a hazard that the map does not show (hence no cross-block talk, no unknown instruction), threads that do not
 * reach a barrier (vary.c), a launch between the two (order.c), arithmetic contracted across the bodies (device/identity.c).
 * The fused launch is a launch: the new graph is analysed again, and it fuses further.
 */
#include "rewrite/rewrite-priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *rw_level_text(enum rw_level l) { return l == RW_LEVEL_SHARED ? "shared" : "global"; }

int rw_cand_init(struct rw_cand *c, const struct dev_info *dev, const struct dev_prog *p, const struct ana_result *a,
                 const struct rw_options *o, uint32_t producer, uint32_t consumer, struct dt_err *e)
{
    static const struct rw_options defaults;
    memset(c, 0, sizeof *c);
    c->dev = dev;
    c->prog = p;
    c->ana = a;
    c->opt = o ? o : &defaults;
    c->launch[0] = producer;
    c->launch[1] = consumer;
    c->level = RW_LEVEL_GLOBAL;
    c->edge = ana_find_edge(a, producer, consumer);
    if (!c->edge)
        return dt_err_set(e, DT_E_INTERNAL, "launches %u and %u have no edge", producer, consumer);
    for (int s = 0; s < 2; s++) {
        if (p->graph->launch[c->launch[s]].kind != DT_KERNEL)
            return 0; /* plain_launches refuses it */
        int r = rw_body_init(&c->arena, p, c->launch[s], NULL, &c->body[s], e);
        if (r < 0)
            return r;
    }
    if (!ana_rows_kept(&c->edge->any))
        return 0; /* block_map refuses it */
    int r = rw_comps_build(&c->arena, &c->edge->any, p->step[producer].blocks, p->step[consumer].blocks, &c->comps, e);
    if (r < 0)
        return r;
    uint32_t t = c->body[0].threads > c->body[1].threads ? c->body[0].threads : c->body[1].threads;
    c->threads = (t + 31) / 32 * 32;
    return 0;
}

void rw_cand_done(struct rw_cand *c)
{
    dt_str_done(&c->ptx);
    dt_str_done(&c->no_redirect);
    for (int s = 0; s < 2; s++)
        ptx_module_free(c->own[s]);
    dt_arena_done(&c->arena);
    memset(c, 0, sizeof *c);
}

static bool match(const struct ana_result *r, const struct ana_edge *e)
{
    return r->prog->graph->launch[e->producer].kind == DT_KERNEL && r->prog->graph->launch[e->consumer].kind == DT_KERNEL &&
           e->pairs;
}

/* Registers and spills of what was emitted, from ptxas where it is at hand. */
static int resources(struct rw_cand *c, struct dt_str *why, struct dt_err *e)
{
    struct dt_err mine = {0};
    int r = dev_resources(c->ptx.s, c->ptx.len, c->entry, c->dev->arch, &c->res, &mine);
    if (r == DT_E_PTX || r == DT_E_COMPILE) {
        dt_str_addf(why, "resources: the assembler does not take the fused kernel: %s", mine.detail ? mine.detail : "?");
        dt_err_done(&mine);
        return 1;
    }
    if (r < 0) {
        dt_err_move(e, &mine);
        return r;
    }
    dt_err_done(&mine);
    uint64_t regs = (uint64_t)c->threads * ((c->res.registers + 7) / 8 * 8);
    if (regs > c->dev->regs_sm) {
        dt_str_addf(why, "resources: %u threads of %u registers do not fit an SM", c->threads, c->res.registers);
        return 1;
    }
    uint32_t spill = 0;
    for (int s = 0; s < 2; s++)
        if (c->body[s].step->res.spill_bytes > spill)
            spill = c->body[s].step->res.spill_bytes;
    if (!c->res.estimated && c->res.spill_bytes > spill) {
        dt_str_addf(why, "resources: with %u threads a block the fused kernel spills %u bytes of registers", c->threads,
                    c->res.spill_bytes);
        return 1;
    }
    return 0;
}

/* Both bodies with arithmetic that no assembler may contract otherwise: as they are, with .rn (join does that), or with their
 * contractions written out. 1: refused. */
static int identity(struct rw_cand *c, struct dt_str *why, struct dt_err *e)
{
    for (int s = 0; s < 2; s++) {
        const struct ptx_function *f = c->body[s].f;
        enum dev_identity id = c->own[s] ? DEV_IDENTICAL : dev_identity(f->module, f->name, c->dev->arch);
        if (id == DEV_CONTRACTED) {
            c->own[s] = dev_explicit(f->module, f->name, c->dev->arch);
            const struct ptx_function *g = c->own[s] ? ptx_find_function(c->own[s], f->name) : NULL;
            int r = g ? rw_body_init(&c->arena, c->prog, c->launch[s], g, &c->body[s], e) : 0;
            if (r < 0)
                return r;
            id = g ? DEV_IDENTICAL : id;
        }
        if (id == DEV_IDENTICAL)
            continue;
        const char *name = c->body[s].step->launch->name;
        if (id == DEV_CONTRACTED)
            dt_str_addf(why, "arithmetic-identity: '%s' leaves multiply-adds for ptxas to contract; joined, they could be contracted "
                             "otherwise", name);
        else
            dt_str_addf(why, "arithmetic-identity: '%s' has unmodified mul and add, and without nvJitLink nobody can say that `.rn` "
                             "leaves its code the same", name);
        return 1;
    }
    return 0;
}

/* The name in a mangled "_Z4gemmPKf" or "_ZN2ns4gemmE…", else the name itself; *len bytes of it. */
static const char *plain_name(const char *entry, size_t *len)
{
    *len = strlen(entry);
    if (strncmp(entry, "_Z", 2))
        return entry;
    const char *p = entry + 2 + (entry[2] == 'N'), *best = entry;
    while (*p >= '1' && *p <= '9') {
        char *end;
        unsigned long n = strtoul(p, &end, 10);
        if (n > strlen(end))
            return entry;
        best = end;
        *len = n;
        p = end + n;
    }
    return best;
}

/* "fused_gemm_gelu", of a chain "fused_gemm_gelu_sum". Equal pairs of a model's layers get equal names, and so equal text. */
static void name_entry(struct rw_cand *c)
{
    size_t at = (size_t)snprintf(c->entry, sizeof c->entry, "fused");
    for (int s = 0; s < 2; s++) {
        size_t n, room = (sizeof c->entry - 8 - at) / (s ? 1 : 2);
        const char *from = plain_name(c->body[s].f->name, &n);
        if (n > 6 && !strncmp(from, "fused_", 6)) {
            from += 6;
            n -= 6;
        }
        at += (size_t)snprintf(c->entry + at, sizeof c->entry - at, "_%.*s", (int)(n < room ? n : room), from);
    }
}

static int apply(struct rw_cand *c, enum rw_level level, struct dt_str *why, struct dt_err *e)
{
    struct dt_str room = {0};
    int r;
    c->level = RW_LEVEL_GLOBAL;
    c->nredirect = 0;
    if (!c->body[0].f || !c->body[1].f || !rw_layout(c, &room)) {
        if (!room.len)
            rw_legal_check(c, why); /* says why there is nothing to join */
        else
            dt_str_addf(why, "shared-space: %s", room.s);
        dt_str_done(&room);
        return 1;
    }
    if (!rw_legal_check(c, why))
        return 1;
    if ((r = identity(c, why, e)))
        return r;
    if (level == RW_LEVEL_SHARED) { /* only now: footprints of an illegal pair are of no interest */
        if ((r = rw_fit(c, e)) < 0)
            return r;
        c->level = level;
        if (!c->nredirect)
            dt_str_addf(why, "shared level: %s", c->no_redirect.len ? c->no_redirect.s : "no data flows from one to the other");
        else if (!rw_layout(c, &room))
            dt_str_addf(why, "shared-space: %s", room.s ? room.s : "it does not fit");
        bool ok = c->nredirect && !room.len && rw_legal_check(c, why);
        dt_str_done(&room);
        if (!ok)
            return 1;
    }
    name_entry(c);
    if ((r = rw_join(c, e)) < 0)
        return r;
    return resources(c, why, e);
}

const struct rw_rewrite rw_block_fusion = {
    .name = "block-fusion",
    .needs = "components of the block map small enough for one block; every row of rewrite/legal.def",
    .keeps = "what every block computes; the order of blocks in conflict",
    .on = true,
    .match = match,
    .apply = apply,
};
