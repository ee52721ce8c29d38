/* Joining bodies: components and lists, the emitted kernel (ptxas takes it where nvJitLink is at hand), redirections,
 * identity. */
#include "rewrite-fixture.h"

#include "rewrite/emit/emit-priv.h"
#include "rewrite/kinds/kinds-priv.h"

#include "base/subject.h"

#define REGS ".reg .pred %p<4>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<8>;\n.reg .b16 %h<4>;\n"
#define START(e)                                                                                                       \
    ".visible .entry " e "(.param .u64 " e "_0, .param .u64 " e "_1)\n{\n" REGS "ld.param.u64 %rd1, [" e               \
    "_0];\nld.param.u64 %rd2, [" e "_1];\ncvta.to.global.u64 %rd1, %rd1;\n"                                            \
    "cvta.to.global.u64 %rd2, %rd2;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"            \
    "mad.lo.s32 %r4, %r1, %r2, %r3;\nmul.wide.s32 %rd3, %r4, 4;\nadd.s64 %rd1, %rd1, %rd3;\nadd.s64 %rd2, %rd2, "      \
    "%rd3;\n"
#define END "ld.global.f32 %f1, [%rd1];\nadd.f32 %f2, %f1, 0f3F800000;\nst.global.f32 [%rd2], %f2;\nret;\n}\n"
#define END_NC "ld.global.nc.f32 %f1, [%rd1];\nadd.f32 %f2, %f1, 0f3F800000;\nst.global.f32 [%rd2], %f2;\nret;\n}\n"

static const struct fix_spec plain = {
    .ptx = HEAD START("p") END START("c") END, .gp = 8, .bp = 128, .gc = 8, .bc = 128, .hp = 512, .hc = 512};

/* Apply the rewrite; the text is in f->c.made.ptx. */
static void join(struct fix *f, const struct fix_spec *s, enum rw_level level)
{
    struct dt_err e = {0};
    struct dt_str why = {0};
    fix_open(f, s);
    fix_cand(f);
    int r = rw_fuse(&f->c, level, &why, &e);
    if (r)
        fail_msg("%s: %s", r < 0 ? "error" : "refused", r < 0 ? (e.detail ? e.detail : "?") : why.s);
    dt_str_done(&why);
    if (getenv("SHOW"))
        puts(f->c.made.ptx.s);
    if (dev_nvjitlink_version()) {
        if ((r = dev_assemble(f->c.made.ptx.s, f->c.made.ptx.len, "sm_90", NULL, NULL, &e)) < 0)
            fail_msg("ptxas: %s\n%s", e.detail ? e.detail : "?", f->c.made.ptx.s);
    }
}

static unsigned count(const struct fix *f, const char *what)
{
    unsigned n = 0;
    for (const char *p = f->c.made.ptx.s; (p = strstr(p, what)); p++)
        n++;
    return n;
}

static void test_global(void **state)
{
    struct fix f;
    join(&f, &plain, RW_LEVEL_GLOBAL);
    assert_int_equal(f.c.lists.n, 8);
    assert_true(f.c.lists.list[0].affine && f.c.lists.list[1].affine);
    assert_int_equal(count(&f, "ld.global"), 2);
    assert_int_equal(count(&f, "st.global"), 2);
    assert_int_equal(count(&f, "barrier.sync"), 1);
    assert_int_equal(count(&f, "add.f32"), 2);
    assert_int_equal(count(&f, "ret;"), 1);
    assert_non_null(strstr(f.c.made.ptx.s, ".maxntid 128"));
    fix_close(&f);
}

/* The intermediate is nobody else's: store, load and argument disappear. */
static void test_shared(void **state)
{
    struct fix f;
    join(&f, &plain, RW_LEVEL_SHARED);
    assert_int_equal(f.c.nredirect, 1);
    assert_true(f.c.redirect[0].drop_arg);
    assert_false(f.c.redirect[0].keep_global);
    assert_int_equal(f.c.redirect[0].pitch, 0);
    assert_int_equal(f.c.redirect[0].bytes, 512);
    assert_int_equal(count(&f, "ld.global"), 1);
    assert_int_equal(count(&f, "st.global"), 1);
    assert_int_equal(count(&f, "ld.shared"), 1);
    assert_int_equal(count(&f, "st.shared"), 1);
    assert_int_equal(count(&f, ".param .u64"), 2);
    const struct rw_state now = {.graph = f.g, .prog = &f.prog, .ana = &f.ana};
    const uint32_t pair[2] = {0, 1};
    struct rw_edit x;
    assert_int_equal(rw_edit_init(&x, &rw_block_fusion, &f.dev, &f.opt, &now, pair, 2, NULL), 0);
    assert_int_equal(rw_fuse_part(&f.c, &x, NULL), 0);
    assert_int_equal(x.unread.n, 1);
    assert_int_equal(x.unread.p[0].buffer, 1);
    snprintf(x.part.p[0].module, sizeof x.part.p[0].module, "f0");
    json_t *g = rw_edit_graph(&x);
    rw_edit_done(&x);
    json_t *l = json_array_get(json_object_get(g, "launches"), 0);
    assert_int_equal(json_array_size(json_object_get(g, "launches")), 1);
    assert_string_equal(json_string_value(json_object_get(l, "name")), "p+c");
    assert_int_equal(json_array_size(json_object_get(l, "args")), 2);
    json_decref(g);
    fix_close(&f);
}

/* An output stays in global memory too. */
static void test_keep_global(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    s.h_role = "output";
    join(&f, &s, RW_LEVEL_SHARED);
    assert_true(f.c.redirect[0].keep_global);
    assert_int_equal(count(&f, "st.global"), 2);
    assert_int_equal(count(&f, "ld.global"), 1);
    assert_int_equal(count(&f, "st.shared"), 1);
    assert_int_equal(count(&f, ".param .u64"), 3); /* x, h (once), y */
    fix_close(&f);
}

/* 2 producers of 64 threads per consumer of 128: a loop, counted barriers, a number of its own for the phase. */
static void test_threads(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    s.ptx = HEAD START("p") "bar.sync 0;\n" END START("c") "bar.sync 0;\n" END;
    s.gp = 16;
    s.bp = 64;
    s.hp = 256;
    join(&f, &s, RW_LEVEL_SHARED);
    assert_int_equal(f.c.lists.n, 8);
    assert_int_equal(f.c.lists.list[0].max, 2);
    assert_int_equal(count(&f, "barrier.sync 0, 64;"), 1);
    assert_int_equal(count(&f, "barrier.sync 0;"), 1); /* the consumer's own */
    assert_int_equal(count(&f, "barrier.sync 1;"), 2); /* between virtual blocks, and between the phases */
    assert_int_equal(f.c.redirect[0].bytes, 512);
    fix_close(&f);
}

/* 1 producer feeds 4 consumers. */
static void test_fan_out(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    s.gc = 32;
    s.bc = 32;
    s.hc = 128;
    join(&f, &s, RW_LEVEL_SHARED);
    assert_int_equal(f.c.lists.n, 8);
    assert_int_equal(f.c.lists.list[1].m, 4);
    assert_true(f.c.lists.list[1].affine);
    assert_int_equal(f.c.lists.list[1].b, 4);
    assert_int_equal(f.c.lists.list[1].c, 1);
    fix_close(&f);
}

/* Several blocks of a phase at once: as many as threads allow that push no other block out; none where the body has a
 * barrier. */
static void test_abreast(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    s.gp = 4;
    s.bp = 256;
    s.hp = 1024 * 5; /* a block writes more than the recorder's fixture says: only maps matter here */
    s.gc = 20;
    s.bc = 320;
    s.hc = 1024;
    join(&f, &s, RW_LEVEL_GLOBAL);
    assert_int_equal(f.c.lists.n, 4);
    assert_int_equal(f.c.lists.list[1].max, 5);
    assert_int_equal(f.c.threads, 960);
    assert_int_equal(f.c.abreast[0], 1);
    assert_int_equal(f.c.abreast[1], 3);
    assert_int_equal(count(&f, "barrier.sync"), 2); /* between the phases, and between rounds */
    assert_true(rw_narrow(&f.c));
    assert_int_equal(f.c.threads, 320);
    assert_int_equal(f.c.abreast[1], 1);
    assert_false(rw_narrow(&f.c));
    fix_close(&f);
    s.gp = 500; /* components on 132 SMs: four an SM, of 256 threads each */
    s.bp = 64;
    s.gc = 2500;
    s.bc = 32;
    s.hp = 80;
    s.hc = 16;
    join(&f, &s, RW_LEVEL_GLOBAL);
    assert_int_equal(f.dev.sms, 132);
    assert_int_equal(f.c.lists.n, 500);
    assert_int_equal(f.c.threads, 160); /* all five at once, and no more than that */
    assert_int_equal(f.c.abreast[1], 5);
    fix_close(&f);
    s.gp = 6000; /* 46 components an SM: there is no room for more threads, those that are there are used */
    s.gc = 30000;
    join(&f, &s, RW_LEVEL_GLOBAL);
    assert_int_equal(f.c.threads, 64);
    assert_int_equal(f.c.abreast[1], 2);
    fix_close(&f);
    s = plain;
    s.ptx = HEAD START("p") END START("c") "bar.sync 0;\n" END;
    s.gc = 32;
    s.bc = 32;
    s.hc = 128;
    join(&f, &s, RW_LEVEL_GLOBAL);
    assert_int_equal(f.c.threads, 128);
    assert_int_equal(f.c.abreast[1], 1);
    fix_close(&f);
}

/* Three producers' bytes over two consumers and so on: components of different sizes, from a table. */
static void test_irregular(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    s.gp = 7; /* 7 * 512 = 3584 bytes */
    s.gc = 5; /* 5 * 640 = 3200 of them, one producer block is read in part, the last ones overlap in a chain */
    s.bc = 160;
    s.hc = 640;
    join(&f, &s, RW_LEVEL_GLOBAL);
    assert_int_equal(f.c.lists.n, 2);
    assert_int_equal(f.c.lists.list[0].max, 5);
    assert_int_equal(f.c.lists.list[1].max, 4);
    fix_close(&f);
    s.gc = 3;
    s.hc = 512;
    s.bc = 128; /* 3 pairs, 4 producers alone */
    join(&f, &s, RW_LEVEL_GLOBAL);
    assert_int_equal(f.c.lists.n, 7);
    assert_int_equal(f.c.lists.list[1].m, UINT32_MAX);
    assert_non_null(strstr(f.c.made.ptx.s, ".const"));
    fix_close(&f);
}

static void test_nc(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    s.ptx = HEAD START("p") END_NC START("c") END_NC;
    join(&f, &s, RW_LEVEL_GLOBAL);
    assert_int_equal(count(&f, ".nc"), 1); /* x is only read: stays; h is written: plain */
    fix_close(&f);
}

/* Static shared memory of the two overlaps; over 48 KB it becomes dynamic. */
static void test_shared_memory(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    s.ptx = HEAD START("p") ".shared .align 4 .b8 a[1000];\n.shared .align 16 .b8 b[64];\nst.shared.u32 [a], "
                            "%r1;\nst.shared.u32 [b], %r1;\n" END START(
                                "c") ".shared .align 4 .b8 a[600];\nst.shared.u32 [a+4], %r1;\n" END;
    join(&f, &s, RW_LEVEL_SHARED);
    assert_int_equal(f.c.facts.body[0].shared_bytes, 1008 + 64);
    assert_int_equal(f.c.shared_bytes, 1072 + 512);
    assert_int_equal(f.c.redirect[0].at, 1072);
    assert_false(f.c.shared_dynamic);
    assert_int_equal(count(&f, ".shared .align"), 1);
    fix_close(&f);
    s.ptx = HEAD ".extern .shared .align 16 .b8 dyn[];\n" START("p") "st.shared.u32 [dyn], %r1;\n" END START("c") END;
    s.sp = 60000;
    join(&f, &s, RW_LEVEL_SHARED);
    assert_true(f.c.shared_dynamic);
    assert_int_equal(f.c.shared_bytes, 60000 + 512);
    fix_close(&f);
}

/* Geometry registers in every form; 3-D blocks and grids. */
static void test_geometry(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    s.ptx = HEAD START(
        "p") "mov.v4.u32 {%r5, %r6, %r7, %r8}, %tid;\nmov.u32 %r9, %nctaid.y;\ncvt.u16.u32 %h1, %tid.y;\n"
             "mov.u16 %h2, %ctaid.x;\nmov.u32 %r10, %tid.z;\nmov.u32 %r11, %ctaid.z;\n"
             "cvt.s8.u32 %r12, %ntid.x;\ncvt.u16.u32 %r13, %nctaid.x;\ncvt.u64.u32 %rd9, %ntid.y;\n" END START("c") END;
    fix_open(&f, &s);
    struct dt_launch *l = &f.g->launch[0];
    l->block[0] = 16;
    l->block[1] = 4;
    l->block[2] = 2;
    l->grid[0] = 2;
    l->grid[1] = 2;
    l->grid[2] = 2;
    fix_cand(&f);
    struct dt_err e = {0};
    struct dt_str why = {0};
    if (rw_fuse(&f.c, RW_LEVEL_GLOBAL, &why, &e))
        fail_msg("%s", e.detail ? e.detail : why.s);
    assert_int_equal(count(&f, "%tid"), 1);
    assert_int_equal(count(&f, "%ctaid"), 1);
    assert_int_equal(count(&f, "%n"), 0);
    if (dev_nvjitlink_version() && dev_assemble(f.c.made.ptx.s, f.c.made.ptx.len, "sm_90", NULL, NULL, &e) < 0)
        fail_msg("ptxas: %s\n%s", e.detail, f.c.made.ptx.s);
    fix_close(&f);
}

static void test_functions(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    s.ptx = HEAD ".const .align 4 .b8 k[8] = {1,0,0,0,2,0,0,0};\n"
                 ".func (.param .b32 o) twice (.param .b32 a)\n{\n.reg .b32 %r<4>;\nld.param.b32 %r1, "
                 "[a];\nld.const.u32 %r2, [k+4];\n"
                 "mul.lo.s32 %r3, %r1, %r2;\nst.param.b32 [o], %r3;\nret;\n}\n" START(
                     "p") "{ .param .b32 q0; .param .b32 q1; st.param.b32 [q0], %r1;\ncall.uni (q1), twice, (q0);\n"
                          "ld.param.b32 %r5, [q1]; }\nadd.s32 %r5, %r5, 1;\n" END START(
                              "c") "{ .param .b32 q0; .param .b32 q1; st.param.b32 [q0], "
                                   "%r1;\ncall.uni (q1), twice, (q0);\nld.param.b32 %r5, [q1]; }\n" END;
    join(&f, &s, RW_LEVEL_GLOBAL);
    assert_int_equal(count(&f, ".func"), 1);
    assert_int_equal(count(&f, "call"), 2);
    fix_close(&f);
}

/* ---- redirections ------------------------------------------------------------------------------------------------ */

static void no_redirect(struct fix *f, const char *reason)
{
    struct dt_err e = {0};
    assert_int_equal(rw_fit(&f->c, &e), 0);
    assert_int_equal(f->c.nredirect, 0);
    if (!f->c.no_redirect.s || !strstr(dt_plain(f->c.no_redirect.s), reason))
        fail_msg("wanted '%s', got '%s'", reason, f->c.no_redirect.s ? f->c.no_redirect.s : "");
    fix_close(f);
}

static void test_no_redirect(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    fix_open(&f, &plain);
    f.ana.launch[0].access[0].reads = true;
    fix_cand(&f);
    no_redirect(&f, "producer reads it");
    fix_open(&f, &plain);
    f.ana.launch[1].access[0].atomics = true;
    fix_cand(&f);
    no_redirect(&f, "atomics");
    fix_open(&f, &plain);
    f.ana.launch[0].access[0].widened = true;
    fix_cand(&f);
    no_redirect(&f, "depends on data");
    /* uninitialised: the consumer reads one byte more than is surely written */
    fix_open(&f, &plain);
    f.ana.launch[1].block[7].touch[0].read.iv[0].hi++;
    fix_cand(&f);
    no_redirect(&f, "do not write for certain");
    fix_open(&f, &plain);
    f.ana.launch[0].block[3].touch[0].may_write = f.ana.launch[0].block[3].touch[0].must_write;
    f.ana.launch[0].block[3].touch[0].must_write.n = 0;
    fix_cand(&f);
    no_redirect(&f, "do not write for certain");
    /* the consumer writes outside */
    fix_open(&f, &plain);
    f.ana.launch[1].block[0].touch[0].may_write = fix_run(&f, 100000, 100004);
    fix_cand(&f);
    no_redirect(&f, "writes it outside");
    /* a site that may reach something else */
    s.ptx = HEAD START("p") "setp.eq.s32 %p1, %r1, 3;\nselp.b64 %rd2, %rd1, %rd2, %p1;\n" END START("c") END;
    fix_open(&f, &s);
    fix_cand(&f);
    no_redirect(&f, "may reach other memory");
    /* its address escapes */
    s.ptx = HEAD START("p") ".local .align 8 .b64 slot;\nst.local.u64 [slot], %rd2;\n" END START("c") END;
    fix_open(&f, &s);
    fix_cand(&f);
    no_redirect(&f, "stores the buffer's address");
    s.ptx = HEAD START("p") "red.global.add.u32 [%rd2], 1;\n" END START("c") END;
    fix_open(&f, &s);
    fix_cand(&f);
    no_redirect(&f, "by `red`");
    /* a copy whose other end is a number: where that points is not the reason */
    s.ptx =
        HEAD START("p") END START("c") ".shared .align 16 .b8 room[16];\nmov.u32 %r9, room;\nadd.s32 %r9, %r9, "
                                       "%r3;\ncp.async.ca.shared.global [%r9], [%rd1], 4;\ncp.async.wait_all;\n" END;
    fix_open(&f, &s);
    fix_cand(&f);
    no_redirect(&f, "'c' touches it by `cp.async`");
}

/* Pointer bits that are looked at keep the argument. */
static void test_keep_arg(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    s.ptx = HEAD START("p") "and.b64 %rd5, %rd2, 15;\nsetp.ne.s64 %p1, %rd5, 0;\n" END START("c") END;
    join(&f, &s, RW_LEVEL_SHARED);
    assert_false(f.c.redirect[0].drop_arg);
    assert_int_equal(count(&f, ".param .u64"), 3);
    assert_int_equal(count(&f, "st.shared"), 1);
    fix_close(&f);
}

/* Rows of 64 bytes at a pitch of 1024: a tile of a matrix. */
static void test_pitch(void **state)
{
    struct fix f;
    struct dt_err e = {0};
    fix_open(&f, &plain);
    for (uint32_t k = 0; k < 8; k++) {
        struct ana_set s = {dt_new_array(&f.a, struct ana_interval, 8), 8};
        for (uint32_t i = 0; i < 8; i++)
            s.iv[i] = (struct ana_interval){i * 1024 + k * 64, i * 1024 + k * 64 + 64};
        f.ana.launch[0].block[k].touch[0].must_write = s;
        f.ana.launch[1].block[k].touch[0].read = s;
    }
    fix_cand(&f);
    assert_int_equal(rw_fit(&f.c, &e), 0);
    assert_int_equal(f.c.nredirect, 1);
    assert_int_equal(f.c.redirect[0].pitch, 1024);
    assert_int_equal(f.c.redirect[0].width, 64);
    assert_int_equal(f.c.redirect[0].rows, 8);
    assert_int_equal(f.c.redirect[0].bytes, 512);
    assert_true(f.c.redirect[0].base_affine);
    assert_int_equal(f.c.redirect[0].base_b, 64);
    fix_close(&f);
}

/* ---- arithmetic identity ----------------------------------------------------------------------------------------- */

/* Side by side: the block number selects the body, each has its own geometry, surplus threads leave, barriers are
 * counted. */
static void test_beside(void **state)
{
    struct fix f;
    struct fix_spec s = plain;
    struct dt_err e = {0};
    struct dt_str why = {0};
    struct rw_edit x;
    enum rw_verdict v;
    const uint32_t pair[2] = {0, 1};
    s.ptx = HEAD START("p") "bar.sync 0;\n" END START("c") END;
    s.gp = 5;
    s.bp = 64;
    fix_open(&f, &s);
    f.ana.nedge = 0; /* nothing orders them */
    const struct rw_state now = {.graph = f.g, .prog = &f.prog, .ana = &f.ana};
    assert_int_equal(rw_edit_init(&x, &rw_parallel_fusion, &f.dev, &f.opt, &now, pair, 2, &e), 0);
    assert_int_equal(rw_parallel_fusion.open(&x, &v, &why, &e), 0);
    if (rw_parallel_fusion.build(&x, 0, &why, &e))
        fail_msg("%s", e.detail ? e.detail : why.s);
    const char *text = x.part.p[0].ptx.s;
    const json_t *l = x.part.p[0].launch;
    assert_int_equal(json_integer_value(json_array_get(json_object_get(l, "grid"), 0)), 13);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(l, "block"), 0)), 128);
    assert_int_equal(json_array_size(json_object_get(l, "args")), 3); /* h is in both */
    assert_string_equal(json_string_value(json_object_get(l, "name")), "p+c");
    assert_non_null(strstr(text, ", 5;"));
    assert_non_null(strstr(text, "barrier.sync"));
    assert_non_null(strstr(text, ", 64;"));
    assert_null(strstr(text, "bar.warp.sync")); /* no phase follows another */
    if (dev_nvjitlink_version() && dev_assemble(text, strlen(text), "sm_90", NULL, NULL, &e) < 0)
        fail_msg("ptxas: %s\n%s", e.detail, text);
    rw_parallel_fusion.close(&x);
    rw_edit_done(&x);
    dt_str_done(&why);
    fix_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_global),    cmocka_unit_test(test_shared),    cmocka_unit_test(test_keep_global),
        cmocka_unit_test(test_threads),   cmocka_unit_test(test_fan_out),   cmocka_unit_test(test_abreast),
        cmocka_unit_test(test_irregular), cmocka_unit_test(test_nc),        cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_geometry),  cmocka_unit_test(test_functions), cmocka_unit_test(test_no_redirect),
        cmocka_unit_test(test_keep_arg),  cmocka_unit_test(test_pitch),     cmocka_unit_test(test_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
