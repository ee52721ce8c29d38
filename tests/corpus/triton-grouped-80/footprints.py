from tiles import box, run

FIRST = [0, 48, 64, 128, 160]  # first.bin: what the tiles depend on


def footprints(g):
    l = g.launch("matmul_grouped", 6)
    for block in range(6):
        run(l.read, block, "first", 0, 5, 4)  # at addresses that nothing decides
    t = 0
    for group, (lo, hi) in enumerate(zip(FIRST, FIRST[1:])):
        for m in range(lo, hi, 32):
            for n in range(0, 128, 64):
                count = min(32, hi - m)
                box(l.read, t % 6, "x", 64, m, count, 0, 64, evidence="observed")
                box(l.read, t % 6, "w", 128, 0, 64, n, 64, base=group * 64 * 128, evidence="observed")
                box(l.write, t % 6, "h", 128, m, count, n, 64, evidence="observed")
                t += 1
    l = g.launch("silu_mul", 160)
    for row in range(160):
        run(l.read, row, "h", row * 128, 128, 2)
        run(l.write, row, "y", row * 64, 64, 2)
