"""A PostgreSQL of a test's own, on a Unix socket in a folder of its own; by another user where the test is root, since
the server will not run as root. Services log in as a user who owns nothing of it. Nothing is left when the test ends.
"""
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time


def programs():
    """The folder of initdb and postgres; None: there is no server here."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda p: int(p.split("/")[4]))
    on_path = shutil.which("initdb")
    return os.path.dirname(found[-1] if found else os.path.realpath(on_path)) if found or on_path else None


class Database:
    def __init__(self):
        self.bin = programs()
        self.dir = tempfile.mkdtemp(prefix="dovetail-pg.")
        self.data, self.log = os.path.join(self.dir, "data"), os.path.join(self.dir, "log")
        self.user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self.process = None
        if self.user:
            os.chown(self.dir, self.user.pw_uid, self.user.pw_gid)
            os.chmod(self.dir, 0o755)
        self.run("initdb", "-D", self.data, "-U", "dovetail", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        self.url = f"postgresql://service@/postgres?host={self.dir}"
        self.back()
        self.sql("CREATE ROLE service LOGIN; GRANT CREATE ON DATABASE postgres TO service; "
                 "GRANT CREATE ON SCHEMA public TO service")

    def _become(self):
        if self.user:
            os.setgroups([])
            os.setgid(self.user.pw_gid)
            os.setuid(self.user.pw_uid)

    def run(self, name, *args):
        subprocess.run([os.path.join(self.bin, name), *args], check=True, stdin=subprocess.DEVNULL, cwd=self.dir,
                       stdout=subprocess.DEVNULL, preexec_fn=self._become)

    def sql(self, text):
        """The rows of a query, as lists of texts."""
        r = subprocess.run([os.path.join(self.bin, "psql"), "-XqAt", "-F", "\t", "-h", self.dir, "-U", "dovetail", "-d",
                            "postgres", "-c", text], check=True, capture_output=True, text=True)
        return [line.split("\t") for line in r.stdout.splitlines()]

    def back(self):
        """Start, or start again."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([os.path.join(self.bin, "postgres"), "-D", self.data, "-k", self.dir, "-c",
                                             "listen_addresses=", "-c", "fsync=off"], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, cwd=self.dir, preexec_fn=self._become)
        deadline = time.monotonic() + 30
        while True:
            try:
                self.sql("SELECT 1")
                return
            except subprocess.CalledProcessError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    with open(self.log, encoding="utf-8", errors="replace") as f:
                        raise AssertionError(f.read()) from None
                time.sleep(0.05)

    def away(self):
        """As if the machine had lost its power."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def forge(self, signature):
        """Rows of the signature say another digest than their recipe leads to."""
        tables = self.sql("SELECT a.table_schema || '.' || a.table_name FROM information_schema.columns a JOIN "
                          "information_schema.columns b USING (table_schema, table_name) "
                          "WHERE a.column_name = 'digest' AND b.column_name = 'signature'")
        assert tables
        for (t,) in tables:
            self.sql(f"UPDATE {t} SET digest = 'sha256:{'0' * 64}' WHERE signature = '{signature}'")

    def stop(self):
        if self.process.poll() is None:
            self.away()
        shutil.rmtree(self.dir)
