//! Tests of the daemon's parts together.

/// No count is lost or doubled, whatever ends when.
mod crashes;
/// Persistent data, and the handling of a damaged file.
mod store;
