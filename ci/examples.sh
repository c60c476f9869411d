#!/usr/bin/env bash
# The examples for firmware: builds them for chips, and runs those that run here, RTIC's in QEMU.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/examples
rustup target add thumbv7m-none-eabi thumbv7em-none-eabi >/dev/null 2>&1 || die "rustup could not add the targets"
command -v qemu-system-arm >/dev/null || install_debian --no-install-recommends qemu-system-arm
cd examples/embedded

cargo build --quiet --locked --release --target thumbv7em-none-eabi --lib -p embassy-example -p log-throttle -p icmp-example
printf -- '- embassy, log-throttle and icmp build for thumbv7em\n'
cargo run --quiet --locked -p embassy-example
cargo run --quiet --locked -p log-throttle
cargo test --quiet --locked -p icmp-example
timeout 120 cargo run --quiet --locked --release --target thumbv7m-none-eabi -p rtic-example
