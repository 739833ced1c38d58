//! A comparison as one page.

use std::fmt::Write;

use iotide_look::html::{capitalised, escape, head, own_style};
use iotide_look::text;

use iotide_report::words::{gains_in_words, presence_in_words};
use iotide_report::{CompareDocument, Document, FileValues, Presence, SideVerdict as Verdict};

use crate::{Page, section};

impl Page for CompareDocument {
    fn to_page(&self) -> Option<String> {
        Some(page(self))
    }
}

const SCRIPT: &str = concat!("\n", include_str!("tables.js"));

fn page(document: &CompareDocument) -> String {
    let title = capitalised(&text::whole_numbers(&document.headline()));
    let style = own_style(concat!(include_str!("tables.css"), include_str!("compare/page.css")));
    let mut html = head(&format!("{title} · iotide"), &style, SCRIPT);
    let _ = write!(
        html,
        "<main>\n<header>\n<p class=\"path\">Comparison of {} sides</p>\n<h1>{}</h1>\n",
        document.sides.len(),
        escape(&title)
    );
    html += &sides_list(document);
    if document.is_worse() {
        let worse: Vec<String> = document
            .worse
            .iter()
            .map(|what| format!("<li>{}</li>", escape(&text::whole_numbers(what))))
            .collect();
        let _ = writeln!(
            html,
            "<div class=\"verdict bad\"><strong>Worse by more than {}</strong><ul>{}</ul></div>",
            text::percent(document.threshold),
            worse.concat()
        );
    } else {
        let _ = writeln!(
            html,
            "<p class=\"verdict good\">Nothing that is watched got worse by more than {}.</p>",
            text::percent(document.threshold)
        );
    }
    html += "</header>\n";
    section(&mut html, "quantities", "What differs", &quantity_table(document));
    section(&mut html, "bandwidth", "Bandwidth over time", &strips(document));
    if !document.issues.is_empty() {
        section(&mut html, "issues", "I/O issues", &issue_cards(document));
    }
    if !document.labels.is_empty() {
        section(&mut html, "labels", "Labels", &label_table(document));
    }
    if !document.request_sizes.is_empty() {
        section(&mut html, "sizes", "Request sizes", &size_table(document));
    }
    if !document.files.is_empty() {
        section(&mut html, "files", "Files", &file_table(document));
    }
    if !document.notes.is_empty() {
        let notes: Vec<String> =
            document.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
        section(
            &mut html,
            "notes",
            "About this comparison",
            &format!("<ul class=\"notes\">{}</ul>\n", notes.concat()),
        );
    }
    let _ = write!(
        html,
        "</main>\n<footer>Made by iotide {}. The same numbers for scripts: <code>iotide compare --format json</code>.</footer>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        if document.to_json().len() < MOST_DATA {
            text::json(document).replace('<', "\\u003c")
        } else {
            "null".to_owned()
        }
    );
    html
}

fn sides_list(document: &CompareDocument) -> String {
    let mut html = String::from("<dl class=\"sides\">\n");
    for (i, side) in document.sides.iter().enumerate() {
        let _ = writeln!(
            html,
            "<dt class=\"s{}\">{}</dt><dd>{}</dd>",
            i % N_COLOURS,
            escape(&side.name),
            escape(&text::whole_numbers(&side.in_words()))
        );
    }
    html + "</dl>\n"
}

/// The heads of a table: `first`, a column for each side, and what `others` adds for each other side.
fn heads(document: &CompareDocument, first: &str, others: Option<&str>) -> String {
    let mut html = format!("<thead><tr><th scope=\"col\">{first}</th>");
    for (i, side) in document.sides.iter().enumerate() {
        let _ = write!(
            html,
            "<th scope=\"col\"><span class=\"s{}\">{}</span></th>",
            i % N_COLOURS,
            escape(&side.name)
        );
    }
    for side in others.iter().flat_map(|_| &document.sides[1..]) {
        let _ = write!(
            html,
            "<th class=\"against\" scope=\"col\">{} {}</th>",
            escape(&side.name),
            others.unwrap_or_default()
        );
    }
    html + "</tr></thead>\n"
}

fn quantity_table(document: &CompareDocument) -> String {
    let mut html = format!(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"quantities stack\">\n{}<tbody>\n",
        heads(document, "quantity", Some("against A"))
    );
    // A bar that is full stands for a factor of ten or more: one that is larger must not make all others vanish.
    let steepest = 10_f64.ln();
    for row in &document.quantities {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(row.quantity.name()));
        for values in &row.sides {
            let _ = write!(html, "<td>{}</td>", escape(&row.values_in_words(values)));
        }
        for change in &row.changes {
            let width = change
                .ratio
                .filter(|ratio| *ratio > 0.0)
                .map_or(0.0, |ratio| (ratio.ln() / steepest).clamp(-1.0, 1.0) * 50.0);
            let _ = write!(
                html,
                "<td class=\"against change {}\"><span class=\"ratio\"><i class=\"{}\" style=\"width:{:.1}%\"></i></span><span><b>{}</b> {}</span></td>",
                class(change.verdict),
                if width < 0.0 { "less" } else { "more" },
                width.abs(),
                escape(&change.in_words()),
                change.verdict.name()
            );
        }
        html += "</tr>\n";
    }
    html += "</tbody>\n</table></div>\n";
    let _ = writeln!(
        html,
        "<p class=\"note\">Values are medians of the runs of a side, with lowest and highest where they differ. Bars show the ratio on a \
         logarithmic scale, full at a factor of 10 or more. {}</p>",
        legend(document.threshold)
    );
    html
}

/// A strip for each side, on the same axes.
fn strips(document: &CompareDocument) -> String {
    let length_s = document.sides.iter().map(|side| side.outline.length_s).fold(0.0, f64::max);
    let highest = document.sides.iter().map(|side| side.outline.highest()).fold(0.0, f64::max);
    if length_s <= 0.0 || highest <= 0.0 {
        return "<p class=\"note\">No side moved data at known times.</p>\n".to_owned();
    }
    let mut html = String::from(
        "<p class=\"key\"><span class=\"reads\">read</span> <span class=\"writes\">written</span></p>\n",
    );
    let lengths = document.sides.iter().map(|side| side.outline.length_s).filter(|length_s| *length_s > 0.0);
    let differ = { lengths }.any(|side_s| side_s < 0.99 * length_s);
    if differ {
        html +=
            "<label class=\"own-length\"><input type=\"checkbox\"> each run over the whole width</label>\n";
    }
    html += "<div class=\"strips\">\n";
    for side in &document.sides {
        let outline = &side.outline;
        let _ = write!(
            html,
            "<span class=\"side\">{}</span><svg class=\"strip\" viewBox=\"0 0 {STRIP_WIDTH} {STRIP_HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"Bandwidth of side {} over time\"><line class=\"mid\" x1=\"0\" x2=\"{STRIP_WIDTH}\" y1=\"{MIDDLE}\" y2=\"{MIDDLE}\"/>\
             <g style=\"--wider:{:.4}\">",
            escape(&side.name),
            escape(&side.name),
            if outline.length_s > 0.0 { length_s / outline.length_s } else { 1.0 },
        );
        for (values, name, sign) in [(&outline.write_bps, "writes", -1.0), (&outline.read_bps, "reads", 1.0)]
        {
            let _ = write!(
                html,
                "<path class=\"{name}\" d=\"{}\"/>",
                bars(values, outline.length_s / length_s, sign / highest)
            );
        }
        html += "</g></svg>\n";
    }
    if differ {
        html += "<span class=\"own\"></span><p class=\"axis own\"><span>start</span><span>end of each run</span></p>\n";
    }
    let _ = writeln!(
        html,
        "<span></span><p class=\"axis shared\"><span>0 s</span><span>{}</span></p>\n</div>\n<p class=\"note\">Writes point up, reads down; the \
         highest bar is {}. All sides share both axes, and begin with their first I/O.{}</p>",
        text::seconds(length_s),
        text::bandwidth(highest),
        if document.sides.iter().any(|side| side.runs.len() > 1) {
            " Of a side with several runs, the first is drawn."
        } else {
            ""
        }
    );
    html
}

fn issue_cards(document: &CompareDocument) -> String {
    let mut html = String::from("<div class=\"cards\">\n");
    for row in &document.issues {
        let how = if row.changes.contains(&Presence::Came) {
            "came"
        } else if row.changes.contains(&Presence::Went) {
            "went"
        } else {
            "stayed"
        };
        let _ = writeln!(
            html,
            "<article class=\"{how} {}\"><h3>{} <span>{}, {}, {}</span></h3><p>{}.</p><p class=\"note\">{}.</p></article>",
            row.severity,
            escape(&row.id.replace('_', " ")),
            escape(&presence_in_words(&row.shares, &row.changes, &document.sides)),
            escape(&gains_in_words(&row.gains)),
            row.severity,
            escape(&capitalised(&row.text)),
            escape(&capitalised(&row.advice))
        );
    }
    html + "</div>\n"
}

fn label_table(document: &CompareDocument) -> String {
    let mut html = format!(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"slim\">\n{}<tbody>\n",
        heads(document, "label", None)
    );
    for row in &document.labels {
        let _ = write!(html, "<tr><td>{}</td>", escape(row.label));
        for (share, side) in row.shares.iter().zip(&document.sides) {
            let shown = match (side.runs.len(), *share) {
                (1, share) if share > 0.0 => "yes".to_owned(),
                (_, 0.0) => "–".to_owned(),
                (_, share) => text::percent(share),
            };
            let _ = write!(html, "<td>{shown}</td>");
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table></div>\n"
}

fn size_table(document: &CompareDocument) -> String {
    let mut html = format!(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"sizes slim\">\n{}<tbody>\n",
        heads(document, "request size", None)
    );
    for row in &document.request_sizes {
        let _ = write!(html, "<tr><td>{} to {}</td>", binary(row.from_bytes), binary(2.0 * row.from_bytes));
        for (i, &share) in row.shares.iter().enumerate() {
            let shown = if share > 0.0 { text::percent(share) } else { "–".to_owned() };
            let _ = write!(
                html,
                "<td><span class=\"track\"><i class=\"f{}\" style=\"width:{:.1}%\"></i></span><span>{shown}</span></td>",
                i % N_COLOURS,
                share * 100.0
            );
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table></div>\n<p class=\"note\">Share of all read and write calls.</p>\n"
}

fn file_table(document: &CompareDocument) -> String {
    let mut html = format!(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"sortable stack{}\" data-filter=\"files\">\n{}<tbody>\n",
        if document.sides.len() == 2 { " two" } else { "" },
        heads(document, "file", Some("bytes"))
    );
    for row in &document.files {
        let _ = write!(html, "<tr><td class=\"path\">{}</td>", row.path.shortened(MOST_PATH).for_html());
        for values in &row.sides {
            let bytes = values.as_ref().map_or(-1.0, FileValues::bytes);
            let shown = values.as_ref().map_or("–".to_owned(), FileValues::in_words);
            let _ = write!(html, "<td data-v=\"{bytes}\">{}</td>", escape(&text::whole_numbers(&shown)));
        }
        for side in 1..document.sides.len() {
            let ratio = row.ratio(side);
            let shown = match (&row.sides[0], &row.sides[side], ratio) {
                (None, Some(_), _) => "new".to_owned(),
                (Some(_), None, _) => "gone".to_owned(),
                (_, _, Some(ratio)) if (ratio - 1.0).abs() < 1e-9 => "=".to_owned(),
                (_, _, Some(ratio)) => format!("× {}", text::digits(ratio, 3)),
                _ => "–".to_owned(),
            };
            let _ = write!(html, "<td class=\"against\" data-v=\"{}\">{shown}</td>", ratio.unwrap_or(-1.0));
        }
        html += "</tr>\n";
    }
    html += "</tbody>\n</table></div>\n";
    let more = match document.n_more_files {
        0 => String::new(),
        n => format!(" {} more are not listed.", text::count(n as u64)),
    };
    let _ = writeln!(
        html,
        "<p class=\"note\">The heaviest first. \u{201c}Every 12.7 s\u{201d} is how often a file is used, where that repeats; it is looked for in the \
         heaviest files. A file that runs have in folders of their own is known by its name.{more}</p>"
    );
    html
}

fn legend(threshold: f64) -> String {
    format!(
        "Better and worse: by more than {}, and more than the runs of a side differ among themselves (else: noise).",
        text::percent(threshold)
    )
}

/// How many sides have a colour of their own.
const N_COLOURS: usize = 4;

const STRIP_WIDTH: usize = 720;
const STRIP_HEIGHT: usize = 80;
const MIDDLE: f64 = STRIP_HEIGHT as f64 / 2.0;

/// A path of which a page shows both ends.
const MOST_PATH: usize = 300;

/// Maximum size of the data in a page, in bytes of JSON; more than this is left to `--format json`.
const MOST_DATA: usize = 400_000;

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Changed => "changed",
        Verdict::Same | Verdict::Noise | Verdict::Unknown => "same",
    }
}

/// Bars from the middle line, as one path.
fn bars(values: &[f64], share: f64, scale: f64) -> String {
    let width = STRIP_WIDTH as f64 * share / values.len().max(1) as f64;
    let mut path = String::new();
    for (i, value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
        // Never thinner than a pixel.
        let tall = (value * scale * (MIDDLE - 2.0)).abs().max(1.0).copysign(scale);
        let _ =
            write!(path, "M{:.1} {MIDDLE}v{tall:.1}h{:.2}v{:.1}z", i as f64 * width, width.max(1.0), -tall);
    }
    path
}

/// A power of two as people say it: 4 KiB.
fn binary(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (bytes.log2().round() as usize).min(69);
    format!("{} {}", 1_u64 << (power % 10), units[power / 10])
}
