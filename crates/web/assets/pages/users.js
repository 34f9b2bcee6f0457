// Who has what now, and who had what before.

import { h, perFrame, replace } from '/dom.js';
import { isQueued, number, percent } from '/format.js';
import { get } from '/head.js';
import { limitTable } from '/pages/policy.js';
import { bar, card } from '/parts.js';
import { store } from '/store.js';
import { segments } from '/widgets/segments.js';

function present() {
  const people = new Map();
  let all = 0;
  for (const job of store.jobs.values()) {
    const isOn = job.phase === 'running' || job.phase === 'placed';
    if (!isOn && !isQueued(job)) continue;
    const one = people.get(job.user) ?? { user: job.user, running: 0, waiting: 0, devices: 0, wanted: 0 };
    if (isOn) { one.running += 1; one.devices += (job.placement ?? []).reduce((sum, [, devices]) => sum + devices.length, 0); } else { one.waiting += 1; one.wanted += job.devices; }
    people.set(job.user, one);
  }
  for (const one of people.values()) all += one.devices;
  return [...people.values()].map((one) => ({ ...one, share: all ? one.devices / all : 0 })).sort((a, b) => b.devices - a.devices || b.wanted - a.wanted);
}

const head = (titles) => h('thead', {}, h('tr', {}, titles.map(([title, kind]) => h('th', { class: kind ?? '' }, title))));
const shared = (share) => h('td', { style: { width: '28%', paddingLeft: '16px' } }, bar(share));

function nowTable() {
  const rows = present();
  if (rows.length === 0) return h('p', { class: 'empty' }, 'No running or waiting jobs.');
  return h('div', { class: 'scroll' }, h('table', { class: 'plain' }, head([['user'], ['running', 'n'], ['waiting', 'n'], ['devices', 'n'], ['wants more', 'n'], ['share', 'n'], ['']]),
    h('tbody', {}, rows.slice(0, 200).map((one) => h('tr', {}, h('td', {}, one.user || '–'), h('td', { class: 'n' }, one.running), h('td', { class: 'n' }, one.waiting), h('td', { class: 'n' }, one.devices), h('td', { class: 'n' }, one.wanted), h('td', { class: 'n' }, percent(one.share)), shared(one.share))))));
}

function usageTable(usage) {
  const all = usage.total?.allocated_h ?? 0;
  if (usage.rows.length === 0) return h('p', { class: 'empty' }, 'Nothing was used.');
  const rows = usage.rows.toSorted((a, b) => b.allocated_h - a.allocated_h);
  return h('div', { class: 'scroll' }, h('table', { class: 'plain' }, head([['user'], ['device-hours', 'n'], ['of them idle', 'n'], ['lost', 'n'], ['hours waited', 'n'], ['finished', 'n'], ['failed', 'n'], ['share', 'n'], ['']]),
    h('tbody', {}, rows.slice(0, 200).map((row) => h('tr', {}, h('td', {}, row.key), [row.allocated_h, row.idle_h, row.lost_h, row.waiting_h, row.finished, row.failed].map((value) => h('td', { class: 'n' }, number(value))),
      h('td', { class: 'n' }, percent(all ? row.allocated_h / all : 0)), shared(all ? row.allocated_h / all : 0))))));
}

export function usersPage(main, signal) {
  const now = h('div', {});
  const used = h('div', {});
  const limits = h('div', {});
  let hours = 24;
  const load = async () => {
    const usage = await get(hours ? `/api/usage?hours=${hours}` : '/api/usage');
    if (!signal.aborted) replace(used, usageTable(usage));
  };
  const failed = (error) => { if (!signal.aborted) replace(used, h('p', { class: 'empty' }, error.message)); };
  const choose = segments([[1, 'hour'], [24, 'day'], [168, 'week'], [0, 'ever']], hours, (key) => { hours = key; load().catch(failed); });
  replace(main, card('Now', now), h('section', { class: 'card' }, h('header', {}, h('h2', {}, 'Used'), choose), used), card('Limits', limits));
  const draw = perFrame(() => replace(now, nowTable()));
  store.watch((change) => { if (change.ids?.size !== 0) draw(); }, signal);
  draw();
  load().catch(failed);
  get('/api/limits').then((told) => { if (!signal.aborted) replace(limits, limitTable(told)); }).catch(failed);
}
