#!/usr/bin/env bash
# ci/redis.sh [ARGUMENT...]: limits on a real Redis server, and on a cluster of three. The tests start their own, on free
# loopback ports. Needs redis-server, redis-cli, faketime and openssl (from Debian, if missing). Arguments go to cargo test.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
command -v redis-server >/dev/null || install_debian redis-server
command -v redis-cli >/dev/null || install_debian redis-tools
command -v faketime >/dev/null || install_debian faketime
command -v openssl >/dev/null || install_debian openssl

suite=(cargo test --package tidegate-redis --features cluster,metrics,tls,tower "$@")
say "one server"
"${suite[@]}" -- --ignored
say "a cluster"
REDIS_CLUSTER=1 "${suite[@]}" --test limits --test leases --test refusals --test same_answers --test extremes -- --ignored
say "two servers of HTTP that share one"
cargo test --package tidegate-cli --test redis "$@" -- --ignored
