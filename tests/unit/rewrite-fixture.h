/* A pair of launches made by hand, without a device: graph, parsed PTX, and a block map computed from given footprints.
 *
 * Launch p: gp blocks of bp threads, arguments x, h; block i writes bytes [i hp, (i+1) hp) of h, or what p_rows says.
 * Launch c: gc blocks of bc threads, arguments h, y; block i reads bytes [i hc, (i+1) hc) of h.
 */
#ifndef DT_TESTS_REWRITE_FIXTURE_H
#define DT_TESTS_REWRITE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rewrite/emit/emit.h"

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

struct fix_spec {
    const char *ptx, *ptx2; /* ptx2: the consumer's module, NULL: the same */
    uint32_t gp, bp, gc, bc, hp, hc;
    uint32_t sp, sc;    /* dynamic shared memory */
    const char *h_role; /* NULL: intermediate */
    const char *more;   /* members of both launches: ", \"cluster\": [2,1,1]" */
};

struct fix {
    struct dt_graph *g;
    struct dev_prog prog;
    struct ana_result ana;
    struct dev_info dev;
    struct rw_cand c;
    struct rw_options opt;
    struct dt_arena a;
};

static inline struct ana_set fix_run(struct fix *f, uint64_t lo, uint64_t hi)
{
    struct ana_set s = {dt_new_array(&f->a, struct ana_interval, 1), 1};
    s.iv[0] = (struct ana_interval){lo, hi};
    return s;
}

static inline void fix_edge(struct fix *f, struct ana_edge *e, uint32_t p, uint32_t c)
{
    uint32_t np = f->prog.step[p].blocks, nc = f->prog.step[c].blocks, n = 0;
    memset(e, 0, sizeof *e);
    e->producer = p;
    e->consumer = c;
    e->buffer = dt_new_array(&f->a, uint32_t, 1);
    e->buffer[0] = 1;
    e->nbuffer = 1;
    e->any.row = dt_new_array(&f->a, uint32_t, nc + 1);
    e->any.col = dt_new_array(&f->a, uint32_t, (size_t)np * nc + 1);
    e->any.nrow = nc;
    for (uint32_t i = 0; i < nc; i++) {
        for (uint32_t k = 0; k < np; k++) {
            struct ana_touch *w = NULL, *r = NULL;
            for (uint32_t t = 0; t < f->ana.launch[p].block[k].ntouch; t++)
                if (f->ana.launch[p].block[k].touch[t].buffer == 1)
                    w = &f->ana.launch[p].block[k].touch[t];
            for (uint32_t t = 0; t < f->ana.launch[c].block[i].ntouch; t++)
                if (f->ana.launch[c].block[i].touch[t].buffer == 1)
                    r = &f->ana.launch[c].block[i].touch[t];
            if (w && r && (ana_set_overlaps(w->must_write, r->read) || ana_set_overlaps(w->may_write, r->read)))
                e->any.col[n++] = k;
        }
        e->any.row[i + 1] = n;
    }
    e->any.npairs = e->pairs = n;
    e->raw = e->any;
}

static inline void fix_blocks(struct fix *f, uint32_t l, uint32_t per, bool writes)
{
    struct ana_launch *a = &f->ana.launch[l];
    a->nblock = f->prog.step[l].blocks;
    a->block = dt_new_array(&f->a, struct ana_block, a->nblock);
    for (uint32_t i = 0; i < a->nblock; i++) {
        a->block[i].touch = dt_new_array(&f->a, struct ana_touch, 1);
        a->block[i].ntouch = 1;
        a->block[i].touch[0].buffer = 1;
        struct ana_set s = fix_run(f, (uint64_t)i * per, (uint64_t)(i + 1) * per);
        if (writes)
            a->block[i].touch[0].must_write = s;
        else
            a->block[i].touch[0].read = s;
    }
    a->access = dt_new_array(&f->a, struct ana_access, 2);
    a->naccess = 2;
    a->access[0].buffer = 1;
    a->access[0].writes = writes;
    a->access[0].reads = !writes;
    a->access[1].buffer = writes ? 0 : 2;
    a->access[1].writes = !writes;
    a->access[1].reads = writes;
}

/* Does not make the candidate: fix_cand does. */
static inline void fix_open(struct fix *f, const struct fix_spec *s)
{
    struct dt_err e = {0};
    char doc[8192];
    memset(f, 0, sizeof *f);
    snprintf(doc, sizeof doc,
             "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"x\"}, \"n\": {\"ptx\": \"y\"}}, \"buffers\": {"
             "\"x\": {\"bytes\": 1048576, \"role\": \"input\"}, \"h\": {\"bytes\": 1048576, \"role\": \"%s\"},"
             "\"y\": {\"bytes\": 1048576, \"role\": \"output\"}}, \"launches\": ["
             "{\"name\": \"p\", \"module\": \"m\", \"entry\": \"p\", \"grid\": [%u,1,1], \"block\": [%u,1,1], "
             "\"shared\": %u,"
             "\"args\": [{\"buffer\": \"x\"}, {\"buffer\": \"h\"}]%s},"
             "{\"name\": \"c\", \"module\": \"%s\", \"entry\": \"c\", \"grid\": [%u,1,1], \"block\": [%u,1,1], "
             "\"shared\": %u,"
             "\"args\": [{\"buffer\": \"h\"}, {\"buffer\": \"y\"}]%s}]}",
             s->h_role ? s->h_role : "intermediate", s->gp, s->bp, s->sp, s->more ? s->more : "", s->ptx2 ? "n" : "m",
             s->gc, s->bc, s->sc, s->more ? s->more : "");
    if (dt_graph_parse(doc, strlen(doc), &f->g, &e) < 0)
        fail_msg("graph: %s", e.detail);
    f->prog.graph = f->g;
    f->prog.module = dt_new_array(&f->a, struct dev_module, 2);
    f->prog.step = dt_new_array(&f->a, struct dev_step, 3);
    const char *text[2] = {s->ptx, s->ptx2};
    for (int k = 0; k < 2 && text[k]; k++) {
        f->prog.module[k].ptx = text[k];
        f->prog.module[k].len = strlen(text[k]);
        if (ptx_parse(text[k], strlen(text[k]), &f->prog.module[k].ir, &e) < 0)
            fail_msg("ptx: %s", e.detail);
    }
    f->ana.prog = &f->prog;
    f->ana.launch = dt_new_array(&f->a, struct ana_launch, 3);
    f->ana.edge = dt_new_array(&f->a, struct ana_edge, 3);
    for (uint32_t k = 0; k < 2; k++) {
        struct dev_step *t = &f->prog.step[k];
        t->launch = &f->g->launch[k];
        t->entry = ptx_find_function(f->prog.module[k && s->ptx2 ? 1 : 0].ir, t->launch->entry);
        assert_non_null(t->entry);
        t->blocks = t->launch->grid[0];
        t->threads = t->launch->block[0];
        t->blocks_per_sm = 1;
        fix_blocks(f, k, k ? s->hc : s->hp, k == 0);
    }
    fix_edge(f, &f->ana.edge[0], 0, 1);
    f->ana.nedge = 1;
    snprintf(f->dev.arch, sizeof f->dev.arch, "sm_90");
    f->dev.sms = 132;
    f->dev.shared_block = 49152;
    f->dev.shared_block_optin = 232448;
    f->dev.regs_sm = 65536;
}

static inline void fix_cand(struct fix *f)
{
    struct dt_err e = {0};
    if (rw_cand_init(&f->c, &f->dev, &f->prog, &f->ana, &f->opt, 0, 1, &e) < 0)
        fail_msg("candidate: %s", e.detail);
}

static inline void fix_close(struct fix *f)
{
    rw_cand_done(&f->c);
    for (int k = 0; k < 2; k++)
        ptx_module_free(f->prog.module[k].ir);
    dt_graph_free(f->g);
    dt_arena_done(&f->a);
}

#endif
