// Small things that several pages show.

import { h } from '/dom.js';
import { SIGNS, isOver, jobName, number, percent } from '/format.js';
import { store } from '/store.js';

export const badge = (word) => h('span', { class: `badge ${word}` }, h('span', { 'aria-hidden': 'true' }, SIGNS[word] ?? '·'), word);
export const jobLink = (id) => h('a', { href: `#/job/${id}` }, store.job(id) ? jobName(store.job(id)) : String(id));

export function card(title, ...children) {
  return h('section', { class: 'card' }, h('header', {}, h('h2', {}, title)), children);
}

export function bar(share, kind = '') {
  const part = Number.isFinite(share) ? Math.max(0, Math.min(1, share)) : 0;
  return h('span', { class: `bar ${kind}`, role: 'img', 'aria-label': percent(part) }, h('i', { style: { width: `${part * 100}%` } }));
}

export function tile(what, value, more, extra) {
  return h('div', { class: 'tile' }, h('div', { class: 'what' }, what), h('div', { class: 'value' }, value), more ? h('div', { class: 'more' }, more) : null, extra);
}

/** How far a job has come: the bar, and the share. */
export function progress(job) {
  if (!job.iterations || !(job.done > 0)) return job.done > 0 ? `${number(job.done)} it.` : '';
  const share = job.done / job.iterations;
  return h('span', { class: 'progress' }, bar(share), h('span', { class: 'number' }, percent(Math.min(1, share))));
}

/** How long it ran, or has been running; else how long it has waited. */
export function age(job) {
  if (isOver(job)) return job.end - (job.start || job.submit);
  return store.now() - (job.phase === 'running' || job.phase === 'placed' || job.phase === 'stopping' ? job.run || job.start || job.submit : job.submit);
}

/** A search field and a row of things that can be on or off. */
export function search(label, call) {
  return h('input', { type: 'search', placeholder: `${label}  ( / )`, 'aria-label': label, on: { input: (event) => call(event.target.value.trim().toLowerCase()) } });
}
