from tiles import elements, product


def footprints(g):
    for name, w, to in ("matmul_tma", "w1", "h"), ("matmul_tma-2", "w2", "g"):
        product(g, name, "x", w, to, 128, 256, 128, 64, 128)
    elements(g, "residual", 128 * 256, 1024, ["h", "g"], ["y"])
