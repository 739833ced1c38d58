//! Experiments saved by Extra-P 3: tagged records, of which the measured points are of use here.
//!
//! `u16` 1 in the byte order of the writer, then records: a tag (a text: its length in 32 bits, then its bytes), then
//! fields of 64 bits and texts. Definitions come first, then the models, which are not read, then the points.

use std::collections::HashMap;

use super::{Collector, ReadError};
use crate::measurement::{Experiment, Measurement, Summary, Values};

/// Name of the first record.
const HEADER: &[u8] = b"EXTRAP_EXPERIMENT";

/// The tag of a point, as it stands in the file behind its length.
const POINT: &[u8] = b"ExperimentPoint";

/// Whether this is such an experiment.
pub(super) fn is_it(bytes: &[u8]) -> bool {
    bytes.get(6..).is_some_and(|rest| rest.starts_with(HEADER))
}

pub(super) fn read(bytes: &[u8]) -> Result<Experiment, ReadError> {
    let is_little = bytes.starts_with(&[1, 0]);
    let mut input = Input { bytes, at: 2, is_little };
    let broken = |at: usize| ReadError::BrokenExperiment { at };
    let mut read = || -> Option<Experiment> {
        let mut names = Names::default();
        (input.text()? == "EXTRAP_EXPERIMENT").then_some(())?;
        input.text()?;
        let mut collector = Collector::default();
        while input.at < bytes.len() {
            let start = input.at;
            match input.tag()?.as_str() {
                "Parameter" => {
                    input.i64()?;
                    names.parameters.push(input.text()?);
                }
                "Metric" => {
                    let id = input.i64()?;
                    names.metrics.insert(id, input.text()?);
                    input.text()?;
                }
                "Region" => names.region(&mut input)?,
                "Callpath" => names.callpath(&mut input)?,
                "Coordinate" => names.coordinate(&mut input)?,
                "ExperimentPoint" => names.point(&mut input, &mut collector)?,
                // A model or what made it: on to the next point.
                _ => match input.next_point(start + 1) {
                    Some(next) => input.at = next,
                    None => break,
                },
            }
        }
        Some(collector.into_experiment(names.parameters, Vec::new()))
    };
    match read() {
        Some(experiment) => Ok(experiment),
        None => Err(broken(input.at)),
    }
}

/// Names from the definitions.
#[derive(Default)]
struct Names {
    parameters: Vec<String>,
    metrics: HashMap<i64, String>,
    regions: HashMap<i64, String>,
    /// How often a name of a region occurred so far: the second is `name #1`, as in Extra-P.
    n_named: HashMap<String, usize>,
    callpaths: HashMap<i64, String>,
    coordinates: HashMap<i64, Vec<f64>>,
}

impl Names {
    fn region(&mut self, input: &mut Input) -> Option<()> {
        let (id, name) = (input.i64()?, input.text()?);
        input.text()?;
        input.i64()?;
        let name = match self.n_named.get_mut(&name) {
            Some(n) if !self.regions.contains_key(&id) => {
                *n += 1;
                format!("{name} #{n}")
            }
            _ => {
                self.n_named.insert(name.clone(), 0);
                name
            }
        };
        self.regions.insert(id, name);
        Some(())
    }

    fn callpath(&mut self, input: &mut Input) -> Option<()> {
        let (id, region, parent) = (input.i64()?, input.i64()?, input.i64()?);
        let region = self.regions.get(&region)?;
        let path = match parent {
            -1 => region.clone(),
            parent => format!("{}->{region}", self.callpaths.get(&parent)?),
        };
        self.callpaths.insert(id, path);
        Some(())
    }

    fn coordinate(&mut self, input: &mut Input) -> Option<()> {
        let (id, length) = (input.i64()?, input.i64()?);
        let mut point = vec![f64::NAN; self.parameters.len()];
        for _ in 0..length {
            let name = input.text()?;
            let value = input.f64()?;
            let parameter = self.parameters.iter().position(|parameter| *parameter == name)?;
            point[parameter] = value;
        }
        self.coordinates.insert(id, point);
        Some(())
    }

    fn point(&self, input: &mut Input, collector: &mut Collector) -> Option<()> {
        let (coordinate, n) = (input.i64()?, input.i64()?);
        // Between these stand the ends of confidence intervals.
        let figures: Vec<f64> = (0..9).map(|_| input.f64()).collect::<Option<_>>()?;
        let [mean, _, _, std, median, _, _, minimum, maximum] = figures[..] else { return None };
        let (metric, callpath) = (input.i64()?, input.i64()?);
        let series = collector.series(self.callpaths.get(&callpath)?, self.metrics.get(&metric)?);
        // How many there were is often not kept; that there was one is certain.
        let n = usize::try_from(n).unwrap_or(1).max(1);
        let values = Values::Summary(Summary { n, mean, median, minimum, maximum, std });
        let coordinate = self.coordinates.get(&coordinate)?.clone();
        collector.measurement(series, Measurement { coordinate, values });
        Some(())
    }
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
    is_little: bool,
}

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut taken: [u8; N] = self.bytes.get(self.at..)?.get(..N)?.try_into().ok()?;
        if !self.is_little {
            taken.reverse();
        }
        self.at += N;
        Some(taken)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    fn f64(&mut self) -> Option<f64> {
        self.take().map(f64::from_le_bytes)
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.take().map(u32::from_le_bytes)?).ok()?;
        let text = self.bytes.get(self.at..)?.get(..length)?;
        self.at += length;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// A tag, or nothing where no text stands: what is not known is passed over.
    fn tag(&mut self) -> Option<String> {
        let at = self.at;
        Some(self.text().unwrap_or_else(|| {
            self.at = at;
            String::new()
        }))
    }

    /// Where the next point's record begins, its length included.
    fn next_point(&self, from: usize) -> Option<usize> {
        let length = POINT.len() as u32;
        let length = if self.is_little { length.to_le_bytes() } else { length.to_be_bytes() };
        let tag: Vec<u8> = length.iter().chain(POINT).copied().collect();
        let rest = self.bytes.get(from..)?;
        rest.windows(tag.len()).position(|window| window == tag).map(|at| from + at)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One experiment `main->io` of two points, as Extra-P 3 writes it.
    pub(crate) fn experiment(is_little: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let number = |bytes: [u8; 8]| {
            let mut bytes = bytes;
            if !is_little {
                bytes.reverse();
            }
            bytes
        };
        fn text(out: &mut Vec<u8>, is_little: bool, text: &str) {
            let length = text.len() as u32;
            out.extend(if is_little { length.to_le_bytes() } else { length.to_be_bytes() });
            out.extend(text.as_bytes());
        }
        out.extend(if is_little { [1, 0] } else { [0, 1] });
        for word in ["EXTRAP_EXPERIMENT", "1.0", "Parameter"] {
            text(&mut out, is_little, word);
        }
        out.extend(number(0i64.to_le_bytes()));
        text(&mut out, is_little, "p");
        text(&mut out, is_little, "Metric");
        out.extend(number(0i64.to_le_bytes()));
        text(&mut out, is_little, "time");
        text(&mut out, is_little, "s");
        for (id, name) in [(0i64, "main"), (1, "io")] {
            text(&mut out, is_little, "Region");
            out.extend(number(id.to_le_bytes()));
            text(&mut out, is_little, name);
            text(&mut out, is_little, "main.c");
            out.extend(number(1i64.to_le_bytes()));
        }
        for (id, region, parent) in [(0i64, 0i64, -1i64), (1, 1, 0)] {
            text(&mut out, is_little, "Callpath");
            [id, region, parent].iter().for_each(|n| out.extend(number(n.to_le_bytes())));
        }
        for (id, p) in [(0i64, 4.0f64), (1, 8.0)] {
            text(&mut out, is_little, "Coordinate");
            out.extend(number(id.to_le_bytes()));
            out.extend(number(1i64.to_le_bytes()));
            text(&mut out, is_little, "p");
            out.extend(number(p.to_le_bytes()));
        }
        text(&mut out, is_little, "ModelComment");
        out.extend([7; 31]);
        for (coordinate, mean) in [(0i64, 1.5f64), (1, 3.0)] {
            text(&mut out, is_little, "ExperimentPoint");
            out.extend(number(coordinate.to_le_bytes()));
            out.extend(number(5i64.to_le_bytes()));
            for figure in [mean, 0.0, 0.0, 0.1, mean, 0.0, 0.0, mean - 0.2, mean + 0.2] {
                out.extend(number(figure.to_le_bytes()));
            }
            out.extend(number(0i64.to_le_bytes()));
            out.extend(number(1i64.to_le_bytes()));
        }
        out
    }

    #[test]
    fn points_are_read_and_models_passed_over_in_either_byte_order() {
        for is_little in [true, false] {
            let read = read(&experiment(is_little)).unwrap();
            assert_eq!(read.parameters, ["p"]);
            let [series] = read.series.as_slice() else { panic!("{:?}", read.series) };
            assert_eq!((series.callpath.as_str(), series.metric.as_str()), ("main->io", "time"));
            let means: Vec<(f64, f64)> =
                series.measurements.iter().map(|m| (m.coordinate[0], m.values.summary().mean)).collect();
            assert_eq!(means, [(4.0, 1.5), (8.0, 3.0)]);
        }
    }

    #[test]
    fn a_cut_experiment_is_an_error_or_has_fewer_points() {
        let whole = experiment(true);
        for end in 0..whole.len() {
            if let Ok(read) = read(&whole[..end]) {
                assert!(read.series.iter().all(|series| series.measurements.len() <= 2));
            }
        }
    }
}
