//! Metrics of other exporters: the text format of Prometheus (0.0.4) and OpenMetrics, read and written again beside ours.
//!
//! Values stay as they are: a counter is what its exporter says it is, whoever asks and however often, and a histogram keeps its buckets, sum and
//! count. Only labels are added, which say where it comes from.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

use crate::exposition::{Format, TOTAL, put_label, put_number};

/// Samples of one exporter.
pub const MOST_SAMPLES: usize = 20_000;
/// Bytes of a name, and of a label's value.
const MOST_NAME: usize = 256;
const MOST_VALUE: usize = 1024;
/// Bytes of what a family is explained by.
const MOST_HELP: usize = 1024;
/// Labels of a sample.
const MOST_LABELS: usize = 64;
/// Names that are ours: what an exporter shows under them would pass for what we have counted.
const OURS: &str = "iotide_";

/// Kind of a family of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
    Untyped,
}

impl Kind {
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "counter" => Self::Counter,
            // What OpenMetrics has beside these are numbers that come and go.
            "gauge" | "info" | "stateset" => Self::Gauge,
            "histogram" => Self::Histogram,
            "summary" => Self::Summary,
            "untyped" | "unknown" | "gaugehistogram" => Self::Untyped,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
            Self::Untyped => "untyped",
        }
    }

    /// Returns the suffixes that names of samples may have beside the name of the family.
    fn ends(self) -> &'static [&'static str] {
        match self {
            Self::Counter => &["", "_total"],
            Self::Gauge => &["", "_info"],
            Self::Histogram => &["_bucket", "_sum", "_count"],
            Self::Summary => &["", "_sum", "_count"],
            Self::Untyped => &["", "_bucket", "_gsum", "_gcount"],
        }
    }

    /// The name and the type that stand above the samples of a family.
    ///
    /// OpenMetrics has counters by names without `_total`. A counter that has no such end, or whose shorter name is another family's, is of unknown type there.
    fn head(self, name: &str, format: Format, is_taken: impl Fn(&str) -> bool) -> (&str, &'static str) {
        match (self, format, name.strip_suffix(TOTAL)) {
            (_, Format::Text, _) => (name, self.name()),
            (Self::Counter, _, Some(shorter)) if !is_taken(shorter) => (shorter, self.name()),
            (Self::Counter | Self::Untyped, ..) => (name, "unknown"),
            _ => (name, self.name()),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Family {
    kind: Kind,
    help: String,
    samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// Metrics of an exporter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exported {
    families: BTreeMap<String, Family>,
    n_samples: usize,
    /// Lines that could not be read, samples that were there twice or beyond the limit, and names that are ours.
    pub n_refused: u64,
}

impl Exported {
    /// Reads what an exporter says. What cannot be read is counted as refused; the rest is right.
    pub fn read(text: &str) -> Self {
        let mut exported = Self::default();
        let mut families: HashMap<&str, (Kind, String)> = HashMap::new();
        let mut seen = HashSet::new();
        for line in text.lines() {
            let line = line.trim_matches([' ', '\t', '\r']);
            if let Some(comment) = line.strip_prefix('#') {
                exported.n_refused += u64::from(!read_comment(comment, &mut families));
                continue;
            }
            if line.is_empty() {
                continue;
            }
            let sample = Sample::read(line).filter(|sample| !sample.name.starts_with(OURS));
            let sample = sample.filter(|_| exported.n_samples < MOST_SAMPLES);
            // Two with one name and the same labels would be one series with two values.
            let is_new = |it: &Sample| {
                let mut labels = it.labels.clone();
                labels.sort();
                seen.insert((it.name.clone(), labels))
            };
            match sample.filter(is_new) {
                Some(sample) => exported.add(sample, &families),
                None => exported.n_refused += 1,
            }
        }
        exported
    }

    fn add(&mut self, sample: Sample, families: &HashMap<&str, (Kind, String)>) {
        let of_name = |name: &str, end: &str| {
            let (kind, help) = families.get(name.strip_suffix(end)?)?;
            kind.ends().contains(&end).then(|| (*kind, help.clone()))
        };
        // When a counter or a histogram was made is told to OpenMetrics only.
        if let Some((kind, _)) = sample.name.strip_suffix("_created").and_then(|name| families.get(name))
            && matches!(kind, Kind::Counter | Kind::Histogram | Kind::Summary)
        {
            return;
        }
        let ends = ["", "_bucket", "_sum", "_count", "_total", "_info"];
        let found = ends.iter().find_map(|end| Some((*end, of_name(&sample.name, end)?)));
        let (name, kind, help) = match found {
            // These stand for the whole family; others are samples of their own.
            Some((end @ ("_bucket" | "_sum" | "_count"), (kind, help))) if kind != Kind::Untyped => {
                (sample.name[..sample.name.len() - end.len()].to_owned(), kind, help)
            }
            Some((_, (kind, help))) => (sample.name.clone(), kind, help),
            None => (sample.name.clone(), Kind::Untyped, String::new()),
        };
        let family = self.families.entry(name).or_insert(Family { kind, help, samples: Vec::new() });
        family.samples.push(sample);
        self.n_samples += 1;
    }

    /// How many samples there are.
    pub fn n_samples(&self) -> usize {
        self.n_samples
    }

    /// Appends what several exporters show to an exposition, each with labels of its own: all samples of a name together, as the format wants it.
    /// Where two call different things by one name, the first has it. Returns how many samples were left out for that.
    pub fn write(all: &[(Vec<(&str, &str)>, &Self)], format: Format, text: &mut String) -> u64 {
        let mut names: BTreeMap<&str, Kind> = BTreeMap::new();
        for (_, exported) in all {
            for (name, family) in &exported.families {
                names.entry(name).or_insert(family.kind);
            }
        }
        let mut n_left_out = 0;
        for (name, kind) in &names {
            let kind = *kind;
            let (head, kind_name) = kind.head(name, format, |name| names.contains_key(name));
            let mut has_head = false;
            for (added, exported) in all {
                let Some(family) = exported.families.get(*name) else { continue };
                if family.kind != kind {
                    n_left_out += family.samples.len() as u64;
                    continue;
                }
                if !std::mem::replace(&mut has_head, true) {
                    if !family.help.is_empty() {
                        let mut help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
                        if format == Format::OpenMetrics {
                            help = help.replace('"', "\\\"");
                        }
                        let _ = writeln!(text, "# HELP {head} {help}");
                    }
                    let _ = writeln!(text, "# TYPE {head} {kind_name}");
                }
                family.samples.iter().for_each(|sample| sample.write(added, text));
            }
        }
        n_left_out
    }
}

impl Sample {
    /// Reads a line: `name{label="value",…} value [time] [# exemplar]`.
    fn read(line: &str) -> Option<Self> {
        let end = line.find(|letter: char| !is_of_name(letter))?;
        let (name, mut rest) = line.split_at(end);
        let mut labels: Vec<(String, String)> = Vec::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside.trim_start();
            while !rest.starts_with('}') {
                let (label, after) = rest.split_once('=')?;
                let label = label.trim();
                let (value, after) = quoted(after.trim_start())?;
                let is_known = labels.iter().any(|(known, _)| known == label);
                if !is_name(label) || label.contains(':') || label.starts_with("__") || is_known {
                    return None;
                }
                if value.len() > MOST_VALUE || labels.len() == MOST_LABELS {
                    return None;
                }
                // A label without a value is none.
                if !value.is_empty() {
                    labels.push((label.to_owned(), value));
                }
                rest = after.trim_start();
                rest = match rest.strip_prefix(',') {
                    Some(rest) => rest.trim_start(),
                    None if rest.starts_with('}') => rest,
                    None => return None,
                };
            }
            rest = &rest[1..];
        } else if !rest.starts_with([' ', '\t']) {
            return None;
        }
        let mut words = rest.split_ascii_whitespace();
        let value = match words.next()? {
            "+Inf" | "Inf" => f64::INFINITY,
            "-Inf" => f64::NEG_INFINITY,
            "NaN" => f64::NAN,
            word if word.ends_with(|last: char| last.is_ascii_digit() || last == '.') => word.parse().ok()?,
            _ => return None,
        };
        // A time may follow, which is that of the exporter and not passed on; then what OpenMetrics calls an exemplar.
        let is_right = match words.next() {
            None | Some("#") => true,
            Some(time) => time.parse::<f64>().is_ok() && matches!(words.next(), None | Some("#")),
        };
        (is_name(name) && is_right).then(|| Self { name: name.to_owned(), labels, value })
    }

    fn write(&self, added: &[(&str, &str)], text: &mut String) {
        text.push_str(&self.name);
        let mut is_first = true;
        for (label, value) in added {
            put_label(text, &mut is_first, label, value);
        }
        for (label, value) in &self.labels {
            let mut name = label.clone();
            let is_taken = |name: &str| self.labels.iter().any(|(known, _)| known == name);
            if added.iter().any(|(name, _)| name == label) {
                // As Prometheus calls what an exporter has under a name that it gives itself.
                name.insert_str(0, "exported_");
                while is_taken(&name) {
                    name.insert_str(0, "exported_");
                }
            }
            put_label(text, &mut is_first, &name, value);
        }
        if !is_first {
            text.push('}');
        }
        put_number(text, self.value);
    }
}

/// Reads what follows `#`. Returns whether it is as it should be: other comments are.
fn read_comment<'a>(comment: &'a str, families: &mut HashMap<&'a str, (Kind, String)>) -> bool {
    let mut words = comment.trim_start().splitn(3, [' ', '\t']);
    let (Some(what @ ("HELP" | "TYPE")), Some(name)) = (words.next(), words.next()) else { return true };
    if !is_name(name) || families.len() >= MOST_SAMPLES {
        return false;
    }
    let rest = words.next().unwrap_or_default().trim();
    let family = families.entry(name).or_insert((Kind::Untyped, String::new()));
    match what {
        "TYPE" => match Kind::read(rest) {
            Some(kind) => family.0 = kind,
            None => return false,
        },
        _ => {
            family.1 = unescaped(iotide_wire::cut_text(rest, MOST_HELP));
        }
    }
    true
}

/// Reads what stands between quotes, and returns it with what follows.
pub(crate) fn quoted(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('"')?;
    let mut is_escaped = false;
    for (at, letter) in inside.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Some((unescaped(&inside[..at]), &inside[at + 1..])),
            _ => {}
        }
    }
    None
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    plain
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'
}

fn is_name(name: &str) -> bool {
    (1..=MOST_NAME).contains(&name.len())
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(text: &str) -> String {
        let mut out = String::new();
        Exported::write(&[(vec![("node", "n1")], &Exported::read(text))], Format::Text, &mut out);
        out
    }

    #[test]
    fn counters_gauges_histograms_and_summaries_stay_what_they_are() {
        let text = "# HELP requests_total Requests \\\\ so far.\n# TYPE requests_total counter\n\
                    requests_total{code=\"200\",path=\"a\\\"b\\\\c\\nd\"} 100 1700000000000\nrequests_total 7\n\
                    # TYPE heat gauge\nheat -2.5e-3\nheat{at=\"x\"} NaN\nheat{at=\"y\"} +Inf\n\
                    # TYPE took_seconds histogram\ntook_seconds_bucket{le=\"0.1\"} 3\ntook_seconds_bucket{le=\"+Inf\"} 5\n\
                    took_seconds_sum 1.5\ntook_seconds_count 5\n\
                    # TYPE size summary\nsize{quantile=\"0.5\"} 2\nsize_sum 9\nsize_count 4\nbare 1\n";
        assert_eq!(Exported::read(text).n_refused, 0);
        assert_eq!(
            written(text),
            "# TYPE bare untyped\nbare{node=\"n1\"} 1\n\
             # TYPE heat gauge\nheat{node=\"n1\"} -0.0025\nheat{node=\"n1\",at=\"x\"} NaN\nheat{node=\"n1\",at=\"y\"} +Inf\n\
             # HELP requests_total Requests \\\\ so far.\n# TYPE requests_total counter\n\
             requests_total{node=\"n1\",code=\"200\",path=\"a\\\"b\\\\c\\nd\"} 100\nrequests_total{node=\"n1\"} 7\n\
             # TYPE size summary\nsize{node=\"n1\",quantile=\"0.5\"} 2\nsize_sum{node=\"n1\"} 9\nsize_count{node=\"n1\"} 4\n\
             # TYPE took_seconds histogram\ntook_seconds_bucket{node=\"n1\",le=\"0.1\"} 3\n\
             took_seconds_bucket{node=\"n1\",le=\"+Inf\"} 5\ntook_seconds_sum{node=\"n1\"} 1.5\ntook_seconds_count{node=\"n1\"} 5\n"
        );
    }

    #[test]
    fn openmetrics_has_other_heads_for_the_same_samples() {
        let shown = "# HELP a_total Says \"a\".\n# TYPE a_total counter\na_total 1\n# TYPE b counter\nb 2\n# TYPE c gauge\nc 3\n\
                     # TYPE c_total counter\nc_total 4\nd 5\n";
        let mut text = String::new();
        Exported::write(&[(Vec::new(), &Exported::read(shown))], Format::OpenMetrics, &mut text);
        assert_eq!(
            text,
            "# HELP a Says \\\"a\\\".\n# TYPE a counter\na_total 1\n# TYPE b unknown\nb 2\n# TYPE c gauge\nc 3\n\
             # TYPE c_total unknown\nc_total 4\n# TYPE d unknown\nd 5\n"
        );
    }

    #[test]
    fn what_openmetrics_says_otherwise_is_understood() {
        let text = "# TYPE jobs counter\n# UNIT jobs jobs\n# HELP jobs Done.\njobs_total{a=\"b\"} 17 1.5 # {trace=\"x\"} 0.6 1.2\njobs_created 1e9\n\
                    # TYPE build info\nbuild_info{version=\"1\"} 1\n# EOF\n";
        let exported = Exported::read(text);
        assert_eq!((exported.n_refused, exported.n_samples()), (0, 2));
        assert_eq!(
            written(text),
            "# TYPE build_info gauge\nbuild_info{node=\"n1\",version=\"1\"} 1\n\
             # HELP jobs_total Done.\n# TYPE jobs_total counter\njobs_total{node=\"n1\",a=\"b\"} 17\n"
        );
    }

    #[test]
    fn what_is_wrong_is_counted_and_the_rest_is_read() {
        for line in [
            "9a 1",
            "a",
            "a{} x",
            "a{b} 1",
            "a{b=c} 1",
            "a{b=\"c} 1",
            "a{b=\"c\" d=\"e\"} 1",
            "a{b=\"c\",b=\"d\"} 1",
            "a{__b=\"c\"} 1",
            "a 1 x",
            "a 1 2 3",
            "a 1e",
            "a inf",
            "a0x1 nan",
            "iotide_jobs 1",
            "right 2",
            "# TYPE right strange",
            &format!("a{{b=\"{}\"}} 1", "x".repeat(2000)),
            &format!("{} 1", "x".repeat(300)),
        ] {
            let exported = Exported::read(&format!("right 1\n{line}\n"));
            assert_eq!((exported.n_refused, exported.n_samples()), (1, 1), "{line}");
        }
        let many: String = (0..MOST_SAMPLES + 5).map(|n| format!("a{{n=\"{n}\"}} 1\n")).collect();
        let exported = Exported::read(&many);
        assert_eq!((exported.n_refused, exported.n_samples()), (5, MOST_SAMPLES));
    }

    #[test]
    fn exporters_of_one_name_stand_together_and_do_not_contradict_each_other() {
        let [one, two, three] = [
            "# TYPE a counter\na{node=\"of theirs\",exported_node=\"x\"} 1\nb 5\n",
            "# TYPE a counter\na 2\n",
            "# TYPE a gauge\na 3\n",
        ]
        .map(Exported::read);
        let mut text = String::new();
        let all = [
            (vec![("node", "n1"), ("exporter", "x")], &one),
            (vec![("node", "n1"), ("exporter", "y")], &two),
            (vec![("node", "n1"), ("exporter", "z")], &three),
        ];
        assert_eq!(Exported::write(&all, Format::Text, &mut text), 1);
        assert_eq!(
            text,
            "# TYPE a counter\na{node=\"n1\",exporter=\"x\",exported_exported_node=\"of theirs\",exported_node=\"x\"} 1\na{node=\"n1\",exporter=\"y\"} 2\n\
             # TYPE b untyped\nb{node=\"n1\",exporter=\"x\"} 5\n"
        );
    }

    proptest! {
        /// Whatever comes, what goes out can be read again, and says the same.
        #[test]
        fn what_is_written_is_read_as_the_same(text in "([ab_:#{}=\",\\\\ \n0-9.eE+-]|TYPE |counter|histogram|_sum|NaN){0,120}", wild in any::<String>()) {
            for text in [text, wild] {
                let exported = Exported::read(&text);
                let mut out = String::new();
                prop_assert_eq!(Exported::write(&[(Vec::new(), &exported)], Format::Text, &mut out), 0);
                let again = Exported::read(&out);
                prop_assert_eq!(again.n_refused, 0, "{}", out);
                let mut twice = String::new();
                Exported::write(&[(Vec::new(), &again)], Format::Text, &mut twice);
                prop_assert_eq!(out, twice);
            }
        }
    }
}
