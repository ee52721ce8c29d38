"""The Python side of faulty.c: what it makes fail in a program under test, by a file that both have mapped."""
import errno
import mmap
import os
import struct
import tempfile

FIELDS = ("count", "fail_at", "fail_all", "failed", "disk_errno", "disk_read_only", "disk_slow_us", "disk_hits",
          "clock_s")
PREFIX = 8 * len(FIELDS)
LIBRARY = os.environ.get("DOVETAIL_FAULTY", "build/tests/fault/libfaulty.so")


class Faulty:
    """Use `env` for the programs that are named here, which share all figures; their other children are left alone."""
    def __init__(self, *programs):
        f, self.path = tempfile.mkstemp(prefix="dovetail-faulty.")
        os.ftruncate(f, 4096)
        self.map = mmap.mmap(f, 4096)
        os.close(f)
        os.environ.pop("LD_LIBRARY_PATH", None)  # meson's: the false GPU lies beside our library
        self.env = {"LD_PRELOAD": os.path.abspath(LIBRARY), "FAULTY": self.path, "FAULTY_PROGRAM": ":".join(programs)}

    def get(self, name):
        return struct.unpack_from("q", self.map, 8 * FIELDS.index(name))[0]

    def set(self, **values):
        for name, v in values.items():
            struct.pack_into("q", self.map, 8 * FIELDS.index(name), v)

    def fail(self, n, everything=False):
        """The nth allocation from now on, and with `everything` all behind it."""
        self.set(fail_all=int(everything), failed=0, fail_at=self.get("count") + n)

    def heal(self):
        """No faults any more; how many allocations failed."""
        self.set(fail_at=0, disk_errno=0, disk_read_only=0, disk_slow_us=0, clock_s=0)
        return self.get("failed")

    def disk(self, prefix, error=None, read_only=False, slow_s=0.0):
        self.map[PREFIX:PREFIX + len(prefix) + 1] = prefix.encode() + b"\0"
        self.set(disk_errno=getattr(errno, error) if error else 0, disk_read_only=int(read_only),
                 disk_slow_us=int(slow_s * 1e6), disk_hits=0)

    def close(self):
        self.map.close()
        os.unlink(self.path)
