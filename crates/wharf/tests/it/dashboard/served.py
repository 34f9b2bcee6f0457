"""What the head serves over HTTP, without a browser: `served.py WHARF`."""

import http.client
import json
import ssl
import subprocess
import sys
import urllib.error

from lab import Cluster

WHARF = sys.argv[1]


def doors(cluster, bob):
    """Who gets in, and what they may do."""
    assert cluster.ask("/healthz")[0] == 200
    assert cluster.ask("/readyz")[0] == 200
    worker = (cluster.home / "worker-token").read_text().strip()
    for path in ("/metrics", "/api/jobs", "/api/nodes", "/api/jobs/0", "/api/stream", "/api/events", "/api/usage", "/api/policy", "/api/limits", "/api/reasons?jobs=0", "/api/compare"):
        assert cluster.ask(path)[0] == 401, path
        assert cluster.ask(path, "whf1.guess")[0] == 401, path
        assert cluster.ask(path, worker)[0] == 403, path
    assert cluster.ask("/api/session") [2] == '{"user":null}'
    status, _, text = cluster.ask("/api/jobs/change", bob, {"change": "cancel", "jobs": [0]})
    assert (status, json.loads(text)["refused"][0]["reason"].split(":")[0]) == (200, "permission denied"), text
    assert cluster.ask("/api/nodes/change", bob, {"node": "a", "change": "drain"})[0] == 403
    assert cluster.ask("/api/jobs/0/logs", bob)[0] == 403
    shown = json.loads(cluster.ask("/api/jobs/0", bob)[2])
    assert shown["own"] is False and shown["spec"] is None and "secret-word" not in json.dumps(shown)
    assert "secret-word" in cluster.ask("/api/jobs/0", cluster.token)[2]


def sessions(cluster):
    """A login is a secret that the page sends in a header; no browser sends it by itself, to this port or to another."""
    assert cluster.ask("/api/login", None, {"token": "guess"})[0] == 401
    assert cluster.ask("/api/login", None, b"{")[0] == 400
    status, headers, text = cluster.ask("/api/login", None, {"token": cluster.token})
    assert status == 200 and json.loads(text)["role"] == "admin", text
    assert "set-cookie" not in headers and cluster.token not in text
    secret = json.loads(text)["session"]
    session = {"x-wharf-session": secret}
    assert cluster.ask("/api/jobs", None, None, session)[0] == 200
    wish = {"change": "hold", "jobs": [999]}
    assert cluster.ask("/api/jobs/change", None, wish)[0] == 401
    for cookie in (f"wharf-session={secret}", f"x-wharf-session={secret}", secret):
        assert cluster.ask("/api/jobs/change", None, wish, {"cookie": cookie})[0] == 401, "a cookie does not authenticate changes"
    assert cluster.ask(f"/api/jobs?session={secret}")[0] == 401
    assert cluster.ask("/api/jobs/change", None, wish, session)[0] == 200
    assert cluster.ask("/api/logout", None, {}, session)[0] == 200
    assert cluster.ask("/api/jobs", None, None, session)[0] == 401


def tricks(cluster):
    """Paths, methods, bodies and headers that are not what they should be."""
    for path in ("/../Cargo.toml", "/..%2f..%2fetc/passwd", "/pages/../../token", "//etc/passwd", "/token", "/auth/tokens.json", "/api/nothing", "/api/jobs/x", "/api/jobs/99999999999"):
        status, headers, text = cluster.ask(path, cluster.token)
        assert status in (400, 404), (path, status)
        assert cluster.token not in text
    for policies in ("./evil.py", "/bin/sh", "nonsense", ",".join(["fifo"] * 7)):
        assert cluster.ask(f"/api/compare?policies={policies}", cluster.token)[0] == 400, policies
    assert cluster.ask("/api/jobs/77", cluster.token)[0] == 404
    assert cluster.ask("/api/jobs/change", cluster.token, {"change": "explode", "jobs": []})[0] == 400
    try:
        assert cluster.ask("/api/jobs/change", cluster.token, b"x" * 100_000)[0] == 413
    except OSError:
        pass  # The head closes connections that send too much, perhaps before the client has read the answer.
    status, headers, text = cluster.ask("/")
    assert status == 200 and "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"


def read_only():
    with Cluster(WHARF, "--http-read-only") as cluster:
        cluster.submit("--held", "--", "true")
        status, _, text = cluster.ask("/api/jobs/change", cluster.token, {"change": "cancel", "jobs": [0]})
        assert status == 403 and "read-only" in text, text
        assert json.loads(cluster.ask("/api/jobs", cluster.token)[2])[0]["phase"] == "held"


def encrypted():
    """Where others could listen in it is HTTPS, with the authority of the cluster and no other."""
    with Cluster(WHARF, http="0.0.0.0:0") as cluster:
        port = cluster.url.rsplit(":", 1)[1]
        assert cluster.url == f"https://0.0.0.0:{port}", cluster.url
        cluster.url = f"https://127.0.0.1:{port}"
        cluster.tls = ssl.create_default_context(cafile=cluster.home / "auth" / "ca.pem")
        assert cluster.ask("/healthz")[0] == 200
        status, headers, _ = cluster.ask("/api/login", None, {"token": cluster.token})
        assert status == 200 and "set-cookie" not in headers
        assert "wharf_jobs" in cluster.ask("/metrics", cluster.token)[2]
        cluster.tls = ssl.create_default_context()
        try:
            cluster.ask("/healthz")
        except urllib.error.URLError as refused:
            assert isinstance(refused.reason, ssl.SSLCertVerificationError), refused
        else:
            raise AssertionError("an unknown authority was trusted")
        cluster.tls, cluster.url = None, f"http://127.0.0.1:{port}"
        try:
            status = cluster.ask("/healthz")[0]
        except (OSError, http.client.BadStatusLine):
            status = 0  # What comes back is an alert of TLS.
        assert status != 200, "nothing is served in the open"


def logged():
    """A log for programs: one object a line."""
    with Cluster(WHARF, "--log-format", "json") as cluster:
        lines = [json.loads(line) for line in cluster.said]
        assert {"time", "level", "message"} == set(lines[-1]) and lines[-1]["level"] == "info", lines
    failed = subprocess.run([WHARF, "head", "--log-format", "json", "--policy", "nonsense"], env=cluster.environment(), capture_output=True, text=True, check=False)
    told = json.loads(failed.stderr.splitlines()[-1])
    assert failed.returncode != 0 and told["level"] == "error" and "nonsense" in told["message"] and told["hints"], failed.stderr


def main():
    encrypted()
    logged()
    with Cluster(WHARF) as cluster:
        cluster.worker("a", "v100:2")
        cluster.say("token", "create", "--user", "bob", "--to", str(cluster.home / "bob.token"))
        bob = (cluster.home / "bob.token").read_text().strip()
        cluster.submit("--wait", "--", "echo", "secret-word")
        doors(cluster, bob)
        sessions(cluster)
        tricks(cluster)
        # What was counted is what the commands tell.
        cluster.submit("--wait", "--name", 'x"} 1', "--", "true")
        samples = cluster.metrics()
        assert samples['wharf_jobs{state="finished"}'] == 2 and samples["wharf_jobs_submitted_total"] == 2, samples
        assert samples['wharf_devices{type="v100",state="free"}'] == 2, samples
        assert samples["wharf_dispatcher_stalled"] == 0
        revoked = json.loads(cluster.say("token", "list", "--output", "json"))
        own = next(one["id"] for one in revoked["tokens"] if one["user"] == "bob")
        cluster.say("token", "revoke", own)
        assert cluster.ask("/api/jobs", bob)[0] == 401
    read_only()


main()
