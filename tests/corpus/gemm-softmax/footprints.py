M, N, K = 256, 128, 64


def footprints(g):
    l = g.launch("gemm", 32)
    for by in range(16):
        for bx in range(2):
            block = by * 2 + bx
            l.read(block, "a", by * 16 * K, (by + 1) * 16 * K)
            l.rect(l.read, block, "b", N, 0, K, bx * 64, 64)
            l.rect(l.write, block, "s", N, by * 16, 16, bx * 64, 64)
    l = g.launch("softmax", 64)
    for b in range(64):  # four rows
        l.read(b, "s", b * 4 * N, (b + 1) * 4 * N)
        l.write(b, "p", b * 4 * N, (b + 1) * 4 * N)
