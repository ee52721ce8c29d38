from tiles import elements, product, run


def footprints(g):
    product(g, "matmul_tma", "x", "w1", "h", 128, 256, 128, 64, 128)
    l = elements(g, "bias_gelu", 128 * 256, 1024, ["h"], ["g"])
    for i in range(32):  # 1024 elements have all of 256 columns
        run(l.read, i, "b", 0, 256, 4)
    product(g, "matmul", "g", "w2", "p", 128, 128, 256, 64, 64)
    elements(g, "residual", 128 * 128, 1024, ["p", "x"], ["y"])
