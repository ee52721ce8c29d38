#!/usr/bin/env python3
"""Four blocks of models, compiled by PyTorch's Inductor and optimised in groups (docs/PYTHON.md, "PyTorch").

Usage: inductor.py BUILD [BLOCK[/WAY]…] [-v], with a python that has PyTorch's CUDA build (./dev torch makes some).
It prints a row for each block, in half precision: kernels of Inductor's in each group, launches before and after, and
the time of both by the model of the H200. Products and convolutions are library calls, which part the groups, are
calculated on the CPU here and are in no figure; or Inductor's own Triton kernels. Each output is compared, bit by bit,
with that of Inductor's kernels.
"""
import gc
import os
import sys
import tempfile
import time
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(sys.argv[1])
os.environ["DOVETAIL_HOME"] = BUILD
folder = tempfile.TemporaryDirectory(prefix="dovetail-inductor.")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.environ["TRITON_CACHE_DIR"] = folder.name
sys.path.insert(0, os.path.join(ROOT, "client/python"))
warnings.simplefilter("ignore")

import dovetail  # noqa: E402
import dovetail.torch  # noqa: E402

torch = dovetail.torch.software("h200")
nn, F = torch.nn, torch.nn.functional


class Mlp(nn.Module):
    """x + W2 gelu(W1 layernorm(x)), 128 tokens of 512."""
    inputs = [(128, 512)]

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(512), nn.Linear(512, 2048), nn.Linear(2048, 512)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Attention(nn.Module):
    """x + W softmax(q k / 8 + bias) v of layernorm(x), 128 tokens of 512, 8 heads; no flash."""
    inputs = [(128, 512), (8, 128, 128)]

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(512), nn.Linear(512, 1536), nn.Linear(512, 512)

    def forward(self, x, bias):
        q, k, v = self.qkv(self.norm(x)).view(128, 3, 8, 64).permute(1, 2, 0, 3)
        p = torch.softmax(torch.bmm(q, k.transpose(1, 2)) * 0.125 + bias, -1)
        return x + self.out(torch.bmm(p, v).transpose(0, 1).reshape(128, 512))


class Basic(nn.Module):
    """A basic block of ResNet in training (batch norm by the own mean): 64 channels of 28 x 28, a batch of 4."""
    inputs = [(4, 64, 28, 28)]

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(64, 64, 3, padding=1, bias=False) for _ in "12")
        self.norm1, self.norm2 = nn.BatchNorm2d(64), nn.BatchNorm2d(64)

    def forward(self, x):
        return F.relu(x + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


class Llama(nn.Module):
    """A layer as Llama's: RMS norm, rotary embedding, 8 heads, causal; RMS norm, SwiGLU. 128 tokens of 512."""
    inputs = [(128, 512), (128, 64), (128, 64)]

    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.Parameter(torch.ones(512)), nn.Parameter(torch.ones(512))
        self.qkv, self.out = nn.Linear(512, 1536, bias=False), nn.Linear(512, 512, bias=False)
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False)
                                        for a, b in ((512, 1376), (512, 1376), (1376, 512)))

    @staticmethod
    def norm(x, w):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w

    def forward(self, x, cos, sin):
        q, k, v = self.qkv(self.norm(x, self.n1)).view(128, 3, 8, 64).permute(1, 2, 0, 3)
        q, k = (t * cos + torch.cat((-t[..., 32:], t[..., :32]), -1) * sin for t in (q, k))
        mask = torch.ones(128, 128, device=x.device, dtype=x.dtype).tril() == 0
        p = torch.softmax((torch.bmm(q, k.transpose(1, 2)) * 0.125).masked_fill(mask, float("-inf")), -1)
        x = x + self.out(torch.bmm(p, v).transpose(0, 1).reshape(128, 512))
        h = self.norm(x, self.n2)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def on_device(module):
    for m in module.modules():
        for table in m._parameters, m._buffers:
            for k, v in table.items():
                if v is not None:
                    table[k] = nn.Parameter(v.data.cuda()) if table is m._parameters else v.cuda()
    return module


def flat(result):
    return [t.detach().cpu() for t in (result if isinstance(result, (list, tuple)) else [result])]


def same_bytes(a, b):
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


# Products by the library; the same, forward and backward; products by Inductor's own Triton kernels. Folding constants
# would run kernels of PyTorch's own.
LIBRARY = {"joint_graph_constant_folding": False}
TRITON = {**LIBRARY, "max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON",
          "max_autotune_conv_backends": "TRITON"}
WAYS = {"library": (False, LIBRARY), "library, with backward": (True, LIBRARY), "Triton": (False, TRITON)}


def runs(kind, compile, train):
    """What three runs of a block give; of a backward pass also the gradients."""
    torch.manual_seed(1)
    inputs = [torch.randn(s).half() for s in kind.inputs]
    model, results = kind().half(), []
    model = on_device(model)
    f = compile(model)
    for _ in range(3):
        args = [t.cuda() for t in inputs]
        if not train:
            with torch.no_grad():
                results.append(flat(f(*args)))
            continue
        args[0].requires_grad_()
        y = f(*args)
        y.backward(torch.ones(y.size(), dtype=y.dtype).cuda())
        results.append(flat([y, args[0].grad, *(p.grad for p in model.parameters())]))
        for p in model.parameters():
            p.grad = None
    return results


def row(kind, way):
    try:
        return measured(kind, way)
    except Exception as e:  # noqa: BLE001 (of PyTorch: what is not there on the software device)
        print(f"| {kind.__name__.lower()}, {way} | not run: {str(e).strip().splitlines()[0][:90]} |", flush=True)
        return False


def measured(kind, way):
    train, options = WAYS[way]
    client = dovetail.Client(local=True, device="soft:h200", cache=os.path.join(folder.name, "c.db"))
    torch._dynamo.reset()
    gc.collect()  # groups of the last row go with their modules
    seen, begin = len(dovetail.torch.report().groups), time.monotonic()
    want = runs(kind, lambda m: torch.compile(m, options=options), train)
    torch._dynamo.reset()
    got = runs(kind, lambda m: dovetail.torch.optimize(m, client=client, least=1, wait=True, options=options), train)
    same = all(same_bytes(a, b) for x, y in zip(want, got) for a, b in zip(x, y))
    groups = dovetail.torch.report().groups[seen:]
    assert groups and sum(g["kernels"] for g in groups) > 0
    known = [g for g in groups if "times" in g]
    kernels = sum(g["kernels"] for g in groups)
    after = kernels - sum(g["launches"][0] - g["launches"][1] for g in known)
    old, new = (sum(g["times"][i] for g in known) for i in (0, 1))
    sizes = "+".join(str(g["kernels"]) for g in groups)
    gain = f"{old / new:.2f}" if new else "-"
    print(f"| {kind.__name__.lower()}, {way} | {sizes} | {kernels} → {after} | {old:.1f} → {new:.1f} | {gain} | "
          f"{sum(g['ran_plan'] > 0 for g in groups)} of {len(groups)} | {'equal' if same else 'DIFFER'} |", flush=True)
    for g in groups:
        if g["status"] not in ("planned", "unchanged"):
            print(f"  {g['group']}, {g['kernels']} kernels: {g['status']}: {g['why']}", flush=True)
    if "-v" in sys.argv:
        print(f"{time.monotonic() - begin:.0f} s\n" + "\n".join(str(g) for g in groups), flush=True)
    return same


if __name__ == "__main__":
    import triton
    print(f"PyTorch {torch.__version__}, Triton {triton.__version__}, dovetail {dovetail.__version__}")
    names = [a for a in sys.argv[2:] if not a.startswith("-")]
    torch._inductor.config.test_configs.max_mm_configs = 1  # one shape of tiles, as tuning is not what is measured
    print("| block, products | kernels by group | launches | µs (modeled:h200) | times as fast | groups run as plans | "
          "bits |")
    print("|---|---|---|---|---|---|---|")
    ok = [row(k, way) for k in (Mlp, Attention, Basic, Llama) for way in WAYS
          if not names or any(f"{k.__name__.lower()}/{way}".startswith(n) for n in names)
          if not (k is Basic and WAYS[way][0])]  # cuDNN's backward pass is not there
    sys.exit(0 if all(ok) else 1)
