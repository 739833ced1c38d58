//! What others know of the job whose files are staged: its trace, as it grows or is sent.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use iotide_api::{Address, End, Follower, Live, LiveSettings, RunConfig, engine};
use iotide_sched::staging::Forecast;
use iotide_stage::Hint;

use crate::commands::advice::advised;

/// Where predictions of the job's I/O phases come from.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Predictions")]
pub(super) struct ForecastArgs {
    /// Predict I/O phases from a trace of the job that is being written, as `iotide detect --follow` does
    #[arg(long, value_name = "TRACE", num_args = 1.., conflicts_with = "once")]
    follow: Vec<PathBuf>,
    /// Predict them from what is sent: unix:PATH or tcp:HOST:PORT (`iotide record --stream`), zmq:tcp://HOST:PORT (TMIO, GekkoFS)
    #[arg(long, value_name = "ADDRESS", conflicts_with = "once")]
    listen: Vec<Address>,
}

/// How long a turn may take: as often as the controller looks.
const TURN: Duration = Duration::from_millis(100);

/// What the thread that follows the job has to say; the newest is shown.
pub(super) type Trouble = Arc<Mutex<Option<String>>>;

impl ForecastArgs {
    /// Follows the job from a thread, if that was asked for; ends with the process, or when nobody listens any more.
    pub(super) fn start(
        &self,
        began: Instant,
        tell: &Sender<Hint>,
        is_over: &Arc<AtomicBool>,
    ) -> anyhow::Result<Trouble> {
        let trouble = Trouble::default();
        if self.follow.is_empty() && self.listen.is_empty() {
            return Ok(trouble);
        }
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
        let (is_over, said) = (Arc::clone(is_over), Arc::clone(&trouble));
        std::thread::spawn(move || {
            let why = watching.watch(&is_over);
            *said.lock().unwrap_or_else(PoisonError::into_inner) = why;
        });
        Ok(trouble)
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
