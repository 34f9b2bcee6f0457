// Who had what when: one row each, bars over time. Kinds of bars differ in colour, in height and in their titles.

import { s } from '/dom.js';
import { duration, moment } from '/format.js';
import { timeTicks } from '/widgets/chart.js';

const [WIDTH, LEFT, RIGHT, ROW, AXIS] = [900, 110, 12, 26, 26];

/** rows: [{label, spans: [{from, to, kind, title}]}] */
export function gantt({ rows, from, to, label }) {
  const height = rows.length * ROW + AXIS;
  const span = Math.max(to - from, 1e-3);
  const x = (time) => LEFT + (Math.min(Math.max(time, from), to) - from) / span * (WIDTH - LEFT - RIGHT);
  const clip = (text) => (text.length > 15 ? `${text.slice(0, 14)}…` : text);
  return s('svg', { class: 'plot', viewBox: `0 0 ${WIDTH} ${height}`, role: 'img', 'aria-label': label },
    rows.map((row, index) => [
      s('line', { class: 'grid', x1: LEFT, x2: WIDTH - RIGHT, y1: (index + 1) * ROW, y2: (index + 1) * ROW }),
      s('text', { class: 'label', x: LEFT - 10, y: index * ROW + ROW / 2 + 4, 'text-anchor': 'end' }, clip(row.label), s('title', {}, row.label)),
      row.spans.map((one) => {
        const isThin = one.kind === 'starting';
        return s('rect', { class: `span ${one.kind ?? ''}`, x: x(one.from), width: Math.max(x(one.to) - x(one.from), 2),
          y: index * ROW + (isThin ? 9 : 5), height: ROW - (isThin ? 18 : 10) },
        s('title', {}, `${one.title ?? row.label}: ${moment(one.from)} to ${moment(one.to)}, ${duration(one.to - one.from)}`));
      }),
    ]),
    timeTicks(span, 6).map((after) => s('text', { x: x(from + after), y: height - 8, 'text-anchor': 'middle' }, after === 0 ? moment(from) : `+${duration(after)}`)));
}
