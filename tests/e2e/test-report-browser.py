"""The report in a browser: headless Chromium, through the DevTools protocol on a pipe. Skipped where there is none.

On a phone, a laptop and a wall, light and dark: the page itself never scrolls sideways; nothing lies over anything
else; no text runs out of its box; all text has a contrast of 4.5 to 1 to what is behind it; what scrolls takes the
keyboard's focus; nothing was asked for from outside, and no policy was broken. Paper gets the folded parts, too.

DOVETAIL_SHOTS=DIR leaves a picture of each there; DOVETAIL_PAGE=FILE looks at that page.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
import unittest

from harness import SLOW, FolderCase, chain, cli

BROWSER = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
SCREENS = {"phone": (390, 844, 2, True), "laptop": (1366, 768, 1, False), "wall": (3840, 2160, 1, False)}

# What is wrong with the page, as a list of sentences.
LOOK = r"""(() => {
const bad = [], say = s => { if (bad.length < 20) bad.push(s); };
const name = e => e.tagName + '.' + (e.getAttribute('class') || '') + ' ' + (e.textContent || '').trim().slice(0, 40);
const root = document.documentElement;
if (root.scrollWidth > root.clientWidth + 1) say('the page is ' + root.scrollWidth + ' wide on ' + root.clientWidth);
for (const e of document.querySelectorAll('*')) {
  const over = getComputedStyle(e).overflowX;
  if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth && over !== 'visible' && !(e.tabIndex >= 0))
    say('cannot be scrolled by keyboard: ' + name(e));
}
// boxes that stand beside or below each other
for (const list of ['main>*', 'figure', '.g figure>*', '.x td', 'table.l td'].map(s => [...document.querySelectorAll(s)])) {
  const boxes = list.filter(e => e.checkVisibility()).slice(0, 400).map(e => [e, e.getBoundingClientRect()]).filter(x => x[1].width && x[1].height);
  for (let i = 0; i < boxes.length; i++)
    for (let j = i + 1; j < boxes.length && j < i + 60; j++) {
      const [a, p] = boxes[i], [b, q] = boxes[j];
      const w = Math.min(p.right, q.right) - Math.max(p.left, q.left), h = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (w > 1 && h > 1 && !a.contains(b) && !b.contains(a)) say('overlap: ' + name(a) + ' / ' + name(b));
    }
}
for (const e of document.querySelectorAll('.g figure, td, th, h1, h2, h3, p, summary')) {
  const box = e.getBoundingClientRect(), r = document.createRange();
  r.selectNodeContents(e);
  const t = r.getBoundingClientRect();
  if (e.checkVisibility() && t.right > box.right + 1.5) say('runs out of its box: ' + name(e));
}
// labels on bars
for (const svg of document.querySelectorAll('svg')) {
  const labels = [...svg.querySelectorAll('text.on')].map(e => e.getBoundingClientRect());
  for (const e of svg.querySelectorAll('text.on')) {
    const bar = e.previousElementSibling.getBoundingClientRect(), t = e.getBoundingClientRect();
    if (t.right > bar.right + 1 || t.left < bar.left) say('a label is longer than its bar: ' + name(e));
  }
  const ticks = [...svg.querySelectorAll('text.tx')].map(e => e.getBoundingClientRect()).sort((a, b) => a.left - b.left);
  for (let i = 1; i < ticks.length; i++)
    if (ticks[i].left < ticks[i - 1].right) say('times on the axis overlap');
}
// contrast
const parse = s => (s.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
const light = c => { const f = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  return .2126 * f(c[0]) + .7152 * f(c[1]) + .0722 * f(c[2]); };
const ratio = (a, b) => { const x = light(a), y = light(b); return (Math.max(x, y) + .05) / (Math.min(x, y) + .05); };
const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
  if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
const seen = new Set();
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let n; (n = walk.nextNode());) {
  const e = n.parentElement;
  if (!n.data.trim() || ['STYLE', 'TITLE', 'title'].includes(e.tagName)) continue;
  const svg = e.closest('svg'), c = parse(getComputedStyle(e)[svg ? 'fill' : 'color']);
  const b = svg && e.classList.contains('on') ? parse(getComputedStyle(e.previousElementSibling).fill) : behind(e);
  const key = c + '/' + b;
  if (seen.has(key)) continue;
  seen.add(key);
  if (ratio(c, b) < 4.5) say('contrast ' + ratio(c, b).toFixed(2) + ': ' + name(e));
}
for (const e of document.querySelectorAll('img'))
  if (!e.alt || !e.complete || !e.naturalWidth) say('a picture is not there: ' + e.alt);
return [bad, seen.size, document.querySelectorAll('img').length, document.querySelectorAll('svg').length,
        document.querySelectorAll('.x tr').length];
})()"""


class Browser:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="dovetail-browser.")
        theirs_in, self.out = os.pipe()
        self.back, theirs_out = os.pipe()

        def pipes():  # the browser's own numbers; neither end may be one of them before it is moved
            a, b = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(a, 3)
            os.dup2(b, 4)
        self.process = subprocess.Popen(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             "--disable-dev-shm-usage", "--disable-background-networking", f"--user-data-dir={self.dir}",
             "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=pipes)
        os.close(theirs_in)
        os.close(theirs_out)
        self.n, self.buffer, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Network", "Runtime"):
            self.call(domain + ".enable")

    def message(self):
        deadline = time.monotonic() + 60 * SLOW
        while b"\0" not in self.buffer:
            if not select.select([self.back], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError("the browser does not answer")
            got = os.read(self.back, 1 << 16)
            if not got:
                raise AssertionError("the browser has ended")
            self.buffer += got
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.n += 1
        m = {"id": self.n, "method": method, "params": params}
        if self.session:
            m["sessionId"] = self.session
        text = json.dumps(m).encode() + b"\0"
        while text:
            text = text[os.write(self.out, text):]
        while True:
            m = self.message()
            if m.get("id") == self.n:
                if "error" in m:
                    raise AssertionError(f"{method}: {m['error']}")
                return m["result"]
            self.events.append(m)

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url="file://" + path)
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            self.events.append(self.message())

    def value(self, expression):
        r = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in r, r
        return r["result"].get("value")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.back)
        shutil.rmtree(self.dir, ignore_errors=True)


def wide():
    """Names as long as they get, several launches, blocks of more than a pixel each."""
    g = chain(4, names=["input of the first one", "b" * 90, "c", "d", "e"], blocks=700)
    for i, l in enumerate(g["launches"]):
        l["name"] = f"fused_nn_dense_add_multiply_{'very_' * 8 * (i == 1)}long_name_kernel{i}"
    return g


@unittest.skipUnless(BROWSER, "there is no Chromium")
class Look(FolderCase):
    def report(self, graph):
        path, out = os.path.join(self.dir, "graph.json"), os.path.join(self.dir, "report.html")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(graph, f)
        p = cli("report", path, "--local", "--device", "soft", "--cache", os.path.join(self.dir, "c.db"), "-o", out)
        self.assertEqual(p.returncode, 0, p.stderr)
        return out

    def test_look(self):
        page = os.environ.get("DOVETAIL_PAGE") or self.report(wide())
        b = Browser()
        self.addCleanup(b.close)
        for screen, (width, height, scale, mobile) in SCREENS.items():
            b.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                   mobile=mobile)
            for scheme in ("light", "dark"):
                with self.subTest(screen=screen, scheme=scheme):
                    b.call("Emulation.setEmulatedMedia", media="screen",
                           features=[{"name": "prefers-color-scheme", "value": scheme}])
                    b.open(page)
                    self.assertEqual(b.value("matchMedia('(prefers-color-scheme: dark)').matches"), scheme == "dark")
                    for opened in (False, True):
                        if opened:
                            b.value("document.querySelectorAll('details').forEach(d => { d.open = true; })")
                        bad, colours, images, drawings, lines = b.value(LOOK)
                        self.assertEqual(bad, [])
                    self.assertGreater(colours, 3)
                    self.assertGreaterEqual(images, 1)
                    self.assertEqual(drawings, 4)
                    self.assertGreater(lines, 3)
                    asked = [e["params"]["request"]["url"][:60] for e in b.events
                             if e["method"] == "Network.requestWillBeSent"]
                    self.assertEqual([u for u in asked if not u.startswith(("file:", "data:"))], [])
                    logged = [e for e in b.events if e["method"] in ("Log.entryAdded", "Runtime.exceptionThrown",
                                                                     "Runtime.consoleAPICalled")]
                    self.assertEqual(logged, [])
                    self.shot(b, f"{screen}-{scheme}")
        # keyboard: everything that can be opened is reached by Tab, in order
        b.open(page)
        n = b.value("document.querySelectorAll('summary').length")
        self.assertGreater(n, 2)
        reached = set()
        for _ in range(200):
            for kind in ("keyDown", "keyUp"):
                b.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
            at = b.value("[...document.querySelectorAll('summary')].indexOf(document.activeElement)")
            reached.add(at)
            if b.value("document.activeElement === document.body"):
                break
        self.assertEqual(reached - {-1}, set(range(n)))
        # paper: what is folded is printed
        pdf = base64.b64decode(b.call("Page.printToPDF", printBackground=True)["data"])
        self.assertTrue(pdf.startswith(b"%PDF"))
        b.call("Emulation.setEmulatedMedia", media="print")
        folded = "[...document.querySelectorAll('details:not([open]) table')]"
        self.assertGreater(b.value(folded + ".length"), 0)
        self.assertTrue(b.value(folded + ".every(e => e.checkVisibility())"))

    def shot(self, b, name):
        to = os.environ.get("DOVETAIL_SHOTS")
        if to:
            data = b.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
            with open(os.path.join(to, name + ".png"), "wb") as f:
                f.write(base64.b64decode(data))


if __name__ == "__main__":
    unittest.main()
