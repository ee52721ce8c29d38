from tiles import box, elements, run


def shared(g, name, a, b, c, N, K):
    """Tiles of 128 x 64, two down, which are a cluster: each block loads its 128 rows of a, and half of the tile's 64
    rows of b, for both."""
    l = g.launch(name, 2 * (N // 64))
    for block in range(2 * (N // 64)):
        m, n = block % 2, block // 2 * 64
        box(l.read, block, a, K, m * 128, 128, 0, K)
        box(l.read, block, b, K, n + m * 32, 32, 0, K)
        box(l.write, block, c, N, m * 128, 128, n, 64)


def footprints(g):
    shared(g, "specialised", "x", "w1", "h", 128, 384)
    l = elements(g, "bias_relu", 256 * 128, 1024, ["h"], ["g"])
    for block in range(32):
        run(l.read, block, "b", 0, 128, 4)
    shared(g, "specialised-2", "g", "w2", "p", 64, 128)
    elements(g, "residual", 256 * 64, 512, ["p", "r"], ["y"])
    l = g.launch("row_sum", 256)
    for row in range(256):
        run(l.read, row, "y", row * 64, 64, 2)
        run(l.write, row, "s", row, 1, 4)
