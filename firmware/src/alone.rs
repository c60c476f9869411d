//! What one caller would have been admitted, alone, who asks for everything once a millisecond.

use tidegate::{OwnedStrategy, Timestamp};

/// Limits, a state, and what was admitted.
pub struct Alone<'a, L: OwnedStrategy> {
    limits: &'a L,
    pub state: L::State,
    pub admitted: u32,
}

impl<'a, L: OwnedStrategy> Alone<'a, L> {
    pub fn new(limits: &'a L) -> Self {
        let state = limits.fresh();
        Self {
            limits,
            state,
            admitted: 0,
        }
    }

    /// One request.
    pub fn ask(&mut self, ms: u64) -> bool {
        let now = Timestamp::from_millis(ms);
        let answer = self.limits.check_n(&mut self.state, now, 1);
        self.admitted += u32::from(answer.is_ok());
        answer.is_ok()
    }

    /// Everything, at each of these milliseconds.
    pub fn ask_for_everything(mut self, from_ms: u64, to_ms: u64) -> Self {
        for ms in from_ms..=to_ms {
            while self.ask(ms) {}
        }
        self
    }

    /// In how many milliseconds all of it is back.
    pub fn is_back_in(&self, ms: u64) -> u32 {
        let wait = self
            .limits
            .idle_after(&self.state, Timestamp::from_millis(ms));
        wait.as_millis() as u32
    }
}
