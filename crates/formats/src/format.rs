//! The formats, by name.

/// A format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// A table of events or of bandwidth over time, values separated by commas.
    Csv,
    /// The same tables, one JSON object a line.
    Jsonl,
    /// Output of TMIO at the end of a run.
    TmioJson,
    /// Output of TMIO while a run goes on, one JSON object a mode and flush.
    TmioJsonl,
    /// The same, as MessagePack.
    TmioMsgpack,
    /// Bandwidth over time as FTIO takes it from others.
    FtioJson,
    /// Free text, read by a pattern.
    Text,
    /// iotide's own trace.
    Native,
    /// A directory of Recorder, 2.0 to 2.5.
    Recorder,
    /// DFTracer's lines, of any generation.
    DfTracer,
    /// Output of `strace -ttt -T`.
    Strace,
    /// TAU's events as JSON.
    Tau,
    /// Metrics of a GekkoFS client.
    Gekkofs,
    /// The same, as MessagePack.
    GekkofsMsgpack,
    /// A trace exported by the metric proxy.
    Proxy,
    /// The same, as MessagePack.
    ProxyMsgpack,
    /// Snapshots of Lustre's `job_stats`.
    LustreJobStats,
    /// Counters of storage targets out of LMT's database.
    Lmt,
    /// Counters of GlusterFS' bricks.
    Gluster,
    /// Counters of Ceph's object storage daemons.
    Ceph,
    /// A range answer of Prometheus.
    Prometheus,
    /// A log of Darshan, of any version.
    Darshan,
    /// Output of `darshan-parser`.
    DarshanParserText,
    /// Output of `darshan-dxt-parser`.
    DarshanDxtText,
}

impl Format {
    /// All formats, in the order of the documentation.
    pub const ALL: &[Format] = &[
        Format::Csv,
        Format::Jsonl,
        Format::TmioJson,
        Format::TmioJsonl,
        Format::TmioMsgpack,
        Format::FtioJson,
        Format::Text,
        Format::Native,
        Format::Recorder,
        Format::DfTracer,
        Format::Strace,
        Format::Tau,
        Format::Gekkofs,
        Format::GekkofsMsgpack,
        Format::Proxy,
        Format::ProxyMsgpack,
        Format::LustreJobStats,
        Format::Lmt,
        Format::Gluster,
        Format::Ceph,
        Format::Prometheus,
        Format::Darshan,
        Format::DarshanParserText,
        Format::DarshanDxtText,
    ];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Jsonl => "jsonl",
            Format::TmioJson => "tmio-json",
            Format::TmioJsonl => "tmio-jsonl",
            Format::TmioMsgpack => "tmio-msgpack",
            Format::FtioJson => "ftio-json",
            Format::Text => "text",
            Format::Native => "native",
            Format::Recorder => "recorder",
            Format::DfTracer => "dftracer",
            Format::Strace => "strace",
            Format::Tau => "tau",
            Format::Gekkofs => "gekkofs",
            Format::GekkofsMsgpack => "gekkofs-msgpack",
            Format::Proxy => "proxy",
            Format::ProxyMsgpack => "proxy-msgpack",
            Format::LustreJobStats => "lustre-job-stats",
            Format::Lmt => "lmt",
            Format::Gluster => "gluster",
            Format::Ceph => "ceph",
            Format::Prometheus => "prometheus",
            Format::Darshan => "darshan",
            Format::DarshanParserText => "darshan-parser-text",
            Format::DarshanDxtText => "darshan-dxt-text",
        }
    }

    /// Whether its events may show the same bytes at several layers, so that one must be chosen.
    pub fn sees_several_layers(self) -> bool {
        matches!(self, Format::Recorder | Format::DfTracer | Format::Tau)
    }

    /// Whether it knows the processes of a program, though not their ranks: as many as there are, the program has.
    pub(crate) fn numbers_processes(self) -> bool {
        matches!(self, Format::DfTracer | Format::Gekkofs | Format::GekkofsMsgpack)
    }

    /// Whether it has metrics of any kind, each under a name.
    pub fn has_metrics(self) -> bool {
        matches!(self, Format::Proxy | Format::ProxyMsgpack | Format::Prometheus)
    }

    /// Whether it is written while the job runs, record by record, so that a reader can keep up with it.
    pub fn can_be_followed(self) -> bool {
        matches!(
            self,
            Format::Csv
                | Format::Jsonl
                | Format::TmioJsonl
                | Format::TmioMsgpack
                | Format::Native
                | Format::Strace
                | Format::GekkofsMsgpack
                | Format::Gluster
                | Format::Ceph
        )
    }

    /// Whether its samples state what is zero: tables, and counters of servers. Of Lustre's jobs, counters that did not move are not listed.
    pub fn states_zeros(self) -> bool {
        matches!(self, Format::Csv | Format::Jsonl | Format::Lmt | Format::Gluster | Format::Ceph)
    }

    /// Whether it has no lines.
    pub fn is_binary(self) -> bool {
        matches!(
            self,
            Format::TmioMsgpack
                | Format::Native
                | Format::Recorder
                | Format::GekkofsMsgpack
                | Format::ProxyMsgpack
                | Format::Darshan
        )
    }

    /// Whether it is a log of Darshan, or what a parser of Darshan prints of one.
    pub fn is_darshan(self) -> bool {
        matches!(self, Format::Darshan | Format::DarshanParserText | Format::DarshanDxtText)
    }

    /// The format of that name, as [`Format::name`] writes it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
