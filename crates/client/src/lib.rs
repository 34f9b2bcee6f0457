//! A typed client of a head: connects, shows the token, and turns each call of the contract into a method.
//!
//! A head writes its address and its token into a folder, its *home*; whoever may read that folder may ask.

mod access;
mod calls;
mod error;

pub use access::Access;
pub use calls::{Client, Output};
pub use error::ClientError;
