//! Metrics for Prometheus.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, PoisonError};

use iotide_ledger::tree::{KnownNode, NodeNews};
use iotide_ledger::{Cell, Counters, Exposition, Format, JobId, Kind, Measure, SystemCounter, Word};
use iotide_private::{OTHERS, Shares};
use iotide_wire::Op;

use crate::answer::{Answer, Answers, Asked, Known, Result, Viewer};
use crate::exporters::Exporters;
use crate::redis::Published;
use crate::refusal::Refusal;
use crate::remote_write::{self, Written};
use iotide_alarms::{Alarms, RouteFigures};
use iotide_daemon::collect::{GroupJob, NodeReading};
use iotide_daemon::leaf::{JobView, View};
use iotide_daemon::predict::Expectations;
use iotide_daemon::series::Series;

/// Jobs that have series of their own; the rest is in the sums, and counted.
const MOST_JOBS: usize = 500;

/// File systems of machines below that are shown by name.
const MOST_BELOW: usize = 64;
/// The name of all other file systems.
const OTHER: &str = "other";

/// Data that are shown: the view, and all beside it.
pub(crate) struct Of<'a> {
    pub(crate) view: &'a View,
    pub(crate) started_ns: u64,
    pub(crate) store_fault: bool,
    pub(crate) series: &'a Series,
    pub(crate) alarms: &'a Alarms,
    /// Outcome of publishing models to Redis, if it is used.
    pub(crate) published: Option<&'a Published>,
    pub(crate) node: &'a NodeReading,
    pub(crate) groups: &'a [GroupJob],
    /// The nodes of the tree, as far as they are known.
    pub(crate) nodes: &'a [NodeNews],
    pub(crate) written: &'a [Arc<Written>],
    pub(crate) exporters: &'a Exporters,
    /// Who asks.
    pub(crate) viewer: Viewer,
    pub(crate) expectations: &'a Expectations,
    /// Whether a job is shown.
    pub(crate) shows: &'a dyn Fn(&JobView) -> bool,
    /// Whether the sums of the machine are asked for.
    pub(crate) with_sums: bool,
    /// Resources that are divided among users, by name.
    pub(crate) shares: &'a [(&'static str, &'a Shares)],
}

impl Answers {
    /// Answers Prometheus in the format that it prefers.
    pub(crate) fn metrics(&self, viewer: Viewer, asked: &Asked, format: Format) -> Result<Answer> {
        let view = self.shared.view();
        let job = asked.get("job");
        if job.is_some() && [Viewer::Sums, Viewer::Controller].contains(&viewer) {
            return Err(Refusal::new(401, "over TCP, series of jobs are shown to who has the token only"));
        }
        let job = job.map(|id| self.running_job(viewer, id, &view)).transpose()?;
        let node = asked.get("node");
        if node.is_some_and(|node| node != view.node.as_str()) {
            return Err(Refusal::new(404, "there is no such node"));
        }
        let shows = |live: &JobView| {
            node.is_none() && viewer.sees(&live.key) && job.as_ref().is_none_or(|job| live.key.id == *job)
        };
        let store_fault = self.shared.store_fault.read().unwrap_or_else(PoisonError::into_inner).is_some();
        let machine = self.shared.node();
        let now = crate::shared::now_ns();
        let news = |known: &KnownNode| NodeNews { silent_ns: known.silent_ns(now), ..known.news.clone() };
        let nodes: Vec<NodeNews> =
            self.shared.tree.as_ref().map_or_else(Vec::new, |tree| tree.hub().nodes().map(news).collect());
        let of = Of {
            view: &view,
            node: &machine,
            groups: &self.shared.groups(),
            nodes: &nodes,
            written: &self.shared.written,
            exporters: &self.shared.exporters,
            viewer,
            expectations: &self.shared.expectations,
            started_ns: self.shared.started_ns,
            store_fault,
            series: &self.shared.series,
            alarms: &self.shared.alarms,
            published: self.shared.config.redis.as_ref().map(|_| &self.shared.published),
            shows: &shows,
            with_sums: job.is_none(),
            shares: &self.shared.shares(),
        };
        let text = exposition(&of, format);
        Ok(Answer { status: 200, content_type: format.content_type(), body: text.into() })
    }

    /// The id of a job that runs, by its id or another name of it.
    fn running_job(&self, viewer: Viewer, id: &str, view: &View) -> Result<JobId> {
        match self.find_job(viewer, id, view)? {
            Known::Live(live, _) => Ok(live.key.id.clone()),
            Known::Stored(ended) => {
                let id = ended.key.id;
                Err(Refusal::new(404, format!("job {id} has ended; its totals are at /api/1/jobs/{id}")))
            }
        }
    }
}

/// Writes the exposition.
fn exposition(of: &Of<'_>, format: Format) -> String {
    let mut text = Exposition::new(format);
    if of.with_sums {
        sums(&mut text, of);
        itself(&mut text, of);
        machine(&mut text, of.view.node.as_str(), of.node);
        remote_write::exposition(&mut text, of.written);
        alarms(&mut text, of.alarms);
        if let Some(published) = of.published {
            published.exposition(&mut text);
        }
    }
    refusals(&mut text, of);
    jobs(&mut text, of);
    if of.with_sums {
        of.exporters.exposition(&mut text, of.view.node.as_str(), of.viewer);
    }
    text.finish()
}

/// How often users were refused a share: all to who sees everything, and to a user what is own.
fn refusals(text: &mut Exposition, of: &Of<'_>) {
    let mut family = text.family(
        "iotide_daemon_refused_total",
        Kind::Counter,
        "Requests of users beyond their share of a resource.",
    );
    let sees = |uid: u32| of.viewer == Viewer::All || of.viewer == Viewer::User(uid);
    for (resource, shares) in of.shares {
        for (uid, n) in shares.refused().into_iter().filter(|(uid, _)| sees(*uid)) {
            let uid = if uid == OTHERS { "other".to_owned() } else { uid.to_string() };
            family.sample(&[("resource", resource), ("uid", &uid)], n);
        }
    }
}

/// Bytes by file system and operation. Programs name file systems, so that a user could make up any number of names: those that are not mounted on
/// this machine are `other`. Of machines below, whose mounts are not known here, the largest are shown to who sees everything.
fn by_file_system<'a>(
    [here, below]: [&'a Counters; 2],
    sees_all: bool,
    mounts: &BTreeSet<Vec<u8>>,
) -> BTreeMap<(&'a str, &'a str), u64> {
    let moved = |counters: &'a Counters| {
        let calls = counters.io_calls().filter(|calls| calls.cell.bytes > 0);
        calls.map(|calls| (calls.fs.as_str(), calls.op.as_str(), calls.cell.bytes))
    };
    let mut elsewhere: BTreeMap<&str, u64> = BTreeMap::new();
    if sees_all {
        moved(below).for_each(|(fs, _, bytes)| *elsewhere.entry(fs).or_default() += bytes);
    }
    let mut largest: Vec<(u64, &str)> = elsewhere.into_iter().map(|(fs, bytes)| (bytes, fs)).collect();
    largest.sort_unstable_by(|one, other| other.cmp(one));
    let largest: HashSet<&str> = largest.into_iter().take(MOST_BELOW).map(|(_, fs)| fs).collect();
    let mut by_fs = BTreeMap::new();
    let mut add = |(fs, op, bytes), is_shown| {
        *by_fs.entry((if is_shown { fs } else { OTHER }, op)).or_default() += bytes;
    };
    let is_here = |fs: &str| mounts.contains(fs.as_bytes());
    moved(here).for_each(|row| add(row, is_here(row.0)));
    moved(below).for_each(|row| add(row, is_here(row.0) || largest.contains(row.0)));
    by_fs
}

/// All jobs together, by node and by file system.
fn sums(text: &mut Exposition, of: &Of<'_>) {
    let (view, node) = (of.view, of.view.node.as_str());
    let by_op = view.total.by_op();
    let mut family =
        text.family("iotide_node_io_bytes_total", Kind::Counter, "Bytes moved by all jobs of a node.");
    for (op, cell) in by_op.iter() {
        family.sample(&[("node", node), ("op", op.as_str())], cell.bytes);
    }
    let others = || of.nodes.iter().filter(|other| other.node.as_str() != node);
    for other in others() {
        let name = other.node.as_str();
        family.sample(&[("node", name), ("op", "read")], other.bytes_read);
        family.sample(&[("node", name), ("op", "write")], other.bytes_written);
    }
    let mut family =
        text.family("iotide_node_io_calls_total", Kind::Counter, "I/O calls of all jobs of a node.");
    for (op, cell) in by_op.iter() {
        family.sample(&[("node", node), ("op", op.as_str())], cell.calls);
    }
    let mut family = text.family(
        "iotide_node_io_seconds_total",
        Kind::Counter,
        "Time in I/O calls of all jobs of a node, over all threads.",
    );
    for (op, cell) in by_op.iter() {
        family.sample_ns(&[("node", node), ("op", op.as_str())], cell.ns);
    }
    let mut family =
        text.family("iotide_fs_bytes_total", Kind::Counter, "Bytes moved by all jobs, by file system.");
    let (counters, sees_all) = ([&view.total, &view.elsewhere], of.viewer == Viewer::All);
    for ((fs, op), bytes) in &by_file_system(counters, sees_all, &iotide_private::machine_mounts()) {
        family.sample(&[("fs", fs), ("op", op)], *bytes);
    }
    text.family(
        "iotide_node_mpi_seconds_total",
        Kind::Counter,
        "Time in MPI of all jobs of a node, over all threads.",
    )
    .sample_ns(&[("node", node)], view.total.mpi().ns);
    let mut family = text.family("iotide_node_jobs", Kind::Gauge, "Jobs that run on a node.");
    family.sample(&[("node", node)], view.n_jobs_here() as u64);
    for other in others() {
        family.sample(&[("node", other.node.as_str())], other.jobs);
    }
    let mut family = text.family(
        "iotide_node_silent_seconds",
        Kind::Gauge,
        "How long ago a daemon below was last heard of.",
    );
    for other in others() {
        family.sample_ns(&[("node", other.node.as_str())], other.silent_ns);
    }
    let mut family = text.family(
        "iotide_node_clock_skew_seconds",
        Kind::Gauge,
        "How far the clock of a node below is ahead of that of the daemon above it.",
    );
    for other in others().filter(|other| other.round_trip_ns > 0) {
        family.sample_f64(&[("node", other.node.as_str())], other.skew_ns as f64 / 1e9);
    }
}

/// The daemon.
fn itself(text: &mut Exposition, of: &Of<'_>) {
    text.family("iotide_daemon_info", Kind::Gauge, "The version of the daemon.")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    text.family("iotide_daemon_start_time_seconds", Kind::Gauge, "When the daemon was started, since 1970.")
        .sample_ns(&[], of.started_ns);
    text.family("iotide_daemon_pages", Kind::Gauge, "Counter pages that are read.")
        .sample(&[], of.view.n_pages as u64);
    text.family("iotide_daemon_store_failing", Kind::Gauge, "Whether the store cannot be written to.")
        .sample(&[], of.store_fault.into());
    text.family(
        "iotide_daemon_series_failing",
        Kind::Gauge,
        "Whether metrics over time cannot be stored; counts of jobs are.",
    )
    .sample(&[], of.series.fault().is_some().into());
    let [n_files, n_bytes, n_samples, n_written] = of.series.figures();
    text.family("iotide_daemon_series_files", Kind::Gauge, "Files of metrics over time.")
        .sample(&[], n_files);
    text.family("iotide_daemon_series_bytes", Kind::Gauge, "Bytes of metrics over time.")
        .sample(&[], n_bytes);
    text.family("iotide_daemon_samples_total", Kind::Counter, "Samples of metrics over time.")
        .sample(&[], n_samples);
    text.family(
        "iotide_daemon_series_written_bytes_total",
        Kind::Counter,
        "Bytes written of metrics over time, without what was written again.",
    )
    .sample(&[], n_written);
    let mut family =
        text.family("iotide_daemon_losses_total", Kind::Counter, "What was refused or lost, by reason.");
    for (what, n) in of.view.losses.iter() {
        family.sample(&[("reason", what.as_str())], n);
    }
    let help = "Processes that are not counted unless there is room for them later, by reason.";
    let mut family = text.family("iotide_daemon_refused_processes", Kind::Gauge, help);
    for (what, n) in of.view.refused.iter() {
        family.sample(&[("reason", what.as_str())], n);
    }
}

/// Alarms, and their receivers.
fn alarms(text: &mut Exposition, of: &Alarms) {
    let (n_rules, n_firing) = of.counts();
    text.family("iotide_daemon_alarm_rules", Kind::Gauge, "Alarms that are set up.")
        .sample(&[], n_rules as u64);
    text.family("iotide_daemon_alarms_firing", Kind::Gauge, "Alarms that fire.").sample(&[], n_firing as u64);
    text.family("iotide_daemon_alarms_failing", Kind::Gauge, "Whether alarms cannot be stored.")
        .sample(&[], of.fault().is_some().into());
    let routes = of.routes();
    let mut family = |name: &'static str, kind: Kind, help: &'static str, of: fn(&RouteFigures) -> u64| {
        let mut family = text.family(name, kind, help);
        for route in &routes {
            family.sample(&[("target", &route.target)], of(route));
        }
    };
    let sent = "iotide_daemon_alarm_notifications_total";
    family(sent, Kind::Counter, "Begins and ends of alarms that a receiver took.", |it| it.n_sent);
    let lost = "iotide_daemon_alarm_notifications_lost_total";
    let help = "Begins and ends of alarms that a receiver refused, or that waited too long for it.";
    family(lost, Kind::Counter, help, |it| it.n_lost);
    let waiting = "iotide_daemon_alarm_notifications_waiting";
    family(waiting, Kind::Gauge, "Begins and ends of alarms that wait for a receiver.", |it| it.n_waiting);
    let failing = "iotide_daemon_alarm_notifications_failing";
    let help = "Whether a receiver of alarms did not take what it was last sent.";
    family(failing, Kind::Gauge, help, |it| it.is_failing.into());
}

/// Writes the metrics of the machine itself.
fn machine(text: &mut Exposition, node: &str, of: &NodeReading) {
    let mut family = text.family(
        "iotide_node_cpu_seconds_total",
        Kind::Counter,
        "Time of all processors, by what it was spent on.",
    );
    for (mode, ns) in &of.cpu_ns {
        family.sample_ns(&[("node", node), ("mode", mode)], *ns);
    }
    if let Some([one, five, fifteen]) = of.load {
        text.family("iotide_node_load1", Kind::Gauge, "Load average over a minute.")
            .sample_f64(&[("node", node)], one);
        text.family("iotide_node_load5", Kind::Gauge, "Load average over 5 minutes.")
            .sample_f64(&[("node", node)], five);
        text.family("iotide_node_load15", Kind::Gauge, "Load average over 15 minutes.")
            .sample_f64(&[("node", node)], fifteen);
    }
    if let Some(hertz) = of.frequency_hz {
        text.family("iotide_node_cpu_frequency_hertz", Kind::Gauge, "Mean frequency of the processors.")
            .sample_f64(&[("node", node)], hertz);
    }
    if let Some((all, available)) = of.memory {
        text.family("iotide_node_memory_bytes", Kind::Gauge, "Memory of the node.")
            .sample(&[("node", node)], all);
        text.family("iotide_node_memory_available_bytes", Kind::Gauge, "Memory that programs could have.")
            .sample(&[("node", node)], available);
    }
    moved_by_machine(text, node, of);
    let mut family = text.family("iotide_node_temperature_celsius", Kind::Gauge, "Temperature at a sensor.");
    for (sensor, degrees) in &of.temperatures {
        family.sample_f64(&[("node", node), ("sensor", sensor)], *degrees);
    }
}

/// Bytes by device, interface and file system, in both directions.
fn moved_by_machine(text: &mut Exposition, node: &str, of: &NodeReading) {
    let mut pairs = |names: [&'static str; 2],
                     helps: [&'static str; 2],
                     label: &str,
                     kind: Kind,
                     values: &[(String, u64, u64)]| {
        let mut family = text.family(names[0], kind, helps[0]);
        for (name, first, _) in values {
            family.sample(&[("node", node), (label, name)], *first);
        }
        let mut family = text.family(names[1], kind, helps[1]);
        for (name, _, second) in values {
            family.sample(&[("node", node), (label, name)], *second);
        }
    };
    pairs(
        ["iotide_node_disk_read_bytes_total", "iotide_node_disk_written_bytes_total"],
        ["Bytes read from a disk.", "Bytes written to a disk."],
        "device",
        Kind::Counter,
        &of.disks,
    );
    pairs(
        ["iotide_node_network_receive_bytes_total", "iotide_node_network_transmit_bytes_total"],
        ["Bytes received at an interface.", "Bytes sent at an interface."],
        "interface",
        Kind::Counter,
        &of.network,
    );
    pairs(
        ["iotide_node_filesystem_size_bytes", "iotide_node_filesystem_free_bytes"],
        ["Size of a file system on a local device.", "Room for users on a file system on a local device."],
        "mount",
        Kind::Gauge,
        &of.space,
    );
    pairs(
        ["iotide_node_lustre_read_bytes_total", "iotide_node_lustre_written_bytes_total"],
        ["Bytes read by the Lustre client of a node.", "Bytes written by the Lustre client of a node."],
        "fs",
        Kind::Counter,
        &of.lustre,
    );
    pairs(
        ["iotide_node_nfs_read_bytes_total", "iotide_node_nfs_written_bytes_total"],
        ["Bytes read from the server of an NFS mount.", "Bytes written to the server of an NFS mount."],
        "mount",
        Kind::Counter,
        &of.nfs,
    );
    pairs(
        ["iotide_node_gluster_read_bytes_total", "iotide_node_gluster_written_bytes_total"],
        ["Bytes read from a brick of GlusterFS.", "Bytes written to a brick of GlusterFS, copies included."],
        "brick",
        Kind::Counter,
        &of.gluster,
    );
    pairs(
        ["iotide_node_ceph_read_bytes_total", "iotide_node_ceph_written_bytes_total"],
        ["Bytes that clients read from an OSD of Ceph.", "Bytes that clients wrote to an OSD of Ceph."],
        "osd",
        Kind::Counter,
        &of.ceph,
    );
}

/// A job that has series of its own: its name there, and its I/O by operation.
type Shown<'a> = (String, &'a JobView, BTreeMap<&'a Word<Op>, Cell>);

/// Each job by itself.
fn jobs(text: &mut Exposition, of: &Of<'_>) {
    let mut shown: Vec<Shown<'_>> = Vec::new();
    let mut names = HashSet::new();
    let mut n_left_out = 0;
    for job in of.view.jobs.iter().filter(|job| (of.shows)(job)) {
        if shown.len() >= MOST_JOBS {
            n_left_out += 1;
            continue;
        }
        // Two users may claim one id, and no two series may be the same.
        let mut name = job.key.id.as_str().to_owned();
        while !names.insert(name.clone()) {
            name = format!("{name}@{}", job.key.uid);
        }
        shown.push((name, job, job.counters.by_op()));
    }
    counted_by_jobs(text, &shown);
    counted_by_cgroups(text, of, &shown);
    expected_of_jobs(text, of, &shown);
    if n_left_out > 0 {
        text.family(
            "iotide_daemon_jobs_left_out",
            Kind::Gauge,
            "Running jobs that have no series of their own here.",
        )
        .sample(&[], n_left_out);
    }
}

fn counted_by_jobs(text: &mut Exposition, shown: &[Shown<'_>]) {
    let mut family =
        text.family("iotide_job_info", Kind::Gauge, "A running job, its user and its application.");
    for (name, job, _) in shown {
        let (user, app, called) = (job.about.user.as_str(), job.about.app.as_str(), job.about.name.as_str());
        family.sample(&[("job", name), ("user", user), ("app", app), ("name", called)], 1);
    }
    let mut family = text.family("iotide_job_io_bytes_total", Kind::Counter, "Bytes moved by a job.");
    for (name, _, by_op) in shown {
        for (op, cell) in by_op.iter() {
            family.sample(&[("job", name), ("op", op.as_str())], cell.bytes);
        }
    }
    let mut family = text.family("iotide_job_io_calls_total", Kind::Counter, "I/O calls of a job.");
    for (name, _, by_op) in shown {
        for (op, cell) in by_op.iter() {
            family.sample(&[("job", name), ("op", op.as_str())], cell.calls);
        }
    }
    let mut family = text.family(
        "iotide_job_io_seconds_total",
        Kind::Counter,
        "Time in I/O calls of a job, over all threads.",
    );
    for (name, _, by_op) in shown {
        for (op, cell) in by_op.iter() {
            family.sample_ns(&[("job", name), ("op", op.as_str())], cell.ns);
        }
    }
    let mut family =
        text.family("iotide_job_mpi_seconds_total", Kind::Counter, "Time in MPI of a job, over all threads.");
    for (name, job, _) in shown {
        family.sample_ns(&[("job", name)], job.counters.mpi().ns);
    }
    let mut family = text.family("iotide_job_processes", Kind::Gauge, "Processes of a job that run.");
    for (name, job, _) in shown {
        family.sample(&[("job", name)], job.n_running.into());
    }
}

fn counted_by_cgroups(text: &mut Exposition, of: &Of<'_>, shown: &[Shown<'_>]) {
    for declared in SystemCounter::families() {
        let mut family = text.family(declared.name, Kind::Counter, declared.help);
        for (name, job, _) in shown {
            for (value, n) in job.counters.of_system().filter(|(value, _)| value.family == declared) {
                let labels = [("job", name.as_str()), value.label];
                match value.measure {
                    Measure::Time => family.sample_ns(&labels, n),
                    Measure::Count | Measure::Bytes => family.sample(&labels, n),
                };
            }
        }
    }
    let mut family = text.family(
        "iotide_job_memory_bytes",
        Kind::Gauge,
        "Memory of all processes of a job, as its cgroup says.",
    );
    for (name, job, _) in shown {
        let group = GroupJob::of(of.groups, &job.key);
        if let Some(bytes) = group.and_then(|group| group.reading.memory_bytes) {
            family.sample(&[("job", name)], bytes);
        }
    }
}

fn expected_of_jobs(text: &mut Exposition, of: &Of<'_>, shown: &[Shown<'_>]) {
    let expected: Vec<_> =
        shown.iter().filter_map(|(name, job, _)| Some((name, of.expectations.of(&job.key)?))).collect();
    let mut family =
        text.family("iotide_job_period_seconds", Kind::Gauge, "How far apart the I/O phases of a job are.");
    for (name, period_s) in expected.iter().filter_map(|(name, it)| Some((name, it.period_s?))) {
        family.sample_f64(&[("job", name)], period_s);
    }
    let mut family = text.family(
        "iotide_job_next_phase_timestamp_seconds",
        Kind::Gauge,
        "When the next I/O phase of a job begins, since 1970.",
    );
    for (name, next_s) in expected.iter().filter_map(|(name, it)| Some((name, it.next_phase_unix_s?))) {
        family.sample_f64(&[("job", name)], next_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_ledger::{Metric, Name};

    #[test]
    fn names_that_users_make_up_add_no_series() {
        let name = |text: &str| Name::cut(text.as_bytes());
        let row = |fs: &str, bytes| {
            let metric = Metric::Io { op: "write".into(), layer: "posix".into(), fs: name(fs) };
            (metric, Cell { calls: 1, bytes, ns: 1 })
        };
        let forged = (0..5000).map(|n| row(&format!("/forged/{n}"), 1));
        let here: Counters = forged.clone().chain([row("/scratch", 10_000)]).collect();
        let below: Counters = forged.chain([row("/scratch", 1), row("/pfs", 500)]).collect();
        let mounts = BTreeSet::from([b"/scratch".to_vec()]);
        let shown = by_file_system([&here, &below], false, &mounts);
        assert_eq!(shown, [(("/scratch", "write"), 10_001), (("other", "write"), 10_500)].into());
        let shown = by_file_system([&here, &below], true, &mounts);
        assert_eq!(shown[&("/pfs", "write")], 500);
        assert!(shown.len() <= MOST_BELOW + 2);
        assert_eq!(shown.values().sum::<u64>(), 20_501);
    }
}
