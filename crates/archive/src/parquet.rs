//! The runs of an archive as a Parquet table.

use std::io::{self, Write};

use iotide_report::ResultLine;
use iotide_report::parquet_file::{begin, io_error, put};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::writer::SerializedFileWriter;

const SCHEMA: &str = "
message iotide_runs {
    required binary path (STRING);
    required binary format (STRING);
    optional binary jobid (STRING);
    optional binary user (STRING);
    optional binary exe (STRING);
    optional binary application (STRING);
    optional int64 nprocs;
    optional double start_time;
    required double run_time_s;
    required int64 n_events;
    required double bytes_read;
    required double bytes_written;
    required double metadata_requests;
    required double metadata_most_per_s;
    required group categories (LIST) {
        repeated group list {
            required binary element (STRING);
        }
    }
}";

/// Rows that are held in memory, about a kilobyte each, and the granularity at which readers can skip.
const ROWS_PER_GROUP: usize = 1024;

/// Writes runs as rows.
pub(crate) struct RunsTable<W: Write + Send> {
    file: SerializedFileWriter<W>,
    group: Group,
}

#[derive(Default)]
struct Group {
    paths: Vec<ByteArray>,
    formats: Vec<ByteArray>,
    job_ids: Column<ByteArray>,
    users: Column<ByteArray>,
    exes: Column<ByteArray>,
    applications: Column<ByteArray>,
    n_procs: Column<i64>,
    start_times: Column<f64>,
    run_times: Vec<f64>,
    n_events: Vec<i64>,
    bytes_read: Vec<f64>,
    bytes_written: Vec<f64>,
    requests: Vec<f64>,
    most_per_s: Vec<f64>,
    labels: Vec<ByteArray>,
    /// For each label, and for each run without one: 1 if there is one, and 1 if it is not the first of its run.
    has_label: Vec<i16>,
    goes_on: Vec<i16>,
}

/// Values that may be missing.
struct Column<T> {
    values: Vec<T>,
    is_there: Vec<i16>,
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self { values: Vec::new(), is_there: Vec::new() }
    }
}

impl<T> Column<T> {
    fn push(&mut self, value: Option<T>) {
        self.is_there.push(i16::from(value.is_some()));
        self.values.extend(value);
    }
}

impl<W: Write + Send> RunsTable<W> {
    pub(crate) fn create(out: W) -> io::Result<Self> {
        Ok(Self { file: begin(out, SCHEMA)?, group: Group::default() })
    }

    pub(crate) fn push(&mut self, run: &ResultLine<'_>) -> io::Result<()> {
        let group = &mut self.group;
        let job = &run.source.job;
        group.paths.push(ByteArray::from(&*run.source.path));
        group.formats.push(ByteArray::from(&*run.source.format));
        group.job_ids.push(job.jobid.as_deref().map(ByteArray::from));
        group.users.push(job.user.as_deref().map(ByteArray::from));
        group.exes.push(job.exe.as_deref().map(ByteArray::from));
        group.applications.push(run.application.as_deref().map(ByteArray::from));
        group.n_procs.push(job.nprocs.map(|n| i64::try_from(n).unwrap_or(i64::MAX)));
        group.start_times.push(job.start_time);
        group.run_times.push(run.run_time_s);
        group.n_events.push(i64::try_from(run.source.n_events).unwrap_or(i64::MAX));
        group.bytes_read.push(run.source.bytes_read);
        group.bytes_written.push(run.source.bytes_written);
        group.requests.push(run.metadata.requests);
        group.most_per_s.push(run.metadata.most_per_s);
        if run.categories.is_empty() {
            group.has_label.push(0);
            group.goes_on.push(0);
        }
        for (i, label) in run.categories.iter().enumerate() {
            group.labels.push(ByteArray::from(&**label));
            group.has_label.push(1);
            group.goes_on.push(i16::from(i > 0));
        }
        if group.paths.len() >= ROWS_PER_GROUP { self.close_group().map_err(io_error) } else { Ok(()) }
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        if !self.group.paths.is_empty() {
            self.close_group().map_err(io_error)?;
        }
        self.file.into_inner().map_err(io_error)
    }

    fn close_group(&mut self) -> Result<()> {
        let group = std::mem::take(&mut self.group);
        let mut columns = self.file.next_row_group()?;
        let columns_ref = &mut columns;
        put::<ByteArrayType, W>(columns_ref, &group.paths, None, None)?;
        put::<ByteArrayType, W>(columns_ref, &group.formats, None, None)?;
        for column in [&group.job_ids, &group.users, &group.exes, &group.applications] {
            put::<ByteArrayType, W>(columns_ref, &column.values, Some(&column.is_there), None)?;
        }
        put::<Int64Type, W>(columns_ref, &group.n_procs.values, Some(&group.n_procs.is_there), None)?;
        put::<DoubleType, W>(
            columns_ref,
            &group.start_times.values,
            Some(&group.start_times.is_there),
            None,
        )?;
        put::<DoubleType, W>(columns_ref, &group.run_times, None, None)?;
        put::<Int64Type, W>(columns_ref, &group.n_events, None, None)?;
        for values in [&group.bytes_read, &group.bytes_written, &group.requests, &group.most_per_s] {
            put::<DoubleType, W>(columns_ref, values, None, None)?;
        }
        put::<ByteArrayType, W>(columns_ref, &group.labels, Some(&group.has_label), Some(&group.goes_on))?;
        columns.close().map(drop)
    }
}
