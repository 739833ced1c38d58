//! Bytes belong to the time in which they were moved, and are counted when the call is over.
//!
//! A call that is held up (by an arbiter, by a slow storage) ends long after it began. Taken for moved at its end, the bytes of a phase come in lumps, whose
//! distance is a rhythm of the turns and not of the job. So the last seconds wait, as long as calls of the job take, until one knows what was going on
//! in them.

use std::collections::VecDeque;

use iotide_ledger::Cell;

/// What was moved in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub bytes: f64,
}

/// The last stretches of a job.
#[derive(Debug, Default)]
pub(super) struct Late {
    waiting: VecDeque<Stretch>,
    /// How long a stretch waits.
    hold_s: f64,
}

impl Late {
    /// Nobody waits longer: who moves data every minute is to be predicted in time.
    const LONGEST_S: f64 = 5.0;
    /// How much shorter the wait becomes with each stretch, of a tenth of a second: by half in a minute.
    const FADES: f64 = 0.999;

    /// Adds a stretch, in which calls ended that took so long and moved so much; returns those of which nothing more is to be learnt.
    pub fn add(&mut self, from_ns: u64, to_ns: u64, ended: Cell) -> Vec<Stretch> {
        let call_s = match ended.calls {
            0 => 0.0,
            calls => (ended.ns as f64 / 1e9 / calls as f64).min(Self::LONGEST_S),
        };
        self.hold_s = call_s.max(self.hold_s * Self::FADES);
        self.waiting.push_back(Stretch { from_ns, to_ns, bytes: 0.0 });
        let since_ns = to_ns.saturating_sub((call_s * 1e9) as u64).min(from_ns);
        let during = |stretch: &&mut Stretch| stretch.to_ns > since_ns;
        let all_ns: u64 =
            self.waiting.iter_mut().rev().take_while(during).map(|it| it.to_ns - it.from_ns).sum();
        for stretch in self.waiting.iter_mut().rev().take_while(during) {
            stretch.bytes +=
                ended.bytes as f64 * (stretch.to_ns - stretch.from_ns) as f64 / all_ns.max(1) as f64;
        }
        let until_ns = to_ns.saturating_sub((self.hold_s * 1e9) as u64);
        let n_known = match self.hold_s * 1e9 {
            // Calls that end within the stretch they began in: there is nothing to wait for.
            hold_ns if hold_ns <= (to_ns - from_ns) as f64 => self.waiting.len(),
            _ => self.waiting.iter().take_while(|stretch| stretch.to_ns <= until_ns).count(),
        };
        self.waiting.drain(..n_known).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: u64 = 100_000_000;

    fn ended(calls: u64, bytes: u64, seconds: f64) -> Cell {
        Cell { calls, bytes, ns: (seconds * 1e9) as u64 }
    }

    #[test]
    fn short_calls_are_known_at_once() {
        let mut late = Late::default();
        for n in 0..50 {
            let cell = ended(10, 1000, 0.05);
            let known = late.add(n * TENTH, (n + 1) * TENTH, cell);
            assert_eq!(known, [Stretch { from_ns: n * TENTH, to_ns: (n + 1) * TENTH, bytes: 1000.0 }]);
        }
    }

    #[test]
    fn what_long_calls_move_is_spread_over_the_time_they_took_and_nothing_is_lost() {
        let mut late = Late::default();
        let mut known = Vec::new();
        let mut n_bytes = 0;
        for n in 0..200u64 {
            // A call of a second ends every second.
            let cell = if n % 10 == 9 { ended(1, 1000, 1.0) } else { Cell::default() };
            n_bytes += cell.bytes;
            known.extend(late.add(n * TENTH, (n + 1) * TENTH, cell));
        }
        assert!(known.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns), "in order, and without a gap");
        let waiting: f64 = late.waiting.iter().map(|stretch| stretch.bytes).sum();
        let sum: f64 = known.iter().map(|stretch| stretch.bytes).sum();
        assert!((sum + waiting - n_bytes as f64).abs() < 1e-6);
        // All but the first call, of which nobody knew how long it would take, are even.
        let even = &known[10..];
        assert!(
            even.len() > 150 && even.iter().all(|stretch| (stretch.bytes - 100.0).abs() < 1e-6),
            "{even:?}"
        );
    }
}
