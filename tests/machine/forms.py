"""PTX that has every form of float instruction that ptxas knows for an architecture, and others beside them, one entry
a form: for sass.py."""
ROUND = [".rn", ".rz", ".rm", ".rp"]
FTZ = ["", ".ftz"]
COMPARE = "eq ne lt le gt ge equ neu ltu leu gtu geu num nan".split()
NEG_ABS = "neg.{0} %{1}5,%{1}1;abs.{0} %{1}6,%{1}2;"


def f32():
    for r in [""] + ROUND:
        for f in FTZ:
            for s in ["", ".sat"]:
                yield from (f"{o}{r}{f}{s}.f32 %f3,%f1,%f2;" for o in ("add", "sub", "mul"))
                if r:
                    yield f"fma{r}{f}{s}.f32 %f3,%f1,%f2,%f4;"
    yield from (NEG_ABS.format("f32", "f") + o for o in ("add.f32 %f3,%f5,%f6;", "mul.f32 %f3,%f6,%f5;",
                                                         "fma.rn.f32 %f3,%f5,%f6,%f5;", "min.f32 %f3,%f5,%f6;"))
    yield from (f"{o}{f}.f32 %f3,%f1;" for o in ("neg", "abs") for f in FTZ)
    yield from (f"mul.f32 %f5,%f1,%f2;mul.f32 %f3,%f5,0f{x};"
                for x in "3F000000 40000000 3E800000 41000000 40800000 3E000000".split())
    for x in ("0f3F400000", "%f9"):
        yield from (f"mul.f32 %f3,%f1,{x};", f"add.f32 %f3,%f1,{x};", f"fma.rn.f32 %f3,%f1,{x},%f2;",
                    f"fma.rn.f32 %f3,%f1,%f2,{x};", f"setp.lt.f32 %p2,%f1,{x};")
    yield from (f"{o}{f}.f32 %f3,%f1,%f2;" for o in ("min", "max") for f in FTZ)
    for o in ("rcp", "sqrt"):
        yield from (f"{o}{r}{f}.f32 %f3,%f1;" for r in ROUND + [".approx"] for f in FTZ)
    yield from (f"{o}.approx{f}.f32 %f3,%f1;" for o in ("rsqrt", "sin", "cos", "lg2", "ex2") for f in FTZ)
    yield from (f"div.{k}{f}.f32 %f3,%f1,%f2;" for k in ("approx", "full", "rn", "rz", "rm", "rp") for f in FTZ)
    yield from ("tanh.approx.f32 %f3,%f1;", "neg.f32 %f5,%f1;ex2.approx.ftz.f32 %f3,%f5;",
                "abs.f32 %f5,%f1;lg2.approx.ftz.f32 %f3,%f5;",
                "copysign.f32 %f3,%f1,%f2;", "selp.f32 %f3,%f1,%f2,%p1;", "neg.f32 %f5,%f1;selp.f32 %f3,%f5,%f2,%p1;",
                "slct.f32.f32 %f3,%f1,%f2,%f4;",
                "slct.ftz.f32.f32 %f3,%f1,%f2,%f4;", "slct.f32.s32 %f3,%f1,%f2,%r4;")


def f64():
    for r in ROUND:
        yield from (f"{o}{r}.f64 %d3,%d1,%d2;" for o in ("add", "sub", "mul", "div"))
        yield from (f"fma{r}.f64 %d3,%d1,%d2,%d4;", f"rcp{r}.f64 %d3,%d1;", f"sqrt{r}.f64 %d3,%d1;")
    yield from (f"{o}.f64 %d3,%d1;" for o in ("rsqrt.approx", "rsqrt.approx.ftz", "rcp.approx.ftz", "abs", "neg"))
    yield from ("min.f64 %d3,%d1,%d2;", "max.f64 %d3,%d1,%d2;", NEG_ABS.format("f64", "d") + "add.f64 %d3,%d5,%d6;")
    for x in ("0d3FF0000000000000", "0d3FF123456789ABCD", "%d9"):
        yield from (f"add.f64 %d3,%d1,{x};", f"mul.f64 %d3,%d1,{x};", f"fma.rn.f64 %d3,%d1,{x},%d2;",
                    f"fma.rn.f64 %d3,%d1,%d2,{x};")


def compare(sm):
    kinds = [("f32", "f"), ("f64", "d"), ("f16", "h")] + ([("bf16", "h")] if sm >= 90 else [])
    for c in COMPARE:
        yield from (f"setp.{c}.{t} %p2,%{v}1,%{v}2;" for t, v in kinds)
        yield from (f"setp.{c}.ftz.f32 %p2,%f1,%f2;", f"setp.{c}.f16x2 %p2|%p3,%r1,%r2;",
                    f"set.{c}.f32.f32 %f3,%f1,%f2;", f"set.{c}.u32.f32 %r3,%f1,%f2;",
                    f"set.{c}.f16x2.f16x2 %r3,%r1,%r2;", f"set.{c}.ftz.f16.f16 %h3,%h1,%h2;",
                    f"set.{c}.s32.f64 %r3,%d1,%d2;", f"set.{c}.f32.f64 %f3,%d1,%d2;")
    yield from ("setp.lt.and.f32 %p2,%f1,%f2,%p1;", "setp.lt.or.f32 %p2|%p3,%f1,%f2,!%p1;",
                "setp.gt.xor.f64 %p2|%p3,%d1,%d2,%p1;",
                "abs.f32 %f5,%f1;setp.lt.f32 %p2,%f5,0f7F800000;", "set.lt.and.f32.f32 %f3,%f1,%f2,%p1;")
    yield from (f"testp.{k}.f32 %p2,%f1;" for k in ("finite", "infinite", "notanumber", "normal", "subnormal"))


def halves(sm):
    for t, v in (("f16", "h"), ("f16x2", "r")):
        for f in FTZ:
            for s in ["", ".sat"]:
                yield from (f"{o}{f}{s}.{t} %{v}3,%{v}1,%{v}2;" for o in ("add", "sub", "mul", "add.rn", "mul.rn"))
                yield f"fma.rn{f}{s}.{t} %{v}3,%{v}1,%{v}2,%{v}4;"
        yield from (f"neg.{t} %{v}3,%{v}1;", f"abs.{t} %{v}3,%{v}1;",
                    NEG_ABS.format(t, v) + f"fma.rn.{t} %{v}3,%{v}5,%{v}6,%{v}4;",
                    NEG_ABS.format(t, v) + f"add.{t} %{v}3,%{v}5,%{v}6;")
        yield from (f"tanh.approx.{t} %{v}3,%{v}1;", f"ex2.approx.{t} %{v}3,%{v}1;")
    split = "mov.b32 {%h5,%h6},%r1;mov.b32 {%h7,%h8},%r2;"
    yield from ("mov.b32 %r5,0x3C004000;fma.rn.f16x2 %r3,%r1,%r5,%r2;",
                "mov.b32 %r5,0x3C004000;fma.rn.f16x2 %r3,%r1,%r2,%r5;", "mov.b32 %r5,0x3C003C00;add.f16x2 %r3,%r1,%r5;")
    yield from (split + o for o in ("add.f16 %h3,%h6,%h2;", "fma.rn.f16 %h3,%h6,%h7,%h8;",
                                    "mov.b32 %r5,{%h5,%h5};mul.f16x2 %r3,%r5,%r2;", "cvt.f32.f16 %f3,%h6;",
                                    "mov.b32 %r5,{%h6,%h6};mov.b32 %r6,{%h7,%h7};fma.rn.f16x2 %r3,%r5,%r4,%r6;",
                                    "cvt.rni.s32.f16 %r3,%h6;", "setp.lt.f16 %p2,%h6,%h5;"))
    if sm >= 80:
        yield from (f"{o}.{t} %{v}3,%{v}1,%{v}2;" for t, v in (("f16", "h"), ("f16x2", "r"), ("bf16", "h"),
                                                               ("bf16x2", "r"))
                    for o in ("min", "max", "min.NaN", "max.NaN"))
        yield from ("min.NaN.f32 %f3,%f1,%f2;", "max.NaN.ftz.f32 %f3,%f1,%f2;")
        yield from (f"fma.rn{k}.{t} %{v}3,%{v}1,%{v}2,%{v}4;" for t, v in (("f16", "h"), ("f16x2", "r"), ("bf16", "h"),
            ("bf16x2", "r")) for k in ("", ".relu"))
        yield from ("neg.bf16 %h3,%h1;", "abs.bf16x2 %r3,%r1;", "neg.bf16x2 %r3,%r1;")
    if sm >= 86:
        yield from ("min.xorsign.abs.f32 %f3,%f1,%f2;", "max.xorsign.abs.f16x2 %r3,%r1,%r2;")
    if sm >= 90:
        yield from (f"{o}.{t} %{v}3,%{v}1,%{v}2;" for t, v in (("bf16", "h"), ("bf16x2", "r"))
                    for o in ("add", "add.rn", "sub", "mul", "mul.rn"))
        yield from ("setp.gtu.bf16x2 %p2|%p3,%r1,%r2;", "set.le.bf16x2.bf16x2 %r3,%r1,%r2;",
                    "ex2.approx.ftz.bf16 %h3,%h1;", "tanh.approx.bf16 %h3,%h1;")


def conversions(sm):
    whole = [".rni", ".rzi", ".rmi", ".rpi"]
    for t, v in (("s8", "r"), ("u8", "r"), ("s16", "h"), ("u16", "h"), ("s32", "r"), ("u32", "r"), ("s64", "l"),
                 ("u64", "l")):
        for f, g in (("f16", "h"), ("f32", "f"), ("f64", "d")):
            yield from (f"cvt{r}.{f}.{t} %{g}3,%{v}1;" for r in ROUND)
            yield from (f"cvt{r}.{t}.{f} %{v}3,%{g}1;" for r in whole + [".rzi.sat"])
        yield from (f"cvt.rzi.ftz.{t}.f32 %{v}3,%f1;", f"cvt.rn.sat.f32.{t} %f3,%{v}1;")
    yield from (f"cvt{r}.{k} %{v}3,%{v}1;" for r in whole for k, v in (("f32.f32", "f"), ("f64.f64", "d"),
        ("f16.f16", "h"), ("ftz.sat.f32.f32", "f")))
    yield from ("cvt.f32.f16 %f3,%h1;", "cvt.f64.f32 %d3,%f1;", "cvt.f64.f16 %d3,%h1;", "cvt.sat.f32.f32 %f3,%f1;",
                "cvt.ftz.f32.f32 %f3,%f1;", "cvt.sat.f32.f16 %f3,%h1;",
                "cvt.ftz.f64.f32 %d3,%f1;", "abs.f32 %f5,%f1;cvt.f64.f32 %d3,%f5;",
                "abs.f32 %f5,%f1;cvt.rn.f16.f32 %h3,%f5;", "neg.f32 %f5,%f1;cvt.rzi.s32.f32 %r3,%f5;")
    yield from (f"cvt{r}{k} %{v}3,%{w}1;" for r in ROUND for k, v, w in ((".f16.f32", "h", "f"), (".f32.f64", "f", "d"),
        (".f16.f64", "h", "d"), (".ftz.f32.f64", "f", "d"), (".sat.f16.f32", "h", "f")))
    if sm >= 80:
        yield from ("cvt.rn.bf16.f32 %h3,%f1;", "cvt.rz.bf16.f32 %h3,%f1;", "cvt.rn.bf16x2.f32 %r3,%f1,%f2;",
                    "cvt.rn.relu.bf16x2.f32 %r3,%f1,%f2;", "cvt.rn.f16x2.f32 %r3,%f1,%f2;",
                    "cvt.rz.f16x2.f32 %r3,%f1,%f2;", "cvt.rn.relu.f16x2.f32 %r3,%f1,%f2;", "cvt.rna.tf32.f32 %r3,%f1;",
                    "cvt.rn.relu.f16.f32 %h3,%f1;")
    if sm >= 90:
        yield from ("cvt.f32.bf16 %f3,%h1;", "cvt.rn.bf16.s32 %h3,%r1;", "cvt.rni.s32.bf16 %r3,%h1;",
                    "cvt.rn.bf16.f16 %h3,%h1;", "cvt.rn.bf16.f64 %h3,%d1;", "cvt.f64.bf16 %d3,%h1;",
                    "cvt.rn.satfinite.e4m3x2.f32 %h3,%f1,%f2;", "cvt.rn.satfinite.e5m2x2.f32 %h3,%f1,%f2;",
                    "cvt.rn.satfinite.e4m3x2.f16x2 %h3,%r1;", "cvt.rn.f16x2.e4m3x2 %r3,%h1;",
                    "cvt.rn.relu.f16x2.e5m2x2 %r3,%h1;")


def others(sm):
    for o in ("f32", "f64"):
        v = "f" if o == "f32" else "d"
        yield from (f"atom.global.add.{o} %{v}3,[%l9],%{v}1;", f"red.global.add.{o} [%l9],%{v}1;",
                    f"atom.shared.add.{o} %{v}3,[sh],%{v}1;")
    yield from ("atom.global.add.noftz.f16x2 %r3,[%l9],%r1;", "red.global.add.noftz.f16x2 [%l9],%r1;",
                "atom.global.exch.b64 %l3,[%l9],%l1;", "atom.global.cas.b64 %l3,[%l9],%l1,%l2;",
                "atom.shared.cas.b64 %l3,[sh],%l1,%l2;", "atom.global.add.u64 %l3,[%l9],%l1;",
                "red.global.max.s32 [%l9],%r1;", "atom.shared.max.s32 %r3,[sh],%r1;")
    yield from (f"{o}.s32 %r3,%r1,%r2;" for o in ("add", "mul.lo", "mul.hi", "div", "rem", "min"))
    yield from (f"{o}.u64 %l3,%l1,%l2;" for o in ("add", "mul.lo", "mul.hi", "div", "max"))
    yield from ("mul.wide.s32 %l3,%r1,%r2;", "mad.wide.u32 %l3,%r1,%r2,%l2;", "popc.b64 %r3,%l1;", "clz.b64 %r3,%l1;",
                "brev.b64 %l3,%l1;", "bfe.s32 %r3,%r1,%r2,%r4;",
                "bfi.b32 %r3,%r1,%r2,%r4,%r2;", "shf.l.wrap.b32 %r3,%r1,%r2,%r4;", "prmt.b32.f4e %r3,%r1,%r2,%r4;",
                "dp4a.s32.s32 %r3,%r1,%r2,%r4;", "sad.s32 %r3,%r1,%r2,%r4;",
                "shfl.sync.bfly.b32 %r3|%p2,%r1,1,31,-1;", "vote.sync.ballot.b32 %r3,%p1,-1;",
                "match.all.sync.b64 %r3|%p2,%l1,-1;", "mov.u64 %l3,%clock64;", "bar.red.popc.u32 %r3,0,%p1;",
                "ld.global.v4.f32 {%f3,%f4,%f5,%f6},[%l9];add.f32 %f3,%f4,%f6;",
                "ld.shared.v2.f64 {%d3,%d4},[sh];add.f64 %d3,%d3,%d4;", "ld.u8 %h3,[%l9];", "isspacep.shared %p2,%l9;",
                "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r3,%r4,%r5,%r6},[sh];add.s32 %r3,%r4,%r6;", "trap;",
                "membar.gl;", "nanosleep.u32 100;",
                "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                "{%f3,%f4,%f5,%f6},{%r1,%r2},{%r4},{%f1,%f2,%f1,%f2};add.f32 %f3,%f3,%f6;",
                "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r3,%r5},{%r1,%r2},{%r4},{%r1,%r2};add.s32 "
                "%r3,%r3,%r5;",
                "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r3,%r5},{%r1},{%r4},{%r1,%r2};add.s32 %r3,%r3,%r5;")
    if sm >= 80:
        yield from (f"mma.sync.aligned.m16n8k{k}.row.col.f32.{t}.{t}.f32 "
                    f"{{%f3,%f4,%f5,%f6}},{{{a}}},{{{b}}},{{%f1,%f2,%f1,%f2}};add.f32 %f3,%f3,%f6;"
                    for k, t, a, b in ((16, "bf16", "%r1,%r2,%r4,%r1", "%r4,%r2"),
                                       (16, "f16", "%r1,%r2,%r4,%r1", "%r4,%r2"),
                                       (8, "tf32", "%r1,%r2,%r4,%r1", "%r4,%r2"), (4, "tf32", "%r1,%r2", "%r4")))
        yield from ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d3,%d4},{%d1},{%d2},{%d1,%d2};add.f64 "
                    "%d3,%d3,%d4;", "cp.async.ca.shared.global [sh],[%l9],4;cp.async.wait_all;",
                    "redux.sync.add.s32 %r3,%r1,-1;", "mbarrier.init.shared.b64 [sh],1;",
                    "mbarrier.arrive.shared.b64 %l3,[sh];", "mbarrier.test_wait.shared.b64 %p2,[sh],%l1;")
    if sm >= 90:
        yield from ("griddepcontrol.wait;", "griddepcontrol.launch_dependents;",
                    "barrier.cluster.arrive;barrier.cluster.wait;", "mapa.u64 %l3,%l9,%r2;",
                    "ld.shared::cluster.f32 %f3,[%r1];",
                    "st.shared::cluster.f32 [%r1],%f1;", "fence.proxy.async;", "mov.u32 %r3,%cluster_ctarank;",
                    "cp.async.bulk.global.shared::cta.bulk_group [%l9],[sh],64;",
                    "cp.async.bulk.prefetch.L2.global [%l9],64;", "mbarrier.try_wait.parity.shared.b64 %p2,[%r1],%r2;",
                    "red.global.add.noftz.bf16x2 [%l9],%r1;", "elect.sync %r3|%p2,-1;")


def packed():
    """Two floats in 64 bits: each operand two registers, these turned round, one for both, with one sign turned."""
    for r in ROUND:
        for f in FTZ:
            yield from (f"{o}{r}{f}.f32x2 %l3,%l1,%l2;" for o in ("add", "sub", "mul"))
            yield f"fma{r}{f}.f32x2 %l3,%l1,%l2,%l4;"
    split = "mov.b64 {%f5,%f6},%l1;"
    some = ("mov.b64 %l5,{%f6,%f5};", "mov.b64 %l5,{%f5,%f5};", "mov.b64 %l5,{%f6,%f6};", "mov.b64 %l5,{%f9,%f9};",
            "mov.b64 %l5,{%f5,%f9};", "neg.f32 %f5,%f5;mov.b64 %l5,{%f5,%f6};",
            "neg.f32 %f6,%f6;mov.b64 %l5,{%f5,%f6};", "neg.f32 %f5,%f5;mov.b64 %l5,{%f6,%f5};",
            "neg.f32 %f5,%f5;neg.f32 %f6,%f6;mov.b64 %l5,{%f5,%f6};",
            "abs.f32 %f5,%f5;abs.f32 %f6,%f6;mov.b64 %l5,{%f5,%f6};", "mov.b64 %l5,0x3F8000003F800000;",
            "mov.b64 %l5,0x4000000040400000;")
    for s in some:
        yield from (split + s + o for o in ("add.rn.f32x2 %l3,%l5,%l2;", "add.rn.f32x2 %l3,%l2,%l5;",
                                            "mul.rn.f32x2 %l3,%l5,%l2;", "mul.rn.f32x2 %l3,%l2,%l5;",
                                            "fma.rn.f32x2 %l3,%l5,%l2,%l4;", "fma.rn.f32x2 %l3,%l2,%l5,%l4;",
                                            "fma.rn.f32x2 %l3,%l2,%l4,%l5;"))


def blackwell():
    yield from packed()
    for f in FTZ:
        for n in ("", ".NaN"):
            yield from (f"{o}{f}{n}{a}.f32 %f3,%f1,%f2,%f4;" for o in ("min", "max") for a in ("", ".abs"))
    yield from (NEG_ABS.format("f32", "f") + f"{o}.f32 %f3,%f5,%f6,%f4;" for o in ("min", "max"))
    for t in ("f16", "bf16"):
        for r in ROUND:
            for s in ("", ".sat"):
                yield from (f"add{r}{s}.f32.{t} %f3,%h1,%f2;", f"sub{r}{s}.f32.{t} %f3,%h1,%f2;",
                            f"fma{r}{s}.f32.{t} %f3,%h1,%h2,%f4;")
    yield from ("neg.f32 %f5,%f2;add.rn.f32.f16 %f3,%h1,%f5;", "neg.f16 %h5,%h1;add.rn.f32.f16 %f3,%h5,%f2;",
                "neg.f16 %h5,%h1;fma.rn.f32.f16 %f3,%h5,%h2,%f4;", "neg.f32 %f5,%f4;fma.rn.f32.bf16 %f3,%h1,%h2,%f5;")
    yield from ("mov.b32 {%h5,%h6},%r1;add.rn.f32.f16 %f3,%h6,%f2;",
                "mov.b32 {%h5,%h6},%r1;fma.rn.f32.bf16 %f3,%h6,%h5,%f2;")
    load = "{%f3,%f5,%f6,%f7,%f8,%f10,%f11,%f12}"
    add = "add.f32 %f3,%f3,%f12;add.f32 %f3,%f3,%f8;add.f32 %f3,%f3,%f7;add.f32 %f3,%f3,%f5;"
    yield from (f"ld.global.v8.f32 {load},[%l9];" + add, "ld.global.v4.b64 {%l3,%l5,%l6,%l7},[%l9];add.s64 %l3,%l3,%l7;"
                "add.s64 %l3,%l3,%l5;", "ld.global.v8.b32 {%r3,_,_,_,%r5,_,_,%r6},[%l9];add.s32 %r3,%r3,%r6;",
                "st.global.v8.f32 [%l8],{%f1,%f2,%f4,%f1,%f2,%f4,%f1,%f2};")
    yield from (f"{o}.{t} %r3,%r1,%r2;" for o in ("add", "min", "max") for t in ("u16x2", "s16x2"))


def forms(sm):
    return [*f32(), *f64(), *compare(sm), *halves(sm), *conversions(sm), *others(sm),
            *(blackwell() if sm >= 100 else ())]


ENTRY = """.visible .entry k{n}(.param .u64 a,.param .u64 o,.param .f32 pf,.param .f64 pd,.param .u32 n)
{{
.reg .pred %p<10>;.reg .b16 %h<16>;.reg .b32 %r<16>;.reg .b64 %l<16>;.reg .f32 %f<16>;.reg .f64 %d<16>;
.shared .align 16 .b8 sh[128];
ld.param.u64 %l9,[a];ld.param.u64 %l8,[o];ld.param.f32 %f9,[pf];ld.param.f64 %d9,[pd];ld.param.u32 %r9,[n];
cvta.to.global.u64 %l9,%l9;cvta.to.global.u64 %l8,%l8;
mov.u32 %r10,%tid.x;mul.wide.u32 %l10,%r10,64;add.s64 %l9,%l9,%l10;add.s64 %l8,%l8,%l10;
ld.global.f32 %f1,[%l9];ld.global.f32 %f2,[%l9+4];ld.global.f32 %f4,[%l9+8];
ld.global.f64 %d1,[%l9+16];ld.global.f64 %d2,[%l9+24];ld.global.f64 %d4,[%l9+32];
ld.global.b32 %r1,[%l9+40];ld.global.b32 %r2,[%l9+44];ld.global.b32 %r4,[%l9+48];
ld.global.b16 %h1,[%l9+52];ld.global.b16 %h2,[%l9+54];ld.global.b16 %h4,[%l9+56];
ld.global.b64 %l1,[%l9+64];ld.global.b64 %l2,[%l9+72];
setp.gt.s32 %p1,%r10,%r9;setp.gt.s32 %p3,%r10,5;setp.gt.s32 %p2,%r10,7;
{body}
@%p2 st.global.b32 [%l8+32],%r1;
@%p3 st.global.b32 [%l8+36],%r1;
ret;
}}
"""
TOGETHER = 12


def body(n, form):
    """A form on a line of its own: what it may leave alone set before, what it writes stored behind."""
    written = [(v, t) for v, t in (("f", "f32"), ("d", "f64"), ("r", "b32"), ("h", "b16"), ("l", "b64"))
               if f"%{v}3" in form]
    before = "".join(f"mov.{t.replace('f', 'b')} %{v}3,0;" for v, t in written if "@" in form or "3}" not in form
                     and v != "f" and v != "d")
    stores = "".join(f"st.global.{t} [%l8+{64 + 8 * n}],%{v}3;" for v, t in written)
    return (before + form.replace("-1;", "0xffffffff;") + stores
            + ("@%p2 st.global.b32 [%l8],%r2;" if "%p2" in form else ""))


def text(sm, some):
    entries = (ENTRY.format(n=n, body="\n".join(body(n + k, f) for k, f in enumerate(some[n:n + TOGETHER])))
               for n in range(0, len(some), TOGETHER))
    version = "8.7" if sm < 100 else "9.0"
    return f".version {version}\n.target sm_{sm}\n.address_size 64\n" + "".join(entries)
