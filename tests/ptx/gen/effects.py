"""Instructions that leave no value: hints to caches, policies, fences, waiting; parameters of entries and functions;
cp.async. The memory around them must stay as it is.
"""
from casefile import File, main, rng, table, width
from memory import entry, register, words

SPACE = {"global": "[%g]", "local": "[lo]", "": "[%g]"}


def hint(form):
    """operands"""
    space = next((m for m in form.mods if m in ("global", "local")), "")
    if form.op == "createpolicy.fractional":
        return "%pol, 0.75" if form.shape == "2" else "%pol"
    if form.op == "createpolicy.range":
        return "%pol, [%g], 128, 256"
    if form.op == "createpolicy.cvt.L2":
        return "%pol, %q"
    if form.op == "cp.async.bulk.prefetch.L2":
        return "[%g], 128" + ", %pol" * ("L2::cache_hint" in form.mods)
    if form.op in ("discard", "applypriority"):
        return "[%g+128], 128" if form.op == "discard" else "[%g], 128"
    if form.op == "fence.proxy" and "acquire" in form.mods:
        return "[%g], 128"
    if form.op in ("prefetch", "prefetchu"):
        return SPACE[space]
    return {"nanosleep": "20", "pmevent": "5", "setmaxnreg.inc": "232", "setmaxnreg.dec": "40"}.get(form.op, "")


def effects(f):
    for form in table("prefetch", "prefetchu", "applypriority", "discard", "createpolicy.fractional",
                      "createpolicy.range", "createpolicy.cvt.L2", "membar", "membar.proxy",
                      "fence", "fence.proxy", "fence.mbarrier_init", "nanosleep", "pmevent", "griddepcontrol.wait",
                      "griddepcontrol.launch_dependents", "cp.async.bulk.prefetch.L2",
                      "setmaxnreg.inc", "setmaxnreg.dec"):
        v = [rng.getrandbits(64) for _ in range(16)]
        body = ["ld.param.u64 %g, [a];", "mov.u64 %q, 0;", "createpolicy.fractional.L2::evict_first.b64 %pol;",
                "mov.b32 %x0, 7;", "st.local.b32 [lo], %x0;", "%s %s;" % (form.text, hint(form)),
                "ld.local.b32 %x0, [lo];",
                "ld.param.u64 %p, [d];", "mad.wide.u32 %p, %i, 4, %p;", "st.global.b32 [%p], %x0;"]
        # discard makes its 128 bytes indeterminate: those behind the 16 values
        entry(f, form.text, [("a", v + [0] * (16 if form.op == "discard" else 0)), ("d", 16)], "", body,
              [("d", "u32", [7] * 32)] + ([("a", "u64", v)] if form.op != "discard" else []))


def by_value(f):
    """ld.param of an entry: scalars, and vectors out of an array"""
    for form in table("ld"):
        if "param" not in form.mods:
            continue
        t = form.t
        w, r = width(t), register(t, True)
        rw = int(r[1:])
        vec = next((int(m[1]) for m in form.mods if m in ("v2", "v4")), 1)
        for edge in (0, 1):
            vals = [(1 << w) - 1 if edge else rng.getrandbits(w) for _ in range(max(vec, 2))]
            name = "t%d" % f.n
            f.n += 1
            f.head += ["// RUN %s" % name, "// ARG u%d %s"
                       % (w, " ".join("%#x" % v for v in (vals if vec > 1 else vals[:1]))), "// BUF d u64 0*%d" % vec]
            want = [v | ((1 << rw) - 1) & ~((1 << w) - 1) if t[0] == "s" and v >> (w - 1) else v for v in vals[:vec]]
            f.head.append("// OUT d u64 %s" % " ".join("%#x" % v for v in want))
            names = ["%%v%d" % k for k in range(vec)]
            f.body.append("\n".join(["// " + form.text, ".visible .entry %s(.param %s a%s, .param .u64 d)"
                                     % (name, ".align 16 .b8" if vec > 1 else "." + t,
                                        "[%d]" % (vec * w // 8) if vec > 1 else ""),
                                     "{", "    .reg .b64 %%p; .reg .%s %s;" % (r, ", ".join(names)),
                                     "    ld.param.u64 %p, [d];",
                                     "    %s %s, [a];" % (form.text,
                                                          names[0] if vec == 1 else "{%s}" % ", ".join(names))] +
                                    ["    st.global.b%d [%%p+%d], %%v%d;" % (rw, 8 * k, k) for k in range(vec)]
                                    + ["    ret;", "}"]))


def functions(f):
    """values through .param of a function, and back"""
    done = set()
    for form in table("st", "ld"):
        func = "param::func" in form.mods
        t = form.t
        vec = next((int(m[1]) for m in form.mods if m in ("v2", "v4")), 1)
        if not (func or "param" in form.mods) or (t, vec, func) in done or (form.op == "ld" and not func):
            continue
        done.add((t, vec, func))
        w = width(t)
        r = t if t[0] == "f" else "b%d" % max(w, 16)
        rw, n = int(r[1:]), vec * w // 8
        space, v = "param::func" if func else "param", ".v%d" % vec if vec > 1 else ""
        names = ["%%v%d" % k for k in range(vec)]
        regs = names[0] if vec == 1 else "{%s}" % ", ".join(names)
        size = ".align 16 .b8 %%s[%d]" % n if vec > 1 else ".b%d %%s" % max(w, 8)
        f.body.append("\n".join([".func (.param %s) same%d(.param %s)" % (size % "r", f.n, size % "x"), "{",
                                 "    .reg .%s %s;" % (r, ", ".join(names)),
                                 "    ld.param%s.%s %s, [x];" % (v, t, regs),
                                 "    st.param%s.%s [r], %s;" % (v, t, regs), "    ret;", "}"]))
        vals = [rng.getrandbits(64) for _ in range(32 * vec)]
        body = ["ld.param.u64 %p, [v];", "mad.wide.u32 %%p, %%i, %d, %%p;"
                % (8 * vec)] + ["ld.global.b%d %s, [%%p+%d];" % (rw, x, 8 * k) for k, x in enumerate(names)]
        body += ["{ .param %s; .param %s;" % (size % "in", size % "out"), "st.%s%s.%s [in], %s;" % (space, v, t, regs),
                 "call (out), same%d, (in);" % f.n,
                 "ld.%s%s.%s %s, [out];" % (space, v, t, regs), "}", "ld.param.u64 %p, [d];",
                 "mad.wide.u32 %%p, %%i, %d, %%p;" % (8 * vec)]
        body += ["st.global.b%d [%%p+%d], %s;" % (w, 8 * k, x) for k, x in enumerate(names)]
        fill = 0xEEEEEEEEEEEEEEEE >> w << w if w < 64 else 0
        entry(f, form.text + " through a function", [("v", vals), ("d", 32 * vec)],
              ".reg .%s %s;" % (r, ", ".join(names)), body, [("d", "u64", [fill | x & ((1 << w) - 1) for x in vals])])


def copies(f):
    """cp.async of 4, 8 or 16 bytes, some of them zero, some ignored"""
    for form in table("cp.async"):
        hinted = ", %pol" if "L2::cache_hint" in form.mods else ""
        for size in (4, 8, 16) if "ca" in form.mods else (16,):
            for kind in ("", "size", "ignore"):
                src = [rng.getrandbits(8) for _ in range(32 * 16)]
                n = [rng.choice((0, size // 2, size, 1, size - 1)) if kind == "size" else size * (k & 1)
                     if kind == "ignore" else size for k in range(32)]
                body = ["ld.param.u64 %g, [a];", "mad.wide.u32 %g, %i, 16, %g;", "mov.u64 %q, sh;",
                        "mad.wide.u32 %q, %i, 16, %q;", "mov.u32 %x0, -1;",
                        "st.shared.v4.b32 [%q], {%x0, %x0, %x0, %x0};",
                        "createpolicy.fractional.L2::evict_first.b64 %pol;", "ld.param.u64 %p, [n];",
                        "mad.wide.u32 %p, %i, 8, %p;",
                        "ld.global.b32 %x1, [%p];", "setp.eq.u32 %s, %x1, 0;",
                        "%s [%%q], [%%g], %d%s%s;" % (form.text, size,
                                                      {"": "", "size": ", %x1", "ignore": ", %s"}[kind], hinted),
                        "cp.async.commit_group;",
                        "cp.async.wait_%s;" % rng.choice(("all", "group 0")),
                        "ld.shared.v4.b32 {%x0, %x1, %x2, %x3}, [%q];", "ld.param.u64 %p, [d];",
                        "mad.wide.u32 %p, %i, 16, %p;",
                        "st.global.v4.b32 [%p], {%x0, %x1, %x2, %x3};"]
                want = []
                for k in range(32):
                    want += src[16 * k:16 * k + n[k]] + [0] * (size - n[k]) + [0xFF] * (16 - size)
                entry(f, "%s %d %s" % (form.text, size, kind), [("a", words(src, 8)), ("n", n), ("d", 64)],
                      ".reg .pred %s;", body, [("d", "u64", words(want, 8))])


def make():
    f = File("effects", "sm_90a")
    effects(f)
    by_value(f)
    functions(f)
    copies(f)
    return f


if __name__ == "__main__":
    main(make)
