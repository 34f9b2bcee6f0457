// A line over time or iterations. Lines differ in colour and in dashes.

import { h, s } from '/dom.js';
import { number } from '/format.js';

const [WIDTH, LEFT, RIGHT, TOP, BOTTOM] = [560, 52, 12, 10, 24];

/** Round numbers between two others, about so many. */
export function ticks(low, high, about) {
  const span = high - low || Math.abs(high) || 1;
  const rough = span / about;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];

/** Round times from nought to so many seconds, about so many. */
export function timeTicks(span, about) {
  const step = STEPS_S.find((size) => size >= span / about) ?? 604800 * Math.ceil(span / about / 604800);
  return Array.from({ length: Math.floor(span / step) + 1 }, (_, index) => index * step);
}

/** points: [[x, y], ...]; what is no number is left out. */
export function lineChart({ points, label, xText = number, yText = number, kind = 's1', height = 180, isTime = false }) {
  const good = points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  if (good.length < 2) return h('p', { class: 'empty' }, `${label}: too little has been told so far.`);
  const xs = good.map(([x]) => x);
  const ys = good.map(([, y]) => y);
  const [xLow, xHigh] = [Math.min(...xs), Math.max(...xs)];
  let [yLow, yHigh] = [Math.min(...ys), Math.max(...ys)];
  if (yLow === yHigh) [yLow, yHigh] = [yLow - 1, yHigh + 1];
  const x = (value) => LEFT + ((value - xLow) / (xHigh - xLow || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => height - BOTTOM - ((value - yLow) / (yHigh - yLow)) * (height - TOP - BOTTOM);
  const path = good.map(([px, py], index) => `${index ? 'L' : 'M'}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join('');
  const [lastX, lastY] = good[good.length - 1];
  return s('svg', { class: 'plot', viewBox: `0 0 ${WIDTH} ${height}`, role: 'img', 'aria-label': `${label}: ${yText(lastY)}` },
    ticks(yLow, yHigh, 4).map((value) => [
      s('line', { class: 'grid', x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      s('text', { x: LEFT - 8, y: y(value) + 4, 'text-anchor': 'end' }, yText(value)),
    ]),
    (isTime ? timeTicks(xHigh, 5) : ticks(xLow, xHigh, 5)).map((value) => s('text', { x: x(value), y: height - 6, 'text-anchor': 'middle' }, xText(value))),
    s('line', { class: 'axis', x1: LEFT, x2: WIDTH - RIGHT, y1: height - BOTTOM, y2: height - BOTTOM }),
    s('path', { class: `line ${kind}`, d: path }),
    s('circle', { cx: x(lastX), cy: y(lastY), r: 3.5, fill: `var(--series-${kind.slice(1)})` }));
}
