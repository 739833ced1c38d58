//! `iotide stage out`: files leave the buffer as they are closed.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::Context;
use iotide_private::OpenDir;
use iotide_report::{Document, JobStaging, StageAnswer, Staging};
use iotide_sched::staging::{Controller, Policy, Settings as Rules};
use iotide_stage::{
    Filter, OWN, Order, Pace, Pattern, Plan, Progress, Purge, Settings, Stager, run as keep, run_once,
};

use super::forecast::ForecastArgs;
use super::turns::{Place, TurnArgs, job_id};
use super::worker::{Asked, give_up, work_in_a_child};
use super::{UNSEEN, WRITTEN_AND_READ_BACK, parse_pattern, status_of, told, with_progress};
use crate::ExitStatus;
use crate::commands::OutputArgs;
use crate::commands::ioskel::{parse_seconds, parse_size};
use crate::ui::Ui;

/// Copy files from a buffer as they are closed, in the gaps between I/O phases
///
/// Files that nobody can write to any more are copied to DST under temporary names, synced, read back, compared, and only then
/// renamed. A journal in SRC/.iotide-stage makes it safe to kill this at any time and to start it again. Runs until SIGTERM, SIGINT or SIGUSR1,
/// then copies what is left (a second SIGTERM or SIGINT ends at once, and loses nothing either); SIGUSR2 ends it in good order and leaves the rest where it is;
/// --once copies what is closed now, and ends.
///
/// Exit status: 0 everything is safe, 1 something is left, with reasons, 2 failed.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct OutArgs {
    /// The buffer
    #[arg(value_name = "SRC")]
    src: PathBuf,
    /// Where files go; must exist, unless --make
    #[arg(value_name = "DST")]
    dst: PathBuf,
    /// Make DST if only its last folder is missing
    #[arg(long)]
    make: bool,
    /// Copy what is closed now, and end
    #[arg(long, conflicts_with_all = ["follow", "listen", "predictions"])]
    once: bool,
    /// When to copy: between I/O phases, at once, when the buffer is above its high-water mark, or when the job is over
    #[arg(long, value_enum, default_value_t = PolicyName::Gap, value_name = "POLICY")]
    policy: PolicyName,
    /// Files to remove from SRC once they are safe: none, the oldest when room is needed, or every file
    #[arg(long, value_enum, default_value_t = PurgeName::Never, value_name = "WHAT")]
    purge: PurgeName,
    /// How long a file must not have changed
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = parse_seconds)]
    quiet: f64,
    /// How many files to copy at once
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Copy no faster than SIZE per second
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    bandwidth: Option<u64>,
    /// How long the last copies may take once the job is over; then what is left is reported
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    deadline: Option<f64>,
    /// How long the destination may take to answer; then it is reported as stuck, and once the job is over this ends
    #[arg(long, default_value = "1min", value_name = "TIME", value_parser = parse_seconds)]
    answer_timeout: f64,
    /// End with this process, and leave the rest where it is
    #[arg(long = "while", value_name = "PID", conflicts_with = "once", value_parser = clap::value_parser!(i32).range(1..))]
    only_while: Option<i32>,
    /// Maximum size of the buffer [default: its file system]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    capacity: Option<u64>,
    /// The share of the capacity that should not be exceeded
    #[arg(long, default_value_t = 0.85, value_name = "SHARE", value_parser = parse_share)]
    high_water: f64,
    #[command(flatten)]
    forecast: ForecastArgs,
    #[command(flatten)]
    which: WhichArgs,
    #[command(flatten)]
    turns: TurnArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Which files, in which order.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Files")]
struct WhichArgs {
    /// Only files whose name (or, with a slash, path) matches; may be repeated
    #[arg(long, value_name = "GLOB", value_parser = parse_pattern)]
    include: Vec<Pattern>,
    /// Not these
    #[arg(long, value_name = "GLOB", value_parser = parse_pattern)]
    exclude: Vec<Pattern>,
    /// These before all others
    #[arg(long, value_name = "GLOB", value_parser = parse_pattern)]
    first: Vec<Pattern>,
    /// Which of the others come first
    #[arg(long, value_enum, default_value_t = OrderName::Oldest, value_name = "ORDER")]
    order: OrderName,
    /// A file is complete when a file of this name is beside it; {} is its own name
    #[arg(long, value_name = "'{}.done'", value_parser = parse_flag)]
    flag: Option<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum PolicyName {
    Gap,
    Immediate,
    Space,
    End,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum PurgeName {
    Never,
    Space,
    Staged,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OrderName {
    Oldest,
    Newest,
    Smallest,
}

const EXAMPLES: &str = "\
Examples:
  iotide stage out /dev/shm/run /pfs/run &             as long as the job runs; kill -TERM ends it
  iotide stage out /nvme/run /pfs/run --follow trace   in the gaps that the trace of the job lets expect
  iotide stage out /nvme/run /pfs/run --predictions daemon --job 4711
  iotide stage out /nvme/run /pfs/run --once           copy all that is closed, check it, end
  iotide stage out /nvme/run /pfs/run --purge space --capacity 400G
  iotide stage out /nvme/run /pfs/run --policy end --once --deadline 10min    in an epilog
  iotide stage out /nvme/run /pfs/run --gate unix:/run/pfs.gate --control /run/pfs.control";

pub(super) fn run(ui: &mut Ui, args: &OutArgs) -> anyhow::Result<ExitStatus> {
    args.turns.take_own_name(&args.src, &args.dst, args.answer_timeout)?;
    // From here on: a job may be over before its buffer has been looked at, and its results are to be safe all the same.
    let asked = work_in_a_child()?;
    let place = args.turns.keep_place()?;
    if args.make
        && let Err(error) = fs::create_dir(&args.dst)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(error).with_context(|| format!("cannot make {}", args.dst.display()));
    }
    let pace = Pace::free();
    let mut stager = args.open(&pace)?;
    let mut notes = Vec::new();
    if stager.is_virtual() {
        notes.push("a preloaded library serves the buffer: a file is complete when its flag is there, and nothing is removed");
    } else if !stager.has_leases() {
        notes.push(
            "the buffer's file system has no leases: open files are found in /proc, and only files with a flag are removed",
        );
    }
    let shown = Shown { args, place: &place, began: Instant::now(), last: None, notes };
    // From the beginning the destination says whose it is.
    keep_status(&stager, args, &Staging { state: UNSEEN.to_owned(), ..shown.of(stager.tally()) });
    let ended = match args.once {
        true => once(ui, args, &mut stager, &pace, &asked, shown.clone())?,
        false => long(ui, args, &mut stager, &pace, asked, shown.clone())?,
    };
    let Ended { fault, interference_s, moving_s } = ended;
    let moved_bytes = pace.moved_bytes();
    let mut staging = Staging { interference_s, moving_s, moved_bytes, ..shown.of(stager.tally()) };
    if let Some(error) = &fault {
        staging.state = STUCK.to_owned();
        staging.reason = Some(error.as_str().into());
    }
    keep_status(&stager, args, &staging);
    let report = StageAnswer::of_buffers(vec![staging.clone()]);
    args.output.deliver(ui, &report)?;
    if let Some(error) = fault {
        return Err(anyhow::anyhow!(error).context(format!("cannot copy to {}", args.dst.display())));
    }
    Ok(status_of(&staging))
}

/// How it ended.
#[derive(Default)]
struct Ended {
    /// Why so early.
    fault: Option<String>,
    /// For how long it was in the way of the job.
    interference_s: f64,
    /// For how long it moved data.
    moving_s: f64,
}

fn once(
    ui: &mut Ui,
    args: &OutArgs,
    stager: &mut Stager,
    pace: &Pace,
    asked: &Asked,
    mut shown: Shown<'_>,
) -> anyhow::Result<Ended> {
    use std::sync::atomic::Ordering::Relaxed;
    let is_ended = || asked.is_over.load(Relaxed) || asked.is_withdrawn.load(Relaxed);
    let own = stager.own_path();
    pace.set_rate(args.bandwidth.map_or(f64::INFINITY, |bytes| bytes as f64));
    let began = Instant::now();
    let deadline = args.deadline.map(Duration::from_secs_f64);
    let is_done = AtomicBool::new(false);
    let fault = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Relaxed) {
                if is_ended() || deadline.is_some_and(|deadline| began.elapsed() >= deadline) {
                    pace.stop();
                }
                if args.is_unanswered(pace) {
                    args.give_up();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let high_water = args.high_water_bytes().map(|bytes| bytes as u64);
        let fault = with_progress(ui, pace, WRITTEN_AND_READ_BACK, || {
            run_once(stager, pace, high_water, &mut |tally| {
                if let Some(staging) = shown.while_once(tally) {
                    write_status(&own, "status.json", &staging);
                }
            })
        });
        is_done.store(true, Relaxed);
        fault
    })?;
    Ok(Ended { fault: fault.map(|error| error.to_string()), ..Ended::default() })
}

fn long(
    ui: &mut Ui,
    args: &OutArgs,
    stager: &mut Stager,
    pace: &Pace,
    asked: Asked,
    mut shown: Shown<'_>,
) -> anyhow::Result<Ended> {
    let Asked { is_over, is_withdrawn } = asked;
    let rules = Rules {
        capacity_bytes: args.capacity_bytes(),
        high_water: args.high_water,
        is_purged: !matches!(args.purge, PurgeName::Never),
        quiet_s: args.quiet,
        bandwidth_bps: args.bandwidth.map(|bytes| bytes as f64),
        ..Rules::new(args.policy.into())
    };
    // Whoever knows more of the job than its files tell sends it here; kept open, so that nobody is taken for gone.
    let (tell, hints) = mpsc::channel();
    let following = args.forecast.start(shown.began, &tell, &is_over, true)?;
    let is_over_too = Arc::clone(&is_over);
    args.end_with_its_process(&is_withdrawn)?;
    let plan = Plan {
        controller: Controller::new(rules),
        began: shown.began,
        hints,
        is_over,
        deadline: args.deadline.map(Duration::from_secs_f64),
        is_withdrawn,
        is_draining: shown.place.is_draining(),
    };
    ui.status(format_args!("staging {} to {}; SIGTERM ends it", args.src.display(), args.dst.display()));
    let own = stager.own_path();
    let note = Note::new(stager.id());
    let mut ended = Ended::default();
    let is_done = AtomicBool::new(false);
    let last = Mutex::new(shown.of(stager.tally()));
    let fault = std::thread::scope(|scope| {
        scope.spawn(|| args.watch(pace, &is_done, &is_over_too, &last, &own));
        let fault = keep(stager, plan, pace, &mut |progress| {
            ended.interference_s = progress.interference_s;
            ended.moving_s = progress.moving_s;
            if let Some(staging) = shown.when_changed(progress) {
                write_status(&own, "status.json", &staging);
                note.write(&staging);
                *last.lock().unwrap_or_else(PoisonError::into_inner) = staging;
            }
        });
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        fault
    })?;
    if let Some(trouble) = following.end() {
        ui.warning(trouble);
    }
    Ok(Ended { fault: fault.map(|error| error.to_string()), ..ended })
}

/// Status of a run, as others see it.
#[derive(Clone)]
struct Shown<'a> {
    args: &'a OutArgs,
    place: &'a Place,
    began: Instant,
    last: Option<(Instant, Staging)>,
    notes: Vec<&'static str>,
}

impl Shown<'_> {
    fn of(&self, tally: &iotide_stage::Tally) -> Staging {
        let mut staging = told(tally, &self.args.src, &self.args.dst);
        staging.notes.extend(self.notes.iter().map(|note| (*note).into()));
        staging
    }

    /// Returns the status of a run that copies the present files: at first, and whenever the last status is a second old.
    fn while_once(&mut self, tally: &iotide_stage::Tally) -> Option<Staging> {
        if self.last.as_ref().is_some_and(|(at, _)| at.elapsed() < Duration::from_secs(1)) {
            return None;
        }
        let staging = Staging { state: "run".to_owned(), ..self.of(tally) };
        self.last = Some((Instant::now(), staging.clone()));
        Some(staging)
    }

    /// Returns the status if it has changed and the last one is a second old; a fault that stops all copies is shown at once.
    fn when_changed(&mut self, progress: &Progress) -> Option<Staging> {
        let is_shown = |last: &Staging| {
            progress
                .fault
                .as_deref()
                .is_none_or(|fault| last.state == STUCK && last.reason == Some(fault.into()))
        };
        let is_recent =
            |(at, last): &(Instant, Staging)| at.elapsed() < Duration::from_secs(1) && is_shown(last);
        if self.last.as_ref().is_some_and(is_recent) {
            return None;
        }
        let mut staging = Staging { state: "idle".to_owned(), ..self.of(&progress.tally) };
        staging.interference_s = progress.interference_s;
        staging.moving_s = progress.moving_s;
        staging.moved_bytes = progress.moved_bytes;
        staging.reason = progress.fault.as_deref().map(Into::into);
        if let Some(decision) = &progress.decision {
            let now_s = self.began.elapsed().as_secs_f64();
            staging.state = decision.state.name().to_owned();
            staging.basis = Some(decision.basis.name().to_owned());
            staging.full_at_s = decision.full_at_s.map(|at_s| (at_s - now_s).max(0.0));
            staging.reason.get_or_insert_with(|| decision.why.to_string().into());
        }
        if progress.fault.is_some() {
            staging.state = STUCK.to_owned();
        }
        // Now and then without news, too: what is old is taken for what a stager left that was killed.
        let is_old = |at: &Instant| at.elapsed() >= Duration::from_secs(10);
        let is_news = self.last.as_ref().is_none_or(|(at, last)| *last != staging || is_old(at));
        if is_news {
            self.last = Some((Instant::now(), staging.clone()));
        }
        is_news.then_some(staging)
    }
}

/// The last status, in the buffer and in the destination.
fn keep_status(stager: &Stager, args: &OutArgs, staging: &Staging) {
    write_status(&stager.own_path(), "status.json", staging);
    let name = format!("{:016x}.status.json", stager.id());
    write_status(&args.dst.join(OWN), &name, staging);
}

/// Nobody relies on it: what cannot be written is not.
fn write_status(folder: &std::path::Path, name: &str, staging: &Staging) {
    use std::io::Write;
    let json = StageAnswer::of_buffers(vec![staging.clone()]).to_json();
    let written = OpenDir::open(folder).and_then(|folder| {
        let mut part = folder.replace(name)?;
        part.write_all(json.as_bytes())?;
        part.finish()
    });
    let _ = written;
}

/// Status file for the daemon of this node, beside the counter pages, for as long as this runs.
struct Note {
    folder: Option<(OpenDir, String)>,
    name: String,
}

impl Note {
    fn new(id: u64) -> Self {
        let folder = || Some((OpenDir::open(&iotide_private::pages_directory().ok()?).ok()?, job_id()?));
        Self { folder: folder(), name: format!("stage-{id:016x}.status") }
    }

    /// Nobody relies on it, either.
    fn write(&self, staging: &Staging) {
        use std::io::Write;
        let Some((folder, job)) = &self.folder else { return };
        let note = JobStaging {
            source: staging.source.clone(),
            destination: staging.destination.clone(),
            state: staging.state.as_str().into(),
            bytes_safe: staging.bytes_safe,
            backlog_bytes: staging.backlog_bytes,
            full_at_s: staging.full_at_s,
        };
        let written = folder.replace(&self.name).and_then(|mut part| {
            part.write_all(note.to_note(job).as_bytes())?;
            part.finish()
        });
        let _ = written;
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        if let Some((folder, _)) = &self.folder {
            let _ = folder.remove(&self.name);
        }
    }
}

impl OutArgs {
    /// Ends, from a thread, when the process does that this is for.
    fn end_with_its_process(&self, is_withdrawn: &Arc<AtomicBool>) -> anyhow::Result<()> {
        use rustix::event::{PollFd, PollFlags, poll};
        let Some(pid) = self.only_while else { return Ok(()) };
        let about = || format!("--while: there is no process {pid}");
        let pid = rustix::process::Pid::from_raw(pid).with_context(about)?;
        let process =
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).with_context(about)?;
        let is_withdrawn = Arc::clone(is_withdrawn);
        std::thread::spawn(move || {
            while !poll(&mut [PollFd::new(&process, PollFlags::IN)], None).is_ok_and(|n| n > 0) {}
            is_withdrawn.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        Ok(())
    }

    fn is_unanswered(&self, pace: &Pace) -> bool {
        pace.unanswered_for().is_some_and(|since| since.as_secs_f64() > self.answer_timeout)
    }

    fn unanswered(&self) -> String {
        format!("{} has not answered for {} s", self.dst.display(), self.answer_timeout)
    }

    /// Reports a destination that does not answer; whoever waits for it cannot. Once the job is over, nothing is waited for.
    fn watch(
        &self,
        pace: &Pace,
        is_done: &AtomicBool,
        is_over: &AtomicBool,
        last: &Mutex<Staging>,
        own: &std::path::Path,
    ) {
        use std::sync::atomic::Ordering::Relaxed;
        let mut is_told = false;
        while !is_done.load(Relaxed) {
            let is_stuck = self.is_unanswered(pace);
            if is_stuck && !is_told {
                let mut staging = last.lock().unwrap_or_else(PoisonError::into_inner).clone();
                staging.state = STUCK.to_owned();
                staging.reason = Some(self.unanswered().into());
                write_status(own, "status.json", &staging);
            }
            is_told = is_stuck;
            if is_stuck && is_over.load(Relaxed) {
                self.give_up();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends, whatever is being waited for: that is as safe as any other moment.
    fn give_up(&self) -> ! {
        // Who prints otherwise is waiting.
        crate::ui::last_words(&format!(
            "{}; what is left stays in {}",
            self.unanswered(),
            self.src.display()
        ));
        give_up()
    }

    /// Opens both directories, unless the destination takes too long.
    fn open(&self, pace: &Pace) -> anyhow::Result<Stager> {
        use std::sync::atomic::Ordering::Relaxed;
        let is_open = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_open.load(Relaxed) {
                    if self.is_unanswered(pace) {
                        self.give_up();
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let stager = Stager::open(&self.src, &self.dst, self.settings(), pace);
            is_open.store(true, Relaxed);
            Ok(stager?)
        })
    }

    fn settings(&self) -> Settings {
        let which = &self.which;
        Settings {
            filter: Filter {
                include: which.include.clone(),
                exclude: which.exclude.clone(),
                first: which.first.clone(),
            },
            flag: which.flag.clone(),
            has_no_writers_elsewhere: matches!(self.policy, PolicyName::End) || is_on_one_node(),
            order: match which.order {
                OrderName::Oldest => Order::Oldest,
                OrderName::Newest => Order::Newest,
                OrderName::Smallest => Order::Smallest,
            },
            quiet: Duration::from_secs_f64(self.quiet),
            purge: match self.purge {
                PurgeName::Never => Purge::Never,
                PurgeName::Space => Purge::Space,
                PurgeName::Staged => Purge::Staged,
            },
            n_jobs: self.jobs.into(),
            ..Settings::default()
        }
    }

    fn capacity_bytes(&self) -> Option<f64> {
        let of_file_system = || {
            let about = rustix::fs::statvfs(&self.src).ok()?;
            Some(about.f_blocks as f64 * about.f_frsize as f64)
        };
        self.capacity.map(|bytes| bytes as f64).or_else(of_file_system)
    }

    fn high_water_bytes(&self) -> Option<f64> {
        self.capacity_bytes().map(|bytes| bytes * self.high_water)
    }
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Self {
        match name {
            PolicyName::Gap => Policy::Gap,
            PolicyName::Immediate => Policy::Immediate,
            PolicyName::Space => Policy::Space,
            PolicyName::End => Policy::End,
        }
    }
}

/// Whether the batch system says that the job has this node alone.
fn is_on_one_node() -> bool {
    let is_one = |name| std::env::var(name).is_ok_and(|n| n == "1");
    ["SLURM_JOB_NUM_NODES", "SLURM_NNODES", "PBS_NUM_NODES"].into_iter().any(is_one)
}

/// The state of a run whose destination takes nothing.
const STUCK: &str = "stuck";

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "a share is above 0 and at most 1".to_owned())
}

fn parse_flag(text: &str) -> Result<String, String> {
    if text.matches("{}").count() == 1 && text.len() > 2 && !text.contains('/') {
        return Ok(text.to_owned());
    }
    Err("a flag is a name with {} in it once, such as '{}.done'".to_owned())
}

/// A file of another run that says how it stands.
pub(super) fn read_status(path: &std::path::Path) -> Option<Staging> {
    use std::io::Read;
    let file = iotide_private::open_ordinary(path).ok()?;
    let mut json = Vec::new();
    file.take(16 << 20).read_to_end(&mut json).ok()?;
    Staging::from_json(&json)
}

/// The files in a folder of ours whose names end so.
pub(super) fn files_ending_in(folder: &std::path::Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.to_string_lossy().ends_with(end)).collect();
    files.sort();
    files
}
