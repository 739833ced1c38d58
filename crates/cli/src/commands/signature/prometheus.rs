//! A throughput log kept by a Prometheus server, asked for in ranges that the server will answer.

use std::io::{self, Cursor};
use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::{Context, bail};
use iotide_formats::RangeAnswer;
use iotide_trace::{Event, EventSink, Grain, Layer, Loss, Op, Rank, Timestamp};

use super::http::{self, Response, Url};
use crate::ui::{Hint, Ui};

/// What to ask of whom.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) server: Url,
    /// PromQL that gives bytes per second.
    pub(super) query: String,
    /// The time of the first value.
    pub(super) from_s: f64,
    pub(super) step_s: f64,
    /// How many values, one a step.
    pub(super) n_points: f64,
}

/// A server answers with no more points than this.
const MOST_POINTS: u64 = 11_000;

/// Below this, asking for less at a time does not help a server that cannot load so many samples.
const FEWEST_POINTS: u64 = 100;

/// Points of a log, all in all: as many as a log may have.
const MOST_POINTS_IN_ALL: f64 = 3e7;

/// A server that is busy or restarts is asked again after these pauses, and then no more.
const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// Asks for the whole range and pushes what the server has into `sink`, each value as a bin that ends at its time.
///
/// Several series are added up by the sink, as it does with those of several files.
pub(super) fn ask(ui: &mut Ui, question: &Question, sink: &mut dyn EventSink) -> anyhow::Result<()> {
    let Question { server, query, from_s, step_s, n_points } = question;
    if !(1.0..=MOST_POINTS_IN_ALL).contains(n_points) {
        return Err(anyhow::anyhow!(
            "{n_points} values in steps of {step_s} s are more than can be asked for"
        ))
        .hint("a longer `--step`, or a shorter time by `--from` and `--until`, asks for fewer");
    }
    let n_points = *n_points as u64;
    let until_s = from_s + (n_points - 1) as f64 * step_s;
    let mut per_request = MOST_POINTS;
    let mut asked = 0;
    let (mut n_samples, mut n_unusable) = (0u64, 0u64);
    while asked < n_points {
        ui.progress(format_args!("asking {server} ({} %)", asked * 100 / n_points));
        let n = per_request.min(n_points - asked);
        let time = |point: u64| format!("{:.3}", from_s + point as f64 * step_s);
        let parameters = [
            ("query", query.clone()),
            ("start", time(asked)),
            ("end", time(asked + n - 1)),
            ("step", step_s.to_string()),
        ];
        let Response { status, body } =
            persistently(ui, || http::get(server, "/api/v1/query_range", &parameters))
                .with_context(|| format!("cannot ask {server}"))?;
        let mut events = Vec::new();
        let answer = RangeAnswer::read(Cursor::new(body), |_, at_s, value| {
            events.extend(bin_until(at_s, *step_s, value));
        });
        let answer = match answer {
            Ok(answer) => answer,
            Err(_) if status != 200 => bail!("{server} answers with status {status}"),
            Err(error) => {
                return Err(error).with_context(|| format!("{server} gave no answer to be understood"));
            }
        };
        if let Some(error) = answer.error {
            if error.contains("too many samples") && n > FEWEST_POINTS {
                per_request = (n / 4).max(FEWEST_POINTS);
                continue;
            }
            return Err(anyhow::anyhow!("{server} refuses the query: {error}"))
                .hint("`--query` is PromQL that gives bytes per second, for example sum(rate(lustre_write_bytes_total[1m]))");
        }
        if let Some(total) = answer.metrics.iter().find(|metric| metric.ends_with("_total")) {
            return Err(anyhow::anyhow!("{total} counts bytes, and a throughput log is bytes per second"))
                .hint(format!("ask for sum(rate({total}[1m]))"));
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
        return Err(anyhow::anyhow!("{server} has no samples from {from_s} until {until_s} for this query"))
            .hint("`--from` and `--until` are seconds since 1970 or dates; the server's own page shows what it has");
    }
    Ok(())
}

/// Asks again where that may help.
fn persistently(ui: &mut Ui, mut ask: impl FnMut() -> io::Result<Response>) -> io::Result<Response> {
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
            Err(error) => ui.progress(format_args!("{error}; asking again")),
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
