// What is known of the cluster, kept up to date by the head.

import { events, get } from '/head.js';

const EVENTS_MAX = 2000;
const RELOAD_APART_MS = 2000;

class Store extends EventTarget {
  constructor() {
    super();
    this.jobs = new Map();
    this.nodes = [];
    this.events = [];
    this.session = null;
    this.isLive = false;
    this.skew = 0;
    this.touched = null;
  }

  /** The head's clock, in seconds since 1970. */
  now() { return Date.now() / 1000 + this.skew; }

  job(id) { return this.jobs.get(id); }

  begin() {
    this.end();
    this.source = new AbortController();
    this.follow(this.source.signal);
  }

  /** Takes events until the stream breaks or is ended. */
  async follow(signal) {
    try {
      for await (const message of events('/api/stream', signal)) this.take(JSON.parse(message));
    } catch { /* the connection is broken, or the head refuses: both are found out by trying again */ }
    if (signal.aborted) return;
    this.setLive(false);
    this.tryAgain();
  }

  end() {
    this.source?.abort();
    this.source = null;
    clearTimeout(this.timer);
  }

  tryAgain() {
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      try {
        const session = await get('/api/session');
        if (session.user === null) this.tell('login', {}); else this.begin();
      } catch {
        this.tryAgain();
      }
    }, 1500);
  }

  setLive(isLive) {
    if (this.isLive === isLive) return;
    this.isLive = isLive;
    this.tell('live', {});
  }

  take(message) {
    if (message.began) { this.setLive(true); this.load(); return; }
    if (message.reload) { this.loadSoon(); return; }
    if (message.now) this.skew = message.now - Date.now() / 1000;
    const ids = new Set();
    for (const job of message.jobs ?? []) { this.jobs.set(job.id, job); ids.add(job.id); this.touched?.add(job.id); }
    for (const told of message.progress ?? []) {
      const job = this.jobs.get(told.id);
      if (job) { this.jobs.set(told.id, { ...job, done: told.done, metrics: told.metrics }); ids.add(told.id); }
    }
    for (const node of message.nodes ?? []) this.nodes[node.index] = node;
    if (message.events?.length) {
      this.events.unshift(...message.events.toReversed());
      this.events.length = Math.min(this.events.length, EVENTS_MAX);
    }
    this.tell('change', { ids, nodes: (message.nodes ?? []).length > 0, events: message.events ?? [], progress: message.progress ?? [] });
  }

  loadSoon() {
    if (this.isDue) return;
    this.isDue = true;
    const wait = Math.max(0, RELOAD_APART_MS - (performance.now() - (this.loadedAt ?? -1e9)));
    setTimeout(() => { this.isDue = false; this.load(); }, wait);
  }

  /** Everything again. What the stream tells meanwhile is newer than what is being loaded. */
  async load() {
    this.loadedAt = performance.now();
    const touched = new Set();
    this.touched = touched;
    try {
      const [jobs, nodes, events] = await Promise.all([get('/api/jobs'), get('/api/nodes'), get('/api/events')]);
      const old = this.jobs;
      this.jobs = new Map();
      for (const job of jobs) this.jobs.set(job.id, touched.has(job.id) ? old.get(job.id) ?? job : job);
      for (const id of touched) if (!this.jobs.has(id)) this.jobs.set(id, old.get(id));
      this.nodes = nodes;
      this.events = events;
      this.isLoaded = true;
      this.tell('change', { ids: null, nodes: true, events: [], progress: [] });
      // Pages draw in the next frame; in the one after it what they drew is in sight.
      requestAnimationFrame(() => requestAnimationFrame(() => performance.mark('wharf-loaded')));
    } catch (error) {
      if (error.code === 401) this.tell('login', {}); else this.tell('problem', { text: error.message });
    } finally {
      if (this.touched === touched) this.touched = null;
    }
  }

  tell(name, detail) { this.dispatchEvent(new CustomEvent(name, { detail })); }

  /** Calls with every change until the signal ends it. */
  watch(call, signal) {
    this.addEventListener('change', (event) => call(event.detail), { signal });
  }
}

export const store = new Store();
