// A sweep: parameters, results and curves of its elements.

import { h, replace } from '/dom.js';
import { SIGNS, number } from '/format.js';
import { curvesView, numeric, sorted } from '/widgets/curves.js';
import { parallel } from '/widgets/parallel.js';
import { segments } from '/widgets/segments.js';

/** Elements in the table; `wharf tune results` has all of them. */
const SHOWN = 200;

const shown = (value) => (value === undefined ? '–' : typeof value === 'string' ? value : number(value, 5));
const finite = (value) => typeof value === 'number' && Number.isFinite(value);
const badge = (word) => h('span', { class: `badge ${word}` }, h('span', { 'aria-hidden': 'true' }, SIGNS[word] ?? '·'), word);

/**
 * `set` takes {title, names, trials: [{job, label, href, values, metrics, done, phase}], curves}: the names of the parameters, and for each element
 * their values, the last value of each metric and the stored curves.
 */
export function sweepView() {
  let data = { title: '', names: [], trials: [], curves: [] };
  let metric = '';
  let order = 'lowest';
  const head = h('section', { class: 'card' });
  const plot = h('section', { class: 'card' });
  const table = h('div', { class: 'scroll' });
  const curves = curvesView({ label: (job) => { const one = data.trials.find((trial) => trial.job === job); return one ? `${one.label} ${one.values.join(' ')}` : `job ${job}`; } });
  const node = h('div', { style: { display: 'grid', gap: '16px' } }, head, plot, h('section', { class: 'card' }, h('header', {}, h('h2', {}, 'Elements')), table), curves.node);

  const last = (trial) => trial.metrics?.[metric];
  const best = (trial) => {
    const curve = data.curves.find((one) => one.job === trial.job)?.curves.find((one) => one.name === metric);
    const values = (curve?.value ?? []).map(numeric).filter(finite);
    return values.length ? values.reduce((one, other) => (order === 'lowest' ? Math.min(one, other) : Math.max(one, other))) : undefined;
  };
  const draw = () => {
    const { title, names, trials } = data;
    const metrics = sorted(new Set(trials.flatMap((trial) => Object.keys(trial.metrics ?? {}))));
    if (!metrics.includes(metric)) metric = metrics[0] ?? '';
    // What is not a finite number comes last, whatever the order.
    const ranked = [...trials].sort((one, other) => {
      const [a, b] = [last(one), last(other)];
      if (finite(a) !== finite(b)) return finite(a) ? -1 : 1;
      return finite(a) ? (order === 'lowest' ? a - b : b - a) : 0;
    });
    const counts = {};
    for (const { phase } of trials) counts[phase] = (counts[phase] ?? 0) + 1;
    const choose = h('select', { 'aria-label': 'metric', on: { change: (event) => { metric = event.target.value; draw(); } } }, metrics.map((name) => h('option', { value: name, selected: name === metric }, name)));
    replace(head, h('div', { class: 'title' }, h('h1', {}, title), h('span', { class: 'note' }, `${trials.length} elements`), Object.entries(counts).map(([phase, count]) => [badge(phase), ` ${count} `]),
      h('div', { class: 'tools' }, metrics.length ? choose : null, segments([['lowest', 'lowest first'], ['highest', 'highest first']], order, (key) => { order = key; draw(); }))));
    plot.hidden = names.length === 0 || !metric;
    replace(plot, h('header', {}, h('h2', {}, 'Parameters and result')), plot.hidden ? null : h('div', { class: 'scroll' }, parallel({
      axes: [...names, metric], isLowerBetter: order === 'lowest', label: `parameters and ${metric}`,
      trials: trials.slice(0, 1000).map((trial) => ({ label: trial.label, values: [...trial.values, last(trial)] })),
    })));
    const cell = (text) => h('td', { class: 'n' }, text);
    replace(table, h('table', { class: 'plain' },
      h('thead', {}, h('tr', {}, ['job', ...names].map((name) => h('th', {}, name)), metric ? [h('th', { class: 'n' }, `${metric} (last)`), h('th', { class: 'n' }, `${metric} (best)`)] : null, h('th', { class: 'n' }, 'iterations'), h('th', {}, 'state'))),
      h('tbody', {}, ranked.slice(0, SHOWN).map((trial) => h('tr', {}, h('td', {}, trial.href ? h('a', { href: trial.href }, trial.label) : trial.label), trial.values.map((value) => h('td', {}, value)),
        metric ? [cell(shown(last(trial))), cell(shown(best(trial)))] : null, cell(number(trial.done ?? 0)), h('td', {}, badge(trial.phase)))))),
    ranked.length > SHOWN ? h('p', { class: 'note' }, `the first ${SHOWN} of ${ranked.length}; \`wharf tune results\` has all of them`) : null);
  };
  return { node, set: (more) => { data = { ...data, ...more }; draw(); curves.set(data.curves); } };
}
