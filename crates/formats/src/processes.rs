//! Processes that a source knows by host and number rather than by rank.

use std::collections::HashMap;

use iotide_trace::Rank;

/// Numbers processes in the order in which a run's files name them.
///
/// Some tracers know a process by host and number, not by its rank. One table serves all files of a run, so that a
/// process that wrote two of them stays one.
#[derive(Default)]
pub(crate) struct Processes {
    ranks: HashMap<(Vec<u8>, u64), i32>,
    last: Option<(Vec<u8>, u64, i32)>,
}

impl Processes {
    /// The number of that process.
    pub(crate) fn rank_of(&mut self, host: &[u8], pid: u64) -> Rank {
        if let Some((last_host, last_pid, rank)) = &self.last
            && *last_pid == pid
            && last_host == host
        {
            return Rank(*rank);
        }
        let n_known = i32::try_from(self.ranks.len()).unwrap_or(i32::MAX);
        let rank = *self.ranks.entry((host.to_vec(), pid)).or_insert(n_known);
        self.last = Some((host.to_vec(), pid, rank));
        Rank(rank)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ranks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_number_on_two_hosts_is_two_processes() {
        let mut processes = Processes::default();
        let ranks = [("n1", 7), ("n2", 7), ("n1", 7), ("n1", 8)]
            .map(|(host, pid)| processes.rank_of(host.as_bytes(), pid));
        assert_eq!(ranks, [Rank(0), Rank(1), Rank(0), Rank(2)]);
        assert_eq!(processes.len(), 3);
    }
}
