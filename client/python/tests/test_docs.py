"""Every block of docs/PYTHON.md outside of its section about Triton (test_triton.py has those)."""
import pages


def test_python(tmp_path, soft, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("DOVETAIL_DEVICE", "soft")
    texts = pages.blocks("python", triton=False)
    assert len(texts) == 5
    pages.run(texts, tmp_path)


def test_commands():
    """test_package.py installs so; the build is what these tests are run on."""
    assert [t.strip() for t in pages.blocks("sh", triton=False)] == [
        "./dev build\npip install --no-build-isolation ./client/python"]
