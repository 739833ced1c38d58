//! Metrics of jobs and of the machine over time.
//!
//! A thread of its own takes a sample of everything each second, holds a block's worth of them, and writes it out. A disk that is full or does not answer
//! stops this and nothing else: counts of jobs are stored elsewhere, and by another thread.

use std::borrow::{Borrow, Cow};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use iotide_ledger::series::{Columns, MAX_TICKS, MetricAnswer, Rows, Sample, points, samples_of_job};
use iotide_ledger::{Counters, JobKey, Name};
use iotide_private::OpenDir;

use crate::collect::{GroupJob, NodeReading};
use crate::gather::LateJob;
use crate::leaf::View;
use crate::memory;
use crate::store::SeriesLimits;
use crate::store::series::{self, LOSS, SeriesFile, TICKS_A_BLOCK, names_of, names_of_node, names_of_tree};
use late::{LateSamples, Waiting};

const SECOND_NS: u64 = 1_000_000_000;
const DAY_S: u64 = 86_400;
/// After something could not be written, nothing is tried for so long.
const RETRY_NS: u64 = 5 * SECOND_NS;
/// How often files that are too many or too old are looked for.
const SWEEP_NS: u64 = 600 * SECOND_NS;
/// Jobs that have ended and could not be written yet; beyond it they are lost.
const MOST_WAITING: usize = 256;
/// Losses that were not taken over yet.
const MOST_LOSSES: usize = 1000;
/// Days of the machine's that one question reads.
const MOST_DAYS: u64 = 32;

/// Whose metrics they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A job's.
    Job(JobKey),
    /// The machine's, on a day since 1970.
    Node {
        /// Which machine.
        node: String,
        /// Which day.
        day: u64,
    },
    /// That of this machine and all below, on a day since 1970.
    Tree {
        /// Which day.
        day: u64,
    },
}

impl Owner {
    /// Who has the sum of all jobs on a day: the tree, where there are machines below.
    pub fn of_all(view: &View, day: u64) -> Self {
        match view.elsewhere.is_empty() {
            true => Self::Node { node: view.node.to_string(), day },
            false => Self::Tree { day },
        }
    }

    fn names(&self) -> (String, String) {
        match self {
            Self::Job(key) => names_of(key),
            Self::Node { node, day } => names_of_node(node, *day),
            Self::Tree { day } => names_of_tree(*day),
        }
    }
}

/// Samples over time, for those who ask and those who report.
#[derive(Clone, Debug)]
pub struct Series(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    folder: OpenDir,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// Samples that are not in their file yet.
    open: HashMap<Owner, Open>,
    /// Losses, for the database.
    losses: Vec<(Option<JobKey>, String)>,
    fault: Option<String>,
    n_bytes: u64,
    n_files: u64,
    /// Samples that were added, and bytes that were written of them.
    n_samples: u64,
    n_written: u64,
}

#[derive(Clone, Debug, Default)]
struct Open {
    /// The same as its file has, until there is a new one.
    columns: Arc<Columns>,
    rows: Rows,
    /// How long the file is that these follow.
    length: u64,
}

/// Metrics of one owner, as they were found.
#[derive(Debug, Default)]
pub struct Found {
    /// The metrics' names.
    pub columns: Columns,
    /// Their values, in pieces of time.
    pub pieces: Vec<Rows>,
    /// Missing parts of them, in words.
    pub losses: Vec<String>,
}

/// A metric of what was found; `None` if there is none of its name, and no points if there are no values.
pub fn of_metric(
    found: &[impl Borrow<Found>],
    name: &Name,
    span: (u64, u64),
    most: usize,
) -> Option<MetricAnswer> {
    let metric = name.as_str();
    let found = || found.iter().map(Borrow::borrow);
    let kind = found().find_map(|found| Some(found.columns.find(metric)?.1))?;
    // Numbers of columns are those of a file: one that has another number there is brought to that of the first.
    let mut pieces = Vec::new();
    for found in found() {
        let Some((id, _)) = found.columns.find(metric).filter(|(_, of)| *of == kind) else { continue };
        pieces.extend(found.pieces.iter().map(move |rows| (id, rows)));
    }
    let folds = pieces.iter().map(|(_, rows)| rows.folds()).max().unwrap_or(0);
    let mut column = Rows::new(folds);
    for (id, rows) in pieces {
        column.append_column(0, rows, id);
    }
    let points = points([&column].into_iter(), 0, span, most);
    Some(MetricAnswer { name: name.clone(), kind, points })
}

impl Series {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why nothing can be written now.
    pub fn fault(&self) -> Option<String> {
        self.held().fault.clone()
    }

    /// Whether something was lost.
    pub fn has_losses(&self) -> bool {
        !self.held().losses.is_empty()
    }

    /// Takes over what was lost.
    pub fn take_losses(&self) -> Vec<(Option<JobKey>, String)> {
        std::mem::take(&mut self.held().losses)
    }

    /// Gives back what could not be taken over.
    pub fn give_back(&self, losses: Vec<(Option<JobKey>, String)>) {
        self.held().losses.extend(losses);
    }

    /// Files and their bytes, samples added and bytes written since the start.
    pub fn figures(&self) -> [u64; 4] {
        let held = self.held();
        [held.n_files, held.n_bytes, held.n_samples, held.n_written]
    }

    /// Finds the metrics of an owner: all names, and the values of the columns that are wanted.
    pub fn find(&self, owner: &Owner, wants: impl Fn(&str) -> bool) -> io::Result<Found> {
        let (name, said) = owner.names();
        // While it is read, the file may be folded into another; then once more.
        for _ in 0..3 {
            let open = self.held().open.get(owner).cloned();
            let most = open.as_ref().map_or(u64::MAX, |open| open.length);
            let heads = series::read(&self.0.folder, (&name, &said), most, |_, _| false, |_, _| {})?;
            let mut columns = heads.columns.clone();
            if let Some(open) = &open {
                columns.learn(&open.columns);
            }
            let is_wanted =
                |id: u32| columns.iter().any(|(known, name, _)| known == id && wants(name.as_str()));
            let mut pieces = Vec::new();
            series::read(
                &self.0.folder,
                (&name, &said),
                most,
                |_, id| is_wanted(id),
                |_, rows| pieces.push(rows),
            )?;
            let is_same =
                open.as_ref().map(|open| open.length) == self.held().open.get(owner).map(|open| open.length);
            if is_same {
                pieces.extend(open.map(|open| open.rows));
                return Ok(Found { columns, pieces, losses: heads.loss().into_iter().collect() });
            }
        }
        Err(io::Error::other("it changes all the time"))
    }

    /// The same of an owner that has a file for each day, between two seconds since 1970.
    pub fn find_days(
        &self,
        on: impl Fn(u64) -> Owner,
        (from_s, to_s): (u64, u64),
        wants: impl Fn(&str) -> bool,
    ) -> io::Result<Vec<Found>> {
        let last = to_s / DAY_S;
        let first = (from_s / DAY_S).max(last.saturating_sub(MOST_DAYS - 1));
        let days = first..=last;
        days.map(|day| self.find(&on(day), &wants)).collect()
    }
}

/// A sample of everything.
struct Tick {
    now_ns: u64,
    view: Arc<View>,
    node: Arc<NodeReading>,
    groups: Arc<Vec<GroupJob>>,
    /// Of jobs that have ended since the one before.
    last: Vec<Last>,
    /// Late counts of earlier samples.
    late: Vec<LateJob>,
}

/// The last sample of a job: it has all that the job ever counted.
#[derive(Clone, Debug)]
pub struct Last {
    /// When it was taken, in nanoseconds since 1970.
    pub now_ns: u64,
    /// Which job.
    pub key: JobKey,
    /// Its counts.
    pub counters: Counters,
}

/// Last samples that were not in time and are held for the next one; beyond it they are left out.
const MOST_LAST: usize = 4096;
/// Late counts of earlier samples that wait for the next one; beyond it they are left out.
const MOST_LATE: usize = 1 << 16;

/// The thread. It writes what it holds when this is dropped.
#[derive(Debug)]
pub struct Sampling {
    ticks: Option<SyncSender<Tick>>,
    thread: Option<JoinHandle<()>>,
    /// For the next sample.
    last: Vec<Last>,
    late: Vec<LateJob>,
}

impl Sampling {
    /// Starts it, with the directory of the store.
    pub fn start(store: &Path, limits: SeriesLimits) -> io::Result<(Self, Series)> {
        let folder = series::open_directory(store)?;
        // The daemon listens at its sockets by now: no other one works on this store.
        for left in [&folder, &OpenDir::open(store)?] {
            left.remove_parts()?;
        }
        let series = Series(Arc::new(Shared { folder, held: Mutex::default() }));
        let (ticks, told) = sync_channel(4);
        let keeper = Keeper::new(series.clone(), limits);
        let work = move || keeper.run(&told);
        let thread = thread::Builder::new().name("iotide-series".to_owned()).spawn(work)?;
        Ok((Self { ticks: Some(ticks), thread: Some(thread), last: Vec::new(), late: Vec::new() }, series))
    }

    /// Takes the last sample of a job along with the next one of all.
    pub fn tell_last(&mut self, last: Last) {
        if self.last.len() < MOST_LAST {
            self.last.push(last);
        }
    }

    /// Takes what was learnt of earlier samples along with the next one.
    pub fn tell_late(&mut self, late: Vec<LateJob>) {
        let n_free = MOST_LATE.saturating_sub(self.late.len());
        self.late.extend(late.into_iter().take(n_free));
    }

    /// Takes a sample; nobody waits. What is not in time is left out: counters are cumulative, so the next one has it.
    pub fn tell(&mut self, now_ns: u64, view: Arc<View>, node: Arc<NodeReading>, groups: Arc<Vec<GroupJob>>) {
        if let Some(ticks) = &self.ticks {
            let (last, late) = (std::mem::take(&mut self.last), std::mem::take(&mut self.late));
            let tick = Tick { now_ns, view, node, groups, last, late };
            if let Err(TrySendError::Full(tick)) = ticks.try_send(tick) {
                (self.last, self.late) = (tick.last, tick.late);
            }
        }
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        drop(self.ticks.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Keeper {
    series: Series,
    limits: SeriesLimits,
    files: HashMap<Owner, SeriesFile>,
    /// Owners that have ended and are to be written, as far as that is possible.
    ended: Vec<Owner>,
    /// Ticks that had to be left out since something was last written.
    left_out: HashMap<Owner, u64>,
    /// Owners that could not be written the last time.
    failing: HashSet<Owner>,
    retry_ns: u64,
    sweep_ns: u64,
    late: LateSamples,
}

impl Keeper {
    fn new(series: Series, limits: SeriesLimits) -> Self {
        Self {
            series,
            limits,
            files: HashMap::new(),
            ended: Vec::new(),
            left_out: HashMap::new(),
            failing: HashSet::new(),
            retry_ns: 0,
            sweep_ns: 0,
            late: LateSamples::default(),
        }
    }

    fn run(mut self, told: &Receiver<Tick>) {
        let mut now_ns = 0;
        while let Ok(tick) = told.recv() {
            now_ns = tick.now_ns;
            self.hear(&tick);
        }
        self.amend_all(now_ns, |_| true);
        // The end: what is held is written.
        let owners: Vec<Owner> = self.series.held().open.keys().cloned().collect();
        for owner in owners {
            let _ = self.write(now_ns, &owner);
        }
    }

    fn hear(&mut self, tick: &Tick) {
        let (now_ns, second) = (tick.now_ns, tick.now_ns / SECOND_NS);
        let node = Owner::Node { node: tick.view.node.to_string(), day: second / DAY_S };
        let mut there = HashSet::from([node.clone()]);
        let mut samples = samples_of_node(&tick.node);
        let n_pages = u32::try_from(tick.view.n_pages).unwrap_or(u32::MAX);
        samples.extend(samples_of_job(&tick.view.total, n_pages));
        self.add(now_ns, &node, &samples);
        if !tick.view.elsewhere.is_empty() {
            let mut total = tick.view.total.clone();
            total.add_all(&tick.view.elsewhere);
            let n_running = tick.view.jobs.iter().map(|job| job.n_running).fold(0, u32::saturating_add);
            let tree = Owner::Tree { day: second / DAY_S };
            self.add(now_ns, &tree, &samples_of_job(&total, n_running));
            there.insert(tree);
        }
        for last in &tick.last {
            self.add(last.now_ns, &Owner::Job(last.key.clone()), &samples_of_job(&last.counters, 0));
        }
        for job in &tick.view.jobs {
            let owner = Owner::Job(job.key.clone());
            let mut samples = samples_of_job(&job.counters, job.n_running);
            let memory = GroupJob::of(&tick.groups, &job.key).and_then(|it| it.reading.memory_bytes);
            samples.extend(memory.map(|bytes| ("memory_bytes".into(), Sample::Gauge(bytes as f64))));
            self.add(now_ns, &owner, &samples);
            there.insert(owner);
        }
        tick.late.iter().for_each(|late| self.late.take(second, late));
        self.amend_all(now_ns, |waiting| waiting.is_ripe(second));
        let ended: Vec<Owner> =
            self.series.held().open.keys().filter(|owner| !there.contains(*owner)).cloned().collect();
        // One that goes on is not at its end any more.
        self.ended.retain(|owner| !there.contains(owner));
        for owner in ended {
            if !self.ended.contains(&owner) {
                self.ended.push(owner);
            }
        }
        if now_ns >= self.retry_ns {
            for owner in std::mem::take(&mut self.ended) {
                if let Err(error) = self.end(now_ns, &owner) {
                    self.failed(now_ns, &owner, &error);
                    self.ended.push(owner);
                }
            }
        }
        while self.ended.len() > MOST_WAITING {
            let owner = self.ended.remove(0);
            let n = self.forget(&owner).map_or(0, |open| open.rows.ticks().len() as u64);
            self.succeeded(&owner);
            *self.left_out.entry(owner.clone()).or_default() += n;
            self.say_left_out(&owner);
        }
        if !self.failing.is_empty() {
            // One that could not even be opened goes with its job.
            let ended = &self.ended;
            self.failing.retain(|owner| there.contains(owner) || ended.contains(owner));
            if self.failing.is_empty() {
                self.series.held().fault = None;
            }
        }
        if now_ns >= self.sweep_ns {
            self.sweep_ns = now_ns + SWEEP_NS;
            self.sweep(second);
        }
    }

    /// Adds samples of an owner's, and writes a block if it is full.
    fn add(&mut self, now_ns: u64, owner: &Owner, samples: &[(Cow<'static, str>, Sample)]) {
        let second = now_ns / SECOND_NS;
        let is_known = self.series.held().open.contains_key(owner);
        if !is_known {
            // As far as its file goes, if it can be read; else when it can be written.
            let open = match self.file(now_ns, owner) {
                Ok(file) => Open {
                    columns: Arc::clone(file.columns()),
                    rows: Rows::new(file.folds()),
                    length: file.length(),
                },
                Err(error) => {
                    self.failed(now_ns, owner, &error);
                    return;
                }
            };
            self.series.held().open.insert(owner.clone(), open);
        }
        let is_full = {
            let mut held = self.series.held();
            let Some(open) = held.open.get_mut(owner) else { return };
            let is_new = open.rows.ticks().last().is_none_or(|last| *last < second >> open.rows.folds());
            is_new && open.rows.ticks().len() >= TICKS_A_BLOCK || !open.rows.has_room(samples.len())
        };
        if is_full && now_ns >= self.retry_ns {
            let written = self.write(now_ns, owner);
            if let Err(error) = written.and_then(|()| self.fold_if_large(now_ns, owner)) {
                self.failed(now_ns, owner, &error);
            }
        }
        let mut held = self.series.held();
        let Some(open) = held.open.get_mut(owner) else { return };
        if open.rows.ticks().len() >= MAX_TICKS || !open.rows.has_room(samples.len()) {
            let n = open.rows.ticks().len();
            open.rows.keep_last(n / 2);
            *self.left_out.entry(owner.clone()).or_default() += ((n - n / 2) as u64) << open.rows.folds();
        }
        let Open { columns, rows, .. } = open;
        let of_columns =
            samples.iter().filter_map(|(name, sample)| Some((column_of(columns, name, *sample)?, *sample)));
        rows.add(second, of_columns);
        held.n_samples += samples.len() as u64;
    }

    /// The file of an owner, opened when it is first needed.
    fn file(&mut self, now_ns: u64, owner: &Owner) -> io::Result<&mut SeriesFile> {
        if !self.files.contains_key(owner) {
            let (name, said) = owner.names();
            let (file, loss) = SeriesFile::open(&self.series.0.folder, (&name, &said), now_ns)?;
            if let Some(loss) = loss {
                self.lose(owner, loss);
            }
            self.files.insert(owner.clone(), file);
        }
        self.files.get_mut(owner).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Writes what is held of an owner.
    fn write(&mut self, now_ns: u64, owner: &Owner) -> io::Result<()> {
        let Some(open) = self.series.held().open.get(owner).cloned() else { return Ok(()) };
        if open.rows.is_empty() {
            return Ok(());
        }
        let series = self.series.clone();
        let file = self.file(now_ns, owner)?;
        *file.columns() = open.columns;
        let before = file.length();
        // Outside the lock: whoever asks does not wait for a disk.
        file.append(&series.0.folder, now_ns, &open.rows)?;
        let (length, folds) = (file.length(), file.folds());
        self.succeeded(owner);
        let mut held = series.held();
        held.n_written += length - before;
        if let Some(open) = held.open.get_mut(owner) {
            (open.rows, open.length) = (Rows::new(folds), length);
        }
        drop(held);
        self.say_left_out(owner);
        Ok(())
    }

    /// Puts what was learnt late where it belongs, of those owners of which nothing more is to come.
    fn amend_all(&mut self, now_ns: u64, is_due: impl Fn(&Waiting) -> bool) {
        for (owner, waiting) in self.late.take_due(is_due) {
            if let Err(error) = self.amend(now_ns, &owner, &waiting) {
                self.lose(&owner, format!("{LOSS}what came late could not be stored: {error}"));
            }
        }
    }

    fn amend(&mut self, now_ns: u64, owner: &Owner, waiting: &Waiting) -> io::Result<()> {
        let held = self.series.held().open.get(owner).map(|open| Arc::clone(&open.columns));
        let is_open = held.is_some();
        let mut columns = match held {
            Some(columns) => columns,
            None => Arc::clone(self.file(now_ns, owner)?.columns()),
        };
        let amendment = waiting.amendment(&mut columns);
        let Some(from_s) = amendment.from_s() else { return Ok(()) };
        if let Some(open) = self.series.held().open.get_mut(owner) {
            open.columns = Arc::clone(&columns);
            // All of it is held, with the sample before.
            let from = from_s >> open.rows.folds();
            if open.length == 0 || open.rows.ticks().first().is_some_and(|first| *first < from) {
                let amended = open.rows.amended(&amendment);
                if amended.ticks().len() < MAX_TICKS && amended.has_room(0) {
                    open.rows = amended;
                    return Ok(());
                }
            }
        }
        self.write(now_ns, owner)?;
        let series = self.series.clone();
        let file = self.file(now_ns, owner)?;
        *file.columns() = columns;
        file.amend(&series.0.folder, now_ns, &amendment)?;
        let length = file.length();
        if let Some(open) = series.held().open.get_mut(owner) {
            open.length = length;
        }
        if !is_open {
            self.files.remove(owner);
        }
        Ok(())
    }

    fn fold_if_large(&mut self, now_ns: u64, owner: &Owner) -> io::Result<()> {
        let most = self.limits.file_bytes;
        let series = self.series.clone();
        let Some(file) = self.files.get_mut(owner).filter(|file| file.length() > most) else { return Ok(()) };
        file.rewrite(&series.0.folder, now_ns, true)?;
        if let Some(open) = series.held().open.get_mut(owner) {
            open.length = file.length();
            open.rows = std::mem::take(&mut open.rows).folded_to(file.folds());
            if open.rows.is_empty() {
                open.rows = Rows::new(file.folds());
            }
        }
        Ok(())
    }

    /// Writes the rest of an owner's, all in large blocks, and forgets it.
    fn end(&mut self, now_ns: u64, owner: &Owner) -> io::Result<()> {
        self.write(now_ns, owner)?;
        if let Some(file) = self.files.get_mut(owner).filter(|file| file.is_in_small_blocks()) {
            // What is there can be read as it is, too.
            let _ = file.rewrite(&self.series.0.folder, now_ns, false);
        }
        self.forget(owner);
        Ok(())
    }

    /// Forgets an owner; returns what is not in its file.
    fn forget(&mut self, owner: &Owner) -> Option<Open> {
        self.files.remove(owner);
        memory::shrink(&mut self.files);
        let mut held = self.series.held();
        let open = held.open.remove(owner);
        memory::shrink(&mut held.open);
        open
    }

    fn failed(&mut self, now_ns: u64, owner: &Owner, error: &io::Error) {
        self.failing.insert(owner.clone());
        self.retry_ns = now_ns + RETRY_NS;
        self.series.held().fault = Some(format!("{LOSS}metrics over time are not stored: {error}"));
    }

    /// Nothing is wrong any more once all that failed has been written or is gone.
    fn succeeded(&mut self, owner: &Owner) {
        if self.failing.remove(owner) && self.failing.is_empty() {
            self.series.held().fault = None;
        }
    }

    fn lose(&self, owner: &Owner, what: String) {
        let mut held = self.series.held();
        if held.losses.len() < MOST_LOSSES {
            match owner {
                Owner::Job(key) => held.losses.push((Some(key.clone()), what)),
                Owner::Node { .. } | Owner::Tree { .. } => held.losses.push((None, what)),
            }
        }
    }

    fn say_left_out(&mut self, owner: &Owner) {
        if let Some(n) = self.left_out.remove(owner).filter(|n| *n > 0) {
            self.lose(owner, format!("{LOSS}{n} seconds were not stored: there was no room"));
        }
    }

    fn sweep(&mut self, now_s: u64) {
        let open: HashSet<String> = self.series.held().open.keys().map(|owner| owner.names().0).collect();
        if let Ok(swept) =
            series::sweep(&self.series.0.folder, now_s, &self.limits, |name| open.contains(name))
        {
            let mut held = self.series.held();
            (held.n_files, held.n_bytes) = (swept.n_files, swept.n_bytes);
        }
    }
}

/// Returns the samples of the machine.
pub fn samples_of_node(node: &NodeReading) -> Vec<(Cow<'static, str>, Sample)> {
    let mut samples: Vec<(Cow<'static, str>, Sample)> = Vec::new();
    let mut put = |name: String, sample: Sample| samples.push((name.into(), sample));
    for (mode, ns) in &node.cpu_ns {
        put(format!("cpu_{mode}_ns"), Sample::Counter(*ns));
    }
    for (name, load) in ["load1", "load5", "load15"].into_iter().zip(node.load.into_iter().flatten()) {
        put(name.to_owned(), Sample::Gauge(load));
    }
    if let Some(hertz) = node.frequency_hz {
        put("cpu_frequency_hz".to_owned(), Sample::Gauge(hertz));
    }
    if let Some((_, available)) = node.memory {
        put("memory_available_bytes".to_owned(), Sample::Gauge(available as f64));
    }
    for (disk, read, written) in &node.disks {
        put(format!("disk_read_bytes.{disk}"), Sample::Counter(*read));
        put(format!("disk_written_bytes.{disk}"), Sample::Counter(*written));
    }
    for (interface, received, sent) in &node.network {
        put(format!("network_receive_bytes.{interface}"), Sample::Counter(*received));
        put(format!("network_transmit_bytes.{interface}"), Sample::Counter(*sent));
    }
    let by_kind =
        [("lustre", &node.lustre), ("nfs", &node.nfs), ("gluster", &node.gluster), ("ceph", &node.ceph)];
    for (kind, mounts) in by_kind {
        for (mount, read, written) in mounts {
            put(format!("{kind}_read_bytes.{mount}"), Sample::Counter(*read));
            put(format!("{kind}_written_bytes.{mount}"), Sample::Counter(*written));
        }
    }
    for (sensor, degrees) in &node.temperatures {
        put(format!("temperature_celsius.{sensor}"), Sample::Gauge(*degrees));
    }
    for (mount, _, free) in &node.space {
        put(format!("free_bytes.{mount}"), Sample::Gauge(*free as f64));
    }
    samples
}

/// The column of a metric, which may be new; `None` if it is one of another kind, or there is no room for one more.
fn column_of(columns: &mut Arc<Columns>, name: &str, sample: Sample) -> Option<u32> {
    match columns.find(name) {
        Some((id, kind)) => (kind == sample.kind()).then_some(id),
        None => Arc::make_mut(columns).id_of(name, sample.kind()),
    }
}

mod late;

#[cfg(test)]
mod tests;
