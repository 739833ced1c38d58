//! Parts of a machine that work or are missing, in words and for scripts.

use std::fmt::Write;

use iotide_look::{Ink, Untrusted, text};
use serde::Serialize;

use crate::Document;

/// The answer of `iotide doctor`.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorReport {
    schema: &'static str,
    command: &'static str,
    /// Checked parts, in the order of the chain from a program to a page.
    pub checks: Vec<CheckEntry>,
    /// Whether the tracer does harm to a program, if one was named.
    pub program: Option<HarmEntry>,
}

/// One part of the machine.
#[derive(Clone, Debug, Serialize)]
pub struct CheckEntry {
    /// Its name, for scripts.
    pub id: &'static str,
    /// Whether it works.
    pub state: CheckState,
    /// Findings.
    pub text: Untrusted,
    /// Advice on it.
    pub mend: Option<Untrusted>,
}

/// Whether a part works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// It works.
    Works,
    /// It is not there, and only some uses need it.
    Absent,
    /// It does not work.
    Broken,
}

/// A program without the tracer and with it.
#[derive(Clone, Debug, Serialize)]
pub struct HarmEntry {
    /// The program and its arguments.
    pub program: Untrusted,
    /// How often it ran in each way.
    pub n_runs: usize,
    /// Whether it ended in the same way; `null` if it does not do so by itself.
    pub same_status: Option<bool>,
    /// Whether it printed the same; `null` if it does not do so by itself.
    pub same_output: Option<bool>,
    /// The median time without the tracer.
    pub without_s: f64,
    /// The median time with it.
    pub with_s: f64,
    /// The shortest and the longest time without it: what lies within is noise.
    pub without_range_s: [f64; 2],
    /// The most memory of one process, without the tracer; `null` if it is too little to be seen.
    pub without_memory_bytes: Option<u64>,
    /// The most memory of one process, with it.
    pub with_memory_bytes: Option<u64>,
    /// Calls that the tracer recorded in a run.
    pub n_events: u64,
    /// Whether the program keeps out of the tracer's sight: nothing was recorded.
    pub is_unseen: bool,
}

impl DoctorReport {
    /// Returns a report on parts and a program.
    pub fn new(checks: Vec<CheckEntry>, program: Option<HarmEntry>) -> Self {
        Self { schema: crate::SCHEMA, command: "doctor", checks, program }
    }

    /// Whether all that was tried works, and the tracer does no harm.
    pub fn is_well(&self) -> bool {
        self.checks.iter().all(|check| check.state != CheckState::Broken)
            && self.program.as_ref().is_none_or(|program| !program.is_harmed() && !program.is_unseen)
    }
}

impl HarmEntry {
    /// Whether the program does something else under the tracer.
    pub fn is_harmed(&self) -> bool {
        self.same_status == Some(false) || self.same_output == Some(false)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let [least_s, most_s] = self.without_range_s;
        let same = |same: Option<bool>| match same {
            Some(true) => "the same with the tracer",
            Some(false) => "another with the tracer",
            None => "differs from run to run by itself: nothing can be told",
        };
        let added_s = self.with_s - self.without_s;
        let change = match added_s {
            added_s if added_s.abs() <= most_s - least_s => "within the noise".to_owned(),
            added_s if added_s > 0.0 => format!("{} more", text::seconds(added_s)),
            added_s => format!("{} less", text::seconds(-added_s)),
        };
        let seen = match self.n_events {
            0 => "nothing: a statically linked program, Go, or no I/O at all".to_owned(),
            n => text::counted(n, "call"),
        };
        vec![
            ("exit status", same(self.same_status).to_owned()),
            ("output", same(self.same_output).to_owned()),
            (
                "time",
                format!(
                    "{} without, {} with ({change}; {} to {} without)",
                    text::seconds(self.without_s),
                    text::seconds(self.with_s),
                    text::seconds(least_s),
                    text::seconds(most_s)
                ),
            ),
            (
                "memory",
                match (self.without_memory_bytes, self.with_memory_bytes) {
                    (Some(without), Some(with)) => {
                        format!("{} without, {} with", text::bytes(without as f64), text::bytes(with as f64))
                    }
                    _ => "too little to be seen".to_owned(),
                },
            ),
            ("recorded", seen),
        ]
    }
}

impl Document for DoctorReport {
    fn to_text(&self, width: usize, ink: Ink) -> String {
        let mut out = String::new();
        for check in &self.checks {
            let state = match check.state {
                CheckState::Works => "works",
                CheckState::Absent => "absent",
                CheckState::Broken => "BROKEN",
            };
            let name = format!("  {state:<7} {:<10} ", check.id);
            let indent = " ".repeat(name.len());
            let room = width.saturating_sub(indent.len()).max(30);
            let mut lines = text::wrap(&check.text.for_terminal(), room);
            lines.extend(
                check.mend.iter().flat_map(|mend| text::wrap(&format!("→ {}", mend.for_terminal()), room)),
            );
            for (i, line) in lines.iter().enumerate() {
                let _ = writeln!(out, "{}{line}", if i == 0 { ink.faint(&name) } else { indent.clone() });
            }
        }
        if let Some(program) = &self.program {
            let head = match (program.is_harmed(), program.is_unseen) {
                (true, _) => "The tracer changes what the program does",
                (false, true) => "The tracer does no harm, and sees nothing of the program",
                (false, false) => "The tracer does no harm",
            };
            let runs = text::counted(program.n_runs as u64, "run");
            let head =
                format!("{head}: {}, {runs} without it and as many with it", program.program.for_terminal());
            let _ = writeln!(out, "\n{}", ink.bold(&text::wrap(&head, width).join("\n")));
            let mut rows = text::Rows::default();
            for (name, value) in program.facts() {
                rows.row(name, value);
            }
            out.push_str(&rows.render(width, |name| ink.faint(name)));
        }
        let n_broken = self.checks.iter().filter(|check| check.state == CheckState::Broken).count();
        let verdict = match n_broken {
            0 => "nothing is broken; what is absent is needed by some commands only".to_owned(),
            n => format!("{} broken", text::counted(n as u64, "part")),
        };
        let _ = writeln!(out, "\n{verdict}");
        out
    }

    fn to_json(&self) -> String {
        text::json_document(self)
    }
}
