//! The page of alarms: what fires, what is watched, what has been.

use iotide_look::html::{escape, tiles};
use iotide_look::text;

use super::{Frame, Page, called_link, cell, job_link, sortable, time};
use iotide_report::words::value_text;
use iotide_report::{AlarmList, AlarmRule, AlarmState};

/// The page.
pub fn alarms_page(frame: &Frame<'_>, list: &AlarmList) -> String {
    let mut page = Page::new("Alarms", "Alarms");
    let mut body = tiles([
        ("firing", text::count(list.firing.len() as u64)),
        ("rules", text::count(list.rules.len() as u64)),
        ("in the history", text::count(list.past().count() as u64)),
    ]);
    if list.firing.is_empty() {
        body += "<p class=\"note\">Nothing fires.</p>\n";
    } else {
        let rows: Vec<String> = list.firing.iter().map(|alarm| state_row(alarm, true)).collect();
        body += &sortable("alarms that fire", &STATE_HEADS, &rows);
    }
    page.live("firing", "Firing", &body);
    let body = if list.rules.is_empty() {
        "<p class=\"note\">There is no rule.</p>\n".to_owned()
    } else {
        let heads = ["rule", "condition", "of", "only", "for", "ends at", "severity", "owner", "delete"];
        sortable("rules", &heads, &list.rules.iter().map(rule_row).collect::<Vec<_>>())
    };
    page.live("rules", "Rules", &body);
    // Not one that changes by itself: what somebody writes into it stays.
    page.section("add", "Add a rule", ADD);
    let past: Vec<String> = list.past().map(|alarm| state_row(alarm, false)).collect();
    let body = if past.is_empty() {
        "<p class=\"note\">Nothing has fired yet.</p>\n".to_owned()
    } else {
        sortable("history", &STATE_HEADS, &past)
    };
    page.live("history", "History", &body);
    page.finish(frame)
}

const ADD: &str = "<form class=\"ask\" method=\"post\" action=\"/alarms\"><input type=\"hidden\" name=\"do\" value=\"add\">\
<label>Name <input name=\"name\" required maxlength=\"64\" size=\"12\" placeholder=\"busy\"></label>\
<label>Condition <input name=\"expr\" required maxlength=\"1000\" size=\"32\" placeholder=\"rate(write_bytes) &gt; 2GB\"></label>\
<label>Of <select name=\"on\"><option value=\"job\">each job</option><option value=\"sum\">all jobs together</option><option value=\"node\">the machine</option></select></label>\
<label>For <input name=\"for\" type=\"number\" min=\"0\" step=\"any\" placeholder=\"0\"> s</label>\
<label>Severity <input name=\"severity\" maxlength=\"64\" size=\"9\" placeholder=\"warning\"></label><button>Add</button></form>\n\
<p class=\"note\">On the command line: <code>iotide alarms add busy 'rate(write_bytes) &gt; 2GB' --for 30s</code>, <code>iotide alarms delete busy</code>; there one can also say for whose jobs, and at which value it is over.</p>\n";

const STATE_HEADS: [&str; 9] =
    ["alarm", "state", "condition", "value", "job", "application", "since", "until", "fired for"];

/// An alarm that fires, or a recorded change of one: that it began, or is over.
fn state_row(alarm: &AlarmState, is_now: bool) -> String {
    let badge = match (alarm.state.as_str(), alarm.severity.as_said()) {
        ("firing", _) if !is_now => "began".to_owned(),
        ("firing", "critical") => "<span class=\"badge high\">firing</span>".to_owned(),
        ("firing", _) => "<span class=\"badge warning\">firing</span>".to_owned(),
        (state, _) => {
            let why = alarm.why.as_ref().map_or(String::new(), |why| format!(" ({why})"));
            escape(&format!("{state}{why}"))
        }
    };
    let job = alarm.job.as_ref().map_or_else(|| "–".to_owned(), job_link);
    let program = match (&alarm.app, &alarm.program) {
        (Some(app), Some(program)) => called_link(app, program),
        _ => "–".to_owned(),
    };
    let end = alarm.end_unix_s;
    format!(
        "<td>{}</td><td class=\"word\">{badge}</td><td class=\"word\"><code>{}</code></td>{}<td class=\"word\">{job}</td><td class=\"word\">{program}</td>{}{}{}",
        alarm.name.shortened(60).for_html(),
        alarm.expr.shortened(120).for_html(),
        cell(
            alarm.value.unwrap_or(-1.0),
            &alarm.value.map_or("–".to_owned(), |value| value_text(&alarm.expr, value))
        ),
        cell(alarm.since_unix_s, &time(alarm.since_unix_s)),
        cell(end.unwrap_or(f64::MAX), &end.map_or("–".to_owned(), time)),
        cell(
            end.map_or(f64::MAX, |end| end - alarm.since_unix_s),
            &end.map_or("–".to_owned(), |end| alarm.lasted(end))
        ),
    )
}

fn rule_row(rule: &AlarmRule) -> String {
    let only: Vec<String> = [("user", &rule.user), ("application", &rule.app), ("job", &rule.job)]
        .into_iter()
        .filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?.shortened(40).for_html())))
        .collect();
    let on = match rule.on.as_str() {
        "job" => "each job",
        "sum" => "all jobs together",
        _ => "the machine",
    };
    format!(
        "<td>{}</td><td class=\"word\"><code>{}</code></td><td class=\"word\">{on}</td><td class=\"word\">{}</td>{}{}<td class=\"word\">{}</td><td class=\"word\">{}</td><td class=\"word\">{}</td>",
        rule.name.shortened(60).for_html(),
        rule.expr.shortened(120).for_html(),
        if only.is_empty() { "–".to_owned() } else { only.join(", ") },
        cell(rule.for_s, &if rule.for_s > 0.0 { text::seconds(rule.for_s) } else { "at once".to_owned() }),
        cell(rule.clear, &value_text(&rule.expr, rule.clear)),
        rule.severity.shortened(24).for_html(),
        rule.owner.map_or_else(|| "operator".to_owned(), |uid| uid.to_string()),
        delete_form(rule),
    )
}

/// One sees only rules that one may delete: one's own, or as an operator all.
fn delete_form(rule: &AlarmRule) -> String {
    let name = rule.name.for_html();
    let owner = rule
        .owner
        .map_or_else(String::new, |uid| format!("<input type=\"hidden\" name=\"owner\" value=\"{uid}\">"));
    format!(
        "<form method=\"post\" action=\"/alarms\"><input type=\"hidden\" name=\"do\" value=\"delete\"><input type=\"hidden\" name=\"name\" value=\"{name}\">{owner}\
         <button aria-label=\"Delete the rule {name}\">Delete</button></form>"
    )
}
