#!/usr/bin/env bash
# ci/http_layer.sh [ROUNDS [SECONDS]]: what the layer costs an axum handler over loopback: without a layer, with ours, and
# with tower_governor, with header fields and without, in turns. Prints the better quartile, since other load on the
# machine only ever takes away: requests a second by wrk, and the server's own processor time a request, which suffers
# less; and the time of a call without a network. Also looks at the header fields with curl. Not a test of speed: nothing fails for being slow. Needs wrk and
# curl (from Debian, if missing).
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
rounds=${1:-7}
seconds=${2:-2}
command -v wrk >/dev/null || install_debian wrk
command -v curl >/dev/null || install_debian curl
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/http_layer

cargo build --quiet --locked --release --manifest-path benches/tower/Cargo.toml
program=$CARGO_TARGET_DIR/release/tidegate-tower-bench
limits=(none tidegate governor tidegate-silent governor-silent tidegate-draft)
work=$(mktemp -d)
declare -A pid port
finish() {
    for limit in "${!pid[@]}"; do kill "${pid[$limit]}" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT

for limit in "${limits[@]}"; do
    "$program" "$limit" >"$work/$limit.port" &
    pid[$limit]=$!
done
for limit in "${limits[@]}"; do
    for _ in $(seq 100); do
        [ -s "$work/$limit.port" ] && break
        sleep 0.1
    done
    port[$limit]=$(cat "$work/$limit.port")
    [ -n "${port[$limit]}" ] || die "the server with $limit did not start"
done

# field LIMIT NAME: the value of a header field.
field() { curl -fsSi "http://127.0.0.1:${port[$1]}/" | tr -d '\r' | sed -n "s/^$2: //Ip"; }
for name in x-ratelimit-limit x-ratelimit-remaining; do
    for limit in none tidegate-silent governor-silent; do
        [ -z "$(field $limit $name)" ] || die "with $limit there is a $name"
    done
    for limit in tidegate governor; do
        value=$(field $limit $name)
        [[ $value =~ ^[0-9]+$ ]] || die "$name with $limit is '$value'"
    done
done
value=$(field tidegate-draft ratelimit)
[[ $value =~ ^'"per-address";r='[0-9]+';t='[01]$ ]] || die "ratelimit is '$value'"
reset=$(field tidegate x-ratelimit-reset)
now=$(date +%s)
((reset >= now - 1 && reset <= now + 2)) || die "x-ratelimit-reset is $reset, and it is $now"

# ticks PID: processor time of a process, in clock ticks.
ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"; }
hz=$(getconf CLK_TCK)
for round in $(seq "$rounds"); do
    for limit in "${limits[@]}"; do
        before=$(ticks "${pid[$limit]}")
        log=$(wrk -t1 -c32 -d"${seconds}s" "http://127.0.0.1:${port[$limit]}/")
        after=$(ticks "${pid[$limit]}")
        ! grep -q 'Non-2xx' <<<"$log" || die "$limit refused requests: $log"
        awk -v limit="$limit" -v used=$((after - before)) -v hz="$hz" -v round="$round" '
            / requests in / { requests = $1 }
            /^Requests\/sec/ { rate = $2 }
            END { printf "%s %.0f %.3f\n", limit, rate, used / hz / requests * 1e6 }
        ' <<<"$log" >>"$work/results"
    done
done

# quartile LIMIT COLUMN SORT_OPTION: the one after a quarter of the values, as they are sorted.
quartile() {
    awk -v limit="$1" -v column="$2" '$1 == limit { print $column }' "$work/results" | sort "$3" |
        awk '{ value[NR] = $1 } END { print value[int((NR + 3) / 4)] }'
}
printf '| layer | requests a second | of none | processor time a request |\n|---|--:|--:|--:|\n'
for limit in "${limits[@]}"; do
    awk -v limit="$limit" -v rate="$(quartile "$limit" 2 -nr)" -v none="$(quartile none 2 -nr)" \
        -v time="$(quartile "$limit" 3 -n)" \
        'BEGIN { printf "| %s | %d | %.3f | %.2f us |\n", limit, rate, rate / none, time }'
done
printf '\nWithout a network, in one thread:\n'
"$program" calls
