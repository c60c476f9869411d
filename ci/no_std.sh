#!/usr/bin/env bash
# Builds the core, and statics that use it, for targets without an operating system; and shows that what a
# target cannot do is refused with a message that says what to do. ci/no_std.sh [debian]
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/bare
cd ci/bare

# The ordinary way is rustup's targets. Where those cannot be had, or with the argument `debian`, Debian's
# toolchain, which has the sources of core.
if [ "${1:-}" != debian ] &&
    rustup target add thumbv6m-none-eabi thumbv7em-none-eabi riscv32imac-unknown-none-elf >/dev/null 2>&1; then
    build() { cargo build --quiet --release "$@"; }
else
    say "building core from source with Debian's toolchain"
    [ -x /usr/bin/rustc ] && [ -d /usr/lib/rustlib/src/rust/library ] ||
        install_debian rustc-web cargo-web rust-web-src
    build() {
        PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 \
            cargo build --quiet --release -Zbuild-std=core "$@"
    }
fi

builds() {
    printf -- '- builds: %s\n' "$*"
    RUSTFLAGS="-D warnings" build "$@"
}

# refuses MESSAGE ARGUMENT...: must fail, and say this.
refuses() {
    local message=$1 log
    shift
    printf -- '- refused: %s\n' "$*"
    if log=$(build "$@" 2>&1); then
        die "built, and should not have: $*"
    fi
    case $log in
    *"$message"*) ;;
    *)
        printf '%s\n' "$log"
        die "failed without saying '$message': $*"
        ;;
    esac
}

builds --target thumbv6m-none-eabi --features single-core
builds --target thumbv6m-none-eabi --features single-core,wide,fallback
builds --target thumbv7em-none-eabi
builds --target thumbv7em-none-eabi --features wide,fallback
builds --target riscv32imac-unknown-none-elf
refuses "enable tidegate's feature \`portable-atomic-unsafe-assume-single-core\`" --target thumbv6m-none-eabi
refuses "choose the narrow word: \`TokenBucket::narrow(..)\`" --target thumbv7em-none-eabi --features wide
refuses "choose the narrow word: \`TokenBucket::narrow(..)\`" --target riscv32imac-unknown-none-elf --features wide
