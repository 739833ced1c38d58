//! How calls went about their files, and which files there were: request sizes, order, mount points, counts.

use iotide_look::Untrusted;
use iotide_trace::{AccessFacts, ActivitySums, FileSums, JobInfo, Layer, SIZE_RANGES};
use serde::Serialize;

use crate::activity::layer_name;
use crate::run::whole_bytes;

/// Facts about calls and files beside times.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Patterns {
    /// Calls in Darshan's ranges of sizes, by layer.
    pub request_sizes: Vec<RequestSizes>,
    /// In which order calls went through their files, by layer.
    pub access_order: Vec<AccessOrder>,
    /// How ranks called MPI-IO, where the source counts that.
    pub mpi_io: Option<MpiIoCalls>,
    /// Sums over each file system, that with most bytes first.
    pub mounts: Vec<MountSums>,
    /// How many files were only read, only written, or both.
    pub file_counts: FileCounts,
}

/// Calls in Darshan's ranges of sizes.
#[derive(Clone, Debug, Serialize)]
pub struct RequestSizes {
    /// The software layer, `None` if the source does not say.
    pub layer: Option<&'static str>,
    /// The ranges, from small to large.
    pub ranges: Vec<SizeRange>,
    /// The commonest sizes, where the source counts them.
    pub common: Vec<CommonSize>,
}

/// Calls of more than `from_bytes` and at most `to_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SizeRange {
    /// Above this.
    pub from_bytes: u64,
    /// Up to this; none for the last.
    pub to_bytes: Option<u64>,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// A size that many calls have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CommonSize {
    /// The size.
    pub bytes: u64,
    /// How many calls have it.
    pub calls: u64,
}

/// In which order calls went through their files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AccessOrder {
    /// The software layer, `None` if the source does not say.
    pub layer: Option<&'static str>,
    /// Reads.
    pub reads: OrderCounts,
    /// Writes.
    pub writes: OrderCounts,
    /// Calls at one of the four commonest strides of their file, reads and writes together.
    pub strided: Option<u64>,
}

/// Calls of one direction, by their place in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OrderCounts {
    /// All calls.
    pub calls: u64,
    /// At a higher offset than the one before.
    pub sequential: Option<u64>,
    /// Of these, exactly where the one before ended.
    pub consecutive: Option<u64>,
    /// Back in the file.
    pub random: Option<u64>,
}

/// How ranks called MPI-IO.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MpiIoCalls {
    /// Reads.
    pub reads: MpiIoWay,
    /// Writes.
    pub writes: MpiIoWay,
}

/// MPI-IO calls of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MpiIoWay {
    /// All calls.
    pub calls: u64,
    /// Those that all ranks make together.
    pub collective: Option<u64>,
    /// Those that a rank makes on its own.
    pub independent: Option<u64>,
    /// Those that return before their bytes are moved.
    pub nonblocking: Option<u64>,
}

/// Sums over one file system.
#[derive(Clone, Debug, Serialize)]
pub struct MountSums {
    /// Where it is mounted; where the source has no mounts, the first directory of the files.
    pub path: Untrusted,
    /// Its kind, where the source has mounts.
    pub kind: Option<Untrusted>,
    /// Bytes read.
    #[serde(serialize_with = "whole_bytes")]
    pub bytes_read: f64,
    /// Bytes written.
    #[serde(serialize_with = "whole_bytes")]
    pub bytes_written: f64,
    /// How many files.
    pub files: u64,
    /// How many of them were read.
    pub files_read: u64,
    /// How many of them were written.
    pub files_written: u64,
}

/// How many files were only read, only written, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FileCounts {
    /// All that were used.
    pub total: FileGroup,
    /// Only read.
    pub read_only: FileGroup,
    /// Only written.
    pub write_only: FileGroup,
    /// Read and written.
    pub read_write: FileGroup,
    /// Opened or asked about, and no bytes moved.
    pub untouched: FileGroup,
}

/// Some files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FileGroup {
    /// How many.
    pub files: u64,
    /// Bytes moved from and to them, on average.
    pub mean_bytes: f64,
    /// Bytes moved from and to the one with most.
    #[serde(serialize_with = "whole_bytes")]
    pub most_bytes: f64,
}

impl FileGroup {
    fn add(&mut self, bytes: f64) {
        self.files += 1;
        self.mean_bytes += (bytes - self.mean_bytes) / self.files as f64;
        self.most_bytes = self.most_bytes.max(bytes);
    }
}

impl Patterns {
    pub(crate) fn new(sums: &ActivitySums, job: &JobInfo) -> Self {
        Self {
            request_sizes: request_sizes(sums),
            access_order: sums.access.iter().filter_map(access_order).collect(),
            mpi_io: sums.access.iter().find_map(mpi_io),
            mounts: mounts(sums, job),
            file_counts: file_counts(sums),
        }
    }
}

/// As the source counted them, else of the calls that were seen one by one.
fn request_sizes(sums: &ActivitySums) -> Vec<RequestSizes> {
    let ranges = |reads: &[u64; SIZE_RANGES.len()], writes: &[u64; SIZE_RANGES.len()]| {
        (0..SIZE_RANGES.len())
            .map(|i| SizeRange {
                from_bytes: SIZE_RANGES[i],
                to_bytes: SIZE_RANGES.get(i + 1).copied(),
                reads: reads[i],
                writes: writes[i],
            })
            .collect::<Vec<_>>()
    };
    let is_used = |ranges: &[SizeRange]| ranges.iter().any(|range| range.reads > 0 || range.writes > 0);
    let none = [0; SIZE_RANGES.len()];
    let counted = sums.access.iter().filter_map(|facts| {
        let shape = &facts.shape;
        let (reads, writes) = (shape.reads.sizes, shape.writes.sizes);
        reads.or(writes)?;
        let ranges = ranges(&reads.unwrap_or(none), &writes.unwrap_or(none));
        let common = shape
            .common_sizes
            .iter()
            .map(|size| CommonSize { bytes: size.bytes, calls: size.calls })
            .collect();
        is_used(&ranges).then_some(RequestSizes { layer: layer_name(facts.layer), ranges, common })
    });
    let counted: Vec<RequestSizes> = counted.collect();
    if !counted.is_empty() {
        return counted;
    }
    let ranges = ranges(&sums.reads.ranges, &sums.writes.ranges);
    if !is_used(&ranges) {
        return Vec::new();
    }
    vec![RequestSizes { layer: None, ranges, common: Vec::new() }]
}

fn access_order(facts: &AccessFacts) -> Option<AccessOrder> {
    if !matches!(facts.layer, Layer::Posix | Layer::Unknown) {
        return None;
    }
    let way = |way: iotide_trace::WayFacts, shape: iotide_trace::WayShape| OrderCounts {
        calls: way.calls,
        sequential: way.sequential,
        consecutive: shape.consecutive,
        random: way.random,
    };
    let order = AccessOrder {
        layer: layer_name(facts.layer),
        reads: way(facts.reads, facts.shape.reads),
        writes: way(facts.writes, facts.shape.writes),
        strided: facts.shape.strided,
    };
    let is_known = order.reads.sequential.or(order.writes.sequential).is_some();
    (is_known && (order.reads.calls > 0 || order.writes.calls > 0)).then_some(order)
}

fn mpi_io(facts: &AccessFacts) -> Option<MpiIoCalls> {
    let way = |way: iotide_trace::WayFacts| MpiIoWay {
        calls: way.calls,
        collective: way.collective,
        independent: way.independent,
        nonblocking: way.nonblocking,
    };
    let calls = MpiIoCalls { reads: way(facts.reads), writes: way(facts.writes) };
    let is_used = calls.reads.calls > 0 || calls.writes.calls > 0;
    (facts.layer == Layer::MpiIo && is_used).then_some(calls)
}

/// Files by the longest mount point that their path begins with; without mounts, by their first directory.
fn mounts(sums: &ActivitySums, job: &JobInfo) -> Vec<MountSums> {
    /// A page is read by a person.
    const MOST: usize = 40;
    let mut known: Vec<(&str, Option<&str>)> =
        job.mounts.iter().map(|mount| (mount.path.as_str(), Some(mount.kind.as_str()))).collect();
    known.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    let mount_of = |path: &str| -> (String, Option<String>) {
        let is_below = |mount: &str| {
            let mount = mount.trim_end_matches('/');
            path.strip_prefix(mount).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if let Some((mount, kind)) = known.iter().find(|(mount, _)| is_below(mount)) {
            return ((*mount).to_owned(), kind.map(str::to_owned));
        }
        let name = match path.strip_prefix('/') {
            Some(rest) => match rest.split_once('/') {
                Some((first, _)) => format!("/{first}"),
                None => "/".to_owned(),
            },
            None if path.starts_with('<') => path.to_owned(),
            None => "relative paths".to_owned(),
        };
        (name, None)
    };
    let mut found: std::collections::HashMap<(String, Option<String>), MountSums> = Default::default();
    for file in &sums.files {
        let key = mount_of(&file.path);
        let sums = found.entry(key.clone()).or_insert_with(|| MountSums {
            path: key.0.as_str().into(),
            kind: key.1.as_deref().map(Untrusted::from),
            bytes_read: 0.0,
            bytes_written: 0.0,
            files: 0,
            files_read: 0,
            files_written: 0,
        });
        let FileSums { bytes_read, bytes_written, .. } = file.sums;
        sums.bytes_read += bytes_read;
        sums.bytes_written += bytes_written;
        sums.files += 1;
        sums.files_read += u64::from(bytes_read > 0.0);
        sums.files_written += u64::from(bytes_written > 0.0);
    }
    let mut found: Vec<MountSums> = found.into_values().collect();
    let bytes = |sums: &MountSums| sums.bytes_read + sums.bytes_written;
    found.sort_by(|a, b| {
        (bytes(b).total_cmp(&bytes(a)))
            .then(b.files.cmp(&a.files))
            .then_with(|| a.path.as_said().cmp(b.path.as_said()))
    });
    found.truncate(MOST);
    found
}

fn file_counts(sums: &ActivitySums) -> FileCounts {
    let mut counts = FileCounts::default();
    for file in &sums.files {
        let FileSums { bytes_read, bytes_written, .. } = file.sums;
        let group = match (bytes_read > 0.0, bytes_written > 0.0) {
            (true, false) => &mut counts.read_only,
            (false, true) => &mut counts.write_only,
            (true, true) => &mut counts.read_write,
            (false, false) => &mut counts.untouched,
        };
        group.add(bytes_read + bytes_written);
        counts.total.add(bytes_read + bytes_written);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::busy_sums;
    use iotide_trace::Mount;

    #[test]
    fn files_are_put_to_the_longest_mount_that_fits() {
        let mount = |path: &str| Mount { kind: "lustre".into(), path: path.into() };
        let job =
            JobInfo { mounts: vec![mount("/"), mount("/scratch"), mount("/scr")], ..JobInfo::default() };
        let told = Patterns::new(&busy_sums(), &job);
        let mounts: Vec<_> =
            told.mounts.iter().map(|sums| (sums.path.as_said(), sums.files, sums.files_read)).collect();
        assert_eq!(mounts, [("/scratch", 5, 1)]);
        let told = Patterns::new(&busy_sums(), &JobInfo::default());
        assert_eq!(told.mounts[0].path.as_said(), "/scratch");
        assert_eq!(told.mounts[0].kind, None);
    }

    #[test]
    fn files_are_counted_by_what_was_done_to_them() {
        let counts = Patterns::new(&busy_sums(), &JobInfo::default()).file_counts;
        assert_eq!((counts.total.files, counts.read_only.files, counts.write_only.files), (5, 1, 4));
        assert_eq!(counts.write_only.most_bytes, 16.0 * 1_048_576.0);
    }

    #[test]
    fn requests_that_were_seen_are_counted_in_darshans_ranges() {
        let sizes = &Patterns::new(&busy_sums(), &JobInfo::default()).request_sizes[0];
        let used: Vec<_> = (sizes.ranges.iter())
            .filter(|range| range.reads > 0 || range.writes > 0)
            .map(|range| (range.from_bytes, range.reads, range.writes))
            .collect();
        assert_eq!(used, [(0, 4, 0), (100 << 10, 0, 64)]);
    }
}
