#!/usr/bin/env python3
"""Holds softgpu/runtime/entries.def against the library, the sources and NVIDIA's library.

  * every symbol that the library exports has one row, every row a symbol, under the version node libcudart.so.13;
  * the file that a row names defines the entry (per-thread forms: a row of per-thread.def, or the file);
  * where NVIDIA's libcudart.so.13 is at hand (--theirs) and cuda.h (--header) is of CUDA 13.0, the rows are its
    symbols under the same node.

Usage: runtime-entries.py --lib LIBCUDART.SO [--theirs LIBCUDART.SO] [--header CUDA.H]. Prints what is wrong, exit
status 1 if anything is.
"""
import argparse
import os
import re
import subprocess
import sys

DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../softgpu/runtime")
OURS = {"dovetailCudart"}  # by which a runtime is told from NVIDIA's


def text(name):
    with open(os.path.join(DIR, name), encoding="utf-8") as f:
        return f.read()


def exported(lib):
    lines = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", lib], check=True,
                           capture_output=True, text=True).stdout.split("\n")
    found = [line.split() for line in lines if len(line.split()) == 3 and line.split()[1] in "TWRD"]
    return dict((f[2].split("@")[0], f[2].split("@")[-1]) for f in found)


def defines(source, name):
    if re.search(rf"^(?:PASS|OF_KERNEL)\({name},", source, re.M):
        return True
    m = re.match(r"(cudaGraph\w*?)(1D|ToSymbol|FromSymbol)$", name)
    return bool(m and f"SHORT_FORMS({m[1]}," in source or
                re.search(rf"^[a-z][\w \*]*\b{name}\((?!.*;$)", source, re.M))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lib", required=True)
    p.add_argument("--theirs")
    p.add_argument("--header")
    a = p.parse_args()
    table = re.sub(r"/\*.*?\*/", "", text("entries.def"), flags=re.S)
    entry = re.findall(r"^ENTRY\((\w+), ([\w-]+)\)$", table, re.M)
    refused = re.findall(r'^REFUSED\((\w+), "[^"]+"\)$', table, re.M)
    names = [n for n, _ in entry] + refused
    wrong = [f"{n} has {names.count(n)} rows" for n in set(names) if names.count(n) > 1]
    ours = exported(a.lib)
    wrong += [f"{n} has a row and is not exported" for n in sorted(set(names) - set(ours))]
    wrong += [f"{n} is exported and has no row" for n in sorted(set(ours) - set(names) - OURS)]
    wrong += [f"{n} is exported under {v}" for n, v in sorted(ours.items()) if v != "libcudart.so.13"]
    for name, where in entry:
        plain = name.rsplit("_", 1)[0]
        ok = defines(text(where + ".c"), name) or (
            where == "per-thread" and re.search(rf"^FORM\({plain}, {name},", text("per-thread.def"), re.M))
        if not ok:
            wrong.append(f"{name}: {where}.c does not define it")
    known = not a.header or re.search(r"#define\s+CUDA_VERSION\s+13000\b", text(a.header))
    if known and a.theirs and os.path.exists(a.theirs):
        theirs = {n: v for n, v in exported(a.theirs).items() if n.startswith(("cuda", "__cuda"))}
        wrong += [f"NVIDIA's exports {n}, which has no row" for n in sorted(set(theirs) - set(names))]
        wrong += [f"NVIDIA's exports {n} under {v}" for n, v in sorted(theirs.items()) if v != "libcudart.so.13"]
    print("\n".join(wrong))
    print(f"runtime-entries: {len(entry)} served, {len(refused)} refused, {len(wrong)} findings")
    return 1 if wrong or not entry else 0


if __name__ == "__main__":
    sys.exit(main())
