//! A typed client of a head: connects, shows the token, and turns each call of the contract into a method.
//!
//! A head writes its address and a token into its state directory; users who can read that directory can send requests. The head is known by
//! the fingerprint of its authority, which the token names.

mod access;
mod calls;
mod clock;
mod error;
mod locator;

pub use access::{Access, Bearer, Connection};
pub use calls::{Client, Output};
pub use clock::unix_s;
pub use error::ClientError;
pub use locator::{Locator, parse_address};
