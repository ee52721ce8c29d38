"""`dovetail capture`: what a program launched, as a graph whose run gives the program's own bytes.

Captured (needs nvcc): the programs of captured.cu, and the commands of docs/CAPTURE.md. Traces: what comes of traces
that a script writes, in the place of the library that writes them: machine code alone, PTX beside it in a compiler's
cache, parts that cannot be taken, steps, and bytes that mean nothing.
"""
import base64
import hashlib
import json
import os
import random
import re
import shlex
import shutil
import stat
import struct
import subprocess
import sys
import textwrap
import unittest

import common
from common import CUDA, DOVETAIL, HERE, NVCC, SOFT

ROOT = os.path.dirname(os.path.dirname(HERE))


class Base(common.Base):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tmp = os.path.join(cls.dir, "tmp")
        os.mkdir(cls.tmp)

    def call(self, args, **env):
        return common.call(args, cwd=self.dir, **{"TMPDIR": self.tmp, "HOME": self.dir, **env})

    def capture(self, *args, status=0, **env):
        """(the graph, what was said); the graph is at self.graph"""
        self.graph = os.path.join(self.dir, "graph.json")
        if os.path.exists(self.graph):
            os.unlink(self.graph)
        r = self.call([DOVETAIL, "capture", "--local", "--device", "soft", "--json", "-o", self.graph, *args], **env)
        self.assertEqual(r.returncode, status, r.stderr + r.stdout)
        self.assertEqual(os.listdir(self.tmp), [], "traces are left")
        said = json.loads(r.stdout)
        if status > 1:
            return None, said
        self.assertEqual(stat.S_IMODE(os.stat(self.graph).st_mode), 0o600)
        with open(self.graph, encoding="utf-8") as f:
            return json.load(f), said

    def run_graph(self):
        """By buffer: what the graph's run leaves in it. Nothing is warned of."""
        dump = os.path.join(self.dir, "dump")
        shutil.rmtree(dump, ignore_errors=True)
        r = self.call([DOVETAIL, "run", "--local", "--device", "soft", "--json", "--dump", dump, self.graph])
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(json.loads(r.stdout).get("warnings", []), [])
        out = {}
        for name in os.listdir(dump):
            with open(os.path.join(dump, name), "rb") as f:
                out[name.removesuffix(".bin")] = f.read()
        return out

    def order(self, g):
        """(stream, what is in `after`, by number) of each launch; what is left out is 0 and nothing."""
        at = {l["name"]: i for i, l in enumerate(g["launches"])}
        return [(l.get("stream", 0), [at[a] for a in l.get("after", [])]) for l in g["launches"]]

    def follows(self, g):
        """By launch: all that have ended when it begins."""
        ended, last = [], {}
        for i, (stream, after) in enumerate(self.order(g)):
            direct = after + ([last[stream]] if stream in last else [])
            ended.append(set(direct).union(*(ended[k] for k in direct)))
            last[stream] = i
        return [sorted(s) for s in ended]

    def roles(self, g):
        return [b["role"] for n, b in g["buffers"].items() if "::" not in n]


@unittest.skipUnless(NVCC, "no nvcc")
class Captured(Base):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        flags = subprocess.run([DOVETAIL, "soft", "--flags"], capture_output=True, text=True, check=True).stdout.split()
        cls.prog = os.path.join(cls.dir, "captured")
        subprocess.run([NVCC, "-std=c++17", *flags, os.path.join(HERE, "captured.cu"), "-o", cls.prog], check=True)

    def take(self, what, *args, prog=None):
        """Captured with all content: the bytes of the graph's run are the program's."""
        got, plain = os.path.join(self.dir, "got"), os.path.join(self.dir, "plain")
        g, said = self.capture("--data", "all", *args, "--", prog or self.prog, what, got)
        self.assertEqual(self.call([self.prog, what, plain]).returncode, 0)
        with open(got, "rb") as f, open(plain, "rb") as p:
            program = f.read()
            self.assertEqual(program, p.read(), "capturing changed the program")
        after, taken = self.run_graph(), g["captured"]["taken"]
        self.assertEqual(g["captured"]["unknown"], [])
        parts = [after[t["buffer"]][t["offset"]:t["offset"] + t["bytes"]] for t in taken]
        for t, part in zip(taken, parts):
            self.assertEqual(t["sha256"], "sha256:" + hashlib.sha256(part).hexdigest())
        if not args and taken:
            self.assertEqual(b"".join(parts), program)
        self.assertEqual((said["checked"]["of"], said["checked"]["same"]), (len(taken), len(taken)))
        return g, after, program

    def warned(self, g):
        path = os.path.join(self.dir, "warned.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(g, f)
        r = self.call([DOVETAIL, "analyze", "--local", "--device", "soft", "--json", path])
        self.assertEqual(r.returncode, 0, r.stderr)
        return [f"{w['code']} {w['pointer']}" for w in json.loads(r.stdout)["warnings"]]

    def test_chain(self):
        g, *_ = self.take("chain")
        self.assertEqual(self.roles(g), ["input", "intermediate", "output"])
        self.assertEqual([l["name"] for l in g["launches"]], ["scale", "pair"])
        self.assertEqual(g["launches"][1]["args"][0]["bytes"][:32], "0" * 32, "an address of the program")

    def test_streams(self):
        g, *_ = self.take("streams")
        self.assertEqual(self.roles(g), ["input", "intermediate", "input", "intermediate", "output"])
        self.assertEqual(self.order(g), [(0, []), (1, []), (0, [1])])
        self.assertEqual((g["captured"]["streams"], g["captured"]["after"]), ([0, 1, 0], [[], [], [1]]))
        self.assertEqual(self.warned(g), [])
        # a document of before launches had streams: it says that the baseline is too long
        for l in g["launches"]:
            del l["stream"]
            l.pop("after", None)
        self.assertEqual(self.warned(g), ["streams /captured/streams"])
        # all in order: each waits for the one before it, or is on its stream
        g["captured"]["after"] = [[], [0], [1]]
        self.assertEqual(self.warned(g), [])
        for nonsense in (7, [1], [["x"], {}, None]):
            g["captured"]["after"] = nonsense
            self.warned(g)
        g["captured"]["streams"] = {"0": 1}
        self.assertEqual(self.warned(g), [])
        chain, *_ = self.take("chain")
        self.assertEqual([k for l in chain["launches"] for k in l if k in ("stream", "after")], [])
        self.assertEqual(self.warned(chain), [])

    def test_beside(self):
        """The baseline is the program's two streams, not a row: what a row would gain is none."""
        g, *_ = self.take("beside")
        self.assertEqual(self.order(g), [(0, []), (1, []), (0, [1])])
        took = {}
        for name in "beside", "row":
            path = os.path.join(self.dir, name + ".json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(g, f)
            r = self.call([DOVETAIL, "optimize", "--local", "--device", "soft", "--cache", self.dir + "/c.db", "--deny",
                           "block-fusion", "--json", path])
            self.assertEqual(r.returncode, 0, r.stderr)
            took[name] = json.loads(r.stdout)
            for l in g["launches"]: # the second time one after the other
                l.pop("stream", None)
                l.pop("after", None)
        beside, row = (took[n]["baseline"]["time_us"] for n in ("beside", "row"))
        self.assertGreater(row, 1.4 * beside)
        self.assertIn(("parallel-fusion", "kept"), [(x["kind"], x["verdict"]) for x in took["row"]["rewrites"]])
        self.assertEqual([x["verdict"] for x in took["beside"]["rewrites"]], ["dropped"])
        self.assertEqual(took["beside"]["optimized"]["time_us"], beside)

    def test_branches(self):
        """Branches of a CUDA graph stay apart; its second launch follows all of the first."""
        g, *_ = self.take("branches")
        self.assertEqual([l["entry"].count("work") for l in g["launches"]], [1, 1, 0] * 2)
        once = self.follows(g)[:3]
        self.assertEqual(once, [[], [], [0, 1]])
        self.assertEqual(self.follows(g)[3:], [[0, 1, 2], [0, 1, 2], [0, 1, 2, 3, 4]])
        self.assertEqual(self.warned(g), [])

    def test_orders(self):
        """The host, the default stream, streams that do not wait for it, a stream that is gone."""
        g, *_ = self.take("orders")
        outs = [t["buffer"] for t in g["captured"]["taken"]] # y0 … y5, in this order
        by = [next(a["buffer"] for a in l["args"][1:] if "buffer" in a) for l in g["launches"]]
        self.assertEqual([outs.index(b) for b in by], [0, 2, 1, 3, 4, 5])
        # by launch: y0; y2; y1 behind the host's wait for y0; y3 behind y0 and y1; y4 behind that; y5 behind y0 alone
        self.assertEqual(self.follows(g), [[], [], [0], [0, 2], [0, 2, 3], [0]])

    def test_mixed(self):
        g, *_ = self.take("mixed")
        self.assertEqual([next(k for k in ("memset", "copy", "module") if k in l) for l in g["launches"]],
                         ["memset", "module", "copy", "module", "memset", "copy", "module"])
        self.assertEqual(g["buffers"]["m0::bias"]["role"], "inout")
        self.assertEqual(g["buffers"]["host0"]["role"], "input")

    def test_arena(self):
        """One allocation becomes a buffer for each use, and nothing that is used again depends on what was there."""
        g, *_ = self.take("arena")
        self.assertEqual(self.roles(g), ["input", "intermediate", "intermediate", "input", "intermediate", "output"])
        self.assertEqual({b["bytes"] for n, b in g["buffers"].items() if "::" not in n}, {4000})
        used = [[a["buffer"] for a in l["args"] if "buffer" in a] for l in g["launches"]]
        self.assertEqual(used, [["b0", "b1"], ["b1", "b2"], ["b3", "b4"], ["b4", "b2", "b5"]])

    def test_graph_and_pool(self):
        g, *_ = self.take("graph")
        self.assertEqual(len(g["launches"]), 8)
        g, *_ = self.take("pool")
        self.assertEqual(len(g["launches"]), 6)

    def test_managed(self):
        g, after, program = self.take("managed")
        self.assertEqual(self.roles(g), ["input", "intermediate", "input", "output"])
        self.assertEqual(after["b3"], program)

    def test_step(self):
        passes = []
        for n in "1", "3", "auto":
            g, after, program = self.take("steps", "--step", n)
            self.assertEqual([l["name"] for l in g["launches"]], ["scale", "add", "scale-2"])
            # the state is read before it is written, in every pass; h is overwritten first, and nobody else reads it
            self.assertEqual(self.roles(g), ["inout", "intermediate", "input", "output"])
            self.assertEqual((g["captured"]["step"]["operations"], g["captured"]["step"]["passes"]), (4, 5))
            passes.append(program.find(after["b3"]) // 4000)
        self.assertEqual(passes, [0, 2, 1])
        # of the last pass nobody reads the state any more; but each pass reads what the one before it left
        g, *_ = self.take("steps", "--step", "5")
        self.assertEqual(self.roles(g), ["inout", "intermediate", "input", "output"])
        self.assertEqual(self.capture("--step", "6", "--", self.prog, "steps", "/dev/null", status=3)[1]["code"],
                         "not-found")
        self.assertIn("no step repeats", self.capture("--step", "auto", "--", self.prog, "chain", "/dev/null",
                                                      status=3)[1]["detail"])

    def test_data(self):
        for data, kept in ("none", []), ("indices", ["b1"]), ("all", ["b0", "b1"]):
            g, _ = self.capture("--data", data, "--", self.prog, "indices", "/dev/null")
            self.assertEqual([n for n, b in g["buffers"].items() if "data" in b], kept)
            self.assertEqual(g["captured"]["unknown"], [n for n in ("b0", "b1") if n not in kept])
            self.run_graph() # indices that do not exist would be an error
        g, _ = self.capture("--", self.prog, "indices", "/dev/null")
        self.assertEqual(struct.unpack("<1000i", base64.b64decode(g["buffers"]["b1"]["data"])),
                         tuple(i * 31 % 1000 for i in range(1000)))
        self.assertEqual(g["buffers"]["b0"]["fill"]["dtype"], "f32")

    def test_places(self):
        """What the analysis says decides is kept, whatever its bits are; whole numbers that decide nothing are not."""
        g, said = self.capture("--", self.prog, "places", "/dev/null")
        by = {l["name"]: [a.get("buffer") for a in l["args"]] for l in g["launches"]}
        numbers, lengths, scores, (_, mask, out, _) = by["count"][0], by["runs"][0], by["chosen"][0], by["masked"]
        self.assertEqual(sorted(n for n, b in g["buffers"].items() if "data" in b), sorted({lengths, mask}))
        # bytes of a mask look like no places; lengths are read as numbers, and become places in the next launch
        self.assertEqual(base64.b64decode(g["buffers"][mask]["data"])[:4], b"\1\0\1\1")
        self.assertEqual(struct.unpack("<4i", base64.b64decode(g["buffers"][lengths]["data"])[:16]), (0, 1, 2, 3))
        # whole numbers, and scores from which a launch makes places of its own, are by chance
        self.assertEqual(g["buffers"][numbers]["fill"]["dtype"], "i32")
        self.assertEqual(g["buffers"][scores]["fill"]["dtype"], "f32")
        self.assertEqual(sorted(said["unknown"]), sorted({numbers, scores, out})) # out: nobody gave it anything
        self.run_graph() # places that do not exist would be an error

    def test_status(self):
        g, said = self.capture("--", "sh", "-c", f"{self.prog} chain /dev/null; exit 9", status=1)
        self.assertEqual((len(g["launches"]), said["exit"]), (2, 9))
        for args in (["--data", "some"], ["--step", "0"], ["--step", "x"]):
            self.assertEqual(self.capture(*args, "--", "true", status=2)[1]["code"], "usage")
        self.assertEqual(self.call([DOVETAIL, "capture", "--", "true"]).returncode, 2)
        self.assertEqual(self.capture("--", "true", status=3)[1]["code"], "not-found")
        self.capture("--", "/does/not/exist", status=4)
        mark = os.path.join(self.dir, "ran")
        r = self.call([DOVETAIL, "capture", "--local", "-o", "/does/not/exist/g.json", "--", "touch", mark])
        self.assertEqual((r.returncode, os.path.exists(mark)), (4, False), "it is known before the program runs")
        r = self.call([DOVETAIL, "capture", "--json", "--socket", "/does/not/exist", "-o", mark, "--", "touch", mark])
        self.assertEqual((r.returncode, json.loads(r.stdout)["code"], os.path.exists(mark)), (4, "no-service", False))

    def test_killed(self):
        """A process that is killed before it has written anything leaves a trace that is none; the others count."""
        empty = 'for f in "${DOVETAIL_CAPTURE_DIR:?}"; do : > "$f/1.trace"; done'
        g, _ = self.capture("--", "sh", "-c", f"{empty}; {self.prog} chain /dev/null")
        self.assertEqual(len(g["launches"]), 2)
        self.assertIn("no trace", self.capture("--", "sh", "-c", empty, status=4)[1]["detail"])

    def test_page(self):
        """The commands of docs/CAPTURE.md, in its order; figures are not compared."""
        with open(os.path.join(ROOT, "docs/CAPTURE.md"), encoding="utf-8") as f:
            blocks = re.findall(r"```console\n((?:.*\n)*?)```\n", f.read())
        self.assertGreaterEqual(len(blocks), 2)
        bin_ = os.path.join(self.dir, "bin")
        os.mkdir(bin_)
        for name, at in ("dovetail", DOVETAIL), ("nvcc", NVCC):
            with open(os.path.join(bin_, name), "w", encoding="utf-8") as f:
                f.write(f"#!/bin/sh\nexec {shlex.quote(at)} \"$@\"\n")
            os.chmod(os.path.join(bin_, name), 0o755)
        os.symlink(os.path.join(ROOT, "tests"), os.path.join(self.dir, "tests"))
        for block in blocks:
            for command, text in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
                r = self.call(["bash", "-c", command], PATH=bin_ + ":" + os.environ["PATH"])
                self.assertEqual(r.returncode, 0, command + "\n" + r.stderr)
                plain = lambda s: re.sub(r" +", " ", re.sub(r"[0-9a-f]{64}|\d+(\.\d+)?", "N", s)) # noqa: E731
                self.assertEqual(plain(r.stdout), plain(text), command)


DRIVER = r"""
#include <cuda.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    CUdevice d; CUcontext c; CUmodule m; CUfunction f; CUdeviceptr p, q; size_t pitch;
    unsigned rows[8], v[16];
    if (cuInit(0) || cuDeviceGet(&d, 0) || cuDevicePrimaryCtxRetain(&c, d) || cuCtxSetCurrent(c) ||
        cuModuleLoad(&m, argv[1]) || cuModuleGetFunction(&f, m, "k") || cuMemAllocPitch(&p, &pitch, 16, 4, 4) ||
        cuMemAlloc(&q, 64))
        return 1;
    for (int i = 0; i < 8; i++)
        rows[i] = 100 + i;
    CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = rows, .srcPitch = 16, .WidthInBytes = 16,
                        .Height = 2, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = p, .dstPitch = pitch, .dstY = 1};
    struct { CUdeviceptr from, to; } args = {q, p};
    size_t n = sizeof args;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &n, CU_LAUNCH_PARAM_END};
    CUlaunchConfig cfg = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 4, .blockDimY = 1, .blockDimZ = 1};
    CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = p, .srcPitch = pitch, .WidthInBytes = 16,
                         .Height = 4, .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = v, .dstPitch = 16};
    if (cuMemsetD2D32(p, pitch, 0x01020304, 4, 4) || cuMemcpy2D(&in) || cuMemsetD16(q, 0x0102, 32) ||
        cuLaunchKernelEx(&cfg, f, NULL, extra) || cuMemcpy2D(&out))
        return 2;
    FILE *o = fopen(argv[2], "wb");
    return !o || fwrite(v, 4, 16, o) != 16 || fclose(o);
}"""


LOOKED_UP = r"""
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
static CUresult (*get)(const char *, void **, int, cuuint64_t, void *);
static void *look(const char *name, int version, int flags)
{
    void *p = NULL;
    return get(name, &p, version, flags, NULL) ? NULL : p;
}
#define DO(name, version, ...) ((CUresult(*)())look(#name, version, 0))(__VA_ARGS__)
int main(int argc, char **argv)
{
    CUdevice d; CUcontext c; CUmodule m; CUfunction f; CUdeviceptr p, q; unsigned v[16] = {5}, w[16];
    void *a[] = {&p, &q}, *lib = dlopen("libcuda.so.1", RTLD_NOW);
    CUgraph g; CUgraphExec x; CUstream s;
    get = (CUresult(*)(const char *, void **, int, cuuint64_t, void *))dlsym(lib, "cuGetProcAddress_v2");
    if (DO(cuInit, 2000, 0) || DO(cuDeviceGet, 2000, &d, 0) || DO(cuDevicePrimaryCtxRetain, 7000, &c, d) ||
        DO(cuCtxSetCurrent, 4000, c) || DO(cuModuleLoad, 2000, &m, argv[1]) ||
        DO(cuModuleGetFunction, 2000, &f, m, "k") || DO(cuMemAlloc, 3020, &p, (size_t)64) ||
        DO(cuMemAlloc_v2, 3020, &q, (size_t)64) || DO(cuMemcpyHtoD, 3020, p, v, (size_t)64) ||
        DO(cuStreamCreate, 2000, &s, 0) || DO(cuStreamBeginCapture, 10010, s, 0) ||
        ((CUresult(*)())look("cuLaunchKernel", 7000, 2))(f, 1, 1, 1, 16, 1, 1, 0, s, a, NULL) ||
        DO(cuStreamEndCapture, 10000, s, &g) || DO(cuGraphInstantiate, 12000, &x, g, 0ull) ||
        DO(cuGraphLaunch, 10000, x, s) || DO(cuStreamSynchronize, 2000, s) ||
        DO(cuMemcpyDtoH, 3020, w, q, (size_t)64))
        return 1;
    FILE *o = fopen(argv[2], "wb");
    return !o || fwrite(w, 4, 16, o) != 16 || fclose(o);
}"""


EARLY = DRIVER[:DRIVER.index("    CUDA_MEMCPY2D out")].replace("4, .blockDimY", "16, .blockDimY") + r"""
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    CUgraph g; CUgraphExec x; CUstream s;
    if (cuMemsetD32(q, 1, 16) || cuLaunchKernelEx(&cfg, f, NULL, extra))
        return 2;
    args.from = p, args.to = q; cfg.attrs = &early; cfg.numAttrs = 1;
    if (cuLaunchKernelEx(&cfg, f, NULL, extra) || cuStreamCreate(&s, 0) || cuCtxSynchronize())
        return 3;
    cfg.hStream = s;
    if (cuStreamBeginCapture(s, 0) || cuLaunchKernelEx(&cfg, f, NULL, extra) || cuLaunchKernelEx(&cfg, f, NULL, extra) ||
        cuStreamEndCapture(s, &g) || cuGraphInstantiate(&x, g, 0) || cuGraphLaunch(x, s) || cuStreamSynchronize(s) ||
        cuMemcpyDtoH(v, q, 64))
        return 4;
    FILE *o = fopen(argv[2], "wb");
    return !o || fwrite(v, 4, 16, o) != 16 || fclose(o);
}"""


class Driver(Base):
    """Programs that are linked with the driver."""

    def take(self, source, ptx):
        """(the graph, what was said, what the program got)"""
        prog, module, out = (os.path.join(self.dir, n) for n in ("driver", "k.ptx", "out"))
        for path, text in (prog + ".c", source), (module, ptx):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        r = self.call(["cc", prog + ".c", "-o", prog, "-isystem", os.path.join(CUDA, "include"), "-L" + SOFT,
                       "-l:libcuda.so.1"])
        self.assertEqual(r.returncode, 0, r.stderr)
        g, said = self.capture("--data", "all", "--", prog, module, out)
        with open(out, "rb") as f:
            return g, said, f.read()

    def test_looked_up(self):
        """Every entry by cuGetProcAddress, in the shape of some version, as runtimes do."""
        g, said, got = self.take(LOOKED_UP, PTX)
        self.assertEqual(got, words(6, *[1] * 15))
        self.assertEqual((len(g["launches"]), said["checked"]["of"], said["checked"]["same"]), (1, 1, 1))

    def test_tensor_maps(self):
        g, said, got = self.take(MAPS, TILES)
        rows = [[32 * (y + 8) + x + 4 + 8 if x + 4 < 30 and y + 8 < 20 else 0 for x in range(16)] for y in range(16)]
        self.assertEqual(got, words(*sum(rows, [])))
        self.assertEqual((said["checked"]["of"], said["checked"]["same"]), (1, 1))
        maps = [a["tensor_map"] for a in g["launches"][0]["args"]]
        self.assertEqual([(m["buffer"], m["offset"], m["globalDim"], m["globalStrides"]) for m in maps],
                         [("b0", 32, [30, 20], [128]), ("b1", 0, [16, 16], [64])])
        self.assertEqual(self.roles(g), ["input", "output"])

    def test_early(self):
        """Launches that may start before the one ahead has ended say so, on a stream and in a CUDA graph."""
        ptx = PTX.replace("sm_80", "sm_90").replace("ld.global", "griddepcontrol.wait; ld.global")
        g, said, got = self.take(EARLY, ptx)
        self.assertEqual(got, words(*[3] * 16))
        self.assertEqual([l.get("programmatic", False) for l in g["launches"] if "entry" in l],
                         [False, True, False, True])
        self.assertEqual((said["checked"]["of"], said["checked"]["same"]), (1, 1))

    def test_driver(self):
        """Rows, patterns, parameters as one block, a module out of a file."""
        g, said, got = self.take(DRIVER, PTX)
        self.assertEqual(got, words(*[0x01020103] * 4, *range(100, 108), *[0x01020304] * 4))
        # the row that the kernel wrote; the others came from the host and went back
        self.assertEqual((said["checked"]["of"], said["checked"]["same"]), (1, 1))
        self.assertEqual((len(g["launches"]), self.roles(g)), (1, ["input", "output"]))


class Injected(Base):
    """The library by CUDA_INJECTION64_PATH alone, without the preload."""

    def alone(self, *args):
        """(the graph, what was said, what the program got)"""
        out = os.path.join(self.dir, "out")
        g, said = self.capture("--data", "all", "--", "env", "-u", "LD_PRELOAD", *args, out)
        with open(out, "rb") as f:
            return g, said, f.read()

    def build(self, name, source, *flags):
        path = os.path.join(self.dir, name)
        with open(path + ".c", "w", encoding="utf-8") as f:
            f.write(source)
        r = self.call(["cc", "-w", path + ".c", "-o", path, "-isystem", os.path.join(CUDA, "include"), *flags])
        self.assertEqual(r.returncode, 0, r.stderr)
        return path

    def test_stub(self):
        """A driver that is not ours, as NVIDIA's is documented: by slots of the linker, bound or not, or a table."""
        drivers = os.path.join(self.dir, "drivers")
        os.mkdir(drivers)
        stub = self.build("drivers/libcuda.so.1", STUB, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
        module = os.path.join(self.dir, "k.ptx")
        with open(module, "w", encoding="utf-8") as f:
            f.write(PTX)
        for way, flags in ("0", "-Wl,-z,lazy"), ("0", "-Wl,-z,now"), ("1", "-Wl,-z,now"):
            prog = self.build("calls" + way, CALLS, f"-DWAY={way}", flags, stub)
            g, said, got = self.alone(f"LD_LIBRARY_PATH={drivers}", prog, module)
            self.assertEqual(got, words(6, *[1] * 15))
            self.assertEqual((len(g["launches"]), self.roles(g)), (1, ["input", "output"]), (way, flags))
            self.assertEqual((said["checked"]["of"], said["checked"]["same"]), (1, 1))

    def test_looked_up(self):
        """On the software device, which does with the variable what NVIDIA's driver does."""
        prog = self.build("looked", LOOKED_UP, "-L" + SOFT, "-l:libcuda.so.1")
        module = os.path.join(self.dir, "k.ptx")
        with open(module, "w", encoding="utf-8") as f:
            f.write(PTX)
        g, said, got = self.alone(prog, module)
        self.assertEqual(got, words(6, *[1] * 15))
        self.assertEqual((len(g["launches"]), said["checked"]["of"], said["checked"]["same"]), (1, 1, 1))

    @unittest.skipUnless(NVCC, "no nvcc")
    def test_runtime(self):
        """Programs on the runtime, whose tables are filled by then: the same graph as with the preload."""
        flags = subprocess.run([DOVETAIL, "soft", "--flags"], capture_output=True, text=True, check=True).stdout.split()
        prog = os.path.join(self.dir, "captured")
        subprocess.run([NVCC, "-std=c++17", *flags, os.path.join(HERE, "captured.cu"), "-o", prog], check=True)
        for what in "beside", "branches", "mixed":
            g, said, _ = self.alone(prog, what)
            self.assertEqual(said["checked"]["of"], said["checked"]["same"])
            other, _ = self.capture("--data", "all", "--", prog, what, "/dev/null")
            g["captured"].pop("program")
            other["captured"].pop("program")
            self.assertEqual({k: g[k] for k in ("launches", "buffers", "captured")},
                             {k: other[k] for k in ("launches", "buffers", "captured")})


PTX = textwrap.dedent("""\
    .version 8.0
    .target sm_80
    .address_size 64
    .visible .entry k(.param .u64 from, .param .u64 to) {
    .reg .b64 %rd<9>; .reg .b32 %r<9>;
    ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    ld.global.u32 %r2, [%rd4]; add.u32 %r2, %r2, 1; st.global.u32 [%rd5], %r2; ret;
    }
    """)
# The same; what is there decides whether a place is looked at
PREDICATES = PTX.replace(".reg .b64", ".reg .pred %p<2>; .reg .b64")
LOOKS = PREDICATES.replace("add.u32 %r2, %r2, 1;", "setp.gt.u32 %p1, %r2, 900; @%p1 ld.global.u32 %r3, [%rd1]; "
                           "add.u32 %r2, %r2, 1;")
# An atomic's result decides: of which argument that is, the analysis does not say
DOUBT = PREDICATES.replace("add.u32 %r2, %r2, 1;", "atom.global.add.u32 %r4, [%rd5], 1; setp.gt.u32 %p1, %r4, 900; "
                           "@%p1 ld.global.u32 %r3, [%rd1]; add.u32 %r2, %r2, 1;")
# A box of a matrix, clipped at its end, from one place to another by two tensor maps.
TILES = textwrap.dedent("""\
    .version 8.3
    .target sm_90
    .address_size 64
    .visible .entry k(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128]) {
    .reg .b64 %m, %n; .reg .pred %p; .shared .align 128 .b8 box[1024]; .shared .align 8 .b64 bar;
    mov.b64 %m, from; cvta.param.u64 %m, %m; mov.b64 %n, to; cvta.param.u64 %n, %n;
    mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%m, {4, 8}], [bar];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0; @!%p bra WAIT;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%n, {0, 0}], [box];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;
    }
    """)
MAPS = r"""
#include <cuda.h>
#include <stdio.h>
static unsigned v[1024], got[256];
int main(int argc, char **argv)
{
    CUdevice d; CUcontext c; CUmodule m; CUfunction f; CUdeviceptr p;
    CUtensorMap from, to;
    cuuint64_t fd[] = {30, 20}, fs[] = {128}, td[] = {16, 16}, ts[] = {64};
    cuuint32_t box[] = {16, 16}, one[] = {1, 1};
    for (int i = 0; i < 1024; i++)
        v[i] = i;
    if (cuInit(0) || cuDeviceGet(&d, 0) || cuDevicePrimaryCtxRetain(&c, d) || cuCtxSetCurrent(c) ||
        cuModuleLoad(&m, argv[1]) || cuModuleGetFunction(&f, m, "k") || cuMemAlloc(&p, 1 << 16) ||
        cuMemcpyHtoD(p, v, 4096) ||
        cuTensorMapEncodeTiled(&from, 3, 2, (void *)(p + 32), fd, fs, box, one, 0, 0, 0, 0) ||
        cuTensorMapEncodeTiled(&to, 3, 2, (void *)(p + 8192), td, ts, box, one, 0, 0, 0, 0))
        return 1;
    void *a[] = {&from, &to};
    if (cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, a, NULL) || cuMemcpyDtoH(got, p + 8192, sizeof got))
        return 2;
    FILE *o = fopen(argv[2], "wb");
    return !o || fwrite(got, 4, 256, o) != 256 || fclose(o);
}"""
# A driver of little more than cuInit, which does with CUDA_INJECTION64_PATH what NVIDIA's is documented to do. Its
# kernels run nowhere; "k" adds 1 to each of 16 words, as PTX does, on the host.
STUB = r"""
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
CUresult cuInit(unsigned flags)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *lib = path ? dlopen(path, RTLD_LAZY) : NULL;
    int (*start)(void) = lib ? (int (*)(void))dlsym(lib, "InitializeInjection") : NULL;
    return path && (!start || !start()) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *d, int n) { *d = 0; return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d)
{ *v = a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0; return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int *v) { *v = 13000; return CUDA_SUCCESS; }
CUresult cuMemAlloc(CUdeviceptr *p, size_t n) { *p = (CUdeviceptr)calloc(1, n); return CUDA_SUCCESS; }
CUresult cuMemcpyHtoD(CUdeviceptr d, const void *p, size_t n) { memcpy((void *)d, p, n); return CUDA_SUCCESS; }
CUresult cuMemcpyDtoH(void *p, CUdeviceptr d, size_t n) { memcpy(p, (void *)d, n); return CUDA_SUCCESS; }
CUresult cuModuleLoadData(CUmodule *m, const void *image) { *m = (CUmodule)image; return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) { *f = (CUfunction)name; return CUDA_SUCCESS; }
CUresult cuFuncGetParamInfo(CUfunction f, size_t i, size_t *at, size_t *n)
{ *at = 8 * i; *n = 8; return i < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *v) { *v = 0; return CUDA_SUCCESS; }
CUresult cuPointerGetAttribute(void *v, CUpointer_attribute a, CUdeviceptr p) { return CUDA_ERROR_INVALID_VALUE; }
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream s, void **a, void **extra)
{
    for (unsigned i = 0; i < bx; i++)
        (*(unsigned **)a[1])[i] = (*(unsigned **)a[0])[i] + 1;
    return CUDA_SUCCESS;
}
#undef cuGetProcAddress
CUresult cuGetProcAddress_v2(const char *name, void **ret, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    char text[64];
    strcpy(text, name);
    *ret = dlsym(RTLD_DEFAULT, text);
    if (!*ret && strlen(name) < 60)
        *ret = dlsym(RTLD_DEFAULT, strcat(text, "_v2"));
    return *ret ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}"""
# Called by the linker's tables, or (WAY 1) by a table of its own that is filled before cuInit, as a runtime's is.
CALLS = r"""
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#if WAY
static CUresult (*table[8])();
static const char *const names[] = {"cuMemAlloc", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuModuleLoadData",
                                    "cuModuleGetFunction", "cuLaunchKernel"};
static void fill(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW), *p;
    CUresult (*get)(const char *, void **, int, cuuint64_t, void *) = dlsym(lib, "cuGetProcAddress_v2");
    for (int i = 0; i < 6; i++)
        table[i] = get(names[i], &p, 13000, 0, NULL) ? NULL : (CUresult(*)())p;
}
#undef cuMemAlloc
#undef cuMemcpyHtoD
#undef cuMemcpyDtoH
#define cuMemAlloc table[0]
#define cuMemcpyHtoD table[1]
#define cuMemcpyDtoH table[2]
#define cuModuleLoadData table[3]
#define cuModuleGetFunction table[4]
#define cuLaunchKernel table[5]
#else
static void fill(void) {}
#endif
int main(int argc, char **argv)
{
    static char ptx[4096];
    unsigned v[16] = {5}, w[16];
    CUmodule m; CUfunction f; CUdeviceptr p, q;
    void *a[] = {&p, &q};
    FILE *i = fopen(argv[1], "r"), *o;
    fill();
    if (!i || !fread(ptx, 1, sizeof ptx - 1, i) || cuInit(0) || cuMemAlloc(&p, (size_t)64) ||
        cuMemAlloc(&q, (size_t)64) || cuMemcpyHtoD(p, (const void *)v, (size_t)64) ||
        cuModuleLoadData(&m, (const void *)ptx) || cuModuleGetFunction(&f, m, "k") ||
        cuLaunchKernel(f, 1u, 1u, 1u, 16u, 1u, 1u, 0u, (CUstream)NULL, (void **)a, (void **)NULL) ||
        cuMemcpyDtoH((void *)w, q, (size_t)64))
        return 1;
    o = fopen(argv[2], "wb");
    return !o || fwrite(w, 4, 16, o) != 16 || fclose(o);
}"""
DEVICE, IMAGE, FUNCTION, VARIABLE, ALLOC, FREE, LAUNCH, SET, COPY, SEEN, ORDER, UNTAKEN, END = range(1, 14)


RECORD, WAIT, SYNC_STREAM, SYNC_EVENT, SYNC_ALL, GONE, GRAPH, NODE_AFTER, NODE, GRAPH_END = range(10)
APART = 0x80000000


def record(kind, payload, by=0):
    return struct.pack("<IIQ", kind, by, len(payload)) + payload + bytes(-len(payload) % 8)


class Trace:
    """As capture/trace.h has it."""

    def __init__(self):
        self.records = [record(DEVICE, struct.pack("<II", 90, 13000))]
        self.number = 0

    def image(self, n, form, data):
        self.records.append(record(IMAGE, struct.pack("<II", n, form) + data))

    def function(self, n, image, name="k"):
        self.records.append(record(FUNCTION, struct.pack("<II", n, image) + name.encode()))

    def alloc(self, at, size):
        self.records.append(record(ALLOC, struct.pack("<QQII", at, size, 0, 0)))

    def order(self, what, stream=0, event=0, by=0):
        self.records.append(record(ORDER, struct.pack("<QQII", stream, event, what, 0), by))

    def launch(self, function, *pointers, flags=0, stream=0, by=0):
        params = b"".join(struct.pack("<II", 8 * i, 8) for i in range(len(pointers)))
        head = struct.pack("<Q14I", stream, function, flags, 1, 1, 1, 16, 1, 1, 0, 0, 0, 0, len(pointers),
                           8 * len(pointers))
        self.records.append(record(LAUNCH, head + params + struct.pack(f"<{len(pointers)}Q", *pointers), by))

    def copy(self, to, at, data, flags):
        self.number += 1
        head = struct.pack("<8QII", 0, to, at, len(data), len(data), len(data), 1, self.number, flags, 0)
        self.records.append(record(COPY, head + (data if flags & 4 else b"")))

    def give(self, at, data):
        self.copy(at, 1, data, 5)

    def take(self, at, data):
        self.copy(1, at, data, 2)
        self.records.append(record(SEEN, struct.pack("<Q", self.number) + data))

    def torn(self):
        return b"dovetail trace 1" + b"".join(self.records)

    def end(self):
        return self.torn() + record(END, b"")


def words(*values):
    return struct.pack(f"<{len(values)}I", *values)


class ByChance:
    """Launches of `k` (16 words of one place plus 1, to another), memsets and copies in 512 bytes."""
    SIZE, BASE = 512, 0x100000

    def __init__(self, seed, steps):
        self.rng, self.trace = random.Random(seed), Trace()
        self.memory = bytearray(self.rng.randbytes(self.SIZE))
        self.trace.image(0, 0, PTX.encode())
        self.trace.function(0, 0)
        self.trace.alloc(self.BASE, self.SIZE)
        self.trace.give(self.BASE, bytes(self.memory))
        for _ in range(self.rng.randint(2, 12)):
            self.do(*self.choose())
        step = [self.choose() for _ in range(self.rng.randint(3, 9))] + [("k", 0, 64, 64), ("take", 64, 0, 64)]
        for do in 4 * step if steps else []:
            self.do(*do)
        for do in [("k", 0, 128, 64), ("take", 128, 0, 64)]:
            self.do(*do)

    def choose(self):
        what = self.rng.choice(["give", "take", "set", "copy", "k", "k", "k"])
        n = 64 if what == "k" else self.rng.choice([4, 16, 64, 100, 128])
        a, b = (4 * self.rng.randrange((self.SIZE - n) // 4) for _ in range(2))
        if what in ("k", "copy") and abs(a - b) < n: # no two places of one operation overlap in part
            what, b, n = "k", min(a, self.SIZE - 64), 64
            a = b
        return what, a, b, n

    def do(self, what, a, b, n):
        m, at = self.memory, self.BASE
        if what == "give":
            m[a:a + n] = self.rng.randbytes(n)
            self.trace.give(at + a, bytes(m[a:a + n]))
        elif what == "take":
            self.trace.take(at + a, bytes(m[a:a + n]))
        elif what == "set":
            m[a:a + n] = bytes([b & 255]) * n
            self.trace.records.append(record(SET, struct.pack("<5QII", 0, at + a, n, n, 1, b & 255, 1)))
        elif what == "copy":
            m[b:b + n] = m[a:a + n]
            self.trace.copy(at + b, at + a, bytes(n), 0)
        else:
            m[b:b + 64] = words(*((v + 1) & 0xffffffff for v in struct.unpack_from("<16I", m, a)))
            self.trace.launch(0, at + a, at + b)


class Traces(Base):
    """The program is a script that writes a trace."""

    def of(self, trace, *args, status=0, **env):
        path = os.path.join(self.dir, "made.trace")
        with open(path, "wb") as f:
            f.write(trace)
        return self.capture(*args, "--", "sh", "-c", f"cp {path} $DOVETAIL_CAPTURE_DIR/1.trace", status=status, **env)

    def plain(self, image=(0, PTX.encode()), flags=0):
        t = Trace()
        t.image(0, *image)
        t.function(0, 0)
        t.alloc(0x10000, 64)
        t.alloc(0x20000, 64)
        t.give(0x10000, words(*range(16)))
        t.launch(0, 0x10000, 0x20000, flags=flags)
        t.take(0x20000, words(*range(1, 17)))
        return t

    def test_plain(self):
        g, said = self.of(self.plain().end(), "--data", "all")
        self.assertEqual(self.roles(g), ["input", "output"])
        self.assertEqual((said["checked"]["same"], said["checked"]["of"]), (1, 1))
        t = self.plain()
        t.records[-1] = record(SEEN, struct.pack("<Q", t.number) + words(*range(16)))
        _, said = self.of(t.end(), "--data", "all", status=1) # these are not the program's bytes
        self.assertEqual((said["checked"]["same"], said["checked"]["differ"]), (0, ["b1"]))

    def test_no_end(self):
        """A program that was killed: nobody knows who would have read what it computed."""
        t = self.plain()
        t.launch(0, 0x20000, 0x10000)
        self.assertEqual(self.roles(self.of(t.end())[0]), ["input", "output", "intermediate"])
        self.assertEqual(self.roles(self.of(t.torn())[0]), ["input", "output", "output"])

    def test_machine_code(self):
        cubin = b"\x7fELF\2" + random.Random(1).randbytes(300)
        _, said = self.of(self.plain((2, cubin)).end(), status=3)
        self.assertEqual(said["code"], "unsupported")
        self.assertIn("kernel k: machine code alone, and no compiler's cache has its PTX", said["detail"])
        cache = os.path.join(self.dir, ".triton/cache/HASH")
        os.makedirs(cache)
        for name, data in ("other.cubin", cubin[:-1] + b"x"), ("k.cubin", cubin), ("k.ptx", PTX.encode()), \
                ("other.ptx", b".version"):
            with open(os.path.join(cache, name), "wb") as f:
                f.write(data)
        g, said = self.of(self.plain((2, cubin)).end(), "--data", "all")
        self.assertEqual((g["modules"]["m0"]["ptx"], said["checked"]["same"]), (PTX, 1))
        other = os.path.join(self.dir, "elsewhere")
        shutil.move(os.path.join(self.dir, ".triton"), other)
        self.of(self.plain((2, cubin)).end(), status=3)
        for variable in "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR":
            self.of(self.plain((2, cubin)).end(), **{variable: other})

    def test_parts(self):
        """What cannot be taken parts the run; the part with most launches is the graph."""
        t = self.plain()
        t.image(1, 2, b"\x7fELF\2" + bytes(100))
        t.function(1, 1, "closed")
        t.launch(1, 0x20000)
        t.launch(0, 0x20000, 0x10000)
        t.launch(0, 0x10000, 0x20000)
        g, said = self.of(t.end(), "--data", "all")
        self.assertEqual((len(g["launches"]), said["cut_off"]), (2, 4))
        self.assertEqual(said["cut"], [{"why": "kernel closed: machine code alone, and no compiler's cache has its PTX",
                                        "times": 1}])
        self.assertEqual(g["captured"]["unknown"], ["b0"], "the closed kernel may have written it")
        _, said = self.of(self.plain(flags=1).end(), status=3)
        self.assertIn("cooperative", said["detail"])

    def test_textures(self):
        """A launch that reads a texture is no launch of a graph, and says by which instruction."""
        ptx = PTX.replace("ret;", "tex.1d.v4.f32.s32 {_, _, _, _}, [%rd1, {0}];\n ret;", 1)
        self.assertNotEqual(ptx, PTX)
        t = self.plain()
        t.image(1, 0, ptx.encode() + b"\0")
        t.function(1, 1, "k")
        t.launch(1, 0x20000, 0x10000)
        t.launch(0, 0x20000, 0x10000)
        g, said = self.of(t.end(), "--data", "all")
        self.assertEqual(len(said["cut"]), 1)
        self.assertRegex(said["cut"][0]["why"],
                         r"kernel k: a graph has no textures and no surfaces \(`tex`, PTX line \d+\)")

    def test_table(self):
        """An address that lies in memory leads to no buffer: that is an error, and not a graph of something else."""
        follows = PTX.replace("ld.global.u32 %r2, [%rd4];", "ld.global.u64 %rd4, [%rd1]; ld.global.u32 %r2, [%rd4];")
        t = Trace()
        t.image(0, 0, follows.encode())
        t.function(0, 0)
        for at in 0x10000, 0x20000, 0x30000:
            t.alloc(at, 64)
        t.give(0x10000, struct.pack("<Q", 0x30000) + bytes(56))
        t.launch(0, 0x10000, 0x20000)
        t.take(0x20000, bytes(64))
        self.assertEqual(self.of(t.end(), "--data", "all", status=3)[1]["code"], "out-of-bounds")

    def test_read_before(self):
        """Only what is surely overwritten before it is read is an intermediate."""
        t = self.plain()
        t.give(0x10000, words(*range(8)))
        t.launch(0, 0x10000, 0x20000) # half of what it reads is older
        g, _ = self.of(t.end(), "--data", "all")
        self.assertEqual(self.roles(g)[:2], ["inout", "output"])

    def test_pool(self):
        """Scratch memory of each pass, at an address that others had: the passes are alike, what the host gave once is
        known, and scratch is nobody else's."""
        t = Trace()
        t.image(0, 0, LOOKS.encode())
        t.function(0, 0)
        for at in 0x10000, 0x20000:
            t.alloc(at, 64)
        t.give(0x10000, words(*range(16)))
        for _ in range(4):
            t.alloc(0x30000, 64)
            t.launch(0, 0x10000, 0x30000)
            t.launch(0, 0x30000, 0x20000)
            t.records.append(record(FREE, struct.pack("<Q", 0x30000)))
            t.take(0x20000, words(*range(2, 18)))
        g, said = self.of(t.end(), "--step", "3")
        self.assertEqual((self.roles(g), said["unknown"]), (["input", "intermediate", "output"], []))
        self.assertEqual(base64.b64decode(g["buffers"]["b0"]["data"]), words(*range(16)))

    def test_order(self):
        """What orders launches, and what does not: by streams, events, threads of the host, nodes."""
        def trace():
            t = Trace()
            t.image(0, 0, PTX.encode())
            t.function(0, 0)
            for i in range(8):
                t.alloc(0x10000 * (i + 1), 64)
            t.give(0x10000, words(*range(16)))
            return t
        def ends(t):
            g, _ = self.of(t.end(), "--data", "all")
            return self.follows(g)
        def one(t, i, stream, by=0):
            t.launch(0, 0x10000, 0x10000 * (i + 2), stream=stream, by=by)
        # a thread's wait orders its own later launches; the other's are free
        t = trace()
        one(t, 0, 100, APART)
        t.order(SYNC_STREAM, 100)
        one(t, 1, 101, APART)
        one(t, 2, 102, APART | 1)
        self.assertEqual(ends(t), [[], [0], []])
        # the default stream and those that wait for it; the per-thread ones of two threads
        t = trace()
        one(t, 0, 100)
        one(t, 1, 101, APART)
        one(t, 2, 0)
        one(t, 3, 2)
        one(t, 4, 2, 1)
        one(t, 5, 1)
        self.assertEqual(ends(t), [[], [], [0], [0, 2], [0, 2], [0, 2, 3, 4]])
        # events: recorded anew, destroyed, of no record; a stream that is gone and has its name again
        t = trace()
        t.order(WAIT, 101, 7, APART)
        one(t, 0, 100, APART)
        t.order(RECORD, 100, 7, APART)
        one(t, 1, 100, APART)
        t.order(WAIT, 101, 7, APART)
        one(t, 2, 101, APART)
        t.order(GONE, 100)
        one(t, 3, 100, APART)
        t.order(GONE, 0, 7)
        t.order(WAIT, 102, 7, APART)
        one(t, 4, 102, APART)
        t.order(SYNC_ALL)
        one(t, 5, 103, APART)
        self.assertEqual(ends(t), [[], [0], [0], [], [], [0, 1, 2, 3, 4]])
        # a CUDA graph: 0 and 1 side by side, 2 behind 1; what numbers nothing is nothing
        t = trace()
        one(t, 0, 100, APART)
        t.order(GRAPH, 100, 0, APART)
        for node, after in (0, []), (1, [9, 1]), (2, [1]):
            for a in after:
                t.order(NODE_AFTER, 100, a, APART)
            t.order(NODE, 100, node, APART)
            one(t, 1 + node, 100, APART)
        t.order(NODE, 100, 1 << 40, APART)
        t.order(GRAPH_END, 100, 0, APART)
        one(t, 4, 100, APART)
        t.order(NODE, 100, 0, APART)
        t.order(77, 100)
        self.assertEqual(ends(t), [[], [0], [0], [0, 2], [0, 1, 2, 3]])

    def test_bits(self):
        """Where the analysis does not know what decides, the bits do: whole numbers are kept, and no others."""
        for data, kept in ((words(*range(16)), True), (struct.pack("<16f", *(i / 7 for i in range(16))), False)):
            t = Trace()
            t.image(0, 0, DOUBT.encode())
            t.function(0, 0)
            for at in 0x10000, 0x20000:
                t.alloc(at, 64)
            t.give(0x10000, data)
            t.give(0x20000, bytes(64))
            t.launch(0, 0x10000, 0x20000)
            g, said = self.of(t.end())
            self.assertEqual(("data" in g["buffers"]["b0"], "b0" in said["unknown"]), (kept, not kept))

    def test_random(self):
        """Programs by chance on one allocation, whose bytes are followed here: what the host took is what the graph's
        run gives, of the whole run and of a pass of a repeated step."""
        taken = 0
        for seed in range(8):
            args = ["--step", str(1 + seed % 3)] if seed % 2 else []
            _, said = self.of(ByChance(seed, bool(args)).trace.end(), "--data", "all", *args)
            self.assertEqual(said["checked"]["same"], said["checked"]["of"], f"seed {seed}")
            self.assertEqual(said["unknown"], [], f"seed {seed}")
            taken += said["checked"]["of"]
        self.assertGreater(taken, 8)

    def test_nonsense(self):
        good, rng = self.plain().end(), random.Random(7)
        cases = [b"", b"dovetail trace 2", good[:16], good[:-17], good[:200], b"dovetail trace 1" + b"\xff" * 64]
        for _ in range(14):
            bad = bytearray(good)
            for _ in range(rng.randint(1, 6)):
                bad[rng.randrange(16, len(bad))] = rng.choice((0, 1, 255, rng.randrange(256)))
            cases.append(bytes(bad))
        for i, case in enumerate(cases):
            path = os.path.join(self.dir, "bad.trace")
            with open(path, "wb") as f:
                f.write(case)
            r = self.call([DOVETAIL, "capture", "--local", "--device", "soft", "-o", self.dir + "/bad.json", "--", "sh",
                           "-c", f"cp {path} $DOVETAIL_CAPTURE_DIR/1.trace"])
            self.assertIn(r.returncode, (0, 3, 4), f"case {i}: {r.stderr}")
            self.assertNotIn("Sanitizer", r.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
