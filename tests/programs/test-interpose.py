"""What tools rely on to see the calls of a program on the software device: CUDA_INJECTION64_PATH, as NVIDIA's driver
has it, and that each call of the program goes through an exported name once.
"""
import os
import shutil
import subprocess
import tempfile
import unittest

BUILD = os.environ["DOVETAIL_BUILD"]
SOFT = os.path.realpath(os.path.join(BUILD, "softgpu"))
INCLUDE = os.path.join(os.environ.get("DOVETAIL_CUDA", ""), "include")

PROGRAM = r"""
#include <cuda.h>
#include <stdio.h>
static const char *ptx = ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry k(.param .u64 p) { .reg .b64 %rd<2>; .reg .b32 %r<2>; ld.param.u64 %rd1, [p];\n"
    "mov.u32 %r1, 7; st.global.u32 [%rd1], %r1; ret; }\n";
int main(void)
{
    CUdevice d; CUcontext c; CUmodule m; CUfunction f; CUdeviceptr p; CUstream s; unsigned v[2] = {0};
    CUgraph g; CUgraphExec x;
    if (cuInit(0) || cuInit(0) || cuDeviceGet(&d, 0) || cuDevicePrimaryCtxRetain(&c, d) || cuCtxSetCurrent(c) ||
        cuModuleLoadData(&m, ptx) || cuModuleGetFunction(&f, m, "k") || cuMemAlloc(&p, 8) || cuMemsetD8(p, 0, 8))
        return 1;
    void *a[] = {&p};
    if (cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, a, NULL) || cuMemcpyDtoH(v, p, 8) || cuStreamCreate(&s, 0) ||
        cuStreamBeginCapture(s, 0) || cuMemcpyDtoDAsync(p + 4, p, 4, s) || cuStreamEndCapture(s, &g) ||
        cuGraphInstantiate(&x, g, 0) || cuGraphLaunch(x, s) || cuStreamSynchronize(s) || cuMemcpyDtoH(v, p, 8))
        return 2;
    printf("%u %u\n", v[0], v[1]);
    return 0;
}"""
# Every entry that another one might go through is counted and passed on.
COUNTED = ["cuLaunchKernel", "cuLaunchKernelEx", "cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2", "cuMemcpyDtoDAsync_v2",
           "cuMemcpy", "cuMemcpyAsync", "cuMemcpy3D_v2", "cuMemsetD8_v2", "cuMemsetD8Async", "cuGraphLaunch",
           "cuModuleLoadData", "cuModuleLoadDataEx", "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams",
           "cuStreamSynchronize", "cuStreamCreate", "cuStreamCreateWithPriority", "cuMemAlloc_v2", "cuCtxSetCurrent"]


class Interpose(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)

    def compile(self, name, text, *flags):
        source, out = os.path.join(self.dir, name + ".c"), os.path.join(self.dir, name)
        with open(source, "w", encoding="utf-8") as f:
            f.write(text)
        r = subprocess.run(["cc", "-O1", source, "-o", out, *flags], capture_output=True, text=True, check=False)
        self.assertEqual(r.returncode, 0, r.stderr)
        return out

    def program(self):
        return self.compile("program", PROGRAM, "-isystem", INCLUDE, "-L" + SOFT, "-l:libcuda.so.1")

    def run_it(self, prog, **env):
        r = subprocess.run([prog], capture_output=True, text=True, timeout=120, check=False,
                           env={**os.environ, "LD_LIBRARY_PATH": SOFT, **env})
        self.assertEqual((r.returncode, r.stdout), (0, "7 7\n"), r.stderr)
        return r.stderr

    def test_once(self):
        text = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n" + "".join(
            f"long {n}(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k) {{\n"
            f"    long (*p)() = dlsym(RTLD_NEXT, \"{n}\"); fprintf(stderr, \"{n}\\n\");\n"
            "    return p(a, b, c, d, e, f, g, h, i, j, k); }\n" for n in COUNTED)
        tool = self.compile("tool.so", text, "-shared", "-fPIC")
        seen = self.run_it(self.program(), LD_PRELOAD=tool).split()
        self.assertEqual(seen, ["cuCtxSetCurrent", "cuModuleLoadData", "cuMemAlloc_v2", "cuMemsetD8_v2",
                                "cuLaunchKernel", "cuMemcpyDtoH_v2", "cuStreamCreate", "cuMemcpyDtoDAsync_v2",
                                "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuStreamSynchronize",
                                "cuMemcpyDtoH_v2"])

    def test_injection(self):
        prog = self.program()
        tool = self.compile("tool.so", """#include <cuda.h>
            #include <stdio.h>
            int InitializeInjection(void)
            {
                int n = 0, r = cuDeviceGetCount(&n); /* the driver can be called from here */
                fprintf(stderr, "here %d %d\\n", r, n);
                return 1;
            }""", "-shared", "-fPIC", "-isystem", INCLUDE, "-L" + SOFT, "-l:libcuda.so.1")
        self.assertEqual(self.run_it(prog, CUDA_INJECTION64_PATH=tool), "here 0 1\n")
        self.assertEqual(self.run_it(prog, CUDA_INJECTION64_PATH=""), "")
        self.assertIn("/no/such.so", self.run_it(prog, CUDA_INJECTION64_PATH="/no/such.so"))
        empty = self.compile("empty.so", "int x;", "-shared", "-fPIC")
        self.assertEqual(self.run_it(prog, CUDA_INJECTION64_PATH=empty), "")


if __name__ == "__main__":
    unittest.main()
