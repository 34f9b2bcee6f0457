//! Arithmetic as the published code's language does it, where the last bit decides.

/// To three decimals, as the nearest number that is written with them; of two equally near ones the even.
pub fn rounded(value: f64) -> f64 {
    let scaled = value * 1000.0;
    let nearest = scaled.round_ties_even();
    let from_middle = ((scaled - nearest).abs() - 0.5).abs();
    // Away from the middle between two, the error of the product does not matter.
    if from_middle > scaled.abs() * 1e-15 + 1e-9 {
        return nearest / 1000.0;
    }
    format!("{value:.3}").parse().unwrap_or(value)
}

/// How many whole times `divisor` goes into `value`: exact, where the quotient as a number would round up.
pub fn whole_times(value: f64, divisor: f64) -> f64 {
    let quotient = value / divisor;
    let whole = quotient.floor();
    let part = quotient - whole;
    let doubt = quotient.abs() * 1e-12 + 1e-12;
    if part > doubt && part < 1.0 - doubt {
        return whole;
    }
    let rest = value % divisor;
    let quotient = (value - rest) / divisor;
    let whole = quotient.floor();
    if quotient - whole > 0.5 { whole + 1.0 } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_goes_by_the_exact_value() {
        for (value, expected) in [
            (2.675, 2.675),
            (1.0005, 1.0), // just below the middle as a number
            (0.0625, 0.062),
            (0.1875, 0.188),
            (85.333_333_333, 85.333),
            (-256.000_4, -256.0),
            (1e9, 1e9),
            (0.000_49, 0.0),
        ] {
            assert_eq!(rounded(value), expected, "{value}");
        }
    }

    #[test]
    fn whole_times_does_not_round_up() {
        for (value, divisor, expected) in
            [(300.0, 13.196, 22.0), (1.0, 0.1, 9.0), (0.3, 0.1, 2.0), (600.0, 0.3, 2000.0), (300.0, 1e9, 0.0)]
        {
            assert_eq!(whole_times(value, divisor), expected, "{value} // {divisor}");
        }
        assert_eq!(whole_times(6.0, 0.1), 59.0);
    }
}
