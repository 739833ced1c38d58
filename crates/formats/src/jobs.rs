//! Job logs: who ran what, on how many nodes, from when to when.
//!
//! Slurm's own text (`sacct --parsable2`, any columns in any order):
//!
//! ```text
//! JobID|User|JobName|NNodes|Start|End|State
//! 4711|ana|climate|128|2024-03-01T12:00:00|2024-03-01T14:30:10|COMPLETED
//! 4711.batch||batch|1|2024-03-01T12:00:00|2024-03-01T14:30:10|COMPLETED
//! ```
//!
//! or a table, as CSV or JSON Lines: `user,name,nodes,start,end` and optionally `jobid,state`. Times are seconds on the
//! clock of the throughput log, or dates. A job's steps are folded into it. `Submit`, `Timelimit` and `Priority` are kept if they are there.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use iotide_table::is_remark;
use iotide_trace::{JobOutcome, JobRun, Loss, Trace};

use crate::{
    Place, ReadError, detect,
    error::Fault,
    input::Input,
    losses::{Losses, Nonsense},
    number::parse_f64,
    rows::{Rows, Syntax, quoted},
};

/// Content of a job log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobLog {
    /// The runs, in the order of the log.
    pub runs: Vec<JobRun>,
    /// Jobs that had not begun when the log was written; they are no runs, and nobody's loss.
    pub n_not_begun: u64,
    /// Records that could not be used.
    pub losses: Vec<Loss>,
}

/// How a job log is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JobLogOptions {
    /// How far the clock of dates that name no zone is ahead of UTC.
    pub utc_offset_s: f64,
}

impl JobLogOptions {
    /// Reads a job log; `-` is standard input.
    pub fn open(&self, path: &Path) -> Result<JobLog, ReadError> {
        if path == Path::new("-") {
            return self.from_read("standard input", std::io::stdin());
        }
        let input = Input::open(path)?;
        match input.directory() {
            Some(_) => Err(ReadError::UnknownDirectory { path: path.to_path_buf() }),
            None => self.read(detect::unzipped_text(input)?),
        }
    }

    /// Reads a job log from a stream of bytes; `name` stands for it in messages.
    // Not a constructor of `Self`: the options are what it is called on, as in `OpenOptions::from_read`.
    #[allow(clippy::wrong_self_convention)]
    pub fn from_read(
        &self,
        name: impl AsRef<Path>,
        read: impl Read + Send + 'static,
    ) -> Result<JobLog, ReadError> {
        self.read(detect::unzipped_text(Input::from_read(name.as_ref(), Box::new(read))?)?)
    }

    pub(crate) fn read(&self, input: Input) -> Result<JobLog, ReadError> {
        let path = input.name().to_path_buf();
        let trouble = input.trouble();
        let syntax = syntax_of(input.head());
        let mut log = read_table(input, syntax, self).map_err(|fault| ReadError::from_fault(&path, fault))?;
        if let Some(what) = trouble.as_ref().and_then(|trouble| trouble.get()) {
            log.losses.push(Loss::of_unknown_size(what.clone()));
        }
        match log.losses.first() {
            Some(first) if log.runs.is_empty() && log.n_not_begun == 0 => {
                Err(ReadError::NothingUsable { path, first: first.what.clone() })
            }
            _ => Ok(log),
        }
    }
}

/// Bars are those of `sacct --parsable` and `--parsable2`: no quoting, so a name with a bar in it costs its row.
fn syntax_of(head: &[u8]) -> Syntax {
    let first = head.split(|byte| *byte == b'\n').find(|line| !is_remark(line)).unwrap_or_default();
    if first.trim_ascii().starts_with(b"{") {
        Syntax::JsonLines
    } else if memchr::memchr(b'|', first).is_some() {
        Syntax::Bars
    } else {
        Syntax::Csv
    }
}

/// The columns that are looked at, under Slurm's names and under plain ones.
const COLUMNS: &[&str] = &[
    "jobid",
    "jobidraw",
    "user",
    "uid",
    "name",
    "jobname",
    "nodes",
    "nnodes",
    "allocnodes",
    "start",
    "end",
    "elapsedraw",
    "elapsed",
    "state",
    "submit",
    "timelimit",
    "priority",
];
const ID: [usize; 2] = [0, 1];
const USER: [usize; 2] = [2, 3];
const NAME: [usize; 2] = [4, 5];
const NODES: [usize; 3] = [6, 7, 8];
const START: [usize; 1] = [9];
const END: [usize; 1] = [10];
const ELAPSED: [usize; 2] = [11, 12];
const STATE: [usize; 1] = [13];
const SUBMIT: [usize; 1] = [14];
const LIMIT: [usize; 1] = [15];
const PRIORITY: [usize; 1] = [16];

/// Jobs beyond this many are a loss: three months of the busiest machines are a hundredth of it.
const MOST_RUNS: usize = 8 << 20;

/// Names are kept up to so many bytes.
const LONGEST_NAME: usize = 256;

fn read_table(input: Input, syntax: Syntax, options: &JobLogOptions) -> Result<JobLog, Fault> {
    let mut losses = Losses::default();
    let mut rows = Rows::open(input, syntax, COLUMNS, &[], &mut losses)?;
    require(|column| rows.has(column), rows.header_place())?;
    let mut collector = Collector::default();
    while rows.advance(&mut losses)? {
        let place = rows.place();
        if let Err(nonsense) = collector.row(|column| rows.value(column), options) {
            losses.record(place, nonsense);
        }
    }
    let mut stated = Trace::default();
    rows.report(losses, &mut stated);
    Ok(collector.finish(stated.losses))
}

/// Fails if the columns that make a run are not there.
fn require(has: impl Fn(usize) -> bool, place: Place) -> Result<(), Fault> {
    let any = |columns: &[usize]| columns.iter().any(|&column| has(column));
    let missing = match () {
        () if !any(&START) => "start",
        () if !any(&END) && !any(&ELAPSED) => "end (or elapsed)",
        () if !any(&USER) && !any(&NAME) => "user or name",
        () => return Ok(()),
    };
    let fault = format!(
        "the header has no column {missing}; a job log has JobID|User|JobName|NNodes|Start|End|State or user,name,nodes,start,end"
    );
    Err(Fault::at(place, fault))
}

#[derive(Default)]
struct Collector {
    log: JobLog,
    /// Where the latest run of each job is.
    index_of: HashMap<String, usize>,
}

impl Collector {
    fn row<'a>(
        &mut self,
        value: impl Fn(usize) -> Option<&'a [u8]>,
        options: &JobLogOptions,
    ) -> Result<(), Nonsense> {
        let first_of = |columns: &[usize]| {
            columns.iter().find_map(|&column| value(column).filter(|text| !is_absent(text)))
        };
        let id = kept(first_of(&ID).unwrap_or_default());
        let id = match Part::of(&id) {
            // What a step did is in its job already, under a name that is not the job's.
            Part::Step(job) if self.index_of.contains_key(job) || job.contains('+') => return Ok(()),
            Part::Step(job) => {
                return Err(Nonsense::new(
                    "step alone",
                    format!("step {id} of job {job}, which is not listed before it"),
                ));
            }
            Part::Component(job) => (job.to_owned(), true),
            Part::Job => (id, false),
        };
        let (id, is_component) = id;
        let Some(start) = first_of(&START) else {
            self.log.n_not_begun += 1;
            if !id.is_empty() {
                // Its steps, if any, are not orphans.
                self.index_of.entry(id).or_insert(usize::MAX);
            }
            return Ok(());
        };
        let start_s = moment("start", start, options)?;
        let outcome = first_of(&STATE).map_or(JobOutcome::Unknown, outcome_of);
        let end_s = match (first_of(&END), first_of(&ELAPSED)) {
            (Some(end), _) => Some(moment("end", end, options)?),
            (None, Some(elapsed)) if outcome != JobOutcome::Running => Some(start_s + duration(elapsed)?),
            (None, _) => None,
        };
        if end_s.is_some_and(|end_s| end_s < start_s) {
            let fault = format!("the job ends {} s before it begins", start_s - end_s.unwrap_or(start_s));
            return Err(Nonsense::new("end before start", fault));
        }
        let n_nodes = first_of(&NODES).map(node_count).transpose()?;
        if is_component
            && let Some(run) = self.index_of.get(&id).and_then(|&index| self.log.runs.get_mut(index))
        {
            // Components of one job run side by side.
            run.n_nodes = run.n_nodes.zip(n_nodes).map(|(a, b)| a.saturating_add(b));
            run.start_s = run.start_s.min(start_s);
            run.end_s = run.end_s.zip(end_s).map(|(a, b)| a.max(b));
            return Ok(());
        }
        if self.log.runs.len() >= MOST_RUNS {
            return Err(Nonsense::new("too many jobs", format!("more than {MOST_RUNS} jobs")));
        }
        if !id.is_empty() {
            self.index_of.insert(id.clone(), self.log.runs.len());
        }
        let text = |columns: &[usize]| kept(first_of(columns).unwrap_or_default());
        let (user, name) = (text(&USER), text(&NAME));
        let submit_s = first_of(&SUBMIT).map(|submit| moment("submit", submit, options)).transpose()?;
        // `UNLIMITED` and `Partition_Limit` are no durations, and no fault.
        let limit_s = first_of(&LIMIT).and_then(|limit| duration(limit).ok());
        let priority = first_of(&PRIORITY).and_then(parse_f64).map(|priority| priority as i64);
        self.log.runs.push(JobRun {
            job_id: id,
            user,
            name,
            n_nodes,
            start_s,
            end_s,
            outcome,
            submit_s,
            limit_s,
            priority,
        });
        Ok(())
    }

    fn finish(self, losses: Vec<Loss>) -> JobLog {
        JobLog { losses, ..self.log }
    }
}

/// Meaning of a job id.
enum Part<'a> {
    Job,
    /// `4711.batch`, `4711_3.0`: part of the job named.
    Step(&'a str),
    /// `4711+1`: one of the jobs that Slurm calls heterogeneous, which run as one.
    Component(&'a str),
}

impl<'a> Part<'a> {
    fn of(id: &'a str) -> Self {
        if let Some((job, step)) = id.rsplit_once('.')
            && (matches!(step, "batch" | "extern" | "interactive")
                || (!step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit())))
        {
            return Part::Step(job);
        }
        match id.split_once('+') {
            Some((job, component)) if component.bytes().all(|byte| byte.is_ascii_digit()) => {
                Part::Component(job)
            }
            _ => Part::Job,
        }
    }
}

/// Returns whether a value of Slurm's means that there is none.
fn is_absent(text: &[u8]) -> bool {
    text.is_empty()
        || [&b"Unknown"[..], b"None", b"N/A", b"null"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

fn outcome_of(state: &[u8]) -> JobOutcome {
    // `CANCELLED by 1000`, `COMPLETED+`.
    let word = state.split(|byte| !byte.is_ascii_alphabetic() && *byte != b'_').next().unwrap_or_default();
    match word.to_ascii_uppercase().as_slice() {
        b"COMPLETED" | b"CD" => JobOutcome::Completed,
        b"TIMEOUT" | b"TO" => JobOutcome::TimedOut,
        b"RUNNING" | b"R" | b"COMPLETING" | b"SUSPENDED" => JobOutcome::Running,
        b"" => JobOutcome::Unknown,
        _ => JobOutcome::Broken,
    }
}

fn kept(text: &[u8]) -> String {
    iotide_wire::cut_text(&String::from_utf8_lossy(text), LONGEST_NAME).to_owned()
}

/// `128`, or `2K` as Slurm writes 2048 unless it is told not to.
fn node_count(text: &[u8]) -> Result<u64, Nonsense> {
    let (digits, factor) = match text {
        [digits @ .., b'K' | b'k'] => (digits, 1024.0),
        [digits @ .., b'M' | b'm'] => (digits, 1_048_576.0),
        digits => (digits, 1.0),
    };
    match parse_f64(digits).map(|count| count * factor) {
        Some(count) if (0.0..=1e9).contains(&count) => Ok(count.round() as u64),
        _ => Err(Nonsense::new("not a node count", format!("{} is not a number of nodes", quoted(text)))),
    }
}

/// Seconds, or `[days-]hours:minutes:seconds`.
fn duration(text: &[u8]) -> Result<f64, Nonsense> {
    let wrong = || Nonsense::new("not a duration", format!("elapsed is {}, not a duration", quoted(text)));
    let (days, clock) = match memchr::memchr(b'-', text) {
        Some(dash) => (parse_f64(&text[..dash]).ok_or_else(wrong)?, &text[dash + 1..]),
        None => (0.0, text),
    };
    let mut seconds = 0.0;
    for part in clock.split(|byte| *byte == b':') {
        seconds = seconds * 60.0 + parse_f64(part).ok_or_else(wrong)?;
    }
    let total_s = days * 86_400.0 + seconds;
    if (0.0..=MOST_SECONDS).contains(&total_s) { Ok(total_s) } else { Err(wrong()) }
}

fn moment(what: &str, text: &[u8], options: &JobLogOptions) -> Result<f64, Nonsense> {
    let seconds = parse_f64(text).or_else(|| date_unix_s(text, options.utc_offset_s));
    seconds.filter(|secs| secs.abs() <= MOST_SECONDS).ok_or_else(|| {
        Nonsense::new(
            "not a time",
            format!("{what} is {}, neither a number of seconds nor a date", quoted(text)),
        )
    })
}

/// 146 years, as for every other clock.
const MOST_SECONDS: f64 = 4.6e9;

/// Returns the seconds since the Unix epoch of `2024-03-01T12:00:00`, with a blank for the `T`, a fraction, and `Z` or
/// `+01:00` behind it if so wanted; a date without zone lies on a clock that is `utc_offset_s` ahead of UTC.
pub fn date_unix_s(text: &[u8], utc_offset_s: f64) -> Option<f64> {
    let number = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        digits
            .iter()
            .try_fold(0i64, |n, digit| digit.is_ascii_digit().then(|| n * 10 + i64::from(digit - b'0')))
    };
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let is_date = text.get(4) == Some(&b'-') && text.get(7) == Some(&b'-');
    if !is_date || !(1..=12).contains(&month) || !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    let midnight_s = days_since_epoch(year, month, day) as f64 * 86_400.0;
    if text.len() == 10 {
        return Some(midnight_s - utc_offset_s);
    }
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let is_clock = matches!(text[10], b'T' | b't' | b' ') && text[13] == b':' && text[16] == b':';
    // A leap second is the last of its minute, said twice.
    if !is_clock || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = &text[19..];
    let mut fraction = 0.0;
    if let Some(digits) = rest.strip_prefix(b".") {
        let n = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        fraction = std::str::from_utf8(&rest[..=n]).ok()?.parse().ok()?;
        rest = &digits[n..];
    }
    let offset_s = match rest {
        b"" => utc_offset_s,
        zone => zone_offset_s(zone)?,
    };
    Some(midnight_s + (hour * 3600 + minute * 60 + second) as f64 + fraction - offset_s)
}

/// Returns how far a zone written `Z`, `+01:00`, `-0500` or `+2` is ahead of UTC.
pub fn zone_offset_s(zone: &[u8]) -> Option<f64> {
    let (sign, digits) = match zone {
        b"Z" | b"z" | b"UTC" => return Some(0.0),
        [b'+', digits @ ..] => (1.0, digits),
        [b'-', digits @ ..] => (-1.0, digits),
        _ => return None,
    };
    let digits: Vec<u8> = digits.iter().copied().filter(|byte| *byte != b':').collect();
    if !matches!(digits.len(), 1 | 2 | 4) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| digits.iter().fold(0.0, |n, digit| n * 10.0 + f64::from(digit - b'0'));
    let (hours, minutes) = digits.split_at(digits.len().min(2));
    (number(hours) < 15.0 && number(minutes) < 60.0)
        .then(|| sign * (number(hours) * 3600.0 + number(minutes) * 60.0))
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Counts years from March, which puts the leap day at their end.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn read(text: &str) -> Result<JobLog, ReadError> {
        JobLogOptions::default().from_read("jobs", Cursor::new(text.to_owned()))
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found: Vec<String> = match read(text) {
            Ok(log) => log
                .runs
                .iter()
                .map(|run| {
                    let nodes = run.n_nodes.map_or("?".to_owned(), |nodes| nodes.to_string());
                    let end = run.end_s.map_or("…".to_owned(), |end_s| end_s.to_string());
                    format!(
                        "{} {} {} ×{nodes} {}..{end} {:?}",
                        run.job_id, run.user, run.name, run.start_s, run.outcome
                    )
                })
                .chain((log.n_not_begun > 0).then(|| format!("not begun: {}", log.n_not_begun)))
                .chain(log.losses.iter().map(|loss| format!("loss of {:?}: {}", loss.records, loss.what)))
                .collect(),
            Err(error) => vec![format!("error: {error}")],
        };
        assert_eq!(found, expected, "\nfound:\n{}", found.join("\n"));
    }

    #[test]
    fn sacct_text_has_its_columns_in_any_order_and_steps_in_their_jobs() {
        check(
            "Start|JobID|End|NNodes|JobName|State|User|Partition\n\
             1970-01-02T00:00:00|1|1970-01-02T01:00:00|4|climate|COMPLETED|ana|main\n\
             1970-01-02T00:00:00|1.batch|1970-01-02T01:00:00|1|batch|COMPLETED||\n\
             1970-01-02T00:00:00|1.extern|1970-01-02T01:00:00|4|extern|COMPLETED||\n\
             1970-01-02T00:00:10|1.0|1970-01-02T01:00:00|4|a.out|COMPLETED||\n\
             1970-01-02T00:00:00|2_7|1970-01-02T00:10:00|2K|x, y|CANCELLED by 1000|bo|main\n\
             1970-01-02T00:00:00|3|Unknown|1|run|RUNNING|bo|main\n\
             Unknown|4|Unknown|1|later|PENDING|bo|main\n",
            &[
                "1 ana climate ×4 86400..90000 Completed",
                "2_7 bo x, y ×2048 86400..87000 Broken",
                "3 bo run ×1 86400..… Running",
                "not begun: 1",
            ],
        );
    }

    #[test]
    fn a_bar_behind_the_last_column_is_that_of_parsable() {
        check("User|JobName|Start|End|\nana|x|10|20|\n", &[" ana x ×? 10..20 Unknown"]);
    }

    #[test]
    fn a_table_has_plain_names_and_seconds() {
        check(
            "# jobs of March\nuser,name,nodes,start,end\nana,\"a,b\",2,0,60.5\nbo,c,,100,\n",
            &[" ana a,b ×2 0..60.5 Unknown", " bo c ×? 100..… Unknown"],
        );
        check(
            "{\"user\":\"ana\",\"name\":\"x\",\"nodes\":2,\"start\":1,\"end\":\"1970-01-01T01:00:00+01:00\"}\n",
            &["error: jobs holds no record that can be used: line 1: the job ends 1 s before it begins"],
        );
    }

    #[test]
    fn what_runs_as_one_job_is_one_run() {
        check(
            "JobID|User|JobName|NNodes|Start|End|State\n9+0|ana|het|4|10|20|COMPLETED\n9+0.0|||4|10|20|COMPLETED\n\
             9+1|ana|het|2|10|25|COMPLETED\n",
            &["9 ana het ×6 10..25 Completed"],
        );
    }

    #[test]
    fn a_run_that_was_requeued_ran_twice() {
        check(
            "JobID|User|JobName|Start|End|State\n9|ana|x|10|20|NODE_FAIL\n9|ana|x|30|40|COMPLETED\n",
            &["9 ana x ×? 10..20 Broken", "9 ana x ×? 30..40 Completed"],
        );
    }

    #[test]
    fn elapsed_stands_in_for_an_end() {
        check(
            "JobID|User|JobName|Start|Elapsed|State\n1|a|x|0|1-01:00:05|COMPLETED\n2|a|x|0|10:00|RUNNING\n3|a|x|0|90|TIMEOUT\n",
            &["1 a x ×? 0..90005 Completed", "2 a x ×? 0..… Running", "3 a x ×? 0..90 TimedOut"],
        );
    }

    #[test]
    fn rows_that_make_no_sense_are_losses() {
        check(
            "JobID|User|JobName|NNodes|Start|End|State\n1|a|x|4|10|20|COMPLETED\n2|a|a|b|4|10|20|COMPLETED\n3|a|x|four|1|2|FAILED\n\
             4|a|x|1|30|20|COMPLETED\n5|a|x|1|soon|20|COMPLETED\n7.0|||1|10|20|COMPLETED\n6|a|x|1|2024-02-30T00:00:00|20|COMPLETED\n",
            &[
                "1 a x ×4 10..20 Completed",
                "loss of Some(1): line 3: 8 fields where the header has 7",
                "loss of Some(1): line 4: \"four\" is not a number of nodes",
                "loss of Some(1): line 5: the job ends 10 s before it begins",
                "loss of Some(2): line 6: start is \"soon\", neither a number of seconds nor a date, and 1 more like it",
                "loss of Some(1): line 7: step 7.0 of job 7, which is not listed before it",
            ],
        );
    }

    #[test]
    fn a_log_without_the_columns_of_a_run_is_refused() {
        check(
            "JobID|User|Submit\n1|a|10\n",
            &[
                "error: jobs, line 1: the header has no column start; a job log has JobID|User|JobName|NNodes|Start|End|State or \
               user,name,nodes,start,end",
            ],
        );
        check("", &["error: jobs is empty"]);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, unix_s) in [
            ("1970-01-01T00:00:00", Some(0.0)),
            ("2000-02-29 23:59:59", Some(951_868_799.0)),
            ("2020-09-13T12:26:40.25Z", Some(1_600_000_000.25)),
            ("2020-09-13T14:26:40+02:00", Some(1_600_000_000.0)),
            ("2020-09-13T07:26:40-0500", Some(1_600_000_000.0)),
            ("2020-09-13", Some(1_599_955_200.0)),
            ("2100-02-29T00:00:00", None),
            ("2020-13-01T00:00:00", None),
            ("2020-01-01T24:00:00", None),
            ("2020-01-01T00:00:00+99", None),
            ("2020-01-01T00:00", None),
            ("yesterday", None),
        ] {
            assert_eq!(date_unix_s(text.as_bytes(), 0.0), unix_s, "{text}");
        }
        assert_eq!(date_unix_s(b"2020-09-13T14:26:40", 7200.0), Some(1_600_000_000.0));
        assert_eq!(date_unix_s(b"2020-09-13T12:26:40Z", 7200.0), Some(1_600_000_000.0));
    }
}
