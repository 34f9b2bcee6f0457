//! Who may do what: the cluster's authority, tokens, certificates of workers, roles.
//!
//! - `ca`: the authority and what it signs;
//! - `tokens`: the table of all tokens and certificates, hashed;
//! - `access`: both of them in one folder, as a head uses them;
//! - `identity`: who asks, and what is theirs;
//! - `rpcs`: which role each rpc needs, in one table;
//! - `guard`: lets requests in or not; `service`: what is asked about tokens.

mod access;
pub(crate) mod audit;
mod ca;
mod error;
mod guard;
mod identity;
mod rpcs;
mod service;
mod tokens;

pub use access::{Access, Setup, TOKEN_LIFE, WORKER_LIFE};
pub use error::AccessError;
pub(crate) use guard::{Guarded, bearer};
pub(crate) use identity::{Identity, REDACTED, Scope, public_reason, redact_record, role_name};
pub(crate) use rpcs::check as check_rpc;
pub(crate) use service::AccessService;
