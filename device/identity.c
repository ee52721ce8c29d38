/* Arithmetic identity: no product and sum are contracted that were not contracted in the original.
 *
 * PTX leaves an add, sub or mul of floating point without a rounding modifier open to contraction. ptxas makes an FFMA
 * of a mul.f32 and an add.f32 that meet in one kernel, also when only a store between them goes away. A product with
 * .rn is never contracted, whatever it meets (tried with ptxas 13.0 for f32, f64, f16, f16x2, bf16). So where products
 * and sums of a kernel can meet, every emitted mul carries .rn. Sums stay as they are: `.rn` on them also stops
 * harmless simplifications (1 + ex2(x) is known to be positive, which makes a division by it shorter). Adding .rn must
 * not change the original's own code, so the entry is printed and assembled both ways and the machine code is compared
 * byte for byte. It is ordinarily equal, as nvcc contracts before it writes PTX; PTX from elsewhere may leave that to
 * ptxas (contract.c).
 *
 * Where no open product reaches an open sum, nothing can be contracted within the kernel and nothing is changed: `.rn`
 * alone would undo other things (a * b * 0.5f is one FMUL.D2, mul.rn.f32 makes two FMULs of it). Values that go from
 * one kernel's text to another's in one kernel are hidden (level `register`) or pass a barrier. A product reaches
 * whatever its register is copied to, also through shared and local memory, since stores are forwarded to loads. It
 * does not reach what is computed from it, and nothing behind an `xor` of two registers.
 *
 * Without nvJitLink nothing can be compared; then only entries are taken in which no open product reaches an open sum.
 * This does not see what else ptxas combines: the comparison of machine code does (arithmetic.c).
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device-priv.h"

static bool open_to_contraction(const struct ptx_inst *i)
{
    if (i->op != PTX_OP_ADD && i->op != PTX_OP_SUB && i->op != PTX_OP_MUL)
        return false;
    return i->ntype && ptx_type_is_float(i->type[0]) && ptx_mod_of(i, PTX_MC_RND) == PTX_M_NONE;
}

bool dev_round_mul(struct ptx_inst *i)
{
    if (i->op != PTX_OP_MUL || !open_to_contraction(i))
        return false;
    return ptx_set_mod(i, PTX_M_RN);
}

unsigned dev_round_muls(struct ptx_function *f)
{
    unsigned n = 0;
    for (uint32_t k = 0; k < f->ninst; k++)
        n += dev_round_mul(&f->inst[k]);
    return n;
}

/* ---- machine code ------------------------------------------------------------------------------------------------ */

struct elf {
    const uint8_t *p;
    size_t n;
    Elf64_Ehdr h;
    const char *names;
    size_t nnames;
};

static bool section(const struct elf *f, unsigned i, Elf64_Shdr *s)
{
    uint64_t at = f->h.e_shoff + (uint64_t)i * sizeof *s;
    if (f->h.e_shoff > f->n || at > f->n || f->n - at < sizeof *s)
        return false;
    memcpy(s, f->p + at, sizeof *s);
    return s->sh_type == SHT_NOBITS || (s->sh_offset <= f->n && s->sh_size <= f->n - s->sh_offset);
}

static bool elf_open(struct elf *f, const void *p, size_t n)
{
    Elf64_Shdr s;
    memset(f, 0, sizeof *f);
    f->p = p;
    f->n = n;
    if (!p || n < sizeof f->h)
        return false;
    memcpy(&f->h, p, sizeof f->h);
    if (memcmp(f->h.e_ident, ELFMAG, SELFMAG) || f->h.e_ident[EI_CLASS] != ELFCLASS64 ||
        f->h.e_shentsize != sizeof(Elf64_Shdr) || !section(f, f->h.e_shstrndx, &s) || s.sh_type == SHT_NOBITS)
        return false;
    f->names = (const char *)p + s.sh_offset;
    f->nnames = s.sh_size;
    return f->nnames && f->names[f->nnames - 1] == 0;
}

static bool is_code(const struct elf *f, const Elf64_Shdr *s)
{
    const char *name = s->sh_name < f->nnames && s->sh_type == SHT_PROGBITS ? f->names + s->sh_name : "";
    /* constant banks from 1 hold what instructions take from memory: wide immediates; bank 0 is the parameters */
    return !strncmp(name, ".text.", 6) || (!strncmp(name, ".nv.constant", 12) && strncmp(name, ".nv.constant0", 13));
}

bool dev_same_code(const void *a, size_t na, const void *b, size_t nb)
{
    struct elf x, y;
    unsigned found = 0, other = 0;
    if (!elf_open(&x, a, na) || !elf_open(&y, b, nb))
        return false;
    for (unsigned i = 0; i < x.h.e_shnum; i++) {
        Elf64_Shdr s, t;
        if (!section(&x, i, &s))
            return false;
        if (!is_code(&x, &s))
            continue;
        bool same = false;
        for (unsigned k = 0; k < y.h.e_shnum && !same; k++)
            same = section(&y, k, &t) && is_code(&y, &t) && !strcmp(x.names + s.sh_name, y.names + t.sh_name) &&
                   s.sh_size == t.sh_size && !memcmp(x.p + s.sh_offset, y.p + t.sh_offset, s.sh_size);
        if (!same)
            return false;
        found++;
    }
    for (unsigned k = 0; k < y.h.e_shnum; k++) {
        Elf64_Shdr t;
        other += section(&y, k, &t) && is_code(&y, &t);
    }
    return found && found == other;
}

/* ---- does an open product reach an open sum? --------------------------------------------------------------------- */

struct reach {
    bool *reg; /* by register: it may hold an open product */
    bool memory, changed;
    bool carries, opens; /* of the instruction at hand: what it reads may be one; what it writes is */
};

static void identity_on_read(uint32_t reg, bool write, void *user)
{
    struct reach *w = user;
    w->carries |= !write && w->reg[reg];
}

static void identity_on_write(uint32_t reg, bool write, void *user)
{
    struct reach *w = user;
    if (write && w->opens && !w->reg[reg])
        w->reg[reg] = w->changed = true;
}

/* Does it hand on what it reads, perhaps with another sign, in another place or not at all? */
static bool copies(const struct ptx_inst *i)
{
    switch (i->op) {
    case PTX_OP_MOV:
    case PTX_OP_SELP:
    case PTX_OP_NEG:
    case PTX_OP_ABS: return true;
    case PTX_OP_CVT:
    case PTX_OP_SETP: return false;
    case PTX_OP_XOR: return i->opnd[1].kind != PTX_O_REG || i->opnd[2].kind != PTX_O_REG;
    default: return !i->ntype || !ptx_type_is_float(i->type[0]);
    }
}

/* One instruction; true: it is an open sum of an open product. */
static bool identity_follow(const struct ptx_inst *i, struct reach *w)
{
    unsigned flags =
        i->space == PTX_GLOBAL || i->space == PTX_PARAM ? 0 : ptx_op_info(i->op)->flags & (PTX_F_READS | PTX_F_WRITES);
    bool access = ptx_op_info(i->op)->flags & PTX_F_READS;
    w->carries = false;
    ptx_inst_regs(i, identity_on_read, w);
    if (open_to_contraction(i) && i->op != PTX_OP_MUL)
        return w->carries;
    if ((flags & PTX_F_WRITES) && w->carries && !w->memory)
        w->memory = w->changed = true;
    w->opens = i->op == PTX_OP_MUL ? open_to_contraction(i)
               : access            ? (flags & PTX_F_READS) && w->memory
                                   : w->carries && copies(i);
    ptx_inst_regs(i, identity_on_write, w);
    return false;
}

/* Of one function. 0, 1; DT_E_NOMEM. */
static int meet_in(const struct ptx_function *f)
{
    struct reach w = {.reg = dt_calloc((size_t)f->nreg + 1, sizeof *w.reg), .changed = true};
    bool meet = false;
    if (!w.reg)
        return DT_E_NOMEM;
    while (w.changed && !meet) {
        w.changed = false;
        for (uint32_t n = 0; n < f->ninst && !meet; n++)
            meet = f->inst[n].op > PTX_OP_OPAQUE && identity_follow(&f->inst[n], &w);
    }
    free(w.reg);
    return meet;
}

/* Of all: a function may be inlined where the other is, and nobody knows what an opaque instruction does. */
static int meet(const struct ptx_module *m)
{
    bool mul = false, add = false, called = false;
    for (uint32_t k = 0; k < m->nfunc; k++) {
        const struct ptx_function *f = m->func[k];
        called |= !f->is_entry && f->has_body;
        for (uint32_t n = 0; n < f->ninst; n++) {
            called |= f->inst[n].op == PTX_OP_OPAQUE;
            mul |= f->inst[n].op == PTX_OP_MUL && open_to_contraction(&f->inst[n]);
            add |= f->inst[n].op != PTX_OP_MUL && open_to_contraction(&f->inst[n]);
        }
    }
    if (called || !mul || !add)
        return mul && add;
    int r = 0;
    for (uint32_t k = 0; k < m->nfunc && r == 0; k++)
        r = meet_in(m->func[k]);
    return r;
}

/* `text`: m's own, which was assembled with lines before, so that its code is at hand; NULL: m is printed. */
static enum dev_identity identity(const struct ptx_module *m, const char *entry, const char *text, size_t len,
                                  const char *arch)
{
    struct ptx_module *one = NULL;
    struct dt_str before = {0}, after = {0};
    void *x = NULL, *y = NULL;
    size_t nx = 0, ny = 0;
    unsigned changed = 0;
    enum dev_identity out = DEV_UNKNOWN;
    if (ptx_clone(m, entry, &one, NULL) < 0 || (!text && ptx_print(one, &before) < 0))
        goto done;
    int r = meet(one);
    if (r <= 0) {
        out = r == 0 ? DEV_OPEN : out;
        goto done;
    }
    for (uint32_t k = 0; k < one->nfunc; k++)
        changed += dev_round_muls(one->func[k]);
    if (!changed || ptx_print(one, &after) < 0 || before.failed || after.failed)
        goto done;
    r = text ? dev_assemble_lines(text, len, arch, &x, &nx, NULL)
             : dev_assemble(before.s, before.len, arch, &x, &nx, NULL);
    if (r < 0 || dev_assemble(after.s, after.len, arch, &y, &ny, NULL) < 0)
        goto done;
    out = dev_same_code(x, nx, y, ny) ? DEV_IDENTICAL : DEV_CONTRACTED;
done:
    dt_str_done(&before);
    dt_str_done(&after);
    free(x);
    free(y);
    ptx_module_free(one);
    return out;
}

enum dev_identity dev_identity(const struct ptx_module *m, const char *entry, const char *arch)
{
    return identity(m, entry, NULL, 0, arch);
}

enum dev_identity dev_identity_of_text(const struct ptx_module *m, const char *ptx, size_t len, const char *arch)
{
    return identity(m, NULL, ptx, len, arch);
}
