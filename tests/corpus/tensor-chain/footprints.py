# The oracle's elements are 4 bytes: two halves. So all columns, pitches and inner dimensions of rows are half of what
# the kernels have.
M = 128


def gemm(g, name, a, b, c, n, k):
    l = g.launch(name, M // 32 * (n // 32))
    for by in range(M // 32):
        for bx in range(n // 32):
            block = by * (n // 32) + bx
            l.read(block, a, by * 32 * k // 2, (by + 1) * 32 * k // 2)
            l.rect(l.read, block, b, n // 2, 0, k, bx * 16, 16)
            l.rect(l.write, block, c, n // 2, by * 32, 32, bx * 16, 16)


def footprints(g):
    gemm(g, "first", "a", "b", "h", 128, 64)
    l = g.launch("relu", 32)
    for b in range(32):
        l.read(b, "h", b * 256, b * 256 + 256)
        l.write(b, "r", b * 256, b * 256 + 256)
    gemm(g, "second", "r", "c", "y", 64, 128)
