D = 64
# rows of a tile, first token, tokens, inner
EXPERTS = [(16, 0, 64, 128), (16, 64, 16, 64), (8, 80, 40, 96), (8, 120, 8, 32)]


def gemm(g, name, tile, a, a0, b, c, c0, m, n, k):
    l = g.launch(name, m // tile * (n // 16))
    for by in range(m // tile):
        for bx in range(n // 16):
            block = by * (n // 16) + bx
            l.read(block, a, a0 + by * tile * k, a0 + (by + 1) * tile * k)
            l.rect(l.read, block, b, n, 0, k, bx * 16, 16)
            l.rect(l.write, block, c, n, c0 // n + by * tile, tile, bx * 16, 16)


def footprints(g):
    for e, (tile, first, m, inner) in enumerate(EXPERTS):
        gemm(g, "up%d" % e, tile, "x", first * D, "w1_%d" % e, "h%d" % e, 0, m, inner, D)
    for e, (tile, first, m, inner) in enumerate(EXPERTS):
        gemm(g, "down%d" % e, tile, "h%d" % e, 0, "w2_%d" % e, "z", first * D, m, D, inner)
    l = g.launch("combine", 32)
    for b in range(32):  # four tokens
        l.read(b, "z", b * 256, b * 256 + 256)
        l.read(b, "gate", b * 4, b * 4 + 4)
        l.write(b, "y", b * 256, b * 256 + 256)
