//! How a measured quantity grows with a parameter.
//!
//! Given values of a metric at some sizes (ranks, problem size, nodes), [`fit`] finds a function in *performance model
//! normal form*, `c₀ + Σ cₖ · Π p^i · log₂(p)^j` (Calotoiu et al., SC 2013), and says how far it can be trusted.
//!
//! Two ways lead there. [`Method::Auto`] compares all functions by their evidence, claims growth only where noise could
//! not have made it, and gives intervals. [`Method::Extrap`] does what Extra-P 4.2 does, step by step. [`read()`] takes
//! measurements from text, [`fit_all`] models many metrics at once, [`ModelSet`] keeps models up to date and can be
//! stored, [`advise`] says where to measure next.
//!
//! ```
//! use iotide_scaling::{FitConfig, Measurement, fit};
//!
//! let measurements: Vec<Measurement> =
//!     [(4.0, 10.1), (8.0, 17.9), (16.0, 34.2), (32.0, 65.8), (64.0, 130.1)].map(|(p, s)| Measurement::new([p], [s])).to_vec();
//! let model = fit(&measurements, &FitConfig::default())?;
//! assert!(model.function.to_text(&["p"]).ends_with("* p^(1)"));
//! let there = model.predict(&[128.0], 0.9);
//! let (low, high) = there.interval.unwrap();
//! assert!(low < 258.0 && 258.0 < high);
//! # Ok::<(), iotide_scaling::FitError>(())
//! ```
#![forbid(unsafe_code)]

pub use crate::{
    advise::{Advice, advise},
    auto::{Alternative, Scatter},
    measurement::{Experiment, Measure, Measurement, Note, Series, Summary, Values, usable},
    model::{Costs, Edges, FitConfig, FitError, Fitter, Method, Model, Range, fit, fit_all},
    predict::{Caution, Prediction},
    read::{InputFormat, ReadError, Scaling, collect, read, read_cubes},
    refit::{ModelSet, ParametersDiffer},
    search::{Cost, ExtrapConfig, Lines, Search},
    store::StoreError,
    term::{Exponent, Factor, Function, Piecewise, Shape, Term},
    write::{to_extra_p, to_json_lines},
};

mod advise;
mod auto;
mod design;
mod hypothesis;
mod measurement;
mod memory;
mod model;
mod multi;
mod predict;
mod read;
mod refit;
mod search;
mod segmented;
mod store;
mod term;
mod write;
