#!/usr/bin/env python3
"""beside.py VERIFY-FILES PTXAS KEEP FILE…: forms and their neighbours, beside ptxas, both ways.

Takes the instructions of generated case files, each form once, and makes neighbours of each: a word left out, a type in
place of another, a word put in front. Of all these, a share of KEEP (drawn with a fixed seed) is given to ptxas and to
the software device. Each stands in an entry of its own, so that one run of ptxas judges many: what its errors name is
refused; where it gives up without naming a line, halves are asked.

  what ptxas takes, we must take                          but for MORE, with the reason
  what ptxas refuses, we should refuse                    LOOSE names the instructions whose rows are looser than
                                                          ptxas: an instruction that is not in it is an error

SHOW=N in the environment prints N of each.
"""
import collections
import concurrent.futures
import os
import random
import re
import subprocess
import sys
import tempfile

TYPES = ("b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64 pred b128 s16x2 u16x2 f32x2 tf32 "
         "e4m3 e4m3x2").split()
WORDS = ("sat ftz rn rz cc wide lo hi relu NaN approx full v2 v4 global shared local gpu volatile relaxed acquire and "
         "lt eq add min sync aligned clamp wrap nc abs noftz satfinite uni").split()
INST = re.compile(r"^\s*(@!?%\w+\s+)?([a-z]\w*(?:[.:]+\w+)*)(\s+[^;]*)?;\s*$")
HEAD = ".version 9.0\n.target %s\n.address_size 64\n"
ARCH = "sm_100a"
CHUNK = 250
# regular expressions of what only ptxas takes, and why
MORE = [(r"(ld|st)matrix\S*\.b(16|8) .*", "an address in a register of 32 bits without .shared"),
        (r"\S*\.(%s)\b(?:[.:]+\w+)*\.\1\b.*" % "|".join(WORDS), "a word twice"),
        (r"ld\.param\S*\.v\d\.\S* .*", "a load that leaves its parameter"),
        (r"wmma\.mma\.\S*\.u32 .*", "an accumulator that no wmma has"),
        (r"mma\.\w+\.sp\b.*", "a word between mma and .sp"),
        (r"(tex|tld4)\.uni\..*", "a word that the manual does not have"),
        (r"(suld|sust)\.[bp]\.(\wd|a\dd)(\.\w+)?\.b\d+\.\w+ .*\{.*,.*\}.*", "more registers than are moved"),
        (r"sured\.b\.\S*32\.\w+ \[.*\], %rd\d+", "a register of 64 bits for 32"),
        (r"tex\.a1d\S*\.s32 .*, %f\d+\}\]", "a float as an integer coordinate"),
        (r"tex\.2d\S* .*\], %[fr]\d+", "comparison of depths, which does not run"),
        (r"wmma\.(load\.c|store\.d)\.\S*m8n8k(32|128)\S*\.f32 .*", "a fragment that no wmma has")]
# what the rows of ops.def leave to others than the verifier
LOOSE = set("abs add addc atom bmsk cvt div dp2a ex2 fma ld ldmatrix ldu lg2 lop3 mad madc match max min mma "
            "mov mul mul24 neg prmt rcp red redux rsqrt set setp shf shfl sin cos slct sqrt st stmatrix sub "
            "subc tanh vote wmma dp4a createpolicy prefetch activemask bfind szext popc copysign testp "
            "movmatrix cp discard fence membar mbarrier wgmma griddepcontrol applypriority".split())


def forms(files):
    """(head, shape of operands): (parameters, declarations, operands)"""
    seen = {}
    for path in files:
        for m in re.finditer(r"(?ms)^\.visible \.entry (\w+)\((.*?)\)\s*\{\n(.*?)^\}",
                             open(path, encoding="utf-8").read()):
            body = m[3].split("\n")
            decl = " ".join(x.strip() for x in body if re.match(r"\s*\.(reg|shared|local|param)\b", x))
            for line in body:
                i = INST.match(line)
                if i and i[2].split(".")[0] not in ("bra", "ret", "exit", "call"):
                    seen.setdefault((i[2], re.sub(r"%?\w+", "r", i[3] or "")), (m[2], decl, i[3] or ""))
    return seen


def neighbours(head):
    w = head.split(".")
    out = {".".join(w[:k] + w[k + 1:]) for k in range(1, len(w))}
    out |= {".".join(w[:k] + [t] + w[k + 1:]) for k in range(1, len(w)) if w[k] in TYPES for t in TYPES}
    return out | {".".join(w[:1] + [a] + w[1:]) for a in WORDS}


def entry(n, v):
    param, decl, head, operands = v
    return f".visible .entry k{n}({param}) {{ {decl}\n{head}{operands};\nret; }}\n"


def refused(ptxas, cases):
    """numbers of the cases that ptxas refuses"""
    bad, live = set(), list(range(len(cases)))
    while live:
        at, line = {}, HEAD.count("\n") + 1
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as f:
            f.write(HEAD % ARCH)
            for n in live:
                f.write(entry(n, cases[n]))
                at.update({line: n, line + 1: n, line + 2: n})
                line += 3
            f.flush()
            r = subprocess.run([ptxas, "-arch=" + ARCH, "-O0", "-o", "/dev/null", f.name], capture_output=True,
                               text=True)
        new = {at[int(m[1])] for m in re.finditer(r"line (\d+); (?:error|fatal)", r.stdout + r.stderr)
               if int(m[1]) in at}
        if not new and r.returncode == 0:
            break
        if not new:
            half = len(live) // 2
            new = set(live) if not half else {live[k] for k in refused(ptxas, [cases[n] for n in live[:half]])} | {
                live[half + k] for k in refused(ptxas, [cases[n] for n in live[half:]])}
            return bad | new
        bad |= new
        live = [n for n in live if n not in bad]
    return bad


def main():
    verify, ptxas, keep, files = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:]
    show, rng = int(os.environ.get("SHOW", "3")), random.Random(1)
    known = forms(files)
    made = {}
    for (head, shape), (param, decl, operands) in sorted(known.items()):
        for h in sorted(neighbours(head) | {head}):
            if (h, shape) not in made and (h == head or (h, shape) not in known) and rng.random() < keep:
                made[h, shape] = (param, decl, h, operands)
    cases = list(made.values())
    rng.shuffle(cases)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = list(pool.map(lambda k: refused(ptxas, cases[k:k + CHUNK]), range(0, len(cases), CHUNK)))
    no = {k * CHUNK + n for k, part in enumerate(parts) for n in part}
    ours = {}
    with tempfile.TemporaryDirectory() as tmp:
        for k in range(0, len(cases), 1000):
            paths = [os.path.join(tmp, f"{n}.ptx") for n in range(k, min(k + 1000, len(cases)))]
            for n, path in enumerate(paths, k):
                with open(path, "w", encoding="utf-8") as f:
                    f.write(HEAD % ARCH + entry(0, cases[n]))
            answers = subprocess.run([verify] + paths, capture_output=True, text=True, check=True).stdout.splitlines()
            if len(answers) != len(paths):
                sys.exit(f"{len(paths)} files, {len(answers)} answers")
            ours.update(enumerate((a.startswith("ok") for a in answers), k))
    tally, bad = collections.Counter(), 0
    more, loose = collections.defaultdict(list), collections.defaultdict(list)
    for n, (_, _, head, operands) in enumerate(cases):
        tally[ours[n], n not in no] += 1
        if not ours[n] and n not in no:
            more[next((why for rx, why in MORE if re.fullmatch(rx, head + operands)), None)].append(head + operands)
        elif ours[n] and n in no:
            loose[head.split(".")[0]].append(head + operands)
    for why, some in sorted(more.items(), key=str):
        print(f"only ptxas takes {len(some)}, {why or 'NOT LISTED'}:", *some[:show], sep="\n    ")
        bad += len(some) if why is None else 0
    for name, some in sorted(loose.items()):
        if name not in LOOSE or show > 3:
            print(f"only we take {len(some)} of {name}{'' if name in LOOSE else ', NOT LISTED'}:", *some[:show],
                  sep="\n    ")
        bad += len(some) if name not in LOOSE else 0
    print(f"{len(cases)} forms: both take {tally[True, True]}, both refuse {tally[False, False]}, only ptxas takes "
          f"{tally[False, True]}, only we take {tally[True, False]}; {bad} not listed")
    return 1 if bad or not tally[True, True] or not tally[False, False] else 0


if __name__ == "__main__":
    sys.exit(main())
