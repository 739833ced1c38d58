//! How a measured quantity grows with a parameter.
//!
//! Given values of a metric at some sizes (ranks, problem size, nodes), [`fit`] finds a function in *performance model
//! normal form*, `c₀ + Σ cₖ · Π p^i · log₂(p)^j` (Calotoiu et al., SC 2013), and says how much it can be trusted.
#![forbid(unsafe_code)]

pub use crate::{
    auto::Alternative,
    measurement::{Experiment, Measure, Measurement, Note, Series, Summary, Values, usable},
    model::{Costs, FitConfig, FitError, Fitter, Method, Model, Range, fit, fit_all},
    predict::{Caution, Prediction},
    read::{InputFormat, ReadError, read},
    search::{Cost, ExtrapConfig, Lines, Search},
    term::{Exponent, Factor, Function, Piecewise, Shape, Term},
};

mod auto;
mod design;
mod hypothesis;
mod measurement;
mod model;
mod multi;
mod predict;
mod read;
mod search;
mod segmented;
mod term;
