"""The dashboard in a real browser: `browser.py WHARF ARTIFACTS`. Prints what was measured. WHARF_BROWSER=full has more jobs and devices."""

import getpass
import json
import os
import pathlib
import sys
import time

from driver import Browser
from lab import Cluster, wait_for

WHARF, OUT = sys.argv[1], pathlib.Path(sys.argv[2])
IS_FULL = os.environ.get("WHARF_BROWSER") == "full"
JOBS = 10_000 if IS_FULL else 300
EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
TRICK = "../../../../etc/passwd"
TRAINER = """
i=0
while [ $i -lt 600 ]; do
  i=$((i+1)); echo "step $i <b>bold</b> <script>document.title='owned'</script>"
  printf '\r 10%%|#         |\r\033[32m100%%\033[0m|##########| <i>bar</i>\n'
  "$0" step $i --metric loss=$(awk "BEGIN { print 3 / (1 + $i / 40) }") --metric grad=$([ $i = 2 ] && echo nan || echo $i)
  read -t 0.2 nothing < "$1"
done
"""


def log_in(browser, cluster):
    browser.open(cluster.url)
    browser.wait("the login", "return !!document.querySelector('.login input')")
    browser.type(".login input", "whf1.wrong")
    browser.click(".login button")
    browser.wait_text("wrong, or was revoked", ".problem")
    browser.picture(OUT / "login.png")
    refused = browser.complaints()
    assert all("401" in line for line in refused), refused
    browser.run("document.querySelector('.login input').value = ''; return 1")
    browser.type(".login input", cluster.token)
    browser.keys("Enter")
    browser.wait("the page of the cluster", "return !!document.querySelector('.map canvas')")
    browser.wait_text("live", ".live")
    assert browser.run("return document.cookie") == "", "there is no cookie, which every port of the host would get"
    assert len(browser.run("return sessionStorage.getItem('wharf-session')")) == 64


def follow_a_job(browser, cluster):
    """It appears as it is submitted, its output as it is said, and it can be cancelled."""
    browser.run("location.hash = '#/jobs'; return 1")
    browser.wait_text("0 of 0 jobs")
    gate = cluster.home / "gate"
    os.mkfifo(gate)
    holder = os.open(gate, os.O_RDWR)
    job = cluster.submit("--gang", "2", "--iterations", "600", "--iteration-ms", "250", "--name", EVIL, "--", "bash", "-c", TRAINER, WHARF, str(gate))
    browser.wait_text("1 of 1 jobs")
    browser.wait_text("running", ".grid")
    browser.wait_text("<img src=x onerror", ".grid")
    browser.run("document.querySelector('.grid .body').focus(); return 1")
    browser.keys("Down", "Enter")
    browser.wait(f"the page of job {job}", f"return location.hash === '#/job/{job}'")
    browser.wait_text("step 3 <b>bold</b> <script>", "pre.log")
    first = len(browser.text("pre.log"))
    wait_for("more of the log", lambda: len(browser.text("pre.log")) > first + 20)
    browser.wait("curves of what the trainer reports", "return document.querySelectorAll('svg.curves .line').length >= 2")
    browser.wait("the mark of a value that is NaN", "return document.querySelectorAll('svg.curves .odd').length === 1")
    # As a terminal shows it: only the last state of the line, its colour, and no markup.
    assert "10%|" not in browser.text("pre.log"), browser.text("pre.log")[:300]
    browser.wait_text("100%|##########| <i>bar</i>", "pre.log")
    assert browser.run("return document.querySelector('pre.log .t-2').textContent") == "100%"
    assert browser.run("return document.querySelectorAll('pre.log i, pre.log b, pre.log script').length") == 0
    press = "[...document.querySelectorAll('.segments button')].find((one) => one.textContent === arguments[0]).click(); return 1"
    for choice in ("by time", "log", "linear", "by step"):
        browser.run(press, choice)
        assert browser.run("return document.querySelectorAll('svg.curves .line').length") >= 2, choice
    browser.wait_text("was given", "main")
    browser.picture(OUT / "job.png")
    browser.picture(OUT / "book" / "dashboard-job.png", 0.6)
    browser.click("button.danger")
    browser.wait_text("ended for good", "dialog")
    browser.click("dialog button.primary")
    browser.wait_text("cancelled", ".title .badge")
    os.close(holder)
    browser.wait_text("complete", "main")
    assert '"cancelled"' in cluster.say("job", str(job), "--output", "json")
    browser.wait_text("it was cancelled by", ".why")
    browser.open(f"{cluster.url}/#/job/{job}")
    browser.wait("curves of a job that is over", "return document.querySelectorAll('svg.curves .line').length >= 2")
    return job


def sweep(browser, cluster):
    """A table, parallel coordinates and curves of all elements; what diverged comes last."""
    script = "for i in 1 2 3; do \"$0\" step $i --metric loss=$([ $2 = 2 ] && echo nan || echo $2.$i); done"
    job = {"command": ["bash", "-c", script, WHARF, "<b>x</b>", "{lr}"], "env": {"OPTION": "{option}"}, "output": "sweep-%a.txt"}
    file = cluster.home / "sweep.json"
    file.write_text(json.dumps({"name": EVIL, "parameters": {"lr": [3, 2, 1], "option": [EVIL]}, "job": job}))
    first = cluster.say("tune", "start", str(file), "--dir", str(cluster.home / "sweep"), "--wait").split()[0]
    browser.run(f"location.hash = '#/sweep/{first}'; return 1")
    browser.wait("its curves", "return document.querySelectorAll('svg.curves .line').length === 2")
    browser.wait("its parameters", "return document.querySelectorAll('svg.parallel .line').length === 3")
    ended = "[...document.querySelectorAll('table.plain tbody tr')].filter((row) => row.textContent.includes('finished'))"
    browser.wait("the ends of all elements", f"return {ended}.length === 3")
    cells = browser.run("return [...document.querySelectorAll('table.plain tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")
    assert [row[1] for row in cells] == ["1", "3", "2"] and cells[2][3] == "nan" and cells[0][3:5] == ["1.3", "1.1"], cells
    browser.picture(OUT / "sweep.png")
    page = cluster.home / "sweep" / "report.html"
    cluster.say("tune", "report", str(cluster.home / "sweep"))
    browser.open(page.as_uri())
    browser.wait("the report", "return document.querySelectorAll('svg.curves .line').length === 2 && document.querySelectorAll('svg.parallel .line').length === 3")
    assert browser.run("return document.title") == EVIL
    assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
    browser.open(cluster.url)
    browser.wait_text("live", ".live")


def filters(browser, cluster):
    held = cluster.submit("--held", "--name", TRICK, "--", "true")
    browser.run("location.hash = '#/jobs'; return 1")
    browser.wait_text("2 of 2 jobs")
    browser.click(".chip[data-phase='held']")
    browser.wait_text("1 of 2 jobs")
    browser.wait_text(TRICK, ".grid")
    browser.click(".chip[data-phase='held']")
    browser.wait_text("2 of 2 jobs")
    browser.keys("/")
    browser.keys(*"nothing-like-it")
    browser.wait_text("0 of 2 jobs")
    browser.run("const f = document.querySelector('input[type=search]'); f.value = 'etc/pass'; f.dispatchEvent(new Event('input')); return 1")
    browser.wait_text("1 of 2 jobs")
    browser.run("location.hash = '#/queue'; return 1")
    browser.wait_text("held", ".grid")
    browser.run(f"location.hash = '#/job/{held}'; return 1")
    browser.wait("its buttons", "return [...document.querySelectorAll('.title button')].some((b) => b.textContent === 'Release')")
    browser.run("[...document.querySelectorAll('.title button')].find((b) => b.textContent === 'Release').click(); return 1")
    browser.wait_text("finished", ".title .badge")


def every_page(browser, cluster):
    for name, sign in [("cluster", "Devices busy"), ("queue", "why it waits"), ("policy", "What was decided"), ("users", "device-hours"), ("events", "in words")]:
        browser.run(f"location.hash = '#/{name}'; return 1")
        browser.wait_text(sign)
    assert browser.run("return document.title") == "events – Wharf", "no user input was executed"
    assert browser.run("return document.querySelectorAll('main img, main script').length") == 0


def many(browser, cluster):
    """Many jobs, as they are in a fresh tab, and how soon the page answers."""
    cluster.say("submit", "--array", f"0-{JOBS - 1}", "--gang", "4", "--name", "sweep", "--", "sleep", "1000")
    # The page hears of it without being asked.
    browser.run("location.hash = '#/jobs'; return 1")
    browser.wait_text(f"{JOBS + 2} of {JOBS + 2} jobs")
    loads = []
    for _ in range(3):
        browser.open("about:blank")
        browser.open(f"{cluster.url}/#/jobs")
        browser.wait_text(f"{JOBS + 2} of {JOBS + 2} jobs")
        loads.append(browser.wait("the table", "return performance.getEntriesByName('wharf-loaded')[0]?.startTime"))
    measure = """
        const field = document.querySelector('input[type=search]');
        const body = document.querySelector('.grid .body');
        const frame = () => new Promise((done) => requestAnimationFrame(() => done(performance.now())));
        const times = [];
        for (let at = 0; at < 20; at += 1) { const began = await frame(); body.scrollTop = at * 17001; await frame(); times.push(await frame() - began); }
        body.scrollTop = 0;
        const began = performance.now();
        field.value = arguments[0]; field.dispatchEvent(new Event('input'));
        while (!document.querySelector('.note').textContent.startsWith('1 of')) await new Promise((done) => setTimeout(done, 4));
        const filtered = performance.now() - began;
        field.value = ''; field.dispatchEvent(new Event('input'));
        return {filtered, scroll: times.sort((a, b) => a - b)[10], rows: document.querySelectorAll('.grid .line').length};"""
    told = browser.run(measure, f"2_{JOBS - 1}")
    print(f"{JOBS} jobs: interactive after {min(loads):.0f} ms (all: {', '.join(f'{one:.0f}' for one in loads)}); "
          f"filtered in {told['filtered']:.0f} ms; a frame while scrolling {told['scroll']:.0f} ms; {told['rows']} rows in the page")
    assert told["rows"] < 120, "only rows in sight are in the page"
    browser.run("document.querySelector('.grid .head button:nth-child(2)').click(); return 1")
    browser.wait_text("sweep", ".grid")


def vast():
    """5,000 devices and 10,000 jobs, in a cluster of `wharf local`; policies compared on what is there."""
    nodes = [word for node in range(40) for word in ("--worker", f"node-{node:02}=v100:125")]
    with Cluster(WHARF, *nodes, command=("local",)) as cluster, Browser() as browser:
        wait_for("the nodes", lambda: len(json.loads(cluster.say("nodes", "--output", "json"))["nodes"]) == 40)
        browser.open(cluster.url)
        browser.wait("the login", "return !!document.querySelector('.login input')")
        browser.type(".login input", cluster.token)
        browser.keys("Enter")
        browser.wait_text("live", ".live")
        long = [cluster.submit("--gang", "125", "--iterations", str(100 + 40 * one), "--iteration-ms", "60000", "--name", f"train-{one}", "--", "sleep", "1000") for one in range(50)]
        wait_for("jobs that run", lambda: cluster.metrics()['wharf_jobs{state="running"}'] == 40)
        what_if(browser)
        cluster.say("cancel", *map(str, long[40:]))
        cluster.say("submit", "--array", "0-9999", "--gang", "125", "--name", "sweep", "--", "sleep", "1000")
        loads = []
        for _ in range(3):
            browser.open("about:blank")
            browser.open(f"{cluster.url}/#/cluster")
            browser.wait("the map", "return document.querySelector('.map canvas')?.height > 40")
            loads.append(browser.wait("the page", "return performance.getEntriesByName('wharf-loaded')[0]?.startTime"))
        told = browser.run("""
            const frame = () => new Promise((done) => requestAnimationFrame(() => done(performance.now())));
            const canvas = document.querySelector('.map canvas');
            const box = canvas.getBoundingClientRect();
            const times = [];
            for (let at = 0; at < 20; at += 1) {
              const began = performance.now();
              canvas.dispatchEvent(new MouseEvent('mousemove', {clientX: box.x + 40 + at * 37, clientY: box.y + 30 + at * 9}));
              canvas.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}));
              await frame();
              times.push(await frame() - began);
            }
            return times.sort((a, b) => a - b)[10];""")
        metrics = cluster.metrics()
        assert metrics['wharf_devices{type="v100",state="allocated"}'] == 5000, metrics
        began = time.monotonic()
        cluster.metrics()
        scrape = (time.monotonic() - began) * 1000
        print(f"5,000 devices and 10,050 jobs: interactive after {min(loads):.0f} ms (all: {', '.join(f'{one:.0f}' for one in loads)}); "
              f"a step on the map {told:.0f} ms; a scrape of the metrics {scrape:.0f} ms")
        browser.picture(OUT / "vast-light.png")
        assert browser.complaints() == [], "the console is silent"
        cluster.say("cancel", *map(str, long[:40]), "50")
        wait_for("the end of all jobs", lambda: cluster.metrics()['wharf_jobs{state="cancelled"}'] == 10050)


def what_if(browser):
    """Other policies on what is there: simulated, and the best of each figure marked."""
    browser.run("location.hash = '#/policy'; return 1")
    browser.wait("policies to choose from", "return document.querySelectorAll('#whatif .chip').length > 5")
    browser.click("#whatif .chip[data-policy='srtf']")
    browser.click("#whatif .chip[data-policy='las']")
    browser.click("#whatif button.primary")
    browser.wait("the comparison", "return document.querySelectorAll('#compared tbody tr').length === 3")
    told = browser.text("#compared")
    assert "fifo decides now" in told and "srtf" in told and "las" in told, told
    assert "50 current jobs" in browser.text("#whatif")
    browser.picture(OUT / "whatif-light.png")
    chips = "document.querySelectorAll('#whatif .chip')"
    for _ in range(4):
        browser.run(f"[...{chips}].find((chip) => chip.getAttribute('aria-pressed') !== 'true' && !chip.disabled).click(); return 1")
    assert browser.run(f"return [...{chips}].every((chip) => chip.disabled === (chip.getAttribute('aria-pressed') !== 'true'))"), "no more than can be compared"
    browser.picture(OUT / "book" / "dashboard-policy.png", 0.6)


def pictures(browser, cluster):
    for scheme in ("light", "dark"):
        browser.colours(scheme)
        for name in ("cluster", "queue", "jobs", "policy", "users", "events"):
            browser.run(f"location.hash = '#/{name}'; return 1")
            browser.run("for (let at = 0; at < 20; at += 1) await new Promise((done) => requestAnimationFrame(done)); return 1")
            if name == "queue":
                browser.wait_text("needs", ".grid")
            browser.picture(OUT / f"{name}-{scheme}.png")
            if (name, scheme) == ("cluster", "light"):
                browser.picture(OUT / "book" / "dashboard-cluster.png", 0.6)
    browser.colours("light")
    browser.size(390, 844)
    for name in ("cluster", "jobs"):
        browser.run(f"location.hash = '#/{name}'; return 1")
        browser.run("for (let at = 0; at < 20; at += 1) await new Promise((done) => requestAnimationFrame(done)); return 1")
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), f"{name} fits on a phone"
        browser.picture(OUT / f"{name}-phone.png")
    browser.size(1440, 900)


def keyboard(browser):
    browser.keys("g")
    browser.keys("c")
    browser.wait("the cluster's page", "return location.hash === '#/cluster'")
    browser.wait("the map", "return !!document.querySelector('.map canvas')")
    browser.run("document.querySelector('.map canvas').focus(); return 1")
    browser.keys("Right", "Right")
    browser.wait_text("device 2", ".readout")
    browser.keys("Enter")
    browser.wait("the page of the job on that device", "return location.hash.startsWith('#/job/')")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    with Cluster(WHARF) as cluster, Browser() as browser:
        for node in ("alpha", "beta", "gamma", "delta"):
            cluster.worker(node, "v100:8")
        log_in(browser, cluster)
        follow_a_job(browser, cluster)
        filters(browser, cluster)
        every_page(browser, cluster)
        assert browser.complaints() == [], "the console is silent"
        many(browser, cluster)
        if IS_FULL:
            pictures(browser, cluster)
        keyboard(browser)
        cluster.say("cancel", "2")
        sweep(browser, cluster)
        assert browser.complaints() == [], "the console is silent"
        # A token that is revoked ends what its holder watches.
        cluster.say("token", "create", "--user", "bob", "--to", str(cluster.home / "bob.token"))
        bob = (cluster.home / "bob.token").read_text().strip()
        browser.run("await fetch('/api/logout', {method: 'POST', headers: {'x-wharf-session': sessionStorage.getItem('wharf-session')}}); location.hash = '#/cluster'; location.reload(); return 1")
        browser.wait("the login", "return !!document.querySelector('.login input')")
        browser.type(".login input", bob)
        browser.keys("Enter")
        browser.wait_text("bob · user", ".who")
        browser.run("location.hash = '#/job/2'; return 1")
        browser.wait_text(f"it belongs to {getpass.getuser()}", ".title")
        assert browser.run("return document.querySelectorAll('.title button').length") == 0
        # What runs continues without its cluster: it is ended here.
        cluster.say("cancel", "2")
        wait_for("the end of all jobs", lambda: cluster.metrics()['wharf_jobs{state="cancelled"}'] == JOBS + 1)
    if IS_FULL:
        vast()


main()
vast()
