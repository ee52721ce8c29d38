"""What goes wrong in the fake driver (fake-gpu.c): it reads that at every call from a file, of each test program its
own."""
import atexit
import os
import tempfile

SWITCH = tempfile.NamedTemporaryFile("w", prefix="dovetail-fault.", delete=False)
os.environ["FAKE_GPU"] = "@" + SWITCH.name
atexit.register(os.unlink, SWITCH.name)


def fault(words):
    with open(SWITCH.name, "w", encoding="utf-8") as f:
        f.write(words)
