//! One column of rows.

use iotide_wire::take_varint;

use super::numbers::{put_bits, put_numbers, take_numbers};
use super::put_varint;
use super::rows::{ColumnKind, Sample, put_part, take_part};

/// Cells of one column. They may be fewer than the ticks: then there is nothing in the last of them.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) kind: ColumnKind,
    cells: Cells,
}

#[derive(Clone, Debug)]
enum Cells {
    /// The same in each of the first `n` ticks: most of what a job counts does not change for minutes, and there are hundreds of jobs.
    Same { value: u64, count: u32, n: usize },
    Each {
        values: Vec<u64>,
        /// How many samples each value stands for; 0 where there is none.
        counts: Vec<u32>,
    },
}

impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        let n = self.len().max(other.len());
        self.kind == other.kind && (0..n).all(|index| self.cell(index) == other.cell(index))
    }
}

impl Column {
    pub(super) fn new(kind: ColumnKind) -> Self {
        Self { kind, cells: Cells::Same { value: 0, count: 0, n: 0 } }
    }

    pub(super) fn len(&self) -> usize {
        match &self.cells {
            Cells::Same { n, .. } => *n,
            Cells::Each { values, .. } => values.len(),
        }
    }

    /// The bits of a value, and how many samples it stands for; nothing and 0 where there is none.
    fn cell(&self, index: usize) -> (u64, u32) {
        match &self.cells {
            Cells::Same { value, count, n } if index < *n => (*value, *count),
            Cells::Each { values, counts } if index < values.len() => (values[index], counts[index]),
            _ => (0, 0),
        }
    }

    pub(super) fn n_samples(&self) -> usize {
        (0..self.len()).filter(|index| self.cell(*index).1 > 0).count()
    }

    pub(super) fn get(&self, index: usize) -> Option<(Sample, u32)> {
        let (value, count) = self.cell(index);
        (count > 0).then(|| (Sample::of_bits(self.kind, value), count))
    }

    /// Merges a sample into the last of `n` ticks.
    pub(super) fn add(&mut self, n: usize, sample: Sample, count: u32) {
        match &mut self.cells {
            Cells::Same { n: 0, .. } if n == 1 => {
                self.cells = Cells::Same { value: sample.bits(), count, n };
                return;
            }
            Cells::Same { value, count: own, n: known }
                if *known > 0 && n == *known + 1 && *value == sample.bits() && *own == count =>
            {
                *known = n;
                return;
            }
            _ => {}
        }
        let kind = self.kind;
        let (values, counts) = self.each();
        values.resize(n, 0);
        counts.resize(n, 0);
        if let (Some(value), Some(own)) = (values.last_mut(), counts.last_mut()) {
            *value = Sample::of_bits(kind, *value).merged(*own, sample, count).bits();
            *own = own.saturating_add(count);
        }
    }

    /// Sets the value of the last of `n` ticks, which stands for as many samples as it did, or for one.
    pub(super) fn set(&mut self, n: usize, sample: Sample) {
        if self.cell(n - 1) == (sample.bits(), 1) || self.kind != sample.kind() {
            return;
        }
        let (values, counts) = self.each();
        values.resize(n, 0);
        counts.resize(n, 0);
        if let (Some(value), Some(count)) = (values.last_mut(), counts.last_mut()) {
            (*value, *count) = (sample.bits(), (*count).max(1));
        }
    }

    /// The values one by one.
    fn each(&mut self) -> (&mut Vec<u64>, &mut Vec<u32>) {
        if let Cells::Same { value, count, n } = self.cells {
            self.cells = Cells::Each { values: vec![value; n], counts: vec![count; n] };
        }
        match &mut self.cells {
            Cells::Each { values, counts } => (values, counts),
            Cells::Same { .. } => unreachable!("it was made so above"),
        }
    }

    /// Takes away the first `n` ticks.
    pub(super) fn forget_first(&mut self, n_gone: usize) {
        match &mut self.cells {
            Cells::Same { n, .. } => *n = n.saturating_sub(n_gone),
            Cells::Each { values, counts } => {
                let n_gone = n_gone.min(values.len());
                values.drain(..n_gone);
                counts.drain(..n_gone);
            }
        }
    }
}

/// A gauge whose values are all whole multiples of one of these fractions is written as whole numbers: what a thermometer or `/proc` says has few
/// digits, and the mean of two has half of the last one.
const FRACTIONS: [f64; 14] = [1.0, 10.0, 100.0, 1e3, 1e4, 1e6, 1e9, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1024.0];
/// Written in place of a fraction if there is none.
const NO_FRACTION: u8 = u8::MAX;

impl Column {
    pub(super) fn encode(&self, n_ticks: usize, out: &mut Vec<u8>) {
        let count = |index: usize| self.cell(index).1;
        let first = count(0);
        if first > 0 && (1..n_ticks).all(|index| count(index) == first) {
            put_varint(out, first.into());
        } else {
            put_varint(out, 0);
            let counts: Vec<u64> = (0..n_ticks).map(|index| count(index).into()).collect();
            let mut part = Vec::new();
            put_numbers(&mut part, &counts);
            put_part(out, &mut part);
        }
        let there = (0..self.len()).map(|index| self.cell(index)).filter(|(_, count)| *count > 0);
        let values: Vec<u64> = there.map(|(value, _)| value).collect();
        match self.kind {
            ColumnKind::Counter => put_numbers(out, &values),
            ColumnKind::Gauge => match whole_multiples(&values) {
                Some((fraction, multiples)) => {
                    out.push(fraction);
                    put_numbers(out, &multiples);
                }
                None => {
                    out.push(NO_FRACTION);
                    put_bits(out, &values);
                }
            },
        }
    }

    pub(super) fn decode(kind: ColumnKind, n_ticks: usize, mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let counts: Vec<u32> = match take_varint(bytes)? {
            0 => {
                let counts = take_numbers(take_part(bytes).ok()?, n_ticks)?;
                counts.into_iter().map(|count| u32::try_from(count).ok()).collect::<Option<_>>()?
            }
            count => vec![u32::try_from(count).ok()?; n_ticks],
        };
        let n_values = counts.iter().filter(|count| **count > 0).count();
        let there = match kind {
            ColumnKind::Counter => take_numbers(bytes, n_values)?,
            ColumnKind::Gauge => {
                let (&fraction, rest) = bytes.split_first()?;
                let mut numbers = take_numbers(rest, n_values)?;
                if fraction != NO_FRACTION {
                    let fraction = FRACTIONS.get(usize::from(fraction))?;
                    let value = |number: u64| (number as i64 as f64 / fraction).to_bits();
                    numbers.iter_mut().for_each(|number| *number = value(*number));
                }
                numbers
            }
        };
        let mut there = there.into_iter();
        let values = counts.iter().map(|count| if *count > 0 { there.next() } else { Some(0) });
        Some(Self { kind, cells: Cells::Each { values: values.collect::<Option<_>>()?, counts } })
    }
}

/// The values as whole numbers of a fraction, which give exactly the same values again; `None` if there is no such fraction.
fn whole_multiples(values: &[u64]) -> Option<(u8, Vec<u64>)> {
    /// Beyond it not every whole number is a float.
    const MOST: f64 = (1u64 << 53) as f64;
    FRACTIONS.iter().enumerate().find_map(|(index, fraction)| {
        let multiple = |bits: &u64| {
            let whole = (f64::from_bits(*bits) * fraction).round();
            // As a whole number, so that the zero with a sign is none.
            let number = whole as i64;
            let is_same = whole.abs() < MOST && (number as f64 / fraction).to_bits() == *bits;
            is_same.then_some(number as u64)
        };
        Some((index as u8, values.iter().map(multiple).collect::<Option<Vec<u64>>>()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However it is held: values that stay the same, change, have holes, or are merged into one tick.
        #[test]
        fn a_column_has_what_was_added(steps in prop::collection::vec((0usize..3, 0u64..2, 1u32..3), 1..40), gone in 0usize..45) {
            let mut column = Column::new(ColumnKind::Counter);
            let mut expected: Vec<Option<(u64, u32)>> = Vec::new();
            for (step, value, count) in steps {
                expected.resize(expected.len() + step, None);
                let Some(last) = expected.last_mut() else { continue };
                let before = last.map_or(0, |(_, count)| count);
                *last = Some((value, before + count));
                column.add(expected.len(), Sample::Counter(value), count);
            }
            let shown = |column: &Column, n: usize| -> Vec<Option<(u64, u32)>> {
                (0..n).map(|index| column.get(index).map(|(sample, count)| (sample.bits(), count))).collect()
            };
            prop_assert_eq!(shown(&column, expected.len()), expected.clone());
            prop_assert_eq!(column.n_samples(), expected.iter().flatten().count());
            let mut bytes = Vec::new();
            column.encode(expected.len(), &mut bytes);
            prop_assert_eq!(Column::decode(ColumnKind::Counter, expected.len(), &bytes), Some(column.clone()));
            column.forget_first(gone);
            let left = expected.split_off(gone.min(expected.len()));
            prop_assert_eq!(shown(&column, left.len()), left);
        }
    }

    #[test]
    fn what_does_not_change_takes_no_memory() {
        let mut column = Column::new(ColumnKind::Gauge);
        (1..=64).for_each(|n| column.add(n, Sample::Gauge(0.5), 1));
        assert!(matches!(column.cells, Cells::Same { n: 64, .. }));
    }
}
