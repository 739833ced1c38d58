//! The findings of a run as cards: how grave, what it costs, where, what to do.

use std::fmt::Write;

use iotide_page::html::{Section, capitalised, escape};
use iotide_page::text;

use crate::Run;
use crate::insight::{Insight, not_known_in_words};

/// The findings; `None` if nobody looked for any.
pub(crate) fn findings(run: &Run) -> Option<Section> {
    let found = run.insights.as_ref()?;
    let mut body = String::new();
    if !found.is_empty() {
        body += "<div class=\"findings\">\n";
        for finding in found {
            write_card(&mut body, finding, run);
        }
        body += "</div>\n";
    }
    let not_known = run.insights_not_known.as_deref().unwrap_or_default();
    if found.is_empty() && not_known.is_empty() {
        body.push_str("<p class=\"note\">No rule found anything.</p>\n");
    } else if found.is_empty() {
        body.push_str("<p>No rule that could be checked found anything.</p>\n");
    }
    if !not_known.is_empty() {
        let told = capitalised(&not_known_in_words(not_known));
        let _ = writeln!(
            body,
            "<details class=\"note\"><summary>{} not checked: the source lacks the data</summary><p>{}.</p></details>",
            text::counted(not_known.len() as u64, "rule"),
            escape(&told)
        );
    }
    let title = match found.len() {
        0 => "Findings".to_owned(),
        n => format!("Findings ({n})"),
    };
    Some(Section { id: "insights", title, body, narrow: false })
}

fn write_card(html: &mut String, finding: &Insight, run: &Run) {
    let severity = finding.severity;
    let _ = writeln!(
        html,
        "<article class=\"finding {severity}\">\n<h3><span class=\"badge {severity}\">{severity}</span> {}</h3>",
        escape(&capitalised(&finding.message.for_terminal()))
    );
    html.push_str("<dl>\n");
    let mut row = |name: &str, value: String| {
        let _ = writeln!(html, "<dt>{name}</dt><dd>{}</dd>", escape(&text::whole_numbers(&value)));
    };
    if let Some(cost) = cost_in_words(finding, run) {
        row("What it costs", cost);
    }
    if !finding.files.is_empty() {
        let files: Vec<String> =
            finding.files.iter().map(|file| file.shortened(200).for_terminal()).collect();
        row(if files.len() == 1 { "File" } else { "Files" }, files.join(", "));
    }
    if !finding.ranks.is_empty() {
        let ranks: Vec<String> = finding.ranks.iter().map(i32::to_string).collect();
        row(if ranks.len() == 1 { "Rank" } else { "Ranks" }, ranks.join(", "));
    }
    row("What to do", format!("{}.", capitalised(finding.advice)));
    row("Evidence", finding.evidence_in_words());
    html.push_str("</dl>\n</article>\n");
}

/// Bytes and time that depend on it, beside those of the run.
fn cost_in_words(finding: &Insight, run: &Run) -> Option<String> {
    let bytes = finding.evidence.get("bytes_at_stake").copied();
    let seconds = finding.evidence.get("seconds_at_stake").copied();
    let all_bytes = run.source.bytes_read + run.source.bytes_written;
    let share = |part: f64, whole: f64| {
        if whole > 0.0 && part <= whole * 1.001 {
            format!(" ({})", text::percent(part / whole))
        } else {
            String::new()
        }
    };
    let moved = bytes.map(|bytes| format!("{}{} of data", text::bytes(bytes), share(bytes, all_bytes)));
    let took = seconds.map(|seconds| {
        let whole =
            run.activity.as_ref().map_or(0.0, |activity| activity.n_ranks as f64 * activity.run_time_s);
        let of = if whole > 0.0 {
            share(seconds, whole).replace(')', " of the rank time)")
        } else {
            String::new()
        };
        format!("{} of I/O time summed over ranks{of}", text::seconds(seconds))
    });
    let parts: Vec<String> = moved.into_iter().chain(took).collect();
    (!parts.is_empty()).then(|| format!("It affects {}.", parts.join(" and ")))
}
