//! The ids of the issues.

macro_rules! issue_ids {
    ($( $(#[doc = $doc:literal])+ $variant:ident = $name:literal, )+) => {
        /// A pattern that makes a run slower than it could be.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum IssueId {
            $( $(#[doc = $doc])+ $variant, )+
        }

        impl IssueId {
            /// All ids, in the order of their declaration.
            pub const ALL: &'static [IssueId] = &[$( IssueId::$variant, )+];

            /// The name used in settings and reports.
            pub fn name(self) -> &'static str {
                match self {
                    $( IssueId::$variant => $name, )+
                }
            }
        }
    };
}

issue_ids! {
    /// Many small reads.
    SmallReads = "small_reads",
    /// Many small writes.
    SmallWrites = "small_writes",
    /// Reads that go back in their files.
    RandomReads = "random_reads",
    /// Writes that go back in their files.
    RandomWrites = "random_writes",
    /// Writes of several ranks at offsets that cross blocks of the file system.
    Misaligned = "misaligned",
    /// POSIX writes more than MPI-IO asked for.
    WriteAmplification = "write_amplification",
    /// POSIX reads more than MPI-IO asked for.
    ReadAmplification = "read_amplification",
    /// Time in MPI-IO above the calls beneath it.
    MpiioOverhead = "mpiio_overhead",
    /// One or two ranks move the bytes of all.
    FewAggregators = "few_aggregators",
    /// A file on fewer storage targets than there are.
    FewTargets = "few_targets",
    /// Ranks that write one file are slower than those with files of their own.
    SharedContention = "shared_contention",
    /// One rank moves nearly all bytes.
    SingleRankIo = "single_rank_io",
    /// One rank moves much more than the others.
    RankImbalance = "rank_imbalance",
    /// One rank takes much longer than the others.
    Stragglers = "stragglers",
    /// Files on some storage targets are slow.
    SlowTarget = "slow_target",
    /// Ranks that could move bytes together and do not.
    MissingCollectives = "missing_collectives",
    /// The same bytes read again.
    RedundantReads = "redundant_reads",
    /// The same bytes written again.
    RedundantWrites = "redundant_writes",
    /// Time in opens, seeks and the like.
    MetadataTime = "metadata_time",
    /// Files opened and closed over and over.
    OpenCloseChurn = "open_close_churn",
    /// Many files below a mebibyte.
    ManySmallFiles = "many_small_files",
    /// A file for each of many processes.
    FilePerProcess = "file_per_process",
    /// Attributes asked for over and over.
    StatStorm = "stat_storm",
    /// Data forced to storage after nearly every write.
    ExcessiveSync = "excessive_sync",
    /// Bulk data through C streams in small calls.
    StdioBulk = "stdio_bulk",
    /// Writes that wait where the program could go on.
    BlockingIo = "blocking_io",
    /// Some phases of like bytes take much longer.
    SlowPhase = "slow_phase",
    /// A file much slower than others of its kind.
    LowBandwidth = "low_bandwidth",
}

impl IssueId {
    /// The id of that name, as [`IssueId::name`] writes it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|id| id.name() == name)
    }
}
