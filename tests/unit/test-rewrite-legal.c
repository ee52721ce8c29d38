/* Every condition of rewrite/legal.def is broken on purpose: the pair must then be refused by the name of that row. The
 * pair as it was before must pass. */
#include "rewrite-fixture.h"

#include "rewrite/emit/emit-priv.h"
#include "rewrite/emit/flow.h"
#include "rewrite/kinds/kinds-priv.h"

#include "base/subject.h"

#define PARAMS(e) ".visible .entry " e "(.param .u64 " e "_0, .param .u64 " e "_1)\n{\n" REGS
#define REGS ".reg .pred %p<4>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<8>;\n.reg .b16 %h<4>;\n"
#define START(e)                                                                                                       \
    "ld.param.u64 %rd1, [" e "_0];\nld.param.u64 %rd2, [" e "_1];\ncvta.to.global.u64 %rd1, %rd1;\n"                   \
    "cvta.to.global.u64 %rd2, %rd2;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"            \
    "mad.lo.s32 %r4, %r1, %r2, %r3;\nmul.wide.s32 %rd3, %r4, 4;\nadd.s64 %rd1, %rd1, %rd3;\nadd.s64 %rd2, %rd2, "      \
    "%rd3;\n"
#define END "ld.global.f32 %f1, [%rd1];\nadd.f32 %f2, %f1, 0f3F800000;\nst.global.f32 [%rd2], %f2;\nret;\n}\n"
#define ENTRY(e, body) PARAMS(e) START(e) body END
#define PLAIN(e) ENTRY(e, "")

#define BOTH(before, body) HEAD before ENTRY("p", body) PLAIN("c")

static const struct fix_spec plain = {
    .ptx = HEAD PLAIN("p") PLAIN("c"), .gp = 8, .bp = 128, .gc = 8, .bc = 128, .hp = 512, .hc = 512};

/* "order_by" is "order-by". */
static bool same_name(const char *row, const char *told)
{
    for (; *row && *told && (*row == *told || (*row == '_' && *told == '-')); row++)
        told++;
    return !*row && !*told;
}

/* The pair must be refused, and by this predicate. */
static void refused(struct fix *f, const char *name)
{
    struct dt_str why = {0};
    bool ok = rw_legal_check(&f->c, &why);
    if (ok)
        fail_msg("%s did not refuse", name);
    if (strncmp(dt_plain(why.s), name, strlen(name)) || why.s[strlen(name)] != ':')
        fail_msg("wanted %s, got: %s", name, dt_plain(why.s));
    if (strlen(why.s) < strlen(name) + 12)
        fail_msg("%s gives no reason", name);
    dt_str_done(&why);
    for (unsigned k = 0; k < rw_ninline_legal; k++) /* an ALSO row: inlining refuses it too */
        if (same_name(rw_inline_legal[k].name, name)) {
            if (rw_legal_inline_check(&f->c, &why))
                fail_msg("%s does not refuse inlining", name);
            if (strncmp(dt_plain(why.s), name, strlen(name)))
                fail_msg("inlining: wanted %s, got: %s", name, dt_plain(why.s));
            dt_str_done(&why);
        }
}

static void refused_ptx(const char *ptx, const char *name)
{
    struct fix f;
    struct fix_spec s = plain;
    s.ptx = ptx;
    fix_open(&f, &s);
    fix_cand(&f);
    refused(&f, name);
    fix_close(&f);
}

static void accepted_ptx(const char *ptx)
{
    struct fix f;
    struct fix_spec s = plain;
    struct dt_str why = {0};
    s.ptx = ptx;
    fix_open(&f, &s);
    fix_cand(&f);
    if (!rw_legal_check(&f.c, &why))
        fail_msg("refused: %s", dt_plain(why.s));
    dt_str_done(&why);
    fix_close(&f);
}

static void test_plain(void **state) { accepted_ptx(plain.ptx); }

static void test_plain_launches(void **state)
{
    struct fix f;
    fix_open(&f, &plain);
    f.g->launch[1].kind = DT_MEMSET;
    fix_cand(&f);
    refused(&f, "plain-launches");
    fix_close(&f);
    fix_open(&f, &plain);
    f.g->launch[1].programmatic = true;
    fix_cand(&f);
    refused(&f, "plain-launches");
    fix_close(&f);
}

/* A body's own clusters, by level; what does not use them is like any other. */
static void test_own_clusters(void **state)
{
    static const char sync[] = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";
    static const struct {
        const char *producer, *consumer; /* text of the two */
        enum rw_level level;
        bool clustered; /* the consumer's launch */
        uint32_t a, b;  /* ranks that the fixture pretends the launches have; 0: as it is */
        const char *wrong;
    } row[] = {
        {"", "", RW_LEVEL_SHARED, true, 0, 0, NULL},
        {"", sync, RW_LEVEL_SHARED, true, 0, 0, "'c' uses its clusters of 2 blocks"},
        {"", sync, RW_LEVEL_GLOBAL, true, 0, 0, "'c' uses its clusters of 2 blocks"},
        {"", "mov.u32 %r5, %cluster_ctarank;\n", RW_LEVEL_GLOBAL, true, 0, 0, "(`cluster_ctarank`"},
        {"", sync, RW_LEVEL_GLOBAL, false, 0, 0, "is not launched in clusters"},
        {"", sync, RW_LEVEL_EPILOGUE, true, 0, 0, NULL},
        {"", sync, RW_LEVEL_EPILOGUE, false, 0, 0, "is not launched in clusters"},
        {"", "barrier.cluster.arrive;\n", RW_LEVEL_EPILOGUE, true, 0, 0, "'c' exits between arriving"},
        {"", "barrier.cluster.arrive;\n", RW_LEVEL_CLUSTER, true, 0, 0, "'c' exits between arriving"},
        {"", sync, RW_LEVEL_CLUSTER, true, 0, 0, NULL},
        {sync, sync, RW_LEVEL_CLUSTER, true, 2, 2, NULL},
        {sync, sync, RW_LEVEL_CLUSTER, true, 4, 2, "'p' runs in clusters of 4 blocks, 'c' of 2"},
        {sync, "", RW_LEVEL_CLUSTER, false, 1, 0, "a component has up to 2 blocks of 'p', which runs in clusters of 1"},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        struct fix f;
        struct fix_spec s = plain;
        struct dt_str why = {0};
        struct dt_str text = {0};
        dt_str_addf(&text, "%s%s%s%s%s%s", HEAD PARAMS("p") START("p"), row[k].producer, END, PARAMS("c") START("c"),
                    row[k].consumer, END);
        s.ptx = text.s;
        s.more = row[k].clustered ? ", \"cluster\": [2,1,1]" : NULL;
        s.gc = 4; /* pairs of producers for one consumer, and with its clusters four for two */
        s.hc = 1024;
        fix_open(&f, &s);
        fix_cand(&f);
        f.c.facts.body[0].ranks = row[k].a ? row[k].a : f.c.facts.body[0].ranks;
        f.c.facts.body[1].ranks = row[k].b ? row[k].b : f.c.facts.body[1].ranks;
        f.c.facts.body[0].apart = NULL;
        f.c.level = row[k].level;
        if (row[k].a == 2 || row[k].a == 4)
            f.c.lists.list[0].max = 2;
        bool ok = rw_legal_clusters(&f.c, &why);
        if (ok != !row[k].wrong || (!ok && !strstr(dt_plain(why.s), row[k].wrong)))
            fail_msg("row %zu: wanted '%s', got '%s'", k, row[k].wrong ? row[k].wrong : "nothing",
                     ok ? "nothing" : why.s);
        dt_str_done(&why);
        fix_close(&f);
        dt_str_done(&text);
    }
}

static void test_opaque(void **state) { refused_ptx(BOTH("", "frobnicate.b32 %r5, %r6;\n"), "opaque"); }

/* p -> x -> c: nothing can bring p and c together. */
static void test_order(void **state)
{
    struct fix f;
    uint32_t order[3], between, pair[2] = {0, 2};
    fix_open(&f, &plain);
    /* a third launch between them: the consumer becomes number 2 */
    struct dt_launch *l = dt_new_array(&f.a, struct dt_launch, 3);
    l[0] = f.g->launch[0];
    l[1] = f.g->launch[1];
    l[1].name = "x";
    l[2] = f.g->launch[1];
    f.g->launch = l;
    f.g->nlaunch = 3;
    f.prog.step[2] = f.prog.step[1];
    f.ana.launch[2] = f.ana.launch[1];
    for (int k = 0; k < 3; k++)
        f.prog.step[k].launch = &l[k];
    fix_edge(&f, &f.ana.edge[0], 0, 1);
    fix_edge(&f, &f.ana.edge[1], 0, 2);
    fix_edge(&f, &f.ana.edge[2], 1, 2);
    f.ana.nedge = 3;
    f.ana.edge[2].any.npairs = f.ana.edge[2].pairs = 1;
    struct dt_err e = {0};
    assert_int_equal(rw_cand_init(&f.c, &f.dev, &f.prog, &f.ana, &f.opt, 0, 2, &e), 0);
    refused(&f, "order");
    assert_false(rw_order(&f.ana, pair, 2, order, &between));
    assert_int_equal(between, 1);
    rw_cand_done(&f.c);
    /* without x -> c it moves behind the pair, without p -> x before it */
    f.ana.edge[2].consumer = 99;
    f.ana.nedge = 2;
    assert_true(rw_order(&f.ana, pair, 2, order, &between));
    assert_int_equal(order[0], 0);
    assert_int_equal(order[1], 1);
    f.ana.edge[0] = f.ana.edge[1];
    fix_edge(&f, &f.ana.edge[1], 1, 2);
    f.ana.edge[1].any.npairs = f.ana.edge[1].pairs = 1;
    assert_true(rw_order(&f.ana, pair, 2, order, &between));
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 0);
    fix_close(&f);
}

static void test_block_map(void **state)
{
    struct fix f;
    fix_open(&f, &plain);
    f.ana.edge[0].any.row = NULL;
    fix_cand(&f);
    refused(&f, "block-map");
    fix_close(&f);
}

static void test_self_conflict(void **state)
{
    struct fix f;
    for (int k = 0; k < 2; k++) {
        fix_open(&f, &plain);
        f.ana.launch[k].self_conflict = true;
        fix_cand(&f);
        refused(&f, "self-conflict");
        fix_close(&f);
    }
}

/* Blocks of one cluster may touch what they like of each other's, as long as they stay one: blocks 0 and 1, 2 and 3, …
 * of p. */
static void test_cluster_conflict(void **state)
{
    static const struct {
        uint32_t block; /* touches another 128 bytes, from `at` of h; each block writes 512 of its own */
        uint64_t at;
        bool writes, far;
    } row[] = {
        {0, 512, true, false},   {1, 0, false, false},  {0, 7 * 512 + 500, true, true}, {7, 0, false, true},
        {2, 1900, false, false}, {2, 2048, true, true}, {6, 8192, true, false},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        struct fix f;
        fix_open(&f, &plain);
        f.ana.launch[0].self_conflict = true;
        fix_cand(&f);
        struct ana_touch *t = f.ana.launch[0].block[row[k].block].touch;
        *(row[k].writes ? &t->may_write : &t->read) = fix_run(&f, row[k].at, row[k].at + 128);
        refused(&f, "self-conflict");
        f.c.facts.body[0].ranks = f.c.facts.body[0].cluster[0] = 2;
        f.c.facts.body[0].cluster[1] = f.c.facts.body[0].cluster[2] = 1;
        if (rw_cluster_conflict(&f.c.facts, 0) != row[k].far)
            fail_msg("row %zu: wanted %d", k, row[k].far);
        struct dt_str why = {0};
        assert_int_equal(rw_legal_self_conflict(&f.c.facts, &why), !row[k].far);
        assert_true(!row[k].far ||
                    !strcmp(dt_plain(why.s), "two clusters of 'p' touch the same byte, one of them writing"));
        dt_str_done(&why);
        fix_close(&f);
    }
}

static void test_ordered_access(void **state)
{
    refused_ptx(BOTH("", "membar.gl;\n"), "ordered-access");
    refused_ptx(BOTH("", "fence.acq_rel.gpu;\n"), "ordered-access");
    refused_ptx(BOTH("", "ld.acquire.gpu.global.u32 %r5, [%rd1];\n"), "ordered-access");
    refused_ptx(BOTH("", "ld.relaxed.gpu.global.u32 %r5, [%rd1];\n"), "ordered-access");
    refused_ptx(BOTH("", "atom.add.acq_rel.gpu.global.u32 %r5, [%rd1], 1;\n"), "ordered-access");
    accepted_ptx(BOTH("", "membar.cta;\n"));
    accepted_ptx(BOTH("", "red.global.add.u32 [%rd1], 1;\n"));
}

static void test_side_effects(void **state)
{
    refused_ptx(BOTH("", "setp.eq.s32 %p1, %r1, 77;\n@%p1 trap;\n"), "side-effects");
    refused_ptx(BOTH("", "brkpt;\n"), "side-effects");
    /* volatile is refused too, as talk between blocks */
    refused_ptx(BOTH("", "st.volatile.global.u32 [%rd1], %r5;\n"), "ordered-access");
}

static void test_float_atomics(void **state)
{
    struct fix f;
    struct dt_str why = {0};
    static const char *const allow[] = {"reorder-atomics"};
    fix_open(&f, &plain);
    f.ana.launch[1].access[1].fp_atomics = true;
    fix_cand(&f);
    refused(&f, "float-atomics");
    f.opt.allow = allow;
    f.opt.nallow = 1;
    assert_true(rw_legal_check(&f.c, &why));
    dt_str_done(&why);
    f.ana.launch[1].self_conflict = true; /* where several blocks add to one byte, what is left has no bits to keep */
    refused(&f, "self-conflict");
    fix_close(&f);
}

static void test_machine_registers(void **state)
{
    refused_ptx(BOTH("", "mov.u32 %r5, %smid;\n"), "machine-registers");
    refused_ptx(BOTH("", "mov.u64 %rd5, %clock64;\n"), "machine-registers");
    refused_ptx(BOTH("", "mov.b32 %r5, %envreg2;\n"), "machine-registers");
    refused_ptx(BOTH("", "mov.u32 %r5, %warpid;\n"), "machine-registers");
    refused_ptx(BOTH("", "mov.u32 %r5, %dynamic_smem_size;\n"), "machine-registers");
    accepted_ptx(BOTH("", "mov.u32 %r5, %laneid;\n"));
}

#define CALL(f) "{ .param .b32 q0; st.param.b32 [q0], %r1; call.uni " f ", (q0); }\n"

static void test_functions(void **state)
{
    refused_ptx(BOTH(".extern .func ext (.param .b32 a);\n", CALL("ext")), "functions");
    refused_ptx(BOTH(".func leave (.param .b32 a) { exit; }\n", CALL("leave")), "functions");
    refused_ptx(BOTH(".func again (.param .b32 a) { .reg .b32 %r1; ld.param.b32 %r1, [a]; { .param .b32 q0; "
                     "st.param.b32 [q0], %r1;"
                     " call.uni again, (q0); } ret; }\n",
                     CALL("again")),
                "functions");
    refused_ptx(BOTH(".func sync (.param .b32 a) { bar.sync 0; ret; }\n", CALL("sync")), "functions");
    refused_ptx(BOTH(".func where (.param .b32 a) { .reg .b32 %r1; mov.u32 %r1, %tid.x; ret; }\n", CALL("where")),
                "functions");
    refused_ptx(BOTH("", "mov.u64 %rd6, %rd1;\nprot: .callprototype _ ();\ncall %rd6, (), prot;\n"), "functions");
    accepted_ptx(BOTH(".func fine (.param .b32 a) { ret; }\n", CALL("fine")));
}

static void test_module_variables(void **state)
{
    refused_ptx(BOTH(".global .align 4 .u32 counter;\n", "st.global.u32 [counter], %r1;\n"), "module-variables");
    refused_ptx(BOTH(".global .align 4 .u32 counter;\n", "mov.u64 %rd5, counter;\nst.global.u64 [%rd1], %rd5;\n"),
                "module-variables");
    accepted_ptx(BOTH(".global .align 4 .b8 tab[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n",
                      "mov.u64 %rd5, tab;\ncvta.global.u64 %rd6, %rd5;\nld.u32 %r5, [%rd6+4];\n"));
    /* a table of addresses, which a copy would lose */
    refused_ptx(BOTH(".global .align 4 .b8 tab[8];\n.const .align 8 .u64 ptrs[1] = {generic(tab)};\n",
                     "ld.const.u64 %rd5, [ptrs];\n"),
                "module-variables");
    accepted_ptx(BOTH(".const .align 4 .b8 tab[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n", "ld.const.u32 %r5, [tab+4];\n"));
}

static void test_parameters(void **state)
{
    struct fix f;
    refused_ptx(BOTH("", "mov.b64 %rd5, p_0;\n"), "parameters");
    refused_ptx(BOTH("", "ldu.global.u32 %r5, [%rd1];\n"), "parameters");
    fix_open(&f, &plain);
    fix_cand(&f);
    f.prog.module[0].ir->func[0]->param[0]->bytes = 5000;
    refused(&f, "parameters");
    fix_close(&f);
}

static void test_targets(void **state)
{
    static const struct {
        const char *p, *c;
        bool fine;
    } row[] = {{"sm_90", "sm_80", true},    {"sm_90a", "sm_80", true},    {"sm_80", "sm_90a", true},
               {"sm_90a", "sm_90", true},   {"sm_90a", "sm_90a", true},   {"sm_90a", "sm_100", false},
               {"sm_100", "sm_90a", false}, {"sm_90a", "sm_100a", false}, {"sm_100f", "sm_100a", false},
               {"sm_60", "sm_61", true},    {"sm_60", "sm_80", false},    {"sm_90", "sm_60", false},
               {"sm_70", "sm_80", true}};
    for (size_t k = 0; k < sizeof row / sizeof row[0]; k++) {
        struct fix f;
        struct fix_spec s = plain;
        struct dt_str why = {0};
        char p[4096], c[4096];
        snprintf(p, sizeof p,
                 ".version 9.0\n.target %s\n.address_size 64\n"
                 "%s",
                 row[k].p, PLAIN("p"));
        snprintf(c, sizeof c,
                 ".version 9.0\n.target %s\n.address_size 64\n"
                 "%s",
                 row[k].c, PLAIN("c"));
        s.ptx = p;
        s.ptx2 = c;
        fix_open(&f, &s);
        fix_cand(&f);
        if (!row[k].fine)
            refused(&f, "targets");
        else if (!rw_legal_check(&f.c, &why))
            fail_msg("%s with %s: %s", row[k].p, row[k].c, dt_plain(why.s));
        dt_str_done(&why);
        fix_close(&f);
    }
}

static void test_uniform_barriers(void **state)
{
    /* threads leave before a barrier */
    refused_ptx(BOTH("", "setp.gt.s32 %p1, %r3, 5;\n@%p1 ret;\nbar.sync 0;\n"), "uniform-barriers");
    refused_ptx(BOTH("", "setp.gt.s32 %p1, %r3, 5;\n@%p1 exit;\nbar.sync 0;\n"), "uniform-barriers");
    refused_ptx(BOTH("", "setp.gt.s32 %p1, %r3, 5;\n@%p1 bra OUT;\nbar.sync 0;\nOUT:\n"), "uniform-barriers");
    refused_ptx(BOTH("", "setp.gt.s32 %p1, %r3, 5;\n@%p1 bar.sync 0;\n"), "uniform-barriers");
    /* a loop whose length differs between threads */
    refused_ptx(
        BOTH("",
             "mov.u32 %r5, %r3;\nTOP:\nbar.sync 0;\nsub.s32 %r5, %r5, 1;\nsetp.gt.s32 %p1, %r5, 0;\n@%p1 bra TOP;\n"),
        "uniform-barriers");
    /* the varying value comes around through a register assigned under a varying branch */
    refused_ptx(
        BOTH("",
             "mov.u32 %r5, 0;\nsetp.gt.s32 %p1, %r3, 5;\n@%p1 bra A;\nmov.u32 %r5, 1;\nA:\nsetp.eq.s32 %p2, %r5, 1;\n"
             "@%p2 bra OUT;\nbar.sync 0;\nOUT:\n"),
        "uniform-barriers");
    /* the whole block leaves, or none: fine */
    accepted_ptx(BOTH("", "setp.gt.s32 %p1, %r1, 5;\n@%p1 ret;\nbar.sync 0;\n"));
    /* a divergent part that joins before the barrier: fine */
    accepted_ptx(BOTH("", "setp.gt.s32 %p1, %r3, 5;\n@%p1 bra A;\nadd.s32 %r5, %r5, 1;\nA:\nbar.sync 0;\n"));
    /* threads leave after the last barrier: fine */
    accepted_ptx(BOTH("", "bar.sync 0;\nsetp.gt.s32 %p1, %r3, 5;\n@%p1 ret;\n"));
}

/* An exited lane is not waited for, one that branched to the phase's end is. */
static void test_uniform_collectives(void **state)
{
#define SHFL(mask) "shfl.sync.bfly.b32 %r6, %r4, 1, 31, " mask ";\n"
    static const char *const bad[] = {
        "and.b32 %r5, %r3, 31;\nsetp.gt.u32 %p1, %r5, 15;\n@%p1 ret;\n" SHFL("-1"),
        "setp.gt.u32 %p1, %r3, 15;\n@%p1 bra OUT;\n" SHFL("-1") "OUT:\n",
        "mov.u32 %r5, -1;\nsetp.ge.u32 %p1, %r4, 1000;\n@%p1 exit;\n" SHFL("%r5"),
        "setp.gt.u32 %p1, %r3, 15;\n@%p1 " SHFL("-1"), "setp.gt.u32 %p1, %r3, 15;\n@%p1 ret;\nbar.warp.sync -1;\n",
        /* a mask of some, of which one may be gone */
        "setp.ge.u32 %p1, %r4, 1000;\n@%p1 exit;\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra OUT;\n" SHFL("-2") "OUT:\n",
        "setp.gt.u32 %p1, %r3, 15;\n@%p1 ret;\nvote.sync.ballot.b32 %r5, %p1, -1;\n",
        /* halves of a warp vote apart */
        "and.b32 %r5, %r3, 16;\nshl.b32 %r7, 65535, %r5;\nsetp.gt.u32 %p2, %r3, 3;\nvote.sync.any.pred %p1, %p2, "
        "%r7;\n@%p1 ret;\n" SHFL("-1"),
        /* a mask nobody knows; a value assigned where lanes are apart; a loop of other length per lane */
        "vote.sync.ballot.b32 %r5, 1, -1;\nsetp.gt.u32 %p1, %r3, 15;\n@%p1 ret;\n" SHFL("%r5"),
        "mov.u32 %r5, 0;\nsetp.gt.u32 %p1, %r3, 15;\n@%p1 bra A;\nmov.u32 %r5, 1;\nA:\nsetp.eq.s32 %p2, %r5, 1;\n@%p2 "
        "ret;\n" SHFL("-1"),
        "mov.u32 %r5, %r3;\nTOP:\n" SHFL("-1") "add.s32 %r5, %r5, 7;\nsetp.lt.s32 %p1, %r5, 64;\n@%p1 bra TOP;\n",
        /* halves of a warp get what their own first lane has; another lane's by its own number */
        "shfl.sync.idx.b32 %r5, %r3, 0, 4127, -1;\nsetp.gt.u32 %p1, %r5, 3;\n@%p1 ret;\n" SHFL("-1"),
        "shfl.sync.idx.b32 %r5, %r3, %r3, 31, -1;\nsetp.gt.u32 %p1, %r5, 3;\n@%p1 ret;\n" SHFL("-1")};
    static const char *const good[] = {
        /* whole warps leave: thread numbers against multiples of 32, a warp a row, unsigned and signed */
        "setp.gt.u32 %p1, %r3, 31;\n@%p1 ret;\n" SHFL("-1"), "setp.lt.u32 %p1, %r3, 64;\n@!%p1 ret;\n" SHFL("-1"),
        "shr.u32 %r5, %r4, 5;\nsetp.ge.s32 %p1, %r5, 7;\n@%p1 ret;\n" SHFL("-1"),
        "shr.s32 %r5, %r4, 31;\nshr.u32 %r7, %r5, 27;\nadd.s32 %r8, %r4, %r7;\nshr.s32 %r9, %r8, 5;\nsetp.gt.s32 %p1, "
        "%r9, 9;\n"
        "@%p1 bra OUT;\n" SHFL("-1") "OUT:\n",
        /* the warp votes to leave */
        "setp.gt.u32 %p2, %r3, 3;\nvote.sync.all.pred %p1, %p2, -1;\n@%p1 ret;\n" SHFL("-1"),
        /* all have what lane 0 has, as nvcc writes it: two results, and a mask that is another number elsewhere */
        "mov.u32 %r7, 0;\nmov.u32 %r8, 31;\nmov.u32 %r9, -1;\nshfl.sync.idx.b32 %r5|%p2, %r3, %r7, %r8, %r9;\n"
        "mov.u32 %r9, 5;\nsetp.gt.u32 %p1, %r5, 3;\n@%p1 ret;\n" SHFL("-1"),
        /* a loop of one warp over a row of 96 */
        "and.b32 %r5, %r3, 31;\nTOP:\n" SHFL("-1") "add.s32 %r5, %r5, 32;\nsetp.lt.s32 %p1, %r5, 96;\n@%p1 bra TOP;\n",
        /* a mask of those that stay; lanes that join again; lanes that leave afterwards */
        "setp.gt.u32 %p1, %r3, 7;\n@%p1 bra OUT;\n" SHFL("255") "OUT:\n",
        "setp.gt.u32 %p1, %r3, 7;\n@%p1 bra A;\nadd.s32 %r4, %r4, 1;\nA:\n" SHFL("-1"),
        SHFL("-1") "setp.gt.u32 %p1, %r3, 7;\n@%p1 ret;\n"};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        char text[4096];
        snprintf(text, sizeof text, "%s%s%s", HEAD PARAMS("p") START("p"), bad[k], END PLAIN("c"));
        refused_ptx(text, "uniform-collectives");
    }
    for (size_t k = 0; k < sizeof good / sizeof good[0]; k++) {
        char text[4096];
        snprintf(text, sizeof text, "%s%s%s", HEAD PARAMS("p") START("p"), good[k], END PLAIN("c"));
        accepted_ptx(text);
    }
}

static void test_barrier_numbers(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    struct dt_str all = {0}, why = {0};
    refused_ptx(BOTH("", "bar.sync %r1;\n"), "barrier-numbers");
    refused_ptx(BOTH("", "bar.sync 1, %r1;\n"), "barrier-numbers");
    accepted_ptx(BOTH("", "setp.gt.s32 %p1, %r3, 63;\n@%p1 bra A;\nbar.sync 1, 64;\nA:\n"));
    refused_ptx(BOTH("", "bar.arrive 1, 128;\n"), "barrier-numbers");
    accepted_ptx(BOTH("", "bar.sync 1, 128;\n"));
    dt_str_add(&all, HEAD PARAMS("p") START("p"));
    for (int k = 0; k < 16; k++)
        dt_str_addf(&all, "bar.sync %d;\n", k);
    dt_str_add(&all, END PLAIN("c"));
    s.ptx = all.s;
    s.bc = 256; /* the phases differ, so a number of its own is needed */
    s.gc = 4;
    s.hc = 1024;
    fix_open(&f, &s);
    fix_cand(&f);
    refused(&f, "barrier-numbers");
    fix_close(&f);
    s.bc = 128;
    s.gc = 8;
    s.hc = 512;
    fix_open(&f, &s);
    fix_cand(&f);
    assert_true(rw_legal_check(&f.c, &why));
    fix_close(&f);
    dt_str_done(&all);
}

static void test_thread_counts(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    struct dt_str why = {0};
    s.bp = 48;
    s.hp = 192;
    s.ptx = BOTH("", "shfl.sync.bfly.b32 %r5, %r3, 1, 31, -1;\n");
    fix_open(&f, &s);
    fix_cand(&f);
    refused(&f, "thread-counts");
    fix_close(&f);
    s.bc = 48; /* both alike: the fused block is like either */
    s.hc = 192;
    fix_open(&f, &s);
    fix_cand(&f);
    assert_true(rw_legal_check(&f.c, &why));
    fix_close(&f);
    s = plain;
    fix_open(&f, &s);
    fix_cand(&f);
    assert_true(rw_legal_check(&f.c, &why));
    f.c.threads = 1056;
    refused(&f, "thread-counts");
    fix_close(&f);
}

/* Lanes that fill up a last warp; test-rewrite-surplus.c has all that they cannot do. */
static void test_surplus(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    struct dt_str why = {0};
    s.bp = 48;
    s.hp = 192;
    s.ptx = BOTH("", "bar.sync 0;\n");
    fix_open(&f, &s);
    fix_cand(&f);
    assert_true(rw_legal_check(&f.c, &why));
    fix_close(&f);
    s.ptx = BOTH("", "setp.ne.u32 %p1, %r3, 7;\nbar.red.popc.u32 %r5, 0, %p1;\n");
    fix_open(&f, &s);
    fix_cand(&f);
    refused(&f, "surplus-lanes");
    fix_close(&f);
    s.ptx = BOTH("", "bar.sync 0;\natom.global.add.u32 %r5, [%rd2], 1;\nsetp.ne.u32 %p1, %r5, 0;\n@%p1 bra L;\n"
                     "mov.u32 %r5, 1;\nL:\n");
    fix_open(&f, &s);
    fix_cand(&f);
    refused(&f, "surplus-paths");
    fix_close(&f);
}

static void test_active_mask(void **state) { refused_ptx(BOTH("", "activemask.b32 %r5;\n"), "active-mask"); }

static void test_async(void **state)
{
    refused_ptx(BOTH("", ".shared .align 8 .b64 bar;\nmbarrier.init.shared.b64 [bar], 128;\n"), "async");
    refused_ptx(
        BOTH("", ".shared .align 128 .b8 map[128];\ntensormap.replace.tile.rank.shared::cta.b1024.b32 [map], 1;\n"),
        "async");
    accepted_ptx(
        BOTH("", ".shared .align 16 .b8 buf[2048];\nmov.u32 %r5, buf;\ncp.async.ca.shared.global [%r5], [%rd1], 4;\n"
                 "cp.async.wait_all;\n"));
}

/* Tables of two modules, 40,000 bytes each: the same bytes are one; else they go to global memory, if what is made of
 * their addresses is only added to and loaded from. */
#define TAB(byte, e, body) HEAD ".const .align 4 .b8 tab[40000] = {" byte "};\n" ENTRY(e, body)
#define READS "ld.const.u32 %r5, [tab+4];\n"
static void test_constant_space(void **state)
{
    static const struct {
        const char *p, *c;
        uint64_t bytes; /* of constant memory; more than there is: refused */
    } cases[] = {
        {TAB("7", "p", READS), TAB("7", "c", READS), 40000},
        {TAB("7", "p", READS), TAB("8", "c", READS), 0},
        {TAB("7", "p", READS), HEAD PLAIN("c"), 40000},
        {TAB("7", "p", "mov.u64 %rd5, tab;\nadd.s64 %rd5, %rd5, 4;\nld.const.u32 %r5, [%rd5];\n"), TAB("8", "c", READS),
         0},
        /* its address leaves, becomes one of another kind, is compared; an address from elsewhere */
        {TAB("7", "p", "mov.u64 %rd5, tab;\nst.global.u64 [%rd2], %rd5;\n"), TAB("7", "c", READS), 40000},
        {TAB("7", "p", "mov.u64 %rd5, tab;\nst.global.u64 [%rd2], %rd5;\n"), TAB("8", "c", READS), 40000},
        {TAB("7", "p", "mov.u64 %rd5, tab;\nst.global.u64 [%rd2], %rd5;\n"),
         TAB("8", "c", "mov.u64 %rd5, tab;\ncvta.const.u64 %rd5, %rd5;\n"), 80000},
        {TAB("7", "p", "mov.u64 %rd5, tab;\nsetp.eq.u64 %p1, %rd5, %rd1;\n"),
         TAB("8", "c", READS "ld.const.u32 %r5, [%rd1];\n"), 80000},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct fix f;
        struct fix_spec s = plain;
        struct dt_str why = {0};
        bool far[RW_BODIES];
        s.ptx = cases[k].p;
        s.ptx2 = cases[k].c;
        fix_open(&f, &s);
        fix_cand(&f);
        uint64_t bytes = rw_far_tables(&f.c, far);
        if (bytes != cases[k].bytes || rw_legal_constant_space(&f.c, &why) != (bytes <= RW_CONST_SPACE))
            fail_msg("case %zu: %llu bytes, %s", k, (unsigned long long)bytes, dt_plain(why.s));
        if (bytes > RW_CONST_SPACE)
            refused(&f, "constant-space");
        dt_str_done(&why);
        fix_close(&f);
    }
}

static void test_shared_space(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    struct dt_str why = {0};
    s.sp = 100000;
    s.ptx = HEAD ".extern .shared .align 16 .b8 dyn[];\n" ENTRY("p", "st.shared.u32 [dyn], %r1;\n") PLAIN("c");
    fix_open(&f, &s);
    fix_cand(&f);
    assert_true(rw_layout(&f.c, &why));
    assert_true(f.c.shared_dynamic);
    assert_int_equal(f.c.shared_bytes, 100000);
    f.c.shared_bytes = 250000;
    refused(&f, "shared-space");
    f.dev.shared_block_optin = 65536;
    assert_false(rw_layout(&f.c, &why));
    dt_str_done(&why);
    fix_close(&f);
}

/* CLUSTER rows: the pair passes with a device that has clusters and room for one, and not with another. */
static void test_clusters(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    struct dt_str why = {0};
    struct dt_err e = {0};
    double alike[2] = {1, 1}, us;
    s.gc = 2; /* components of four producers and one consumer */
    s.hc = 2048;
    fix_open(&f, &s);
    f.dev.cc_major = 9;
    f.dev.max_threads_sm = 2048;
    f.dev.shared_sm = 233472;
    f.dev.shared_reserved = 1024;
    fix_cand(&f);
    assert_int_equal(f.c.lists.n, 2);
    f.c.abreast[0] = f.c.abreast[1] = 1;
    f.c.size = rw_cluster_size(&f.c, alike, &us);
    assert_int_equal(f.c.size, 4);
    assert_true(us == 2); /* a producer block, then a consumer block */
    assert_int_equal(rw_cluster_lists(&f.c, f.c.size, &e), 0);
    assert_int_equal(f.c.lists.n, 8);
    assert_int_equal(f.c.lists.list[0].ranks, 4);
    assert_int_equal(f.c.lists.list[1].ranks, 1);
    f.c.made.res.registers = 32;
    assert_true(rw_legal_rows(rw_cluster_legal, rw_ncluster_legal, &f.c, &why));
    f.dev.cc_major = 8;
    assert_false(rw_legal_rows(rw_cluster_legal, rw_ncluster_legal, &f.c, &why));
    assert_int_equal(strncmp(dt_plain(why.s), "cluster-device: ", 16), 0);
    dt_str_done(&why);
    f.dev.cc_major = 9;
    f.dev.sms = 2; /* two blocks of 100,000 bytes fit an SM: four in all */
    f.c.shared_bytes = 100000;
    assert_true(rw_legal_rows(rw_cluster_legal, rw_ncluster_legal, &f.c, &why));
    for (int k = 0; k < 4; k++) {
        f.c.shared_bytes = k == 0 ? 120000 : 100000;
        f.dev.sms = k == 1 ? 1 : 2;
        f.c.made.res.registers = k == 2 ? 255 : 32; /* of 255 registers, two blocks of 128 threads */
        f.dev.regs_sm = k == 2 ? 32768 : 65536;
        f.c.cluster = k == 3 ? 17 : 4;
        if (k == 3)
            f.dev.sms = 132;
        assert_false(rw_legal_rows(rw_cluster_legal, rw_ncluster_legal, &f.c, &why));
        assert_int_equal(strncmp(dt_plain(why.s), "cluster-room: ", 14), 0);
        dt_str_done(&why);
    }
    f.c.cluster = 16;
    f.dev.sms = 132;
    f.c.shared_bytes = 120000;
    assert_true(rw_legal_rows(rw_cluster_legal, rw_ncluster_legal, &f.c, &why));
    snprintf(f.dev.sharing, sizeof f.dev.sharing, "mig"); /* a slice: eight for certain */
    assert_false(rw_legal_rows(rw_cluster_legal, rw_ncluster_legal, &f.c, &why));
    dt_str_done(&why);
    fix_close(&f);
}

/* p -> c, and p -> x -> c without p -> c: not side by side; without either they are. */
static void test_unordered(void **state)
{
    static const struct rw_legal row[] = {RW_LEGAL_ROW(unordered)};
    struct fix f;
    struct dt_err e = {0};
    struct dt_str why = {0};
    const uint32_t both[2] = {0, 1}, ends[2] = {2, 0}; /* bodies may be in any order */
    fix_open(&f, &plain);
    assert_int_equal(rw_cand_open(&f.c, &f.dev, &f.prog, &f.ana, &f.opt, both, 2, &e), 0);
    assert_false(rw_legal_rows(row, 1, &f.c, &why));
    assert_string_equal(dt_plain(why.s), "unordered: 'c' depends on 'p'");
    dt_str_done(&why);
    rw_cand_done(&f.c);
    struct dt_launch *l = dt_new_array(&f.a, struct dt_launch, 3);
    l[0] = f.g->launch[0];
    l[1] = f.g->launch[1];
    l[1].name = "x";
    l[2] = f.g->launch[1];
    f.g->launch = l;
    f.g->nlaunch = 3;
    f.prog.step[2] = f.prog.step[1];
    f.ana.launch[2] = f.ana.launch[1];
    for (int k = 0; k < 3; k++)
        f.prog.step[k].launch = &l[k];
    fix_edge(&f, &f.ana.edge[0], 0, 1);
    fix_edge(&f, &f.ana.edge[1], 1, 2);
    f.ana.edge[1].any.npairs = f.ana.edge[1].pairs = 1;
    f.ana.nedge = 2;
    assert_int_equal(rw_cand_open(&f.c, &f.dev, &f.prog, &f.ana, &f.opt, ends, 2, &e), 0);
    assert_false(rw_legal_rows(row, 1, &f.c, &why));
    assert_string_equal(dt_plain(why.s), "unordered: 'c' depends on 'p' through other launches");
    dt_str_done(&why);
    f.ana.nedge = 1; /* x -> c is gone */
    assert_true(rw_legal_rows(row, 1, &f.c, &why));
    fix_close(&f);
}

/* Eight blocks of p write 512 bytes of h each, c reads the first 2048: blocks 4 to 7 may go, no other one, and none
 * where h leaves the graph. */
static void test_nobody_reads(void **state)
{
    static const struct rw_legal row[] = {RW_LEGAL_ROW(nobody_reads)};
    struct fix f;
    struct fix_spec s = plain;
    struct dt_err e = {0};
    const uint32_t p = 0;
    uint32_t stay[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    s.hc = 256;
    for (int output = 0; output < 2; output++) {
        s.h_role = output ? "output" : NULL;
        fix_open(&f, &s);
        for (int k = 0; k < 2; k++) { /* all reads and writes of h, by launch */
            struct ana_access *x = &f.ana.launch[k].access[0];
            (k ? &x->read_by[ANA_PROVED] : &x->must)[0] = fix_run(&f, 0, k ? 2048 : 4096);
        }
        assert_int_equal(rw_cand_open(&f.c, &f.dev, &f.prog, &f.ana, &f.opt, &p, 1, &e), 0);
        f.c.lists.list[0].col = stay;
        for (f.c.lists.n = 3; f.c.lists.n <= 8; f.c.lists.n++) {
            struct dt_str why = {0};
            bool ok = rw_legal_rows(row, 1, &f.c, &why);
            assert_int_equal(ok, f.c.lists.n >= (output ? 8 : 4));
            if (!ok)
                assert_string_equal(dt_plain(why.s), f.c.lists.n == 3
                                                         ? "nobody-reads: 'c' reads of 'h' what they write"
                                                         : "nobody-reads: they write 'h', which leaves the graph");
            dt_str_done(&why);
        }
        f.c.lists.n = 4;
        f.ana.launch[1].access[0].widened = true; /* an address that depends on data may be any byte */
        struct dt_str why = {0};
        assert_false(rw_legal_rows(row, 1, &f.c, &why));
        dt_str_done(&why);
        fix_close(&f);
    }
}

/* The producer p reads x and writes h, the consumer c reads h and writes y. One thing is changed at a time; the plain
 * pair passes. */
static void test_recompute(void **state)
{
    static const struct rw_legal row[] = {RW_LEGAL_ROW(repeatable), RW_LEGAL_ROW(inputs_stay),
                                          RW_LEGAL_ROW(all_readers)};
    static const char *const want[][2] = {
        {NULL, NULL},
        {"repeatable: 'p' has atomics on 'h'", NULL},
        {"repeatable: 'p' both reads and writes 'h'", NULL},
        {NULL, "inputs-stay: 'c' writes 'x', which 'p' would read again"},
        {NULL, "inputs-stay: 'c' writes 'x', which 'p' would read again"},
        {NULL, NULL}, /* other bytes of x */
        {NULL, "inputs-stay: 'c' writes 'h', which 'p' writes"},
    };
    for (int k = 0; k < 7; k++) {
        struct fix f;
        struct dt_str why = {0};
        fix_open(&f, &plain);
        fix_cand(&f);
        struct ana_access *p = f.ana.launch[0].access, *c = f.ana.launch[1].access;
        p[0].write_by[ANA_PROVED] = fix_run(&f, 0, 4096);
        p[1].read_by[ANA_PROVED] = fix_run(&f, 0, 4096);
        c[1].write_by[ANA_PROVED] = fix_run(&f, k == 5 ? 4096 : 4092, 8192);
        p[0].atomics = k == 1;
        p[0].reads = k == 2;
        if (k >= 3)
            c[1].buffer = k == 6 ? 1 : 0;
        c[1].widened = k == 4;
        for (int r = 0; r < 2; r++) {
            bool ok = rw_legal_rows(&row[r], 1, &f.c, &why);
            assert_int_equal(ok, want[k][r] == NULL);
            if (!ok)
                assert_string_equal(dt_plain(why.s), want[k][r]);
            dt_str_done(&why);
        }
        fix_close(&f);
    }
    /* where the intermediate is: in shared memory alone, beside its buffer, only there; another reader that is served
     * or not */
    for (int k = 0; k < 5; k++) {
        struct fix f;
        struct fix_spec s = plain;
        struct dt_str why = {0};
        struct dt_err e = {0};
        const uint32_t set[3] = {0, 1, 2};
        s.h_role = k == 1 ? "output" : NULL;
        fix_open(&f, &s);
        fix_cand(&f);
        if (k >= 3) { /* a second reader */
            struct ana_edge *x = &f.ana.edge[1];
            *x = f.ana.edge[0];
            x->consumer = 2;
            f.ana.nedge = 2;
            f.c.facts.set = k == 3 ? set : NULL;
            f.c.facts.nset = k == 3 ? 3 : 0;
        }
        assert_int_equal(rw_fit(&f.c, &e), 0);
        assert_int_equal(f.c.nredirect, 1);
        if (k == 2)
            f.c.nredirect = 0;
        bool ok = rw_legal_rows(&row[2], 1, &f.c, &why);
        assert_int_equal(ok, k == 0 || k == 3);
        if (!ok)
            assert_string_equal(dt_plain(why.s), k == 2
                                                     ? "all-readers: 'h' does not go through shared memory"
                                                     : "all-readers: 'h' leaves the graph, or somebody else reads it");
        dt_str_done(&why);
        fix_close(&f);
    }
}

/* Each predicate of the table has a test here; a new row without one fails. */
/* A pair by flags: maps that are not kept; lists that promise what they do not hold. */
static void test_flags(void **state)
{
    static const struct rw_legal maps[] = {RW_LEGAL_ROW(block_maps)}, row[] = {RW_LEGAL_ROW(flags)};
    struct fix f;
    struct dt_str why = {0};
    fix_open(&f, &plain);
    fix_cand(&f);
    assert_true(rw_legal_rows(maps, 1, &f.c, &why));
    struct ana_rows kept = f.ana.edge[0].any;
    f.ana.edge[0].any.row = NULL;
    f.ana.edge[0].any.npairs = f.ana.edge[0].pairs = 1000000;
    assert_false(rw_legal_rows(maps, 1, &f.c, &why));
    assert_string_equal(dt_plain(why.s), "block-maps: the map of 'p' and 'c' has 1000000 pairs, too many to keep");
    dt_str_done(&why);
    f.ana.edge[0].any = kept;
    /* eight producers, each with a flag, and eight consumers that wait for their own */
    uint32_t beside[] = {0, 8, 16}, signal[16], wait_at[17] = {0}, wait[8], count[8];
    for (uint32_t v = 0; v < 16; v++) {
        signal[v] = v < 8 ? v : UINT32_MAX;
        wait_at[v + 1] = v < 8 ? 0 : v - 7;
        if (v < 8)
            wait[v] = v, count[v] = 1;
    }
    struct rw_flow flow = {.n = 16, .nflag = 8, .signal = signal, .wait_at = wait_at, .wait = wait, .count = count};
    f.c.beside = beside;
    f.c.flow = &flow;
    assert_true(rw_legal_rows(row, 1, &f.c, &why));
    const struct {
        uint32_t *what, to;
        const char *say;
    } wrong[] = {
        {&count[3], 2, "flags: block 11 waits for 2 signals of flag 3, which gets 1"},
        {&count[3], 0, "flags: block 11 waits for 0 signals of flag 3, which gets 1"},
        {&signal[3], 4, "flags: block 11 waits for 1 signals of flag 3, which gets 0"},
        {&signal[3], 8, "flags: block 3 signals flag 8 of 8"},
        {&wait[3], 8, "flags: block 11 waits for flag 8 of 8"},
        {&wait[3], 2, "flags: block 3 of 'c' does not wait for block 3 of 'p'"},
        {&signal[12], 7, "flags: block 15 waits for 1 signals of flag 7, which gets 2"},
    };
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        uint32_t was = *wrong[k].what;
        *wrong[k].what = wrong[k].to;
        assert_false(rw_legal_rows(row, 1, &f.c, &why));
        assert_string_equal(dt_plain(why.s), wrong[k].say);
        dt_str_done(&why);
        *wrong[k].what = was;
    }
    signal[7] = UINT32_MAX; /* the last one signals itself, and waits for that */
    signal[15] = 7;
    assert_false(rw_legal_rows(row, 1, &f.c, &why));
    assert_string_equal(dt_plain(why.s), "flags: block 15 waits for flag 7, which block 15 signals, not before it");
    dt_str_done(&why);
    f.c.beside = NULL;
    f.c.flow = NULL;
    fix_close(&f);
}

/* The EDIT row: of any rewrite's launches. */
static void test_racy(void **state)
{
    static const char *const edits[] = {
#define EDIT(NAME, text) #NAME,
#include "rewrite/legal.def"
    };
    struct fix f;
    fix_open(&f, &plain);
    bool racy[2] = {false, false};
    uint32_t both[] = {0, 1};
    struct rw_state s = {.graph = f.g, .prog = &f.prog, .ana = &f.ana};
    struct rw_edit x = {.now = &s, .launch = both, .nlaunch = 2};
    struct dt_str why = {0};
    assert_int_equal(sizeof edits / sizeof edits[0], 1);
    assert_string_equal(edits[0], "racy");
    assert_true(rw_edit_legal(&x, &why)); /* nothing is known to race */
    s.racy = racy;
    assert_true(rw_edit_legal(&x, &why));
    racy[1] = true;
    assert_false(rw_edit_legal(&x, &why));
    assert_string_equal(dt_plain(why.s), "racy: 'c' races with itself");
    x.nlaunch = 1; /* the other one is not concerned */
    assert_true(rw_edit_legal(&x, &why));
    assert_true(rw_is_racy(&s, 1) && !rw_is_racy(&s, 0));
    dt_str_done(&why);
    fix_close(&f);
}

static void test_all_covered(void **state)
{
    static const char *const covered[] = {
        "plain_launches",      "clusters",         "opaque",        "order",          "block_map",
        "self_conflict",       "ordered_access",   "side_effects",  "float_atomics",  "machine_registers",
        "functions",           "module_variables", "parameters",    "targets",        "uniform_barriers",
        "uniform_collectives", "barrier_numbers",  "thread_counts", "surplus_lanes",  "posted_lanes",
        "surplus_paths",       "active_mask",      "async",         "constant_space", "shared_space"};
    assert_int_equal(rw_nlegal, sizeof covered / sizeof covered[0]);
    for (unsigned k = 0; k < rw_nlegal; k++)
        assert_string_equal(rw_legal[k].name, covered[k]);
    static const char *const others[] = {
#define OTHER(NAME, text) #NAME,
#include "rewrite/legal.def"
    };
    static const char *const clusters[] = {"cluster_device", "cluster_room"};
    assert_int_equal(rw_ncluster_legal, sizeof clusters / sizeof clusters[0]);
    for (unsigned k = 0; k < rw_ncluster_legal; k++)
        assert_string_equal(rw_cluster_legal[k].name, clusters[k]);
    static const char *const more[] = {
        "unordered",   "beside_async", "nobody_reads",  "repeatable",    "inputs_stay",       "all_readers",
        "filled",      "block_maps",   "flags",         "plain_effects", "each_store",        "shared_reach",
        "parts_apart", "rounds_alone", "rounds_shared", "whole_warps",   "subblock_barriers", "subblock_memory",
        "callees",     "lanes_alone",  "byte_views",    "calls_apart",   "own_tables",        "same_footprints",
        "only_moves",  "source_stays", "same_places",   "same_values",   "roles_apart"};
    assert_int_equal(sizeof others / sizeof others[0], sizeof more / sizeof more[0]);
    for (unsigned k = 0; k < sizeof more / sizeof more[0]; k++)
        assert_string_equal(others[k], more[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_plain_launches),
        cmocka_unit_test(test_own_clusters),
        cmocka_unit_test(test_opaque),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_block_map),
        cmocka_unit_test(test_self_conflict),
        cmocka_unit_test(test_cluster_conflict),
        cmocka_unit_test(test_ordered_access),
        cmocka_unit_test(test_side_effects),
        cmocka_unit_test(test_float_atomics),
        cmocka_unit_test(test_machine_registers),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_module_variables),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_uniform_barriers),
        cmocka_unit_test(test_uniform_collectives),
        cmocka_unit_test(test_barrier_numbers),
        cmocka_unit_test(test_thread_counts),
        cmocka_unit_test(test_surplus),
        cmocka_unit_test(test_active_mask),
        cmocka_unit_test(test_async),
        cmocka_unit_test(test_constant_space),
        cmocka_unit_test(test_shared_space),
        cmocka_unit_test(test_unordered),
        cmocka_unit_test(test_nobody_reads),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_racy),
        cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_all_covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
