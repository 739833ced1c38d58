//! Signatures as Parquet: a row each, the series as a list.

use std::io::{self, Write};

use iotide_analysis::Burst;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::writer::SerializedFileWriter;

use super::SignatureEntry;
use crate::parquet_file::{begin, io_error, put};

/// Names and units are those of the JSON form.
const SCHEMA: &str = "
message iotide_signatures {
    required binary user (STRING);
    required binary name (STRING);
    optional int64 nodes;
    required int64 runs;
    required int64 samples_used;
    required int64 samples_rejected;
    required binary method (STRING);
    required double confidence;
    required double bytes;
    required double background_bps;
    optional double period_s;
    optional double spread;
    required double interval_s;
    required double offset_s;
    required group bandwidth_bps (LIST) { repeated group list { required double element; } }
    required group burst_start_s (LIST) { repeated group list { required double element; } }
    required group burst_end_s (LIST) { repeated group list { required double element; } }
    required group burst_peak_bps (LIST) { repeated group list { required double element; } }
    required group burst_bytes (LIST) { repeated group list { required double element; } }
}";

/// Values of series that are held in memory before they are written, 8 bytes each.
const VALUES_PER_GROUP: usize = 1 << 21;

/// Writes signatures, a row group at a time.
pub struct SignatureTable<W: Write + Send> {
    file: SerializedFileWriter<W>,
    rows: Columns,
}

/// The rows of a row group, by columns.
#[derive(Default)]
struct Columns {
    texts: [Vec<ByteArray>; 3],
    /// Runs, samples used, samples rejected.
    counts: [Vec<i64>; 3],
    nodes: Vec<i64>,
    has_nodes: Vec<i16>,
    /// Confidence, bytes, background, interval, offset.
    numbers: [Vec<f64>; 5],
    /// Period, spread.
    optional: [(Vec<f64>, Vec<i16>); 2],
    /// Bandwidth, and the bursts' starts, ends, peaks and bytes.
    lists: [List; 5],
}

/// Lists, one after the other, as Parquet lays them out.
#[derive(Default)]
struct List {
    values: Vec<f64>,
    /// 0 where a list has no element, else 1.
    definitions: Vec<i16>,
    /// 0 at the first element of a list, else 1.
    repetitions: Vec<i16>,
}

impl List {
    fn push(&mut self, values: impl Iterator<Item = f64>) {
        let before = self.values.len();
        self.values.extend(values);
        let n = self.values.len() - before;
        self.definitions.extend(std::iter::repeat_n(i16::from(n > 0), n.max(1)));
        self.repetitions.extend((0..n.max(1)).map(|i| i16::from(i > 0)));
    }
}

impl<W: Write + Send> SignatureTable<W> {
    /// Begins a table.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(Self { file: begin(out, SCHEMA)?, rows: Columns::default() })
    }

    /// Adds a row.
    pub fn push(&mut self, entry: &SignatureEntry) -> io::Result<()> {
        self.rows.push(entry);
        if self.rows.lists[0].values.len() >= VALUES_PER_GROUP {
            self.close_group().map_err(io_error)
        } else {
            Ok(())
        }
    }

    /// Writes what is left and the end of the file; returns where it was written to.
    pub fn finish(mut self) -> io::Result<W> {
        if !self.rows.has_nodes.is_empty() {
            self.close_group().map_err(io_error)?;
        }
        self.file.into_inner().map_err(io_error)
    }

    fn close_group(&mut self) -> Result<()> {
        let Columns { texts, counts, nodes, has_nodes, numbers, optional, lists } =
            std::mem::take(&mut self.rows);
        let [users, names, methods] = texts;
        let [runs, used, rejected] = counts;
        let [confidences, bytes, backgrounds, intervals, offsets] = numbers;
        let [periods, spreads] = optional;
        let mut columns = self.file.next_row_group()?;
        put::<ByteArrayType, W>(&mut columns, &users, None, None)?;
        put::<ByteArrayType, W>(&mut columns, &names, None, None)?;
        put::<Int64Type, W>(&mut columns, &nodes, Some(&has_nodes), None)?;
        for count in [runs, used, rejected] {
            put::<Int64Type, W>(&mut columns, &count, None, None)?;
        }
        put::<ByteArrayType, W>(&mut columns, &methods, None, None)?;
        for number in [confidences, bytes, backgrounds] {
            put::<DoubleType, W>(&mut columns, &number, None, None)?;
        }
        for (values, is_there) in [periods, spreads] {
            put::<DoubleType, W>(&mut columns, &values, Some(&is_there), None)?;
        }
        for number in [intervals, offsets] {
            put::<DoubleType, W>(&mut columns, &number, None, None)?;
        }
        for List { values, definitions, repetitions } in lists {
            put::<DoubleType, W>(&mut columns, &values, Some(&definitions), Some(&repetitions))?;
        }
        columns.close().map(drop)
    }
}

impl Columns {
    fn push(&mut self, entry: &SignatureEntry) {
        let group = entry.group.clone().unwrap_or_default();
        for (column, text) in
            self.texts.iter_mut().zip([group.user.as_said(), group.name.as_said(), entry.method])
        {
            column.push(ByteArray::from(text));
        }
        let counts = [group.runs, entry.samples.used, entry.samples.rejected.len()];
        for (column, count) in self.counts.iter_mut().zip(counts) {
            column.push(count as i64);
        }
        self.has_nodes.push(i16::from(group.nodes.is_some()));
        self.nodes.extend(group.nodes.map(|nodes| nodes.min(i64::MAX as u64) as i64));
        let series = &entry.signature;
        let numbers =
            [entry.confidence, entry.bytes, entry.background_bps, series.interval_s, series.offset_s];
        for (column, number) in self.numbers.iter_mut().zip(numbers) {
            column.push(number);
        }
        for ((values, is_there), value) in
            self.optional.iter_mut().zip([entry.period.period_s, entry.spread.relative])
        {
            is_there.push(i16::from(value.is_some()));
            values.extend(value);
        }
        let [bandwidth, starts, ends, peaks, bytes] = &mut self.lists;
        bandwidth.push(series.bandwidth_bps.iter().copied());
        let of = |value: fn(&Burst) -> f64| entry.bursts.iter().map(value);
        starts.push(of(|burst| burst.start_s));
        ends.push(of(|burst| burst.end_s));
        peaks.push(of(|burst| burst.peak_bps));
        bytes.push(of(|burst| burst.bytes));
    }
}
