//! Simulations: recorded results of published systems, properties of every policy, scenarios.

mod blox_golden;
mod defaults;
mod elastic;
mod explanations;
mod failures;
mod fair;
mod gavel;
mod governed;
mod oracle;
mod policies;
mod preemption;
mod requests;
mod sharing_scenarios;
mod sia_golden;
mod workload;
