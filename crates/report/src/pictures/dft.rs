//! Pictures of `--method dft`, after those of the FTIO paper: waves over the signal, and the score of each frequency.

use iotide_analysis::{RunAnalysis, Wave, reconstruct};
use iotide_look::chart::{Axis, EMBEDDED, Look, Mark, Series, Xs, highest};
use iotide_look::{Plot, text};
use iotide_num::{spectrum, z_scores};

use crate::zero::Zero;

/// Scores above this stand out.
const OUTLYING: f64 = 3.0;

/// Returns the pictures; a candidate has a score of at least `tolerance` times the highest.
pub fn pictures_of_dft(run: &RunAnalysis, tolerance: f64, zero: Zero) -> Vec<Plot> {
    waves(run, zero).into_iter().chain(scores(run, tolerance)).collect()
}

/// The dominant wave, and what the strongest waves together draw, over the signal.
fn waves(run: &RunAnalysis, zero: Zero) -> Option<Plot> {
    let signal = &run.signal;
    let all = &run.estimate.waves;
    let swings: Vec<Wave> = all.iter().copied().filter(|wave| wave.frequency_hz > 0.0).collect();
    if swings.is_empty() {
        return None;
    }
    let mean: Vec<Wave> = all.iter().copied().filter(|wave| wave.frequency_hz == 0.0).collect();
    // The wave of the period; without one, the strongest.
    let distance = |wave: &Wave| {
        run.estimate.period_s.map_or(0.0, |period_s| (wave.frequency_hz * period_s - 1.0).abs())
    };
    let dominant = *swings.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let step = 1.0 / signal.rate_hz;
    let sum_of = |waves: &[Wave]| reconstruct(&[mean.as_slice(), waves].concat(), signal);
    let (one, several) = (sum_of(&[dominant]), sum_of(&swings));
    let lowest = one.iter().chain(&several).copied().fold(0.0, f64::min);
    let top = [&signal.values, &one, &several].into_iter().map(|values| highest(values)).fold(0.0, f64::max);
    let mut measured = Series::even("signal", Look::Area, signal.start_s, step, &signal.values);
    measured.step = true;
    let line = |label, colour, values: &[f64]| Series {
        colour,
        ..Series::even(label, Look::Beat, signal.start_s, step, values)
    };
    let mut series = vec![measured];
    if swings.len() > 1 {
        series.push(line("sum of the strongest waves", 3, &several));
    }
    series.push(line("dominant wave", 0, &one));
    let error = run.reconstruction_error.map_or(String::new(), |error| {
        format!(" Together they draw the signal with an error of {}.", text::percent(error))
    });
    Some(Plot {
        name: "waves",
        title: "Waves over the signal",
        caption: format!(
            "The dominant wave ({}) and the sum of {} with the mean, over the samples.{error}",
            text::seconds(1.0 / dominant.frequency_hz),
            text::counted(swings.len() as u64, "wave")
        ),
        x: zero.axis(signal.start_s, signal.end_s()),
        y: Axis::bandwidth("bandwidth", top).down_to(1.06 * lowest),
        bands: Vec::new(),
        series,
        marks: Vec::new(),
        dots: Vec::new(),
        keys: Vec::new(),
    })
}

/// How far the power of each frequency stands out, with the thresholds and the candidates.
fn scores(run: &RunAnalysis, tolerance: f64) -> Option<Plot> {
    let signal = &run.signal;
    let n = signal.n_whole();
    if n < 8 {
        return None;
    }
    // Divided by the largest, so that squares neither overflow nor vanish.
    let largest = signal.values[..n].iter().fold(0.0f64, |most, value| most.max(value.abs()));
    let scaled: Vec<f64> = signal.values[..n].iter().map(|value| value / largest).collect();
    let powers = spectrum(&scaled).powers();
    let z = z_scores(&powers[1..])?;
    let frequency_hz = |i: usize| (i + 1) as f64 * signal.rate_hz / n as f64;
    let top = highest(&z);
    // The highest of a crowd is kept.
    let per_column = z.len().div_ceil(EMBEDDED).max(1);
    let (xs, mids): (Vec<f64>, Vec<f64>) = z
        .chunks(per_column)
        .enumerate()
        .filter_map(|(column, part)| {
            let best = (0..part.len()).max_by(|&a, &b| part[a].total_cmp(&part[b]))?;
            Some((frequency_hz(column * per_column + best), part[best]))
        })
        .unzip();
    let (lo, hi) = (frequency_hz(0), frequency_hz(z.len() - 1));
    let level = |colour, at: f64| Series {
        label: "".into(),
        look: Look::Beat,
        colour,
        step: false,
        x: Xs::At(vec![lo, hi]),
        mid: vec![at; 2],
        lo: Vec::new(),
        hi: Vec::new(),
    };
    let line = Series {
        label: "".into(),
        look: Look::Line,
        colour: 0,
        step: false,
        x: Xs::At(xs),
        mid: mids,
        lo: Vec::new(),
        hi: Vec::new(),
    };
    let period_s = run.estimate.period_s;
    let mut marks: Vec<Mark> = (run.estimate.candidates.iter())
        .map(|candidate| {
            let is_found =
                period_s.is_some_and(|period_s| (period_s / candidate.period_s - 1.0).abs() < 5e-3);
            let label =
                format!("{} ({})", text::seconds(candidate.period_s), text::percent(candidate.confidence));
            Mark { at: 1.0 / candidate.period_s, label, strong: is_found }
        })
        .collect();
    marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    marks.truncate(12);
    Some(Plot {
        name: "scores",
        title: "Scores of frequencies",
        caption: format!(
            "By how many standard deviations the power of each frequency exceeds the mean power. Candidates, marked with their confidence, exceed {OUTLYING} \
             and are at least {} of the highest.",
            text::percent(tolerance)
        ),
        x: Axis::linear("frequency", lo, hi, 1.0, "Hz").logarithmic(lo),
        y: Axis::linear("z-score", 0.0, top.max(OUTLYING) * 1.06, 1.0, ""),
        bands: Vec::new(),
        series: vec![level(3, OUTLYING), level(1, tolerance * top), line],
        marks,
        dots: Vec::new(),
        keys: vec![
            ("beat c3".to_owned(), format!("threshold {OUTLYING}")),
            ("beat c1".to_owned(), format!("{} of the highest", text::percent(tolerance))),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::periodic;

    #[test]
    fn the_dominant_wave_and_the_scores_are_drawn() {
        let run = periodic().0;
        let plots = pictures_of_dft(&run, 0.8, Zero::default());
        let names: Vec<&str> = plots.iter().map(|plot| plot.name).collect();
        assert_eq!(names, ["waves", "scores"]);
        let dominant = plots[0].series.iter().find(|series| series.label == "dominant wave").unwrap();
        // It is highest once a period of 5 s.
        let peaks = dominant.mid.windows(3).filter(|w| w[1] > w[0] && w[1] >= w[2]).count();
        assert!((9..=11).contains(&peaks), "{peaks}");
        for plot in &plots {
            let svg = plot.to_svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", plot.name);
        }
        assert!(plots[0].numbers().columns.iter().any(|name| name.starts_with("dominant wave")));
    }
}
