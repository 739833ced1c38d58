//! Rows by columns: what a table hands over at a time.

use std::sync::{Arc, OnceLock};

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Rows handed over at once: a few megabytes.
pub(crate) const ROWS: usize = 1 << 16;

/// Kind of values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Unsigned,
    Float,
    /// Texts, of which many are the same: a number for each, and a list of the texts.
    Words,
}

/// The texts of a column, each once.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pub(crate) offsets: Vec<i64>,
    pub(crate) bytes: Vec<u8>,
    list: OnceLock<Py<PyList>>,
}

impl Words {
    pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut words = Self { offsets: vec![0], ..Self::default() };
        for text in texts {
            words.push(text);
        }
        words
    }

    fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.offsets.push(self.bytes.len() as i64);
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    fn get(&self, at: usize) -> &str {
        let span = self.offsets[at] as usize..self.offsets[at + 1] as usize;
        std::str::from_utf8(&self.bytes[span]).unwrap_or_default()
    }

    /// As a list of Python, made once.
    fn list(&self, py: Python<'_>) -> PyResult<Py<PyList>> {
        if let Some(list) = self.list.get() {
            return Ok(list.clone_ref(py));
        }
        let list = PyList::new(py, (0..self.len()).map(|at| self.get(at)))?.unbind();
        Ok(self.list.get_or_init(|| list).clone_ref(py))
    }
}

/// The values of a column.
#[derive(Debug)]
pub(crate) enum Values {
    Int(Vec<i64>),
    Unsigned(Vec<u64>),
    Float(Vec<f64>),
    Words(Vec<i32>, Arc<Words>),
}

impl Values {
    fn array(&self) -> (*const u8, usize, &'static str) {
        match self {
            Values::Int(values) => (values.as_ptr().cast(), values.len(), "<i8"),
            Values::Unsigned(values) => (values.as_ptr().cast(), values.len(), "<u8"),
            Values::Float(values) => (values.as_ptr().cast(), values.len(), "<f8"),
            Values::Words(codes, _) => (codes.as_ptr().cast(), codes.len(), "<i4"),
        }
    }
}

/// A column, and which of its values exist.
#[derive(Debug)]
pub(crate) struct Cells {
    pub(crate) values: Values,
    /// A bit for each value, from the lowest up; `None` if all exist.
    pub(crate) valid: Option<Vec<u8>>,
    pub(crate) n_null: usize,
}

/// Rows of a table.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<Cells>,
    pub(crate) n_rows: usize,
}

/// A column that rows are added to.
#[derive(Debug)]
pub(crate) struct Growing {
    kind: Kind,
    ints: Vec<i64>,
    unsigned: Vec<u64>,
    floats: Vec<f64>,
    codes: Vec<i32>,
    words: Arc<Words>,
    /// Texts that were not among the words so far.
    fresh: Vec<String>,
    nulls: Vec<usize>,
}

impl Growing {
    pub(crate) fn new(kind: Kind, words: Option<Arc<Words>>) -> Self {
        Self {
            kind,
            ints: Vec::new(),
            unsigned: Vec::new(),
            floats: Vec::new(),
            codes: Vec::new(),
            words: words.unwrap_or_else(|| Arc::new(Words::of([]))),
            fresh: Vec::new(),
            nulls: Vec::new(),
        }
    }

    fn len(&self) -> usize {
        match self.kind {
            Kind::Int => self.ints.len(),
            Kind::Unsigned => self.unsigned.len(),
            Kind::Float => self.floats.len(),
            Kind::Words => self.codes.len(),
        }
    }

    pub(crate) fn int(&mut self, value: i64) {
        self.ints.push(value);
    }

    pub(crate) fn unsigned(&mut self, value: u64) {
        self.unsigned.push(value);
    }

    pub(crate) fn float(&mut self, value: f64) {
        self.floats.push(value);
    }

    /// Adds one of the words, by its place.
    pub(crate) fn word(&mut self, code: usize) {
        if code < self.n_words() { self.codes.push(code as i32) } else { self.null() }
    }

    /// Adds to the words; returns the place. The places of earlier words stay.
    pub(crate) fn new_word(&mut self, text: &str) -> usize {
        self.fresh.push(text.to_owned());
        self.n_words() - 1
    }

    fn n_words(&self) -> usize {
        self.words.len() + self.fresh.len()
    }

    pub(crate) fn null(&mut self) {
        self.nulls.push(self.len());
        match self.kind {
            Kind::Int => self.ints.push(0),
            Kind::Unsigned => self.unsigned.push(0),
            Kind::Float => self.floats.push(0.0),
            Kind::Words => self.codes.push(0),
        }
    }

    /// Takes what has grown, and begins again.
    fn take(&mut self) -> Cells {
        let n_rows = self.len();
        if !self.fresh.is_empty() {
            let known = (0..self.words.len()).map(|at| self.words.get(at));
            self.words = Arc::new(Words::of(known.chain(self.fresh.iter().map(String::as_str))));
            self.fresh.clear();
        }
        let nulls = std::mem::take(&mut self.nulls);
        let valid = (!nulls.is_empty()).then(|| {
            let mut bits = vec![0xff_u8; n_rows.div_ceil(8)];
            for &row in &nulls {
                bits[row / 8] &= !(1 << (row % 8));
            }
            bits
        });
        let values = match self.kind {
            Kind::Int => Values::Int(std::mem::take(&mut self.ints)),
            Kind::Unsigned => Values::Unsigned(std::mem::take(&mut self.unsigned)),
            Kind::Float => Values::Float(std::mem::take(&mut self.floats)),
            Kind::Words => Values::Words(std::mem::take(&mut self.codes), Arc::clone(&self.words)),
        };
        Cells { values, valid, n_null: nulls.len() }
    }
}

/// Takes what a column has grown to, for all columns.
pub(crate) fn take_rows(columns: &mut [Growing]) -> Rows {
    let n_rows = columns.first().map_or(0, Growing::len);
    Rows { columns: columns.iter_mut().map(Growing::take).collect(), n_rows }
}

/// Rows of a table, by columns.
#[pyclass(frozen, module = "iotide._iotide")]
pub(crate) struct Batch(pub(crate) Arc<Rows>);

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.0.n_rows
    }

    /// Returns a column by its place.
    fn column(&self, at: usize) -> PyResult<Column> {
        if at >= self.0.columns.len() {
            return Err(PyIndexError::new_err("no such column"));
        }
        Ok(Column { rows: Arc::clone(&self.0), at })
    }
}

/// A column of a batch. `numpy.asarray` sees its values where they are: numbers, or the places of texts in `words`.
#[pyclass(frozen, module = "iotide._iotide")]
pub(crate) struct Column {
    rows: Arc<Rows>,
    at: usize,
}

impl Column {
    fn cells(&self) -> &Cells {
        &self.rows.columns[self.at]
    }
}

#[pymethods]
impl Column {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (start, n, kind) = self.cells().values.array();
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", kind)?;
        interface.set_item("shape", (n,))?;
        // Not to be written to: others may look at the same rows.
        interface.set_item("data", (start as usize, true))?;
        Ok(interface)
    }

    /// The texts of a column of texts, each once.
    #[getter]
    fn words(&self, py: Python<'_>) -> PyResult<Option<Py<PyList>>> {
        match &self.cells().values {
            Values::Words(_, words) => words.list(py).map(Some),
            _ => Ok(None),
        }
    }

    /// Where there is no value, as places of rows.
    #[getter]
    fn nulls(&self) -> Vec<usize> {
        let is_null = |bits: &Vec<u8>, row: usize| bits[row / 8] & (1 << (row % 8)) == 0;
        match &self.cells().valid {
            Some(bits) => (0..self.rows.n_rows).filter(|&row| is_null(bits, row)).collect(),
            None => Vec::new(),
        }
    }
}
