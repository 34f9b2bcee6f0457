// A table of any length: only the rows in sight are in the page. Sorted by its heads, walked with the keyboard.

import { h, perFrame, replace } from '/dom.js';

/**
 * columns: [{key, title, width, value(row), render(row), kind: 'n' | 'quiet' | 'strong', title(row), wide}]; `wide` ones are left out on phones.
 * open(row): Enter or a click. seen(rows): the rows in sight have changed.
 */
export class Table {
  constructor({ columns, open, seen, label, height = 38, sort, empty = 'Nothing here.' }) {
    Object.assign(this, { all: columns, open, seen, height, empty });
    this.rows = [];
    this.sorted = sort ?? null;
    this.at = -1;
    this.head = h('div', { class: 'head', role: 'row' });
    this.space = h('div', { class: 'space', role: 'rowgroup' });
    this.body = h('div', { class: 'body', tabindex: 0, role: 'grid', 'aria-label': label, on: {
      scroll: perFrame(() => this.draw()),
      keydown: (event) => this.key(event),
      click: (event) => this.click(event),
    } }, this.space);
    this.node = h('div', { class: 'grid' }, this.head, this.body);
    this.draw = this.draw.bind(this);
    this.redraw = perFrame(this.draw);
    this.observer = new ResizeObserver(() => { this.layout(); this.draw(); });
    this.observer.observe(this.body);
    this.layout();
  }

  close() { this.observer.disconnect(); }

  layout() {
    const isNarrow = matchMedia('(max-width: 760px)').matches;
    this.columns = this.all.filter((column) => !(isNarrow && column.wide));
    this.template = this.columns.map((column) => column.width ?? 'minmax(0, 1fr)').join(' ');
    this.head.style.gridTemplateColumns = this.template;
    replace(this.head, this.columns.map((column) => {
      const [key, falls] = this.sorted ?? [];
      const mark = key === column.key ? (falls ? ' ↓' : ' ↑') : '';
      const order = key === column.key ? (falls ? 'descending' : 'ascending') : 'none';
      return h('button', { type: 'button', class: column.kind === 'n' ? 'n' : '', role: 'columnheader', 'aria-sort': order,
        on: { click: () => this.sortBy(column.key) } }, column.title + mark);
    }));
  }

  sortBy(key) {
    const [old, falls] = this.sorted ?? [];
    this.sorted = old === key ? (falls ? [key, false] : null) : [key, true];
    if (old === key && !falls) this.sorted = [key, true];
    this.layout();
    this.set(this.given);
  }

  set(rows) {
    const current = this.rows[this.at];
    this.given = rows;
    this.rows = rows;
    const column = this.sorted && this.all.find((one) => one.key === this.sorted[0]);
    if (column) {
      const sign = this.sorted[1] ? -1 : 1;
      const keyed = rows.map((row) => [column.value(row), row]);
      keyed.sort(([a, ra], [b, rb]) => (a < b ? -sign : a > b ? sign : ra.id - rb.id));
      this.rows = keyed.map(([, row]) => row);
    }
    this.at = current ? this.rows.findIndex((row) => row.id === current.id) : this.at;
    this.body.setAttribute('aria-rowcount', this.rows.length);
    this.space.style.height = `${Math.max(this.rows.length * this.height, 60)}px`;
    this.redraw();
  }

  draw() {
    if (this.rows.length === 0) {
      replace(this.space, h('p', { class: 'empty' }, this.empty));
      this.seen?.([]);
      return;
    }
    const first = Math.max(0, Math.floor(this.body.scrollTop / this.height) - 4);
    const last = Math.min(this.rows.length, first + Math.ceil(this.body.clientHeight / this.height) + 8);
    const shown = this.rows.slice(first, last);
    replace(this.space, shown.map((row, index) => this.line(row, first + index)));
    this.seen?.(shown);
  }

  line(row, index) {
    const cells = this.columns.map((column) => {
      const shown = column.render ? column.render(row) : column.value(row);
      return h('div', { role: 'gridcell', class: column.kind, title: column.tip?.(row) }, shown);
    });
    return h('div', { class: index === this.at ? 'line now' : 'line', role: 'row', 'aria-rowindex': index + 1, 'data-index': index,
      'aria-selected': index === this.at,
      style: { top: `${index * this.height}px`, height: `${this.height}px`, gridTemplateColumns: this.template } }, cells);
  }

  click(event) {
    const line = event.target.closest('.line');
    if (!line || event.target.closest('a')) return;
    this.go(Number(line.dataset.index));
    this.open?.(this.rows[this.at]);
  }

  go(index) {
    this.at = Math.max(0, Math.min(this.rows.length - 1, index));
    const top = this.at * this.height;
    const { scrollTop, clientHeight } = this.body;
    if (top < scrollTop) this.body.scrollTop = top;
    if (top + this.height > scrollTop + clientHeight) this.body.scrollTop = top + this.height - clientHeight;
    this.draw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.body.clientHeight / this.height) - 1);
    const moves = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in moves) this.go(this.at + moves[event.key]);
    else if (event.key === 'Enter' && this.rows[this.at]) this.open?.(this.rows[this.at]);
    else return;
    event.preventDefault();
  }
}
