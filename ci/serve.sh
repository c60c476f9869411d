#!/usr/bin/env bash
# ci/serve.sh: `tidegate serve` before real clients over loopback: curl for the header fields and for spoofed addresses,
# wrk for load and for a flood of clients that never come twice, headless Chromium for the page, which types and clicks,
# and `tidegate drive` for a known pattern. Installs what is missing from Debian. Nothing in it fails for being slow.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
command -v curl >/dev/null || install_debian curl
command -v wrk >/dev/null || install_debian wrk
command -v chromedriver >/dev/null || install_debian --no-install-recommends chromium chromium-driver
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}

cargo build --quiet --release -p tidegate-cli
program=$CARGO_TARGET_DIR/release/tidegate
work=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    # A browser may still be on its way out.
    rm -rf "$work" 2>/dev/null || { sleep 2 && rm -rf "$work"; } || true
}
trap finish EXIT

# start NAME [ARGUMENT...]: a server with the policies of $work/NAME.toml, if there are any. Sets `url` and `pid`.
start() {
    local name=$1
    shift
    [ ! -e "$work/$name.toml" ] || set -- --config "$work/$name.toml" "$@"
    : >"$work/$name.err"
    "$program" serve --listen 127.0.0.1:0 "$@" 2>"$work/$name.err" &
    pid=$!
    pids+=("$pid")
    for _ in $(seq 600); do
        url=$(sed -n 's/^listening on //p' "$work/$name.err")
        [ -z "$url" ] || return 0
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    die "the server $name did not start: $(cat "$work/$name.err")"
}

# stop NAME PID: what it said is in $work/NAME.err.
stop() {
    kill "$2"
    wait "$2" || die "the server $1 failed: $(cat "$work/$1.err")"
}

# field NAME CURL_ARGUMENT...: the values of a header field, in a row.
field() {
    local name=$1
    shift
    curl -sSi "$@" | tr -d '\r' | sed -n "s/^$name: //Ip" | paste -sd '|'
}

# is WHAT VALUE EXPECTED
is() { [ "$2" = "$3" ] || die "$1 is '$2', and not '$3'"; }

# matches WHAT VALUE PATTERN
matches() { [[ $2 =~ $3 ]] || die "$1 is '$2', and not like '$3'"; }

# status CURL_ARGUMENT...
status() { curl -sS -o /dev/null -w '%{http_code}' "$@"; }

# metric URL PATTERN: the sum of the metrics whose names and labels are like it.
metric() { curl -fsS "$1/metrics" | awk -v pattern="$2" '$1 ~ pattern { sum += $2 } END { print sum + 0 }'; }

# settled URL: waits until nobody else is connected, so that all that was sent has been counted.
settled() {
    for _ in $(seq 600); do
        [ "$(metric "$1" '^tidegate_serve_connections$')" != 1 ] || return 0
        sleep 0.1
    done
    die "connections stay open"
}

say "header fields, by curl"
start built-in
one='x-api-key: key-of-client-1'
is "RateLimit-Policy" "$(field ratelimit-policy -H "$one" "$url/bar")" '"bar";q=5;w=60, "per-address";q=600;w=60'
matches "RateLimit" "$(field ratelimit -H "$one" "$url/bar")" '^"bar";r=3;t=[0-9]+, "per-address";r=59[0-9];t=[0-9]+$'
is "X-RateLimit-Limit" "$(field x-ratelimit-limit -H "$one" "$url/bar")" 5
is "X-RateLimit-Remaining" "$(field x-ratelimit-remaining -H "$one" "$url/bar")" 1
is "Retry-After of an admitted request" "$(field retry-after -H "$one" "$url/bar")" ""
matches "Retry-After" "$(field retry-after -H "$one" "$url/bar")" '^[1-9][0-9]?$'
is "the status" "$(status -H "$one" "$url/bar")" 429
is "the type of a refusal" "$(field content-type -H "$one" -H 'accept: application/problem+json' "$url/bar")" application/problem+json
matches "the refusal" "$(curl -sS -H "$one" -H 'accept: application/problem+json' "$url/bar")" '"violated-policies": ?\["bar"\]'
is "the challenge" "$(field www-authenticate -H 'x-api-key: wrong' "$url/bar")" 'ApiKey realm="tidegate", header="x-api-key"'
is "the status without a key" "$(status "$url/bar")" 401
is "the status of the page" "$(status "$url/")" 200
stop built-in "$pid"

say "spoofed addresses buy nothing, by curl"
cat >"$work/direct.toml" <<'END'
on-failure = "refuse"
proxies = { count = 1, trusted = ["10.0.0.0/8"] }
[[policy]]
name = "peer"
routes = ["/foo"]
key = "peer"
algorithm = "sliding-log"
quota = "5/day"
[[policy]]
name = "client"
routes = ["/bar"]
key = "client"
algorithm = "sliding-log"
quota = "5/day"
END
sed 's|10.0.0.0/8|127.0.0.0/8|' "$work/direct.toml" >"$work/proxied.toml"
# admitted URL SUFFIX: how many of 20 requests pass, each with another address in front of the suffix.
admitted() {
    local number passed=0
    for number in $(seq 20); do
        [ "$(status -H "X-Forwarded-For: 198.51.100.$number$2" -H "Forwarded: for=198.51.100.$number" "$1")" != 200 ] ||
            passed=$((passed + 1))
    done
    echo "$passed"
}
start direct
is "of requests by peer" "$(admitted "$url/foo" "")" 5
# Whoever is no trusted proxy is not believed.
is "of requests by client" "$(admitted "$url/bar" "")" 5
stop direct "$pid"
start proxied
# A trusted proxy is believed as far as it has written itself: the last entry.
is "of requests through a proxy" "$(admitted "$url/bar" ", 203.0.113.7")" 5
is "of requests by others through a proxy" "$(admitted "$url/bar" "")" 20
stop proxied "$pid"

say "3 per 10 s, and one every 2.1 s, by drive"
cat >"$work/three.toml" <<'END'
on-failure = "refuse"
policy = [{ name = "three", key = "everyone", algorithm = "sliding-log", quota = "3/10s" }]
END
start three
"$program" drive "$url/foo" --requests 8 --interval 2100ms | tee "$work/driven"
awk '$1 ~ /^[0-9]+$/ && $3 == "s" { print ($4 == 200 ? "admitted" : $4 == 429 ? "refused" : $4) }' "$work/driven" >"$work/verdicts"
# What the same algorithm says of the times at which they were sent, whatever they have come to be on a busy machine.
awk '$1 ~ /^[0-9]+$/ && $3 == "s" { print $2 }' "$work/driven" |
    "$program" simulate --limit 3/10s --algorithm sliding-log --traffic - --csv >"$work/expected.csv"
is "of requests in the table" "$(wc -l <"$work/verdicts")" 8
is "the pattern" "$(paste -sd ' ' "$work/verdicts")" "$(awk -F, 'NR > 1 { print $2 }' "$work/expected.csv" | paste -sd ' ')"
stop three "$pid"

say "load, by wrk"
cat >"$work/load.toml" <<'END'
on-failure = "refuse"
policy = [{ name = "thousand", key = "peer", algorithm = "anchored-window", quota = "1000/day" }]
END
start load --access-log "$work/access.log"
wrk -t2 -c50 -d3s "$url/foo" >"$work/wrk"
grep 'requests in' "$work/wrk"
settled "$url"
is "of status 200 under load" "$(metric "$url" 'responses_total.*"/foo".*"200"')" 1000
refused=$(metric "$url" 'responses_total.*"/foo".*"429"')
((refused > 0)) || die "wrk did not exceed the limit"
is "of all responses" "$(metric "$url" 'responses_total.*"/foo"')" $((1000 + refused))
responses=$(($(metric "$url" 'responses_total') + 1))
stop load "$pid"
tail -1 "$work/load.err"
read -r written lost < <(sed -n 's/^access log: \([0-9]*\) lines written, \([0-9]*\) lost$/\1 \2/p' "$work/load.err")
is "of lines written and lost" $((written + lost)) "$responses"
is "of lines in the log" "$(wc -l <"$work/access.log")" "$written"
"$program" replay "$work/access.log" --limit 1000/day --algorithm fixed-window-anchored --json >"$work/replay.json"
grep -q "\"requests\":$written,\"unreadable\":0" "$work/replay.json" || die "the log is not replayed as written"

say "a flood of clients that never come twice, by wrk"
cat >"$work/flood.toml" <<'END'
on-failure = "refuse"
proxies = { count = 1, trusted = ["127.0.0.0/8"] }
tiers = { header = "x-api-key", clients = { known = ["victim"] } }
[[policy]]
name = "victim"
routes = ["/bar"]
key = "header:x-api-key"
algorithm = "sliding-log"
tiers = { known = "1000/day" }
[[policy]]
name = "per-address"
key = "client"
quota = "30/min"
tiers = { known = "100000/min" }
END
start flood
victim='x-api-key: victim'
# flood: 300,000 requests at least.
flood() {
    local until=$(($(metric "$url" 'responses_total') + 300000)) run
    for run in $(seq 100); do
        wrk -t2 -c50 -d3s -s ci/serve/flood.lua "$url" >"$work/wrk"
        (($(metric "$url" 'responses_total') < until)) || return 0
    done
    die "300,000 requests did not come together in $run runs"
}
memory() { awk '/^VmRSS/ { print $2 }' "/proc/$pid/status"; }
"$program" drive "$url/bar" --requests 100 -H "$victim" | tail -1
wrk -t2 -c50 -d1s -H "$victim" "$url/" >/dev/null
before=$(memory)
flood
between=$(memory)
flood &
flooding=$!
pids+=("$flooding")
# In the middle of it.
"$program" drive "$url/bar" --requests 100 -H "$victim" >"$work/driven"
grep -q ': 100 of status 200; refused 0.00 %' "$work/driven" || die "the flood has hurt: $(tail -1 "$work/driven")"
wait "$flooding"
after=$(memory)
matches "what is left of the victim's" "$(field ratelimit -H "$victim" "$url/bar")" '^"victim";r=799;t='
printf 'VmRSS in KiB: %s before, %s after 300,000 clients, %s after as many more; %s responses in all\n' \
    "$before" "$between" "$after" "$(metric "$url" 'responses_total')"
curl -fsS "$url/metrics" | grep -E 'responses_total.*"/bar"|full_total'
# The table of strangers is 2 MiB, and is touched by the first flood; the rest is for the allocator.
((between - before < 4096)) || die "memory has grown by $((between - before)) KiB with the first flood"
((after - between < 2048)) || die "memory has grown by $((after - between)) KiB with the second flood"
stop flood "$pid"

say "the page, by Chromium"
cat >"$work/page.toml" <<'END'
on-failure = "refuse"
tiers = { header = "x-api-key", clients = { "client-1" = ["a-secret-key"] } }
[[policy]]
name = "<b id=no>foo</b>"
routes = ["/foo"]
key = "header:x-api-key"
algorithm = "sliding-log"
tiers = { client-1 = "5/day" }
[[policy]]
name = "strangers"
key = "peer"
algorithm = "sliding-log"
quota = "20/day"
tiers = { client-1 = "30/day" }
END
start page
"$program" drive "$url/foo" --requests 3 | tail -1
"$program" drive "$url/foo" --requests 4 -H 'x-api-key: a-secret-key' | tail -1
HOME=$work TMPDIR=$work timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --user-data-dir="$work/chromium" --enable-logging=stderr --virtual-time-budget=5000 --dump-dom "$url/" \
    >"$work/dom.html" 2>"$work/chromium.err" || die "Chromium failed: $(tail -5 "$work/chromium.err")"
# shows TEXT
shows() { grep -qF -- "$1" <(tr -d '\n' <"$work/dom.html") || die "the page does not show '$1': $(cat "$work/dom.html")"; }
shows 'You are 127.0.0.1, of no tier.'
shows '<td>strangers</td><td>20/day</td><td class="number">17 of 20</td>'
shows '<td>&lt;b id=no&gt;foo&lt;/b&gt;</td><td>5/day</td><td class="number">1 of 5</td>'
shows '<td>strangers</td><td>30/day</td><td class="number">26 of 30</td>'
shows '>client-1 *** #'
! grep -q 'a-secret-key\|<b id' "$work/dom.html" || die "the page shows what it must not: $(cat "$work/dom.html")"
! grep -i 'refused to\|content security policy\|uncaught' "$work/chromium.err" || die "the page breaks its own rules"

# Now as somebody would: type a key, press the button, and look.
HOME=$work TMPDIR=$work chromedriver --port=0 >"$work/driver.log" 2>&1 &
driver_pid=$!
pids+=("$driver_pid")
port=
for _ in $(seq 600); do
    port=$(sed -n 's/^ChromeDriver was started successfully on port \([0-9]*\).*/\1/p' "$work/driver.log")
    [ -z "$port" ] || break
    sleep 0.1
done
[ -n "$port" ] || die "chromedriver did not start: $(cat "$work/driver.log")"
# driver METHOD PATH [JSON]: what it answers.
driver() {
    curl -sS -X "$1" -H 'content-type: application/json' ${3:+-d "$3"} "http://127.0.0.1:$port/session$2"
}
arguments='["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]'
answer=$(driver POST "" "{\"capabilities\": {\"alwaysMatch\": {\"goog:chromeOptions\": {\"args\": $arguments}}}}")
session=$(sed -n 's/.*"sessionId":"\([^"]*\)".*/\1/p' <<<"$answer")
[ -n "$session" ] || die "Chromium did not start: $answer"
# element SELECTOR
element() {
    driver POST "/$session/element" "{\"using\": \"css selector\", \"value\": \"$1\"}" |
        sed -n 's/.*"element-[^"]*":"\([^"]*\)".*/\1/p'
}
# text SELECTOR, as it is seen, in one line
text() {
    driver GET "/$session/element/$(element "$1")/text" | sed 's/^{"value":"//; s/"}$//; s/\\u003C/</g; s/\\n/ /g'
}
# comes_to SELECTOR TEXT: the page shows it before long.
comes_to() {
    local seen=
    for _ in $(seq 600); do
        seen=$(text "$1")
        [[ $seen != *"$2"* ]] || return 0
        sleep 0.1
    done
    die "the page shows '$seen' in $1, and not '$2'"
}
driver POST "/$session/url" "{\"url\": \"$url/\"}" >/dev/null
comes_to '#who' 'You are 127.0.0.1, of no tier.'
driver POST "/$session/element/$(element '#key')/value" '{"text": "a-secret-key\uE004"}' >/dev/null
comes_to '#who' 'You are 127.0.0.1, of the tier client-1.'
comes_to '#budgets' '5/day 1 of 5'
driver POST "/$session/element/$(element button)/click" '{}' >/dev/null
comes_to '#answer' '200: hello, client-1'
comes_to '#budgets' '5/day 0 of 5'
driver POST "/$session/element/$(element button)/click" '{}' >/dev/null
comes_to '#answer' '429: Too many requests. Try again in '
text '#budgets' && echo
driver DELETE "/$session" >/dev/null
kill "$driver_pid"
stop page "$pid"
