/* Replacements for headers of the host's C and C++ libraries, for NVRTC, which has none of them. Sources that strangers
 * post include <math.h> or <cstdint> for what is built in or is in libcu++ (cuda/std/…, a part of the toolkit). These
 * headers are handed to the compiler in memory, before any folder is searched. nvcc compiles the same kernels with the
 * host's own headers; here every name means what it means on the device.
 *
 *   <math.h> <stdio.h> <stdlib.h> <string.h> <assert.h> …  functions are NVRTC's own; constants that it lacks are
 *                                                          defined
 *   <cmath> <type_traits> <algorithm> …                    libcu++'s, and its names in std
 *   <cub/cub.cuh>                                          what works within a block and a warp; DeviceReduce and its
 *                                                          like are the host's
 *   <cuda.h>                                               CUtensorMap, for kernels that take one; the driver's
 *                                                          functions are the host's
 *
 * Not here: what only the host can do (<iostream>, <vector>, <string>, <chrono> of its clocks, <thread>). A source that
 * needs these is for nvcc, and its PTX can be posted.
 */
#pragma once

#define STD(name)                                                                                                      \
    {                                                                                                                  \
        name, "#pragma once\n#include <cuda/std/" name ">\nnamespace std { using namespace cuda::std; }\n"             \
    }
#define STD_C(name, from)                                                                                              \
    {                                                                                                                  \
        name, "#pragma once\n#include <cuda/std/" from ">\n"                                                           \
    }
#define CUB(level, what) "#include <cub/" level "/" level "_" what ".cuh>\n"
#define FLOAT_H                                                                                                        \
    "#pragma once\n"                                                                                                   \
    "#define FLT_RADIX 2\n#define FLT_MANT_DIG 24\n#define FLT_DIG 6\n#define FLT_MIN_EXP (-125)\n#define "            \
    "FLT_MAX_EXP 128\n"                                                                                                \
    "#define FLT_MIN_10_EXP (-37)\n#define FLT_MAX_10_EXP 38\n#define FLT_MAX 3.40282346638528859812e+38F\n"           \
    "#define FLT_MIN 1.17549435082228750797e-38F\n#define FLT_EPSILON 1.1920928955078125e-7F\n#define FLT_TRUE_MIN "   \
    "1.40129846432481707092e-45F\n"                                                                                    \
    "#define DBL_MANT_DIG 53\n#define DBL_DIG 15\n#define DBL_MIN_EXP (-1021)\n#define DBL_MAX_EXP 1024\n#define "     \
    "DBL_MIN_10_EXP (-307)\n"                                                                                          \
    "#define DBL_MAX_10_EXP 308\n#define DBL_MAX 1.79769313486231570815e+308\n#define DBL_MIN "                        \
    "2.22507385850720138309e-308\n"                                                                                    \
    "#define DBL_EPSILON 2.22044604925031308085e-16\n#define DBL_TRUE_MIN 4.94065645841246544177e-324\n"

static const struct {
    const char *name, *text;
} dev_header[] = {
    {"assert.h", ""},
    {"cassert", ""},
    {"stdbool.h", ""},
    {"stdio.h", ""},
    {"cstdio", "#pragma once\nnamespace std { using ::printf; }\n"},
    {"stdlib.h", ""},
    {"string.h", ""},
    {"memory.h", ""},
    {"math.h", "#pragma once\n"
               "#ifndef M_PI\n"
               "#define M_E 2.7182818284590452354\n"
               "#define M_LOG2E 1.4426950408889634074\n"
               "#define M_LOG10E 0.43429448190325182765\n"
               "#define M_LN2 0.69314718055994530942\n"
               "#define M_LN10 2.30258509299404568402\n"
               "#define M_PI 3.14159265358979323846\n"
               "#define M_PI_2 1.57079632679489661923\n"
               "#define M_PI_4 0.78539816339744830962\n"
               "#define M_1_PI 0.31830988618379067154\n"
               "#define M_2_PI 0.63661977236758134308\n"
               "#define M_2_SQRTPI 1.12837916709551257390\n"
               "#define M_SQRT2 1.41421356237309504880\n"
               "#define M_SQRT1_2 0.70710678118654752440\n"
               "#endif\n"
               "#ifndef INFINITY\n"
               "#define INFINITY __int_as_float(0x7f800000)\n"
               "#endif\n"
               "#ifndef NAN\n"
               "#define NAN __int_as_float(0x7fc00000)\n"
               "#endif\n"
               "#ifndef HUGE_VAL\n"
               "#define HUGE_VAL __longlong_as_double(0x7ff0000000000000ll)\n"
               "#define HUGE_VALF __int_as_float(0x7f800000)\n"
               "#endif\n"},
    {"algorithm", "#pragma once\n#include <cuda/std/__algorithm/clamp.h>\n#include "
                  "<cuda/std/__algorithm/fill.h>\n#include <cuda/std/__algorithm/lower_bound.h>\n"
                  "#include <cuda/std/__algorithm/max.h>\n#include <cuda/std/__algorithm/min.h>\n#include "
                  "<cuda/std/__algorithm/upper_bound.h>\n"
                  "#include <cuda/std/utility>\nnamespace std { using namespace cuda::std; }\n"},
    {"cuda.h",
     "#pragma once\ntypedef struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; } CUtensorMap;\n"},
    {"cub/cub.cuh", "#pragma once\n" CUB("block", "adjacent_difference") CUB("block", "discontinuity") CUB(
                        "block", "exchange") CUB("block", "histogram") CUB("block", "load") CUB("block", "merge_sort")
                        CUB("block", "radix_sort") CUB("block", "reduce") CUB("block", "scan") CUB("block", "shuffle")
                            CUB("block", "store") CUB("warp", "exchange") CUB("warp", "load") CUB("warp", "merge_sort")
                                CUB("warp", "reduce") CUB("warp", "scan") CUB("warp", "store")},
    {"cmath",
     "#pragma once\n#include <math.h>\n#include <cuda/std/cmath>\nnamespace std { using namespace cuda::std; }\n"},
    {"cstdlib", "#pragma once\n#include <cuda/std/cstdlib>\nnamespace std { using namespace cuda::std; }\n"},
    {"cstring", "#pragma once\n#include <cuda/std/cstring>\nnamespace std { using namespace cuda::std; }\n"},
    {"cstdint", "#pragma once\n#include <cuda/std/cstdint>\nnamespace std { using namespace cuda::std; }\n"},
    {"cstddef",
     "#pragma once\n#include <stddef.h>\n#include <cuda/std/cstddef>\nnamespace std { using namespace cuda::std; }\n"},
    {"stddef.h", "#pragma once\n#include <cuda/std/cstddef>\nusing cuda::std::ptrdiff_t;\n"
                 "#ifndef offsetof\n#define offsetof(type, member) __builtin_offsetof(type, member)\n#endif\n"},
    STD_C("stdint.h", "cstdint"),
    STD_C("inttypes.h", "cstdint"),
    {"float.h", FLOAT_H},
    {"cfloat", FLOAT_H},
    STD_C("limits.h", "climits"),
    STD_C("climits", "climits"),
    STD("array"),
    STD("bit"),
    STD("bitset"),
    STD("complex"),
    STD("concepts"),
    STD("functional"),
    STD("initializer_list"),
    STD("iterator"),
    STD("limits"),
    STD("memory"),
    STD("new"),
    STD("numeric"),
    STD("optional"),
    STD("ratio"),
    STD("span"),
    STD("tuple"),
    STD("type_traits"),
    STD("utility"),
    STD("variant"),
};

#undef STD
#undef STD_C
#undef CUB
#undef FLOAT_H
