//! Jobs: submission, changes, dependencies, failures and what the head stores of them.

pub(crate) mod accepted_requests;
pub(crate) mod amendments;
pub(crate) mod array_limits;
pub(crate) mod batch;
pub(crate) mod checkpoints;
pub(crate) mod dependencies;
pub(crate) mod failures;
pub(crate) mod names;
pub(crate) mod ray;
pub(crate) mod request_limits;
pub(crate) mod secrets;
pub(crate) mod submit;
pub(crate) mod wire;
