//! What moving data between the devices of a gang costs: times that were measured beforehand, and what lies between and beyond
//! them.

use std::collections::BTreeMap;
use std::sync::Arc;

/// From this largest measured size on, what lies beyond it takes more than its share.
const CROWDED_ELEMENTS: u64 = 1 << 27;

/// How much more, for each time that the largest size goes into it.
const CROWDED_FACTOR: f64 = 1.1;

/// What the devices do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// One device gives its data to another.
    Send,
    /// All get the sum.
    AllReduce,
    /// All get everything.
    AllGather,
    /// Each gets its part of the sum.
    ReduceScatter,
    /// Each gets its part from every other.
    AllToAll,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Send, Self::AllReduce, Self::AllGather, Self::ReduceScatter, Self::AllToAll];

    /// How tables write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::AllReduce => "all-reduce",
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllToAll => "all-to-all",
        }
    }

    /// The operation of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }
}

/// How many bits an element has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 32, as in the tables.
    Single,
    /// 16.
    Half,
}

impl Precision {
    /// So many elements, as elements of the tables.
    pub fn in_table(self, elements: u64) -> f64 {
        match self {
            Self::Single => elements as f64,
            Self::Half => elements as f64 / 2.0,
        }
    }
}

/// Between which devices data goes, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The type of all devices.
    pub device_type: Arc<str>,
    /// Hosts.
    pub hosts: u32,
    /// Devices on each.
    pub per_host: u32,
    /// Whether hosts are connected by InfiniBand.
    pub is_infiniband: bool,
    /// What they do.
    pub operation: Operation,
    /// Which devices do it with one another, such as `[[0,1],[2,3]]`; may be empty for [`Operation::Send`].
    pub groups: Arc<str>,
}

/// Seconds by how many elements of 32 bits each device has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve(BTreeMap<u64, f64>);

impl Curve {
    /// What was measured, by elements.
    pub fn points(&self) -> impl ExactSizeIterator<Item = (u64, f64)> {
        self.0.iter().map(|(&elements, &seconds)| (elements, seconds))
    }

    /// Seconds for so many elements of 32 bits; `None` where nothing was measured.
    ///
    /// Up to the smallest measured size it is that size's time, then on the line between two sizes. Beyond the largest, as often
    /// as that goes into it and the rest on top; where the largest is 2^27 or more, a tenth more for each of those times.
    pub fn time_s(&self, elements: f64) -> Option<f64> {
        let (&largest, &largest_s) = self.0.last_key_value()?;
        if elements <= largest as f64 {
            return self.within_s(elements);
        }
        let times = (elements / largest as f64).floor();
        let rest_s = self.within_s(elements % largest as f64)?;
        let all_s = times * largest_s + rest_s;
        Some(if largest >= CROWDED_ELEMENTS { all_s * CROWDED_FACTOR.powf(times) } else { all_s })
    }

    fn within_s(&self, elements: f64) -> Option<f64> {
        let (&smallest, &smallest_s) = self.0.first_key_value()?;
        if elements <= smallest as f64 {
            return Some(smallest_s);
        }
        let (&above, &above_s) = self.0.range(elements.ceil() as u64..).next()?;
        let (&below, &below_s) = self.0.range(..above).next_back()?;
        let part = (elements - below as f64) / (above as f64 - below as f64);
        Some(below_s + (above_s - below_s) * part)
    }
}

/// All that was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommTables(BTreeMap<Route, Curve>);

impl CommTables {
    /// Notes the seconds for so many elements of 32 bits, and gives back what was there.
    pub fn insert(&mut self, route: Route, elements: u64, seconds: f64) -> Option<f64> {
        self.0.entry(route).or_default().0.insert(elements, seconds)
    }

    /// The curve of a route.
    pub fn curve(&self, route: &Route) -> Option<&Curve> {
        self.0.get(route)
    }

    /// Seconds for so many elements; `None` where nothing is known of the route.
    pub fn time_s(&self, route: &Route, elements: u64, precision: Precision) -> Option<f64> {
        self.curve(route)?.time_s(precision.in_table(elements))
    }

    /// All curves, by route.
    pub fn curves(&self) -> impl ExactSizeIterator<Item = (&Route, &Curve)> {
        self.0.iter()
    }

    /// Takes in the points of other tables, which count more.
    pub fn add(&mut self, other: Self) {
        for (route, curve) in other.0 {
            self.0.entry(route).or_default().0.extend(curve.0);
        }
    }

    /// Keeps the routes that are wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(&Route) -> bool) {
        self.0.retain(|route, _| is_wanted(route));
    }

    /// How many points there are.
    pub fn len(&self) -> usize {
        self.0.values().map(|curve| curve.0.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::*;

    fn route() -> Route {
        Route {
            device_type: "a40".into(),
            hosts: 1,
            per_host: 2,
            is_infiniband: false,
            operation: Operation::AllReduce,
            groups: "[[0,1]]".into(),
        }
    }

    fn tables(points: &[(u64, f64)]) -> CommTables {
        let mut tables = CommTables::default();
        for &(elements, seconds) in points {
            tables.insert(route(), elements, seconds);
        }
        tables
    }

    #[test]
    fn times_lie_on_the_curve_and_beyond_it() {
        let small = tables(&[(4, 1.0), (8, 2.0), (16, 6.0)]);
        let large = tables(&[(1, 0.5), (1 << 27, 10.0)]);
        let m = 1_u64 << 27;
        for (tables, elements, precision, expected) in [
            // Up to the smallest size.
            (&small, 0, Precision::Single, 1.0),
            (&small, 4, Precision::Single, 1.0),
            // Measured, and between.
            (&small, 8, Precision::Single, 2.0),
            (&small, 6, Precision::Single, 1.5),
            (&small, 12, Precision::Single, 4.0),
            (&small, 16, Precision::Single, 6.0),
            // 8 elements of half the bits are 4, and 13 of them 6.5.
            (&small, 8, Precision::Half, 1.0),
            (&small, 13, Precision::Half, 1.0 + 2.5 / 4.0),
            // Twice the largest and 12 more; twice the largest and nothing more, which costs as much as the smallest.
            (&small, 44, Precision::Single, 2.0 * 6.0 + 4.0),
            (&small, 32, Precision::Single, 2.0 * 6.0 + 1.0),
            // The largest is large: a tenth more each time.
            (&large, m, Precision::Single, 10.0),
            (&large, m + 1, Precision::Single, (10.0 + 0.5) * 1.1),
            (&large, 3 * m, Precision::Single, (30.0 + 0.5) * 1.1 * 1.1 * 1.1),
            (&large, 2 * m, Precision::Half, 10.0),
        ] {
            let found = tables.time_s(&route(), elements, precision).unwrap();
            assert!(
                (found - expected).abs() < 1e-9,
                "{elements} {precision:?}: {found}, expected {expected}"
            );
        }
    }

    #[test]
    fn nothing_is_known_of_other_routes() {
        let tables = tables(&[(4, 1.0)]);
        let other = Route { hosts: 2, ..route() };
        assert_eq!(tables.time_s(&other, 4, Precision::Single), None);
        assert_eq!(Curve::default().time_s(1.0), None);
        // One size stands for all.
        assert_eq!(tables.time_s(&route(), 9, Precision::Single), Some(3.0));
    }

    #[test]
    fn operations_have_names() {
        for operation in Operation::ALL {
            assert_eq!(Operation::from_name(operation.name()), Some(operation));
        }
        assert_eq!(Operation::from_name("broadcast"), None);
    }
}
