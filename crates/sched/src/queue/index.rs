//! Where a job is in the queue's list, by its number.

use super::JobId;

/// A table from jobs' numbers to places, looked into three times for each request.
///
/// Open addressing, at most half full, one multiplication to spread a number over the table (Fibonacci hashing), and no
/// markers of what was removed. The table of the standard library is faster when it is large and misses; this one when
/// it is small and hits, which is what a queue does. Whoever may choose job numbers to collide may send requests in any
/// number, too.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// Number and place; a power of two of them.
    entries: Vec<(u64, u32)>,
    n_jobs: usize,
}

/// No queue has as many jobs.
const FREE: u32 = u32::MAX;

impl Index {
    pub(super) fn new() -> Self {
        Self { entries: vec![(0, FREE); 16], n_jobs: 0 }
    }

    #[inline]
    pub(super) fn get(&self, job: JobId) -> Option<usize> {
        let (_, place) = self.entries[self.find(job)];
        (place != FREE).then_some(place as usize)
    }

    /// Notes where a job is that was not there before.
    pub(super) fn insert(&mut self, job: JobId, place: usize) {
        if 2 * (self.n_jobs + 1) > self.entries.len() {
            let twice = vec![(0, FREE); 2 * self.entries.len()];
            for (number, place) in std::mem::replace(&mut self.entries, twice) {
                if place != FREE {
                    let at = self.find(JobId(number));
                    self.entries[at] = (number, place);
                }
            }
        }
        let at = self.find(job);
        self.entries[at] = (job.0, u32::try_from(place).expect("jobs are counted in 32 bits"));
        self.n_jobs += 1;
    }

    pub(super) fn remove(&mut self, job: JobId) -> Option<usize> {
        let mut hole = self.find(job);
        let (_, place) = self.entries[hole];
        if place == FREE {
            return None;
        }
        self.n_jobs -= 1;
        // Whoever was pushed further by the one that goes moves up.
        let mask = self.entries.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let (number, other) = self.entries[at];
            if other == FREE {
                break;
            }
            let home = self.home(number);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.entries[hole] = (number, other);
                hole = at;
            }
        }
        self.entries[hole] = (0, FREE);
        Some(place as usize)
    }

    /// All places, in no particular order.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        self.entries.iter().filter(|entry| entry.1 != FREE).map(|&(_, place)| place as usize)
    }

    /// The entry of a job, or the free one where it would be.
    #[inline]
    fn find(&self, job: JobId) -> usize {
        let mask = self.entries.len() - 1;
        let mut at = self.home(job.0);
        loop {
            let (number, place) = self.entries[at];
            if number == job.0 || place == FREE {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    fn home(&self, number: u64) -> usize {
        // The highest bits are the best mixed.
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.entries.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((any::<bool>(), 0..60u64), 0..600), spread in 1..1u64 << 40) {
            let (mut index, mut map) = (Index::new(), HashMap::new());
            for (place, (is_new, number)) in steps.into_iter().enumerate() {
                let job = JobId(number * spread);
                if is_new && index.get(job).is_none() {
                    index.insert(job, place);
                    map.insert(job, place);
                } else {
                    prop_assert_eq!(index.remove(job), map.remove(&job));
                }
                for (&job, &place) in &map {
                    prop_assert_eq!(index.get(job), Some(place));
                }
                prop_assert_eq!(index.places().count(), map.len());
            }
        }
    }
}
