// Who held which devices when, at any scale: devices are rows, time goes to the right. Zoomed and moved with the mouse, fingers
// and the keyboard. Rectangles that are thinner than a pixel are drawn as thin as they are, so that from afar darker is busier;
// what is under the pointer, or walked to, is told in words.

import { h, perFrame } from '/dom.js';
import { duration, hue } from '/format.js';
import { timeTicks } from '/widgets/chart.js';

const TICKS = 1048576;
const FIELDS = 6;
const [AXIS, TRACK, GAP] = [22, 8, 6];

/** stays: {nodes: [[name, devices]], length_s, users, jobs: [[name, user, devices]], blocks: six numbers each, reduced_from}. */
export class Timeline {
  constructor({ stays, label }) {
    this.stays = stays;
    this.decode();
    this.selected = -1;
    this.pointers = new Map();
    this.canvas = h('canvas', { tabindex: 0, role: 'application', 'aria-label': `${label}. Arrow keys move, plus and minus zoom, brackets zoom rows, n and p walk through jobs, 0 shows everything.`, on: {
      wheel: (event) => this.wheel(event), pointerdown: (event) => this.down(event), pointermove: (event) => this.move(event),
      pointerup: (event) => this.up(event), pointercancel: (event) => this.up(event), pointerleave: () => this.hideTip(),
      dblclick: (event) => this.zoom(0.5, 1, this.at(event)), keydown: (event) => this.key(event), blur: () => this.hideTip(),
    } });
    this.tip = h('div', { class: 'tip', hidden: true });
    this.readout = h('p', { class: 'readout', 'aria-live': 'polite' }, '\u00a0');
    const button = (text, title, call) => h('button', { type: 'button', title, 'aria-label': title, on: { click: call } }, text);
    this.search = h('input', { type: 'search', placeholder: 'find a job', 'aria-label': 'find a job by its name', on: { keydown: (event) => { if (event.key === 'Enter') { event.preventDefault(); this.find(event.target.value); } } } });
    this.tools = h('div', { class: 'tools' }, this.search,
      h('div', { class: 'segments', role: 'group', 'aria-label': 'zoom' }, button('−', 'zoom out', () => this.zoom(2, 1)), button('+', 'zoom in', () => this.zoom(0.5, 1)),
        button('rows −', 'more rows', () => this.zoom(1, 2)), button('rows +', 'fewer, higher rows', () => this.zoom(1, 0.5)), button('all', 'show everything', () => this.all())));
    this.node = h('div', { class: 'timeline' }, this.tools, h('div', { class: 'frame' }, this.canvas), this.tip, this.readout);
    this.redraw = perFrame(() => this.draw());
    this.observer = new ResizeObserver(() => this.redraw());
    this.observer.observe(this.node);
    this.scheme = matchMedia('(prefers-color-scheme: dark)');
    this.scheme.addEventListener('change', this.redraw);
    this.themed = new MutationObserver(this.redraw);
    this.themed.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    this.all();
  }

  close() {
    this.observer.disconnect();
    this.themed.disconnect();
    this.scheme.removeEventListener('change', this.redraw);
    this.node.remove();
  }

  decode() {
    const { blocks, nodes, jobs } = this.stays;
    const count = blocks.length / FIELDS;
    const [from, to, row, rows, job, shared] = Array.from({ length: FIELDS }, () => new Uint32Array(count));
    let start = 0;
    for (let index = 0; index < count; index += 1) {
      const at = index * FIELDS;
      start += blocks[at];
      from[index] = start;
      to[index] = start + blocks[at + 1];
      row[index] = blocks[at + 2];
      rows[index] = blocks[at + 3];
      job[index] = blocks[at + 4];
      shared[index] = blocks[at + 5];
    }
    Object.assign(this, { count, from, to, row, rows, job, shared });
    this.firstRows = [0];
    for (const [, devices] of nodes) this.firstRows.push(this.firstRows.at(-1) + devices);
    this.rowCount = Math.max(1, this.firstRows.at(-1));
    this.first = new Int32Array(jobs.length).fill(-1);
    this.order = [];
    for (let index = 0; index < count; index += 1) if (this.first[job[index]] < 0) { this.first[job[index]] = index; this.order.push(job[index]); }
  }

  seconds(ticks) { return ticks / TICKS * this.stays.length_s; }

  all() {
    Object.assign(this, { t0: 0, t1: TICKS, r0: 0, r1: this.rowCount });
    this.redraw();
  }

  /** Shows `byTime` times as much time and `byRows` times as many rows, around a place. */
  zoom(byTime, byRows, place) {
    const { tick = (this.t0 + this.t1) / 2, row = (this.r0 + this.r1) / 2 } = place ?? {};
    const scale = (low, high, at, by, least, most) => {
      const size = Math.min(Math.max((high - low) * by, Math.min(least, most)), most);
      const start = Math.min(Math.max(at - (at - low) * (size / (high - low)), 0), most - size);
      return [start, start + size];
    };
    [this.t0, this.t1] = scale(this.t0, this.t1, tick, byTime, 64, TICKS);
    [this.r0, this.r1] = scale(this.r0, this.r1, row, byRows, 4, this.rowCount);
    this.redraw();
  }

  pan(ticks, rows) {
    const shift = (low, high, by, most) => { const moved = Math.min(Math.max(by, -low), most - high); return [low + moved, high + moved]; };
    [this.t0, this.t1] = shift(this.t0, this.t1, ticks, TICKS);
    [this.r0, this.r1] = shift(this.r0, this.r1, rows, this.rowCount);
    this.redraw();
  }

  layout() {
    const width = this.node.clientWidth;
    const left = width < 560 ? 52 : 92;
    const height = Math.min(Math.max(this.rowCount * 16, 96), Math.max(260, Math.min(520, innerHeight * 0.6)));
    return { width, left, height, plotWidth: Math.max(10, width - left - 4) };
  }

  x(tick) { return this.plan.left + (tick - this.t0) / (this.t1 - this.t0) * this.plan.plotWidth; }

  y(row) { return (row - this.r0) / (this.r1 - this.r0) * this.plan.height; }

  draw() {
    const plan = this.layout();
    if (!plan.width) return;
    this.plan = plan;
    const full = plan.height + AXIS + TRACK + GAP;
    const scale = devicePixelRatio || 1;
    this.canvas.width = Math.round(plan.width * scale);
    this.canvas.height = Math.round(full * scale);
    Object.assign(this.canvas.style, { width: `${plan.width}px`, height: `${full}px` });
    Object.assign(this.canvas.dataset, { from: this.seconds(this.t0), to: this.seconds(this.t1), rows: this.r1 - this.r0, selected: this.selected });
    const ink = this.canvas.getContext('2d');
    ink.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    this.palette = { idle: colour('--idle'), rule: colour('--rule'), strong: colour('--rule-strong'), quiet: colour('--quiet'), text: colour('--text'), s: colour('--job-s'), l: colour('--job-l'), jobText: colour('--job-text'), accent: colour('--accent'), raised: colour('--raised') };
    ink.font = '11px system-ui, "DejaVu Sans", sans-serif';
    this.drawNodes(ink);
    ink.save();
    ink.beginPath();
    ink.rect(plan.left, 0, plan.plotWidth, plan.height);
    ink.clip();
    this.drawBlocks(ink);
    ink.restore();
    this.drawAxis(ink);
  }

  drawNodes(ink) {
    const { left, plotWidth, height } = this.plan;
    ink.fillStyle = this.palette.raised;
    ink.fillRect(left, 0, plotWidth, height);
    ink.textAlign = 'right';
    ink.textBaseline = 'middle';
    ink.fillStyle = this.palette.quiet;
    ink.strokeStyle = this.palette.rule;
    ink.lineWidth = 1;
    let [lastLine, lastText] = [-Infinity, -Infinity];
    this.stays.nodes.forEach(([name], node) => {
      const [top, bottom] = [this.y(this.firstRows[node]), this.y(this.firstRows[node + 1])];
      if (bottom < 0 || top > height || bottom <= top) return;
      if (top - lastLine >= 4 && top >= 0) {
        ink.beginPath();
        ink.moveTo(left, Math.round(top) + 0.5);
        ink.lineTo(left + plotWidth, Math.round(top) + 0.5);
        ink.stroke();
        lastLine = top;
      }
      const middle = Math.min(Math.max((Math.max(top, 0) + Math.min(bottom, height)) / 2, 7), height - 7);
      if (middle - lastText >= 13) {
        const longest = Math.max(3, Math.floor((left - 10) / 6.2));
        ink.fillText(name.length > longest ? `${name.slice(0, longest - 1)}…` : name, left - 6, middle);
        lastText = middle;
      }
    });
  }

  drawBlocks(ink) {
    const { plotWidth, left, height } = this.plan;
    const { s, l } = this.palette;
    ink.textAlign = 'left';
    for (let index = 0; index < this.count; index += 1) {
      if (this.to[index] < this.t0 || this.from[index] > this.t1 || this.row[index] + this.rows[index] < this.r0 || this.row[index] > this.r1) continue;
      const [x, right] = [this.x(this.from[index]), this.x(this.to[index])];
      const { y, tall } = this.extent(index);
      const isDimmed = this.selected >= 0 && this.job[index] !== this.selected;
      ink.globalAlpha = isDimmed ? 0.2 : 1;
      const tone = hue(this.job[index]);
      ink.fillStyle = `hsl(${tone} ${s} ${l})`;
      const [wide, inset] = [right - x, right - x > 3 && tall > 5 ? 0.5 : 0];
      ink.fillRect(x + inset, y + inset, wide - 2 * inset, tall - 2 * inset);
      if (wide >= 22 && tall >= 10) {
        const [from, until] = [Math.max(x, left), Math.min(right, left + plotWidth)];
        const letters = Math.floor((until - from - 6) / 6);
        const name = this.stays.jobs[this.job[index]][0];
        if (letters >= Math.min(name.length, 3)) {
          ink.fillStyle = tone > 40 && tone < 195 ? '#08130c' : this.palette.jobText;
          ink.fillText(name.length > letters ? `${name.slice(0, Math.max(1, letters - 1))}…` : name, from + 4, Math.min(Math.max(y, 0) + Math.min(tall, height) / 2, height - 5));
        }
      }
      if (this.selected >= 0 && !isDimmed) {
        ink.strokeStyle = this.palette.text;
        ink.lineWidth = 1.5;
        ink.strokeRect(x, y + 0.75, Math.max(wide, 1), Math.max(tall - 1.5, 1));
      }
    }
    ink.globalAlpha = 1;
  }

  /** Top and height of a rectangle: jobs that share a device split its row. */
  extent(index) {
    const [top, bottom] = [this.y(this.row[index]), this.y(this.row[index] + this.rows[index])];
    const lanes = this.shared[index] >> 8;
    if (lanes === 0) return { y: top, tall: bottom - top };
    const tall = (bottom - top) / lanes;
    return { y: top + (this.shared[index] & 255) * tall, tall };
  }

  drawAxis(ink) {
    const { left, plotWidth, height } = this.plan;
    ink.fillStyle = this.palette.quiet;
    ink.strokeStyle = this.palette.strong;
    ink.textBaseline = 'alphabetic';
    ink.beginPath();
    ink.moveTo(left, height + 0.5);
    ink.lineTo(left + plotWidth, height + 0.5);
    ink.stroke();
    const [from, to] = [this.seconds(this.t0), this.seconds(this.t1)];
    const step = timeTicks(to - from, Math.max(2, Math.floor(plotWidth / 110)))[1] ?? to - from;
    for (let time = Math.ceil(from / step - 1e-9) * step; time <= to + step * 1e-6; time += step) {
      const x = this.x(time / this.stays.length_s * TICKS);
      ink.textAlign = x < left + 20 ? 'left' : x > left + plotWidth - 30 ? 'right' : 'center';
      ink.fillText(duration(time), x, height + 15);
    }
    // Where in the whole this is.
    const top = height + AXIS + GAP / 2;
    ink.fillStyle = this.palette.idle;
    ink.fillRect(left, top, plotWidth, TRACK - 2);
    ink.fillStyle = this.palette.accent;
    ink.fillRect(left + this.t0 / TICKS * plotWidth, top, Math.max(3, (this.t1 - this.t0) / TICKS * plotWidth), TRACK - 2);
  }

  at(event) {
    const around = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - around.left, event.clientY - around.top];
    if (!this.plan) return {};
    return { tick: this.t0 + (x - this.plan.left) / this.plan.plotWidth * (this.t1 - this.t0), row: this.r0 + y / this.plan.height * (this.r1 - this.r0), y };
  }

  /** The rectangle at a place; of several the shortest. */
  under({ tick, row, y }) {
    let best = -1;
    const near = (this.t1 - this.t0) / this.plan.plotWidth;
    for (let index = 0; index < this.count; index += 1) {
      if (tick < this.from[index] - near || tick > this.to[index] + near || row < this.row[index] || row >= this.row[index] + this.rows[index]) continue;
      const extent = this.extent(index);
      if (y < extent.y || y > extent.y + extent.tall) continue;
      if (best < 0 || this.to[index] - this.from[index] < this.to[best] - this.from[best]) best = index;
    }
    return best;
  }

  words(index) {
    const [name, user, devices] = this.stays.jobs[this.job[index]];
    const node = this.firstRows.findLastIndex((first) => first <= this.row[index]);
    const [from, to] = [this.seconds(this.from[index]), this.seconds(this.to[index])];
    const who = this.stays.users[user];
    return [name, who ? `of ${who}` : null, devices ? `asked for ${devices} device${devices === 1 ? '' : 's'}` : null,
      `${this.rows[index]} on ${this.stays.nodes[node]?.[0] ?? '?'}${this.shared[index] ? ', shared' : ''}`, `${duration(from)} to ${duration(to)} (${duration(to - from)})`].filter(Boolean);
  }

  select(job) {
    this.selected = job;
    const index = job < 0 ? -1 : this.first[job];
    this.readout.textContent = index < 0 ? '\u00a0' : this.words(index).join(' · ');
    if (index >= 0) this.reveal(index);
    this.redraw();
  }

  reveal(index) {
    if (this.from[index] < this.t0 || this.from[index] > this.t1) this.pan(this.from[index] - (this.t0 + this.t1) / 2, 0);
    if (this.row[index] < this.r0 || this.row[index] >= this.r1) this.pan(0, this.row[index] - (this.r0 + this.r1) / 2);
  }

  walk(by) {
    if (this.order.length === 0) return;
    const now = this.order.indexOf(this.selected);
    this.select(this.order[Math.min(Math.max(now < 0 ? (by > 0 ? 0 : this.order.length - 1) : now + by, 0), this.order.length - 1)]);
  }

  /** The next job with such a name; its whole stay comes into sight. */
  find(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return this.select(-1);
    const start = this.order.indexOf(this.selected) + 1;
    for (let step = 0; step < this.order.length; step += 1) {
      const job = this.order[(start + step) % this.order.length];
      if (!this.stays.jobs[job][0].toLowerCase().includes(wanted)) continue;
      const index = this.first[job];
      const length = Math.max((this.to[index] - this.from[index]) * 4, 256);
      if (length < this.t1 - this.t0) this.zoom(length / (this.t1 - this.t0), 1, { tick: this.from[index], row: this.row[index] });
      return this.select(job);
    }
    this.select(-1);
    this.readout.textContent = `no job is called like “${text.trim()}”`;
    return undefined;
  }

  wheel(event) {
    // A page is scrolled as always, unless the widget is active.
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.canvas) return;
    event.preventDefault();
    if (event.shiftKey) this.pan((event.deltaY || event.deltaX) / 600 * (this.t1 - this.t0), 0);
    else this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), event.altKey ? Math.exp(event.deltaY / 300) : 1, this.at(event));
  }

  down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
    this.dragged = 0;
    this.hideTip();
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return this.point(event);
    const now = [event.clientX, event.clientY];
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.pointers.set(event.pointerId, now);
    this.dragged += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    if (other) {
      const far = (one) => Math.max(12, Math.hypot(one[0] - other[0], one[1] - other[1]));
      this.zoom(far(before) / far(now), 1, this.at({ clientX: (now[0] + other[0]) / 2, clientY: (now[1] + other[1]) / 2 }));
    } else {
      this.pan((before[0] - now[0]) / this.plan.plotWidth * (this.t1 - this.t0), (before[1] - now[1]) / this.plan.height * (this.r1 - this.r0));
    }
    return undefined;
  }

  up(event) {
    if (!this.pointers.delete(event.pointerId) || event.type === 'pointercancel' || this.dragged > 4) return;
    const index = this.under(this.at(event));
    this.select(index < 0 || this.job[index] === this.selected ? -1 : this.job[index]);
    if (index >= 0) this.readout.textContent = this.words(index).join(' · ');
  }

  point(event) {
    const index = this.plan ? this.under(this.at(event)) : -1;
    if (index < 0) return this.hideTip();
    this.tip.textContent = this.words(index).join('\n');
    this.tip.hidden = false;
    this.tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - 330))}px`;
    this.tip.style.top = `${event.clientY + 16}px`;
    return undefined;
  }

  hideTip() { this.tip.hidden = true; }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [time, rows] = [(this.t1 - this.t0) / 8, Math.max(1, (this.r1 - this.r0) / 8)];
    const acts = {
      ArrowLeft: () => this.pan(-time, 0), ArrowRight: () => this.pan(time, 0), ArrowUp: () => this.pan(0, -rows), ArrowDown: () => this.pan(0, rows),
      '+': () => this.zoom(0.5, 1), '=': () => this.zoom(0.5, 1), '-': () => this.zoom(2, 1), ']': () => this.zoom(1, 0.5), '[': () => this.zoom(1, 2),
      0: () => this.all(), Home: () => this.pan(-TICKS, 0), End: () => this.pan(TICKS, 0), n: () => this.walk(1), p: () => this.walk(-1), Escape: () => this.select(-1),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }
}
