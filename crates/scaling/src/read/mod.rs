//! Measurements from text: what Extra-P reads, and CSV.
//!
//! A front end opened the file; here are only bytes. The format is told by the content. What cannot be used is left out
//! with a [`Note`] that says where and why; an error means that nothing at all could be used.
//!
//! | format | looks like |
//! |---|---|
//! | text | `PARAMETER p`, `POINTS 4 8 16`, `REGION main`, `METRIC time`, `DATA 1.5 1.6` |
//! | JSON | `{"parameters": ["p"], "measurements": {"main": {"time": [{"point": [4], "values": [1.5]}]}}}`, or the older one with ids |
//! | JSON Lines | `{"params": {"p": 4}, "callpath": "main", "metric": "time", "value": 1.5}` |
//! | Talpas | `{"parameters":{"p":4};"callpath":"main";"metric":"time";"value":1.5}` |
//! | `.extra-p` | a ZIP archive with `experiment.json` |
//! | Extra-P 3 | an experiment saved by it, binary |
//! | CSV | `p,callpath,metric,value`; or `p,time,bytes`: the parameter first, then metrics; `# parameters=p,size` names several |

use std::borrow::Cow;
use std::collections::HashMap;

use self::json::{Json, JsonError, PlainLine};
use self::zip::{ZipError, unzip};
use crate::measurement::{Experiment, Measurement, Note, Series, Summary, Values};

mod csv;
mod cube;
mod extrap3;
mod json;
mod text;
mod xml;
mod zip;

pub use cube::{Scaling, read_cubes};

/// The name of a call path that nobody named, as in Extra-P.
const ROOT: &str = "<root>";
/// The name of a metric that nobody named, as in Extra-P.
const DEFAULT_METRIC: &str = "<default>";

/// A form in which measurements are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputFormat {
    /// Extra-P's keywords, line by line.
    Text,
    /// One JSON document, of either kind.
    Json,
    /// One JSON object a line.
    JsonLines,
    /// One object a line, with `;` between fields.
    Talpas,
    /// A saved experiment.
    ExtraP,
    /// An experiment saved by Extra-P 3.
    ExtraP3,
    /// A table.
    Csv,
}

impl InputFormat {
    /// All of them, in the order of the documentation.
    pub const ALL: [InputFormat; 7] =
        [Self::Text, Self::Json, Self::JsonLines, Self::Talpas, Self::ExtraP, Self::ExtraP3, Self::Csv];

    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::JsonLines => "jsonl",
            Self::Talpas => "talpas",
            Self::ExtraP => "extra-p",
            Self::ExtraP3 => "extra-p3",
            Self::Csv => "csv",
        }
    }
}

/// Why measurements could not be read at all.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Not text in UTF-8, and no archive.
    #[error("byte {at} is no UTF-8 text")]
    NotText {
        /// Where.
        at: usize,
    },
    /// No content.
    #[error("there are no measurements in it")]
    Empty,
    /// Nothing that starts like a known format.
    #[error("this is no known form of measurements; it starts with {start:?}")]
    UnknownFormat {
        /// The first characters.
        start: String,
    },
    /// The JSON is broken.
    #[error("the JSON is broken: {fault}")]
    Json {
        /// Fault and its place.
        fault: String,
    },
    /// A part that must be there is not.
    #[error("{missing} is missing")]
    Missing {
        /// Which.
        missing: &'static str,
    },
    /// The archive is broken.
    #[error(transparent)]
    Zip(#[from] ZipError),
    /// An experiment of Extra-P 3 ends early or contradicts itself.
    #[error("the experiment of Extra-P 3 is broken at byte {at}")]
    BrokenExperiment {
        /// Where.
        at: usize,
    },
    /// The name of a folder tells no parameters.
    #[error(
        "the name of the folder {folder:?} tells no parameters that change; it should read app.p4.n100.r1"
    )]
    NoParameters {
        /// The folder.
        folder: String,
    },
    /// Folders of one set have different parameters.
    #[error("the folder {folder:?} has other parameters than the first, which has {first}")]
    OtherParameters {
        /// The folder.
        folder: String,
        /// The parameters of the first.
        first: String,
    },
    /// Every part was left out; this is the first reason.
    #[error("nothing in it can be used: {first}")]
    NothingUsable {
        /// Why the first part was left out.
        first: String,
    },
}

impl From<JsonError> for ReadError {
    fn from(error: JsonError) -> Self {
        ReadError::Json { fault: error.to_string() }
    }
}

/// Reads measurements in a given form, or in the one the content shows.
pub fn read(bytes: &[u8], format: Option<InputFormat>) -> Result<(InputFormat, Experiment), ReadError> {
    if format == Some(InputFormat::ExtraP) || format.is_none() && bytes.starts_with(b"PK") {
        let json = unzip(bytes, "experiment.json")?;
        return Ok((InputFormat::ExtraP, finish(read_saved(utf8(&json)?)?)?));
    }
    if format == Some(InputFormat::ExtraP3) || format.is_none() && extrap3::is_it(bytes) {
        return Ok((InputFormat::ExtraP3, finish(extrap3::read(bytes)?)?));
    }
    let (text, foreign) = text_of(bytes)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if text.trim().is_empty() {
        return Err(ReadError::Empty);
    }
    let format = match format {
        Some(format) => format,
        None => detect(text).map_err(|error| foreign.map_or(error, |at| ReadError::NotText { at }))?,
    };
    let mut experiment = match format {
        InputFormat::Text => text::read(text)?,
        InputFormat::Json => read_document(text)?,
        InputFormat::JsonLines | InputFormat::Talpas => read_lines(text)?,
        InputFormat::Csv => csv::read(text)?,
        InputFormat::ExtraP => read_saved(text)?,
        InputFormat::ExtraP3 => extrap3::read(bytes)?,
    };
    experiment.notes.extend(foreign.map(|at| note_on_foreign(bytes, at)));
    Ok((format, finish(experiment)?))
}

/// Returns measurements that were not read but taken: rows of a point, a call path, a metric and its value there.
pub fn collect<'a>(
    parameters: Vec<String>,
    rows: impl IntoIterator<Item = (&'a [f64], &'a str, &'a str, f64)>,
) -> Result<Experiment, ReadError> {
    let mut collector = Collector::default();
    for (point, callpath, metric, value) in rows {
        let series = collector.series(callpath, metric);
        collector.push(series, point, [value]);
    }
    finish(collector.into_experiment(parameters, Vec::new()))
}

/// The bytes as text, and where the first of them is none. Some that are none (a name in another encoding) cost what they
/// are in; a zero byte tells that all of it is something else.
fn text_of(bytes: &[u8]) -> Result<(Cow<'_, str>, Option<usize>), ReadError> {
    match utf8(bytes) {
        Err(ReadError::NotText { at }) if !bytes.contains(&0) => {
            Ok((String::from_utf8_lossy(bytes), Some(at)))
        }
        text => Ok((Cow::Borrowed(text?), None)),
    }
}

fn note_on_foreign(bytes: &[u8], at: usize) -> Note {
    let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    let stand_in = char::REPLACEMENT_CHARACTER;
    Note::Skipped { line, reason: format!("byte {at} is no UTF-8 text; such bytes are read as {stand_in}") }
}

fn utf8(bytes: &[u8]) -> Result<&str, ReadError> {
    std::str::from_utf8(bytes).map_err(|error| ReadError::NotText { at: error.valid_up_to() })
}

fn detect(text: &str) -> Result<InputFormat, ReadError> {
    let start = text.trim_start();
    if start.starts_with('{') {
        // The first value alone tells: a document names its parameters in a list, a line has them in an object.
        return match Json::read_front(start) {
            Ok((value, _)) if value.get("params").is_some() => Ok(InputFormat::JsonLines),
            Ok((value, _)) if value.get("parameters").is_some_and(|p| p.object().is_some()) => {
                Ok(InputFormat::Talpas)
            }
            Ok((_, "")) => Ok(InputFormat::Json),
            Ok(_) => Ok(InputFormat::JsonLines),
            // A broken first line of many is one lost line; a broken document is an error.
            Err(_)
                if start.lines().filter(|line| line.trim_start().starts_with('{')).count() > 1
                    && start
                        .lines()
                        .all(|line| line.trim().is_empty() || line.trim_start().starts_with('{')) =>
            {
                Ok(InputFormat::JsonLines)
            }
            Err(error) => Err(error.into()),
        };
    }
    let first = start.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or("");
    if text::KEYWORDS.contains(&first.split_whitespace().next().unwrap_or("")) {
        return Ok(InputFormat::Text);
    }
    if first.contains([',', ';', '\t']) {
        return Ok(InputFormat::Csv);
    }
    Err(ReadError::UnknownFormat { start: start.chars().take(20).collect() })
}

/// Notes which series lack points that others have, and refuses an experiment without a single series.
fn finish(mut experiment: Experiment) -> Result<Experiment, ReadError> {
    if experiment.series.is_empty() {
        return Err(match experiment.notes.first() {
            Some(note) => ReadError::NothingUsable { first: note.to_string() },
            None => ReadError::Empty,
        });
    }
    // Most experiments have every metric at every point, in the same order: then nothing is missing.
    let same_points = |series: &Series| {
        let first = &experiment.series[0].measurements;
        series.measurements.len() == first.len()
            && series.measurements.iter().zip(first).all(|(a, b)| a.coordinate == b.coordinate)
    };
    if experiment.series.iter().all(same_points) {
        return Ok(experiment);
    }
    let mut points: HashMap<Vec<u64>, usize> = HashMap::new();
    for measurement in experiment.series.iter().flat_map(|series| &series.measurements) {
        let next = points.len();
        points.entry(bits(&measurement.coordinate)).or_insert(next);
    }
    for series in &mut experiment.series {
        let mut own = vec![false; points.len()];
        series.measurements.iter().for_each(|measurement| own[points[&bits(&measurement.coordinate)]] = true);
        let n_points = own.iter().filter(|there| !**there).count();
        if n_points > 0 {
            series.notes.push(Note::MissingPoints { n_points });
        }
    }
    Ok(experiment)
}

/// A coordinate as a key: −0 and 0 are one point.
fn bits(coordinate: &[f64]) -> Vec<u64> {
    coordinate.iter().map(|x| (x + 0.0).to_bits()).collect()
}

/// Up to this many points a series is searched; an index would cost more.
const FEW_POINTS: usize = 64;

/// Series by name, in the order first seen, with values pooled by point.
#[derive(Default)]
struct Collector {
    series: Vec<Series>,
    by_name: HashMap<(String, String), usize>,
    /// Where a point stands in its series, for series too long to be searched.
    by_point: HashMap<usize, HashMap<Vec<u64>, usize>>,
}

impl Collector {
    fn series(&mut self, callpath: &str, metric: &str) -> usize {
        // Lines of one series usually come together; no need to build a key for each.
        if let Some(last) = self.series.last()
            && last.callpath == callpath
            && last.metric == metric
        {
            return self.series.len() - 1;
        }
        *self.by_name.entry((callpath.to_owned(), metric.to_owned())).or_insert_with(|| {
            self.series.push(Series {
                callpath: callpath.to_owned(),
                metric: metric.to_owned(),
                ..Series::default()
            });
            self.series.len() - 1
        })
    }

    fn push(&mut self, series: usize, coordinate: &[f64], values: impl IntoIterator<Item = f64>) {
        let measurements = &mut self.series[series].measurements;
        // Repetitions usually follow each other.
        if let Some(Measurement { coordinate: last, values: Values::Each(last_values) }) =
            measurements.last_mut()
            && last == coordinate
        {
            last_values.extend(values);
            return;
        }
        let at = if measurements.len() < FEW_POINTS {
            measurements.iter().position(|known| known.coordinate == coordinate)
        } else {
            let index = self.by_point.entry(series).or_insert_with(|| {
                measurements.iter().enumerate().map(|(at, known)| (bits(&known.coordinate), at)).collect()
            });
            let next = measurements.len();
            Some(*index.entry(bits(coordinate)).or_insert(next)).filter(|at| *at < next)
        };
        let at = at.unwrap_or_else(|| {
            measurements.push(Measurement::new(coordinate, Vec::new()));
            measurements.len() - 1
        });
        if let Values::Each(known) = &mut measurements[at].values {
            known.extend(values);
        }
    }

    /// Adds a point as somebody else summed it up.
    fn measurement(&mut self, series: usize, measurement: Measurement) {
        self.series[series].measurements.push(measurement);
    }

    fn into_experiment(mut self, parameters: Vec<String>, notes: Vec<Note>) -> Experiment {
        self.series.retain(|series| !series.measurements.is_empty());
        Experiment { parameters, series: self.series, notes }
    }
}

/// Numbers of a list, however deep (repetitions of threads of ranks are nested lists); `None` if one is no number.
fn numbers(json: &Json) -> Option<Vec<f64>> {
    match json {
        Json::List(items) => {
            let nested: Option<Vec<Vec<f64>>> = items.iter().map(numbers).collect();
            Some(nested?.concat())
        }
        other => Some(vec![other.number()?]),
    }
}

/// Values of a list, however deep; what is no number stands for a value that is none.
fn values_of(json: &Json) -> Vec<f64> {
    match json {
        Json::List(items) => items.iter().flat_map(values_of).collect(),
        other => vec![other.number().unwrap_or(f64::NAN)],
    }
}

/// JSON Lines and Talpas: one measurement a line.
fn read_lines(text: &str) -> Result<Experiment, ReadError> {
    let mut collector = Collector::default();
    let mut notes = Vec::new();
    let mut parameters: Option<Vec<String>> = None;
    let mut coordinate: Vec<f64> = Vec::new();
    let mut plain = PlainLine::default();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        // Nearly every line is plain, and of the parameters known already.
        if let Some(names) = &parameters
            && plain.read(line)
            && plain.params.len() == names.len()
            && plain.params.iter().zip(names).all(|((name, _), known)| name == known)
        {
            coordinate.clear();
            coordinate.extend(plain.params.iter().map(|(_, x)| *x));
            let callpath = plain.callpath.as_deref().unwrap_or(ROOT);
            let series = collector.series(callpath, plain.metric.as_deref().unwrap_or(DEFAULT_METRIC));
            collector.push(series, &coordinate, [plain.value]);
            continue;
        }
        let mut read = || -> Result<(), String> {
            let json = Json::read(line).map_err(|error| error.to_string())?;
            let point = json.get("params").or_else(|| json.get("parameters")).and_then(Json::object);
            let point = point.ok_or("it has no params")?;
            let names =
                parameters.get_or_insert_with(|| point.iter().map(|(name, _)| name.to_string()).collect());
            if point.len() != names.len() {
                return Err(format!(
                    "it has {} parameters, the lines before have {}",
                    point.len(),
                    names.len()
                ));
            }
            coordinate.clear();
            for (index, name) in names.iter().enumerate() {
                // Lines of one writer name the parameters in one order.
                let in_place = point.get(index).filter(|(key, _)| key == name);
                let value = in_place.or_else(|| point.iter().find(|(key, _)| key == name));
                let value = value.and_then(|(_, value)| value.number());
                coordinate.push(value.ok_or_else(|| format!("parameter {name} is missing or no number"))?);
            }
            let name =
                |key: &str, default: &'static str| json.get(key).and_then(Json::text).unwrap_or(default);
            let (callpath, metric) = (name("callpath", ROOT), name("metric", DEFAULT_METRIC));
            match json.get("value").ok_or("it has no value that is a number")? {
                list @ Json::List(_) => {
                    let series = collector.series(callpath, metric);
                    collector.push(series, &coordinate, values_of(list));
                }
                value => {
                    let value = value.number().ok_or("it has no value that is a number")?;
                    let series = collector.series(callpath, metric);
                    collector.push(series, &coordinate, [value]);
                }
            }
            Ok(())
        };
        if let Err(reason) = read() {
            notes.push(Note::Skipped { line: index + 1, reason });
        }
    }
    Ok(collector.into_experiment(parameters.unwrap_or_default(), notes))
}

/// One JSON document: by names, or (older) by ids.
fn read_document(text: &str) -> Result<Experiment, ReadError> {
    let json = Json::read(text)?;
    if json.get("callpaths").is_some() { read_by_ids(&json) } else { read_by_names(&json) }
}

fn parameter_names(json: &Json) -> Result<Vec<String>, ReadError> {
    let list = json
        .get("parameters")
        .and_then(Json::list)
        .ok_or(ReadError::Missing { missing: "the list of parameters" })?;
    Ok(list
        .iter()
        .filter_map(|name| name.text().or_else(|| name.get("name")?.text()))
        .map(str::to_owned)
        .collect())
}

/// Calls back for each call path, metric and list of its points.
fn for_each_series(json: &Json, mut each: impl FnMut(&str, &str, &[Json])) -> Result<(), ReadError> {
    let missing = ReadError::Missing { missing: "the table of measurements" };
    for (callpath, metrics) in json.get("measurements").and_then(Json::object).ok_or(missing)? {
        for (metric, points) in metrics.object().unwrap_or_default() {
            each(callpath, metric, points.list().unwrap_or_default());
        }
    }
    Ok(())
}

fn read_by_names(json: &Json) -> Result<Experiment, ReadError> {
    let parameters = parameter_names(json)?;
    let mut collector = Collector::default();
    let mut notes = Vec::new();
    for_each_series(json, |callpath, metric, points| {
        let series = collector.series(callpath, metric);
        for point in points {
            let coordinate =
                point.get("point").and_then(numbers).filter(|point| point.len() == parameters.len());
            match (coordinate, point.get("values").map(values_of)) {
                (Some(coordinate), Some(values)) => collector.push(series, &coordinate, values),
                _ => notes.push(Note::Skipped {
                    line: 0,
                    reason: format!("a point of {metric} in {callpath} lacks a coordinate or its values"),
                }),
            }
        }
    })?;
    Ok(collector.into_experiment(parameters, notes))
}

fn read_by_ids(json: &Json) -> Result<Experiment, ReadError> {
    let list =
        |name: &'static str| json.get(name).and_then(Json::list).ok_or(ReadError::Missing { missing: name });
    let id = |json: &Json, key: &str| {
        json.get(key).and_then(Json::number).filter(|id| id.is_finite()).map(|id| id as i64)
    };
    let named = |name: &'static str| -> Result<Vec<(i64, String)>, ReadError> {
        let entries = list(name)?
            .iter()
            .filter_map(|entry| Some((id(entry, "id")?, entry.get("name")?.text()?.to_owned())));
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by_key(|(id, _)| *id);
        Ok(entries)
    };
    let parameters = named("parameters")?;
    let callpaths: HashMap<i64, String> = named("callpaths")?.into_iter().collect();
    let metrics: HashMap<i64, String> = named("metrics")?.into_iter().collect();
    let coordinates: HashMap<i64, Vec<f64>> = list("coordinates")?
        .iter()
        .filter_map(|entry| {
            let pairs = entry.get("parameter_value_pairs")?.list()?;
            let at = |parameter: i64| pairs.iter().find(|pair| id(pair, "parameter_id") == Some(parameter));
            let point: Option<Vec<f64>> = parameters
                .iter()
                .map(|(parameter, _)| at(*parameter)?.get("parameter_value")?.number())
                .collect();
            Some((id(entry, "id")?, point?))
        })
        .collect();
    let mut collector = Collector::default();
    let mut n_lost = 0;
    for measurement in list("measurements")? {
        let found = (|| {
            let callpath = callpaths.get(&id(measurement, "callpath_id")?)?;
            let metric = metrics.get(&id(measurement, "metric_id")?)?;
            let coordinate = coordinates.get(&id(measurement, "coordinate_id")?)?;
            Some((
                collector.series(callpath, metric),
                coordinate.clone(),
                values_of(measurement.get("value")?),
            ))
        })();
        match found {
            Some((series, coordinate, values)) => collector.push(series, &coordinate, values),
            None => n_lost += 1,
        }
    }
    let lost = (n_lost > 0).then(|| Note::Skipped {
        line: 0,
        reason: format!("{n_lost} measurements refer to ids that are not there, or have no value"),
    });
    Ok(collector
        .into_experiment(parameters.into_iter().map(|(_, name)| name).collect(), lost.into_iter().collect()))
}

/// `experiment.json` of an `.extra-p` file: summaries of the repetitions.
fn read_saved(text: &str) -> Result<Experiment, ReadError> {
    let json = Json::read(text)?;
    let parameters = parameter_names(&json)?;
    let mut collector = Collector::default();
    let mut notes = Vec::new();
    for_each_series(&json, |callpath, metric, points| {
        let series = collector.series(callpath, metric);
        for point in points {
            let figure = |name: &str| point.get(name).and_then(Json::number);
            let coordinate =
                point.get("coordinate").and_then(numbers).filter(|point| point.len() == parameters.len());
            let (Some(coordinate), Some(mean)) = (coordinate, figure("mean")) else {
                let reason = format!("a point of {metric} in {callpath} lacks a coordinate or its mean");
                notes.push(Note::Skipped { line: 0, reason });
                continue;
            };
            let summary = Summary {
                n: figure("repetitions").filter(|n| (1.0..1e9).contains(n)).map_or(1, |n| n as usize),
                mean,
                median: figure("median").unwrap_or(mean),
                minimum: figure("minimum").unwrap_or(mean),
                maximum: figure("maximum").unwrap_or(mean),
                std: figure("std").filter(|std| *std >= 0.0).unwrap_or(0.0),
            };
            collector.series[series]
                .measurements
                .push(Measurement { coordinate, values: Values::Summary(summary) });
        }
    })?;
    Ok(collector.into_experiment(parameters, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_ok(text: &str) -> (InputFormat, Experiment) {
        read(text.as_bytes(), None).unwrap()
    }

    /// One series, `time` of `main`, seen twice at 4 and once at 8.
    fn check(text: &str, format: InputFormat) {
        let (detected, experiment) = read_ok(text);
        assert_eq!(detected, format);
        assert_eq!(experiment.parameters, ["p"]);
        let [series] = experiment.series.as_slice() else { panic!("{experiment:?}") };
        assert_eq!((series.callpath.as_str(), series.metric.as_str()), ("main", "time"));
        let points = [Measurement::new([4.0], [1.5, 2.5]), Measurement::new([8.0], [3.0])];
        assert_eq!(series.measurements, points);
        assert_eq!(experiment.notes, []);
    }

    #[test]
    fn every_form_of_the_same_measurements_reads_the_same() {
        check("PARAMETER p\nPOINTS 4 8\nREGION main\nMETRIC time\nDATA 1.5 2.5\nDATA 3\n", InputFormat::Text);
        check(
            r#"{"parameters": ["p"], "measurements": {"main": {"time": [{"point": [4], "values": [1.5, 2.5]}, {"point": [8], "values": [3]}]}}}"#,
            InputFormat::Json,
        );
        check(
            r#"{"parameters": [{"id": 1, "name": "p"}], "callpaths": [{"id": 1, "name": "main"}], "metrics": [{"id": 1, "name": "time"}],
                "coordinates": [{"id": 1, "parameter_value_pairs": [{"parameter_id": 1, "parameter_value": 4}]},
                                {"id": 2, "parameter_value_pairs": [{"parameter_id": 1, "parameter_value": 8}]}],
                "measurements": [{"coordinate_id": 1, "callpath_id": 1, "metric_id": 1, "value": 1.5},
                                 {"coordinate_id": 2, "callpath_id": 1, "metric_id": 1, "value": 3},
                                 {"coordinate_id": 1, "callpath_id": 1, "metric_id": 1, "value": 2.5}]}"#,
            InputFormat::Json,
        );
        let line = |p, value| {
            format!(r#"{{"params": {{"p": {p}}}, "callpath": "main", "metric": "time", "value": {value}}}"#)
        };
        check(&format!("{}\n\n{}\n{}", line(4, "1.5"), line(8, "3"), line(4, "2.5")), InputFormat::JsonLines);
        check(&format!("{}\n{}", line(4, "[1.5, 2.5]"), line(8, "3")), InputFormat::JsonLines);
        check(
            "{\"parameters\":{\"p\":4};\"callpath\":\"main\";\"metric\":\"time\";\"value\":[1.5;2.5]}\n{\"parameters\":{\"p\":8};\"callpath\":\"main\";\"metric\":\"time\";\"value\":3}",
            InputFormat::Talpas,
        );
        check("p,callpath,metric,value\n4,main,time,1.5\n8,main,time,3\n4,main,time,2.5\n", InputFormat::Csv);
    }

    #[test]
    fn one_line_of_json_lines_is_enough() {
        let (format, experiment) = read_ok(r#"{"params": {"x": 1, "y": 2}, "value": 3}"#);
        assert_eq!(format, InputFormat::JsonLines);
        assert_eq!(experiment.parameters, ["x", "y"]);
        assert_eq!(
            (experiment.series[0].callpath.as_str(), experiment.series[0].metric.as_str()),
            ("<root>", "<default>")
        );
    }

    #[test]
    fn a_value_that_is_none_costs_one_value_of_its_list() {
        let text =
            r#"{"parameters": ["p"], "measurements": {"f": {"t": [{"point": [4], "values": [1.5, null]}]}}}"#;
        let (_, experiment) = read_ok(text);
        let (kept, notes) = crate::usable(&experiment.series[0].measurements, 1);
        assert_eq!(kept[0], Measurement::new([4.0], [1.5]));
        assert_eq!(notes, [Note::NotANumber { n_values: 1 }]);
    }

    #[test]
    fn bytes_that_are_no_text_cost_what_they_are_in() {
        let (_, experiment) = read(b"p,t,\xe9\n2,4,1\n4,8\xff,2\n", None).unwrap();
        assert_eq!(experiment.series.len(), 2);
        assert!(experiment.series[0].measurements[1].values.summary().mean.is_nan());
        assert_eq!(experiment.notes.len(), 1, "{:?}", experiment.notes);
        assert_eq!(read(b"p,t\n2,4\xff\0", None), Err(ReadError::NotText { at: 7 }));
    }

    #[test]
    fn a_broken_line_costs_one_line() {
        let (_, experiment) = read_ok(
            "{\"params\": {\"p\": 1}, \"value\": 1}\n{\"params\": {\"p\": 2}, \"value\n{\"params\": {\"q\": 2}, \"value\": 1}\n{\"params\": {\"p\": 3}, \"value\": NaN}",
        );
        let notes: Vec<String> = experiment.notes.iter().map(ToString::to_string).collect();
        assert_eq!(
            notes,
            ["line 2: a text does not end at byte 22", "line 3: parameter p is missing or no number"]
        );
        assert_eq!(experiment.series[0].measurements.len(), 2);
    }

    #[test]
    fn a_point_that_others_have_is_missed_only_where_it_is_missing() {
        let (_, experiment) = read_ok("p,a,b\n1,1,1\n2,2,\n3,3,3\n");
        assert_eq!(experiment.series[0].notes, []);
        assert_eq!(experiment.series[1].notes, [Note::MissingPoints { n_points: 1 }]);
    }

    #[test]
    fn a_saved_experiment_keeps_its_summaries() {
        let json = r#"{"Extra-P": "4.2.5", "parameters": ["x"], "measurements": {"main": {"time": [
            {"coordinate": [20.0], "median": 2.0, "mean": 3.0, "minimum": 1.0, "maximum": 6.0, "std": 2.0, "repetitions": 3, "values": null}]}}}"#;
        let archive = zip::tests::stored("experiment.json", json.as_bytes());
        let (format, experiment) = read(&archive, None).unwrap();
        assert_eq!(format, InputFormat::ExtraP);
        let summary = experiment.series[0].measurements[0].values.summary();
        assert_eq!(summary, Summary { n: 3, mean: 3.0, median: 2.0, minimum: 1.0, maximum: 6.0, std: 2.0 });
    }

    #[test]
    fn what_is_no_measurement_is_refused_with_a_reason() {
        let error = |text: &str| read(text.as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error("  \n"), "there are no measurements in it");
        assert_eq!(
            error("hello world"),
            "this is no known form of measurements; it starts with \"hello world\""
        );
        assert_eq!(error("{\"parameters\": [\"p\"]}"), "the table of measurements is missing");
        assert_eq!(
            error("{\"parameters\": ["),
            "the JSON is broken: the text ends where a value should stand at byte 16"
        );
        assert_eq!(read(&[0xff, 0xfe], None).unwrap_err().to_string(), "byte 0 is no UTF-8 text");
        assert_eq!(error("PARAMETER p\nPOINTS 1\n"), "there are no measurements in it");
    }
}
