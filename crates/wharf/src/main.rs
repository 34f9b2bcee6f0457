//! The `wharf` binary: see the library for everything.

use std::process::ExitCode;

fn main() -> ExitCode {
    wharf_cli::main()
}
