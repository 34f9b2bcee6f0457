// Short messages, and questions before something is done.

import { h } from '/dom.js';

export const toasts = h('div', { class: 'toasts', role: 'status' });

/** Says something for a while. */
export function toast(text, isBad = false) {
  const note = h('div', { class: isBad ? 'toast bad' : 'toast' }, text);
  toasts.append(note);
  setTimeout(() => note.remove(), isBad ? 9000 : 4000);
}

/** Asks, with fields if there are any; resolves to whether it was meant. */
export function asked(title, text, action, ...fields) {
  return new Promise((resolve) => {
    const dialog = h('dialog', {}, h('form', { method: 'dialog' }, h('h2', {}, title), text ? h('p', { class: 'note' }, text) : null, fields,
      h('div', { class: 'tools' }, h('button', { value: 'no', formnovalidate: true }, 'Back'), h('button', { value: 'yes', class: 'primary' }, action))));
    dialog.addEventListener('close', () => { dialog.remove(); resolve(dialog.returnValue === 'yes'); });
    document.body.append(dialog);
    dialog.showModal();
    if (fields.length === 0) dialog.querySelector('button.primary').focus();
  });
}
