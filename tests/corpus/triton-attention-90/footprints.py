from tiles import box, product, run


def rotary(g, name, x, y):
    l = g.launch(name, 256)
    for head in range(2):
        for row in range(128):
            block = row + 128 * head
            run(l.read, block, x, row * 128 + head * 64, 64, 2)
            run(l.read, block, "cos", row * 32, 32, 4)
            run(l.read, block, "sin", row * 32, 32, 4)
            run(l.write, block, y, row * 128 + head * 64, 64, 2)


def footprints(g):
    rotary(g, "rotary", "q", "q1")
    rotary(g, "rotary-2", "k", "k1")
    l = g.launch("attention_tma", 4)
    for head in range(2):
        for m in range(2):  # causal: keys and values up to the tile's last row
            block, col = m + 2 * head, head * 64
            box(l.read, block, "q1", 128, m * 64, 64, col, 64)
            box(l.read, block, "k1", 128, 0, m * 64 + 64, col, 64)
            box(l.read, block, "v", 128, 0, m * 64 + 64, col, 64)
            box(l.write, block, "o", 128, m * 64, 64, col, 64)
    product(g, "matmul", "o", "w", "y", 128, 128, 128, 64, 64)
