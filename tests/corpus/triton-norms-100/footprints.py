from tiles import elements, rows


def footprints(g):
    rows(g, "add_rms_norm", 64, 200, ["x", "r"], ["s", "n1"], ["w"])
    elements(g, "gelu", 12800, 512, ["n1"], ["g"])
    rows(g, "layer_norm", 64, 200, ["g"], ["n2"], ["w2", "b2"])
    rows(g, "softmax", 64, 200, ["n2"], ["y"])
