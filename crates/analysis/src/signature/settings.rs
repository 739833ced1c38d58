//! Settings of signatures by name, for files.

use super::SignatureConfig;
use crate::settings::{Setting, SettingError};

/// One setting: its name, what it means, and the way to its value.
type Entry = (&'static str, &'static str, fn(&SignatureConfig) -> f64, fn(&mut SignatureConfig, f64));

/// Names a field that is a number.
macro_rules! number {
    ($key:literal, $doc:literal, $($field:tt).+) => {
        ($key, $doc, |config: &SignatureConfig| config.$($field).+, |config: &mut SignatureConfig, value: f64| config.$($field).+ = value)
    };
}

/// Names a field that is a count.
macro_rules! count {
    ($key:literal, $doc:literal, $($field:tt).+) => {
        ($key, $doc, |config: &SignatureConfig| config.$($field).+ as f64, |config: &mut SignatureConfig, value: f64| config.$($field).+ = value as usize)
    };
}

/// Names a field that is on or off.
macro_rules! switch {
    ($key:literal, $doc:literal, $($field:tt).+) => {
        ($key, $doc, |config: &SignatureConfig| f64::from(config.$($field).+), |config: &mut SignatureConfig, value: f64| config.$($field).+ = value != 0.0)
    };
}

const ENTRIES: &[Entry] = &[
    switch!(
        "preprocess",
        "iosi, dtw: 1 to bring samples to one duration and take the background away, 0 to leave them as they are",
        preprocess
    ),
    switch!(
        "outliers",
        "1 to leave samples out whose duration and volume are not those of the others",
        outliers.enabled
    ),
    number!(
        "outlier_factor",
        "A sample is left out above this local outlier factor and above the mean factor; 0: above the mean alone, as in the paper",
        outliers.factor
    ),
    count!("outlier_keep", "At least so many samples stay", outliers.keep),
    number!(
        "burst_share",
        "A stretch of the signature is a burst from this share of the height of its bursts on",
        burst_share
    ),
    count!(
        "wavelet_level",
        "iosi: how often the wavelet halves the band; 2 in the paper",
        iosi.wavelet_level
    ),
    number!(
        "density",
        "iosi: a cell is dense if this share of the samples has a burst in it; the paper's gamma, 0.5",
        iosi.density
    ),
    number!(
        "neighbourhood_density",
        "iosi: the same for a cell and its neighbours; the paper's kappa, 0.9",
        iosi.neighbourhood_density
    ),
    number!("lowest_cell", "iosi: the lowest cell that is tried", iosi.heights.0),
    number!("highest_cell", "iosi: the highest cell that is tried", iosi.heights.1),
    count!("n_settings", "iosi: how many widths and how many heights of cells are tried", iosi.n_settings),
    switch!(
        "at_crest",
        "iosi: 1 to place a burst at its crest, as in the paper, 0 at its centre of mass",
        iosi.at_crest
    ),
    (
        "band_s",
        "dtw: how far two aligned points may lie apart, in seconds; 0: any distance",
        |config| config.dtw.band_s.unwrap_or(0.0),
        |config, value| config.dtw.band_s = (value > 0.0).then_some(value),
    ),
    count!("dtw_rounds", "dtw: how often the barycentre is taken anew, at most", dtw.rounds),
    number!("slack_s", "consensus: how far a sample may lag behind the template", consensus.slack_s),
    number!("below", "consensus: what a value below the template costs", consensus.below),
    number!("above", "consensus: what a value above the template costs", consensus.above),
    number!(
        "most_above",
        "consensus: what is further above, in heights, costs no more",
        consensus.most_above
    ),
    number!(
        "change_in_burst",
        "consensus: what a change of the delay costs within a burst",
        consensus.change_in_burst
    ),
    number!("change_in_pause", "consensus: what it costs between bursts", consensus.change_in_pause),
    number!(
        "quantile",
        "consensus: the template is this quantile of the aligned samples",
        consensus.quantile
    ),
    count!("rounds", "consensus: how often template and alignment take turns, at most", consensus.rounds),
    number!("burst_base", "consensus: a burst stays above this share of the height", consensus.burst_base),
    number!("burst_peak", "consensus: and reaches this share somewhere", consensus.burst_peak),
    number!(
        "launch_quantile",
        "consensus: which quantile of the moments the first burst begins at",
        consensus.launch_quantile
    ),
    number!("pause_quantile", "consensus: which quantile of the pauses", consensus.pause_quantile),
    number!("burst_quantile", "consensus: which quantile of volumes and lengths", consensus.burst_quantile),
    number!(
        "level_quantile",
        "consensus: which quantile of the values within a burst",
        consensus.level_quantile
    ),
    number!(
        "alike",
        "consensus: bursts that differ by no more than this share are the same",
        consensus.alike
    ),
    number!(
        "alike_pause_s",
        "consensus: pauses that differ by no more than this are the same",
        consensus.alike_pause_s
    ),
    number!(
        "anchor",
        "consensus: how much the start of a burst follows the moments at which samples show it",
        consensus.anchor
    ),
    number!("trust", "consensus: how much more quiet samples count", consensus.trust),
];

impl SignatureConfig {
    /// Returns every setting with its default and what it means.
    pub fn settings() -> Vec<Setting> {
        let default = SignatureConfig::default();
        ENTRIES.iter().map(|(key, doc, get, _)| Setting { key, default: get(&default), doc }).collect()
    }

    /// Sets one by its name.
    pub fn set(&mut self, key: &str, value: f64) -> Result<(), SettingError> {
        let unknown = || SettingError::Unknown { key: key.to_owned() };
        let (key, _, _, set) = ENTRIES.iter().find(|(known, ..)| *known == key).ok_or_else(unknown)?;
        if !(0.0..=1e9).contains(&value) {
            return Err(SettingError::OutOfRange { key, value });
        }
        set(self, value);
        Ok(())
    }

    /// Returns the value of one by its name.
    pub fn get(&self, key: &str) -> Option<f64> {
        ENTRIES.iter().find(|(known, ..)| *known == key).map(|(_, _, get, _)| get(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_can_be_set_and_read_back_and_moves_no_other() {
        for setting in SignatureConfig::settings() {
            let mut config = SignatureConfig::default();
            config
                .set(setting.key, 1.0 - setting.default.min(1.0) + 2.0 * f64::from(setting.default > 1.0))
                .unwrap();
            let changed = SignatureConfig::settings()
                .iter()
                .filter(|other| config.get(other.key) != Some(other.default))
                .map(|other| other.key)
                .collect::<Vec<_>>();
            assert!(changed.is_empty() || changed == [setting.key], "{}: {changed:?}", setting.key);
        }
        let mut config = SignatureConfig::default();
        assert!(config.set("gamma", 0.5).is_err() && config.set("density", f64::NAN).is_err());
        config.set("wavelet_level", 3.0).unwrap();
        config.set("band_s", 0.0).unwrap();
        assert_eq!((config.iosi.wavelet_level, config.dtw.band_s), (3, None));
    }
}
