//! The head over gRPC: connections, services and their permissions.

pub(crate) mod connections;
pub(crate) mod network;
pub(crate) mod service;
