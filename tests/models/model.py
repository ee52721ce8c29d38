"""What a model is before it is a graph document: tensors, weights and launches, and the pool that the tensors share.

A compiler of this kind plans memory once: every intermediate tensor gets an offset in one pool, and bytes are used
again as soon as nobody reads the tensor in them any more. `Model.document()` does that and gives the graph document of
docs/CONTRACT.md section 2.
"""

ALIGN = 256  # of offsets in the pool
SIZES = {"f32": 4, "i8": 1}


class Tensor:
    """An intermediate result: its place in the pool is known when the whole model is."""

    def __init__(self, count):
        self.bytes, self.first, self.last, self.offset = count * 4, None, None, None


class Kernel:
    """One entry: its text (flat index arithmetic, pointers alone as arguments) and how it is launched."""

    def __init__(self, name, text, grid, block):
        self.name, self.text, self.grid, self.block = name, text, list(grid), list(block)


class Model:
    def __init__(self, name):
        self.name, self.buffers, self.launches, self.kernels, self.functions = name, {}, [], {}, {}

    def buffer(self, name, role, count, dtype="f32", span=None, seed=0):
        """A buffer of its own: an input, a weight, an output. `span`: its values lie in it."""
        self.buffers[name] = {"bytes": count * SIZES[dtype], "role": role}
        if span:
            self.buffers[name]["fill"] = {"uniform": list(span), "dtype": dtype, "seed": seed}
        return name

    def function(self, text):
        """A device function that stays one: called, never inlined."""
        self.functions[text] = True

    def launch(self, kernel, outs, ins):
        """`outs` and `ins` in the order of the kernel's parameters, outputs first; a tensor, or a buffer's name."""
        known = self.kernels.setdefault(kernel.name, kernel)
        if known.text != kernel.text:
            raise ValueError(f"two kernels are called {kernel.name}")
        at = len(self.launches)
        for t in (*outs, *ins):
            if isinstance(t, Tensor):
                t.first = at if t.first is None else t.first
                t.last = at
        self.launches.append((kernel, (*outs, *ins)))
        return outs[0]

    def plan_pool(self):
        """Offsets: each tensor, in the order of birth, takes the lowest gap that is free as long as it lives. A launch
        never finds its output in the bytes of its inputs. Gives the size of the pool."""
        tensors = []
        for _, args in self.launches:
            tensors += [t for t in args if isinstance(t, Tensor) and t not in tensors]
        size, placed = 0, []
        for t in sorted(tensors, key=lambda t: t.first):
            at = 0
            for p in sorted((p for p in placed if p.last >= t.first), key=lambda p: p.offset):
                if p.offset - at >= t.bytes:
                    break
                at = max(at, -(-(p.offset + p.bytes) // ALIGN) * ALIGN)
            t.offset = at
            placed.append(t)
            size = max(size, at + t.bytes)
        return size

    def source(self):
        """The one file: functions, then kernels in the order of their first launch."""
        return "\n".join([*self.functions, *(k.text for k in self.kernels.values())])

    def document(self, file):
        size = self.plan_pool()
        launches = []
        for number, (kernel, args) in enumerate(self.launches):
            launches.append({"name": f"{kernel.name}_{number}", "module": "m", "entry": kernel.name,
                             "grid": kernel.grid, "block": kernel.block, "shared": 0,
                             "args": [{"buffer": "pool", "offset": t.offset} if isinstance(t, Tensor) else {"buffer": t}
                                      for t in args]})
        return {"dovetail": 1, "name": self.name, "modules": {"m": {"file": file}},
                "buffers": {**self.buffers, "pool": {"bytes": size, "role": "intermediate"}}, "launches": launches}
