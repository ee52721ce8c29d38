/* The encoder: see x86.h. The Intel manual's volume 2 (instruction formats, EVEX) is what this follows.
 *
 * Displacements of vector instructions are written in 8 bits where they are multiples of the operand's size.
 */
#include "softgpu/jit/x86.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static uint8_t *room(struct sg_x86 *x)
{
    if (x->n + 32 > x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 4096;
        uint8_t *p = dt_malloc(cap);
        if (!p) {
            x->failed = true;
            x->n = 0; /* goes on in what is there: nobody runs it */
            static uint8_t nowhere[64];
            return x->p ? x->p : nowhere;
        }
        if (x->n)
            memcpy(p, x->p, x->n);
        free(x->p);
        x->p = p;
        x->cap = cap;
    }
    return x->p + x->n;
}

static void x86_put(struct sg_x86 *x, const uint8_t *end)
{
    if (!x->failed)
        x->n = (size_t)(end - x->p);
}

static uint8_t *put32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, 4);
    return p + 4;
}

/* modrm, sib and displacement. shift: of displacements in 8 bits */
static uint8_t *address(uint8_t *p, unsigned reg, struct sg_x86_mem m, unsigned shift)
{
    unsigned base = m.base & 7, sib = m.index != NO_REG || base == RSP, mod = 2;
    int32_t small = m.disp >> shift;
    if (!m.disp && base != RBP)
        mod = 0;
    else if (!(m.disp & ((1 << shift) - 1)) && small >= -128 && small < 128)
        mod = 1;
    *p++ = (uint8_t)(mod << 6 | (reg & 7) << 3 | (sib ? 4 : base));
    if (sib)
        *p++ = (uint8_t)((m.index == NO_REG ? 4u : m.index & 7u) << 3 | base);
    if (mod == 1)
        *p++ = (uint8_t)small;
    return mod == 2 ? put32(p, (uint32_t)m.disp) : p;
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */
static uint8_t *evex(uint8_t *p, enum sg_x86_v v, unsigned d, unsigned a, unsigned x, unsigned b, unsigned last)
{
    *p++ = 0x62;
    *p++ = (uint8_t)((~d >> 3 & 1) << 7 | (~x & 1) << 6 | (~b & 1) << 5 | (~d >> 4 & 1) << 4 | (v >> 12 & 7));
    *p++ = (uint8_t)((v >> 8 & 1) << 7 | (~a & 15) << 3 | 4 | (v >> 9 & 3));
    *p++ = (uint8_t)(last | (~a >> 4 & 1) << 3);
    *p++ = (uint8_t)v;
    return p;
}

static void registers(struct sg_x86 *x, enum sg_x86_v v, unsigned d, unsigned a, unsigned b, int imm, unsigned last)
{
    uint8_t *p = evex(room(x), v, d, a, b >> 4, b >> 3, last);
    *p++ = (uint8_t)(0xC0 | (d & 7) << 3 | (b & 7));
    if (imm >= 0)
        *p++ = (uint8_t)imm;
    x86_put(x, p);
}

void sg_x86_v(struct sg_x86 *x, enum sg_x86_v v, unsigned d, unsigned a, unsigned b, int imm)
{
    registers(x, v, d, a, b, imm, 2 << 5);
}

void sg_x86_vk(struct sg_x86 *x, enum sg_x86_v v, unsigned d, unsigned a, unsigned b, int imm, unsigned k, bool z)
{
    registers(x, v, d, a, b, imm, 2 << 5 | k | (unsigned)z << 7);
}

void sg_x86_vround(struct sg_x86 *x, enum sg_x86_v v, unsigned d, unsigned a, unsigned b, unsigned round)
{
    registers(x, v, d, a, b, -1, round ? round << 5 | 1 << 4 : 2 << 5);
}

void sg_x86_vmk(struct sg_x86 *x, enum sg_x86_v v, unsigned d, unsigned a, struct sg_x86_mem m, int imm, unsigned k,
                bool z, bool spread)
{
    unsigned shift = spread ? 2 + (v >> 8 & 1) : v >> 16 & 7;
    uint8_t *p = evex(room(x), v, d, a, m.index == NO_REG ? 0u : m.index >> 3, m.base >> 3,
                      2 << 5 | k | (unsigned)z << 7 | (unsigned)spread << 4);
    p = address(p, d, m, shift);
    if (imm >= 0)
        *p++ = (uint8_t)imm;
    x86_put(x, p);
}

void sg_x86_vm(struct sg_x86 *x, enum sg_x86_v v, unsigned d, unsigned a, struct sg_x86_mem m, int imm)
{
    sg_x86_vmk(x, v, d, a, m, imm, 0, false, false);
}

void sg_x86_vmb(struct sg_x86 *x, enum sg_x86_v v, unsigned d, unsigned a, struct sg_x86_mem m, int imm)
{
    sg_x86_vmk(x, v, d, a, m, imm, 0, false, true);
}

void sg_x86_gather(struct sg_x86 *x, unsigned d, unsigned base, unsigned i, unsigned k)
{
    sg_x86_vmk(x, V_GATHER32, d, i & 16, SG_AT2(base, i & 15, 0), -1, k, false, false);
}

void sg_x86_first(struct sg_x86 *x, unsigned r, unsigned v, bool wide)
{
    registers(x, (enum sg_x86_v)SG_V(1, 1, wide, 0x7E, 2), v, 0, r, -1, 0);
}

/* ---- mask registers: VEX ----------------------------------------------------------------------------------------- */
static uint8_t *vex(uint8_t *p, unsigned map, unsigned pp, unsigned w, unsigned l, unsigned r, unsigned a, unsigned b,
                    uint8_t op)
{
    *p++ = 0xC4;
    *p++ = (uint8_t)((~r >> 3 & 1) << 7 | 1 << 6 | (~b >> 3 & 1) << 5 | map);
    *p++ = (uint8_t)(w << 7 | (~a & 15) << 3 | l << 2 | pp);
    *p++ = op;
    return p;
}

static void k_registers(struct sg_x86 *x, unsigned map, unsigned pp, unsigned w, unsigned l, uint8_t op, unsigned r,
                        unsigned a, unsigned b, int imm)
{
    uint8_t *p = vex(room(x), map, pp, w, l, r, a, b, op);
    *p++ = (uint8_t)(0xC0 | (r & 7) << 3 | (b & 7));
    if (imm >= 0)
        *p++ = (uint8_t)imm;
    x86_put(x, p);
}

void sg_x86_k_load(struct sg_x86 *x, unsigned k, struct sg_x86_mem m, bool wide)
{
    x86_put(x, address(vex(room(x), 1, wide, wide, 0, k, 0, m.base, 0x90), k, m, 0));
}

void sg_x86_k_from(struct sg_x86 *x, unsigned k, unsigned r, bool wide)
{
    k_registers(x, 1, wide ? 3 : 0, 0, 0, 0x92, k, 0, r, -1);
}
void sg_x86_k_to(struct sg_x86 *x, unsigned r, unsigned k, bool wide)
{
    k_registers(x, 1, wide ? 3 : 0, 0, 0, 0x93, r, 0, k, -1);
}
void sg_x86_k_join(struct sg_x86 *x, unsigned k, unsigned high, unsigned low)
{
    k_registers(x, 1, 0, 0, 1, 0x4B, k, high, low, -1);
}
void sg_x86_k_shr(struct sg_x86 *x, unsigned k, unsigned from, unsigned by)
{
    k_registers(x, 3, 1, 0, 0, 0x31, k, 0, from, (int)by);
}
void sg_x86_k_ones(struct sg_x86 *x, unsigned k) { k_registers(x, 1, 0, 0, 1, 0x46, k, k, k, -1); }
void sg_x86_k_or_test(struct sg_x86 *x, unsigned a, unsigned b) { k_registers(x, 1, 0, 0, 0, 0x98, a, 0, b, -1); }
void sg_x86_k_or(struct sg_x86 *x, unsigned d, unsigned a, unsigned b)
{
    k_registers(x, 1, 0, 0, 1, 0x45, d, a, b, -1);
}

/* ---- general registers ------------------------------------------------------------------------------------------- */
static uint8_t *rex(uint8_t *p, bool wide, unsigned reg, unsigned index, unsigned base)
{
    unsigned r =
        (unsigned)wide << 3 | (reg >> 3 & 1) << 2 | (index == NO_REG ? 0u : (index >> 3 & 1) << 1) | (base >> 3 & 1);
    if (r)
        *p++ = (uint8_t)(0x40 | r);
    return p;
}

static void with_memory(struct sg_x86 *x, uint8_t op, unsigned reg, struct sg_x86_mem m, bool wide)
{
    uint8_t *p = rex(room(x), wide, reg, m.index, m.base);
    *p++ = op;
    x86_put(x, address(p, reg, m, 0));
}

static void with_register(struct sg_x86 *x, uint8_t op, unsigned reg, unsigned rm, bool wide)
{
    uint8_t *p = rex(room(x), wide, reg, NO_REG, rm);
    *p++ = op;
    *p++ = (uint8_t)(0xC0 | (reg & 7) << 3 | (rm & 7));
    x86_put(x, p);
}

void sg_x86_load(struct sg_x86 *x, unsigned r, struct sg_x86_mem m, bool wide) { with_memory(x, 0x8B, r, m, wide); }
void sg_x86_store(struct sg_x86 *x, struct sg_x86_mem m, unsigned r, bool wide) { with_memory(x, 0x89, r, m, wide); }
void sg_x86_mov(struct sg_x86 *x, unsigned d, unsigned r, bool wide) { with_register(x, 0x89, r, d, wide); }
void sg_x86_lea(struct sg_x86 *x, unsigned r, struct sg_x86_mem m, bool wide) { with_memory(x, 0x8D, r, m, wide); }
void sg_x86_test(struct sg_x86 *x, unsigned a, unsigned b, bool wide) { with_register(x, 0x85, b, a, wide); }
void sg_x86_not(struct sg_x86 *x, unsigned r) { with_register(x, 0xF7, 2, r, false); }
void sg_x86_call(struct sg_x86 *x, unsigned r) { with_register(x, 0xFF, 2, r, false); }
void sg_x86_call_mem(struct sg_x86 *x, struct sg_x86_mem m) { with_memory(x, 0xFF, 2, m, false); }
void sg_x86_jump(struct sg_x86 *x, unsigned r) { with_register(x, 0xFF, 4, r, false); }
void sg_x86_jump_mem(struct sg_x86 *x, struct sg_x86_mem m) { with_memory(x, 0xFF, 4, m, false); }

void sg_x86_mov_imm(struct sg_x86 *x, unsigned r, uint64_t v)
{
    bool wide = v > UINT32_MAX;
    uint8_t *p = rex(room(x), wide, 0, NO_REG, r);
    *p++ = (uint8_t)(0xB8 | (r & 7));
    memcpy(p, &v, wide ? 8 : 4);
    x86_put(x, p + (wide ? 8 : 4));
}

void sg_x86_alu(struct sg_x86 *x, enum sg_x86_alu op, unsigned d, unsigned r, bool wide)
{
    with_register(x, (uint8_t)(op << 3 | 1), r, d, wide);
}

void sg_x86_alu_mem(struct sg_x86 *x, enum sg_x86_alu op, unsigned d, struct sg_x86_mem m, bool wide)
{
    with_memory(x, (uint8_t)(op << 3 | 3), d, m, wide);
}

void sg_x86_alu_to(struct sg_x86 *x, enum sg_x86_alu op, struct sg_x86_mem m, unsigned r, bool wide)
{
    with_memory(x, (uint8_t)(op << 3 | 1), r, m, wide);
}

static uint8_t *immediate(uint8_t *p, int32_t v)
{
    if (v >= -128 && v < 128) {
        *p++ = (uint8_t)v;
        return p;
    }
    return put32(p, (uint32_t)v);
}

void sg_x86_alu_imm(struct sg_x86 *x, enum sg_x86_alu op, unsigned d, int32_t v, bool wide)
{
    with_register(x, v >= -128 && v < 128 ? 0x83 : 0x81, op, d, wide);
    x86_put(x, immediate(room(x), v));
}

void sg_x86_mem_imm(struct sg_x86 *x, enum sg_x86_alu op, struct sg_x86_mem m, int32_t v, bool wide)
{
    with_memory(x, v >= -128 && v < 128 ? 0x83 : 0x81, op, m, wide);
    x86_put(x, immediate(room(x), v));
}

void sg_x86_mem_imm8(struct sg_x86 *x, enum sg_x86_alu op, struct sg_x86_mem m, int8_t v)
{
    with_memory(x, 0x80, op, m, false);
    uint8_t *p = room(x);
    *p++ = (uint8_t)v;
    x86_put(x, p);
}

void sg_x86_test_imm(struct sg_x86 *x, unsigned r, int32_t v)
{
    with_register(x, 0xF7, 0, r, false);
    x86_put(x, put32(room(x), (uint32_t)v));
}

void sg_x86_popcnt(struct sg_x86 *x, unsigned d, unsigned r)
{
    uint8_t *p = room(x);
    *p++ = 0xF3;
    p = rex(p, false, d, NO_REG, r);
    *p++ = 0x0F;
    *p++ = 0xB8;
    *p++ = (uint8_t)(0xC0 | (d & 7) << 3 | (r & 7));
    x86_put(x, p);
}

void sg_x86_times(struct sg_x86 *x, unsigned d, unsigned r, int32_t v)
{
    with_register(x, 0x69, d, r, true);
    x86_put(x, put32(room(x), (uint32_t)v));
}

void sg_x86_shl(struct sg_x86 *x, unsigned r, unsigned by)
{
    with_register(x, 0xC1, 4, r, false);
    uint8_t *p = room(x);
    *p++ = (uint8_t)by;
    x86_put(x, p);
}

void sg_x86_zero_upper(struct sg_x86 *x)
{
    uint8_t *p = room(x);
    memcpy(p, (const uint8_t[]){0xC5, 0xF8, 0x77}, 3);
    x86_put(x, p + 3);
}

void sg_x86_push(struct sg_x86 *x, unsigned r)
{
    uint8_t *p = rex(room(x), false, 0, NO_REG, r);
    *p++ = (uint8_t)(0x50 | (r & 7));
    x86_put(x, p);
}

void sg_x86_pop(struct sg_x86 *x, unsigned r)
{
    uint8_t *p = rex(room(x), false, 0, NO_REG, r);
    *p++ = (uint8_t)(0x58 | (r & 7));
    x86_put(x, p);
}

void sg_x86_ret(struct sg_x86 *x)
{
    uint8_t *p = room(x);
    *p++ = 0xC3;
    x86_put(x, p);
}

size_t sg_x86_jcc(struct sg_x86 *x, enum sg_x86_cc cc)
{
    uint8_t *p = room(x);
    if (cc == CC_ALWAYS) {
        *p++ = 0xE9;
    } else {
        *p++ = 0x0F;
        *p++ = (uint8_t)(0x80 | cc);
    }
    x86_put(x, put32(p, 0));
    return x->n - 4;
}

void sg_x86_set(struct sg_x86 *x, size_t jump, size_t to)
{
    if (!x->failed)
        put32(x->p + jump, (uint32_t)(to - (jump + 4)));
}

size_t sg_x86_lea_code(struct sg_x86 *x, unsigned r)
{
    uint8_t *p = rex(room(x), true, r, NO_REG, 0);
    *p++ = 0x8D;
    *p++ = (uint8_t)((r & 7) << 3 | 5);
    x86_put(x, put32(p, 0));
    return x->n - 4;
}
