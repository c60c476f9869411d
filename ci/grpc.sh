#!/usr/bin/env bash
# The layer around a tonic server on loopback, and tonic's own client: what passes, and the status, details and header
# fields of what does not. A minute and a half to build, a second to run.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/grpc
cargo build --quiet --locked --manifest-path ci/grpc/Cargo.toml
timeout 60 "$CARGO_TARGET_DIR/debug/tidegate-grpc"
