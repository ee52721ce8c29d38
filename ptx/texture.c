/* Texture and surface instructions (PTX §9.7.10, 9.7.11): their operands, and what an instruction may not be.
 *
 * A texture operand is one struct ptx_opnd with its names and coordinates (PTX_O_TEXTURE); behind it come the level or
 * the two gradients, then an offset, then a value to compare depths with. Offset and value may both be left out: of two
 * the first is the offset; one alone is the offset if it is a vector, or no float and the texture has one dimension.
 * Coordinates, offsets and gradients may have more elements than the geometry needs, as ptxas takes them; those are not
 * read. Layers and samples stand in front of the coordinates.
 *
 * Also here: the properties that .samplerref and .texref variables may have in their initialisers, and who uses
 * textures at all. Not here: what they mean (softgpu/exec/sample.c).
 */
#include <stdlib.h>
#include <string.h>

#include "ptx/ptx-priv.h"
#include "ptx/reach.h"

/* ---- operands */

static unsigned dims_of(const struct ptx_inst *i, bool *ret_layered, bool *ret_cube, bool *ret_samples)
{
    enum ptx_mod geom = ptx_mod_of(i, PTX_MC_GEOM), dim = ptx_mod_of(i, PTX_MC_DIM);
    *ret_layered = geom == PTX_M_A1D || geom == PTX_M_A2D || geom == PTX_M_ACUBE || geom == PTX_M_A2DMS;
    *ret_cube = geom == PTX_M_CUBE || geom == PTX_M_ACUBE;
    *ret_samples = geom == PTX_M_D2MS || geom == PTX_M_A2DMS;
    switch (geom) {
    case PTX_M_A1D: return 1;
    case PTX_M_A2D:
    case PTX_M_D2MS:
    case PTX_M_A2DMS: return 2;
    case PTX_M_CUBE:
    case PTX_M_ACUBE: return 3;
    default: return dim == PTX_M_D1 ? 1 : dim == PTX_M_D2 ? 2 : dim == PTX_M_D3 ? 3 : 0;
    }
}

static bool is_float(const struct ptx_function *f, const struct ptx_opnd *o)
{
    return o->kind == PTX_O_IMM   ? o->imm_type == PTX_F32 || o->imm_type == PTX_F64
           : o->kind == PTX_O_REG ? f->reg[o->reg].type == PTX_F32
                                  : false;
}

static const struct ptx_opnd *texture_opnd(const struct ptx_inst *i)
{
    for (unsigned k = 0; k < i->nopnd; k++)
        if (i->opnd[k].kind == PTX_O_TEXTURE)
            return &i->opnd[k];
    return NULL;
}

struct ptx_texture ptx_texture_of(const struct ptx_function *f, const struct ptx_inst *i)
{
    struct ptx_texture t = {0};
    const struct ptx_opnd *o = texture_opnd(i);
    bool layered;
    t.dims = dims_of(i, &layered, &t.cube, &t.samples);
    if (!o)
        return t;
    unsigned at = 1;
    t.name = &o->elem[0];
    if (o->base_kind != PTX_O_NONE)
        t.sampler = &o->elem[at++];
    if (layered)
        t.layer = &o->elem[at++];
    t.coord = o->n > at ? &o->elem[at] : NULL;
    if (i->op < PTX_OP_TEX || i->op > PTX_OP_TLD4)
        return t;
    unsigned k = (unsigned)(o - i->opnd) + 1;
    if (i->op == PTX_OP_TEX_LEVEL)
        t.lod = &i->opnd[k++];
    if (i->op == PTX_OP_TEX_GRAD) {
        t.dx = &i->opnd[k++];
        t.dy = &i->opnd[k++];
    }
    if (k + 1 < i->nopnd ||
        (k < i->nopnd && (i->opnd[k].kind == PTX_O_VEC || (t.dims == 1 && !is_float(f, &i->opnd[k])))))
        t.offset = &i->opnd[k++];
    if (k < i->nopnd)
        t.compare = &i->opnd[k];
    return t;
}

/* ---- what is wrong */

/* A value of 32 bits: an integer or, `floats`, a float. */
static bool value_fits(const struct ptx_function *f, const struct ptx_opnd *o, bool floats)
{
    if (o->kind == PTX_O_IMM)
        return is_float(f, o) == floats;
    if (o->kind != PTX_O_REG || o->neg)
        return false;
    unsigned t = f->reg[o->reg].type;
    return t == PTX_B32 || (floats ? t == PTX_F32 : t == PTX_U32 || t == PTX_S32);
}

/* At least n values, as many as vectors have. */
static bool values_fit(const struct ptx_function *f, const struct ptx_opnd *o, unsigned count, unsigned n, bool floats)
{
    bool ok = count >= n && (count == 1 || count == 2 || count == 4);
    for (unsigned k = 0; ok && k < count; k++)
        ok = value_fits(f, &o[k], floats || (k >= n && is_float(f, &o[k])));
    return ok;
}

static bool list_fits(const struct ptx_function *f, const struct ptx_opnd *o, unsigned n, bool floats, bool bare)
{
    if (o->kind == PTX_O_VEC)
        return values_fit(f, o->elem, o->n, n, floats);
    return bare && n == 1 && value_fits(f, o, floats);
}

static const char *name_wrong(const struct ptx_function *f, const struct ptx_opnd *o, bool any, unsigned want)
{
    if (o->kind == PTX_O_REG) {
        unsigned t = f->reg[o->reg].type;
        return o->neg || (t != PTX_B64 && t != PTX_U64 && t != PTX_S64) ? "a handle has 64 bits" : NULL;
    }
    if (o->kind != PTX_O_VAR || o->off)
        return "a texture, sampler or surface is a variable or a register";
    unsigned t = o->var->type;
    return any         ? t == PTX_TEXREF || t == PTX_SAMPLERREF ? NULL : "a .texref or .samplerref is wanted"
           : t != want ? want == PTX_TEXREF       ? "a .texref is wanted"
                         : want == PTX_SAMPLERREF ? "a .samplerref is wanted"
                                                  : "a .surfref is wanted"
                       : NULL;
}

static const char *query_wrong(const struct ptx_function *f, const struct ptx_inst *i, const struct ptx_opnd *o)
{
    enum ptx_mod q = ptx_mod_of(i, PTX_MC_QUERY);
    bool size = q == PTX_M_WIDTH || q == PTX_M_HEIGHT || q == PTX_M_DEPTH;
    bool both = size || q == PTX_M_CHANNEL_DATA_TYPE || q == PTX_M_CHANNEL_ORDER || q == PTX_M_ARRAY_SIZE;
    if (q == PTX_M_NONE)
        return "a query is wanted";
    if (o->n != 1)
        return "a query has no coordinates";
    if (i->op == PTX_OP_SUQ         ? !both && q != PTX_M_MEMORY_LAYOUT
        : i->op == PTX_OP_TXQ_LEVEL ? !size
                                    : q == PTX_M_MEMORY_LAYOUT)
        return "a query that this instruction does not have";
    return name_wrong(f, &o->elem[0], i->op != PTX_OP_SUQ, PTX_SURFREF);
}

/* The words of surface instructions: how they meet the edge, how much they move. */
static const char *surface_words_wrong(const struct ptx_inst *i)
{
    unsigned t = i->type[0];
    enum ptx_mod cop = ptx_mod_of(i, PTX_MC_COP), op = ptx_mod_of(i, PTX_MC_ATOM), logic = ptx_mod_of(i, PTX_MC_BOOL);
    if (ptx_has(i, PTX_M_WRAP) || (ptx_mod_of(i, PTX_MC_EDGE) != PTX_M_NONE) == ptx_has(i, PTX_M_CLAMP))
        return "one of .trap, .clamp and .zero is wanted";
    if (i->vec > 1 && i->opnd[i->op == PTX_OP_SULD_B ? 0 : 1].kind != PTX_O_VEC)
        return "a vector is wanted";
    if (i->vec > 4 || i->vec * ptx_type_bytes((enum ptx_type)t) > 16)
        return "more than 16 bytes";
    if (cop != PTX_M_NONE &&
        (i->op == PTX_OP_SULD_B ? cop == PTX_M_LU || cop == PTX_M_WB || cop == PTX_M_WT
                                : cop != PTX_M_WB && cop != PTX_M_CG && cop != PTX_M_CS && cop != PTX_M_WT))
        return "a caching word that this instruction does not have";
    if (i->op != PTX_OP_SURED_B && i->op != PTX_OP_SURED_P)
        return NULL;
    if ((op == PTX_M_NONE) == (logic == PTX_M_NONE) || logic == PTX_M_XOR || op == PTX_M_INC || op == PTX_M_DEC ||
        op == PTX_M_CAS || op == PTX_M_EXCH)
        return "one of .add, .min, .max, .and and .or is wanted";
    if (i->opnd[1].kind == PTX_O_VEC)
        return "a reduction of one value is wanted";
    if (i->op == PTX_OP_SURED_P)
        return t == PTX_B64 && op != PTX_M_MIN && op != PTX_M_MAX ? ".b64 has .min and .max" : NULL;
    bool ok = logic != PTX_M_NONE ? t == PTX_B32 : t != PTX_B32 && (t != PTX_S64 || op != PTX_M_ADD);
    return ok ? NULL : "a type that the operation does not have";
}

static const char *fetch_words_wrong(const struct ptx_inst *i, bool cube, bool samples)
{
    if (i->vec != (i->type[0] == PTX_F16X2 ? 2 : 4) || i->opnd[0].kind != PTX_O_VEC)
        return "four elements are wanted, of .f16x2 two";
    if ((cube && i->type[1] != PTX_F32) || (samples && i->type[1] != PTX_S32))
        return "coordinates of this geometry have another type";
    if (samples && i->op != PTX_OP_TEX && i->op != PTX_OP_TEX_BASE)
        return "samples have no levels";
    if (i->op != PTX_OP_TLD4)
        return NULL;
    enum ptx_mod geom = ptx_mod_of(i, PTX_MC_GEOM);
    if (ptx_has(i, PTX_M_L) || ptx_has(i, PTX_M_R) == (ptx_mod_of(i, PTX_MC_COMP) != PTX_M_NONE))
        return "one of .r, .g, .b and .a is wanted";
    return ptx_has(i, PTX_M_D1) || ptx_has(i, PTX_M_D3) || geom == PTX_M_A1D || samples ? "tld4 of this geometry"
                                                                                        : NULL;
}

const char *ptx_texture_wrong(const struct ptx_function *f, const struct ptx_inst *i)
{
    const struct ptx_opnd *o = texture_opnd(i);
    bool layered, cube, samples, fetch = i->op >= PTX_OP_TEX && i->op <= PTX_OP_TLD4;
    if (i->op == PTX_OP_ISTYPEP)
        return i->opnd[1].kind == PTX_O_REG ? NULL : "a register is wanted";
    if (!o || !o->n)
        return "a texture or surface is wanted";
    if (i->op == PTX_OP_TXQ || i->op == PTX_OP_TXQ_LEVEL || i->op == PTX_OP_SUQ)
        return query_wrong(f, i, o);
    unsigned dims = dims_of(i, &layered, &cube, &samples), names = 1 + (o->base_kind != PTX_O_NONE);
    if (!dims || (ptx_mod_of(i, PTX_MC_DIM) != PTX_M_NONE) == (ptx_mod_of(i, PTX_MC_GEOM) != PTX_M_NONE))
        return "one geometry is wanted";
    const char *wrong = name_wrong(f, &o->elem[0], false, fetch ? PTX_TEXREF : PTX_SURFREF);
    if (!wrong && names > 1)
        wrong = fetch ? name_wrong(f, &o->elem[1], false, PTX_SAMPLERREF) : "surfaces have no samplers";
    if (!wrong)
        wrong = fetch ? fetch_words_wrong(i, cube, samples) : surface_words_wrong(i);
    if (!wrong && !fetch && (cube || samples))
        wrong = "surfaces do not have this geometry";
    if (wrong)
        return wrong;
    /* numbers of layers and samples, coordinates */
    unsigned first = layered + samples, count = o->n - names, want = first + dims;
    const struct ptx_opnd *c = o->elem + names;
    bool floats = fetch && i->type[1] == PTX_F32;
    bool ok = count >= want && (count == 1 || count == 2 || count == 4);
    for (unsigned k = 0; ok && k < count; k++)
        ok = k < first ? value_fits(f, &c[k], false)
                       : value_fits(f, &c[k], floats) || (k >= want && value_fits(f, &c[k], !floats));
    if (!ok)
        return "coordinates that do not fit";
    if (!fetch)
        return NULL;
    struct ptx_texture t = ptx_texture_of(f, i);
    if (t.lod && !value_fits(f, t.lod, floats))
        return "a level that does not fit";
    if (t.dx && !(list_fits(f, t.dx, dims, true, false) && list_fits(f, t.dy, dims, true, false)))
        return "gradients that do not fit";
    if (t.offset && (cube || !list_fits(f, t.offset, dims, false, true)))
        return "an offset that does not fit";
    return t.compare && (ptx_has(i, PTX_M_D3) || samples || !value_fits(f, t.compare, true))
               ? "a value to compare that does not fit"
               : NULL;
}

/* ---- variables */

static const char *const modes[] = {"wrap", "mirror", "clamp_ogl", "clamp_to_edge", "clamp_to_border", NULL};
static const char *const filters[] = {"nearest", "linear", NULL};

static bool property_known(const char *name, const char *value)
{
    static const char *const numbers[] = {"width",
                                          "height",
                                          "depth",
                                          "channel_order",
                                          "array_size",
                                          "channel_data_type",
                                          "num_samples",
                                          "num_mipmap_levels",
                                          "normalized_coords",
                                          "memory_layout",
                                          "force_unnormalized_coords"};
    const char *const *words = !strncmp(name, "addr_mode_", 10) && name[10] >= '0' && name[10] <= '2' && !name[11]
                                   ? modes
                               : !strcmp(name, "filter_mode") ? filters
                                                              : NULL;
    for (; words && *words; words++)
        if (!strcmp(*words, value))
            return true;
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (!strcmp(numbers[k], name))
            return *value && strspn(value, "0123456789") == strlen(value);
    return false;
}

int ptx_texture_init(struct ptx_parser *ps, struct ptx_var *v)
{
    struct dt_str s = {0};
    int r = ptx_expect(ps, '{');
    while (r >= 0 && !ptx_is(ps, '}')) {
        struct ptx_tok name = ps->lx.t;
        ptx_next(ps);
        r = name.kind == PTX_TK_IDENT ? ptx_expect(ps, '=') : ptx_unexpected(ps, "a property");
        struct ptx_tok value = ps->lx.t;
        if (r < 0)
            break;
        char n[64], x[64];
        bool fits =
            name.len < sizeof n && value.len < sizeof x && (value.kind == PTX_TK_IDENT || value.kind == PTX_TK_NUM);
        memcpy(n, name.s, fits ? name.len : 0);
        memcpy(x, value.s, fits ? value.len : 0);
        n[fits ? name.len : 0] = x[fits ? value.len : 0] = 0;
        if (!property_known(n, x)) {
            r = ptx_perr_at(ps, name.line, name.col, "a property of textures, samplers and surfaces is wanted");
            break;
        }
        dt_str_addf(&s, "%s%s=%s", s.len ? "," : "", n, x);
        ptx_next(ps);
        if (!ptx_is(ps, '}'))
            r = ptx_expect(ps, ',');
    }
    if (r >= 0)
        r = ptx_expect(ps, '}');
    if (r >= 0 && s.len && !(v->properties = s.failed ? NULL : dt_arena_strndup(&ps->m->arena, s.s, s.len)))
        r = ptx_nomem(ps);
    dt_str_done(&s);
    return r;
}

int ptx_texture_property(const struct ptx_var *v, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = v->properties; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        if (strncmp(p, name, n) || p[n] != '=')
            continue;
        const char *value = p + n + 1;
        size_t len = strcspn(value, ",");
        const char *const *words = !strncmp(name, "addr_mode_", 10) ? modes : filters;
        for (int k = 0; words[k]; k++)
            if (strlen(words[k]) == len && !strncmp(words[k], value, len))
                return k;
        return (int)strtol(value, NULL, 10);
    }
    return -1;
}

/* ---- who uses them */

int ptx_texture_used(const struct ptx_function *f, const struct ptx_inst **ret)
{
    struct ptx_reach r;
    const struct ptx_inst *found = NULL;
    if (ptx_reach_build(f, &r) < 0)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < r.n; k++)
        for (uint32_t i = 0; i < r.func[k]->ninst && !found; i++)
            if (ptx_op_info(r.func[k]->inst[i].op)->flags & PTX_F_TEXTURE)
                found = &r.func[k]->inst[i];
    /* through a pointer it may call any function of the module */
    for (uint32_t k = 0; r.unknown && k < f->module->nfunc; k++)
        for (uint32_t i = 0; i < f->module->func[k]->ninst && !found; i++)
            if (!f->module->func[k]->is_entry && ptx_op_info(f->module->func[k]->inst[i].op)->flags & PTX_F_TEXTURE)
                found = &f->module->func[k]->inst[i];
    ptx_reach_done(&r);
    if (found)
        *ret = found;
    return found != NULL;
}
