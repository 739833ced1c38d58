//! Pictures of a run: bandwidth over time, the beat, one period, spectrum, autocorrelation.

use std::fmt::Write;

use iotide_analysis::RunAnalysis;
use iotide_look::chart::{Axis, Band, BandKind, EMBEDDED, Look, Mark, Series, Xs, highest, merged};
use iotide_look::html::capitalised;
use iotide_look::palette::N_COLOURS;
use iotide_look::{Plot, text};
use iotide_num::{autocorrelation, quantile, spectrum};
use iotide_trace::{Direction, SampledSignal, StepSignal};

use crate::zero::Zero;
pub use dft::pictures_of_dft;
pub use flows::are_both_seen;

mod beat;
mod dft;
mod flows;

/// Returns the pictures of one run, in the order they are read; its bandwidth is that of the bytes that were analysed.
pub fn pictures(run: &RunAnalysis) -> Vec<Plot> {
    pictures_of(run, None, Zero::of(Some(run.signal.start_s), None))
}

/// The same with reads and writes together, all of them between these moments: what was analysed may be a part, or one direction only.
pub fn pictures_of_both(
    run: &RunAnalysis,
    reads: &StepSignal,
    writes: &StepSignal,
    between_s: (Option<f64>, Option<f64>),
    zero: Zero,
) -> Vec<Plot> {
    let spans = || [reads, writes].into_iter().filter_map(StepSignal::span);
    let (first_s, last_s) = (run.signal.start_s, run.signal.end_s());
    let from_s = between_s.0.unwrap_or_else(|| spans().map(|it| it.start.as_secs()).fold(first_s, f64::min));
    let until_s = between_s.1.unwrap_or_else(|| spans().map(|it| it.end.as_secs()).fold(last_s, f64::max));
    let both = Both { reads, writes, from_s: from_s.min(first_s), until_s: until_s.max(last_s) };
    pictures_of(run, Some(both), zero)
}

/// Reads and writes, and the part of them that is shown.
#[derive(Clone, Copy)]
struct Both<'a> {
    reads: &'a StepSignal,
    writes: &'a StepSignal,
    from_s: f64,
    until_s: f64,
}

fn pictures_of(run: &RunAnalysis, both: Option<Both<'_>>, zero: Zero) -> Vec<Plot> {
    let mut plots = vec![bandwidth_plot(run, both, zero)];
    plots.extend(beat::plot(run, zero));
    plots.extend(fold_plot(run));
    plots.extend(spectrum_plot(run));
    plots.extend(autocorrelation_plot(run));
    plots
}

fn bandwidth_plot(run: &RunAnalysis, both: Option<Both<'_>>, zero: Zero) -> Plot {
    let SampledSignal { start_s, rate_hz, ref values, .. } = run.signal;
    let (estimate, end_s) = (&run.estimate, run.signal.end_s());
    let (mut bands, keys, marks) = rhythm_bands(run);
    let from_s = both.map_or(start_s, |both| both.from_s);
    let mut until_s = both.map_or(end_s, |both| both.until_s);
    let mut caption = format!("{} over time, as it was analysed.", capitalised(moved(run.direction)));
    if !bands.is_empty() {
        caption += match estimate.rhythms.len() {
            0 | 1 => " Shaded: the phases.",
            _ => " Shaded: the phases, a colour for each rhythm.",
        };
    }
    if let (Some(next_s), Some(period_s)) = (estimate.next_phase_s, estimate.period_s) {
        let lengths: Vec<f64> = estimate.phases.iter().map(|phase| phase.end_s - phase.start_s).collect();
        let length_s = quantile(&lengths, 0.5).unwrap_or(period_s * 0.1).max(period_s * 0.01);
        // A phase expected within the data is no forecast, and one far beyond them would squeeze the data.
        if next_s + length_s > end_s && next_s < end_s + 2.0 * period_s {
            bands.push(Band {
                from: next_s,
                to: next_s + length_s,
                kind: BandKind::Expected,
                colour: 0,
                lane: 0,
            });
            until_s = until_s.max(next_s + length_s * 1.3);
            let _ = write!(caption, " Hatched: the next one is expected at {}.", zero.moment(next_s));
        }
    }
    let mut series: Vec<Series> =
        both.map_or(Vec::new(), |it| flows::series(it.reads, it.writes, it.from_s, it.until_s));
    if series.is_empty() {
        let mut analysed = Series::even("", Look::Area, start_s, 1.0 / rate_hz, values);
        analysed.step = true;
        series.push(analysed);
    } else {
        caption = caption.replacen(
            &format!("{} over time, as it was analysed.", capitalised(moved(run.direction))),
            &format!(
                "Bytes read and written over time{}; the rhythm is that of the {}. Where many bursts share a pixel, the pale part \
                 reaches up to the highest and the strong part to the lowest.",
                if series.iter().any(|it| it.look == Look::Below) { ", reads below the middle" } else { "" },
                moved(run.direction)
            ),
            1,
        );
    }
    let top = series.iter().map(|series| highest(&series.mid).max(highest(&series.hi))).fold(0.0, f64::max);
    let y = Axis::bandwidth("bandwidth", top);
    Plot {
        name: "bandwidth",
        title: "Bandwidth over time",
        caption,
        x: zero.axis(from_s, until_s),
        y: match hidden_level(&series, &bands, top) {
            Some(level) => y.logarithmic((level / 100.0).max(top / 1e6)),
            None => y,
        },
        bands,
        series,
        marks,
        dots: Vec::new(),
        keys,
    }
}

/// Returns what a scale that reaches up to `top` would make next to flat: the peak of most phases or, where there are none, the bandwidth most of the time
/// in which anything is moved.
fn hidden_level(series: &[Series], bands: &[Band], top: f64) -> Option<f64> {
    /// The part of a scale below which a phase is not seen as one.
    const SEEN: f64 = 0.04;
    let phases = bands.iter().filter(|band| band.kind == BandKind::Phase);
    let mut levels: Vec<f64> = phases
        .map(|band| series.iter().map(|series| series.peak(band.from, band.to)).fold(0.0, f64::max))
        .collect();
    if levels.is_empty() {
        levels = series.iter().flat_map(|series| series.mid.iter().copied()).collect();
    }
    levels.retain(|&level| level > 0.0);
    quantile(&levels, 0.5).filter(|&level| level < SEEN * top)
}

/// The phases of every rhythm, what the legend says of them, and where a rhythm follows another.
fn rhythm_bands(run: &RunAnalysis) -> (Vec<Band>, Vec<(String, String)>, Vec<Mark>) {
    let (estimate, gap_s) = (&run.estimate, run.signal.duration_s / EMBEDDED as f64);
    let (mut bands, mut keys, mut marks) = (Vec::new(), Vec::new(), Vec::new());
    let mut taken: Vec<&iotide_analysis::Rhythm> = Vec::new();
    let mut lane = 0;
    let shaded = |phases: &[iotide_analysis::Phase], colour: usize, lane: usize| {
        let mut bands: Vec<Band> = (phases.iter())
            .map(|phase| Band { from: phase.start_s, to: phase.end_s, kind: BandKind::Phase, colour, lane })
            .collect();
        bands.sort_unstable_by(|a, b| a.from.total_cmp(&b.from));
        merged(&bands, gap_s)
    };
    let rhythms = (estimate.rhythms.iter()).filter(|rhythm| !rhythm.phases.is_empty()).take(N_COLOURS);
    for (colour, rhythm) in rhythms.enumerate() {
        let is_apart =
            (taken.iter()).all(|other| rhythm.start_s >= other.end_s || other.start_s >= rhythm.end_s);
        if is_apart {
            taken.push(rhythm);
        } else {
            lane += 1;
        }
        bands.extend(shaded(&rhythm.phases, colour, if is_apart { 0 } else { lane }));
        keys.push((format!("phase p{colour}"), format!("every {}", text::seconds(rhythm.period_s))));
    }
    taken.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    marks.extend(taken.iter().skip(1).map(|rhythm| Mark {
        at: rhythm.start_s,
        label: format!("every {}", text::seconds(rhythm.period_s)),
        strong: false,
    }));
    if keys.is_empty() && !estimate.phases.is_empty() {
        bands = shaded(&estimate.phases, 0, 0);
    }
    if keys.len() < 2 && !bands.is_empty() {
        keys = vec![("phase p0".to_owned(), "phase".to_owned())];
    }
    (bands, keys, marks)
}

/// All periods laid over each other.
fn fold_plot(run: &RunAnalysis) -> Option<Plot> {
    let period_s = run.estimate.period_s?;
    let signal = &run.signal;
    let per_period = period_s * signal.rate_hz;
    // A rhythm that begins late or is followed by another is not that of the rest.
    let main = run.estimate.rhythms.first().map_or(&[][..], |rhythm| &rhythm.phases);
    let (from_s, until_s) = match main {
        [first, .., last] => (first.start_s - 0.1 * period_s, last.start_s + 0.9 * period_s),
        _ => (signal.start_s, signal.end_s()),
    };
    let n_periods = (until_s.min(signal.end_s()) - from_s.max(signal.start_s)) / period_s;
    let n_bins = (per_period as usize).clamp(1, 200);
    if n_periods < 2.0 || per_period < 4.0 {
        return None;
    }
    // Begin a tenth of a period before a phase, so that no phase is cut in two.
    let first = main.first().or(run.estimate.phases.first());
    let anchor_s = first.map_or(signal.start_s, |phase| phase.start_s) - 0.1 * period_s;
    let mut bins = vec![Vec::new(); n_bins];
    for (i, &value) in signal.values[..signal.n_whole()].iter().enumerate() {
        if !(from_s..until_s).contains(&signal.time_s(i)) {
            continue;
        }
        let share = ((signal.time_s(i) - anchor_s) / period_s).rem_euclid(1.0);
        bins[((share * n_bins as f64) as usize).min(n_bins - 1)].push(value);
    }
    let of_bins = |q: f64| bins.iter().map(|bin| quantile(bin, q).unwrap_or(0.0)).collect::<Vec<_>>();
    let means: Vec<f64> =
        bins.iter().map(|bin| bin.iter().sum::<f64>() / (bin.len() as f64).max(1.0)).collect();
    let step = period_s / n_bins as f64;
    let (lo, hi) = (of_bins(0.1), of_bins(0.9));
    let top = highest(&hi).max(highest(&means));
    let ribbon =
        Series { lo, hi, ..Series::even("80 % of the periods", Look::Ribbon, step / 2.0, step, &means) };
    Some(Plot {
        name: "period",
        title: "One period",
        caption: format!(
            "All periods of {} laid over each other: the narrower the band, the more alike they are.",
            text::seconds(period_s)
        ),
        x: Axis::time("time within the period", 0.0, period_s),
        y: Axis::bandwidth("bandwidth", top),
        bands: Vec::new(),
        series: vec![ribbon, Series::even("mean", Look::Line, step / 2.0, step, &means)],
        marks: Vec::new(),
        dots: Vec::new(),
        keys: Vec::new(),
    })
}

fn spectrum_plot(run: &RunAnalysis) -> Option<Plot> {
    /// The best candidates; more would only be a fence.
    const MARKED: usize = 3;
    let signal = &run.signal;
    let n = signal.n_whole();
    if n < 8 {
        return None;
    }
    let spectrum = spectrum(&signal.values[..n]);
    let amplitudes: Vec<f64> =
        spectrum.magnitudes[1..].iter().map(|magnitude| 2.0 * magnitude / n as f64).collect();
    let frequency_hz = |k: usize| (k + 1) as f64 * signal.rate_hz / n as f64;
    let (lo, hi) = (frequency_hz(0), frequency_hz(amplitudes.len() - 1));
    // On a logarithmic axis the low bins stand alone and the high ones crowd: the highest of a crowd is kept.
    let (mut xs, mut peaks): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut column = -1;
    for (k, &amplitude) in amplitudes.iter().enumerate() {
        let here = ((frequency_hz(k) / lo).ln() / (hi / lo).ln() * EMBEDDED as f64 / 2.0) as i64;
        match peaks.last_mut() {
            Some(peak) if here == column => {
                if amplitude > *peak {
                    *peak = amplitude;
                    xs[peaks.len() - 1] = frequency_hz(k);
                }
            }
            _ => {
                xs.push(frequency_hz(k));
                peaks.push(amplitude);
            }
        }
        column = here;
    }
    let marks = (run.estimate.rhythms.iter())
        .map(|rhythm| (rhythm.period_s, true))
        .chain(run.estimate.period_s.map(|period_s| (period_s, true)))
        .chain(run.estimate.candidates.iter().take(MARKED).map(|candidate| (candidate.period_s, false)))
        .map(|(period_s, strong)| Mark { at: 1.0 / period_s, label: text::seconds(period_s), strong });
    let mut seen: Vec<Mark> = Vec::new();
    for mark in marks {
        if !seen.iter().any(|other| (other.at / mark.at - 1.0).abs() < 5e-3) {
            seen.push(mark);
        }
    }
    seen.sort_unstable_by(|a, b| a.at.total_cmp(&b.at));
    let caption = match (seen.iter().any(|mark| mark.strong), seen.is_empty()) {
        (true, _) => {
            "How strong each frequency is. Marked: the period that was found, and fainter what was considered."
        }
        (false, false) => "How strong each frequency is. Marked: what was considered, and not believed.",
        (false, true) => "How strong each frequency is. None stands out as a period.",
    };
    let series = Series {
        label: "".into(),
        look: Look::Line,
        colour: 0,
        step: false,
        x: Xs::At(xs),
        mid: peaks.clone(),
        lo: Vec::new(),
        hi: Vec::new(),
    };
    Some(Plot {
        name: "spectrum",
        title: "Spectrum",
        caption: caption.to_owned(),
        x: Axis::linear("frequency", lo, hi, 1.0, "Hz").logarithmic(lo),
        y: Axis::bandwidth("amplitude", highest(&peaks)),
        bands: Vec::new(),
        series: vec![series],
        marks: seen,
        dots: Vec::new(),
        keys: Vec::new(),
    })
}

fn autocorrelation_plot(run: &RunAnalysis) -> Option<Plot> {
    let signal = &run.signal;
    let n = signal.n_whole();
    if n < 8 {
        return None;
    }
    let mut rho = autocorrelation(&signal.values[..n]);
    // Beyond half the run a value rests on less than half the data.
    rho.truncate(n / 2 + 1);
    let longest_s = (rho.len() - 1) as f64 / signal.rate_hz;
    let mut dots = Vec::new();
    let mut marks = Vec::new();
    let period_s = run.estimate.period_s.or(run.estimate.autocorrelation.as_ref().map(|acf| acf.period_s));
    if let Some(period_s) = period_s.filter(|&period_s| period_s * signal.rate_hz >= 2.0) {
        let n_multiples = ((longest_s / period_s) as usize).min(200);
        for multiple in 1..=n_multiples {
            let around =
                |shift: f64| ((multiple as f64 + shift) * period_s * signal.rate_hz).round() as usize;
            let (from, to) = (around(-0.25), around(0.25).min(rho.len() - 1));
            let best = (from..=to).max_by(|&a, &b| rho[a].total_cmp(&rho[b]));
            if let Some(best) = best.filter(|&best| best > from && best < to && rho[best] > 0.0) {
                dots.push([best as f64 / signal.rate_hz, rho[best]]);
            }
        }
        let strong = run.estimate.period_s.is_some();
        marks.push(Mark { at: period_s, label: text::seconds(period_s), strong });
    }
    let lowest = rho.iter().copied().fold(0.0, f64::min);
    let dotted = match (run.estimate.period_s, period_s) {
        _ if dots.is_empty() => "A rhythm would show as even peaks.".to_owned(),
        (None, Some(period_s)) => {
            format!(
                "Dots: the peaks at multiples of {}, which was considered, and not believed.",
                text::seconds(period_s)
            )
        }
        _ => "Dots: the peaks at multiples of the period.".to_owned(),
    };
    let caption = format!("How much the signal resembles itself some time later. {dotted}");
    Some(Plot {
        name: "autocorrelation",
        title: "Autocorrelation",
        caption,
        x: Axis::time("shifted by", 0.0, longest_s),
        y: Axis::linear("autocorrelation", (lowest * 5.0).floor() / 5.0, 1.0, 1.0, ""),
        bands: Vec::new(),
        series: vec![Series::even("", Look::Line, 0.0, 1.0 / signal.rate_hz, &rho)],
        marks,
        dots,
        keys: Vec::new(),
    })
}

fn moved(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "bytes read",
        Direction::Write => "bytes written",
        Direction::Both => "bytes read and written",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{aperiodic, long, periodic, since_1970};

    fn named<'a>(plots: &'a [Plot], name: &str) -> &'a Plot {
        plots.iter().find(|plot| plot.name == name).unwrap_or_else(|| panic!("no picture {name}"))
    }

    #[test]
    fn a_periodic_run_has_five_pictures_and_an_aperiodic_one_no_fold() {
        let names = |plots: Vec<Plot>| plots.iter().map(|plot| plot.name).collect::<Vec<_>>().join(" ");
        assert_eq!(names(pictures(&periodic().0)), "bandwidth beat period spectrum autocorrelation");
        assert_eq!(names(pictures(&aperiodic().0)), "bandwidth spectrum autocorrelation");
    }

    #[test]
    fn a_long_run_has_no_more_points_than_a_screen_has_pixels() {
        let plots = pictures(&long());
        for plot in &plots {
            let svg = plot.to_svg();
            for path in svg.split("<path").skip(1) {
                let points = path.split("/>").next().unwrap().matches(['L', 'M']).count();
                assert!(points <= 2000, "{}: {points} points", plot.name);
            }
            assert!(plot.to_json().len() < 400_000, "{}: {} bytes", plot.name, plot.to_json().len());
        }
    }

    #[test]
    fn a_burst_of_one_sample_is_seen_however_long_the_run() {
        let mut run = long();
        run.signal.values.fill(1.0);
        run.signal.values[123_456] = 1000.0;
        let plots = pictures(&run);
        let plot = named(&plots, "bandwidth");
        let highest = plot.series[0].columns(&plot.x).iter().map(|column| column.hi).fold(0.0, f64::max);
        assert_eq!(highest, 1000.0);
    }

    #[test]
    fn the_spectrum_peaks_where_the_period_is() {
        let run = periodic().0;
        let plots = pictures(&run);
        let series = &named(&plots, "spectrum").series[0];
        let peak = (0..series.mid.len()).max_by(|&a, &b| series.mid[a].total_cmp(&series.mid[b])).unwrap();
        assert!((1.0 / series.x.at(peak) - 5.0).abs() < 0.3, "{} Hz", series.x.at(peak));
    }

    #[test]
    fn the_peaks_of_the_autocorrelation_lie_at_multiples_of_the_period() {
        let plots = pictures(&periodic().0);
        let dots = &named(&plots, "autocorrelation").dots;
        assert!(dots.len() >= 3, "{dots:?}");
        for (i, [lag_s, _]) in dots.iter().enumerate() {
            assert!((lag_s - 5.0 * (i + 1) as f64).abs() < 0.2, "{dots:?}");
        }
    }

    #[test]
    fn clocks_since_1970_have_room_for_their_ticks() {
        let plots = pictures(&since_1970());
        assert_eq!(named(&plots, "bandwidth").x.label, "time after 2023-11-14 22:13:20 UTC (s)");
        assert_eq!(named(&plots, "bandwidth").x.ticks(4)[1].label, "10");
    }

    #[test]
    fn periods_are_laid_over_each_other_only_where_their_rhythm_holds() {
        let (mut run, _) = periodic();
        let period_s = run.estimate.period_s.unwrap();
        let whole = named(&pictures(&run), "period").numbers();
        // Before the third phase another rhythm held: what was moved then is not of this one.
        run.estimate.rhythms[0].phases.drain(..2);
        let until_s = run.estimate.rhythms[0].phases[0].start_s - 0.2 * period_s;
        let rate_hz = run.signal.rate_hz;
        let n = ((until_s - run.signal.start_s) * rate_hz) as usize;
        run.signal.values[..n].fill(1e15);
        let part = named(&pictures(&run), "period").numbers();
        assert!(part.rows.iter().flatten().all(|&value| value < 1e14), "{part:?}");
        assert_eq!(part.rows.len(), whole.rows.len());
    }

    #[test]
    fn an_svg_is_well_formed_and_stands_alone() {
        for plot in pictures(&periodic().0) {
            let svg = plot.to_svg();
            assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
            assert!(svg.contains("<style>") && !svg.contains("NaN") && !svg.contains("inf"), "{}", plot.name);
            let opened = svg.matches("<g").count();
            assert_eq!(opened, svg.matches("</g>").count(), "{}", plot.name);
            assert!(!svg.contains("href"), "{}", plot.name);
        }
    }

    #[test]
    fn a_run_of_almost_nothing_has_a_picture_too() {
        let mut run = periodic().0;
        run.signal.values = vec![0.0, 0.0];
        run.signal.duration_s = 0.02;
        run.estimate = Default::default();
        for plot in pictures(&run) {
            assert!(!plot.to_svg().contains("NaN"), "{}", plot.to_svg());
        }
    }
}
