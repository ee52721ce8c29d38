"""What `meson install` puts where (docs/INSTALL.md): into an empty DESTDIR, then every file, its mode and its place.

Packages are made of this, so it says what they may not do: a libcuda or libcudart outside the private folder, a library
that nobody named, a path of the build in what is installed. Then the installed tree is used where it lies: a program is
compiled with what pkg-config says and runs a plan, and the command line finds its worker and its device.
"""
import glob
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "../.."))
BUILD = os.path.abspath(os.environ["DOVETAIL_BUILD"])

PROGRAMS = ["bin/dovetail", "bin/dovetaild", "bin/dovetail-worker", "lib/dovetail/dovetail-nvrtc"]
LIBRARIES = ["LIB/libdovetail.so.1.0.0", "lib/dovetail/libcuda.so.1", "lib/dovetail/libcudart.so.13",
             "lib/dovetail/libdovetail-capture.so"]
LINKS = {"LIB/libdovetail.so": "libdovetail.so.1", "LIB/libdovetail.so.1": "libdovetail.so.1.0.0",
         "lib/dovetail/libcuda.so": "libcuda.so.1", "lib/dovetail/libcudart.so": "libcudart.so.13"}
DATA = ("include/dovetail.h "
        "LIB/pkgconfig/dovetail.pc "
        "lib/dovetail/libcudart_static.a "
        "lib/systemd/system/dovetaild.service lib/systemd/system/dovetaild.socket "
        "lib/systemd/system/dovetail-reprofile.service lib/systemd/system/dovetail-reprofile.timer "
        "lib/sysusers.d/dovetail.conf lib/tmpfiles.d/dovetail.conf "
        "share/dovetail/dovetail.conf "
        "share/bash-completion/completions/dovetail.bash share/zsh/site-functions/_dovetail "
        "share/fish/vendor_completions.d/dovetail.fish "
        "DOC/README.md DOC/NEWS.md DOC/LICENSE DOC/INSTALL.md DOC/OPERATE.md "
        "DOC/CLUSTER.md DOC/CONTRACT.md DOC/EMBED.md "
        "DOC/PYTHON.md DOC/shared.conf "
        "DOC/examples/example-plan.c DOC/examples/encoder/graph.json DOC/examples/encoder/encoder.cu "
        "DOC/examples/ptx-only/graph.json DOC/examples/ptx-only/kernels.ptx ").split()
MAN = ["share/man/man1/dovetail.1", "share/man/man5/dovetail.conf.5", "share/man/man8/dovetaild.8",
       "share/man/man8/dovetail-worker.8"]


def run(*args, **more):
    return subprocess.run(args, capture_output=True, text=True, timeout=120, check=False, **more)


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        meson = shutil.which("meson")
        if not meson:
            raise unittest.SkipTest("no meson on the path")
        with open(os.path.join(BUILD, "meson-info/intro-buildoptions.json"), encoding="utf-8") as f:
            option = {o["name"]: o["value"] for o in json.load(f)}
        cls.dir = tempfile.mkdtemp(prefix="dovetail-install-")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.prefix, cls.libdir = option["prefix"], option["libdir"]
        cls.tree = cls.dir + cls.prefix
        r = run(meson, "install", "-C", BUILD, "--no-rebuild", env={**os.environ, "DESTDIR": cls.dir}, umask=0o077)
        if r.returncode:
            raise AssertionError(r.stdout + r.stderr)
        env = {k: v for k, v in os.environ.items() if not k.startswith("DOVETAIL_") and k != "LD_LIBRARY_PATH"}
        cls.env = {**env, "XDG_CACHE_HOME": os.path.join(cls.dir, "cache"),
                   "LD_LIBRARY_PATH": os.path.join(cls.tree, cls.libdir)}

    def place(self, name):
        return name.replace("LIB/", self.libdir + "/").replace("DOC/", "share/doc/dovetail/")

    def installed(self):
        """Every file and link below DESTDIR, by its path below the prefix."""
        return {os.path.relpath(os.path.join(d, n), self.tree) for d, _, names in os.walk(self.dir) for n in names
                if not d.startswith(os.path.join(self.dir, "cache"))}

    def test_places(self):
        want = {self.place(n) for n in PROGRAMS + LIBRARIES + [*LINKS] + DATA}
        have = self.installed()
        man = {n for n in have if n.startswith("share/man/")}
        self.assertIn(man, ({*MAN}, set()))  # none where there is no scdoc
        self.assertEqual(have - man, want)
        if not man:
            print("left out: manual pages (no scdoc when this was configured)")

    def test_modes(self):
        """Everybody may read it, whatever the umask was; nobody but the owner may write; nothing is setuid."""
        for name in self.installed():
            path = os.path.join(self.tree, name)
            if os.path.islink(path):
                self.assertEqual(os.readlink(path), {self.place(k): v for k, v in LINKS.items()}[name], name)
                continue
            runs = name in {self.place(n) for n in PROGRAMS + LIBRARIES}
            self.assertEqual(oct(stat.S_IMODE(os.stat(path).st_mode)), "0o755" if runs else "0o644", name)

    def test_private(self):
        """On no path that a linker or a loader looks in."""
        for name in self.installed():
            if re.match(r"lib(cuda|cudart|nvrtc|nvJitLink|cupti)", os.path.basename(name)):
                self.assertEqual(os.path.dirname(name), "lib/dovetail")
                self.assertRegex(os.path.basename(name), r"^lib(cuda|cudart)")
        texts = [n for n in self.installed() if "ld.so.conf" in n or n.startswith(("etc/", "../etc"))]
        self.assertEqual(texts, [])

    def test_programs(self):
        """Nothing that only the build folder has, and none of NVIDIA's libraries, is needed to start them."""
        if not shutil.which("readelf"):
            self.skipTest("no readelf here")
        for name in PROGRAMS + LIBRARIES:
            r = run("readelf", "-dW", os.path.join(self.tree, self.place(name)))
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertNotRegex(r.stdout, r"RPATH|RUNPATH", name)
            self.assertNotRegex(r.stdout, r"NEEDED.*(cuda|nvrtc|nvJitLink|cupti)", name)

    def test_texts(self):
        """The build's folder is named in no text."""
        for name in DATA + MAN:
            path = os.path.join(self.tree, self.place(name))
            if os.path.exists(path) and not path.endswith(".a"):
                with open(path, encoding="utf-8") as f:
                    text = f.read()
                self.assertNotIn(BUILD, text, name)
                self.assertNotRegex(text, r"@\w+@", name)
        with open(os.path.join(self.tree, "lib/systemd/system/dovetaild.service"), encoding="utf-8") as f:
            self.assertIn(f"ExecStart={self.prefix}/bin/dovetaild ", f.read())

    def test_units(self):
        """They run what is installed with them, and /bin/sh: a minimal system has no /bin/kill."""
        found = []
        for name in DATA:
            if name.startswith("lib/systemd/system/"):
                with open(os.path.join(self.tree, name), encoding="utf-8") as f:
                    found += re.findall(r"^Exec\w+=[-@:+!]*(\S+)", f.read(), re.M)
        self.assertGreaterEqual(len(found), 3)
        self.assertEqual([f for f in found if f != "/bin/sh" and not f.startswith(self.prefix + "/bin/dovetail")], [])

    def test_pkg_config(self):
        """The example of docs/EMBED.md, compiled as its readers would, runs a plan on the software device."""
        cc = shutil.which("cc") or shutil.which("gcc")
        tool = shutil.which("pkg-config")
        if not cc or not tool:
            self.skipTest("no cc, or no pkg-config here")
        env = {**self.env, "PKG_CONFIG_PATH": os.path.join(self.tree, self.libdir, "pkgconfig"),
               "PKG_CONFIG_SYSROOT_DIR": self.dir}
        r = run(tool, "--cflags", "--libs", "dovetail", env=env)
        self.assertEqual(r.returncode, 0, r.stderr)
        flags = r.stdout.split()
        self.assertIn("-ldovetail", flags)
        self.assertFalse([f for f in flags if "cuda" in f], flags)
        self.assertEqual(run(tool, "--modversion", "dovetail", env=env).stdout.strip(), self.version())
        source, program = os.path.join(self.dir, "cache/example.c"), os.path.join(self.dir, "cache/example")
        os.makedirs(os.path.dirname(source), exist_ok=True)
        with open(os.path.join(self.tree, "share/doc/dovetail/examples/example-plan.c"), encoding="utf-8") as f, \
                open(source, "w", encoding="utf-8") as out:
            out.write(f.read().replace('"client/dovetail.h"', "<dovetail.h>"))
        with open(os.path.join(BUILD, "meson-info/intro-buildoptions.json"), encoding="utf-8") as f:
            cuda = next(o["value"] for o in json.load(f) if o["name"] == "cuda")
        private = os.path.join(self.tree, "lib/dovetail")
        r = run(cc, "-o", program, source, "-isystem", os.path.join(cuda, "include"), *flags, f"-L{private}", "-lcuda")
        self.assertEqual(r.returncode, 0, r.stderr)
        plan = os.path.join(self.dir, "cache/plan")
        self.cli("optimize", self.example(), "--local", "--device", "soft", "-o", plan)
        r = run(program, os.path.join(plan, "plan.json"),
                env={**self.env, "LD_LIBRARY_PATH": self.env["LD_LIBRARY_PATH"] + ":" + private})
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        r = run(program, os.path.join(plan, "plan.json"), env=self.env)  # the private folder is private
        if not glob.glob("/usr/lib/*/libcuda.so.1"):
            self.assertNotEqual(r.returncode, 0)
            self.assertIn("libcuda.so.1", r.stderr)

    def version(self):
        return self.cli("version").split()[1]

    def example(self):
        return os.path.join(self.tree, "share/doc/dovetail/examples/ptx-only/graph.json")

    def cli(self, *args):
        r = run(os.path.join(self.tree, "bin/dovetail"), *args, env=self.env)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def test_moved(self):
        """The command line finds its worker, and the worker its device, in the tree that they lie in."""
        document = json.loads(self.cli("run", self.example(), "--local", "--device", "soft", "--json"))
        self.assertEqual({o["buffer"] for o in document["outputs"]}, {"y", "z"})
        self.assertIn(f"-L{self.tree}/lib/dovetail ", self.cli("soft", "--flags"))

    def test_without_proc(self):
        """What lies beside a program is found by /proc: where it is not mounted, that is said."""
        hidden = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c",
                  'mount -t tmpfs none /proc || exit 77; exec "$@"', "sh"]
        for args in (["dovetail", "run", self.example(), "--local", "--device", "soft"],
                     ["dovetail", "soft", "--flags"], ["dovetaild", "--check-config"]):
            r = run(*hidden, os.path.join(self.tree, "bin", args[0]), *args[1:],
                    env={k: v for k, v in self.env.items() if k != "DOVETAIL_WORKER"})
            if r.returncode == 77 or r.stderr.startswith("unshare:"):
                self.skipTest("nothing may be mounted here: " + r.stderr.strip())
            self.assertNotEqual(r.returncode, 0, (args, r.stdout))
            self.assertIn("/proc/self/exe", r.stderr)
            self.assertNotIn("memory", r.stderr)


if __name__ == "__main__":
    unittest.main()
