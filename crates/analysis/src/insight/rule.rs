//! The names of the rules.

/// Something that may be wrong with the way a run moves its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Many small reads.
    SmallReads,
    /// Many small writes.
    SmallWrites,
    /// Reads that jump about in their files.
    RandomReads,
    /// Writes that jump about in their files.
    RandomWrites,
    /// Calls at offsets that cross blocks of the file system.
    Misaligned,
    /// The same bytes read again.
    RedundantReads,
    /// The same bytes written again.
    RedundantWrites,
    /// Many small calls on files that several ranks use.
    SmallShared,
    /// One rank moves much more than the others.
    RankImbalance,
    /// One rank takes much longer than the others.
    Stragglers,
    /// Ranks that could move bytes together and do not.
    MissingCollectives,
    /// MPI-IO calls that wait where the program could go on.
    BlockingIo,
    /// Bulk data through C streams.
    StdioBulk,
    /// Much time in opens, seeks and their like.
    MetadataTime,
    /// Files opened and closed over and over.
    OpenCloseChurn,
}

impl Rule {
    /// All rules, in the order of their declaration.
    pub const ALL: [Rule; 15] = [
        Rule::SmallReads,
        Rule::SmallWrites,
        Rule::RandomReads,
        Rule::RandomWrites,
        Rule::Misaligned,
        Rule::RedundantReads,
        Rule::RedundantWrites,
        Rule::SmallShared,
        Rule::RankImbalance,
        Rule::Stragglers,
        Rule::MissingCollectives,
        Rule::BlockingIo,
        Rule::StdioBulk,
        Rule::MetadataTime,
        Rule::OpenCloseChurn,
    ];

    /// The name used in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Rule::SmallReads => "small_reads",
            Rule::SmallWrites => "small_writes",
            Rule::RandomReads => "random_reads",
            Rule::RandomWrites => "random_writes",
            Rule::Misaligned => "misaligned",
            Rule::RedundantReads => "redundant_reads",
            Rule::RedundantWrites => "redundant_writes",
            Rule::SmallShared => "small_shared",
            Rule::RankImbalance => "rank_imbalance",
            Rule::Stragglers => "stragglers",
            Rule::MissingCollectives => "missing_collectives",
            Rule::BlockingIo => "blocking_io",
            Rule::StdioBulk => "stdio_bulk",
            Rule::MetadataTime => "metadata_time",
            Rule::OpenCloseChurn => "open_close_churn",
        }
    }

    /// The rule of that name, as [`Rule::name`] writes it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }
}
