// What a job says, as it says it.

import { Screen } from '/ansi.js';
import { h, replace } from '/dom.js';
import { read } from '/head.js';

/** Lines that are kept in the page; older ones can be read with `wharf logs`. */
const KEPT = 5000;

/** A line as a terminal shows it: text in spans, never markup. */
const shown = (spans) => h('div', {}, spans.map(([text, style]) => (style ? h('span', { class: style }, text) : text)), spans.length ? null : '\u200b');

export function logPane(id, ranks, signal) {
  const screen = h('pre', { class: 'log', tabindex: 0, role: 'log', 'aria-label': 'output' });
  const state = h('span', { class: 'note' });
  const follow = h('input', { type: 'checkbox', checked: true });
  follow.checked = true;
  const rank = h('select', { 'aria-label': 'rank', on: { change: () => begin() } }, Array.from({ length: Math.max(1, ranks) }, (_, index) => h('option', { value: index }, `rank ${index}`)));
  let ended = new AbortController();
  let terminal = new Screen();
  let isDue = false;
  // Lines that may still change.
  let open = [];

  const show = () => {
    isDue = false;
    open.forEach((line) => line.remove());
    screen.append(...terminal.take().slice(-KEPT).map(shown));
    open = terminal.open().map(shown);
    screen.append(...open);
    while (screen.childNodes.length > KEPT) screen.firstChild.remove();
    if (follow.checked) screen.scrollTop = screen.scrollHeight;
  };

  async function begin() {
    ended.abort();
    ended = new AbortController();
    const mine = ended;
    signal.addEventListener('abort', () => mine.abort());
    replace(screen);
    [terminal, open] = [new Screen(), []];
    state.textContent = 'follows';
    try {
      for await (const text of read(`/api/jobs/${id}/logs?rank=${Number(rank.value)}&follow=1`, mine.signal)) {
        if (mine !== ended) return;
        terminal.write(text);
        if (!isDue) { isDue = true; requestAnimationFrame(show); }
      }
      state.textContent = screen.textContent || isDue ? 'complete' : 'no output, or it is no longer available';
    } catch (error) {
      if (!mine.signal.aborted) state.textContent = error.message;
    }
  }

  screen.addEventListener('scroll', () => {
    const isAtEnd = screen.scrollHeight - screen.scrollTop - screen.clientHeight < 24;
    if (!isAtEnd && document.activeElement === screen) follow.checked = false;
  });
  const node = h('section', { class: 'card' }, h('header', {}, h('h2', {}, 'Output'), state, ranks > 1 ? rank : null, h('label', { class: 'note' }, follow, ' to the end')), screen);
  begin();
  return { node, begin };
}
