//! Report on multiples of the dominant frequency.

use serde::Serialize;

use iotide_look::text;

/// A multiple of a candidate's frequency whose power stands out.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Harmonic {
    /// Its frequency.
    pub frequency_hz: f64,
    /// Its period.
    pub period_s: f64,
    /// How many times the candidate's frequency that is.
    pub multiple: usize,
    /// Its share of the signal's power without the mean.
    pub power_share: f64,
    /// Whether it would have been a candidate itself, and was dropped.
    pub dropped: bool,
}

impl From<&iotide_analysis::Harmonic> for Harmonic {
    fn from(harmonic: &iotide_analysis::Harmonic) -> Self {
        let iotide_analysis::Harmonic { frequency_hz, multiple, power_share, was_dropped } = *harmonic;
        Self { frequency_hz, period_s: 1.0 / frequency_hz, multiple, power_share, dropped: was_dropped }
    }
}

/// So many are printed in the text; all are in the JSON form.
const SHOWN: usize = 6;

/// Returns the harmonics in one sentence, or `None` without any.
pub fn in_words(harmonics: &[Harmonic], bursts: bool) -> Option<String> {
    if harmonics.is_empty() {
        return None;
    }
    let mut parts: Vec<String> = (harmonics.iter().take(SHOWN))
        .map(|harmonic| {
            let dropped = if harmonic.dropped { ", dropped" } else { "" };
            format!(
                "{} ({}×, {} of the power{dropped})",
                text::seconds(harmonic.period_s),
                harmonic.multiple,
                text::percent(harmonic.power_share)
            )
        })
        .collect();
    if harmonics.len() > SHOWN {
        parts.push(format!("{} more", harmonics.len() - SHOWN));
    }
    let bursts = if bursts { "; their power decays: the I/O comes in bursts" } else { "" };
    Some(format!("{}{bursts}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmonics_are_told_with_their_power_and_what_they_mean() {
        let harmonic = |multiple: usize, power_share, dropped| Harmonic {
            frequency_hz: 0.1 * multiple as f64,
            period_s: 10.0 / multiple as f64,
            multiple,
            power_share,
            dropped,
        };
        assert_eq!(in_words(&[], false), None);
        assert_eq!(
            in_words(&[harmonic(2, 0.25, true), harmonic(4, 0.125, false)], true).unwrap(),
            "5 s (2×, 25 % of the power, dropped), 2.5 s (4×, 12 % of the power); their power decays: the I/O comes in bursts"
        );
        let many: Vec<Harmonic> = (2..12).map(|m| harmonic(m, 0.05, false)).collect();
        assert!(in_words(&many, false).unwrap().ends_with("4 more"));
    }
}
