"""The graphs whose analysis is timed, as documents: graphs() gives {name: document}, made for each run; nothing is
stored."""
import os

def source(name):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), encoding="utf-8") as f:
        return f.read()


CUDA, DATA = source("kernels.cu"), source("data.cu")


class Graph:
    def __init__(self, name, cuda=CUDA):
        self.doc = {"dovetail": 1, "name": name, "modules": {"m": {"cuda": cuda}}, "buffers": {}, "launches": []}

    def buffer(self, name, values, role="intermediate"):
        self.doc["buffers"].setdefault(name, {"bytes": 4 * values, "role": role})
        return name

    def launch(self, entry, grid, block, *args):
        n = sum(l["entry"] == entry for l in self.doc["launches"])
        pad = lambda v: (list(v) + [1, 1])[:3]
        self.doc["launches"].append({"name": f"{entry}{n}", "module": "m", "entry": entry, "grid": pad(grid),
                                     "block": pad(block),
                                     "args": [{"buffer": a} if isinstance(a, str) else {"i32": a} for a in args]})


def one(name, entry, grid, block, buffers, *numbers):
    g = Graph(name)
    for k, (b, v) in enumerate(buffers):
        g.buffer(b, v, "output" if k == len(buffers) - 1 else "input")
    g.launch(entry, grid, block, *[b for b, _ in buffers], *numbers)
    return g.doc


def gemm(name, m, n, k):
    return one(name, "gemm128", (n // 128, m // 128), (256,), [("a", m * k), ("b", k * n), ("c", m * n)], n, k)


def gemm32(name, m, n, k):
    return one(name, "gemm32", (-(-n // 32), -(-m // 32)), (256,), [("a", m * k), ("b", k * n), ("c", m * n)], m, n, k)


def mlp(name, m, k, n):
    """Both products of an MLP, 128 x 128 tiles."""
    g = Graph(name)
    g.buffer("x", m * k, "input"), g.buffer("w1", k * n, "weight"), g.buffer("h", m * n), g.buffer("w2", n * k,
        "weight")
    g.buffer("y", m * k, "output")
    g.launch("gemm128", (n // 128, m // 128), (256,), "x", "w1", "h", n, k)
    g.launch("gemm128", (k // 128, m // 128), (256,), "h", "w2", "y", k, n)
    return g.doc


def bert(name, layers, rows=128, width=256, heads=4):
    """Encoder layers of 10 launches: distinct buffers, shared kernels and geometry."""
    g = Graph(name)
    g.buffer("x0", rows * width, "input")
    x = "x0"
    n = rows * width
    for l in range(layers):
        b = lambda s, v=n: g.buffer(f"{s}{l}", v)
        w = lambda s, v: g.buffer(f"{s}{l}", v, "weight")
        mm = lambda x, w, y, k, n: g.launch("gemm128", (n // 128, rows // 128), (256,), x, w, y, n, k)
        for s in "qkv":
            mm(x, w("w" + s, width * width), b(s), width, width)
        g.launch("attention", (rows // 64, heads), (64,), f"q{l}", f"k{l}", f"v{l}", b("o"), rows)
        mm(f"o{l}", w("wo", width * width), b("p"), width, width)
        g.launch("add", (-(-n // 256),), (256,), f"p{l}", x, b("r"), n)
        g.launch("layernorm", (rows,), (256,), f"r{l}", w("g", width), b("n"), width)
        mm(f"n{l}", w("wu", 4 * width * width), b("u", 4 * n), width, 4 * width)
        g.launch("gelu", (-(-4 * n // 256),), (256,), f"u{l}", b("e", 4 * n), 4 * n)
        mm(f"e{l}", w("wd", 4 * width * width), b("z"), 4 * width, width)
        x = f"z{l}"
    g.doc["buffers"][x]["role"] = "output"
    return g.doc


def banded(name, blocks, reach):
    g = Graph(name)
    n = blocks * 64
    g.buffer("x", n, "input"), g.buffer("h", n), g.buffer("y", n, "output")
    g.launch("gelu", (blocks,), (64,), "x", "h", n)
    g.launch("band", (blocks,), (64,), "h", "y", n, reach)
    return g.doc


def graphs():
    """Compared with a plain run."""
    side, rows = 512, 512
    all_ = [gemm(f"gemm-k{k}", 256, 256, k) for k in (256, 1024, 4096)]
    all_ += [gemm32(f"gemm32-k{k}", 200, 200, k) for k in (256, 1024, 4096)]
    all_ += [one("layernorm", "layernorm", (rows,), (256,), [("x", rows * 1024), ("g", 1024), ("y", rows * 1024)],
                 1024),
             one("softmax", "softmax", (rows // 8,), (256,), [("x", rows * 1024), ("y", rows * 1024)], rows, 1024),
             one("conv2d", "conv2d", (4, 4, 32), (16, 16),
                 [("x", 32 * 56 * 56), ("w", 32 * 32 * 9), ("y", 32 * 56 * 56)], 32, 56, 56),
             one("attention", "attention", (4, 4), (64,), [(b, 4 * 256 * 64) for b in "qkvo"], 256),
             one("transpose-even", "transpose", (side // 32, side // 32), (32, 8),
                 [("x", side * side), ("y", side * side)], side, side),
             one("transpose-odd", "transpose", (16, 10), (32, 8), [("x", 500 * 300), ("y", 500 * 300)], 300, 500)]
    return all_


def data_dependent():
    """Compared with a plain run: data decides what these touch, so that they run to be analysed."""
    n, rows, width = 1 << 20, 1024, 1024
    out = []
    for name, grid, buffers, numbers in (
            ("gather", n // 256, [("ix", n), ("x", n), ("y", n)], [n]),
            ("bins", n // 256, [("ix", n), ("y", 1024)], [n]),
            ("masked", n // 256, [("ix", n), ("x", n), ("y", n)], [n]),
            ("embedding", rows, [("ix", rows), ("x", rows * width), ("y", rows * width)], [rows, width]),
            ("sparse", n // 32 // 256, [("row", n // 32), ("ix", n), ("v", n), ("x", n // 32), ("y", n // 32)],
             [n // 32])):
        g = Graph("data-" + name, DATA)
        for b, v in buffers:
            g.buffer(b, v, "output" if b == "y" else "input")
            if b != "y":
                number = b in ("ix", "row")
                g.doc["buffers"][b]["fill"] = {"uniform": [0, 1 << 30] if number else [-1, 1],
                                               "dtype": "u32" if number else "f32", "seed": 3}
        g.launch(name, (grid,), (256,), *[b for b, _ in buffers], *numbers)
        out.append(g.doc)
    return out


def large():
    """Too large to run here: analysis only."""
    return [banded("banded-10000", 10000, 200), mlp("mlp-gpt3", 768, 12288, 49152), bert("bert-200", 20)]
