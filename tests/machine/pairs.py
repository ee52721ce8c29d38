#!/usr/bin/env python3
"""Which two float operations does ptxas make one, and does hiding the value between them stop it?

For a pair (a, b) of floatops.py, and an operand place of b (or all places: x + x): a alone and b alone are two kernels;
`plain` is one in which b takes a's result from a register; `hidden` takes it through an xor with a launch parameter, as
a joint of a fused kernel does (docs/BITS.md). The pair combines where the float instructions of the one kernel are not
those of the two kernels together.

Asserted: no hidden pair combines, and no hidden chain of three with two words. Counted and printed: plain pairs that
do, which hiding is for, and chains of an operation, two xors of the same word with nothing between, and another, which
fold back to the plain pair.

    pairs.py [--all | --pairs N] [--seed N] [--arch sm_90,…] [--list] [--op TEXT]

--all: every pair, in the order of the table; else N of them by the seed. --list: each plain pair that combines, with
what it became.
"""
import argparse
import collections
import concurrent.futures
import random
import re
import sys

import floatops
import shapes

KNOWN = [  # always among those looked at: with ptxas 13.0 they combine
    ("div.approx.f32 a, b", "add.f32 a, b"), ("mul.f32 a, b", "add.f32 a, b"), ("mul.f32 a, b", "sub.f32 a, b"),
         ("neg.f32 a", "neg.f32 a"), ("neg.f32 a", "abs.f32 a"),
    ("abs.f32 a", "neg.f32 a"), ("rcp.approx.ftz.f32 a", "rcp.approx.ftz.f32 a"), ("min.f32 a, 1", "max.f32 a, 0"),
         ("mul.f32 a, b", "mul.f32 a, 0.5"), ("mul.f32 a, b", "mul.f32 a, 2"),
    ("mul.f64 a, b", "add.f64 a, b"), ("mul.f16 a, b", "add.f16 a, b"), ("mul.f16x2 a, b", "add.f16x2 a, b"),
         ("ex2.approx.ftz.f32 a", "rcp.approx.ftz.f32 a"),
]
BATCH = 400  # kernels of a module
CHAINS = 8   # of three, for every hundred pairs, of those that combine
LETTERS = "abc"


class Kernel:
    """Text of one kernel: values by number, instructions in order."""

    def __init__(self, name):
        self.name, self.text, self.n, self.at = name, [], 0, 0

    def reg(self):
        self.n += 1
        return self.n

    def value(self, cls):
        """A value from memory."""
        size, kind, access = floatops.CLASSES[cls]
        r = "%%%s_%d" % (kind, self.reg())
        self.text.append(".reg .%s %s; ld.global.%s %s, [%%in+%d];" % (kind, r, access, r, self.at))
        self.at += 16
        return r

    def apply(self, op, given):
        """The operation, operands by place from `given`, others from memory."""
        args = {LETTERS[k]: given[k] if k in given else self.value(c) for k, c in enumerate(op.operands)}
        n = self.reg()
        kind = floatops.CLASSES[op.out][1]
        d = "%%%s_%d" % (kind, n)
        for letter, k in (("p", "pred"), ("t", "b32"), ("u", "b32")):
            if "{%s}" % letter in op.text:
                self.text.append(".reg .%s %%%s_%d;" % (k, letter, n))
                args[letter] = "%%%s_%d" % (letter, n)
        self.text.append(".reg .%s %s; %s" % (kind, d, op.text.format(d=d, **args)))
        return d

    def hide(self, value, cls, word):
        """The value, through an xor with a launch parameter: as rewrite/inline/cross.c writes it."""
        size, kind, _ = floatops.CLASSES[cls]
        n, b = self.reg(), size * 8
        w = "%%w_%d" % n
        self.text.append(".reg .b32 %s; .reg .b%d %%x_%d, %%z_%d; ld.param.u32 %s, [%s_w%d];"
                         % (w, b, n, n, w, self.name, word))
        z = "%%z_%d" % n
        self.text.append({2: "cvt.u16.u32 Z, W;", 4: "mov.b32 Z, W;", 8: "mov.b64 Z, {W, W};"}[size].replace("Z",
            z).replace("W", w))
        if kind[0] == "b":
            self.text.append("xor.b%d %%x_%d, %s, %%z_%d;" % (b, n, value, n))
            return "%%x_%d" % n
        d = "%%h_%d" % n
        self.text.append("mov.b%d %%x_%d, %s; xor.b%d %%x_%d, %%x_%d, %%z_%d; .reg .%s %s; mov.b%d %s, %%x_%d;"
                         % (b, n, value, b, n, n, n, kind, d, b, d, n))
        return d

    def done(self, value, cls):
        params = ", ".join([".param .u64 %s_i, .param .u64 %s_o" % (self.name, self.name)]
                           + [".param .u32 %s_w%d" % (self.name, k) for k in (0, 1)])
        return (".visible .entry %s(%s) { .reg .b64 %%in, %%out; ld.param.u64 %%in, [%s_i]; ld.param.u64 %%out, "
                "[%s_o]; %s "
                "st.global.%s [%%out], %s; ret; }" % (self.name, params, self.name, self.name, " ".join(self.text),
                                                      floatops.CLASSES[cls][2], value))


def places(a, b):
    """Which operands of b take a's result: each that can, and all of them."""
    able = [k for k, c in enumerate(b.operands) if c == a.out]
    return [(k,) for k in able] + ([tuple(able)] if len(able) > 1 else [])


def alone(name, op):
    k = Kernel(name)
    return k.done(k.apply(op, {}), op.out)


def same(name, op, where):
    """The operation by itself, one value in all these places: x + x is not x + y."""
    k = Kernel(name)
    v = k.value(op.operands[where[0]])
    return k.done(k.apply(op, {w: v for w in where}), op.out)


def chain(name, ops, where, words):
    """ops in a row; between two of them the words to hide by, in order."""
    k = Kernel(name)
    v = k.apply(ops[0], {})
    for op, at, hidden, before in zip(ops[1:], where, words, ops):
        for w in hidden:
            v = k.hide(v, before.out, w)
        v = k.apply(op, {p: v for p in at})
    return k.done(v, ops[-1].out)


class Machine:
    """An architecture: assembles kernels, many in a module."""

    def __init__(self, tools, arch):
        self.ptxas, self.nvdisasm = tools
        self.arch = arch
        self.constant = set() # names of kernels that load nothing: x < x

    def head(self):
        return ".version 8.8\n.target %s\n.address_size 64\n" % self.arch

    def shapes(self, kernels):
        """{name: shapes} of {name: text}; what does not assemble is missing."""
        found = {}
        left = dict(kernels)
        while left:
            order = list(left)
            cubin, wrong = shapes.assemble(self.ptxas, self.head() + "\n".join(left[n] for n in order), self.arch)
            if cubin:
                for name, lines in shapes.disassemble(self.nvdisasm, cubin).items():
                    found[name] = shapes.Shapes(lines)
                    if shapes.constant(lines):
                        self.constant.add(name)
                break
            for line, _ in wrong:
                left.pop(order[line - 4], None)
        return found

    def all(self, kernels):
        names = list(kernels)
        parts = [{n: kernels[n] for n in names[k:k + BATCH]} for k in range(0, len(names), BATCH)]
        found = {}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for f in pool.map(self.shapes, parts):
                found.update(f)
        return found


class Measure:
    """An architecture's operations alone, and what comes of pairs and chains of them."""

    def __init__(self, machine, ops, pairs, rng, options):
        self.machine, self.ops, self.rng, self.options = machine, ops, rng, options
        self.count, self.wrong, self.by_type, self.meet = collections.Counter(), [], collections.Counter(), []
        # of subroutines
        general = {k for k, op in enumerate(ops) if re.match(r"(div|rcp|sqrt)\.rn[.a-z]*f(32|64) a(, b)?$", op.name)}
        used = sorted({k for p in pairs for k in p} | general)
        self.single = machine.all({"a%d" % k: alone("a%d" % k, ops[k]) for k in used})
        self.have = [k for k in used if "a%d" % k in self.single]
        self.lacks = len(used) - len(self.have)
        self.pairs = [(i, k) for i, k in pairs if "a%d" % i in self.single and "a%d" % k in self.single]
        repeated = {(k, w) for i, k in self.pairs for w in places(ops[i], ops[k]) if len(w) > 1}
        self.single |= machine.all({self.same(k, w): same(self.same(k, w), ops[k], w) for k, w in repeated})
        self.forms = collections.defaultdict(list)
        for s in self.single.values():
            for name, sub in s.subs.items():
                self.forms[name].append(sub)

    @staticmethod
    def same(k, where):
        return "s%d_%s" % (k, "".join(map(str, where)))

    def parts(self, three, where):
        """The operations' own instructions: of kernels of their own."""
        want = self.single["a%d" % three[0]]
        for k, w in zip(three[1:], where):
            want = want + self.single[self.same(k, w) if len(w) > 1 else "a%d" % k]
        return want

    def look(self, kernels, kind, asserted):
        """Assemble {name: (text, numbers, places)}; those that are not the sum of their parts. `asserted`: they are
        wrong."""
        made = self.machine.all({n: v[0] for n, v in kernels.items()})
        out = []
        for n, (_, three, where) in kernels.items():
            self.count[kind] += 1
            want = self.parts(three, where)
            wrong = want.difference(made[n], self.forms) if n in made else "does not assemble"
            if not wrong:
                continue
            self.count["combined " + kind] += 1
            out.append((three, where))
            text = "%s: %s: %s" % (kind, ", then ".join([self.ops[three[0]].name]
                                                        + ["%s at %s"
                                                           % (self.ops[k].name, "".join(LETTERS[x] for x in w))
                                                                                    for k, w in zip(three[1:], where)]),
                                   wrong)
            if asserted:
                self.wrong.append(text)
            elif self.options.list:
                print(self.machine.arch, text)
        return out

    def two(self):
        for at in range(0, len(self.pairs), BATCH):
            plain, hidden = {}, {}
            for i, k in self.pairs[at:at + BATCH]:
                for w in places(self.ops[i], self.ops[k]):
                    if len(w) > 1 and self.same(k, w) in self.machine.constant:
                        continue  # x < x
                    key = "%d_%d_%s" % (i, k, "".join(map(str, w)))
                    plain["p" + key] = chain("p" + key, (self.ops[i], self.ops[k]), (w,), ((),)), (i, k), (w,)
                    hidden["h" + key] = chain("h" + key, (self.ops[i], self.ops[k]), (w,), ((0,),)), (i, k), (w,)
            met = self.look(plain, "plain", False)
            self.meet += met
            self.by_type.update(self.ops[three[0]].out for three, _ in met)
            self.look(hidden, "hidden", True)

    def three(self):
        """Three in a row, the first two of which would combine; and those two by more words than one."""
        chosen = self.rng.sample(self.meet, min(len(self.meet), max(20, len(self.pairs) * CHAINS // 100)))
        longer, words = {}, {kind: {} for kind in ("hidden by two words in turn", "one word twice",
                                                   "two words twice in turn")}
        for n, ((i, k), (w,)) in enumerate(chosen):
            two = self.ops[i], self.ops[k]
            for kind, row in zip(words, ((0, 1), (0, 0), (0, 1, 0, 1))):
                words[kind]["w%d" % n] = chain("w%d" % n, two, (w,), (row,)), (i, k), (w,)
            after = [m for m in self.have if self.ops[k].out in self.ops[m].operands]
            if not after:
                continue
            m = self.rng.choice(after)
            v = places(self.ops[k], self.ops[m])[0]
            longer["c%d" % n] = chain("c%d" % n, two + (self.ops[m],), (w, v), ((0,), (1,))), (i, k, m), (w, v)
        self.look(longer, "hidden chain of three", True)
        for kind in words:
            self.look(words[kind], kind, kind.startswith("hidden"))

    def say(self):
        print("%s: %d operations (%d that it lacks), %d pairs" % (self.machine.arch, len(self.have), self.lacks,
                                                                  len(self.pairs)))
        for kind in ("plain", "hidden", "hidden chain of three", "hidden by two words in turn", "one word twice",
                     "two words twice in turn"):
            print("  %-28s %7d, of which combine %5d" % (kind, self.count[kind], self.count["combined " + kind]))
        print("  plain ones that combine, by type of the value: "
              + ", ".join("%s %d" % x for x in self.by_type.most_common()))
        for w in self.wrong[:40]:
            print("  WRONG: " + w)


def measure(machine, ops, pairs, rng, options):
    m = Measure(machine, ops, pairs, rng, options)
    m.two()
    m.three()
    m.say()
    return len(m.wrong) + (not m.count["combined plain"])  # where nothing combines, nothing was tested


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--all", action="store_true")
    p.add_argument("--pairs", type=int, default=600)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--arch", default="sm_90")
    p.add_argument("--list", action="store_true")
    p.add_argument("--op", help="only pairs with an operation whose name holds this")
    o = p.parse_args()
    tools = shapes.tools()
    print("ptxas %s, nvdisasm %s" % tuple(map(shapes.version, tools)))
    ops = floatops.table()
    pairs = [(i, k) for i, a in enumerate(ops) for k, b in enumerate(ops) if a.out in b.operands
             and (not o.op or o.op in a.name or o.op in b.name)]
    rng = random.Random(o.seed)
    if not o.all:
        number = {op.name: k for k, op in enumerate(ops)}
        known = [(number[a], number[b]) for a, b in KNOWN]
        pairs = sorted(set(rng.sample(pairs, min(o.pairs, len(pairs))) + ([] if o.op else known)))
    return 1 if sum([measure(Machine(tools, a), ops, pairs, rng, o) for a in o.arch.split(",")]) else 0


if __name__ == "__main__":
    sys.exit(main())
