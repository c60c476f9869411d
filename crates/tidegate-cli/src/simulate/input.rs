//! Traffic from a file: one time a line, or an access log.

use std::fs::File;
use std::io;
use std::path::Path;

use ahash::HashSet;
use anyhow::{Context, Result, bail, ensure};

use super::traffic::{Arrivals, REQUESTS_MAX};
use crate::log::reader::{Message, Reader};
use crate::log::time::{self, human};
use crate::log::{LineParser, Unreadable};
use crate::replay::BadLine;
use crate::report::{bad_lines, shown, thousands};

/// How many unreadable lines are kept to be shown, and how much of each, in bytes.
const SHOWN: usize = 5;
const SHOWN_BYTES: usize = 80;

/// Times from here on, 1973 in nanoseconds, are those of a calendar. Those before are of somebody's stopwatch.
const CALENDAR: u64 = 100_000_000_000_000_000;

/// Whether times are shown as dates.
pub(crate) fn is_calendar(time: u64) -> bool {
    time >= CALENDAR
}

/// Reads a file, of whose clients only one counts if it is named, and only so many nanoseconds from the first request
/// on if they are.
///
/// # Errors
///
/// If it cannot be read, or has no such request.
pub(crate) fn read(path: &Path, client: Option<&str>, duration: Option<u64>) -> Result<Arrivals> {
    let name = match path.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => shown(&path.display().to_string()),
    };
    // Whoever sees the picture need not know about folders.
    let short = match path.file_name() {
        Some(short) if name != "standard input" => shown(&short.to_string_lossy()),
        _ => name.clone(),
    };
    let mut lines = Lines::new(client);
    open(path)
        .and_then(|reader| lines.take_all(&reader))
        .with_context(|| match path.exists() || path.as_os_str() == "-" {
            true => format!("cannot read {name}"),
            false => format!(
                "{name:?} is neither boundary, steady, burst or poisson traffic nor a file to read"
            ),
        })?;
    lines.finish(&name, &short, duration)
}

fn open(path: &Path) -> Result<Reader> {
    if path.as_os_str() == "-" {
        return Ok(Reader::spawn(io::stdin()));
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    Ok(Reader::spawn(file))
}

/// What a file's lines are. The first one that can be read decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Times,
    Log,
}

/// A file on the way in.
struct Lines<'a> {
    client: Option<&'a str>,
    format: Option<Format>,
    parser: LineParser,
    times: Vec<u64>,
    /// All of an access log.
    clients: HashSet<Box<[u8]>>,
    number: u64,
    unreadable: u64,
    bad: Vec<BadLine>,
}

impl<'a> Lines<'a> {
    fn new(client: Option<&'a str>) -> Self {
        Self {
            client,
            format: None,
            parser: LineParser::Clf(time::ClfTimes::default()),
            times: Vec::new(),
            clients: HashSet::default(),
            number: 0,
            unreadable: 0,
            bad: Vec::new(),
        }
    }

    fn take_all(&mut self, reader: &Reader) -> Result<()> {
        loop {
            match reader.messages.recv() {
                Ok(Message::Lines(chunk)) => {
                    for line in chunk.bytes().split_inclusive(|byte| *byte == b'\n') {
                        self.number += 1;
                        self.take(line);
                        ensure!(
                            self.times.len() as u64 <= REQUESTS_MAX,
                            "line {}: more than {} requests, the most that are simulated",
                            thousands(self.number),
                            thousands(REQUESTS_MAX)
                        );
                    }
                    reader.recycle(chunk);
                }
                Ok(Message::TooLong(head, _)) => {
                    self.number += 1;
                    self.bad_line(Unreadable::TooLong, &head);
                }
                Ok(Message::Failed(error)) => return Err(error.into()),
                Ok(Message::End) => return Ok(()),
                Err(_) => bail!("the reading thread has stopped"),
            }
        }
    }

    fn take(&mut self, line: &[u8]) {
        let mut line = line.trim_ascii();
        if self.number == 1 {
            // A byte order mark.
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() || line[0] == b'#' {
            return;
        }
        if self.format != Some(Format::Log) {
            let time = str::from_utf8(line).ok().and_then(time::parse_text);
            if let Some(time) = time {
                self.format = Some(Format::Times);
                self.times.push(time);
                return;
            }
            if self.format == Some(Format::Times) {
                self.bad_line(Unreadable::BadTime, line);
                return;
            }
        }
        match self.parser.parse(line) {
            Ok(record) => {
                self.format = Some(Format::Log);
                if !self.clients.contains(record.client) {
                    self.clients.insert(record.client.into());
                }
                if self
                    .client
                    .is_none_or(|client| client.as_bytes() == record.client)
                {
                    self.times.push(record.time);
                }
            }
            Err(why) => self.bad_line(why, line),
        }
    }

    fn bad_line(&mut self, why: Unreadable, line: &[u8]) {
        self.unreadable += 1;
        if self.bad.len() < SHOWN {
            let head = &line[..line.len().min(SHOWN_BYTES)];
            self.bad.push(BadLine {
                number: self.number,
                why,
                head: String::from_utf8_lossy(head).into_owned(),
            });
        }
    }

    /// The first unreadable lines, indented.
    fn bad_text(&self) -> String {
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = bad_lines(&mut text, &self.bad, self.unreadable);
        String::from_utf8_lossy(&text).trim_end().to_owned()
    }

    fn finish(mut self, name: &str, short: &str, duration: Option<u64>) -> Result<Arrivals> {
        let Some(format) = self.format else {
            ensure!(self.unreadable > 0, "{name} is empty");
            bail!(
                "no line of {name} is a time (seconds such as 12.5, or RFC 3339) or in Common or Combined Log \
                 Format:\n{}",
                self.bad_text()
            );
        };
        ensure!(
            self.client.is_none() || format == Format::Log,
            "{name} is a list of times, without clients: --client is for an access log"
        );
        if let Some(client) = self.client {
            ensure!(
                !self.times.is_empty(),
                "no request in {name} is of the client {:?}",
                shown(client)
            );
        }
        let mut notes = Vec::new();
        if self.unreadable > 0 {
            notes.push(format!(
                "{} of the lines of {name} could not be read:\n{}",
                thousands(self.unreadable),
                self.bad_text()
            ));
        }
        let late = self
            .times
            .windows(2)
            .filter(|pair| pair[0] > pair[1])
            .count() as u64;
        if late > 0 {
            self.times.sort_unstable();
            notes.push(format!(
                "Time runs backwards in {name}: {} {} older than the one before. They are taken in order of time.",
                thousands(late),
                if late == 1 { "request is" } else { "requests are" }
            ));
        }
        let first = self.times[0];
        let all = self.times.len();
        let end = duration.map(|duration| first.saturating_add(duration));
        if let Some(end) = end {
            self.times
                .truncate(self.times.partition_point(|time| *time < end));
        }
        let last = self.times[self.times.len() - 1];
        let mut about = format!("{short}: requests");
        match self.client {
            Some(client) => about += &format!(" of {}", shown(client)),
            None if self.clients.len() > 1 => {
                about += &format!(
                    " of {} clients together",
                    thousands(self.clients.len() as u64)
                );
            }
            None => {}
        }
        if is_calendar(first) {
            about += &format!(", {} to {} UTC", human(first), human(last));
        }
        if self.times.len() < all {
            about += &format!(
                ", the first {} of {}",
                thousands(self.times.len() as u64),
                thousands(all as u64)
            );
        }
        Ok(Arrivals {
            times: self.times,
            from: first,
            until: end.unwrap_or(last.saturating_add(1)),
            about,
            notes,
        })
    }
}
