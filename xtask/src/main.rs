//! Wharf's own chores.
fn main() {}
