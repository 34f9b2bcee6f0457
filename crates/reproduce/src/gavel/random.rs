//! Python's `random.Random` (3.11), as far as the published simulator draws from it: equal seeds give equal draws.
//!
//! The generator is the Mersenne Twister (Matsumoto and Nishimura, 1998).

const SIZE: usize = 624;
const SHIFT: usize = 397;

/// A stream of draws.
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: Vec<u32>,
    next: usize,
}

impl Random {
    /// The stream of a whole number.
    pub(super) fn new(seed: u64) -> Self {
        let low = seed as u32;
        let high = (seed >> 32) as u32;
        let key: &[u32] = if high == 0 { &[low] } else { &[low, high] };
        Self { state: mixed(key), next: SIZE }
    }

    fn word(&mut self) -> u32 {
        if self.next == SIZE {
            self.refill();
            self.next = 0;
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    fn refill(&mut self) {
        for place in 0..SIZE {
            let joined = (self.state[place] & 0x8000_0000) | (self.state[(place + 1) % SIZE] & 0x7fff_ffff);
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[place] = self.state[(place + SHIFT) % SIZE] ^ (joined >> 1) ^ odd;
        }
    }

    /// A number below a bound, which is at least 1: as many bits as the bound has, until they are below it.
    pub(super) fn below(&mut self, bound: u32) -> usize {
        let bits = u32::BITS - bound.leading_zeros();
        loop {
            let drawn = self.word() >> (u32::BITS - bits);
            if drawn < bound {
                return drawn as usize;
            }
        }
    }

    /// Puts items into a random order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for place in (1..items.len()).rev() {
            let other = self.below(place as u32 + 1);
            items.swap(place, other);
        }
    }

    /// Two different places of a list, in the order drawn.
    pub(super) fn pair(&mut self, count: usize) -> [usize; 2] {
        /// Up to so many items Python draws from a copy of the list, from which what is drawn is taken out.
        const COPIED_MAX: usize = 21;
        let count = count as u32;
        let first = self.below(count);
        if count as usize <= COPIED_MAX {
            let drawn = self.below(count - 1);
            let second = if drawn == first { count as usize - 1 } else { drawn };
            return [first, second];
        }
        loop {
            let second = self.below(count);
            if second != first {
                return [first, second];
            }
        }
    }
}

/// The state that a key of several words begins with.
fn mixed(key: &[u32]) -> Vec<u32> {
    let mut state = vec![0_u32; SIZE];
    state[0] = 19_650_218;
    for place in 1..SIZE {
        state[place] = 1_812_433_253_u32.wrapping_mul(folded(&state, place)).wrapping_add(place as u32);
    }
    let mut place = 1;
    for step in 0..SIZE.max(key.len()) {
        let from = step % key.len();
        let mix = state[place] ^ folded(&state, place).wrapping_mul(1_664_525);
        state[place] = mix.wrapping_add(key[from]).wrapping_add(from as u32);
        place = advance(&mut state, place);
    }
    for _ in 1..SIZE {
        let mix = state[place] ^ folded(&state, place).wrapping_mul(1_566_083_941);
        state[place] = mix.wrapping_sub(place as u32);
        place = advance(&mut state, place);
    }
    state[0] = 0x8000_0000;
    state
}

/// The word before a place, its high bits folded in.
fn folded(state: &[u32], place: usize) -> u32 {
    state[place - 1] ^ (state[place - 1] >> 30)
}

/// The next place; the first word is never mixed, it only follows the last.
fn advance(state: &mut [u32], place: usize) -> usize {
    if place + 1 < SIZE {
        return place + 1;
    }
    state[0] = state[SIZE - 1];
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python 3.11 draws: words, `randrange` of 1, 2, 3, 3, 7, 10 and 1000, and `sample(range(n), 2)` for n of 2, 3,
    /// 10, 21, 22, 30 and 60.
    type Drawn = (u64, [u32; 4], [usize; 7], [[usize; 2]; 7]);
    const DRAWN: [Drawn; 4] = [
        (
            0,
            [3_626_764_237, 1_654_615_998, 3_255_389_356, 3_823_568_514],
            [0, 1, 0, 1, 4, 7, 414],
            [[1, 0], [0, 1], [8, 7], [12, 9], [15, 11], [18, 28], [58, 13]],
        ),
        (
            5,
            [2_675_342_405, 1_097_127_993, 3_185_950_873, 1_539_898_300],
            [0, 1, 2, 2, 5, 8, 29],
            [[1, 0], [2, 0], [7, 3], [20, 1], [5, 3], [11, 15], [55, 15]],
        ),
        (
            42,
            [2_746_317_213, 478_163_327, 107_420_369, 3_184_935_163],
            [0, 0, 2, 1, 1, 3, 142],
            [[0, 1], [2, 1], [3, 9], [4, 3], [21, 17], [2, 18], [27, 2]],
        ),
        (
            (1 << 40) + 7,
            [2_635_837_658, 3_209_733_218, 3_500_038_837, 4_028_389_051],
            [0, 1, 2, 0, 4, 6, 533],
            [[1, 0], [2, 0], [8, 6], [16, 11], [12, 14], [14, 27], [57, 23]],
        ),
    ];

    #[test]
    fn draws_are_those_of_python() {
        for (seed, words, numbers, pairs) in DRAWN {
            let mut random = Random::new(seed);
            assert_eq!(words.map(|_| random.word()), words, "words of {seed}");
            let mut random = Random::new(seed);
            assert_eq!(
                [1, 2, 3, 3, 7, 10, 1000].map(|bound| random.below(bound)),
                numbers,
                "numbers of {seed}"
            );
            let mut random = Random::new(seed);
            assert_eq!([2, 3, 10, 21, 22, 30, 60].map(|count| random.pair(count)), pairs, "pairs of {seed}");
        }
        let mut random = Random::new(1);
        assert_eq!((0..=1300).map(|_| random.word()).last(), Some(724_121_074), "the state is refilled");
    }

    #[test]
    fn orders_are_those_of_python() {
        for (seed, short, long) in [
            (0, [[0, 2, 1], [2, 1, 0], [0, 1, 2], [0, 2, 1]], [6, 0, 3, 5, 1, 4, 2, 7]),
            (5, [[0, 1, 2], [0, 1, 2], [1, 0, 2], [2, 0, 1]], [4, 6, 5, 3, 2, 7, 1, 0]),
            (42, [[1, 0, 2], [2, 1, 0], [1, 2, 0], [1, 2, 0]], [7, 2, 5, 6, 0, 3, 4, 1]),
        ] {
            let mut random = Random::new(seed);
            let drawn = short.map(|_| {
                let mut items = [0, 1, 2];
                random.shuffle(&mut items);
                items
            });
            assert_eq!(drawn, short, "{seed}");
            let mut items = [0, 1, 2, 3, 4, 5, 6, 7];
            random.shuffle(&mut items);
            assert_eq!(items, long, "{seed}");
        }
    }
}
