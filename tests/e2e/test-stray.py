#!/usr/bin/env python3
"""An access that goes to no buffer of its launch: the error names launch, kernel, block, thread, PTX line, instruction,
the argument that the address comes from, and how far it lies from the nearest buffer. No address is printed that
another run would not print.
"""
import re

from harness import WaysCase, main, write

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"

U0 = {"u64": 0}
X = {"buffer": "x"}
W = {"buffer": "w"}


def kernel(body):
    return HEAD + f""".visible .entry k(.param .u64 x, .param .u64 v)
{{
    .reg .u64 %rd<9>; .reg .u32 %r<9>; .shared .align 16 .b8 s[64]; .local .align 16 .b8 l[16];
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [v];
    mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mul.wide.u32 %rd4, %r2, 4; mul.wide.u32 %rd5, %r3, 256; add.s64 %rd6, %rd4, %rd5; add.s64 %rd6, %rd6, %rd1;
    {body} // HERE
    ret;
}}
"""


# name, what is done, second argument, block and thread, phrases of the message; x has 256 bytes, w 1024; offset of x in
# its first case
CASES = [
    ("behind", "ld.global.u32 %r1, [%rd1+256];", U0, ((0, 0, 0), (0, 0, 0)),
     "4 bytes outside every buffer of the launch: 0 bytes past the end of buffer 'x' of 256 bytes",
     "argument 0 ('x')"),
    ("before", "st.global.u32 [%rd1+-8], %r2;", U0, ((0, 0, 0), (0, 0, 0)), "8 bytes before buffer 'x'",
     "argument 0 ('x')"),
    ("second block", "st.global.u32 [%rd6], %r2;", U0, ((1, 0, 0), (0, 0, 0)),
     "0 bytes past the end of buffer 'x' of 256 bytes", "argument 0 ('x')"),
    ("over the end", "ld.global.v2.u32 {%r1, %r4}, [%rd1+252];", U0, None,
     "at a misaligned address: at offset 252 of buffer 'x' of 256 bytes, over its end",
     "argument 0 ('x')"),
    ("misaligned", "ld.global.u32 %r1, [%rd1+2];", U0, ((0, 0, 0), (0, 0, 0)),
     "4 bytes at a misaligned address: at offset 2 of buffer 'x' of 256 bytes", None),
    ("generic", "ld.u32 %r1, [%rd1+260];", U0, ((0, 0, 0), (0, 0, 0)),
     "4 bytes past the end of buffer 'x' of 256 bytes", "argument 0 ('x')"),
    ("atomic", "atom.global.add.u32 %r1, [%rd1+300], 1;", U0, ((0, 0, 0), (0, 0, 0)),
     "44 bytes past the end of buffer 'x' of 256 bytes", "argument 0 ('x')"),
    ("cp.async", "mov.u32 %r1, s; cp.async.ca.shared.global [%r1], [%rd1+272], 16; cp.async.wait_all;", U0,
     ((0, 0, 0), (0, 0, 0)),
     "16 bytes outside every buffer of the launch: 16 bytes past the end of buffer 'x' of 256 bytes",
     "argument 0 ('x')"),
    ("null", "st.global.u32 [%rd2], 1;", U0, ((0, 0, 0), (0, 0, 0)), "at address 0, a null pointer",
     "no argument that is a buffer"),
    ("number", "st.global.u32 [%rd2], 1;", {"u64": "0x7000000000001000"}, ((0, 0, 0), (0, 0, 0)),
     "at 0x7000000000001000, near no buffer",
     "no argument that is a buffer"),
    ("loaded", "ld.global.u64 %rd3, [%rd1+8]; ld.global.u32 %r1, [%rd3];", U0, ((0, 0, 0), (0, 0, 0)),
     "at address 0, a null pointer", "data"),
    ("two arguments", "sub.u64 %rd3, %rd2, %rd1; add.u64 %rd3, %rd3, %rd1; ld.global.u32 %r1, [%rd3+1024];", W,
     ((0, 0, 0), (0, 0, 0)),
     "0 bytes past the end of buffer 'w' of 1024 bytes", "argument 0 ('x') or argument 1 ('w')"),
    ("bulk copy",
     "cp.async.bulk.global.shared::cta.bulk_group [%rd1+256], [s], 16; cp.async.bulk.commit_group; "
     "cp.async.bulk.wait_group 0;", U0,
     ((0, 0, 0), (0, 0, 0)),
     "its first or last byte is outside every buffer of the launch: 0 bytes past the end of buffer 'x' of 256 bytes",
     "argument 0 ('x')"),
    ("end of a bulk copy",
     "cp.async.bulk.global.shared::cta.bulk_group [%rd1+240], [s], 32; cp.async.bulk.commit_group; "
     "cp.async.bulk.wait_group 0;", U0,
     ((0, 0, 0), (0, 0, 0)), "15 bytes past the end of buffer 'x' of 256 bytes", "argument 0 ('x')"),
]
# where there are no buffers, by a run: an analysis does not look there. name, what is done, block and thread, phrase
SPACES = [
    ("shared", "mov.u32 %r1, s; mul.lo.u32 %r4, %r2, 4; add.u32 %r1, %r1, %r4; st.shared.u32 [%r1], %r2; ",
     ((0, 0, 0), (16, 0, 0)),
     "4 bytes at offset 64 of shared memory: 0 bytes past the end of its 64 bytes"),
    ("shared by a generic address",
     "mov.u32 %r1, s; cvt.u64.u32 %rd3, %r1; cvta.shared.u64 %rd3, %rd3; ld.u32 %r4, [%rd3+100];",
     ((0, 0, 0), (0, 0, 0)),
     "4 bytes at offset 100 of shared memory: 36 bytes past the end of its 64 bytes"),
    ("shared, over the end",
     "mov.u32 %r1, s; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1+48]; cp.async.ca.shared.global [%r1+56], [%rd1], 16;",
     ((0, 0, 0), (0, 0, 0)),
     "16 bytes at a misaligned address: at offset 56 of shared memory"),
    ("shared, misaligned", "mov.u32 %r1, s; st.shared.u64 [%r1+12], %rd1;", ((0, 0, 0), (0, 0, 0)),
     "8 bytes at a misaligned address: at offset 12 of shared memory"),
    ("local", "mov.u64 %rd3, l; ld.local.u32 %r4, [%rd3+40];", ((0, 0, 0), (0, 0, 0)),
     "4 bytes at offset 40 of local memory: 24 bytes past the end of its 16 bytes"),
    ("parameters", "mov.u64 %rd3, v; mul.wide.u32 %rd7, %r2, 8; add.u64 %rd3, %rd3, %rd7; ld.param.u64 %rd8, [%rd3];",
     ((0, 0, 0), (1, 0, 0)),
     "8 bytes at offset 16 of parameter memory: 0 bytes past the end of its 16 bytes"),
]


def graph(body, second):
    return {"dovetail": 1, "name": "stray", "modules": {"m": {"ptx": kernel(body)}},
            "buffers": {b: {"bytes": n, "role": "inout", "fill": {"zero": True}} for b, n in (("x", 256), ("w", 1024))},
            "launches": [{"name": "the launch", "module": "m", "entry": "k", "grid": [2, 1, 1], "block": [32, 1, 1],
                          "args": [X, second]}]}


class Stray(WaysCase):
    def problem(self, verb, doc):
        path = write(self.dir, "g.json", doc)
        p = self.doc(verb, path, *self.local, status=3, env={"DOVETAIL_SOFTGPU_THREADS": "1"})
        self.assertEqual(p["code"], "out-of-bounds", p)
        return p["detail"]

    def test_each(self):
        for name, body, second, at, where, origin in CASES:
            with self.subTest(name):
                doc = graph(body, second)
                ptx = doc["modules"]["m"]["ptx"]
                detail = self.problem("analyze", doc)
                line = ptx[:ptx.index("// HERE")].count("\n") + 1
                self.assertIn(f", PTX line {line}: ", detail)
                self.assertTrue(detail.startswith("launch the launch: kernel k, block ("), detail)
                if at:
                    self.assertIn("block (%d,%d,%d), thread (%d,%d,%d), PTX" % (*at[0], *at[1]), detail)
                self.assertIn(where, detail)
                if origin:
                    self.assertTrue(detail.endswith("; its address comes from " + origin), detail)
                self.assertEqual(re.findall(r"0x[0-9a-f]{6,}", detail), re.findall(r"0x7\w+", str(second)), detail)
                if name in ("behind", "loaded", "misaligned"):
                    self.assertEqual(detail, self.problem("analyze", doc))

    def test_run(self):
        """The same without an analysis: the launch and the buffers are named as well."""
        for name, body, second, at, where, _ in CASES:
            if name in ("behind", "second block", "misaligned", "null", "number", "atomic"):
                with self.subTest(name):
                    detail = self.problem("run", graph(body, second))
                    self.assertTrue(detail.startswith("launch the launch: kernel k, block (%d,%d,%d), thread "
                                                      "(%d,%d,%d), PTX line " % (*at[0], *at[1])), detail)
                    self.assertIn(where.replace("every buffer of the launch", "every buffer"), detail)

        for name, body, at, where in SPACES:
            with self.subTest(name):
                detail = self.problem("run", graph(body, U0))
                self.assertTrue(detail.startswith("launch the launch: kernel k, block (%d,%d,%d), thread (%d,%d,%d), "
                                                  "PTX line " % (*at[0], *at[1])), detail)
                self.assertIn(": " + where, detail)
                self.assertNotIn("0x", detail)

    def test_another_buffer(self):
        """A buffer of the graph that the launch was not given is as foreign as none."""
        for body in ("ld.global.u32 %r1, [%rd1+{}];",
                     "cp.async.bulk.global.shared::cta.bulk_group [%rd1+{}], [s], 16; cp.async.bulk.commit_group; "
                     "cp.async.bulk.wait_group 0;"):
            far = None
            for off in range(512, 8192, 512):  # where w lies is the device's affair: look for it
                detail = self.problem("analyze", graph(body.format(off), U0))
                far = re.search(r"at offset \d+ of buffer 'w' of 1024 bytes, which is not one of its arguments; its "
                                r"address comes from argument 0", detail)
                if far:
                    break
            self.assertTrue(far, detail)


if __name__ == "__main__":
    main()
