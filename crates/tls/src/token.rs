//! Tokens and fingerprints: what is copied from one machine to another.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

/// How a token begins; the digit is the version of the form.
const PREFIX: &str = "whf1";
/// Bytes of chance in a token: too many to guess.
const SECRET_BYTES: usize = 32;

/// The SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

/// The system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system's random number generator failed")]
pub struct RandomError;

/// So many random bytes in hexadecimal.
///
/// # Errors
/// Where the system has none.
pub fn random_hex(bytes: usize) -> Result<String, RandomError> {
    let mut buffer = vec![0; bytes];
    SystemRandom::new().fill(&mut buffer).map_err(|_| RandomError)?;
    Ok(hex(&buffer))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Tells one certificate from all others: the SHA-256 of its DER form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

/// A text that is no fingerprint.
#[derive(Debug, thiserror::Error)]
#[error("a fingerprint has 64 hexadecimal digits")]
pub struct NotAFingerprint;

impl Fingerprint {
    /// The fingerprint of a certificate in DER.
    pub fn of(certificate: &[u8]) -> Self {
        Self(sha256(certificate))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Self, NotAFingerprint> {
        let digits: Option<Vec<u8>> =
            text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
        let digits = digits.filter(|digits| digits.len() == 64).ok_or(NotAFingerprint)?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Self(bytes))
    }
}

/// An access secret: `whf1.<fingerprint of the authority>.<secret>`. Never printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A new token of the cluster with that authority.
    ///
    /// # Errors
    /// Where the system has no random numbers.
    pub fn generate(authority: Fingerprint) -> Result<Self, RandomError> {
        Ok(Self(format!("{PREFIX}.{authority}.{}", random_hex(SECRET_BYTES)?)))
    }

    /// A token as it was given; whether it is right only the head knows.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The authority of its cluster, where it states this.
    pub fn authority(&self) -> Option<Fingerprint> {
        let mut parts = self.0.split('.');
        let is_ours = parts.next() == Some(PREFIX);
        parts.next().filter(|_| is_ours)?.parse().ok()
    }

    /// What a head keeps of it.
    pub fn hash(&self) -> [u8; 32] {
        sha256(self.0.as_bytes())
    }

    /// The token itself, for the head's eyes and for the file that keeps it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(secret)")
    }
}

/// How the last part of a task's token begins.
const TASK_PREFIX: &str = "task-";

/// Makes and verifies the tokens of tasks: `whf1.<fingerprint of the authority>.task-<job>-<generation>-<signature>`. They are signed and not
/// stored, so that a head that was restarted accepts those of tasks that still run.
#[derive(Clone)]
pub struct TaskTokens {
    authority: Fingerprint,
    key: hmac::Key,
}

impl TaskTokens {
    /// Signs with a secret of the authority.
    pub fn new(authority: Fingerprint, secret: &[u8]) -> Self {
        // A key of its own: the secret signs something else, too.
        let key = sha256(&[b"wharf task tokens\n", secret].concat());
        Self { authority, key: hmac::Key::new(hmac::HMAC_SHA256, &key) }
    }

    /// The token of a job's task in one of its placements.
    pub fn token(&self, job: u32, generation: u32) -> Token {
        let subject = subject(job, generation);
        let signature = hmac::sign(&self.key, subject.as_bytes());
        Token(format!("{PREFIX}.{}.{subject}-{}", self.authority, hex(signature.as_ref())))
    }

    /// The job and the placement that a token was made for here.
    pub fn verify(&self, token: &Token) -> Option<(u32, u32)> {
        let mut parts = token.0.rsplit('.').next()?.strip_prefix(TASK_PREFIX)?.split('-');
        let (job, generation) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let expected = self.token(job, generation);
        // Compared as signatures of both, so that the time it takes states nothing.
        let given = hmac::sign(&self.key, token.0.as_bytes());
        hmac::verify(&self.key, expected.0.as_bytes(), given.as_ref()).ok()?;
        Some((job, generation))
    }
}

fn subject(job: u32, generation: u32) -> String {
    format!("{TASK_PREFIX}{job}-{generation}")
}

impl fmt::Debug for TaskTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskTokens(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_token_is_valid_for_its_task_and_its_authority_only() {
        let authority = Fingerprint::of(b"a certificate");
        let tokens = TaskTokens::new(authority, b"secret");
        let token = tokens.token(7, 2);
        assert_eq!((token.authority(), tokens.verify(&token)), (Some(authority), Some((7, 2))));
        assert_eq!(TaskTokens::new(authority, b"secret").verify(&token), Some((7, 2)), "after a restart");
        assert_eq!(TaskTokens::new(authority, b"other").verify(&token), None);
        assert_eq!(TaskTokens::new(Fingerprint::of(b"another"), b"secret").verify(&token), None);
        let text = token.reveal();
        for forged in [
            text.replace("task-7-", "task-8-"),
            text.replace("-2-", "-3-"),
            text.replace("task-7-", "task-07-"),
            format!("{text}0"),
            text[..text.len() - 1].to_owned(),
            "whf1.x.task-7-2-".to_owned(),
            "task-7-2".to_owned(),
            String::new(),
        ] {
            assert_eq!(tokens.verify(&Token::new(&forged)), None, "{forged}");
        }
        assert_eq!(tokens.verify(&Token::generate(authority).unwrap()), None);
        assert_eq!(format!("{tokens:?}"), "TaskTokens(secret)");
    }

    #[test]
    fn token_shows_its_authority_and_hides_its_secret() {
        let authority = Fingerprint::of(b"a certificate");
        let token = Token::generate(authority).unwrap();
        assert_eq!(token.authority(), Some(authority));
        assert_eq!(Token::new(&format!("{}\n", token.reveal())), token);
        assert_eq!(format!("{token:?}"), "Token(secret)");
        assert_ne!(token, Token::generate(authority).unwrap());
    }

    #[test]
    fn foreign_token_names_no_authority() {
        let digits = "0".repeat(64);
        for text in ["", "wrong", "whf1", "whf1.abc.def", &format!("whf2.{digits}.x"), "whf1.é.x"] {
            assert_eq!(Token::new(text).authority(), None, "{text}");
        }
        assert!("0x".repeat(32).parse::<Fingerprint>().is_err());
    }
}
