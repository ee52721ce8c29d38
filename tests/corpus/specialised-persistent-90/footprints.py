from tiles import elements, run, tile


def persistent(g, name, a, b, c, M, N, K):
    """Tiles of 128 x 64, two down, in columns; block p of three does tiles p, p + 3, …"""
    l = g.launch(name, 3)
    for t in range(M // 128 * (N // 64)):
        tile(l, t % 3, a, b, c, t % 2 * 128, t // 2 * 64, 128, 64, N, K, by_columns=True)


def footprints(g):
    persistent(g, "specialised", "x", "w1", "h", 256, 320, 192)
    l = elements(g, "bias_relu", 256 * 320, 1024, ["h"], ["g"])
    for block in range(80):
        run(l.read, block, "b", 0, 320, 4)
    persistent(g, "specialised-2", "g", "w2", "p", 256, 128, 320)
    elements(g, "residual", 256 * 128, 512, ["p", "r"], ["y"])
    l = g.launch("row_sum", 256)
    for row in range(256):
        run(l.read, row, "y", row * 128, 128, 2)
        run(l.write, row, "s", row, 1, 4)
