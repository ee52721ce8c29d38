/* A kernel's float instructions as shapes, and their uses: what arithmetic.c compares (its head defines both words).
 *
 * A shape is opcode and all modifier bits; HFMA2.MMA is HFMA2 in another pipe. A product has one sign, whichever factor
 * carries it; if it has a constant, the sign goes there. Comparisons are the same whichever way round they are written.
 * Those that make predicates may also be turned into their complement; the users of the predicate turn with them. A
 * subroutine's shape is that of all its instructions and uses; what enters it from the caller is a use of the CALL.
 *
 * Functions of the PTX are in sections of their own and have lines. Their instructions count beside the entry's; what a
 * call brings to them, or brings back, may as well come from elsewhere (arithmetic.c).
 */
#include "device/machine-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define CODE_SETP(c) ((c) == 0x00b || (c) == 0x02a || (c) == 0x034)

/* What one lane does. A pair's operation is that of the scalar instruction, twice; one of uniform registers is the same
 * as in each lane. */
static unsigned scalar_code(const struct sass_inst *i)
{
    unsigned c = i->op->code;
    if (i->op->name[0] == 'U')
        return c == 0x056 ? 0x020 : c == 0x05a ? 0x106 : c == 0x05c ? 0x105 : c == 0x05e ? 0x045 : c;
    return !sass_pairs(i) ? c : c == 0x049 ? 0x023 : c == 0x04a ? 0x020 : 0x021;
}

static bool shapes_commutes(const struct sass_inst *i)
{
    switch (scalar_code(i)) {
    case 0x009:
    case 0x020:
    case 0x021:
    case 0x023:
    case 0x028:
    case 0x029:
    case 0x02b:
    case 0x030:
    case 0x031:
    case 0x032:
    case 0x035:
    case 0x040:
    case 0x076:
    case 0x03e: return true;
    default: return CODE_SETP(i->op->code);
    }
}

static bool is_product(const struct sass_inst *i)
{
    unsigned c = scalar_code(i);
    if (machine_idle(i) < 2)
        return false;
    return c == 0x020 || c == 0x023 || c == 0x028 || c == 0x02b || c == 0x031 || c == 0x032 || c == 0x035;
}

/* HFMA2 of one and the same: a sum, or a product, that the assembler puts into another pipe. The operand that does
 * nothing, 3: none. */
unsigned machine_idle(const struct sass_inst *i)
{
    if (!i->op || (i->op->code != 0x031 && i->op->code != 0x035))
        return 3;
    uint32_t one = i->hi >> 21 & 1 ? 0x3f803f80u : 0x3c003c00u;
    for (unsigned q = 0; q < 2; q++)
        if (i->src[q].kind == SASS_IMM && i->src[q].value == one)
            return q;
    return i->src[2].kind == SASS_REG && i->src[2].reg == SASS_RZ && i->src[2].neg ? 2 : 3;
}

bool machine_own(const struct code *c, uint32_t k)
{
    uint32_t f = c->block[c->block_of[k]].func;
    return f == 0 || (f != CODE_NONE && c->func[f].posted);
}

static bool is_half(const struct sass_inst *i) { return i->op->src[0] == 'H'; }

#define NO_FLOATS UINT64_C(3) /* the shape of a subroutine without any */

/* Does the reader of arithmetic look at it? A CALL's function is closed before. */
static bool counts(const struct code *c, uint32_t k)
{
    const struct sass_inst *i = &c->inst[k];
    if (c->block[c->block_of[k]].func == CODE_NONE)
        return false;
    if (c->call[k] != CODE_NONE) /* a barrier's subroutine computes nothing */
        return c->func[c->call[k]].shape != NO_FLOATS;
    if (i->op->cls == SASS_ATOMIC)
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
    bool low = o->width == 2 && !sass_pairs(i) && !x->half;
    uint32_t v = x->value, sign = is_half(i) ? 0x80008000u : low ? 0 : 0x80000000u;
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
    if (q == machine_idle(i))
        return 0;
    bool any = q < 2 || machine_idle(i) < 2 || i->op->code == 0x076; /* of three, all may change places */
    uint8_t slot = (uint8_t)(shapes_commutes(i) && any ? 0 : q), sign = (uint8_t)(o->neg | o->abs << 1);
    bool imm = o->kind == SASS_IMM || (o->kind == SASS_REG && o->reg == SASS_RZ) ||
               (o->kind == SASS_UREG && o->reg == SASS_URZ);
    bool bank = o->kind == SASS_CONST && o->bank == 2 && o->reg == SASS_URZ && o->value + 4u * o->width <= s->c.nbank2;
    bool pairs = sass_pairs(i);
    for (unsigned w = 0; w < (pairs ? 2 : o->width) && !r; w++) {
        unsigned which = !pairs ? w : o->swizzle == 2 ? 0 : o->swizzle == 1 ? 1 - w : w, half = pairs ? 0 : w;
        uint8_t turned = pairs && w && o->upper_neg;
        from.n = 0;
        one.half = (uint8_t)half;
        one.kind = imm || bank ? FROM_CONST : FROM_ELSEWHERE;
        one.value = o->kind == SASS_IMM && w + 1 >= o->width ? o->value : 0;
        if (bank)
            memcpy(&one.value, s->c.bank2 + o->value + 4 * which, 4);
        bool direct = imm || o->kind == SASS_CONST;
        if (!direct)
            r = code_origins(&s->c, k, o->kind == SASS_UREG, o->reg + which, half, &from);
        const struct origin *p = direct ? &one : from.p;
        for (uint32_t n = direct ? 1 : from.n; n-- && !r; p++) {
            struct use u = {.inst = k, .slot = slot, .kind = p->kind, .half = p->half, .value = p->value};
            u.sign = sign ^ turned;
            u.lane = pairs && w;
            if (p->kind == FROM_CONST) {
                u.value = constant(i, o, p);
                u.sign &= 1;
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

/* Signs: of a product they are one, and go to its constant if it has one; of other constants they are taken into the
 * value. */
static unsigned settle_signs(struct side *s, uint32_t k)
{
    const struct sass_inst *i = &s->c.inst[k];
    unsigned product = is_product(i) ? (unsigned)(i->src[0].neg ^ i->src[1].neg) : 0;
    uint32_t tops[2] = {0}, others = 0;
    struct use *top[2] = {NULL};
    unsigned lanes = sass_pairs(i) ? 2 : 1;
    uint32_t flip = is_half(i) ? 0x80008000u : 0x80000000u;
    for (uint32_t u = s->first[k]; u < s->nuse; u++) {
        struct use *x = &s->use[u];
        bool upper = i->nsrc && i->src[0].width == 2 && !sass_pairs(i) ? x->half : true;
        if (is_product(i) && x->slot == 0) {
            x->sign &= 2;
            if (x->kind == FROM_CONST && upper) {
                top[x->lane] = x;
                tops[x->lane]++;
            } else if (x->kind != FROM_CONST) {
                others++;
            }
        } else if (x->kind == FROM_CONST) {
            if ((x->sign & 1) && upper)
                x->value ^= flip;
            x->sign = 0;
        }
    }
    if (product && tops[0] == 1 && tops[lanes - 1] == 1 && top[0] && top[lanes - 1]) {
        for (unsigned lane = 0; lane < lanes; lane++)
            top[lane]->value ^= flip;
        product = 0;
    }
    return product;
}

static uint64_t shape_of(struct side *s, uint32_t k)
{
    const struct sass_inst *i = &s->c.inst[k];
    unsigned code = scalar_code(i);
    uint64_t lo = i->mods[0], hi = i->mods[1] | (i->op->code == 0x04a && sass_pairs(i) ? UINT64_C(4) << 20 : 0),
             h = machine_mix(1, machine_idle(i) < 2    ? 0x030
                                : machine_idle(i) == 2 ? 0x032
                                : code == 0x035        ? 0x031
                                                       : code);
    if (s->c.call[k] != CODE_NONE)
        return machine_mix(2, s->c.func[s->c.call[k]].shape);
    if (i->op->cls == SASS_ATOMIC)
        return machine_mix(h, hi & UINT64_C(0x7ff0e00)); /* type and operation: not where, not how far it is seen */
    if (CODE_SETP(code) || code == 0x00a || code == 0x033) {
        h = machine_mix(h, comparison(hi >> 12 & 15, CODE_SETP(code)));
        hi &= ~(UINT64_C(15) << 12);
        /* and, or, xor with another predicate */
        hi &= code == 0x033 || code == 0x034 ? ~(UINT64_C(3) << 5) : ~(UINT64_C(3) << 10);
    }
    if (code == 0x009 || code == 0x040 || code == 0x076) { /* which of the two, by a predicate that is always true */
        unsigned p = i->hi >> 23 & 15;
        h = machine_mix(h, (p & 7) == SASS_PT ? p : 0);
    }
    h = machine_mix(machine_mix(h, lo), hi);
    return machine_mix(h, settle_signs(s, k));
}

static bool from_integer(const struct sass_inst *i) { return machine_is(i, "I2F") || machine_is(i, "I2FP"); }

static void key_uses(struct side *s, uint32_t k)
{
    for (uint32_t u = s->first[k]; u < s->first[k + 1]; u++) {
        struct use *x = &s->use[u];
        uint64_t value = x->kind == FROM_FLOAT ? s->shape[x->value] : x->kind == FROM_CONST ? x->value : 0;
        x->key = machine_mix(
            machine_mix(machine_mix(machine_mix(s->shape[k], x->slot), x->kind | x->half << 8), x->sign), value);
        bool converted = x->kind == FROM_FLOAT && from_integer(&s->c.inst[x->value]);
        x->folded = converted || x->kind == FROM_CONST ? machine_mix(machine_mix(s->shape[k], x->slot), 9) : 0;
        x->loose =
            x->kind == FROM_FLOAT || x->kind == FROM_CALLER
                ? machine_mix(machine_mix(machine_mix(machine_mix(s->shape[k], x->slot), FROM_ELSEWHERE), x->sign), 0)
                : x->key;
    }
}

/* All shapes and uses of one function's instructions; before that, CALLs need the callees' shapes. CODE_NONE: of the
 * entry and of the functions of its PTX. */
static int read_function(struct side *s, uint32_t f)
{
    struct code *c = &s->c;
    int r = 0;
    for (uint32_t k = 0; k < c->n && !r; k++) {
        s->first[k] = s->nuse;
        if (!counts(c, k) || (f == CODE_NONE ? !machine_own(c, k) : c->block[c->block_of[k]].func != f))
            continue;
        if (c->call[k] != CODE_NONE) {
            for (unsigned reg = 0; reg < SASS_RZ && !r; reg++) {
                struct origins from = {0};
                if (!(c->func[c->call[k]].args[reg / 32] >> (reg % 32) & 1))
                    continue;
                r = code_origins(c, k, false, reg, 0, &from);
                for (uint32_t n = 0; n < from.n && !r; n++)
                    r = use_new(s, (struct use){.inst = k,
                                                .kind = from.p[n].kind,
                                                .value = from.p[n].value,
                                                .sign = (uint8_t)(from.p[n].neg | from.p[n].abs << 1)});
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

int machine_order(const void *a, const void *b)
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
    qsort(v, n, sizeof *v, machine_order);
    uint64_t h = NO_FLOATS;
    for (uint32_t k = 0; k < n; k++)
        if (!k || v[k] != v[k - 1])
            h = machine_mix(h, v[k]);
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
int side_read(struct side *s, const struct dev_part *p, bool posted, struct dt_str *why, struct dt_err *e)
{
    struct elf_file f;
    s->part = p;
    int r = code_read(&s->c, p->cubin, p->len, p->entry, why, e);
    if (r)
        return r;
    elf_open(&f, p->cubin, p->len);
    r = code_lines(&s->c, &f, posted, true);
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
    bool functions = false;
    for (uint32_t k = 0; k < s->c.nfunc; k++)
        functions |= s->c.func[k].posted;
    if (!r && functions) { /* what they do counts as the entry's, line by line */
        s->nuse = 0;
        r = read_function(s, CODE_NONE);
    }
    for (uint32_t k = 0; k < s->c.n && !r; k++)
        key_uses(s, k);
    if (r < 0)
        return dt_err_set(e, r, "out of memory");
    if (r)
        dt_str_addf(why, "the machine code of '%s' is too large to follow", p->entry);
    return r;
}

void side_done(struct side *s)
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
