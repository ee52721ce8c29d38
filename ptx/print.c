/* Modules to text, canonically: the same module always gives the same bytes, and parsing them gives the same module.
 *
 * Order: header, prototypes that initialisers need, variables, functions, aliases. Instruction words: mnemonic,
 * modifiers up to PTX_M_TO in row order, spaces, the other modifiers, vector, types. Only registers that instructions
 * name are declared: those called prefix + number as one range `.reg .b32 %r<N>;` where the prefix has one type and the
 * numbers are dense, else one by one, all sorted. Trailing zeros of initialisers are left out.
 * Where instructions come from is said in modules that ask for it (origin.c). canon.c prints through the same functions
 * with other names. Not here: anything that checks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ptx/ptx-priv.h"

void ptx_put_u64(struct dt_str *out, uint64_t v)
{
    char buf[24], *p = buf + sizeof buf;
    do
        *--p = (char)('0' + v % 10);
    while (v /= 10);
    dt_str_addn(out, p, (size_t)(buf + sizeof buf - p));
}

static void put_i64(struct dt_str *out, int64_t v)
{
    if (v < 0)
        dt_str_addc(out, '-');
    ptx_put_u64(out, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

static void put_reg(struct ptx_printer *p, uint32_t reg)
{
    if (p->canon)
        ptx_canon_reg(p, reg);
    else
        dt_str_add(p->out, reg < p->f->nreg ? p->f->reg[reg].name : "%bad");
}

static void put_label(struct ptx_printer *p, uint32_t label)
{
    if (p->canon)
        ptx_canon_label(p, label);
    else
        dt_str_add(p->out, label < p->f->nlabel ? p->f->label[label].name : "bad");
}

static void put_var_name(struct ptx_printer *p, const struct ptx_var *v)
{
    if (p->canon)
        ptx_canon_var(p, v);
    else
        dt_str_add(p->out, v->name);
}

static void put_func_name(struct ptx_printer *p, const struct ptx_function *f)
{
    if (p->canon)
        ptx_canon_func(p, f);
    else
        dt_str_add(p->out, f->name);
}

static void put_comp(struct ptx_printer *p, int comp)
{
    if (comp >= 0 && comp < 4) {
        dt_str_addc(p->out, '.');
        dt_str_addc(p->out, "xyzw"[comp]);
    }
}

static void put_off(struct ptx_printer *p, int64_t off)
{
    if (off) {
        dt_str_addc(p->out, '+');
        put_i64(p->out, off);
    }
}

static void put_opnd(struct ptx_printer *p, const struct ptx_opnd *o);

static void print_put_list(struct ptx_printer *p, const struct ptx_opnd *o, const char *open, const char *close)
{
    dt_str_add(p->out, open);
    for (unsigned k = 0; k < o->n; k++) {
        if (k)
            dt_str_add(p->out, ", ");
        put_opnd(p, &o->elem[k]);
    }
    dt_str_add(p->out, close);
}

static void put_texture(struct ptx_printer *p, const struct ptx_opnd *o)
{
    unsigned names = 1 + (o->base_kind != PTX_O_NONE);
    dt_str_addc(p->out, '[');
    for (unsigned k = 0; k < o->n; k++) {
        dt_str_add(p->out, k == 0 ? "" : k == names ? ", {" : ", ");
        put_opnd(p, &o->elem[k]);
    }
    dt_str_add(p->out, o->n > names ? "}]" : "]");
}

static void put_opnd(struct ptx_printer *p, const struct ptx_opnd *o)
{
    struct dt_str *out = p->out;
    switch ((enum ptx_opnd_kind)o->kind) {
    case PTX_O_NONE: break;
    case PTX_O_REG:
        if (o->neg)
            dt_str_addc(out, '!');
        put_reg(p, o->reg);
        put_comp(p, o->comp);
        break;
    case PTX_O_IMM:
        if (o->imm_type == PTX_F32)
            dt_str_addf(out, "0f%08X", (unsigned)o->bits);
        else if (o->imm_type == PTX_F64)
            dt_str_addf(out, "0d%016llX", (unsigned long long)o->bits);
        else if (o->imm_type == PTX_U64)
            ptx_put_u64(out, o->bits);
        else
            put_i64(out, (int64_t)o->bits);
        break;
    case PTX_O_SREG:
        dt_str_addc(out, '%');
        dt_str_add(out, ptx_sreg_text(o->sreg));
        put_comp(p, o->comp);
        break;
    case PTX_O_VAR:
        put_var_name(p, o->var);
        put_off(p, o->off);
        break;
    case PTX_O_FUNC: put_func_name(p, o->func); break;
    case PTX_O_ADDR:
        dt_str_addc(out, '[');
        if (o->base_kind == PTX_O_REG)
            put_reg(p, o->reg);
        else if (o->base_kind == PTX_O_VAR)
            put_var_name(p, o->var);
        if (o->base_kind != PTX_O_NONE)
            put_off(p, o->off);
        else
            put_i64(out, o->off);
        if (o->base_kind == PTX_O_REG && o->n) {
            dt_str_add(out, ", ");
            print_put_list(p, o, "{", "}");
        }
        dt_str_addc(out, ']');
        break;
    case PTX_O_VEC: print_put_list(p, o, "{", "}"); break;
    case PTX_O_SINK: dt_str_addc(out, '_'); break;
    case PTX_O_LABEL: put_label(p, o->label); break;
    case PTX_O_TEXTURE: put_texture(p, o); break;
    }
}

static const char *opnd_name(const struct ptx_function *f, const struct ptx_opnd *o)
{
    return o->kind == PTX_O_REG ? f->reg[o->reg].name : o->kind == PTX_O_VAR ? o->var->name : o->func->name;
}

/* The statement's own text, with the names of its operands as they are to be printed. */
static void put_opaque(struct ptx_printer *p, const struct ptx_inst *i)
{
    if (!p->canon) {
        dt_str_add(p->out, i->text);
        return;
    }
    struct ptx_lexer lx;
    const char *from = i->text;
    unsigned k = 0;
    bool first = true;
    for (ptx_lex_init(&lx, i->text, strlen(i->text)); lx.t.kind != PTX_TK_EOF && lx.t.kind != PTX_TK_BAD;
         first = false) {
        struct ptx_tok t = lx.t;
        if (!first && t.kind == PTX_TK_IDENT && k < i->nopnd) {
            const char *name = opnd_name(p->f, &i->opnd[k]);
            if (strlen(name) == t.len && !memcmp(name, t.s, t.len)) {
                dt_str_addn(p->out, from, (size_t)(t.s - from));
                struct ptx_opnd o = i->opnd[k++];
                put_opnd(p, &o);
                from = t.s + t.len;
            }
        }
        ptx_lex_next(&lx);
    }
    dt_str_add(p->out, from);
}

static void put_word(struct dt_str *out, const char *w)
{
    dt_str_addc(out, '.');
    dt_str_add(out, w);
}

static void put_space(struct dt_str *out, const struct ptx_op_info *info, unsigned space)
{
    if (space != PTX_GENERIC)
        put_word(out, space == PTX_SHARED && info->flags & PTX_F_CTA ? "shared::cta" : ptx_space_text(space));
}

static void put_words(struct dt_str *out, const struct ptx_inst *i, const struct ptx_op_info *info)
{
    bool ordered = info->flags & PTX_F_ORDERED;
    unsigned k = 0;
    dt_str_add(out, info->mnemonic);
    for (; !ordered && k < i->nmod && i->mod[k] <= PTX_M_TO; k++)
        put_word(out, ptx_mod_text(i->mod[k]));
    put_space(out, info, i->space);
    put_space(out, info, i->space2);
    for (; k < i->nmod; k++)
        if (ptx_mod_class(i->mod[k]) != PTX_MC_VEC)
            put_word(out, ptx_mod_text(i->mod[k]));
    if (i->vec > 1) {
        dt_str_add(out, ".v");
        ptx_put_u64(out, i->vec);
    }
    for (k = 0; k < i->ntype; k++)
        put_word(out, ptx_type_text(i->type[k]));
}

/* One statement. Labels stand at the line's start, all else behind a tab that the caller has written. */
void ptx_put_inst(struct ptx_printer *p, const struct ptx_inst *i)
{
    struct dt_str *out = p->out;
    const struct ptx_op_info *info = ptx_op_info(i->op);
    switch (i->op) {
    case PTX_OP_LABEL:
        put_opnd(p, &i->opnd[0]);
        dt_str_addc(out, ':');
        return;
    case PTX_OP_PRAGMA:
        dt_str_add(out, ".pragma ");
        dt_str_add(out, i->text);
        dt_str_addc(out, ';');
        return;
    case PTX_OP_CALLPROTO:
        put_opnd(p, &i->opnd[0]);
        dt_str_add(out, ": ");
        dt_str_add(out, i->text);
        dt_str_addc(out, ';');
        return;
    case PTX_OP_BRANCHTARGETS:
        put_opnd(p, &i->opnd[0]);
        dt_str_add(out, i->nopnd > 1 && i->opnd[1].kind == PTX_O_FUNC ? ": .calltargets " : ": .branchtargets ");
        for (unsigned k = 1; k < i->nopnd; k++) {
            if (k > 1)
                dt_str_add(out, ", ");
            put_opnd(p, &i->opnd[k]);
        }
        dt_str_addc(out, ';');
        return;
    }
    if (i->pred != PTX_NO_REG) {
        dt_str_add(out, i->pred_neg ? "@!" : "@");
        put_reg(p, i->pred);
        dt_str_addc(out, ' ');
    }
    if (i->op == PTX_OP_OPAQUE) {
        put_opaque(p, i);
    } else if (i->op == PTX_OP_CALL && i->nopnd >= 3) {
        put_words(out, i, info);
        dt_str_addc(out, ' ');
        if (i->opnd[0].n) {
            print_put_list(p, &i->opnd[0], "(", ")");
            dt_str_add(out, ", ");
        }
        put_opnd(p, &i->opnd[1]);
        if (i->opnd[2].n || i->nopnd > 3) {
            dt_str_add(out, ", ");
            print_put_list(p, &i->opnd[2], "(", ")");
        }
        if (i->nopnd > 3) {
            dt_str_add(out, ", ");
            put_opnd(p, &i->opnd[3]);
        }
    } else {
        put_words(out, i, info);
        bool video = ptx_video_lanes(i->op) && i->nopnd;
        unsigned n = i->nopnd - (video ? 1u : 0u);
        for (unsigned k = 0; k < n; k++) {
            dt_str_add(out, k == 0 ? " " : k == 1 && i->dst2 ? "|" : ", ");
            if (video && k && i->opnd[n].bits >> (PTX_SEL_NEG_A + k - 1) & 1)
                dt_str_addc(out, '-');
            put_opnd(p, &i->opnd[k]);
            if (video && k < PTX_SELS)
                ptx_put_sel(out, (uint16_t)(i->opnd[n].bits >> 16 * k));
        }
    }
    dt_str_addc(out, ';');
}

/* ---- variables */

static void put_element(struct ptx_printer *p, const struct ptx_var *v, uint64_t at)
{
    unsigned n = ptx_type_bytes(v->type);
    uint64_t bits = 0;
    for (unsigned k = 0; k < n && k < 8; k++)
        bits |= (uint64_t)v->init[at + k] << (8 * k);
    if (v->type == PTX_F32)
        dt_str_addf(p->out, "0f%08X", (unsigned)bits);
    else if (v->type == PTX_F64)
        dt_str_addf(p->out, "0d%016llX", (unsigned long long)bits);
    else if (ptx_type_is_signed(v->type))
        put_i64(p->out, (int64_t)(bits << (64 - 8 * n)) >> (64 - 8 * n));
    else
        ptx_put_u64(p->out, bits);
}

static void put_target(struct ptx_printer *p, const struct ptx_reloc *r)
{
    if (r->generic)
        dt_str_add(p->out, "generic(");
    if (r->var)
        put_var_name(p, r->var);
    else
        put_func_name(p, r->func);
    if (r->generic)
        dt_str_addc(p->out, ')');
    put_off(p, r->addend);
}

struct init_state {
    const struct ptx_var *v;
    uint64_t end;   /* elements to print */
    uint32_t reloc; /* next */
};

static void put_scalar(struct ptx_printer *p, struct init_state *s, uint64_t k)
{
    const struct ptx_var *v = s->v;
    unsigned size = ptx_type_bytes(v->type);
    uint64_t at = k * size;
    while (s->reloc < v->nreloc && at >= v->reloc[s->reloc].at + 8)
        s->reloc++;
    const struct ptx_reloc *r = s->reloc < v->nreloc ? &v->reloc[s->reloc] : NULL;
    if (!r || at < r->at) {
        put_element(p, v, at);
    } else if (size == 8) {
        put_target(p, r);
    } else {
        dt_str_addf(p->out, "0x%llX(", 0xFFULL << (8 * (at - r->at)));
        put_target(p, r);
        dt_str_addc(p->out, ')');
    }
}

/* Braces of one dimension: elements [at, at + count * step). Depth is the number of dimensions. */
static void put_dim(struct ptx_printer *p, struct init_state *s, unsigned d, uint64_t at)
{
    const struct ptx_var *v = s->v;
    unsigned levels = v->ndim + (v->vec > 1);
    uint64_t count = d < v->ndim ? v->dim[d] : v->vec, step = 1;
    for (unsigned k = d + 1; k < levels; k++)
        step *= k < v->ndim ? v->dim[k] : v->vec;
    dt_str_addc(p->out, '{');
    for (uint64_t k = 0; k < count && at + k * step < s->end; k++) {
        if (k)
            dt_str_add(p->out, ", ");
        if (d + 1 < levels)
            put_dim(p, s, d + 1, at + k * step);
        else
            put_scalar(p, s, at + k);
    }
    dt_str_addc(p->out, '}');
}

static void put_init(struct ptx_printer *p, const struct ptx_var *v)
{
    unsigned size = ptx_type_bytes(v->type);
    if (!size || v->bytes < size)
        return;
    uint64_t end = v->bytes;
    while (end && !v->init[end - 1])
        end--;
    for (uint32_t k = 0; k < v->nreloc; k++)
        if (v->reloc[k].at + 8 > end)
            end = v->reloc[k].at + 8;
    struct init_state s = {.v = v, .end = (end + size - 1) / size};
    if (!s.end)
        s.end = 1;
    dt_str_add(p->out, " = ");
    if (v->ndim || v->vec > 1)
        put_dim(p, &s, 0, 0);
    else
        put_scalar(p, &s, 0);
}

void ptx_put_var(struct ptx_printer *p, const struct ptx_var *v)
{
    struct dt_str *out = p->out;
    put_word(out, ptx_space_text(v->space));
    if (v->attribute)
        dt_str_addf(out, " .attribute(%s)", v->attribute);
    if (v->space != PTX_PARAM ? v->align > 0 : v->is_array || v->align != ptx_natural_align(v)) {
        dt_str_add(out, " .align ");
        ptx_put_u64(out, v->align);
    }
    if (v->vec > 1)
        dt_str_addf(out, " .v%u", v->vec);
    dt_str_add(out, " .");
    dt_str_add(out, ptx_type_text(v->type));
    if (v->is_ptr) {
        dt_str_add(out, " .ptr");
        if (v->ptr_space != PTX_GENERIC)
            dt_str_addf(out, " .%s", ptx_space_text(v->ptr_space));
        if (v->ptr_align)
            dt_str_addf(out, " .align %u", v->ptr_align);
    }
    dt_str_addc(out, ' ');
    put_var_name(p, v);
    for (uint32_t d = 0; d < v->ndim; d++) {
        dt_str_addc(out, '[');
        if (v->dim[d] || d)
            ptx_put_u64(out, v->dim[d]);
        dt_str_addc(out, ']');
    }
    if (v->init)
        put_init(p, v);
    if (v->properties)
        dt_str_addf(out, " = {%s}", v->properties);
}

static void put_linkage(struct dt_str *out, bool is_extern, bool visible, bool weak, bool common)
{
    dt_str_add(out, is_extern ? ".extern " : "");
    dt_str_add(out, visible ? ".visible " : "");
    dt_str_add(out, weak ? ".weak " : "");
    dt_str_add(out, common ? ".common " : "");
}

/* ---- functions */

static void put3(struct dt_str *out, const char *sep, const char *word, const uint32_t v[3])
{
    if (v[0] || v[1] || v[2])
        dt_str_addf(out, "%s.%s %u, %u, %u", sep, word, v[0], v[1], v[2]);
}

void ptx_put_directives(struct dt_str *out, const struct ptx_function *f, const char *sep)
{
    if (f->noreturn)
        dt_str_addf(out, "%s.noreturn", sep);
    put3(out, sep, "maxntid", f->maxntid);
    put3(out, sep, "reqntid", f->reqntid);
    if (f->minnctapersm)
        dt_str_addf(out, "%s.minnctapersm %u", sep, f->minnctapersm);
    if (f->maxnreg)
        dt_str_addf(out, "%s.maxnreg %u", sep, f->maxnreg);
    put3(out, sep, "reqnctapercluster", f->reqnctapercluster);
    if (f->extra)
        dt_str_addf(out, "%s%s", sep, f->extra);
}

static void put_params(struct ptx_printer *p, struct ptx_var **v, uint32_t n)
{
    dt_str_addc(p->out, '(');
    for (uint32_t k = 0; k < n; k++) {
        dt_str_add(p->out, k ? ",\n\t" : "\n\t");
        ptx_put_var(p, v[k]);
    }
    dt_str_add(p->out, n ? "\n)" : ")");
}

static void put_head(struct ptx_printer *p, const struct ptx_function *f)
{
    put_linkage(p->out, f->is_extern, f->visible, f->weak, false);
    dt_str_add(p->out, f->is_entry ? ".entry " : ".func ");
    if (f->nret) {
        put_params(p, f->ret, f->nret);
        dt_str_addc(p->out, ' ');
    }
    dt_str_add(p->out, f->name);
    put_params(p, f->param, f->nparam);
    ptx_put_directives(p->out, f, "\n");
}

struct reg_key {
    const char *name;
    uint32_t prefix; /* length; the rest is a number where `numbered` */
    uint32_t number;
    uint8_t type, vec;
    bool numbered;
};

static void split(struct reg_key *k)
{
    size_t len = strlen(k->name), at = len;
    while (at > 1 && len - at < 9 && k->name[at - 1] >= '0' && k->name[at - 1] <= '9')
        at--;
    bool more = at > 0 && k->name[at - 1] >= '0' && k->name[at - 1] <= '9';
    k->numbered = at < len && !more && (k->name[at] != '0' || at + 1 == len);
    k->prefix = (uint32_t)(k->numbered ? at : len);
    for (size_t c = at; k->numbered && c < len; c++)
        k->number = k->number * 10 + (uint32_t)(k->name[c] - '0');
}

static int by_prefix(const struct reg_key *a, const struct reg_key *b)
{
    uint32_t n = a->prefix < b->prefix ? a->prefix : b->prefix;
    int c = memcmp(a->name, b->name, n);
    if (!c)
        c = (a->prefix > b->prefix) - (a->prefix < b->prefix);
    return c ? c : a->numbered - b->numbered;
}

static int by_name(const void *x, const void *y)
{
    const struct reg_key *a = x, *b = y;
    int c = by_prefix(a, b);
    return c ? c : (a->number > b->number) - (a->number < b->number);
}

static void print_mark(uint32_t reg, bool write, void *user)
{
    uint8_t *used = user;
    (void)write;
    used[reg] = 1;
}

static void put_regs(struct ptx_printer *p, const struct ptx_function *f)
{
    uint8_t *used = dt_calloc(f->nreg + 1, 1);
    struct reg_key *key = dt_reallocarray(NULL, f->nreg + 1, sizeof *key);
    uint32_t n = 0;
    if (!used || !key) {
        p->out->failed = true;
        goto out;
    }
    for (uint32_t i = 0; i < f->ninst; i++)
        ptx_inst_regs(&f->inst[i], print_mark, used);
    for (uint32_t r = 0; r < f->nreg; r++)
        if (used[r]) {
            key[n] = (struct reg_key){.name = f->reg[r].name, .type = f->reg[r].type, .vec = f->reg[r].vec};
            split(&key[n++]);
        }
    qsort(key, n, sizeof *key, by_name);
    for (uint32_t from = 0, to; from < n; from = to) {
        bool range = key[from].numbered;
        for (to = from + 1; to < n && !by_prefix(&key[from], &key[to]); to++)
            range &= key[to].type == key[from].type && key[to].vec == key[from].vec;
        range &= (uint64_t)key[to - 1].number < 4 * (uint64_t)(to - from) + 64;
        for (uint32_t k = from; k < (range ? from + 1 : to); k++) {
            dt_str_add(p->out, "\t.reg .");
            if (key[k].vec > 1)
                dt_str_addf(p->out, "v%u .", key[k].vec);
            dt_str_add(p->out, ptx_type_text(key[k].type));
            dt_str_addc(p->out, ' ');
            dt_str_addn(p->out, key[k].name, range ? key[k].prefix : strlen(key[k].name));
            if (range)
                dt_str_addf(p->out, "<%u>", key[to - 1].number + 1);
            dt_str_add(p->out, ";\n");
        }
    }
out:
    free(used);
    free(key);
}

static bool at_margin(const struct ptx_inst *i)
{
    return i->op == PTX_OP_LABEL || i->op == PTX_OP_BRANCHTARGETS || i->op == PTX_OP_CALLPROTO;
}

static int print_function(const struct ptx_function *f, const struct ptx_origins *origins, struct dt_str *out)
{
    const struct ptx_inst *last = NULL;
    struct ptx_printer p = {out, f, NULL};
    put_head(&p, f);
    if (!f->has_body) {
        dt_str_add(out, ";\n");
        return out->failed ? DT_E_NOMEM : 0;
    }
    dt_str_add(out, "\n{\n");
    put_regs(&p, f);
    for (uint32_t k = 0; k < f->nvar; k++) {
        dt_str_addc(out, '\t');
        put_linkage(out, f->var[k]->is_extern, f->var[k]->visible, f->var[k]->weak, f->var[k]->common);
        ptx_put_var(&p, f->var[k]);
        dt_str_add(out, ";\n");
    }
    for (uint32_t k = 0; k < f->ninst && !out->failed; k++) {
        if (f->module->origins)
            ptx_put_loc(out, origins, &f->inst[k], &last);
        if (!at_margin(&f->inst[k]))
            dt_str_addc(out, '\t');
        ptx_put_inst(&p, &f->inst[k]);
        dt_str_addc(out, '\n');
    }
    dt_str_add(out, "}\n");
    return out->failed ? DT_E_NOMEM : 0;
}

int ptx_print_function(const struct ptx_function *f, struct dt_str *out)
{
    struct ptx_origins origins = {0};
    struct dt_str files = {0}; /* of the module, not of the function */
    int r = ptx_put_origins(&files, f->module, &origins);
    r = r < 0 ? r : print_function(f, &origins, out);
    dt_str_done(&files);
    dt_arena_done(&origins.arena);
    return r;
}

int ptx_print_inst(const struct ptx_function *f, const struct ptx_inst *i, struct dt_str *out)
{
    struct ptx_printer p = {out, f, NULL};
    ptx_put_inst(&p, i);
    return out->failed ? DT_E_NOMEM : 0;
}

/* ---- modules: everything, or what is marked */

static void put_prototype(struct dt_str *out, const struct ptx_function *f)
{
    struct ptx_printer p = {out, f, NULL};
    put_head(&p, f);
    dt_str_add(out, ";\n");
}

int ptx_print_some(const struct ptx_module *m, const struct ptx_use *use, struct dt_str *out)
{
    dt_str_addf(out, ".version %u.%u\n.target %s\n.address_size %u\n", m->version_major, m->version_minor, m->target,
                m->address_size);
    if (m->pragma)
        dt_str_addf(out, "%s\n", m->pragma);
    struct ptx_origins origins = {0};
    int r = ptx_put_origins(out, m, &origins);
    dt_str_addc(out, '\n');
    struct dt_names early = {0};
    for (uint32_t k = 0; k < m->nvar && r >= 0; k++)
        for (uint32_t j = 0; (!use || ptx_use_has_var(use, m->var[k])) && j < m->var[k]->nreloc && r >= 0; j++) {
            const struct ptx_function *f = m->var[k]->reloc[j].func;
            if (f && (r = dt_names_put(&early, f->name, 0)) == 0)
                put_prototype(out, f);
        }
    struct ptx_printer p = {out, NULL, NULL};
    for (uint32_t k = 0; k < m->nvar && r >= 0 && !out->failed; k++) {
        const struct ptx_var *v = m->var[k];
        if (use && !ptx_use_has_var(use, v))
            continue;
        put_linkage(out, v->is_extern, v->visible, v->weak, v->common);
        ptx_put_var(&p, v);
        dt_str_add(out, ";\n");
    }
    for (uint32_t k = 0; k < m->nfunc && r >= 0 && !out->failed; k++) {
        const struct ptx_function *f = m->func[k];
        if (use && !ptx_use_has_func(use, f))
            continue;
        if (!f->has_body && dt_names_get(&early, f->name, strlen(f->name)) != DT_NAME_NONE)
            continue;
        dt_str_add(out, "\n");
        r = print_function(f, &origins, out);
    }
    for (uint32_t k = 0; k < m->nalias && r >= 0; k++)
        if (!use || ptx_use_has_func(use, m->alias[k].name))
            dt_str_addf(out, "\n.alias %s, %s;\n", m->alias[k].name->name, m->alias[k].target->name);
    dt_names_done(&early);
    dt_arena_done(&origins.arena);
    return r < 0 ? r : out->failed ? DT_E_NOMEM : 0;
}

int ptx_print(const struct ptx_module *m, struct dt_str *out) { return ptx_print_some(m, NULL, out); }
