#!/usr/bin/env python3
"""Does every C file look as .clang-format says? Prints the files that do not; --fix writes them.

The version of clang-format counts: each one breaks some lines its own way. DOVETAIL_CLANG_FORMAT names the one that
./dev has found or fetched; without it, and without that version on the path, the test is skipped (exit status 77).

Usage: layout.py [--fix]
"""
import os
import shutil
import subprocess
import sys

import lint

VERSION = "14.0.6"


def find():
    for name in os.environ.get("DOVETAIL_CLANG_FORMAT"), "clang-format-14", "clang-format":
        exe = shutil.which(name) if name else None
        if exe and VERSION in subprocess.run([exe, "--version"], capture_output=True, text=True,
                                             check=True).stdout.split():
            return exe
    return None


def suspects(exe, paths):
    """Those that differ, as far as one process for many files can tell: a tenth of the time of one for each."""
    at, many = set(), 50
    for i in range(0, len(paths), many):
        said = subprocess.run([exe, "--style=file", "--dry-run", *paths[i:i + many]], capture_output=True, text=True,
                              check=True).stderr
        at |= {line.split(":", 1)[0] for line in said.splitlines() if "warning: code should be clang-formatted" in line}
    return at


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    exe = find()
    if not exe:
        print(f"layout: no clang-format {VERSION}")
        return 77
    files = [f for f in lint.files(root) if f.endswith((".c", ".h"))]
    differ = 0
    look = suspects(exe, [os.path.join(root, f) for f in files])
    for f in files:
        path = os.path.join(root, f)
        if path not in look:
            continue
        now = open(path, "rb").read()
        want = subprocess.run([exe, "--style=file", path], capture_output=True, check=True).stdout
        if now == want:
            continue
        differ += 1
        k = next((i for i, (a, b) in enumerate(zip(now.split(b"\n"), want.split(b"\n")), 1) if a != b), 1)
        print(f"{f}:{k}: not as .clang-format says" + (", written anew" if "--fix" in sys.argv else "; try ./dev fmt"))
        if "--fix" in sys.argv:
            open(path, "wb").write(want)
    print(f"layout: {len(files)} files, {differ} differ")
    return 1 if not files or (differ and "--fix" not in sys.argv) else 0


if __name__ == "__main__":
    sys.exit(main())
