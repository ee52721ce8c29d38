/* Is the float arithmetic of a changed kernel that of the posted kernels? Decided from machine code, as the assembler
 * made it of both.
 *
 * Each float instruction has a shape: its opcode and all modifier bits, the sign of a product, whether it is a minimum
 * or a maximum, and for a comparison what it distinguishes, whichever way round it is written. Registers, halves and
 * places of constants are no part of a shape. A use is a shape, one of its operands (two factors, or two summands,
 * count as one), the operand's sign, and one thing that its value comes from: a float instruction of some shape, a
 * constant by value, or something else (a load, a parameter, integers, bits). A CALL of a subroutine has the shape of
 * everything in the subroutine. Functions of the PTX are compared as well, by their own lines. Line by line of the
 * posted PTX it refuses
 *   new       a float instruction or a use that the posted line does not have, or an instruction without a posted line.
 *             Two exceptions: the same shape with the same uses is elsewhere in the posted kernel, and the posted line
 *             has all its own instructions (the assembler gives merged equal instructions one line or another), or it
 *             is a wgmma (to which the assembler gives the line of something that stands near it).
 *   missing   a shape that the posted line has and the changed kernel does not have at that line. It is no difference
 *             if the changed kernel has it anywhere with all its uses (equal instructions were merged), or if the
 *             changed kernel's PTX has no such line any more, or has it where nothing needs its value.
 *
 * The assembler itself converts an integer that a rewrite knows (a number of blocks, say): a constant may stand where
 * the posted line has a converted integer. Shapes are compared as sets, so unrolled and peeled loops are no difference.
 * An instruction whose operands are all constants may be folded and counts as a constant.
 *
 * It does not look at integers, bits, addresses, which path is taken, or which registers hold values. It trusts the
 * assembler to route values right.
 */
#include "device/machine-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ptx/ptx.h"

#define NO_LINE UINT64_MAX

/* ---- sets -------------------------------------------------------------------------------------------------------- */

static bool mine(const struct side *s, uint32_t k) { return s->shape[k] && machine_own(&s->c, k); }

/* Does the value go through a call between functions of the PTX? Nothing is combined across it, and a kernel in which
 * the function is written out has a joint there (rewrite/normal/callee.c). */
static bool crosses(const struct side *s, const struct use *u)
{
    return u->kind == FROM_CALLER ||
           (u->kind == FROM_FLOAT &&
            s->c.block[s->c.block_of[u->value]].func != s->c.block[s->c.block_of[u->inst]].func &&
            machine_own(&s->c, u->value));
}

static uint32_t unique(uint64_t *v, uint32_t n)
{
    uint32_t m = 0;
    qsort(v, n, sizeof *v, machine_order);
    for (uint32_t k = 0; k < n; k++)
        if (!k || v[k] != v[k - 1])
            v[m++] = v[k];
    return m;
}

static bool arithmetic_has(const uint64_t *v, uint32_t n, uint64_t x)
{
    return n && bsearch(&x, v, n, sizeof x, machine_order) != NULL;
}

/* What s has, into the sets of `to`. */
static int index_side(const struct side *s, struct side *to)
{
    uint64_t *at = dt_reallocarray(to->at, (size_t)to->nat + s->c.n + 1, sizeof *at);
    to->at = at ? at : to->at;
    uint64_t *used = dt_reallocarray(to->used, (size_t)to->nused + 3 * (size_t)s->nuse + 1, sizeof *used);
    to->used = used ? used : to->used;
    uint64_t *any = dt_reallocarray(to->any, (size_t)to->nany + s->nuse + s->c.n + 1, sizeof *any);
    to->any = any ? any : to->any;
    if (!at || !used || !any)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < s->c.n; k++) {
        uint64_t line = s->line_of ? s->line_of[k] : s->c.line[k];
        if (!mine(s, k))
            continue;
        at[to->nat++] = machine_mix(line, s->shape[k]);
        any[to->nany++] = s->shape[k];
        for (uint32_t u = s->first[k]; u < s->first[k + 1]; u++) {
            used[to->nused++] = machine_mix(line, s->use[u].key);
            if (s->use[u].kind == FROM_FLOAT && s->use[u].folded)
                used[to->nused++] = machine_mix(line, s->use[u].folded);
            if (crosses(s, &s->use[u]))
                used[to->nused++] = machine_mix(line, s->use[u].loose);
            any[to->nany++] = s->use[u].key;
        }
    }
    to->nat = unique(at, to->nat);
    to->nused = unique(used, to->nused);
    to->nany = unique(any, to->nany);
    return 0;
}

/* Is instruction k of s anywhere in t, with all its uses? */
static bool elsewhere(const struct side *s, uint32_t k, const struct side *t)
{
    bool all = arithmetic_has(t->any, t->nany, s->shape[k]);
    for (uint32_t u = s->first[k]; u < s->first[k + 1] && all; u++)
        all = arithmetic_has(t->any, t->nany, s->use[u].key) || arithmetic_has(t->any, t->nany, s->use[u].loose);
    return all;
}

static bool is_zero(const struct sass_opnd *o) { return o->kind == SASS_REG && o->reg == SASS_RZ; }

static bool is_minus_zero(const struct sass_opnd *o) { return is_zero(o) && o->neg; }

/* Does instruction k but turn or drop a sign, or make a NaN canonical? The assembler makes it of `neg` and `abs` where
 * their value is needed in a register, and says the line of who needs it: a store, the joint. */
static bool is_sign(const struct side *s, uint32_t k)
{
    const struct sass_inst *i = &s->c.inst[k];
    unsigned c = i->op->code;
    if (c == 0x021 || c == 0x029 || c == 0x030)
        return is_minus_zero(&i->src[0]) || is_minus_zero(&i->src[1]);
    if (machine_idle(i) < 2)
        return is_minus_zero(&i->src[2]);
    return (c == 0x031 || c == 0x035) && is_zero(&i->src[0]) && is_zero(&i->src[1]) && i->src[0].neg != i->src[1].neg;
}

/* Shape and uses, wherever they come from. */
static uint64_t arithmetic_whole(const struct side *s, uint32_t k)
{
    uint64_t h = 0;
    for (uint32_t u = s->first[k]; u < s->first[k + 1]; u++) {
        bool again = false;
        for (uint32_t v = s->first[k]; v < u; v++)
            again |= s->use[v].loose == s->use[u].loose;
        h += again ? 0 : machine_mix(5, s->use[u].loose);
    }
    return machine_mix(s->shape[k], h);
}

/* ---- lines that are needed --------------------------------------------------------------------------------------- */

struct needed {
    const struct ptx_function *f;
    uint8_t *reg, *inst;
    const struct ptx_inst *at;
    bool wanted, more;
};

static void wants(uint32_t reg, bool write, void *user)
{
    struct needed *w = user;
    if (write && reg < w->f->nreg && w->reg[reg])
        w->wanted = true;
}

static void takes(uint32_t reg, bool write, void *user)
{
    struct needed *w = user;
    if (!write && reg < w->f->nreg && !w->reg[reg])
        w->reg[reg] = w->more = true;
}

static bool has_effect(const struct ptx_inst *i)
{
    if (i->op == PTX_OP_OPAQUE)
        return true;
    return ptx_op_info(i->op)->flags & (PTX_F_WRITES | PTX_F_ATOMIC | PTX_F_BARRIER | PTX_F_CONVERGENT | PTX_F_BRANCH |
                                        PTX_F_TERMINATOR | PTX_F_CALL | PTX_F_SIDE);
}

/* Marks the instructions of f whose value reaches a store, a branch, another thread. Registers as a whole: more than
 * need be. */
static int arithmetic_mark(struct needed *w)
{
    w->reg = dt_calloc((size_t)w->f->nreg + 1, 1);
    w->inst = dt_calloc((size_t)w->f->ninst + 1, 1);
    if (!w->reg || !w->inst)
        return DT_E_NOMEM;
    do {
        w->more = false;
        for (uint32_t k = w->f->ninst; k-- > 0;) {
            const struct ptx_inst *i = &w->f->inst[k];
            if (i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS ||
                i->op == PTX_OP_CALLPROTO)
                continue;
            w->wanted = has_effect(i);
            if (!w->wanted)
                ptx_inst_regs(i, wants, w);
            if (w->wanted) {
                w->inst[k] = true;
                ptx_inst_regs(i, takes, w);
            }
        }
    } while (w->more);
    return 0;
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

static uint64_t line_key(unsigned part, uint32_t line) { return (uint64_t)part << 32 | line; }

struct compare {
    struct side now, *was;
    unsigned nparts;
    uint64_t *needed; /* sorted part and line; of the changed text what somebody needs */
    uint32_t nneeded;
    bool know_needed;
    uint64_t *divides; /* sorted part and line; of the changed text, where it divides integers */
    uint32_t ndivides;
};

static int group_of(const struct compare *x, const char *file)
{
    for (unsigned p = 0; p < x->nparts; p++)
        if (x->was[p].part && !strcmp(x->was[p].part->file, file))
            return (int)p;
    return -1;
}

static int needed_lines(struct compare *x, const char *ptx, size_t len, const char *entry, struct dt_err *e)
{
    struct ptx_module *m = NULL;
    int r = ptx ? ptx_parse(ptx, len, &m, e) : 0;
    if (r < 0 || !ptx)
        return r;
    uint32_t total = 0;
    for (uint32_t k = 0; k < m->nfunc; k++)
        total += m->func[k]->ninst;
    x->needed = dt_calloc((size_t)total + 1, sizeof *x->needed);
    x->divides = dt_calloc((size_t)total + 1, sizeof *x->divides);
    r = x->needed && x->divides ? 0 : DT_E_NOMEM;
    for (uint32_t k = 0; k < m->nfunc && !r; k++) {
        struct needed w = {.f = m->func[k]};
        if (!w.f->has_body || (w.f->is_entry && strcmp(w.f->name, entry)))
            continue;
        r = arithmetic_mark(&w);
        for (uint32_t i = 0; i < w.f->ninst && !r; i++) {
            struct ptx_source src;
            int p = w.inst[i] && ptx_source_of(w.f, &w.f->inst[i], &src) ? group_of(x, src.file) : -1;
            const struct ptx_inst *q = &w.f->inst[i];
            if (p >= 0)
                x->needed[x->nneeded++] = line_key((unsigned)p, src.line);
            if (p >= 0 && (q->op == PTX_OP_DIV || q->op == PTX_OP_REM) && q->ntype && !ptx_type_is_float(q->type[0]))
                x->divides[x->ndivides++] = line_key((unsigned)p, src.line);
        }
        free(w.reg);
        free(w.inst);
    }
    ptx_module_free(m);
    x->nneeded = unique(x->needed, x->nneeded);
    x->ndivides = unique(x->divides, x->ndivides);
    x->know_needed = true;
    return r < 0 ? dt_err_set(e, r, "out of memory") : 0;
}

static int lines_of_now(struct compare *x)
{
    struct side *s = &x->now;
    s->line_of = dt_calloc((size_t)s->c.n + 1, sizeof *s->line_of);
    if (!s->line_of)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < s->c.n; k++) {
        uint32_t file = s->c.file[k];
        int p = s->c.line[k] && file && file <= s->c.nfiles ? group_of(x, s->c.files[file - 1].name) : -1;
        s->line_of[k] = p < 0 ? NO_LINE : line_key((unsigned)p, s->c.line[k]);
    }
    return 0;
}

static void arithmetic_say(const struct side *s, uint32_t k, struct dt_str *why)
{
    dt_str_addc(why, '\'');
    sass_print(&s->c.inst[k], why);
    dt_str_addc(why, '\'');
}

/* Where a use's value comes from. */
static void say_use(const struct side *s, const struct use *u, struct dt_str *why)
{
    dt_str_addf(why, "%s%s", u->sign & 1 ? "-" : "", u->sign & 2 ? "abs " : "");
    if (u->kind == FROM_FLOAT)
        arithmetic_say(s, u->value, why);
    else if (u->kind == FROM_CONST)
        dt_str_addf(why, "0x%08x", u->value);
    else
        dt_str_add(why, u->kind == FROM_CALLER ? "the caller" : "no float instruction");
}

/* What the posted line has: for people. */
static void say_line(const struct compare *x, unsigned group, uint32_t line, struct dt_str *why)
{
    unsigned n = 0;
    for (unsigned p = group; p < x->nparts; p++)
        for (uint32_t k = 0; k < x->was[p].c.n && n < 4; k++)
            if (x->was[p].group == group && mine(&x->was[p], k) && x->was[p].c.line[k] == line) {
                dt_str_add(why, n++ ? ", " : "");
                arithmetic_say(&x->was[p], k, why);
            }
    if (!n)
        dt_str_add(why, "no float instruction");
}

/* Does the changed kernel have all that the posted line has? */
static bool line_complete(const struct compare *x, unsigned group, uint32_t line)
{
    for (unsigned p = group; p < x->nparts; p++) {
        const struct side *t = &x->was[p];
        for (uint32_t k = 0; k < t->c.n && t->group == group; k++)
            if (mine(t, k) && t->c.line[k] == line &&
                !arithmetic_has(x->now.at, x->now.nat, machine_mix(line_key(group, line), t->shape[k])))
                return false;
    }
    return true;
}

/* Is instruction k a step of an integer division as the assembler writes one: 1 / (float)divisor, rounded to an integer
 * again? Asked of what has no posted line, since rewrites divide block numbers, and of lines where the PTX divides
 * integers: of known ones, in the changed kernel, the steps are others. What is taken for one would be missed at its
 * own line. */
static bool divides_integers(const struct side *s, uint32_t k)
{
    const struct sass_inst *i = &s->c.inst[k];
    bool fits = machine_is(i, "I2F") || machine_is(i, "MUFU") || machine_is(i, "F2I");
    for (uint32_t u = s->first[k]; u < s->first[k + 1] && fits; u++)
        fits = machine_is(i, "MUFU") ? s->use[u].kind == FROM_FLOAT && machine_is(&s->c.inst[s->use[u].value], "I2F")
                                     : s->use[u].kind != FROM_FLOAT;
    struct dt_str text = {0};
    sass_print(i, &text);
    fits = fits && text.s &&
           (strstr(text.s, "I2F.U32.RP ") || strstr(text.s, "I2F.RP ") || strstr(text.s, "MUFU.RCP ") ||
            strstr(text.s, "F2I.FTZ.U32.TRUNC.NTZ "));
    dt_str_done(&text);
    return fits;
}

/* Is instruction k of the changed kernel one of its posted line? 1; 0: `why`. */
static int is_posted(const struct compare *x, uint32_t k, struct dt_str *why)
{
    const struct side *s = &x->now;
    for (unsigned p = 0; p < x->nparts && is_sign(s, k); p++)
        if (elsewhere(s, k, &x->was[p]))
            return 1;
    if (s->line_of[k] == NO_LINE) {
        if (divides_integers(s, k))
            return 1;
        arithmetic_say(s, k, why);
        dt_str_add(why, " is made of no posted line");
        return 0;
    }
    if (arithmetic_has(x->divides, x->ndivides, s->line_of[k]) && (divides_integers(s, k) || s->c.call[k] != CODE_NONE))
        return 1;
    unsigned p = (unsigned)(s->line_of[k] >> 32);
    uint32_t line = (uint32_t)s->line_of[k];
    const struct side *t = &x->was[p];
    bool there = arithmetic_has(t->at, t->nat, machine_mix(line, s->shape[k])), uses = there;
    uint32_t odd = s->first[k];
    for (uint32_t u = s->first[k]; u < s->first[k + 1] && uses; odd = u++)
        uses = arithmetic_has(t->used, t->nused, machine_mix(line, s->use[u].key)) ||
               arithmetic_has(t->used, t->nused, machine_mix(line, s->use[u].loose)) ||
               (s->use[u].kind == FROM_CONST && arithmetic_has(t->used, t->nused, machine_mix(line, s->use[u].folded)));
    if (uses || (elsewhere(s, k, t) && (s->c.inst[k].op->dst[0] == 'g' || line_complete(x, p, line))))
        return 1;
    arithmetic_say(s, k, why);
    dt_str_addf(why, " of '%s' line %u (%s) is %s", t->part->entry, line, t->part->file,
                there ? "fed by " : "new there");
    if (there)
        say_use(s, &s->use[odd], why);
    dt_str_add(why, ": posted are ");
    say_line(x, p, line, why);
    return 0;
}

/* How often instructions like k of `like` are in the changed kernel, and at how many posted lines. */
static void count_signs(const struct compare *x, const struct side *like, uint32_t k, uint32_t *ret_now,
                        uint32_t *ret_was)
{
    uint64_t want = arithmetic_whole(like, k), last = NO_LINE;
    for (uint32_t i = 0; i < x->now.c.n; i++)
        *ret_now += mine(&x->now, i) && is_sign(&x->now, i) && arithmetic_whole(&x->now, i) == want;
    for (unsigned p = 0; p < x->nparts; p++)
        for (uint32_t i = 0; i < x->was[p].c.n; i++) {
            uint64_t line = line_key(x->was[p].group, x->was[p].c.line[i]);
            if (!mine(&x->was[p], i) || !is_sign(&x->was[p], i) || arithmetic_whole(&x->was[p], i) != want)
                continue;
            *ret_was += line != last;
            last = line;
        }
}

/* Does it convert an integer, which may have become a constant? Who uses it is asked for a constant at his own line. */
static bool converts(const struct side *s, uint32_t k)
{
    bool whole_number = machine_is(&s->c.inst[k], "I2F") || machine_is(&s->c.inst[k], "I2FP");
    for (uint32_t u = s->first[k]; u < s->first[k + 1] && whole_number; u++)
        whole_number = s->use[u].kind == FROM_ELSEWHERE;
    return whole_number;
}

/* Is instruction k of posted kernel p still there, or rightly gone? */
static int is_kept(const struct compare *x, unsigned p, uint32_t k, struct dt_str *why)
{
    const struct side *t = &x->was[p];
    uint64_t key = line_key(t->group, t->c.line[k]);
    uint32_t now = 0, was = 0;
    if (t->c.call[k] != CODE_NONE && t->c.func[t->c.call[k]].posted)
        return 1; /* what it leads to is looked at line by line */
    if (arithmetic_has(x->divides, x->ndivides, key) && (divides_integers(t, k) || t->c.call[k] != CODE_NONE))
        return 1;
    if (is_sign(t, k)) {
        count_signs(x, t, k, &now, &was);
        if (now >= was)
            return 1;
        arithmetic_say(t, k, why);
        dt_str_addf(why, " of '%s' line %u (%s): %u of %u such changes of sign are left", t->part->entry, t->c.line[k],
                    t->part->file, now, was);
        return 0;
    }
    if (arithmetic_has(x->now.at, x->now.nat, machine_mix(key, t->shape[k])) || elsewhere(t, k, &x->now))
        return 1;
    if (converts(t, k) || (x->know_needed && !arithmetic_has(x->needed, x->nneeded, key)))
        return 1;
    arithmetic_say(t, k, why);
    dt_str_addf(why, " of '%s' line %u (%s) is gone though its value is needed", t->part->entry, t->c.line[k],
                t->part->file);
    return 0;
}

static int arithmetic_compare(struct compare *x, struct dt_str *why, struct dt_err *e)
{
    int r = lines_of_now(x);
    if (!r)
        r = index_side(&x->now, &x->now);
    for (unsigned p = 0; p < x->nparts && !r; p++)
        r = index_side(&x->was[p], &x->was[x->was[p].group]);
    if (r < 0)
        return dt_err_set(e, r, "out of memory");
    for (uint32_t k = 0; k < x->now.c.n; k++)
        if (mine(&x->now, k) && !is_posted(x, k, why))
            return 0;
    for (unsigned p = 0; p < x->nparts; p++)
        for (uint32_t k = 0; k < x->was[p].c.n; k++)
            if (mine(&x->was[p], k) && !is_kept(x, p, k, why))
                return 0;
    return 1;
}

int dev_arithmetic(const void *cubin, size_t len, const char *entry, const char *ptx, size_t nptx,
                   const struct dev_part *part, unsigned nparts, struct dt_str *why, struct dt_err *e)
{
    struct dev_part now = {.cubin = cubin, .len = len, .entry = entry};
    struct compare x = {.was = dt_calloc(nparts ? nparts : 1, sizeof *x.was), .nparts = nparts};
    if (!x.was)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = side_read(&x.now, &now, false, why, e);
    for (unsigned p = 0; p < nparts && !r; p++)
        if ((r = side_read(&x.was[p], &part[p], true, why, e)) == 0)
            x.was[p].group = (unsigned)group_of(&x, part[p].file);
    if (!r)
        r = needed_lines(&x, ptx, nptx, entry, e);
    if (r >= 0)
        r = r ? 0 : arithmetic_compare(&x, why, e);
    side_done(&x.now);
    for (unsigned p = 0; p < nparts; p++)
        side_done(&x.was[p]);
    free(x.was);
    free(x.needed);
    free(x.divides);
    return r;
}
