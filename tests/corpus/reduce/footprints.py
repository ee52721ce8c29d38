def footprints(g):
    l = g.launch("partial", 64)
    for b in range(64):
        l.read(b, "x", b * 128, b * 128 + 128)
        l.write(b, "part", b, b + 1)
    l = g.launch("total", 1)
    l.read(0, "part", 0, 64)
    l.write(0, "sum", 0, 1)
    l = g.launch("divide", 32)
    for b in range(32):
        l.read(b, "x", b * 256, b * 256 + 256)
        l.read(b, "sum", 0, 1)
        l.write(b, "y", b * 256, b * 256 + 256)
