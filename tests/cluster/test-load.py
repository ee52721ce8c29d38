"""Many plans on three services of one cluster at once: each is found once, while hosts and the server die, too. And
jobs of a service whose way to the server is bad.

DOVETAIL_TEST_GRAPHS: how many graphs (60). DOVETAIL_TEST_ROWS: how many results wait to be sent (3000). A repeat is a
graph that two hosts searched for; where one is allowed, it is counted, and belongs to a job that could not reach the
server.
"""
import contextlib
import datetime
import json
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
from harness import SLOW, UnixHTTP, row_sum  # noqa: E402
from hosts import Cluster, graph, main, patient  # noqa: E402
from proxy import Cut, Delay, Proxy, Stall, Trickle, end, right  # noqa: E402
from server import Replica  # noqa: E402
from store import signature  # noqa: E402

GRAPHS = int(os.environ.get("DOVETAIL_TEST_GRAPHS", "60"))
ROWS = int(os.environ.get("DOVETAIL_TEST_ROWS", "3000"))
HOUR = 3600
BOUND = 60  # seconds for a job, its waiting in the service's queue included


def seconds(stamp):
    """Since 1970, of a time in a document."""
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


class Load(Cluster):
    def hosts(self, n=3, **config):
        return [self.service(max_queued=4 * GRAPHS + 64, **config) for _ in range(n)]

    def begin(self, hosts, graphs, pause=0.0):
        """Every graph to every host, each in an order of its own; the threads, and the jobs that they will fill in."""
        jobs, chance = [], random.Random(11)

        def post(s, order):
            for g in order:
                try:
                    begun = time.monotonic()
                    r = s.post(g)
                    if r.status == 200:
                        jobs.append((s, {"state": "done", "cache": r.headers["Dovetail-Cache"],
                                         "signature": r.json()["signature"]}, time.monotonic() - begun))
                    else:
                        waiting.append((s, r, begun))
                except (OSError, AssertionError):
                    if s.process.poll() is None and s not in self.doomed:
                        raise
                    return
                time.sleep(pause)

        def collect(s, r, begun):
            try:
                job = s.finish(r, BOUND + GRAPHS // 2)
            except (OSError, AssertionError):
                if s not in self.doomed:
                    raise
                return
            jobs.append((s, job, time.monotonic() - begun))

        waiting, failed = [], []

        def host(s, order):
            try:
                mine = len(waiting)
                post(s, order)
                for w in [w for w in waiting[mine:] + waiting[:mine] if w[0] is s]:
                    collect(*w)
            except Exception as e:  # whatever it is, it is this test's failure
                failed.append(e)
        threads = []
        for s in hosts:
            order = list(graphs)
            chance.shuffle(order)
            threads.append(threading.Thread(target=host, args=(s, order)))
        for t in threads:
            t.start()
        return threads, jobs, failed

    def setUp(self):
        super().setUp()
        self.doomed = []

    def end(self, load, hosts, graphs):
        """All answered, all done; then what each was: {signature: [(cache, service)]}."""
        threads, jobs, failed = load
        for t in threads:
            t.join()
        self.assertEqual(failed, [])
        living = [s for s in hosts if s not in self.doomed]
        self.assertEqual([j for _, j, _ in jobs if j["state"] != "done"], [])
        for s in living:
            self.assertEqual(sum(h is s for h, _, _ in jobs), len(graphs))
        found = {}
        for s, job, _ in jobs:
            found.setdefault(job["signature"], []).append((job["cache"], s))
        self.assertEqual(len(found), len(graphs))
        print(f"\n  {len(jobs)} jobs, the slowest {max(t for _, _, t in jobs):.1f} s", end=" ", flush=True)
        return found

    def settled(self, hosts, graphs):
        """Everything is sent, nothing is leased, the database has one row for each."""
        for s in hosts:
            patient(lambda: not self.cluster(s)["outbox"]["waiting"], 60)
            self.assertEqual(self.cluster(s)["outbox"]["parked"], 0)
            patient(lambda: not self.cluster(s)["leases"], 30)
        self.assertEqual(self.db.sql("SELECT count(*) FROM dovetail_lease WHERE expires > now()"), [["0"]])
        self.assertEqual(self.db.sql("SELECT count(*), count(DISTINCT signature) FROM dovetail_entry"),
                         [[str(len(graphs))] * 2])

    def repeats(self, found):
        return sum(sum(c == "miss" for c, _ in of) - 1 for of in found.values())

    def told_sum(self, hosts, *say):
        return sum(self.told(s, w) for s in hosts for w in say)

    def test_once(self):
        """Each graph is searched for by one host; the others have it from that one."""
        hosts = self.hosts(shared_lookup_ms=5000)  # of deadlines other tests tell; here nobody may find the server away
        graphs = [graph() for _ in range(GRAPHS)]
        found = self.end(self.begin(hosts, graphs), hosts, graphs)
        for of in found.values():
            self.assertEqual(sorted(c for c, _ in of), ["miss", "shared", "shared"])
        self.assertEqual(self.told_sum(hosts, "plan"), GRAPHS)
        self.assertEqual(self.told_sum(hosts, "away", "overtime"), 0)
        self.settled(hosts, graphs)
        # the work is shared out: no host has all of it
        self.assertTrue(all(sum((("miss", s) in of) for of in found.values()) < GRAPHS for s in hosts))

    def test_server_dies(self):
        """The server is killed in the middle, and comes back: nothing is lost, and only who could not ask repeats."""
        hosts, graphs = self.hosts(), [graph() for _ in range(GRAPHS)]
        load = self.begin(hosts, graphs, 0.1)
        patient(lambda: self.told_sum(hosts, "plan") > GRAPHS // 3)
        begun = time.time()
        self.db.kill()
        for s in hosts:
            self.assertEqual(s.http("GET", "/healthz").json()["status"], "ok")
        time.sleep(1)
        self.db.start()
        for s in hosts:
            patient(lambda: self.cluster(s)["state"] == "ok", 60)
        ended = time.time()
        found = self.end(load, hosts, graphs)
        self.settled(hosts, graphs)
        self.assertTrue(all(any(c == "miss" for c, _ in of) for of in found.values()))
        away = self.told_sum(hosts, "away")
        print(f"{self.repeats(found)} repeats, {away:.0f} times the server was not there", end=" ", flush=True)
        self.assertGreater(away, 0)
        self.assertLessEqual(self.repeats(found), away)
        self.assertEqual(self.told_sum(hosts, "overtime"), 0)
        # all but one of those that searched for the same did so while there was no server
        for signature, of in found.items():
            apart = [j for _, j, _ in load[1] if j["signature"] == signature and j["cache"] == "miss"
                     and not (seconds(j["finished"]) >= begun and seconds(j["started"]) <= ended)]
            self.assertLessEqual(len(apart), 1, (begun, ended, apart))
        # and after it everything is as before
        again = [graph() for _ in range(4)]
        found = self.end(self.begin(hosts, again), hosts, again)
        self.assertEqual(self.repeats(found), 0)

    def test_host_dies(self):
        """A host is killed while it holds leases: the others plan what it would have, once. The hosts' clocks are apart
        by hours: the server's alone counts."""
        graphs = [graph() for _ in range(GRAPHS // 3)]
        hosts = [self.service_wrong_by(seconds, max_queued=4 * GRAPHS + 64) for seconds in (7 * HOUR, 0, -7 * HOUR)]
        now = [s.finish(s.post(graph(), "want=plan&share=0"))["created"] for s in hosts]
        self.assertEqual(len({t[:13] for t in now}), 3 if SLOW == 1 else 1, now)  # their hours
        dead, others = hosts[0], hosts[1:]
        self.doomed = [dead]
        load = self.begin(hosts, graphs, 0.05)
        patient(lambda: self.told(dead, "plan") > 2)
        workers, held, more, loads = [], 0, [graphs], [load]

        def tell(signal_):
            for w in workers:
                with contextlib.suppress(ProcessLookupError):  # one that ended has a successor
                    os.kill(w, signal_)

        for k in range(100):  # stopped while they search, so that it does hold some
            if k >= 3:  # they may all have been planned
                more.append([graph()])
                loads.append(self.begin(hosts, more[-1], 0.05))
            workers = [w["pid"] for w in dead.workers()]
            tell(signal.SIGSTOP)
            time.sleep(0.3 * SLOW)
            held = self.cluster(dead)["leases"]
            if held:
                break
            tell(signal.SIGCONT)
            time.sleep(0.1)
        self.assertGreater(held, 0)
        dead.process.kill()
        dead.process.wait()
        found = {}
        for one, of in zip(loads, more):
            found |= self.end(one, hosts, of)
        graphs = sum(more, [])
        print(f"{held} leases were held", end=" ", flush=True)
        patient(lambda: not any(os.path.exists(f"/proc/{w}") for w in workers))
        self.assertEqual(self.told_sum(others, "away", "overtime"), 0)
        self.assertEqual([of for of in found.values() if sum(c == "miss" for c, s in of if s is not dead) > 1], [])
        self.settled(others, graphs)


class Network(Cluster):
    """A service behind a bad network, and another that fills the cluster. What calls see is in test-faults.py; here
    are jobs: each is answered, in time, and when the network is well again the cluster is used again."""

    def setUp(self):
        super().setUp()
        self.proxy = Proxy(self.db)
        self.addCleanup(self.proxy.close)
        self.good = self.service()
        self.s = self.service(shared=self.proxy.url())
        self.known(self.s)

    def test_bad(self):
        """One after the other, on the same services: after each all is as if it had not been."""
        for way in (self.stall, self.delay, self.reset, self.cut, self.trickle):
            with self.subTest(way.__name__):
                way()

    def known(self, s=None):
        """A graph that is in the cluster; with a service: which takes it from there."""
        g = graph()
        self.made(self.good, g)
        self.drained(self.good)
        if s:
            self.assertEqual(self.made(s, g)["cache"], "shared")
        return g

    def timed(self, g, bound):
        begun = time.monotonic()
        job = self.made(self.s, g)
        took = time.monotonic() - begun
        self.assertLess(took, bound * SLOW, job)
        again = []
        for _ in range(3):  # a hit does not ask anybody; the machine may have no core to give for a while
            begun = time.monotonic()
            self.assertEqual(self.s.post(g).headers["Dovetail-Cache"], "hit")
            again.append(time.monotonic() - begun)
        self.assertLess(min(again), 0.3 * SLOW, again)
        print(f"\n  {self.proxy.spoil.__class__.__name__}: {job['cache']} after {took:.2f} s", end=" ", flush=True)
        return job["cache"]

    def opened(self):
        return self.s.metric("dovetail_cluster_breaker_open")

    def well(self):
        """As if nothing had been."""
        self.proxy.spoil = right
        patient(lambda: self.cluster(self.s)["state"] == "ok", 60)
        self.assertEqual(self.opened(), 0)
        self.drained(self.s)
        self.known(self.s)
        self.assertEqual(self.cluster(self.s)["outbox"]["parked"], 0)

    def stall(self):
        """Nothing comes back: the job waits for one statement's time, then the breaker spares the others that."""
        known = [self.known() for _ in range(3)]
        self.proxy.spoil = Stall(self.proxy)
        self.assertEqual(self.timed(known[0], 8), "miss")
        patient(self.opened, 10)
        for g in known[1:]:
            self.assertEqual(self.timed(g, 4), "miss")
        self.well()

    def delay(self):
        """Later than a look-up waits: misses, and leases and results go all the same."""
        known = [self.known() for _ in range(2)]
        self.proxy.spoil = Delay(0.12)
        for g in known:
            self.assertEqual(self.timed(g, 8), "miss")
        self.assertEqual(self.opened(), 0)
        self.assertGreater(self.s.metric('dovetail_cluster_calls_total{call="claim",outcome="ok"}'), 0)
        self.well()

    def reset(self):
        """Connections end while they are used, again and again."""
        known = [self.known() for _ in range(4)]
        self.proxy.spoil = end
        self.assertIn(self.timed(known[0], 8), ("miss", "shared"))
        patient(self.opened, 10)
        self.proxy.spoil = right
        patient(lambda: not self.opened(), 30)
        for g in known[1:]:
            threading.Timer(0.05, self.proxy.reset).start()
            self.assertIn(self.timed(g, 8), ("miss", "shared"))
        self.well()

    def cut(self):
        """The row of a recipe ends in its middle: it is no recipe, and no damaged one either."""
        g = self.known()
        self.proxy.spoil = cut = Cut(self.proxy)
        self.assertEqual(self.timed(g, 8), "miss")
        self.assertGreater(cut.cuts, 0)
        self.well()
        self.assertEqual(self.db.sql("SELECT count(*) FROM dovetail_aside"), [["0"]])

    def trickle(self):
        """So few bytes a second that an answer takes longer than its deadline."""
        g = self.known()
        self.proxy.spoil = Trickle(8)
        self.assertEqual(self.timed(g, 10), "miss")
        self.well()


class Outbox(Cluster):
    def fill(self, path, n):
        """n rows as the one that is there, under other signatures: as if this host had found so many plans."""
        with sqlite3.connect(path) as c:
            c.row_factory = sqlite3.Row
            row = dict(c.execute("SELECT * FROM outbox").fetchone())
            row.pop("id")
            summed = ("signature", "device", "toolchain", "policy", "digest", "body", "facts")
            for i in range(n):
                row["signature"] = signature(f"filled {i}")
                row["sha256"] = row_sum([row[name] for name in summed])
                c.execute(f"INSERT INTO outbox ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
                          list(row.values()))
        c.close()

    def hits(self, s, known, until):
        """Milliseconds of hits on one connection, until something is so."""
        took, bodies, c = [], [json.dumps(g) for g in known], UnixHTTP(s.socket, 30 * SLOW)
        while not until():
            for body in 10 * bodies:
                begun = time.monotonic()
                c.request("POST", "/v1/jobs?want=plan", body)
                r = c.getresponse()
                r.read()
                took.append((time.monotonic() - begun) * 1e3)
                self.assertEqual(r.headers["Dovetail-Cache"], "hit")
        c.close()
        return took

    def test_many(self):
        """The server was away for long: all that was found meanwhile is sent, and users' jobs do not notice."""
        path = os.path.join(self.db.dir, "a.db")
        s = self.service(cache=path)
        known = [graph() for _ in range(10)]
        self.db.kill()
        for g in known[:1]:
            self.made(s, g)
        self.assertEqual(s.stop(), 0)
        self.fill(path, ROWS)
        s = self.service(cache=path)
        for g in known[1:]:
            self.made(s, g)
        total = ROWS + len(known)
        patient(lambda: self.cluster(s)["outbox"]["waiting"] == total)
        jobs = [graph() for _ in range(12)]
        ended = time.monotonic() + 1.5
        before = self.hits(s, known, lambda: time.monotonic() > ended)
        alone = [self.took(s, g) for g in jobs[:6]]
        total += len(jobs[:6])
        self.db.start()
        patient(lambda: self.cluster(s)["outbox"]["waiting"] < total, 30)
        begun, first = time.monotonic(), self.cluster(s)["outbox"]["waiting"]
        during = self.hits(s, known, lambda: self.cluster(s)["outbox"]["waiting"] < first * 2 // 3)
        beside = [self.took(s, g) for g in jobs[6:]]
        self.assertGreater(self.cluster(s)["outbox"]["waiting"], 0)
        during += self.hits(s, known, lambda: not self.cluster(s)["outbox"]["waiting"])
        seconds = time.monotonic() - begun
        was, now = (statistics.median(x) for x in (before, during))
        p99 = sorted(during)[len(during) * 99 // 100]
        print(f"\n  {first} rows in {seconds:.1f} s, {first / seconds:.0f} a second; hits {was:.2f} ms before, "
              f"{now:.2f} while they go (p99 {p99:.1f}); jobs {statistics.median(alone):.0f} and "
              f"{statistics.median(beside):.0f} ms", end=" ", flush=True)
        self.drained(s)
        self.assertEqual(self.cluster(s)["outbox"]["parked"] + self.cluster(s)["outbox"]["dropped"], 0)
        self.assertEqual(self.db.sql("SELECT count(*) FROM dovetail_entry"), [[str(total + 6)]])
        # the machine may be busy, and PostgreSQL writes ten thousand rows on it meanwhile
        self.assertLess(now, 3 * was + 2 * SLOW)
        self.assertLess(statistics.median(beside), 3 * statistics.median(alone) + 300 * SLOW)

    def took(self, s, g):
        begun = time.monotonic()
        self.made(s, g)
        return (time.monotonic() - begun) * 1e3


class Database(Cluster):
    """The server answers, and will not have what is put."""

    def test_each(self):
        for way in (self.read_only, self.newer, self.full):
            with self.subTest(way.__name__):
                way()

    def kept(self, state, undo):
        """Jobs are done, their results are kept, and sent when they can be."""
        s = self.service()
        for _ in range(2):
            self.assertLess(self.took(s, graph()), 8 * SLOW)
        patient(lambda: self.cluster(s)["state"] == state)
        self.assertEqual(self.cluster(s)["outbox"]["waiting"], 2)
        undo()
        patient(lambda: self.cluster(s)["state"] == "ok" and not self.cluster(s)["outbox"]["waiting"], 60)
        self.assertEqual((self.cluster(s)["outbox"]["parked"], self.cluster(s)["outbox"]["sent"]), (0, 2))
        return s

    def took(self, s, g, cache="miss"):
        begun = time.monotonic()
        self.assertEqual(self.made(s, g)["cache"], cache)
        return time.monotonic() - begun

    def filled(self):
        """One with a graph in it."""
        s, g = self.service(), graph()
        self.made(s, g)
        self.drained(s)
        return g

    def ends(self):
        self.db.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'dovetail'", "postgres")

    def read_only(self):
        """A replica: what is there is taken, what is found here waits until the replica is promoted."""
        g = self.filled()
        replica, primary = Replica(self.db), self.db
        self.addCleanup(replica.remove)
        self.db = replica
        try:
            patient(lambda: replica.sql("SELECT count(*) FROM dovetail_entry") == [["1"]])
            self.assertLess(self.took(self.service(), g, "shared"), 8 * SLOW)
            self.kept("read-only", replica.promote)
        finally:
            self.db = primary

    def newer(self):
        """Its tables are of a later major version."""
        g = self.filled()
        self.db.sql("UPDATE dovetail_schema SET major = major + 1")
        s = self.kept("schema", lambda: self.db.sql("UPDATE dovetail_schema SET major = major - 1"))
        self.took(s, g, "shared")

    def full(self):
        """Its disk is full: a small file system, or where none can be mounted the error alone."""
        g = self.filled()
        small = os.path.join(self.db.dir, "small")
        os.mkdir(small)
        mounted = os.geteuid() == 0 and not subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small],
                                                           capture_output=True, check=False).returncode
        if mounted:
            self.addCleanup(subprocess.run, ["umount", "-l", small], check=True)
            os.chown(small, self.db.user.pw_uid, self.db.user.pw_gid)
            self.db.sql(f"CREATE TABLESPACE small LOCATION '{small}'", "postgres")
            self.db.sql("ALTER TABLE dovetail_entry SET TABLESPACE small")
            self.db.sql("CREATE TABLE fill (x text) TABLESPACE small; ALTER TABLE fill ALTER x SET STORAGE EXTERNAL")
            for size in (100000, 8000, 1):
                with self.assertRaisesRegex(RuntimeError, "No space left"):
                    while True:
                        self.db.sql(f"INSERT INTO fill SELECT repeat('x', {size}) FROM generate_series(1, 4)")
            # what is left of the page that g is on
            columns = [r[0] for r in self.db.sql("SELECT attname FROM pg_attribute WHERE attnum > 2 AND "
                                                 "attrelid = 'dovetail_entry'::regclass ORDER BY attnum")]
            with self.assertRaisesRegex(RuntimeError, "No space left"):
                while True:
                    self.db.sql("INSERT INTO dovetail_entry SELECT 'filler', 'sha256:' || encode(sha256("
                                f"random()::text::bytea), 'hex'), {', '.join(columns)} FROM dovetail_entry LIMIT 1")
        else:
            self.db.sql("CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
                        "'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$; CREATE "
                        "TRIGGER full_disk BEFORE INSERT ON dovetail_entry EXECUTE FUNCTION full_disk()")
        print(f"\n  {'a small file system' if mounted else 'the error alone'}", end=" ", flush=True)
        self.took(self.service(), g, "shared")
        self.kept("ok", lambda: self.db.sql("DROP TABLE IF EXISTS fill; "
                                            "DROP TRIGGER IF EXISTS full_disk ON dovetail_entry"))


if __name__ == "__main__":
    main()
