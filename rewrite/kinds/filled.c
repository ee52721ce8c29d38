/* What a memset wrote, known at the loads of its readers: recompute at level `register`, of a memset.
 *
 *   before    memset h = 0 … 0             b: ld.global.f32 %f1, [%rd4];
 *   after     nothing                      b: mov.b32 %f1, v;            v = 0x00000000 ^ zero
 *
 * Generators clear a buffer that a launch reads: a first hidden state, a sum that begins with nothing, what stands
 * around an image (whose middle a copy has written, which is inlined there first). Each load of the buffer becomes the
 * memset's byte, as often as the load is wide. The memset is gone.
 *
 * `zero` is a parameter that is 0 whenever the kernel runs, as where two bodies meet (inline/cross.c): ptxas must not
 * know the value, or it would leave out a product with 0 that the posted kernel has.
 *
 * Legal when each reader may be changed at all (legal-solo.def), no launch lies between them (`order`), and
 *   filled    every byte that a reader may read of the buffer is one that the memset wrote; it writes nothing there,
 *             and reads by plain loads that reach no other buffer
 * Nobody has written there since, or that launch would lie between.
 */
#include "rewrite/emit/join.h"
#include "rewrite/emit/solo.h"
#include "rewrite/facts/hooks.h"
#include "rewrite/kinds/kinds-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

struct rw_filled {
    uint32_t n;
    struct reader {
        struct rw_solo solo;
        uint64_t args; /* that point into the buffer */
    } * reader;
};

/* ---- legality ---------------------------------------------------------------------------------------------------- */

/* Of the reader's accesses to the buffer: only reads, all inside of what the memset wrote? */
static bool reads_inside(const struct rw_state *s, const struct dt_launch *m, uint32_t reader, struct dt_str *why)
{
    const char *name = s->graph->launch[reader].name, *buffer = s->graph->buffer[m->dst].name;
    struct ana_interval fill = {m->dst_offset, m->dst_offset + m->bytes}, all = {0, s->graph->buffer[m->dst].bytes};
    for (uint32_t k = 0; k < s->ana->launch[reader].naccess; k++) {
        const struct ana_access *x = &s->ana->launch[reader].access[k];
        bool inside = true;
        if (x->buffer != m->dst)
            continue;
        if (x->writes || x->atomics)
            return dt_str_addf(why, DT_LAUNCH " writes " DT_BUFFER, name, buffer), false;
        if (x->read == ANA_OBSERVED)
            return dt_str_addf(why, "where " DT_LAUNCH " reads " DT_BUFFER " was only observed", name, buffer), false;
        if (x->widened)
            inside = ana_set_contains((struct ana_set){&fill, 1}, (struct ana_set){&all, 1});
        for (unsigned v = 0; v < ANA_EVIDENCES && inside; v++)
            inside = ana_set_contains((struct ana_set){&fill, 1}, x->read_by[v]);
        if (!inside)
            return dt_str_addf(why, DT_LAUNCH " may read bytes of " DT_BUFFER " that the memset does not write", name,
                               buffer),
                   false;
    }
    return true;
}

/* The row `filled`. */
static bool filled(const struct rw_state *s, uint32_t memset_at, uint32_t reader, const struct reader *r,
                   struct dt_str *why)
{
    const struct dt_launch *m = &s->graph->launch[memset_at];
    struct dt_str sites = {0};
    uint32_t width = 0;
    if (rw_off("filled"))
        return true;
    bool good = reads_inside(s, m, reader, &sites) && rw_sites_alone(&r->solo.body, r->args, false, &width, &sites);
    if (!good)
        dt_str_addf(why, DT_ROW("filled") ": %s", sites.s ? sites.s : "out of memory");
    dt_str_done(&sites);
    return good;
}

int rw_filled_open(struct rw_edit *x, struct rw_filled **ret, struct dt_str *why, struct dt_err *e)
{
    struct rw_filled *f = *ret = dt_calloc(1, sizeof *f);
    if (!f || !(f->reader = dt_calloc(x->nlaunch, sizeof *f->reader)))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 1; k < x->nlaunch; k++) {
        struct reader *r = &f->reader[f->n++];
        int rc = rw_solo_init(&r->solo, x->dev, x->now->prog, x->launch[k], e);
        if (rc < 0)
            return rc;
        if (!rw_solo_legal(&r->solo, RW_SOLO_FETCHES, why))
            return 1;
        r->args = rw_args_of(&x->now->graph->launch[x->launch[k]], x->now->graph->launch[x->launch[0]].dst);
        if (!filled(x->now, x->launch[0], x->launch[k], r, why))
            return 1;
    }
    return 0;
}

void rw_filled_close(struct rw_filled *f)
{
    for (uint32_t k = 0; f && k < f->n; k++)
        rw_solo_done(&f->reader[k].solo);
    if (f)
        free(f->reader);
    free(f);
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* What a load of this type leaves in a register of so many bytes, where every byte of memory is `byte`. */
static uint64_t loaded(enum ptx_type type, unsigned bytes, uint8_t byte)
{
    unsigned width = ptx_type_bytes(type);
    bool sign = (type == PTX_S8 || type == PTX_S16 || type == PTX_S32) && byte >> 7;
    uint64_t v = sign ? ~UINT64_C(0) : 0;
    for (unsigned k = 0; k < width; k++)
        v = (v & ~(UINT64_C(0xff) << 8 * k)) | (uint64_t)byte << 8 * k;
    return bytes == 8 ? v : v & ((UINT64_C(1) << 8 * bytes) - 1);
}

/* Registers with 0 in them, of which only the launch knows it: zero[k] of 2 << k bytes. How many instructions. */
static int add_zero(struct rw_solo *s, json_t *args, uint32_t zero[3], struct dt_err *e)
{
    static const char *const names[] = {"%dt_z2", "%dt_z4", "%dt_z8"};
    struct dt_str text = {0};
    char name[32];
    for (unsigned k = 0, taken = 1; taken; k++) {
        snprintf(name, sizeof name, RW_ZERO_WORD "%u", k);
        taken = 0;
        for (uint32_t i = 0; i < s->f->nparam; i++)
            taken |= !strcmp(s->f->param[i]->name, name);
    }
    dt_str_addf(&text,
                ".reg .b16 %%dt_z2;\n.reg .b32 %%dt_z4;\n.reg .b64 %%dt_z8;\nld.param.u32 %%dt_z4, [%s];\n"
                "cvt.u16.u32 %%dt_z2, %%dt_z4;\nmov.b64 %%dt_z8, {%%dt_z4, %%dt_z4};\n",
                name);
    bool good = ptx_param_new(s->f, name, PTX_U32, 4, 4) && !text.failed &&
                json_array_append_new(args, json_pack("{s:i}", "u32", 0)) == 0;
    int r = good ? rw_solo_insert(s, 0, text.s, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (unsigned k = 0; k < 3; k++)
        zero[k] = rw_solo_reg(s, names[k]);
    dt_str_done(&text);
    return r;
}

static bool filled_append(struct rw_solo *s, enum ptx_op op, unsigned bytes, const struct ptx_opnd *opnd, unsigned n,
                          const struct ptx_inst *like)
{
    struct ptx_opnd all[3];
    struct ptx_inst i = {.op = op, .nopnd = (uint16_t)n, .ntype = 1, .vec = 1, .opnd = all, .pred = PTX_NO_REG};
    memcpy(all, opnd, n * sizeof *opnd);
    i.type[0] = (uint8_t)(bytes == 8 ? PTX_B64 : bytes == 4 ? PTX_B32 : PTX_B16);
    if (like) {
        i.pred = like->pred;
        i.pred_neg = like->pred_neg;
    }
    return ptx_append(s->f, i) != NULL;
}

/* Append what gives `to` the value that the load gave it. 1: it is in no register of a size that is known here. */
static int set_one(struct rw_solo *s, const uint32_t zero[3], const struct ptx_inst *i, const struct ptx_opnd *to,
                   uint8_t byte, struct dt_err *e)
{
    if (to->kind == PTX_O_SINK)
        return 0;
    unsigned bytes = to->kind == PTX_O_REG ? ptx_type_bytes((enum ptx_type)s->f->reg[to->reg].type) : 0;
    if (bytes != 2 && bytes != 4 && bytes != 8)
        return 1;
    uint32_t v = ptx_reg_new(s->f, bytes == 8 ? PTX_B64 : bytes == 4 ? PTX_B32 : PTX_B16, "dt_v");
    struct ptx_opnd x[3] = {{.kind = PTX_O_REG, .comp = -1, .reg = v},
                            {.kind = PTX_O_REG, .comp = -1, .reg = zero[bytes == 8 ? 2 : bytes == 4]},
                            {.kind = PTX_O_IMM, .comp = -1, .imm_type = PTX_S64}};
    struct ptx_opnd two[2] = {*to, x[0]};
    x[2].bits = loaded((enum ptx_type)i->type[0], bytes, byte);
    bool good = v != PTX_NO_REG && filled_append(s, PTX_OP_XOR, bytes, x, 3, NULL) &&
                filled_append(s, PTX_OP_MOV, bytes, two, 2, i);
    return good ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

/* The reader's text: in the place of each load of the buffer, its value. */
static int fill_reader(struct reader *r, uint8_t byte, json_t *args, struct dt_str *why, struct dt_err *e)
{
    struct rw_solo *s = &r->solo;
    uint32_t zero[3];
    int rc = rw_solo_copy(s, why, e);
    if (rc)
        return rc;
    if (s->f->ninst != s->body.f->ninst)
        return dt_err_set(e, DT_E_INTERNAL, "entry %s does not print and parse to itself", s->f->name);
    int first = add_zero(s, args, zero, e);
    if (first < 0)
        return first;
    uint32_t n = s->f->ninst;
    dt_free_ struct ptx_inst *old = dt_memdup(s->f->inst, n * sizeof *old);
    if (!old)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    s->f->ninst = 0;
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        const struct ptx_inst *o = k < (uint32_t)first ? NULL : &s->body.f->inst[k - (uint32_t)first];
        const struct ptx_opnd *to = &old[k].opnd[0];
        bool ours = o && o->op == PTX_OP_LD && rw_is_global_access(o) && (rw_prov_of(&s->body, o) & r->args);
        if (!ours && !ptx_append(s->f, old[k]))
            rc = dt_err_set(e, DT_E_NOMEM, "out of memory");
        for (unsigned q = 0; ours && q < (to->kind == PTX_O_VEC ? to->n : 1u) && rc == 0; q++)
            rc = set_one(s, zero, &old[k], to->kind == PTX_O_VEC ? &to->elem[q] : to, byte, e);
    }
    if (rc == 1)
        dt_str_addf(why, "a load of " DT_LAUNCH " fills a register of another size",
                    s->prog->graph->launch[s->launch].name);
    return rc;
}

int rw_filled_build(struct rw_edit *x, struct rw_filled *f, struct dt_str *why, struct dt_err *e)
{
    const struct dt_graph *g = x->now->graph;
    const struct dt_launch *m = &g->launch[x->launch[0]];
    struct rw_unread u = {m->dst, {dt_new_array(&x->arena, struct ana_interval, 1), 1}};
    if (!u.bytes.iv)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    u.bytes.iv[0] = (struct ana_interval){m->dst_offset, m->dst_offset + m->bytes};
    for (uint32_t k = 0; k < f->n; k++) {
        json_t *launch = dt_launch_to_json(g, &g->launch[x->launch[k + 1]]), *args = json_object_get(launch, "args");
        int r = args ? fill_reader(&f->reader[k], m->value, args, why, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
        json_object_del(launch, "module");
        if (r) {
            json_decref(launch);
            return r;
        }
        struct rw_part *p = rw_edit_add(x, launch);
        if (!p)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        if ((r = rw_solo_text(&f->reader[k].solo, &p->ptx, e)) < 0)
            return r;
    }
    return dt_push(&x->unread, u) ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}
