//! Amounts of memory.

/// Mebibytes of `int[K|M|G|T][B]`; kibibytes are rounded up. None where a text is no amount.
#[must_use]
pub fn mebibytes(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: u64 = digits.parse().ok()?;
    let unit = unit.to_ascii_uppercase();
    let letter = unit.strip_suffix('B').filter(|letter| !letter.is_empty()).unwrap_or(&unit);
    match letter {
        "" | "M" => Some(number),
        "K" => Some(number.div_ceil(1024)),
        "G" => number.checked_mul(1 << 10),
        "T" => number.checked_mul(1 << 20),
        _ => None,
    }
}

/// Mebibytes in the largest unit that they are a multiple of.
#[must_use]
pub fn shown(mebibytes: u64) -> String {
    const GIB: u64 = 1 << 10;
    const TIB: u64 = 1 << 20;
    match mebibytes {
        // What sbatch says of all the memory of a node.
        0 => "0?".to_owned(),
        amount if amount.is_multiple_of(TIB) => format!("{}T", amount / TIB),
        amount if amount.is_multiple_of(GIB) => format!("{}G", amount / GIB),
        amount => amount.to_string(),
    }
}
