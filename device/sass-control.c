/* What ptxas wrote into each instruction for the scheduler, and which part of an SM does it (sass-pipes.def).
 *
 *   105-108 stall: clocks until the warp's next instruction   109 yield   110-112 barrier that the result opens
 *   113-115 barrier that opens once the operands are read     116-121 barriers to wait for, a bit each; 7: none
 *
 * The places are the same from Volta to Blackwell (Jia et al., arXiv 1804.06826, section 2.1). A result of fixed
 * latency is there when the stalls behind its instruction have passed. Any other is waited for by its barrier, or by
 * the barrier of a later instruction of the same part of the SM.
 *
 * What it does not do: reuse flags, other generations.
 */
#include "device/machine.h"

static const struct {
    const char *name;
    double lanes[7];
} pipes[] = {
#define PIPE(id, name, ...) [SASS_PIPE_##id] = {name, {PIPE_LANES(__VA_ARGS__)}},
#define PIPE_LANES(a, b, c, d, e, f, g, source) a, b, c, d, e, f, g
#define U(code, pipe, way)
#define V(code, pipe, way)
#include "device/sass-pipes.def"
#undef PIPE
#undef PIPE_LANES
#undef U
#undef V
};

static const struct {
    uint16_t code;
    uint8_t pipe, way;
    bool blackwell;
} units[] = {
#define PIPE(...)
#define U(code, pipe, way) {code, SASS_PIPE_##pipe, SASS_WAY_##way, false},
#define V(code, pipe, way) {code, SASS_PIPE_##pipe, SASS_WAY_##way, true},
#include "device/sass-pipes.def"
#undef PIPE
#undef U
#undef V
};

struct sass_control sass_control(const struct sass_inst *i)
{
    return (struct sass_control){.stall = i->hi >> 41 & 15,
                                 .yield = i->hi >> 45 & 1,
                                 .write = i->hi >> 46 & 7,
                                 .read = i->hi >> 49 & 7,
                                 .wait = i->hi >> 52 & 63};
}

struct sass_unit sass_unit(const struct sass_inst *i, unsigned sm)
{
    unsigned code = i->lo & 0x1ff;
    for (size_t k = sizeof units / sizeof units[0]; k-- > 0;) /* Blackwell's are the last */
        if (units[k].code == code && (sm >= 100 || !units[k].blackwell)) {
            bool fast = units[k].way == SASS_WAY_FP64 && sm == 90 && units[k].pipe == SASS_PIPE_FP64;
            return (struct sass_unit){units[k].pipe, fast ? SASS_WAY_FIXED : units[k].way};
        }
    return (struct sass_unit){SASS_PIPE_NONE, SASS_WAY_FIXED};
}

const char *sass_pipe_name(enum sass_pipe p) { return p < SASS_PIPES ? pipes[p].name : ""; }

double sass_pipe_lanes(enum sass_pipe p, unsigned sm)
{
    unsigned k = sm < 80 ? 0 : sm < 86 ? 1 : sm < 89 ? 2 : sm < 90 ? 3 : sm < 100 ? 4 : sm < 120 ? 5 : 6;
    return p < SASS_PIPES ? pipes[p].lanes[k] : 0;
}
