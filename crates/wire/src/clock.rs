//! Ticks → nanoseconds, from the pairs that blocks carry.

/// Unit of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ClockKind {
    /// Nanoseconds of the system's monotonic clock.
    MonotonicNanos = 0,
    /// A cycle counter of constant but unstated rate.
    CycleCounter = 1,
}

impl ClockKind {
    /// The kind of that code.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::MonotonicNanos),
            1 => Some(Self::CycleCounter),
            _ => None,
        }
    }
}

/// Turns a stream's ticks into nanoseconds of its host's monotonic clock.
///
/// Every block header holds one pair of tick and nanosecond, read when the block was sealed. A time is reckoned back from
/// the block it came in, with the rate between that block and one at least [`ClockMap::BASE_NANOS`] earlier, where there is
/// one: a rate that is wrong by 10^-5 then puts a call half a second before its block wrong by 5 µs.
#[derive(Clone, Debug)]
pub struct ClockMap {
    kind: ClockKind,
    /// The pair that rates are measured from.
    base: Option<Pair>,
    /// The pair that becomes the base once it is old enough.
    next_base: Option<Pair>,
    newest: Option<Pair>,
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    ticks: u64,
    nanos: u64,
}

impl ClockMap {
    /// How far apart two pairs must be for the rate between them to be kept in preference to an older one.
    pub const BASE_NANOS: u64 = 10_000_000_000;

    /// Returns a map that knows no pair yet.
    pub fn new(kind: ClockKind) -> Self {
        Self { kind, base: None, next_base: None, newest: None }
    }

    /// Takes a block's pair. Blocks of several threads may come a little out of order; an older pair is left out.
    pub fn pair(&mut self, ticks: u64, nanos: u64) {
        let pair = Pair { ticks, nanos };
        let base = *self.base.get_or_insert(pair);
        match self.newest {
            Some(newest) if nanos < newest.nanos || ticks < newest.ticks => return,
            _ => self.newest = Some(pair),
        }
        match self.next_base {
            None if nanos - base.nanos >= Self::BASE_NANOS => self.next_base = Some(pair),
            Some(next) if nanos - next.nanos >= Self::BASE_NANOS => {
                self.base = Some(next);
                self.next_base = Some(pair);
            }
            _ => {}
        }
    }

    /// Returns the monotonic time of `ticks`, or `None` before there are two different pairs to tell the rate.
    pub fn nanos(&self, ticks: u64) -> Option<i64> {
        let newest = self.newest?;
        let nanos = match self.kind {
            ClockKind::MonotonicNanos => i128::from(ticks),
            ClockKind::CycleCounter => {
                let base = self.base?;
                let d_ticks = i128::from(newest.ticks) - i128::from(base.ticks);
                let d_nanos = i128::from(newest.nanos) - i128::from(base.nanos);
                if d_ticks <= 0 || d_nanos <= 0 {
                    return None;
                }
                // |ticks difference| < 2^64 and d_nanos < 2^64, so the product fits.
                let since_newest = i128::from(ticks) - i128::from(newest.ticks);
                i128::from(newest.nanos) + (since_newest.checked_mul(d_nanos)?).div_euclid(d_ticks)
            }
        };
        i64::try_from(nanos).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_counter_of_three_gigahertz_is_followed_as_its_rate_drifts() {
        let mut map = ClockMap::new(ClockKind::CycleCounter);
        map.pair(1_000, 5_000_000_000);
        assert_eq!(map.nanos(2_000), None, "one pair tells no rate");
        let mut ticks = 1_000;
        for second in 1..100u64 {
            let ticks_per_second = 3_000_000_000 + second * 10_000; // 3 ppm faster every second
            ticks += ticks_per_second;
            map.pair(ticks, 5_000_000_000 + second * 1_000_000_000);
            let half_a_second_ago = map.nanos(ticks - ticks_per_second / 2).unwrap();
            let wrong_by = half_a_second_ago - (4_500_000_000 + second as i64 * 1_000_000_000);
            assert!(wrong_by.abs() < 40_000, "second {second}: {wrong_by} ns");
        }
    }

    proptest! {
        #[test]
        fn any_pairs_and_any_ticks_are_survived(pairs in prop::collection::vec(any::<(u64, u64)>(), 0..20), ticks in any::<u64>()) {
            let mut map = ClockMap::new(ClockKind::CycleCounter);
            for (t, n) in pairs {
                map.pair(t, n);
                let _ = map.nanos(ticks);
            }
        }
    }
}
