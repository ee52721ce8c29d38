/* Is the float arithmetic of a changed kernel that of the posted ones? Told from machine code, as the assembler left both.
 *
 * Each float instruction has a shape: opcode, all modifier bits, the sign of a product, for minimum and maximum which; for a comparison what it tells apart, whichever way round
 * it is written. Registers, halves and places of constants are no part of it. A use is a shape, an operand of it (the two factors or summands are one), its sign, and one thing that
 * its value comes from: a float instruction of some shape, a constant by value, or elsewhere (a load, a parameter, integers, bits). A CALL of a subroutine has the shape of all that is
 * in there. What is compared, line by line of the posted PTX:
 *
 *   new       a float instruction that the posted line has not, or a use that it has not, is refused. So is one without a posted line. (One exception: the posted line has
 *             all its own, and the same shape with the same uses is elsewhere in the posted kernel: the assembler says of merged equal instructions one line or another.)
 *   missing   a shape that the posted line has must be in the changed kernel at that line; or anywhere, with all its uses: equal ones were merged; or the changed kernel's PTX has
 *             no such line any more, or has it where nobody needs its value.
 *
 * Sets, not numbers: unrolled and peeled loops are the same. An instruction of constants alone is folded at will and no more than a constant.
 *
 * What it does not do: integers, bits, addresses, which path is taken, which registers values wait in. That the assembler routes values right is taken from it.
 */
#include "device/machine-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ptx/ptx.h"

#define CODE_SETP(c) ((c) == 0x00b || (c) == 0x02a || (c) == 0x034)
#define NO_LINE UINT64_MAX

struct use { /* one origin of one operand */
    uint32_t inst;
    uint8_t slot, kind, half, sign; /* sign: 1 negated, 2 absolute value */
    uint32_t value;
    uint64_t key, loose; /* loose: as if it came from elsewhere */
};
struct side {
    struct code c;
    const struct dev_part *part;
    unsigned group; /* the first part of the same file: their lines are one text's */
    struct use *use;
    uint32_t nuse, cap;
    uint32_t *first; /* by instruction: its uses are use[first[i]] … use[first[i + 1]] */
    uint64_t *shape; /* by instruction, 0: not float */
    /* sorted: (line, shape), (line, shape, use), (shape, use) */
    uint64_t *at, *used, *any;
    uint32_t nat, nused, nany;
    uint64_t *line_of; /* by instruction, changed kernel: part and line */
};

static uint64_t mix(uint64_t h, uint64_t v)
{
    h ^= v + UINT64_C(0x9E3779B97F4A7C15) + (h << 6) + (h >> 2);
    h = (h ^ (h >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    h = (h ^ (h >> 27)) * UINT64_C(0x94D049BB133111EB);
    return h ^ (h >> 31);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------------------- */

static bool commutes(const struct sass_inst *i)
{
    switch (i->op->code) {
    case 0x009: case 0x020: case 0x021: case 0x023: case 0x028: case 0x029: case 0x02b: case 0x030: case 0x031: case 0x032: case 0x035: case 0x040: case 0x03e: return true;
    default: return CODE_SETP(i->op->code);
    }
}

static bool is_product(const struct sass_inst *i)
{
    unsigned c = i->op->code;
    return c == 0x020 || c == 0x023 || c == 0x028 || c == 0x02b || c == 0x031 || c == 0x032 || c == 0x035;
}

static bool is_half(const struct sass_inst *i) { return i->op->src[0] == 'H'; }

/* Does the reader of arithmetic look at it? */
static bool counts(const struct code *c, uint32_t k)
{
    const struct sass_inst *i = &c->inst[k];
    if (c->block[c->block_of[k]].func == CODE_NONE)
        return false;
    if (c->call[k] != CODE_NONE || i->op->cls == SASS_ATOMIC)
        return true;
    if (i->op->cls == SASS_SELECT)
        return sass_is(i, "FSEL") && (i->hi >> 16 & 1);
    if (i->op->cls != SASS_FLOAT)
        return false;
    bool constant = i->nsrc > 0; /* of constants in the instruction itself: HFMA2 of two zeros */
    for (unsigned q = 0; q < i->nsrc; q++)
        constant &= i->src[q].kind == SASS_IMM || (i->src[q].kind == SASS_REG && i->src[q].reg == SASS_RZ);
    return !(constant && (i->op->code == 0x031 || i->op->code == 0x035));
}

static int use_new(struct side *s, struct use u)
{
    if (s->nuse == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 1024;
        struct use *p = dt_reallocarray(s->use, cap, sizeof *p);
        if (!p)
            return DT_E_NOMEM;
        s->use = p;
        s->cap = cap;
    }
    s->use[s->nuse++] = u;
    return 0;
}

/* A constant with the signs that it has as an operand, and the half that is taken. */
static uint32_t constant(const struct sass_inst *i, const struct sass_opnd *o, const struct origin *x)
{
    uint32_t v = x->value, sign = is_half(i) ? 0x80008000u : o->width == 2 && !x->half ? 0 : 0x80000000u;
    if (is_half(i) && o->kind != SASS_IMM)
        v = o->swizzle == 2 ? (v & 0xffff) * 0x10001u : o->swizzle == 3 ? (v >> 16) * 0x10001u : v;
    v = x->abs ? v & ~sign : v;
    v = x->neg ? v ^ sign : v;
    v = o->abs ? v & ~sign : v;
    return v;
}

static int operand_uses(struct side *s, uint32_t k, unsigned q)
{
    const struct sass_inst *i = &s->c.inst[k];
    const struct sass_opnd *o = &i->src[q];
    struct origins from = {0};
    struct origin one;
    memset(&one, 0, sizeof one);
    int r = 0;
    uint8_t slot = (uint8_t)(commutes(i) && q < 2 ? 0 : q), sign = (uint8_t)(o->neg | o->abs << 1);
    bool imm = o->kind == SASS_IMM || (o->kind == SASS_REG && o->reg == SASS_RZ) || (o->kind == SASS_UREG && o->reg == SASS_URZ);
    bool bank = o->kind == SASS_CONST && o->bank == 2 && o->reg == SASS_URZ && o->value + 4u * o->width <= s->c.nbank2;
    for (unsigned w = 0; w < o->width && !r; w++) {
        from.n = 0;
        one.half = (uint8_t)w;
        one.kind = imm || bank ? FROM_CONST : FROM_ELSEWHERE;
        one.value = o->kind == SASS_IMM && w + 1 == o->width ? o->value : 0;
        if (bank)
            memcpy(&one.value, s->c.bank2 + o->value + 4 * w, 4);
        bool direct = imm || o->kind == SASS_CONST;
        if (!direct)
            r = code_origins(&s->c, k, o->kind == SASS_UREG, o->reg + w, w, &from);
        const struct origin *p = direct ? &one : from.p;
        for (uint32_t n = direct ? 1 : from.n; n-- && !r; p++) {
            struct use u = {.inst = k, .slot = slot, .kind = p->kind, .half = p->half, .value = p->value, .sign = sign};
            if (p->kind == FROM_CONST) {
                u.value = constant(i, o, p);
                u.sign = sign & 1;
            } else {
                u.sign ^= o->abs ? 0 : p->neg;
                u.sign |= p->abs << 1;
            }
            if (p->kind == FROM_ELSEWHERE)
                u.half = 0;
            r = use_new(s, u);
        }
    }
    free(from.p);
    return r;
}

/* What a comparison tells apart: the same if its result is turned round and, `swap`, its operands. */
static unsigned comparison(unsigned c, bool turn)
{
    unsigned other = (c & 10) | (c & 1) << 2 | (c >> 2 & 1), least = c < other ? c : other;
    if (turn && c && c != 15) {
        unsigned a = ~c & 15, b = ~other & 15;
        least = a < least ? a : least;
        least = b < least ? b : least;
    }
    return least;
}

/* Signs: of a product they are one, and go to its constant if it has one; of other constants they are taken into the value. */
static unsigned settle_signs(struct side *s, uint32_t k)
{
    const struct sass_inst *i = &s->c.inst[k];
    unsigned product = is_product(i) ? (unsigned)(i->src[0].neg ^ i->src[1].neg) : 0;
    uint32_t tops = 0, others = 0;
    struct use *top = NULL;
    uint32_t flip = is_half(i) ? 0x80008000u : 0x80000000u;
    for (uint32_t u = s->first[k]; u < s->nuse; u++) {
        struct use *x = &s->use[u];
        bool upper = i->nsrc && i->src[0].width == 2 ? x->half : true;
        if (is_product(i) && x->slot == 0) {
            x->sign &= 2;
            if (x->kind == FROM_CONST && upper) {
                top = x;
                tops++;
            } else if (x->kind != FROM_CONST) {
                others++;
            }
        } else if (x->kind == FROM_CONST) {
            if ((x->sign & 1) && upper)
                x->value ^= flip;
            x->sign = 0;
        }
    }
    if (product && tops == 1 && top) {
        top->value ^= flip;
        product = 0;
    }
    return product;
}

static uint64_t shape_of(struct side *s, uint32_t k)
{
    const struct sass_inst *i = &s->c.inst[k];
    unsigned code = i->op->code;
    uint64_t lo = i->mods[0], hi = i->mods[1], h = mix(1, code == 0x035 ? 0x031 : code);
    if (s->c.call[k] != CODE_NONE)
        return mix(2, s->c.func[s->c.call[k]].shape);
    if (i->op->cls == SASS_ATOMIC)
        return mix(h, hi & UINT64_C(0x7ff0e00)); /* type and operation: not where, not how far it is seen */
    if (CODE_SETP(code) || code == 0x00a || code == 0x033) {
        h = mix(h, comparison(hi >> 12 & 15, CODE_SETP(code)));
        hi &= ~(UINT64_C(15) << 12);
        hi &= code == 0x033 || code == 0x034 ? ~(UINT64_C(3) << 5) : ~(UINT64_C(3) << 10); /* and, or, xor with another predicate */
    }
    if (code == 0x009 || code == 0x040) { /* which of the two, by a predicate that is always true */
        unsigned p = i->hi >> 23 & 15;
        h = mix(h, (p & 7) == SASS_PT ? p : 0);
    }
    h = mix(mix(h, lo), hi);
    return mix(h, settle_signs(s, k));
}

static void key_uses(struct side *s, uint32_t k)
{
    for (uint32_t u = s->first[k]; u < s->first[k + 1]; u++) {
        struct use *x = &s->use[u];
        uint64_t value = x->kind == FROM_FLOAT ? s->shape[x->value] : x->kind == FROM_CONST ? x->value : 0;
        x->key = mix(mix(mix(mix(s->shape[k], x->slot), x->kind | x->half << 8), x->sign), value);
        x->loose = x->kind == FROM_FLOAT ? mix(mix(mix(mix(s->shape[k], x->slot), FROM_ELSEWHERE), x->sign), 0) : x->key;
    }
}

/* All shapes and uses of one function's instructions; before that, CALLs need the callees' shapes. */
static int read_function(struct side *s, uint32_t f)
{
    struct code *c = &s->c;
    int r = 0;
    for (uint32_t k = 0; k < c->n && !r; k++) {
        s->first[k] = s->nuse;
        if (!counts(c, k) || c->block[c->block_of[k]].func != f)
            continue;
        if (c->call[k] != CODE_NONE) {
            for (unsigned reg = 0; reg < SASS_RZ && !r; reg++) {
                struct origins from = {0};
                if (!(c->func[c->call[k]].args[reg / 32] >> (reg % 32) & 1))
                    continue;
                r = code_origins(c, k, false, reg, 0, &from);
                for (uint32_t n = 0; n < from.n && !r; n++)
                    r = use_new(s, (struct use){.inst = k, .kind = from.p[n].kind, .value = from.p[n].value, .sign = (uint8_t)(from.p[n].neg | from.p[n].abs << 1)});
                free(from.p);
            }
        }
        for (unsigned q = 0; q < c->inst[k].nsrc && c->call[k] == CODE_NONE && !r; q++)
            r = operand_uses(s, k, q);
        s->shape[k] = shape_of(s, k);
    }
    s->first[c->n] = s->nuse;
    return r;
}

static int order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* A subroutine's shape: its instructions' and uses' in order of value. */
static int close_function(struct side *s, uint32_t f)
{
    struct code *c = &s->c;
    uint32_t n = 0;
    dt_free_ uint64_t *v = dt_calloc((size_t)c->n + s->nuse + 1, sizeof *v);
    if (!v)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < c->n; k++) {
        if (!s->shape[k] || c->block[c->block_of[k]].func != f)
            continue;
        key_uses(s, k);
        v[n++] = s->shape[k];
        for (uint32_t u = s->first[k]; u < s->first[k + 1]; u++)
            v[n++] = s->use[u].key;
    }
    qsort(v, n, sizeof *v, order);
    uint64_t h = 3;
    for (uint32_t k = 0; k < n; k++)
        if (!k || v[k] != v[k - 1])
            h = mix(h, v[k]);
    c->func[f].shape = h ? h : 1;
    return 0;
}

/* A function whose callees are known, the entry last; CODE_NONE: there is none. */
static uint32_t next_function(const struct code *c)
{
    for (uint32_t f = c->nfunc; f-- > 0;) {
        bool ready = !c->func[f].shape;
        for (uint32_t k = 0; k < c->n && ready; k++)
            ready = c->call[k] == CODE_NONE || c->block[c->block_of[k]].func != f || c->func[c->call[k]].shape;
        if (ready)
            return f;
    }
    return CODE_NONE;
}

/* Shapes of the subroutines first: each alone, uses thrown away again but for what it takes from its caller. */
static int read_side(struct side *s, const struct dev_part *p, bool posted, struct dt_str *why, struct dt_err *e)
{
    struct elf_file f;
    struct elf_section text;
    struct dt_str name = {0};
    s->part = p;
    int r = code_read(&s->c, p->cubin, p->len, p->entry, why, e);
    if (r)
        return r;
    dt_str_addf(&name, ".text.%s", p->entry);
    elf_open(&f, p->cubin, p->len);
    r = name.s ? code_lines(&s->c, &f, elf_find(&f, name.s, &text), posted) : DT_E_NOMEM;
    dt_str_done(&name);
    s->first = dt_calloc((size_t)s->c.n + 1, sizeof *s->first);
    s->shape = dt_calloc((size_t)s->c.n + 1, sizeof *s->shape);
    if (r < 0 || !s->first || !s->shape)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r) {
        dt_str_addf(why, "the machine code of '%s' does not say which lines it was made of", p->entry);
        return 1;
    }
    for (uint32_t f2 = CODE_NONE; !r && f2;) {
        f2 = next_function(&s->c);
        if (f2 == CODE_NONE) {
            dt_str_addf(why, "'%s' has functions that call each other", p->entry);
            return 1;
        }
        s->nuse = 0;
        r = read_function(s, f2);
        if (!r)
            r = f2 ? close_function(s, f2) : 0;
    }
    for (uint32_t k = 0; k < s->c.n && !r; k++)
        key_uses(s, k);
    if (r < 0)
        return dt_err_set(e, r, "out of memory");
    if (r)
        dt_str_addf(why, "the machine code of '%s' is too large to follow", p->entry);
    return r;
}

static void side_done(struct side *s)
{
    code_done(&s->c);
    free(s->use);
    free(s->first);
    free(s->shape);
    free(s->at);
    free(s->used);
    free(s->any);
    free(s->line_of);
    memset(s, 0, sizeof *s);
}

/* ---- sets ------------------------------------------------------------------------------------------------------------------------ */

static bool mine(const struct side *s, uint32_t k) { return s->shape[k] && s->c.block[s->c.block_of[k]].func == 0; }

static uint32_t unique(uint64_t *v, uint32_t n)
{
    uint32_t m = 0;
    qsort(v, n, sizeof *v, order);
    for (uint32_t k = 0; k < n; k++)
        if (!k || v[k] != v[k - 1])
            v[m++] = v[k];
    return m;
}

static bool has(const uint64_t *v, uint32_t n, uint64_t x) { return n && bsearch(&x, v, n, sizeof x, order) != NULL; }

/* What s has, into the sets of `to`. */
static int index_side(const struct side *s, struct side *to)
{
    uint64_t *at = dt_reallocarray(to->at, (size_t)to->nat + s->c.n + 1, sizeof *at);
    to->at = at ? at : to->at;
    uint64_t *used = dt_reallocarray(to->used, (size_t)to->nused + s->nuse + 1, sizeof *used);
    to->used = used ? used : to->used;
    uint64_t *any = dt_reallocarray(to->any, (size_t)to->nany + s->nuse + s->c.n + 1, sizeof *any);
    to->any = any ? any : to->any;
    if (!at || !used || !any)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < s->c.n; k++) {
        uint64_t line = s->line_of ? s->line_of[k] : s->c.line[k];
        if (!mine(s, k))
            continue;
        at[to->nat++] = mix(line, s->shape[k]);
        any[to->nany++] = s->shape[k];
        for (uint32_t u = s->first[k]; u < s->first[k + 1]; u++) {
            used[to->nused++] = mix(line, s->use[u].key);
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
    bool all = has(t->any, t->nany, s->shape[k]);
    for (uint32_t u = s->first[k]; u < s->first[k + 1] && all; u++)
        all = has(t->any, t->nany, s->use[u].key) || has(t->any, t->nany, s->use[u].loose);
    return all;
}

static bool is_zero(const struct sass_opnd *o) { return o->kind == SASS_REG && o->reg == SASS_RZ; }

/* Does instruction k but turn or drop a sign, or make a NaN canonical? The assembler makes it of `neg` and `abs` where their value is needed in a register, and says the line of who needs
 * it: a store, the joint. */
static bool is_sign(const struct side *s, uint32_t k)
{
    const struct sass_inst *i = &s->c.inst[k];
    unsigned c = i->op->code;
    if (c == 0x021 || c == 0x029 || c == 0x030)
        return is_zero(&i->src[0]) || is_zero(&i->src[1]);
    return (c == 0x031 || c == 0x035) && is_zero(&i->src[0]) && is_zero(&i->src[1]);
}

/* Shape and uses, wherever they come from. */
static uint64_t whole(const struct side *s, uint32_t k)
{
    uint64_t h = 0;
    for (uint32_t u = s->first[k]; u < s->first[k + 1]; u++) {
        bool again = false;
        for (uint32_t v = s->first[k]; v < u; v++)
            again |= s->use[v].loose == s->use[u].loose;
        h += again ? 0 : mix(5, s->use[u].loose);
    }
    return mix(s->shape[k], h);
}

/* ---- lines that are needed ------------------------------------------------------------------------------------------------------- */

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
    return ptx_op_info(i->op)->flags & (PTX_F_WRITES | PTX_F_ATOMIC | PTX_F_BARRIER | PTX_F_CONVERGENT | PTX_F_BRANCH | PTX_F_TERMINATOR | PTX_F_CALL | PTX_F_SIDE);
}

/* Marks the instructions of f whose value reaches a store, a branch, another thread. Registers as a whole: more than need be. */
static int mark(struct needed *w)
{
    w->reg = dt_calloc((size_t)w->f->nreg + 1, 1);
    w->inst = dt_calloc((size_t)w->f->ninst + 1, 1);
    if (!w->reg || !w->inst)
        return DT_E_NOMEM;
    do {
        w->more = false;
        for (uint32_t k = w->f->ninst; k-- > 0;) {
            const struct ptx_inst *i = &w->f->inst[k];
            if (i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS || i->op == PTX_OP_CALLPROTO)
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

/* ---- comparison ------------------------------------------------------------------------------------------------------------------ */

static uint64_t line_key(unsigned part, uint32_t line) { return (uint64_t)part << 32 | line; }

struct compare {
    struct side now, *was;
    unsigned nparts;
    uint64_t *needed; /* sorted part and line; of the changed text what somebody needs */
    uint32_t nneeded;
    bool know_needed;
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
    r = x->needed ? 0 : DT_E_NOMEM;
    for (uint32_t k = 0; k < m->nfunc && !r; k++) {
        struct needed w = {.f = m->func[k]};
        if (!w.f->has_body || (w.f->is_entry && strcmp(w.f->name, entry)))
            continue;
        r = mark(&w);
        for (uint32_t i = 0; i < w.f->ninst && !r; i++) {
            struct ptx_source src;
            int p = w.inst[i] && ptx_source_of(w.f, &w.f->inst[i], &src) ? group_of(x, src.file) : -1;
            if (p >= 0)
                x->needed[x->nneeded++] = line_key((unsigned)p, src.line);
        }
        free(w.reg);
        free(w.inst);
    }
    ptx_module_free(m);
    x->nneeded = unique(x->needed, x->nneeded);
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

static void say(const struct side *s, uint32_t k, struct dt_str *why)
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
        say(s, u->value, why);
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
                say(&x->was[p], k, why);
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
            if (mine(t, k) && t->c.line[k] == line && !has(x->now.at, x->now.nat, mix(line_key(group, line), t->shape[k])))
                return false;
    }
    return true;
}

/* Is instruction k of the changed kernel one of its posted line? 1; 0: `why`. */
static int is_posted(const struct compare *x, uint32_t k, struct dt_str *why)
{
    const struct side *s = &x->now;
    for (unsigned p = 0; p < x->nparts && is_sign(s, k); p++)
        if (elsewhere(s, k, &x->was[p]))
            return 1;
    if (s->line_of[k] == NO_LINE) {
        say(s, k, why);
        dt_str_add(why, " is made of no posted line");
        return 0;
    }
    unsigned p = (unsigned)(s->line_of[k] >> 32);
    uint32_t line = (uint32_t)s->line_of[k];
    const struct side *t = &x->was[p];
    bool there = has(t->at, t->nat, mix(line, s->shape[k])), uses = there;
    uint32_t odd = s->first[k];
    for (uint32_t u = s->first[k]; u < s->first[k + 1] && uses; odd = u++)
        uses = has(t->used, t->nused, mix(line, s->use[u].key)) || has(t->used, t->nused, mix(line, s->use[u].loose));
    if (uses || (elsewhere(s, k, t) && line_complete(x, p, line)))
        return 1;
    say(s, k, why);
    dt_str_addf(why, " of '%s' line %u (%s) is %s", t->part->entry, line, t->part->file, there ? "fed by " : "new there");
    if (there)
        say_use(s, &s->use[odd], why);
    dt_str_add(why, ": posted are ");
    say_line(x, p, line, why);
    return 0;
}

/* How often instructions like k of `like` are in the changed kernel, and at how many posted lines. */
static void count_signs(const struct compare *x, const struct side *like, uint32_t k, uint32_t *ret_now, uint32_t *ret_was)
{
    uint64_t want = whole(like, k), last = NO_LINE;
    for (uint32_t i = 0; i < x->now.c.n; i++)
        *ret_now += mine(&x->now, i) && is_sign(&x->now, i) && whole(&x->now, i) == want;
    for (unsigned p = 0; p < x->nparts; p++)
        for (uint32_t i = 0; i < x->was[p].c.n; i++) {
            uint64_t line = line_key(x->was[p].group, x->was[p].c.line[i]);
            if (!mine(&x->was[p], i) || !is_sign(&x->was[p], i) || whole(&x->was[p], i) != want)
                continue;
            *ret_was += line != last;
            last = line;
        }
}

/* Is instruction k of posted kernel p still there, or rightly gone? */
static int is_kept(const struct compare *x, unsigned p, uint32_t k, struct dt_str *why)
{
    const struct side *t = &x->was[p];
    uint64_t key = line_key(t->group, t->c.line[k]);
    uint32_t now = 0, was = 0;
    if (is_sign(t, k)) {
        count_signs(x, t, k, &now, &was);
        if (now >= was)
            return 1;
        say(t, k, why);
        dt_str_addf(why, " of '%s' line %u (%s): %u of %u such changes of sign are left", t->part->entry, t->c.line[k], t->part->file, now, was);
        return 0;
    }
    if (has(x->now.at, x->now.nat, mix(key, t->shape[k])) || elsewhere(t, k, &x->now))
        return 1;
    if (x->know_needed && !has(x->needed, x->nneeded, key))
        return 1;
    say(t, k, why);
    dt_str_addf(why, " of '%s' line %u (%s) is gone though its value is needed", t->part->entry, t->c.line[k], t->part->file);
    return 0;
}

static int compare(struct compare *x, struct dt_str *why, struct dt_err *e)
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

int dev_arithmetic(const void *cubin, size_t len, const char *entry, const char *ptx, size_t nptx, const struct dev_part *part, unsigned nparts, struct dt_str *why,
                   struct dt_err *e)
{
    struct dev_part now = {.cubin = cubin, .len = len, .entry = entry};
    struct compare x = {.was = dt_calloc(nparts ? nparts : 1, sizeof *x.was), .nparts = nparts};
    if (!x.was)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = read_side(&x.now, &now, false, why, e);
    for (unsigned p = 0; p < nparts && !r; p++)
        if ((r = read_side(&x.was[p], &part[p], true, why, e)) == 0)
            x.was[p].group = (unsigned)group_of(&x, part[p].file);
    if (!r)
        r = needed_lines(&x, ptx, nptx, entry, e);
    if (r >= 0)
        r = r ? 0 : compare(&x, why, e);
    side_done(&x.now);
    for (unsigned p = 0; p < nparts; p++)
        side_done(&x.was[p]);
    free(x.was);
    free(x.needed);
    return r;
}
