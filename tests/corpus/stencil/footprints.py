N = 1000


def footprints(g):
    for name, src, dst in (("first", "x", "h"), ("second", "h", "y")):
        l = g.launch(name, 16)
        for b in range(16):
            lo, hi = b * 64, min(N, b * 64 + 64)
            l.read(b, src, max(0, lo - 1), min(N, hi + 1))
            l.write(b, dst, lo, hi)
