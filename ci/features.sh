#!/usr/bin/env bash
# Every feature alone, and together: builds without a warning, and the tests pass where they can run.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export RUSTFLAGS="-D warnings"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/features

for features in "" foldhash ahash alloc heapless std serde defmt fugit embassy-time portable-atomic \
    portable-atomic-critical-section portable-atomic-fallback alloc,foldhash \
    alloc,serde,defmt,heapless std,serde,defmt,heapless,foldhash,fugit,embassy-time,portable-atomic; do
    printf -- '- features: %s\n' "${features:-none}"
    cargo check --quiet -p tidegate --lib --no-default-features --features "$features"
done

# The plain default, as `cargo test` alone runs it; and all on portable-atomic's atomics.
for features in "" portable-atomic,std,heapless,fugit,embassy-time; do
    printf -- '- tests with features: %s\n' "${features:-none}"
    cargo test --quiet -p tidegate --tests --features "$features"
done

# The program without its server and its client.
printf -- '- tidegate-cli with features: none\n'
cargo check --quiet -p tidegate-cli --no-default-features --all-targets

# The other crates that have any.
while read -r package features; do
    printf -- '- %s, features: %s\n' "$package" "${features:-none}"
    cargo check --quiet -p "$package" --lib --no-default-features --features "$features"
done <<'END'
tidegate-tower
tidegate-tower axum
tidegate-tower config
tidegate-tower tracing
tidegate-tower metrics
tidegate-redis
tidegate-redis cluster
tidegate-redis metrics
tidegate-redis tls
tidegate-redis tower
END
