//! Requests of ordinary users, drawn from a seed: mostly sensible, often at the edge of what makes sense, sometimes absurd.

use wharf_proto::change_jobs_request::Change;
use wharf_proto::dependency::Kind;
use wharf_proto::{
    Batch, ChangeJobsRequest, Checkpoint, Dependency, Gang, JobFilter, JobSpec, ListJobsRequest, Notify,
    Parameters, Ray, ResourceLimit, RetryRule, Step, StepSummary,
};

/// SplitMix64: small, and the same everywhere.
pub(super) struct Source(u64);

impl Source {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u32) -> u32 {
        (self.next() % u64::from(bound.max(1))) as u32
    }

    pub(super) fn one_in(&mut self, count: u32) -> bool {
        self.below(count) == 0
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize].clone()
    }

    /// Small numbers often, and each next order of magnitude more rarely.
    fn size(&mut self, most: u32) -> u32 {
        let mut bound = 4;
        while bound < most && self.one_in(3) {
            bound = bound.saturating_mul(4);
        }
        self.below(bound.min(most))
    }

    fn number(&mut self) -> f64 {
        match self.below(12) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => -1.0,
            3 => 1e300,
            4 => f64::MIN_POSITIVE,
            5..8 => 0.0,
            _ => f64::from(self.size(100_000)),
        }
    }

    fn text(&mut self) -> String {
        let words = [
            "",
            "a",
            "train",
            "é∞🚢",
            "x/y",
            "..",
            "-x",
            "%j_%a",
            "\u{1b}]0;t\u{7}",
            "a\nb",
            "\0",
            "{lr}",
            "ann",
        ];
        match self.below(20) {
            0 => "x".repeat(self.size(5000) as usize),
            _ => self.pick(&words).to_owned(),
        }
    }
}

/// A request, and the user who makes it.
pub(super) enum Request {
    Submit(Vec<JobSpec>),
    Change(ChangeJobsRequest),
    List(ListJobsRequest),
    Show(u32),
    Explain(u32),
    Wait(u32),
    Output { job: u32, rank: usize },
    Limits,
    Demand,
}

/// A request about jobs of which `known` exist.
pub(super) fn request(source: &mut Source, known: u32) -> Request {
    match source.below(20) {
        0..8 => {
            let count = if source.one_in(10) { source.below(4) } else { 1 };
            Request::Submit((0..count).map(|_| job(source, known)).collect())
        }
        8..15 => Request::Change(change(source, known)),
        15 => Request::List(list(source, known)),
        16 => Request::Show(id(source, known)),
        17 => Request::Explain(id(source, known)),
        18 => Request::Wait(id(source, known)),
        _ if source.one_in(3) => Request::Limits,
        _ if source.one_in(2) => Request::Demand,
        _ => Request::Output { job: id(source, known), rank: source.size(100) as usize },
    }
}

/// Mostly one of the latest jobs, sometimes any, sometimes none.
fn id(source: &mut Source, known: u32) -> u32 {
    match source.below(10) {
        0 => u32::MAX,
        1 => known.saturating_add(source.below(3)),
        2 => source.below(known),
        _ => known.saturating_sub(1 + source.size(2000)),
    }
}

fn indexes(source: &mut Source) -> Vec<u32> {
    let count = if source.one_in(20_000) { source.size(110_000) } else { source.size(300) };
    let (first, step) = (source.below(3), 1 + source.below(2));
    let mut indexes: Vec<u32> = (0..count).map(|index| first + index * step).collect();
    if source.one_in(10) {
        indexes.reverse();
    }
    if source.one_in(50) {
        indexes.push(first);
    }
    indexes
}

fn dependency(source: &mut Source, known: u32) -> Dependency {
    let kinds =
        [Kind::After, Kind::AfterOk, Kind::AfterNotOk, Kind::AfterAny, Kind::AfterCorr, Kind::Singleton];
    Dependency {
        kind: source.pick(&kinds).into(),
        job_id: id(source, known),
        array_index: source.one_in(4).then(|| source.size(300)),
        delay_s: if source.one_in(8) { source.number() } else { 0.0 },
    }
}

fn gang(source: &mut Source) -> Gang {
    let devices = source.size(64);
    Gang {
        devices,
        devices_min: if source.one_in(5) { source.below(devices + 2) } else { 0 },
        devices_max: if source.one_in(5) { devices + source.size(8) } else { 0 },
        nodes: if source.one_in(6) { source.size(16) } else { 0 },
        device_types: (0..source.size(3))
            .map(|_| source.pick(&["v100", "a40", "tpu", "*"]).to_owned())
            .collect(),
        every_node: source.one_in(30),
        every_device: source.one_in(30),
        node_names: Vec::new(),
    }
}

fn job(source: &mut Source, known: u32) -> JobSpec {
    let mut spec = JobSpec {
        name: source.text(),
        user: if source.one_in(20) { source.text() } else { String::new() },
        gang: (!source.one_in(4)).then(|| gang(source)),
        command: vec![source.pick(&["true", "false", "sh", ""]).to_owned()],
        iterations: source.number(),
        iteration_ms: source.number(),
        priority: if source.one_in(4) { source.pick(&[-1, 1, i32::MAX, i32::MIN]) } else { 0 },
        dependencies: (0..source.size(20)).filter(|_| known > 0).map(|_| dependency(source, known)).collect(),
        any_dependency: source.one_in(3),
        stays_if_impossible: source.one_in(3),
        held: source.one_in(10),
        array: if source.one_in(3) { indexes(source) } else { Vec::new() },
        pool: if source.one_in(6) {
            source.pick(&["main", "paid", "nowhere"]).to_owned()
        } else {
            String::new()
        },
        ..JobSpec::default()
    };
    for _ in 0..source.below(3) {
        odd_field(source, &mut spec);
    }
    spec
}

/// Sets a field that most jobs leave alone.
fn odd_field(source: &mut Source, spec: &mut JobSpec) {
    match source.below(20) {
        0 => spec.time_limit_s = source.number(),
        1 => spec.begin_s = 1.7e9 + source.number(),
        2 => spec.array_limit = source.size(50),
        3 => spec.env.extend([(source.text(), source.text())]),
        4 => spec.output = source.text(),
        5 => spec.retries = source.size(u32::MAX),
        6 => spec.grace_s = source.number(),
        7 => spec.deadline_s = source.number(),
        8 => spec.weight = source.number(),
        9 => spec.cpus = source.size(u32::MAX),
        10 => spec.memory_mib = u64::MAX >> source.below(64),
        11 => {
            spec.steps = vec![Step { name: source.text(), command: vec![source.text()], ..Step::default() }]
        }
        12 => spec.limits = vec![ResourceLimit { name: "nofile".into(), ..ResourceLimit::default() }],
        13 => spec.notify = Some(Notify { webhook: source.text(), ..Notify::default() }),
        14 => spec.checkpoint = Some(Checkpoint { dir: source.text(), ..Checkpoint::default() }),
        15 => spec.retry = vec![RetryRule::default(); source.size(8) as usize],
        16 => spec.ray = Some(Ray { object_store_bytes: u64::MAX, ..Ray::default() }),
        17 => spec.parameters = Some(Parameters { names: vec![source.text()], ..Parameters::default() }),
        18 => {
            let lease_s = source.number();
            spec.batch = Some(Batch { script: source.text(), lease_s, ..Batch::default() });
            spec.launcher = wharf_proto::Launcher::Batch.into();
            spec.command.clear();
        }
        _ => spec.reservation = source.text(),
    }
}

fn filter(source: &mut Source) -> JobFilter {
    JobFilter {
        user: source.one_in(3).then(|| source.pick(&["ann", ""]).to_owned()),
        name: if source.one_in(2) { source.pick(&["*", "?", "tr*n", "a"]).into() } else { String::new() },
        since_s: source.one_in(4).then(|| source.number()),
        until_s: source.one_in(4).then(|| source.number()),
        live_only: source.one_in(2),
        ..JobFilter::default()
    }
}

fn change(source: &mut Source, known: u32) -> ChangeJobsRequest {
    let changes = [
        Change::Cancel,
        Change::Cancel,
        Change::Cancel,
        Change::Hold,
        Change::Release,
        Change::Requeue,
        Change::Priority,
        Change::Signal,
        Change::Begin,
        Change::Keep,
        Change::TimeLimit,
        Change::Rename,
        Change::Step,
    ];
    let is_filtered = source.one_in(25);
    ChangeJobsRequest {
        change: source.pick(&changes).into(),
        job_ids: if is_filtered {
            vec![]
        } else {
            (0..=source.size(40)).map(|_| id(source, known)).collect()
        },
        filter: is_filtered.then(|| filter(source)),
        elements_only: source.one_in(2),
        dry_run: source.one_in(5),
        priority: source.pick(&[0, -1, 1, i32::MIN, i32::MAX]),
        signal: source.pick(&[0, 1, 9, 15, 64, 65, -1]),
        begin_s: 1.7e9 + source.number(),
        time_limit_s: source.number(),
        name: source.text(),
        step: source.one_in(2).then(|| StepSummary {
            id: source.size(5000),
            name: source.text(),
            ..StepSummary::default()
        }),
        ..ChangeJobsRequest::default()
    }
}

fn list(source: &mut Source, known: u32) -> ListJobsRequest {
    ListJobsRequest {
        job_ids: (0..source.size(40)).map(|_| id(source, known)).collect(),
        live_only: source.one_in(2),
        user: if source.one_in(2) { "ann".into() } else { String::new() },
        filter: source.one_in(2).then(|| filter(source)),
        page_size: source.pick(&[0, 1, 7, u32::MAX]),
        from_id: if source.one_in(2) { id(source, known) } else { 0 },
        explain_max: source.pick(&[0, 1, 20, u32::MAX]),
    }
}
