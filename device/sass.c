/* Machine code read: 128 bits an instruction, as all NVIDIA GPUs from Volta to Blackwell have it.
 *
 *   0-8 opcode   9-11 form   12-15 guard   16-23 destination   24-31 first source   32-63 second: register, immediate
 *                                                              or constant bank, by form
 *   64-71 third  72-104 signs, predicates, modifiers   105-125 scheduling (stall, barriers, reuse): no meaning for
 *                                                      values
 *
 * Forms: 1 is three registers. In 2, 3 and 7 the third source is immediate, constant or uniform and stands at 32, and
 * the second source stands at 64. In 4, 5 and 6 the second source is immediate, constant or uniform. Signs go with the
 * place: 72, 73 with 24; 63, 62 with 32; 75, 74 with 64 (halves: 84, 83), each negation and absolute value.
 *
 * The table (sass-ops.def) says of each opcode what it writes. For opcodes that compute with floats it also says what
 * they read and how their modifiers are named. All bits that are no operand, sign or predicate are kept as `mods`,
 * named or not: two instructions are the same operation only if all of these bits are equal.
 *
 * Blackwell (sm_100, sm_120 and their kin) has the same layout. Uniform registers have 8 bits there instead of 6, some
 * opcodes are other instructions (0x035, 0x049), and a pair of 32-bit operations may be one instruction (FFMA2), each
 * operand of which is two registers, these turned round, or one for both, and whose upper half may have another sign.
 *
 * What it does not do: other generations, reuse flags, addresses.
 */
#include "device/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVERY, OLDER, BLACKWELL };
static const struct sass_op ops[] = {
#define S(code, name, cls, dst, src, mods) {code, EVERY, name, cls, dst, src, mods},
#define O(code, name, cls, dst, src, mods) {code, OLDER, name, cls, dst, src, mods},
#define B(code, name, cls, dst, src, mods) {code, BLACKWELL, name, cls, dst, src, mods},
#include "device/sass-ops.def"
#undef S
#undef O
#undef B
};

static bool blackwell(unsigned sm) { return sm >= 100; }

static const struct sass_op *sass_find(unsigned code, unsigned sm)
{
    for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++)
        if (ops[k].code == code && ops[k].since != (blackwell(sm) ? OLDER : BLACKWELL))
            return &ops[k];
    return NULL;
}

bool sass_knows(unsigned sm)
{
    return sm == 75 || sm == 80 || sm == 86 || sm == 87 || sm == 89 || sm == 90 || sm == 100 || sm == 103 ||
           sm == 120 || sm == 121;
}

static unsigned bits(const struct sass_inst *i, unsigned at, unsigned n)
{
    uint64_t v = at >= 64 ? i->hi >> (at - 64) : at ? i->lo >> at | i->hi << (64 - at) : i->lo;
    return (unsigned)(v & ((UINT64_C(1) << n) - 1));
}

/* A uniform register that is named at bit `at`. */
static uint16_t uniform_at(const struct sass_inst *i, unsigned at)
{
    unsigned r = bits(i, at, blackwell(i->sm) ? 8 : 6);
    return !blackwell(i->sm) && r == 63 ? SASS_URZ : (uint16_t)r;
}

static bool uniform(const struct sass_inst *i) { return i->op->name[0] == 'U'; }

bool sass_pairs(const struct sass_inst *i) { return i->op && i->op->src[0] == 'X'; }

static void sass_forget(uint64_t mask[2], unsigned at, unsigned n)
{
    for (unsigned k = at; k < at + n; k++)
        mask[k / 64] &= ~(UINT64_C(1) << (k % 64));
}

/* The operand that stands at bit 24, 32 or 64. What it takes of the instruction is struck from mask. */
static void sass_operand(const struct sass_inst *i, unsigned at, bool half, unsigned width, bool plain,
                         uint64_t mask[2], struct sass_opnd *o)
{
    unsigned form = bits(i, 9, 3), neg = at == 24 ? 72 : at == 32 ? 63 : half ? 84 : 75;
    *o = (struct sass_opnd){.kind = SASS_REG, .width = (uint8_t)width, .reg = (uint16_t)bits(i, at, 8)};
    if (i->op->cls == SASS_ATOMIC) { /* its form says how the address is made */
        sass_forget(mask, at, 8);
        return;
    }
    if (at == 32 && (form == 2 || form == 4)) {
        o->kind = SASS_IMM;
        o->value = bits(i, 32, 32);
        sass_forget(mask, 32, 32);
        return;
    }
    bool select = i->op->cls == SASS_SELECT && blackwell(i->sm); /* 3: of 64 bits, in registers */
    if (at == 32 && ((form == 3 && !select) || form == 5)) {
        o->kind = SASS_CONST;
        o->value = bits(i, 40, 14) * 4;
        o->bank = (uint8_t)bits(i, 54, 5);
        o->reg = bits(i, 91, 1) ? uniform_at(i, 32) : SASS_URZ;
        sass_forget(mask, 32, 27);
    } else if (at == 32 && form >= 6) {
        o->kind = SASS_UREG;
        o->reg = uniform_at(i, 32);
        sass_forget(mask, 32, 8);
    } else {
        if (uniform(i)) {
            o->kind = SASS_UREG;
            o->reg = uniform_at(i, at);
        }
        sass_forget(mask, at, 8);
    }
    if (at == 32)
        sass_forget(mask, 91, 1);
    if (plain || i->op->code == 0x03c || i->op->code == 0x03f)
        return;
    o->neg = bits(i, neg, 1);
    o->abs = bits(i, at == 24 ? 73 : neg - 1, 1);
    sass_forget(mask, neg, 1);
    sass_forget(mask, at == 24 ? 73 : neg - 1, 1);
    if (half && o->kind != SASS_CONST) {
        unsigned swizzle = at == 24 ? 74 : at == 32 ? 60 : 81;
        o->swizzle = (uint8_t)bits(i, swizzle, 2);
        sass_forget(mask, swizzle, 2);
    }
}

static unsigned sass_place(char letter, unsigned form)
{
    bool third = form == 2 || form == 3 || form == 7; /* the third source stands at 32 */
    switch (letter) {
    case 'a':
    case 'R':
    case 'H':
    case 'X':
    case 'x':
    case 'm': return 24;
    case 'b':
    case 'T':
    case 'Y':
    case 'y':
    case 'J': return third ? 64 : 32;
    case 'c':
    case 'V':
    case 'Z':
    case 'K':
    case 'o': return third ? 32 : 64;
    case 'C':
    case 'G': return 64;
    case 'g': return 24;
    default: return 32;
    }
}

/* What a pair's operand takes of its two registers. The sign of a product's upper half alone stays a modifier. */
static void pair_operand(const struct sass_inst *i, char letter, uint64_t mask[2], struct sass_opnd *o)
{
    unsigned at = letter == 'X' ? 81 : letter == 'Y' || letter == 'Q' ? 87 : 84;
    o->swizzle = (uint8_t)bits(i, at, 2);
    o->width = o->swizzle == 2 ? 1 : 2;
    sass_forget(mask, at, 2);
    bool product = i->op->code != 0x04b && at != 84;
    o->upper_neg = at != 87 && bits(i, at + 2, 1);
    if (at != 87 && !product)
        sass_forget(mask, at + 2, 1);
}

/* Registers of operand k of an HMMA: m16n8k8 and k16 of halves, k4 and k8 of TF32. */
static unsigned mma_width(const struct sass_inst *i, char letter)
{
    unsigned a = bits(i, 75, 1) || (bits(i, 83, 1) && !bits(i, 78, 1)) ? 4 : 2;
    return letter == 'm' ? a : letter == 'n' ? a / 2 : bits(i, 76, 1) ? 4 : 2;
}

/* Registers that the sum of an HGMMA has in each thread: 64 rows of N over 128 threads. */
static unsigned gmma_width(const struct sass_inst *i)
{
    unsigned n = 8 * bits(i, 53, 5) + 8;
    if (i->op->code == 0x1f1) { /* N of 8, 16, 24, 32, 48, 64 … 256 */
        unsigned k = bits(i, 53, 6) / 3;
        return (k < 4 ? 8 * (k + 1) : 16 * (k - 1)) / 2;
    }
    return bits(i, 75, 1) ? n / 2 : n / 4;
}

static unsigned size_of(unsigned code) { return code == 5 ? 2 : code == 6 ? 4 : 1; }

/* Is it a MOV.64, UMOV.64, SEL.64? */
static bool moves_two(const struct sass_inst *i)
{
    bool select = i->op->cls == SASS_SELECT;
    return blackwell(i->sm) && (bits(i, 9, 3) == 2 || (select ? bits(i, 9, 3) == 3 : bits(i, 80, 1)));
}

/* Registers of an atomic's value: by size (73-75), and of floats by type (76, too). */
static unsigned atomic_width(const struct sass_inst *i)
{
    static const uint8_t floats[16] = {[1] = 2, [2] = 4, [4] = 2, [5] = 4, [10] = 2, [11] = 4, [15] = 2};
    unsigned size = bits(i, 73, 3), w = floats[bits(i, 73, 4)];
    if (i->sm < 90) /* one opcode for both: 6 is f64, 4 two halves */
        return size == 2 || size == 5 || size == 6 ? 2 : 1;
    if (i->op->cls == SASS_ATOMIC)
        return w ? w : 1;
    return size == 2 || size == 3 || size == 5 ? 2 : size == 4 ? 4 : 1;
}

static unsigned ones(unsigned v) { return v ? (v & 1) + ones(v >> 1) : 0; }

/* A load of 256 bits: its registers at bit 16, and those at bit 64. A mask of the eight says how many each. */
static unsigned wide_load(struct sass_inst *i)
{
    i->more = (uint8_t)bits(i, 64, 8);
    i->more_width = i->more == SASS_RZ ? 0 : (uint8_t)ones(bits(i, 61, 3) | bits(i, 72, 1) << 3);
    return ones(bits(i, 57, 4));
}

static void destination(struct sass_inst *i, uint64_t mask[2])
{
    const char *d = i->op->dst;
    unsigned size = bits(i, 73, 3), width = 1;
    bool to_uniform = strchr("uvnwz", *d) && *d;
    i->dst_kind = *d == '-' ? SASS_NONE : to_uniform ? SASS_UREG : SASS_REG;
    i->dst = (uint8_t)(to_uniform ? uniform_at(i, 16) : bits(i, 16, 8));
    switch (*d) {
    case 'd':
    case 'v': width = 2; break;
    case 'q': width = 4; break;
    case 'm':
    case 'n': width = size_of(size); break;
    case 'h': width = bits(i, 76, 1) ? 4 : 2; break;
    case 'i': width = bits(i, 75, 1) || i->op->code == 0x03d ? 4 : 2; break;
    case 'l': width = 1U << bits(i, 72, 2); break;
    case 'c': width = bits(i, 75, 2) == 3 ? 2 : 1; break;
    case 's': width = bits(i, 80, 1) ? 2 : 1; break;
    case 'w':
    case 'W': width = moves_two(i) ? 2 : 1; break;
    case 'L': width = wide_load(i); break;
    case 'y':
        width = 2;
        i->dst_kind = bits(i, 9, 3) == 2 ? SASS_NONE : SASS_REG;
        break;
    case 'z':
    case 'Z': width = bits(i, 74, 1) ? 2 : 1; break;
    case 'D': width = bits(i, 73, 1) ? 2 : 1; break;
    case 'a':
        width = atomic_width(i);
        if (i->op->code == 0x18d && bits(i, 9, 3) == 2) /* ATOMS.CAST says only whether it did */
            i->dst_kind = SASS_NONE;
        break;
    case 'g':
        width = gmma_width(i);
        sass_forget(mask, 84, 3); /* which barrier of the warp group it opens: scheduling */
        if (bits(i, 9, 3) == 4)
            sass_forget(mask, 24, 8); /* uniform registers of descriptors */
        else
            sass_forget(mask, 32, 8);
        break;
    case 't': i->dst_kind = bits(i, 9, 3) == 7 ? SASS_NONE : SASS_REG; break;
    default: break;
    }
    i->dst_width = (uint8_t)width;
    if (i->dst_kind == SASS_NONE || i->dst == (to_uniform ? SASS_URZ : SASS_RZ))
        i->dst_kind = SASS_NONE;
    sass_forget(mask, 16, 8);
    i->pwrite[0] = i->pwrite[1] = SASS_PT;
    bool none = (*d == 'y' || i->op->code == 0x18d) && bits(i, 9, 3) != 2;
    if ((d[1] == 'p' || d[1] == 'b') && !none)
        i->pwrite[0] = (uint8_t)bits(i, 81, 3);
    if (d[1] == 'b')
        i->pwrite[1] = (uint8_t)bits(i, 84, 3);
    if (d[1])
        sass_forget(mask, 81, d[1] == 'b' ? 6 : 3);
}

bool sass_decode(const uint64_t word[2], unsigned sm, struct sass_inst *ret)
{
    struct sass_inst i = {.lo = word[0], .hi = word[1], .sm = (uint8_t)sm};
    uint64_t mask[2] = {~UINT64_C(0xffff), (UINT64_C(1) << 41) - 1};
    unsigned code = bits(&i, 0, 9), kind = bits(&i, 87, 4);
    if (code == 0x03e)
        code = kind == 9         ? (bits(&i, 73, 1) ? F2FP_TO8H_ : F2FP_TO8_)
               : kind == 4       ? F2FP_FROM8_
               : bits(&i, 78, 1) ? F2FP_MERGE_
                                 : code;
    if (blackwell(sm) && (code == 0x021 || code == 0x023) && bits(&i, 81, 1))
        code |= 0x200;
    if (blackwell(sm) && code == 0x0cc && bits(&i, 74, 1))
        code = CREDUXF_;
    bool odd = bits(&i, 81, 6) || (kind && kind != 9 && kind != 4) || (code == 0x03e && bits(&i, 64, 8) != SASS_RZ);
    if (blackwell(sm) && (code & 0x1ff) == 0x03e && odd) /* to and from E8, E2M1 and the like */
        code = F2FP_OTHER_;
    /* sparse matrices; a conversion that nobody has seen */
    bool other = (code == 0x03c && bits(&i, 73, 1)) || (code == 0x03e && kind);
    /* moves are followed: of 64 bits by these forms alone */
    bool move = blackwell(sm) && (code == 0x002 || code == 0x007 || code == 0x082 || code == 0x087);
    unsigned known = 1U << 1 | 1U << 2 | 1U << 4 | 1U << 6 | (code == 0x007 ? 1U << 3 : 0);
    other |= move && !(1U << bits(&i, 9, 3) & known);
    i.op = other ? NULL : sass_find(code, sm);
    i.guard = (uint8_t)bits(&i, 12, 3);
    i.guard_not = bits(&i, 15, 1);
    if (i.op) {
        unsigned form = bits(&i, 9, 3);
        destination(&i, mask);
        for (const char *s = i.op->src; *s; s++) {
            if (*s == 'p') {
                sass_forget(mask, 87, 4);
                continue;
            }
            unsigned at = sass_place(*s, form);
            if (*s == 'g' && form != 6) /* a descriptor */
                continue;
            bool half = strchr("HIJKE", *s) != NULL;
            unsigned width = i.op->cls == SASS_ATOMIC ? atomic_width(&i)
                             : strchr("RSTV", *s)     ? 2
                             : *s == 'A'              ? (bits(&i, 84, 2) == 3 ? 2 : 1)
                             : strchr("mno", *s)      ? mma_width(&i, *s)
                             : *s == 'g'              ? 4
                             : *s == 'G'              ? gmma_width(&i)
                                                      : 1;
            if (i.op->code == 0x03f && *s == 'V')
                width = 4;
            sass_operand(&i, at, half, width, strchr("CgG", *s) != NULL, mask, &i.src[i.nsrc]);
            if (sass_pairs(&i))
                pair_operand(&i, *s, mask, &i.src[i.nsrc]);
            if (*s == 'x' || *s == 'y') {
                i.src[i.nsrc].swizzle = bits(&i, *s == 'x' ? 83 : 84, 1) ? 3 : 0;
                sass_forget(mask, *s == 'x' ? 83 : 84, 1);
            }
            if (i.op->cls == SASS_MOVE && blackwell(sm) && form == 2) { /* 64 bits from 24 on */
                i.src[0].value = (uint32_t)(i.lo >> 24);
                i.src[0].upper = (uint32_t)(i.lo >> 56 | i.hi << 8);
            } else if (i.op->cls == SASS_SELECT && blackwell(sm) && form == 2 && at == 32) { /* with its sign at 64 */
                i.src[1].upper = i.hi & 1 ? UINT32_MAX : 0;
            }
            i.nsrc++;
        }
        i.mods[0] = i.lo & mask[0];
        i.mods[1] = i.hi & mask[1];
    }
    *ret = i;
    return i.op != NULL;
}

bool sass_is(const struct sass_inst *i, const char *name) { return i->op && !strcmp(i->op->name, name); }

uint64_t sass_target(const struct sass_inst *i, uint64_t at, unsigned sm)
{
    int64_t far = (int64_t)((i->lo >> 34 | i->hi << 30) << 16) >> 16; /* bits 34-81 */
    int64_t words = sm >= 90 ? far * 256 + bits(i, 16, 8) : far;
    return at + 16 + (uint64_t)(words * 4);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_mods(const struct sass_inst *i, struct dt_str *out)
{
    for (const char *p = i->op->mods; *p;) {
        unsigned value = 0, n = 0, at = 0, first = 0;
        char *end = (char *)p;
        bool joined = false;
        do { /* BIT+BIT/WIDTH: one bit each; BIT/WIDTH: a field */
            at = (unsigned)strtoul(end + (joined ? 1 : 0), &end, 10);
            if (!n)
                first = at;
            value |= bits(i, at, 1) << n++;
            joined = true;
        } while (*end == '+');
        unsigned width = (unsigned)strtoul(end + 1, &end, 10);
        if (n == 1)
            value = bits(i, first, width);
        p = end + 1;
        for (; value && *p && *p != ' '; p++)
            value -= *p == '|';
        size_t len = strcspn(p, "| ");
        if (value)
            dt_str_addf(out, ".?%u", value);
        else
            dt_str_addn(out, p, len);
        p += strcspn(p, " ");
        p += *p == ' ';
    }
}

static void print_operand(const struct sass_opnd *o, char letter, bool bytes, struct dt_str *out)
{
    static const char *const half[] = {"", ".F32", ".H0_H0", ".H1_H1"}, *const byte[] = {"", ".B1", ".B2", ".B3"},
                             *const word[] = {"", ".H1", ".?", ".?"},
                             *const pair[] = {".F32x2.HI_LO", ".F32x2.LO_HI", ".F32", ".?"};
    dt_str_add(out, o->neg ? "-" : "");
    dt_str_add(out, o->abs ? "|" : "");
    if (o->kind == SASS_REG && o->reg == SASS_RZ)
        dt_str_add(out, "RZ");
    else if (o->kind == SASS_REG)
        dt_str_addf(out, "R%u", o->reg);
    else if (o->kind == SASS_UREG && o->reg == SASS_URZ)
        dt_str_add(out, "URZ");
    else if (o->kind == SASS_UREG)
        dt_str_addf(out, "UR%u", o->reg);
    else if (o->kind == SASS_CONST && o->reg != SASS_URZ)
        dt_str_addf(out, "cx[UR%u][0x%x]", o->reg, o->value);
    else if (o->kind == SASS_CONST)
        dt_str_addf(out, "c[0x%x][0x%x]", o->bank, o->value);
    else
        dt_str_addf(out, "0x%08x", o->value);
    dt_str_add(out, o->abs ? "|" : "");
    if (letter == 'x' || letter == 'y') {
        dt_str_add(out, o->swizzle ? ".H1" : "");
    } else if (letter && strchr("XYZWQ", letter)) {
        dt_str_add(out, o->kind == SASS_IMM ? "" : pair[o->swizzle]);
        dt_str_add(out, o->upper_neg ? ".NP" : "");
    } else if (o->kind != SASS_IMM && o->swizzle)
        dt_str_add(out, letter == 'E' ? (bytes ? byte : word)[o->swizzle] : half[o->swizzle]);
}

static void print_predicate(unsigned p, bool not, struct dt_str *out)
{
    dt_str_addf(out, "%s", not ? "!" : "");
    if (p == SASS_PT)
        dt_str_add(out, "PT");
    else
        dt_str_addf(out, "P%u", p);
}

void sass_print(const struct sass_inst *i, struct dt_str *out)
{
    const char *comma = " ";
    if (!i->op) {
        dt_str_addf(out, "opcode 0x%03x", bits(i, 0, 12));
        return;
    }
    if (i->guard != SASS_PT || i->guard_not) {
        dt_str_addc(out, '@');
        print_predicate(i->guard, i->guard_not, out);
        dt_str_addc(out, ' ');
    }
    dt_str_add(out, i->op->name);
    if (i->op->cls == SASS_FLOAT || i->op->cls == SASS_SELECT)
        print_mods(i, out);
    if (i->op->dst[0] != '-') {
        bool to_uniform = strchr("uvnwz", i->op->dst[0]) != NULL;
        dt_str_add(out, comma);
        print_operand(&(struct sass_opnd){.kind = to_uniform ? SASS_UREG : SASS_REG, .reg = i->dst}, 0, false, out);
        comma = ", ";
    }
    if (i->op->dst[1] && i->op->cls == SASS_FLOAT)
        for (unsigned k = 0; k < (i->op->dst[1] == 'b' ? 2 : 1); k++, comma = ", ") {
            dt_str_add(out, comma);
            print_predicate(i->pwrite[k], false, out);
        }
    unsigned at = 0;
    for (const char *s = i->op->src; *s; s++, comma = ", ") {
        dt_str_add(out, comma);
        if (*s == 'g' && at + 1 == i->nsrc)
            dt_str_add(out, "gdesc");
        else if (*s == 'p')
            print_predicate(bits(i, 87, 3), bits(i, 90, 1), out);
        else
            print_operand(&i->src[at++], *s, sass_is(i, "I2F") && !bits(i, 84, 2), out);
    }
}
