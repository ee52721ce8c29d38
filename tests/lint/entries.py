#!/usr/bin/env python3
"""Holds softgpu/libcuda/entries.def against the library, the sources, cuda.h and softgpu/libcuda/ENTRIES.md.

  * every symbol that the library exports has exactly one row (a plain name may have a second row for a later version),
    and every row a symbol;
  * the file that a row names defines the entry;
  * every function of cuda.h 13.0, with all older shapes that the header declares for the driver itself, has a row;
  * every extension of extension.h has a row;
  * ENTRIES.md is what --write makes of the table.

Usage: entries.py --lib LIBCUDA.SO --header CUDA.H [--write]. Prints what is wrong, exit status 1 if anything is.
"""
import argparse
import collections
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DIR = os.path.join(HERE, "../../softgpu/libcuda")


def text(name):
    return open(os.path.join(DIR, name), encoding="utf-8").read()


def rows():
    table = re.sub(r"/\*.*?\*/", "", text("entries.def"), flags=re.S)
    found = re.findall(r'^(ENTRY|REFUSED)\((\w+), (\w+), (\d+), ("?)([^")]+(?:\([^)]*\))?)\5\)$', table, re.M)
    return [(k, n, s, int(v), w) for k, n, s, v, _, w in found], re.findall(r"^EXTENSION\((\w+), ([\w-]+)\)$", table,
        re.M)


def defines(source, symbol):
    """Does the C text define the entry, by its name, its plain name, its assembler name, or through one of the file's
    macros?"""
    plain = re.sub(r"_v\d+$", "", symbol)
    m = re.match(r"cuMemset(D2D|D)(8|16|32)(Async)?$", plain)
    if m and f"SET_ALL({m[2]}," in source:
        return f"cuMemset{m[1]}##bits##" + ("Async" if m[3] else "_v2") in source
    m = re.match(r"cuGraph(Exec)?(EventRecord|EventWait)Node([SG]etEvent)$", plain)
    if m and f"EVENT_NODE({m[2]}," in source:
        return f"cuGraph{m[1] or ''}##name##Node{m[3]}" in source
    names = f"(?:{symbol}|{plain})"
    return bool(re.search(rf"^CUresult {names}\(", source, re.M) or re.search(rf"^(?:COPY|ASYNC)\({names},", source,
        re.M) or
                re.search(rf'"{symbol}"', source))


def document(entries, extensions):
    shapes, refused = collections.OrderedDict(), collections.OrderedDict()
    for kind, name, symbol, since, where in entries:
        (shapes if kind == "ENTRY" else refused).setdefault(name, []).append((since, symbol, where))
    out = ["# The entries of libcuda", "",
           "Made from `entries.def` by `tests/lint/entries.py --write`; a test compares.", "",
           f"{len(shapes)} functions of cuda.h are served (with their older shapes and `_ptds`/`_ptsz` forms, "
           f"{sum(len(v) for v in shapes.values())} symbols), {len(set(refused) - set(shapes))} are refused: they "
           f"exist and answer "
           "`CUDA_ERROR_NOT_SUPPORTED`. None is absent.", "",
           "## Served", "", "| function | file | older shapes (from CUDA) | also per-thread |", "|---|---|---|---|"]
    for name, all_ in sorted(shapes.items()):
        own = [x for x in all_ if not re.search(r"_pt[ds][sz]$", x[1])]
        newest = max(own)
        older = ", ".join(f"`{s}` ({v // 1000}.{v % 1000 // 10})" for v, s, _ in sorted(own) if (v, s) != newest[:2])
        out.append(f"| `{name}` | `{newest[2]}.c` | {older} | {'yes' if len(own) < len(all_) else ''} |")
    out += ["", "## Refused", "", "| why | functions |", "|---|---|"]
    why = collections.OrderedDict()
    for name, all_ in sorted(refused.items()):
        why.setdefault(all_[0][2], []).append(name)
    for reason, names in sorted(why.items()):
        out.append(f"| {reason} | {' '.join(f'`{n}`' for n in names)} |")
    out += ["", "## Extensions (`extension.h`, only through `cuGetProcAddress`)", "", "| entry | file |", "|---|---|"]
    out += [f"| `{n}` | `{f}.c` |" for n, f in sorted(extensions)]
    return "\n".join(out) + "\n"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lib", required=True)
    p.add_argument("--header", required=True)
    p.add_argument("--write", action="store_true")
    a = p.parse_args()
    entries, extensions = rows()
    wrong = []
    count = collections.Counter(s for _, _, s, _, _ in entries)
    plain = collections.Counter((s, v) for _, _, s, v, _ in entries)
    exported = subprocess.run(["nm", "-D", "--defined-only", a.lib], check=True, capture_output=True,
                              text=True).stdout.split("\n")
    exported = {line.split()[2].split("@")[0] for line in exported if len(line.split()) == 3
                and line.split()[1] in "TWi"}
    wrong += [f"{s} is exported and has no row" for s in sorted(exported - set(count))]
    wrong += [f"{s} has a row and is not exported" for s in sorted(set(count) - exported)]
    aliases = {s for _, n, s, _, _ in entries if n == s}
    wrong += [f"{s} has {n} rows" for s, n in sorted(count.items())
              if n > 1 and not (n == 2 and s in aliases and len({v for t, v in plain if t == s}) == 2)]
    sources = {f[:-2]: text(f) for f in os.listdir(DIR) if f.endswith(".c")}
    for kind, _, symbol, _, where in entries:
        if kind == "REFUSED":
            continue
        base = re.sub(r"_pt[ds][sz]$", "", symbol)
        ok = re.search(rf"^PER_THREAD\({base},", text("per-thread.def"), re.M) if where == "per-thread" else \
            where in sources and defines(sources[where], symbol)
        if not ok:
            wrong.append(f"{symbol}: {where}.c does not define it")
    wrong += [f"{n}: {f}.c does not define it" for n, f in extensions if f not in sources or not defines(sources[f], n)]
    wrong += [f"{n} of extension.h has no row" for n in re.findall(r"EXT\((dovetail\w+),", text("extension.h"))
              if n not in dict(extensions)]
    header = re.sub(r"/\*.*?\*/", "", open(a.header, encoding="utf-8").read(), flags=re.S)
    declared = set(re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(", header))
    known = set(count) | {n for _, n, _, _, _ in entries}
    if re.search(r"#define\s+CUDA_VERSION\s+13000\b", header): # the table is complete for this version
        wrong += [f"{s} of cuda.h has no row" for s in sorted(declared - known)]
    made = document(entries, extensions)
    path = os.path.join(DIR, "ENTRIES.md")
    if a.write:
        open(path, "w", encoding="utf-8").write(made)
    elif not os.path.exists(path) or open(path, encoding="utf-8").read() != made:
        wrong.append("softgpu/libcuda/ENTRIES.md is not what entries.def says: run tests/lint/entries.py with --write")
    print("\n".join(wrong))
    print(f"entries: {len(declared)} declarations of cuda.h, {len(entries)} rows, {len(exported)} exported symbols, "
          f"{len(wrong)} findings")
    return 1 if wrong or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
