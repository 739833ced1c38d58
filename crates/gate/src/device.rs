//! A storage device of a stated bandwidth, to try a policy out where the real one is faster.
//!
//! A token bucket: each request occupies the device for its bytes over the bandwidth, one after the other in the order
//! they are let through, and is answered when that time is over. It does not make the backing store slower, nor faster
//! than it is; it adds what a slower one would have taken.

/// The device's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    bandwidth_bps: f64,
    free_at_s: f64,
}

/// A device that was idle no longer than this counts as busy throughout: a real one has a queue of its own, and would
/// not have stood still for as long as it takes this program to wake up.
const SLACK_S: f64 = 0.010;

impl Device {
    pub(crate) fn new(bandwidth_bps: f64) -> Self {
        Self { bandwidth_bps, free_at_s: f64::NEG_INFINITY }
    }

    /// Occupies the device with a request that begins now, and returns when it is through.
    pub(crate) fn occupy(&mut self, bytes: u64, now_s: f64) -> f64 {
        let begins_s = if now_s - self.free_at_s <= SLACK_S { self.free_at_s } else { now_s };
        self.free_at_s = begins_s + bytes as f64 / self.bandwidth_bps;
        self.free_at_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_one_after_the_other_take_what_the_bandwidth_says() {
        let mut device = Device::new(100e6);
        let mut now_s = 5.0;
        for _ in 0..1000 {
            // Whoever waits wakes up a little late, and still gets the full bandwidth.
            now_s = device.occupy(1_000_000, now_s) + 0.002;
        }
        let took_s = now_s - 5.0;
        assert!((took_s - 10.0).abs() < 0.02, "{took_s}");
    }

    #[test]
    fn requests_at_the_same_time_wait_for_each_other() {
        let mut device = Device::new(100e6);
        let first_s = device.occupy(50_000_000, 1.0);
        assert!((device.occupy(50_000_000, 1.0) - first_s - 0.5).abs() < 1e-12);
    }

    #[test]
    fn time_that_was_not_used_is_not_saved_up() {
        let mut device = Device::new(100e6);
        device.occupy(1, 0.0);
        assert_eq!(device.occupy(100_000_000, 60.0), 61.0);
    }
}
