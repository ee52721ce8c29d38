/* Block fusion at level `register`: a pointwise kernel inlined into its neighbour, at the instruction that its element
 * passes through.
 *
 *   epilogue: the guest consumes                     prologue: the guest produces
 *   before  st.global.f32 [%rd9+64], %f7;            before  ld.global.f32 %f7, [%rd9+64];
 *   after   [the same store, where others read it]   after   o = offset(%rd9) + 64           in the buffer, in bytes
 *           o = offset(%rd9) + 64                            t, b = digits of o              the guest's thread, block
 *           t, b = digits of o                               GUEST: st [..], v -> out = v ^ zero
 *           GUEST: ld v, [..] -> v = %f7 ^ zero              mov %f7, out;
 *
 * The host is the fused launch: its text, geometry, barriers, shared memory and clusters stay. The guest may have other
 * tile shapes. Its text stands once for each element that the host's instruction moves, each time with its own thread
 * numbers; its guards are evaluated there again. map.c proves that the digits are the thread's.
 *
 * Here is the host: its text goes by, and at each site instance.c takes its place. What crosses is hidden from ptxas
 * (cross.c).
 *
 * Legal when the ALSO and INLINE rows of legal.def hold. What could break it: an element that is stored twice (the
 * first value would be passed on); threads without an element (they would be lost); bytes that one side writes and the
 * other touches (the guest now runs while the host's other blocks do); arithmetic that ptxas makes otherwise (within a
 * body device/identity.c prevents it, at the joint the zero word). Not seen: a guest that does not use the value, so
 * that the host's other use of it becomes the only one.
 */
#include "rewrite/inline/site.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define MOST 65536 /* instructions of a fused entry */

const struct dt_launch *rw_inline_host(const struct rw_cand *c)
{
    return c->level <= RW_LEVEL_PROLOGUE && c->in ? c->facts.body[c->in->host].step->launch : NULL;
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static bool inline_dropped(const struct rw_inline *n, int side, uint32_t arg)
{
    return n->drop_arg && arg < 62 && ((n->args[side] >> arg) & 1);
}

/* The guest's parameters: those of the host with the same argument, or new ones. c->made.arg_keep and c->made.arg_same
 * say so to the launch. */
static int make_params(struct rw_join *j, const struct rw_inline *n)
{
    struct rw_cand *c = j->c;
    int host = n->host, guest = n->guest;
    const struct ptx_function *g = n->body[guest]->f;
    const struct dt_launch *hl = n->body[host]->step->launch, *gl = n->body[guest]->step->launch;
    uint32_t nhost = j->f->nparam, count = 0;
    struct ptx_var **own = dt_new_array(&c->arena, struct ptx_var *, nhost + 1);
    for (int s = 0; s < 2; s++) {
        c->made.arg_keep[s] = ~UINT64_C(0);
        if (!(c->made.arg_same[s] = dt_new_array(&c->arena, bool, n->body[s]->f->nparam + 1)))
            return rw_site_nomem(j);
    }
    if (!own)
        return rw_site_nomem(j);
    memcpy(own, j->f->param, nhost * sizeof *own);
    for (uint32_t i = 0; i < g->nparam; i++) {
        const struct ptx_var *v = g->param[i];
        struct ptx_var *to = NULL;
        if (inline_dropped(n, guest, i)) {
            c->made.arg_keep[guest] &= ~(UINT64_C(1) << i);
            continue;
        }
        for (uint32_t k = 0; k < nhost && k < hl->narg && i < gl->narg && !to; k++)
            if (!rw_is_zero_word(v) && !rw_is_zero_word(own[k]) && !inline_dropped(n, host, k) &&
                own[k]->bytes == v->bytes && own[k]->align == v->align && own[k]->is_array == v->is_array &&
                rw_same_arg(&hl->arg[k], &gl->arg[i]))
                to = own[k];
        c->made.arg_same[guest][i] = to != NULL;
        if (!to && !(to = rw_new_param(j, v)))
            return rw_site_nomem(j);
        if (!dt_push(&j->vars, (struct rw_var_pair){v, to, 0, guest}))
            return rw_site_nomem(j);
    }
    /* the producer's come first; the host's own list ends at nhost */
    struct ptx_var **list = dt_new_array(&j->m->arena, struct ptx_var *, j->f->nparam + 1);
    if (!list)
        return rw_site_nomem(j);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = pass == host ? 0 : nhost; i < (pass == host ? nhost : j->f->nparam); i++) {
            if (i < nhost && inline_dropped(n, host, i)) {
                c->made.arg_keep[host] &= ~(UINT64_C(1) << i);
                continue;
            }
            list[count++] = j->f->param[i];
        }
    j->f->param = list;
    j->f->nparam = count;
    for (uint32_t i = 0; i < count; i++)
        list[i]->index = i;
    c->made.zero_word = true;
    return rw_site_zero_word(j);
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

static int inline_prepare(struct rw_site *s)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    const struct rw_body *g = n->body[n->guest];
    s->p.side = n->guest;
    s->p.open = n->facts->open[n->guest];
    s->p.guest = &rw_site_guest;
    s->p.site = s;
    s->p.reg = dt_new_array(n->arena, uint32_t, g->f->nreg + 1);
    s->p.label = dt_new_array(n->arena, uint32_t, g->f->nlabel + 1);
    if (!s->p.reg || !s->p.label)
        return rw_site_nomem(j);
    for (uint32_t k = 0; k < g->f->nreg; k++) {
        if ((s->p.reg[k] = rw_site_reg(j, (enum ptx_type)g->f->reg[k].type, "g")) == PTX_NO_REG)
            return DT_E_NOMEM;
        j->f->reg[s->p.reg[k]].vec = g->f->reg[k].vec;
    }
    for (int k = 0; k < 3; k++) {
        s->p.tid[k] = s->p.ctaid[k] = PTX_NO_REG;
        for (unsigned d = 0; d < n->ndigit; d++) {
            bool block = n->digit[d].of == RW_CTAID;
            uint32_t *to = block ? &s->p.ctaid[k] : &s->p.tid[k];
            if ((block || n->digit[d].of == RW_TID) && n->digit[d].comp == k &&
                rw_reads_sreg(g->f, block ? PTX_SR_CTAID : PTX_SR_TID, k) &&
                (*to = rw_site_reg(j, PTX_U32, block ? "dt_ctaid" : "dt_tid")) == PTX_NO_REG)
                return DT_E_NOMEM;
        }
    }
    s->shadow = dt_new_array(n->arena, uint32_t, n->body[n->host]->f->nreg + 1);
    for (uint32_t k = 0; s->shadow && k <= n->body[n->host]->f->nreg; k++)
        s->shadow[k] = PTX_NO_REG;
    s->rem = rw_site_reg(j, PTX_U32, "dt_rem");
    s->tmp = rw_site_reg(j, PTX_U32, "dt_t");
    s->number = n->places ? rw_site_reg(j, PTX_U32, "dt_n") : PTX_NO_REG;
    s->place = n->places ? rw_site_reg(j, PTX_U32, "dt_place") : PTX_NO_REG;
    if (n->places && (s->number == PTX_NO_REG || s->place == PTX_NO_REG))
        return DT_E_NOMEM;
    s->none = n->partial ? rw_site_reg(j, PTX_PRED, "dt_none") : PTX_NO_REG;
    s->slot = s->bit = s->one = PTX_NO_REG;
    s->round = PTX_NO_REG;
    for (unsigned d = 0; d < n->ndigit; d++)
        if (n->digit[d].of == RW_ROUND && (s->round = rw_site_reg(j, PTX_U32, "dt_round")) == PTX_NO_REG)
            return DT_E_NOMEM;
        else if (n->digit[d].of == RW_SLOT && (s->digit[d] = rw_site_reg(j, PTX_U32, "dt_part")) == PTX_NO_REG)
            return DT_E_NOMEM;
    if (n->slice && n->ngroup > 1) {
        s->slot = rw_site_reg(j, PTX_U32, "dt_slot");
        s->bit = rw_site_reg(j, PTX_B64, "dt_bit");
        if (s->slot == PTX_NO_REG || (s->one = rw_site_reg(j, PTX_PRED, "dt_other")) == PTX_NO_REG)
            return DT_E_NOMEM;
    }
    return !s->shadow || s->rem == PTX_NO_REG || s->tmp == PTX_NO_REG ? DT_E_NOMEM : 0;
}

/* Is it a ld.param of an argument that points into the buffer? *ret: where, from its begin. */
static bool loads_argument(const struct rw_inline *n, const struct ptx_inst *i, uint64_t *ret)
{
    const struct rw_body *h = n->body[n->host];
    if (i->op != PTX_OP_LD || i->space != PTX_PARAM || i->opnd[1].base_kind != PTX_O_VAR)
        return false;
    for (uint32_t k = 0; k < h->f->nparam && k < 62; k++)
        if (h->f->param[k] == i->opnd[1].var && ((n->args[n->host] >> k) & 1)) {
            uint64_t at = 0;
            return rw_arg_address(&h->step->launch->arg[k], &at, ret) && i->opnd[1].off == (int64_t)at;
        }
    return false;
}

static struct ptx_inst move_number(const struct ptx_inst *load, struct ptx_opnd two[2], uint64_t value)
{
    struct ptx_inst i = *load;
    two[0] = load->opnd[0];
    two[1] = (struct ptx_opnd){.kind = PTX_O_IMM, .comp = -1, .imm_type = PTX_S64, .bits = value};
    i.op = PTX_OP_MOV;
    i.space = PTX_GENERIC;
    i.nmod = 0;
    i.opnd = two;
    return i;
}

/* The host's arithmetic on addresses of the buffer, once more on offsets: an offset must not be made of an address's
 * bits, or the fused launch's own maps would depend on where the buffer lies. rw_only_addresses has seen that it is
 * additions, and copies. */
static int emit_shadow(struct rw_site *s, const struct ptx_inst *i, const struct ptx_inst *o)
{
    struct rw_join *j = s->j;
    const struct rw_body *h = s->n->body[s->n->host];
    const uint64_t args = s->n->args[s->n->host];
    struct ptx_opnd opnd[4], two[2];
    struct ptx_inst x = *i;
    uint64_t offset;
    bool carries = loads_argument(s->n, o, &offset);
    if (i->op < PTX_OP_OPAQUE || (ptx_op_info(i->op)->flags & PTX_F_NODST) || !i->nopnd || i->nopnd > 4 ||
        i->opnd[0].kind != PTX_O_REG)
        return 0;
    if (carries) {
        x = move_number(i, two, offset);
    } else {
        if (i->op == PTX_OP_LD)
            return 0;
        memcpy(opnd, i->opnd, sizeof *opnd * i->nopnd);
        x.opnd = opnd;
        for (unsigned k = 1; k < i->nopnd; k++)
            if (opnd[k].kind == PTX_O_REG && (h->prov[opnd[k].reg] & args)) {
                if ((opnd[k].reg = rw_site_shadow(s, opnd[k].reg)) == PTX_NO_REG)
                    return DT_E_NOMEM;
                carries = true;
            }
        if (i->op == PTX_OP_CVTA) {
            x.op = PTX_OP_MOV;
            x.space = PTX_GENERIC;
            x.nmod = 0;
        }
    }
    if (!carries)
        return 0;
    if ((x.opnd[0].reg = rw_site_shadow(s, i->opnd[0].reg)) == PTX_NO_REG)
        return DT_E_NOMEM;
    return ptx_append(j->f, x) ? 0 : rw_site_nomem(j);
}

/* The host's entry in a module of its own, its instructions taken out. */
static int open_host(struct rw_join *j, const struct rw_inline *n, struct ptx_inst **ret_old, uint32_t *ret_n)
{
    const struct rw_body *h = n->body[n->host], *g = n->body[n->guest];
    const struct ptx_module *hm = h->f->module, *gm = g->f->module;
    int r = ptx_clone(hm, h->f->name, &j->m, j->e);
    if (r < 0)
        return r;
    j->f = ptx_find_function(j->m, h->f->name);
    if (!j->f || j->f->ninst != h->f->ninst || j->f->nreg != h->f->nreg || j->f->nparam != h->f->nparam)
        return dt_err_set(j->e, DT_E_INTERNAL, "entry %s does not print and parse to itself", h->f->name);
    if (gm->version_major * 100 + gm->version_minor > hm->version_major * 100 + hm->version_minor) {
        j->m->version_major = gm->version_major;
        j->m->version_minor = gm->version_minor;
    }
    j->m->target = dt_arena_strdup(&j->m->arena, rw_target_of(hm->target, gm->target));
    j->f->name = dt_arena_strdup(&j->m->arena, j->c->made.entry);
    j->f->nloc = 0; /* line numbers of one text do not fit a kernel made of two */
    for (uint32_t k = 0; k < j->m->nfunc && !n->facts->open[n->host]; k++)
        if (j->m->func[k] != j->f)
            dev_round_muls(j->m->func[k]);
    *ret_old = j->f->inst;
    *ret_n = j->f->ninst;
    j->f->inst = NULL;
    j->f->ninst = j->f->inst_cap = 0;
    return j->m->target && j->f->name ? 0 : rw_site_nomem(j);
}

static int emit_host(struct rw_site *s, struct ptx_inst *old, uint32_t nold)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    const struct rw_body *h = n->body[n->host];
    int r = 0;
    s->host = old;
    for (uint32_t k = 0; k < nold && r == 0; k++) {
        struct ptx_inst i = old[k];
        const struct ptx_inst *o = &h->f->inst[k];
        struct ptx_opnd two[2];
        uint64_t offset;
        bool joint_store = n->host == 0 && n->joins[0][k] && o->pred == PTX_NO_REG;
        if (!joint_store && !rw_later_may_wait_for(o) && (r = rw_later_flush(j, &s->later)) < 0)
            return r;
        if (!n->drop_arg && !n->nstaged && (r = emit_shadow(s, &i, o)) < 0)
            return r;
        i.line = i.col = 0;
        if (j->f->ninst > MOST)
            return dt_err_set(j->e, DT_E_TOO_LARGE, "the fused kernel has over %d instructions", MOST);
        const struct rw_staged_way *out = rw_staged_way_out(n, k);
        if (out && !out->taken)
            continue;
        if (out)
            i.pred = PTX_NO_REG;
        if (n->joins[n->host][k]) {
            r = n->nstaged ? rw_staged_emit(s, &i, k) : rw_site_emit(s, &i);
            continue;
        }
        if (n->drop_arg && loads_argument(n, o, &offset))
            i = move_number(&i, two, offset);
        if (!n->facts->open[n->host])
            dev_round_mul(&i);
        if (i.op == PTX_OP_LD && rw_is_global_access(o))
            rw_drop_hints_if_written(j->c, n->host, o, &i);
        if (i.op == PTX_OP_LD && i.space == PTX_CONST && j->far[n->host])
            i.space = PTX_GLOBAL;
        r = ptx_append(j->f, i) ? 0 : rw_site_nomem(j);
    }
    return r < 0 ? r : rw_later_flush(j, &s->later);
}

/* Functions that were added stand behind the entry: they must be before it. */
static void entry_last(struct rw_join *j)
{
    for (uint32_t k = 0; k + 1 < j->m->nfunc; k++)
        if (j->m->func[k] == j->f) {
            j->m->func[k] = j->m->func[k + 1];
            j->m->func[k + 1] = j->f;
        }
}

/* The host's tables, which are in the module already: the guest's with the same bytes are these; or they go to global
 * memory (emit/tables.c). */
static int host_tables(struct rw_join *j)
{
    rw_far_tables(j->c, j->far);
    for (uint32_t k = 0; k < j->m->nvar; k++) {
        struct ptx_var *v = j->m->var[k];
        if (v->space == PTX_CONST && rw_is_far(j->c, j->far, v))
            v->space = PTX_GLOBAL;
        else if (v->space == PTX_CONST && !dt_push(&j->vars, (struct rw_var_pair){v, v, 0, RW_ANY_SIDE}))
            return rw_site_nomem(j);
    }
    return 0;
}

/* The kernel, into c->made; c->in is what was found out. */
static int inline_join(struct rw_cand *c, struct dt_err *e)
{
    struct rw_join j = {.c = c, .e = e};
    struct rw_site s = {.j = &j, .n = c->in};
    struct ptx_inst *old = NULL;
    uint32_t n = 0;
    dt_str_done(&c->made.ptx);
    int r = open_host(&j, s.n, &old, &n);
    if (r == 0 && (r = host_tables(&j)) == 0 && (r = rw_copy_data(&j, s.n->guest)) == 0 &&
        (r = make_params(&j, s.n)) == 0 && (r = inline_prepare(&s)) == 0 && (r = rw_site_zero(&s)) == 0)
        r = emit_host(&s, old, n);
    if (r == 0 && rw_inline_tidy(j.f, s.n->body[s.n->host]->f->nlabel, &c->arena) < 0)
        r = rw_site_nomem(&j);
    if (r == 0) {
        entry_last(&j);
        r = rw_text(j.m, c->facts.prog, &c->made.ptx, e);
    }
    free(j.vars.p);
    free(j.funcs.p);
    ptx_module_free(j.m);
    return r;
}

int rw_inline_apply(struct rw_cand *c, enum rw_level level, struct dt_str *why, struct dt_err *e)
{
    int r = rw_inline_may(c, level, why, e);
    if (r || (r = rw_identity(c, why, e)))
        return r;
    if (c->facts.own[0] || c->facts.own[1]) {
        dt_str_add(why,
                   DT_ROW("arithmetic-identity") ": only the form with its contractions written out could be inlined");
        return 1;
    }
    c->redirect = dt_new(&c->arena, struct rw_redirect);
    if (!c->redirect)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    *c->redirect = (struct rw_redirect){.buffer = c->in->buffer,
                                        .keep_global = c->in->keep_store || c->in->in_place,
                                        .drop_arg = c->in->drop_arg,
                                        .args = {c->in->args[0], c->in->args[1]}};
    if (c->in->host == 1 && c->in->partial)
        c->redirect->gone = rw_launch_bytes(&c->arena, c->facts.ana, c->facts.launch[0], c->in->buffer, true);
    if (dt_arena_failed(&c->arena))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    c->nredirect = 1;
    c->threads = c->facts.body[c->in->host].threads;
    rw_name_entry(c);
    if ((r = inline_join(c, e)) < 0)
        return r;
    return rw_resources(c, why, e);
}
