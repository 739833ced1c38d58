//! Metrics over time, in few bytes.
//!
//! [`Rows`] hold the values of many columns at some ticks. A tick is a number, not a time: the tick `n` of rows that were folded `f` times covers
//! the seconds `n · 2^f` to `(n + 1) · 2^f` since 1970. Folding ([`Rows::fold`]) makes one tick of the ticks 2k and 2k + 1, so it halves the rows and
//! keeps what they add up to: a counter keeps the later value, a gauge the mean, weighted by how many samples each stands for.
//!
//! [`Rows::encode`] takes one to two bytes a sample of usual metrics, [`Rows::decode`] believes no length without a bound. Each encoded
//! piece can be read by itself.

pub use amend::Amendment;
pub use answer::{MAX_POINTS, MAX_VALUES, MetricAnswer, SeriesAnswer};
pub use columns::{Columns, MAX_OWNER};
pub use named::{counters_of_samples, names_of_job, samples_of_job};
pub use points::{Points, points};
pub use rows::{ColumnKind, MAX_COLUMNS, MAX_FOLDS, MAX_TICKS, Rows, Sample, SeriesFault};

mod amend;
mod answer;
mod bits;
mod column;
mod columns;
mod named;
mod numbers;
mod points;
mod rows;

pub(crate) fn put_varint(out: &mut Vec<u8>, value: u64) {
    iotide_wire::put_varint(value, |byte| out.push(byte));
}
