# `just` for people; `.ci/run` for machines. Both come down to `cargo xtask`.

# Format, lints and tests of the changed crates
check:
    cargo xtask check

# Everything that must hold for a change
ci:
    cargo xtask ci

# Tests only, the fast way
test:
    cargo nextest run --workspace

# Regenerate the generated documents
docs:
    cargo xtask docs

# The first thing to try
demo:
    cargo run --release -- demo

# Checks that take minutes: reference results, figures, scale, benches
full:
    .ci/full
