// Numbers, times and states as people read them.

const two = (number) => String(number).padStart(2, '0');

/** Seconds as the two largest units: `3 h 05 m`. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  const whole = Math.max(0, Math.round(seconds));
  const [d, hours, m, sec] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
  if (d > 0) return `${d} d ${hours} h`;
  if (hours > 0) return `${hours} h ${two(m)} m`;
  if (m > 0) return `${m} m ${two(sec)} s`;
  return `${sec} s`;
}

/** A moment in seconds since 1970, by the browser's own clock; with its day where that is not today. */
export function moment(unix) {
  if (!unix) return '–';
  const at = new Date(unix * 1000);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

/** A number with as many digits as say something. */
export function number(value, digits = 3) {
  if (value === undefined || value === null || !Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toExponential(2);
  if (Number.isInteger(value) || size >= 1000) return Math.round(value).toLocaleString('en-US').replaceAll(',', '\u202f');
  return String(Number(value.toPrecision(digits)));
}

export const percent = (share) => (Number.isFinite(share) ? `${Math.round(share * 100)} %` : '–');

/** Every state has a sign and a word, so that colour is never needed. */
export const SIGNS = {
  waiting: '○', held: '‖', placed: '◐', running: '▶', stopping: '◑', finished: '✓', failed: '✕', cancelled: '⊘',
  'timed-out': '◷', up: '✓', cordoned: '‖', draining: '◑', lost: '✕', gone: '–',
};

export const PHASES = ['running', 'waiting', 'held', 'placed', 'stopping', 'finished', 'failed', 'cancelled', 'timed-out'];
export const isOver = (job) => job.phase === 'finished' || job.phase === 'failed' || job.phase === 'cancelled' || job.phase === 'timed-out';
export const isQueued = (job) => job.phase === 'waiting' || job.phase === 'held';

/** A job's colour: neighbours in number are far apart in hue. */
export const hue = (id) => (id * 137.508 + 210) % 360;

export const jobName = (job) => (job.array ? `${job.array[0]}_${job.array[1]}` : String(job.id));

export function placed(job) {
  const shares = job.placement ?? [];
  if (shares.length === 0) return '';
  const shown = shares.slice(0, 3).map(([node, devices]) => `${node}[${ranges(devices)}]`).join(' ');
  return shares.length > 3 ? `${shown} +${shares.length - 3}` : shown;
}

export function ranges(numbers) {
  const runs = [];
  for (const one of numbers) {
    const last = runs[runs.length - 1];
    if (last && last[1] === one - 1) last[1] = one; else runs.push([one, one]);
  }
  return runs.map(([from, to]) => (from === to ? from : `${from}-${to}`)).join(',');
}
