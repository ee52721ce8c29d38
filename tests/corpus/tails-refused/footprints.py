def footprints(g):
    l = g.launch("product", 152)
    for y in range(19):
        for x in range(8):
            b = x + 8 * y
            l.read(b, "a", y * 128 * 32, (y + 1) * 128 * 32)
            for k in range(32):
                l.read(b, "b", k * 1024 + x * 128, k * 1024 + x * 128 + 128)
            l.write(b, "c", b * 16384, (b + 1) * 16384)
            l.atomic(b, "n", y, y + 1)
