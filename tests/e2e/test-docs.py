#!/usr/bin/env python3
"""The commands in the pages give what the pages show. Numbers, which depend on the compiler that is installed, are not
compared; words, columns and order are. A line of "…" stands for any lines, "…" in a line for any text.

The pages in PAGES are run as a reader would: from top to bottom, in a folder of their own with an empty cache and the
tree's `tests`. A block behind a paragraph that ends with "`NAME`:" is the file NAME.
"""
import html
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import CLI, SLOW, cli, main, schema

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


PAGES = ("TUTORIAL", "OWN-KERNELS", "GRAPH", "MAPS", "REFUSALS")


def plain(line):
    return re.sub(r" +", " ", re.sub(r"\b[0-9a-f]{64}\b|\d+(\.\d+)?", "N", line)).strip()


def matches(want, got):
    """Do the lines `got` look like `want`?"""
    if not want:
        return not got
    if want[0] == "…":
        return any(matches(want[1:], got[i:]) for i in range(len(got) + 1))
    pattern = ".*".join(re.escape(plain(p)) for p in want[0].split("…"))
    return bool(got) and re.fullmatch(pattern, plain(got[0])) is not None and matches(want[1:], got[1:])


def pictures(page):
    """{name: the words beside it} of a page's pictures."""
    with open(os.path.join(ROOT, "docs", page + ".md"), encoding="utf-8") as f:
        return {m[2]: m[1].replace("\n", " ") for m in re.finditer(r"!\[([^]]+)\]\(pictures/([\w-]+\.svg)\)", f.read())}


def steps(page):
    """What a reader does, in the page's order: ("file", name, text) or ("run", command, what it prints)."""
    with open(os.path.join(ROOT, "docs", page + ".md"), encoding="utf-8") as f:
        text = f.read()
    for m in re.finditer(r"(?:`([\w.-]+)`:\n\n)?^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        if m[1]:
            yield "file", m[1], m[3]
        elif m[2] == "console":
            yield from (("run", *r) for r in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", m[3], re.M))


class Docs(unittest.TestCase):
    def test_pages(self):
        for page in PAGES:
            with self.subTest(page):
                self.follow(page)

    def test_elsewhere(self):
        """What docs/OWN-KERNELS.md takes from pages that other tests run (they need nvcc, or Triton) stands there."""
        text = {}
        for page in "OWN-KERNELS", "CAPTURE", "PYTHON":
            with open(os.path.join(ROOT, "docs", page + ".md"), encoding="utf-8") as f:
                text[page] = f.read()
        found = re.findall(r"^```(sh|python)\n(.*?)^```$", text["OWN-KERNELS"], re.M | re.S)
        self.assertEqual({language for language, _ in found}, {"sh", "python"})
        for language, block in found:
            if language == "python":
                self.assertIn(block, text["PYTHON"])
            else:
                for line in block.splitlines(True):
                    self.assertIn("$ " + line, text["CAPTURE"])

    def follow(self, page):
        folder = tempfile.mkdtemp(prefix="dovetail-e2e.")
        self.addCleanup(shutil.rmtree, folder)
        program = os.path.join(folder, ".bin/dovetail")
        os.mkdir(os.path.dirname(program))
        with open(program, "w", encoding="utf-8") as f:
            command = shlex.join([os.path.abspath(CLI), "--local", "--cache", folder + "/.cache.db"])
            f.write(f'#!/bin/sh\nexec {command} "$@"\n')
        os.chmod(program, 0o755)
        os.symlink(os.path.join(ROOT, "tests"), os.path.join(folder, "tests"))
        env = {**os.environ, "PATH": os.path.dirname(program) + ":" + os.environ["PATH"], "DOVETAIL_DEVICE": "soft",
               "LC_ALL": "C.UTF-8"}
        ran = 0
        for what, name, text in steps(page):
            if what == "file":
                with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                    f.write(text)
                if name.endswith(".json"):
                    self.assertEqual(schema.faults(json.loads(text), "graph"), [], f"{page}: {name}")
                continue
            r = subprocess.run(["bash", "-o", "pipefail", "-c", name], cwd=folder, env=env, capture_output=True,
                               text=True, timeout=120 * SLOW, check=False)
            if r.returncode and "no-compiler" in r.stderr:
                self.skipTest("NVRTC is not on this machine")
            self.assertEqual(r.returncode, 0, f"{name}\n{r.stdout}{r.stderr}")
            want, got = (s.rstrip("\n").split("\n") for s in (text, r.stdout))
            self.assertTrue(matches(want, got), f"{name}\n{r.stdout}")
            ran += 1
        self.assertGreater(ran, 0, page)

    def test_analyze(self):
        with open(os.path.join(ROOT, "docs/ANALYZE.md"), encoding="utf-8") as f:
            blocks = re.findall(r"```console\n\$ (.*)\n((?:.*\n)*?)```\n", f.read())
        self.assertGreaterEqual(len(blocks), 4)
        folder = tempfile.mkdtemp(prefix="dovetail-e2e.")
        self.addCleanup(shutil.rmtree, folder)
        for i, (command, text) in enumerate(blocks):
            with self.subTest(command):
                args, _, pipe = command.partition(" | ")
                args = [os.path.join(ROOT, a) if a.startswith("tests/") else a for a in shlex.split(args)]
                self.assertEqual(args[0], "dovetail")
                device = [] if "--device" in args else ["--device", "soft"]
                r = cli(*args[1:], "--local", *device, "--cache", f"{folder}/{i}.db")
                if r.returncode and "no-compiler" in r.stderr:
                    self.skipTest("NVRTC is not on this machine")
                self.assertEqual(r.returncode, 0, r.stderr)
                if pipe:  # jq is not everywhere: the one expression that the page shows, by hand
                    self.assertEqual(pipe, "jq -c '.launches[0].footprints[] | select(.buffer == \"h\") | .write[0]'")
                    first = next(f for f in json.loads(r.stdout)["launches"][0]["footprints"]
                                 if f["buffer"] == "h")["write"][0]
                    self.assertEqual(json.dumps(first, separators=(",", ":")) + "\n", text)
                    continue
                self.assertTrue(matches(text.rstrip("\n").split("\n"), r.stdout.rstrip("\n").split("\n")), r.stdout)

    def test_samples(self):
        """Every corpus graph with a reference has its section and its figures in docs/SAMPLES.md; only the encoder is
        described elsewhere."""
        with open(os.path.join(ROOT, "docs/SAMPLES.md"), encoding="utf-8") as f:
            page = f.read()
        corpus = os.path.join(ROOT, "tests/corpus")
        samples = {d for d in os.listdir(corpus)
                   if os.path.exists(os.path.join(corpus, d, "reference.c"))} - {"encoder"}
        sections = set(re.findall(r"^## ([\w-]+):", page, re.M))
        self.assertEqual(samples, sections)
        for name in samples:
            text = re.search(r"<!-- figures %s -->\n(.*?)<!-- end -->" % name, page, re.S)
            self.assertIsNotNone(text, name)
            self.assertIn("modeled", text[1], name)

    def drawn(self, prefix):
        """{name: title} of the pictures that there are."""
        found, folder = {}, os.path.join(ROOT, "docs/pictures")
        for name in os.listdir(folder):
            if name.startswith(prefix):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    found[name] = html.unescape(re.search("<title>(.*)</title>", f.read())[1])
        return found

    def test_pictures(self):
        """Each rewrite of docs/REWRITES.md has its picture, and the pictures are what their script draws."""
        with open(os.path.join(ROOT, "docs/REWRITES.md"), encoding="utf-8") as f:
            page = f.read()
        # sections that are about no rewrite
        none = {"What is kept", "Several streams", "Machine code", "Lists of blocks"}
        for section in re.split(r"^## ", page, flags=re.M)[1:]:
            name = section.split("\n")[0]
            self.assertEqual("](pictures/rewrite-" in section, name not in none, name)
        folder = os.path.join(ROOT, "docs/pictures")
        self.assertEqual(pictures("REWRITES"), self.drawn("rewrite-"))
        r = subprocess.run([sys.executable, os.path.join(folder, "draw.py"), "--check"], capture_output=True, text=True,
                           check=False)
        self.assertEqual((r.returncode, r.stdout), (0, ""), r.stderr)

    def test_pictures_of_maps(self):
        """The pictures of docs/MAPS.md are what the analysis says."""
        folder = os.path.join(ROOT, "docs/pictures")
        self.assertEqual(pictures("MAPS"), self.drawn("map-"))
        r = subprocess.run([sys.executable, "-B", os.path.join(folder, "maps.py"), os.path.abspath(CLI), "--check"],
                           capture_output=True, text=True, timeout=120 * SLOW, check=False)
        if "no-compiler" in r.stderr:
            self.skipTest("NVRTC is not on this machine")
        self.assertEqual((r.returncode, r.stdout), (0, ""), r.stderr)

    def test_the_check_can_fail(self):
        self.assertTrue(matches(["a 1 b", "…", "z …"], ["a  22 b", "x", "y", "z and more"]))
        self.assertFalse(matches(["a 1 b"], ["a 1 c"]))
        self.assertFalse(matches(["a", "b"], ["a", "x", "b"]))


if __name__ == "__main__":
    main()
