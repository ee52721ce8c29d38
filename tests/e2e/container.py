"""A machine of our own, with a real systemd as its first process: a copy-on-write view of this one's files, in
namespaces. Needs root, overlayfs, systemd and systemd-nspawn; Container.why says what is missing. Nothing outside is
changed: what is written goes into a tmpfs that ends with the container.

run() gives a list of shell commands to bash in it, one after the other, and what came of each.
"""
import json
import os
import shutil
import subprocess
import tempfile

RUNNER = '''
import json, os, subprocess, sys
work = json.load(open("/run/test/commands"))
out = []
for c in work["commands"]:
    try:
        r = subprocess.run(["bash", "-euo", "pipefail", "-c", c], cwd=work["cwd"], env={**os.environ, **work["env"]},
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                           timeout=work["timeout"])
        out.append((c, r.returncode, r.stdout, r.stderr))
    except subprocess.TimeoutExpired:
        out.append((c, 124, "", "no end after %s seconds" % work["timeout"]))
    with open("/run/test/results.new", "w") as f:
        json.dump(out, f)
    os.rename("/run/test/results.new", "/run/test/results")
'''
UNIT = """[Unit]
DefaultDependencies=no
After=basic.target dbus.service
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 PAGER=cat SYSTEMD_COLORS=0
ExecStart=/usr/bin/python3 /etc/test-runner.py
TimeoutStartSec=infinity
StandardOutput=journal+console
"""
TARGET = """[Unit]
Requires=basic.target
Wants=dbus.service test-runner.service
After=basic.target
AllowIsolate=yes
"""
# $1 a folder of ours (a tmpfs goes on it), $2 the folder of commands and results, $3 seconds
BOOT = r"""set -eu
mount -t tmpfs -o mode=0755 tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
tr -d - < /proc/sys/kernel/random/uuid > "$1/root/etc/machine-id"
cp "$2/runner.py" "$1/root/etc/test-runner.py"
cp "$2/test-runner.service" "$2/test-runner.target" "$1/root/etc/systemd/system/"
mount -t tmpfs -o mode=0755 tmpfs /run
exec timeout -k 5 "$3" systemd-nspawn --register=no --keep-unit --quiet --private-network --directory="$1/root" \
    --bind="$2:/run/test" --tmpfs=/var/lib/dovetail --tmpfs=/var/backups --machine=dovetail-test \
    /lib/systemd/systemd systemd.unit=test-runner.target systemd.journald.forward_to_console=no
"""


class Container:
    def __init__(self, cwd, env=None, seconds=240):
        self.cwd, self.env, self.seconds, self.why, self.console = cwd, env or {}, seconds, "", ""
        missing = [p for p in ("systemd-nspawn", "unshare", "timeout") if not shutil.which(p)]
        if os.geteuid() or missing or not os.path.exists("/lib/systemd/systemd"):
            self.why = "needs root" if os.geteuid() else f"there is no {', '.join(missing) or 'systemd'}"

    def run(self, commands, timeout=60):
        """[(command, status, stdout, stderr)], one for each that was run; None: it did not boot, and why says so."""
        folder = tempfile.mkdtemp(prefix="dovetail-container.")
        shared, mounts = os.path.join(folder, "shared"), os.path.join(folder, "machine")
        os.mkdir(shared)
        os.mkdir(mounts)
        for name, text in (("runner.py", RUNNER), ("test-runner.service", UNIT), ("test-runner.target", TARGET),
                           ("commands", json.dumps({"commands": commands, "cwd": self.cwd, "env": self.env,
                                                    "timeout": timeout}))):
            with open(os.path.join(shared, name), "w", encoding="utf-8") as f:
                f.write(text)
        try:
            r = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", BOOT, "sh", mounts,
                                shared, str(self.seconds)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               errors="replace", check=False, timeout=self.seconds + 30)
            self.console = r.stdout + r.stderr
            path = os.path.join(shared, "results")
            if not os.path.exists(path):
                self.why = "systemd does not boot in a container here: " + self.console[-400:]
                return None
            with open(path, encoding="utf-8") as f:
                return [tuple(x) for x in json.load(f)]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
