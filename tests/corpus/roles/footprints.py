M, N, K = 128, 128, 64


def footprints(g):
    l = g.launch("level1", 32)
    for b in range(16):  # tiles of 32 x 32
        by, bx = divmod(b, 4)
        l.read(b, "x", by * 32 * K, (by + 1) * 32 * K)
        l.rect(l.read, b, "w", N, 0, K, bx * 32, 32)
        l.rect(l.write, b, "h", N, by * 32, 32, bx * 32, 32)
    for b in range(16):  # eight rows
        l.read(16 + b, "s", b * 8 * N, (b + 1) * 8 * N)
        l.write(16 + b, "r", b * 8 * N, (b + 1) * 8 * N)
    l = g.launch("level2", 96)
    for b in range(64):
        l.read(b, "h", b * 256, b * 256 + 256)
        l.read(b, "bias", 0, N)
        l.write(b, "y", b * 256, b * 256 + 256)
    for b in range(32):
        l.read(64 + b, "r", b * 512, b * 512 + 512)
        l.read(64 + b, "g", 0, N)
        l.write(64 + b, "z", b * 512, b * 512 + 512)
