// Who decides, and what was decided.

import { h, replace, settled } from '/dom.js';
import { duration, moment, number, percent } from '/format.js';
import { get } from '/head.js';
import { bar, card, jobLink, tile } from '/parts.js';
import { store } from '/store.js';

const jobs = (ids, count) => [ids.map((id) => [jobLink(id), ' ']), count > ids.length ? `and ${count - ids.length} more` : null];

function stopped(one) {
  const why = one.to === null ? one.why : `${one.why} for `;
  return h('div', {}, jobLink(one.job), ' ', why, one.to === null ? null : jobLink(one.to), one.chosen ? h('span', { class: 'note' }, ` (${one.chosen})`) : null);
}

function decisions(list) {
  if (list.length === 0) return h('p', { class: 'empty' }, 'Nothing was decided since the head was started.');
  return h('div', { class: 'scroll' }, h('table', { class: 'plain' },
    h('thead', {}, h('tr', {}, ['when', 'waited', 'free', 'started', 'had to stop', 'took'].map((title, index) => h('th', { class: index === 1 || index === 2 || index === 5 ? 'n' : '' }, title)))),
    h('tbody', {}, list.slice(0, 60).map((one) => h('tr', {},
      h('td', {}, moment(one.time), h('span', { class: 'note' }, ` #${one.number}`)), h('td', { class: 'n' }, one.waiting), h('td', { class: 'n' }, one.free),
      h('td', { style: { paddingLeft: '16px' } }, one.started_count ? jobs(one.started, one.started_count) : '–'), h('td', {}, one.stopped_count ? [one.stopped.map(stopped), one.stopped_count > one.stopped.length ? `and ${one.stopped_count - one.stopped.length} more` : null] : '–'),
      h('td', { class: 'n' }, `${number(one.took_ms)} ms`))))));
}

function history(changes) {
  return h('ul', { class: 'list' }, changes.toReversed().slice(0, 30).map((change) => h('li', {}, h('span', {}, h('b', {}, change.policy), change.by ? ` by ${change.by}` : ''), h('span', { class: 'when' }, change.time ? moment(change.time) : ''),
    Object.keys(change.settings).length ? h('span', { class: 'sub' }, Object.entries(change.settings).map(([key, value]) => `${key} = ${value}`).join(', ')) : null)));
}

/** How far limits are used: of people, groups and pools. */
export function limitTable(limits) {
  if (limits.uses.length === 0) return h('p', { class: 'empty' }, 'No limits are set.');
  return h('div', { class: 'scroll' }, h('table', { class: 'plain' },
    h('thead', {}, h('tr', {}, h('th', {}, 'whose'), h('th', {}, 'what'), h('th', { class: 'n' }, 'used'), h('th', { class: 'n' }, 'limit'), h('th', {}, ''), h('th', { class: 'n' }, 'waiting'))),
    h('tbody', {}, limits.uses.map((use) => h('tr', {}, h('td', {}, use.whose), h('td', {}, use.what, use.per_s ? ` per ${duration(use.per_s)}` : ''), h('td', { class: 'n' }, number(use.used)), h('td', { class: 'n' }, number(use.limit)),
      h('td', { style: { width: '30%', paddingLeft: '16px' } }, bar(use.limit ? use.used / use.limit : 1, use.used >= use.limit ? 'warn' : '')), h('td', { class: 'n' }, use.waiting))))));
}

const UNDONE = ['undone', 'left undone', number];
const COLUMNS = [['avg_jct_s', 'mean completion', duration], ['p95_jct_s', 'p95 completion', duration], ['makespan_s', 'all done after', duration],
  ['avg_queue_s', 'mean waiting', duration], ['gpu_utilization', 'devices in use', percent], ['preemptions', 'stops', number]];

function compared({ jobs: count, runs: told }, now) {
  const runs = told.filter((one) => one.run);
  for (const { run } of runs) run.undone = run.jobs - run.finished;
  const columns = runs.some(({ run }) => run.undone > 0) ? [...COLUMNS, UNDONE] : COLUMNS;
  const cell = ({ run, best }, [key, , show]) => h('td', { class: 'n' }, best.includes(key) ? h('b', {}, `★ ${show(run[key])}`) : show(run[key] ?? NaN));
  return [h('div', { class: 'scroll' }, h('table', { class: 'plain', id: 'compared' },
    h('thead', {}, h('tr', {}, h('th', {}, 'policy'), columns.map(([, title]) => h('th', { class: 'n' }, title)))),
    h('tbody', {}, runs.map((one) => h('tr', {}, h('td', {}, one.run.policy, one.run.policy === now ? h('span', { class: 'note' }, ' decides now') : null), columns.map((column) => cell(one, column))))))),
  told.filter((one) => one.error).map(({ policy, error }) => h('p', { class: 'problem' }, h('b', {}, policy), `: ${error}`)),
  h('p', { class: 'note', style: { marginTop: '8px' } }, `${number(count)} current jobs, with lengths estimated from similar ones; no new jobs arrive. ★ best.`)];
}

/** Other policies on what is there now. */
function whatIf(signal, current) {
  const chosen = new Set();
  const chips = h('div', { class: 'chips' });
  const shown = h('div', { style: { marginTop: '12px' } });
  const button = h('button', { type: 'button', class: 'primary', disabled: true, on: { click: () => compare() } }, 'Compare');
  let most = 0;
  let asked = null;
  signal.addEventListener('abort', () => asked?.abort());
  const choose = (chip, name) => {
    if (!chosen.delete(name)) chosen.add(name);
    chip.setAttribute('aria-pressed', chosen.has(name));
    for (const other of chips.children) other.disabled = chosen.size >= most && !chosen.has(other.dataset.policy);
    button.disabled = chosen.size === 0;
  };
  const chip = (name) => { const made = h('button', { type: 'button', class: 'chip', 'aria-pressed': false, 'data-policy': name, on: { click: () => choose(made, name) } }, name); return made; };
  async function compare() {
    button.disabled = true;
    asked = new AbortController();
    const stop = h('button', { type: 'button', id: 'whatif-stop', on: { click: () => asked.abort() } }, 'Stop');
    replace(shown, h('p', { class: 'note' }, 'simulating … ', stop));
    try {
      const told = await get(`/api/compare?policies=${[...chosen].map(encodeURIComponent).join(',')}`, asked.signal);
      if (!signal.aborted) replace(shown, compared(told, current()));
    } catch (error) {
      const why = asked.signal.aborted ? h('p', { class: 'note' }, 'Stopped.') : h('p', { class: 'problem' }, error.message);
      if (!signal.aborted) replace(shown, why);
    }
    button.disabled = chosen.size === 0;
  }
  get('/api/compare').then((told) => {
    if (signal.aborted) return;
    most = told.at_once ?? 0;
    replace(chips, told.policies.map(chip));
    replace(shown, h('p', { class: 'note' }, `Choose up to ${most}; the policy that decides now is always among them.`));
  }).catch((error) => { if (!signal.aborted) replace(shown, h('p', { class: 'problem' }, error.message)); });
  return h('section', { class: 'card', id: 'whatif' }, h('header', {}, h('h2', {}, 'What if another one decided'), button), chips, shown);
}

export function policyPage(main, signal) {
  const figures = h('div', { class: 'tiles' });
  const made = h('div', {});
  const before = h('div', {});
  const limits = h('div', {});
  let name = '';
  const load = async () => {
    const [policy, applied] = await Promise.all([get('/api/policy'), get('/api/limits')]);
    if (signal.aborted) return;
    const now = policy.changes.at(-1);
    name = now?.policy ?? '';
    const list = policy.decisions;
    const times = list.map((one) => one.took_ms).toSorted((a, b) => a - b);
    const sum = (key) => list.reduce((total, one) => total + one[key], 0);
    replace(figures, tile('Policy', now?.policy ?? '–', now && Object.keys(now.settings).length ? Object.entries(now.settings).map(([key, value]) => `${key}=${value}`).join(' ') : 'default settings'),
      tile('Decisions', number(policy.count), 'since the head was started'), tile('Changed something', list.length, 'of those that are remembered'),
      tile('Starts', sum('started_count'), 'in these'), tile('Stops', sum('stopped_count'), 'in these'), tile('Median time', times.length ? `${number(times[times.length >> 1])} ms` : '–', times.length ? `at most ${number(times.at(-1))} ms` : ''));
    replace(made, decisions(list));
    replace(before, history(policy.changes));
    replace(limits, limitTable(applied));
  };
  const soon = settled(() => load().catch(() => {}), 300);
  replace(main, figures, whatIf(signal, () => name), card('What was decided, and why', made), h('div', { class: 'row' }, card('Who decided', before), card('Limits', limits)));
  store.watch((change) => { if (change.events.length) soon(); }, signal);
  load().catch((error) => { if (!signal.aborted) replace(made, h('p', { class: 'empty' }, error.message)); });
}
