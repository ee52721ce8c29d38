# Elements of two bytes, in pairs: the unit is four bytes.
def footprints(g):
    for name, x, w, c in ("product", "x", "w", "c"), ("renewed", "c", "u", "o"):
        l = g.launch(name, 16)
        for b in range(16):
            l.read(b, x, 0, 16 * 512)
            l.read(b, w, b * 64 * 512, (b + 1) * 64 * 512)
            for r in range(16):
                l.write(b, c, r * 512 + b * 32, r * 512 + b * 32 + 32)
                if name == "renewed":
                    l.read(b, c, r * 512 + b * 32 + 16, r * 512 + b * 32 + 32)
