#!/usr/bin/env python3
"""races.py DOVETAIL: what keeps the warps of specialised.cu apart, taken away piece by piece: each time the race check
must find it, in the persistent graph of make.py. Exit status 77 where there is no nvcc."""
import os
import subprocess
import sys
import tempfile

import make

WITHOUT = {
    "a wait for an empty stage": ("            wait(&ring->empty[s], parity);\n", ""),
    "a wait for a full stage": ("            wait(&ring->full[s], parity);\n", ""),
    "the round between a product and its stage's release": (
        "            if (last >= 0) /* the round before has been read */\n                release(ring, last, t);\n",
        "            release(ring, s, t);\n"),
    "the other group's release": (
        "    if (t == 0)\n        arrive(&ring->empty[s]);",
        "    if (threadIdx.x == 128) {\n        arrive(&ring->empty[s]);\n        arrive(&ring->empty[s]);\n    }"),
    "the barrier before the tile is copied": (
        'asm volatile("fence.proxy.async.shared::cta;\\nbar.sync %0, 128;" ::"r"(group + 1) : "memory");',
        'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'),
    "the wait for the tile before": (
        "        if (warp == 0 && elect())\n"
        '            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");\n', ""),
}


def main():
    if not os.path.exists(make.nvcc()):
        return 77
    here, bad = make.HERE, 0
    texts = {f: open(os.path.join(here, f), encoding="utf-8").read() for f in ("specialised.cu", "rows.cu")}
    for what, (old, new) in WITHOUT.items():
        assert texts["specialised.cu"].count(old) == 1, what
        with tempfile.TemporaryDirectory() as tmp:
            make.write(tmp, texts | {"specialised.cu": texts["specialised.cu"].replace(old, new)})
            make.HERE = tmp
            make.write(tmp, make.made("specialised-persistent-90"))
            done = subprocess.run([sys.argv[1], "run", tmp + "/graph.json", "--local", "--device", "soft", "--check",
                                   "race", "--schedule", "1"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        found = done.returncode == 3 and "race: " in done.stderr
        bad += not found
        print(f"without {what}: {'a race' if found else 'no race: ' + done.stderr[-300:]}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
