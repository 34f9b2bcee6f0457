//! Tokens, sessions, names, webhooks and the audit log.
