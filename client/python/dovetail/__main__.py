"""python -m dovetail demo [GRAPH]: plan a sample graph by a worker of its own, and show what was found and gained.

It shows that an installation works: worker, software device, compiler. GRAPH: a graph file; without it the encoder
layer that comes with the package (the source tree's, where the package is used from one). Status 1: it did not work,
and why; 2: wrong usage. All else is the command line's: `dovetail --help`.
"""
import sys
import tempfile
import time

from . import Client, Error, Graph, __version__, find

USAGE = "usage: python -m dovetail demo [GRAPH] | --version"


def demo(path: str) -> int:
    """Analyse, optimise, optimise again, run both; the bytes must be the same."""
    graph = Graph.load(path)
    with tempfile.TemporaryDirectory(prefix="dovetail-demo-") as folder:
        client = Client(local=True, cache=folder + "/cache.db")
        start = time.monotonic()
        analysis = client.analyze(graph)
        print(f"{path}: {len(analysis.launches)} launches, {len(analysis.edges)} edges "
              f"({time.monotonic() - start:.2f} s)")
        for e in analysis.edges:
            print(f"  {e['producer']} -> {e['consumer']}: {', '.join(e['classes'])} ({e['evidence']})")
        start = time.monotonic()
        plan = client.optimize(graph)
        print(f"plan: {plan.gain:.2f} times as fast ({plan.method}); cache {plan.cache} "
              f"({time.monotonic() - start:.2f} s)")
        if not plan.document["toolchain"].get("nvjitlink"):
            print("no nvJitLink here: nobody can say what the assembler makes of changed kernels, so that few rewrites "
                  "are kept (pip install 'nvidia-nvjitlink<14')")
        again = client.optimize(graph)
        print(f"the same graph posted again: cache {again.cache}")
        posted, planned = client.run(graph), client.run(plan)
        print(f"posted  {posted.time_us:8.2f} us ({posted.method})\nplan    {planned.time_us:8.2f} us")
        for name, sha in posted.sha256.items():
            print(f"{name}: {sha}")
        if not posted.sha256 or posted.sha256 != planned.sha256:
            print("the plan's bytes are not those of the posted launches", file=sys.stderr)
            return 1
        if again.cache != "hit":
            print("the second answer did not come from the cache", file=sys.stderr)
            return 1
    print("the plan's bytes are those of the posted launches")
    return 0


def main() -> int:
    """The command line of the module."""
    args = sys.argv[1:]
    if args == ["--version"]:
        print(f"dovetail {__version__}")
        return 0
    if not args or args[0] != "demo" or len(args) > 2 or any(a.startswith("-") for a in args):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        return demo(args[1] if len(args) > 1 else find.sample())
    except Error as e:
        print(f"dovetail: {e}", file=sys.stderr)
    except OSError as e:
        print(f"dovetail: {e.filename}: {e.strerror}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
