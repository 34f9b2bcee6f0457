//! Installation of head and worker as services: users, directories, files and a first configuration, all or nothing; and their
//! removal. Callers provide the texts that follow from the command line (manual pages, completions) and print the steps.

mod error;
mod layout;
mod place;
mod plan;
mod removal;
mod texts;
mod user;

pub use error::InstallError;
pub use layout::{Layout, Role, Shell, systemctl};
pub use plan::{Moment, Payload, Plan, Step};
pub use removal::Removal;
pub use texts::{HeadSettings, USER, WorkerSettings};
