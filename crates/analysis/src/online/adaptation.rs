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
    /// All data since the evaluation that is `evaluations` back: by amount of data, not by time.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Where each next window begins, when these periods are found at 10 s, 20 s, 30 s…
    fn starts(adaptation: Adaptation, periods_s: &[Option<f64>]) -> Vec<Option<f64>> {
        let mut window = WindowStart::new(adaptation);
        periods_s
            .iter()
            .zip(1..)
            .map(|(&period_s, i)| {
                window.note(10.0 * f64::from(i), period_s);
                window.before(10.0 * f64::from(i + 1))
            })
            .collect()
    }

    #[test]
    fn more_than_three_hits_in_a_row_shrink_the_window_to_three_periods() {
        let found = [Some(8.0), None, Some(8.0), Some(8.0), Some(8.0), Some(8.1), Some(8.2), None];
        let expected = [None, None, None, None, None, Some(60.0 - 24.3), Some(70.0 - 24.6), None];
        for (found, expected) in starts(Adaptation::Hits { hits: 3 }, &found).iter().zip(expected) {
            assert_eq!(found.is_some(), expected.is_some());
            assert!((found.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs() < 1e-9);
        }
    }

    #[test]
    fn a_fixed_length_and_a_fixed_number_of_periods_follow_the_end() {
        assert_eq!(starts(Adaptation::Length { seconds: 15.0 }, &[None, None]), [Some(5.0), Some(15.0)]);
        let by_periods = starts(Adaptation::Periods { periods: 2.0 }, &[None, Some(4.0), None]);
        assert_eq!(by_periods, [None, Some(12.0), Some(22.0)]);
    }

    #[test]
    fn by_data_the_window_begins_where_the_last_but_one_ended() {
        let found = starts(Adaptation::Data { evaluations: 1 }, &[None; 6]);
        assert_eq!(found, [None, None, None, Some(30.0), Some(40.0), Some(50.0)]);
    }

    #[test]
    fn the_steps_of_ftio_begin_where_ours_begin() {
        let Some(path) = iotide_testkit::shared_data("ftio/golden_online.json") else { return };
        let golden: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for (name, adaptation) in
            [("frequency_hits", Adaptation::Hits { hits: 3 }), ("data", Adaptation::Data { evaluations: 1 })]
        {
            for file in ["8.jsonl", "384.msgpack"] {
                let mut window = WindowStart::new(adaptation);
                for step in golden[format!("{file}|{name}")].as_array().unwrap() {
                    let frequencies = step["freqs"].as_array().unwrap();
                    let hit = (frequencies.len() == 1).then(|| 1.0 / frequencies[0].as_f64().unwrap());
                    window.note(step["t_end"].as_f64().unwrap(), hit);
                    let next_s = step["next_start"].as_f64().unwrap();
                    match window.after_last() {
                        Some(start_s) => {
                            assert!((start_s - next_s).abs() < 1e-6, "{file} {name} {step}: {start_s}")
                        }
                        // FTIO says 0, or the start of the first request.
                        None => assert!(next_s < 3.2, "{file} {name} {step}"),
                    }
                }
            }
        }
    }
}
