#!/usr/bin/env bash
# ci/fuzz.sh [SECONDS]: every fuzz target for so long (20 by default).
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
seconds=${1:-20}
need_cargo cargo-fuzz cargo-fuzz

# Sanitizer flags want a nightly, or a stable that is told to behave like one.
if cargo +nightly --version >/dev/null 2>&1; then
    toolchain=+nightly
else
    say "no nightly toolchain: stable with RUSTC_BOOTSTRAP=1"
    toolchain=
    export RUSTC_BOOTSTRAP=1
fi

targets=$(sed -n 's/^name = "\(.*\)"/\1/p' fuzz/Cargo.toml | grep -v '^tidegate-fuzz$')
[ -n "$targets" ] || die "no fuzz targets found"
for target in $targets; do
    # shellcheck disable=SC2086
    log=$(cargo $toolchain fuzz run "$target" -- -max_total_time="$seconds" -max_len=1200 2>&1) || {
        printf '%s\n' "$log" | tail -n 60
        die "fuzz target $target found something"
    }
    runs=$(printf '%s\n' "$log" | sed -n 's/^Done \([0-9]*\) runs.*/\1/p')
    [ "${runs:-0}" -gt 1000 ] || die "fuzz target $target made only ${runs:-0} runs"
    printf -- '- %s: %s runs, nothing found\n' "$target" "$runs"
done
