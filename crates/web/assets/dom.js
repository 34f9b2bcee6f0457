// Elements from plain values. All values are escaped: user input never becomes markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null) continue;
    // States are told as words, also where they are not so.
    if (name.startsWith('aria-')) { node.setAttribute(name, String(value)); continue; }
    if (value === false) continue;
    if (name === 'on') for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (name === 'style') Object.assign(node.style, value);
    else if (name === 'value') node.value = value;
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** An element: `h('p', {class: 'note'}, 'text', other)`. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An element of a drawing. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Puts other children instead of those that a node has. */
export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

/** Calls at most once per frame, however often it is asked to. */
export function perFrame(call) {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => { isDue = false; call(); });
  };
}

/** Calls after a time without requests. */
export function settled(call, ms) {
  let timer;
  return (...all) => { clearTimeout(timer); timer = setTimeout(() => call(...all), ms); };
}
