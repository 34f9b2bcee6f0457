//! Lists of hosts: `c[01-03,07],d1`.

/// The most names that a list may stand for.
const NAMES_MAX: usize = 100_000;

/// A text that is no list of hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid hostlist: {0}")]
pub struct BadHostlist(pub String);

/// All names that a list stands for, in its order.
///
/// # Errors
/// [`BadHostlist`] for brackets that do not match, ranges the wrong way round, and letters after the last bracket.
pub fn expand(text: &str) -> Result<Vec<String>, BadHostlist> {
    let mut names = Vec::new();
    for part in parts(text).ok_or_else(|| BadHostlist(text.to_owned()))? {
        let expanded = expand_part(part).filter(|more| names.len() + more.len() <= NAMES_MAX);
        names.extend(expanded.ok_or_else(|| BadHostlist(text.to_owned()))?);
    }
    Ok(names)
}

/// The list in a file: lists on lines, with comments after `#`; `host*3` names it once, however many tasks it is to have.
#[must_use]
pub fn of_file(text: &str) -> String {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let words = lines.flat_map(str::split_whitespace);
    let host = |word: &str| word.split_once('*').map_or(word, |(host, _)| host).trim_matches(',').to_owned();
    words.map(host).filter(|host| !host.is_empty()).collect::<Vec<_>>().join(",")
}

/// Splits at commas that are not in brackets.
fn parts(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match (letter, is_inside) {
            ('[', false) => is_inside = true,
            (']', true) => is_inside = false,
            ('[', true) | (']', false) => return None,
            (',', false) => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (!is_inside).then(|| parts.into_iter().filter(|part| !part.is_empty()).collect())
}

fn expand_part(part: &str) -> Option<Vec<String>> {
    let mut names = vec![String::new()];
    let mut rest = part;
    let mut has_bracket = false;
    while let Some((before, after)) = rest.split_once('[') {
        let (ranges, after) = after.split_once(']')?;
        let numbers = numbers(ranges)?;
        if names.len().checked_mul(numbers.len())? > NAMES_MAX {
            return None;
        }
        let with = |name: &String| {
            numbers.iter().map(|number| format!("{name}{before}{number}")).collect::<Vec<_>>()
        };
        names = names.iter().flat_map(with).collect();
        rest = after;
        has_bracket = true;
    }
    // Slurm 22.05 knows no letters after the last bracket.
    match (has_bracket, rest) {
        (true, "") => Some(names),
        (true, _) => None,
        (false, name) => Some(vec![name.to_owned()]),
    }
}

fn numbers(ranges: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| digits.parse::<u64>().ok()).flatten()
        };
        let (low, high, width) = (number(first)?, number(last)?, first.len());
        if low > high || high - low >= NAMES_MAX as u64 {
            return None;
        }
        numbers.extend((low..=high).map(|number| format!("{number:0width$}")));
    }
    Some(numbers)
}

/// The shortest list that stands for these names, in this order.
#[must_use]
pub fn compress<T: AsRef<str>>(names: &[T]) -> String {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        let digits = name.len() - name.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
        let (prefix, number) = name.split_at(name.len() - digits);
        match groups.last_mut() {
            Some(group) if group.prefix == prefix && group.has_numbers() && is_number(number) => {
                group.add(number)
            }
            _ => groups.push(Group { prefix, ranges: vec![(number, number)] }),
        }
    }
    groups.iter().map(Group::text).collect::<Vec<_>>().join(",")
}

fn is_number(digits: &str) -> bool {
    // More digits than a number holds are letters like any other.
    digits.parse::<u64>().is_ok()
}

struct Group<'a> {
    prefix: &'a str,
    ranges: Vec<(&'a str, &'a str)>,
}

impl<'a> Group<'a> {
    fn has_numbers(&self) -> bool {
        self.ranges.iter().all(|(first, last)| is_number(first) && is_number(last))
    }

    fn add(&mut self, number: &'a str) {
        if let Some((first, last)) = self.ranges.last_mut() {
            let (width, after) = (first.len(), last.parse::<u64>().ok().and_then(|last| last.checked_add(1)));
            if after.is_some_and(|after| format!("{after:0width$}") == number) {
                *last = number;
                return;
            }
        }
        self.ranges.push((number, number));
    }

    fn text(&self) -> String {
        if let [(first, last)] = self.ranges[..]
            && first == last
        {
            return format!("{}{first}", self.prefix);
        }
        let range = |&(first, last): &(&str, &str)| match first == last {
            true => first.to_owned(),
            false => format!("{first}-{last}"),
        };
        let ranges: Vec<String> = self.ranges.iter().map(range).collect();
        format!("{}[{}]", self.prefix, ranges.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_in_files() {
        let text = "# rack 1\nn1\nn[2-3],n5  # more\n\n  n7*2\n";
        assert_eq!(of_file(text), "n1,n[2-3],n5,n7");
        assert_eq!(of_file(""), "");
    }
}
