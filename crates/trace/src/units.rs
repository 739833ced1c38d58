//! Time, with its unit and origin in every name.

/// A moment on a trace's own clock, in nanoseconds since that clock's zero.
///
/// The zero is whatever the source chose (job start for most tracers, the Unix epoch for some): only differences
/// mean something. Signed, because a clock correction may put an early event before zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The longest time either side of zero that a trace may name: 146 years, half of what `i64` holds, so that the
    /// difference of any two timestamps exists.
    const LIMIT_NANOS: i64 = i64::MAX / 2;

    /// The last moment there is.
    pub const MAX: Self = Self(Self::LIMIT_NANOS);

    /// Returns the moment `nanos` after the clock's zero, held to ±146 years.
    #[inline]
    pub fn from_nanos_since_start(nanos: i64) -> Self {
        Self(nanos.clamp(-Self::LIMIT_NANOS, Self::LIMIT_NANOS))
    }

    /// Returns the moment `secs` after the clock's zero, or `None` if that is no time (NaN, infinite, beyond 146 years).
    #[inline]
    pub fn from_secs_since_start(secs: f64) -> Option<Self> {
        let nanos = secs * 1e9;
        // NaN fails the comparison and is refused with the rest.
        (nanos.abs() <= Self::LIMIT_NANOS as f64).then(|| {
            // `round` is a call into the C library where the processor is not known to round.
            let whole = nanos as i64;
            let rest = nanos - whole as f64;
            Self(whole + i64::from(rest >= 0.5) - i64::from(rest <= -0.5))
        })
    }

    /// Nanoseconds since the clock's zero.
    #[inline]
    pub fn as_nanos(self) -> i64 {
        self.0
    }

    /// Seconds since the clock's zero: the nearest `f64` for clocks of up to 100 days, and good to a microsecond for
    /// those that count from the Unix epoch.
    #[inline]
    pub fn as_secs(self) -> f64 {
        const EXACT: i64 = 1 << 53;
        if self.0.abs() < EXACT {
            return self.0 as f64 / 1e9;
        }
        // Split so that whole seconds do not cost the fraction its digits.
        (self.0.div_euclid(1_000_000_000)) as f64 + self.0.rem_euclid(1_000_000_000) as f64 / 1e9
    }

    /// Seconds from `earlier` to `self`; negative if `earlier` is later.
    #[inline]
    pub fn secs_since(self, earlier: Self) -> f64 {
        (self.0 - earlier.0) as f64 * 1e-9
    }

    /// The moment `nanos` later.
    #[inline]
    pub fn plus_nanos(self, nanos: i64) -> Self {
        Self::from_nanos_since_start(self.0.saturating_add(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_does_not_exist_is_refused() {
        for secs in [f64::NAN, f64::INFINITY, -1e300, 1e10] {
            assert_eq!(Timestamp::from_secs_since_start(secs), None, "{secs}");
        }
    }

    #[test]
    fn seconds_are_the_nearest_number() {
        for secs in [0.001669, 417.423194, -0.3] {
            assert_eq!(Timestamp::from_secs_since_start(secs).unwrap().as_secs(), secs);
        }
    }

    #[test]
    fn halves_of_a_nanosecond_go_away_from_zero() {
        let below_half = 0.5_f64.next_down();
        for nanos in [0.0, below_half, 0.5, 0.75, 1.5, 2.5, 4_503_599_627_370_497.0, 4e18] {
            for nanos in [nanos, -nanos] {
                let secs = nanos / 1e9;
                let found = Timestamp::from_secs_since_start(secs).unwrap();
                assert_eq!(found.as_nanos(), (secs * 1e9).round() as i64, "{nanos}");
            }
        }
    }

    #[test]
    fn seconds_survive_a_round_trip_to_the_nanosecond() {
        for secs in [0.0, 0.05309, -2.5, 79.15666212, 1.7e9] {
            let there = Timestamp::from_secs_since_start(secs).unwrap();
            assert!((there.as_secs() - secs).abs() < 5e-7, "{secs}");
        }
    }
}
