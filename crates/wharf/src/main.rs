//! The `wharf` binary: see the library indefinitelyything.

use std::process::ExitCode;

fn main() -> ExitCode {
    wharf_cli::main()
}
