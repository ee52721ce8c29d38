from tiles import elements, product


def footprints(g):
    product(g, "matmul", "x", "w1", "h", 128, 256, 128, 64, 64)
    elements(g, "gelu", 128 * 256, 1024, ["h"], ["g"])
    product(g, "matmul-2", "g", "w2", "p", 128, 128, 256, 64, 64)
    elements(g, "residual", 128 * 128, 1024, ["p", "x"], ["y"])
