// Everything that happened, the latest first.

import { h, perFrame, replace, settled } from '/dom.js';
import { jobOf, words } from '/events.js';
import { moment } from '/format.js';
import { get } from '/head.js';
import { jobLink, search } from '/parts.js';
import { store } from '/store.js';
import { toast } from '/toast.js';
import { Table } from '/widgets/table.js';

export function eventsPage(main, signal) {
  let text = '';
  let older = [];
  const table = new Table({
    label: 'events', height: 32, empty: 'Nothing has happened.', open: (row) => { if (row.job !== undefined) location.hash = `#/job/${row.job}`; },
    columns: [
      { key: 'time', title: 'when', width: '160px', value: (row) => row.id, render: (row) => moment(row.time), kind: 'quiet' },
      { key: 'job', title: 'job', width: '84px', value: (row) => row.job ?? -1, render: (row) => (row.job === undefined ? '' : jobLink(row.job)) },
      { key: 'what', title: 'what', width: '150px', value: (row) => row.what, kind: 'quiet', wide: true },
      { key: 'text', title: 'in words', width: 'minmax(0, 1fr)', value: (row) => row.text, tip: (row) => row.text },
      { key: 'id', title: 'number', width: '80px', kind: 'n', value: (row) => row.id, wide: true }],
  });
  const rows = () => [...store.events, ...older].map((event) => ({ id: event.sequence, time: event.time, job: jobOf(event), what: event.what.replaceAll('_', ' '), text: words(event) }));
  const update = () => table.set(rows().filter((row) => !text || row.text.toLowerCase().includes(text) || row.what.includes(text) || String(row.job) === text));
  const more = async () => {
    const last = (older.at(-1) ?? store.events.at(-1))?.sequence;
    if (last === undefined) return;
    try {
      const found = await get(`/api/events?before=${last}`);
      if (signal.aborted) return;
      if (found.length === 0) toast('that is all that the journal has');
      older = [...older, ...found];
      update();
    } catch (error) { toast(error.message, true); }
  };
  main.className = 'tall';
  replace(main, h('div', { class: 'tools' }, search('words or a job’s number', settled((value) => { text = value; update(); }, 60)), h('button', { type: 'button', on: { click: more } }, 'Earlier ones')), h('section', { class: 'card flush' }, table.node));
  store.watch(perFrame(update), signal);
  signal.addEventListener('abort', () => table.close());
  update();
}
