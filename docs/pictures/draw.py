#!/usr/bin/env python3
"""The pictures of docs/REWRITES.md: a small SVG for each rewrite, before on the left and after on the right.

PICTURES below is what they show: rows (an SM, a warp, a buffer) with boxes from left to right in time. The files beside
this script are what it writes; `draw.py --check` says which differ (the test e2e-docs runs it). Colours are readable on
light and dark ground; text follows the reader's scheme. Not drawn to scale, and of no measurement: docs/RESULTS.md has
figures.
"""
import html
import os
import sys

STYLE = """<style>
text { font: 12px sans-serif; fill: #24292f; } .small { font-size: 10px; } .in { fill: #fff; text-anchor: middle; }
.a { fill: #b3541e; } .b { fill: #2a63b0; } .c { fill: #2e7d4f; } .m { fill: #7a4fa3; } .d { fill: #5c636e; }
.gap { fill: none; stroke: #8a8f98; stroke-dasharray: 3 3; }
.why { fill: #57606a; text-anchor: middle; }
.idle { fill: #8a8f98; fill-opacity: .16; } .line { stroke: #8a8f98; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .in { fill: #fff; } .why { fill: #9aa4af; } }
</style>
"""
UNIT, ROW, LEFT, PANEL = 22, 24, 62, 318

# name: (what it shows, for who does not see it; rows before; rows after). A row: its name, boxes. A box: its class
# (a, b, c: blocks of launches; m: memory, or a barrier; d: for nothing; idle; gap: between launches), width, text.
GAP = ("gap", 1.2, "")


def sm(number, *boxes):
    return (f"SM {number}", boxes)


PICTURES = {
    "calls": (
        "A call of a function stands in the kernel's text; afterwards the function's text stands there, and the kernel "
        "is pointwise.",
        [("kernel", (("a", 2, "ld x"), ("gap", 3.5, "call f"), ("a", 2, "st y"))),
         ("f", (("idle", 2.4, ""), ("b", 3, "tanh …")))],
        [("kernel", (("a", 2, "ld x"), ("b", 3, "tanh …"), ("a", 2, "st y")))]),
    "versions": (
        "Two uses of one piece of a pool are ordered, since the second overwrites what the first one's reader reads; "
        "as two buffers they run side by side.",
        [("pool", (("a", 2, "A: h"), ("b", 2, "reads h"), ("c", 2, "C: g"), ("m", 2, "reads g")))],
        [("h", (("a", 2, "A: h"), ("b", 2, "reads h"))), ("g", (("c", 2, "C: g"), ("m", 2, "reads g")))]),
    "copies": (
        "A launch copies x to t and the next one reads t; afterwards the next one reads x.",
        [("launches", (("m", 3, "copy x to t"), GAP, ("b", 3, "B reads t")))],
        [("launches", (("b", 3, "B reads x"),))]),
    "roles": (
        "One launch has blocks of A and of B, and C and D wait for all of it; afterwards C stands in A's blocks, D in "
        "B's, side by side.",
        [sm(0, ("a", 4, "A"), GAP, ("c", 2, "C")), sm(1, ("a", 4, "A"), GAP, ("c", 2, "C")),
         *(sm(k, ("b", 2, "B"), ("idle", 2, ""), GAP, ("c", 2, "D")) for k in (2, 3))],
        [sm(0, ("a", 4, "A"), ("c", 1, "C")), sm(1, ("a", 4, "A"), ("c", 1, "C")), sm(2, ("b", 2, "B"), ("c", 1, "D")),
         sm(3, ("b", 2, "B"), ("c", 1, "D"))]),
    "narrow-blocks": (
        "One block of four warps on one SM, three SMs idle; afterwards a block of one warp on each of the four SMs.",
        [sm(0, ("a", 8, "A0: warps 0 to 3")), sm(1, ("idle", 8, "")), sm(2, ("idle", 8, "")), sm(3, ("idle", 8, ""))],
        [sm(k, ("a", 3, f"warp {k}")) for k in range(4)]),
    "slice": (
        "Two long blocks on two of four SMs; afterwards each is two blocks, one with each half of its stores, on four "
        "SMs. A half takes more than half of the time.",
        [sm(0, ("a", 8, "A0")), sm(1, ("a", 8, "A1")), sm(2, ("idle", 8, "")), sm(3, ("idle", 8, ""))],
        [sm(0, ("a", 5, "A0, rows 0 2 …")), sm(1, ("a", 5, "A1, rows 0 2 …")), sm(2, ("a", 5, "A0, rows 1 3 …")),
         sm(3, ("a", 5, "A1, rows 1 3 …"))]),
    "pack": (
        "Blocks of a warp are handed out one after the other; afterwards four of them stand side by side in one block, "
        "which is handed out once.",
        [(f"warp {k}", (("gap", .9 * (k + 1), ""), ("a", 2, str(k)), ("gap", 1.6, ""), ("a", 2, str(k + 4))))
         for k in range(4)],
        [(f"warp {k}", (("gap", .9, ""), ("a", 2, str(k)), ("a", 2, str(k + 4)))) for k in range(4)]),
    "tails": (
        "Four SMs run four blocks, then one SM runs the fifth alone; afterwards the fifth is in four parts, one on "
        "each SM.",
        [sm(0, ("a", 4, "A0"), ("a", 4, "A4")), *[sm(k, ("a", 4, f"A{k}"), ("idle", 4, "")) for k in (1, 2, 3)]],
        [sm(k, ("a", 4, f"A{k}"), ("a", 1.8, "A4 ¼")) for k in range(4)]),
    "register": (
        "A product stores h, a pointwise launch loads it; afterwards the pointwise text stands where the "
        "product stores, and h is in no memory.",
        [sm(0, ("a", 3.4, "A0"), ("m", 1.2, "h"), GAP, ("m", 1.2, "h"), ("b", 1.6, "B0")),
         sm(1, ("a", 3.4, "A1"), ("m", 1.2, "h"), GAP, ("m", 1.2, "h"), ("b", 1.6, "B1"))],
        [sm(0, ("a", 3.4, "A0"), ("b", 1.6, "B0")), sm(1, ("a", 3.4, "A1"), ("b", 1.6, "B1"))]),
    "block-fusion": (
        "Blocks 0 and 1 of A feed block 0 of B, and 2 and 3 feed 1; afterwards a block runs each group, a "
        "barrier between, and keeps what passes in shared memory.",
        [sm(0, ("a", 2.4, "A0"), GAP, ("b", 2.4, "B0")), sm(1, ("a", 2.4, "A1"), GAP, ("b", 2.4, "B1")),
         sm(2, ("a", 2.4, "A2"), GAP, ("idle", 2.4, "")), sm(3, ("a", 2.4, "A3"), GAP, ("idle", 2.4, ""))],
        [sm(0, ("a", 2, "A0"), ("a", 2, "A1"), ("m", .4, ""), ("b", 2, "B0")),
         sm(1, ("a", 2, "A2"), ("a", 2, "A3"), ("m", .4, ""), ("b", 2, "B1"))]),
    "abreast": (
        "In a fused block the producers follow each other; afterwards they run side by side in more threads.",
        [("warps 0…", (("a", 2, "A0"), ("a", 2, "A1"), ("m", .4, ""), ("b", 2, "B0")))],
        [("warps 0…", (("a", 2, "A0"), ("m", .4, ""), ("b", 2, "B0"))),
         ("warps 4…", (("a", 2, "A1"), ("m", .4, "")))]),
    "surplus": (
        "A block of 48 threads is a warp and a half; in a fused block its second warp is filled up by lanes that do as "
        "thread 47 does and store nothing.",
        [("warp 0", (("a", 6, "threads 0 to 31"),)), ("warp 1", (("a", 3, "32 to 47"),))],
        [("warp 0", (("a", 6, "threads 0 to 31"),)), ("warp 1", (("a", 3, "32 to 47"), ("d", 3, "as 47")))]),
    "cluster": (
        "One block that runs four blocks of A and two of B keeps one SM busy; in a cluster of two blocks each SM runs "
        "half of both, with a barrier of the cluster between.",
        [sm(0, ("a", 1.5, "A0"), ("a", 1.5, "A1"), ("a", 1.5, "A2"), ("a", 1.5, "A3"), ("m", .4, ""), ("b", 1.5, "B0"),
            ("b", 1.5, "B1")), sm(1, ("idle", 9.4, ""))],
        [sm(0, ("a", 1.5, "A0"), ("a", 1.5, "A1"), ("m", .8, ""), ("b", 1.5, "B0")),
         sm(1, ("a", 1.5, "A2"), ("a", 1.5, "A3"), ("m", .8, ""), ("b", 1.5, "B1"))]),
    "parallel-fusion": (
        "Two launches that do not need each other follow each other, each leaving two SMs idle; afterwards their "
        "blocks are one grid.",
        [sm(0, ("a", 3, "A0"), GAP, ("b", 4, "B0")), sm(1, ("a", 3, "A1"), GAP, ("b", 4, "B1")),
         sm(2, ("idle", 3, ""), GAP, ("idle", 4, "")), sm(3, ("idle", 3, ""), GAP, ("idle", 4, ""))],
        [sm(0, ("b", 4, "B0")), sm(1, ("b", 4, "B1")), sm(2, ("a", 3, "A0")), sm(3, ("a", 3, "A1"))]),
    "dataflow-fusion": (
        "B begins when all of A has ended, its last block included; afterwards each block of B begins when the "
        "blocks of A that it needs are through.",
        [sm(0, ("a", 2.4, "A0"), ("a", 2.4, "A3"), GAP, ("b", 2, "B0")),
         sm(1, ("a", 2.4, "A1"), ("idle", 2.4, ""), GAP, ("b", 2, "B1")),
         sm(2, ("a", 2.4, "A2"), ("idle", 2.4, ""), GAP, ("idle", 2, ""))],
        [sm(0, ("a", 2.4, "A0"), ("a", 2.4, "A3")), sm(1, ("a", 2.4, "A1"), ("b", 2, "B0")),
         sm(2, ("a", 2.4, "A2"), ("gap", 2.4, "waits"), ("b", 2, "B1"))]),
    "dead-blocks": (
        "Nobody reads what A2 and A3 write; afterwards they are not launched.",
        [sm(0, ("a", 3, "A0"), ("d", 3, "A2: unread")), sm(1, ("a", 3, "A1"), ("d", 3, "A3: unread"))],
        [sm(0, ("a", 3, "A0")), sm(1, ("a", 3, "A1"))]),
    "recompute": (
        "A0 feeds three blocks of B; afterwards each block of B runs A0 for itself, and A is no launch any more.",
        [sm(0, ("a", 2, "A0"), GAP, ("b", 3, "B0")), sm(1, ("idle", 2, ""), GAP, ("b", 3, "B1")),
         sm(2, ("idle", 2, ""), GAP, ("b", 3, "B2"))],
        [sm(k, ("a", 1.6, "A0"), ("b", 3, f"B{k}")) for k in range(3)]),
    "split": (
        "A's last block runs alone, and all of B waits for it; afterwards the blocks of B that do not need it run "
        "beside it.",
        [sm(0, ("a", 2.5, "A0"), ("a", 2.5, "A3"), GAP, ("b", 2, "B0"), ("b", 2, "B3")),
         sm(1, ("a", 2.5, "A1"), ("idle", 2.5, ""), GAP, ("b", 2, "B1")),
         sm(2, ("a", 2.5, "A2"), ("idle", 2.5, ""), GAP, ("b", 2, "B2"))],
        [sm(0, ("a", 2.5, "A0"), ("a", 2.5, "A3"), GAP, ("b", 2, "B3")),
         sm(1, ("a", 2.5, "A1"), GAP, ("b", 2, "B0"), ("b", 2, "B2")),
         sm(2, ("a", 2.5, "A2"), GAP, ("b", 2, "B1"))]),
    "programmatic-launch": (
        "B starts after A and a gap; afterwards it starts while A still runs, does what does not need A, and waits.",
        [sm(0, ("a", 4, "A0"), GAP, ("b", 1.6, "index"), ("b", 3, "B0"))],
        [("SM 0", (("a", 4, "A0"), ("b", 3, "B0"))),
         ("", (("gap", 1.2, ""), ("b", 1.6, "index"), ("gap", 1.4, "waits")))]),
    "prefetch": (
        "DRAM is idle while A computes, and B waits for its weights; afterwards A pulls them into the L2.",
        [("SMs", (("a", 4, "A"), ("gap", 3, "w comes"), ("b", 3, "B"))), ("DRAM", (("idle", 4, ""), ("m", 3, "w")))],
        [("SMs", (("a", 4, "A"), ("b", 3, "B"))), ("DRAM", (("idle", .8, ""), ("m", 3, "w")))]),
}


def panel(rows, x, title):
    out = [f'<text class="small" x="{x}" y="12">{title}</text>']
    for n, (name, boxes) in enumerate(rows):
        y, at = 20 + n * ROW, x + LEFT
        out.append(f'<text x="{x}" y="{y + 14}">{html.escape(name)}</text>')
        for what, width, text in boxes:
            w = width * UNIT
            out.append(f'<rect class="{what}" x="{at:g}" y="{y}" width="{w - 1.5:g}" height="{ROW - 4}" rx="2"/>')
            if text:
                kind = "why small" if what == "gap" else "in small"
                text = html.escape(text)
                out.append(f'<text class="{kind}" x="{at + w / 2:g}" y="{y + 14}">{text}</text>')
            at += w
        if at > x + PANEL:
            raise ValueError(f"{name}: {at - x} is wider than {PANEL}")
    return out


def picture(told, before, after):
    width, height = 2 * PANEL + 20, 24 + ROW * max(len(before), len(after))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
           f"<title>{html.escape(told)}</title>", STYLE.rstrip(), *panel(before, 4, "before"),
           f'<path class="line" d="M{PANEL + 8} 6V{height - 6}"/>', *panel(after, PANEL + 16, "after"), "</svg>", ""]
    return "\n".join(out)


def main():
    here, bad = os.path.dirname(os.path.abspath(__file__)), 0
    for name, (told, before, after) in PICTURES.items():
        path, text = os.path.join(here, f"rewrite-{name}.svg"), picture(told, before, after)
        if "--check" not in sys.argv[1:]:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            continue
        try:
            same = open(path, encoding="utf-8").read() == text
        except OSError:
            same = False
        if not same:
            print(f"{path} is not what draw.py writes")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
