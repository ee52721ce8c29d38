from tiles import box, elements, run


def tile(l, block, a, b, c, m, n, bn, N, K):
    """A tile of 64 rows, of which there are 200: the last one has eight."""
    rows = min(64, 200 - m)
    box(l.read, block, a, K, m, rows, 0, K)
    box(l.read, block, b, N, 0, K, n, bn)
    box(l.write, block, c, N, m, rows, n, bn)


def footprints(g):
    # two rows of tiles together go down first: tile 0 is (0, 0), 1 (1, 0), 2 (0, 1), …, 8 (2, 0); block p: p, p + 5 …
    l = g.launch("matmul_persistent", 5)
    for t, (m, n) in enumerate((m, n) for first in (0, 2) for n in range(4) for m in (first, first + 1)):
        tile(l, t % 5, "x", "w1", "h", m * 64, n * 64, 64, 256, 128)
    l = elements(g, "bias_relu", 200 * 256, 1024, ["h"], ["g"])
    for block in range(50):
        run(l.read, block, "b", 0, 256, 4)
    l = g.launch("matmul_tma", 8)
    for m in range(4):
        for n in range(2):
            tile(l, m + 4 * n, "g", "w2", "p", m * 64, n * 128, 128, 256, 256)
    elements(g, "residual", 200 * 256, 1024, ["p", "r"], ["y"])
