/* Where a register's value comes from.
 *
 * Origins are searched backward from a use, block by block. A search carries the register and a predicate that is
 * known. A use under @P0 does not see a definition under @!P0; definitions under @P0 and @!P0 together hide what was
 * before.
 *
 * A CALL is passed through its subroutine, from each RET. What enters a subroutine at its start comes from behind the
 * CALL, or, for a use inside the subroutine, from the caller (FROM_CALLER).
 *
 *   passed          moves: MOV, IMAD of two zeros, SEL, FSEL, R2UR
 *   constants       by value: immediates, the zero register, HFMA2 of two zeros, CS2R of zero, constant bank 2
 *   FROM_ELSEWHERE  all else: loads, parameters, integers, bits
 */
#include "device/machine-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define MOST_STEPS UINT64_C(60000000)
#define MOST_ORIGINS 4096
#define MOST_DEPTH 8
#define ANY 16 /* no predicate is known */

struct item {            /* search reg in block b, from instruction at back (at excluded) */
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

static void sass_flow_add(struct origins *o, struct origin x)
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

static void sass_flow_found(struct search *s, const struct item *i, unsigned kind, uint32_t value, bool neg, bool abs)
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
    sass_flow_add(s->out, x);
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

static void sass_flow_push(struct search *s, struct item i)
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

static bool zero(const struct sass_opnd *o)
{
    return (o->kind == SASS_REG && o->reg == SASS_RZ) || (o->kind == SASS_IMM && !o->value);
}

/* The search goes on at operand o of the move at instruction k; `upper`: of 64 bits, at their upper half. */
static void through(struct search *s, const struct item *i, uint32_t k, const struct sass_opnd *o, bool upper)
{
    struct item next = *i;
    const struct sass_inst *m = &s->c->inst[k];
    next.neg = i->neg ^ (i->abs ? 0 : o->neg);
    next.abs = i->abs || o->abs;
    if (o->kind == SASS_IMM || (o->kind == SASS_REG && o->reg == SASS_RZ) ||
        (o->kind == SASS_UREG && o->reg == SASS_URZ)) {
        uint32_t v = o->kind != SASS_IMM ? 0 : upper ? o->upper : o->value;
        sass_flow_found(s, i, FROM_CONST, v, o->neg, o->abs);
    } else if (o->kind == SASS_CONST && o->bank == 2 && o->reg == SASS_URZ && o->value + 4 <= s->c->nbank2) {
        uint32_t v;
        memcpy(&v, s->c->bank2 + o->value, 4);
        sass_flow_found(s, i, FROM_CONST, v, o->neg, o->abs);
    } else if (o->kind == SASS_CONST) {
        sass_flow_found(s, i, FROM_ELSEWHERE, 0, false, false);
    } else {
        next.uniform = o->kind == SASS_UREG;
        next.reg = o->reg + upper;
        next.b = s->c->block_of[k];
        next.at = k;
        next.known = (uint8_t)(m->dst_kind == SASS_UREG && m->guard != SASS_PT ? ANY
                               : m->guard == SASS_PT                           ? i->known
                                                                               : m->guard | (m->guard_not ? 8 : 0));
        sass_flow_push(s, next);
    }
}

/* Instruction k writes the register: where does its value come from? */
static void defined(struct search *s, const struct item *i, uint32_t k)
{
    const struct sass_inst *d = &s->c->inst[k];
    const struct sass_opnd *o = d->src;
    switch (d->op->cls) {
    case SASS_FLOAT:
        if (d->nsrc == 3 && zero(&o[0]) && zero(&o[1]) && o[2].kind == SASS_IMM &&
            (d->op->code == 0x031 || d->op->code == 0x035))
            sass_flow_found(s, i, FROM_CONST, o[2].value, false, false);
        else
            sass_flow_found(s, i, FROM_FLOAT, k, false, false);
        break;
    case SASS_MOVE: through(s, i, k, &o[0], i->reg > d->dst); break;
    case SASS_SELECT:
        if (d->hi >> 16 & 1) { /* FSEL.FTZ computes */
            sass_flow_found(s, i, FROM_FLOAT, k, false, false);
        } else {
            through(s, i, k, &o[0], i->reg > d->dst);
            through(s, i, k, &o[1], i->reg > d->dst);
        }
        break;
    case SASS_IMAD:
        if (d->nsrc == 3 && zero(&o[0]) && zero(&o[1]))
            through(s, i, k, &o[2], false);
        else
            sass_flow_found(s, i, FROM_ELSEWHERE, 0, false, false);
        break;
    case SASS_CS2R:
        if ((d->hi >> 8 & 0xff) == 0xff)
            sass_flow_found(s, i, FROM_CONST, 0, false, false);
        else
            sass_flow_found(s, i, FROM_ELSEWHERE, 0, false, false);
        break;
    default: sass_flow_found(s, i, FROM_ELSEWHERE, 0, false, false);
    }
}

static bool writes(const struct sass_inst *d, const struct item *i)
{
    return (d->dst_kind == (i->uniform ? SASS_UREG : SASS_REG) && i->reg >= d->dst && i->reg < d->dst + d->dst_width) ||
           (!i->uniform && i->reg >= d->more && i->reg < d->more + d->more_width);
}

/* The context of a search that goes into a subroutine by CALL k. CODE_NONE: too deep, or memory is out. */
static uint32_t sass_flow_enter(struct search *s, uint32_t k, uint32_t parent)
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
static void sass_flow_walk(struct search *s, struct item i)
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
                in.ctx = sass_flow_enter(s, k, i.ctx);
                if (in.ctx == CODE_NONE)
                    return;
                in.known = ANY;
                sass_flow_push(s, in);
            }
            if (sass_always(d))
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
        sass_flow_push(s, out);
    } else if (start && b->func) {
        c->func[b->func].args[i.reg / 32 % 8] |= i.uniform ? 0 : UINT32_C(1) << (i.reg % 32);
        sass_flow_found(s, &i, FROM_CALLER, 0, false, false);
    }
    for (uint32_t k = 0; k < b->npred; k++) {
        struct item up = i;
        up.b = c->pred[b->pred + k];
        up.at = c->block[up.b].last + 1;
        sass_flow_push(s, up);
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
    sass_flow_push(&s,
                   (struct item){.b = c->block_of[at],
                                 .at = at,
                                 .ctx = CODE_NONE,
                                 .reg = (uint16_t)reg,
                                 .uniform = uniform,
                                 .half = (uint8_t)half,
                                 .known = (uint8_t)(u->guard == SASS_PT ? ANY : u->guard | (u->guard_not ? 8 : 0))});
    while (s.n && c->steps < MOST_STEPS && !s.failed && !out->failed) {
        struct item i = s.p[--s.n];
        uint64_t key = (uint64_t)i.at << 44 ^ (uint64_t)(i.ctx & 0xfffff) << 24 ^ (uint64_t)i.reg << 16 ^
                       (uint64_t)i.known << 8 ^ (uint64_t)(i.uniform | i.neg << 1 | i.abs << 2);
        if (!seen(c, key))
            sass_flow_walk(&s, i);
    }
    free(s.p);
    return s.failed ? DT_E_NOMEM : out->failed || c->steps >= MOST_STEPS ? 1 : 0;
}
