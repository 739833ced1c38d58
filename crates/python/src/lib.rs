//! The native half of the Python package `iotide`.
//!
//! A question is asked by the command line itself, in this process ([`ask`]): options, defaults, answers and errors are the same by
//! construction. What the command line has no form for is here: tables that stream, and a predictor that is fed event by event.
//!
//! Work is done by a thread of its own while the interpreter waits: other threads of Python go on, and Ctrl-C ends the wait.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use iotide_cli::{Asker, Daemon, Fault, FaultKind};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

mod arrow;
mod columns;
mod darshan;
mod events;
mod predictor;
mod table;

/// How often Ctrl-C is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Message of a thread that works.
enum Said<T> {
    Progress(String),
    Done(T),
}

/// Works in a thread of its own; tells `progress` how far it is, and ends the wait when Python has a signal to raise.
fn waiting<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(Asker) -> T + Send + 'static,
) -> PyResult<T> {
    let (say, heard) = channel();
    let mut asker = Asker::default();
    if progress.is_some() {
        let say = Mutex::new(say.clone());
        asker.progress = Some(Arc::new(move |text| {
            let _ = say.lock().unwrap_or_else(PoisonError::into_inner).send(Said::Progress(text.to_owned()));
        }));
    }
    let stop = Arc::clone(&asker.stop);
    std::thread::spawn(move || {
        let _ = say.send(Said::Done(work(asker)));
    });
    let mut heard = heard;
    loop {
        let said;
        (heard, said) = py.detach(move || {
            let said = heard.recv_timeout(LOOK_EVERY);
            (heard, said)
        });
        let told = match said {
            Ok(Said::Done(answer)) => return Ok(answer),
            Ok(Said::Progress(text)) => match &progress {
                Some(progress) => progress.call1(py, (text,)).map(drop),
                None => Ok(()),
            },
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("iotide failed; stderr says where"));
            }
        };
        if let Err(error) = told.and_then(|()| py.check_signals()) {
            stop.store(true, Ordering::Relaxed);
            return Err(error);
        }
    }
}

/// The exception of an error.
fn exception(py: Python<'_>, fault: &Fault) -> PyErr {
    let kind = match fault.kind {
        FaultKind::Usage => "UsageError",
        FaultKind::Input => "InputError",
        FaultKind::Other => "Error",
    };
    let made = py
        .import("iotide._errors")
        .and_then(|errors| errors.getattr(kind))
        .and_then(|class| class.call1((fault.message.as_str(), fault.hint.as_deref())));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// Arguments with the name of the program before them.
fn with_program(mut args: Vec<OsString>) -> Vec<OsString> {
    args.insert(0, "iotide".into());
    args
}

/// An answer for Python: status, output, the same in words, remarks, errors.
type Told<'py> = (u8, Bound<'py, PyBytes>, Option<String>, Vec<String>, Vec<Py<PyAny>>);

/// Asks the command line a question in this process. Returns its status, what it would print, the same in words, remarks and errors.
#[pyfunction]
#[pyo3(signature = (args, progress=None, daemon=None))]
fn ask<'py>(
    py: Python<'py>,
    args: Vec<OsString>,
    progress: Option<Py<PyAny>>,
    daemon: Option<(PathBuf, Option<String>)>,
) -> PyResult<Told<'py>> {
    let daemon = daemon_at(daemon)?;
    let answered =
        waiting(py, progress, move |asker| iotide_cli::ask(with_program(args), Asker { daemon, ..asker }))?;
    let faults = answered.faults.iter().map(|fault| exception(py, fault).into_value(py).into_any());
    Ok((
        answered.status.code(),
        PyBytes::new(py, &answered.out),
        answered.words,
        answered.notes,
        faults.collect(),
    ))
}

/// Asks a daemon for a path of its HTTP API.
#[pyfunction]
fn ask_daemon<'py>(
    py: Python<'py>,
    daemon: Option<(PathBuf, Option<String>)>,
    path: String,
) -> PyResult<Bound<'py, PyBytes>> {
    let daemon = daemon_at(daemon)?;
    let body = waiting(py, None, move |_| iotide_cli::ask_daemon(daemon, &path))?;
    body.map(|body| PyBytes::new(py, &body)).map_err(|fault| exception(py, &fault))
}

/// A daemon by its address, a path or a URL, and an access token.
fn daemon_at(address: Option<(PathBuf, Option<String>)>) -> PyResult<Option<Daemon>> {
    let Some((place, token)) = address else { return Ok(None) };
    match place.to_str().filter(|text| text.starts_with("http://") || text.starts_with("https://")) {
        Some(url) => {
            let url = url.parse().map_err(|fault| PyValueError::new_err(format!("{url}: {fault}")))?;
            Ok(Some(Daemon::Http { url, token }))
        }
        None => Ok(Some(Daemon::Socket(place))),
    }
}

/// Runs the program `iotide`, in the place of Python; returns its status. `program` is the file that starts it again.
#[pyfunction]
fn main(py: Python<'_>, args: Vec<OsString>, program: Option<PathBuf>) -> u8 {
    iotide_private::set_own_program(program, args.clone());
    py.detach(move || iotide_cli::run_program(with_program(args)).code())
}

#[pymodule(name = "_iotide")]
mod module {
    #[pymodule_export]
    use super::columns::{Batch, Column};
    #[pymodule_export]
    use super::darshan::Darshan;
    #[pymodule_export]
    use super::events::read;
    #[pymodule_export]
    use super::predictor::Predictor;
    #[pymodule_export]
    use super::table::{Batches, Table};
    #[pymodule_export]
    use super::{ask, ask_daemon, main};
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
