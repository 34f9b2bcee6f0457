"""A browser, through ChromeDriver and the WebDriver protocol. Python's standard library only."""

import base64
import json
import re
import subprocess
import tempfile
import urllib.error
import urllib.request

from lab import wait_for

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Down": "\ue015", "Up": "\ue013", "Right": "\ue014", "End": "\ue010"}
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"]


def start_driver(attempts=5):
    """ChromeDriver and its port. It chooses a free port before it listens there, so that another program may be faster."""
    driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in driver.stdout:
        found = re.search(r"started successfully on port (\d+)", line)
        if found:
            return driver, found.group(1)
        lines.append(line)
    driver.stdout.close()
    code, text = driver.wait(), "".join(lines)
    if attempts > 1 and re.search("in use|Unable to start server|port not available", text):
        return start_driver(attempts - 1)
    raise AssertionError(f"chromedriver ended with code {code}: {text}")


class Browser:
    def __init__(self, width=1440, height=900, dark=False):
        self.profile = tempfile.TemporaryDirectory(prefix="wharf-browser-", ignore_cleanup_errors=True)
        self.driver, port = start_driver()
        self.base = f"http://127.0.0.1:{port}"
        flags = [*FLAGS, f"--user-data-dir={self.profile.name}", f"--window-size={width},{height}"]
        if dark:
            flags.append("--blink-settings=preferredColorScheme=0")
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": flags}, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("DELETE", f"/session/{self.session}")
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.driver.stdout.close()
            self.profile.cleanup()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method, headers={"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as refused:
            with refused:
                raise AssertionError(json.load(refused)["value"]["message"].splitlines()[0]) from None

    def do(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def open(self, url):
        self.do("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """The value of a script's body, which may be a promise."""
        wrapped = f"const done = arguments[arguments.length - 1]; (async () => {{ {script} }})().then(done, (e) => done({{error: String(e)}}));"
        value = self.do("POST", "/execute/async", {"script": wrapped, "args": list(arguments)})
        assert not (isinstance(value, dict) and "error" in value), value
        return value

    def find(self, css):
        return self.do("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]

    def click(self, css):
        self.do("POST", f"/element/{self.find(css)}/click", {})

    def type(self, css, text):
        self.do("POST", f"/element/{self.find(css)}/value", {"text": text})

    def keys(self, *names):
        """Keys for whatever has the focus."""
        actions = [{"type": kind, "value": KEYS.get(name, name)} for name in names for kind in ("keyDown", "keyUp")]
        self.do("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def middle(self, css):
        box = self.run("const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]", css)
        return {"x": round(box[0]), "y": round(box[1])}

    def wheel(self, css, by):
        """Turns the wheel over the middle of an element."""
        turn = {"type": "scroll", "duration": 0, "deltaX": 0, "deltaY": by, "origin": "viewport", **self.middle(css)}
        self.do("POST", "/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [turn]}]})

    def drag(self, css, right, down):
        """Drags the middle of an element somewhere else."""
        at = self.middle(css)
        move = {"type": "pointerMove", "duration": 0, "origin": "viewport"}
        steps = [{**move, **at}, {"type": "pointerDown", "button": 0}, {**move, "x": at["x"] + right, "y": at["y"] + down, "duration": 50}, {"type": "pointerUp", "button": 0}]
        self.do("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": steps}]})

    def text(self, css="body"):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", css)

    def wait_text(self, part, css="body"):
        wait_for(f"`{part}` in {css}: {self.text(css)[:300]!r}", lambda: part in self.text(css))

    def wait(self, what, script, *arguments):
        return wait_for(what, lambda: self.run(script, *arguments))

    def size(self, width, height):
        self.do("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}})

    def colours(self, scheme):
        self.do("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]}})

    def picture(self, path, scale=1):
        """What is in sight; for the book smaller."""
        wanted = {"format": "png"}
        if scale != 1:
            width, height, top = self.run("return [innerWidth, innerHeight, scrollY]")
            wanted["clip"] = {"x": 0, "y": top, "width": width, "height": height, "scale": scale}
        told = self.do("POST", "/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": wanted})
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(told["data"]))

    def complaints(self):
        """What the console was told since the last question, but for what is only information."""
        lines = self.do("POST", "/se/log", {"type": "browser"})
        return [line["message"] for line in lines if line["level"] in ("SEVERE", "WARNING")]
