def footprints(g):
    l = g.launch("turned", 10000)
    for b in range(10000):
        l.read(b, "x", b % 64 * 48, b % 64 * 48 + 48)
        l.write(b, "y", 2 * b, 2 * b + 2)
    l = g.launch("some", 1)
    for t in range(128):
        l.read(0, "y", t * 78, t * 78 + 1)
    l.write(0, "z", 0, 128)
