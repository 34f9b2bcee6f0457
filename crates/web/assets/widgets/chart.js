// Marks of axes.

/** Round numbers between two others, about so many. */
export function ticks(low, high, about) {
  const span = high - low || Math.abs(high) || 1;
  const rough = span / about;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];

/** About `count` round times from zero to a number of seconds. */
export function timeTicks(span, about) {
  const step = STEPS_S.find((size) => size >= span / about) ?? 604800 * Math.ceil(span / about / 604800);
  return Array.from({ length: Math.floor(span / step) + 1 }, (_, index) => index * step);
}
