//! Events as Parquet: the columns of the table, a row group at a time.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use iotide_trace::{Event, JobInfo, Loss};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::RowWriter;
use super::json::{job_members, loss_object};

/// Names and units are those of the table of events. Readers take `calls` as unsigned.
const SCHEMA: &str = "
message iotide_events {
    required int32 rank;
    required binary op (STRING);
    required double start;
    required double end;
    required double bytes;
    optional binary file (STRING);
    required binary layer (STRING);
    required binary grain (STRING);
    required int32 calls (INTEGER(32, false));
}";

/// Rows held in memory, about 100 bytes each, and the granularity at which readers can skip.
const ROWS_PER_GROUP: usize = 128 << 10;

pub(super) struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    group: Group,
}

/// The rows of a row group, by columns.
#[derive(Default)]
struct Group {
    ranks: Vec<i32>,
    ops: Vec<ByteArray>,
    starts: Vec<f64>,
    ends: Vec<f64>,
    bytes: Vec<f64>,
    files: Vec<ByteArray>,
    /// 1 for a row that has a file.
    has_file: Vec<i16>,
    layers: Vec<ByteArray>,
    grains: Vec<ByteArray>,
    calls: Vec<i32>,
    /// One copy of each name in this group.
    names: HashMap<String, ByteArray>,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file that says in its metadata what is known of the job, and what is missing.
    pub(super) fn new(out: W, job: &JobInfo, losses: &[Loss]) -> io::Result<Self> {
        let losses: Vec<_> = losses.iter().map(loss_object).collect();
        let about = [
            ("iotide.job", format!("{{{}}}", job_members(job).join(","))),
            ("iotide.losses", format!("[{}]", losses.join(","))),
        ];
        let about = about.map(|(key, value)| KeyValue { key: key.to_owned(), value: Some(value) });
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("iotide {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(about.to_vec()))
            .build();
        let schema = parse_message_type(SCHEMA).map_err(io_error)?;
        let file =
            SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(io_error)?;
        Ok(Self { file, group: Group::default() })
    }

    fn close_group(&mut self) -> Result<()> {
        let group = std::mem::take(&mut self.group);
        let mut columns = self.file.next_row_group()?;
        put::<Int32Type, W>(&mut columns, &group.ranks, None)?;
        put::<ByteArrayType, W>(&mut columns, &group.ops, None)?;
        put::<DoubleType, W>(&mut columns, &group.starts, None)?;
        put::<DoubleType, W>(&mut columns, &group.ends, None)?;
        put::<DoubleType, W>(&mut columns, &group.bytes, None)?;
        put::<ByteArrayType, W>(&mut columns, &group.files, Some(&group.has_file))?;
        put::<ByteArrayType, W>(&mut columns, &group.layers, None)?;
        put::<ByteArrayType, W>(&mut columns, &group.grains, None)?;
        put::<Int32Type, W>(&mut columns, &group.calls, None)?;
        columns.close().map(drop)
    }
}

/// Writes the next column of a row group.
fn put<T: DataType, W: Write + Send>(
    columns: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    is_there: Option<&[i16]>,
) -> Result<()> {
    let missing = || ParquetError::General("the schema has fewer columns than the table".to_owned());
    let mut column = columns.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, is_there, None)?;
    column.close()
}

impl Group {
    fn name(&mut self, name: &str) -> ByteArray {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let new = ByteArray::from(name);
        self.names.insert(name.to_owned(), new.clone());
        new
    }

    fn push(&mut self, event: &Event, file: Option<&str>) {
        let Event { op, layer, grain, rank, start, end, bytes, calls, .. } = *event;
        self.ranks.push(rank.0);
        self.starts.push(start.as_secs());
        self.ends.push(end.as_secs());
        self.bytes.push(bytes);
        // Two's complement: the column's type says that it is unsigned.
        self.calls.push(calls as i32);
        let (op, layer, grain) = (self.name(op.name()), self.name(layer.name()), self.name(grain.name()));
        self.ops.push(op);
        self.layers.push(layer);
        self.grains.push(grain);
        self.has_file.push(i16::from(file.is_some()));
        if let Some(file) = file {
            let file = self.name(file);
            self.files.push(file);
        }
    }
}

impl<W: Write + Send> RowWriter for ParquetWriter<W> {
    fn write(&mut self, event: &Event, file: Option<&str>) -> io::Result<()> {
        self.group.push(event, file);
        if self.group.ranks.len() >= ROWS_PER_GROUP { self.close_group().map_err(io_error) } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if !self.group.ranks.is_empty() {
            self.close_group().map_err(io_error)?;
        }
        self.file.close().map(drop).map_err(io_error)
    }
}

/// Returns the error of the system, where it is known; callers tell a full disk from a reader that went away.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::other(other),
    }
}
