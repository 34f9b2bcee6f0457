//! The command line from outside: what is printed where, what is written, and with which code it ends.
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod accounting;
mod cluster;
mod config;
mod containers;
mod daemon;
mod dashboard;
mod demo;
mod elastic;
mod exec;
mod failures;
mod foresee;
mod image;
mod install;
mod interrupt;
#[expect(dead_code, reason = "the worker's own tests need more of it")]
#[path = "../../../worker/tests/worker/lab.rs"]
mod lab;
mod leaving;
mod limits;
mod local;
mod marked;
mod measure;
mod outputs;
mod own_policy;
mod plan;
mod policy;
#[expect(dead_code, reason = "the tests of pilots need more of it")]
#[path = "../pilot/slurm.rs"]
mod private_slurm;
mod profile;
mod ray;
mod reference;
mod registry;
mod replay;
mod report;
mod sandbox;
mod security;
mod sim;
mod slurm;
mod slurm_more;
mod slurm_real;
mod slurm_restart;
mod slurm_steps;
mod step;
mod submit;
mod sweep;
mod trace;
mod tune;
