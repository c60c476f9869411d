//! Any TOML made of what such files are made of, and of anything else: either a layer, which answers, or an error that
//! says on which line it is.

#![no_main]

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use libfuzzer_sys::{Corpus, arbitrary, fuzz_target};
use tidegate::{FixedWindow, Limiter, Quota};
use tidegate_tower::{Config, ConfigError, ConfigReader, Peer, Store, StoreRequest};

#[derive(Debug, arbitrary::Arbitrary)]
enum Piece<'a> {
    /// A line that may be right.
    Line(u8),
    /// A field, and any value.
    Field(u8, &'a str),
    Number(u8, u64),
    /// A field, and a quota.
    Quota(u8, u64, u8),
    Raw(&'a str),
}

const LINES: [&str; 36] = [
    "[[policy]]",
    "name = \"a\"",
    "name = \"b\"",
    "key = \"peer\"",
    "key = \"client\"",
    "key = [\"path\", \"everyone\"]",
    "key = \"header:x-api-key\"",
    "quota = \"5/min\"",
    "quota = \"10/s\"",
    "algorithm = \"token-bucket\"",
    "algorithm = \"fixed-window\"",
    "algorithm = \"anchored-window\"",
    "algorithm = \"sliding-window\"",
    "algorithm = \"sliding-log\"",
    "burst = 7",
    "capacity = 3",
    "candidate = \"4/min\"",
    "routes = [\"/foo\", \"/api/*\"]",
    "methods = [\"GET\"]",
    "tiers = { gold = \"9/min\" }",
    "cost = 2",
    "unit = \"bytes\"",
    "on-no-key = \"admit\"",
    "give-back = \"failures\"",
    "monitor = true",
    "[tiers]",
    "header = \"x-api-key\"",
    "clients = { gold = [\"one\"] }",
    "[proxies]",
    "count = 1",
    "trusted = [\"127.0.0.0/8\"]",
    "headers = [\"draft-07\", \"legacy\"]",
    "on-full = \"admit\"",
    "ipv6-prefix = 48",
    "count-preflight = true",
    "on-failure = { fallback = \"3/s\" }",
];

const FIELDS: [&str; 14] = [
    "name",
    "key",
    "quota",
    "algorithm",
    "burst",
    "capacity",
    "candidate",
    "routes",
    "tiers",
    "cost",
    "unit",
    "headers",
    "on-full",
    "ipv4-prefix",
];

const UNITS: [&str; 8] = ["ns", "us", "ms", "s", "min", "h", "d", "100d"];

/// Beyond this, memory is what is tested.
const MOST_KEYS: usize = 1 << 12;

fn text(begins: bool, pieces: &[Piece<'_>]) -> String {
    let mut text = String::new();
    if begins {
        text.push_str("on-failure = \"refuse\"\n");
    }
    for piece in pieces {
        let field = |which: &u8| FIELDS[usize::from(*which) % FIELDS.len()];
        // Writing to a string does not fail.
        let _ = match piece {
            Piece::Line(which) => writeln!(text, "{}", LINES[usize::from(*which) % LINES.len()]),
            Piece::Field(which, value) => writeln!(text, "{} = {value:?}", field(which)),
            Piece::Number(which, number) => writeln!(text, "{} = {number}", field(which)),
            Piece::Quota(which, limit, unit) => {
                let unit = UNITS[usize::from(*unit) % UNITS.len()];
                writeln!(text, "{} = \"{limit}/{unit}\"", field(which))
            }
            Piece::Raw(raw) => write!(text, "{raw}"),
        };
    }
    text
}

fn check_error(error: &ConfigError, text: &str) {
    let said = error.to_string();
    match error.line() {
        Some(line) => {
            assert!(
                (1..=text.matches('\n').count() + 1).contains(&line),
                "{said}"
            );
            assert!(said.starts_with(&format!("line {line}")), "{said}");
        }
        None => assert!(said.contains("there is no policy"), "{said}"),
    }
}

/// In memory, unless that is much.
fn small(request: &StoreRequest<'_>) -> Option<Arc<dyn Store>> {
    const ONE: Quota = Quota::per_second(1);
    let is_small = request
        .limit()
        .capacity()
        .is_some_and(|keys| keys <= MOST_KEYS);
    (!is_small).then(|| Arc::new(Limiter::new(FixedWindow::new(ONE))) as Arc<dyn Store>)
}

fn builds(config: &Config, text: &str) {
    let builder = config.builder().stores(|request| Ok(small(request)));
    let layer = match builder.build() {
        Ok(layer) => layer,
        Err(error) => return check_error(&config.locate(&error), text),
    };
    let (mut request, ()) = http::Request::new(()).into_parts();
    request
        .extensions
        .insert(Peer(SocketAddr::from(([127, 0, 0, 1], 1))));
    for standing in layer.standings(&request) {
        assert!(layer.stats().policy(&standing.budget.name).is_some());
    }
    // What was built once is built again in its place.
    config
        .reload(&layer)
        .unwrap_or_else(|error| panic!("{error}"));
}

fuzz_target!(|input: (bool, Vec<Piece<'_>>)| -> Corpus {
    let (begins, pieces) = input;
    let text = text(begins, &pieces);
    // What failures fall back on is in memory, whatever the stores: 2 MiB for each policy are worth a look, not all
    // the time.
    if text.matches("fallback").count() * text.matches("[[policy]]").count() > 2 {
        return Corpus::Reject;
    }
    match ConfigReader::new().parse(&text) {
        Ok(config) => builds(&config, &text),
        Err(error) => check_error(&error, &text),
    }
    Corpus::Keep
});
