#!/usr/bin/env python3
"""What a hit costs: the service answers plans that it has, beside nginx, which serves the same bytes as files to the
same POSTs, and Redis, which gets them by GET; all over Unix sockets, in turns, in one run. bench/load.c makes the
requests (sixteen different bodies in turn) from 1, 16 and 256 clients that keep their connections.

    req/s     replies a second, median over the rounds
    p99       microseconds, median over the rounds
    of nginx  the service's requests a second over nginx's, p99 over nginx's: the median of each round's own ratio
    us CPU    CPU microseconds of the server for one reply, which a busy machine changes least

nginx has one worker process, as the service has one loop; both get the same body and read it. Before measuring, every
reply is compared: nginx and Redis give exactly the bytes that the service gives.

usage: bench-service.py --build DIR --out DIR [--json] [--quick] [--rounds N] [--seconds S]
"""
import argparse
import copy
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import results

sys.path.insert(0, os.path.join(results.ROOT, "tests", "e2e"))

BODIES = 16
CLIENTS = (1, 16, 256)

p = argparse.ArgumentParser()
p.add_argument("--quick", action="store_true", help="one short round, nothing written")
p.add_argument("--rounds", type=int, default=5)
p.add_argument("--seconds", type=float, default=1.0)
o = results.options(p)
os.environ["DOVETAIL_BUILD"] = os.path.abspath(o.build)
import harness  # noqa: E402


def need(program, package):
    """Where a yardstick is; `./dev bench` installs it."""
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin:/usr/local/sbin")
    if not path:
        sys.exit(f"bench-service: {program} is not here; install Debian's {package}")
    return path


def corpus(name):
    """A graph of the corpus with the texts of its modules in it, as the command line posts it."""
    folder = os.path.join(results.ROOT, "tests/corpus", name)
    with open(os.path.join(folder, "graph.json"), encoding="utf-8") as f:
        g = json.load(f)
    for m in g["modules"].values():
        if "file" in m:
            file = m.pop("file")
            with open(os.path.join(folder, file), encoding="utf-8") as f:
                m["cuda" if file.endswith(".cu") else "ptx"] = f.read()
    return g


GRAPHS = {"small": lambda: harness.chain(6, names="abcdefg"), "large": lambda: corpus("h2o")}


def bodies(graph):
    """The same graph under sixteen names: other bytes each, one plan."""
    for i in range(BODIES):
        g = copy.deepcopy(graph)
        g["name"] = f"bench-{i:02}"
        yield json.dumps(g).encode()


def post(path, target, body):
    c = harness.UnixHTTP(path, 60)
    c.request("POST", target, body=body)
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, data


class Servers:
    """The three servers, with the same replies, and files of requests for bench-load."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="dovetail-bench.")
        self.files, self.replies = {}, {}
        self.service = harness.Service({"max_connections": 1024})
        self.socket = {"dovetail": self.service.socket, "nginx": self.dir + "/nginx.sock",
                       "redis": self.dir + "/redis.sock"}
        for size, graph in GRAPHS.items():
            self.plan(size, list(bodies(graph())))
        self.children = [self.nginx(), self.redis()]
        self.pids = {"dovetail": [self.service.process.pid]}
        self.pids["nginx"] = self.below(self.children[0].pid)
        self.pids["redis"] = [self.children[1].pid]
        self.fill_redis()
        for size in GRAPHS:
            self.check(size)

    def write(self, name, data):
        path = os.path.join(self.dir, name)
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, 0o644)
        return path

    def plan(self, size, posted):
        """Plan the graph, and write the requests and what is to come back."""
        self.service.finish(self.service.http("POST", "/v1/jobs", posted[0], timeout=300), 300)
        self.replies[size] = []
        for i, body in enumerate(posted):
            status, reply = post(self.service.socket, "/v1/jobs", body)
            assert status == 200, reply[:300]
            self.replies[size].append(reply)
            self.write(f"{size}-{i}.json", reply)
            for server, target in (("dovetail", "/v1/jobs"), ("nginx", f"/{size}-{i}.json")):
                head = f"POST {target} HTTP/1.1\r\nHost: d\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                self.files.setdefault((server, size), []).append(self.write(f"{server}-{size}-{i}", head + body))
            key = f"{size}-{i}"
            command = f"*2\r\n$3\r\nGET\r\n${len(key)}\r\n{key}\r\n".encode()
            self.files.setdefault(("redis", size), []).append(self.write(f"redis-{size}-{i}", command))

    def start(self, name, args):
        child = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(1000):
            with socket.socket(socket.AF_UNIX) as s:
                try:
                    s.connect(self.socket[name])
                    return child
                except OSError:
                    time.sleep(0.02)
        sys.exit(f"bench-service: {name} did not start")

    def nginx(self):
        os.chmod(self.dir, 0o755)
        user = f"user {os.environ.get('USER', 'root')};" if os.geteuid() == 0 else ""
        return self.start("nginx", [need("nginx", "nginx-light"), "-c", self.write("nginx.conf", f"""
{user} daemon off; worker_processes 1; pid {self.dir}/nginx.pid; error_log {self.dir}/nginx.log;
events {{ worker_connections 2048; }}
http {{
    access_log off; sendfile on; keepalive_requests 1000000000; open_file_cache max=100;
    default_type application/json; client_max_body_size 256m; client_body_buffer_size 1m;
    client_body_temp_path {self.dir}/body; proxy_temp_path {self.dir}/proxy; fastcgi_temp_path {self.dir}/fastcgi;
    uwsgi_temp_path {self.dir}/uwsgi; scgi_temp_path {self.dir}/scgi;
    server {{ listen unix:{self.socket['nginx']}; root {self.dir}; error_page 405 =200 $uri; }}
}}
""".encode())])

    def redis(self):
        return self.start("redis", [need("redis-server", "redis-server"), "--port", "0", "--unixsocket",
                                    self.socket["redis"], "--save", "", "--dir", self.dir])

    def fill_redis(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.socket["redis"])
            for size, replies in self.replies.items():
                for i, reply in enumerate(replies):
                    key = f"{size}-{i}".encode()
                    s.sendall(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(reply), reply))
                    assert s.recv(16) == b"+OK\r\n"

    def check(self, size):
        for i, reply in enumerate(self.replies[size]):
            with open(self.files["nginx", size][i], "rb") as f:
                head, body = f.read().split(b"\r\n\r\n", 1)
            assert post(self.socket["nginx"], head.split()[1].decode(), body) == (200, reply)
            assert post(self.socket["dovetail"], "/v1/jobs", body) == (200, reply)
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(self.socket["redis"])
                with open(self.files["redis", size][i], "rb") as f:
                    s.sendall(f.read())
                want, got = b"$%d\r\n%s\r\n" % (len(reply), reply), b""
                while len(got) < len(want):
                    got += s.recv(1 << 20)
                assert got == want

    @staticmethod
    def below(pid):
        """The processes that `pid` started."""
        found = []
        for d in os.listdir("/proc"):
            if d.isdigit():
                try:
                    with open(f"/proc/{d}/stat", encoding="utf-8") as f:
                        if f.read().rsplit(")", 1)[1].split()[1] == str(pid):
                            found.append(int(d))
                except OSError:
                    pass
        return found

    def cpu(self, server):
        total = 0
        for pid in self.pids[server]:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def load(self, server, size, clients, seconds):
        before = self.cpu(server)
        out = subprocess.run([os.path.join(o.build, "bench/bench-load"), "redis" if server == "redis" else "http",
                              self.socket[server], str(clients), str(seconds), *self.files[server, size]],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True).stdout
        r = json.loads(out)
        r["rate"] = r["requests"] / r["seconds"]
        # the server's CPU time has the warm-up in it, the requests do not
        r["cpu_us"] = (self.cpu(server) - before) * 1e6 / max(1, r["requests"]) * r["seconds"] / seconds
        r["load_share"] = r["cpu_seconds"] / r["seconds"]
        return r

    def stop(self):
        for c in self.children:
            c.terminate()
            c.wait()
        self.service.stop()
        self.service.remove()
        shutil.rmtree(self.dir, ignore_errors=True)


def measure(s, size, clients, rounds, seconds):
    runs = {server: [] for server in s.socket}
    for i in range(rounds):
        order = list(runs) if i % 2 == 0 else list(runs)[::-1]
        for server in order:
            runs[server].append(s.load(server, size, clients, seconds))
    return runs


def figures(size, clients, runs):
    def one(name, values, unit):
        return {"name": f"service.{size}.{clients}.{name}", "value": round(statistics.median(values), 3), "unit": unit,
                "runs": len(values), "min": round(min(values), 3), "max": round(max(values), 3)}
    for server, rs in runs.items():
        yield one(f"{server}.requests_per_s", [r["rate"] for r in rs], "1/s")
        yield one(f"{server}.p50_us", [r["p50_us"] for r in rs], "us")
        yield one(f"{server}.p99_us", [r["p99_us"] for r in rs], "us")
        yield one(f"{server}.cpu_us", [r["cpu_us"] for r in rs], "us")
        yield one(f"{server}.load_cpu_share", [r["load_share"] for r in rs], "")
    pairs = list(zip(runs["dovetail"], runs["nginx"]))
    yield one("rate_of_nginx", [a["rate"] / b["rate"] for a, b in pairs], "")
    yield one("p99_of_nginx", [a["p99_us"] / b["p99_us"] for a, b in pairs], "")


def main():
    s = Servers()
    rows = []
    try:
        print(f"{'bytes':>8} {'clients':>7}  {'':10} {'req/s':>9} {'p50 us':>8} {'p99 us':>9} {'us CPU':>7}  of nginx")
        for size in GRAPHS:
            for clients in CLIENTS:
                runs = measure(s, size, clients, 1 if o.quick else o.rounds, 0.3 if o.quick else o.seconds)
                fs = list(figures(size, clients, runs))
                rows += fs
                v = {f["name"].split(".", 3)[3]: f["value"] for f in fs}
                for server in runs:
                    ratio = f"{v['rate_of_nginx']:.2f}, p99 {v['p99_of_nginx']:.2f}" if server == "dovetail" else ""
                    print(f"{len(s.replies[size][0]):8} {clients:7}  {server:10} {v[server + '.requests_per_s']:9.0f} "
                          f"{v[server + '.p50_us']:8.0f} {v[server + '.p99_us']:9.0f} {v[server + '.cpu_us']:7.1f}  "
                          f"{ratio}", flush=True)
        rows += [{"name": f"service.{size}.bytes", "value": len(s.replies[size][0])} for size in GRAPHS]
    finally:
        s.stop()
    if not o.quick:
        results.write(o.out, "service", figures=rows)


main()
