//! Requests that go on beside the program → the phases in which any of them was under way.

use crate::{Event, Op, Rank, Timestamp};

/// One rank's non-blocking requests of one kind, from the first on an empty queue until all were done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AsyncPhase {
    /// Whether they read or wrote.
    pub op: Op,
    /// Whose they are.
    pub rank: Rank,
    /// When the first was handed over.
    pub start: Timestamp,
    /// When the program first began to wait for any of them; `end` if it never did.
    pub waited: Timestamp,
    /// When the last was seen to be done.
    pub end: Timestamp,
    /// Bytes they moved.
    pub bytes: f64,
    /// How many they were.
    pub n_requests: u64,
}

/// Gathers requests, in any order, into [`AsyncPhase`]s.
///
/// Joining two phases that touch is associative, so they are joined now and then on the way: memory grows with the number of
/// phases, not with that of the requests.
#[derive(Clone, Debug, Default)]
pub struct AsyncPhases {
    phases: Vec<AsyncPhase>,
    join_at: usize,
}

impl AsyncPhases {
    /// Fewer than this are not worth joining early.
    const FEW: usize = 1 << 12;

    /// Adds a request that the program began to wait for at `waited`. One that moves no data is none of ours.
    pub fn add(&mut self, event: &Event, waited: Timestamp) {
        if !event.op.moves_data() {
            return;
        }
        self.phases.push(AsyncPhase {
            op: event.op,
            rank: event.rank,
            start: event.start,
            waited: waited.clamp(event.start, event.end),
            end: event.end,
            bytes: event.bytes,
            n_requests: u64::from(event.calls),
        });
        if self.phases.len() > self.join_at.max(Self::FEW) {
            self.join();
            self.join_at = 2 * self.phases.len();
        }
    }

    /// Returns the phases by rank, operation and time.
    pub fn finish(mut self) -> Vec<AsyncPhase> {
        self.join();
        self.phases
    }

    fn join(&mut self) {
        // By everything: phases that are not joined come in an order of their own, not in that of the requests.
        self.phases.sort_by(|a, b| {
            let key = |phase: &AsyncPhase| (phase.rank, phase.op, phase.start, phase.end, phase.waited);
            (key(a).cmp(&key(b))).then(a.bytes.total_cmp(&b.bytes)).then(a.n_requests.cmp(&b.n_requests))
        });
        self.phases.dedup_by(|next, phase| {
            // A source that tells no ranks apart cannot say whose queue was empty: each of its requests stands alone.
            let is_one = next.rank != Rank::ALL
                && (next.rank, next.op) == (phase.rank, phase.op)
                && next.start < phase.end;
            if is_one {
                // Nobody waits for a phase before it ends unless for one of its requests.
                let waits = [(phase.waited, phase.end), (next.waited, next.end)];
                phase.end = phase.end.max(next.end);
                phase.waited = (waits.into_iter())
                    .filter(|(waited, end)| waited < end)
                    .map(|(waited, _)| waited)
                    .fold(phase.end, Timestamp::min);
                phase.bytes += next.bytes;
                phase.n_requests += next.n_requests;
            }
            is_one
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(rank: i32, start_ns: i64, end_ns: i64) -> Event {
        let at = Timestamp::from_nanos_since_start;
        Event::data(Op::Write, Rank(rank), at(start_ns), at(end_ns), 10.0)
    }

    /// Phases as (rank, start, first wait, end, requests), of requests (rank, start, wait, end).
    fn phases(requests: &[(i32, i64, i64, i64)]) -> Vec<(i32, i64, i64, i64, u64)> {
        let mut gathered = AsyncPhases::default();
        for &(rank, start, waited, end) in requests {
            gathered.add(&request(rank, start, end), Timestamp::from_nanos_since_start(waited));
        }
        let phases = gathered.finish().into_iter();
        phases
            .map(|p| (p.rank.0, p.start.as_nanos(), p.waited.as_nanos(), p.end.as_nanos(), p.n_requests))
            .collect()
    }

    #[test]
    fn a_phase_begins_on_an_empty_queue_and_ends_when_all_is_done() {
        let requests = [(0, 0, 7, 10), (0, 5, 10, 12), (0, 12, 13, 14), (1, 1, 2, 3)];
        assert_eq!(phases(&requests), [(0, 0, 7, 12, 2), (0, 12, 13, 14, 1), (1, 1, 2, 3, 1)]);
    }

    #[test]
    fn requests_found_done_are_not_waited_for() {
        assert_eq!(phases(&[(0, 0, 4, 4), (0, 2, 8, 9)]), [(0, 0, 8, 9, 2)]);
        assert_eq!(phases(&[(0, 0, 4, 4), (0, 2, 9, 9)]), [(0, 0, 9, 9, 2)]);
    }

    #[test]
    fn where_ranks_are_not_told_apart_each_request_is_a_phase() {
        assert_eq!(phases(&[(-1, 0, 7, 10), (-1, 5, 8, 9)]).len(), 2);
    }

    proptest! {
        #[test]
        fn the_order_of_requests_means_nothing(
            (one, other) in prop::collection::vec((-1..3i32, 0..60i64, 0..12i64, 0..12i64), 1..40)
                .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
            join_often in any::<bool>(),
        ) {
            let gathered = |requests: &[(i32, i64, i64, i64)]| {
                let mut gathered = AsyncPhases::default();
                for &(rank, start, len, wait) in requests {
                    let waited = Timestamp::from_nanos_since_start(start + wait);
                    gathered.add(&request(rank, start, start + len), waited);
                    if join_often {
                        gathered.join();
                    }
                }
                gathered.finish()
            };
            prop_assert_eq!(gathered(&one), gathered(&other));
        }
    }

    #[test]
    fn joining_on_the_way_changes_nothing() {
        // Chains of three, in an order that has nothing to do with time.
        let n = 3 * AsyncPhases::FEW as i64;
        let requests: Vec<_> = (0..n)
            .map(|i| i * 5167 % n)
            .map(|i| (0, 10 * i, 10 * i + 5, 10 * i + if i % 3 == 2 { 9 } else { 12 }))
            .collect();
        let phases = phases(&requests);
        assert_eq!(phases.len() as i64, n / 3);
        assert!(phases.iter().enumerate().all(|(i, phase)| {
            let start = 30 * i as i64;
            *phase == (0, start, start + 5, start + 29, 3)
        }));
    }
}
