//! Extra-P's text form: keywords, line by line.

use super::{Collector, ReadError};
use crate::measurement::{Experiment, Note};

pub(super) const KEYWORDS: [&str; 5] = ["PARAMETER", "POINTS", "REGION", "METRIC", "DATA"];

pub(super) fn read(text: &str) -> Result<Experiment, ReadError> {
    let mut parameters: Vec<String> = Vec::new();
    let mut points: Vec<Vec<f64>> = Vec::new();
    let mut collector = Collector::default();
    let mut notes = Vec::new();
    let (mut region, mut metric) = (String::new(), String::new());
    // The lines of data of the current region and metric, one a point.
    let mut n_data = 0;
    // Series with more data than points: which line belongs where cannot be known.
    let mut misaligned: Vec<usize> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut skip = |reason: String| notes.push(Note::Skipped { line: index + 1, reason });
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (keyword, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match keyword {
            "PARAMETER" => parameters.extend(rest.split_whitespace().map(str::to_owned)),
            "POINTS" => match read_points(rest, parameters.len()) {
                Ok(more) => points.extend(more),
                // Without a point all data after it would move up by one.
                Err(fault) => {
                    return Err(ReadError::NothingUsable { first: format!("line {}: {fault}", index + 1) });
                }
            },
            "REGION" => {
                region = rest.split_whitespace().collect::<Vec<_>>().join(" ");
                n_data = 0;
            }
            "METRIC" => {
                metric = rest.split_whitespace().collect::<Vec<_>>().join(" ");
                n_data = 0;
            }
            "DATA" => {
                let series = collector.series(&region, &metric);
                n_data += 1;
                let Some(point) = points.get(n_data - 1) else {
                    if !misaligned.contains(&series) {
                        skip(format!(
                            "{metric} in {region} has more lines of data than there are points ({})",
                            points.len()
                        ));
                        misaligned.push(series);
                    }
                    continue;
                };
                let values: Vec<f64> =
                    rest.split_whitespace().map(|value| value.parse().unwrap_or(f64::NAN)).collect();
                collector.push(series, point, values);
            }
            other => skip(format!("{other:?} is no keyword")),
        }
    }
    if parameters.is_empty() {
        return Err(ReadError::Missing { missing: "the line PARAMETER" });
    }
    misaligned.into_iter().for_each(|series| collector.series[series].measurements.clear());
    Ok(collector.into_experiment(parameters, notes))
}

/// `4 8 16`, or `(4 1) (8 1)`.
fn read_points(text: &str, n_parameters: usize) -> Result<Vec<Vec<f64>>, String> {
    let groups: Vec<&str> = if text.contains('(') {
        text.split('(')
            .map(|group| group.split(')').next().unwrap_or(""))
            .filter(|group| !group.trim().is_empty())
            .collect()
    } else if n_parameters == 1 {
        text.split_whitespace().collect()
    } else {
        vec![text]
    };
    groups
        .into_iter()
        .map(|group| {
            let point: Result<Vec<f64>, _> = group.split_whitespace().map(str::parse).collect();
            let point = point.map_err(|_| format!("the point {group:?} is not made of numbers"))?;
            if point.len() == n_parameters {
                Ok(point)
            } else {
                Err(format!(
                    "the point {group:?} has {} coordinates, but there are {n_parameters} parameters",
                    point.len()
                ))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::Measurement;

    #[test]
    fn points_of_several_parameters_stand_in_brackets() {
        let experiment =
            read("# a comment\nPARAMETER x y\nPOINTS\t(\t1\t2\t)\nPOINTS (3 4) (5 6)(7 8)\nREGION a->b\nDATA 1\nDATA 2\nDATA 3\nDATA 4").unwrap();
        assert_eq!(experiment.parameters, ["x", "y"]);
        assert_eq!(experiment.series[0].callpath, "a->b");
        assert_eq!(experiment.series[0].measurements[3], Measurement::new([7.0, 8.0], [4.0]));
    }

    #[test]
    fn more_data_than_points_spoil_one_series_only() {
        let experiment = read(
            "PARAMETER p\nPOINTS 1 2\nMETRIC m\nREGION a\nDATA 1\nDATA 2\nDATA 3\nREGION b\nDATA 1\nDATA 2",
        )
        .unwrap();
        assert_eq!(experiment.series.len(), 1);
        assert_eq!(experiment.series[0].callpath, "b");
        assert_eq!(
            experiment.notes[0].to_string(),
            "line 7: m in a has more lines of data than there are points (2)"
        );
    }

    #[test]
    fn a_point_of_the_wrong_size_is_an_error() {
        let error = read("PARAMETER a b\nPOINTS 1000\nREGION r\nDATA 1").unwrap_err().to_string();
        assert_eq!(
            error,
            "nothing in it can be used: line 2: the point \"1000\" has 1 coordinates, but there are 2 parameters"
        );
    }

    #[test]
    fn a_word_among_the_data_is_one_value_that_is_no_number() {
        let experiment = read("PARAMETER p\nPOINTS 1\nREGION r\nDATA 1 oops 3").unwrap();
        let crate::Values::Each(values) = &experiment.series[0].measurements[0].values else { panic!() };
        assert_eq!(values.iter().filter(|value| value.is_nan()).count(), 1);
    }
}
