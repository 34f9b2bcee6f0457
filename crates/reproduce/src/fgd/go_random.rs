//! The generator of Go's `math/rand`, as its version 1 guarantees it: an additive lagged Fibonacci sequence of 64-bit numbers.
//!
//! Go mixes a seed with a table of 607 numbers: the state of the same generator, seeded with 1, after 7.8e12 steps. The sequence is linear,
//! so that the state is computed here by raising `x` to that power modulo the characteristic polynomial, in place of the table.

/// A number is the sum of the ones so many steps before.
const LONG_LAG: usize = 607;
const SHORT_LAG: usize = 273;

/// Steps after which the state is the table.
const TABLE_STEPS: u64 = 7_800_000_000_000;

/// The modulus of the generator that spreads a seed.
const SPREAD_MODULUS: u64 = (1 << 31) - 1;

/// The last 607 numbers, by their index in Go's state: number `n` is at `(334 - n) mod 607`.
type State = [u64; LONG_LAG];

pub(super) struct GoRandom {
    state: State,
    tap: usize,
    feed: usize,
}

impl GoRandom {
    /// As `rand.Seed`.
    pub(super) fn new(seed: i64) -> Self {
        let mut state = table();
        for (number, spread) in state.iter_mut().zip(spread(seed, 20)) {
            *number ^= spread;
        }
        Self { state, tap: 0, feed: LONG_LAG - SHORT_LAG }
    }

    /// The next number of the sequence.
    pub(super) fn next(&mut self) -> u64 {
        let before = |index: usize| index.checked_sub(1).unwrap_or(LONG_LAG - 1);
        self.tap = before(self.tap);
        self.feed = before(self.feed);
        let number = self.state[self.feed].wrapping_add(self.state[self.tap]);
        self.state[self.feed] = number;
        number
    }

    /// As `rand.Int63`.
    fn int63(&mut self) -> u64 {
        self.next() & (u64::MAX >> 1)
    }

    /// As `rand.Intn` for fewer than 2^31 values; 0 where there is none.
    pub(super) fn below(&mut self, values: usize) -> usize {
        const RANGE: u64 = 1 << 31;
        let Some(values) = u64::try_from(values).ok().filter(|&values| values > 0) else { return 0 };
        if values.is_power_of_two() {
            return ((self.int63() >> 32) & (values - 1)) as usize;
        }
        // Numbers of the last, incomplete run of all values are drawn again.
        let limit = RANGE - RANGE % values;
        loop {
            let number = self.int63() >> 32;
            if number < limit {
                return (number % values) as usize;
            }
        }
    }

    /// As `rand.Shuffle`, which draws in another way.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let values = last as u64 + 1;
            let mut scaled = self.high_32() * values;
            if scaled & u64::from(u32::MAX) < values {
                let uneven = (1 << 32) % values;
                while scaled & u64::from(u32::MAX) < uneven {
                    scaled = self.high_32() * values;
                }
            }
            items.swap(last, (scaled >> 32) as usize);
        }
    }

    /// As `rand.Uint32`.
    fn high_32(&mut self) -> u64 {
        self.int63() >> 31
    }

    /// As `rand.Perm`.
    pub(super) fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut items = Vec::with_capacity(count);
        for next in 0..count {
            let place = self.below(next + 1);
            items.push(next);
            items.swap(place, next);
        }
        items
    }
}

/// 607 numbers from a seed, each of three that are `shift` bits apart.
fn spread(seed: i64, shift: u32) -> impl Iterator<Item = u64> {
    /// The first ones are thrown away.
    const SKIPPED: usize = 20;
    const FACTOR: u64 = 48_271;
    const IN_PLACE_OF_0: u64 = 89_482_311;
    let seed = seed.rem_euclid(SPREAD_MODULUS as i64) as u64;
    let mut last = if seed == 0 { IN_PLACE_OF_0 } else { seed };
    let mut draw = move || {
        last = last * FACTOR % SPREAD_MODULUS;
        last
    };
    (0..SKIPPED).for_each(|_| {
        draw();
    });
    (0..LONG_LAG).map(move |_| draw() << (2 * shift) ^ draw() << shift ^ draw())
}

/// The index in the state of the number that follows `number` others, counted from the first of an initial state.
fn index_of(number: u64) -> usize {
    const LONG: u64 = LONG_LAG as u64;
    // The first is number -606.
    let place = (2 * LONG - SHORT_LAG as u64 + (LONG - 1) - number % LONG) % LONG;
    place as usize
}

/// Go's table.
fn table() -> State {
    let start: Vec<u64> = spread(1, 10).collect();
    // In the order of the sequence.
    let first: Vec<u64> = (0..LONG_LAG as u64).map(|number| start[index_of(number)]).collect();
    let mut power = [0; LONG_LAG];
    power[0] = 1;
    for bit in (0..=TABLE_STEPS.ilog2()).rev() {
        power = squared(&power);
        if TABLE_STEPS >> bit & 1 == 1 {
            power = times_x(&power);
        }
    }
    let mut state = [0; LONG_LAG];
    for number in TABLE_STEPS..TABLE_STEPS + LONG_LAG as u64 {
        let terms = power.iter().zip(&first).map(|(factor, term)| factor.wrapping_mul(*term));
        state[index_of(number)] = terms.fold(0, u64::wrapping_add);
        power = times_x(&power);
    }
    state
}

/// The product with `x`, modulo `x^607 - x^334 - 1`.
fn times_x(polynomial: &State) -> State {
    let mut product = *polynomial;
    product.rotate_right(1);
    let carried = product[0];
    product[LONG_LAG - SHORT_LAG] = product[LONG_LAG - SHORT_LAG].wrapping_add(carried);
    product
}

/// The square, modulo the same.
fn squared(polynomial: &State) -> State {
    let mut product = [0u64; 2 * LONG_LAG];
    for (shift, factor) in polynomial.iter().enumerate() {
        for (sum, term) in product[shift..].iter_mut().zip(polynomial) {
            *sum = sum.wrapping_add(factor.wrapping_mul(*term));
        }
    }
    for place in (LONG_LAG..product.len()).rev() {
        let carried = product[place];
        for target in [place - LONG_LAG, place - SHORT_LAG] {
            product[target] = product[target].wrapping_add(carried);
        }
    }
    let mut rest = [0; LONG_LAG];
    rest.copy_from_slice(&product[..LONG_LAG]);
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_that_of_go() {
        let table = table().map(|number| number as i64);
        assert_eq!(
            table[..3],
            [-4_181_792_142_133_755_926, -4_576_982_950_128_230_565, 1_395_769_623_340_756_751]
        );
        assert_eq!(
            table[LONG_LAG - 3..],
            [8_382_142_935_188_824_023, 9_103_922_860_780_351_547, 4_152_330_101_494_654_406]
        );
    }

    #[test]
    fn numbers_are_those_of_go() {
        // `rand.Seed(1)`, then `rand.Intn(100)`: the numbers of Go's tour.
        let mut random = GoRandom::new(1);
        let numbers: Vec<usize> = (0..10).map(|_| random.below(100)).collect();
        assert_eq!(numbers, [81, 87, 47, 59, 81, 18, 25, 40, 56, 0]);
    }

    #[test]
    fn shuffles_and_permutations_hold_every_item_once() {
        for count in [0, 1, 2, 7, 64, 1213] {
            let mut random = GoRandom::new(42);
            let mut items: Vec<usize> = (0..count).collect();
            random.shuffle(&mut items);
            let permutation = random.permutation(count);
            for mut found in [items, permutation] {
                found.sort_unstable();
                assert!(found.iter().copied().eq(0..count));
            }
        }
        let seeds = [0, 1 - (1 << 31), (1 << 31) - 1];
        // Seeds that are equal modulo 2^31 - 1 are one.
        assert_eq!(seeds.map(|seed| GoRandom::new(seed).next())[1..], [GoRandom::new(0).next(); 2]);
    }
}
