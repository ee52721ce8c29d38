"""A graph that differs from a known one in names and in the order of its members only: the answer comes from the cache,
reads byte for byte as if it had been made for the new names, fits the schema, and runs to the same results. A changed
kernel, constant or shape is made anew. Graphs of tests/corpus through the command line and the worker; CUDA C++ is left
out where there is no NVRTC."""
import base64
import json
import os

import harness
from harness import FolderCase, cli, schema

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus")


def load(name):
    folder = os.path.join(CORPUS, name)
    with open(os.path.join(folder, "graph.json"), encoding="utf-8") as f:
        graph = json.load(f)
    for m in graph["modules"].values():
        if "file" in m:
            file = m.pop("file")
            with open(os.path.join(folder, file), encoding="utf-8") as f:
                m["ptx" if file.endswith(".ptx") else "cuda"] = f.read()
    return graph


def renamed(graph):
    """Every name another one, members in the opposite order; and a buffer that nothing uses."""
    buffers = {n: f"b{i}" for i, n in enumerate(graph["buffers"])}  # looks canonical, and is not
    steps = []
    for i, l in enumerate(graph["launches"]):
        text = json.dumps({k: v for k, v in l.items() if k in ("args", "memset", "copy")})
        l = {**l, **json.loads(text, object_hook=lambda o: {**o, "buffer": buffers[o["buffer"]]} if "buffer" in o
                               else o)}
        l["name"] = f"l{len(graph['launches']) - i}"
        if "module" in l:
            l["module"] = "f0" + l["module"]
        steps.append(l)
    return {"launches": steps, "name": "another", "modules": {"f0" + n: m for n, m in graph["modules"].items()},
            "buffers": {"spare": {"bytes": 8, "role": "input"},
                        **{buffers[n]: b for n, b in reversed(graph["buffers"].items())}},
            "dovetail": 1}


class Names(FolderCase):
    def answer(self, verb, graph, cache):
        path = os.path.join(self.dir, "graph.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(graph, f)
        p = cli(verb, path, "--local", "--device", "soft", "--json", "--cache", os.path.join(self.dir, cache))
        if p.returncode == 4 and "no-compiler" in p.stdout:
            self.skipTest("no NVRTC")
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        return p.stdout

    def hits(self, want):
        p = cli("cache", "stats", "--local", "--device", "soft", "--json", "--cache", os.path.join(self.dir, "one.db"))
        return json.loads(p.stdout)["by_want"][want]["hits"]

    def both(self, name):
        graph = load(name)
        other = renamed(graph)
        for verb, kind in (("analyze", "analysis"), ("optimize", "plan")):
            self.answer(verb, graph, "one.db")
            before = self.hits(kind)
            again = self.answer(verb, other, "one.db")
            self.assertEqual(self.hits(kind), before + 1, f"{verb}: not from the cache")
            self.assertEqual(schema.faults(json.loads(again), kind), [])
            self.assertEqual(again, self.answer(verb, other, f"{verb}.db"), f"{verb}: not as if made for these names")
        plan = os.path.join(self.dir, "plan.json")
        with open(plan, "w", encoding="utf-8") as f:
            f.write(again)
        p = cli("run", plan, "--local", "--device", "soft", "--json")
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        self.assertEqual(json.loads(p.stdout)["outputs"], json.loads(self.answer("run", other, "one.db"))["outputs"])

    def test_changes_miss(self):
        graph = load("ptx-only")
        seen = {json.loads(self.answer("analyze", graph, "one.db"))["signature"]}
        text = json.dumps(graph)
        old, new = "neg.f32 %f3, %f1;", "abs.f32 %f3, %f1;"
        self.assertIn(old, text)
        seen.add(json.loads(self.answer("analyze", json.loads(text.replace(old, new)), "one.db"))["signature"])
        grown = json.loads(text)
        for b in grown["buffers"].values():
            b["bytes"] *= 2
        seen.add(json.loads(self.answer("analyze", grown, "one.db"))["signature"])
        self.assertEqual(len(seen), 3)
        self.assertEqual(self.hits("analysis"), 0)
        spaced = json.loads(text)
        for m in spaced["modules"].values():
            m["ptx"] = m["ptx"].replace(";\n", " ;\n\n  // a comment\n")
        self.assertIn(json.loads(self.answer("analyze", spaced, "one.db"))["signature"], seen)
        self.assertEqual(self.hits("analysis"), 1)

    def test_changed_constant_misses(self):
        graph = load("gather-constant")
        first = json.loads(self.answer("analyze", graph, "one.db"))["signature"]
        name = next(n for n, b in graph["buffers"].items() if b.get("constant"))
        b = graph["buffers"][name]
        data = base64.b64decode(b["data"])
        swapped = next(i for i in range(4, len(data), 4) if data[i:i + 4] != data[:4])
        data = data[swapped:swapped + 4] + data[4:swapped] + data[:4] + data[swapped + 4:]
        b["data"] = base64.b64encode(data).decode()
        p = self.answer("analyze", graph, "one.db")
        self.assertNotEqual(first, json.loads(p)["signature"])
        self.assertEqual(self.hits("analysis"), 0)


for _name in ("ptx-only", "mlp", "inplace", "gather-constant"):
    setattr(Names, "test_" + _name.replace("-", "_"), lambda self, name=_name: self.both(name))

if __name__ == "__main__":
    harness.main()
