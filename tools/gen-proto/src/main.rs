//! Makes `crates/proto/src/generated.rs` from `crates/proto/proto/wharf.proto`: `cargo run` in this folder writes it,
//! `cargo run -- --check` fails where it is not up to date.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/proto");
    let out = std::env::temp_dir().join(format!("wharf-gen-proto-{}", std::process::id()));
    std::fs::create_dir_all(&out)?;
    let descriptors = protox::compile(["wharf.proto"], [proto.join("proto")])?;
    tonic_prost_build::configure()
        .out_dir(&out)
        .btree_map(".")
        // Far larger than its neighbours: a batch of short messages need not be as wide as the widest.
        .boxed(".wharf.v1.ToWorker.message.launch")
        .boxed(".wharf.v1.FromWorker.message.register")
        .compile_fds(descriptors)?;
    let generated = std::fs::read_to_string(out.join("wharf.v1.rs"))?;
    std::fs::remove_dir_all(&out)?;
    let target = proto.join("src/generated.rs");
    if std::env::args().any(|word| word == "--check") {
        if std::fs::read_to_string(&target)? != generated {
            return Err(
                "crates/proto/src/generated.rs is not up to date: run `cargo run` in tools/gen-proto".into(),
            );
        }
        return Ok(());
    }
    std::fs::write(target, generated)?;
    Ok(())
}
