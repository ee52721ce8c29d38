/* Same input, same time: the timeline built without optimisation, with it, and for newer instruction sets (where a
 * compiler could fuse a multiply and an add) gives the same bits; so do the counters of a launch on any number of CPU
 * threads and with any set of lane loops.
 *
 * tests/unit/meson.build compiles the simulation (softgpu/model/timing.c and its neighbours) once more for each
 * variant, its functions renamed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "softgpu/sg.h"

int sg_timeline_O0(const struct sg_model *, struct sg_work *, uint32_t);
int sg_timeline_O3(const struct sg_model *, struct sg_work *, uint32_t);
int sg_timeline_v3(const struct sg_model *, struct sg_work *, uint32_t);
int sg_timeline_v4(const struct sg_model *, struct sg_work *, uint32_t);

enum { WORKS = 40, CASES = 30 };
static uint64_t seed;

static uint64_t next(uint64_t below) /* splitmix64 */
{
    uint64_t z = seed += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return (z ^ (z >> 31)) % below;
}

static void random_works(struct sg_work *w, uint32_t *after)
{
    for (uint32_t i = 0; i < WORKS; i++) {
        uint64_t kind = next(10);
        w[i] = (struct sg_work){.kind = kind < 7    ? SG_WORK_KERNEL
                                        : kind == 7 ? SG_WORK_COPY
                                        : kind == 8 ? SG_WORK_SET
                                                    : SG_WORK_EVENT};
        w[i].blocks = (uint32_t)next(3000), w[i].threads = 1 + (uint32_t)next(1024),
        w[i].registers = (uint32_t)next(64);
        w[i].shared_bytes = (uint32_t)next(90000), w[i].bytes = next(1 << 24), w[i].in_graph = next(2);
        w[i].cluster = next(4) ? 0 : 1 + (uint32_t)next(8);
        if (w[i].cluster)
            w[i].blocks = w[i].blocks / w[i].cluster * w[i].cluster;
        uint64_t threads = (uint64_t)w[i].blocks * w[i].threads;
        struct sg_stats *s = &w[i].stats;
        s->instructions = threads * (1 + next(999)) + next(99), s->fp32 = threads * next(300),
        s->fp64 = threads * next(30);
        s->integer = threads * next(300), s->sfu = threads * next(20), s->memory = threads * next(100),
        s->barriers = threads * next(8);
        s->tensor_flops = next(2) ? threads * next(4096) : 0, s->shared_bytes = threads * next(200);
        s->cluster_accesses = w[i].cluster ? s->memory / 4 : 0, s->cluster_bytes = 4 * s->cluster_accesses,
        s->cluster_syncs = w[i].cluster ? threads : 0;
        s->global_read_bytes = threads * next(200), s->global_write_bytes = threads * next(40);
        s->unique_read_bytes = next(1 << 26), s->unique_write_bytes = next(1 << 24);
        s->max_block_share = 1 + (double)next(1000) / 700;
        w[i].nafter = i && next(3) ? 1 : 0;
        after[i] = i ? (uint32_t)next(i) : 0;
        w[i].after = &after[i];
    }
}

static void builds(void **state)
{
    static const struct {
        const char *name, *cpu;
        int (*run)(const struct sg_model *, struct sg_work *, uint32_t);
    } variant[] = {{"-O0", NULL, sg_timeline_O0},
                   {"-O3", NULL, sg_timeline_O3},
                   {"-O3 x86-64-v3", "v3", sg_timeline_v3},
                   {"-O3 x86-64-v4", "v4", sg_timeline_v4}};
    static struct sg_work want[WORKS], got[WORKS];
    static uint32_t after[WORKS];
    unsigned compared = 0;
#ifdef __x86_64__
    __builtin_cpu_init();
#endif
    for (unsigned c = 0; c < CASES; c++) {
        const struct sg_model *m = sg_model_at(c % 5);
        seed = c;
        random_works(want, after);
        int err = sg_timeline(m, want, WORKS);
        assert_int_equal(err, 0);
        for (size_t v = 0; v < sizeof variant / sizeof *variant; v++) {
#ifdef __x86_64__
            if (variant[v].cpu &&
                !(variant[v].cpu[1] == '3' ? __builtin_cpu_supports("x86-64-v3") : __builtin_cpu_supports("x86-64-v4")))
                continue;
#endif
            seed = c;
            random_works(got, after);
            assert_int_equal(variant[v].run(m, got, WORKS), 0);
            for (uint32_t i = 0; i < WORKS; i++)
                if (memcmp(&got[i].start_us, &want[i].start_us, 8) || memcmp(&got[i].end_us, &want[i].end_us, 8))
                    fail_msg("%s, case %u, work %u: %a..%a, not %a..%a", variant[v].name, c, i, got[i].start_us,
                             got[i].end_us, want[i].start_us, want[i].end_us);
            compared++;
        }
    }
    assert_true(compared >= 2 * CASES);
}

/* Threads walk rows of different length, blocks weigh differently, with arithmetic of several kinds and shared
 * memory. */
static const char walk[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry walk(.param .u64 a)\n"
    "{\n"
    " .reg .pred %p<3>; .reg .b32 %r<12>; .reg .f32 %f<6>; .reg .b64 %rd<6>;\n"
    " .shared .align 4 .b8 s[512];\n"
    " ld.param.u64 %rd1, [a]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mov.u32 %r3, %ntid.x;\n"
    " mad.lo.u32 %r4, %r1, %r3, %r2; and.b32 %r5, %r4, 31; add.u32 %r5, %r5, %r1; mov.f32 %f1, 0f3F800000; mov.u32 "
    "%r6, s;\n"
    " shl.b32 %r7, %r2, 2; add.u32 %r6, %r6, %r7;\n"
    "L: setp.eq.u32 %p1, %r5, 0; @%p1 bra E;\n"
    " mad.lo.u32 %r8, %r5, 97, %r4; and.b32 %r8, %r8, 4095; mul.wide.u32 %rd2, %r8, 4; add.s64 %rd3, %rd1, %rd2;\n"
    " ld.global.f32 %f2, [%rd3]; fma.rn.f32 %f1, %f1, %f2, %f2; ex2.approx.f32 %f1, %f1; sub.u32 %r5, %r5, 1; bra L;\n"
    "E: st.shared.f32 [%r6], %f1; bar.sync 0; ld.shared.f32 %f3, [s];\n"
    " mul.wide.u32 %rd4, %r4, 4; add.s64 %rd5, %rd1, %rd4; st.global.f32 [%rd5+16384], %f3;\n"
    " ret;\n}\n";

struct result {
    struct sg_stats stats;
    double end;
};

static void counters(struct result *r)
{
    enum { BLOCKS = 61, THREADS = 128 };
    struct sg_device *d;
    struct sg_module *m;
    struct dt_err e;
    struct sg_fault f;
    uint64_t a;
    assert_int_equal(sg_device_new(sg_model_find("h200"), &d), 0);
    assert_int_equal(sg_module_load(d, walk, strlen(walk), &m, &e), 0);
    assert_int_equal(sg_mem_alloc(d, 16384 + BLOCKS * THREADS * 4, &a), 0);
    memset((void *)(uintptr_t)a, 0, 16384);
    struct sg_launch l = {.kernel = sg_module_kernel(m, "walk"),
                          .grid = {BLOCKS, 1, 1},
                          .block = {THREADS, 1, 1},
                          .params = (uint8_t *)&a};
    assert_int_equal(sg_execute(d, &l, &r->stats, &f), 0);
    struct sg_work w = {
        .kind = SG_WORK_KERNEL, .blocks = BLOCKS, .threads = THREADS, .registers = 20, .stats = r->stats};
    assert_int_equal(sg_timeline(sg_device_model(d), &w, 1), 0);
    r->end = w.end_us;
    assert_int_equal(sg_mem_free(d, a), 0);
    sg_module_free(m);
    sg_device_free(d);
}

static void machines(void **state)
{
    static const char *const isa[] = {"v1", "v3", "v4"}, *const threads[] = {"1", "2", "7"};
    struct result first = {0}, r;
    for (unsigned i = 0; i < 9; i++) { /* the choice of instruction set is made once a process */
        int fd[2];
        memset(&r, 0, sizeof r);
        assert_int_equal(pipe(fd), 0);
        pid_t pid = fork();
        if (!pid) {
            setenv("DOVETAIL_SOFTGPU_ISA", isa[i / 3], 1);
            setenv("DOVETAIL_SOFTGPU_THREADS", threads[i % 3], 1);
            counters(&r);
            _exit(write(fd[1], &r, sizeof r) != sizeof r);
        }
        close(fd[1]);
        assert_int_equal(read(fd[0], &r, sizeof r), sizeof r);
        close(fd[0]);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        if (!i)
            first = r;
        if (memcmp(&r, &first, sizeof r))
            fail_msg("%s with %s threads counts otherwise: %a us, not %a", isa[i / 3], threads[i % 3], r.end,
                     first.end);
    }
    assert_true(first.stats.max_block_share > 1.2 && first.stats.sfu > 0 && first.stats.barriers > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(builds), cmocka_unit_test(machines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
