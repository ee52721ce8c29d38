#!/usr/bin/env python3
"""docs/OPERATE.md and the units, under a real systemd: a container is booted, every command of the page is run in it in
order, and between them what the page promises is looked at.

Skipped (77) where no systemd can be booted; test-manager.py has the same protocols without one.
"""
import json
import os
import re
import sys
import unittest

from container import Container
from harness import BUILD, main

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PAGE = os.path.join(ROOT, "docs/OPERATE.md")


def page():
    with open(PAGE, encoding="utf-8") as f:
        return f.read()


def commands(text):
    """The lines of the page's blocks of commands, with the headline each stands under."""
    out, headline = [], ""
    for block in re.finditer(r"^## ([^\n]*)$|^```sh\n(.*?)^```$", text, re.M | re.S):
        if block[1]:
            headline = block[1]
        else:
            out += [(headline, line) for line in block[2].splitlines() if line.strip()]
    return out


SOCKET = "/run/dovetail/dovetail.sock"
CURL = f"curl -s --unix-socket {SOCKET} http://d"
WORKER = "$(systemctl show -P MainPID dovetaild | xargs pgrep -P | head -n 1)"


def patient(command):
    """Until it succeeds, within a minute: for what follows a signal, or comes by way of the journal."""
    return f"for i in $(seq 300); do {{ {command}; }} && exit 0; sleep 0.2; done; exit 1"


# What is looked at beside the page's own commands: after which headline, the command, and what must be in its output.
LOOKS = [
    ("Install", f"stat -c '%a %U:%G' {SOCKET}", "660 root:dovetail"),
    ("Install", "stat -c '%a %U:%G' /var/lib/dovetail/cache.db", "600 dovetail:dovetail"),
    ("Install", "systemctl show -P ActiveState dovetaild.service dovetaild.socket dovetail-reprofile.timer | sort -u",
     "active"),
    ("Install", "systemctl show -P User -P Type -P WatchdogUSec dovetaild | xargs", "dovetail"),
    ("Install", "man -w dovetail dovetaild dovetail.conf", "dovetail.conf.5"),
    ("Install", "printf '#include <dovetail.h>\\n#include <stdio.h>\\nint main(void) { puts(dovetail_version()); }' | "
     "gcc -x c - -o /tmp/embedded $(pkg-config --cflags --libs dovetail) && /tmp/embedded", "0."),
    ("Install", "DESTDIR=/tmp/package meson install -C build --no-rebuild > /dev/null && find /tmp/package -type f",
     "/tmp/package/usr/local/lib/systemd/system/dovetaild.socket"),
    ("Configure", patient(f"{CURL}/metrics | grep 'reloads_total.result=.taken.}} 1'"), "} 1"),
    ("Configure", patient("journalctl -u dovetaild --grep 'reload: max_queued is now 128'"), "no longer 64"),
    ("Configure", "echo worker_silence = 3 >> /usr/local/etc/dovetail/dovetail.conf && systemctl reload dovetaild", ""),
    # a member of the group may connect; another user may not; neither is an admin
    ("Watch", f"runuser -u nobody -g dovetail -- {CURL}/healthz", '"status":"ok"'),
    ("Watch", f"! runuser -u nobody -g nogroup -- {CURL}/healthz && echo refused", "refused"),
    ("Watch", f"runuser -u nobody -g dovetail -- curl -s -X POST --unix-socket {SOCKET} http://d/v1/cache/gc",
     "forbidden"),
    # the fields of the journal, exactly
    ("Watch", "journalctl -u dovetaild DOVETAIL_UID=0 -o json --output-fields=MESSAGE,PRIORITY,DOVETAIL_JOB,"
     "DOVETAIL_DIGEST,DOVETAIL_GRAPH,DOVETAIL_TIME,SYSLOG_IDENTIFIER", "JOURNAL"),
    # a worker that is stopped is found, and replaced: the service stays
    ("Watch", f"before=$(systemctl show -P MainPID dovetaild); kill -STOP {WORKER}; "
     f"for i in $(seq 200); do {CURL}/metrics | grep -q 'cause=.silent.}} 1' && break; sleep 0.5; done; "
     f"for i in $(seq 100); do {CURL}/healthz | grep -q ready && break; sleep 0.1; done; "
     f"[ $before = $(systemctl show -P MainPID dovetaild) ] && {CURL}/metrics | grep 'cause=.silent'", "} 1"),
    # a service that is stuck is killed by the manager, and the next one answers on the same socket; the unit's times
    # (90 and 30 s) are shortened for the test
    ("Watch", "d=/run/systemd/system/dovetaild.service.d; mkdir -p $d; "
     "printf '[Service]\\nWatchdogSec=5\\nTimeoutAbortSec=2\\n' > $d/fast.conf; systemctl daemon-reload; "
     "systemctl restart dovetaild; stuck=$(systemctl show -P MainPID dovetaild); kill -STOP $stuck; "
     f"curl -s --max-time 60 --retry 60 --retry-delay 1 --retry-all-errors --fail --unix-socket {SOCKET} "
     "http://d/healthz; "
     "next=$(systemctl show -P MainPID dovetaild); rm $d/fast.conf; systemctl daemon-reload; "
     "systemctl restart dovetaild; [ $next != $stuck ] && "
     "journalctl -u dovetaild --grep 'Watchdog timeout' | grep -c Watchdog", "1"),
    # a restart keeps the socket: its inode is the same, and a client that connects meanwhile is answered
    ("Upgrade", f"was=$(stat -c %i {SOCKET}); systemctl kill -s KILL dovetaild; sleep 0.2; "
     f"curl -s --retry 20 --retry-all-errors --fail --unix-socket {SOCKET} http://d/healthz; "
     f"[ $was = $(stat -c %i {SOCKET}) ] && echo same", "same"),
    # the service is started by the first who connects
    ("Upgrade", f"systemctl stop dovetaild.service; curl -s --retry 20 --retry-all-errors --fail "
     f"--unix-socket {SOCKET} http://d/healthz", '"status":"ok"'),
    # the timer's service, too, may be the first
    ("Upgrade", "systemctl stop dovetaild.service; systemctl start dovetail-reprofile.service && "
     "systemctl show -P Result dovetail-reprofile", "success"),
    # what it is confined to: no network, no capabilities
    ("Upgrade", "grep -h CapEff /proc/$(systemctl show -P MainPID dovetaild)/status", "0000000000000000"),
    # what was baked in waits, signed; the service took it too, and takes nothing else any more
    ("Bake plans into an image",
     "stat -c '%a %U' /usr/local/etc/dovetail/build-farm.key /tmp/image/var/lib/dovetail/cache.db | xargs",
     "600 root 600 dovetail"),
    ("Bake plans into an image",
     "runuser -u dovetail -- dovetail cache list --json --local --cache /tmp/image/var/lib/dovetail/cache.db",
     "signed by build-farm"),
    ("Bake plans into an image", "dovetail cache export -o /tmp/none.zst > /dev/null && "
     "! dovetail cache import /tmp/none.zst --json", "it is not signed"),
    ("Bake plans into an image",
     "sed -i /signer/d /usr/local/etc/dovetail/dovetail.conf && systemctl reload dovetaild", ""),
    ("Back up", f"stat -c '%a %U:%G' {SOCKET}", "660 root:dovetail"),
    ("Remove", "test ! -e /usr/local/bin/dovetaild && test ! -e /run/dovetail/dovetail.sock && "
     "test -e /var/lib/dovetail/cache.db && echo gone", "gone"),
]


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.container = Container(ROOT, {"SUDO_USER": "nobody"})
        if cls.container.why:
            print("skipped:", cls.container.why)
            sys.exit(77)
        cls.work = []  # headline, command, what must be in its output
        told = commands(page())
        assert len(told) > 20, told
        for i, (headline, line) in enumerate(told):
            cls.work.append((headline, line, None))
            if i + 1 == len(told) or told[i + 1][0] != headline:
                cls.work += [(h, c, want) for h, c, want in LOOKS if h == headline]
        cls.work = [(h, c.replace("-C build", f"-C {os.path.abspath(BUILD)}"), want) for h, c, want in cls.work]
        cls.results = cls.container.run([c for _, c, _ in cls.work])
        if cls.results is None:
            print("skipped:", cls.container.why)
            sys.exit(77)

    def test_headlines(self):
        """Each look belongs to a headline that has commands."""
        self.assertLessEqual({h for h, _, _ in LOOKS}, {h for h, _ in commands(page())})

    def test_commands(self):
        self.assertEqual(len(self.results), len(self.work), self.container.console[-2000:])
        for (headline, command, want), (_, status, out, err) in zip(self.work, self.results):
            with self.subTest(headline=headline, command=command):
                self.assertEqual(status, 0, out[-1500:] + err[-1500:])
                if want == "JOURNAL":
                    self.journal(out)
                elif want:
                    self.assertIn(want, out)

    def journal(self, out):
        lines = [json.loads(x) for x in out.splitlines()]
        done = [x for x in lines if "done, cache miss" in x["MESSAGE"]]
        self.assertTrue(done, lines)
        one = done[-1]
        self.assertEqual(one["SYSLOG_IDENTIFIER"], "dovetaild")
        self.assertEqual(one["PRIORITY"], "6")
        self.assertIn(one["DOVETAIL_JOB"], one["MESSAGE"])
        self.assertRegex(one["DOVETAIL_DIGEST"], r"^sha256:[0-9a-f]{64}$")
        self.assertEqual(one["DOVETAIL_GRAPH"], "pointwise")
        self.assertGreater(float(one["DOVETAIL_TIME"]), 0)


if __name__ == "__main__":
    main()
