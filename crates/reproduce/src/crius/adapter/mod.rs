//! The published decisions under Wharf's own accounting: a [`Policy`] around any [`Rules`].
//!
//! Every `round_s` seconds the rules are told who ended and who came; what they changed in their table becomes stops and starts.
//! They see speeds as the performance model has them, and progress as it is. What the rules do not know stays out of their sight:
//! devices of other jobs, and of nodes that are out, look used. Jobs that they cannot have (a gang that is no power of two, or
//! with needs), that they drop, or whose deadline has passed, get what is left over after all other jobs, so that every
//! job is done in the end.

mod speeds;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wharf_core::{
    Change, Chosen, Decision, DeviceSet, Gang, JobId, Knowledge, NodeId, NodeShare, Phase, Policy, Reason,
    RoundNotes, StopReason, Time, View,
};

use wharf_policy::Placer;
use wharf_policy::elastic::{Offer, offers, pools};
use wharf_policy::priority::{free_devices, working_devices};
use wharf_policy::seating::{Party, Seated, Seating};

use super::decisions::{Job, Kind, Lookup, Options, Owner, Quota, Rules, Shape, Site, Variant, World};
use speeds::Speeds;

/// Largest gang that the rules are shown.
const DEVICES_MAX: u32 = 64;

/// Rounds around rules.
pub(super) struct Arena {
    variant: &'static Variant,
    options: Options,
    seating: Seating,
    game: Option<Game>,
    /// Jobs that came, or lost their devices, since the last round.
    came: BTreeSet<JobId>,
    /// Jobs that wait for what is left over.
    others: BTreeSet<JobId>,
    /// All jobs that it was informed of. What others were given is not to be touched.
    told: BTreeSet<JobId>,
    /// Whether the rules should check waiting jobs again.
    is_news: bool,
    last_round: Option<Time>,
    /// The round that a wake-up was requested for.
    due: Option<Time>,
    notes: RoundNotes,
}

/// The rules and what they know. It is begun again where machines change, or jobs in ways that the rules do not know.
struct Game {
    rules: Box<dyn Rules>,
    world: World,
    /// The jobs, by their numbers in the world.
    names: Vec<JobId>,
    numbers: BTreeMap<JobId, u32>,
    /// Rows of the lookup, by what speed depends on.
    rows: BTreeMap<Row, u32>,
    ended: Vec<u32>,
}

/// What the speed of a job depends on.
type Row = (Option<Arc<str>>, Option<u32>, u64, [u32; 3], Arc<[Arc<str>]>);

impl Game {
    fn new(variant: &'static Variant, options: Options, view: &View<'_>) -> Self {
        let nodes = view.topology().nodes().iter();
        let site = Site::new(nodes.map(|node| (&*node.spec.device_type, node.spec.devices)));
        let lookup = Lookup::new(site.kinds().count());
        Self {
            rules: (variant.build)(&options),
            world: World::new(Arc::new(site), lookup, options),
            names: Vec::new(),
            numbers: BTreeMap::new(),
            rows: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    fn is_running(&self, job: JobId) -> bool {
        self.numbers.get(&job).is_some_and(|number| self.world.running.contains(number))
    }

    /// A job as the rules see it; `None` where they cannot have it.
    fn job(&mut self, view: &View<'_>, job: JobId, is_loose: bool) -> Option<Job> {
        let spec = view.spec(job);
        let gang = &spec.gang;
        if gang.needs.is_some() || !gang.devices.is_power_of_two() || gang.devices > DEVICES_MAX {
            return None;
        }
        let numbers = [gang.devices_min, gang.devices, gang.devices_max];
        let (model, types) = (spec.model.clone(), gang.device_types.clone());
        let row = (model, spec.batch_size, spec.iteration_ms.to_bits(), numbers, types);
        let row = match self.rows.get(&row) {
            Some(&known) => known,
            None => {
                let speeds = Speeds::new(view, job, self.world.site());
                let added = self.world.lookup.add(&speeds.shapes(), &speeds);
                self.rows.insert(row, added);
                added
            }
        };
        let batch = f64::from(spec.batch_size.unwrap_or(1).max(1));
        let kind = self.asked_kind(gang, row)?;
        let quota = Quota::new(kind, self.world.site().best(kind, gang.devices));
        let mut state = Job::new(row, batch, quota, spec.submit.seconds(), spec.iterations);
        if let Some(deadline) = spec.deadline.filter(|_| !is_loose) {
            state.deadline_s = deadline.seconds();
        }
        Some(state)
    }

    /// The type that a job asks for: the first that it names and that has enough devices, or the fastest of those.
    fn asked_kind(&self, gang: &Gang, row: u32) -> Option<Kind> {
        let site = self.world.site();
        let is_enough = |kind: &Kind| site.kind(*kind).device_count() >= gang.devices;
        let named = gang.device_types.first().filter(|name| &***name != Gang::OTHERS);
        if let Some(kind) = named.and_then(|name| site.find(name)).filter(is_enough) {
            return Some(kind);
        }
        let question = self.world.question(true);
        let speed =
            |kind: Kind| self.world.lookup.throughput(row, question, kind, site.best(kind, gang.devices));
        let mut best: Option<(Kind, f64)> = None;
        for kind in site.kinds().filter(is_enough).filter(|kind| gang.allows(&site.kind(*kind).name)) {
            if best.is_none_or(|(_, most)| speed(kind) > most) {
                best = Some((kind, speed(kind)));
            }
        }
        best.map(|(kind, _)| kind)
    }

    fn enter(&mut self, name: JobId, state: Job) -> u32 {
        let number = self.names.len() as u32;
        self.world.options.devices_max = self.world.options.devices_max.max(state.asked.devices);
        self.world.jobs.push(state);
        self.names.push(name);
        self.numbers.insert(name, number);
        number
    }

    /// Takes over a job that has devices; `false` where they do not lie as the rules have them.
    fn take_over(&mut self, view: &View<'_>, job: JobId, is_loose: bool) -> bool {
        let Some(placement) = view.schedule().placement(job) else { return false };
        let devices = devices_of(self.world.site(), placement);
        let Some(mut state) = self.job(view, job, is_loose) else { return false };
        let site = self.world.site();
        let kind_of = |device: &usize| site.kind_of(site.node_of(*device));
        let Some(kind) = devices.first().map(kind_of) else { return false };
        let per_host = placement[0].devices.len();
        let is_even = placement.iter().all(|share| share.devices.len() == per_host);
        if !is_even || devices.iter().any(|device| kind_of(device) != kind) {
            return false;
        }
        state.quota = Quota::new(kind, Shape { hosts: placement.len() as u32, per_host });
        let number = self.enter(job, state);
        for device in devices {
            self.world.table.set(device, true, Owner::job(number));
        }
        self.world.running.push(number);
        true
    }

    /// What the rules must know of the present before they decide.
    fn bring_up_to_date(&mut self, view: &View<'_>) {
        let world = &mut self.world;
        world.timer = view.now.seconds();
        for &number in &world.running {
            let (name, state) = (self.names[number as usize], &mut world.jobs[number as usize]);
            state.remaining = view.remaining_iterations(name).unwrap_or(state.iterations);
            state.executed_s = view.attained_s(name);
        }
        let site = world.table.site().clone();
        for node in 0..site.node_count() {
            let free = view.schedule().free(NodeId(site.origin(node)));
            for (index, device) in site.devices(node).enumerate() {
                if world.table.owner(device).as_job().is_none() {
                    let is_free = free.contains(index as u32);
                    let owner = if is_free { Owner::FREE } else { Owner::OUT };
                    world.table.set(device, !is_free, owner);
                }
            }
        }
    }

    /// Lets the rules decide.
    fn play(&mut self, submitted: Vec<u32>, is_news: bool) {
        let Self { rules, world, .. } = self;
        world.ended = std::mem::take(&mut self.ended);
        world.submitted = submitted;
        rules.before(world);
        let is_stuck = world.running.is_empty() && !world.pending.is_empty();
        if is_news || is_stuck || !world.ended.is_empty() {
            rules.on_ends(world);
            world.ended.clear();
        }
        if !world.submitted.is_empty() {
            rules.on_arrivals(world);
            world.submitted.clear();
        }
        world.timer += world.options.round_s;
        rules.after(world);
    }

    /// Where the table has a job.
    fn placement(&self, number: u32) -> Vec<NodeShare> {
        let site = self.world.site();
        let mut placement: Vec<NodeShare> = Vec::new();
        for device in self.world.table.devices_of(Owner::job(number)) {
            let node = site.node_of(device);
            let id = NodeId(site.origin(node));
            let index = (device - site.devices(node).start) as u32;
            match placement.last_mut() {
                Some(share) if share.node == id => share.devices.insert(index),
                _ => placement.push(NodeShare::new(id, DeviceSet::single(index))),
            }
        }
        placement
    }
}

/// The devices of a placement, in the numbers of the site.
fn devices_of(site: &Site, placement: &[NodeShare]) -> Vec<usize> {
    let nodes = (0..site.node_count()).map(|node| (site.origin(node), node));
    let by_origin: BTreeMap<u32, u32> = nodes.collect();
    let devices = |share: &NodeShare| {
        let start = by_origin.get(&share.node.0).map(|node| site.devices(*node).start);
        let indexes = share.devices;
        start.into_iter().flat_map(move |start| indexes.iter().map(move |index| start + index as usize))
    };
    placement.iter().flat_map(devices).collect()
}

impl Arena {
    /// A policy over an idle cluster.
    pub(super) fn new(variant: &'static Variant, options: Options, placer: Box<dyn Placer>) -> Self {
        Self {
            variant,
            options: variant.options(options),
            seating: Seating::new(placer),
            game: None,
            came: BTreeSet::new(),
            others: BTreeSet::new(),
            told: BTreeSet::new(),
            is_news: false,
            last_round: None,
            due: None,
            notes: RoundNotes { round_s: options.round_s, ..RoundNotes::default() },
        }
    }

    fn next_round(&self) -> Option<Time> {
        self.last_round.map(|last| last.plus(self.options.round_s))
    }

    /// Whether the rules have something to decide. Without jobs they have not: rounds are counted from the first job on, not from when
    /// nodes joined.
    fn needs_round(&self) -> bool {
        let has_ended = || self.game.as_ref().is_some_and(|game| !game.ended.is_empty());
        !self.told.is_empty() && (self.is_news || !self.came.is_empty() || has_ended())
    }

    /// The rules with all that is known; they begin again where there are none.
    fn take_game(&mut self, view: &View<'_>) -> Game {
        if let Some(game) = self.game.take() {
            return game;
        }
        let mut game = Game::new(self.variant, self.options, view);
        let mut live: Vec<JobId> = self.told.iter().copied().collect();
        live.sort_by_key(|job| view.job(*job).placed_at());
        for job in live {
            if view.schedule().placement(job).is_some() {
                game.take_over(view, job, self.variant.is_loose);
            }
        }
        self.is_news = true;
        game
    }

    fn round(&mut self, decision: &mut Decision<'_>) {
        let view = decision.view();
        let mut game = self.take_game(&view);
        game.bring_up_to_date(&view);
        let mut submitted = Vec::new();
        for job in std::mem::take(&mut self.came) {
            match game.job(&view, job, self.variant.is_loose) {
                Some(state) => submitted.push(game.enter(job, state)),
                None => {
                    self.others.insert(job);
                }
            }
        }
        let told = submitted.clone();
        game.play(submitted, std::mem::take(&mut self.is_news));
        self.notes.rounds += 1;
        let is_whole = self.carry_out(decision, &game);
        self.pass_over(&mut game, &told);
        self.game = Some(game);
        if !is_whole {
            self.forget();
        }
        self.give_leftovers(decision);
    }

    /// What changed in the table becomes stops and starts. `false` where the rules gave away what they do not have: such a job
    /// waits for the next round.
    fn carry_out(&mut self, decision: &mut Decision<'_>, game: &Game) -> bool {
        let mut starts = Vec::new();
        let mut stops = Vec::new();
        for &number in &game.world.running {
            let (job, placement) = (game.names[number as usize], game.placement(number));
            let held = decision.view().schedule().placement(job).map(<[NodeShare]>::to_vec);
            self.notes.lease_chances += u64::from(held.is_some());
            match held {
                Some(held) if is_same(&held, &placement) => self.notes.lease_extensions += 1,
                held => {
                    if held.is_some() {
                        stops.push((job, true));
                    }
                    starts.push((job, placement));
                }
            }
        }
        for &number in &game.world.pending {
            let job = game.names[number as usize];
            if decision.view().schedule().placement(job).is_some() {
                self.notes.lease_chances += 1;
                stops.push((job, false));
            }
        }
        for (job, is_moved) in stops {
            if is_moved {
                decision.stop(job, StopReason::Moved);
            } else {
                decision.preempt(job, None, Chosen::NotInRound);
            }
        }
        let mut is_whole = true;
        for (job, placement) in starts {
            let is_free = |share: &NodeShare| {
                share.devices.difference(decision.view().schedule().free(share.node)).is_empty()
            };
            if !placement.is_empty() && placement.iter().all(is_free) {
                decision.start(job, &placement);
            } else {
                self.came.insert(job);
                is_whole = false;
            }
        }
        is_whole
    }

    /// Jobs that the rules dropped, or will not try again, wait for what is left over.
    fn pass_over(&mut self, game: &mut Game, told: &[u32]) {
        let Game { world, names, numbers, .. } = game;
        let is_dropped = |number: &u32| !world.running.contains(number) && !world.pending.contains(number);
        let late = world.pending.iter().filter(|number| world.job(**number).is_timed_out);
        let passed: Vec<u32> = told.iter().filter(|number| is_dropped(number)).chain(late).copied().collect();
        world.pending.retain(|number| !passed.contains(number));
        for number in passed {
            let job = names[number as usize];
            numbers.remove(&job);
            self.others.insert(job);
        }
    }

    /// Gives free devices to jobs that the rules dropped. Where nothing runs at all, the first waiting job is one of them.
    fn give_leftovers(&mut self, decision: &mut Decision<'_>) {
        for job in self.others.clone() {
            if self.seat(decision, job) {
                self.others.remove(&job);
            }
        }
        if decision.view().schedule().placed_count() > 0 {
            return;
        }
        let waiting = self.game.as_ref().map(|game| game.world.pending.clone()).unwrap_or_default();
        let names = self.game.as_ref().map(|game| game.names.clone()).unwrap_or_default();
        for number in waiting {
            if self.seat(decision, names[number as usize]) {
                self.forget();
                return;
            }
        }
    }

    /// Places a job on free devices: as many as it asks for where it can, else as few as it can run on, where that is fastest.
    fn seat(&mut self, decision: &mut Decision<'_>, job: JobId) -> bool {
        let view = decision.view();
        let mut choices = offers(&view, job, &pools(&view));
        let asked = view.spec(job).gang.devices;
        choices.sort_by(|one, other| {
            let rank = |offer: &Offer| (offer.count != asked, offer.count);
            rank(one).cmp(&rank(other)).then(other.speed.total_cmp(&one.speed))
        });
        let needs = view.spec(job).gang.needs.clone();
        let types = view.topology().types().to_vec();
        choices.into_iter().any(|offer| {
            let gang = Gang {
                devices: offer.count,
                devices_min: offer.count,
                devices_max: offer.count,
                device_types: Arc::from([types[offer.kind].clone()]),
                needs: needs.clone(),
            };
            let mut seated = Seated::default();
            self.seating.seat_on_free(decision, &Party { group: vec![job], gang }, &mut seated)
        })
    }

    /// Begins again at the next round. Jobs that wait are requested to the rules once more.
    fn forget(&mut self) {
        if let Some(game) = self.game.take() {
            let waiting = game.world.pending.iter().chain(&game.world.submitted);
            self.came.extend(waiting.map(|number| game.names[*number as usize]));
        }
        self.is_news = true;
    }

    /// A job has no devices any more, and that was not decided here.
    fn lost(&mut self, job: JobId) {
        let Some(game) = &self.game else {
            self.came.insert(job);
            return;
        };
        let is_pending = game.numbers.get(&job).is_some_and(|number| game.world.pending.contains(number));
        if !is_pending && !self.others.contains(&job) {
            if game.is_running(job) {
                self.forget();
            }
            self.came.insert(job);
        }
    }

    /// The first job that waits for the same type, and longer.
    fn head_before(&self, view: &View<'_>, job: JobId) -> Option<JobId> {
        let game = self.game.as_ref()?;
        let kind = |number: u32| game.world.job(number).asked.kind;
        let own = *game.numbers.get(&job)?;
        let earlier = game.world.pending.iter().copied().take_while(|number| *number != own);
        let same = earlier.filter(|number| kind(*number) == kind(own));
        let mut names = same.map(|number| game.names[number as usize]);
        names.find(|other| view.job(*other).phase == Phase::Waiting)
    }

    fn ended(&mut self, job: JobId) {
        self.came.remove(&job);
        self.others.remove(&job);
        self.is_news = true;
        let Some(game) = &mut self.game else { return };
        let Some(number) = game.numbers.remove(&job) else { return };
        if let Some(place) = game.world.running.iter().position(|other| *other == number) {
            game.world.running.remove(place);
            game.ended.push(number);
        } else {
            self.forget();
            self.came.remove(&job);
        }
    }
}

fn is_same(one: &[NodeShare], other: &[NodeShare]) -> bool {
    one.len() == other.len() && one.iter().all(|share| other.contains(share))
}

impl Policy for Arena {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Durations
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        match change {
            Change::Arrived(job) => {
                self.told.insert(job);
                self.came.insert(job);
            }
            Change::Waiting(job) | Change::Stopping(job) => {
                // Within one decision it may have been stopped and started again.
                if view.schedule().placement(job).is_none() {
                    self.lost(job);
                }
            }
            Change::Placed(job) => {
                self.came.remove(&job);
                self.others.remove(&job);
            }
            Change::Ended(job) => {
                self.told.remove(&job);
                self.ended(job);
            }
            Change::Node(_) => self.forget(),
            Change::Running(_) => {}
        }
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        let now = decision.view().now;
        let is_due = self.next_round().is_none_or(|next| next <= now);
        if is_due && self.needs_round() {
            // Woken late, the rounds after it are not late as well.
            self.last_round = Some(self.due.take().filter(|due| *due <= now).unwrap_or(now));
            self.round(decision);
        }
        if self.needs_round() {
            let at = self.next_round().unwrap_or(now);
            self.due = Some(at);
            decision.wake_at(at);
        }
    }

    fn rounds(&mut self) -> Option<RoundNotes> {
        Some(self.notes.clone())
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        let needed = view.spec(job).gang.devices;
        let working = working_devices(view, job);
        if needed > working {
            return Reason::NodesOut { needed, working };
        }
        if let Some(at) = self.next_round().filter(|at| self.needs_round() && *at > view.now) {
            return Reason::NextRound { at };
        }
        if let Some(head) = self.head_before(view, job) {
            return Reason::HeadOfLine { head };
        }
        let free = free_devices(view, job);
        if free >= needed {
            Reason::Fragmented { needed, free }
        } else {
            Reason::DevicesBusy { needed, free }
        }
    }
}
