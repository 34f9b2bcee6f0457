//! Arithmetic as the published code's language does it, where the last bit decides.

pub use wharf_perf::cells::rounded;

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
    fn whole_times_does_not_round_up() {
        for (value, divisor, expected) in
            [(300.0, 13.196, 22.0), (1.0, 0.1, 9.0), (0.3, 0.1, 2.0), (600.0, 0.3, 2000.0), (300.0, 1e9, 0.0)]
        {
            assert_eq!(whole_times(value, divisor), expected, "{value} // {divisor}");
        }
        assert_eq!(whole_times(6.0, 0.1), 59.0);
    }
}
