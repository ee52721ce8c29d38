# Elements of two bytes, in pairs: the unit is four bytes.
def footprints(g):
    for name, x, w, c, deep in ("product", "x", "w", "c", 512), ("renewed", "c", "u", "o", 256):
        l = g.launch(name, 8)
        for b in range(8):
            l.read(b, x, 0, 16 * deep)
            l.read(b, w, b * 64 * deep, (b + 1) * 64 * deep)
            for r in range(16):
                l.write(b, c, r * 256 + b * 32, r * 256 + b * 32 + 32)
                if name == "renewed":
                    l.read(b, c, r * 256 + b * 32 + 16, r * 256 + b * 32 + 32)
