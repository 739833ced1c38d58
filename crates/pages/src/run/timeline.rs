//! When each rank read and wrote, as a picture that a reader can zoom into.

use std::fmt::Write;

use iotide_look::chart::Axis;
use iotide_look::figure::legend;
use iotide_look::html::{Section, escape};
use iotide_look::text;
use iotide_report::{RowSums, Timeline};
use iotide_trace::Stretch;
use serde::Serialize;

/// Data that the page's script draws: for each row the gaps and lengths of its stretches in steps, as numbers of base 36.
#[derive(Serialize)]
struct Drawn {
    x: Axis,
    step_s: f64,
    ranks: Vec<[i32; 2]>,
    reads: Vec<String>,
    writes: Vec<String>,
}

/// So many steps make the whole width: a reader can zoom into a thousandth and still see calls apart.
const STEPS: f64 = (1u32 << 20) as f64;

pub(super) fn section(timeline: &Timeline, processes: &str) -> Option<Section> {
    let all = || timeline.rows.iter().flat_map(|row| row.reads.stretches.iter().chain(&row.writes.stretches));
    let start_ns = all().map(|stretch| stretch.start_ns).min()?;
    let end_ns = all().map(|stretch| stretch.end_ns).max()?.max(start_ns + 1);
    let seconds = |ns: i64| ns as f64 * 1e-9;
    let step_ns = (end_ns as f64 - start_ns as f64) / STEPS;
    let coded = |stretches: &[Stretch]| {
        let mut text = String::new();
        let mut last = 0;
        for stretch in stretches {
            let step = |ns: i64| ((ns as f64 - start_ns as f64) / step_ns).round() as u64;
            let (from, to) = (step(stretch.start_ns).max(last), step(stretch.end_ns).max(last));
            let separator = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{separator}{} {}", base36(from - last), base36(to.saturating_sub(from)));
            last = from.max(to);
        }
        text
    };
    let drawn = Drawn {
        x: timeline.zero.axis(seconds(start_ns), seconds(end_ns)),
        step_s: step_ns * 1e-9,
        ranks: timeline.rows.iter().map(|row| [row.first_rank, row.last_rank]).collect(),
        reads: timeline.rows.iter().map(|row| coded(&row.reads.stretches)).collect(),
        writes: timeline.rows.iter().map(|row| coded(&row.writes.stretches)).collect(),
    };
    let mut caption = String::from(
        "Every call that moved bytes, rank by rank: reads in the upper half of a row, writes in the lower.",
    );
    if timeline.ranks_per_row > 1 {
        let _ = write!(caption, " A row is {} ranks.", timeline.ranks_per_row);
    }
    if timeline.gap_s > 0.0 {
        let _ = write!(caption, " Calls less than {} apart are drawn as one.", text::seconds(timeline.gap_s));
    }
    let body = format!(
        "<figure class=\"timeline\" data-name=\"timeline\">\n<div class=\"bar\">{}</div>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 10\" class=\"plot\" role=\"img\" font-size=\"12\">\
         <title>Calls of each rank over time</title></svg>\n<figcaption>{}</figcaption>\n{}\
         <script type=\"application/json\">{}</script>\n</figure>\n",
        legend([("read", "reads"), ("write", "writes")]),
        escape(&caption),
        numbers_html(timeline),
        text::json(&drawn)
    );
    Some(Section { id: "timeline", title: format!("Timeline of {processes}"), body, narrow: false })
}

fn numbers_html(timeline: &Timeline) -> String {
    let mut html = String::from(
        "<details class=\"numbers\"><summary>Numbers</summary>\n<div class=\"wide\" tabindex=\"0\">\n<table>\n<thead><tr><th>ranks</th><th>reads</th>\
         <th>bytes read (B)</th><th>busy reading (s)</th><th>writes</th><th>bytes written (B)</th><th>busy writing (s)</th></tr></thead>\n<tbody>\n",
    );
    for row in &timeline.rows {
        let name = match (row.first_rank, row.last_rank) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first} to {last}"),
        };
        let _ = write!(html, "<tr><td>{name}</td>");
        for RowSums { calls, bytes, busy_s, .. } in [&row.reads, &row.writes] {
            let _ = write!(
                html,
                "<td data-v=\"{calls}\">{calls}</td><td data-v=\"{bytes}\">{}</td><td data-v=\"{busy_s}\">{}</td>",
                text::digits(*bytes, 6),
                text::digits(*busy_s, 4)
            );
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table>\n</div>\n</details>\n"
}

fn base36(mut n: u64) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut digits = Vec::new();
    loop {
        digits.push(DIGITS[(n % 36) as usize]);
        n /= 36;
        if n == 0 {
            break;
        }
    }
    digits.iter().rev().map(|&digit| char::from(digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_base_36_are_those_that_scripts_read() {
        assert_eq!([0, 35, 36, 1 << 20].map(base36), ["0", "z", "10", "mh34"]);
        assert_eq!(u64::from_str_radix("mh34", 36), Ok(1 << 20));
    }
}
