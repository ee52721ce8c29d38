from tiles import rows, tile


def persistent(g, name, blocks, a, b, c, M, N, K, bm, bn, group):
    """Tiles of `group` rows of tiles together go down first: with 3 x 4 tiles in groups of 2, tile 0 is (0, 0), tile 1
    (1, 0), tile 2 (0, 1), …, tile 8 (2, 0). Block p does every tile t of t % blocks == p."""
    order = [(m, n) for first in range(0, M // bm, group) for n in range(N // bn)
             for m in range(first, min(first + group, M // bm))]
    l = g.launch(name, blocks)
    for t, (m, n) in enumerate(order):
        tile(l, t % blocks, a, b, c, m * bm, n * bn, bm, bn, N, K)


def footprints(g):
    persistent(g, "matmul_persistent", 5, "x", "w1", "h", 192, 256, 128, 64, 64, 2)
    rows(g, "add_rms_norm", 192, 256, ["h", "r"], ["s", "n"], ["w"])
    persistent(g, "matmul_persistent-2", 3, "n", "w2", "y", 192, 256, 256, 64, 128, 2)
