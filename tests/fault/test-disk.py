"""The disk fails under the service's cache (full, broken, read-only, slow), or the clock jumps, by faulty.c; and the
file is one that it cannot have. The work goes on; what is stored is served where it can be read; health, figures,
metrics and log say what is the matter, and that it is over.
"""
import os
import shutil
import sqlite3
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness  # noqa: E402
from faulty import Faulty  # noqa: E402


class DiskCase(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dovetail-disk.")
        self.db = self.dir + "/sub/cache.db"
        self.faulty = Faulty("dovetaild", "dovetail-worker")  # a disk fails for both, and either may open it first
        self.next = 0
        self.s = None
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.addCleanup(self.faulty.close)

    def tearDown(self):
        if self.s:
            self.faulty.heal()
            status, log = self.s.stop(), self.s.read_log()
            self.s.remove()
            self.assertEqual(status, 0, log)
            self.assertNotIn("Sanitizer", log)

    def start(self, **config):
        before = dict(os.environ)
        os.environ.update(self.faulty.env)
        try:
            self.s = harness.Service({"cache": self.db, **config})
        finally:
            os.environ.clear()
            os.environ.update(before)

    def post(self, i):
        """The document of graph i, and how it was come by."""
        r = self.s.post(harness.chain(2, factor=2 + i / 1024))
        if r.status == 200:
            return r.json(), r.headers["Dovetail-Cache"]
        job = self.s.finish(r)
        self.assertEqual(job["state"], "done", job)
        return self.s.http("GET", r.headers["Location"] + "/result").json(), "miss"

    def work(self):
        """A graph that is new is planned."""
        self.next += 1
        return self.post(self.next)

    def store(self):
        health = self.s.http("GET", "/healthz").json()
        self.assertEqual(health["status"], "ok" if health["store"]["state"] == "ok" else "degraded")
        return health["store"]

    def until(self, state):
        """Work goes on, and the store comes to this state."""
        deadline = time.monotonic() + 60 * harness.SLOW
        while self.store()["state"] != state:
            self.assertLess(time.monotonic(), deadline, self.s.read_log())
            self.work()

    def until_hit(self, i):
        """Graph i is kept: each of the handles that write looks by itself whether it can."""
        deadline = time.monotonic() + 60 * harness.SLOW
        while self.post(i)[1] != "hit":
            self.assertLess(time.monotonic(), deadline, self.s.read_log())
            time.sleep(0.1)

    def broken(self, error, read_only=False):
        """The disk fails in writing; then it does not."""
        self.start()
        first, _ = self.post(500)
        self.faulty.disk(os.path.dirname(self.db), error, read_only)
        self.until("degraded")
        self.assertGreater(self.faulty.get("disk_hits"), 0)
        store = self.store()
        self.assertTrue(store["trouble"])
        self.assertGreater(store["failed_writes"], 0)
        self.assertEqual(self.s.metric("dovetail_store_writable"), 0)
        self.assertGreater(self.s.metric("dovetail_cache_failed_writes_total"), 0)
        self.assertEqual(self.post(500), (first, "hit"))
        self.assertIn("cannot be written", self.s.read_log())
        self.faulty.heal()
        self.until("ok")
        self.assertIn("can be written again", self.s.read_log())
        self.assertEqual(self.post(500), (first, "hit"))
        self.assertTrue(self.s.http("GET", "/v1/cache/verify").json()["ok"])


class Broken(DiskCase):
    def test_full(self):
        self.broken("ENOSPC")

    def test_errors(self):
        self.broken("EIO")

    def test_quota(self):
        self.broken("EDQUOT")

    def test_becomes_read_only(self):
        self.broken("EROFS", read_only=True)

    def test_gc_on_a_full_disk(self):
        """Nothing of it can be done: it says so, and nothing is lost."""
        self.start()
        first, _ = self.post(500)
        self.faulty.disk(os.path.dirname(self.db), "ENOSPC")
        r = self.s.http("POST", "/v1/cache/gc?max_bytes=0")
        self.assertEqual((r.status, r.json()["code"]), (500, "cache"), r.body)
        self.assertEqual(self.post(500), (first, "hit"))
        self.faulty.heal()
        self.assertEqual(self.s.http("POST", "/v1/cache/gc?max_bytes=0").status, 200)
        self.assertEqual(self.post(500)[1], "miss")

    def test_slow(self):
        """Every write takes a while: answers come all the same, and health at once."""
        self.start()
        first, _ = self.post(500)
        self.faulty.disk(os.path.dirname(self.db), slow_s=0.1)
        begin = time.monotonic()
        self.assertEqual(self.store()["state"], "ok")
        self.assertLess(time.monotonic() - begin, 5 * harness.SLOW)
        self.work()
        self.assertEqual(self.post(500), (first, "hit"))
        self.assertGreater(self.faulty.get("disk_hits"), 0)


class Absent(DiskCase):
    """It starts and serves without a store, says so, and finds it later."""
    def absent(self, says):
        self.start()
        self.assertEqual(self.store()["state"], "absent")
        self.assertIn(says, self.store()["trouble"])
        self.assertIn("working without a cache", self.s.read_log())
        self.assertEqual(self.s.metric("dovetail_store_open"), 0)
        self.assertEqual(self.s.http("GET", "/v1/cache").json()["store"]["state"], "absent")
        self.assertEqual(self.s.http("GET", "/v1/cache/verify").status, 500)
        doc, how = self.post(500)
        self.assertEqual(how, "miss")
        self.assertTrue(doc["signature"])

    def back(self):
        self.until("ok")
        self.assertIn("is open again", self.s.read_log())
        self.until_hit(500)

    def test_read_only_disk(self):
        self.faulty.disk(os.path.dirname(self.db), read_only=True)
        self.absent("cannot be opened")
        self.faulty.heal()
        self.back()

    def test_read_only_from_the_start(self):
        """What a service that was killed left there is back when the disk is."""
        self.start()
        first, _ = self.post(500)
        self.s.process.kill()  # file, log and the log's index stay: SQLite would read them
        self.s.process.wait()
        self.s.log.close()
        self.s.remove()
        self.faulty.disk(os.path.dirname(self.db), read_only=True)
        self.absent("cannot be opened for writing")
        self.faulty.heal()
        self.back()
        self.assertEqual(self.post(500), (first, "hit"))

    def test_full_disk(self):
        self.faulty.disk(os.path.dirname(self.db), "ENOSPC")
        self.absent("full")
        self.faulty.heal()
        self.back()

    def test_no_folder(self):
        with open(os.path.dirname(self.db), "w", encoding="utf-8"):
            pass
        self.absent("sub")
        os.unlink(os.path.dirname(self.db))
        self.back()

    def test_another_program(self):
        os.mkdir(os.path.dirname(self.db))
        db = sqlite3.connect(self.db)
        db.execute("CREATE TABLE theirs (x)")
        db.commit()
        self.absent("another program's")
        db.execute("INSERT INTO theirs VALUES (5)")
        db.commit()
        db.close()
        os.unlink(self.db)
        self.back()

    def test_newer(self):
        os.mkdir(os.path.dirname(self.db))
        db = sqlite3.connect(self.db)
        db.execute("CREATE TABLE entry (x)")
        db.execute(f"PRAGMA application_id = {0x446f7674}")
        db.execute("PRAGMA user_version = 999")
        db.close()
        self.absent("newer dovetail")


class Damage(DiskCase):
    def test_rows_and_file(self):
        """A damaged row, then a damaged page, under the running service."""
        self.start()
        first, _ = self.post(500)
        self.post(501)
        db = sqlite3.connect(self.db, timeout=30)
        db.execute("UPDATE entry SET body = '{}' WHERE want = 'plan' AND body LIKE '%2.48%'")
        db.execute("UPDATE entry SET body = body || ' ' WHERE id = (SELECT max(id) FROM entry)")
        db.commit()
        self.assertEqual(self.post(501)[1], "miss")
        self.assertGreater(self.s.metric("dovetail_cache_damaged_total"), 0)
        self.assertIn("is damaged, and was set aside", self.s.read_log())
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_entry_1'").fetchone()[0]
        db.close()
        with open(self.db, "r+b") as f:
            f.seek((root - 1) * 4096)
            f.write(b"\xee" * 4096)
        self.assertEqual(self.post(500)[0], first)
        deadline = time.monotonic() + 60 * harness.SLOW
        while self.store()["saved_rows"] == 0 and time.monotonic() < deadline:
            self.work()
        self.assertEqual(self.store()["damaged_files"], 1)
        self.assertGreater(self.store()["saved_rows"], 0)
        self.assertTrue(os.path.exists(self.db + ".bad"))
        self.assertEqual(self.post(500), (first, "hit"))


class Clock(DiskCase):
    def test_jumps(self):
        """Ten years ahead, back, and before 1970: jobs, waits and hits do not notice; the bound still works."""
        self.start(cache_max_mb="1")
        first, _ = self.post(500)
        for jump in (315360000, -315360000, -3000000000, 0):
            self.faulty.set(clock_s=jump)
            self.assertEqual(self.post(500), (first, "hit"))
            begin = time.monotonic()
            self.assertEqual(self.work()[1], "miss")
            self.assertLess(time.monotonic() - begin, 60 * harness.SLOW)
            begin = time.monotonic()
            r = self.s.post(harness.endless(self.next), "want=run&timeout=2")
            job = self.s.finish(r)
            self.assertEqual((job["state"], job["problem"]["code"]), ("failed", "time-limit"), job)
            self.assertGreater(time.monotonic() - begin, 1.5)
        self.assertEqual(self.store()["state"], "ok")


if __name__ == "__main__":
    harness.main()
