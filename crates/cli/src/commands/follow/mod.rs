//! `iotide detect --follow` and `--listen`: the rhythm of jobs while they run.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context;
use iotide_api::{
    Adaptation, Address, End, Error, Follower, Job, Live, LiveError, LiveSettings, RunConfig, engine,
};
use iotide_report::{Ink, LiveEnd, Notice, Prediction, Screen, Source, Untrusted, about_job};

use self::hook::Hook;
use super::advice::advised;
use super::input::InputArgs;
use super::ioskel::parse_seconds;
use super::{Form, OutputArgs};
use crate::ExitStatus;
use crate::terminal::FullScreen;
use crate::ui::{Hint, ReaderGone, Ui};

mod hook;

/// Options for the time while the job runs.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "While it runs")]
pub(crate) struct FollowArgs {
    /// Follow traces that are being written: the directory of `iotide record`, TMIO's JSON Lines or MessagePack, a table; what
    /// is not there yet is waited for
    #[arg(long)]
    follow: bool,
    /// Listen for what is sent as it happens: unix:PATH or tcp:HOST:PORT (`iotide record --stream`), zmq:tcp://HOST:PORT (TMIO,
    /// GekkoFS); may be given several times, also beside --follow
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<Address>,
    /// Run CMD by the shell at each prediction (JSON on stdin, and IOTIDE_* variables); while it runs, only
    /// the newest prediction of each job waits for it
    #[arg(long, value_name = "CMD")]
    on_prediction: Option<String>,
    /// Exit after TIME without new data; otherwise when the job ends, or with Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    idle: Option<f64>,
    /// Which part of the past a prediction looks at: since behaviour last changed (`change-points`), all of it, K periods
    /// once a period was found more than K times in a row (`hits=K`, as in the FTIO paper), a fixed time (`length=60s`), a
    /// fixed number of periods (`periods=5`), or what came since the last prediction but one (`data`)
    /// [default: `change-points`; with `--method dft` `hits=3`]
    #[arg(long, value_name = "WINDOW", value_parser = adaptation)]
    adapt: Option<Adaptation>,
    /// Look at the files every TIME, instead of relying on the kernel's notifications (default on network file systems: 1 s)
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    poll: Option<f64>,
}

impl FollowArgs {
    /// Refuses what has no meaning for a job that is over.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.adapt.is_some() && !self.is_asked_for() {
            anyhow::bail!("--adapt has a meaning only with --follow or --listen");
        }
        Ok(())
    }

    /// Whether the job still runs.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.follow || !self.listen.is_empty()
    }
}

/// How often the screen is drawn: a countdown in tenths of a second moves.
const FRAME: Duration = Duration::from_millis(100);
/// How long a turn may take where nothing is drawn.
const TURN: Duration = Duration::from_millis(500);

pub(crate) fn run(
    ui: &mut Ui,
    args: &FollowArgs,
    input: &InputArgs,
    config: &RunConfig,
    output: &OutputArgs,
) -> anyhow::Result<ExitStatus> {
    if !args.follow && !input.paths().is_empty() {
        return Err(anyhow::anyhow!("--listen needs no trace, and --follow was not given"))
            .hint("`--follow` beside `--listen` reads the files, too, and counts what comes both ways once");
    }
    if input.paths().iter().any(|path| path == Path::new("-")) {
        anyhow::bail!("standard input cannot be followed");
    }
    let mut live = Live::new(LiveSettings {
        open: input.options()?,
        look_every: args.poll.map(Duration::from_secs_f64),
        ..LiveSettings::default()
    })?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .and_then(|_| signal_hook::low_level::pipe::register(signal, live.waker()?))
            .context("cannot wait for Ctrl-C")?;
    }
    let mut names = Vec::new();
    for address in &args.listen {
        let bound = live.listen(address)?;
        ui.status(format_args!("listening on {bound}"));
        names.push(bound.to_string());
    }
    for path in input.paths() {
        live.follow(path);
        names.insert(0, path.display().to_string());
    }
    let engine = match engine(config, args.adapt) {
        Err(Error::NoChangePoints) => {
            return Err(anyhow::anyhow!("--method dft has no change points"))
                .hint("`--adapt hits=3` is the paper's window; change points are found by `--method auto`");
        }
        engine => engine.map_err(advised)?,
    };
    let mut following = Following {
        follower: Follower::new(live, engine),
        said: Vec::new(),
        out: Out::new(ui, output)?,
        hook: args.on_prediction.as_deref().map(Hook::new),
        name: names.join(" and "),
        notices: Vec::new(),
        drawn: None,
    };
    let reason = following.follow(ui, args, &interrupted)?;
    following.finish(ui, reason)
}

fn adaptation(text: &str) -> Result<Adaptation, String> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let whole = |value: &str| match value.parse::<u32>() {
        Ok(n) if (1..=1000).contains(&n) => Ok(n),
        _ => Err(format!("`{value}` is not a whole number from 1 to 1000")),
    };
    match (name, value) {
        ("change-points", None) => Ok(Adaptation::default()),
        ("all", None) => Ok(Adaptation::Everything),
        ("data", None) => Ok(Adaptation::Data { evaluations: 1 }),
        ("hits", value) => Ok(Adaptation::Hits { hits: whole(value.unwrap_or("3"))? }),
        ("length", Some(value)) => Ok(Adaptation::Length { seconds: parse_seconds(value)? }),
        ("periods", Some(value)) => Ok(Adaptation::Periods { periods: f64::from(whole(value)?) }),
        _ => Err("a window is change-points, all, data, hits=3, length=60s or periods=5".to_owned()),
    }
}

/// Jobs that are followed, and the destination of predictions.
struct Following {
    follower: Follower,
    /// Reported predictions of each job.
    said: Vec<Said>,
    out: Out,
    hook: Option<Hook>,
    /// Name of the followed input.
    name: String,
    notices: Vec<Untrusted>,
    drawn: Option<Instant>,
}

/// Predictions that were reported for a job.
#[derive(Default)]
struct Said {
    /// The latest predictions, for the screen.
    predictions: Vec<Prediction>,
    n_predictions: u64,
    /// The last period that was found.
    last_period_s: Option<f64>,
}

impl Said {
    /// Predictions the screen remembers.
    const MOST_SHOWN: usize = 100;

    /// Returns new predictions, in the form of the report.
    fn take_fresh(&mut self, job: &mut Job, name: &str) -> Vec<Prediction> {
        if job.take_began_anew() {
            self.predictions.clear();
        }
        let origin_unix_s = job.watched.origin_unix_s();
        let taken = job.watched.take_predictions();
        let fresh: Vec<Prediction> =
            taken.iter().map(|prediction| Prediction::new(name, prediction, origin_unix_s)).collect();
        if let Some(newest) = fresh.last() {
            self.last_period_s = newest.period_s.or(self.last_period_s);
        }
        self.n_predictions += fresh.len() as u64;
        self.predictions.extend(fresh.iter().cloned());
        self.predictions.drain(..self.predictions.len().saturating_sub(Self::MOST_SHOWN));
        fresh
    }
}

/// Where predictions go.
enum Out {
    Lines { form: Form, file: Option<File> },
    Screen(FullScreen, Ink),
}

impl Out {
    fn new(ui: &Ui, output: &OutputArgs) -> anyhow::Result<Self> {
        let form = output.form();
        if let Some(path) = output.file() {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            return Ok(Self::Lines { form, file: Some(file) });
        }
        if form == Form::Text
            && ui.out_is_terminal()
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        {
            let ink = ui.ink();
            return Ok(Self::Screen(FullScreen::enter().context("cannot draw on the terminal")?, ink));
        }
        Ok(Self::Lines { form, file: None })
    }

    /// Says a line in the form that was asked for; on a screen nothing, which shows it otherwise.
    fn say(
        &mut self,
        ui: &mut Ui,
        json: impl FnOnce() -> String,
        words: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        let Self::Lines { form, file } = self else { return Ok(()) };
        let mut line = if *form == Form::Json { json() } else { words() };
        if !line.ends_with('\n') {
            line.push('\n');
        }
        match file {
            Some(file) => file.write_all(line.as_bytes()).context("cannot write the predictions"),
            None => ui.out(&line),
        }
    }
}

impl Following {
    /// Follows until something ends it; says what.
    fn follow(
        &mut self,
        ui: &mut Ui,
        args: &FollowArgs,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<&'static str> {
        loop {
            let timeout = match self.out {
                Out::Screen(..) => FRAME,
                Out::Lines { .. } => TURN,
            };
            let end = self.follower.turn(timeout, args.idle).map_err(with_advice)?;
            self.tell(ui)?;
            if interrupted.load(Relaxed) {
                return Ok("interrupted");
            }
            match end {
                Some(End::JobOver) => return Ok("job_over"),
                Some(End::Idle) => return Ok("idle"),
                None => {}
            }
        }
    }

    /// Tells what is new.
    fn tell(&mut self, ui: &mut Ui) -> anyhow::Result<()> {
        for notice in self.follower.live.take_notices() {
            self.note(ui, notice)?;
        }
        let n_jobs = self.follower.jobs.list().len();
        self.said.resize_with(n_jobs, Said::default);
        for (number, job) in self.follower.jobs.list().iter_mut().enumerate() {
            let fresh = self.said[number].take_fresh(job, self.follower.live.job_name(number));
            for prediction in &fresh {
                let about = about_job(prediction.job.as_ref(), n_jobs);
                self.out.say(ui, || prediction.to_json(), || about + &prediction.in_words())?;
            }
            if let Some(newest) = fresh.last() {
                let json = newest.to_json();
                self.follower.live.answer(number, &json);
                if let Some(hook) = &mut self.hook {
                    hook.offer(number, json, newest.variables());
                }
                self.drawn = None; // worth a frame of its own
            }
        }
        if let Some(complaint) =
            self.hook.as_mut().and_then(|hook| hook.turn(matches!(self.out, Out::Screen(..))))
        {
            self.note(ui, complaint)?;
        }
        self.draw()
    }

    fn note(&mut self, ui: &mut Ui, notice: impl Into<Untrusted>) -> anyhow::Result<()> {
        let notice = notice.into();
        match &self.out {
            Out::Lines { form: Form::Json, .. } => {
                let notice = Notice { text: notice };
                self.out.say(ui, || notice.to_json(), String::new)
            }
            Out::Lines { .. } => {
                ui.status(notice.for_terminal());
                Ok(())
            }
            Out::Screen(..) => {
                self.notices.push(notice);
                self.notices.drain(..self.notices.len().saturating_sub(10));
                Ok(())
            }
        }
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        if self.drawn.is_some_and(|last| last.elapsed() < FRAME) {
            return Ok(());
        }
        // Of several jobs, the one that has just done something.
        let (number, n_jobs) = (self.follower.jobs.busiest(), self.follower.jobs.list().len());
        let source = self.source(number);
        let name = match (n_jobs, self.follower.live.job_name(number)) {
            (1, _) => self.name.clone(),
            (_, "") => format!("one of {n_jobs} jobs on {}", self.name),
            (_, job) => format!("{job}, one of {n_jobs} jobs on {}", self.name),
        };
        let (job, said) = (&self.follower.jobs.list()[number], &self.said[number]);
        let Out::Screen(screen, ink) = &mut self.out else { return Ok(()) };
        self.drawn = Some(Instant::now());
        let (width, height) = screen.size();
        let period_s = said.predictions.last().and_then(|prediction| prediction.period_s);
        let n_columns = width.saturating_sub(Screen::MARGIN).max(1);
        let (rates_bps, span_s) = job.watched.recent(n_columns, period_s);
        let lines = Screen {
            name: name.into(),
            source,
            now_s: job.watched.now_s(),
            quiet_s: self.follower.live.quiet_for().as_secs_f64(),
            rates_bps: &rates_bps,
            span_s,
            predictions: &said.predictions,
            notices: &self.notices,
        }
        .lines(width, height, *ink);
        // A terminal that is gone ends it all, quietly.
        screen.draw(&lines).map_err(|_| ReaderGone.into())
    }

    fn source(&mut self, job: usize) -> Source {
        let format = self.follower.live.format().map_or("messages", |format| format.name());
        let info = self.follower.live.job_info(job);
        Source::new(self.name.clone(), format, self.follower.jobs.list()[job].watched.tally(), &info)
    }

    /// Takes the last of it and says how each job was.
    fn finish(mut self, ui: &mut Ui, reason: &'static str) -> anyhow::Result<ExitStatus> {
        let format = self.follower.live.format().map_or("messages", |format| format.name());
        let summary = self.follower.finish().map_err(with_advice)?;
        self.tell(ui)?;
        let names: Vec<String> =
            (0..self.said.len()).map(|number| self.follower.live.job_name(number).to_owned()).collect();
        let Self { follower: Follower { mut jobs, .. }, said, mut out, hook, name, notices, .. } = self;
        if let Some(hook) = hook {
            hook.finish();
        }
        let on_screen = matches!(out, Out::Screen(..));
        if on_screen {
            // Back to the terminal as it was, where the last words stay.
            out = Out::Lines { form: Form::Text, file: None };
            for notice in notices.into_iter().chain(summary.notices.iter().map(Untrusted::from)) {
                ui.status(notice.for_terminal());
            }
        }
        let (n_jobs, mut found_any) = (said.len(), false);
        for (number, (job, said)) in jobs.list().iter().zip(said).enumerate() {
            let info = summary.jobs.get(number).cloned().unwrap_or_default();
            let source = Source::new(name.clone(), format, job.watched.tally(), &info);
            let end = LiveEnd {
                n_predictions: said.n_predictions,
                period_s: said.last_period_s,
                losses: job.watched.losses().iter().map(iotide_report::Loss::from).collect(),
                ..LiveEnd::new(&names[number], source, reason)
            };
            let about = about_job(end.job.as_ref(), n_jobs);
            out.say(ui, || end.to_json(), || about + &end.in_words())?;
            found_any |= said.last_period_s.is_some();
        }
        Ok(if found_any { ExitStatus::Done } else { ExitStatus::NothingFound })
    }
}

fn with_advice(error: LiveError) -> anyhow::Error {
    match error {
        LiveError::Read(error) => advised(error),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_named_with_their_size() {
        assert_eq!(adaptation("change-points"), Ok(Adaptation::default()));
        assert_eq!(adaptation("all"), Ok(Adaptation::Everything));
        assert_eq!(adaptation("hits=4"), Ok(Adaptation::Hits { hits: 4 }));
        assert_eq!(adaptation("length=2min"), Ok(Adaptation::Length { seconds: 120.0 }));
        assert_eq!(adaptation("periods=5"), Ok(Adaptation::Periods { periods: 5.0 }));
        assert_eq!(adaptation("data"), Ok(Adaptation::Data { evaluations: 1 }));
        for wrong in ["", "hits=0", "hits=x", "length", "length=-1", "periods", "all=1", "sometimes"] {
            assert!(adaptation(wrong).is_err(), "{wrong}");
        }
    }
}
