def footprints(g):
    l = g.launch("twice", 16)
    for b in range(16):
        l.read(b, "x", b * 64, b * 64 + 64)
        l.write(b, "h", b * 64, b * 64 + 64)
    l = g.launch("where", 16)
    for b in range(16):
        l.read(b, "mask", b * 64, b * 64 + 64)
        l.read(b, "x", b * 64, b * 64 + 64, evidence="data")  # may-read: counts at its own address
        l.write(b, "h", b * 64, b * 64 + 64, evidence="data", may=True)
    l = g.launch("copy", 16)
    for b in range(16):
        l.read(b, "h", b * 64, b * 64 + 64)
        l.write(b, "y", b * 64, b * 64 + 64)
