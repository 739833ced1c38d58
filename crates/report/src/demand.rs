//! Bandwidth that asynchronous I/O required and got, as it is reported.

use iotide_analysis::{lost_s, required_bps, throughput_bps};
use iotide_look::text;
use serde::Serialize;

use crate::run::whole_bytes;

/// Required and actual bandwidth of asynchronous I/O.
#[derive(Clone, Debug, Serialize)]
pub struct Demand {
    /// Of reads.
    pub read: Option<Need>,
    /// Of writes.
    pub write: Option<Need>,
    /// The phases that lost most time, in the order they began.
    pub phases: Vec<AsyncPhase>,
}

/// Required and actual bandwidth of the phases of one kind.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Need {
    /// How many there were.
    pub n_phases: u64,
    /// Bytes that they moved.
    #[serde(serialize_with = "whole_bytes")]
    pub bytes: f64,
    /// The bandwidth they had.
    pub throughput_bps: Option<f64>,
    /// The bandwidth that would have hidden them.
    pub required_bps: Option<f64>,
    /// Time spent waiting, over all ranks.
    pub lost_s: f64,
    /// Time spent waiting by the rank that waited most.
    pub longest_lost_s: f64,
    #[serde(skip)]
    is_unmet: bool,
}

/// A rank's requests, from the first on an empty queue until all were done.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AsyncPhase {
    /// Whose they are; −1 if the source does not say.
    pub rank: i32,
    /// `read` or `write`.
    pub op: &'static str,
    /// When the first was handed over.
    pub start_s: f64,
    /// When the program first waited.
    pub waited_s: f64,
    /// When the last was done.
    pub end_s: f64,
    /// Bytes that they moved.
    #[serde(serialize_with = "whole_bytes")]
    pub bytes: f64,
    /// How many they were.
    pub n_requests: u64,
    /// The bandwidth they had.
    pub throughput_bps: Option<f64>,
    /// The bandwidth that would have hidden them.
    pub required_bps: Option<f64>,
    /// Time spent waiting.
    pub lost_s: f64,
}

impl Demand {
    /// A run has thousands of ranks with hundreds of phases each; whoever wants them all reads the trace.
    const MOST_PHASES: usize = 1000;

    /// A name and a sentence for reads and for writes, as far as there were any.
    pub fn in_words(&self) -> Vec<(&'static str, String)> {
        let reads = self.read.map(|need| ("async reads", need.in_words("read")));
        let writes = self.write.map(|need| ("async writes", need.in_words("written")));
        reads.into_iter().chain(writes).collect()
    }
}

impl From<&iotide_analysis::Demand> for Demand {
    fn from(demand: &iotide_analysis::Demand) -> Self {
        let mut phases: Vec<&iotide_trace::AsyncPhase> = demand.phases.iter().collect();
        phases.sort_by(|a, b| lost_s(b).total_cmp(&lost_s(a)));
        phases.truncate(Self::MOST_PHASES);
        phases.sort_by_key(|phase| (phase.start, phase.rank));
        Self {
            read: demand.read.as_ref().map(Need::from),
            write: demand.write.as_ref().map(Need::from),
            phases: phases.into_iter().map(AsyncPhase::from).collect(),
        }
    }
}

impl Need {
    fn in_words(self, moved: &str) -> String {
        let volume =
            format!("{} {moved} in {}", text::bytes(self.bytes), text::counted(self.n_phases, "phase"));
        let had = self.throughput_bps.map(|bps| format!(" at {}", text::bandwidth(bps))).unwrap_or_default();
        if !self.is_unmet {
            return format!("{volume}{had}, hidden behind the computing");
        }
        let needed = match self.required_bps {
            Some(bps) => format!("{} would have hidden them", text::bandwidth(bps)),
            None => "the program waited at once".to_owned(),
        };
        format!(
            "{volume}{had}; {needed}; {} lost by waiting, {} by one rank at most",
            text::seconds(self.lost_s),
            text::seconds(self.longest_lost_s)
        )
    }
}

impl From<&iotide_analysis::Need> for Need {
    fn from(need: &iotide_analysis::Need) -> Self {
        Self {
            n_phases: need.n_phases,
            bytes: need.bytes,
            throughput_bps: need.throughput_bps,
            required_bps: need.required_bps,
            lost_s: need.lost_s,
            longest_lost_s: need.longest_lost_s,
            is_unmet: need.is_unmet(),
        }
    }
}

impl From<&iotide_trace::AsyncPhase> for AsyncPhase {
    fn from(phase: &iotide_trace::AsyncPhase) -> Self {
        Self {
            rank: phase.rank.0,
            op: phase.op.name(),
            start_s: phase.start.as_secs(),
            waited_s: phase.waited.as_secs(),
            end_s: phase.end.as_secs(),
            bytes: phase.bytes,
            n_requests: phase.n_requests,
            throughput_bps: throughput_bps(phase),
            required_bps: required_bps(phase),
            lost_s: lost_s(phase),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::{Op, Rank, Timestamp};

    fn told(waited_s: f64) -> Demand {
        let at = |at_s| Timestamp::from_secs_since_start(at_s).unwrap();
        let phase = iotide_trace::AsyncPhase {
            op: Op::Write,
            rank: Rank(0),
            start: at(1.0),
            waited: at(waited_s),
            end: at(5.0),
            bytes: 4e9,
            n_requests: 2,
        };
        Demand::from(&iotide_analysis::demand(&[phase]).unwrap())
    }

    #[test]
    fn what_was_required_stands_beside_what_there_was() {
        insta::assert_snapshot!(told(3.0).in_words()[0].1, @"4 GB written in 1 phase at 1 GB/s; 2 GB/s would have hidden them; 2 s lost by waiting, 2 s by one rank at most");
        insta::assert_snapshot!(told(1.0).in_words()[0].1, @"4 GB written in 1 phase at 1 GB/s; the program waited at once; 4 s lost by waiting, 4 s by one rank at most");
        insta::assert_snapshot!(told(5.0).in_words()[0].1, @"4 GB written in 1 phase at 1 GB/s, hidden behind the computing");
    }

    #[test]
    fn a_phase_is_told_with_its_own_figures() {
        let json = serde_json::to_value(told(3.0)).unwrap();
        assert!(json["read"].is_null());
        assert_eq!(json["write"]["required_bps"], 2e9);
        let phase = &json["phases"][0];
        assert_eq!((phase["op"].as_str(), phase["lost_s"].as_f64()), (Some("write"), Some(2.0)));
        assert_eq!(
            (phase["bytes"].as_u64(), phase["throughput_bps"].as_f64()),
            (Some(4_000_000_000), Some(1e9))
        );
    }
}
