/// Every real log against what an independent reader found in it.
mod golden;
/// Logs that the tests write themselves, in all versions, byte orders and packings.
mod made;
/// Bytes that are no log, or no longer one.
mod mutated;
/// Output of the parsers of Darshan.
pub mod text;
/// A writer of logs.
pub mod writer;
