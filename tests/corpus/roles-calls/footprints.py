SIZES = {"x": 8192, "w": 8192, "h": 16384, "s": 16384, "p": 16, "q": 16384}


def footprints(g):
    # As posted, a call is given pointers, and what the function does with them counts as any byte of theirs. Once the
    # calls are written out (`calls`), a block has its tile or its rows alone: tests/corpus/roles is that.
    l = g.launch("merged", 48)
    for b in range(48):
        for buffer, n in SIZES.items():
            l.read(b, buffer, 0, n, evidence="data", widened=True)
            l.write(b, buffer, 0, n, evidence="data", widened=True)
    l = g.launch("bias", 64)
    for b in range(64):
        l.read(b, "h", b * 256, b * 256 + 256)
        l.read(b, "b", 0, 128)
        l.write(b, "y", b * 256, b * 256 + 256)
    l = g.launch("total", 1)
    l.read(0, "p", 0, 16)
    l.write(0, "o", 0, 1)
