"""Who touches what in the encoder layer, from its mathematics (encoder.cu's head names the stages)."""
T, H, HEADS, HEAD, F = 128, 256, 4, 64, 1024


def rect(add, block, buffer, pitch, row, rows, col, cols, base=0):
    for r in range(row, row + rows):
        add(block, buffer, base + r * pitch + col, base + r * pitch + col + cols)


def gemm(g, name, a, b, c, m, n, k):
    l = g.launch(name, m // 32 * (n // 32))
    for y in range(m // 32):
        for x in range(n // 32):
            block = y * (n // 32) + x
            l.read(block, a, y * 32 * k, (y + 1) * 32 * k)
            rect(l.read, block, b, n, 0, k, x * 32, 32)
            rect(l.write, block, c, n, y * 32, 32, x * 32, 32)


def pointwise(g, name, threads, total, reads, writes, bias=None, period=0):
    l = g.launch(name, total // threads)
    for b in range(total // threads):
        lo, hi = b * threads, (b + 1) * threads
        for buffer in reads:
            l.read(b, buffer, lo, hi)
        if bias:
            l.read(b, bias, lo % period, lo % period + threads)
        l.write(b, writes, lo, hi)


def norm(g, name, rows, src, gamma, beta, dst):
    l = g.launch(name, T // rows)
    for b in range(T // rows):
        l.read(b, src, b * rows * H, (b + 1) * rows * H)
        l.read(b, gamma, 0, H)
        l.read(b, beta, 0, H)
        l.write(b, dst, b * rows * H, (b + 1) * rows * H)


def footprints(g):
    gemm(g, "qkv_gemm", "x", "wqkv", "qkv", T, 3 * H, H)

    l = g.launch("qkv_bias_split", 384)
    for b in range(384):  # a block is one of q, k, v of one token
        token, part = divmod(b, 3)
        l.read(b, "qkv", b * 256, b * 256 + 256)
        l.read(b, "bqkv", part * 256, part * 256 + 256)
        for head in range(HEADS):
            at = (head * T + token) * HEAD
            l.write(b, "qkv"[part], at, at + HEAD)

    l = g.launch("scores", 64)
    for head in range(HEADS):
        for y in range(4):
            for x in range(4):
                b = (head * 4 + y) * 4 + x
                l.read(b, "q", (head * T + y * 32) * HEAD, (head * T + y * 32 + 32) * HEAD)
                l.read(b, "k", (head * T + x * 32) * HEAD, (head * T + x * 32 + 32) * HEAD)
                rect(l.write, b, "s", T, y * 32, 32, x * 32, 32, head * T * T)

    pointwise(g, "scale", 256, HEADS * T * T, ["s"], "t")
    pointwise(g, "position_bias", 128, HEADS * T * T, ["t"], "a", "pos", T * T)

    l = g.launch("softmax", 512)
    for b in range(512):
        l.read(b, "a", b * T, b * T + T)
        l.write(b, "p", b * T, b * T + T)

    l = g.launch("context", 32)
    for head in range(HEADS):
        for y in range(4):
            for x in range(2):
                b = (head * 4 + y) * 2 + x
                l.read(b, "p", (head * T + y * 32) * T, (head * T + y * 32 + 32) * T)
                rect(l.read, b, "v", HEAD, 0, T, x * 32, 32, head * T * HEAD)
                rect(l.write, b, "o", H, y * 32, 32, head * HEAD + x * 32, 32)

    gemm(g, "proj_gemm", "o", "wo", "r", T, H, H)
    pointwise(g, "proj_bias_residual", 256, T * H, ["r", "x"], "h", "bo", H)
    norm(g, "layernorm_rows", 1, "h", "g1", "b1", "n")
    gemm(g, "ffn1_gemm", "n", "w1", "f", T, F, H)
    pointwise(g, "ffn1_bias", 256, T * F, ["f"], "g", "c1", F)
    pointwise(g, "gelu", 256, T * F, ["g"], "u")
    gemm(g, "ffn2_gemm", "u", "w2", "m", T, H, F)
    pointwise(g, "ffn2_bias", 128, T * H, ["m"], "z", "c2", H)
    pointwise(g, "residual", 256, T * H, ["z", "n"], "y")
    norm(g, "layernorm_warps", 4, "y", "g2", "b2", "out")
