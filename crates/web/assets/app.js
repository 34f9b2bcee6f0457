// The frame around all pages: who is here, where they are, and what is new.

import { h, perFrame, replace } from '/dom.js';
import { isQueued } from '/format.js';
import { get, keepSession, post } from '/head.js';
import { login } from '/login.js';
import { store } from '/store.js';
import { nextTheme, restoreTheme } from '/theme.js';
import { toast, toasts } from '/toast.js';
import { clusterPage } from '/pages/cluster.js';
import { jobsPage, queuePage } from '/pages/jobs.js';
import { jobPage } from '/pages/job.js';
import { sweepPage } from '/pages/sweep.js';
import { policyPage } from '/pages/policy.js';
import { usersPage } from '/pages/users.js';
import { eventsPage } from '/pages/events.js';

const PAGES = [
  ['cluster', 'Cluster', clusterPage], ['queue', 'Queue', queuePage], ['jobs', 'Jobs', jobsPage],
  ['policy', 'Policy', policyPage], ['users', 'Users', usersPage], ['events', 'Events', eventsPage],
];

const app = document.getElementById('app');
let leave = null;

const count = h('span', { class: 'count' });
const links = PAGES.map(([name, title]) => h('a', { href: `#/${name}` }, title, name === 'queue' ? count : null));
const live = h('span', { class: 'live off', title: 'connection to the head' }, h('span', { class: 'word' }, 'connecting'));
const who = h('span', { class: 'who' });
const main = h('main', { id: 'main', tabindex: -1 });

function theme() {
  const next = nextTheme();
  store.tell('change', { ids: new Set(), nodes: true, events: [], progress: [] });
  toast(next ? `${next} colours` : 'colours as the system has them');
}

async function logOut() {
  store.end();
  await post('/api/logout');
  keepSession(null);
  location.reload();
}

function frame() {
  const icon = (text, label, click) => h('button', { type: 'button', class: 'icon', title: label, 'aria-label': label, on: { click } }, text);
  replace(app,
    h('a', { class: 'skip', href: '#main', on: { click: (event) => { event.preventDefault(); main.focus(); } } }, 'To the content'),
    h('header', { class: 'top' }, h('div', { class: 'inner' },
      h('a', { class: 'brand', href: '#/cluster' }, h('img', { src: '/logo.svg', alt: '' }), 'Wharf'),
      h('nav', { 'aria-label': 'pages' }, links),
      h('div', { class: 'side' }, live, who, icon('◐', 'Light or dark', theme), icon('?', 'Keys', keys), icon('⇥', 'Log out', logOut)))),
    main, toasts);
}

function keys() {
  const rows = [['/', 'search'], ['g then c q j p u e', 'go to a page'], ['↑ ↓ PgUp PgDn', 'walk through a table or the map'], ['Enter', 'open'], ['Esc', 'back'], ['?', 'these keys']];
  const dialog = h('dialog', {}, h('form', { method: 'dialog' }, h('h2', {}, 'Keys'),
    h('table', { class: 'plain' }, h('tbody', {}, rows.map(([key, what]) => h('tr', {}, h('td', {}, key.split(' ').map((one) => [one === 'then' ? one : h('kbd', {}, one), ' '])), h('td', {}, what))))),
    h('div', { class: 'tools' }, h('button', { class: 'primary' }, 'Close'))));
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function route() {
  const [name, argument] = location.hash.replace(/^#\/?/, '').split('/');
  leave?.abort();
  leave = new AbortController();
  const [page, , show] = PAGES.find(([known]) => known === name) ?? PAGES[0];
  links.forEach((link, index) => {
    const isHere = name === 'job' || name === 'sweep' ? PAGES[index][0] === 'jobs' : PAGES[index][0] === page;
    if (isHere) link.setAttribute('aria-current', 'page'); else link.removeAttribute('aria-current');
  });
  main.className = '';
  document.title = name === 'job' || name === 'sweep' ? `${name} ${argument} – Wharf` : `${page} – Wharf`;
  replace(main);
  const id = Number(argument);
  if (name === 'job' && Number.isInteger(id)) jobPage(main, id, leave.signal);
  else if (name === 'sweep' && Number.isInteger(id)) sweepPage(main, id, leave.signal);
  else show(main, leave.signal);
  scrollTo(0, 0);
}

let went = 0;
function onKey(event) {
  const isTyping = event.target.matches?.('input, select, textarea');
  if (event.key === 'Escape' && isTyping) { event.target.blur(); return; }
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog')) return;
  const page = PAGES.find(([name]) => name[0] === event.key);
  if (event.key === '/') { event.preventDefault(); main.querySelector('input[type="search"]')?.focus(); }
  else if (event.key === '?') keys();
  else if (event.key === 'g') { went = performance.now(); return; }
  else if (page && performance.now() - went < 1500) location.hash = `#/${page[0]}`;
  else if (event.key === 'Escape' && /^#\/(job|sweep)\//.test(location.hash)) history.back();
  went = 0;
}

const showCounts = perFrame(() => {
  let waiting = 0;
  for (const job of store.jobs.values()) if (isQueued(job)) waiting += 1;
  count.textContent = waiting;
  live.className = store.isLive ? 'live' : 'live off';
  live.firstChild.textContent = store.isLive ? 'live' : 'no connection';
});

function enter(session) {
  store.session = session;
  replace(who, `${session.user} · ${session.role}${session.read_only ? ' · read-only' : ''}`);
  frame();
  store.begin();
  route();
}

function out() {
  leave?.abort();
  store.end();
  replace(app, login(enter), toasts);
}

addEventListener('hashchange', () => { if (store.session) route(); });
addEventListener('keydown', onKey);
store.addEventListener('change', showCounts);
store.addEventListener('live', showCounts);
store.addEventListener('login', out);
store.addEventListener('problem', (event) => toast(event.detail.text, true));
restoreTheme();

try {
  const session = await get('/api/session');
  if (session.user === null) out(); else enter(session);
} catch (error) {
  replace(app, toasts);
  toast(error.message, true);
}
