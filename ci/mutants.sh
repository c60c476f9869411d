#!/usr/bin/env bash
# Breaks the table's protocol in one place at a time, in a copy, and shows that loom notices: which model, and how.
# Prints the table of docs/verification.md. About five minutes; not a part of ci/test.sh.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z src tests examples benches/limiter.rs benches/lease.rs Cargo.toml Cargo.lock crates README.md |
    xargs -0 cp --parents -t "$copy"
export RUSTFLAGS="--cfg tidegate_loom" RUST_BACKTRACE=0
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/mutants
survived=0

# mutant FILE FROM TO WHAT: FROM is a literal text that occurs once.
mutant() {
    local file=$1 from=$2 to=$3 what=$4 log model reason status=0
    (cd "$copy" && cp "$root/$file" "$file" && FROM=$from TO=$to perl -0pi -e '
        my $n = () = /\Q$ENV{FROM}\E/g;
        die "the text to change occurs $n times in $ARGV\n" if $n != 1;
        s/\Q$ENV{FROM}\E/$ENV{TO}/' "$file") || die "cannot make the mutant: $what"
    # The models of three threads on one key take long, and find nothing that two do not.
    log=$(cd "$copy" && timeout 600 cargo test --release --features alloc --test loom_table -- --skip by_three 2>&1) ||
        status=$?
    cp "$root/$file" "$copy/$file"
    case $log in
    *"could not compile"*) printf '%s\n' "$log" | tail -n 30 && die "does not compile: $what" ;;
    esac
    if [ "$status" -eq 0 ]; then
        survived=$((survived + 1))
        printf '| %s | **none** | |\n' "$what"
        return
    fi
    model=$(printf '%s\n' "$log" | sed -n 's/^test \(.*\)::u[0-9]* \.\.\. FAILED$/\1/p' | sort -u | paste -sd ',' | sed 's/,/, /g')
    reason=$(printf '%s\n' "$log" | grep -hoE "two slots of one key|a debit lost, or made twice|one slot, one key|one of two gets it all|[0-9]+ admitted|maximum number of branches" |
        sed 's/^[0-9]* admitted/too many admitted/; s/maximum number of branches/never ends/' | sort -u | paste -sd ';' | sed 's/;/; /g') || true
    [ "$status" -ne 124 ] || reason="${reason:+$reason; }never ends"
    [ -n "$model$reason" ] || die "failed for another reason: $what: $log"
    model=${model//_/ }
    printf '| %s | %s | %s |\n' "$what" "${model:-some}" "${reason:-another assertion}"
}

claim=src/table/claim.rs
find=src/table/find.rs
printf '| mutation | models that fail | how |\n|---|---|---|\n'
mutant $claim 'fence(Ordering::SeqCst);' '' 'no fence'
mutant $claim 'fence(Ordering::SeqCst);' 'fence(Ordering::AcqRel);' 'the fence `AcqRel` instead of `SeqCst`'
mutant $find 'if state.generation() != tag.generation() {' 'if false {' 'decide without comparing generations'
mutant src/table/slot.rs '(generation + 1) & GENERATION_MASK' 'generation & GENERATION_MASK' 'generations do not advance'
mutant $claim 'if !found.has_fingerprint(place.key()) {' 'if true {' 'settle without the scan'
mutant $claim '                            continue '"'"'scan;' '                            let _ = 0;' 'settle without looking again when a knock-out failed'
mutant $claim '            && slot
                .swap_state(state, State::new(W::ZERO, generation))
                .is_ok()' '            && slot
                .swap_state(state, State::new(W::ZERO, generation))
                .map_or(true, |()| true)' 'unseat without minding whether the exchange failed'
mutant $claim 'if state.payload() == A::Word::ZERO {
            match' 'if state.payload() == A::Word::ZERO || tag.status() == Status::Tentative {
            match' 'a tentative tag taken at its word beside a debited state'
mutant $find 'if state.generation() == taken.generation() {' 'if true {' 'take back whatever the state says'
mutant $find '            match slot.swap_state(state, State::new(stepped, state.generation())) {
                Ok(()) => return Some(answer),
                Err(current) => state = current,' '            match slot.swap_state(state, State::new(stepped, state.generation())) {
                Ok(()) => return Some(answer),
                Err(_) => return Some(answer),' 'a lost exchange taken for a debit'
mutant $claim 'mine.swap_tag(tag, tag.vacated(), Ordering::Relaxed);
                        return None;' 'let _ = is_ahead;' 'commit beside another slot of the key'

[ "$survived" -eq 0 ] || die "$survived mutants survived"
