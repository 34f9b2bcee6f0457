//! Square roots as the published results have them: by the power function of numpy's vector library on processors with 512-bit vectors,
//! which is off by the last bit for every fourth number. Programs whose solution hangs on that bit need it.
//!
//! Its way: a logarithm to base 2 as a sum of two numbers, half of it, and 2 to the power of that. What it takes from tables is computed
//! here by what those hold.

/// Steps of the table of logarithms between 1 and 2.
const STEPS: usize = 32;
/// Bits of its high parts behind the point.
const HIGH_BITS: u32 = 40;
/// Bits behind the point of what it is computed with.
const FIXED_BITS: u32 = 112;

/// First 16 bits of the numbers between 1/2 and 1 from which on the processor's estimate of the reciprocal is nearer to the
/// next lower step than to this one; the first for the step below 2.
const STEPS_BEGIN: [u64; STEPS] = [
    0x0206, 0x0627, 0x0a6a, 0x0ed0, 0x135d, 0x180f, 0x1cf2, 0x21fd, 0x2736, 0x2c9f, 0x3240, 0x3812, 0x3e25,
    0x446e, 0x4afe, 0x51d2, 0x58ef, 0x6057, 0x6817, 0x702d, 0x78a5, 0x8182, 0x8acd, 0x948a, 0x9ecb, 0xa98f,
    0xb4e9, 0xc0e0, 0xcd88, 0xdae6, 0xe915, 0xf823,
];

/// Of the logarithm: of the first power in two parts, of the second one, then from the highest power down to the rest of the second.
const LOG_FIRST: (u64, u64) = (0x3ff7_1547_652b_82fe, 0x3c77_77f3_ee5e_912f);
const LOG_SECOND: u64 = 0xbfe7_1547_652b_82fe;
const LOG_REST: [u64; 8] = [
    0x3fc4_8799_f537_4b96,
    0xbfc7_17e5_9a55_9f5d,
    0x3fca_6175_fca1_9d03,
    0xbfce_c709_bc8f_b8df,
    0x3fd2_776c_50f0_3272,
    0xbfd7_1547_652b_c9ea,
    0x3fde_c709_dc3a_03fc,
    0x3c63_6b5d_dffe_5b67,
];
/// Of 2 to the power of less than a sixteenth, from the highest power down to the first.
const POWER: [u64; 6] = [
    0x3f24_a1d7_f58c_2d59,
    0x3f55_d747_2783_d279,
    0x3f83_b2ad_1b14_ebaa,
    0x3fac_6b08_d4ad_8eb9,
    0x3fce_bfbd_ff84_554d,
    0x3fe6_2e42_fefa_398b,
];
/// 2 to the power of sixteenths.
const SIXTEENTHS: [f64; 16] = [
    1.0,
    1.044_273_782_427_413_8,
    1.090_507_732_665_257_7,
    1.138_788_634_756_691_6,
    1.189_207_115_002_721,
    1.241_857_812_073_484,
    1.296_839_554_651_009_6,
    1.354_255_546_936_892_7,
    std::f64::consts::SQRT_2,
    1.476_826_145_939_499_3,
    1.542_210_825_407_940_7,
    1.610_490_331_949_254_3,
    1.681_792_830_507_429,
    1.756_252_160_373_299_5,
    1.834_008_086_409_342_4,
    1.915_206_561_397_147_4,
];

/// Logarithms of the reciprocals of 1 + n/32 in two parts, more by 1 from 1.5 on.
const LOGARITHMS: [(f64, f64); STEPS] = logarithms();

/// Half of the natural logarithm of (base + number) / (base - number), in fixed point.
const fn half_logarithm(number: u128, base: u128) -> u128 {
    let mut power = (number << FIXED_BITS) / base;
    let (mut sum, mut count) = (power, 1);
    while power > 0 {
        power = power / (base * base) * (number * number)
            + power % (base * base) * (number * number) / (base * base);
        count += 2;
        sum += power / count;
    }
    sum
}

const fn logarithms() -> [(f64, f64); STEPS] {
    let mut out = [(0.0, 0.0); STEPS];
    let of_two = half_logarithm(1, 3);
    let mut step = 1;
    while step < STEPS {
        let rest = half_logarithm(step as u128, (2 * STEPS + step) as u128);
        let (mut bits, mut left, mut quotient) = (0, rest, 0_u128);
        while bits < FIXED_BITS {
            left *= 2;
            quotient = quotient * 2 + (left >= of_two) as u128;
            left -= if left >= of_two { of_two } else { 0 };
            bits += 1;
        }
        let value =
            if step >= STEPS / 2 { (1_i128 << FIXED_BITS) - quotient as i128 } else { -(quotient as i128) };
        let unit = 1_i128 << (FIXED_BITS - HIGH_BITS);
        let high = (value + unit / 2).div_euclid(unit);
        let scale = 1.0 / (1_u128 << HIGH_BITS) as f64;
        let low = (value - high * unit) as f64 * scale / (1_u128 << (FIXED_BITS - HIGH_BITS)) as f64;
        out[step] = (high as f64 * scale, low);
        step += 1;
    }
    out
}

/// A polynomial by pairs of its coefficients, in powers of the square.
fn by_pairs(coefficients: &[u64], value: f64, square: f64) -> f64 {
    let pair = |pair: &[u64]| value.mul_add(f64::from_bits(pair[0]), f64::from_bits(pair[1]));
    let pairs = coefficients.chunks_exact(2).map(pair);
    pairs.reduce(|sum, pair| square.mul_add(sum, pair)).unwrap_or_default()
}

/// The logarithm to base 2 of a number that is neither 0 nor tiny, in two parts.
fn logarithm(value: f64) -> (f64, f64) {
    let bits = value.to_bits();
    let begin = (bits >> 36) & 0xffff;
    let step = STEPS - STEPS_BEGIN.partition_point(|&known| known <= begin);
    let reciprocal = 1.0 + step as f64 / STEPS as f64;
    let mut exponent = ((bits >> 52) as i32 - 1023) as f64;
    if reciprocal < 1.5 {
        exponent += 1.0;
    }
    let mantissa = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 1022 << 52);
    let (table_high, table_low) = LOGARITHMS[step % STEPS];
    let rest = reciprocal.mul_add(mantissa, -1.0);
    let square = rest * rest;
    let square_low = rest.mul_add(rest, -square);
    let (first, first_low) = (f64::from_bits(LOG_FIRST.0), f64::from_bits(LOG_FIRST.1));
    let second = f64::from_bits(LOG_SECOND);
    let start = table_high + exponent;
    let with_first = rest.mul_add(first, start);
    let with_second = square.mul_add(second, with_first);
    let low = square.mul_add(by_pairs(&LOG_REST, rest, square), second.mul_add(square_low, table_low));
    let high = with_second + low;
    let lost_first = first_low.mul_add(rest, rest.mul_add(first, -(with_first - start)));
    let lost_second = second.mul_add(square, -(with_second - with_first));
    (high, (low - (high - with_second)) + (lost_first + lost_second))
}

/// A number less a number that is not larger, rounded down: the processor's instruction does so just below 0.
fn less_rounded_down(value: f64, less: f64) -> f64 {
    let out = value - less;
    let (own, other) = (out + less, -less);
    let other_part = out - own;
    let lost = (value - own) + (other - other_part);
    if lost < 0.0 { out.next_down() } else { out }
}

/// The square root of a number, to all but the last bit.
pub(super) fn root(value: f64) -> f64 {
    if !value.is_normal() || value < 0.0 {
        return value.sqrt();
    }
    let (high, low) = logarithm(value);
    let (high, low) = (0.5 * high, 0.5 * low);
    let sixteenths = (high * 16.0).floor();
    let rest = less_rounded_down(high, sixteenths / 16.0) + low;
    let whole = (sixteenths / 16.0).floor();
    let table = SIXTEENTHS[(sixteenths - 16.0 * whole) as usize];
    let result = (rest * table).mul_add(by_pairs(&POWER, rest, rest * rest), table);
    result * f64::from_bits(((whole + 1023.0) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By numpy 1.24.4 on a processor with AVX-512; six million random numbers gave no difference.
    #[test]
    fn roots_are_those_of_numpy() {
        let cases = [
            (46.65, 6.830_080_526_611_673),
            (55.1, 7.422_937_423_958_253_5),
            (26.24, 5.122_499_389_946_278),
            (0.35, 0.591_607_978_309_961_5),
            (59.0, 7.681_145_747_868_609),
            (18.94, 4.352_011_029_397_788),
            (59.17, 7.692_203_845_452_876),
            (42.5, 6.519_202_405_202_648),
        ];
        for (value, expected) in cases {
            assert_eq!(root(value), expected, "{value}");
            assert_ne!(value.sqrt(), expected, "{value}");
        }
        for (value, expected) in [(0.0, 0.0), (0.9998, 0.999_899_994_999_5), (1.0, 1.0), (4.0, 2.0)] {
            assert_eq!(root(value), expected, "{value}");
        }
        assert!(root(-1.0).is_nan());
    }

    #[test]
    fn logarithms_are_those_of_reciprocals() {
        for (step, (high, low)) in LOGARITHMS.into_iter().enumerate() {
            let expected = -(1.0 + step as f64 / 32.0).log2() + if step >= 16 { 1.0 } else { 0.0 };
            assert!((high + low - expected).abs() < 1e-15, "{step}: {high} and {low} are not {expected}");
            assert_eq!((high * 1_099_511_627_776.0).fract(), 0.0, "{step}");
        }
    }
}
