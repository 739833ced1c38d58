//! Prediction while a job runs, event by event.

use iotide_analysis::online::{self, PredictorConfig};
use iotide_trace::{Direction, Event, Op, Rank, Span, Timestamp};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Predicts the I/O phases of one running job; each prediction is the line of JSON that `iotide detect --follow` writes.
#[pyclass(module = "iotide._iotide")]
pub(crate) struct Predictor {
    inner: online::Predictor,
    name: String,
    origin_unix_s: Option<f64>,
}

impl Predictor {
    fn said(&self, prediction: Option<online::Prediction>) -> Option<String> {
        let told = iotide_report::Prediction::new(&self.name, &prediction?, self.origin_unix_s);
        Some(told.to_json())
    }
}

fn moment(secs: f64) -> PyResult<Timestamp> {
    Timestamp::from_secs_since_start(secs)
        .ok_or_else(|| PyValueError::new_err(format!("{secs} is not a time in seconds")))
}

#[pymethods]
impl Predictor {
    #[new]
    #[pyo3(signature = (name, mode, origin_unix_s=None))]
    fn new(name: String, mode: &str, origin_unix_s: Option<f64>) -> PyResult<Self> {
        let direction = match mode {
            "read" => Direction::Read,
            "write" => Direction::Write,
            "both" | "auto" => Direction::Both,
            _ => return Err(PyValueError::new_err(format!("mode {mode}: known are read, write and both"))),
        };
        let config = PredictorConfig { direction, ..PredictorConfig::default() };
        Ok(Self { inner: online::Predictor::new(config), name, origin_unix_s })
    }

    /// Takes an event; returns a prediction if there is a new one.
    fn push(&mut self, op: &str, start: f64, end: f64, bytes: f64, rank: i32) -> PyResult<Option<String>> {
        let op = Op::from_name(op).ok_or_else(|| {
            PyValueError::new_err(format!("op {op}: known are read, write, open, close, seek, stat, sync"))
        })?;
        let (start, end) = (moment(start)?, moment(end)?);
        if end < start || !(bytes.is_finite() && bytes >= 0.0) {
            return Err(PyValueError::new_err(
                "an event ends after it starts and moves no fewer than 0 bytes",
            ));
        }
        let prediction = self.inner.push_event(&Event::data(op, Rank(rank), start, end, bytes));
        Ok(self.said(prediction))
    }

    /// Takes a mean bandwidth over a time.
    fn push_sample(&mut self, start: f64, end: f64, bandwidth: f64) -> PyResult<Option<String>> {
        let span = Span { start: moment(start)?, end: moment(end)? };
        let prediction = self.inner.push_sample(span, bandwidth);
        Ok(self.said(prediction))
    }

    /// Says what time it is, while there is no event.
    fn advance_to(&mut self, now: f64) -> PyResult<Option<String>> {
        let prediction = self.inner.advance_to(moment(now)?);
        Ok(self.said(prediction))
    }

    /// Predicts now.
    fn evaluate(&mut self) -> Option<String> {
        let prediction = self.inner.evaluate();
        self.said(prediction)
    }

    /// Events that could not be used.
    #[getter]
    fn losses(&self) -> Vec<String> {
        self.inner.losses().into_iter().map(|loss| loss.what).collect()
    }
}
