#!/usr/bin/env python3
"""refused.py VERIFY-FILES REFUSED.TXT [PTXAS]: the verdict on each line of the list, ours and, where there is a ptxas,
its own.

A line is `verdict | instruction | words`: `no` has to be refused as the module is loaded, naming the line, with these
words; `ok` has to be accepted.
"""
import os
import subprocess
import sys
import tempfile

HEAD = """.version 8.7
.target sm_90
.address_size 64
.global .align 8 .u32 g;
.visible .entry k(.param .u64 x, .param .u32 n)
{
    .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .s32 %i<4>; .reg .f32 %f<4>; .reg .f64 %e<4>;
    .shared .align 16 .b8 s[64];
L:
"""


def main():
    verify, listed, ptxas = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None
    cases = [[p.strip() for p in line.split("|")] for line in open(listed, encoding="utf-8") if line.strip()
             and line[0] != "#"]
    bad, where = 0, HEAD.count("\n") + 1
    with tempfile.TemporaryDirectory() as tmp:
        paths = []
        for k, (_, inst, *_) in enumerate(cases):
            paths.append(os.path.join(tmp, f"{k}.ptx"))
            with open(paths[-1], "w", encoding="utf-8") as f:
                f.write(f"{HEAD}    {inst};\n    ret;\n}}\n")
        # a file is read to its end: the instruction that is wrong stands behind 5 MB
        cases.append(["no", "a wrong line behind 5 MB", "number of operands"])
        paths.append(os.path.join(tmp, "long.ptx"))
        with open(paths[-1], "w", encoding="utf-8") as f:
            f.write(HEAD[:-1] + " " * (5 << 20) + "\n    add.s32 %r0, %r1;\n    ret;\n}\n")
        said = subprocess.run([verify] + paths, capture_output=True, text=True, check=True).stdout.splitlines()
        if len(said) != len(cases):
            sys.exit(f"{len(cases)} cases, {len(said)} answers")
        for (verdict, inst, *words), path, answer in zip(cases, paths, said):
            words = words[0] if words else ""
            if answer[:2] != verdict or words not in answer or (verdict == "no" and f"line {where}" not in answer):
                print(f"{inst}: should be `{verdict}` with `{words}`, line {where}: {answer.replace(path, '')}")
                bad += 1
            if ptxas:
                r = subprocess.run([ptxas, "-arch=sm_90", "-O0", "-o", "/dev/null", path], capture_output=True,
                                   text=True)
                if (r.returncode == 0) != (verdict == "ok"):
                    print(f"{inst}: ptxas does not say `{verdict}`: {(r.stdout + r.stderr).strip()[-200:]}")
                    bad += 1
    print(f"{len(cases)} instructions, {bad} wrong")
    return 1 if bad or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
