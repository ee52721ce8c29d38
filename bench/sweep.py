"""What L2 prefetch and programmatic launch are worth by how many blocks an SM holds: graphs made for it, the same work
with and without.

Blocks of 256 threads, one wave of them; dynamic shared memory that nobody touches sets how many fit an SM. Both
documents of a pair compute the same bytes (bench-gpu compares).

  programmatic-launch   eight launches in a row, each computes something of its own, waits (griddepcontrol.wait), then
                        adds what the one before left. Off: the same kernels, launched without the attribute.
  prefetch              a launch that computes, then one that reads 16 MB of weights. On: the first asks the L2 for
                        them, a line a thread. Matters where they are not in the L2 yet, so the times with an
                        overwritten L2 count.
"""
import json

THREADS, CHAIN, WEIGHTS = 256, 8, 16 << 20
HEAD = ".version 8.0\n.target {}\n.address_size 64\n"
# x = some hundred dependent multiply-adds of the thread's number
WORK = """	mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 256, %r2; mul.wide.u32 %rd9, %r3, 4;
	cvt.rn.f32.u32 %f1, %r3; mov.u32 %r4, 0;
W:
	{}
	add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, {}; @%p1 bra W;
"""
REGS = "	.reg .b32 %r<9>; .reg .b64 %rd<12>; .reg .f32 %f<9>; .reg .pred %p<3>;\n"


def work(rounds):
    return WORK.format("fma.rn.f32 %f1, %f1, 0f3F7FFFF0, 0f3F800000; " * 16, rounds)


def chain(arch):
    return HEAD.format(arch) + ".visible .entry link(.param .u64 x, .param .u64 y)\n{\n" + REGS + """	griddepcontrol.launch_dependents;
""" + work(40) + """	ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; add.s64 %rd1, %rd1, %rd9; add.s64 %rd2, %rd2, %rd9;
	griddepcontrol.wait;
	ld.global.f32 %f2, [%rd1]; add.rn.f32 %f2, %f2, %f1; st.global.f32 [%rd2], %f2;
	ret;
}
"""


def reader(ask):
    """compute, which asks for the weights ahead or not; sums of them: thread i takes every n-th 16 bytes"""
    lines = """	ld.param.u64 %rd3, [w]; mul.wide.u32 %rd4, %r3, 128;
P:
	setp.ge.u64 %p2, %rd4, {0}; @%p2 bra Q;
	add.s64 %rd5, %rd3, %rd4; prefetch.global.L2 [%rd5]; mov.u32 %r5, %nctaid.x; mul.wide.u32 %rd6, %r5, 32768; add.s64 %rd4, %rd4, %rd6; bra P;
Q:
""".format(WEIGHTS) if ask else ""
    numbers = "	mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 256, %r2; mul.wide.u32 %rd9, %r3, 4;\n"
    return HEAD.format("sm_80") + ".visible .entry compute(.param .u64 w, .param .u64 y)\n{\n" + REGS + numbers + lines + work(120) + """	ld.param.u64 %rd2, [y]; add.s64 %rd2, %rd2, %rd9; st.global.f32 [%rd2], %f1;
	ret;
}
.visible .entry gather(.param .u64 w, .param .u64 y, .param .u64 z)
{
""" + REGS + numbers + """	ld.param.u64 %rd1, [w]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [z]; add.s64 %rd2, %rd2, %rd9; add.s64 %rd3, %rd3, %rd9; ld.global.f32 %f1, [%rd2];
	mul.wide.u32 %rd4, %r3, 16; mov.u32 %r5, %nctaid.x; mul.wide.u32 %rd6, %r5, 4096;
G:
	setp.ge.u64 %p1, %rd4, """ + str(WEIGHTS) + """; @%p1 bra H;
	add.s64 %rd5, %rd1, %rd4; ld.global.v4.f32 {%f2, %f3, %f4, %f5}, [%rd5]; add.rn.f32 %f1, %f1, %f2; add.rn.f32 %f1, %f1, %f3; add.rn.f32 %f1, %f1, %f4;
	add.rn.f32 %f1, %f1, %f5; add.s64 %rd4, %rd4, %rd6; bra G;
H:
	st.global.f32 [%rd3], %f1;
	ret;
}
"""


def pair(kind, arch, sms, shared_sm, reserved, per_sm):
    """(off, on): graph documents"""
    blocks = sms * per_sm
    shared = 0 if per_sm * THREADS >= 2048 else (shared_sm // per_sm - reserved) // 128 * 128
    fill = lambda seed: {"uniform": [-1, 1], "dtype": "f32", "seed": seed}
    geometry = {"module": "m", "grid": [blocks, 1, 1], "block": [THREADS, 1, 1], "shared": shared}
    if kind == "programmatic-launch":
        buffers = {"b0": {"bytes": blocks * THREADS * 4, "role": "input", "fill": fill(1)}}
        for k in range(1, CHAIN + 1):
            buffers[f"b{k}"] = {"bytes": blocks * THREADS * 4, "role": "output" if k == CHAIN else "intermediate"}
        steps = lambda on: [{"name": f"link{k}", "entry": "link", **geometry,
                             "args": [{"buffer": f"b{k}"}, {"buffer": f"b{k + 1}"}], "programmatic": bool(on and k)}
                            for k in range(CHAIN)]
        text = {False: chain(arch), True: chain(arch)}
    else:
        buffers = {"w": {"bytes": WEIGHTS, "role": "weight", "fill": fill(1)},
                   "y": {"bytes": blocks * THREADS * 4, "role": "intermediate"},
                   "z": {"bytes": blocks * THREADS * 4, "role": "output"}}
        args = lambda *names: [{"buffer": n} for n in names]
        steps = lambda on: [{"name": "compute", "entry": "compute", **geometry, "args": args("w", "y")},
                            {"name": "gather", "entry": "gather", **geometry, "args": args("w", "y", "z")}]
        text = {False: reader(False), True: reader(True)}
    return [{"dovetail": 1, "name": kind, "modules": {"m": {"ptx": text[on]}}, "buffers": buffers,
             "launches": steps(on)} for on in (False, True)]


def write(folder, kind, *args):
    paths = []
    for name, doc in zip(("off", "on"), pair(kind, *args)):
        paths.append(f"{folder}/{kind}-{args[-1]}-{name}.json")
        with open(paths[-1], "w", encoding="utf-8") as f:
            json.dump(doc, f)
    return paths
