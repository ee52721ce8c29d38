from tiles import elements, product, rows, run


def footprints(g):
    product(g, "specialised", "x", "w1", "h", 256, 256, 320, 128, 128, by_columns=True)
    l = elements(g, "bias_relu", 256 * 256, 1024, ["h"], ["g"])
    for block in range(64):
        run(l.read, block, "b", 0, 256, 4)
    product(g, "specialised-2", "g", "w2", "p", 256, 128, 256, 128, 128, by_columns=True)
    elements(g, "residual", 256 * 128, 512, ["p", "r"], ["s"])
    rows(g, "softmax", 256, 128, ["s"], ["y"])
