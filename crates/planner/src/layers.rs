//! What layers were measured to take: one microbatch forward and backward, by its samples and by how many devices share the layer.

use std::collections::BTreeMap;

/// Which part of a stack a layer is, as profilers measure them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// From samples to what blocks work on.
    First,
    /// One of the equal blocks.
    Block,
    /// From the last block to the loss.
    Last,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::First, Self::Block, Self::Last];

    /// As files write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Block => "blocks",
            Self::Last => "last",
        }
    }

    /// The part of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// Measured times of a model's parts on devices of one type, while all devices did the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerTimes {
    parts: BTreeMap<(Part, u32), Line>,
    updates: Line,
}

/// Seconds by how much there is to do.
type Line = BTreeMap<u64, f64>;

impl LayerTimes {
    /// Notes the seconds of a microbatch of so many samples, where so many devices share the part.
    pub fn insert(&mut self, part: Part, tensor: u32, samples: u32, time_s: f64) {
        self.parts.entry((part, tensor)).or_default().insert(samples.into(), time_s);
    }

    /// Notes the seconds of the optimizer's step for so many parameters.
    pub fn insert_update(&mut self, parameters: u64, time_s: f64) {
        self.updates.insert(parameters, time_s);
    }

    /// Seconds of the optimizer's step for so many parameters of a device.
    #[must_use]
    pub fn update_s(&self, parameters: f64) -> Option<f64> {
        on_line(&self.updates, parameters)
    }

    /// Seconds of a microbatch: as measured, on the line between two measured ones, and beyond them as the last two lie. None where one
    /// was measured, and not this.
    #[must_use]
    pub fn time_s(&self, part: Part, tensor: u32, samples: f64) -> Option<f64> {
        // Only blocks are shared out: whatever the others do, every device does.
        let tensor = if part == Part::Block { tensor } else { 1 };
        on_line(self.parts.get(&(part, tensor))?, samples)
    }
}

/// Between the two known points that are nearest. Beyond them noise must not make more to do take less time: the line continues no lower than the
/// last point, and before the first no lower than in proportion, no higher than it.
fn on_line(known: &Line, at: f64) -> Option<f64> {
    let mut ends = known.iter().map(|(&amount, &time_s)| (amount as f64, time_s));
    let (first, last) = (ends.next()?, known.last_key_value()?);
    let Some(mut above) = ends.next() else { return (first.0 == at).then_some(first.1) };
    let mut below = first;
    for next in ends {
        if above.0 >= at {
            break;
        }
        (below, above) = (above, next);
    }
    let slope = (above.1 - below.1) / (above.0 - below.0);
    let time_s = below.1 + slope * (at - below.0);
    Some(if at > *last.0 as f64 {
        time_s.max(*last.1)
    } else if at < first.0 {
        time_s.max(first.1 * at / first.0).min(first.1)
    } else {
        time_s
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::*;

    #[test]
    fn times_lie_on_the_line_between_those_that_were_measured() {
        let mut times = LayerTimes::default();
        for (samples, time_s) in [(1, 3.0), (2, 4.0), (8, 7.0)] {
            times.insert(Part::Block, 2, samples, time_s);
        }
        times.insert(Part::Last, 1, 1, 1.0);
        for (samples, expected) in
            [(1.0, 3.0), (1.5, 3.5), (2.0, 4.0), (4.0, 5.0), (8.0, 7.0), (16.0, 11.0), (0.5, 2.5)]
        {
            assert!((times.time_s(Part::Block, 2, samples).unwrap() - expected).abs() < 1e-12, "{samples}");
        }
        assert_eq!(times.time_s(Part::Block, 1, 2.0), None, "not measured so");
        assert_eq!(times.time_s(Part::Last, 1, 2.0), None, "one point is no line");
        assert_eq!(times.time_s(Part::Last, 1, 1.0), Some(1.0), "but it is one");
        times.insert(Part::Last, 1, 3, 2.0);
        assert_eq!(times.time_s(Part::Last, 8, 5.0), Some(3.0), "the last part is not shared out");
    }

    #[test]
    fn optimizer_time_follows_from_parameters() {
        let mut times = LayerTimes::default();
        assert_eq!(times.update_s(5.0), None);
        times.insert_update(10, 1.0);
        times.insert_update(20, 3.0);
        assert_eq!((times.update_s(15.0), times.update_s(30.0)), (Some(2.0), Some(5.0)));
        assert_eq!(times.update_s(1.0), Some(0.1), "never less than in proportion");
    }

    #[test]
    fn noise_does_not_make_more_to_do_take_less() {
        let mut times = LayerTimes::default();
        for (samples, time_s) in [(4, 8.0), (8, 5.0), (16, 4.0)] {
            times.insert(Part::Block, 1, samples, time_s);
        }
        let of = |samples| times.time_s(Part::Block, 1, samples).unwrap();
        assert_eq!((of(64.0), of(1000.0)), (4.0, 4.0), "no less than the largest that was measured");
        assert_eq!((of(2.0), of(16.0)), (8.0, 4.0));
    }

    #[test]
    fn parts_have_names() {
        for part in Part::ALL {
            assert_eq!(Part::from_name(part.name()), Some(part));
        }
        assert_eq!(Part::from_name("middle"), None);
    }
}
