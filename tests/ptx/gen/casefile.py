"""Writes files of RUN cases (see ../run.c): one entry and one case per form, one lane per row of operands; and draws
operands.

What there is to write comes from the table ../forms.txt: see table(). Each script here writes one file: `python3
floats.py FILE`.
"""
import os
import random
import re
import sys
from fractions import Fraction as F

import forms
from exact import EDGE, FMT, decode, encode, mul, neg, num

rng = random.Random(20260101)
HERE = os.path.dirname(os.path.abspath(__file__))
LINES = forms.read(os.path.join(HERE, "..", "forms.txt"))
NAMES = forms.mnemonics(os.path.join(HERE, "../../../ptx/ops.def"))
TYPE = re.compile(r"(?:[busf]|bf|tf|u?e\dm)\d+(?:x\d)?$|pred$")


class Form:
    """A form of the table. .op: mnemonic; .mods: modifiers; .types; .text: as PTX has it; .shape: kinds of operands, ""
    any"""

    def __init__(self, head, shape, op):
        words = head[len(op) + 1:].split(".") if len(head) > len(op) else []
        self.op, self.text, self.shape = op, head, shape
        self.types = [w for w in words if TYPE.match(w)]
        self.mods = [w for w in words if not TYPE.match(w)]
        self.mode = next((m for m in self.mods if m in ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi")), "")
        self.ftz, self.sat, self.relu = "ftz" in self.mods, "sat" in self.mods, "relu" in self.mods

    @property
    def t(self):
        return self.types[0]


def table(*ops):
    """the forms of these instructions that must run, in the order of the table"""
    seen = set()
    for x in LINES:
        rows = {forms.row_of(h, NAMES) for h in x.heads()} if x.kind in ("all", "pairs") else set()
        if not rows & set(ops):
            continue
        for head, shape in x.wanted() if x.kind == "all" else [(h, s) for h in x.sample() for s in x.shapes or [""]]:
            op = forms.row_of(head, NAMES)
            if op in ops and (head, shape) not in seen:
                yield Form(head, shape, op)
            seen.add((head, shape))


def floats(t, n):
    w = FMT[t][2]
    out = []
    for _ in range(n):
        k = rng.random()
        if k < 0.3:
            out.append(rng.choice(EDGE[t]))
        elif k < 0.5:
            out.append(rng.getrandbits(w))
        else:
            out.append(encode(num(F(rng.getrandbits(40) - (1 << 39)) * F(2) ** rng.randint(-60, -20)), t, "rz"))
    return out


def pairs(t):
    e = EDGE[t]
    rows = [(a, b) for a in e for b in rng.sample(e, 6)]
    return rows + list(zip(floats(t, 60), floats(t, 60)))


def triples(t):
    e = EDGE[t]
    rows = [(a, rng.choice(e), rng.choice(e)) for a in e for _ in range(5)]
    for a, b in zip(floats(t, 60), floats(t, 60)):  # nearly cancelling
        c = encode(neg(mul(decode(a, t), decode(b, t))), t)
        rows += [(a, b, c), (a, b, rng.choice(e)), (a, b, floats(t, 1)[0])]
    return rows


REG = {8: "b16", 16: "b16", 32: "b32", 64: "b64"}


def halves(t):
    """f16 of f16x2, None of others"""
    return t[:-2] if t in ("f16x2", "bf16x2") else None


def width(t):
    return int("".join(c for c in t if c.isdigit())[-2:]) if t not in ("u8", "s8", "b8", "f16x2", "bf16x2",
        "pred") else (
        {"u8": 8, "s8": 8, "b8": 8, "f16x2": 32, "bf16x2": 32}[t])


class File:
    def __init__(self, name, target="sm_90"):
        self.name, self.target, self.head, self.body, self.n = name, target, [], [], 0

    def case(self, text, din, tin, rows, want, setup="", regs="", tol=""):
        """`text` uses %d %a %b %c; din: type of d; tin: types of the sources; rows: tuples of bits; want: bits of d."""
        entry = "t%d" % self.n
        self.n += 1
        n = len(rows)
        names = "abc"[:len(tin)]
        self.head.append("// RUN %s grid=%d block=32" % (entry, (n + 31) // 32))
        for k, t in enumerate(tin):
            vals = [r[k] for r in rows] + [0] * (-n % 32)
            self.head.append("// BUF %s u%d %s" % (names[k], width(t),
                                                   " ".join("%#x" % (v & ((1 << width(t)) - 1)) for v in vals)))
        self.head.append("// BUF d u%d 0*%d" % (width(din), n))
        self.head.append("// ARG u32 %d" % n)
        self.head.append("// OUT d %s %s" % ("%s ~%s" % (din, tol) if tol else "u%d" % width(din),
                                             " ".join("%#x" % (v & ((1 << width(din)) - 1)) for v in want)))
        b = [".visible .entry %s(%s .param .u64 d, .param .u32 n)"
             % (entry, "".join(".param .u64 %s, " % c for c in names)), "{",
             "    .reg .b64 %p, %q, %w; .reg .b32 %i, %j, %n, %z; .reg .pred %out, %x, %y; " + regs]
        b += ["    .reg .%s %%%s;" % (REG[width(t)], c) for c, t in list(zip(names, tin)) + [("d", din)]]
        b += ["    mov.u32 %i, %ctaid.x;", "    mov.u32 %j, %tid.x;", "    mad.lo.u32 %i, %i, 32, %j;",
              "    ld.param.u32 %n, [n];",
              "    setp.ge.u32 %out, %i, %n;", "    @%out bra END;"]
        for c, t in zip(names, tin):
            b += ["    ld.param.u64 %%p, [%s];" % c, "    mad.wide.u32 %%p, %%i, %d, %%p;" % (width(t) // 8),
                  "    ld.global.b%d %%%s, [%%p];" % (width(t), c)]
        b += ["    %s" % x.strip() for x in (setup + text).split("\n")]
        b += ["    ld.param.u64 %p, [d];", "    mad.wide.u32 %%p, %%i, %d, %%p;" % (width(din) // 8),
              "    st.global.b%d [%%p], %%d;" % width(din), "END:", "    ret;", "}"]
        self.body.append("\n".join(["// " + text.replace("\n", " ")] + b))

    def write(self, path):
        with open(path, "w") as f:
            f.write("// Made by tests/ptx/gen/%s.py.\n" % self.name + "\n".join(self.head)
                    + "\n.version 9.0\n.target %s\n.address_size 64\n\n" % self.target)
            f.write("\n\n".join(self.body) + "\n")


def ints(w):
    m = (1 << w) - 1
    return sorted({0, 1, 2, 3, 7, 31, 32, 33, 100, m, m - 1, m >> 1, (m >> 1) + 1, (m >> 1) + 2, 0x5555555555555555 & m,
                   0xFFFF0000 & m, 0x80 & m,
                   rng.getrandbits(w), rng.getrandbits(w)})


def warp_case(f, body, args, outs, note, shared=0):
    """args: (name, width, values); outs: (name, width, expected)"""
    entry = "t%d" % f.n
    f.n += 1
    f.head.append("// RUN %s block=32" % entry)
    hexes = lambda w, v: " ".join("%#x" % (x & ((1 << w) - 1)) for x in v)
    for name, w, v in args:
        f.head.append("// BUF %s u%d %s" % (name, w, hexes(w, v)))
    for name, w, v in outs:
        f.head.append("// BUF %s u%d 0*%d" % (name, w, len(v)))
    for name, w, v in outs:
        f.head.append("// OUT %s u%d %s" % (name, w, hexes(w, v)))
    names = [x[0] for x in args] + [x[0] for x in outs]
    b = ["// " + note, ".visible .entry %s(%s)" % (entry, ", ".join(".param .u64 %s" % n for n in names)), "{",
         "    .reg .b64 %p, %l; .reg .b32 %i, %x, %y, %z, %a<32>, %b<32>, %c<32>, %d<32>; .reg .b64 %A<8>, %B<8>, "
         "%C<8>, %D<8>;"]
    if shared:
        b.append("    .shared .align 16 .b8 s[%d];" % shared)
    b += ["    mov.u32 %i, %tid.x;"] + ["    " + x for x in body] + ["    ret;", "}"]
    f.body.append("\n".join(b))


def move_regs(op, name, reg, n, w):
    """load or store registers reg0 … of a fragment, [r][lane]"""
    out = ["ld.param.u64 %%p, [%s];" % name, "mad.wide.u32 %%p, %%i, %d, %%p;" % (w // 8)]
    for r in range(n):
        at = "[%%p+%d]" % (r * 32 * w // 8)
        out.append("ld.global.b%d %%%s%d, %s;" % (w, reg, r, at) if op == "ld" else "st.global.b%d %s, %%%s%d;"
                   % (w, at, reg, r))
    return out


def vec(reg, n):
    return "{" + ", ".join("%%%s%d" % (reg, r) for r in range(n)) + "}"


def main(make):
    make().write(sys.argv[1])
