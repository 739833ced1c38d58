//! Requests to a receiver of Prometheus' remote-write protocol, version 1.0.
//!
//! A request is a `WriteRequest` of protocol buffers; how it is compressed and sent is not decided here. Of the format three messages and four kinds of fields
//! are used, so they are written by hand.

use std::collections::HashSet;

use crate::exported::quoted;
use crate::series::put_varint;

/// The value that says that a series has ended: a special number that is none.
pub const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

/// A request, and how many samples it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRequest {
    /// The message.
    pub bytes: Vec<u8>,
    /// Its samples.
    pub n_samples: usize,
}

/// Returns requests of at most so many samples each, with all samples of an [exposition](crate::Exposition) at a time in milliseconds since 1970. Each series has
/// the label `instance` beside its own. Series of the exposition before that are not in this one have ended, and are sent once more as such.
pub fn write_requests(
    text: &str,
    before: &str,
    instance: &str,
    at_ms: i64,
    most_samples: usize,
) -> Vec<WriteRequest> {
    let now: HashSet<&str> = samples(text).map(|(series, _)| series).collect();
    let ended =
        samples(before).filter(|(series, _)| !now.contains(series)).map(|(series, _)| (series, STALE));
    let mut requests: Vec<WriteRequest> = Vec::new();
    for (series, value) in samples(text).chain(ended) {
        let Some(labels) = labels_of(series, instance) else { continue };
        if requests.last().is_none_or(|request| request.n_samples >= most_samples) {
            requests.push(WriteRequest { bytes: Vec::new(), n_samples: 0 });
        }
        let Some(request) = requests.last_mut() else { continue };
        put_series(&mut request.bytes, &labels, value, at_ms);
        request.n_samples += 1;
    }
    requests
}

/// The samples of an exposition: what names a series, and its value.
fn samples(text: &str) -> impl Iterator<Item = (&str, f64)> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let value = match value {
            "+Inf" => f64::INFINITY,
            "-Inf" => f64::NEG_INFINITY,
            value => value.parse().ok()?,
        };
        Some((series, value))
    })
}

/// The labels of a series, its name among them, in the order of their names.
fn labels_of(series: &str, instance: &str) -> Option<Vec<(String, String)>> {
    let (name, mut rest) = match series.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}')?),
        None => (series, ""),
    };
    let mut labels =
        vec![("__name__".to_owned(), name.to_owned()), ("instance".to_owned(), instance.to_owned())];
    while !rest.is_empty() {
        let (label, after) = rest.split_once('=')?;
        let (value, after) = quoted(after)?;
        // A label without a value is none.
        if !value.is_empty() {
            labels.push((label.to_owned(), value));
        }
        rest = after.trim_start_matches(',');
    }
    labels.sort();
    Some(labels)
}

/// Field 1 of a `WriteRequest`: a `TimeSeries` of one sample.
fn put_series(out: &mut Vec<u8>, labels: &[(String, String)], value: f64, at_ms: i64) {
    let mut series = Vec::new();
    for (name, value) in labels {
        let mut label = Vec::new();
        put_bytes(&mut label, 1, name.as_bytes());
        put_bytes(&mut label, 2, value.as_bytes());
        put_bytes(&mut series, 1, &label);
    }
    let mut sample = Vec::new();
    // 64 bits in their order, then a number.
    sample.push(1 << 3 | 1);
    sample.extend_from_slice(&value.to_le_bytes());
    sample.push(2 << 3);
    put_varint(&mut sample, at_ms as u64);
    put_bytes(&mut series, 2, &sample);
    put_bytes(out, 1, &series);
}

/// A field of bytes: its number and kind, their length, themselves.
fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exposition, Kind};
    use iotide_wire::take_varint;
    use proptest::prelude::*;

    type Series = (Vec<(String, String)>, f64, i64);

    /// The slow twin: what a receiver reads.
    fn read(request: &WriteRequest) -> Vec<Series> {
        fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
            let mut fields = Vec::new();
            while !bytes.is_empty() {
                let tag = take_varint(&mut bytes).unwrap();
                let value = match tag & 7 {
                    0 => take_varint(&mut bytes).unwrap().to_le_bytes().to_vec(),
                    1 => bytes.split_off(..8).unwrap().to_vec(),
                    2 => {
                        let n = take_varint(&mut bytes).unwrap() as usize;
                        bytes.split_off(..n).unwrap().to_vec()
                    }
                    other => panic!("kind {other}"),
                };
                fields.push((tag >> 3, value));
            }
            fields
        }
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let series = fields(&request.bytes).into_iter().map(|(field, series)| {
            assert_eq!(field, 1);
            let (mut labels, mut value, mut at_ms) = (Vec::new(), 0.0, 0);
            for (field, bytes) in fields(&series) {
                let inner = fields(&bytes);
                match field {
                    1 => labels.push((text(&inner[0].1), text(&inner[1].1))),
                    _ => {
                        value = f64::from_le_bytes(inner[0].1[..].try_into().unwrap());
                        at_ms = i64::from_le_bytes(inner[1].1[..].try_into().unwrap());
                    }
                }
            }
            (labels, value, at_ms)
        });
        series.collect()
    }

    fn pairs(labels: &[(&str, &str)]) -> Vec<(String, String)> {
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn samples_arrive_with_sorted_labels_and_a_series_that_ended_is_said_to_have() {
        let mut text = Exposition::default();
        text.family("b_total", Kind::Counter, "B.").sample(&[("op", "read"), ("job", "7")], 5);
        text.family("a", Kind::Gauge, "A.").sample_f64(&[], f64::INFINITY);
        let text = text.finish();
        let before = "b_total{op=\"read\",job=\"7\"} 4\ngone{job=\"6\"} 1\n";
        let requests = write_requests(&text, before, "n1", 1_700_000_000_123, 2);
        assert_eq!(requests.iter().map(|request| request.n_samples).collect::<Vec<_>>(), [2, 1]);
        let all: Vec<Series> = requests.iter().flat_map(read).collect();
        let at_ms = 1_700_000_000_123;
        let b = pairs(&[("__name__", "b_total"), ("instance", "n1"), ("job", "7"), ("op", "read")]);
        assert_eq!(all[0], (b, 5.0, at_ms));
        assert_eq!(all[1], (pairs(&[("__name__", "a"), ("instance", "n1")]), f64::INFINITY, at_ms));
        assert_eq!(all[2].0, pairs(&[("__name__", "gone"), ("instance", "n1"), ("job", "6")]));
        assert_eq!(all[2].1.to_bits(), STALE.to_bits());
    }

    proptest! {
        #[test]
        fn any_label_and_value_arrive_as_they_are_but_for_what_steers_a_terminal(label in any::<String>(), value in any::<f64>(), ns in any::<u64>()) {
            let mut text = Exposition::default();
            let mut family = text.family("x", Kind::Gauge, "X.");
            family.sample_f64(&[("name", &label)], value).sample_ns(&[("name", &label), ("mode", "a")], ns);
            let read: Vec<Series> = write_requests(&text.finish(), "", "n", 1, 100).iter().flat_map(read).collect();
            // Lines of a text end where others see more than one end: a label with such a letter is no line of its own.
            prop_assert_eq!(read.len(), 2);
            let escaped = |c: char| if c != '\n' && iotide_wire::steers(c) { c.escape_default().collect() } else { String::from(c) };
            let shown: String = label.chars().map(escaped).collect();
            let has_label = |series: &Series| series.0.iter().any(|(name, value)| name == "name" && *value == shown);
            prop_assert!(label.is_empty() || read.iter().all(has_label));
            prop_assert!(read[0].1 == value || read[0].1.is_nan() && value.is_nan());
            prop_assert!((read[1].1 - ns as f64 / 1e9).abs() <= 1e-9 * read[1].1.abs());
        }

        #[test]
        fn any_text_comes_to_an_end(text in "\\PC{0,300}", lines in "[a-z{}=\",\\\\ 0-9\n]{0,300}") {
            let _ = write_requests(&text, &lines, "n", 1, 3);
        }
    }
}
