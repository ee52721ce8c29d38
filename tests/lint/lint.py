#!/usr/bin/env python3
"""The rules of docs/ARCHITECTURE.md, and the style that a script can check.

Prints FILE:LINE: what; exit status 1 if there is any.

  includes   `#include "folder/…"` only as the table in docs/ARCHITECTURE.md allows: the row of a file is that of its
             folder, or of the nearest one above that has a row; no other folder's *-priv.h
  length     a .c file over 1,000 lines needs the words "lint: long file" in its head comment, with the reason
  columns    a line of a .c, .h or .py file, a comment in a table (.def), and a line of a page ends at column 120 at
             most; in pages tables, links and blocks of code may be wider, in .py the texts of kernels
  statics    no name of a static function stands in three or more files
  names      a file of ours that a comment or a page names exists: `x.c` anywhere in the tree, a path from the root,
             from the folder of whoever names it, or from one above it
  head       a .c file opens with a comment, of 3 lines or more when it has over 80; so does a header, and a test
  rows       every row of legal.def and legal-solo.def is named in docs/LEGALITY.md, and in docs/REFUSALS.md, which has
             every other reason of rewrite/ (DT_ROW), too
  banned     functions that overrun or that hide errors; not in tests
  paths      no path of somebody's machine, in any text file
  shell      scripts set -euo pipefail

Usage: lint.py [ROOT]. Reads the files that git tracks, or all files where there is no git.
"""
import io
import os
import re
import subprocess
import sys
import tokenize

BANNED = {
    "strcpy": "dt_str or memcpy with a length", "strcat": "dt_str", "sprintf": "snprintf or dt_str_addf",
    "vsprintf": "vsnprintf", "gets": "getline", "strtok": "strtok_r or a loop", "atoi": "strtol", "atol": "strtol",
    "atoll": "strtoll", "atof": "strtod", "alloca": "an arena", "system": "posix_spawn", "popen": "posix_spawn",
    "tmpnam": "mkstemp", "mktemp": "mkstemp", "rand": "dt_splitmix64", "scanf": "strtol", "sscanf": "strtol",
}
# Names that show somebody's machine. Spelled apart, so that this file does not find itself.
PATHS = re.compile(r"(?<![\w.])/(?:" + "|".join(("ho" + "me/[a-z]", "ro" + "ot/", "wo" + "rk/", "Us" + "ers/")) + ")")
COLUMNS = 120

# What looks like the name of a file of ours. Names that end otherwise (graph.json, k.cu) are examples as a rule: they
# count where they begin with a folder of ours.
FILE = re.compile(r"(?<![\w./<>*$%{}…-])((?:\.\./)*(?:\w[\w.-]*/)*\w[\w.-]*)"
                  r"\.(c|h|def|inc|md|py|sql|map|json|cu|ptx|sh|txt|build)(?![\w/*-]|\.\w)")
SURE = {"c", "h", "def", "inc", "md", "py", "sql", "map"}
# Files that are not ours, or not in the tree: whose, or what they are.
STRANGERS = re.compile("|".join((
    r"(cuda|nvrtc|nvJitLink|cuda\w+|cupti\w*|nvml|BinaryFormat/ELF)\.h",  # NVIDIA's, LLVM's
    r"cases/kernels/h2o\.py",  # FlashTensor's
    r"(schema/)?migrations\.h|api-routes\.inc",  # made by the build
    r"foo(-priv)?\.h|a\.py|x\.c",  # examples
    r".*\b(NAME|FILE|FOLDER|DATE|OUT|NNNN)\b.*",  # stand for any such name
)))

# Pages whose lines may be wider: NEWS.md is history, ENTRIES.md is made by entries.py.
WIDE = ("NEWS.md", "softgpu/libcuda/ENTRIES.md")
TEXT = (".c", ".h", ".def", ".md", ".py", ".build", ".txt", ".json", ".cu", ".ptx", ".sh", ".yaml", ".yml", ".sql",
        ".inc", ".map", "")


def files(root):
    try:
        out = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard"], cwd=root,
                             check=True, capture_output=True, text=True).stdout.split("\n")
        return sorted({f for f in out if f and os.path.isfile(os.path.join(root, f))})
    except (OSError, subprocess.CalledProcessError):
        found = []
        for d, dirs, names in os.walk(root):
            dirs[:] = [x for x in dirs if not x.startswith((".", "build"))]
            found += [os.path.relpath(os.path.join(d, n), root) for n in names]
        return sorted(found)


def include_table(root):
    table = {}
    for line in open(os.path.join(root, "docs/ARCHITECTURE.md"), encoding="utf-8"):
        m = re.match(r"\| `([\w/]+)/` \|.*\| ([^|]*) \|$", line.rstrip())
        if m:
            files = set(re.findall(r"`([^`]+)`", m[2]))
            table[m[1]] = set(re.findall(r"[\w/]+", re.sub(r"`[^`]+`", "", m[2]))) - {"libc"} | {m[1]} | files
    if len(table) < 10:
        sys.exit("lint: docs/ARCHITECTURE.md: cannot read the table of folders")
    return table


def room(path, table):
    """The row of a file: its folder, or the nearest one above it that has a row."""
    folder = os.path.dirname(path)
    while folder and folder not in table:
        folder = os.path.dirname(folder)
    return folder or path.split("/")[0]


def without_comments_and_strings(text):
    """Same length and lines, with comments, strings and characters blanked."""
    blank = lambda m: re.sub(r"[^\n]", " ", m[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def lint_c(path, text, table):
    folder = room(path, table)
    lines = text.split("\n")
    head = re.match(r"/\*.*?\*/|(?://[^\n]*\n)+", text, re.S)
    need = 3 if path.endswith(".c") and not folder.startswith("tests") and len(lines) > 80 else 1
    if not head or head[0].count("\n") + 1 < need:
        yield 1, f"head: opens with no comment of {need} or more lines that says what it does"
    if len(lines) > 1000 and "lint: long file" not in (head[0] if head else ""):
        yield 1, f"length: {len(lines)} lines"
    for n, line in enumerate(lines, 1):
        m = re.match(r'\s*#\s*include\s+"([^"]+/[^"]+)"', line)
        of = m and room(m[1], table)
        if m and of in table and folder in table and not folder.startswith("tests"):
            if of not in table[folder] and m[1] not in table[folder]:
                yield n, f"includes: {folder}/ may not include {of}/ (docs/ARCHITECTURE.md)"
            elif m[1].endswith("-priv.h") and os.path.dirname(m[1]) != os.path.dirname(path):
                yield n, f"includes: {m[1]} is private to {os.path.dirname(m[1])}/"
    code = without_comments_and_strings(text)
    for m in [] if folder.startswith("tests") else re.finditer(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(", code):
        yield code.count("\n", 0, m.start()) + 1, f"banned: {m[1]}; use {BANNED[m[1]]}"


def comments(path, text):
    """Comments and docstrings alone, or the whole of a page: same length and lines, everything else blanked."""
    if path.endswith(".md"):
        return text
    if path.endswith((".c", ".h", ".def", ".inc", ".map")):
        kept = r"/\*.*?\*/|//[^\n]*"
    elif path.endswith(".py"):
        kept = r'"{3}.*?"{3}|(?<![^\s])#[^\n]*'
    else:
        kept = r"(?<![^\s])#[^\n]*"
    out, at = [], 0
    for m in re.finditer(kept, text, re.S):
        out += [re.sub(r"[^\n]", " ", text[at:m.start()]), m[0]]
        at = m.end()
    return "".join(out) + re.sub(r"[^\n]", " ", text[at:])


def lint_names(path, text, there, bare):
    """`there`: every file and its folders; `bare`: the names of files without their folders."""
    text = comments(path, text)
    for m in FILE.finditer(text):
        name, folder = m[0], os.path.dirname(path)
        if "/" not in name and (m[2] not in SURE or name in bare):
            continue
        if "/" in name and m[2] not in SURE and name.split("/")[0] not in there:
            continue
        while os.path.normpath(os.path.join(folder, name)) not in there and folder:
            folder = os.path.dirname(folder)
        if os.path.normpath(os.path.join(folder, name)) in there:
            continue
        if not STRANGERS.fullmatch(name):
            yield text.count("\n", 0, m.start()) + 1, f"names: there is no {name}"


def lint_rows(text, legality, refusals):
    """Of a table of conditions, or of a file that gives reasons: names that the pages lack, as these write them."""
    for m in re.finditer(r"^(?:LEGAL|LEVEL|OTHER|INLINE|CLUSTER|SOLO|EDIT)\((\w+)|DT_ROW\(\"([\w-]+)\"\)", text, re.M):
        line, reason = text.count("\n", 0, m.start()) + 1, m[2] or m[1].replace("_", "-")
        if m[1] and f"`{m[1]}`" not in legality:
            yield line, f"rows: {m[1]} is not in docs/LEGALITY.md"
        if not re.search(rf"^\| (?:`[\w-]+`, )*`{reason}`(?:, `[\w-]+`)* \|", refusals, re.M):
            yield line, f"rows: {reason} has no row in docs/REFUSALS.md"


def kernel_texts(text):
    """The lines of a Python file that belong to triple-quoted strings which are no docstrings."""
    lines, before = set(), None
    for t in tokenize.generate_tokens(io.StringIO(text).readline):
        if t.type == tokenize.STRING and '"""' in t.string[:5] and before not in (tokenize.NEWLINE, tokenize.INDENT, None):
            lines |= set(range(t.start[0], t.end[0] + 1))
        if t.type not in (tokenize.NL, tokenize.COMMENT, tokenize.DEDENT):
            before = t.type
    return lines


def lint_columns(path, text):
    texts = set()
    if path.endswith(".md"):
        text = re.sub(r"^```.*?^```$", lambda m: re.sub(r"[^\n]", "", m[0]), text, flags=re.S | re.M)
    if path.endswith(".py"):
        texts = kernel_texts(text)
    for n, line in enumerate(text.split("\n"), 1):
        wide = path.endswith(".def") and not re.match(r"\s*(/\*.*\*/\s*$|/\*[^*]*$|\* )", line)
        wide = wide or path.endswith(".md") and re.match(r"\s*\||.*\]\(http", line)
        if len(line) > COLUMNS and not wide and n not in texts:
            yield n, f"columns: {len(line)}, not {COLUMNS} at most"


def lint_statics(tracked, root):
    """Names of static functions that stand in three or more files, tests left out: none of them says which it is."""
    where = {}
    for path in tracked:
        if path.endswith((".c", ".h")) and not path.startswith(("tests/", "bench/")):
            text = open(os.path.join(root, path), encoding="utf-8").read()
            for m in re.finditer(r"^static (?:[\w*]+[ *]+)*?(?!dt_vec)(\w+)\(", text, re.M):
                where.setdefault(m[1], {})[path] = text.count("\n", 0, m.start()) + 1
    for name, files in sorted(where.items()):
        if len(files) >= 3:
            path = sorted(files)[0]
            yield path, files[path], f"statics: {name} stands in {len(files)} files: put the file's word in front"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    table, bad, seen = include_table(root), 0, 0
    pages = [open(os.path.join(root, f"docs/{p}.md"), encoding="utf-8").read() for p in ("LEGALITY", "REFUSALS")]
    tracked = files(root)
    there = set(tracked)
    for f in tracked:
        while "/" in f:
            f = os.path.dirname(f)
            there.add(f)
    bare = {os.path.basename(f) for f in tracked}
    for path in tracked:
        if os.path.splitext(path)[1] not in TEXT or path == "LICENSE":
            continue
        try:
            text = open(os.path.join(root, path), encoding="utf-8").read()
        except UnicodeDecodeError:
            continue  # a corpus of bytes
        seen += 1
        found = []
        if path.endswith((".c", ".h")):
            found += lint_c(path, text, table)
        if path.endswith((".c", ".h", ".def", ".py")) or path.endswith(".md") and not path.startswith(WIDE):
            found += lint_columns(path, text)
        if path.endswith((".c", ".h", ".def", ".inc", ".map", ".md", ".py", ".sh", ".build")) or text.startswith("#!"):
            found += lint_names(path, text, there, bare)
        if path.startswith("rewrite/") and path.endswith((".c", ".h", ".def")):
            found += lint_rows(text, *pages)
        for m in PATHS.finditer(text):
            found.append((text.count("\n", 0, m.start()) + 1, f"paths: {text[m.start():m.start() + 30].split()[0]}"))
        if text.startswith(("#!/usr/bin/env bash", "#!/bin/bash")) and "set -euo pipefail" not in text:
            found.append((1, "shell: no set -euo pipefail"))
        for n, what in sorted(found):
            print(f"{path}:{n}: {what}")
        bad += len(found)
    for path, n, what in lint_statics(tracked, root):
        print(f"{path}:{n}: {what}")
        bad += 1
    print(f"lint: {seen} files, {bad} findings")
    return 1 if bad or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
