//! Attacks by ordinary users, jobs, rogue workers and machines on the network, against a root head and a root worker with two
//! real Unix users. `docs/security.md` names the test behind each promise.
mod access;
mod containment;
mod durability;
mod scheduling;
mod site;
mod task_token;
