#!/usr/bin/env python3
"""Puts the figures of a run of bench-plans.py into docs/SAMPLES.md, between `<!-- figures NAME -->` and `<!-- end -->`.

`NAME` is a sample: its times on each device model, and what became of each rewrite on the last of them; or `all`: one
table of all.

usage: samples.py [bench/results/plans-….json]      default: the newest
"""
import glob
import json
import re
import sys

import results

PAGE = f"{results.ROOT}/docs/SAMPLES.md"


def ratio(x):
    """How many times as fast, and the range of that."""
    if x["plan_us"] >= x["baseline_us"]:
        return "–"
    between = " to ".join(f"{g:.2f}" for g in x.get("gain_range", []))
    return f"{x['baseline_us'] / x['plan_us']:.2f}x{', ' if between else ''}{between}"


def short(text, n=170):
    text = (text or "").replace("|", "\\|").replace("\n", " ")
    return text if len(text) <= n else text[:n].rsplit(" ", 1)[0] + " …"


def times(x):
    """`modeled 7.71 → 6.10 us` of a rewrite, or the words of its refusal."""
    if x["verdict"] == "kept":
        before, after = x.get("before_us"), x.get("after_us")
        said = f"modeled {before:.2f} → {after:.2f} us" if before and after else ""
        return "; ".join(w for w in (said, short(x.get("reason"))) if w)
    return short(x.get("reason"))


def sample(runs):
    out = ["| device model | baseline, modeled | plan, modeled | faster | launches | planned in |",
           "|---|---|---|---|---|---|"]
    for x in runs:
        out.append(f"| {x['device'].split(':')[-1]} | {x['baseline_us']:.2f} us | {x['plan_us']:.2f} us | {ratio(x)} | "
                   f"{x['launches']} → {x['plan_launches']} | {x['planning_s']:.1f} s |")
    last = runs[-1]
    out += ["", f"| on {last['device'].split(':')[-1]} | level | launches | verdict | times, reason |",
            "|---|---|---|---|---|"]
    order = {"kept": 0, "dropped": 1, "refused": 2}
    for x in sorted(last["rewrites"], key=lambda r: order[r["verdict"]]):
        out.append(f"| {x['kind']} | {x.get('level') or ''} | {' + '.join(x['launches'])} | {x['verdict']} | "
                   f"{times(x)} |")
    return out


def table(plans, names):
    devices = list(dict.fromkeys(x["device"] for x in plans))
    out = ["| sample | " + " | ".join(f"{d.split(':')[-1]}: us, modeled" for d in devices) + " | kept on "
           + devices[-1].split(":")[-1] + " |",
           "|---|" + "---|" * (len(devices) + 1)]
    for n in names:
        mine = [x for x in plans if x["graph"] == n]
        kept = {}
        for r in mine[-1]["rewrites"]:
            if r["verdict"] == "kept":
                k = r["kind"] + ("/" + r["level"] if r.get("level") else "")
                kept[k] = kept.get(k, 0) + 1
        out.append(f"| {n} | " + " | ".join(f"{x['baseline_us']:.2f} → {x['plan_us']:.2f} ({ratio(x)})" for x in mine)
                   + " | " +
                   (", ".join(f"{v} {k}" for k, v in kept.items()) or "nothing") + " |")
    return out


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else sorted(glob.glob(f"{results.ROOT}/bench/results/plans-*.json"))[-1]
    plans = json.load(open(path, encoding="utf-8"))["plans"]
    page = open(PAGE, encoding="utf-8").read()
    names = [n for n in re.findall(r"<!-- figures ([\w-]+) -->", page) if n != "all"]

    def fill(m):
        lines = table(plans, names) if m[1] == "all" else sample([x for x in plans if x["graph"] == m[1]])
        return f"<!-- figures {m[1]} -->\n\n" + "\n".join(lines) + "\n\n<!-- end -->"

    page = re.sub(r"<!-- figures ([\w-]+) -->\n.*?<!-- end -->", fill, page, flags=re.S)
    open(PAGE, "w", encoding="utf-8").write(page)
    print(f"{PAGE}: {len(names)} samples from {path}")


if __name__ == "__main__":
    main()
