"""Running a program that may hang where nothing reaches it: killed with all that it started at its time limit, and left
behind if even that does not end it.

Its output goes into files: a pipe would be waited for as long as anything that it started holds the other end.
"""
import os
import signal
import subprocess
import tempfile


def run(command, seconds, env=None):
    """(exit status, negative for a signal, or None: the time was up; stdout; stderr)"""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                             env={**os.environ, **(env or {})}, start_new_session=True)
        try:
            status = p.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(p.pid, signal.SIGKILL)  # a worker of it that still waits for the device
        except (ProcessLookupError, PermissionError):
            pass
        if status is None:
            try:
                p.wait(3)
            except subprocess.TimeoutExpired:  # waits in the driver, and cannot be killed there
                pass
        text = []
        for f in (out, err):
            f.seek(0)
            text.append(f.read().decode(errors="replace"))
        return status, *text
