//! Observations of a job at an arbiter or a mount: whether it does I/O, and how far its phases are apart. The start of the next phase follows from
//! the start of the last one.

use iotide_sched::staging::Forecast;

/// A job at a storage, as it is seen again and again.
#[derive(Debug, Default)]
pub(super) struct AtStorage {
    /// When the last phase began, and when it was last seen going on.
    phase_s: Option<(f64, f64)>,
}

/// Of a period: requests that are less than this apart are of one phase.
const SAME_PHASE: f64 = 0.2;
/// Of a period: how much earlier or later than expected a phase may begin.
const TOLERANCE: f64 = 0.1;
/// An arbiter goes by periods that are this certain at least, and does not say how certain.
const CONFIDENCE: f64 = 0.5;

impl AtStorage {
    /// Takes in what is seen now. When a phase begins, and the job has a period, says when the next one will.
    pub(super) fn hear(&mut self, now_s: f64, is_active: bool, period_s: Option<f64>) -> Option<Forecast> {
        if !is_active {
            return None;
        }
        let last = self.phase_s;
        let same_s = period_s.map_or(0.0, |period_s| period_s * SAME_PHASE);
        if let Some((_, seen_s)) = &mut self.phase_s
            && now_s - *seen_s <= same_s
        {
            *seen_s = now_s;
            return None;
        }
        self.phase_s = Some((now_s, now_s));
        // Of the first one it is not known whether it has just begun.
        let (began_s, seen_s) = last?;
        let period_s = period_s?;
        let start_s = now_s + period_s;
        let off_s = TOLERANCE * period_s;
        let forecast = Forecast {
            at_s: now_s,
            confidence: CONFIDENCE,
            period_s,
            start_s,
            start_interval_s: (start_s - off_s, start_s + off_s),
            // It may write elsewhere than into the buffer; how that fills is seen there.
            bytes: 0.0,
            duration_s: (seen_s - began_s).min(period_s),
            idle_probability: CONFIDENCE,
        };
        forecast.is_possible().then_some(forecast)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_phase_is_a_period_after_one_that_was_seen_to_begin() {
        let mut job = AtStorage::default();
        // It may have been at it for long.
        assert_eq!(job.hear(0.0, true, Some(10.0)), None);
        // Requests of one phase, with pauses between them.
        for (now_s, is_active) in [(0.5, false), (1.0, true), (1.5, false), (2.0, true), (5.0, false)] {
            assert_eq!(job.hear(now_s, is_active, Some(10.0)), None);
        }
        let next = job.hear(9.0, true, Some(10.0)).unwrap();
        assert_eq!((next.at_s, next.start_s, next.start_interval_s), (9.0, 19.0, (18.0, 20.0)));
        assert_eq!((next.period_s, next.duration_s), (10.0, 2.0));
        // A long phase is one, however long it takes, and the next one has the period of then.
        for quarter in 37..80 {
            assert_eq!(job.hear(f64::from(quarter) / 4.0, true, Some(10.0)), None);
        }
        assert_eq!(job.hear(30.0, true, Some(8.0)).unwrap().start_s, 38.0);
    }

    #[test]
    fn without_a_period_nothing_is_expected() {
        let mut job = AtStorage::default();
        for second in 0..20 {
            assert_eq!(job.hear(f64::from(second), second % 5 == 0, None), None);
        }
        // Nonsense of a peer is none either.
        assert_eq!(job.hear(30.0, true, Some(f64::INFINITY)), None);
        assert_eq!(job.hear(90.0, true, Some(-1.0)), None);
    }
}
