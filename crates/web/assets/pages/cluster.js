// The cluster at a glance: figures, every device, who is next, what happened last.

import { h, perFrame, replace } from '/dom.js';
import { jobOf, words } from '/events.js';
import { SIGNS, duration, hue, isQueued, jobName, moment, percent } from '/format.js';
import { get } from '/head.js';
import { badge, bar, card, jobLink, tile } from '/parts.js';
import { store } from '/store.js';
import { DeviceMap, drawCell } from '/widgets/map.js';
import { segments } from '/widgets/segments.js';

const SHOWN = 8;

/** Which jobs are on which devices, as `node/device`. */
function occupants() {
  const found = new Map();
  for (const job of store.jobs.values()) {
    if (job.phase !== 'running' && job.phase !== 'placed' && job.phase !== 'stopping') continue;
    for (const [node, devices] of job.placement ?? []) {
      for (const device of devices) {
        const key = `${node}/${device}`;
        const there = found.get(key);
        if (there) there.push(job); else found.set(key, [job]);
      }
    }
  }
  return found;
}

function cells(mode, isShown) {
  const on = occupants();
  return store.nodes.filter((node) => node && node.health !== 'gone').map((node) => {
    const told = new Map((node.told ?? []).map((device) => [device.index, device]));
    const isWell = node.health === 'up';
    const list = Array.from({ length: node.devices }, (_, device) => {
      const jobs = on.get(`${node.name}/${device}`) ?? [];
      const known = told.get(device);
      const kind = node.health === 'lost' ? 'lost' : known?.problem ? 'broken' : jobs.length ? 'job' : isWell ? 'free' : 'cordoned';
      const cell = { node, device, jobs, known, kind, hue: jobs.length ? hue(jobs[0].id) : 0, text: jobs.length ? jobName(jobs[0]) : '' };
      if (jobs.length > 1) cell.text += '+';
      if (mode === 'use' && kind === 'job') { cell.share = known?.use ?? 1; cell.text = known?.use === undefined ? '?' : String(Math.round(known.use * 100)); cell.hue = 212; }
      if (mode === 'health' && kind === 'job') { cell.hue = 150; cell.text = ''; }
      cell.dimmed = !isShown(cell);
      return cell;
    });
    return { name: node.name, sign: isWell ? '' : `${SIGNS[node.health] ?? ''} `, isWell, cells: list };
  });
}

function describe(cell) {
  const lines = [`${cell.node.name} · device ${cell.device} · ${cell.node.type}`];
  for (const job of cell.jobs) lines.push(`job ${jobName(job)} ${job.name} of ${job.user || 'an unknown user'}, ${job.phase}`);
  if (cell.jobs.length === 0) lines.push(cell.kind === 'free' ? 'free' : cell.kind === 'cordoned' ? `node is ${cell.node.health}: no new jobs` : cell.kind);
  if (cell.known?.use !== undefined) lines.push(`${percent(cell.known.use)} busy`);
  if (cell.known?.temperature_c !== undefined) lines.push(`${Math.round(cell.known.temperature_c)} °C`);
  if (cell.known?.problem) lines.push(cell.known.problem);
  if (cell.node.reason) lines.push(cell.node.reason);
  return lines.join('\n');
}

function legend() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const palette = { idle: colour('--idle'), strong: colour('--rule-strong'), bad: colour('--bad'), warn: colour('--warn'), s: colour('--job-s'), l: colour('--job-l'), raised: colour('--raised'), text: colour('--text'), jobText: colour('--job-text') };
  const one = (kind, text) => {
    const canvas = h('canvas', { width: 28, height: 28, 'aria-hidden': 'true' });
    const ink = canvas.getContext('2d');
    ink.scale(2, 2);
    drawCell(ink, { kind, hue: 212 }, 0, 0, 14, palette);
    return h('span', {}, canvas, text);
  };
  return h('div', { class: 'legend' }, one('job', 'busy: filled, with the job’s number'), one('free', 'free: hollow'), one('cordoned', 'closed: barred'), one('broken', 'broken: crossed'), one('lost', 'away: dotted'));
}

function tiles() {
  const count = {};
  for (const job of store.jobs.values()) count[job.phase] = (count[job.phase] ?? 0) + 1;
  const nodes = store.nodes.filter((node) => node && node.health !== 'gone');
  const devices = nodes.reduce((sum, node) => sum + node.devices, 0);
  const busy = occupants().size;
  const told = nodes.flatMap((node) => node.told ?? []).filter((device) => device.use !== undefined);
  const use = told.length ? told.reduce((sum, device) => sum + device.use, 0) / told.length : NaN;
  const up = nodes.filter((node) => node.health === 'up').length;
  return [
    tile('Devices busy', [busy, h('small', {}, ` / ${devices}`)], null, bar(devices ? busy / devices : 0)),
    tile('Running', count.running ?? 0, `${(count.placed ?? 0) + (count.stopping ?? 0)} starting or stopping`),
    tile('Waiting', count.waiting ?? 0, `${count.held ?? 0} held`),
    tile('Over', (count.finished ?? 0) + (count.failed ?? 0) + (count.cancelled ?? 0) + (count['timed-out'] ?? 0), `${(count.failed ?? 0) + (count['timed-out'] ?? 0)} failed`),
    tile('Nodes up', [up, h('small', {}, ` / ${nodes.length}`)], up < nodes.length ? `${nodes.length - up} not up` : 'all are well'),
    tile('Utilisation', percent(use), told.length ? `as ${told.length} devices tell` : 'no device tells'),
  ];
}

async function queueList(list) {
  const first = [...store.jobs.values()].filter(isQueued).slice(0, SHOWN);
  if (first.length === 0) return replace(list, h('li', { class: 'empty' }, 'No jobs wait.'));
  const reasons = await get(`/api/reasons?jobs=${first.map((job) => job.id).join(',')}`).catch(() => ({}));
  return replace(list, first.map((job) => h('li', {},
    h('span', {}, jobLink(job.id), ' ', job.name, h('span', { class: 'when' }, ` · ${job.user} · ${job.devices} ×`)),
    h('span', { class: 'when' }, duration(store.now() - job.submit)),
    h('span', { class: 'sub' }, reasons[job.id] ?? ''))));
}

const eventList = (list) => replace(list, store.events.slice(0, SHOWN).map((event) => h('li', {},
  h('span', {}, jobOf(event) === undefined ? null : ['job ', jobLink(jobOf(event)), ' ']  , words(event)), h('span', { class: 'when' }, moment(event.time)))));

export function clusterPage(main, signal) {
  let mode = 'job';
  let user = '';
  const figures = h('div', { class: 'tiles' });
  const queue = h('ul', { class: 'list' });
  const events = h('ul', { class: 'list' });
  const map = new DeviceMap({ label: 'devices of the cluster; arrow keys walk, Enter opens the job', describe, open: (cell) => { if (cell.jobs.length) location.hash = `#/job/${cell.jobs[0].id}`; } });
  const users = h('select', { 'aria-label': 'whose jobs stand out', on: { change: (event) => { user = event.target.value; draw(); } } });
  const keyed = h('div', {}, legend());
  const isShown = (cell) => !user || cell.jobs.some((job) => job.user === user);
  const listUsers = () => {
    const names = [...new Set([...store.jobs.values()].filter((job) => job.placement && job.phase === 'running').map((job) => job.user))].sort();
    replace(users, h('option', { value: '' }, 'jobs of all users'), names.map((name) => h('option', { value: name, selected: name === user }, name)));
  };
  const draw = () => { replace(figures, tiles()); map.set(cells(mode, isShown)); };
  const redraw = perFrame(draw);
  let askedAt = 0;
  const lists = () => {
    eventList(events);
    if (performance.now() - askedAt > 1000) { askedAt = performance.now(); queueList(queue); }
  };
  replace(main, figures,
    h('section', { class: 'card' }, h('header', {}, h('h2', {}, 'Devices'), users,
      segments([['job', 'by job'], ['use', 'by use'], ['health', 'by health']], mode, (key) => { mode = key; draw(); })), map.node, map.readout, keyed),
    h('div', { class: 'row' }, card('Next in the queue', queue), card('Latest events', events)));
  store.watch((change) => {
    if (change.ids?.size !== 0 || change.nodes) redraw();
    if (change.events.length || change.ids === null) { lists(); listUsers(); }
    if (change.nodes && change.ids?.size === 0) replace(keyed, legend());
  }, signal);
  signal.addEventListener('abort', () => map.close());
  const timer = setInterval(lists, 5000);
  signal.addEventListener('abort', () => clearInterval(timer));
  draw();
  lists();
  listUsers();
}
