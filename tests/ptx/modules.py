#!/usr/bin/env python3
"""modules.py VERIFY-FILES MODULES.TXT [PTXAS]: the verdict on each module of the list, ours and that of ptxas, where
there is one.

The list says how it is written. A ptxas that is older than a module's .version is not asked about it, which is said.
"""
import os
import re
import subprocess
import sys
import tempfile

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"


def read(path):
    """(line, verdict, what ptxas is to say, words, text) of each module."""
    cases, text = [], []
    for n, line in enumerate(open(path, encoding="utf-8"), 1):
        m = re.fullmatch(r"== (ok|no)(?: ptxas=(ok|no))?(?: (.*))?\n", line)
        if m:
            text = []
            cases.append((n, m[1], m[2] or m[1], m[3] or "", text))
        elif line.startswith("=="):
            sys.exit(f"{path}:{n}: not understood")
        elif line[0] != "#" and cases:
            text.append(line)
    return [(n, ours, theirs, words, "".join(t) if t and t[0].startswith(".version") else HEAD + "".join(t))
            for n, ours, theirs, words, t in cases]


def newest(ptxas):
    """The newest .version that it takes."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as f:
        f.write(".version 99.9\n.target sm_90\n.address_size 64\n")
        f.flush()
        r = subprocess.run([ptxas, "-arch=sm_90", "-o", "/dev/null", f.name], capture_output=True, text=True)
    m = re.search(r"current version is '(\d+)\.(\d+)'", r.stdout + r.stderr)
    return (int(m[1]), int(m[2])) if m else (0, 0)


def main():
    verify, listed, ptxas = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None
    cases, bad, asked = read(listed), 0, 0
    know = newest(ptxas) if ptxas else (0, 0)
    with tempfile.TemporaryDirectory() as tmp:
        paths = []
        for k, case in enumerate(cases):
            paths.append(os.path.join(tmp, f"{k}.ptx"))
            with open(paths[-1], "w", encoding="utf-8") as f:
                f.write(case[4])
        answers = subprocess.run([verify] + paths, capture_output=True, text=True, check=True).stdout.splitlines()
        if len(answers) != len(cases):
            sys.exit(f"{len(cases)} modules, {len(answers)} answers")
        for (line, ours, theirs, words, text), path, answer in zip(cases, paths, answers):
            if answer[:2] != ours or words not in answer:
                print(f"{listed}:{line}: should be `{ours}` with `{words}`: {answer.replace(path, '')}")
                bad += 1
            m = re.match(r"\.version (\d+)\.(\d+)", text)
            if not ptxas:
                continue
            if (int(m[1]), int(m[2])) > know:
                print(f"{listed}:{line}: not asked, ptxas takes .version {know[0]}.{know[1]} and older")
                continue
            asked += 1
            said = ""
            for part in ([], ["-c"]):
                arch = re.search(r"\.target (sm_1\d\d\w?)", text)
                arch = ["-arch=" + (arch[1] if arch else "sm_90")]
                r = subprocess.run([ptxas, "-O0"] + arch + part + ["-o", "/dev/null", path], capture_output=True,
                                   text=True)
                if r.returncode == 0:
                    break
                said = said or (r.stdout + r.stderr).strip()[-200:]
            if (r.returncode == 0) != (theirs == "ok"):
                print(f"{listed}:{line}: ptxas does not say `{theirs}`: {said}")
                bad += 1
    print(f"{len(cases)} modules, ptxas asked about {asked}, {bad} wrong")
    return 1 if bad or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
