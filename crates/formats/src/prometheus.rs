//! A range answer of Prometheus (`/api/v1/query_range`): series of samples as JSON.
//!
//! ```json
//! {"status": "success", "data": {"resultType": "matrix", "result": [
//!   {"metric": {"__name__": "node_disk_written_bytes_total", "instance": "n1"},
//!    "values": [[1700000000, "4096"], [1700000015, "8192"]]}]}}
//! ```
//!
//! A metric whose name says that it is a total of bytes gives its differences; the answer to an expression such as
//! `rate(…)` has no name and is taken as bytes per second, which hold since the sample before. Times count from the
//! Unix epoch; each series is a file of the trace, under its labels.

use std::io::Read;
use std::path::Path;

use iotide_trace::{EventSink, Op, TraceInfo};

use crate::{
    Place, ReadError,
    error::Fault,
    files::Files,
    input::Input,
    json::{Json, Next},
    losses::Losses,
    metrics::{Chosen, Reading, Series, direction_of, meaning_of, reading_of},
    number::parse_f64,
    scanner::Scanner,
};

/// Labels beyond this many bytes are cut in the name of the series.
const LONGEST_NAME: usize = 4096;

/// Reads one answer.
pub(crate) fn read(input: Input, sink: &mut dyn EventSink) -> Result<TraceInfo, Fault> {
    read_metric(input, None, sink)
}

/// The same; of a metric that is asked for by name, whatever it is about.
pub(crate) fn read_metric(
    input: Input,
    metric: Option<&str>,
    sink: &mut dyn EventSink,
) -> Result<TraceInfo, Fault> {
    let mut reader = Answer::of(input.into_read());
    reader.chosen = metric.map(Chosen::new);
    let mut take = |reader: &mut Answer| reader.results(sink);
    match reader.document(&mut take) {
        Err(Fault::At(place, fault)) => {
            reader.losses.note_of_the_rest("damaged", place, || format!("{fault}; what follows is lost"));
        }
        result => result?,
    }
    if let Some(chosen) = reader.chosen.take() {
        chosen.finish(&mut reader.files, &mut reader.losses, sink);
    }
    let files = reader.files.into_paths(&mut reader.losses);
    reader.losses.report(sink);
    Ok(TraceInfo { files, ..TraceInfo::default() })
}

/// Answer of a Prometheus server to a range query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeAnswer {
    /// Why the server did not answer the question, in its own words.
    pub error: Option<String>,
    /// Warnings of the server.
    pub warnings: Vec<String>,
    /// The metric of each series, empty for an expression: one entry a series.
    pub metrics: Vec<String>,
    /// Samples that are no numbers.
    pub n_unusable: u64,
}

impl RangeAnswer {
    /// Reads the answer of a server; `sample` gets the series (its place in `metrics`), the time and the value of each.
    ///
    /// Fails if it is not an answer of a Prometheus server, or ends early: part of a range must not pass for all of it.
    pub fn read(
        answer: impl Read + Send + 'static,
        mut sample: impl FnMut(usize, f64, f64),
    ) -> Result<Self, ReadError> {
        let mut found = RangeAnswer::default();
        let mut reader = Answer::of(Box::new(answer));
        let mut take = |reader: &mut Answer| reader.plain_results(&mut found, &mut sample);
        let read = reader.document(&mut take);
        read.map_err(|fault| ReadError::from_fault(Path::new("the answer"), fault))?;
        found.warnings = reader.warnings;
        found.error = reader.error;
        if reader.status.is_empty() {
            let fault = Fault::at(Place::Whole, "not an answer of a Prometheus server");
            return Err(ReadError::from_fault(Path::new("the answer"), fault));
        }
        if reader.status != "success" && found.error.is_none() {
            found.error = Some(format!("status {}", reader.status));
        }
        Ok(found)
    }

    fn sample(&mut self, at_s: f64, value: f64, take: impl FnOnce(f64, f64)) {
        if at_s.is_finite() && (0.0..=1e30).contains(&value) {
            take(at_s, value);
        } else {
            self.n_unusable += 1;
        }
    }
}

/// Words of the server are kept up to so many.
const MOST_WARNINGS: usize = 20;

struct Answer {
    json: Json,
    files: Files,
    losses: Losses,
    stopped: bool,
    key: String,
    status: String,
    error: Option<String>,
    warnings: Vec<String>,
    /// Series that are requested by name, in the place of bytes.
    chosen: Option<Chosen>,
}

/// A series that is being read.
enum Taken {
    Bytes(Series),
    /// Its place among those asked for by name.
    Chosen(usize),
}

/// Function that takes the results, once they are reached.
type TakeResults<'a> = &'a mut dyn FnMut(&mut Answer) -> Result<(), Fault>;

impl Answer {
    fn of(read: Box<dyn Read + Send>) -> Self {
        Self {
            json: Json::new(Scanner::new(read)),
            files: Files::default(),
            losses: Losses::default(),
            stopped: false,
            key: String::new(),
            status: String::new(),
            error: None,
            warnings: Vec::new(),
            chosen: None,
        }
    }

    /// Calls `visit` with every key of the object that comes next, until all were seen or nothing more is wanted.
    fn each_key(&mut self, mut visit: impl FnMut(&mut Self, &str) -> Result<(), Fault>) -> Result<(), Fault> {
        self.json.enter_object()?;
        let mut first = true;
        loop {
            let mut key = std::mem::take(&mut self.key);
            let more = self.json.key(&mut first, &mut key)?;
            if !more || self.stopped {
                return Ok(());
            }
            visit(self, &key)?;
            self.key = key;
            if self.stopped {
                return Ok(());
            }
        }
    }

    fn document(&mut self, take: TakeResults<'_>) -> Result<(), Fault> {
        self.each_key(|this, key| match (key, this.json.next()?) {
            ("data", Next::Object) => this.each_key(|this, key| match key {
                "result" if this.json.next()? == Next::Array => take(this),
                _ => this.json.skip(),
            }),
            ("status", Next::String) => {
                let mut status = String::new();
                this.json.string(&mut status)?;
                this.status = status;
                Ok(())
            }
            ("error", Next::String) => {
                let mut error = String::new();
                this.json.string(&mut error)?;
                this.error = Some(error);
                Ok(())
            }
            ("warnings", Next::Array) => this.warnings(),
            _ => this.json.skip(),
        })
    }

    fn warnings(&mut self) -> Result<(), Fault> {
        self.json.enter_array()?;
        let (mut first, mut warning) = (true, String::new());
        while self.json.element(&mut first)? {
            if self.json.next()? != Next::String {
                self.json.skip()?;
                continue;
            }
            self.json.string(&mut warning)?;
            if self.warnings.len() < MOST_WARNINGS {
                self.warnings.push(warning.clone());
            }
        }
        Ok(())
    }

    /// The samples as they are, whatever the metric is about.
    fn plain_results(
        &mut self,
        found: &mut RangeAnswer,
        take: &mut dyn FnMut(usize, f64, f64),
    ) -> Result<(), Fault> {
        self.json.enter_array()?;
        let mut first = true;
        while self.json.element(&mut first)? {
            let series = found.metrics.len();
            found.metrics.push(String::new());
            self.each_key(|this, key| match (key, this.json.next()?) {
                ("metric", Next::Object) => this.each_key(|this, key| {
                    if key != "__name__" || this.json.next()? != Next::String {
                        return this.json.skip();
                    }
                    this.json.string(&mut found.metrics[series])
                }),
                ("values", Next::Array) => {
                    this.json.enter_array()?;
                    let (mut first, mut text) = (true, String::new());
                    while this.json.element(&mut first)? {
                        let (at_s, value) = this.sample(&mut text)?;
                        found.sample(at_s, value, |at_s, value| take(series, at_s, value));
                    }
                    Ok(())
                }
                _ => this.json.skip(),
            })?;
        }
        Ok(())
    }

    /// `[1700000000, "4096"]`; NaN where that is not a number.
    fn sample(&mut self, text: &mut String) -> Result<(f64, f64), Fault> {
        self.json.enter_array()?;
        let (mut first, mut values, mut n) = (true, [f64::NAN; 2], 0);
        while self.json.element(&mut first)? {
            let value = match self.json.next()? {
                Next::String => {
                    self.json.string(text)?;
                    parse_f64(text.as_bytes()).unwrap_or(f64::NAN)
                }
                Next::Number => self.json.number()?,
                _ => {
                    self.json.skip()?;
                    f64::NAN
                }
            };
            if let Some(slot) = values.get_mut(n) {
                *slot = value;
            }
            n += 1;
        }
        Ok((values[0], values[1]))
    }

    fn results(&mut self, sink: &mut dyn EventSink) -> Result<(), Fault> {
        self.json.enter_array()?;
        let mut first = true;
        while self.json.element(&mut first)? {
            let mut series = None;
            self.each_key(|this, key| match key {
                "metric" if this.json.next()? == Next::Object => {
                    series = this.series()?;
                    Ok(())
                }
                "values" if this.json.next()? == Next::Array => match &mut series {
                    Some(series) => this.samples(series, sink),
                    None => this.json.skip(),
                },
                _ => this.json.skip(),
            })?;
            if self.stopped {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the series that the labels name; `None`, with a loss, if it is not about bytes.
    fn series(&mut self) -> Result<Option<Taken>, Fault> {
        let (mut name, mut labels, mut value) = (None, String::new(), String::new());
        self.each_key(|this, key| {
            if this.json.next()? != Next::String {
                return this.json.skip();
            }
            this.json.string(&mut value)?;
            if key == "__name__" {
                name = Some(value.clone());
            } else if labels.len() < LONGEST_NAME {
                let comma = if labels.is_empty() { "" } else { "," };
                labels.push_str(&format!("{comma}{key}=\"{value}\""));
            }
            Ok(())
        })?;
        let full = format!("{}{{{labels}}}", name.as_deref().unwrap_or_default());
        if let Some(chosen) = &mut self.chosen {
            return Ok(chosen.begin(&full).map(Taken::Chosen));
        }
        let meaning = match &name {
            Some(name) => meaning_of(&full).map(|(op, _)| (op, reading_of(name))),
            // A plain bandwidth counts as written, as in a table.
            None => Some((direction_of(&labels).unwrap_or(Op::Write), Reading::Rate)),
        };
        let Some((op, reading)) = meaning else {
            let place = self.json.place();
            self.losses
                .note("not bytes", place, || format!("{full} is not a number of bytes read or written"));
            return Ok(None);
        };
        let mut series = Series::new(op, reading);
        series.file = self.files.id_of_bytes(full.as_bytes());
        Ok(Some(Taken::Bytes(series)))
    }

    fn samples(&mut self, series: &mut Taken, sink: &mut dyn EventSink) -> Result<(), Fault> {
        self.json.enter_array()?;
        let mut first = true;
        let mut text = String::new();
        while self.json.element(&mut first)? {
            let place = self.json.place();
            let (at_s, value) = self.sample(&mut text)?;
            let series = match series {
                Taken::Bytes(series) => series,
                Taken::Chosen(index) => {
                    if let Some(chosen) = &mut self.chosen {
                        chosen.sample(*index, at_s, value);
                    }
                    continue;
                }
            };
            match series.push(at_s, value) {
                Ok(Some(event)) if sink.event(event).is_break() => {
                    self.stopped = true;
                    return Ok(());
                }
                Ok(_) => {}
                Err(unusable) => self.losses.note("sample", place, || unusable.to_string()),
            }
        }
        Ok(())
    }
}

/// Whether a JSON text is one of these.
pub(crate) fn recognises(text: &[u8]) -> bool {
    let has = |key: &[u8]| memchr::memmem::find(text, key).is_some();
    has(b"\"resultType\"") && has(b"\"result\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::{Event, Grain, Trace};

    fn read_text(text: &str) -> Trace {
        assert!(recognises(text.as_bytes()));
        crate::testing::read_by(read, text)
    }

    fn shown(trace: &Trace) -> Vec<String> {
        let shown = |event: &Event| {
            assert_eq!(event.grain, Grain::Bin);
            let Event { op, start, end, bytes, .. } = event;
            format!("{} {}..{} {bytes}", op.name(), start.as_secs(), end.as_secs())
        };
        trace.events.iter().map(shown).collect()
    }

    #[test]
    fn totals_give_differences_and_expressions_give_rates() {
        let trace = read_text(
            r#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"__name__":"node_disk_written_bytes_total","instance":"n1"},"values":[[100,"10"],[115,"30"],[130.5,"30"],[145,"31"]]},
            {"metric":{"device":"sda","op":"read"},"values":[[100,"2"],[110,"3.5"],[120,"NaN"],[130,"+Inf"]]},
            {"metric":{"__name__":"up"},"values":[[100,"1"],[110,"1"]]}]},"warnings":["x"]}"#,
        );
        assert_eq!(shown(&trace), ["write 100..115 20", "write 130.5..145 1", "read 100..110 35"]);
        assert_eq!(
            trace.info.files,
            [r#"node_disk_written_bytes_total{instance="n1"}"#, r#"{device="sda",op="read"}"#]
        );
        assert_eq!(trace.losses.iter().map(|loss| loss.records).collect::<Vec<_>>(), [Some(2), Some(1)]);
    }

    type Samples = Vec<(usize, f64, f64)>;

    fn plain(text: &'static str) -> Result<(RangeAnswer, Samples), ReadError> {
        let mut samples = Vec::new();
        let answer =
            RangeAnswer::read(text.as_bytes(), |series, at_s, value| samples.push((series, at_s, value)))?;
        Ok((answer, samples))
    }

    #[test]
    fn the_answer_to_a_question_has_samples_or_a_reason() {
        let (answer, samples) = plain(
            r#"{"status":"success","warnings":["slow"],"data":{"resultType":"matrix","result":[
            {"metric":{},"values":[[1,"0"],[2,"2.5"],[3,"NaN"]]},{"metric":{"__name__":"a_total"},"values":[[1,"7"]]}]}}"#,
        )
        .unwrap();
        assert_eq!(samples, [(0, 1.0, 0.0), (0, 2.0, 2.5), (1, 1.0, 7.0)]);
        assert_eq!(
            (answer.metrics, answer.n_unusable, answer.error),
            (vec![String::new(), "a_total".into()], 1, None)
        );
        assert_eq!(answer.warnings, ["slow"]);
        let (refused, _) =
            plain(r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#).unwrap();
        assert_eq!(refused.error.as_deref(), Some("parse error"));
    }

    #[test]
    fn half_an_answer_is_none() {
        for text in ["", "<html>", "{}", r#"{"status":"success","data":{"result":[{"values":[[1,"5"#] {
            assert!(plain(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_answer_that_is_cut_gives_what_came_before() {
        let trace = read_text(
            r#"{"data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"5"],[2,"5"],[3,"#,
        );
        assert_eq!(shown(&trace), ["write 1..2 5"]);
        assert_eq!((trace.losses.len(), trace.losses[0].records), (1, None));
    }
}
