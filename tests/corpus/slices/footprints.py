def footprints(g):
    l = g.launch("product", 4)
    for y in range(2):
        for x in range(2):
            b = x + 2 * y
            l.read(b, "a", y * 64 * 256, (y + 1) * 64 * 256)
            for k in range(256):
                l.read(b, "b", k * 128 + x * 64, k * 128 + x * 64 + 64)
            for r in range(y * 64, y * 64 + 64):
                l.write(b, "c", r * 128 + x * 64, r * 128 + x * 64 + 64)
    l = g.launch("largest", 1)
    l.read(0, "c", 0, 128 * 128)
    l.write(0, "m", 0, 128)
