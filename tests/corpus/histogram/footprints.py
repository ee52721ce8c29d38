def footprints(g):
    l = g.launch("clear", 1)
    l.write(0, "bins", 0, 256)
    l = g.launch("count", 8)
    for b in range(8):
        l.read(b, "key", b * 128, b * 128 + 128)
        l.atomic(b, "bins", 0, 256, evidence="data", widened=True)
    l = g.launch("keep", 1)
    l.read(0, "bins", 0, 256)
    l.write(0, "kept", 0, 256)
    l = g.launch("double_up", 8)
    for b in range(8):
        l.read(b, "kept", b * 32, b * 32 + 32)
        l.write(b, "y", b * 32, b * 32 + 32)
