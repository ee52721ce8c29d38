def footprints(g):
    l = g.launch("product", 76)
    for y in range(19):
        for x in range(4):
            b = x + 4 * y
            l.read(b, "a", y * 128 * 128, (y + 1) * 128 * 128)
            for k in range(128):
                l.read(b, "b", k * 512 + x * 128, k * 512 + x * 128 + 128)
            l.write(b, "c", b * 16384, (b + 1) * 16384)
