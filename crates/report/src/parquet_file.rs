//! Functions for all Parquet files that are written here.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

/// Begins a file with a schema.
pub fn begin<W: Write + Send>(out: W, schema: &str) -> io::Result<SerializedFileWriter<W>> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("iotide {}", env!("CARGO_PKG_VERSION")))
        .build();
    let schema = parse_message_type(schema).map_err(io_error)?;
    SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(io_error)
}

/// Writes the next column of a row group.
pub fn put<T: DataType, W: Write + Send>(
    columns: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    definitions: Option<&[i16]>,
    repetitions: Option<&[i16]>,
) -> Result<()> {
    let missing = || ParquetError::General("the schema has fewer columns than the table".to_owned());
    let mut column = columns.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, definitions, repetitions)?;
    column.close()
}

/// Returns the error of the system, where it is known; callers distinguish a full disk from a reader that went away.
pub fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::other(other),
    }
}
