M, N, K = 128, 128, 64


def footprints(g):
    l = g.launch("prologue", M * K // 256)
    for b in range(M * K // 256):
        l.read(b, "x", b * 256, b * 256 + 256)
        l.read(b, "g", 0, K)
        l.read(b, "b", 0, K)
        l.write(b, "xs", b * 256, b * 256 + 256)
    l = g.launch("gemm", 16)
    for b in range(16):
        by, bx = divmod(b, 4)
        l.read(b, "xs", by * 32 * K, (by + 1) * 32 * K)
        l.rect(l.read, b, "w", N, 0, K, bx * 32, 32)
        l.rect(l.write, b, "c", N, by * 32, 32, bx * 32, 32)
    l = g.launch("epilogue", M * N // 256)
    for b in range(M * N // 256):  # two rows of c, two columns of y
        l.read(b, "c", b * 256, b * 256 + 256)
        l.read(b, "bias", 0, N)
        l.rect(l.write, b, "y", M, 0, N, b * 2, 2)
