/* Calls: device functions that were not inlined are written out where they are called.
 *
 *   posted    call (retval0), erf_scaled, (param0);     addresses beside it are data's or everybody's, as far as
 *                                                       anybody can see; level register does not look into functions
 *   calls     xor, the text of erf_scaled, xor          an element-wise kernel is one again
 *
 * callee.c has the text. An entry is taken as a whole: all its calls, to any depth, or none. What the rows of legal.def
 * ask of it:
 *
 *   callees            every call is direct, of a function with a body; none leads back to itself; nobody takes a
 *                      function's address. Then there are finitely many places, each with its own text
 *   lanes_alone        what has a barrier or a warp collective has one place to which the threads of a block come:
 *                      threads that come to one instruction of a function from two places would come to two. Which
 *                      places those are may be the block's number's matter (emit/uniform.c): blocks have roles
 *   byte_views         a parameter is loaded and stored by pieces that are equal or apart, and its address stays
 *                      unknown: so registers can hold it. A function's own variables are local memory, of which each
 *                      place has its own, or shared memory, of which all places have the same
 *   calls_apart        floating-point arithmetic does not meet floating-point arithmetic across a call: what ptxas
 *                      makes of that depends on whether it sees the whole program (crossing.c)
 *   own_tables         the kernel goes into a module of its own, so module variables are tables that nobody changes
 *   same_footprints    asked of the new graph's maps: no block touches a byte that it did not touch before
 *
 * Kernels whose machine code is not that of the posted ones, functions with it, stay as they were (plan/normal.c).
 * `exit` needs nothing: it ends the thread, in a function and in the entry. A function that returns without having set
 * its result gives back what the register holds; posted, that is what the memory of the call holds: both are nothing
 * that a program may use.
 */
#include "rewrite/normal/calls-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"
#include "rewrite/emit/uniform.h"
#include "rewrite/facts/hooks.h"

#define DEPTH 32
#define UNIFORM_STEPS 6000000u /* of all blocks of a launch */

/* ---- the conditions ---------------------------------------------------------------------------------------------- */

/* Are there calls that lead from f to f, or more than DEPTH of them behind each other, or too much text altogether? */
static bool leads_back(const struct ptx_function *f, unsigned depth, uint64_t *steps)
{
    *steps += f->ninst + f->nreg + 1;
    if (depth > DEPTH || *steps > CALL_TEXT)
        return true;
    for (uint32_t k = 0; k < f->ninst; k++)
        if (f->inst[k].op == PTX_OP_CALL && leads_back(ptx_callee(&f->inst[k]), depth + 1, steps))
            return true;
    return false;
}

static bool names_function(const struct ptx_opnd *o)
{
    bool any = o->kind == PTX_O_FUNC;
    for (unsigned k = 0; o->kind == PTX_O_VEC && k < o->n; k++)
        any |= names_function(&o->elem[k]);
    return any;
}

static bool calls_code(const struct ptx_inst *i) { return i->op != PTX_OP_LABEL && i->op != PTX_OP_PRAGMA; }

bool rw_calls_callees(const struct ptx_reach *r, struct dt_str *why)
{
    uint64_t steps = 0;
    for (uint32_t k = 0; k < r->n; k++)
        for (uint32_t n = 0; n < r->func[k]->ninst; n++) {
            const struct ptx_inst *i = &r->func[k]->inst[n];
            bool bad = i->op == PTX_OP_OPAQUE || i->op == PTX_OP_CALLPROTO;
            for (unsigned q = 0; calls_code(i) && q < i->nopnd && i->op != PTX_OP_CALL; q++)
                bad |= names_function(&i->opnd[q]);
            if (bad) {
                dt_str_addf(why, "line %u of '%s' is not known, or takes a function's address", i->line,
                            r->func[k]->name);
                return false;
            }
        }
    if (r->unknown)
        dt_str_add(why, "it calls what has no body here, or goes through a pointer");
    else if (leads_back(r->func[0], 0, &steps))
        dt_str_add(why, "its calls lead back, or are too many");
    return !why->len;
}

/* The first instruction of f at which threads meet; NULL: none. */
static const struct ptx_inst *meets(const struct ptx_function *f)
{
    for (uint32_t n = 0; n < f->ninst; n++) {
        const struct ptx_inst *i = &f->inst[n];
        if (calls_code(i) && i->op != PTX_OP_OPAQUE && i->op != PTX_OP_BRANCHTARGETS && i->op != PTX_OP_CALLPROTO &&
            ptx_op_info(i->op)->flags & (PTX_F_BARRIER | PTX_F_CONVERGENT))
            return i;
    }
    return NULL;
}

/* How often f would stand in `in` with all its calls written out; of more than two, two. */
static unsigned call_places(const struct ptx_function *in, const struct ptx_function *f)
{
    unsigned n = in == f;
    for (uint32_t at = 0; in != f && at < in->ninst && n < 2; at++)
        if (in->inst[at].op == PTX_OP_CALL)
            n += call_places(ptx_callee(&in->inst[at]), f);
    return n < 2 ? n : 2;
}

/* Do the threads of each block of the launch come to f in one place at most? 1, 0; negative: memory. */
static int one_place(const struct dev_prog *p, uint32_t launch, const struct ptx_function *entry,
                     const struct ptx_function *f, struct dt_err *e)
{
    const struct dev_step *step = &p->step[launch];
    const uint32_t *grid = step->launch->grid;
    struct dt_arena a = {0};
    struct rw_uniform *u = NULL;
    int r = rw_uniform_new(&a, entry, step, &u, e);
    bool one = r == 0 && rw_uniform_steps(u) * step->blocks <= UNIFORM_STEPS;
    for (uint32_t b = 0; one && b < step->blocks; b++) {
        const uint8_t *done =
            rw_uniform_block(u, (uint32_t[]){b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1]});
        unsigned n = 0;
        for (uint32_t k = 0; k < entry->ninst; k++)
            n +=
                entry->inst[k].op == PTX_OP_CALL && done[k] & RW_DONE ? call_places(ptx_callee(&entry->inst[k]), f) : 0;
        one = n < 2;
    }
    rw_uniform_done(u);
    dt_arena_done(&a);
    return r < 0 ? r : one;
}

int rw_calls_lanes_alone(const struct dev_prog *p, uint32_t launch, const struct ptx_reach *r, struct dt_str *why,
                         struct dt_err *e)
{
    const struct dt_graph *g = p->graph;
    const struct dt_launch *own = &g->launch[launch];
    for (uint32_t k = 1; k < r->n; k++) {
        const struct ptx_inst *i = meets(r->func[k]);
        int one = !i || call_places(r->func[0], r->func[k]) < 2;
        if (one)
            continue;
        one = 1;
        for (uint32_t l = 0; l < g->nlaunch && one == 1; l++) /* all that have this kernel */
            if (g->launch[l].kind == DT_KERNEL && g->launch[l].module == own->module &&
                !strcmp(g->launch[l].entry, own->entry))
                one = one_place(p, l, r->func[0], r->func[k], e);
        if (one < 0)
            return one;
        if (!one) {
            dt_str_addf(why, "'%s', to which a block may come from several places, has %s at line %u", r->func[k]->name,
                        ptx_op_info(i->op)->mnemonic, i->line);
            return 1;
        }
    }
    return 0;
}

/* Is it a parameter of a call: one of a function's own, or a variable for it? */
static bool of_call(const struct ptx_function *f, const struct ptx_var *v)
{
    bool any = !f->is_entry;
    for (uint32_t k = 0; k < f->nvar; k++)
        any |= f->var[k] == v;
    return any && v->space == PTX_PARAM;
}

/* Does an instruction other than ld.param, st.param and call name a parameter of a call? */
static bool takes_param(const struct ptx_function *f, const struct ptx_inst *i)
{
    for (unsigned k = 0; k < i->nopnd; k++) {
        const struct ptx_opnd *o = &i->opnd[k];
        bool access = o->kind == PTX_O_ADDR && ((i->op == PTX_OP_LD && k == 1) || (i->op == PTX_OP_ST && k == 0));
        if ((o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR)) && of_call(f, o->var) &&
            !access)
            return true;
    }
    return false;
}

/* Parameters of calls: a variable is given or comes back, not both; a function does not store into what it is given. */
static bool one_way(const struct ptx_function *f, const struct ptx_inst *i, struct dt_str *why)
{
    bool bad = false;
    for (unsigned q = 0; i->op == PTX_OP_CALL && q < i->opnd[0].n; q++)
        for (unsigned k = 0; k < i->opnd[2].n; k++)
            bad |= i->opnd[0].elem[q].var == i->opnd[2].elem[k].var;
    for (unsigned g = 0; i->op == PTX_OP_CALL && g < 3; g += 2)
        for (unsigned q = 0; q < i->opnd[g].n; q++)
            bad |= i->opnd[g].elem[q].kind != PTX_O_VAR || i->opnd[g].elem[q].var->owner != f;
    for (uint32_t k = 0; i->op == PTX_OP_ST && k < f->nparam; k++)
        bad |= i->opnd[0].kind == PTX_O_ADDR && i->opnd[0].base_kind == PTX_O_VAR && i->opnd[0].var == f->param[k];
    if (bad)
        dt_str_addf(why, "line %u of '%s': a parameter goes both ways", i->line, f->name);
    return !bad;
}

/* Can the entry have it? Not the block's dynamic shared memory, which begins where all else ends. */
static bool own_memory(const struct ptx_var *v)
{
    return (v->space == PTX_LOCAL && !v->init) || (v->space == PTX_SHARED && v->bytes && !v->is_extern);
}

bool rw_calls_byte_views(const struct ptx_reach *r, struct dt_str *why)
{
    for (uint32_t k = 0; k < r->n; k++) {
        const struct ptx_function *f = r->func[k];
        for (uint32_t q = 0; k && q < f->nvar; q++)
            if (f->var[q]->space != PTX_PARAM && !own_memory(f->var[q])) {
                dt_str_addf(why, "'%s' has a variable that is neither local memory nor shared memory of its own",
                            f->name);
                return false;
            }
        for (uint32_t q = 0; k && q < f->nreg; q++)
            if (f->reg[q].vec > 1) {
                dt_str_addf(why, "'%s' has registers that are vectors", f->name);
                return false;
            }
        for (uint32_t n = 0; n < f->ninst; n++) {
            const struct ptx_inst *i = &f->inst[n];
            if (!calls_code(i) || i->op == PTX_OP_OPAQUE || i->op == PTX_OP_BRANCHTARGETS || i->op == PTX_OP_CALLPROTO)
                continue;
            if (i->op != PTX_OP_CALL && takes_param(f, i)) {
                dt_str_addf(why, "line %u of '%s' takes a parameter's address", i->line, f->name);
                return false;
            }
            if (!one_way(f, i, why))
                return false;
        }
    }
    return true;
}

/* ---- an entry ---------------------------------------------------------------------------------------------------- */

/* 0: written out; 1: refused, `why` says so. */
static int write_out(const struct dev_prog *p, uint32_t launch, struct rw_called *x, struct dt_err *e)
{
    const struct dt_launch *l = &p->graph->launch[launch];
    struct dt_err mine = {0};
    struct callee c = {.e = &mine};
    struct ptx_module *small = NULL;
    struct dt_str why = {0};
    struct dt_arena a = {0};
    struct rw_body body;
    const char *row = NULL;
    int r = rw_body_init(&a, p, launch, NULL, &body, c.e);
    if (r == 0 && body.find[RW_GLOBAL_VAR].set && !rw_off("own_tables")) {
        row = DT_ROW("own-tables");
        dt_str_addf(&why, "'%s' is none", body.find[RW_GLOBAL_VAR].what);
    }
    if (r == 0)
        r = ptx_clone(p->module[l->module].ir, l->entry, &c.m, c.e);
    if (r == 0 && ptx_reach_build(c.f = ptx_find_function(c.m, l->entry), &c.reach) < 0)
        r = dt_err_set(c.e, DT_E_NOMEM, "out of memory");
    if (r < 0 || row)
        ;
    else if (!rw_off("callees") && !rw_calls_callees(&c.reach, &why))
        row = DT_ROW("callees");
    else if (!rw_off("lanes_alone") && (r = rw_calls_lanes_alone(p, launch, &c.reach, &why, c.e)) != 0)
        row = DT_ROW("lanes-alone");
    else if (!rw_off("byte_views") && !rw_calls_byte_views(&c.reach, &why))
        row = DT_ROW("byte-views");
    r = r > 0 ? 0 : r;
    if (r == 0 && !row)
        r = callee_params(&c);
    if (r == 0 && !row && c.clash.var && !rw_off("byte_views")) {
        row = DT_ROW("byte-views");
        dt_str_addf(&why, "line %u takes bytes of '%s' that others take otherwise", c.clash.line, c.clash.var->name);
    }
    if (r == 0 && !row && c.crosses.var && !rw_off("calls_apart")) {
        row = DT_ROW("calls-apart");
        dt_str_addf(&why, "what line %u gives to '%s' may be combined with what takes it", c.crosses.line,
                    c.crosses.var->name);
    }
    if (r == 0 && !row && c.f->nparam >= 60) {
        row = DT_ROW("byte-views");
        dt_str_add(&why, "there is no room for one more parameter");
    }
    if (r == 0 && !row) {
        r = callee_write(&c);
        if (r == 0)
            r = ptx_clone(c.m, l->entry, &small, c.e);
        if (r == 0)
            r = rw_text(small, p, &x->ptx, c.e);
        x->zero = c.hides;
    }
    if (r < 0 && r != DT_E_NOMEM) { /* this kernel's matter alone */
        dt_str_addf(&x->why, "building: %s", mine.detail ? dt_err_words(&mine) : dt_err_text(r));
        r = 1;
    }
    if (r < 0)
        dt_err_move(e, &mine);
    dt_err_done(&mine);
    if (row)
        dt_str_addf(&x->why, "%s: %s", row, why.s ? why.s : "out of memory");
    ptx_reach_done(&c.reach);
    dt_arena_done(&a);
    ptx_module_free(small);
    ptx_module_free(c.m);
    dt_str_done(&why);
    return r < 0 ? r : x->why.len > 0;
}

static bool has_calls(const struct ptx_function *f)
{
    for (uint32_t k = 0; f && k < f->ninst; k++)
        if (f->inst[k].op == PTX_OP_CALL)
            return true;
    return false;
}

/* Does it call a function that has a text here? */
static bool has_callees(const struct ptx_function *f)
{
    for (uint32_t k = 0; f && k < f->ninst; k++)
        if (f->inst[k].op == PTX_OP_CALL && ptx_callee(&f->inst[k]) && ptx_callee(&f->inst[k])->ninst)
            return true;
    return false;
}

int rw_calls_cross(const struct ptx_module *ir, const char *entry, struct dt_str *why, struct dt_err *e)
{
    const struct ptx_function *f = ptx_find_function(ir, entry);
    struct callee c = {.e = e};
    struct dt_str no = {0};
    if (!f || !has_callees(f))
        return 0;
    int r = ptx_clone(ir, entry, &c.m, e);
    if (r == 0 && ptx_reach_build(c.f = ptx_find_function(c.m, entry), &c.reach) < 0)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    bool followed = r == 0 && rw_calls_callees(&c.reach, &no) && rw_calls_byte_views(&c.reach, &no);
    if (r == 0 && followed && (r = callee_params(&c)) == DT_E_TOO_LARGE) {
        dt_err_done(e);
        followed = false;
        r = 0;
    }
    if (r == 0 && (!followed || c.clash.var || c.crosses.var)) {
        dt_str_addf(why, "'%s' calls functions, and an assembler that sees the whole program may combine ", entry);
        if (followed && c.crosses.var)
            dt_str_addf(why, "what line %u gives to '%s' with what takes it", c.crosses.line, c.crosses.var->name);
        else
            dt_str_addf(why, "across the call: %s", no.s ? no.s : "its parameters are not followed");
        r = 1;
    }
    dt_str_done(&no);
    ptx_reach_done(&c.reach);
    ptx_module_free(c.m);
    return r;
}

int rw_calls_find(const struct dev_prog *p, struct rw_calls *ret, struct dt_err *e)
{
    const struct dt_graph *g = p->graph;
    memset(ret, 0, sizeof *ret);
    for (uint32_t k = 0; k < g->nlaunch; k++) {
        const struct dt_launch *l = &g->launch[k];
        struct rw_called x = {.launch = k, .same = (uint32_t)ret->v.n};
        if (l->kind != DT_KERNEL || !has_calls(ptx_find_function(p->module[l->module].ir, l->entry)))
            continue;
        for (uint32_t i = 0; i < ret->v.n && x.same == ret->v.n; i++) {
            const struct dt_launch *o = &g->launch[ret->v.p[i].launch];
            if (o->module == l->module && !strcmp(o->entry, l->entry))
                x.same = i;
        }
        int r = x.same == ret->v.n ? write_out(p, k, &x, e) : 0;
        if (r >= 0 && dt_push(&ret->v, x))
            continue;
        dt_str_done(&x.ptx);
        dt_str_done(&x.why);
        return r < 0 ? r : dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return 0;
}

bool rw_calls_out(const struct rw_calls *c, uint32_t k) { return !c->v.p[c->v.p[k].same].why.len; }

uint32_t rw_calls_number(const struct rw_calls *c)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < c->v.n; k++)
        n += rw_calls_out(c, k);
    return n;
}

void rw_calls_done(struct rw_calls *c)
{
    for (uint32_t k = 0; k < c->v.n; k++) {
        dt_str_done(&c->v.p[k].ptx);
        dt_str_done(&c->v.p[k].why);
    }
    free(c->v.p);
    memset(c, 0, sizeof *c);
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static bool name_module(const struct dt_graph *g, uint32_t *number, char name[16])
{
    bool taken = true;
    for (; taken && *number < 1000000; ++*number) {
        snprintf(name, 16, "c%u", *number);
        taken = false;
        for (uint32_t k = 0; k < g->nmodule; k++)
            taken |= !strcmp(g->module[k].name, name);
    }
    return !taken;
}

json_t *rw_calls_graph(const struct dev_prog *p, const struct rw_calls *c)
{
    const struct dt_graph *g = p->graph;
    bool *gone = dt_calloc((size_t)g->nlaunch + 1, sizeof *gone);
    char(*name)[16] = dt_calloc(c->v.n + 1, sizeof *name);
    json_t *doc = NULL, *list = json_array();
    uint32_t number = 0;
    bool ok = gone && name && list;
    for (uint32_t k = 0; ok && k < c->v.n; k++)
        gone[c->v.p[k].launch] = rw_calls_out(c, k);
    ok = ok && (doc = rw_graph_frame(p, gone, NULL));
    for (uint32_t k = 0; ok && k < c->v.n; k++)
        if (c->v.p[k].same == k && rw_calls_out(c, k))
            ok = name_module(g, &number, name[k]) &&
                 json_object_set_new(json_object_get(doc, "modules"), name[k],
                                     json_pack("{s:s%}", "ptx", c->v.p[k].ptx.s, c->v.p[k].ptx.len)) == 0;
    for (uint32_t l = 0, k = 0; ok && l < g->nlaunch; l++) {
        json_t *o = dt_launch_to_json(g, &g->launch[l]);
        bool here = k < c->v.n && c->v.p[k].launch == l;
        if (o && here && rw_calls_out(c, k)) {
            const struct rw_called *x = &c->v.p[c->v.p[k].same];
            ok = json_object_set_new(o, "module", json_string(name[c->v.p[k].same])) == 0 &&
                 (!x->zero || json_array_append_new(json_object_get(o, "args"), json_pack("{s:i}", "u32", 0)) == 0);
        }
        k += here;
        ok = json_array_append_new(list, o) == 0 && ok;
    }
    ok = ok && json_object_set(doc, "launches", list) == 0;
    json_decref(list);
    free(gone);
    free(name);
    if (!ok) {
        json_decref(doc);
        return NULL;
    }
    return doc;
}

/* ---- the new graph's maps ---------------------------------------------------------------------------------------- */

static struct ana_set calls_touched(struct dt_arena *a, const struct ana_block *b, uint32_t buffer, bool writes)
{
    struct ana_set s = {0};
    for (uint32_t k = 0; k < b->ntouch; k++)
        if (b->touch[k].buffer == buffer)
            s = writes ? ana_set_union(a, b->touch[k].must_write, b->touch[k].may_write) : b->touch[k].read;
    return s;
}

bool rw_calls_same(const struct ana_result *now, const struct ana_result *next, const struct rw_calls *c,
                   struct dt_str *why)
{
    bool same = true;
    for (uint32_t k = 0; k < c->v.n && same && !rw_off("same_footprints"); k++) {
        const struct ana_launch *x = &now->launch[c->v.p[k].launch], *y = &next->launch[c->v.p[k].launch];
        if (!rw_calls_out(c, k))
            continue;
        same = x->nblock == y->nblock;
        for (uint32_t b = 0; b < x->nblock && same; b++) {
            struct dt_arena a = {0};
            for (uint32_t i = 0; i < y->block[b].ntouch && same; i++)
                for (int w = 0; w < 2 && same; w++) {
                    uint32_t n = y->block[b].touch[i].buffer;
                    struct ana_set more =
                        ana_set_minus(&a, calls_touched(&a, &y->block[b], n, w), calls_touched(&a, &x->block[b], n, w));
                    same = !more.n && !dt_arena_failed(&a);
                }
            dt_arena_done(&a);
        }
        if (!same)
            dt_str_addf(why, DT_LAUNCH " touches bytes that it did not touch with its calls",
                        now->prog->graph->launch[c->v.p[k].launch].name);
    }
    return same;
}
