//! `tidegate sample`: a made-up access log with the habits that limits meet.
//!
//! Whole numbers only, so that the same seed gives the same bytes on every machine.

use core::cmp::Reverse;
use core::fmt;
use std::collections::BinaryHeap;
use std::io::{self, BufWriter, Write};

use anyhow::Result;
use oorandom::Rand64;

use crate::args::SampleArgs;

/// 2026-03-02 08:00:00 UTC, a Monday, in milliseconds.
const START: u64 = 1_772_438_400_000;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;

/// What every line is labelled with.
const AGENT: &str = "made-up/1.0 (tidegate sample)";

/// Prints the log.
///
/// # Errors
///
/// If standard output cannot be written.
pub(crate) fn print(args: &SampleArgs) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    write(&mut out, args.requests, args.seed)?;
    out.flush()?;
    Ok(())
}

/// Who asks; all from the ranges of RFC 5737 and RFC 3849.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Client {
    /// 192.0.2.x: machines
    Machine(u8),
    /// 203.0.113.x: one office, and visitors
    Office,
    V4(u8, u8),
    V6(u16, u16, u16),
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine(host) => write!(f, "192.0.2.{host}"),
            Self::Office => f.write_str("203.0.113.5"),
            Self::V4(0, host) => write!(f, "198.51.100.{host}"),
            Self::V4(_, host) => write!(f, "203.0.113.{host}"),
            Self::V6(site, net, host) => write!(f, "2001:db8:{site:x}:{net:x}::{host:x}"),
        }
    }
}

/// Somebody with a habit, and where they are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Habit {
    /// Asks for one thing at a steady pace.
    Poll {
        client: Client,
        path: &'static str,
        every: u64,
    },
    /// Many devices behind one address, which all report as the minute begins.
    Fleet { left: u64 },
    /// Walks through a catalogue, and comes back later.
    Scraper { page: u64, left: u64 },
    /// Tries passwords, and comes back later.
    Guesser { left: u64 },
    /// People behind one address: each page brings its parts.
    Office { parts: u64 },
    /// A new visitor arrives.
    Arrival,
    /// A visitor looks at pages; each brings its parts.
    Visitor {
        client: Client,
        pages: u64,
        parts: u64,
    },
}

/// One line, but for its time and client.
struct Line {
    client: Client,
    request: String,
    status: u16,
    size: u64,
}

fn write(out: &mut impl Write, requests: u64, seed: u64) -> io::Result<()> {
    let random = Rand64::new(seed.into());
    let mut world = World { random };
    let poll = |client, path, every| Habit::Poll {
        client,
        path,
        every,
    };
    let beginnings = [
        (300, poll(Client::Machine(10), "/health", MINUTE)),
        (
            11_200,
            poll(Client::Machine(11), "/api/v1/status", 30 * SECOND),
        ),
        (7_700, poll(Client::V6(0x10, 0, 5), "/feed.xml", 2 * MINUTE)),
        (5 * MINUTE, Habit::Fleet { left: 8 }),
        (20 * MINUTE, Habit::Scraper { page: 1, left: 110 }),
        (35 * MINUTE, Habit::Guesser { left: 90 }),
        (2 * SECOND, Habit::Office { parts: 0 }),
        (SECOND, Habit::Arrival),
    ];
    let mut agenda: BinaryHeap<Reverse<(u64, u64, Habit)>> = BinaryHeap::new();
    // Of events at the same moment, the one that was planned first comes first.
    let mut planned = 0;
    let mut plan = |agenda: &mut BinaryHeap<_>, at: u64, habit: Habit| {
        planned += 1;
        agenda.push(Reverse((at, planned, habit)));
    };
    for (after, habit) in beginnings {
        plan(&mut agenda, START + after, habit);
    }

    let mut stamp = (0, String::new());
    let mut written = 0;
    while written < requests {
        let Some(Reverse((now, _, habit))) = agenda.pop() else {
            break;
        };
        let (line, next) = world.act(now, habit);
        for (at, habit) in next.into_iter().flatten() {
            plan(&mut agenda, at, habit);
        }
        let Some(line) = line else { continue };
        if stamp.0 != now / SECOND {
            stamp = (now / SECOND, clf_time(now / SECOND));
        }
        let Line {
            client,
            request,
            status,
            size,
        } = line;
        writeln!(
            out,
            "{client} - - [{}] \"{request} HTTP/1.1\" {status} {size} \"-\" \"{AGENT}\"",
            stamp.1
        )?;
        written += 1;
    }
    Ok(())
}

fn clf_time(second: u64) -> String {
    match jiff::Timestamp::from_second(i64::try_from(second).unwrap_or(i64::MAX)) {
        Ok(instant) => instant.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string(),
        // Hundreds of billions of requests later.
        Err(_) => "31/Dec/9999:23:59:59 +0000".to_owned(),
    }
}

struct World {
    random: Rand64,
}

impl World {
    /// A number from `from` up to, and without, `to`.
    fn number(&mut self, from: u64, to: u64) -> u64 {
        self.random.rand_range(from..to)
    }

    fn is_one_in(&mut self, count: u64) -> bool {
        self.number(0, count) == 0
    }

    /// What somebody does now, and who does what next.
    fn act(&mut self, now: u64, habit: Habit) -> (Option<Line>, [Option<(u64, Habit)>; 2]) {
        let line = |client, request: String, status, size| {
            Some(Line {
                client,
                request,
                status,
                size,
            })
        };
        match habit {
            Habit::Poll {
                client,
                path,
                every,
            } => {
                // A little late, but never drifting.
                let due = now - now % every + every;
                let at = due + now % every / SECOND * SECOND + self.number(0, 400);
                (
                    line(client, format!("GET {path}"), 200, 412),
                    [Some((at, habit)), None],
                )
            }
            Habit::Fleet { left } => {
                let (at, left) = if left > 1 {
                    (now + self.number(20, 200), left - 1)
                } else {
                    (now - now % (5 * MINUTE) + 5 * MINUTE, self.number(6, 13))
                };
                (
                    line(
                        Client::Machine(77),
                        "POST /api/v1/metrics".to_owned(),
                        202,
                        2,
                    ),
                    [Some((at, Habit::Fleet { left })), None],
                )
            }
            Habit::Scraper { page, left } => {
                let (at, left) = if left > 1 {
                    (now + self.number(600, 2_400), left - 1)
                } else {
                    (now + self.number(60, 120) * MINUTE, self.number(80, 150))
                };
                let size = self.number(9_000, 30_000);
                (
                    line(
                        Client::Machine(200),
                        format!("GET /catalogue?page={page}"),
                        200,
                        size,
                    ),
                    [
                        Some((
                            at,
                            Habit::Scraper {
                                page: page + 1,
                                left,
                            },
                        )),
                        None,
                    ],
                )
            }
            Habit::Guesser { left } => {
                let (at, left) = if left > 1 {
                    (now + self.number(1_500, 3_500), left - 1)
                } else {
                    (now + self.number(70, 140) * MINUTE, self.number(60, 120))
                };
                (
                    line(Client::V4(0, 250), "POST /login".to_owned(), 401, 731),
                    [Some((at, Habit::Guesser { left })), None],
                )
            }
            Habit::Office { parts } => {
                let (at, next) = self.browse(now, parts, 150 * SECOND);
                (
                    self.page(Client::Office, parts),
                    [Some((at, Habit::Office { parts: next })), None],
                )
            }
            Habit::Arrival => {
                let client = match self.number(0, 10) {
                    0..4 => Client::V6(
                        self.number(0x100, 0x10000) as u16,
                        self.number(0, 0x100) as u16,
                        self.number(1, 0x10000) as u16,
                    ),
                    // Below the addresses that have other habits.
                    range => Client::V4((range % 2) as u8, self.number(10, 250) as u8),
                };
                let visitor = Habit::Visitor {
                    client,
                    pages: self.number(1, 5),
                    parts: 0,
                };
                let next = now + self.number(0, 2 * MINUTE);
                (None, [Some((now, visitor)), Some((next, Habit::Arrival))])
            }
            Habit::Visitor {
                client,
                pages,
                parts,
            } => {
                let (at, next) = self.browse(now, parts, 45 * SECOND);
                let pages = if next == 0 { pages - 1 } else { pages };
                let visitor = Habit::Visitor {
                    client,
                    pages,
                    parts: next,
                };
                (
                    self.page(client, parts),
                    [(pages > 0).then_some((at, visitor)), None],
                )
            }
        }
    }

    /// When the next request of somebody who browses comes, and how many parts of the page follow it. Without
    /// parts to come, this is a new page.
    fn browse(&mut self, now: u64, parts: u64, think: u64) -> (u64, u64) {
        let parts = if parts == 0 {
            self.number(1, 5)
        } else {
            parts - 1
        };
        let pause = if parts == 0 {
            self.number(3 * SECOND, think)
        } else {
            self.number(20, 400)
        };
        (now + pause, parts)
    }

    fn page(&mut self, client: Client, parts: u64) -> Option<Line> {
        let (request, size) = match parts {
            0 if self.is_one_in(4) => ("GET /".to_owned(), 8_213),
            0 => (
                format!("GET /products/{}?ref=list", self.number(1, 60)),
                self.number(9_000, 26_000),
            ),
            1 => ("GET /static/site.css".to_owned(), 14_022),
            2 => ("GET /static/site.js".to_owned(), 51_877),
            _ => (
                format!("GET /static/{}.webp", self.number(1, 200)),
                self.number(4_000, 90_000),
            ),
        };
        let status = if self.is_one_in(40) { 404 } else { 200 };
        Some(Line {
            client,
            request,
            status,
            size,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::clf;
    use crate::log::time::ClfTimes;

    fn sample(requests: u64, seed: u64) -> String {
        let mut out = Vec::new();
        write(&mut out, requests, seed).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn readable_ordered_and_as_long_as_asked() {
        let log = sample(20_000, 3);
        let mut times = ClfTimes::default();
        let mut newest = 0;
        for line in log.lines() {
            let record = clf::parse(line.as_bytes(), &mut times).unwrap();
            assert!(record.time >= newest, "{line}");
            newest = record.time;
            assert!(clf::address(record.client).is_some(), "{line}");
            assert!(line.contains(AGENT), "{line}");
        }
        assert_eq!(log.lines().count(), 20_000);
        assert_eq!(sample(0, 3), "");
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(sample(500, 1), sample(500, 1));
        assert_ne!(sample(500, 1), sample(500, 2));
        // More of the same.
        assert!(sample(600, 1).starts_with(&sample(500, 1)));
    }

    #[test]
    fn only_documentation_addresses() {
        for line in sample(20_000, 5).lines() {
            let ranges = ["192.0.2.", "198.51.100.", "203.0.113.", "2001:db8:"];
            assert!(ranges.iter().any(|range| line.starts_with(range)), "{line}");
        }
    }
}
