//! The page of the load: which job loads the storage now, and which will in the next minutes.

use std::fmt::Write;

use iotide_analysis::{busy_phases, usual_length_s};
use iotide_look::chart::{Axis, Band, BandKind, Look, Mark, Series, Xs};
use iotide_look::html::tiles;
use iotide_look::{Plot, Untrusted, text};

use super::jobs::live_rate;
use super::{Frame, Page, called, called_link, cell, job_link, phase_cells, sortable};
use crate::forecast::to_html;
use iotide_report::Forecast;

/// A job that runs.
#[derive(Clone, Debug, Default)]
pub struct JobLoad {
    /// Its id.
    pub job: Untrusted,
    /// Name of its program.
    pub name: Untrusted,
    /// Which application it is a run of.
    pub app: Untrusted,
    /// Whose it is.
    pub user: Untrusted,
    /// Bytes read per second now.
    pub read_bps: f64,
    /// Bytes written per second now.
    pub write_bps: f64,
    /// Bytes that it moved per second, in steps until now.
    pub past_bps: Vec<f64>,
    /// How far apart its phases are.
    pub period_s: Option<f64>,
    /// When the next one begins.
    pub next_phase_unix_s: Option<f64>,
    /// Bytes per phase.
    pub bytes_per_phase: Option<f64>,
}

/// Content of the page.
#[derive(Debug)]
pub struct LoadPage {
    /// How far apart rates are.
    pub step_s: f64,
    /// Steps before now; those after now are half as many.
    pub n_past: usize,
    /// All jobs that run.
    pub jobs: Vec<JobLoad>,
    /// The next minutes, simulated; `None` while the first is being made.
    pub forecast: Option<Forecast>,
}

/// So many steps are shown at least: four minutes, of two seconds each.
const MINUTES_STEPS: usize = 120;
/// Jobs with a colour of their own; the others are one.
const COLOURS: usize = 8;

impl JobLoad {
    fn now_bps(&self) -> f64 {
        self.read_bps + self.write_bps
    }

    /// Returns the expected bytes per second, in steps from now on: phases of the usual length, one each period. All are zero if it has no period.
    fn expected_bps(&self, now_unix_s: f64, step_s: f64, n: usize) -> Vec<f64> {
        let mut expected = vec![0.0; n];
        let (Some(period_s), Some(next), Some(bytes)) =
            (self.period_s.filter(|period_s| *period_s > 0.0), self.next_phase_unix_s, self.bytes_per_phase)
        else {
            return expected;
        };
        let usual = usual_length_s(&busy_phases(&self.past_bps, step_s)).unwrap_or(step_s);
        let length_s = usual.min(period_s);
        let mut from = next - now_unix_s;
        // A phase whose begin was missed is the one that goes on, or the next.
        while from + length_s <= 0.0 {
            from += period_s;
        }
        let end = n as f64 * step_s;
        while from < end {
            for (i, bps) in expected.iter_mut().enumerate() {
                let (start, stop) = (i as f64 * step_s, (i + 1) as f64 * step_s);
                let overlap = (stop.min(from + length_s) - start.max(from)).max(0.0);
                *bps += bytes / length_s * overlap / step_s;
            }
            from += period_s;
        }
        expected
    }
}

impl LoadPage {
    /// Leaves out steps before the first in which anything was moved, but for the last few.
    fn trim(&mut self) {
        let least = self.n_past.min(MINUTES_STEPS);
        let begins = |job: &JobLoad| job.past_bps.iter().position(|bps| *bps > 0.0);
        let first = self.jobs.iter().filter_map(begins).min().unwrap_or(self.n_past);
        let n_left_out = first.saturating_sub(2).min(self.n_past - least);
        self.n_past -= n_left_out;
        for job in &mut self.jobs {
            job.past_bps.drain(..n_left_out.min(job.past_bps.len()));
        }
    }
}

/// The page.
pub fn load_page(frame: &Frame<'_>, mut of: LoadPage) -> String {
    let mut page = Page::new("Load", "Who loads the storage");
    of.jobs.sort_by(|a, b| {
        let moved = |job: &JobLoad| job.past_bps.iter().sum::<f64>() * of.step_s + job.now_bps();
        moved(b).total_cmp(&moved(a))
    });
    of.trim();
    let n_future = of.n_past / 2;
    let expected: Vec<Vec<f64>> =
        of.jobs.iter().map(|job| job.expected_bps(frame.now_unix_s, of.step_s, n_future)).collect();
    let now: f64 = of.jobs.iter().map(JobLoad::now_bps).sum();
    let sum_at = |i: usize| expected.iter().map(|bps| bps[i]).sum::<f64>();
    let higher = |best: (usize, f64), i: usize| if sum_at(i) > best.1 { (i, sum_at(i)) } else { best };
    let peak = Some((0..n_future).fold((0, 0.0), higher)).filter(|(_, bps)| *bps > 0.0);
    let mut body = tiles([
        ("running jobs", text::count(of.jobs.len() as u64)),
        ("now", text::bandwidth(now)),
        ("highest expected", peak.map_or("–".to_owned(), |(_, bps)| text::bandwidth(bps))),
        ("expected in", peak.map_or("–".to_owned(), |(i, _)| text::seconds(i as f64 * of.step_s))),
    ]);
    if of.jobs.is_empty() {
        body += "<p class=\"note\">No job runs.</p>\n";
    } else {
        body += &chart(&of, &expected).to_figure("load");
    }
    page.live("chart", "The last and the next minutes", &body);
    let body = of.forecast.as_ref().map_or_else(
        || "<p class=\"note\">Being simulated; it is shown here in a moment.</p>\n".to_owned(),
        |forecast| to_html(forecast, frame.now_unix_s),
    );
    page.live("forecast", "The next ten minutes, simulated", &body);

    let rows: Vec<String> = (of.jobs.iter().zip(&expected))
        .enumerate()
        .map(|(i, (job, expected))| row(job, expected, i, now, of.step_s, frame.now_unix_s))
        .collect();
    if !rows.is_empty() {
        let heads = [
            "job",
            "application",
            "user",
            "reads now",
            "writes now",
            "share",
            "period",
            "next phase",
            "expected to move",
        ];
        let minutes = text::seconds(n_future as f64 * of.step_s);
        let mut body = sortable("running jobs", &heads, &rows);
        let _ = writeln!(
            body,
            "<p class=\"note\">Rates of now are over ten seconds. What is expected is over the next {minutes}, of jobs with a period: phases as long and as large as before.</p>"
        );
        page.live("jobs", "Jobs", &body);
    }
    page.finish(frame)
}

fn row(job: &JobLoad, expected: &[f64], i: usize, all_bps: f64, step_s: f64, now_unix_s: f64) -> String {
    let will = expected.iter().sum::<f64>() * step_s;
    let share = if all_bps > 0.0 { job.now_bps() / all_bps } else { 0.0 };
    format!(
        "<td><svg class=\"plot swatch\" viewBox=\"0 0 14 10\" aria-hidden=\"true\"><rect class=\"s{}\" width=\"14\" height=\"10\"/></svg> {}</td>\
         <td class=\"word\">{}</td><td class=\"word\">{}</td>{}{}{}{}{}",
        i.min(COLOURS),
        job_link(&job.job),
        called_link(&job.app, &job.name),
        job.user.shortened(24).for_html(),
        live_rate(&job.job, "read", Some(job.read_bps)),
        live_rate(&job.job, "write", Some(job.write_bps)),
        cell(share, &if all_bps > 0.0 { text::percent(share) } else { "–".to_owned() }),
        phase_cells(job.period_s, job.next_phase_unix_s, now_unix_s),
        cell(will, &if will > 0.0 { text::bytes(will) } else { "–".to_owned() }),
    )
}

/// Jobs on top of each other: the busiest below.
fn chart(of: &LoadPage, expected: &[Vec<f64>]) -> Plot {
    let n = of.n_past + expected.first().map_or(0, Vec::len);
    let start_s = -(of.n_past as f64) * of.step_s;
    let rates = |i: usize| -> Vec<f64> {
        let past = &of.jobs[i].past_bps;
        let missing = of.n_past.saturating_sub(past.len());
        std::iter::repeat_n(0.0, missing)
            .chain(past.iter().copied())
            .chain(expected[i].iter().copied())
            .take(n)
            .collect()
    };
    let mut ground = vec![0.0; n];
    let mut series = Vec::new();
    let n_own = if of.jobs.len() > COLOURS + 1 { COLOURS } else { of.jobs.len() };
    let mut put = |label: String, colour: usize, mid: Vec<f64>| {
        let lo = ground.clone();
        ground.iter_mut().zip(&mid).for_each(|(sum, bps)| *sum += bps);
        series.push(Series {
            label: label.into(),
            look: Look::Stack,
            colour,
            step: true,
            x: Xs::Even { start: start_s, step: of.step_s },
            mid,
            lo,
            hi: ground.clone(),
        });
    };
    for i in 0..n_own {
        let job = &of.jobs[i];
        let label = format!(
            "{} ({})",
            job.job.shortened(24).for_terminal(),
            called(&job.app, &job.name).shortened(24).for_terminal()
        );
        put(label, i.min(COLOURS), rates(i));
    }
    if n_own < of.jobs.len() {
        let mut others = vec![0.0; n];
        for i in n_own..of.jobs.len() {
            others.iter_mut().zip(rates(i)).for_each(|(sum, bps)| *sum += bps);
        }
        put(format!("{} others", of.jobs.len() - n_own), COLOURS, others);
    }
    let end_s = (n - of.n_past) as f64 * of.step_s;
    let most = ground.iter().copied().fold(1.0, f64::max);
    Plot {
        name: "load",
        title: "Bytes moved per second, by job",
        caption: "Bytes read and written per second, the jobs on top of each other. Right of \"now\", shaded: what is expected of jobs with a period.".to_owned(),
        x: Axis::time("time from now", start_s, end_s),
        y: Axis::bandwidth("bandwidth", most),
        bands: vec![Band { from: 0.0, to: end_s, kind: BandKind::Pause, colour: 0, lane: 0 }],
        series,
        marks: vec![Mark { at: 0.0, label: "now".to_owned(), strong: true }],
        dots: Vec::new(),
        keys: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_moves_what_its_phases_move() {
        let mut past_bps = vec![0.0; 60];
        for i in (0..60).step_by(6) {
            past_bps[i] = 1e6;
        }
        let job = JobLoad {
            past_bps,
            period_s: Some(60.0),
            next_phase_unix_s: Some(1030.0),
            bytes_per_phase: Some(1e7),
            ..JobLoad::default()
        };
        let expected = job.expected_bps(1000.0, 10.0, 30);
        // Phases at 30, 90, 150, 210 and 270 s.
        assert_eq!(expected.iter().filter(|bps| **bps > 0.0).count(), 5, "{expected:?}");
        assert!((expected.iter().sum::<f64>() * 10.0 - 5e7).abs() < 1.0, "{expected:?}");
        assert_eq!(expected[3], 1e6);
        // One whose begin was missed by far comes again a period later.
        let late = JobLoad { next_phase_unix_s: Some(0.0), ..job.clone() };
        assert!(late.expected_bps(1000.0, 10.0, 30).iter().any(|bps| *bps > 0.0));
        let aperiodic = JobLoad { period_s: None, ..job };
        assert!(aperiodic.expected_bps(1000.0, 10.0, 30).iter().all(|bps| *bps == 0.0));
    }
}
