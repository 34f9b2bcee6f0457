// Parallel coordinates: an axis for each parameter and one for the result, a line for each trial.

import { h, s } from '/dom.js';
import { number } from '/format.js';

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [900, 300, 50, 60, 30, 16];

/** Where values are on an axis, from 0 at the lower end to 1, and its marks. Values that are all numbers have their order and, over several decades, a logarithmic scale. */
function axisOf(values) {
  const known = values.filter((value) => value !== undefined && value !== '');
  const numbers = known.map(Number);
  if (known.length && numbers.every((value) => Number.isFinite(value))) {
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    const isLog = low > 0 && high / low >= 50;
    const scale = isLog ? Math.log10 : (value) => value;
    const span = scale(high) - scale(low) || 1;
    const at = (value) => (low === high ? 0.5 : (scale(Number(value)) - scale(low)) / span);
    return { at, marks: [...new Set([low, high])].map((value) => [at(value), number(value, 4)]) };
  }
  const words = [...new Set(known)].sort();
  const at = (value) => (words.length < 2 ? 0.5 : words.indexOf(value) / (words.length - 1));
  return { at, marks: words.slice(0, 12).map((word) => [at(word), word]) };
}

/** axes: names; the last one is the result. trials: [{label, values: [...], href}]; what has no finite result is drawn faint, up to the last parameter. */
export function parallel({ axes, trials, isLowerBetter = true, label }) {
  if (trials.length === 0 || axes.length < 2) return h('p', { class: 'empty' }, 'nothing to compare yet');
  const last = axes.length - 1;
  const result = (trial) => { const value = trial.values[last]; return typeof value === 'number' && Number.isFinite(value) ? value : undefined; };
  const scales = axes.map((_, index) => axisOf(trials.map((trial) => (index === last ? result(trial) : trial.values[index]))));
  const x = (index) => LEFT + (index / last) * (WIDTH - LEFT - RIGHT);
  const y = (share) => HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
  const clip = (text) => (String(text).length > 14 ? `${String(text).slice(0, 13)}…` : String(text));
  const goodness = (trial) => { const share = scales[last].at(result(trial)); return isLowerBetter ? 1 - share : share; };
  // The best ones last, so that they lie above the others.
  const drawn = [...trials].sort((one, other) => (result(one) === undefined ? -1 : goodness(one)) - (result(other) === undefined ? -1 : goodness(other)));
  return s('svg', { class: 'plot parallel', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': label },
    drawn.map((trial) => {
      const isOdd = result(trial) === undefined;
      const until = isOdd ? last : last + 1;
      const path = axes.slice(0, until).map((_, index) => `${index ? 'L' : 'M'}${x(index).toFixed(1)} ${y(scales[index].at(trial.values[index])).toFixed(1)}`).join('');
      const colour = isOdd ? 'var(--quiet)' : `hsl(${Math.round(20 + 190 * goodness(trial))} var(--job-s) var(--job-l))`;
      return s('path', { class: 'line', d: path, 'stroke-dasharray': isOdd ? '3 4' : null, style: { stroke: colour, opacity: isOdd ? 0.5 : 0.85 } },
        s('title', {}, `${trial.label}: ${axes.map((name, index) => `${name} ${trial.values[index] ?? '–'}`).join(', ')}`));
    }),
    axes.map((name, index) => [
      s('line', { class: 'axis', x1: x(index), x2: x(index), y1: TOP, y2: HEIGHT - BOTTOM }),
      s('text', { class: 'label', x: x(index), y: 14, 'text-anchor': 'middle' }, clip(name), s('title', {}, name)),
      scales[index].marks.map(([share, text]) => s('text', { x: x(index) + 6, y: y(share) + 4 }, clip(text))),
    ]));
}
