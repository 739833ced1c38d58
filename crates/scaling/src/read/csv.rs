//! Tables: one value a row (`p,size,callpath,metric,value`), or one column a metric (`p,time,bytes`). A line
//! `# parameters=p,size` before the header tells which columns are parameters.

use iotide_table::{Dialect, OpenQuote, cells, lines};

use super::{Collector, DEFAULT_METRIC, ROOT, ReadError};
use crate::measurement::{Experiment, Note};

pub(super) fn read(text: &str) -> Result<Experiment, ReadError> {
    let mut lines = lines(text);
    let (_, header) = lines.next().ok_or(ReadError::Empty)?;
    let dialect = Dialect::of_header(header.as_bytes(), b",;\t");
    let header = cells(header, dialect)
        .map_err(|OpenQuote| ReadError::Missing { missing: "the end of a quote in the header" })?;
    let column = |name: &str| header.iter().position(|field| field.eq_ignore_ascii_case(name));
    let (callpath, metric, value) = (column("callpath"), column("metric"), column("value"));
    let declared = declared_parameters(text);
    if declared.iter().any(|name| column(name).is_none()) {
        return Err(ReadError::Missing { missing: "a column that `# parameters=` names" });
    }
    // Without a column of values and another word the first column is the parameter and every other one a metric.
    let (parameters, metrics): (Vec<usize>, Vec<usize>) = match value {
        Some(value) => {
            let named = [callpath, metric, Some(value)];
            ((0..header.len()).filter(|column| !named.contains(&Some(*column))).collect(), vec![value])
        }
        None => {
            (0..header.len()).filter(|column| Some(*column) != callpath).partition(|column| {
                match declared.as_slice() {
                    [] => *column == first_parameter(callpath),
                    names => names.iter().any(|name| header[*column].eq_ignore_ascii_case(name)),
                }
            })
        }
    };
    if parameters.is_empty() || metrics.is_empty() {
        return Err(ReadError::Missing { missing: "a column for a parameter or for values" });
    }
    let mut collector = Collector::default();
    let mut notes = Vec::new();
    for (number, line) in lines {
        let mut skip = |reason: String| notes.push(Note::Skipped { line: number, reason });
        let Ok(fields) = cells(line, dialect) else {
            skip("a quote does not end".into());
            continue;
        };
        if fields.len() != header.len() {
            skip(format!("it has {} columns, the header has {}", fields.len(), header.len()));
            continue;
        }
        let number = |field: &str| -> Option<f64> {
            field.parse().ok().or_else(|| dialect.with_point(field)?.parse().ok())
        };
        let coordinate: Option<Vec<f64>> = parameters.iter().map(|column| number(&fields[*column])).collect();
        let Some(coordinate) = coordinate else {
            skip("a parameter is no number".into());
            continue;
        };
        for column in &metrics {
            // An empty cell is a point that was not measured; another word is a value that is no number.
            if fields[*column].is_empty() {
                continue;
            }
            let name = match (value, metric) {
                (Some(_), Some(metric)) => &*fields[metric],
                (Some(_), None) => DEFAULT_METRIC,
                (None, _) => &*header[*column],
            };
            let series = collector.series(callpath.map_or(ROOT, |callpath| &*fields[callpath]), name);
            collector.push(series, &coordinate, [number(&fields[*column]).unwrap_or(f64::NAN)]);
        }
    }
    let parameters = parameters.into_iter().map(|column| header[column].to_string()).collect();
    Ok(collector.into_experiment(parameters, notes))
}

/// The names in a line `# parameters=p,size` before the header.
fn declared_parameters(text: &str) -> Vec<&str> {
    let remarks = text.lines().take_while(|line| line.trim().is_empty() || line.starts_with('#'));
    let names =
        remarks.filter_map(|line| line.trim_start_matches('#').trim().strip_prefix("parameters=")).next();
    names.map_or_else(Vec::new, |names| {
        names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
    })
}

fn first_parameter(callpath: Option<usize>) -> usize {
    usize::from(callpath == Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_a_metric_makes_a_series_a_column() {
        let experiment = read("callpath\tp\ttime\tbytes\nmain\t1\t2\t3\nmain\t2\tx\t5\n").unwrap();
        assert_eq!(experiment.parameters, ["p"]);
        let names: Vec<&str> = experiment.series.iter().map(|series| series.metric.as_str()).collect();
        assert_eq!(names, ["time", "bytes"]);
        assert!(experiment.series[0].measurements[1].values.summary().mean.is_nan());
    }

    #[test]
    fn between_semicolons_numbers_may_have_a_decimal_comma() {
        let experiment = read("p;time\n1,5;10\n2;5,1\n4;2.6\n").unwrap();
        let measured = &experiment.series[0].measurements;
        let values: Vec<(f64, f64)> =
            measured.iter().map(|point| (point.coordinate[0], point.values.summary().mean)).collect();
        assert_eq!(values, [(1.5, 10.0), (2.0, 5.1), (4.0, 2.6)]);
    }

    #[test]
    fn a_remark_tells_which_columns_are_parameters() {
        let experiment = read("# parameters=p, size\np,size,t,u\n2,10,1,5\n4,10,2,6\n").unwrap();
        assert_eq!(experiment.parameters, ["p", "size"]);
        assert_eq!(experiment.series.len(), 2);
        assert_eq!(experiment.series[1].measurements[1].coordinate, [4.0, 10.0]);
        let unknown = read("# parameters=q\np,t\n2,1\n").unwrap_err();
        assert_eq!(unknown, ReadError::Missing { missing: "a column that `# parameters=` names" });
    }

    #[test]
    fn rows_that_do_not_fit_the_header_are_left_out() {
        let experiment = read("p,value\n1,2\n2\nx,3\n").unwrap();
        assert_eq!(experiment.series[0].measurements.len(), 1);
        let notes: Vec<String> = experiment.notes.iter().map(ToString::to_string).collect();
        assert_eq!(notes, ["line 3: it has 1 columns, the header has 2", "line 4: a parameter is no number"]);
    }

    #[test]
    fn a_quote_that_does_not_end_costs_its_row() {
        let experiment = read("p;value\n1;\"2\"\n2;\"3\n4;5\n").unwrap();
        assert_eq!(experiment.series[0].measurements.len(), 2);
        assert_eq!(experiment.notes[0].to_string(), "line 3: a quote does not end");
        assert!(read("p;\"value\n1;2\n").is_err());
    }
}
