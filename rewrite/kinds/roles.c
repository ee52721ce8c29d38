/* Roles: a launch in which the block's number says which of several kernels' work a block does becomes a launch for
 * each.
 *
 *   before  level1<<<32>>>    if (blockIdx.x < 16) product(x, w, h); else norm(s, r)
 *   after   level1.role0<<<16>>>   product(x, w, h)
 *           level1.role1<<<16>>>   norm(s, r), with blocks 16 … 31
 *
 * normal/roles.c finds the roles, normal/roles-text.c makes their kernels. By itself that gains only where one role
 * held more of an SM than the others need; what it is for comes after it: whoever reads h waits for the product alone,
 * and goes into its stores. So plan/roles.c takes it as a detour, for all launches at once. Only what was posted is
 * looked at, calls written out or not: not what rewrites put side by side.
 *
 * Legal when the rows of legal-solo.def hold that RW_SOLO_MOVES asks for, but that blocks of one role may touch bytes
 * in conflict, as they stay together; and roles_apart, same_footprints (docs/LEGALITY.md). Machine code is compared.
 * What could break it: a role that waits for another one, whose launch comes later; an instruction left out that some
 * block comes to. The one is `roles_apart` and `no_talk`, the other is a proof (emit/uniform.c), held against the maps.
 */
#include "rewrite/normal/roles.h"
#include "rewrite/facts/hooks.h"
#include "rewrite/kinds/kinds-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

struct mine {
    struct dt_arena arena;
    struct rw_solo solo;
    struct rw_roles roles;
};

static bool roles_plain(const struct rw_state *s, uint32_t k)
{
    const struct dt_launch *l = &s->graph->launch[k];
    return l->kind == DT_KERNEL && !l->programmatic && !rw_is_placed(s->graph, k) && s->prog->step[k].entry &&
           !(s->made && s->made[k] & RW_MADE) && !rw_overlaps(s->prog->step[k].entry) && s->ana;
}

static int roles_propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                         struct dt_err *e)
{
    (void)o;
    int r = 0;
    for (uint32_t k = 0; k < s->graph->nlaunch && r == 0; k++) {
        struct dt_arena a = {0};
        struct rw_roles roles;
        if (!roles_plain(s, k))
            continue;
        r = rw_roles_find(&a, s->ana, k, s->prog->step[k].entry, &roles, e);
        if (r == 0 && (roles.n || roles.too_large) && rw_propose(ret, &k, 1, 0, 0) < 0)
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
        dt_arena_done(&a);
    }
    return r;
}

static int roles_open(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    struct mine *m = x->mine = dt_calloc(1, sizeof *m);
    uint32_t k = x->launch[0];
    *ret_verdict = RW_REFUSED;
    int r = m ? rw_solo_init(&m->solo, x->dev, x->now->prog, k, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r < 0)
        return r;
    if (!rw_solo_legal(&m->solo, RW_SOLO_MOVES, why) || (r = rw_solo_copy(&m->solo, why, e)) != 0)
        return r < 0 ? r : 1;
    if ((r = rw_roles_find(&m->arena, x->now->ana, k, m->solo.f, &m->roles, e)) < 0)
        return r;
    if (m->roles.too_large)
        dt_str_add(why, DT_ROW("too-large") ": too many blocks, or instructions, to say what each block does");
    else if (!m->roles.n)
        dt_str_add(why, DT_ROW("parts") ": its blocks are all of one role");
    if (why->len)
        return 1;
    struct dt_str no = {0};
    if (!rw_roles_apart(x->now->ana, k, &m->roles, &no))
        dt_str_addf(why, DT_ROW("roles-apart") ": %s", no.s ? no.s : "out of memory");
    dt_str_done(&no);
    return why->len > 0;
}

/* A name that no launch has. */
static char *roles_name(struct rw_edit *x, uint32_t role)
{
    const struct dt_graph *g = x->now->graph;
    char *name = NULL;
    for (unsigned n = 1; n < 1000; n++) {
        name = n > 1 ? dt_arena_printf(&x->arena, "%.900s.role%u~%u", g->launch[x->launch[0]].name, role, n)
                     : dt_arena_printf(&x->arena, "%.900s.role%u", g->launch[x->launch[0]].name, role);
        if (!name || dt_graph_find_launch(g, name) == DT_NAME_NONE)
            break;
    }
    return name;
}

static int roles_build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    struct mine *m = x->mine;
    const struct dt_graph *g = x->now->graph;
    (void)level;
    for (uint32_t k = 0; k < m->roles.n; k++) {
        const struct rw_role *role = &m->roles.role[k];
        bool dynamic;
        int r = rw_solo_copy(&m->solo, why, e);
        if (r != 0 || (r = rw_role_text(&m->solo, role, &dynamic, e)) < 0)
            return r;
        json_t *l = dt_launch_to_json(g, &g->launch[x->launch[0]]);
        const char *name = roles_name(x, k);
        json_t *grid = role->box ? json_pack("[I,I,I]", (json_int_t)role->extent[0], (json_int_t)role->extent[1],
                                             (json_int_t)role->extent[2])
                                 : json_pack("[I,i,i]", (json_int_t)role->n, 1, 1);
        bool ok = l && name && json_object_set_new(l, "name", json_string(name)) == 0 &&
                  json_object_set(l, "grid", grid) == 0;
        json_decref(grid);
        json_object_del(l, "module");
        if (!dynamic)
            json_object_del(l, "shared");
        struct rw_part *t = rw_edit_add(x, l);
        if (!ok || !t)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        if ((r = rw_solo_text(&m->solo, &t->ptx, e)) < 0)
            return r;
    }
    return 0;
}

static bool roles_made_well(const struct rw_edit *x, const struct rw_state *next, struct dt_str *why)
{
    const struct mine *m = x->mine;
    struct dt_str no = {0};
    uint32_t first = 0;
    while (first < next->graph->nlaunch && next->from[first] != UINT32_MAX)
        first++;
    bool same = first + m->roles.n <= next->graph->nlaunch &&
                rw_roles_same(x->now->ana, x->launch[0], &m->roles, next->ana, first, &no);
    if (!same)
        dt_str_addf(why, DT_ROW("same-footprints") ": %s", no.s ? no.s : "a launch is missing");
    dt_str_done(&no);
    return same;
}

static void roles_close(struct rw_edit *x)
{
    struct mine *m = x->mine;
    if (m) {
        rw_solo_done(&m->solo);
        dt_arena_done(&m->arena);
    }
    free(m);
    x->mine = NULL;
}

const struct rw_rewrite rw_roles = {
    .name = "roles",
    .needs = "a launch whose block numbers alone say which of several kernels' work a block does",
    .keeps = "what every block does, under the number that it had",
    .on = true,
    .propose = roles_propose,
    .open = roles_open,
    .build = roles_build,
    .made_well = roles_made_well,
    .close = roles_close,
};
