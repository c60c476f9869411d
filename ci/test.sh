#!/usr/bin/env bash
# Everything: installs what is missing, and runs every suite. About ten minutes on two cores.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
command -v cargo >/dev/null || die "no cargo: install Rust first, see https://rustup.rs"
begun=$SECONDS

step() {
    local from=$SECONDS
    say "$1"
    shift
    "$@"
    printf '(%d s)\n' $((SECONDS - from))
}

need_component rustfmt fmt
need_component clippy clippy

step "format" cargo fmt --all --check
step "format, fuzz targets" cargo fmt --manifest-path fuzz/Cargo.toml --check
step "format, bare-metal probe" cargo fmt --manifest-path ci/bare/Cargo.toml --check
step "lints" cargo clippy --workspace --all-targets --features tidegate/std,tidegate/serde -- -D warnings
step "tests, debug" cargo test --workspace --features tidegate/std,tidegate/serde
step "tests, release" cargo test --workspace --features tidegate/std,tidegate/serde --release
step "documentation" env RUSTDOCFLAGS="-D warnings" \
    cargo doc --no-deps --features std,serde,defmt,portable-atomic
step "features" ci/features.sh
step "targets without an operating system" ci/no_std.sh
step "loom" ci/loom.sh
step "fuzz, 20 s a target" ci/fuzz.sh 20

printf '\nall suites passed in %d s\n' $((SECONDS - begun))
