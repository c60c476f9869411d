#!/usr/bin/env bash
# Instructions per decision, counted by callgrind, beside the recorded budget: they repeat exactly, as times do not.
# Fails if a count is more than 5 % above its budget. ci/instructions.sh [--record]
# Another compiler makes other code: then the counts are printed, and nothing is judged.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
command -v valgrind >/dev/null || install_debian valgrind
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/instructions
budget=ci/instructions.budget
# Decisions in the shorter of two runs; a whole number of tables full of keys.
n=4096

record=
case ${1:-} in
"") ;;
--record) record=1 ;;
*) die "usage: ci/instructions.sh [--record]" ;;
esac

# Flags of the caller's would be another compiler.
env -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS -u CARGO_BUILD_TARGET \
    cargo build --quiet --release --manifest-path ci/instructions/Cargo.toml
program=$CARGO_TARGET_DIR/release/tidegate-instructions
compiler=$(rustc -vV | sed -n '1s/rustc/&/p; s/^host: /on /p' | paste -sd ' ')

# collected ROW N: instructions in all decisions of a run, without what leads up to them.
collected() {
    local log count
    log=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='measured_*' \
        "$program" "$1" "$2" 2>&1) || die "$1 does not run: $log"
    count=$(printf '%s\n' "$log" | sed -n 's/^.*Collected : \([0-9]*\)$/\1/p')
    [ "${count:-0}" -gt 0 ] || die "nothing was counted for $1: $log"
    printf '%s\n' "$count"
}

counts=
for row in $("$program"); do
    short=$(collected "$row" "$n")
    long=$(collected "$row" $((2 * n)))
    counts+=$(awk -v row="$row" -v all=$((long - short)) -v n="$n" \
        'BEGIN { printf "%s %.1f", row, all / n }')$'\n'
done

if [ -n "$record" ]; then
    {
        printf '# Instructions per decision. Written by ci/instructions.sh --record\n'
        printf '# %s\n' "$compiler"
        printf '%s' "$counts"
    } >"$budget"
    printf 'recorded in %s\n' "$budget"
fi
[ -f "$budget" ] || die "there is no $budget: ci/instructions.sh --record makes it"

recorded=$(sed -n '2s/^# //p' "$budget")
judge=1
[ "$recorded" = "$compiler" ] || judge=

printf '%s' "$counts" | awk -v judge="$judge" -v budget="$budget" '
    BEGIN {
        while ((getline line < budget) > 0) {
            if (line !~ /^#/ && split(line, part, " ") == 2) allowed[part[1]] = part[2]
        }
        print "| decision | instructions | budget | |"
        print "|---|--:|--:|---|"
    }
    {
        note = ""
        if (!($1 in allowed)) {
            note = "no budget"
            over++
        } else if ($2 > allowed[$1] * 1.05) {
            note = sprintf("%.1f %% over", ($2 / allowed[$1] - 1) * 100)
            over++
        } else if ($2 < allowed[$1] * 0.95) {
            note = sprintf("%.1f %% under: the budget could be lowered", (1 - $2 / allowed[$1]) * 100)
        }
        printf "| %s | %s | %s | %s |\n", $1, $2, ($1 in allowed) ? allowed[$1] : "-", note
        delete allowed[$1]
    }
    END {
        for (row in allowed) {
            printf "| %s | - | %s | no such decision |\n", row, allowed[row]
            over++
        }
        exit judge && over > 0
    }
' || die "more than 5 % over budget, or the budget has other rows: see the table; if it must be so, ci/instructions.sh --record"

[ -n "$judge" ] ||
    printf '\nnot judged: the budget was recorded with %s, and this is %s\n' "$recorded" "$compiler"
