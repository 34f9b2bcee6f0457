//! Features that a job's nodes must have: `ib&(a100|v100)`.

use super::refusal::Refusal;

/// What the features of one node must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// This one.
    Feature(String),
    /// All of these.
    All(Vec<Constraint>),
    /// One of these.
    One(Vec<Constraint>),
}

impl Constraint {
    /// Reads an expression. Counts (`a*2`) and brackets are taken as if they were for every node.
    ///
    /// # Errors
    /// [`Refusal`] with what sbatch would say.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let refused = || Refusal::failed("Batch job submission failed: Invalid feature specification");
        let mut letters = text.chars().peekable();
        let expression = any(&mut letters).ok_or_else(refused)?;
        if letters.next().is_some() { Err(refused()) } else { Ok(expression) }
    }

    /// Whether a node with these features will do.
    pub fn allows(&self, features: &[String]) -> bool {
        match self {
            Self::Feature(name) => features.contains(name),
            Self::All(all) => all.iter().all(|one| one.allows(features)),
            Self::One(all) => all.iter().any(|one| one.allows(features)),
        }
    }

    /// All features that it names.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Feature(name) => vec![name],
            Self::All(all) | Self::One(all) => all.iter().flat_map(Self::names).collect(),
        }
    }
}

type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn any(letters: &mut Letters<'_>) -> Option<Constraint> {
    let mut all = vec![every(letters)?];
    while letters.next_if_eq(&'|').is_some() {
        all.push(every(letters)?);
    }
    if all.len() == 1 { all.pop() } else { Some(Constraint::One(all)) }
}

fn every(letters: &mut Letters<'_>) -> Option<Constraint> {
    let mut all = vec![single(letters)?];
    while letters.next_if(|letter| *letter == '&' || *letter == ',').is_some() {
        all.push(single(letters)?);
    }
    if all.len() == 1 { all.pop() } else { Some(Constraint::All(all)) }
}

fn single(letters: &mut Letters<'_>) -> Option<Constraint> {
    let closing = match letters.peek()? {
        '(' => Some(')'),
        '[' => Some(']'),
        _ => None,
    };
    let inner = match closing {
        Some(closing) => {
            letters.next();
            let inner = any(letters)?;
            letters.next_if_eq(&closing)?;
            inner
        }
        None => {
            let mut name = String::new();
            while let Some(letter) =
                letters.next_if(|letter| letter.is_alphanumeric() || "._-/:".contains(*letter))
            {
                name.push(letter);
            }
            Some(Constraint::Feature(name.clone())).filter(|_| !name.is_empty())?
        }
    };
    if letters.next_if_eq(&'*').is_some() {
        letters.next_if(char::is_ascii_digit)?;
        while letters.next_if(char::is_ascii_digit).is_some() {}
    }
    Some(inner)
}
