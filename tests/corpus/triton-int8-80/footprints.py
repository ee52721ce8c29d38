from tiles import elements, product, run


def footprints(g):
    l = product(g, "matmul_int8", "x", "w", "h", 128, 128, 128, 64, 64, size=1, by_columns=True)
    for n in range(2):
        for m in range(2):
            run(l.read, m + 2 * n, "sx", m * 64, 64, 4)
            run(l.read, m + 2 * n, "sw", n * 64, 64, 4)
    elements(g, "gelu", 128 * 128, 1024, ["h"], ["y"])
