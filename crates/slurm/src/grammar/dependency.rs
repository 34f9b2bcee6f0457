//! What a job waits for: `afterok:12:13_4,singleton`.

use super::refusal::Refusal;

/// How a job waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Until it has begun, or was cancelled.
    After,
    /// Until it has ended.
    AfterAny,
    /// Until it has ended, and went well.
    AfterOk,
    /// Until it has ended, and did not go well.
    AfterNotOk,
    /// As `AfterOk`, element by element.
    AfterCorr,
    /// Until no other job of the same name and owner is there.
    Singleton,
}

/// One thing that a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// How.
    pub kind: Kind,
    /// For which job; 0 of a singleton.
    pub job: u32,
    /// For which element of an array.
    pub index: Option<u32>,
    /// With `After`: so long after it began.
    pub minutes: u32,
}

/// All that a job waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// As they were written.
    pub all: Vec<Dependency>,
    /// One of them is enough.
    pub is_any: bool,
}

/// Reads what a job waits for.
///
/// # Errors
/// [`Refusal`] with what sbatch would say.
pub fn parse(text: &str) -> Result<Dependencies, Refusal> {
    read(text).ok_or_else(|| Refusal::failed("Batch job submission failed: Job dependency problem"))
}

fn read(text: &str) -> Option<Dependencies> {
    let is_any = text.contains('?');
    if is_any && text.contains(',') {
        return None;
    }
    let mut all = Vec::new();
    for term in text.split([',', '?']).filter(|term| !term.is_empty()) {
        let mut words = term.split(':');
        let first = words.next()?;
        if first.eq_ignore_ascii_case("singleton") {
            all.push(Dependency { kind: Kind::Singleton, job: 0, index: None, minutes: 0 });
            continue;
        }
        let Some(kind) = kind(first) else {
            all.push(one(Kind::AfterAny, first)?);
            for id in words {
                all.push(one(Kind::AfterAny, id)?);
            }
            continue;
        };
        let before = all.len();
        for id in words {
            all.push(one(kind, id)?);
        }
        if all.len() == before {
            return None;
        }
    }
    (!all.is_empty()).then_some(Dependencies { all, is_any })
}

fn kind(word: &str) -> Option<Kind> {
    match word.to_ascii_lowercase().as_str() {
        "after" => Some(Kind::After),
        "afterany" => Some(Kind::AfterAny),
        "afterok" => Some(Kind::AfterOk),
        "afternotok" => Some(Kind::AfterNotOk),
        "aftercorr" => Some(Kind::AfterCorr),
        _ => None,
    }
}

fn one(kind: Kind, text: &str) -> Option<Dependency> {
    let (id, minutes) = match text.split_once('+') {
        Some((id, minutes)) if kind == Kind::After => (id, minutes.parse().ok()?),
        Some(_) => return None,
        None => (text, 0),
    };
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse().ok()).flatten()
    };
    let (job, index) = match id.split_once('_') {
        // All elements of an array.
        Some((job, "*")) => (number(job)?, None),
        Some((job, index)) => (number(job)?, Some(number(index)?)),
        None => (number(id)?, None),
    };
    Some(Dependency { kind, job, index, minutes })
}
