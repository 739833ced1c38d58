//! The load of the storage beside runs: from a log, or from a server that is asked for the time around each of them.

use std::fmt;
use std::ops::ControlFlow;

use iotide_analysis::{LoadGrid, LoadPlan, RunFacts, ServerLoad, counts_from_1970};
use iotide_formats::OpenOptions;
use iotide_trace::{
    AccessFacts, Direction, Event, EventSink, Grain, Loss, Silence, ThroughputConfig, ThroughputLog,
    ThroughputSink, TimeSpent, Timestamp,
};

use crate::signature::{ask_prometheus, refuse_twice, silence_of};
use crate::{Error, Input, Progress, PrometheusError, PrometheusQuestion, Url};

/// Where the load of the storage is known.
#[derive(Debug)]
pub enum StorageLoad {
    /// The log of servers, of one file or of several that are added up.
    Log(Input),
    /// Somebody who is asked for the time around each run.
    Asked(Box<dyn LoadSource>),
}

/// Reads and writes of the storage between two times, each way for itself; `None` is nothing known, or for reads: counted with writes.
#[derive(Clone, Debug, Default)]
pub struct LoadPiece {
    /// Bytes per second read.
    pub read: Option<ThroughputLog>,
    /// Bytes per second written, or moved either way.
    pub written: Option<ThroughputLog>,
    /// Data that is missing.
    pub losses: Vec<Loss>,
}

/// Somebody who knows the load of the storage.
pub trait LoadSource: fmt::Debug + Sync {
    /// Who is asked, and for what: in a sentence of the answer.
    fn asked(&self) -> String;

    /// How long each value holds.
    fn step_s(&self) -> f64;

    /// Whether it counted the runs, too, in the same moments: then clocks need not be compared.
    fn is_same_clock(&self) -> bool {
        false
    }

    /// Returns the load between two times since 1970, which are multiples of the step.
    fn load(
        &self,
        from_s: f64,
        until_s: f64,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<LoadPiece, Error>;
}

/// A Prometheus server as the log of the storage.
#[derive(Clone, Debug)]
pub struct PrometheusLoad {
    /// The server.
    pub server: Url,
    /// PromQL for bytes per second written, or moved either way.
    pub query: String,
    /// PromQL for bytes per second read, if these are counted apart.
    pub read_query: Option<String>,
    /// How far values are apart: how often the server takes samples.
    pub step_s: f64,
}

impl PrometheusLoad {
    /// PromQL for what the usual exporters have, in the order in which they are looked for: the servers of Lustre, the clients as iotide sees
    /// them, the disks of a machine.
    ///
    /// The rate of the last two samples: one over a longer time would smear bursts, and the program's own bytes could not be taken off.
    fn usual(ways: [&str; 3]) -> String {
        let [lustre, fs, disk] = ways;
        [
            format!("sum(irate({lustre}[5m]))"),
            format!("sum(irate({fs}[5m]))"),
            format!("sum(irate({disk}[5m]))"),
        ]
        .join(" or ")
    }

    /// Asks for what the usual exporters have.
    pub fn of_usual_exporters(server: Url, step_s: f64) -> Self {
        let query = Self::usual([
            "lustre_write_bytes_total{component=~\"ost|\"}",
            "iotide_node_io_bytes_total{op=\"write\"}",
            "node_disk_written_bytes_total",
        ]);
        let read_query = Self::usual([
            "lustre_read_bytes_total{component=~\"ost|\"}",
            "iotide_node_io_bytes_total{op=\"read\"}",
            "node_disk_read_bytes_total",
        ]);
        Self { server, query, read_query: Some(read_query), step_s }
    }

    fn ask(
        &self,
        query: &str,
        (from_s, until_s): (f64, f64),
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(Option<ThroughputLog>, Vec<Loss>), Error> {
        let question = PrometheusQuestion {
            server: self.server.clone(),
            query: query.to_owned(),
            from_s,
            until_s,
            step_s: self.step_s,
        };
        let mut sink = ThroughputSink::new(ThroughputConfig {
            direction: Direction::Both,
            interval_s: Some(self.step_s),
            silence: Silence::Unknown,
            longest_hold: None,
        });
        match ask_prometheus(&question, &mut sink, progress) {
            // A server that was not there yet: a hole, and no fault.
            Err(PrometheusError::NoSamples { .. }) => Ok((None, Vec::new())),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(sink.finish()),
        }
    }
}

impl LoadSource for PrometheusLoad {
    fn asked(&self) -> String {
        let read = self.read_query.as_ref().map_or(String::new(), |read| format!("; reads: {read}"));
        format!("{} was asked for {}{read}", self.server, self.query)
    }

    fn step_s(&self) -> f64 {
        self.step_s
    }

    fn load(
        &self,
        from_s: f64,
        until_s: f64,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<LoadPiece, Error> {
        let span = (from_s, until_s);
        let (written, mut losses) = self.ask(&self.query, span, progress)?;
        let (read, lost) = match &self.read_query {
            Some(query) => self.ask(query, span, progress)?,
            None => (None, Vec::new()),
        };
        losses.extend(lost);
        Ok(LoadPiece { read, written, losses })
    }
}

/// A value of a log holds for its step; after that, nobody knows.
const LONGEST_HOLD: f64 = 1.5;

/// Reads what servers read and wrote, each way for itself.
fn of_log(input: &Input, open: &OpenOptions) -> Result<(ServerLoad, Vec<Loss>), Error> {
    refuse_twice(input.paths())?;
    let reader = input.open(open)?;
    let silence = silence_of(reader.format());
    let config = |direction| ThroughputConfig {
        direction,
        interval_s: None,
        silence,
        longest_hold: Some(LONGEST_HOLD),
    };
    let mut sinks = (
        ThroughputSink::new(config(Direction::Read)),
        (ThroughputSink::new(config(Direction::Write)), SampleTimes::default()),
    );
    let info = reader.read(&mut sinks)?;
    let (read, (written, times)) = sinks;
    if times.n == 0 {
        return Err(Error::NoServerLog { name: input.name() });
    }
    let ((read, _), (written, losses)) = (read.finish(), written.finish());
    let zero_s = match info.job.start_time_unix_s {
        Some(start) if !counts_from_1970(times.first_s.unwrap_or(0.0)) => start,
        _ => 0.0,
    };
    Ok((
        side_by_side(read, written, zero_s).ok_or_else(|| Error::NothingMoved { name: input.name() })?,
        losses,
    ))
}

/// Puts reads and writes on one grid.
fn side_by_side(
    read: Option<ThroughputLog>,
    written: Option<ThroughputLog>,
    zero_s: f64,
) -> Option<ServerLoad> {
    let alone = |log: ThroughputLog| ServerLoad {
        grid: LoadGrid { start_s: zero_s + log.start_s, step_s: log.interval_s },
        read_bps: Vec::new(),
        written_bps: log.values,
        is_same_clock: false,
    };
    let (read, written) = match (read, written) {
        (Some(read), Some(written)) => (read, written),
        (Some(one), None) | (None, Some(one)) => return Some(alone(one)),
        (None, None) => return None,
    };
    let step_s = written.interval_s;
    let start_s = read.start_s.min(written.start_s);
    let n = ((read.end_s().max(written.end_s()) - start_s) / step_s).round() as usize;
    let on_grid = |log: &ThroughputLog| {
        let mut values = vec![f64::NAN; n];
        LoadGrid { start_s, step_s }.put(&mut values, log);
        values
    };
    Some(ServerLoad {
        grid: LoadGrid { start_s: zero_s + start_s, step_s },
        read_bps: on_grid(&read),
        written_bps: on_grid(&written),
        is_same_clock: false,
    })
}

/// Load as far as it is known before the runs are read.
#[derive(Default)]
pub(super) struct Begun {
    /// The load, if a log has it.
    pub(super) load: Option<ServerLoad>,
    /// The grid on which runs are reduced.
    pub(super) grid: Option<LoadGrid>,
    pub(super) losses: Vec<Loss>,
}

impl StorageLoad {
    /// Reads a log. Who is asked is asked later: then it is known for which times.
    pub(super) fn begin(&self, open: &OpenOptions) -> Result<Begun, Error> {
        match self {
            Self::Log(log) => {
                let (load, losses) = of_log(log, open)?;
                Ok(Begun { grid: Some(load.grid), load: Some(load), losses })
            }
            Self::Asked(source) => {
                Ok(Begun { grid: Some(LoadGrid::of_step(source.step_s())), ..Begun::default() })
            }
        }
    }
}

/// Asks for the load around runs, the first of which is the one in question, and brings them onto its grid.
pub(super) fn asked(
    source: &dyn LoadSource,
    runs: &mut [&mut RunFacts],
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(Option<ServerLoad>, Vec<Loss>), Error> {
    let Some(plan) = LoadPlan::around(runs.iter().map(|run| &**run), source.step_s()) else {
        return Ok((None, Vec::new()));
    };
    let mut losses = Vec::new();
    if plan.n_far > 0 {
        losses.push(Loss::of_unknown_size(format!(
            "{} earlier runs are too long ago: the load was not asked for",
            plan.n_far
        )));
    }
    let mut load = plan.unknown(source.is_same_clock());
    let mut n_known = 0;
    for &(from_s, until_s) in &plan.windows {
        let piece = source.load(from_s, until_s, progress)?;
        losses.extend(piece.losses);
        piece.read.iter().for_each(|read| load.put_read(read));
        piece.written.iter().for_each(|written| load.put_written(written));
        n_known += usize::from(piece.read.is_some() || piece.written.is_some());
    }
    if n_known == 0 {
        return Ok((None, losses));
    }
    for run in runs {
        run.rebase(LoadGrid::of_step(source.step_s()), plan.grid.start_s);
    }
    Ok((Some(load), losses))
}

/// When the first sample of a log was taken, and how many there are.
#[derive(Default)]
struct SampleTimes {
    n: u64,
    first_s: Option<f64>,
}

impl EventSink for SampleTimes {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        if event.grain == Grain::Bin {
            self.n += 1;
            let at_s = event.start.as_secs();
            self.first_s = Some(self.first_s.map_or(at_s, |first| first.min(at_s)));
        }
        ControlFlow::Continue(())
    }

    fn async_event(&mut self, event: Event, _: Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: TimeSpent) {}

    fn access_facts(&mut self, _: &AccessFacts) {}

    fn loss(&mut self, _: Loss) {}
}
