// The way in.

import { h } from '/dom.js';
import { keepSession, post } from '/head.js';

/** Asks for a token until one is good; `done` gets the session. */
export function login(done) {
  const problem = h('p', { class: 'problem', role: 'alert', hidden: true });
  const token = h('input', { type: 'password', name: 'token', autocomplete: 'current-password', required: true, placeholder: 'whf1.…', spellcheck: 'false' });
  const button = h('button', { type: 'submit', class: 'primary' }, 'Log in');
  const submit = async (event) => {
    event.preventDefault();
    problem.hidden = true;
    button.disabled = true;
    try {
      const { session: secret, ...session } = await post('/api/login', { token: token.value });
      keepSession(secret);
      token.value = '';
      done(session);
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      token.select();
    } finally {
      button.disabled = false;
    }
  };
  const form = h('form', { class: 'card', on: { submit } },
    h('div', { class: 'brand' }, h('img', { src: '/logo.svg', alt: '' }), 'Wharf'),
    h('label', {}, 'Token', token),
    problem, button,
    h('p', { class: 'note' }, 'Your token is in the file that your administrator gave you; on the head’s own machine it is the file ', h('code', {}, 'token'), ' in its home.'));
  queueMicrotask(() => token.focus());
  return h('div', { class: 'login' }, form);
}
