def footprints(g):
    l = g.launch("saxpy", 16)
    for b in range(16):
        lo, hi = b * 64, min(1000, b * 64 + 64)
        l.read(b, "x", lo, hi)
        l.read(b, "y", lo, hi)
        l.write(b, "y", lo, hi)
    l = g.launch("negate", 8)
    for b in range(8):
        l.read(b, "y", b * 128, b * 128 + 128)  # the last block also reads 24 elements that saxpy leaves alone
        l.write(b, "z", b * 128, b * 128 + 128)
