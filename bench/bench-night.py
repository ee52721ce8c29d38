"""A night of a cluster, on the software device: the corpus was planned on a host of one model; then two hosts of
another model appear, with empty stores, and run `dovetail reprofile --stale`. By morning everything is planned for
both models, each graph by one of the two.

The table has, of each graph, what it runs with on the new model before and after: modelled times of one pass of the
posted launches and of the plan. It needs PostgreSQL (Debian's packages postgresql), which it starts itself.
"""
import argparse
import glob
import json
import os
import sys
import time

import results

sys.path[:0] = [os.path.join(results.ROOT, "tests", d) for d in ("cluster", "e2e")]
p = argparse.ArgumentParser()
p.add_argument("--quick", action="store_true", help="four graphs; nothing written")
p.add_argument("--old", default="soft:a100")
p.add_argument("--new", default="soft:h200")
p.add_argument("--hosts", type=int, default=2)
o = results.options(p)
os.environ["DOVETAIL_BUILD"] = os.path.abspath(o.build)
import harness  # noqa: E402
from server import Server, missing  # noqa: E402

QUICK = ("mlp", "pointwise", "reduce-dot", "rows")


def corpus():
    """name, document with its kernels in it"""
    for path in sorted(glob.glob(os.path.join(results.ROOT, "tests/corpus/*/graph.json"))):
        folder = os.path.dirname(path)
        name = os.path.basename(folder)
        if o.quick and name not in QUICK:
            continue
        with open(path, encoding="utf-8") as f:
            g = json.load(f)
        for m in g["modules"].values():
            if "file" in m:
                file = m.pop("file")
                with open(os.path.join(folder, file), encoding="utf-8") as f:
                    m["ptx" if file.endswith(".ptx") else "cuda"] = f.read()
        yield name, g


def until(what, seconds=3000):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it does not come to an end"
        time.sleep(0.2)


def finish(s, g):
    job = s.finish(s.post(g), 600)
    while job["state"] in ("queued", "running"):
        job = s.http("GET", job["links"]["self"] + "?wait=600", timeout=700).json()
    return job


def report(s):
    return s.http("GET", "/v1/reprofile/report").json()


def night(db):
    service = lambda device: harness.Service({"shared": db.url(), "shared_graphs": "yes"}, device)
    old, names, services = service(o.old), {}, []
    try:
        for name, g in corpus():
            job = finish(old, g)
            assert job["state"] == "done", (name, job)
            names[job["digest"]] = name
        until(lambda: db.sql("SELECT count(*) FROM dovetail_graph") == [[str(len(names))]])
        services = [service(o.new) for _ in range(o.hosts)]
        begun = time.monotonic()
        for s in services:
            s.http("POST", "/v1/reprofile", '{"stale": true}')
        until(lambda: all(report(s)["state"] != "running" for s in services))
        seconds = time.monotonic() - begun
        return names, [report(s) for s in services], seconds
    finally:
        for s in [old, *services]:
            s.stop()
            s.remove()


def main():
    why = missing(harness.DAEMON)
    if why:
        sys.exit(f"bench-night: {why}")
    db = Server()
    try:
        names, reports, seconds = night(db)
    finally:
        db.remove()
    figures, rows = [], [(names[r["graph"]], r, host) for host, doc in enumerate(reports) for r in doc["graphs"]]
    assert sorted(name for name, _, _ in rows) == sorted(names.values()), "each graph once"
    print(f"  {o.old} to {o.new}, modelled us {'before':>12} {'after':>9} {'gain':>6}  host  planned in")
    for name, r, host in sorted(rows, key=lambda row: row[0]):
        assert r["outcome"] != "failed", r
        gain = r["before_us"] / r["after_us"]
        print(f"  {name:30} {r['before_us']:13.2f} {r['after_us']:9.2f} {gain:6.2f}  {host:4}  {r['seconds']:8.1f} s")
        figures.append({"name": f"night.{name}.gain", "value": round(gain, 4), "unit": "x"})
    counts = {k: sum(doc["outcomes"][k] for doc in reports) for k in reports[0]["outcomes"]}
    work = sum(doc["seconds"] for doc in reports)
    print(f"  {counts['faster']} faster, {counts['slower']} slower, {counts['unchanged']} unchanged, "
          f"{counts['failed']} failed; {work:.0f} s of planning in {seconds:.0f} s, by {o.hosts} hosts")
    figures += [{"name": f"night.{k}", "value": v, "unit": "graphs"} for k, v in counts.items()]
    figures += [{"name": "night.seconds", "value": round(seconds, 1), "unit": "s"}]
    if not o.quick:
        results.write(o.out, "night", figures=figures)


main()
