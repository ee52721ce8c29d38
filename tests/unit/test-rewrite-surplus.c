/* Surplus lanes (rewrite/emit/surplus.c): which instructions they leave out, what refuses them, and the text of a phase
 * that has them. What such kernels compute: tests/diff/diff-fusion.c. */
#include "rewrite-fixture.h"

#include "rewrite/emit/emit-priv.h"
#include "rewrite/kinds/kinds-priv.h"

#include "base/subject.h"

#define REGS ".reg .pred %p<6>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<8>;\n.shared .b32 s[64];\n"
#define BEGIN(e)                                                                                                       \
    ".visible .entry " e "(.param .u64 " e "_0, .param .u64 " e "_1)\n{\n" REGS "ld.param.u64 %rd1, [" e               \
    "_0];\nld.param.u64 %rd2, [" e "_1];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"       \
    "mad.lo.s32 %r4, %r1, %r2, %r3;\nmul.wide.s32 %rd3, %r4, 4;\nadd.s64 %rd1, %rd1, %rd3;\nadd.s64 %rd2, %rd2, "      \
    "%rd3;\nmov.u32 %r9, s;\nmad.lo.s32 %r10, %r3, 4, %r9;\n"
#define END "st.global.f32 [%rd2], %f2;\nret;\n}\n"
#define ENTRY(e, body) BEGIN(e) body END
#define LOAD "ld.global.f32 %f2, [%rd1];\n"

/* 48 threads, and after them 128 */
static const struct fix_spec plain = {.gp = 8, .bp = 48, .gc = 3, .bc = 128, .hp = 192, .hc = 512};

static void open_pair(struct fix *f, const char *body, char *text, size_t size)
{
    struct fix_spec s = plain;
    snprintf(text, size, "%s%s%s%s", HEAD BEGIN("p"), body, END, ENTRY("c", LOAD));
    s.ptx = text;
    fix_open(f, &s);
    fix_cand(f);
}

/* Instructions that surplus lanes leave out, one character each: what they are. */
static void told(const struct fix *f, const uint8_t *out, char *ret)
{
    const struct ptx_function *p = f->c.facts.body[0].f;
    for (uint32_t n = 0; n < p->ninst; n++)
        if (out[n])
            *ret++ = p->inst[n].op == PTX_OP_LD   ? (p->inst[n].space == PTX_SHARED   ? 'l'
                                                     : p->inst[n].space == PTX_GLOBAL ? 'L'
                                                                                      : 'g')
                     : p->inst[n].op == PTX_OP_ST ? (p->inst[n].space == PTX_SHARED ? 's' : 'S')
                                                  : 'a';
    *ret = 0;
}

#define PUT "st.shared.f32 [%r10], %f2;\n"
#define GET "ld.shared.f32 %f2, [%r9+8];\n"
#define MEET "bar.sync 0;\n"
static const struct {
    const char *body, *out;
    const char *lost; /* the branch that is; NULL: none */
} cases[] = {
    {LOAD MEET, "S", NULL},
    {LOAD PUT MEET GET, "sS", NULL},
    {LOAD PUT GET MEET, "slS", NULL},                 /* behind its own store */
    {GET PUT MEET, "lsS", NULL},                      /* before it */
    {LOAD PUT "@%p1 bar.sync 0;\n" GET, "slS", NULL}, /* a barrier that may not be passed parts nothing */
    {LOAD "L:\n" PUT MEET GET "setp.lt.s32 %p1, %r4, 9;\n@%p1 bra L;\n", "slS", NULL},
    {LOAD "L:\n" PUT MEET GET MEET "setp.lt.s32 %p1, %r4, 9;\n@%p1 bra L;\n", "sS", NULL},
    {LOAD MEET "red.shared.add.u32 [%r9], 1;\n" GET MEET, "alS", NULL},
    {LOAD MEET "atom.shared.add.u32 %r5, [%r9], 1;\n" MEET "cvt.rn.f32.u32 %f2, %r5;\n", "aS", NULL},
    {LOAD MEET "ld.f32 %f1, [%rd1];\n", "gS", NULL}, /* generic */
    {"ld.u32 %r5, [%rd1];\nmul.wide.s32 %rd4, %r5, 4;\nadd.s64 %rd4, %rd1, %rd4;\nld.global.f32 %f2, [%rd4];\n" MEET,
     "gLS", NULL}, /* an address that is made of it */
    {"ld.global.u32 %r5, [%rd1];\nmul.wide.s32 %rd4, %r5, 4;\nadd.s64 %rd4, %rd1, %rd4;\nld.global.f32 %f2, "
     "[%rd4];\n" MEET,
     "S", NULL}, /* what it may read is known, for what it is made of is */
    {"prefetch.global.L2 [%rd1];\n" LOAD MEET, "aS", NULL},
    /* volatile: whatever stands between */
    {LOAD PUT MEET "ld.volatile.shared.f32 %f2, [%r9+8];\n", "slS", NULL},
    {LOAD "st.volatile.shared.f32 [%r10], %f2;\nld.volatile.shared.f32 %f2, [%r9+8];\n" MEET, "slS", NULL},
    {LOAD PUT MEET "ld.volatile.shared.f32 %f2, [%r9+8];\nsetp.gt.f32 %p1, %f2, 0f00000000;\n@%p1 bra L;\nL:\n", "slS",
     "bra"},
    /* branches */
    {LOAD MEET "setp.gt.f32 %p1, %f2, 0f00000000;\n@%p1 bra L;\nadd.f32 %f2, %f2, %f2;\nL:\n", "S", NULL},
    {LOAD PUT MEET GET "setp.gt.f32 %p1, %f2, 0f00000000;\n@%p1 bra L;\nadd.f32 %f2, %f2, %f2;\nL:\n", "sS", NULL},
    {LOAD PUT GET MEET "setp.gt.f32 %p1, %f2, 0f00000000;\n@%p1 bra L;\nadd.f32 %f2, %f2, %f2;\nL:\n", "slS", "bra"},
    {LOAD PUT GET MEET "setp.gt.f32 %p1, %f2, 0f00000000;\n@%p1 add.f32 %f2, %f2, %f2;\n", "slS", NULL},
    {LOAD PUT GET MEET "setp.gt.f32 %p1, %f2, 0f00000000;\n@%p1 ret;\n", "slS", "ret"},
    {LOAD PUT GET "setp.gt.f32 %p1, %f2, 0f00000000;\n@%p1 bar.sync 0;\n", "slS", "bar.sync"},
    {LOAD MEET "atom.shared.add.u32 %r5, [%r9], 1;\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 bra L;\nL:\n", "aS", "bra"},
    /* the carry, and local memory, go on with it */
    {LOAD PUT GET MEET "mov.b32 %r5, %f2;\nadd.cc.u32 %r6, %r5, %r5;\naddc.u32 %r7, 0, 0;\nsetp.eq.u32 %p1, %r7, 0;\n"
                       "@%p1 bra L;\nL:\n",
     "slS", "bra"},
    {LOAD MEET ".local .b32 q[2];\nmov.b32 %r5, %f2;\nst.local.u32 [q], %r5;\nld.local.u32 %r7, [q];\nsetp.eq.u32 %p1, "
               "%r7, 0;\n@%p1 bra L;\nL:\n",
     "S", NULL},
    {LOAD PUT GET MEET ".local .b32 q[2];\nmov.b32 %r5, %f2;\nst.local.u32 [q], %r5;\nld.local.u32 %r7, [q];\n"
                       "setp.eq.u32 %p1, %r7, 0;\n@%p1 bra L;\nL:\n",
     "slSS", "bra"},
};

static void test_left_out(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct fix f;
        struct rw_find lost, no;
        struct dt_err e = {0};
        struct dt_str why = {0};
        char text[8192], out[64];
        uint8_t *left;
        open_pair(&f, cases[k].body, text, sizeof text);
        assert_int_equal(rw_surplus_threads(&f.c, 0), 64);
        assert_int_equal(rw_surplus_threads(&f.c, 1), 128);
        assert_true(rw_surplus_lanes(&f.c.facts.body[0], &no));
        assert_int_equal(rw_surplus(&f.c.arena, &f.c.facts, 0, &left, &lost, &e), 0);
        told(&f, left, out);
        if (strcmp(out, cases[k].out))
            fail_msg("case %zu: '%s', not '%s'", k, out, cases[k].out);
        if (lost.set != (cases[k].lost != NULL) || (lost.set && strcmp(lost.what, cases[k].lost)))
            fail_msg("case %zu: lost %s", k, lost.set ? lost.what : "nothing");
        if (rw_legal_surplus_paths(&f.c, &why) == lost.set)
            fail_msg("case %zu: %s", k, dt_plain(why.s));
        dt_str_done(&why);
        fix_close(&f);
    }
}

/* A launch that writes what it reads, in some of a buffer: its loads there are left out. */
static void test_in_place(void **state)
{
    (void)state;
    static const struct {
        uint64_t read, write; /* begin of 1024 bytes each */
        const char *out;
    } at[] = {{0, 0, "LS"}, {0, 1024, "S"}, {0, 1020, "LS"}};
    for (size_t k = 0; k < 3; k++) {
        struct fix f;
        struct rw_find lost;
        struct dt_err e = {0};
        char text[8192], out[64];
        uint8_t *left;
        open_pair(&f, LOAD MEET, text, sizeof text);
        struct ana_access *a = &f.ana.launch[0].access[1]; /* buffer x */
        a->reads = a->writes = true;
        a->read_by[0] = fix_run(&f, at[k].read, at[k].read + 1024);
        a->write_by[0] = fix_run(&f, at[k].write, at[k].write + 1024);
        assert_int_equal(rw_surplus(&f.c.arena, &f.c.facts, 0, &left, &lost, &e), 0);
        told(&f, left, out);
        assert_string_equal(out, at[k].out);
        a->read_by[0] = fix_run(&f, 0, 1024);
        a->write_by[0] = fix_run(&f, 1024, 2048);
        a->atomics = true;
        assert_int_equal(rw_surplus(&f.c.arena, &f.c.facts, 0, &left, &lost, &e), 0);
        told(&f, left, out);
        assert_string_equal(out, "LS");
        fix_close(&f);
    }
}

static void test_cannot(void **state)
{
    (void)state;
    static const struct {
        const char *body, *why;
    } no[] = {
        {LOAD "setp.gt.f32 %p1, %f2, 0f00000000;\nbar.red.popc.u32 %r5, 0, %p1;\n", "reduces over a barrier"},
        {LOAD MEET "bar.sync 1, 32;\n", "counts the threads of a barrier itself"},
        {LOAD MEET "mov.u32 %r5, %laneid;\n", "laneid"},
        {LOAD MEET "ld.relaxed.cta.shared.f32 %f2, [%r9];\n", "has ordered accesses"},
        {LOAD MEET "st.release.cta.shared.f32 [%r9], %f2;\n", "has ordered accesses"},
        {LOAD MEET "bar.warp.sync -1;\n", "collectives"},
        {LOAD MEET "cp.async.ca.shared.global [%r10], [%rd1], 4;\ncp.async.wait_all;\n", "cannot just leave out"},
    };
    for (size_t k = 0; k < sizeof no / sizeof no[0]; k++) {
        struct fix f;
        struct dt_str why = {0};
        char text[8192];
        open_pair(&f, no[k].body, text, sizeof text);
        assert_false(rw_legal_surplus_lanes(&f.c, &why));
        if (!strstr(dt_plain(why.s), no[k].why) || !strstr(why.s, "has 48 threads, not whole warps, and"))
            fail_msg("case %zu: %s", k, why.s);
        dt_str_done(&why);
        fix_close(&f);
    }
}

/* Without barriers, of whole warps, or all of equally many threads: nobody is added. */
static void test_nobody(void **state)
{
    (void)state;
    struct fix f;
    struct dt_str why = {0};
    char text[8192];
    open_pair(&f, LOAD "mov.u32 %r5, %laneid;\n", text, sizeof text);
    assert_int_equal(rw_surplus_threads(&f.c, 0), 48);
    assert_true(rw_legal_surplus_lanes(&f.c, &why));
    fix_close(&f);
    struct fix_spec s = plain;
    s.gc = 8;
    s.bc = 48;
    s.hc = 192;
    s.ptx = HEAD ENTRY("p", LOAD "mov.u32 %r5, %laneid;\n" MEET) ENTRY("c", LOAD MEET);
    fix_open(&f, &s);
    fix_cand(&f);
    assert_int_equal(f.c.threads, 48);
    assert_int_equal(rw_surplus_threads(&f.c, 0), 48);
    assert_true(rw_legal_surplus_lanes(&f.c, &why) && rw_legal_surplus_paths(&f.c, &why));
    fix_close(&f);
    s.bp = s.bc = 64;
    s.gp = s.gc = 8;
    s.hp = s.hc = 256;
    fix_open(&f, &s);
    fix_cand(&f);
    assert_int_equal(rw_surplus_threads(&f.c, 0), 64);
    fix_close(&f);
}

static unsigned count(const char *in, const char *what)
{
    unsigned n = 0;
    for (; (in = strstr(in, what)); in++)
        n++;
    return n;
}

/* The text: who runs it, as which thread, what it counts, and what has which predicate. */
static void test_text(void **state)
{
    (void)state;
    struct fix f;
    struct dt_err e = {0};
    struct dt_str why = {0};
    char text[8192];
    open_pair(&f,
              LOAD "setp.gt.f32 %p1, %f2, 0f00000000;\n@%p1 st.shared.f32 [%r10], %f2;\n@!%p1 st.shared.f32 [%r10], "
                   "%f1;\n" MEET GET,
              text, sizeof text);
    int r = rw_fuse(&f.c, RW_LEVEL_SHARED, &why, &e);
    if (r)
        fail_msg("%s", r < 0 ? e.detail : why.s);
    const char *t = f.c.made.ptx.s;
    if (getenv("SHOW"))
        puts(t);
    assert_int_equal(count(t, "min.u32"), 1);
    assert_non_null(strstr(t, ", 47;"));
    assert_int_equal(count(t, "setp.lt.u32"), 1);
    assert_non_null(strstr(t, ", 48;"));
    assert_int_equal(count(t, "setp.ge.u32"), 3); /* 64 and more skip it; and behind the last block of each */
    assert_non_null(strstr(t, ", 64;"));
    assert_int_equal(count(t, "barrier.sync 0, 64;"), 1);
    assert_int_equal(count(t, "and.pred"), 2);
    assert_int_equal(count(t, "not.pred"), 1);
    assert_int_equal(count(t, "@%dt_own"), 1); /* the intermediate, in shared memory */
    assert_int_equal(count(t, "@%dt_both"), 2);
    assert_int_equal(count(t, "ld.global"), 1);
    if (dev_nvjitlink_version() && (r = dev_assemble(t, f.c.made.ptx.len, "sm_90", NULL, NULL, &e)) < 0)
        fail_msg("ptxas: %s", e.detail ? e.detail : "?");
    fix_close(&f);
}

/* Behind the barriers of a body whose lanes work together, and between its blocks, whole warps meet; no others do. */
static void test_together(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        unsigned met;
    } two[] = {{LOAD PUT MEET "ld.volatile.shared.f32 %f2, [%r10];\n" MEET, 2}, {LOAD PUT MEET GET MEET, 0}};
    unsigned met[2];
    for (size_t k = 0; k < 2; k++) {
        struct fix f;
        struct dt_err e = {0};
        struct dt_str why = {0};
        char text[8192];
        open_pair(&f, two[k].body, text, sizeof text);
        int r = rw_fuse(&f.c, RW_LEVEL_SHARED, &why, &e);
        if (r)
            fail_msg("%s", r < 0 ? e.detail : why.s);
        const char *t = f.c.made.ptx.s;
        assert_int_equal(count(t, "barrier.sync 0, 64;\n\tbar.warp.sync -1;"), two[k].met);
        met[k] = count(t, "bar.warp.sync -1;");
        dt_str_done(&why);
        fix_close(&f);
    }
    assert_true(met[0] > two[0].met && met[1] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left_out), cmocka_unit_test(test_in_place), cmocka_unit_test(test_cannot),
        cmocka_unit_test(test_nobody),   cmocka_unit_test(test_text),     cmocka_unit_test(test_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
