/* dovetailRecord (softgpu/record.h): what blocks touch, against an account byte by byte; strays; misuse.
 *
 * The kernel takes each thread's address and site from tables, so that every shape of a warp's addresses can be asked
 * for. The addresses are only looked up, never followed: the ranges need not be memory.
 */
#include <stdbool.h>

#include "driver-fixture.h"

enum { THREADS = 72, BLOCKS = 9, LANES = BLOCKS * THREADS, SITES = 6, RANGES = 4, PLANES = 3, MOST = 3000 };
#define OFFSET 24 /* in the calls: what the tables have is less by this */

/* a[i] and which[i] of thread i of the grid: site which[i] - 1, 0: none; `how` is one number for all, so an entry
 * each */
static const char head[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".extern .func __dovetail_touch (.param .b64 a, .param .b64 o, .param .b32 s, .param .b32 h);\n";
static const char entry[] =
    ".visible .entry k%u(.param .u64 a, .param .u64 which)\n{\n"
    ".reg .b64 %%a, %%w, %%o; .reg .b32 %%i, %%b, %%n, %%t, %%c; .reg .pred %%p;\n"
    "ld.param.u64 %%a, [a]; ld.param.u64 %%w, [which];\n"
    "mov.u32 %%b, %%ctaid.x; mov.u32 %%c, %%ctaid.y; mov.u32 %%n, %%nctaid.x; mad.lo.u32 %%b, %%c, %%n, %%b;\n"
    "mov.u32 %%n, %%ntid.x; mov.u32 %%t, %%tid.x; mad.lo.u32 %%i, %%b, %%n, %%t;\n"
    "mul.wide.u32 %%o, %%i, 8; add.u64 %%a, %%a, %%o; ld.global.u64 %%a, [%%a];\n"
    "mul.wide.u32 %%o, %%i, 4; add.u64 %%w, %%w, %%o; ld.global.u32 %%t, [%%w];\n";

static const struct dovetail_touch_range ranges[RANGES] = {
    {0x100000, MOST, 1, 0}, {0x200000 + 20, 1111, 1, 0}, {0x300000, 512, 0, 1}, {0x200000 + 20 + 1111, 32, 1, 1}};
static struct dovetail_touch_site sites[SITES];
static uint64_t address[LANES];
static uint32_t which[LANES];
static uint8_t expect[BLOCKS][RANGES][PLANES][MOST], got[BLOCKS][RANGES][PLANES][MOST];
static CUmodule mod;
static CUdeviceptr table[2];
static uint64_t state_ = 1;

static uint32_t below(uint32_t n)
{
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state_ >> 33) % n;
}

static void touched(void *user, uint64_t block, uint32_t range, uint32_t plane, const uint64_t (*run)[2], size_t n)
{
    assert_true(user == (void *)sites && block < BLOCKS && range < RANGES && plane < PLANES && n > 0);
    assert_true(ranges[range].recorded);
    for (size_t i = 0; i < n; i++) {
        assert_true(run[i][0] < run[i][1] && run[i][1] <= ranges[range].bytes && (!i || run[i - 1][1] < run[i][0]));
        for (uint64_t b = run[i][0]; b < run[i][1]; b++) {
            assert_int_equal(got[block][range][plane][b], 0); /* one call a block, range and plane */
            got[block][range][plane][b] = 1;
        }
    }
}

static int load(void **state)
{
    char text[32768];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", head);
    fresh();
    for (unsigned how = 0; how < 16; how++) {
        n += (size_t)snprintf(text + n, sizeof text - n, entry, how);
        for (unsigned s = 0; s < SITES; s++)
            n += (size_t)snprintf(text + n, sizeof text - n,
                                  "setp.%s.u32 %%p, %%t, %u; @%s%%p call __dovetail_touch, (%%a, %d, %u, %u);\n",
                                  s & 1 ? "ne" : "eq", s + 1, s & 1 ? "!" : "", OFFSET, s, how);
        n += (size_t)snprintf(text + n, sizeof text - n, "ret;\n}\n");
    }
    assert_true(n < sizeof text);
    OK(F(cuModuleLoadData)(&mod, text));
    OK(F(cuMemAlloc)(&table[0], sizeof address));
    OK(F(cuMemAlloc)(&table[1], sizeof which));
    return 0;
}

static int unload(void **state)
{
    OK(F(cuDevicePrimaryCtxReset)(0));
    return 0;
}

static CUresult launch(unsigned how, struct dovetail_recorder *r, unsigned cluster)
{
    CUfunction f;
    char name[8];
    void *args[] = {&table[0], &table[1]};
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {cluster, 1, 1}};
    CUlaunchConfig cfg = {3, 3, 1, THREADS, 1, 1, 0, NULL, &attr, cluster > 1};
    snprintf(name, sizeof name, "k%u", how);
    OK(F(cuModuleGetFunction)(&f, mod, name));
    OK(F(cuMemcpyHtoD)(table[0], address, sizeof address));
    OK(F(cuMemcpyHtoD)(table[1], which, sizeof which));
    memset(got, 0, sizeof got);
    OK(X(dovetailRecord)(r));
    CUresult c = F(cuLaunchKernelEx)(&cfg, f, args, NULL);
    if (!c)
        c = F(cuCtxSynchronize)();
    if (r)
        X(dovetailRecord)(NULL); /* refused after a fault */
    return c;
}

static struct dovetail_recorder recorder(unsigned shift)
{
    for (unsigned s = 0; s < SITES; s++)
        sites[s] = (struct dovetail_touch_site){1u << s, (1u << s) >> shift ? 1 + below(7) : 0, s == 2};
    return (struct dovetail_recorder){.site = sites,
                                      .range = ranges,
                                      .nsite = SITES,
                                      .nrange = RANGES,
                                      .nplane = PLANES,
                                      .shift = shift,
                                      .touched = touched,
                                      .user = sites};
}

/* Every warp gets a site and a shape of addresses inside a range. outside: now and then a thread's lies in none. */
static void shapes(bool outside)
{
    for (unsigned w = 0; w < LANES; w += 8) {
        unsigned group = w % 32 ? 0 : 1, s = below(SITES), shape = below(7), r = below(RANGES), bytes = 1u << s;
        static unsigned site, kind, range;
        if (group || below(3) == 0) /* mostly all of a warp alike */
            site = s, kind = shape, range = r;
        bytes = 1u << site;
        if (ranges[range].bytes < 64)
            bytes = 1u << (site = below(4)); /* no place in it for more */
        const struct dovetail_touch_range *x = &ranges[range];
        uint64_t first = (x->base + bytes - 1) / bytes * bytes, slots = (x->base + x->bytes - first) / bytes,
                 at = below((uint32_t)slots);
        for (unsigned l = 0; l < 8; l++) {
            unsigned lane = (w + l) % THREADS % 32;
            uint64_t slot = kind == 0   ? at
                            : kind == 1 ? lane
                            : kind == 2 ? lane % 16
                            : kind == 3 ? 31 - lane
                            : kind == 4 ? lane * 3
                            : kind == 5 ? lane / 4
                                        : below((uint32_t)slots);
            address[w + l] = first + slot % slots * bytes - OFFSET;
            which[w + l] = kind < 6 || below(4) ? site + 1 : 0;
            if (outside && !below(20))
                address[w + l] =
                    (below(2) ? first - bytes : (x->base + x->bytes + bytes - 1) / bytes * bytes + 64) - OFFSET;
        }
    }
}

static void account(void)
{
    memset(expect, 0, sizeof expect);
    for (unsigned i = 0; i < LANES; i++) {
        unsigned s = which[i] - 1, bytes = which[i] ? 1u << s : 0;
        uint64_t at = address[i] + OFFSET;
        for (unsigned r = 0; r < RANGES && bytes; r++)
            for (unsigned p = 0; p < PLANES; p++)
                if (ranges[r].recorded && at >= ranges[r].base && at + bytes <= ranges[r].base + ranges[r].bytes &&
                    sites[s].planes >> p & 1)
                    for (uint64_t b = at; b < at + bytes; b++)
                        expect[i / THREADS][r][p][b - ranges[r].base] = 1;
    }
}

static void any_shape(void **state)
{
    for (unsigned round = 0; round < 60; round++) {
        unsigned shift = round % 6;
        struct dovetail_recorder r = recorder(shift);
        bool ahead = round & 8;
        shapes(ahead);
        account();
        OK(launch(ahead        ? DOVETAIL_TOUCH_AHEAD
                  : round & 16 ? DOVETAIL_TOUCH_RECORD | DOVETAIL_TOUCH_ALIGNED
                               : DOVETAIL_TOUCH_RECORD,
                  &r, round % 5 == 0 ? 3 : 1));
        assert_int_equal(r.stray.found, 0);
        for (unsigned i = 0; i < sizeof got; i++)
            if (((uint8_t *)expect)[i] != ((uint8_t *)got)[i])
                fail_msg("round %u: byte %u of range %u, block %u, plane %u", round, i % MOST,
                         i / MOST / PLANES % RANGES, i / MOST / PLANES / RANGES, i / MOST % PLANES);
    }
}

/* ---- many blocks, so that all threads of the device take part ---------------------------------------------------- */
enum { MANY = 3000, STEPS = 40 };
static const char many[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".extern .func __dovetail_touch (.param .b64 a, .param .b64 o, .param .b32 s, .param .b32 h);\n"
    ".visible .entry many(.param .u64 base)\n{\n"
    ".reg .b64 %a, %o; .reg .b32 %b, %t, %k; .reg .pred %p;\n"
    /* 64 words, 40 steps */
    "ld.param.u64 %a, [base]; mov.u32 %b, %ctaid.x; mov.u32 %t, %tid.x; mad.lo.u32 %b, %b, 2560, %t;\n"
    "mul.wide.u32 %o, %b, 4; add.u64 %a, %a, %o; mov.u32 %k, 0;\n"
    "L: call __dovetail_touch, (%a, 0, 0, 0); add.u64 %a, %a, 256; add.u32 %k, %k, 1; setp.lt.u32 %p, %k, 40; @%p bra "
    "L;\n"
    "ret;\n}\n";
static uint8_t seen[MANY];

static void one_run(void *user, uint64_t block, uint32_t range, uint32_t plane, const uint64_t (*run)[2], size_t n)
{
    assert_true(block < MANY && !range && !plane && n == 1 && run[0][0] == block * 64 * 4 * STEPS &&
                run[0][1] == (block + 1) * 64 * 4 * STEPS);
    assert_int_equal(seen[block]++, 0); /* calls come one at a time */
}

static void blocks_on_many_threads(void **state)
{
    CUmodule m;
    CUfunction f;
    uint64_t base = 1 << 20;
    void *args[] = {&base};
    struct dovetail_touch_site s = {4, 1, 1};
    struct dovetail_touch_range x = {base, (uint64_t)MANY * 64 * 4 * STEPS, 1, 0};
    struct dovetail_recorder r = {
        .site = &s, .range = &x, .nsite = 1, .nrange = 1, .nplane = 1, .shift = 2, .touched = one_run};
    OK(F(cuModuleLoadData)(&m, many));
    OK(F(cuModuleGetFunction)(&f, m, "many"));
    OK(X(dovetailRecord)(&r));
    for (unsigned i = 0; i < 3; i++) {
        memset(seen, 0, sizeof seen);
        OK(X(dovetailSetSchedule)(i, 0));
        OK(F(cuLaunchKernel)(f, MANY, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
        OK(F(cuCtxSynchronize)());
        for (unsigned b = 0; b < MANY; b++)
            assert_int_equal(seen[b], 1);
    }
    OK(X(dovetailSetSchedule)(0, 0));
    OK(X(dovetailRecord)(NULL));
    OK(F(cuModuleUnload)(m));
}

static void all_at(uint64_t at, unsigned site)
{
    for (unsigned i = 0; i < LANES; i++)
        address[i] = at - OFFSET, which[i] = site + 1;
}

/* The first stray in the order of blocks ends the launch, and is told; the context lives on. */
static void strays(void **state)
{
    struct dovetail_recorder r = recorder(0);
    const struct {
        uint64_t at;
        unsigned site, how;
        bool stray;
    } c[] = {
        {0x0FFFFC, 2, DOVETAIL_TOUCH_RECORD, true}, /* before */
        {0x100000 + MOST, 0, DOVETAIL_TOUCH_RECORD, true},
        {0x100000 + MOST - 8, 4, DOVETAIL_TOUCH_RECORD, true}, /* over the end */
        {0x100000 + MOST - 8, 3, DOVETAIL_TOUCH_RECORD, false},
        {0x100002, 2, DOVETAIL_TOUCH_RECORD | DOVETAIL_TOUCH_ALIGNED, true},
        {0x0FFFFC, 2, DOVETAIL_TOUCH_BOUNDS, true},
        {0x300000, 2, DOVETAIL_TOUCH_BOUNDS, true}, /* written, and fixed */
        {0x300000, 3, DOVETAIL_TOUCH_BOUNDS, false},
        {0x300000, 2, DOVETAIL_TOUCH_RECORD, false}, /* not recorded */
        {UINT64_C(1) << 56, 2, DOVETAIL_TOUCH_RECORD, true},
        {UINT64_C(1) << 56, 2, DOVETAIL_TOUCH_RECORD | DOVETAIL_TOUCH_GENERIC, false}, /* shared, local, parameters */
        {UINT64_C(2) << 56, 2, DOVETAIL_TOUCH_BOUNDS | DOVETAIL_TOUCH_GENERIC, false},
        {UINT64_C(3) << 56, 2, DOVETAIL_TOUCH_RECORD | DOVETAIL_TOUCH_GENERIC, false},
        {8, 2, DOVETAIL_TOUCH_AHEAD, false},
    };
    for (unsigned i = 0; i < sizeof c / sizeof *c; i++) {
        unsigned thread = 3 * THREADS + 37; /* of block (0,1,0) */
        all_at(0x100000, 3);
        address[thread] = address[thread + THREADS] = c[i].at - OFFSET;
        which[thread] = which[thread + THREADS] = c[i].site + 1;
        OK(launch(c[i].how, &r, 1));
        if (r.stray.found != c[i].stray)
            fail_msg("case %u: %u", i, r.stray.found);
        if (!c[i].stray)
            continue;
        assert_int_equal(r.stray.block, 3);
        assert_int_equal(r.stray.thread[0], 37);
        assert_int_equal(r.stray.site, c[i].site);
        assert_true(r.stray.address == c[i].at);
    }
    all_at(0x100000, 3);
    OK(launch(0, &r, 1)); /* and no trace of them is left */
    assert_int_equal(r.stray.found, 0);
}

static void wrong_recorders(void **state)
{
    struct dovetail_recorder ok = recorder(2), r;
    struct dovetail_touch_site s = {4, 1, 0};
    struct dovetail_touch_range x = ranges[0];
#define WRONG(...)                                                                                                     \
    do {                                                                                                               \
        r = ok, s = (struct dovetail_touch_site){4, 1, 0}, x = ranges[0], r.site = &s, r.range = &x,                   \
        r.nsite = r.nrange = 1;                                                                                        \
        __VA_ARGS__;                                                                                                   \
        IS(X(dovetailRecord)(&r), CUDA_ERROR_INVALID_VALUE);                                                           \
    } while (0)
    WRONG(r.touched = NULL);
    WRONG(r.site = NULL);
    WRONG(r.range = NULL);
    WRONG(r.nplane = 33);
    WRONG(r.shift = 6);
    WRONG(s.bytes = 0);
    WRONG(s.bytes = 3);
    WRONG(s.bytes = 64);
    WRONG(s.bytes = 2); /* less than a granule */
    WRONG(s.planes = 8);
    WRONG(x.bytes = UINT64_MAX);
    OK(X(dovetailRecord)(&ok));
    OK(X(dovetailRecord)(NULL));
}

/* Calls that nothing records, of a site that there is not, or of another shape. */
static void misuse(void **state)
{
    struct dovetail_recorder r = recorder(0);
    static const char *const bad[] = {".reg .b64 %a; mov.u64 %a, 0; call __dovetail_touch, (%a, %a, 0, 0);",
                                      ".reg .b32 %a; mov.u32 %a, 0; call __dovetail_touch, (%a, 0, 0, 0);",
                                      "call __dovetail_touch, (4, 0, 0, 0);",
                                      ".reg .b64 %a; mov.u64 %a, 0; call __dovetail_touch, (%a, 0, 0, 256);"};
    CUmodule m;
    CUfunction f;
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s.visible .entry k()\n{\n%s ret;\n}\n", head, bad[i]);
        if (!F(cuModuleLoadData)(&m, text) && !F(cuModuleGetFunction)(&f, m, "k"))
            fail_msg("case %u is taken", i);
    }
    all_at(0x100000, 3);
    r.nsite = 3;
    assert_int_not_equal(launch(0, &r, 1), CUDA_SUCCESS);
    unload(NULL);
    load(NULL);
    assert_int_not_equal(launch(0, NULL, 1), CUDA_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest t[] = {cmocka_unit_test(any_shape), cmocka_unit_test(blocks_on_many_threads),
                                   cmocka_unit_test(strays), cmocka_unit_test(wrong_recorders),
                                   cmocka_unit_test(misuse)};
    return cmocka_run_group_tests(t, load, unload);
}
