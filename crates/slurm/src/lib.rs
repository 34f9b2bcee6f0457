//! Slurm on a Wharf cluster: grammars and layouts ([`grammar`], without I/O), what a batch job's tasks receive ([`launch`]), and
//! the commands that users call ([`commands`]).

pub mod commands;
pub mod grammar;
pub mod launch;
