//! A run beside the earlier runs of the same application, as it is told.

use serde::Serialize;

use iotide_look::{Untrusted, text};

/// How a run compares with earlier ones of the same application.
#[derive(Clone, Debug, Serialize)]
pub struct History {
    /// The application.
    pub application: Untrusted,
    /// Who ran it, if that is known.
    pub user: Option<Untrusted>,
    /// How many earlier runs there are.
    pub n_runs: u64,
    /// Each quantity beside what is usual.
    pub quantities: Vec<Comparison>,
    /// Labels that at least nine of ten earlier runs bear and this one does not.
    pub missing_labels: Vec<LabelShare>,
    /// Labels of this run that at most one of ten earlier runs bears.
    pub new_labels: Vec<LabelShare>,
}

/// One quantity of a run beside what is usual.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Which: `bytes_read`, `bytes_written`, `metadata_requests`, `run_time_s`.
    pub quantity: &'static str,
    /// This run's.
    pub value: f64,
    /// The median of the earlier ones.
    pub usual: f64,
    /// The median of their distances from it.
    pub spread: f64,
    /// This run's as a multiple of the usual; `None` if the usual is nothing.
    pub ratio: Option<f64>,
    /// Whether it is remarkable.
    pub unusual: bool,
}

/// A label and how usual it is.
#[derive(Clone, Debug, Serialize)]
pub struct LabelShare {
    /// Which.
    pub label: String,
    /// The share of earlier runs that bear it.
    pub share: f64,
}

impl History {
    /// The comparison in a sentence or a few, one a line.
    pub fn in_words(&self) -> String {
        let of = self.application.for_terminal();
        let earlier = format!("{} of {of}", text::counted(self.n_runs, "earlier run"));
        if self.quantities.is_empty() {
            return format!("{earlier}: too few to compare with");
        }
        let mut sentences: Vec<String> =
            self.quantities.iter().filter(|quantity| quantity.unusual).map(Comparison::in_words).collect();
        for (labels, how) in [(&self.missing_labels, "not"), (&self.new_labels, "for once")] {
            sentences.extend(labels.iter().map(|LabelShare { label, share }| {
                format!("{how} {label}, which {} of them are", text::percent(*share))
            }));
        }
        if sentences.is_empty() {
            return format!("as usual, beside {earlier}");
        }
        format!("beside {earlier}:\n{}", sentences.join("\n"))
    }
}

impl Comparison {
    /// Returns the name of the quantity, and the function that formats its values.
    fn shown(&self) -> (&'static str, fn(f64) -> String) {
        match self.quantity {
            "bytes_read" => ("bytes read", text::bytes),
            "bytes_written" => ("bytes written", text::bytes),
            "run_time_s" => ("run time", text::seconds),
            _ => ("metadata requests", |n| text::count(n as u64)),
        }
    }

    /// The row of a table: what, how much, how much usually, and the ratio.
    pub fn cells(&self) -> [String; 4] {
        let (what, shown) = self.shown();
        let ratio = self.ratio.map_or("–".to_owned(), times);
        let mark = if self.unusual { " (unusual)" } else { "" };
        [what.to_owned(), shown(self.value), shown(self.usual), format!("{ratio}{mark}")]
    }

    fn in_words(&self) -> String {
        let (what, shown) = self.shown();
        let (value, usual) = (shown(self.value), shown(self.usual));
        match self.ratio {
            None => format!("{what}: {value}, usually none"),
            Some(_) if self.value == 0.0 => format!("no {what}, usually {usual}"),
            Some(ratio) => format!("{} times the usual {what} ({value}, usually {usual})", times(ratio)),
        }
    }
}

fn times(ratio: f64) -> String {
    match ratio {
        ..1.0 => format!("{ratio:.2}"),
        ..10.0 => format!("{ratio:.1}"),
        _ => text::count(ratio.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(quantity: &'static str, value: f64, usual: f64, unusual: bool) -> Comparison {
        let ratio = (usual > 0.0).then(|| value / usual);
        Comparison { quantity, value, usual, spread: 1.0, ratio, unusual }
    }

    fn history(quantities: Vec<Comparison>) -> History {
        History {
            application: "lmp".into(),
            user: None,
            n_runs: 12,
            quantities,
            missing_labels: Vec::new(),
            new_labels: Vec::new(),
        }
    }

    #[test]
    fn what_is_unusual_is_told_with_its_numbers() {
        let mut told = history(vec![
            quantity("metadata_requests", 3000.0, 1000.0, true),
            quantity("bytes_read", 5e9, 0.0, true),
            quantity("bytes_written", 0.0, 1e9, true),
            quantity("run_time_s", 10.0, 11.0, false),
        ]);
        told.missing_labels = vec![LabelShare { label: "write_periodic".into(), share: 0.96 }];
        insta::assert_snapshot!(told.in_words(), @r"
        beside 12 earlier runs of lmp:
        3.0 times the usual metadata requests (3000, usually 1000)
        bytes read: 5 GB, usually none
        no bytes written, usually 1 GB
        not write_periodic, which 96 % of them are
        ");
    }

    #[test]
    fn what_is_as_usual_is_one_sentence() {
        assert_eq!(
            history(vec![quantity("run_time_s", 10.0, 11.0, false)]).in_words(),
            "as usual, beside 12 earlier runs of lmp"
        );
        assert_eq!(history(Vec::new()).in_words(), "12 earlier runs of lmp: too few to compare with");
    }
}
