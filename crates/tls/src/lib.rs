//! Connections to a head: tokens, TLS that is pinned to the cluster's authority, keys of workers.
//!
//! A cluster has an authority of its own (a CA), whose certificate is self-signed. It is identified by its
//! [`Fingerprint`], which every [`Token`] carries: a token is enough to know the head from an impostor before it is shown.
//! The head's certificate is valid for one name, [`HEAD_NAME`], wherever the head listens: what counts is which authority
//! signed it, and that authority signs it for no other client.

mod channel;
mod exchange;
mod file;
mod key;
mod pin;
mod token;
mod web;

pub use channel::{ClientCertificate, ConnectError, connect, endpoint, fingerprint_of_pem};
pub use exchange::{ExchangeError, exchange};
pub use file::{create_private, is_missing, write_private};
pub use key::{KeyError, new_key, request_certificate};
pub use pin::HEAD_NAME;
pub use token::{Fingerprint, NotAFingerprint, RandomError, TaskTokens, Token, random_hex, sha256};
pub use web::{Web, WebStream};
