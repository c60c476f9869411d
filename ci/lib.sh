# Shared by the scripts here: say what happens, install what is missing, say that too.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}

say() { printf '\n== %s\n' "$*"; }

die() {
    printf 'ci: %s\n' "$*" >&2
    exit 1
}

refresh_debian() {
    command -v apt-get >/dev/null || die "there is no apt-get to install what is missing with"
    [ -n "${debian_lists_fresh:-}" ] || { apt-get update -qq && debian_lists_fresh=1; }
}

# install_debian PACKAGE...
install_debian() {
    say "installing $*"
    refresh_debian
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null ||
        die "apt-get could not install $*"
}

# need_component COMPONENT SUBCOMMAND: a part of the Rust toolchain, and the cargo subcommand it brings.
need_component() {
    cargo "$2" --version >/dev/null 2>&1 && return
    say "installing the Rust component $1"
    rustup component add "$1" >/dev/null || die "the Rust component $1 is missing and could not be added"
}

# need_cargo COMMAND CRATE: a tool from crates.io.
need_cargo() {
    command -v "$1" >/dev/null && return
    say "installing $2 with cargo"
    cargo install --quiet --locked "$2" || die "$1 is missing, and cargo could not install it"
}

# The microcontrollers: what firmware is built for.
bare_targets=(thumbv6m-none-eabi thumbv7m-none-eabi thumbv7em-none-eabi riscv32imac-unknown-none-elf riscv32imc-unknown-none-elf)

# use_bare_toolchain [debian]: sets `bare_way` and `bare_compiler`, and how `cargo_bare ARGUMENT...` runs cargo. The ordinary way is
# rustup's targets. Where those cannot be had, or with the argument `debian`, it is Debian's toolchain, which has the
# sources of core; then `--target` must be among the arguments.
use_bare_toolchain() {
    if [ "${1:-}" != debian ] && rustup target add "${bare_targets[@]}" >/dev/null 2>&1; then
        cargo_bare() { cargo "$@"; }
        bare_way=rustup bare_compiler=$(rustc --version)
        return
    fi
    say "building core from source with Debian's toolchain"
    [ -x /usr/bin/rustc ] && [ -d /usr/lib/rustlib/src/rust/library ] ||
        install_debian rustc-web cargo-web rust-web-src
    command -v ld.lld-19 >/dev/null || install_debian lld-19
    cargo_bare() {
        PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 \
            RUSTFLAGS="${RUSTFLAGS:-} -C linker=ld.lld-19 -C linker-flavor=ld.lld" \
            cargo "$@" -Zbuild-std=core
    }
    bare_way=debian bare_compiler=$(/usr/bin/rustc --version)
}

# need_qemu: emulators for all of these.
need_qemu() {
    command -v qemu-system-arm >/dev/null && command -v qemu-system-riscv32 >/dev/null && return
    local packages=(qemu-system-arm qemu-system-misc) tools version
    tools=$(dpkg-query -W -f '${Version}' qemu-utils 2>/dev/null) || tools=
    refresh_debian
    # Newer releases have RISC-V in a package of its own.
    ! apt-cache show qemu-system-riscv >/dev/null 2>&1 || packages=(qemu-system-arm qemu-system-riscv)
    version=$(apt-cache madison qemu-system-arm | awk 'NR == 1 { print $3 }')
    # Tools of a newer release than the emulators' forbid them: apt would remove the tools.
    if [ -n "$tools" ] && [ -n "$version" ] && dpkg --compare-versions "$tools" gt "$version"; then
        say "qemu-utils $tools does not go with the emulators, which are $version: so that is installed instead"
        packages+=(--allow-downgrades "qemu-utils=$version")
    fi
    install_debian --no-install-recommends "${packages[@]}"
}

# emulate TARGET IMAGE: runs an image until it exits, for a minute at most. Virtual time advances by a nanosecond an
# instruction, so a run repeats to the instruction.
emulate() {
    local board
    case $1 in
    thumbv6m-*) board="qemu-system-arm -M microbit -cpu cortex-m0" ;;
    thumbv7m-*) board="qemu-system-arm -M lm3s6965evb -cpu cortex-m3" ;;
    thumbv7em-*) board="qemu-system-arm -M mps2-an386 -cpu cortex-m4" ;;
    riscv32imac-*) board="qemu-system-riscv32 -M virt -bios none -cpu rv32,g=off,f=off,d=off" ;;
    # Without the atomic instructions.
    riscv32imc-*) board="qemu-system-riscv32 -M virt -bios none -cpu rv32,g=off,f=off,d=off,a=off" ;;
    *) die "no board for $1" ;;
    esac
    # shellcheck disable=SC2086
    timeout 60 $board -nographic -icount shift=0,align=off,sleep=off \
        -semihosting-config enable=on,target=native -kernel "$2" </dev/null
}
