// What a terminal would show of a text: carriage returns, backspaces and colours. The result is lines of text with classes, never markup.

/** Characters in a line; a longer one is broken. */
const LINE_MAX = 4000;

const STYLES = { 1: 'b', 2: 'dim', 3: 'i', 4: 'u' };

/** Neighbouring letters of one style as one span. */
function spans(cells) {
  const found = [];
  for (const [letter, style] of cells) {
    const before = found[found.length - 1];
    if (before && before[1] === style) before[0] += letter; else found.push([letter, style]);
  }
  return found;
}

/** The class of a colour of the palette of 256, as one of the 16 basic ones. */
function palette(index) {
  if (index < 16) return index;
  if (index >= 232) return index < 244 ? 8 : 7;
  const [red, green, blue] = [Math.floor((index - 16) / 36), Math.floor((index - 16) / 6) % 6, (index - 16) % 6];
  const most = Math.max(red, green, blue);
  if (most === 0) return 0;
  return (most > 3 ? 8 : 0) + (red * 2 > most ? 1 : 0) + (green * 2 > most ? 2 : 0) + (blue * 2 > most ? 4 : 0);
}

/** Lines above the last one that a program may go back to. */
const BACK_MAX = 24;

/** Turns a stream of text into lines, each as spans: [[text, class], ...]. */
export class Screen {
  constructor() {
    /** Lines that do not change any more and were not taken yet. */
    this.done = [];
    this.rows = [[]];
    this.row = 0;
    this.column = 0;
    this.style = '';
    this.state = { on: new Set(), ink: null };
    this.pending = '';
  }

  /** Lines that do not change any more, since the last call. */
  take() {
    const { done } = this;
    this.done = [];
    return done;
  }

  /** Lines that may still change. */
  open() { return this.rows.map(spans); }

  get cells() { return this.rows[this.row]; }

  write(text) {
    const all = this.pending + text;
    this.pending = '';
    let at = 0;
    while (at < all.length) {
      const letter = all[at];
      if (letter === '\u001b') {
        const end = this.escape(all, at);
        if (end < 0) { this.pending = all.slice(at, at + 64); return; }
        at = end;
        continue;
      }
      at += 1;
      if (letter === '\n') this.endLine();
      else if (letter === '\r') this.column = 0;
      else if (letter === '\b') this.column = Math.max(0, this.column - 1);
      else if (letter === '\t') { const to = Math.min(LINE_MAX, (Math.floor(this.column / 8) + 1) * 8); while (this.column < to) this.put(' '); }
      else if (letter >= ' ' && letter !== '\u007f') {
        const code = all.codePointAt(at - 1);
        this.put(String.fromCodePoint(code));
        if (code > 0xffff) at += 1;
      }
    }
  }

  put(letter) {
    if (this.column >= LINE_MAX) this.endLine();
    while (this.cells.length < this.column) this.cells.push([' ', '']);
    this.cells[this.column] = [letter, this.style];
    this.column += 1;
  }

  endLine() {
    this.row += 1;
    this.column = 0;
    if (this.row === this.rows.length) this.rows.push([]);
    if (this.rows.length > BACK_MAX) { this.done.push(spans(this.rows.shift())); this.row -= 1; }
  }

  /** Takes a control sequence; returns where it ends, or -1 where the rest has not come yet. */
  escape(all, at) {
    const kind = all[at + 1];
    if (kind === undefined) return -1;
    if (kind === ']') {
      // Titles and links of terminals: skipped up to their end.
      for (let end = at + 2; end < all.length && end < at + 2048; end += 1) {
        if (all[end] === '\u0007') return end + 1;
        if (all[end] === '\u001b' && all[end + 1] === '\\') return end + 2;
      }
      return all.length - at > 64 ? at + 2 : -1;
    }
    if (kind !== '[') return at + 2;
    let end = at + 2;
    while (end < all.length && all[end] >= ' ' && all[end] <= '?') end += 1;
    if (end >= all.length) return end - at > 60 ? end : -1;
    const numbers = all.slice(at + 2, end).split(';').map((part) => Number.parseInt(part, 10) || 0);
    const [first] = numbers;
    if (all[end] === 'm') this.colour(numbers);
    else if (all[end] === 'K') this.erase(first);
    else if (all[end] === 'G') this.column = Math.min(LINE_MAX, Math.max(0, first - 1));
    else if (all[end] === 'C') this.column = Math.min(LINE_MAX, this.column + Math.max(1, first));
    else if (all[end] === 'D') this.column = Math.max(0, this.column - Math.max(1, first));
    else if (all[end] === 'A') this.row = Math.max(0, this.row - Math.max(1, first));
    else if (all[end] === 'B') this.row = Math.min(this.rows.length - 1, this.row + Math.max(1, first));
    return end + 1;
  }

  erase(how) {
    const { cells, column } = this;
    if (how === 0) cells.length = Math.min(cells.length, column);
    else if (how === 2) cells.length = 0;
    else for (let at = 0; at < Math.min(column, cells.length); at += 1) cells[at] = [' ', ''];
  }

  colour(numbers) {
    const { state } = this;
    for (let index = 0; index < numbers.length; index += 1) {
      const code = numbers[index];
      if (code === 0) { state.on.clear(); state.ink = null; }
      else if (STYLES[code]) state.on.add(STYLES[code]);
      else if (code === 22) { state.on.delete('b'); state.on.delete('dim'); }
      else if (code === 23) state.on.delete('i');
      else if (code === 24) state.on.delete('u');
      else if (code >= 30 && code <= 37) state.ink = code - 30;
      else if (code >= 90 && code <= 97) state.ink = code - 82;
      else if (code === 39) state.ink = null;
      else if (code === 38 || code === 48) {
        const isInk = code === 38;
        if (numbers[index + 1] === 5) { if (isInk) state.ink = palette(numbers[index + 2] ?? 0); index += 2; }
        else if (numbers[index + 1] === 2) {
          const [red, green, blue] = [2, 3, 4].map((offset) => Math.round(((numbers[index + offset] ?? 0) / 255) * 5));
          if (isInk) state.ink = palette(16 + 36 * red + 6 * green + blue);
          index += 4;
        }
      }
    }
    this.style = [...state.on].map((one) => `t-${one}`).concat(state.ink === null ? [] : [`t-${state.ink}`]).join(' ');
  }
}
