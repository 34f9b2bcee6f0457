// What a job says, as it says it.

import { h, replace } from '/dom.js';
import { read } from '/head.js';

/** Most of a log that is kept in the page; what is older can be had with `wharf logs`. */
const KEPT = 400_000;

export function logPane(id, ranks, signal) {
  const screen = h('pre', { class: 'log', tabindex: 0, role: 'log', 'aria-label': 'output' });
  const state = h('span', { class: 'note' });
  const follow = h('input', { type: 'checkbox', checked: true });
  follow.checked = true;
  const rank = h('select', { 'aria-label': 'rank', on: { change: () => begin() } }, Array.from({ length: Math.max(1, ranks) }, (_, index) => h('option', { value: index }, `rank ${index}`)));
  let ended = new AbortController();
  let waiting = '';
  let isDue = false;

  const show = () => {
    isDue = false;
    screen.append(waiting);
    waiting = '';
    let size = screen.textContent.length;
    while (size > KEPT && screen.childNodes.length > 1) { size -= screen.firstChild.length; screen.firstChild.remove(); }
    if (follow.checked) screen.scrollTop = screen.scrollHeight;
  };

  async function begin() {
    ended.abort();
    ended = new AbortController();
    const mine = ended;
    signal.addEventListener('abort', () => mine.abort());
    replace(screen);
    waiting = '';
    state.textContent = 'follows';
    try {
      for await (const text of read(`/api/jobs/${id}/logs?rank=${Number(rank.value)}&follow=1`, mine.signal)) {
        if (mine !== ended) return;
        waiting += text;
        if (!isDue) { isDue = true; requestAnimationFrame(show); }
      }
      state.textContent = screen.textContent || waiting ? 'complete' : 'nothing was said, or it cannot be had any more';
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
