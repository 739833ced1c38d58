//! Job logs in Standard Workload Format (Chapin et al., 1999): one job a line, 18 numbers; -1 is "not known".
//!
//! ```text
//! ; MaxNodes: 256
//! 1 5094 -1 12072 16 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1
//! ```
//!
//! Of these, four are used: when a job was submitted (2), how long it ran (4), on how much (5, or 8 if that is not known), and what
//! it had asked for (9).

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use iotide_trace::{Loss, Trace};

use crate::{
    Place, ReadError, detect,
    error::Fault,
    input::Input,
    jobs::{JobLog, JobLogOptions},
    losses::{Losses, Nonsense},
    number::parse_f64,
    rows::quoted,
};

/// Content of a log in Standard Workload Format.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SwfLog {
    /// How many nodes the machine had, or processors if only these are stated.
    pub n_nodes: Option<u64>,
    /// The jobs, in the order of the log.
    pub jobs: Vec<SwfJob>,
    /// Records that could not be used.
    pub losses: Vec<Loss>,
}

/// A job of such a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwfJob {
    /// Its number.
    pub id: u64,
    /// When it was submitted, in seconds since the log's beginning.
    pub submit_s: f64,
    /// How long it ran.
    pub runtime_s: f64,
    /// On how many processors.
    pub n_nodes: u64,
    /// How long it was allowed to run.
    pub limit_s: Option<f64>,
}

/// A log of jobs that were submitted, in whichever form it is.
#[derive(Clone, Debug, PartialEq)]
pub enum SubmissionLog {
    /// Standard Workload Format.
    Swf(SwfLog),
    /// `sacct`, or a table of the same.
    Runs(JobLog),
    /// A description in JSON, as text.
    Json(String),
}

impl SubmissionLog {
    /// Reads a log, and tells by its beginning what it is; `-` is standard input.
    pub fn open(path: &Path, options: &JobLogOptions) -> Result<Self, ReadError> {
        let input = if path == Path::new("-") {
            Input::from_read(Path::new("standard input"), Box::new(std::io::stdin()))?
        } else {
            Input::open(path)?
        };
        match input.directory() {
            Some(_) => Err(ReadError::UnknownDirectory { path: path.to_path_buf() }),
            None => Self::read(input, options),
        }
    }

    /// Reads a log from a stream of bytes; `name` stands for it in messages.
    pub fn from_read(
        name: impl AsRef<Path>,
        read: impl Read + Send + 'static,
        options: &JobLogOptions,
    ) -> Result<Self, ReadError> {
        Self::read(Input::from_read(name.as_ref(), Box::new(read))?, options)
    }

    fn read(input: Input, options: &JobLogOptions) -> Result<Self, ReadError> {
        let input = detect::unzipped_text(input)?;
        let path = input.name().to_path_buf();
        let trouble = input.trouble();
        let mut log = match Form::of(input.head()) {
            Form::Runs => return options.read(input).map(Self::Runs),
            Form::Json => {
                let text = read_text(input).map_err(|cause| ReadError::Io { path, cause })?;
                return Ok(Self::Json(text));
            }
            Form::Swf => read_swf(input).map_err(|fault| ReadError::from_fault(&path, fault))?,
        };
        if let Some(what) = trouble.as_ref().and_then(|trouble| trouble.get()) {
            log.losses.push(Loss::of_unknown_size(what.clone()));
        }
        match log.losses.first() {
            Some(first) if log.jobs.is_empty() => {
                Err(ReadError::NothingUsable { path, first: first.what.clone() })
            }
            _ => Ok(Self::Swf(log)),
        }
    }
}

enum Form {
    Swf,
    Runs,
    Json,
}

impl Form {
    fn of(head: &[u8]) -> Self {
        let mut lines =
            head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        let Some(first) = lines.next() else { return Form::Runs };
        // Lines of a table name what is in them; a description is one object that has jobs.
        let has_jobs = memchr::memmem::find(head, b"\"jobs\"").is_some();
        let is_row = memchr::memmem::find(first, b"\"start\"").is_some() && first.ends_with(b"}");
        match first[0] {
            b'{' if has_jobs || !is_row => Form::Json,
            b'[' => Form::Json,
            b';' => Form::Swf,
            _ if first
                .split(u8::is_ascii_whitespace)
                .filter(|cell| !cell.is_empty())
                .all(|cell| parse_f64(cell).is_some()) =>
            {
                Form::Swf
            }
            _ => Form::Runs,
        }
    }
}

/// Descriptions beyond this are refused: ten million jobs are a tenth of it.
const LONGEST_TEXT: u64 = 16 << 30;

fn read_text(input: Input) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    input.into_read().take(LONGEST_TEXT).read_to_end(&mut bytes)?;
    String::from_utf8(bytes)
        .map_err(|_| std::io::Error::new(std::io::ErrorKind::InvalidData, "it is not text in UTF-8"))
}

/// Lines beyond this are no jobs.
const LONGEST_LINE: u64 = 4096;

/// Jobs beyond this many are a loss.
const MOST_JOBS: usize = 10_000_000;

/// A machine of more processors is a mistake.
const MOST_NODES: f64 = 1e9;

/// 146 years, as for every other clock.
const MOST_SECONDS: f64 = 4.6e9;

const N_FIELDS: usize = 18;

fn read_swf(input: Input) -> Result<SwfLog, Fault> {
    let mut read = BufReader::new(input.into_read());
    let mut log = SwfLog::default();
    let mut losses = Losses::default();
    let mut ids = HashSet::new();
    let mut line = Vec::new();
    let mut n_lines = 0;
    loop {
        line.clear();
        let n = (&mut read).take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(Fault::Io)?;
        if n == 0 {
            break;
        }
        n_lines += 1;
        let place = Place::Line(n_lines);
        if n as u64 == LONGEST_LINE && line.last() != Some(&b'\n') {
            losses.record(
                place,
                Nonsense::new("long line", format!("a line of more than {LONGEST_LINE} bytes")),
            );
            skip_line(&mut read).map_err(Fault::Io)?;
            continue;
        }
        let text = line.trim_ascii();
        if let Some(remark) = text.strip_prefix(b";") {
            note_machine(remark, &mut log);
        } else if !text.is_empty() {
            match job_of(text).and_then(|job| unique(job, &mut ids, log.jobs.len())) {
                Ok(job) => log.jobs.push(job),
                Err(nonsense) => losses.record(place, nonsense),
            }
        }
    }
    let mut stated = Trace::default();
    losses.report(&mut stated);
    log.losses = stated.losses;
    Ok(log)
}

fn skip_line(read: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = read.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let end = memchr::memchr(b'\n', buffer);
        let n = end.map_or(buffer.len(), |end| end + 1);
        read.consume(n);
        if end.is_some() {
            return Ok(());
        }
    }
}

/// `MaxNodes` counts what jobs are given; where jobs are given processors, `MaxProcs` does.
fn note_machine(remark: &[u8], log: &mut SwfLog) {
    let Some(colon) = memchr::memchr(b':', remark) else { return };
    let (name, value) = (remark[..colon].trim_ascii(), remark[colon + 1..].trim_ascii());
    let value = value.split(|byte| !byte.is_ascii_digit()).next().unwrap_or_default();
    let Some(count) = parse_f64(value).filter(|count| (1.0..=MOST_NODES).contains(count)) else { return };
    let is_procs = name.eq_ignore_ascii_case(b"MaxProcs");
    if is_procs || (name.eq_ignore_ascii_case(b"MaxNodes") && log.n_nodes.is_none()) {
        log.n_nodes = Some(count as u64);
    }
}

fn job_of(text: &[u8]) -> Result<SwfJob, Nonsense> {
    let mut cells = [0.0; N_FIELDS];
    let mut n_cells = 0;
    for cell in text.split(u8::is_ascii_whitespace).filter(|cell| !cell.is_empty()) {
        let value = parse_f64(cell).filter(|value| value.is_finite());
        let value = value
            .ok_or_else(|| Nonsense::new("not a number", format!("{} is not a number", quoted(cell))))?;
        if let Some(slot) = cells.get_mut(n_cells) {
            *slot = value;
        }
        n_cells += 1;
    }
    if n_cells != N_FIELDS {
        return Err(Nonsense::new("fields", format!("{n_cells} fields where a job has {N_FIELDS}")));
    }
    let [id, submit_s, _, runtime_s, allocated, _, _, requested, limit_s, ..] = cells;
    let wrong = |kind, fault: String| Err(Nonsense::new(kind, fault));
    if !(0.0..=1e15).contains(&id) || id.fract() != 0.0 {
        return wrong("number", format!("{id} is not the number of a job"));
    }
    if !(0.0..=MOST_SECONDS).contains(&submit_s) {
        return wrong("submit", format!("job {id} was submitted at {submit_s} s"));
    }
    if runtime_s < 0.0 {
        return wrong("run time", format!("job {id} has no run time"));
    }
    if runtime_s > MOST_SECONDS {
        return wrong("long run", format!("job {id} ran for {runtime_s} s"));
    }
    let n_nodes = if allocated > 0.0 { allocated } else { requested };
    if !(1.0..=MOST_NODES).contains(&n_nodes) || n_nodes.fract() != 0.0 {
        return wrong("size", format!("job {id} ran on {n_nodes} processors"));
    }
    Ok(SwfJob {
        id: id as u64,
        submit_s,
        runtime_s,
        n_nodes: n_nodes as u64,
        limit_s: (0.0..=MOST_SECONDS).contains(&limit_s).then_some(limit_s),
    })
}

fn unique(job: SwfJob, ids: &mut HashSet<u64>, n_jobs: usize) -> Result<SwfJob, Nonsense> {
    if n_jobs >= MOST_JOBS {
        return Err(Nonsense::new("too many jobs", format!("more than {MOST_JOBS} jobs")));
    }
    if !ids.insert(job.id) {
        return Err(Nonsense::new("twice", format!("job {} was listed before", job.id)));
    }
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn read(text: &str) -> Result<SubmissionLog, ReadError> {
        SubmissionLog::from_read("log", Cursor::new(text.to_owned()), &JobLogOptions::default())
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found: Vec<String> = match read(text) {
            Ok(SubmissionLog::Swf(log)) => (log.n_nodes.map(|n| format!("machine of {n}")).into_iter())
                .chain(log.jobs.iter().map(|job| {
                    let limit = job.limit_s.map_or("…".to_owned(), |limit_s| limit_s.to_string());
                    format!("{} at {} ×{} {} of {limit}", job.id, job.submit_s, job.n_nodes, job.runtime_s)
                }))
                .chain(log.losses.iter().map(|loss| format!("loss of {:?}: {}", loss.records, loss.what)))
                .collect(),
            Ok(other) => vec![format!("{other:?}")],
            Err(error) => vec![format!("error: {error}")],
        };
        assert_eq!(found, expected, "\nfound:\n{}", found.join("\n"));
    }

    const REST: &str = "-1 -1 -1 1 -1 -1 -1 0 -1 -1 -1";

    #[test]
    fn of_eighteen_numbers_four_are_used() {
        check(
            &format!(
                "; MaxNodes: 256\n\n1 5 -1 60.5 16 -1 -1 {REST}\n2 6 -1 1 -1 -1 -1 8 90 -1 1 -1 -1 -1 0 -1 -1 -1"
            ),
            &["machine of 256", "1 at 5 ×16 60.5 of …", "2 at 6 ×8 1 of 90"],
        );
    }

    #[test]
    fn jobs_are_given_processors_where_the_log_counts_them() {
        check(
            &format!("; MaxNodes: 4\n; MaxProcs: 128 (in two cabinets)\n1 0 -1 1 1 -1 -1 {REST}\n"),
            &["machine of 128", "1 at 0 ×1 1 of …"],
        );
    }

    #[test]
    fn rows_that_make_no_sense_are_losses() {
        check(
            &format!(
                "1 0 -1 5 1 -1 -1 {REST}\n1 0 -1 5 1 -1 -1 {REST}\n2 -4 -1 5 1 -1 -1 {REST}\n3 0 -1 -1 1 -1 -1 {REST}\n\
                 4 0 -1 5 0 -1 -1 {REST}\n5 0 -1 5 1e10 -1 -1 {REST}\n6 0 x 5 1 -1 -1 {REST}\n7 0 -1 5 1 -1 -1 -1"
            ),
            &[
                "1 at 0 ×1 5 of …",
                "loss of Some(1): line 2: job 1 was listed before",
                "loss of Some(1): line 3: job 2 was submitted at -4 s",
                "loss of Some(1): line 4: job 3 has no run time",
                "loss of Some(2): line 5: job 4 ran on -1 processors, and 1 more like it",
                "loss of Some(1): line 7: \"x\" is not a number",
                "loss of Some(1): line 8: 8 fields where a job has 18",
            ],
        );
        check(
            "1 2 3\n",
            &["error: log holds no record that can be used: line 1: 3 fields where a job has 18"],
        );
    }

    #[test]
    fn the_form_is_told_from_the_beginning() {
        assert!(matches!(read("{\"nodes\": 4,\n \"jobs\": []}"), Ok(SubmissionLog::Json(_))));
        assert!(matches!(
            read("JobID|User|JobName|NNodes|Start|End|State\n1|a|x|1|1|2|COMPLETED\n"),
            Ok(SubmissionLog::Runs(_))
        ));
        assert!(matches!(
            read("{\"user\":\"a\",\"name\":\"x\",\"nodes\":2,\"start\":1,\"end\":3}\n"),
            Ok(SubmissionLog::Runs(_))
        ));
        check("", &["error: log is empty"]);
    }

    #[test]
    fn a_line_without_end_costs_itself() {
        let long = "9".repeat(10_000);
        check(
            &format!("; x\n{long}\n1 0 -1 5 1 -1 -1 {REST}\n"),
            &["1 at 0 ×1 5 of …", "loss of Some(1): line 2: a line of more than 4096 bytes"],
        );
    }
}
