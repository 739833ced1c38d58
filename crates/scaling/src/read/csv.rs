//! Tables: one value a row (`p,size,callpath,metric,value`), or one column a metric (`p,time,bytes`). A line
//! `# parameters=p,size` before the header tells which columns are parameters.

use super::{Collector, DEFAULT_METRIC, ROOT, ReadError};
use crate::measurement::{Experiment, Note};

pub(super) fn read(text: &str) -> Result<Experiment, ReadError> {
    let mut lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let (_, header) = lines.next().ok_or(ReadError::Empty)?;
    let separator = [',', ';', '\t']
        .into_iter()
        .max_by_key(|separator| header.matches(*separator).count())
        .unwrap_or(',');
    let header = split(header, separator);
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
    for (index, line) in lines {
        let mut skip = |reason: String| notes.push(Note::Skipped { line: index + 1, reason });
        let fields = split(line, separator);
        if fields.len() != header.len() {
            skip(format!("it has {} columns, the header has {}", fields.len(), header.len()));
            continue;
        }
        let coordinate: Result<Vec<f64>, _> =
            parameters.iter().map(|column| fields[*column].parse::<f64>()).collect();
        let Ok(coordinate) = coordinate else {
            skip("a parameter is no number".into());
            continue;
        };
        for column in &metrics {
            // An empty cell is a point that was not measured; another word is a value that is no number.
            if fields[*column].is_empty() {
                continue;
            }
            let name = match (value, metric) {
                (Some(_), Some(metric)) => fields[metric].as_str(),
                (Some(_), None) => DEFAULT_METRIC,
                (None, _) => header[*column].as_str(),
            };
            let series = collector.series(callpath.map_or(ROOT, |callpath| fields[callpath].as_str()), name);
            collector.push(series, &coordinate, [fields[*column].parse().unwrap_or(f64::NAN)]);
        }
    }
    let parameters = parameters.into_iter().map(|column| header[column].clone()).collect();
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

/// Fields of a line; a field in quotes may hold separators, and `""` for a quote.
fn split(line: &str, separator: char) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                if let Some(field) = fields.last_mut() {
                    field.push('"');
                }
            }
            '"' => quoted = !quoted,
            c if c == separator && !quoted => fields.push(String::new()),
            c => {
                if let Some(field) = fields.last_mut() {
                    field.push(c);
                }
            }
        }
    }
    fields.into_iter().map(|field| field.trim().to_owned()).collect()
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
    fn quotes_protect_separators() {
        assert_eq!(split(r#"1,"a,""b""",c"#, ','), ["1", "a,\"b\"", "c"]);
    }
}
