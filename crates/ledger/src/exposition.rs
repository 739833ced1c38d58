//! The text that Prometheus scrapes: exposition format 0.0.4.

use std::fmt::Write;

use crate::exported::Exported;

/// Families of samples, each in one piece, in the order in which they were begun.
///
/// ```
/// use iotide_ledger::{Exposition, Kind};
///
/// let mut text = Exposition::default();
/// text.family("io_bytes_total", Kind::Counter, "Bytes moved.").sample(&[("op", "read")], 7);
/// assert_eq!(text.finish(), "# HELP io_bytes_total Bytes moved.\n# TYPE io_bytes_total counter\nio_bytes_total{op=\"read\"} 7\n");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    text: String,
    names: Vec<&'static str>,
}

/// What a family of samples is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// The samples of one name. They stand together, since nothing else can be written before this goes.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
    head: Option<(Kind, &'static str)>,
}

impl Exposition {
    /// The type of the text, for the header of an answer.
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Begins a family. Its head is written with its first sample.
    ///
    /// # Panics
    /// If there is a family of that name already, or it is no name: both are faults of the program, not of its input.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &'static str) -> Family<'_> {
        assert!(is_metric_name(name) && !self.names.contains(&name), "{name} is no new name of a metric");
        self.names.push(name);
        Family { text: &mut self.text, name, head: Some((kind, help)) }
    }

    /// Appends what exporters show: see [`Exported::write`]. Their names are not ours.
    pub fn exported(&mut self, all: &[(Vec<(&str, &str)>, &Exported)]) -> u64 {
        Exported::write(all, &mut self.text)
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.text
    }
}

impl Family<'_> {
    /// Adds a whole number.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: u64) -> &mut Self {
        self.begin(labels);
        let _ = writeln!(self.text, " {value}");
        self
    }

    /// Adds a number.
    pub fn sample_f64(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
        self.begin(labels);
        put_number(self.text, value);
        self
    }

    /// Adds nanoseconds, as seconds.
    pub fn sample_ns(&mut self, labels: &[(&str, &str)], ns: u64) -> &mut Self {
        self.begin(labels);
        let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
        let _ = match rest {
            0 => writeln!(self.text, " {seconds}"),
            _ => writeln!(self.text, " {seconds}.{rest:09}"),
        };
        self
    }

    fn begin(&mut self, labels: &[(&str, &str)]) {
        let name = self.name;
        if let Some((kind, help)) = self.head.take() {
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        }
        self.text.push_str(name);
        let mut is_first = true;
        for (label, value) in labels {
            put_label(self.text, &mut is_first, label, value);
        }
        if !is_first {
            self.text.push('}');
        }
    }
}

/// Appends a number to the name of a sample, and ends the line.
pub(crate) fn put_number(text: &mut String, value: f64) {
    let _ = match value {
        _ if value.is_nan() => writeln!(text, " NaN"),
        f64::INFINITY => writeln!(text, " +Inf"),
        f64::NEG_INFINITY => writeln!(text, " -Inf"),
        _ => writeln!(text, " {value}"),
    };
}

/// Appends a label; whatever its value says stays within its quotes.
pub(crate) fn put_label(text: &mut String, is_first: &mut bool, label: &str, value: &str) {
    text.push(if std::mem::replace(is_first, false) { '{' } else { ',' });
    text.push_str(label);
    text.push_str("=\"");
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            // The format has no way to write it. What shows the text, a terminal for example, must not obey it.
            other if iotide_wire::steers(other) => {
                text.push('\\');
                text.extend(other.escape_default());
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

fn is_metric_name(name: &str) -> bool {
    let fits = |(index, byte): (usize, u8)| {
        byte.is_ascii_alphabetic() || byte == b'_' || index > 0 && byte.is_ascii_digit()
    };
    !name.is_empty() && name.bytes().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_written_as_they_are_read() {
        let mut text = Exposition::default();
        text.family("empty", Kind::Gauge, "No sample, so no head.");
        let mut family = text.family("x_seconds_total", Kind::Counter, "Time.");
        family.sample_ns(&[], 1_500_000_000).sample_ns(&[("a", "b")], 3_000_000_000).sample_ns(&[], 7);
        text.family("y", Kind::Gauge, "Any.").sample_f64(&[], f64::NAN).sample_f64(&[], 0.25);
        assert_eq!(
            text.finish(),
            "# HELP x_seconds_total Time.\n# TYPE x_seconds_total counter\nx_seconds_total 1.500000000\n\
             x_seconds_total{a=\"b\"} 3\nx_seconds_total 0.000000007\n# HELP y Any.\n# TYPE y gauge\ny NaN\ny 0.25\n"
        );
    }

    proptest! {
        /// Whatever a label says, it stays within its quotes on its line.
        #[test]
        fn a_label_injects_nothing(value in any::<String>(), tail in "[\\\\\"\n{} a]{0,9}") {
            let value = value + &tail;
            let mut text = Exposition::default();
            text.family("x", Kind::Gauge, "X.").sample(&[("l", &value)], 1);
            let text = text.finish();
            let lines: Vec<&str> = text.split('\n').collect();
            prop_assert_eq!(lines.len(), 4);
            let inside = lines[2].strip_prefix("x{l=\"").unwrap().strip_suffix("\"} 1").unwrap();
            let mut read = String::new();
            let mut letters = inside.chars();
            while let Some(letter) = letters.next() {
                prop_assert_ne!(letter, '"');
                match letter {
                    '\\' => read.push(match letters.next().unwrap() { 'n' => '\n', other => other }),
                    other => read.push(other),
                }
            }
            let escaped = |c: char| match c {
                '\n' => vec![c],
                _ if iotide_wire::steers(c) => c.escape_default().collect(),
                _ => vec![c],
            };
            prop_assert!(!inside.contains(iotide_wire::steers));
            prop_assert_eq!(read, value.chars().flat_map(escaped).collect::<String>());
        }
    }
}
