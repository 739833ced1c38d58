//! The beat over time: how far apart a rhythm's phases begin, with what was missed.

use iotide_analysis::{Rhythm, RunAnalysis};
use iotide_look::chart::{Axis, Band, BandKind, EMBEDDED, Look, Mark, Series, Xs};
use iotide_look::palette::N_COLOURS;
use iotide_look::{Plot, text};

use crate::rhythm::pauses;
use crate::zero::Zero;

/// So many missed beats are marked one by one; more would be a line.
const MARKED: usize = 400;

/// Distances beyond so many beats are pauses; the picture ends there.
const HIGHEST: f64 = 3.4;

/// Returns the picture, if a rhythm has phases.
pub(super) fn plot(run: &RunAnalysis, zero: Zero) -> Option<Plot> {
    let rhythms: Vec<&Rhythm> =
        (run.estimate.rhythms.iter()).filter(|rhythm| rhythm.phases.len() >= 3).take(N_COLOURS).collect();
    let beats = || rhythms.iter().map(|rhythm| rhythm.period_s);
    let (shortest_s, longest_s) = (beats().fold(f64::INFINITY, f64::min), beats().fold(0.0, f64::max));
    if rhythms.is_empty() {
        return None;
    }
    let (start_s, end_s) = (run.signal.start_s, run.signal.end_s());
    let (mut bands, mut marks, mut dots, mut keys) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut lines, mut points) = (Vec::new(), Vec::new());
    for (colour, rhythm) in rhythms.iter().enumerate() {
        lines.push(beat_line(rhythm, colour));
        points.push(distances(rhythm, colour));
        dots.extend(missed(rhythm));
        for pause in pauses(rhythm) {
            let (from, to) = (pause.start_s, pause.end_s);
            bands.push(Band { from, to, kind: BandKind::Pause, colour, lane: 0 });
            let label = format!("pause of {}", text::seconds(to - from));
            marks.push(Mark { at: from, label, strong: false });
        }
        if rhythms.len() > 1 {
            keys.push((format!("points c{colour}"), format!("every {}", text::seconds(rhythm.period_s))));
        }
    }
    let mut caption = String::from(
        "Time from the start of each phase to the start of the next. The line is the beat: the closer the dots are to \
         it, the more even the rhythm.",
    );
    if !dots.is_empty() {
        caption += " Red: beats without a phase.";
    }
    if !bands.is_empty() {
        caption += " Grey: pauses.";
    }
    bands.sort_unstable_by(|a, b| a.from.total_cmp(&b.from));
    marks.sort_unstable_by(|a, b| a.at.total_cmp(&b.at));
    bands.truncate(MARKED);
    marks.truncate(MARKED);
    dots.truncate(MARKED);
    let most_s =
        rhythms.iter().flat_map(|rhythm| steps_s(rhythm)).map(|(_, step_s)| step_s).fold(0.0, f64::max);
    let top_s = (1.15 * most_s).clamp(1.5 * longest_s, HIGHEST * longest_s);
    let y = Axis::time("distance", 0.0, top_s);
    let y = if longest_s > 4.0 * shortest_s { y.logarithmic(shortest_s / 2.0) } else { y };
    // What a reader points at is read from the last series: the rhythm that moves most bytes.
    points.reverse();
    Some(Plot {
        name: "beat",
        title: "Beat over time",
        caption,
        x: zero.axis(start_s, end_s),
        y,
        bands,
        series: lines.into_iter().chain(points).collect(),
        marks,
        dots,
        keys,
    })
}

/// The distances from phase to phase with the moments of the later ones; no pauses, and none that fell together.
fn steps_s(rhythm: &Rhythm) -> impl Iterator<Item = (f64, f64)> {
    (rhythm.phases.windows(2))
        .map(|pair| (pair[1].start_s, pair[1].start_s - pair[0].start_s))
        .filter(|(_, step_s)| *step_s > 0.0 && *step_s < HIGHEST * rhythm.period_s)
}

fn distances(rhythm: &Rhythm, colour: usize) -> Series {
    let steps: Vec<(f64, f64)> = steps_s(rhythm).collect();
    let chunks = || steps.chunks(steps.len().div_ceil(EMBEDDED).max(1));
    let of = |pick: fn(&[(f64, f64)]) -> f64| chunks().map(pick).collect::<Vec<f64>>();
    let is_thin = steps.len() <= EMBEDDED;
    let lowest = |part: &[(f64, f64)]| part.iter().map(|step| step.1).fold(f64::INFINITY, f64::min);
    let highest = |part: &[(f64, f64)]| part.iter().map(|step| step.1).fold(0.0, f64::max);
    Series {
        label: "".into(),
        look: Look::Points,
        colour,
        step: false,
        x: Xs::At(of(|part| part[0].0)),
        mid: of(|part| part.iter().map(|step| step.1).sum::<f64>() / part.len() as f64),
        lo: if is_thin { Vec::new() } else { of(lowest) },
        hi: if is_thin { Vec::new() } else { of(highest) },
    }
}

fn beat_line(rhythm: &Rhythm, colour: usize) -> Series {
    Series {
        label: "".into(),
        look: Look::Beat,
        colour,
        step: false,
        x: Xs::At(vec![rhythm.start_s, rhythm.end_s]),
        mid: vec![rhythm.period_s; 2],
        lo: Vec::new(),
        hi: Vec::new(),
    }
}

/// Where a phase was due and none came, pauses left out; on the line of the beat.
fn missed(rhythm: &Rhythm) -> Vec<[f64; 2]> {
    let beat_s = rhythm.period_s;
    let mut dots = Vec::new();
    if rhythm.missed == 0 {
        return dots;
    }
    for (before, after) in rhythm.phases.windows(2).map(|pair| (pair[0].start_s, pair[1].start_s)) {
        let n_beats = ((after - before) / beat_s).round();
        // As many as `pauses` leaves.
        if (2.0..5.5).contains(&n_beats) && dots.len() < MARKED {
            let step_s = (after - before) / n_beats;
            dots.extend((1..n_beats as usize).map(|i| [before + i as f64 * step_s, beat_s]));
        }
    }
    dots
}
