//! Traces as text, so that a test is its input and what should come of it.

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;

use iotide_trace::{Event, EventSink, FileId, Grain, Timestamp, Trace, TraceInfo};

use crate::error::Fault;
use crate::input::Input;
use crate::{OpenOptions, ReadError};

/// Reads `source` and asserts what is found: events, losses, facts and files a line each, or the error.
#[track_caller]
pub(crate) fn check(source: impl AsRef<[u8]>, expected: &str) {
    check_with(&OpenOptions::default(), source, expected);
}

#[track_caller]
pub(crate) fn check_with(options: &OpenOptions, source: impl AsRef<[u8]>, expected: &str) {
    let lines = |text: &str| {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    };
    let found = match read(options, source.as_ref()) {
        Ok(trace) => listing(&trace),
        Err(error) => format!("error: {error}"),
    };
    assert_eq!(lines(&found), lines(expected), "\nfound:\n{found}");
}

pub(crate) fn read(options: &OpenOptions, source: &[u8]) -> Result<Trace, ReadError> {
    let mut trace = Trace::default();
    trace.info = options.from_read("input", Cursor::new(source.to_vec()))?.read(&mut trace)?;
    Ok(trace)
}

/// Reads `text` by one format's own reader, whatever else it might be taken for.
pub(crate) fn read_by(
    reader: fn(Input, &mut dyn EventSink) -> Result<TraceInfo, Fault>,
    text: &str,
) -> Trace {
    let input = Input::from_read(Path::new("test"), Box::new(Cursor::new(text.to_owned()))).unwrap();
    let mut trace = Trace::default();
    trace.info = reader(input, &mut trace).unwrap();
    trace
}

fn listing(trace: &Trace) -> String {
    let mut text = String::new();
    let TraceInfo { job, files } = &trace.info;
    for Event { op, grain, rank, file, start, end, bytes, calls, .. } in &trace.events {
        let secs = |at: Timestamp| at.as_nanos() as f64 / 1e9;
        let _ = write!(text, "r{} {} {}..{} {bytes}B", rank.0, op.name(), secs(*start), secs(*end));
        if *file != FileId::NONE {
            let _ = write!(text, " {:?}", files[file.0 as usize]);
        }
        if *grain == Grain::Bin {
            text.push_str(" bin");
        } else if *calls != 1 {
            let _ = write!(text, " ×{calls}");
        }
        text.push('\n');
    }
    let facts = [
        ("run time", job.run_time_s.map(|fact| fact.to_string())),
        ("procs", job.n_procs.map(|fact| fact.to_string())),
        ("procs told of", job.n_told.map(|fact| fact.to_string())),
        ("user", job.user.clone()),
        ("exe", job.exe.clone()),
        ("job", job.job_id.clone()),
        ("start time", job.start_time_unix_s.map(|fact| fact.to_string())),
    ];
    for (name, fact) in facts {
        if let Some(fact) = fact {
            let _ = writeln!(text, "{name}: {fact}");
        }
    }
    for loss in &trace.losses {
        let _ = match loss.records {
            Some(records) => writeln!(text, "loss of {records}: {}", loss.what),
            None => writeln!(text, "loss: {}", loss.what),
        };
    }
    text
}
