//! Meaning of each label, in a sentence; thresholds are the default ones.

/// Returns what a label of the MOSAIC paper says of a run, without a full stop; nothing for a name that is no label.
pub fn label_meaning(label: &str) -> String {
    if let Some(load) = label.strip_prefix("metadata_") {
        let meaning = match load {
            "high_spike" => "at least one second with very many metadata requests (opens, closes, seeks)",
            "multiple_spikes" => "several seconds with many metadata requests",
            "high_density" => "several spikes, and many metadata requests a second over the whole run",
            "insignificant_load" => "fewer metadata requests than ranks",
            _ => "",
        };
        return meaning.to_owned();
    }
    let Some((access, when)) = label.split_once('_') else { return String::new() };
    let (does, moved) = match access {
        "read" => ("reads", "read"),
        "write" => ("writes", "written"),
        _ => return String::new(),
    };
    match when {
        "insignificant" => format!("less than 100 MB is {moved}"),
        "on_start" => format!("{does} mostly in the first quarter of the run"),
        "on_end" => format!("{does} mostly in the last quarter of the run"),
        "after_start" => format!("{does} mostly after the first quarter of the run"),
        "before_end" => format!("{does} mostly before the last quarter of the run"),
        "after_start_before_end" => format!("{does} mostly in the middle of the run"),
        "on_start_and_on_end" => format!("{does} mostly in the first and in the last quarter of the run"),
        "steady" => format!("{does} about as much in every quarter of the run"),
        "periodic" => format!("{does} in phases that repeat with a period"),
        "periodic_second" => format!("{does} with a period of up to 30 s"),
        "periodic_minute" => format!("{does} with a period of up to 30 min"),
        "periodic_hour" => format!("{does} with a period of up to 12 h"),
        "periodic_day_or_more" => format!("{does} with a period of more than 12 h"),
        "periodic_low_busy_time" => format!("{does} periodically, in at most a quarter of the period"),
        "periodic_high_busy_time" => format!("{does} periodically, in at least three quarters of the period"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_has_a_meaning() {
        for label in iotide_analysis::Category::all() {
            assert!(!label_meaning(label.name()).is_empty(), "{}", label.name());
        }
        assert_eq!(label_meaning("write_on_end"), "writes mostly in the last quarter of the run");
        assert_eq!(label_meaning("<b>"), "");
    }
}
