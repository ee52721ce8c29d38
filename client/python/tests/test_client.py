"""Requests, by the service and by a worker of one's own: documents, progress, what goes wrong."""
import asyncio
import json
import os
import pickle
import signal
import subprocess
import threading
import time

import dovetail
import pytest
from conftest import BUILD, CORPUS, corpus

from harness import chain, endless, single, OUTSIDE


def cli(*args):
    r = subprocess.run([os.path.join(BUILD, "client/dovetail"), *args, "--json"], capture_output=True, text=True,
                       timeout=120)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def test_documents(client, local, folder):
    g, told = corpus("pointwise"), []
    plan = client.optimize(g, progress=told.append)
    assert isinstance(plan, dovetail.Plan) and plan.cache in ("miss", "hit")
    assert plan.gain > 1 and plan.method == "modeled:h200" and plan.kept
    if plan.cache == "miss":
        assert {"compile", "rewrite"} <= {p.stage for p in told}
        assert all(isinstance(p, dovetail.Progress) and 0 <= p.done <= max(p.of, p.done) for p in told)
    again = client.optimize(g)
    assert (again.cache, again.document, again.signature) == ("hit", plan.document, plan.signature)
    assert client.analyze(g).edges[0]["evidence"] == "proved"
    assert "map" in client.analyze(g, maps=True).edges[0]


def test_as_the_command_line(client, folder):
    path = os.path.join(CORPUS, "pointwise/graph.json")
    want = cli("run", path, "--local", "--device", "soft", "--cache", os.path.join(folder, "cli.db"))
    g = corpus("pointwise")
    for what in g, client.optimize(g), g.document:
        got = client.run(what)
        assert got.sha256 == {o["buffer"]: o["sha256"] for o in want["outputs"]}
    assert got.method == "modeled:h200" and got.time_us > 0
    assert client.run(g, seed=5).sha256 != got.sha256


def test_dump(client):
    r = client.run(chain(1, "xy"), dump=True)
    assert len(r.outputs["y"]) == 1024
    with pytest.raises(KeyError):
        client.run(chain(1, "xy")).outputs


def test_plan_files(client, tmp_path):
    plan = client.optimize(corpus("pointwise"))
    plan.save(tmp_path / "p.json")
    assert dovetail.Plan.load(tmp_path / "p.json").document == plan.document
    chain_path = tmp_path / "g.json"
    dovetail.Graph(document=chain()).save(chain_path)
    with pytest.raises(dovetail.GraphError, match="no plan document"):
        dovetail.Plan.load(chain_path)


def test_refused(client):
    g = chain()
    g["launches"][1]["args"][0]["buffer"] = "nothing"
    with pytest.raises(dovetail.GraphError) as e:
        client.analyze(g)
    assert (e.value.code, e.value.pointer) == ("bad-graph", "/launches/1/args/0/buffer")
    assert e.value.problem["status"] == 422 and "nothing" in str(e.value)
    again = pickle.loads(pickle.dumps(e.value))
    assert type(again) is dovetail.GraphError and again.problem == e.value.problem
    bad = {"dovetail": 1, "modules": {"m": {"cuda": "nonsense"}}, "buffers": {}, "launches": [
        {"module": "m", "entry": "k", "grid": [1, 1, 1], "block": [1, 1, 1], "args": []}]}
    with pytest.raises(dovetail.GraphError) as e:
        client.analyze(bad)
    assert e.value.code == "compile-failed" and "nonsense" in e.value.log


def test_checks(client):
    with pytest.raises(dovetail.GraphError) as e:
        client.run(single(OUTSIDE, "outside"))
    assert e.value.code == "out-of-bounds"
    g = chain(1, "xy")
    del g["buffers"]["x"]["fill"]
    client.run(g)
    for check in ["uninit"], "uninit", ["race", "uninit"]:
        with pytest.raises(dovetail.GraphError) as e:
            client.run(g, check=check)
        assert e.value.code == "uninitialised"


def test_time_limit(client):
    start = time.monotonic()
    with pytest.raises(dovetail.ServiceError) as e:
        client.run(endless(1), timeout=1)
    assert e.value.code == "time-limit" and time.monotonic() - start < 30


def test_a_callback_that_fails_ends_the_job(client):
    class Mine(Exception):
        pass

    def progress(p):
        raise Mine()

    start = time.monotonic()
    with pytest.raises(Mine):
        client.run(endless(2), progress=progress)
    assert time.monotonic() - start < 30
    if not client.local:
        end = time.monotonic() + 60
        while any(j["state"] in ("queued", "running") for j in client._backend().json("GET", "/v1/jobs")[1]["jobs"]):
            assert time.monotonic() < end
            time.sleep(0.05)


def test_threads(client):
    got, g = [], [chain(1, "xy", factor=f) for f in (2.0, 3.0, 4.0, 5.0)]
    def work(k): got.append((k, client.run(g[k]).sha256["y"]))
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert dict(got) == {k: client.run(g[k]).sha256["y"] for k in range(4)}


# ---- which way ---------------------------------------------------------------------------------------------------

def test_no_service(tmp_path, monkeypatch):
    path = str(tmp_path / "none.sock")
    with pytest.raises(dovetail.ServiceError) as e:
        dovetail.Client(path).analyze(chain())
    assert e.value.code == "no-service"
    monkeypatch.setenv("DOVETAIL_SOCKET", path)  # said, so nothing else is taken
    with pytest.raises(dovetail.ServiceError):
        dovetail.Client().analyze(chain())
    with pytest.raises(dovetail.UsageError):
        dovetail.Client(path, local=True)


def test_by_itself(service, tmp_path, monkeypatch):
    """The service that there is, else a worker of one's own."""
    monkeypatch.delenv("DOVETAIL_SOCKET", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    if not os.path.exists("/run/dovetail/dovetail.sock"):
        c = dovetail.Client(device="soft", cache=tmp_path / "c.db")
        assert c.local and c.analyze(chain()).edges and (tmp_path / "c.db").exists()
    os.symlink(service, tmp_path / "dovetail.sock")
    assert not dovetail.Client(device="soft").local and dovetail.Client().analyze(chain()).edges
    assert dovetail.Client(local=True).local


def test_no_worker(monkeypatch, tmp_path):
    monkeypatch.setenv("DOVETAIL_HOME", str(tmp_path))
    monkeypatch.delenv("DOVETAIL_WORKER", raising=False)
    with pytest.raises(dovetail.ServiceError, match="no dovetail-worker") as e:
        dovetail.Client(local=True).analyze(chain())
    assert e.value.code == "worker-lost"
    monkeypatch.setenv("DOVETAIL_WORKER", "/bin/true")
    with pytest.raises(dovetail.ServiceError, match="without an answer"):
        dovetail.Client(local=True).analyze(chain())


def test_wrong_device(client):
    client = dovetail.Client(client._socket, local=client.local, device="soft:none")
    with pytest.raises(dovetail.Error) as e:
        client.analyze(chain())
    assert e.value.code in ("no-device", "usage")


# ---- async -----------------------------------------------------------------------------------------------------------

def twin(client):
    return dovetail.AsyncClient(client._socket, local=client._local, device="soft", cache=client._cache)


def test_async(client):
    a, told = twin(client), []

    async def work():
        here = threading.get_ident()
        g = [chain(1, "xy", factor=f) for f in (6.0, 7.0, 8.0)]
        plan, *runs = await asyncio.gather(a.optimize(corpus("pointwise")), *(a.run(x) for x in g))
        assert plan.kept
        assert [r.sha256 for r in runs] == [client.run(x).sha256 for x in g]
        await a.analyze(chain(3, blocks=7), progress=lambda p: told.append((threading.get_ident() == here, p.stage)))
        with pytest.raises(dovetail.GraphError):
            await a.analyze({"dovetail": 1})
    asyncio.run(work())
    assert all(mine for mine, _ in told)


def test_async_cancel(client):
    """Cancelling the task ends the job, and what follows gets its turn."""
    a = twin(client)

    async def work():
        running = asyncio.Event()
        task = asyncio.ensure_future(a.run(endless(3), progress=lambda p: running.set()))
        await asyncio.wait_for(running.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(a.run(chain(1, "xy")), 60)
    asyncio.run(work())
    end = time.monotonic() + 60
    while any(t.name == "dovetail" for t in threading.enumerate()):  # the thread that waited for the job
        assert time.monotonic() < end
        time.sleep(0.05)


def test_killed_worker(monkeypatch, tmp_path, folder):
    """A worker that is killed is an error by name."""
    pid = tmp_path / "pid"
    wrapper = tmp_path / "worker"
    wrapper.write_text(f'#!/bin/sh\necho $$ >{pid}\nexec "{BUILD}/daemon/dovetail-worker" "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("DOVETAIL_WORKER", str(wrapper))
    c = dovetail.Client(local=True, device="soft", cache=tmp_path / "c.db")
    with pytest.raises(dovetail.ServiceError) as e:
        c.run(endless(4), progress=lambda p: os.kill(int(pid.read_text()), signal.SIGKILL))
    assert e.value.code == "worker-lost"
