#!/usr/bin/env python3
"""libdovetail.so beside a service, called as a program would: all at once, in steps, a stored document by its
signature, and what is refused."""
import ctypes
import json
import os

from harness import BUILD, ServiceCase, chain, endless, main

TEXT = ctypes.c_char_p


class Result(ctypes.Structure):
    _fields_ = [("document", TEXT), ("len", ctypes.c_size_t), ("cache", TEXT), ("signature", TEXT), ("digest", TEXT),
                ("job", TEXT)]


EVENT = ctypes.CFUNCTYPE(None, TEXT, ctypes.c_void_p)


class Library(ServiceCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lib = ctypes.CDLL(os.path.join(BUILD, "client/libdovetail.so"))
        cls.lib.dovetail_problem.restype = TEXT
        cls.d = ctypes.c_void_p()
        assert cls.lib.dovetail_open(cls.s.socket.encode(), ctypes.byref(cls.d)) == 0

    @classmethod
    def tearDownClass(cls):
        cls.lib.dovetail_close(cls.d)
        super().tearDownClass()

    def call(self, name, *args):
        """(status, the result's members); the memory goes back."""
        r = Result()
        status = getattr(self.lib, name)(self.d, *args, ctypes.byref(r))
        members = {f: getattr(r, f) for f, _ in Result._fields_}
        self.lib.dovetail_result_done(ctypes.byref(r))
        return status, members

    def test_by_signature(self):
        graph = json.dumps(chain(2)).encode()
        signatures = {}
        for want in b"plan", b"analysis":
            status, made = self.call("dovetail_submit", want, None, graph, len(graph), None, None)
            # an analysis may come with the plan
            self.assertEqual((status, made["cache"]), (0, b"miss" if want == b"plan" else made["cache"]), want)
            status, again = self.call("dovetail_submit", want, None, graph, len(graph), None, None)
            self.assertEqual((status, again["cache"], again["signature"]), (0, b"hit", made["signature"]))
            signatures[want] = made["signature"]
        for want in b"plan", b"analysis":
            status, found = self.call("dovetail_find", want, signatures[want], None)
            self.assertEqual((status, found["cache"], found["signature"]), (0, b"hit", signatures[want]))
            doc = json.loads(found["document"])
            self.assertEqual(found["len"], len(found["document"]))
            self.assertEqual(doc["signature"].encode(), signatures[want])
            self.assertIn("rewrites" if want == b"plan" else "edges", doc)
            status, same = self.call("dovetail_find", want, signatures[want], b"soft:h200")
            self.assertEqual((status, same["document"]), (0, found["document"]))
            # one value, escaped
            self.assertLess(self.call("dovetail_find", want, signatures[want], b"soft l4&device=soft")[0], 0)
        for wrong in b"sha256:" + b"0" * 64, b"nonsense", b"../jobs", b"":
            status, none = self.call("dovetail_find", b"plan", wrong, None)
            self.assertLess(status, 0, wrong)
            self.assertIsNone(none["document"])

    def test_steps(self):
        graph, told = json.dumps(chain(3, blocks=5)).encode(), []
        status, posted = self.call("dovetail_post", b"analysis", None, graph, len(graph))
        self.assertEqual(status, 0)
        self.assertIsNone(posted["document"])
        seen = EVENT(lambda text, _: told.append(json.loads(text)["event"]))
        self.assertEqual(self.lib.dovetail_follow(self.d, posted["job"], seen, None), 0)
        self.assertEqual((told[0], told[-1]), ("queued", "done"))
        status, fetched = self.call("dovetail_fetch", posted["job"])
        self.assertEqual(status, 0)
        self.assertEqual(len(json.loads(fetched["document"])["launches"]), 3)

    def test_cancel(self):
        graph = json.dumps(endless()).encode()
        status, posted = self.call("dovetail_post", b"run", None, graph, len(graph))
        self.assertEqual(status, 0)
        self.assertEqual(self.lib.dovetail_cancel(self.d, posted["job"]), 0)
        status, none = self.call("dovetail_fetch", posted["job"])
        self.assertLess(status, 0)
        self.assertEqual(self.s.http("GET", "/v1/jobs/" + posted["job"].decode()).json()["state"], "cancelled")


if __name__ == "__main__":
    main()
