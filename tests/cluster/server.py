"""A private PostgreSQL, and a pgbouncer before it, in a folder of their own: for tests that need a database.

    server = Server()              # made, started; on a Unix socket alone, without a network
    server.url()                   # for libpq; url(bouncer=True): by pgbouncer in transaction mode, which it starts
    its method sql("SELECT 1")     # as the superuser: rows as lists of texts
    server.stop(); server.start(); server.kill(); server.remove()

PostgreSQL refuses to run as root: then it runs as postgres or nobody, by setpriv. Programs of Debian's packages
postgresql and pgbouncer are found by themselves; `available()` says whether they are there. fsync is
off: a machine that goes down is not what is tested. A program makes its first one by initdb, and copies it for others.
"""
import atexit
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

SLOW = float(os.environ.get("DOVETAIL_TEST_SLOW", "1"))


def program(name):
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    for path in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True):
        found = found or shutil.which(name, path=path)
    return found


def available():
    return all(program(p) for p in ("postgres", "initdb", "psql"))


def other_user():
    """As whom, when root may not."""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    raise RuntimeError("no user to run PostgreSQL as")


class Server:
    CONF = {"listen_addresses": "''", "fsync": "off", "full_page_writes": "off",
            "max_connections": "100", "shared_buffers": "32MB", "dynamic_shared_memory_type": "mmap",
            "log_statement": "'none'", "deadlock_timeout": "200ms"}
    ROLE = "dovetail"  # no superuser: policies hold for it

    def __init__(self, password=None, **conf):
        # short: the path of a socket has 107 bytes at most
        self.dir = tempfile.mkdtemp(prefix="dtpg.", dir="/tmp")
        self.user = other_user() if os.geteuid() == 0 else None
        self.password, self.conf = password, dict(self.CONF, **conf)
        self.process = self.bouncer = None
        self.port = conf.get("port", 5432)
        os.chmod(self.dir, 0o755)
        self.data, self.run = os.path.join(self.dir, "data"), os.path.join(self.dir, "run")
        for path in (self.data, self.run):
            os.mkdir(path, 0o700 if path == self.data else 0o755)
            if self.user:
                os.chown(path, self.user.pw_uid, self.user.pw_gid)
        if not Server.made:
            self.make()
        subprocess.run(["cp", "-a", Server.made + "/data/.", self.data], stdin=subprocess.DEVNULL, check=True)
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as f:
            f.writelines(f"{k} = {v}\n" for k, v in self.conf.items())
            f.write(f"unix_socket_directories = '{self.run}'\n")
        if password:
            with open(os.path.join(self.data, "pg_hba.conf"), "w", encoding="utf-8") as f:
                f.write("local all super trust\nlocal all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256\n")
        self.start()
        if password:
            self.sql(f"ALTER ROLE {self.ROLE} PASSWORD '{password}'", "postgres")

    made = None  # a folder with the data of a server that has the role and the database, and is stopped

    def make(self):
        """It is made by the first server's programs, in its place."""
        self.call("initdb", "-D", self.data, "-U", "super", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync",
                  "--wal-segsize=1")
        with open(os.path.join(self.data, "postgresql.auto.conf"), "a", encoding="utf-8") as f:
            f.write(f"listen_addresses = ''\nport = {self.port}\nfsync = off\nunix_socket_directories = '{self.run}'\n")
        self.start()
        self.sql(f"CREATE ROLE {self.ROLE} LOGIN", "postgres")
        self.sql(f"CREATE DATABASE dovetail OWNER {self.ROLE}", "postgres")
        self.stop()
        os.unlink(os.path.join(self.data, "postgresql.auto.conf"))
        Server.made = tempfile.mkdtemp(prefix="dtpg.", dir="/tmp")
        atexit.register(shutil.rmtree, Server.made, ignore_errors=True)
        os.rename(self.data, Server.made + "/data")
        os.mkdir(self.data, 0o700)
        if self.user:
            os.chown(self.data, self.user.pw_uid, self.user.pw_gid)

    # ---- processes --------------------------------------------------------------------------------------------------
    def argv(self, name, *args):
        path = program(name)
        if not path:
            raise RuntimeError(f"{name} is not installed")
        if not self.user:
            return [path, *args]
        return ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups", "--", path,
                *args]

    def call(self, name, *args):
        p = subprocess.run(self.argv(name, *args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd="/",
                           stderr=subprocess.STDOUT, text=True, check=False)
        if p.returncode:
            raise RuntimeError(f"{name}: {p.stdout}")
        return p.stdout

    def begin(self, name, *args):
        log = open(os.path.join(self.dir, name + ".log"), "ab")
        with log:
            return subprocess.Popen(self.argv(name, *args), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")

    def log(self, name="postgres"):
        with open(os.path.join(self.dir, name + ".log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def wait(self, what, path):
        deadline = time.monotonic() + 30 * SLOW
        while not what():
            if time.monotonic() > deadline:
                raise RuntimeError(f"it does not start: {self.log(path)}")
            time.sleep(0.02)

    def start(self):
        self.process = self.begin("postgres", "-D", self.data)
        self.wait(self.answers, "postgres")

    def answers(self):
        return subprocess.run([program("psql"), self.url("postgres", role="super"), "-c", "SELECT 1"],
                              stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0

    def end(self, how):
        if self.process:
            self.process.send_signal(how)
            self.process.wait(30 * SLOW)
            self.process = None

    def stop(self):
        """As in an upgrade: connections end with a word."""
        self.end(signal.SIGINT)

    def kill(self):
        """As in a crash. The postmaster's children notice that it is gone."""
        self.end(signal.SIGKILL)
        pid = os.path.join(self.data, "postmaster.pid")
        time.sleep(0.2)
        if os.path.exists(pid):
            os.remove(pid)

    def freeze(self):
        """Everything of it stands still: connections are there and nothing answers."""
        self.group(signal.SIGSTOP)

    def thaw(self):
        self.group(signal.SIGCONT)

    def group(self, how):
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True,
                                  text=True, check=False).stdout.split()
        for pid in [self.process.pid, *map(int, children)]:
            try:
                os.kill(pid, how)
            except ProcessLookupError:
                pass

    def remove(self):
        if self.bouncer:
            self.bouncer.terminate()
            self.bouncer.wait(30 * SLOW)
        self.end(signal.SIGINT)
        shutil.rmtree(self.dir, ignore_errors=True)

    # ---- pgbouncer --------------------------------------------------------------------------------------------------
    def start_bouncer(self, pool=4, clients=200):
        ini, users = (os.path.join(self.dir, n) for n in ("pgbouncer.ini", "users.txt"))
        with open(users, "w", encoding="utf-8") as f:
            f.write(f'"{self.ROLE}" "{self.password or ""}"\n')
        with open(ini, "w", encoding="utf-8") as f:
            f.write(f"[databases]\ndovetail = host={self.run} port={self.port} dbname=dovetail\n[pgbouncer]\n"
                    f"listen_addr =\nlisten_port = 6432\nunix_socket_dir = {self.run}\nauth_type = any\n"
                    f"auth_file = {users}\npool_mode = transaction\ndefault_pool_size = {pool}\n"
                    f"max_client_conn = {clients}\n"
                    f"ignore_startup_parameters = extra_float_digits\nlogfile =\npidfile =\n")
        # with auth_type any a user must be named with the database
        text = open(ini, encoding="utf-8").read().replace("dbname=dovetail", f"dbname=dovetail user={self.ROLE}"
                                                          + (f" password={self.password}" if self.password else ""))
        with open(ini, "w", encoding="utf-8") as f:
            f.write(text)
        for path in (ini, users):
            if self.user:
                os.chown(path, self.user.pw_uid, self.user.pw_gid)
        self.bouncer = self.begin("pgbouncer", "-q", ini)
        self.wait(lambda: os.path.exists(os.path.join(self.run, ".s.PGSQL.6432")), "pgbouncer")

    # ---- use --------------------------------------------------------------------------------------------------------
    def url(self, database="dovetail", role=None, bouncer=False):
        if bouncer and not self.bouncer:
            self.start_bouncer()
        role = role or self.ROLE
        secret = f":{self.password}" if self.password and role == self.ROLE else ""
        return (f"postgresql://{role}{secret}@/{database}?host={self.run.replace('/', '%2F')}"
                f"&port={6432 if bouncer else self.port}")

    def sql(self, text, database="dovetail", role="super"):
        p = subprocess.run([program("psql"), self.url(database, role=role), "-X", "-q", "-A", "-t", "-F", "\t", "-v",
                            "ON_ERROR_STOP=1", "-c", text], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           check=False)
        if p.returncode:
            raise RuntimeError(p.stderr)
        return [line.split("\t") for line in p.stdout.splitlines()]


class Replica(Server):
    """A hot standby of a server, by streaming; promote() makes it a server of its own."""
    def __init__(self, of):
        self.dir = tempfile.mkdtemp(prefix="dtpg.", dir="/tmp")
        self.user, self.password, self.conf = of.user, of.password, of.conf
        self.process = self.bouncer = None
        self.port = of.port
        os.chmod(self.dir, 0o755)
        self.data, self.run = os.path.join(self.dir, "data"), os.path.join(self.dir, "run")
        for path in (self.dir, self.run):
            os.makedirs(path, 0o755, exist_ok=True)
            if self.user:
                os.chown(path, self.user.pw_uid, self.user.pw_gid)
        self.call("pg_basebackup", "-D", self.data, "-d", of.url("postgres", role="super"), "-R", "-X", "stream",
                  "--checkpoint=fast", "--no-sync")
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as f:
            f.write(f"unix_socket_directories = '{self.run}'\n")
        self.start()

    def promote(self):
        self.sql("SELECT pg_promote()", "postgres")


def missing(daemon):
    """Why services cannot share here; None: they can."""
    if not available():
        return "there is no PostgreSQL server here"
    r = subprocess.run([daemon, "--check-config", "--shared", "postgresql://h/d", "--device", "soft",
                        "--cache", "/tmp/c.db", "--socket", "/tmp/d.sock"],
                       capture_output=True, text=True, check=False)
    return "dovetaild was built without libpq" if "without libpq" in r.stderr else None
