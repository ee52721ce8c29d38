#!/usr/bin/env python3
"""What a hostile or broken HTTP client can send: the service answers or hangs up, and goes on serving. What one user
holds, in bodies and in replies that are not read, keeps nobody else out, and goes back."""
import json
import os
import random
import socket
import threading
import time

from harness import SLOW, Reply, ServiceCase, UnixHTTP, as_user, chain, declared, endless, main


class Raw(ServiceCase):
    """Bytes on a connection; the memory of the service."""
    def resident(self):
        with open(f"/proc/{self.s.process.pid}/statm", encoding="utf-8") as f:
            return int(f.read().split()[1]) * 4096

    def dial(self, request=b""):
        c = socket.socket(socket.AF_UNIX)
        self.addCleanup(c.close)
        c.settimeout(30 * SLOW)
        c.connect(self.s.socket)
        c.sendall(request)
        return c

    def answer(self, c, method, path):
        """One whole answer that ends with the connection, held against the description."""
        out = b""
        while part := c.recv(65536):
            out += part
        head, body = out.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        reply = Reply(int(lines[0].split()[1]), Fields(x.split(": ", 1) for x in lines[1:]), body)
        declared(method, path, reply)
        return reply

    def raw(self, data, shut=True, limit=30):
        with socket.socket(socket.AF_UNIX) as c:
            c.settimeout(limit * SLOW)
            c.connect(self.s.socket)
            try:
                c.sendall(data)
                if shut:
                    c.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            out = b""
            try:
                while part := c.recv(65536):
                    out += part
            except ConnectionResetError:
                pass
            return out

    def status(self, data, **kw):
        out = self.raw(data, **kw)
        return int(out.split()[1]) if out else 0


class Fields(dict):
    """Fields of a header by name in any case."""
    def get(self, name, default=None):
        return next((v for k, v in self.items() if k.lower() == name.lower()), default)


class Abuse(Raw):
    config = {"request_timeout": 2, "max_body_mb": 1, "max_bodies_mb": 2, "max_connections": 20}

    def test_garbage(self):
        r = random.Random(7)
        for n in (1, 10, 100, 1000, 100000):
            self.assertIn(self.status(bytes(r.randrange(256) for _ in range(n))), (0, 400, 431))
        self.assertEqual(self.status(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400)
        self.assertEqual(self.status(b"GET / HTTP/9.9\r\n\r\n"), 505)

    def test_headers(self):
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\nHost: d\r\n" + b"X: " + b"a" * 100000 + b"\r\n\r\n"), 431)
        many = b"".join(b"X%d: y\r\n" % i for i in range(10000))
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\nHost: d\r\n" + many + b"\r\n"), 431)
        self.assertEqual(self.status(b"GET /" + b"a" * 10000 + b" HTTP/1.1\r\nHost: d\r\n\r\n"), 414)
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\nHost: d\r\nno colon here\r\n\r\n"), 400)
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\nHost: d\r\nA: b\0c\r\n\r\n"), 400)

    def test_bodies(self):
        post = b"POST /v1/jobs HTTP/1.1\r\nHost: d\r\n"
        self.assertEqual(self.status(post + b"Content-Length: 2000000\r\n\r\n"), 413)
        self.assertEqual(self.status(post + b"Content-Length: 1e3\r\n\r\n"), 400)
        self.assertEqual(self.status(post + b"Content-Length: 18446744073709551616\r\n\r\n"), 400)
        self.assertEqual(self.status(post + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n"), 400)
        self.assertEqual(self.status(post + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"), 413)
        self.assertEqual(self.status(post + b"Transfer-Encoding: chunked\r\n\r\n"
                                     + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 20), 413)
        self.assertEqual(self.status(post + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400)
        self.assertEqual(self.status(post + b"Content-Length: 100\r\n\r\n{}"), 0)  # half a request, then the end
        self.assertEqual(self.status(post + b"\r\n"), 400)  # no body at all: not JSON

    def test_slow_clients(self):
        with socket.socket(socket.AF_UNIX) as c:
            c.settimeout(30 * SLOW)
            c.connect(self.s.socket)
            begin = time.monotonic()
            out = b""
            try:
                for byte in b"GET / HTTP/1.1\r\nHost: d\r\nX: " + b"y" * 1000:
                    c.sendall(bytes([byte]))
                    time.sleep(0.05)
            except OSError:
                pass
            try:
                while part := c.recv(4096):
                    out += part
            except ConnectionResetError:
                pass
            self.assertTrue(not out or out.startswith(b"HTTP/1.1 408"), out)
            self.assertLess(time.monotonic() - begin, 20 * SLOW)

    def test_client_that_does_not_read(self):
        """Many answers asked for, none taken: the connection is dropped, memory stays bounded."""
        with socket.socket(socket.AF_UNIX) as c:
            c.settimeout(20 * SLOW)
            c.connect(self.s.socket)
            try:
                for _ in range(20000):
                    c.sendall(b"GET /metrics HTTP/1.1\r\nHost: d\r\n\r\n" * 10)
            except OSError:
                pass
            self.assertEqual(self.s.http("GET", "/").status, 200)
        self.assertLess(self.resident(), (2 if SLOW == 1 else 8) << 30)

    def test_many_connections(self):
        """All connections are taken, and more wait: health and metrics are answered, all else is told so."""
        held = [self.dial() for _ in range(40)]
        for path in ("/healthz", "/metrics", "/healthz"):
            self.assertEqual(self.s.http("GET", path).status, 200)
        held += [self.dial() for _ in range(10)]  # of the first ones some may have met connections that were closing
        more = self.dial(b"GET / HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n")
        reply = self.answer(more, "GET", "/")
        self.assertEqual(reply.status, 429)
        self.assertGreaterEqual(int(reply.headers.get("Retry-After")), 1)
        self.assertGreaterEqual(self.s.metric("dovetail_http_over_share_total"), 1)
        for c in held:
            c.close()
        self.until_served()

    def until_served(self):
        deadline = time.monotonic() + 20 * SLOW
        while self.s.http("GET", "/").status != 200:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_gone_while_waiting(self):
        r = self.s.post(endless(1), "want=run")
        where = r.headers["Location"].encode()
        self.s.until(r.headers["Location"], lambda j: j["state"] == "running")
        for path in (where + b"?wait=30", where + b"/events"):
            for _ in range(5):
                with socket.socket(socket.AF_UNIX) as c:
                    c.connect(self.s.socket)
                    c.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: d\r\n\r\n")
                    time.sleep(0.02)
        self.assertEqual(self.s.http("DELETE", r.headers["Location"]).json()["state"], "cancelled")

    def test_pipelined_and_parallel(self):
        out = self.raw(b"GET /healthz HTTP/1.1\r\nHost: d\r\n\r\n" * 50, limit=60)
        self.assertEqual(out.count(b"HTTP/1.1 200 OK"), 50)
        bad = []

        def hammer():
            for _ in range(20):
                if self.s.http("GET", "/healthz").status != 200:
                    bad.append(1)
        threads = [threading.Thread(target=hammer) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertFalse(bad)

    def test_refused_before_the_body(self):
        """What the header shows to be wrong is answered without waiting for the body."""
        for line, status in ((b"POST /v2", 404), (b"PUT /v1/jobs", 405), (b"POST /v1/jobs?bogus=1", 400),
                             (b"POST /v1/jobs?budget=x", 400), (b"POST /v1/jobs?want=all", 400),
                             (b"DELETE /v1/jobs/1", 413)):
            c = self.dial(line + b" HTTP/1.1\r\nHost: d\r\nContent-Length: 900000\r\n\r\n")
            method, path = line.decode().split()
            self.assertEqual(self.answer(c, method, path).status, status, line)
        c = self.dial(b"POST /v1/jobs HTTP/1.1\r\nHost: d\r\nContent-Length: 9\r\nContent-Encoding: gzip\r\n\r\n")
        self.assertEqual(self.answer(c, "POST", "/v1/jobs").status, 415)

    def test_expect_continue(self):
        graph = chain(2, factor=0.25)
        graph["note"] = "x" * 500000
        r = self.s.curl("-H", "Expect: 100-continue", "-d", json.dumps(graph)[:100], "-w", "%{http_code}",
                        "http://d/v1/jobs")
        self.assertTrue(r.stdout.endswith("400"))
        self.assertEqual(self.s.post(graph, "want=run").status, 202)


def wide(launches=8000, args=40, pad=0):
    """A large graph whose last launch is wrong: it is parsed to its end, and refused there."""
    g = chain(2)
    g["launches"] = [{"name": f"s{i}", "module": "m", "entry": "scale", "grid": [4, 1, 1], "block": [64, 1, 1],
                      "args": [{"i32": 1000000 + k} for k in range(args)]} for i in range(launches)]
    g["launches"][-1]["module"] = "none"
    g["modules"]["m"]["ptx"] += "//" + "x" * pad
    return json.dumps(g).encode()


class Large(Raw):
    config = {"max_body_mb": 128, "max_bodies_mb": 256, "max_finished": 16}

    def test_a_million_launches(self):
        """The first launch that is too many ends the request; what came until then does not stay."""
        before = self.resident()
        c = self.dial(b"POST /v1/jobs HTTP/1.1\r\nHost: d\r\nContent-Length: 128000000\r\n\r\n"
                      + b'{"dovetail":1,"modules":{},"buffers":{},"launches":[')
        one = b",".join([b'{"name":"a","module":"m","entry":"e","grid":[1,1,1],"block":[1,1,1],"args":[]}'] * 500)
        sent = 0
        try:
            while sent < 128000000:
                c.sendall(one + b",")
                sent += len(one) + 1
        except OSError:
            pass
        reply = self.answer(c, "POST", "/v1/jobs")
        self.assertEqual((reply.status, reply.json()["pointer"]), (413, "/launches"))
        if SLOW == 1:  # AddressSanitizer keeps what is freed
            self.assertLess(self.resident() - before, 16 << 20)
        self.assertEqual(self.s.metric("dovetail_http_held_bytes"), 0)

    def test_hits_behind_large_bodies(self):
        """Four large bodies are being parsed: a hit is answered before any of them."""
        graph, body = chain(3, factor=0.75), wide(pad=8 << 20)
        self.assertGreater(len(body), 12 << 20)
        self.assertEqual(self.s.finish(self.s.post(graph))["state"], "done")
        answered, seen = [], []

        def post():
            c = UnixHTTP(self.s.socket, 200 * SLOW)
            c.request("POST", "/v1/jobs", body=body)
            r = c.getresponse()
            seen.append(Reply(r.status, r.headers, r.read()))
            answered.append(time.monotonic())
            c.close()
        threads = [threading.Thread(target=post) for _ in range(4)]
        for t in threads:
            t.start()
        self.until_held(2 * len(body))
        times = []
        while not answered and len(times) < 50:
            begin = time.monotonic()
            reply = self.s.post(graph)
            times.append((begin, time.monotonic()))
            self.assertEqual((reply.status, reply.headers["Dovetail-Cache"]), (200, "hit"))
        for t in threads:
            t.join()
        for reply in seen:
            declared("POST", "/v1/jobs", reply)
            self.assertEqual((reply.status, reply.json()["pointer"]), (422, "/launches/7999/module"), reply.body)
        took = sorted(end - begin for begin, end in times)
        print(f"{len(times)} hits behind large bodies: median {took[len(took) // 2]:.3f} s, worst {took[-1]:.3f} s; "
              f"the first large body was answered after {min(answered) - times[0][0]:.3f} s")
        self.assertLess(times[0][1], min(answered))
        self.assertGreater(len(times), 3)

    def until_held(self, n):
        deadline = time.monotonic() + 60 * SLOW
        while self.s.metric("dovetail_http_held_bytes") < n:
            self.assertLess(time.monotonic(), deadline)

    def until_free(self):
        deadline = time.monotonic() + 120 * SLOW
        while self.s.metric("dovetail_http_held_bytes"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_clients_that_vanish(self):
        """Large bodies whose posters go before the answer: they count until the work on them is over, then all is as
        before."""
        before, body = self.resident(), wide(4000)
        for _ in range(6):
            c = self.dial(b"POST /v1/jobs HTTP/1.1\r\nHost: d\r\nContent-Length: %d\r\n\r\n" % len(body))
            c.sendall(body)
            c.close()
        self.until_free()
        self.assertEqual(self.s.http("GET", "/healthz").status, 200)
        if SLOW == 1:
            self.flat(before, 24 << 20)

    def flat(self, before, more):
        """The memory goes back, in a moment."""
        deadline = time.monotonic() + 20
        while self.resident() > before + more:
            self.assertLess(time.monotonic(), deadline, f"{self.resident() - before} bytes more than before")
            time.sleep(0.1)

    def test_memory_stays(self):
        """Thousands of posts, right and wrong, small and large: the service is as large as before."""
        posts = int(os.environ.get("DOVETAIL_TEST_POSTS", "1500"))
        graph = chain(3, factor=0.5)
        self.assertEqual(self.s.finish(self.s.post(graph))["state"], "done")
        right, wrong, wrong2 = json.dumps(graph), json.dumps(graph)[:-1], json.dumps(dict(graph, launches=[{}]))
        mix = [(right, 200), (wrong, 400), (right, 200), (wrong2, 422), ("[" * 65, 413)]
        large = wide(500, pad=3 << 20).decode()
        sizes = []
        c = UnixHTTP(self.s.socket, 60 * SLOW)
        for i in range(posts):
            body, status = (large, 422) if i % 100 == 99 else mix[i % len(mix)]
            c.request("POST", "/v1/jobs", body=body)
            r = c.getresponse()
            r.read()
            self.assertEqual(r.status, status)
            if i % (posts // 10) == posts // 10 - 1:
                sizes.append(self.resident())
        c.close()
        print("resident, MB, after each tenth of", posts, "posts:", [x >> 20 for x in sizes])
        if SLOW == 1:
            self.flat(min(sizes[:3]), 8 << 20)


class Readers(Raw):
    """Replies that are not read count, against those who asked for them."""
    config = {"max_bodies_mb": 8, "request_timeout": 60}

    def test_replies_that_are_not_read(self):
        graph = chain(1, blocks=4096)  # an output of 1 MB
        job = self.s.finish(self.s.post(graph, "want=run&dump=1"))
        result = job["links"]["result"]
        size = len(self.s.http("GET", result).body)
        self.assertGreater(size, 1 << 20)
        get = b"GET " + result.encode() + b" HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n"
        readers = [self.dial(get) for _ in range(8)]
        deadline = time.monotonic() + 30 * SLOW
        while self.s.metric("dovetail_http_held_bytes") < 5 << 20:
            self.assertLess(time.monotonic(), deadline)
        reply = self.s.http("GET", result)
        self.problem(reply, 429, "share")
        self.assertEqual(self.s.http("GET", "/healthz").status, 200)
        if os.geteuid() == 0:  # somebody else is not kept out
            os.chmod(self.s.socket, 0o666)
            os.chmod(self.s.dir, 0o711)

            def other():
                return self.s.http("GET", "/v1/devices").status
            self.assertEqual(as_user(54321, 54321, [], other), 200)
        served = [self.answer(c, "GET", result).status for c in readers]
        self.assertGreaterEqual(served.count(200), 4)
        self.assertEqual(set(served) - {200, 429}, set())
        self.assertEqual(self.s.metric("dovetail_http_held_bytes"), 0)
        self.assertEqual(self.s.http("GET", result).status, 200)


    def test_graphs_that_wait(self):
        """The bodies of jobs in the queue count, too."""
        jobs = [self.s.post(endless(1), "want=run").headers["Location"]]
        self.s.until(jobs[0], lambda j: j["state"] == "running")
        replies = []
        for i in range(5):
            graph = endless(2 + i)
            graph["modules"]["m"]["ptx"] += "//" + "x" * (5 << 19)
            replies.append(self.s.post(graph, "want=run"))
        jobs += [r.headers["Location"] for r in replies if r.status == 202]
        self.problem(replies[-1], 429, "share")
        self.assertIn(len(jobs), (3, 4))
        for job in reversed(jobs):
            self.assertEqual(self.s.http("DELETE", job).status, 200)
        self.assertEqual(self.s.finish(self.s.post(chain(2), "want=run"))["state"], "done")



class Keys(Raw):
    """Idempotency-Key and traceparent."""
    def keyed(self, key, graph, query="want=run", **fields):
        return self.s.http("POST", "/v1/jobs?" + query, graph, headers={"Idempotency-Key": key, **fields})

    def test_keys(self):
        graph, other = chain(2, factor=0.625), chain(2, factor=0.375)
        first = self.keyed("k-1", graph)
        where = first.headers["Location"]
        self.assertEqual(self.s.finish(first)["state"], "done")
        again = self.keyed("k-1", graph)  # without the key this would be a new job: a run is not kept
        self.assertEqual((again.status, again.headers["Location"], again.json()["state"]), (202, where, "done"))
        self.assertEqual(again.json()["posts"], 1)
        self.assertNotEqual(self.s.post(graph, "want=run").headers["Location"], where)
        for key, g, query in (("k-1", other, "want=run"), ("k-1", graph, "want=run&seed=1")):
            self.problem(self.keyed(key, g, query), 422, "key-reused")
        self.assertEqual(self.keyed("k-2", other).status, 202)
        self.problem(self.keyed("", graph), 400, "usage")
        self.problem(self.keyed("a b", graph), 400, "usage")
        self.problem(self.keyed("x" * 256, graph), 400, "usage")
        # a post that was refused leaves its key free
        self.assertEqual(self.keyed("k-3", dict(graph, launches=[])).status, 422)
        self.assertEqual(self.keyed("k-3", graph).status, 202)
        self.assertEqual(self.keyed("k-4", graph, "want=plan").status, 202)
        plan = self.keyed("k-4", graph, "want=plan")
        self.assertEqual(self.s.finish(plan)["state"], "done")
        hit = self.keyed("k-5", graph, "want=plan")
        self.assertEqual([self.keyed("k-5", graph, "want=plan").status, hit.status], [200, 200])
        self.problem(self.keyed("k-5", other, "want=plan"), 422, "key-reused")
        if os.geteuid() == 0:  # a key is its user's
            os.chmod(self.s.socket, 0o666)
            os.chmod(self.s.dir, 0o711)

            def other_user():
                return self.keyed("k-1", other).status
            self.assertEqual(as_user(54321, 54321, [], other_user), 202)

    def test_traces(self):
        given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        job = self.s.http("POST", "/v1/jobs?want=run", chain(2, factor=0.1), headers={"traceparent": given}).json()
        self.assertEqual((job["trace"][:36], job["trace"][-3:]), (given[:36], "-01"))
        self.assertNotEqual(job["trace"], given)
        events = self.s.http("GET", job["links"]["events"]).body.splitlines()
        self.assertGreater(len(events), 2)
        self.assertEqual({json.loads(e)["trace"] for e in events}, {job["trace"]})
        self.assertIn(job["trace"], self.s.read_log())
        made = [self.s.http("POST", "/v1/jobs?want=run", chain(2, factor=f), headers=h).json()["trace"]
                for f, h in ((0.2, {}), (0.3, {"traceparent": given.upper()}))]
        self.assertEqual(len({t[3:35] for t in made + [given]}), 3)


if __name__ == "__main__":
    main()
