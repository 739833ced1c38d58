//! What the pages of signatures share: the shell, the legend of their pictures, and bursts as a table.

use std::fmt::Write;

use iotide_look::html::{escape, head, own_style, sorted_cell};
use iotide_look::text;

use super::BurstEntry;

const SCRIPT: &str = concat!("\n", include_str!("../tables.js"));

/// The beginning of a page of signatures, up to its first section.
pub(super) fn page_head(title: &str, headline: &str, path: &str) -> String {
    let style = own_style(concat!(include_str!("../tables.css"), include_str!("page.css")));
    head(&format!("{title} · iotide signature"), &style, SCRIPT)
        + &format!(
            "<main>\n<header><p class=\"path\">{}</p><h1>{}</h1></header>\n",
            escape(path),
            escape(&text::whole_numbers(headline))
        )
}

/// What ends it.
pub(super) fn page_foot() -> String {
    format!(
        "</main>\n<footer>Made by iotide {}.</footer>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// What is what in a picture.
pub(super) const LEGEND: &str = "<ul class=\"legend\"><li class=\"signature\">the signature: what the runs have in common</li>\
     <li class=\"sample\">the load of the servers during each run, with what others did</li><li class=\"burst\">a burst of the signature</li></ul>\n";

/// A row for each burst.
pub(super) fn burst_table(bursts: &[BurstEntry]) -> String {
    if bursts.is_empty() {
        return "<p class=\"note\">The runs have no burst in common.</p>\n".to_owned();
    }
    let mut html = String::from(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"sortable\">\n<thead><tr><th scope=\"col\">burst</th><th scope=\"col\">begins</th><th scope=\"col\">ends</th>\
         <th scope=\"col\">lasts</th><th scope=\"col\">moves</th><th scope=\"col\">peak</th><th scope=\"col\">seen in</th></tr></thead>\n<tbody>\n",
    );
    for (i, BurstEntry { start_s, end_s, peak_bps, bytes, support }) in
        bursts.iter().enumerate().take(MOST_BURSTS)
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
