#!/usr/bin/env bash
# Builds the self-test of firmware/ for five microcontrollers, runs it in QEMU, optimised as it would be flashed and with
# overflow checks, and shows that it fails when a budget is handed back early. ci/firmware.sh [debian]
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
use_bare_toolchain "${1:-}"
need_qemu
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/firmware
cd firmware

# image TARGET PROFILE [FEATURE]: builds it.
image() {
    RUSTFLAGS="-D warnings" cargo_bare build --quiet --bin selftest --target "$1" --profile "$2" ${3:+--features "$3"}
}

# Debian's toolchain brings no lints.
if [ "$bare_way" = rustup ]; then
    need_component clippy clippy
    for target in thumbv6m-none-eabi thumbv7m-none-eabi riscv32imac-unknown-none-elf; do
        cargo clippy --quiet --bins --target $target -- -D warnings
    done
fi

for target in "${bare_targets[@]}"; do
    for profile in checked release; do
        image "$target" "$profile"
        begun=$SECONDS status=0
        log=$(emulate "$target" "$CARGO_TARGET_DIR/$target/$profile/selftest" 2>&1) || status=$?
        [ "$status" -eq 0 ] || die "$target, $profile: exit code $status: $log"
        case $log in *"everything held"*) ;; *) die "$target, $profile: no verdict: $log" ;; esac
        [ "$profile" = checked ] || printf '%s\n' "$log" | grep -v '^Timer with period zero'
        printf '  %s, %s: %d s\n' "$target" "$profile" $((SECONDS - begun))
    done
    image "$target" release must-fail
    status=0
    log=$(emulate "$target" "$CARGO_TARGET_DIR/$target/release/selftest" 2>&1) || status=$?
    [ "$status" -eq 1 ] || die "$target: a budget handed back early gave exit code $status: $log"
    case $log in *"WRONG: admitted by the bucket"*) ;; *) die "$target: failed for another reason: $log" ;; esac
    printf '  with a budget handed back early: exit code 1, as it must\n'
done
