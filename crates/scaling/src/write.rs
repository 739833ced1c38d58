//! Measurements as Extra-P reads them: JSON Lines, and a saved experiment.

use std::fmt::Write;

use crate::measurement::{Series, Values};

/// Returns the measurements as JSON Lines, one value a line; of values that were summed up, their mean.
pub fn to_json_lines<'a>(parameters: &[String], series: impl IntoIterator<Item = &'a Series>) -> String {
    let mut out = String::new();
    for series in series {
        let (callpath, metric) = (quoted(&series.callpath), quoted(&series.metric));
        for measurement in &series.measurements {
            let named = parameters.iter().zip(&measurement.coordinate);
            let params: Vec<String> = named.map(|(name, x)| format!("{}: {x}", quoted(name))).collect();
            let params = params.join(", ");
            let mean;
            let values = match &measurement.values {
                Values::Each(values) => values.as_slice(),
                Values::Summary(summary) => {
                    mean = [summary.mean];
                    &mean
                }
            };
            for value in values.iter().filter(|value| value.is_finite()) {
                let _ = writeln!(
                    out,
                    "{{\"params\": {{{params}}}, \"callpath\": {callpath}, \"metric\": {metric}, \"value\": {value:?}}}"
                );
            }
        }
    }
    out
}

/// Returns the measurements as an experiment of Extra-P 4, an archive that it opens and models.
pub fn to_extra_p<'a>(parameters: &[String], series: impl IntoIterator<Item = &'a Series>) -> Vec<u8> {
    let mut by_callpath: Vec<(&str, Vec<String>)> = Vec::new();
    for series in series {
        let points: Vec<String> = series
            .measurements
            .iter()
            .map(|measurement| (measurement, measurement.values.summary()))
            .filter(|(_, summary)| summary.mean.is_finite())
            .map(|(measurement, s)| {
                let at: Vec<String> = measurement.coordinate.iter().map(|x| format!("{x:?}")).collect();
                format!(
                    "{{\"coordinate\": [{}], \"median\": {:?}, \"mean\": {:?}, \"minimum\": {:?}, \"maximum\": {:?}, \
                     \"std\": {:?}, \"repetitions\": {}, \"values\": null}}",
                    at.join(", "),
                    s.median,
                    s.mean,
                    s.minimum,
                    s.maximum,
                    s.std,
                    s.n.max(1)
                )
            })
            .collect();
        let metric = format!("{}: [{}]", quoted(&series.metric), points.join(", "));
        match by_callpath.iter_mut().find(|(callpath, _)| *callpath == series.callpath) {
            Some((_, metrics)) => metrics.push(metric),
            None => by_callpath.push((&series.callpath, vec![metric])),
        }
    }
    let names: Vec<String> = parameters.iter().map(|name| quoted(name)).collect();
    let callpaths: Vec<String> = by_callpath
        .iter()
        .map(|(callpath, metrics)| format!("{}: {{{}}}", quoted(callpath), metrics.join(", ")))
        .collect();
    let json = format!(
        "{{\"Extra-P\": \"4.2.5\", \"parameters\": [{}], \"measurements\": {{{}}}}}",
        names.join(", "),
        callpaths.join(", ")
    );
    zip("experiment.json", json.as_bytes())
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// An archive with one file, which is stored as it is.
fn zip(name: &str, contents: &[u8]) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(contents);
    let size = contents.len() as u32;
    let common = |out: &mut Vec<u8>| {
        // Version 2.0, no flags, stored, the first day that the format knows.
        [20u16, 0, 0, 0, 0x21].iter().for_each(|field| out.extend(field.to_le_bytes()));
        [crc.sum(), size, size].iter().for_each(|field| out.extend(field.to_le_bytes()));
        [name.len() as u16, 0].iter().for_each(|field| out.extend(field.to_le_bytes()));
    };
    let mut out = b"PK\x03\x04".to_vec();
    common(&mut out);
    out.extend(name.as_bytes());
    out.extend(contents);
    let directory = out.len() as u32;
    out.extend(b"PK\x01\x02\x14\x00");
    common(&mut out);
    // No comment, the first disk, no attributes, the file at the start.
    out.extend([0; 14]);
    out.extend(name.as_bytes());
    let directory_size = out.len() as u32 - directory;
    out.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    [directory_size, directory].iter().for_each(|field| out.extend(field.to_le_bytes()));
    out.extend([0, 0]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InputFormat, Measurement, read};

    fn series() -> [Series; 2] {
        let measurements = vec![Measurement::new([4.0], [1.5, 2.5]), Measurement::new([8.0], [3.0])];
        let named = |metric: &str| Series {
            callpath: "main->\"io\"\n".into(),
            metric: metric.into(),
            measurements: measurements.clone(),
            notes: Vec::new(),
        };
        [named("time"), named("bytes")]
    }

    #[test]
    fn json_lines_read_back_as_they_were() {
        let text = to_json_lines(&["p".into()], &series());
        let (format, experiment) = read(text.as_bytes(), None).unwrap();
        assert_eq!(format, InputFormat::JsonLines);
        assert_eq!((experiment.parameters, experiment.series), (vec!["p".to_owned()], series().to_vec()));
    }

    #[test]
    fn an_experiment_reads_back_with_its_summaries() {
        let (format, experiment) = read(&to_extra_p(&["p".into()], &series()), None).unwrap();
        assert_eq!(format, InputFormat::ExtraP);
        for (written, read) in series().iter().zip(&experiment.series) {
            assert_eq!((&written.callpath, &written.metric), (&read.callpath, &read.metric));
            for (a, b) in written.measurements.iter().zip(&read.measurements) {
                assert_eq!((&a.coordinate, a.values.summary()), (&b.coordinate, b.values.summary()));
            }
        }
    }
}
