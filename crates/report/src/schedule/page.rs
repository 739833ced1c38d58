//! Policies side by side as one page: the verdict first, a tab for each scenario and each policy.

use std::fmt::Write;

use iotide_look::html::{capitalised, escape, head, own_style};
use iotide_look::text;

use super::{PolicyEntry, SimulationReport, signed_percent};

impl SimulationReport {
    pub(super) fn page(&self) -> String {
        let style = own_style(concat!(
            include_str!("../tables.css"),
            include_str!("../tabs.css"),
            include_str!("page.css")
        ));
        let mut html =
            head(&format!("{} · iotide simulate", self.workload.source.for_terminal()), &style, "");
        let _ = write!(
            html,
            "<main class=\"schedule\">\n<header><p class=\"path\">{}</p><h1>{}</h1>\n<p>{}</p>\n<p class=\"note\">{STRETCH}</p></header>\n",
            self.workload.source.for_html(),
            escape(&capitalised(&text::whole_numbers(&self.verdict()))),
            escape(&text::whole_numbers(&self.in_words())),
        );
        html += "<section class=\"tabs\">\n";
        for (i, scenario) in self.scenarios.iter().enumerate() {
            tab(&mut html, "scenario", i, &capitalised(&scenario.name));
            let _ = write!(
                html,
                "<div class=\"panel\">\n<h2>{}</h2>\n<p>{}</p>\n<div class=\"wide\" tabindex=\"0\">{}</div>\n<p class=\"note\">A box holds the middle half of the repetitions, its line \
                 is the median; whiskers reach to the lowest and the highest. The axes do not begin at 0.</p>\n",
                escape(&capitalised(&scenario.name)),
                escape(&scenario.in_words()),
                self.boxes(scenario, "")
            );
            html += "<div class=\"wide\" tabindex=\"0\"><table>\n";
            for (i, row) in self.rows(scenario).into_iter().enumerate() {
                let tag = if i == 0 { "th" } else { "td" };
                let cells: String = row
                    .iter()
                    .map(|cell| format!("<{tag}>{}</{tag}>", escape(&text::whole_numbers(cell))))
                    .collect();
                let _ = writeln!(html, "<tr>{cells}</tr>");
            }
            html += "</table></div>\n";
            for note in self.notes(scenario) {
                let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(&capitalised(&note)));
            }
            let drawn: Vec<(&PolicyEntry, String)> =
                self.entries(scenario).filter_map(|entry| Some((entry, self.timeline(entry, "")?))).collect();
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

    /// Which policy serves the worst-off job best, and by how much, in one sentence without a full stop.
    pub fn verdict(&self) -> String {
        let mut found = Vec::new();
        for scenario in &self.scenarios {
            let entries: Vec<(&PolicyEntry, f64)> =
                self.entries(scenario).filter_map(|entry| Some((entry, entry.max_stretch?))).collect();
            // Of those that the worst-off job cannot tell apart, the one that serves all best.
            let least = entries.iter().map(|(_, stretch)| *stretch).fold(f64::INFINITY, f64::min);
            let mean = |entry: &PolicyEntry| entry.geomean_stretch.unwrap_or(f64::INFINITY);
            let close = entries.iter().filter(|(_, stretch)| *stretch <= 1.01 * least);
            let best = close.min_by(|a, b| mean(a.0).total_cmp(&mean(b.0)));
            if let (Some(first), Some(best)) = (entries.first(), best) {
                found.push((scenario, first.0, best.0));
            }
        }
        let Some((scenario, first, winner)) = found.first() else {
            return "no policy could be measured".to_owned();
        };
        let in_scenario =
            if self.scenarios.len() > 1 { format!(" ({})", scenario.name) } else { String::new() };
        let (was, is) = (first.max_stretch.unwrap_or(1.0), winner.max_stretch.unwrap_or(1.0));
        if first.policy == winner.policy {
            return format!(
                "no policy serves the worst-off job better than {}, under which it takes {was:.2} times as long as alone{in_scenario}",
                first.policy
            );
        }
        let mean = match (first.geomean_stretch, winner.geomean_stretch) {
            (Some(was), Some(is)) if was > 0.0 => {
                format!("; the mean stretch changes by {}", signed_percent(is / was - 1.0))
            }
            _ => String::new(),
        };
        let n_same = found.iter().filter(|(_, _, best)| best.policy == winner.policy).count();
        let everywhere = match self.scenarios.len() {
            1 => String::new(),
            n => format!("; {} is the best in {n_same} of {n} scenarios", winner.policy),
        };
        format!(
            "under {} the worst-off job takes {is:.2} times as long as alone, under {} {was:.2} times{in_scenario}{mean}{everywhere}",
            winner.policy, first.policy
        )
    }
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
