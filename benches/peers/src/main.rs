//! tidegate's keyed table beside other rate limiters and the floors of the hardware: see README.md.

mod chart;
mod crates;
mod floors;
mod growth;
mod hand;
mod keys;
mod measure;
#[cfg(feature = "table")]
mod ours;
mod pause;
mod report;
mod rows;
mod slowest;
mod speed;
mod subject;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};

use crate::growth::Task;
use crate::keys::Sequence;
use crate::report::Results;
use crate::rows::Row;
use crate::speed::{Effort, Mode, enter, race};
use crate::subject::Load;

/// Measures keyed rate limiters side by side; writes results.md and results.svg.
#[derive(Parser)]
struct Options {
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_name = "PART,..")]
    only: Vec<Part>,
    /// Only rows whose name contains one of these; the floors are always there
    #[arg(long, value_delimiter = ',', value_name = "TEXT,..")]
    rows: Vec<String>,
    /// Fewer and shorter rounds
    #[arg(long)]
    quick: bool,
    /// Where the results go
    #[arg(long, default_value = ".", value_name = "DIR")]
    out: PathBuf,
    /// How many new keys the stream has
    #[arg(long, value_name = "KEYS")]
    stream: Option<u64>,
    /// What this program asks of itself in a process of its own
    #[arg(long, hide = true)]
    task: Option<Task>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Part {
    #[value(name = "1k")]
    Thousand,
    #[value(name = "100k")]
    HundredThousand,
    #[value(name = "1M")]
    Million,
    #[value(name = "10M")]
    TenMillion,
    Zipf,
    Ip,
    Memory,
    Stream,
    Pauses,
    Slowest,
}

impl Options {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn choose<K>(&self, mut rows: Vec<Row<K>>) -> Vec<Row<K>> {
        rows.retain(|row| {
            let mut wanted = self.rows.iter();
            row.is_floor() || self.rows.is_empty() || wanted.any(|text| row.name.contains(text))
        });
        rows
    }
}

const MODES: [Mode; 5] = [
    Mode::OneByOne,
    Mode::Isolated,
    Mode::Batches(16),
    Mode::Batches(32),
    Mode::TwoThreads,
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    measure::settle_allocator();
    let stream = options
        .stream
        .unwrap_or(if options.quick { 4_000_000 } else { 20_000_000 });
    if let Some(task) = options.task {
        growth::child(task, &options.rows[0], stream);
        return Ok(());
    }
    let begun = Instant::now();
    let say = |what: &str| eprintln!("{:4} s  {what}", begun.elapsed().as_secs());
    let effort = if options.quick {
        Effort {
            rounds: 3,
            slice: Duration::from_millis(10),
        }
    } else {
        Effort {
            rounds: 11,
            slice: Duration::from_millis(25),
        }
    };
    let mut results = Results {
        machine: machine(),
        effort: format!(
            "{} rounds over all rows, a slice of {} ms for each row and mode in each round; medians, and the \
             range in parentheses.",
            effort.rounds,
            effort.slice.as_millis()
        ),
        ..Results::default()
    };
    let Results { cells, wrong, .. } = &mut results;
    let mut run = |entrants: &[_], keys, sequence: &_, modes: &[_]| {
        cells.extend(race::<u64>(entrants, keys, sequence, modes, effort, wrong));
    };
    let numbers = || options.choose(rows::numbers());

    // Each block drops its tables before the next one builds its own.
    for (part, n, label) in [
        (Part::Thousand, 1_000, "1 k"),
        (Part::HundredThousand, 100_000, "100 k"),
        (Part::Million, 1_000_000, "1 M"),
        (Part::TenMillion, 10_000_000, "10 M"),
    ] {
        let zipf = part == Part::Million && options.wants(Part::Zipf);
        if !options.wants(part) && !zipf {
            continue;
        }
        say(label);
        let entrants = enter(numbers(), Load::Plenty, n);
        if options.wants(part) {
            run(&entrants, label, &Sequence::uniform(n), &MODES);
        }
        if zipf {
            say("zipf");
            run(
                &entrants,
                "1 M, zipf 0.99",
                &Sequence::zipf(n, 0.99),
                &MODES,
            );
        }
        if part == Part::Thousand {
            say("denied");
            let entrants = enter(numbers(), Load::Spent, n);
            run(&entrants, label, &Sequence::uniform(n), &[Mode::Denied]);
        }
    }
    if options.wants(Part::Ip) {
        say("addresses");
        addresses(&options, effort, &mut results);
    }
    if options.wants(Part::Pauses) {
        say("pauses");
        results.pauses = pause::pauses(&numbers(), if options.quick { 1 } else { 5 });
    }
    if options.wants(Part::Slowest) {
        say("slowest");
        results.slowest = slowest::slowest(&numbers(), if options.quick { 1 } else { 5 });
    }
    if options.wants(Part::Memory) {
        say("memory");
        results.filled = growth::filled(&numbers());
    }
    if options.wants(Part::Stream) {
        say("stream");
        results.streamed = growth::streamed(&numbers(), stream, if options.quick { 1 } else { 3 });
    }

    let page = results.markdown();
    print!("{page}");
    std::fs::create_dir_all(&options.out)?;
    std::fs::write(options.out.join("results.md"), page)?;
    chart::draw(&results, &options.out.join("results.svg"))?;
    say("done");
    Ok(())
}

fn addresses(options: &Options, effort: Effort, results: &mut Results) {
    let label = "1 M addresses";
    let entrants = enter(options.choose(rows::addresses()), Load::Plenty, 1_000_000);
    let sequence = Sequence::uniform(1_000_000);
    let wrong = &mut results.wrong;
    results
        .cells
        .extend(race(&entrants, label, &sequence, &MODES, effort, wrong));
}

/// The processor, and the date.
fn machine() -> String {
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |rest| {
        rest.trim_start_matches([' ', '\t', ':'])
    });
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let date = chrono::Local::now().format("%Y-%m-%d");
    format!(
        "*{model}, {cores} cores, {}, {date}*",
        std::env::consts::ARCH
    )
}
