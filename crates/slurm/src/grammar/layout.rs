//! Tables as squeue and sinfo print them: formats such as `%.18i %R`.

/// How wide a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// As wide as its value.
    Own,
    /// As wide as the widest value of all rows (`#`).
    Widest,
    /// So wide, and cut to it.
    Fixed(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    /// What stands before the field.
    before: String,
    letter: char,
    width: Width,
    is_right: bool,
}

/// A format string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pieces: Vec<Piece>,
    after: String,
}

impl Layout {
    /// Reads a format: `%[.][#|width]letter`, anything else as it is.
    #[must_use]
    pub fn parse(format: &str) -> Self {
        let (mut pieces, mut before) = (Vec::new(), String::new());
        let mut letters = format.chars().peekable();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                before.push(letter);
                continue;
            }
            if letters.next_if_eq(&'%').is_some() {
                before.push('%');
                continue;
            }
            let is_right = letters.next_if_eq(&'.').is_some();
            let mut digits = String::new();
            while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            let width = match digits.parse() {
                Ok(width) => Width::Fixed(width),
                Err(_) if letters.next_if_eq(&'#').is_some() => Width::Widest,
                Err(_) => Width::Own,
            };
            match letters.next() {
                Some(letter) => {
                    pieces.push(Piece { before: std::mem::take(&mut before), letter, width, is_right })
                }
                None => before.push('%'),
            }
        }
        Self { pieces, after: before }
    }

    /// The columns of `--Format=name[:[.]width],...`, 20 wide by default, at the right with a dot; the first name that is unknown is
    /// an error.
    ///
    /// # Errors
    /// That name.
    pub fn of_names(names: &[(&str, char)], text: &str) -> Result<Self, String> {
        const WIDTH: usize = 20;
        let piece = |word: &str| {
            let (name, width) = word.split_once(':').unwrap_or((word, ""));
            let found = names.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()));
            let letter = found.map(|(_, letter)| *letter).ok_or_else(|| name.to_owned())?;
            let digits: String =
                width.chars().skip_while(|letter| *letter == '.').take_while(char::is_ascii_digit).collect();
            let width = Width::Fixed(digits.parse().unwrap_or(WIDTH));
            Ok(Piece { before: String::new(), letter, width, is_right: word.contains(":.") })
        };
        let pieces =
            text.split(',').filter(|word| !word.is_empty()).map(piece).collect::<Result<_, String>>()?;
        Ok(Self { pieces, after: String::new() })
    }

    /// The fields, in order.
    pub fn letters(&self) -> impl Iterator<Item = char> {
        self.pieces.iter().map(|piece| piece.letter)
    }

    /// All lines: the titles if they are wanted, and a line for each row, whose fields are in the order of [`Self::letters`].
    #[must_use]
    pub fn lines(&self, titles: Option<&[String]>, rows: &[Vec<String>]) -> Vec<String> {
        let all = || titles.into_iter().map(<[String]>::to_vec).chain(rows.iter().cloned());
        let widest =
            |index: usize| all().filter_map(|row| Some(row.get(index)?.chars().count())).max().unwrap_or(0);
        let widths: Vec<Width> = self
            .pieces
            .iter()
            .enumerate()
            .map(|(index, piece)| match piece.width {
                Width::Widest => Width::Fixed(widest(index)),
                other => other,
            })
            .collect();
        all().map(|row| self.line(&row, &widths)).collect()
    }

    fn line(&self, row: &[String], widths: &[Width]) -> String {
        let mut line = String::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            line += &piece.before;
            let value = row.get(index).map_or("", String::as_str);
            match widths[index] {
                Width::Own | Width::Widest => line += value,
                Width::Fixed(width) => line += &fitted(value, width, piece.is_right),
            }
        }
        line + &self.after
    }
}

fn fitted(value: &str, width: usize, is_right: bool) -> String {
    let cut: String = value.chars().take(width).collect();
    // The widest that can be formatted.
    let width = width.min(u16::MAX.into());
    if is_right { format!("{cut:>width$}") } else { format!("{cut:<width$}") }
}
