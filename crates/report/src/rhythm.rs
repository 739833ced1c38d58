//! Rhythms in words: which hold at once, which follow each other, and what interrupts them.

use iotide_look::text;
use serde::Serialize;

use crate::run::whole_bytes;
use crate::zero::Zero;

/// One of several rhythms that hold, at once or one after the other.
#[derive(Clone, Debug, Serialize)]
pub struct Rhythm {
    /// Its beat: the time from one phase to the next where none was missed.
    pub period_s: f64,
    /// Mean distance between the starts of consecutive phases.
    pub mean_distance_s: f64,
    /// How much the distances differ from the beat (standard deviation over the beat).
    pub spread: f64,
    /// How many beats passed without a phase, those during pauses included.
    pub missed: usize,
    /// How many phases it has.
    pub n_phases: usize,
    /// How many bytes its phases move.
    #[serde(serialize_with = "whole_bytes")]
    pub bytes: f64,
    /// The share of all bytes that these are.
    pub byte_share: f64,
    /// The share of the time that its phases stand for, one beat each.
    pub time_share: f64,
    /// How far the bandwidth falls between its phases, as a share of that within them: 1 is silence in between.
    pub depth: f64,
    /// When it begins to hold.
    pub start_s: f64,
    /// When it ends.
    pub end_s: f64,
    /// The probability that it exists.
    pub confidence: f64,
    /// Where several beats in a row passed without a phase.
    pub pauses: Vec<Pause>,
}

/// A time without phases within a rhythm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pause {
    /// When the phase was due that did not come.
    pub start_s: f64,
    /// When the next phase began.
    pub end_s: f64,
}

/// Shares below this are worth a word: most of the run is something else.
const MOST: f64 = 0.5;

/// From so many beats in a row without a phase it is a pause. Where a third of all beats is missed at random, a run of
/// five still is a matter of one in 250.
const PAUSE_BEATS: f64 = 5.0;

/// Returns the pauses of a rhythm.
pub(crate) fn pauses(rhythm: &iotide_analysis::Rhythm) -> Vec<Pause> {
    let beat_s = rhythm.period_s;
    (rhythm.phases.windows(2))
        .map(|pair| Pause { start_s: pair[0].start_s + beat_s, end_s: pair[1].start_s })
        .filter(|pause| pause.end_s - pause.start_s >= (PAUSE_BEATS - 0.5) * beat_s)
        .collect()
}

impl From<&iotide_analysis::Rhythm> for Rhythm {
    fn from(rhythm: &iotide_analysis::Rhythm) -> Self {
        Self {
            period_s: rhythm.period_s,
            mean_distance_s: rhythm.mean_distance_s,
            spread: rhythm.spread,
            missed: rhythm.missed,
            n_phases: rhythm.phases.len(),
            bytes: rhythm.bytes,
            byte_share: rhythm.byte_share,
            time_share: rhythm.time_share,
            depth: rhythm.depth,
            start_s: rhythm.start_s,
            end_s: rhythm.end_s,
            confidence: rhythm.confidence,
            pauses: pauses(rhythm),
        }
    }
}

impl Rhythm {
    /// Beats that were missed one by one or a few in a row; those of a pause are reported as the pause.
    fn missed_outside_pauses(&self) -> usize {
        let beats = |pause: &Pause| ((pause.end_s - pause.start_s) / self.period_s).round() as usize;
        self.missed.saturating_sub(self.pauses.iter().map(beats).sum())
    }

    /// Returns its interruptions: "5 of 100 beats missed", "with a pause of 400 s".
    fn interruptions(&self) -> Vec<String> {
        let mut parts = Vec::new();
        let missed = self.missed_outside_pauses();
        if missed > 0 {
            let beats = text::counted((self.n_phases + missed) as u64, "beat");
            parts.push(format!("{} of {beats} missed", text::count(missed as u64)));
        }
        let paused_s: f64 = self.pauses.iter().map(|pause| pause.end_s - pause.start_s).sum();
        match self.pauses.len() {
            0 => {}
            1 => parts.push(format!("with a pause of {}", text::seconds(paused_s))),
            n => parts.push(format!(
                "with {} of {} in total",
                text::counted(n as u64, "pause"),
                text::seconds(paused_s)
            )),
        }
        parts
    }

    /// All there is to say of it, in one line.
    pub(crate) fn in_words(&self, zero: Zero) -> String {
        let mut parts = Vec::new();
        // What is missed is counted; the mean distance is of use where a beat is kept loosely.
        if (self.mean_distance_s / self.period_s - 1.0).abs() > 0.01 {
            parts.push(format!("mean distance {}", text::seconds(self.mean_distance_s)));
        }
        if self.n_phases > 0 {
            let each = text::bytes(self.bytes / self.n_phases as f64);
            parts.push(format!("spread {}", text::percent(self.spread)));
            parts.extend(self.interruptions());
            parts.push(format!("{} of about {each}", text::counted(self.n_phases as u64, "phase")));
            parts.extend(self.shares_in_words());
            parts.push(zero.span(self.start_s, self.end_s));
        }
        parts.push(format!("confidence {}", text::percent(self.confidence)));
        format!("every {}: {}", text::seconds(self.period_s), parts.join(", "))
    }

    /// Whether its line says more than the headline does.
    pub(crate) fn is_remarkable(&self) -> bool {
        self.n_phases > 0 && (self.missed > 0 || self.spread >= 0.05 || !self.shares_in_words().is_empty())
    }

    /// Returns how much of the run it explains, where that is not most of it, and how deep it is, where the stream goes on between its phases.
    fn shares_in_words(&self) -> Vec<String> {
        let mut parts = Vec::new();
        if self.byte_share < MOST {
            parts.push(format!("{} of the bytes", text::percent(self.byte_share)));
        }
        if self.time_share < MOST {
            parts.push(format!("{} of the time", text::percent(self.time_share)));
        }
        if self.depth < MOST {
            parts.push(format!("bandwidth {} lower between phases", text::percent(self.depth)));
        }
        parts
    }

    fn follows(&self, earlier: &Rhythm) -> bool {
        // A phase at the border may belong to either.
        self.start_s + 0.5 * self.period_s.min(earlier.period_s) >= earlier.end_s
    }
}

/// So many rhythms are named in a headline.
const NAMED: usize = 3;

/// The rhythms a headline names: in the order they are said in, those that follow each other first.
pub(crate) struct Named<'a> {
    /// One after the other, in order of time; the one that moves most bytes is among them.
    chain: Vec<&'a Rhythm>,
    /// Rhythms that hold beside these.
    beside: Vec<&'a Rhythm>,
    /// How many more there are.
    n_more: usize,
}

impl<'a> Named<'a> {
    pub(crate) fn of(rhythms: &'a [Rhythm]) -> Self {
        let (named, more) = rhythms.split_at(rhythms.len().min(NAMED));
        let mut names = Self { chain: Vec::new(), beside: Vec::new(), n_more: more.len() };
        for rhythm in named {
            let has_phases = rhythm.n_phases > 0;
            let fits = |other: &&Rhythm| {
                other.n_phases > 0 && has_phases && (rhythm.follows(other) || other.follows(rhythm))
            };
            if names.chain.iter().all(fits) { names.chain.push(rhythm) } else { names.beside.push(rhythm) }
        }
        names.chain.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        names
    }

    /// The probability that all of them exist is at most that of the least certain.
    pub(crate) fn confidence(&self) -> Option<f64> {
        self.chain.iter().chain(&self.beside).map(|rhythm| rhythm.confidence).reduce(f64::min)
    }

    /// "period 60 s", "period 10 s until 305 s, then 25 s", "periods 105 s and 12 s".
    pub(crate) fn periods(&self, window_s: Option<[f64; 2]>, zero: Zero) -> String {
        let chain = self.chain_in_words(window_s, zero);
        let mut beside: Vec<String> = self.beside.iter().map(|rhythm| with_interruptions(rhythm)).collect();
        if self.n_more > 0 {
            beside.push(format!("{} more", self.n_more));
        }
        match (self.chain.len(), beside.is_empty()) {
            (_, true) => format!("period {chain}"),
            (1, false) => {
                beside.insert(0, chain);
                format!("periods {}", listed(&beside))
            }
            _ => format!("period {chain}; at the same time {}", listed(&beside)),
        }
    }

    /// "100 phases of about 2 GB", "40 phases of about 1 GB and 560 of about 140 kB".
    pub(crate) fn phases(&self, bytes_of_main: Option<f64>, main: &Rhythm) -> Option<String> {
        let all: Vec<&Rhythm> = self.chain.iter().chain(&self.beside).copied().collect();
        if all.iter().any(|rhythm| rhythm.n_phases < 2) {
            return None;
        }
        let of = |(i, rhythm): (usize, &&Rhythm)| {
            let n = rhythm.n_phases as u64;
            let mean = rhythm.bytes / n as f64;
            let bytes = if std::ptr::eq(*rhythm, main) { bytes_of_main.unwrap_or(mean) } else { mean };
            let n = if i == 0 { text::counted(n, "phase") } else { text::count(n) };
            format!("{n} of about {}", text::bytes(bytes))
        };
        Some(listed(&all.iter().enumerate().map(of).collect::<Vec<_>>()))
    }

    fn chain_in_words(&self, window_s: Option<[f64; 2]>, zero: Zero) -> String {
        let n = self.chain.len();
        let mut words = String::new();
        for (i, rhythm) in self.chain.iter().enumerate() {
            if i > 0 {
                words.push_str(", then ");
            }
            words.push_str(&text::seconds(rhythm.period_s));
            if let Some([start_s, end_s]) = window_s.filter(|_| rhythm.n_phases > 0) {
                // Beats are due before and after: so many of them without a phase are worth a word.
                let away_s = PAUSE_BEATS * rhythm.period_s;
                if i == 0 && rhythm.start_s - start_s > away_s {
                    words.push_str(&format!(" from {}", zero.moment(rhythm.start_s)));
                }
                if i + 1 < n || end_s - rhythm.end_s > away_s {
                    words.push_str(&format!(" until {}", zero.moment(rhythm.end_s)));
                }
            }
            for part in rhythm.interruptions() {
                words.push_str(&format!(", {part}"));
            }
        }
        words
    }
}

fn with_interruptions(rhythm: &Rhythm) -> String {
    let mut parts = vec![text::seconds(rhythm.period_s)];
    parts.extend(rhythm.interruptions());
    match parts.as_slice() {
        [alone] => alone.clone(),
        [first, rest @ ..] => format!("{first} ({})", rest.join(", ")),
        [] => String::new(),
    }
}

/// "a", "a and b", "a, b and c".
fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [firsts @ .., last] => format!("{} and {last}", firsts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rhythm(beat_s: f64, starts_s: &[f64], bytes: f64, confidence: f64) -> Rhythm {
        let phases: Vec<_> = (starts_s.iter())
            .map(|&start_s| iotide_analysis::Phase { start_s, end_s: start_s + 0.1 * beat_s, bytes })
            .collect();
        let (first_s, last_s) = (starts_s[0], starts_s[starts_s.len() - 1]);
        let n_beats = ((last_s - first_s) / beat_s).round() as usize + 1;
        Rhythm::from(&iotide_analysis::Rhythm {
            period_s: beat_s,
            mean_distance_s: (last_s - first_s) / (starts_s.len() - 1) as f64,
            spread: 0.01,
            missed: n_beats - starts_s.len(),
            bytes: bytes * starts_s.len() as f64,
            byte_share: 1.0,
            time_share: 1.0,
            depth: 1.0,
            start_s: first_s,
            end_s: last_s + 0.1 * beat_s,
            confidence,
            phases,
        })
    }

    fn every(beat_s: f64, from_s: f64, n: usize) -> Vec<f64> {
        (0..n).map(|i| from_s + i as f64 * beat_s).collect()
    }

    /// Periods, confidence and phases, as the headline says them.
    fn said(rhythms: &[Rhythm], end_s: f64) -> String {
        let named = Named::of(rhythms);
        format!(
            "{}, {:.2}: {}",
            named.periods(Some([0.0, end_s]), Zero::default()),
            named.confidence().unwrap(),
            named.phases(None, &rhythms[0]).unwrap()
        )
    }

    #[test]
    fn one_rhythm_is_a_period() {
        insta::assert_snapshot!(said(&[rhythm(60.0, &every(60.0, 0.0, 100), 2e9, 0.999)], 6000.0), @"period 60 s, 1.00: 100 phases of about 2 GB");
    }

    #[test]
    fn segments_are_said_in_order_of_time_whichever_moves_more() {
        let (first, second) = (every(10.0, 0.0, 31), every(25.0, 325.0, 20));
        let rhythms = [rhythm(25.0, &second, 2e9, 0.97), rhythm(10.0, &first, 1e9, 0.99)];
        insta::assert_snapshot!(said(&rhythms, 805.0), @"period 10 s until 301 s, then 25 s, 0.97: 31 phases of about 1 GB and 20 of about 2 GB");
    }

    #[test]
    fn a_pause_is_no_row_of_missed_beats() {
        let mut starts = every(10.0, 0.0, 20);
        starts.extend(every(10.0, 600.0, 20));
        let paused = rhythm(10.0, &starts, 1e9, 0.99);
        assert_eq!(paused.pauses, [Pause { start_s: 200.0, end_s: 600.0 }]);
        insta::assert_snapshot!(said(std::slice::from_ref(&paused), 800.0), @"period 10 s, with a pause of 400 s, 0.99: 40 phases of about 1 GB");
        insta::assert_snapshot!(paused.in_words(Zero::default()), @"every 10 s: mean distance 20.3 s, spread 1 %, with a pause of 400 s, 40 phases of about 1 GB, 0 s to 791 s, confidence 99 %");
    }

    #[test]
    fn missed_beats_are_counted() {
        let mut starts = every(20.0, 0.0, 100);
        starts.retain(|s| ![140.0, 380.0, 400.0, 660.0, 960.0].contains(s));
        insta::assert_snapshot!(said(&[rhythm(20.0, &starts, 1e9, 0.99)], 2000.0), @"period 20 s, 5 of 100 beats missed, 0.99: 95 phases of about 1 GB");
    }

    #[test]
    fn rhythms_at_once_share_the_least_confidence() {
        let rhythms = [
            rhythm(105.0, &every(105.0, 0.0, 12), 1e9, 0.99),
            rhythm(12.0, &every(12.0, 0.0, 100), 1e6, 0.9),
        ];
        insta::assert_snapshot!(said(&rhythms, 1260.0), @"periods 105 s and 12 s, 0.90: 12 phases of about 1 GB and 100 of about 1 MB");
    }

    #[test]
    fn segments_beside_another_rhythm_are_both_said() {
        let rhythms = [
            rhythm(10.0, &every(10.0, 0.0, 31), 1e9, 0.99),
            rhythm(25.0, &every(25.0, 325.0, 20), 1e9, 0.98),
            rhythm(1.2, &every(1.2, 0.0, 600), 1e5, 0.95),
            rhythm(3.0, &every(3.0, 0.0, 200), 1e3, 0.5),
        ];
        insta::assert_snapshot!(said(&rhythms, 805.0), @"period 10 s until 301 s, then 25 s; at the same time 1.2 s and 1 more, 0.95: 31 phases of about 1 GB, 20 of about 1 GB and 600 of about 100 kB");
    }

    #[test]
    fn a_rhythm_that_ends_early_says_when() {
        insta::assert_snapshot!(said(&[rhythm(15.0, &every(15.0, 0.0, 200), 1e9, 0.99)], 3300.0), @"period 15 s until 2986.5 s, 0.99: 200 phases of about 1 GB");
        insta::assert_snapshot!(said(&[rhythm(15.0, &every(15.0, 900.0, 20), 1e9, 0.99)], 1200.0), @"period 15 s from 900 s, 0.99: 20 phases of about 1 GB");
    }
}
