// Questions to the head.

export class Refusal extends Error {
  constructor(code, text) { super(text); this.code = code; }
}

async function answered(response) {
  if (response.ok) return response;
  let text = response.statusText;
  try { text = (await response.json()).error ?? text; } catch { /* it is no JSON: the status says it all */ }
  throw new Refusal(response.status, text);
}

export async function get(path, signal) {
  return (await answered(await fetch(path, { headers: { accept: 'application/json' }, signal }))).json();
}

/** Changes come with a header that no other site can send. */
export async function post(path, body) {
  const headers = { 'content-type': 'application/json', 'x-wharf-request': '1' };
  return (await answered(await fetch(path, { method: 'POST', headers, body: JSON.stringify(body ?? {}) }))).json();
}

/** A text as it comes, piece by piece, until the signal ends it. */
export async function* read(path, signal) {
  const response = await answered(await fetch(path, { signal }));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
