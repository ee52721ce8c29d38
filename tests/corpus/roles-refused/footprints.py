def footprints(g):
    l = g.launch("exchange", 16)
    for b in range(16):
        l.read(b, "x", b * 128, b * 128 + 128)
        if b < 8:
            l.write(b, "h", b * 128, b * 128 + 128)
        else:
            l.write(b, "z", (b - 8) * 128, (b - 8) * 128 + 128)
        l.read(b, "flag", b % 8, b % 8 + 1)
        l.write(b, "flag", b % 8, b % 8 + 1)
    l = g.launch("twice", 8)
    for b in range(8):
        l.read(b, "h", b * 128, b * 128 + 128)
        l.write(b, "y", b * 128, b * 128 + 128)
