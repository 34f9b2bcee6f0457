//! Presets: a named mechanism plus its numbers.

use std::sync::Arc;

use serde::Deserialize;
use wharf_core::Cadence;
use wharf_perf::Costs;
use wharf_policy::{BadSetting, Settings, Strategy};

use wharf_reproduce::{Mechanism, blox, crius, fgd, gavel, muri, sia};
use wharf_trace::Format;

/// A mechanism and its numbers, by name.
#[derive(Clone, Debug)]
pub struct Preset {
    /// What `--preset` calls it.
    pub name: String,
    /// One line: whose rules these are.
    pub about: String,
    /// The text it was read from.
    pub text: String,
    /// The mechanism with its numbers.
    pub mechanism: PresetMechanism,
}

/// Code that states when the policy is called, how progress accrues and what metrics mean.
#[derive(Clone, Debug)]
pub enum PresetMechanism {
    /// Wharf's own, also the head's.
    Wharf(Rules),
    /// That of a published simulator, with its defects.
    Published(Arc<dyn Mechanism>),
}

/// The numbers of Wharf's own mechanisms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Whether the policy is called in rounds, or after every event.
    pub in_rounds: bool,
    /// Seconds between two rounds.
    pub round_s: f64,
    /// What disturbances cost.
    pub costs: Costs,
    /// Seconds between checkpoints of a running job.
    pub checkpoint_interval_s: f64,
    /// Where gangs go.
    pub placement: Strategy,
    /// Mean hours between failures of a node; 0 means never.
    pub node_mtbf_h: f64,
    /// Mean hours to repair a node.
    pub node_repair_h: f64,
}

/// A preset that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// Neither a built-in name nor a file.
    #[error("`{name}` is neither a built-in preset ({builtin}) nor a file", builtin = Preset::BUILTIN.join(", "))]
    Unknown {
        /// What was given.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read preset `{path}`")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a preset.
    #[error("preset `{path}` is not valid")]
    Parse {
        /// The file, or the built-in name.
        path: String,
        /// Where and why.
        #[source]
        source: toml::de::Error,
    },
    /// The mechanism's own table is missing.
    #[error("preset `{path}` has mechanism `{mechanism}` but no table [{table}]")]
    MissingTable {
        /// The file, or the built-in name.
        path: String,
        /// The mechanism.
        mechanism: &'static str,
        /// Its table.
        table: &'static str,
    },
    /// A number is out of its range.
    #[error("preset `{path}` is not valid")]
    Value {
        /// The file, or the built-in name.
        path: String,
        /// Which, and what it takes.
        #[source]
        source: BadSetting,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PresetFile {
    name: String,
    about: String,
    mechanism: MechanismName,
    wharf: Option<RulesFile>,
    muri: Option<muri::Numbers>,
    blox: Option<blox::Numbers>,
    gavel: Option<gavel::Numbers>,
    sia: Option<sia::Numbers>,
    crius: Option<crius::Numbers>,
    fgd: Option<fgd::Numbers>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MechanismName {
    Events,
    Rounds,
    Muri,
    Blox,
    Gavel,
    Sia,
    Crius,
    Fgd,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    round_s: f64,
    restart_s: f64,
    checkpoint_interval_s: f64,
    spread_slowdown: f64,
    switch_slowdown: f64,
    interleave_factors: [f64; 3],
    placement: String,
    node_mtbf_h: f64,
    node_repair_h: f64,
}

impl Preset {
    /// The names that need no file.
    pub const BUILTIN: &[&str] = &["wharf", "muri", "gavel", "sia", "blox", "crius", "fgd"];

    /// A built-in preset by name, or a preset file by path.
    ///
    /// # Errors
    /// [`PresetError`] where there is none, or it does not parse.
    pub fn load(name_or_path: &str) -> Result<Self, PresetError> {
        match name_or_path {
            "wharf" => Self::parse(include_str!("../../../presets/wharf.toml"), name_or_path),
            "muri" => Self::parse(include_str!("../../../presets/muri.toml"), name_or_path),
            "blox" => Self::parse(include_str!("../../../presets/blox.toml"), name_or_path),
            "gavel" => Self::parse(include_str!("../../../presets/gavel.toml"), name_or_path),
            "sia" => Self::parse(include_str!("../../../presets/sia.toml"), name_or_path),
            "crius" => Self::parse(include_str!("../../../presets/crius.toml"), name_or_path),
            "fgd" => Self::parse(include_str!("../../../presets/fgd.toml"), name_or_path),
            path if std::path::Path::new(path).is_file() => {
                let text = std::fs::read_to_string(path)
                    .map_err(|source| PresetError::Read { path: path.to_owned(), source })?;
                Self::parse(&text, path)
            }
            name => Err(PresetError::Unknown { name: name.to_owned() }),
        }
    }

    fn parse(text: &str, path: &str) -> Result<Self, PresetError> {
        let file: PresetFile =
            toml::from_str(text).map_err(|source| PresetError::Parse { path: path.to_owned(), source })?;
        let mechanism = match file.mechanism {
            MechanismName::Events | MechanismName::Rounds => {
                let numbers = table(file.wharf, path, "events", "wharf")?;
                let rules = Rules::new(&numbers, file.mechanism)
                    .map_err(|source| PresetError::Value { path: path.to_owned(), source })?;
                PresetMechanism::Wharf(rules)
            }
            MechanismName::Muri => published(file.muri, path, "muri")?,
            MechanismName::Blox => published(file.blox, path, "blox")?,
            MechanismName::Gavel => published(file.gavel, path, "gavel")?,
            MechanismName::Sia => published(file.sia, path, "sia")?,
            MechanismName::Crius => published(file.crius, path, "crius")?,
            MechanismName::Fgd => published(file.fgd, path, "fgd")?,
        };
        Ok(Self { name: file.name, about: file.about, text: text.to_owned(), mechanism })
    }

    /// Whether jobs are requests for CPUs, memory and parts of devices, and nothing else.
    pub fn packs_portions(&self) -> bool {
        matches!(&self.mechanism, PresetMechanism::Published(mechanism) if mechanism.packs_portions())
    }

    /// The format that traces are read in, where it does not follow from their content.
    pub fn trace_format(&self) -> Option<Format> {
        self.packs_portions().then_some(Format::OPENB_PODS)
    }

    /// Wharf's own rules; none under the mechanism of a published simulator.
    pub fn rules(&self) -> Option<&Rules> {
        match &self.mechanism {
            PresetMechanism::Wharf(rules) => Some(rules),
            PresetMechanism::Published(_) => None,
        }
    }
}

/// A mechanism's own table of a preset.
fn table<T>(
    table: Option<T>,
    path: &str,
    mechanism: &'static str,
    name: &'static str,
) -> Result<T, PresetError> {
    table.ok_or_else(|| PresetError::MissingTable { path: path.to_owned(), mechanism, table: name })
}

fn published<M: Mechanism + 'static>(
    numbers: Option<M>,
    path: &str,
    name: &'static str,
) -> Result<PresetMechanism, PresetError> {
    Ok(PresetMechanism::Published(Arc::new(table(numbers, path, name, name)?)))
}

impl RulesFile {
    /// The numbers as settings, so that a file is checked by the same rules as `--set`.
    fn as_settings(&self) -> Settings {
        let mut settings = Settings::default();
        for (key, value) in [
            ("restart_s", self.restart_s),
            ("checkpoint_interval_s", self.checkpoint_interval_s),
            ("spread_slowdown", self.spread_slowdown),
            ("switch_slowdown", self.switch_slowdown),
            ("node_mtbf_h", self.node_mtbf_h),
            ("node_repair_h", self.node_repair_h),
            ("round_s", self.round_s),
        ] {
            settings.set(key, &value.to_string());
        }
        settings.set("placement", &self.placement);
        settings
    }
}

impl Rules {
    /// What `--set` can override, each with what it takes.
    pub const SETTINGS: &[(&str, &str)] = &[
        ("mechanism", "events or rounds"),
        ("round_s", "seconds above 0"),
        ("restart_s", "seconds of at least 0"),
        ("checkpoint_interval_s", "seconds above 0"),
        ("spread_slowdown", "a fraction of at least 0"),
        ("switch_slowdown", "a fraction of at least 0"),
        ("placement", "consolidated, random, best-fit or topology-aware"),
        ("node_mtbf_h", "hours of at least 0 (0: nodes do not fail)"),
        ("node_repair_h", "hours above 0"),
        ("failures", "a CSV file: time_s,node,event with event `down` or `up`"),
    ];

    fn new(file: &RulesFile, mechanism: MechanismName) -> Result<Self, BadSetting> {
        let unchecked = Self {
            in_rounds: matches!(mechanism, MechanismName::Rounds),
            round_s: file.round_s,
            costs: Costs {
                restart_s: file.restart_s,
                spread_slowdown: file.spread_slowdown,
                switch_slowdown: file.switch_slowdown,
                interleave_factors: file.interleave_factors,
            },
            checkpoint_interval_s: file.checkpoint_interval_s,
            placement: Strategy::default(),
            node_mtbf_h: file.node_mtbf_h,
            node_repair_h: file.node_repair_h,
        };
        unchecked.with(&file.as_settings())
    }

    /// When the policy is called.
    pub fn cadence(&self) -> Cadence {
        if self.in_rounds { Cadence::Rounds { period_s: self.round_s } } else { Cadence::Events }
    }

    /// These numbers with overrides.
    ///
    /// # Errors
    /// [`BadSetting`] names the first override that is out of its range.
    pub fn with(&self, settings: &Settings) -> Result<Self, BadSetting> {
        let expected = |key: &str| {
            Self::SETTINGS.iter().find(|(name, _)| *name == key).map_or("", |&(_, expected)| expected)
        };
        let at_least_0 = |key: &str, default: f64| {
            settings.parsed(key, default, expected(key), |value: &f64| value.is_finite() && *value >= 0.0)
        };
        let above_0 = |key: &str, default: f64| {
            settings.parsed(key, default, expected(key), |value: &f64| value.is_finite() && *value > 0.0)
        };
        Ok(Self {
            in_rounds: settings.choice(
                "mechanism",
                &[("events", false), ("rounds", true)],
                self.in_rounds,
            )?,
            round_s: above_0("round_s", self.round_s)?,
            costs: Costs {
                restart_s: at_least_0("restart_s", self.costs.restart_s)?,
                spread_slowdown: at_least_0("spread_slowdown", self.costs.spread_slowdown)?,
                switch_slowdown: at_least_0("switch_slowdown", self.costs.switch_slowdown)?,
                interleave_factors: self.costs.interleave_factors,
            },
            checkpoint_interval_s: above_0("checkpoint_interval_s", self.checkpoint_interval_s)?,
            placement: settings.choice("placement", &Strategy::ALL, self.placement)?,
            node_mtbf_h: at_least_0("node_mtbf_h", self.node_mtbf_h)?,
            node_repair_h: above_0("node_repair_h", self.node_repair_h)?,
        })
    }
}
