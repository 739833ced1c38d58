//! How many jobs the storage carries, as a page: the number first, then what each number of jobs does to them.

use iotide_look::Plot;
use iotide_look::chart::{Axis, Look, Mark};
use iotide_look::html::{FOOT, SCRIPT, Section, capitalised, escape, head, own_style, table, tiles};
use iotide_look::text;

use iotide_report::words::{CARRY_HEAD, plain};
use iotide_report::{CarryEntry, CarryReport, Estimate};

use super::{line, mean_in_band};
use crate::Page;

impl Page for CarryReport {
    fn to_page(&self) -> Option<String> {
        Some(page(self))
    }

    fn pictures(&self) -> Vec<(String, String)> {
        plot(self).iter().map(|plot| (format!("{}.svg", plot.name), plot.to_svg())).collect()
    }
}

fn page(report: &CarryReport) -> String {
    let style = own_style(include_str!("../tables.css"));
    let title = format!("{} · iotide simulate system", report.workload.source.for_terminal());
    let mut html = head(&title, &style, SCRIPT);
    html += &format!(
        "<main>\n<header><p class=\"path\">{}</p><h1>{}</h1>\n<p>{}</p></header>\n",
        report.workload.source.for_html(),
        escape(&capitalised(&text::whole_numbers(&report.verdict()))),
        escape(&capitalised(&format!("{}.", report.head_lines().join("; ")))),
    );
    html += &tiles(head_tiles(report));
    Section::write_all(&sections(report), &mut html, "system");
    html += &format!("<script>{SCRIPT}</script>\n{FOOT}");
    html
}

fn head_tiles(report: &CarryReport) -> Vec<(&'static str, String)> {
    let carry = &report.carry;
    let mut tiles = Vec::new();
    tiles.extend(carry.jobs.map(|jobs| ("jobs at once", text::count(jobs))));
    tiles.extend(carry.interval.map(|[from, to]| ("from, to", format!("{from} to {to}"))));
    tiles.extend(carry.utilization.map(|busy| ("bottleneck busy", text::percent(busy))));
    tiles.extend(carry.knee_jobs.map(|jobs| ("full with", format!("{} jobs", plain(jobs)))));
    tiles
}

fn sections(report: &CarryReport) -> Vec<Section> {
    let section = |id, title: &str, body| Section { id, title: title.to_owned(), body, narrow: false };
    let mut sections: Vec<Section> =
        plot(report).iter().map(|plot| section(plot.name, plot.title, plot.to_figure("a"))).collect();
    let rows = report.carry_rows();
    if !rows.is_empty() {
        let body = format!("<div class=\"wide\" tabindex=\"0\">{}</div>", table(CARRY_HEAD, rows));
        sections.push(section("jobs", "One more, and twice as many", body));
    }
    let said = report.limit_lines();
    if !said.is_empty() {
        let said = said.iter().map(|said| format!("<p>{}.</p>\n", escape(&capitalised(said))));
        sections.push(section("limits", "What limits it", said.collect()));
    }
    sections
}

/// The slowdown with each number of jobs that was tried; nothing where the storage limits none.
fn plot(report: &CarryReport) -> Option<Plot> {
    let carry = &report.carry;
    let is_stretch = carry.limit.of == "stretch";
    let of = |step: &CarryEntry| if is_stretch { step.stretch } else { step.slowdown };
    let tried: Vec<(f64, Estimate)> =
        carry.steps.iter().filter_map(|step| Some((step.jobs as f64, of(step)?))).collect();
    let (xs, estimates): (Vec<f64>, Vec<Estimate>) = tried.into_iter().unzip();
    let (first, last) = (xs.first()?, xs.last()?);
    let highest = estimates.iter().map(|estimate| estimate.interval.map_or(estimate.mean, |[_, to]| to));
    let highest = highest.fold(carry.limit.factor, f64::max);
    let mut series = mean_in_band(&xs, &estimates);
    let mut limit = line("limit", Look::Beat, &[*first, *last], vec![carry.limit.factor; 2]);
    limit.colour = 1;
    series.push(limit);
    let what = if is_stretch { "a round of computing and a burst" } else { "a burst" };
    let share = text::percent(report.confidence);
    let banded = if report.repetitions > 1 {
        format!(" The line is the mean of the repetitions; the band holds {share} of them.")
    } else {
        String::new()
    };
    Some(Plot {
        name: "slowdown",
        title: "What each number of jobs does to them",
        caption: format!(
            "How many times as long as alone {what} takes, of the kind of job that is held up most.{banded}"
        ),
        x: Axis::linear("jobs at once", *first, *last, 1.0, ""),
        y: Axis::linear("times as long as alone", 1.0, 1.0 + 1.06 * (highest - 1.0), 1.0, ""),
        bands: Vec::new(),
        series,
        marks: carry
            .jobs
            .map(|jobs| Mark { at: jobs as f64, label: text::counted(jobs, "job"), strong: true })
            .into_iter()
            .collect(),
        dots: Vec::new(),
        keys: Vec::new(),
    })
}
