//! Storage that is malleable, too: nodes of the machine serve it, more of them the more it is asked for.

/// The nodes that serve a storage.
#[derive(Clone, Debug, PartialEq)]
pub struct IoNodes {
    /// How many it has at present.
    pub now: u32,
    /// How many it has if nobody says otherwise: jobs can count on the rest.
    pub usual: u32,
    /// How many it has at least.
    pub min: u32,
    /// How many it has at most.
    pub max: u32,
    /// Bytes per second at some numbers of nodes, in ascending order: linear between them, constant outside.
    pub bandwidths: Vec<(u32, f64)>,
}

/// Storage that is busy for more than this share of the time makes jobs wait for each other.
const MOST_BUSY: f64 = 0.6;

impl IoNodes {
    /// Returns the bandwidth that so many nodes give.
    pub fn bandwidth_bps(&self, nodes: u32) -> f64 {
        let table = &self.bandwidths;
        let above = table.partition_point(|&(at, _)| at < nodes);
        match (above.checked_sub(1).map(|below| table[below]), table.get(above)) {
            (_, Some(&(at, bps))) if at == nodes => bps,
            (Some((low, low_bps)), Some(&(high, high_bps))) => {
                low_bps + (high_bps - low_bps) * f64::from(nodes - low) / f64::from(high - low)
            }
            (Some((_, bps)), None) | (None, Some(&(_, bps))) => bps,
            (None, None) => 0.0,
        }
    }

    /// Returns the least number of nodes, of those it may have, that are not too busy with so many bytes per second.
    pub(super) fn wanted(&self, demand_bps: f64) -> u32 {
        let suffices = |nodes: u32| self.bandwidth_bps(nodes) * MOST_BUSY >= demand_bps;
        (self.min..=self.max).find(|&nodes| suffices(nodes)).unwrap_or_else(|| self.fastest())
    }

    /// More nodes than give the most are of no use.
    fn fastest(&self) -> u32 {
        let bps = |nodes: u32| self.bandwidth_bps(nodes);
        (self.min..=self.max).fold(self.min, |best, nodes| if bps(nodes) > bps(best) { nodes } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_nodes_as_the_demand_keeps_busy_are_wanted() {
        let bandwidths = vec![(2, 200.0), (8, 800.0), (10, 900.0)];
        let io_nodes = IoNodes { now: 4, usual: 4, min: 2, max: 12, bandwidths };
        let found = [1, 2, 5, 8, 9, 12].map(|n| io_nodes.bandwidth_bps(n));
        assert_eq!(found, [200.0, 200.0, 500.0, 800.0, 850.0, 900.0]);
        assert_eq!(io_nodes.wanted(0.0), 2);
        assert_eq!(io_nodes.wanted(300.0), 5);
        assert_eq!(io_nodes.wanted(5000.0), 10, "more give no more");
    }
}
