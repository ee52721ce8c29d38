/* A small graph on the software device, analysed, with its reference run and its costs: what planning has before its
 * first candidate. */
#ifndef DT_TESTS_REWRITE_WORLD_H
#define DT_TESTS_REWRITE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rewrite/plan/plan-priv.h"

/* Three element-wise kernels in a chain, f adds 1, g doubles, h adds 1 under another name; a memset and a copy beside
 * them. */
#define KERNEL(name, op)                                                                                               \
    ".visible .entry " name                                                                                            \
    "(.param .u64 a, .param .u64 b)\n{\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\n.reg .f32 %f<4>;\n"                        \
    "ld.param.u64 %d1, [a];\nld.param.u64 %d2, [b];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, "     \
    "%tid.x;\n"                                                                                                        \
    "mad.lo.s32 %r4, %r1, %r2, %r3;\nmul.wide.s32 %d3, %r4, 4;\nadd.s64 %d1, %d1, %d3;\nadd.s64 %d2, %d2, %d3;\n"      \
    "ld.global.f32 %f1, [%d1];\n" op "\nst.global.f32 [%d2], %f2;\nret;\n}\n"
#ifndef OP_F
#define OP_F "add.rn.f32 %f2, %f1, 0f3F800000;"
#endif
#define TEXT                                                                                                           \
    ".version 8.0\n.target sm_80\n.address_size 64\n" KERNEL("f", OP_F) KERNEL("g", "mul.rn.f32 %f2, %f1, "            \
                                                                                    "0f40000000;")
#define KEEP(name, entry, from, to)                                                                                    \
    "{\"name\": \"" name "\", \"module\": \"m\", \"entry\": \"" entry "\", \"grid\": [64,1,1], \"block\": [128,1,1],"  \
    "\"args\": [{\"buffer\": \"" from "\"}, {\"buffer\": \"" to "\"}]}"
#define BUFFER(name, role) "\"" name "\": {\"bytes\": 32768, \"role\": \"" role "\"}"

struct world {
    struct dev_device *dev;
    struct dt_graph *graph;
    struct dev_prog *prog;
    struct ana_result *ana;
    struct rw_options opt;
    struct rw_planner p;
    struct rw_edit x; /* tests' own */
    struct rw_state next;
    uint32_t fused;
};

static inline void must(int r, const struct dt_err *e)
{
    if (r < 0)
        fail_msg("%s: %s", dt_err_text(r), e->detail ? e->detail : "");
}

/* The graph of a document, which is taken, analysed; its only state is the posted one, without a reference run. */
static inline void world_analysed(struct world *w, struct dt_str *document)
{
    struct dt_err e = {0};
    struct ana_options o = {0};
    memset(w, 0, sizeof *w);
    must(dt_graph_parse(document->s, document->len, &w->graph, &e), &e);
    dt_str_done(document);
    must(dev_open("soft:h200", &w->dev, &e), &e);
    must(dev_prog_new(w->dev, w->graph, NULL, NULL, &w->prog, &e), &e);
    must(ana_run(w->dev, w->prog, &o, &w->ana, &e), &e);
    w->p.dev = w->dev;
    w->p.opt = &w->opt;
    rw_gate_init(&w->p.gate, w->dev, &w->opt, w->prog);
    struct rw_state s = {.borrowed = true, .graph = w->graph, .prog = w->prog, .ana = w->ana};
    assert_true(dt_push(&w->p.state, s));
}

static inline void world_open(struct world *w)
{
    struct dt_err e = {0};
    struct dt_str text = {0};
    dt_str_add(&text, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (const char *s = TEXT; *s; s++)
        dt_str_addf(&text, *s == '\n' ? "\\n" : "%c", *s);
    /* clang-format off */
    dt_str_add(&text, "\"}}, \"buffers\": {\"x\": {\"bytes\": 32768, \"role\": \"input\", \"fill\": {\"uniform\": [-1, "
    "1], \"dtype\": \"f32\", \"seed\": 1}},"
               BUFFER("p", "intermediate") "," BUFFER("q", "intermediate") "," BUFFER("r", "intermediate") ","
               BUFFER("s", "output") ","
               BUFFER("t", "output") "}, \"launches\": [" KEEP("a", "f", "x", "p") "," KEEP("b", "g", "p", "q") ","
               "{\"name\": \"clear\", \"memset\": {\"buffer\": \"t\", \"offset\": 0, \"value\": 7, \"bytes\": 32768}},"
               KEEP("c", "f", "q", "r") "," KEEP("d", "g", "r", "s") "]}");
    /* clang-format on */
    world_analysed(w, &text);
    must(rw_reference_new(w->dev, w->prog, 2, w->ana, NULL, &w->p.gate.ref, &w->p.gate.snaps, &e), &e);
    must(rw_state_first(&w->p, &w->p.state.p[0], &e), &e);
}

static inline void world_close(struct world *w)
{
    rw_state_done(&w->p.state.p[0]);
    free(w->p.state.p);
    rw_gate_done(&w->p.gate);
    ana_free(w->ana);
    dev_prog_free(w->prog);
    dt_graph_free(w->graph);
    dev_close(w->dev);
}

#endif
