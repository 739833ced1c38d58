//! Which stretch of the past an evaluation looks at.

use iotide_num::ChangeDetectorKind;

/// How the window adapts to what the job does.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Adaptation {
    /// The window begins where behaviour last changed, and holds at most 24 periods. Ours, and the default.
    ChangePoints(ChangeDetectorKind),
    /// The whole past.
    Everything,
    /// The whole past, until a dominant frequency was found more than `hits` times in a row; then `hits` of its periods. The
    /// FTIO paper's adaptation, with `hits` = 3.
    Hits {
        /// How many times, and how many periods.
        hits: u32,
    },
    /// So many seconds.
    Length {
        /// How many.
        seconds: f64,
    },
    /// So many of the last found periods; the whole past while there is none.
    Periods {
        /// How many.
        periods: f64,
    },
    /// What came in since the last evaluation but `evaluations`: by amount of data, not by time.
    Data {
        /// How many evaluations back.
        evaluations: usize,
    },
}

impl Default for Adaptation {
    fn default() -> Self {
        Self::ChangePoints(ChangeDetectorKind::default())
    }
}

/// The adaptations of the paper as a state machine: told what an evaluation found, says where the next window begins.
#[derive(Clone, Debug)]
pub(super) struct WindowStart {
    adaptation: Adaptation,
    hits: u32,
    period_s: Option<f64>,
    /// Ends of the last windows, the newest last; as many as [`Adaptation::Data`] asks for.
    ends_s: Vec<f64>,
    n_evaluations: usize,
}

/// `Data` looks at everything until there were this many evaluations, as FTIO does.
const EVALUATIONS_BEFORE_DATA: usize = 3;

impl WindowStart {
    pub(super) fn new(adaptation: Adaptation) -> Self {
        Self { adaptation, hits: 0, period_s: None, ends_s: Vec::new(), n_evaluations: 0 }
    }

    /// Returns where a window that ends at `end_s` begins; `None` is the beginning of everything.
    pub(super) fn before(&self, end_s: f64) -> Option<f64> {
        match self.adaptation {
            Adaptation::Length { seconds } => Some(end_s - seconds),
            _ => self.after_last(),
        }
    }

    fn after_last(&self) -> Option<f64> {
        let last_end_s = *self.ends_s.last()?;
        match self.adaptation {
            Adaptation::Hits { hits } if self.hits > hits => {
                Some(last_end_s - f64::from(hits) * self.period_s?)
            }
            Adaptation::Periods { periods } => Some(last_end_s - periods * self.period_s?),
            Adaptation::Data { evaluations } if self.n_evaluations > EVALUATIONS_BEFORE_DATA => {
                self.ends_s.len().checked_sub(evaluations.max(1) + 1).map(|i| self.ends_s[i])
            }
            _ => None,
        }
    }

    /// Takes note of an evaluation: the period, if exactly one dominant frequency was found.
    pub(super) fn note(&mut self, end_s: f64, period_s: Option<f64>) {
        self.n_evaluations += 1;
        self.hits = if period_s.is_some() { self.hits + 1 } else { 0 };
        self.period_s = match self.adaptation {
            Adaptation::Periods { .. } => period_s.or(self.period_s),
            _ => period_s,
        };
        let keep = match self.adaptation {
            Adaptation::Data { evaluations } => evaluations.clamp(1, 64),
            _ => 0,
        };
        if self.ends_s.len() > keep {
            self.ends_s.remove(0);
        }
        self.ends_s.push(end_s);
    }
}
