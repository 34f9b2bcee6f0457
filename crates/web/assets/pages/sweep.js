// A sweep: all elements of an array with their parameters, results and curves.

import { replace, settled } from '/dom.js';
import { jobName } from '/format.js';
import { get } from '/head.js';
import { curvesOf } from '/pages/curves.js';
import { store } from '/store.js';
import { toast } from '/toast.js';
import { sweepView } from '/widgets/sweep.js';

export function sweepPage(main, first, signal) {
  const view = sweepView();
  let parameters = { names: [], rows: [] };
  let curves = [];

  const elements = () => [...store.jobs.values()].filter((job) => job.array?.[0] === first).sort((one, other) => one.array[1] - other.array[1]);
  const draw = () => {
    const jobs = elements();
    const values = (job) => parameters.names.map((_, index) => parameters.rows[job.array[1]]?.[index] ?? '');
    const trials = jobs.map((job) => ({ job: job.id, label: jobName(job), href: `#/job/${job.id}`, values: values(job), metrics: job.metrics, done: job.done, phase: job.phase }));
    view.set({ title: jobs[0]?.name || `array ${first}`, names: parameters.names, trials, curves });
  };
  const load = async () => {
    try {
      const [told, found] = await Promise.all([get(`/api/jobs/${first}`), curvesOf(elements().map((job) => job.id))]);
      if (signal.aborted) return;
      parameters = told.spec?.parameters ?? parameters;
      curves = found;
      draw();
    } catch (error) {
      if (!signal.aborted) toast(error.message, true);
    }
  };
  const soon = settled(load, 1000);
  store.watch((news) => { if (news.ids === null || [...news.ids].some((id) => store.job(id)?.array?.[0] === first)) { draw(); soon(); } }, signal);
  replace(main, view.node);
  draw();
  load();
}
