from tiles import elements, product, run


def footprints(g):
    product(g, "matmul_loads", "x", "w", "h", 512, 512, 64, 64, 64)
    l = elements(g, "bias_relu", 512 * 512, 1024, ["h"], ["y"])
    for i in range(256):  # two rows of 512 columns
        run(l.read, i, "b", 0, 512, 4)
