# Operands of two bytes, in pairs: the unit is four bytes.
def footprints(g):
    l = g.launch("product", 16)
    for b in range(16):
        l.read(b, "x", 0, 128 * 256)
        l.read(b, "w", b * 16 * 256, (b + 1) * 16 * 256)
        for r in range(128):
            l.write(b, "c", r * 256 + b * 16, r * 256 + b * 16 + 16)
