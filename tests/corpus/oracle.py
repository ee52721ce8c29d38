"""What `dovetail analyze` must say about a corpus graph, computed a second time and in the plainest way.

A corpus folder's footprints.py says, from the mathematics of its kernels, which elements each block of each launch
reads and writes: `def footprints(g)` calls g.launch(name, blocks) in program order, and on what it returns read(),
write() and atomic(). From that, document(g) computes docs/CONTRACT.md §3 by its definitions: one bit per 4-byte element
in Python's long integers, every block against every block. Nothing here is shared with the program.

  read(block, buffer, lo, hi)      elements [lo, hi); more than one call adds up
  write(block, buffer, lo, hi)     written on every input; may=True: perhaps
  atomic(block, buffer, lo, hi)    reads and writes
  evidence="observed" | "data"     when the address or its guard depends on constant content, on data
  widened=True                     the address is data-dependent: give every element of the buffer; such reads are not
                                   counted as independent bytes and such writes kill nothing
"""
import importlib.util
import os

LEVELS = ["proved", "observed", "data-dependent"]
ELEMENT = 4


class Block:
    def __init__(self):
        self.reads, self.writes = {}, {}  # buffer -> {level: mask}
        self.must, self.counted = {}, {}  # buffer -> mask


class Launch:
    def __init__(self, name, blocks):
        self.name, self.block = name, [Block() for _ in range(blocks)]

    @staticmethod
    def _add(table, buffer, level, mask):
        row = table.setdefault(buffer, {})
        row[level] = row.get(level, 0) | mask

    def read(self, block, buffer, lo, hi, evidence="proved", widened=False):
        mask = ((1 << (hi - lo)) - 1) << lo
        b = self.block[block]
        self._add(b.reads, buffer, level_of(evidence), mask)
        if not widened:
            b.counted[buffer] = b.counted.get(buffer, 0) | mask

    def write(self, block, buffer, lo, hi, evidence="proved", may=False, widened=False):
        mask = ((1 << (hi - lo)) - 1) << lo
        b = self.block[block]
        self._add(b.writes, buffer, level_of(evidence), mask)
        if not may and not widened and level_of(evidence) < 2:
            b.must[buffer] = b.must.get(buffer, 0) | mask

    def atomic(self, block, buffer, lo, hi, **how):
        self.read(block, buffer, lo, hi, **{k: v for k, v in how.items() if k != "may"})
        self.write(block, buffer, lo, hi, **how)

    @staticmethod
    def rect(access, block, buffer, pitch, row, rows, col, cols, base=0, **how):
        """rows x cols elements of a matrix of `pitch` columns that begins at `base`; access: self.read, self.write or
        self.atomic."""
        for r in range(row, row + rows):
            access(block, buffer, base + r * pitch + col, base + r * pitch + col + cols, **how)

    def union(self, what):
        """buffer -> mask over all blocks; what: "must", "counted", "reads", "writes"."""
        total = {}
        for b in self.block:
            for buffer, mask in getattr(b, what).items():
                if isinstance(mask, dict):
                    mask = flat(mask)
                total[buffer] = total.get(buffer, 0) | mask
        return total


class Graph:
    def __init__(self):
        self.launches = []

    def launch(self, name, blocks):
        self.launches.append(Launch(name, blocks))
        return self.launches[-1]


def level_of(evidence):
    return {"proved": 0, "observed": 1, "data": 2, "data-dependent": 2}[evidence]


def flat(row):
    mask = 0
    for m in row.values():
        mask |= m
    return mask


def components(pairs):
    parent = {}

    def find(x):
        while parent.setdefault(x, x) != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    for c, p in pairs:
        parent[find(("c", c))] = find(("p", p))
    return len({find(x) for x in list(parent)})


def hazard(first, second, first_kind, second_kind, dead):
    """Pairs (second's block, first's block) that touch a live element of a buffer; the buffers; the worst evidence."""
    pairs, buffers, worst = set(), set(), 0
    a, b = first.union(first_kind), second.union(second_kind)
    for buffer in a.keys() & b.keys():
        common = a[buffer] & b[buffer] & ~dead.get(buffer, 0)
        if not common:
            continue
        buffers.add(buffer)
        for p, pb in enumerate(first.block):
            row = getattr(pb, first_kind).get(buffer)
            if row is None or not flat(row) & common:
                continue
            for c, cb in enumerate(second.block):
                for lc, mc in getattr(cb, second_kind).get(buffer, {}).items():
                    for lp, mp in row.items():
                        if mc & mp & common:
                            pairs.add((c, p))
                            worst = max(worst, lc, lp)
    return pairs, buffers, worst


def degrees(pairs, side):
    n = {}
    for pair in pairs:
        n[pair[side]] = n.get(pair[side], 0) + 1
    return {"min": min(n.values()), "max": max(n.values())} if n else {"min": 0, "max": 0}


def rows(pairs):
    table = {}
    for c, p in sorted(pairs):
        table.setdefault(c, []).append(p)
    return [[c, ps] for c, ps in sorted(table.items())]


def edge(g, p, c):
    first, second, between = g.launches[p], g.launches[c], g.launches[p + 1:c]
    dead, written = {}, dict(first.union("writes"))
    for l in between:
        for buffer, mask in l.union("must").items():
            dead[buffer] = dead.get(buffer, 0) | mask
        for buffer, mask in l.union("writes").items():
            written[buffer] = written.get(buffer, 0) | mask
    found, buffers, worst, every = {}, set(), 0, set()
    for name, a, b in (("raw", "writes", "reads"), ("war", "reads", "writes"), ("waw", "writes", "writes")):
        found[name], bufs, level = hazard(first, second, a, b, dead)
        buffers, worst, every = buffers | bufs, max(worst, level), every | found[name]
    raw = found["raw"]
    per_consumer, per_producer = degrees(raw, 0)["max"], degrees(raw, 1)["max"]  # producers of a consumer, and back
    independent_blocks = len(second.block) - len({x for x, _ in raw})
    independent = {}
    for buffer, mask in second.union("counted").items():
        n = bin(mask & ~written.get(buffer, 0)).count("1") * ELEMENT
        if n:
            independent[buffer] = n
    if not raw:
        classes, fan = ["full-independence"], "none"
    else:
        one = per_consumer == 1 and per_producer == 1
        classes = ["one-to-one" if one and not independent_blocks else "many-to-many"]
        if independent_blocks or independent:
            classes.append("partial-independence")
        fan = ("one" if per_consumer == 1 else "many") + "-to-" + ("one" if per_producer == 1 else "many")
    return {"producer": first.name, "consumer": second.name, "buffers": sorted(buffers),
            "hazards": [h for h in ("raw", "war", "waw") if found[h]], "classes": classes, "fan": fan,
            "evidence": LEVELS[worst], "pairs": len(every), "components": components(every),
            "producers_per_consumer": degrees(every, 0), "consumers_per_producer": degrees(every, 1),
            "independent_blocks": independent_blocks, "independent_bytes": independent,
            "map": {h: rows(found[h]) for h in ("raw", "war", "waw")}}


def document(g):
    """Every ordered pair of launches."""
    return [edge(g, p, c) for c in range(len(g.launches)) for p in range(c)]


def load(folder):
    spec = importlib.util.spec_from_file_location("footprints", os.path.join(folder, "footprints.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    g = Graph()
    module.footprints(g)
    return g
