//! Models in a form of the reader's own: Extra-P's placeholders.

use std::collections::HashSet;
use std::fmt::Write;

use iotide_look::Untrusted;

use crate::scaling::{ModelEntry, PointEntry, ScalingReport};

/// Why a format cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PrintError {
    /// A name in braces that stands for nothing.
    #[error("there is no placeholder {{{name}}} here")]
    Unknown {
        /// The name.
        name: String,
    },
    /// A brace without its partner.
    #[error("a brace is not closed; a brace itself is written twice")]
    Unbalanced,
    /// Options that are not `sep:'…'; format:'…'`.
    #[error("{options:?} are no options such as sep:', '; format:'{{point}}'")]
    Options {
        /// The options.
        options: String,
    },
    /// A number format that is not known.
    #[error("{spec:?} is no form of a number such as .2e, .3f or .4g")]
    Number {
        /// The form.
        spec: String,
    },
}

impl ScalingReport {
    /// Returns the models as `format` says: one of Extra-P's words (`all`, `callpaths`, `metrics`, `parameters`, `functions`, with
    /// `-python` or `-latex` behind `all` and `functions`), or a text with placeholders, once for each model.
    ///
    /// With a `?` before a name, lines that came before are left out.
    pub fn print(&self, format: &str) -> Result<String, PrintError> {
        let template = match format.to_ascii_lowercase().as_str() {
            "all" => ALL.to_owned(),
            "all-python" => ALL.replace("{model}", "{model:python}"),
            "all-latex" => ALL.replace("{model}", "{model:latex}"),
            "callpaths" => "{?callpath}".to_owned(),
            "metrics" => "{?metric}".to_owned(),
            "parameters" => "{?parameters:sep:'\\n'}".to_owned(),
            "functions" => "{model}".to_owned(),
            "functions-python" => "{model:python}".to_owned(),
            "functions-latex" => "{model:latex}".to_owned(),
            _ => format.to_owned(),
        };
        let parts = parse(&template)?;
        let once = parts.iter().any(|part| matches!(part, Part::Place { name, .. } if name.starts_with('?')));
        let (mut out, mut seen) = (String::new(), HashSet::new());
        for entry in &self.models {
            let line = self.fill(&parts, entry)?;
            if !once || seen.insert(line.clone()) {
                let _ = writeln!(out, "{line}");
            }
        }
        Ok(out)
    }

    fn fill(&self, parts: &[Part], entry: &ModelEntry) -> Result<String, PrintError> {
        fill(parts, |name, options| {
            Ok(match name {
                "callpath" => entry.callpath.for_terminal(),
                "metric" => entry.metric.for_terminal(),
                "model" => match options.trim() {
                    "" => entry.function.for_terminal(),
                    "python" => entry.python.for_terminal(),
                    "latex" => entry.latex.for_terminal(),
                    _ => return Err(PrintError::Options { options: options.to_owned() }),
                },
                "smape" => number(entry.smape, options)?,
                "rss" => number(entry.rss, options)?,
                "ar2" => number(entry.adjusted_r2, options)?,
                "rrss" => {
                    let gaps = entry.points.iter().map(|point| point.relative_gap.powi(2));
                    number(Some(gaps.sum()), options)?
                }
                "re" => {
                    let gaps = entry.points.iter().map(|point| point.relative_gap);
                    number(Some(gaps.sum::<f64>() / entry.points.len() as f64), options)?
                }
                "parameters" => {
                    let options = ListOptions::parse(options)?;
                    let each = self.parameters.iter().map(|parameter| match &options.format {
                        Some(parts) => fill(parts, |name, _| match name {
                            "parameter" => Ok(parameter.for_terminal()),
                            _ => Err(PrintError::Unknown { name: name.to_owned() }),
                        }),
                        None => Ok(parameter.for_terminal()),
                    });
                    each.collect::<Result<Vec<_>, _>>()?.join(options.sep.as_deref().unwrap_or(" "))
                }
                "points" => {
                    let options = ListOptions::parse(options)?;
                    let each = entry.points.iter().map(|point| match &options.format {
                        Some(parts) => fill(parts, |name, options| match name {
                            "point" => place(&self.parameters, point, options),
                            _ => Err(PrintError::Unknown { name: name.to_owned() }),
                        }),
                        None => Ok(format!("({})", place(&self.parameters, point, "")?)),
                    });
                    each.collect::<Result<Vec<_>, _>>()?.join(options.sep.as_deref().unwrap_or(" | "))
                }
                "measurements" => {
                    let options = ListOptions::parse(options)?;
                    let default = "({point}) Mean: {mean:.2E} Median: {median:.2E}";
                    let parts = match options.format {
                        Some(parts) => parts,
                        None => parse(default)?,
                    };
                    let each = entry.points.iter().map(|point| {
                        fill(&parts, |name, options| match name {
                            "point" => place(&self.parameters, point, options),
                            "mean" => number(Some(point.mean), options),
                            "median" => number(Some(point.median), options),
                            "std" => number(Some(point.std), options),
                            "min" => number(Some(point.minimum), options),
                            "max" => number(Some(point.maximum), options),
                            _ => Err(PrintError::Unknown { name: name.to_owned() }),
                        })
                    });
                    each.collect::<Result<Vec<_>, _>>()?.join(options.sep.as_deref().unwrap_or("\n"))
                }
                _ => return Err(PrintError::Unknown { name: name.to_owned() }),
            })
        })
    }
}

/// Expansion of `all`.
const ALL: &str = "Callpath: {callpath}\n\tMetric: {metric}\n\t\tMeasurement points: {points}\n\t\t\
                   {measurements: sep:'\\n\\t\\t'}\n\t\tModel: {model}\n\t\tRSS: {rss:.2E}\n\t\tAdjusted R^2: {ar2:.2E}\n\t\t\
                   SMAPE: {smape:.2E}";

fn place(names: &[Untrusted], point: &PointEntry, options: &str) -> Result<String, PrintError> {
    let options = ListOptions::parse(options)?;
    let each = names.iter().zip(&point.coordinate).map(|(parameter, value)| {
        let value = Some(*value);
        match &options.format {
            Some(parts) => fill(parts, |name, spec| match name {
                "parameter" => Ok(parameter.for_terminal()),
                "coordinate" => number(value, spec),
                _ => Err(PrintError::Unknown { name: name.to_owned() }),
            }),
            None => number(value, ".2E"),
        }
    });
    Ok(each.collect::<Result<Vec<_>, _>>()?.join(options.sep.as_deref().unwrap_or(", ")))
}

/// A part of a template.
#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Place { name: String, options: String },
}

fn fill(
    parts: &[Part],
    mut value: impl FnMut(&str, &str) -> Result<String, PrintError>,
) -> Result<String, PrintError> {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Place { name, options } => out.push_str(&value(name.trim_start_matches('?'), options)?),
        }
    }
    Ok(out)
}

/// Text and placeholders; `{{` and `}}` are braces, `\n` and `\t` what they are elsewhere.
fn parse(template: &str) -> Result<Vec<Part>, PrintError> {
    let (mut parts, mut text) = (Vec::new(), String::new());
    let mut chars = template.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '{' | '}' if chars.next_if(|(_, next)| *next == c).is_some() => text.push(c),
            '}' => return Err(PrintError::Unbalanced),
            '{' => {
                let mut depth = 1;
                let end = chars.by_ref().find_map(|(i, c)| {
                    match c {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        _ => {}
                    }
                    (depth == 0).then_some(i)
                });
                let inside = &template[at + 1..end.ok_or(PrintError::Unbalanced)?];
                let (name, options) = inside.split_once(':').unwrap_or((inside, ""));
                parts.push(Part::Text(std::mem::take(&mut text)));
                parts.push(Part::Place { name: name.trim().to_owned(), options: options.to_owned() });
            }
            '\\' => match chars.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, other)) => text.push(other),
                None => text.push('\\'),
            },
            c => text.push(c),
        }
    }
    parts.push(Part::Text(text));
    Ok(parts)
}

/// How a list is written.
#[derive(Default)]
struct ListOptions {
    sep: Option<String>,
    format: Option<Vec<Part>>,
}

impl ListOptions {
    fn parse(options: &str) -> Result<Self, PrintError> {
        let wrong = || PrintError::Options { options: options.to_owned() };
        let mut found = Self::default();
        let mut rest = options.trim();
        while !rest.is_empty() {
            let (key, after) = rest.split_once(':').ok_or_else(wrong)?;
            let after = after.trim_start().strip_prefix('\'').ok_or_else(wrong)?;
            // The value ends at an apostrophe that is neither escaped nor inside braces.
            let (mut depth, mut escaped) = (0, false);
            let end = after.char_indices().find_map(|(i, c)| {
                match c {
                    _ if escaped => escaped = false,
                    '\\' => escaped = true,
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    '\'' if depth == 0 => return Some(i),
                    _ => {}
                }
                None
            });
            let (value, after) = after.split_at(end.ok_or_else(wrong)?);
            match key.trim() {
                "format" => found.format = Some(parse(value)?),
                "sep" => {
                    let value = value.replace("\\n", "\n").replace("\\t", "\t").replace("\\'", "'");
                    found.sep = Some(value);
                }
                _ => return Err(wrong()),
            }
            rest = after[1..].trim_start().trim_start_matches(';').trim_start();
        }
        Ok(found)
    }
}

/// A number as Python's format would write it: `.2f`, `.3e`, `.4g`, or all digits it has.
fn number(value: Option<f64>, spec: &str) -> Result<String, PrintError> {
    let Some(value) = value else { return Ok("nan".into()) };
    let spec = spec.trim();
    if spec.is_empty() {
        return Ok(format!("{value:?}"));
    }
    let wrong = || PrintError::Number { spec: spec.to_owned() };
    let kind = spec.chars().last().ok_or_else(wrong)?;
    let digits = spec.strip_suffix(kind).unwrap_or_default().trim_start_matches('.');
    let digits: usize = if digits.is_empty() { 6 } else { digits.parse().map_err(|_| wrong())? };
    if digits > 40 {
        return Err(wrong());
    }
    let scientific = |digits: usize| {
        let text = format!("{value:.digits$e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
    };
    Ok(match kind {
        'f' | 'F' => format!("{value:.digits$}"),
        'e' => scientific(digits),
        'E' => scientific(digits).replace('e', "E"),
        'g' | 'G' => {
            let digits = digits.max(1);
            let exponent = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
            let text = if (-4..digits as i32).contains(&exponent) {
                format!("{value:.*}", (digits as i32 - 1 - exponent).max(0) as usize)
            } else {
                scientific(digits - 1)
            };
            match text.split_once('e') {
                None if text.contains('.') => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                _ => text,
            }
        }
        _ => return Err(wrong()),
    })
}

#[cfg(test)]
mod tests {
    use iotide_scaling::{FitConfig, Measurement, Series, fit};

    use super::*;

    fn report() -> ScalingReport {
        let mut report = ScalingReport::new("m", "csv", "auto", &["p".to_owned()]);
        report.keeps_points = true;
        for metric in ["time", "bytes"] {
            let measurements: Vec<Measurement> =
                [2.0, 4.0, 8.0, 16.0, 32.0].map(|p| Measurement::new([p], [3.0 * p])).to_vec();
            let model = fit(&measurements, &FitConfig::default()).unwrap();
            let series =
                Series { callpath: "main".into(), metric: metric.into(), measurements, notes: Vec::new() };
            report.add(&series, &model, &[], 0.9);
        }
        report
    }

    #[test]
    fn placeholders_stand_for_what_extra_p_has_them_for() {
        let print = |format: &str| report().print(format).unwrap();
        assert_eq!(print("callpaths"), "main\n");
        assert_eq!(print("metrics"), "time\nbytes\n");
        assert_eq!(print("parameters"), "p\n");
        assert_eq!(print("functions"), "3.0 * p^(1)\n3.0 * p^(1)\n");
        assert_eq!(
            print("{metric}: {model:python}, {{{smape:.1f}}}"),
            "time: 3.0 * p**(1), {0.0}\nbytes: 3.0 * p**(1), {0.0}\n"
        );
        let points =
            "{?points: sep:' \\' ' ; format:'<{point: sep:';';format:'{parameter}{coordinate:.0f}'}>'}";
        assert_eq!(print(points), "<p2> ' <p4> ' <p8> ' <p16> ' <p32>\n");
        let measurements = "{?measurements: sep:', '; format:'{point: format:'{coordinate:g}'}--{mean:.2e}'}";
        assert_eq!(
            print(measurements),
            "2--6.00e+00, 4--1.20e+01, 8--2.40e+01, 16--4.80e+01, 32--9.60e+01\n"
        );
        assert!(
            print("all").starts_with("Callpath: main\n\tMetric: time\n\t\tMeasurement points: (2.00E+00) | ")
        );
    }

    #[test]
    fn what_is_no_format_is_refused() {
        let print = |format: &str| report().print(format).unwrap_err();
        assert_eq!(print("{nothing}"), PrintError::Unknown { name: "nothing".into() });
        assert_eq!(print("{metric"), PrintError::Unbalanced);
        assert!(matches!(print("{rss:x}"), PrintError::Number { .. }));
        assert!(matches!(print("{points: sep}"), PrintError::Options { .. }));
    }
}
