"""Two services, one database: what one finds the other gets; work is done once; nobody waits for what is away.

A graph's signature decides; graphs differ in the factor of their kernels. What a service did is read off its jobs'
`cache` and its metrics, what happened in the cluster off the tables.
"""
import json
import os
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
from harness import SLOW, cli, schema  # noqa: E402
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

    def test_factors(self):
        """What the signature is made of stands with the entry, as explain shows it."""
        a, g = self.service(), graph()
        signature = self.made(a, g)["signature"]
        self.drained(a)
        explained = a.http("GET", self.made(a, g, "want=explain")["links"]["result"]).json()
        ((factors,),) = self.db.sql(f"SELECT factors FROM dovetail_entry WHERE signature = '{signature}'")
        self.assertEqual(json.loads(factors), explained["factors"])
        self.assertEqual(json.loads(factors)["launches"], "3")

    def test_near(self):
        """explain says what the cluster has for another device and for other options, the nearest first."""
        here, there, g = self.service("soft:h200"), self.service("soft:h100"), graph()

        def explained(s, query=""):
            r = s.http("GET", self.made(s, g, "want=explain" + query)["links"]["result"])
            return r.json()
        o = explained(here)
        self.assertEqual(schema.faults(o, "explanation"), [])
        self.assertEqual(o["cluster"], {"state": "none"})
        self.drained(here)
        o = explained(there)
        self.assertEqual(schema.faults(o, "explanation"), [])
        near = o["cluster"]
        self.assertEqual((near["state"], [d["factor"] for d in near["differs"]]), ("near", ["device"]))
        self.assertIn("h200", near["differs"][0]["stored"])
        self.assertIn("h100", near["differs"][0]["mine"])
        self.drained(there)
        o = explained(here, "&deny=split")  # two differ from h100's, one from its own
        self.assertEqual([d["factor"] for d in o["cluster"]["differs"]], ["policy"])
        self.assertNotIn("cluster", explained(there, "&share=0"))
        path = os.path.join(self.db.dir, "g.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(g, f)
        self.assertIn("in the cluster: nearest entry differs in\n    device: here ",
                      cli("explain", path, "--socket", there.socket).stdout)
        self.db.kill()
        self.assertEqual(explained(there, "&deny=split")["cluster"], {"state": "away"})
        self.assertIn("did not answer", cli("explain", path, "--socket", there.socket).stdout)

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
    def store(self, space="default"):
        store = Store(self.db.url(), space)
        self.addCleanup(store.close)
        return store

    def row(self, signature):
        (key,) = self.db.sql("SELECT signature, device, toolchain, policy FROM dovetail_entry "
                             f"WHERE signature = '{signature}'")
        return key

    def sent(self, s, g):
        signature = self.made(s, g)["signature"]
        self.drained(s)
        return signature

    def test_signed(self):
        """Of a host that is believed: taken; of one that does not sign, or of a stranger: planned here, and said."""
        lines = self.keys("farm", "barn")
        farm, barn, plain = self.signing("farm"), self.signing("barn"), self.service()
        strict = self.service(signers=self.believe(lines["farm"]), require_signer="any")
        g, unsigned, strange = graph(), graph(), graph()
        self.sent(farm, g)
        self.assertEqual(self.made(strict, g)["cache"], "shared")
        self.assertEqual(self.made(plain, g)["cache"], "shared")  # who asks for no signer takes it all the same
        for s, theirs, seal in ((plain, unsigned, "unsigned"), (barn, strange, "stranger")):
            self.sent(s, theirs)
            self.assertEqual(self.untrusted(strict, seal), 0)
            self.assertEqual(self.made(strict, theirs)["cache"], "miss")
            self.assertGreaterEqual(self.untrusted(strict, seal), 1)
        self.assertEqual(strict.read_log().count("rows of the cluster were not used"), 1)  # once a minute
        self.assertIn("it is not signed", strict.read_log())

    def test_replaced(self):
        """What a host that signs does not believe, its own result replaces: it is not in the way for ever."""
        lines = self.keys("farm")
        signers = self.believe(lines["farm"])
        g, store = graph(), self.store()
        key = self.row(self.sent(self.service(), g))
        self.assertNotIn("seal", store.find(key).row)
        strict = self.signing("farm", signers=signers, require_signer="farm")
        self.assertEqual(self.made(strict, g)["cache"], "miss")
        self.drained(strict)
        self.assertEqual(store.find(key).row["signer"], "farm")
        self.assertEqual(self.made(self.service(signers=signers, require_signer="any"), g)["cache"], "shared")

    def test_altered(self):
        """A row that was signed and altered is a miss also where no signer is required, if the signer is known."""
        lines = self.keys("farm")
        a, g, store = self.signing("farm"), graph(), self.store()
        signers = self.believe(lines["farm"])
        key = self.row(self.sent(a, g))
        row = store.find(key).row
        seal = {m: row[m] for m in ("signer", "seal", "stamp", "factors") if m in row}
        self.assertEqual(store.put(key, recipe={**row["recipe"], "more": 1}, digest=row["digest"],
                                   instead=row["digest"], rewriter=row["rewriter"], evidence=row["evidence"],
                                   **seal).outcome, "ok")
        for config in ({}, {"require_signer": "any"}):
            b = self.service(signers=signers, **config)
            self.assertEqual(self.made(b, g)["cache"], "miss")
            self.assertGreaterEqual(self.untrusted(b, "forged"), 1)

    def test_moved(self):
        """A copy in another namespace, seal and all, is a miss there."""
        lines = self.keys("farm")
        signers = self.believe(lines["farm"])
        g = graph()
        key = self.row(self.sent(self.signing("farm"), g))
        row = self.store().find(key).row
        for name in ("created", "used"):
            del row[name]
        self.assertEqual(self.store("other").put(key, **row).outcome, "ok")
        b = self.service(signers=signers, require_signer="any", shared_namespace="other")
        self.assertEqual(self.made(b, g)["cache"], "miss")
        self.assertGreaterEqual(self.untrusted(b, "forged"), 1)
        self.assertEqual(self.made(self.service(signers=signers, require_signer="any"), g)["cache"], "shared")

    def test_revoked(self):
        """A key that is revoked, or replaced by another of its name, counts from the next look-up on."""
        lines, graphs = self.keys("farm"), [graph() for _ in range(3)]
        a = self.signing("farm")
        for g in graphs:
            self.sent(a, g)
        b = self.service(signers=self.believe(lines["farm"]), require_signer="farm")
        self.assertEqual(self.made(b, graphs[0])["cache"], "shared")
        os.unlink(os.path.join(self.db.dir, "farm"))
        new = self.keys("farm")["farm"]
        self.believe(lines["farm"].strip() + " revoked\n" + new)
        self.assertEqual(self.made(b, graphs[1])["cache"], "miss")
        self.assertGreaterEqual(self.untrusted(b, "revoked"), 1)
        self.believe(new)
        self.assertEqual(self.made(b, graphs[2])["cache"], "miss")
        self.assertGreaterEqual(self.untrusted(b, "forged"), 1)
        fresh = graph()  # a signs with the new key, without a restart
        self.sent(a, fresh)
        self.assertEqual(self.made(b, fresh)["cache"], "shared")

    def test_no_key(self):
        """A key that cannot be read: nothing goes out unsigned; it does when the key is back."""
        lines = self.keys("farm")
        a, g = self.signing("farm"), graph()
        path = os.path.join(self.db.dir, "farm")
        os.rename(path, path + ".away")
        self.made(a, g)
        patient(lambda: "cannot be signed" in a.read_log())
        self.assertEqual(self.cluster(a)["outbox"]["waiting"], 1)
        os.rename(path + ".away", path)
        self.drained(a)
        self.assertEqual(self.made(self.service(signers=self.believe(lines["farm"]), require_signer="any"),
                                   g)["cache"], "shared")

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
