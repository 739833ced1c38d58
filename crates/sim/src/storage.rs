//! Shared storage, twice: as a fluid that sets of jobs divide among them, and as a device that requests share.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use iotide_sched::{Placement, SetId};

/// A bandwidth that is divided among sets by priority, and inside a set by turns.
///
/// Generalised processor sharing with one clock for all sets (Parekh & Gallager, 1993): while a set is active it is served
/// `priority` bytes for each unit of virtual time, so when its first job will be done is known in that time and does not
/// change as other sets come and go. A job comes or goes in O(log n).
#[derive(Clone, Debug)]
pub(crate) struct Fluid {
    capacity_bps: f64,
    leak: f64,
    now_s: f64,
    virtual_now: f64,
    priorities: f64,
    sets: Vec<Set>,
    free: Vec<usize>,
    set_of: HashMap<SetId, usize>,
    /// When the next job of each active set will be done, in virtual time.
    next: BTreeSet<(u64, usize)>,
}

/// How the jobs of a set divide what it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// All at once, by weight.
    Shared,
    /// The one with the lowest key; the others have what leaks.
    Turns,
}

/// A job's I/O phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) job: usize,
    pub(crate) bytes: f64,
    /// Its place among the others of its set; unique there.
    pub(crate) key: u64,
    /// Its share of what several have at once, against the others' weights.
    pub(crate) weight: f64,
}

#[derive(Clone, Debug)]
struct Set {
    id: SetId,
    priority: f64,
    inside: Inside,
    /// The one whose turn it is, and what it has left.
    head: Option<(Transfer, f64)>,
    /// All others, by key, with the local time at which each will be done.
    others: BTreeMap<u64, (Transfer, f64)>,
    by_end: BTreeSet<(u64, u64)>,
    /// Bytes served to each of the others per weight.
    local_now: f64,
    weights: f64,
    seen: f64,
    next: u64,
}

impl Fluid {
    /// `leak` is the share of a set's bandwidth that goes to those whose turn it is not; in [0, 1).
    pub(crate) fn new(capacity_bps: f64, leak: f64) -> Self {
        Self {
            capacity_bps,
            leak,
            now_s: 0.0,
            virtual_now: 0.0,
            priorities: 0.0,
            sets: Vec::new(),
            free: Vec::new(),
            set_of: HashMap::new(),
            next: BTreeSet::new(),
        }
    }

    /// A phase begins.
    pub(crate) fn start(&mut self, now_s: f64, transfer: Transfer, placement: Placement, inside: Inside) {
        self.advance(now_s);
        let at = match self.set_of.get(&placement.set) {
            Some(&at) => {
                self.next.remove(&(self.sets[at].next, at));
                self.serve(at);
                at
            }
            None => self.open(placement, inside),
        };
        let leak = self.leak;
        let set = &mut self.sets[at];
        match set.head {
            _ if set.inside == Inside::Shared => set.add(transfer, transfer.bytes),
            None => set.head = Some((transfer, transfer.bytes)),
            Some((head, left)) if transfer.key < head.key => {
                set.head = Some((transfer, transfer.bytes));
                set.add(head, left);
            }
            Some(_) => set.add(transfer, transfer.bytes),
        }
        set.foresee(self.virtual_now, leak);
        self.next.insert((set.next, at));
    }

    /// From now on so much is divided.
    pub(crate) fn set_capacity(&mut self, now_s: f64, capacity_bps: f64) {
        self.advance(now_s);
        self.capacity_bps = capacity_bps;
    }

    /// A phase is broken off.
    pub(crate) fn abort(&mut self, now_s: f64, set: SetId, key: u64) {
        self.advance(now_s);
        let Some(&at) = self.set_of.get(&set) else { return };
        self.next.remove(&(self.sets[at].next, at));
        self.serve(at);
        let leak = self.leak;
        let set = &mut self.sets[at];
        if set.head.is_some_and(|(head, _)| head.key == key) {
            let next = set.others.keys().next().copied();
            set.head = next.and_then(|key| set.remove(key));
        } else {
            set.remove(key);
        }
        if set.head.is_none() && set.others.is_empty() {
            self.close(at);
        } else {
            set.foresee(self.virtual_now, leak);
            self.next.insert((set.next, at));
        }
    }

    /// When the next phase ends if none begins before.
    pub(crate) fn next_end_s(&self) -> Option<f64> {
        let &(next, _) = self.next.first()?;
        let ahead = (f64::from_bits(next) - self.virtual_now).max(0.0);
        Some(self.now_s + ahead * self.priorities / self.capacity_bps)
    }

    /// The phase that ends at [`Fluid::next_end_s`].
    pub(crate) fn finish(&mut self) -> Option<(f64, usize)> {
        let end_s = self.next_end_s()?;
        let (next, at) = self.next.pop_first()?;
        self.now_s = end_s;
        // Not by adding up: what is due at a time is then due exactly.
        self.virtual_now = self.virtual_now.max(f64::from_bits(next));
        self.serve(at);
        let leak = self.leak;
        let set = &mut self.sets[at];
        let job = set.take_done(leak);
        if set.head.is_none() && set.others.is_empty() {
            self.close(at);
        } else {
            set.foresee(self.virtual_now, leak);
            self.next.insert((set.next, at));
        }
        Some((end_s, job))
    }

    /// Calls `each` with every active job and its present rate. Linear in the number of jobs.
    pub(crate) fn rates(&self, mut each: impl FnMut(usize, f64)) {
        for &(_, at) in &self.next {
            let set = &self.sets[at];
            let rate_bps = self.capacity_bps * set.priority / self.priorities;
            let (of_head, of_others) = set.split(self.leak);
            if let Some((head, _)) = set.head {
                each(head.job, rate_bps * of_head);
            }
            for (transfer, _) in set.others.values() {
                each(transfer.job, rate_bps * of_others * transfer.weight / set.weights);
            }
        }
    }

    fn advance(&mut self, now_s: f64) {
        if self.priorities > 0.0 {
            self.virtual_now += (now_s - self.now_s).max(0.0) * self.capacity_bps / self.priorities;
        }
        self.now_s = now_s;
    }

    /// Brings a set up to the present.
    fn serve(&mut self, at: usize) {
        let leak = self.leak;
        let set = &mut self.sets[at];
        let served = (self.virtual_now - set.seen) * set.priority;
        set.seen = self.virtual_now;
        let (of_head, of_others) = set.split(leak);
        if let Some((_, left)) = &mut set.head {
            *left = (*left - served * of_head).max(0.0);
        }
        if set.weights > 0.0 {
            set.local_now += served * of_others / set.weights;
        }
    }

    fn open(&mut self, placement: Placement, inside: Inside) -> usize {
        let set = Set {
            id: placement.set,
            priority: placement.priority,
            inside,
            head: None,
            others: BTreeMap::new(),
            by_end: BTreeSet::new(),
            local_now: 0.0,
            weights: 0.0,
            seen: self.virtual_now,
            next: 0,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.sets[at] = set;
                at
            }
            None => {
                self.sets.push(set);
                self.sets.len() - 1
            }
        };
        self.set_of.insert(placement.set, at);
        self.add_priority(placement.priority);
        at
    }

    fn close(&mut self, at: usize) {
        self.set_of.remove(&self.sets[at].id);
        self.free.push(at);
        self.add_priority(-self.sets[at].priority);
        if self.next.is_empty() {
            self.priorities = 0.0;
            self.virtual_now = 0.0;
        }
    }

    /// Few sets are summed afresh: a high priority that comes and goes must not leave its rounding error behind.
    fn add_priority(&mut self, priority: f64) {
        self.priorities = if self.set_of.len() <= 16 {
            self.set_of.values().map(|&at| self.sets[at].priority).fold(0.0, |sum, priority| sum + priority)
        } else {
            self.priorities + priority
        };
    }
}

impl Set {
    fn add(&mut self, transfer: Transfer, left: f64) {
        let end = self.local_now + left / transfer.weight;
        self.weights += transfer.weight;
        self.others.insert(transfer.key, (transfer, end));
        self.by_end.insert((end.to_bits(), transfer.key));
    }

    fn remove(&mut self, key: u64) -> Option<(Transfer, f64)> {
        let (transfer, end) = self.others.remove(&key)?;
        self.by_end.remove(&(end.to_bits(), key));
        self.weights -= transfer.weight;
        let left = (end - self.local_now).max(0.0) * transfer.weight;
        if self.others.is_empty() {
            self.weights = 0.0;
            self.local_now = 0.0;
        }
        Some((transfer, left))
    }

    /// Returns the share of the set's bandwidth that the head has, and the share that the others have together.
    fn split(&self, leak: f64) -> (f64, f64) {
        match (&self.head, self.others.is_empty()) {
            (None, _) => (0.0, 1.0),
            (Some(_), true) => (1.0, 0.0),
            (Some(_), false) => (1.0 - leak, leak),
        }
    }

    /// Reckons when the next of its jobs will be done.
    fn foresee(&mut self, virtual_now: f64, leak: f64) {
        let (of_head, of_others) = self.split(leak);
        let head = self.head.map_or(f64::INFINITY, |(_, left)| left / of_head);
        let other = match self.by_end.first() {
            Some(&(end, _)) if of_others > 0.0 => {
                (f64::from_bits(end) - self.local_now).max(0.0) * self.weights / of_others
            }
            _ => f64::INFINITY,
        };
        self.next = (virtual_now + head.min(other) / self.priority).to_bits();
    }

    /// Takes out the job that is done, and hands its turn to the next.
    fn take_done(&mut self, leak: f64) -> usize {
        let (of_head, of_others) = self.split(leak);
        let head = self.head.map_or(f64::INFINITY, |(_, left)| left / of_head);
        let other = self.by_end.first().filter(|_| of_others > 0.0).map(|&(end, key)| {
            ((f64::from_bits(end) - self.local_now).max(0.0) * self.weights / of_others, key)
        });
        match (self.head, other) {
            (Some((done, _)), other) if other.is_none_or(|(other, _)| head <= other) => {
                let next = self.others.keys().next().copied();
                self.head = next.and_then(|key| self.remove(key));
                done.job
            }
            (_, Some((_, key))) => {
                let (done, _) = self.remove(key).expect("what has an end is there");
                done.job
            }
            (_, None) => unreachable!("a set without jobs has no end"),
        }
    }
}

/// A device that serves several requests at once, each as fast as the others.
///
/// Requests of one size end in the order they began, so those in service are a queue; a smaller one among them is put
/// where it belongs.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    capacity_bps: f64,
    s_per_byte: f64,
    now_s: f64,
    /// Bytes served to each request in service.
    served: f64,
    /// When each will be done, in what it will have been served by then; the first to end first.
    ends: VecDeque<(f64, usize)>,
}

impl Device {
    pub(crate) fn new(capacity_bps: f64) -> Self {
        Self { capacity_bps, s_per_byte: 1.0 / capacity_bps, now_s: 0.0, served: 0.0, ends: VecDeque::new() }
    }

    pub(crate) fn n_in_service(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn start(&mut self, now_s: f64, job: usize, bytes: f64) {
        self.advance(now_s);
        if self.ends.is_empty() {
            self.served = 0.0;
        }
        let end = self.served + bytes;
        match self.ends.back() {
            Some(&(last, _)) if end < last => {
                let at = self.ends.partition_point(|&(other, _)| other <= end);
                self.ends.insert(at, (end, job));
            }
            _ => self.ends.push_back((end, job)),
        }
    }

    pub(crate) fn next_end_s(&self) -> Option<f64> {
        let &(end, _) = self.ends.front()?;
        let left = end - self.served;
        // `f64::max` would heed NaN, too, at three times the cost.
        let left = if left > 0.0 { left } else { 0.0 };
        Some(self.now_s + left * self.ends.len() as f64 * self.s_per_byte)
    }

    pub(crate) fn finish(&mut self) -> Option<(f64, usize)> {
        let end_s = self.next_end_s()?;
        let (end, job) = self.ends.pop_front()?;
        self.served = end;
        self.now_s = end_s;
        Some((end_s, job))
    }

    fn advance(&mut self, now_s: f64) {
        if now_s == self.now_s {
            return;
        }
        if !self.ends.is_empty() {
            self.served += (now_s - self.now_s).max(0.0) * self.capacity_bps / self.ends.len() as f64;
        }
        self.now_s = now_s;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EVERYONE: Placement = Placement { set: SetId::Everyone, priority: 1.0 };

    fn transfer(job: usize, bytes: f64) -> Transfer {
        Transfer { job, bytes, key: job as u64, weight: 1.0 }
    }

    fn ends(fluid: &mut Fluid) -> Vec<(usize, f64)> {
        std::iter::from_fn(|| fluid.finish()).map(|(end_s, job)| (job, (end_s * 1e6).round() / 1e6)).collect()
    }

    #[test]
    fn two_that_share_take_twice_as_long() {
        let mut fluid = Fluid::new(10.0, 0.0);
        fluid.start(0.0, transfer(1, 100.0), EVERYONE, Inside::Shared);
        fluid.start(0.0, transfer(2, 50.0), EVERYONE, Inside::Shared);
        assert_eq!(ends(&mut fluid), [(2, 10.0), (1, 15.0)]);
    }

    #[test]
    fn by_turns_the_second_waits() {
        let mut fluid = Fluid::new(10.0, 0.0);
        fluid.start(0.0, transfer(1, 100.0), EVERYONE, Inside::Turns);
        fluid.start(1.0, transfer(2, 50.0), EVERYONE, Inside::Turns);
        assert_eq!(ends(&mut fluid), [(1, 10.0), (2, 15.0)]);
    }

    #[test]
    fn a_lower_key_takes_the_turn_over() {
        let mut fluid = Fluid::new(10.0, 0.0);
        fluid.start(0.0, transfer(2, 100.0), EVERYONE, Inside::Turns);
        fluid.start(5.0, transfer(1, 50.0), EVERYONE, Inside::Turns);
        assert_eq!(ends(&mut fluid), [(1, 10.0), (2, 15.0)]);
    }

    #[test]
    fn what_leaks_goes_to_those_who_wait() {
        let mut fluid = Fluid::new(10.0, 0.5);
        fluid.start(0.0, transfer(1, 100.0), EVERYONE, Inside::Turns);
        fluid.start(0.0, transfer(2, 25.0), EVERYONE, Inside::Turns);
        // Each at 5 B/s until the second is done, though it is not its turn.
        assert_eq!(ends(&mut fluid), [(2, 5.0), (1, 12.5)]);
    }

    #[test]
    fn sets_share_by_priority_as_long_as_both_are_there() {
        let mut fluid = Fluid::new(11.0, 0.0);
        let set = |magnitude, priority| Placement { set: SetId::Magnitude(magnitude), priority };
        fluid.start(0.0, transfer(1, 100.0), set(1, 0.1), Inside::Turns);
        fluid.start(0.0, transfer(2, 120.0), set(2, 0.01), Inside::Turns);
        assert_eq!(ends(&mut fluid), [(1, 10.0), (2, 20.0)]);
    }

    /// The definition: everybody's rate from who is there, small step by small step from end to end.
    fn ends_by_definition(capacity_bps: f64, leak: f64, starts: &[Start]) -> Vec<f64> {
        let mut left: Vec<f64> = starts.iter().map(|start| start.bytes).collect();
        let mut ended_s = vec![f64::NAN; starts.len()];
        let mut now_s = 0.0;
        loop {
            let active: Vec<usize> =
                (0..starts.len()).filter(|&i| starts[i].at_s <= now_s && ended_s[i].is_nan()).collect();
            let coming = starts
                .iter()
                .map(|start| start.at_s)
                .filter(|&at_s| at_s > now_s)
                .fold(f64::INFINITY, f64::min);
            if active.is_empty() && coming.is_infinite() {
                return ended_s;
            }
            let sets: BTreeSet<usize> = active.iter().map(|&i| starts[i].set).collect();
            let priorities: f64 = sets.iter().map(|&set| PRIORITIES[set]).sum();
            let rate = |i: usize| {
                let of_set = capacity_bps * PRIORITIES[starts[i].set] / priorities;
                let mates: Vec<usize> =
                    active.iter().copied().filter(|&j| starts[j].set == starts[i].set).collect();
                let weight = |j: usize| starts[j].weight;
                if starts[i].set == SHARED {
                    return of_set * weight(i) / mates.iter().map(|&j| weight(j)).sum::<f64>();
                }
                let head = *mates.iter().min().unwrap();
                match (mates.len(), i == head) {
                    (1, _) => of_set,
                    (_, true) => of_set * (1.0 - leak),
                    _ => {
                        let others: f64 = mates.iter().filter(|&&j| j != head).map(|&j| weight(j)).sum();
                        of_set * leak * weight(i) / others
                    }
                }
            };
            let rates: Vec<(usize, f64)> = active.iter().map(|&i| (i, rate(i))).collect();
            let first_end =
                rates.iter().map(|&(i, rate)| now_s + left[i] / rate).fold(f64::INFINITY, f64::min);
            let until_s = first_end.min(coming);
            for &(i, rate) in &rates {
                left[i] -= rate * (until_s - now_s);
                if left[i] <= 1e-7 * starts[i].bytes {
                    ended_s[i] = until_s;
                }
            }
            now_s = until_s;
        }
    }

    const PRIORITIES: [f64; 4] = [1.0, 0.1, 0.01, 0.02];
    const SHARED: usize = 3;

    #[derive(Clone, Copy, Debug)]
    struct Start {
        at_s: f64,
        bytes: f64,
        weight: f64,
        set: usize,
    }

    fn starts() -> impl Strategy<Value = Vec<Start>> {
        let start = (0..40u32, 1.0..100.0f64, 0.2..3.0f64, 0..4usize)
            .prop_map(|(at, bytes, weight, set)| Start { at_s: f64::from(at) * 0.7, bytes, weight, set });
        prop::collection::vec(start, 1..25)
    }

    proptest! {
        #[test]
        fn the_fast_form_is_the_definition(starts in starts(), leak in prop::sample::select(vec![0.0, 0.1, 0.5])) {
            let expected = ends_by_definition(10.0, leak, &starts);
            let mut fluid = Fluid::new(10.0, leak);
            let mut order: Vec<usize> = (0..starts.len()).collect();
            order.sort_by(|&a, &b| starts[a].at_s.total_cmp(&starts[b].at_s));
            let mut ended_s = vec![f64::NAN; starts.len()];
            for i in order {
                while fluid.next_end_s().is_some_and(|end_s| end_s <= starts[i].at_s) {
                    let (end_s, job) = fluid.finish().unwrap();
                    ended_s[job] = end_s;
                }
                let Start { at_s, bytes, weight, set } = starts[i];
                let inside = if set == SHARED { Inside::Shared } else { Inside::Turns };
                let placement = Placement { set: SetId::Magnitude(set as i32), priority: PRIORITIES[set] };
                fluid.start(at_s, Transfer { job: i, bytes, key: i as u64, weight }, placement, inside);
                let mut total = 0.0;
                fluid.rates(|_, rate| total += rate);
                prop_assert!((total - 10.0).abs() < 1e-9, "all of the bandwidth is used: {total}");
            }
            while let Some((end_s, job)) = fluid.finish() {
                ended_s[job] = end_s;
            }
            for (i, (found, expected)) in ended_s.iter().zip(&expected).enumerate() {
                prop_assert!((found - expected).abs() < 1e-4, "job {i}: {found} instead of {expected}");
            }
        }

        #[test]
        fn requests_on_the_device_share_it_evenly_and_keep_it_busy(sizes in prop::collection::vec(1.0..50.0f64, 1..20)) {
            let mut device = Device::new(10.0);
            for (job, &bytes) in sizes.iter().enumerate() {
                device.start(0.0, job, bytes);
            }
            let mut sorted = sizes.clone();
            sorted.sort_by(f64::total_cmp);
            let mut last_s = 0.0;
            for (i, &bytes) in sorted.iter().enumerate() {
                // Whoever is larger has had as much as this one by then.
                let served: f64 = sorted[..i].iter().sum::<f64>() + bytes * (sorted.len() - i) as f64;
                let (end_s, job) = device.finish().unwrap();
                prop_assert!((end_s - served / 10.0).abs() < 1e-9);
                prop_assert_eq!(sizes[job], bytes);
                last_s = end_s;
            }
            prop_assert!((last_s - sizes.iter().sum::<f64>() / 10.0).abs() < 1e-9);
            prop_assert_eq!(device.n_in_service(), 0);
        }
    }
}
