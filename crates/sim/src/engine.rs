//! Order of events in time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Planned events: the earliest first, and of two at the same time the one that was planned first.
///
/// A run is its inputs: nothing depends on addresses, hashes or the machine's clock.
#[derive(Clone, Debug)]
pub(crate) struct Agenda<T> {
    planned: BinaryHeap<Reverse<Entry<T>>>,
    n_planned: u64,
}

impl<T> Agenda<T> {
    pub(crate) fn new() -> Self {
        Self { planned: BinaryHeap::new(), n_planned: 0 }
    }

    pub(crate) fn plan(&mut self, at_s: f64, what: T) {
        self.planned.push(Reverse(Entry { at_s, number: self.n_planned, what }));
        self.n_planned += 1;
    }

    pub(crate) fn next_s(&self) -> Option<f64> {
        self.planned.peek().map(|Reverse(entry)| entry.at_s)
    }

    pub(crate) fn pop(&mut self) -> Option<(f64, T)> {
        self.planned.pop().map(|Reverse(entry)| (entry.at_s, entry.what))
    }
}

#[derive(Clone, Debug)]
struct Entry<T> {
    at_s: f64,
    number: u64,
    what: T,
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at_s.total_cmp(&other.at_s).then(self.number.cmp(&other.number))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_equals_come_as_planned() {
        let mut agenda = Agenda::new();
        for (at_s, what) in [(3.0, 'd'), (1.0, 'a'), (2.0, 'b'), (2.0, 'c')] {
            agenda.plan(at_s, what);
        }
        assert_eq!(agenda.next_s(), Some(1.0));
        let order: String = std::iter::from_fn(|| agenda.pop()).map(|(_, what)| what).collect();
        assert_eq!(order, "abcd");
    }
}
