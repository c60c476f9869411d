//! Sends the same requests to express-rate-limit and to a server that limits with tidegate, and compares status and
//! rate limit headers. Fails on any difference but the intended ones, which it lists.
//!
//! Usage: `tidegate-http-compare NODE PEER_SCRIPT`

mod client;
mod peer;
mod server;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use client::Answer;
use peer::Peer;

const MODES: [&str; 4] = ["draft-6", "draft-7", "draft-8", "legacy"];
const WINDOW: Duration = Duration::from_secs(10);

/// When the requests of a scenario are sent, in milliseconds since its first one: four at once, which is one too many;
/// a refused one later in the same window; one in the next.
const SCRIPT: [u64; 6] = [0, 0, 0, 0, 2_500, 12_000];

/// When the answers must have come, for the requests to be in the windows that they are meant for.
const LATEST: [u64; 6] = [1_000, 1_000, 1_000, 1_000, 9_000, 20_000];

/// A difference that we mean to make, and how often it is seen in a scenario.
struct Intended {
    mode: &'static str,
    field: &'static str,
    times: usize,
    what: &'static str,
    /// Our value, as express-rate-limit would have written it.
    translate: fn(&str) -> String,
}

const INTENDED: [Intended; 2] = [
    Intended {
        mode: "draft-8",
        field: "ratelimit-policy",
        times: SCRIPT.len(),
        what: "it writes a space after each semicolon, which RFC 9651 lets parsers skip and serializers not write",
        translate: spaced,
    },
    Intended {
        mode: "draft-8",
        field: "ratelimit",
        times: SCRIPT.len(),
        what: "the same space; and it leaves out the partition key, by which a client that has several can tell whose state this is",
        translate: |value| {
            let key = value.find(";pk=").unwrap_or(value.len());
            spaced(&value[..key])
        },
    },
];

fn spaced(value: &str) -> String {
    value.replace(';', "; ")
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [node, script] = &arguments[..] else {
        eprintln!("usage: tidegate-http-compare NODE PEER_SCRIPT");
        return ExitCode::FAILURE;
    };
    match compare(node, script) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ci/http: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(node: &str, script: &str) -> Result<(), String> {
    let peer = Peer::start(node, script)?;
    let ours = server::start().map_err(|error| format!("our server does not start: {error}"))?;
    // On a busy machine a second may end between two requests that should be alike. Then there is nothing to conclude,
    // and the scenario is played again, with clients that nobody has seen.
    for attempt in 0..5 {
        match play(attempt, peer.port, ours)? {
            Some(report) => {
                print!("{report}");
                return Ok(());
            }
            None => println!("(too slow to compare whole seconds; again)"),
        }
    }
    Err("five times, the two servers could not be asked within the same second".into())
}

/// Plays the script in every mode against both. `None` if requests took too long to tell what the seconds must be.
fn play(attempt: usize, theirs: u16, ours: u16) -> Result<Option<String>, String> {
    await_mid_second();
    let mut first = BTreeMap::new();
    let mut seen = [0; INTENDED.len()];
    let mut report = String::new();
    let begun = SystemTime::now();
    for (step, at) in SCRIPT.into_iter().enumerate() {
        let due = Duration::from_millis(at);
        sleep(due.saturating_sub(begun.elapsed().unwrap_or_default()));
        for mode in MODES {
            let path = format!("/{mode}?client=client-{attempt}");
            let mut ask = |port: u16| -> Result<(Answer, Option<Seconds>), String> {
                let answer = client::get(port, &path)?;
                // Windows begin with the first request of each server, the last in its script with a new one.
                let window = (mode, port, at > 11_000);
                let opening = *first
                    .entry(window)
                    .or_insert((answer.sent, answer.received));
                let seconds = Seconds::of(opening, &answer);
                Ok((answer, seconds))
            };
            let (their_answer, their_seconds) = ask(theirs)?;
            let (our_answer, our_seconds) = ask(ours)?;
            let in_time = begun
                .elapsed()
                .is_ok_and(|elapsed| elapsed < Duration::from_millis(LATEST[step]));
            let (Some(seconds), true) = (their_seconds, their_seconds == our_seconds && in_time)
            else {
                return Ok(None);
            };
            let line = format!("{mode}, request {}", step + 1);
            their_answer.check(mode, seconds, &line)?;
            same(mode, &line, &their_answer, &our_answer, &mut seen)?;
            report += &format!("{line}: {} {}\n", our_answer.status, our_answer.shown());
        }
    }
    for (difference, seen) in INTENDED.iter().zip(seen) {
        let Intended {
            mode,
            field,
            times,
            what,
            ..
        } = difference;
        if seen != *times {
            return Err(format!(
                "{mode}, {field}: differed {seen} times, not {times}: {what}"
            ));
        }
        report += &format!("intended, {mode}, {field}, {times} times: {what}\n");
    }
    report += &format!(
        "{} answers alike but for that\n",
        SCRIPT.len() * MODES.len()
    );
    Ok(Some(report))
}

/// Status and headers are the same, but for what is intended.
fn same(
    mode: &str,
    line: &str,
    theirs: &Answer,
    ours: &Answer,
    seen: &mut [usize; INTENDED.len()],
) -> Result<(), String> {
    if theirs.status != ours.status {
        return Err(format!(
            "{line}: status {} there, {} here",
            theirs.status, ours.status
        ));
    }
    let names = theirs.fields.keys().chain(ours.fields.keys());
    for name in names.collect::<std::collections::BTreeSet<_>>() {
        let (there, here) = (theirs.fields.get(name), ours.fields.get(name));
        if there == here {
            continue;
        }
        let intended = INTENDED
            .iter()
            .position(|difference| difference.mode == mode && difference.field == name);
        match (intended, there, here) {
            (Some(index), Some(there), Some(here))
                if *there == (INTENDED[index].translate)(here) =>
            {
                seen[index] += 1;
            }
            _ => {
                return Err(format!("{line}: {name} is {there:?} there, {here:?} here"));
            }
        }
    }
    Ok(())
}

/// The whole seconds that an answer must tell: until its window ends, and when that is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seconds {
    left: u64,
    end: u64,
}

impl Seconds {
    /// From when the window's first request and this one were on their way; `None` if that leaves a choice.
    fn of(opening: (Duration, Duration), answer: &Answer) -> Option<Self> {
        // What servers read of their clocks may be cut to milliseconds.
        let slack = Duration::from_millis(2);
        let up = |time: Duration| time.as_millis().div_ceil(1_000) as u64;
        let one = |low: Duration, high: Duration| (up(low) == up(high)).then(|| up(low));
        let end = (opening.0 + WINDOW - slack, opening.1 + WINDOW + slack);
        let left = (
            end.0.saturating_sub(answer.received),
            // The window began no later than this request.
            end.1.saturating_sub(answer.sent).min(WINDOW),
        );
        Some(Self {
            left: one(left.0, left.1)?,
            end: one(end.0, end.1)?,
        })
    }
}

impl Answer {
    /// What is told of time is right, so that both are not merely wrong alike.
    fn check(&self, mode: &str, seconds: Seconds, line: &str) -> Result<(), String> {
        let (field, expected) = match mode {
            "draft-6" => ("ratelimit-reset", seconds.left.to_string()),
            "draft-7" => ("ratelimit", format!(", reset={}", seconds.left)),
            "draft-8" => ("ratelimit", format!("; t={}", seconds.left)),
            _ => ("x-ratelimit-reset", seconds.end.to_string()),
        };
        let value = self.fields.get(field).map_or("", String::as_str);
        if !value.ends_with(&expected) {
            return Err(format!("{line}: {field} is '{value}', not ..{expected}"));
        }
        let retry = self.fields.get("retry-after");
        let expected = (self.status == 429).then(|| seconds.left.to_string());
        if retry != expected.as_ref() {
            return Err(format!(
                "{line}: retry-after is {retry:?}, not {expected:?}"
            ));
        }
        Ok(())
    }
}

/// Far from the ends of a second, so that requests that follow each other are in the same one.
fn await_mid_second() {
    loop {
        match client::unix_now().subsec_millis() {
            200..500 => return,
            _ => sleep(Duration::from_millis(20)),
        }
    }
}
