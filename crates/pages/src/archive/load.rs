//! Who loaded the storage and when, and how alike the runs of an application are labelled, as parts of an archive's page.

use std::fmt::Write;

use iotide_look::html::{escape, sorted_cell};
use iotide_look::{Untrusted, text};

use iotide_report::words::population_in_words;
use iotide_report::{ArchiveStatistics, TimeBucket, label_meaning};

/// The time axis: a bar for each stretch, of runs, bytes or hours.
pub(super) fn timeline(statistics: &ArchiveStatistics) -> String {
    let buckets = &statistics.timeline;
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else { return String::new() };
    type Shown = (&'static str, fn(&TimeBucket) -> f64, fn(f64) -> String);
    let kinds: [Shown; 3] = [
        ("runs", |bucket| bucket.n_runs as f64, |n| text::count(n as u64)),
        ("bytes moved", |bucket| bucket.bytes_read + bucket.bytes_written, text::bytes),
        ("process hours", |bucket| bucket.process_hours, |hours| text::count(hours.round() as u64)),
    ];
    let day = |unix_s: f64| text::date(unix_s).chars().take(10).collect::<String>();
    let mut html = String::from("<div class=\"tabs\">\n");
    for (i, (name, of, shown)) in kinds.into_iter().enumerate() {
        let highest = buckets.iter().map(of).fold(0.0, f64::max);
        let _ = write!(
            html,
            "<input type=\"radio\" name=\"timeline\" id=\"timeline-{i}\"{}><label for=\"timeline-{i}\">{name}</label><div class=\"scroll\">\
             <p class=\"highest\">up to {}</p><svg class=\"timeline\" viewBox=\"0 0 {} 100\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{name} over time\">",
            if i == 0 { " checked" } else { "" },
            escape(&shown(highest)),
            buckets.len() * 10
        );
        for (at, bucket) in buckets.iter().enumerate().filter(|(_, bucket)| of(bucket) > 0.0) {
            let tall = (of(bucket) / highest * 98.0).max(1.0);
            let _ = write!(
                html,
                "<rect x=\"{}\" y=\"{:.1}\" width=\"9\" height=\"{tall:.1}\"><title>{}: {}</title></rect>",
                at * 10,
                100.0 - tall,
                day(bucket.start_s),
                escape(&shown(of(bucket)))
            );
        }
        let _ = writeln!(
            html,
            "</svg><p class=\"axis\"><span>{}</span><span>{}</span></p></div>",
            day(first.start_s),
            day(last.start_s + last.length_s)
        );
    }
    let each = match first.length_s / 86_400.0 {
        1.0 => "a day".to_owned(),
        7.0 => "a week".to_owned(),
        days => format!("{days:.0} days"),
    };
    let _ = write!(
        html,
        "</div>\n<p class=\"note\">A bar is {each}; a run counts where it began, with all it moved.{} Process hours are run time times processes.</p>\n",
        match statistics.n_without_start {
            0 => String::new(),
            n => format!(" {} without a date are not shown.", text::counted(n, "run")),
        }
    );
    html
}

pub(super) fn users(statistics: &ArchiveStatistics) -> String {
    let mut html = String::from(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"sortable\" data-filter=\"users\">\n<thead><tr><th scope=\"col\">user</th><th scope=\"col\">runs</th>\
         <th scope=\"col\">applications</th><th scope=\"col\">read</th><th scope=\"col\">written</th><th scope=\"col\">process hours</th></tr></thead>\n<tbody>\n",
    );
    for user in &statistics.users {
        let _ = writeln!(
            html,
            "<tr><td>{}</td>{}{}{}{}{}</tr>",
            user.user.as_ref().map_or("not known".to_owned(), Untrusted::for_html),
            sorted_cell(user.n_runs as f64, &text::count(user.n_runs)),
            sorted_cell(user.n_applications as f64, &text::count(user.n_applications)),
            sorted_cell(user.bytes_read, &text::bytes(user.bytes_read)),
            sorted_cell(user.bytes_written, &text::bytes(user.bytes_written)),
            sorted_cell(user.process_hours, &hours(user.process_hours)),
        );
    }
    html += "</tbody>\n</table></div>\n";
    if statistics.n_more_users > 0 {
        let _ = writeln!(
            html,
            "<p class=\"note\">Those that moved most; {} more.</p>",
            text::count(statistics.n_more_users)
        );
    }
    html
}

pub(super) fn applications(statistics: &ArchiveStatistics) -> String {
    let mut html = String::from(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"sortable stack\" data-filter=\"applications\">\n<thead><tr><th scope=\"col\">application</th><th scope=\"col\">user</th>\
         <th scope=\"col\">runs</th><th scope=\"col\">read</th><th scope=\"col\">written</th><th scope=\"col\">process hours</th>\
         <th scope=\"col\">labelled alike</th><th class=\"words\" scope=\"col\">labels of most runs</th></tr></thead>\n<tbody>\n",
    );
    for application in &statistics.heaviest_applications {
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td>{}{}{}{}{}<td class=\"labels\">{}</td></tr>",
            application.application.for_html(),
            application.user.as_ref().map_or("–".to_owned(), Untrusted::for_html),
            sorted_cell(application.n_runs as f64, &text::count(application.n_runs)),
            sorted_cell(application.bytes_read, &text::bytes(application.bytes_read)),
            sorted_cell(application.bytes_written, &text::bytes(application.bytes_written)),
            sorted_cell(application.process_hours, &hours(application.process_hours)),
            sorted_cell(application.labelled_alike, &text::percent(application.labelled_alike)),
            if application.categories.is_empty() {
                "none".to_owned()
            } else {
                application.categories.join(", ")
            }
        );
    }
    html + "</tbody>\n</table></div>\n<p class=\"note\">Those that moved most and those that ran most often. An application stands for all its runs in the tables below: \
            \u{201c}labelled alike\u{201d} says for how many that is right (the paper: 97 % of LAMMPS' runs, 80 % of NEK5000's).</p>\n"
}

fn hours(value: f64) -> String {
    if value < 9.95 { text::digits(value, 2) } else { text::count(value.round() as u64) }
}

pub(super) fn coverage(statistics: &ArchiveStatistics) -> String {
    let mut html = String::from(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"stack\">\n<thead><tr><th scope=\"col\">counted</th><th scope=\"col\">without a label</th><th scope=\"col\">described by six labels</th>\
         <th class=\"words\" scope=\"col\">which</th></tr></thead>\n<tbody>\n",
    );
    for coverage in &statistics.coverage {
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"labels\">{}</td></tr>",
            population_in_words(coverage.population),
            text::percent(coverage.unlabelled_share),
            text::percent(coverage.by_six_share),
            coverage.six_commonest.join(", ")
        );
    }
    html + "</tbody>\n</table></div>\n<p class=\"note\">The paper: 98 % of the traces have a category, and six of them (three of reads, three of writes) describe \
            95 % of all runs. The six are the commonest labels of when data are read and written; a run is described if it has no other of these.</p>\n"
}

/// P(B|A): of those with the label of the row, how many have the label of the column.
pub(super) fn conditional(statistics: &ArchiveStatistics) -> String {
    let population = &statistics.all;
    let labels: Vec<usize> =
        (0..statistics.labels.len()).filter(|&label| population.of_label[label] > 0).collect();
    let mut html = String::from("<div class=\"scroll shown\"><table class=\"heat\">\n<tbody>\n");
    for &a in &labels {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", statistics.labels[a]);
        for &b in &labels {
            let share = population.conditional(b, a);
            if share == 0.0 {
                html += "<td></td>";
                continue;
            }
            let has = if a == b { a.to_string() } else { format!("{a} {b}") };
            let _ = write!(
                html,
                "<td style=\"--v:{:.0}%\"{}><a href=\"#runs\" data-of=\"all\" data-has=\"{has}\" data-n=\"{}\" title=\"{} of the runs with {} have {}\">{:.0}</a></td>",
                share * 100.0,
                if share > 0.5 { " class=\"deep\"" } else { "" },
                population.both(a, b),
                text::percent(share),
                statistics.labels[a],
                statistics.labels[b],
                share * 100.0
            );
        }
        html += "</tr>\n";
    }
    html += "<tr><td></td>";
    for &label in &labels {
        let _ = write!(html, "<th scope=\"col\"><span>{}</span></th>", statistics.labels[label]);
    }
    html + "</tr>\n</tbody>\n</table></div>\n<p class=\"note\">Per cent of the runs with the label of the row that have the label of the column, P(column | row). The paper \
            states such shares in words (\u{201c}66 % of applications reading on start write on end\u{201d}); unlike the Jaccard index they differ by direction.</p>\n"
}

pub(super) fn glossary(statistics: &ArchiveStatistics) -> String {
    let mut html = String::from("<dl class=\"facts glossary\">\n");
    for label in statistics
        .labels
        .iter()
        .enumerate()
        .filter(|(i, _)| statistics.all.of_label[*i] > 0)
        .map(|(_, label)| *label)
    {
        let _ = writeln!(html, "<dt>{label}</dt><dd>{}</dd>", escape(&label_meaning(label)));
    }
    html + "</dl>\n<p class=\"note\">The labels that occur here, with the thresholds that hold unless settings change them. A run may have several.</p>\n"
}
