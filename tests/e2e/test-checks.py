#!/usr/bin/env python3
"""The checking modes through the command line: planted bugs are found with their place, and without the mode they are
not looked for."""
import json
import os

from harness import HEAD, WaysCase, cli, main, write

# y[i] = tile[(i + 1) % 64] with no barrier between
RACE = HEAD + """
.visible .entry k(.param .u64 x, .param .u64 y)
{
    .reg .u64 %rd<8>; .reg .b32 %r<8>; .shared .align 4 .b8 tile[256];
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile;
    mad.lo.u32 %r3, %r1, 4, %r2;
    st.shared.u32 [%r3], %r1;
    add.u32 %r4, %r1, 1; and.b32 %r4, %r4, 63;
    mad.lo.u32 %r4, %r4, 4, %r2;
    ld.shared.u32 %r5, [%r4];
    mul.wide.u32 %rd3, %r1, 4; add.u64 %rd3, %rd2, %rd3;
    st.global.u32 [%rd3], %r5;
    ret;
}
"""
# y[i] = h[i], where h has neither fill nor data
UNINIT = HEAD + """
.visible .entry k(.param .u64 x, .param .u64 y)
{
    .reg .u64 %rd<8>; .reg .b32 %r<8>;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
    ld.global.u32 %r2, [%rd1];
    st.global.u32 [%rd2], %r2;
    ret;
}
"""
# half the block leaves before the barrier
BARRIER = HEAD + """
.visible .entry k(.param .u64 x, .param .u64 y)
{
    .reg .b32 %r<8>; .reg .pred %p;
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p, %r1, 32;
    @%p ret;
    bar.sync 0;
    ret;
}
"""


def graph(ptx, **more):
    return {"dovetail": 1, "name": "checked", "modules": {"m": {"ptx": ptx}},
            "buffers": {"h": {"bytes": 256, "role": "intermediate"}, "y": {"bytes": 256, "role": "output"}},
            "launches": [{"name": "k0", "module": "m", "entry": "k", "grid": [1, 1, 1], "block": [64, 1, 1],
                          "args": [{"buffer": "h"}, {"buffer": "y"}]}], **more}


class Checks(WaysCase):
    def write(self, ptx, **more):
        return write(self.dir, "g.json", graph(ptx, **more))

    def refused(self, *args, env=None):
        return self.doc(*args, status=3, env=env)

    def test_found_with_its_mode_only(self):
        line = lambda ptx, what: ptx[:ptx.index(what)].count("\n") + 1
        kinds = [("race", "race", RACE, f"PTX line {line(RACE, 'st.shared')}", "shared tile + "),
                 ("uninit", "uninitialised", UNINIT, f"PTX line {line(UNINIT, 'ld.global')}",
                  "h + 0, which nothing has written"),
                 ("barrier", "barrier", BARRIER, f"PTX line {line(BARRIER, 'bar.sync')}", "has left")]
        for mode, code, ptx, where, what in kinds:
            g = self.write(ptx)
            others = ",".join(m for m, *_ in kinds if m != mode)
            for way in self.ways.values():
                problem = self.refused("run", g, "--check", mode, *way)
                self.assertEqual(problem["code"], code, problem)
                for text in ("kernel k", "block (0,0,0)", "thread (", where, what):
                    self.assertIn(text, problem["detail"])
            self.refused("run", g, "--check", "all", *self.local)
            if mode != "race":  # the race reads what is not written yet, in some orders
                r = cli("run", g, "--check", others, *self.local)
                self.assertEqual(r.returncode, 0, r.stderr)
            r = cli("run", g, *self.local)
            self.assertEqual(r.returncode, 0, r.stderr)

    def test_member_of_the_document(self):
        problem = self.refused("run", self.write(UNINIT, check="uninit"), *self.local)
        self.assertIn("h + 0", problem["detail"])

    def test_same_schedule_same_finding(self):
        g = self.write(RACE)
        for n in range(3):
            a, b = (self.refused("run", g, "--check", "race", "--schedule", str(n), *self.local) for _ in range(2))
            self.assertEqual(a["detail"], b["detail"])
            self.assertEqual(a["code"], "race")

    def test_environment_and_log(self):
        log = self.dir + "/log.jsonl"
        env = dict(os.environ, DOVETAIL_CHECK="race", DOVETAIL_CHECK_LOG=log)
        self.refused("run", self.write(RACE), *self.local, env=env)
        found = [json.loads(text) for text in open(log, encoding="utf-8")]
        self.assertEqual(len(found), 1)
        f = found[0]
        self.assertEqual((f["kind"], f["code"], f["kernel"], f["block"], f["bytes"]),
                         ("race", "race", "k", [0, 0, 0], 4))
        self.assertRegex(f["place"], r"^shared tile \+ \d+$")
        lines = {1 + RACE[:RACE.index(w)].count("\n") for w in ("st.shared", "ld.shared")}
        self.assertEqual({f["line"], f["other"]["line"]}, lines)
        self.assertNotEqual(f["thread"], f["other"]["thread"])

    def test_wrong_words(self):
        g = self.write(RACE)
        for way in self.ways.values():
            self.assertEqual(cli("run", g, "--check", "rase", *way).returncode, 2)
            self.assertEqual(cli("run", g, "--schedule", "x", *way).returncode, 2)
        self.assertEqual(cli("analyze", g, "--check", "race", *self.local).returncode, 2)


if __name__ == "__main__":
    main()
