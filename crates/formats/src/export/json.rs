//! The little of JSON that writing rows takes.

use std::fmt;

use iotide_trace::{JobInfo, Loss};

use crate::events::Seconds;

/// A text in quotes.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        let mut plain_from = 0;
        for (at, c) in self.0.char_indices() {
            let escape = match c {
                '"' => "\\\"",
                '\\' => "\\\\",
                '\n' => "\\n",
                '\r' => "\\r",
                '\t' => "\\t",
                // All of them lie in the first plane.
                c if iotide_wire::steers(c) => "",
                _ => continue,
            };
            f.write_str(&self.0[plain_from..at])?;
            match escape {
                "" => write!(f, "\\u{:04x}", u32::from(c))?,
                escape => f.write_str(escape)?,
            }
            plain_from = at + c.len_utf8();
        }
        f.write_str(&self.0[plain_from..])?;
        f.write_str("\"")
    }
}

/// A number, or `null` for what JSON has no number for.
pub(super) struct Number(pub(super) f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_finite() { write!(f, "{}", self.0) } else { f.write_str("null") }
    }
}

/// Returns the known facts about a job, as members of an object under the names that tables have for them.
pub(super) fn job_members(job: &JobInfo) -> Vec<String> {
    let text =
        |name: &str, fact: &Option<String>| fact.as_ref().map(|fact| format!("\"{name}\":{}", Quoted(fact)));
    let number = |name: &str, fact: Option<f64>| fact.map(|fact| format!("\"{name}\":{}", Number(fact)));
    [
        number("runtime_s", job.run_time_s),
        job.n_procs.map(|n_procs| format!("\"nprocs\":{n_procs}")),
        job.has_ranks.map(|has_ranks| format!("\"has_ranks\":{}", u8::from(has_ranks))),
        job.n_told.map(|n_told| format!("\"nprocs_told\":{n_told}")),
        text("user", &job.user),
        text("exe", &job.exe),
        text("jobid", &job.job_id),
        number("start_time", job.start_time_unix_s),
        job.n_nodes.map(|n_nodes| format!("\"nodes\":{n_nodes}")),
        text("mounts", &crate::rows::mounts_of(job)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A loss as an object.
pub(super) fn loss_object(Loss { what, records, since, cut }: &Loss) -> String {
    let records = match records {
        Some(records) => format!(",\"records\":{records}"),
        None if *cut => ",\"records\":\"cut\"".to_owned(),
        None => String::new(),
    };
    let since = since.map(|since| format!(",\"since\":{}", Seconds(since))).unwrap_or_default();
    format!("{{\"loss\":{}{records}{since}}}", Quoted(what))
}
