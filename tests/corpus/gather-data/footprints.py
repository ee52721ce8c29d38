def footprints(g):
    l = g.launch("twice", 16)
    for b in range(16):
        l.read(b, "x", b * 64, b * 64 + 64)
        l.write(b, "h", b * 64, b * 64 + 64)
    l = g.launch("gather", 16)
    for b in range(16):
        l.read(b, "index", b * 64, b * 64 + 64)
        l.write(b, "y", b * 64, b * 64 + 64)
        l.read(b, "h", 0, 1024, evidence="data", widened=True)
