//! The generator: traces from a few numbers and a seed.
//!
//! The same settings give the same bytes. Times are rounded to whole milliseconds and iterations to whole ones,
//! so a platform whose logarithm differs in the last bit still writes the same file.

pub(crate) mod draw;
mod models;
mod settings;

use std::sync::Arc;

use wharf_core::{Gang, JobSpec, StageTimes, Time};

pub use models::{GeneratorModel, generator_models};
pub use settings::{
    Arrivals, Deadlines, Durations, GangMix, GeneratorSettings, MixError, Rate, SettingsError,
};

use crate::Trace;
use draw::{Draw, Purpose, Weighted};

const SECONDS_PER_HOUR: f64 = 3600.0;
const SECONDS_PER_DAY: f64 = 86_400.0;

/// Generates a trace.
///
/// Gangs, durations, models, users, priorities, deadlines and arrivals have random streams of their own:
/// changing one setting leaves what does not depend on it as it was.
pub fn generate(settings: &GeneratorSettings) -> Result<Trace, SettingsError> {
    settings.validate()?;
    let mut jobs = draw_jobs(settings);
    submit_jobs(settings, &mut jobs);
    set_deadlines(settings, &mut jobs);
    Ok(Trace { name: settings.name.clone(), jobs })
}

/// What jobs of one model and one gang size have in common.
struct Shape {
    devices: u32,
    model: Arc<str>,
    batch_size: u32,
    iteration_ms: f64,
    stages: StageTimes,
}

/// Shapes by gang size (as in the mix), then by model.
fn shapes(settings: &GeneratorSettings) -> Vec<Shape> {
    let models: Vec<(Arc<str>, &GeneratorModel)> =
        generator_models().iter().map(|model| (model.name.into(), model)).collect();
    let shape = |devices: u32, (name, model): &(Arc<str>, &GeneratorModel)| {
        let (iteration_ms, stages) = model.profile(devices);
        let batch_size = model.batch_size.saturating_mul(devices);
        Shape { devices, model: name.clone(), batch_size, iteration_ms, stages }
    };
    let sizes = settings.gangs.sizes().iter();
    sizes.flat_map(|(devices, _)| models.iter().map(move |model| shape(*devices, model))).collect()
}

/// All jobs, submitted at 0 and without deadlines.
fn draw_jobs(settings: &GeneratorSettings) -> Vec<JobSpec> {
    let stream = |purpose| Draw::new(settings.seed, purpose);
    let (mut gang_draw, mut model_draw) = (stream(Purpose::Gangs), stream(Purpose::Models));
    let (mut duration_draw, mut user_draw) = (stream(Purpose::Durations), stream(Purpose::Users));
    let mut priority_draw = stream(Purpose::Priorities);

    let shapes = shapes(settings);
    let gangs = Weighted::new(settings.gangs.sizes().iter().map(|(_, weight)| *weight));
    let models = Weighted::new(generator_models().iter().map(|model| model.weight));
    let user_names: Vec<Arc<str>> =
        (1..=settings.user_count).map(|rank| format!("user{rank}").into()).collect();
    let users =
        Weighted::new((1..=settings.user_count).map(|rank| f64::from(rank).powf(-settings.user_skew)));
    let any_type: Arc<[Arc<str>]> = Arc::from([]);

    let job = |index: u32| {
        let place = gangs.pick(&mut gang_draw) * generator_models().len() + models.pick(&mut model_draw);
        let Shape { devices, model, batch_size, iteration_ms, stages } = &shapes[place];
        let duration_s = draw_duration(&settings.durations, &mut duration_draw);
        let user = users.pick(&mut user_draw);
        JobSpec {
            name: index.to_string().into(),
            user: user_names.get(user).cloned(),
            submit: Time::ZERO,
            gang: Gang {
                devices: *devices,
                devices_min: *devices,
                devices_max: *devices,
                device_types: any_type.clone(),
                needs: None,
            },
            iterations: (duration_s * 1000.0 / iteration_ms).round().max(1.0),
            iteration_ms: *iteration_ms,
            duration_s: None,
            model: Some(model.clone()),
            batch_size: Some(*batch_size),
            stages: Some(*stages),
            priority: priority_draw.chance(settings.urgent_share).into(),
            weight: 1.0,
            deadline: None,
            array: None,
            row: 0,
        }
    };
    (0..settings.job_count).map(job).collect()
}

/// Draws until a length is within the bounds; after many misses the bound nearest to it will do.
fn draw_duration(durations: &Durations, draw: &mut Draw) -> f64 {
    const TRIES_MAX: u32 = 64;
    let Durations { median_s, sigma, tail_share, tail_from_s, tail_shape, min_s, max_s } = *durations;
    let is_tail = draw.chance(tail_share);
    let mut seconds = median_s;
    for _ in 0..TRIES_MAX {
        seconds = if is_tail {
            tail_from_s * draw.open_unit().powf(-1.0 / tail_shape)
        } else {
            median_s * (sigma * draw.normal()).exp()
        };
        if (min_s..=max_s).contains(&seconds) {
            return seconds;
        }
    }
    seconds.clamp(min_s, max_s)
}

/// Gives each job its submission, ascending.
fn submit_jobs(settings: &GeneratorSettings, jobs: &mut [JobSpec]) {
    let per_second = match settings.rate {
        Rate::AtOnce => return,
        Rate::PerHour(rate) => rate / SECONDS_PER_HOUR,
        Rate::Load { devices, load } => {
            let work: f64 = jobs.iter().map(|job| job.solo_s() * f64::from(job.gang.devices)).sum();
            jobs.len() as f64 * load * f64::from(devices) / work
        }
    };
    let mut arrivals = ArrivalTimes::new(settings, per_second);
    for job in jobs {
        job.submit = whole_ms(arrivals.next());
    }
}

fn whole_ms(seconds: f64) -> Time {
    Time::try_new((seconds * 1000.0).round() / 1000.0).unwrap_or(Time::FAR)
}

/// A Poisson process whose rate changes.
///
/// Within a state the daily swing is made by thinning: candidates come at the busiest hour's rate, and each is kept
/// with the chance that its own hour's rate has in that. Gaps have no memory, so a new state starts a new gap.
struct ArrivalTimes {
    draw: Draw,
    bursts: Draw,
    now_s: f64,
    /// Calm and burst rates before the daily swing.
    rates: [f64; 2],
    /// Mean lengths of calm and burst times.
    lengths_s: [f64; 2],
    /// 0 while calm, 1 in a burst.
    state: usize,
    state_ends_s: f64,
    daily_swing: f64,
}

impl ArrivalTimes {
    fn new(settings: &GeneratorSettings, per_second: f64) -> Self {
        /// Where fewer jobs than this come in a calm time and a burst together, bursts are not visible.
        const CYCLE_JOBS_MIN: f64 = 1e-3;
        let (rates, lengths_s) = match settings.arrivals {
            Arrivals::Bursty { factor, burst_s, calm_s }
                if per_second * (burst_s + calm_s) >= CYCLE_JOBS_MIN =>
            {
                let calm = per_second * (burst_s + calm_s) / (factor * burst_s + calm_s);
                ([calm, calm * factor], [calm_s, burst_s])
            }
            Arrivals::Bursty { .. } | Arrivals::Poisson => ([per_second; 2], [f64::INFINITY; 2]),
        };
        let mut bursts = Draw::new(settings.seed, Purpose::Bursts);
        let state_ends_s = lengths_s[0] * bursts.exponential();
        Self {
            draw: Draw::new(settings.seed, Purpose::Arrivals),
            bursts,
            now_s: 0.0,
            rates,
            lengths_s,
            state: 0,
            // An exponential draw of exactly 0 makes 0 × ∞.
            state_ends_s: if state_ends_s.is_nan() { f64::INFINITY } else { state_ends_s },
            daily_swing: settings.daily_swing,
        }
    }

    fn next(&mut self) -> f64 {
        loop {
            let rate_max = self.rates[self.state] * (1.0 + self.daily_swing);
            let candidate_s = self.now_s + self.draw.exponential() / rate_max;
            if candidate_s >= self.state_ends_s {
                self.now_s = self.state_ends_s;
                self.state = 1 - self.state;
                self.state_ends_s += self.lengths_s[self.state] * self.bursts.exponential();
                continue;
            }
            self.now_s = candidate_s;
            // A day begins calm: the sine is lowest at midnight and highest at noon.
            let phase = std::f64::consts::TAU * (self.now_s / SECONDS_PER_DAY - 0.25);
            let rate = self.rates[self.state] * (1.0 + self.daily_swing * phase.sin());
            if self.draw.chance(rate / rate_max) {
                return self.now_s;
            }
        }
    }
}

fn set_deadlines(settings: &GeneratorSettings, jobs: &mut [JobSpec]) {
    let Some(Deadlines { share, slack_min, slack_max }) = settings.deadlines else { return };
    let mut draw = Draw::new(settings.seed, Purpose::Deadlines);
    for job in jobs {
        let has_deadline = draw.chance(share);
        let slack = slack_min + (slack_max - slack_min) * draw.unit();
        if has_deadline {
            job.deadline = Some(whole_ms(job.submit.seconds() + slack * job.solo_s()).max(job.submit));
        }
    }
}
