#!/usr/bin/env python3
"""The pictures of docs/MAPS.md, from what `dovetail analyze --json --maps` says of graphs of tests/corpus/.

usage: maps.py DOVETAIL [--check]

Writes map-*.svg beside this script; with --check it says which files differ from what it would write (the test e2e-docs
does that). A map is a matrix: producer blocks downwards, consumer blocks across, a filled field where the two touch the
same bytes. Footprints are bars: which bytes of one buffer a block touches. Colours are those of draw.py.
"""
import html
import json
import os
import subprocess
import sys
import tempfile

from draw import STYLE

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = os.path.join(HERE, "../../tests/corpus")
SIDE = 144  # of a matrix

# picture: (what it shows, for who does not see it; [(graph, producer, consumer, title)])
MATRICES = {
    "shapes": (
        "Four block maps: a diagonal, a diagonal of wide steps, one of high steps, and squares along the diagonal",
        [("pointwise", "scale", "shift", "one-to-one"), ("pointwise", "shift", "relu", "one-to-many"),
         ("pointwise", "relu", "square", "many-to-one"), ("mlp", "gemm1", "bias", "4 components")]),
    "evidence": (
        "Two block maps of one kernel: scattered fields for a constant index, and a full square for an index that may "
        "change",
        [("gather-constant", "twice", "gather", "observed: constant index"),
         ("gather-data", "twice", "gather", "data-dependent: a superset")]),
}
# picture: (what it shows, graph, buffer, [(launch, read or write, how many blocks)], bytes shown)
FOOTPRINTS = {
    "footprints": ("The bytes of one buffer that blocks of two launches touch: two reading blocks lie under each "
                   "writing block", "pointwise", "b", [("shift", "write", 4), ("relu", "read", 8)], 4096),
}


def analysis(dovetail, name, folder):
    r = subprocess.run([dovetail, "analyze", os.path.join(CORPUS, name, "graph.json"), "--json", "--maps", "--local",
                        "--device", "soft:h200", "--cache", os.path.join(folder, "cache.db")],
                       capture_output=True, text=True, check=False)
    if r.returncode:
        sys.exit(r.stderr)
    return json.loads(r.stdout)


def svg(told, width, height, body):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
        f"<title>{html.escape(told)}</title>", STYLE.rstrip(), *body, "</svg>", ""])


def matrix(found, producer, consumer, title, x):
    edge = next(e for e in found["edges"] if (e["producer"], e["consumer"]) == (producer, consumer))
    blocks = {launch["name"]: launch["blocks"] for launch in found["launches"]}
    w, h = SIDE / blocks[consumer], SIDE / blocks[producer]
    out = [f'<text x="{x}" y="12">{html.escape(title)}</text>',
           f'<text class="small" x="{x}" y="27">{producer} ↓ {consumer} →</text>',
           f'<rect class="idle" x="{x}" y="34" width="{SIDE}" height="{SIDE}"/>']
    fields = "".join(f"M{x + c * w:g} {34 + p * h:g}h{w:g}v{h:g}h{-w:g}z"
                     for c, producers in edge["map"]["raw"] for p in producers)
    return [*out, f'<path class="b" d="{fields}"/>',
            f'<text class="small" x="{x}" y="{SIDE + 48}">{edge["pairs"]} pairs, {edge["evidence"]}</text>']


def bars(found, buffer, launches, length):
    out, y = [f'<text class="small" x="96" y="12">bytes 0 to {length} of {buffer}</text>'], 20
    for (name, how, n), colour in zip(launches, "ab"):
        launch = next(k for k in found["launches"] if k["name"] == name)
        touched = dict(next(f for f in launch["footprints"] if f["buffer"] == buffer)[how])
        for block in range(n):
            out.append(f'<text class="small" x="4" y="{y + 10}">{name} {block} {how}s</text>')
            for r in touched[block]:
                lo, hi, step, count = (*r, 0, 1)[:4]
                for k in range(count):
                    at, size = (v * 480 / length for v in (lo + k * step, hi - lo))
                    out.append(f'<rect class="{colour}" x="{96 + at:g}" y="{y}" width="{size - 1:g}" height="12"/>')
            y += 15
        y += 5
    return out, y


def main():
    graphs = {m[0] for _, maps in MATRICES.values() for m in maps} | {f[1] for f in FOOTPRINTS.values()}
    with tempfile.TemporaryDirectory(prefix="dovetail-maps.") as folder:
        found = {name: analysis(sys.argv[1], name, folder) for name in sorted(graphs)}
    texts = {}
    for name, (told, maps) in MATRICES.items():
        body = [line for k, (graph, *edge) in enumerate(maps) for line in matrix(found[graph], *edge, 4 + 176 * k)]
        texts[name] = svg(told, 176 * len(maps), SIDE + 54, body)
    for name, (told, graph, *what) in FOOTPRINTS.items():
        body, height = bars(found[graph], *what)
        texts[name] = svg(told, 600, height, body)
    bad = 0
    for name, text in texts.items():
        path = os.path.join(HERE, f"map-{name}.svg")
        if "--check" not in sys.argv[2:]:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        elif not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            print(f"{path} is not what maps.py writes")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
