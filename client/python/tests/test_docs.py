"""Every block of docs/PYTHON.md outside of its sections about Triton and PyTorch (test_triton.py and test_torch.py have
those)."""
import pages


def test_python(tmp_path, soft, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("DOVETAIL_DEVICE", "soft")
    texts = pages.blocks("python")
    assert len(texts) == 5
    pages.run(texts, tmp_path)


def test_commands():
    """test_package.py installs so; the build is what these tests are run on."""
    assert [t.strip() for t in pages.blocks("sh")] == [
        "./dev build\npip install --no-build-isolation ./client/python"]
