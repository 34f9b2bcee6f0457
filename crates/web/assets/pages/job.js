// One job: where it stands, where it ran, what it says, and what can be done about it.

import { h, replace, settled } from '/dom.js';
import { words } from '/events.js';
import { duration, isOver, isQueued, jobName, moment, number, placed } from '/format.js';
import { get, post } from '/head.js';
import { age, badge, bar, card, jobLink } from '/parts.js';
import { curvesPane } from '/pages/curves.js';
import { logPane } from '/pages/logs.js';
import { store } from '/store.js';
import { asked, toast } from '/toast.js';
import { gantt } from '/widgets/gantt.js';

async function change(id, wish, done) {
  try {
    const { refused } = await post('/api/jobs/change', { jobs: [id], ...wish });
    if (refused.length) toast(refused[0].reason, true); else toast(done);
  } catch (error) { toast(error.message, true); }
}

function actions(job, isOwn) {
  if (store.session.read_only) return h('span', { class: 'note' }, 'this dashboard is read-only');
  if (!isOwn) return h('span', { class: 'note' }, `it belongs to ${job.user || 'no user'}`);
  if (isOver(job)) return null;
  const button = (title, call, kind, isOff) => h('button', { type: 'button', class: kind, disabled: isOff, on: { click: call } }, title);
  const isPlaced = job.phase === 'running' || job.phase === 'placed';
  const priority = async () => {
    const field = h('input', { type: 'number', value: job.priority ?? 0, step: 1, required: true, 'aria-label': 'priority' });
    if (await asked(`Priority of job ${jobName(job)}`, 'Jobs with a higher one go first, where the policy heeds it.', 'Set', field)) change(job.id, { change: 'priority', priority: Math.trunc(Number(field.value)) || 0 }, 'its priority is changed');
  };
  return [
    job.phase === 'held' ? button('Release', () => change(job.id, { change: 'release' }, 'it may start')) : button('Hold', () => change(job.id, { change: 'hold' }, 'it is held'), '', job.phase !== 'waiting'),
    button('Requeue', async () => { if (await asked(`Requeue job ${jobName(job)}?`, 'It is stopped, keeps what it has saved, and waits again.', 'Requeue')) change(job.id, { change: 'requeue' }, 'it waits again'); }, '', !isPlaced),
    button('Priority', priority),
    button('Cancel', async () => { if (await asked(`Cancel job ${jobName(job)}?`, `${job.name} is ended for good.`, 'Cancel the job')) change(job.id, { change: 'cancel' }, 'it is cancelled'); }, 'danger'),
  ];
}

function facts(job, spec) {
  const list = [
    ['user', job.user || '–'], ['devices', `${job.devices}${job.type ? ` × ${job.type}` : ''}`], ['where', placed(job) || '–'], ['submitted', moment(job.submit)],
    ['first started', moment(job.start)], [isOver(job) ? 'ended' : 'in this state for', isOver(job) ? moment(job.end) : duration(age(job))],
    ['priority', job.priority ?? 0], ['preemptions', job.preemptions ?? 0], ['restarts', job.restarts ?? 0],
    job.exit ? ['exit code', job.exit] : null, job.cause ? ['last cause', job.cause] : null, job.limit ? ['time limit', duration(job.limit)] : null,
    job.deadline ? ['deadline', moment(job.deadline)] : null, job.pool ? ['pool', job.pool] : null, job.account ? ['account', job.account] : null,
    job.array ? ['array', ['element ', job.array[1], ' of ', h('a', { href: `#/sweep/${job.array[0]}` }, job.array[0])]] : null, spec?.model ? ['model', spec.model] : null,
    spec?.image ? ['image', spec.image] : null, spec ? ['launcher', spec.launcher.replaceAll('_', ' ')] : null,
    spec?.dependencies?.length ? ['waits for', spec.dependencies.map((id) => [jobLink(id), ' '])] : null,
  ].filter(Boolean);
  return h('dl', { class: 'facts' }, list.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}

/** Where it was when: from the history's placements to their ends. A run may be placed before the one before it has stopped. */
function runs(history, now) {
  const rows = new Map();
  const open = [];
  const close = (time, kind) => {
    const run = open.shift();
    if (!run) return;
    const ready = Math.min(run.ready, time);
    for (const [node, devices] of run.shares) {
      const name = store.nodes[node]?.name ?? `node ${node}`;
      if (!rows.has(name)) rows.set(name, []);
      const title = `run ${run.generation} on ${name}, ${devices.length} device${devices.length === 1 ? '' : 's'}`;
      if (ready > run.from) rows.get(name).push({ from: run.from, to: ready, kind: 'starting', title: `${title}, starting` });
      if (time > ready) rows.get(name).push({ from: ready, to: time, kind, title });
    }
  };
  for (const { time, what, data } of history) {
    if (what === 'job_placed') open.push({ from: time, ready: Infinity, shares: data.shares, generation: data.generation });
    if (what === 'job_launched' && open.length) { while (open.length > 1) close(time); open[0].ready = time; }
    if (what === 'job_stopped') close(time);
    if (what === 'job_ended') while (open.length) close(time, data.end && data.end !== 'finished' ? 'lost' : '');
  }
  while (open.length) close(now);
  return [...rows].map(([label, spans]) => ({ label, spans }));
}

function planPicture(plan) {
  const [stages, data, tensor] = plan;
  const cut = (count, most) => [Math.min(count, most), count > most];
  const [shownStages, moreStages] = cut(stages, 8);
  const [shownData, moreData] = cut(data, 6);
  const [shownTensor, moreTensor] = cut(tensor, 8);
  return card('Parallel plan', h('p', { class: 'note' }, `${stages} pipeline stage${stages === 1 ? '' : 's'} × ${data} data-parallel × ${tensor} tensor-parallel = ${stages * data * tensor} devices`),
    h('div', { class: 'planbox' }, Array.from({ length: shownStages }, (_, stage) => h('div', { class: 'stage' }, h('span', { class: 'more' }, `stage ${stage + 1}`),
      Array.from({ length: shownData }, () => h('span', { class: 'copy' }, Array.from({ length: shownTensor }, () => h('i', {})), moreTensor ? h('span', { class: 'more' }, '…') : null)), moreData ? h('span', { class: 'more' }, '…') : null)), moreStages ? h('span', { class: 'more' }, '…') : null));
}

export function jobPage(main, id, signal) {
  const top = h('section', { class: 'card' });
  const below = h('div', { style: { display: 'grid', gap: '16px' } });
  const curves = curvesPane(id, signal);
  const output = h('div', {});
  let detail = null;
  let logs = null;

  // Buttons stay while what they do stays the same: a button replaced between press and release loses the click.
  const tools = h('div', { class: 'tools' });
  let toolsFor = '';
  const drawTools = (job) => {
    const state = JSON.stringify([job.phase, job.priority, job.name, job.user, detail.changeable, store.session.read_only]);
    if (state === toolsFor) return;
    toolsFor = state;
    replace(tools, actions(job, detail.changeable));
  };

  let foreseen = null;
  const foresee = async () => {
    const told = await get(`/api/forecast?jobs=${id}`).catch(() => ({}));
    foreseen = told[id] ?? null;
    if (!signal.aborted && detail) drawTop();
  };
  const drawTop = () => {
    // The list is newer while a job lives, and the answer for this job alone once it has ended: phase and reason belong together.
    const listed = store.job(id);
    const job = isOver(detail.job) || !listed ? detail.job : { ...detail.job, ...listed, reason: listed.reason ?? detail.job.reason };
    const share = job.iterations ? job.done / job.iterations : NaN;
    drawTools(job);
    replace(top, h('div', { class: 'title' }, h('h1', {}, job.name || `job ${id}`), badge(job.phase), h('span', { class: 'note' }, `job ${jobName(job)}`), tools),
      detail.explanation && job.phase !== 'finished' && isOver(job) === isOver(detail.job) ? h('p', { class: 'why' }, detail.explanation, isQueued(job) && foreseen?.start ? h('span', { class: 'note' }, ` · expected to start at ${moment(foreseen.start)}, in ${duration(foreseen.start - store.now())}${foreseen.high ? ` (${duration(foreseen.low - store.now())} to ${duration(foreseen.high - store.now())})` : ''}`) : null) : null,
      (job.remarks ?? []).map((remark) => h('p', { class: 'why remark' }, remark)),
      h('div', { style: { height: '14px' } }), facts(job, detail.spec),
      job.done > 0 ? h('div', { style: { marginTop: '14px' } }, Number.isFinite(share) ? bar(share) : null,
        h('p', { class: 'note' }, `${number(job.done)}${job.iterations ? ` of ${number(job.iterations)}` : ''} iterations`, Object.entries(job.metrics ?? {}).map(([name, value]) => ` · ${name} ${typeof value === 'string' ? value : number(value, 4)}`))) : null);
  };
  const drawBelow = () => {
    const { history, job, spec, steps } = detail;
    const now = store.now();
    const rows = runs(history, job.end || now);
    const command = spec && (spec.script ?? (spec.command.length ? spec.command.map((word) => (/[\s'"]/.test(word) ? JSON.stringify(word) : word)).join(' ') : spec.steps.map((step) => step.command.join(' ')).join('\n')));
    replace(below,
      rows.length ? card('Placements', h('div', { class: 'scroll' }, gantt({ rows, from: job.submit, to: job.end || now, label: 'where the job ran, over time' }))) : null,
      job.plan ? planPicture(job.plan) : null,
      steps.length ? card('Steps', h('div', { class: 'scroll' }, h('table', { class: 'plain' }, h('tbody', {}, steps.map((step) => h('tr', {}, h('td', {}, step.id), h('td', {}, step.name), h('td', {}, step.nodes.join(' ')), h('td', { class: 'n' }, step.end ? duration(step.end - step.start) : 'runs'), h('td', { class: 'n' }, step.exit))))))) : null,
      h('div', { class: 'row' },
        card('History', h('ul', { class: 'list' }, history.toReversed().slice(0, 200).map((event) => h('li', {}, h('span', {}, words(event)), h('span', { class: 'when' }, moment(event.time)))))),
        spec ? card('Command', h('pre', { class: 'code' }, command || '–'), h('p', { class: 'note', style: { marginTop: '8px' } }, spec.workdir ? `in ${spec.workdir}` : ''),
          Object.keys(spec.env).length ? h('details', {}, h('summary', {}, `${Object.keys(spec.env).length} variables`), h('pre', { class: 'code' }, Object.entries(spec.env).map(([name, value]) => `${name}=${value}`).join('\n'))) : null) : null));
  };

  const load = async () => {
    try {
      const told = await get(`/api/jobs/${id}`);
      if (signal.aborted) return;
      const before = detail;
      detail = told;
      drawTop();
      curves.load();
      drawBelow();
      const ranks = told.job.placement?.length ?? 0;
      if (isQueued(told.job)) foresee();
      const isNewRun = before && told.job.run && told.job.run !== before.job.run;
      if (told.own && ranks > 0 && (!logs || isNewRun)) { logs = logPane(id, ranks, signal); replace(output, logs.node); }
    } catch (error) {
      if (!signal.aborted) replace(main, h('p', { class: 'empty' }, error.message));
    }
  };
  const soon = settled(load, 250);
  store.watch((news) => {
    if (news.ids === null || news.events.some((event) => event.data?.job === id)) soon();
    const told = news.progress.find((one) => one.id === id);
    if (told && detail?.job) {
      curves.loadSoon();
      drawTop();
    }
  }, signal);
  const timer = setInterval(() => { if (detail?.job && !isOver(detail.job)) drawBelow(); }, 5000);
  signal.addEventListener('abort', () => clearInterval(timer));
  replace(main, top, curves.node, output, below);
  replace(top, h('p', { class: 'empty' }, 'loading'));
  load();
}
