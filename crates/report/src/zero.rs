//! Origin of a run's times where people read them.

use iotide_look::chart::Axis;
use iotide_look::text;

/// The moment that is called 0 s.
///
/// Clocks of most traces begin with the run. Of one that counts from 1970 nobody reads ten digits to find the one that differs, so its
/// times are shown from the run's first second on. The JSON form has them as the trace does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Zero {
    at_s: f64,
}

impl Zero {
    /// A clock that shows more counts from 1970: no machine runs for thirty years.
    const LONGEST_S: f64 = 1e9;

    /// A job that began longer before its first event is not the one that was traced.
    const LONGEST_WAIT_S: f64 = 30.0 * 86_400.0;

    /// Of a run whose first event is at `first_s` on the clock of its trace, and whose job began at `job_unix_s`.
    pub fn of(first_s: Option<f64>, job_unix_s: Option<f64>) -> Self {
        let Some(first_s) = first_s.filter(|s| s.is_finite() && *s >= Self::LONGEST_S) else {
            return Self::default();
        };
        let job_s = job_unix_s.filter(|job_s| (0.0..Self::LONGEST_WAIT_S).contains(&(first_s - job_s)));
        Self { at_s: job_s.unwrap_or(first_s).floor() }
    }

    /// A moment on the clock of the trace, in words.
    pub fn moment(self, s: f64) -> String {
        text::moment(s - self.at_s)
    }

    /// "0.971 s to 2.768 s".
    pub fn span(self, start_s: f64, end_s: f64) -> String {
        format!("{} to {}", self.moment(start_s), self.moment(end_s))
    }

    /// The same, with what it is counted from, unless that is the clock's own zero.
    pub fn dated_span(self, start_s: f64, end_s: f64) -> String {
        let span = self.span(start_s, end_s);
        if self.at_s == 0.0 { span } else { format!("{span} after {}", text::date(self.at_s)) }
    }

    /// An axis for moments on the clock of the trace.
    pub fn axis(self, lo_s: f64, hi_s: f64) -> Axis {
        let axis = Axis::time("time", lo_s, hi_s);
        if self.at_s == 0.0 {
            axis
        } else {
            axis.counted_from(self.at_s, &format!("time after {}", text::date(self.at_s)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_since_1970_are_shown_from_the_first_second_of_the_run_on() {
        let zero = Zero::of(Some(1_744_611_915.126), None);
        insta::assert_snapshot!(zero.moment(1_744_611_931.1), @"16.1 s");
        insta::assert_snapshot!(zero.dated_span(1_744_611_915.25, 1_744_611_968.2), @"0.25 s to 53.2 s after 2025-04-14 06:25:15 UTC");
        let axis = zero.axis(1_744_611_916.0, 1_744_611_956.0);
        insta::assert_snapshot!(axis.label, @"time after 2025-04-14 06:25:15 UTC (s)");
        assert_eq!(
            axis.ticks(4).iter().map(|tick| tick.label.as_str()).collect::<Vec<_>>(),
            ["10", "20", "30", "40"]
        );
        assert_eq!(axis.ticks(4)[0].value, 1_744_611_925.0);
    }

    #[test]
    fn the_run_starts_when_its_job_does() {
        let moment = |job_unix_s| Zero::of(Some(1_744_611_915.126), job_unix_s).moment(1_744_611_931.1);
        assert_eq!(moment(Some(1_744_611_912.0)), "19.1 s");
        // It cannot begin after its first event, nor years before.
        assert_eq!([Some(1_744_611_916.0), Some(1e9), Some(f64::NAN)].map(moment), ["16.1 s"; 3]);
    }

    #[test]
    fn a_clock_that_begins_with_the_run_or_the_machine_is_left_as_it_is() {
        for first_s in [None, Some(0.0), Some(-3.0), Some(2.5e7), Some(f64::INFINITY), Some(f64::NAN)] {
            assert_eq!(Zero::of(first_s, Some(1_744_611_912.0)), Zero::default());
        }
        insta::assert_snapshot!(Zero::of(Some(3.0), None).dated_span(3.0, 8.5), @"3 s to 8.5 s");
        insta::assert_snapshot!(Zero::of(Some(3.0), None).axis(3.0, 8.5).label, @"time (s)");
    }
}
