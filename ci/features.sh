#!/usr/bin/env bash
# Every feature alone, and together: builds without a warning, and the tests pass where they can run.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export RUSTFLAGS="-D warnings"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/features

for features in "" alloc std serde defmt portable-atomic portable-atomic-critical-section \
    portable-atomic-fallback alloc,serde,defmt std,serde,defmt,portable-atomic; do
    printf -- '- features: %s\n' "${features:-none}"
    cargo check --quiet -p tidegate --lib --no-default-features --features "$features"
done

# The shell on portable-atomic's atomics, and the plain default as `cargo test` alone runs it.
for features in "" portable-atomic,std; do
    printf -- '- tests with features: %s\n' "${features:-none}"
    cargo test --quiet -p tidegate --tests --features "$features"
done
