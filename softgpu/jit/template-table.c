/* Constants that template code reads, at the offsets of template-priv.h. */
#include "softgpu/jit/template-priv.h"

#define R4(s, l) (l) * (s), ((l) + 1) * (s), ((l) + 2) * (s), ((l) + 3) * (s)
#define R16(s, l) R4(s, l), R4(s, (l) + 4), R4(s, (l) + 8), R4(s, (l) + 12)
#define N4(s, e, l) (l) * (s) + (e), ((l) + 1) * (s) + (e), ((l) + 2) * (s) + (e), ((l) + 3) * (s) + (e)
#define N16(s, e) N4(s, e, 0), N4(s, e, 4), N4(s, e, 8), N4(s, e, 12)
#define N8(s, e) N4(s, e, 0), N4(s, e, 4)
#define R32(s) R16(s, 0), R16(s, 16)

_Alignas(64) const struct sg_template_table sg_template_table = {
    .nan32 = 0x7FFFFFFF,
    .sign = 0x80000000,
    .magnitude = 0x7FFFFFFF,
    .exponent = 0x7F800000,
    .low16 = 0xFFFF,
    .low8 = 0xFF,
    .one_f = 0x3F800000,
    .large_f = 0x7E800000,
    .magnitude16 = 0x7FFF7FFF,
    .sign16 = 0x80008000,
    .inf_f16 = 0x7C007C00,
    .inf_bf16 = 0x7F807F80,
    .high16 = 0xFFFF0000,
    .one = 1,
    .below_half = 0x7FFF,
    .nan_bf16 = 0x7FFF0000,
    .limit_f = 0x4F000000,
    .limit_s = 0x7FFFFFFF,
    .far = ~60u,
    .three = 3,
    .low5 = 31,
    .bits32 = 32,
    .lane = {R32(1)},
    .far64 = ~60ull,
    .high64 = 0xFFFFFFFF00000000u,
    .nan64 = 0xFFF8000000000000u,
    .sign64 = 1ull << 63,
    .magnitude64 = ~(1ull << 63),
    .one_d = 0x3FF0000000000000u,
    .most_s = 0x41DFFFFFFFC00000u,
    .top_bit = 0x41E0000000000000u,
    .ramp = {{R16(4, 0)}, {R16(8, 0)}, {R16(16, 0)}},
    .wide_ramp = {{R32(4ull)}, {R32(8ull)}, {R32(16ull)}},
    .take2 = {{N16(2, 0)}, {N16(2, 1)}},
    .take4 = {{N8(4, 0), N8(4, 1)}, {N8(4, 2), N8(4, 3)}},
};
