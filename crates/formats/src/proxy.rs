//! Traces that the metric proxy exports: samples of many metrics over time, as JSON or MessagePack.
//!
//! ```json
//! {"argv": ["--freq", "20"], "metrics": {"infos": false, "metrics": {"deriv__write_size": [[0.0, 0.0], [1.06, 6.5]]}},
//!  "disable_parallel": true}
//! ```
//!
//! `metrics` may also hold the metrics directly. A metric and its derivative (`deriv__…`) say the same; the derivative is
//! taken. Of all metrics, those of bytes read or written become events. If there is none, the first metric is taken
//! as if it were bytes per second, and a loss says so: its rhythm is still a rhythm. A metric that is asked for by name stands in the place of
//! bytes, whatever it is about.

use std::collections::BTreeSet;

use iotide_trace::{Event, EventSink, Op, TraceInfo};

use crate::{
    Place,
    budget::NameBudget,
    error::Fault,
    files::Files,
    input::Input,
    json::{Json, Next},
    losses::Losses,
    metrics::{Chosen, Reading, Series, meaning_of},
    scanner::Scanner,
    tmio::msgpack::{MessagePack, Token},
};

/// Samples kept until it is known which metrics count.
const MOST_EVENTS: usize = 1 << 22;
/// Metrics in one trace.
const MOST_METRICS: usize = 1 << 16;
/// How deep `metrics` may lie in `metrics`.
const DEEPEST: usize = 4;

/// Whether a JSON text is one of these.
pub(crate) fn recognises_json(text: &[u8]) -> bool {
    let Some(at) = memchr::memmem::find(text, b"\"metrics\"") else { return false };
    let rest = text[at + b"\"metrics\"".len()..].trim_ascii_start();
    rest.first() == Some(&b':') && rest[1..].trim_ascii_start().first() == Some(&b'{')
}

/// Whether bytes are one of these as MessagePack: a map with a key `metrics`.
pub(crate) fn recognises_msgpack(head: &[u8]) -> bool {
    matches!(head.first(), Some(0x81..=0x8f | 0xde)) && memchr::memmem::find(head, b"\xa7metrics").is_some()
}

/// Metrics found, one by one.
#[derive(Default)]
struct Metrics {
    names: BTreeSet<String>,
    budget: NameBudget,
    files: Files,
    losses: Losses,
    /// Events of metrics of bytes, with the metric each is from.
    events: Vec<(u32, Event)>,
    metrics: Vec<String>,
    /// The first metric that is not of bytes.
    other: Option<(String, Vec<Event>)>,
    overflowed: bool,
    /// Metrics that are requested by name, in the place of bytes.
    chosen: Option<Chosen>,
}

/// A metric that is being read.
struct Current {
    series: Series,
    /// Its place in `Metrics::metrics`, or `None` if it is the one that is not of bytes.
    index: Option<u32>,
    /// Its place among those asked for by name.
    chosen: Option<usize>,
}

impl Metrics {
    /// Begins a metric; `None` if its samples are not wanted.
    fn begin(&mut self, name: &str) -> Option<Current> {
        let is_known = self.names.contains(name);
        if is_known || self.names.len() >= MOST_METRICS || !self.budget.takes(name.as_bytes()) {
            return None;
        }
        self.names.insert(name.to_owned());
        if let Some(chosen) = &mut self.chosen {
            let chosen = Some(chosen.begin(name)?);
            return Some(Current { series: Series::new(Op::Write, Reading::Rate), index: None, chosen });
        }
        if let Some((op, reading)) = meaning_of(name) {
            let mut series = Series::new(op, reading);
            series.file = self.files.id_of_bytes(name.as_bytes());
            self.metrics.push(name.to_owned());
            return Some(Current { series, index: Some(self.metrics.len() as u32 - 1), chosen: None });
        }
        if self.other.is_some() {
            return None;
        }
        self.other = Some((name.to_owned(), Vec::new()));
        Some(Current { series: Series::new(Op::Write, Reading::Rate), index: None, chosen: None })
    }

    fn sample(&mut self, current: &mut Current, at_s: f64, value: f64, place: Place) {
        if let (Some(chosen), Some(index)) = (&mut self.chosen, current.chosen) {
            chosen.sample(index, at_s, value);
            return;
        }
        match current.series.push(at_s, value) {
            Ok(None) => {}
            Ok(Some(event)) => match (current.index, &mut self.other) {
                (Some(index), _) if self.events.len() < MOST_EVENTS => self.events.push((index, event)),
                (None, Some((_, events))) if events.len() < MOST_EVENTS => events.push(event),
                _ => self.overflowed = true,
            },
            Err(unusable) => self.losses.note("sample", place, || unusable.to_string()),
        }
    }

    fn finish(mut self, sink: &mut dyn EventSink) -> TraceInfo {
        let taken: Vec<bool> =
            self.metrics.iter().map(|name| !self.names.contains(&format!("deriv__{name}"))).collect();
        let mut files = self.files;
        if let Some(chosen) = self.chosen {
            chosen.finish(&mut files, &mut self.losses, sink);
        } else if self.metrics.is_empty() {
            if let Some((name, events)) = self.other {
                let file = files.id_of_bytes(name.as_bytes());
                self.losses.note_of_unknown_size("not bytes", Place::Whole, || {
                    format!("no metric is of bytes read or written; {name} is taken as if it were bytes per second")
                });
                for event in events {
                    if sink.event(Event { file, ..event }).is_break() {
                        break;
                    }
                }
            }
        } else {
            for (index, event) in self.events {
                if taken.get(index as usize) == Some(&true) && sink.event(event).is_break() {
                    break;
                }
            }
        }
        if self.overflowed {
            self.losses.note_of_unknown_size("many", Place::Whole, || "more samples than can be kept".into());
        }
        let files = files.into_paths(&mut self.losses);
        self.losses.report(sink);
        TraceInfo { files, ..TraceInfo::default() }
    }
}

/// Reads a JSON file.
pub(crate) fn read_json(
    input: Input,
    metric: Option<&str>,
    sink: &mut dyn EventSink,
) -> Result<TraceInfo, Fault> {
    let mut json = Json::new(Scanner::new(input.into_read()));
    let mut metrics = Metrics { chosen: metric.map(Chosen::new), ..Metrics::default() };
    match json_object(&mut json, &mut metrics, false, 0) {
        Err(Fault::At(place, fault)) => {
            metrics.losses.note_of_the_rest("damaged", place, || format!("{fault}; what follows is lost"));
        }
        result => result?,
    }
    Ok(metrics.finish(sink))
}

fn json_object(json: &mut Json, metrics: &mut Metrics, inside: bool, depth: usize) -> Result<(), Fault> {
    json.enter_object()?;
    let (mut first, mut key) = (true, String::new());
    while json.key(&mut first, &mut key)? {
        match json.next()? {
            Next::Object if key == "metrics" && depth < DEEPEST => {
                json_object(json, metrics, true, depth + 1)?
            }
            Next::Array if inside => match metrics.begin(&key) {
                Some(mut current) => json_samples(json, metrics, &mut current)?,
                None => json.skip()?,
            },
            _ => json.skip()?,
        }
    }
    Ok(())
}

fn json_samples(json: &mut Json, metrics: &mut Metrics, current: &mut Current) -> Result<(), Fault> {
    json.enter_array()?;
    let mut first = true;
    while json.element(&mut first)? {
        let place = json.place();
        if json.next()? != Next::Array {
            json.skip()?;
            continue;
        }
        json.enter_array()?;
        let (mut first, mut values, mut n) = (true, [f64::NAN; 2], 0);
        while json.element(&mut first)? {
            let value = json.number()?;
            if let Some(slot) = values.get_mut(n) {
                *slot = value;
            }
            n += 1;
        }
        metrics.sample(current, values[0], values[1], place);
    }
    Ok(())
}

/// Reads a MessagePack file.
pub(crate) fn read_msgpack(
    input: Input,
    metric: Option<&str>,
    sink: &mut dyn EventSink,
) -> Result<TraceInfo, Fault> {
    let mut pack = MessagePack { scanner: Scanner::new(input.into_read()) };
    let mut metrics = Metrics { chosen: metric.map(Chosen::new), ..Metrics::default() };
    loop {
        if pack.scanner.peek()?.is_none() {
            break;
        }
        let read = match pack.token() {
            Ok(Token::Map(n)) => msgpack_map(&mut pack, n, &mut metrics, false, 0),
            Ok(token) => skip_rest(&mut pack, token),
            Err(fault) => Err(fault),
        };
        match read {
            Ok(()) => {}
            Err(Fault::At(place, fault)) => {
                metrics
                    .losses
                    .note_of_the_rest("damaged", place, || format!("{fault}; what follows is lost"));
                break;
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(metrics.finish(sink))
}

fn msgpack_map(
    pack: &mut MessagePack,
    n_entries: u64,
    metrics: &mut Metrics,
    inside: bool,
    depth: usize,
) -> Result<(), Fault> {
    for _ in 0..n_entries {
        let place = pack.place();
        let Token::Bytes(len) = pack.token()? else {
            return Err(Fault::at(place, "a name should be here"));
        };
        let key = pack.text(len)?;
        match pack.token()? {
            Token::Map(n) if key == "metrics" && depth < DEEPEST => {
                msgpack_map(pack, n, metrics, true, depth + 1)?
            }
            Token::Array(n) if inside => match metrics.begin(&key) {
                Some(mut current) => msgpack_samples(pack, n, metrics, &mut current)?,
                None => pack.skip(n)?,
            },
            token => skip_rest(pack, token)?,
        }
    }
    Ok(())
}

fn msgpack_samples(
    pack: &mut MessagePack,
    n: u64,
    metrics: &mut Metrics,
    current: &mut Current,
) -> Result<(), Fault> {
    for _ in 0..n {
        let place = pack.place();
        let token = pack.token()?;
        let Token::Array(n_values) = token else {
            skip_rest(pack, token)?;
            continue;
        };
        let mut values = [f64::NAN; 2];
        for i in 0..n_values {
            let value = match pack.token()? {
                Token::Number(value) => value,
                token => {
                    skip_rest(pack, token)?;
                    f64::NAN
                }
            };
            if let Some(slot) = usize::try_from(i).ok().and_then(|i| values.get_mut(i)) {
                *slot = value;
            }
        }
        metrics.sample(current, values[0], values[1], place);
    }
    Ok(())
}

/// Passes over what a token announced.
fn skip_rest(pack: &mut MessagePack, token: Token) -> Result<(), Fault> {
    match token {
        Token::Number(_) | Token::Other => Ok(()),
        Token::Array(n) => pack.skip(n),
        Token::Map(n) => pack.skip(n.saturating_mul(2)),
        Token::Bytes(len) => pack.skip_bytes(len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::Trace;
    use std::path::Path;

    fn read(bytes: &[u8]) -> Trace {
        let input =
            Input::from_read(Path::new("test"), Box::new(std::io::Cursor::new(bytes.to_vec()))).unwrap();
        let mut trace = Trace::default();
        trace.info = match recognises_msgpack(bytes) {
            true => read_msgpack(input, None, &mut trace).unwrap(),
            false => {
                assert!(recognises_json(bytes));
                read_json(input, None, &mut trace).unwrap()
            }
        };
        trace
    }

    fn shown(trace: &Trace) -> Vec<String> {
        let shown = |event: &Event| {
            let Event { op, start, end, bytes, .. } = event;
            let file = &trace.info.files[event.file.0 as usize];
            format!("{} {}..{} {bytes} {file}", op.name(), start.as_secs(), end.as_secs())
        };
        trace.events.iter().map(shown).collect()
    }

    #[test]
    fn a_derivative_stands_for_its_metric() {
        let trace = read(
            br#"{"argv": ["a"], "metrics": {"infos": false, "metrics": {
            "write_size": [[0, 0], [1, 5], [2, 9]], "read_size": [[0, 1], [2, 4]], "cpu": [[0, 1], [1, 2]],
            "deriv__write_size": [[0.0, 0.0], [1.0, 5.0], [2.0, null]]}}, "disable_parallel": true}"#,
        );
        assert_eq!(shown(&trace), ["read 0..2 3 read_size", "write 0..1 5 deriv__write_size"]);
        assert_eq!(trace.losses.len(), 1);
    }

    #[test]
    fn a_metric_asked_for_by_name_is_the_signal_whatever_it_is_about() {
        let text = r#"{"metrics": {"write_size": [[0, 0], [1, 5]], "mpi_time": [[0, 1], [1, 3], [2, 3], [3, 4]],
            "load": [[0, 1], [1, 2], [2, 1]], "cpu{core=\"0\"}": [[0, 1], [2, 4]], "deriv__x": [[0, 1], [1, 1]], "x": [[0, 1], [1, 2]]}}"#;
        let chosen = |name: &str| {
            let bytes = text.as_bytes().to_vec();
            let input = Input::from_read(Path::new("test"), Box::new(std::io::Cursor::new(bytes))).unwrap();
            let mut trace = Trace::default();
            trace.info = read_json(input, Some(name), &mut trace).unwrap();
            trace
        };
        // It never falls: what counts is by how much it grew.
        assert_eq!(shown(&chosen("mpi_time")), ["write 0..1 2 mpi_time", "write 2..3 1 mpi_time"]);
        assert_eq!(shown(&chosen("load")), ["write 0..1 2 load", "write 1..2 1 load"]);
        assert_eq!(shown(&chosen("cpu")), [r#"write 0..2 3 cpu{core="0"}"#]);
        assert_eq!(shown(&chosen("x")), ["write 0..1 1 deriv__x"]);
        assert_eq!(chosen("m*").events.len(), 2);
        let none = chosen("mpitime");
        assert_eq!(none.events.len(), 0);
        assert!(
            none.losses[0].what.contains("no metric is called mpitime; there are write_size, mpi_time, load"),
            "{:?}",
            none.losses
        );
    }

    #[test]
    fn without_bytes_the_first_metric_is_the_signal() {
        let mut bytes =
            b"\x83\xa4argv\x91\xa3--f\xa7metrics\x82\xa5infos\xc2\xa7metrics\x81\xa9cpu_usage\x93".to_vec();
        bytes.extend(b"\x92\x00\x00\x92\x01\x05\x92\x03\x02\xb0disable_parallel\xc3");
        let trace = read(&bytes);
        assert_eq!(shown(&trace), ["write 0..1 5 cpu_usage", "write 1..3 4 cpu_usage"]);
        assert_eq!(trace.losses.len(), 1);
        for len in 12..bytes.len() {
            let input =
                Input::from_read(Path::new("cut"), Box::new(std::io::Cursor::new(bytes[..len].to_vec())));
            read_msgpack(input.unwrap(), None, &mut Trace::default()).unwrap();
        }
    }
}
