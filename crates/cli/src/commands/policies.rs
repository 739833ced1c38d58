//! Policies of a site: of which jobs their owners should hear, and the text to send.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow, bail};
use iotide_analysis::IssueId;
use iotide_report::quantity::parse_ago;
use iotide_report::{JobDocument, JobList, text};
use serde_json::{Value, json};
use toml::Table;

use super::asking::{ask, in_query, now_unix_s, unreadable};
use super::jobs::{deliver, list};
use super::{Form, OutputArgs};
use crate::ExitStatus;
use crate::ui::{Hint as _, Ui};

/// The largest file of policies, in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// Jobs that are looked at.
const MOST_JOBS: usize = 10_000;
/// Jobs that a letter names.
const MOST_NAMED: usize = 20;

/// Find jobs whose owners should hear of an I/O issue, and show what would be sent
///
/// Each policy names an issue, the least gain of a fix and how many runs of an application must have it. Without --send nothing is sent: the letters are
/// shown. With --send, each is handed to a mail program once; whom it was sent to is kept in a file, so that the same letter is not sent again for a while.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PolicyArgs {
    /// The policies, as TOML
    #[arg(value_name = "FILE")]
    policies: PathBuf,
    /// Look at jobs started within this time before now, as in 12h, 7d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_ago)]
    since: f64,
    /// Send each letter by this program, called as `PROGRAM -s SUBJECT USER` with the text as its input
    #[arg(long, value_name = "PROGRAM", requires = "sent")]
    send: Option<PathBuf>,
    /// Where is kept what was sent to whom, as lines of JSON
    #[arg(long, value_name = "FILE")]
    sent: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide policy policies.toml                                            what would be sent
  iotide policy policies.toml --since 30d --format json
  iotide policy policies.toml --send mail --sent /var/lib/iotide/sent.jsonl   send it, once each";

/// When owners hear of their jobs, and of what.
#[derive(Clone, Debug, PartialEq)]
struct Policy {
    name: String,
    /// The issue; any if there is none.
    issue: Option<&'static str>,
    /// The least share of the run that a fix would save.
    gain: f64,
    /// In how many runs of an application.
    runs: usize,
    /// After this time, the same letter may be sent again.
    again_s: f64,
    subject: String,
    text: String,
}

/// Words in braces that a text may have.
const PLACES: [&str; 8] = ["user", "program", "n", "jobs", "gain", "issue", "advice", "command"];

impl Policy {
    fn of(table: &Table) -> Result<Self, String> {
        const KEYS: [&str; 7] = ["name", "issue", "gain", "runs", "again", "subject", "text"];
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(format!("there is no '{key}'; a policy has {}", KEYS.join(", ")));
        }
        let said = |key: &str| match table.get(key) {
            None => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or_else(|| format!("'{key}' is not a text")),
        };
        let needed = |key: &str| said(key)?.map(str::to_owned).ok_or_else(|| format!("'{key}' is missing"));
        let issue = match said("issue")? {
            None => None,
            Some(name) => {
                Some(IssueId::from_name(name).ok_or_else(|| format!("there is no issue '{name}'"))?.name())
            }
        };
        let gain = match table.get("gain") {
            None => 0.1,
            Some(value) => (value.as_float().or(value.as_integer().map(|n| n as f64)))
                .filter(|gain| (0.0..=1.0).contains(gain))
                .ok_or("'gain' is not a share of a run, as in 0.1")?,
        };
        let runs = match table.get("runs") {
            None => 1,
            Some(value) => (value.as_integer().and_then(|n| usize::try_from(n).ok()))
                .filter(|n| *n > 0)
                .ok_or("'runs' is not a number of runs")?,
        };
        let again_s = said("again")?.map_or(Ok(14.0 * 86_400.0), parse_ago)?;
        let (subject, text) = (needed("subject")?, needed("text")?);
        for said in [&subject, &text] {
            if let Some(place) = places(said).into_iter().find(|place| !PLACES.contains(place)) {
                return Err(format!("there is no {{{place}}}; a text has {{{}}}", PLACES.join("}, {")));
            }
        }
        if subject.contains('\n') {
            return Err("'subject' has more than one line".to_owned());
        }
        Ok(Self { name: needed("name")?, issue, gain, runs, again_s, subject, text })
    }
}

/// Reads policies: tables `[[policy]]`.
fn policies(said: &str) -> Result<Vec<Policy>, String> {
    let table: Table = said.parse().map_err(|error: toml::de::Error| error.to_string())?;
    if let Some(key) = table.keys().find(|key| *key != "policy") {
        return Err(format!("there is no '{key}'; policies are tables [[policy]]"));
    }
    let all = table.get("policy").and_then(toml::Value::as_array).ok_or("there is no [[policy]]")?;
    let mut policies: Vec<Policy> = Vec::new();
    for (n, value) in all.iter().enumerate() {
        let policy = value.as_table().ok_or("a policy is a table".to_owned()).and_then(Policy::of);
        let policy = policy.map_err(|why| format!("policy {}: {why}", n + 1))?;
        if policies.iter().any(|other| other.name == policy.name) {
            return Err(format!("policy {}: '{}' is there twice", n + 1, policy.name));
        }
        policies.push(policy);
    }
    Ok(policies)
}

/// The words in braces of a text.
fn places(text: &str) -> Vec<&str> {
    text.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0)).collect()
}

/// Puts words in the places of a text, in one pass: what comes from jobs is no template.
fn filled(text: &str, words: &BTreeMap<&str, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        match after.split_once('}').and_then(|(place, behind)| Some((words.get(place)?, behind))) {
            Some((word, behind)) => {
                out.push_str(word);
                rest = behind;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out + rest
}

/// A text to the owner of jobs.
#[derive(Clone, Debug, PartialEq)]
struct Letter {
    policy: String,
    again_s: f64,
    user: String,
    program: String,
    jobs: Vec<String>,
    gain: f64,
    subject: String,
    text: String,
    state: &'static str,
}

/// Writes the letters that policies ask for, about jobs that have ended.
fn letters_about(policies: &[Policy], jobs: &[JobDocument]) -> Vec<Letter> {
    let mut letters = Vec::new();
    for policy in policies {
        type Found<'a> = Vec<(&'a JobDocument, f64, String, String, String)>;
        let mut found: BTreeMap<(String, String), Found<'_>> = BTreeMap::new();
        for job in jobs {
            let issues = job.judged().map_or(Vec::new(), |judged| judged.issues);
            let is_it = |id: &str| policy.issue.is_none_or(|issue| issue == id);
            let worst = issues.into_iter().filter(|issue| is_it(issue.id)).find_map(|issue| {
                let gain = issue.gain.map(|gain| gain.of_run).filter(|gain| *gain >= policy.gain)?;
                let command = issue.command.as_ref().map_or(String::new(), |command| command.for_terminal());
                Some((gain, issue.text, issue.advice.to_owned(), command))
            });
            if let Some((gain, issue, advice, command)) = worst {
                let whose = (job.entry.user.for_terminal(), job.entry.program().shortened(80).for_terminal());
                found.entry(whose).or_default().push((job, gain, issue, advice, command));
            }
        }
        for ((user, program), mut of) in found {
            if of.len() < policy.runs {
                continue;
            }
            of.sort_by(|a, b| b.1.total_cmp(&a.1));
            let (_, gain, issue, advice, command) = of[0].clone();
            let ids: Vec<String> = of.iter().map(|(job, ..)| job.entry.job.for_terminal()).collect();
            let mut named = ids.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
            if ids.len() > MOST_NAMED {
                named += &format!(" and {} more", ids.len() - MOST_NAMED);
            }
            let words: BTreeMap<&str, String> = [
                ("user", user.clone()),
                ("program", program.clone()),
                ("n", text::counted(of.len() as u64, "run")),
                ("jobs", named),
                ("gain", text::percent(gain)),
                ("issue", issue),
                ("advice", advice),
                ("command", command),
            ]
            .into();
            letters.push(Letter {
                policy: policy.name.clone(),
                again_s: policy.again_s,
                subject: filled(&policy.subject, &words),
                text: filled(&policy.text, &words),
                state: "not_sent",
                jobs: ids,
                user,
                program,
                gain,
            });
        }
    }
    letters
}

/// Letters that were sent: policy, user, program, and when.
type Sent = BTreeMap<(String, String, String), f64>;

/// Reads what was sent; lines that are none are passed over.
fn sent_in(said: &str) -> Sent {
    let mut sent = Sent::new();
    for line in said.lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        let of = |key: &str| line[key].as_str().map(str::to_owned);
        if let (Some(policy), Some(user), Some(program), Some(at_s)) =
            (of("policy"), of("user"), of("program"), line["at_unix_s"].as_f64())
        {
            let latest = sent.entry((policy, user, program)).or_insert(at_s);
            *latest = latest.max(at_s);
        }
    }
    sent
}

/// Hands a letter to the mail program.
fn send(program: &Path, letter: &Letter) -> anyhow::Result<()> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._@+-".contains(&byte);
    if letter.user.is_empty() || letter.user.starts_with('-') || !letter.user.bytes().all(is_name) {
        bail!("'{}' is no name of a user", letter.user);
    }
    let mut mail = Command::new(program)
        .args(["-s", &letter.subject, &letter.user])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if let Some(mut input) = mail.stdin.take() {
        // A program that does not read all of it says by its status whether it was sent.
        let _ = input.write_all(letter.text.as_bytes());
    }
    let status = mail.wait()?;
    if status.success() { Ok(()) } else { Err(anyhow!("{} ended with {status}", program.display())) }
}

pub(crate) fn run(ui: &mut Ui, args: &PolicyArgs) -> anyhow::Result<ExitStatus> {
    let path = &args.policies;
    let cannot = || format!("cannot read {}", path.display());
    if std::fs::metadata(path).with_context(cannot)?.len() > MOST_BYTES {
        bail!("{} is too large for a list of policies", path.display());
    }
    let said = std::fs::read_to_string(path).with_context(cannot)?;
    let policies = policies(&said)
        .map_err(|why| anyhow!("{}: {why}", path.display()))
        .hint("docs/epilog.md has an example")?;
    let since = format!("since={:.3}", (now_unix_s() - args.since).max(0.0));
    let JobList { jobs, .. } = list(&[since, "state=ended".to_owned()], MOST_JOBS)?;
    let mut documents = Vec::new();
    let mut seen = BTreeSet::new();
    for job in jobs.iter().filter(|job| seen.insert(job.job.clone())) {
        ui.progress(format_args!("asking the daemon for job {}", job.job.for_terminal()));
        let body = ask(&format!("/api/1/jobs/{}", in_query(job.job.as_said())))?;
        documents.push(JobDocument::from_json(&body).map_err(unreadable)?);
    }
    let mut letters = letters_about(&policies, &documents);
    let has_failed = deliver_letters(ui, args, &mut letters)?;
    let form = args.output.form();
    let told = if form == Form::Json { as_json(&letters) } else { as_text(&letters, args.send.is_some()) };
    deliver(ui, &args.output, &told, &told)?;
    Ok(match letters.is_empty() {
        true => ExitStatus::NothingFound,
        false if has_failed => ExitStatus::Failed,
        false => ExitStatus::Done,
    })
}

/// Sends what was not sent lately, if that is asked for; returns whether something could not be sent.
fn deliver_letters(ui: &mut Ui, args: &PolicyArgs, letters: &mut [Letter]) -> anyhow::Result<bool> {
    let Some(path) = &args.sent else { return Ok(false) };
    let known = match std::fs::read_to_string(path) {
        Ok(said) => sent_in(&said),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Sent::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let now_s = now_unix_s();
    let mut has_failed = false;
    for letter in letters {
        let key = (letter.policy.clone(), letter.user.clone(), letter.program.clone());
        if known.get(&key).is_some_and(|at_s| now_s - at_s < letter.again_s) {
            letter.state = "sent_before";
            continue;
        }
        let Some(program) = &args.send else { continue };
        // It is noted before: a letter too few is better than one each night.
        let line = json!({"policy": letter.policy, "user": letter.user, "program": letter.program, "at_unix_s": now_s});
        let mut notes = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let noted =
            notes.as_mut().map_err(|error| anyhow!("{error}")).and_then(|file| Ok(writeln!(file, "{line}")?));
        noted.with_context(|| format!("cannot write {}", path.display()))?;
        match send(program, letter) {
            Ok(()) => letter.state = "sent",
            Err(why) => {
                ui.status(format_args!("the letter to {} was not sent: {why:#}", letter.user));
                (letter.state, has_failed) = ("failed", true);
            }
        }
    }
    Ok(has_failed)
}

fn as_json(letters: &[Letter]) -> String {
    let letters: Vec<Value> = letters
        .iter()
        .map(|letter| {
            let Letter { policy, user, program, jobs, gain, subject, text, state, .. } = letter;
            json!({"policy": policy, "user": user, "program": program, "jobs": jobs, "gain": gain,
                   "subject": subject, "text": text, "state": state})
        })
        .collect();
    text::json_document(&json!({"schema": "iotide/1", "command": "policy", "letters": letters}))
}

fn as_text(letters: &[Letter], sends: bool) -> String {
    if letters.is_empty() {
        return "no job is one that its owner should hear of\n".to_owned();
    }
    let mut out = String::new();
    for Letter { policy, user, subject, text, state, .. } in letters {
        let state = match *state {
            "sent" => "sent",
            "sent_before" => "sent before, not again yet",
            "failed" => "not sent",
            _ => "not sent: a dry run",
        };
        out += &format!("To: {user}  ({policy}; {state})\nSubject: {subject}\n\n{}\n\n", text.trim_end());
    }
    let n = text::counted(letters.len() as u64, "letter");
    out + &if sends { format!("{n}\n") } else { format!("{n}; --send PROGRAM --sent FILE sends them\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "[[policy]]\nname = \"small\"\nissue = \"small_writes\"\ngain = 0.05\nruns = 2\nagain = \"7d\"\n\
        subject = \"{n} of {program}\"\ntext = \"Dear {user}, {jobs}: {issue}. {advice} {command}{ {gain}\"\n";

    /// A job of four processes that ran for ten minutes and wrote 400 MB in so many calls.
    fn job(id: &str, user: &str, calls: u64) -> JobDocument {
        let cell = json!({"op": "write", "layer": "posix", "fs": "/scratch", "calls": calls, "bytes": 400_000_000,
                          "seconds": calls as f64 * 225e-6});
        let job = json!({
            "job": id, "user": user, "app": "a", "name": "lmp", "program": "{advice}", "size": 4, "nodes": [], "state": "ended",
            "trust": "cgroup", "start_unix_s": 1.7e9, "end_unix_s": 1.7e9 + 600.0, "losses": [], "uid": 7, "command": "",
            "run_dir": "", "partition": "", "cluster": "", "n_running": 0, "run_time_s": 600.0, "own": [], "earlier": [],
            "io": {"bytes_read": 0, "bytes_written": 400_000_000, "calls_read": 0, "calls_written": calls,
                   "seconds_read": 0.0, "seconds_written": 900.0, "seconds_other": 0.0, "by": [cell]},
            "mpi": {"seconds": 0.0, "by_function": []},
            "time": {"threads_s": 2400.0, "io_s": 900.0, "mpi_s": 0.0, "compute_s": 1500.0},
        });
        JobDocument::from_json(job.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn an_owner_hears_once_of_all_runs_that_have_the_issue() {
        let policies = policies(SMALL).unwrap();
        let jobs = [
            job("1", "ada", 4_000_000),
            job("2", "ada", 4_000_000),
            job("3", "ada", 100),
            job("4", "bob", 4_000_000),
        ];
        let letters = letters_about(&policies, &jobs);
        assert_eq!(letters.len(), 1, "one run of bob's is too few: {letters:?}");
        let letter = &letters[0];
        assert_eq!((letter.user.as_str(), &letter.jobs), ("ada", &vec!["1".to_owned(), "2".to_owned()]));
        assert!(letter.gain >= 0.05 && letter.state == "not_sent");
        // What comes from jobs is no template.
        assert_eq!(letter.subject, "2 runs of {advice}");
        assert!(
            letter.text.starts_with("Dear ada, 1, 2: ")
                && letter.text.ends_with(&format!("{{ {}", text::percent(letter.gain)))
        );
        assert!(letters_about(&policies, &jobs[2..]).is_empty());
    }

    #[test]
    fn a_mistake_in_a_policy_is_named() {
        for (said, why) in [
            ("", "no [[policy]]"),
            ("policies = 1", "there is no 'policies'"),
            ("[[policy]]\nname = \"a\"", "'subject' is missing"),
            (&SMALL.replace("small_writes", "slow"), "there is no issue 'slow'"),
            (&SMALL.replace("gain = 0.05", "gain = 5"), "'gain' is not a share"),
            (&SMALL.replace("runs = 2", "runs = 0"), "'runs' is not a number"),
            (&SMALL.replace("{jobs}", "{mail}"), "there is no {mail}"),
            (&SMALL.replace("again", "often"), "there is no 'often'"),
            (&SMALL.repeat(2), "'small' is there twice"),
        ] {
            let fault = policies(said).unwrap_err();
            assert!(fault.contains(why), "{said}: {fault}");
        }
    }

    #[test]
    fn what_was_sent_is_read_and_what_is_no_line_is_passed_over() {
        let line = |at_s: f64| {
            json!({"policy": "a", "user": "ada", "program": "lmp", "at_unix_s": at_s}).to_string()
        };
        let sent = sent_in(&format!("{}\n{{\"policy\": 3}}\ncut\n{}\n", line(20.0), line(10.0)));
        let key = ("a".to_owned(), "ada".to_owned(), "lmp".to_owned());
        assert_eq!(sent, Sent::from([(key, 20.0)]));
    }

    #[test]
    fn a_name_that_would_be_an_option_gets_no_letter() {
        let letters = letters_about(
            &policies(SMALL).unwrap(),
            &[job("1", "--all", 4_000_000), job("2", "--all", 4_000_000)],
        );
        assert!(send(Path::new("true"), &letters[0]).unwrap_err().to_string().contains("no name of a user"));
    }
}
