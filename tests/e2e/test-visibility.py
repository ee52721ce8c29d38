#!/usr/bin/env python3
"""What is not one's own is not there: jobs, results, events, documents, rows; and what share=uid adds to that."""
import json
import os
import unittest

from harness import ServiceCase, call_as, chain, endless, main, unpacked

MINE, YOURS = 54411, 54412
NOBODY_S = "0123abcd-77"  # an id that was never given out


@unittest.skipUnless(os.geteuid() == 0, "needs root, to be several users")
class Case(ServiceCase):
    def call(self, uid, method, path, body=None):
        return call_as(self.s, uid, method, path, body)

    def made(self, uid, graph, query="want=plan"):
        """(the answer to the post, the document)"""
        r = self.call(uid, "POST", "/v1/jobs?" + query, graph)
        if r.status == 200:
            return r, r.json()
        self.assertEqual(r.status, 202, r.body)
        job = self.call(uid, "GET", r.headers["Location"] + "?wait=60").json()
        self.assertEqual(job["state"], "done", job)
        return r, self.call(uid, "GET", r.headers["Location"] + "/result").json()

    def same_as_unknown(self, uid, method, path, unknown):
        """404, and in no way other than for what does not exist."""
        there, not_there = self.call(uid, method, path), self.call(uid, method, unknown)
        self.assertEqual((there.status, not_there.status), (404, 404), (path, there.body))
        a, b = there.json(), not_there.json()
        last, word = path.split("?")[0], unknown.split("?")[0]
        self.assertEqual(json.dumps(a).replace(last.split("/")[3], "X"), json.dumps(b).replace(word.split("/")[3], "X"))
        self.assertEqual(sorted(there.headers.keys()), sorted(not_there.headers.keys()))


class Visibility(Case):
    def test_jobs(self):
        posted, _ = self.made(MINE, chain(2, factor=3.5), "want=run")
        at = posted.headers["Location"]
        for tail in ("", "?wait=1", "/events", "/result"):
            self.assertEqual(self.call(MINE, "GET", at + tail).status, 200, tail)
            self.assertEqual(self.s.http("GET", at + tail).status, 200, tail)  # root
            self.same_as_unknown(YOURS, "GET", at + tail, f"/v1/jobs/{NOBODY_S}{tail}")
        self.same_as_unknown(YOURS, "DELETE", at, f"/v1/jobs/{NOBODY_S}")
        yours, _ = self.made(YOURS, chain(1, factor=3.5), "want=run")
        ids = {uid: {j["id"] for j in self.call(uid, "GET", "/v1/jobs").json()["jobs"]} for uid in (0, MINE, YOURS)}
        self.assertIn(posted.json()["id"], ids[MINE] - ids[YOURS])
        self.assertIn(yours.json()["id"], ids[YOURS] - ids[MINE])
        self.assertTrue(ids[MINE] | ids[YOURS] <= ids[0])

    def test_a_running_job_cannot_be_cancelled_nor_watched_by_others(self):
        posted = self.call(MINE, "POST", "/v1/jobs?want=run", endless(1))
        at = posted.headers["Location"]
        self.same_as_unknown(YOURS, "DELETE", at, f"/v1/jobs/{NOBODY_S}")
        self.same_as_unknown(YOURS, "GET", at + "/events", f"/v1/jobs/{NOBODY_S}/events")
        self.assertIn(self.call(MINE, "GET", at).json()["state"], ("queued", "running"))
        # whoever has the whole graph joins the job; who left it sees it, and does not decide over it
        self.assertEqual(self.call(YOURS, "POST", "/v1/jobs?want=run", endless(1)).json()["id"], posted.json()["id"])
        self.assertEqual(self.call(YOURS, "DELETE", at).status, 200)
        self.assertIn(self.call(YOURS, "GET", at).json()["state"], ("queued", "running"))
        self.assertEqual(self.call(MINE, "DELETE", at).json()["state"], "cancelled")
        self.assertEqual(self.call(MINE, "GET", at).json()["state"], "cancelled")

    def test_documents_and_rows(self):
        graph = chain(3, factor=4.5)
        _, plan = self.made(MINE, graph)
        self.made(MINE, graph, "want=analysis")
        sig, none = plan["signature"], "sha256:" + "0" * 64
        for path in ("/v1/plans/%s", "/v1/plans/%s/report", "/v1/plans/%s/trace", "/v1/analyses/%s"):
            self.assertEqual(self.call(MINE, "GET", path % sig).status, 200, path)
            self.assertEqual(self.s.http("GET", path % sig).status, 200, path)
            self.same_as_unknown(YOURS, "GET", path % sig, path % none)
        self.same_as_unknown(YOURS, "GET", "/v1/cache/nearest/" + sig, "/v1/cache/nearest/" + none)
        self.same_as_unknown(YOURS, "GET", "/v1/cache/entries?signature=" + sig,
                             "/v1/cache/entries?signature=" + none)
        self.made(YOURS, chain(1, factor=4.5))
        rows = {uid: self.call(uid, "GET", "/v1/cache/entries").json() for uid in (0, MINE, YOURS)}
        of = {uid: {e["signature"] for e in doc["entries"]} for uid, doc in rows.items()}
        self.assertIn(sig, of[MINE] - of[YOURS])
        self.assertTrue(of[MINE] | of[YOURS] <= of[0])
        for uid, doc in rows.items():
            self.assertEqual(doc["total"], len(doc["entries"]), uid)
        self.assertNotIn(sig, unpacked(self.call(YOURS, "GET", "/v1/cache/export").body))
        self.assertIn(sig, unpacked(self.call(MINE, "GET", "/v1/cache/export").body))
        self.assertNotIn(sig, unpacked(self.call(YOURS, "GET", "/v1/cache/export?signature=" + sig).body))
        self.assertEqual(self.call(YOURS, "GET", "/v1/cache/verify").status, 403)
        # the nearest entry is one of theirs, in the answer to a call and in an explanation
        self.assertIn(self.call(MINE, "GET", "/v1/cache/nearest/" + sig).status, (200, 404))
        _, explained = self.made(YOURS, chain(3, factor=4.75), "want=explain")
        self.assertNotEqual(explained.get("nearest", {}).get("entry", {}).get("signature"), sig)
        _, explained = self.made(MINE, chain(3, factor=4.625), "want=explain")
        self.assertEqual(explained["nearest"]["entry"]["signature"], sig)
        # with the whole graph it is a hit, and then it is theirs too
        posted, _ = self.made(YOURS, chain(3, names="qrstuv", factor=4.5))
        self.assertEqual((posted.status, posted.headers["Dovetail-Cache"]), (200, "hit"))
        self.assertEqual(self.call(YOURS, "GET", "/v1/plans/" + sig).status, 200)

    def test_planning_again(self):
        _, plan = self.made(MINE, chain(2, factor=5.5))
        self.assertEqual(self.call(YOURS, "POST", "/v1/reprofile").json()["due"], 0)
        self.assertTrue(plan["signature"])


class Apart(Case):
    """share = uid: an equal graph of another user is another job, another entry and no hit."""
    config = {"share": "uid"}

    def test_entries(self):
        graph = chain(2, factor=6.5)
        first, plan = self.made(MINE, graph)
        self.assertEqual(first.status, 202)
        self.assertEqual(self.made(MINE, graph)[0].headers["Dovetail-Cache"], "hit")
        other, again = self.made(YOURS, graph)
        self.assertEqual(other.status, 202)
        job = self.call(YOURS, "GET", other.headers["Location"]).json()
        self.assertEqual(job["cache"], "miss", job)  # nor does the worker find it
        self.assertEqual(self.made(YOURS, graph)[0].headers["Dovetail-Cache"], "hit")
        self.assertEqual((plan["signature"], plan["launches"]), (again["signature"], again["launches"]))
        policies = {e["policy"] for e in self.s.http("GET", "/v1/cache/entries").json()["entries"]
                    if e["want"] == "plan" and e["signature"] == plan["signature"]}
        self.assertEqual(len(policies), 2, policies)

    def test_jobs(self):
        ids = [self.call(uid, "POST", "/v1/jobs?want=run", endless(2)).json()["id"] for uid in (MINE, YOURS, MINE)]
        self.assertEqual(ids[0], ids[2])
        self.assertNotEqual(ids[0], ids[1])
        for uid, at in zip((MINE, YOURS), ids):
            self.assertEqual(self.call(uid, "DELETE", "/v1/jobs/" + at).json()["state"], "cancelled")


if __name__ == "__main__":
    del Case
    main()
