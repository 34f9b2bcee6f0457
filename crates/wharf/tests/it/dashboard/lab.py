"""A head with a dashboard, and what tests do with it. Python's standard library only."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

PATIENCE_S = 90


def wait_for(what, check, patience_s=PATIENCE_S):
    """Returns the first answer that is true; fails where none comes."""
    until = time.monotonic() + patience_s
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > until:
            raise AssertionError(f"timed out waiting for {what}")
        time.sleep(0.05)


class Cluster:
    """A head that serves browsers, in a folder of its own; everything ends with it."""

    def __init__(self, wharf, *options, command=("head", "--listen", "127.0.0.1:0", "--allow-root"), http="127.0.0.1:0"):
        self.wharf = wharf
        self.folder = tempfile.TemporaryDirectory(prefix="wharf-dashboard-")
        self.home = pathlib.Path(self.folder.name)
        self.daemons = []
        self.tls = None
        said = self.start(*command, "--http", http, *options, ready="dashboard at")
        self.url = re.search(r"dashboard at ([^\s\"]+)", said).group(1)
        self.token = (self.home / "token").read_text().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self.daemons:
            daemon.wait(timeout=PATIENCE_S)
            daemon.stderr.close()
        self.folder.cleanup()

    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WHARF_")}
        return {**kept, "WHARF_HOME": str(self.home)}

    def start(self, *words, ready):
        """Starts a daemon and waits until it states that it is ready."""
        daemon = subprocess.Popen([self.wharf, *words], env=self.environment(), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.daemons.append(daemon)
        self.said = []
        for line in daemon.stderr:
            self.said.append(line)
            if ready in line:
                return line
        raise AssertionError(f"{words} ended before it said `{ready}`")

    def worker(self, node, devices):
        self.start("worker", "--node", node, "--devices", devices, ready="accepted this worker")

    def say(self, *words):
        done = subprocess.run([self.wharf, *words], env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def submit(self, *words):
        return int(self.say("submit", *words).split()[0])

    def ask(self, path, token=None, body=None, headers=None):
        """A request over HTTP: status, headers and text."""
        headers = dict(headers or {})
        if token:
            headers["authorization"] = f"Bearer {token}"
        data = None if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S, context=self.tls) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.headers, refused.read().decode()

    def metrics(self):
        """All samples, by name and labels as they are written."""
        status, _, text = self.ask("/metrics", self.token)
        assert status == 200, text
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
