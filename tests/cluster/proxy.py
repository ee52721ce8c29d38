"""A bad network: a Unix socket before the server's, which spoils what the server says.

    p = Proxy(server, spoil)       # spoil(bytes of the server) is what the client sees; None: the connection ends
    p = Proxy(server)
    p.spoil = Stall(p)             # from now on, also for connections that are there
    p.reset()                      # all connections end, with what is on its way
"""
import itertools
import os
import socket
import struct
import threading
import time

ports = itertools.count(7000)


def right(data):
    return data


class Proxy:
    def __init__(self, server, spoil=right):
        self.path, self.to = server.run, os.path.join(server.run, f".s.PGSQL.{server.port}")
        self.server, self.spoil, self.port = server, spoil, next(ports)
        self.open, self.lock = set(), threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self.at = os.path.join(self.path, f".s.PGSQL.{self.port}")
        self.listener.bind(self.at)
        os.chmod(self.at, 0o777)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def url(self):
        return self.server.url().replace(f"port={self.server.port}", f"port={self.port}")

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self.to)
            except OSError:
                client.close()
                continue
            with self.lock:
                self.open |= {client, server}
            threading.Thread(target=self.pump, args=(client, server, right), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, self.now), daemon=True).start()

    def now(self, data):
        return self.spoil(data)

    def pump(self, a, b, spoil):
        try:
            while data := a.recv(65536):
                data = spoil(data)
                if data is None:
                    break
                for part in data if isinstance(data, list) else [data]:
                    b.sendall(part)
                    if isinstance(data, list):
                        time.sleep(0.01)
        except OSError:
            pass
        self.end(a, b)
        a.close()  # b is closed by whoever reads it

    def end(self, *sockets):
        for s in sockets:
            with self.lock:
                self.open.discard(s)
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def reset(self):
        with self.lock:
            sockets = list(self.open)
        self.end(*sockets)

    def close(self):
        self.listener.close()
        os.remove(self.at)
        self.reset()


# ---- ways to spoil --------------------------------------------------------------------------------------------------

class Stall:
    """Nothing comes any more, as of a network that drops everything; what came too late is not sent later."""

    def __init__(self, proxy):
        self.proxy = proxy

    def __call__(self, data):
        while self.proxy.spoil is self:
            time.sleep(0.02)
        return None


class Delay:
    """Everything comes later."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __call__(self, data):
        time.sleep(self.seconds)
        return data


class Trickle:
    """A hundred times so many bytes a second, in small parts."""

    def __init__(self, size):
        self.size = size

    def __call__(self, data):
        return [data[i:i + self.size] for i in range(0, len(data), self.size)]


def end(data):
    """The connection ends instead of an answer."""
    return None


class Cut:
    """The connection ends in the middle of the first row that has many bytes; what is before it comes."""

    def __init__(self, proxy, least=300):
        self.proxy, self.least, self.cuts = proxy, least, 0

    def __call__(self, data):
        at = 0
        while at + 5 <= len(data):  # messages: a letter and a length
            length = struct.unpack(">I", data[at + 1:at + 5])[0] + 1
            if data[at:at + 1] == b"D" and length >= self.least:
                self.cuts += 1
                threading.Timer(0.05, self.proxy.reset).start()
                return data[:at + length // 2]
            at += length
        return data
