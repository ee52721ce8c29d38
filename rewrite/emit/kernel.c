/* The kernel of a candidate whose level is decided and legal: its arithmetic, its name, its text, its resources.
 *
 *   rw_identity    before the text: every body's arithmetic in a form that no assembler may contract otherwise
 *   rw_name_entry  the entry's name, from those of the bodies
 *   rw_resources   after the text: does the assembler take it, do its registers fit, does it spill
 *   rw_make        name, text (join.c), resources; if these do not fit, once more with fewer threads
 *
 * Level `register` makes its own text (inline/inline.c) and calls the other functions one by one.
 */
#include "rewrite/emit/emit-priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

/* All bodies with arithmetic that no assembler may contract otherwise: as they are, where products and sums can meet
 * with .rn (join does that), or with their contractions written out. 1: refused. */
int rw_identity(struct rw_cand *c, struct dt_str *why, struct dt_err *e)
{
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        const struct ptx_function *f = c->facts.body[s].f;
        enum dev_identity id = c->facts.own[s] ? DEV_IDENTICAL : dev_identity(f->module, f->name, c->facts.dev->arch);
        if (id == DEV_CONTRACTED) {
            c->facts.own[s] = dev_explicit(f->module, f->name, c->facts.dev->arch);
            const struct ptx_function *g = c->facts.own[s] ? ptx_find_function(c->facts.own[s], f->name) : NULL;
            int r = g ? rw_body_init(&c->arena, c->facts.prog, c->facts.launch[s], g, &c->facts.body[s], e) : 0;
            if (r < 0)
                return r;
            id = g ? DEV_IDENTICAL : id;
        }
        c->facts.open[s] = id == DEV_OPEN;
        if (id == DEV_IDENTICAL || id == DEV_OPEN)
            continue;
        const char *name = c->facts.body[s].step->launch->name;
        if (id == DEV_CONTRACTED)
            dt_str_addf(
                why,
                DT_ROW("arithmetic-identity") ": " DT_LAUNCH
                                              " leaves multiply-adds for ptxas to contract; joined, they could be "
                                              "contracted "
                                              "otherwise",
                name);
        else
            dt_str_addf(why,
                        DT_ROW("arithmetic-identity") ": " DT_LAUNCH " has unmodified mul and add, and without "
                                                      "nvJitLink nobody can say that `.rn` "
                                                      "leaves its code the same",
                        name);
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

/* "fused_gemm_gelu", of a chain "fused_gemm_gelu_sum". Equal pairs of a model's layers get equal names, and so equal
 * text. */
void rw_name_entry(struct rw_cand *c)
{
    size_t at = (size_t)snprintf(c->made.entry, sizeof c->made.entry, "fused");
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        size_t n, room = (sizeof c->made.entry - 8 - at) / (c->facts.nbody - s);
        const char *from = plain_name(c->facts.body[s].f->name, &n);
        if (n > 6 && !strncmp(from, "fused_", 6)) {
            from += 6;
            n -= 6;
        }
        at +=
            (size_t)snprintf(c->made.entry + at, sizeof c->made.entry - at, "_%.*s", (int)(n < room ? n : room), from);
    }
}

/* Registers and spills of what was emitted, from ptxas where it is at hand. */
int rw_resources(struct rw_cand *c, struct dt_str *why, struct dt_err *e)
{
    struct dt_err mine = {0};
    int r = dev_resources(c->made.ptx.s, c->made.ptx.len, c->made.entry, c->facts.dev->arch, &c->made.res, &mine);
    if (r == DT_E_PTX || r == DT_E_COMPILE) {
        dt_str_addf(why, DT_ROW("resources") ": the assembler does not take the fused kernel: %s",
                    mine.detail ? dt_err_words(&mine) : "?");
        rw_bundle_kernel(c->facts.prog, c->made.ptx.s, why->s ? why->s : "");
        dt_err_done(&mine);
        return 1;
    }
    if (r < 0) {
        dt_err_move(e, &mine);
        return r;
    }
    dt_err_done(&mine);
    uint64_t regs = (uint64_t)c->threads * ((c->made.res.registers + 7) / 8 * 8);
    if (regs > c->facts.dev->regs_sm) {
        dt_str_addf(why, DT_ROW("resources") ": %u threads of %u registers do not fit an SM", c->threads,
                    c->made.res.registers);
        return 1;
    }
    uint32_t spill = 0;
    for (uint32_t s = 0; s < c->facts.nbody; s++)
        if (c->facts.body[s].step->res.spill_bytes > spill)
            spill = c->facts.body[s].step->res.spill_bytes;
    if (!c->made.res.estimated && c->made.res.spill_bytes > spill) {
        dt_str_addf(why, DT_ROW("resources") ": with %u threads a block the fused kernel spills %u bytes of registers",
                    c->threads, c->made.res.spill_bytes);
        return 1;
    }
    return 0;
}

int rw_make(struct rw_cand *c, struct dt_str *why, struct dt_err *e)
{
    struct dt_str room = {0};
    rw_name_entry(c);
    int r = rw_join(c, e);
    if (r < 0 || (r = rw_resources(c, &room, e)) != 1 || !rw_narrow(c)) {
        if (room.len)
            dt_str_add(why, room.s);
        dt_str_done(&room);
        return r;
    }
    dt_str_done(&room);
    return (r = rw_join(c, e)) < 0 ? r : rw_resources(c, why, e);
}
