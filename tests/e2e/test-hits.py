"""Hits: by the exact body from memory and from the store, by the signature; what makes a reply good no longer; who
writes; tags and encodings of what is asked for by GET."""
import ctypes
import http.client
import json
import os
import shutil
import sqlite3
import tempfile
import time
import unittest

from harness import SLOW, Service, ServiceCase, UnixHTTP, chain, row_sum

FROM = ("memory", "store", "signature")


class Counted:
    """A service, and where its hits came from since the last look."""

    def __init__(self, s):
        self.s = s
        self.seen = self.read()

    def read(self):
        return [self.s.metric(f'dovetail_reply_hits_total{{from="{f}"}}') for f in FROM]

    def came(self):
        """{where: how many} since the last call."""
        before, self.seen = self.seen, self.read()
        return {f: int(b - a) for f, a, b in zip(FROM, before, self.seen) if b > a}


def posted(s, graph, query="want=plan", **how):
    """The document: of a hit at once, or of the job."""
    r = s.http("POST", "/v1/jobs?" + query, graph, **how)
    if r.status == 202:
        s.finish(r)
        r = s.http("GET", r.headers["Location"] + "/result")
    return r


def other(graph, name):
    return {**graph, "name": name}


class Hits(ServiceCase):
    def setUp(self):
        super().setUp()
        self.n = Counted(self.s)
        self.db = os.path.join(self.s.dir, "cache.db")

    def write(self, sql, *values):
        """What another process does to the store."""
        db = sqlite3.connect(self.db, timeout=30)
        with db:
            db.execute(sql, values)
        db.close()

    def test_order(self):
        """A job's document answers its body from then on; another body of the graph comes by the signature once."""
        g = chain(2, factor=1.25)
        first = posted(self.s, g)
        self.assertEqual(first.headers["Dovetail-Cache"], "miss")
        hit = self.s.post(g)
        self.assertEqual((hit.status, hit.headers["Dovetail-Cache"], hit.json()), (200, "hit", first.json()))
        self.assertEqual(self.n.came(), {"memory": 1})
        again = other(g, "another")
        by_signature, by_body = self.s.post(again), self.s.post(again)
        self.assertEqual(self.n.came(), {"memory": 1, "signature": 1})
        self.assertEqual(by_signature.body, by_body.body)
        for name in ("Dovetail-Signature", "Dovetail-Digest"):
            self.assertEqual(by_body.headers[name], by_signature.headers[name])
        self.assertEqual(hit.headers["Dovetail-Signature"], by_body.headers["Dovetail-Signature"])

    def test_every_option(self):
        """Each part of a post that may change its reply, changed alone, is not answered by the reply to the rest."""
        g = chain(2, factor=1.5)
        for query in ("want=plan", "want=analysis"):
            posted(self.s, g, query)
            self.n.came()
            self.assertEqual(self.s.post(g, query).status, 200)
            self.assertEqual(self.n.came(), {"memory": 1})
            for more in ("device=soft:h100", "device=soft:a100"):
                posted(self.s, other(g, "first"), query + "&" + more)  # the worker of a device says what it is
            self.n.came()
            for more in ("allow=reorder-atomics", "deny=prefetch", "maps=1", "all_edges=1", "whole=1", "budget=77",
                         "seed=3", "schedule=4", "check=race", "dump=1", "timeout=500", "device=soft:h100",
                         "device=soft:a100"):
                with self.subTest(query=query, more=more):
                    posted(self.s, g, query + "&" + more)
                    self.assertNotIn("memory", self.n.came())
                    self.assertEqual(self.s.post(g, query + "&" + more).status, 200)
                    self.assertEqual(self.n.came(), {"memory": 1})
        posted(self.s, json.dumps(g) + " ")
        self.assertEqual(self.n.came(), {"signature": 1})
        # the same thing said in other words is the same post
        self.s.post(g, "device=soft&want=plan")
        self.s.post(g, "device=soft:h200&seed=0&deny=")
        self.assertEqual(self.n.came(), {"memory": 2})

    def test_restart(self):
        """The store has the replies of before; a reply in it that was tampered with is not believed."""
        folder = tempfile.mkdtemp(prefix="dovetail-e2e.")
        self.addCleanup(shutil.rmtree, folder)
        g, config = chain(2, factor=1.75), {"cache": folder + "/c.db"}
        s = Service(config)
        bodies = [posted(s, other(g, n)).body for n in ("x", "y")]
        s.stop()
        s.remove()
        db = sqlite3.connect(folder + "/c.db")
        with db:
            self.assertEqual(db.execute("SELECT count(*) FROM reply").fetchone(), (2,))
            db.execute("UPDATE reply SET body = replace(body, 'scale', 'stale') WHERE body LIKE '%\"y\"%'")
        db.close()
        s = Service(config)
        n = Counted(s)
        self.assertEqual([s.post(other(g, x)).body for x in "xxyy"], [bodies[0], bodies[0], bodies[1], bodies[1]])
        self.assertEqual(n.came(), {"store": 1, "signature": 1, "memory": 2})
        s.stop()
        s.remove()

    def test_gone(self):
        """Entries that are removed, replaced or damaged by anybody answer nothing any more, at once."""
        g = chain(2, factor=2.25)
        signature = posted(self.s, g) and self.s.post(g).headers["Dovetail-Signature"]
        path = "/v1/plans/" + signature
        self.n.came()

        def miss():
            r = self.s.post(g)
            self.assertEqual(r.status, 202, r.headers.items())
            self.s.finish(r)
            self.assertEqual(self.s.post(g).status, 200)
            self.assertEqual(self.n.came(), {"memory": 1})
            self.assertEqual(self.s.http("GET", path).status, 200)

        self.write("DELETE FROM entry WHERE signature = ?", signature)
        self.assertEqual(self.s.http("GET", path).status, 404)
        miss()
        self.write("UPDATE entry SET body = replace(body, '1', '7') WHERE signature = ?", signature)
        miss()
        self.write("UPDATE entry SET sha256 = replace(sha256, 'a', 'b') WHERE signature = ?", signature)
        miss()
        self.assertEqual(self.s.http("POST", "/v1/cache/gc?max_bytes=0").status, 200)
        miss()
        # replaced by another document, as planning it again does
        db = sqlite3.connect(self.db)
        row = list(db.execute("SELECT want, signature, device, toolchain, policy, digest, body, factors, id FROM entry "
                              "WHERE signature = ? AND want = 'plan'", (signature,)).fetchone())
        db.close()
        document = json.loads(row[6])
        document["rewrites"] = []
        row[6] = json.dumps(document)
        self.write("UPDATE entry SET body = ?, sha256 = ? WHERE id = ?", row[6], row_sum(row[:8]), row[8])
        self.assertEqual(self.s.post(g).json()["rewrites"], [])
        self.assertEqual(self.s.http("GET", path).json()["rewrites"], [])
        self.assertEqual(self.n.came(), {"signature": 1})
        # somebody else writes something else: the reply is looked at again, and stays
        self.write("UPDATE counter SET n = n + 1")
        self.assertEqual(self.s.post(g).status, 200)
        self.assertEqual(self.n.came(), {"memory": 1})

    def test_moved(self):
        """Another file at the store's path: what was in the old one answers nothing any more."""
        folder = tempfile.mkdtemp(prefix="dovetail-e2e.")
        self.addCleanup(shutil.rmtree, folder)
        g, path = chain(2, factor=2.75), folder + "/c.db"
        s = Service({"cache": path})
        posted(s, g)
        self.assertEqual(s.post(g).status, 200)
        for tail in ("", "-wal", "-shm"):
            if os.path.exists(path + tail):
                os.rename(path + tail, path + ".old" + tail)
        r = s.post(g)
        self.assertEqual(r.status, 202)
        s.finish(r)
        s.stop()
        s.remove()

    def settled(self):
        """The cache's figures, when all hits so far are in them: they are written in batches."""
        before, now = None, self.s.http("GET", "/v1/cache").json()
        while before != now["hits"]:
            time.sleep(2 + SLOW / 4)
            before, now = now["hits"], self.s.http("GET", "/v1/cache").json()
        return now

    def test_writer(self):
        """Somebody holds the store: no kind of hit waits for them, and what the hits leave is written afterwards."""
        g = chain(2, factor=3.25)
        posted(self.s, g)
        signature = self.s.post(g).headers["Dovetail-Signature"]
        figures = self.settled()
        self.n.came()
        db = sqlite3.connect(self.db, isolation_level=None, timeout=30)
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE counter SET n = n")
        slowest, start = 0, time.monotonic()
        while time.monotonic() - start < 10:
            for hit in (lambda: self.s.post(g), lambda: self.s.post(other(g, f"w{time.monotonic()}")),
                        lambda: self.s.http("GET", "/v1/plans/" + signature),
                        lambda: self.s.http("GET", f"/v1/plans/{signature}/report")):
                before = time.monotonic()
                self.assertEqual(hit().status, 200)
                slowest = max(slowest, time.monotonic() - before)
            time.sleep(0.2)
        came = self.n.came()
        self.assertEqual(sorted(came), ["memory", "signature"])
        self.assertLess(slowest, 2 * SLOW)
        db.execute("ROLLBACK")
        db.close()
        self.s.until("/v1/cache", lambda d: d["hits"] == figures["hits"] + sum(came.values()), 30)
        self.s.until("/v1/cache", lambda d: d["replies"]["rows"] >= figures["replies"]["rows"] + came["signature"], 30)

    def test_counts(self):
        """Hits are counted, though they do not write; who got a hit owns what he got."""
        g = chain(2, factor=3.5)
        posted(self.s, g)
        signature = self.s.post(g).headers["Dovetail-Signature"]
        for _ in range(9):
            self.s.post(g)
        entries = self.s.http("GET", "/v1/cache/entries?signature=" + signature).json()["entries"]
        self.assertEqual([e["hits"] for e in entries if e["want"] == "plan"], [10])

    def test_bounds(self):
        """Replies have bounds, in memory and in the file; what fell out is found another way."""
        s = Service({"replies_mb": 1, "replies_store_mb": 0})
        g = chain(2, factor=3.75)
        posted(s, g)
        size = len(s.post(g).body)
        many = (1 << 20) // size + 20
        for i in range(many):
            self.assertEqual(s.post(other(g, f"n{i}")).status, 200)
        self.assertLessEqual(s.metric("dovetail_reply_bytes"), 1 << 20)
        n = Counted(s)
        self.assertEqual(s.post(other(g, f"n{many - 1}")).status, 200)
        self.assertEqual(s.post(other(g, "n0")).status, 200)
        self.assertEqual(n.came(), {"memory": 1, "signature": 1})
        self.assertEqual(s.http("GET", "/v1/cache").json()["replies"], {"rows": 0, "bytes": 0})
        s.stop()
        s.remove()

    def test_pipelined(self):
        """Thousands of hits in one breath are answered one after the other."""
        g = chain(2, factor=4.25)
        body = json.dumps(g).encode()
        want = posted(self.s, g) and self.s.post(g).body
        c = UnixHTTP(self.s.socket, 60 * SLOW)
        c.connect()
        request = b"POST /v1/jobs HTTP/1.1\r\nHost: d\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        pid = os.fork()
        if not pid:
            c.sock.sendall(request * 2000)
            os._exit(0)
        got = c.sock.makefile("rb")
        for _ in range(2000):
            self.assertEqual(got.readline(), b"HTTP/1.1 200 OK\r\n")
            headers = http.client.parse_headers(got)
            self.assertEqual(got.read(int(headers["Content-Length"])), want)
        os.waitpid(pid, 0)
        c.close()


class Tags(ServiceCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.graph = chain(3, factor=1.125)
        posted(cls.s, cls.graph)
        hit = cls.s.post(cls.graph)
        cls.reply, cls.signature = hit, hit.headers["Dovetail-Signature"]
        posted(cls.s, cls.graph, "want=analysis")
        cls.paths = [f"/v1/plans/{cls.signature}", f"/v1/analyses/{cls.signature}",
                     f"/v1/plans/{cls.signature}/report", f"/v1/plans/{cls.signature}/trace"]

    def get(self, path, method="GET", body=None, **headers):
        """Without the harness's look at the document, which may be compressed."""
        c = UnixHTTP(self.s.socket, 60 * SLOW)
        c.request(method, path, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
        r = c.getresponse()
        r.content = r.read()
        c.close()
        return r

    @staticmethod
    def plain(data):
        zstd = ctypes.CDLL("libzstd.so.1")
        for name, kinds in (("ZSTD_getFrameContentSize", 2), ("ZSTD_decompress", 4)):
            f = getattr(zstd, name)
            f.restype = ctypes.c_ulonglong if kinds == 2 else ctypes.c_size_t
            f.argtypes = [ctypes.c_char_p, ctypes.c_size_t] * (kinds // 2)
        out = ctypes.create_string_buffer(zstd.ZSTD_getFrameContentSize(data, len(data)))
        assert zstd.ZSTD_decompress(out, len(out), data, len(data)) == len(out)
        return out.raw

    def test_304(self):
        for path in self.paths:
            r = self.get(path)
            if r.status == 404 and path.endswith("/trace"):
                continue
            tag = r.getheader("ETag")
            self.assertEqual((r.status, r.getheader("Vary")), (200, "Accept-Encoding"), path)
            self.assertRegex(tag, '^"[0-9a-f]{32}"$')
            self.assertNotIn("no-store", r.getheader("Cache-Control"))
            for same in (tag, f'"x", {tag}', "W/" + tag, "*"):
                not_modified = self.get(path, If_None_Match=same)
                self.assertEqual((not_modified.status, not_modified.content), (304, b""), same)
                self.assertEqual((not_modified.getheader("ETag"), not_modified.getheader("Vary")),
                                 (tag, "Accept-Encoding"))
                self.assertIsNone(not_modified.getheader("Content-Type"))
            for not_it in ('"x"', tag[:-1], tag[1:-1], tag[:-1] + '-zstd"', f'"{tag[1:-1]},"'):
                self.assertEqual(self.get(path, If_None_Match=not_it).status, 200, not_it)
            head = self.get(path, "HEAD")
            self.assertEqual((head.status, head.getheader("ETag"), head.content), (200, tag, b""))
        self.assertEqual(len({self.get(p).getheader("ETag") for p in self.paths[:3]}), 3)
        self.assertGreater(self.s.metric("dovetail_replies_not_modified_total"), 0)

    def test_encodings(self):
        taken = ("zstd", "gzip, zstd", "ZSTD;q=0.5", "*", "gzip;q=0, *;q=0.001", "identity;q=0, zstd")
        plain = (None, "", "gzip", "zstd;q=0", "zstd;q=0.000, *", "*;q=0", "zstd; q=0", "xzstd", "zstd;q=x", "identity")
        for path in self.paths[:3]:
            want = self.get(path)
            for accept in taken + plain:
                r = self.get(path, **({} if accept is None else {"Accept_Encoding": accept}))
                self.assertEqual(r.getheader("Vary"), "Accept-Encoding")
                if accept in taken:
                    self.assertEqual((r.getheader("Content-Encoding"), r.getheader("ETag")),
                                     ("zstd", want.getheader("ETag")[:-1] + '-zstd"'), accept)
                    self.assertLess(len(r.content), len(want.content))
                    self.assertEqual(self.plain(r.content), want.content)
                    self.assertEqual(self.get(path, Accept_Encoding=accept,
                                              If_None_Match=r.getheader("ETag")).status, 304)
                    self.assertEqual(self.get(path, Accept_Encoding=accept,
                                              If_None_Match=want.getheader("ETag")).status, 200)
                else:
                    self.assertIsNone(r.getheader("Content-Encoding"), accept)
                    self.assertEqual((r.content, r.getheader("ETag")), (want.content, want.getheader("ETag")))
        body = json.dumps(self.graph)
        r = self.get("/v1/jobs?want=plan", "POST", body, Accept_Encoding="zstd")
        self.assertEqual((r.status, r.getheader("Content-Encoding"), self.plain(r.content)),
                         (200, "zstd", self.reply.body))
        r = self.get("/v1/jobs?want=plan", "POST", body, Accept_Encoding="zstd;q=0")
        self.assertEqual((r.status, r.getheader("Content-Encoding"), r.content), (200, None, self.reply.body))

    def test_encoded_request(self):
        for coding in ("gzip", "zstd", "br", "identity, gzip", "nonsense"):
            r = self.s.http("POST", "/v1/jobs", json.dumps(self.graph), headers={"Content-Encoding": coding})
            self.problem(r, 415, "unsupported-encoding")
            self.assertEqual(r.headers["Accept-Encoding"], "identity")
        r = self.s.http("POST", "/v1/jobs", json.dumps(self.graph), headers={"Content-Encoding": "identity"})
        self.assertEqual(r.status, 200)

    def test_changed(self):
        """A tag lives as long as its row."""
        path = self.paths[0]
        tag = self.get(path).getheader("ETag")
        db = sqlite3.connect(os.path.join(self.s.dir, "cache.db"), timeout=30)
        row = list(db.execute("SELECT want, signature, device, toolchain, policy, digest, body, factors, id FROM entry "
                              "WHERE signature = ? AND want = 'plan'", (self.signature,)).fetchone())
        document = json.loads(row[6])
        document["name"] = "changed"
        row[6] = json.dumps(document)
        with db:
            db.execute("UPDATE entry SET body = ?, sha256 = ? WHERE id = ?", (row[6], row_sum(row[:8]), row[8]))
        db.close()
        r = self.get(path, If_None_Match=tag)
        self.assertEqual((r.status, json.loads(r.content)["name"]), (200, "changed"))
        self.assertNotEqual(r.getheader("ETag"), tag)


class Builds(unittest.TestCase):
    """Another build of a compiler, of the same version, is another toolchain."""

    def test_nvrtc(self):
        folder = tempfile.mkdtemp(prefix="dovetail-e2e.")
        self.addCleanup(shutil.rmtree, folder)
        g, config = chain(2, factor=1.0625), {"cache": folder + "/c.db"}
        s = Service(config)
        posted(s, g)
        self.assertEqual(s.post(g).status, 200)
        toolchain = s.http("GET", "/v1/devices").json()["toolchain"]
        s.stop()
        s.remove()
        self.assertRegex(toolchain, r"nvrtc (none|\d+\.\d+-[0-9a-f]{16}); nvjitlink (none|\d+\.\d+-[0-9a-f]{16})$")
        for name, tool in (("libnvrtc.so", "nvrtc"), ("libnvJitLink.so", "nvjitlink")):
            build = toolchain.split(tool + " ", 1)[1].split(";")[0].partition("-")[2]
            library = self.find(name)
            if not build or not library:
                continue
            with self.subTest(tool):
                self.patched(library, build, folder)
                os.environ["DOVETAIL_CUDA_LIBS"] = folder
                try:
                    s = Service(config)
                finally:
                    del os.environ["DOVETAIL_CUDA_LIBS"]
                r = s.post(g)  # the graph is PTX: another NVRTC changes nothing in it
                self.assertEqual((r.status, r.headers["Dovetail-Cache"]),
                                 (200, "stale") if tool == "nvrtc" else (202, "miss"))
                # of the post, or of what is stale: a service that is told to stop would wait for it
                s.until("/v1/jobs", lambda d: all(j["state"] == "done" for j in d["jobs"]) and d["jobs"])
                self.assertEqual(s.http("GET", "/v1/devices").json()["toolchain"],
                                 toolchain.replace(build, "00" + build[2:]))
                s.stop()
                s.remove()
                os.unlink(os.path.join(folder, os.path.basename(library)))

    @staticmethod
    def find(name):
        home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
        for sub in ("targets/x86_64-linux/lib", "lib64", "lib"):
            for major in ("13", "12"):
                path = f"{home}/{sub}/{name}.{major}"
                if os.path.exists(path):
                    return path
        return None

    @staticmethod
    def patched(library, build, folder):
        """A copy with another first byte of its build id."""
        path = shutil.copy(library, folder)
        with open(path, "r+b") as f:
            at = f.read(1 << 16).find(bytes.fromhex(build))
            assert at > 0
            f.seek(at)
            f.write(b"\0")


if __name__ == "__main__":
    unittest.main()
