//! Bytes in: files, gzip, the first look that tells formats apart, and lines with their numbers.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use thiserror::Error;

use crate::text::shown;

/// Longest line (or CSV record) that is read. A longer one is no trace's, and memory has an end.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// How much of the beginning is checked to tell formats apart.
const HEAD_BYTES: usize = 1 << 16;

const BUFFER_BYTES: usize = 1 << 17;

/// Why there is no text to read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The file cannot be opened.
    #[error("cannot open `{file}`")]
    Open {
        /// The path as given.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The path names a directory.
    #[error("`{file}` is a directory, not a file")]
    Directory {
        /// The path as given.
        file: String,
    },
    /// Reading stopped half-way, for example at the end of a cut gzip file.
    #[error("cannot read `{file}`{}", past(*line))]
    Read {
        /// The path as given.
        file: String,
        /// The last line that was read whole.
        line: u64,
        /// What the system, or the decompressor, said.
        source: io::Error,
    },
    /// There is nothing in the file.
    #[error("`{file}` is empty")]
    Empty {
        /// The path as given.
        file: String,
    },
    /// The file is not text.
    #[error("`{file}` is not text: it has a zero byte at offset {offset}")]
    Binary {
        /// The path as given.
        file: String,
        /// Where the zero byte is, after decompression.
        offset: usize,
    },
}

impl SourceError {
    /// How to repair it, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Directory { .. } => Some(
                "name one file inside it; folders are read where they hold `pai_task_table.csv`, `cluster_log.csv` \
                 or `cluster_job_log`",
            ),
            Self::Empty { .. } => Some("the first line names the columns"),
            Self::Binary { .. } => {
                Some("only UTF-8 text is read, plain or gzip-compressed; unpack an archive first (`tar -xf`)")
            }
            Self::Read { .. } => Some("it may be cut short or damaged: copy or download it again"),
            Self::Open { .. } => None,
        }
    }
}

/// How far reading came, where it came anywhere.
fn past(line: u64) -> String {
    if line == 0 { String::new() } else { format!(" past line {line}") }
}

/// Text to read, with its first bytes checked.
pub(crate) struct Source {
    /// The file's name for messages.
    pub(crate) file: String,
    /// A copy of the first bytes, at most [`HEAD_BYTES`].
    pub(crate) head: Vec<u8>,
    reader: Box<dyn BufRead>,
}

/// Opens a file; gzip is recognised by its content.
pub(crate) fn open(path: &Path) -> Result<Source, SourceError> {
    let file = path.display().to_string();
    let failed = |source| SourceError::Open { file: file.clone(), source };
    if fs::metadata(path).map_err(failed)?.is_dir() {
        return Err(SourceError::Directory { file });
    }
    let opened = File::open(path).map_err(failed)?;
    from_reader(Box::new(opened), &file)
}

/// Takes any reader; gzip is recognised by its content.
pub(crate) fn from_reader(reader: Box<dyn Read>, file: &str) -> Result<Source, SourceError> {
    const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
    let failed = |source| SourceError::Read { file: file.to_owned(), line: 0, source };
    let raw = BufReader::with_capacity(BUFFER_BYTES, reader);
    let (head, raw) = look_ahead(Box::new(raw)).map_err(failed)?;
    let (head, reader) = if head.starts_with(&GZIP_MAGIC) {
        let inflated = BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(raw));
        look_ahead(Box::new(inflated)).map_err(failed)?
    } else {
        (head, raw)
    };
    if head.is_empty() {
        return Err(SourceError::Empty { file: file.to_owned() });
    }
    if let Some(offset) = head.iter().position(|byte| *byte == 0) {
        return Err(SourceError::Binary { file: file.to_owned(), offset });
    }
    Ok(Source { file: file.to_owned(), head, reader })
}

impl Source {
    /// An excerpt of the first line for messages.
    pub(crate) fn first_line(&self) -> String {
        let line = self.head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        shown(String::from_utf8_lossy(line).trim())
    }

    /// The lines of the whole text.
    pub(crate) fn into_lines(self) -> Lines {
        Lines::new(self.reader)
    }
}

/// Reads the head and puts it back in front of the rest.
fn look_ahead(mut reader: Box<dyn BufRead>) -> io::Result<(Vec<u8>, Box<dyn BufRead>)> {
    let mut head = Vec::new();
    (&mut reader).take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    let whole = Cursor::new(head.clone()).chain(reader);
    Ok((head, Box::new(whole)))
}

/// What [`Lines::read`] came upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line, now in the buffer, without its `\n`.
    Some,
    /// A line beyond [`LINE_BYTES_MAX`], skipped.
    TooLong,
    /// The end of the text.
    End,
}

/// Reads lines and counts them.
pub(crate) struct Lines {
    reader: Box<dyn BufRead>,
    buffer: Vec<u8>,
    number: u64,
}

impl Lines {
    pub(crate) fn new(reader: Box<dyn BufRead>) -> Self {
        Self { reader, buffer: Vec::new(), number: 0 }
    }

    /// The text itself, for a syntax that does not go by lines.
    pub(crate) fn into_reader(self) -> Box<dyn BufRead> {
        self.reader
    }

    /// The number of the line read last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The line read last, without its `\n`. A byte-order mark at the beginning of the text is left out.
    pub(crate) fn bytes(&self) -> &[u8] {
        const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
        match self.buffer.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) if self.number == 1 => rest,
            _ => &self.buffer,
        }
    }

    /// Reads the next line.
    pub(crate) fn read(&mut self) -> io::Result<Line> {
        self.buffer.clear();
        let limit = LINE_BYTES_MAX as u64 + 1;
        let count = (&mut self.reader).take(limit).read_until(b'\n', &mut self.buffer)?;
        if count == 0 {
            return Ok(Line::End);
        }
        self.number += 1;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if self.buffer.len() > LINE_BYTES_MAX {
            self.skip_rest()?;
            return Ok(Line::TooLong);
        }
        Ok(Line::Some)
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        loop {
            let available = self.reader.fill_buf()?;
            let end = available.iter().position(|byte| *byte == b'\n');
            let (used, done) = match end {
                Some(index) => (index + 1, true),
                None => (available.len(), available.is_empty()),
            };
            self.reader.consume(used);
            if done {
                return Ok(());
            }
        }
    }
}
