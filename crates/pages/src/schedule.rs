//! Policies side by side as one page: the verdict first, a tab for each scenario and each policy.

use std::fmt::Write;

use iotide_look::chart::{Axis, LEFT, RIGHT, Tick, WIDTH};
use iotide_look::html::{capitalised, escape, head, own_style};
use iotide_look::palette::{LEVELS, style_element};
use iotide_look::text;
use iotide_report::{PolicyEntry, ScenarioEntry, SimulationReport};

use crate::Page;

impl Page for SimulationReport {
    fn to_page(&self) -> Option<String> {
        Some(page(self))
    }

    fn pictures(&self) -> Vec<(String, String)> {
        pictures(self)
    }
}

fn page(report: &SimulationReport) -> String {
    let style = own_style(concat!(
        include_str!("tables.css"),
        include_str!("tabs.css"),
        include_str!("schedule/page.css")
    ));
    let mut html = head(&format!("{} · iotide simulate", report.workload.source.for_terminal()), &style, "");
    let _ = write!(
        html,
        "<main class=\"schedule\">\n<header><p class=\"path\">{}</p><h1>{}</h1>\n<p>{}</p>\n<p class=\"note\">{STRETCH}</p></header>\n",
        report.workload.source.for_html(),
        escape(&capitalised(&text::whole_numbers(&report.verdict()))),
        escape(&text::whole_numbers(&report.in_words())),
    );
    html += "<section class=\"tabs\">\n";
    for (i, scenario) in report.scenarios.iter().enumerate() {
        tab(&mut html, "scenario", i, &capitalised(&scenario.name));
        let _ = write!(
            html,
            "<div class=\"panel\">\n<h2>{}</h2>\n<p>{}</p>\n<div class=\"wide\" tabindex=\"0\">{}</div>\n<p class=\"note\">A box holds the middle half of the repetitions, its line \
             is the median; whiskers reach to the lowest and the highest. The axes do not begin at 0.</p>\n",
            escape(&capitalised(&scenario.name)),
            escape(&scenario.in_words()),
            boxes(report, scenario, "")
        );
        html += "<div class=\"wide\" tabindex=\"0\"><table>\n";
        for (i, row) in report.rows(scenario).into_iter().enumerate() {
            let tag = if i == 0 { "th" } else { "td" };
            let cells: String = row
                .iter()
                .map(|cell| format!("<{tag}>{}</{tag}>", escape(&text::whole_numbers(cell))))
                .collect();
            let _ = writeln!(html, "<tr>{cells}</tr>");
        }
        html += "</table></div>\n";
        for note in report.notes(scenario) {
            let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(&capitalised(&note)));
        }
        let drawn: Vec<(&PolicyEntry, String)> = report
            .entries(scenario)
            .filter_map(|entry| Some((entry, timeline(report, entry, "")?)))
            .collect();
        if !drawn.is_empty() {
            html += "<h3>Who got the bandwidth when</h3>\n<div class=\"tabs\">\n";
            for (k, (entry, svg)) in drawn.iter().enumerate() {
                tab(&mut html, &format!("policy-{i}"), k, &entry.policy);
                let _ = writeln!(
                    html,
                    "<div class=\"panel\"><h3 class=\"printed\">{}</h3><div class=\"wide\" tabindex=\"0\">{svg}</div></div>",
                    escape(&entry.policy)
                );
            }
            html += "</div>\n";
        }
        html += "</div>\n";
    }
    let _ = write!(
        html,
        "</section>\n</main>\n<footer>Made by iotide {}.</footer>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    );
    html
}

fn pictures(report: &SimulationReport) -> Vec<(String, String)> {
    let style = style_element();
    let mut pictures = Vec::new();
    for (i, scenario) in report.scenarios.iter().enumerate() {
        pictures.push((format!("{i}-{}.svg", file_name(&scenario.name)), boxes(report, scenario, &style)));
        for entry in report.entries(scenario) {
            let name = format!("{i}-{}-{}.svg", file_name(&scenario.name), file_name(&entry.policy));
            pictures.extend(timeline(report, entry, &style).map(|svg| (name, svg)));
        }
    }
    pictures
}

/// The four numbers of each policy as boxes, like Figure 4 of the report.
fn boxes(report: &SimulationReport, scenario: &ScenarioEntry, style: &str) -> String {
    const TITLES: [&str; 4] = ["max stretch", "mean stretch (geometric)", "I/O slowdown", "utilisation"];
    const GAP: f64 = 52.0;
    let entries: Vec<&PolicyEntry> = report.entries(scenario).collect();
    let row_height = 22.0;
    let (top, height) = (34.0, 34.0 + row_height * entries.len() as f64 + 40.0);
    let left = 132.0;
    let panel = (RIGHT - left - 3.0 * GAP) / 4.0;
    let mut svg = opened_svg(&format!("{}: four numbers per policy", scenario.name), height, style);
    for (i, title) in TITLES.into_iter().enumerate() {
        let spreads: Vec<Option<[f64; 5]>> = entries.iter().map(|entry| entry.spread.all()[i]).collect();
        let known = || spreads.iter().flatten();
        let lowest = known().map(|spread| spread[0]).fold(f64::INFINITY, f64::min);
        let highest = known().map(|spread| spread[4]).fold(f64::NEG_INFINITY, f64::max);
        if !lowest.is_finite() {
            continue;
        }
        let margin = 0.06 * (highest - lowest).max(0.02 * highest.abs());
        let (factor, unit) = if i == 3 { (0.01, "%") } else { (1.0, "") };
        let axis = Axis::linear(title, lowest - margin, highest + margin, factor, unit);
        let from = left + i as f64 * (panel + GAP);
        let to = from + panel;
        let floor = height - 40.0;
        let _ = writeln!(
            svg,
            "<g class=\"axes\"><text class=\"name\" x=\"{from:.1}\" y=\"18\">{}</text>",
            escape(&axis.label)
        );
        for Tick { value, label } in axis.ticks(4) {
            let at = axis.at(value, from, to);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{floor:.1}\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                floor + 16.0
            );
        }
        svg.push_str("</g>\n");
        for (row, (entry, spread)) in entries.iter().zip(&spreads).enumerate() {
            let middle = top + row_height * (row as f64 + 0.5);
            if i == 0 {
                let _ = writeln!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                    left - 14.0,
                    middle + 4.0,
                    escape(&entry.policy)
                );
            }
            let Some(spread) = spread else { continue };
            let [low, lower, mid, upper, high] = spread.map(|value| axis.at(value, from, to));
            let _ = writeln!(
                svg,
                "<g><title>{}: {}</title><path class=\"line\" d=\"M{low:.1} {middle:.1}H{high:.1}\"/>\
                 <rect class=\"faint\" x=\"{lower:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\"/>\
                 <path class=\"line\" stroke-width=\"3\" d=\"M{mid:.1} {:.1}v12\"/></g>",
                escape(&entry.policy),
                spread.map(|value| text::digits(value, 3)).join(" "),
                middle - 6.0,
                (upper - lower).max(1.0),
                middle - 6.0
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Who moved how much when: a row per job, darker where it had more of the storage.
fn timeline(report: &SimulationReport, entry: &PolicyEntry, style: &str) -> Option<String> {
    let timeline = entry.timeline.as_ref()?;
    let n_rows = timeline.bytes.len();
    let n_bins = timeline.bytes.first()?.len();
    let row_height = (480.0 / n_rows as f64).clamp(3.0, 18.0);
    let (top, floor) = (28.0, 28.0 + row_height * n_rows as f64);
    let left = LEFT + 40.0;
    let mut svg = opened_svg(&format!("{}: bandwidth of each job", entry.policy), floor + 48.0, style);
    let axis = Axis::time("time", 0.0, timeline.bin_s * n_bins as f64);
    let _ = writeln!(
        svg,
        "<text class=\"name\" x=\"{left:.1}\" y=\"15\">bandwidth of each job, from pale (little) to dark (all of {})</text>",
        escape(&text::bandwidth(report.workload.bandwidth_bps))
    );
    let scale = (RIGHT - left) / n_bins as f64;
    let _ = writeln!(
        svg,
        "<rect class=\"field\" x=\"{left:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{:.1}\"/>\n\
         <g transform=\"translate({left:.1} {top}) scale({scale:.5} {row_height:.3})\" stroke-width=\"0.86\">",
        RIGHT - left,
        floor - top
    );
    let shades = shades(timeline, timeline.bin_s * report.workload.bandwidth_bps);
    for (level, path) in shades.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let _ = writeln!(svg, "<path class=\"w{level}\" d=\"{path}\"/>");
    }
    svg.push_str("</g>\n<g class=\"axes\">\n");
    if row_height >= 9.0 {
        // Where rows are lower than letters, every other one is named.
        let step = if row_height < 13.0 { 2 } else { 1 };
        for (row, job) in entry.jobs.iter().enumerate().step_by(step) {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                top + row_height * (row as f64 + 0.5) + 4.0,
                job.name.shortened(14).for_html()
            );
        }
    }
    for Tick { value, label } in axis.ticks(8) {
        let at = axis.at(value, left, RIGHT);
        let _ = writeln!(
            svg,
            "<line class=\"tick\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{floor:.1}\" y2=\"{:.1}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            floor + 5.0,
            floor + 18.0
        );
    }
    let from = axis.at(report.workload.frame_s[0], left, RIGHT);
    let _ = writeln!(
        svg,
        "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n</g>\n\
         <line class=\"mark\" x1=\"{from:.1}\" x2=\"{from:.1}\" y1=\"{top}\" y2=\"{floor:.1}\"/>\n\
         <text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\">measured from here on</text>\n</svg>",
        (left + RIGHT) / 2.0,
        floor + 38.0,
        escape(&axis.label),
        from + 5.0,
        top + 12.0
    );
    Some(svg)
}

/// The path of each shade, from pale to dark: stretches of bins in which a job moves alike, as a share of `full`.
fn shades(timeline: &iotide_sim::Timeline, full: f64) -> Vec<String> {
    let mut shades = vec![String::new(); LEVELS];
    for (row, bins) in timeline.bytes.iter().enumerate() {
        let level = |bytes: f64| match bytes / full {
            share if share < 0.005 => None,
            share => Some(((share * LEVELS as f64) as usize).min(LEVELS - 1)),
        };
        let mut from = 0;
        while from < bins.len() {
            let here = level(bins[from]);
            let mut to = from + 1;
            while to < bins.len() && level(bins[to]) == here {
                to += 1;
            }
            if let Some(here) = here {
                let _ = write!(shades[here], "M{from} {row}.5h{}", to - from);
            }
            from = to;
        }
    }
    shades
}

fn opened_svg(title: &str, height: f64, style: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" class=\"plot\" role=\"img\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"12\">\n\
         <title>{}</title>\n{style}\n",
        escape(title)
    )
}

const STRETCH: &str = "Stretch is how long a job took over how long it would have taken alone on the storage: 1 is undisturbed, 2 is twice as long. Max stretch is that of the \
     worst-off job, mean stretch the geometric mean of all. I/O slowdown is the same of the time in I/O only; utilisation is the share of the jobs' time that was spent computing.";

fn tab(html: &mut String, group: &str, i: usize, name: &str) {
    let _ = writeln!(
        html,
        "<input type=\"radio\" name=\"{group}\" id=\"{group}-{i}\"{}><label for=\"{group}-{i}\">{}</label>",
        if i == 0 { " checked" } else { "" },
        escape(name)
    );
}

fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::simulation as report;
    use crate::{plain_pages, steering};

    #[test]
    fn a_page_has_boxes_and_a_timeline_for_each_policy_and_asks_for_nothing() {
        let html = report("a").to_page().unwrap();
        assert_eq!(html.matches("<svg").count(), 3);
        let others = html.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "src=", "@import", "href=", "<script"] {
            assert!(!others.contains(outside), "{outside}");
        }
        insta::assert_snapshot!(report("a").verdict(), @"under set10 the worst-off job takes 1.04 times as long as alone, under none 1.14 times; the mean stretch changes by −8 %");
        assert!(html.contains("Stretch is how long a job took"), "{html}");
        assert!(html.contains("class=\"w7\""), "somebody has all of the storage at some time");
        let names: Vec<String> = report("a").pictures().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["0-ideal.svg", "0-ideal-none.svg", "0-ideal-set10.svg"]);
    }

    #[test]
    fn names_of_others_steer_neither_terminal_nor_page() {
        let name = steering::hostile("job");
        let report = report(&name);
        plain_pages::assert_steers_nothing(&report);
        let json: serde_json::Value =
            serde_json::from_str(&iotide_report::Document::to_json(&report)).unwrap();
        assert_eq!(
            (&json["workload"]["source"], &json["policies"][0]["jobs"][0]["name"]),
            (&name.clone().into(), &name.into())
        );
    }

    #[test]
    fn nothing_a_workload_says_becomes_markup() {
        let html = report("<b>\"'&</title><script>").to_page().unwrap();
        assert!(!html.contains("<b>") && !html.contains("<script"), "{html}");
        iotide_look::policy::assert_keeps_its_policy(&html);
    }
}
