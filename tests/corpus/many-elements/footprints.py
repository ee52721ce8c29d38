T, H, F = 128, 64, 256


def gemm(g, name, a, b, c, m, n, k):
    l = g.launch(name, m // 32 * (n // 32))
    for by in range(m // 32):
        for bx in range(n // 32):
            block = by * (n // 32) + bx
            l.read(block, a, by * 32 * k, (by + 1) * 32 * k)
            l.rect(l.read, block, b, n, 0, k, bx * 32, 32)
            l.rect(l.write, block, c, n, by * 32, 32, bx * 32, 32)


def footprints(g):
    gemm(g, "up", "x", "w1", "h", T, F, H)
    l = g.launch("bias_gelu", 33)  # the last one has nothing to do
    for b in range(32):  # four rows
        l.read(b, "h", b * 1024, b * 1024 + 1024)
        l.read(b, "b1", 0, F)
        l.write(b, "u", b * 1024, b * 1024 + 1024)
    gemm(g, "down", "u", "w2", "d", T, H, F)
    l = g.launch("scale", 17)  # nor has this last one
    for b in range(16):
        l.read(b, "d", b * 512, b * 512 + 512)
        l.write(b, "e", b * 512, b * 512 + 512)
    l = g.launch("residual", 8)
    for b in range(8):
        for r in range(4):  # rounds
            at = r * 2048 + b * 256
            l.read(b, "x", at, at + 256)
            l.read(b, "e", at, at + 256)
            l.write(b, "y", at, at + 256)
