// A report in the browser. All that can be read is in the page already; this adds what moves.

import { h, replace } from '/dom.js';
import { number } from '/format.js';
import { nextTheme, restoreTheme } from '/theme.js';
import { Timeline } from '/widgets/timeline.js';

function themes() {
  restoreTheme();
  const button = h('button', { type: 'button', class: 'icon', title: 'Light or dark', 'aria-label': 'Light or dark', on: { click: () => nextTheme() } }, '◐');
  document.querySelector('.top .side').append(button);
}

/** Why not everything is shown, where it is not. */
function extent(stays) {
  const count = number(stays.blocks.length / 6);
  if (!stays.reduced_from) return `${count} rectangles, one for each stay of a job on neighbouring devices.`;
  return `Reduced: ${number(stays.reduced_from)} rectangles are too many here. Each of these ${count} has the job that held most of it; what was idle for more than half is blank.`;
}

function timelines() {
  const data = JSON.parse(document.getElementById('stays').textContent);
  const place = document.getElementById('timeline');
  if (!place || data.length === 0) return;
  let shown = null;
  const holder = h('div', {});
  const note = h('p', { class: 'note' });
  const show = (index) => {
    shown?.close();
    shown = new Timeline({ stays: data[index].stays, label: `Jobs on devices, ${data[index].name}` });
    replace(holder, shown.node);
    note.textContent = extent(data[index].stays);
  };
  const choice = h('select', { id: 'timeline-run', 'aria-label': 'run', on: { change: (event) => show(Number(event.target.value)) } }, data.map((run, index) => h('option', { value: index }, run.name)));
  replace(place, data.length > 1 ? h('label', { class: 'note' }, 'run ', choice) : null, holder, note);
  show(0);
}

/** Tables are sorted by their heads. */
function sorting(table) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, index) => {
    const shown = row.cells[index].querySelector('data');
    return shown ? Number(shown.value) : row.cells[index].textContent;
  };
  const sort = (index) => {
    const sign = heads[index].getAttribute('aria-sort') === 'ascending' ? -1 : 1;
    heads.forEach((head, other) => head.setAttribute('aria-sort', other !== index ? 'none' : sign > 0 ? 'ascending' : 'descending'));
    const rank = (one) => (typeof one === 'number' ? 0 : 1);
    const rows = [...body.rows].map((row) => [value(row, index), row]);
    rows.sort(([a], [b]) => (rank(a) - rank(b)) || (a < b ? -sign : a > b ? sign : 0));
    body.append(...rows.map(([, row]) => row));
  };
  heads.forEach((head, index) => {
    head.setAttribute('aria-sort', 'none');
    const title = head.textContent;
    replace(head, h('button', { type: 'button', class: 'sort', on: { click: () => sort(index) } }, title));
  });
}

themes();
timelines();
document.querySelectorAll('table.sortable').forEach(sorting);
