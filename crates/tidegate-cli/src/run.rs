//! `tidegate replay`, from the input to the report.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::ReplayArgs;
use crate::log::LineParser;
use crate::log::reader::{Message, Reader};
use crate::plot;
use crate::replay::Replay;
use crate::report::{self, Report};
use crate::sizing::Sizing;

/// Ended by Ctrl-C: 128 and the signal's number.
const INTERRUPTED: u8 = 130;

/// How soon an interrupt is noticed while no input comes.
const PATIENCE: Duration = Duration::from_millis(50);

/// Set once, by Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

/// Replays a log and reports.
///
/// # Errors
///
/// If the log cannot be read, has no readable line, or a limit cannot be represented.
pub(crate) fn replay(args: &ReplayArgs) -> Result<ExitCode> {
    let policies = args.policies()?;
    let period = policies[0].quota.period();
    let sizing = Sizing::new(
        u64::try_from(period.as_nanos()).context("the period is too long")?,
        policies.iter().find_map(|policy| policy.burst),
    );
    let mut replay = Replay::new(args.key, &policies, sizing, args.plot.is_some())?;
    let mut parser = args.parser();

    let name = args.input_name();
    ctrlc::set_handler(|| {
        // The second one does not ask.
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
    })
    .context("cannot listen for Ctrl-C")?;
    let (reader, length) = open(args).with_context(|| format!("cannot read {name}"))?;
    read(reader, length, &mut replay, &mut parser)
        .with_context(|| format!("cannot read {name}"))?;
    let interrupted = STOP.load(Ordering::Relaxed);

    if replay.requests == 0 {
        if interrupted {
            eprintln!("interrupted before the first request was read");
            return Ok(ExitCode::from(INTERRUPTED));
        }
        return Err(nothing_readable(&name, &replay, &parser));
    }
    if let Some(path) = &args.plot {
        plot::draw(path, &replay)
            .with_context(|| format!("cannot write the plot {}", path.display()))?;
    }
    let report = Report::new(&replay, args.top, interrupted);
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer(&mut out, &report).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        report::print(&mut out, &name, &replay, &report)?;
    }
    out.flush()?;
    Ok(if interrupted {
        ExitCode::from(INTERRUPTED)
    } else {
        ExitCode::SUCCESS
    })
}

/// Starts reading. Also tells how many bytes there are, where that is known.
fn open(args: &ReplayArgs) -> io::Result<(Reader, Option<u64>)> {
    if args.is_stdin() {
        return Ok((Reader::spawn(io::stdin()), None));
    }
    let file = File::open(&args.file)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let length = about.is_file().then_some(about.len());
    Ok((Reader::spawn(file), length))
}

/// Reads to the end, or to an interrupt.
fn read(
    reader: Reader,
    length: Option<u64>,
    replay: &mut Replay,
    parser: &mut LineParser,
) -> Result<()> {
    let progress = progress(length);
    while !STOP.load(Ordering::Relaxed) {
        match reader.messages.recv_timeout(PATIENCE) {
            Ok(Message::Lines(chunk)) => {
                let bytes = chunk.bytes();
                replay.lines(bytes, parser);
                progress.inc(bytes.len() as u64);
                reader.recycle(chunk);
            }
            Ok(Message::TooLong(head, bytes)) => {
                replay.too_long(&head);
                progress.inc(bytes);
            }
            Ok(Message::Failed(error)) => return Err(error.into()),
            Ok(Message::End) => break,
            Err(RecvTimeoutError::Timeout) => progress.tick(),
            Err(RecvTimeoutError::Disconnected) => bail!("the reading thread has stopped"),
        }
    }
    progress.finish_and_clear();
    Ok(())
}

/// A bar on standard error; invisible unless that is a terminal.
fn progress(length: Option<u64>) -> ProgressBar {
    let (bar, template) = match length {
        Some(length) => (
            ProgressBar::new(length),
            "{bar:40} {percent:>3} %  {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        ),
        None => (
            ProgressBar::new_spinner(),
            "{spinner} {bytes} read, {bytes_per_sec}",
        ),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Why there is nothing to report.
fn nothing_readable(name: &str, replay: &Replay, parser: &LineParser) -> anyhow::Error {
    if replay.unreadable == 0 {
        return anyhow::anyhow!("{name} is empty");
    }
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = report::bad_lines(&mut text, &replay.bad_lines, replay.unreadable);
    let mut message = format!(
        "no line of {name} is {}:\n{}",
        parser.name(),
        String::from_utf8_lossy(&text).trim_end()
    );
    let looks_like_json = replay
        .bad_lines
        .first()
        .is_some_and(|line| line.head.trim_start().starts_with('{'));
    if looks_like_json && matches!(parser, LineParser::Clf(_)) {
        message += "\nIt looks like JSON: try --format json-lines.";
    }
    anyhow::Error::msg(message)
}
