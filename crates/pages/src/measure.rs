//! How jobs fared that really ran, as a page.

use std::fmt::Write;

use iotide_look::chart::{Axis, Band, BandKind, Look, Series, Xs, highest};
use iotide_look::html::{SCRIPT, escape, facts, head, own_style, sorted_cell};
use iotide_look::{Plot, text};
use iotide_report::{MeasureDocument, MeasureEntry};

use crate::{Page, section};

impl Page for MeasureDocument {
    fn to_page(&self) -> Option<String> {
        let measure = &self.measure;
        let headline = measure.headline();
        let mut html =
            head(&format!("{headline} · iotide measure"), &own_style(include_str!("tables.css")), SCRIPT);
        let _ =
            write!(html, "<main>\n<header><h1>{}</h1></header>\n", escape(&text::whole_numbers(&headline)));
        section(&mut html, "figures", "Figures", &facts(measure.facts()));
        if let Some(plot) = plot(measure) {
            section(&mut html, "load", "All jobs together", &plot.to_figure("measure"));
        }
        section(&mut html, "jobs", "Jobs", &job_table(measure));
        if !self.losses.is_empty() {
            let rows = self.losses.iter().map(|loss| ("loss", loss.what.for_terminal()));
            section(&mut html, "losses", "What is missing", &facts(rows));
        }
        let _ = write!(
            html,
            "</main>\n<footer>Made by iotide {}. The same numbers for scripts: <code>iotide measure --format json</code>.</footer>\n\
             <script>{SCRIPT}</script>\n</body>\n</html>\n",
            env!("CARGO_PKG_VERSION"),
        );
        Some(html)
    }

    fn pictures(&self) -> Vec<(String, String)> {
        plot(&self.measure).iter().map(|plot| (format!("{}.svg", plot.name), plot.to_svg())).collect()
    }
}

fn job_table(measure: &MeasureEntry) -> String {
    let mut html = String::from(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"sortable\">\n<thead><tr><th scope=\"col\">job</th><th scope=\"col\">stretch</th>\
         <th scope=\"col\">I/O slowdown</th><th scope=\"col\">phases</th><th scope=\"col\">every</th><th scope=\"col\">computing</th></tr></thead>\n<tbody>\n",
    );
    let figure = |value: Option<f64>| {
        sorted_cell(value.unwrap_or(-1.0), &value.map_or("–".to_owned(), |value| text::digits(value, 3)))
    };
    for job in &measure.jobs {
        let _ = writeln!(
            html,
            "<tr><td>{}</td>{}{}{}{}{}</tr>",
            job.name.for_html(),
            figure(job.stretch),
            figure(job.io_slowdown),
            sorted_cell(job.n_phases as f64, &text::count(job.n_phases)),
            sorted_cell(job.w_iter_s.unwrap_or(-1.0), &job.w_iter_s.map_or("–".to_owned(), text::seconds)),
            sorted_cell(job.compute_s, &text::seconds(job.compute_s)),
        );
    }
    html + "</tbody>\n</table></div>\n<p class=\"note\">Stretch: the time in the frame over the time that the job would have taken alone; \
            I/O slowdown: the same of its I/O.</p>\n"
}

/// Bandwidth of all jobs together, with the frame that was measured.
fn plot(measure: &MeasureEntry) -> Option<Plot> {
    let (at_s, bps) = together(measure);
    let end_s = at_s.last()?.max(measure.frame_s[1]);
    let top_bps = highest(&bps).max(measure.bandwidth_bps.unwrap_or(0.0));
    let mut series = vec![Series {
        label: "all jobs".into(),
        look: Look::Area,
        colour: 0,
        step: true,
        x: Xs::At(at_s),
        mid: bps,
        lo: Vec::new(),
        hi: Vec::new(),
    }];
    if let Some(alone_bps) = measure.bandwidth_bps {
        series.push(Series {
            label: "a job alone".into(),
            look: Look::Beat,
            colour: 2,
            step: false,
            x: Xs::At(vec![0.0, end_s]),
            mid: vec![alone_bps; 2],
            lo: Vec::new(),
            hi: Vec::new(),
        });
    }
    let [from, to] = measure.frame_s;
    Some(Plot {
        name: "together",
        title: "Bandwidth of all jobs",
        caption: "The time that is measured is shaded. Within a phase the bandwidth is its mean.".to_owned(),
        x: Axis::time("time since the first job began", 0.0, end_s),
        y: Axis::bandwidth("bandwidth", top_bps),
        bands: vec![Band { from, to, kind: BandKind::Phase, colour: 1, lane: 0 }],
        series,
        marks: Vec::new(),
        dots: Vec::new(),
        keys: vec![("phase p1".to_owned(), "measured".to_owned())],
    })
}

/// Sums the mean bandwidth of all phases: where it changes, and to what.
fn together(measure: &MeasureEntry) -> (Vec<f64>, Vec<f64>) {
    let mut changes: Vec<(f64, f64)> = Vec::new();
    for phase in measure.jobs.iter().flat_map(|job| &job.phases) {
        let bps = phase.bytes / (phase.end_s - phase.start_s);
        if bps.is_finite() {
            changes.extend([(phase.start_s, bps), (phase.end_s, -bps)]);
        }
    }
    changes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut bps = 0.0;
    let levels = changes.iter().map(|(_, by)| {
        bps += by;
        // What rounding leaves is nothing.
        f64::max(bps, 0.0)
    });
    let levels = levels.collect();
    (changes.iter().map(|(at_s, _)| *at_s).collect(), levels)
}
