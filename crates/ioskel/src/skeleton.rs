//! The skeleton as a whole: starts its processes at once, listens to them, and cleans up.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use iotide_private::PrivateDir;
use iotide_trace::Op;

use crate::is_ioskel;
use crate::protocol::{Message, Operation};

/// A workload with a known rhythm.
#[derive(Clone, Debug, PartialEq)]
pub struct Skeleton {
    /// From the start of a burst to the start of the next.
    pub period_s: f64,
    /// Instead of that: from the end of a burst, when the last process is done with it, to the start of the next, and
    /// before the first.
    pub compute_s: Option<f64>,
    /// No burst begins later than this after the start.
    pub until_s: Option<f64>,
    /// Bytes that each process moves in a burst.
    pub burst_bytes: u64,
    /// How many bursts.
    pub n_bursts: u32,
    /// Of turning from writing to reading, or back, after a burst.
    pub turn_probability: f64,
    /// How many processes.
    pub n_processes: u32,
    /// Bytes that one call moves; at most `burst_bytes`.
    pub transfer_bytes: u64,
    /// Whether a written burst is forced to storage.
    pub sync: bool,
    /// Of the turns.
    pub seed: u64,
    /// Where the files go.
    pub dir: PathBuf,
    /// Whether the files stay.
    pub keep: bool,
    /// Whether each written burst has a file of its own.
    pub file_per_burst: bool,
    /// Variables that are added to the environment of the processes.
    pub environment: Vec<(&'static str, OsString)>,
}

impl Skeleton {
    /// Returns what each burst does: first a write, for there must be something to read, then turning at random. The
    /// same for all processes, as the phases of a bulk-synchronous program are.
    pub(crate) fn plan(&self) -> impl Iterator<Item = Op> + use<> {
        let (mut state, probability) = (self.seed, self.turn_probability);
        let mut op = Op::Write;
        (0..self.n_bursts).map(move |index| {
            if index > 0 && next_unit(&mut state) < probability {
                op = if op == Op::Write { Op::Read } else { Op::Write };
            }
            op
        })
    }

    /// The options that make a process perform this skeleton in `dir`.
    fn arguments(&self, rank: u32) -> Vec<String> {
        let mut args = vec![
            "--worker".to_owned(),
            rank.to_string(),
            "--size".to_owned(),
            self.burst_bytes.to_string(),
            "--iterations".to_owned(),
            self.n_bursts.to_string(),
            "--turn-probability".to_owned(),
            self.turn_probability.to_string(),
            "--transfer-size".to_owned(),
            self.transfer_bytes.to_string(),
            "--seed".to_owned(),
            self.seed.to_string(),
        ];
        match self.compute_s {
            Some(compute_s) => args.extend(["--compute".to_owned(), compute_s.to_string()]),
            None => args.extend(["--period".to_owned(), self.period_s.to_string()]),
        }
        if let Some(until_s) = self.until_s {
            args.extend(["--until".to_owned(), until_s.to_string()]);
        }
        args.extend(self.sync.then(|| "--sync".to_owned()));
        args.extend(self.keep.then(|| "--keep".to_owned()));
        args.extend(self.file_per_burst.then(|| "--file-per-burst".to_owned()));
        args
    }
}

/// Result of a skeleton's run.
#[derive(Debug)]
pub struct Performed {
    /// All operations of all processes, in order of time.
    pub operations: Vec<Operation>,
    /// The bursts that all processes finished.
    pub bursts: Vec<Burst>,
    /// From the common start to the end of the last operation.
    pub runtime_s: f64,
    /// How many processes there were.
    pub n_processes: u32,
    /// The name the program was called by.
    pub exe: String,
    /// The common start, in seconds since 1970.
    pub start_time_s: u64,
    /// Where the files are, if they stay.
    pub kept: Option<PathBuf>,
    /// Why it ended early, if it did.
    pub failure: Option<String>,
}

/// A burst over all processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// When its first process began, in seconds from the start.
    pub start_s: f64,
    /// When its last process was done.
    pub end_s: f64,
}

impl Performed {
    /// Bytes of all processes that were written.
    pub fn bytes_written(&self) -> u64 {
        self.bytes(Op::Write)
    }

    /// Bytes of all processes that were read back.
    pub fn bytes_read(&self) -> u64 {
        self.bytes(Op::Read)
    }

    fn bytes(&self, op: Op) -> u64 {
        self.operations.iter().filter(|operation| operation.op == op).map(|operation| operation.bytes).sum()
    }

    /// Returns the mean time between the starts of consecutive bursts; one burst alone has no period.
    pub fn achieved_period_s(&self) -> Option<f64> {
        let [first, .., last] = self.bursts[..] else { return None };
        Some((last.start_s - first.start_s) / (self.bursts.len() - 1) as f64)
    }

    /// Returns how many bursts ended after the next one was due.
    pub fn n_late(&self, period_s: f64) -> usize {
        let due = |index: usize| (index + 1) as f64 * period_s;
        let followed = self.bursts.iter().take(self.bursts.len().saturating_sub(1));
        followed.enumerate().filter(|(index, burst)| burst.end_s > due(*index)).count()
    }
}

/// How often a skeleton looks whether it is to stop.
const LOOKS_AGAIN: Duration = Duration::from_millis(100);

/// Makes the folder of a skeleton: gone when it is dropped, unless the skeleton keeps it.
pub fn make_folder(skeleton: &Skeleton) -> anyhow::Result<PrivateDir> {
    // Its path is absolute, so that it means the same to the processes; removed on every way out.
    let mut folder = PrivateDir::new_in(&skeleton.dir, "ioskel")
        .with_context(|| format!("cannot make a folder in {}", skeleton.dir.display()))?;
    if skeleton.keep {
        folder.keep();
    }
    Ok(folder)
}

/// Runs the skeleton in its folder to its end, or until a process fails; what was done until then is kept either way.
///
/// `progress` hears how many bursts all processes have finished, and of how many. `stop` ends it as a failure of a process does.
pub fn perform(
    skeleton: &Skeleton,
    folder: &PrivateDir,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, u32),
) -> anyhow::Result<Performed> {
    let (send, receive) = mpsc::channel();
    let mut crew = Crew { children: Vec::new() };
    for rank in 0..skeleton.n_processes {
        crew.start(skeleton, rank, folder.path(), &send)?;
    }
    drop(send);
    let mut heard = Heard::new(skeleton);
    heard.all_ready(&receive)?;
    let start = crew.go()?;
    heard.until_the_end(&receive, (&mut crew, stop), skeleton.compute_s, progress);
    let mut failure = heard.failure.take();
    if let Some(death) = crew.wait() {
        failure.get_or_insert(death);
    }
    let mut operations = heard.operations;
    operations.sort_by_key(|operation| (operation.start_ns, operation.rank));
    let end_ns = operations.iter().map(|operation| operation.end_ns).max().unwrap_or(0);
    Ok(Performed {
        operations,
        bursts: heard
            .bursts
            .iter()
            .take_while(|burst| burst.n == skeleton.n_processes)
            .map(Sum::burst)
            .collect(),
        runtime_s: end_ns as f64 * 1e-9,
        n_processes: skeleton.n_processes,
        exe: program_name(),
        start_time_s: start.as_secs(),
        kept: skeleton.keep.then(|| folder.path().to_owned()),
        failure,
    })
}

/// The processes. Dropped, it hangs up on those that still run, and waits until they have gone.
struct Crew {
    children: Vec<Child>,
}

impl Crew {
    fn start(
        &mut self,
        skeleton: &Skeleton,
        rank: u32,
        folder: &Path,
        tell: &Sender<(u32, Message)>,
    ) -> anyhow::Result<()> {
        let exe = iotide_private::own_program().context("cannot find this program's own file")?;
        let mut command = Command::new(exe);
        match std::env::args_os().next() {
            // Under the same name, so that tools which sort by it see the processes as what they are.
            Some(name) if is_ioskel(&name) => command.arg0(name),
            _ => command.arg("ioskel"),
        };
        command.args(skeleton.arguments(rank)).arg("--dir").arg(folder);
        command.envs(skeleton.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // A group of their own: Ctrl-C ends the skeleton alone, and the processes, hung up on, clean up.
        command.process_group(0);
        let mut child = command.spawn().with_context(|| format!("cannot start process {rank}"))?;
        let stdout = child.stdout.take();
        self.children.push(child);
        let tell = tell.clone();
        std::thread::spawn(move || {
            let lines =
                stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines().map_while(Result::ok));
            let mut last = None;
            for line in lines {
                last =
                    Some(Message::parse(&line).unwrap_or_else(|| Message::Failed(format!("said {line:?}"))));
                if last.clone().is_some_and(|message| tell.send((rank, message)).is_err()) {
                    return;
                }
            }
            if !matches!(last, Some(Message::Done | Message::Failed(_))) {
                let _ = tell.send((rank, Message::Failed("went away".to_owned())));
            }
        });
        Ok(())
    }

    /// Tells all processes the common start, in a moment; returns it as time since 1970.
    fn go(&mut self) -> anyhow::Result<Duration> {
        self.go_in(Duration::from_millis(50) + Duration::from_micros(100) * self.children.len() as u32)
    }

    /// Tells all processes to begin together after `lead`; returns when, as time since 1970.
    fn go_in(&mut self, lead: Duration) -> anyhow::Result<Duration> {
        let start =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock is before 1970")?
                + lead;
        for (rank, child) in self.children.iter_mut().enumerate() {
            let stdin = child.stdin.as_mut().context("no pipe to a process")?;
            writeln!(stdin, "go {}", start.as_nanos())
                .with_context(|| format!("process {rank} went away"))?;
        }
        Ok(start)
    }

    /// Hangs up: whoever still runs stops at the next transfer.
    fn stop(&mut self) {
        for child in &mut self.children {
            child.stdin = None;
        }
    }

    /// Waits for all; returns how the first one that did not end well ended.
    fn wait(&mut self) -> Option<String> {
        self.stop();
        let mut death = None;
        for (rank, mut child) in self.children.drain(..).enumerate() {
            match child.wait() {
                Ok(status) if status.success() => {}
                Ok(status) => _ = death.get_or_insert(format!("process {rank} ended with {status}")),
                Err(error) => _ = death.get_or_insert(format!("process {rank} is lost: {error}")),
            }
        }
        death
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.wait();
    }
}

/// Reports of the processes so far.
struct Heard {
    n_processes: u32,
    operations: Vec<Operation>,
    bursts: Vec<Sum>,
    failure: Option<String>,
}

/// A burst being put together from what each process says of it.
#[derive(Clone, Copy)]
struct Sum {
    n: u32,
    start_ns: u64,
    end_ns: u64,
}

impl Sum {
    fn burst(&self) -> Burst {
        Burst { start_s: self.start_ns as f64 * 1e-9, end_s: self.end_ns as f64 * 1e-9 }
    }
}

impl Heard {
    fn new(skeleton: &Skeleton) -> Self {
        Self {
            n_processes: skeleton.n_processes,
            operations: Vec::new(),
            bursts: vec![Sum { n: 0, start_ns: u64::MAX, end_ns: 0 }; skeleton.n_bursts as usize],
            failure: None,
        }
    }

    fn all_ready(&mut self, messages: &Receiver<(u32, Message)>) -> anyhow::Result<()> {
        for _ in 0..self.n_processes {
            match messages.recv() {
                Ok((_, Message::Ready)) => {}
                Ok((rank, message)) => bail!("process {rank} did not start: {message}"),
                Err(_) => bail!("a process went away before the start"),
            }
        }
        Ok(())
    }

    fn until_the_end(
        &mut self,
        messages: &Receiver<(u32, Message)>,
        (crew, stop): (&mut Crew, &AtomicBool),
        compute_s: Option<f64>,
        progress: &mut dyn FnMut(u32, u32),
    ) {
        let mut n_done = 0;
        while n_done < self.n_processes {
            if stop.load(Ordering::Relaxed) {
                self.failure.get_or_insert("interrupted".to_owned());
                crew.stop();
                break;
            }
            let (rank, message) = match messages.recv_timeout(LOOKS_AGAIN) {
                Ok(heard) => heard,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break, // all gone; `Crew::wait` tells how
            };
            match message {
                Message::Ready => {}
                Message::Burst { index, start_ns, end_ns } => {
                    let n_bursts = self.bursts.len() as u32;
                    let Some(sum) = self.bursts.get_mut(index as usize) else { continue };
                    sum.n += 1;
                    sum.start_ns = sum.start_ns.min(start_ns);
                    sum.end_ns = sum.end_ns.max(end_ns);
                    if sum.n == self.n_processes {
                        progress(index + 1, n_bursts);
                        if let Some(compute_s) = compute_s
                            && index + 1 < n_bursts
                        {
                            // Who has gone meanwhile says so, or `Crew::wait` does.
                            let _ = crew.go_in(Duration::from_secs_f64(compute_s));
                        }
                    }
                }
                Message::Op { op, start_ns, end_ns, bytes } => {
                    self.operations.push(Operation { rank, op, start_ns, end_ns, bytes });
                }
                Message::Done => n_done += 1,
                Message::Failed(why) => {
                    // The first failure is the cause; the others were stopped because of it.
                    self.failure.get_or_insert(format!("process {rank}: {why}"));
                    crew.stop();
                    n_done += 1;
                }
            }
        }
    }
}

fn program_name() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    PathBuf::from(name)
        .file_name()
        .map_or_else(|| "iotide".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Returns the next number in [0, 1) of the sequence (SplitMix64, after Steele, Lea and Flood, 2014).
fn next_unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
impl Skeleton {
    pub(crate) fn for_tests() -> Self {
        Skeleton {
            period_s: 1.0,
            compute_s: None,
            until_s: None,
            burst_bytes: 1 << 20,
            n_bursts: 10,
            turn_probability: 0.0,
            n_processes: 1,
            transfer_bytes: 1 << 16,
            sync: false,
            seed: 1,
            dir: PathBuf::from("."),
            keep: false,
            file_per_burst: false,
            environment: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(turn_probability: f64, seed: u64, n_bursts: u32) -> String {
        let skeleton = Skeleton { turn_probability, seed, n_bursts, ..Skeleton::for_tests() };
        skeleton.plan().map(|op| if op == Op::Write { 'w' } else { 'r' }).collect()
    }

    #[test]
    fn without_turning_all_bursts_write() {
        assert_eq!(plan(0.0, 1, 6), "wwwwww");
    }

    #[test]
    fn sure_to_turn_they_alternate_beginning_with_a_write() {
        assert_eq!(plan(1.0, 1, 7), "wrwrwrw");
    }

    #[test]
    fn a_seed_gives_one_plan_and_another_seed_another() {
        assert_eq!(plan(0.5, 7, 40), plan(0.5, 7, 40));
        assert_ne!(plan(0.5, 7, 40), plan(0.5, 8, 40));
    }

    #[test]
    fn turns_come_as_often_as_asked() {
        let plan = plan(0.3, 1, 10_001);
        let n_turns = plan.as_bytes().windows(2).filter(|pair| pair[0] != pair[1]).count();
        // Binomial(10 000, 0.3): 3000 ± 46; five standard deviations.
        assert!((2770..3230).contains(&n_turns), "{n_turns}");
    }

    #[test]
    fn the_achieved_period_and_lateness_are_counted_over_starts() {
        let burst = |start_s, end_s| Burst { start_s, end_s };
        let performed = Performed {
            operations: Vec::new(),
            bursts: vec![burst(0.0, 0.5), burst(1.0, 2.3), burst(2.3, 2.9), burst(3.3, 9.0)],
            runtime_s: 9.0,
            n_processes: 1,
            exe: String::new(),
            start_time_s: 0,
            kept: None,
            failure: None,
        };
        assert!((performed.achieved_period_s().unwrap() - 1.1).abs() < 1e-12);
        assert_eq!(performed.n_late(1.0), 1);
    }
}
