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

# install_debian PACKAGE...
install_debian() {
    command -v apt-get >/dev/null || die "there is no apt-get to install $* with"
    say "installing $*"
    [ -n "${debian_lists_fresh:-}" ] || { apt-get update -qq && debian_lists_fresh=1; }
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
