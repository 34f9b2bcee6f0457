// The stored history of metrics: of one job, or of several in comparison.

import { h, settled } from '/dom.js';
import { jobName } from '/format.js';
import { get } from '/head.js';
import { store } from '/store.js';
import { toast } from '/toast.js';
import { curvesView } from '/widgets/curves.js';

/** Jobs that are asked for at once. */
const JOBS_MAX = 100;

const named = (id) => (store.job(id) ? `${jobName(store.job(id))} ${store.job(id).name}` : `job ${id}`);

/** The metrics of jobs, as the head has them. */
export async function curvesOf(ids) {
  return ids.length ? get(`/api/curves?jobs=${ids.slice(0, JOBS_MAX).join(',')}`) : [];
}

/** The metrics of a job, and of others beside them. */
export function curvesPane(id, signal) {
  let others = [];
  const compare = h('input', { type: 'search', placeholder: 'compare with jobs, as in 3 4', 'aria-label': 'compare with jobs', on: { change: () => {
    others = compare.value.split(/[^0-9]+/).filter(Boolean).map(Number).filter((other) => other !== id);
    load();
  } } });
  const view = curvesView({ label: named, tools: compare });
  async function load() {
    try {
      const found = await curvesOf([id, ...others]);
      if (!signal.aborted) { view.set(found); view.node.hidden = others.length === 0 && found.every((one) => one.curves.length === 0); }
    } catch (error) {
      if (!signal.aborted) toast(error.message, true);
    }
  }
  return { node: view.node, load, loadSoon: settled(load, 1000) };
}
