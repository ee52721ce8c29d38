"""ptxas and nvdisasm for tests: text in, for every kernel its float instructions as shapes.

A shape is an instruction with its modifiers, signs, immediates and operand selections, and registers left out; factors
and terms are in one order, so that FFMA R, -R and FFMA -R, R are one. Left out are instructions that only move bits:
constants by HFMA2, FSEL without a sign. A kernel's subroutines (slow ways of division and root, which two divisions
share) stand apart by name.

The programs are found by DOVETAIL_PTXAS and DOVETAIL_NVDISASM (./dev test sets them).
"""
import collections
import os
import re
import subprocess
import sys
import tempfile

FLOAT = re.compile(r"U?(F(ADD|MUL|FMA|MNMX3?|SETP?|SEL|CHK|RND|SWZADD|2F|2FP|2I|2IP)\d*|D(ADD|MUL|FMA|SETP|MNMX)|"
                   r"H(ADD|MUL|FMA|MNMX|SETP?)2|MUFU|I2F|I2FP|I2I?P|F2FP|HADD2_32I)$")
LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[T0-9]\s+)?([A-Z][A-Z0-9_]*)((?:\.[A-Za-z0-9_]+)*)\s*(.*?)\s*;")
REGISTER = re.compile(r"\bU?R\d+\b|\bc\[[^\]]*\]\[[^\]]*\]|\bcx\[[^\]]*\]\[[^\]]*\]")
PREDICATE = re.compile(r"!?\bU?P\d\b")


def tools():
    """ptxas, nvdisasm; ends the test as skipped where one is missing."""
    found = [os.environ.get("DOVETAIL_PTXAS"), os.environ.get("DOVETAIL_NVDISASM")]
    if not all(f and os.access(f, os.X_OK) for f in found):
        print("skipped: DOVETAIL_PTXAS and DOVETAIL_NVDISASM name no programs")
        sys.exit(77)
    return found


def version(program):
    text = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"V(\d+\.\d+\.\d+)", text).group(1)


def assemble(ptxas, text, arch, options=("-O3",)):
    """The cubin, or a list of (line, message)."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = folder + "/m.ptx", folder + "/m.cubin"
        with open(source, "w") as f:
            f.write(text)
        p = subprocess.run([ptxas, "-w", *options, "-arch=" + arch, source, "-o", cubin], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
        if p.returncode:
            wrong = [(int(n), m) for n, m in re.findall(r"line (\d+); *(.*)", p.stdout)]
            if not wrong:
                raise RuntimeError("ptxas: " + p.stdout[:2000])
            return None, wrong
        with open(cubin, "rb") as f:
            return f.read(), []


def disassemble(nvdisasm, cubin):
    """By kernel: its lines of text, labels included."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as f:
        f.write(cubin)
        f.flush()
        text = subprocess.run([nvdisasm, "-c", "-ndf", f.name], stdout=subprocess.PIPE, text=True, check=True).stdout
    kernels, name = {}, None
    for line in text.splitlines():
        if line.startswith(".text."):
            name = line[6:].rstrip(":")
            kernels[name] = []
        elif name is not None:
            kernels[name].append(line)
    return kernels


def signs(operand):
    """-R, |R|, -|R| as sign and rest."""
    return (True, operand[1:]) if operand.startswith("-") and not re.match(r"-[\d.]|-INF|-QNAN", operand) else (False,
        operand)


def alike(op, mods, args):
    """One form for what ptxas writes in two, by which unit is free: the half-precision units, and conversions with one
    operand or two."""
    mods = mods.replace(".MMA", "")
    if op == "HFMA2" and len(args) == 4 and args[1:3] == ["1", "1"]:  # a 1 + c
        return "HADD2", mods, [args[0], args[3]]
    if op == "HFMA2" and len(args) == 3 and args[2] == "-RZ":
        return "HMUL2", mods, args[:2]
    if op == "I2F" and re.match(r"\.[US](8|16)\b", mods):
        return "I2FP", ".F32.%s32" % mods[1] + re.sub(r"^\.[US]\d+", "", mods), args
    if op == "F2FP" and len(args) == 2 and args[0] == "RZ" and ".PACK_AB" in mods:
        mods = mods.replace(".PACK_AB", "")  # sm_80 leaves out what it always is
        return ("F2F", mods if mods.startswith(".F16.F32") or ".BF16.F32" in mods else ".BF16.F32" + mods[5:]
                if mods.startswith(".BF16") else ".F16.F32" + mods, args[1:])
    if op == "HADD2" and args == ["R.F32", "-RZ.H0_H0"]:  # sm_75
        return "F2F", ".F16.F32.RZ" + mods, ["R"]
    return op, mods, args


def number_or(operand):
    """A number in the instruction as one in a register."""
    return re.sub(r"^(-?)(?:[\d.]+(?:e[-+]\d+)?|\+?INF|\+?QNAN)$", r"\1R", operand)


def shape(op, mods, operands, loose=False):
    """None where it moves bits only. `loose`: numbers as registers."""
    left = [PREDICATE.sub("P", REGISTER.sub("R", o.replace(".reuse", ""))).strip()
            for o in operands.split(",")] if operands else []
    dest = left[:2] if op.endswith("SETP") or op.endswith("SETP2") else left[:1]
    args = left[len(dest):]
    values = [a for a in args if not re.fullmatch(r"!?U?P[T\d]?", a)]
    if op in ("FSEL", "HFMA2", "DFMA", "FFMA") and "R" not in "".join(v.replace("RZ", "").replace("URZ", "")
                                                                      for v in values):
        return None
    if op == "FSEL" and not any(v[0] in "-|" for v in values):
        return None
    op, mods, args = alike(op, mods, args)
    if loose:
        args = [number_or(a) for a in args]
    if op in ("FFMA", "FMUL", "DFMA", "DMUL", "HFMA2", "HMUL2") and len(args) >= 2:
        (s, a), (t, b) = signs(args[0]), signs(args[1])
        a, b = sorted((a, b))
        args[:2] = [("-" if s != t else "") + a, b]
    elif op in ("FADD", "DADD", "HADD2", "FMNMX", "DMNMX", "HMNMX2"):
        args[:2] = sorted(args[:2])
    return " ".join([op + mods, ", ".join(args)])


class Shapes:
    """Of a kernel: its own, `loose` with numbers as registers (two divisions may share the register that holds one),
    and by name its subroutines'."""

    def __init__(self, lines=()):
        self.own, self.loose, self.subs = collections.Counter(), collections.Counter(), {}
        own, loose = self.own, self.loose
        for line in lines:
            if line.startswith("$") and line.endswith(":"):
                own, loose = self.subs.setdefault(re.sub(r"^\$.*\$(?=__)", "", line[:-1]),
                                                  collections.Counter()), collections.Counter()
                continue
            m = LINE.match(line)
            if m and FLOAT.match(m.group(1)) and (s := shape(*m.groups())):
                own[s] += 1
                loose[shape(*m.groups(), loose=True)] += 1

    def __add__(self, other):
        """Both, one behind the other: what they share of subroutines is there once."""
        both = Shapes()
        both.own, both.loose, both.subs = self.own + other.own, self.loose + other.loose, self.subs | other.subs
        return both

    def difference(self, other, forms):
        """What a kernel that should have these instructions has not, and has besides; empty: nothing. A subroutine may
        have any of its forms: those for equal or constant operands are taken where it is called once."""
        out = []
        if self.own != other.own and self.loose != other.loose:
            out = ["-" + s for s in (self.own - other.own).elements()] + ["+" + s
                for s in (other.own - self.own).elements()]
        return "; ".join(out + ["subroutine " + n for n in sorted(self.subs.keys() | other.subs.keys())
                                if n not in self.subs or n not in other.subs or other.subs[n] not in forms[n]])


def constant(lines):
    """Does the kernel load nothing?"""
    return not any(" LDG." in line or " LD." in line for line in lines)
