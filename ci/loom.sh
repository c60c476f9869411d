#!/usr/bin/env bash
# Every interleaving of the lock-free paths. Prints the number of executions of each model.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export RUSTFLAGS="--cfg tidegate_loom -D warnings"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/loom
{
    cargo test --release -p tidegate --features alloc --test loom --test loom_table --test loom_log --test loom_time --test loom_gates -- --nocapture
    cargo test --release -p tidegate --features std --test loom_map -- --nocapture
} 2>&1 |
    grep -vE '^(thread |stack backtrace|note: | +[0-9]+: | +at |both admitted)'
