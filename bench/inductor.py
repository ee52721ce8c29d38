#!/usr/bin/env python3
"""Four blocks of models, compiled by PyTorch's Inductor and optimised in groups (docs/PYTHON.md, "PyTorch").

Usage: inductor.py BUILD [BLOCK…], with a python that has PyTorch's CUDA build (./dev torch makes environments of it).
It prints a row for each block: kernels of Inductor's, groups and launches in them before and after, and the time of
both by the model of the H200. Products and convolutions are library calls that part the groups; they are calculated on
the CPU here, and are in no figure. Each output is compared, bit by bit, with that of Inductor's kernels.
"""
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
    """A basic block of ResNet in training (batch norm by the batch's own mean): 64 channels of 28 x 28, a batch of 4."""
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
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((512, 1376), (512, 1376), (1376, 512)))

    @staticmethod
    def norm(x, w):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w

    def forward(self, x, cos, sin):
        q, k, v = self.qkv(self.norm(x, self.n1)).view(128, 3, 8, 64).permute(1, 2, 0, 3)
        q, k = (t * cos + torch.cat((-t[..., 32:], t[..., :32]), -1) * sin for t in (q, k))
        mask = torch.ones(128, 128, device=x.device).tril() == 0
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


def block(kind, train, least):
    torch.manual_seed(1)
    torch._dynamo.reset()
    inputs = [torch.randn(s) for s in kind.inputs]
    client = dovetail.Client(local=True, device="soft:h200", cache=os.path.join(folder.name, "c.db"))
    outputs = []
    for compile in torch.compile, lambda m: dovetail.torch.optimize(m, client=client, least=least, wait=True):
        torch.manual_seed(2)
        model, runs = compile(on_device(kind())), []
        for _ in range(3):
            args = [t.cuda() for t in inputs]
            if not train:
                with torch.no_grad():
                    runs.append(flat(model(*args)))
                continue
            args[0].requires_grad_()
            y = model(*args)
            y.backward(torch.ones(y.size()).cuda())
            runs.append(flat([y, args[0].grad, *(p.grad for p in model.parameters())]))
            for p in model.parameters():
                p.grad = None
        outputs.append(runs)
    same = all(torch.equal(a.view(torch.int32), b.view(torch.int32)) for run, other in zip(*outputs)
               for a, b in zip(run, other))
    return same


def row(kind, train, least=1):
    seen = len(dovetail.torch.report().groups)
    begin = time.monotonic()
    same = block(kind, train, least)
    groups = dovetail.torch.report().groups[seen:]
    planned = [g for g in groups if g["status"] == "planned"]
    before = sum(g["kernels"] for g in groups)
    after = before - sum(g["launches"][0] - g["launches"][1] for g in planned)
    failed = [g for g in groups if g["status"] not in ("planned", "unchanged")]
    times = [sum(g["times"][i] for g in groups if "times" in g) for i in (0, 1)]
    ran = sum(g["ran_plan"] for g in groups)
    print(f"| {kind.__name__.lower()}, {'forward and backward' if train else 'forward'} | {before} | {len(groups)} | "
          f"{len(planned)} | {before} → {after} | {times[0]:.1f} → {times[1]:.1f} | {times[0] / times[1]:.2f} | "
          f"{'yes' if same else 'NO'} | {ran} | {time.monotonic() - begin:.0f} s |", flush=True)
    for g in failed:
        print(f"  not planned: {g['group']}, {g['kernels']} kernels: {g['status']}: {g['why']}", flush=True)
    if "-v" in sys.argv:
        print(dovetail.torch.report(), flush=True)
    return same


if __name__ == "__main__":
    import triton
    print(f"PyTorch {torch.__version__}, Triton {triton.__version__}, dovetail {dovetail.__version__}")
    names = [a for a in sys.argv[2:] if not a.startswith("-")]
    kinds = [k for k in (Mlp, Attention, Basic, Llama) if not names or k.__name__.lower() in names]
    print("| block | kernels | groups | planned | launches | µs (modeled:h200) | times as fast | bits | runs as plan | wall |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    ok = [row(k, train) for k in kinds for train in (False, True)]
    sys.exit(0 if all(ok) else 1)
