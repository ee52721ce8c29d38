/* Pieces of template-plain.c by hand: functions that may use general registers alone, as gcc sees them, use a few
 * vector registers between the lines. zmm28 to zmm30 and the masks are free there (template-priv.h); zmm26 and zmm27
 * are put by and come back.
 */
#ifndef DT_SOFTGPU_JIT_TEMPLATE_PLAIN_H
#define DT_SOFTGPU_JIT_TEMPLATE_PLAIN_H

#include "softgpu/exec/exec.h"

struct sg_plain_bounds {
    uint64_t more, from, limit, base, low, top; /* at + more is from `from` to `from + limit`, without the bits `low` */
};

#if defined __x86_64__ && !defined __clang__
#define KEEP "vmovdqu64 %%zmm26, %[keep26]\n\tvmovdqu64 %%zmm27, %[keep27]\n\t"
#define GIVE "vmovdqu64 %[keep26], %%zmm26\n\tvmovdqu64 %[keep27], %%zmm27\n\t"
/* Two operands: a number in front of one would stand in front of its own offset, as in 648(%rsp). */
#define KEPT [keep26] "=&m"(keep.zmm26), [keep27] "=&m"(keep.zmm27)
struct sg_plain_keep {
    struct {
        uint8_t byte[64];
    } zmm26, zmm27;
};

/* Addresses of the lanes of `m`, with `base` added, in at[]; true: one is misaligned or out of bounds. x - from, and
 * limit less that, have no sign where x is within. */
SG_GENERAL_INLINE bool sg_plain_stray(const void *row, bool wide, uint32_t m, const struct sg_plain_bounds *b,
                                      uint64_t at[SG_LANES])
{
    struct sg_plain_keep keep;
    bool out;
    /* zmm26: those that are out; zmm27: bits of addresses */
#define LOOK8(p)                                                                                                       \
    "vpsubq 8(%[b])%{1to8%}, %%zmm28, %%zmm29\n\t"                                                                     \
    "vpaddq 24(%[b])%{1to8%}, %%zmm28, %%zmm30\n\t"                                                                    \
    "vmovdqu64 %%zmm30, 64*" #p "(%[at])\n\t"                                                                          \
    "vpbroadcastq 16(%[b]), %%zmm30\n\t"                                                                               \
    "vpsubq %%zmm29, %%zmm30, %%zmm30\n\t"                                                                             \
    "kshiftrd $8*" #p ", %%k1, %%k2\n\t"                                                                               \
    "vporq %%zmm28, %%zmm27, %%zmm27%{%%k2%}\n\t"                                                                      \
    "vpternlogq $0xFE, %%zmm29, %%zmm30, %%zmm26%{%%k2%}\n\t"
#define LOOK64(p) "vmovdqu64 64*" #p "(%[row]), %%zmm28\n\tvpaddq (%[b])%{1to8%}, %%zmm28, %%zmm28\n\t" LOOK8(p)
#define LOOK32(p)                                                                                                      \
    "vmovdqu32 32*" #p "(%[row]), %%ymm28\n\tvpaddd (%[b])%{1to8%}, %%ymm28, %%ymm28\n\t"                              \
    "vpmovzxdq %%ymm28, %%zmm28\n\t" LOOK8(p)
#define LOOK_AT(EIGHT)                                                                                                 \
    __asm__ volatile(KEEP "kmovd %[m], %%k1\n\t"                                                                       \
                          "vpxorq %%zmm26, %%zmm26, %%zmm26\n\tvpxorq %%zmm27, %%zmm27, %%zmm27\n\t" EIGHT(0) EIGHT(1) \
                              EIGHT(2) EIGHT(3) "vptestmq 40(%[b])%{1to8%}, %%zmm26, %%k2\n\t"                         \
                                                "vptestmq 32(%[b])%{1to8%}, %%zmm27, %%k3\n\t"                         \
                                                "kortestw %%k2, %%k3\n\tsetne %[out]\n\t" GIVE                         \
                     : [out] "=&q"(out), KEPT                                                                          \
                     : [row] "r"(row), [b] "r"(b), [at] "r"(at), [m] "r"(m)                                            \
                     : "memory", "cc")
    if (wide)
        LOOK_AT(LOOK64);
    else
        LOOK_AT(LOOK32);
    return out;
#undef LOOK_AT
#undef LOOK32
#undef LOOK64
#undef LOOK8
}

/* 16 bytes a lane as four rows. A vector has the lanes j, 4 + j, 8 + j, 12 + j of half of the warp; then rows and
 * columns of four change places. */
SG_GENERAL_INLINE void sg_plain_load4(const uint64_t at[SG_LANES], uint32_t *const d[4])
{
    struct sg_plain_keep keep;
    uint64_t r;
#define ONE(h, j, b, z)                                                                                                \
    "movq 128*" #h "+8*" #j "+32*" #b "(%[at]), %[r]\n\tvinserti32x4 $" #b ", (%[r]), %%" z ", %%" z "\n\t"
#define FOUR(h, j, x, z)                                                                                               \
    "movq 128*" #h "+8*" #j "(%[at]), %[r]\n\tvmovdqu32 (%[r]), %%" x "\n\t" ONE(h, j, 1, z) ONE(h, j, 2, z)           \
        ONE(h, j, 3, z)
#define ROW4(h, e, z) "movq 8*" #e "(%[d]), %[r]\n\tvmovdqu32 %%" z ", 64*" #h "(%[r])\n\t"
#define HALF(h)                                                                                                        \
    FOUR(h, 0, "xmm28", "zmm28")                                                                                       \
    FOUR(h, 1, "xmm29", "zmm29")                                                                                       \
    FOUR(h, 2, "xmm30", "zmm30")                                                                                       \
    FOUR(h, 3, "xmm27", "zmm27")                                                                                       \
    "vunpcklps %%zmm29, %%zmm28, %%zmm26\n\t"                                                                          \
    "vunpckhps %%zmm29, %%zmm28, %%zmm28\n\t"                                                                          \
    "vunpcklps %%zmm27, %%zmm30, %%zmm29\n\t"                                                                          \
    "vunpckhps %%zmm27, %%zmm30, %%zmm30\n\t"                                                                          \
    "vunpcklpd %%zmm29, %%zmm26, %%zmm27\n\t"                                                                          \
    "vunpckhpd %%zmm29, %%zmm26, %%zmm26\n\t"                                                                          \
    "vunpcklpd %%zmm30, %%zmm28, %%zmm29\n\t"                                                                          \
    "vunpckhpd %%zmm30, %%zmm28, %%zmm28\n\t" ROW4(h, 0, "zmm27") ROW4(h, 1, "zmm26") ROW4(h, 2, "zmm29")              \
        ROW4(h, 3, "zmm28")
    __asm__ volatile(KEEP HALF(0) HALF(1) GIVE : [r] "=&r"(r), KEPT : [at] "r"(at), [d] "r"(d) : "memory");
#undef HALF
#undef ROW4
#undef FOUR
#undef ONE
}

/* The other way round; lanes in ascending order. */
SG_GENERAL_INLINE void sg_plain_store4(const uint64_t at[SG_LANES], const uint32_t *const v[4])
{
    struct sg_plain_keep keep;
    uint64_t r;
#define ROW4(h, e, z) "movq 8*" #e "(%[v]), %[r]\n\tvmovdqu32 64*" #h "(%[r]), %%" z "\n\t"
#define ONE(h, b, j, z) "movq 128*" #h "+32*" #b "+8*" #j "(%[at]), %[r]\n\tvextracti32x4 $" #b ", %%" z ", (%[r])\n\t"
#define FOUR(h, b) ONE(h, b, 0, "zmm27") ONE(h, b, 1, "zmm26") ONE(h, b, 2, "zmm29") ONE(h, b, 3, "zmm28")
#define HALF(h)                                                                                                        \
    ROW4(h, 0, "zmm28")                                                                                                \
    ROW4(h, 1, "zmm29")                                                                                                \
    ROW4(h, 2, "zmm30")                                                                                                \
    ROW4(h, 3, "zmm27")                                                                                                \
    "vunpcklps %%zmm29, %%zmm28, %%zmm26\n\t"                                                                          \
    "vunpckhps %%zmm29, %%zmm28, %%zmm28\n\t"                                                                          \
    "vunpcklps %%zmm27, %%zmm30, %%zmm29\n\t"                                                                          \
    "vunpckhps %%zmm27, %%zmm30, %%zmm30\n\t"                                                                          \
    "vunpcklpd %%zmm29, %%zmm26, %%zmm27\n\t"                                                                          \
    "vunpckhpd %%zmm29, %%zmm26, %%zmm26\n\t"                                                                          \
    "vunpcklpd %%zmm30, %%zmm28, %%zmm29\n\t"                                                                          \
    "vunpckhpd %%zmm30, %%zmm28, %%zmm28\n\t" FOUR(h, 0) FOUR(h, 1) FOUR(h, 2) FOUR(h, 3)
    __asm__ volatile(KEEP HALF(0) HALF(1) GIVE : [r] "=&r"(r), KEPT : [at] "r"(at), [v] "r"(v) : "memory");
#undef HALF
#undef FOUR
#undef ONE
#undef ROW4
}
#undef KEEP
#undef GIVE
#undef KEPT
#else /* there are no templates (template.c) */
static inline bool sg_plain_stray(const void *row, bool wide, uint32_t m, const struct sg_plain_bounds *b,
                                  uint64_t at[SG_LANES])
{
    (void)row, (void)wide, (void)m, (void)b, (void)at;
    return true;
}
static inline void sg_plain_load4(const uint64_t at[SG_LANES], uint32_t *const d[4]) { (void)at, (void)d; }
static inline void sg_plain_store4(const uint64_t at[SG_LANES], const uint32_t *const v[4]) { (void)at, (void)v; }
#endif

#endif
