#!/usr/bin/env bash
# Our header fields beside those of express-rate-limit under Node: the same requests to both, statuses and headers
# compared. Needs Node and npm (from Debian, if missing), and npm's registry. About 20 s.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    install_debian nodejs npm
fi
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/http

modules=$(mktemp -d)
trap 'rm -rf "$modules"' EXIT
cp ci/http/package.json ci/http/package-lock.json ci/http/peer.mjs "$modules"
log=$(cd "$modules" && npm ci --ignore-scripts --no-audit --no-fund 2>&1) || {
    printf '%s\n' "$log"
    die "npm could not install express-rate-limit"
}
cargo build --quiet --locked --manifest-path ci/http/Cargo.toml
"$CARGO_TARGET_DIR/debug/tidegate-http-compare" "$(command -v node)" "$modules/peer.mjs"
