from tiles import attention


def footprints(g):
    attention(g, "attention")
