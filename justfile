# `just` for people; `.ci/run` for machines. Both come down to `cargo xtask`.

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
