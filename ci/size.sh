#!/usr/bin/env bash
# Flash, RAM and instructions of each kind of decision on five microcontrollers: images with it and without it, and a run
# in QEMU that executes an instruction a nanosecond. Looks for panics, floats and 64-bit atomics in the images.
# Fails if a number is more than 5 % above its budget. ci/size.sh [--record]
# Another compiler makes other code: then the numbers are printed, and only the aims are judged.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
budget=$root/ci/size.budget
record=
case ${1:-} in
"") ;;
--record) record=1 ;;
*) die "usage: ci/size.sh [--record]" ;;
esac
use_bare_toolchain
need_qemu
command -v llvm-nm >/dev/null && command -v llvm-size >/dev/null && command -v llvm-objdump >/dev/null ||
    install_debian llvm
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/firmware
cd firmware

# scan IMAGE: what firmware with narrow words must be free of, one kind a line.
scan() {
    local names code
    names=$(llvm-nm --demangle "$1")
    code=$(llvm-objdump -d --no-show-raw-insn "$1")
    ! grep -qE 'rust_begin_unwind|core::panicking' <<<"$names" || echo "a panic"
    ! grep -qE '__(atomic|sync)_.*_8$|portable_atomic::imp::fallback' <<<"$names" || echo "a 64-bit atomic"
    ! grep -qE '\b(ldrexd|strexd|lr\.d|sc\.d|amo[a-z]+\.d)\b' <<<"$code" || echo "a 64-bit atomic instruction"
    ! grep -qE '__aeabi_([df]|u?[il]2[df])|__[a-z]+[sd]f([0-9]|[sdt]i)?$' <<<"$names" || echo "a float"
    ! grep -qE '\b(v(add|sub|mul|div|mov|cvt|ldr|str|push|pop)[.a-z0-9]*|f[a-z]+\.[sd][.a-z]*|fl[wd]|fs[wd])\s' <<<"$code" ||
        echo "a float instruction"
}

# sizes IMAGE: bytes of flash and of RAM, without the room for the stack.
sizes() {
    llvm-size -A "$1" | awk '
        $1 ~ /^\.(debug|comment|ARM|riscv|symtab|stack|heap|text\.dummy|got)/ { next }
        $1 ~ /^\.(vector_table|init|text|rodata|srodata|trap|gnu)/ { flash += $2 }
        $1 ~ /^\.s?data/ { flash += $2; ram += $2 }
        $1 ~ /^\.s?bss/ { ram += $2 }
        END { print flash, ram }'
}

# The search finds what there is to find.
cargo_bare build --quiet --release --bin control --features wide --target thumbv7m-none-eabi
found=$(scan "$CARGO_TARGET_DIR/thumbv7m-none-eabi/release/control" | paste -sd ',')
[ "$found" = "a panic,a 64-bit atomic,a float" ] || die "the control image has a panic, a 64-bit atomic and a float, found: $found"

numbers=
for target in "${bare_targets[@]}"; do
    RUSTFLAGS="-D warnings" cargo_bare build --quiet --release --bins --target "$target"
    read -r flash ram <<<"$(sizes "$CARGO_TARGET_DIR/$target/release/size_nothing")"
    for source in src/bin/size_*.rs; do
        image=$(basename "$source" .rs)
        [ "$image" != size_nothing ] || continue
        path=$CARGO_TARGET_DIR/$target/release/$image
        found=$(scan "$path")
        [ -z "$found" ] || die "$target, $image has ${found//$'\n'/, }"
        read -r with_flash with_ram <<<"$(sizes "$path")"
        name=${image#size_}
        numbers+="$target ${name//_/-} flash $((with_flash - flash))"$'\n'
        numbers+="$target ${name//_/-} ram $((with_ram - ram))"$'\n'
    done
    # The self-test prints, and printing can panic; the rest it must be free of too.
    found=$(scan "$CARGO_TARGET_DIR/$target/release/selftest")
    [ "$found" = "a panic" ] || die "$target, selftest has ${found//$'\n'/, }"
    rows=$(emulate "$target" "$CARGO_TARGET_DIR/$target/release/instructions" 2>/dev/null) ||
        die "$target: cannot count instructions: $rows"
    numbers+=$(awk -v target="$target" '{ print target, $1, "instructions", $2 }' <<<"$rows")$'\n'
done

if [ -n "$record" ]; then
    {
        printf '# Flash and RAM in bytes, and instructions a decision. Written by ci/size.sh --record\n'
        printf '# %s\n' "$bare_compiler"
        printf '%s' "$numbers"
    } >"$budget"
    printf 'recorded in %s\n\n' "${budget#"$root"/}"
fi
[ -f "$budget" ] || die "there is no $budget: ci/size.sh --record makes it"

# tables BUDGET: what the documentation shows.
tables() {
    awk '
        function row(name, kind, unit,   line, i) {
            line = "| " name " |"
            for (i = 1; i <= columns; i++) line = line " " value[target[i], name, kind] " |"
            print line
        }
        function table(kind, title,   i) {
            print "\n" title "\n"
            print "| | Cortex-M0 | Cortex-M3 | Cortex-M4 | RV32IMAC | RV32IMC |\n|---|--:|--:|--:|--:|--:|"
            for (i = 1; i <= names[kind]; i++) row(name[kind, i], kind)
        }
        /^#/ { next }
        {
            if (!($1 in seen)) { seen[$1]; target[++columns] = $1 }
            if (!(($2, $3) in known)) { known[$2, $3]; name[$3, ++names[$3]] = $2 }
            value[$1, $2, $3] = $3 == "instructions" ? sprintf("%.0f", $4) : $4
        }
        END {
            table("flash", "Bytes of flash:")
            table("ram", "Bytes of RAM:")
            table("instructions", "Instructions a decision:")
        }' "$1"
}

# short BUDGET: what the README shows of it.
short() {
    awk '
        function row(title, image, decision,   line, i) {
            line = "| " title " |"
            for (i = 1; i <= columns; i++)
                line = line sprintf(" %d, %.0f |", value[target[i], image, "flash"], value[target[i], decision, "instructions"])
            print line
        }
        /^#/ { next }
        {
            if (!($1 in seen)) { seen[$1]; target[++columns] = $1 }
            value[$1, $2, $3] = $4
        }
        END {
            print "\n| bytes of flash, instructions | Cortex-M0 | Cortex-M3 | Cortex-M4 | RV32IMAC | RV32IMC |\n|---|--:|--:|--:|--:|--:|"
            row("`TokenBucket<u32>`", "token-bucket", "token-bucket-allowed")
            row("`FixedWindow<u32>`", "fixed-window", "fixed-window-allowed")
            row("`SlidingWindow<u32>`", "sliding-window", "sliding-window-allowed")
            row("`SlidingLog<8, u32>`", "sliding-log", "sliding-log-allowed")
            row("table of token buckets", "token-bucket-table", "token-bucket-table-hit-allowed")
            row("`OwnedTable` of 32", "owned-table", "owned-table-hit-allowed")
        }' "$1"
}

# between FILE TEXT: what stands between the markers there is this text, or with --record becomes it.
between() {
    local file=$1 text=$2 now
    local begin='<!-- written by ci/size.sh --record -->' end='<!-- end -->'
    now=$(awk -v begin="$begin" -v end="$end" '$0 == end { on = 0 } on; $0 == begin { on = 1 }' "$file")
    [ "$now" != "$text" ] || return 0
    [ -n "$record" ] || die "${file#"$root"/} does not show the budget: ci/size.sh --record"
    TEXT=$text awk -v begin="$begin" -v end="$end" '
        $0 == end { on = 0 }
        !on
        $0 == begin { on = 1; print ENVIRON["TEXT"] "\n" }' "$file" >"$file.new"
    mv "$file.new" "$file"
}

tables "$budget"
between "$root/docs/firmware.md" "$(tables "$budget")"
between "$root/README.md" "$(short "$budget")"

# The aims hold with any compiler.
awk '
    $1 == "thumbv6m-none-eabi" && $2 == "token-bucket" && $3 == "flash" { aims++; if ($4 > 1024) bad = bad "\n" $0 }
    $1 == "thumbv6m-none-eabi" && $2 ~ /^token-bucket-(allowed|denied)$/ { aims++; if ($4 > 250) bad = bad "\n" $0 }
    END { if (aims != 3 || bad) { print "aims missed, 1024 bytes of flash and 250 instructions:" bad; exit 1 } }
' <<<"$numbers" || die "a token bucket on Cortex-M0 costs more than it may"

recorded=$(sed -n '2s/^# //p' "$budget")
if [ "$recorded" != "$bare_compiler" ]; then
    printf '\nnot judged: the budget was recorded with %s, and this is %s\n' "$recorded" "$bare_compiler"
    exit
fi
printf '%s' "$numbers" | awk -v budget="$budget" '
    BEGIN {
        while ((getline line < budget) > 0) {
            if (line !~ /^#/ && split(line, part, " ") == 4) allowed[part[1] " " part[2] " " part[3]] = part[4]
        }
    }
    {
        key = $1 " " $2 " " $3
        if (!(key in allowed)) {
            printf "%s: %s, no budget\n", key, $4
            over++
        } else if ($4 > allowed[key] * 1.05) {
            printf "%s: %s, budget %s\n", key, $4, allowed[key]
            over++
        } else if ($4 < allowed[key] * 0.95) {
            printf "%s: %s, and the budget %s could be lowered\n", key, $4, allowed[key]
        }
        delete allowed[key]
    }
    END {
        for (key in allowed) {
            printf "%s: no such number\n", key
            over++
        }
        exit over > 0
    }
' || die "more than 5 % over budget, or the budget has other rows; if it must be so, ci/size.sh --record"
