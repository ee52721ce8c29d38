def tile(add, block, buffer, y, x):
    for i in range(16):
        add(block, buffer, (y * 16 + i) * 64 + x * 16, (y * 16 + i) * 64 + x * 16 + 16)


def footprints(g):
    for name, src, dst in (("there", "x", "h"), ("back", "h", "y")):
        l = g.launch(name, 16)
        for b in range(16):
            tile(l.read, b, src, b // 4, b % 4)
            tile(l.write, b, dst, b % 4, b // 4)
    l = g.launch("halve", 64)
    for b in range(64):
        l.read(b, "y", b * 64, b * 64 + 64)
        l.write(b, "z", b * 64, b * 64 + 64)
