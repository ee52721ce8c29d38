"""Nights of several hosts on one database: a new GPU model is caught up with, each graph by one host; a host that dies,
a graph that fails, a database that is away, hosts that begin later.

A host of the new model has the graphs of an old one: its GPU was exchanged, and it goes on with its store.
"""
import json
import os
import signal
import sqlite3
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
from harness import chain, cli, endless, schema  # noqa: E402
from hosts import Cluster, factor, main, patient  # noqa: E402

OLD, NEW = "soft:a100", "soft:h200"


class Night(Cluster):
    def filled(self, n, device=OLD):
        """A host that has planned so many graphs; they differ in what they save."""
        s = self.service(device)
        graphs = [chain(2 + i % 3, factor=float(next(factor))) for i in range(n)]
        for g in graphs:
            self.made(s, g)
        self.drained(s)
        return s, graphs

    def heir(self, old, device=NEW, **config):
        """A host with the store of another, and another GPU."""
        return self.service(device, store=old.dir + "/cache.db", **config)

    def begin(self, s, budget=600):
        return json.loads(cli("reprofile", "--stale", "--budget", str(budget), "--json", "--socket", s.socket).stdout)

    def report(self, s):
        r = s.http("GET", "/v1/reprofile/report")
        self.assertEqual(r.status, 200, r.body)
        doc = r.json()
        self.assertEqual(schema.faults(doc, "night"), [])
        return doc

    def morning(self, s, seconds=120):
        patient(lambda: self.report(s)["state"] != "running", seconds)
        return self.report(s)

    def planned(self, s, g):
        r = s.post(g)
        return r.status == 200 and r.headers["Dovetail-Cache"] == "hit"

    def test_new_model(self):
        """By morning all is planned for both models; each graph was searched for by one of the new hosts."""
        old, graphs = self.filled(9)
        hosts = [self.heir(old), self.heir(old)]
        threads = [threading.Thread(target=lambda s=s: self.begin(s)) for s in hosts]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        reports = [self.morning(s) for s in hosts]
        rows = [r for doc in reports for r in doc["graphs"]]
        for doc in reports:
            self.assertEqual((doc["state"], doc["due"], doc["queue"]), ("done", 9, True))
            self.assertIn("h200", doc["device"])
        self.assertEqual(len({r["graph"] for r in rows}), len(rows))
        self.assertEqual(len(rows), 9)
        self.assertEqual({(r["reason"], r["outcome"] in ("faster", "unchanged"), r["shared"]) for r in rows},
                         {("missing", True, False)})
        self.assertGreater(sum(doc["outcomes"]["faster"] for doc in reports), 5)
        for r in rows:
            self.assertEqual(r["before_us"], r["posted_us"])
            self.assertLessEqual(r["after_us"], r["before_us"])
        print("\ngraph                        before     after  gain, modelled")
        for r in rows:
            print(f"{r['graph'][:26]:26} {r['before_us']:8.2f}  {r['after_us']:8.2f} "
                  f"{r['before_us'] / r['after_us']:5.2f}")
        for s in hosts:
            self.drained(s)
        for n, device in ((9, "a100"), (9, "h200")):
            there = f"SELECT count(*) FROM dovetail_entry WHERE device LIKE '%{device}%'"
            self.assertEqual(self.db.sql(there), [[str(n)]])
        self.assertEqual(sum(self.told(s, "plan") for s in hosts), 9)  # searched for, all together
        # what a host has not planned itself it gets by the other's recipe
        for s in hosts:
            for g in graphs:
                r = s.post(g)
                if r.status != 200:
                    self.assertEqual(s.finish(r, 60)["cache"], "shared")
        self.assertEqual(sum(self.told(s, "plan") for s in hosts), 9)
        # the next night, and a host that comes late, have nothing to do
        self.assertEqual(self.begin(hosts[0])["due"], 0)
        late = self.heir(old)
        self.assertEqual(self.begin(late)["due"], 9)
        doc = self.morning(late)
        self.assertEqual((doc["state"], doc["graphs"]), ("done", []))

    def test_travel(self):
        """Hosts of a new model begin with nothing: graphs that may travel are planned for them, too, each by one."""
        old, home = self.service(OLD, shared_graphs="yes"), self.service(OLD)
        graphs = [chain(2 + i % 2, factor=float(next(factor))) for i in range(4)]
        for g in graphs:
            g["buffers"]["a"] = {"bytes": g["buffers"]["a"]["bytes"], "role": "input", "fill": {"zero": True}}
            self.made(old, g)
        stays = chain(2, factor=float(next(factor)))
        self.made(old, stays, "want=plan&share=0")
        self.made(home, chain(2, factor=float(next(factor))))
        patient(lambda: self.db.sql("SELECT count(*) FROM dovetail_graph") == [["4"]])
        hosts = [self.service(NEW, shared_graphs="yes"), self.service(NEW, shared_graphs="yes")]
        for s in hosts:
            self.assertEqual(self.begin(s)["due"], 0)
        reports = [self.morning(s) for s in hosts]
        rows = [r for doc in reports for r in doc["graphs"]]
        self.assertEqual(sorted(doc["state"] for doc in reports), ["done", "done"])
        self.assertEqual((len(rows), len({r["graph"] for r in rows})), (4, 4))
        self.assertEqual({(r["reason"], r["outcome"]) for r in rows}, {("missing", "faster")})
        for s in hosts:
            self.drained(s)
        self.assertEqual(self.db.sql("SELECT count(*) FROM dovetail_entry WHERE device LIKE '%h200%'"), [["4"]])
        for g in graphs:  # by morning nobody searches
            self.assertIn(self.planned(hosts[0], g) or self.made(hosts[0], g)["cache"], (True, "shared"))
        # a document under another's digest is planned by nobody
        self.db.sql("DELETE FROM dovetail_work; UPDATE dovetail_graph SET digest = 'sha256:' || repeat('ab', 32) "
                    "WHERE digest = (SELECT min(digest) FROM dovetail_graph)")
        late = self.service(NEW, shared_graphs="yes")
        self.begin(late)
        doc = self.morning(late)
        self.assertEqual((doc["state"], len(doc["graphs"])), ("done", 3))
        self.assertEqual(self.db.sql("SELECT state, tries, count(*) FROM dovetail_work GROUP BY 1, 2 ORDER BY 1"),
                         [["done", "1", "3"], ["waiting", "0", "1"]])

    def test_order(self):
        """What saves most, times its uses, comes first."""
        old, graphs = self.filled(3)
        for _ in range(40):
            self.assertTrue(self.planned(old, graphs[0]))
        store = sqlite3.connect(old.dir + "/cache.db", timeout=60)
        patient(lambda: store.execute("SELECT max(hits) FROM entry").fetchone()[0] >= 40)
        store.close()
        new = self.heir(old)
        self.begin(new)
        rows = self.morning(new)["graphs"]
        self.assertEqual([r["rank"] for r in rows], sorted((r["rank"] for r in rows), reverse=True))
        signature = new.post(graphs[0]).headers["Dovetail-Signature"]
        self.assertEqual(rows[0]["signature"], signature)

    def test_host_dies(self):
        """A host is killed with an entry in hand: when its lease ends the other one makes it, once."""
        old, graphs = self.filled(4)
        a, b = self.heir(old), self.heir(old)
        held = "SELECT count(*) FROM dovetail_work WHERE state = 'waiting' AND tries > 0 AND expires > now()"
        self.begin(a)
        patient(lambda: self.db.sql(held) != [["0"]])
        a.process.send_signal(signal.SIGSTOP)  # it does not renew
        time.sleep(0.3)
        self.begin(b)
        a.process.kill()
        doc = self.morning(b)
        self.assertEqual(doc["state"], "done")
        for g in graphs:
            self.assertTrue(self.planned(b, g) or self.made(b, g)["cache"] == "shared")
        self.assertEqual(self.db.sql("SELECT state, count(*) FROM dovetail_work GROUP BY state"), [["done", "4"]])

    def test_gives_way(self):
        """While users' jobs run nothing is claimed, and what was claimed has been given back."""
        old, _ = self.filled(3)
        new = self.heir(old)
        user = new.post(endless())
        self.begin(new)
        time.sleep(1.5)
        free = "SELECT count(*) FROM dovetail_work WHERE expires > now()"
        self.assertEqual(self.db.sql(free), [["0"]])
        new.http("DELETE", f"/v1/jobs/{user.json()['id']}")
        self.assertEqual(self.morning(new)["outcomes"]["failed"], 0)

    def test_budget(self):
        """When the time is over, what is under way is given back."""
        old, _ = self.filled(2)
        new = self.heir(old)
        user = new.post(endless())
        self.begin(new, budget=1)
        doc = self.morning(new)
        self.assertEqual((doc["state"], doc["graphs"]), ("budget", []))
        self.assertEqual(self.db.sql("SELECT state, tries, count(*) FROM dovetail_work GROUP BY state, tries"),
                         [["waiting", "0", "2"]])
        new.http("DELETE", f"/v1/jobs/{user.json()['id']}")

    def test_not_here(self):
        """An entry whose graph this host has not goes back as it was; the others are made."""
        old, _ = self.filled(2)
        new, other = self.heir(old), self.service(OLD)
        self.made(other, chain(2, factor=float(next(factor))))
        elsewhere = self.heir(other)
        user = elsewhere.post(endless())  # it adds, and has no time
        self.begin(elsewhere)
        patient(lambda: self.db.sql("SELECT count(*) FROM dovetail_work") == [["1"]])
        self.begin(new)
        doc = self.morning(new)
        self.assertEqual((doc["state"], len(doc["graphs"])), ("done", 2))
        states = "SELECT state, tries, count(*) FROM dovetail_work GROUP BY state, tries ORDER BY 1"
        self.assertEqual(self.db.sql(states), [["done", "1", "2"], ["waiting", "0", "1"]])
        elsewhere.http("DELETE", f"/v1/jobs/{user.json()['id']}")
        self.assertEqual(len(self.morning(elsewhere)["graphs"]), 1)

    def test_away(self):
        """Without the database a host goes through its own list."""
        old, _ = self.filled(3)
        new = self.heir(old)
        patient(lambda: self.cluster(new)["state"] == "ok")
        self.db.kill()
        self.begin(new)
        doc = self.morning(new)
        self.assertEqual((doc["state"], len(doc["graphs"]), doc["outcomes"]["failed"]), ("done", 3, 0))


if __name__ == "__main__":
    main()
