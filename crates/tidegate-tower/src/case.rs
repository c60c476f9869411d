//! One request before its policies: all or nothing, whoever answers when.

use core::fmt;
use core::task::{Context, Poll};
use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use http::request::Parts;
use smallvec::SmallVec;
use tidegate::http::Standing;
use tidegate::{Reason, Timestamp};

use crate::key::{Key, NoKey};
use crate::limit::OpenLimit;
use crate::open::OpenOnFailure;
use crate::plan::{Active, Plan};
use crate::policy::Ending;
use crate::stats::Event;
use crate::store::{Answer, Decision, Later, StoreError};
use crate::telemetry;

/// A request before its policies.
///
/// It first peeks at all that enforce, and then takes from one after the other, so that a refusal that can be foreseen
/// takes nothing. What was taken when another refuses is given back. Those that only watch come last.
///
/// Dropped before the request has ended, it counts as [`Ending::Gone`].
pub(crate) struct Case {
    plan: Arc<Plan>,
    now: Timestamp,
    asked: AllAsked,
    stage: Stage,
    /// The one of `asked` that is next.
    next: usize,
    pending: Option<Later>,
    verdict: Verdict,
}

/// A request under one policy.
pub(crate) struct Asked {
    /// Which of the plan's policies.
    policy: usize,
    /// Which of the policy's limits.
    limit: usize,
    key: Key,
    cost: u64,
    /// What clients are told of the key, if anything.
    partition_key: Option<Box<[u8]>>,
    decision: Option<Decision>,
    /// Where it was taken from, if it was.
    taken: Option<Source>,
    /// When, by the store's clock, if that has one of its own.
    taken_at: Option<Timestamp>,
    /// Which store is being asked.
    source: Source,
    refuses: bool,
}

/// Under all policies that apply to it. One is the usual number, and allocates nothing.
pub(crate) type AllAsked = SmallVec<[Asked; 1]>;

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Own,
    Full,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Enforce,
    Watch,
    Candidates,
    Decided,
    Ended,
}

/// What has become of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Admitted,
    /// At least one policy refuses it.
    Refused,
    /// A store has failed, or had no room.
    Failed,
}

impl Asked {
    pub(crate) fn new(
        policy: usize,
        limit: usize,
        key: Key,
        cost: u64,
        partition_key: Option<Box<[u8]>>,
    ) -> Self {
        Self {
            policy,
            limit,
            key,
            cost,
            partition_key,
            decision: None,
            taken: None,
            taken_at: None,
            source: Source::Own,
            refuses: false,
        }
    }
}

impl Case {
    /// Boxed, since futures are moved more than once before they rest.
    pub(crate) fn new(plan: Arc<Plan>) -> Box<Self> {
        Box::new(Self {
            plan,
            now: Timestamp::ZERO,
            asked: SmallVec::new(),
            stage: Stage::Enforce,
            next: 0,
            pending: None,
            verdict: Verdict::Admitted,
        })
    }

    /// Adds what must be asked about this request: whether that is anything, or which policy finds no key.
    pub(crate) fn open(&mut self, request: &Parts) -> Result<bool, (usize, NoKey)> {
        self.plan.asks(request, &mut self.asked)?;
        if self.asked.is_empty() {
            return Ok(false);
        }
        self.now = self.plan.now();
        self.foresee();
        Ok(true)
    }

    /// Asks on until something must be waited for; true if all is decided.
    pub(crate) fn advance(&mut self) -> bool {
        self.run(None).is_ready()
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.run(Some(context))
    }

    fn run(&mut self, mut context: Option<&mut Context<'_>>) -> Poll<()> {
        loop {
            match &mut self.pending {
                Some(pending) => {
                    let Some(context) = context.as_deref_mut() else {
                        return Poll::Pending;
                    };
                    let Poll::Ready(answer) = pending.as_mut().poll(context) else {
                        return Poll::Pending;
                    };
                    self.pending = None;
                    let answer = answer.map(|counted| {
                        // What a candidate has counted is never given back.
                        if self.stage != Stage::Candidates {
                            self.asked[self.next].taken_at = counted.taken_at;
                        }
                        counted.decision
                    });
                    self.answered(&answer);
                }
                None => match self.ask_next() {
                    None => return Poll::Ready(()),
                    Some(Answer::Ready(answer)) => self.answered(&answer),
                    Some(Answer::Later(pending)) => self.pending = Some(pending),
                },
            }
        }
    }

    fn answered(&mut self, answer: &Result<Decision, StoreError>) {
        match self.stage {
            Stage::Enforce => self.enforce(answer),
            Stage::Watch => self.watch(answer),
            Stage::Candidates => self.compare(answer),
            Stage::Decided | Stage::Ended => {}
        }
    }

    fn active(&self, index: usize) -> &Active {
        &self.plan.policies[self.asked[index].policy]
    }

    /// Refuses what can be seen to be refused before anything is taken. The first one's check is as good as a peek.
    fn foresee(&mut self) {
        let mut is_first = true;
        for index in 0..self.asked.len() {
            if !self.active(index).enforces || core::mem::take(&mut is_first) {
                continue;
            }
            let Asked {
                limit, key, cost, ..
            } = &self.asked[index];
            let store = &self.active(index).limits[*limit].store;
            if let Some(Err(denied)) = store.peek(key, self.now, *cost) {
                self.next = index;
                self.enforce(&Ok(Err(denied)));
                return;
            }
        }
    }

    /// Asks the next store, if any is left.
    fn ask_next(&mut self) -> Option<Answer> {
        loop {
            let Some(asked) = self.asked.get(self.next) else {
                self.next = 0;
                self.stage = match self.stage {
                    Stage::Enforce if self.plan.has_watched => Stage::Watch,
                    Stage::Enforce | Stage::Watch if self.plan.has_candidates => Stage::Candidates,
                    Stage::Enforce | Stage::Watch | Stage::Candidates => {
                        self.decided();
                        Stage::Decided
                    }
                    Stage::Decided | Stage::Ended => return None,
                };
                continue;
            };
            let active = &self.plan.policies[asked.policy];
            let own = &active.limits[asked.limit];
            let limit: &OpenLimit = match self.stage {
                Stage::Enforce if active.enforces => active.limit_from(asked.source, asked.limit),
                // What only watches need not see what is refused anyway.
                Stage::Watch if !active.enforces && self.verdict == Verdict::Admitted => own,
                Stage::Candidates if active.candidate.is_some() => active.candidate.as_ref()?,
                Stage::Enforce | Stage::Watch | Stage::Candidates => {
                    self.next += 1;
                    continue;
                }
                Stage::Decided | Stage::Ended => return None,
            };
            return Some(limit.store.check(&asked.key, self.now, asked.cost));
        }
    }

    /// An enforced policy's store has answered.
    fn enforce(&mut self, answer: &Result<Decision, StoreError>) {
        let index = self.next;
        let asked = &mut self.asked[index];
        let active = &self.plan.policies[asked.policy];
        let (event, next, on_failure) = match answer {
            Ok(decision @ Ok(allowed)) => {
                asked.decision = Some(*decision);
                asked.taken = allowed.is_counted().then_some(asked.source);
                self.next += 1;
                return;
            }
            Ok(decision @ Err(denied)) if denied.reason() != Reason::TableFull => {
                self.refuse(index, Some(*decision), Verdict::Refused);
                return;
            }
            Ok(decision @ Err(_)) => {
                asked.decision = Some(*decision);
                (Event::Full, Source::Full, &active.on_full)
            }
            Err(error) => {
                telemetry::store_failed(&active.name, &**error);
                (Event::Error, Source::Failed, &active.on_error)
            }
        };
        active.counts.add(event);
        telemetry::count(&active.name, event);
        match on_failure {
            OpenOnFailure::Fallback(_) if asked.source == Source::Own => {
                asked.source = next;
                // That was by the other's clock.
                asked.taken_at = None;
            }
            OpenOnFailure::Admit => {
                // Its budget is not known, so nothing is told about it.
                asked.decision = None;
                self.next += 1;
            }
            OpenOnFailure::Refuse | OpenOnFailure::Fallback(_) => {
                let decision = asked.decision.take();
                self.refuse(index, decision, Verdict::Failed);
            }
        }
    }

    /// Gives back what the others have taken, and asks no more of those that enforce.
    fn refuse(&mut self, index: usize, decision: Option<Decision>, verdict: Verdict) {
        self.asked[index].decision = decision;
        self.asked[index].refuses = true;
        self.verdict = verdict;
        self.give_back_all();
        let (plan, now) = (&self.plan, self.now);
        // The client wants to know where the others stand, and when all of them would let it pass.
        for (other, asked) in self.asked.iter_mut().enumerate() {
            let active = &plan.policies[asked.policy];
            if other != index && active.enforces {
                let store = &active.limits[asked.limit].store;
                let peeked = store.peek(&asked.key, now, asked.cost);
                asked.refuses = matches!(peeked, Some(Err(_)));
                asked.decision = if asked.refuses {
                    peeked
                } else {
                    store.peek(&asked.key, now, 0)
                };
            }
        }
        self.next = self.asked.len();
    }

    fn give_back_all(&mut self) {
        for index in (0..self.asked.len()).rev() {
            self.give_back(index);
        }
    }

    fn give_back(&mut self, index: usize) -> bool {
        let asked = &mut self.asked[index];
        let Some(source) = asked.taken.take() else {
            return false;
        };
        let active = &self.plan.policies[asked.policy];
        let taken_at = asked.taken_at.take().unwrap_or(self.now);
        let store = &active.limit_from(source, asked.limit).store;
        store.refund(&asked.key, taken_at, asked.cost);
        true
    }

    /// A policy that only watches has answered.
    fn watch(&mut self, answer: &Result<Decision, StoreError>) {
        let index = self.next;
        let event = match answer {
            Ok(Ok(allowed)) => {
                if allowed.is_counted() {
                    self.asked[index].taken = Some(Source::Own);
                }
                None
            }
            Ok(Err(denied)) if denied.reason() == Reason::TableFull => Some(Event::Full),
            Ok(Err(_)) => Some(Event::ShadowRefused),
            Err(error) => {
                telemetry::store_failed(&self.active(index).name, &**error);
                Some(Event::Error)
            }
        };
        if let Some(event) = event {
            let active = self.active(index);
            active.counts.add(event);
            telemetry::count(&active.name, event);
            if event == Event::ShadowRefused {
                telemetry::refused(&active.name, &self.asked[index].key, true);
            }
        }
        self.next += 1;
    }

    /// A candidate has answered.
    fn compare(&mut self, answer: &Result<Decision, StoreError>) {
        let index = self.next;
        let asked = &self.asked[index];
        let active = self.active(index);
        let enforced = match &asked.decision {
            Some(decision) => decision.is_ok(),
            // Nobody could tell, or this one was not asked any more.
            None if active.enforces => self.verdict == Verdict::Admitted,
            // It only watches: then it has been taken, or not.
            None => asked.taken.is_some() || asked.cost == 0,
        };
        let event = match (enforced, answer) {
            (_, Err(error)) => {
                telemetry::store_failed(&active.name, &**error);
                Event::Error
            }
            (true, Ok(Ok(_))) => Event::BothAdmit,
            (true, Ok(Err(_))) => Event::OnlyCandidateRefuses,
            (false, Ok(Ok(_))) => Event::OnlyCandidateAdmits,
            (false, Ok(Err(_))) => Event::BothRefuse,
        };
        active.counts.add(event);
        telemetry::count(&active.name, event);
        self.next += 1;
    }

    fn decided(&self) {
        for (index, asked) in self.asked.iter().enumerate() {
            let active = self.active(index);
            let event = match self.verdict {
                // Has been counted as what it would have been.
                Verdict::Admitted
                    if !active.enforces && asked.taken.is_none() && asked.cost > 0 =>
                {
                    continue;
                }
                Verdict::Admitted => Event::Admitted,
                Verdict::Refused if asked.refuses => Event::Refused,
                Verdict::Refused | Verdict::Failed => continue,
            };
            active.counts.add(event);
            telemetry::count(&active.name, event);
            if event == Event::Refused {
                telemetry::refused(&active.name, &asked.key, false);
            }
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Where the request stands with every policy that tells it.
    pub(crate) fn standings(&self) -> SmallVec<[Standing<'_>; 1]> {
        let told = self.asked.iter().filter_map(|asked| {
            let active = &self.plan.policies[asked.policy];
            let mut policy = active.told[asked.limit].as_policy();
            if let Some(key) = &asked.partition_key {
                policy = policy.with_partition_key(key);
            }
            Some(Standing::new(policy, asked.decision?))
        });
        told.collect()
    }

    /// Where the field that describes the policies can be kept: if there is but one, that says the same to all clients.
    pub(crate) fn policy_field(&self) -> Option<&OnceLock<HeaderValue>> {
        match &self.asked[..] {
            [asked] if asked.partition_key.is_none() => {
                Some(&self.plan.policies[asked.policy].told_fields[asked.limit])
            }
            _ => None,
        }
    }

    /// The request has ended: gives back what is to be, and corrects the decisions that are told.
    pub(crate) fn end(&mut self, ending: &Ending<'_>) {
        if self.stage != Stage::Decided {
            // It was never let through.
            self.give_back_all();
            self.stage = Stage::Ended;
            return;
        }
        self.stage = Stage::Ended;
        for index in 0..self.asked.len() {
            let gives_back = &self.active(index).policy.gives_back;
            let gives_back = gives_back
                .as_ref()
                .is_some_and(|gives_back| gives_back(ending));
            if !gives_back || !self.give_back(index) {
                continue;
            }
            let asked = &mut self.asked[index];
            let active = &self.plan.policies[asked.policy];
            active.counts.add(Event::GivenBack);
            telemetry::count(&active.name, Event::GivenBack);
            let store = &active.limits[asked.limit].store;
            if active.enforces
                && asked.source == Source::Own
                && let Some(now) = store.peek(&asked.key, self.now, 0)
            {
                asked.decision = Some(now);
            }
        }
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if self.stage != Stage::Ended {
            self.end(&Ending::Gone);
        }
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("now", &self.now)
            .field("stage", &self.stage)
            .field("verdict", &self.verdict)
            .finish_non_exhaustive()
    }
}
