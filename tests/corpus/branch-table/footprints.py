def footprints(g):
    l = g.launch("merged", 80)
    for b in range(80):
        role, at = divmod(b, 16)
        l.read(b, "x%d" % role, at * 256, at * 256 + 256)
        l.write(b, "y%d" % role, at * 256, at * 256 + 256)
    for k in range(2):
        l = g.launch("after%d" % k, 16)
        for b in range(16):
            l.read(b, "y%d" % k, b * 256, b * 256 + 256)
            l.write(b, "z%d" % k, b * 256, b * 256 + 256)
