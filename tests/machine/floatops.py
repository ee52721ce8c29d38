"""PTX's float operations as a table, for tests that look at what ptxas makes of two of them that meet.

An operation has a name (its text without registers), the classes of its operands, the class of its result and a text
with {d}, {a}, {b}, {c} for result and operands and {p} for a predicate, {t} and {u} for temporary registers of 32 bits.
Classes: the types of values as memory holds them. What an architecture lacks is found by assembling (pairs.py); the
table does not know.
"""

CLASSES = {  # class: bytes, PTX type of its registers, type of its loads and stores
    "f32": (4, "f32", "f32"), "f64": (8, "f64", "f64"), "f16": (2, "b16", "b16"), "bf16": (2, "b16", "b16"),
           "f16x2": (4, "b32", "b32"),
    "bf16x2": (4, "b32", "b32"), "f32x2": (8, "b64", "b64"), "i32": (4, "b32", "b32"), "i64": (8, "b64", "b64"),
           "i16": (2, "b16", "b16"),
    "e8x2": (2, "b16", "b16"),
}
CONSTANTS = {  # of a class: text of a number
    "f32": {"0": "0f00000000", "-0": "0f80000000", "0.5": "0f3F000000", "1": "0f3F800000", "-1": "0fBF800000",
            "2": "0f40000000"},
    "f64": {"0": "0d0000000000000000", "-0": "0d8000000000000000", "0.5": "0d3FE0000000000000",
            "1": "0d3FF0000000000000",
            "-1": "0dBFF0000000000000", "2": "0d4000000000000000"},
}


class Op:
    def __init__(self, text, out, *operands, name=None):
        self.text, self.out, self.operands = text, out, operands
        self.name = name or text.split(";")[0].replace("{d}, ", "").replace("{", "").replace("}", "")

    def __repr__(self):
        return self.name


def ftz(cls):
    return ["", ".ftz"] if cls in ("f32", "f16", "f16x2") else [""]


def sat(cls):
    return ["", ".sat"] if cls in ("f32", "f16", "f16x2") else [""]


def arithmetic(c):
    """Sums, products, signs, smallest and largest: in all types."""
    for f in ftz(c):
        for s in sat(c):
            for op in ("add", "sub", "mul"):
                yield Op("%s%s%s.%s {d}, {a}, {b};" % (op, f, s, c), c, c, c)
            yield Op("fma.rn%s%s.%s {d}, {a}, {b}, {c};" % (f, s, c), c, c, c, c)
        for op in ("add", "mul"):
            yield Op("%s.rn%s.%s {d}, {a}, {b};" % (op, f, c), c, c, c)
            if c in ("f32", "f64"):
                yield Op("%s.rz%s.%s {d}, {a}, {b};" % (op, f, c), c, c, c)
        if c in ("f32", "f64"):
            yield Op("fma.rm%s.%s {d}, {a}, {b}, {c};" % (f, c), c, c, c, c)
        for op in ("neg", "abs"):
            yield Op("%s%s.%s {d}, {a};" % (op, f, c), c, c)
        for op in ("min", "max"):
            for more in ("", ".NaN", ".xorsign.abs") if c != "f64" else ("",):
                yield Op("%s%s%s.%s {d}, {a}, {b};" % (op, f, more, c), c, c, c)
    if c in ("f16", "bf16", "f16x2", "bf16x2"):
        yield Op("fma.rn.relu.%s {d}, {a}, {b}, {c};" % c, c, c, c, c)


def with_constants(c):
    """The same with numbers that machines have instructions for."""
    k = CONSTANTS[c]
    for f in ftz(c):
        for op, names in (("add", ("1", "-1", "-0", "0")), ("mul", ("0.5", "2", "-1", "1", "0")),
                          ("min", ("0", "1", "-1")), ("max", ("0", "1", "-1"))):
            for n in names:
                yield Op("%s%s.%s {d}, {a}, %s;" % (op, f, c, k[n]), c, c, name="%s%s.%s a, %s" % (op, f, c, n))
        for n in ("0", "1", "-0"):
            yield Op("sub%s.%s {d}, %s, {a};" % (f, c, k[n]), c, c, name="sub%s.%s %s, a" % (f, c, n))
        yield Op("fma.rn%s.%s {d}, {a}, %s, %s;" % (f, c, k["2"], k["1"]), c, c, name="fma.rn%s.%s a, 2, 1" % (f, c))
        yield Op("fma.rn%s.%s {d}, {a}, %s, %s;" % (f, c, k["-1"], k["0"]), c, c, name="fma.rn%s.%s a, -1, 0" % (f, c))
        yield Op("fma.rn%s.%s {d}, {a}, %s, {b};" % (f, c, k["1"]), c, c, c, name="fma.rn%s.%s a, 1, b" % (f, c))
        yield Op("setp.gt%s.%s {p}, {a}, %s; selp.%s {d}, {a}, %s, {p};" % (f, c, k["0"], c, k["0"]), c, c,
                 name="a > 0 ? a : 0, setp%s.%s" % (f, c))
        yield Op("setp.lt%s.%s {p}, {a}, %s; selp.%s {d}, %s, {a}, {p};" % (f, c, k["1"], c, k["1"]), c, c,
                 name="a < 1 ? 1 : a, setp%s.%s" % (f, c))


def special():
    for f in ("", ".ftz"):
        for op in ("div.rn", "div.approx", "div.full"):
            yield Op("%s%s.f32 {d}, {a}, {b};" % (op, f), "f32", "f32", "f32")
            yield Op("%s%s.f32 {d}, %s, {a};" % (op, f, CONSTANTS["f32"]["1"]), "f32", "f32",
                     name="%s%s.f32 1, a" % (op, f))
            yield Op("%s%s.f32 {d}, {a}, %s;" % (op, f, CONSTANTS["f32"]["2"]), "f32", "f32",
                     name="%s%s.f32 a, 2" % (op, f))
        for op in ("rcp.rn", "rcp.approx", "sqrt.rn", "sqrt.approx", "rsqrt.approx", "ex2.approx", "lg2.approx",
                   "sin.approx", "cos.approx"):
            yield Op("%s%s.f32 {d}, {a};" % (op, f), "f32", "f32")
    yield Op("tanh.approx.f32 {d}, {a};", "f32", "f32")
    yield Op("div.rn.f64 {d}, {a}, {b};", "f64", "f64", "f64")
    for op in ("rcp.rn", "sqrt.rn", "rcp.approx.ftz", "rsqrt.approx", "rsqrt.approx.ftz"):
        yield Op("%s.f64 {d}, {a};" % op, "f64", "f64")
    for op, classes in (("ex2.approx", ("f16", "f16x2")), ("ex2.approx.ftz", ("bf16", "bf16x2")),
                        ("tanh.approx", ("f16", "f16x2", "bf16", "bf16x2"))):
        for c in classes:
            yield Op("%s.%s {d}, {a};" % (op, c), c, c)


def compares():
    for c in ("f32", "f64"):
        for f in ftz(c):
            for r in ("lt", "le", "gt", "ge", "eq", "ne", "ltu", "geu", "equ", "num", "nan"):
                yield Op("setp.%s%s.%s {p}, {a}, {b}; selp.%s {d}, {a}, {b}, {p};" % (r, f, c, c), c, c, c,
                         name="setp.%s%s.%s a, b ? a : b" % (r, f, c))
            for r in ("lt", "ge", "neu"):
                yield Op("setp.%s%s.%s {p}, {a}, {b}; selp.u32 {d}, 1, 0, {p};" % (r, f, c), "i32", c, c,
                         name="setp.%s%s.%s a, b ? 1 : 0" % (r, f, c))
                yield Op("set.%s%s.u32.%s {d}, {a}, {b};" % (r, f, c), "i32", c, c)
                yield Op("set.%s%s.f32.%s {d}, {a}, {b};" % (r, f, c), "f32", c, c)
        for what in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield Op("testp.%s.%s {p}, {a}; selp.%s {d}, {a}, {b}, {p};" % (what, c, c), c, c, c,
                     name="testp.%s.%s a ? a : b" % (what, c))
        yield Op("copysign.%s {d}, {a}, {b};" % c, c, c, c)
    for f in ("", ".ftz"):
        yield Op("slct%s.f32.f32 {d}, {a}, {b}, {c};" % f, "f32", "f32", "f32", "f32")
    for c in ("f16", "bf16"):
        for f in ftz(c):
            for r in ("lt", "ge", "eq", "neu", "nan"):
                yield Op("setp.%s%s.%s {p}, {a}, {b}; selp.b16 {d}, {a}, {b}, {p};" % (r, f, c), c, c, c,
                         name="setp.%s%s.%s a, b ? a : b" % (r, f, c))
            for d in ("u32", "f32"):
                yield Op("set.gt%s.%s.%s {d}, {a}, {b};" % (f, d, c), {"u32": "i32"}.get(d, d), c, c)
            yield Op("set.gt%s.%s.%s {d}, {a}, {b};" % (f, c, c), c, c, c)
    for c in ("f16x2", "bf16x2"):
        for f in ftz(c):
            for r in ("lt", "geu"):
                yield Op("set.%s%s.%s.%s {d}, {a}, {b};" % (r, f, c, c), c, c, c)
                yield Op("set.%s%s.u32.%s {d}, {a}, {b};" % (r, f, c), "i32", c, c)


def conversions():
    real = ("f32", "f64", "f16", "bf16")
    width = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
    for a in real:
        for d in real:
            if a == d:
                for r in (".rni", ".rzi", ".rmi", ".rpi"):
                    for f in ftz(a) if a == "f32" else [""]:
                        yield Op("cvt%s%s.%s.%s {d}, {a};" % (r, f, d, a), d, a)
                yield Op("cvt.sat.%s.%s {d}, {a};" % (d, a), d, a)
                if a == "f32":
                    yield Op("cvt.ftz.sat.f32.f32 {d}, {a};", d, a)
            elif width[d] > width[a]:
                for f in ("", ".ftz", ".sat") if "f32" in (a, d) else ("", ".sat"):
                    yield Op("cvt%s.%s.%s {d}, {a};" % (f, d, a), d, a)
            else:
                for r in (".rn", ".rz", ".rn.relu") + ((".rm",) if width[a] > width[d] else ()):
                    for f in ("", ".ftz", ".sat") if "f32" in (a, d) else ("", ".sat"):
                        yield Op("cvt%s%s.%s.%s {d}, {a};" % (r, f, d, a), d, a)
        for i, c in (("s32", "i32"), ("u32", "i32"), ("s64", "i64"), ("u64", "i64"), ("s16", "i16"), ("u16", "i16")):
            for r in (".rzi", ".rni", ".rmi", ".rpi.sat"):
                for f in ("", ".ftz") if a == "f32" else ("",):
                    yield Op("cvt%s.%s.%s {d}, {a};" % (r.replace(".sat", "") + f + (".sat" if "sat" in r else ""), i,
                                                        a), c, a)
            for r in (".rn", ".rz", ".rn.sat"):
                yield Op("cvt%s.%s.%s {d}, {a};" % (r, a, i), a, c)
        for i in ("s8", "u8"):
            yield Op("cvt.rzi.sat.%s.%s {t}, {a}; mov.b32 {d}, {t};" % (i, a), "i32", a)
            yield Op("cvt.rn.%s.%s {d}, {a};" % (a, i), a, "i32")
    for c in ("f16x2", "bf16x2"):
        for r in (".rn", ".rz", ".rn.relu"):
            yield Op("cvt%s.%s.f32 {d}, {a}, {b};" % (r, c), c, "f32", "f32")
    for e in ("e4m3x2", "e5m2x2"):
        for r in ("", ".relu"):
            yield Op("cvt.rn.satfinite%s.%s.f32 {d}, {a}, {b};" % (r, e), "e8x2", "f32", "f32")
            yield Op("cvt.rn.satfinite%s.%s.f16x2 {d}, {a};" % (r, e), "e8x2", "f16x2")
            yield Op("cvt.rn%s.f16x2.%s {d}, {a};" % (r, e), "f16x2", "e8x2")
    for r in (".rna", ".rn", ".rn.relu"):
        yield Op("cvt%s.tf32.f32 {t}, {a}; mov.b32 {d}, {t};" % r, "f32", "f32", name="cvt%s.tf32.f32 a" % r)


def bits():
    """Whole numbers' instructions that do to a number's bits what the float ones do to its sign."""
    for op, k in (("and", "0x7fffffff"), ("xor", "0x80000000"), ("or", "0x80000000")):
        yield Op("mov.b32 {t}, {a}; %s.b32 {t}, {t}, %s; mov.b32 {d}, {t};" % (op, k), "f32", "f32",
                 name="%s.b32 a, %s" % (op, k))
    for op, k in (("and", "0x7fff7fff"), ("xor", "0x80008000")):
        yield Op("%s.b32 {d}, {a}, %s;" % (op, k), "f16x2", "f16x2", name="%s.b32 a, %s (f16x2)" % (op, k))
    for op, k in (("and", "0x7fff"), ("xor", "0x8000")):
        yield Op("%s.b16 {d}, {a}, %s;" % (op, k), "f16", "f16", name="%s.b16 a, %s (f16)" % (op, k))


def mixed():
    """Of sm_100: sums of unequal types, two numbers at once."""
    for c in ("f16", "bf16"):
        yield Op("add.rn.f32.%s {d}, {a}, {b};" % c, "f32", c, "f32")
        yield Op("fma.rn.f32.%s {d}, {a}, {b}, {c};" % c, "f32", c, c, "f32")
    for f in ("", ".ftz"):
        yield Op("add.rn%s.f32x2 {d}, {a}, {b};" % f, "f32x2", "f32x2", "f32x2")
        yield Op("mul.rn%s.f32x2 {d}, {a}, {b};" % f, "f32x2", "f32x2", "f32x2")
        yield Op("fma.rn%s.f32x2 {d}, {a}, {b}, {c};" % f, "f32x2", "f32x2", "f32x2", "f32x2")


def table():
    ops = []
    for c in ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2"):
        ops += arithmetic(c)
    for c in ("f32", "f64"):
        ops += with_constants(c)
    for more in (special, compares, conversions, bits, mixed):
        ops += more()
    return ops
