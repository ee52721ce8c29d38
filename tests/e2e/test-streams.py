#!/usr/bin/env python3
"""Graphs on several streams: the posted launches run side by side as the poster has them, so that a plan is held
against that; a gain that is none beside others is not kept; plans give the posted bytes and keep every hazard, whatever
the graph; what nothing orders is told, and taken in the order of the document; the order is part of what the graph
is."""
import json
import os
import random

from harness import FolderCase, SLOW, changed, main, write

CUDA = r"""
extern "C" __global__ void work(const float *x, float *y, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int k = 0; k < rounds; k++)
        v = v * 0.999f + 0.125f;
    y[i] = v;
}
extern "C" __global__ void add(const float *x, const float *y, float *z)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    z[i] = x[i] + y[i];
}
extern "C" __global__ void turn(const float *x, float *y)
{
    __shared__ float s[128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    s[t] = x[i];
    __syncthreads();
    y[i] = s[127 - t] * 0.5f;
}
"""
SIZE = 16 * 128 * 4


def buffer(role, seed=0):
    fill = {"fill": {"uniform": [-1, 1], "dtype": "f32", "seed": seed}} if seed else {}
    return {"bytes": SIZE, "role": role, **fill}


def launch(name, entry, *args, **more):
    args = [{"buffer": a} if isinstance(a, str) else {"i32": a} for a in args]
    return {"name": name, "module": "m", "entry": entry, "grid": [16, 1, 1], "block": [128, 1, 1], "args": args, **more}


def two(rounds=300):
    """left and right side by side; join needs both."""
    return {"dovetail": 1, "name": "two", "modules": {"m": {"cuda": CUDA}},
            "buffers": {"x": buffer("input", 1), "w": buffer("input", 2), "a": buffer("intermediate"),
                        "b": buffer("intermediate"), "z": buffer("output")},
            "launches": [launch("left", "work", "x", "a", rounds),
                         launch("right", "work", "w", "b", rounds, stream=1),
                         launch("join", "add", "a", "b", "z", after=["right"])]}


def in_a_row(g):
    return {**g, "launches": [{k: v for k, v in l.items() if k not in ("stream", "after")} for l in g["launches"]]}


EARLY = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
    .reg .u64 %rd<8>; .reg .b32 %r<8>;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
    griddepcontrol.launch_dependents;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 128, %r1; mul.wide.u32 %rd3, %r3, 4;
    add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
    griddepcontrol.wait;
    ld.global.u32 %r4, [%rd4]; add.u32 %r4, %r4, 1; st.global.u32 [%rd5], %r4;
    ret;
}
"""


def by_chance(rng):
    """Launches on up to four streams, each after what it reads and overwrites where its stream does not say so."""
    n, names = rng.randint(5, 9), ["x", "w", "a", "b", "c", "d", "e"]
    g = {"dovetail": 1, "name": "chance", "modules": {"m": {"cuda": CUDA}}, "launches": [],
         "buffers": {k: buffer("input" if i < 2 else rng.choice(("intermediate", "output")), i + 1)
                     for i, k in enumerate(names)}}
    touched = [] # (reads, writes)
    written = ["x", "w"]
    for i in range(n):
        reads = [rng.choice(written) for _ in range(rng.choice((1, 1, 2)))]
        to = rng.choice([k for k in names[2:] if k not in reads])
        entry = "add" if len(reads) == 2 else rng.choice(("work", "turn"))
        after = [j for j, (r, w) in enumerate(touched) if w in reads or w == to or to in r]
        extra = [rng.choice((1, 20, 200))] if entry == "work" else []
        more = {"stream": rng.randrange(rng.choice((1, 4))), "after": [f"l{j}" for j in after]}
        if rng.random() < 0.2:
            g["launches"].append({"name": f"l{i}", **more,
                                  "memset": {"buffer": to, "offset": 0, "bytes": SIZE, "value": 0}})
            reads = []
        else:
            g["launches"].append(launch(f"l{i}", entry, *reads, to, *extra, **more))
        touched.append((reads, to))
        written.append(to)
    g["buffers"][touched[-1][1]]["role"] = "output"
    return g


class Streams(FolderCase):
    def plan(self, g, *args):
        return self.doc("optimize", *self.local, self.post(g), "-o", os.path.join(self.dir, "plan"), *args)

    def post(self, g):
        return write(self.dir, "graph.json", g)

    def ran(self, path):
        """(microseconds, digests of outputs, warnings)"""
        d = self.doc("run", *self.local, os.path.join(self.dir, path))
        return d["time_us"], {o["buffer"]: o["sha256"] for o in d["outputs"]}, d["warnings"]

    def test_honest(self):
        g = two()
        row, side = self.plan(in_a_row(g), "--deny", "block-fusion"), self.plan(g, "--deny", "block-fusion")
        us, out, warnings = self.ran("graph.json")
        self.assertEqual(warnings, [])
        self.assertAlmostEqual(side["baseline"]["time_us"], us, delta=0.001)
        # in a row the two in one grid would be a large gain; side by side they are none
        kept = [r["kind"] for r in row["rewrites"] if r["verdict"] == "kept"]
        self.assertIn("parallel-fusion", kept)
        self.assertGreater(row["baseline"]["time_us"], 1.4 * us)
        self.assertGreater(row["baseline"]["time_us"], 2 * row["optimized"]["time_us"])
        self.assertEqual([r["verdict"] for r in side["rewrites"] if r["kind"] == "parallel-fusion"], ["dropped"])
        self.assertEqual((side["optimized"]["time_us"], side["optimized"]["launches"]),
                         (side["baseline"]["time_us"], 3))
        self.assertEqual([(l["stream"], l["after"]) for l in side["launches"]],
                         [(0, []), (1, []), (0, ["left", "right"])])
        self.assertEqual(self.ran("plan/plan.json")[:2], (us, out))

    def test_gain(self):
        """What gains beside others is kept: in one launch, by a detour."""
        g = two()
        d = self.plan(g)
        us, out, _ = self.ran("graph.json")
        self.assertLess(d["optimized"]["time_us"], 0.8 * us)
        self.assertEqual([l["stream"] for l in d["original"]["launches"]], [0, 1, 0])
        self.assertEqual(self.ran("plan/plan.json")[1], out)
        self.assertTrue(d["verified"]["bitwise"])

    def test_streams_stay(self):
        """A fusion on each of two streams: what comes of it is side by side as well."""
        g = two(40)
        for k, s in ("a", 0), ("b", 1):
            g["buffers"][k + "0"] = buffer("intermediate")
            g["launches"].insert(0, launch("first" + k, "work", "x" if s == 0 else "w", k + "0", 40, stream=s))
        g["launches"][2]["args"][0]["buffer"], g["launches"][3]["args"][0]["buffer"] = "a0", "b0"
        d = self.plan(g, "--deny", "parallel-fusion,programmatic-launch")
        # the first of the two gains nothing while the other stream takes as long
        kept = [(r["launches"], r["before_us"] > r["after_us"]) for r in d["rewrites"] if r["verdict"] == "kept"]
        self.assertEqual(kept, [(["firsta", "left"], False), (["firstb", "right"], True)])
        self.assertEqual(sorted((l["name"], l["stream"], l["after"]) for l in d["launches"]),
                         [("firsta+left", 0, []), ("firstb+right", 1, []),
                          ("join", 0, ["firsta+left", "firstb+right"])])
        us, out, _ = self.ran("graph.json")
        self.assertLess(d["optimized"]["time_us"], 0.75 * us)
        self.assertEqual(self.ran("plan/plan.json")[1], out)

    def test_idle(self):
        """What gains only while another stream takes longer, with nothing after it, is not kept in the end."""
        g = two(40)
        g["launches"][1]["args"][2]["i32"] = 3000
        g["launches"][2] = launch("more", "turn", "a", "z")
        g["buffers"]["b"]["role"] = "output"
        d = self.plan(g, "--deny", "parallel-fusion,programmatic-launch,prefetch,slice,narrow-blocks")
        r = next(r for r in d["rewrites"] if r["launches"] == ["left", "more"])
        self.assertEqual((r["verdict"], r["before_us"]), ("dropped", r["after_us"]))
        self.assertIn("what runs beside it takes as long", r["reason"])
        self.assertEqual((d["optimized"]["launches"], d["optimized"]["time_us"]), (3, d["baseline"]["time_us"]))

    def test_unordered(self):
        g = two()
        del g["launches"][2]["after"]
        for verb in "analyze", "run":
            d = self.doc(verb, *self.local, self.post(g))
            self.assertEqual([(w["code"], w["launch"], w["buffer"], w["pointer"]) for w in d["warnings"]],
                             [("unordered", "join", "b", "/launches/2")])
            self.assertIn("/launches/1", d["warnings"][0]["message"])
        d = self.plan(g)
        self.assertEqual([w["code"] for w in d["warnings"]], ["unordered"])
        self.assertAlmostEqual(d["baseline"]["time_us"], self.plan(two())["baseline"]["time_us"])
        # from the cache, with the names of another poster
        text = json.dumps(g).replace('"join"', '"sum"').replace('"b"', '"other"')
        d = self.doc("analyze", *self.local, self.post(json.loads(text)))
        self.assertEqual([(w["launch"], w["buffer"]) for w in d["warnings"]], [("sum", "other")])
        # nothing is left open: on one stream, and by a launch between
        g = two()
        g["launches"][1]["stream"] = 0
        g["launches"].insert(2, launch("between", "turn", "x", "c", stream=1, after=["right"]))
        g["launches"][3]["after"] = ["between"]
        g["buffers"]["c"] = buffer("output")
        self.assertEqual(self.doc("analyze", *self.local, self.post(g))["warnings"], [])

    def test_early(self):
        """A launch that the program lets start early does so in the baseline; it is left alone, others are not."""
        def chain(early):
            g = {"dovetail": 1, "name": "early", "modules": {"m": {"ptx": EARLY}}, "launches": [],
                 "buffers": {"b%d" % i: buffer("input" if i == 0 else "output" if i == 4 else "intermediate", 1)
                             for i in range(5)}}
            for i in range(4):
                g["launches"].append(launch("l%d" % i, "k", "b%d" % i, "b%d" % (i + 1),
                                            **({"programmatic": True} if i in early else {})))
            return g
        took = []
        for early in (), (1,), (1, 2, 3):
            d = self.plan(chain(early))
            us, out, warnings = self.ran("graph.json")
            self.assertEqual(warnings, [])
            self.assertAlmostEqual(d["baseline"]["time_us"], us, delta=0.001)
            self.assertEqual(self.ran("plan/plan.json")[1], out)
            took.append((us, out))
        self.assertGreater(took[0][0], took[1][0])
        self.assertGreater(took[1][0], took[2][0])
        self.assertEqual(took[0][1], took[2][1])

    def test_identity(self):
        """The order is part of digest and signature; on one stream there is nothing to say."""
        def key(g):
            d = self.doc("explain", *self.local, self.post(g))
            return d["digest"], d["signature"], d["factors"]
        g = two(1)
        side, row = key(g), key(in_a_row(g))
        self.assertNotEqual(side[0], row[0])
        self.assertEqual({k: v for k, v in side[2].items() if row[2].get(k) != v},
                         {"l0.order": "stream 0 after", "l1.order": "stream 1 after", "l2.order": "stream 0 after l1"})
        same = changed(in_a_row(g))
        for l in same["launches"]:
            l["stream"] = 7
        same["launches"][1]["after"] = ["left"]
        self.assertEqual(key(same), row)

    def test_refused(self):
        for bad, pointer in (({"stream": 1024}, "/launches/1/stream"), ({"stream": "a"}, "/launches/1/stream"),
                             ({"after": ["join"]}, "/launches/1/after/0"), ({"after": "left"}, "/launches/1/after")):
            g = two()
            g["launches"][1].update(bad)
            d = self.doc("analyze", *self.local, self.post(g), status=3)
            self.assertEqual((d["code"], d["pointer"]), ("bad-graph", pointer))

    def test_by_chance(self):
        """Whatever the graph: the posted bytes, no slower, and the order check of `run` passes."""
        gained = 0
        for seed in range(2 if SLOW > 1 else 6):
            g = by_chance(random.Random(seed))
            with self.subTest(seed=seed):
                d = self.plan(g)
                self.assertEqual([w for w in d["warnings"] if w["code"] == "unordered"], [])
                us, out, _ = self.ran("graph.json")
                self.assertAlmostEqual(d["baseline"]["time_us"], us, delta=0.001)
                self.assertLessEqual(d["optimized"]["time_us"], d["baseline"]["time_us"])
                self.assertEqual(self.ran("plan/plan.json")[1], out)
                gained += d["optimized"]["time_us"] < us
        self.assertGreater(gained, 1)


if __name__ == "__main__":
    main()
