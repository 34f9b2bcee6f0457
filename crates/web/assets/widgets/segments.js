// One of a few choices.

import { h } from '/dom.js';

export function segments(options, chosen, call) {
  const buttons = options.map(([key, title]) => h('button', { type: 'button', 'aria-pressed': key === chosen, on: { click: () => {
    buttons.forEach((button, index) => button.setAttribute('aria-pressed', options[index][0] === key));
    call(key);
  } } }, title));
  return h('div', { class: 'segments', role: 'group' }, buttons);
}
