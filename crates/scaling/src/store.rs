//! A model set as bytes, so that it outlives the process that fitted it.
//!
//! Little-endian throughout: `iotidems`, a version, the fingerprint of how it was fitted, digests of what was absorbed, the
//! parameters, then every series with its model, and at the end the FNV-1a hash of all that. Floating-point numbers are
//! stored bit by bit: a set that was stored and read predicts to the last digit what it predicted before.
//!
//! Whatever the bytes, reading returns: every count is checked against the bytes that are left before it is believed.

use std::num::NonZeroUsize;

use iotide_wire::Fnv1a;

use crate::auto::{Alternative, Scatter};
use crate::measurement::{Measure, Measurement, Note, Series, Summary, Values};
use crate::model::{Costs, Edges, FitConfig, FitError, Method, Model, Range};
use crate::refit::ModelSet;
use crate::search::{Cost, ExtrapConfig, Lines, Search};
use crate::term::{Exponent, Factor, Function, Piecewise, Shape, Term};

const MAGIC: &[u8; 8] = b"iotidems";
const VERSION: u32 = 3;

/// To be raised whenever the same measurements would give another model: stored models are then fitted anew.
const METHODS_VERSION: u32 = 4;

/// How deep a function may lie within a piece of another.
const MOST_NESTED: usize = 4;

/// Why bytes are no model set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Something else, or an empty file.
    #[error("this is no stored set of models")]
    NotAStore,
    /// Written by a program that knows more than this one.
    #[error("the set was stored in version {found}; this program reads version {VERSION}")]
    UnknownVersion {
        /// Version that the set states.
        found: u32,
    },
    /// Cut short or altered since it was written.
    #[error("the stored set is damaged: its checksum is not that of its content")]
    Damaged,
    /// The checksum holds but the content makes no sense.
    #[error("the stored set makes no sense at byte {at}")]
    Senseless {
        /// Where.
        at: usize,
    },
}

impl ModelSet {
    /// Returns the set as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        out.0.extend_from_slice(MAGIC);
        out.u32(VERSION);
        out.text(&fingerprint(&self.config));
        out.list(self.absorbed.iter(), |out, digest| out.u64(*digest));
        out.list(self.parameters.iter(), |out, name| out.text(name));
        out.list(self.series.iter().zip(&self.models), |out, (series, model)| {
            out.series(series);
            match model {
                Err(FitError::NoPoints) => out.u8(0),
                Err(FitError::OutOfRange) => out.u8(2),
                Ok(model) => {
                    out.u8(1);
                    out.model(model);
                }
            }
        });
        let hash = Fnv1a::of(&out.0).value();
        out.u64(hash);
        out.0
    }

    /// Returns how many parameters the models of a stored set have.
    pub fn parameters_in(bytes: &[u8]) -> Result<usize, StoreError> {
        let mut input = Reader::of_content(bytes)?;
        input.text()?;
        input.list(Reader::u64)?;
        input.count()
    }

    /// Returns the set that [`ModelSet::to_bytes`] wrote, and how many of its models had to be fitted anew because they were
    /// fitted otherwise than `config` says: none or all.
    pub fn from_bytes(
        bytes: &[u8],
        config: FitConfig,
        n_threads: NonZeroUsize,
    ) -> Result<(Self, usize), StoreError> {
        let mut input = Reader::of_content(bytes)?;
        let is_fitted_so = input.text()? == fingerprint(&config);
        let absorbed = input.list(Reader::u64)?;
        let parameters = input.list(Reader::text)?;
        let n_parameters = parameters.len();
        let mut set = ModelSet::new(parameters, config);
        set.absorbed = absorbed.into_iter().collect();
        for _ in 0..input.count()? {
            let series = input.series(n_parameters)?;
            let model = match input.u8()? {
                0 => Err(FitError::NoPoints),
                1 => Ok(input.model(n_parameters)?),
                2 => Err(FitError::OutOfRange),
                _ => return Err(input.senseless()),
            };
            if !set.push(series, model) {
                return Err(input.senseless());
            }
        }
        if input.at != input.bytes.len() {
            return Err(input.senseless());
        }
        let n_refitted = if is_fitted_so { 0 } else { set.refit_all(n_threads) };
        Ok((set, n_refitted))
    }
}

/// Returns the settings of a fit as text, which must not have changed for a stored model to hold: every one, by a name that outlives the code's.
fn fingerprint(config: &FitConfig) -> String {
    let FitConfig { measure, method } = config;
    let measure = match measure {
        Measure::Mean => "mean",
        Measure::Median => "median",
        Measure::Minimum => "minimum",
        Measure::Maximum => "maximum",
    };
    let method = match method {
        Method::Auto => "auto".to_owned(),
        Method::Extrap(config) => fingerprint_of_extrap(config),
    };
    format!("{METHODS_VERSION} measure={measure} method={method}")
}

fn fingerprint_of_extrap(config: &ExtrapConfig) -> String {
    let ExtrapConfig {
        search,
        logarithms,
        negative_exponents,
        poly_exponents,
        log_exponents,
        retain_default_exponents,
        force_combination_exponents,
        cross_validation,
        compare_by,
        minimum_contribution,
        lines,
        compare_combinations_by,
        sums_of_products,
    } = config;
    let search = match search {
        Search::Basic => "basic",
        Search::Refining => "refining",
        Search::Segmented => "segmented",
    };
    let cost = |cost: &Cost| match cost {
        Cost::Smape => "smape",
        Cost::Rss => "rss",
    };
    let lines = match lines {
        Lines::Longest => "longest",
        Lines::Lowest => "lowest",
    };
    let list =
        |exponents: &[Exponent]| exponents.iter().map(Exponent::to_string).collect::<Vec<_>>().join(",");
    format!(
        "extrap search={search} logarithms={logarithms} negative={negative_exponents} poly={} log={} \
         retain={retain_default_exponents} force={force_combination_exponents} cross_validation={cross_validation} \
         compare_by={} minimum={minimum_contribution} lines={lines} compare_combinations_by={} sums={sums_of_products}",
        list(poly_exponents),
        list(log_exponents),
        cost(compare_by),
        cost(compare_combinations_by),
    )
}

/// The digest by which a set knows what it absorbed already: of the measurements, not of how they were written.
pub(crate) fn digest(parameters: &[String], series: &[Series]) -> u64 {
    let mut out = Writer(Vec::new());
    out.list(parameters.iter(), |out, name| out.text(name));
    out.list(series.iter(), Writer::series);
    Fnv1a::of(&out.0).value()
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn size(&mut self, value: usize) {
        self.u64(value as u64);
    }

    fn f64(&mut self, value: f64) {
        self.u64(value.to_bits());
    }

    fn text(&mut self, text: &str) {
        self.size(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn list<T>(&mut self, items: impl ExactSizeIterator<Item = T>, mut each: impl FnMut(&mut Self, T)) {
        self.size(items.len());
        items.for_each(|item| each(self, item));
    }

    fn series(&mut self, series: &Series) {
        self.text(&series.callpath);
        self.text(&series.metric);
        self.list(series.measurements.iter(), |out, measurement| {
            out.list(measurement.coordinate.iter(), |out, x| out.f64(*x));
            match &measurement.values {
                Values::Each(values) => {
                    out.u8(0);
                    out.list(values.iter(), |out, value| out.f64(*value));
                }
                Values::Summary(Summary { n, mean, median, minimum, maximum, std }) => {
                    out.u8(1);
                    out.size(*n);
                    [mean, median, minimum, maximum, std].into_iter().for_each(|figure| out.f64(*figure));
                }
            }
        });
        self.list(series.notes.iter(), Self::note);
    }

    fn model(&mut self, model: &Model) {
        self.function(&model.function);
        let Costs { rss, smape, adjusted_r2 } = model.costs;
        [rss, smape, adjusted_r2].into_iter().for_each(|cost| self.f64(cost));
        self.size(model.n_points);
        self.list(model.ranges.iter(), |out, Range { minimum, maximum, n_values }| {
            out.f64(*minimum);
            out.f64(*maximum);
            out.size(*n_values);
        });
        self.edges(&model.edges);
        self.list(model.alternatives.iter(), |out, alternative| {
            out.f64(alternative.probability);
            out.function(&alternative.function);
            out.list(alternative.covariance.iter(), |out, row| {
                out.list(row.iter(), |out, covariance| out.f64(*covariance));
            });
            out.f64(alternative.dof);
            out.f64(alternative.scatter.variance);
            out.f64(alternative.scatter.exponent);
            out.f64(alternative.scatter.drift);
        });
        self.u8(model.non_negative.into());
        self.list(model.notes.iter(), Self::note);
    }

    fn edges(&mut self, edges: &Edges) {
        for points in [&edges.largest, &edges.smallest] {
            self.list(points.iter(), |out, point| out.list(point.iter(), |out, x| out.f64(*x)));
        }
    }

    fn function(&mut self, function: &Function) {
        self.f64(function.constant);
        self.list(function.terms.iter(), |out, term| {
            out.f64(term.coefficient);
            out.list(term.factors.iter(), |out, factor| match factor {
                Factor::Smooth { parameter, shape } => {
                    out.u8(0);
                    out.size(*parameter);
                    for exponent in [shape.power, shape.log] {
                        out.u64(exponent.numerator() as u64);
                        out.u64(exponent.denominator() as u64);
                    }
                }
                Factor::Piecewise(pieces) => {
                    out.u8(1);
                    out.size(pieces.parameter);
                    out.function(&pieces.lower);
                    out.f64(pieces.lower_end);
                    out.function(&pieces.upper);
                    out.f64(pieces.upper_start);
                }
            });
        });
    }

    /// A kind, two numbers and a text: each kind uses what it has.
    fn note(&mut self, note: &Note) {
        let (kind, a, b, text) = match note {
            Note::NotANumber { n_values } => (0, *n_values as u64, 0, ""),
            Note::UnusablePoints { n_points } => (1, *n_points as u64, 0, ""),
            Note::PooledDuplicates { n_points } => (2, *n_points as u64, 0, ""),
            Note::MissingPoints { n_points } => (3, *n_points as u64, 0, ""),
            Note::Skipped { line, reason } => (4, *line as u64, 0, reason.as_str()),
            Note::FewPoints { parameter, n_points } => (5, *parameter as u64, *n_points as u64, ""),
            Note::NoLogarithms { parameter } => (6, *parameter as u64, 0, ""),
            Note::FixedParameter { parameter } => (7, *parameter as u64, 0, ""),
            Note::TiedParameters { kept, dropped } => (8, *kept as u64, *dropped as u64, ""),
            Note::SumOrProduct => (9, 0, 0, ""),
            Note::Ambiguous { probability } => (10, probability.to_bits(), 0, ""),
            Note::PoorFit { relative_gap } => (11, relative_gap.to_bits(), 0, ""),
        };
        self.u8(kind);
        self.u64(a);
        self.u64(b);
        self.text(text);
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Which version wrote the content.
    version: u32,
}

impl<'a> Reader<'a> {
    /// Stands where the fingerprint begins, in content whose checksum holds.
    fn of_content(bytes: &'a [u8]) -> Result<Self, StoreError> {
        let mut input = Reader { bytes, at: 0, version: VERSION };
        if input.take(MAGIC.len()).map_err(|_| StoreError::NotAStore)? != MAGIC {
            return Err(StoreError::NotAStore);
        }
        input.version = match input.u32().map_err(|_| StoreError::Damaged)? {
            known @ 1..=VERSION => known,
            found => return Err(StoreError::UnknownVersion { found }),
        };
        let end = bytes.len().checked_sub(8).filter(|end| *end >= input.at).ok_or(StoreError::Damaged)?;
        let (content, hash) = bytes.split_at(end);
        if Fnv1a::of(content).value().to_le_bytes() != hash {
            return Err(StoreError::Damaged);
        }
        input.bytes = content;
        Ok(input)
    }

    fn senseless(&self) -> StoreError {
        StoreError::Senseless { at: self.at }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], StoreError> {
        let taken =
            self.bytes.get(self.at..).and_then(|rest| rest.get(..n)).ok_or_else(|| self.senseless())?;
        self.at += n;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| self.senseless())
    }

    fn u8(&mut self) -> Result<u8, StoreError> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, StoreError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, StoreError> {
        self.array().map(u64::from_le_bytes)
    }

    fn size(&mut self) -> Result<usize, StoreError> {
        usize::try_from(self.u64()?).map_err(|_| self.senseless())
    }

    fn f64(&mut self) -> Result<f64, StoreError> {
        self.u64().map(f64::from_bits)
    }

    /// How many items follow; each takes at least a byte.
    fn count(&mut self) -> Result<usize, StoreError> {
        let count = self.size()?;
        if count > self.bytes.len() - self.at { Err(self.senseless()) } else { Ok(count) }
    }

    fn text(&mut self) -> Result<String, StoreError> {
        let n = self.count()?;
        let text = self.take(n)?;
        std::str::from_utf8(text).map(str::to_owned).map_err(|_| self.senseless())
    }

    fn list<T>(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        (0..self.count()?).map(|_| each(self)).collect()
    }

    fn series(&mut self, n_parameters: usize) -> Result<Series, StoreError> {
        let (callpath, metric) = (self.text()?, self.text()?);
        let measurements = self.list(|input| {
            let coordinate = input.list(Reader::f64)?;
            let values = match input.u8()? {
                0 => Values::Each(input.list(Reader::f64)?),
                1 => Values::Summary(Summary {
                    n: input.size()?,
                    mean: input.f64()?,
                    median: input.f64()?,
                    minimum: input.f64()?,
                    maximum: input.f64()?,
                    std: input.f64()?,
                }),
                _ => return Err(input.senseless()),
            };
            Ok(Measurement { coordinate, values })
        })?;
        let notes = self.list(|input| input.note(n_parameters))?;
        Ok(Series { callpath, metric, measurements, notes })
    }

    fn model(&mut self, n_parameters: usize) -> Result<Model, StoreError> {
        let function = self.function(n_parameters, MOST_NESTED)?;
        let costs = Costs { rss: self.f64()?, smape: self.f64()?, adjusted_r2: self.f64()? };
        let n_points = self.size()?;
        let ranges = self.list(|input| {
            Ok(Range { minimum: input.f64()?, maximum: input.f64()?, n_values: input.size()? })
        })?;
        let edges = match self.version {
            1 | 2 => Edges::default(),
            _ => Edges { largest: self.points(n_parameters)?, smallest: self.points(n_parameters)? },
        };
        let alternatives = self.list(|input| {
            Ok(Alternative {
                probability: input.f64()?,
                function: input.function(n_parameters, MOST_NESTED)?,
                covariance: input.list(|input| input.list(Reader::f64))?,
                dof: input.f64()?,
                scatter: match input.version {
                    1 => Scatter::default(),
                    _ => Scatter { variance: input.f64()?, exponent: input.f64()?, drift: input.f64()? },
                },
            })
        })?;
        let non_negative = self.u8()? != 0;
        let notes = self.list(|input| input.note(n_parameters))?;
        if ranges.len() != n_parameters {
            return Err(self.senseless());
        }
        Ok(Model { function, costs, n_points, ranges, edges, alternatives, non_negative, notes })
    }

    fn points(&mut self, n_parameters: usize) -> Result<Vec<Vec<f64>>, StoreError> {
        let points = self.list(|input| input.list(Reader::f64))?;
        if points.iter().any(|point| point.len() != n_parameters) {
            return Err(self.senseless());
        }
        Ok(points)
    }

    fn function(&mut self, n_parameters: usize, depth: usize) -> Result<Function, StoreError> {
        let depth = depth.checked_sub(1).ok_or_else(|| self.senseless())?;
        let constant = self.f64()?;
        let terms = self.list(|input| {
            let coefficient = input.f64()?;
            let factors = input.list(|input| match input.u8()? {
                0 => Ok(Factor::Smooth {
                    parameter: input.parameter(n_parameters)?,
                    shape: Shape { power: input.exponent()?, log: input.exponent()? },
                }),
                1 => Ok(Factor::Piecewise(Box::new(Piecewise {
                    parameter: input.parameter(n_parameters)?,
                    lower: input.function(n_parameters, depth)?,
                    lower_end: input.f64()?,
                    upper: input.function(n_parameters, depth)?,
                    upper_start: input.f64()?,
                }))),
                _ => Err(input.senseless()),
            })?;
            Ok(Term { coefficient, factors })
        })?;
        Ok(Function { constant, terms })
    }

    /// An index that a point of the set has a coordinate for.
    fn parameter(&mut self, n_parameters: usize) -> Result<usize, StoreError> {
        let parameter = self.size()?;
        if parameter < n_parameters { Ok(parameter) } else { Err(self.senseless()) }
    }

    fn exponent(&mut self) -> Result<Exponent, StoreError> {
        // Far beyond any exponent searched, and far from where arithmetic with fractions could overflow.
        const LARGEST: i64 = 1 << 30;
        let (numerator, denominator) = (self.u64()? as i64, self.u64()? as i64);
        let sane = (-LARGEST..=LARGEST).contains(&numerator) && (1..=LARGEST).contains(&denominator);
        if sane { Ok(Exponent::new(numerator, denominator)) } else { Err(self.senseless()) }
    }

    fn note(&mut self, n_parameters: usize) -> Result<Note, StoreError> {
        let (kind, a, b, text) = (self.u8()?, self.u64()?, self.u64()?, self.text()?);
        let size = |value: u64| usize::try_from(value).map_err(|_| self.senseless());
        let parameter = |value: u64| {
            size(value).and_then(|p| if p < n_parameters { Ok(p) } else { Err(self.senseless()) })
        };
        Ok(match kind {
            0 => Note::NotANumber { n_values: size(a)? },
            1 => Note::UnusablePoints { n_points: size(a)? },
            2 => Note::PooledDuplicates { n_points: size(a)? },
            3 => Note::MissingPoints { n_points: size(a)? },
            4 => Note::Skipped { line: size(a)?, reason: text },
            5 => Note::FewPoints { parameter: parameter(a)?, n_points: size(b)? },
            6 => Note::NoLogarithms { parameter: parameter(a)? },
            7 => Note::FixedParameter { parameter: parameter(a)? },
            8 => Note::TiedParameters { kept: parameter(a)?, dropped: parameter(b)? },
            9 => Note::SumOrProduct,
            10 => Note::Ambiguous { probability: f64::from_bits(a) },
            11 => Note::PoorFit { relative_gap: f64::from_bits(a) },
            _ => return Err(self.senseless()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, ExtrapConfig, Method, Search, read};

    fn experiment(text: &str) -> Experiment {
        read(text.as_bytes(), None).unwrap().1
    }

    fn set_of(text: &str, config: FitConfig) -> ModelSet {
        let experiment = experiment(text);
        let mut set = ModelSet::new(experiment.parameters.clone(), config);
        set.absorb(vec![experiment], NonZeroUsize::MIN).unwrap();
        set
    }

    const TWO_PARAMETERS: &str = "p,n,callpath,metric,value\n\
        1,1,a,t,2\n2,1,a,t,3.1\n4,1,a,t,4.9\n8,1,a,t,9.2\n1,2,a,t,4\n1,4,a,t,8.1\n1,8,a,t,15.8\n2,1,a,u,nan\n";

    fn same(a: &ModelSet, b: &ModelSet) {
        assert_eq!(a.parameters(), b.parameters());
        let (a, b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
        // NaN is no equal of itself; its text is.
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
    }

    #[test]
    fn a_stored_set_is_the_set_and_needs_no_fitting() {
        let segmented = Method::Extrap(ExtrapConfig { search: Search::Segmented, ..ExtrapConfig::default() });
        let broken = "p,t\n1,1\n2,2\n3,3\n4,4\n5,5\n6,900\n7,1400\n8,2000\n9,2700\n10,3500\n11,4400\n";
        for (text, method) in
            [(TWO_PARAMETERS, Method::Auto), (broken, segmented), ("p,t\n1,5\n2,5\n", Method::Auto)]
        {
            let config = FitConfig { method, ..FitConfig::default() };
            let set = set_of(text, config.clone());
            let (read, n_refitted) =
                ModelSet::from_bytes(&set.to_bytes(), config, NonZeroUsize::MIN).unwrap();
            assert_eq!(n_refitted, 0);
            same(&set, &read);
            assert_eq!(set.to_bytes(), read.to_bytes());
        }
    }

    #[test]
    fn a_set_fitted_another_way_is_fitted_anew() {
        let set = set_of(TWO_PARAMETERS, FitConfig::default());
        let other = FitConfig { method: Method::Extrap(ExtrapConfig::default()), ..FitConfig::default() };
        let (read, n_refitted) =
            ModelSet::from_bytes(&set.to_bytes(), other.clone(), NonZeroUsize::MIN).unwrap();
        assert_eq!(n_refitted, 2);
        same(&read, &set_of(TWO_PARAMETERS, other));
    }

    /// A set as version 1 wrote it: without edges and the scatter of alternatives, and fitted by the methods of its time.
    fn as_version_1(set: &ModelSet) -> Vec<u8> {
        let mut bytes = set.to_bytes();
        bytes.truncate(bytes.len() - 8);
        bytes[8] = 1;
        let methods =
            bytes.windows(2).position(|pair| pair == format!("{METHODS_VERSION} ").as_bytes()).unwrap();
        bytes[methods] = b'1';
        let mut from = 0;
        for model in set.models.iter().flatten() {
            let mut edges = Writer(Vec::new());
            edges.edges(&model.edges);
            from += bytes[from..].windows(edges.0.len()).position(|bytes| bytes == edges.0).unwrap();
            bytes.drain(from..from + edges.0.len());
            for Alternative { dof, scatter: Scatter { variance, exponent, drift }, .. } in &model.alternatives
            {
                let last = [*dof, *variance, *exponent, *drift].map(f64::to_le_bytes).concat();
                from += bytes[from..].windows(last.len()).position(|bytes| bytes == last).unwrap() + 8;
                bytes.drain(from..from + 24);
            }
        }
        let hash = Fnv1a::of(&bytes).value();
        bytes.extend_from_slice(&hash.to_le_bytes());
        bytes
    }

    #[test]
    fn a_set_of_the_first_version_is_read_and_fitted_anew() {
        let set = set_of(TWO_PARAMETERS, FitConfig::default());
        let old = as_version_1(&set);
        assert!(old.len() < set.to_bytes().len(), "it had no scatter");
        let (read, n_refitted) = ModelSet::from_bytes(&old, FitConfig::default(), NonZeroUsize::MIN).unwrap();
        assert_eq!(n_refitted, 2);
        same(&read, &set);
        assert!(read.has_absorbed(&experiment(TWO_PARAMETERS)));
        assert_eq!(ModelSet::parameters_in(&old), Ok(2));
    }

    #[test]
    fn a_stored_set_remembers_what_it_absorbed() {
        let set = set_of(TWO_PARAMETERS, FitConfig::default());
        let (mut read, _) =
            ModelSet::from_bytes(&set.to_bytes(), FitConfig::default(), NonZeroUsize::MIN).unwrap();
        assert!(read.has_absorbed(&experiment(TWO_PARAMETERS)));
        let more = "p,n,callpath,metric,value\n8,8,a,t,70\n";
        assert!(!read.has_absorbed(&experiment(more)));
        assert_eq!(read.absorb(vec![experiment(more)], NonZeroUsize::MIN).unwrap(), [0]);
        assert!(read.has_absorbed(&experiment(more)));
    }

    #[test]
    fn damage_is_told_wherever_it_lies() {
        let bytes = set_of(TWO_PARAMETERS, FitConfig::default()).to_bytes();
        let read = |bytes: &[u8]| ModelSet::from_bytes(bytes, FitConfig::default(), NonZeroUsize::MIN);
        for cut in (0..bytes.len()).step_by(3) {
            assert!(read(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for at in (0..bytes.len()).step_by(3) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(read(&damaged).is_err(), "altered at {at}");
        }
        assert_eq!(read(b"p,t\n1,5\n").unwrap_err(), StoreError::NotAStore);
        let mut newer = bytes.clone();
        newer[8] = VERSION as u8 + 1;
        assert_eq!(read(&newer).unwrap_err(), StoreError::UnknownVersion { found: VERSION + 1 });
    }

    /// The checksum guards against accidents; behind it, nonsense must not be believed either.
    #[test]
    fn nonsense_under_a_good_checksum_is_refused_or_harmless() {
        let bytes = set_of(TWO_PARAMETERS, FitConfig::default()).to_bytes();
        let end = bytes.len() - 8;
        // Behind the fingerprint, a change of which would have everything fitted anew.
        let start = 20 + fingerprint(&FitConfig::default()).len();
        for (i, at) in (start..end).step_by(11).enumerate() {
            let mut forged = bytes[..end].to_vec();
            forged[at] ^= [0x01, 0x80, 0xff][i % 3];
            let hash = Fnv1a::of(&forged).value();
            forged.extend_from_slice(&hash.to_le_bytes());
            let Ok((set, _)) = ModelSet::from_bytes(&forged, FitConfig::default(), NonZeroUsize::MIN) else {
                continue;
            };
            for model in set.iter().filter_map(|(_, model)| model.as_ref().ok()) {
                let _ = model.predict(&[64.0, 64.0], 0.9);
            }
        }
    }
}
