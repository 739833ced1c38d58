//! Whether the buffer has room for what is to come.

use super::forecast::Forecast;

/// Phases are looked ahead at.
const N_PHASES: usize = 8;
/// Phases are taken to be larger than expected by this factor.
const SAFETY: f64 = 1.1;

/// State of the buffer, and the expected time to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outlook {
    pub(super) now_s: f64,
    pub(super) used_bytes: f64,
    /// A rate that data moves at nearly always, where known.
    pub(super) rate_bps: Option<f64>,
    /// The rhythm, and when its next phase begins.
    pub(super) next: Option<(Forecast, f64)>,
    /// Of the phase that goes on: when it began and what it moved so far.
    pub(super) phase: Option<(f64, f64)>,
}

/// Data that has to be moved although the job does I/O.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Deficit {
    pub(super) bytes: f64,
    /// How long phases last in all before it is too late; 0 if it is.
    pub(super) busy_s: f64,
}

/// A phase to come, or the rest of the one that goes on.
struct Ahead {
    start_s: f64,
    bytes: f64,
    duration_s: f64,
    /// Idle and busy time before it.
    idle_s: f64,
    busy_s: f64,
}

impl Outlook {
    /// The most that phases need beyond what fits under `limit_bytes` and can be moved in gaps before; may be negative.
    pub(super) fn deficit(&self, limit_bytes: f64) -> Deficit {
        let mut total_bytes = self.used_bytes;
        let mut worst = Deficit { bytes: self.used_bytes - limit_bytes, busy_s: 0.0 };
        // What will be moved is unknown before anything was.
        let Some(rate_bps) = self.rate_bps else { return worst };
        for ahead in self.ahead() {
            total_bytes += ahead.bytes;
            let too_much_bytes = (total_bytes - limit_bytes).max(0.0);
            let bytes = too_much_bytes - rate_bps * ahead.idle_s;
            if bytes > worst.bytes {
                worst = Deficit { bytes, busy_s: ahead.busy_s };
            }
        }
        worst
    }

    /// When the buffer is full if data is moved in gaps alone, as far as one can see.
    pub(super) fn full_at_s(&self, capacity_bytes: f64) -> Option<f64> {
        if self.used_bytes >= capacity_bytes {
            return Some(self.now_s);
        }
        let mut level_bytes = self.used_bytes;
        let mut idle_s = 0.0;
        for ahead in self.ahead() {
            let moved_bytes = self.rate_bps.unwrap_or(0.0) * (ahead.idle_s - idle_s);
            idle_s = ahead.idle_s;
            level_bytes = (level_bytes - moved_bytes).max(0.0);
            let bytes = ahead.bytes / SAFETY;
            let room_bytes = capacity_bytes - level_bytes;
            if bytes > 0.0 && room_bytes <= bytes {
                return Some(ahead.start_s + ahead.duration_s * room_bytes / bytes);
            }
            level_bytes += bytes;
        }
        None
    }

    fn ahead(&self) -> Vec<Ahead> {
        let Some((forecast, first_s)) = self.next else { return Vec::new() };
        let phase_bytes = SAFETY * forecast.bytes;
        let mut list = Vec::with_capacity(N_PHASES + 1);
        let mut end_s = self.now_s;
        if let Some((start_s, bytes)) = self.phase {
            let duration_s = (start_s + forecast.duration_s - self.now_s).max(0.0);
            let bytes = (phase_bytes - bytes).max(0.0);
            list.push(Ahead { start_s: self.now_s, bytes, duration_s, idle_s: 0.0, busy_s: duration_s });
            end_s += duration_s;
        }
        let (mut idle_s, mut quiet_s) = (0.0, 0.0);
        for k in 0..N_PHASES {
            let start_s = (first_s + k as f64 * forecast.period_s).max(end_s);
            quiet_s += start_s - end_s;
            idle_s += (start_s - end_s) * forecast.idle_probability;
            let busy_s = start_s - self.now_s - quiet_s;
            let duration_s = forecast.duration_s;
            list.push(Ahead { start_s, bytes: phase_bytes, duration_s, idle_s, busy_s });
            end_s = start_s + duration_s;
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// `D = max_k(M_k − R·I_k)` with `M_k = max(0, U + Σ_{j≤k} b_j − H·C)`, in a gap, as it is written down.
        #[test]
        fn the_deficit_is_that_of_its_definition(
            used in 0.0..100f64, limit in 1.0..200f64, rate in 0.0..5f64, left_s in 0.0..50f64,
            duration_s in 0.0..20f64, gap_s in 0.1..50f64, bytes in 0.0..50f64, probability in 0.0..=1f64,
        ) {
            let forecast = Forecast {
                at_s: 0.0, confidence: 1.0, period_s: duration_s + gap_s, start_s: left_s,
                start_interval_s: (left_s, left_s), bytes, duration_s, idle_probability: probability,
            };
            let outlook = Outlook {
                now_s: 0.0, used_bytes: used, rate_bps: Some(rate), next: Some((forecast, left_s)), phase: None,
            };
            let definition = (1..=8)
                .map(|k| {
                    let m = (used + f64::from(k) * 1.1 * bytes - limit).max(0.0);
                    let i = (left_s + f64::from(k - 1) * gap_s) * probability;
                    m - rate * i
                })
                .fold(used - limit, f64::max);
            let deficit = outlook.deficit(limit);
            prop_assert!((deficit.bytes - definition).abs() < 1e-9 * (1.0 + definition.abs()));
            // What lies above the limit is too much even if nothing comes; nothing beside the job can help before.
            prop_assert!(deficit.bytes >= used - limit);
            prop_assert!(deficit.busy_s <= 7.0 * duration_s + 1e-6);
        }
    }
}
