def gemm(g, name, a, b, c, m, n, k):
    l = g.launch(name, m // 16 * (n // 16))
    for by in range(m // 16):
        for bx in range(n // 16):
            block = by * (n // 16) + bx
            l.read(block, a, by * 16 * k, (by + 1) * 16 * k)
            for i in range(k):
                l.read(block, b, i * n + bx * 16, i * n + bx * 16 + 16)
            for i in range(by * 16, by * 16 + 16):
                l.write(block, c, i * n + bx * 16, i * n + bx * 16 + 16)


def footprints(g):
    gemm(g, "gemm1", "x", "w1", "h", 64, 128, 64)
    l = g.launch("bias", 32)
    for b in range(32):
        l.read(b, "h", b * 256, b * 256 + 256)
        l.read(b, "b1", 0, 128)
        l.write(b, "g", b * 256, b * 256 + 256)
    l = g.launch("gelu", 64)
    for b in range(64):
        l.read(b, "g", b * 128, b * 128 + 128)
        l.write(b, "u", b * 128, b * 128 + 128)
    gemm(g, "gemm2", "u", "w2", "y", 64, 64, 128)
