#!/usr/bin/env bash
# Everything: installs what is missing, and runs every suite. Half an hour and a little on two cores, the first time; most of it is compiling.
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

features=tidegate/std,tidegate/serde,tidegate/heapless,tidegate/fugit,tidegate/embassy-time,tidegate-tower/axum,tidegate-tower/config,tidegate-tower/tracing,tidegate-tower/metrics,tidegate-redis/cluster,tidegate-redis/metrics,tidegate-redis/tower

step "format" cargo fmt --all --check
for workspace in fuzz firmware ci/bare ci/grpc ci/http ci/instructions benches/peers benches/tower examples/embedded; do
    step "format, $workspace" cargo fmt --all --manifest-path $workspace/Cargo.toml --check
done
step "lints" cargo clippy --workspace --all-targets --features $features -- -D warnings
step "tests, debug" cargo test --workspace --features $features
step "tests, release" cargo test --workspace --features $features --release
step "processes that share keys" cargo run --quiet --release --example sharding --features std
step "documentation" env RUSTDOCFLAGS="-D warnings" \
    cargo doc --no-deps --features std,serde,defmt,heapless,fugit,embassy-time,portable-atomic
step "documentation of the other crates" env RUSTDOCFLAGS="-D warnings" \
    cargo doc --no-deps --workspace --exclude tidegate --features $features
step "features" ci/features.sh
step "targets without an operating system" ci/no_std.sh
step "firmware in QEMU" ci/firmware.sh
step "flash, RAM and instructions of firmware" ci/size.sh
step "instructions per decision" ci/instructions.sh
step "headers beside express-rate-limit" ci/http.sh
step "server with real clients" ci/serve.sh
step "gRPC with tonic" ci/grpc.sh
step "limits on Redis" ci/redis.sh
step "C" ci/c.sh
step "examples for firmware" ci/examples.sh
step "loom" ci/loom.sh
step "fuzz, 20 s a target" ci/fuzz.sh 20
step "the benches build" cargo check --manifest-path benches/peers/Cargo.toml
step "the benches of the layer build" cargo check --locked --manifest-path benches/tower/Cargo.toml

printf '\nall suites passed in %d s\n' $((SECONDS - begun))
