#!/usr/bin/env bash
# Breaks the table's protocol, or the log's, in one place at a time, in a copy, and shows that loom notices: which model,
# and how. Prints the tables of docs/verification.md. About a quarter of an hour; not a part of ci/test.sh.
# ci/mutants.sh [table|log] [WHAT]: of all, or of those whose description contains WHAT.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

which=${1:-all}
wanted=${2:-}
case $which in
all | table | log) ;;
*) die "usage: ci/mutants.sh [table|log] [WHAT]" ;;
esac

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z src tests examples benches/limiter.rs benches/lease.rs Cargo.toml Cargo.lock crates README.md |
    xargs -0 cp --parents -t "$copy"
export RUSTFLAGS="--cfg tidegate_loom" RUST_BACKTRACE=0
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/mutants
survived=0

# mutant FILE FROM TO WHAT: FROM is a literal text that occurs once.
mutant() {
    local file=$1 from=$2 to=$3 what=$4 some log model reason status=0
    [[ $what = *"$wanted"* ]] || return 0
    (cd "$copy" && cp "$root/$file" "$file" && FROM=$from TO=$to perl -0pi -e '
        my $n = () = /\Q$ENV{FROM}\E/g;
        die "the text to change occurs $n times in $ARGV\n" if $n != 1;
        s/\Q$ENV{FROM}\E/$ENV{TO}/' "$file") || die "cannot make the mutant: $what"
    # The cheap models first: the first group in which one fails is enough.
    for some in "${models[@]}"; do
        # shellcheck disable=SC2086
        log=$(cd "$copy" && timeout "$patience" cargo test --release --features alloc --test $some 2>&1) || status=$?
        [ "$status" -eq 0 ] || break
    done
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
    reason=$(printf '%s\n' "$log" | grep -hoE "two slots of one key|the ring is not what was admitted|[0-9]+ passed of|[0-9]+ of [0-9]+ or|left over|a debit lost, or made twice|one slot, one key|one of two gets it all|[0-9]+ admitted|maximum number of branches" |
        sed 's/^[0-9]* admitted/too many admitted/; s/^[0-9]* passed of/too few admitted/; s/^[0-9]* of [0-9]* or/not one state of the ring/; s/maximum number of branches/never ends/' | sort -u | paste -sd ';' | sed 's/;/; /g') || true
    [ "$status" -ne 124 ] || reason="${reason:+$reason; }never ends"
    [ -n "$model$reason" ] || die "failed for another reason: $what: $log"
    model=${model//_/ }
    printf '| %s | %s | %s |\n' "$what" "${model:-some}" "${reason:-another assertion}"
}

heading() {
    printf '\n| mutation | models that fail | how |\n|---|---|---|\n'
}

if [ "$which" != log ]; then
# The models of three threads on one key take long, and find nothing that two do not.
models=('loom_table -- --skip by_three')
patience=600
claim=src/table/claim.rs
find=src/table/find.rs
heading
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
fi

if [ "$which" != table ]; then
# One width: nothing in the protocol depends on it. A model that ends does so within the hour, on the slowest machine.
models=(
    'loom_log -- last::u64 laps::u64 whole::u64 sweep::u64 peek::u64 retune::u64'
    'loom_log -- reset::u64 reset_lap::u64 reset_refund::u64 three::u64 jump_back::u64 given_back::u64'
    'loom_log -- refund::u64 refunds::u64'
)
patience=3600
ring=src/log/ring.rs
heading
mutant $ring 'self.load(index, Ordering::Acquire)' 'self.load(index, Ordering::Relaxed)' 'places read `Relaxed`'
mutant $ring 'W::compare_exchange(place, from.0, to.0, Ordering::Release,' 'W::compare_exchange(place, from.0, to.0, Ordering::Relaxed,' 'places exchanged `Relaxed`'
mutant $ring 'let head = self.head(Ordering::Acquire);' 'let head = self.head(Ordering::Relaxed);' 'the head read `Relaxed`'
mutant $ring 'W::compare_exchange(
            self.head,
            from.0,
            to.0,
            Ordering::Release,' 'W::compare_exchange(
            self.head,
            from.0,
            to.0,
            Ordering::Relaxed,' 'the head exchanged `Relaxed`'
mutant $ring '&& self.ring.head(Ordering::Relaxed) == head' '' 'decide without looking at the head again'
mutant $ring 'self.ring.load(head.index(), Ordering::Relaxed) == self.oldest
            && ' '' 'decide without looking at the place again'
mutant src/log/slot.rs 'self.next(index - places, self.lap() + 1, 0)' 'self.next(index - places, self.lap(), 0)' 'laps do not advance'
mutant src/log/slot.rs 'let version = self.version() + 1;' 'let version = self.version();' 'versions do not advance'
mutant src/log/slot.rs 'Self::taken(0, 0, version & ((1 << bits) - 1), bits)' 'Self::taken(0, 0, version & 0, bits)' 'void words are all the same'
mutant $ring 'if weight > 1 && !self.fill(head, weight, claimed.time(Self::BITS)) {' 'if weight > 1 && false {' 'advance without filling'
mutant $ring 'if self.head(Ordering::Relaxed) != head {
                    return false;
                }' '' 'fill without looking at the head again'
mutant $ring '        if self.head(Ordering::Relaxed) != head {
            return;
        }
        // Void' '        // Void' 'shift without looking at the head again'
mutant $ring '!older.is_void(bits) && !older.is_of(head.lap_at(before), bits);' '!older.is_void(bits);' 'shift a claimed place'
mutant $ring 'if seen.is_void(bits) || seen.is_of(head.lap_at(index), bits) {
            self.swap_head' 'if seen.is_void(bits) {
            self.swap_head' 'shift to a claimed place'
mutant $ring 'if seen.is_void(bits) || seen.is_of(head.lap_at(index), bits) {
                    break;' 'if seen.is_void(bits) {
                    break;' 'clear claimed places'
mutant $ring '                if self.head(Ordering::Relaxed) != head {
                    return;
                }' '' 'clear without looking at the head again'
mutant $ring 'if time == own || self.swap' 'if time == own || true || self.swap' 'step without minding whether the shift was made'
mutant $ring 'if self.swap(head.index(), seen.oldest, mine) {' 'if self.swap(head.index(), seen.oldest, mine) || true {' 'a lost exchange taken for an admission'
fi

[ "$survived" -eq 0 ] || die "$survived mutants survived"
