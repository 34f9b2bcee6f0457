//! Single measurements of `wharf profile run`, as they were taken: what speeds and communication times come from.

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
    /// `operator`, `step`, `collective` or `plan`.
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
}

/// Of the step's time at least so much goes into what are no products: where products alone seem to take all of it, they were
/// disturbed.
const OTHER_SHARE_MIN: f64 = 0.1;

impl Reached {
    /// What operators and steps of a model on devices of a type say; `None` where there are no steps, or no products.
    #[must_use]
    pub fn of<'a>(measured: impl Iterator<Item = &'a Measured> + Clone) -> Option<Self> {
        let step = measured.clone().filter(|one| one.subject.kind == "step").last()?;
        let operators = || measured.clone().filter(|one| one.subject.kind == "operator");
        let products = || operators().filter(|one| one.is_product);
        let sum = |value: fn(&Measured) -> f64| {
            products().map(|one| f64::from(one.times) * value(one)).sum::<f64>()
        };
        let (flop, alone_s) = (sum(|one| one.flop), sum(|one| one.seconds));
        let product_s = alone_s.min(step.seconds * (1.0 - OTHER_SHARE_MIN));
        let kernel_s = operators().map(|one| one.seconds).fold(f64::INFINITY, f64::min);
        let is_usable = flop > 0.0 && product_s > 0.0 && step.bytes > 0.0;
        is_usable.then(|| Self {
            product_flop_per_s: flop / product_s,
            bytes_per_s: step.bytes / (step.seconds - product_s),
            kernel_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(kind: &str, seconds: f64, times: u32, [flop, bytes]: [f64; 2]) -> Measured {
        let subject = Subject { kind: kind.to_owned(), ..Subject::default() };
        let is_product = kind == "operator" && flop > bytes;
        Measured { subject, seconds, times, flop, bytes, is_product, ..Measured::default() }
    }

    #[test]
    fn a_step_and_its_products_tell_what_a_device_reaches() {
        let rows = [
            measured("operator", 0.5, 4, [100.0, 1.0]),
            measured("operator", 0.01, 7, [1.0, 50.0]),
            measured("step", 3.0, 1, [420.0, 800.0]),
        ];
        let reached = Reached::of(rows.iter()).unwrap();
        assert_eq!(reached, Reached { product_flop_per_s: 200.0, bytes_per_s: 800.0, kernel_s: 0.01 });
        assert_eq!(Reached::of(rows[..2].iter()), None, "there is no step");
        // Products that were disturbed do not leave the rest without any time.
        let odd = [measured("operator", 5.0, 1, [100.0, 1.0]), measured("step", 1.0, 1, [1.0, 8.0])];
        let reached = Reached::of(odd.iter()).unwrap();
        assert!((reached.bytes_per_s - 80.0).abs() < 1e-9, "{reached:?}");
    }
}
