"""CUDA programs that nvcc compiled, on the software device: their output, findings on stderr, and who may not be loaded
beside it. Without nvcc (CUDA_HOME, the path) only the last.

The programs are built as a user would: nvcc with the flags of `dovetail soft --flags`, or with the shared runtime and
run by `dovetail soft`.
"""
import os
import re
import unittest

from common import CUDA, DOVETAIL, HERE, NVCC, SOFT, Base, call


def text(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return f.read()


@unittest.skipUnless(NVCC, "no nvcc")
class Programs(Base):
    def build(self, name, *files, flags=()):
        out = os.path.join(self.dir, name)
        r = call([NVCC, "-std=c++17", *flags, *(os.path.join(HERE, f) for f in files), "-o", out])
        self.assertEqual(r.returncode, 0, r.stderr)
        return out

    def flags(self):
        r = call([DOVETAIL, "soft", "--flags"])
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout.split()

    def expect(self, r, out):
        self.assertEqual(r.stdout, text(out), r.stderr)
        self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_static(self):
        self.expect(call([self.build("basics-static", "basics.cu", flags=self.flags())]), "basics.out")

    def test_shared(self):
        prog = self.build("basics-shared", "basics.cu", flags=["-cudart", "shared", "-arch=sm_80"])
        self.expect(call([DOVETAIL, "soft", "--device", "soft:a100", "--", prog]), "basics.out")
        self.expect(call([prog], LD_LIBRARY_PATH=SOFT), "basics.out")

    def test_compressed(self):
        for mode in "none", "speed", "size", "balance":
            prog = self.build("graphs-" + mode, "graphs.cu", flags=[*self.flags(), "-compress-mode=" + mode])
            self.expect(call([prog]), "graphs.out")

    def test_per_thread(self):
        prog = self.build("per-thread", "graphs.cu", flags=[*self.flags(), "--default-stream", "per-thread"])
        self.expect(call([prog]), "graphs.out")

    def test_parts(self):
        prog = self.build("parts", "part-a.cu", "part-b.cu", flags=[*self.flags(), "-rdc=true"])
        self.expect(call([prog]), "part.out")

    def test_textures(self):
        prog = self.build("textures", "textures.cu", flags=self.flags())
        self.expect(call([prog]), "textures.out")
        self.assertEqual(call([prog], DOVETAIL_CHECK="race,uninit,bounds", DOVETAIL_SCHEDULE="3").stdout,
                         text("textures.out"))

    def test_machine_code_alone(self):
        prog = self.build("alone", "part-b.cu", "part-a.cu",
                          flags=[*self.flags(), "-rdc=true", "-gencode", "arch=compute_80,code=sm_80"])
        r = call([prog])
        self.assertIn("no kernel image is available", r.stdout)
        self.assertIn("no PTX", r.stderr)

    def test_findings(self):
        prog = self.build("findings", "findings.cu", flags=self.flags())
        source = text("findings.cu").split("\n")
        line = {m[1]: n for n, l in enumerate(source, 1) if (m := re.search(r"// (\w+)$", l)) and n > 5}
        for kind, name in ("bounds", "IllegalAddress"), ("race", "LaunchFailure"), ("uninit", "LaunchFailure"):
            r = call([prog, kind], DOVETAIL_CHECK="race,uninit,bounds")
            self.assertEqual(r.stdout, f"cudaError{name}\n", r.stderr)
            where = r"block \(0,0,0\), thread \(\d+,0,0\), PTX line \d+: "
            self.assertRegex(r.stderr, rf"^dovetail: {kind}: kernel _Z\d+{kind}Pi, " + where)
            self.assertRegex(r.stderr, rf"\ndovetail:     at \S*findings.cu:{line[kind]}\b")
            if kind == "race":
                self.assertRegex(r.stderr, rf"; the earlier access at \S*findings.cu:{line['earlier']}\n")
        self.assertIn("inlined at", call([prog, "bounds"], DOVETAIL_CHECK="bounds").stderr)
        self.assertEqual(call([prog, "bounds"]).stderr, "")
        self.assertEqual(call([prog, "race"]).stdout, "cudaSuccess\n")

    def test_nvidias_static_runtime(self):
        real = os.path.join(CUDA, "lib64") if os.path.isdir(os.path.join(CUDA, "lib64")) else os.path.join(CUDA, "lib")
        if not os.path.exists(os.path.join(real, "libcudart_static.a")):
            self.skipTest("no libcudart_static.a of NVIDIA's")
        r = call([DOVETAIL, "soft", "--", self.build("theirs", "part-a.cu", "part-b.cu", flags=["-rdc=true"])])
        self.assertIn("dovetail soft --flags", r.stderr)
        self.assertNotIn("parts 1041", r.stdout)


class Refusals(Base):
    """A driver or a runtime of somebody else's in the same process, in either order: refused by its path."""

    def compile(self, name, text, *flags):
        source, out = os.path.join(self.dir, name + ".c"), os.path.join(self.dir, name)
        with open(source, "w", encoding="utf-8") as f:
            f.write(text)
        r = call(["cc", "-O0", source, "-o", out, *flags])
        self.assertEqual(r.returncode, 0, r.stderr)
        return out

    def run_with(self, stranger, first):
        prog = self.compile("open", """#include <dlfcn.h>
            #include <stdio.h>
            #include <stdlib.h>
            int main(int argc, char **argv)
            {
                void *other = atoi(argv[3]) ? dlopen(argv[2], RTLD_NOW) : NULL;
                void *lib = dlopen(argv[1], RTLD_NOW);
                int (*count)(int *) = (int (*)(int *))dlsym(lib, "cudaGetDeviceCount"), n = -1;
                printf("%d\\n", count(&n));
                if (!other && !dlopen(argv[2], RTLD_NOW))
                    return 1;
                printf("%d\\n", count(&n));
                return 0;
            }""", "-ldl")
        return call([prog, os.path.join(SOFT, "libcudart.so.13"), stranger, str(int(first))])

    def test_strangers(self):
        for name in "libcuda.so.1", "libcudart.so.13", "libcudart.so.12.4":
            stranger = self.compile(name, "int cuGetProcAddress_v2(void) { return 500; }", "-shared", "-fPIC",
                                    "-Wl,-soname," + name)
            r = self.run_with(stranger, True)
            self.assertEqual(r.stdout, "803\n803\n", r.stderr)
            self.assertIn(stranger, r.stderr)
            r = self.run_with(stranger, False)
            self.assertEqual(r.stdout, "0\n803\n", r.stderr)
            self.assertIn(stranger, r.stderr)

    def test_driver_alone(self):
        stranger = self.compile("libcuda.so.1", "int x;", "-shared", "-fPIC", "-Wl,-soname,other")
        prog = self.compile("init", """#include <dlfcn.h>
            #include <stdio.h>
            int main(int argc, char **argv)
            {
                dlopen(argv[2], RTLD_NOW);
                int (*init)(unsigned) = (int (*)(unsigned))dlsym(dlopen(argv[1], RTLD_NOW), "cuInit");
                printf("%d\\n", init(0));
                return 0;
            }""", "-ldl")
        r = call([prog, os.path.join(SOFT, "libcuda.so.1"), stranger])
        self.assertEqual(r.stdout, "803\n", r.stderr)
        self.assertIn(stranger, r.stderr)

    def test_verb(self):
        for args in ["soft"], ["soft", "--flags", "--", "true"], ["soft", "--device", "cuda", "--", "true"]:
            self.assertEqual(call([DOVETAIL, *args]).returncode, 2, args)
        self.assertEqual(call([DOVETAIL, "soft", "--", "/does/not/exist"]).returncode, 4)
        r = call([DOVETAIL, "soft", "--device", "soft:l4", "--check", "race", "--", "sh", "-c",
                  "echo $LD_LIBRARY_PATH $DOVETAIL_SOFTGPU_MODEL $DOVETAIL_CHECK; exit 7"], LD_LIBRARY_PATH="/x:/y")
        self.assertEqual((r.returncode, r.stdout), (7, f"{SOFT}:/x:/y l4 race\n"))


if __name__ == "__main__":
    unittest.main()
