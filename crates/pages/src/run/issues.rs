//! The issues of a run as cards: the gain as a bar of the run's time, the evidence, the line to type.

use std::fmt::Write;

use iotide_analysis::IssuesVerdict;
use iotide_look::html::{Section, capitalised, escape};
use iotide_look::text;
use iotide_report::words::not_judged_in_words;
use iotide_report::{Issue, Run, RunIssues};

/// The issues; `None` if nobody looked for any.
pub(crate) fn issues(run: &Run) -> Option<Section> {
    let found = run.issues.as_ref()?;
    let mut body = format!("<p>{}.</p>\n", escape(&capitalised(&found.issues_reason)));
    body.push_str(&cards(found));
    if !found.issues_not_judged.is_empty() {
        let told = capitalised(&not_judged_in_words(&found.issues_not_judged));
        let _ = writeln!(
            body,
            "<details class=\"note\"><summary>{} not judged: the source lacks the data</summary><p>{}.</p></details>",
            text::counted(found.issues_not_judged.len() as u64, "check"),
            escape(&told)
        );
    }
    let n = found.blocks().count();
    let title = if n == 0 || !is_worth_a_change(found) {
        "I/O issues".to_owned()
    } else {
        format!("I/O issues ({n})")
    };
    Some(Section { id: "issues", title, body, narrow: false })
}

fn is_worth_a_change(found: &RunIssues) -> bool {
    found.issues_verdict == IssuesVerdict::Found.name()
}

/// A card for each block of issues on the same calls; folded where none of them is worth a change.
pub(crate) fn cards(found: &RunIssues) -> String {
    let blocks: Vec<_> = found.blocks().collect();
    if blocks.is_empty() {
        return String::new();
    }
    let mut html = String::from("<div class=\"findings\">\n");
    for (head, same) in &blocks {
        write_card(&mut html, head, same);
    }
    html += "</div>\n";
    match is_worth_a_change(found) {
        true => html,
        false => format!(
            "<details><summary>{} that would save next to nothing</summary>\n{html}</details>\n",
            text::counted(blocks.len() as u64, "remark")
        ),
    }
}

/// The gain as a bar of the run's time: solid up to the likely share, pale up to the optimistic one.
pub(crate) fn gain_bar(issue: &Issue) -> String {
    let Some(gain) = issue.gain else { return String::new() };
    let percent = |share: f64| (100.0 * share).clamp(0.0, 100.0);
    let (likely, most) = (percent(gain.of_run), percent(gain.interval[1]));
    format!(
        "<svg class=\"gain\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">\
         <rect class=\"run\" width=\"100\" height=\"6\"/><rect class=\"most\" width=\"{most:.1}\" height=\"6\"/>\
         <rect class=\"likely\" width=\"{likely:.1}\" height=\"6\"/></svg>",
        escape(&interval_in_words(issue).unwrap_or_default())
    )
}

fn interval_in_words(issue: &Issue) -> Option<String> {
    let gain = issue.gain?;
    let [low, high] = gain.interval;
    Some(format!(
        "{} of the run, between {} and {}",
        text::percent(gain.of_run),
        text::percent(low),
        text::percent(high)
    ))
}

fn write_card(html: &mut String, issue: &Issue, same: &[&Issue]) {
    let severity = issue.severity;
    let _ = writeln!(
        html,
        "<article class=\"finding {severity}\">\n<h3><span class=\"badge {severity}\">{severity}</span> {}</h3>\n{}\n<dl>",
        escape(&capitalised(&text::whole_numbers(&issue.text))),
        gain_bar(issue)
    );
    let mut row = |name: &str, value: String| {
        let _ = writeln!(html, "<dt>{name}</dt><dd>{value}</dd>");
    };
    if let Some(interval) = interval_in_words(issue) {
        row("Gain", escape(&interval));
    }
    row("Evidence", escape(&text::whole_numbers(&issue.evidence_in_words())));
    if !issue.files.is_empty() {
        let files: Vec<String> = issue.files.iter().map(|file| file.shortened(200).for_terminal()).collect();
        row(if files.len() == 1 { "File" } else { "Files" }, escape(&files.join(", ")));
    }
    if !issue.ranks.is_empty() {
        let ranks: Vec<String> = issue.ranks.iter().map(i32::to_string).collect();
        row(if ranks.len() == 1 { "Rank" } else { "Ranks" }, escape(&ranks.join(", ")));
    }
    row("What to do", format!("{}.", escape(&capitalised(issue.advice))));
    if let Some(command) = &issue.command {
        row("Line to type", format!("<code>{}</code>", escape(&command.for_terminal())));
    }
    if !same.is_empty() {
        let lines: Vec<String> =
            same.iter().map(|issue| escape(&format!("{} ({})", issue.text, issue.id))).collect();
        row("Same calls", lines.join("<br>"));
    }
    html.push_str("</dl>\n</article>\n");
}
