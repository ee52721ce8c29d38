"""The blocks of code of docs/PYTHON.md."""
import os
import re

PAGE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../docs/PYTHON.md"))


def blocks(language, section=None):
    """[text] of the page's blocks in its section about Triton or PyTorch, or outside of both; line numbers are the
    page's."""
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()

    def where(at):
        names = re.findall(r"^## (.*)$", page[:at], re.M)
        return names[-1] if names and names[-1] in ("Triton", "PyTorch") else None

    return ["\n" * page.count("\n", 0, m.start(1)) + m[1] for m in
            re.finditer(r"^```%s\n(.*?)^```$" % language, page, re.M | re.S) if where(m.start()) == section]


def run(texts, folder, name="page"):
    """All blocks, one after the other, in one module; in `folder`, with the page as their source."""
    import linecache
    scope, here = {"__name__": name}, os.getcwd()
    os.chdir(folder)
    try:
        for text in texts:
            path = os.path.join(str(folder), f"{name}-{len(linecache.cache)}.py")
            with open(path, "w", encoding="utf-8") as f:  # Triton reads the source of its kernels
                f.write(text)
            exec(compile(text, path, "exec"), scope)
    finally:
        os.chdir(here)
    return scope
