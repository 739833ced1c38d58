//! The tools: questions of the command line, with the options that only read.
//!
//! An argument of a tool is an option of its command. So its name, its type, its values and its default are listed, checked and refused as there.

use std::any::TypeId;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::{Arg, ArgAction, Command};
use iotide_archive::RUNS;
use iotide_report::text::printable;
use serde_json::{Map, Value, json};

use super::fence::Fence;

/// A question that assistants may ask.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// Questions that it answers, for the model that chooses among tools.
    about: &'static str,
    /// Command that answers, with what it is always given.
    command: &'static [&'static str],
    /// The command's argument without a name, and the names that it has here.
    subject: Option<Subject>,
    /// Options of the command that may be given.
    options: &'static [&'static str],
}

/// The argument that a question is about.
#[derive(Debug)]
struct Subject {
    /// Its name in the definition of the command.
    id: &'static str,
    /// Name of the argument for one.
    one: Option<&'static str>,
    /// Name of the argument for several.
    several: Option<&'static str>,
    /// Whether the question makes no sense without it.
    is_required: bool,
    /// Values that are no paths.
    words: &'static [&'static str],
}

const RUN: Subject =
    Subject { id: "traces", one: Some("path"), several: Some("paths"), is_required: true, words: &[] };

/// All tools, in the order in which they are listed.
pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "detect",
        about: "Is the I/O of a run periodic? Returns the verdict, the period with its calibrated confidence, when the next burst is due, how regular \
                the bursts are, and what the trace lost. Reads Darshan logs, Recorder, DFTracer, strace, CSV and other traces; the format is found from the content.",
        command: &["detect"],
        subject: Some(RUN),
        options: &[
            "input-format",
            "one-run",
            "source",
            "layers",
            "metric",
            "method",
            "mode",
            "window",
            "skip-first-phase",
            "freq",
            "sampling",
            "top",
            "substantial",
            "tolerance",
            "outliers",
            "harmonics",
        ],
    },
    Tool {
        name: "issues",
        about: "Which I/O issues cost a run most? Returns each issue with its evidence, the share of the run that a fix would save (with an interval), \
                the advice and a line to type; and the checks that this trace cannot answer.",
        command: &["detect", "--issues"],
        subject: Some(RUN),
        options: &["input-format", "one-run", "source", "layers", "mode", "window"],
    },
    Tool {
        name: "categorize",
        about: "What kind of I/O does a run do? Returns labels (when it reads and writes, whether periodically, its metadata load), each with \
                confidence and evidence. Of a folder or of several runs: statistics over all of them.",
        command: &["categorize"],
        subject: Some(RUN),
        options: &["method", "issues", "input-format", "one-run", "source", "layers"],
    },
    Tool {
        name: "info",
        about: "What does a trace hold, and what did it lose? Returns the job, ranks, operations, bytes and files; of a Darshan log its modules with \
                their counters summed up, DXT and heatmap.",
        command: &["info"],
        subject: Some(RUN),
        options: &["input-format", "one-run", "source", "layers"],
    },
    Tool {
        name: "compare",
        about: "What differs between runs, and by how much? The first run is what the others are compared with: bytes, times, operations, request sizes, \
                periods, issues, labels and files. With `with`, `paths` are one side and `with` the other; a difference counts if it is larger than the noise.",
        command: &["compare"],
        subject: Some(Subject { several: Some("paths"), one: None, ..RUN }),
        options: &["with", "by", "worse-than", "watch", "input-format", "source", "layers", "mode", "window"],
    },
    Tool {
        name: "model",
        about: "How does each metric scale with the number of processes or other parameters? Returns functions such as 1.5 + 0.2 * p^(1/2), how well they fit, \
                and predictions with intervals at the points of `at`. Reads Extra-P files, JSON Lines, CSV, folders of .cubex, or with `from_traces` traces at several sizes.",
        command: &["model"],
        subject: Some(Subject { id: "inputs", is_required: false, ..RUN }),
        options: &[
            "at",
            "from-traces",
            "parameters",
            "by",
            "input-format",
            "scaling",
            "confidence",
            "rank-by",
            "callpath",
            "metric",
            "advise",
            "method",
            "measure",
            "modeler",
            "job",
            "app",
            "build",
            "last",
            "since",
        ],
    },
    Tool {
        name: "why",
        about: "Why was a run's I/O slow: its own requests, the load of others, or the storage? Compares the run with earlier runs of the same program \
                (`history`) and with logs of the storage servers (`storage`). Returns a verdict with evidence, or says what is excluded and what would tell the rest.",
        command: &["why"],
        subject: Some(Subject { id: "run", several: None, ..RUN }),
        options: &["history", "storage", "jobs", "input-format", "source", "layers"],
    },
    Tool {
        name: "simulate_io",
        about: "What would policies of sharing storage (none, fair-share, exclusive, Set-10) do to periodic jobs? Returns stretch, I/O slowdown and \
                utilisation of each. `path` is a workload in JSON, `rr9537` (the published experiment) or `mix`; or `from_traces` makes one job of each trace.",
        command: &["simulate", "io"],
        subject: Some(Subject {
            id: "workload",
            one: Some("path"),
            several: None,
            is_required: false,
            words: &["rr9537", "report", "mix"],
        }),
        options: &[
            "from-traces",
            "copies",
            "bandwidth",
            "frame",
            "jobs",
            "around",
            "load",
            "iterations",
            "policies",
            "model",
            "rules",
            "repetitions",
            "seed",
            "order",
            "unknown",
            "sigma",
            "leak",
            "credit",
            "strict",
            "timeout",
            "servers",
            "stripes",
            "workers",
            "processes",
            "request-size",
            "latency",
            "jitter",
            "warm-up",
            "error",
            "one-error",
        ],
    },
    #[cfg(feature = "system")]
    Tool {
        name: "jobs",
        about: "Which jobs has the daemon of this machine (`iotide serve`) seen? Returns id, program, user, state, size and bandwidth of each.",
        command: &["jobs"],
        subject: None,
        options: &["user", "app", "since", "state", "search", "sort", "limit"],
    },
    #[cfg(feature = "system")]
    Tool {
        name: "job",
        about: "What has a job that the daemon saw done? Returns bytes, calls and time of its I/O by operation and file system, its time in MPI, \
                its period, earlier runs of the same program, and what is missing.",
        command: &["job"],
        subject: Some(Subject { id: "id", one: Some("id"), several: None, is_required: true, words: &[] }),
        options: &[],
    },
];

impl Tool {
    /// Returns the tool of a name.
    pub(super) fn of_name(name: &str) -> Option<&'static Self> {
        TOOLS.iter().find(|tool| tool.name == name)
    }

    /// Returns its entry in the list of tools.
    pub(super) fn entry(&self) -> Value {
        let command = self.definition();
        let mut properties = Map::new();
        let mut required = Vec::new();
        if let Some(subject) = &self.subject {
            let help = argument(&command, subject.id).map(help_of).unwrap_or_default();
            if let Some(name) = subject.one {
                properties.insert(name.to_owned(), json!({ "type": "string", "description": help }));
            }
            if let Some(name) = subject.several {
                let about = match subject.one {
                    Some(one) => format!("Several of them, instead of `{one}`"),
                    None => help,
                };
                let schema = json!({ "type": "array", "items": { "type": "string" }, "minItems": 1, "description": about });
                properties.insert(name.to_owned(), schema);
            }
            if let (true, [Some(only), None] | [None, Some(only)]) =
                (subject.is_required, [subject.one, subject.several])
            {
                required.push(only);
            }
        }
        for arg in self.options.iter().filter_map(|name| argument(&command, name)) {
            properties.insert(name_of(arg), schema_of(arg));
        }
        json!({
            "name": self.name,
            "description": self.about,
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
            "annotations": {
                "readOnlyHint": true,
                "destructiveHint": false,
                "idempotentHint": true,
                "openWorldHint": false,
            },
        })
    }

    /// Returns the command line that a call means. Every path in it may be read.
    pub(super) fn command_line(
        &self,
        arguments: &Map<String, Value>,
        fence: &Fence,
    ) -> anyhow::Result<Vec<OsString>> {
        let command = self.definition();
        let mut line: Vec<OsString> = ["iotide"].iter().chain(self.command).map(OsString::from).collect();
        let mut about = Vec::new();
        for (name, value) in arguments {
            if let Some(subject) = self.subject.as_ref().filter(|subject| subject.is_called(name)) {
                if !about.is_empty() {
                    bail!(
                        "give {} or {}, not both",
                        subject.one.unwrap_or(""),
                        subject.several.unwrap_or("")
                    );
                }
                let is_path = argument(&command, subject.id).is_some_and(|arg| subject.takes_paths(arg));
                for text in texts(name, value)? {
                    about.push(match is_path && !subject.words.contains(&text.as_str()) {
                        true => fence.admit(&text)?.into_os_string(),
                        false => text.into(),
                    });
                }
                continue;
            }
            let option = name.replace('_', "-");
            let known =
                self.options.contains(&option.as_str()).then(|| argument(&command, &option)).flatten();
            let Some(arg) = known else {
                bail!("{} has no argument {}; it has {}", self.name, printable(name), self.argument_names());
            };
            if !arg.get_action().takes_values() {
                match value {
                    Value::Bool(true) => line.push(format!("--{option}").into()),
                    Value::Bool(false) | Value::Null => {}
                    _ => bail!("{name} must be true or false"),
                }
                continue;
            }
            for text in texts(name, value)? {
                let mut part = OsString::from(format!("--{option}="));
                part.push(match is_path(arg) {
                    true => admitted(fence, &text)?.into_os_string(),
                    false => text.into(),
                });
                line.push(part);
            }
        }
        if let Some(subject) = self.subject.as_ref().filter(|subject| subject.is_required && about.is_empty())
        {
            bail!("{} is missing", subject.one.or(subject.several).unwrap_or("a path"));
        }
        line.extend(["--format".into(), "json".into(), "--".into()]);
        line.extend(about);
        Ok(line)
    }

    fn definition(&self) -> Command {
        let names = self.command.iter().filter(|word| !word.starts_with('-'));
        names.fold(crate::command_line(), |command, name| {
            command.find_subcommand(name).cloned().unwrap_or_default()
        })
    }

    fn argument_names(&self) -> String {
        let subject = self.subject.iter().flat_map(|subject| [subject.one, subject.several]).flatten();
        let names: Vec<String> = subject
            .map(str::to_owned)
            .chain(self.options.iter().map(|name| name.replace('-', "_")))
            .collect();
        names.join(", ")
    }
}

impl Subject {
    fn is_called(&self, name: &str) -> bool {
        self.one == Some(name) || self.several == Some(name)
    }

    fn takes_paths(&self, arg: &Arg) -> bool {
        is_path(arg) || !self.words.is_empty()
    }
}

/// Admits a path of an option. Results of an archive name further files: each must be admitted, too.
fn admitted(fence: &Fence, text: &str) -> anyhow::Result<PathBuf> {
    let path = fence.admit(text)?;
    if path.join(RUNS).is_file() {
        for trace in crate::commands::why::traces_in_results(&path)? {
            let trace = trace.to_str().ok_or_else(|| anyhow!("{text} names a file that is not UTF-8"))?;
            fence.admit(trace)?;
        }
    }
    Ok(path)
}

fn argument<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| match arg.get_long() {
        Some(long) => long == name,
        None => arg.get_id() == name,
    })
}

fn name_of(arg: &Arg) -> String {
    arg.get_long().unwrap_or_default().replace('-', "_")
}

fn help_of(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

fn is_type(arg: &Arg, types: &[TypeId]) -> bool {
    types.iter().any(|of| arg.get_value_parser().type_id() == *of)
}

fn is_path(arg: &Arg) -> bool {
    is_type(arg, &[TypeId::of::<PathBuf>()])
}

/// Returns the schema of an option, from its definition.
fn schema_of(arg: &Arg) -> Value {
    if !arg.get_action().takes_values() {
        return json!({ "type": "boolean", "description": help_of(arg) });
    }
    let values: Vec<String> = (arg.get_possible_values().iter())
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    let numbers = [
        TypeId::of::<f64>(),
        TypeId::of::<u64>(),
        TypeId::of::<u32>(),
        TypeId::of::<usize>(),
        TypeId::of::<NonZeroUsize>(),
    ];
    let mut schema = match (values.is_empty(), is_type(arg, &numbers)) {
        (false, _) => json!({ "type": "string", "enum": values }),
        // Numbers may have units, such as 200MB or 7d.
        (true, true) => json!({ "type": ["number", "string"] }),
        (true, false) => json!({ "type": "string" }),
    };
    if matches!(arg.get_action(), ArgAction::Append) {
        schema = json!({ "type": "array", "items": schema });
    }
    schema["description"] = json!(help_of(arg));
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if let [only] = defaults.as_slice() {
        schema["default"] = only.parse::<f64>().map_or_else(|_| json!(only), |number| json!(number));
    }
    schema
}

/// Returns the values of an argument as the command line would have them.
fn texts(name: &str, value: &Value) -> anyhow::Result<Vec<String>> {
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(anyhow!("{} must be a text or a number, or a list of these", printable(name))),
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(values) => values.iter().map(text).collect(),
        one => Ok(vec![text(one)?]),
    }
}

#[cfg(test)]
mod tests {
    use iotide_testkit::FreshDir;

    use super::*;

    /// Options that write, run or wait: no tool may have them.
    const NEVER: &[&str] = &[
        "output",
        "format",
        "svg",
        "out",
        "store",
        "points",
        "print",
        "threads",
        "on-prediction",
        "follow",
        "listen",
        "pattern",
        "settings",
        "files",
        "merge",
        "shard",
        "sample",
    ];

    #[test]
    fn every_argument_is_an_option_that_only_reads() {
        for tool in TOOLS {
            let command = tool.definition();
            for name in tool.options.iter().chain(tool.subject.iter().map(|subject| &subject.id)) {
                assert!(argument(&command, name).is_some(), "{}: {name}", tool.name);
                assert!(!NEVER.contains(name), "{}: {name}", tool.name);
            }
            let entry = tool.entry();
            assert!(entry["inputSchema"]["properties"].is_object(), "{entry}");
        }
    }

    #[test]
    fn a_schema_says_what_the_command_line_takes() {
        let entry = Tool::of_name("detect").unwrap().entry();
        let of = |name: &str| entry["inputSchema"]["properties"][name].clone();
        assert_eq!(of("mode")["enum"], json!(["auto", "read", "write", "both"]));
        assert_eq!(of("mode")["default"], "auto");
        assert_eq!(of("skip_first_phase")["type"], "boolean");
        assert_eq!(of("top")["type"], json!(["number", "string"]));
        assert_eq!(of("outliers")["type"], "array");
        assert_eq!(of("path")["type"], "string");
        let entry = Tool::of_name("why").unwrap().entry();
        assert_eq!(entry["inputSchema"]["required"], json!(["path"]));
    }

    #[test]
    fn a_value_is_never_an_option() {
        let root = FreshDir::new("mcp-tools");
        root.write("run.csv", "x");
        let fence = Fence::new(&[root.join("")]).unwrap();
        let line = |name: &str, arguments: Value| {
            let Value::Object(arguments) = arguments else { panic!("not an object") };
            let line = Tool::of_name(name).unwrap().command_line(&arguments, &fence);
            line.map(|line| line.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>())
                .map_err(|error| format!("{error:#}"))
        };
        let run = root.join("run.csv").canonicalize().unwrap().display().to_string();
        assert_eq!(
            line(
                "detect",
                json!({"path": "run.csv", "window": "--output=x", "top": 3, "skip_first_phase": true})
            )
            .unwrap(),
            [
                "iotide",
                "detect",
                "--window=--output=x",
                "--top=3",
                "--skip-first-phase",
                "--format",
                "json",
                "--",
                &run
            ]
        );
        assert_eq!(
            line("simulate_io", json!({"path": "mix"})).unwrap(),
            ["iotide", "simulate", "io", "--format", "json", "--", "mix"]
        );
        let refused = |name: &str, arguments: Value| line(name, arguments).unwrap_err();
        assert!(refused("simulate_io", json!({"path": "/etc/passwd"})).contains("outside"));
        assert!(refused("simulate_io", json!({"from_traces": ["/etc/passwd"]})).contains("outside"));
        assert!(
            refused("detect", json!({"path": "run.csv", "output": "x"})).contains("has no argument output")
        );
        assert!(refused("detect", json!({"path": "run.csv", "paths": ["run.csv"]})).contains("not both"));
        assert!(refused("detect", json!({"path": {"a": 1}})).contains("must be a text"));
        assert!(refused("detect", json!({})).contains("path is missing"));
        #[cfg(feature = "system")]
        assert_eq!(
            line("job", json!({"id": "-q"})).unwrap(),
            ["iotide", "job", "--format", "json", "--", "-q"]
        );
    }

    #[test]
    fn results_of_an_archive_do_not_lead_outside() {
        let root = FreshDir::new("mcp-results");
        root.write("run.csv", "x");
        let line = r#"{"path": "/etc/passwd", "format": "csv"}"#;
        root.write(RUNS, line.to_owned() + "\n");
        let fence = Fence::new(&[root.join("")]).unwrap();
        let Value::Object(arguments) = json!({"path": "run.csv", "history": ["."]}) else {
            panic!("not an object")
        };
        assert!(Tool::of_name("why").unwrap().command_line(&arguments, &fence).is_err());
    }
}
