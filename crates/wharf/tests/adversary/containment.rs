//! Jobs that try to become another user, to outlive their end, or to reach what was not allocated to them.
