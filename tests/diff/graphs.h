/* What diff-fusion.c and diff-inline.c share: graphs written in a line each, made into programs with their analysis, two launches joined,
 * and the result held to the original. Each of the two says in a table what every edge of its graphs must give. */
#ifndef DT_TESTS_DIFF_GRAPHS_H
#define DT_TESTS_DIFF_GRAPHS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rewrite/rewrite-priv.h"

/* Parts of a graph document: buffers (an input or weight with a fill, an intermediate, an output, an inout of zeros), launches, arguments. */
#define F(n, bytes, role) "\"" n "\": {\"bytes\": " #bytes ", \"role\": \"" role "\", \"fill\": {\"uniform\": [-2, 2], \"dtype\": \"f32\", \"seed\": 5}}"
#define I(n, bytes) "\"" n "\": {\"bytes\": " #bytes ", \"role\": \"intermediate\"}"
#define O(n, bytes) "\"" n "\": {\"bytes\": " #bytes ", \"role\": \"output\"}"
#define Z(n, bytes) "\"" n "\": {\"bytes\": " #bytes ", \"role\": \"inout\", \"fill\": {\"zero\": true}}"
#define LM(m, name, entry, grid, block, shared, args) "{\"name\": \"" name "\", \"module\": \"" m "\", \"entry\": \"" entry "\", \"grid\": " grid ", \"block\": " block ", \"shared\": " #shared ", \"args\": [" args "]}"
#define L(name, entry, grid, block, args) LM("m", name, entry, grid, block, 0, args)
#define LS(name, entry, grid, block, shared, args) LM("m", name, entry, grid, block, shared, args)
#define B(n) "{\"buffer\": \"" n "\"}"
#define BO(n, o) "{\"buffer\": \"" n "\", \"offset\": " #o "}"
#define N(v) "{\"i32\": " #v "}"

static struct dev_device *device;

/* The document: module "m" is this CUDA text, "t" this PTX (NULL: there is none). */
static inline char *graph_text(const char *cuda, const char *ptx, const char *buffers, const char *launches)
{
    json_t *m = ptx ? json_pack("{s:{s:s},s:{s:s}}", "m", "cuda", cuda, "t", "ptx", ptx) : json_pack("{s:{s:s}}", "m", "cuda", cuda);
    struct dt_str s = {0};
    char *q = json_dumps(m, 0);
    dt_str_addf(&s, "{\"dovetail\": 1, \"name\": \"t\", \"modules\": %s, \"buffers\": {%s}, \"launches\": [%s]}", q, buffers, launches);
    free(q);
    json_decref(m);
    return dt_str_take(&s);
}

struct made {
    struct dt_graph *g;
    struct dev_prog *p;
    struct ana_result *a;
};

static inline void made_done(struct made *m)
{
    ana_free(m->a);
    dev_prog_free(m->p);
    dt_graph_free(m->g);
    memset(m, 0, sizeof *m);
}

static inline void make(const char *text, json_t *doc, struct made *m)
{
    struct dt_err e = {0};
    int r = text ? dt_graph_parse(text, strlen(text), &m->g, &e) : dt_graph_from_json(doc, &m->g, &e);
    if (r < 0 || dev_prog_new(device, m->g, NULL, NULL, &m->p, &e) < 0 || ana_run(device, m->p, NULL, &m->a, &e) < 0)
        fail_msg("%s\n%s", e.detail ? e.detail : "?", e.log ? e.log : "");
}

static uint32_t join_size; /* blocks of a cluster at level `cluster`; 0: what is best where all blocks take as long */
static char join_note[256]; /* of what was joined in clusters: per intermediate "h: 4 owners, columns" … */

/* 1 joined, 0 refused; the fused graph in *ret, its new module called f`n`. */
static inline int join(const struct made *m, uint32_t p, uint32_t c, enum rw_level level, json_t **ret, struct dt_str *why, unsigned n)
{
    const struct rw_state now = {.graph = m->g, .prog = m->p, .ana = m->a};
    const uint32_t pair[2] = {p, c};
    struct rw_edit x;
    struct rw_cand cand;
    struct dt_err e = {0};
    if (rw_edit_init(&x, &rw_block_fusion, dev_info(device), NULL, &now, pair, 2, &e) < 0 ||
        rw_cand_init(&cand, dev_info(device), m->p, m->a, NULL, p, c, &e) < 0)
        fail_msg("%s", e.detail);
    double alike[2] = {1, 1}, us;
    cand.size = cand.comps.n && join_size ? join_size : rw_cluster_size(&cand, alike, &us);
    int r = rw_fuse(&cand, level, why, &e);
    for (uint32_t k = 0, at = (uint32_t)(join_note[0] = 0); r == 0 && level == RW_LEVEL_CLUSTER && k < cand.nredirect && at < sizeof join_note; k++)
        at += (uint32_t)snprintf(join_note + at, sizeof join_note - at, "%s%s: %u %s", k ? ", " : "", m->g->buffer[cand.redirect[k].buffer].name,
                                 cand.redirect[k].owners, cand.redirect[k].owners == 1 ? "owner" : cand.redirect[k].by_rows ? "rows" : cand.redirect[k].pitch ? "columns" : "runs");
    if (r == 0)
        r = rw_fuse_part(&cand, &x, &e);
    if (r < 0)
        fail_msg("%s", e.detail ? e.detail : "?");
    if (r == 0) {
        snprintf(x.part.p[0].module, sizeof x.part.p[0].module, "f%u", n);
        *ret = rw_edit_graph(&x);
        assert_non_null(*ret);
    }
    rw_cand_done(&cand);
    rw_edit_done(&x);
    return r == 0;
}

/* The same bytes, under 3 inputs and 4 block orders. SHOW in the environment prints what they came from. */
static inline void hold(const struct made *original, const struct made *now, const char *what)
{
    struct dt_err e = {0};
    if (rw_verify(device, original->p, now->p, 3, 4, &e) == 0)
        return;
    if (getenv("SHOW"))
        puts(now->p->module[now->g->nmodule - 1].ptx);
    fail_msg("%s: %s", what, e.detail ? e.detail : "?");
}

/* A fused graph of one launch less, held to the original. */
static inline void hold_joined(const struct made *m, json_t *doc, const char *what)
{
    struct made n = {0};
    make(NULL, doc, &n);
    assert_int_equal(n.g->nlaunch + 1, m->g->nlaunch);
    hold(m, &n, what);
    made_done(&n);
}

/* Join the first edge that can be at the first level that it can be, and again, until `left` launches are left; held to the original. */
static inline void chain(const char *name, const char *text, enum rw_level from, enum rw_level to, unsigned left)
{
    struct made m = {0}, now = {0};
    unsigned n = 0;
    make(text, NULL, &m);
    make(text, NULL, &now);
    for (bool more = true; more;) {
        more = false;
        for (uint32_t k = 0; k < now.a->nedge && !more; k++)
            for (int l = (int)from; l <= (int)to && !more; l += l == RW_LEVEL_SHARED ? RW_LEVEL_GLOBAL - RW_LEVEL_SHARED : 1) { /* clusters end a chain */
                const struct ana_edge *x = &now.a->edge[k];
                struct dt_str why = {0};
                json_t *doc = NULL;
                if (join(&now, x->producer, x->consumer, (enum rw_level)l, &doc, &why, n)) {
                    n++;
                    made_done(&now);
                    make(NULL, doc, &now);
                    more = true;
                } else if (getenv("SHOW")) {
                    printf("chain: %s -> %s, %s: %s\n", now.g->launch[x->producer].name, now.g->launch[x->consumer].name,
                           rw_level_text((enum rw_level)l), why.s);
                }
                json_decref(doc);
                dt_str_done(&why);
            }
    }
    if (now.g->nlaunch != left)
        fail_msg("%s: %u launches are left, wanted %u", name, now.g->nlaunch, left);
    hold(&m, &now, name);
    made_done(&m);
    made_done(&now);
}

#endif
