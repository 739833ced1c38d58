//! Signatures as pages: of one application, and of all in a throughput log.

use std::fmt::Write;

use iotide_analysis::Burst;
use iotide_look::html::{escape, head, own_style, sorted_cell};
use iotide_look::text;
use iotide_report::{LogReport, LogTile, SignatureReport};

pub use self::chart::signature_svg;
use self::chart::{to_figures, to_small_svg};
use crate::Page;

mod chart;

impl Page for SignatureReport {
    fn to_page(&self) -> Option<String> {
        Some(page(self))
    }

    fn pictures(&self) -> Vec<(String, String)> {
        vec![("signature.svg".to_owned(), signature_svg(&self.chart))]
    }
}

const SCRIPT: &str = concat!("\n", include_str!("tables.js"));

/// The page of one application.
fn page(report: &SignatureReport) -> String {
    let mut html = page_head(
        "a signature",
        &report.entry.headline(),
        &text::counted(report.entry.samples.used as u64, "sample"),
    );
    let _ = write!(
        html,
        "<section>{}{}</section>\n<section id=\"bursts\"><h2>Bursts</h2>\n{}</section>\n<section><dl class=\"facts\">",
        to_figures(&report.chart),
        LEGEND,
        burst_table(&report.entry.bursts)
    );
    // Bursts stand in their table.
    for (name, value) in report.entry.facts(&report.losses).pairs().filter(|(name, _)| *name != "burst") {
        let _ = write!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
    }
    html.push_str("</dl></section>\n");
    html.push_str(&page_foot());
    html
}

/// A page has no more rows than a person looks at.
const MOST_ROWS: usize = 500;

/// Returns the page: small pictures of the largest, a table of more.
pub fn log_page(log: &LogReport) -> String {
    let mut html = page_head("signatures", &log.headline(), "a throughput log");
    html.push_str("<section id=\"pictures\"><h2>The largest</h2>\n");
    html.push_str(LEGEND);
    html.push_str("<div class=\"tiles-of-signatures\">\n");
    for LogTile { label, headline, chart, .. } in &log.tiles {
        let _ = writeln!(
            html,
            "<figure>{}<figcaption><b>{}</b><br>{}</figcaption></figure>",
            to_small_svg(chart),
            escape(label),
            escape(headline)
        );
    }
    html.push_str(
        "</div></section>\n<section id=\"groups\"><h2>Users and their configurations</h2>\n<div class=\"wide\" tabindex=\"0\"><table class=\"sortable\" data-filter=\"users\">\
         <thead><tr><th scope=\"col\">user</th><th scope=\"col\">job</th><th scope=\"col\">nodes</th><th scope=\"col\">runs</th><th scope=\"col\">samples</th>\
         <th scope=\"col\">bursts</th><th scope=\"col\">a run moves</th><th scope=\"col\">in</th><th scope=\"col\">period</th><th scope=\"col\">confidence</th></tr></thead><tbody>\n",
    );
    let cell = |value: f64, shown: String| sorted_cell(value, &shown);
    for row in log.ranked().iter().take(MOST_ROWS) {
        let nodes = row.group.nodes;
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td>{}{}{}{}{}{}{}{}</tr>",
            row.group.user.for_html(),
            row.group.name.for_html(),
            cell(nodes.map_or(-1.0, |n| n as f64), nodes.map_or_else(|| "–".to_owned(), text::count)),
            cell(row.group.runs as f64, text::count(row.group.runs as u64)),
            cell(row.n_used as f64, text::count(row.n_used as u64)),
            cell(row.n_bursts as f64, text::count(row.n_bursts as u64)),
            cell(row.bytes, text::bytes(row.bytes)),
            cell(row.duration_s, text::seconds(row.duration_s)),
            cell(row.period_s.unwrap_or(-1.0), row.period_s.map_or_else(|| "–".to_owned(), text::seconds)),
            cell(row.confidence, text::percent(row.confidence)),
        );
    }
    html.push_str("</tbody></table></div></section>\n<section><dl class=\"facts\">");
    for (name, value) in log.facts().pairs() {
        let _ = write!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
    }
    html.push_str("</dl></section>\n");
    html.push_str(&page_foot());
    html
}

/// The beginning of a page of signatures, up to its first section.
fn page_head(title: &str, headline: &str, path: &str) -> String {
    let style = own_style(concat!(include_str!("tables.css"), include_str!("signature/page.css")));
    head(&format!("{title} · iotide signature"), &style, SCRIPT)
        + &format!(
            "<main>\n<header><p class=\"path\">{}</p><h1>{}</h1></header>\n",
            escape(path),
            escape(&text::whole_numbers(headline))
        )
}

/// Returns the end of the page.
fn page_foot() -> String {
    format!(
        "</main>\n<footer>Made by iotide {}.</footer>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Legend of a picture.
const LEGEND: &str = "<ul class=\"legend\"><li class=\"signature\">the signature: what the runs have in common</li>\
     <li class=\"sample\">the load of the servers during each run, with what others did</li><li class=\"burst\">a burst of the signature</li></ul>\n";

/// A row for each burst.
fn burst_table(bursts: &[Burst]) -> String {
    if bursts.is_empty() {
        return "<p class=\"note\">The runs have no burst in common.</p>\n".to_owned();
    }
    let mut html = String::from(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"sortable\">\n<thead><tr><th scope=\"col\">burst</th><th scope=\"col\">begins</th><th scope=\"col\">ends</th>\
         <th scope=\"col\">lasts</th><th scope=\"col\">moves</th><th scope=\"col\">peak</th><th scope=\"col\">seen in</th></tr></thead>\n<tbody>\n",
    );
    for (i, Burst { start_s, end_s, peak_bps, bytes, support }) in bursts.iter().enumerate().take(MOST_BURSTS)
    {
        let cell = |value: f64, shown: String| sorted_cell(value, &shown);
        let _ = writeln!(
            html,
            "<tr>{}{}{}{}{}{}{}</tr>",
            cell(i as f64, (i + 1).to_string()),
            cell(*start_s, text::moment(*start_s)),
            cell(*end_s, text::moment(*end_s)),
            cell(end_s - start_s, text::seconds(end_s - start_s)),
            cell(*bytes, text::bytes(*bytes)),
            cell(*peak_bps, text::bandwidth(*peak_bps)),
            cell(*support, text::percent(*support)),
        );
    }
    html += "</tbody>\n</table></div>\n<p class=\"note\">Times count from the start of a run; \u{201c}seen in\u{201d} is the share of the samples that show the burst.";
    if bursts.len() > MOST_BURSTS {
        let _ =
            write!(html, " The first {MOST_BURSTS} of {}; JSON has all.", text::count(bursts.len() as u64));
    }
    html + "</p>\n"
}

/// A table that a person reads.
const MOST_BURSTS: usize = 500;

#[cfg(test)]
mod tests;
