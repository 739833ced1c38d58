//! The job card as the head of a run's page.

use std::fmt::Write;

use iotide_analysis::Verdict;
use iotide_look::html::{capitalised, escape, tiles};
use iotide_look::{Untrusted, text};
use iotide_report::{Bandwidth, JobCard, RunIssues};

use super::issues;

/// The head of the run's page.
pub(super) fn to_html(card: &JobCard, path: &Untrusted, issues: Option<&RunIssues>) -> String {
    let name = card.program.as_ref().map_or_else(|| path.file_name(), Clone::clone);
    let mut html = format!("<p class=\"path\">{}</p>\n<h1>{}</h1>\n", path.for_html(), name.for_html());
    html += "<dl class=\"job\">\n";
    for (name, value) in circumstances(card) {
        let _ = writeln!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    }
    html += "</dl>\n";
    html += &command_html(card);
    let _ = writeln!(html, "<ul class=\"answers\">");
    let verdict = match card.verdict {
        Some(Verdict::Periodic) => "periodic",
        Some(Verdict::NotPeriodic) => "not periodic",
        Some(Verdict::Unclear) => "unclear",
        None => "not analysed",
    };
    let _ = writeln!(
        html,
        "<li><span class=\"badge\">{verdict}</span> {}.</li>",
        escape(&capitalised(card.rhythm.strip_prefix("unclear: ").unwrap_or(&card.rhythm)))
    );
    if let (Some(issue), Some(issues)) = (&card.top_issue, issues) {
        let badge = issues.top().map_or("low", |issue| issue.severity);
        let word = issues.top().map_or("I/O issues", |issue| issue.severity);
        let bar = issues.top().map_or(String::new(), issues::gain_bar);
        let _ = writeln!(
            html,
            "<li><span class=\"badge {badge}\">{word}</span> {}.{bar}</li>",
            escape(&capitalised(issue))
        );
    }
    html += "</ul>\n";
    html += &tiles(tile_rows(card));
    if let Some(how) = how_in_words(card) {
        let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(&how));
    }
    if !card.labels.is_empty() {
        let chips: String = card.labels.iter().map(|label| format!("<li>{}</li>", escape(label))).collect();
        let _ = writeln!(html, "<ul class=\"chips\" aria-label=\"labels\">{chips}</ul>");
    }
    html
}

/// Where, when and how large it was, as short facts.
fn circumstances(card: &JobCard) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    facts.extend(card.user.as_ref().map(|user| ("user", user.for_terminal())));
    facts.extend(card.job.as_ref().map(|job| ("job", job.for_terminal())));
    facts.extend(card.started_unix_s.map(|start| ("started", text::date(start))));
    // Where nobody says when it began, there is no end either.
    let ended = card.started_unix_s.zip(card.run_time_s).map(|(start, seconds)| start + seconds);
    facts.extend(ended.map(|end| ("ended", text::date(end))));
    let ranks = if card.noun == "process" { "processes" } else { "ranks" };
    facts.extend(card.ranks.map(|n| (ranks, text::count(n))));
    facts.extend(card.nodes.map(|n| ("nodes", text::count(n))));
    facts.extend(card.run_time_s.map(|seconds| ("run time", text::seconds(seconds))));
    facts
}

/// The command, folded if it is long.
fn command_html(card: &JobCard) -> String {
    const SHORT: usize = 90;
    let Some(command) = &card.command else { return String::new() };
    let shown = command.for_html();
    if command.for_terminal().chars().count() <= SHORT {
        return format!("<p class=\"command\"><code>{shown}</code></p>\n");
    }
    format!(
        "<details class=\"command\"><summary>Command: <code>{}</code></summary><code>{shown}</code></details>\n",
        command.shortened(SHORT).for_html()
    )
}

fn tile_rows(card: &JobCard) -> Vec<(&'static str, String)> {
    let mut tiles = Vec::new();
    let is_more = card.io_time_share.is_some_and(|share| share > 1.0);
    let of = match (card.noun == "process", is_more) {
        (true, true) => "of the processes' time in I/O (threads together)",
        (true, false) => "of the processes' time in I/O",
        (false, true) => "of rank time in I/O (threads together)",
        (false, false) => "of rank time in I/O",
    };
    tiles.push((of, card.io_time_share.map_or_else(|| "not known".to_owned(), text::percent)));
    tiles.push(("read", text::bytes(card.bytes_read)));
    tiles.push(("written", text::bytes(card.bytes_written)));
    // Totals of files do not say when bytes were moved; the slowest rank does as far as it can.
    tiles.push(match (card.bandwidth_bps, card.bandwidths.first()) {
        (Some(bps), _) => ("bandwidth", text::bandwidth(bps)),
        (None, Some(estimate)) => ("by the slowest rank (estimate)", text::bandwidth(estimate.bps)),
        (None, None) => ("bandwidth", "not known".to_owned()),
    });
    let slowest = if card.noun == "process" { "slowest process" } else { "slowest rank" };
    tiles.extend(card.slowest_rank.map(|of| (slowest, of.rank.to_string())));
    let period = match (card.period_s, card.verdict) {
        (Some(period_s), _) => text::seconds(period_s),
        (None, Some(Verdict::Unclear)) => "unclear".to_owned(),
        (None, Some(_)) => "none".to_owned(),
        (None, None) => "not analysed".to_owned(),
    };
    tiles.push(("period", period));
    tiles
}

fn how_in_words(card: &JobCard) -> Option<String> {
    let mut sentences = Vec::new();
    sentences.push(match card.bandwidth_bps {
        Some(bps) => format!("Bandwidth: {}. {}", text::bandwidth(bps), JobCard::BANDWIDTH),
        None => "Bandwidth: this source does not tell when bytes were moved.".to_owned(),
    });
    if !card.bandwidths.is_empty() {
        let each: Vec<String> = (card.bandwidths.iter())
            .map(|Bandwidth { layer, bps, bytes, slowest_s }| {
                format!(
                    "{} {} ({} in {})",
                    layer.unwrap_or("calls"),
                    text::bandwidth(*bps),
                    text::bytes(*bytes),
                    text::seconds(*slowest_s)
                )
            })
            .collect();
        sentences.push(format!("By the slowest rank: {}. {}", each.join(", "), JobCard::HOW));
    }
    sentences.extend(card.slowest_rank.map(|slowest| format!("Slowest rank: {}.", slowest.in_words())));
    Some(sentences.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::busy;

    #[test]
    fn a_long_command_is_folded() {
        let mut run = busy();
        let sums = crate::samples::busy_sums();
        for (length, is_folded) in [(10, false), (400, true)] {
            run.source.job.exe = Some("x".repeat(length).into());
            let html = to_html(&JobCard::new(&run, &sums), &run.source.path, None);
            assert_eq!(html.contains("<details class=\"command\">"), is_folded, "{length}");
        }
    }
}
