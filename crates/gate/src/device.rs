//! A storage device of a stated bandwidth, to try a policy out where the real one is faster.
//!
//! A token bucket: each request occupies the device for its bytes over the bandwidth, one after the other in the order
//! they are let through, and is answered when that time is over. It does not make the backing store slower, nor faster
//! than it is; it adds what a slower one would have taken.

use iotide_wire::GateRule;

use crate::asker::Extent;

/// The clocks of a device, or of several with the stripes of each file round robin.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    bandwidth_bps: f64,
    free_at_s: Vec<f64>,
}

/// A device that was idle no longer than this counts as busy throughout: a real one has a queue of its own, and would
/// not have stood still for as long as it takes this program to wake up.
const SLACK_S: f64 = 0.010;

/// How much of a file lies at one device before the next.
const STRIPE: u64 = 1 << 20;

impl Device {
    pub(crate) fn new(bandwidth_bps: f64, n_devices: usize) -> Self {
        Self { bandwidth_bps, free_at_s: vec![f64::NEG_INFINITY; n_devices.max(1)] }
    }

    /// Occupies the devices with a request that begins now, and returns when they are through with it.
    pub(crate) fn occupy(&mut self, extent: Extent, now_s: f64) -> f64 {
        let rule = GateRule { prefix: b"", first: 0, n_targets: self.free_at_s.len(), stripe: STRIPE };
        let mut through_at_s = now_s;
        for (n, free_at_s) in self.free_at_s.iter_mut().enumerate() {
            let bytes = rule.share(n, extent.position, extent.bytes);
            if bytes > 0 {
                let begins_s = if now_s - *free_at_s <= SLACK_S { *free_at_s } else { now_s };
                *free_at_s = begins_s + bytes as f64 / self.bandwidth_bps;
                through_at_s = through_at_s.max(*free_at_s);
            }
        }
        through_at_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_the_start(bytes: u64) -> Extent {
        Extent { position: 0, bytes }
    }

    #[test]
    fn requests_one_after_the_other_take_what_the_bandwidth_says() {
        let mut device = Device::new(100e6, 1);
        let mut now_s = 5.0;
        for _ in 0..1000 {
            // Whoever waits wakes up a little late, and still gets the full bandwidth.
            now_s = device.occupy(from_the_start(1_000_000), now_s) + 0.002;
        }
        let took_s = now_s - 5.0;
        assert!((took_s - 10.0).abs() < 0.02, "{took_s}");
    }

    #[test]
    fn requests_at_the_same_time_wait_for_each_other() {
        let mut device = Device::new(100e6, 1);
        let first_s = device.occupy(from_the_start(50_000_000), 1.0);
        assert!((device.occupy(from_the_start(50_000_000), 1.0) - first_s - 0.5).abs() < 1e-12);
    }

    #[test]
    fn time_that_was_not_used_is_not_saved_up() {
        let mut device = Device::new(100e6, 1);
        device.occupy(from_the_start(1), 0.0);
        assert_eq!(device.occupy(from_the_start(100_000_000), 60.0), 61.0);
    }

    #[test]
    fn stripes_of_a_request_are_served_beside_each_other() {
        let mut devices = Device::new((1 << 20) as f64, 2);
        assert_eq!(devices.occupy(from_the_start(4 << 20), 0.0), 2.0);
        // The next stripe lies at the first, where another request is before it.
        assert_eq!(devices.occupy(Extent { position: 4 << 20, bytes: 1 << 20 }, 0.0), 3.0);
        assert_eq!(devices.occupy(Extent { position: 5 << 20, bytes: 1 << 20 }, 0.0), 3.0);
    }
}
