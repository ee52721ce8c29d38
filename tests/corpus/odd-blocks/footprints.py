def footprints(g):
    l = g.launch("tiles", 128)
    for b in range(128):
        l.read(b, "a", b * 192, (b + 1) * 192)
        l.read(b, "b", 0, 1024)
        l.write(b, "h", b * 48, (b + 1) * 48)
    for name, source, to in (("finish", "h", "y"), ("count", "y", "c")):
        l = g.launch(name, 128)
        for b in range(128):
            l.read(b, source, b * 48, (b + 1) * 48)
            l.write(b, to, b * 48, (b + 1) * 48)
    l = g.launch("turn", 16)
    for b in range(16):
        l.read(b, "c", b * 384, (b + 1) * 384)
        l.write(b, "z", b * 384, (b + 1) * 384)
