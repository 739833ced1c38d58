//! From what was said at many looks to the periods to go by.

use std::collections::BTreeMap;

use super::{HARDLY_NEW, KnownJob, LOST_AFTER_PERIODS, are_within, batch_id};
use crate::{IoProfile, LEAST_CONFIDENCE};

/// A period must be found so often before it replaces another.
const N_FINDINGS: u32 = 2;
/// Time after the last finding within which the same finding counts as asked for again.
const APART_S: f64 = 0.5;
/// Nobody is lost sooner: a daemon that is started anew needs its time.
const LEAST_PATIENCE_S: f64 = 10.0;
/// Who acts by himself waits until a period was found for so many periods.
const STEADY_PERIODS: f64 = 1.5;
/// Factor from which on an observation contradicts the source …
const CONTRADICTS: f64 = 1.5;
/// … so often in a row.
const N_CONTRADICTIONS: u32 = 3;

/// The periods of jobs that an actor goes by, as one source says them.
///
/// Told at each look what the source says ([`AcceptedHints::look`]), and what the actor sees itself ([`AcceptedHints::observe`]). All times are on a clock of the caller's.
///
/// One that serves whatever comes needs a period at once, and goes by [`AcceptedHints::period_s`]. One that decides by itself can wait, and goes by
/// [`AcceptedHints::steady_period_s`].
#[derive(Clone, Debug)]
pub struct AcceptedHints {
    jobs: BTreeMap<(String, Option<u32>), Hint>,
    least_confidence: f64,
}

impl Default for AcceptedHints {
    fn default() -> Self {
        Self::above(LEAST_CONFIDENCE)
    }
}

#[derive(Clone, Debug, Default)]
struct Hint {
    held: Option<Finding>,
    /// When it was first found, if the last look found it, too, as all did in between.
    since_s: Option<f64>,
    /// Finding that would replace it, and how often it was found.
    rival: Option<(Finding, u32)>,
    /// The same of what would replace it.
    rival_since_s: Option<f64>,
    /// How often in a row what was observed speaks against what is held; once it is wrong, for it.
    n_strange: u32,
    is_wrong: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Finding {
    period_s: f64,
    made_s: f64,
    /// Said by a person: holds until something else is said.
    is_given: bool,
}

impl AcceptedHints {
    /// Heeds what is as certain as this.
    pub fn above(least_confidence: f64) -> Self {
        Self { jobs: BTreeMap::new(), least_confidence }
    }

    /// Takes what a source says at a look; `None` if it does not answer. Jobs it does not name any more are forgotten.
    pub fn look(&mut self, now_s: f64, said: Option<&[KnownJob]>) {
        let Some(said) = said else {
            self.jobs.values_mut().for_each(|hint| hint.forget_if_lost(now_s));
            return;
        };
        let mut before = std::mem::take(&mut self.jobs);
        // Of two that are called alike (a job and its requeued self) the one that was looked at last.
        let mut youngest: BTreeMap<(String, Option<u32>), &KnownJob> = BTreeMap::new();
        for job in said {
            let key = (batch_id(&job.job).to_owned(), job.uid);
            let is_younger = |other: &&KnownJob| rank(job) < rank(other);
            if youngest.get(&key).is_none_or(is_younger) {
                youngest.insert(key, job);
            }
        }
        for (key, job) in youngest {
            let mut hint = before.remove(&key).unwrap_or_default();
            hint.hear(now_s, job, self.least_confidence);
            self.jobs.insert(key, hint);
        }
    }

    /// Notes a period that the actor itself sees of a job. Returns whether what is heeded of it has turned out wrong thereby (`true`), or right again.
    pub fn observe(&mut self, job: &str, uid: Option<u32>, period_s: f64) -> Option<bool> {
        let key = self.key_of(job, uid)?;
        self.jobs.get_mut(&key)?.observe(period_s)
    }

    /// The period to go by of a job; `None` if nothing is known that is certain enough, or what is known is wrong.
    ///
    /// A job of a user is one of that user's, or of nobody's if the source knows no users. Whoever's it is if the actor does not know, unless several have it.
    pub fn period_s(&self, job: &str, uid: Option<u32>) -> Option<f64> {
        let hint = self.jobs.get(&self.key_of(job, uid)?)?;
        hint.held.filter(|_| !hint.is_wrong).map(|held| held.period_s)
    }

    /// The same for one that decides by itself: what every look has found for one and a half periods, or a person has said. A job that is held up by
    /// others, or has just begun, often seems to have another.
    pub fn steady_period_s(&self, job: &str, uid: Option<u32>) -> Option<f64> {
        let hint = self.jobs.get(&self.key_of(job, uid)?)?;
        hint.held.filter(|held| !hint.is_wrong && hint.is_steady(held)).map(|held| held.period_s)
    }

    /// The jobs that the source names, by id and user, each with the period to go by.
    pub fn jobs(&self) -> impl Iterator<Item = (&str, Option<u32>, Option<f64>)> {
        self.jobs.iter().map(|((job, uid), hint)| {
            (job.as_str(), *uid, hint.held.filter(|_| !hint.is_wrong).map(|held| held.period_s))
        })
    }

    fn key_of(&self, job: &str, uid: Option<u32>) -> Option<(String, Option<u32>)> {
        let job = batch_id(job).to_owned();
        if uid.is_some() {
            let keys = [(job.clone(), uid), (job, None)];
            return keys.into_iter().find(|key| self.jobs.contains_key(key));
        }
        let mut of_any = self.jobs.range((job.clone(), None)..=(job, Some(u32::MAX)));
        let (only, _) = of_any.next()?;
        of_any.next().is_none().then(|| only.clone())
    }
}

/// Which of two that are called alike is meant: what was said before what was measured, then what was found last. Never a tie between two that differ.
fn rank(job: &KnownJob) -> [i64; 4] {
    // The order of `f64::total_cmp`.
    let ordered = |figure: f64| {
        let bits = figure.to_bits() as i64;
        bits ^ (((bits >> 63) as u64) >> 1) as i64
    };
    let [confidence, period_s] = [job.confidence, job.period_s].map(|it| it.map_or(i64::MIN, ordered));
    [job.confidence.is_some().into(), ordered(job.age_s), period_s, confidence]
}

impl Hint {
    fn hear(&mut self, now_s: f64, job: &KnownJob, least_confidence: f64) {
        let made_s = now_s - if job.age_s.is_finite() { job.age_s.max(0.0) } else { f64::INFINITY };
        let is_given = job.confidence.is_none();
        let finding = job.period_s.and_then(IoProfile::checked).map(|profile| Finding {
            period_s: profile.w_iter_s(),
            made_s,
            is_given,
        });
        if is_given {
            // Whoever says so knows, also that there is none.
            self.hold(finding);
            return;
        }
        let is_certain = job.confidence.is_some_and(|confidence| confidence >= least_confidence);
        match finding.filter(|finding| is_certain && !finding.is_lost(now_s)) {
            Some(finding) => self.find(finding),
            None => (self.since_s, self.rival_since_s) = (None, None),
        }
        self.forget_if_lost(now_s);
    }

    fn find(&mut self, finding: Finding) {
        let Some(held) = &mut self.held else { return self.hold(Some(finding)) };
        if are_within(HARDLY_NEW, held.period_s, finding.period_s) {
            // The period stays as it is: many small steps would be a large one.
            held.made_s = held.made_s.max(finding.made_s);
            held.is_given = false;
            self.rival = None;
            self.since_s.get_or_insert(finding.made_s);
            return;
        }
        self.since_s = None;
        let n = match self.rival {
            Some((rival, n)) if are_within(HARDLY_NEW, rival.period_s, finding.period_s) => {
                self.rival_since_s.get_or_insert(finding.made_s);
                if finding.made_s < rival.made_s + APART_S {
                    return;
                }
                n + 1
            }
            _ => 1,
        };
        if n >= N_FINDINGS {
            let since_s = self.rival_since_s;
            self.hold(Some(finding));
            self.since_s = since_s;
        } else {
            (self.rival, self.rival_since_s) = (Some((finding, n)), Some(finding.made_s));
        }
    }

    fn hold(&mut self, finding: Option<Finding>) {
        let period_s = |finding: &Option<Finding>| finding.map(|finding| finding.period_s);
        if period_s(&self.held) != period_s(&finding) {
            (self.n_strange, self.is_wrong) = (0, false);
        }
        (self.held, self.rival) = (finding, None);
        self.since_s = finding.map(|finding| finding.made_s);
    }

    fn is_steady(&self, held: &Finding) -> bool {
        let found_s = self.since_s.map_or(0.0, |since_s| held.made_s - since_s);
        held.is_given || found_s > 0.0 && found_s >= STEADY_PERIODS * held.period_s
    }

    fn forget_if_lost(&mut self, now_s: f64) {
        if self.held.is_some_and(|held| held.is_lost(now_s)) {
            self.hold(None);
        }
    }

    fn observe(&mut self, period_s: f64) -> Option<bool> {
        let held = self.held.filter(|_| period_s.is_finite() && period_s > 0.0)?;
        let is_as_said = are_within(CONTRADICTS, held.period_s, period_s);
        self.n_strange = if is_as_said == self.is_wrong { self.n_strange + 1 } else { 0 };
        if self.n_strange < N_CONTRADICTIONS {
            return None;
        }
        (self.n_strange, self.is_wrong) = (0, !self.is_wrong);
        Some(self.is_wrong)
    }
}

impl Finding {
    fn is_lost(&self, now_s: f64) -> bool {
        !self.is_given && now_s - self.made_s > (LOST_AFTER_PERIODS * self.period_s).max(LEAST_PATIENCE_S)
    }
}
