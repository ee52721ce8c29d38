T, H, N = 128, 128, 256


def footprints(g):
    l = g.launch("layer_norm", T // 4)
    for b in range(T // 4):
        l.read(b, "x", b * 4 * H, (b + 1) * 4 * H)
        l.read(b, "gamma", 0, H)
        l.read(b, "beta", 0, H)
        l.write(b, "n", b * 4 * H, (b + 1) * 4 * H)
    l = g.launch("gemm", 16)
    for b in range(16):
        by, bx = divmod(b, 4)
        l.read(b, "n", by * 32 * H, (by + 1) * 32 * H)
        l.rect(l.read, b, "w", N, 0, H, bx * 64, 64)
        l.read(b, "b", bx * 64, bx * 64 + 64)
        l.rect(l.write, b, "y", N, by * 32, 32, bx * 64, 64)
