"""Footprints of kernels that many graphs have, for footprints.py: products by tiles, elements in a row, rows.

Written down from the mathematics, as the oracle's own rules want it. Sizes are of elements; `size` is an element's
bytes, of which the oracle's elements have ELEMENT. Blocks are counted x first: tile (m, n) of a product is block m + n
* tiles down, Triton's program_id(0) being m.
"""
from oracle import ELEMENT


def run(access, block, buffer, lo, n, size, **how):
    """n elements of `size` bytes from element lo on."""
    assert lo * size % ELEMENT == 0 and n * size % ELEMENT == 0
    access(block, buffer, lo * size // ELEMENT, (lo + n) * size // ELEMENT, **how)


def box(access, block, buffer, pitch, row, rows, col, cols, size=2, base=0, **how):
    """rows x cols elements of a matrix of `pitch` columns that begins at element `base`."""
    for r in range(row, row + rows):
        run(access, block, buffer, base + r * pitch + col, cols, size, **how)


def tile(l, block, a, b, c, m, n, bm, bn, N, K, size=2, by_columns=False):
    """One tile of c = a b: rows of a, columns of b (by_columns: b lies column by column), a box of c (2 bytes)."""
    box(l.read, block, a, K, m, bm, 0, K, size)
    if by_columns:
        box(l.read, block, b, K, n, bn, 0, K, size)
    else:
        box(l.read, block, b, N, 0, K, n, bn, size)
    box(l.write, block, c, N, m, bm, n, bn)


def product(g, name, a, b, c, M, N, K, bm, bn, **how):
    l = g.launch(name, M // bm * (N // bn))
    for n in range(N // bn):
        for m in range(M // bm):
            tile(l, m + n * (M // bm), a, b, c, m * bm, n * bn, bm, bn, N, K, **how)
    return l


def elements(g, name, n, block, reads, writes, size=2):
    """Block i does elements block * i and so on, up to n."""
    l = g.launch(name, -(-n // block))
    for i in range(-(-n // block)):
        for access, buffers in ((l.read, reads), (l.write, writes)):
            for buffer in buffers:
                run(access, i, buffer, i * block, min(block, n - i * block), size)
    return l


def rows(g, name, count, N, reads, writes, whole=(), size=2):
    """Block i does row i; `whole`: vectors of N f32 that all of them read."""
    l = g.launch(name, count)
    for i in range(count):
        for access, buffers in ((l.read, reads), (l.write, writes)):
            for buffer in buffers:
                run(access, i, buffer, i * N, N, size)
        for buffer in whole:
            run(l.read, i, buffer, 0, N, 4)
    return l


def rotary(g, name, x, y):
    l = g.launch(name, 256)
    for head in range(2):
        for row in range(128):
            block = row + 128 * head
            run(l.read, block, x, row * 128 + head * 64, 64, 2)
            run(l.read, block, "cos", row * 32, 32, 4)
            run(l.read, block, "sin", row * 32, 32, 4)
            run(l.write, block, y, row * 128 + head * 64, 64, 2)


def attention(g, launch):
    """Rotary positions, causal attention of two heads of 64 over 128 rows by tiles of 64, and the product behind it;
    `launch`: the attention's name."""
    rotary(g, "rotary", "q", "q1")
    rotary(g, "rotary-2", "k", "k1")
    l = g.launch(launch, 4)
    for head in range(2):
        for m in range(2):  # causal: keys and values up to the tile's last row
            block, col = m + 2 * head, head * 64
            box(l.read, block, "q1", 128, m * 64, 64, col, 64)
            box(l.read, block, "k1", 128, 0, m * 64 + 64, col, 64)
            box(l.read, block, "v", 128, 0, m * 64 + 64, col, 64)
            box(l.write, block, "o", 128, m * 64, 64, col, 64)
    product(g, "matmul", "o", "w", "y", 128, 128, 128, 64, 64)
