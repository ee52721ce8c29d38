"""Clients that stall or vanish, in every phase of a request: before it, within its header, within its body, while they
wait, within the reply, within a stream of events. Many at a time, while others are served; in the end nothing of them
is left: no connection, no memory of their bodies, no job that only they wanted to see.
"""
import json
import os
import socket
import struct
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness  # noqa: E402

MANY = 16


def request(method, path, body=b"", length=None, more=""):
    n = len(body) if length is None else length
    head = f"{method} {path} HTTP/1.1\r\nHost: d\r\n{more}" + (f"Content-Length: {n}\r\n" if n else "") + "\r\n"
    return head.encode() + body


class Clients(harness.ServiceCase):
    config = {"request_timeout": 2, "idle_timeout": 2, "max_connections": 200}

    def dial(self):
        c = socket.socket(socket.AF_UNIX)
        c.settimeout(60 * harness.SLOW)
        c.connect(self.s.socket)
        self.addCleanup(c.close)
        return c

    def open_now(self):
        return self.s.metric("dovetail_http_connections")

    def served(self):
        """Others are: a graph that is known is a hit."""
        r = self.s.post(harness.chain(2))
        if r.status == 202:
            self.assertEqual(self.s.finish(r)["state"], "done")
            r = self.s.post(harness.chain(2))
        self.assertEqual((r.status, r.headers["Dovetail-Cache"]), (200, "hit"))

    def phases(self):
        """What each kind of client has sent when it stalls or goes."""
        self.served()  # before there is a job that takes all the time there is
        body = json.dumps(harness.chain(2)).encode()
        job = self.s.post(harness.endless(3), "want=run&timeout=100").headers["Location"]
        self.addCleanup(self.s.http, "DELETE", job)
        return {
            "connected": b"",
            "in its header": b"GET /v1/devices HTTP/1.1\r\nHost: d\r\nAcc",
            "in its body": request("POST", "/v1/jobs", body[:-9], len(body)),
            "in a long body": request("POST", "/v1/jobs", b"{" + b" " * 100000, 50000000),
            "in a chunk": request("POST", "/v1/jobs", more="Transfer-Encoding: chunked\r\n") + b"ffff\r\n{\"dove",
            "waiting": request("GET", job + "?wait=60"),
            "in the events": request("GET", job + "/events"),
            "in the events, as a browser": request("GET", job + "/events", more="Accept: text/event-stream\r\n"),
            "pinging": request("GET", "/healthz"),
            "behind a second request": request("GET", job + "?wait=60") + request("GET", "/"),
        }

    def left_over(self, none):
        deadline = time.monotonic() + 60 * harness.SLOW
        while self.open_now() > none and time.monotonic() < deadline:
            time.sleep(0.2)
        self.assertLessEqual(self.open_now(), none)

    def test_vanish(self):
        """They go without a word, or with a reset in the middle of what they were sent."""
        for phase, sent in self.phases().items():
            with self.subTest(phase):
                none = self.open_now()
                for i in range(MANY):
                    c = self.dial()
                    c.sendall(sent)
                    if i % 2:
                        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    c.close()
                self.served()
                self.left_over(none)

    def test_stall(self):
        """They stay and do nothing more: others are served, and the time limits end them where there is one."""
        waits = ("waiting", "in the events", "in the events, as a browser", "behind a second request", "pinging")
        for phase, sent in self.phases().items():
            with self.subTest(phase):
                none = self.open_now()
                some = [self.dial() for _ in range(MANY)]
                for c in some:
                    c.sendall(sent)
                self.served()
                if phase in waits:
                    for c in some:
                        c.close()
                self.left_over(none)

    def test_reply_that_nobody_takes(self):
        """A reply longer than a socket holds, and a stream: the service waits, then gives up, and others are served."""
        big = harness.chain(2)
        big["buffers"]["a"]["fill"] = {"uniform": [-1, 1], "dtype": "f32", "seed": 3}
        big["modules"]["m"]["ptx"] = harness.SCALE + "// " + "x" * 3000000 + "\n"
        r = self.s.post(big)
        self.assertEqual(self.s.finish(r)["state"], "done")
        result = r.headers["Location"] + "/result"
        self.assertGreater(len(self.s.http("GET", result).body), 1000)
        for phase, sent in {"whole": request("GET", result), "many": request("GET", "/metrics") * 300,
                            "entries": request("GET", "/v1/cache/export") * 20}.items():
            with self.subTest(phase):
                none = self.open_now()
                some = [self.dial() for _ in range(MANY)]
                for i, c in enumerate(some):
                    c.settimeout(1)
                    try:
                        c.sendall(sent)
                        if i % 2:
                            c.recv(10)
                    except socket.timeout:
                        pass
                self.served()
                for c in some[::2]:
                    c.close()
                self.served()
                for c in some:
                    c.close()
                self.left_over(none)

    def test_memory(self):
        """What they brought goes back."""
        sent = request("POST", "/v1/jobs", b"{" + b" " * 3000000, 50000000)
        self.served()

        def rss():
            with open(f"/proc/{self.s.process.pid}/status", encoding="ascii") as f:
                return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
        before = 0
        for turn in range(6):
            none = self.open_now()
            for _ in range(10):
                c = self.dial()
                c.sendall(sent)
                c.close()
            self.left_over(none)
            if turn == 1:
                before = rss()
        self.assertLess(rss() - before, 40000)


if __name__ == "__main__":
    harness.main()
