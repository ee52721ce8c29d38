# 256 rows of 256 elements by 8 blocks, each every eighth.
def footprints(g):
    for name, x, y in ("shares", "x", "y"), ("running", "y", "z"), ("passed", "z", "w"):
        l = g.launch(name, 8)
        for b in range(8):
            for row in range(b, 256, 8):
                l.read(b, x, row * 256, row * 256 + 256)
                l.write(b, y, row * 256, row * 256 + 256)
