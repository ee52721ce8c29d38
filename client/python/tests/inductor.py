"""What Inductor's wrappers import, without PyTorch: tensors on the software device, kernels of a few lines of PTX, and
objects with the attributes of Inductor's that dovetail.torch looks at. The files of wrappers/ are of our own writing,
in the shape of what Inductor 2.15 emits, and import from here.

A kernel's source is "NAME = A * IN + B" over the pointers in_ptr0, in_ptr1 (optional) and out_ptr0, or in_out_ptr0.
"""
import ctypes
import types

from dovetail import cuda, native

float32, int64 = "torch.float32", "torch.int64"
allocations = []  # sizes, of every empty_strided_cuda
externs = []


class Storage:
    def __init__(self, array):
        self.array = array

    def data_ptr(self):
        return self.array.data_ptr()

    def nbytes(self):
        return self.array.nbytes


class Tensor:
    def __init__(self, storage, size, stride, offset=0, dtype=float32, device="cuda:0"):
        self._storage, self._size, self._stride, self._offset = storage, tuple(size), tuple(stride), offset
        self.dtype, self.device = dtype, device

    def untyped_storage(self): return self._storage
    def size(self): return self._size
    def stride(self): return self._stride
    def storage_offset(self): return self._offset
    def data_ptr(self): return self._storage.data_ptr() + 4 * self._offset
    def bytes(self): return self._storage.array.bytes()


def tensor(data, size=None):
    import struct
    raw = struct.pack("<%df" % len(data), *data)
    return Tensor(Storage(cuda.Array(len(raw)).set(raw)), size or (len(data),), (1,))


def empty_strided_cuda(size, stride, dtype):
    n = 4
    for s in size:
        n *= s
    allocations.append(n)
    return Tensor(Storage(cuda.Array(n).set(b"\xff" * n)), size, stride, 0, dtype)


def reinterpret_tensor(t, size, stride, offset=0):
    return Tensor(t._storage, size, stride, t._offset + offset, t.dtype)


def assert_size_stride(t, size, stride):
    assert t.size() == tuple(size)


def get_raw_stream(device):
    return 0


class _Guard:
    def __init__(self, *_): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass


torch = types.SimpleNamespace(float32=float32, int64=int64,
                              cuda=types.SimpleNamespace(_DeviceGuard=_Guard, set_device=lambda n: None))


class _Extern:
    def mm(self, a, b, out):
        """No product: out = a, byte by byte."""
        externs.append("mm")
        out._storage.array.set(a.bytes())


extern_kernels = _Extern()

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry {name}({params}, .param .u32 n) .reqntid 128
{{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<8>;
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r2, 128, %r3;
    setp.ge.s32 %p1, %r4, %r1;
    @%p1 bra DONE;
    mul.wide.s32 %rd1, %r4, 4;
    ld.param.u64 %rd2, [{read}];
    add.s64 %rd3, %rd2, %rd1;
    ld.global.f32 %f1, [%rd3];
    fma.rn.f32 %f2, %f1, 0f{a}, 0f{b};
{second}
    ld.param.u64 %rd6, [{write}];
    add.s64 %rd7, %rd6, %rd1;
    st.global.f32 [%rd7], %f2;
DONE:
    ret;
}}
"""
SECOND = """    ld.param.u64 %rd4, [in_ptr1];
    add.s64 %rd5, %rd4, %rd1;
    ld.global.f32 %f3, [%rd5];
    add.rn.f32 %f2, %f2, %f3;"""


def _hex(v):
    import struct
    return "%08X" % struct.unpack("<I", struct.pack("<f", float(v)))[0]


class Kernel:
    """The attributes of Inductor's CachingAutotuner, once it has been run."""

    def __init__(self, name, source):
        _, _, a, pointers, b = source.split()
        self.pointers = pointers.split(",")
        self.fn = types.SimpleNamespace(__name__=name, arg_names=[*self.pointers, "xnumel", "XBLOCK"], constexprs=[])
        self.inductor_meta = {"kernel_name": name, "mutated_arg_names": [p for p in self.pointers if "in_out" in p]}
        ptx = PTX.format(name=name, params=", ".join(f".param .u64 .ptr .global .align 1 {p}" for p in self.pointers),
                         read=self.pointers[0], write=self.pointers[-1], a=_hex(a), b=_hex(b),
                         second=SECOND if "in_ptr1" in self.pointers else "")
        src = types.SimpleNamespace(fn=self.fn, constants={(len(self.pointers) + 1,): 128}, attrs={
            (i,): [["tt.divisibility", 16]] for i in range(len(self.pointers))}, signature={
            **{p: "*fp32" for p in self.pointers}, "xnumel": "i32", "XBLOCK": "constexpr"})
        metadata = types.SimpleNamespace(num_warps=4, shared=0, num_ctas=1, name=name)
        self.bin = types.SimpleNamespace(src=src, metadata=metadata, asm={"ptx": ptx})
        self.launchers, self.function, self.runs = [], None, 0

    def _compile(self):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        cu = native.driver()
        cu.call("cuModuleLoadData", ctypes.byref(module), self.bin.asm["ptx"].encode())
        cu.call("cuModuleGetFunction", ctypes.byref(function), module, self.fn.__name__.encode())
        scope = {"bin": self.bin, "runner": self._launch, "function": function}
        args = ", ".join([*self.pointers, "xnumel"])
        exec(f"def launcher({args}, stream):\n"
             "    grid_0 = -(xnumel // -128)\n    grid_1 = 1\n    grid_2 = 1\n"
             f"    runner(grid_0, grid_1, grid_2, stream, function, None, None, None, None, {args}, 128)\n", scope)
        self.launchers = [scope["launcher"]]

    def run(self, *args, stream):
        if not self.launchers:
            self._compile()
        self.runs += 1
        self.launchers[0](*args, stream=stream)

    def _launch(self, x, y, z, stream, function, *rest):
        values = [ctypes.c_uint64(a.data_ptr()) if hasattr(a, "data_ptr") else ctypes.c_uint32(a) for a in rest[4:-1]]
        table = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        native.driver().call("cuLaunchKernel", function, x, y, z, 128, 1, 1, 0, ctypes.c_void_p(stream), table, None)


class _Async:
    def triton(self, name, source, device_str):
        assert device_str == "cuda"
        return Kernel(name, source.strip())

    def wait(self, scope):
        pass


async_compile = _Async()
