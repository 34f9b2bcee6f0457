// Several lines over steps or over time, on a linear or a logarithmic scale. What is not a finite number is marked at the lower edge.

import { h, replace, s } from '/dom.js';
import { duration, hue, number } from '/format.js';
import { ticks, timeTicks } from '/widgets/chart.js';
import { segments } from '/widgets/segments.js';

const [WIDTH, LEFT, RIGHT, TOP, BOTTOM] = [560, 60, 12, 10, 24];
const DASHES = ['', '6 3', '2 3', '8 3 2 3'];

/** Powers of ten between two numbers, at most about so many. */
function powers(low, high, about) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first + 1) / about));
  const found = [];
  for (let at = first; at <= last; at += step) found.push(10 ** at);
  return found.length > 1 ? found : [low, high];
}

/** lines: [{label, hue, points: [[x, y], ...]}]; on a logarithmic scale only positive values are drawn. */
export function curvesChart({ lines, label, xText = number, isTime = false, isLog = false, height = 220 }) {
  const isGood = ([x, y]) => Number.isFinite(x) && Number.isFinite(y) && (!isLog || y > 0);
  const good = lines.map((line) => ({ ...line, shown: line.points.filter(isGood) }));
  const all = good.flatMap((line) => line.shown);
  const odd = lines.flatMap((line) => line.points.filter(([x, y]) => Number.isFinite(x) && !Number.isFinite(y)).map(([x, y]) => [x, y, line]));
  if (all.length + odd.length === 0) return h('p', { class: 'empty' }, isLog ? 'no positive values' : 'no values yet');
  const xs = [...all, ...odd].map(([x]) => x);
  const low = (numbers) => numbers.reduce((one, other) => Math.min(one, other), Infinity);
  const high = (numbers) => numbers.reduce((one, other) => Math.max(one, other), -Infinity);
  const [xLow, xHigh] = [low(xs), high(xs)];
  const ys = all.map(([, y]) => y);
  let [yLow, yHigh] = ys.length ? [low(ys), high(ys)] : [1, 2];
  if (yLow === yHigh) [yLow, yHigh] = isLog ? [yLow / 2, yHigh * 2] : [yLow - (Math.abs(yLow) || 1) / 2, yHigh + (Math.abs(yHigh) || 1) / 2];
  const scale = isLog ? Math.log10 : (value) => value;
  const x = (value) => LEFT + ((value - xLow) / (xHigh - xLow || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => height - BOTTOM - ((scale(value) - scale(yLow)) / (scale(yHigh) - scale(yLow))) * (height - TOP - BOTTOM);
  const marks = (isLog ? powers(yLow, yHigh, 5) : ticks(yLow, yHigh, 4));
  return s('svg', { class: 'plot curves', viewBox: `0 0 ${WIDTH} ${height}`, role: 'img', 'aria-label': label },
    marks.map((value) => [
      s('line', { class: 'grid', x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      s('text', { x: LEFT - 8, y: y(value) + 4, 'text-anchor': 'end' }, number(value)),
    ]),
    (isTime ? timeTicks(xHigh, 5).filter((value) => value >= xLow) : ticks(xLow, xHigh, 5)).map((value) => s('text', { x: x(value), y: height - 6, 'text-anchor': 'middle' }, xText(value))),
    s('line', { class: 'axis', x1: LEFT, x2: WIDTH - RIGHT, y1: height - BOTTOM, y2: height - BOTTOM }),
    good.map((line, index) => {
      const last = line.shown[line.shown.length - 1];
      if (!last) return null;
      const colour = `hsl(${line.hue} var(--job-s) var(--job-l))`;
      const path = line.shown.map(([px, py], at) => `${at ? 'L' : 'M'}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join('');
      return s('g', {}, s('title', {}, `${line.label}: ${number(last[1], 4)}`),
        s('path', { class: 'line', d: path, 'stroke-dasharray': DASHES[index % DASHES.length], style: { stroke: colour } }),
        s('circle', { cx: x(last[0]), cy: y(last[1]), r: 3, style: { fill: colour } }));
    }),
    odd.map(([px, value, line]) => s('text', { class: 'odd', x: x(px), y: height - BOTTOM - 2, 'text-anchor': 'middle', style: { fill: `hsl(${line.hue} var(--job-s) var(--job-l))` } }, '×',
      s('title', {}, `${line.label}: ${value} at ${xText(px)}`))));
}

/** Metrics that are drawn without being chosen. */
const SHOWN = 6;

/** NaN and infinity are texts. */
export const numeric = (one) => (typeof one === 'string' ? Number(one.replace('inf', 'Infinity')) : one);

/** Names in the order in which they are shown. */
export const sorted = (names) => [...names].sort((one, other) => (other === 'loss') - (one === 'loss') || one.localeCompare(other));

/** A chart for each metric of one or several jobs. `set` takes [{job, curves: [{name, step, time, value}], refused}]; `label(job)` is the legend of a job. */
export function curvesView({ label, tools = null }) {
  let found = [];
  let [axis, scale] = ['step', 'linear'];
  const chosen = new Set();
  const box = h('div', { class: 'row wide' });
  const legend = h('p', { class: 'legend' });
  const chips = h('div', { class: 'chips', role: 'group', 'aria-label': 'metrics' });
  const note = h('p', { class: 'note' });

  const lines = (name) => found.flatMap(({ job, curves }) => {
    const curve = curves.find((one) => one.name === name);
    if (!curve) return [];
    const first = curves.reduce((least, one) => Math.min(least, one.time[0]), Infinity);
    const at = (index) => (axis === 'step' ? curve.step[index] : curve.time[index] - first);
    return [{ label: label(job), hue: hue(job), points: curve.value.map((one, index) => [at(index), numeric(one)]) }];
  });
  const draw = () => {
    const names = sorted(new Set(found.flatMap(({ curves }) => curves.map((one) => one.name))));
    const shown = chosen.size ? names.filter((name) => chosen.has(name)) : names.slice(0, SHOWN);
    const isTime = axis === 'time';
    replace(box, shown.map((name) => h('figure', { class: 'curve' }, h('figcaption', {}, name),
      curvesChart({ lines: lines(name), label: name, isTime, isLog: scale === 'log', xText: isTime ? duration : number }))));
    replace(legend, found.length > 1 ? found.map(({ job }) => h('span', {}, h('i', { class: 'swatch', style: { background: `hsl(${hue(job)} var(--job-s) var(--job-l))` } }), label(job))) : null);
    replace(chips, names.length > 1 ? names.map((name) => h('button', { type: 'button', class: 'chip', 'aria-pressed': chosen.has(name), on: { click: () => {
      if (!chosen.delete(name)) chosen.add(name);
      draw();
    } } }, name)) : null);
    const refused = found.find((one) => one.refused)?.refused;
    note.textContent = refused ? `not stored, because a job has at most 64 metrics or because of its name: ${refused}` : '';
    node.hidden = names.length === 0 && !tools;
  };
  const node = h('section', { class: 'card', hidden: true }, h('header', {}, h('h2', {}, 'Metrics'), tools,
    segments([['step', 'by step'], ['time', 'by time']], axis, (key) => { axis = key; draw(); }),
    segments([['linear', 'linear'], ['log', 'log']], scale, (key) => { scale = key; draw(); })), chips, legend, box, note);
  return { node, set: (more) => { found = more; draw(); }, found: () => found };
}
