from tiles import elements, product, run


def footprints(g):
    product(g, "matmul_fp8", "x", "w", "h", 128, 128, 128, 64, 64, size=1, by_columns=True)
    l = elements(g, "bias_gelu", 128 * 128, 1024, ["h"], ["y"])
    for i in range(16):  # eight rows of 128 columns
        run(l.read, i, "b", 0, 128, 4)
