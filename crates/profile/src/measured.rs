//! Single measurements of `wharf profile run`, as they were taken: what speeds and communication times come from.

use wharf_planner::model::Kind;
use wharf_planner::{LayerTimes, Part};

/// One measurement. The least time of all rounds counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// What it is of.
    pub subject: Subject,
    /// Seconds of one time.
    pub seconds: f64,
    /// How many rounds it was visited in.
    pub rounds: u32,
    /// How often a training step has it.
    pub times: u32,
    /// Floating-point operations of one time.
    pub flop: f64,
    /// What one time moves to and from memory.
    pub bytes: f64,
    /// Whether it is a product of matrices or a convolution.
    pub is_product: bool,
    /// On which machine.
    pub machine: String,
    /// With which versions.
    pub versions: String,
    /// When, as RFC 3339 writes it.
    pub recorded: String,
}

/// What was measured: equal subjects are not measured twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// `operator`, `step`, `layer`, `collective` or `plan`.
    pub kind: String,
    /// Which one, with everything that its time depends on.
    pub key: String,
    /// Of which model; empty where it is of none.
    pub model: String,
    /// On devices of which type.
    pub device_type: String,
    /// How many devices were at work.
    pub devices: u32,
}

/// What the operators of a model's step reach on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// In products, in operations a second.
    pub product_flop_per_s: f64,
    /// In everything else, in bytes a second.
    pub bytes_per_s: f64,
    /// The quickest operator, in seconds: what it takes to start one.
    pub kernel_s: f64,
    /// What most operations of products are of.
    pub kind: Kind,
}

/// How keys of convolutions begin.
const CONVOLUTION: &str = "conv_general_dilated ";

/// Of the step's time at least so much goes into what are no products: where products alone seem to take all of it, they were
/// disturbed.
const OTHER_SHARE_MIN: f64 = 0.1;

impl Reached {
    /// What the operators of a step and the step itself say; `None` where there is no step, or no products.
    #[must_use]
    pub fn of<'a>(measured: impl Iterator<Item = &'a Measured> + Clone) -> Option<Self> {
        let step = measured.clone().find(|one| one.subject.kind == "step")?;
        let operators = || measured.clone().filter(|one| one.subject.kind == "operator");
        let products = || operators().filter(|one| one.is_product);
        let sum = |value: fn(&Measured) -> f64| {
            products().map(|one| f64::from(one.times) * value(one)).sum::<f64>()
        };
        let (flop, alone_s) = (sum(|one| one.flop), sum(|one| one.seconds));
        let convolved = sum(|one| if one.subject.key.starts_with(CONVOLUTION) { one.flop } else { 0.0 });
        let product_s = alone_s.min(step.seconds * (1.0 - OTHER_SHARE_MIN));
        let kernel_s = operators().map(|one| one.seconds).fold(f64::INFINITY, f64::min);
        let is_usable = flop > 0.0 && product_s > 0.0 && step.bytes > 0.0;
        is_usable.then(|| Self {
            product_flop_per_s: flop / product_s,
            bytes_per_s: step.bytes / (step.seconds - product_s),
            kernel_s,
            kind: if convolved > flop / 2.0 { Kind::Convolution } else { Kind::Matrix },
        })
    }
}

/// What was measured of a model's layers on a type of devices, with as many of them at work as ever; none where nothing was.
#[must_use]
pub fn layer_times(
    rows: &[Measured],
    model: &str,
    device_type: &str,
    is_recomputing: bool,
) -> Option<LayerTimes> {
    let is_own = |one: &&Measured| {
        let Subject { kind, model: of, device_type: on, .. } = &one.subject;
        kind == "layer" && of == model && on == device_type
    };
    let own = || rows.iter().filter(is_own);
    let most = own().map(|one| one.subject.devices).max()?;
    let mut times = LayerTimes::default();
    for one in own().filter(|one| one.subject.devices == most) {
        let (key, is_kept) = match one.subject.key.strip_suffix(NOT_RECOMPUTING) {
            Some(key) => (key, true),
            None => (one.subject.key.as_str(), false),
        };
        if let Some(parameters) = update(key) {
            times.insert_update(parameters, one.seconds);
        }
        if let Some((part, samples, tensor)) = layer(key).filter(|_| is_kept != is_recomputing) {
            times.insert(part, tensor, samples, one.seconds);
        }
    }
    Some(times)
}

/// How keys of measurements end in which the backward pass had all that it needed.
pub const NOT_RECOMPUTING: &str = ", nothing computed anew";

/// The number of `update, 1000 parameters`.
fn update(key: &str) -> Option<u64> {
    key.strip_prefix("update, ")?.strip_suffix(" parameters")?.parse().ok()
}

/// Part, samples and devices that share it, of `blocks, 4 samples, 1/2`.
fn layer(key: &str) -> Option<(Part, u32, u32)> {
    let mut words = key.split(", ");
    let part = Part::from_name(words.next()?)?;
    let samples = words.next()?.strip_suffix(" samples")?.parse().ok()?;
    Some((part, samples, words.next()?.strip_prefix("1/")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_found_by_model_type_and_way() {
        let row = |key: &str, model: &str, devices, seconds| {
            let (kind, key, model) = ("layer".to_owned(), key.to_owned(), model.to_owned());
            let subject = Subject { kind, key, model, device_type: "host".to_owned(), devices };
            Measured { subject, seconds, ..Measured::default() }
        };
        let rows = [
            row("blocks, 1 samples, 1/2", "net", 8, 2.0),
            row("blocks, 4 samples, 1/2", "net", 8, 5.0),
            row("blocks, 4 samples, 1/2", "net", 4, 1.0),
            row("blocks, 4 samples, 1/2", "other", 8, 1.0),
            row("blocks, 4 samples, 1/2, nothing computed anew", "net", 8, 4.0),
            row("update, 10 parameters", "net", 8, 1.0),
            row("update, 20 parameters", "net", 8, 2.0),
            row("an unknown format", "net", 8, 1.0),
        ];
        let times = layer_times(&rows, "net", "host", true).unwrap_or_default();
        assert_eq!(times.time_s(Part::Block, 2, 2.0), Some(3.0));
        assert_eq!(times.time_s(Part::Block, 1, 2.0), None);
        assert_eq!(times.update_s(15.0), Some(1.5));
        let kept = layer_times(&rows, "net", "host", false).unwrap_or_default();
        assert_eq!(kept.time_s(Part::Block, 2, 4.0), Some(4.0));
        assert_eq!(kept.time_s(Part::Block, 2, 2.0), None, "one point is no line");
        assert_eq!(layer_times(&rows, "net", "a40", true), None);
    }

    fn measured(kind: &str, seconds: f64, times: u32, [flop, bytes]: [f64; 2]) -> Measured {
        let subject = Subject { kind: kind.to_owned(), ..Subject::default() };
        let is_product = kind == "operator" && flop > bytes;
        Measured { subject, seconds, times, flop, bytes, is_product, ..Measured::default() }
    }

    #[test]
    fn step_and_its_products_give_the_throughput_of_a_device() {
        let rows = [
            measured("operator", 0.5, 4, [100.0, 1.0]),
            measured("operator", 0.01, 7, [1.0, 50.0]),
            measured("step", 3.0, 1, [420.0, 800.0]),
        ];
        let reached = Reached::of(rows.iter()).unwrap();
        let kind = Kind::Matrix;
        assert_eq!(reached, Reached { product_flop_per_s: 200.0, bytes_per_s: 800.0, kernel_s: 0.01, kind });
        assert_eq!(Reached::of(rows[..2].iter()), None, "there is no step");
        let mut convolved = rows.clone();
        convolved[0].subject.key = "conv_general_dilated f32[8] -> f32[8] #0".to_owned();
        assert_eq!(Reached::of(convolved.iter()).unwrap().kind, Kind::Convolution);
        // Products that were disturbed do not leave the rest without any time.
        let odd = [measured("operator", 5.0, 1, [100.0, 1.0]), measured("step", 1.0, 1, [1.0, 8.0])];
        let reached = Reached::of(odd.iter()).unwrap();
        assert!((reached.bytes_per_s - 80.0).abs() < 1e-9, "{reached:?}");
    }
}
