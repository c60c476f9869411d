//! What has happened so far.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::error::ErrorKind;

/// Counts. Nothing is published by them: Relaxed throughout.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) allowed: Count,
    pub(crate) refused: Count,
    pub(crate) refused_locally: Count,
    pub(crate) leased: Count,
    pub(crate) admitted_instead: Count,
    pub(crate) refused_instead: Count,
    pub(crate) refunds_lost: Count,
    pub(crate) connections: Count,
    pub(crate) scripts_sent: Count,
    pub(crate) state_lost: Count,
    errors: [Count; ErrorKind::ALL.len()],
}

#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counts {
    pub(crate) fn error(&self, kind: ErrorKind) {
        if let Some(place) = ErrorKind::ALL.iter().position(|it| *it == kind) {
            self.errors[place].add(1);
        }
    }

    pub(crate) fn stats(&self, is_up: bool) -> Stats {
        Stats {
            allowed: self.allowed.get(),
            refused: self.refused.get(),
            refused_locally: self.refused_locally.get(),
            leased: self.leased.get(),
            admitted_instead: self.admitted_instead.get(),
            refused_instead: self.refused_instead.get(),
            refunds_lost: self.refunds_lost.get(),
            connections: self.connections.get(),
            scripts_sent: self.scripts_sent.get(),
            state_lost: self.state_lost.get(),
            is_up,
            errors: core::array::from_fn(|place| self.errors[place].get()),
        }
    }
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests that the server has admitted; of a decision by several limits, each.
    pub allowed: u64,
    /// Requests that the server has refused.
    pub refused: u64,
    /// Requests that were refused here, because the server had refused the key until later.
    pub refused_locally: u64,
    /// Requests that were paid from a lease.
    pub leased: u64,
    /// Requests that [`OnError`](crate::OnError) admitted, because the server had not decided.
    pub admitted_instead: u64,
    /// Requests that [`OnError`](crate::OnError) refused, because the server had not decided.
    pub refused_instead: u64,
    /// What could not be given back, because there were too many at once or the server did not take them.
    pub refunds_lost: u64,
    /// Connections made; all but the first are reconnections.
    pub connections: u64,
    /// How often the server did not know a script, and was sent it: once after each start, usually.
    pub scripts_sent: u64,
    /// How often a server was found that had forgotten everything: another one, or one restarted without its data.
    /// Then all keys begin anew. Of a cluster, only the server that has the marker is looked at.
    pub state_lost: u64,
    /// Whether the server is taken to be alive.
    pub is_up: bool,
    errors: [u64; ErrorKind::ALL.len()],
}

impl Stats {
    /// Failures of a kind.
    pub fn errors(&self, kind: ErrorKind) -> u64 {
        let place = ErrorKind::ALL.iter().position(|it| *it == kind);
        place.map_or(0, |place| self.errors[place])
    }

    /// Failures of all kinds, with their names.
    pub fn all_errors(&self) -> impl Iterator<Item = (ErrorKind, u64)> + '_ {
        ErrorKind::ALL.into_iter().zip(self.errors)
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_up { "up" } else { "down" };
        write!(
            f,
            "{state}; {} allowed, {} refused, {} refused here, {} leased, {} admitted and {} refused for want of a \
             decision; {} refunds lost; {} connections, {} scripts sent, state lost {} times",
            self.allowed,
            self.refused,
            self.refused_locally,
            self.leased,
            self.admitted_instead,
            self.refused_instead,
            self.refunds_lost,
            self.connections,
            self.scripts_sent,
            self.state_lost
        )?;
        for (kind, count) in self.all_errors().filter(|(_, count)| *count > 0) {
            write!(f, "; {} {}", count, kind.as_str())?;
        }
        Ok(())
    }
}
