#!/usr/bin/env bash
# tidegate for C: the header is the one that the crate makes, is clean C11 and C++, and a C program that links the
# library gets the right answers: on this machine, on threads, under valgrind, and on a Cortex-M3 in QEMU.
# ci/c.sh [--write]: writes the header instead.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/c
crate=crates/tidegate-c
header=$crate/include/tidegate.h

# To see what macros make, cbindgen has the compiler expand them, which stable must be allowed.
# Another version may lay the header out in another way.
version=0.29.4
if [ "$(cbindgen --version 2>/dev/null)" != "cbindgen $version" ]; then
    say "installing cbindgen $version with cargo"
    cargo install --quiet --locked "cbindgen@$version" || die "cargo could not install cbindgen"
fi
make_header() {
    (cd "$crate" && RUSTC_BOOTSTRAP=1 cbindgen --quiet --config cbindgen.toml --output "$1") ||
        die "cbindgen could not make the header"
}

case ${1:-} in
"") ;;
--write)
    make_header "$root/$header"
    exit
    ;;
*) die "usage: ci/c.sh [--write]" ;;
esac

command -v gcc >/dev/null && command -v g++ >/dev/null || install_debian gcc g++
command -v valgrind >/dev/null || install_debian valgrind
command -v arm-none-eabi-gcc >/dev/null || install_debian --no-install-recommends gcc-arm-none-eabi
command -v qemu-system-arm >/dev/null || install_debian --no-install-recommends qemu-system-arm
rustup target add thumbv7m-none-eabi >/dev/null 2>&1 || die "rustup could not add thumbv7m-none-eabi"

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

make_header "$out/tidegate.h"
diff -u "$header" "$out/tidegate.h" || die "$header is not what the crate makes: ci/c.sh --write"
printf -- '- the header is current\n'

warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Werror)
export RUSTFLAGS="-D warnings"
cargo build --quiet --release -p tidegate-c
library=$CARGO_TARGET_DIR/release/libtidegate_c.a
for options in "-O0" "-O2 -flto"; do
    # shellcheck disable=SC2086
    gcc -std=c11 $options "${warnings[@]}" -DTEST_WIDE "$crate/tests/host.c" "$crate/tests/semantics.c" \
        "$library" -pthread -o "$out/host"
    printf -- '- gcc %s: ' "$options"
    "$out/host"
done
printf -- '- under valgrind: '
valgrind --quiet --error-exitcode=1 --fair-sched=yes "$out/host"

for standard in c++11 c++20; do
    printf '#include "%s"\n' "$root/$header" >"$out/empty.cpp"
    g++ -std=$standard -Wall -Wextra -Werror -fsyntax-only "$out/empty.cpp"
done
g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror "$crate/tests/header.cpp" "$library" -o "$out/header"
"$out/header" || die "the C++ program got a wrong answer: $?"
printf -- '- g++: the header is C++ too\n'

# The README's example is C.
sed -n '/^```c$/,/^```$/p' "$crate/README.md" | sed '/^```/d' >"$out/readme.c"
[ -s "$out/readme.c" ] || die "the README has no example"
gcc -std=c11 "${warnings[@]}" -I"$crate/include" -fsyntax-only "$out/readme.c"

# A header of another size than the library's does not compile.
sed 's/\(define TIDEGATE_LIMITER_SIZE\) .*/\1 120/' "$header" >"$out/tidegate.h"
printf '#include "tidegate.h"\n' >"$out/wrong.c"
if log=$(gcc -std=c11 -fsyntax-only "$out/wrong.c" 2>&1); then
    die "a header with another size compiles"
fi
[[ $log == *"the size that the library expects"* ]] || die "another size is refused without saying so: $log"

# Without an operating system: 32-bit words alone, and nothing but Rust's and gcc's support for the processor.
cargo build --quiet --release -p tidegate-c --target thumbv7m-none-eabi --no-default-features \
    --features panic-handler --config 'profile.release.opt-level="s"' --config profile.release.lto=true \
    --config profile.release.codegen-units=1
library=$CARGO_TARGET_DIR/thumbv7m-none-eabi/release/libtidegate_c.a
arm-none-eabi-gcc -std=c11 -mcpu=cortex-m3 -mthumb -Os -ffreestanding -ffunction-sections "${warnings[@]}" \
    "$crate/tests/bare.c" "$crate/tests/semantics.c" -nostdlib -Wl,--gc-sections,-z,noexecstack -T "$crate/tests/bare.ld" \
    "$library" -o "$out/bare.elf"
if arm-none-eabi-nm -C "$out/bare.elf" | grep -iE ' (__atomic_|__sync_|__aeabi_[df])'; then
    die "the image has a lock or a float in it"
fi
printf -- '- thumbv7m, in QEMU: '
timeout 60 qemu-system-arm -M lm3s6965evb -cpu cortex-m3 -nographic -monitor none -serial none \
    -semihosting-config enable=on,target=native -kernel "$out/bare.elf" || die "wrong on thumbv7m"
