BATCH, R, C, D = 8, 32, 64, 32


def footprints(g):
    for name, source, target in (("row_max", "x", "m"), ("shift_exp", "m", "e"), ("row_sum", "e", "s"),
                                 ("divide", "s", "p")):
        if name in ("row_max", "row_sum"):  # eight rows a block
            l = g.launch(name, BATCH * R // 8)
            for b in range(BATCH * R // 8):
                l.read(b, source, b * 8 * C, (b + 1) * 8 * C)
                l.write(b, target, b * 8, b * 8 + 8)
        else:  # four rows a block
            l = g.launch(name, BATCH * R // 4)
            for b in range(BATCH * R // 4):
                l.read(b, "x" if name == "shift_exp" else "e", b * 256, b * 256 + 256)
                l.read(b, source, b * 4, b * 4 + 4)
                l.write(b, target, b * 256, b * 256 + 256)
    l = g.launch("dot", BATCH * 2)
    for b in range(BATCH * 2):  # half of a batch
        l.read(b, "p", b * 16 * C, (b + 1) * 16 * C)
        l.read(b, "v", b // 2 * C * D, (b // 2 + 1) * C * D)
        l.write(b, "o", b * 16 * D, (b + 1) * 16 * D)
