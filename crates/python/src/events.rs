//! Events of a trace as a table.
//!
//! A reader knows the names of files at its end. So events are kept in a temporary native trace (about ten bytes each), and read from
//! there as often as the table is: memory does not grow with the trace.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use iotide_cli::{Asker, Fault, FaultKind};
use iotide_formats::{Conversion, ConvertError, OpenOptions, Target, convert};
use iotide_trace::{AccessFacts, Event, EventSink, Grain, Layer, Loss, Op, TimeSpent, Timestamp};
use pyo3::prelude::*;

use crate::columns::{Kind, Words};
use crate::table::{Field, RowSink, Table};
use crate::{exception, waiting, with_program};

/// Facts that a trace states beside its events, in the order of the Python class.
type About =
    (Option<f64>, Option<u64>, Option<String>, Option<String>, Option<String>, Option<f64>, Vec<String>);

/// Reads the events of a trace, whose paths and reading options are arguments of the command line.
#[pyfunction]
#[pyo3(signature = (args, progress=None))]
pub(crate) fn read(
    py: Python<'_>,
    args: Vec<OsString>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Table, About)> {
    let spooled = waiting(py, progress, move |asker| spool(args, &asker))?;
    let (spool, Conversion { n_events, info, losses }) = spooled.map_err(|fault| exception(py, &fault))?;
    let job = info.job;
    let losses = losses.into_iter().map(|loss| loss.what).collect();
    let about = (job.run_time_s, job.n_procs, job.user, job.exe, job.job_id, job.start_time_unix_s, losses);
    Ok((table_of(spool, n_events, &info.files), about))
}

/// Keeps the events in a temporary file.
fn spool(args: Vec<OsString>, asker: &Asker) -> Result<(File, Conversion), Fault> {
    let (inputs, options) = iotide_cli::inputs(with_program(args), asker)?;
    let [input] = inputs.as_slice() else {
        let message = "a table of events is of one run; `one_run=True` reads several files as one";
        return Err(Fault { kind: FaultKind::Usage, message: message.to_owned(), hint: None });
    };
    let spool = iotide_private::nameless().map_err(|error| other(&error))?;
    let conversion = convert(input.open(&options)?, Target::Native, &spool).map_err(|error| match error {
        ConvertError::Read(error) => Fault::from(iotide_api::Error::from(error)),
        error => other(&error),
    })?;
    Ok((spool, conversion))
}

fn other(error: &dyn std::error::Error) -> Fault {
    Fault { kind: FaultKind::Other, message: error.to_string(), hint: None }
}

fn table_of(spool: File, n_events: u64, files: &[String]) -> Table {
    let names = |names: &[&str]| Arc::new(Words::of(names.iter().copied()));
    let files = Arc::new(Words::of(files.iter().map(String::as_str)));
    let fields = vec![
        Field::new("rank", Kind::Int),
        Field::words("op", &names(&Op::ALL.map(Op::name))),
        Field::new("start", Kind::Float),
        Field::new("end", Kind::Float),
        Field::new("bytes", Kind::Float),
        Field::words("file", &files),
        Field::words("layer", &names(&Layer::ALL.map(Layer::name))),
        Field::words("grain", &names(&Grain::ALL.map(Grain::name))),
        Field::new("calls", Kind::Int),
    ];
    let spool = Arc::new(spool);
    Table::new(fields, Some(n_events), move |rows| {
        let input = FromStart { file: Arc::clone(&spool), at: 0 };
        let reader = OpenOptions::default().from_read("temporary trace", input);
        let read = reader.and_then(|reader| reader.read(&mut Events { rows }));
        read.map(drop).map_err(|error| Fault::from(iotide_api::Error::from(error)))
    })
}

/// A file from its start, wherever others read it.
struct FromStart {
    file: Arc<File>,
    at: u64,
}

impl Read for FromStart {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(bytes, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

/// Events as rows of [`table_of`].
struct Events<'a, 'b> {
    rows: &'a mut RowSink<'b>,
}

impl EventSink for Events<'_, '_> {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        let [rank, op, start, end, bytes, file, layer, grain, calls] = self.rows.columns.as_mut_slice()
        else {
            return ControlFlow::Break(());
        };
        rank.int(event.rank.0.into());
        op.word(event.op as usize);
        start.float(event.start.as_secs());
        end.float(event.end.as_secs());
        bytes.float(event.bytes);
        file.word(event.file.0 as usize);
        layer.word(event.layer as usize);
        grain.word(event.grain as usize);
        calls.int(event.calls.into());
        self.rows.end_row()
    }

    fn async_event(&mut self, event: Event, _: Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: TimeSpent) {}
    fn access_facts(&mut self, _: &AccessFacts) {}

    /// They are known from the first pass.
    fn loss(&mut self, _: Loss) {}
}
