//! Which nodes are free, and which each job has: the lowest free numbers are given, the highest are taken back.

/// Node numbers from the first to before the second.
pub type NodeRange = (u32, u32);

/// Free nodes, the highest first.
#[derive(Clone, Debug)]
pub(super) struct FreeNodes {
    ranges: Vec<NodeRange>,
}

impl FreeNodes {
    pub(super) fn new(n_nodes: u32) -> Self {
        Self { ranges: vec![(0, n_nodes)] }
    }

    /// Moves the lowest free numbers to a job.
    pub(super) fn take(&mut self, mut n: u32, held: &mut Vec<NodeRange>) {
        while n > 0 {
            let Some((from, to)) = self.ranges.pop() else { break };
            let taken = n.min(to - from);
            insert(held, (from, from + taken));
            if from + taken < to {
                self.ranges.push((from + taken, to));
            }
            n -= taken;
        }
    }

    /// Takes a job's highest numbers back.
    pub(super) fn take_back(&mut self, mut n: u32, held: &mut Vec<NodeRange>) {
        while n > 0 {
            let Some((from, to)) = held.pop() else { break };
            let given = n.min(to - from);
            self.give((to - given, to));
            if from < to - given {
                held.push((from, to - given));
            }
            n -= given;
        }
    }

    pub(super) fn give(&mut self, (mut from, mut to): NodeRange) {
        let mut at = self.ranges.partition_point(|range| range.0 > from);
        if at < self.ranges.len() && self.ranges[at].1 == from {
            from = self.ranges[at].0;
            self.ranges.remove(at);
        }
        if at > 0 && self.ranges[at - 1].0 == to {
            to = self.ranges[at - 1].1;
            self.ranges.remove(at - 1);
            at -= 1;
        }
        self.ranges.insert(at, (from, to));
    }

    /// Takes one node out. Returns whether it was free.
    pub(super) fn remove(&mut self, node: u32) -> bool {
        let Some(at) = self.ranges.iter().position(|range| (range.0..range.1).contains(&node)) else {
            return false;
        };
        let (from, to) = self.ranges.remove(at);
        if node + 1 < to {
            self.ranges.insert(at, (node + 1, to));
        }
        if from < node {
            let at = at + usize::from(node + 1 < to);
            self.ranges.insert(at, (from, node));
        }
        true
    }
}

/// Adds a range to ascending ones, joined to its neighbours.
fn insert(held: &mut Vec<NodeRange>, (mut from, mut to): NodeRange) {
    let mut at = held.partition_point(|range| range.0 < from);
    if at < held.len() && held[at].0 == to {
        to = held[at].1;
        held.remove(at);
    }
    if at > 0 && held[at - 1].1 == from {
        from = held[at - 1].0;
        held.remove(at - 1);
        at -= 1;
    }
    held.insert(at, (from, to));
}

/// Takes one node out of ascending ranges. Returns whether it was there.
pub(super) fn remove(held: &mut Vec<NodeRange>, node: u32) -> bool {
    let Some(at) = held.iter().position(|range| (range.0..range.1).contains(&node)) else { return false };
    let (from, to) = held.remove(at);
    if node + 1 < to {
        held.insert(at, (node + 1, to));
    }
    if from < node {
        held.insert(at, (from, node));
    }
    true
}
