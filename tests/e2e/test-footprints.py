#!/usr/bin/env python3
"""`analyze --maps`: what each block touches of each buffer, worked out here from the kernel's formula; in the caller's
names, from the cache too."""
import os

from harness import HEAD, WaysCase, cli, main, write

ROWS, COLS, TILE = 32, 64, 8  # block b: column tile b of x[ROWS][COLS], written as row tile b of y; thread t: row t

PTX = HEAD + f"""
.visible .entry turn(.param .u64 x, .param .u64 y, .param .u64 m)
{{
    .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<16>;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [m];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mov.u32 %r3, 0;
    mul.lo.u32 %r4, %r2, {COLS}; shl.b32 %r5, %r1, 3; add.u32 %r6, %r4, %r5; mul.wide.u32 %rd4, %r6, 4; add.s64 %rd5, %rd1, %rd4;
    mul.lo.u32 %r7, %r1, {ROWS * TILE}; add.u32 %r7, %r7, %r2; mul.wide.u32 %rd6, %r7, 4; add.s64 %rd7, %rd2, %rd6;
LOOP:
    ld.global.u32 %r8, [%rd5]; st.global.u32 [%rd7], %r8;
    add.s64 %rd5, %rd5, 4; add.s64 %rd7, %rd7, {4 * ROWS}; add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, {TILE}; @%p1 bra LOOP;
    setp.gt.u32 %p2, %r8, 7;
    mul.wide.u32 %rd8, %r1, 4; add.s64 %rd9, %rd3, %rd8;
    @%p2 st.global.u32 [%rd9], %r1;
    ret;
}}
"""


def graph(x="x", y="y", m="m", order=(0, 1, 2)):
    n, blocks = 4 * ROWS * COLS, COLS // TILE
    b = [(x, {"bytes": n, "role": "input", "fill": {"zero": True}}), (y, {"bytes": n, "role": "output"}),
         (m, {"bytes": 4 * blocks, "role": "output"})]
    return {"dovetail": 1, "name": "footprints", "modules": {"k": {"ptx": PTX}}, "buffers": dict(b[i] for i in order),
            "launches": [
        {"name": "turn", "module": "k", "entry": "turn", "grid": [blocks, 1, 1], "block": [ROWS, 1, 1],
         "args": [{"buffer": x}, {"buffer": y}, {"buffer": m}]},
        {"name": "clear", "memset": {"buffer": m, "offset": 4, "bytes": 8, "value": 0}}]}


def expand(ranges):
    """The bytes of a list of ranges."""
    out = set()
    for r in ranges:
        lo, hi, step, count = r if len(r) == 4 else (*r, 0, 1)
        for k in range(count):
            part = set(range(lo + k * step, hi + k * step))
            assert part and not out & part, r
            out |= part
    return out


class Footprints(WaysCase):
    def analyze(self, doc, way, *more):
        return self.doc("analyze", write(self.dir, "g.json", doc), *more, *self.ways[way])

    def check(self, doc, x, y, m, order):
        turn, clear = (l["footprints"] for l in doc["launches"])
        self.assertEqual([f["buffer"] for f in turn], [(x, y, m)[i] for i in order])
        by = {f["buffer"]: f for f in turn}
        for name, kind in ((x, "read"), (y, "write")):
            self.assertEqual([k for k in ("read", "write", "may_write") if by[name][k]], [kind])
            self.assertEqual([b for b, _ in by[name][kind]], list(range(COLS // TILE)))
        for b in range(COLS // TILE):
            want = {4 * (row * COLS + b * TILE + c) + k for row in range(ROWS) for c in range(TILE) for k in range(4)}
            self.assertEqual(expand(by[x]["read"][b][1]), want)
            # rows of a tile: one range
            self.assertEqual(by[x]["read"][b][1], [[4 * TILE * b, 4 * TILE * (b + 1), 4 * COLS, ROWS]])
            self.assertEqual(by[y]["write"][b][1], [[4 * ROWS * TILE * b, 4 * ROWS * TILE * (b + 1)]])
        self.assertEqual((by[m]["read"], by[m]["write"]), ([], []))  # under a guard that data decides
        self.assertEqual([(b, expand(r)) for b, r in by[m]["may_write"]],
                         [(b, set(range(4 * b, 4 * b + 4))) for b in range(COLS // TILE)])
        self.assertEqual(clear, [{"buffer": m, "read": [], "write": [[0, [[4, 12]]]], "may_write": []}])

    def test_formula(self):
        for way in self.ways:
            for _ in range(2):  # made, then from the cache
                self.check(self.analyze(graph(), way, "--maps"), "x", "y", "m", (0, 1, 2))
        self.assertNotIn("footprints", self.analyze(graph(), "local")["launches"][0])

    def test_names(self):
        """An equal graph with other names, and its buffers in another order, is a hit and reads as if made for it."""
        first = self.analyze(graph(), "local", "--maps")
        other = graph("b1", "x", "odd name", (2, 0, 1))
        doc = self.analyze(other, "local", "--maps")
        self.assertEqual(doc["signature"], first["signature"])
        self.check(doc, "b1", "x", "odd name", (2, 0, 1))
        again = cli("analyze", write(self.dir, "g.json", other), "--maps", *self.ways["local"])
        self.assertIn("cache hit", again.stdout)
        os.remove(self.db)
        self.assertEqual(doc, self.analyze(other, "local", "--maps"))


if __name__ == "__main__":
    main()
