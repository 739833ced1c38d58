//! Tables that stream: nothing is read before somebody asks, and a few batches are in memory at a time.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use iotide_cli::Fault;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::ArrayStream;
use crate::columns::{Batch, Growing, Kind, ROWS, Rows, Words, take_rows};
use crate::{LOOK_EVERY, exception};

/// A column: its name, the kind of its values, and its texts.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) words: Option<Arc<Words>>,
}

impl Field {
    pub(crate) fn new(name: &str, kind: Kind) -> Self {
        Self { name: name.to_owned(), kind, words: None }
    }

    pub(crate) fn words(name: &str, words: &Arc<Words>) -> Self {
        Self { name: name.to_owned(), kind: Kind::Words, words: Some(Arc::clone(words)) }
    }
}

/// Takes rows one by one, and hands them on in batches.
pub(crate) struct RowSink<'a> {
    pub(crate) columns: Vec<Growing>,
    n_rows: usize,
    take: &'a mut dyn FnMut(Rows) -> ControlFlow<()>,
}

impl RowSink<'_> {
    /// Ends a row, of which each column has got a value.
    pub(crate) fn end_row(&mut self) -> ControlFlow<()> {
        self.n_rows += 1;
        if self.n_rows < ROWS {
            return ControlFlow::Continue(());
        }
        self.n_rows = 0;
        (self.take)(take_rows(&mut self.columns))
    }
}

type Fill = dyn Fn(&mut RowSink<'_>) -> Result<(), Fault> + Send + Sync;

/// A table by its columns, and the way to fill it.
#[pyclass(frozen, module = "iotide._iotide")]
pub(crate) struct Table {
    pub(crate) fields: Arc<Vec<Field>>,
    n_rows: Option<u64>,
    fill: Arc<Fill>,
}

impl Table {
    pub(crate) fn new(
        fields: Vec<Field>,
        n_rows: Option<u64>,
        fill: impl Fn(&mut RowSink<'_>) -> Result<(), Fault> + Send + Sync + 'static,
    ) -> Self {
        Self { fields: Arc::new(fields), n_rows, fill: Arc::new(fill) }
    }

    /// Begins to read; what is not taken waits, and reading ends when nobody takes any more.
    pub(crate) fn stream(&self) -> Receiver<Result<Rows, Fault>> {
        let (give, taken) = sync_channel(2);
        let (fields, fill) = (Arc::clone(&self.fields), Arc::clone(&self.fill));
        std::thread::spawn(move || {
            let columns = fields.iter().map(|field| Growing::new(field.kind, field.words.clone())).collect();
            let mut hand_on = |rows| match give.send(Ok(rows)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
            let mut sink = RowSink { columns, n_rows: 0, take: &mut hand_on };
            let filled = fill(&mut sink);
            let last = take_rows(&mut sink.columns);
            if last.n_rows > 0 {
                let _ = give.send(Ok(last));
            }
            if let Err(fault) = filled {
                let _ = give.send(Err(fault));
            }
        });
        taken
    }
}

#[pymethods]
impl Table {
    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.fields.iter().map(|field| field.name.clone()).collect()
    }

    /// The number of rows, if it is known before they are read.
    #[getter]
    fn n_rows(&self) -> Option<u64> {
        self.n_rows
    }

    /// Reads the rows, batch by batch.
    fn batches(&self) -> Batches {
        Batches(Mutex::new(Some(self.stream())))
    }

    /// The rows as a stream of Arrow's C interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer keep to the schema it has.
        drop(requested_schema);
        let stream = ArrayStream::new(Arc::clone(&self.fields), self.stream());
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// Batches as they are read.
#[pyclass(frozen, module = "iotide._iotide")]
pub(crate) struct Batches(Mutex<Option<Receiver<Result<Rows, Fault>>>>);

#[pymethods]
impl Batches {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        loop {
            let taken = py.detach(|| {
                let batches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                batches.as_ref().map(|batches| batches.recv_timeout(LOOK_EVERY))
            });
            match taken {
                Some(Ok(Ok(rows))) => return Ok(Some(Batch(Arc::new(rows)))),
                Some(Ok(Err(fault))) => return Err(exception(py, &fault)),
                Some(Err(RecvTimeoutError::Timeout)) => py.check_signals()?,
                Some(Err(RecvTimeoutError::Disconnected)) | None => {
                    *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    return Ok(None);
                }
            }
        }
    }
}
