"""Checks of charts as a browser renders them: nothing out of bounds, no text on text, lengths and heights true to the data."""

import csv
import statistics

WIDTHS = (1400, 1000, 420)
TOLERANCE_PX = 1.5
# Two-sided 95 % points of Student's t, by degrees of freedom.
STUDENT_T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}

# Boxes of what is drawn, in pixels of the screen, and the scale of each chart.
CHARTS = """
    const box = (node) => { const b = node.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
    return [...document.querySelectorAll('svg.chart')].map((chart) => ({
      name: chart.getAttribute('aria-label'),
      scale: chart.getBoundingClientRect().width / chart.viewBox.baseVal.width,
      box: box(chart),
      texts: [...chart.querySelectorAll('text')].map((node) => ({text: node.textContent, box: box(node)})),
      shapes: [...chart.querySelectorAll('path, rect')].map((node) => ({kind: node.getAttribute('class'), box: box(node), wanted: Number(node.getAttribute('width'))})),
      // The first of three lines is the interval, the others its ends.
      intervals: [...chart.querySelectorAll('path.whisker')].filter((_, at) => at % 3 === 0).map(box),
      bars: [...chart.querySelectorAll('rect.bar')].map((node) => ({name: node.querySelector('title').textContent.split(':')[0], box: box(node)})),
    }));"""

# Rules of the page, beside the charts' own, that a part of a chart matches.
FOREIGN_RULES = """
    const parts = [...document.querySelectorAll('svg.chart *')];
    const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).flatMap((rule) => rule.cssRules?.length ? [...rule.cssRules] : [rule]);
    const foreign = rules.filter((rule) => rule.selectorText && !/svg\\.chart/.test(rule.selectorText) && !/^\\*/.test(rule.selectorText));
    return foreign.filter((rule) => parts.some((part) => part.matches(rule.selectorText))).map((rule) => rule.cssText);"""

# Labelled lines of the grid, and points along a series, in the chart's own units.
CURVE = """
    const chart = [...document.querySelectorAll('svg.chart')].find((one) => one.getAttribute('aria-label') === arguments[0]);
    const ticks = [...chart.querySelectorAll('text.tick')].map((node) => { const line = node.previousElementSibling.getBBox(); return [node.textContent, line.x, line.y, node.getAttribute('text-anchor')]; });
    const key = new Set([...chart.querySelectorAll('text.name')].map((node) => node.previousElementSibling.previousElementSibling));
    const path = [...chart.querySelectorAll('path.series')].filter((node) => !key.has(node))[arguments[1]];
    const length = path.getTotalLength();
    const points = Array.from({length: 8001}, (_, at) => path.getPointAtLength(length * at / 8000)).map((point) => [point.x, point.y]);
    return {ticks, points};"""


def inside(inner, outer, slack):
    return inner[0] >= outer[0] - slack and inner[1] >= outer[1] - slack and inner[2] <= outer[2] + slack and inner[3] <= outer[3] + slack


def overlap(one, two):
    """The sides of the common part of two boxes, the smaller first; negative where there is none."""
    return min(min(one[2], two[2]) - max(one[0], two[0]), min(one[3], two[3]) - max(one[1], two[1]))


def well_formed(chart, where):
    slack = TOLERANCE_PX * max(1, chart["scale"])
    for shape in chart["shapes"]:
        assert inside(shape["box"], chart["box"], slack), f"{where}: {shape} is outside of {chart['box']}"
        if shape["kind"].split()[0] in ("bar", "job", "cell"):
            drawn, wanted = shape["box"][2] - shape["box"][0], shape["wanted"] * chart["scale"]
            assert abs(drawn - wanted) <= slack, f"{where}: {shape} is {drawn} wide, {wanted} is wanted"
    for index, text in enumerate(chart["texts"]):
        assert inside(text["box"], chart["box"], slack), f"{where}: `{text['text']}` at {text['box']} is outside of {chart['box']}"
        for other in chart["texts"][:index]:
            # Boxes of text include the space between lines.
            common = overlap(text["box"], other["box"])
            assert common < 3 * max(1, chart["scale"]), f"{where}: `{text['text']}` and `{other['text']}` overlap by {common:.1f} pixels"
    for bar in chart["bars"]:
        for text in chart["texts"]:
            assert overlap(bar["box"], text["box"]) < TOLERANCE_PX, f"{where}: `{text['text']}` lies on the bar of {bar['name']}"


def proportional(chart, values, where):
    """Widths of bars are in the ratio of the values."""
    widths = {bar["name"]: bar["box"][2] - bar["box"][0] for bar in chart["bars"]}
    assert widths.keys() == values.keys(), (where, widths, values)
    most = max(values.values())
    longest = max(widths.values())
    assert longest > 60, f"{where}: the longest bar has {longest} pixels"
    for name, value in values.items():
        expected = value / most * longest
        assert abs(widths[name] - expected) <= TOLERANCE_PX, f"{where}: {name} has {widths[name]:.1f} pixels, {value} is worth {expected:.1f}"


def intervals(chart, values, where):
    """Error bars span the 95 % confidence intervals of means over seeds."""
    scale = max(bar["box"][2] - bar["box"][0] for bar in chart["bars"]) / max(statistics.mean(each) for each in values.values())
    shown = [bar for bar in chart["bars"] if len(set(values[bar["name"]])) > 1]
    assert len(shown) == len(chart["intervals"]), where
    for bar, drawn in zip(shown, chart["intervals"]):
        each = values[bar["name"]]
        half = STUDENT_T[len(each) - 1] * statistics.stdev(each) / len(each) ** 0.5
        for side, value in ((0, max(0, statistics.mean(each) - half)), (2, statistics.mean(each) + half)):
            expected = bar["box"][0] + value * scale
            assert abs(drawn[side] - expected) <= 2 * TOLERANCE_PX, f"{where}: the interval of {bar['name']} reaches {drawn[side]:.1f}, not {expected:.1f}"


def at_every_width(browser, frames, charts_min, bars):
    """All charts of the open page; `bars` has the values of every seed behind each bar chart, by its title and the name of the bar."""
    assert browser.run(FOREIGN_RULES) == [], "rules that are meant for something else apply to charts"
    for width in WIDTHS:
        browser.size(width, 900)
        browser.run(frames + "return 1")
        charts = browser.run(CHARTS)
        assert len(charts) >= charts_min, len(charts)
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), f"the page is wider than {width} pixels"
        for chart in charts:
            where = f"{chart['name']} at {width} pixels"
            assert chart["texts"] and chart["shapes"], where
            well_formed(chart, where)
            if chart["bars"]:
                values = bars[chart["name"]]
                proportional(chart, {name: statistics.mean(each) for name, each in values.items()}, where)
                intervals(chart, values, where)
        assert set(bars) <= {chart["name"] for chart in charts}
    browser.size(1440, 900)


def seconds(label):
    return float(label[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[label[-1]]


def series(browser, name, index):
    """Where labelled values lie along both axes, and the points of a series."""
    told = browser.run(CURVE, name, index)
    across = {label: x for label, x, _, anchor in told["ticks"] if anchor == "middle"}
    upwards = {label: y for label, _, y, anchor in told["ticks"] if anchor == "end"}
    return across, upwards, told["points"]


def distribution(browser, jcts, index):
    """The curve of completion times against the times themselves, at every labelled time."""
    across, upwards, points = series(browser, "Share of jobs completed within a time", index)
    zero, one = upwards["0 %"], upwards["100 %"]
    assert abs(min(y for _, y in points) - one) < 0.5, "all jobs are done at last"
    checked = 0
    for label, x in across.items():
        heights = [y for px, y in points if px <= x]
        if not heights or x > points[-1][0]:
            continue
        # The curve has one step for each pixel: a few per cent of time on a logarithmic axis.
        time_s, share = seconds(label), (zero - heights[-1]) / (zero - one)
        low, high = (sum(jct <= time_s * factor for jct in jcts) / len(jcts) for factor in (0.95, 1.05))
        assert low - 0.02 <= share <= high + 0.02, f"{label}: {share:.3f} of the jobs, not {low:.3f} to {high:.3f}"
        checked += 1
    assert checked >= 4, across


def area(browser, name, index):
    """The integral of a series over time: seconds times the unit of the vertical axis, per cents as shares."""
    across, upwards, points = series(browser, name, index)
    value = lambda label: float(label.split()[0]) / (100 if "%" in label else 1)
    top, zero = max(upwards, key=value), min(upwards, key=value)
    last = max((label for label in across if label != "0"), key=seconds)
    unit = value(top) / (upwards[zero] - upwards[top]) * seconds(last) / (across[last] - across["0"])
    return unit * sum((two[0] - one[0]) * (upwards[zero] - (one[1] + two[1]) / 2) for one, two in zip(points, points[1:]))


def job_rows(folder):
    with open(folder / "jobs.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
