//! Quantities that are compared: their names, and which direction is better.

use iotide_look::text;
use serde::Serialize;

/// Something that every run has a number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// How long the run took.
    #[serde(rename = "run_time_s")]
    RunTime,
    /// Time in I/O calls, the mean of the ranks.
    #[serde(rename = "io_time_per_rank_s")]
    IoTimePerRank,
    /// Time in I/O calls of the rank that spends most.
    #[serde(rename = "slowest_rank_s")]
    SlowestRank,
    /// That mean as a share of the run time.
    IoShare,
    /// Bytes moved, over the time in I/O calls of a rank.
    #[serde(rename = "bandwidth_bps")]
    Bandwidth,
    /// Bytes read.
    BytesRead,
    /// Bytes written.
    BytesWritten,
    /// Read calls.
    ReadCalls,
    /// Write calls.
    WriteCalls,
    /// All other calls.
    MetadataCalls,
    /// Bytes per read call.
    ReadRequestBytes,
    /// Bytes per write call.
    WriteRequestBytes,
    /// The period of the I/O phases.
    #[serde(rename = "period_s")]
    Period,
    /// How many phases there are.
    Phases,
    /// Bytes of a phase.
    BytesPerPhase,
    /// The number of ranks.
    Ranks,
    /// The number of files.
    Files,
}

/// The direction that is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Less of it.
    Lower,
    /// More of it.
    Higher,
}

impl Quantity {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 17] = [
        Self::RunTime,
        Self::IoTimePerRank,
        Self::SlowestRank,
        Self::IoShare,
        Self::Bandwidth,
        Self::BytesRead,
        Self::BytesWritten,
        Self::ReadCalls,
        Self::WriteCalls,
        Self::MetadataCalls,
        Self::ReadRequestBytes,
        Self::WriteRequestBytes,
        Self::Period,
        Self::Phases,
        Self::BytesPerPhase,
        Self::Ranks,
        Self::Files,
    ];

    /// Its name in JSON and on the command line.
    pub fn key(self) -> &'static str {
        match self {
            Self::RunTime => "run_time_s",
            Self::IoTimePerRank => "io_time_per_rank_s",
            Self::SlowestRank => "slowest_rank_s",
            Self::IoShare => "io_share",
            Self::Bandwidth => "bandwidth_bps",
            Self::BytesRead => "bytes_read",
            Self::BytesWritten => "bytes_written",
            Self::ReadCalls => "read_calls",
            Self::WriteCalls => "write_calls",
            Self::MetadataCalls => "metadata_calls",
            Self::ReadRequestBytes => "read_request_bytes",
            Self::WriteRequestBytes => "write_request_bytes",
            Self::Period => "period_s",
            Self::Phases => "phases",
            Self::BytesPerPhase => "bytes_per_phase",
            Self::Ranks => "ranks",
            Self::Files => "files",
        }
    }

    /// The quantity of that name, as [`Quantity::key`] writes it.
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|quantity| quantity.key() == key)
    }

    /// Returns its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::RunTime => "run time",
            Self::IoTimePerRank => "time in I/O per rank",
            Self::SlowestRank => "time in I/O of the slowest rank",
            Self::IoShare => "share of the run in I/O",
            Self::Bandwidth => "bandwidth",
            Self::BytesRead => "bytes read",
            Self::BytesWritten => "bytes written",
            Self::ReadCalls => "read calls",
            Self::WriteCalls => "write calls",
            Self::MetadataCalls => "metadata calls",
            Self::ReadRequestBytes => "bytes per read call",
            Self::WriteRequestBytes => "bytes per write call",
            Self::Period => "period of the I/O phases",
            Self::Phases => "I/O phases",
            Self::BytesPerPhase => "bytes per phase",
            Self::Ranks => "ranks",
            Self::Files => "files",
        }
    }

    /// Which direction is better. What depends on the size of the problem has none, and neither has a share: it grows when
    /// the program computes faster.
    pub fn better(self) -> Option<Better> {
        match self {
            Self::RunTime | Self::IoTimePerRank | Self::SlowestRank | Self::MetadataCalls => {
                Some(Better::Lower)
            }
            Self::Bandwidth | Self::ReadRequestBytes | Self::WriteRequestBytes => Some(Better::Higher),
            _ => None,
        }
    }

    /// A value of it, for people.
    pub fn shown(self, value: f64) -> String {
        match self {
            Self::RunTime | Self::IoTimePerRank | Self::SlowestRank | Self::Period => text::seconds(value),
            Self::IoShare => text::percent(value),
            Self::Bandwidth => text::bandwidth(value),
            Self::BytesRead
            | Self::BytesWritten
            | Self::ReadRequestBytes
            | Self::WriteRequestBytes
            | Self::BytesPerPhase => text::bytes(value),
            _ => text::count(value.round().max(0.0) as u64),
        }
    }
}
