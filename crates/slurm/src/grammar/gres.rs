//! Generic resources: `gpu:a100:2`, and GPUs as `a100:2`.

use super::refusal::Refusal;

/// Devices of one type that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpus {
    /// Empty: any type.
    pub kind: String,
    /// How many.
    pub count: u32,
}

fn refused() -> Refusal {
    Refusal::failed("Invalid generic resource (gres) specification")
}

/// The GPUs in a value of `--gres`.
///
/// # Errors
/// [`Refusal`] with what sbatch would say; also for resources that are no GPUs, which Wharf has none of.
pub fn of_gres(text: &str) -> Result<Vec<Gpus>, Refusal> {
    let mut all = Vec::new();
    for item in text.split(',').filter(|item| !item.is_empty() && !item.eq_ignore_ascii_case("none")) {
        match item.split_once(':') {
            Some(("gpu", rest)) => all.push(one(rest)?),
            None if item == "gpu" => all.push(Gpus { kind: String::new(), count: 1 }),
            _ => return Err(refused()),
        }
    }
    Ok(all)
}

/// The GPUs in a value of `--gpus` and similar options.
///
/// # Errors
/// [`Refusal`] with what sbatch would say.
pub fn of_gpus(text: &str) -> Result<Vec<Gpus>, Refusal> {
    text.split(',').filter(|item| !item.is_empty()).map(one).collect()
}

/// `type`, `count` or `type:count`.
fn one(text: &str) -> Result<Gpus, Refusal> {
    match text.split_once(':') {
        Some((kind, count)) if !kind.is_empty() => {
            Ok(Gpus { kind: kind.to_owned(), count: count_of(count).ok_or_else(refused)? })
        }
        Some(_) => Err(refused()),
        None if text.contains('=') => Err(refused()),
        None => Ok(match count_of(text) {
            Some(count) => Gpus { kind: String::new(), count },
            None => Gpus { kind: text.to_owned(), count: 1 },
        }),
    }
}

fn count_of(text: &str) -> Option<u32> {
    let (digits, factor) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 1024),
        _ => (text, 1),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u32>().ok().filter(|_| is_number)?.checked_mul(factor)
}

/// A value of `--gres` as sbatch shows it.
pub(crate) fn shown(text: &str) -> String {
    if text.eq_ignore_ascii_case("none") {
        return text.to_owned();
    }
    text.split(',').map(|item| format!("gres:{item}")).collect::<Vec<_>>().join(",")
}
