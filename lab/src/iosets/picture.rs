//! The experiment as one page: who was doing I/O when, and each metric of every repetition.

use std::fmt::Write as _;

use super::metrics::{Frame, Metrics, Phase, median};
use super::{FIGURES, MIB};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 90.0;
const ROW: f64 = 13.0;
const COLOURS: [&str; 4] = ["#8a8f98", "#c78a1b", "#1f77b4", "#2a9d5c"];

/// Returns a page that needs nothing beside it.
pub(super) fn page(
    names: &[&str],
    runs: &[Vec<Vec<Vec<Phase>>>],
    results: &[Vec<Metrics>],
    frame: Frame,
    table: &str,
) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>IO-Sets for real</title>\
         <style>body{font:14px system-ui,sans-serif;max-width:1000px;margin:2em auto;color:#222}\
         svg{display:block;margin:.5em 0 2em}text{font:11px system-ui,sans-serif;fill:#444}pre{overflow-x:auto}</style>\
         <h1>IO-Sets for real</h1><p>Sixteen jobs on one storage; the first has the short period. A bar is an I/O phase, \
         the darker the more of the bandwidth it had; the shaded stretch is the frame that is measured.</p>",
    );
    let _ = write!(page, "<pre>{table}</pre>{}", dots(names, results));
    for ((name, runs), colour) in names.iter().zip(runs).zip(COLOURS) {
        if let Some(run) = runs.first() {
            let _ = write!(page, "<h2>{name}</h2>{}", timeline(run, frame, colour));
        }
    }
    page + "</html>\n"
}

/// One row per job, a bar per phase.
fn timeline(run: &[Vec<Phase>], frame: Frame, colour: &str) -> String {
    let end_s = run.iter().flatten().map(|phase| phase.end_s).fold(frame.end_s, f64::max);
    let x = |at_s: f64| LEFT + (WIDTH - LEFT) * at_s / end_s;
    let height = ROW * run.len() as f64 + 22.0;
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\">");
    let _ = write!(
        svg,
        "<rect x=\"{:.1}\" y=\"0\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#f1f3f5\"/>",
        x(frame.begin_s),
        x(frame.end_s) - x(frame.begin_s),
        height - 20.0
    );
    for (index, phases) in run.iter().enumerate() {
        let y = ROW * index as f64;
        let _ = write!(svg, "<text x=\"0\" y=\"{:.1}\">job {}</text>", y + 10.0, super::job_id(index));
        for phase in phases {
            let rate = phase.bytes / (phase.end_s - phase.start_s).max(1e-9);
            let _ = write!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\" opacity=\"{:.2}\">\
                 <title>{:.2} s to {:.2} s, {:.0} MiB/s</title></rect>",
                x(phase.start_s),
                y + 1.0,
                (x(phase.end_s) - x(phase.start_s)).max(0.7),
                ROW - 2.0,
                (0.25 + 0.75 * rate / super::BANDWIDTH_BPS).min(1.0),
                phase.start_s,
                phase.end_s,
                rate / MIB,
            );
        }
    }
    for tick in 0..=8 {
        let at_s = end_s * f64::from(tick) / 8.0;
        let _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{at_s:.0} s</text>", x(at_s) - 8.0, height - 6.0);
    }
    svg + "</svg>"
}

/// One panel per metric, one column per policy: a dot for each repetition, a line at the median.
fn dots(names: &[&str], results: &[Vec<Metrics>]) -> String {
    let (panel, height) = (WIDTH / FIGURES.len() as f64, 200.0);
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\">");
    for (index, (title, figure)) in FIGURES.iter().enumerate() {
        let left = panel * index as f64;
        let most = results.iter().flatten().map(figure).fold(0.0, f64::max) * 1.1;
        let y = |value: f64| 170.0 - 145.0 * value / most;
        let _ = write!(svg, "<text x=\"{:.1}\" y=\"12\">{title}</text>", left + 4.0);
        for (arm, (runs, colour)) in results.iter().zip(COLOURS).enumerate() {
            let x = left + panel * (arm as f64 + 0.5) / names.len() as f64;
            for value in runs.iter().map(figure) {
                let _ = write!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\" opacity=\".7\"><title>{}: {value:.3}</title></circle>",
                    y(value),
                    names[arm]
                );
            }
            let middle = median(&runs.iter().map(figure).collect::<Vec<_>>());
            let _ = write!(
                svg,
                "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{2:.1}\" y2=\"{2:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/>\
                 <text x=\"{3:.1}\" y=\"{4:.1}\">{middle:.2}</text>",
                x - 14.0,
                x + 14.0,
                y(middle),
                x - 10.0,
                y(middle) - 7.0
            );
        }
        let _ = write!(
            svg,
            "<line x1=\"{left:.1}\" x2=\"{:.1}\" y1=\"170\" y2=\"170\" stroke=\"#ccc\"/>",
            left + panel - 12.0
        );
    }
    for (arm, (name, colour)) in names.iter().zip(COLOURS).enumerate() {
        let x = 4.0 + WIDTH / names.len() as f64 * arm as f64;
        let _ = write!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"190\" r=\"4\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"194\">{name}</text>",
            x + 4.0,
            x + 12.0
        );
    }
    svg + "</svg>"
}
