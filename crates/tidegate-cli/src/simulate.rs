//! `tidegate simulate`: what each algorithm admits of the same traffic, side by side.

mod axis;
mod data;
mod input;
mod lane;
mod options;
mod span;
mod svg;
mod text;
mod traffic;

use std::io::{self, BufWriter, Write};

use anyhow::{Context, Result};
use tidegate::Quota;

use lane::Lane;
use options::Traffic;
use span::span_text;
use traffic::Arrivals;

use crate::report::thousands;

pub(crate) use options::SimulateArgs;
#[cfg(feature = "serve")]
pub(crate) use options::duration_from_str;

/// Requests, and what each algorithm did to them.
#[derive(Debug)]
struct Simulation {
    quota: Quota,
    /// In nanoseconds.
    period: u64,
    arrivals: Arrivals,
    lanes: Vec<Lane>,
}

/// Simulates, and says and draws what came of it.
///
/// # Errors
///
/// If the options contradict each other or the limit, or a file cannot be read or written.
pub(crate) fn run(args: &SimulateArgs) -> Result<()> {
    args.check()?;
    let (policies, left_out) = args.policies()?;
    let arrivals = match &args.traffic {
        Traffic::File(path) => input::read(path, args.client.as_deref(), args.duration)?,
        _ => traffic::make_up(args)?,
    };
    // Standard output is for results.
    for error in left_out {
        eprintln!("Left out: {error:#}.");
    }
    for note in &arrivals.notes {
        eprintln!("{note}");
    }
    let period = traffic::period_of(args.limit);
    let lanes = policies
        .into_iter()
        .map(|policy| Lane::play(policy, period, &arrivals.times))
        .collect::<Result<_>>()?;
    let simulation = Simulation {
        quota: args.limit,
        period,
        arrivals,
        lanes,
    };
    if let Some(path) = &args.svg {
        svg::draw(path, &simulation)
            .with_context(|| format!("cannot write the picture {}", path.display()))?;
    }
    if args.json || args.csv {
        let mut out = BufWriter::new(io::stdout().lock());
        if args.json {
            data::json(&mut out, &simulation)?;
        } else {
            data::csv(&mut out, &simulation)?;
        }
        out.flush()?;
        return Ok(());
    }
    text::print(args.width, args.ascii, &simulation)?;
    Ok(())
}

/// What the picture shows, in one line.
fn headline(simulation: &Simulation) -> String {
    let requests = simulation.arrivals.times.len() as u64;
    format!(
        "What {} admits of {} {}",
        simulation.quota,
        thousands(requests),
        if requests == 1 { "request" } else { "requests" }
    )
}

/// `30 admitted, 10 refused`
fn totals(lane: &Lane) -> String {
    format!(
        "{} admitted, {} refused",
        thousands(lane.admitted.len() as u64),
        thousands(lane.refused())
    )
}

/// `most in any 60 s: 20 of 10`
fn most_text(simulation: &Simulation, lane: &Lane) -> String {
    format!("{} {}", most_caption(simulation), most_number(lane))
}

fn most_caption(simulation: &Simulation) -> String {
    format!("most in any {}:", span_text(simulation.period))
}

fn most_number(lane: &Lane) -> String {
    format!(
        "{} of {}",
        thousands(lane.most.count),
        thousands(lane.policy.quota.limit())
    )
}

/// `beyond 10 in the last 60 s`
fn beyond_text(simulation: &Simulation) -> String {
    format!(
        "beyond {} in the last {}",
        thousands(simulation.quota.limit()),
        span_text(simulation.period)
    )
}
