"""A Triton kernel of a user's, called from a function that PyTorch compiles (test_torch.py). Only with PyTorch."""
import triton
import triton.language as tl


@triton.jit
def scaled(x, out, n, f, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * f, i < n)


def function(torch):
    def f(x, y):
        a = torch.softmax(x + y, -1)
        out = torch.empty_like(a)
        scaled[(triton.cdiv(a.numel(), 256),)](a, out, a.numel(), 0.5, BLOCK=256)
        return torch.softmax(out * 3, 0), out
    return f
