//! Slurm's grammars and layouts: sbatch scripts, command lines, and output of squeue and other commands.
//!
//! *Invariant: everything here is a function from texts and plain facts to texts and plain facts*: no files, no environment, no
//! clock, no cluster. It follows Slurm 22.05 as measured; where later versions differ, the comment states this.

pub mod accounting;
pub mod array;
pub mod constraint;
pub mod dependency;
pub mod environ;
pub mod export;
pub mod filename;
pub mod getopt;
pub mod gres;
pub mod hostlist;
pub mod layout;
pub mod limit;
pub mod limits_document;
pub mod memory;
pub mod moment;
pub mod multi_prog;
pub mod nodes;
pub mod options;
pub mod outcome;
mod refusal;
mod request;
pub mod script;
pub mod shape;
pub mod signal;
pub mod sinfo;
pub mod squeue;
pub mod table;

pub use refusal::{Kind, Refusal};
pub use request::{Request, Sources, joined};
