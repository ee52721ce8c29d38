/* Copies of tensors on the software device, against loops over elements written from the PTX manual (§5.5): random
 * shapes, strides, boxes, coordinates on all sides of the tensor, element types, swizzles, fills, reductions; and the
 * requirements of tensor maps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ptx/tensormap.h"
#include "softgpu/sg.h"

enum { SHARED = 32 << 10, TENSOR = 1 << 18 };

static struct sg_device *dev;
static struct sg_module *mod;
static uint64_t tensor, dump;
static uint32_t state = 12345;

static uint32_t rnd(uint32_t n)
{
    state = state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(state >> 4) * n >> 28);
}

/* For each rank: a load, a store, and the reductions. `m` the map, `d` what shared memory is before and after. */
static char *text(void)
{
    static const char *const coord[] = {"%c0", "%c0, %c1", "%c0, %c1, %c2", "%c0, %c1, %c2, %c3",
                                        "%c0, %c1, %c2, %c3, %c4"};
    static const char *const op[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
    char *s = malloc(1 << 18);
    size_t n =
        (size_t)sprintf(s, ".version 8.3\n.target sm_90\n.address_size 64\n.extern .shared .align 1024 .b8 sh[];\n");
    for (int rank = 1; rank <= 5; rank++)
        for (int kind = 0; kind < 10; kind++) {
            n += (size_t)sprintf(
                s + n,
                ".visible .entry k%d_%d(.param .align 64 .b8 m[128], .param .u64 d, .param .u32 at, .param .u32 "
                "bytes,\n"
                ".param .u32 p0, .param .u32 p1, .param .u32 p2, .param .u32 p3, .param .u32 p4)\n{\n"
                ".reg .b64 %%m, %%d, %%e; .reg .b32 %%c<5>, %%r<8>; .reg .pred %%p; .shared .align 8 .b64 bar;\n"
                "mov.b64 %%m, m; cvta.param.u64 %%m, %%m; ld.param.u64 %%d, [d];\n"
                "ld.param.u32 %%c0, [p0]; ld.param.u32 %%c1, [p1]; ld.param.u32 %%c2, [p2]; ld.param.u32 %%c3, [p3]; "
                "ld.param.u32 %%c4, [p4];\n"
                "mov.u32 %%r0, %%tid.x; mov.u32 %%r1, sh; mov.u32 %%r2, %%r0;\n"
                "mbarrier.init.shared.b64 [bar], 1;\n"
                "FILL: mad.wide.u32 %%e, %%r2, 4, %%d; ld.global.u32 %%r3, [%%e]; mad.lo.u32 %%r4, %%r2, 4, %%r1; "
                "st.shared.u32 [%%r4], %%r3;\n"
                "add.u32 %%r2, %%r2, 32; setp.lt.u32 %%p, %%r2, %d; @%%p bra FILL;\n"
                "bar.sync 0; ld.param.u32 %%r2, [at]; add.u32 %%r1, %%r1, %%r2; setp.ne.u32 %%p, %%r0, 0; @%%p bra "
                "WAIT;\n",
                rank, kind, SHARED / 4);
            if (kind == 0)
                n +=
                    (size_t)sprintf(s + n,
                                    "ld.param.u32 %%r2, [bytes]; mbarrier.arrive.expect_tx.shared.b64 _, [bar], %%r2;\n"
                                    "cp.async.bulk.tensor.%dd.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                                    "[%%r1], [%%m, {%s}], [bar];\n",
                                    rank, coord[rank - 1]);
            else if (kind == 1)
                n += (size_t)sprintf(s + n,
                                     "cp.async.bulk.tensor.%dd.global.shared::cta.bulk_group [%%m, {%s}], [%%r1];\n",
                                     rank, coord[rank - 1]);
            else
                n += (size_t)sprintf(
                    s + n,
                    "cp.reduce.async.bulk.tensor.%dd.global.shared::cta.%s.tile.bulk_group [%%m, {%s}], [%%r1];\n",
                    rank, op[kind - 2], coord[rank - 1]);
            if (kind)
                n += (size_t)sprintf(s + n, "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; "
                                            "mbarrier.arrive.shared.b64 _, [bar];\n");
            n += (size_t)sprintf(s + n,
                                 "WAIT: mbarrier.try_wait.parity.shared.b64 %%p, [bar], 0; @!%%p bra WAIT;\n"
                                 "mov.u32 %%r1, sh; mov.u32 %%r2, %%r0;\n"
                                 "COPY: mad.lo.u32 %%r4, %%r2, 4, %%r1; ld.shared.u32 %%r3, [%%r4]; mad.wide.u32 %%e, "
                                 "%%r2, 4, %%d; st.global.u32 [%%e], %%r3;\n"
                                 "add.u32 %%r2, %%r2, 32; setp.lt.u32 %%p, %%r2, %d; @%%p bra COPY;\nret;\n}\n",
                                 SHARED / 4);
        }
    return s;
}

struct param {
    uint8_t map[128];
    uint64_t d;
    uint32_t at, bytes;
    int32_t coord[5];
};

static int run(unsigned rank, unsigned kind, struct param *p, struct sg_fault *f)
{
    char name[16];
    snprintf(name, sizeof name, "k%u_%u", rank, kind);
    struct sg_launch l = {.kernel = sg_module_kernel(mod, name),
                          .grid = {1, 1, 1},
                          .block = {32, 1, 1},
                          .shared_dynamic = SHARED,
                          .params = (uint8_t *)p,
                          .max_instructions = 2000000};
    assert_non_null(l.kernel);
    return sg_execute(dev, &l, NULL, f);
}

static const unsigned size_of[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

/* Where the manual's figures put byte `a` of shared memory: chunks change places within lines of 128 bytes. */
static uint32_t place(const struct ptx_tensormap *m, uint32_t a)
{
    uint32_t line = a / 128, chunk;
    if (!m->swizzle)
        return a;
    switch (m->atom) {
    case PTX_TM_ATOM_16B: {
        uint32_t chunks = m->swizzle == PTX_TM_SWIZZLE_32B   ? 2
                          : m->swizzle == PTX_TM_SWIZZLE_64B ? 4
                                                             : 8,
                 span = chunks * 16;
        chunk = a % span / 16;
        return a / span * span + (chunk ^ line % chunks) * 16 + a % 16;
    }
    case PTX_TM_ATOM_64B: chunk = a % 128 / 64; return line * 128 + (chunk ^ line % 2) * 64 + a % 64;
    default: {
        chunk = a % 128 / 32;
        uint32_t half = a % 16 / 8;
        if (m->atom == PTX_TM_ATOM_32B_FLIP_8B && line % 2)
            half = 1 - half;
        return line * 128 + (chunk ^ line % 4) * 32 + a % 32 / 16 * 16 + half * 8 + a % 8;
    }
    }
}

static struct ptx_tensormap random_map(void)
{
    struct ptx_tensormap m;
    do {
        m = (struct ptx_tensormap){.address = tensor + 16 * rnd(64),
                                   .rank = (uint8_t)(1 + rnd(5)),
                                   .type = (uint8_t)rnd(13),
                                   .fill = (uint8_t)rnd(2)};
        unsigned size = size_of[m.type];
        m.swizzle = (uint8_t)rnd(4);
        m.atom = m.swizzle == PTX_TM_SWIZZLE_128B ? (uint8_t)rnd(4) : 0;
        uint64_t bytes = 0;
        for (unsigned i = 0; i < 5; i++) {
            bool in = i < m.rank;
            m.dim[i] = in ? 1 + rnd(i ? 6 : 70) : 1;
            m.box[i] = in ? 1 + rnd(i ? 5 : 0) : 1;
            m.step[i] = in && i && !rnd(4) ? 1 + rnd(3) : 1;
            if (i == 0) {
                m.box[0] = 16 / size * (1 + rnd(m.swizzle ? 1u << m.swizzle : 10));
                bytes = (m.dim[0] * size + 15) / 16 * 16 + 16 * rnd(2);
            } else if (in) {
                m.stride[i] = bytes;
                bytes = (bytes * m.dim[i] + 15) / 16 * 16 + 16 * rnd(3);
            }
        }
        if (bytes > TENSOR / 2)
            continue;
    } while (ptx_tensormap_check(&m));
    return m;
}

/* fn(user, offset in the tensor's memory or -1, offset in shared memory) for each element of the box. */
static void each(const struct ptx_tensormap *m, const int32_t coord[5], uint32_t at,
                 void (*fn)(void *, int64_t, uint32_t), void *user)
{
    unsigned size = size_of[m->type], n[5], row = m->box[0] * size,
             pitch = m->swizzle && row < 16u << m->swizzle ? 16u << m->swizzle : row;
    for (int i = 0; i < 5; i++)
        n[i] = (m->box[i] + m->step[i] - 1) / m->step[i];
    uint32_t index = 0;
    for (unsigned a = 0; a < n[4]; a++)
        for (unsigned b = 0; b < n[3]; b++)
            for (unsigned c = 0; c < n[2]; c++)
                for (unsigned d = 0; d < n[1]; d++, index++)
                    for (unsigned e = 0; e < n[0]; e++) {
                        int64_t pos[5] = {coord[0] + (int64_t)e, coord[1] + (int64_t)d * m->step[1],
                                          coord[2] + (int64_t)c * m->step[2], coord[3] + (int64_t)b * m->step[3],
                                          coord[4] + (int64_t)a * m->step[4]};
                        int64_t off = pos[0] * size;
                        bool in = true;
                        for (int i = 0; i < 5; i++) {
                            in = in && (i >= m->rank || (pos[i] >= 0 && (uint64_t)pos[i] < m->dim[i]));
                            off += i && i < m->rank ? pos[i] * (int64_t)m->stride[i] : 0;
                        }
                        fn(user, in ? off : -1, place(m, at + index * pitch + e * size));
                    }
}

struct want {
    const struct ptx_tensormap *m;
    uint8_t *shared, *global; /* what they should hold */
    unsigned kind;
};

static void want_load(void *user, int64_t off, uint32_t sh)
{
    struct want *w = user;
    unsigned size = size_of[w->m->type];
    uint8_t *to = w->shared + sh;
    if (off < 0) {
        for (unsigned k = 0; k < size; k++)
            to[k] = w->m->fill ? (k % 2 ? 0x7F : 0xF7) : 0;
        return;
    }
    memcpy(to, w->global + off, size);
    if (w->m->type == PTX_TM_TF32 || w->m->type == PTX_TM_TF32_FTZ) {
        uint32_t v, low;
        memcpy(&v, to, 4);
        low = v & 0x1FFF;
        if ((v >> 23 & 0xFF) == 255)
            v = v & 0x7FFFFF ? 0x7FFFE000 : v;
        else
            v = low >= 0x1000 ? v - low + 0x2000 : v - low;
        memcpy(to, &v, 4);
    }
}

static void want_store(void *user, int64_t off, uint32_t sh)
{
    struct want *w = user;
    if (off >= 0)
        memcpy(w->global + off, w->shared + sh, size_of[w->m->type]);
}

static void loads_and_stores(void **state_)
{
    static uint8_t before[SHARED], shared[SHARED], memory[TENSOR];
    for (int i = 0; i < 400; i++) {
        struct ptx_tensormap m = random_map();
        struct param p = {.d = dump, .at = 128 * rnd(64)};
        struct sg_fault f;
        bool store = i % 3 == 2;
        if (store && m.atom == PTX_TM_ATOM_32B_FLIP_8B)
            m.atom = 0;
        for (int k = 0; k < 5; k++)
            p.coord[k] = (int32_t)rnd((uint32_t)m.dim[k] + 6) - 4;
        ptx_tensormap_encode(&m, p.map);
        p.bytes = 0;
        for (unsigned k = 0, n = size_of[m.type]; k < 1; k++) {
            for (int d = 0; d < 5; d++)
                n *= (m.box[d] + m.step[d] - 1) / m.step[d];
            p.bytes = n;
        }
        for (unsigned k = 0; k < TENSOR; k++)
            ((uint8_t *)(uintptr_t)tensor)[k] = memory[k] = (uint8_t)(k * 31 + k / 256 * 7 + (unsigned)i);
        for (unsigned k = 0; k < SHARED; k++)
            before[k] = (uint8_t)(k * 13 + k / 128 + 1);
        memcpy((void *)(uintptr_t)dump, before, SHARED);
        memcpy(shared, before, SHARED);
        struct want w = {&m, shared, memory + (m.address - tensor), 0};
        each(&m, p.coord, p.at, store ? want_store : want_load, &w);
        if (run(m.rank, store, &p, &f) < 0)
            fail_msg("%d: %s", i, f.text);
        if (memcmp((void *)(uintptr_t)dump, shared, SHARED) || memcmp((void *)(uintptr_t)tensor, memory, TENSOR))
            fail_msg("%d: rank %u type %u swizzle %u atom %u differs", i, m.rank, m.type, m.swizzle, m.atom);
    }
}

/* Each operation on each type that has it, against plain C; every other pair is refused. */
static void want_reduce(void *user, int64_t off, uint32_t sh)
{
    struct want *w = user;
    if (off < 0)
        return;
    unsigned size = size_of[w->m->type], t = w->m->type;
    uint8_t *g = w->global + off;
    uint64_t a = 0, b = 0, r = 0;
    memcpy(&a, g, size);
    memcpy(&b, w->shared + sh, size);
    int64_t sa = size == 4 ? (int32_t)a : (int64_t)a, sb = size == 4 ? (int32_t)b : (int64_t)b;
    bool sign = t == PTX_TM_S32 || t == PTX_TM_S64, less = sign ? sa < sb : a < b;
    switch (w->kind) {
    case 0:
        if (t == PTX_TM_F32 || t >= PTX_TM_F32_FTZ) { /* values are chosen so that everything is exact */
            float x, y;
            memcpy(&x, &a, 4);
            memcpy(&y, &b, 4);
            x += y;
            memcpy(&r, &x, 4);
        } else if (t == PTX_TM_F16) {
            _Float16 x, y;
            memcpy(&x, &a, 2);
            memcpy(&y, &b, 2);
            x = (_Float16)((float)x + (float)y);
            memcpy(&r, &x, 2);
        } else if (t == PTX_TM_BF16) {
            uint32_t x = (uint32_t)a << 16, y = (uint32_t)b << 16;
            float fx, fy;
            memcpy(&fx, &x, 4);
            memcpy(&fy, &y, 4);
            fx += fy;
            memcpy(&x, &fx, 4);
            r = x >> 16;
        } else {
            r = a + b;
        }
        break;
    case 1:
    case 2:
        if (t == PTX_TM_F16 || t == PTX_TM_BF16) { /* positive, or equal: bits compare as values */
            bool na = a >> 15, nb = b >> 15;
            less = na != nb ? na : na ? a > b : a < b;
        }
        r = (w->kind == 1) == less ? a : b;
        break;
    case 3: r = a >= b ? 0 : a + 1; break;
    case 4: r = !a || a > b ? b : a - 1; break;
    case 5: r = a & b; break;
    case 6: r = a | b; break;
    default: r = a ^ b;
    }
    memcpy(g, &r, size);
}

static bool has(unsigned kind, unsigned t)
{
    switch (kind) {
    case 0:
        return t == PTX_TM_U32 || t == PTX_TM_S32 || t == PTX_TM_U64 || t == PTX_TM_F16 || t == PTX_TM_BF16 ||
               t == PTX_TM_F32 || t >= PTX_TM_F32_FTZ;
    case 1:
    case 2: return (t >= PTX_TM_U32 && t <= PTX_TM_F16) || t == PTX_TM_BF16;
    case 3:
    case 4: return t == PTX_TM_U32;
    default: return t >= PTX_TM_U32 && t <= PTX_TM_S64;
    }
}

static void reductions(void **state_)
{
    /* 1 -1 3 0 10 -100 */
    static const uint32_t f32[] = {0x3F800000, 0xBF800000, 0x40400000, 0, 0x41200000, 0xC2C80000};
    static const uint16_t f16[] = {0x3C00, 0xBC00, 0x4200, 0, 0x4900, 0xD640},
                          bf16[] = {0x3F80, 0xBF80, 0x4040, 0, 0x4120, 0xC2C8};
    static uint8_t shared[SHARED], memory[4096];
    for (unsigned kind = 0; kind < 8; kind++)
        for (unsigned t = 0; t < 13; t++) {
            unsigned size = size_of[t];
            struct ptx_tensormap m = {.address = tensor,
                                      .rank = 2,
                                      .type = (uint8_t)t,
                                      .dim = {20, 5, 1, 1, 1},
                                      .stride = {0, 192},
                                      .box = {16 / size * 2, 4, 1, 1, 1},
                                      .step = {1, 1, 1, 1, 1},
                                      .swizzle = PTX_TM_SWIZZLE_32B};
            struct param p = {.d = dump, .at = 256, .coord = {-1, 2}};
            struct sg_fault f;
            assert_null(ptx_tensormap_check(&m));
            ptx_tensormap_encode(&m, p.map);
            for (unsigned k = 0; k < SHARED; k++)
                shared[k] = (uint8_t)rnd(256);
            for (unsigned k = 0; k < sizeof memory; k++)
                memory[k] = (uint8_t)rnd(256);
            for (unsigned k = 0;
                 k < SHARED / size && (t == PTX_TM_F16 || t == PTX_TM_BF16 || t == PTX_TM_F32 || t >= PTX_TM_F32_FTZ);
                 k++) {
                uint32_t v = size == 4         ? f32[rnd(6)]
                             : t == PTX_TM_F16 ? f16[rnd(6)]
                                               : bf16[rnd(6)],
                         u = size == 4         ? f32[rnd(6)]
                             : t == PTX_TM_F16 ? f16[rnd(6)]
                                               : bf16[rnd(6)];
                memcpy(shared + k * size, &v, size);
                if ((k + 1) * size <= sizeof memory)
                    memcpy(memory + k * size, &u, size);
            }
            memcpy((void *)(uintptr_t)dump, shared, SHARED);
            memcpy((void *)(uintptr_t)tensor, memory, sizeof memory);
            struct want w = {&m, shared, memory, kind};
            if (has(kind, t))
                each(&m, p.coord, p.at, want_reduce, &w);
            int r = run(2, 2 + kind, &p, &f);
            assert_int_equal(r, has(kind, t) ? 0 : DT_E_TRAP);
            if (memcmp((void *)(uintptr_t)tensor, memory, sizeof memory))
                fail_msg("operation %u of type %u", kind, t);
        }
}

/* 16 packed elements are 8 or 12 bytes of global memory, and 8 or 16 of shared memory. */
static void packed(void **state_)
{
    static const unsigned global[] = {8, 8, 12}, shared[] = {8, 16, 16};
    for (unsigned t = 0; t < 3; t++)
        for (unsigned swizzle = 0; swizzle < 2; swizzle++) {
            struct ptx_tensormap m = {.address = tensor,
                                      .rank = 2,
                                      .type = (uint8_t)(PTX_TM_B4 + t),
                                      .dim = {256, 6, 1, 1, 1},
                                      .stride = {0, 256},
                                      .box = {128, 8, 1, 1, 1},
                                      .step = {1, 1, 1, 1, 1},
                                      .swizzle = swizzle ? PTX_TM_SWIZZLE_128B : 0};
            struct param p = {.d = dump, .at = 1024, .coord = {128, -1}, .bytes = 8 * 8 * shared[t]};
            struct sg_fault f;
            uint8_t *g = (uint8_t *)(uintptr_t)tensor, *s = (uint8_t *)(uintptr_t)dump;
            assert_null(ptx_tensormap_check(&m));
            ptx_tensormap_encode(&m, p.map);
            for (unsigned k = 0; k < 2048; k++)
                g[k] = (uint8_t)(k * 7 + k / 256);
            memset(s, 0x55, SHARED);
            if (run(2, 0, &p, &f) < 0)
                fail_msg("%s", f.text);
            for (unsigned r = 0; r < 8; r++)
                for (unsigned u = 0; u < 8; u++)
                    for (unsigned b = 0; b < global[t]; b++) {
                        unsigned row = r - 1, pitch = swizzle ? 128 : 8 * shared[t],
                                 at = place(&m, 1024 + r * pitch + u * shared[t] + b);
                        bool in = r >= 1 && row < 6;
                        assert_int_equal(s[at], in ? g[row * 256 + 8 * global[t] + u * global[t] + b] : 0);
                    }
            p.coord[0] = 64 + 8;
            assert_int_equal(run(2, 0, &p, &f), DT_E_TRAP);
            p.coord[0] = 128;
            memset(g, 0, 2048); /* and back */
            if (t == 1) {
                assert_int_equal(run(2, 1, &p, &f), DT_E_TRAP);
                continue;
            }
            assert_int_equal(run(2, 1, &p, &f), 0);
            for (unsigned k = 0; k < 2048; k++) {
                bool in = k < 1536 && k % 256 >= 8 * global[t] && k % 256 < 16 * global[t];
                assert_int_equal(g[k], in ? (uint8_t)(k * 7 + k / 256) : 0);
            }
        }
}

static void refused(void **state_)
{
    const struct ptx_tensormap good = {.address = tensor,
                                       .rank = 3,
                                       .type = PTX_TM_F16,
                                       .dim = {64, 8, 2, 1, 1},
                                       .stride = {0, 128, 1024},
                                       .box = {64, 4, 1, 1, 1},
                                       .step = {1, 1, 1, 1, 1},
                                       .swizzle = PTX_TM_SWIZZLE_128B};
    struct ptx_tensormap back, m = good;
    uint8_t raw[128];
    assert_null(ptx_tensormap_check(&m));
    ptx_tensormap_encode(&m, raw);
    assert_true(ptx_tensormap_decode(raw, &back));
    assert_memory_equal(&back.dim, &m.dim, sizeof m.dim);
    assert_memory_equal(&back.box, &m.box, sizeof m.box);
    assert_int_equal(back.stride[2], 1024);
    assert_int_equal(back.address, tensor);
#define BAD(change)                                                                                                    \
    m = good;                                                                                                          \
    change;                                                                                                            \
    assert_non_null(ptx_tensormap_check(&m))
    BAD(m.rank = 0);
    BAD(m.rank = 6);
    BAD(m.type = 16);
    BAD(m.address += 8);
    BAD(m.address = 0);
    BAD(m.dim[1] = 0);
    BAD(m.dim[1] = (UINT64_C(1) << 32) + 1);
    BAD(m.stride[1] = 136);
    BAD(m.stride[2] = UINT64_C(1) << 40);
    BAD(m.box[0] = 0);
    BAD(m.box[1] = 257);
    BAD(m.box[0] = 60);
    BAD(m.box[0] = 72);
    BAD(m.step[1] = 0);
    BAD(m.step[1] = 9);
    BAD(m.swizzle = PTX_TM_SWIZZLE_64B);
    BAD(m.swizzle = 4);
    BAD(m.atom = 4);
    BAD(m.swizzle = PTX_TM_SWIZZLE_32B; m.atom = PTX_TM_ATOM_32B; m.box[0] = 8);
    BAD(m.interleave = 3);
    BAD(m.interleave = 1; m.rank = 2);
    BAD(m.interleave = 2);
    BAD(m.l2 = 4);
    BAD(m.fill = 2);
    BAD(m.fill = 1; m.type = PTX_TM_U16);
    BAD(m.type = PTX_TM_B4_P64);
    BAD(m.type = PTX_TM_B4; m.dim[0] = 63);
    BAD(m.type = PTX_TM_B4; m.fill = 1);
    BAD(m.type = PTX_TM_B6_P32; m.dim[0] = 128; m.box[0] = 128; m.swizzle = PTX_TM_SWIZZLE_64B);
    m = good;
    m.interleave = 2;
    m.swizzle = PTX_TM_SWIZZLE_32B;
    assert_null(ptx_tensormap_check(&m));

    struct param p = {.d = dump, .bytes = 512};
    struct sg_fault f;
    ptx_tensormap_encode(&m, p.map);
    assert_int_equal(run(3, 0, &p, &f), DT_E_TRAP); /* interleaved: not run */
    assert_non_null(strstr(f.text, "interleaved"));
    ptx_tensormap_encode(&good, p.map);
    assert_int_equal(run(3, 0, &p, &f), 0);
    assert_int_equal(run(2, 0, &p, &f), DT_E_TRAP);
    assert_non_null(strstr(f.text, "3 dimensions"));
    p.at = 64;
    assert_int_equal(run(3, 0, &p, &f), DT_E_BOUNDS);
    assert_non_null(strstr(f.text, "misaligned"));
    p.at = SHARED;
    assert_int_equal(run(3, 0, &p, &f), DT_E_BOUNDS);
    p.at = 0;
    p.bytes = 511; /* the box has 512 */
    assert_int_equal(run(3, 0, &p, &f), DT_E_TIMEOUT);
    m = good;
    m.dim[2] = 2000; /* past the allocation */
    ptx_tensormap_encode(&m, p.map);
    p.coord[2] = TENSOR / 1024; /* its first byte is behind the allocation */
    assert_int_equal(run(3, 0, &p, &f), DT_E_BOUNDS);
    assert_int_equal(run(3, 1, &p, &f), DT_E_BOUNDS);
    m = good;
    m.box[0] = 256, m.box[1] = 256, m.swizzle = 0;
    ptx_tensormap_encode(&m, p.map);
    assert_int_equal(run(3, 0, &p, &f), DT_E_BOUNDS);
    assert_non_null(strstr(f.text, "a box of"));
    memset(p.map, 0, sizeof p.map);
    assert_int_equal(run(3, 0, &p, &f), DT_E_TRAP);
    assert_non_null(strstr(f.text, "no tensor map"));
    for (int i = 0; i < 300; i++) { /* any 128 bytes: a fault or a copy, never more */
        ptx_tensormap_encode(&good, p.map);
        for (unsigned k = 0, n = 1 + rnd(4); k < n; k++) {
            unsigned at = rnd(124);
            p.map[at < 28 ? at : at + 4] = (uint8_t)rnd(256);
        }
        p.coord[0] = (int32_t)rnd(200) - 100;
        (void)run(3, rnd(2), &p, &f);
    }
}

int main(void)
{
    struct dt_err e = {0};
    char *s = text();
    if (sg_device_new(sg_model_find(NULL), &dev) < 0 || sg_mem_alloc(dev, TENSOR, &tensor) < 0 ||
        sg_mem_alloc(dev, SHARED, &dump) < 0 || sg_module_load(dev, s, strlen(s), &mod, &e) < 0) {
        printf("%s\n", e.detail ? e.detail : "no device");
        return 1;
    }
    free(s);
    const struct CMUnitTest tests[] = {cmocka_unit_test(loads_and_stores), cmocka_unit_test(reductions),
                                       cmocka_unit_test(packed), cmocka_unit_test(refused)};
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    sg_module_free(mod);
    sg_device_free(dev);
    return r;
}
