// Requests to the head.

const SESSION = 'wharf-session';

export class Refusal extends Error {
  constructor(code, text) { super(text); this.code = code; }
}

/** Keeps the session's secret for this tab and this origin: scheme, host and port. */
export function keepSession(secret) {
  if (secret) sessionStorage.setItem(SESSION, secret); else sessionStorage.removeItem(SESSION);
}

/** Headers with the session's secret, which browsers never send by themselves. */
function headers(more) {
  const secret = sessionStorage.getItem(SESSION);
  return secret ? { ...more, 'x-wharf-session': secret } : { ...more };
}

async function answered(response) {
  if (response.ok) return response;
  let text = response.statusText;
  try { text = (await response.json()).error ?? text; } catch { /* it is no JSON: the status says it all */ }
  throw new Refusal(response.status, text);
}

export async function get(path, signal) {
  return (await answered(await fetch(path, { headers: headers({ accept: 'application/json' }), signal }))).json();
}

export async function post(path, body) {
  const sent = { method: 'POST', headers: headers({ 'content-type': 'application/json' }), body: JSON.stringify(body ?? {}) };
  return (await answered(await fetch(path, sent))).json();
}

/** A text as it comes, piece by piece, until the signal ends it. */
export async function* read(path, signal) {
  const response = await answered(await fetch(path, { headers: headers({}), signal }));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

/** Server-sent events, each as its data. `EventSource` cannot send headers. */
export async function* events(path, signal) {
  let text = '';
  for await (const piece of read(path, signal)) {
    text += piece;
    const whole = text.split('\n\n');
    text = whole.pop();
    for (const event of whole) {
      const data = event.split('\n').filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart());
      if (data.length) yield data.join('\n');
    }
  }
}
