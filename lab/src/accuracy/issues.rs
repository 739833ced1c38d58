//! `cargo xtask accuracy issues`: our issues, and Drishti's, against judgements by hand.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use iotide_analysis::{IssueConfig, Issues, IssuesVerdict, Severity, issues};
use iotide_trace::Activity;

use crate::readers::{Losses, shared_data};
use serde_json::Value;

/// Usage of `run`.
pub const HELP: &str = "accuracy issues [--cases FILE] [--traces FOLDER] [--drishti PROGRAM] [--verbose]
    the first issue, those that must be there and false alarms, against logs judged by hand: shared/data/findings/expert.json above the
    repository, or FILE; Drishti beside it, if it is on PATH or named";

/// Runs the command; see `HELP`.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut cases, mut traces, mut drishti, mut verbose) = (None, None, None, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().map(PathBuf::from).ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--cases" => cases = Some(value()?),
            "--traces" => traces = Some(value()?),
            "--drishti" => drishti = Some(value()?),
            "--verbose" => verbose = true,
            other => return Err(format!("{other}?\n{HELP}")),
        }
    }
    let shared = |path: &str| {
        shared_data(path).ok_or_else(|| format!("there is no shared/data/{path} above the repository"))
    };
    let cases = cases.map_or_else(|| shared("findings/expert.json"), Ok)?;
    let traces = traces.map_or_else(|| shared("traces"), Ok)?;
    let drishti = drishti.or_else(|| crate::peer::on_path("drishti"));
    let cases = read_cases(&cases)?;
    let (mut ours, mut theirs) = (Score::default(), Score::default());
    for case in &cases {
        let path = traces.join(&case.path);
        let weight = 1.0 / cases.iter().filter(|other| other.group == case.group).count() as f64;
        let judged = judge(&path)?;
        let answer = Answer::of(&judged);
        ours.add(case, &answer, weight, true);
        if verbose {
            show(case, &judged);
        }
        if let Some(drishti) = &drishti {
            let answer = ask_drishti(drishti, &path);
            theirs.add(case, &answer.unwrap_or_default(), weight, false);
        }
    }
    println!(
        "{} logs of {} programs",
        cases.len(),
        cases.iter().map(|case| &case.group).collect::<HashSet<_>>().len()
    );
    println!("{:<10}{:>14}{:>16}{:>16}", "", "first right", "must be there", "false alarms");
    ours.print("iotide");
    match drishti {
        Some(_) => theirs.print("Drishti"),
        None => println!("Drishti is not on PATH (pip install drishti-io)"),
    }
    ours.differences.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// A log with its judgement.
struct Case {
    path: String,
    group: String,
    /// Accepted first issues; `None` if that is not asked.
    top: Option<Vec<String>>,
    must: Vec<String>,
    must_not: Vec<String>,
    gain_known: Option<f64>,
}

fn read_cases(path: &Path) -> Result<Vec<Case>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let document: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let words = |value: &Value| -> Option<Vec<String>> {
        Some(value.as_array()?.iter().filter_map(|word| Some(word.as_str()?.to_owned())).collect())
    };
    let word = |value: &Value| value.as_str().map(str::to_owned).ok_or("a case lacks its path or its group");
    let cases = document["cases"].as_array().ok_or("there is no list of cases")?;
    let case = |case: &Value| {
        Ok(Case {
            path: word(&case["path"])?,
            group: word(&case["group"])?,
            top: words(&case["top"]),
            must: words(&case["must"]).unwrap_or_default(),
            must_not: words(&case["must_not"]).unwrap_or_default(),
            gain_known: case["gain_known"].as_f64(),
        })
    };
    cases.iter().map(case).collect()
}

fn judge(path: &Path) -> Result<Issues, String> {
    let mut sink = (Activity::new(), Losses::default());
    let reader = iotide_formats::open(path).map_err(|error| error.to_string())?;
    let info = reader.read(&mut sink).map_err(|error| error.to_string())?;
    Ok(issues(&sink.0.finish(&info), &info.job, &sink.1.0, &IssueConfig::default()))
}

/// An answer in the terms of the judgements: ids, the first one first, each with whether it is high and whether medium or above.
#[derive(Default)]
struct Answer {
    listed: Vec<(String, Severity)>,
    is_too_little: bool,
}

impl Answer {
    fn of(issues: &Issues) -> Self {
        Self {
            listed: issues.found.iter().map(|issue| (issue.id.name().to_owned(), issue.severity)).collect(),
            is_too_little: issues.verdict == IssuesVerdict::TooLittle,
        }
    }

    fn first(&self) -> Option<&str> {
        self.listed.iter().find(|(_, severity)| *severity != Severity::Low).map(|(id, _)| id.as_str())
    }

    fn is_accepted(&self, top: &[String]) -> bool {
        top.iter().any(|word| match word.as_str() {
            "none" => self.first().is_none(),
            "too_little" => self.is_too_little && self.first().is_none(),
            id => self.first() == Some(id),
        })
    }

    fn has(&self, one_of: &str) -> bool {
        one_of.split('|').any(|wanted| self.listed.iter().any(|(id, _)| id == wanted))
    }

    /// Whether something is there that must not be.
    fn violates(&self, rule: &str) -> bool {
        let (rule, only_high) = rule.strip_suffix(":high").map_or((rule, false), |rule| (rule, true));
        self.listed.iter().any(|(id, severity)| {
            let is_grave = *severity == Severity::High || (*severity == Severity::Medium && !only_high);
            is_grave && (rule == "*" || rule == id)
        })
    }
}

/// Sums over logs, weighed by program.
#[derive(Default)]
struct Score {
    first: (f64, f64),
    must: (f64, f64),
    alarms: (f64, f64),
    differences: Vec<String>,
}

impl Score {
    fn add(&mut self, case: &Case, answer: &Answer, weight: f64, tell: bool) {
        let mut lines = Vec::new();
        if let Some(top) = &case.top {
            let is_right = answer.is_accepted(top);
            self.first = (self.first.0 + if is_right { weight } else { 0.0 }, self.first.1 + weight);
            if !is_right {
                lines.push(format!("first is {:?}, not one of {top:?}", answer.first()));
            }
        }
        if !case.must.is_empty() {
            let missing: Vec<&String> = case.must.iter().filter(|wanted| !answer.has(wanted)).collect();
            let there = 1.0 - missing.len() as f64 / case.must.len() as f64;
            self.must = (self.must.0 + weight * there, self.must.1 + weight);
            lines.extend(missing.iter().map(|wanted| format!("{wanted} is missing")));
        }
        if !case.must_not.is_empty() {
            let wrong: Vec<&String> = case.must_not.iter().filter(|rule| answer.violates(rule)).collect();
            let share = if wrong.is_empty() { 0.0 } else { 1.0 };
            self.alarms = (self.alarms.0 + weight * share, self.alarms.1 + weight);
            lines.extend(wrong.iter().map(|rule| format!("{rule} is a false alarm")));
        }
        if tell {
            self.differences.extend(lines.iter().map(|line| format!("  {}: {line}", case.path)));
        }
    }

    fn print(&self, name: &str) {
        let percent = |(part, whole): (f64, f64)| format!("{:.0} %", 100.0 * part / f64::max(whole, 1e-9));
        println!(
            "{name:<10}{:>14}{:>16}{:>16}",
            percent(self.first),
            percent(self.must),
            percent(self.alarms)
        );
    }
}

fn show(case: &Case, judged: &Issues) {
    let Issues { verdict, io_s, io_share, run_s, .. } = judged;
    println!(
        "{} [{}] {} io {io_s:.2} s of {:.1} s ({:.1} %), top {:?}, known {:?}",
        case.path,
        case.group,
        verdict.name(),
        run_s.unwrap_or(f64::NAN),
        100.0 * io_share.unwrap_or(f64::NAN),
        case.top.as_deref().unwrap_or_default(),
        case.gain_known
    );
    for issue in &judged.found {
        let gain = issue.gain.map_or(String::new(), |gain| {
            let [low, high] = gain.interval;
            format!("{:.1} % [{:.1}, {:.1}]", 100.0 * gain.of_run, 100.0 * low, 100.0 * high)
        });
        let same = issue.same_calls_as.map_or(String::new(), |id| format!(" (as {})", id.name()));
        let evidence: Vec<String> =
            issue.evidence.iter().map(|one| format!("{}={:.4}", one.name, one.value)).collect();
        println!(
            "    {:<7}{:<20}{gain}{same} {}",
            issue.severity.name(),
            issue.id.name(),
            evidence.join(" ")
        );
    }
}

/// Drishti's codes in our terms, with the severity that each always has; what is only information is left out.
const DRISHTI: &[(&str, &str, Severity)] = &[
    ("S01", "stdio_bulk", Severity::High),
    ("P05", "small_reads", Severity::High),
    ("P06", "small_writes", Severity::High),
    ("P07", "misaligned_memory", Severity::High),
    ("P08", "misaligned", Severity::High),
    ("P09", "redundant_reads", Severity::Medium),
    ("P10", "redundant_writes", Severity::Medium),
    ("P11", "random_reads", Severity::High),
    ("P13", "random_writes", Severity::High),
    ("P15", "small_shared", Severity::High),
    ("P16", "small_shared", Severity::High),
    ("P17", "metadata_time", Severity::High),
    ("P18", "rank_imbalance", Severity::High),
    ("P19", "stragglers", Severity::High),
    ("P21", "rank_imbalance", Severity::High),
    ("P22", "rank_imbalance", Severity::High),
    ("M01", "no_mpi_io", Severity::Medium),
    ("M02", "missing_collectives", Severity::High),
    ("M03", "missing_collectives", Severity::High),
    ("M06", "blocking_io", Severity::Medium),
    ("M07", "blocking_io", Severity::Medium),
];

/// Asks Drishti for its codes; `None` if it cannot read the log.
fn ask_drishti(drishti: &Path, log: &Path) -> Option<Answer> {
    let folder = std::env::temp_dir().join(format!("iotide-drishti-{}", std::process::id()));
    std::fs::create_dir_all(&folder).ok()?;
    let output = Command::new(drishti).arg("--csv").arg("--export_dir").arg(&folder).arg(log).output();
    let csv = std::fs::read_dir(&folder)
        .ok()?
        .flatten()
        .find(|file| file.path().extension().is_some_and(|end| end == "csv"));
    let table = csv.and_then(|file| std::fs::read_to_string(file.path()).ok());
    let _ = std::fs::remove_dir_all(&folder);
    output.ok()?;
    let table = table?;
    let mut lines = table.lines();
    let (names, values) = (lines.next()?.split(','), lines.next()?.split(','));
    let set: BTreeMap<&str, bool> = names.zip(values).map(|(name, value)| (name, value == "True")).collect();
    let mut listed: Vec<(String, Severity)> = (DRISHTI.iter())
        .filter(|(code, ..)| set.get(code).copied().unwrap_or(false))
        .map(|(_, id, severity)| ((*id).to_owned(), *severity))
        .collect();
    listed.sort_by_key(|(_, severity)| *severity);
    Some(Answer { listed, is_too_little: false })
}
