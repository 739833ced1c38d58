//! A throughput log kept by a Prometheus server, asked for in ranges that the server will answer.

use std::io::{self, Cursor};
use std::ops::ControlFlow;
use std::time::Duration;

use iotide_formats::RangeAnswer;
use iotide_http::{Answer, AnswerLimits, Request, Url, in_query};
use iotide_trace::{
    Direction, Event, EventSink, Grain, Layer, Loss, Op, Rank, Silence, ThroughputLog, ThroughputSink,
    Timestamp,
};

use super::SignatureOptions;
use crate::{Error, Progress};

/// Settings of a query to a Prometheus server.
#[derive(Clone, Debug)]
pub struct PrometheusQuestion {
    /// The server.
    pub server: Url,
    /// PromQL that gives bytes per second.
    pub query: String,
    /// When the log begins, in seconds since 1970.
    pub from_s: f64,
    /// When it ends.
    pub until_s: f64,
    /// How far its values are apart.
    pub step_s: f64,
}

/// Why a server gave no log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrometheusError {
    /// No time is asked for.
    #[error("the time to ask for ends before it begins: from {from_s} until {until_s}")]
    NoTime {
        /// When it begins.
        from_s: f64,
        /// When it ends.
        until_s: f64,
    },
    /// The log would be too long.
    #[error("{n_values} values in steps of {step_s} s are more than can be asked for")]
    TooManyValues {
        /// How many values it would have.
        n_values: f64,
        /// How far they would be apart.
        step_s: f64,
    },
    /// The server could not be reached.
    #[error("cannot ask {server}")]
    Unreached {
        /// Which.
        server: Url,
        /// Error of the system.
        source: io::Error,
    },
    /// The server answers with a status, and nothing else.
    #[error("{server} answers with status {status}")]
    Status {
        /// Which.
        server: Url,
        /// Its answer.
        status: u16,
    },
    /// The answer is none.
    #[error("{server} gave no answer to be understood")]
    Answer {
        /// Whose.
        server: Url,
        /// Cause of the error.
        source: iotide_formats::ReadError,
    },
    /// The query is refused.
    #[error("{server} refuses the query: {why}")]
    Refused {
        /// By whom.
        server: Url,
        /// Message of the server.
        why: String,
    },
    /// The query gives a sum instead of a rate.
    #[error("{metric} counts bytes, and a throughput log is bytes per second")]
    CountsBytes {
        /// Name of the metric.
        metric: String,
    },
    /// There is nothing of that time.
    #[error("{server} has no samples from {from_s} until {until_s} for this query")]
    NoSamples {
        /// Where.
        server: Url,
        /// The time of the first value asked for.
        from_s: f64,
        /// That of the last.
        until_s: f64,
    },
    /// There is nothing of that time that counts.
    #[error("the server has nothing of that time")]
    Nothing,
}

/// A server answers with no more points than this.
const MOST_POINTS: u64 = 11_000;

/// Below this, asking for less at a time does not help a server that cannot load so many samples.
const FEWEST_POINTS: u64 = 100;

/// Points of a log, all in all: as many as a log may have.
const MOST_POINTS_IN_ALL: f64 = 3e7;
/// Limits on the time and size of an answer.
const LIMITS: AnswerLimits =
    AnswerLimits { silence: Duration::from_secs(30), whole: Duration::from_secs(600), body: Some(256 << 20) };

/// A server that is busy or restarts is asked again after these pauses, and then no more.
const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// Asks a server for a throughput log. What the query gives is what counts, whichever way the bytes went.
pub fn prometheus_log(
    question: &PrometheusQuestion,
    options: &SignatureOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(ThroughputLog, Vec<Loss>), Error> {
    let mut config = options.throughput(Silence::Unknown, None);
    config.direction = Direction::Both;
    config.interval_s = config.interval_s.or(Some(question.step_s));
    let mut sink = ThroughputSink::new(config);
    ask(question, &mut sink, progress)?;
    let (log, losses) = sink.finish();
    Ok((log.ok_or(PrometheusError::Nothing)?, losses))
}

/// Asks for the whole range and pushes what the server has into `sink`, each value as a bin that ends at its time.
///
/// Several series are added up by the sink, as it does with those of several files.
pub(crate) fn ask(
    question: &PrometheusQuestion,
    sink: &mut dyn EventSink,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), PrometheusError> {
    let PrometheusQuestion { server, query, from_s, until_s, step_s } = question;
    let (from_s, until_s, step_s) = (*from_s, *until_s, *step_s);
    if from_s >= until_s {
        return Err(PrometheusError::NoTime { from_s, until_s });
    }
    let n_values = ((until_s - from_s) / step_s).ceil();
    if !(1.0..=MOST_POINTS_IN_ALL).contains(&n_values) {
        return Err(PrometheusError::TooManyValues { n_values, step_s });
    }
    let n_points = n_values as u64;
    // A value holds since the one before: the first of the range comes one step after its beginning.
    let from_s = from_s + step_s;
    let until_s = from_s + (n_points - 1) as f64 * step_s;
    let mut per_request = MOST_POINTS;
    let mut asked = 0;
    let (mut n_samples, mut n_unusable) = (0u64, 0u64);
    while asked < n_points {
        progress(Progress::Asking { server, percent: asked * 100 / n_points });
        let n = per_request.min(n_points - asked);
        let time = |point: u64| format!("{:.3}", from_s + point as f64 * step_s);
        let parameters = [
            ("query", query.clone()),
            ("start", time(asked)),
            ("end", time(asked + n - 1)),
            ("step", step_s.to_string()),
        ];
        let Answer { status, body } = persistently(progress, || get(server, &parameters))
            .map_err(|source| PrometheusError::Unreached { server: server.clone(), source })?;
        let mut events = Vec::new();
        let answer = RangeAnswer::read(Cursor::new(body), |_, at_s, value| {
            events.extend(bin_until(at_s, step_s, value));
        });
        let answer = match answer {
            Ok(answer) => answer,
            Err(_) if status != 200 => {
                return Err(PrometheusError::Status { server: server.clone(), status });
            }
            Err(source) => return Err(PrometheusError::Answer { server: server.clone(), source }),
        };
        if let Some(why) = answer.error {
            if why.contains("too many samples") && n > FEWEST_POINTS {
                per_request = (n / 4).max(FEWEST_POINTS);
                continue;
            }
            return Err(PrometheusError::Refused { server: server.clone(), why });
        }
        if let Some(metric) = answer.metrics.iter().find(|metric| metric.ends_with("_total")) {
            return Err(PrometheusError::CountsBytes { metric: metric.clone() });
        }
        for warning in answer.warnings {
            sink.loss(Loss::of_unknown_size(format!("{server}: {warning}")));
        }
        n_samples += events.len() as u64;
        n_unusable += answer.n_unusable;
        for event in events {
            if let ControlFlow::Break(()) = sink.event(event) {
                return Ok(());
            }
        }
        asked += n;
    }
    if n_unusable > 0 {
        sink.loss(Loss::of_records(n_unusable, format!("{server}: samples that are not a bandwidth")));
    }
    if n_samples == 0 {
        return Err(PrometheusError::NoSamples { server: server.clone(), from_s, until_s });
    }
    Ok(())
}

fn get(server: &Url, parameters: &[(&str, String)]) -> io::Result<Answer> {
    let query: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={}", in_query(value))).collect();
    let target = server.below(&format!("/api/v1/query_range?{}", query.join("&")));
    iotide_http::ask(
        server,
        &Request { headers: "Accept: application/json\r\n", ..Request::get(&target) },
        LIMITS,
    )
}

/// Asks again where that may help.
fn persistently(
    progress: &mut dyn FnMut(Progress<'_>),
    mut ask: impl FnMut() -> io::Result<Answer>,
) -> io::Result<Answer> {
    for pause in PAUSES {
        match ask() {
            Ok(response) if matches!(response.status, 429 | 502..=504) => {}
            Ok(response) => return Ok(response),
            // What is no answer now will be none the next time.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::FileTooLarge) =>
            {
                return Err(error);
            }
            Err(why) => progress(Progress::AskingAgain { why }),
        }
        std::thread::sleep(pause);
    }
    ask()
}

/// A rate holds since the sample before, one step ago.
fn bin_until(at_s: f64, step_s: f64, rate_bps: f64) -> Option<Event> {
    let (start, end) =
        (Timestamp::from_secs_since_start(at_s - step_s)?, Timestamp::from_secs_since_start(at_s)?);
    let event = Event::data(Op::Write, Rank::ALL, start, end, rate_bps * step_s);
    Some(Event { layer: Layer::Server, grain: Grain::Bin, calls: 0, ..event })
}
