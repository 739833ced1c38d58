//! The page of decisions: what a controller may do, what it did, and what came of it.

use iotide_look::html::tiles;
use iotide_look::text;

use super::{Frame, Page, cell, job_link, sortable, time};
use iotide_report::words::{MOST_HARMED, share};
use iotide_report::{DecisionEntry, DecisionList, HarmedJob, RuleEntry};

/// The page.
pub fn decisions_page(frame: &Frame<'_>, list: &DecisionList) -> String {
    let mut page = Page::new("Decisions", "Decisions");
    if !list.acting {
        page.lead("This daemon watches and does not act: its settings have no <code>[act]</code>.");
        return page.finish(frame);
    }
    if list.dry_run {
        page.lead("This is a dry run: what would be done is shown, and nothing is done.");
    }
    let n_standing = list.decisions.iter().filter(|it| it.state == "standing").count();
    let n_undone = list.decisions.iter().filter(|it| it.state == "undone").count();
    let body = tiles([
        ("in force", text::count(n_standing as u64)),
        ("taken back", text::count(n_undone as u64)),
        ("decisions in all", text::count(list.decisions.len() as u64)),
    ]);
    page.live("sum", "At a glance", &body);
    let heads = ["rule", "actor", "where", "in force", "what came of its last decisions", "state"];
    let rows: Vec<String> = list.rules.iter().map(rule_row).collect();
    page.live("rules", "Rules", &sortable("rules", &heads, &rows));
    let body = if list.decisions.is_empty() {
        "<p class=\"note\">Nothing has been decided yet.</p>\n".to_owned()
    } else {
        let heads = ["id", "when", "rule", "what", "jobs", "expected", "measured", "state", "why"];
        sortable("decisions", &heads, &list.decisions.iter().map(decision_row).collect::<Vec<_>>())
    };
    let how = "<p class=\"note\"><code>iotide decisions undo ID</code> takes one back, <code>iotide decisions stop RULE</code> uses a rule no more. \
               Shares are changes of the time in I/O per byte, of the time until all is safe, or of the run time: less is better.</p>\n";
    page.live("decisions", "Decisions", &(body + how));
    page.finish(frame)
}

fn rule_row(rule: &RuleEntry) -> String {
    let condition = rule.condition();
    let badge = match (&rule.stopped, &rule.trouble) {
        (Some(_), _) => format!("<span class=\"badge high\">{}</span>", condition.shortened(200).for_html()),
        (None, Some(_)) => {
            format!("<span class=\"badge warning\">{}</span>", condition.shortened(200).for_html())
        }
        (None, None) => "used".to_owned(),
    };
    format!(
        "<td>{}</td><td class=\"word\">{}</td><td class=\"word\">{}</td>{}<td class=\"word\">{}</td><td class=\"word\">{badge}</td>",
        rule.name.shortened(60).for_html(),
        rule.actor,
        rule.place.shortened(120).for_html(),
        cell(rule.standing as f64, &rule.standing.to_string()),
        rule.record(),
    )
}

fn decision_row(decision: &DecisionEntry) -> String {
    let jobs: Vec<String> = decision.jobs.iter().take(8).map(job_link).collect();
    let mut why: Vec<String> = decision.why().map(|line| line.shortened(200).for_html()).collect();
    let harmed = |it: &HarmedJob| format!("{} {}", job_link(&it.job), it.in_words());
    why.extend(decision.harmed.iter().take(MOST_HARMED).map(harmed));
    let expected = decision.expected.as_ref();
    let change = |of: Option<f64>| cell(of.unwrap_or(0.0), &of.map_or("–".to_owned(), share));
    let measured = match &decision.measured {
        Some(measured) => change(Some(measured.change)),
        None => cell(0.0, &decision.outcome()),
    };
    format!(
        "{}{}<td class=\"word\">{}</td><td class=\"word\">{}</td><td class=\"word\">{}</td>{}{measured}<td class=\"word\">{}</td><td class=\"word\">{}</td>",
        cell(decision.id as f64, &decision.id.to_string()),
        cell(decision.at_unix_s, &time(decision.at_unix_s)),
        decision.rule.shortened(60).for_html(),
        decision.change.shortened(300).for_html(),
        jobs.join(", "),
        change(expected.map(|effect| effect.change)),
        decision.state,
        why.join("<br>"),
    )
}
