//! Every verdict, for programs.

use std::io::{self, Write};

use serde::Serialize;

use super::Simulation;
use super::lane::{Lane, Verdict};

/// The JSON of a simulation.
#[derive(Serialize)]
struct Document<'a> {
    limit: u64,
    period_ns: u64,
    traffic: &'a str,
    /// When the requests came, in nanoseconds.
    times_ns: &'a [u64],
    lanes: Vec<Row>,
}

/// One algorithm's verdicts.
#[derive(Serialize)]
struct Row {
    policy: String,
    algorithm: &'static str,
    admitted: u64,
    refused: u64,
    /// The most admissions in any one period, and the last instant of the first such period.
    most_in_a_period: u64,
    most_at_ns: Option<u64>,
    /// For each request, whether it was admitted.
    verdicts: Vec<bool>,
}

impl Row {
    fn new(lane: &Lane) -> Self {
        Self {
            policy: lane.policy.to_string(),
            algorithm: lane.policy.kind.name(),
            admitted: lane.admitted.len() as u64,
            refused: lane.refused(),
            most_in_a_period: lane.most.count,
            most_at_ns: (lane.most.count > 0).then_some(lane.most.at),
            verdicts: lane
                .verdicts
                .iter()
                .map(|verdict| *verdict != Verdict::Refused)
                .collect(),
        }
    }
}

/// Writes JSON, in one line.
pub(crate) fn json(out: &mut impl Write, simulation: &Simulation) -> io::Result<()> {
    let document = Document {
        limit: simulation.quota.limit(),
        period_ns: simulation.period,
        traffic: &simulation.arrivals.about,
        times_ns: &simulation.arrivals.times,
        lanes: simulation.lanes.iter().map(Row::new).collect(),
    };
    serde_json::to_writer(&mut *out, &document).map_err(io::Error::from)?;
    writeln!(out)
}

/// Writes a heading, and a line a request: its time in seconds, and `admitted` or `refused` for each lane.
pub(crate) fn csv(out: &mut impl Write, simulation: &Simulation) -> io::Result<()> {
    write!(out, "seconds")?;
    for lane in &simulation.lanes {
        write!(out, ",{}", lane.policy.kind.name())?;
    }
    writeln!(out)?;
    for (at, time) in simulation.arrivals.times.iter().enumerate() {
        write!(out, "{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)?;
        for lane in &simulation.lanes {
            out.write_all(match lane.verdicts[at] {
                Verdict::Refused => b",refused",
                Verdict::Admitted | Verdict::Beyond => b",admitted",
            })?;
        }
        writeln!(out)?;
    }
    Ok(())
}
