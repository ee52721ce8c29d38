#!/usr/bin/env python3
"""tests/count.py against a log made by hand: what cmocka and unittest print where cases are skipped. Numbers worked out
by hand."""
import json
import os
import subprocess
import sys
import tempfile

COUNT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "count.py")
CMOCKA = """[==========] Running 3 test(s).
[ RUN      ] first
[  BECAUSE ] no CUPTI
[  SKIPPED ] first
[ RUN      ] second
[       OK ] second
[ RUN      ] third
[  SKIPPED ] third
[==========] 3 test(s) run.
[  PASSED  ] 1 test(s).
[  SKIPPED ] 2 test(s), listed below:
[  SKIPPED ] first
[  SKIPPED ] third

 2 SKIPPED TEST(S)
"""
UNITTEST = "test_a (__main__.T.test_a) ... ok\ntest_b (__main__.T.test_b) ... skipped 'no curl'\n\nOK (skipped=1)\n"
LOG = [{"name": "dovetail:unit / plain", "result": "OK", "stdout": "[ RUN      ] a\n[       OK ] a\n"},
       {"name": "dovetail:unit / some", "result": "OK", "stdout": "", "stderr": CMOCKA},
       {"name": "dovetail:e2e / py", "result": "OK", "stdout": "", "stderr": UNITTEST},
       {"name": "dovetail:gpu / whole", "result": "SKIP", "stdout": "no GPU\n"},
       {"name": "dovetail:unit / bad", "result": "FAIL", "stdout": ""},
       {"name": "dovetail:unit / late", "result": "TIMEOUT", "stdout": ""},
       {"name": "dovetail:ptx / wrong", "result": "EXPECTEDFAIL", "stdout": ""}]
SAID = ["skipped: some, case first: no CUPTI", "skipped: some, case third", "skipped: py, case test_b: no curl",
        "skipped: whole: no GPU"]

with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
    f.writelines(json.dumps(t) + "\n" for t in LOG)
    f.flush()
    r = subprocess.run([sys.executable, COUNT, f.name, "8"], capture_output=True, text=True, check=True)
assert r.stdout.split() == ["4", "3", "4"], r.stdout  # one of the eight left no result
assert sorted(r.stderr.splitlines()) == sorted(SAID), r.stderr
print("counted as by hand")
