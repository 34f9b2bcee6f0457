// All jobs, and those that wait with the reason why.

import { h, perFrame, replace, settled } from '/dom.js';
import { PHASES, duration, isQueued, jobName, moment, placed } from '/format.js';
import { get } from '/head.js';
import { age, badge, progress, search } from '/parts.js';
import { store } from '/store.js';
import { Table } from '/widgets/table.js';

const open = (job) => { location.hash = `#/job/${job.id}`; };

const ID = { key: 'id', title: 'job', width: '84px', value: (job) => job.id, render: (job) => h('a', { href: `#/job/${job.id}` }, jobName(job)) };
const NAME = { key: 'name', title: 'name', width: 'minmax(90px, 1.4fr)', value: (job) => job.name, kind: 'strong', tip: (job) => job.name };
const USER = { key: 'user', title: 'user', width: 'minmax(60px, 110px)', value: (job) => job.user };
const PHASE = { key: 'phase', title: 'state', width: '116px', value: (job) => job.phase, render: (job) => badge(job.phase) };
const DEVICES = { key: 'devices', title: 'devices', width: '62px', kind: 'n', value: (job) => job.devices };
const PRIORITY = { key: 'priority', title: 'priority', width: '62px', kind: 'n', value: (job) => job.priority ?? 0, wide: true };

const matches = (job, text) => !text || job.name.toLowerCase().includes(text) || job.user.toLowerCase() === text || jobName(job) === text || (job.pool ?? '') === text;

/** What a page of jobs needs: a search field, a table, and their upkeep. */
function listing(main, signal, { columns, sort, label, keep, tools, seen, empty }) {
  let text = '';
  const table = new Table({ columns, open, sort, label, seen, empty });
  const found = h('p', { class: 'note', 'aria-live': 'polite' });
  const update = () => {
    const rows = [...store.jobs.values()].filter((job) => keep(job) && matches(job, text));
    found.textContent = store.isLoaded ? `${rows.length} of ${store.jobs.size} jobs` : 'loading';
    table.set(rows);
  };
  const soon = perFrame(update);
  const field = search('job, name, user or pool', settled((value) => { text = value; update(); }, 60));
  main.className = 'tall';
  replace(main, h('div', { class: 'tools' }, field, tools?.(soon), found), h('section', { class: 'card flush' }, table.node));
  store.watch((change) => { if (change.ids?.size !== 0) soon(); }, signal);
  const timer = setInterval(() => table.redraw(), 1000);
  signal.addEventListener('abort', () => { clearInterval(timer); table.close(); });
  update();
  return { table, update };
}

/** Which states are shown: none chosen means all. */
function chips(chosen, call) {
  const row = h('div', { class: 'chips', role: 'group', 'aria-label': 'states' });
  const draw = () => {
    const count = {};
    for (const job of store.jobs.values()) count[job.phase] = (count[job.phase] ?? 0) + 1;
    PHASES.forEach((phase, index) => {
      row.children[index].lastChild.textContent = count[phase] ?? 0;
      row.children[index].hidden = !count[phase] && !chosen.has(phase);
      row.children[index].setAttribute('aria-pressed', chosen.has(phase));
    });
  };
  row.append(...PHASES.map((phase) => h('button', { type: 'button', class: 'chip', 'data-phase': phase, on: { click: () => {
    if (!chosen.delete(phase)) chosen.add(phase);
    draw();
    call();
  } } }, phase, h('b', {}))));
  return { row, draw };
}

export function jobsPage(main, signal) {
  const chosen = new Set();
  let filter;
  listing(main, signal, {
    label: 'jobs',
    sort: ['id', true],
    empty: 'No job is like that.',
    keep: (job) => chosen.size === 0 || chosen.has(job.phase),
    tools: (call) => { filter = chips(chosen, call); return filter.row; },
    columns: [ID, NAME, USER, PHASE, DEVICES,
      { key: 'type', title: 'type', width: '76px', value: (job) => job.type ?? '', kind: 'quiet', wide: true },
      { key: 'submit', title: 'submitted', width: '136px', value: (job) => job.submit, render: (job) => moment(job.submit), kind: 'quiet', wide: true },
      { key: 'age', title: 'ran or waits', width: '92px', kind: 'n', value: age, render: (job) => duration(age(job)), wide: true },
      { key: 'done', title: 'progress', width: '130px', value: (job) => (job.iterations ? job.done / job.iterations : job.done ?? 0), render: progress, wide: true },
      { key: 'where', title: 'where, or why', width: 'minmax(0, 1.6fr)', value: (job) => placed(job) || job.reason || '', tip: (job) => placed(job) || job.reason, kind: 'quiet', wide: true }],
  });
  store.watch(perFrame(() => filter.draw()), signal);
  filter.draw();
}

export function queuePage(main, signal) {
  const reasons = new Map();
  let table;
  // Of rows in sight only, and not again at once: a reason is worked out by the policy.
  const fetchReasons = settled(async (rows) => {
    const now = performance.now();
    const wanted = rows.filter((job) => !(now - (reasons.get(job.id)?.at ?? -1e9) < 4000)).map((job) => job.id).slice(0, 100);
    if (wanted.length === 0 || signal.aborted) return;
    wanted.forEach((id) => reasons.set(id, { at: now, text: reasons.get(id)?.text }));
    const told = await get(`/api/reasons?jobs=${wanted.join(',')}`).catch(() => ({}));
    for (const [id, text] of Object.entries(told)) reasons.set(Number(id), { at: now, text });
    if (!signal.aborted) table.redraw();
  }, 80);
  const starts = new Map();
  let asking = false;
  const fetchStarts = settled(async (rows) => {
    const now = performance.now();
    const wanted = rows.filter((job) => !(now - (starts.get(job.id)?.at ?? -1e9) < 15000)).map((job) => job.id).slice(0, 50);
    if (wanted.length === 0 || asking || signal.aborted) return;
    asking = true;
    const told = await get(`/api/forecast?jobs=${wanted.join(',')}`).catch(() => ({}));
    asking = false;
    wanted.forEach((id) => starts.set(id, { at: performance.now(), ...(told[id] ?? {}) }));
    if (!signal.aborted) table.redraw();
  }, 400);
  const expected = (job) => {
    const known = starts.get(job.id);
    return known?.start ? `in ${duration(known.start - store.now())}` : '–';
  };
  const certain = (job) => {
    const known = starts.get(job.id);
    if (!known?.start) return 'nothing is in sight, or there are too many jobs to foresee it';
    return `${moment(known.start)}; between ${moment(known.low)} and ${known.high ? moment(known.high) : 'much later'}`;
  };
  ({ table } = listing(main, signal, {
    label: 'jobs that wait',
    sort: ['id', false],
    keep: isQueued,
    seen: (rows) => { fetchReasons(rows); fetchStarts(rows); },
    empty: 'No jobs wait.',
    columns: [ID, NAME, USER, PHASE, DEVICES, PRIORITY,
      { key: 'age', title: 'has waited', width: '92px', kind: 'n', value: age, render: (job) => duration(age(job)) },
      { key: 'start', title: 'starts', width: '100px', kind: 'n', value: (job) => starts.get(job.id)?.start ?? Infinity, render: expected, tip: certain, wide: true },
      { key: 'reason', title: 'why it waits', width: 'minmax(0, 3fr)', value: (job) => reasons.get(job.id)?.text ?? '', tip: (job) => reasons.get(job.id)?.text, kind: 'quiet', wide: true }],
  }));
}
