#!/usr/bin/env python3
"""What a hostile or broken HTTP client can send: the service answers or hangs up, and goes on serving."""
import random
import socket
import threading
import time

from harness import SLOW, ServiceCase, chain, endless, main


class Abuse(ServiceCase):
    config = {"request_timeout": 2, "max_body_mb": 1, "max_bodies_mb": 2, "max_connections": 20}

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
        with open(f"/proc/{self.s.process.pid}/statm", encoding="utf-8") as f:
            self.assertLess(int(f.read().split()[1]) * 4096, 2 << 30)

    def test_many_connections(self):
        held = []
        try:
            for _ in range(40):
                c = socket.socket(socket.AF_UNIX)
                c.settimeout(10 * SLOW)
                c.connect(self.s.socket)
                held.append(c)
            time.sleep(0.3)
        finally:
            for c in held:
                c.close()
        time.sleep(0.3)
        self.assertEqual(self.s.http("GET", "/").status, 200)

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

    def test_expect_continue(self):
        graph = chain(2, factor=0.25)
        graph["note"] = "x" * 500000
        r = self.s.curl("-H", "Expect: 100-continue", "-d", __import__("json").dumps(graph)[:100], "-w", "%{http_code}",
                        "http://d/v1/jobs")
        self.assertTrue(r.stdout.endswith("400"))
        self.assertEqual(self.s.post(graph, "want=run").status, 202)


if __name__ == "__main__":
    main()
