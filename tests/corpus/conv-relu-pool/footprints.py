C, O, P, Q = 16, 16, 32, 16


def footprints(g):
    l = g.launch("conv", 4 * O)
    for o in range(O):
        for by in range(2):
            for bx in range(2):
                block = (o * 2 + by) * 2 + bx
                top, bottom = max(0, by * 16 - 1), min(P, by * 16 + 17)
                left, right = max(0, bx * 16 - 1), min(P, bx * 16 + 17)
                for c in range(C):
                    l.rect(l.read, block, "x", P, c * P + top, bottom - top, left, right - left)
                l.read(block, "w", o * C * 9, (o + 1) * C * 9)
                l.rect(l.write, block, "y", P, o * P + by * 16, 16, bx * 16, 16)
    l = g.launch("relu", 64)
    for b in range(64):  # eight rows of a channel
        l.read(b, "y", b * 256, b * 256 + 256)
        l.write(b, "z", b * 256, b * 256 + 256)
    l = g.launch("pool", 4 * O)
    for o in range(O):
        for by in range(2):
            for bx in range(2):
                block = (o * 2 + by) * 2 + bx
                top, left = max(0, by * 16 - 1), max(0, bx * 16 - 1)
                l.rect(l.read, block, "z", P, o * P + top, by * 16 + 16 - top, left, bx * 16 + 16 - left)
                l.rect(l.write, block, "out", Q, o * Q + by * 8, 8, bx * 8, 8)
