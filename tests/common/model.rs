//! The algorithms once more, by their definitions: unbounded integers, no wrap, no packing.

use tidegate::Reason;

const HOUR: i128 = 3_600_000_000_000;

/// What an algorithm is asked to do, in its own documented numbers.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// Exact rate `num/den` permits a nanosecond.
    Bucket { num: u64, den: u64, burst: u64 },
    /// Windows of `length` units; starts are rounded up to units, or down if windows are aligned.
    Window {
        limit: u64,
        unit: u64,
        length: u64,
        anchored: bool,
        late_ns: u64,
    },
    Sliding {
        limit: u64,
        period: u64,
        late_ns: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Fresh,
    /// Full again at this time, in 1/num ns.
    Bucket(i128),
    Window {
        start: i128,
        count: u64,
    },
    Sliding {
        number: i128,
        previous: u64,
        current: u64,
    },
}

#[derive(Clone, Debug)]
pub struct Model {
    pub rule: Rule,
    /// Bits of the word that count time.
    time_bits: u32,
    state: State,
}

/// Everything a decision can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub refused: Option<Reason>,
    pub limit: u64,
    pub remaining: u64,
    pub retry_ns: Option<u128>,
    pub reset_ns: u128,
}

fn bits(limit: u64) -> u32 {
    64 - limit.leading_zeros()
}

fn ceil(a: i128, b: i128) -> i128 {
    a.div_euclid(b) + i128::from(a.rem_euclid(b) > 0)
}

impl Model {
    pub fn new(rule: Rule, word_bits: u32) -> Self {
        let payload = word_bits - tidegate::GENERATION_BITS;
        let time_bits = match rule {
            Rule::Bucket { .. } => payload,
            Rule::Window { limit, .. } => payload - bits(limit),
            Rule::Sliding { limit, .. } => payload - 2 * bits(limit),
        };
        Self {
            rule,
            time_bits,
            state: State::Fresh,
        }
    }

    pub fn reset(&mut self) {
        self.state = State::Fresh;
    }

    pub fn is_fresh(&self) -> bool {
        self.state == State::Fresh
    }

    /// Whether a word could mistake the state's age at `t`, because its time has wrapped since or before.
    pub fn may_alias(&self, t: u64) -> bool {
        let t = i128::from(t);
        let wrap = 1_i128 << self.time_bits;
        let (distance, margin) = match (self.rule, self.state) {
            (_, State::Fresh) => return false,
            (Rule::Bucket { num, .. }, State::Bucket(full)) => {
                // A refund may move it by as much again.
                (full - t * i128::from(num), 2 * self.horizon_units())
            }
            (
                Rule::Window {
                    unit,
                    length,
                    late_ns,
                    ..
                },
                State::Window { start, .. },
            ) => (
                start - t / i128::from(unit),
                i128::from(late_ns) / i128::from(unit) + i128::from(length) + 2,
            ),
            (
                Rule::Sliding {
                    period, late_ns, ..
                },
                State::Sliding { number, .. },
            ) => (
                number - t / i128::from(period),
                i128::from(late_ns) / i128::from(period) + 4,
            ),
            other => unreachable!("{other:?}"),
        };
        distance.abs() >= wrap - margin
    }

    fn horizon_units(&self) -> i128 {
        let Rule::Bucket { num, den, burst } = self.rule else {
            unreachable!()
        };
        let full = i128::from(burst) * i128::from(den);
        let late = (((1_i128 << 56) - full) / i128::from(num)).min(HOUR);
        full + late * i128::from(num)
    }

    /// Debt of a bucket at `t`, in 1/num ns.
    fn debt(&self, t: u64) -> i128 {
        let Rule::Bucket { num, .. } = self.rule else {
            unreachable!()
        };
        match self.state {
            State::Bucket(full) => {
                let debt = full - i128::from(t) * i128::from(num);
                if debt > 0 && debt <= self.horizon_units() {
                    debt
                } else {
                    0
                }
            }
            _ => 0,
        }
    }

    fn set_debt(&mut self, t: u64, debt: i128) {
        let Rule::Bucket { num, .. } = self.rule else {
            unreachable!()
        };
        let full = i128::from(t) * i128::from(num) + debt;
        // The one state that a word cannot hold: zero means fresh.
        let held = if full & ((1 << self.time_bits) - 1) == 0 {
            full + 1
        } else {
            full
        };
        self.state = State::Bucket(held);
    }

    /// The window that counts at `t`: start in units, count, nanoseconds until its end.
    fn window(&self, t: u64) -> (i128, u64, i128) {
        let Rule::Window {
            unit,
            length,
            anchored,
            late_ns,
            ..
        } = self.rule
        else {
            unreachable!()
        };
        let (t, unit, length) = (i128::from(t), i128::from(unit), i128::from(length));
        let end = |start: i128| (start + length) * unit - t;
        if let State::Window { start, count } = self.state {
            let early = start * unit - t;
            let place = t.div_euclid(unit);
            let emptied = count == 0 && place >= start;
            if early <= i128::from(late_ns) && place < start + length && !emptied {
                return (start, count, end(start));
            }
        }
        let start = if anchored {
            ceil(t, unit)
        } else {
            t.div_euclid(unit)
        };
        (start, 0, end(start))
    }

    /// The windows that count at `t`: number, previous, current, time into it (negative before it).
    fn sliding(&self, t: u64) -> (i128, u64, u64, i128) {
        let Rule::Sliding {
            period, late_ns, ..
        } = self.rule
        else {
            unreachable!()
        };
        let (t, period) = (i128::from(t), i128::from(period));
        let now = t.div_euclid(period);
        let into = |number: i128| t - number * period;
        match self.state {
            State::Sliding {
                number,
                previous,
                current,
            } => match now - number {
                0 => (now, previous, current, into(now)),
                1 => (now, current, 0, into(now)),
                2.. => (now, 0, 0, into(now)),
                _ if -into(number) <= i128::from(late_ns) => {
                    (number, previous, current, into(number))
                }
                _ => (now, 0, 0, into(now)),
            },
            _ => (now, 0, 0, into(now)),
        }
    }

    pub fn check(&mut self, t: u64, cost: u64) -> Answer {
        match self.rule {
            Rule::Bucket { num, den, burst } => {
                let (num, den) = (i128::from(num), i128::from(den));
                let full = i128::from(burst) * den;
                let mut debt = self.debt(t);
                let want = debt + i128::from(cost) * den;
                let refused = if cost > burst {
                    Some(Reason::TooCostly)
                } else if cost > 0 && want > full {
                    Some(Reason::Limited)
                } else {
                    if cost > 0 {
                        self.set_debt(t, want);
                        debt = self.debt(t);
                    }
                    None
                };
                Answer {
                    refused,
                    limit: burst,
                    remaining: ((full - debt).max(0) / den) as u64,
                    retry_ns: (refused == Some(Reason::Limited))
                        .then(|| ceil(want - full, num) as u128),
                    reset_ns: ceil(debt, num) as u128,
                }
            }
            Rule::Window { limit, .. } => {
                let (start, mut count, until_end) = self.window(t);
                let refused = if cost > limit {
                    Some(Reason::TooCostly)
                } else if cost > limit - count {
                    Some(Reason::Limited)
                } else {
                    if cost > 0 {
                        count += cost;
                        self.state = State::Window { start, count };
                    }
                    None
                };
                Answer {
                    refused,
                    limit,
                    remaining: limit - count,
                    retry_ns: (refused == Some(Reason::Limited)).then_some(until_end as u128),
                    reset_ns: if count > 0 { until_end as u128 } else { 0 },
                }
            }
            Rule::Sliding { limit, period, .. } => {
                let (number, previous, mut current, into) = self.sliding(t);
                let (big_limit, big_period) = (i128::from(limit), i128::from(period));
                let rest = big_period - into.max(0);
                let weight = i128::from(previous) * rest;
                let fits = weight + (i128::from(current) + i128::from(cost)) * big_period
                    <= big_limit * big_period;
                let refused = if cost > limit {
                    Some(Reason::TooCostly)
                } else if cost > 0 && !fits {
                    Some(Reason::Limited)
                } else {
                    if cost > 0 {
                        current += cost;
                        self.state = State::Sliding {
                            number,
                            previous,
                            current,
                        };
                    }
                    None
                };
                let end = big_period - into;
                Answer {
                    refused,
                    limit,
                    remaining: (big_limit - i128::from(current) - ceil(weight, big_period)).max(0)
                        as u64,
                    retry_ns: (refused == Some(Reason::Limited)).then(|| {
                        // The first instant at which it fits: of this window, or of the next.
                        let wanted = i128::from(current) + i128::from(cost);
                        let (start, fading, room) = if wanted <= big_limit {
                            (0, previous, big_limit - wanted)
                        } else {
                            (big_period, current, big_limit - i128::from(cost))
                        };
                        // fading * (P - e) <= room * P
                        let e = big_period - (room * big_period).div_euclid(i128::from(fading));
                        (start + e - into) as u128
                    }),
                    reset_ns: if current > 0 {
                        (end + big_period) as u128
                    } else if previous > 0 {
                        end as u128
                    } else {
                        0
                    },
                }
            }
        }
    }

    pub fn refund(&mut self, taken_at: u64, cost: u64) {
        match self.rule {
            Rule::Bucket { den, burst, .. } => {
                let debt = self.debt(taken_at);
                if debt > 0 {
                    let back = i128::from(cost.min(burst)) * i128::from(den);
                    self.set_debt(taken_at, (debt - back).max(0));
                }
            }
            Rule::Window { unit, anchored, .. } => {
                let (start, count, _) = self.window(taken_at);
                let opens = if anchored {
                    ceil(i128::from(taken_at), i128::from(unit))
                } else {
                    i128::from(taken_at) / i128::from(unit)
                };
                if count > 0 && opens >= start {
                    self.state = match count.saturating_sub(cost) {
                        0 if start == 0 => State::Fresh,
                        // The one empty window that a word cannot hold.
                        0 if start & ((1 << self.time_bits) - 1) == 0 => {
                            State::Window { start, count: 1 }
                        }
                        count => State::Window { start, count },
                    };
                }
            }
            Rule::Sliding { period, .. } => {
                let State::Sliding {
                    number,
                    mut previous,
                    mut current,
                } = self.state
                else {
                    return;
                };
                match i128::from(taken_at / period) - number {
                    0 => current = current.saturating_sub(cost),
                    -1 => previous = previous.saturating_sub(cost),
                    _ => return,
                }
                let wrapped = number & ((1 << self.time_bits) - 1) == 0;
                self.state = if (previous, current) == (0, 0) && number == 0 {
                    State::Fresh
                } else {
                    State::Sliding {
                        number,
                        previous,
                        // The one empty state that a word cannot hold.
                        current: if (previous, current) == (0, 0) && wrapped {
                            1
                        } else {
                            current
                        },
                    }
                };
            }
        }
    }
}
