//! `generate = { ... }` in a scenario: the generator's settings under short names.

use wharf_trace::{Arrivals, Deadlines, GangMix, GeneratorSettings, Rate};

use super::document::{Item, Section};
use super::error::ScenarioError;

/// The keys, as the command line's options call them.
const KEYS: &[&str] = &[
    "jobs",
    "seed",
    "load",
    "devices",
    "rate",
    "at_once",
    "arrivals",
    "burst_factor",
    "burst_length",
    "calm_length",
    "daily_swing",
    "median",
    "sigma",
    "tail_share",
    "tail_from",
    "tail_shape",
    "min",
    "max",
    "gangs",
    "users",
    "user_skew",
    "urgent_share",
    "deadline_share",
    "slack_min",
    "slack_max",
];

/// The seed that stands for all seeds of a matrix.
const EACH: &str = "each";

/// Reads a table of generator settings; what it leaves out has the generator's default. Also states whether each seed of the
/// matrix is to have a trace of its own.
pub(super) fn settings(mut section: Section<'_>) -> Result<(GeneratorSettings, bool), ScenarioError> {
    section.check_keys(KEYS)?;
    let mut settings = GeneratorSettings::default();
    let place = section.place();
    set(&mut section, "jobs", Item::count, &mut settings.job_count)?;
    let seed = section.take("seed");
    let is_each =
        seed.as_ref().is_some_and(|item| item.is_text() && item.text().is_ok_and(|text| text == EACH));
    if let Some(item) = seed.filter(|_| !is_each) {
        settings.seed = item.whole()?;
    }
    set(&mut section, "daily_swing", Item::number, &mut settings.daily_swing)?;
    set(&mut section, "users", Item::count, &mut settings.user_count)?;
    set(&mut section, "user_skew", Item::number, &mut settings.user_skew)?;
    set(&mut section, "urgent_share", Item::number, &mut settings.urgent_share)?;
    set_durations(&mut section, &mut settings)?;
    if let Some(item) = section.take("gangs") {
        settings.gangs = item.text()?.parse::<GangMix>().map_err(|error| item.bad(error.to_string()))?;
    }
    settings.rate = rate(&mut section)?;
    settings.arrivals = arrivals(&mut section)?;
    settings.deadlines = deadlines(&mut section)?;
    settings.validate().map_err(|error| ScenarioError::BadValue { place, message: error.to_string() })?;
    let seed = if is_each { EACH.to_owned() } else { settings.seed.to_string() };
    settings.name = format!("generated-{}-seed{seed}", settings.job_count);
    Ok((settings, is_each))
}

fn set<'t, T>(
    section: &mut Section<'t>,
    key: &str,
    read: fn(&Item<'t>) -> Result<T, ScenarioError>,
    target: &mut T,
) -> Result<(), ScenarioError> {
    if let Some(item) = section.take(key) {
        *target = read(&item)?;
    }
    Ok(())
}

fn set_durations(section: &mut Section<'_>, settings: &mut GeneratorSettings) -> Result<(), ScenarioError> {
    let durations = &mut settings.durations;
    set(section, "median", Item::number, &mut durations.median_s)?;
    set(section, "sigma", Item::number, &mut durations.sigma)?;
    set(section, "tail_share", Item::number, &mut durations.tail_share)?;
    set(section, "tail_from", Item::number, &mut durations.tail_from_s)?;
    set(section, "tail_shape", Item::number, &mut durations.tail_shape)?;
    set(section, "min", Item::number, &mut durations.min_s)?;
    set(section, "max", Item::number, &mut durations.max_s)
}

fn rate(section: &mut Section<'_>) -> Result<Rate, ScenarioError> {
    let (mut devices, mut share) = (64, 0.9);
    set(section, "devices", Item::count, &mut devices)?;
    let load = section.take("load");
    let per_hour = section.take("rate");
    let at_once = section.take("at_once");
    let given = [&load, &per_hour, &at_once];
    if given.iter().filter(|item| item.is_some()).count() > 1
        && let Some(item) = given.into_iter().flatten().next()
    {
        return Err(item.bad("only one of `load`, `rate` and `at_once` can be given"));
    }
    if let Some(item) = per_hour {
        return Ok(Rate::PerHour(item.number()?));
    }
    if let Some(item) = at_once
        && item.boolean()?
    {
        return Ok(Rate::AtOnce);
    }
    if let Some(item) = load {
        share = item.number()?;
    }
    Ok(Rate::Load { devices, load: share })
}

fn arrivals(section: &mut Section<'_>) -> Result<Arrivals, ScenarioError> {
    let (mut factor, mut burst_s, mut calm_s) = (10.0, 1800.0, 14_400.0);
    set(section, "burst_factor", Item::number, &mut factor)?;
    set(section, "burst_length", Item::number, &mut burst_s)?;
    set(section, "calm_length", Item::number, &mut calm_s)?;
    let Some(item) = section.take("arrivals") else { return Ok(Arrivals::Poisson) };
    match item.text()? {
        "poisson" => Ok(Arrivals::Poisson),
        "bursty" => Ok(Arrivals::Bursty { factor, burst_s, calm_s }),
        other => Err(item.bad(format!("`arrivals` cannot be `{other}`; it is `poisson` or `bursty`"))),
    }
}

fn deadlines(section: &mut Section<'_>) -> Result<Option<Deadlines>, ScenarioError> {
    let mut deadlines = Deadlines { share: 0.0, ..Deadlines::default() };
    set(section, "deadline_share", Item::number, &mut deadlines.share)?;
    set(section, "slack_min", Item::number, &mut deadlines.slack_min)?;
    set(section, "slack_max", Item::number, &mut deadlines.slack_max)?;
    Ok((deadlines.share > 0.0).then_some(deadlines))
}
