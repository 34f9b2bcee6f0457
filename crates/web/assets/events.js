// What happened, in words.

import { duration, ranges } from '/format.js';
import { store } from '/store.js';

const nodeName = (index) => store.nodes[index]?.name ?? `node ${index}`;
const devices = (shares) => (shares ?? []).map(([node, list]) => `${nodeName(node)}[${ranges(list)}]`).join(' ');
const plural = (count, word) => `${count} ${word}${count === 1 ? '' : 's'}`;

const WORDS = {
  node_joined: (d) => `node ${nodeName(d.node)} joined`,
  node_lost: (d) => `node ${nodeName(d.node)} was lost`,
  node_returned: (d) => `node ${nodeName(d.node)} is back`,
  node_cordoned: (d) => `node ${nodeName(d.node)} gets no new jobs`,
  node_opened: (d) => `node ${nodeName(d.node)} may get jobs again`,
  node_closed: (d) => `node ${nodeName(d.node)} is kept for a reservation or for a job that has waited long`,
  node_reopened: (d) => `node ${nodeName(d.node)} is kept no longer`,
  node_noted: (d) => `node ${nodeName(d.node)}: ${d.reason || 'no reason any more'}`,
  node_left: (d) => `node ${nodeName(d.node)} ${d.is_over ? 'has left' : 'is about to leave'}`,
  node_came: (d) => `node ${nodeName(d.node)} came`,
  device_lost: (d) => `device ${d.device} of ${nodeName(d.node)} broke`,
  device_returned: (d) => `device ${d.device} of ${nodeName(d.node)} is well again`,
  job_submitted: (d) => `${d.user ?? 'an unknown user'} submitted ${d.name || 'it'}: ${plural(d.devices, 'device')}`,
  array_submitted: (d) => `${d.user ?? 'an unknown user'} submitted the array ${d.name || ''}`,
  job_placed: (d) => `was given ${devices(d.shares)}`,
  job_launched: () => 'runs',
  job_rated: (d) => `goes at another speed: ${(d.iteration_s * 1000).toPrecision(3)} ms an iteration`,
  job_saved: (d) => `saved its work at iteration ${Math.round(d.done)}`,
  job_gave_way: (d) => (d.to === null || d.to === undefined ? 'makes room for others' : `makes room for job ${d.to}`),
  job_stopping: (d) => `is stopping: ${d.why.replaceAll('_', ' ')}`,
  job_replaced: (d) => `its devices go to job ${d.by}`,
  job_stopped: (d) => `stopped${d.done > 0 ? ` with ${Math.round(d.done)} iterations saved` : ''}`,
  job_held: () => 'is held',
  job_released: () => 'may start',
  job_reprioritised: (d) => `has priority ${d.priority}`,
  job_ended: (d) => (typeof d.end === 'object' ? `failed with exit code ${d.end.failed?.code}` : d.end.replaceAll('_', ' ')),
  job_changed: (d) => `${d.by} requested ${d.change}`,
  array_changed: (d) => `${d.by} requested ${d.change} of the array`,
  hold_wanted: () => 'is held on request',
  hold_lifted: () => 'is no longer held on request',
  job_retried: () => 'is run again',
  job_noted: (d) => d.reason,
  job_caused: (d) => `its run ended: ${d.cause}${d.node === undefined ? '' : ` on ${nodeName(d.node)}`}${d.code === undefined ? '' : `, exit code ${d.code}`}`,
  job_signalled: (d) => `signal ${d.signal}`,
  job_delayed: () => 'waits before it is run again',
  job_watched: (d) => [d.iterations > 0 ? `its trainer reported ${Math.round(d.iterations)}${d.total > 0 ? ` of ${Math.round(d.total)}` : ''} iterations` : '', d.watched_s > 0 ? `its devices were idle for ${duration(d.idle_s)} of ${duration(d.watched_s)}` : ''].filter(Boolean).join('; '),
  job_measured: (d) => Object.entries(d.metrics).map(([name, value]) => `${name} ${value.toPrecision(4)}`).join(', '),
  job_planned: (d) => (d.plan ? `plan: ${d.plan[0]} stages × ${d.plan[1]} data × ${d.plan[2]} tensor` : 'may divide its work as it likes'),
  job_amended: () => 'was changed',
  policy_set: (d) => `${d.by} chose the policy ${d.choice?.name}`,
  limits_set: (d) => `${d.limits?.by} applied limits`,
};

/** An event in words. One of a newer head is told by its name. */
export function words(event) {
  try {
    return WORDS[event.what]?.(event.data) ?? event.what.replaceAll('_', ' ');
  } catch {
    return event.what.replaceAll('_', ' ');
  }
}

export const jobOf = (event) => event.data?.job;
