from tiles import elements, product, run


def footprints(g):
    product(g, "multistage", "x", "w1", "h", 128, 256, 128, 64, 64, by_columns=True)
    l = elements(g, "bias_relu", 128 * 256, 1024, ["h"], ["g"])
    for block in range(32):
        run(l.read, block, "b", 0, 256, 4)
    product(g, "multistage-2", "g", "w2", "p", 128, 128, 256, 64, 64, by_columns=True)
    elements(g, "residual", 128 * 128, 512, ["p", "r"], ["y"])
    l = g.launch("row_sum", 128)
    for row in range(128):
        run(l.read, row, "y", row * 128, 128, 2)
        run(l.write, row, "s", row, 1, 4)
