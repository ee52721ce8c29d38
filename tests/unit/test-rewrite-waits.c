/* The static check of a plan's order (rewrite/gate/waits.c): each condition broken on purpose, and plans that hold. On
 * the software device: what the check says must agree with what comes out, and programmatic edges must show in the
 * modelled time.
 *
 * Four kernels of 64 threads a block: copy (y = 2 x), add (y = w h, with griddepcontrol.wait at a place that each case
 * gives), stop (as add, but some threads leave before the wait), nc (as add, h by .nc).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "rewrite/kinds/kinds.h"

#define INDEX                                                                                                          \
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; shl.b32 %r3, %r1, 6; add.u32 %r3, %r3, %r2; mul.wide.u32 %a4, %r3, "  \
    "4;\\n"
#define REGS "{ .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %a<9>; .reg .f32 %f<5>;\\n"
#define THREE                                                                                                          \
    "ld.param.u64 %a1, [x]; ld.param.u64 %a2, [h]; ld.param.u64 %a3, [y];\\n" INDEX                                    \
    "add.u64 %a5, %a1, %a4; add.u64 %a6, %a2, %a4; add.u64 %a7, %a3, %a4;\\n"
#define WAIT "griddepcontrol.wait;\\n"
#define GO "griddepcontrol.launch_dependents;\\n"
/* something to do that takes time and leaves 0 in %r4 */
#define WORK "mov.u32 %r4, 1000;\\nL: sub.u32 %r4, %r4, 1; setp.ne.u32 %p, %r4, 0; @%p bra L;\\n"

static const char ptx[] =
    ".version 8.0\\n.target sm_90\\n.address_size 64\\n"
    ".visible .entry copy(.param .u64 x, .param .u64 y)\\n" REGS GO
    "ld.param.u64 %a1, [x]; ld.param.u64 %a3, [y];\\n" INDEX WORK
    "add.u64 %a5, %a1, %a4; add.u64 %a7, %a3, %a4; ld.global.f32 %f1, [%a5]; add.f32 %f2, %f1, %f1; st.global.f32 "
    "[%a7], %f2; ret; }\\n"
    /* x before the wait, h after */
    ".visible .entry good(.param .u64 x, .param .u64 h, .param .u64 y)\\n" REGS GO THREE WORK
    "ld.global.f32 %f1, [%a5];\\n" WAIT
    "ld.global.f32 %f2, [%a6]; mul.f32 %f3, %f1, %f2; st.global.f32 [%a7], %f3; ret; }\\n"
    /* both before */
    ".visible .entry hasty(.param .u64 x, .param .u64 h, .param .u64 y)\\n" REGS GO THREE
    "ld.global.f32 %f1, [%a5]; ld.global.f32 %f2, [%a6];\\n" WAIT
    "mul.f32 %f3, %f1, %f2; st.global.f32 [%a7], %f3; ret; }\\n"
    /* writes y before it waits, and again after */
    ".visible .entry spill(.param .u64 x, .param .u64 h, .param .u64 y)\\n" REGS GO THREE
    "ld.global.f32 %f1, [%a5]; st.global.f32 [%a7], %f1;\\n" WAIT
    "ld.global.f32 %f2, [%a6]; mul.f32 %f3, %f1, %f2; st.global.f32 [%a7], %f3; ret; }\\n"
    ".visible .entry nc(.param .u64 x, .param .u64 h, .param .u64 y)\\n" REGS GO THREE WAIT
    "ld.global.f32 %f1, [%a5]; ld.global.nc.f32 %f2, [%a6]; mul.f32 %f3, %f1, %f2; st.global.f32 [%a7], %f3; ret; }\\n"
    ".visible .entry stop(.param .u64 x, .param .u64 h, .param .u64 y)\\n" REGS GO THREE
    "setp.eq.u32 %p, %r3, 5; @%p exit;\\n" WAIT
    "ld.global.f32 %f1, [%a5]; ld.global.f32 %f2, [%a6]; mul.f32 %f3, %f1, %f2; st.global.f32 [%a7], %f3; ret; }\\n"
    ".visible .entry maybe(.param .u64 x, .param .u64 h, .param .u64 y)\\n" REGS GO THREE
    "setp.eq.u32 %p, %r3, 5; @%p " WAIT
    "ld.global.f32 %f1, [%a5]; ld.global.f32 %f2, [%a6]; mul.f32 %f3, %f1, %f2; st.global.f32 [%a7], %f3; ret; }\\n"
    ".visible .entry call(.param .u64 x, .param .u64 h, .param .u64 y)\\n" REGS GO THREE "call leave, ();\\n" WAIT
    "ld.global.f32 %f1, [%a5]; ld.global.f32 %f2, [%a6]; mul.f32 %f3, %f1, %f2; st.global.f32 [%a7], %f3; ret; }\\n"
    /* the same in what a function does */
    ".visible .entry ncall(.param .u64 x, .param .u64 h, .param .u64 y)\\n" REGS GO THREE WAIT
    "ld.global.f32 %f1, [%a5]; { .param .b64 a; .param .b32 v; st.param.b64 [a], %a6; call (v), through, (a); "
    "ld.param.f32 %f2, [v]; }\\n"
    "mul.f32 %f3, %f1, %f2; st.global.f32 [%a7], %f3; ret; }\\n"
    ".visible .entry bcall()\\n{ call bar96f, (); ret; }\\n"
    /* two blocks read each other's shared memory before they wait: 2 x of the other block, then h */
    ".visible .entry pair(.param .u64 x, .param .u64 h, .param .u64 y)\\n" REGS
    ".shared .align 4 .b8 s[256]; .reg .b32 %m<6>;\\n" GO THREE
    "ld.global.f32 %f1, [%a5]; add.f32 %f1, %f1, %f1; mov.u32 %m1, s; shl.b32 %m2, %r2, 2; add.u32 %m1, %m1, %m2; "
    "st.shared.f32 [%m1], %f1;\\n"
    "barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %m3, %cluster_ctarank; xor.b32 %m3, %m3, 1; "
    "mapa.shared::cluster.u32 %m4, %m1, %m3;\\n"
    "setp.eq.u32 %p, %m3, 1; @%p bra N; mov.u32 %r4, 3000; L: sub.u32 %r4, %r4, 1; setp.ne.u32 %p, %r4, 0; @%p bra L; "
    "N:\\n"
    "ld.shared::cluster.f32 %f1, [%m4]; cvt.rzi.u32.f32 %m5, %f1; and.b32 %m5, %m5, 0; cvt.u64.u32 %a8, %m5; add.u64 "
    "%a8, %a1, %a8; ld.global.f32 %f4, [%a8];\\n" WAIT
    "ld.global.f32 %f2, [%a6]; mul.f32 %f3, %f1, %f2; st.global.f32 [%a7], %f3;\\n"
    "barrier.cluster.arrive; barrier.cluster.wait; ret; }\\n"
    /* in place, by .nc */
    ".visible .entry self(.param .u64 x)\\n" REGS "ld.param.u64 %a1, [x];\\n" INDEX
    "add.u64 %a5, %a1, %a4; ld.global.nc.f32 %f1, [%a5];\\n"
    "add.f32 %f2, %f1, %f1; st.global.f32 [%a5], %f2; ret; }\\n"
    ".visible .entry bar96()\\n{ bar.sync 1, 96; ret; }\\n"
    ".visible .entry bar64()\\n{ bar.sync 1, 64; ret; }\\n";
/* in front of the entries, as it is called */
static const char leave[] =
    ".func (.param .b32 v) deeper(.param .b64 a)\\n{ .reg .b64 %a; .reg .f32 %f; ld.param.u64 %a, [a]; "
    "ld.global.nc.f32 %f, [%a]; st.param.f32 [v], %f; ret; }\\n"
    ".func (.param .b32 v) through(.param .b64 a)\\n{ .reg .b64 %a; .reg .f32 %f; ld.param.u64 %a, [a]; { .param .b64 "
    "b; .param .b32 w; st.param.b64 [b], %a;\\n"
    "call (w), deeper, (b); ld.param.f32 %f, [w]; } st.param.f32 [v], %f; ret; }\\n"
    ".func bar96f()\\n{ bar.sync 1, 96; ret; }\\n"
    ".func leave()\\n{ .reg .pred %p; .reg .b32 %r; mov.u32 %r, %tid.x; setp.eq.u32 %p, %r, 5; @%p exit; ret; }\\n";

struct world {
    struct dt_graph *g;
    struct dev_prog *p;
};

static struct dev_device *dev;

static int setup(void **state)
{
    struct dt_err e = {0};
    if (dev_open("soft:h200", &dev, &e) < 0)
        fail_msg("%s", e.detail);
    return 0;
}

static int teardown(void **state)
{
    dev = dev_close(dev);
    return 0;
}

static struct world make(const char *launches)
{
    struct dt_str s = {0};
    struct dt_err e = {0};
    struct world w = {0};
    const char *at = strstr(ptx, ".visible");
    dt_str_add(&s, "{\"dovetail\": 1, \"baseline\": {}, \"modules\": {\"m\": {\"ptx\": \"");
    dt_str_addn(&s, ptx, (size_t)(at - ptx));
    dt_str_addf(&s, "%s%s\"}}, \"buffers\": {", leave, at);
    static const char *const name[] = {"x", "h", "k", "y", "z"}, *const role[] = {"input", "intermediate",
                                                                                  "intermediate", "output", "output"};
    for (int k = 0; k < 5; k++)
        dt_str_addf(&s, "%s\"%s\": {\"bytes\": 33792, \"role\": \"%s\"%s}", k ? ", " : "", name[k], role[k],
                    k ? "" : ", \"fill\": {\"uniform\": [-1, 1], \"dtype\": \"f32\", \"seed\": 7}");
    dt_str_addf(&s, "}, \"launches\": [%s]}", launches);
    if (dt_graph_parse(s.s, s.len, &w.g, &e) < 0)
        fail_msg("%s at %s", e.detail, e.pointer ? e.pointer : "");
    if (dev_prog_new(dev, w.g, NULL, NULL, &w.p, &e) < 0)
        fail_msg("%s", e.detail);
    dt_str_done(&s);
    return w;
}

static void drop(struct world *w)
{
    dev_prog_free(w->p);
    dt_graph_free(w->g);
}

#define B(x) "{\"buffer\": \"" x "\"}"
#define LAUNCH(name, entry, args, more)                                                                                \
    "{\"name\": \"" name "\", \"module\": \"m\", \"entry\": \"" entry                                                  \
    "\", \"grid\": [132,1,1], \"block\": [64,1,1], \"args\": [" args "]" more "}"
#define TWO(name, x, y, more) LAUNCH(name, "copy", B(x) "," B(y), more)
#define MIX(name, entry, x, h, y, more) LAUNCH(name, entry, B(x) "," B(h) "," B(y), more)
#define ON1 ", \"stream\": 1"
#define EARLY ", \"programmatic\": true"
#define AFTER(x) ", \"after\": [" x "]"

static const struct {
    const char *launches, *wrong, *pointer; /* wrong NULL: it holds */
    bool shows;                             /* under some schedule other bytes come out */
} plans[] = {
    /* one stream: whatever else */
    {TWO("a", "x", "h", "") "," TWO("b", "h", "y", ""), NULL, NULL},
    {TWO("a", "x", "h", "") "," MIX("b", "nc", "x", "h", "y", ""), NULL, NULL},
    /* streams */
    {TWO("a", "x", "h", "") "," TWO("b", "h", "y", ON1 AFTER("\"a\"")), NULL, NULL},
    {TWO("a", "x", "h", "") "," TWO("b", "h", "y", ON1), "'b' does not wait for 'a'", "/launches/1", true},
    {TWO("a", "x", "h", "") "," TWO("b", "x", "z", ON1) "," TWO("c", "h", "y", ON1), "'c' does not wait for 'a'",
     "/launches/2", true},
    /* through b */
    {TWO("a", "x", "h", "") "," TWO("b", "x", "z", ON1 AFTER("\"a\"")) "," TWO("c", "h", "y", ON1), NULL, NULL},
    {TWO("a", "h", "y", "") "," TWO("b", "x", "h", ON1), "'b' does not wait for 'a'", "/launches/1", true}, /* WAR */
    {TWO("a", "x", "y", "") "," TWO("b", "k", "y", ON1), "'b' does not wait for 'a'", "/launches/1", true}, /* WAW */
    {TWO("a", "x", "h", "") "," TWO("b", "x", "k", ON1) "," MIX("c", "good", "h", "k", "y", AFTER("\"b\"")), NULL,
     NULL},
    {TWO("a", "x", "h", "") "," TWO("b", "x", "k", ON1) "," MIX("c", "good", "h", "k", "y", ""),
     "'c' does not wait for 'b'", "/launches/2", true},
    /* programmatic */
    {TWO("a", "x", "h", "") "," MIX("b", "good", "x", "h", "y", EARLY), NULL, NULL},
    {TWO("a", "x", "h", "") "," MIX("b", "hasty", "x", "h", "y", EARLY),
     "'b' touches, before it waits, bytes in conflict with 'a'", "/launches/1", true},
    /* `after` adds nothing */
    {TWO("a", "x", "h", "") "," MIX("b", "hasty", "x", "h", "y", EARLY AFTER("\"a\"")), "'b' touches, before it waits",
     "/launches/1", true},
    {TWO("a", "x", "h", "") "," MIX("b", "stop", "x", "h", "y", EARLY), "'b' is programmatic, but need not reach",
     "/launches/1"},
    {TWO("a", "x", "h", "") "," MIX("b", "maybe", "x", "h", "y", EARLY), "'b' is programmatic, but need not reach",
     "/launches/1"},
    {TWO("a", "x", "h", "") "," MIX("b", "call", "x", "h", "y", EARLY), "'b' is programmatic, but need not reach",
     "/launches/1"},
    {TWO("a", "x", "h", "") "," TWO("b", "h", "y", EARLY), "'b' is programmatic, but need not reach", "/launches/1",
     true},
    {TWO("a", "x", "h", "") "," MIX("b", "nc", "x", "h", "y", EARLY), "'b' loads by .nc what 'a' writes",
     "/launches/1"},
    {TWO("a", "x", "h", "") "," MIX("b", "ncall", "x", "h", "y", EARLY), "'b' loads by .nc what 'a' writes",
     "/launches/1"},
    {TWO("a", "x", "h", "") "," MIX("b", "pair", "x", "h", "y", EARLY ", \"cluster\": [2, 1, 1]"), NULL, NULL},
    {TWO("a", "x", "h", "") "," MIX("b", "pair", "h", "x", "y", EARLY ", \"cluster\": [2, 1, 1]"),
     "'b' touches, before it waits", "/launches/1", true},
    /* WAR */
    {TWO("a", "y", "h", "") "," MIX("b", "spill", "x", "h", "y", EARLY), "'b' touches, before it waits", "/launches/1",
     true},
    /* WAW */
    {TWO("a", "x", "y", "") "," MIX("b", "spill", "x", "h", "y", EARLY), "'b' touches, before it waits", "/launches/1"},
    {TWO("a", "x", "h", "") "," MIX("b", "spill", "x", "h", "y", EARLY), NULL, NULL},
    /* a chain: c may start while a runs, as b may trigger before it waits */
    {TWO("a", "x", "k", "") "," MIX("b", "good", "x", "k", "h", EARLY) "," MIX("c", "good", "k", "h", "y", EARLY),
     "'c' touches, before it waits, bytes in conflict with 'a'", "/launches/2", true},
    {TWO("a", "x", "k", "") "," MIX("b", "good", "x", "k", "h", "") "," MIX("c", "good", "k", "h", "y", EARLY), NULL,
     NULL},
    {TWO("a", "x", "k", "") "," MIX("b", "good", "x", "k", "h", EARLY) "," MIX("c", "good", "x", "k", "y", EARLY), NULL,
     NULL},
    /* read-only loads, barriers */
    {LAUNCH("a", "self", B("z"), "") "," TWO("b", "x", "y", ON1), "'a' loads by .nc what 'a' writes", "/launches/0"},
    {LAUNCH("a", "bar64", "", ""), NULL, NULL},
    {LAUNCH("a", "bar96", "", ""), "'a' has a barrier", "/launches/0"},
    {LAUNCH("a", "bcall", "", ""), "'a' has a barrier", "/launches/0"},
};

static void checks(void **state)
{
    for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
        struct world w = make(plans[k].launches);
        struct dt_err e = {0};
        int r = rw_waits_check(dev, w.p, NULL, NULL, &e);
        if (!plans[k].wrong && r < 0)
            fail_msg("plan %zu: %s", k, e.detail);
        if (plans[k].wrong && r >= 0)
            fail_msg("plan %zu passes", k);
        if (plans[k].wrong &&
            (r != DT_E_GRAPH || !strstr(e.detail, plans[k].wrong) || strcmp(e.pointer, plans[k].pointer)))
            fail_msg("plan %zu: %d \"%s\" at %s", k, r, e.detail, e.pointer ? e.pointer : "-");
        dt_err_done(&e);
        /* what the original has is not the plan's doing */
        if (plans[k].wrong && strstr(plans[k].launches, "\"bar") && rw_waits_check(dev, w.p, NULL, w.p, &e) < 0)
            fail_msg("plan %zu: %s", k, e.detail);
        drop(&w);
    }
}

/* The launches one after the other on one stream. */
static struct world in_order(const char *launches)
{
    struct dt_str s = {0};
    size_t k;
    json_t *l;
    dt_str_addf(&s, "[%s]", launches);
    json_t *all = json_loads(s.s, 0, NULL);
    dt_str_done(&s);
    json_array_foreach (all, k, l) {
        json_object_del(l, "stream");
        json_object_del(l, "after");
        json_object_del(l, "programmatic");
        char *text = json_dumps(l, 0);
        dt_str_addf(&s, "%s%s", k ? ", " : "", text);
        free(text);
    }
    json_decref(all);
    struct world w = make(s.s);
    dt_str_done(&s);
    return w;
}

/* The gate sees by itself what the static check says: launches run side by side, and a plan that relies on too little
 * comes out wrong. One that holds never does. */
static void beside(void **state)
{
    for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
        if ((plans[k].wrong && !plans[k].shows) || strstr(plans[k].launches, "\"bar") ||
            strstr(plans[k].launches, "\"self"))
            continue;
        struct world w = make(plans[k].launches), o = in_order(plans[k].launches);
        struct dt_err e = {0};
        int r = rw_verify(dev, o.p, w.p, 1, 8, &e);
        if (plans[k].shows ? r != DT_E_INTERNAL || !strstr(e.detail, "block order") : r < 0)
            fail_msg("plan %zu: %d %s", k, r, e.detail ? e.detail : "");
        dt_err_done(&e);
        drop(&w);
        drop(&o);
    }
}

/* Three launches, the kernels without what this test's own have, and what programmatic.c makes of them. */
struct chain {
    struct world o;
    struct ana_result *ana;
    struct rw_state now;
    struct rw_edit x;
};

static void chain_of(struct chain *c, const char *launches)
{
    struct dt_str why = {0};
    struct dt_err e = {0};
    enum rw_verdict v;
    c->o = in_order(launches);
    for (uint32_t m = 0; m < c->o.g->nmodule; m++)
        for (char *at = (char *)(uintptr_t)c->o.g->module[m].source; (at = strstr(at, "griddepcontrol.")) != NULL;)
            memset(at, ' ', (size_t)(strchr(at, ';') - at) + 1);
    dev_prog_free(c->o.p);
    if (dev_prog_new(dev, c->o.g, NULL, NULL, &c->o.p, &e) < 0 || ana_run(dev, c->o.p, NULL, &c->ana, &e) < 0)
        fail_msg("%s", e.detail);
    c->now = (struct rw_state){.graph = c->o.g, .prog = c->o.p, .ana = c->ana};
    assert_int_equal(
        rw_edit_init(&c->x, &rw_programmatic, dev_info(dev), NULL, &c->now, (const uint32_t[]){0, 1, 2}, 3, &e), 0);
    if (rw_programmatic.open(&c->x, &v, &why, &e) != 0 || rw_programmatic.build(&c->x, 0, &why, &e) != 0)
        fail_msg("%s", e.detail ? e.detail : why.s);
    for (size_t i = 0; i < c->x.part.n; i++)
        snprintf(c->x.part.p[i].module, sizeof c->x.part.p[i].module, "f%zu", i);
    dt_str_done(&why);
}

static void chain_done(struct chain *c)
{
    rw_programmatic.close(&c->x);
    rw_edit_done(&c->x);
    ana_free(c->ana);
    drop(&c->o);
}

/* What programmatic.c writes, with one griddepcontrol.wait fewer, or a trigger before it: without the static check,
 * too, nobody would get it. */
static void mutated(void **state)
{
    struct chain c;
    struct dt_err e = {0};
    chain_of(&c,
             TWO("a", "x", "k", "") "," MIX("b", "hasty", "x", "k", "h", "") "," MIX("c", "hasty", "k", "h", "y", ""));
    unsigned seen = 0, waits = 0;
    /* 0: as it is; k: part k - 1 without its waits */
    for (size_t drop_from = 0; drop_from <= c.x.part.n; drop_from++) {
        for (int early = 0; early < 2; early++) { /* its trigger in front, too */
            json_t *doc = rw_edit_graph(&c.x);
            if (drop_from) {
                json_t *m = json_object_get(json_object_get(doc, "modules"), c.x.part.p[drop_from - 1].module);
                char *text = strdup(json_string_value(json_object_get(m, "ptx"))), *at = text,
                     *body = strchr(strchr(text, '{'), ';') + 1, *trigger;
                unsigned n = 0;
                if (early && (trigger = strstr(text, "griddepcontrol.launch_dependents;")) != NULL) {
                    size_t len = strlen("griddepcontrol.launch_dependents;"); /* behind the first declaration */
                    memmove(body + len, body, (size_t)(trigger - body));
                    memcpy(body, "griddepcontrol.launch_dependents;", len);
                }
                for (; !early && (at = strstr(at, "griddepcontrol.wait;")) != NULL; n++)
                    memset(at, ' ', strlen("griddepcontrol.wait;"));
                json_object_set_new(m, "ptx", json_string(text));
                free(text);
                waits += n;
                if (!n && !early) { /* the first one waits for nobody */
                    json_decref(doc);
                    continue;
                }
            }
            struct world w = {0};
            if (dt_graph_from_json(doc, &w.g, &e) < 0 || dev_prog_new(dev, w.g, NULL, NULL, &w.p, &e) < 0)
                fail_msg("%s", e.detail);
            int r = rw_verify(dev, c.o.p, w.p, 1, 8, &e);
            if (!drop_from && r < 0)
                fail_msg("%s", e.detail);
            bool wrong = drop_from && (!early || drop_from == 2); /* c reads what a writes, as soon as b lets it */
            if (wrong && (r != DT_E_INTERNAL || !strstr(e.detail, "block order")))
                fail_msg("part %zu, trigger %d: %d %s", drop_from, early, r, e.detail ? e.detail : "");
            seen += wrong;
            dt_err_done(&e);
            drop(&w);
            json_decref(doc);
        }
    }
    assert_true(waits >= 2 && seen >= 3);
    chain_done(&c);
}

/* A function of its own loads by .nc what the launch before writes: programmatic.c makes plain loads of them, also
 * where a function calls it. */
static void callees(void **state)
{
    struct chain c;
    struct world w = {0};
    struct dt_err e = {0};
    chain_of(&c, TWO("a", "x", "h", "") "," MIX("b", "ncall", "x", "h", "k", "") "," TWO("c", "k", "y", ""));
    assert_non_null(strstr(c.o.p->module[0].ptx, "ld.global.nc.f32"));
    json_t *doc = rw_edit_graph(&c.x);
    if (dt_graph_from_json(doc, &w.g, &e) < 0 || dev_prog_new(dev, w.g, NULL, NULL, &w.p, &e) < 0)
        fail_msg("%s", e.detail);
    assert_true(w.g->launch[1].programmatic);
    if (rw_waits_check(dev, w.p, NULL, c.o.p, &e) < 0 || rw_verify(dev, c.o.p, w.p, 1, 8, &e) < 0)
        fail_msg("%s", e.detail);
    drop(&w);
    json_decref(doc);
    chain_done(&c);
}

/* A launch in the middle that needs nothing of the one before it waits only before it exits; what it lets in may need
 * that one. */
static void waits_last(void **state)
{
    struct chain c;
    struct world w = {0};
    struct dt_err e = {0};
    chain_of(&c, TWO("a", "x", "k", "") "," TWO("b", "x", "h", "") "," TWO("c", "k", "y", ""));
    json_t *doc = rw_edit_graph(&c.x);
    if (dt_graph_from_json(doc, &w.g, &e) < 0 || dev_prog_new(dev, w.g, NULL, NULL, &w.p, &e) < 0)
        fail_msg("%s", e.detail);
    assert_true(w.g->launch[1].programmatic && w.g->launch[2].programmatic);
    if (rw_waits_check(dev, w.p, NULL, c.o.p, &e) < 0 || rw_verify(dev, c.o.p, w.p, 1, 8, &e) < 0)
        fail_msg("%s", e.detail);
    drop(&w);
    json_decref(doc);
    chain_done(&c);
}

/* The blocks of a cluster: each condition of rewrite/facts/meets.c broken, and entries that hold. */
static void clusters(void **state)
{
#define ARRIVE "barrier.cluster.arrive;\n"
#define SYNC ARRIVE "barrier.cluster.wait;\n"
#define REMOTE "ld.shared::cluster.b32 %r2, [%r1];\n"
    static const struct {
        const char *body, *wrong; /* NULL: it holds */
    } row[] = {
        {"", NULL},
        {SYNC REMOTE SYNC, NULL},
        {SYNC, NULL},
        {SYNC "@%p bra A;\n" REMOTE "A:\n" SYNC, NULL},
        {SYNC REMOTE ARRIVE "add.u32 %r2, %r2, 1;\nbarrier.cluster.wait;\n", NULL},
        {SYNC REMOTE, "may exit while other blocks"},
        {SYNC ARRIVE REMOTE "barrier.cluster.wait;\n", "may exit while other blocks"},
        {REMOTE SYNC, "before its cluster has met"},
        {SYNC "@%p ret;\n" REMOTE SYNC, "need not meet"},
        {"@%p bra A;\n" SYNC "A:\n" SYNC, "need not meet"},
        {"A:\n" SYNC "@%p bra A;\n", "need not meet"},
        {"@%p barrier.cluster.arrive;\nbarrier.cluster.wait;\n", "leave out"},
        {ARRIVE, "between arriving"},
        {ARRIVE SYNC, "arrives twice"},
        {"barrier.cluster.wait;\n", "without having arrived"},
        {"call f, ();\n", "calls functions"},
    };
    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        char text[1024];
        struct ptx_module *m;
        struct dt_err e = {0};
        const char *wrong;
        snprintf(text, sizeof text,
                 ".version 8.0\n.target sm_90\n.address_size 64\n%s.visible .entry k()\n{\n.reg .pred %%p; .reg .b32 "
                 "%%r<4>;\n%sret;\n}\n",
                 strstr(row[k].body, "call") ? ".func f()\n{\n" SYNC "ret;\n}\n" : "", row[k].body);
        if (ptx_parse(text, strlen(text), &m, &e) < 0)
            fail_msg("row %zu: %s", k, e.detail);
        assert_int_equal(rw_cluster_meets(ptx_find_function(m, "k"), NULL, NULL, &wrong, &e), 0);
        if (!row[k].wrong != !wrong || (wrong && !strstr(wrong, row[k].wrong)))
            fail_msg("row %zu: wanted '%s', got '%s'", k, row[k].wrong ? row[k].wrong : "nothing",
                     wrong ? wrong : "nothing");
        ptx_module_free(m);
    }
}

/* Under some schedule a plan whose streams lack an `after` comes out wrong; one that has it never does. */
static void schedules(void **state)
{
    static const char *const launches[] = {
        TWO("a", "x", "h", "") "," TWO("b", "x", "k", ON1 AFTER("\"a\"")) "," MIX("c", "good", "h", "k", "y",
                                                                                  AFTER("\"b\"")),
        TWO("a", "x", "h", "") "," TWO("b", "x", "k", ON1 AFTER("\"a\"")) "," MIX("c", "good", "h", "k", "y", ""),
    };
    static float x[8448], y[8448];
    for (int k = 0; k < 2; k++) {
        struct world w = make(launches[k]);
        struct dt_err e = {0};
        struct dev_run *r;
        int wrong = 0;
        if (dev_run_new(dev, w.p, &r, &e) < 0)
            fail_msg("%s", e.detail);
        for (uint64_t seed = 0; seed < 10; seed++) {
            dev_set_schedule(dev, seed, true);
            if (dev_run_fill(r, 0, 0xFF, &e) < 0 || dev_run_once(r, &e) < 0 || dev_run_download(r, 0, x, &e) < 0 ||
                dev_run_download(r, 3, y, &e) < 0)
                fail_msg("%s", e.detail);
            bool bad = false;
            for (int i = 0; i < 8448; i++)
                bad |= y[i] != 4 * x[i] * x[i];
            wrong += bad;
            assert_true(seed || !bad); /* as written down, it happens to be right */
        }
        dev_set_schedule(dev, 0, false);
        assert_true(k ? wrong > 0 : wrong == 0);
        dev_run_free(r);
        drop(&w);
    }
}

/* One of several that run side by side leaves its buffer: the others stop, the fault is its own, the device can be used
 * again. */
static void fault(void **state)
{
    struct world w =
        make(TWO("a", "x", "h", "") ",{\"name\": \"b\", \"module\": \"m\", \"entry\": \"hasty\", \"grid\": [133,1,1], "
                                    "\"block\": [64,1,1], \"args\": [" B("x") "," B("x") "," B(
                                        "y") "], \"stream\": 1}," TWO("c", "x", "z", ", \"stream\": 2"));
    struct dt_err e = {0};
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct dev_run *r;
        assert_int_equal(dev_run_new(dev, w.p, &r, &e), 0);
        assert_int_equal(dev_run_fill(r, 0, 0xFF, &e), 0);
        dev_set_schedule(dev, seed, true);
        int x = dev_run_once(r, &e);
        if (x != DT_E_BOUNDS || !strstr(e.detail, "launch b: ") || !strstr(e.detail, "past the end of buffer 'x'"))
            fail_msg("seed %u: %d %s", (unsigned)seed, x, e.detail ? e.detail : "");
        dt_err_done(&e);
        dev_run_free(r);
        assert_int_equal(dev_reset(dev, &e), 0);
    }
    dev_set_schedule(dev, 0, false);
    drop(&w);
}

/* A programmatic edge in the modelled time, from a run and from costs alike. */
static void times(void **state)
{
    static const char *const launches[] = {
        TWO("a", "x", "h", "") "," MIX("b", "good", "x", "h", "y", ""),
        TWO("a", "x", "h", "") "," MIX("b", "good", "x", "h", "y", EARLY),
        TWO("a", "x", "h", "") "," MIX("b", "good", "x", "h", "y", EARLY AFTER("\"a\"")),
    };
    double us[3], step[3][2];
    for (int k = 0; k < 3; k++) {
        struct world w = make(launches[k]);
        struct dt_err e = {0};
        struct dev_run *r;
        struct dev_time t, again;
        struct dev_cost cost[2];
        if (dev_run_new(dev, w.p, &r, &e) < 0 || dev_run_fill(r, 0, 0, &e) < 0 || dev_run_step(r, 0, &e) < 0 ||
            dev_run_cost(r, 0, &cost[0], &e) < 0 || dev_run_step(r, 1, &e) < 0 ||
            dev_run_cost(r, 1, &cost[1], &e) < 0 || dev_run_time(r, 1, &t, step[k], &e) < 0 ||
            dev_model_time(dev, w.p, cost, NULL, 0, &again, NULL, NULL, NULL, &e) < 0)
            fail_msg("%s", e.detail);
        assert_true(t.time_us == again.time_us);
        us[k] = t.time_us;
        dev_run_free(r);
        drop(&w);
    }
    /* a triggers at once: the launch of b and nearly all of what b does before it waits is hidden */
    assert_true(us[1] < us[0] - 0.85 - 0.5 * step[0][1]);
    assert_true(us[1] > us[0] - 0.85 - step[0][1]);
    assert_true(us[2] == us[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks),  cmocka_unit_test(clusters),   cmocka_unit_test(beside),
        cmocka_unit_test(mutated), cmocka_unit_test(waits_last), cmocka_unit_test(callees),
        cmocka_unit_test(fault),   cmocka_unit_test(schedules),  cmocka_unit_test(times)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
