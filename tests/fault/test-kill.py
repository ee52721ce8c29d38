"""kill -9 at random points of the service's life, again and again, over one cache: nothing that was finished is lost.

Each time graphs are posted that are new, some that are known, and after a random while the service is killed, or its
worker, or both. What a client had got by then must be found after the restart, the same to the byte, at once. At the
end the whole file is sound, and none was set aside. The time of each restart is taken, until the socket is there.

Usage: test-kill.py [POINTS [SEED]]
"""
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness  # noqa: E402

POINTS = int(sys.argv[1]) if len(sys.argv) > 1 else 15
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1


def graph(i):
    return harness.chain(2 + i % 3, factor=2 + i / 65536)


class Client(threading.Thread):
    """Posts graphs until the connection breaks; `got`: documents that came."""
    def __init__(self, service, numbers):
        super().__init__()
        self.service, self.numbers, self.got, self.wrong = service, numbers, {}, None

    def run(self):
        for i in self.numbers:
            try:
                r = self.service.post(graph(i))
                if r.status == 202:
                    at = r.headers["Location"]
                    job = self.service.http("GET", at + "?wait=30").json()
                    if job["state"] != "done":
                        if job.get("problem", {}).get("code") not in ("worker-lost", "cancelled", None):
                            self.wrong = job
                        continue
                    r = self.service.http("GET", at + "/result")
                if r.status == 200:
                    self.got[i] = r.body
                elif r.status != 503:
                    self.wrong = r.body
            except (OSError, harness.http.client.HTTPException):
                return


class Life:
    """One start of the service, until it is killed."""
    def __init__(self, folder):
        begin = time.monotonic()
        self.s = harness.Service({"cache": os.path.join(folder, "cache.db")})
        self.start_ms = (time.monotonic() - begin) * 1000
        while True:
            try:
                self.s.http("GET", "/")
                break
            except ConnectionRefusedError:  # the socket is there, and not yet listened on
                time.sleep(0.001)

    def kill(self, rng):
        what = rng.choice(["service", "service", "worker", "both"])
        try:
            pids = [w["pid"] for w in self.s.workers()] if what != "service" else []
        except (OSError, harness.http.client.HTTPException):
            pids = []
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if what != "worker":
            self.s.process.kill()
            self.s.process.wait()
        return what

    def end(self):
        if self.s.process.poll() is None:
            self.s.process.kill()
            self.s.process.wait()
        log = self.s.read_log()
        self.s.log.close()
        self.s.remove()
        assert "Sanitizer" not in log and "is damaged" not in log, log
        return log


def check(life, kept, rng):
    """What was finished is a hit, with the same bytes: the newest, and some of the others."""
    old = list(kept)
    for i in set(old[-8:] + rng.sample(old, min(6, len(old)))):
        r = life.s.post(graph(i))
        assert (r.status, r.headers["Dovetail-Cache"]) == (200, "hit"), (i, r.status, r.body[:300])
        assert r.body == kept[i], f"document {i} changed"


def main():
    rng = random.Random(SEED)
    folder = tempfile.mkdtemp(prefix="dovetail-kill.")
    kept, starts, new, kills = {}, [], 0, {"service": 0, "worker": 0, "both": 0}
    try:
        for _ in range(POINTS):
            life = Life(folder)
            starts.append(life.start_ms)
            check(life, kept, rng)
            clients = []
            for _ in range(3):
                numbers = [rng.choice(list(kept))] if kept and rng.random() < 0.3 else []
                numbers += range(new, new + 4)
                new += 4
                clients.append(Client(life.s, numbers))
            for c in clients:
                c.start()
            wanted, deadline = rng.randrange(8), time.monotonic() + 20 * harness.SLOW
            while sum(len(c.got) for c in clients) < wanted and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(rng.random() * 0.15)
            kills[life.kill(rng)] += 1
            if life.s.process.poll() is None:  # it was the worker: the service goes on, and what waits is done
                assert life.s.http("GET", "/healthz").status == 200
                life.s.process.kill()
                life.s.process.wait()
            for c in clients:
                c.join()
                assert c.wrong is None, c.wrong
                for i, body in c.got.items():
                    assert kept.setdefault(i, body) == body, f"document {i} changed"
            life.end()
        life = Life(folder)
        for i, body in kept.items():
            r = life.s.post(graph(i))
            assert (r.status, r.body) == (200, body), (i, r.status, r.body[:300])
        doc = life.s.http("GET", "/v1/cache/verify").json()
        assert doc["ok"], doc
        life.s.until("/healthz", lambda d: not d["store"]["checking"])
        life.end()
        assert not [f for f in os.listdir(folder) if ".bad" in f], os.listdir(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    starts.sort()
    assert len(kept) >= POINTS / 3, "hardly anything was finished"
    print(f"{POINTS} times killed ({', '.join(f'{v} {k}' for k, v in kills.items())}), seed {SEED}: "
          f"{len(kept)} of {len(kept)} finished results kept; restart {starts[len(starts) // 2]:.0f} ms in the middle, "
          f"{starts[-1]:.0f} at most")


if __name__ == "__main__":
    main()
