/* SG_CHECK_BLOCKS (softgpu/exec/shadow.c): whether two blocks touch a byte in no order, against sets of bytes that are
 * kept by hand. Blocks read, write and count at random: a line of words, the same word, halves of a warp, in no order;
 * bytes, words, vectors; warps that are whole and that are not; compiled and interpreted alike.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softgpu/sg.h"

enum { BLOCKS = 3, OPS = 5, REGION = 4096, BYTES = (BLOCKS + 1) * REGION, THREADS = 32, ROUNDS = 1500 };
enum { NONE, READ, WRITE, COUNT };

struct plan { /* what the launch reads: by block, operation and thread */
    uint32_t how[BLOCKS][OPS], at[BLOCKS][OPS][THREADS];
};

static uint64_t state = 1;
static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static const struct width {
    unsigned bytes;
    const char *load, *store;
} widths[] = {{1, "ld.global.u8 %r20, [%rd3]", "st.global.u8 [%rd3], 7"},
              {4, "ld.global.u32 %r20, [%rd3]", "st.global.u32 [%rd3], 7"},
              {8, "ld.global.u64 %rd9, [%rd3]", "st.global.u64 [%rd3], 7"},
              {16, "ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd3]", "st.global.v4.u32 [%rd3], {7, 7, 7, 7}"}};

static void kernel(const struct width *w, char *ret, size_t cap)
{
    size_t n = (size_t)snprintf(
        ret, cap,
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 plan)\n{\n.reg "
        ".b32 "
        "%%r<30>; .reg .b64 %%rd<10>; .reg .pred %%p<4>;\nld.param.u64 %%rd1, [x]; ld.param.u64 %%rd2, [plan]; mov.u32 "
        "%%r1, %%tid.x; mov.u32 %%r2, %%ctaid.x;\n");
    for (unsigned k = 0; k < OPS; k++)
        n += (size_t)snprintf(
            ret + n, cap - n,
            "mad.lo.u32 %%r3, %%r2, %u, %u; mul.wide.u32 %%rd4, %%r3, 4; add.u64 %%rd4, %%rd4, %%rd2; ld.global.u32 "
            "%%r4, [%%rd4]; mad.lo.u32 %%r5, %%r3, %u, %%r1; mul.wide.u32 %%rd5, %%r5, 4; add.u64 %%rd5, %%rd5, %%rd2; "
            "ld.global.u32 %%r6, [%%rd5+%u]; cvt.u64.u32 %%rd6, %%r6; add.u64 %%rd3, %%rd1, %%rd6;\n"
            "setp.ne.u32 %%p1, %%r4, %u; @%%p1 bra W%u; %s;\nW%u: setp.ne.u32 %%p1, %%r4, %u; @%%p1 bra C%u; %s;\n"
            "C%u: setp.ne.u32 %%p1, %%r4, %u; @%%p1 bra E%u; red.global.add.u32 [%%rd3], 1;\nE%u:\n",
            OPS, k, THREADS, (unsigned)offsetof(struct plan, at), READ, k, w->load, k, WRITE, k, w->store, k, COUNT, k,
            k);
    snprintf(ret + n, cap - n, "ret; }\n");
}

static void draw_plan(struct plan *p, unsigned bytes)
{
    for (unsigned b = 0; b < BLOCKS; b++)
        for (unsigned k = 0; k < OPS; k++) {
            /* mostly where only this block is; what all read; sometimes another's */
            unsigned where = draw(12), region = where ? where < 5 ? BLOCKS : b : draw(BLOCKS),
                     unit = bytes > 1 ? bytes
                            : draw(2) ? 1
                                      : 4,
                     shape = draw(5), first = draw(REGION / unit - 2 * THREADS),
                     second = draw(REGION / unit - 2 * THREADS);
            p->how[b][k] = where && where < 5 ? READ : draw(8) < 7 ? READ + draw(2) : bytes == 4 ? COUNT : NONE;
            for (unsigned t = 0; t < THREADS; t++) {
                unsigned i = shape == 0   ? first + t
                             : shape == 1 ? first
                             : shape == 2 ? (t < 16 ? first : second) + t % 16
                             : shape == 3 ? first + t / 2 * 2
                                          : draw(REGION / unit - 2 * THREADS);
                p->at[b][k][t] = region * REGION + i * unit;
            }
        }
}

/* Two blocks touch a byte, not both only read it, and not both only count there. */
static bool races(const struct plan *p, unsigned bytes, unsigned threads)
{
    static uint8_t touched[BLOCKS][BYTES + 16];
    memset(touched, 0, sizeof touched);
    for (unsigned b = 0; b < BLOCKS; b++)
        for (unsigned k = 0; k < OPS; k++)
            for (unsigned t = 0; t < threads && p->how[b][k] != NONE; t++)
                for (unsigned i = 0; i < bytes; i++)
                    touched[b][p->at[b][k][t] + i] |= (uint8_t)(1u << p->how[b][k]);
    for (unsigned i = 0; i < BYTES; i++)
        for (unsigned b = 0; b < BLOCKS; b++)
            for (unsigned c = 0; c < b; c++) {
                unsigned x = touched[b][i], y = touched[c][i], both = x | y;
                if (x && y && both != 1u << READ && both != 1u << COUNT)
                    return true;
            }
    return false;
}

static void test_blocks(void **unused)
{
    (void)unused;
    struct sg_device *dev;
    struct dt_err e = {0};
    uint64_t x[2];
    assert_int_equal(sg_device_new(sg_model_find(NULL), &dev), 0);
    assert_int_equal(sg_mem_alloc(dev, BYTES, &x[0]), 0);
    assert_int_equal(sg_mem_alloc(dev, sizeof(struct plan), &x[1]), 0);
    unsigned found[2] = {0};
    for (unsigned i = 0; i < sizeof widths / sizeof *widths; i++) {
        static char text[16384];
        struct sg_module *m;
        kernel(&widths[i], text, sizeof text);
        int r = sg_module_load(dev, text, strlen(text), &m, &e);
        if (r < 0)
            print_error("%s\n", e.detail ? e.detail : dt_err_text(r));
        assert_int_equal(r, 0);
        for (unsigned round = 0; round < ROUNDS; round++) {
            struct plan *p = (struct plan *)(uintptr_t)x[1]; // NOLINT
            unsigned threads = round % 4 ? THREADS : 1 + draw(THREADS);
            draw_plan(p, widths[i].bytes);
            bool want = races(p, widths[i].bytes, threads);
            struct sg_launch l = {.kernel = sg_module_kernel(m, "k"),
                                  .grid = {BLOCKS, 1, 1},
                                  .block = {threads, 1, 1},
                                  .params = (const uint8_t *)x,
                                  .checks = SG_CHECK_BLOCKS,
                                  .seed = round};
            struct sg_stats s;
            struct sg_fault f = {0};
            r = sg_execute(dev, &l, &s, &f);
            if (r != (want ? DT_E_RACE : 0))
                fail_msg("%u bytes, round %u: %d, %s", widths[i].bytes, round, r, want ? "a race" : "no race");
            found[want]++;
        }
        sg_module_free(m);
    }
    assert_true(found[0] > ROUNDS / 4 && found[1] > ROUNDS / 4);
    assert_int_equal(sg_mem_free(dev, x[0]), 0);
    assert_int_equal(sg_mem_free(dev, x[1]), 0);
    sg_device_free(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
