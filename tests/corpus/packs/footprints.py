def footprints(g):
    l = g.launch("sums", 10007)
    for b in range(10007):
        l.read(b, "x", b % 64 * 64, b % 64 * 64 + 64)
        l.write(b, "y", b, b + 1)
    l = g.launch("some", 1)
    for t in range(128):
        l.read(0, "y", t * 78, t * 78 + 1)
    l.write(0, "z", 0, 128)
