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

use iotide_trace::{EventSink, Op, TraceInfo};

use crate::{
    error::Fault,
    files::Files,
    input::Input,
    json::{Json, Next},
    losses::Losses,
    metrics::{Reading, Series, direction_of, meaning_of, reading_of},
    number::parse_f64,
    scanner::Scanner,
};

/// Labels beyond this many bytes are cut in the name of the series.
const LONGEST_NAME: usize = 4096;

/// Reads one answer.
pub(crate) fn read(input: Input, sink: &mut dyn EventSink) -> Result<TraceInfo, Fault> {
    let mut reader = Answer {
        json: Json::new(Scanner::new(input.into_read())),
        files: Files::default(),
        losses: Losses::default(),
        stopped: false,
        key: String::new(),
    };
    match reader.document(sink) {
        Err(Fault::At(place, fault)) => {
            reader.losses.note_of_unknown_size("damaged", place, || format!("{fault}; what follows is lost"));
        }
        result => result?,
    }
    let files = reader.files.into_paths(&mut reader.losses);
    reader.losses.report(sink);
    Ok(TraceInfo { files, ..TraceInfo::default() })
}

struct Answer {
    json: Json,
    files: Files,
    losses: Losses,
    stopped: bool,
    key: String,
}

impl Answer {
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

    fn document(&mut self, sink: &mut dyn EventSink) -> Result<(), Fault> {
        self.each_key(|this, key| match key {
            "data" if this.json.next()? == Next::Object => this.each_key(|this, key| match key {
                "result" if this.json.next()? == Next::Array => this.results(sink),
                _ => this.json.skip(),
            }),
            _ => this.json.skip(),
        })
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

    /// What the labels say; `None`, with a loss, if it is not about bytes.
    fn series(&mut self) -> Result<Option<Series>, Fault> {
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
        Ok(Some(series))
    }

    fn samples(&mut self, series: &mut Series, sink: &mut dyn EventSink) -> Result<(), Fault> {
        self.json.enter_array()?;
        let mut first = true;
        let mut text = String::new();
        while self.json.element(&mut first)? {
            let place = self.json.place();
            self.json.enter_array()?;
            let (mut first, mut values, mut n) = (true, [f64::NAN; 2], 0);
            while self.json.element(&mut first)? {
                let value = match self.json.next()? {
                    Next::String => {
                        self.json.string(&mut text)?;
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
            match series.push(values[0], values[1]) {
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

    #[test]
    fn an_answer_that_is_cut_gives_what_came_before() {
        let trace = read_text(
            r#"{"data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"5"],[2,"5"],[3,"#,
        );
        assert_eq!(shown(&trace), ["write 1..2 5"]);
        assert_eq!((trace.losses.len(), trace.losses[0].records), (1, None));
    }
}
