#!/usr/bin/env python3
"""What the cluster costs, on one PostgreSQL of its own, over Unix sockets, without fsync.

    hits      a plan that this host has, that the cluster has (by a service, and the look-up alone), and the first
              look-up of a host that has no connection yet; beside GET of Redis, of as many bytes, and a SELECT
    million   so many entries: look-ups, bytes on disk, and whether each statement takes its index (else this fails)
    claims    64 claimers at once: leases on keys of their own, and entries of one queue, none of which goes to two
    nodes     a thousand hosts through pgbouncer, each with a look-up a second and a heartbeat every five seconds: the
              server's CPU

Latencies are one request after the other, by one client: microseconds, p50 and p99.

usage: bench-cluster.py --build DIR --out DIR [--json] [--quick] [--entries N] [--nodes N] [--seconds S]
"""
import argparse
import hashlib
import glob
import json
import os
import random
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import results

sys.path[:0] = [os.path.join(results.ROOT, "tests", d) for d in ("cluster", "e2e")]
p = argparse.ArgumentParser()
p.add_argument("--quick", action="store_true", help="20,000 entries, 200 nodes, short; nothing written")
p.add_argument("--entries", type=int, default=1000000)
p.add_argument("--nodes", type=int, default=1000)
p.add_argument("--seconds", type=float, default=10)
o = results.options(p)
if o.quick:
    o.entries, o.nodes, o.seconds = 20000, 200, 2.0
os.environ["DOVETAIL_BUILD"] = os.path.abspath(o.build)
import harness  # noqa: E402
from server import Server, available, program  # noqa: E402
from store import Store, key, signature  # noqa: E402

CLAIMERS, PER = 64, 8
DEVICE, TOOLCHAIN, POLICY = key("x")[1:]
TARGET = "sha256:" + hashlib.sha256(b"".join(len(t).to_bytes(8, "little") + t for t in (b"d", b"t"))).hexdigest()
rows = []


def figure(name, value, unit, **more):
    rows.append({"name": "cluster." + name, "value": round(value, 3), "unit": unit, **more})


def spread(name, us, what):
    us = sorted(us)
    p50, p99 = us[len(us) // 2], us[min(len(us) - 1, len(us) * 99 // 100)]
    figure(name + ".p50_us", p50, "us", runs=len(us))
    figure(name + ".p99_us", p99, "us", runs=len(us))
    print(f"  {what:62} {p50:9.0f} {p99:9.0f}", flush=True)


def timed(call):
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1e6


# ---- hits -----------------------------------------------------------------------------------------------------------

def graphs(n, first):
    return [harness.chain(3, factor=float(first + i)) for i in range(n)]


def post(connection, body):
    connection.request("POST", "/v1/jobs?want=plan", body)
    r = connection.getresponse()
    return r.status, r.headers, r.read()


def until_done(s, body):
    """A post and, if it is not answered at once, waiting for its end."""
    c = harness.UnixHTTP(s.socket, 60)
    status, headers, data = post(c, body)
    if status == 202:
        c.request("GET", headers["Location"] + "?wait=60")
        data = c.getresponse().read()
        assert json.loads(data)["state"] == "done", data
        return json.loads(data)["cache"]
    return headers["Dovetail-Cache"]


def service(db):
    return harness.Service({"shared": db.url()})


def posts(db, n):
    """Local hits, shared ones on a service at work and on one that has just started, and plans without any of that."""
    bodies = [json.dumps(g) for g in graphs(n + 5, 3)]
    a = service(db)
    planned = [timed(lambda: until_done(a, b)) for b in bodies]
    while json.loads(a.http("GET", "/healthz").body)["cluster"]["outbox"]["waiting"]:
        time.sleep(0.05)
    c = harness.UnixHTTP(a.socket, 60)
    hits = []
    for i in range(20 * n):
        hits.append(timed(lambda: post(c, bodies[i % n])))
    b = service(db)
    until_done(b, bodies[n])
    warm, cold = [], []
    for body in bodies[:n]:
        said = []
        warm.append(timed(lambda: said.append(until_done(b, body))))
        assert said == ["shared"], said
    for _ in range(2 if o.quick else 5):
        s = service(db)
        said = []
        cold.append(timed(lambda: said.append(until_done(s, bodies[n + 1]))))
        assert said == ["shared"], said
        s.stop()
        s.remove()
    for s in (a, b):
        s.stop()
        s.remove()
    spread("post.local", hits, "post: this host has the plan")
    spread("post.shared_warm", warm, "post: the cluster has its recipe (made and verified here)")
    spread("post.shared_cold", cold, "post: the same, the first of a service that has just started")
    spread("post.planned", planned, "post: nobody has it")


def redis(value, n):
    where = tempfile.mkdtemp(prefix="dovetail-bench.")
    at = where + "/r.sock"
    child = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", at, "--save", "", "--dir", where],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        with socket.socket(socket.AF_UNIX) as s:
            while s.connect_ex(at):
                time.sleep(0.02)
            s.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n" % (len(value), value))
            assert s.recv(16) == b"+OK\r\n"

            def get():
                s.sendall(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
                got = 0
                while got < len(value) + 4 + len(str(len(value))):
                    got += len(s.recv(1 << 16))
            spread("redis.get", [timed(get) for _ in range(n)], "Redis: GET of as many bytes as the row has")
    finally:
        child.terminate()
        child.wait()
        shutil.rmtree(where)


def pgbench(db, script, *args, url=None):
    """Its transactions' latencies, microseconds. script: text, or several with their weights."""
    where = tempfile.mkdtemp(prefix="dovetail-bench.")
    scripts = []
    for i, (text, weight) in enumerate(script if isinstance(script, list) else [(script, 1)]):
        path = f"{where}/{i}.sql"
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        scripts += ["-f", f"{path}@{weight}"]
    try:
        r = subprocess.run([program("pgbench"), "-n", "-l", "--log-prefix", where + "/log", *args, *scripts,
                            url or db.url()], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if r.returncode or "aborted" in r.stderr:
            sys.exit("bench-cluster: pgbench: " + r.stderr[-2000:])
        took = []
        for path in glob.glob(where + "/log*"):
            with open(path, encoding="utf-8") as f:
                took += [int(line.split()[2]) - (int(line.split()[6]) if len(line.split()) > 6 else 0) for line in f]
        return took, r.stdout
    finally:
        shutil.rmtree(where)


# ---- a million entries ----------------------------------------------------------------------------------------------

def summed(*texts):
    """SQL of the digest over texts (SQL expressions of ASCII), each with its length, as base/hash.c sums."""
    length = "set_byte(set_byte('\\x0000000000000000'::bytea, 0, length(t) % 256), 1, length(t) / 256)"
    parts = " || ".join(f"(SELECT {length} || convert_to(t, 'UTF8') FROM (SELECT {t} AS t) x{i})"
                        for i, t in enumerate(texts))
    return f"'sha256:' || encode(sha256({parts}), 'hex')"


def fill(db, n):
    """Entries with right keys and sums; the n-th is that of key(n)."""
    begun = time.monotonic()
    recipe = """'{"steps":[{"kind":"block-fusion","module":0,"level":"register","way":0,"launches":[0,' || i || ']}]}'"""
    parts = ("s", f"'{DEVICE}'", f"'{TOOLCHAIN}'", f"'{POLICY}'")
    db.sql("INSERT INTO dovetail_entry (space, key, signature, device, toolchain, policy, format, digest, recipe, "
           "rewriter, evidence, grade, factors, stamp, signer, seal, checksum, created, used) "
           f"SELECT 'default', {summed(*parts)}, {', '.join(parts)}, 1, s, r, 7, 'modeled:h200', 0, '', 1700000000, "
           f"""'', '', {summed("'1'", "'default'", *parts, "s", "r", "'7'", "'modeled:h200'", "''", "'1700000000'",
                           "''", "''")}, now(), now() FROM (SELECT i, 'sha256:' || encode(sha256(convert_to(i::text, """
           f"'UTF8')), 'hex') AS s, {recipe} AS r FROM generate_series(1, {n}) AS i) AS g")
    db.sql("VACUUM ANALYZE dovetail_entry")
    print(f"  {n} entries made in {time.monotonic() - begun:.0f} s", flush=True)


def statement(name, *values):
    """A statement of the service, with values in it."""
    with open(os.path.join(results.ROOT, "cluster/statements.def"), encoding="utf-8") as f:
        text = re.search(r"STATEMENT\(" + name + r",((?:\s*\"[^\"]*\")+)\)", f.read()).group(1)
    sql = "".join(re.findall(r'"([^"]*)"', text))
    return re.sub(r"\$(\d+)", lambda m: "'" + values[int(m.group(1)) - 1] + "'", sql)


def queued(db, n):
    graph = "'sha256:' || encode(sha256(i::text::bytea), 'hex')"
    db.sql(f"INSERT INTO dovetail_work SELECT 'default', '{TARGET}', {graph}, 'd', i, '', '', 'waiting', 0, '', 0, "
           f"now(), now(), now() FROM generate_series(1, {n}) AS i")


def plans(db, one):
    """Each statement that is sent often takes an index of its own: by EXPLAIN, as the role of the service."""
    s, k = one
    queued(db, o.entries // 20)
    db.sql("INSERT INTO dovetail_lease SELECT 'default', key, 1, now() FROM dovetail_entry ON CONFLICT DO NOTHING")
    db.sql("VACUUM ANALYZE dovetail_work")
    db.sql("VACUUM ANALYZE dovetail_lease")
    for name, index, values in (
            ("FIND", "dovetail_entry_pkey", ("default", k)), ("NEAR", "dovetail_entry_signature", ("default", s, k)),
            ("TOUCH", "dovetail_entry_pkey", ("default", k, "x")), ("LEFT", "dovetail_lease_pkey", ("default", k)),
            ("RENEW", "dovetail_lease_pkey", ("default", k, "1", "1000")),
            ("PUT_LEASE", "dovetail_lease_pkey", ("default", k, "1")),
            ("WORK_CLAIM", "dovetail_work_next", ("default", TARGET, "1000", str(o.entries), "")),
            ("WORK_RENEW", "dovetail_work_pkey", ("default", TARGET, s, "1", "1")),
            ("SWEEP_LEASES", "dovetail_lease_expires", ("default",))):
        plan = db.sql("SET dovetail.namespace = 'default'; EXPLAIN " + statement(name, *values), role="dovetail")
        text = "\n".join("\t".join(line) for line in plan)
        if index not in text or "Seq Scan" in text:
            sys.exit(f"bench-cluster: {name} does not take {index}:\n{text}")
    print("  each statement takes its index: 9 by EXPLAIN", flush=True)
    db.sql("TRUNCATE dovetail_work, dovetail_lease")


def million(db):
    fill(db, o.entries)
    s = Store(db.url())
    chance = random.Random(5)
    took = []
    for _ in range(500 if o.quick else 10000):
        r = s.find(key(chance.randint(1, o.entries)))
        assert r.outcome == "ok", (r, s.log)
        took.append(r.ms * 1e3)
    spread("million.find", took, f"look-up among {o.entries} entries")
    took = [s.find(key(f"none {i}")).ms * 1e3 for i in range(500)]
    spread("million.none", took, "look-up of what is not there")
    (one,) = db.sql(f"SELECT signature, key, length(recipe) FROM dovetail_entry WHERE signature = '{signature(7)}'")
    took = []
    for _ in range(5 if o.quick else 20):  # a connection for each
        cold = Store(db.url())
        took.append(cold.find(key(7)).ms * 1e3)
        cold.close()
    spread("find.cold", took, "look-up by a host that has no connection yet")
    s.close()
    seconds = str(max(1, int(o.seconds / 3)))
    took, _ = pgbench(db, f"SELECT * FROM dovetail_entry WHERE space = 'default' AND key = '{one[1]}';\n", "-c", "1",
                      "-T", seconds, url=db.url(role="super"))
    spread("postgres.select", took, "PostgreSQL: a plain SELECT of that row (pgbench)")
    width = int(db.sql(f"SELECT pg_column_size(e.*) FROM dovetail_entry e WHERE key = '{one[1]}'")[0][0])
    redis(b"x" * width, len(took) if len(took) < 20000 else 20000)
    for name, what in (("table", "pg_table_size"), ("indexes", "pg_indexes_size")):
        n = int(db.sql(f"SELECT {what}('dovetail_entry')")[0][0])
        figure(f"million.{name}_bytes_per_entry", n / o.entries, "B")
        print(f"  {name}: {n / 1e6:.0f} MB, {n / o.entries:.0f} bytes an entry", flush=True)
    figure("million.entries", o.entries, "")
    plans(db, one[:2])


# ---- claims ---------------------------------------------------------------------------------------------------------

def claims(db):
    stores = [Store(db.url(), connections=PER, statement_ms=20000) for _ in range(CLAIMERS // PER)]
    n = 1500 if o.quick else 20000

    def by_all(turn):
        threads = [threading.Thread(target=turn, args=(i, s)) for i, s in enumerate(stores)]
        begun = time.monotonic()
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return time.monotonic() - begun

    def lease(i, s):
        for first in range(0, n // len(stores), PER):
            calls = [s.begin("claim", key=key(f"{i} {first + j}"), ms=60000) for j in range(PER)]
            assert {s.end(h)["outcome"] for h in calls} == {"ok"}
    rate = n / by_all(lease)
    figure("claims.leases_per_s", rate, "1/s")
    print(f"  {CLAIMERS} claimers, keys of their own: {rate:.0f} leases a second", flush=True)
    got = []
    n //= 4
    queued(db, n)
    db.sql("ANALYZE dovetail_work")

    def queue(i, s):
        while True:
            rs = [s.end(h) for h in [s.begin("queue_claim", device="d", ms=600000) for _ in range(PER)]]
            assert {r["outcome"] for r in rs} <= {"ok", "none"}, rs
            got.extend(r["row"]["graph"] for r in rs if r["outcome"] == "ok")
            if any(r["outcome"] == "none" for r in rs):
                return
    seconds = by_all(queue)
    assert len(got) == len(set(got)) == n, (len(got), len(set(got)), n)
    figure("claims.queue_per_s", n / seconds, "1/s")
    print(f"  {CLAIMERS} claimers, one queue: {n / seconds:.0f} entries a second, each to one", flush=True)
    for s in stores:
        s.close()


# ---- nodes ----------------------------------------------------------------------------------------------------------

def cpu(*pids):
    """Seconds of these processes and all that they started."""
    total, parents = 0, set(pids)
    for d in sorted((int(d) for d in os.listdir("/proc") if d.isdigit())):
        try:
            with open(f"/proc/{d}/stat", encoding="utf-8") as f:
                fields = f.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if d in pids or int(fields[1]) in parents:
            total += sum(map(int, fields[11:15 if d in pids else 13]))
    return total / os.sysconf("SC_CLK_TCK")


def nodes(db):
    db.start_bouncer(pool=16, clients=o.nodes + 100)
    begin = ("BEGIN;\nSELECT set_config('dovetail.namespace', 'default', true), "
             "set_config('statement_timeout', '2000', true);\n")
    # polls find nothing, as those of a host that waits; heartbeats are of leases that are there
    pick = f"\\set i random(1, {o.entries // 10})\n"
    name = "'sha256:' || encode(sha256(convert_to((:i)::text, 'UTF8')), 'hex')"
    find = pick + begin + statement("FIND", "default", "@").replace("'@'", name) + ";\nCOMMIT;\n"
    beat = pick + begin + statement("RENEW", "default", "@", "1", "15000").replace("'@'", name) + ";\nCOMMIT;\n"
    db.sql("INSERT INTO dovetail_lease SELECT 'default', 'sha256:' || encode(sha256(i::text::bytea), 'hex'), 1, now() "
           f"FROM generate_series(1, {o.entries // 10}) AS i ON CONFLICT DO NOTHING")
    rate = o.nodes * 1.2
    before, begun = cpu(db.process.pid, db.bouncer.pid), time.monotonic()
    part = cpu(db.bouncer.pid)
    took, _ = pgbench(db, [(find, 5), (beat, 1)], "-M", "extended", "-c", str(o.nodes), "-j", "2", "-R", str(rate),
                      "-T", str(int(o.seconds)), url=db.url(bouncer=True))
    seconds = time.monotonic() - begun
    used, part = cpu(db.process.pid, db.bouncer.pid) - before, cpu(db.bouncer.pid) - part
    spread("nodes.call", took, f"{o.nodes} hosts through pgbouncer: a look-up or heartbeat")
    figure("nodes.n", o.nodes, "")
    figure("nodes.calls_per_s", len(took) / o.seconds, "1/s")
    figure("nodes.cpu_us_per_call", used * 1e6 / max(1, len(took)), "us")
    figure("nodes.cores", used / seconds, "")
    print(f"  {len(took) / o.seconds:.0f} calls a second on 16 connections; {used / seconds:.2f} cores of the server, "
          f"{used * 1e6 / max(1, len(took)):.0f} us a call, of which {part * 1e6 / max(1, len(took)):.0f} pgbouncer's",
          flush=True)


def main():
    if not available() or not all(program(x) for x in ("pgbench", "pgbouncer", "redis-server")):
        sys.exit("bench-cluster: needs Debian's postgresql, pgbouncer and redis-server")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(20000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    db = Server(shared_buffers="256MB", max_connections="150", max_wal_size="4GB")
    try:
        print(f"  {'':62} {'p50 us':>9} {'p99 us':>9}")
        posts(db, 10 if o.quick else 40)
        million(db)
        claims(db)
        nodes(db)
    finally:
        db.remove()
    if not o.quick:
        results.write(o.out, "cluster", figures=rows)


main()
