#!/usr/bin/env python3
"""Do the tests notice? One small change to one place of the C sources, by seed; build; run the tests that should see
it; report.

    mutate.py BUILD [--seed N] [--count N] [--first K] [--only FOLDER|FILE,…] [--minutes N] [--seconds N] [--work DIR]
    [--list]

Nothing happens in the tree or in BUILD (which must be built): both are copied to --work (default: a folder under /tmp
that goes in the end), and only what the change touches is built there. Mutant K of seed N is the same as long as the
sources are. What is changed (mutations()): a condition is negated, a comparison is off by one or turned round, && and
|| change places, a statement that is a call or an assignment goes, a returned truth is the other one, a number is one
more.

Tests: those of the file's folder (TESTS), the ones with the file's name first, then the quick ones, until one fails or
--seconds are over. A test that fails must pass on the unchanged copy, else it does not count (it is run there once). A
mutant is

    caught           by the test that is named: it fails, crashes, or takes more than five times as long as it does
                     without
    same             the compiler makes the same code of it
    not-compiled     the compiler refuses it
    survived         nobody noticed: equivalent, harmless, or a hole. To be looked at by a person (docs/CHECKING.md says
                     what came of it)

Exit status: 0, or 1 if a mutant survived.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# By folder: tests in the order in which they are asked.
TESTS = {
    "rewrite": ["rewrite-*", "diff-inline", "diff-attacks", "diff-fusion", "diff-cluster", "diff-plans", "diff-odd",
                "diff-sample", "fault-measured", "e2e-warnings"],
    "analysis": ["analysis-*", "diff-kinds", "diff-maps", "diff-kernels", "e2e-footprints", "e2e-explain",
                 "rewrite-legal", "rewrite-trial"],
    "device": ["device-*", "fault-driver", "analysis-run", "e2e-stray", "e2e-checks", "fault-worker"],
    "daemon": ["config", "jobs", "http", "report", "trace", "e2e-peer", "e2e-jobs", "e2e-service", "e2e-limits",
               "e2e-bad-input", "e2e-http-abuse", "e2e-cache", "e2e-stored", "e2e-cli",
               "e2e-explain", "fault-worker", "fault-calibrated"],
    "cache": ["signature", "store", "rename", "e2e-cache", "e2e-stored", "e2e-names", "fault-measured"],
    "client": ["e2e-cli", "e2e-bind", "e2e-cache", "e2e-service", "e2e-explain", "e2e-footprints", "e2e-checks",
               "fault-calibrated"],
}
LIMIT = 60  # seconds at least that a test may take


# ---- what can be changed ---------------------------------------------------------------------------------------------
def masked(text):
    """The text with comments, strings and directives blanked, so that places in it are places in the text."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
                         re.S | re.M)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def closing(code, at):
    """Where the bracket that opens at `at` closes."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i
    return -1


SWAPS = {"<=": ["<", ">"], ">=": [">", "<"], "<": ["<=", ">="], ">": [">=", "<="], "==": ["!="], "!=": ["=="],
         "&&": ["||"], "||": ["&&"]}
STATEMENT = re.compile(r"^[ \t]+((?:\*?[A-Za-z_][\w.>\[\]\-()*&+ "
                       r"]*?)(?:[-+|&^*/]|<<|>>)?=[^=].*|[a-z_]\w*\(.*\)|[\w.>\-\[\]]+(?:\+\+|--));[ \t]*$", re.M)
DECLARES = re.compile(r"^(?:const |static |unsigned |struct |enum |u?int(?:\d+_t)? |bool |double |float |char |size_t "
                      r"|ssize_t |json_t |json_int_t |dt_free_ |void |[A-Za-z_]\w* \**[a-z_]\w*(?:\[[^\]]*\])? ?=)")
FREES = re.compile(r"^(?:free|json_decref|\w+_(?:free|done|close|decref)|dt_log|fprintf|close|munmap|dev_say|rw_say|"
                   r"rw_bundle\w*)\(")


def mutations(text):
    """(from, to, instead, what) of every change that there is, in order of place."""
    code, out = masked(text), []
    for m in re.finditer(r"\b(?:if|while) \(", code):
        end = closing(code, m.end() - 1)
        if end > 0:
            out.append((m.end(), end, "!(" + text[m.end():end] + ")", "negate"))
    for m in re.finditer(r" (<=|>=|==|!=|&&|\|\||<|>) ", code):
        if m[1] in ("<", ">") and re.match(r"[a-z_/]+\.h>", code[m.end():]):
            continue
        for swap in SWAPS[m[1]]:
            out.append((m.start(1), m.end(1), swap, f"{m[1]} -> {swap}"))
    for m in STATEMENT.finditer(code):
        line = m[1].strip()
        if not DECLARES.match(line) and not FREES.match(line) and code.count("(", m.start(1),
            m.end(1)) == code.count(")", m.start(1), m.end(1)):
            out.append((m.start(1), m.end(1), "", "drop"))
    for m in re.finditer(r"\breturn (true|false);", code):
        out.append((m.start(1), m.end(1), "false" if m[1] == "true" else "true", "return"))
    for m in re.finditer(r"\breturn ([^;{}\n]*(?:&&|\|\||[<>=!]=|!)[^;{}\n]*);", code):
        out += [(m.start(1), m.end(1), word, "return") for word in ("true", "false")]
    for m in re.finditer(r" [-+] (1)\b(?![.\w])", code):
        out += [(m.start(1), m.end(1), "0", "1 -> 0"), (m.start(1), m.end(1), "2", "1 -> 2")]
    return sorted(set(out))


def choose(root, seed, count, only):
    """[(file, place)]: files by how much there is to change in them, then a place of each; no place twice."""
    files = subprocess.run(["git", "ls-files", *[f"{f}/*.c" for f in TESTS]], cwd=root, capture_output=True, text=True,
                           check=True).stdout.split()
    files = [f for f in files if not only or any(f == o or f.startswith(o.rstrip("/") + "/") for o in only)]
    places = []
    for f in files:
        with open(os.path.join(root, f), encoding="utf-8") as src:
            places.append((f, mutations(src.read())))
    rng, taken, chosen = random.Random(seed), set(), []
    total = sum(len(p) for _, p in places)
    while len(chosen) < min(count, total):
        f, p = rng.choices(places, [len(p) for _, p in places])[0]
        x = rng.choice(p)
        if (f, x[0]) not in taken:
            taken.add((f, x[0]))
            chosen.append((f, x))
    return chosen


# ---- the copy --------------------------------------------------------------------------------------------------------
class Copy:
    def __init__(self, build, work):
        self.root = subprocess.run(["git", "rev-parse", "--show-toplevel"],
                                   cwd=os.path.dirname(os.path.abspath(__file__)), capture_output=True, text=True,
                                   check=True).stdout.strip()
        self.old = os.path.abspath(build)
        self.at = os.path.join(work, "tree")
        self.build = os.path.join(self.at, os.path.relpath(self.old, self.root))
        for f in subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=self.root,
                                capture_output=True, text=True, check=True).stdout.splitlines():
            os.makedirs(os.path.join(self.at, os.path.dirname(f)), exist_ok=True)
            shutil.copy2(os.path.join(self.root, f), os.path.join(self.at, f), follow_symlinks=False)
        subprocess.run(["cp", "-a", "--reflink=auto", self.old, self.build], check=True)
        if os.path.exists(os.path.join(self.root, ".venv")):
            os.symlink(os.path.join(self.root, ".venv"), os.path.join(self.at, ".venv"))
        tests = json.loads(subprocess.run(["meson", "introspect", "--tests", self.old], capture_output=True, text=True,
                                          check=True).stdout)
        self.tests = {t["name"]: t for t in tests}
        self.targeted = json.loads(subprocess.run(["meson", "introspect", "--targets", self.old], capture_output=True,
                                                  text=True, check=True).stdout)
        self.commands = {}  # by file: the objects that are made of it
        for c in json.loads(subprocess.run(["ninja", "-t", "compdb"], cwd=self.build, capture_output=True, text=True,
                                           check=True).stdout):
            if c["output"].endswith(".o"):
                self.commands.setdefault(os.path.normpath(os.path.join(os.path.basename(self.build), c["file"])),
                                         []).append(c["output"])
        self.took = {}  # seconds of its latest run
        self.base = {}  # seconds on the unchanged copy; None: does not pass

    def here(self, s):
        return s.replace(self.old, self.build).replace(os.path.join(self.root, "tests"), os.path.join(self.at, "tests"))

    def ninja(self, targets):
        return subprocess.run(["nice", "ninja", "-C", self.build, *targets], capture_output=True, text=True,
                              check=False)

    def targets(self, t):
        """What a test needs built: what its command names, and what it depends on."""
        named = [os.path.relpath(self.here(a), self.build) for a in t["cmd"] if a.startswith(self.old + "/")]
        ids = set(t["depends"])
        for x in self.targeted:
            if x["id"] in ids:
                named += [os.path.relpath(self.here(f), self.build) for f in x["filename"]]
        return sorted({n for n in named if not n.startswith("..")})

    def run(self, name, limit):
        """(passed or not, seconds); 77 is neither: None."""
        t = self.tests[name]
        env = dict(os.environ) | {k: self.here(v) for k, v in t["env"].items()}
        begin = time.monotonic()
        p = subprocess.Popen(["nice", *map(self.here, t["cmd"])], cwd=t["workdir"] and self.here(t["workdir"])
                             or self.build, env=env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            status = p.wait(limit)
        except subprocess.TimeoutExpired:
            status = -1
        try:
            os.killpg(p.pid, signal.SIGKILL)  # its service and workers
        except ProcessLookupError:
            pass
        p.wait()
        self.took[name] = time.monotonic() - begin
        return None if status == 77 else status == 0, self.took[name]

    def asked(self, file):
        """The names of the tests that are asked about a file."""
        folder, stem = file.split("/")[0], os.path.basename(file)[:-2]
        names = []
        for pattern in TESTS[folder]:
            names += [n for n in self.tests if re.fullmatch(pattern.replace("*", ".*"), n) and n not in names]
        mine = [n for n in names if stem.split("-")[0] in n.split("-", 1)[-1]]
        return mine + sorted((n for n in names if n not in mine), key=lambda n: self.took.get(n, 5))

    def passes(self, name):
        """Does it on the copy as it is?"""
        if name not in self.base:
            self.base[name] = None
            if self.ninja(self.targets(self.tests[name])).returncode == 0:
                passed, seconds = self.run(name, 600)
                self.base[name] = seconds if passed else None
        return self.base[name] is not None

    def code(self, file):
        """What the compiler makes of the file, without what is for debuggers."""
        out, plain = [], os.path.join(self.at, "plain.o")
        for o in sorted(self.commands.get(file, [])):
            subprocess.run(["objcopy", "-g", os.path.join(self.build, o), plain], check=True)
            with open(plain, "rb") as f:
                out.append(f.read())
        return out


def write(path, text):
    with open(path, "r+", encoding="utf-8") as f:
        if f.read() != text:  # else nothing is built again
            f.seek(0)
            f.truncate()
            f.write(text)


def mutate(copy, file, change, most):
    """verdict, by whom, seconds."""
    path, begin, asked = os.path.join(copy.at, file), time.monotonic(), 0
    with open(path, encoding="utf-8") as f:
        text = f.read()
    mutant = text[:change[0]] + change[2] + text[change[1]:]
    objects = copy.commands.get(file, [])
    copy.ninja(objects)
    before = copy.code(file)
    try:
        write(path, mutant)
        if copy.ninja(objects).returncode:
            return "not-compiled", "", time.monotonic() - begin
        if before and copy.code(file) == before:
            return "same", "", time.monotonic() - begin
        for n in copy.asked(file):
            if time.monotonic() - begin > most:
                break
            if n in copy.base and copy.base[n] is None:
                continue
            write(path, mutant)
            linked = copy.ninja(copy.targets(copy.tests[n])).returncode == 0
            passed = linked and copy.run(n, max(LIMIT, 5 * copy.base.get(n, 0)))[0]
            asked += passed is True
            if passed is False:
                write(path, text)
                if copy.passes(n):
                    return "caught", n if linked else "the linker", time.monotonic() - begin
        return "survived", f"{asked} tests", time.monotonic() - begin
    finally:
        write(path, text)


def shown(root, file, change):
    with open(os.path.join(root, file), encoding="utf-8") as f:
        text = f.read()
    line = text.count("\n", 0, change[0]) + 1
    return f"{file}:{line}: {change[3]}: {' '.join(text.splitlines()[line - 1].split())[:120]}"


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("build")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--count", type=int, default=100)
    a.add_argument("--first", type=int, default=0, help="leave out those before")
    a.add_argument("--only", type=lambda s: s.split(","), default=[])
    a.add_argument("--minutes", type=float, default=1e9)
    a.add_argument("--seconds", type=float, default=600, help="for one mutant: no test is begun after these")
    a.add_argument("--work")
    a.add_argument("--list", action="store_true", help="only say what would be changed")
    o = a.parse_args()
    root = subprocess.run(["git", "rev-parse", "--show-toplevel"], cwd=os.path.dirname(os.path.abspath(__file__)),
                          capture_output=True, text=True, check=True).stdout.strip()
    chosen = choose(root, o.seed, o.count, o.only)
    if o.list:
        print("\n".join(f"{o.seed}.{k} {shown(root, f, x)}" for k, (f, x) in enumerate(chosen)))
        return 0
    work = o.work or tempfile.mkdtemp(prefix="dovetail-mutate.")
    count, deadline = collections.Counter(), time.monotonic() + 60 * o.minutes
    try:
        copy = Copy(o.build, work)
        for k, (f, x) in enumerate(chosen[o.first:], o.first):
            if time.monotonic() > deadline:
                print(f"the time is over after {k} of {len(chosen)}")
                break
            verdict, by, seconds = mutate(copy, f, x, o.seconds)
            count[f.split("/")[0], verdict] += 1
            print(f"{o.seed}.{k} {verdict}{' by ' + by if by else ''} ({seconds:.0f} s) {shown(root, f, x)}",
                  flush=True)
    finally:
        if not o.work:
            shutil.rmtree(work, ignore_errors=True)
    print("folder       made  caught  same  not-compiled  survived")
    for folder in [f for f in TESTS if any(c[0] == f for c in count)]:
        n = {v: count[folder, v] for v in ("caught", "same", "not-compiled", "survived")}
        print(f"{folder:12} {sum(n.values()):4}  {n['caught']:6}  {n['same']:4}  {n['not-compiled']:12}  "
              f"{n['survived']:8}")
    return 1 if any(v == "survived" and n for (_, v), n in count.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
