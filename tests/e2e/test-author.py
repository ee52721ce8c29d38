#!/usr/bin/env python3
"""What helps people: `new`, content in files, what is said of mistakes, `diff`, `doctor`, help, completions, manual."""
import base64
import json
import os
import re
import shutil
import struct
import subprocess
import unittest

from harness import CLI, SCALE, FolderCase, WaysCase, chain, changed, cli, main, schema, write

KERNELS = r"""
#include <cuda_fp16.h>
struct Params { const float *a; int n; float *out; };
extern "C" __global__ void scale(const float *__restrict__ x, float *h, float f, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) h[i] = x[i] * f;
}
__global__ void __launch_bounds__(128) add(const float *h, Params p, const unsigned char *mask)
{
    extern __shared__ float s[];
    s[threadIdx.x] = p.a[threadIdx.x] + h[threadIdx.x];
    __syncthreads();
    if (mask[threadIdx.x]) p.out[threadIdx.x] = s[threadIdx.x ^ 1] + p.n;
}
template <class T> __global__ void count(T *total, const short *x, T k, bool on)
{
    if (on) total[threadIdx.x] += k + T(x[threadIdx.x]);
}
template __global__ void count<double>(double *, const short *, double, bool);
template __global__ void count<half>(half *, const short *, half, bool);
"""


class New(FolderCase):
    def new(self, text, name="k.cu", *more):
        write(self.dir, name, text)
        path = f"{self.dir}/{name}.json"
        said = self.doc("new", f"{self.dir}/{name}", "-o", path, "--device", "soft", *more)
        self.assertEqual(said["file"], path)
        with open(path, encoding="utf-8") as f:
            g = json.load(f)
        self.assertEqual(schema.faults(g, "graph"), [])
        return g, said, path

    def test_cuda(self):
        g, said, path = self.new(KERNELS)
        self.assertEqual(g["modules"], {"k": {"file": "k.cu"}})
        names = [x["name"] for x in g["launches"]]
        self.assertEqual(sorted(names), ["add", "count<double>", "count<half>", "scale"])
        scale, add, half = (g["launches"][names.index(n)] for n in ("scale", "add", "count<half>"))
        self.assertEqual(scale["comment"], "TODO grid, block: scale(const float *x, float *h, float f, int n)")
        self.assertEqual([(a.get("buffer"), a.get("f32"), a.get("i32"), a["comment"]) for a in scale["args"]],
                         [("x", None, None, "const float *x"), ("h", None, None, "float *h"),
                          (None, 1.0, None, "TODO float f"), (None, None, 256, "TODO int n")])
        self.assertTrue(add["entry"].startswith("_Z3add"))
        self.assertEqual((add["block"], add["comment"].split(":")[0]), ([128, 1, 1], "TODO grid, block, shared"))
        self.assertGreater(add["shared"], 0)
        self.assertEqual(add["args"][1]["bytes"], "00" * 8 + struct.pack("<i", 256).hex() + "00" * 12)
        self.assertEqual(add["args"][1]["pointers"],
                         [{"at": 0, "buffer": "p.a"}, {"at": 16, "buffer": "p.out"}])
        self.assertIn("const float *p.a at 0; int p.n at 8; float *p.out at 16", add["args"][1]["comment"])
        self.assertEqual([list(a)[0] for a in half["args"]], ["buffer", "buffer", "f16", "u8"])
        b = g["buffers"]
        self.assertEqual((b["x"]["role"], b["x"]["fill"]["dtype"], b["mask"]["fill"]), ("input", "f32", {"zero": True}))
        order = names.index("scale") < names.index("add")  # `h` is one buffer of both
        self.assertEqual(b["h"]["role"], "output" if order else "inout")
        self.assertEqual(b["total"]["role"], "inout")
        # what is to be filled in: each place, and as it stands it runs
        self.assertEqual({t["pointer"] for t in said["todo"]} >= {"/buffers/x", f"/launches/{names.index('scale')}",
                         f"/launches/{names.index('scale')}/args/3"}, True)
        r = cli("run", path, "--json", *self.local)
        self.assertEqual(r.returncode, 0, r.stderr)
        todo = [w for w in json.loads(r.stdout)["warnings"] if w["code"] == "todo"]
        self.assertIn(f"{len(said['todo'])} places are still to be filled in", todo[0]["message"])
        done = json.loads(json.dumps(g).replace("TODO ", ""))
        again = self.doc("run", write(self.dir, "done.json", done), *self.local)
        self.assertEqual([w["code"] for w in again["warnings"]], [])
        self.assertEqual(again["outputs"], json.loads(r.stdout)["outputs"])

    def test_ptx(self):
        g, _, path = self.new(SCALE, "k.ptx")
        self.assertEqual(g["launches"][0]["args"][:2], [{"buffer": "x"}, {"buffer": "y"}])
        self.assertEqual(g["launches"][0]["args"][2]["f32"], 1.0)
        self.assertEqual([(n, b["role"]) for n, b in g["buffers"].items()], [("x", "input"), ("y", "output")])
        self.assertEqual(g["buffers"]["x"]["fill"]["dtype"], "f32")
        self.ok("run", path, *self.local)

    def test_examples(self):
        """A kernel that asks for the thread's y gets a square block; a refusal says that there are examples left."""
        g, said, path = self.new("""extern "C" __global__ void turn(float *o, const float *x, int n)
            { o[threadIdx.x * n + threadIdx.y] = x[(threadIdx.y + blockIdx.x * 64) * n + threadIdx.x]; }""")
        self.assertEqual(g["launches"][0]["block"], [16, 16, 1])
        g["launches"][0]["grid"] = [100, 1, 1]
        r = cli("run", write(self.dir, "k.cu.json", g), "--json", *self.local)
        self.assertEqual((r.returncode, json.loads(r.stdout)["code"]), (3, "out-of-bounds"))
        self.assertIn(f"{len(said['todo'])} of the graph's comments say TODO", r.stderr)

    def test_where_it_goes(self):
        write(self.dir, "k.ptx", SCALE)
        os.mkdir(self.dir + "/sub")
        out = json.loads(self.ok("new", f"{self.dir}/k.ptx", "--device", "soft"))  # data on stdout, to be posted
        self.assertEqual(out["modules"], {"k": {"file": f"{self.dir}/k.ptx"}})
        r = cli("run", "-", "--json", *self.local, stdin=json.dumps(out))
        self.assertEqual(r.returncode, 0, r.stderr)
        path = self.dir + "/sub/g.json"
        self.ok("new", f"{self.dir}/k.ptx", "-o", path, "--device", "soft")
        self.ok("run", path, *self.local)
        for args in (["new", f"{self.dir}/k.ptx", "-o", path],  # never written over
                     ["new", f"{self.dir}/none.cu"], ["new"], ["new", f"{self.dir}/k.ptx", "--", "-DN=1"],
                     ["new", f"{self.dir}/k.ptx", "--socket", "/tmp/s"], ["new", f"{self.dir}/k.ptx", "--maps"]):
            self.ok(*args, "--device", "soft" if "--" not in args else "soft", status=2)
        with open(path, encoding="utf-8") as f:
            json.load(f)

    def test_options_and_refusals(self):
        write(self.dir, "o.cu", "extern \"C\" __global__ void k(TYPE *x) { *x = 1; }")
        out = json.loads(self.ok("new", f"{self.dir}/o.cu", "--device", "soft", "--", "-DTYPE=long"))
        self.assertEqual(out["modules"]["o"]["options"], ["-DTYPE=long"])
        self.assertEqual(out["launches"][0]["args"][0]["comment"], "long *x")
        for source, code in (("__global__ void k(", "compile-failed"), ("__device__ int x;", "bad-graph"),
                             ("template <class T> __global__ void k(T *x) {}", "bad-graph")):
            said = self.doc("new", write(self.dir, "bad.cu", source), "--device", "soft", status=3)
            self.assertEqual(said["code"], code)
        said = self.doc("new", write(self.dir, "bad.ptx", SCALE[:300]), "--device", "soft", status=3)
        self.assertEqual(said["code"], "bad-ptx")


def npy(head, content=b"", version=1):
    text = repr(head) if isinstance(head, dict) else head
    text = text.encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text + content


class Files(WaysCase):
    def setUp(self):
        super().setUp()
        self.numbers = struct.pack("<256f", *(i / 8 for i in range(256)))
        self.plain = chain(2)
        self.plain["buffers"]["a"] = {"bytes": 1024, "role": "input", "data": base64.b64encode(self.numbers).decode()}

    def graph(self, data, content=None, bytes=1024):  # noqa: A002
        if content is not None:
            with open(f"{self.dir}/{data['file']}", "wb") as f:
                f.write(content)
        return write(self.dir, "g.json", changed(self.plain, buffers__a={"bytes": bytes, "role": "input",
                                                                         "data": data}))

    def test_content(self):
        want = self.doc("run", write(self.dir, "plain.json", self.plain), *self.local)["outputs"]
        head = {"descr": "<f4", "fortran_order": False, "shape": (4, 64)}
        for data, content in (({"file": "x.bin"}, self.numbers), ({"file": "x.npy"}, npy(head, self.numbers)),
                              ({"file": "x.npy", "dtype": "f32"}, npy(head, self.numbers, 2)),
                              ({"file": "x.npy"}, npy(head | {"shape": (256,), "fortran_order": True}, self.numbers)),
                              ({"file": "x.npy"}, npy(head | {"descr": "|V4", "shape": (16, 1, 16)}, self.numbers, 3))):
            path = self.graph(data, content)
            for way in self.ways.values():
                self.assertEqual(self.doc("run", path, *way)["outputs"], want, data)
            with open(path, encoding="utf-8") as f:
                self.assertEqual(schema.faults(json.load(f), "graph"), [])

    def test_refused(self):
        head = {"descr": "<f4", "fortran_order": False, "shape": (256,)}
        good = npy(head, self.numbers)
        for data, content, words, member in (
                ({"file": "none.npy"}, None, "No such file", "file"),
                ({"file": "x.bin"}, self.numbers[:-1], "it has 1023 bytes, and the buffer has 1024", "file"),
                ({"file": "x.bin"}, self.numbers + b"1", "more than the 1024 bytes", "file"),
                ({"file": "x.npy"}, self.numbers, "no .npy file", "file"),
                ({"file": "x.npy"}, good[:-4], "has 1020 bytes", "file"),
                ({"file": "x.npy"}, npy(head | {"shape": (4, 32)}, self.numbers[:512]),
                 "holds 512 bytes, elements '<f4', and the buffer has 1024", "file"),
                ({"file": "x.npy", "dtype": "i32"}, good, "its elements are '<f4', and dtype says i32", "dtype"),
                ({"file": "x.npy"}, npy(head | {"descr": "|O"}, self.numbers), "Python objects", "file"),
                ({"file": "x.npy"}, npy(head | {"descr": ">f4"}, self.numbers), "big-endian", "file"),
                ({"file": "x.npy"}, npy(head | {"descr": [("a", "<f4")]}, self.numbers), "structures", "file"),
                ({"file": "x.npy"}, npy(head | {"descr": "<U1"}, self.numbers), "'<U1' are not taken", "file"),
                ({"file": "x.npy"}, npy(head | {"shape": (16, 16), "fortran_order": True}, self.numbers),
                 "Fortran's order", "file"),
                ({"file": "x.npy"}, npy(head | {"shape": (1 << 62, 1 << 62)}, self.numbers), "larger than any", "file"),
                ({"file": "x.npy"}, npy("{'descr': '<f4', "), "not what numpy writes", "file"),
                ({"file": "x.npy"}, b"\x93NUMPY\1\0\xff\xff{", "cut off", "file"),
                ({"file": "x.bin", "dtype": "f32"}, self.numbers, "leave dtype out", "dtype"),
                ({"file": "x.bin", "size": 4}, self.numbers, "no other members", "size")):
            path = self.graph(data, content)
            r = cli("run", path, "--json", *self.local)
            problem = json.loads(r.stdout)
            self.assertEqual((r.returncode, problem["code"], problem.get("pointer")),
                             (3, "bad-graph", "/buffers/a/data/" + member), (data, problem))
            self.assertIn(words, problem["detail"])
        path = self.graph({"file": "x.bin"}, self.numbers, bytes=1 << 32)
        self.assertEqual(self.doc("run", path, *self.local, status=3)["code"], "too-large")

    def test_the_service_opens_nothing(self):
        with open(self.dir + "/x.bin", "wb") as f:
            f.write(self.numbers)
        for place, inside in (("/buffers/a/data/file", {"buffers__a__data": {"file": self.dir + "/x.bin"}}),
                              ("/modules/m/file", {"modules__m": {"file": "/etc/passwd"}})):
            reply = self.s.post(changed(self.plain, **inside), "want=run")
            problem = self.problem(reply, 422, "bad-graph")
            self.assertEqual(problem["pointer"], place)
            self.assertIn("the service opens no file that a client names", problem["detail"])


class Mistakes(FolderCase):
    """Did you mean."""
    def test_words_of_the_command_line(self):
        for args, words in ((["analyse", "x"], "there is no verb analyse; did you mean analyze?"),
                            (["help", "optimise"], "did you mean optimize?"),
                            (["optimize", "x", "--buget", "3"], "there is no option --buget; did you mean --budget?"),
                            (["run", "x", "--chek=all"], "did you mean --check?"),
                            (["analyze", "x", "--zzzz"], "there is no option --zzzz; see dovetail analyze --help"),
                            (["brew"], "there is no verb brew; see dovetail --help"),
                            (["cache", "stat"], "did you mean stats?"),
                            (["optimize", write(self.dir, "g.json", chain()), "--deny", "block-fusoin", *self.local],
                             "there is no rewrite called block-fusoin; did you mean block-fusion?"),
                            (["run", "x", "--maps"], "dovetail run has no option --maps; see dovetail run --help")):
            said = self.doc(*args, status=2)
            self.assertIn(words, said["detail"])

    def test_words_of_a_graph(self):
        named = json.loads(json.dumps(chain(2, ["alpha", "beta", "gamma"])).replace('"m"', '"mod"'))
        for graph, at, words in (
                (changed(named, launches__0__args__0={"buffer": "aplha"}), "/launches/0/args/0/buffer",
                 "there is no buffer 'aplha'; did you mean 'alpha'?"),
                (changed(chain(), launches__0__args__0={"buffer": "z"}), "/launches/0/args/0/buffer",
                 "there is no buffer 'z'"),
                (changed(chain(), launches__0__args__0={"bufer": "a"}), "/launches/0/args/0", "did you mean 'buffer'?"),
                (changed(named, launches__0__module="Mod"), "/launches/0/module",
                 "there is no module 'Mod'; did you mean 'mod'?"),
                (changed(chain(), buffers__a__role="inptu"), "/buffers/a/role", "did you mean 'input'?"),
                (json.loads(json.dumps(chain()).replace('"grid"', '"gird"')), "/launches/0/grid",
                 "member 'grid' is missing; is it 'gird' by mistake?"),
                (changed(chain(), launches__0__entry="scael"), "/launches/0/entry", 'did you mean "scale"?')):
            said = self.doc("run", write(self.dir, "g.json", graph), *self.local, status=3)
            self.assertEqual(said["pointer"], at)
            self.assertIn(words, said["detail"])
        graph = changed(chain(), launches__0__shard=64, launches__0__comment=["any", "thing"], comment=7)
        said = self.doc("analyze", write(self.dir, "g.json", graph), *self.local)["warnings"]
        self.assertEqual([w["pointer"] for w in said], ["/launches/0/shard"])
        self.assertTrue(said[0]["message"].endswith('; did you mean "shared"?'), said)


class Diff(WaysCase):
    def test_two_plans(self):
        graph = write(self.dir, "g.json", chain(3))
        for name, more in (("a", []), ("b", ["--deny", "block-fusion,recompute"])):
            self.ok("optimize", graph, "-o", f"{self.dir}/{name}", *more, *self.local)
        a, b = self.dir + "/a/plan.json", self.dir + "/b/plan.json"
        with open(a, encoding="utf-8") as f, open(b, encoding="utf-8") as g:
            plans = json.load(f), json.load(g)
        d = self.doc("diff", a, b)
        self.assertFalse(d["same"])
        self.assertIn("optimized", d["differs"])
        self.assertNotIn("baseline", d["differs"])
        names = [{x["name"] for x in p["launches"]} for p in plans]
        self.assertEqual({x["name"] for x in d["launches"] if x["b"] is None}, names[0] - names[1])
        self.assertEqual({x["name"] for x in d["launches"] if x["a"] is None}, names[1] - names[0])
        kept = [{(r["kind"], *r["launches"]) for r in p["rewrites"] if r["verdict"] == "kept"} for p in plans]
        only = {(r["kind"], *r["launches"]) for r in d["rewrites"]
                if r["a"] and r["a"]["verdict"] == "kept" and not (r["b"] and r["b"]["verdict"] == "kept")}
        self.assertEqual(only, kept[0] - kept[1])
        self.assertTrue(only)
        text = self.ok("diff", a, b)
        self.assertRegex(text, r"(?m)^baseline +([0-9.]+) us +\1 us +the same$")
        self.assertRegex(text, r"(?m)^block-fusion +s0 \+ s1 +kept register, [0-9.]+ us +(-|refused|dropped)")
        self.assertEqual(self.ok("diff", a, a), "the plans are the same\n")
        self.assertEqual(self.doc("diff", b, b)["same"], True)
        # one member of a launch, and a kernel
        last = plans[0]["launches"][-1]
        last["grid"] = [x + 1 for x in last["grid"]]
        plans[0]["modules"][last["module"]]["ptx"] += "\n"
        c = self.doc("diff", a, write(self.dir, "c.json", plans[0]))
        self.assertEqual([(x["name"], x["changed"]) for x in c["launches"] if x["name"] == last["name"]],
                         [(last["name"], ["kernel", "grid"])])

    def test_of_the_cache(self):
        graph = write(self.dir, "g.json", chain(2))
        for way in self.ways.values():
            sig = json.loads(self.ok("optimize", graph, "-o", self.dir + "/p", "--json", *way))["signature"]
            self.assertTrue(self.doc("diff", sig, sig, *way)["same"])
            r = cli("diff", sig, self.dir + "/p/plan.json", "--json", *way)  # by the file's names
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            self.assertTrue(json.loads(r.stdout)["same"], r.stdout)
            with open(self.dir + "/p/plan.json", encoding="utf-8") as f:
                other = json.load(f)
            other["signature"] = "sha256:" + "1" * 64
            r = cli("diff", write(self.dir, "o.json", other), sig, "--json", *way)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn("B is from the cache and has canonical names", r.stderr)
            self.assertEqual(json.loads(r.stdout)["differs"], ["signature"])
            self.assertEqual(self.doc("diff", "sha256:" + "0" * 64, sig, *way, status=3)["code"], "not-found")
        self.assertEqual(self.doc("diff", graph, graph, status=2)["code"], "usage")
        self.assertEqual(self.doc("diff", graph, self.dir + "/none", status=2)["code"], "usage")
        write(self.dir, "bad.json", "{")
        self.assertEqual(self.doc("diff", self.dir + "/bad.json", graph, status=3)["code"], "bad-json")


class Doctor(WaysCase):
    def checks(self, *args, status=0, **env):
        doc = self.doc("doctor", *args, status=status, env=env)
        self.assertEqual(doc["ok"], status == 0)
        return {x["check"]: x for x in doc["checks"]}, doc

    def test_healthy(self):
        for way in (["--local", "--cache", self.db], self.service):
            found, doc = self.checks("--device", "soft", *way)
            for what in ("worker", "device", "software device", "NVRTC", "cache", *(["service"] if way == self.service
                                                                                      else [])):
                self.assertEqual(found[what]["state"], "ok", found[what])
                self.assertNotIn("mend", found[what])
            self.assertIn(found["NVIDIA driver"]["state"], ("ok", "not needed", "missing"))
            self.assertEqual("service" in found, way == self.service)
            self.assertEqual(doc["facts"]["confinement"]["compiler"]["files"],
                             json.loads(self.ok("devices", "--json", *self.local))["confinement"]["compiler"]["files"])
        text = self.ok("doctor", "--device", "soft", "--local")
        self.assertRegex(text, r"(?m)^device +ok +NVIDIA H200 \(modeled\) \(sm_90\)$")

    def test_what_is_missing(self):
        """Each with what mends it."""
        found, _ = self.checks("--local", "--device", "soft", status=4, DOVETAIL_NVRTC="/nonexistent")
        self.assertEqual((found["NVRTC"]["state"], found["nvJitLink"]["state"]), ("missing", "limited"))
        self.assertIn("pip install nvidia-cuda-nvrtc", found["NVRTC"]["mend"])
        found, _ = self.checks("--local", "--device", "soft", status=4, DOVETAIL_SOFTGPU="/nonexistent")
        self.assertEqual((found["device"]["state"], found["software device"]["state"]), ("missing", "missing"))
        found, _ = self.checks("--local", "--device", "soft", status=4, DOVETAIL_WORKER="/nonexistent")
        self.assertEqual(list(found), ["worker"])
        self.assertIn("/nonexistent", found["worker"]["detail"])
        found, _ = self.checks("--local", "--device", "soft", "--cache", "/proc/none/c.db", DOVETAIL_CONFINE="off")
        self.assertEqual((found["cache"]["state"], found["confinement"]["state"]), ("limited", "limited"))
        found, _ = self.checks("--device", "soft", "--socket", self.dir + "/none")
        self.assertEqual(found["service"]["state"], "limited")
        self.assertIn("nobody answers", found["service"]["detail"])


class Help(FolderCase):
    """Every verb: help, completions of the shells, manual page, all of the same table."""
    def verbs(self):
        return re.findall(r"^  ([a-z]+)  ", self.ok("--help"), re.M)

    def test_each_verb(self):
        verbs = self.verbs()
        self.assertGreaterEqual(len(verbs), 17)
        for verb in verbs:
            text = self.ok("help", verb)
            self.assertEqual(text, self.ok(verb, "--help"))
            self.assertEqual(text, self.ok("--help", verb, "with", "anything"))
            example = text.split("\nExample:\n")[1].splitlines()
            self.assertTrue(example and all(f"dovetail {verb}" in line for line in example), text)
            self.assertLessEqual(max(map(len, text.splitlines())), 120, verb)
            options = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.M))
            for line in example:  # an example uses what there is
                self.assertLessEqual(set(re.findall(r" (--[a-z-]+)", line.split(" -- ")[0].split(" # ")[0])), options)
        self.assertEqual(self.ok("help"), self.ok("--help"))

    def test_manual_page(self):
        page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../man/dovetail.1.scd")
        with open(page, encoding="utf-8") as f:
            parts = re.split(r"(?m)^(?=\*[a-z]+\*)", f.read().split("# VERBS")[1].split("# OPTIONS")[0])
        for verb in self.verbs():
            mine = "".join(p for p in parts if p.startswith(f"*{verb}*"))
            self.assertTrue(mine, f"dovetail(1) has no {verb}")
            of_it = self.ok("help", verb).split("\nEverywhere:")[0].split("\nOptions:")
            if "Takes the options of optimize" in mine:
                mine += "".join(p for p in parts if p.startswith("*optimize*"))
            for option in re.findall(r"^  (?:-\w, )?--([a-z-]+)", of_it[1] if len(of_it) > 1 else "", re.M):
                self.assertTrue(f"*--{option}*" in mine or (option == "output" and "*-o*" in mine), (verb, option))

    def complete(self, *lines):
        """What bash offers for the last word of each."""
        script = 'source <("$1" completion bash); cd "$2"; while IFS=$\'\\x1f\' read -r -a COMP_WORDS; do ' \
                 'COMP_CWORD=$((${#COMP_WORDS[@]} - 2)); _dovetail; (IFS="|"; echo "${COMPREPLY[*]}"); done'
        text = "".join("\x1f".join(["dovetail", *words, "end"]) + "\n" for words in lines)
        r = subprocess.run(["bash", "-c", script, "bash", CLI, self.dir], input=text, capture_output=True, text=True,
                           check=False)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        return [line.split("|") if line else [] for line in r.stdout.split("\n")[:-1]]

    @unittest.skipUnless(shutil.which("bash"), "there is no bash")
    def test_bash(self):
        verbs = self.verbs()
        write(self.dir, "graph.json", "{}")
        write(self.dir, "a b.json", "{}")
        cases = [([""], verbs), (["op"], ["optimize"]), (["analyze", "--al"], ["--all-edges"]),
                 (["optimize", "--al"], ["--allow", "--all"]), (["run", "--check", "r"], ["race"]),
                 (["run", "--device", "soft", ":", "h"], ["h100", "h200"]), (["run", "--device", "so"], None),
                 (["cache", "ex"], ["export"]), (["help", "zz"], []), (["completion", ""], ["bash", "zsh", "fish"]),
                 (["run", "gra"], ["graph.json"]), (["run", "a"], ["a b.json"]), (["run", "--seed", ""], []),
                 (["soft", "--", "gra"], ["graph.json"])]
        for (words, want), found in zip(cases, self.complete(*(words for words, _ in cases)), strict=True):
            self.assertEqual(found, found if want is None else want, words)
        every = [(verb, option) for verb in verbs  # every option of every verb
                 for option in re.findall(r"^  (?:-\w, )?(--[a-z-]+)", self.ok("help", verb), re.M)]
        self.assertGreater(len(every), 100)
        for (verb, option), found in zip(every, self.complete(*((v, o[:4]) for v, o in every)), strict=True):
            self.assertIn(option, found, verb)

    def test_other_shells(self):
        """What they make of the scripts, where they are there; and that the scripts name everything."""
        everything = set(re.findall(r"--([a-z-]+)", self.ok("--help")))
        for shell in ("zsh", "fish"):
            path = write(self.dir, "c." + shell, self.ok("completion", shell))
            with open(path, encoding="utf-8") as f:
                text = f.read()
            for verb in self.verbs():
                self.assertRegex(text, rf"\b{verb}\b")
            for option in everything:
                self.assertIn(("-l " if shell == "fish" else "--") + option, text)
            if shutil.which(shell):
                r = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
                self.assertEqual((r.returncode, r.stderr), (0, ""))
        if shutil.which("fish"):
            for words, offered in (("dovetail opti", "optimize"), ("dovetail run g --che", "--check"),
                                   ("dovetail cache expo", "export"), ("dovetail run --device soft:h2", "soft:h200")):
                r = subprocess.run(["fish", "--no-config", "-c", f"source {self.dir}/c.fish; complete -C '{words}'"],
                                   capture_output=True, text=True, check=False, env={**os.environ, "HOME": self.dir})
                self.assertEqual([x.split("\t")[0] for x in r.stdout.splitlines()], [offered], r.stderr)
        self.assertIn("bash, zsh and fish", self.doc("completion", "tcsh", status=2)["detail"])


if __name__ == "__main__":
    main()
