HEADS, T, D = 4, 128, 32


def footprints(g):
    l = g.launch("scores", 16 * HEADS)
    for head in range(HEADS):
        for by in range(4):
            for bx in range(4):
                block = (head * 4 + by) * 4 + bx
                l.read(block, "q", (head * T + by * 32) * D, (head * T + by * 32 + 32) * D)
                l.read(block, "k", (head * T + bx * 32) * D, (head * T + bx * 32 + 32) * D)
                l.rect(l.write, block, "s", T, head * T + by * 32, 32, bx * 32, 32)
    l = g.launch("softmax", HEADS * T // 8)
    for b in range(HEADS * T // 8):
        for row in range(b * 8, b * 8 + 8):  # of all heads
            l.read(b, "s", row * T, row * T + row % T + 1)
        l.write(b, "p", b * 8 * T, (b + 1) * 8 * T)
    l = g.launch("attend", 4 * HEADS)
    for b in range(4 * HEADS):
        l.read(b, "p", b * 32 * T, (b + 1) * 32 * T)
        l.read(b, "v", b // 4 * T * D, (b // 4 + 1) * T * D)
        l.write(b, "o", b * 32 * D, (b + 1) * 32 * D)
    l = g.launch("heavy", 4 * HEADS)
    for b in range(4 * HEADS):
        l.rect(l.read, b, "p", T, b // 4 * T, T, b % 4 * 32, 32)
        l.write(b, "acc", b * 32, b * 32 + 32)
