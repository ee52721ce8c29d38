#!/usr/bin/env python3
"""Planning where nothing may be done, and at the limits of the hardware: kernels that use all of something, graphs on
which every joining or moving rewrite is illegal, plans whose scratch memory does not fit, names of rewrites that there
are not. Through the command line, on the software device (H200: 1024 threads a block, 227 KB of shared memory, 65536
registers an SM, 64 KB of constants, 16 barriers).
"""
import json
import os

from harness import FolderCase, cli, main, write

N = 4096
MOVES = {"block-fusion", "parallel-fusion", "split", "dead-blocks", "recompute", "dataflow-fusion",
         "narrow-blocks", "slice", "tails", "pack", "roles"}


def entry(name, body, params="", inside=""):
    """y[i] = x[i], with `body` between the load into %f1 and the store."""
    return """.visible .entry %s(.param .u64 p0, .param .u64 p1%s)
{
.reg .b64 %%rd<8>; .reg .b32 %%r<8>; .reg .f32 %%f<300>; .reg .pred %%p<4>; %s
ld.param.u64 %%rd1, [p0]; ld.param.u64 %%rd2, [p1];
mov.u32 %%r1, %%ctaid.x; mov.u32 %%r2, %%ntid.x; mov.u32 %%r3, %%tid.x; mad.lo.s32 %%r4, %%r1, %%r2, %%r3;
mul.wide.s32 %%rd3, %%r4, 4; add.s64 %%rd4, %%rd1, %%rd3; add.s64 %%rd5, %%rd2, %%rd3;
ld.global.f32 %%f1, [%%rd4];
%s
st.global.f32 [%%rd5], %%f1;
ret;
}
""" % (name, params, inside, body)


def module(*entries, before="", version="9.0"):
    return ".version %s\n.target sm_80\n.address_size 64\n%s\n%s" % (version, before, "".join(entries))


def launch(name, kernel, threads, source, target, more=(), shared=0):
    return {"name": name, "module": "m", "entry": kernel, "grid": [N // threads, 1, 1], "block": [threads, 1, 1],
            "shared": shared,
            "args": [{"buffer": source}, {"buffer": target}, *more]}


def graph(text, *launches, **buffers):
    return {"dovetail": 1, "name": "limits", "modules": {"m": {"ptx": text}}, "launches": list(launches),
            "buffers": {"x": {"bytes": 4 * N, "role": "input", "fill": {"uniform": [-1, 1], "dtype": "f32", "seed": 1}},
                        "h": {"bytes": 4 * N, "role": "intermediate"}, "y": {"bytes": 4 * N, "role": "output"}}
            | buffers}


def pair(text, first="k", second="plain", threads=(128, 128), more=(), shared=(0, 0)):
    return graph(text, launch("a", first, threads[0], "x", "h", more if first == "k" else (), shared[0]),
                 launch("b", second, threads[1], "h", "y", more if second == "k" else (), shared[1]))


PLAIN = entry("plain", "add.rn.f32 %f1, %f1, 0f3F800000;")
MEETS = entry("plain", "bar.sync 0; add.rn.f32 %f1, %f1, 0f3F800000;")  # not pointwise: joined, not inlined
# 230 values that are all needed after the barrier, in an order in which none can be computed again
LIVE = ("".join("fma.rn.f32 %%f%d, %%f%d, %%f%d, 0f3F000000;" % (k, k - 1, k - 1) for k in range(2, 232))
        + "bar.sync 0;" +
        "".join("fma.rn.f32 %%f1, %%f1, %%f%d, %%f%d;" % (k, k) for k in range(231, 1, -1)))
SHARED = ("shl.b32 %r6, %r3, 2; mov.u32 %r5, big; add.u32 %r5, %r5, %r6; st.shared.f32 [%r5], %f1; bar.sync 0; "
          "ld.shared.f32 %f1, [%r5];")


class Limits(FolderCase):
    def optimize(self, g, *more):
        """The plan; graph and plan leave the same bytes on inputs that the planner has not seen."""
        path, out = write(self.dir, "g.json", g), os.path.join(self.dir, "plan")
        self.ok("optimize", path, "-o", out, *more, *self.local)
        self.assertEqual(self.left(path, *self.local), self.left(out + "/plan.json", *self.local))
        with open(out + "/plan.json", encoding="utf-8") as f:
            plan = json.load(f)
        self.assertLessEqual(plan["optimized"]["time_us"], plan["baseline"]["time_us"])
        for x in plan["rewrites"]:
            self.assertTrue(x["verdict"] == "kept" or x.get("reason"), x)
        return plan

    def fused(self, g):
        return next(x for x in self.optimize(g)["rewrites"] if x["kind"] == "block-fusion" and x["launches"]
                    == ["a", "b"])

    def refused(self, g, words, status=3):
        r = cli("optimize", write(self.dir, "g.json", g), *self.local)
        self.assertEqual(r.returncode, status, r.stderr)
        self.assertIn(words, r.stderr)

    def test_nothing_is_legal(self):
        kernels = {"smid": "mov.u32 %r5, %smid; setp.gt.u32 %p1, %r5, 5000; @%p1 add.rn.f32 %f1, %f1, %f1;",
                   "fence": "fence.acq_rel.gpu;",
                   "volatile": "st.volatile.global.f32 [%rd5], %f1;",
                   "trap": "setp.gt.f32 %p1, %f1, 0f42C80000; @%p1 trap;",
                   "clock": "mov.u64 %rd6, %clock64; setp.eq.s64 %p1, %rd6, 0; @%p1 add.rn.f32 %f1, %f1, %f1;"}
        names = list(kernels)
        buffers = {"t%d" % k: {"bytes": 4 * N, "role": "intermediate"} for k in range(len(names))}
        steps = [launch(n, n, 128, "t%d" % (k - 1) if k else "x", "t%d" % k) for k, n in enumerate(names)]
        steps.append(launch("last", "smid", 128, "t%d" % (len(names) - 1), "y"))
        g = graph(module(*(entry(n, b) for n, b in kernels.items())), *steps, **buffers)
        for more in ([], ["--allow", ",".join(sorted(MOVES))]):
            plan = self.optimize(g, *more)
            self.assertEqual([x for x in plan["rewrites"] if x["verdict"] == "kept" and x["kind"] in MOVES], [])
            told = {tuple(x["launches"]): x["reason"] for x in plan["rewrites"] if x["kind"] == "block-fusion"}
            for a, b in zip(names, names[1:] + ["last"]):
                self.assertIn((a, b), told)

    def test_threads(self):
        text = module(entry("k", "bar.sync 0;"), PLAIN)
        self.assertEqual(self.fused(pair(text, threads=(1024, 1024)))["verdict"], "kept")
        self.fused(pair(text, threads=(1024, 32)))
        self.refused(pair(text, threads=(2048, 128)), "2048 is over the limit of 1024")
        g = pair(text)
        g["launches"][0]["block"] = [1, 1, 65]
        self.refused(g, "65 is over the limit of 64")
        g = pair(text)
        g["launches"][0]["grid"] = [1, 65536, 1]
        self.refused(g, "65536 is over the limit of 65535")

    def test_shared_memory(self):
        text = module(entry("k", SHARED), PLAIN, before=".extern .shared .align 16 .b8 big[];")
        for second in ("k", "plain"):
            x = self.fused(pair(text, second=second, shared=(232448, 232448 if second == "k" else 0)))
            # there is no room for the intermediate
            self.assertTrue(x["verdict"] != "kept" or x["level"] != "shared", x)
        self.refused(pair(text, shared=(232449, 0)), "more than the 232448")
        text = module(entry("k", SHARED, inside=".shared .align 4 .b8 big[49152];"), PLAIN)
        self.assertEqual(self.fused(pair(text, second="k"))["verdict"], "kept")  # one after the other in the same 48 KB
        self.fused(pair(text, second="k", shared=(232448 - 49152, 0)))
        self.refused(pair(text, shared=(232448 - 49152 + 16, 0)), "more than the 232448")
        self.refused(pair(text.replace("[49152]", "[49156]")), "shared")

    def test_registers(self):
        text = module(entry("k", LIVE), MEETS)
        self.assertEqual(self.fused(pair(text, threads=(256, 256)))["verdict"], "kept")
        x = self.fused(pair(text, threads=(256, 1024)))  # 230 registers do not go with 1024 threads
        self.assertEqual((x["verdict"], x["reason"].split(":")[0]), ("refused", "resources"))
        self.refused(pair(text, threads=(512, 512)), "registers")

    def test_barriers(self):
        text = module(entry("k", "".join("bar.sync %d;" % k for k in range(16))), MEETS)
        x = self.fused(pair(text, threads=(128, 256)))
        self.assertEqual((x["verdict"], x["reason"].split(":")[0]), ("refused", "barrier-numbers"))
        self.assertEqual(self.fused(pair(text))["verdict"], "kept")  # all threads meet at barrier 0 in both

    def test_parameters(self):
        def of(total, version):
            bytes_ = total - 16
            return pair(module(entry("k", "add.rn.f32 %f1, %f1, %f1;", ", .param .align 4 .b8 p2[%d]" % bytes_), PLAIN,
                               version=version),
                        second="k",
                        more=[{"bytes": "00" * bytes_}])
        for total, version in ((4352, "8.0"), (32764, "9.0")):
            x = self.fused(of(total, version))
            self.assertEqual((x["verdict"], x["reason"].split(":")[0]), ("refused", "parameters"))
        self.refused(of(4356, "8.0"), "ptxas")  # more needs PTX 8.1
        self.refused(of(32768, "9.0"), "over the limit of 32764")
        self.refused(of(40000, "9.0"), "too-large")

    def test_constants(self):
        use = "ld.const.f32 %f2, [tab+65532]; add.rn.f32 %f1, %f1, %f2;"
        text = module(entry("k", use), PLAIN, before=".const .align 4 .b8 tab[65536];")
        self.assertEqual(self.fused(pair(text))["verdict"], "kept")
        self.assertEqual(self.fused(pair(text, second="k"))["verdict"], "kept")  # one table of one module
        generic = use + "mov.u64 %rd6, tab; cvta.const.u64 %rd6, %rd6; ld.f32 %f2, [%rd6]; add.rn.f32 %f1, %f1, %f2;"
        for access, verdict in ((use, "kept"), (generic, "refused")):  # in global memory, if the address stays in loads
            g = pair(module(entry("k", access), PLAIN, before=".const .align 4 .b8 tab[65536];"))
            g["modules"]["n"] = {"ptx": module(entry("other", access), before=".const .align 4 .b8 tab[65536];")}
            g["launches"][1] |= {"module": "n", "entry": "other"}
            x = self.fused(g)
            self.assertEqual((x["verdict"], x["reason"].startswith("constant-space: the kernels' tables")),
                             (verdict, verdict == "refused"))
        self.refused(pair(text.replace("[65536]", "[65540]")), "ptxas")

    def test_lists_of_blocks(self):
        """More block numbers than constant memory holds are in global memory, where no order of them is affine."""
        blocks = 33013

        def mixed(name, by, more, after):
            return """.visible .entry %s(.param .u64 p0, .param .u64 p1)
{
.reg .b64 %%rd<8>; .reg .b32 %%r<9>; .reg .f32 %%f<3>; .shared .align 4 .b8 s[128];
ld.param.u64 %%rd1, [p0]; ld.param.u64 %%rd2, [p1];
mov.u32 %%r1, %%ctaid.x; mad.lo.u32 %%r1, %%r1, %d, %d; rem.u32 %%r1, %%r1, %d;
mov.u32 %%r3, %%tid.x; mad.lo.u32 %%r4, %%r1, 32, %%r3;
mul.wide.u32 %%rd3, %%r4, 4; add.s64 %%rd4, %%rd1, %%rd3; add.s64 %%rd5, %%rd2, %%rd3;
ld.global.f32 %%f1, [%%rd4]; add.rn.f32 %%f1, %%f1, 0f3F800000;
%s
st.global.f32 [%%rd5], %%f1;
ret;
}
""" % (name, by, more, blocks, after)
        turn = ("shl.b32 %r5, %r3, 2; mov.u32 %r6, s; add.u32 %r7, %r6, %r5; st.shared.f32 [%r7], %f1; bar.sync 0; "
                "xor.b32 %r5, %r5, 124; add.u32 %r7, %r6, %r5; ld.shared.f32 %f1, [%r7];")
        others = "split,prefetch,programmatic-launch,dead-blocks,recompute,parallel-fusion,versions"
        g = pair(module(mixed("k", 7919, 13, ""), mixed("plain", 4729, 5, turn)), threads=(32, 32))
        for x in g["launches"]:
            x["grid"] = [blocks, 1, 1]
        for x in g["buffers"].values():
            x["bytes"] = blocks * 128
        file, out = write(self.dir, "g.json", g), os.path.join(self.dir, "lists")
        sums = json.loads(cli("run", file, "--json", *self.local).stdout)["outputs"]
        r = cli("optimize", file, "-o", out, "--json", "--deny", others, *self.local)
        self.assertEqual(r.returncode, 0, r.stderr)
        plan = json.loads(r.stdout)
        self.assertIn(("block-fusion", "kept"), [(x["kind"], x["verdict"]) for x in plan["rewrites"]], plan["rewrites"])
        made = next(m["ptx"] for m in plan["modules"].values() if "_tab[" in m["ptx"])
        line = next(x for x in made.splitlines() if "_tab[" in x)
        self.assertEqual(line.split(" .b8 ")[0], ".global .align 4")
        r = cli("run", out + "/plan.json", "--json", *self.local)
        self.assertEqual(json.loads(r.stdout)["outputs"], sums)

    def test_many_launches(self):
        """A thousand launches: the budget ends the search, and what was verified by then is the plan."""
        text, names = module(entry("k", "bar.sync 0; add.rn.f32 %f1, %f1, %f1;"), PLAIN), ["x"]
        names += [f"h{k}" for k in range(999)] + ["y"]
        g = graph(text, *[launch(f"l{k}", "k" if k % 2 else "plain", 128, names[k], names[k + 1]) for k in range(1000)],
                  **{n: {"bytes": 4 * N, "role": "intermediate"} for n in names[1:-1]})
        del g["buffers"]["h"]
        plan = self.optimize(g, "--budget", "1")
        self.assertEqual(plan["baseline"]["launches"], 1000)
        self.assertEqual(len(plan["timeline"]["bound_us"]["baseline"]), 1000)
        self.assertEqual(plan["stopped"]["budget_s"], 1)
        self.assertGreater(plan["stopped"]["not_tried"], 500)

    def test_many_blocks(self):
        """A hundred thousand blocks (and it has been tried with a million: docs/RESULTS.md)."""
        g = pair(module(entry("k", "add.rn.f32 %f1, %f1, %f1;"), PLAIN), threads=(32, 32))
        for x in g["launches"]:
            x["grid"] = [100000, 1, 1]
        for x in g["buffers"].values():
            x["bytes"] = 100000 * 128
        x = self.fused(g)
        self.assertEqual((x["verdict"], x["level"]), ("kept", "register"))

    def test_scratch_that_does_not_fit(self):
        out = os.path.join(self.dir, "plan")
        r = cli("optimize", write(self.dir, "g.json", pair(module(entry("k", ""), PLAIN))), "-o", out, *self.local)
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(out + "/plan.json", encoding="utf-8") as f:
            plan = json.load(f)
        for size, status, words in ((1 << 20, 0, ""), (1 << 37, 4, "out-of-memory: the buffers need"),
                                    (1 << 50, 3, "too-large"), ((1 << 63) - 1, 3, "too-large"),
                                    (1 << 63, 3, ""), (0, 3, "bad-graph"), (-4, 3, "bad-graph")):
            r = cli("run", write(self.dir, "p.json", plan | {"scratch": {"t0": {"bytes": size}}}), *self.local)
            self.assertEqual(r.returncode, status, (size, r.stderr))
            self.assertIn(words, r.stderr)

    def test_words_for_rewrites(self):
        path = write(self.dir, "g.json", pair(module(entry("k", ""), PLAIN)))
        for option in ("--allow", "--deny"):
            for word in ("bogus", "block-fusion,bogus", "Block-Fusion", "block fusion", ""):
                r = cli("optimize", path, option, word, *self.local)
                self.assertEqual(r.returncode, 2, (option, word, r.stderr))
            r = cli("optimize", path, option, "bogus", *self.local)
            self.assertIn("bogus", r.stderr)
        plan = self.optimize(pair(module(entry("k", ""), PLAIN)), "--deny", ",".join(sorted(MOVES)))
        self.assertEqual([x for x in plan["rewrites"] if x["kind"] in MOVES and x["verdict"] == "kept"], [])


if __name__ == "__main__":
    main()
