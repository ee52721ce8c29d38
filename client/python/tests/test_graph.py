"""The graph document: built, loaded, saved; what is refused here."""
import base64
import ctypes
import json
import os

import dovetail
import pytest
from conftest import CORPUS

from harness import SCALE, chain


def build():
    g = dovetail.Graph("chain")
    m = g.module("m", ptx=SCALE)
    a = g.buffer("a", 1024, role="input", fill=("uniform", -1, 1, "f32"), seed=3)
    b = g.buffer("b", 1024, role="intermediate")
    c = g.buffer("c", 1024, role="output")
    g.launch(m, "scale", grid=4, block=[64], args=[a, b, dovetail.f32(2)], name="s0")
    g.launch(m, "scale", grid=(4, 1), block=64, args=[b, c, ctypes.c_float(2)], name="s1")
    return g


def test_builder_gives_the_document():
    want = chain(2, "abc")
    for step in want["launches"]:
        step["shared"] = 0
    assert build().document == want


def test_it_is_analysed(client):
    assert [e["classes"] for e in client.analyze(build()).edges] == [["one-to-one"]]


def test_save_and_load(tmp_path):
    build().save(tmp_path / "g.json")
    assert dovetail.Graph.load(tmp_path / "g.json").document == build().document


def test_sources_are_read_from_the_graphs_folder():
    path = os.path.join(CORPUS, "mlp/graph.json")
    with open(path) as f:
        assert any("file" in m for m in json.load(f)["modules"].values())
    g = dovetail.Graph.load(path)
    assert all("__global__" in m["cuda"] and "file" not in m for m in g.document["modules"].values())


def test_steps_and_views():
    g = build()
    a = g["a"]
    assert g.memset(a + 16, value=1) == "memset" and g.memset(a, bytes=4) == "memset-2"
    assert g.copy(a.at(8), g["c"] + 512) == "copy"
    assert g.launches[2:] == [
        {"name": "memset", "memset": {"buffer": "a", "offset": 16, "bytes": 1008, "value": 1}},
        {"name": "memset-2", "memset": {"buffer": "a", "offset": 0, "bytes": 4, "value": 0}},
        {"name": "copy", "copy": {"from": {"buffer": "a", "offset": 8}, "to": {"buffer": "c", "offset": 512},
                                  "bytes": 512}}]


def test_scalars():
    g = build()
    args = [dovetail.i32(-1), dovetail.f32(float("inf")), dovetail.bf16(float("inf")), dovetail.f64(float("nan")),
            dovetail.raw(b"\1\2" + bytes(8), [(2, g["a"] + 4)]), ctypes.c_uint64(7)]
    g.launch("m", "other", grid=1, block=1, args=args)
    assert g.launches[-1]["args"] == [
        {"i32": -1}, {"f32": "0x7f800000"}, {"bf16": "0x7f80"}, {"f64": "0x7ff8000000000000"},
        {"bytes": "01020000000000000000", "pointers": [{"at": 2, "buffer": "a", "offset": 4}]}, {"u64": 7}]


def test_numpy_scalars():
    numpy = pytest.importorskip("numpy")
    g = build()
    g.launch("m", "other", grid=1, block=1, args=[numpy.float32(1.5), numpy.int64(-3)])
    assert g.launches[-1]["args"] == [{"f32": 1.5}, {"i64": -3}]


@pytest.mark.parametrize("wrong, words", [
    (lambda g: g.launch("m", "k", grid=1, block=1, args=[5]), "5 is no argument of a kernel"),
    (lambda g: g.launch("n", "k", grid=1, block=1), "no module 'n'"),
    (lambda g: g.launch("m", "k", grid=(1, 2, 3, 4), block=1), "grid is one to three numbers"),
    (lambda g: g.launch("m", "k", grid=1, block=1, name="s0"), "there is a 's0' already"),
    (lambda g: g.buffer("a", 4, role="input"), "there is a 'a' already"),
    (lambda g: g.buffer("z", 4, role="inputs"), "a role is one of"),
    (lambda g: g.buffer("z", 4, role="input", data=b"12345"), "has 4 bytes, its data 5"),
    (lambda g: g.buffer("z", 4, role="input", fill=("uniform", 1)), "a fill is"),
    (lambda g: g.module("z"), "either cuda= or ptx="),
    (lambda g: g.roles(nothing="input"), "no buffer 'nothing'"),
])
def test_refused(wrong, words):
    g = build()
    before = json.dumps(g.document)
    with pytest.raises(dovetail.UsageError, match=words) as e:
        wrong(g)
    assert e.value.code == "usage" and e.value.problem["status"] == 400
    assert json.dumps(g.document) == before


def test_files_that_are_wrong(tmp_path):
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text('{"modules": {"m/": {"cuda": {"file": "none.cu"}}}}')
    with pytest.raises(dovetail.GraphError) as e:
        dovetail.Graph.load(tmp_path / "a.json")
    assert e.value.code == "bad-json"
    with pytest.raises(dovetail.GraphError) as e:
        dovetail.Graph.load(tmp_path / "b.json")
    assert (e.value.code, e.value.pointer) == ("bad-graph", "/modules/m~1/cuda/file")
    with pytest.raises(OSError):
        dovetail.Graph.load(tmp_path / "c.json")


def npy(descr, shape, content, fortran=False):
    head = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + content


def with_file(tmp_path, data, content, size=16):
    if content is not None:
        (tmp_path / data["file"]).write_bytes(content)
    (tmp_path / "g.json").write_text(json.dumps({"modules": {}, "buffers": {
        "x~/": {"bytes": size, "role": "input", "data": data}}}))
    return tmp_path / "g.json"


@pytest.mark.parametrize("data, content", [
    ({"file": "x.bin"}, bytes(range(16))),
    ({"file": "x.npy"}, npy("<f4", (4,), bytes(range(16)))),
    ({"file": "x.npy", "dtype": "f32"}, npy("<f4", (2, 2), bytes(range(16)))),
    ({"file": "x.npy", "dtype": "bf16"}, npy("|V2", (8,), bytes(range(16)))),
])
def test_content_of_files(tmp_path, data, content):
    g = dovetail.Graph.load(with_file(tmp_path, data, content))
    assert base64.b64decode(g.buffers["x~/"]["data"]) == bytes(range(16))


def test_numpy_wrote_it(tmp_path):
    numpy = pytest.importorskip("numpy")
    for a in (numpy.arange(4, dtype="f4"), numpy.arange(8, dtype="f2").reshape(2, 4), numpy.ones((4, 4), dtype="?")):
        numpy.save(tmp_path / "x.npy", a)
        g = dovetail.Graph.load(with_file(tmp_path, {"file": "x.npy"}, None))
        assert base64.b64decode(g.buffers["x~/"]["data"]) == a.tobytes()


@pytest.mark.parametrize("data, content, words, member", [
    ({"file": "none.npy"}, None, "No such file", "file"),
    ({"file": "x.bin"}, bytes(15), "it has 15 bytes, and the buffer has 16", "file"),
    ({"file": "x.bin"}, bytes(17), "more than 16 bytes", "file"),
    ({"file": "x.npy"}, bytes(16), "no .npy file", "file"),
    ({"file": "x.npy"}, npy("<f4", (4,), bytes(12)), "16 bytes that its head says, and has 12", "file"),
    ({"file": "x.npy"}, npy("<f4", (2,), bytes(8)), "it has 8 bytes", "file"),
    ({"file": "x.npy"}, npy("|O", (2,), bytes(16)), "Python objects", "file"),
    ({"file": "x.npy"}, npy(">f4", (4,), bytes(16)), "big-endian", "file"),
    ({"file": "x.npy"}, npy([("a", "<f4")], (4,), bytes(16)), "structures", "file"),
    ({"file": "x.npy"}, npy("<f4", (2, 2), bytes(16), True), "Fortran", "file"),
    ({"file": "x.npy"}, b"\x93NUMPY\1\0\x10\0" + b"(" * 16, "not what numpy writes", "file"),
    ({"file": "x.npy", "dtype": "i32"}, npy("<f4", (4,), bytes(16)), "dtype says i32", "dtype"),
    ({"file": "x.bin", "dtype": "f32"}, bytes(16), "leave dtype out", "dtype"),
    ({"file": "x.bin", "at": 1}, bytes(16), "no other members", "at"),
])
def test_content_of_files_that_are_wrong(tmp_path, data, content, words, member):
    with pytest.raises(dovetail.GraphError, match=words) as e:
        dovetail.Graph.load(with_file(tmp_path, data, content))
    assert (e.value.code, e.value.pointer) == ("bad-graph", f"/buffers/x~0~1/data/{member}")
