//! Tests of the daemon's parts together.

/// No count is lost or doubled, whatever ends when.
mod crashes;
/// What is kept, and what becomes of it when the file is damaged.
mod store;
