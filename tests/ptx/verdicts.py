#!/usr/bin/env python3
"""verdicts.py VERIFY-FILES PTXAS FILE… [--count N] [--seed N] [--show]: is refused what ptxas refuses?

Takes good PTX, breaks one instruction at a time (a type, a modifier, an operand, a register of another kind, a label, a
state space, a missing word) and asks both. Most mutations stay legal, so both kinds of disagreement count. Prints a
table by kind of mutation:

  both accept / both refuse / only ptxas refuses / only we refuse

Not a test: ptxas is not everywhere, and its verdict depends on its version. What it found is in refused.txt
(refused.py), what is left in README.md.
"""
import argparse
import collections
import os
import random
import re
import subprocess
import sys
import tempfile

TYPES = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 f32 f64 pred".split()
WORDS = ("rn rz sat ftz approx full lo hi wide cc uni sync global shared local volatile relaxed acquire gpu cta v2 v4 "
         "nc ca add and lt eq".split())
INST = re.compile(r"^(\s*(?:@!?%\w+\s+)?)([a-z][\w.:]*)(\s+)([^;{}]*(?:\{[^;{}]*\}[^;{}]*)*);(.*)$")


def split(operands):
    out, depth, at = [], 0, 0
    for k, c in enumerate(operands):
        depth += c in "[{(" 
        depth -= c in "]})"
        if c == "," and not depth:
            out.append(operands[at:k].strip())
            at = k + 1
    return out + [operands[at:].strip()]


def mutate(rng, lines, where):
    """(kind, new line) of one random change of an instruction."""
    pre, word, gap, operands, rest = INST.match(lines[where]).groups()
    parts, ops = word.split("."), split(operands)
    kind = rng.choice(["type", "modifier", "drop-word", "add-word", "drop-operand", "add-operand", "register",
                       "constant", "address", "label"])
    if kind == "type":
        at = [k for k, p in enumerate(parts) if p in TYPES]
        if not at:
            return None
        parts[rng.choice(at)] = rng.choice(TYPES)
    elif kind == "modifier":
        if len(parts) < 2:
            return None
        parts[rng.randrange(1, len(parts))] = rng.choice(WORDS)
    elif kind == "drop-word":
        if len(parts) < 2:
            return None
        del parts[rng.randrange(1, len(parts))]
    elif kind == "add-word":
        parts.insert(rng.randrange(1, len(parts) + 1), rng.choice(WORDS))
    elif kind == "drop-operand":
        del ops[rng.randrange(len(ops))]
    elif kind == "add-operand":
        ops.insert(rng.randrange(len(ops) + 1), rng.choice(ops))
    elif kind == "register":
        names = sorted({r for line in lines for r in re.findall(r"%[a-z]\w*", line)}
                       - {"%tid", "%ntid", "%ctaid", "%nctaid", "%laneid"})
        at = [k for k, o in enumerate(ops) if o.startswith("%")]
        if not at or not names:
            return None
        ops[rng.choice(at)] = rng.choice(names)
    elif kind == "constant":
        ops[rng.randrange(len(ops))] = rng.choice(["1", "-1", "0f3F800000", "1.5", "0xFFFFFFFFFF"])
    elif kind == "address":
        at = [k for k, o in enumerate(ops) if o.startswith("[")]
        if not at:
            return None
        k = rng.choice(at)
        ops[k] = rng.choice([ops[k][1:-1], "[" + ops[k] + "]", ops[k][:-1] + "+4]", "[nowhere]", ops[k][:-1] + "+%r1]"])
    else:
        if parts[0] != "bra":
            return None
        ops[0] = "nowhere"
    return kind, f"{pre}{'.'.join(parts)}{gap}{', '.join(ops)};{rest}"


def entries(path):
    """Single entries of a file: the head with what stands outside of entries, and the entry, in which to mutate."""
    text = re.sub(r"//[^\n]*", "", open(path, encoding="utf-8").read())
    if ".version" not in text:
        return
    text = text[text.index(".version"):]
    found = list(re.finditer(r"(?m)^\.visible \.entry .*?^\}\n", text, re.S))
    outside = re.sub(r"(?m)^\.visible \.entry .*?^\}\n", "", text, flags=re.S)
    for m in found:
        yield outside + "\n", m[0]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("verify"), a.add_argument("ptxas"), a.add_argument("files", nargs="+")
    a.add_argument("--count", type=int, default=300), a.add_argument("--seed", type=int,
                                                                     default=1), a.add_argument("--show",
                                                                         action="store_true")
    a.add_argument("--arch", default="sm_90a")
    o = a.parse_args()
    rng = random.Random(o.seed)
    good = [e for f in sorted(o.files) for e in entries(f)]
    tally, shown = collections.Counter(), []
    with tempfile.TemporaryDirectory() as tmp:
        made = []
        while len(made) < o.count:
            outside, entry = rng.choice(good)
            lines, first = (outside + entry).split("\n"), outside.count("\n")
            at = [k for k, line in enumerate(lines) if k > first and INST.match(line)
                  and not line.lstrip().startswith(".")]
            if not at:
                continue
            where = rng.choice(at)
            m = mutate(rng, lines, where)
            if not m or m[1] == lines[where]:
                continue
            path = os.path.join(tmp, f"{len(made)}.ptx")
            with open(path, "w", encoding="utf-8") as f:
                f.write("\n".join(lines[:where] + [m[1]] + lines[where + 1:]))
            made.append((m[0], lines[where].strip(), m[1].strip(), path))
        said = {}
        for line in subprocess.run([o.verify] + [p for *_, p in made], capture_output=True, text=True,
                                   check=True).stdout.splitlines():
            said[line[3:].split(":")[0]] = line
        for kind, before, after, path in made:
            ours = said[path].startswith("ok")
            r = subprocess.run([o.ptxas, f"-arch={o.arch}", "-O0", "-o", "/dev/null", path], capture_output=True,
                               text=True)
            theirs = r.returncode == 0
            tally[kind, ours, theirs] += 1
            if ours != theirs:
                shown.append((ours, kind, before, after,
                              (r.stdout + r.stderr if ours else said[path]).strip().split("\n")[0][-110:]))
    print(f"{'mutation':14} {'accept':>7} {'refuse':>7} {'only ptxas refuses':>19} {'only we refuse':>15}")
    for kind in sorted({k for k, *_ in tally}):
        print(f"{kind:14} {tally[kind, True, True]:7} {tally[kind, False, False]:7} {tally[kind, True, False]:19} "
              f"{tally[kind, False, True]:15}")
    print(f"{o.count} mutations, {sum(v for (k, a, b), v in tally.items() if a != b)} disagreements")
    for s in sorted(shown) if o.show else []:
        print(("only we refuse    " if not s[0] else "only ptxas refuses"), *s[1:], sep=" | ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
