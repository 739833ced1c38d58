//! Text of each issue, and advice on how to fix it.

use iotide_analysis::{Cause, Issue, IssueId};
use iotide_look::text;
use iotide_trace::Layer;

/// Numbers of an issue, by name.
struct Numbers<'a>(&'a Issue);

impl Numbers<'_> {
    fn get(&self, name: &str) -> f64 {
        self.0.evidence.iter().find(|one| one.name == name).map_or(0.0, |one| one.value)
    }
    fn count(&self, name: &str) -> String {
        text::whole_numbers(&format!("{:.0}", self.get(name)))
    }
    fn bytes(&self, name: &str) -> String {
        text::bytes(self.get(name))
    }
    fn seconds(&self, name: &str) -> String {
        text::seconds(self.get(name))
    }
    fn percent(&self, name: &str) -> String {
        text::percent(self.get(name))
    }
}

/// Returns the description of the issue.
pub(super) fn what(issue: &Issue) -> String {
    let n = Numbers(issue);
    let cause = &issue.cause;
    let shared = if cause.is_shared { " on shared files" } else { "" };
    match issue.id {
        IssueId::SmallReads | IssueId::SmallWrites => {
            let way = if issue.id == IssueId::SmallReads { "reads" } else { "writes" };
            let by = if cause.layer == Layer::MpiIo { "MPI-IO " } else { "" };
            format!(
                "{} {by}{way} of {} on average{shared} take the busiest rank {}",
                n.count("calls"),
                n.bytes("request_bytes"),
                n.seconds("busiest_rank_s")
            )
        }
        IssueId::RandomReads | IssueId::RandomWrites => {
            let way = if issue.id == IssueId::RandomReads { "reads" } else { "writes" };
            format!(
                "{} {way} ({}) go back in their file, in requests of {}",
                n.count("calls"),
                n.percent("share"),
                n.bytes("request_bytes")
            )
        }
        IssueId::Misaligned => format!(
            "{} calls of several ranks are not aligned to {}, in requests of {}",
            n.count("calls"),
            n.bytes("alignment_bytes"),
            n.bytes("request_bytes")
        ),
        IssueId::WriteAmplification | IssueId::ReadAmplification => amplification(issue, &n),
        IssueId::MpiioOverhead => format!(
            "ranks spend {} in MPI-IO, and only {} of it in the calls beneath",
            n.seconds("mpi_io_s"),
            n.seconds("posix_s")
        ),
        IssueId::FewAggregators => format!(
            "{} of {} ranks move the data of all; the slowest takes {}",
            n.count("aggregators"),
            n.count("ranks"),
            n.seconds("slowest_aggregator_s")
        ),
        IssueId::FewTargets => format!(
            "the file is on {} of {} storage targets; I/O on it takes the busiest rank {}",
            n.count("targets"),
            n.count("targets_known"),
            n.seconds("busiest_rank_s")
        ),
        IssueId::SharedContention => format!(
            "a rank writes {} to a shared file and {} to a file of its own",
            text::bandwidth(n.get("shared_bps")),
            text::bandwidth(n.get("own_bps"))
        ),
        IssueId::LowBandwidth => format!(
            "files move {} where others of the same kind and size move {}",
            text::bandwidth(n.get("bps")),
            text::bandwidth(n.get("best_bps"))
        ),
        _ => what_of_ranks_and_calls(issue, &n),
    }
}

fn amplification(issue: &Issue, n: &Numbers) -> String {
    let (asked, moved) = (n.bytes("asked_bytes"), n.bytes("moved_bytes"));
    if issue.id == IssueId::ReadAmplification {
        return match n.get("asked_bytes") > 0.0 {
            true => format!("{moved} are read for {asked} asked for"),
            false => format!("{} reads ({moved}) of files that MPI-IO only writes", n.count("calls")),
        };
    }
    match n.get("reads_before_writes_s") > 0.0 {
        true => format!(
            "{moved} are written for {asked} asked for, and read before they are written (data sieving)"
        ),
        false => format!("{moved} are written for {asked} asked for"),
    }
}

fn what_of_ranks_and_calls(issue: &Issue, n: &Numbers) -> String {
    let rank = issue.ranks.first().map_or("one rank".to_owned(), |rank| format!("rank {rank}"));
    match issue.id {
        IssueId::SingleRankIo => {
            format!("{rank} moves nearly all bytes ({}) in {}", n.bytes("most_bytes"), n.seconds("rank_s"))
        }
        IssueId::RankImbalance => format!(
            "{rank} moves {}, {:.1} times the mean",
            n.bytes("most_bytes"),
            n.get("most_bytes") / n.get("mean_bytes").max(1.0)
        ),
        IssueId::Stragglers => format!(
            "{rank} needs {} for as many bytes as the median rank moves in {}",
            n.seconds("slowest_s"),
            n.seconds("median_s")
        ),
        IssueId::SlowTarget => format!(
            "files on {} need {:.0} times longer per byte than on the median OST; {rank} needs {}, the median rank {}",
            targets(&issue.cause),
            n.get("target_factor"),
            n.seconds("slowest_s"),
            n.seconds("median_s")
        ),
        IssueId::MissingCollectives => format!(
            "{} MPI-IO calls of {} on shared files are independent",
            n.count("independent_calls"),
            n.bytes("request_bytes")
        ),
        IssueId::RedundantReads => {
            format!("{} are read of {} of data", n.bytes("bytes"), n.bytes("extent_bytes"))
        }
        IssueId::RedundantWrites => {
            let why = if issue.cause.is_fill { " (HDF5 writes fill values first)" } else { "" };
            format!("{} are written into {} of data{why}", n.bytes("bytes"), n.bytes("extent_bytes"))
        }
        IssueId::ExcessiveSync => format!(
            "{} syncs for {} writes take the busiest rank {}",
            n.count("syncs"),
            n.count("writes"),
            n.seconds("busiest_rank_s")
        ),
        IssueId::StdioBulk => format!(
            "{} pass through C streams in {} calls of {}",
            n.bytes("bytes"),
            n.count("calls"),
            n.bytes("request_bytes")
        ),
        IssueId::BlockingIo => format!(
            "{} write phases block for {}; non-blocking I/O is not used",
            n.count("write_phases"),
            n.seconds("busiest_rank_s")
        ),
        _ => what_of_metadata_and_phases(issue, n),
    }
}

fn what_of_metadata_and_phases(issue: &Issue, n: &Numbers) -> String {
    match issue.id {
        IssueId::MetadataTime => format!(
            "the busiest rank spends {} in opens, stats, seeks and the like",
            n.seconds("busiest_rank_s")
        ),
        IssueId::OpenCloseChurn => format!(
            "files are opened {} times by each rank, which takes {}",
            n.count("opens_per_rank"),
            n.seconds("busiest_rank_s")
        ),
        IssueId::ManySmallFiles => format!(
            "{} files per rank, most below 1 MiB; opening them takes {}",
            n.count("files_per_rank"),
            n.seconds("busiest_rank_s")
        ),
        IssueId::FilePerProcess => format!(
            "{} files of {} processes; opening them takes {}",
            n.count("files"),
            n.count("ranks"),
            n.seconds("busiest_rank_s")
        ),
        IssueId::StatStorm => format!(
            "attributes of a file are asked for {} times by each rank, which takes {}",
            n.count("stats_per_rank"),
            n.seconds("busiest_rank_s")
        ),
        _ => format!(
            "{} of {} phases of like bytes are slow: {} where the median is {}",
            n.count("slow_phases"),
            n.count("phases"),
            n.seconds("slowest_s"),
            n.seconds("median_s")
        ),
    }
}

fn targets(cause: &Cause) -> String {
    let ids: Vec<String> = cause.targets.iter().take(8).map(u32::to_string).collect();
    let more = if cause.targets.len() > ids.len() { " and others" } else { "" };
    format!("OST {}{more}", ids.join(", "))
}

/// A folder for a shell.
fn folder(cause: &Cause) -> String {
    let path = cause.directory.as_deref().unwrap_or("DIR");
    let is_plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+:@=".contains(&byte));
    if is_plain { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

/// Returns the advice, and the line to type.
pub(super) fn fix(issue: &Issue) -> (&'static str, Option<String>) {
    let n = Numbers(issue);
    let cause = &issue.cause;
    let is_lustre = cause.file_system.as_deref() == Some("lustre");
    match issue.id {
        IssueId::SmallReads | IssueId::SmallWrites => small(cause),
        IssueId::RandomReads | IssueId::RandomWrites => {
            ("sort the requests by offset, or read larger blocks and pick from them in memory", None)
        }
        IssueId::Misaligned => {
            let alignment = n.get("alignment_bytes");
            let command = match cause.is_hdf5 {
                true => format!("H5Pset_alignment(fapl, 1048576, {alignment:.0})"),
                false => format!("MPI_Info_set(info, \"striping_unit\", \"{alignment:.0}\")"),
            };
            ("let each rank write whole blocks of the file system", Some(command))
        }
        IssueId::WriteAmplification | IssueId::ReadAmplification => (
            "switch data sieving off and let collective buffering gather the requests (hints for ROMIO)",
            Some("romio_ds_write disable, romio_ds_read disable, romio_cb_write enable, cb_buffer_size 16777216".to_owned()),
        ),
        IssueId::MpiioOverhead if cause.is_hdf5 => (
            "let HDF5 do its metadata collectively, and hand in fewer, larger requests",
            Some("H5Pset_all_coll_metadata_ops(fapl, 1); H5Pset_coll_metadata_write(fapl, 1)".to_owned()),
        ),
        IssueId::MpiioOverhead => {
            ("set views and hints once, hand in larger requests, and do not use shared file pointers or atomic mode", None)
        }
        IssueId::FewAggregators => (
            "let more ranks move the data",
            Some(format!("export MPICH_MPIIO_HINTS='*:cb_nodes={0:.0}' (ROMIO_HINTS file: cb_nodes {0:.0})", n.get("aggregators_wanted"))),
        ),
        IssueId::FewTargets => (
            "spread the file over more storage targets before it is written",
            Some(format!("lfs setstripe -c {:.0} -S 4M {}", n.get("targets_wanted"), folder(cause))),
        ),
        IssueId::SlowTarget => (
            "avoid the slow target and tell the operators",
            Some(format!("lfs find --ost {} {}", cause.targets.first().copied().unwrap_or(0), folder(cause))),
        ),
        IssueId::SharedContention => ("write with collective calls, or a file for each node", Some("MPI_File_write_at_all".to_owned())),
        IssueId::LowBandwidth => ("compare how these files are laid out and who else uses their storage", is_lustre.then(|| format!("lfs getstripe {}", folder(cause)))),
        _ => fix_of_ranks_and_calls(issue, is_lustre),
    }
}

fn small(cause: &Cause) -> (&'static str, Option<String>) {
    if cause.layer == Layer::MpiIo || (cause.is_shared && cause.is_hdf5) {
        return collective(cause);
    }
    ("collect data in memory and move it in requests of 1 MiB or more", None)
}

fn collective(cause: &Cause) -> (&'static str, Option<String>) {
    let command = match cause.is_hdf5 {
        true => "H5Pset_dxpl_mpio(dxpl, H5FD_MPIO_COLLECTIVE)",
        false => "MPI_File_write_at_all (or MPI_File_read_at_all)",
    };
    ("use collective calls, so that few ranks move large blocks", Some(command.to_owned()))
}

fn fix_of_ranks_and_calls(issue: &Issue, is_lustre: bool) -> (&'static str, Option<String>) {
    let cause = &issue.cause;
    match issue.id {
        IssueId::SingleRankIo => {
            ("let all ranks take part, with collective calls", Some("MPI_File_write_at_all".to_owned()))
        }
        IssueId::RankImbalance => ("share the data out evenly over the ranks", None),
        IssueId::Stragglers => ("look at the node of that rank and at the storage of its files", None),
        IssueId::MissingCollectives => collective(cause),
        IssueId::RedundantReads => (
            "copy the files to node-local storage or keep them in memory",
            Some("sbcast FILE /tmp/FILE".to_owned()),
        ),
        IssueId::RedundantWrites if cause.is_fill => (
            "do not let HDF5 write fill values before the data",
            Some(
                "H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER); netCDF: nc_set_fill(ncid, NC_NOFILL, NULL)"
                    .to_owned(),
            ),
        ),
        IssueId::RedundantWrites => ("write each byte once, or write less often", None),
        IssueId::MetadataTime if cause.layer == Layer::MpiIo => {
            ("open each file once, and set views and hints once instead of before each call", None)
        }
        IssueId::MetadataTime => ("open each file once and keep it open", None),
        IssueId::OpenCloseChurn => ("open the file before the loop and close it after", None),
        IssueId::ManySmallFiles => (
            "put the files into one container (tar, HDF5), or copy them to node-local storage",
            Some("sbcast FILE /tmp/FILE".to_owned()),
        ),
        IssueId::FilePerProcess => (
            "write one file for several processes, or put the files into subdirectories of 1000 each",
            is_lustre.then(|| format!("lfs mkdir -c 4 {}", folder(cause))),
        ),
        IssueId::StatStorm => ("ask for attributes once and keep the answer", None),
        IssueId::ExcessiveSync if cause.layer == Layer::Stdio => {
            ("flush streams once per checkpoint instead of after each line", None)
        }
        IssueId::ExcessiveSync if cause.is_hdf5 => (
            "sync once per checkpoint instead of per write",
            Some("H5Fflush(file, H5F_SCOPE_GLOBAL) once per checkpoint".to_owned()),
        ),
        IssueId::ExcessiveSync => (
            "sync once per checkpoint instead of per write",
            Some("fsync(fd) once per checkpoint".to_owned()),
        ),
        IssueId::StdioBulk => (
            "give the stream a larger buffer, or use POSIX calls of 1 MiB or more",
            Some(
                "setvbuf(f, NULL, _IOFBF, 4 << 20); Python: open(path, \"rb\", buffering=4 << 20)".to_owned(),
            ),
        ),
        IssueId::BlockingIo if cause.layer == Layer::MpiIo => (
            "compute while data move",
            Some("MPI_File_iwrite_at_all, or the asynchronous VOL connector of HDF5".to_owned()),
        ),
        IssueId::BlockingIo => ("write from a thread of its own while the program computes", None),
        _ => ("find out who else used the storage in the slow phases", None),
    }
}
