//! How much a job moves a second.

/// Bytes of the last few seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    by_second: [u64; Meter::N_SECONDS],
    second: u64,
}

impl Meter {
    const N_SECONDS: usize = 5;

    pub(crate) fn add(&mut self, now_s: f64, bytes: u64) {
        self.turn_to(now_s as u64);
        self.by_second[self.second as usize % Self::N_SECONDS] += bytes;
    }

    pub(crate) fn rate_bps(mut self, now_s: f64) -> f64 {
        self.turn_to(now_s as u64);
        // The current second is not over.
        let seconds = (Self::N_SECONDS - 1) as f64 + now_s.fract();
        self.by_second.iter().sum::<u64>() as f64 / seconds.min(now_s.max(1.0))
    }

    fn turn_to(&mut self, second: u64) {
        let n_new = second.saturating_sub(self.second).min(Self::N_SECONDS as u64);
        for index in 1..=n_new {
            self.by_second[(second - n_new + index) as usize % Self::N_SECONDS] = 0;
        }
        self.second = self.second.max(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_tells_the_rate_of_late() {
        let mut meter = Meter::default();
        for tenth in 0..100 {
            meter.add(f64::from(tenth) / 10.0, 10);
        }
        assert!((meter.rate_bps(9.95) - 100.0).abs() < 3.0, "{}", meter.rate_bps(9.95));
        assert_eq!(meter.rate_bps(16.0), 0.0);
    }
}
