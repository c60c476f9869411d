#!/usr/bin/env bash
# Builds the core, and statics that use it, for targets without an operating system; and shows that what a
# target cannot do is refused with a message that says what to do. ci/no_std.sh [debian]
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
use_bare_toolchain "${1:-}"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/bare
cd ci/bare

build() { cargo_bare build --quiet --release "$@"; }

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

narrow="choose the narrow word: \`TokenBucket::narrow(..)\`"
back_end="enable tidegate's feature \`portable-atomic-unsafe-assume-single-core\` or \`portable-atomic-critical-section\`"
fallback="feature \`portable-atomic-fallback\`, a spin lock, never to be taken by interrupt handlers"

# 32-bit atomics: nothing to choose for the narrow word.
for target in thumbv7m-none-eabi thumbv7em-none-eabi riscv32imac-unknown-none-elf; do
    builds --target $target
    builds --target $target --features wide,fallback
    refuses "$narrow" --target $target --features wide
    refuses "$fallback" --target $target --features wide
done

# No compare-exchange: the application chooses a back end.
for target in thumbv6m-none-eabi riscv32imc-unknown-none-elf; do
    builds --target $target --features single-core
    builds --target $target --features critical-section
    builds --target $target --features single-core,wide,fallback
    # Even without an atomic the core builds, for what needs none.
    builds --target $target --features without-atomics
    refuses "$back_end" --target $target
    refuses "$narrow" --target $target --features single-core,wide
done
