def footprints(g):
    l = g.launch("counted", 2)
    for b in range(2):
        l.read(b, "a", b * 32 * 256, (b + 1) * 32 * 256)
        l.read(b, "b", 0, 256 * 32)
        l.write(b, "c", b * 1024, (b + 1) * 1024)
        l.read(b, "n", b, b + 1)
        l.write(b, "n", b, b + 1)
    l = g.launch("sums", 1)
    l.read(0, "c", 0, 2048)
    l.write(0, "s", 0, 128)
