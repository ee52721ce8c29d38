#!/usr/bin/env python3
"""Every entry of libcuda with every kind of wrong argument: the answers that cuda.h documents, and never a crash.

The reference is cuda.h itself: prototypes say what a parameter is, the comment above each says which codes the function
may return.

  1. Before cuInit every entry answers CUDA_ERROR_NOT_INITIALIZED.
  2. After cuInit, without a context, with zeros for everything.
  3. With a context: each pointer and handle in turn NULL, and each handle in turn garbage, of another kind, and
  destroyed, while the
     other arguments are live objects and buffers. A handle that is no handle is never accepted.

Each answer must be among the documented ones. Calls run in a child process, which says first what it is about to call:
when it dies, that is reported and the next entry goes on in another child.

Usage: args.py LIBCUDA CUDA_H
"""
import ctypes as C
import os
import re
import sys

HANDLES = {"CUcontext", "CUmodule", "CUfunction", "CUkernel", "CUlibrary", "CUstream", "CUevent", "CUgraph",
           "CUgraphNode", "CUgraphExec",
           "CUlinkState", "CUmemoryPool", "CUuserObject", "CUmemGenericAllocationHandle"}
GENERAL = {"CUDA_ERROR_NOT_INITIALIZED", "CUDA_ERROR_INVALID_CONTEXT", "CUDA_ERROR_CONTEXT_IS_DESTROYED",
           "CUDA_ERROR_OUT_OF_MEMORY",
           "CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_INVALID_HANDLE", "CUDA_SUCCESS"}
BEFORE_INIT = {"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress"}
# Handles that may be NULL: the default stream, "the current context", a kernel's own function.
OPTIONAL = {("CUstream", None), ("CUcontext", None), ("CUmemoryPool", None)}
# Where cuda.h says less than its own guide or than NVIDIA's other entries of the family do.
EXTRA = {
    "CUDA_ERROR_INVALID_DEVICE": r"cuDevice|cuKernel|cuMemAdvise|cuMemPrefetch|cuMemSetAccess|cuMemPool|cuMemCreate|"
                                 r"cuMemGetAllocationGran|"
                                 r"cuMemGet(Default)?MemPool|cuMemSetMemPool",
    "CUDA_ERROR_NOT_SUPPORTED": r".",
    "CUDA_ERROR_NOT_FOUND": r"Get(Function|Global|Kernel|Managed|AddressRange|ProcAddress)",
    "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED": r"Capture", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": r"BeginCapture",
    "CUDA_ERROR_ILLEGAL_STATE": r"Capture|cuGraph",
    "CUDA_ERROR_INVALID_IMAGE": r"cuModuleLoad|cuLibraryLoad|cuLink",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": r"cuModuleLoad|cuLibraryLoad|cuLink",
    "CUDA_ERROR_FILE_NOT_FOUND": r"Load|AddFile", "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED": r"cuMemHostUnregister",
    "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED": r"PeerAccess", "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED": r"PeerAccess",
    "CUDA_ERROR_UNSUPPORTED_LIMIT": r"Limit", "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY": r"Affinity",
    "CUDA_ERROR_OPERATING_SYSTEM": r"DotPrint", "CUDA_ERROR_PROFILER_DISABLED": r"Profiler",
    "CUDA_ERROR_CAPTURED_EVENT": r"Event",
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": r"Cluster|Launch|Graph",
}
PTX = (".version 7.8\n.target sm_80\n.address_size 64\n.global .u32 v;\n.visible .entry k()\n{\nret;\n}\n")
HOST_FN = C.CFUNCTYPE(None, C.c_void_p)
nothing = HOST_FN(lambda p: None)


def read_header(path):
    raw = open(path, encoding="utf-8", errors="replace").read()
    macros = {}
    for n, v in re.findall(r"#define\s+(cu[A-Z]\w+)\s+(\S+)", raw):
        macros.setdefault(n, re.sub(r".*\((\w+)\)", r"\1", v))
    codes = {n: int(v) for n, v in re.findall(r"(CUDA_(?:SUCCESS|ERROR_\w+))\s*=\s*(\d+)", raw)}
    functions = {}
    for m in re.finditer(r"/\*\*((?:(?!\*/).)*?)\*/\s*(?:__CUDA_DEPRECATED\s+)?"
                         r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(([^)]*)\);", raw, re.S):
        name = m[2]
        params = [] if m[3].strip() in ("", "void") else [re.sub(r"\s+", " ", p).strip()
                                                          for p in re.sub(r"/\*.*?\*/|//[^\n]*", "", m[3],
                                                            flags=re.S).split(",")]
        documented = set(re.findall(r"::(CUDA_(?:SUCCESS|ERROR_\w+))", m[1]))
        functions.setdefault(name, (macros.get(name, name), params, documented))
    return functions, codes


def kind(param):
    """handle NAME, `pointer`, or `value`."""
    words = re.sub(r"\bconst\b", "", param)
    if "*" in words or "[" in words or re.match(r"\s*(CUhostFn|CUstreamCallback|CUoccupancyB2DSize)\b", words):
        return "pointer"
    base = words.split()[0]
    return base if base in HANDLES else "value"


class World:
    """Live objects of each kind, made anew for each call."""

    def __init__(self, lib):
        self.lib = lib
        self.buffer = C.create_string_buffer(1 << 16)
        self.text = C.create_string_buffer(PTX.encode())

    def call(self, name, *args):
        r = getattr(self.lib, name)(*args)
        assert r == 0, (name, r)

    def out(self, name, *args):
        h = C.c_void_p()
        self.call(name, C.byref(h), *args)
        return h.value

    def make(self):
        o = self.o = {}
        o["CUcontext"] = self.out("cuCtxCreate_v2", 0, 0)
        o["CUmodule"] = self.out("cuModuleLoadData", self.text)
        o["CUfunction"] = self.out("cuModuleGetFunction", C.c_void_p(o["CUmodule"]), b"k")
        o["CUlibrary"] = self.out("cuLibraryLoadData", self.text, None, None, 0, None, None, 0)
        o["CUkernel"] = self.out("cuLibraryGetKernel", C.c_void_p(o["CUlibrary"]), b"k")
        o["CUstream"] = self.out("cuStreamCreate", 0)
        o["CUevent"] = self.out("cuEventCreate", 0)
        o["CUgraph"] = self.out("cuGraphCreate", 0)
        o["CUgraphNode"] = self.out("cuGraphAddEmptyNode", C.c_void_p(o["CUgraph"]), None, C.c_size_t(0))
        o["CUgraphExec"] = self.out("cuGraphInstantiateWithFlags", C.c_void_p(o["CUgraph"]), C.c_ulonglong(0))
        l = C.c_void_p()
        self.call("cuLinkCreate_v2", 0, None, None, C.byref(l))
        o["CUlinkState"] = l.value
        o["CUmemoryPool"] = self.out("cuMemPoolCreate", C.byref((C.c_int * 22)(1, 0, 1, 0)))
        o["CUuserObject"] = self.out("cuUserObjectCreate", None, nothing, 1, 1)
        o["CUmemGenericAllocationHandle"] = self.out("cuMemCreate", C.c_size_t(2 << 20),
                                                     C.byref((C.c_int * 12)(1, 0, 1, 0)), C.c_ulonglong(0))

    def drop(self):
        o = self.o
        for name, k in (("cuMemRelease", "CUmemGenericAllocationHandle"), ("cuMemPoolDestroy", "CUmemoryPool"),
                        ("cuLinkDestroy", "CUlinkState"),
                        ("cuGraphExecDestroy", "CUgraphExec"), ("cuGraphDestroy", "CUgraph"),
                        ("cuEventDestroy_v2", "CUevent"),
                        ("cuStreamDestroy_v2", "CUstream"), ("cuLibraryUnload", "CUlibrary"),
                        ("cuCtxSetCurrent", "CUcontext"),
                        ("cuModuleUnload", "CUmodule"), ("cuCtxDestroy_v2", "CUcontext")):
            getattr(self.lib, name)(C.c_void_p(o[k]))
        getattr(self.lib, "cuUserObjectRelease")(C.c_void_p(o["CUuserObject"]), 1)

    def arguments(self, params):
        C.memset(self.buffer, 0, len(self.buffer))
        return [C.c_void_p(self.o[kind(p)]) if kind(p) in HANDLES else C.cast(nothing, C.c_void_p)
                if self.is_function(p) else C.c_void_p(C.addressof(self.buffer)) if kind(p) == "pointer"
                else C.c_void_p(0) for p in params]

    @staticmethod
    def is_function(param):
        return re.match(r"(CUhostFn|CUstreamCallback|CUoccupancyB2DSize)\b", param)


def cases(world, name, symbol, params, phase):
    """Yields (what, arguments, may it succeed)."""
    zeros = [C.c_void_p(0)] * len(params)
    if phase == "uninitialised" or phase == "contextless":
        yield phase, zeros, True
        return
    stale = {}
    world.make()
    stale.update(world.o)
    world.drop()
    world.make()
    for i, p in enumerate(params):
        k = kind(p)
        if k == "value":
            continue
        args = world.arguments(params)
        args[i] = C.c_void_p(0)
        yield f"{p} NULL", args, k == "pointer" or (k, None) in OPTIONAL
        if k == "pointer":
            continue
        for what, value in (("garbage", 0x10), ("no handle", C.addressof(world.buffer)), ("odd", world.o[k] + 1),
                            ("of another kind", world.o["CUevent" if k != "CUevent" else "CUstream"]),
                            ("destroyed", stale[k] if stale[k] not in world.o.values() else 0x18)):
            args = world.arguments(params)
            args[i] = C.c_void_p(value)
            yield f"{p} {what}", args, False
    world.drop()


def child(libpath, todo, phase, say):
    lib = C.CDLL(libpath)
    if phase != "uninitialised":
        assert lib.cuInit(0) == 0
    world = World(lib)
    for name, (symbol, params, _) in todo:
        fn = getattr(lib, symbol)
        say(f"begin {name} -")
        for what, args, may in cases(world, name, symbol, params, phase):
            say(f"call {name} {what}")
            r = fn(*args)
            say(f"result {r} {int(may)}")
            if phase == "arguments":
                lib.cuCtxSetCurrent(C.c_void_p(world.o["CUcontext"]))
        say(f"end {name} -")
    say("done - -")


def run(libpath, todo, phase):
    """Yields (name, what, code or None for a crash, may it succeed)."""
    todo = list(todo)
    while todo:
        r, w = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(r)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                child(libpath, todo, phase, lambda s: os.write(w, (s + "\n").encode()))
                os._exit(0)
            except BaseException as e:
                os.write(w, f"failed {e!r}\n".encode())
                os._exit(3)
        os.close(w)
        now, last, done = None, "", False
        for line in os.fdopen(r):
            word, rest = line.rstrip("\n").split(" ", 1)
            if word == "begin":
                now = rest[:-2]
            elif word == "call":
                last = rest.split(" ", 1)[1]
            elif word == "result":
                code, may = rest.split()
                yield now, last, int(code), may == "1"
            elif word == "failed":
                yield now, last + ": " + rest, None, False
            elif word == "done":
                done = True
        _, status = os.waitpid(pid, 0)
        if done:
            return
        if os.WIFSIGNALED(status):
            yield now, f"{last}: signal {os.WTERMSIG(status)}", None, False
        at = [n for n, _ in todo].index(now)
        todo = todo[at + 1:]


def main():
    libpath, header = sys.argv[1:]
    functions, codes = read_header(header)
    names = {v: k for k, v in codes.items()}
    probe = C.CDLL(libpath)
    served = {n: f for n, f in functions.items() if hasattr(probe, f[0])}
    assert len(served) > 300, "cuda.h could not be read"
    wrong, count = [], 0
    for phase in ("uninitialised", "contextless", "arguments"):
        todo = [f for f in sorted(served.items()) if f[0] != "cuInit" or phase != "uninitialised"]
        for name, what, code, may in run(libpath, todo, phase):
            count += 1
            if code is None:
                wrong.append(f"{name}: {what}")
                continue
            text = names.get(code, str(code))
            allowed = GENERAL | served[name][2] | {c for c, p in EXTRA.items() if re.search(p, name)}
            if phase == "uninitialised":
                if name not in BEFORE_INIT and text != "CUDA_ERROR_NOT_INITIALIZED":
                    wrong.append(f"{name} before cuInit: {text}")
            elif text not in allowed:
                wrong.append(f"{name}, {what}: {text} is not documented ({' '.join(sorted(served[name][2]))})")
            elif text == "CUDA_SUCCESS" and not may:
                wrong.append(f"{name}, {what}: accepted")
    print("\n".join(wrong))
    print(f"{len(served)} entries, {count} calls, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
