//! The text that Prometheus scrapes: its own format, version 0.0.4, or OpenMetrics 1.0.0.

use std::fmt::Write;

use crate::exported::Exported;

/// The format of an exposition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, version 0.0.4.
    #[default]
    Text,
    /// OpenMetrics 1.0.0: counters are named without `_total` in their heads, and `# EOF` ends the text.
    OpenMetrics,
}

impl Format {
    /// Returns the format that the header `Accept` of a request prefers; the text format where it does not say.
    pub fn of_accept(accept: &str) -> Self {
        let [mut text, mut open] = [0.0f64; 2];
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut quality, mut version) = (1.0, None);
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => quality = value.trim().parse().unwrap_or(0.0),
                    "version" => version = Some(value.trim().trim_matches('"')),
                    _ => {}
                }
            }
            match (media.as_str(), version) {
                ("application/openmetrics-text", None | Some("1.0.0")) => open = open.max(quality),
                ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => text = text.max(quality),
                _ => {}
            }
        }
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Text }
    }

    /// The type of the text, for the header of an answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

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
    format: Format,
    text: String,
    names: Vec<&'static str>,
}

/// Kind of a family of samples.
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
    format: Format,
    name: &'static str,
    head: Option<(Kind, &'static str)>,
}

/// The end of a counter's name.
pub(crate) const TOTAL: &str = "_total";

impl Exposition {
    /// Begins an exposition in a format.
    pub fn new(format: Format) -> Self {
        Self { format, ..Self::default() }
    }

    /// Begins a family. Its head is written with its first sample.
    ///
    /// # Panics
    /// If there is a family of that name already, it is no name, or that of a counter without `_total`: faults of the program, not of its input.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &'static str) -> Family<'_> {
        assert!(is_metric_name(name) && !self.names.contains(&name), "{name} is no new name of a metric");
        assert!(kind == Kind::Gauge || name.ends_with(TOTAL), "{name} is a counter without {TOTAL}");
        self.names.push(name);
        Family { text: &mut self.text, format: self.format, name, head: Some((kind, help)) }
    }

    /// Appends what exporters show: see [`Exported::write`]. Their names are not ours.
    pub fn exported(&mut self, all: &[(Vec<(&str, &str)>, &Exported)]) -> u64 {
        Exported::write(all, self.format, &mut self.text)
    }

    /// Returns the text.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
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
            let (kind, head) = match (kind, self.format) {
                (Kind::Gauge, _) => ("gauge", name),
                (Kind::Counter, Format::Text) => ("counter", name),
                (Kind::Counter, Format::OpenMetrics) => ("counter", name.trim_end_matches(TOTAL)),
            };
            let _ = writeln!(self.text, "# HELP {head} {help}\n# TYPE {head} {kind}");
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

    #[test]
    fn openmetrics_names_counters_without_their_end_and_says_where_it_is_over() {
        let mut text = Exposition::new(Format::OpenMetrics);
        text.family("x_seconds_total", Kind::Counter, "Time.").sample_ns(&[], 1_500_000_000);
        text.family("y", Kind::Gauge, "Any.").sample(&[], 2);
        assert_eq!(
            text.finish(),
            "# HELP x_seconds Time.\n# TYPE x_seconds counter\nx_seconds_total 1.500000000\n# HELP y Any.\n# TYPE y gauge\ny 2\n# EOF\n"
        );
    }

    #[test]
    fn the_format_is_the_one_that_is_preferred() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,\
                          text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text", Format::OpenMetrics),
            (
                "Application/OpenMetrics-Text; version=\"1.0.0\" ; Q=0.5, text/plain;q=0.2",
                Format::OpenMetrics,
            ),
            ("text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.5", Format::Text),
            ("application/openmetrics-text;version=2.0.0", Format::Text),
            ("application/openmetrics-text;q=0", Format::Text),
            ("*/*", Format::Text),
            ("", Format::Text),
            (";;=,q=,application/openmetrics-text;q=x", Format::Text),
        ] {
            assert_eq!(Format::of_accept(accept), format, "{accept}");
        }
    }

    proptest! {
        #[test]
        fn any_header_has_a_format(accept in any::<String>()) {
            let _ = Format::of_accept(&accept);
        }

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
