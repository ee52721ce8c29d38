"""Two services, one database: what one finds the other gets; work is done once; nobody waits for what is away.

A graph's signature decides; graphs differ in the factor of their kernels. What a service did is read off its jobs'
`cache` and its metrics, what happened in the cluster off the tables.
"""
import os
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
from harness import SLOW, cli  # noqa: E402
from hosts import Cluster, graph, main, patient, slow_graph  # noqa: E402
from store import Store  # noqa: E402


class Shared(Cluster):
    def test_other_host(self):
        """The second host makes the plan by the recipe of the first, and says so; then it has it itself."""
        a, b, g = self.service(), self.service(), graph()
        first = self.made(a, g)
        self.assertEqual(first["cache"], "miss")
        self.drained(a)
        second = self.made(b, g)
        self.assertEqual((second["cache"], second["signature"]), ("shared", first["signature"]))
        one, two = (s.http("GET", j["links"]["result"]) for s, j in ((a, first), (b, second)))
        self.assertEqual(two.headers["Dovetail-Cache"], "shared")
        self.assertTrue(two.json()["verified"]["bitwise"] and two.json()["verified"]["reverified"])
        self.assertEqual(one.json()["modules"], two.json()["modules"])
        self.assertEqual(one.json()["launches"], two.json()["launches"])
        again = b.post(g)
        self.assertEqual((again.status, again.headers["Dovetail-Cache"]), (200, "hit"))
        self.assertEqual((self.told(b, "recipe"), self.told(b, "plan")), (1, 0))

    def test_once(self):
        """Equal posts on both hosts at once: each graph is searched for once."""
        hosts, graphs, jobs = (self.service(), self.service()), [graph() for _ in range(8)], []

        def post(s, g):
            jobs.append(self.made(s, g))
        posts = [threading.Thread(target=post, args=(s, g)) for g in graphs for s in hosts]
        for t in posts:
            t.start()
        for t in posts:
            t.join()
        self.assertEqual(sorted(j["cache"] for j in jobs), ["miss"] * 8 + ["shared"] * 8)
        self.assertEqual(sum(self.told(s, "plan") for s in hosts), 8)
        self.assertEqual(sum(self.told(s, "away") + self.told(s, "overtime") for s in hosts), 0)

    def test_local(self):
        """share=0, and share = uid: nobody is told, nobody is asked."""
        a, b, g, apart = self.service(), self.service(), graph(), self.service(share="uid")
        self.made(a, g, "want=plan&share=0")
        self.made(apart, graph())
        time.sleep(1.5)
        self.assertEqual(self.cluster(a)["outbox"]["sent"] + self.cluster(apart)["outbox"]["sent"], 0)
        self.assertEqual(self.made(b, g)["cache"], "miss")
        self.drained(b)
        self.assertEqual(self.made(apart, g)["cache"], "miss")

    def test_namespaces(self):
        """A host of another namespace sees nothing of it."""
        a, other, g = self.service(), self.service(shared_namespace="other"), graph()
        self.made(a, g)
        self.drained(a)
        self.assertEqual(self.made(other, g)["cache"], "miss")


class Death(Cluster):
    def test_owner_dies(self):
        """Who waits for a host that dies plans itself when the lease has run out."""
        a, b, g = self.service(), self.service(), slow_graph()
        self.assertEqual(a.post(g).status, 202)
        patient(lambda: self.cluster(a)["leases"])
        waiting = b.post(g)
        patient(lambda: b.metric("dovetail_cluster_waits_total"))
        workers = [w["pid"] for w in a.workers()]
        a.process.kill()
        a.process.wait()
        patient(lambda: not any(os.path.exists(f"/proc/{w}") for w in workers))
        begun = time.monotonic()
        patient(lambda: self.cluster(b)["leases"], 30)
        self.assertLess(time.monotonic() - begun, 20 * SLOW)  # 15 s after it was renewed last
        self.assertEqual(self.told(b, "plan"), 1)
        job = b.finish(waiting, 200)
        self.assertEqual((job["state"], job["cache"]), ("done", "miss"), job)

    def test_cancelled(self):
        """A job that is cancelled gives its lease back at once; the one that waited goes on."""
        a, b, g = self.service(), self.service(), slow_graph()
        mine = a.post(g)
        patient(lambda: self.cluster(a)["leases"])
        theirs = b.post(g)
        patient(lambda: b.metric("dovetail_cluster_waits_total"))
        a.http("DELETE", mine.headers["Location"])
        patient(lambda: self.cluster(b)["leases"], 8)
        b.http("DELETE", theirs.headers["Location"])
        patient(lambda: not self.cluster(b)["leases"])

    def test_no_time(self):
        """Who has no time to wait plans as well: half of what the job has, no more."""
        a, b, g = self.service(), self.service(), slow_graph()
        mine = a.post(g)
        patient(lambda: self.cluster(a)["leases"])
        for w in a.workers():
            os.kill(w["pid"], signal.SIGSTOP)
        theirs = b.post(g, "want=plan&timeout=6")
        patient(lambda: self.told(b, "overtime"), 10)
        b.http("DELETE", theirs.headers["Location"])
        a.http("DELETE", mine.headers["Location"])


class Away(Cluster):
    def test_away(self):
        """Without the server every job is answered as if there were no cluster; its results go out later."""
        a, b = self.service(), self.service()
        self.made(a, graph())
        self.drained(a)
        self.db.kill()
        g = graph()
        for s in (a, b):
            begun = time.monotonic()
            self.assertEqual(self.made(s, g)["cache"], "miss")
            self.assertLess(time.monotonic() - begun, 10 * SLOW)
        health = a.http("GET", "/healthz").json()
        self.assertEqual((health["status"], health["cluster"]["outbox"]["waiting"]), ("ok", 1))
        self.assertIn("1 results to send", cli("status", "--socket", a.socket).stdout)
        self.db.start()
        patient(lambda: not self.cluster(a)["outbox"]["waiting"] and not self.cluster(b)["outbox"]["waiting"], 60)
        self.assertEqual(self.made(self.service(), g)["cache"], "shared")

    def test_start(self):
        """A service starts without its server, and finds it later; what waited over a restart is sent."""
        self.db.kill()
        a = self.service(cache=os.path.join(self.db.dir, "a.db"))
        g = graph()
        self.made(a, g)
        a.process.kill()
        a.process.wait()
        b = self.service(cache=os.path.join(self.db.dir, "a.db"))
        patient(lambda: self.cluster(b)["outbox"]["waiting"] == 1)
        self.db.start()
        patient(lambda: not self.cluster(b)["outbox"]["waiting"], 60)
        self.assertEqual(self.made(self.service(), g)["cache"], "shared")


class Trust(Cluster):
    def test_forged(self):
        """A row that says something else than its recipe does is a miss, set aside, and the host plans itself."""
        a, b, g = self.service(), self.service(), graph()
        signature = self.made(a, g)["signature"]
        self.drained(a)
        store = Store(self.db.url())
        self.addCleanup(store.close)
        (key,) = self.db.sql("SELECT signature, device, toolchain, policy FROM dovetail_entry "
                             f"WHERE signature = '{signature}'")
        right = store.find(key).row["digest"]
        self.assertEqual(store.forge(key, "sha256:" + "0" * 64).outcome, "ok")
        self.assertEqual(self.made(b, g)["cache"], "miss")
        recipes = b.http("GET", "/v1/cache/entries").json()["recipes"]
        self.assertEqual([(r["state"], r["origin"]) for r in recipes], [("refused", "cluster")], recipes)
        self.drained(b)
        self.assertEqual(store.find(key).row["digest"], right)  # what did not hold is replaced

    def test_network(self):
        """Workers have no network, and are not told where the server is."""
        os.environ["PGPASSWORD"] = "geheim"
        self.addCleanup(os.environ.pop, "PGPASSWORD")
        a = self.service()
        self.made(a, graph())
        own = os.readlink("/proc/self/ns/net")
        network = a.http("GET", "/healthz").json()["confinement"]["worker"]["network"]
        for w in a.workers():
            with open(f"/proc/{w['pid']}/environ", "rb") as f:
                self.assertNotIn(b"geheim", f.read())
            self.assertEqual(os.readlink(f"/proc/{w['pid']}/ns/net") != own, network == "namespace")
            with open(f"/proc/{w['pid']}/status", encoding="utf-8") as f:
                status = dict(line.split(":", 1) for line in f)
            self.assertEqual(int(status["Uid"].split()[0]), os.geteuid())
        self.assertNotIn("geheim", a.read_log())


if __name__ == "__main__":
    main()
