T, D, HEADS, HIDDEN = 64, 32, 4, 128


def gemm(g, name, a, b, c, m, n, k, batch=1):
    l = g.launch(name, batch * (m // 32) * (n // 32))
    for z in range(batch):
        for by in range(m // 32):
            for bx in range(n // 32):
                block = (z * (m // 32) + by) * (n // 32) + bx
                l.read(block, a, (z * m + by * 32) * k, (z * m + by * 32 + 32) * k)
                l.rect(l.read, block, b, n, z * k, k, bx * 32, 32)
                l.rect(l.write, block, c, n, z * m + by * 32, 32, bx * 32, 32)


def footprints(g):
    gemm(g, "project", "x", "w", "qk", T, 2 * HIDDEN, HIDDEN)
    l = g.launch("split", 2 * HEADS * 2)
    for z in range(2):
        for head in range(HEADS):
            for bx in range(2):
                block = (z * HEADS + head) * 2 + bx
                l.rect(l.read, block, "qk", 2 * HIDDEN, bx * 32, 32, z * HIDDEN + head * D, D)
                if z == 0:
                    l.write(block, "q", (head * T + bx * 32) * D, (head * T + bx * 32 + 32) * D)
                else:
                    l.rect(l.write, block, "kt", T, head * D, D, bx * 32, 32)
    gemm(g, "scores", "q", "kt", "s", T, T, D, HEADS)
    l = g.launch("merge", 4 * HEADS)
    for head in range(HEADS):
        for by in range(2):
            for bx in range(2):
                block = (head * 2 + by) * 2 + bx
                l.rect(l.read, block, "s", T, head * T + bx * 32, 32, by * 32, 32)
                l.rect(l.write, block, "m", HEADS * T, by * 32, 32, head * T + bx * 32, 32)
    gemm(g, "mix", "m", "w2", "y", T, T, HEADS * T)
