// All devices of all nodes on one canvas. What a device does is told by shape as well as by colour, and by a line of text for
// the one that is pointed at or walked to with the arrow keys.

import { h, perFrame } from '/dom.js';

const SIZES = [26, 22, 18, 15, 12, 10, 8];
const GAP = 3;
const FRAME = 7;

/**
 * cells: [{node, device, kind: 'free' | 'job' | 'broken' | 'lost' | 'cordoned', hue, share, text, dimmed}], grouped as
 * nodes: [{name, cells}]. describe(cell): a text. open(cell): Enter or a click.
 */
export class DeviceMap {
  constructor({ describe, open, label }) {
    Object.assign(this, { describe, open, nodes: [], at: null });
    this.canvas = h('canvas', { tabindex: 0, role: 'application', 'aria-label': label, on: {
      mousemove: (event) => this.point(event), mouseleave: () => this.hideTip(), click: (event) => this.click(event),
      keydown: (event) => this.key(event), focus: () => this.walk(0), blur: () => this.hideTip(),
    } });
    this.readout = h('p', { class: 'readout', 'aria-live': 'polite' });
    this.tip = h('div', { class: 'tip', hidden: true });
    this.holder = h('div', { class: 'map' }, this.canvas);
    this.node = h('div', {}, this.holder, this.tip);
    this.redraw = perFrame(() => this.draw());
    this.observer = new ResizeObserver(() => this.redraw());
    this.observer.observe(this.holder);
    this.scheme = matchMedia('(prefers-color-scheme: dark)');
    this.scheme.addEventListener('change', this.redraw);
  }

  close() {
    this.observer.disconnect();
    this.scheme.removeEventListener('change', this.redraw);
    this.tip.remove();
  }

  set(nodes) {
    this.nodes = nodes;
    this.redraw();
  }

  /** The largest size at which everything is in sight, or else the smallest. */
  layout(width) {
    const most = Math.max(1, ...this.nodes.map((node) => node.cells.length));
    let plan = null;
    for (const size of SIZES) {
      plan = this.arrange(width, most, size);
      if (plan.height <= Math.max(340, innerHeight * 0.55)) break;
    }
    return plan;
  }

  /** Devices of a node in as many lines as make everything lowest. */
  arrange(width, most, size) {
    const label = size >= 10 || this.nodes.length <= 60 ? 16 : 0;
    const fit = Math.max(1, Math.floor((width - 2 * FRAME) / (size + GAP)));
    let best = null;
    for (let lines = Math.ceil(most / fit); lines <= Math.max(Math.ceil(most / fit), 12); lines += 1) {
      const columnsIn = Math.ceil(most / lines);
      const block = { w: columnsIn * (size + GAP) - GAP + 2 * FRAME, h: lines * (size + GAP) - GAP + 2 * FRAME + label };
      const columns = Math.max(1, Math.floor((width + 8) / (block.w + 8)));
      const height = Math.max(40, Math.ceil(this.nodes.length / columns) * (block.h + 8));
      if (!best || height < best.height) best = { size, label, columnsIn, block, columns, height };
    }
    return best;
  }

  draw() {
    const width = this.holder.clientWidth;
    if (!width) return;
    const plan = this.layout(width);
    this.plan = plan;
    const scale = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(plan.height * scale);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${plan.height}px`;
    const ink = this.canvas.getContext('2d');
    ink.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const palette = { idle: colour('--idle'), rule: colour('--rule'), strong: colour('--rule-strong'), quiet: colour('--quiet'),
      text: colour('--text'), bad: colour('--bad'), warn: colour('--warn'), accent: colour('--accent'), s: colour('--job-s'),
      l: colour('--job-l'), jobText: colour('--job-text'), raised: colour('--raised') };
    this.cells = [];
    this.nodes.forEach((node, index) => this.drawNode(ink, node, index, plan, palette));
    if (this.at !== null && this.cells[this.at] && document.activeElement === this.canvas) {
      const { x, y } = this.cells[this.at];
      ink.strokeStyle = palette.text;
      ink.lineWidth = 2;
      ink.strokeRect(x - 2, y - 2, plan.size + 4, plan.size + 4);
    }
  }

  drawNode(ink, node, index, plan, palette) {
    const left = (index % plan.columns) * (plan.block.w + 8);
    const top = Math.floor(index / plan.columns) * (plan.block.h + 8);
    ink.fillStyle = palette.raised;
    ink.strokeStyle = palette.rule;
    ink.lineWidth = 1;
    box(ink, left + 0.5, top + 0.5, plan.block.w - 1, plan.block.h - 1, 6);
    ink.fill();
    ink.stroke();
    if (plan.label) {
      ink.fillStyle = node.isWell ? palette.quiet : palette.bad;
      ink.font = '600 11px system-ui, "DejaVu Sans", sans-serif';
      ink.textAlign = 'left';
      ink.textBaseline = 'alphabetic';
      ink.fillText(fitted(ink, node.sign + node.name, plan.block.w - 2 * FRAME), left + FRAME, top + FRAME + 9);
    }
    node.cells.forEach((cell, number) => {
      const x = left + FRAME + (number % plan.columnsIn) * (plan.size + GAP);
      const y = top + FRAME + plan.label + Math.floor(number / plan.columnsIn) * (plan.size + GAP);
      this.cells.push({ x, y, cell });
      drawCell(ink, cell, x, y, plan.size, palette);
    });
  }

  under(event) {
    const around = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - around.left, event.clientY - around.top];
    return this.cells?.findIndex((one) => x >= one.x && x <= one.x + this.plan.size && y >= one.y && y <= one.y + this.plan.size) ?? -1;
  }

  point(event) {
    const index = this.under(event);
    if (index < 0) return this.hideTip();
    this.tip.textContent = this.describe(this.cells[index].cell);
    this.tip.hidden = false;
    this.tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 330)}px`;
    this.tip.style.top = `${event.clientY + 16}px`;
    return undefined;
  }

  hideTip() { this.tip.hidden = true; }

  click(event) {
    const index = this.under(event);
    if (index >= 0) { this.at = index; this.say(); this.open?.(this.cells[index].cell); }
  }

  say() { this.readout.textContent = this.cells?.[this.at] ? this.describe(this.cells[this.at].cell).replaceAll('\n', ' · ') : ''; }

  walk(by) {
    if (!this.cells?.length) return;
    this.at = Math.max(0, Math.min(this.cells.length - 1, (this.at ?? 0) + by));
    this.say();
    this.draw();
    const { y } = this.cells[this.at];
    if (y < this.holder.scrollTop || y + this.plan.size > this.holder.scrollTop + this.holder.clientHeight) this.holder.scrollTop = y - 40;
  }

  /** The cell above or below: the nearest in that direction. */
  nearest(down) {
    const from = this.cells[this.at ?? 0];
    let best = this.at ?? 0;
    let least = Infinity;
    this.cells.forEach((one, index) => {
      const rise = (one.y - from.y) * down;
      if (rise <= this.plan.size / 2) return;
      const far = rise + Math.abs(one.x - from.x) * 3;
      if (far < least) [least, best] = [far, index];
    });
    return best - (this.at ?? 0);
  }

  key(event) {
    const moves = { ArrowRight: () => 1, ArrowLeft: () => -1, ArrowDown: () => this.nearest(1), ArrowUp: () => this.nearest(-1), Home: () => -1e9, End: () => 1e9 };
    if (event.key in moves) this.walk(moves[event.key]());
    else if (event.key === 'Enter' && this.cells?.[this.at]) this.open?.(this.cells[this.at].cell);
    else return;
    event.preventDefault();
  }
}

function box(ink, x, y, w, hgt, r) {
  ink.beginPath();
  ink.roundRect(x, y, w, hgt, r);
}

function fitted(ink, text, width) {
  if (ink.measureText(text).width <= width) return text;
  let short = text;
  while (short.length > 1 && ink.measureText(`${short}…`).width > width) short = short.slice(0, -1);
  return `${short}…`;
}

/** One device: a filled square is busy, a hollow one free, a crossed one broken, a dotted one away, a barred one closed. */
export function drawCell(ink, cell, x, y, size, palette) {
  const r = Math.min(4, size / 4);
  ink.globalAlpha = cell.dimmed ? 0.18 : 1;
  if (cell.kind === 'job') {
    ink.fillStyle = cell.fill ?? `hsl(${cell.hue} ${palette.s} ${palette.l})`;
    box(ink, x, y, size, size, r);
    ink.fill();
    if (cell.share !== undefined) {
      // How busy it is: what is not used is lighter, from the top.
      ink.fillStyle = palette.raised;
      ink.globalAlpha *= 0.78;
      const unused = Math.round((size - 2) * (1 - cell.share));
      if (unused > 0) ink.fillRect(x + 1, y + 1, size - 2, unused);
      ink.globalAlpha = cell.dimmed ? 0.18 : 1;
    }
    if (size >= 18 && cell.text) {
      // Light hues have dark figures.
      ink.fillStyle = cell.share !== undefined ? palette.text : cell.hue > 40 && cell.hue < 195 ? '#08130c' : palette.jobText;
      ink.font = `600 ${cell.text.length > 3 ? 8.5 : 10}px system-ui, "DejaVu Sans", sans-serif`;
      ink.textAlign = 'center';
      ink.textBaseline = 'middle';
      if (ink.measureText(cell.text).width <= size - 2) ink.fillText(cell.text, x + size / 2, y + size / 2 + 0.5);
    }
  } else {
    ink.fillStyle = cell.kind === 'free' ? palette.idle : 'transparent';
    ink.strokeStyle = cell.kind === 'free' ? palette.strong : cell.kind === 'cordoned' ? palette.warn : palette.bad;
    ink.lineWidth = cell.kind === 'free' ? 1 : 1.5;
    ink.setLineDash(cell.kind === 'lost' ? [2, 2] : []);
    box(ink, x + 0.75, y + 0.75, size - 1.5, size - 1.5, r);
    ink.fill();
    ink.stroke();
    ink.setLineDash([]);
    ink.beginPath();
    const [a, b] = [size * 0.28, size * 0.72];
    if (cell.kind === 'broken') { ink.moveTo(x + a, y + a); ink.lineTo(x + b, y + b); ink.moveTo(x + b, y + a); ink.lineTo(x + a, y + b); }
    if (cell.kind === 'cordoned') { ink.moveTo(x + a, y + size / 2); ink.lineTo(x + b, y + size / 2); }
    ink.stroke();
  }
  ink.globalAlpha = 1;
}
