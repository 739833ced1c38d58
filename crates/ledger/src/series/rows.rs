//! Values of columns at ticks.

use std::collections::BTreeMap;

use iotide_wire::take_varint;

use super::column::Column;
use super::numbers::{put_numbers, take_numbers};
use super::put_varint;

/// Ticks in one piece of rows.
pub const MAX_TICKS: usize = 1024;
/// Columns in one piece of rows.
pub const MAX_COLUMNS: usize = 1024;
/// How often rows can be folded: a tick is 35 years then.
pub const MAX_FOLDS: u8 = 30;
/// No encoded piece is longer than this, whatever its values are: a block of `iotide_wire` has room for it.
const MAX_ENCODED: usize = 1 << 20;
/// The most that an encoded number takes, with its share of the heads of miniblocks, and what a column and the ticks take beside.
const NUMBER_BYTES: usize = 9;
const COLUMN_BYTES: usize = 96;

/// Kind of the values in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColumnKind {
    /// Whole numbers that grow.
    Counter,
    /// Any numbers.
    Gauge,
}

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sample {
    /// Of a counter.
    Counter(u64),
    /// Of a gauge.
    Gauge(f64),
}

impl Sample {
    /// Which columns have such values.
    pub fn kind(self) -> ColumnKind {
        match self {
            Self::Counter(_) => ColumnKind::Counter,
            Self::Gauge(_) => ColumnKind::Gauge,
        }
    }

    pub(super) fn bits(self) -> u64 {
        match self {
            Self::Counter(value) => value,
            Self::Gauge(value) => value.to_bits(),
        }
    }

    pub(super) fn of_bits(kind: ColumnKind, bits: u64) -> Self {
        match kind {
            ColumnKind::Counter => Self::Counter(bits),
            ColumnKind::Gauge => Self::Gauge(f64::from_bits(bits)),
        }
    }

    /// Returns the sample of one tick from an earlier and a later one, which stand for `n` and `n_later` samples.
    pub(super) fn merged(self, n: u32, later: Self, n_later: u32) -> Self {
        match (self, later) {
            (Self::Gauge(value), Self::Gauge(later)) if n > 0 && n_later > 0 => {
                Self::Gauge(mean(value, n, later, n_later))
            }
            _ if n_later > 0 => later,
            _ => self,
        }
    }
}

fn mean(a: f64, n: u32, b: f64, m: u32) -> f64 {
    if a.to_bits() == b.to_bits() {
        return a;
    }
    let (n, m) = (f64::from(n), f64::from(m));
    // Each divided before they are added: the sum of two large ones may be none.
    let mean = if n == m { a / 2.0 + b / 2.0 } else { a * (n / (n + m)) + b * (m / (n + m)) };
    // A last bit that rounding put there would make the column a third longer.
    let short = (mean * 1e6).round() / 1e6;
    if (short - mean).abs() <= 8.0 * f64::EPSILON * mean.abs() { short } else { mean }
}

/// Why bytes are no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeriesFault {
    /// A later version wrote them.
    #[error("the samples are of version {0}, and 1 is known")]
    Version(u8),
    /// They end too early, or go on where they should have ended.
    #[error("the samples are not as long as they say")]
    Length,
    /// A number that is out of bounds.
    #[error("the samples claim {claimed} {what}, and at most {most} can be")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        claimed: u64,
        /// The bound.
        most: u64,
    },
    /// Ticks or columns do not ascend.
    #[error("the samples are out of order")]
    Order,
    /// A column cannot be read.
    #[error("the values of column {0} cannot be read")]
    Column(u32),
}

/// Values of columns at ticks. See [the module](super).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    folds: u8,
    ticks: Vec<u64>,
    columns: BTreeMap<u32, Column>,
}

impl Rows {
    /// Returns rows without any ticks, which were folded so often.
    pub fn new(folds: u8) -> Self {
        Self { folds: folds.min(MAX_FOLDS), ..Self::default() }
    }

    /// How often they were folded: a tick is 2^folds seconds.
    pub fn folds(&self) -> u8 {
        self.folds
    }

    /// The ticks, ascending.
    pub fn ticks(&self) -> &[u64] {
        &self.ticks
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty()
    }

    /// The columns there are.
    pub fn columns(&self) -> impl Iterator<Item = (u32, ColumnKind)> + '_ {
        self.columns.iter().map(|(id, column)| (*id, column.kind))
    }

    /// The values of a column: tick, value, and how many samples it stands for.
    pub fn column(&self, id: u32) -> impl Iterator<Item = (u64, Sample, u32)> + Clone + '_ {
        let column = self.columns.get(&id);
        self.ticks.iter().enumerate().filter_map(move |(index, tick)| {
            let (sample, count) = column?.get(index)?;
            Some((*tick, sample, count))
        })
    }

    /// How many samples there are.
    pub fn n_samples(&self) -> usize {
        self.columns.values().map(Column::n_samples).sum()
    }

    /// How many ticks rows of so many columns can have and still be encoded in one piece.
    pub fn most_ticks(n_columns: usize) -> usize {
        let n_columns = n_columns.max(1) + 1;
        let left = MAX_ENCODED.saturating_sub(n_columns * COLUMN_BYTES);
        // Counts beside the values, where they are not all the same.
        (left / (n_columns * NUMBER_BYTES * 2)).clamp(1, MAX_TICKS)
    }

    /// Whether another tick, with so many columns, still fits into one encoded piece.
    pub fn has_room(&self, n_columns: usize) -> bool {
        self.ticks.len() < Self::most_ticks(self.columns.len().max(n_columns))
    }

    /// Adds samples at a second since 1970, each a column's. The clock may be set back: then they belong to the last tick. Returns how many were left
    /// out because there are too many columns, or the column has values of another kind.
    pub fn add(&mut self, second: u64, samples: impl IntoIterator<Item = (u32, Sample)>) -> usize {
        self.begin(second >> self.folds);
        samples.into_iter().map(|(id, sample)| usize::from(!self.add_to_last(id, sample, 1))).sum()
    }

    fn begin(&mut self, tick: u64) {
        if self.ticks.last().is_none_or(|last| *last < tick) {
            self.ticks.push(tick);
        }
    }

    fn add_to_last(&mut self, id: u32, sample: Sample, count: u32) -> bool {
        if !self.columns.contains_key(&id) {
            if self.columns.len() >= MAX_COLUMNS {
                return false;
            }
            self.columns.insert(id, Column::new(sample.kind()));
        }
        match self.columns.get_mut(&id) {
            Some(column) if column.kind == sample.kind() => {
                column.add(self.ticks.len(), sample, count);
                true
            }
            _ => false,
        }
    }

    /// Adds one tick of other rows, which are later and folded as often. Ticks are merged where they are the same.
    pub fn append_tick(&mut self, later: &Rows, index: usize) {
        if let Some(&tick) = later.ticks.get(index) {
            self.append_as(tick, later, index);
        }
    }

    /// Sets values of the last tick, or of one behind it. Each stands for as many samples as it did, or for one.
    pub(super) fn put(&mut self, tick: u64, samples: impl Iterator<Item = (u32, Sample)>) {
        self.begin(tick);
        for (id, sample) in samples {
            if self.columns.contains_key(&id) || self.columns.len() < MAX_COLUMNS {
                let column = self.columns.entry(id).or_insert_with(|| Column::new(sample.kind()));
                column.set(self.ticks.len(), sample);
            }
        }
    }

    /// Adds what other rows have at one of their ticks as that of a tick of these.
    fn append_as(&mut self, tick: u64, other: &Rows, index: usize) {
        self.begin(tick);
        for (id, column) in &other.columns {
            if let Some((sample, count)) = column.get(index) {
                self.add_to_last(*id, sample, count);
            }
        }
    }

    /// Adds one column of other rows, which are later and folded at most as often, as the column `id`. There may be more ticks then than can be
    /// encoded in one piece: this is for those who look at them.
    pub fn append_column(&mut self, id: u32, later: &Rows, of: u32) {
        let by = self.folds.saturating_sub(later.folds);
        for (tick, sample, count) in later.column(of) {
            self.begin(tick >> by);
            self.add_to_last(id, sample, count);
        }
    }

    /// Makes one tick of the ticks 2k and 2k + 1.
    #[must_use]
    pub fn fold(&self) -> Self {
        if self.folds >= MAX_FOLDS {
            return self.clone();
        }
        let mut folded = Self::new(self.folds + 1);
        for (index, tick) in self.ticks.iter().enumerate() {
            folded.append_as(tick / 2, self, index);
        }
        folded
    }

    /// Folds until it was done so often in all.
    #[must_use]
    pub fn folded_to(self, folds: u8) -> Self {
        let mut rows = self;
        while rows.folds < folds.min(MAX_FOLDS) {
            rows = rows.fold();
        }
        rows
    }

    /// Takes away all ticks but the last `n`.
    pub fn keep_last(&mut self, n: usize) {
        let n_gone = self.ticks.len().saturating_sub(n);
        self.ticks.drain(..n_gone);
        self.columns.values_mut().for_each(|column| column.forget_first(n_gone));
        self.columns.retain(|_, column| column.len() > 0);
    }

    /// Returns the rows as bytes. They are at most a mebibyte if there was [room](Self::has_room) for each tick.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, self.folds];
        put_varint(&mut out, self.ticks.len() as u64);
        let mut part = Vec::new();
        put_numbers(&mut part, &self.ticks);
        put_part(&mut out, &mut part);
        put_varint(&mut out, self.columns.len() as u64);
        for (id, column) in &self.columns {
            put_varint(&mut out, u64::from(*id) << 1 | u64::from(column.kind == ColumnKind::Gauge));
            column.encode(self.ticks.len(), &mut part);
            put_part(&mut out, &mut part);
        }
        out
    }

    /// Reads rows.
    pub fn decode(bytes: &[u8]) -> Result<Self, SeriesFault> {
        Self::decode_columns(bytes, |_| true)
    }

    /// Reads the columns that are wanted, and skips the others.
    pub fn decode_columns(mut bytes: &[u8], wants: impl Fn(u32) -> bool) -> Result<Self, SeriesFault> {
        let bytes = &mut bytes;
        let number = |bytes: &mut &[u8]| take_varint(bytes).ok_or(SeriesFault::Length);
        let bounded = |what: &'static str, claimed: u64, most: usize| {
            let most = most as u64;
            if claimed > most {
                Err(SeriesFault::TooMany { what, claimed, most })
            } else {
                Ok(claimed as usize)
            }
        };
        let [version, folds, rest @ ..] = *bytes else { return Err(SeriesFault::Length) };
        *bytes = rest;
        if *version != VERSION {
            return Err(SeriesFault::Version(*version));
        }
        bounded("folds", u64::from(*folds), MAX_FOLDS.into())?;
        let n_ticks = bounded("ticks", number(bytes)?, MAX_TICKS)?;
        let ticks = take_numbers(take_part(bytes)?, n_ticks).ok_or(SeriesFault::Length)?;
        if !ticks.is_sorted_by(|a, b| a < b) {
            return Err(SeriesFault::Order);
        }
        let n_columns = bounded("columns", number(bytes)?, MAX_COLUMNS)?;
        let mut columns = BTreeMap::new();
        let mut last = None;
        for _ in 0..n_columns {
            let said = number(bytes)?;
            let id = u32::try_from(said >> 1).map_err(|_| SeriesFault::Order)?;
            if last.is_some_and(|last| last >= id) {
                return Err(SeriesFault::Order);
            }
            last = Some(id);
            let kind = if said & 1 == 1 { ColumnKind::Gauge } else { ColumnKind::Counter };
            let part = take_part(bytes)?;
            if wants(id) {
                let column = Column::decode(kind, n_ticks, part).ok_or(SeriesFault::Column(id))?;
                columns.insert(id, column);
            }
        }
        if !bytes.is_empty() {
            return Err(SeriesFault::Length);
        }
        Ok(Self { folds: *folds, ticks, columns })
    }
}

const VERSION: u8 = 1;

/// Writes a part with its length, and empties it.
pub(super) fn put_part(out: &mut Vec<u8>, part: &mut Vec<u8>) {
    put_varint(out, part.len() as u64);
    out.append(part);
}

pub(super) fn take_part<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], SeriesFault> {
    let length = take_varint(bytes).and_then(|length| usize::try_from(length).ok());
    let (part, rest) = length.and_then(|length| bytes.split_at_checked(length)).ok_or(SeriesFault::Length)?;
    *bytes = rest;
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Samples of counters (even columns) and gauges (odd ones) at seconds that ascend, some left out.
    fn any_samples() -> impl Strategy<Value = Vec<(u64, Vec<(u32, Sample)>)>> {
        let gauge = prop_oneof![
            (0i32..10_000).prop_map(|value| f64::from(value) / 100.0),
            any::<f64>(),
            Just(f64::NAN),
            Just(-0.0),
            Just(f64::INFINITY),
        ];
        let sample = prop_oneof![
            (0u32..4, any::<u64>()).prop_map(|(id, value)| (2 * id, Sample::Counter(value))),
            (0u32..4, gauge).prop_map(|(id, value)| (2 * id + 1, Sample::Gauge(value))),
        ];
        let tick = (1u64..5, prop::collection::vec(sample, 0..8));
        (0u64..1 << 40, prop::collection::vec(tick, 1..70)).prop_map(|(from, ticks)| {
            let mut second = from;
            let mut samples = Vec::new();
            for (step, values) in ticks {
                second += step;
                samples.push((second, values));
            }
            samples
        })
    }

    fn rows_of(folds: u8, samples: &[(u64, Vec<(u32, Sample)>)]) -> Rows {
        let mut rows = Rows::new(folds);
        for (second, values) in samples {
            assert_eq!(rows.add(*second, values.iter().copied()), 0);
        }
        rows
    }

    fn all(rows: &Rows) -> Vec<(u32, u64, u64, u32)> {
        let of = |(id, _)| rows.column(id).map(move |(tick, sample, n)| (id, tick, sample.bits(), n));
        rows.columns().flat_map(of).collect()
    }

    fn last_counter(rows: &Rows, id: u32) -> Option<u64> {
        rows.column(id).last().and_then(|(_, sample, _)| match sample {
            Sample::Counter(value) => Some(value),
            Sample::Gauge(_) => None,
        })
    }

    fn n_counted(rows: &Rows) -> u64 {
        rows.columns().flat_map(|(id, _)| rows.column(id)).map(|(_, _, n)| u64::from(n)).sum()
    }

    proptest! {
        #[test]
        fn any_values_survive_a_round_trip(samples in any_samples(), folds in 0u8..4, wanted in 0u32..8) {
            let rows = rows_of(folds, &samples);
            let bytes = rows.encode();
            let read = Rows::decode(&bytes).unwrap();
            prop_assert_eq!((read.folds(), read.ticks()), (folds, rows.ticks()));
            prop_assert_eq!(all(&read), all(&rows));
            let one = Rows::decode_columns(&bytes, |id| id == wanted).unwrap();
            let of_one: Vec<_> = all(&rows).into_iter().filter(|(id, ..)| *id == wanted).collect();
            prop_assert_eq!(all(&one), of_one);
        }

        #[test]
        fn what_is_cut_is_refused(samples in any_samples(), at in any::<prop::sample::Index>()) {
            let bytes = rows_of(0, &samples).encode();
            prop_assert!(Rows::decode(&bytes[..at.index(bytes.len())]).is_err());
        }

        #[test]
        fn any_bytes_come_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..300), valid in any::<bool>()) {
            let bytes = if valid { [&[VERSION, 0][..], &bytes].concat() } else { bytes };
            let _ = Rows::decode(&bytes);
        }

        /// A counter's last value is the last value, and every sample stays counted once.
        #[test]
        fn folding_keeps_last_values_and_counts(samples in any_samples(), folds in 1u8..12) {
            let rows = rows_of(0, &samples);
            let folded = rows.clone().folded_to(folds);
            for id in [0, 2, 4, 6] {
                prop_assert_eq!(last_counter(&folded, id), last_counter(&rows, id));
            }
            prop_assert_eq!(n_counted(&folded), n_counted(&rows));
            let ticks: std::collections::BTreeSet<u64> = rows.ticks().iter().map(|tick| tick >> folds).collect();
            prop_assert!(folded.ticks().iter().eq(ticks.iter()));
        }

        /// Whether samples are folded before or after they are added does not matter.
        #[test]
        fn folding_and_adding_commute(samples in any_samples(), folds in 1u8..6, at in any::<prop::sample::Index>()) {
            let late = rows_of(0, &samples).folded_to(folds);
            let early = rows_of(folds, &samples);
            let (first, second) = samples.split_at(at.index(samples.len()));
            // Or half and half: folded, and gone on with.
            let mut mixed = rows_of(0, first).folded_to(folds);
            for (second, values) in second {
                mixed.add(*second, values.iter().copied());
            }
            for other in [early, mixed] {
                prop_assert_eq!(late.ticks(), other.ticks());
                for (id, kind) in late.columns() {
                    let pairs = late.column(id).zip(other.column(id));
                    for ((tick, a, n), (other_tick, b, m)) in pairs {
                        prop_assert_eq!((tick, n), (other_tick, m));
                        match (kind, a, b) {
                            (ColumnKind::Gauge, Sample::Gauge(a), Sample::Gauge(b)) if (a - b).is_finite() => {
                                prop_assert!((a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-300), "{} {}", a, b);
                            }
                            (ColumnKind::Counter, a, b) => prop_assert_eq!(a, b),
                            _ => {}
                        }
                    }
                    prop_assert_eq!(late.column(id).count(), other.column(id).count());
                }
            }
        }

        #[test]
        fn folding_keeps_the_sum_of_a_gauge(values in prop::collection::vec((1u64..4, 0i32..1_000_000), 1..200), folds in 1u8..8) {
            let mut rows = Rows::new(0);
            let mut second = 77;
            for (step, value) in &values {
                second += step;
                rows.add(second, [(0, Sample::Gauge(f64::from(*value) / 16.0))]);
            }
            let sum = |rows: &Rows| -> f64 {
                rows.column(0).map(|(_, sample, n)| match sample {
                    Sample::Gauge(value) => value * f64::from(n),
                    Sample::Counter(_) => 0.0,
                }).sum()
            };
            let (before, after) = (sum(&rows), sum(&rows.clone().folded_to(folds)));
            prop_assert!((before - after).abs() <= 1e-9 * before.abs().max(1.0), "{} {}", before, after);
        }

    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn whatever_has_room_fits_into_a_block(seed in any::<u64>(), n_columns in 1usize..=MAX_COLUMNS) {
            let mut rows = Rows::new(0);
            let mut state = seed | 1;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state ^ state >> 29
            };
            let mut second = 0;
            while rows.has_room(n_columns) && rows.ticks.len() < 33 {
                // Sparse, random and of both kinds: the worst there is.
                second += 1 + next() % 1000;
                let samples: Vec<(u32, Sample)> = (0..n_columns as u32).filter(|_| next() % 8 > 0).collect::<Vec<_>>().into_iter()
                    .map(|id| (id, if id % 2 == 0 { Sample::Counter(next()) } else { Sample::Gauge(f64::from_bits(next())) })).collect();
                rows.add(second, samples);
            }
            let most = rows.ticks.len() as f64 / Rows::most_ticks(n_columns) as f64 * MAX_ENCODED as f64;
            prop_assert!((rows.encode().len() as f64) <= most + (COLUMN_BYTES * (n_columns + 1)) as f64);
        }
    }

    #[test]
    fn a_clock_that_is_set_back_changes_the_last_tick_only() {
        let mut rows = Rows::new(0);
        rows.add(100, [(0, Sample::Counter(5))]);
        rows.add(90, [(0, Sample::Counter(7))]);
        rows.add(101, [(0, Sample::Counter(9))]);
        assert_eq!(rows.ticks(), [100, 101]);
        let values: Vec<_> = rows.column(0).collect();
        assert_eq!(values, [(100, Sample::Counter(7), 2), (101, Sample::Counter(9), 1)]);
        assert_eq!(rows.add(102, [(0, Sample::Gauge(1.0))]), 1, "it is a counter");
    }

    #[test]
    fn claims_beyond_a_bound_are_refused() {
        let claim = |n_ticks: u64, n_columns: u64| {
            let mut bytes = vec![VERSION, 0];
            put_varint(&mut bytes, n_ticks);
            let mut part = Vec::new();
            put_numbers(&mut part, &(0..n_ticks.min(4096)).collect::<Vec<_>>());
            put_part(&mut bytes, &mut part);
            put_varint(&mut bytes, n_columns);
            Rows::decode(&bytes)
        };
        assert!(claim(1024, 0).is_ok());
        assert!(matches!(claim(1025, 0), Err(SeriesFault::TooMany { what: "ticks", .. })));
        assert!(matches!(claim(u64::MAX, 0), Err(SeriesFault::TooMany { what: "ticks", .. })));
        assert!(matches!(claim(1, u64::MAX), Err(SeriesFault::TooMany { what: "columns", .. })));
        assert_eq!(claim(1, 1), Err(SeriesFault::Length));
        assert!(matches!(Rows::decode(&[VERSION, 31, 0]), Err(SeriesFault::TooMany { what: "folds", .. })));
        assert_eq!(Rows::decode(&[9, 0]), Err(SeriesFault::Version(9)));
    }

    #[test]
    fn only_the_last_ticks_are_kept() {
        let mut rows = Rows::new(0);
        for second in 0..10 {
            rows.add(second, [(if second < 3 { 0 } else { 1 }, Sample::Counter(second))]);
        }
        rows.keep_last(2);
        assert_eq!((rows.ticks(), all(&rows)), (&[8, 9][..], vec![(1, 8, 8, 1), (1, 9, 9, 1)]));
        assert_eq!(Rows::decode(&rows.encode()).unwrap(), rows);
    }

    #[test]
    fn usual_metrics_take_less_than_two_bytes_a_sample() {
        for n_ticks in [64, 1024] {
            let rows = usual_rows(n_ticks);
            let bytes = rows.encode().len() as f64 / rows.n_samples() as f64;
            assert!(bytes <= 1.6, "at {n_ticks} ticks: {bytes}");
            // And when they are folded.
            let folded = rows.folded_to(2);
            let bytes = folded.encode().len() as f64 / folded.n_samples() as f64;
            assert!(bytes <= 3.0, "at {n_ticks} ticks, folded: {bytes}");
        }
    }

    /// Columns as a job and a machine have them.
    fn usual_rows(n_ticks: u64) -> Rows {
        let mut state = 42u64;
        let mut random = move |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let mut bytes = 7 << 30;
        let (mut ns, mut calls, mut load, mut free) = (0u64, 0u64, 3.0f64, 12_000_000u64);
        let mut rows = Rows::new(0);
        let mut busy = 1u64 << 40;
        for tick in 0..n_ticks {
            if tick % 20 < 4 {
                let n = 40 + random(20);
                bytes += n << 20;
                calls += n;
                ns += n * 900_000 + random(5_000_000);
            }
            busy += 300_000_000 + random(1 << 13) * 4096;
            load = (load * 100.0 + random(9) as f64 - 4.0).round().max(0.0) / 100.0;
            free = free + random(400) * 4 - 798;
            let samples = [
                Sample::Counter(bytes),
                Sample::Counter(calls),
                Sample::Counter(ns),
                Sample::Counter(busy),
                Sample::Gauge(load),
                Sample::Gauge((free * 1024) as f64),
            ];
            rows.add(1_800_000_000 + tick, (0..).zip(samples));
        }
        rows
    }
}
