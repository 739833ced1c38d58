//! What others know of the job whose files are staged: its trace, as it grows or is sent, or somebody who predicts it already.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use iotide_api::{Address, End, Follower, Live, LiveSettings, RunConfig, engine};
use iotide_sched::staging::Forecast;
use iotide_sched::{HintSource, KnownJob, batch_id};
use iotide_source::Source;
use iotide_stage::Hint;

use super::at_storage::AtStorage;
use super::turns::job_id_elsewhere;
use crate::commands::advice::advised;
use crate::commands::source::Speaking;
use crate::ui::Hint as _;
use iotide_act::parse_source;

/// Where predictions of the job's I/O phases come from.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Predictions")]
pub(super) struct ForecastArgs {
    /// Predict I/O phases from a trace of the job that is being written, as `iotide detect --follow` does
    #[arg(long, value_name = "TRACE", num_args = 1..)]
    follow: Vec<PathBuf>,
    /// Predict them from what is sent: unix:PATH or tcp:HOST:PORT (`iotide record --stream`), zmq:tcp://HOST:PORT (TMIO, GekkoFS)
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<Address>,
    /// Take predictions from whoever sees the job: `daemon` or `daemon:SOCKET` (`iotide serve`), where `iotide detect --listen` listens, or the
    /// control socket of an arbiter or a mount
    #[arg(long, value_name = "SOURCE", value_parser = parse_source, conflicts_with_all = ["follow", "listen"])]
    predictions: Option<Source>,
    /// `--predictions`: which job fills the buffer [default: as IOTIDE_JOB_ID, IOSETS_JOB_ID or the batch system's variable says, else the only one]
    #[arg(long, value_name = "ID", requires = "predictions")]
    job: Option<String>,
}

/// How long a turn may take: as often as the controller looks.
const TURN: Duration = Duration::from_millis(100);

/// The thread that follows a job, if there is one.
pub(super) struct Following {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<String>>>,
}

impl Following {
    /// Ends it, and waits for it: then nothing is left of the sockets it listened on. Says why it ended before, if it did.
    pub(super) fn end(self) -> Option<String> {
        self.is_over.store(true, Relaxed);
        self.thread?.join().ok()?
    }
}

impl ForecastArgs {
    /// Whether anybody is asked at all.
    pub(super) fn is_any(&self) -> bool {
        !self.follow.is_empty() || !self.listen.is_empty() || self.predictions.is_some()
    }

    /// Follows the job from a thread, if that was asked for; ends when `is_over`, or when nobody listens any more.
    /// `sees_phases` says that the caller sees by itself when a phase has begun.
    pub(super) fn start(
        &self,
        began: Instant,
        tell: &Sender<Hint>,
        is_over: &Arc<AtomicBool>,
        sees_phases: bool,
    ) -> anyhow::Result<Following> {
        let thread = match &self.predictions {
            Some(source) => Some(self.ask_again_and_again(source, began, tell, is_over, sees_phases)?),
            None if self.is_any() => Some(self.watch(began, tell, is_over)?),
            None => None,
        };
        Ok(Following { is_over: Arc::clone(is_over), thread })
    }

    /// Follows what is written or sent, from a thread.
    fn watch(
        &self,
        began: Instant,
        tell: &Sender<Hint>,
        is_over: &Arc<AtomicBool>,
    ) -> anyhow::Result<JoinHandle<Option<String>>> {
        let mut live = Live::new(LiveSettings::default())?;
        for address in &self.listen {
            live.listen(address)?;
        }
        for path in &self.follow {
            live.follow(path);
        }
        let follower = Follower::new(live, engine(&RunConfig::default(), None).map_err(advised)?);
        let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
        let began_unix_s = unix_s - began.elapsed().as_secs_f64();
        let mut watching = Watching { follower, began, began_unix_s, n_bytes: 0.0, tell: tell.clone() };
        let is_over = Arc::clone(is_over);
        Ok(std::thread::spawn(move || watching.watch(&is_over)))
    }

    /// Asks somebody who predicts, from a thread.
    fn ask_again_and_again(
        &self,
        source: &Source,
        began: Instant,
        tell: &Sender<Hint>,
        is_over: &Arc<AtomicBool>,
        sees_phases: bool,
    ) -> anyhow::Result<JoinHandle<Option<String>>> {
        if source.is_table() {
            return Err(anyhow::anyhow!("{source} predicts nothing"))
                .hint("--predictions is a daemon (`iotide serve`), where `iotide detect --listen` listens, or the control socket of an arbiter or a mount, which must be running");
        }
        let mut asking = Asking {
            source: Speaking(source.clone()),
            job: self.job.clone().or_else(job_id_elsewhere),
            at_storage: AtStorage::default(),
            is_at_storage: false,
            began,
            tell: tell.clone(),
            told_s: f64::NEG_INFINITY,
            last: None,
            sees_phases,
            trouble: None,
        };
        let is_over = Arc::clone(is_over);
        Ok(std::thread::spawn(move || {
            while !is_over.load(Relaxed) && asking.ask().is_some() {
                std::thread::sleep(if asking.is_at_storage { TURN } else { ASK_EVERY });
            }
            None // it says by itself what it could not ask
        }))
    }
}

/// How often somebody is asked.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// A prediction that was made less than this after the last one is that one, told again.
const SAME_S: f64 = 0.1;

/// Somebody who predicts, and what was heard.
struct Asking {
    source: Speaking,
    job: Option<String>,
    began: Instant,
    tell: Sender<Hint>,
    /// When the prediction was made that was passed on last.
    told_s: f64,
    /// That prediction.
    last: Option<Forecast>,
    sees_phases: bool,
    trouble: Option<String>,
    at_storage: AtStorage,
    /// Whether it is the storage that is asked: what it sees of the job holds for the moment alone.
    is_at_storage: bool,
}

impl Asking {
    /// Asks once, and passes on what is new; `None` if nobody listens.
    fn ask(&mut self) -> Option<()> {
        let answer = self.source.ask();
        let now_s = self.began.elapsed().as_secs_f64();
        let found = answer.and_then(|jobs| self.pick(&jobs));
        let job = match found {
            Ok(job) => job,
            Err(trouble) => {
                // What was predicted holds for a few periods; then the controller goes by what it sees in the buffer.
                if self.trouble.as_ref() != Some(&trouble) {
                    self.source
                        .note(&format!("{trouble}; without predictions, what happens in the buffer decides"));
                }
                self.trouble = Some(trouble);
                return Some(());
            }
        };
        if self.trouble.take().is_some() {
            self.source.note(&format!("{} answers", self.source.name()));
        }
        self.is_at_storage = job.load.is_some();
        if let Some(load) = job.load {
            let heard = self.at_storage.hear(now_s, load.is_active, job.period_s);
            if load.is_active {
                self.tell.send(Hint::Activity(0.0)).ok()?;
            }
            if let Some(forecast) = heard {
                self.tell.send(Hint::Forecast(Some(forecast))).ok()?;
            }
            return Some(());
        }
        let made_s = now_s - job.age_s;
        if made_s < self.told_s + SAME_S {
            return Some(());
        }
        let forecast = job.forecast.map(|forecast| forecast.shifted(now_s));
        if forecast.is_some() || self.last.is_some() {
            self.told_s = made_s;
            if !self.sees_phases && has_come(self.last.as_ref(), forecast.as_ref()) {
                self.tell.send(Hint::Activity(0.0)).ok()?;
            }
            self.last = forecast;
            self.tell.send(Hint::Forecast(forecast)).ok()?;
        }
        Some(())
    }

    /// The job that fills the buffer; why nobody knows which that is.
    fn pick(&self, jobs: &[KnownJob]) -> Result<KnownJob, String> {
        pick(jobs, self.job.as_deref(), rustix::process::getuid().as_raw(), &self.source.name()).cloned()
    }
}

/// Whether a phase has come between two predictions: the next one is later by about a period.
fn has_come(last: Option<&Forecast>, new: Option<&Forecast>) -> bool {
    matches!((last, new), (Some(last), Some(new)) if new.start_s > last.start_s + last.period_s / 2.0)
}

fn pick<'a>(jobs: &'a [KnownJob], id: Option<&str>, uid: u32, source: &str) -> Result<&'a KnownJob, String> {
    let called: Vec<&KnownJob> =
        jobs.iter().filter(|job| id.is_none_or(|id| batch_id(&job.job) == batch_id(id))).collect();
    let own: Vec<&KnownJob> =
        called.iter().copied().filter(|job| job.uid.is_none_or(|of| of == uid)).collect();
    match (own.as_slice(), called.as_slice(), id) {
        ([job], ..) | ([], [job], _) => Ok(job),
        ([], [], Some(id)) => Err(format!("{source} knows no job {id}")),
        ([], [], None) => Err(format!("{source} knows no job")),
        (.., Some(id)) => Err(format!("{source} knows several jobs {id}")),
        (.., None) => Err(format!("{source} knows several jobs (--job says which is meant)")),
    }
}

struct Watching {
    follower: Follower,
    began: Instant,
    began_unix_s: f64,
    /// What the job has moved so far.
    n_bytes: f64,
    tell: Sender<Hint>,
}

impl Watching {
    /// Watches until the job is over; says why it ended before.
    fn watch(&mut self, is_over: &AtomicBool) -> Option<String> {
        while !is_over.load(Relaxed) {
            let end = match self.follower.turn(TURN, None) {
                Ok(end) => end,
                Err(error) => {
                    // Without predictions the controller goes by what it sees in the buffer.
                    let _ = self.tell.send(Hint::Forecast(None));
                    return Some(format!("predictions are lost: {error}"));
                }
            };
            self.pass_on()?;
            if end == Some(End::JobOver) {
                let _ = self.tell.send(Hint::JobOver);
                return None;
            }
        }
        None
    }

    /// Passes on what is new; `None` if nobody listens.
    fn pass_on(&mut self) -> Option<()> {
        let mut n_bytes = 0.0;
        for job in self.follower.jobs.list() {
            let tally = job.watched.tally();
            n_bytes += tally.bytes_read + tally.bytes_written;
            let now_s = self.began.elapsed().as_secs_f64();
            let shift_s = match job.watched.origin_unix_s() {
                Some(origin_unix_s) => origin_unix_s - self.began_unix_s,
                None => now_s - job.watched.now_s(),
            };
            if let Some(newest) = job.watched.take_predictions().last() {
                let forecast = Forecast::of(newest).map(|forecast| forecast.shifted(shift_s));
                self.tell.send(Hint::Forecast(forecast)).ok()?;
            }
        }
        if n_bytes > self.n_bytes {
            self.tell.send(Hint::Activity(n_bytes - self.n_bytes)).ok()?;
        }
        self.n_bytes = n_bytes;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_of_a_buffer_is_the_one_that_was_named_or_the_only_one() {
        let job = |job: &str, uid| KnownJob { job: job.to_owned(), uid, ..KnownJob::default() };
        let jobs = [job("7", Some(1)), job("7", Some(2)), job("8.r1", Some(2)), job("9", None)];
        let of = |jobs: &[KnownJob], id, uid| pick(jobs, id, uid, "it").map(|job| (job.job.clone(), job.uid));
        assert_eq!(of(&jobs, Some("7"), 2), Ok(("7".to_owned(), Some(2))));
        assert_eq!(of(&jobs, Some("8"), 0), Ok(("8.r1".to_owned(), Some(2))), "root sees all");
        assert_eq!(of(&jobs, Some("9"), 2), Ok(("9".to_owned(), None)));
        assert_eq!(of(&jobs, Some("7"), 0), Err("it knows several jobs 7".to_owned()));
        assert_eq!(of(&jobs, Some("5"), 0), Err("it knows no job 5".to_owned()));
        assert_eq!(of(&jobs[..1], None, 1), Ok(("7".to_owned(), Some(1))));
        assert_eq!(of(&jobs, None, 2), Err("it knows several jobs (--job says which is meant)".to_owned()));
        assert_eq!(of(&[], None, 2), Err("it knows no job".to_owned()));
    }
}
