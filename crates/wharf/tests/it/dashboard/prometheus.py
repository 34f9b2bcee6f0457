"""A real Prometheus scrapes a head: `prometheus.py WHARF DOCS`."""

import json
import pathlib
import socket
import sqlite3
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

from lab import Cluster, wait_for

WHARF, DOCS = sys.argv[1], pathlib.Path(sys.argv[2])


def journal(cluster):
    """Counts of what the journal has, by what it is."""
    with sqlite3.connect(f"file:{cluster.home / 'journal.sqlite'}?mode=ro", uri=True) as database:
        records = [json.loads(text) for (text,) in database.execute("SELECT record FROM events")]
    count = lambda name, check=lambda data: True: sum(1 for record in records for what, data in record.items() if what == name and check(data))
    return {
        "wharf_jobs_submitted_total": count("job_submitted"),
        "sum(wharf_job_starts_total)": count("job_launched"),
        "sum(wharf_preemptions_total)": count("job_stopping", lambda data: data["why"] == "preempted"),
        "wharf_queue_wait_seconds_count": count("job_placed", lambda data: data["generation"] == 1),
        'wharf_jobs_ended_total{end="finished"}': count("job_ended", lambda data: data["end"] == "finished"),
        'wharf_jobs_ended_total{end="failed"}': count("job_ended", lambda data: isinstance(data["end"], dict)),
        'wharf_jobs{state="finished"}': count("job_ended", lambda data: data["end"] == "finished"),
        "wharf_journal_events_total": len(records),
        'sum(wharf_devices{state="free"})': 4,
    }


def main():
    rules = DOCS / "monitoring" / "alerts.yaml"
    subprocess.run(["promtool", "check", "rules", rules], check=True, stdout=subprocess.DEVNULL)
    with Cluster(WHARF, "--policy", "srtf") as cluster, tempfile.TemporaryDirectory(prefix="wharf-prometheus-") as folder:
        cluster.worker("a", "v100:4")
        # One that gives way to another that is shorter, one that fails, one that ends well.
        long = cluster.submit("--gang", "4", "--iterations", "3600", "--iteration-ms", "1000", "--name", "long", "--", "sh", "-c", "test -e done || exec sleep 1000")
        wait_for("the first job", lambda: cluster.metrics()['wharf_jobs{state="running"}'] == 1)
        cluster.submit("--gang", "4", "--iterations", "1", "--iteration-ms", "1000", "--wait", "--", "true")
        wait_for("the first job again", lambda: cluster.metrics()['wharf_jobs{state="running"}'] == 1)
        cluster.say("cancel", str(long))
        subprocess.run([WHARF, "submit", "--wait", "--", "false"], env=cluster.environment(), check=False)
        wait_for("the end", lambda: cluster.metrics()['wharf_jobs{state="cancelled"}'] == 1)
        expected = journal(cluster)
        assert expected["sum(wharf_preemptions_total)"] >= 1, expected
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        host = cluster.url.removeprefix("http://")
        config = pathlib.Path(folder) / "prometheus.yml"
        config.write_text(f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: wharf
    authorization: {{credentials_file: "{cluster.home / 'token'}"}}
    static_configs: [{{targets: ["{host}"]}}]
""")
        server = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"], stderr=subprocess.DEVNULL)
        try:
            def ask(path):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                        return json.load(answer)["data"]
                except OSError:
                    return None

            def value(query):
                told = ask(f"/api/v1/query?query={urllib.parse.quote(query)}")
                return float(told["result"][0]["value"][1]) if told and told["result"] else None

            wait_for("a scrape", lambda: value("up") == 1)
            found = wait_for("all figures", lambda: (lambda told: told if None not in told.values() else None)({query: value(query) for query in expected}))
            assert found == {query: float(number) for query, number in expected.items()}, (found, expected)
            loaded = [rule["name"] for group in ask("/api/v1/rules")["groups"] for rule in group["rules"]]
            assert "WharfSchedulingStalled" in loaded, loaded
            health = wait_for("the rules", lambda: (lambda told: told if all(rule["health"] == "ok" for group in told["groups"] for rule in group["rules"]) else None)(ask("/api/v1/rules")))
            assert health
            print("Prometheus has what the journal has:", json.dumps(found))
            panels = json.loads((DOCS / "monitoring" / "grafana.json").read_text())["panels"]
            for panel in panels:
                for target in panel.get("targets", []):
                    told = ask(f"/api/v1/query?query={urllib.parse.quote(target['expr'].replace('$__rate_interval', '1m'))}")
                    assert told is not None, f"{panel['title']}: {target['expr']}"
        finally:
            server.terminate()
            server.wait()


main()
