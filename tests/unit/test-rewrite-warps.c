/* What a register hangs on from thread to thread (rewrite/emit/warps.c): a kernel of 256 threads whose registers say in
 * their names what is expected; and values that are made of the thread's number alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ptx/ptx.h"
#include "rewrite/emit/warps.h"

static const char text[] =
    ".version 8.6\n.target sm_90\n.address_size 64\n"
    ".visible .entry k(.param .u64 x, .param .u32 n)\n{\n"
    ".reg .pred %p, %q, %r, %s, %t, %chosen, %lower, %voted, %same;\n"
    ".reg .b32 %id, %warp, %odd, %half, %base, %col, %lane, %cta, %n, %sum, %mixed, %late, %early, %round, %zero, "
    "%loaded, %first, %shifted, %way, %both, %mad, %idy, %least, %sel, %nine, %in, %carry, %up;\n"
    ".reg .b64 %x, %wide, %at;\n"
    ".shared .align 16 .b8 stage[1024];\n"
    "ld.param.u64 %x, [x]; ld.param.u32 %n, [n]; mov.u32 %id, %tid.x; mov.u32 %idy, %tid.y; mov.u32 %cta, "
    "%ctaid.x;\n"
    "shr.u32 %warp, %id, 5; and.b32 %odd, %warp, 1; and.b32 %half, %id, 128; and.b32 %lane, %id, 31;\n"
    "shl.b32 %base, %cta, 7; shl.b32 %col, %odd, 6; or.b32 %col, %col, %base;\n"
    "add.u32 %sum, %n, %cta; mul.wide.u32 %wide, %odd, 4096; add.u64 %wide, %wide, 64; mad.lo.u32 %mad, %half, 4, "
    "%col;\n"
    "shfl.sync.idx.b32 %first, %warp, 0, 31, -1; shfl.sync.idx.b32 %mixed, %id, 0, 31, -1; shfl.sync.up.b32 %up, "
    "%warp, 1, 0, -1;\n"
    "shr.u32 %shifted, %half, 7; ld.global.u32 %loaded, [%x]; mov.u32 %zero, 0; mov.u32 %nine, 9;\n"
    "setp.lt.u32 %p, %id, 64; setp.lt.u32 %q, %n, 4; setp.eq.u32 %r, %loaded, 0; elect.sync _|%chosen, -1;\n"
    "setp.ge.u32 %s, %warp, 2; and.pred %t, %p, %s; setp.lt.u32 %same, %idy, 1; vote.sync.any.pred %voted, %p, -1;\n"
    "setp.eq.u32 %lower, %lane, 0;\n"
    "selp.b32 %sel, 16, 48, %p; @%p mov.u32 %late, 8; mov.u32 %early, 8; @%q mov.u32 %early, 24; min.u32 %least, "
    "%warp, 2;\n"
    "mov.u32 %way, 1; @%p bra A; mov.u32 %way, 2; A: mov.u32 %both, 1; @%q bra B; mov.u32 %both, 2; B:\n"
    "mov.u32 %round, 0; L: add.u32 %round, %round, 32; mov.u32 %in, %round; setp.lt.u32 %q, %round, %n; @%q bra L;\n"
    "mov.u64 %at, stage; add.cc.u32 %n, %n, 1; addc.u32 %carry, %n, 0; ret;\n}\n";

#define ANY UINT32_MAX
static const struct want {
    const char *reg;
    uint32_t bits; /* ANY: nobody knows */
    unsigned zeros;
} wants[] = {
    {"%id", 0xFF, 0},      {"%idy", 0, 64},     {"%cta", 0, 0},      {"%n", 0, 0},        {"%warp", 0xE0, 0},
    {"%odd", 0x20, 0},     {"%half", 0x80, 7},  {"%lane", 0x1F, 0},  {"%base", 0, 7},     {"%col", 0x20, 6},
    {"%mad", 0xA0, 6},     {"%wide", 0x20, 6},  {"%first", 0xE0, 0}, {"%mixed", 0xE0, 0}, {"%up", ANY, 0},
    {"%shifted", 0x80, 0}, {"%loaded", ANY, 0}, {"%zero", 0, 64},    {"%nine", 0, 0},     {"%p", 0xFF, 0},
    {"%r", ANY, 0},        {"%chosen", ANY, 0}, {"%s", 0xE0, 0},     {"%t", 0xFF, 0},     {"%same", 0, 0},
    {"%voted", ANY, 0},    {"%lower", 0x1F, 0}, {"%sel", 0xFF, 4},   {"%late", 0xFF, 3},  {"%early", 0, 3},
    {"%least", 0xE0, 0},   {"%way", 0xFF, 0},   {"%both", 0, 0},     {"%round", 0, 5},    {"%in", 0, 5},
    {"%at", 0, 0},         {"%carry", ANY, 0},
};

static uint32_t find(const struct ptx_function *f, const char *name)
{
    for (uint32_t k = 0; k < f->nreg; k++)
        if (!strcmp(f->reg[k].name, name))
            return k;
    fail_msg("no register %s", name);
    return 0;
}

struct made {
    struct ptx_module *m;
    struct dt_launch launch;
    struct dev_step step;
    struct rw_body b;
    struct dt_arena arena;
    struct rw_warps *w;
};

static void make(struct made *x, const char *from, uint32_t y)
{
    struct dt_err e = {0};
    memset(x, 0, sizeof *x);
    if (ptx_parse(from, strlen(from), &x->m, &e) < 0)
        fail_msg("%s", e.detail ? e.detail : "?");
    x->step.launch = &x->launch;
    x->b = (struct rw_body){.f = ptx_find_function(x->m, "k"),
                            .step = &x->step,
                            .grid = {4, 1, 1},
                            .block = {256 / y, y, 1},
                            .threads = 256};
    assert_int_equal(rw_warps_new(&x->arena, &x->b, NULL, &x->w, &e), 0);
}

static void done(struct made *x)
{
    dt_arena_done(&x->arena);
    ptx_module_free(x->m);
}

static void test_spread(void **state)
{
    struct made x;
    (void)state;
    make(&x, text, 1);
    for (unsigned k = 0; k < sizeof wants / sizeof *wants; k++) {
        struct ptx_opnd o = {.kind = PTX_O_REG, .comp = -1, .reg = find(x.b.f, wants[k].reg)};
        struct rw_spread s = rw_warps_of(x.w, &o);
        if (s.any != (wants[k].bits == ANY) || (!s.any && (s.bits != wants[k].bits || s.zeros != wants[k].zeros)))
            fail_msg("%s: any %d, bits 0x%x, zeros %u", wants[k].reg, s.any, s.bits, s.zeros);
    }
    struct ptx_opnd a = {.kind = PTX_O_ADDR, .comp = -1, .base_kind = PTX_O_REG, .reg = find(x.b.f, "%col"), .off = 16};
    assert_int_equal(rw_warps_of(x.w, &a).zeros, 4);
    done(&x);
    make(&x, text, 2); /* two rows of threads: %tid.x is not the thread's number */
    struct ptx_opnd o = {.kind = PTX_O_REG, .comp = -1, .reg = find(x.b.f, "%warp")};
    assert_true(rw_warps_of(x.w, &o).any);
    done(&x);
}

static void test_value(void **state)
{
    static const char *const no[] = {"%cta", "%col", "%loaded", "%up", "%late", "%way", "%r", "%chosen", "%round"};
    struct made x;
    uint64_t v;
    (void)state;
    make(&x, text, 1);
    for (uint32_t t = 0; t < 256; t++) {
        assert_true(rw_warps_value(x.w, find(x.b.f, "%p"), t, &v));
        assert_int_equal(v & 1, t < 64);
        assert_true(rw_warps_value(x.w, find(x.b.f, "%t"), t, &v));
        assert_int_equal(v & 1, 0);
        assert_true(rw_warps_value(x.w, find(x.b.f, "%odd"), t, &v));
        assert_int_equal(v, t / 32 % 2);
        assert_true(rw_warps_value(x.w, find(x.b.f, "%sel"), t, &v));
        assert_int_equal(v, t < 64 ? 16 : 48);
        assert_true(rw_warps_value(x.w, find(x.b.f, "%first"), t, &v));
        assert_int_equal(v, t / 32);
        assert_true(rw_warps_value(x.w, find(x.b.f, "%mixed"), t, &v));
        assert_int_equal(v, t / 32 * 32);
    }
    for (unsigned k = 0; k < sizeof no / sizeof *no; k++)
        assert_false(rw_warps_value(x.w, find(x.b.f, no[k]), 0, &v));
    assert_int_equal(rw_warps_def(x.w, find(x.b.f, "%way")), UINT32_MAX);
    assert_int_equal(x.b.f->inst[rw_warps_def(x.w, find(x.b.f, "%odd"))].op, PTX_OP_AND);
    done(&x);
}

/* Roles as nvcc writes them: a shuffle with two results, constants in registers that hold others elsewhere, and what is
 * assigned behind a branch that only some go. */
static void test_roles(void **state)
{
    static const char roles[] =
        ".version 8.6\n.target sm_90\n.address_size 64\n"
        ".visible .entry k(.param .u64 x, .param .u32 n)\n{\n"
        ".reg .pred %there, %away, %skip;\n"
        ".reg .b32 %id, %raw, %role, %zero, %last, %all, %mask, %lost, %at, %other;\n"
        "mov.u32 %id, %tid.x; shr.u32 %raw, %id, 7; mov.u32 %zero, 0; mov.u32 %last, 31; mov.u32 %all, -1;\n"
        "shfl.sync.idx.b32 %role|%there, %raw, %zero, %last, %all;\n"
        "setp.eq.u32 %away, %role, 0; @%away bra E;\n"
        "mov.u32 %at, 64; setp.ge.u32 %skip, %id, 160; @%skip bra E; mov.u32 %other, 7; mov.u32 %all, 15;\n"
        "mov.u32 %mask, -1; mov.u32 %mask, 15; shfl.sync.idx.b32 %lost, %raw, 0, 31, %mask;\n"
        "E: ret;\n}\n";
    struct made x;
    struct dt_err e = {0};
    struct rw_warps *w;
    uint64_t v;
    bool without[64] = {false};
    (void)state;
    make(&x, roles, 1);
    for (uint32_t t = 0; t < 256; t++) {
        assert_true(rw_warps_value(x.w, find(x.b.f, "%role"), t, &v));
        assert_int_equal(v, t / 128);
    }
    assert_false(rw_warps_value(x.w, find(x.b.f, "%lost"), 0, &v));
    struct ptx_opnd o = {.kind = PTX_O_REG, .comp = -1, .reg = find(x.b.f, "%at")}, lost = o;
    lost.reg = find(x.b.f, "%lost");
    assert_int_equal(rw_warps_of(x.w, &o).bits, 0x80);
    assert_true(rw_warps_of(x.w, &lost).any);
    uint32_t branch = 0, block = 0;
    for (uint32_t k = 0; k < x.b.f->ninst; k++)
        if (x.b.f->inst[k].op == PTX_OP_BRA) {
            without[k] = !branch;
            branch = k;
            block++;
        }
    assert_int_equal(block, 2);
    assert_int_equal(rw_warps_region(x.w, 0).bits, 0);
    assert_int_equal(rw_warps_region(x.w, 1).bits, 0x80);
    assert_int_equal(rw_warps_region(x.w, 2).bits, 0xFF);
    assert_int_equal(rw_warps_new(&x.arena, &x.b, without, &w, &e), 0);
    assert_int_equal(rw_warps_of(w, &o).bits, 0);
    assert_int_equal(rw_warps_region(w, 1).bits, 0);
    assert_int_equal(rw_warps_region(w, 2).bits, 0xFF);
    done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spread), cmocka_unit_test(test_value),
                                       cmocka_unit_test(test_roles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
