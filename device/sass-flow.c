/* One kernel's machine code: instructions, blocks, subroutines, and where a register's value comes from.
 *
 * Subroutines (the slow paths of division and square root, which the assembler shares between all that need them, and functions) are what CALL leads to; RET returns behind
 * the CALL. They lie behind the entry in the same section (ptxas), or in sections of their own (nvJitLink). A block belongs to one function; code that two functions run into is not known here.
 *
 * Origins are searched backward from a use, block by block. What a search carries is the register and a predicate that is known: a use under @P0 does not see a definition
 * under @!P0, and the definitions under @P0 and @!P0 together hide what was before. A CALL is passed through its subroutine, from each RET; what enters a subroutine at its
 * start comes from behind the CALL, or, for a use inside, from the caller (FROM_CALLER). Moves are passed: MOV, IMAD of two zeros, SEL, FSEL, R2UR; constants are known by value:
 * immediates, the zero register, HFMA2 of two zeros, CS2R of zero, constant bank 2. All else is FROM_ELSEWHERE: loads, parameters, integers, bits.
 */
#include "device/machine-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define MOST_INST 262144
#define MOST_TEXTS 64
#define MOST_DEPTH 8
#define MOST_STEPS UINT64_C(60000000)
#define MOST_ORIGINS 4096
#define ANY 16 /* no predicate is known */

/* ---- blocks and functions ------------------------------------------------------------------------------------------------- */

static bool always(const struct sass_inst *i) { return i->guard == SASS_PT && !i->guard_not; }

static bool ends(const struct sass_inst *i) { return i->op->cls == SASS_BRANCH || i->op->cls == SASS_EXIT || i->op->cls == SASS_RETURN; }

/* Does a branch depend on more than its guard? bits 87-90: a predicate as an operand */
static bool sure(const struct sass_inst *i) { return always(i) && (i->hi >> 23 & 15) == SASS_PT; }

struct load {
    struct elf_file f;
    struct { unsigned section; uint32_t first, n; } text[MOST_TEXTS];
    unsigned ntext;
};

static bool grow(struct code *c, uint32_t n)
{
    void *p[3] = {dt_reallocarray(c->inst, n, sizeof *c->inst), NULL, NULL};
    c->inst = p[0] ? p[0] : c->inst;
    p[1] = dt_reallocarray(c->to, n, sizeof *c->to);
    c->to = p[1] ? p[1] : c->to;
    return p[0] && p[1];
}

/* One section of code behind what is there. Where its branches lead; calls by name are left to call_targets. */
static int load_text(struct code *c, struct load *l, unsigned section, struct dt_str *why)
{
    struct elf_section text;
    if (!elf_section(&l->f, section, &text) || !text.p || !text.size || text.size % 16 || text.size / 16 > MOST_INST - c->n || l->ntext == MOST_TEXTS) {
        dt_str_add(why, "there is machine code that cannot be read");
        return 1;
    }
    uint32_t first = c->n, n = (uint32_t)(text.size / 16);
    if (!grow(c, first + n))
        return DT_E_NOMEM;
    l->text[l->ntext].section = section;
    l->text[l->ntext].first = first;
    l->text[l->ntext++].n = n;
    c->n += n;
    for (uint32_t k = 0; k < n; k++) {
        struct sass_inst *i = &c->inst[first + k];
        uint64_t word[2], to = CODE_NONE;
        memcpy(word, text.p + (size_t)k * 16, 16);
        if (!sass_decode(word, i) || i->op->cls == SASS_JUMP) {
            dt_str_add(why, "an instruction that the reader of machine code does not know: ");
            sass_print(i, why);
            return 1;
        }
        c->to[first + k] = CODE_NONE;
        if (i->op->cls != SASS_BRANCH && (i->op->cls != SASS_CALL || i->op->code == 0x143))
            continue;
        to = sass_target(i, (uint64_t)k * 16, c->sm);
        if (to % 16 || to / 16 >= n) {
            dt_str_add(why, "a branch out of the kernel");
            return 1;
        }
        c->to[first + k] = first + (uint32_t)(to / 16);
    }
    return 0;
}

/* CALL.ABS: where the relocation leads. Sections are read as they are called. */
static int call_targets(struct code *c, struct load *l, struct dt_str *why)
{
    for (unsigned t = 0; t < l->ntext; t++)
        for (uint32_t k = 0; k < l->text[t].n; k++) {
            uint32_t at = l->text[t].first + k;
            unsigned section = 0, u = 0;
            uint64_t offset = 0;
            if (c->inst[at].op->cls != SASS_CALL || c->to[at] != CODE_NONE)
                continue;
            if (!elf_target(&l->f, l->text[t].section, (uint64_t)k * 16, &section, &offset)) {
                dt_str_add(why, "a call to who knows where");
                return 1;
            }
            while (u < l->ntext && l->text[u].section != section)
                u++;
            int r = u == l->ntext ? load_text(c, l, section, why) : 0;
            if (r)
                return r;
            if (offset % 16 || offset / 16 >= l->text[u].n) {
                dt_str_add(why, "a call to who knows where");
                return 1;
            }
            c->to[at] = l->text[u].first + (uint32_t)(offset / 16);
        }
    return 0;
}

/* Marks the first instruction of each block; CALLs' targets become functions. */
static int leaders(struct code *c, uint8_t *leader)
{
    leader[0] = leader[c->nentry] = 1;
    for (uint32_t k = 0; k < c->n; k++) {
        const struct sass_inst *i = &c->inst[k];
        if (ends(i) && k + 1 < c->n)
            leader[k + 1] = 1;
        if (i->op->cls != SASS_BRANCH && i->op->cls != SASS_CALL)
            continue;
        uint32_t to = c->to[k];
        leader[to] = 1;
        if (i->op->cls == SASS_BRANCH)
            continue;
        uint32_t f = 1;
        while (f < c->nfunc && c->func[f].first != to)
            f++;
        if (f == c->nfunc) {
            struct code_func *p = dt_reallocarray(c->func, c->nfunc + 1, sizeof *p);
            if (!p)
                return DT_E_NOMEM;
            c->func = p;
            c->func[c->nfunc++] = (struct code_func){.first = to};
        }
        c->call[k] = f;
    }
    return 0;
}

/* The blocks behind block b: n of them. */
static unsigned after(const struct code *c, uint32_t b, uint32_t out[2])
{
    const struct sass_inst *i = &c->inst[c->block[b].last];
    unsigned n = 0;
    if (i->op->cls == SASS_BRANCH)
        out[n++] = c->block_of[c->to[c->block[b].last]];
    bool falls = i->op->cls == SASS_BRANCH ? !sure(i) : i->op->cls == SASS_EXIT || i->op->cls == SASS_RETURN ? !sure(i) : true;
    if (falls && b + 1 < c->nblock)
        out[n++] = b + 1;
    return n;
}

/* Each block's function, by flooding from its start. */
static int flood(struct code *c, struct dt_str *why)
{
    uint32_t *stack = dt_calloc((size_t)c->nblock + 1, sizeof *stack);
    if (!stack)
        return DT_E_NOMEM;
    int r = 0;
    for (uint32_t f = 0; f < c->nfunc && !r; f++) {
        uint32_t n = 0, first = c->block_of[c->func[f].first];
        if (c->block[first].func != CODE_NONE)
            r = 1;
        c->block[first].func = f;
        stack[n++] = first;
        while (n && !r) {
            uint32_t to[2], b = stack[--n];
            for (unsigned k = after(c, b, to); k-- && !r;) {
                if (c->block[to[k]].func == CODE_NONE) {
                    c->block[to[k]].func = f;
                    stack[n++] = to[k];
                } else if (c->block[to[k]].func != f) {
                    r = 1;
                }
            }
        }
    }
    if (r)
        dt_str_add(why, "two functions run into the same code");
    free(stack);
    return r;
}

static int predecessors(struct code *c)
{
    uint32_t total = 0, to[2];
    for (uint32_t b = 0; b < c->nblock; b++)
        for (unsigned k = c->block[b].func == CODE_NONE ? 0 : after(c, b, to); k--; total++)
            c->block[to[k]].npred++;
    c->pred = dt_calloc((size_t)total + 1, sizeof *c->pred);
    c->ret = dt_calloc((size_t)c->nblock + 1, sizeof *c->ret);
    if (!c->pred || !c->ret)
        return DT_E_NOMEM;
    for (uint32_t b = 0, at = 0; b < c->nblock; b++) {
        c->block[b].pred = at;
        at += c->block[b].npred;
        c->block[b].npred = 0;
    }
    for (uint32_t b = 0; b < c->nblock; b++)
        for (unsigned k = c->block[b].func == CODE_NONE ? 0 : after(c, b, to); k--;) {
            struct code_block *t = &c->block[to[k]];
            c->pred[t->pred + t->npred++] = b;
        }
    for (uint32_t f = 0; f < c->nfunc; f++) {
        c->func[f].ret = c->nrets;
        for (uint32_t b = 0; b < c->nblock; b++)
            if (c->block[b].func == f && c->inst[c->block[b].last].op->cls == SASS_RETURN)
                c->ret[c->nrets++] = b;
        c->func[f].nret = c->nrets - c->func[f].ret;
    }
    return 0;
}

static int build(struct code *c, struct dt_str *why)
{
    dt_free_ uint8_t *leader = dt_calloc((size_t)c->n + 1, 1);
    c->func = dt_calloc(1, sizeof *c->func);
    c->nfunc = c->func ? 1 : 0;
    if (!leader || !c->func)
        return DT_E_NOMEM;
    int r = leaders(c, leader);
    if (r)
        return r;
    for (uint32_t k = 0; k < c->n; k++)
        c->nblock += leader[k];
    c->block = dt_calloc(c->nblock, sizeof *c->block);
    if (!c->block)
        return DT_E_NOMEM;
    for (uint32_t k = 0, b = CODE_NONE; k < c->n; k++) {
        b += leader[k];
        if (leader[k])
            c->block[b] = (struct code_block){.first = k, .func = CODE_NONE};
        c->block[b].last = k;
        c->block_of[k] = b;
    }
    r = flood(c, why);
    if (r)
        return r;
    return predecessors(c);
}

int code_read(struct code *c, const void *cubin, size_t len, const char *entry, struct dt_str *why, struct dt_err *e)
{
    struct load l = {0};
    struct elf_section text, bank;
    struct dt_str name = {0};
    memset(c, 0, sizeof *c);
    dt_str_addf(&name, ".text.%s", entry);
    uint32_t flags = 0;
    bool elf = elf_open(&l.f, cubin, len) && name.s;
    unsigned section = elf ? elf_find(&l.f, name.s, &text) : 0;
    dt_str_done(&name);
    dt_str_addf(&name, ".nv.constant2.%s", entry);
    if (elf && name.s && elf_find(&l.f, name.s, &bank)) {
        c->bank2 = bank.p;
        c->nbank2 = bank.p ? bank.size : 0;
    }
    dt_str_done(&name);
    if (!section) {
        dt_str_addf(why, "there is no machine code of '%s' to read", entry);
        return 1;
    }
    memcpy(&flags, l.f.p + 48, 4);                           /* e_flags */
    c->sm = (l.f.p[8] >= 8 ? flags >> 8 : flags) & 0xff; /* the ELF's ABI version says where */
    if (!sass_knows(c->sm)) {
        dt_str_addf(why, "the reader of machine code does not know sm_%u", c->sm);
        return 1;
    }
    int r = load_text(c, &l, section, why);
    c->nentry = c->n;
    if (!r)
        r = call_targets(c, &l, why);
    if (r)
        return r < 0 ? dt_err_set(e, r, "out of memory") : r;
    c->block_of = dt_calloc(c->n, sizeof *c->block_of);
    c->call = dt_calloc(c->n, sizeof *c->call);
    c->file = dt_calloc(c->n, sizeof *c->file);
    c->line = dt_calloc(c->n, sizeof *c->line);
    if (!c->block_of || !c->call || !c->file || !c->line)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memset(c->call, 0xff, c->n * sizeof *c->call);
    r = build(c, why);
    return r < 0 ? dt_err_set(e, r, "out of memory") : r;
}

void code_done(struct code *c)
{
    free(c->inst);
    free(c->block_of);
    free(c->block);
    free(c->pred);
    free(c->func);
    free(c->ret);
    free(c->call);
    free(c->to);
    free(c->ctx);
    free(c->file);
    free(c->line);
    free(c->files);
    free(c->seen.key);
    free(c->seen.stamp);
    memset(c, 0, sizeof *c);
}

/* ---- origins ------------------------------------------------------------------------------------------------------------------ */

struct item { /* search reg in block b, from instruction at back (at excluded) */
    uint32_t b, at, ctx; /* ctx: the CALL through which the search entered a subroutine */
    uint16_t reg;
    bool uniform, neg, abs;
    uint8_t known, half;
};
struct search {
    struct code *c;
    struct item *p;
    uint32_t n, cap;
    struct origins *out;
    bool failed;
};

static void add(struct origins *o, struct origin x)
{
    for (uint32_t k = 0; k < o->n; k++)
        if (!memcmp(&o->p[k], &x, sizeof x))
            return;
    if (o->n == o->cap) {
        uint32_t cap = o->cap ? o->cap * 2 : 8;
        struct origin *p = o->n < MOST_ORIGINS ? dt_reallocarray(o->p, cap, sizeof *p) : NULL;
        if (!p) {
            o->failed = true;
            return;
        }
        o->p = p;
        o->cap = cap;
    }
    o->p[o->n++] = x;
}

static void found(struct search *s, const struct item *i, unsigned kind, uint32_t value, bool neg, bool abs)
{
    struct origin x;
    memset(&x, 0, sizeof x);
    x.kind = (uint8_t)kind;
    x.half = i->half;
    x.neg = (i->neg && 1) ^ (i->abs ? 0 : neg);
    x.abs = i->abs || abs;
    x.value = value;
    if (kind != FROM_FLOAT && kind != FROM_CONST)
        x.half = 0;
    add(s->out, x);
}

static bool seen(struct code *c, uint64_t key)
{
    struct seen *t = &c->seen;
    if ((t->used + 1) * 2 > t->cap) {
        uint32_t cap = t->cap ? t->cap * 2 : 1024;
        uint64_t *key2 = dt_calloc(cap, sizeof *key2);
        uint32_t *stamp2 = dt_calloc(cap, sizeof *stamp2);
        if (!key2 || !stamp2) {
            free(key2);
            free(stamp2);
            c->steps = MOST_STEPS;
            return true;
        }
        for (uint32_t k = 0; k < t->cap; k++)
            if (t->stamp[k] == t->now) {
                uint32_t h = (uint32_t)(t->key[k] * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (cap - 1);
                while (stamp2[h] == t->now)
                    h = (h + 1) & (cap - 1);
                key2[h] = t->key[k];
                stamp2[h] = t->now;
            }
        free(t->key);
        free(t->stamp);
        t->key = key2;
        t->stamp = stamp2;
        t->cap = cap;
    }
    uint32_t h = (uint32_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (t->cap - 1);
    for (; t->stamp[h] == t->now; h = (h + 1) & (t->cap - 1))
        if (t->key[h] == key)
            return true;
    t->key[h] = key;
    t->stamp[h] = t->now;
    t->used++;
    return false;
}

static void push(struct search *s, struct item i)
{
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 64;
        struct item *p = dt_reallocarray(s->p, cap, sizeof *p);
        if (!p) {
            s->failed = true;
            return;
        }
        s->p = p;
        s->cap = cap;
    }
    s->p[s->n++] = i;
}

static bool zero(const struct sass_opnd *o) { return (o->kind == SASS_REG && o->reg == SASS_RZ) || (o->kind == SASS_IMM && !o->value); }

/* The search goes on at operand o of the move at instruction k. */
static void through(struct search *s, const struct item *i, uint32_t k, const struct sass_opnd *o)
{
    struct item next = *i;
    const struct sass_inst *m = &s->c->inst[k];
    next.neg = i->neg ^ (i->abs ? 0 : o->neg);
    next.abs = i->abs || o->abs;
    if (o->kind == SASS_IMM || zero(o) || (o->kind == SASS_UREG && o->reg == SASS_URZ)) {
        found(s, i, FROM_CONST, o->kind == SASS_IMM ? o->value : 0, o->neg, o->abs);
    } else if (o->kind == SASS_CONST && o->bank == 2 && o->reg == SASS_URZ && o->value + 4 <= s->c->nbank2) {
        uint32_t v;
        memcpy(&v, s->c->bank2 + o->value, 4);
        found(s, i, FROM_CONST, v, o->neg, o->abs);
    } else if (o->kind == SASS_CONST) {
        found(s, i, FROM_ELSEWHERE, 0, false, false);
    } else {
        next.uniform = o->kind == SASS_UREG;
        next.reg = o->reg;
        next.b = s->c->block_of[k];
        next.at = k;
        next.known = (uint8_t)(m->dst_kind == SASS_UREG && m->guard != SASS_PT ? ANY : m->guard == SASS_PT ? i->known : m->guard | (m->guard_not ? 8 : 0));
        push(s, next);
    }
}

/* Instruction k writes the register: where does its value come from? */
static void defined(struct search *s, const struct item *i, uint32_t k)
{
    const struct sass_inst *d = &s->c->inst[k];
    const struct sass_opnd *o = d->src;
    switch (d->op->cls) {
    case SASS_FLOAT:
        if (d->nsrc == 3 && zero(&o[0]) && zero(&o[1]) && o[2].kind == SASS_IMM && (d->op->code == 0x031 || d->op->code == 0x035))
            found(s, i, FROM_CONST, o[2].value, false, false);
        else
            found(s, i, FROM_FLOAT, k, false, false);
        break;
    case SASS_MOVE: through(s, i, k, &o[0]); break;
    case SASS_SELECT:
        if (d->hi >> 16 & 1) { /* FSEL.FTZ computes */
            found(s, i, FROM_FLOAT, k, false, false);
        } else {
            through(s, i, k, &o[0]);
            through(s, i, k, &o[1]);
        }
        break;
    case SASS_IMAD:
        if (d->nsrc == 3 && zero(&o[0]) && zero(&o[1]))
            through(s, i, k, &o[2]);
        else
            found(s, i, FROM_ELSEWHERE, 0, false, false);
        break;
    case SASS_CS2R:
        if ((d->hi >> 8 & 0xff) == 0xff)
            found(s, i, FROM_CONST, 0, false, false);
        else
            found(s, i, FROM_ELSEWHERE, 0, false, false);
        break;
    default: found(s, i, FROM_ELSEWHERE, 0, false, false);
    }
}

static bool writes(const struct sass_inst *d, const struct item *i)
{
    return d->dst_kind == (i->uniform ? SASS_UREG : SASS_REG) && i->reg >= d->dst && i->reg < d->dst + d->dst_width;
}

/* The context of a search that goes into a subroutine by CALL k. CODE_NONE: too deep, or memory is out. */
static uint32_t enter(struct search *s, uint32_t k, uint32_t parent)
{
    struct code *c = s->c;
    uint32_t depth = parent == CODE_NONE ? 1 : c->ctx[parent].depth + 1;
    for (uint32_t x = 0; x < c->nctx; x++)
        if (c->ctx[x].call == k && c->ctx[x].parent == parent)
            return x;
    if (c->nctx == c->ctx_cap) {
        uint32_t cap = c->ctx_cap ? c->ctx_cap * 2 : 64;
        struct code_ctx *p = cap < 1U << 20 ? dt_reallocarray(c->ctx, cap, sizeof *p) : NULL;
        if (!p || depth > MOST_DEPTH) {
            s->failed = true;
            return CODE_NONE;
        }
        c->ctx = p;
        c->ctx_cap = cap;
    }
    if (depth > MOST_DEPTH) {
        s->out->failed = true;
        return CODE_NONE;
    }
    c->ctx[c->nctx] = (struct code_ctx){k, parent, depth};
    return c->nctx++;
}

/* Back through one block. */
static void walk(struct search *s, struct item i)
{
    struct code *c = s->c;
    const struct code_block *b = &c->block[i.b];
    for (uint32_t k = i.at; k-- > b->first;) {
        const struct sass_inst *d = &c->inst[k];
        if (++c->steps > MOST_STEPS)
            return;
        if (c->call[k] != CODE_NONE) { /* through the subroutine; its way in leads here again, before the CALL */
            const struct code_func *f = &c->func[c->call[k]];
            for (uint32_t q = 0; q < f->nret; q++) {
                struct item in = i;
                in.b = c->ret[f->ret + q];
                in.at = c->block[in.b].last;
                in.ctx = enter(s, k, i.ctx);
                if (in.ctx == CODE_NONE)
                    return;
                in.known = ANY;
                push(s, in);
            }
            if (always(d))
                return;
            i.known = ANY;
            continue;
        }
        if (writes(d, &i) && d->dst_kind == SASS_UREG && d->guard != SASS_PT) { /* a uniform predicate: not followed */
            defined(s, &i, k);
        } else if (writes(d, &i)) {
            uint8_t guard = d->guard | (d->guard_not ? 8 : 0);
            if (d->guard == SASS_PT || i.known == ANY || i.known != (guard ^ 8))
                defined(s, &i, k);
            if (d->guard == SASS_PT || i.known == guard)
                return;
            if (i.known == ANY)
                i.known = guard ^ 8;
        }
        if (i.known != ANY && (d->op->dst[1] == 'P' || d->pwrite[0] == (i.known & 7) || d->pwrite[1] == (i.known & 7)))
            i.known = ANY;
    }
    bool start = b->first == c->func[b->func].first;
    if (start && i.ctx != CODE_NONE) {
        struct item out = i;
        out.at = c->ctx[i.ctx].call;
        out.b = c->block_of[out.at];
        out.ctx = c->ctx[i.ctx].parent;
        push(s, out);
    } else if (start && b->func) {
        c->func[b->func].args[i.reg / 32 % 8] |= i.uniform ? 0 : UINT32_C(1) << (i.reg % 32);
        found(s, &i, FROM_CALLER, 0, false, false);
    }
    for (uint32_t k = 0; k < b->npred; k++) {
        struct item up = i;
        up.b = c->pred[b->pred + k];
        up.at = c->block[up.b].last + 1;
        push(s, up);
    }
}

int code_origins(struct code *c, uint32_t at, bool uniform, unsigned reg, unsigned half, struct origins *out)
{
    struct search s = {.c = c, .out = out};
    const struct sass_inst *u = &c->inst[at];
    if (c->block[c->block_of[at]].func == CODE_NONE)
        return 0;
    c->seen.now++;
    c->seen.used = 0;
    push(&s, (struct item){.b = c->block_of[at], .at = at, .ctx = CODE_NONE, .reg = (uint16_t)reg, .uniform = uniform, .half = (uint8_t)half,
                           .known = (uint8_t)(u->guard == SASS_PT ? ANY : u->guard | (u->guard_not ? 8 : 0))});
    while (s.n && c->steps < MOST_STEPS && !s.failed && !out->failed) {
        struct item i = s.p[--s.n];
        uint64_t key = (uint64_t)i.at << 44 ^ (uint64_t)(i.ctx & 0xfffff) << 24 ^ (uint64_t)i.reg << 16 ^ (uint64_t)i.known << 8 ^ (uint64_t)(i.uniform | i.neg << 1 | i.abs << 2);
        if (!seen(c, key))
            walk(&s, i);
    }
    free(s.p);
    return s.failed ? DT_E_NOMEM : out->failed || c->steps >= MOST_STEPS ? 1 : 0;
}
