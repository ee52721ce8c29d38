#!/usr/bin/env python3
"""What is probably not meant is told: on stderr, in the documents of every verb, and with the caller's own names,
pointers and lines where the answer is found in the cache. A launch that races is left alone, and nothing is said to be
verified that is not."""
import json
import os
import re

from harness import HEAD, SCALE, WaysCase, changed, cli, main, schema, write

N = 1024
ENTRY = """
.visible .entry %s(.param .u64 x, .param .u64 y)
{
    .reg .u64 %%rd<8>; .reg .b32 %%r<12>; .reg .pred %%p<2>; .shared .align 4 .b8 tile[256];
    ld.param.u64 %%rd1, [x]; ld.param.u64 %%rd2, [y];
    mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%ctaid.x; mad.lo.u32 %%r3, %%r2, 64, %%r1; mul.wide.u32 %%rd3, %%r3, 4;
    add.u64 %%rd4, %%rd1, %%rd3; add.u64 %%rd5, %%rd2, %%rd3;
    mov.u32 %%r4, tile; mad.lo.u32 %%r5, %%r1, 4, %%r4; xor.b32 %%r6, %%r1, 63; mad.lo.u32 %%r6, %%r6, 4, %%r4;
%s
    ret;
}
"""
# y = x turned around in each block, without a barrier; the same with shared memory that only half of the threads write;
# each word by two blocks; the first 4096 bytes; a sum
KERNELS = HEAD + '.file 1 "k.cu"\n' + "".join(ENTRY % e for e in (
    ("turn", """    ld.global.u32 %r7, [%rd4];
    .loc 1 12 5
    st.shared.u32 [%r5], %r7;
    .loc 1 13 7
    ld.shared.u32 %r8, [%r6];
    .loc 1 14 1
    st.global.u32 [%rd5], %r8;"""),
    ("half", """    ld.global.u32 %r7, [%rd4]; setp.lt.u32 %p1, %r1, 32;
    @%p1 st.shared.u32 [%r5], %r7;
    bar.sync 0;
    .loc 1 22 3
    ld.shared.u32 %r8, [%r5];
    st.global.u32 [%rd5], %r8;"""),
    ("twice", """    ld.global.u32 %r7, [%rd4];
    add.u32 %r3, %r3, 64; and.b32 %r3, %r3, 1023; mul.wide.u32 %rd3, %r3, 4; add.u64 %rd6, %rd2, %rd3;
    .loc 1 31 3
    st.global.u32 [%rd5], %r7;
    st.global.u32 [%rd6], %r2;"""),
    ("some", """    setp.lt.u32 %p1, %r3, 1024;
    @%p1 ld.global.u32 %r7, [%rd4];
    @%p1 st.global.u32 [%rd5], %r7;"""),
    ("sum", """    ld.global.u32 %r7, [%rd4];
    red.global.add.u32 [%rd2], %r7;"""),
    ("nothing", "    ld.global.u32 %r7, [%rd4];"),
    # much work; x is its own output
    ("down", """    ld.global.u32 %r7, [%rd4]; mov.u32 %r8, 0;
AGAIN: add.u32 %r8, %r8, 1; xor.b32 %r9, %r8, %r7; setp.lt.u32 %p1, %r8, 300; @%p1 bra AGAIN;
    sub.u32 %r7, %r7, 65536; st.global.u32 [%rd5], %r7;"""),
    # of 48 threads: in the last warp each adds what the one behind it has, with no barrier between
    ("folds", """    ld.global.u32 %r7, [%rd4]; st.shared.u32 [%r5], %r7; bar.sync 0;
    setp.lt.u32 %p1, %r1, 32; @%p1 bra MET; setp.eq.u32 %p1, %r1, 47; @%p1 bra MET;
    ld.volatile.shared.u32 %r8, [%r5+4]; add.u32 %r7, %r7, %r8; st.volatile.shared.u32 [%r5], %r7;
MET: bar.sync 0; ld.shared.u32 %r7, [%r5]; st.global.u32 [%rd5], %r7;"""),
    # 64 threads that read 48, the other way round
    ("back", """    min.u32 %r7, %r1, 47; mad.lo.u32 %r7, %r2, 64, %r7; mul.wide.u32 %rd6, %r7, 4; add.u64 %rd6, %rd1, %rd6;
    ld.global.u32 %r7, [%rd6]; st.shared.u32 [%r5], %r7; bar.sync 0; ld.shared.u32 %r8, [%r6];
    st.global.u32 [%rd5], %r8;"""),
    # y = x[y], and a race
    ("pick", """    ld.global.u32 %r7, [%rd5]; mul.wide.u32 %rd6, %r7, 4; add.u64 %rd6, %rd1, %rd6; ld.global.u32 %r7, [%rd6];
    st.shared.u32 [%r5], %r7; ld.shared.u32 %r7, [%r6]; st.global.u32 [%rd5], %r7;""")))


def launch(name, entry, *args, grid=N // 64, block=64, **more):
    return {"name": name, "module": "s" if entry == "scale" else "k", "entry": entry, "grid": [grid, 1, 1],
            "block": [block, 1, 1],
            "args": [{"buffer": a} for a in args] + ([{"f32": 2.0}] if entry == "scale" else []), **more}


def graph(*launches, **buffers):
    b = {"x": {"bytes": 4 * N, "role": "input", "fill": {"uniform": [0, 9], "dtype": "u32", "seed": 3}},
         "h": {"bytes": 4 * N, "role": "intermediate"},
         "g": {"bytes": 4 * N, "role": "intermediate"}, "y": {"bytes": 4 * N, "role": "output"}, **buffers}
    return {"dovetail": 1, "name": "warned", "modules": {"k": {"ptx": KERNELS}, "s": {"ptx": SCALE}},
            "buffers": {k: v for k, v in b.items() if v},
            "launches": list(launches)}


TURN = graph(launch("a", "turn", "x", "h"), launch("b", "scale", "h", "g"), launch("c", "scale", "g", "y"))
CLEAN = graph(launch("a", "scale", "x", "h"), launch("b", "scale", "h", "y"))
# mistakes in CLEAN's document, each with its pointer
UNKNOWN = {"nmae": "/nmae", "modules__k__flags": "/modules/k/flags", "buffers__x__size": "/buffers/x/size",
           "buffers__x__fill__lo": "/buffers/x/fill/lo",
           "launches__0__smem": "/launches/0/smem", "launches__1__args__0__ofset": "/launches/1/args/0/ofset"}


def told(document):
    return [(w["code"], w["pointer"]) for w in document["warnings"]]


class Warnings(WaysCase):
    def ask(self, verb, g, *more, cache="c.db"):
        """The document, and the lines of warnings on stderr."""
        r = cli(verb, write(self.dir, "g.json", g), "--local", "--device", "soft", "--json",
                *([] if verb == "run" else ["--cache", f"{self.dir}/{cache}"]), *more)
        self.assertEqual(r.returncode, 0, r.stderr)
        document = json.loads(r.stdout)
        if verb in ("analyze", "optimize"):
            self.assertEqual(schema.faults(document, "analysis" if verb == "analyze" else "plan"), [])
        return document, [line for line in r.stderr.splitlines() if ": warning: " in line]

    def test_unknown_members(self):
        g = changed(CLEAN, **{k: 1 for k in UNKNOWN})
        want = [("unknown-member", p) for p in UNKNOWN.values()]
        for verb in ("analyze", "optimize", "run"):
            d, lines = self.ask(verb, g)
            self.assertCountEqual(told(d), want, verb)
            self.assertEqual(len(lines), len(want))
            for p in UNKNOWN.values():
                self.assertTrue(any(line.startswith("dovetail: warning: unknown-member: ") and f"({p})" in line
                                    for line in lines), lines)
            self.assertEqual(self.ask(verb, CLEAN), ({**self.ask(verb, CLEAN)[0], "warnings": []}, []))
        d, lines = self.ask("explain", g)
        self.assertCountEqual(told(d["plan"]), want)
        self.assertCountEqual(told(d["analysis"]), want)
        self.assertEqual(len(lines), len(want))

    def test_hit_has_the_warnings_of_its_own_document(self):
        """By the service: the same kernels, other mistakes, other names, members the other way round."""
        for want, kind in (("analysis", "analysis"), ("plan", "plan")):
            first = changed(TURN, nmae=1)
            made = self.s.finish(self.s.post(first, "want=" + want))
            self.assertEqual(made["state"], "done", made)
            made = self.s.http("GET", made["links"]["result"]).json()
            other = json.loads(re.sub(r'"(buffer|name)": "([a-z])"', r'"\1": "\2\2"', json.dumps(TURN)))
            other["buffers"] = {n + n: b for n, b in reversed(TURN["buffers"].items())}
            other["launches"][1]["blokc"] = 3
            hit = self.s.post(dict(reversed(other.items())), "want=" + want)
            self.assertEqual((hit.status, hit.headers["Dovetail-Cache"]), (200, "hit"))
            hit = hit.json()
            self.assertEqual(schema.faults(hit, kind), [])
            self.assertEqual(told(made)[0], ("unknown-member", "/nmae"))
            self.assertEqual(told(hit)[0], ("unknown-member", "/launches/1/blokc"))
            self.assertEqual(hit["warnings"][0]["launch"], "bb")
            self.assertEqual([{**w, "launch": w["launch"] * 2} for w in made["warnings"][1:]], hit["warnings"][1:])
            # the plan's launches ran under the checks
            self.assertEqual(len(made["warnings"]), 3 if want == "plan" else 1)
            again = self.s.post(first, "want=" + want)
            self.assertEqual((again.status, again.json()["warnings"]), (200, made["warnings"]))
            stored = self.s.http("GET", f"/v1/{'plans' if want == 'plan' else 'analyses'}/{made['signature']}")
            self.assertEqual([w["launch"] for w in stored.json()["warnings"]], ["l0"] * (2 if want == "plan" else 0))
        self.assertEqual(self.s.http("GET", "/healthz").status, 200)

    def test_hit_of_another_text(self):
        """Registers of other names: the signature is the same, but the stored lines and instructions are another
        text's."""
        made = self.ask("optimize", TURN)[0]
        race = next(w for w in made["warnings"] if w["code"] == "race")
        self.assertIn("line", race)
        other = changed(TURN, modules__k__ptx="// of somebody else\n" + KERNELS.replace("%r8", "%r9").replace('"k.cu"',
            '"other.cu"'))
        d = self.ask("optimize", other)[0]
        self.assertEqual(d["signature"], made["signature"])
        self.assertEqual(told(d), told(made))
        for w in d["warnings"]:
            self.assertEqual(w.keys() & {"line", "instruction", "place"}, set())
            self.assertEqual(w["kernel"], "turn")
        self.assertEqual(self.ask("optimize", TURN)[0]["warnings"], made["warnings"])

    def test_race_within_a_block(self):
        d, lines = self.ask("optimize", TURN)
        line = 1 + KERNELS[:KERNELS.index("ld.shared")].count("\n")
        race = next(w for w in d["warnings"] if w["code"] == "race")
        self.assertEqual((race["launch"], race["kernel"], race["pointer"]), ("a", "turn", "/launches/0"))
        self.assertIn(race["line"], ("k.cu:12", "k.cu:13"))
        self.assertRegex(race["instruction"], rf"^PTX line \d+: (ld|st)\.shared\.u32 .*; and PTX line \d+$")
        self.assertIn(str(line), race["instruction"])
        self.assertRegex(race["place"], r"^shared tile \+ \d+$")
        self.assertTrue(any(": race: launch a, kernel turn: thread (" in x and "k.cu:1" in x and "PTX line" in x
                            for x in lines), lines)
        self.assertEqual({k: d["verified"].get(k) for k in ("bitwise", "races", "inputs", "schedules")},
                         {"bitwise": False, "races": True, "inputs": 3, "schedules": 0})
        self.assertEqual(d["checked"], {"modes": ["race", "uninit"], "blocks": 48, "of": 48})
        # it is left alone, and the others are not
        self.assertTrue(any(r["verdict"] == "kept" and r["launches"] == ["b", "c"] for r in d["rewrites"]),
                        d["rewrites"])
        for r in d["rewrites"]:
            if "a" in r["launches"]:
                self.assertEqual((r["verdict"], r["reason"]), ("refused", "racy: 'a' races with itself"))
        self.assertEqual(d["launches"][0], d["original"]["launches"][0]
                         | {k: d["launches"][0][k] for k in ("stream", "after", "programmatic")})
        self.assertNotIn("k", d["original"]["modules"])  # it is the plan's
        # the plan runs, and does here what the graph does
        outputs = [self.ask("run", g)[0]["outputs"] for g in (TURN, d)]
        self.assertEqual(*outputs)
        # nothing to rewrite: it is told all the same
        d = self.ask("optimize", graph(launch("a", "turn", "x", "y")))[0]
        self.assertEqual((d["verified"], told(d)[0]), ({"bitwise": False, "unchanged": True, "races": True},
                                                       ("race", "/launches/0")))
        self.assertEqual(told(self.ask("analyze", TURN)[0]), [])  # nothing ran

    def test_race_between_blocks(self):
        g = graph(launch("a", "twice", "x", "h"), launch("b", "scale", "h", "g"), launch("c", "scale", "g", "y"))
        for verb in ("analyze", "optimize"):
            d, lines = self.ask(verb, g)
            self.assertEqual(told(d), [("race", "/launches/0")])
            self.assertEqual((d["warnings"][0]["buffer"], d["warnings"][0]["line"]), ("h", "k.cu:31"))
            self.assertTrue(lines[0].startswith("dovetail: warning: race: launch a, kernel twice, buffer h: "), lines)
        self.assertEqual((d["verified"]["bitwise"], d["verified"]["races"]), (False, True))
        self.assertTrue(any(r["verdict"] == "kept" and r["launches"] == ["b", "c"] for r in d["rewrites"]),
                        d["rewrites"])
        # atomics in any order are none
        d = self.ask("optimize", graph({"memset": {"buffer": "y", "bytes": 4 * N, "value": 0}},
                                       launch("a", "sum", "x", "y")))[0]
        self.assertEqual((told(d), d["verified"]), ([], {"bitwise": True, "unchanged": True}))

    def test_uninitialised(self):
        d, lines = self.ask("optimize", graph(launch("a", "half", "x", "h"), launch("b", "scale", "h", "y")))
        self.assertEqual(told(d), [("uninitialised", "/launches/0")])
        self.assertEqual((d["warnings"][0]["line"], d["warnings"][0]["place"]), ("k.cu:22", "shared tile + 128"))
        self.assertEqual(len(lines), 1)
        # an intermediate before anybody writes it, whatever its fill, which is not part of the repeated work
        for fill in ({}, {"fill": {"zero": True}}):
            h = {"bytes": 4 * N, "role": "intermediate", **fill}
            for verb in ("analyze", "optimize"):
                d = self.ask(verb, graph(launch("a", "scale", "h", "g"), launch("b", "scale", "g", "y"), h=h))[0]
                self.assertEqual([(w["code"], w["launch"], w["buffer"]) for w in d["warnings"]],
                                 [("uninitialised", "a", "h")])
            # a sum that begins with it
            d = self.ask("optimize", graph(launch("a", "sum", "x", "h", grid=1), launch("b", "scale", "h", "y"),
                                           h=h))[0]
            self.assertEqual([(w["code"], w["launch"], w["buffer"]) for w in d["warnings"]],
                             [("uninitialised", "a", "h"), ("uninitialised", "b", "h")])
        # what comes from outside is there, with a fill or without
        x = {"bytes": 4 * N, "role": "input"}
        self.assertEqual(self.ask("optimize", graph(launch("a", "scale", "x", "h"), launch("b", "scale", "h", "y"),
                                                    x=x))[0]["warnings"], [])

    def test_lockstep(self):
        """Lanes that work together, in a block that is larger now; not in one that stays as it was."""
        g = graph(launch("a", "folds", "x", "h", block=48), launch("b", "back", "h", "y"))
        d, lines = self.ask("optimize", g)
        self.assertEqual([len(d["launches"]), d["verified"]["bitwise"]], [1, True])
        self.assertEqual([(w["code"], w["pointer"], w["launch"]) for w in d["warnings"]],
                         [("lockstep", "/launches/0", "a")])
        self.assertEqual(len(lines), 1)
        self.assertEqual(self.ask("optimize", g)[0]["warnings"], d["warnings"])  # from the cache
        self.assertEqual(self.ask("analyze", g)[0]["warnings"], [])
        d = self.ask("optimize", g, "--deny", "block-fusion,recompute", cache="other.db")[0]
        self.assertEqual((len(d["launches"]), d["warnings"]), (2, []))

    def test_written_input(self):
        g = graph(launch("a", "scale", "x", "x"), launch("b", "scale", "x", "y"))
        for verb in ("analyze", "optimize"):
            d, lines = self.ask(verb, g)
            self.assertEqual([(w["code"], w["launch"], w["buffer"]) for w in d["warnings"]],
                             [("written-input", "a", "x")])
            self.assertEqual(len(lines), 1)
        d = self.ask("analyze", graph({"name": "z", "memset": {"buffer": "x", "bytes": 64, "value": 0}},
                                      launch("b", "scale", "x", "y")))[0]
        self.assertEqual([(w["code"], w["pointer"], w["launch"]) for w in d["warnings"]],
                         [("written-input", "/launches/0", "z")])

    def test_nothing_to_compare(self):
        g = graph(launch("a", "scale", "x", "h"), launch("b", "scale", "h", "g"), y=None)
        for verb in ("analyze", "optimize", "run"):
            d, lines = self.ask(verb, g)
            self.assertEqual((told(d), len(lines)), ([("no-output", "/buffers")], 1))
        d = self.ask("optimize", g)[0]
        self.assertEqual(d["verified"], {"bitwise": False, "unchanged": True})
        self.assertEqual(len(d["launches"]), 2)
        self.assertEqual({(r["verdict"], r["reason"][:10]) for r in d["rewrites"]}, {("refused", "no-output:")})
        self.assertEqual(self.ask("optimize", graph(launch("a", "scale", "x", "y")))[0]["verified"],
                         {"bitwise": True, "unchanged": True})

    def test_grid_of_threads(self):
        for verb in ("analyze", "optimize"):
            d, lines = self.ask(verb, graph(launch("a", "some", "x", "y", grid=N)))
            self.assertEqual(told(d), [("idle-blocks", "/launches/0")])
            self.assertIn(f"{N - N // 64} of {N} blocks write nothing: is the grid [{N}, 1, 1] a number of threads?",
                          lines[0])
        # a few too many
        self.assertEqual(self.ask("analyze", graph(launch("a", "some", "x", "y", grid=N // 64 + 20)))[0]["warnings"],
                         [])
        self.assertEqual(told(self.ask("analyze", graph(launch("a", "nothing", "x", "h"),
                                                        launch("b", "scale", "x", "y")))[0]),
                         [("no-effect", "/launches/0")])

    def test_many(self):
        """A bound, and how many there are besides; of the document and of its kernels each."""
        g = graph(*[launch(f"r{i}", "twice", "x", "y") for i in range(25)], **{})
        g.update({f"m{i}": 1 for i in range(30)})
        d, lines = self.ask("analyze", g)
        self.assertEqual([w["pointer"] for w in d["warnings"]],
                         [f"/m{i}" for i in range(20)] + [f"/launches/{i}" for i in range(20)])
        self.assertEqual((d["warnings_left_out"], lines[-1]), (15, "dovetail: warning: and 15 more"))
        d = self.ask("optimize", g)[0]
        self.assertEqual((len(d["warnings"]), d["warnings_left_out"], d["verified"]),
                         (40, 15, {"bitwise": False, "unchanged": True, "races": True}))
        # also of those that are not listed
        self.assertTrue(all(r["reason"].startswith("racy: ") for r in d["rewrites"]), d["rewrites"])

    def test_in_part(self):
        """A launch of much work runs under the checks in part, and leaves what it always leaves: once more, and its
        numbers were no indices."""
        n = 65536
        g = graph(launch("a", "down", "y", "y", grid=n // 64), launch("b", "pick", "x", "y", grid=n // 64),
                  x={"bytes": 4 * n, "role": "input", "fill": {"uniform": [0, 9], "dtype": "u32", "seed": 3}},
                  y={"bytes": 4 * n, "role": "inout", "fill": {"uniform": [n, 2 * n], "dtype": "u32", "seed": 4}})
        d = self.ask("optimize", g)[0]
        self.assertEqual([w for w in told(d) if w[0] == "race"], [("race", "/launches/1")])
        self.assertEqual(d["checked"]["of"], 2 * n // 64)
        self.assertGreater(d["checked"]["blocks"], n // 64)
        self.assertLess(d["checked"]["blocks"], 2 * n // 64)
        self.assertEqual({r["reason"] for r in d["rewrites"] if "b" in r["launches"]}, {"racy: 'b' races with itself"})

    def test_same_every_time(self):
        g = graph(launch("a", "turn", "x", "h"), launch("b", "twice", "h", "g"), launch("c", "half", "g", "y"))
        found = [self.ask("optimize", g, cache=f"{i}.db")[0]["warnings"] for i in range(3)]
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])
        self.assertEqual({(w["code"], w["launch"]) for w in found[0]} >= {("race", "a"), ("race", "b"),
            ("uninitialised", "c")}, True)

    def test_report(self):
        d = self.ask("optimize", TURN)[0]
        out = os.path.join(self.dir, "r.html")
        r = cli("report", d["signature"], "--local", "--device", "soft", "--cache", f"{self.dir}/c.db", "-o", out)
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(out, encoding="utf-8") as f:
            text = f.read()
        self.assertIn("<h2>Warnings</h2>", text)
        self.assertIn("k.cu:1", text)
        self.assertIn("the posted launches race", text)


main()
