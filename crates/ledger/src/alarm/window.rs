//! How fast a value grows.

use std::collections::VecDeque;

/// The last values of a counter.
#[derive(Clone, Debug, Default)]
pub struct Window(VecDeque<(u64, f64)>);

impl Window {
    /// Rates are over this time, as `iotide top` shows them.
    pub const SPAN_NS: u64 = 10_000_000_000;

    /// Takes the value at a time, and returns the rate per second since ten seconds ago, or since the first value; `None` before there are two.
    ///
    /// A counter that falls has begun anew.
    pub fn push(&mut self, at_ns: u64, value: f64) -> Option<f64> {
        let values = &mut self.0;
        if values.back().is_some_and(|(last_ns, last)| value < *last || at_ns <= *last_ns) {
            values.clear();
        }
        values.push_back((at_ns, value));
        while values.get(1).is_some_and(|(second_ns, _)| at_ns - second_ns >= Self::SPAN_NS) {
            values.pop_front();
        }
        let (first_ns, first) = *values.front().filter(|_| values.len() > 1)?;
        Some((value - first) / ((at_ns - first_ns) as f64 / 1e9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_over_ten_seconds_and_never_negative() {
        let mut window = Window::default();
        let second = |n: u64| n * 1_000_000_000;
        assert_eq!(window.push(second(100), 0.0), None);
        assert_eq!(window.push(second(101), 10.0), Some(10.0));
        for n in 102..200 {
            window.push(second(n), 10.0);
        }
        assert_eq!(window.push(second(200), 110.0), Some(10.0));
        assert!(window.0.len() <= 11);
        assert_eq!(window.push(second(201), 5.0), None, "it has begun anew");
        assert_eq!(window.push(second(203), 7.0), Some(1.0));
        assert_eq!(window.push(second(203), 9.0), None, "no time has passed");
        assert_eq!(window.push(second(400), 9.0), Some(0.0), "after a gap, over the gap");
    }
}
