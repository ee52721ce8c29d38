/* Programmatic dependencies in the timing model, by closed forms: kernel B depends on kernel A, one block of each on
 * every SM.
 *
 * g: what a launch in a graph takes; d: a block alone. A starts at g. B may start g after the point of A where all its
 * blocks have triggered, and stops where it waits until A has ended. Two such blocks fit an SM and its issue slots
 * together, so neither slows the other down.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "softgpu/sg.h"

enum { N = 20000 }; /* instructions of a thread */

static const struct sg_model *m;

static struct sg_work kernel(uint32_t n, double trigger, double prologue)
{
    struct sg_work w = {.kind = SG_WORK_KERNEL, .blocks = m->sms, .threads = 128, .in_graph = true};
    w.stats.instructions = (uint64_t)m->sms * 128 * n;
    w.stats.longest = (uint64_t)m->sms * n;
    w.stats.before_trigger = (uint64_t)(m->sms * n * trigger);
    w.stats.before_wait = (uint64_t)(m->sms * n * prologue);
    w.stats.max_block_share = 1;
    return w;
}

static void near(const char *what, double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * (1 + fabs(want))))
        fail_msg("%s: %.9g, not %.9g", what, got, want);
}

static const uint32_t zero[] = {0}, one[] = {1};
static const uint8_t yes[] = {1}, no[] = {0};

static void overlap(void **state)
{
    double g = m->graph_launch_us, d = 2.0 * N / (m->clock_khz / 1000.0) + m->block_start_ns / 1000;
    assert_true(d > 4 * g);
    const struct {
        double trigger, prologue, start, end; /* of B */
    } row[] = {
        {0, 0.25, 2 * g, g + 1.75 * d}, /* its prologue runs beside A, the rest after A */
        {0, 0, 2 * g, g + 2 * d},       /* waits at once: only the launch is hidden */
        {0.5, 0.25, 2 * g + 0.5 * d, g + 1.75 * d},
        {0.9, 0.25, 2 * g + 0.9 * d, 2 * g + 1.9 * d}, /* A ends during the prologue: nothing stops */
        {0, 1, 2 * g, 2 * g + d},                      /* never waits */
        {1, 0.25, 2 * g + d, 2 * g + 2 * d},           /* A never triggers: its end does */
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (int early = 0; early < 2; early++) {
            struct sg_work w[3] = {kernel(N, row[i].trigger, 0), kernel(N, 1, row[i].prologue), kernel(N, 1, 0)};
            w[1].after = zero, w[1].nafter = 1, w[1].early = early ? yes : i % 2 ? no : NULL;
            w[2].after = one, w[2].nafter = 1;
            assert_int_equal(sg_timeline(m, w, 3), 0);
            near("A starts", w[0].start_us, g);
            near("A ends", w[0].end_us, g + d);
            near("B starts", w[1].start_us, early ? row[i].start : 2 * g + d);
            near("B ends", w[1].end_us, early ? row[i].end : 2 * g + 2 * d);
            near("C starts", w[2].start_us, w[1].end_us + g);
        }
}

/* Where A leaves no room, B's blocks come when A's go: the launch is hidden, the prologue is not. */
static void room(void **state)
{
    double g = m->graph_launch_us, d = 2.0 * N / (m->clock_khz / 1000.0) + m->block_start_ns / 1000;
    struct sg_work w[2] = {kernel(N, 0, 0), kernel(N, 1, 0.25)};
    w[0].shared_bytes = w[1].shared_bytes = 200 << 10;
    w[1].after = zero, w[1].nafter = 1, w[1].early = yes;
    assert_int_equal(sg_timeline(m, w, 2), 0);
    near("B ends", w[1].end_us, g + 2 * d);
}

/* A kernel that is through before its prerequisite ends with it: what comes after both waits for both. */
static void in_order(void **state)
{
    double g = m->graph_launch_us, d = 2.0 * N / (m->clock_khz / 1000.0) + m->block_start_ns / 1000;
    struct sg_work w[3] = {kernel(N, 0, 0), kernel(10, 1, 1), kernel(10, 1, 0)};
    w[1].after = zero, w[1].nafter = 1, w[1].early = yes;
    w[2].after = one, w[2].nafter = 1;
    assert_int_equal(sg_timeline(m, w, 3), 0);
    near("B ends", w[1].end_us, g + d);
    near("C starts", w[2].start_us, 2 * g + d);
}

/* A chain in which each kernel triggers at once: launches hide behind the first, the rest is as if there were no
 * launches. */
static void chain(void **state)
{
    enum { K = 8 };
    double g = m->graph_launch_us, d = 2.0 * N / (m->clock_khz / 1000.0) + m->block_start_ns / 1000;
    struct sg_work w[K];
    uint32_t before[K];
    for (uint32_t i = 0; i < K; i++) {
        before[i] = i - 1;
        w[i] = kernel(N, 0, 0);
        if (i)
            w[i].after = &before[i], w[i].nafter = 1, w[i].early = yes;
    }
    assert_int_equal(sg_timeline(m, w, K), 0);
    near("the last ends", w[K - 1].end_us, g + K * d);
}

int main(void)
{
    m = sg_model_find("h200");
    const struct CMUnitTest tests[] = {cmocka_unit_test(overlap), cmocka_unit_test(room), cmocka_unit_test(in_order),
                                       cmocka_unit_test(chain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
