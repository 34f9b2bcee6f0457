"""Reports in a real browser, opened from disk: `report.py WHARF ARTIFACTS`. Prints what was measured. WHARF_BROWSER=full has more jobs, and a sweep."""

import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import geometry
from driver import Browser

WHARF, OUT = sys.argv[1], pathlib.Path(sys.argv[2])
EVIL = "</script><img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
TRAPS = [EVIL, "</title><svg onload=alert(1)>", "--><b>", "\u2028'\"&amp;", "javascript:alert(1)"]
METRICS = ["avg_jct_s", "median_jct_s", "p95_jct_s", "p99_jct_s", "max_jct_s", "makespan_s", "avg_queue_s", "gpu_utilization", "preemptions", "jobs", "finished", "events", "wall_ms"]
FRAMES = "for (let at = 0; at < 4; at += 1) await new Promise((done) => requestAnimationFrame(done));"
IS_FULL = os.environ.get("WHARF_BROWSER") == "full"
JOBS = 10_000 if IS_FULL else 1_000


def wharf(*words, folder):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WHARF_")}
    done = subprocess.run([WHARF, *words], cwd=folder, env=kept, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def hostile_trace(folder, jobs):
    """A generated trace whose jobs, users and models are called what attackers would call them."""
    text = wharf("trace", "generate", "--jobs", str(jobs), "--seed", "3", folder=folder)
    rows = list(csv.DictReader(text.splitlines()))
    for index, row in enumerate(rows):
        trap = TRAPS[index % len(TRAPS)]
        row.update(job_id=f"{trap} {index}", user=TRAPS[index % 3], model=TRAPS[index % 2])
    with open(folder / "jobs.csv", "w", newline="", encoding="utf-8") as file:
        names = list(dict.fromkeys([*rows[0], "user", "model"]))
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def summaries(*folders):
    """What the runs' own files say."""
    found = []
    for folder in folders:
        for path in sorted(folder.glob("*/summary.json")):
            found += json.loads(path.read_text())["runs"]
    return found


def shown(browser):
    """The figures of every run, as the page has them."""
    return browser.run("""
        const table = document.querySelector('#every table');
        const names = [...table.tHead.rows[0].cells].map((cell) => cell.dataset.name);
        return [...table.tBodies[0].rows].map((row) => Object.fromEntries([...row.cells].map((cell, at) => [names[at], cell.querySelector('data')?.value ?? cell.textContent])));""")


def same_figures(browser, runs):
    rows = shown(browser)
    assert len(rows) == len(runs), (len(rows), len(runs))
    of = {(run["policy"], run["trace"], run["seed"]): run for run in runs}
    for row in rows:
        run = of[row["policy"], row["trace"], int(row["seed"])]
        for metric in METRICS:
            assert float(row[metric]) == run[metric], (metric, row[metric], run[metric])


def silent(browser):
    assert browser.complaints() == [], "the console is silent"
    assert browser.run("return performance.getEntriesByType('resource').map((one) => one.name)") == [], "nothing is fetched"
    assert "owned" not in browser.run("return document.title"), "no user input was executed"
    assert browser.run("return document.querySelectorAll('main img, main script, main iframe, main [onload]').length") == 0


def opened(browser, page):
    browser.open(f"file://{page}")
    browser.wait("the page", "return document.readyState === 'complete' && !!document.querySelector('.timeline canvas')?.dataset.to")


def window(browser):
    browser.run(FRAMES + "return 1")
    return browser.run("const {from, to, rows, selected} = document.querySelector('.timeline canvas').dataset; return [Number(from), Number(to), Number(rows), Number(selected)]")


def press(browser, *keys):
    browser.run("document.querySelector('.timeline canvas').focus(); return 1")
    browser.keys(*keys)


def timeline(browser):
    """Mouse, keyboard, buttons and search."""
    browser.run("document.querySelector('.timeline').scrollIntoView({block: 'center'}); return 1")
    start, end, rows, _ = window(browser)
    assert start == 0 and end > 0
    browser.click("button[aria-label='zoom in']")
    near = window(browser)
    assert abs((near[1] - near[0]) * 2 - end) < end * 1e-6, near
    press(browser, "+")
    closer = window(browser)
    assert closer[1] - closer[0] < near[1] - near[0]
    press(browser, "Right")
    moved = window(browser)
    assert moved[0] > closer[0] and abs((moved[1] - moved[0]) - (closer[1] - closer[0])) < end * 1e-6
    press(browser, "]")
    assert window(browser)[2] < rows
    press(browser, "0")
    assert window(browser)[:3] == [0, end, rows]
    browser.wheel(".timeline canvas", -300)
    assert window(browser)[1] - window(browser)[0] < end, "the wheel zooms where the chart has the focus"
    press(browser, "0")
    press(browser, "+", "+")
    before = window(browser)
    browser.drag(".timeline canvas", -120, 0)
    assert window(browser)[0] > before[0], "what is dragged to the left shows later times"
    press(browser, "0")
    press(browser, "n")
    assert window(browser)[3] >= 0 and "asked for" in browser.text(".timeline .readout")
    press(browser, "n")
    browser.run("const f = document.querySelector('.timeline input[type=search]'); f.value = '<svg onload'; f.focus(); return 1")
    browser.keys("Enter")
    assert "<svg onload=alert(1)>" in browser.text(".timeline .readout"), browser.text(".timeline .readout")
    press(browser, "0", "Escape")
    assert window(browser)[3] == -1


def sorting(browser):
    browser.run("document.querySelector('#every details').open = true; [...document.querySelectorAll('#every th')].find((head) => head.dataset.name === 'avg_jct_s').querySelector('button').click(); return 1")
    values = [float(row["avg_jct_s"]) for row in shown(browser)]
    assert values == sorted(values), values


def pictures(browser, name):
    for scheme in ("light", "dark"):
        browser.colours(scheme)
        browser.run("scrollTo(0, 0); return 1")
        browser.run(FRAMES + "return 1")
        browser.picture(OUT / f"{name}-{scheme}.png")
        for part in ("bars", "curves", "breakdown", "gantt"):
            browser.run("document.getElementById(arguments[0])?.scrollIntoView(); scrollBy(0, -70); return 1", part)
            browser.run(FRAMES + "return 1")
            browser.picture(OUT / f"{name}-{part}-{scheme}.png")
    browser.colours("light")
    browser.size(390, 844)
    browser.run(FRAMES + "scrollTo(0, 0); return 1")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), "it fits on a phone"
    browser.picture(OUT / f"{name}-phone.png")
    browser.run("document.getElementById('gantt').scrollIntoView(); scrollBy(0, -110); return 1")
    browser.run(FRAMES + "return 1")
    browser.picture(OUT / f"{name}-gantt-phone.png")
    browser.size(1440, 900)


def charts(browser, folders):
    """Every chart of the page of several seeds, against the runs' own files."""
    runs = summaries(*folders)
    policies = sorted({run["policy"] for run in runs})
    of = lambda policy, metric: [run[metric] for run in runs if run["policy"] == policy]
    titles = {"avg JCT (less is better)": "avg_jct_s", "p99 JCT (less is better)": "p99_jct_s", "makespan (less is better)": "makespan_s", "GPU use (more is better)": "gpu_utilization"}
    bars = {title: {policy: of(policy, metric) for policy in policies} for title, metric in titles.items()}
    geometry.at_every_width(browser, FRAMES, 7, bars)
    # The runs are in the order in which they were found.
    for index, policy in enumerate(dict.fromkeys(run["policy"] for run in runs)):
        jobs = [geometry.job_rows(next(folder.glob(f"jobs-{policy}*"))) for folder in folders]
        geometry.distribution(browser, [float(job["jct_s"]) for rows in jobs for job in rows], index)
        first = next(run for run in runs if run["policy"] == policy)
        # Curves of devices and queue are of the first seed; their areas are device-seconds and the time that jobs waited.
        for name, expected in (("Devices in use over time", first["gpu_utilization"] * first["makespan_s"]), ("Jobs waiting over time", sum(float(job["queue_s"]) for job in jobs[0]))):
            drawn = geometry.area(browser, name, index)
            assert abs(drawn - expected) < 0.03 * expected, f"{policy}, {name}: {drawn:.0f} drawn, {expected:.0f} expected"
    for path in sorted(next(folders[0].glob("*")).glob("*.svg")):
        browser.open(f"file://{path}")
        [chart] = browser.run(geometry.CHARTS)
        geometry.well_formed(chart, path.name)


def book(browser, part, name):
    """A picture that the book shows."""
    browser.run("document.getElementById(arguments[0]).scrollIntoView(); scrollBy(0, -70); return 1", part)
    browser.run(FRAMES + "return 1")
    browser.picture(OUT / "book" / name, 0.6)


def compared(browser, folder):
    """Policies with several seeds, from hostile names."""
    hostile_trace(folder, 120)
    for seed in (1, 2, 3):
        wharf("sim", "--trace", "jobs.csv", "--cluster", "4x4", "--policy", "fifo,srtf,las", "--failures", "mtbf=40,repair=1", "--seed", str(seed),
              "--out", f"seed-{seed}", "--report", f"seed-{seed}.html", folder=folder)
    opened(browser, folder / "seed-1.html")
    same_figures(browser, summaries(folder / "seed-1"))
    silent(browser)
    folders = [f"seed-{seed}" for seed in (1, 2, 3)]
    document = json.loads(wharf("compare", *folders, "--output", "json", "--report", "seeds.html", folder=folder))
    best = {one["metric"]: one for one in document["winners"]}
    assert best["avg_jct_s"]["method"] == "paired_t" and best["avg_jct_s"]["count"] == 3, best["avg_jct_s"]
    opened(browser, folder / "seeds.html")
    runs = summaries(*(folder / name for name in folders))
    same_figures(browser, runs)
    told = browser.text("#winners")
    assert best["avg_jct_s"]["best"][0] in told and "3 pairs" in told, told
    browser.run("document.querySelector('#again details').open = true; return 1")
    again = browser.text("#again")
    assert all(f"--policy {run['policy']} " in again and f"--seed {run['seed']}" in again for run in runs), again
    timeline(browser)
    sorting(browser)
    silent(browser)
    pictures(browser, "seeds")
    charts(browser, [folder / name for name in folders])
    opened(browser, folder / "seeds.html")
    book(browser, "top", "report-seeds.png")
    # The line that is shown makes the same run.
    line = next(line for line in again.splitlines() if line.startswith("wharf sim --policy srtf") and line.endswith("--seed 2"))
    done = subprocess.run(["sh", "-c", line.replace("wharf", '"$0"', 1) + " --output json", WHARF], cwd=folder, capture_output=True, text=True, check=True)
    [once_more] = json.loads(done.stdout)["runs"]
    [earlier] = [run for run in runs if run["policy"] == "srtf" and run["seed"] == 2]
    assert {**once_more, "wall_ms": 0} == {**earlier, "wall_ms": 0}


def large(browser, folder):
    """Many jobs: how soon the page is there, and how long a zoom takes."""
    wharf("trace", "generate", "--jobs", str(JOBS), "--seed", "5", "--to", "large.csv", folder=folder)
    wharf("sim", "--trace", "large.csv", "--cluster", "32x8", "--policy", "srtf", "--report", "large.html", folder=folder)
    opened(browser, folder / "large.html")
    silent(browser)
    told = browser.run("""
        const canvas = document.querySelector('.timeline canvas');
        canvas.scrollIntoView({block: 'center'});
        const frame = () => new Promise((done) => requestAnimationFrame(() => done(performance.now())));
        const times = [];
        for (let at = 0; at < 12; at += 1) {
          await frame();
          const began = performance.now();
          document.querySelector(at % 4 === 3 ? "button[aria-label='show everything']" : "button[aria-label='zoom in']").click();
          await frame();
          times.push(await frame() - began);
        }
        const loaded = performance.getEntriesByType('navigation')[0].domComplete;
        return {loaded, zoom: times.sort((a, b) => a - b)[6], most: times.at(-1), extent: document.querySelector('#timeline > .note:last-child').textContent};""")
    size = (folder / "large.html").stat().st_size / 1e6
    print(f"a report of {JOBS} jobs: {size:.2f} MB, loaded in {told['loaded']:.0f} ms, a zoom in {told['zoom']:.0f} ms (at most {told['most']:.0f} ms): {told['extent']}")
    assert size < 5
    browser.run("scrollTo(0, 0); return 1")
    browser.picture(OUT / "large-light.png")
    browser.run("document.getElementById('gantt').scrollIntoView(); scrollBy(0, -70); return 1")
    browser.run(FRAMES + "return 1")
    browser.picture(OUT / "large-gantt-light.png")


def sweep(browser, folder):
    """3 traces, 10 policies, 5 seeds."""
    (folder / "many.toml").write_text("""
name = "many"
[[matrix]]
policies = ["fifo", "sjf", "srtf", "srsf", "las", "tiresias", "gittins", "fair", "themis", "muri-s"]
traces = [
    { name = "steady", generate = { jobs = 120, seed = "each", devices = 32, load = 1.1 } },
    { name = "bursty", generate = { jobs = 120, seed = "each", devices = 32, load = 1.1, arrivals = "bursty" } },
    { name = "light", generate = { jobs = 120, seed = "each", devices = 32, load = 0.6 } },
]
clusters = ["8x4"]
seeds = [1, 2, 3, 4, 5]
""")
    wharf("sweep", "many.toml", "--out", "many", folder=folder)
    page = folder / "many" / "report.html"
    size = page.stat().st_size / 1e6
    assert size < 5, f"{size:.2f} MB"
    opened(browser, page)
    runs = json.loads((folder / "many" / "summary.json").read_text())["runs"]
    assert len(runs) == 150
    same_figures(browser, runs)
    assert "all 3 traces" in browser.text("#winners")
    assert "sortable" not in browser.run("return document.querySelector('#winners table').className"), "its rows are in an order of their own"
    count = browser.run("return document.querySelectorAll('#timeline-run option').length")
    assert count == 30, count
    browser.run("const s = document.querySelector('#timeline-run'); s.value = 7; s.dispatchEvent(new Event('change')); return 1")
    assert window(browser)[1] > 0
    silent(browser)
    print(f"a report of 150 runs: {size:.2f} MB, loaded in {browser.run('return performance.getEntriesByType(arguments[0])[0].domComplete', 'navigation'):.0f} ms")
    pictures(browser, "sweep")
    book(browser, "gantt", "report-gantt.png")
    wharf("report", "many", "--to", "again.html", folder=folder)
    opened(browser, folder / "again.html")
    same_figures(browser, runs)


def guarded(browser):
    """What gets into the page in spite of everything is not run."""
    browser.run("const s = document.createElement('script'); s.textContent = \"document.title = 'owned'\"; document.body.append(s); return 1")
    browser.run("const i = document.createElement('img'); i.addEventListener('error', () => { document.body.dataset.failed = 1; }); i.setAttribute('onerror', \"document.title = 'owned'\"); i.src = 'nowhere.png'; document.body.append(i); return 1")
    browser.wait("the browser's refusal", "return document.body.dataset.failed === '1'")
    refused = [line for line in browser.complaints() if "Content Security Policy" in line]
    for what in ("inline script", "image", "inline event handler"):
        assert any(what in line for line in refused), (what, refused)
    assert "owned" not in browser.run("return document.title")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wharf-report-") as name, Browser() as browser:
        folder = pathlib.Path(name)
        compared(browser, folder)
        large(browser, folder)
        if IS_FULL:
            sweep(browser, folder)
        guarded(browser)


main()
